//! The product of blocks, C ← C + α·op(A)·op(B), on which all kernels rest; and who computes it.
//!
//! # Law
//! The library is a function of the backend and the shape, fixed in the source, and for
//! [`Backend::Auto`] of the machine: the same one in each call of a process.

use ::faer::{MatMut, MatRef};

use super::{Backend, Op};
use crate::scalar::Scalar;

/// Who computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Faer,
    #[cfg(feature = "openblas")]
    OpenBlas,
}

/// C ← C − op(A)·op(B).
pub(super) fn product<T: Scalar>(
    backend: Backend,
    a: (Op, MatRef<'_, T>),
    b: (Op, MatRef<'_, T>),
    c: MatMut<'_, T>,
) {
    product_add(backend, -T::one(), a, b, c);
}

/// C ← C − op(A)·op(B) where an extent is short, as the width of a block of reflectors is.
///
/// faer's unless OpenBLAS was asked for: at widths of 24 to 96 tile QR of order 2000 ran at 86 to 97
/// GFLOP/s on one worker, with OpenBLAS at 47 to 71.
pub(super) fn thin_product<T: Scalar>(
    backend: Backend,
    a: (Op, MatRef<'_, T>),
    b: (Op, MatRef<'_, T>),
    c: MatMut<'_, T>,
) {
    let backend = match backend {
        Backend::Auto => Backend::Faer,
        chosen => chosen,
    };
    product(backend, a, b, c);
}

/// C ← C + α·op(A)·op(B).
pub(super) fn product_add<T: Scalar>(
    backend: Backend,
    alpha: T,
    (op_a, a): (Op, MatRef<'_, T>),
    (op_b, b): (Op, MatRef<'_, T>),
    c: MatMut<'_, T>,
) {
    match library(backend, c.nrows(), c.ncols()) {
        Library::Faer => T::faer_gemm(alpha, op_a, a, op_b, b, c),
        #[cfg(feature = "openblas")]
        Library::OpenBlas => super::openblas::add_product(alpha, op_a, a, op_b, b, c),
    }
}

/// C ← C + α·op(A)·op(A)ᴴ in one call, the lower triangle alone, if the library has a good one; the
/// diagonal of C is real.
#[cfg_attr(
    not(feature = "openblas"),
    expect(unused_variables, reason = "faer has none")
)]
pub(super) fn square<T: Scalar>(
    backend: Backend,
    alpha: f64,
    (op, a): (Op, MatRef<'_, T>),
    c: MatMut<'_, T>,
) -> bool {
    let inner = match op {
        Op::NoTranspose => a.ncols(),
        Op::Transpose | Op::ConjTranspose => a.nrows(),
    };
    match library(backend, c.nrows(), inner) {
        Library::Faer => false,
        #[cfg(feature = "openblas")]
        Library::OpenBlas => {
            super::openblas::add_square(alpha, op, a, c);
            true
        }
    }
}

/// The table: who computes a product with an `m × n` result.
#[cfg(not(feature = "openblas"))]
fn library(_: Backend, _: usize, _: usize) -> Library {
    Library::Faer
}

/// The table: who computes a product with an `m × n` result.
#[cfg(feature = "openblas")]
fn library(backend: Backend, m: usize, n: usize) -> Library {
    match backend {
        Backend::Auto if auto_is_faer() => Library::Faer,
        Backend::Faer => Library::Faer,
        Backend::Auto | Backend::OpenBlas if m.min(n) < SMALLEST_OPENBLAS => Library::Faer,
        Backend::Auto | Backend::OpenBlas => Library::OpenBlas,
    }
}

/// Whether [`Backend::Auto`] takes faer for all.
#[cfg(not(feature = "openblas"))]
pub(super) fn auto_is_faer() -> bool {
    true
}

/// Whether [`Backend::Auto`] takes faer for all.
#[cfg(feature = "openblas")]
pub(super) fn auto_is_faer() -> bool {
    !super::openblas::suits_this_machine()
}

/// Slivers, such as a ragged last sub-tile, are not worth packing: chosen, not swept.
#[cfg(feature = "openblas")]
const SMALLEST_OPENBLAS: usize = 32;
