//! What a depot knows of one run; forgotten when the next begins.

use crate::credit::Credit;
use crate::rendezvous::{Shelf, Wanted};
use crate::settings::Settings;
use crate::termination::closing::{Closing, Deeds};
use crate::termination::waves::{Standing, Waves};
use crate::transport::Limits;
use dataflow_core::port::{Failure, Pulse};
use dataflow_core::rank::Rank;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) struct Run {
    pub deeds: Deeds,
    pub pulse: Pulse,
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
    pub shelf: Shelf,
    pub wanted: Wanted,
    /// Receipts that must come: of which activation, for how many bytes, and since when nothing but
    /// the receipt is missing.
    pub receipts: BTreeMap<(Rank, u32), (usize, Option<Duration>)>,
    /// By rank.
    pub ways: Vec<Way>,
}

/// Between this rank and one other.
pub(super) struct Way {
    pub credit: Credit,
    /// Activations sent.
    pub sent: u32,
    /// Activations that came.
    pub came: u32,
}

impl Run {
    pub fn new(n_ranks: usize, settings: &Settings, limits: Limits) -> Self {
        let way = || Way {
            credit: Credit::new(settings.credit_bytes),
            sent: 0,
            came: 0,
        };
        Run {
            deeds: Deeds::default(),
            pulse: Pulse::default(),
            failure: None,
            stopped: false,
            closed: false,
            accounted: false,
            reported: false,
            closing: Closing::default(),
            waves: Waves::new(settings.beat / 20, settings.silence),
            shelf: Shelf::default(),
            wanted: Wanted::new(
                settings.window_bytes,
                limits.message_bytes,
                limits.largest_tag,
            ),
            receipts: BTreeMap::new(),
            ways: (0..n_ranks).map(|_| way()).collect(),
        }
    }

    /// Notes a failure; the smallest is kept.
    pub fn fails(&mut self, failure: Failure) {
        self.failure = Some(match self.failure.take() {
            Some(known) => known.min(failure),
            None => failure,
        });
    }

    pub fn standing(&self) -> Standing {
        Standing {
            dry: self.closed || self.pulse.idle,
            short: !self.closed && self.pulse.executed < self.pulse.count,
            sent: self.deeds.sent,
            delivered: self.deeds.delivered,
        }
    }
}
