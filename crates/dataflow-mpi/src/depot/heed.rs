//! Heeding a message: what each kind of it does.
//!
//! # Law
//! A message of a run that has ended is dropped and counted; one of a run that has not begun is an
//! error, terms excepted. Activations of one rank are numbered: none is missing, none comes twice.

use super::{Action, Depot, Phase};
use crate::broadcast::TreeShape;
use crate::failure;
use crate::rendezvous::{Complete, Onward, Promised};
use crate::transport::{MessageLimits, Room};
use crate::wire::{Account, Activate, ActivatedFlow, Get, Kind, Malformed, Message, RunStage};
use dataflow_core::port::{Arrival, Failure, Goods, Ranks};
use dataflow_core::rank::Rank;
use dataflow_core::wire::WireName;
use dataflow_core::words::counted;
use smallvec::SmallVec;
use std::time::Duration;

type Heeded = Result<(), Malformed>;
/// The flows of an activation, each with its datum if that has come.
type FlowsWithGoods = SmallVec<[(u16, Option<Goods>); 1]>;
/// Those of its data that must be asked for.
type ToAskFor = SmallVec<[Promised; 2]>;

/// From so many bytes on it is asked first whether there is room for a datum.
const LARGE: usize = 64 << 20;

/// The bytes of a datum that is announced, if they can be had: one that is too large must not end this process.
fn bytes_to_hold(size: u64) -> Option<usize> {
    let size = usize::try_from(size).ok()?;
    let has_room = size < LARGE || Vec::<u8>::new().try_reserve_exact(size).is_ok();
    has_room.then_some(size)
}

impl Depot {
    pub(super) fn heed(
        &mut self,
        from: Rank,
        run: u32,
        message: Message<'_>,
        now: Duration,
    ) -> Heeded {
        match message {
            // Passed on: the word of the rank that said it may still be under way to others.
            Message::Broken(failure) => {
                self.broke(failure);
                Ok(())
            }
            Message::Bye => {
                self.bye(from);
                Ok(())
            }
            Message::Hello {
                settings,
                disagreement,
            } => self.heed_hello(from, run, (settings, disagreement), now),
            message => self.heed_numbered(from, run, message, now),
        }
    }

    /// A child in the tree says the terms of a run, and where ranks below it disagree.
    fn heed_hello(
        &mut self,
        from: Rank,
        run: u32,
        (settings, disagreement): (Vec<(String, String)>, String),
        now: Duration,
    ) -> Heeded {
        let expected = match self.phase {
            Phase::Opening(_) => self.number,
            Phase::Running | Phase::Between => self.number.wrapping_add(1),
        };
        let is_next = run == expected && self.family.is_child(from);
        if !is_next || !self.agreement.hear(from, settings, disagreement) {
            return Err(Malformed(format!(
                "the terms of run {run} while run {expected} is the next"
            )));
        }
        self.agree(now);
        Ok(())
    }

    /// A message that belongs to a run: this one, one that has ended, or one that has not begun.
    fn heed_numbered(
        &mut self,
        from: Rank,
        run: u32,
        message: Message<'_>,
        now: Duration,
    ) -> Heeded {
        let ended = self.phase == Phase::Between;
        let is_beat = matches!(message, Message::Beat { .. });
        match run.wrapping_sub(self.number) as i32 {
            1 if ended && is_beat => {
                self.answer_beat(from, now);
                Ok(())
            }
            0 if !ended => self.heed_in_run(from, message, now),
            0 | i32::MIN..0 => {
                self.note_credit(&message);
                // A rank between runs answers in the name of the last.
                self.counters.stale_dropped += u64::from(!is_beat);
                Ok(())
            }
            _ => {
                let (kind, latest) = (message.kind(), self.number);
                Err(Malformed(format!(
                    "{kind:?} of run {run} while run {latest} is the latest"
                )))
            }
        }
    }

    fn heed_in_run(&mut self, from: Rank, message: Message<'_>, now: Duration) -> Heeded {
        self.note_credit(&message);
        match message {
            Message::Welcome { disagreement } => return self.heed_welcome(from, disagreement, now),
            Message::Activate(activate) => {
                self.run.peer(from).moved = now;
                self.outbox.hears_from(from);
                return self.heed_activate(from, activate);
            }
            Message::Relieve { number } => {
                let duty = self.run.unclaimed.relieve(from, number)?;
                self.fulfil(duty);
            }
            Message::Get(get) => return self.heed_get(from, &get),
            Message::Credit { arrived } => return self.heed_credit(from, arrived),
            Message::Receipt { number } => {
                self.run.receipts.retain(|(of, _)| *of != (from, number));
                self.actions.push_back(Action::Receipt(from, number));
            }
            Message::Dry => self.run.waves.hear_dry(),
            Message::Wave { round } => {
                self.run.waves.hear_wave(round);
                self.say_to_children(&Message::Wave { round });
            }
            Message::Tally { round, tally } => self.run.waves.hear_tally(from, round, tally),
            Message::Quiet { round } => return self.heed_quiet(round),
            Message::Close(account) => return self.heed_close(from, account),
            Message::Closed(account) => return self.heed_closed(from, account),
            Message::Abort(failure) => self.heed_abort(from, failure),
            Message::Beat { stage, came } => return self.heed_beat(from, stage, came, now),
            Message::Hello { .. } | Message::Bye | Message::Broken(_) => {
                unreachable!("these belong to no run")
            }
        }
        Ok(())
    }

    /// The rank above says that the run begins, or where ranks disagree.
    fn heed_welcome(&mut self, from: Rank, disagreement: String, now: Duration) -> Heeded {
        if !matches!(self.phase, Phase::Opening(_)) || Some(from) != self.family.parent {
            return Err(Malformed("a WELCOME that was not expected".into()));
        }
        self.begin(disagreement, now);
        Ok(())
    }

    /// A rank takes part of a datum that was announced to it.
    #[inline]
    fn heed_get(&mut self, from: Rank, get: &Get) -> Heeded {
        self.expect_allowed(get)?;
        let (payload, wrong) = self.run.unclaimed.give(from, get)?;
        wrong.into_iter().for_each(|wrong| self.spoils(wrong));
        // Though the run fails: there is room for it, and the transport waits.
        self.actions.push_back(Action::Data(from, get.tag, payload));
        Ok(())
    }

    /// A rank has taken so many inline bytes.
    #[inline]
    fn heed_credit(&mut self, from: Rank, arrived: u64) -> Heeded {
        match self.run.peer(from).credit.returned(arrived) {
            true => Ok(()),
            false => Err(Malformed(format!(
                "{arrived} inline bytes have arrived, it says; that cannot be"
            ))),
        }
    }

    /// A child in the tree has run everything, with all that are below it.
    fn heed_close(&mut self, from: Rank, account: Account) -> Heeded {
        match self.family.is_child(from) && self.run.closing.hear(from, account) {
            true => Ok(()),
            false => Err(Malformed("a CLOSE that was not expected".into())),
        }
    }

    /// The rank above says how the run has ended.
    fn heed_closed(&mut self, from: Rank, account: Account) -> Heeded {
        if Some(from) != self.family.parent || !self.run.reported {
            return Err(Malformed("a CLOSED that was not expected".into()));
        }
        self.end(account);
        Ok(())
    }

    /// Whether the transport can carry what is asked for.
    fn expect_allowed(&self, get: &Get) -> Heeded {
        let MessageLimits {
            largest_tag,
            message_bytes,
            ..
        } = self.limits;
        if (1..=largest_tag).contains(&get.tag) && get.length <= message_bytes as u64 {
            return Ok(());
        }
        Err(Malformed(format!(
            "a GET of {} bytes under tag {} (at most {message_bytes}, and 1 to {largest_tag}, are allowed)",
            get.length, get.tag
        )))
    }

    /// A rank says how far it is, and how many bytes of this one have come there.
    fn heed_beat(&mut self, from: Rank, stage: RunStage, came: u64, now: Duration) -> Heeded {
        if let Some(missed) = self.missed_word(from, stage) {
            return Err(Malformed(format!(
                "it says how far it is, and its {missed:?} did not come"
            )));
        }
        if let Some(peer) = self.run.peers.get_mut(from)
            && std::mem::replace(&mut peer.bytes_there, came) != came
        {
            peer.moved = now;
        }
        if matches!(self.phase, Phase::Opening(_)) {
            self.answer_beat(from, now);
        }
        Ok(())
    }

    /// A rank that waits for a run to begin wants to know whether this one lives; not more often
    /// than it would be told in a run, so answers to answers end.
    fn answer_beat(&mut self, from: Rank, now: Duration) {
        if self.watchdog.is_due(from, now) {
            self.beat(from);
        }
    }

    /// What a rank that is at that stage must have said to this one before, if it has not come.
    fn missed_word(&self, from: Rank, stage: RunStage) -> Option<Kind> {
        let opens = matches!(self.phase, Phase::Opening(_));
        let is_child = self.family.is_child(from);
        let is_awaited = || {
            self.agreement
                .missing(&self.family)
                .any(|child| child == from)
        };
        if is_child && opens && stage >= RunStage::Open && is_awaited() {
            Some(Kind::Hello)
        } else if self.family.parent == Some(from) && opens && stage >= RunStage::Begun {
            Some(Kind::Welcome)
        } else if is_child && stage == RunStage::Closed && !self.run.closing.has_heard(from) {
            Some(Kind::Close)
        } else {
            None
        }
    }

    /// The run stops here too, and the word goes on along the tree.
    fn heed_abort(&mut self, from: Rank, failure: Failure) {
        self.run.fails(failure.clone());
        if !self.run.stopped {
            self.stop();
            self.say_to_near(&Message::Abort(failure.clone()), Some(from));
            self.actions.push_back(Action::Stop(failure));
        }
    }

    /// Counted also when its run has ended: what was sent and did not come was lost.
    fn note_credit(&mut self, message: &Message<'_>) {
        if let Message::Credit { .. } = message {
            self.counters.credits_came += 1;
        }
    }

    fn heed_activate(&mut self, from: Rank, activate: Activate<'_>) -> Heeded {
        self.expect_next(from, activate.number)?;
        let (flows, missing) = self.loaded(from, &activate.task, &activate.flows);
        let arrival = Arrival {
            task: activate.task,
            poisoned: activate.poisoned,
            flows,
        };
        let onward = match activate.onward {
            Some(onward) => Some(self.onward(from, onward, activate.priority)?),
            None => None,
        };
        let parcel = Complete {
            from,
            number: activate.number,
            receipt: activate.receipt,
            onward,
            arrival,
        };
        self.accept(parcel, missing, activate.priority);
        Ok(())
    }

    /// Counts an activation, which must be the next of its rank.
    fn expect_next(&mut self, from: Rank, number: u32) -> Heeded {
        let peer = self.run.peer(from);
        if number != peer.came {
            let text = format!("activation {number} came, and {} was the next", peer.came);
            return Err(Malformed(text));
        }
        peer.came = peer.came.wrapping_add(1);
        Ok(())
    }

    /// The flows of an activation with the data that came along, and those that must be asked for.
    fn loaded(
        &mut self,
        from: Rank,
        task: &WireName,
        outputs: &[ActivatedFlow<'_>],
    ) -> (FlowsWithGoods, ToAskFor) {
        let (mut flows, mut missing) = (FlowsWithGoods::new(), ToAskFor::new());
        for (position, output) in outputs.iter().enumerate() {
            let goods = self.unload(from, output);
            if let (None, Some(datum)) = (&goods, &output.datum) {
                match bytes_to_hold(datum.size) {
                    Some(size) => {
                        missing.push((position as u16, SmallVec::from_slice(&datum.head), size))
                    }
                    None => self.has_no_room(from, task, (output.flow, datum.size)),
                }
            }
            flows.push((output.flow, goods));
        }
        (flows, missing)
    }

    /// A datum is too large for this rank: the run stops, and ranks can make others.
    #[cold]
    fn has_no_room(&mut self, from: Rank, task: &WireName, (flow, bytes): (u16, u64)) {
        let why = format!(
            "{from} sends flow {flow} as a datum of {bytes} bytes, for which {} has no room (at most what it can allocate at once is allowed)",
            self.rank
        );
        self.fault(Failure {
            name: task.clone(),
            ..failure(from, "malformed", why)
        });
    }

    /// Delivers what is whole, and announces what is not.
    fn accept(&mut self, parcel: Complete, missing: ToAskFor, priority: i64) {
        if self.run.stopped {
            self.run.deeds.delivered += 1; // dropped on purpose, so not lost
        } else if missing.is_empty() {
            self.deliver(parcel);
        } else {
            if let Some(followed) = &self.run.followed {
                followed.heard(&parcel.arrival.task);
            }
            self.hurry();
            let wanted = &mut self.run.wanted;
            wanted.announce(priority, parcel, missing.into_iter());
        }
    }

    /// To whom an activation goes on from here.
    fn onward(
        &self,
        from: Rank,
        onward: crate::wire::Onward,
        priority: i64,
    ) -> Result<Box<Onward>, Malformed> {
        let below: Ranks = onward.below.into_iter().map(Rank).collect();
        let is_none = |to: &&Rank| **to == self.rank || to.0 as usize >= self.n_ranks;
        if let Some(to) = below.iter().find(is_none) {
            return Err(Malformed(format!(
                "an activation that {} shall pass on to {to} came from {from} ({})",
                self.rank,
                counted(self.n_ranks, "rank")
            )));
        }
        let shape = if onward.is_binary {
            TreeShape::Binary
        } else {
            TreeShape::Binomial
        };
        Ok(Box::new(Onward {
            below,
            shape,
            priority,
        }))
    }

    /// The datum of a flow, if it came along.
    fn unload(&mut self, from: Rank, output: &ActivatedFlow<'_>) -> Option<Goods> {
        let datum = output.datum.as_ref()?;
        let bytes = datum.inline.as_ref()?;
        if self.run.peer(from).credit.arrived(bytes.len()) {
            self.owing.push(from);
        }
        let mut room = Room {
            block: self.memory.allocate(bytes.len()),
            range: 0..bytes.len(),
        };
        room.fill_with(bytes);
        Some(Goods {
            head: SmallVec::from_slice(&datum.head),
            body: room.block,
        })
    }

    pub(super) fn deliver(&mut self, mut parcel: Complete) {
        if self.run.stopped {
            return;
        }
        self.pass_on(&mut parcel);
        let goods = parcel.arrival.flows.iter().flat_map(|(_, goods)| goods);
        // Of data that are only counted the lengths are the program's.
        let bytes = goods.fold(0, |sum, goods| goods.body.length().saturating_add(sum));
        self.run.handed = self.run.handed.saturating_add(bytes as u64);
        self.run.deeds.delivered += 1;
        self.run.pulse.idle = false;
        self.actions
            .push_back(Action::Deliver(parcel.from, parcel.arrival));
        if parcel.receipt {
            self.say(
                parcel.from,
                Message::Receipt {
                    number: parcel.number,
                },
            );
        }
    }
}
