//! Reads Chrome's JSON, strictly.

use crate::traces::{Arrow, Body};
use std::collections::{BTreeMap, BTreeSet};

/// A value of JSON; numbers as they are written.
#[derive(Clone, Debug)]
pub enum Json {
    Text(String),
    Number(String),
    Bool,
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    fn get(&self, key: &str) -> &Json {
        match self {
            Json::Object(map) => map.get(key).unwrap_or_else(|| panic!("{key} in {self:?}")),
            other => panic!("{other:?} is no object"),
        }
    }

    fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Json::Number(number) => number.parse().expect("a whole number"),
            other => panic!("{other:?} is no number"),
        }
    }

    /// The keys that have `true`.
    fn true_keys(&self) -> BTreeSet<String> {
        let Json::Object(map) = self else {
            panic!("{self:?} is no object")
        };
        let are = map.iter().filter(|(_, value)| matches!(value, Json::Bool));
        are.map(|(key, _)| key.clone()).collect()
    }

    /// Microseconds with three digits as nanoseconds.
    fn time(&self) -> u64 {
        let Json::Number(number) = self else {
            panic!("{self:?} is no number")
        };
        let (whole, rest) = number.split_once('.').expect("a point");
        assert_eq!(rest.len(), 3);
        whole.parse::<u64>().unwrap() * 1000 + rest.parse::<u64>().unwrap()
    }
}

struct Parser<'a>(&'a [u8], usize);

impl Parser<'_> {
    fn byte(&mut self) -> u8 {
        let byte = self.0[self.1];
        self.1 += 1;
        byte
    }

    fn blanks(&mut self) {
        while self.0.get(self.1).is_some_and(|byte| b" \n".contains(byte)) {
            self.1 += 1;
        }
    }

    fn value(&mut self) -> Json {
        self.blanks();
        match self.byte() {
            b'{' => {
                let mut map = BTreeMap::new();
                self.list(b'}', |it| {
                    let Json::Text(key) = it.value() else {
                        panic!("keys are texts")
                    };
                    assert_eq!(it.byte(), b':');
                    let value = it.value();
                    assert!(
                        map.insert(key.clone(), value).is_none(),
                        "{key} stands twice"
                    );
                });
                Json::Object(map)
            }
            b'[' => {
                let mut list = Vec::new();
                self.list(b']', |it| list.push(it.value()));
                Json::List(list)
            }
            b'"' => Json::Text(self.string()),
            b't' => {
                assert_eq!(&self.0[self.1..self.1 + 3], b"rue");
                self.1 += 3;
                Json::Bool
            }
            first @ (b'-' | b'0'..=b'9') => {
                let mut number = String::from(first as char);
                while self.0[self.1].is_ascii_digit() || self.0[self.1] == b'.' {
                    number.push(self.byte() as char);
                }
                let whole = number.trim_start_matches('-').split('.').next().unwrap();
                assert!(whole == "0" || !whole.starts_with('0'), "{number}");
                Json::Number(number)
            }
            other => panic!("{:?} at {}", other as char, self.1),
        }
    }

    fn list(&mut self, close: u8, mut one: impl FnMut(&mut Self)) {
        self.blanks();
        if self.0[self.1] == close {
            self.1 += 1;
            return;
        }
        loop {
            one(self);
            self.blanks();
            match self.byte() {
                b',' => self.blanks(),
                byte if byte == close => return,
                other => panic!("{:?} at {}", other as char, self.1),
            }
        }
    }

    fn string(&mut self) -> String {
        let mut bytes = Vec::new();
        loop {
            match self.byte() {
                b'"' => return String::from_utf8(bytes).unwrap(),
                b'\\' => match self.byte() {
                    byte @ (b'"' | b'\\') => bytes.push(byte),
                    b'u' => {
                        let digits = std::str::from_utf8(&self.0[self.1..self.1 + 4]).unwrap();
                        bytes.push(u8::from_str_radix(digits, 16).unwrap());
                        self.1 += 4;
                    }
                    other => panic!("escape {:?}", other as char),
                },
                byte => {
                    assert!(byte >= 0x20, "a control sign in a text");
                    bytes.push(byte);
                }
            }
        }
    }
}

/// What a file says.
#[derive(Default)]
pub struct Read {
    pub bodies: BTreeMap<(u32, usize), Vec<Body>>,
    pub arrows: Vec<Arrow>,
}

/// Reads a file.
pub fn read(text: &str) -> Read {
    let mut parser = Parser(text.as_bytes(), 0);
    let file = parser.value();
    parser.blanks();
    assert_eq!(parser.1, text.len(), "something behind the end");
    assert_eq!(file.get("displayTimeUnit").text(), "ns");
    let Json::List(events) = file.get("traceEvents") else {
        panic!("a list")
    };
    let mut read = Read::default();
    let mut threads = BTreeMap::new();
    let mut ends: [BTreeMap<u64, (u32, u64)>; 2] = Default::default();
    let mut bytes = BTreeMap::new();
    for event in events {
        let (rank, thread) = (event.get("pid").number() as u32, event.get("tid").number());
        match event.get("ph").text() {
            "M" if event.get("name").text() == "thread_name" => {
                let name = event.get("args").get("name").text().to_string();
                if let Some(worker) = name.strip_prefix("worker ") {
                    read.bodies
                        .insert((rank, worker.parse().unwrap()), Vec::new());
                }
                threads.insert((rank, thread), name);
            }
            "M" => assert_eq!(event.get("args").get("name").text(), format!("rank {rank}")),
            "X" => {
                let name = &threads[&(rank, thread)];
                let begin = event.get("ts").time();
                let end = begin + event.get("dur").time();
                match event.get("cat").text() {
                    "task" => {
                        let worker = name.strip_prefix("worker ").unwrap().parse().unwrap();
                        let args = event.get("args");
                        args.get("waited (ns)").number();
                        let body = Body {
                            class: event.get("name").text().to_string(),
                            span: (begin, end),
                            marks: args.true_keys(),
                        };
                        read.bodies.get_mut(&(rank, worker)).unwrap().push(body);
                    }
                    "message" => {
                        assert_eq!(begin, end);
                        bytes.insert((rank, begin), event.get("args").get("bytes").number());
                    }
                    other => assert_eq!(other, "idle"),
                }
            }
            phase @ ("s" | "f") => {
                let side = usize::from(phase == "f");
                let time = event.get("ts").time();
                // An arrow hangs on a slice that was written before.
                assert!(bytes.contains_key(&(rank, time)));
                let fresh = ends[side].insert(event.get("id").number(), (rank, time));
                assert!(fresh.is_none());
            }
            "C" => _ = event.get("args").get("value").number(),
            other => panic!("phase {other}"),
        }
    }
    let [sent, taken] = ends;
    assert!(sent.keys().eq(taken.keys()), "arrows have both ends");
    for (id, (from, begin)) in sent {
        let (to, end) = taken[&id];
        read.arrows.push((from, to, begin, end, 0));
    }
    read.arrows.sort();
    read.bodies.values_mut().for_each(|bodies| bodies.sort());
    read
}
