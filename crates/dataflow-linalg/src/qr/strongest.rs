//! The strongest columns first, of a matrix that is not higher than wide: S·P = Q·R, and the rank.

use super::arrange::{Lines, arrange};
use super::choice::choose;
use super::factor::Factor;
use super::form::triangle;
use super::leading::{Compare, Found, leading};
use super::reflectors::{Options, Reflectors};
use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::TiledMatrix;
use crate::scalar::Scalar;
use crate::succession::joined;
use dataflow_core::Report;
use dataflow_core::port::Executor;

/// The rcond that rounding errors alone leave: max(m, n)·2ε, as NumPy's, but at most the fourth root of ε.
/// That is 1/64 in `f32` and `c32`, from 2¹⁷ rows or columns on; in `f64` and `c64` 1e-4, from 4·10¹¹ on.
pub fn default_rcond<T: Scalar>(m: usize, n: usize) -> f64 {
    let most = T::EPSILON.sqrt().sqrt();
    (2.0 * T::EPSILON * m.max(n) as f64).min(most)
}

/// The factors of a matrix that is not higher than wide, with the strongest columns first.
pub struct Strongest<T: Scalar> {
    pub matrix: TiledMatrix<T>,
    pub reflectors: Reflectors<T>,
    pub order: Vec<usize>,
    pub found: Found,
    pub report: Report,
}

/// S·P = Q₂·R
pub fn strongest_first<T: Scalar>(
    s: &TiledMatrix<T>,
    rcond: f64,
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Strongest<T>, LinalgError> {
    let (order, choice) = choose(s, backend, on)?;
    let (matrix, moved) = arrange(s, Lines::Columns, &order, on)?;
    let reflectors = Reflectors::new(matrix.layout(), options);
    let factor = Factor::new(&matrix, &reflectors, backend)?;
    let factor = factor.run(on)?;
    let (found, search) = leading(&matrix, (Compare::AsTheyAre, rcond), on)?;
    Ok(Strongest {
        matrix,
        reflectors,
        order,
        found,
        report: joined([choice, moved, factor, search]),
    })
}

/// The rank of a matrix of which the triangle is at hand: what is told where least squares find that
/// it is not full.
pub fn rank_of_triangle<T: Scalar>(
    r: &TiledMatrix<T>,
    rcond: f64,
    options: Options,
    backend: Backend,
    on: &dyn Executor,
) -> Result<usize, LinalgError> {
    let strongest = strongest_first(&triangle(r, on)?, rcond, options, backend, on)?;
    Ok(strongest.found.rank)
}
