//! Stop: how a run ends early, by a failure here or because ranks cannot go on together, and how a rank leaves.

use super::{Action, Depot, Phase, Refused};
use crate::failure;
use crate::family::TreePlace;
use crate::outbox::Haste;
use crate::rendezvous::Unsendable;
use crate::transport::Bonds;
use crate::wire::Message;
use dataflow_core::port::Failure;
use dataflow_core::rank::Rank;
use std::time::Duration;

impl Depot {
    /// This rank failed: the run stops everywhere.
    pub fn abort(&mut self, failure: Failure) {
        self.run.fails(failure.clone());
        if self.phase == Phase::Between || self.broken.is_some() || self.run.stopped {
            return;
        }
        self.stop();
        self.say_to_near(&Message::Abort(failure), None);
    }

    /// A fault of the program, not of ranks: the run stops everywhere, here too.
    pub(super) fn fault(&mut self, failure: Failure) {
        if !self.run.stopped {
            self.actions.push_back(Action::Stop(failure.clone()));
        }
        self.abort(failure);
    }

    /// The same of a datum that cannot be sent, and names its task: ranks can make other runs.
    pub(super) fn spoils(&mut self, Unsendable { task, why }: Unsendable) {
        self.fault(Failure {
            name: task,
            ..failure(self.rank, "malformed", why)
        });
    }

    /// Nothing of the run is delivered any more.
    pub(super) fn stop(&mut self) {
        self.run.stopped = true;
        // Dropped on purpose, so not lost.
        self.run.deeds.delivered += self.run.wanted.stop() as u64;
        // Ranks that have stopped confirm nothing, and nobody here waits for it any more.
        self.run.receipts.clear();
    }

    /// Ranks cannot go on together: this run and all to come fail. All others are told before this
    /// rank's program is, which may end at once: a rank that saw only its connection close would blame it.
    pub(super) fn broke(&mut self, failure: Failure) {
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

    /// What breaks ranks all of them pass on, so along the tree it reaches all. Where the rank that is
    /// to blame can pass on nothing, its neighbours in the tree hear it across its place; a transport
    /// that keeps connections has others for that.
    fn tell_broken(&mut self, failure: &Failure) {
        let message = Message::Broken(failure.clone());
        self.say_to_known(&message);
        if self.bonds == Bonds::None {
            let around = TreePlace::of(failure.rank, self.n_ranks);
            let far = around.near().filter(|near| !self.watchdog.has_met(*near));
            let far: Vec<Rank> = far.filter(|far| *far != self.rank).collect();
            self.say_to_present(far, &message);
        }
    }

    /// Code of the program that is called while messages move has panicked, and said this.
    pub fn panicked(&mut self, text: &str) {
        let text = format!("{} panicked while it moved messages: {text}", self.rank);
        self.broke(failure(self.rank, "malformed", text));
    }

    /// A rank cannot be reached.
    pub(super) fn lose(&mut self, rank: Rank, reason: String) {
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
    pub(super) fn bye(&mut self, from: Rank) {
        self.gone.insert(from);
        if !self.may_leave(from) {
            self.miss(from, has_left(from, &self.space));
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

    /// That a rank has left, if one has, which a run of some space would need.
    pub(crate) fn gone_failure(&self, space: &str) -> Option<Failure> {
        let gone = self.gone.first()?;
        Some(failure(*gone, "rank_lost", has_left(*gone, space)))
    }

    /// This rank leaves for good; a rank that has not heard why ranks cannot go on hears it now.
    pub fn leave(&mut self) {
        match self.broken.clone() {
            None => self.say_to_known(&Message::Bye),
            Some(failure) => self.tell_broken(&failure),
        }
    }
}

/// What is told of a rank that has left, and of the run that must be made without it.
fn has_left(rank: Rank, space: &str) -> String {
    match space {
        "" => format!("{rank} has left"),
        _ => format!("{rank} has left, and all ranks are needed for {space:?}"),
    }
}
