//! The problem of both Cholesky examples: a definite matrix, its factor, the check.

use clap::Args;
use cli::settings::Simulation;
use cli::simulated::{Simulator, is_simulated_only};
use cli::{Example, Failure, Outcome, Settings};
use common::cli;
use common::problem::{
    File, Generated, InAnyPrecision, Kind, Problem, by_precision, digest, is_checked, judge,
    n_workers, over_ranks, then_checked,
};
use dataflow::core::port::Heap;
use dataflow::linalg::cholesky::{Check, Factor, default_layout, default_tile_order};
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::market::Symmetry;
use dataflow::linalg::matrix::{Format, Layout, TiledMatrix};
use dataflow::linalg::needs::{self, Needs};
use dataflow::linalg::scalar::Scalar;
use dataflow::{Monitor, Report, Runtime};
use std::sync::Arc;

/// What both examples are, but for their names.
pub const fn example(name: &'static str, about: &'static str) -> Example {
    Example {
        name,
        about,
        runs: true,
        honours: &[
            "n",
            "nb",
            "grid",
            "precision",
            "input",
            "seed",
            "backend",
            "check",
            "plan",
            "simulate",
            "costs",
        ],
    }
}

/// A way to factor.
pub trait Method: Copy + Send + Sync + 'static {
    /// How many levels of tasks it can do.
    const LEVELS: usize;

    /// The columns by which panels may run ahead, if it bounds them.
    fn lookahead(&self) -> Option<u32> {
        None
    }

    /// What every rank takes beside the tiles and their kernels, of a matrix of `nt` tiles a side.
    fn beside(&self, _nt: usize) -> Needs {
        Needs::default()
    }

    /// Lets a simulator hear of the graph that would be run, over a matrix that is not there.
    fn simulate<T: Scalar>(
        &self,
        a: &TiledMatrix<T>,
        backend: Backend,
        simulator: &Simulator<'_>,
    ) -> Result<(), Failure>;

    /// Overwrites the lower triangle of `a` by its factor, with all ranks.
    fn factor<T: Scalar>(
        &self,
        a: &mut TiledMatrix<T>,
        backend: Backend,
        runtime: &Runtime,
        monitor: &Monitor,
    ) -> Result<Report, Failure>;
}

/// What to factor, and in how many levels.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Order of the problem [default: 4000]"
    )),
    mut_arg("input", |input| input.help(
        "Read this file instead of generating data; of a general matrix the lower triangle"
    ))
)]
pub struct Own {
    #[command(flatten)]
    matrix: Generated,
    /// With 2 tasks are blocks of tiles, each a sequence of tasks on its tiles [default: 1]
    #[arg(long, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..=2))]
    levels: Option<u32>,
    /// Tiles in a row of a block, with --levels 2: blocks travel between ranks [default: 4]
    #[arg(long, value_name = "TILES", value_parser = clap::value_parser!(u32).range(1..))]
    block: Option<u32>,
    /// Panels run ahead of the other updates by so many columns only, and ranks hold less of each
    /// other's tiles [default: no bound]
    #[arg(long, value_name = "COLUMNS")]
    pub lookahead: Option<u32>,
}

impl Own {
    /// Tiles in a row of a block, if there are two levels.
    fn block(&self, levels: usize) -> Result<Option<usize>, Failure> {
        match (self.levels, self.block) {
            (Some(2), _) if levels < 2 => Err(Failure::refused(
                "--levels 2: only the example cholesky has two",
            )),
            (Some(2), block) => Ok(Some(block.unwrap_or(4) as usize)),
            (_, Some(_)) => Err(Failure::refused("--block: only --levels 2 has blocks")),
            (_, None) => Ok(None),
        }
    }
}

/// The whole example, but for the way to factor.
pub fn solve(
    method: impl Method,
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    settings.own.matrix.expect_sense(settings, false)?;
    let problem = Problem::open(settings, runtime, outcome)?;
    by_precision(settings, Tried { method, problem })
}

/// A way, and what it is tried on.
struct Tried<'a, M> {
    method: M,
    problem: Problem<'a, Own>,
}

impl<M: Method> InAnyPrecision for Tried<'_, M> {
    fn file(&self) -> Option<&File> {
        self.problem.file.as_ref()
    }

    /// From the entries to the factor, and back for the check.
    fn run<T: Scalar>(self) -> Result<(), Failure> {
        let (method, mut problem) = (self.method, self.problem);
        let (settings, runtime, backend) = (problem.settings, problem.runtime, problem.backend);
        let is_general = |file: &File| file.header().symmetry == Symmetry::General;
        let is_halved = problem.file.as_ref().is_some_and(is_general);
        let layout = layout::<T>(&mut problem, M::LEVELS)?;
        let lookahead = lookahead(&mut problem, &method)?;
        let needs = |[there]: [Layout; 1]| {
            let workers = runtime.n_threads();
            let factor = match lookahead {
                Some(columns) => needs::cholesky_ahead::<T>(&there, columns, workers),
                None => needs::cholesky::<T>(&there, workers),
            };
            let factor = factor.and(method.beside(there.nt()));
            let check = || Ok(needs::cholesky_check::<T>(&there, workers));
            then_checked::<T, _>(settings, &there, factor, check)
        };
        if is_simulated::<T>(method, (layout, backend), settings, problem.outcome)?
            || problem.is_plan_only::<T, _>([layout], needs)?
        {
            return Ok(());
        }
        // Kept beside its factor.
        let original = problem.original::<T>(layout, 2, (&settings.own.matrix, Kind::Spd))?;
        let mut l = TiledMatrix::vacant(layout, runtime.memory());
        problem.outcome.measured = settings.median(|_| -> Result<_, Failure> {
            // Each tile near the worker that makes it.
            l.fill(&original, runtime)?;
            Factor::new(&l, backend)?.scan(runtime)?;
            let run = |monitor: &Monitor| method.factor(&mut l, backend, runtime, monitor);
            settings.measure(runtime, run)
        })?;
        problem.outcome.digest = Some(digest(&l, runtime)?.to_string());
        if is_checked(settings, layout.rows()) {
            let check = Check::new(&original, &l)?;
            check.run(runtime)?;
            judge(check.residual(), problem.outcome)?;
        }
        if is_halved {
            let text = "what this general matrix has above its diagonal was left out";
            problem.outcome.say(text);
        }
        problem.say_more::<T>(&settings.own.matrix.name(Kind::Spd))
    }
}

/// How the matrix is cut: into tiles, or into blocks of tiles for two levels; noted in the report.
fn layout<T: Scalar>(problem: &mut Problem<'_, Own>, levels: usize) -> Result<Layout, Failure> {
    let settings = problem.settings;
    let n = match &problem.file {
        Some(file) => order(file)?,
        None => settings.n.unwrap_or(4000),
    };
    let block = settings.own.block(levels)?;
    let tiles = match (settings.nb, block) {
        (None, None) => default_layout::<T>(n, n_workers(settings, problem.runtime)?)?,
        (None, Some(_)) => Layout::lower(n, default_tile_order::<T>(n))?,
        (Some(nb), _) => Layout::lower(n, nb)?,
    };
    let nb = tiles.nb();
    problem.begin::<T>(n, nb, flops::potrf::<T>(n) as f64);
    let layout = match block {
        None => tiles,
        Some(block) => {
            problem.outcome.set("levels", 2);
            problem.outcome.set("block", block);
            let layout = Layout::lower(n, nb.saturating_mul(block))?;
            layout.with_format(Format::SubTiled { order: nb })
        }
    };
    over_ranks(layout, settings, problem.runtime)
}

/// The columns by which panels may run ahead, noted in the report; refused if the method has no such
/// bound.
fn lookahead(problem: &mut Problem<'_, Own>, method: &impl Method) -> Result<Option<u32>, Failure> {
    let lookahead = method.lookahead();
    if lookahead != problem.settings.own.lookahead {
        return Err(Failure::refused(
            "--lookahead: only the example cholesky has one",
        ));
    }
    if let Some(columns) = lookahead {
        problem.outcome.set("lookahead", columns);
    }
    Ok(lookahead)
}

/// Whether only a simulation was asked for.
fn is_simulated<T: Scalar>(
    method: impl Method,
    (layout, backend): (Layout, Backend),
    settings: &Settings<Own>,
    outcome: &mut Outcome,
) -> Result<bool, Failure> {
    if settings.simulate.is_none() {
        return Ok(false);
    }
    if settings.simulate == Some(Simulation::Time) && settings.own.levels == Some(2) {
        return Err(Failure::refused(
            "--simulate time: tasks in two levels are not simulated",
        ));
    }
    let tiles = TiledMatrix::<T>::vacant(layout, Arc::new(Heap));
    is_simulated_only(settings, outcome, move |simulator| {
        method.simulate(&tiles, backend, simulator)
    })
}

/// The order of the matrix in a file.
fn order(file: &File) -> Result<usize, Failure> {
    let (rows, cols) = (file.header().rows, file.header().cols);
    if rows != cols {
        let text =
            format!("matrix is {rows} x {cols} (a Cholesky factorisation needs a square one)");
        return Err(Failure::new("wrong_shape", text));
    }
    Ok(rows)
}
