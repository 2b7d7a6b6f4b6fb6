//! A·X = B as one graph, whatever the pivoting: the solution follows the factorisation tile by tile,
//! without a barrier between them.

use super::{Columns, Factor, Incremental, Pivots, Replay, Solve, Unpivoted};
use crate::error::LinalgError;
use crate::kernel::{Backend, Op};
use crate::matrix::{Regular, Tile, TiledMatrix};
use crate::scalar::Scalar;
use crate::succession::run_series;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::space::Erased;

/// Overwrites `a` and `pivots` by the factors of P·A = L·U and `b` by the solution X of A·X = B, with the
/// bits of [`factor`](super::factor) and [`solve`](super::solve). 2n³/3 flops, and 2n² for each column.
///
/// # Errors
/// As those of the two, [`LinalgError::Overflow`] among them. If a pivot is zero or not finite, factors and
/// swaps are complete, and nothing is left of `b`.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::{lu, matrix::{Layout, TiledMatrix}};
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [4.0, 10.0][i]);
/// let pivots = lu::Pivots::new(&a);
/// lu::factor_and_solve(&a, &pivots, &b, Backend::Auto, &Inline)?;
/// assert_eq!(b.to_column_major()?, [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
/// LAPACK's `gesv`.
pub fn factor_and_solve<T: Scalar>(
    a: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let factor = Factor::new(a, pivots, backend)?;
    // Shapes that do not fit are told before the work.
    Solve::new(a, pivots, Op::NoTranspose, b, backend)?;
    a.scan(on)?;
    factor.and_solve(b, on)
}

impl<T: Scalar> Factor<'_, T> {
    /// Runs the factorisation and, as one graph with it, the solution of A·X = B, which overwrites `b`;
    /// every rank calls it with its parts. Does not look for entries that are not finite.
    ///
    /// # Errors
    /// As [`factor_and_solve`].
    pub fn and_solve(&self, b: &TiledMatrix<T>, on: &dyn Executor) -> Result<Report, LinalgError> {
        let columns = self.by_columns_on(on);
        let run = self.stages_by(columns, b, |all| run_series(all, &[self.a, b], on))?;
        run.map_err(|error| self.a.failed(error))
    }

    /// The graphs of which [`and_solve`](Self::and_solve) makes one on ranks of so many workers, in their
    /// order: to be [counted](crate::weight), for instance. Answers what `hear` does.
    ///
    /// # Errors
    /// If the shapes, tile orders or grids of A and B do not fit.
    pub fn stages<R>(
        &self,
        b: &TiledMatrix<T>,
        n_workers: usize,
        hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
    ) -> Result<R, LinalgError> {
        self.stages_by(self.by_columns(n_workers), b, hear)
    }

    /// The same with the factorisation by columns, if there is one.
    fn stages_by<R>(
        &self,
        columns: Option<Columns<'_, T>>,
        b: &TiledMatrix<T>,
        hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
    ) -> Result<R, LinalgError> {
        let solve = Solve::new(self.a, self.pivots, Op::NoTranspose, b, self.backend)?;
        let look = Regular::new(self.a);
        let [first, second] = solve.parts();
        Ok(hear(vec![
            self.suited(&columns),
            look.erased(),
            first,
            second,
        ]))
    }
}

impl<T: Scalar> Unpivoted<'_, T> {
    /// The same without row swaps; `pivots` are those that the space was made with.
    ///
    /// # Errors
    /// As [`factor_and_solve`].
    pub fn and_solve(
        &self,
        pivots: &Pivots<T>,
        b: &TiledMatrix<T>,
        on: &dyn Executor,
    ) -> Result<Report, LinalgError> {
        let solve = Solve::new(self.a, pivots, Op::NoTranspose, b, self.backend)?;
        regular((self.a, b), self.erased(), solve.parts(), on)
    }
}

impl<T: Scalar> Incremental<'_, T> {
    /// The same with incremental pivoting.
    ///
    /// # Errors
    /// As [`factor_and_solve`].
    pub fn and_solve(&self, b: &TiledMatrix<T>, on: &dyn Executor) -> Result<Report, LinalgError> {
        let solve = Replay::new(self.a, self.exchanges, b, self.backend)?;
        regular((self.a, b), self.erased(), [solve.erased()], on)
    }
}

/// Runs a factorisation and a solution; between them zero pivots are looked for.
fn regular<'s, T: Scalar>(
    (a, b): (&'s TiledMatrix<T>, &TiledMatrix<T>),
    factor: Erased<'s, Tile<T>>,
    solve: impl IntoIterator<Item = Erased<'s, Tile<T>>>,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let look = Regular::new(a);
    let mut all = vec![factor, look.erased()];
    for space in solve {
        all.push(space); // `extend` takes none that may live longer than `look`
    }
    let run = run_series(all, &[a, b], on);
    run.map_err(|error| a.failed(error))
}

#[cfg(test)]
mod tests {
    use super::super::{Exchanges, factor, factor_incremental, solve, solve_incremental};
    use super::*;
    use crate::matrix::digest::{Digest, digest};
    use crate::matrix::generate::Random;
    use crate::matrix::{Distribution, Grid, Layout};
    use dataflow_core::port::{Heap, Inline, Shuffled};
    use dataflow_core::prelude::*;
    use std::num::NonZeroU32;
    use std::sync::Arc;

    /// Proves a factorisation with the solution after it.
    fn is_proved<'s>(
        (of, n_ranks): (&str, u32),
        a: &'s TiledMatrix<f64>,
        factor: Erased<'s, Tile<f64>>,
        solve: impl IntoIterator<Item = Erased<'s, Tile<f64>>>,
    ) {
        let look = Regular::new(a);
        let mut all = vec![factor, look.erased()];
        for space in solve {
            all.push(space);
        }
        let all = Erased::series(all, 0..n_ranks).unwrap();
        verify(&all, n_ranks).unwrap_or_else(|fault| panic!("{of}: {fault}"));
    }

    #[test]
    fn the_graphs_are_proved_on_every_grid_with_every_pivoting() {
        for (p, q) in [(1, 1), (2, 1), (2, 2), (2, 3)] {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            let spread = |rows, columns| {
                let layout = Layout::general(rows, columns, 1).unwrap();
                let layout = layout.distributed(grid, Rank(0)).unwrap();
                TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
            };
            for (nt, columns) in (1..=5).flat_map(|nt| (1..=2).map(move |columns| (nt, columns))) {
                let (a, b) = (spread(nt, nt), spread(nt, columns));
                let (pivots, exchanges) = (Pivots::new(&a), Exchanges::new(&a));
                let of = format!("{nt} x {columns} on {p} x {q}");
                let backend = Backend::Auto;
                let solve = Solve::new(&a, &pivots, Op::NoTranspose, &b, backend).unwrap();
                let factor = Factor::new(&a, &pivots, backend).unwrap();
                is_proved((&of, p * q), &a, factor.erased(), solve.parts());
                let factor = factor.by_tournament(NonZeroU32::new(2).unwrap());
                is_proved((&of, p * q), &a, factor.erased(), solve.parts());
                let factor = Incremental::new(&a, &exchanges, backend).unwrap();
                let replay = Replay::new(&a, &exchanges, &b, backend).unwrap();
                is_proved((&of, p * q), &a, factor.erased(), [replay.erased()]);
            }
        }
    }

    const SHAPE: (usize, usize) = (37, 5);

    fn made(columns: usize, seed: u64) -> TiledMatrix<f64> {
        let layout = Layout::general(SHAPE.0, columns, SHAPE.1).unwrap();
        TiledMatrix::from_entries(layout, &Random::new(seed))
    }

    /// The digests of factors and solution.
    fn digests(run: impl FnOnce(&TiledMatrix<f64>, &TiledMatrix<f64>)) -> [Digest; 2] {
        let (a, b) = (made(SHAPE.0, 3), made(3, 4));
        run(&a, &b);
        [&a, &b].map(|matrix| digest(matrix).unwrap())
    }

    #[test]
    fn the_bits_are_those_of_both_one_after_the_other_under_any_schedule() {
        let (inline, backend) = (Inline, Backend::Auto);
        let partial = digests(|a, b| {
            let pivots = Pivots::new(a);
            factor(a, &pivots, backend, &inline).unwrap();
            solve(a, &pivots, Op::NoTranspose, b, backend, &inline).unwrap();
        });
        let incremental = digests(|a, b| {
            let exchanges = Exchanges::new(a);
            factor_incremental(a, &exchanges, backend, &inline).unwrap();
            solve_incremental(a, &exchanges, b, backend, &inline).unwrap();
        });
        for seed in 0..4 {
            let on = Shuffled::new(seed).with_threads(1 + seed as usize % 3);
            let at_once = digests(|a, b| {
                factor_and_solve(a, &Pivots::new(a), b, backend, &on).unwrap();
            });
            assert_eq!(at_once, partial);
            let at_once = digests(|a, b| {
                let exchanges = Exchanges::new(a);
                let factor = Incremental::new(a, &exchanges, backend).unwrap();
                factor.and_solve(b, &on).unwrap();
            });
            assert_eq!(at_once, incremental);
        }
    }

    #[test]
    fn without_swaps_the_solution_is_that_of_factors_without_swaps() {
        let backend = Backend::Auto;
        let apart = digests(|a, b| {
            let pivots = Pivots::new(a);
            Unpivoted::new(a, &pivots, backend)
                .unwrap()
                .run(&Inline)
                .unwrap();
            solve(a, &pivots, Op::NoTranspose, b, backend, &Inline).unwrap();
        });
        let at_once = digests(|a, b| {
            let pivots = Pivots::new(a);
            let factor = Unpivoted::new(a, &pivots, backend).unwrap();
            let on = Shuffled::new(1).with_threads(2);
            factor.and_solve(&pivots, b, &on).unwrap();
        });
        assert_eq!(at_once, apart);
    }

    #[test]
    fn the_first_zero_pivot_is_named_as_by_the_factorisation() {
        let (n, nb) = (12, 4);
        let entries = |i: usize, j: usize| u8::from(i == j && i != 6 && i != 10).into();
        let a = TiledMatrix::<f64>::from_fn(Layout::general(n, n, nb).unwrap(), entries);
        let b = TiledMatrix::from_fn(Layout::general(n, 1, nb).unwrap(), |_, _| 1.0);
        let error = factor_and_solve(&a, &Pivots::new(&a), &b, Backend::Auto, &Inline).unwrap_err();
        assert_eq!((error.name(), error.index()), ("singular", Some(7)));
    }
}
