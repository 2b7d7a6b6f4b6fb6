//! Context: any executor, with a courier, a monitor or a tracer of one's own.
//!
//! # Law
//! What a context was given counts instead of the executor's own; everything else is the executor's.

use super::{Courier, Executor, Job, Memory};
use crate::engine::monitor::Monitor;
use crate::trace::Tracer;
use std::fmt;
use std::sync::Arc;

/// Where a run takes place: who runs its tasks, who reaches the other ranks, who watches it, and who
/// records it.
///
/// It is an executor, and a few references: it is copied, and costs an executor's calls one more each.
///
/// # Examples
/// ```
/// use dataflow_core::monitor::Monitor;
/// use dataflow_core::port::{Context, Inline};
/// use dataflow_core::{Kind, run, space::Independent};
///
/// let monitor = Monitor::new();
/// let on = Context::new(&Inline).watched_by(&monitor);
/// let report = run(&Independent::new("nothing", 10, |_| Ok(())), &on)?;
/// assert_eq!((report.tasks, monitor.progress().done), (10, 10));
/// monitor.cancel();
/// let cancelled = run(&Independent::new("nothing", 10, |_| Ok(())), &on);
/// assert_eq!(cancelled.unwrap_err().kind(), Kind::Cancelled);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Clone, Copy)]
#[must_use = "a run takes place in it only if it is given to that run"]
pub struct Context<'a> {
    on: &'a dyn Executor,
    courier: Option<&'a dyn Courier>,
    monitor: Option<&'a Monitor>,
    tracer: Option<&'a Tracer>,
}

impl<'a> Context<'a> {
    /// The same as the executor.
    pub fn new(on: &'a dyn Executor) -> Self {
        Context {
            on,
            courier: None,
            monitor: None,
            tracer: None,
        }
    }

    /// With this courier instead of its own; with [`Alone`](super::Alone) a graph stays on this rank.
    pub fn across(self, courier: &'a dyn Courier) -> Self {
        Context {
            courier: Some(courier),
            ..self
        }
    }

    /// With this monitor instead of its own.
    pub fn watched_by(self, monitor: &'a Monitor) -> Self {
        Context {
            monitor: Some(monitor),
            ..self
        }
    }

    /// With this tracer instead of its own.
    pub fn traced_by(self, tracer: &'a Tracer) -> Self {
        Context {
            tracer: Some(tracer),
            ..self
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("workers", &self.n_workers())
            .field("rank", &Executor::courier(self).rank())
            .finish_non_exhaustive()
    }
}

impl Executor for Context<'_> {
    fn n_workers(&self) -> usize {
        self.on.n_workers()
    }

    fn execute(&self, job: &Arc<Job>) {
        self.on.execute(job);
    }

    fn execute_inside(&self, job: &Arc<Job>) {
        self.on.execute_inside(job);
    }

    fn is_uniform(&self) -> bool {
        self.on.is_uniform()
    }

    fn courier(&self) -> &dyn Courier {
        self.courier.unwrap_or_else(|| self.on.courier())
    }

    fn monitor(&self) -> Option<&Monitor> {
        self.monitor.or_else(|| self.on.monitor())
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.tracer.or_else(|| self.on.tracer())
    }

    fn memory(&self) -> Arc<dyn Memory> {
        self.on.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Alone, Inbox, Inline, Line};
    use super::*;
    use crate::Error;
    use crate::rank::Rank;
    use crate::wire::Terms;

    /// One of three ranks.
    struct OneOfThree;

    impl Courier for OneOfThree {
        fn rank(&self) -> Rank {
            Rank(2)
        }

        fn n_ranks(&self) -> usize {
            3
        }

        fn open(&self, _: &Terms, _: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error> {
            unreachable!("nothing runs")
        }
    }

    #[test]
    fn what_a_context_was_given_counts_and_the_rest_is_the_executor_s_own() {
        let (monitor, another) = (Monitor::new(), Monitor::new());
        let tracer = Tracer::new(1 << 20);
        assert!(Inline.monitor().is_none() && Inline.courier().n_ranks() == 1);
        let on = Context::new(&Inline).across(&OneOfThree);
        let on = on.watched_by(&monitor).traced_by(&tracer);
        let same = Context::new(&on);
        assert_eq!(same.courier().rank(), Rank(2));
        assert!(
            same.monitor()
                .is_some_and(|own| std::ptr::eq(own, &monitor))
        );
        assert!(same.tracer().is_some_and(|own| std::ptr::eq(own, &tracer)));
        let other = same.across(&Alone).watched_by(&another);
        assert_eq!(other.courier().n_ranks(), 1);
        assert!(
            other
                .monitor()
                .is_some_and(|own| std::ptr::eq(own, &another))
        );
        assert!(other.tracer().is_some_and(|own| std::ptr::eq(own, &tracer)));
    }
}
