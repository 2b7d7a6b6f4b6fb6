//! Waves: four counters that find out that nothing will happen any more.
//!
//! The root sends a wave down the tree. Each rank holds it until it is *dry*: it runs nothing and
//! has nothing queued, so only an arrival can change that. Then it answers with the parcels it has
//! sent and those delivered to it, its children's added. Two waves in a row with the same sums, as
//! many sent as delivered, are the proof: every rank was dry between its two answers, for it would
//! have taken a delivery to change that, and no parcel was under way when the first wave ended.
//!
//! # Law
//! A wave starts when a dry rank is short of its tasks, so ordinary runs have none. Parcels whose
//! data are still under way are not delivered; bytes that come of them show in the sums, so that a
//! slow transfer is no loss. A wave that was lost is repeated after a while.
//!
//! # Source
//! Mattern, *Algorithms for distributed termination detection*, Distributed Computing 2 (1987):
//! the four-counter method.

use crate::family::{FromChildren, TreePlace};
use crate::wire::Tally;
use dataflow_core::rank::Rank;
use std::time::Duration;

/// One rank's part in the waves of a run.
#[derive(Debug)]
pub struct Waves {
    pause: Duration,
    silence: Duration,
    /// The wave that is held or whose answers are awaited.
    round: u32,
    held: bool,
    answers: FromChildren<Tally>,
    root: Root,
    /// Whether a rank below, or any where this is the root, has said that it is dry and short.
    dry_below: bool,
    /// When the same was last said from here.
    told: Option<Duration>,
}

/// What only the root knows.
#[derive(Debug, Default)]
struct Root {
    wanted: bool,
    started: Duration,
    last: Option<Tally>,
    /// Since when the sums have been the same.
    same_since: Duration,
    ended: Option<Duration>,
}

/// How a rank stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Only an arrival can change anything.
    pub dry: bool,
    /// It has not run all its tasks.
    pub short: bool,
    /// Parcels sent.
    pub sent: u64,
    /// Parcels delivered.
    pub delivered: u64,
    /// Grows as bytes come.
    pub came: u64,
    /// Since when this rank has listened.
    pub listens: Duration,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Tell the parent that a rank is dry and short: this one, or one below.
    Dry,
    /// Send a wave to the children.
    Wave(u32),
    /// Answer the parent.
    Tally(u32, Tally),
    /// Nothing will happen any more: tell the children.
    Quiet(u32),
    /// Parcels were lost: so many sent, so many delivered, and nothing moves.
    Lost(Tally),
}

impl Waves {
    /// Waves follow one another after a pause; silence is how long lost ones are waited for.
    pub fn new(pause: Duration, silence: Duration) -> Self {
        Waves {
            pause,
            silence,
            round: 0,
            held: false,
            answers: FromChildren::default(),
            root: Root::default(),
            dry_below: false,
            told: None,
        }
    }

    /// A rank below is dry and short: the root shall see.
    pub fn hear_dry(&mut self) {
        self.dry_below = true;
    }

    /// A wave has come down. Passed on at once by the caller.
    pub fn hear_wave(&mut self, round: u32) {
        self.round = round;
        self.held = true;
        self.answers.clear();
    }

    /// A child answers; answers to waves given up are ignored.
    pub fn hear_tally(&mut self, child: Rank, round: u32, tally: Tally) {
        if round == self.round {
            self.answers.hear(child, tally);
        }
    }

    /// What to do now; to be asked until it is nothing.
    pub fn next(&mut self, family: &TreePlace, standing: Standing, now: Duration) -> Option<Next> {
        if family.parent.is_none() {
            return self.lead(family, standing, now);
        }
        if self.held && standing.dry && self.answers.has_heard_all(family) {
            self.held = false;
            return Some(Next::Tally(self.round, self.sum(standing)));
        }
        // Once is enough, whichever rank of many it was: the root then counts until all are done, or nothing
        // can be. It is said again only in case it was lost.
        let asks = self.dry_below || (standing.dry && standing.short);
        let is_told = |told| now.saturating_sub(told) < self.silence;
        if asks && !self.told.is_some_and(is_told) {
            self.dry_below = false;
            self.told = Some(now);
            return Some(Next::Dry);
        }
        None
    }

    /// Whether a wave waits for this rank, or for those below it.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// When something may have to be done though nothing has happened.
    pub fn wakes(&self, now: Duration) -> Option<Duration> {
        (self.root.wanted && !self.held).then(|| now + self.pause)
    }

    fn lead(&mut self, family: &TreePlace, standing: Standing, now: Duration) -> Option<Next> {
        self.root.wanted |= std::mem::take(&mut self.dry_below);
        self.root.wanted |= standing.dry && standing.short;
        if self.held && standing.dry && self.answers.has_heard_all(family) {
            self.held = false;
            return self.conclude(standing, now);
        }
        let overdue = self.held && now.saturating_sub(self.root.started) > self.silence;
        let rested = self
            .root
            .ended
            .is_none_or(|ended| now.saturating_sub(ended) >= self.pause);
        if self.root.wanted && standing.dry && (overdue || (!self.held && rested)) {
            self.hear_wave(self.round.wrapping_add(1));
            self.root.started = now;
            return Some(Next::Wave(self.round));
        }
        None
    }

    /// All have answered.
    fn conclude(&mut self, standing: Standing, now: Duration) -> Option<Next> {
        let sum = self.sum(standing);
        self.root.ended = Some(now);
        if self.root.last != Some(sum) {
            self.root.same_since = now;
        }
        let same = self.root.last.replace(sum) == Some(sum);
        if sum.short == 0 {
            self.root.wanted = false; // all are done, and closing
        } else if same && sum.sent == sum.delivered {
            self.root.wanted = false;
            return Some(Next::Quiet(self.round));
        } else if same
            && now.saturating_sub(self.root.same_since.max(standing.listens)) > self.silence
        {
            return Some(Next::Lost(sum));
        }
        None
    }

    fn sum(&self, standing: Standing) -> Tally {
        let mut sum = Tally {
            sent: standing.sent,
            delivered: standing.delivered,
            short: standing.short.into(),
            came: standing.came,
        };
        for (_, tally) in self.answers.all() {
            sum.add(*tally);
        }
        sum
    }
}

#[cfg(test)]
mod tests;
