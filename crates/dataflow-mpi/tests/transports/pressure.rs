//! Back-pressure: a rank that makes data faster than another uses them does not fill its memory.

use dataflow_core::port::{Block, Context, Head, Heap, Inline, Wire};
use dataflow_core::prelude::*;
use dataflow_core::run_across;
use dataflow_mpi::transport::tcp::{Mesh, Tcp, Token};
use dataflow_mpi::{Drive, Machine, Messenger, Settings};
use std::borrow::Cow;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How many bytes that came from the other rank are there, and how many there were at most.
#[derive(Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

static ALIVE: Alive = Alive {
    now: AtomicUsize::new(0),
    most: AtomicUsize::new(0),
};

/// Bytes, counted while they are where they came to.
struct Piece {
    bytes: Vec<u8>,
    has_come: bool,
}

impl Clone for Piece {
    fn clone(&self) -> Self {
        unreachable!("nobody changes it")
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.has_come {
            ALIVE.now.fetch_sub(self.bytes.len(), Ordering::SeqCst);
        }
    }
}

impl Datum for Piece {}

impl Wire for Piece {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        self.bytes.len()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        let bytes = body.bytes().to_vec();
        let now = ALIVE.now.fetch_add(bytes.len(), Ordering::SeqCst) + bytes.len();
        ALIVE.most.fetch_max(now, Ordering::SeqCst);
        Ok(Piece {
            bytes,
            has_come: true,
        })
    }
}

/// Rank 0 makes pieces, even tasks; rank 1 uses each, the odd ones, and takes its time.
struct Stream {
    n: u32,
    bytes: usize,
    pause: Duration,
}

impl TaskSpace for Stream {
    type Task = u32;
    type Datum = Piece;

    fn describe(&self, about: &mut Description) {
        about.name("stream").parameter("pieces", self.n);
        about.class("Task").new_flow("OUT").optional("IN");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
        (0..2 * self.n).filter(move |task| task % 2 == on.0)
    }

    fn rank(&self, task: u32) -> Rank {
        Rank(task % 2)
    }

    fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
        if task % 2 == 1 {
            from.task(1, task - 1, 0);
        }
    }

    fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
        if task.is_multiple_of(2) {
            to.task(0, task + 1, 1);
        }
    }

    fn run(&self, task: u32, flows: &mut Flows<'_, Piece>) -> Result<(), TaskError> {
        let [made, used] = flows.slots();
        if task.is_multiple_of(2) {
            made.put(Piece {
                bytes: vec![task as u8; self.bytes],
                has_come: false,
            });
        } else {
            let used = used
                .get()
                .ok_or_else(|| TaskError::new("lost", "no piece"))?;
            assert_eq!(used.bytes, vec![(task - 1) as u8; self.bytes]);
            thread::sleep(self.pause);
        }
        Ok(())
    }
}

/// Runs it on two ranks; how many bytes were at most at the second.
fn most_alive(stream: &Stream, settings: &Settings) -> usize {
    let token = Token::random().unwrap();
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (first, second) = (listen(), listen());
    let root = first.local_addr().unwrap();
    ALIVE.most.store(0, Ordering::SeqCst);
    let run = |tcp: Tcp| {
        let tcp = Box::new(tcp);
        let messenger = Messenger::new(tcp, settings.clone(), Machine::new(), Arc::new(Heap));
        let report = run_across(stream, &Context::new(&Inline).across(&messenger.unwrap()));
        assert_eq!(report.unwrap().tasks, u64::from(stream.n));
    };
    thread::scope(|ranks| {
        ranks.spawn(|| run(Mesh::new(Rank(1), 2, token).join(&[root], second).unwrap()));
        run(Mesh::new(Rank(0), 2, token)
            .lead(first, &mut || None)
            .unwrap());
    });
    ALIVE.most.load(Ordering::SeqCst)
}

#[test]
fn a_slow_rank_holds_no_more_of_what_a_fast_one_makes_than_it_was_allowed() {
    const HELD: usize = 1 << 20;
    for drive in [Drive::Workers, Drive::Dedicated] {
        for (n, bytes, micros) in [(200, 100_000, 500), (4_000, 4_000, 25)] {
            let stream = Stream {
                n,
                bytes,
                pause: Duration::from_micros(micros),
            };
            let settings = Settings {
                drive,
                held_bytes: HELD,
                ..Settings::default()
            };
            let most = most_alive(&stream, &settings);
            // Asked for before it was full, sent on credit, and in use.
            let allowed = HELD + settings.window_bytes + settings.credit_bytes + 2 * bytes;
            assert!(most <= allowed, "{drive:?}, {bytes}: {most} bytes");
            assert!(most >= HELD / 2, "{drive:?}, {bytes}: it is slow");
        }
    }
}
