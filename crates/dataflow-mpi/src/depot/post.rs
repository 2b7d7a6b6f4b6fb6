//! Out with parcels: inline while small and on credit, else announced and put among what is unclaimed.
//!
//! To many ranks they go along a tree. Who gets one is told who is below him and passes it on as
//! soon as its data are there: that takes no worker, so it waits for no body. While he takes no more
//! he hands that duty back, and who sent it to him sends it to those below, too.

use super::{Depot, Phase};
use crate::broadcast::{self, Branch, TreeShape};
use crate::failure;
use crate::rendezvous::{Complete, Duty, OfferedDatum, Unsendable, drop_each_flow};
use crate::wire::{Activate, ActivatedFlow, Announced, Message, Onward};
use dataflow_core::port::{Cargo, Parcel, caught};
use dataflow_core::rank::Rank;
use dataflow_core::wire::WireName;
use dataflow_core::words::counted;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// A message has at most 4 GiB, and a parcel up to 65,534 heads: they take half of that at most.
pub(super) const LONGEST_HEAD: usize = 1 << 15;

/// A parcel on its way to one rank.
struct Leg<'p> {
    branch: &'p Branch,
    shape: TreeShape,
    receipt: bool,
}

/// Under which numbers receipts are expected, and from whom.
pub type Expected = SmallVec<[(Rank, u32); 4]>;

impl Depot {
    /// Sends a parcel to all that get it, to many through some of them; says which receipts can be
    /// expected, if they are wanted.
    ///
    /// A datum that panics as it is asked for its size or its bytes fails the run, and the error names its task.
    pub fn post(&mut self, mut parcel: Parcel, receipt: bool) -> Expected {
        let expected = self.send_to_all(&mut parcel, receipt);
        // However far that came: here may be the last who holds the data.
        drop_each_flow(&mut parcel);
        expected.unwrap_or_default()
    }

    /// It, unless nothing of this run is said any more, or it cannot be sent.
    fn send_to_all(&mut self, parcel: &mut Parcel, receipt: bool) -> Option<Expected> {
        if self.is_mute() {
            return None;
        }
        let (own, n_ranks) = (self.rank, self.n_ranks);
        let is_none = |to: &&Rank| **to == own || to.0 as usize >= n_ranks;
        if let Some(to) = parcel.to.iter().find(is_none) {
            let all = counted(n_ranks, "rank");
            let text = format!("a parcel for {to} was posted on {own} of {all}");
            self.fault(failure(own, "no_such_rank", text));
            return None;
        }
        let shape = self.shape(parcel)?;
        if shape != TreeShape::Star {
            broadcast::turn(&mut parcel.to, &parcel.task);
        }
        let branches = shape.branches(&parcel.to);
        Some(self.send_along(parcel, &branches, (shape, receipt)))
    }

    /// Whether nothing of this run is said any more.
    fn is_mute(&self) -> bool {
        self.broken.is_some() || self.run.stopped || self.phase == Phase::Between
    }

    /// The tree for a parcel, by the number of those who get it and by its size.
    fn shape(&mut self, parcel: &Parcel) -> Option<TreeShape> {
        let cargoes = parcel.flows.iter().flat_map(|(_, cargo)| cargo);
        let add = |sum: usize, cargo: &Arc<dyn Cargo>| sum.saturating_add(cargo.size());
        let bytes = self.told(&parcel.task, || cargoes.fold(0, add))?;
        Some(self.settings.shape(parcel.to.len(), bytes))
    }

    /// What data tell of themselves, which are outputs of this task; if they panic the run stops.
    fn told<R>(&mut self, task: &WireName, tell: impl FnOnce() -> R) -> Option<R> {
        let told = caught(tell).map_err(|text| self.spoils(Unsendable::panicked(task, &text)));
        told.ok()
    }

    fn send_along(
        &mut self,
        parcel: &Parcel,
        branches: &[Branch],
        (shape, receipt): (TreeShape, bool),
    ) -> Expected {
        let mut expected = Expected::new();
        for branch in branches {
            let leg = Leg {
                branch,
                shape,
                receipt,
            };
            // Of a datum that is not as it said the run has stopped, and nothing more of it is said.
            let Some(number) = self.send(parcel, leg) else {
                break;
            };
            if receipt {
                self.run.receipts.push(((branch.to, number), None));
                expected.push((branch.to, number));
            }
        }
        expected
    }

    /// What has come goes on to those below this rank, whatever its workers do.
    pub(super) fn pass_on(&mut self, parcel: &mut Complete) {
        let Some(onward) = parcel.onward.take().filter(|_| !self.is_mute()) else {
            return;
        };
        self.hurry();
        let arrival = &mut parcel.arrival;
        let flows = arrival.flows.iter_mut().map(|(flow, goods)| {
            let cargo = goods.take().map(|came| {
                let (here, cargo) = self.run.passing.relayed(came, &self.memory);
                *goods = Some(here);
                cargo
            });
            (*flow, cargo)
        });
        let parcel = Parcel {
            to: onward.below,
            task: arrival.task.clone(),
            poisoned: arrival.poisoned,
            priority: onward.priority,
            flows: flows.collect(),
        };
        let shape = onward.shape;
        self.fulfil(Duty::new(parcel, shape));
    }

    /// Sends what is to be passed on, unless nothing is said any more.
    pub(super) fn fulfil(
        &mut self,
        Duty {
            mut parcel, shape, ..
        }: Duty,
    ) {
        if !self.is_mute() {
            let branches = shape.branches(&parcel.to);
            self.send_along(&parcel, &branches, (shape, false));
        }
        drop_each_flow(&mut parcel);
    }

    /// Says a parcel to one rank; its number on the way there, unless the run has stopped for one of its data.
    fn send(&mut self, parcel: &Parcel, leg: Leg<'_>) -> Option<u32> {
        let Branch { to, below } = leg.branch;
        let peer = self.run.peer(*to);
        let number = peer.sent;
        peer.sent = peer.sent.wrapping_add(1);
        let flows = parcel.flows.iter().enumerate();
        let flows = flows.map(|(position, (flow, cargo))| {
            let place = (number, position as u16);
            let cargo = cargo.as_ref();
            ActivatedFlow {
                flow: *flow,
                datum: cargo.and_then(|cargo| self.announced(*to, place, &parcel.task, cargo)),
            }
        });
        let flows = flows.collect();
        if self.run.stopped {
            return None;
        }
        let onward = Onward {
            is_binary: leg.shape == TreeShape::Binary,
            below: below.iter().map(|rank| rank.0).collect(),
        };
        let activate = Activate {
            number,
            poisoned: parcel.poisoned,
            receipt: leg.receipt,
            priority: parcel.priority,
            task: parcel.task.clone(),
            onward: (!below.is_empty()).then_some(onward),
            flows,
        };
        if !below.is_empty() && self.run.unclaimed.holds(*to, number) {
            let duty = Duty::new(parcel.for_ranks(below.clone()), leg.shape);
            self.run.unclaimed.charge(*to, number, duty);
        }
        self.counters.activations += 1;
        self.run.deeds.sent += 1;
        self.say(*to, Message::Activate(activate));
        if self.run.followed.is_some() {
            self.leaves(&parcel.task, leg.branch, number);
        }
        Some(number)
    }

    /// A parcel that was said to one rank is on its way out.
    #[cold]
    fn leaves(&mut self, task: &WireName, Branch { to, below }: &Branch, number: u32) {
        let packets = self.outbox.packets_to(*to);
        if let Some(followed) = &mut self.run.followed {
            let ranks = std::iter::once(to).chain(below).copied().collect();
            let (held, reach) = followed.begins(task.clone(), ranks, packets);
            self.run.unclaimed.hold(*to, number, &held, reach);
        }
    }

    /// One datum of a parcel, which is an output of this task; none if the run stops for it.
    fn announced<'c>(
        &mut self,
        to: Rank,
        place: (u32, u16),
        task: &WireName,
        cargo: &'c Arc<dyn Cargo>,
    ) -> Option<Announced<'c>> {
        let (head, size) = self.told(task, || (cargo.head().to_vec(), cargo.size()))?;
        if head.len() > LONGEST_HEAD {
            self.spoils(Unsendable::of_head(task, head.len(), LONGEST_HEAD));
            return None;
        }
        self.counters.messages += 1;
        let credit = &mut self.run.peer(to).credit;
        let inline = if size <= self.settings.inline_bytes && credit.spend(size) {
            let under_way = credit.under_way();
            self.counters.peak_inline_bytes = self.counters.peak_inline_bytes.max(under_way);
            self.counters.inline_bytes += size as u64;
            Some(self.body(cargo, size, task)?)
        } else {
            let fetched = &mut self.counters.fetched_bytes;
            *fetched = fetched.saturating_add(size as u64);
            self.run.deeds.announced += 1;
            self.hurry();
            let offered = OfferedDatum::new(task.clone(), cargo.clone(), size);
            self.run.unclaimed.put(to, place, offered);
            None
        };
        Some(Announced {
            head: Cow::Owned(head),
            size: size as u64,
            inline,
        })
    }

    /// The body of an output of this task; if it is not as long as was said the run stops.
    fn body<'c>(
        &mut self,
        cargo: &'c Arc<dyn Cargo>,
        said: usize,
        task: &WireName,
    ) -> Option<Cow<'c, [u8]>> {
        let body = self.told(task, || cargo.body())?;
        let has = body.len();
        if has != said {
            self.spoils(Unsendable::of_length(task, said, has));
            return None;
        }
        Some(body)
    }
}
