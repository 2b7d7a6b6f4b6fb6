//! A datum for many ranks goes through some of them, whatever their workers do.
//!
//! Once it was passed on by workers, between two bodies: rank 3 had its 8 bytes when a body of 6 s on
//! rank 2 had ended.

use crate::sockets;
use dataflow_core::port::{
    Arrival, Cargo, Courier, Failure, Head, Heap, Inbox, Parcel, Pulse, Terms, WireName,
};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::{Transport, local};
use dataflow_mpi::{Drive, Machine, Messenger, Settings};
use std::borrow::Cow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long nothing may happen while something must.
const PATIENCE: Duration = Duration::from_secs(60);

/// A rank whose workers are all in a body: what comes is noted, and nobody polls.
struct AtWork(Mutex<Sender<usize>>);

impl Inbox for AtWork {
    fn deliver(&self, _: Rank, arrival: Arrival) {
        let goods = arrival.flows.iter().flat_map(|(_, goods)| goods);
        let bytes = goods.flat_map(|goods| goods.body.bytes());
        let noted = bytes.filter(|byte| **byte == 0xda).count();
        self.0.lock().unwrap().send(noted).unwrap();
    }
    fn pulse(&self) -> Pulse {
        Pulse::default()
    }
    fn stop(&self, failure: Failure) {
        panic!("{failure:?}");
    }
    fn stall(&self) {
        panic!("nothing stalls");
    }
}

struct Bytes(Vec<u8>);

impl Cargo for Bytes {
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

fn for_all_others(bytes: usize) -> Parcel {
    let cargo: Arc<dyn Cargo> = Arc::new(Bytes(vec![0xda; bytes]));
    Parcel {
        to: [1, 2, 3].map(Rank).into_iter().collect(),
        task: WireName::new(),
        poisoned: false,
        priority: 0,
        flows: [(0, Some(cargo))].into_iter().collect(),
    }
}

/// Rank 0 sends a small datum to all, which rank 3 gets through rank 2, and a large one, which comes
/// through rank 1. All wait until
/// rank 3 has them, and move no message meanwhile.
fn rank_three_gets_all(transports: Vec<Box<dyn Transport>>, drive: Drive) {
    let (has_all, all_wait): (Vec<Sender<()>>, Vec<Receiver<()>>) =
        (0..3).map(|_| channel()).unzip();
    let mut all_wait = all_wait.into_iter();
    thread::scope(|ranks| {
        for transport in transports {
            let wait = all_wait.next();
            let has_all = has_all.clone();
            let settings = Settings {
                drive,
                ..Settings::default()
            };
            ranks.spawn(move || {
                let messenger =
                    Messenger::new(transport, settings, Machine::new(), Arc::new(Heap)).unwrap();
                let (note, noted) = channel();
                let inbox = Arc::new(AtWork(Mutex::new(note)));
                let line = messenger.open(&Terms::default(), inbox).unwrap();
                let rank = messenger.rank();
                if rank == Rank(0) {
                    line.post(for_all_others(8));
                    line.post(for_all_others(1 << 20));
                }
                match wait {
                    Some(wait) => wait.recv_timeout(PATIENCE).unwrap(),
                    None => {
                        let sum = (0..2).map(|_| noted.recv_timeout(PATIENCE).unwrap());
                        assert_eq!(sum.sum::<usize>(), 8 + (1 << 20));
                        has_all.iter().for_each(|other| other.send(()).unwrap());
                    }
                }
                if rank != Rank(0) && rank != Rank(3) {
                    let sum = (0..2).map(|_| noted.recv_timeout(PATIENCE).unwrap());
                    assert_eq!(sum.sum::<usize>(), 8 + (1 << 20));
                }
                assert_eq!(line.close(None).unwrap(), None);
                let sent = messenger.counters();
                let expected = [4, 1, 1, 0][rank.0 as usize];
                assert_eq!((sent.activations, sent.messages), (expected, expected));
            });
        }
    });
}

#[test]
fn between_threads_a_broadcast_waits_for_no_body() {
    for drive in [Drive::Workers, Drive::Dedicated] {
        let ends = local::connect(4).into_iter();
        rank_three_gets_all(ends.map(|end| Box::new(end) as _).collect(), drive);
    }
}

#[test]
fn over_sockets_a_broadcast_waits_for_no_body() {
    for drive in [Drive::Workers, Drive::Dedicated] {
        let ends = sockets::connect(4).into_iter();
        rank_three_gets_all(ends.map(|end| Box::new(end) as _).collect(), drive);
    }
}
