//! The same steps over the bare transport: each rank computes its point, sends it to the ranks that need
//! it and waits for what it needs. No tasks, no queues, no protocol.

use super::kernel::Kernel;
use super::pattern::Graph;
use common::cli::measure::middle;
use dataflow::core::port::{Block, Heap, Memory};
use dataflow::core::rank::Rank;
use dataflow::core::space::Independent;
use dataflow::mpi::Messenger;
use dataflow::mpi::transport::raw::{Raw, Sendable};
use dataflow::{Error, Runtime};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A loop over steps, on each of several ranks.
pub struct Bare<'r> {
    runtime: &'r Runtime,
    messenger: &'r Messenger,
    graph: Graph,
    bytes: usize,
}

impl<'r> Bare<'r> {
    /// # Errors
    /// If there is nobody to send to, or a rank has not exactly one point.
    pub fn new(runtime: &'r Runtime, graph: Graph, bytes: usize) -> Result<Self, String> {
        let alone = || "--bare: one rank sends nothing".to_owned();
        let messenger = runtime.messenger().ok_or_else(alone)?;
        if graph.width as usize != runtime.n_ranks() {
            let (width, n_ranks) = (graph.width, runtime.n_ranks());
            return Err(format!(
                "--bare: each rank has one point, and {width} are not {n_ranks}: --width {n_ranks}"
            ));
        }
        Ok(Bare {
            runtime,
            messenger,
            graph,
            bytes,
        })
    }

    /// Seconds of this rank for all steps, on the thread of a worker; the median of so many runs, as that
    /// of [tasks](common::cli::Measured::median).
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn run(&self, kernel: Kernel, times: usize) -> Result<f64, Error> {
        let seconds: Result<Vec<f64>, Error> = (0..times).map(|_| self.once(kernel)).collect();
        let seconds = seconds?;
        Ok(median(seconds))
    }

    fn once(&self, kernel: Kernel) -> Result<f64, Error> {
        let seconds = Mutex::new(Ok(0.0));
        let steps = Independent::new("bare", 1, |_| {
            let steps = |bare: &mut Raw<'_>| self.steps(bare, kernel);
            *seconds.lock().unwrap_or_else(PoisonError::into_inner) =
                self.messenger.bare(true, steps).flatten();
            Ok(())
        });
        self.runtime.run(&steps)?;
        seconds.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn steps(&self, bare: &mut Raw<'_>, kernel: Kernel) -> Result<f64, Error> {
        let rank = self.runtime.rank();
        let payload = Sendable::new(vec![0; self.bytes]);
        let mut room = Heap.allocate(self.bytes);
        room = self.gather(bare, &payload, room)?;
        let start = Instant::now();
        for step in 0..self.graph.steps {
            if !self.graph.active(step).contains(&rank.0) {
                continue;
            }
            let inputs = self
                .graph
                .inputs(step, rank.0)
                .map(|(_, input)| Rank(input));
            for from in inputs.filter(|from| *from != rank) {
                room = bare.receive(from, room)?;
            }
            kernel.run(step);
            let readers = self.graph.readers(step, rank.0);
            for (reader, _) in readers.filter(|(reader, _)| *reader != rank.0) {
                bare.send(Rank(reader), &payload);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        self.gather(bare, &payload, room)?;
        Ok(seconds)
    }

    /// Nobody goes on before all are here.
    fn gather(
        &self,
        bare: &mut Raw<'_>,
        word: &Sendable,
        mut room: Box<dyn Block>,
    ) -> Result<Box<dyn Block>, Error> {
        let first = Rank(0);
        if self.runtime.rank() != first {
            bare.send(first, word);
            return bare.receive(first, room);
        }
        let others = || (1..self.runtime.n_ranks() as u32).map(Rank);
        for from in others() {
            room = bare.receive(from, room)?;
        }
        others().for_each(|to| bare.send(to, word));
        Ok(room)
    }
}

/// Of an even number the former of the two; 0 of none.
pub(crate) fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    middle(seconds.len()).map_or(0.0, |middle| seconds[middle])
}
