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
//! # Elsewhere
//! When to send: `outbox`. How much at once: `rendezvous`, `credit`. Through whom: `broadcast`,
//! `family`. When it ends: `termination`.

mod followed;
mod heed;
mod post;
mod relay;
mod run;
mod time;

use crate::agreement::{self, Agreement};
use crate::counters::Counters;
use crate::failure;
use crate::family::Family;
use crate::intake::{Accepted, Intake, message_at};
use crate::outbox::{Haste, Outbox};
use crate::peers::Peers;
use crate::rendezvous::Progressed;
use crate::settings::Settings;
use crate::termination::closing;
use crate::transport::{Bonds, Event, MessageLimits, Payload, Room};
use crate::watchdog::Watchdog;
use crate::wire::{Header, Malformed, Message, PacketHeader};
use dataflow_core::port::{Arrival, Failure, Inbox, Memory, Terms};
use dataflow_core::rank::Rank;
use followed::Followed;
pub use post::Expected;
use run::Run;
use std::collections::{BTreeSet, VecDeque};
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
    family: Family,
    limits: MessageLimits,
    settings: Settings,
    memory: Arc<dyn Memory>,
    outbox: Outbox,
    intakes: Peers<Intake>,
    /// Ranks of which a packet came before one that is missing.
    gaps: BTreeSet<Rank>,
    watchdog: Watchdog,
    /// Ranks to which inline bytes are owed.
    owing: Vec<Rank>,
    /// Ranks that have left.
    gone: BTreeSet<Rank>,
    /// Of the run that is opened or will be opened next.
    agreement: Agreement,
    number: u32,
    phase: Phase,
    run: Run,
    broken: Option<Failure>,
    counters: Counters,
    totals: Counters,
    actions: VecDeque<Action>,
    looked: Option<Duration>,
    tamper: Option<Tamper>,
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

/// Why a run did not begin.
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
        let family = Family::of(rank, n_ranks);
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
            number: 0,
            phase: Phase::Between,
            run: Run::new(&settings, limits),
            settings,
            memory,
            broken: None,
            counters: Counters::default(),
            totals: Counters::default(),
            actions: VecDeque::new(),
            looked: None,
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

    /// Which run is open, or was last; the same on every rank.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether data that were announced have not been asked for.
    pub fn owes(&self) -> bool {
        !self.run.unclaimed.is_empty()
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

    /// This rank opens the next run.
    pub fn open(&mut self, terms: &Terms, now: Duration) {
        // All others are told: whoever hears only that this rank leaves, too, would blame it.
        if let Some(failure) = self.gone_failure() {
            self.broke(failure);
        }
        if let Some(failure) = self.broken.clone() {
            self.actions
                .push_back(Action::Opened(Err(Refused::Broken(failure))));
            return;
        }
        let mut settings = crate::wire_settings(self.n_ranks);
        let agreed = self.settings.agreed();
        settings.extend(agreed.map(|(name, value)| (name.to_string(), value)));
        settings.extend(terms.settings.iter().cloned());
        self.number = self.number.wrapping_add(1);
        self.phase = Phase::Opening(Opening {
            since: now,
            patient_since: now,
        });
        self.watchdog.start(now);
        self.run = Run::new(&self.settings, self.limits).after(&self.run);
        self.owing.clear();
        self.agreement.open(settings);
        self.agree(now);
    }

    /// The inbox of the run that is being opened hears what becomes of messages, unless that was refused.
    pub fn follow(&mut self, inbox: Arc<dyn Inbox>) {
        if self.phase != Phase::Between {
            self.run.followed = Some(Followed::new(inbox, self.n_ranks));
        }
    }

    fn gone_failure(&self) -> Option<Failure> {
        let gone = self.gone.first()?;
        Some(failure(*gone, "rank_lost", format!("{gone} has left")))
    }

    /// Up with the terms, or down with the decision, when all below have opened the run.
    fn agree(&mut self, now: Duration) {
        if !matches!(self.phase, Phase::Opening(_)) {
            return;
        }
        match self.agreement.next(self.rank, &self.family) {
            None => {}
            Some(agreement::Next::Up {
                settings,
                disagreement,
            }) => {
                let parent = self.family.parent.unwrap_or_default();
                self.say(
                    parent,
                    Message::Hello {
                        settings,
                        disagreement,
                    },
                );
            }
            Some(agreement::Next::Down { disagreement }) => self.begin(disagreement, now),
        }
    }

    /// The decision has come: the run begins, or is refused.
    fn begin(&mut self, disagreement: String, now: Duration) {
        for child in self.family.children.clone() {
            self.say(
                child,
                Message::Welcome {
                    disagreement: disagreement.clone(),
                },
            );
        }
        self.agreement = Agreement::default();
        let opened = if disagreement.is_empty() {
            self.phase = Phase::Running;
            self.watchdog.start(now);
            Ok(())
        } else {
            self.phase = Phase::Between;
            self.run.let_go();
            Err(Refused::Differ(disagreement))
        };
        self.actions.push_back(Action::Opened(opened));
    }

    /// This rank failed: the run stops everywhere.
    pub fn abort(&mut self, failure: Failure) {
        self.run.fails(failure.clone());
        if self.phase == Phase::Between || self.broken.is_some() || self.run.stopped {
            return;
        }
        self.stop();
        self.say_to_near(&Message::Abort(failure), None);
    }

    fn stop(&mut self) {
        self.run.stopped = true;
        // Dropped on purpose, so not lost.
        self.run.deeds.delivered += self.run.wanted.stop() as u64;
        // Ranks that have stopped confirm nothing, and nobody here waits for it any more.
        self.run.receipts.clear();
    }

    /// This rank runs nothing any more.
    pub fn close(&mut self, own: Option<Failure>) {
        if let Some(broken) = self.broken.clone() {
            self.actions.push_back(Action::Closed(Err(broken)));
            return;
        }
        if let Some(failure) = own {
            self.run.fails(failure);
        }
        self.run.closed = true;
    }

    /// Adds this rank's account when all is settled, and passes on what has been added up.
    fn settle(&mut self) {
        if self.phase != Phase::Running || self.broken.is_some() {
            return;
        }
        // Also nothing said waits to leave, so that the counters have it.
        let settled = self.run.wanted.is_settled() && !self.outbox.has_waiting();
        if self.run.closed && !self.run.accounted && settled {
            self.run.accounted = true;
            let failure = self.run.failure.clone();
            self.run
                .closing
                .close(failure, self.run.deeds, &self.counters);
        }
        match self.run.closing.next(&self.family) {
            None => {}
            Some(closing::Next::Up(account)) => {
                let parent = self.family.parent.unwrap_or_default();
                self.say(parent, Message::Close(account));
                self.run.reported = true;
            }
            Some(closing::Next::Down(account)) => self.end(account),
        }
    }

    /// The run has ended on all ranks.
    fn end(&mut self, account: crate::wire::Account) {
        for child in self.family.children.clone() {
            self.say(child, Message::Closed(account.clone()));
        }
        // What was left of it is told first: a fault of the run must not look like one of the next.
        self.flush_credit(true);
        self.totals = closing::totals(&account);
        self.run.let_go();
        self.phase = Phase::Between;
        self.actions.push_back(Action::Closed(Ok(account.failure)));
    }

    /// This rank leaves for good; whoever has not heard why ranks cannot go on hears it now.
    pub fn leave(&mut self) {
        match self.broken.clone() {
            None => self.say_to_known(&Message::Bye),
            Some(failure) => self.tell_broken(&failure),
        }
    }

    /// Something happened at the transport.
    pub fn event(&mut self, event: Event, now: Duration) {
        match event {
            Event::Sent(to) => {
                let sent = self.outbox.sent(to);
                if let Some(peer) = self.run.peers.get_mut(to) {
                    peer.note_sent(sent, now);
                }
                if let Some(followed) = &mut self.run.followed {
                    followed.sent(to, sent);
                }
            }
            Event::Part { from, bytes: 0 } => self.watchdog.connected(from, now),
            Event::Part { from, bytes } if self.broken.is_none() => {
                self.watchdog.heard(from, now);
                self.run.note_bytes(from, bytes, now);
            }
            Event::Part { .. } => {}
            Event::Packet { from, bytes } => self.packet(from, &bytes, now),
            Event::Data {
                from,
                tag,
                room,
                bytes,
            } => self.data(from, tag, room, bytes, now),
            Event::Unexpected(_) => self.counters.duplicates_dropped += 1,
            Event::Lost(rank, reason) => {
                let text = format!("{rank} is lost to {}: {reason}", self.rank);
                self.lose(rank, text);
            }
        }
    }

    fn packet(&mut self, from: Rank, bytes: &[u8], now: Duration) {
        if from.0 as usize >= self.n_ranks {
            return;
        }
        if let Some(failure) = self.broken.clone() {
            // Who has not met this rank was not told.
            if !self.watchdog.has_met(from) {
                self.watchdog.meet(from, now);
                self.say(from, Message::Broken(failure));
            }
            return;
        }
        self.watchdog.heard(from, now);
        if let Err(malformed) = self.unpack(from, bytes, now) {
            self.broke(failure(
                from,
                "malformed",
                format!("{from} sent: {malformed}"),
            ));
        }
    }

    fn unpack(&mut self, from: Rank, bytes: &[u8], now: Duration) -> Result<(), Malformed> {
        let (header, part) = PacketHeader::decode(bytes)?;
        if header.from != from {
            return Err(Malformed(format!(
                "a packet says it comes from {}",
                header.from
            )));
        }
        let intake = self.intakes.meet(from, Intake::default);
        match intake.accept(header.sequence, part, now) {
            Accepted::Duplicate => {
                self.counters.duplicates_dropped += 1;
                return Ok(());
            }
            Accepted::Early => {
                self.gaps.insert(from);
                return Ok(());
            }
            Accepted::Next => {}
        }
        let stream = intake.take();
        let mut at = 0;
        let read = loop {
            match message_at(&stream, at) {
                Ok(Some((header, body))) => {
                    at += Header::BYTES + body.len();
                    let message = Message::decode(header.kind, body);
                    if let Err(malformed) =
                        message.and_then(|message| self.heed(from, header.run, message, now))
                    {
                        break Err(malformed);
                    }
                }
                Ok(None) => break Ok(()),
                Err(malformed) => break Err(malformed),
            }
        };
        if let Some(intake) = self.intakes.get_mut(from) {
            intake.put_back(stream, at);
        }
        read
    }

    fn data(&mut self, from: Rank, tag: u32, room: Room, bytes: usize, now: Duration) {
        if self.broken.is_some() {
            return;
        }
        self.watchdog.heard(from, now);
        self.run.note_bytes(from, bytes, now);
        match self.run.wanted.arrived(from, tag, room, bytes) {
            Ok(Progressed::Part) => {}
            Ok(Progressed::Datum) => self.run.deeds.fetched += 1,
            Ok(Progressed::Parcel(parcel)) => {
                self.run.deeds.fetched += 1;
                self.deliver(*parcel);
            }
            Err(malformed) => self.broke(failure(from, "malformed", malformed.0)),
        }
    }

    /// A rank cannot be reached.
    fn lose(&mut self, rank: Rank, reason: String) {
        if rank == self.rank || rank.0 as usize >= self.n_ranks {
            return;
        }
        self.outbox.forget(rank);
        let said_so = !self.gone.insert(rank);
        if !(said_so && self.may_leave(rank)) {
            self.miss(rank, reason);
        }
    }

    /// A rank says that it leaves.
    fn bye(&mut self, from: Rank) {
        self.gone.insert(from);
        if !self.may_leave(from) {
            self.miss(from, format!("{from} has left"));
        }
    }

    /// A rank that is gone is needed.
    fn miss(&mut self, rank: Rank, reason: String) {
        if self.phase != Phase::Between {
            self.broke(failure(rank, "rank_lost", reason));
        }
    }

    /// Whether a rank may know of the end of the run, or of its refusal, before this one: then that
    /// word is still under way here, by another way than the goodbye.
    fn may_leave(&self, rank: Rank) -> bool {
        match self.phase {
            Phase::Between => true,
            Phase::Running => self.run.closed,
            Phase::Opening(_) => {
                let awaited = self
                    .agreement
                    .missing(&self.family)
                    .any(|child| child == rank);
                !awaited && self.family.parent != Some(rank)
            }
        }
    }

    /// What an inbox does when it is told of messages has panicked.
    pub fn panicked(&mut self) {
        let text = format!("{} panicked while it moved messages", self.rank);
        self.broke(failure(self.rank, "malformed", text));
    }

    /// Ranks cannot go on together: this run and all to come fail. All others are told before this
    /// rank's program is, which may end at once: whoever saw only its connection close would blame it.
    fn broke(&mut self, failure: Failure) {
        if self.broken.is_some() {
            return;
        }
        self.tell_broken(&failure);
        while self.pack(Haste::Now, Duration::ZERO).is_some() {}
        self.broken = Some(failure.clone());
        if let Some(followed) = &self.run.followed {
            followed.ends_here();
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Between);
        match phase {
            Phase::Between => {}
            Phase::Opening(_) => {
                let refused = Refused::Broken(failure);
                self.actions.push_back(Action::Opened(Err(refused)));
            }
            Phase::Running if self.run.closed => {
                self.actions.push_back(Action::Closed(Err(failure)))
            }
            Phase::Running => self.actions.push_back(Action::Stop(failure)),
        }
        self.stop();
        // Last: should a datum panic as it is dropped, all of that has been said.
        self.run.let_go();
    }

    /// The next packet that may leave does; says to whom.
    fn pack(&mut self, haste: Haste, now: Duration) -> Option<Rank> {
        let (to, packet) = self.outbox.next_packet(haste, now)?;
        self.counters.packets += 1;
        self.counters.control_bytes += PacketHeader::BYTES as u64;
        self.actions.push_back(Action::Packet(to, packet));
        Some(to)
    }

    /// To those that may know this rank.
    fn say_to_known(&mut self, message: &Message<'_>) {
        let known: Vec<Rank> = self.watchdog.met().collect();
        self.say_to_present(known, message);
    }

    /// What breaks ranks all of them pass on, so along the tree it reaches all. Where the rank that is
    /// to blame can pass on nothing, its neighbours in the tree hear it across its place; a transport
    /// that keeps connections has others for that.
    fn tell_broken(&mut self, failure: &Failure) {
        let message = Message::Broken(failure.clone());
        self.say_to_known(&message);
        if self.bonds == Bonds::None {
            let around = Family::of(failure.rank, self.n_ranks);
            let far = around.near().filter(|near| !self.watchdog.has_met(*near));
            let far: Vec<Rank> = far.filter(|far| *far != self.rank).collect();
            self.say_to_present(far, &message);
        }
    }

    fn say_to_present(&mut self, ranks: Vec<Rank>, message: &Message<'_>) {
        for rank in ranks {
            if !self.gone.contains(&rank) {
                self.say(rank, message.clone());
            }
        }
    }

    /// The only way out for messages.
    fn say(&mut self, to: Rank, mut message: Message<'_>) {
        if self.gone.contains(&to) {
            // Nobody takes it, so word that it has left might never come, and this rank waits for
            // that before it leaves.
            return;
        }
        let mut run = self.number;
        let times = match &mut self.tamper {
            Some(tamper) => tamper(to, &mut run, &mut message),
            None => 1,
        };
        for _ in 0..times {
            let bytes = self.outbox.say(to, run, &message) - message.payload();
            self.counters.control_bytes += bytes as u64;
        }
    }
}

#[cfg(test)]
mod tests;
