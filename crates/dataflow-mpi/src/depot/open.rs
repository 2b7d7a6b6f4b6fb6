//! Open: all ranks agree on the terms of a run, and it begins, or is refused.

use super::followed::Followed;
use super::run::RunState;
use super::{Action, Depot, Opening, Phase, Refused};
use crate::agreement::{self, Agreement};
use crate::terms::of_this_rank;
use crate::wire::Message;
use dataflow_core::port::{Inbox, Terms};
use std::sync::Arc;
use std::time::Duration;

impl Depot {
    /// This rank opens the next run.
    pub fn open(&mut self, terms: &Terms, now: Duration) {
        let named = terms.settings.iter().find(|(name, _)| name == "space");
        self.space = named.map_or_else(Box::default, |(_, space)| space.as_str().into());
        // All others are told: a rank that hears only that this rank leaves, too, would blame it.
        if let Some(failure) = self.gone_failure(&self.space) {
            self.broke(failure);
        }
        if let Some(failure) = self.broken.clone() {
            self.actions
                .push_back(Action::Opened(Err(Refused::Broken(failure))));
            return;
        }
        let mut settings = of_this_rank(self.n_ranks);
        let agreed = self.settings.agreed();
        settings.extend(agreed.map(|(name, value)| (name.to_string(), value)));
        settings.extend(terms.settings.iter().cloned());
        self.number = self.number.wrapping_add(1);
        self.phase = Phase::Opening(Opening {
            since: now,
            patient_since: now,
        });
        self.watchdog.start(now);
        self.run = RunState::new(&self.settings, self.limits).after(&self.run);
        self.agreement.open(settings);
        self.agree(now);
    }

    /// The inbox of the run that is being opened hears what becomes of messages, unless that was refused.
    pub fn follow(&mut self, inbox: Arc<dyn Inbox>) {
        if self.phase != Phase::Between {
            self.run.followed = Some(Followed::new(inbox, self.n_ranks));
        }
    }

    /// Up with the terms, or down with the decision, when all below have opened the run.
    pub(super) fn agree(&mut self, now: Duration) {
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
    pub(super) fn begin(&mut self, disagreement: String, now: Duration) {
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
}
