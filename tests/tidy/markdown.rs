//! Markdown: links, headings, and the map of `ARCHITECTURE.md`.

use crate::tree::Tree;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Lines outside fenced blocks with their numbers, inline code blanked.
pub fn prose(text: &str) -> Vec<(usize, String)> {
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

pub fn without_inline_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_code = |index: usize| index % 2 == 1 && index + 1 < parts.len();
    let shown = parts
        .iter()
        .enumerate()
        .map(|(index, part)| if is_code(index) { "" } else { part });
    shown.collect::<Vec<_>>().join("`")
}

/// The lines of headings, but the first of a file, that have no blank line before them.
pub fn crowded_headings(text: &str) -> Vec<usize> {
    let before: Vec<&str> = std::iter::once("").chain(text.lines()).collect();
    let prose = prose(text).into_iter();
    let headings = prose.filter(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (1..=6).contains(&(line.len() - heading.len())) && heading.starts_with(' ')
    });
    let numbers = headings.map(|(number, _)| number);
    numbers
        .filter(|number| !before[number - 1].trim().is_empty())
        .collect()
}

/// Targets of inline links, images, reference definitions and HTML attributes.
pub fn links(text: &str) -> Vec<(usize, String)> {
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

pub fn resolve(tree: &Tree, from: &str, link: &str) -> Result<(), String> {
    let here = by_address(tree, link);
    if here.is_none() && (link.contains("://") || link.starts_with("mailto:")) {
        return Ok(()); // the world outside is not ours to check
    }
    let link = here.unwrap_or(link);
    let (path, anchor) = link
        .split_once('#')
        .map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let file = if here.is_some() {
        path.to_string()
    } else if path.is_empty() {
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

/// The path from the root, with its anchor, of a file or folder that a link names by its address in the
/// repository of `Cargo.toml`.
pub fn by_address<'l>(tree: &Tree, link: &'l str) -> Option<&'l str> {
    let mut lines = tree.text("Cargo.toml")?.lines();
    let repository =
        lines.find_map(|line| line.strip_prefix("repository = \"")?.strip_suffix('"'))?;
    let (kind, path) = link
        .strip_prefix(repository)?
        .strip_prefix('/')?
        .split_once("/main/")?;
    ["raw", "blob", "tree"].contains(&kind).then_some(path)
}

/// Whether a link is one from this file to another, which is lost where the text is shown elsewhere.
pub fn is_relative(link: &str) -> bool {
    !(link.contains("://") || link.starts_with("mailto:") || link.starts_with('#'))
}

/// The path from the root that a relative link of a file means.
pub fn joined(from: &str, link: &str) -> Result<String, String> {
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
pub fn anchors(text: &str) -> BTreeSet<String> {
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
pub fn slug(heading: &str) -> String {
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
pub fn read_map(text: &str) -> (Vec<(usize, String)>, Vec<String>) {
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

mod tests {
    use super::*;

    #[test]
    fn links_resolve_to_files_folders_headings_and_lines() {
        let readme = "# Write your *own* space!\n# Two\n# Two\n[a](docs/a.md#b-c) `[no](nowhere)`\n```\n[no](nowhere)\n```\n[r]: src/lib.rs\n";
        let files = [
            ("README.md", readme),
            ("docs/a.md", "## `b` c\n"),
            ("src/lib.rs", "//! One line.\n"),
            ("Cargo.toml", "repository = \"https://example.org/ours\"\n"),
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
            (
                "docs/a.md",
                "https://example.org/ours/raw/main/docs/a.md",
                true,
            ),
            (
                "docs/a.md",
                "https://example.org/ours/raw/main/docs/b.md",
                false,
            ),
            (
                "docs/a.md",
                "https://example.org/ours/blob/main/README.md#two-1",
                true,
            ),
            (
                "docs/a.md",
                "https://example.org/ours/blob/main/README.md#three",
                false,
            ),
            (
                "docs/a.md",
                "https://example.org/ours/blob/main/docs/b.md",
                false,
            ),
            ("docs/a.md", "https://example.org/ours/tree/main/docs", true),
            ("docs/a.md", "https://example.org/ours/tree/main/doc", false),
            (
                "docs/a.md",
                "https://example.org/ours/issues/main/doc",
                true,
            ),
        ] {
            assert_eq!(
                resolve(&tree, from, link).is_ok(),
                resolves,
                "{from} → {link}"
            );
        }
    }

    #[test]
    fn headings_stand_apart_from_what_is_before_them() {
        let text = "# One\n\n## Two\nText.\n## Three\n```sh\nls\n# no heading\n```\n# Four\n#tag\n";
        assert_eq!(crowded_headings(text), [5, 10]);
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
}
