//! Out with parcels: inline while small and on credit, else announced and put on the shelf.

use super::{Depot, Phase};
use crate::failure;
use crate::wire::{Activate, Announced, Message, Output};
use dataflow_core::port::{Cargo, Parcel};
use dataflow_core::rank::Rank;
use std::borrow::Cow;
use std::sync::Arc;

impl Depot {
    /// Sends a parcel, and says under which number if a receipt is wanted and can be expected.
    pub fn post(&mut self, parcel: Parcel, receipt: bool) -> Option<(Rank, u32)> {
        let to = parcel.to;
        if self.broken.is_some() || self.run.stopped || self.phase == Phase::Between {
            return None;
        }
        if to == self.rank || to.0 as usize >= self.n_ranks {
            let text = format!(
                "a parcel for {to} was posted on {} of {} ranks",
                self.rank, self.n_ranks
            );
            self.fault(failure(self.rank, "no_such_rank", text));
            return None;
        }
        let way = &mut self.run.ways[to.0 as usize];
        let number = way.sent;
        way.sent = way.sent.wrapping_add(1);
        let flows = parcel
            .flows
            .iter()
            .enumerate()
            .map(|(position, (flow, cargo))| Output {
                flow: *flow,
                datum: cargo
                    .as_ref()
                    .map(|cargo| self.announced(to, (number, position as u16), cargo)),
            });
        let flows = flows.collect();
        let activate = Activate {
            number,
            poisoned: parcel.poisoned,
            receipt,
            priority: parcel.priority,
            task: parcel.task.clone(),
            flows,
        };
        self.counters.activations += 1;
        self.run.deeds.sent += 1;
        self.say(to, Message::Activate(activate));
        if !receipt {
            return None;
        }
        let cargoes = parcel.flows.iter().flat_map(|(_, cargo)| cargo);
        let bytes = cargoes.map(|cargo| cargo.size()).sum();
        self.run.receipts.insert((to, number), (bytes, None));
        Some((to, number))
    }

    /// One datum of a parcel.
    fn announced<'c>(
        &mut self,
        to: Rank,
        place: (u32, u16),
        cargo: &'c Arc<dyn Cargo>,
    ) -> Announced<'c> {
        let size = cargo.size();
        self.counters.messages += 1;
        let credit = &mut self.run.ways[to.0 as usize].credit;
        let inline = if size <= self.settings.inline_bytes && credit.spend(size) {
            let under_way = credit.under_way();
            self.counters.peak_inline_bytes = self.counters.peak_inline_bytes.max(under_way);
            self.counters.inline_bytes += size as u64;
            Some(self.checked(cargo.body(), size))
        } else {
            self.counters.fetched_bytes += size as u64;
            self.run.deeds.announced += 1;
            self.run.shelf.put(to, place, cargo.clone());
            None
        };
        Announced {
            head: Cow::Owned(cargo.head().to_vec()),
            size: size as u64,
            inline,
        }
    }

    /// The body of a cargo, if it is as long as was said.
    fn checked<'c>(&mut self, body: Cow<'c, [u8]>, size: usize) -> Cow<'c, [u8]> {
        if body.len() == size {
            return body;
        }
        let text = format!(
            "a datum said that it has {size} bytes and has {}",
            body.len()
        );
        self.fault(failure(self.rank, "malformed", text));
        Cow::Owned(vec![0; size])
    }

    /// A fault of this rank's own program: the run stops everywhere, here too.
    fn fault(&mut self, failure: dataflow_core::port::Failure) {
        if !self.run.stopped {
            self.actions.push_back(super::Action::Stop(failure.clone()));
        }
        self.abort(failure);
    }
}
