//! The calls on ndarray's arrays and on matrices in tiles: right answers for every shape and memory order,
//! and the named errors; small problems wake no thread.

mod arrays;
mod bodies;
mod errors;
mod ranks;
mod tiles;

use dataflow::Runtime;
use dataflow::linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow::linalg::scalar::Scalar;
use ndarray::{Array2, ArrayView2, ShapeBuilder};

/// The entries of a source in an array of either memory order.
fn array_of<T: Scalar>(
    (m, n): (usize, usize),
    entries: &impl Entries<T>,
    columns: bool,
) -> Array2<T> {
    let entry = |(i, j)| entries.entry(i, j);
    match columns {
        true => Array2::from_shape_fn((m, n).f(), entry),
        false => Array2::from_shape_fn((m, n), entry),
    }
}

/// The 1-norm of the difference over that of the second, in units of ε·n.
fn distance<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> f64 {
    assert_eq!(a.dim(), b.dim());
    let column = |x: ArrayView2<'_, T>, j| x.column(j).iter().map(|x| x.modulus()).sum::<f64>();
    let rest = Array2::from_shape_fn(a.dim(), |at| a[at] - b[at]);
    let norm = |x: ArrayView2<'_, T>| (0..x.ncols()).map(|j| column(x, j)).fold(0.0, f64::max);
    let scale = norm(b) * T::EPSILON * a.nrows() as f64;
    match norm(rest.view()) {
        // Where nothing differs the scale may be zero.
        0.0 => 0.0,
        difference => difference / scale,
    }
}

/// A·B by three loops. Tests are not optimised, and most of their time is spent here: the innermost loop is over
/// slices, by a number.
fn plain<T: Scalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    let inner = a.ncols();
    assert_eq!(inner, b.nrows());
    let rows: Vec<T> = a.iter().copied().collect();
    let columns: Vec<T> = b.t().iter().copied().collect();
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        let [row, column] =
            [(&rows, i), (&columns, j)].map(|(all, at)| &all[at * inner..][..inner]);
        let (mut sum, mut k) = (T::zero(), 0);
        while k < inner {
            sum += row[k] * column[k];
            k += 1;
        }
        sum
    })
}

fn unit<T: Scalar>(n: usize) -> Array2<T> {
    Array2::from_shape_fn((n, n), |(i, j)| if i == j { T::one() } else { T::zero() })
}

fn adjoint<T: Scalar>(a: ArrayView2<'_, T>) -> Array2<T> {
    a.t().mapv(Scalar::conj)
}

/// A matrix of the runtime's rank, spread over a grid with all ranks in a row.
fn spread<T: Scalar>(
    layout: Layout,
    entries: &impl Entries<T>,
    runtime: &Runtime,
) -> TiledMatrix<T> {
    let grid = Distribution::BlockCyclic(Grid::new(1, runtime.n_ranks() as u32).unwrap());
    let layout = layout.distributed(grid, runtime.rank()).unwrap();
    TiledMatrix::from_entries(layout, entries)
}

#[test]
fn the_newcomers_program_has_less_than_fifteen_lines() {
    let page = include_str!("../../docs/guide/first.md");
    let program = page
        .split("```")
        .find(|block| block.contains("fn main"))
        .unwrap();
    let lines = program.trim().lines().count();
    assert!((5..15).contains(&lines), "{lines} lines");
    assert!(
        program.contains(".solve("),
        "it is the program that is run as a doc test"
    );
}
