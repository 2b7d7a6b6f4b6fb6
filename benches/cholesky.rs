//! Cholesky: GFLOP/s of the factorisation beside faer's, OpenBLAS's and a parallel tile loop.
//!
//! ```console
//! $ cargo bench --bench cholesky --features openblas
//! $ cargo bench --bench cholesky -- --n 1000,2000 --rounds 21
//! $ cargo bench --bench cholesky -- --n 2000 --sweep --nb 192,288 --format column-major,sub-tiled
//! ```
//!
//! Printed are medians, half the distance of the quartiles, and shares of the peak: the faster of
//! two large products on all threads, which ran in the same rounds. `--sweep` races tile orders,
//! formats and backends of ours instead of peers; the defaults are chosen from what it prints, by
//! hand.
//!
//! # Law
//! As in `race/mod.rs`. Ours works in tiles, and what it costs to get there and back, in tasks,
//! stands in columns of its own.
//!
//! # Elsewhere
//! The other factorisations: `factor.rs`. Rates of single kernels:
//! `dataflow-linalg/benches/kernels.rs`. Numbers: `benches/README.md`.

#[path = "cholesky/tile_loop.rs"]
mod tile_loop;

mod race;

use clap::Parser;
use race::{
    BACKENDS, Bench, Contestant, Dense, Entry, Ours, Outcome, Race, Routine, Shared, at_its_best,
    quartiles,
};
use std::process::ExitCode;
use tile_loop::{Style, TileLoop};

/// GFLOP/s of tile Cholesky in f64, beside its peers.
#[derive(Parser)]
struct Settings {
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

const ROUTINE: Routine = Routine::Potrf;

fn measure_all(settings: &Settings) -> Outcome {
    let bench = Bench::new(settings.race.threads)?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(bench.n_threads())
        .build()?;
    println!("{}", bench.title());
    let mut rows = Vec::new();
    for &n in settings.race.orders(&[500, 1000, 2000, 4000, 8000]) {
        let (matrix, room) = (ROUTINE.matrix(&bench, n)?, bench.room(n));
        let mut race = Race::new(&bench, ROUTINE, &matrix, &room, &settings.race)?;
        race.extend(ours(&bench, n, &room, settings)?);
        if !settings.race.sweep {
            race.enter_peers(&bench);
            for style in [Style::Barriers, Style::Dependences] {
                let (nb, peer) = best_loop(&bench, &pool, &matrix, &room, style)?;
                race.enter(&format!("{style}, nb {nb}"), peer);
            }
        }
        rows.push(race.run(settings.race.rounds(n))?);
    }
    settings.race.keep("cholesky", rows, true)
}

/// Every combination of backend, tile order and format that was asked for.
fn ours<'b>(
    bench: &'b Bench,
    n: usize,
    room: &Shared,
    settings: &Settings,
) -> Outcome<Vec<Entry<'b>>> {
    let mut entries = Vec::new();
    for &backend in BACKENDS {
        for (layout, tiles) in settings.race.layouts(ROUTINE, n, bench)? {
            let name = format!("dataflow, {backend}, {tiles}");
            let ours = Ours::new(bench, ROUTINE, layout, backend, None, room);
            entries.push(Entry::new(name, ours));
        }
    }
    Ok(entries)
}

/// The tile loop with the tile order that is fastest in a few rounds of their own.
fn best_loop<'b>(
    bench: &'b Bench,
    pool: &'b rayon::ThreadPool,
    matrix: &Dense,
    room: &Shared,
    style: Style,
) -> Outcome<(usize, TileLoop<'b>)> {
    let n = matrix.rows();
    let mut loops: Vec<_> = [64, 96, 128, 192, 256, 384]
        .into_iter()
        .filter(|nb| (2 * nb..60 * nb).contains(&n))
        .map(|nb| (Vec::new(), nb, TileLoop::new(bench, pool, room, nb, style)))
        .collect();
    for _ in 0..4 {
        for (seconds, _, peer) in &mut loops {
            seconds.push(peer.run(matrix)?.factor);
        }
    }
    // The first run, which touched the memory, is the slowest and does not matter.
    let best = loops
        .into_iter()
        .min_by(|a, b| quartiles(&a.0).0.total_cmp(&quartiles(&b.0).0));
    let (_, nb, peer) = best.ok_or("the matrix is too small for a tile loop")?;
    Ok((nb, peer))
}
