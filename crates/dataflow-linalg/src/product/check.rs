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
use crate::matrix::check::{Block, Form, ratio, subtract};
use crate::matrix::norm::{Norm, norm_across};
use crate::matrix::tiled::gather;
use crate::matrix::{EachTile, Entries, Layout, LayoutError, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Courier, Executor};
use dataflow_core::run_across;

/// How far S is from op(A)·op(X), in 1-norms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// ‖S − op(A)·op(X)‖₁
    pub difference: f64,
    /// ‖op(A)‖₁
    pub a: f64,
    /// ‖op(X)‖₁
    pub x: f64,
    epsilon: f64,
}

impl Residual {
    /// The difference over `terms`·‖A‖₁·‖X‖₁·ε; where nothing differs 0, whatever the scale.
    pub fn over(&self, terms: usize) -> f64 {
        let scale = terms as f64 * self.a * self.x * self.epsilon;
        ratio(self.difference, scale)
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
/// use dataflow_core::port::{Alone, Inline};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::product::{Operand, residual};
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[4.0, 2.0], [2.0, 2.0]][i][j]);
/// let x = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [1.0, -1.0][i]);
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [2.0, 0.5][i]);
/// let residual = residual(Operand::plain(&a), Operand::plain(&x), &b, &Inline, &Alone)?;
/// assert_eq!((residual.difference, residual.a, residual.x), (0.5, 6.0, 2.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn residual<T: Scalar>(
    a: Operand<'_, T>,
    x: Operand<'_, T>,
    s: &TiledMatrix<T>,
    on: &dyn Executor,
    courier: &dyn Courier,
) -> Result<Residual, LinalgError> {
    let product = Gemm::new(-T::one(), a, x, T::one(), s, Backend::Faer)?;
    product.run_across(on, courier, &Monitor::new())?;
    measured(a, x, s, on, courier)
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
    courier: &dyn Courier,
) -> Result<Residual, LinalgError> {
    // The same refusals as for the product.
    Gemm::new(T::one(), a, x, T::zero(), c, Backend::Faer)?;
    let left = cut_alike(a.shape(), c)?;
    let right = cut_alike(x.shape(), c)?;
    let rest = TiledMatrix::vacant(*c.layout(), c.memory().clone());
    let each = EachTile::new("defect", c.layout(), |i, j| {
        let tile = c.tile_at(i, j).map_err(|absent| absent.to_string())?;
        let (rows, cols) = (tile.rows(), tile.cols());
        let mut difference = vec![T::zero(); rows * cols];
        tile.write_column_major(&mut difference, rows.max(1));
        let (mut of_row, mut of_column) = (Vec::new(), Vec::new());
        for k in 0..left.nt() {
            gather(&left, i, k, of_a, &mut of_row);
            gather(&right, k, j, of_x, &mut of_column);
            let inner = left.tile_cols(k);
            let of_row = Block(&of_row, rows, inner, Form::Plain);
            let of_column = Block(&of_column, inner, cols, Form::Plain);
            subtract(&mut difference, (rows, cols), of_row, of_column);
        }
        let (top, first) = (c.row_range(i).start, c.col_range(j).start);
        let entries = |row: usize, col: usize| difference[row - top + (col - first) * rows];
        let filled = rest.fill_tile(i, j, &entries);
        filled.map_err(|absent| absent.to_string().into())
    });
    run_across(&each, on, courier, &Monitor::new()).map_err(LinalgError::Run)?;
    measured(a, x, &rest, on, courier)
}

/// A matrix of this shape in tiles of the order of those of `c`, all on one rank.
fn cut_alike<T: Scalar>(
    (rows, cols): (usize, usize),
    c: &TiledMatrix<T>,
) -> Result<Layout, LinalgError> {
    let wrong = |error: LayoutError| LinalgError::Shape(error.to_string());
    Layout::general(rows, cols, c.nb()).map_err(wrong)
}

/// The norms of what is left and of the operands.
fn measured<T: Scalar>(
    a: Operand<'_, T>,
    x: Operand<'_, T>,
    rest: &TiledMatrix<T>,
    on: &dyn Executor,
    courier: &dyn Courier,
) -> Result<Residual, LinalgError> {
    let of = |operand: Operand<'_, T>| {
        let norm = norm_across(operand.matrix, operand.one_norm(), on, courier);
        norm.map_err(LinalgError::Run)
    };
    let difference = norm_across(rest, Norm::One, on, courier);
    Ok(Residual {
        difference: difference.map_err(LinalgError::Run)?,
        a: of(a)?,
        x: of(x)?,
        epsilon: T::EPSILON,
    })
}
