//! Reads Paraver's records by their grammar, strictly.

use std::collections::{BTreeMap, BTreeSet};

/// A worker as Paraver has it: task and thread.
pub type Object = (usize, usize);

/// What a file says.
#[derive(Default)]
pub struct Read {
    pub end: u64,
    /// Threads of each task.
    pub threads: Vec<usize>,
    /// States: begin, end, state.
    pub states: BTreeMap<Object, Vec<(u64, u64, u64)>>,
    /// Tasks from their events: value of the class, begin, end, value of the fate.
    pub bodies: BTreeMap<Object, Vec<(u64, u64, u64, u64)>>,
    /// Messages: tasks, times, bytes.
    pub messages: Vec<(usize, usize, u64, u64, u64)>,
    /// Types and values that want a label.
    pub values: BTreeSet<(u64, u64)>,
}

/// Reads the records.
pub fn read(text: &str) -> Read {
    assert!(text.ends_with('\n'));
    let mut lines = text.lines();
    let mut read = header(lines.next().expect("a header"));
    let mut open: BTreeMap<Object, (u64, u64, u64)> = BTreeMap::new();
    let mut now = 0;
    let mut tags = BTreeSet::new();
    for line in lines {
        let numbers: Vec<u64> = line
            .split(':')
            .map(|one| one.parse().expect(line))
            .collect();
        let object = read.object(&numbers[1..5]);
        assert!(numbers[5] >= now, "by time: {line}");
        now = numbers[5];
        match (numbers[0], &numbers[5..]) {
            (1, &[begin, end, state]) => {
                assert!(begin < end && end <= read.end);
                read.states
                    .entry(object)
                    .or_default()
                    .push((begin, end, state));
            }
            (2, [time, pairs @ ..]) => {
                assert!(
                    !pairs.is_empty() && pairs.len() % 2 == 0 && *time <= read.end,
                    "{line}"
                );
                let mut ended = 0;
                for pair in pairs.chunks(2) {
                    assert!(pair.iter().all(|one| *one < 1 << 31), "{line}");
                    read.values.insert((pair[0], pair[1]));
                    match (pair[0], pair[1]) {
                        (9_000_001, 0) => {
                            let begun = open.remove(&object);
                            let (class, begin, fate) = begun.expect("what ends has begun");
                            let bodies = read.bodies.entry(object).or_default();
                            bodies.push((class, begin, *time, fate));
                            ended = fate;
                        }
                        (9_000_001, class) => {
                            let begun = open.insert(object, (class, *time, 0));
                            assert!(begun.is_none(), "{line}");
                        }
                        (9_000_002, 0) => ended = 0,
                        (9_000_002, fate) => {
                            open.get_mut(&object).expect("a fate is of a task").2 = fate;
                        }
                        _ => {}
                    }
                }
                assert_eq!(ended, 0, "a fate ends with its task: {line}");
            }
            (3, rest) => {
                let &[
                    sent,
                    left,
                    processor,
                    application,
                    task,
                    thread,
                    heard,
                    taken,
                    bytes,
                    tag,
                ] = rest
                else {
                    panic!("{line}");
                };
                let to = read.object(&[processor, application, task, thread]);
                assert!(sent == left && heard == taken && taken <= read.end);
                assert!(tags.insert(tag), "a tag stands once");
                read.messages.push((object.0, to.0, sent, taken, bytes));
            }
            _ => panic!("{line}"),
        }
    }
    assert!(open.is_empty(), "begins = ends");
    read.messages.sort();
    read.bodies.values_mut().for_each(|bodies| bodies.sort());
    read
}

fn header(line: &str) -> Read {
    let line = line
        .strip_prefix("#Paraver (01/01/1970 at 00:00):")
        .expect("the first words");
    let (end, line) = line.split_once("_ns:").expect("nanoseconds");
    let (nodes, line) = line.split_once('(').expect("nodes");
    let (processors, line) = line.split_once("):1:").expect("one application");
    let (tasks, line) = line.split_once('(').expect("tasks");
    let threads = line.strip_suffix(')').expect("the last bracket");
    let processors: Vec<usize> = processors
        .split(',')
        .map(|one| one.parse().unwrap())
        .collect();
    let own = threads.split(',').enumerate().map(|(index, one)| {
        let (threads, node) = one.split_once(':').unwrap();
        assert_eq!(node.parse(), Ok(index + 1));
        threads.parse().unwrap()
    });
    let threads: Vec<usize> = own.collect();
    assert_eq!(processors, threads);
    assert_eq!(
        (nodes.parse(), tasks.parse()),
        (Ok(threads.len()), Ok(threads.len()))
    );
    Read {
        end: end.parse().unwrap(),
        threads,
        ..Read::default()
    }
}

impl Read {
    /// Processor, application, task and thread as an object of the header.
    fn object(&self, numbers: &[u64]) -> Object {
        let [processor, application, task, thread] = numbers
            .try_into()
            .map(|it: [u64; 4]| it.map(|n| n as usize))
            .unwrap();
        assert_eq!(application, 1);
        assert!((1..=self.threads.len()).contains(&task), "task {task}");
        assert!(
            (1..=self.threads[task - 1]).contains(&thread),
            "thread {thread}"
        );
        let before: usize = self.threads[..task - 1].iter().sum();
        assert_eq!(processor, before + thread, "a processor is of its node");
        (task, thread)
    }
}

/// Labels of values by type.
pub type Labels = BTreeMap<u64, BTreeMap<u64, String>>;

/// Labels of states, and of values by type.
pub fn labels(text: &str) -> (BTreeMap<u64, String>, Labels) {
    let (mut states, mut types) = (BTreeMap::new(), BTreeMap::new());
    let sections = [
        "DEFAULT_OPTIONS",
        "DEFAULT_SEMANTIC",
        "STATES",
        "STATES_COLOR",
        "EVENT_TYPE",
        "VALUES",
    ];
    let (mut section, mut kind) = ("", 0);
    for line in text.lines().filter(|line| !line.is_empty()) {
        if sections.contains(&line) {
            let place = |name: &str| sections.iter().position(|one| *one == name);
            assert!(
                section == "VALUES" || place(line) >= place(section),
                "{line} after {section}"
            );
            section = line;
            continue;
        }
        let (first, rest) = line.split_once(' ').expect(line);
        match section {
            "STATES" => _ = states.insert(first.parse().unwrap(), rest.to_string()),
            "STATES_COLOR" => {
                assert!(states.contains_key(&first.parse().unwrap()));
                let colour = rest
                    .strip_prefix('{')
                    .and_then(|rest| rest.strip_suffix('}'));
                assert_eq!(
                    colour
                        .unwrap()
                        .split(',')
                        .filter(|one| one.parse::<u8>().is_ok())
                        .count(),
                    3
                );
            }
            "EVENT_TYPE" => {
                let (number, _) = rest.split_once(' ').expect(line);
                kind = number.parse().unwrap();
                assert!(kind < 1 << 31 && types.insert(kind, BTreeMap::new()).is_none());
            }
            "VALUES" => {
                let values: &mut BTreeMap<u64, String> = types.get_mut(&kind).unwrap();
                assert!(
                    values
                        .insert(first.parse().unwrap(), rest.to_string())
                        .is_none()
                );
            }
            _ => {}
        }
    }
    (states, types)
}

/// Names of rows by level.
pub fn rows(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut levels = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (level, n) = line
            .strip_prefix("LEVEL ")
            .and_then(|rest| rest.split_once(" SIZE "))
            .expect(line);
        let names: Vec<String> = lines
            .by_ref()
            .take(n.parse().unwrap())
            .map(String::from)
            .collect();
        assert_eq!(lines.next(), Some(""), "as many lines as were told");
        levels.insert(level.to_string(), names);
    }
    levels
}
