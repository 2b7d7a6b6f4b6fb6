//! Reads Paje by the definitions in its own header, strictly.

use crate::traces::{Arrow, Body};
use std::collections::{BTreeMap, BTreeSet};

/// What a file says.
#[derive(Default)]
pub struct Read {
    pub bodies: BTreeMap<(u32, usize), Vec<Body>>,
    pub arrows: Vec<Arrow>,
}

/// A worker's state, and since when.
struct State {
    value: String,
    /// What it runs, if it does.
    task: Option<String>,
    since: u64,
}

/// Reads a file.
pub fn read(text: &str) -> Read {
    let mut definitions: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(head) = lines.next_if(|line| line.starts_with('%')) {
        let head: Vec<&str> = head.split(' ').collect();
        let ["%EventDef", name, number] = head[..] else {
            panic!("{head:?}")
        };
        let mut fields = Vec::new();
        loop {
            match lines
                .next()
                .expect("a definition ends")
                .split(' ')
                .collect::<Vec<_>>()[..]
            {
                ["%EndEventDef"] => break,
                ["%", field, "string" | "date" | "color"] => fields.push(field),
                ref other => panic!("{other:?}"),
            }
        }
        assert!(definitions.insert(number, (name, fields)).is_none());
    }
    let mut reader = Reader::default();
    for line in lines {
        let words = words(line);
        let (name, fields) = &definitions[words[0].as_str()];
        assert_eq!(words.len(), fields.len() + 1, "{line}");
        let event = fields
            .iter()
            .copied()
            .zip(words.into_iter().skip(1))
            .collect();
        reader.event(name, event);
    }
    reader.done()
}

/// Words, the ones in quotes without them.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (word, behind) = quoted.split_once('"').expect("a quote ends");
                assert!(behind.is_empty() || behind.starts_with(' '), "{line}");
                (word, behind.strip_prefix(' ').unwrap_or(""))
            }
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_string());
        rest = behind;
    }
    words
}

#[derive(Default)]
struct Reader {
    now: u64,
    /// Types by alias: what they are of.
    types: BTreeMap<String, String>,
    values: BTreeMap<String, String>,
    /// Containers by alias: type, name.
    containers: BTreeMap<String, (String, String)>,
    states: BTreeMap<String, State>,
    links: [BTreeMap<String, (u32, u64)>; 2],
    read: Read,
}

impl Reader {
    fn event(&mut self, name: &str, event: BTreeMap<&str, String>) {
        let of = |field: &str| event[field].clone();
        if let Some(time) = event.get("Time") {
            let (whole, rest) = time.split_once('.').expect("a point");
            assert_eq!(rest.len(), 9, "{time}");
            let time = whole.parse::<u64>().unwrap() * 1_000_000_000 + rest.parse::<u64>().unwrap();
            assert!(time >= self.now, "by time: {event:?}");
            self.now = time;
        }
        match name {
            "PajeDefineContainerType" | "PajeDefineStateType" | "PajeDefineLinkType" => {
                assert!(of("Type") == "0" || self.types.contains_key(&of("Type")));
                assert!(self.types.insert(of("Alias"), of("Type")).is_none());
            }
            "PajeDefineEntityValue" => {
                assert!(self.types.contains_key(&of("Type")));
                assert_eq!(
                    of("Color")
                        .split(' ')
                        .filter(|one| one.parse::<f64>().is_ok())
                        .count(),
                    3
                );
                assert!(self.values.insert(of("Alias"), of("Name")).is_none());
            }
            "PajeCreateContainer" => {
                let parent = self
                    .containers
                    .get(&of("Container"))
                    .map_or("0", |(of, _)| of);
                assert_eq!(self.types[&of("Type")], parent);
                if let Some(place) = place(&of("Alias")) {
                    self.read.bodies.insert(place, Vec::new());
                }
                assert!(
                    self.containers
                        .insert(of("Alias"), (of("Type"), of("Name")))
                        .is_none()
                );
            }
            "PajeDestroyContainer" => {
                self.close(&of("Name"));
                assert!(self.containers.remove(&of("Name")).is_some());
            }
            "PajeSetState" => {
                assert_eq!(self.containers[&of("Container")].0, self.types[&of("Type")]);
                assert!(self.values.contains_key(&of("Value")));
                let task = event.get("Task").cloned();
                let is_body = of("Value").starts_with(['c', 's', 'f']);
                assert_eq!(task.is_some(), is_body, "{event:?}");
                self.close(&of("Container"));
                let state = State {
                    value: of("Value"),
                    task,
                    since: self.now,
                };
                self.states.insert(of("Container"), state);
            }
            "PajeStartLink" | "PajeEndLink" => {
                let is_end = name == "PajeEndLink";
                let end = of(if is_end {
                    "EndContainer"
                } else {
                    "StartContainer"
                });
                assert_eq!(self.containers[&end].0, "Rank");
                let rank = end.strip_prefix('r').unwrap().parse().unwrap();
                let fresh = self.links[usize::from(is_end)].insert(of("Key"), (rank, self.now));
                assert!(fresh.is_none());
            }
            other => panic!("{other}"),
        }
    }

    /// A worker's state ends.
    fn close(&mut self, container: &str) {
        let (Some(state), Some(place)) = (self.states.remove(container), place(container)) else {
            return;
        };
        let Some(task) = state.task else { return };
        let (class, _) = task.rsplit_once(' ').expect("a class and a number");
        let value = self.values[&state.value].clone();
        let mut marks = BTreeSet::new();
        match state.value.starts_with('c') {
            true => assert_eq!(value, class),
            false => _ = marks.insert(value),
        }
        let body = Body {
            class: class.to_string(),
            span: (state.since, self.now),
            marks,
        };
        self.read.bodies.get_mut(&place).unwrap().push(body);
    }

    fn done(mut self) -> Read {
        assert!(self.containers.is_empty(), "all containers are destroyed");
        let [sent, taken] = self.links;
        assert!(sent.keys().eq(taken.keys()), "links have both ends");
        for (key, (from, begin)) in sent {
            let (to, end) = taken[&key];
            self.read.arrows.push((from, to, begin, end, 0));
        }
        self.read.arrows.sort();
        self.read
            .bodies
            .values_mut()
            .for_each(|bodies| bodies.sort());
        self.read
    }
}

/// The worker that an alias names.
fn place(alias: &str) -> Option<(u32, usize)> {
    let (rank, worker) = alias.strip_prefix('r')?.split_once('w')?;
    Some((rank.parse().ok()?, worker.parse().ok()?))
}
