//! Watchdog: who has been silent for too long, and to whom one has been silent oneself.
//!
//! It listens to the ranks that this one has met: its neighbours in the tree, and those that it has
//! spoken to or heard of. That is mutual, so each of two that have met says to the other that it
//! lives. It looks at a rank only when the time has come at which something could be due there.
//!
//! # Law
//! A rank is lost when no byte was heard of it for as long as said, *while this rank listened*: one
//! that slept itself (a debugger, a stopped process) begins to count anew. One that was called, and is
//! not connected yet, is the affair of the rank that calls it.

use crate::peers::Peers;
use dataflow_core::rank::Rank;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Listens to the ranks that this one has met.
#[derive(Debug)]
pub struct Watchdog {
    rank: Rank,
    beat: Duration,
    silence: Duration,
    /// Whether a rank is called when it is first spoken to.
    calls: bool,
    met: Peers<LastHeard>,
    /// Silence counts from then at the earliest.
    since: Duration,
    looked: Duration,
    /// When a rank can be lost at the earliest, each once.
    losses: LooksDue,
    /// When a rank must hear of this one at the earliest, each once.
    beats: LooksDue,
}

/// Ranks by when to look at them. Words that come and go only put off what is due: so they leave an
/// agenda as it is, and the look that is due finds out.
type LooksDue = BinaryHeap<Reverse<(Duration, Rank)>>;

/// What was heard of a rank, and said to it.
#[derive(Debug)]
struct LastHeard {
    heard: Duration,
    spoken: Duration,
    /// Whether anything ever came from it.
    known: bool,
    /// Whether it is called, for all that is known: nothing has come from it.
    called: bool,
}

impl Watchdog {
    /// Hears nothing yet.
    pub fn new(rank: Rank, beat: Duration, silence: Duration) -> Self {
        Watchdog {
            rank,
            beat,
            silence,
            calls: false,
            met: Peers::default(),
            since: Duration::ZERO,
            looked: Duration::ZERO,
            losses: LooksDue::new(),
            beats: LooksDue::new(),
        }
    }

    /// The transport connects ranks when one speaks to the other for the first time. It says when they
    /// [are](Self::connected), or loses that one; until then silence means nothing.
    pub fn leave_calls_to_the_transport(&mut self) {
        self.calls = true;
    }

    /// From now on it listens to that rank, too.
    pub fn meet(&mut self, rank: Rank, now: Duration) {
        if rank != self.rank {
            self.entry(rank, now);
        }
    }

    fn entry(&mut self, rank: Rank, now: Duration) -> &mut LastHeard {
        let (losses, beats) = (&mut self.losses, &mut self.beats);
        let (beat, silence) = (self.beat, self.silence);
        self.met.meet(rank, || {
            losses.push(Reverse((now.saturating_add(silence), rank)));
            beats.push(Reverse((beat, rank)));
            LastHeard {
                heard: now,
                spoken: Duration::ZERO,
                known: false,
                called: false,
            }
        })
    }

    /// Whether that rank may know this one.
    pub fn has_met(&self, rank: Rank) -> bool {
        self.met.get(rank).is_some()
    }

    /// All that may know this one.
    pub fn met(&self) -> impl Iterator<Item = Rank> + '_ {
        self.met.iter().map(|(rank, _)| rank)
    }

    /// Begins to count.
    pub fn start(&mut self, now: Duration) {
        self.since = now;
        self.looked = now;
    }

    /// Since when this rank has listened: silence before that means nothing, of whatever kind.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// A packet has come, or part of something.
    pub fn heard(&mut self, from: Rank, now: Duration) {
        if from == self.rank {
            return;
        }
        let entry = self.entry(from, now);
        entry.heard = now;
        entry.known = true;
        entry.called = false;
    }

    /// A rank is connected: it lives, though it may not have begun to listen to words.
    pub fn connected(&mut self, rank: Rank, now: Duration) {
        if let Some(entry) = self.met.get_mut(rank) {
            entry.heard = now;
            entry.called = false;
        }
    }

    /// Whether anything ever came from that rank.
    pub fn is_known(&self, rank: Rank) -> bool {
        self.met.get(rank).is_some_and(|entry| entry.known)
    }

    /// A packet has left.
    pub fn spoken(&mut self, to: Rank, now: Duration) {
        if to != self.rank {
            let is_called = self.calls && !self.has_met(to);
            let entry = self.entry(to, now);
            entry.spoken = now;
            entry.called |= is_called;
        }
    }

    /// The rank silent for longest, if for too long, and for how long.
    pub fn lost(&mut self, now: Duration) -> Option<(Rank, Duration)> {
        if self.has_slept(now) {
            return None;
        }
        let mut longest: Option<(Duration, Rank)> = None;
        let mut again = Vec::new();
        while let Some(Reverse((at, rank))) = self.losses.peek().copied()
            && at < now
        {
            self.losses.pop();
            let last = self.last_of(rank, now);
            again.push(Reverse((last.saturating_add(self.silence), rank)));
            let silent = now.saturating_sub(last);
            if silent > self.silence {
                longest = longest.max(Some((silent, rank)));
            }
        }
        self.losses.extend(again);
        longest.map(|(silent, rank)| (rank, silent))
    }

    /// The same among those that this rank waits for and that were ever heard of.
    pub fn lost_known(&mut self, awaited: &[Rank], now: Duration) -> Option<(Rank, Duration)> {
        if self.has_slept(now) {
            return None;
        }
        let known = awaited.iter().filter(|rank| self.is_known(**rank));
        let silent = |rank| now.saturating_sub(self.last_of(rank, now));
        let longest = known.map(|&rank| (rank, silent(rank)));
        let longest = longest.max_by_key(|(_, silent)| *silent);
        longest.filter(|(_, silent)| *silent > self.silence)
    }

    /// When that rank was heard of last, or this one began to listen: now, while it is called.
    fn last_of(&self, rank: Rank, now: Duration) -> Duration {
        let met = self.met.get(rank).filter(|entry| !entry.called);
        let heard = met.map_or(now, |entry| entry.heard);
        heard.max(self.since)
    }

    /// Whether this rank has not looked for so long that it cannot blame others; then it begins to
    /// count anew.
    fn has_slept(&mut self, now: Duration) -> bool {
        let slept = now.saturating_sub(self.looked) * 2 > self.silence;
        self.looked = now;
        if slept {
            self.since = now;
        }
        slept
    }

    /// Who must hear that this rank lives.
    pub fn due(&mut self, now: Duration) -> Vec<Rank> {
        let (mut due, mut again) = (Vec::new(), Vec::new());
        while let Some(Reverse((at, rank))) = self.beats.peek().copied()
            && at <= now
        {
            self.beats.pop();
            let spoken = self.met.get(rank).map_or(now, |entry| entry.spoken);
            again.push(Reverse((spoken.saturating_add(self.beat), rank)));
            if self.is_due(rank, now) {
                due.push(rank);
            }
        }
        // What is said now leaves in a moment: the next look finds when.
        self.beats.extend(again);
        due
    }

    /// Whether that rank must hear that this one lives.
    pub fn is_due(&self, rank: Rank, now: Duration) -> bool {
        let spoken = self.met.get(rank).map(|entry| entry.spoken);
        now.saturating_sub(spoken.unwrap_or_default()) >= self.beat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn watchdog() -> Watchdog {
        let mut watchdog = Watchdog::new(Rank(0), at(1), at(10));
        (0..3).for_each(|rank| watchdog.meet(Rank(rank), at(0)));
        watchdog.start(at(100));
        watchdog
    }

    #[test]
    fn whoever_is_silent_for_longer_than_allowed_is_lost() {
        let mut watchdog = watchdog();
        for now in 101..=110 {
            watchdog.heard(Rank(1), at(now));
            assert_eq!(watchdog.lost(at(now)), None);
        }
        assert_eq!(watchdog.lost(at(111)), Some((Rank(2), at(11))));
    }

    #[test]
    fn whoever_may_be_silent_for_ever_is_never_lost() {
        let mut watchdog = Watchdog::new(Rank(0), Duration::MAX, Duration::MAX);
        watchdog.meet(Rank(1), at(1));
        watchdog.start(at(100));
        watchdog.heard(Rank(1), at(101));
        watchdog.spoken(Rank(1), at(101));
        for now in [102, 1 << 40, 1 << 50] {
            assert_eq!(watchdog.lost(at(now)), None);
            assert_eq!(watchdog.lost_known(&[Rank(1)], at(now)), None);
            assert_eq!(watchdog.due(at(now)), []);
        }
    }

    #[test]
    fn a_rank_that_slept_itself_blames_nobody() {
        let mut watchdog = watchdog();
        assert_eq!(watchdog.lost(at(150)), None);
        for now in 151..=160 {
            assert_eq!(watchdog.lost(at(now)), None);
        }
        assert!(watchdog.lost(at(161)).is_some());
    }

    #[test]
    fn of_those_that_are_awaited_only_one_that_was_ever_heard_of_can_be_lost() {
        let mut watchdog = watchdog();
        for now in 101..=120 {
            assert_eq!(watchdog.lost_known(&[Rank(1), Rank(2)], at(now)), None);
        }
        watchdog.heard(Rank(2), at(120));
        for now in 121..=130 {
            assert_eq!(watchdog.lost_known(&[Rank(1), Rank(2)], at(now)), None);
        }
        assert_eq!(watchdog.lost_known(&[Rank(1)], at(131)), None);
        let lost = watchdog.lost_known(&[Rank(1), Rank(2)], at(131));
        assert_eq!(lost, Some((Rank(2), at(11))));
    }

    #[test]
    fn only_those_who_heard_nothing_lately_are_told_that_one_lives() {
        let mut watchdog = watchdog();
        watchdog.spoken(Rank(1), at(100));
        watchdog.spoken(Rank(2), at(101));
        assert_eq!(watchdog.due(at(101)), [Rank(1)]);
        assert_eq!(watchdog.due(at(102)), [Rank(1), Rank(2)]);
        watchdog.spoken(Rank(1), at(102));
        assert_eq!(watchdog.due(at(102)), [Rank(2)], "until it is spoken to");
        assert_eq!(watchdog.due(at(103)), [Rank(2), Rank(1)]);
    }

    /// The transport allows more time than this for a connection, and it was of no use.
    #[test]
    fn silence_counts_from_the_connection_where_ranks_are_called_when_they_are_spoken_to() {
        let mut watchdog = watchdog();
        watchdog.leave_calls_to_the_transport();
        watchdog.spoken(Rank(4), at(100));
        watchdog.spoken(Rank(4), at(105)); // and more before it is connected
        let lost = |watchdog: &mut Watchdog, now| {
            watchdog.heard(Rank(1), at(now));
            watchdog.heard(Rank(2), at(now));
            watchdog.lost(at(now))
        };
        assert_eq!((101..=126).find_map(|now| lost(&mut watchdog, now)), None);
        watchdog.connected(Rank(4), at(126));
        assert!(!watchdog.is_known(Rank(4)), "it has said nothing");
        assert_eq!((127..=136).find_map(|now| lost(&mut watchdog, now)), None);
        assert_eq!(lost(&mut watchdog, 137), Some((Rank(4), at(11))));
    }

    #[test]
    fn whoever_was_called_and_has_said_something_may_be_silent_no_longer_than_others() {
        let mut watchdog = Watchdog::new(Rank(0), at(1), at(10));
        watchdog.leave_calls_to_the_transport();
        watchdog.start(at(100));
        watchdog.spoken(Rank(4), at(100));
        watchdog.heard(Rank(4), at(101));
        assert_eq!((102..=111).find_map(|now| watchdog.lost(at(now))), None);
        assert_eq!(watchdog.lost(at(112)), Some((Rank(4), at(11))));
    }

    #[test]
    fn only_those_that_have_met_are_listened_to() {
        let mut watchdog = Watchdog::new(Rank(1), at(1), at(10));
        [0, 3]
            .into_iter()
            .for_each(|rank| watchdog.meet(Rank(rank), at(0)));
        watchdog.start(at(0));
        assert_eq!(watchdog.due(at(5)), [Rank(0), Rank(3)]);
        watchdog.spoken(Rank(4), at(20));
        for now in 1..=29 {
            watchdog.heard(Rank(0), at(now));
            watchdog.heard(Rank(3), at(now));
            assert_eq!(watchdog.lost(at(now)), None, "{now}");
        }
        assert_eq!(watchdog.lost(at(31)), Some((Rank(4), at(11))));
    }
}
