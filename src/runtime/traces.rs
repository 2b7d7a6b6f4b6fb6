//! Traces: what all ranks have recorded, on rank 0 and by its clock.

use super::{Runtime, Transport};
use crate::clocks::{Clocks, machine};
use crate::collective::{Agreement, Gather, run_together};
use dataflow_core::Error;
use dataflow_core::port::Context;
use dataflow_core::rank::Rank;
use dataflow_core::space::{Description, Erased};
use dataflow_core::trace::{Skew, Trace};
use std::sync::PoisonError;

impl Runtime {
    /// The traces of the runs that have ended since they were last taken, on rank 0 and in the order in which
    /// they ended there: those of runs across ranks with the parts of all ranks, and those of its own runs.
    /// Nothing on the others, which keep no traces of their own runs either. All ranks call it.
    ///
    /// Sends what the others have recorded of runs across ranks to rank 0: some twenty bytes a task.
    ///
    /// # Errors
    /// If a rank is lost, or does something else instead, or has recorded other runs across ranks: in such
    /// a run its tracer was off, or it failed before anything could be noted. Then this rank's own
    /// traces are kept, for [`Tracer::take`](dataflow_core::trace::Tracer::take).
    ///
    /// # Examples
    /// ```
    /// use dataflow::core::space::Independent;
    /// let runtime = dataflow::Runtime::builder().trace(1 << 20).build()?;
    /// runtime.run(&Independent::new("sleep", 2, |_| Ok(std::thread::sleep(std::time::Duration::from_millis(1)))))?;
    /// let traces = runtime.traces()?;
    /// let told = traces[0].explanation();
    /// assert!(told.in_bodies() > 0.0 && told.n_tasks == 2);
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn traces(&self) -> Result<Vec<Trace>, Error> {
        let Some(tracer) = &self.tracer else {
            return Ok(Vec::new());
        };
        let own = tracer.take();
        if self.n_ranks() == 1 {
            return Ok(own);
        }
        match self.gathered(&own) {
            Ok(parts) => Ok(self.joined(own, parts)),
            Err(error) => {
                tracer.put_back(own);
                Err(error)
            }
        }
    }

    /// Compares the clocks of the ranks, if runs are recorded, ranks are no threads of one process, and
    /// so may be on several machines. All ranks call it.
    pub(crate) fn compare_clocks(&self) -> Result<(), Error> {
        if self.tracer.is_none() || self.n_ranks() == 1 || self.transport == Transport::Local {
            return Ok(());
        }
        let context = self.untraced();
        let own = [vec![u8::from(self.has_cores)], machine()].concat();
        let gather = Gather::new(own, self.n_ranks()).called("compare clocks");
        let told = gather.run(&context)?;
        let (cores, machines): (Vec<_>, Vec<_>) =
            told.iter().filter_map(|told| told.split_first()).unzip();
        let clocks = Clocks::new(&machines);
        run_together(&Erased::new(&clocks), &context)?;
        // Where each thread has a core, waiting for messages may keep one busy.
        let have_cores = cores.into_iter().all(|&has| has == 1);
        if let (Some(messenger), true) = (&self.messenger, have_cores && clocks.are_several()) {
            clocks.ask_bare(messenger)?;
        }
        if self.rank() == Rank(0) {
            let skews = self.skews.lock();
            clocks.add_to(&mut skews.unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    /// What is done about traces leaves none.
    fn untraced(&self) -> Context<'_> {
        // The workers have no tracer.
        Context::new(&self.workers).across(self.courier())
    }

    /// On rank 0 the traces of runs, those across ranks each with its parts of the others.
    fn joined(&self, own: Vec<Trace>, parts: Vec<Vec<Trace>>) -> Vec<Trace> {
        if self.rank() != Rank(0) {
            return Vec::new();
        }
        let mut parts = parts.into_iter();
        let join = |own: Trace| match own.is_across {
            true => Some(self.on_one_clock(own, parts.next()?)),
            false => Some(own),
        };
        own.into_iter().filter_map(join).collect()
    }

    /// On rank 0, of each run across ranks what the others have recorded, in their order.
    fn gathered(&self, own: &[Trace]) -> Result<Vec<Vec<Trace>>, Error> {
        self.compare_clocks()?;
        let across = || own.iter().filter(|trace| trace.is_across);
        let context = self.untraced();
        let describe = |about: &mut Description| {
            about.name("traces");
            for trace in across() {
                about.parameter(format!("run {}", trace.number), &trace.name);
            }
        };
        Agreement(&describe).run(&context)?;
        let mut all = Vec::new();
        for trace in across() {
            let bytes = match self.rank() {
                Rank(0) => Vec::new(),
                _ => trace.to_bytes(),
            };
            let gather = Gather::on_first(bytes, self.n_ranks()).called("traces");
            all.push((trace, gather.run(&context)?));
        }
        if self.rank() != Rank(0) {
            return Ok(Vec::new());
        }
        // Once all were heard: nobody waits for a rank that has left.
        let of_others = |(own, told): (&Trace, Vec<Vec<u8>>)| {
            let parts = told.iter().skip(1).map(|bytes| own.of_another(bytes));
            parts.collect::<Result<_, _>>().map_err(Error::malformed)
        };
        all.into_iter().map(of_others).collect()
    }

    /// A run as rank 0 has recorded it with the parts of the others, by rank 0's clock.
    fn on_one_clock(&self, own: Trace, others: Vec<Trace>) -> Trace {
        let mut parts = vec![own];
        for (rank, part) in (1..).zip(others) {
            let mut skew = self.skew(rank);
            skew.add_messages(&part, &parts);
            parts.push(part.by_another_clock(&skew));
        }
        Trace::of_ranks(parts)
    }

    /// How far the clock of a rank is ahead of rank 0's, as far as that was looked at.
    fn skew(&self, rank: usize) -> Skew {
        let skews = self.skews.lock().unwrap_or_else(PoisonError::into_inner);
        skews.get(rank).cloned().unwrap_or_default()
    }
}
