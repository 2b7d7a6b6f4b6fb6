//! Compare: runs on this machine beside their simulation.

use super::Bench;
use super::kernels::quantile;
use super::work::{Routine, Shape, Work};
use common::cli::costs::Costs;
use common::cli::settings::Transport as Named;
use common::cli::simulated::{Asking, Simulator, Theatre};
use common::cli::{Failure, Outcome};
use dataflow::core::port::Heap;
use dataflow::core::rank::Rank;
use dataflow::linalg::scalar::Scalar;
use dataflow::{Runtime, Transport, launch};
use serde_json::json;
use std::sync::Arc;

/// A graph on some workers.
pub struct Row {
    routine: Routine,
    shape: Shape,
    n_ranks: usize,
    threads: usize,
    /// Seconds: simulated, and the median of the runs.
    simulated: f64,
    measured: f64,
    /// Half the range between the quartiles of the runs, as a share of the median.
    spread: f64,
}

impl Row {
    fn error(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }
}

/// The routines that are compared.
const ROUTINES: [Routine; 4] = [
    Routine::Cholesky,
    Routine::Lu,
    Routine::LuSwaps,
    Routine::Qr,
];

impl Bench<'_> {
    /// Alone one rank on one worker and on all, and two ranks that are threads; else the ranks that there
    /// are, on one worker each.
    pub fn compare<T: Scalar>(&self, costs: Costs, sizes: &[usize]) -> Result<Vec<Row>, Failure> {
        let costs = Arc::new(costs);
        let mut rows = Vec::new();
        if self.runtime.n_ranks() > 1 {
            self.add::<T>(&costs, self.runtime, sizes, &mut rows)?;
            return Ok(rows);
        }
        let mut stages = vec![(1, 1), (1, self.runtime.n_threads()), (2, 1)];
        stages.dedup();
        for (n_ranks, threads) in stages {
            let builder = Runtime::builder().ranks(n_ranks).threads(threads);
            let builder = builder.bind(self.bind).transport(Transport::Local);
            let more = launch(builder, |runtime| {
                let mut rows = Vec::new();
                self.add::<T>(&costs, runtime, sizes, &mut rows)?;
                Ok::<_, Failure>(rows)
            });
            rows.extend(more?);
        }
        Ok(rows)
    }

    /// All routines and sizes on one runtime.
    fn add<T: Scalar>(
        &self,
        costs: &Arc<Costs>,
        runtime: &Runtime,
        sizes: &[usize],
        rows: &mut Vec<Row>,
    ) -> Result<(), Failure> {
        let n_ranks = runtime.n_ranks();
        for (routine, &n) in ROUTINES
            .iter()
            .flat_map(|routine| sizes.iter().map(move |n| (*routine, n)))
        {
            let routine = routine.as_run::<T>(n, n_ranks, runtime.n_threads());
            let shape = Shape {
                n,
                nb: routine.default_order::<T>(n),
                grid: (1, n_ranks as u32),
            };
            let mut runs = self.runs::<T>(routine, shape, runtime)?;
            let [first, measured, third] =
                [0.25, 0.5, 0.75].map(|share| quantile(&mut runs, share));
            let simulated = match runtime.rank() {
                Rank(0) => self.simulated::<T>(costs, routine, shape, runtime)?,
                _ => 0.0,
            };
            rows.push(Row {
                routine,
                shape,
                n_ranks,
                threads: runtime.n_threads(),
                simulated,
                measured,
                spread: (third - first) / 2.0 / measured,
            });
        }
        Ok(())
    }

    /// Seconds of some runs, of the slowest rank each; the first warms up.
    fn runs<T: Scalar>(
        &self,
        routine: Routine,
        shape: Shape,
        runtime: &Runtime,
    ) -> Result<Vec<f64>, Failure> {
        let memory = runtime.memory();
        let work = Work::<T>::new(routine, shape, runtime.rank(), memory, self.backend)?;
        let mut runs = Vec::new();
        for _ in 0..=self.rounds {
            work.fill(runtime)?;
            runtime.all_reduce((), |(), ()| ())?; // who begins first would wait for the others
            let seconds = work.run(runtime)?.seconds;
            runs.push(runtime.all_reduce(seconds, f64::max)?);
        }
        runs.remove(0);
        Ok(runs)
    }

    /// Seconds of the median of as many simulated runs.
    fn simulated<T: Scalar>(
        &self,
        costs: &Arc<Costs>,
        routine: Routine,
        shape: Shape,
        runtime: &Runtime,
    ) -> Result<f64, Failure> {
        let precision = T::PRECISION.to_string();
        let asking = Asking {
            n_ranks: runtime.n_ranks(),
            threads: Some(runtime.n_threads()),
            transport: match runtime.transport() {
                Transport::Tcp => Named::Tcp,
                Transport::Mpi => Named::Mpi,
                _ => Named::Local,
            },
            drive: None,
            precision: &precision,
            nb: shape.nb,
            seed: self.seed,
            is_traced: false,
        };
        let work = Work::<T>::new(routine, shape, Rank(0), Arc::new(Heap), self.backend)?;
        let theatre = Theatre::of(costs.clone(), &asking)?;
        let show = move |simulator: &Simulator<'_>| work.show(simulator);
        let runs = theatre.play(show, self.rounds + 1)?;
        let mut warm: Vec<f64> = runs[1..].iter().map(|run| run.seconds).collect();
        Ok(quantile(&mut warm, 0.5))
    }
}

/// The table, and the largest error.
pub fn tell(rows: &[Row], outcome: &mut Outcome) {
    outcome
        .say("routine       n   nb  ranks x workers  simulated ms  measured ms  spread %  error %");
    for row in rows {
        outcome.say(format!(
            "{:<9} {:>5} {:>4}  {:>5} x {:<7}  {:>12.3}  {:>11.3}  {:>8.1}  {:>+7.1}",
            row.routine.name(),
            row.shape.n,
            row.shape.nb,
            row.n_ranks,
            row.threads,
            row.simulated * 1e3,
            row.measured * 1e3,
            100.0 * row.spread,
            100.0 * row.error()
        ));
    }
    let largest = rows.iter().map(|row| row.error().abs()).fold(0.0, f64::max);
    outcome.say(format!("the largest error is {:.1} %", 100.0 * largest));
    let object = |row: &Row| {
        json!({
            "routine": row.routine.name(),
            "n": row.shape.n,
            "nb": row.shape.nb,
            "ranks": row.n_ranks,
            "threads": row.threads,
            "simulated_seconds": row.simulated,
            "measured_seconds": row.measured,
            "measured_spread": row.spread,
            "error": row.error(),
        })
    };
    outcome.set("rows", rows.iter().map(object).collect::<Vec<_>>());
    outcome.set("largest_error", largest);
}
