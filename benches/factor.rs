//! Cholesky, LU, QR, inverse and product: GFLOP/s beside faer's and OpenBLAS's parallel routines; the
//! calls on small arrays beside faer's on one thread; and least squares with a million rows.
//!
//! ```console
//! $ cargo bench --bench factor --features openblas
//! $ cargo bench --bench factor --features openblas -- --routine getrf,geqrf --n 2000 --rounds 9
//! $ cargo bench --bench factor --features openblas -- --routine gemm --n 4000
//! $ cargo bench --bench factor -- --routine geqrf --n 2000 --sweep --nb 192,288 --ib 16,24,32
//! $ cargo bench --bench factor -- --small
//! $ cargo bench --bench factor -- --tall
//! $ cargo bench --bench factor -- --small --call lu,inverse --n 16,64
//! ```
//!
//! A table for each routine and order: medians, half the distance of the quartiles, and shares of
//! the peak, which is the faster of two large products on all threads in the same rounds.
//! `--sweep` races tile orders, formats, inner blocks and backends of ours instead of peers; the defaults
//! are chosen from what it prints, by hand.
//!
//! # Law
//! As in `race/mod.rs`. All routines work on f64 and as many threads as there are allowed cores;
//! every result of the first round is compared with the matrix.
//!
//! # Elsewhere
//! Cholesky beside parallel tile loops: `cholesky.rs`. Numbers: `benches/README.md`.

mod race;
#[path = "factor/small.rs"]
mod small;
#[path = "factor/tall.rs"]
mod tall;

use clap::{Parser, ValueEnum};
use dataflow::linalg::qr;
use race::{BACKENDS, Bench, Entry, Ours, Outcome, Race, Routine, Shared, at_its_best};
use std::process::ExitCode;

/// GFLOP/s of tile factorisations in f64, beside their peers.
#[derive(Parser)]
struct Settings {
    /// Routines [default: all]
    #[arg(long, value_delimiter = ',')]
    routine: Vec<Routine>,
    /// Inner block sizes of QR [default: the library's]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    ib: Vec<u32>,
    /// The calls on arrays of orders of 4 to 256 on one thread, and nothing else
    #[arg(long, conflicts_with_all = ["tall", "routine", "nb", "ib", "sweep", "threads"])]
    small: bool,
    /// `a.least_squares(&b)` of 1,000,000 × 20 in both orders of memory on all allowed cores, and nothing else
    #[arg(long, conflicts_with_all = ["routine", "n", "nb", "ib", "sweep", "threads"])]
    tall: bool,
    /// Which of these calls [default: all]
    #[arg(long, value_delimiter = ',', requires = "small")]
    call: Vec<small::Call>,
    #[command(flatten)]
    race: race::Settings,
}

fn main() -> ExitCode {
    match at_its_best().and_then(|()| measure_all(&Settings::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(settings: &Settings) -> Outcome {
    if settings.small {
        let orders: &[usize] = match &settings.race.n[..] {
            [] => &[4, 10, 32, 50, 100, 200, 256],
            orders => orders,
        };
        return small::measure(&settings.call, orders, settings.race.rounds_or(41));
    }
    if settings.tall {
        let rows = tall::measure(&settings.race)?;
        return settings.race.keep("factor", rows, true);
    }
    let routines = match &settings.routine[..] {
        [] => Routine::value_variants(),
        routines => routines,
    };
    let bench = Bench::new(settings.race.threads)?;
    println!("{}", bench.title());
    let mut rows = Vec::new();
    for &n in settings.race.orders(&[1000, 2000, 4000]) {
        for &routine in routines {
            let (matrix, room) = (routine.matrix(&bench, n)?, bench.room(n));
            let mut race = Race::new(&bench, routine, &matrix, &room, &settings.race)?;
            race.extend(ours(&bench, routine, n, &room, settings)?);
            if !settings.race.sweep {
                race.enter_peers(&bench);
            }
            rows.push(race.run(settings.race.rounds(n))?);
        }
    }
    let race = &settings.race;
    // The call on arrays has the runtime of the process, which knows nothing of `--threads`.
    let is_asked_for_all = settings.routine.is_empty() && race.n.is_empty();
    if is_asked_for_all && !race.sweep && race.threads.is_none() {
        rows.extend(tall::measure(race)?);
    }
    settings.race.keep("factor", rows, settings.ib.is_empty())
}

/// Every combination of backend, tile order and inner block that was asked for.
fn ours<'b>(
    bench: &'b Bench,
    routine: Routine,
    n: usize,
    room: &Shared,
    settings: &Settings,
) -> Outcome<Vec<Entry<'b>>> {
    let mut entries = Vec::new();
    for &backend in BACKENDS {
        for (layout, tiles) in settings.race.layouts(routine, n, bench)? {
            let blocks = match (routine, &settings.ib[..]) {
                (Routine::Geqrf, []) => vec![Some(qr::default_inner_block(layout.nb()))],
                (Routine::Geqrf, blocks) => blocks.iter().map(|&ib| Some(ib as usize)).collect(),
                _ => vec![None],
            };
            for &block in &blocks {
                let block_too = block.map_or(String::new(), |ib| format!(", ib {ib}"));
                let name = format!("dataflow, {backend}, {tiles}{block_too}");
                let ours = Ours::new(bench, routine, layout, backend, block, room);
                entries.push(Entry::new(name, ours));
            }
        }
    }
    Ok(entries)
}
