//! Heat in a square plate whose rim is held at 0, in explicit steps, as loops.
//!
//! u ← u + r·(left + right + above + below − 4u), r = 0.2. The plate is cut into bands of rows; a step
//! of a band needs the rows next to it, as they were after the step before.
//!
//! Cost: 7n² operations a step, n² numbers.
//!
//! # The check
//! The plate begins as sin(πx)·sin(2πy), of which a step leaves exactly
//! λ = 1 − 4r·(sin²(πh/2) + sin²(πh)), h = 1/(n + 1).

mod blocks;
mod cli;

use blocks::Blocks;
use cli::settings::Grid;
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::core::run_across;
use dataflow::prelude::*;
use std::f64::consts::PI;
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "heat",
    about: "Lets heat spread in a plate",
    runs: true,
    honours: &["n", "nb", "check"],
};

#[derive(Clone, Copy, Debug, clap::Args)]
struct Own {
    /// Time steps
    #[arg(long, value_name = "S", default_value_t = 100)]
    steps: u32,
}

/// Part of a neighbour's difference that a step takes over.
const R: f64 = 0.2;

struct Plate<'a> {
    bands: &'a Blocks,
    u: &'a Store<Vec<f64>>,
    steps: u32,
}

task_space! {
    /// A band begins, and takes a step.
    enum Task;

    impl TaskSpace for Plate<'_> {
        type Datum = Vec<f64>;
        let nt = self.bands.mt();
        let steps = self.steps;
        data Band[i] where i < nt in self.u at i on self.bands.owner(i, 0);
        // Its first and its last row, after t steps.
        data First[t, i] on self.bands.owner(i, 0) of "row";
        data Last[t, i] on self.bands.owner(i, 0) of "row";

        for i in 0..nt {
            Begin { i }: update band = Band[i], new first = First[0, i], new last = Last[0, i] => {
                self.put_rows(band, first, last);
            }
        }
        for t in 0..steps {
            for i in 0..nt {
                Step { t, i }:
                    update band = Band[i],
                    optional above = Last[t, i - 1],
                    optional below = First[t, i + 1],
                    new first = First[t + 1, i],
                    new last = Last[t + 1, i]
                    => {
                        self.step(band, above, below);
                        self.put_rows(band, first, last);
                    }
            }
        }
    }
}

impl Plate<'_> {
    fn put_rows(&self, band: &[f64], first: Row<'_>, last: Row<'_>) {
        let n = self.bands.columns;
        first.put(band[..n].to_vec());
        last.put(band[band.len() - n..].to_vec());
    }

    fn step(&self, band: &mut [f64], above: Option<&Vec<f64>>, below: Option<&Vec<f64>>) {
        let n = self.bands.columns;
        let rim = vec![0.0; n];
        let mut up = above.unwrap_or(&rim).clone();
        for at in (0..band.len()).step_by(n) {
            let (done, rest) = band[at..].split_at_mut(n);
            let down = rest.get(..n).unwrap_or(below.unwrap_or(&rim));
            let own = done.to_vec();
            for (j, u) in done.iter_mut().enumerate() {
                let left = if j == 0 { 0.0 } else { own[j - 1] };
                let right = own.get(j + 1).copied().unwrap_or(0.0);
                *u += R * (left + right + up[j] + down[j] - 4.0 * own[j]);
            }
            up = own;
        }
    }
}

type Row<'a> = dataflow::core::space::Slot<'a, Vec<f64>>;

fn heat(settings: &Settings<Own>, runtime: &Runtime, outcome: &mut Outcome) -> Result<(), Failure> {
    let (n, steps) = (settings.n.unwrap_or(512).max(1), settings.own.steps);
    let nb = settings.nb.unwrap_or(32).min(n);
    let grid = Grid {
        rows: runtime.n_ranks(),
        columns: 1,
    };
    let bands = Blocks {
        rows: n,
        columns: n,
        mb: nb,
        nb: n,
        grid,
    };
    (outcome.n, outcome.nb, outcome.grid) = (Some(n), Some(nb), Some(grid.to_string()));
    outcome.flops = Some(7.0 * (n * n) as f64 * f64::from(steps));
    outcome.set("steps", steps);

    let h = 1.0 / (n + 1) as f64;
    let wave = |p: f64, at: usize| (p * PI * h * (at + 1) as f64).sin();
    let u = bands.store("u");
    let plate = Plate {
        bands: &bands,
        u: &u,
        steps,
    };
    let runs = (0..settings.repeat).map(|_| {
        bands.fill(&u, runtime.rank(), |i, columns| {
            columns.map(move |j| wave(1.0, i) * wave(2.0, j))
        });
        settings.measure(runtime, |monitor| {
            run_across(&plate, &runtime.watched_by(monitor))
        })
    });
    outcome.measured = Measured::median(runs.collect::<Result<_, _>>()?);
    outcome.digest = Some(bands.digest(&u, runtime)?);

    if settings.check.unwrap_or(true) {
        let [a, b] = [1.0, 2.0].map(|p| (p * PI * h / 2.0).sin().powi(2));
        let left = (1.0 - 4.0 * R * (a + b)).powi(steps as i32);
        let mut own: f64 = 0.0;
        bands.each(&u, runtime.rank(), |i, j, u| {
            let error = (u - left * wave(1.0, i) * wave(2.0, j)).abs();
            own = if error.is_nan() {
                f64::INFINITY
            } else {
                own.max(error)
            };
        });
        let error = runtime.all_reduce(own, f64::max)?;
        outcome.set("largest_error", error);
        outcome.say(format!("largest error {error:.1e}"));
        if error > 1e-12 {
            let text = format!("the largest error is {error:e} (at most 1e-12 is rounding)");
            return Err(Failure::new("wrong_result", text));
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, heat)
}
