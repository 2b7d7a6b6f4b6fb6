//! Rust: source as code without comments and strings, and the arrows between rooms in it.

use crate::tree::identifiers;
use crate::{CORE_LAYERS, MACROS_OF_ROOMS};
use std::collections::BTreeSet;

/// Rust source with comments, strings and character literals blanked; lines keep their numbers.
pub fn code_only(text: &str) -> String {
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

pub fn ends_in_word(code: &str) -> bool {
    code.chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The length of a comment `/* … */`, which may hold others.
pub fn block_comment(text: &str) -> usize {
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
pub fn quoted(text: &str) -> usize {
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
pub fn raw_string(text: &str) -> usize {
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
pub fn character(text: &str) -> usize {
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

/// The code without its modules of tests, wherever they stand; lines keep their numbers.
pub fn without_tests(code: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(code.len()), code);
    while let Some(at) = rest.find("#[cfg(") {
        let (before, item) = rest.split_at(at);
        let end = item.find(']').map_or(item.len(), |end| end + 1);
        let is_test = identifiers(&item[..end]).any(|word| word == "test");
        let is_cut = is_test && item[end..].trim_start().starts_with("mod ");
        kept.push_str(before);
        let next = match is_cut {
            true => {
                let next = end + item_length(&item[end..]);
                kept.extend(item[..next].chars().filter(|c| *c == '\n'));
                next
            }
            false => {
                kept.push_str(&item[..end]);
                end
            }
        };
        rest = &item[next..];
    }
    kept + rest
}

/// The length of the item that code begins with: up to its `;`, or to the end of its block.
pub fn item_length(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(c, ';' | '}') {
            return at + 1;
        }
    }
    code.len()
}

/// Uses of rooms that do not lie below `room`: line and what was used.
pub fn wrong_arrows(
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
    let arrows = arrows(&without_tests(&code_only(text)), rooms);
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

/// Names directly below `std::sync::` that code takes, each with its line.
pub fn taken_of_sync(code: &str) -> Vec<(usize, &str)> {
    let start = "std::sync::";
    let taken = code.match_indices(start).flat_map(|(at, _)| {
        let line = code[..at].matches('\n').count() + 1;
        let names = first_names(&code[at + start.len()..]);
        names.into_iter().map(move |name| (line, name))
    });
    taken.collect()
}

/// First names after `crate::`, and rooms that are reached through `super::`.
pub fn arrows(code: &str, rooms: &BTreeSet<&str>) -> Vec<(usize, String)> {
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
pub fn first_names(path: &str) -> Vec<&str> {
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

mod tests {
    use super::*;

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

    /// Whatever stood below a `mod tests;` at the top of a file was seen by no rule.
    #[test]
    fn only_modules_of_tests_are_cut_and_what_stands_below_them_stays() {
        for (code, expected) in [
            ("a;\n#[cfg(test)]\nmod tests;\nb;", "a;\n\n\nb;"),
            ("#[cfg(test)] mod tests { fn a() { b } }\nc", "\nc"),
            (
                "#[cfg(all(test, loom))]\nmod models { a }\n#[cfg(test)] mod tests {\n}\nb",
                "\n\n\n\nb",
            ),
            ("#[cfg(test)]\nfn a() {}", "#[cfg(test)]\nfn a() {}"),
            ("#[cfg(unix)]\nmod a;", "#[cfg(unix)]\nmod a;"),
        ] {
            assert_eq!(without_tests(code), expected, "{code}");
        }
    }

    #[test]
    fn what_is_taken_of_sync_is_seen_however_it_is_written() {
        for (code, expected) in [
            ("use std::sync::Arc;", vec![(1, "Arc")]),
            (
                "use a;\nuse std::sync::{Arc, atomic::{AtomicU8, Ordering}, Mutex};",
                vec![(2, "Arc"), (2, "atomic"), (2, "Mutex")],
            ),
            (
                "let a: std::sync::Mutex<u8>;\n\nstd::sync::atomic::fence(b)",
                vec![(1, "Mutex"), (3, "atomic")],
            ),
            ("use crate::sync::{Mutex, lock};", vec![]),
        ] {
            assert_eq!(taken_of_sync(code), expected, "{code}");
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
}
