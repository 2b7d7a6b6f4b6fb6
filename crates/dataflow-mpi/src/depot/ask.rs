//! Ask: for data that were announced, and for more of what is small, by returning credit.
//!
//! Who takes no more for a while, or passes on too much already, does not pass on either what it has not
//! asked for: those below may need it.
//!
//! # Law
//! While so much lies here unused that no more is taken, or too much is to go on, no credit returns; while it
//! lies unused nothing is asked for either, unless no task can run without. A run that was stopped goes on.

use super::{Action, Depot};
use crate::credit;
use crate::wire::Message;
use dataflow_core::rank::Rank;
use std::time::Duration;

impl Depot {
    /// Whether so much has come that is not used yet that no more is taken while there are tasks to
    /// run. A task that waits inside for another rank is none that runs.
    fn is_sated(&self) -> bool {
        self.is_too_much(self.run.held())
    }

    /// Whether so much lies here that no more is passed on: of what is not used yet, or of what others
    /// have not read. What was used since the inbox was last asked does not lie here any more, and a
    /// duty that is handed back does not return.
    fn is_laden(&self) -> bool {
        self.is_too_much(self.run.unused.max(self.run.passing.bytes()))
    }

    fn is_too_much(&self, bytes: u64) -> bool {
        let most = self.settings.held_bytes as u64;
        !self.settings.blocking && bytes >= most && !self.run.stopped
    }

    /// Whether something is not asked for, or credit worth a packet not returned, for that reason.
    pub(super) fn is_choked(&self) -> bool {
        let is_sated = self.is_sated();
        is_sated && self.run.wanted.wants_more()
            || (is_sated || self.is_laden()) && self.owing.iter().any(|&to| self.owes_a_packet(to))
    }

    /// Whether so much credit is that rank's that it returns alone.
    fn owes_a_packet(&self, to: Rank) -> bool {
        let peer = self.run.peers.get(to);
        peer.is_some_and(|peer| peer.credit.is_due(credit::ALONE))
    }

    /// Whether data may be asked for: while little lies here unused, or when nothing can run
    /// without; then one by one, for the next may be the one that is needed.
    fn may_ask(&self) -> bool {
        !self.is_sated() || (self.run.pulse.idle && self.run.wanted.is_settled())
    }

    /// Asks for data as far as the window allows.
    pub(super) fn ask(&mut self, now: Duration) {
        if self.run.wanted.has_duties() && self.is_laden() {
            self.hand_back_duties();
        }
        while self.may_ask()
            && let Some((from, get, room)) = self.run.wanted.ask(&*self.memory, now)
        {
            let under_way = self.run.wanted.bytes_under_way() as u64;
            self.counters.gets += 1;
            self.counters.peak_fetched_bytes = self.counters.peak_fetched_bytes.max(under_way);
            if let Some(followed) = &self.run.followed
                && let Some(task) = self.run.wanted.begins(from, get.tag)
            {
                followed.asked(task);
            }
            self.actions.push_back(Action::Receive(from, get.tag, room));
            self.say(from, Message::Get(get));
            self.run.peer(from).question = Some(self.outbox.packets_to(from));
        }
    }

    /// What this rank was to pass on comes to those below from the rank that has it.
    #[cold]
    fn hand_back_duties(&mut self) {
        while let Some((from, number)) = self.run.wanted.next_relief() {
            self.say(from, Message::Relieve { number });
        }
    }

    /// Returns credit: by the half, or by the eighth along with other messages.
    ///
    /// None while more has come than is used, or too much is to go on from here: then what is small is
    /// announced and asked for, too.
    pub(super) fn flush_credit(&mut self) {
        if self.owing.is_empty() || self.is_sated() || self.is_laden() {
            return;
        }
        let mut owing = std::mem::take(&mut self.owing);
        owing.retain(|&to| {
            let parts = match self.outbox.waits_for(to) {
                true => credit::ALONG,
                false => credit::ALONE,
            };
            let due = self.run.peer(to).credit.due(parts);
            if let Some(arrived) = due {
                self.counters.credits_sent += 1;
                self.say(to, Message::Credit { arrived });
            }
            due.is_none()
        });
        self.owing = owing;
    }
}
