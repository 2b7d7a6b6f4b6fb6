//! The matrices Q and R themselves.

use super::apply::Apply;
use super::reflectors::{Reflectors, alike};
use crate::error::LinalgError;
use crate::kernel::{Backend, Op, Side};
use crate::matrix::{Entries, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::words::counted;
use std::ops::Range;

/// The first `columns` columns of Q, spread like the matrix that was factored; every rank calls it
/// with its part.
///
/// With as many columns as rows the whole Q, with min(m, n) of them what R needs. Q is applied to
/// a unit matrix: 2·columns·k·(2m − k) flops with k = min(m, n).
///
/// # Errors
/// If there are more columns than rows; if the run fails.
pub fn form<T: Scalar>(
    a: &TiledMatrix<T>,
    q: &Reflectors<T>,
    columns: usize,
    backend: Backend,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let m = a.rows();
    if columns > m {
        let columns = counted(columns, "column");
        let text = format!("{columns} of a Q of order {m} (must not be more)");
        return Err(LinalgError::Shape(text));
    }
    let made = unit(a, (m, columns), on)?;
    let apply = Apply::new(a, q, (Side::Left, Op::NoTranspose), &made, backend)?;
    apply.run(on)?;
    Ok(made)
}

/// Ones on the diagonal of a matrix that is cut and spread like another.
pub(super) fn unit<T: Scalar>(
    a: &TiledMatrix<T>,
    shape: (usize, usize),
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let one = |row: usize, col: usize| if row == col { T::one() } else { T::zero() };
    let unit = TiledMatrix::beside(alike(a.layout(), shape)?, a.memory(), &one, on);
    Ok(unit.map_err(LinalgError::Run)?.0)
}

/// R of a factored matrix, min(m, n) × n, with its zeros; each rank copies its own tiles.
///
/// # Errors
/// [`LinalgError::Tile`] if a tile of it is not at hand, on that rank alone; if the run fails.
pub fn triangle<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let layout = alike(a.layout(), (a.rows().min(a.cols()), a.cols()))?;
    if layout.rank() == on.courier().rank() {
        let mut read = layout.tiles().filter(|(i, j)| i <= j);
        read.try_for_each(|(i, j)| a.tile_at(i, j).map(drop))?;
    }
    let r = TiledMatrix::beside(layout, a.memory(), &Upper(a), on);
    Ok(r.map_err(LinalgError::Run)?.0)
}

/// What is on and above the diagonal.
struct Upper<'a, T: Scalar>(&'a TiledMatrix<T>);

impl<T: Scalar> Entries<T> for Upper<'_, T> {
    fn entry(&self, row: usize, col: usize) -> T {
        if row > col {
            T::zero()
        } else {
            self.0.entry(row, col)
        }
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        let above = rows.end.min(col + 1).saturating_sub(rows.start);
        let (upper, lower) = into.split_at_mut(above);
        self.0.column(rows.start..rows.start + above, col, upper);
        lower.fill(T::zero());
    }
}
