//! The product in its variants `base` and `ideal`: [steps](super::steps) of the sum are rounds.

use super::steps::Steps;
use common::cli::settings::Grid;
use common::cli::{Failure, Flags, Measured};
use common::variant::Given;
use dataflow::Runtime;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::TiledMatrix;
use dataflow::linalg::product::{Gemm, Operand, Torus};
use dataflow::linalg::scalar::Scalar;
use std::any::Any;

/// A, B and C ← A·B.
pub type Matrices<'m> = [&'m TiledMatrix<f64>; 3];

/// The matrix, if its numbers are of type f64.
///
/// # Errors
/// If they are not.
pub fn in_f64<T: Scalar>(matrix: &TiledMatrix<T>) -> Result<&TiledMatrix<f64>, Failure> {
    let matrix: &dyn Any = matrix;
    matrix.downcast_ref().ok_or_else(no_variant)
}

/// Of a product of numbers that are not of type f64.
pub fn no_variant() -> Failure {
    Failure::refused("--variant base and ideal are for --precision f64")
}

/// Runs this rank's part of a product in the variant that was asked for.
///
/// # Errors
/// If there is no such product, or the run's own.
pub fn multiply(
    (flags, grid, runtime): (&Flags, Grid, &Runtime),
    is_torus: bool,
    [a, b, c]: Matrices<'_>,
    backend: Backend,
) -> Result<Measured, Failure> {
    let answers = Steps::new([c.rows(), c.cols(), a.cols()], c.nb(), grid)?;
    let (a, b) = (Operand::plain(a), Operand::plain(b));
    if is_torus {
        let space = &Torus::new(1.0, a, b, 0.0, c, backend)?;
        flags.measure_variant(runtime, &Given { space, answers })
    } else {
        let space = &Gemm::new(1.0, a, b, 0.0, c, backend)?;
        flags.measure_variant(runtime, &Given { space, answers })
    }
}
