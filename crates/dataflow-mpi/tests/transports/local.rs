//! Ranks as threads of this process.

use crate::engine::{Graph, run};
use dataflow_core::error::Kind;
use dataflow_core::port::{Cargo, Courier, Head, Heap, Memory, Parcel, Terms};
use dataflow_core::rank::Rank;
use dataflow_core::wire::WireName;
use dataflow_mpi::transport::local::{self, Local};
use dataflow_mpi::transport::raw::{Raw, Sendable};
use dataflow_mpi::transport::{Event, MessageLimits, Payload, Room, Transport};
use dataflow_mpi::{Bell, Drive, Host, Machine, Messenger, Settings};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

fn on_threads<R: Send>(
    n_ranks: usize,
    limits: Option<MessageLimits>,
    settings: &Settings,
    body: impl Fn(Messenger, Arc<Machine>) -> R + Sync,
) -> Vec<R> {
    let transports = match limits {
        Some(limits) => local::connect_with(n_ranks, limits),
        None => local::connect(n_ranks),
    };
    thread::scope(|ranks| {
        let start = |transport| {
            let body = &body;
            ranks.spawn(move || {
                let host = Machine::new();
                let messenger = Messenger::new(
                    Box::new(transport),
                    settings.clone(),
                    host.clone(),
                    Arc::new(Heap),
                );
                body(messenger.unwrap(), host)
            })
        };
        let ranks: Vec<_> = transports.into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn random_graphs_run_on_threads_however_messages_are_moved() {
    let small = MessageLimits {
        message_bytes: 1 << 10,
        largest_tag: 7,
        in_order: true,
    };
    for (i, drive) in [Drive::Dedicated, Drive::Workers].into_iter().enumerate() {
        for (spin, blocking) in [(0, false), (30, false), (0, true)] {
            for (n_ranks, limits) in [(1, None), (2, None), (3, Some(small)), (5, None)] {
                let settings = Settings {
                    drive,
                    blocking,
                    spin: Duration::from_micros(spin),
                    ..Settings::default()
                };
                let graph = Graph::random(i as u64, n_ranks, if blocking { 50 } else { 300 });
                let ends = on_threads(n_ranks, limits, &settings, |messenger, host| {
                    (0..3)
                        .map(|_| run(&graph, &messenger, &*host))
                        .collect::<Vec<_>>()
                });
                for end in ends.iter().flatten() {
                    assert!(
                        end.is_good(),
                        "{drive:?} {spin} {blocking} {n_ranks}: {end:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_rank_that_starts_late_is_waited_for() {
    let graph = Graph::random(5, 3, 50);
    let ends = on_threads(3, None, &Settings::default(), |messenger, host| {
        if messenger.rank() == Rank(1) {
            thread::sleep(Duration::from_millis(300));
        }
        run(&graph, &messenger, &*host)
    });
    assert!(ends.iter().all(|end| end.is_good()));
}

#[test]
fn a_rank_that_ends_without_opening_the_run_is_named_by_the_others() {
    let graph = Graph::random(5, 3, 50);
    let ends = on_threads(3, None, &Settings::default(), |messenger, host| {
        (messenger.rank() != Rank(2)).then(|| run(&graph, &messenger, &*host))
    });
    for end in ends.into_iter().flatten() {
        let (kind, text) = end.result.unwrap_err();
        assert!(kind == "RankLost" && text.contains("rank 2"), "{text}");
    }
}

#[test]
fn a_line_that_is_dropped_open_fails_the_run_everywhere_and_the_next_succeeds() {
    let graph = Graph::random(6, 3, 50);
    let ends = on_threads(3, None, &Settings::default(), |messenger, host| {
        let first = if messenger.rank() == Rank(1) {
            let terms = dataflow_core::port::Terms {
                settings: vec![("tasks".into(), "50".into())],
            };
            drop(messenger.open(&terms, Arc::new(Nothing)).unwrap());
            None
        } else {
            Some(run(&graph, &messenger, &*host))
        };
        (first, run(&graph, &messenger, &*host))
    });
    for (first, second) in ends {
        if let Some(first) = first {
            assert_eq!(first.result.unwrap().unwrap().kind, "cancelled");
        }
        assert!(second.is_good(), "{second:?}");
    }
}

struct Nothing;

impl dataflow_core::port::Inbox for Nothing {
    fn deliver(&self, _: Rank, _: dataflow_core::port::Arrival) {}
    fn pulse(&self) -> dataflow_core::port::Pulse {
        dataflow_core::port::Pulse::default()
    }
    fn stop(&self, _: dataflow_core::port::Failure) {}
    fn stall(&self) {}
}

/// It waited for itself.
#[test]
fn whoever_has_the_bare_transport_is_refused_what_would_wait_for_it() {
    let (tell, told) = channel();
    // Not joined: if it waits for ever the test must not.
    thread::spawn(move || {
        let transport = Box::new(local::connect(1).remove(0));
        let settings = Settings::default();
        let messenger = Messenger::new(transport, settings, Machine::new(), Arc::new(Heap));
        let messenger = messenger.unwrap();
        let open = || messenger.open(&Terms::default(), Arc::new(Nothing));
        let refused = messenger.bare(true, |_| {
            let again = messenger.bare(true, |_| ());
            [again, open().map(drop)].map(Result::unwrap_err)
        });
        let line = open().unwrap();
        assert_eq!(line.close(None).unwrap(), None, "as ever");
        tell.send(refused.unwrap()).unwrap();
    });
    for refused in told.recv_timeout(Duration::from_secs(20)).unwrap() {
        assert_eq!(refused.kind(), Kind::NestedRun);
        assert!(!refused.message().contains("  "), "{refused}");
    }
}

#[test]
fn the_bare_transport_is_not_lent_during_a_run() {
    let transport = Box::new(local::connect(1).remove(0));
    let settings = Settings::default();
    let messenger = Messenger::new(transport, settings, Machine::new(), Arc::new(Heap)).unwrap();
    let line = messenger.open(&Terms::default(), Arc::new(Nothing));
    let refused = messenger.bare(true, |_| ()).unwrap_err();
    assert_eq!(
        refused.kind(),
        Kind::NestedRun,
        "as a second run is: {refused}"
    );
    assert_eq!(line.unwrap().close(None).unwrap(), None);
    assert_eq!(messenger.bare(true, |_| 1).unwrap(), 1);
}

#[test]
fn raw_messages_come_into_the_same_block_each_time() {
    for spins in [false, true] {
        let mut ends = local::connect(2)
            .into_iter()
            .map(|end| Raw::new(Box::new(end), &*Machine::new() as &dyn Host, spins));
        let (mut here, mut there) = (ends.next().unwrap(), ends.next().unwrap());
        thread::scope(|ranks| {
            ranks.spawn(move || {
                let mut block = Heap.allocate(1000);
                for _ in 0..100 {
                    block = there.receive(Rank(0), block).unwrap();
                    there.send(Rank(0), &Sendable::new(block.bytes().to_vec()));
                }
            });
            let sent = Sendable::new((0..1000).map(|i| i as u8).collect());
            let mut block = Heap.allocate(1000);
            let place = block.bytes().as_ptr();
            for _ in 0..100 {
                block.bytes_mut().fill(0);
                here.send(Rank(1), &sent);
                block = here.receive(Rank(1), block).unwrap();
                assert!(
                    block
                        .bytes()
                        .iter()
                        .enumerate()
                        .all(|(i, &byte)| byte == i as u8)
                );
            }
            assert_eq!(block.bytes().as_ptr(), place);
        });
    }
}

/// An inbox that panics when a parcel comes, having told of it.
struct Fragile(Arc<dyn dataflow_mpi::Bell>);

impl dataflow_core::port::Inbox for Fragile {
    fn deliver(&self, _: Rank, _: dataflow_core::port::Arrival) {
        self.0.ring();
        std::panic::resume_unwind(Box::new("not a word on the screen"));
    }
    fn pulse(&self) -> dataflow_core::port::Pulse {
        dataflow_core::port::Pulse::default()
    }
    fn stop(&self, _: dataflow_core::port::Failure) {}
    fn stall(&self) {}
}

#[test]
fn a_panic_while_messages_are_moved_is_an_error_on_every_rank() {
    let graph = Graph::flood(3, 10, Some(8), 0.0);
    for drive in [Drive::Dedicated, Drive::Workers] {
        let settings = Settings {
            drive,
            ..Settings::default()
        };
        let texts = on_threads(3, None, &settings, |messenger, host| {
            if messenger.rank() == Rank(0) {
                let terms = dataflow_core::port::Terms {
                    settings: vec![("tasks".into(), graph.tasks.len().to_string())],
                };
                let bell = host.bell();
                let line = messenger
                    .open(&terms, Arc::new(Fragile(bell.clone())))
                    .unwrap();
                bell.wait(None);
                line.close(None).unwrap_err().message().to_string()
            } else {
                run(&graph, &messenger, &*host).result.unwrap_err().1
            }
        });
        for text in texts {
            let expected = "rank 0 panicked while it moved messages: not a word on the screen";
            assert_eq!(text, expected);
        }
    }
}

/// A datum whose size cannot be told.
struct Unsized;

impl Cargo for Unsized {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        std::panic::resume_unwind(Box::new("not a word on the screen"));
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }
}

/// The answer was lost with the datum: if posts wait for their receivers, the worker did for ever.
#[test]
fn a_panic_while_a_datum_is_posted_is_an_error_on_every_rank_also_where_posts_wait() {
    for blocking in [false, true] {
        let (tell, told) = std::sync::mpsc::channel();
        let post_and_close = move || {
            let settings = Settings {
                blocking,
                ..Settings::default()
            };
            let texts = on_threads(2, None, &settings, |messenger, _| {
                let line = messenger.open(&Terms::default(), Arc::new(Nothing));
                let line = line.unwrap();
                if messenger.rank() == Rank(0) {
                    let cargo: Arc<dyn Cargo> = Arc::new(Unsized);
                    let flows = [(0, Some(cargo))].into_iter().collect();
                    line.post(Parcel { flows, ..parcel(0) });
                }
                let failure = line.close(None).unwrap().unwrap();
                // That was the datum's fault: they can go on.
                let line = messenger.open(&Terms::default(), Arc::new(Nothing));
                assert_eq!(line.unwrap().close(None).unwrap(), None);
                failure.message
            });
            tell.send(texts).unwrap();
        };
        thread::spawn(post_and_close);
        let texts = told.recv_timeout(Duration::from_secs(20));
        let expected = "a datum panicked as it was sent: not a word on the screen";
        assert_eq!(texts, Ok(vec![expected.to_string(); 2]), "{blocking}");
    }
}

/// Whoever moves its messages stands still until it is let go.
struct Held {
    until: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
    came: std::sync::atomic::AtomicU64,
}

impl dataflow_core::port::Inbox for Held {
    fn deliver(&self, _: Rank, _: dataflow_core::port::Arrival) {
        self.until.lock().unwrap().recv().ok();
        self.came.fetch_add(1, SeqCst);
    }
    fn pulse(&self) -> dataflow_core::port::Pulse {
        dataflow_core::port::Pulse::default()
    }
    fn stop(&self, _: dataflow_core::port::Failure) {}
    fn stall(&self) {}
}

#[test]
fn a_worker_that_has_run_everything_stays_while_others_may_ask_for_data() {
    let (let_go, held) = std::sync::mpsc::channel();
    let held = Arc::new(Held {
        until: std::sync::Mutex::new(held),
        came: Default::default(),
    });
    on_threads(2, None, &Settings::default(), |messenger, _| {
        let line = messenger.open(&Terms::default(), held.clone()).unwrap();
        if messenger.rank() == Rank(0) {
            assert!(!line.lingers(true, &mut None) && line.lingers(false, &mut None));
            line.post(parcel(8));
            line.post(parcel(100_000));
            let deadline = Instant::now() + Duration::from_secs(20);
            // Nobody asks for it yet. Whoever moves messages just now takes it from us.
            while !line.lingers(true, &mut None) && Instant::now() < deadline {
                line.poll();
            }
            let stays = line.lingers(true, &mut None);
            (0..2).for_each(|_| let_go.send(()).unwrap());
            assert!(stays, "there are data that nobody has asked for");
            while line.lingers(true, &mut None) {
                assert!(Instant::now() < deadline, "it was asked for");
                line.poll();
            }
        }
        // Who closes has taken in all that was for it.
        while held.came.load(SeqCst) < 2 {
            thread::yield_now();
        }
        assert_eq!(line.close(None).unwrap(), None);
    });
}

/// A datum of so many bytes for rank 1.
fn parcel(size: usize) -> Parcel {
    let cargo: Arc<dyn Cargo> = Arc::new(Zeros(vec![0; size]));
    Parcel {
        to: [Rank(1)].into_iter().collect(),
        task: WireName::new(),
        poisoned: false,
        priority: 0,
        flows: [(0, Some(cargo))].into_iter().collect(),
    }
}

struct Zeros(Vec<u8>);

impl Cargo for Zeros {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        self.0.len()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.0)
    }
}

#[test]
fn settings_that_cannot_work_and_a_second_line_are_refused() {
    let never = Settings {
        beat: Duration::from_secs(6),
        ..Settings::default()
    };
    let transport = local::connect(1).remove(0);
    let refused = Messenger::new(Box::new(transport), never, Machine::new(), Arc::new(Heap));
    assert!(refused.unwrap_err().message().contains("every 6s"));
    let transport = local::connect(1).remove(0);
    let settings = Settings::default();
    let messenger = Messenger::new(
        Box::new(transport),
        settings,
        Machine::new(),
        Arc::new(Heap),
    )
    .unwrap();
    let terms = dataflow_core::port::Terms::default();
    let line = messenger.open(&terms, Arc::new(Nothing)).unwrap();
    let second = messenger.open(&terms, Arc::new(Nothing)).map(drop);
    let second = second.unwrap_err();
    assert_eq!(second.kind(), Kind::NestedRun);
    assert!(second.message().contains("still open"), "{second}");
    assert_eq!(line.close(None).unwrap(), None);
    assert!(
        line.close(None)
            .unwrap_err()
            .message()
            .contains("closed before")
    );
    assert!(
        messenger
            .open(&terms, Arc::new(Nothing))
            .unwrap()
            .close(None)
            .is_ok()
    );
}

/// A transport that must be asked again and again, as MPI must, and says that it is of this rank of so many.
struct Mute(Local, Rank, usize);

impl Transport for Mute {
    fn rank(&self) -> Rank {
        self.1
    }
    fn n_ranks(&self) -> usize {
        self.2
    }
    fn limits(&self) -> MessageLimits {
        self.0.limits()
    }
    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        self.0.send(to, packet);
    }
    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        self.0.send_data(to, tag, payload);
    }
    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        self.0.receive(from, tag, room);
    }
    fn awaits(&mut self, to: Rank) -> bool {
        self.0.awaits(to)
    }
    fn poll(&mut self) -> Option<Event> {
        self.0.poll()
    }
    fn bell(&mut self, _: &dyn Host) -> Option<Arc<dyn Bell>> {
        None
    }
}

/// Its part was run by nobody, and all seemed well; of too many ranks there were as many as 32 bits had left.
#[test]
fn a_transport_of_a_rank_that_is_not_there_is_refused_and_so_are_more_ranks_than_have_numbers() {
    for (rank, n_ranks, says) in [
        (2, 2, "the transport is rank 2's of 2 (they begin at 0)"),
        (
            1,
            (1 << 32) + 2,
            "the transport is rank 1's of 4294967298 (at most 4294967295 are allowed)",
        ),
    ] {
        let transport = Box::new(Mute(local::connect(2).remove(0), Rank(rank), n_ranks));
        let (settings, host) = (Settings::default(), Machine::new());
        let refused = Messenger::new(transport, settings, host, Arc::new(Heap)).unwrap_err();
        assert_eq!(refused.kind(), Kind::WrongSettings);
        assert_eq!(refused.message(), says);
    }
}

/// Half of a beat that never comes, added to the time of day, was a panic of the thread that moves
/// messages; whoever then opened a run waited for ever.
#[test]
fn ranks_that_never_beat_run_over_a_transport_that_cannot_ring() {
    for drive in [Drive::Dedicated, Drive::Workers] {
        let settings = Settings {
            beat: Duration::MAX,
            silence: Duration::MAX,
            spin: Duration::ZERO,
            drive,
            ..Settings::default()
        };
        let graph = Graph::random(3, 2, 100);
        let (ended, ends) = channel();
        for transport in local::connect(2) {
            let (settings, graph, ended) = (settings.clone(), graph.clone(), ended.clone());
            // Not joined: if it waits for ever the test must not.
            thread::spawn(move || {
                let host = Machine::new();
                let rank = transport.rank();
                let transport = Box::new(Mute(transport, rank, 2));
                let messenger = Messenger::new(transport, settings, host.clone(), Arc::new(Heap));
                let messenger = messenger.unwrap();
                for _ in 0..2 {
                    thread::sleep(Duration::from_millis(20)); // its thread falls asleep
                    ended.send(run(&graph, &messenger, &*host)).unwrap();
                }
            });
        }
        for _ in 0..4 {
            let end = ends.recv_timeout(Duration::from_secs(60));
            assert!(end.is_ok_and(|end| end.is_good()), "{drive:?}");
        }
    }
}
