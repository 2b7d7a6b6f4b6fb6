//! Programs: examples and benches, each a crate of the files that its `mod` lines name, wherever they lie.

use crate::markdown::joined;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Folders of programs, and the packages in them that are looked at whole.
const FOLDERS: [&str; 2] = ["examples/", "benches/"];
const PACKAGES: [&str; 2] = ["examples/applications/", "examples/common/"];

/// Where programs lie, one a file.
const ROOTS: [&str; 3] = ["benches/", "examples/", "examples/linalg/"];

/// Each program by its file, with its files as they would lie in a `src/` of its own.
pub fn programs(tree: &Tree) -> Vec<(String, Tree)> {
    let is_here = |file: &str| {
        let lies_in = |folders: [&str; 2]| folders.iter().any(|of| file.starts_with(*of));
        lies_in(FOLDERS) && !lies_in(PACKAGES)
    };
    let files: Vec<&str> = tree
        .texts("rs")
        .map(|(file, _)| file)
        .filter(|file| is_here(file))
        .collect();
    let declared = |file: &&str| modules(tree, file, is_root(file)).into_iter();
    let parts: BTreeSet<String> = files.iter().flat_map(declared).map(|(_, at)| at).collect();
    let roots = files.into_iter().filter(|file| !parts.contains(*file));
    roots
        .map(|root| (root.to_string(), program(tree, root)))
        .collect()
}

/// Whether modules of a file lie beside it: those of programs do, as far as one sees by the name alone.
fn is_root(file: &str) -> bool {
    let lies_in = |folder: &&str| {
        let name = file.strip_prefix(*folder);
        name.is_some_and(|name| !name.contains('/'))
    };
    ROOTS.iter().any(lies_in)
}

/// The files of a program.
fn program(tree: &Tree, root: &str) -> Tree {
    let mut files = vec![("main.rs".to_string(), root.to_string())];
    let mut next = 0;
    while let Some((name, file)) = files.get(next).cloned() {
        let inside = match next {
            0 => String::new(),
            _ => name.trim_end_matches(".rs").to_string() + "/",
        };
        let own = modules(tree, &file, next == 0).into_iter();
        files.extend(own.map(|(module, at)| (format!("{inside}{module}.rs"), at)));
        next += 1;
    }
    let text = |(name, file): (String, String)| Some((name, tree.text(&file)?.to_string()));
    Tree {
        files: files.into_iter().filter_map(text).collect(),
    }
}

/// The modules that a file declares, and their files.
fn modules(tree: &Tree, file: &str, is_root: bool) -> Vec<(String, String)> {
    let (mut found, mut told) = (Vec::new(), None);
    for line in tree.text(file).unwrap_or_default().lines() {
        let line = line.trim();
        if let Some(path) = line.strip_prefix("#[path = \"") {
            told = path.split('"').next();
        }
        let words: Vec<&str> = line.trim_end_matches(';').split(' ').collect();
        let [.., "mod", name] = words[..] else {
            continue;
        };
        if !line.ends_with(';') {
            continue;
        }
        let stem = file.trim_end_matches(".rs").rsplit('/').next();
        let below = format!("{}/{name}", stem.unwrap_or_default());
        let places = match told.take() {
            Some(path) => vec![path.to_string()],
            None if is_root || file.ends_with("/mod.rs") => both(name),
            // Of a file that was named by its path modules lie beside it.
            None => [both(&below), both(name)].concat(),
        };
        let places = places.iter().filter_map(|place| joined(file, place).ok());
        let there = places.into_iter().find(|place| tree.has(place));
        found.extend(there.map(|place| (name.to_string(), place)));
    }
    found
}

/// Where a module may lie.
fn both(module: &str) -> Vec<String> {
    vec![format!("{module}.rs"), format!("{module}/mod.rs")]
}

mod tests {
    use super::*;
    use crate::circles::circles;

    #[test]
    fn a_program_has_the_files_that_its_modules_name_and_circles_in_it_are_found() {
        let files = [
            (
                "examples/a.rs",
                "#[path = \"a/b.rs\"]\n// why\n#[allow(x)]\nmod b;\nmod d;\n#[path = \"c/e.rs\"]\npub(crate) mod e;",
            ),
            ("examples/a/b.rs", "use super::e::E;\nuse super::main;"),
            ("examples/d/mod.rs", "mod f;"),
            ("examples/d/f.rs", "mod g;\nmod tests {}"),
            ("examples/d/f/g.rs", ""),
            ("examples/c/e.rs", "use super::b::B;"),
            ("examples/c.rs", "#[path = \"c/e.rs\"]\nmod e;"),
            ("examples/common/lib.rs", ""),
            (
                "benches/h/k.rs",
                "#[path = \"../../examples/c/e.rs\"]\nmod e;",
            ),
        ];
        let named = |(file, text): (&str, &str)| (file.to_string(), text.to_string());
        let tree = Tree {
            files: files.map(named).into(),
        };
        let found = programs(&tree);
        let shown: Vec<String> = found
            .iter()
            .map(|(root, tree)| {
                let names: Vec<&str> = tree.files.keys().map(String::as_str).collect();
                format!("{root}: {}", names.join(" "))
            })
            .collect();
        let expected = [
            "benches/h/k.rs: e.rs main.rs",
            "examples/a.rs: b.rs d.rs d/f.rs d/f/g.rs e.rs main.rs",
            "examples/c.rs: e.rs main.rs",
        ];
        assert_eq!(shown, expected);
        let circles = found.iter().map(|(_, tree)| circles(tree, "", &[]));
        let expected = [vec![], vec![vec!["b", "e"]], vec![]];
        assert!(circles.eq(expected));
    }
}
