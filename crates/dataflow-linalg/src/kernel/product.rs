//! The product of blocks, C ← C + α·op(A)·op(B), on which all kernels rest; and who computes it.
//!
//! # Law
//! The library is a function of the backend and the shape, fixed in the source; [`Backend::Auto`] is
//! the same one in every build and on every machine.

use ::faer::{ColRef, MatMut, MatRef};

use super::larfg::contiguous;
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

/// C ← C − op(A)·B. A single column is made in one pass over A, with other bits than beside further ones; so not
/// for what others cut into columns.
pub(super) fn product_from_left<T: Scalar>(
    backend: Backend,
    (op, a): (Op, MatRef<'_, T>),
    b: MatRef<'_, T>,
    mut c: MatMut<'_, T>,
) {
    let is_one = c.ncols() == 1 && c.row_stride() == 1 && is_by_rows(backend);
    let column = b.col_iter().next().and_then(ColRef::try_as_col_major);
    if let Some(b) = column.filter(|_| is_one).map(ColRef::as_slice) {
        let c = contiguous(&mut c, 0);
        if T::subtract_product((op, a), b, c) {
            return;
        }
    }
    product(backend, (op, a), (Op::NoTranspose, b), c);
}

/// Whether a row of a product has the same bits with whichever other rows it is computed, unless it is
/// alone: so faer's.
pub(super) fn is_by_rows(backend: Backend) -> bool {
    matches!(backend, Backend::Auto | Backend::Faer)
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
///
/// Auto is faer: up to a tenth slower than OpenBLAS where both use vectors of one width, and twice as
/// fast where OpenBLAS is older than the processor (`benches/README.md`).
#[cfg(feature = "openblas")]
fn library(backend: Backend, m: usize, n: usize) -> Library {
    match backend {
        Backend::Auto | Backend::Faer => Library::Faer,
        Backend::OpenBlas if m.min(n) < SMALLEST_OPENBLAS => Library::Faer,
        Backend::OpenBlas => Library::OpenBlas,
    }
}

/// Slivers, such as a ragged last sub-tile, are not worth packing: chosen, not swept.
#[cfg(feature = "openblas")]
const SMALLEST_OPENBLAS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits tell nothing of it where two libraries happen to have the same: on processors whose vectors both
    /// use to the full, products of OpenBLAS and faer can agree in all of them.
    #[test]
    fn only_who_asks_for_another_library_gets_one() {
        let lengths = [1, 31, 32, 96, 1000, 100_000];
        for (m, n) in lengths.into_iter().flat_map(|m| lengths.map(|n| (m, n))) {
            for backend in [Backend::default(), Backend::Auto, Backend::Faer] {
                assert_eq!(library(backend, m, n), Library::Faer, "{backend} {m} {n}");
            }
            #[cfg(feature = "openblas")]
            assert_eq!(
                library(Backend::OpenBlas, m, n) == Library::OpenBlas,
                m.min(n) >= 32,
                "{m} {n}"
            );
        }
    }
}
