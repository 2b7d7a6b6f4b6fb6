//! Circles: modules of one crate that use each other, so that a reader has to go to and fro.
//!
//! A module uses those that its paths name (`crate::…`, `super::…`, `self::…`, in imports and elsewhere).
//! A name that a module on the way has by a `use` of its own leads on to where that takes it from
//! (`super::Version` to `data/version`), and so to the file that has it; a name by `*` leads no further.
//! What a module says of its own submodules does not count: it declares them and hands their names on.
//! Tests at the foot of a file do not count either.

use crate::rust::{code_only, ends_in_word, without_tests};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// A module of a crate, or a thing in one, by its names from the root; the root has none.
type Path = Vec<String>;

/// Which modules each uses.
type Uses = BTreeMap<Path, BTreeSet<Path>>;

/// The modules of a crate, and what their `use` lines call by names of their own.
struct Names {
    modules: BTreeSet<Path>,
    /// `data::Version` is `data::version::Version`.
    imported: BTreeMap<Path, Path>,
}

/// The circles of a source folder, each as its modules in order (`engine/run`).
///
/// Two modules in `passed` may name each other's, the second by the first: this arrow is looked past.
pub fn circles(tree: &Tree, source: &str, passed: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files = tree.texts("rs");
    let own = files.filter_map(|(file, text)| Some((file.strip_prefix(source)?, text)));
    let codes: BTreeMap<Path, String> = own
        .map(|(path, text)| (module_of(path), without_tests(&code_only(text)).to_string()))
        .filter(|(module, _)| module.iter().all(|name| name != "tests"))
        .collect();
    let names = Names::of(&codes);
    let uses = codes.iter().map(|(module, code)| {
        let mut used: BTreeSet<Path> = paths_from(code, &["crate::", "super::", "self::"])
            .map(|(path, _)| names.module_with(from_root(module, &path)))
            .collect();
        let is_passed = |other: &Path| passed.contains(&(&module.join("/"), &other.join("/")));
        used.retain(|other| !other.starts_with(module) && !is_passed(other));
        (module.clone(), used)
    });
    closed(&uses.collect())
}

/// `engine/run.rs` is `engine::run`, `engine/mod.rs` is `engine`, and `lib.rs` or `main.rs` the root.
fn module_of(path: &str) -> Path {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut names: Path = path.split('/').map(String::from).collect();
    if names.last().is_some_and(|last| last == "mod") || names == ["lib"] || names == ["main"] {
        names.pop();
    }
    names
}

impl Names {
    fn of(codes: &BTreeMap<Path, String>) -> Self {
        let modules: BTreeSet<Path> = codes.keys().cloned().collect();
        let mut imported = BTreeMap::new();
        for (module, code) in codes {
            for (path, name) in paths_from(code, &["use "]) {
                let first = [&module[..], &path[..1]].concat();
                if matches!(&*path[0], "crate" | "super" | "self") || modules.contains(&first) {
                    let name = [&module[..], &[name]].concat();
                    imported.insert(name, from_root(module, &path));
                }
            }
        }
        Self { modules, imported }
    }

    /// The module whose file has what the path names.
    fn module_with(&self, mut path: Path) -> Path {
        // Every name leads on once at most, unless they lead in a circle.
        for _ in 0..=self.imported.len() {
            let is_module = |length: &usize| self.modules.contains(&path[..*length]);
            let known = (1..=path.len()).take_while(is_module).count();
            match path.get(..=known).and_then(|name| self.imported.get(name)) {
                Some(there) => path = [there, &path[known + 1..]].concat(),
                None => return path[..known].to_vec(),
            }
        }
        Path::new()
    }
}

/// A path as a module writes it, from the root.
fn from_root(module: &Path, path: &[String]) -> Path {
    let mut names = match path[0].as_str() {
        "crate" => Path::new(),
        _ => module.clone(),
    };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => _ = names.pop(),
            name => names.push(name.to_string()),
        }
    }
    names
}

/// All paths in the code that begin with one of the starts (after it if that is `use `), and what each is called.
fn paths_from(code: &str, starts: &[&str]) -> impl Iterator<Item = (Path, String)> {
    let mut paths = Vec::new();
    for start in starts {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            if !ends_in_word(before) && !before.ends_with("::") {
                let text = code[at..].trim_start_matches("use ");
                each_path(text, &mut Path::new(), &mut paths);
            }
        }
    }
    paths.into_iter()
}

/// Collects the paths of a tree (`a::{b, c::d as e}`) that the text begins with, each with its last name or
/// the one after `as`; returns what follows it.
fn each_path<'t>(text: &'t str, path: &mut Path, paths: &mut Vec<(Path, String)>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            let before = path.len();
            rest = each_path(rest, path, paths).trim_start();
            path.truncate(before);
            rest = match (rest.strip_prefix(','), rest.find('}')) {
                (Some(next), _) => next,
                (None, Some(end)) => return &rest[end + 1..],
                (None, None) => return "",
            };
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !name.is_empty() {
        path.push(name.to_string());
    }
    match rest.strip_prefix("::") {
        Some(deeper) if !name.is_empty() => each_path(deeper, path, paths),
        _ => {
            let stop = rest.find([',', '}', ';']).unwrap_or(rest.len());
            let alias = rest[..stop].trim().strip_prefix("as ");
            let last = path.iter().rfind(|name| *name != "self");
            if let Some(last) = last {
                paths.push((path.clone(), alias.unwrap_or(last).to_string()));
            }
            match alias {
                Some(_) => &rest[stop..],
                None => rest,
            }
        }
    }
}

/// The largest groups of modules each of which comes to each other's.
fn closed(uses: &Uses) -> Vec<Vec<String>> {
    let reached = |from: &Path| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            let further = uses.get(module).into_iter().flatten();
            next.extend(further.filter(|module| reached.insert((*module).clone())));
        }
        reached
    };
    let reached: BTreeMap<&Path, BTreeSet<Path>> = uses
        .keys()
        .map(|module| (module, reached(module)))
        .collect();
    let mut circles = BTreeSet::new();
    for (module, there) in &reached {
        let back = |other: &&Path| reached.get(other).is_some_and(|of| of.contains(*module));
        let circle: Vec<String> = there.iter().filter(back).map(|on| on.join("/")).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let named = |(name, text): &(&str, &str)| (format!("src/{name}"), text.to_string());
        Tree {
            files: files.iter().map(named).collect(),
        }
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle_however_they_say_so() {
        for (a, b, is_one) in [
            ("use super::b::B;", "use super::a::A;", true),
            ("use super::B;", "use super::a::A;", true),
            ("use super::{B as D, C};", "use crate::A;", true),
            ("use super::Bee as B;", "use super::a::A;", true),
            (
                "use crate::room::b;",
                "use super::{c, a::{A, D as E}};",
                true,
            ),
            (
                "fn f() { super::b::f() }",
                "impl X for crate::room::a::A {}",
                true,
            ),
            ("use super::b::B;", "use crate::other::C;", false),
            ("use super::b::B;", "// use super::a::A;", false),
            (
                "use super::b;",
                "#[cfg(test)] mod tests { use crate::room::a::A; }",
                false,
            ),
            ("use std::b::self_crate::b;", "use super::a::A;", false),
        ] {
            let files = [
                ("lib.rs", "mod room; pub use room::A;"),
                (
                    "room/mod.rs",
                    "mod a; mod b; pub use b::{B as Bee, c}; pub use self::{a::A, b::B};",
                ),
                ("room/a.rs", a),
                ("room/b.rs", b),
                ("other.rs", "use crate::room::a::A;"),
            ];
            let found = circles(&tree(&files), "src/", &[]);
            let expected: Vec<Vec<String>> = match is_one {
                true => vec![vec!["room/a".into(), "room/b".into()]],
                false => vec![],
            };
            // The other room is one more on the way back.
            let found: Vec<_> = found.into_iter().filter(|of| of.len() == 2).collect();
            assert_eq!(found, expected, "{a} {b}");
        }
    }

    #[test]
    fn a_circle_of_three_is_found_whole() {
        let files = [
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::{c, d};"),
            ("c/mod.rs", "use crate::a;"),
            ("d.rs", ""),
        ];
        assert_eq!(circles(&tree(&files), "src/", &[]), [["a", "b", "c"]]);
    }
    #[test]
    fn a_use_that_is_passed_closes_no_circle() {
        let files = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")];
        for (passed, n_circles) in [(("a", "b"), 0), (("b", "a"), 0), (("a", "c"), 1)] {
            let found = circles(&tree(&files), "src/", &[passed]);
            assert_eq!(found.len(), n_circles, "{passed:?}");
        }
    }
}
