//! Least squares: the X that makes ‖B − A·X‖ least, and of several the shortest.
//!
//! # Law
//! A tall A is factored, and R·X = Qᴴ·B solved. Of a wide one the adjoint is: Aᴴ = Q·R makes
//! A = Rᴴ·Qᴴ, the LQ factorisation, and X = Q·R⁻ᴴ·B. A must have full rank, as for LAPACK's `gels`.

use super::adjoint::Adjoint;
use super::apply::Apply;
use super::factor::Factor;
use super::reflectors::{Options, Reflectors, alike};
use super::solve::Triangular;
use crate::error::LinalgError;
use crate::kernel::{Backend, Op, Side};
use crate::matrix::TiledMatrix;
use crate::scalar::Scalar;
use crate::succession::{Where, joined};
use dataflow_core::Report;

/// The least-squares solution of A·X = B for m ≥ n, the shortest solution for m < n; and what all
/// graphs cost together.
///
/// - `a`: m × n; overwritten by its factors if m ≥ n
/// - `b`: m × nrhs, in tiles of the order of `a` and spread like it; overwritten, for m > n its
///   rows from n on by the rest that no X removes
///
/// 2·n²·(m − n/3) flops and 4·m·n for each column; for m < n with both exchanged, and a second
/// matrix.
///
/// # Errors
/// The first entry of A or B that is not finite; shapes that do not fit;
/// [`LinalgError::Singular`] with the first zero on the diagonal of R.
///
/// # Examples
/// ```
/// use dataflow_core::{monitor::Monitor, port::{Alone, Inline}};
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::qr::{Options, Where, least_squares};
/// // The line nearest to (0, 1), (1, 2), (2, 6)
/// let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| [1.0, i as f64][j]);
/// let b = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |i, _| [1.0, 2.0, 6.0][i]);
/// let here = Where { on: &Inline, courier: &Alone, monitor: &Monitor::new() };
/// let (x, _) = least_squares(&a, &b, Options::of_order(2), Backend::Auto, here)?;
/// assert!((x.get(0, 0).unwrap() - 0.5).abs() < 1e-14);
/// assert!((x.get(1, 0).unwrap() - 2.5).abs() < 1e-14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn least_squares<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    options: Options,
    backend: Backend,
    at: Where<'_>,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    if (b.rows(), b.nb()) != (a.rows(), a.nb()) {
        let text = format!(
            "right-hand sides of {} x {} in tiles of {} do not fit a matrix of {} x {} in tiles of {}",
            b.rows(),
            b.cols(),
            b.nb(),
            a.rows(),
            a.cols(),
            a.nb()
        );
        return Err(LinalgError::Shape(text));
    }
    let looks = [a.scan(at.on, at.courier)?, b.scan(at.on, at.courier)?];
    let solution = alike(b.layout(), (a.cols(), b.cols()))?;
    let x = TiledMatrix::vacant(solution, b.memory().clone());
    let fill = x.fill(&|_, _| T::zero(), at.on).map_err(LinalgError::Run)?;
    let reports = match a.rows() >= a.cols() {
        true => tall(a, b, &x, options, backend, at)?,
        false => wide(a, b, &x, options, backend, at)?,
    };
    let all = looks.into_iter().chain([fill]).chain(reports);
    Ok((x, joined(all)))
}

/// R·X = Qᴴ·B
fn tall<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    x: &TiledMatrix<T>,
    options: Options,
    backend: Backend,
    at: Where<'_>,
) -> Result<Vec<Report>, LinalgError> {
    let Where {
        on,
        courier,
        monitor,
    } = at;
    let q = Reflectors::new(a.layout(), options);
    let factor = Factor::new(a, &q, backend)?.run_across(on, courier, monitor)?;
    let turn = Apply::new(a, &q, (Side::Left, Op::ConjTranspose), b, backend)?;
    let turn = turn.run_across(on, courier, monitor)?;
    let solve = Triangular::new(a, Op::NoTranspose, b, x, backend)?;
    let look = solve.expect_regular(on, courier)?;
    let solve = solve.run_across(on, courier, monitor)?;
    Ok(vec![factor, turn, look, solve])
}

/// Aᴴ = Q·R, Rᴴ·Y = B, X = Q·Y
fn wide<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    x: &TiledMatrix<T>,
    options: Options,
    backend: Backend,
    at: Where<'_>,
) -> Result<Vec<Report>, LinalgError> {
    let Where {
        on,
        courier,
        monitor,
    } = at;
    let adjoint = Adjoint::new(a)?;
    let make = T::run_adjoint(&adjoint, (on, courier, monitor));
    let make = make.map_err(LinalgError::Run)?;
    let adjoint = adjoint.into_matrix();
    let q = Reflectors::new(adjoint.layout(), options);
    let factor = Factor::new(&adjoint, &q, backend)?.run_across(on, courier, monitor)?;
    let solve = Triangular::new(&adjoint, Op::ConjTranspose, b, x, backend)?;
    let look = solve.expect_regular(on, courier)?;
    let solve = solve.run_across(on, courier, monitor)?;
    let turn = Apply::new(&adjoint, &q, (Side::Left, Op::NoTranspose), x, backend)?;
    let turn = turn.run_across(on, courier, monitor)?;
    Ok(vec![make, factor, look, solve, turn])
}
