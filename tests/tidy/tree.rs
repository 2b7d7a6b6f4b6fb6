//! The tree: the text files of the repository, and what their paths mean.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The text files of the repository by their path from its root.
pub struct Tree {
    pub files: BTreeMap<String, String>,
}

/// Applies a rule to the tree and reports every offender.
pub fn judge(rule: impl FnOnce(&Tree) -> Vec<String>) {
    let Some(tree) = Tree::read(Path::new(env!("CARGO_MANIFEST_DIR"))) else {
        eprintln!("skipped: this is not a git checkout, or there is no git");
        return;
    };
    let offenders = rule(&tree);
    let listed = offenders.join("\n");
    match offenders.len() {
        0 => {}
        1 => panic!("an offender:\n{listed}\n"),
        n => panic!("{n} offenders:\n{listed}\n"),
    }
}

impl Tree {
    /// None outside a git checkout, or without git.
    ///
    /// # Panics
    /// If git refuses a checkout, as one of another owner: the rules would hold of nothing.
    pub fn read(root: &Path) -> Option<Self> {
        if !root.join(".git").exists() {
            return None;
        }
        let arguments = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let listed = Command::new("git")
            .args(arguments)
            .current_dir(root)
            .output()
            .ok()?;
        let refused = String::from_utf8_lossy(&listed.stderr);
        assert!(listed.status.success(), "git ls-files: {refused}");
        let names = String::from_utf8(listed.stdout).ok()?;
        let names = names.split('\0').filter(|name| !name.is_empty());
        // Deleted files and files that are no text have nothing to say here.
        let texts = names.filter_map(|name| {
            Some((
                name.to_string(),
                std::fs::read_to_string(root.join(name)).ok()?,
            ))
        });
        Some(Self {
            files: texts.collect(),
        })
    }

    pub fn texts<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let has_it = move |file: &str| {
            Path::new(file)
                .extension()
                .is_some_and(|own| own == extension)
        };
        self.files
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str()))
            .filter(move |(file, _)| has_it(file))
    }

    pub fn text(&self, file: &str) -> Option<&str> {
        self.files.get(file).map(String::as_str)
    }

    /// Whether a file, or a folder (with or without its last `/`), is in the tree.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let is_file = !path.ends_with('/') && self.files.contains_key(path);
        is_file || path.is_empty() || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// The `src/` of the root and of each crate.
    pub fn sources(&self) -> BTreeSet<String> {
        let below = |file: &str| match file.split('/').collect::<Vec<_>>()[..] {
            ["src", _, ..] => Some("src/".to_string()),
            ["crates", name, "src", _, ..] => Some(format!("crates/{name}/src/")),
            _ => None,
        };
        self.files.keys().filter_map(|file| below(file)).collect()
    }

    /// The rooms directly in a source folder: files without their extension, and folders.
    pub fn rooms<'a>(&'a self, source: &'a str) -> impl Iterator<Item = &'a str> {
        let paths = self
            .files
            .keys()
            .filter_map(move |file| file.strip_prefix(source));
        let rooms = paths
            .filter(|path| path.ends_with(".rs"))
            .map(room_of)
            .collect::<BTreeSet<_>>();
        rooms.into_iter().filter(|room| *room != "lib")
    }
}

/// `engine/run.rs` and `engine.rs` are in the room `engine`.
pub fn room_of(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Whether a path is the room itself (`room.rs`, `room/`) or lies in it.
pub fn is_in(path: &str, room: &str) -> bool {
    path.strip_prefix(room)
        .is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

pub fn lines_with<'a>(
    text: &'a str,
    is_it: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = usize> + 'a {
    text.lines()
        .enumerate()
        .filter(move |(_, line)| is_it(line))
        .map(|(index, _)| index + 1)
}

pub fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// Whether `path` stands in the line as the beginning of a path, not in the middle of a longer one or of an address.
pub fn begins_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-~/}".contains(c))
    })
}

mod tests {
    use super::*;

    /// In a checkout of another owner all rules passed, for none had a file to look at.
    #[test]
    #[should_panic(expected = "git ls-files: ")]
    fn a_checkout_that_git_refuses_is_not_passed_over() {
        let folder = std::env::temp_dir().join(format!("dataflow-tidy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(".git"), "gitdir: nowhere").unwrap();
        let tree = std::panic::catch_unwind(|| Tree::read(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        tree.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    #[test]
    fn a_path_of_one_machine_is_told_from_the_middle_of_another() {
        let path = concat!("/ho", "me/");
        for (line, expected) in [
            (format!("cd {path}ada"), true),
            (format!("\"{path}ada\""), true),
            (format!("https://example.org{path}ada"), false),
            (format!("${{PREFIX}}{path}ada"), false),
        ] {
            assert_eq!(begins_a_path(&line, path), expected, "{line}");
        }
    }

    #[test]
    fn a_room_is_a_file_or_a_folder_and_nothing_that_merely_begins_alike() {
        for (path, expected) in [
            ("a/pin.rs", true),
            ("a/pin/linux.rs", true),
            ("a/pin", true),
            ("a/pinned.rs", false),
        ] {
            assert_eq!(is_in(path, "a/pin"), expected, "{path}");
        }
        assert_eq!(
            ["engine/run.rs", "engine.rs", "lib.rs"].map(room_of),
            ["engine", "engine", "lib"]
        );
    }
}
