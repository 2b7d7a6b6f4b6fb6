//! Compare: runs on this machine beside their simulation.

use super::Bench;
use super::quantile::quantile;
use super::samples::{Run, Samples};
use super::stage::Stage;
use super::work::{Instance, Routine, Shape};
use common::cli::costs::CostFile;
use common::cli::settings;
use common::cli::simulated::{Asking, Simulator, Theatre};
use common::cli::{Failure, Outcome};
use dataflow::Transport;
use dataflow::core::port::Heap;
use dataflow::core::rank::Rank;
use dataflow::linalg::scalar::Scalar;
use serde_json::json;
use std::sync::Arc;

/// A graph on some workers.
pub struct Row {
    stage: Stage,
    routine: Routine,
    shape: Shape,
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

impl Bench<'_> {
    /// The runs that were made, by stages.
    pub fn compare<T: Scalar>(
        &self,
        costs: CostFile,
        samples: Samples,
    ) -> Result<Vec<Row>, Failure> {
        let costs = Arc::new(costs);
        let row = |((stage, routine, n), runs): (Run, Vec<f64>)| {
            let shape = Shape {
                n,
                nb: routine.default_order::<T>(n),
                grid: (1, stage.n_ranks as u32),
            };
            let of = |share| quantile(runs.iter().copied(), share);
            let [first, measured, third] = [0.25, 0.5, 0.75].map(of);
            Ok(Row {
                stage,
                routine,
                shape,
                simulated: self.simulated::<T>(&costs, stage, routine, shape)?,
                measured,
                spread: (third - first) / 2.0 / measured,
            })
        };
        samples.runs.into_iter().map(row).collect()
    }

    /// Seconds of the median of as many simulated runs.
    fn simulated<T: Scalar>(
        &self,
        costs: &Arc<CostFile>,
        stage: Stage,
        routine: Routine,
        shape: Shape,
    ) -> Result<f64, Failure> {
        let precision = T::PRECISION.to_string();
        let asking = Asking {
            n_ranks: stage.n_ranks,
            threads: Some(stage.threads),
            transport: match self.runtime.transport() {
                Transport::Tcp => settings::Transport::Tcp,
                Transport::Mpi => settings::Transport::Mpi,
                _ => settings::Transport::Local,
            },
            policy: self.runtime.workers().policy().clone(),
            drive: self.settings.drive,
            precision: &precision,
            n: shape.n,
            nb: shape.nb,
            seed: self.settings.seed,
            is_traced: false,
        };
        let work = Instance::<T>::new(routine, shape, Rank(0), Arc::new(Heap), self.backend)?;
        let theatre = Theatre::of(costs.clone(), &asking)?;
        let show = move |simulator: &Simulator<'_>| work.show(simulator);
        let runs = theatre.play(show, self.own.passes * self.rounds + 1)?;
        Ok(quantile(runs[1..].iter().map(|run| run.seconds), 0.5))
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
            row.stage.n_ranks,
            row.stage.threads,
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
            "ranks": row.stage.n_ranks,
            "threads": row.stage.threads,
            "simulated_seconds": row.simulated,
            "measured_seconds": row.measured,
            "measured_spread": row.spread,
            "error": row.error(),
        })
    };
    outcome.set("rows", rows.iter().map(object).collect::<Vec<_>>());
    outcome.set("largest_error", largest);
}
