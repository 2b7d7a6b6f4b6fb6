//! Checks by products: is X the solution, or the inverse; is C the product?
//!
//! # Law
//! Sums run in one fixed order, so the bits of a residual do not depend on grid, threads or
//! schedule. A NaN anywhere makes it NaN, which is below no bound.
//! [`residual`] multiplies by [`Gemm`] with faer's kernels: it judges what was computed otherwise, a
//! solution or an inverse. [`defect`] judges a product, by a plain loop over copies of the operands
//! that shares nothing with [`Gemm`].
//!
//! # Source
//! The ratios of LAPACK's TESTING/LIN DGET02 and DPOT03: Anderson et al., *LAPACK Users' Guide*,
//! SIAM 1999.

use super::{Gemm, Operand};
use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::check::{BlockView, Form, Rounding, backward_error, subtract};
use crate::matrix::norm::{Norm, norm};
use crate::matrix::tiled::{gather, zeros};
use crate::matrix::{EachTile, Entries, Layout, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;

/// How far S is from op(A)·op(X), in 1-norms.
///
/// # Examples
/// See [`residual`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// ‖S − op(A)·op(X)‖₁
    pub difference: f64,
    /// ‖op(A)‖₁
    pub a: f64,
    /// ‖op(X)‖₁
    pub x: f64,
    /// Of S.
    rows: usize,
    rounding: Rounding,
}

impl Residual {
    /// The difference over `terms`·‖A‖₁·‖X‖₁·ε, where that does not underflow; where nothing differs 0,
    /// whatever the scale.
    pub fn over(&self, terms: usize) -> f64 {
        let (shape, norms) = ((self.rows, terms), [self.a, self.x]);
        backward_error(self.difference, shape, norms, self.rounding)
    }
}

/// Overwrites `s` by S − op(A)·op(X) and measures what is left; the same on every rank.
///
/// With S = B it judges a solution, with S the unit matrix an inverse. 2·n²·nrhs flops; each rank
/// gives its parts of the matrices.
///
/// # Errors
/// As [`gemm`](super::gemm).
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::product::{Operand, residual};
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 2.0], [2.0, 2.0]][i][j]);
/// let x = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [1.0, -1.0][i]);
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [2.0, 0.5][i]);
/// let residual = residual(Operand::plain(&a), Operand::plain(&x), &b, &Inline)?;
/// assert_eq!((residual.difference, residual.a, residual.x), (0.5, 6.0, 2.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn residual<T: Scalar>(
    a: Operand<'_, T>,
    x: Operand<'_, T>,
    s: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<Residual, LinalgError> {
    let product = Gemm::new(-T::one(), a, x, T::one(), s, Backend::Faer)?;
    product.run(on)?;
    measured(a, x, s, on)
}

/// How far `c` is from op(A)·op(X), of which `a` and `x` are also given by entries that every rank can
/// read.
///
/// 2·m·n·k flops on the owners of the tiles of `c`; nothing but norms is sent, but each tile reads
/// its row of A and its column of X anew.
///
/// # Errors
/// If the shapes disagree; if the run fails.
pub fn defect<T: Scalar>(
    (a, of_a): (Operand<'_, T>, &impl Entries<T>),
    (x, of_x): (Operand<'_, T>, &impl Entries<T>),
    c: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<Residual, LinalgError> {
    // The same refusals as for the product.
    Gemm::new(T::one(), a, x, T::zero(), c, Backend::Faer)?;
    let left = cut_alike(a.shape(), c)?;
    let right = cut_alike(x.shape(), c)?;
    let rest = TiledMatrix::vacant(*c.layout(), c.memory().clone());
    let each = EachTile::new("defect", c.layout(), |i, j| {
        let tile = c.tile_at(i, j)?;
        let (rows, cols) = (tile.rows(), tile.cols());
        let mut difference = zeros(rows, cols);
        tile.write_column_major(&mut difference, rows.max(1));
        let (mut of_row, mut of_column) = (Vec::new(), Vec::new());
        for k in 0..left.nt() {
            gather(&left, i, k, of_a, &mut of_row);
            gather(&right, k, j, of_x, &mut of_column);
            let inner = left.tile_cols(k);
            let of_row = BlockView(&of_row, rows, inner, Form::Plain);
            let of_column = BlockView(&of_column, inner, cols, Form::Plain);
            subtract(&mut difference, (rows, cols), of_row, of_column);
        }
        let (top, first) = (c.row_range(i).start, c.col_range(j).start);
        let entries = |row: usize, col: usize| difference[row - top + (col - first) * rows];
        Ok(rest.fill_tile(i, j, &entries)?)
    });
    each.run(on).map_err(LinalgError::Run)?;
    measured(a, x, &rest, on)
}

/// A matrix of this shape in tiles of the order of those of `c`, all on one rank.
fn cut_alike<T: Scalar>(
    (rows, cols): (usize, usize),
    c: &TiledMatrix<T>,
) -> Result<Layout, LinalgError> {
    Ok(Layout::general(rows, cols, c.nb())?)
}

/// The norms of what is left and of the operands.
fn measured<T: Scalar>(
    a: Operand<'_, T>,
    x: Operand<'_, T>,
    rest: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<Residual, LinalgError> {
    let of = |operand: Operand<'_, T>| {
        let norm = norm(operand.matrix, operand.one_norm(), on);
        norm.map_err(LinalgError::Run)
    };
    let difference = norm(rest, Norm::One, on);
    Ok(Residual {
        difference: difference.map_err(LinalgError::Run)?,
        a: of(a)?,
        x: of(x)?,
        rows: rest.rows(),
        rounding: Rounding::of::<T>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate::{PositiveDefinite, Random};
    use crate::product::gemm;
    use dataflow_core::port::{Inline, Shuffled};

    #[test]
    fn a_right_product_has_a_defect_of_rounding_errors_and_one_wrong_entry_anywhere_shows() {
        let (m, n, k) = (7, 5, 9);
        let (of_a, of_b) = (Random::new(1), Random::new(2));
        let layout = |rows, cols| Layout::general(rows, cols, 4).unwrap();
        let a = TiledMatrix::<f64>::from_entries(layout(m, k), &of_a);
        let b = TiledMatrix::<f64>::from_entries(layout(k, n), &of_b);
        let (a, b) = (Operand::plain(&a), Operand::plain(&b));
        let mut c = TiledMatrix::zeros(layout(m, n));
        gemm(1.0, a, b, 0.0, &c, Backend::Auto, &Inline).unwrap();
        let defect = |c: &TiledMatrix<f64>| {
            let on = Shuffled::new(1).with_threads(2);
            let found = defect((a, &of_a), (b, &of_b), c, &on).unwrap();
            found.over(k + 2)
        };
        assert!(defect(&c) < 1.0, "{}", defect(&c));
        for (row, col) in (0..n).flat_map(|col| (0..m).map(move |row| (row, col))) {
            let slot = c.slot(row / 4, col / 4).unwrap();
            for (more, wrong) in [(1e-9, true), (-1e-9, false)] {
                let (row, col) = (row % 4, col % 4);
                let store = c.store_mut();
                let change = |tile: &mut crate::matrix::Tile<f64>| {
                    tile.set(row, col, tile.get(row, col) + more)
                };
                store.update(slot, change).unwrap();
                assert_eq!(defect(&c) > 1e3, wrong, "({row}, {col})");
            }
        }
    }

    #[test]
    fn a_residual_is_the_one_of_the_definition_and_nan_stays_nan() {
        let n = 9;
        let of_a = PositiveDefinite::new(n, 1);
        let a = TiledMatrix::<f64>::from_entries(Layout::lower(n, 4).unwrap(), &of_a);
        let general = || Layout::general(n, n, 4).unwrap();
        let x = TiledMatrix::<f64>::from_entries(general(), &Random::new(3));
        let unit = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
        let column = |j: usize| {
            let entry = |i| {
                (0..n)
                    .map(|k| a.get(i, k).unwrap() * x.get(k, j).unwrap())
                    .sum::<f64>()
            };
            (0..n).map(|i| (unit(i, j) - entry(i)).abs()).sum::<f64>()
        };
        let expected = (0..n).map(column).fold(0.0, f64::max);
        let judged = |x: &TiledMatrix<f64>| {
            let rest = TiledMatrix::from_fn(general(), unit);
            let (a, x) = (Operand::plain(&a), Operand::plain(x));
            residual(a, x, &rest, &Inline).unwrap()
        };
        let found = judged(&x);
        assert!((found.difference / expected - 1.0).abs() < 1e-12);
        let scale = n as f64 * found.a * found.x * f64::EPSILON / 2.0;
        assert!((found.over(n) * scale / found.difference - 1.0).abs() < 1e-14);
        let spoiled = TiledMatrix::from_fn(general(), |i, j| match (i, j) {
            (8, 8) => f64::NAN,
            _ => x.get(i, j).unwrap(),
        });
        assert!(judged(&spoiled).over(n).is_nan());
    }
}
