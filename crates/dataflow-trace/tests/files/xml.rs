//! Reads XML as far as pictures and pages use it; whatever is not well-formed panics.

use std::collections::{BTreeMap, BTreeSet};

/// An element with its attributes and the text directly in it.
#[derive(Debug)]
pub struct Element {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub text: String,
}

/// All elements of a document, in the order of their beginnings.
pub fn read(text: &str) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut rest = text.trim_end();
    for opening in [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<!DOCTYPE html>",
    ] {
        rest = rest.strip_prefix(opening).unwrap_or(rest).trim_start();
    }
    while !rest.is_empty() {
        let Some(tag) = rest.strip_prefix('<') else {
            let (text, behind) =
                rest.split_at(rest.find('<').expect("text stands within elements"));
            let text = unescaped(text);
            let within = open.last().expect("text stands within elements");
            elements[*within].text.push_str(&text);
            rest = behind;
            continue;
        };
        let (tag, behind) = tag.split_once('>').expect("a tag ends");
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            let closed = open.pop().expect("what closes was open");
            assert_eq!(elements[closed].name, name);
            rest = if open.is_empty() {
                rest.trim_start()
            } else {
                rest
            };
            continue;
        }
        assert!(!open.is_empty() || elements.is_empty(), "one root");
        let (tag, is_empty) = tag
            .strip_suffix('/')
            .map_or((tag, false), |tag| (tag, true));
        let element = element(tag);
        if let Some(id) = element.attributes.get("id") {
            assert!(ids.insert(id.clone()), "id {id} stands twice");
        }
        elements.push(element);
        if !is_empty {
            open.push(elements.len() - 1);
        }
    }
    assert!(open.is_empty(), "all elements are closed");
    elements
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    assert!(
        name.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !name.is_empty(),
        "<{tag}>"
    );
    let mut attributes = BTreeMap::new();
    while !rest.is_empty() {
        let (attribute, behind) = rest.split_once("=\"").expect(tag);
        let (value, behind) = behind.split_once('"').expect(tag);
        assert!(
            attribute
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "<{tag}>"
        );
        assert!(
            attributes
                .insert(attribute.to_string(), unescaped(value))
                .is_none(),
            "<{tag}>"
        );
        assert!(behind.is_empty() || behind.starts_with(' '), "<{tag}>");
        rest = behind.trim_start();
    }
    Element {
        name: name.to_string(),
        attributes,
        text: String::new(),
    }
}

fn unescaped(text: &str) -> String {
    let allowed = |c: char| c == '\n' || (c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}');
    assert!(text.chars().all(allowed) && !text.contains('<'), "{text:?}");
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (name, behind) = part.split_once(';').expect("an entity ends");
        let c = match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            other => panic!("&{other};"),
        };
        out.push(c);
        out.push_str(behind);
    }
    out
}
