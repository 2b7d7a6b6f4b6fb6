//! Lookahead: what panels that run only a few columns ahead cost in time, and save in memory.
//!
//! A rank holds what it has received until the last task that needs it is over: the blocks are real,
//! but have a length only.

use super::held::{Counting, Held};
use super::machine::Machine;
use super::spaces::{Cholesky, Kernels};
use super::world::{Outcome, on_ranks};
use dataflow::core::port::{Context, Courier, Lengths, Memory};
use dataflow::core::run_across;
use dataflow::linalg::flops;
use dataflow::mpi::Settings;
use dataflow::mpi::transport::simulated::VirtualWorkers;
use dataflow::prelude::*;
use std::sync::Arc;

/// A run with a lookahead of so many columns, or without one.
pub struct Row {
    pub columns: Option<u32>,
    pub seconds: f64,
    /// The most bytes of others' tiles that a rank held.
    pub held: usize,
}

/// A Cholesky factorisation of nt tiles of order nb a side on a square of ranks, a host each.
pub fn compare(machine: &Machine, (nt, nb): (usize, usize), n_ranks: u32) -> Outcome<Vec<Row>> {
    let nb_cubed = (nb as f64).powi(3);
    let operations = |class: &str| match class {
        "Potrf" => flops::potrf::<f64>(nb) as f64,
        "Gemm" => 2.0 * nb_cubed,
        _ => nb_cubed,
    };
    let kernels = Kernels::of(nb, |class| 1e6 * machine.seconds(class) * operations(class));
    let columns = [None, Some(10), Some(3), Some(1), Some(0)].into_iter();
    let rows = columns.map(|columns| run(machine, nt, &kernels, n_ranks, columns));
    rows.collect()
}

fn run(
    machine: &Machine,
    nt: usize,
    kernels: &Kernels,
    n_ranks: u32,
    columns: Option<u32>,
) -> Outcome<Row> {
    let held: Vec<Arc<Held>> = (0..n_ranks).map(|_| Arc::default()).collect();
    let of_ranks = held.clone();
    let memory = move |rank: Rank| -> Arc<dyn Memory> {
        let held = of_ranks[rank.0 as usize].clone();
        let memory = Lengths;
        Arc::new(Counting { held, memory })
    };
    let (kernels, n_workers) = (kernels.clone(), machine.cores);
    let weather = machine.weather(n_ranks as usize, 1);
    let settings = Settings::default();
    let ran = on_ranks(
        weather,
        n_ranks,
        &settings,
        memory,
        move |world, messenger| {
            let rank = messenger.rank();
            let space = Cholesky::on(n_ranks, nt, columns, &kernels, rank)?;
            let workers = VirtualWorkers::lean(world, rank, n_workers);
            run_across(&space, &Context::new(&workers).across(messenger))?;
            Outcome::Ok(world.now())
        },
    )?;
    let ends = ran.into_iter().collect::<Outcome<Vec<_>>>()?;
    Ok(Row {
        columns,
        seconds: ends.into_iter().max().unwrap_or_default().as_secs_f64(),
        held: held.iter().map(|held| held.peak()).max().unwrap_or(0),
    })
}
