//! A·X = B of a Hermitian positive definite A as one graph: the solution follows the factorisation
//! tile by tile, without a barrier between them.

use super::{Factor, substitution};
use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::{Tile, TiledMatrix};
use crate::scalar::Scalar;
use crate::succession::run_series;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::space::Erased;

/// Overwrites the lower triangle of `a` by its Cholesky factor and `b` by the solution X of A·X = B, with
/// the bits of [`factor`](super::factor) and [`solve`](super::solve). n³/3 flops, and 2n² for each column;
/// copies no tile.
///
/// # Errors
/// As those of the two. On failure the tiles are all there, in a state between; tiles of `b` may have been
/// overwritten.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::cholesky;
///
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 2.0], [2.0, 10.0]][i][j]);
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [8.0, 22.0][i]);
/// cholesky::factor_and_solve(&a, &b, Backend::Auto, &Inline)?;
/// assert_eq!([b.get(0, 0), b.get(1, 0)], [Some(1.0), Some(2.0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
/// LAPACK's `posv`.
pub fn factor_and_solve<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let factor = Factor::new(a, backend)?;
    // Shapes that do not fit are told before the work.
    substitution(a, b, backend)?;
    factor.scan(on)?;
    factor.and_solve(b, on)
}

impl<T: Scalar> Factor<'_, T> {
    /// Runs the factorisation and, as one graph with it, the solution of A·X = B, which overwrites `b`;
    /// every rank calls it with its parts. Does not look for entries that are not finite.
    ///
    /// # Errors
    /// As [`factor_and_solve`].
    pub fn and_solve(&self, b: &TiledMatrix<T>, on: &dyn Executor) -> Result<Report, LinalgError> {
        let run = self.stages(b, |all| run_series(all, &[self.a, b], on))?;
        run.map_err(|error| self.a.failed(error))
    }

    /// The graphs of which [`and_solve`](Self::and_solve) makes one, in their order: to be
    /// [counted](crate::weight), for instance. Answers what `hear` does.
    ///
    /// # Errors
    /// If the shapes or tile orders of A and B do not fit.
    pub fn stages<R>(
        &self,
        b: &TiledMatrix<T>,
        hear: impl FnOnce(Vec<Erased<'_, Tile<T>>>) -> R,
    ) -> Result<R, LinalgError> {
        let solve = substitution(self.a, b, self.backend)?;
        Ok(hear(vec![self.erased(), solve.erased()]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{factor, solve};
    use super::*;
    use crate::matrix::digest::digest;
    use crate::matrix::generate::{PositiveDefinite, Random};
    use crate::matrix::{Distribution, Grid, Layout};
    use dataflow_core::port::{Heap, Inline, Shuffled};
    use dataflow_core::prelude::*;
    use dataflow_core::space::Erased;
    use std::sync::Arc;

    #[test]
    fn the_space_is_proved_on_every_grid() {
        for (p, q) in [(1, 1), (2, 1), (2, 2), (2, 3)] {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            let spread = |layout: Layout| {
                let layout = layout.distributed(grid, Rank(0)).unwrap();
                TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
            };
            for (nt, columns) in (0..=7).flat_map(|nt| (0..=2).map(move |columns| (nt, columns))) {
                let a = spread(Layout::lower(nt, 1).unwrap());
                let b = spread(Layout::general(nt, columns, 1).unwrap());
                let first = Factor::new(&a, Backend::Auto).unwrap();
                let second = substitution(&a, &b, Backend::Auto).unwrap();
                let both = [first.erased(), second.erased()];
                let both = Erased::series(both, 0..p * q).unwrap();
                verify(&both, p * q)
                    .unwrap_or_else(|fault| panic!("{nt} x {columns} on {p} x {q}: {fault}"));
            }
        }
    }

    #[test]
    fn the_bits_are_those_of_both_one_after_the_other_under_any_schedule() {
        let (n, nb) = (37, 5);
        let made = || {
            let a = Layout::lower(n, nb).unwrap();
            let b = Layout::general(n, 3, nb).unwrap();
            (
                TiledMatrix::<f64>::from_entries(a, &PositiveDefinite::new(n, 3)),
                TiledMatrix::<f64>::from_entries(b, &Random::new(4)),
            )
        };
        let (l, x) = made();
        factor(&l, Backend::Auto, &Inline).unwrap();
        solve(&l, &x, Backend::Auto, &Inline).unwrap();
        for seed in 0..4 {
            let (a, b) = made();
            let on = Shuffled::new(seed).with_threads(1 + seed as usize % 3);
            factor_and_solve(&a, &b, Backend::Auto, &on).unwrap();
            assert_eq!(digest(&a).unwrap(), digest(&l).unwrap());
            assert_eq!(digest(&b).unwrap(), digest(&x).unwrap());
        }
    }

    #[test]
    fn a_minor_that_is_not_positive_is_named_as_by_the_factorisation() {
        let (n, nb) = (12, 4);
        let entries = |i: usize, j: usize| match (i == j, i) {
            (true, 6) => -1.0,
            (true, _) => 4.0,
            _ => 0.0,
        };
        let a = TiledMatrix::from_fn(Layout::lower(n, nb).unwrap(), entries);
        let b = TiledMatrix::from_fn(Layout::general(n, 1, nb).unwrap(), |_, _| 1.0);
        let error = factor_and_solve(&a, &b, Backend::Auto, &Inline).unwrap_err();
        assert_eq!(
            (error.name(), error.index()),
            ("not_positive_definite", Some(7))
        );
    }
}
