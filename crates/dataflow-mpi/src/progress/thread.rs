//! The thread: when it moves messages, stands aside for workers, rests and ends.
//!
//! Where workers move messages it steps in when none has looked for 200 µs, or up to a millisecond where
//! they have looked all the time before, and at once when one leaves; after two milliseconds where all data
//! are small and nobody waits until it looks, for its looks take the core from a worker. It sends the beats in any case, so a body of 15 s neither delays
//! others nor looks dead.
//!
//! # Law
//! It sleeps without using the processor while no run is open.

use super::MessageProgress;
use super::moving::MoverState;
use crate::host::Turn;
use crate::outbox::Haste;
use crate::settings::{Drive, RAREST_BEAT};
use crate::sync::Ordering;
use dataflow_core::port::{Inbox, caught};
use std::sync::Arc;
use std::time::Duration;

/// How long workers may not look before the helper does.
pub(super) const UNATTENDED: Duration = Duration::from_micros(200);

/// The same where nobody waits until it does, neither another rank nor a worker of this one.
pub(super) const UNHURRIED: Duration = Duration::from_millis(2);

/// How long a transport that cannot ring is left alone, at first and at most.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// How far the thread is.
#[derive(Default)]
pub(crate) struct Life {
    state: ThreadState,
}

#[derive(Clone, Copy, Default)]
pub(super) enum ThreadState {
    #[default]
    Begins,
    /// Workers look. How patient it is with them, and when they had looked last before it slept.
    Aside {
        patience: Duration,
        looked: Option<Duration>,
    },
    Moves,
    Rests,
    /// It is given so long to say goodbye.
    Leaves(Duration),
}

/// What the thread sees of workers that look.
struct Attendance {
    /// How long they may not.
    at_most: Duration,
    /// Whether none will, or somebody has left a command while this looked.
    is_called: bool,
}

impl MessageProgress {
    /// A turn of the thread: what it does until it rests, or ends.
    pub fn turn(&self, life: &mut Life) -> Turn {
        loop {
            life.state = match life.state {
                ThreadState::Begins if self.is_ending() => self.begin_to_leave(),
                ThreadState::Begins => ThreadState::Aside {
                    patience: UNATTENDED,
                    looked: None,
                },
                ThreadState::Aside { patience, looked } => {
                    match self.stands_aside(patience, looked) {
                        None => ThreadState::Moves,
                        Some((state, nap)) => {
                            life.state = state;
                            return Turn::Rests(self.nap.clone(), Some(nap));
                        }
                    }
                }
                ThreadState::Moves => match self.moves() {
                    None => ThreadState::Begins,
                    Some(at_most) if self.movers.falls_asleep() => {
                        life.state = ThreadState::Rests;
                        return Turn::Rests(self.movers.bell().clone(), at_most);
                    }
                    Some(_) => ThreadState::Rests,
                },
                ThreadState::Rests => {
                    self.movers.gets_up();
                    ThreadState::Begins
                }
                ThreadState::Leaves(deadline) if self.has_left(deadline) => return Turn::Ends,
                ThreadState::Leaves(_) => {
                    return Turn::Rests(self.movers.bell().clone(), Some(NAPS[1]));
                }
            };
        }
    }

    /// Moves messages once. Says for how long to sleep at most, if nothing has moved.
    fn moves(&self) -> Option<Option<Duration>> {
        let ((moved, wakes, busy, last), is_called_back) = self.movers.locked(|moving| {
            let now = self.host.now();
            let moved = self.step(moving, Haste::Now, now);
            let (wakes, busy) = (moving.depot.wakes(now), moving.is_busy());
            (moved, wakes, busy, moving.moved)
        });
        if moved || is_called_back {
            return None;
        }
        let now = self.host.now();
        let idle = now.saturating_sub(last);
        // A helper would spin against the workers it helps.
        let looks = self.settings.drive == Drive::Dedicated;
        if busy && looks && idle < self.waits.look_for(self.settings.spin) {
            // Where there are more threads than cores, it is another's turn.
            self.stands_back();
            return None;
        }
        Some(self.rest(wakes.map(|at| at.saturating_sub(now)), busy, idle))
    }

    /// How long to sleep when nothing moves.
    fn rest(&self, until_due: Option<Duration>, busy: bool, idle: Duration) -> Option<Duration> {
        if self.rings {
            return until_due;
        }
        if !busy {
            // Others that wait for this rank ask whether it lives.
            let nap = self.settings.beat.min(RAREST_BEAT) / 2;
            return Some(until_due.map_or(nap, |due| due.min(nap)));
        }
        let nap = (idle / 4).clamp(NAPS[0], NAPS[1]);
        Some(until_due.map_or(nap, |due| due.min(nap)))
    }

    /// While workers look themselves, the helper sleeps on, and says for how long; workers that have
    /// nothing to run do not look. `before` is when they had looked last before it slept, if it did.
    fn stands_aside(
        &self,
        mut patience: Duration,
        before: Option<Duration>,
    ) -> Option<(ThreadState, Duration)> {
        let looked = Duration::from_nanos(self.looked.load(Ordering::Relaxed));
        // It may take long to copy a large datum, and a worker that waits looks all the time: a thread that
        // wakes again and again takes the core from it.
        if before.is_some_and(|before| looked > before) {
            patience = (2 * patience).min(NAPS[1]);
        }
        if self.settings.drive != Drive::Workers || self.movers.is_lent() || looked.is_zero() {
            return None;
        }
        let unattended = self.host.now().saturating_sub(looked);
        let nap = match self.attendance() {
            Some(Attendance { at_most, is_called }) if is_called || unattended >= at_most => {
                return None;
            }
            Some(Attendance { at_most, .. }) => patience.max(at_most) - unattended,
            None => patience,
        };
        let looked = Some(looked);
        Some((ThreadState::Aside { patience, looked }, nap))
    }

    /// Looks at the state; `None` if somebody moves messages just now.
    fn attendance(&self) -> Option<Attendance> {
        let seen = |moving: &mut MoverState| {
            let inbox = moving.inbox.as_ref();
            // If it panics the thread moves, and tells so.
            let ask = |inbox: &Arc<dyn Inbox>| (inbox.pulse().idle, inbox.has_idle_workers());
            let asked = inbox.and_then(|inbox| caught(|| ask(inbox)).ok());
            let (is_idle, has_idle) = asked.unwrap_or((true, true));
            (is_idle, has_idle || moving.depot.hurries())
        };
        let ((is_idle, hurries), is_called_back) = self.movers.try_look(seen)?;
        // In virtual time a look costs nobody anything.
        let at_most = match hurries || self.host.is_virtual() {
            true => UNATTENDED,
            false => UNHURRIED,
        };
        Some(Attendance {
            at_most,
            is_called: is_idle || is_called_back,
        })
    }

    /// Says goodbye, and waits a second at most for it to leave.
    pub(super) fn begin_to_leave(&self) -> ThreadState {
        self.movers.locked(|moving| {
            moving.depot.leave();
            moving.due = Some(self.host.now());
        });
        ThreadState::Leaves(self.host.now() + Duration::from_secs(1))
    }

    /// Whether the goodbye has left, or the time for it is over.
    fn has_left(&self, deadline: Duration) -> bool {
        let (is_flushed, _) = self.movers.locked(|moving| {
            self.step(moving, Haste::Now, self.host.now());
            moving.depot.is_flushed()
        });
        is_flushed || self.host.now() >= deadline
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Tells the thread to end.
    pub fn end(&self) {
        // Relaxed: the rings show it.
        self.ending.store(true, Ordering::Relaxed);
        self.nap.ring();
        self.movers.bell().ring();
    }
}
