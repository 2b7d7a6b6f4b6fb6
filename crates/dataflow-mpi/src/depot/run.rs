//! What a depot knows of one run; forgotten when the next begins.
//!
//! # Law
//! When a run has ended, however it did, nothing of the program's is held here any more: neither data nor
//! its inbox.

use super::followed::Followed;
use super::relay::Passing;
use crate::credit::Credit;
use crate::peers::Peers;
use crate::rendezvous::{Unclaimed, Wanted};
use crate::settings::Settings;
use crate::termination::closing::{Closing, Deeds};
use crate::termination::waves::{Standing, Waves};
use crate::transport::MessageLimits;
use dataflow_core::port::{Failure, Pulse};
use dataflow_core::rank::Rank;
use std::time::Duration;

pub(super) struct RunState {
    pub deeds: Deeds,
    pub pulse: Pulse,
    /// Grows as bytes of data come from anybody.
    pub came: u64,
    /// Bytes of data that were handed to the inbox.
    pub handed: u64,
    /// Those of them that no task used yet when the inbox was last asked.
    pub unused: u64,
    /// Those that go on from here.
    pub passing: Passing,
    /// The smallest failure known here.
    pub failure: Option<Failure>,
    /// No further task starts, nothing more is delivered.
    pub stopped: bool,
    /// This rank runs nothing any more.
    pub closed: bool,
    /// Its account has been added.
    pub accounted: bool,
    /// The parent has been told.
    pub reported: bool,
    pub closing: Closing,
    pub waves: Waves,
    /// The [parcels](Self::parcels) when it last answered a wave.
    pub tallied: Option<(u64, u64)>,
    pub unclaimed: Unclaimed,
    /// What is under way, if the inbox wants to hear of it.
    pub followed: Option<Followed>,
    pub wanted: Wanted,
    /// Whether data were asked for in this run, passed on or held back: until this rank looks others wait.
    pub hurries: bool,
    /// The same of the run before.
    pub hurried: bool,
    /// Receipts that must come: of which activation, and since when nothing but the receipt is
    /// missing.
    pub receipts: Vec<((Rank, u32), Option<Duration>)>,
    /// To and from those with whom data or credit are exchanged.
    pub peers: Peers<PeerState>,
    credit_bytes: usize,
}

/// Between this rank and one other.
pub(super) struct PeerState {
    pub credit: Credit,
    /// Activations sent.
    pub sent: u32,
    /// Activations that came.
    pub came: u32,
    /// When something of this run last moved: data or an activation came, or a question was taken.
    pub moved: Duration,
    /// The last question is taken when so many packets are.
    pub question: Option<u64>,
    /// Grows as bytes of data come.
    pub bytes: u64,
    /// The same at the other end, as it said last.
    pub bytes_there: u64,
}

impl PeerState {
    fn new(credit_bytes: usize) -> Self {
        PeerState {
            credit: Credit::new(credit_bytes),
            sent: 0,
            came: 0,
            moved: Duration::ZERO,
            question: None,
            bytes: 0,
            bytes_there: 0,
        }
    }

    /// So many packets have left, since the rank was started.
    pub fn note_sent(&mut self, packets: u64, now: Duration) {
        if self.question.is_some_and(|question| question <= packets) {
            self.question = None;
            self.moved = now;
        }
    }
}

impl RunState {
    pub fn new(settings: &Settings, limits: MessageLimits) -> Self {
        RunState {
            deeds: Deeds::default(),
            pulse: Pulse::default(),
            came: 0,
            handed: 0,
            unused: 0,
            passing: Passing::default(),
            failure: None,
            stopped: false,
            closed: false,
            accounted: false,
            reported: false,
            closing: Closing::default(),
            waves: Waves::new(settings.pause(), settings.silence),
            tallied: None,
            unclaimed: Unclaimed::default(),
            followed: None,
            wanted: Wanted::new(
                settings.window_bytes,
                limits.message_bytes,
                limits.largest_tag,
            ),
            hurries: false,
            hurried: false,
            receipts: Vec::new(),
            peers: Peers::default(),
            credit_bytes: settings.credit_bytes,
        }
    }

    /// The same after another run, of which data may still be under way: they find no room of this one.
    pub fn after(mut self, last: &RunState) -> Self {
        self.wanted.go_on_after(&last.wanted);
        self.hurried = last.hurries;
        self
    }

    /// Nobody will ask for data of this run any more, and nobody hears what becomes of its messages.
    pub fn let_go(&mut self) {
        self.followed = None;
        // One by one: of two data that panic as one collection drops them the second ends the process.
        std::mem::take(&mut self.unclaimed).drop_each();
    }

    /// What is between this rank and that one.
    pub fn peer(&mut self, rank: Rank) -> &mut PeerState {
        let credit_bytes = self.credit_bytes;
        self.peers.meet(rank, || PeerState::new(credit_bytes))
    }

    /// Notes a failure; the smallest is kept.
    pub fn fails(&mut self, failure: Failure) {
        self.failure = Some(match self.failure.take() {
            Some(known) => known.min(failure),
            None => failure,
        });
    }

    /// Bytes of data have come, whole or not.
    pub fn note_bytes(&mut self, from: Rank, bytes: usize, now: Duration) {
        let peer = self.peer(from);
        peer.moved = now;
        peer.bytes = peer.bytes.saturating_add(bytes as u64);
        self.came = self.came.saturating_add(bytes as u64);
    }

    /// Bytes of data that have come and that no task uses yet.
    pub fn held(&self) -> u64 {
        self.handed.saturating_sub(self.pulse.used)
    }

    /// How many were sent from here, and how many delivered here.
    pub fn parcels(&self) -> (u64, u64) {
        (self.deeds.sent, self.deeds.delivered)
    }

    pub fn standing(&self, listens: Duration) -> Standing {
        Standing {
            listens,
            dry: self.closed || self.pulse.idle,
            short: !self.closed && self.pulse.executed < self.pulse.count,
            sent: self.deeds.sent,
            delivered: self.deeds.delivered,
            came: self.came,
        }
    }
}
