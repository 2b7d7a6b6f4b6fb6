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

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
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
    /// Nodes of the largest shallow water [default: 40962]
    #[arg(long, value_name = "N", value_parser = of_a_sphere, conflicts_with = "quick")]
    nodes: Option<usize>,
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

/// The orders of the icosahedral grids that shallow water runs on.
const SPHERES: [usize; 6] = [642, 2562, 10_242, 40_962, 163_842, 655_362];

fn of_a_sphere(nodes: &str) -> Result<usize, String> {
    let known = nodes.parse().ok().filter(|nodes| SPHERES.contains(nodes));
    known.ok_or_else(|| format!("must be one of {SPHERES:?}"))
}

impl Settings {
    /// Ends with status 2 if nodes are given where there are none.
    fn refuse_unused_nodes(&self) {
        let is_other = |only| only != Application::ShallowWater;
        if self.nodes.is_some() && self.only.is_some_and(is_other) {
            let fault = "--nodes are of shallow_water alone";
            let mut command = Settings::command();
            command.error(ErrorKind::ArgumentConflict, fault).exit();
        }
    }
}

fn main() -> ExitCode {
    let settings = Settings::parse();
    settings.refuse_unused_nodes();
    match measure_all(&settings) {
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
                use applications::nas_ft::published::Class;
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
                let largest = match quick {
                    true => 642,
                    false => settings.nodes.unwrap_or(40_962),
                };
                for nodes in SPHERES {
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
