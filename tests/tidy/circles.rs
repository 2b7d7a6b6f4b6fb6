//! Circles: modules of one crate that use each other, so that a reader has to go to and fro.
//!
//! A module uses those that its paths name (`crate::…`, `super::…`, `self::…`, in imports and elsewhere).
//! A name that a module on the way has by a `use` of its own leads on to where that takes it from
//! (`super::Version` to `data/version`), and so to the file that has it; a name by `*` leads no further.
//! What a module says of its own submodules does not count: it declares them and hands their names on.
//! Modules of tests do not count either.
//!
//! A module also uses those whose [methods](crate::calls) of a type of both it calls. Circles of such calls are
//! looked for once more by themselves, and then what a module calls in its own submodules counts too.

use crate::calls::calls;
use crate::rust::{code_only, ends_in_word, without_tests};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// A module of a crate, or a thing in one, by its names from the root; the root has none.
pub type Path = Vec<String>;

/// Which modules each uses.
type Uses = BTreeMap<Path, BTreeSet<Path>>;

/// The modules of a crate, and what their `use` lines call by names of their own.
pub struct Names {
    modules: BTreeSet<Path>,
    /// `data::Version` is `data::version::Version`.
    imported: BTreeMap<Path, Path>,
}

/// The circles of a source folder, each as its modules in order (`engine/run`).
///
/// Two modules in `passed` may name each other's, the second by the first: this arrow is looked past.
pub fn circles(tree: &Tree, source: &str, passed: &[(&str, &str)]) -> Vec<Vec<String>> {
    let codes = codes(tree, source);
    let names = Names::of(&codes);
    let is_passed =
        |module: &Path, other: &Path| passed.contains(&(&module.join("/"), &other.join("/")));
    let mut called = Uses::new();
    for (module, others) in calls(&codes, &names) {
        let others = others
            .into_keys()
            .filter(|other| !is_passed(&module, other));
        called.insert(module.clone(), others.collect());
    }
    let uses = codes.iter().map(|(module, code)| {
        let mut used: BTreeSet<Path> = paths_from(code, &["crate::", "super::", "self::"])
            .map(|(path, _)| names.module_with(from_root(module, &path)))
            .collect();
        used.extend(called.get(module).into_iter().flatten().cloned());
        used.retain(|other| !other.starts_with(module) && !is_passed(module, other));
        (module.clone(), used)
    });
    let mut found = closed(&uses.collect());
    let of_calls = closed(&called).into_iter();
    let is_in = |circle: &[String], other: &[String]| circle.iter().all(|of| other.contains(of));
    let of_calls: Vec<_> = of_calls
        .filter(|of| !found.iter().any(|known| is_in(of, known)))
        .collect();
    found.retain(|known| !of_calls.iter().any(|of| is_in(known, of)));
    found.extend(of_calls);
    found
}

/// What modules of a circle call in each other's files without an import that says so.
pub fn calls_within(tree: &Tree, source: &str, circle: &[String]) -> Vec<String> {
    let codes = codes(tree, source);
    let mut said = Vec::new();
    for (module, others) in calls(&codes, &Names::of(&codes)) {
        for (other, names) in others {
            let (module, other) = (module.join("/"), other.join("/"));
            if circle.contains(&module) && circle.contains(&other) {
                let names = Vec::from_iter(names).join(", ");
                said.push(format!("{module} calls {names} of {other}"));
            }
        }
    }
    said
}

/// The code of each module, without tests.
fn codes(tree: &Tree, source: &str) -> BTreeMap<Path, String> {
    let files = tree.texts("rs");
    let own = files.filter_map(|(file, text)| Some((file.strip_prefix(source)?, text)));
    own.map(|(path, text)| (module_of(path), without_tests(&code_only(text))))
        .filter(|(module, _)| module.iter().all(|name| name != "tests"))
        .collect()
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
    pub fn of(codes: &BTreeMap<Path, String>) -> Self {
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

    /// Where a path leads in the end.
    pub fn led(&self, mut path: Path) -> Path {
        // Every name leads on once at most, unless they lead in a circle.
        for _ in 0..=self.imported.len() {
            let known = self.known(&path);
            match path.get(..=known).and_then(|name| self.imported.get(name)) {
                Some(there) => path = [there, &path[known + 1..]].concat(),
                None => return path,
            }
        }
        Path::new()
    }

    /// The module whose file has what the path names.
    fn module_with(&self, path: Path) -> Path {
        let mut path = self.led(path);
        path.truncate(self.known(&path));
        path
    }

    /// How many names of the path are modules.
    fn known(&self, path: &Path) -> usize {
        let is_module = |length: &usize| self.modules.contains(&path[..*length]);
        (1..=path.len()).take_while(is_module).count()
    }
}

/// A path as a module writes it, from the root.
pub fn from_root(module: &Path, path: &[String]) -> Path {
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

    /// The engine's `run` and `release` called each other's methods for long, and no rule said so.
    #[test]
    fn files_that_call_each_others_methods_of_one_type_are_a_circle() {
        let method = |uses: &str, name: &str, called: &str| {
            format!("use super::{uses};\nimpl A {{\n fn {name}(&self) {{ self.{called}() }}\n}}")
        };
        for (top, a, b, expected) in [
            ("x", method("A", "f", "g"), method("A", "g", "x"), vec![]),
            (
                "x",
                method("A", "f", "g"),
                method("A", "g", "f"),
                vec![vec!["room/a", "room/b"]],
            ),
            // One of the two by an import.
            (
                "x",
                method("A", "f", "g"),
                method("{A, a::B}", "g", "x"),
                vec![vec!["room/a", "room/b"]],
            ),
            // What a module calls in its own submodules counts if they call it, too.
            (
                "f",
                method("A", "f", "top"),
                method("A", "g", "x"),
                vec![vec!["room", "room/a"]],
            ),
            (
                "g",
                method("A", "f", "top"),
                method("A", "g", "f"),
                vec![vec!["room", "room/a", "room/b"]],
            ),
        ] {
            let top = format!(
                "mod a; mod b; struct A;\nimpl A {{\n fn top(&self) {{ self.{top}() }}\n}}"
            );
            let files = [
                ("lib.rs", "mod room;"),
                ("room/mod.rs", &top),
                ("room/a.rs", &a),
                ("room/b.rs", &b),
            ];
            assert_eq!(
                circles(&tree(&files), "src/", &[]),
                expected,
                "{a} {b} {top}"
            );
        }
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
