//! Progress: who moves messages, and when. The only code that touches a transport or a clock.
//!
//! The depot and its transport lie behind one lock, which the threads that move messages take for a moment:
//! a thread of the rank's own, helped by workers that have nothing to run, or (`Drive::Workers`) the workers
//! between their tasks. In the second case the thread is a helper: it sleeps, and steps in when no worker has
//! looked for a while.
//!
//! # Law
//! Of the threads that move messages only the rank's own waits for the lock. Whoever gives it back looks once more for
//! commands, so none is left lying ([`movers`]).
//!
//! # Elsewhere
//! What workers do beside their tasks: `workers`. When the thread moves, rests and ends: `thread`.

mod here;
mod movers;
mod moving;
mod thread;
mod workers;

pub(crate) use here::{OfThread, is_moving, may_wait};
pub(crate) use moving::Command;
pub(crate) use thread::Life;

use here::MOVING;
use movers::Movers;
use moving::{AT_ONCE, MoverState};

use crate::bell::Bell;
use crate::depot::{Depot, Refused};
use crate::host::Host;
use crate::outbox::Haste;
use crate::settings::{Drive, Settings};
use crate::sync::{AtomicBool, AtomicU64, Ordering, yield_now};
use crate::transport::raw::{LentTransport, Raw};
use crate::transport::{Event, Transport};
use crate::waits::Waits;
use dataflow_core::port::caught;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// What workers and the thread share.
pub(crate) struct MessageProgress {
    pub settings: Settings,
    pub host: Arc<dyn Host>,
    movers: Movers<MoverState, Command>,
    /// When a worker looked last, in nanoseconds.
    looked: AtomicU64,
    /// Ends a nap of the thread, which leaves the messages to workers meanwhile.
    nap: Arc<dyn Bell>,
    /// Whether the transport rings the thread's bell when something has come.
    rings: bool,
    /// How long this rank's workers wait for data.
    waits: Waits,
    /// How long those wait who open and close runs, or for receipts.
    answers: Waits,
    /// Whether others may still ask for data of this rank.
    owes: AtomicBool,
    ending: AtomicBool,
}

impl MessageProgress {
    pub fn new(
        mut transport: Box<dyn Transport>,
        depot: Depot,
        settings: Settings,
        host: Arc<dyn Host>,
    ) -> Arc<Self> {
        let bell = transport.bell(&*host);
        let rings = bell.is_some();
        let bell = bell.unwrap_or_else(|| host.bell());
        Arc::new(MessageProgress {
            settings,
            movers: Movers::new(MoverState::new(transport, depot), bell),
            looked: AtomicU64::new(0),
            nap: host.bell(),
            rings,
            host,
            waits: Waits::default(),
            answers: Waits::default(),
            owes: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        })
    }

    /// Looks at the depot, waiting for the thread that moves messages.
    pub fn with_depot<R>(&self, look: impl FnOnce(&mut Depot) -> R) -> R {
        assert!(
            !is_moving(),
            "a messenger was asked by code that is called while messages move: it would wait for itself"
        );
        self.movers.look(|moving| look(&mut moving.depot))
    }

    /// Lends the bare transport while no run is open and ranks can go on; what came for the protocol it gets
    /// afterwards. Who talks over it moves messages meanwhile, so he waits for none of the protocol's.
    pub fn lend<R>(&self, spins: bool, talk: impl FnOnce(&mut Raw<'_>) -> R) -> Result<R, Refused> {
        let said = self.movers.lend(|moving| {
            // The end of a run may wait behind a packet: those who have not heard it would not come.
            while moving.may_lend().is_ok() && !moving.depot.is_flushed() {
                self.step(moving, Haste::Now, self.host.now());
                self.stands_back();
            }
            moving.may_lend()?;
            let mut kept: Vec<Event> = Vec::new();
            let lent = LentTransport {
                transport: &mut *moving.transport,
                kept: &mut kept,
            };
            let bell = (self.rings && !spins).then(|| self.movers.bell().clone());
            let talk = || talk(&mut Raw::over(lent, bell, &*self.host));
            let outer = MOVING.replace(true);
            let said = catch_unwind(AssertUnwindSafe(talk));
            MOVING.set(outer);
            let now = self.host.now();
            for event in kept {
                moving.depot.event(event, now);
            }
            moving.due = Some(now);
            Ok(said)
        });
        Ok(said?.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Moves messages, unless somebody else does; says whether any moved.
    fn pump(&self, haste: Haste, now: Duration) -> bool {
        self.movers.try_move(|moving| self.step(moving, haste, now))
    }

    /// Moves messages until nothing moves, or workers have something to take in; says whether anything did.
    ///
    /// An inbox that is told of messages may panic, and so may a transport: that is the end of all communication,
    /// told to all. Told at once, for a transport that panics whenever it is asked would let nothing be done.
    fn step(&self, moving: &mut MoverState, haste: Haste, now: Duration) -> bool {
        let outer = MOVING.replace(true);
        let moved = caught(|| self.move_all(moving, haste, now)).unwrap_or_else(|text| {
            moving.has_failed(&text);
            // What panics in its turn is not done again, so that ends.
            while caught(|| moving.act(self.settings.warn)).is_err() {}
            moving.due = Some(now);
            true
        });
        MOVING.set(outer);
        moved
    }

    fn move_all(&self, moving: &mut MoverState, haste: Haste, now: Duration) -> bool {
        let (mut moved, mut delivered) = (false, false);
        if haste == Haste::Now && moving.depot.is_holding() {
            moving.due = Some(now);
        }
        for _ in 0..AT_ONCE {
            // The pulse first: what was posted before it is among the commands.
            let felt = moving.feel_pulse(now);
            let has_said = self.movers.has_commands() && self.obey_all(moving, now);
            if has_said {
                moving.depot.speak_in(haste, now);
                moving.act(self.settings.warn);
            }
            let has_heard = moving.listen(now);
            let mut once = has_said || has_heard;
            // A look in vain is cheap: workers look again and again.
            if once || felt || moving.due.is_some_and(|due| due <= now) {
                moving.depot.drive_in(haste, now);
                once |= moving.act(self.settings.warn);
                moving.due = moving.depot.wakes(now);
                delivered = std::mem::take(&mut moving.has_delivered);
                if delivered {
                    self.waits.end(now);
                }
                once |= moving.await_packets();
                self.owes.store(moving.depot.owes(), Ordering::Relaxed);
                let holds = moving.depot.is_holding();
                if holds {
                    moving.depot.hurry();
                }
                self.movers.set_holds(holds);
            }
            if !once {
                break;
            }
            moved = true;
            moving.moved = now;
            // A worker that moves may be the one who takes that in, and nobody else was woken for it.
            if delivered && self.settings.drive == Drive::Workers {
                break;
            }
        }
        moved
    }

    /// Does what the engine wants; says whether it wanted anything.
    fn obey_all(&self, moving: &mut MoverState, now: Duration) -> bool {
        let mut commands = std::mem::take(&mut moving.commands);
        self.movers.take(&mut commands);
        let has_said = !commands.is_empty();
        commands
            .drain(..)
            .for_each(|command| moving.obey(command, now));
        moving.commands = commands;
        has_said
    }

    /// The calling thread gives its core to others for a moment; in virtual time nobody wants it.
    fn stands_back(&self) {
        if !self.host.is_virtual() {
            yield_now();
        }
    }
}

#[cfg(test)]
mod tests;
