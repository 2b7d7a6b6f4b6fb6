//! Runs: task spaces, sequences, records and recursion on a runtime.

use super::Runtime;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Context, Wire};
use dataflow_core::recursion::{Recursive, recurse_across};
use dataflow_core::sequence::record::Recorded;
use dataflow_core::sequence::{self, Scope};
use dataflow_core::space::TaskSpace;
use dataflow_core::{Error, Report, run, run_across};
use std::fmt::Debug;

impl Runtime {
    /// Runs all tasks of a space on this rank alone.
    ///
    /// The body of a task begins no run here, but one inside of it ([`run_inside`](dataflow_core::run_inside)).
    /// It must not wait for a run that another thread begins on the same workers: such a run is served when a
    /// worker finds nothing to do in those before it, and if all are in bodies that wait for it, both wait for
    /// ever, and nothing says so.
    ///
    /// # Errors
    /// As [`dataflow_core::run`].
    pub fn run<S: TaskSpace>(&self, space: &S) -> Result<Report, Error> {
        run(space, self)
    }

    /// Runs a program that inserts tasks on data with versions, and all tasks that it inserts, on this
    /// rank alone; returns the program's result and the report of the run. See [`sequence`](crate::sequence).
    ///
    /// # Errors
    /// As [`sequence::scope`].
    ///
    /// # Examples
    /// ```
    /// use dataflow::prelude::*;
    /// let (mut a, mut b) = (1, 2);
    /// dataflow::Runtime::new()?.scope(|s| {
    ///     let (a, b) = (s.lend(&mut a), s.lend(&mut b));
    ///     s.task(write(&a), |a| *a *= 10);
    ///     s.task((read(&a), write(&b)), |(a, b)| *b += *a);
    /// })?;
    /// assert_eq!((a, b), (10, 12));
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn scope<'env, R: Send>(
        &self,
        program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
    ) -> Result<(R, Report), Error> {
        sequence::scope(self, program)
    }

    /// Runs the tasks that a space places on this rank, together with the other ranks, each of
    /// which calls this with the same space. On a single rank the same as [`run`](Self::run).
    ///
    /// # Errors
    /// As [`dataflow_core::run_across`], the same on every rank.
    pub fn run_across<S: TaskSpace<Datum: Wire>>(&self, space: &S) -> Result<Report, Error> {
        run_across(space, self)
    }

    /// Runs a recorded program on all ranks, each of which calls this and has recorded the same; as often as
    /// one likes. Alone on this rank, and for data that cannot travel: [`Recorded::run`]. See
    /// [`record`](crate::sequence::record).
    ///
    /// # Errors
    /// As [`Recorded::run_across`], the same on every rank.
    pub fn replay<D: Wire>(&self, program: &Recorded<'_, D>) -> Result<Report, Error> {
        program.run_across(self)
    }

    /// Solves a recursive problem on all ranks, each of which calls this; returns the value on each rank,
    /// and the number of calls made on this one. Alone on this rank, and inside a body:
    /// [`recursion::recurse`](crate::recursion::recurse). See [`recursion`](crate::recursion).
    ///
    /// # Errors
    /// As [`recurse_across`], the same on every rank;
    /// [`ParametersDiffer`](dataflow_core::Kind::ParametersDiffer) if the ranks' problems are of different
    /// types, or their arguments, as `Debug` shows them, differ.
    ///
    /// # Examples
    /// ```
    /// use dataflow::TaskError;
    /// use dataflow::recursion::{Call, Recursive};
    ///
    /// struct Subsets;
    /// impl Recursive for Subsets {
    ///     type Argument = u64;
    ///     type Value = u64;
    ///     fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
    ///         Ok(Call::fork(0..n, |values| 1 + values.into_iter().sum::<u64>()))
    ///     }
    /// }
    /// let (subsets, report) = dataflow::Runtime::new()?.recurse(&Subsets, 10)?;
    /// assert_eq!((subsets, report.tasks), (1024, 1024));
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn recurse<P: Recursive<Argument: Debug, Value: Wire>>(
        &self,
        problem: &P,
        argument: P::Argument,
    ) -> Result<(P::Value, Report), Error> {
        recurse_across(problem, argument, self)
    }

    /// This runtime with a monitor, which can tell progress and cancel: for whatever takes an
    /// executor.
    ///
    /// # Examples
    /// ```
    /// use dataflow::core::space::Independent;
    /// use dataflow::{Monitor, Runtime, core::run_across};
    /// let (runtime, monitor) = (Runtime::new()?, Monitor::new());
    /// let space = Independent::new("nothing", 1000, |_| Ok(()));
    /// run_across(&space, &runtime.watched_by(&monitor))?;
    /// assert_eq!(monitor.progress().done, 1000);
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn watched_by<'a>(&'a self, monitor: &'a Monitor) -> Context<'a> {
        Context::new(self).watched_by(monitor)
    }
}
