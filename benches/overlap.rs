//! Overlap: how much of the time that communication takes is hidden behind work.
//!
//! ```console
//! $ cargo bench --bench overlap              # ten seconds
//! $ cargo bench --bench overlap -- --json
//! ```
//!
//! The real engine and the real protocol run on a simulated network (5 µs, 10 GB/s each way in and
//! out of a rank) in virtual time: 2 × 2 ranks of 4 workers whose bodies take the time that
//! `overlap/kernels.json` says. So the table is the same on every machine, however busy it is.
//!
//! | time | of what |
//! |---|---|
//! | ideal | a network that costs nothing |
//! | blocking | a worker that sends waits until its receiver has the datum (paper 003's BASE) |
//! | ours | the runtime as it is |
//!
//! Hidden is (blocking − ours) ÷ (blocking − ideal). The aim is 0.9; below it the bench fails.
//!
//! # Elsewhere
//! What is compared: `overlap/compare.rs`. The task spaces: `overlap/spaces.rs`. Numbers:
//! `benches/SIMULATED.md`.

#[path = "overlap/compare.rs"]
mod compare;
#[path = "overlap/spaces.rs"]
#[allow(dead_code, reason = "the bench papers has kernels of its own")]
mod spaces;
#[path = "overlap/world.rs"]
mod world;

use clap::Parser;
use compare::{N_WORKERS, Row, table};
use serde_json::json;
use spaces::N_RANKS;
use std::process::ExitCode;
use world::Outcome;

/// The share of communication that must be hidden.
const AIM: f64 = 0.9;

/// How much of the time that communication takes is hidden behind work.
#[derive(Parser)]
struct Arguments {
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// A tenth of the size; nothing is expected of the shares
    #[arg(long)]
    quick: bool,
    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match compare_all(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table; says whether every row reaches the aim.
fn compare_all(arguments: &Arguments) -> Outcome<bool> {
    // Without `--bench` cargo only wants to see that it runs.
    let quick = arguments.quick || !arguments.bench;
    let (nt, steps) = if quick { (8, 20) } else { (40, 1000) };
    let rows = table(nt, steps)?;
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!("{}", json!({ "bench": "overlap", "rows": rows }));
    } else {
        print_table(&rows);
    }
    Ok(quick || rows.iter().all(|row| row.hidden() >= AIM))
}

fn print_table(rows: &[Row]) {
    println!("{N_RANKS} ranks of {N_WORKERS} workers, 5 µs, 10 GB/s; virtual milliseconds\n");
    println!("| problem | messages moved by | ideal | ours | blocking | hidden | messages | MB |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        let [ideal, ours, blocking] = [row.ideal, row.ours, row.blocking].map(|time| time * 1e3);
        println!(
            "| {} | {} | {ideal:.3} | {ours:.3} | {blocking:.3} | {:.3} | {} | {:.0} |",
            row.problem,
            row.drive(),
            row.hidden(),
            row.counters.messages,
            row.counters.bytes() as f64 * 1e-6
        );
    }
}
