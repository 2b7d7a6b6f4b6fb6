//! The house rules as tests: what a reviewer would have to repeat in every review.
//!
//! Each rule is a function from text to offenders (`file:line: what`), and lists all of them at once.
//! Files are those that git tracks or would track; outside a git checkout every rule is skipped aloud.
//!
//! # The map
//! `ARCHITECTURE.md` holds one fenced block with the info string `map`.
//! A line without indentation is a folder or file from the root of the repository (`crates/dataflow-core/src/`);
//! an indented line is one below the last such folder (`engine/run.rs`).
//! The first word is the path (folders end in `/`), the rest of the line says what it is.
//! Whatever lies directly in a `src/` of a crate or of the root, `lib.rs` excepted, must be on the map.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `unsafe` may stand, and why it must.
const UNSAFE_ROOMS: &[(&str, &str)] = &[
    (
        "crates/dataflow-core/src/engine/job",
        "workers borrow a space that lives on the stack of `run`",
    ),
    ("crates/dataflow-numa/src/pin", "affinity is a system call"),
    (
        "crates/dataflow-numa/src/barrier",
        "membarrier is a system call",
    ),
    (
        "crates/dataflow-numa/src/memory",
        "pages come from system calls",
    ),
    (
        "crates/dataflow-numa/src/pages",
        "the places of pages are system calls",
    ),
    (
        "crates/dataflow-numa/src/topology/hwloc",
        "hwloc is a C library",
    ),
    (
        "crates/dataflow-mpi/src/transport/mpi",
        "MPI is a C library",
    ),
    (
        "crates/dataflow-linalg/src/kernel/openblas",
        "BLAS and LAPACK are C and Fortran libraries",
    ),
];

/// Which crate may depend on which: one line per crate, siblings know nothing of each other.
const ARROWS: &[(&str, &[&str])] = &[
    ("dataflow-core", &[]),
    ("dataflow-numa", &["dataflow-core"]),
    ("dataflow-mpi", &["dataflow-core"]),
    ("dataflow-linalg", &["dataflow-core"]),
    (
        "dataflow-runtime",
        &[
            "dataflow-core",
            "dataflow-numa",
            "dataflow-mpi",
            "dataflow-linalg",
        ],
    ),
    ("xtask", &[]),
];

/// The rooms of the core, lowest first: a room uses those of its own line and of the lines above.
const CORE_LAYERS: &[&[&str]] = &[
    &["sync", "rank", "error", "wire"],
    &["data"],
    &["space"],
    &["engine", "port", "monitor"], // the ports speak of the engine's jobs, the engine runs on the ports
    &["sequence", "recursion"],
];

/// Exported macros stand at the root of their crate; each is a room's all the same.
const MACROS_OF_ROOMS: &[(&str, &str)] = &[("task_names", "space")];

/// Words that leave work for later; written apart so that this file does not break its own rule.
const LEFT_FOR_LATER: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];

/// Macros that stand for code that is not there.
const NOT_THERE: &[&str] = &[concat!("to", "do!"), concat!("unimple", "mented!")];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Use", "rs/"),
];

/// Hosts that serve packages; which one is used is the machine's business.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("deb.deb", "ian.org"),
    concat!("registry.np", "mjs.org"),
];

// ── The rules ────────────────────────────────────────────────────────────────────────────────────

#[test]
fn every_source_file_opens_with_what_it_is() {
    judge(|tree| {
        let openings = ["//! ", "#![doc = include_str!(\"README.md\")]"]; // its own words, or its README's
        let speaks = |text: &str| openings.iter().any(|opening| text.starts_with(opening));
        let silent = tree.texts("rs").filter(|(_, text)| !speaks(text));
        silent
            .map(|(file, _)| format!("{file}:1: does not open with `//!`"))
            .collect()
    });
}

#[test]
fn unsafe_lives_in_its_rooms_only() {
    judge(|tree| {
        let outside = tree
            .texts("rs")
            .filter(|(file, _)| !UNSAFE_ROOMS.iter().any(|(room, _)| is_in(file, room)));
        outside
            .flat_map(|(file, text)| {
                let code = code_only(text);
                let lines =
                    lines_with(&code, |line| identifiers(line).any(|word| word == "unsafe"));
                lines
                    .map(|line| format!("{file}:{line}: `unsafe` outside its rooms"))
                    .collect::<Vec<_>>()
            })
            .collect()
    });
}

#[test]
fn crates_depend_on_each_other_in_their_order() {
    judge(|_| match metadata() {
        Some(metadata) => wrong_dependencies(&metadata),
        None => vec!["Cargo.toml:1: cargo metadata failed".into()],
    });
}

#[test]
fn rooms_of_the_core_use_each_other_one_way() {
    judge(|tree| {
        let source = "crates/dataflow-core/src/";
        let present: BTreeSet<&str> = tree.rooms(source).collect();
        let listed: BTreeSet<&str> = CORE_LAYERS
            .iter()
            .flat_map(|layer| layer.iter().copied())
            .collect();
        let unlisted = present.symmetric_difference(&listed);
        let mut offenders: Vec<String> = unlisted
            .map(|room| format!("{source}{room}:1: in the tree or in CORE_LAYERS, not in both"))
            .collect();
        for (file, text) in tree
            .texts("rs")
            .filter(|(file, _)| file.starts_with(source))
        {
            let path = &file[source.len()..];
            if path != "lib.rs" {
                offenders.extend(
                    wrong_arrows(room_of(path), text, &listed).map(|(line, to)| {
                        format!("{file}:{line}: uses `{to}`, which is no room below it")
                    }),
                );
            }
        }
        offenders
    });
}

#[test]
fn the_map_and_the_tree_agree() {
    judge(|tree| {
        let Some(text) = tree.text("ARCHITECTURE.md") else {
            return vec!["ARCHITECTURE.md:1: is not there".into()];
        };
        let (named, mut offenders) = read_map(text);
        for (line, path) in &named {
            if !tree.has(path) {
                offenders.push(format!("ARCHITECTURE.md:{line}: {path} does not exist"));
            }
        }
        for source in tree.sources() {
            for room in tree.rooms(&source).filter(|room| *room != "lib") {
                let room = format!("{source}{room}");
                if !named.iter().any(|(_, path)| is_in(path, &room)) {
                    offenders.push(format!("{room}: is not on the map of ARCHITECTURE.md"));
                }
            }
        }
        offenders
    });
}

#[test]
fn every_link_inside_the_repository_resolves() {
    judge(|tree| {
        let mut offenders = Vec::new();
        for (file, text) in tree.texts("md") {
            for (line, link) in links(text) {
                if let Err(fault) = resolve(tree, file, &link) {
                    offenders.push(format!("{file}:{line}: link `{link}`: {fault}"));
                }
            }
        }
        offenders
    });
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    judge(|tree| {
        let mut offenders = Vec::new();
        for (file, text) in &tree.files {
            for line in lines_with(text, |line| {
                MACHINE_PATHS.iter().any(|path| begins_a_path(line, path))
            }) {
                offenders.push(format!("{file}:{line}: a path of one machine"));
            }
            for line in lines_with(text, |line| {
                REGISTRY_HOSTS.iter().any(|host| line.contains(host))
            }) {
                offenders.push(format!("{file}:{line}: a package registry's host"));
            }
        }
        offenders
    });
}

#[test]
fn nothing_is_left_for_later() {
    judge(|tree| {
        let mut offenders = Vec::new();
        for (file, text) in &tree.files {
            let waits = |line: &str| identifiers(line).any(|word| LEFT_FOR_LATER.contains(&word));
            offenders.extend(
                lines_with(text, waits).map(|line| format!("{file}:{line}: work left for later")),
            );
        }
        for (file, text) in tree.texts("rs") {
            let code = code_only(text);
            let absent = |line: &str| NOT_THERE.iter().any(|name| line.contains(name));
            offenders.extend(
                lines_with(&code, absent)
                    .map(|line| format!("{file}:{line}: code that is not there")),
            );
        }
        offenders
    });
}

#[test]
fn the_readme_lists_every_example() {
    judge(|tree| {
        let readme = tree.text("README.md").unwrap_or_default();
        let is_example =
            |file: &&str| file.starts_with("examples/") && file.matches('/').count() == 1;
        let examples = tree.texts("rs").map(|(file, _)| file).filter(is_example);
        let unlisted = examples.filter(|file| !readme.contains(*file));
        unlisted
            .map(|file| format!("{file}:1: README.md does not name it"))
            .collect()
    });
}

#[test]
fn every_published_crate_carries_both_licences() {
    judge(|tree| {
        let mut offenders = Vec::new();
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let own = tree.text(licence);
            for source in tree.sources() {
                let copy = format!(
                    "{}{licence}",
                    source.strip_suffix("src/").unwrap_or_default()
                );
                if own.is_none() || tree.text(&copy) != own {
                    offenders.push(format!(
                        "{copy}:1: is not there or differs from {licence} of the root"
                    ));
                }
            }
        }
        offenders
    });
}

// ── The tree ─────────────────────────────────────────────────────────────────────────────────────

/// The text files of the repository by their path from its root.
struct Tree {
    files: BTreeMap<String, String>,
}

/// Applies a rule to the tree and reports every offender.
fn judge(rule: impl FnOnce(&Tree) -> Vec<String>) {
    let Some(tree) = Tree::read() else {
        eprintln!("skipped: this is not a git checkout");
        return;
    };
    let offenders = rule(&tree);
    assert!(
        offenders.is_empty(),
        "{} offenders:\n{}\n",
        offenders.len(),
        offenders.join("\n")
    );
}

impl Tree {
    fn read() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
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
        if !listed.status.success() || !root.join(".git").exists() {
            return None;
        }
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

    fn texts<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
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

    fn text(&self, file: &str) -> Option<&str> {
        self.files.get(file).map(String::as_str)
    }

    /// Whether a file, or a folder (with or without its last `/`), is in the tree.
    fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let is_file = !path.ends_with('/') && self.files.contains_key(path);
        is_file || path.is_empty() || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// The `src/` of the root and of each crate.
    fn sources(&self) -> BTreeSet<String> {
        let below = |file: &str| match file.split('/').collect::<Vec<_>>()[..] {
            ["src", _, ..] => Some("src/".to_string()),
            ["crates", name, "src", _, ..] => Some(format!("crates/{name}/src/")),
            _ => None,
        };
        self.files.keys().filter_map(|file| below(file)).collect()
    }

    /// The rooms directly in a source folder: files without their extension, and folders.
    fn rooms<'a>(&'a self, source: &'a str) -> impl Iterator<Item = &'a str> {
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
fn room_of(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Whether a path is the room itself (`room.rs`, `room/`) or lies in it.
fn is_in(path: &str, room: &str) -> bool {
    path.strip_prefix(room)
        .is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

fn lines_with<'a>(
    text: &'a str,
    is_it: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = usize> + 'a {
    text.lines()
        .enumerate()
        .filter(move |(_, line)| is_it(line))
        .map(|(index, _)| index + 1)
}

fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// Whether `path` stands in the line as the beginning of a path, not in the middle of a longer one or of an address.
fn begins_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-~/}".contains(c))
    })
}

// ── Rust ─────────────────────────────────────────────────────────────────────────────────────────

/// Rust source with comments, strings and character literals blanked; lines keep their numbers.
fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest),
            'r' | 'b' | 'c' if !ends_in_word(&code) => raw_string(rest),
            '\'' => character(rest),
            _ => 0,
        };
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.push(' ');
            code.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
            rest = &rest[skipped..];
        }
    }
    code
}

fn ends_in_word(code: &str) -> bool {
    code.chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The length of a comment `/* … */`, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a literal that begins with `"`.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of `r"…"`, `r#"…"#`, `br"…"`, `cr"…"`, or 0 if the text begins otherwise.
fn raw_string(text: &str) -> usize {
    let marks = text.trim_start_matches(['b', 'c']);
    let Some(marks) = marks.strip_prefix('r') else {
        return 0;
    };
    let hashes = marks.len() - marks.trim_start_matches('#').len();
    let Some(body) = marks[hashes..].strip_prefix('"') else {
        return 0;
    };
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = text.len() - body.len();
    body.find(&end)
        .map_or(text.len(), |at| begin + at + end.len())
}

/// The length of a character literal, or 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            let after = characters.nth(1).map_or(text.len(), |(at, _)| at);
            text[after..].find('\'').map_or(0, |at| after + at + 1)
        }
        Some(_) => characters
            .next()
            .filter(|(_, c)| *c == '\'')
            .map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

/// The code above the tests at the foot of a file.
fn without_tests(code: &str) -> &str {
    let mut from = 0;
    while let Some(at) = code[from..].find("#[cfg(").map(|at| from + at) {
        let end = code[at..].find(']').map_or(code.len(), |end| at + end + 1);
        let is_test = identifiers(&code[at..end]).any(|word| word == "test");
        if is_test && code[end..].trim_start().starts_with("mod ") {
            return &code[..at];
        }
        from = end;
    }
    code
}

/// Uses of rooms that do not lie below `room`: line and what was used.
fn wrong_arrows(
    room: &str,
    text: &str,
    rooms: &BTreeSet<&str>,
) -> impl Iterator<Item = (usize, String)> {
    let layer = |name: &str| {
        let of_room = MACROS_OF_ROOMS
            .iter()
            .find(|(exported, _)| *exported == name);
        let room = of_room.map_or(name, |(_, room)| room);
        CORE_LAYERS.iter().position(|layer| layer.contains(&room))
    };
    let code = code_only(text);
    let arrows = arrows(without_tests(&code), rooms);
    let own = layer(room);
    let is_wrong = move |to: &str| match (layer(to), own) {
        (Some(to), Some(own)) => to > own,
        _ => true, // a name that lib.rs re-exports hides the arrow: name its room
    };
    let own_room = room.to_string();
    arrows
        .into_iter()
        .filter(move |(_, to)| *to != own_room && is_wrong(to))
}

/// First names after `crate::`, and rooms that are reached through `super::`.
fn arrows(code: &str, rooms: &BTreeSet<&str>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            if ends_in_word(&code[..at]) {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            for name in first_names(&code[at + start.len()..]) {
                if start == "crate::" || rooms.contains(name) {
                    found.push((line, name.to_string()));
                }
            }
        }
    }
    found
}

/// `a` of `a::b`, `a` and `c` of `{a::{b}, c}`.
fn first_names(path: &str) -> Vec<&str> {
    let Some(group) = path.trim_start().strip_prefix('{') else {
        return identifiers(path).take(1).collect();
    };
    let (mut depth, mut begin, mut names) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(identifiers(&group[begin..at]).next());
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

// ── Cargo ────────────────────────────────────────────────────────────────────────────────────────

fn metadata() -> Option<serde_json::Value> {
    let mut cargo = Command::new(env!("CARGO"));
    let cargo = cargo.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let out = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    serde_json::from_slice(&out.stdout).ok()
}

/// Arrows between crates of this workspace that [`ARROWS`] does not allow, of any kind (normal, dev, build).
fn wrong_dependencies(metadata: &serde_json::Value) -> Vec<String> {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut offenders = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(own, _)| *own == name) else {
            offenders.push(format!("Cargo.toml:1: crate {name} has no line in ARROWS"));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let to = dependency["name"].as_str().unwrap_or_default();
            if dependency["path"].is_string() && !allowed.contains(&to) {
                offenders.push(format!("{name}/Cargo.toml:1: depends on {to}"));
            }
        }
    }
    offenders
}

// ── Markdown ─────────────────────────────────────────────────────────────────────────────────────

/// Lines outside fenced blocks with their numbers, inline code blanked.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => lines.push((index + 1, without_inline_code(line))),
            _ => {}
        }
    }
    lines
}

fn without_inline_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_code = |index: usize| index % 2 == 1 && index + 1 < parts.len();
    let shown = parts
        .iter()
        .enumerate()
        .map(|(index, part)| if is_code(index) { "" } else { part });
    shown.collect::<Vec<_>>().join("`")
}

/// Targets of inline links, images, reference definitions and HTML attributes.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        for (start, ends) in [("](", ")"), ("src=\"", "\""), ("href=\"", "\"")] {
            for (at, _) in line.match_indices(start) {
                let target = line[at + start.len()..]
                    .split(ends)
                    .next()
                    .unwrap_or_default();
                links.push((
                    number,
                    target.split(' ').next().unwrap_or_default().to_string(),
                ));
            }
        }
        let definition = line
            .trim_start()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition {
            links.push((
                number,
                target
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_string(),
            ));
        }
    }
    links
}

fn resolve(tree: &Tree, from: &str, link: &str) -> Result<(), String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(()); // the world outside is not ours to check
    }
    let (path, anchor) = link
        .split_once('#')
        .map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() {
        from.to_string()
    } else {
        joined(from, path)?
    };
    if !tree.has(&file) {
        return Err(format!("there is no {file}"));
    }
    match (anchor, tree.text(&file)) {
        (None, _) => Ok(()),
        (Some(anchor), Some(text)) if file.ends_with(".md") => {
            if anchors(text).contains(anchor) {
                Ok(())
            } else {
                Err(format!("{file} has no heading for it"))
            }
        }
        (Some(anchor), Some(text)) => {
            let line = anchor
                .strip_prefix('L')
                .and_then(|line| line.parse::<usize>().ok());
            let is_there = line.is_some_and(|line| (1..=text.lines().count()).contains(&line));
            if is_there {
                Ok(())
            } else {
                Err(format!("{file} has no such line"))
            }
        }
        (Some(_), None) => Err("a folder has no anchors".into()),
    }
}

/// The path from the root that a relative link of a file means.
fn joined(from: &str, link: &str) -> Result<String, String> {
    let mut path = PathBuf::from(from);
    path.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." if path.pop() => {}
            ".." => return Err("leads out of the repository".into()),
            part => path.push(part),
        }
    }
    Ok(path.to_string_lossy().replace('\\', "/"))
}

/// The anchors that GitHub gives to the headings of a text, and those set by hand.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        let depth = line.len() - heading.len();
        if !fenced && (1..=6).contains(&depth) && heading.starts_with(' ') {
            let slug = slug(heading);
            let numbered = (1..).map(|count| format!("{slug}-{count}"));
            let free = std::iter::once(slug.clone())
                .chain(numbered)
                .find(|anchor| !anchors.contains(anchor));
            anchors.extend(free);
        }
        for start in ["id=\"", "name=\""] {
            anchors.extend(
                line.split(start)
                    .skip(1)
                    .filter_map(|rest| rest.split('"').next())
                    .map(String::from),
            );
        }
    }
    anchors
}

/// Lower case, spaces to hyphens, punctuation gone; a link counts with its text only.
fn slug(heading: &str) -> String {
    let mut text = heading.trim().to_lowercase();
    while let Some(at) = text.find("](") {
        let end = text[at..].find(')').map_or(text.len(), |end| at + end + 1);
        text.replace_range(at..end, "");
    }
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The paths of the map with their lines, and what is wrong with its form.
fn read_map(text: &str) -> (Vec<(usize, String)>, Vec<String>) {
    let mut offenders = Vec::new();
    let mut named = Vec::new();
    let mut folder = String::new();
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    let block = lines
        .skip_while(|(_, line)| line.trim() != "```map")
        .skip(1);
    for (number, line) in block.take_while(|(_, line)| line.trim() != "```") {
        let Some(word) = line.split_whitespace().next() else {
            continue;
        };
        if !word.ends_with('/') && !word.contains('.') {
            offenders.push(format!("ARCHITECTURE.md:{number}: `{word}` is no path"));
        } else if line.starts_with(' ') {
            named.push((number, format!("{folder}{word}")));
        } else {
            folder = if word.ends_with('/') {
                word.to_string()
            } else {
                String::new()
            };
            named.push((number, word.to_string()));
        }
    }
    if named.is_empty() {
        offenders.push("ARCHITECTURE.md:1: has no block ```map".into());
    }
    (named, offenders)
}

// ── The rules' own tests ─────────────────────────────────────────────────────────────────────────

#[test]
fn code_is_told_from_comments_strings_and_characters() {
    for (text, has_unsafe) in [
        ("unsafe { a() }", true),
        ("// unsafe\n", false),
        ("/* a /* unsafe */ unsafe */ b", false),
        ("/* a */ unsafe fn b() {}", true),
        (r#"let a = "unsafe \" unsafe"; b"#, false),
        (r##"let a = r#"" unsafe "#; b"##, false),
        ("let a = b\"unsafe\"; let c = br\"unsafe\";", false),
        ("let a = '\"'; unsafe { b('\\'') }", true),
        ("fn a<'a>(b: &'a str) { unsafe { c(b) } }", true),
        ("#![deny(unsafe_op_in_unsafe_fn)]", false),
        ("let r = 1; unsafe impl Send for A {}", true),
    ] {
        let code = code_only(text);
        assert_eq!(
            identifiers(&code).any(|word| word == "unsafe"),
            has_unsafe,
            "{text} → {code}"
        );
        assert_eq!(
            code.matches('\n').count(),
            text.matches('\n').count(),
            "{text}"
        );
    }
}

#[test]
fn an_arrow_against_the_order_is_seen() {
    let rooms: BTreeSet<&str> = CORE_LAYERS
        .iter()
        .flat_map(|layer| layer.iter().copied())
        .collect();
    for (room, text, expected) in [
        (
            "engine",
            "use crate::data::Datum;\nuse crate::{rank::Rank, space::{a, b}};",
            vec![],
        ),
        (
            "data",
            "use crate::rank::Rank;\nuse crate::engine::Run;",
            vec![(2, "engine")],
        ),
        (
            "data",
            "use crate::{\n  rank::{Rank, of},\n  space::Flow,\n};",
            vec![(1, "space")],
        ),
        (
            "space",
            "fn a() -> crate::port::Lane { b }",
            vec![(1, "port")],
        ),
        ("data", "use super::engine::Run;", vec![(1, "engine")]),
        ("data", "use crate::Report;", vec![(1, "Report")]),
        (
            "data",
            "//! [`a`](crate::engine)\n#[cfg(test)]\nmod tests {\n use crate::engine::Run; }",
            vec![],
        ),
    ] {
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(line, to): (usize, &str)| (line, to.to_string()))
            .collect();
        assert_eq!(
            wrong_arrows(room, text, &rooms).collect::<Vec<_>>(),
            expected,
            "{room}: {text}"
        );
    }
}

#[test]
fn a_dependency_against_the_order_is_seen() {
    let path = |name: &str| serde_json::json!({ "name": name, "path": "/p" });
    let metadata = serde_json::json!({ "packages": [
        { "name": "dataflow-core", "dependencies": [{ "name": "loom" }, path("dataflow-numa")] },
        { "name": "dataflow-linalg", "dependencies": [path("dataflow-core"), path("dataflow-mpi")] },
        { "name": "dataflow-gpu", "dependencies": [] },
    ]});
    let expected = [
        "dataflow-core/Cargo.toml:1: depends on dataflow-numa",
        "dataflow-linalg/Cargo.toml:1: depends on dataflow-mpi",
        "Cargo.toml:1: crate dataflow-gpu has no line in ARROWS",
    ];
    assert_eq!(wrong_dependencies(&metadata), expected);
}

#[test]
fn links_resolve_to_files_folders_headings_and_lines() {
    let readme = "# Write your *own* space!\n# Two\n# Two\n[a](docs/a.md#b-c) `[no](nowhere)`\n```\n[no](nowhere)\n```\n[r]: src/lib.rs\n";
    let files = [
        ("README.md", readme),
        ("docs/a.md", "## `b` c\n"),
        ("src/lib.rs", "//! One line.\n"),
    ];
    let tree = Tree {
        files: files
            .map(|(file, text)| (file.to_string(), text.to_string()))
            .into(),
    };
    let found: Vec<_> = links(readme)
        .into_iter()
        .map(|(line, link)| format!("{line} {link}"))
        .collect();
    assert_eq!(found, ["4 docs/a.md#b-c", "8 src/lib.rs"]);
    for (from, link, resolves) in [
        ("README.md", "docs/a.md", true),
        ("README.md", "docs/", true),
        ("README.md", "docs", true),
        ("README.md", "#write-your-own-space", true),
        ("README.md", "#two-1", true),
        ("README.md", "#two-2", false),
        ("README.md", "#three", false),
        ("README.md", "docs/b.md", false),
        ("README.md", "src/lib.rs#L1", true),
        ("README.md", "src/lib.rs#L2", false),
        ("docs/a.md", "../README.md#two", true),
        ("docs/a.md", "../../other/README.md", false),
        ("docs/a.md", "README.md", false),
        ("docs/a.md", "https://example.org/nowhere", true),
    ] {
        assert_eq!(
            resolve(&tree, from, link).is_ok(),
            resolves,
            "{from} → {link}"
        );
    }
}

#[test]
fn the_map_is_read_line_by_line() {
    let text = "# A\n```map\ncrates/core/src/   the model\n  rank.rs   a rank\n  engine/   the walk\n\nxtask/src/main.rs\n  oops\n```\n";
    let (named, offenders) = read_map(text);
    let paths: Vec<_> = named
        .iter()
        .map(|(line, path)| format!("{line} {path}"))
        .collect();
    let expected = [
        "3 crates/core/src/",
        "4 crates/core/src/rank.rs",
        "5 crates/core/src/engine/",
        "7 xtask/src/main.rs",
    ];
    assert_eq!(paths, expected);
    assert_eq!(offenders, ["ARCHITECTURE.md:8: `oops` is no path"]);
    assert_eq!(
        read_map("no map\n").1,
        ["ARCHITECTURE.md:1: has no block ```map"]
    );
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
