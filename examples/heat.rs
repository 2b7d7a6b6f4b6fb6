//! The heat equation on a square plate whose rim is held at 0, by explicit steps of a stencil, as loops.
//!
//! u ← u + r·(left + right + above + below − 4u), r = 0.2. The plate is cut into bands of rows; a step
//! of a band needs the rows next to it, as they were after the step before.
//!
//! Cost: 7n² operations a step, n² numbers.
//!
//! # The check
//! The plate begins as sin(πx)·sin(qπy), of which a step leaves exactly
//! λ = 1 − 4r·(sin²(πh/2) + sin²(qπh/2)), h = 1/(n + 1). q is 2; on a plate of one point, where such a wave
//! vanishes, 1. When less is left than rounding may make, any plate that has cooled down would pass, and none
//! is verified.

mod blocks;

use blocks::Blocks;
use common::cli::settings::Grid;
use common::cli::{self, Example, Failure, Outcome, Settings};
use dataflow::core::run_across;
use dataflow::prelude::*;
use std::f64::consts::PI;
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "heat",
    about: "Solves the heat equation on a square plate by explicit steps",
    runs: true,
    honours: &["n", "nb", "check"],
};

#[derive(Clone, Copy, Debug, clap::Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Rows and columns of the plate [default: 512]"
    )),
    mut_arg("nb", |nb| nb.help(
        "Rows of a band [default: 32]"
    ))
)]
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

type Row<'a> = dataflow::core::space::Slot<'a, Vec<f64>>;

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

impl Plate<'_> {
    /// sin(pπx) in place `at` of a row or column.
    fn wave(&self, p: f64, at: usize) -> f64 {
        (p * PI * self.h() * (at + 1) as f64).sin()
    }

    /// Half waves along a row.
    fn q(&self) -> f64 {
        self.bands.columns.min(2) as f64
    }

    /// The distance between neighbours.
    fn h(&self) -> f64 {
        1.0 / (self.bands.rows + 1) as f64
    }

    /// The plate as it begins.
    fn fill(&self, rank: Rank) {
        self.bands.fill(self.u, rank, |i, columns| {
            columns.map(move |j| self.wave(1.0, i) * self.wave(self.q(), j))
        });
    }

    /// What is left of the wave after all steps.
    fn left(&self) -> f64 {
        let [a, b] = [1.0, self.q()].map(|p| (p * PI * self.h() / 2.0).sin().powi(2));
        (1.0 - 4.0 * R * (a + b)).powf(self.steps.into())
    }

    /// Errors up to this are rounding, which adds up over steps.
    fn rounding(&self) -> f64 {
        f64::max(1e-12, f64::from(self.steps) * f64::EPSILON)
    }

    /// How far the plate is from what the formula says; the same on every rank.
    fn largest_error(&self, runtime: &Runtime) -> Result<f64, Failure> {
        let left = self.left();
        let mut own: f64 = 0.0;
        self.bands.each(self.u, runtime.rank(), |i, j, u| {
            let error = (u - left * self.wave(1.0, i) * self.wave(self.q(), j)).abs();
            own = if error.is_nan() {
                f64::INFINITY
            } else {
                own.max(error)
            };
        });
        Ok(runtime.all_reduce(own, f64::max)?)
    }
}

fn heat(settings: &Settings<Own>, runtime: &Runtime, outcome: &mut Outcome) -> Result<(), Failure> {
    let (bands, steps) = (bands(settings, runtime)?, settings.own.steps);
    let (n, nb) = (bands.rows, bands.mb);
    (outcome.n, outcome.nb, outcome.grid) = (Some(n), Some(nb), Some(bands.grid.to_string()));
    outcome.precision = Some("f64".into());
    outcome.flops = Some(7.0 * (n as f64).powi(2) * f64::from(steps));
    outcome.set("steps", steps);

    let u = bands.store("u");
    let plate = Plate {
        bands: &bands,
        u: &u,
        steps,
    };
    outcome.measured = settings.median(|_| {
        plate.fill(runtime.rank());
        settings.measure(runtime, |monitor| {
            run_across(&plate, &runtime.watched_by(monitor))
        })
    })?;
    outcome.digest = Some(bands.digest(&u, runtime)?);

    if settings.check.unwrap_or(true) {
        let (error, left) = (plate.largest_error(runtime)?, plate.left());
        let rounding = plate.rounding();
        outcome.set("largest_error", error);
        outcome.say(format!("largest error {error:.1e}"));
        if error > rounding {
            let text = format!("the largest error is {error:e} (at most {rounding:e} is rounding)");
            return Err(Failure::wrong_result(text));
        }
        let is_told = left > rounding;
        outcome.set("verified", is_told.then_some(true));
        if !is_told {
            let why = format!("no more than {left:.1e} is left");
            outcome.say(format!("not verified: {why}"));
            settings.expect_no_check(&why)?;
        }
    }
    Ok(())
}

/// The plate, cut into bands of rows that are dealt out to ranks.
fn bands(settings: &Settings<Own>, runtime: &Runtime) -> Result<Blocks, Failure> {
    let n = settings.n.unwrap_or(512);
    if n == 0 {
        return Err(Failure::refused("--n 0: there must be a row"));
    }
    let bands = Blocks {
        rows: n,
        columns: n,
        mb: settings.nb.unwrap_or(32).min(n),
        nb: n,
        grid: Grid {
            rows: runtime.n_ranks(),
            columns: 1,
        },
    };
    bands.with_room(runtime, 0)
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, heat)
}
