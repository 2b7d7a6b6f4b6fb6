//! All ranks of a job as depots in one process: time is a number, and a packet arrives at once.
//!
//! The tests of many ranks include it too (`#[path]`).

use dataflow_core::port::{Heap, Parcel, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::Settings;
use dataflow_mpi::depot::{Action, Depot};
use dataflow_mpi::transport::{Event, MessageLimits};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const LIMITS: MessageLimits = MessageLimits {
    message_bytes: 1 << 20,
    largest_tag: 1 << 20,
    in_order: true,
};

/// How often depots look at the clock.
pub const STEP: Duration = Duration::from_millis(50);

/// All ranks of a job.
pub struct Crowd {
    pub depots: Vec<Depot>,
    /// They get nothing and say nothing.
    pub dead: BTreeSet<usize>,
    /// What else than packets the depots wanted done, by rank.
    pub told: Vec<Vec<Action>>,
    /// Whether that is not written down.
    pub forgets: bool,
    pub now: Duration,
    /// To whom, from whom, what.
    mail: VecDeque<(Rank, Rank, Vec<u8>)>,
}

impl Crowd {
    pub fn new(n_ranks: usize) -> Self {
        let depot = |rank| {
            let (settings, memory) = (Settings::default(), Arc::new(Heap));
            Depot::new(Rank(rank), n_ranks, LIMITS, settings, memory)
        };
        Crowd {
            depots: (0..n_ranks as u32).map(depot).collect(),
            dead: BTreeSet::new(),
            told: (0..n_ranks).map(|_| Vec::new()).collect(),
            forgets: false,
            now: Duration::from_secs(1),
            mail: VecDeque::new(),
        }
    }

    /// All ranks open a run.
    pub fn open(&mut self) {
        for depot in &mut self.depots {
            depot.open(&Terms::default(), self.now);
        }
        self.settle();
    }

    /// Packets that have left so far.
    pub fn packets(&self) -> u64 {
        let packets = self.depots.iter().map(|depot| depot.counters().packets);
        packets.sum()
    }

    /// So much time passes.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += STEP;
            self.settle();
        }
    }

    /// Drives all depots, and carries packets until none is left.
    pub fn settle(&mut self) {
        for rank in 0..self.depots.len() {
            self.drive(rank);
        }
        self.carry();
    }

    /// Drives one, and carries packets until none is left.
    pub fn settle_one(&mut self, rank: usize) {
        self.drive(rank);
        self.carry();
    }

    fn carry(&mut self) {
        while let Some((to, from, bytes)) = self.mail.pop_front() {
            let (sender, receiver) = (from.0 as usize, to.0 as usize);
            self.depots[sender].event(Event::Sent(to), self.now);
            if !self.dead.contains(&receiver) {
                self.depots[receiver].event(Event::Packet { from, bytes }, self.now);
                self.drive(receiver);
            }
            self.drive(sender);
        }
    }

    fn drive(&mut self, rank: usize) {
        if self.dead.contains(&rank) {
            return;
        }
        self.depots[rank].drive(self.now);
        while let Some(action) = self.depots[rank].next_action() {
            match action {
                Action::Packet(to, bytes) => self.mail.push_back((to, Rank(rank as u32), bytes)),
                _ if self.forgets => {}
                other => self.told[rank].push(other),
            }
        }
    }
}

/// A task's word, without data.
pub fn parcel(to: u32) -> Parcel {
    Parcel {
        to: [Rank(to)].into_iter().collect(),
        task: [1, 2, 3].into_iter().collect(),
        poisoned: false,
        priority: 0,
        flows: [(0, None)].into_iter().collect(),
    }
}
