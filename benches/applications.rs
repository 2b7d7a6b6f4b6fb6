//! The papers' applications beside plain parallel loops over the same code.
//!
//! ```console
//! $ cargo bench --bench applications                       # some minutes
//! $ cargo bench --bench applications -- --quick            # small sizes, three rounds
//! $ cargo bench --bench applications -- --only swaptions   # one of them
//! ```
//!
//! All contestants of a table run in turn, round after round; rates are medians, and those of one table
//! compare.

#[allow(dead_code)] // rows are kept here, and read elsewhere
mod kept;
#[path = "applications/prices.rs"]
mod prices;
#[path = "applications/shallow_water.rs"]
mod shallow_race;
#[path = "overhead/statistics.rs"]
mod statistics;
#[path = "applications/stencil.rs"]
mod stencil;
#[path = "applications/transforms.rs"]
mod transforms;
#[path = "applications/turns.rs"]
mod turns;

use clap::{Parser, ValueEnum};
use std::process::ExitCode;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Applications beside plain loops.
#[derive(Parser)]
struct Settings {
    /// Small sizes and three rounds
    #[arg(long)]
    quick: bool,
    /// Rounds of every table
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// One application [default: all]
    #[arg(long, value_name = "NAME")]
    only: Option<Application>,
    /// Nodes of the largest shallow water
    #[arg(long, value_name = "N", default_value_t = 40_962)]
    nodes: usize,
    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Application {
    Blackscholes,
    Swaptions,
    #[value(name = "shallow_water")]
    ShallowWater,
    Jacobi3d,
    #[value(name = "nas_ft")]
    NasFt,
}

fn main() -> ExitCode {
    match measure_all(&Settings::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(settings: &Settings) -> Outcome {
    // Without `--bench` cargo only wants to see that it runs.
    let quick = settings.quick || !settings.bench;
    let rounds = settings.rounds.unwrap_or(if quick { 3 } else { 7 }) as usize;
    println!("{}, medians of {rounds} rounds", statistics::machine());
    let mut rows = Vec::new();
    for application in Application::value_variants() {
        if settings.only.is_some_and(|only| only != *application) {
            continue;
        }
        match application {
            Application::Blackscholes => rows.push(prices::blackscholes(rounds, quick)?),
            Application::Swaptions => rows.extend(prices::swaptions(rounds, quick)?),
            Application::Jacobi3d => {
                let sizes: &[usize] = if quick { &[64] } else { &[160, 320] };
                for &n in sizes {
                    rows.push(stencil::race(n, rounds)?);
                }
            }
            Application::NasFt => {
                use applications::nas_ft::problem::Class;
                let classes: &[Class] = if quick {
                    &[Class::S]
                } else {
                    &[Class::W, Class::A]
                };
                for &class in classes {
                    rows.push(transforms::race(class, rounds)?);
                }
            }
            Application::ShallowWater => {
                let largest = if quick { 642 } else { settings.nodes };
                for nodes in [642, 2562, 10_242, 40_962, 163_842, 655_362] {
                    if nodes == largest || !quick && nodes > 642 && nodes < largest {
                        rows.push(shallow_race::race(nodes, rounds)?);
                    }
                }
            }
        }
    }
    if !quick {
        kept::keep("applications", statistics::machine(), rows)?;
    }
    Ok(())
}
