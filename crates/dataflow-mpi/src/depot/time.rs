//! What is done as time passes, or because something else has happened.

use super::{Action, Depot, Phase};
use crate::failure;
use crate::termination::waves;
use crate::wire::Message;
use dataflow_core::port::{Failure, Pulse};
use dataflow_core::rank::Rank;
use std::time::Duration;

/// How fast data must come at least, beyond the silence allowed: bytes in a microsecond.
const SLOWEST: u64 = 100;

impl Depot {
    /// How far this rank is, as its inbox said just now.
    pub fn pulse(&mut self, pulse: Pulse) {
        self.run.pulse = pulse;
        self.run.deeds.executed = pulse.executed;
    }

    /// Whether the inbox should be asked how far this rank is.
    pub fn wants_pulse(&self, now: Duration) -> bool {
        self.phase == Phase::Running
            && !self.run.closed
            && (self.run.waves.is_held() || self.is_time(now))
    }

    /// When to [`drive`](Self::drive) at the latest.
    pub fn wakes(&self, now: Duration) -> Option<Duration> {
        let next = match self.phase {
            Phase::Between if self.broken.is_some() || self.outbox.is_empty() => return None,
            Phase::Between => now + self.pace(),
            _ => self.looked.map_or(now, |looked| looked + self.pace()),
        };
        let wave = self
            .run
            .waves
            .wakes(now)
            .filter(|_| self.phase == Phase::Running);
        Some(wave.map_or(next, |wave| wave.min(next)))
    }

    fn pace(&self) -> Duration {
        let longest = Duration::from_millis(50);
        longest
            .min(self.settings.beat / 2)
            .min(self.settings.silence / 8)
    }

    fn is_time(&self, now: Duration) -> bool {
        self.looked
            .is_none_or(|looked| now.saturating_sub(looked) >= self.pace())
    }

    /// Does what has become due; to be called after events, and when [told](Self::wakes).
    pub fn drive(&mut self, now: Duration) {
        if self.broken.is_none() {
            if self.is_time(now) {
                self.looked = Some(now);
                self.look(now);
            }
            self.ask(now);
            if self.phase == Phase::Running && self.broken.is_none() {
                self.wave(now);
            }
            self.settle();
            self.flush_credit(false);
        }
        while let Some(to) = self.pack() {
            self.watchdog.spoken(to, now);
        }
    }

    /// Looks at the clock.
    fn look(&mut self, now: Duration) {
        self.look_for_gaps(now);
        match self.phase {
            Phase::Between => {}
            Phase::Opening(since) => self.look_for_the_late(since, now),
            Phase::Running => self.look_for_the_lost(now),
        }
    }

    /// Whom this rank waits for before a run: they are asked whether they live, for between runs
    /// nobody says so unasked. Who never was heard of may not have started yet.
    fn look_for_the_late(&mut self, since: Duration, now: Duration) {
        let missing = self.agreement.missing(&self.family);
        let mut awaited: Vec<Rank> = missing.collect();
        let late = now.saturating_sub(since) > self.settings.patience;
        if late {
            let names: Vec<String> = awaited.iter().map(Rank::to_string).collect();
            let who = match self.family.parent {
                Some(parent) if names.is_empty() => {
                    format!("{parent}, or one that it waits for,")
                }
                _ => names.join(", "),
            };
            let text = format!(
                "{who} did not open run {} within {:?}",
                self.number, self.settings.patience
            );
            return self.broke(failure(self.rank, "rank_lost", text));
        }
        if awaited.is_empty() {
            awaited.extend(self.family.parent);
        }
        if let Some(lost) = self.watchdog.lost_known(&awaited, now) {
            return self.silent(lost);
        }
        awaited.retain(|rank| self.watchdog.is_due(*rank, now));
        for rank in awaited {
            self.say(rank, Message::Beat { closed: false });
        }
    }

    fn silent(&mut self, (rank, silent): (Rank, Duration)) {
        let text = format!("{rank} has been silent for {:.1} s", silent.as_secs_f64());
        self.broke(failure(rank, "rank_lost", text));
    }

    fn look_for_gaps(&mut self, now: Duration) {
        let allowed = if self.limits.in_order {
            Duration::ZERO
        } else {
            self.settings.silence
        };
        let gaps = self.intakes.iter().enumerate();
        let late = gaps.filter_map(|(from, intake)| Some((from, intake.gap()?)));
        let late = late.filter(|(_, (_, since))| now.saturating_sub(*since) >= allowed);
        if let Some((from, (sequence, _))) = late.min_by_key(|(_, (_, since))| *since) {
            let from = Rank(from as u32);
            let text =
                format!("packet {sequence} of {from} is missing, though later ones have come");
            self.broke(failure(from, "rank_lost", text));
        }
    }

    fn look_for_the_lost(&mut self, now: Duration) {
        if let Some(lost) = self.watchdog.lost(now) {
            return self.silent(lost);
        }
        if let Some((from, bytes, since)) = self.run.wanted.oldest() {
            let allowed = self.settings.silence + Duration::from_micros(bytes as u64 / SLOWEST);
            if now.saturating_sub(since) > allowed {
                let text = format!(
                    "{from} has not sent {bytes} bytes that it was asked for {allowed:?} ago"
                );
                return self.broke(failure(from, "rank_lost", text));
            }
        }
        if let Some(failure) = self.missed_receipt(now) {
            return self.broke(failure);
        }
        let closed = self.run.reported;
        let due: Vec<Rank> = self.watchdog.due(now).collect();
        for rank in due {
            // Whatever waits for that rank says the same.
            if !self.outbox.waits_for(rank) {
                self.say(rank, Message::Beat { closed });
            }
        }
    }

    /// A receipt that did not come, though its data must have arrived: a worker waits for it.
    fn missed_receipt(&mut self, now: Duration) -> Option<Failure> {
        for (&(from, number), (bytes, since)) in &mut self.run.receipts {
            if self.run.shelf.holds(from, number) {
                continue;
            }
            let since = *since.get_or_insert(now);
            let allowed = self.settings.silence + Duration::from_micros(*bytes as u64 / SLOWEST);
            if now.saturating_sub(since) > allowed {
                let text = format!("{from} has not confirmed activation {number} for {allowed:?}");
                return Some(failure(from, "rank_lost", text));
            }
        }
        None
    }

    /// Asks for data as far as the window allows.
    fn ask(&mut self, now: Duration) {
        while let Some((from, get, room)) = self.run.wanted.ask(&*self.memory, now) {
            let under_way = self.run.wanted.bytes_under_way() as u64;
            self.counters.gets += 1;
            self.counters.peak_fetched_bytes = self.counters.peak_fetched_bytes.max(under_way);
            self.actions.push_back(Action::Receive(from, get.tag, room));
            self.say(from, Message::Get(get));
        }
    }

    fn wave(&mut self, now: Duration) {
        loop {
            let standing = self.run.standing();
            match self.run.waves.next(&self.family, standing, now) {
                None => return,
                Some(waves::Next::Dry) => self.say(Rank(0), Message::Dry),
                Some(waves::Next::Wave(round)) => self.say_to_children(&Message::Wave { round }),
                Some(waves::Next::Tally(round, tally)) => {
                    let parent = self.family.parent.unwrap_or_default();
                    self.say(parent, Message::Tally { round, tally });
                }
                Some(waves::Next::Quiet(round)) => {
                    if self.quiet(round).is_err() {
                        unreachable!("the root was dry when it concluded");
                    }
                }
                Some(waves::Next::Lost(sum)) => {
                    let text = format!(
                        "{} parcels were sent and {} delivered, and nothing moves",
                        sum.sent, sum.delivered
                    );
                    return self.broke(failure(self.rank, "rank_lost", text));
                }
            }
        }
    }

    /// Returns credit: by the half, along with other messages, or all of it.
    pub(super) fn flush_credit(&mut self, all: bool) {
        let mut owing = std::mem::take(&mut self.owing);
        owing.retain(|&to| {
            let anyway = all || self.outbox.waits_for(to);
            let due = self.run.ways[to.0 as usize].credit.due(anyway);
            if let Some(arrived) = due {
                self.counters.credits_sent += 1;
                self.say(to, Message::Credit { arrived });
            }
            due.is_none()
        });
        self.owing = owing;
    }
}
