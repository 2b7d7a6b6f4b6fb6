//! Watchdog: who has been silent for too long, and to whom one has been silent oneself.
//!
//! # Law
//! A rank is lost when no byte was heard of it for as long as said, *while this rank listened*: one
//! that slept itself (a debugger, a stopped process) begins to count anew.

use dataflow_core::rank::Rank;
use std::time::Duration;

/// Listens to all other ranks.
#[derive(Debug)]
pub struct Watchdog {
    rank: Rank,
    beat: Duration,
    silence: Duration,
    heard: Vec<Duration>,
    /// Whether anything ever came from that rank.
    known: Vec<bool>,
    /// Whether it has ever been heard of or spoken to: with others there may be no connection.
    met: Vec<bool>,
    spoken: Vec<Duration>,
    looked: Duration,
}

impl Watchdog {
    /// Hears nothing yet.
    pub fn new(rank: Rank, n_ranks: usize, beat: Duration, silence: Duration) -> Self {
        Watchdog {
            rank,
            beat,
            silence,
            heard: vec![Duration::ZERO; n_ranks],
            known: vec![false; n_ranks],
            met: vec![true; n_ranks],
            spoken: vec![Duration::ZERO; n_ranks],
            looked: Duration::ZERO,
        }
    }

    /// Listens only to those that are met, and to these.
    pub fn meet_on_need(&mut self, family: impl Iterator<Item = Rank>) {
        // Rank 0 is connected to all, whoever speaks to whom.
        self.met.fill(self.rank == Rank(0));
        self.met[0] = true;
        family.for_each(|rank| self.met[rank.0 as usize] = true);
    }

    /// Whether that rank may know this one.
    pub fn has_met(&self, rank: Rank) -> bool {
        self.met[rank.0 as usize]
    }

    /// Begins to count.
    pub fn start(&mut self, now: Duration) {
        self.heard.fill(now);
        self.looked = now;
    }

    /// A packet has come, or part of something.
    pub fn heard(&mut self, from: Rank, now: Duration) {
        self.heard[from.0 as usize] = now;
        self.known[from.0 as usize] = true;
        self.met[from.0 as usize] = true;
    }

    /// Whether anything ever came from that rank.
    pub fn is_known(&self, rank: Rank) -> bool {
        self.known[rank.0 as usize]
    }

    /// A packet has left.
    pub fn spoken(&mut self, to: Rank, now: Duration) {
        self.spoken[to.0 as usize] = now;
        if !std::mem::replace(&mut self.met[to.0 as usize], true) {
            self.heard[to.0 as usize] = now;
        }
    }

    /// The rank silent for longest, if for too long, and for how long.
    pub fn lost(&mut self, now: Duration) -> Option<(Rank, Duration)> {
        let others: Vec<Rank> = self.others().collect();
        self.lost_of(others, now)
    }

    /// The same among those that this rank waits for and that were ever heard of.
    pub fn lost_known(&mut self, awaited: &[Rank], now: Duration) -> Option<(Rank, Duration)> {
        let known = awaited.iter().filter(|rank| self.known[rank.0 as usize]);
        let known: Vec<Rank> = known.copied().collect();
        self.lost_of(known, now)
    }

    fn lost_of(
        &mut self,
        ranks: impl IntoIterator<Item = Rank>,
        now: Duration,
    ) -> Option<(Rank, Duration)> {
        let slept = now.saturating_sub(self.looked) * 2 > self.silence;
        self.looked = now;
        if slept {
            self.heard.fill(now);
            return None;
        }
        let silent = |rank: Rank| (rank, now.saturating_sub(self.heard[rank.0 as usize]));
        let longest = ranks.into_iter().map(silent);
        let longest = longest.max_by_key(|(_, silent)| *silent);
        longest.filter(|(_, silent)| *silent > self.silence)
    }

    /// Who must hear that this rank lives.
    pub fn due(&self, now: Duration) -> impl Iterator<Item = Rank> + '_ {
        self.others().filter(move |&rank| self.is_due(rank, now))
    }

    /// Whether that rank must hear that this one lives.
    pub fn is_due(&self, rank: Rank, now: Duration) -> bool {
        now.saturating_sub(self.spoken[rank.0 as usize]) >= self.beat
    }

    fn others(&self) -> impl Iterator<Item = Rank> + '_ {
        (0..self.heard.len() as u32)
            .map(Rank)
            .filter(move |&rank| rank != self.rank && self.has_met(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn watchdog() -> Watchdog {
        let mut watchdog = Watchdog::new(Rank(0), 3, at(1), at(10));
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
        assert!(watchdog.due(at(101)).eq([Rank(1)]));
        assert!(watchdog.due(at(102)).eq([Rank(1), Rank(2)]));
    }

    #[test]
    fn where_ranks_meet_on_need_only_those_that_have_met_are_listened_to() {
        let mut watchdog = Watchdog::new(Rank(1), 5, at(1), at(10));
        watchdog.meet_on_need([Rank(3)].into_iter());
        watchdog.start(at(0));
        assert!(watchdog.due(at(5)).eq([Rank(0), Rank(3)]));
        watchdog.spoken(Rank(4), at(20));
        for now in 1..=29 {
            watchdog.heard(Rank(0), at(now));
            watchdog.heard(Rank(3), at(now));
            assert_eq!(watchdog.lost(at(now)), None, "{now}");
        }
        assert_eq!(watchdog.lost(at(31)), Some((Rank(4), at(11))));
    }
}
