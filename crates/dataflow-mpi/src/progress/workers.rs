//! Workers: what they hand in, and how they move messages beside their tasks or while they wait.
//!
//! A worker whose tasks are short posts to all ranks at once, when it looks before its next task,
//! and to each of them not again within `Settings::hold`: a packet costs more than such a task.
//! What it has held back leaves when it has nothing to run.

use super::MessageProgress;
use super::here::{LOOKED, is_moving, is_time_to_look, looks_again_after, looks_next};
use super::moving::Command;
use crate::host::Promise;
use crate::outbox::Haste;
use crate::settings::Drive;
use crate::sync::Ordering;
use std::time::Duration;

impl MessageProgress {
    /// Hands in what the engine wants.
    pub fn command(&self, command: Command) {
        let wakes = !matches!(command, Command::Post(..));
        self.movers.hand_in(command);
        match self.settings.drive {
            Drive::Workers if is_moving() => {}
            Drive::Workers if !wakes && self.looks_soon() => looks_next(),
            Drive::Workers => {
                self.pump(Haste::Now, self.host.now());
            }
            Drive::Dedicated if wakes || is_moving() => {}
            // While the thread sleeps the worker that posts is quicker than it would wake.
            Drive::Dedicated if self.movers.is_resting() => {
                self.pump(Haste::Patient, self.host.now());
                if !self.movers.holds() {
                    return;
                }
            }
            Drive::Dedicated => {}
        }
        if wakes || self.settings.drive == Drive::Dedicated {
            self.movers.bell().ring();
        }
    }

    /// Whether the calling thread is a worker whose tasks are short: it looks before the next.
    fn looks_soon(&self) -> bool {
        self.host.now().saturating_sub(LOOKED.get()) < self.settings.hold
    }

    /// Notes that a worker looks, and when.
    pub(super) fn look(&self) -> Duration {
        let now = self.host.now();
        self.looked.store(now.as_nanos() as u64, Ordering::Relaxed);
        LOOKED.set(now);
        now
    }

    /// A worker is between two tasks: it looks, unless they are short and it has just looked.
    pub fn glance(&self) {
        if self.settings.drive != Drive::Workers || !is_time_to_look() {
            return;
        }
        let before = LOOKED.get();
        self.poll();
        // In virtual time no task is short.
        if !self.host.is_virtual() {
            looks_again_after(LOOKED.get().saturating_sub(before));
        }
    }

    /// A worker has a moment.
    pub fn poll(&self) {
        if self.settings.drive == Drive::Workers && !is_moving() {
            self.pump(Haste::Patient, self.look());
            // A task may be long: then the helper sends what is held back.
            if self.movers.holds() && self.movers.is_resting() {
                self.movers.bell().ring();
            }
        }
    }

    /// Whether a worker that has nothing to do goes on looking: for as long as the rank's waits last
    /// ([`Waits`]), while it waits for others, or others for data of this rank that it moves itself.
    /// What was held back while there was more to do leaves now.
    pub fn lingers(&self, finished: bool, since: &mut Option<Duration>) -> bool {
        let is_mover = self.settings.drive == Drive::Workers;
        if is_mover && !is_moving() && self.movers.holds() {
            self.pump(Haste::Now, self.look());
        }
        if finished && !(is_mover && self.owes.load(Ordering::Relaxed)) {
            return false;
        }
        let now = match is_mover {
            // It has just polled. (Not by `looked`: another that leaves has told there that nobody looks.)
            true => LOOKED.get(),
            false => self.stand_in(),
        };
        let start = *since.get_or_insert_with(|| {
            self.waits.begin(now);
            now
        });
        let lingers = self.goes_on_looking(now, now.saturating_sub(start));
        if is_mover && !lingers {
            // It leaves: if it is the last, the helper waits for messages in its place. The helper may
            // wake before the worker is outside, and would trust in one that has just looked.
            self.looked.store(0, Ordering::Relaxed);
            self.nap.ring();
        }
        lingers
    }

    /// Whether a worker that has looked for so long does so again.
    fn goes_on_looking(&self, now: Duration, looked: Duration) -> bool {
        if looked < self.settings.spin {
            return true;
        }
        let goes_on =
            looked < self.waits.look_for(self.settings.spin) && self.waits.is_lookout(now);
        if goes_on {
            // Where there are more threads than cores, it is another's turn.
            self.stands_back();
        }
        goes_on
    }

    /// A worker that has nothing to do moves messages in the thread's place, or gives it the core: where
    /// there are more threads than cores, what it waits for would come only when both had slept. Tells
    /// the time.
    fn stand_in(&self) -> Duration {
        let now = self.host.now();
        if !is_moving() && !self.pump(Haste::Now, now) {
            self.stands_back();
        }
        now
    }

    /// Waits for an answer, moving messages oneself for as long as such waits last.
    pub fn wait<T>(&self, answer: &Promise<T>) -> T {
        let start = self.host.now();
        let value = self.look_for(answer, start).unwrap_or_else(|| {
            // From here on the helper looks, and not only after its nap.
            self.nap.ring();
            answer.wait()
        });
        self.answers.note(self.host.now().saturating_sub(start));
        value
    }

    /// Moves messages until the answer has come; `None` if that takes longer than it usually does.
    fn look_for<T>(&self, answer: &Promise<T>, start: Duration) -> Option<T> {
        let until = start.saturating_add(self.answers.look_for(self.settings.spin));
        let mut now = start;
        while now < until {
            if let Some(value) = answer.take() {
                return Some(value);
            }
            let moved = self.settings.drive == Drive::Workers && self.pump(Haste::Now, now);
            if !moved {
                // Every core has its worker: a thread that waits beside them stands back.
                self.stands_back();
            }
            now = self.host.now();
        }
        None
    }
}
