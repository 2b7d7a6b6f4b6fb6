//! Say: what this rank tells others, into the outbox; and the packets that leave it.

use super::{Action, Depot, Phase};
use crate::outbox::Haste;
use crate::wire::{Message, PacketHeader, RunStage};
use dataflow_core::rank::Rank;
use std::time::Duration;

impl Depot {
    /// The only way out for messages.
    pub(super) fn say(&mut self, to: Rank, mut message: Message<'_>) {
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

    /// To those of these ranks that have not left.
    pub(super) fn say_to_present(&mut self, ranks: Vec<Rank>, message: &Message<'_>) {
        for rank in ranks {
            if !self.gone.contains(&rank) {
                self.say(rank, message.clone());
            }
        }
    }

    /// To the neighbours in the tree, but for one.
    pub(super) fn say_to_near(&mut self, message: &Message<'_>, but: Option<Rank>) {
        let near = self.family.near().filter(|near| Some(*near) != but);
        let near: Vec<Rank> = near.collect();
        self.say_to_present(near, message);
    }

    /// To those below in the tree.
    pub(super) fn say_to_children(&mut self, message: &Message<'_>) {
        for child in self.family.children.clone() {
            self.say(child, message.clone());
        }
    }

    /// To those that may know this rank.
    pub(super) fn say_to_known(&mut self, message: &Message<'_>) {
        let known: Vec<Rank> = self.watchdog.met().collect();
        self.say_to_present(known, message);
    }

    /// Says that this rank lives, how far it is, and how much has come.
    pub(super) fn beat(&mut self, to: Rank) {
        let came = self.run.peers.get(to).map_or(0, |peer| peer.bytes);
        let stage = match self.phase {
            Phase::Opening(_) if self.agreement.has_said() => RunStage::Open,
            Phase::Opening(_) | Phase::Between => RunStage::Apart,
            Phase::Running if self.run.reported => RunStage::Closed,
            Phase::Running => RunStage::Begun,
        };
        self.say(to, Message::Beat { stage, came });
    }

    /// The next packet that may leave does; says to whom.
    pub(super) fn pack(&mut self, haste: Haste, now: Duration) -> Option<Rank> {
        let (to, packet) = self.outbox.next_packet(haste, now)?;
        self.counters.packets += 1;
        self.counters.control_bytes += PacketHeader::BYTES as u64;
        self.actions.push_back(Action::Packet(to, packet));
        Some(to)
    }
}
