//! Reads Perfetto's files: the writer's inverse, and strict.

use crate::traces::{Arrow, Body};
use std::collections::{BTreeMap, BTreeSet};

/// What a file says.
#[derive(Default)]
pub struct Read {
    pub bodies: BTreeMap<(u32, usize), Vec<Body>>,
    pub arrows: Vec<Arrow>,
    /// Values of counters: name, time, value; by rank.
    pub counters: BTreeMap<(u32, String), Vec<(u64, u64)>>,
    /// When something had left, was heard of, was asked for and was there: by arrow and name, rank and time.
    pub stamps: BTreeMap<(u64, String), (u32, u64)>,
    pub dropped: usize,
    /// Numbers that are told of the whole run.
    pub of_run: BTreeMap<String, u64>,
}

/// A field: number, and its value.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut rest)),
            1 => {
                let (eight, behind) = rest.split_at(8);
                rest = behind;
                Value::Number(u64::from_le_bytes(eight.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut rest) as usize;
                let (inner, behind) = rest.split_at(length);
                rest = behind;
                Value::Bytes(inner)
            }
            kind => panic!("wire type {kind}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0..10 {
        let (byte, behind) = rest.split_first().expect("a varint ends");
        *rest = behind;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

/// A message whose fields are those of a list.
struct Fields<'a>(Vec<(u64, Value<'a>)>);

impl<'a> Fields<'a> {
    fn of(bytes: &'a [u8], known: &[u64]) -> Self {
        let fields = fields(bytes);
        for (field, _) in &fields {
            assert!(known.contains(field), "field {field} is none of {known:?}");
        }
        Fields(fields)
    }

    fn number(&self, field: u64) -> Option<u64> {
        self.0.iter().find_map(|(own, value)| match value {
            Value::Number(number) if *own == field => Some(*number),
            _ => None,
        })
    }

    fn numbers(&self, field: u64) -> Vec<u64> {
        let own = self.0.iter().filter(|(own, _)| *own == field);
        own.map(|(_, value)| match value {
            Value::Number(number) => *number,
            Value::Bytes(_) => panic!("field {field} is a number"),
        })
        .collect()
    }

    fn all(&self, field: u64) -> Vec<&'a [u8]> {
        let own = self.0.iter().filter(|(own, _)| *own == field);
        own.map(|(_, value)| match value {
            Value::Bytes(bytes) => *bytes,
            Value::Number(_) => panic!("field {field} is a message"),
        })
        .collect()
    }

    fn one(&self, field: u64) -> Option<&'a [u8]> {
        let all = self.all(field);
        assert!(all.len() <= 1, "field {field} stands once");
        all.first().copied()
    }

    fn text(&self, field: u64) -> Option<String> {
        self.one(field)
            .map(|bytes| String::from_utf8(bytes.to_vec()).expect("texts are UTF-8"))
    }
}

/// What a sequence has said.
#[derive(Default)]
struct Sequence {
    track: u64,
    time: u64,
    /// Categories, names, labels by id.
    interned: [BTreeMap<u64, String>; 3],
    /// What has begun: name, time, categories.
    open: Vec<(String, u64, BTreeSet<String>)>,
}

#[derive(Clone)]
enum Track {
    Rank(u32),
    Worker(u32, usize),
    Plain(Option<u64>, String),
}

/// One end of an arrow: rank, time, bytes, and the ranks it names.
type End = (u32, u64, u64, (u32, u32));

/// Reads a file.
pub fn read(bytes: &[u8]) -> Read {
    let mut read = Read::default();
    let mut tracks: BTreeMap<u64, Track> = BTreeMap::new();
    let mut sequences: BTreeMap<u64, Sequence> = BTreeMap::new();
    let mut sent: BTreeMap<u64, End> = BTreeMap::new();
    let mut taken: BTreeMap<u64, End> = BTreeMap::new();
    for packet in Fields::of(bytes, &[1]).all(1) {
        let packet = Fields::of(packet, &[8, 10, 11, 12, 13, 42, 59, 60]);
        let id = packet.number(10).expect("every packet has its sequence");
        assert!((1..=u64::from(u32::MAX)).contains(&id));
        read.dropped += packet.number(42).unwrap_or(0) as usize;
        if let Some(descriptor) = packet.one(60) {
            let (uuid, track) = track(descriptor, &tracks);
            if let Track::Worker(rank, worker) = track {
                read.bodies.insert((rank, worker), Vec::new());
            }
            assert!(tracks.insert(uuid, track).is_none(), "a track is told once");
            continue;
        }
        let flags = packet.number(13).expect("flags");
        if flags & 1 != 0 {
            let defaults = Fields::of(packet.one(59).expect("defaults"), &[11, 58]);
            assert_eq!(defaults.number(58), Some(6));
            let event = Fields::of(defaults.one(11).unwrap(), &[11]);
            let track = event.number(11).unwrap();
            assert!(
                tracks.contains_key(&track),
                "a track is told before it is used"
            );
            let fresh = sequences.insert(
                id,
                Sequence {
                    track,
                    ..Sequence::default()
                },
            );
            assert!(fresh.is_none(), "a sequence opens once");
            continue;
        }
        let sequence = sequences
            .get_mut(&id)
            .expect("a sequence opens before it is used");
        sequence.intern(packet.one(12));
        let time = packet.number(8).expect("an event has a time");
        assert!(time >= sequence.time, "a sequence goes by time");
        sequence.time = time;
        let event = packet.one(11).expect("an event");
        sequence.event(event, &tracks, &mut read, [&mut sent, &mut taken]);
    }
    assert!(
        sequences.values().all(|sequence| sequence.open.is_empty()),
        "begins = ends"
    );
    assert!(sent.keys().eq(taken.keys()), "arrows have both ends");
    for (id, (from, begin, bytes, ranks)) in sent {
        let (to, end, also, named) = taken[&id];
        assert_eq!((also, named, (from, to)), (bytes, ranks, ranks));
        read.arrows.push((from, to, begin, end, bytes));
    }
    read.arrows.sort();
    read.bodies.values_mut().for_each(|bodies| bodies.sort());
    read
}

fn track(bytes: &[u8], known: &BTreeMap<u64, Track>) -> (u64, Track) {
    let fields = Fields::of(bytes, &[1, 2, 3, 4, 5, 8, 11, 12]);
    let uuid = fields.number(1).expect("a track has a uuid");
    let parent = fields.number(5);
    assert!(
        parent.is_none_or(|parent| known.contains_key(&parent)),
        "parents come first"
    );
    if let Some(process) = fields.one(3) {
        let process = Fields::of(process, &[1, 6]);
        let rank: u32 = process
            .text(6)
            .unwrap()
            .strip_prefix("rank ")
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(process.number(1), Some(u64::from(rank) + 1));
        return (uuid, Track::Rank(rank));
    }
    if let Some(thread) = fields.one(4) {
        let thread = Fields::of(thread, &[1, 2, 5]);
        let Track::Rank(rank) = known[&parent.unwrap()] else {
            panic!("threads are of ranks")
        };
        assert_eq!(thread.number(1), Some(u64::from(rank) + 1));
        let worker = thread
            .text(5)
            .unwrap()
            .strip_prefix("worker ")
            .unwrap()
            .parse()
            .unwrap();
        return (uuid, Track::Worker(rank, worker));
    }
    if let Some(counter) = fields.one(8) {
        assert!([2, 3].contains(&Fields::of(counter, &[3]).number(3).unwrap()));
    }
    (
        uuid,
        Track::Plain(parent, fields.text(2).expect("plain tracks have names")),
    )
}

impl Sequence {
    fn intern(&mut self, data: Option<&[u8]>) {
        let Some(data) = data else { return };
        let data = Fields::of(data, &[1, 2, 3]);
        for kind in 1..=3 {
            for entry in data.all(kind) {
                let entry = Fields::of(entry, &[1, 2]);
                let id = entry.number(1).unwrap();
                assert!(id > 0, "ids begin at 1");
                let fresh = self.interned[kind as usize - 1].insert(id, entry.text(2).unwrap());
                assert!(fresh.is_none(), "a name is interned once");
            }
        }
    }

    fn event(
        &mut self,
        event: &[u8],
        tracks: &BTreeMap<u64, Track>,
        read: &mut Read,
        [sent, taken]: [&mut BTreeMap<u64, End>; 2],
    ) {
        let event = Fields::of(event, &[3, 4, 9, 10, 30, 47, 48]);
        let categories = event.numbers(3).into_iter();
        let categories: BTreeSet<String> =
            categories.map(|id| self.interned[0][&id].clone()).collect();
        let name = event.number(10).map(|id| self.interned[1][&id].clone());
        let mut labels = BTreeMap::new();
        for label in event.all(4) {
            let label = Fields::of(label, &[1, 3, 4, 6]);
            let name = self.interned[2][&label.number(1).unwrap()].clone();
            assert!(
                labels.insert(name, label.number(3)).is_none(),
                "a label stands once"
            );
        }
        match (
            event.number(9).expect("an event has a type"),
            &tracks[&self.track],
        ) {
            (1, track) => {
                if matches!(track, Track::Plain(None, _)) {
                    let numbers = labels.into_iter();
                    read.of_run = numbers.filter_map(|(of, n)| Some((of, n?))).collect();
                }
                self.open.push((name.unwrap(), self.time, categories));
            }
            (2, track) => {
                let (class, begin, mut marks) = self.open.pop().expect("what ends has begun");
                if let (true, Track::Worker(rank, worker)) = (marks.remove("task"), track) {
                    let span = (begin, self.time);
                    let bodies = read.bodies.get_mut(&(*rank, *worker)).unwrap();
                    bodies.push(Body { class, span, marks });
                }
            }
            (3, Track::Plain(Some(parent), track)) => {
                let Track::Rank(rank) = tracks[parent] else {
                    panic!("of a rank")
                };
                let of = |label: &str| labels[label].unwrap() as u32;
                let ranks = (of("from rank"), of("to rank"));
                let end = (rank, self.time, labels["bytes"].unwrap(), ranks);
                let name = name.expect("an event has a name");
                if ["left", "heard", "asked for", "there"].contains(&name.as_str()) {
                    // On the way from one end of the arrow to the other.
                    let flow = event.number(47).unwrap();
                    read.stamps.insert((flow, name), (rank, self.time));
                    return;
                }
                let (ends, field) = match track.as_str() {
                    "sent" => (sent, 47),
                    "received" => (taken, 48),
                    other => panic!("{other}"),
                };
                assert!(
                    ends.insert(event.number(field).unwrap(), end).is_none(),
                    "ids are unique"
                );
            }
            (4, Track::Plain(Some(parent), name)) => {
                let Track::Rank(rank) = tracks[parent] else {
                    panic!("of a rank")
                };
                let value = (self.time, event.number(30).unwrap());
                read.counters
                    .entry((rank, name.clone()))
                    .or_default()
                    .push(value);
            }
            (kind, _) => panic!("an event of type {kind} on this track"),
        }
    }
}
