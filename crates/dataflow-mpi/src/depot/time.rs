//! What is done as time passes, or because something else has happened.

use super::{Action, Depot, Opening, Phase};
use crate::failure;
use crate::intake::Intake;
use crate::outbox::Haste;
use dataflow_core::port::{Failure, Pulse};
use dataflow_core::rank::Rank;
use std::time::Duration;

/// How often a rank that takes no more looks whether it may.
const SATED: Duration = Duration::from_millis(1);

impl Depot {
    /// How far this rank is, as its inbox said just now.
    pub fn pulse(&mut self, pulse: Pulse) {
        self.run.pulse = pulse;
        self.run.unused = self.run.held();
        self.run.deeds.executed = pulse.executed;
    }

    /// Whether the inbox should be asked how far this rank is.
    pub fn wants_pulse(&self, now: Duration) -> bool {
        self.phase == Phase::Running
            && !self.run.closed
            && (self.run.waves.is_held() || self.is_time(now) || self.is_choked())
    }

    /// When to [`drive`](Self::drive) at the latest.
    pub fn wakes(&self, now: Duration) -> Option<Duration> {
        let next = match self.phase {
            Phase::Between if self.broken.is_some() || self.outbox.is_empty() => return None,
            Phase::Between => now + self.pace,
            _ => self.looked.map_or(now, |looked| looked + self.pace),
        };
        let wave = self
            .run
            .waves
            .wakes(now)
            .filter(|_| self.phase == Phase::Running);
        let held = self.outbox.held_until();
        // It is not told when a task begins to use what has come, or ends; an idle rank only waits.
        let works = self.phase == Phase::Running && !self.run.pulse.idle;
        let choked = works && self.is_choked();
        let look = choked.then(|| now + self.pace.min(SATED));
        let sooner = [wave, held, look].into_iter().flatten();
        sooner.chain([next]).min()
    }

    fn is_time(&self, now: Duration) -> bool {
        self.looked
            .is_none_or(|looked| now.saturating_sub(looked) >= self.pace)
    }

    /// Does what has become due; to be called after events, and when [told](Self::wakes). All that
    /// may leave does.
    pub fn drive(&mut self, now: Duration) {
        self.drive_in(Haste::Now, now);
    }

    /// What was posted leaves before what has come is heeded: another rank may wait for it. That is no
    /// [`drive`](Self::drive): who looked at the clock first would miss ranks whose word has come.
    pub(crate) fn speak_in(&mut self, haste: Haste, now: Duration) {
        if self.broken.is_none() {
            self.flush_credit();
        }
        self.pack_all(haste, now);
    }

    /// The same; but what may leave waits a moment for more to go along with it, if it is patient.
    pub(crate) fn drive_in(&mut self, haste: Haste, now: Duration) {
        if self.broken.is_none() && self.is_time(now) {
            self.looked = Some(now);
            self.look(now);
        }
        if self.broken.is_none() {
            self.ask(now);
            if self.phase == Phase::Running {
                self.wave(now);
            }
            self.settle();
            self.flush_credit();
        }
        // When the last word has left, this rank may account for itself: that is one more.
        while self.pack_all(haste, now) {
            self.settle();
        }
    }

    /// All that may leave does; says whether anything did.
    fn pack_all(&mut self, haste: Haste, now: Duration) -> bool {
        if !self.outbox.has_waiting() {
            return false;
        }
        let is_at_work = self.phase == Phase::Running && !self.run.closed;
        let haste = if is_at_work { haste } else { Haste::Now };
        let mut has_left = false;
        while let Some(to) = self.pack(haste, now) {
            self.watchdog.spoken(to, now);
            has_left = true;
        }
        has_left
    }

    /// Looks at the clock.
    fn look(&mut self, now: Duration) {
        match self.phase {
            Phase::Between => {}
            Phase::Opening(opening) => self.look_for_the_late(opening, now),
            Phase::Running => self.look_for_the_lost(now),
        }
        if self.broken.is_none() {
            self.look_for_gaps(now);
        }
    }

    /// Whom this rank waits for before a run: they are asked whether they live, for between runs
    /// nobody says so unasked. Who was never heard of may not have started yet, and is waited for
    /// as long as patience lasts; who lives is waited for, however long it computes.
    fn look_for_the_late(&mut self, opening: Opening, now: Duration) {
        let missing = self.agreement.missing(&self.family);
        let mut awaited: Vec<Rank> = missing.collect();
        if awaited.is_empty() {
            awaited.extend(self.family.parent);
        }
        if now.saturating_sub(opening.patient_since) > self.settings.patience {
            let never = |rank: &&Rank| !self.watchdog.is_known(**rank);
            let strangers: Vec<Rank> = awaited.iter().filter(never).copied().collect();
            if !strangers.is_empty() {
                let text = format!(
                    "{} did not open run {} within {:?}",
                    self.names(&strangers),
                    self.number,
                    self.settings.patience
                );
                return self.broke(failure(self.rank, "rank_lost", text));
            }
            self.warn_of(&awaited, opening, now);
        }
        if let Some(lost) = self.watchdog.lost_known(&awaited, now) {
            return self.silent(lost);
        }
        awaited.retain(|rank| self.watchdog.is_due(*rank, now));
        for rank in awaited {
            self.beat(rank);
        }
    }

    /// Those that are awaited live and have not opened the run: the user is told, and they are
    /// waited for.
    fn warn_of(&mut self, awaited: &[Rank], opening: Opening, now: Duration) {
        let waited = now.saturating_sub(opening.since).as_secs_f64();
        let text = format!(
            "{} has waited {waited:.1} s for {} to open run {}; it lives, and is waited for",
            self.rank,
            self.names(awaited),
            self.number,
        );
        self.actions.push_back(Action::Warn(text));
        self.phase = Phase::Opening(Opening {
            patient_since: now,
            ..opening
        });
    }

    /// Ranks that are awaited; the parent may itself wait for others.
    fn names(&self, awaited: &[Rank]) -> String {
        if let (Some(parent), [only]) = (self.family.parent, awaited)
            && parent == *only
        {
            return format!("{parent}, or one that it waits for,");
        }
        let names: Vec<String> = awaited.iter().map(Rank::to_string).collect();
        names.join(", ")
    }

    fn silent(&mut self, (rank, silent): (Rank, Duration)) {
        let text = format!(
            "{rank} has been silent towards {} for {:.1} s",
            self.rank,
            silent.as_secs_f64()
        );
        self.broke(failure(rank, "rank_lost", text));
    }

    fn look_for_gaps(&mut self, now: Duration) {
        let allowed = if self.limits.in_order {
            Duration::ZERO
        } else {
            self.settings.silence
        };
        let gap = |from: &Rank| self.intakes.get(*from).and_then(Intake::gap);
        self.gaps.retain(|from| gap(from).is_some());
        let late = self
            .gaps
            .iter()
            .filter_map(|from| Some((*from, gap(from)?)));
        let listens = self.watchdog.since();
        let late =
            late.filter(|(_, (_, since))| now.saturating_sub((*since).max(listens)) >= allowed);
        if let Some((from, (sequence, _))) = late.min_by_key(|(_, (_, since))| *since) {
            let text =
                format!("packet {sequence} of {from} is missing, though later ones have come");
            self.broke(failure(from, "rank_lost", text));
        }
    }

    fn look_for_the_lost(&mut self, now: Duration) {
        if let Some(lost) = self.watchdog.lost(now) {
            return self.silent(lost);
        }
        if let Some(failure) = self.missed_data(now) {
            return self.broke(failure);
        }
        if let Some(failure) = self.missed_receipt(now) {
            return self.broke(failure);
        }
        for rank in self.watchdog.due(now) {
            // Whatever waits for that rank says the same.
            if !self.outbox.waits_for(rank) {
                self.beat(rank);
            }
        }
    }

    /// Data that were asked for and do not come, though the question was taken and nothing else
    /// comes either: time counts from the last byte.
    fn missed_data(&mut self, now: Duration) -> Option<Failure> {
        let peers = &self.run.peers;
        let moved = |from: Rank| {
            let peer = peers.get(from)?;
            peer.question.is_none().then_some(peer.moved)
        };
        let (from, bytes, since) = self.run.wanted.stillest(moved)?;
        let still = now.saturating_sub(since.max(self.watchdog.since()));
        if still <= self.settings.silence {
            return None;
        }
        let text = format!(
            "{from} has not sent {} {bytes} bytes that it was asked for, and nothing came of it for {:.1} s",
            self.rank,
            still.as_secs_f64()
        );
        Some(failure(from, "rank_lost", text))
    }

    /// A receipt that did not come, though its data must have arrived and no further ones do: a
    /// worker waits for it.
    fn missed_receipt(&mut self, now: Duration) -> Option<Failure> {
        for ((from, number), since) in &mut self.run.receipts {
            let (from, number) = (*from, *number);
            if self.run.unclaimed.holds(from, number) {
                continue;
            }
            let moved = self.run.peers.get(from).map_or(now, |peer| peer.moved);
            let since = moved.max(*since.get_or_insert(now));
            let still = now.saturating_sub(since.max(self.watchdog.since()));
            if still > self.settings.silence {
                let text = format!(
                    "{from} has not confirmed activation {number} to {} for {:.1} s",
                    self.rank,
                    still.as_secs_f64()
                );
                return Some(failure(from, "rank_lost", text));
            }
        }
        None
    }
}
