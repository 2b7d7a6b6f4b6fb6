//! Moving: what is under the lock, and what the thread that has it does with commands, transport and depot.

use crate::depot::{Action, Depot, Refused};
use crate::host::Promise;
use crate::transport::{Event, Transport};
use dataflow_core::port::{Failure, Inbox, Parcel, Terms, caught};
use dataflow_core::rank::Rank;
use std::sync::Arc;
use std::time::Duration;

/// Events taken in one go, so that others get their turn.
pub(super) const AT_ONCE: usize = 256;

type Opened = Result<(), Refused>;
type Closed = Result<Option<Failure>, Failure>;
/// Somebody who waits until a parcel has arrived.
type Poster = Arc<Promise<()>>;

/// What the engine wants.
pub(crate) enum Command {
    Open(Terms, Arc<dyn Inbox>, Arc<Promise<Opened>>),
    Post(Parcel, Option<Poster>),
    Abort(Failure),
    Close(Option<Failure>, Arc<Promise<Closed>>),
}

/// What is under the lock.
pub(super) struct MoverState {
    pub transport: Box<dyn Transport>,
    pub depot: Depot,
    pub inbox: Option<Arc<dyn Inbox>>,
    opened: Option<Arc<Promise<Opened>>>,
    closed: Option<Arc<Promise<Closed>>>,
    /// Who waits for which parcel.
    receipts: Vec<((Rank, u32), Poster)>,
    /// Room for commands; empty.
    pub commands: Vec<Command>,
    /// When the depot wants to be driven, if nothing happens before.
    pub due: Option<Duration>,
    /// Whether data for tasks have come since somebody asked.
    pub has_delivered: bool,
    /// When anything moved last.
    pub moved: Duration,
    /// Messages go on panicking as they are moved: the transport is asked for nothing any more.
    is_deaf: bool,
}

impl MoverState {
    pub fn new(transport: Box<dyn Transport>, depot: Depot) -> Self {
        MoverState {
            transport,
            depot,
            inbox: None,
            opened: None,
            closed: None,
            receipts: Vec::new(),
            commands: Vec::new(),
            due: None,
            has_delivered: false,
            moved: Duration::ZERO,
            is_deaf: false,
        }
    }

    pub fn is_busy(&self) -> bool {
        self.inbox.is_some() || !self.depot.is_flushed()
    }

    /// Whether somebody may have the bare transport: not in a run, nor when ranks cannot go on. As where a run is
    /// opened, that is also when one has left: who waits for it would not hear that a second time.
    pub fn may_lend(&self) -> Result<(), Refused> {
        match self.depot.broken() {
            Some(failure) => Err(Refused::Broken(failure.clone())),
            None if self.inbox.is_some() => Err(Refused::StillOpen),
            None => self
                .depot
                .gone_failure("")
                .map_or(Ok(()), |failure| Err(Refused::Broken(failure))),
        }
    }

    /// Says whether the depot wanted to know.
    pub fn feel_pulse(&mut self, now: Duration) -> bool {
        let inbox = self.inbox.as_ref();
        match inbox.filter(|_| self.depot.wants_pulse(now)) {
            Some(inbox) => self.depot.pulse(inbox.pulse()),
            None => return false,
        }
        true
    }

    /// Does what the engine wants.
    ///
    /// An inbox may panic that is asked how far it is: that is the end of all communication, but the thread that
    /// waits until the parcel has arrived is told, and the commands behind this one are obeyed.
    pub fn obey(&mut self, command: Command, now: Duration) {
        let poster = match &command {
            Command::Post(_, answer) => answer.clone(),
            _ => None,
        };
        if let Err(text) = caught(|| self.carry_out(command, now)) {
            self.panicked(&text);
            poster.into_iter().for_each(|poster| poster.give(()));
        }
    }

    /// Foreign code has panicked, and this is what it says: ranks cannot go on together. Of the data that are
    /// dropped now others may panic, too; all has been said before.
    pub fn panicked(&mut self, text: &str) {
        caught(|| self.depot.panicked(text)).ok();
    }

    /// The same as messages were moved. If ranks could not go on before, the transport is to blame, or what it holds,
    /// and would go on like that.
    pub fn has_failed(&mut self, text: &str) {
        self.is_deaf |= self.depot.is_broken();
        self.panicked(text);
    }

    fn carry_out(&mut self, command: Command, now: Duration) {
        match command {
            Command::Open(_, _, answer) if self.inbox.is_some() => {
                answer.give(Err(Refused::StillOpen));
            }
            Command::Open(terms, inbox, answer) => {
                self.inbox = Some(inbox.clone());
                self.opened = Some(answer);
                self.depot.open(&terms, now);
                if inbox.follows_messages() {
                    self.depot.follow(inbox);
                }
            }
            Command::Post(parcel, answer) => {
                let expected = self.depot.post(parcel, answer.is_some());
                let Some(answer) = answer else { return };
                if expected.is_empty() {
                    answer.give(());
                }
                let receipts = expected.into_iter().map(|key| (key, answer.clone()));
                self.receipts.extend(receipts);
            }
            Command::Abort(failure) => {
                self.depot.abort(failure);
                self.release_posters();
            }
            Command::Close(own, answer) => {
                // First: if the inbox panics, whoever closes is told.
                self.closed = Some(answer);
                self.depot.close(own);
                if let Some(inbox) = &self.inbox {
                    self.depot.pulse(inbox.pulse());
                }
            }
        }
    }

    /// Takes in what the transport has; says whether it had anything.
    pub fn listen(&mut self, now: Duration) -> bool {
        if self.is_deaf {
            return self.trusts(now);
        }
        let mut heard = false;
        for _ in 0..AT_ONCE {
            let Some(event) = self.transport.poll() else {
                break;
            };
            heard = true;
            self.depot.event(event, now);
        }
        heard
    }

    /// Who is deaf takes it that packets have left: what it says last would wait for word of them.
    fn trusts(&mut self, now: Duration) -> bool {
        let awaited: Vec<Rank> = self.depot.awaited().collect();
        for &to in &awaited {
            self.depot.event(Event::Sent(to), now);
        }
        !awaited.is_empty()
    }

    /// Does what the depot wants done; says whether it wanted anything.
    pub fn act(&mut self, warn: fn(&str)) -> bool {
        let mut acted = false;
        while let Some(action) = self.depot.next_action() {
            acted = true;
            self.perform(action, warn);
        }
        acted
    }

    /// Asks for word of packets where something waits for it; says whether any has come.
    pub fn await_packets(&mut self) -> bool {
        if self.is_deaf {
            return false;
        }
        let (depot, transport) = (&self.depot, &mut self.transport);
        let heard = depot.awaited().filter(|&to| transport.awaits(to));
        heard.count() > 0
    }

    fn perform(&mut self, action: Action, warn: fn(&str)) {
        match action {
            Action::Packet(to, packet) => self.transport.send(to, packet),
            Action::Data(to, tag, payload) => self.transport.send_data(to, tag, payload),
            Action::Receive(from, tag, room) => self.transport.receive(from, tag, room),
            Action::Deliver(from, arrival) => {
                self.has_delivered = true;
                if let Some(inbox) = &self.inbox {
                    inbox.deliver(from, arrival);
                }
            }
            Action::Opened(opened) => {
                if opened.is_err() {
                    self.inbox = None;
                }
                if let Some(answer) = self.opened.take() {
                    answer.give(opened);
                }
            }
            Action::Stop(failure) => {
                self.release_posters();
                if let Some(inbox) = &self.inbox {
                    inbox.stop(failure);
                }
            }
            Action::Stall => {
                if let Some(inbox) = &self.inbox {
                    inbox.stall();
                }
            }
            // Nobody but the user can do anything about it.
            Action::Warn(text) => warn(&text),
            Action::Receipt(from, number) => self.has_come((from, number)),
            Action::Closed(closed) => {
                self.release_posters();
                self.inbox = None;
                if let Some(answer) = self.closed.take() {
                    answer.give(closed);
                }
            }
        }
    }

    /// A parcel has arrived: who waits for it, and for no other, is told.
    fn has_come(&mut self, parcel: (Rank, u32)) {
        let Some(at) = self.receipts.iter().position(|(of, _)| *of == parcel) else {
            return;
        };
        let (_, answer) = self.receipts.swap_remove(at);
        let is_same = |(_, other): &(_, Arc<_>)| Arc::ptr_eq(other, &answer);
        if !self.receipts.iter().any(is_same) {
            answer.give(());
        }
    }

    /// The run is over for those who wait until their parcel has arrived.
    fn release_posters(&mut self) {
        for (_, answer) in std::mem::take(&mut self.receipts) {
            answer.give(());
        }
    }
}
