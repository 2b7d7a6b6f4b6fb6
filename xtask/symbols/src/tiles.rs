//! Tiles and workers: where matrices of the caller's are computed with.

use dataflow_linalg::LinalgError;
use dataflow_linalg::kernel::{Op, Triangle};
use dataflow_linalg::matrix::{Layout, TiledMatrix};
use dataflow_linalg::product::Operand;
use dataflow_linalg::scalar::Scalar;
use dataflow_numa::Workers;
use std::sync::OnceLock;

/// The workers, started once.
pub(crate) fn workers() -> &'static Workers {
    static WORKERS: OnceLock<Workers> = OnceLock::new();
    WORKERS.get_or_init(|| match Workers::builder().n_workers(2).build() {
        Ok(workers) => workers,
        Err(error) => panic!("no workers: {error}"),
    })
}

/// The order of tiles.
pub(crate) fn nb() -> usize {
    static ORDER: OnceLock<usize> = OnceLock::new();
    *ORDER.get_or_init(|| {
        let named = std::env::var("DATAFLOW_SYMBOLS_NB").ok();
        named.and_then(|order| order.parse().ok()).unwrap_or(7)
    })
}

pub(crate) fn general<T: Scalar>(
    rows: usize,
    cols: usize,
    entry: impl Fn(usize, usize) -> T + Sync,
) -> TiledMatrix<T> {
    let layout = Layout::general(rows, cols, nb());
    TiledMatrix::from_fn(layout.unwrap_or_else(|error| panic!("{error}")), entry)
}

/// A matrix of which the caller stores one triangle, as its lower one: of an upper triangle the
/// transpose, of a Hermitian matrix or of a factor the adjoint.
pub(crate) fn lower<T: Scalar>(
    n: usize,
    (stored, turn): (Triangle, Op),
    entry: impl Fn(usize, usize) -> T + Sync,
) -> TiledMatrix<T> {
    let layout = Layout::lower(n, nb());
    let layout = layout.unwrap_or_else(|error| panic!("{error}"));
    TiledMatrix::from_fn(layout, |i, j| mirrored((stored, turn), (i, j), &entry))
}

/// Entry (i, j) of a lower triangle that is stored as it is, or turned.
fn mirrored<T: Scalar>(
    (stored, turn): (Triangle, Op),
    (i, j): (usize, usize),
    entry: &impl Fn(usize, usize) -> T,
) -> T {
    match (stored, turn) {
        (Triangle::Lower, _) => entry(i, j),
        (Triangle::Upper, Op::ConjTranspose) => entry(j, i).conj(),
        (Triangle::Upper, _) => entry(j, i),
    }
}

/// Writes a lower triangle to where the caller stores it.
pub(crate) fn put_lower<T: Scalar>(
    from: &TiledMatrix<T>,
    (stored, turn): (Triangle, Op),
    (to, ld): (&mut [T], usize),
) {
    for (i, j) in (0..from.cols()).flat_map(|j| (j..from.rows()).map(move |i| (i, j))) {
        let x = at(from, i, j);
        match (stored, turn) {
            (Triangle::Lower, _) => to[i + j * ld] = x,
            (Triangle::Upper, Op::ConjTranspose) => to[j + i * ld] = x.conj(),
            (Triangle::Upper, _) => to[j + i * ld] = x,
        }
    }
}

/// Writes the entries for which that is asked.
pub(crate) fn put<T: Scalar>(
    from: &TiledMatrix<T>,
    (to, ld): (&mut [T], usize),
    is_asked: impl Fn(usize, usize) -> bool,
) {
    let all = (0..from.cols()).flat_map(|j| (0..from.rows()).map(move |i| (i, j)));
    for (i, j) in all.filter(|&(i, j)| is_asked(i, j)) {
        to[i + j * ld] = at(from, i, j);
    }
}

fn at<T: Scalar>(matrix: &TiledMatrix<T>, i: usize, j: usize) -> T {
    matrix
        .get(i, j)
        .unwrap_or_else(|| panic!("entry ({i}, {j}) is not there"))
}

pub(crate) fn operand<T: Scalar>(op: Op, matrix: &TiledMatrix<T>) -> Operand<'_, T> {
    match op {
        Op::NoTranspose => Operand::plain(matrix),
        Op::Transpose => Operand::transposed(matrix),
        Op::ConjTranspose => Operand::adjoint(matrix),
    }
}

/// INFO, of what can fail by its data.
pub(crate) fn info_of<R>(result: Result<R, LinalgError>) -> i32 {
    let Err(error) = result else { return 0 };
    match error.index().map(i32::try_from) {
        Some(Ok(index)) => index,
        _ => panic!("{error}"),
    }
}

/// The answer of what cannot.
pub(crate) fn done<R>(result: Result<R, LinalgError>) -> R {
    result.unwrap_or_else(|error| panic!("{error}"))
}
