//! The depot of a rank: all protocol modules joined, events in, actions out.
//!
//! It reads no clock and touches no transport: time comes in with the events, and what is to be done
//! comes out as [`Action`]s. So it runs alike under threads, under sockets and in virtual time.
//!
//! # Law
//! A parcel that comes in is delivered once or the run fails. After a failure that ranks cannot
//! go on from (a rank is lost, a message makes no sense) nothing is delivered any more, and every
//! run ends with it.
//!
//! # Files
//! There is a file for each thing that a depot does; calls lead one way, from the first to the last.
//! `time` and `event` handle what happens. `heed` handles a message, which may be a part of how ranks `open` or
//! `close` a run, or bring a parcel, which `post` passes on to others. `ask` requests data, `stop` ends a run
//! early. All of them send messages by `say`.
//!
//! # Elsewhere
//! When to send: `outbox`. How much at once: `rendezvous`, `credit`. Through whom: `broadcast`,
//! `family`. When it ends: `termination`.

mod ask;
mod close;
mod event;
mod followed;
mod heed;
mod open;
mod post;
mod relay;
mod run;
mod say;
mod stop;
mod time;

use crate::agreement::Agreement;
use crate::counters::Counters;
use crate::family::TreePlace;
use crate::intake::Intake;
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::settings::Settings;
use crate::transport::{Bonds, MessageLimits, Payload, Room};
use crate::watchdog::Watchdog;
use crate::wire::Message;
use dataflow_core::port::{Arrival, Failure, Memory};
use dataflow_core::rank::Rank;
pub use post::Expected;
use run::RunState;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Changes what is said, for tests that plant faults: gets receiver, run and message, and says how
/// often it goes out.
pub type Tamper = Box<dyn FnMut(Rank, &mut u32, &mut Message<'_>) -> usize + Send>;

/// The protocol of one rank.
pub struct Depot {
    rank: Rank,
    n_ranks: usize,
    bonds: Bonds,
    family: TreePlace,
    limits: MessageLimits,
    settings: Settings,
    memory: Arc<dyn Memory>,
    outbox: Outbox,
    intakes: Peers<Intake>,
    /// Ranks of which a packet came before one that is missing.
    gaps: BTreeSet<Rank>,
    watchdog: Watchdog,
    /// Ranks to which so many inline bytes are owed that it is worth a message.
    owing: Vec<Rank>,
    /// Ranks that have left.
    gone: BTreeSet<Rank>,
    /// Of the run that is opened or will be opened next.
    agreement: Agreement,
    /// What that run is of, as its space is called.
    space: Box<str>,
    number: u32,
    phase: Phase,
    run: RunState,
    broken: Option<Failure>,
    counters: Counters,
    totals: Counters,
    actions: VecDeque<Action>,
    looked: Option<Duration>,
    /// From one look at the clock to the next: asked for at every look for messages, so it is kept.
    pace: Duration,
    tamper: Option<Tamper>,
}

impl fmt::Debug for Depot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Depot")
            .field("rank", &self.rank)
            .field("n_ranks", &self.n_ranks)
            .field("number", &self.number)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No run.
    Between,
    /// This rank has opened a run; since when.
    Opening(Opening),
    /// All have.
    Running,
}

/// Since when a run is being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Opening {
    since: Duration,
    /// When the patience with those that are awaited began anew.
    patient_since: Duration,
}

/// What is to be done.
#[derive(Debug)]
pub enum Action {
    /// Send a packet.
    Packet(Rank, Vec<u8>),
    /// Send data under a tag.
    Data(Rank, u32, Payload),
    /// Make room for data under a tag.
    Receive(Rank, u32, Room),
    /// Hand a parcel to the inbox.
    Deliver(Rank, Arrival),
    /// The run has begun, or will not.
    Opened(Result<(), Refused>),
    /// Tell the inbox that the run fails.
    Stop(Failure),
    /// Tell the inbox that nothing will happen any more.
    Stall,
    /// Tell the user.
    Warn(String),
    /// A parcel that was posted with a receipt has arrived.
    Receipt(Rank, u32),
    /// The run has ended.
    Closed(Result<Option<Failure>, Failure>),
}

/// Why a run did not begin, or the bare transport is not lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// What differs between which ranks.
    Differ(String),
    /// Ranks cannot go on together.
    Broken(Failure),
    /// The run before is open on this rank.
    StillOpen,
}

impl Depot {
    /// The depot of `rank`; `limits` are its transport's.
    pub fn new(
        rank: Rank,
        n_ranks: usize,
        limits: MessageLimits,
        settings: Settings,
        memory: Arc<dyn Memory>,
    ) -> Self {
        let packet_bytes = settings.packet_bytes.min(limits.message_bytes);
        let family = TreePlace::of(rank, n_ranks);
        let pace = settings.pace();
        let mut watchdog = Watchdog::new(rank, settings.beat, settings.silence);
        family
            .near()
            .for_each(|near| watchdog.meet(near, Duration::ZERO));
        Depot {
            rank,
            n_ranks,
            bonds: Bonds::None,
            family,
            limits,
            outbox: Outbox::new(
                rank,
                packet_bytes,
                settings.packets_in_flight,
                settings.hold,
            ),
            intakes: Peers::default(),
            gaps: BTreeSet::new(),
            watchdog,
            owing: Vec::new(),
            gone: BTreeSet::new(),
            agreement: Agreement::default(),
            space: Box::default(),
            number: 0,
            phase: Phase::Between,
            run: RunState::new(&settings, limits),
            settings,
            memory,
            broken: None,
            counters: Counters::default(),
            totals: Counters::default(),
            actions: VecDeque::new(),
            looked: None,
            pace,
            tamper: None,
        }
    }

    /// The transport has these connections: over them ranks beat, and leave, though they may have
    /// nothing else to say.
    pub fn bind(&mut self, bonds: Bonds) {
        self.bonds = bonds;
        if bonds == Bonds::First {
            self.watchdog.leave_calls_to_the_transport();
        }
        let bound = match bonds {
            Bonds::None => 0..0,
            Bonds::First if self.rank != Rank(0) => 0..1,
            Bonds::First | Bonds::All => 0..self.n_ranks as u32,
        };
        bound.for_each(|rank| self.watchdog.meet(Rank(rank), Duration::ZERO));
    }

    /// Of how many ranks something is kept: of its neighbours in the tree, and of those it has spoken
    /// to or heard of.
    pub fn n_peers(&self) -> usize {
        let kept = [
            self.outbox.n_peers(),
            self.intakes.len(),
            self.run.peers.len(),
        ];
        let met = self.watchdog.met().count();
        kept.into_iter().fold(met, usize::max)
    }

    /// Plants a fault.
    pub fn tamper(&mut self, tamper: Tamper) {
        self.tamper = Some(tamper);
    }

    /// What this rank has sent, dropped and held.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What all ranks had when the last run ended.
    pub fn totals(&self) -> Counters {
        self.totals
    }

    /// The next thing to be done.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether ranks cannot go on together.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Why they cannot.
    pub fn broken(&self) -> Option<&Failure> {
        self.broken.as_ref()
    }

    /// Which run is open, or was last; the same on every rank.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether data that were announced have not been asked for.
    pub fn owes(&self) -> bool {
        !self.run.unclaimed.is_empty()
    }

    /// Others wait until this rank looks.
    pub fn hurry(&mut self) {
        self.run.hurries = true;
    }

    /// Whether others wait until this rank looks: in this run, or the one before, data were asked for, passed
    /// on or held back. Other small data come by themselves, and are for tasks of this rank.
    pub fn hurries(&self) -> bool {
        self.run.hurries || self.run.hurried
    }

    /// Whose packets must leave before anything else happens: what waits behind them, or between
    /// runs the goodbye.
    pub fn awaited(&self) -> impl Iterator<Item = Rank> + '_ {
        self.outbox.awaited(self.phase == Phase::Between)
    }

    /// Whether something waits only for more to go along with it.
    pub fn is_holding(&self) -> bool {
        self.outbox.held_until().is_some()
    }

    /// Whether nothing waits to be sent.
    pub fn is_flushed(&self) -> bool {
        self.outbox.is_empty()
    }
}

#[cfg(test)]
mod tests;
