//! Floyd and Warshall's shortest paths between all pairs of nodes of a graph, by blocks, in program order.
//!
//! D[i][j] ← min(D[i][j], D[i][k] + D[k][j]) for k = 0, 1, …; a block takes `nb` steps of k at a time.
//! [`insert`] is the whole graph: tasks are inserted as a loop would run them, recorded once, and run
//! on any number of threads and ranks.
//!
//! Cost: 2n³ operations, n² numbers; every rank keeps the program, (n / nb)³ tasks of 240 bytes.
//!
//! # Source
//! Floyd, *Algorithm 97*, CACM 5 (1962); blocks as in Venkataraman, Sahni, Mukhopadhyaya, *A blocked
//! all-pairs shortest-paths algorithm*, J. Exp. Algorithmics 8 (2003).

mod blocks;

use blocks::{Blocks, MOST_CHECKED, OfTable};
use chacha20::ChaCha8Rng;
use common::cli::{self, Example, Failure, Outcome, Settings};
use dataflow::core::words::counted;
use dataflow::prelude::*;
use dataflow::sequence::record::{Home, Recorder, record};
use rand::{Rng, SeedableRng};
use std::ops::Range;
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "floyd_warshall",
    about: "Finds the shortest paths between all pairs of nodes of a graph",
    runs: true,
    honours: &["n", "nb", "grid", "seed", "check"],
};

/// Distances, row by row.
type Block = Vec<f64>;

/// Inserts the tasks; `d` holds the blocks row by row, `nt` a row, and `order` tells their order.
fn insert<'c>(
    s: &Recorder<'c, '_, Block>,
    d: &[Home<'c, Block>],
    nt: usize,
    order: impl Fn(usize) -> usize,
) {
    let others = |k| (0..nt).filter(move |&i| i != k);
    for k in 0..nt {
        // Paths among the nodes of block k …
        let (corner, nb) = (&d[k * nt + k], order(k));
        s.name("Close")
            .task(write(corner), move |own| close(own, nb));
        // … then from them and to them …
        for i in others(k) {
            let (row, column, n) = (&d[k * nt + i], &d[i * nt + k], order(i));
            s.name("Row")
                .task((read(corner), write(row)), move |(corner, own)| {
                    relax(own, corner, &own.clone(), (nb, n));
                });
            s.name("Column")
                .task((read(corner), write(column)), move |(corner, own)| {
                    relax(own, &own.clone(), corner, (nb, nb));
                });
        }
        // … then over them.
        for (i, j) in others(k).flat_map(|i| others(k).map(move |j| (i, j))) {
            let (to, from, n) = (&d[i * nt + k], &d[k * nt + j], order(j));
            let accesses = (read(to), read(from), write(&d[i * nt + j]));
            s.name("Over").task(accesses, move |(to, from, own)| {
                relax(own, to, from, (nb, n))
            });
        }
    }
}

/// D ← min(D, A ⊗ B): d[i][j] ← min(d[i][j], a[i][k] + b[k][j]) for k < nb, j < n.
fn relax(d: &mut Block, a: &Block, b: &Block, (nb, n): (usize, usize)) {
    for (d, a) in d.chunks_exact_mut(n).zip(a.chunks_exact(nb)) {
        for (a, b) in a.iter().zip(b.chunks_exact(n)) {
            d.iter_mut().zip(b).for_each(|(d, b)| *d = d.min(a + b));
        }
    }
}

/// The plain triple loop, among nodes 0..n.
fn close(d: &mut Block, n: usize) {
    for k in 0..n {
        let from = d[k * n..(k + 1) * n].to_vec();
        for row in d.chunks_exact_mut(n) {
            let to = row[k];
            row.iter_mut()
                .zip(&from)
                .for_each(|(d, from)| *d = d.min(to + from));
        }
    }
}

/// Edges from a node to the nodes `to`: one in sixteen is there, 1 to 1000 long. Whole numbers, so that
/// sums are exact in any order.
fn edges(from: usize, to: Range<usize>, seed: u64) -> impl Iterator<Item = f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(from as u64);
    random.set_word_pos(to.start as u128);
    to.map(move |to| match random.next_u32() {
        _ if to == from => 0.0,
        word if word % 16 == 0 => f64::from(1 + (word >> 4) % 1000),
        _ => f64::INFINITY,
    })
}

fn shortest_paths(
    settings: &Settings<OfTable>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    // The check has a whole table of its own.
    let blocks = Blocks::square(settings, runtime, outcome, 1)?;
    let n = blocks.rows;
    (outcome.seed, outcome.flops) = (Some(settings.seed), Some(2.0 * (n as f64).powi(3)));

    let nt = blocks.nt();
    blocks.expect_program(u128::from(nt).pow(3), runtime)?;
    let d = blocks.store("distances");
    let program = record("floyd_warshall", runtime.n_ranks(), |s| {
        let all = (0..nt).flat_map(|i| (0..nt).map(move |j| (i, j)));
        let homes = all.map(|(i, j)| s.home(&d, blocks.slot(i, j), blocks.owner(i, j)));
        let homes: Vec<_> = homes.collect();
        insert(s, &homes, nt as usize, |k| {
            blocks.extent(k as u32, 0)[0].len()
        });
    })?;
    outcome.measured = settings.median(|_| {
        blocks.fill(&d, runtime.rank(), |from, to| {
            edges(from, to, settings.seed)
        });
        settings.measure(runtime, |monitor| {
            program.run_across(&runtime.watched_by(monitor))
        })
    })?;
    outcome.digest = Some(blocks.digest(&d, runtime)?);

    if settings.check.unwrap_or(n <= MOST_CHECKED) {
        let differing = differing(&blocks, &d, settings.seed, runtime)?;
        let paths = counted(n * n, "path");
        let text = format!("{differing} of {paths} differ from the plain loop's");
        outcome.set("differing", differing);
        outcome.say(&text);
        if differing > 0 {
            return Err(Failure::wrong_result(text));
        }
    }
    Ok(())
}

/// How many paths are not those of the plain loop; the same on every rank.
fn differing(
    blocks: &Blocks,
    d: &Store<Block>,
    seed: u64,
    runtime: &Runtime,
) -> Result<u64, Failure> {
    let n = blocks.rows;
    let all = (0..n).flat_map(|from| edges(from, 0..n, seed));
    let mut expected: Block = all.collect();
    close(&mut expected, n);
    let mut own = 0u64;
    blocks.each(d, runtime.rank(), |i, j, path| {
        own += u64::from(expected[i * n + j] != path)
    });
    Ok(runtime.all_reduce(own, |a, b| a + b)?)
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, shortest_paths)
}
