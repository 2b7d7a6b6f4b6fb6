//! Fault: what a space or another rank has done wrong ends the run, and is said with the space's own names.

use super::pending::Poisoned;
use super::{OrderedError, Run};
use crate::error::{Error, Kind};
use crate::foreign::shown;
use crate::port::Failure;
use crate::rank::Rank;
use crate::space::{TaskName, TaskSpace, wrong_in_small};
use crate::words::counted;

impl<'a, S: TaskSpace> Run<'a, S> {
    /// Notes a fault that ends the run: the first one is reported.
    #[cold]
    pub(super) fn fail(&self, kind: Kind, task: Option<S::Task>, text: impl Into<String>) {
        self.abort(Error::new(kind, task.map(|task| shown(&task)), text));
    }

    /// The run ends for this; the other ranks are told, unless it has been stopped before.
    pub(super) fn abort(&self, error: Error) {
        if let Some(abroad) = &self.abroad
            && !self.common.ledger.is_stopped()
        {
            let ordered = OrderedError::<S::Task>::stopping(error.clone());
            abroad.line.abort(&ordered.told_by(self.rank));
        }
        self.common.stop(error);
    }

    /// What `verify` says of the space, if it is small and something is wrong.
    pub(super) fn wrong_in_small(&self) -> Option<String> {
        let wrong = wrong_in_small(self.space, self.n_ranks())?;
        Some(wrong.to_string())
    }

    pub(super) fn n_ranks(&self) -> u32 {
        self.abroad
            .as_ref()
            .map_or(1, |abroad| abroad.n_ranks as u32)
    }

    #[cold]
    pub(super) fn not_described(&self, task: S::Task, flow: usize, n: usize) {
        let n = counted(n, "flow");
        let text = format!("{task:?} has no flow {flow}: its class describes {n}");
        self.fail(Kind::NotDescribed, Some(task), text);
    }

    #[cold]
    pub(super) fn not_expected(&self, source: S::Task, task: S::Task, flow: usize) {
        let flow = self.description.flow_name(task.class(), flow);
        let wrong = self.wrong_in_small();
        let wrong = wrong.unwrap_or_else(|| "`verify` checks every edge".into());
        let text = format!(
            "the successors of {source:?} feed {flow} of {task:?}, but the inputs of {task:?} do not name \
             that output, and it alone, as the source of {flow}; {wrong}"
        );
        self.fail(Kind::NotExpected, Some(task), text);
    }

    #[cold]
    pub(super) fn fed_twice(
        &self,
        source: S::Task,
        task: S::Task,
        flow: usize,
    ) -> Option<Poisoned> {
        let flow = self.description.flow_name(task.class(), flow);
        let text = format!("{source:?} feeds {flow} of {task:?}, which had been fed before");
        self.fail(Kind::FedTwice, Some(task), text);
        None
    }
}

impl<T: TaskName> OrderedError<T> {
    /// It, as other ranks are told.
    pub fn told_by(self, rank: Rank) -> Failure {
        let name = self.task().and_then(|task| task.to_wire());
        self.error.into_failure(name.unwrap_or_default(), rank)
    }
}
