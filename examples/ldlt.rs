//! The factorisation A = L·D·Lᵀ of a symmetric matrix, by tiles, as loops.
//!
//! L has ones on its diagonal, D is diagonal and may have either sign; rows are not exchanged, so A
//! should be dominated by its diagonal. L and D overwrite the lower triangle of A.
//!
//! Cost: n³/3 operations, n² numbers.
//!
//! # Source
//! Golub, Van Loan, *Matrix Computations*, 4th edition, §4.1.2, by tiles.

mod blocks;

use blocks::{Blocks, MOST_CHECKED, OfTable};
use common::cli::{self, Example, Failure, Outcome, Settings};
use dataflow::core::run_across;
use dataflow::prelude::*;
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "ldlt",
    about: "Factors a symmetric indefinite matrix",
    runs: true,
    honours: &["n", "nb", "grid", "check"],
};

struct Ldlt<'a> {
    tiles: &'a Blocks,
    a: &'a Store<Vec<f64>>,
}

task_space! {
    /// The tasks: m and n name a tile, k the step.
    enum Task;

    impl TaskSpace for Ldlt<'_> {
        type Datum = Vec<f64>;
        let nt = self.tiles.nt();
        data A[m, n] where n <= m && m < nt
            in self.a at self.tiles.slot(m, n)
            on self.tiles.owner(m, n);
        // L · D of the panel.
        data W[m, k] on self.tiles.owner(m, k) of "scaled";

        for k in 0..nt {
            // A[k,k] ← L, D with A[k,k] = L · D · Lᵀ
            Factor { k }: update tile = A[k, k], priority nt - k => {
                let n = self.order(k);
                if let Err(at) = factor(tile, n) {
                    let index = self.tiles.extent(k, k)[0].start + at + 1;
                    let text = format!("pivot {index} is 0: the matrix needs row exchanges");
                    return Err(TaskError::new("singular", text).with_index(index as u64));
                }
            }
            for m in k + 1..nt {
                // W[m,k] ← A[m,k] · L[k,k]⁻ᵀ, A[m,k] ← W[m,k] · D[k,k]⁻¹
                Solve { m, k }:
                    update tile = A[m, k], read factor = A[k, k], new scaled = W[m, k],
                    priority nt - k
                    => scaled.put(solve(tile, factor, self.order(k)));
            }
            for m in k + 1..nt {
                for n in k + 1..=m {
                    // A[m,n] ← A[m,n] − L[m,k] · W[n,k]ᵀ
                    Update { m, n, k }:
                        update tile = A[m, n], read left = A[m, k], read scaled = W[n, k]
                        => update(tile, left, scaled, (self.order(n), self.order(k)));
                }
            }
        }
    }
}

impl Ldlt<'_> {
    /// Rows and columns of tile k of the diagonal.
    fn order(&self, k: u32) -> usize {
        self.tiles.extent(k, k)[0].len()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Row by row: w = (l · D) of the row, then l. The row whose pivot is 0 is the error.
fn factor(tile: &mut [f64], n: usize) -> Result<(), usize> {
    for i in 0..n {
        let (above, row) = tile.split_at_mut(i * n);
        let w = substitute(&row[..i], above, n);
        for (j, (l, w)) in row.iter_mut().zip(&w).enumerate() {
            *l = w / above[j * n + j];
        }
        row[i] -= dot(&row[..i], &w);
        if row[i] == 0.0 {
            return Err(i);
        }
    }
    Ok(())
}

/// w with w · Lᵀ = a, for a row a; L has ones on its diagonal.
fn substitute(a: &[f64], l: &[f64], n: usize) -> Vec<f64> {
    let mut w = Vec::with_capacity(a.len());
    for (a, l) in a.iter().zip(l.chunks_exact(n)) {
        w.push(a - dot(&w, l));
    }
    w
}

fn solve(tile: &mut [f64], factor: &[f64], n: usize) -> Vec<f64> {
    let mut scaled = Vec::with_capacity(tile.len());
    for row in tile.chunks_exact_mut(n) {
        let w = substitute(row, factor, n);
        let pivots = factor.iter().step_by(n + 1);
        row.iter_mut()
            .zip(w.iter().zip(pivots))
            .for_each(|(l, (w, d))| *l = w / d);
        scaled.extend(w);
    }
    scaled
}

fn update(tile: &mut [f64], left: &[f64], scaled: &[f64], (n, k): (usize, usize)) {
    for (row, left) in tile.chunks_exact_mut(n).zip(left.chunks_exact(k)) {
        let products = scaled.chunks_exact(k).map(|scaled| dot(left, scaled));
        row.iter_mut()
            .zip(products)
            .for_each(|(a, product)| *a -= product);
    }
}

/// Symmetric; the diagonal outweighs the rest of its row, with alternating signs.
fn entry(i: usize, j: usize) -> f64 {
    match i == j {
        true if i.is_multiple_of(2) => 4.0,
        true => -4.0,
        false => 1.0 / (1.0 + i.abs_diff(j) as f64).powi(2),
    }
}

fn ldlt(
    settings: &Settings<OfTable>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    // The check: L, and the lower triangle with its places, as it is made and as it is gathered.
    let tiles = Blocks::square(settings, runtime, outcome, 4)?;
    let n = tiles.rows;
    outcome.flops = Some((n as f64).powi(3) / 3.0);

    let a = tiles.store("A");
    let space = Ldlt {
        tiles: &tiles,
        a: &a,
    };
    outcome.measured = settings.median(|_| {
        tiles.fill(&a, runtime.rank(), |i, columns| {
            columns.map(move |j| entry(i, j))
        });
        settings.measure(runtime, |monitor| {
            run_across(&space, &runtime.watched_by(monitor))
        })
    })?;
    outcome.digest = Some(tiles.digest(&a, runtime)?);
    if settings.check.unwrap_or(n <= MOST_CHECKED) {
        let residual = residual(&tiles, &a, runtime)?;
        outcome.residual = Some(residual);
        if residual > 30.0 {
            let text = format!("the residual is {residual:.1} (at most 30 is rounding)");
            return Err(Failure::new("residual_too_large", text));
        }
    }
    Ok(())
}

/// max |A − L·D·Lᵀ| / (n · ‖A‖ · ε), from factors that every rank is told.
fn residual(tiles: &Blocks, a: &Store<Vec<f64>>, runtime: &Runtime) -> Result<f64, Failure> {
    let n = tiles.rows;
    let mut own = Vec::new();
    tiles.each(a, runtime.rank(), |i, j, value| {
        if j <= i {
            own.extend_from_slice(bytemuck::bytes_of(&[i as f64, j as f64, value]));
        }
    });
    let all = runtime.gather(own)?;
    let (mut l, mut d) = (vec![0.0; n * n], vec![0.0; n]);
    for bytes in all {
        for place in bytes.chunks_exact(size_of::<[f64; 3]>()) {
            let [i, j, value]: [f64; 3] = bytemuck::pod_read_unaligned(place);
            match (i as usize, j as usize) {
                (i, j) if i == j => (l[i * n + i], d[i]) = (1.0, value),
                (i, j) => l[i * n + j] = value,
            }
        }
    }
    let row = |i: usize| &l[i * n..(i + 1) * n];
    let mut worst: f64 = 0.0;
    for i in 0..n {
        let scaled: Vec<f64> = row(i).iter().zip(&d).map(|(l, d)| l * d).collect();
        for j in 0..=i {
            let error = (entry(i, j) - dot(&scaled[..=j], &row(j)[..=j])).abs();
            worst = if error.is_nan() {
                f64::INFINITY
            } else {
                worst.max(error)
            };
        }
    }
    let norm = (0..n)
        .map(|i| (0..n).map(|j| entry(i, j).abs()).sum())
        .fold(1.0, f64::max);
    Ok(worst / (n.max(1) as f64 * norm * f64::EPSILON / 2.0))
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, ldlt)
}
