//! Close: the accounts of all ranks are added up when a run is over; waves find out whether it can go on at all.

use super::{Action, Depot, Phase};
use crate::failure;
use crate::termination::closing::sent_and_delivered;
use crate::termination::{closing, waves};
use crate::wire::{Account, Malformed, Message};
use dataflow_core::port::Failure;
use std::time::Duration;

impl Depot {
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
    pub(super) fn settle(&mut self) {
        if self.phase != Phase::Running || self.broken.is_some() {
            return;
        }
        // Also nothing said waits to leave, so that the counters have it.
        let settled = self.run.wanted.is_settled() && !self.outbox.has_waiting();
        // And nobody can hand back to it what it would have to send.
        let is_free = self.run.stopped || !self.run.unclaimed.has_duties();
        if self.run.closed && !self.run.accounted && settled && is_free {
            self.run.accounted = true;
            // What turned out only when it is asked for would come too late.
            if !self.run.stopped
                && let Some(wrong) = self.run.unclaimed.unsendable()
            {
                self.spoils(wrong);
            }
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
    pub(super) fn end(&mut self, account: Account) {
        for child in self.family.children.clone() {
            self.say(child, Message::Closed(account.clone()));
        }
        // The next begins with all of the credit.
        self.owing.clear();
        self.totals = closing::totals(&account);
        self.run.let_go();
        self.phase = Phase::Between;
        self.actions.push_back(Action::Closed(Ok(account.failure)));
    }

    /// Nothing will happen any more, the root says.
    ///
    /// A worker may be here that looks in vain, so this rank may not be dry just now: that does no harm.
    pub(super) fn heed_quiet(&mut self, round: u32) -> Result<(), Malformed> {
        if self.run.tallied != Some(self.run.parcels()) {
            return Err(Malformed(format!(
                "wave {round} ended too early: {} has sent or got parcels since it was counted",
                self.rank
            )));
        }
        self.quiet(round);
        Ok(())
    }

    /// Nothing will happen any more.
    fn quiet(&mut self, round: u32) {
        self.say_to_children(&Message::Quiet { round });
        if !self.run.closed && !self.run.stopped {
            self.actions.push_back(Action::Stall);
        }
    }

    /// Finds out, with all ranks, whether anything can still happen.
    pub(super) fn wave(&mut self, now: Duration) {
        loop {
            let standing = self.run.standing(self.watchdog.since());
            match self.run.waves.next(&self.family, standing, now) {
                None => return,
                Some(waves::Next::Dry) => {
                    let parent = self.family.parent.unwrap_or_default();
                    self.say(parent, Message::Dry);
                }
                Some(waves::Next::Wave(round)) => self.say_to_children(&Message::Wave { round }),
                Some(waves::Next::Tally(round, tally)) => {
                    self.run.tallied = Some(self.run.parcels());
                    let parent = self.family.parent.unwrap_or_default();
                    self.say(parent, Message::Tally { round, tally });
                }
                Some(waves::Next::Quiet(round)) => self.quiet(round),
                Some(waves::Next::Lost(sum)) => {
                    let parcels = sent_and_delivered(sum.sent, sum.delivered);
                    let text = format!("{parcels}, and nothing moves");
                    return self.broke(failure(self.rank, "rank_lost", text));
                }
            }
        }
    }
}
