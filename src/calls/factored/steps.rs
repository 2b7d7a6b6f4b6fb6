//! Steps: what several calls do with factors, on one rank or many.

use crate::collective::Gather;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::rank::Rank;
use dataflow_linalg::determinant::Determinant;
use dataflow_linalg::kernel::Backend;
use dataflow_linalg::matrix::norm::{Norm, norm};
use dataflow_linalg::matrix::{Layout, LayoutError, TiledMatrix};
use dataflow_linalg::product::{Operand, gemm};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{LinalgError, cholesky, lu, qr};

/// The kernels of all calls.
pub(crate) const AUTO: Backend = Backend::Auto;

/// A layout, cut into tiles of the same format and spread over the same grid as a matrix.
pub(crate) fn alike<T: Scalar>(
    a: &TiledMatrix<T>,
    layout: Result<Layout, LayoutError>,
) -> Result<Layout, LinalgError> {
    let spread = layout.and_then(|layout| {
        let layout = layout.with_format(a.format());
        layout.distributed(*a.distribution(), a.layout().rank())
    });
    spread.map_err(|error| LinalgError::Shape(error.to_string()))
}

/// ‖A‖₁
pub(crate) fn one_norm<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<f64, LinalgError> {
    norm(a, Norm::One, on).map_err(LinalgError::Run)
}

/// L ← A⁻¹
pub(crate) fn invert_with_cholesky<T: Scalar>(
    l: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(), LinalgError> {
    let inverse = cholesky::Inverse::of_factor(l, AUTO)?;
    inverse.run(on)?;
    Ok(())
}

/// A ← L\U, whether singular or not
pub(crate) fn factor_by_lu<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<lu::Pivots<T>, LinalgError> {
    let pivots = lu::Pivots::new(a);
    let factor = lu::Factor::new(a, &pivots, AUTO)?;
    a.scan(on)?;
    factor.run(on)?;
    Ok(pivots)
}

/// B ← X of A·X = B, in one graph; A is overwritten.
pub(crate) fn solve_by_lu<T: Scalar>(
    a: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(), LinalgError> {
    lu::factor_and_solve(a, &lu::Pivots::new(a), b, AUTO, on).map(drop)
}

/// A⁻¹, in one graph.
pub(crate) fn invert_by_lu<T: Scalar>(
    a: TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    Ok(lu::inverse(a, AUTO, on)?.0)
}

/// A⁻¹ from factors, which are used up; does not look for zero pivots.
pub(crate) fn invert_with_lu<T: Scalar>(
    lu: TiledMatrix<T>,
    pivots: &lu::Pivots<T>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let (inverse, _) = lu::invert(lu, pivots, AUTO, on)?;
    Ok(inverse)
}

/// A ← R, with reflectors below; and what else Q is made of.
pub(crate) fn factor_by_qr<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<qr::Reflectors<T>, LinalgError> {
    let q = qr::Reflectors::new(a.layout(), options(a));
    let factor = qr::Factor::new(a, &q, AUTO)?;
    factor.run(on)?;
    Ok(q)
}

/// Fails unless what was made from finite numbers is finite.
pub(crate) fn expect_finite<T: Scalar>(
    made: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(), LinalgError> {
    made.scan(on).map(drop).map_err(LinalgError::in_result)
}

/// B ← X, by what overwrites B; neither may be other than finite.
pub(crate) fn solve_finite<T: Scalar>(
    b: &TiledMatrix<T>,
    on: &dyn Executor,
    solve: impl FnOnce() -> Result<Report, LinalgError>,
) -> Result<(), LinalgError> {
    b.scan(on).map_err(LinalgError::in_right_hand_sides)?;
    solve()?;
    expect_finite(b, on)
}

/// Q and R; of A reflectors are left.
pub(crate) fn qr<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, TiledMatrix<T>), LinalgError> {
    a.scan(on)?;
    let q = factor_by_qr(a, on)?;
    let r = triangle(a, on)?;
    Ok((form_q((a, &q), on)?, r))
}

/// The first min(m, n) columns of Q, if they are finite.
pub(crate) fn form_q<T: Scalar>(
    (a, q): (&TiledMatrix<T>, &qr::Reflectors<T>),
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let k = a.rows().min(a.cols());
    let q = qr::form(a, q, k, AUTO, on)?;
    expect_finite(&q, on)?;
    Ok(q)
}

/// The X that makes ‖B − A·X‖ least, of several the shortest; both are overwritten.
pub(crate) fn least_squares<T: Scalar>(
    (a, b): (&TiledMatrix<T>, &TiledMatrix<T>),
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let (x, _) = qr::least_squares(a, b, options(a), AUTO, on)?;
    Ok(x)
}

/// The shortest of the X that make ‖B − A·X‖ least, and the rank of A; both are overwritten.
pub(crate) fn least_squares_minimum_norm<T: Scalar>(
    (a, b): (&TiledMatrix<T>, &TiledMatrix<T>),
    rcond: Option<f64>,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, usize), LinalgError> {
    let solved = qr::least_squares_minimum_norm(a, b, rcond, options(a), AUTO, on);
    solved.map(|(x, rank, _)| (x, rank))
}

/// The rank of A, which is overwritten.
pub(crate) fn rank<T: Scalar>(
    a: &TiledMatrix<T>,
    rcond: Option<f64>,
    on: &dyn Executor,
) -> Result<usize, LinalgError> {
    Ok(qr::pivoted(a, rcond, options(a), AUTO, on)?.rank())
}

/// A⁺; A is overwritten.
pub(crate) fn pseudo_inverse<T: Scalar>(
    a: &TiledMatrix<T>,
    rcond: Option<f64>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let (x, ..) = qr::pseudo_inverse(a, rcond, options(a), AUTO, on)?;
    Ok(x)
}

/// C ← A·B
pub(crate) fn multiply<T: Scalar>(
    (a, b): (&TiledMatrix<T>, &TiledMatrix<T>),
    c: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(), LinalgError> {
    let (a, b) = (Operand::plain(a), Operand::plain(b));
    gemm(T::one(), a, b, T::zero(), c, AUTO, on)?;
    Ok(())
}

/// R with its zeros, if it is finite.
pub(crate) fn triangle<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let r = qr::triangle(a, on)?;
    expect_finite(&r, on)?;
    Ok(r)
}

/// The determinant of the triangle of a factored matrix, on every rank.
pub(crate) fn determinant<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<Determinant, LinalgError> {
    let (mut own, here) = (Vec::new(), on.courier().rank());
    let steps = a.mt().min(a.nt());
    for k in (0..steps).filter(|&k| a.rank_of(k, k) == here) {
        let tile = a.tile_at(k, k)?;
        own.extend((0..tile.rows().min(tile.cols())).map(|d| tile.get(d, d)));
    }
    let parts = (0..steps).map(|k| (a.rank_of(k, k), a.tile_rows(k).min(a.tile_cols(k))));
    Determinant::of_factor(&gathered(own, parts, on)?)
}

/// The determinant of a matrix factored by QR, on every rank.
pub(crate) fn determinant_by_qr<T: Scalar>(
    (r, q): (&TiledMatrix<T>, &qr::Reflectors<T>),
    on: &dyn Executor,
) -> Result<Determinant, LinalgError> {
    let of_r = determinant(r, on)?;
    let (ranks, own): (Vec<Rank>, Vec<Option<T>>) = q.phases().unzip();
    let own = own.into_iter().flatten().collect();
    let parts = ranks.into_iter().map(|rank| (rank, 1));
    Ok(of_r.turned(gathered(own, parts, on)?))
}

/// Whether the rows were swapped an odd number of times, on every rank.
pub(crate) fn is_odd<T: Scalar>(
    pivots: &lu::Pivots<T>,
    on: &dyn Executor,
) -> Result<bool, LinalgError> {
    let own = pivots.rows().filter(|(row, pivot)| row != pivot).count() % 2;
    let ranks = (0..on.courier().n_ranks()).map(|rank| (Rank(rank as u32), 1));
    let all = gathered(vec![T::from_real(own as f64)], ranks, on)?;
    Ok(all.into_iter().filter(|odd| *odd != T::zero()).count() % 2 == 1)
}

/// Numbers of which each rank has some, on every rank; `parts` says whose come next, and how many.
fn gathered<T: Scalar>(
    own: Vec<T>,
    parts: impl Iterator<Item = (Rank, usize)>,
    on: &dyn Executor,
) -> Result<Vec<T>, LinalgError> {
    if on.courier().n_ranks() == 1 {
        return Ok(own);
    }
    let words = own.into_iter().flat_map(|x| [x.re(), x.im()]);
    let bytes = words.flat_map(f64::to_le_bytes).collect();
    let gather = Gather::new(bytes, on.courier().n_ranks()).called("gather numbers");
    let all = gather.run(on).map_err(LinalgError::Run)?;
    let mut numbers: Vec<_> = all.iter().map(|bytes| numbers(bytes)).collect();
    let mut gathered = Vec::new();
    for (Rank(rank), count) in parts {
        let next = numbers[rank as usize].by_ref().take(count);
        gathered.extend(next.map(|(re, im)| T::from_parts(re, im)));
    }
    Ok(gathered)
}

/// The real and imaginary parts that a rank gave.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let mut words = bytes.chunks_exact(8).map(|word| {
        let word = word.try_into();
        f64::from_le_bytes(word.unwrap_or_else(|_| unreachable!("chunks of 8 bytes")))
    });
    std::iter::from_fn(move || Some((words.next()?, words.next()?)))
}

/// How a matrix is factored by QR.
pub(crate) fn options<T: Scalar>(a: &TiledMatrix<T>) -> qr::Options {
    // A tile that is not full needs no larger inner blocks than it has columns.
    qr::Options::of_order(a.nb().min(a.rows().max(a.cols())))
}
