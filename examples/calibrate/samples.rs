//! Samples: what bodies and runs took, pass by pass.

use super::Bench;
use super::between::Between;
use super::kernels::{Of, shapes, tracing};
use super::stage::Stage;
use super::taken::Taken;
use super::work::{Instance, Routine, Shape};
use common::cli::Failure;
use common::cli::costs::Kernel;
use dataflow::Runtime;
use dataflow::linalg::scalar::Scalar;
use std::collections::BTreeMap;

/// A run: where, of what, and the order of the matrix.
pub type Run = (Stage, Routine, usize);

/// What was measured.
#[derive(Default)]
pub struct Samples {
    kernels: BTreeMap<Of, Taken>,
    pub between: Between,
    /// Seconds.
    pub runs: BTreeMap<Run, Vec<f64>>,
}

impl Samples {
    /// Adds what another pass has measured.
    pub fn extend(&mut self, more: Samples) {
        for (of, taken) in more.kernels {
            self.kernels.entry(of).or_default().extend(taken);
        }
        self.between.extend(more.between);
        for (run, seconds) in more.runs {
            self.runs.entry(run).or_default().extend(seconds);
        }
    }

    /// The lines of a file.
    pub fn kernels(&self) -> impl Iterator<Item = Kernel> + '_ {
        self.kernels.iter().map(|(of, taken)| of.line(taken))
    }
}

/// Runs that are compared are made so many times as often as those in which kernels are measured.
const COMPARED: usize = 5;

impl Bench<'_> {
    /// Once all on a stage, whose workers may be cold: the kernels of each routine, and the runs with which
    /// they are compared. On other ranks than the first kernels are not told.
    pub fn pass<T: Scalar>(&self, is_cold: bool, runtime: &Runtime) -> Result<Samples, Failure> {
        tracing(runtime, false);
        let mut samples = Samples::default();
        let stage = Stage::of(runtime);
        let grid = (1, stage.n_ranks as u32);
        for &routine in &self.own.routines {
            for (n, nb) in shapes(&self.own.orders, &self.own.matrices) {
                let shape = Shape { n, nb, grid };
                if !self.own.keep && routine.suits(stage.n_ranks) {
                    let (more, between) = self.kernels::<T>(routine, shape, is_cold, runtime)?;
                    samples.between.extend(between);
                    for (of, taken) in more {
                        // Both ways of LU have updates, which are the same.
                        samples.kernels.entry(of).or_insert(taken);
                    }
                }
            }
            for &n in self.own.sizes.iter().filter(|_| self.own.compare) {
                if !routine.is_as_run::<T>(n, stage) {
                    continue;
                }
                let nb = routine.default_order::<T>(n);
                let seconds = self.runs::<T>(routine, Shape { n, nb, grid }, runtime)?;
                samples.runs.insert((stage, routine, n), seconds);
            }
        }
        Ok(samples)
    }

    /// Seconds of some runs, of the slowest rank each; the first warms up.
    fn runs<T: Scalar>(
        &self,
        routine: Routine,
        shape: Shape,
        runtime: &Runtime,
    ) -> Result<Vec<f64>, Failure> {
        let memory = runtime.memory();
        let work = Instance::<T>::new(routine, shape, runtime.rank(), memory, self.backend)?;
        let mut runs = Vec::new();
        for _ in 0..=COMPARED * self.rounds {
            work.fill(runtime)?;
            runtime.all_reduce((), |(), ()| ())?; // who begins first would wait for the others
            let seconds = work.run(runtime)?.seconds;
            runs.push(runtime.all_reduce(seconds, f64::max)?);
        }
        runs.remove(0);
        Ok(runs)
    }
}
