//! QR: what factors, Q and solutions of least squares take.

use super::view::MatrixView;
use super::{Needs, gemm, matrix, product_of};
use crate::error::LinalgError;
use crate::kernel::Side;
use crate::matrix::{Layout, Tile};
use crate::qr::{Elimination, Levels, Options, Tree, alike};
use crate::scalar::Scalar;

/// [`qr::Factor`](crate::qr::Factor): the matrix, its reflectors, what they are made with, and how urgent
/// each task is, which nobody keeps along the flat tree or with a lookahead.
pub fn qr<T: Scalar>(layout: &Layout, options: Options, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let (held, received) = reflectors::<T>(&view, options, |m, k| {
        view.in_row(m) && view.meets_cols(k + 1..view.nt)
    });
    // Tiles of other rows pass through, each in one place at a time, and on its way.
    let guests = view.sum(|_, n| 2 * usize::from(view.in_col(n)));
    let levels = match options.tree {
        Tree::Flat => 0,
        _ => Levels::bytes((view.mt, view.nt)),
    };
    matrix::<T>(layout).and(Needs {
        held: held + levels,
        received: received + guests,
        workspace: view.kernels(workers) + packed(&view, options),
    })
}

/// [`qr::Apply`](crate::qr::Apply): the factors of `a`, and the `c` that Q is applied to.
pub fn qr_apply<T: Scalar>(
    (a, options): (&Layout, Options),
    side: Side,
    c: &Layout,
    workers: usize,
) -> Needs {
    let (view, of_c) = (MatrixView::of::<T>(a), MatrixView::of::<T>(c));
    let in_line = |m| match side {
        Side::Left => of_c.in_row(m) && of_c.meets_cols(0..of_c.nt),
        Side::Right => of_c.in_col(m) && of_c.meets_rows(0..of_c.mt),
    };
    let (_, received) = reflectors::<T>(&view, options, |m, _| in_line(m));
    let guests = of_c.sum(|m, n| match side {
        Side::Left => 2 * usize::from(of_c.in_col(n)),
        Side::Right => 2 * usize::from(of_c.in_row(m)),
    });
    let run = Needs {
        held: 0,
        received: received + guests,
        workspace: of_c.kernels(workers) + packed(&view, options),
    };
    run.beside(qr::<T>(a, options, workers).and(matrix::<T>(c)))
}

/// Bytes of the reflectors: of this rank, and of those of others that are read here, with the tiles
/// that belong to them.
fn reflectors<T: Scalar>(
    view: &MatrixView,
    options: Options,
    reads: impl Fn(usize, usize) -> bool,
) -> (u128, u128) {
    let panels = view.mt.min(view.nt);
    let elimination = Elimination::of_tree(options.tree, view.mt as u32, panels as u32);
    let (mut held, mut received) = (0, 0);
    for (m, k) in (0..panels).flat_map(|k| (k..view.mt).map(move |m| (m, k))) {
        let rows = view.layout.tile_rows(m) as u128;
        let cols = view.layout.tile_cols(k) as u128;
        let is_triangle = elimination.is_triangle(k as u32, m as u32);
        let of_v = u128::from(is_triangle) * product_of([rows, rows.min(cols), view.element]);
        let made = of_v + of_t(view, options, is_triangle, (m, k));
        if view.is_here(m, k) {
            held += made + 3 * size_of::<Tile<T>>() as u128;
        } else if reads(m, k) {
            received += made + if m > k { view.bytes(m, k) } else { 0 };
        }
    }
    (held, received)
}

/// Bytes of the T of tile (m, k): as a triangle, and as a row that vanishes under another.
fn of_t(view: &MatrixView, options: Options, is_triangle: bool, (m, k): (usize, usize)) -> u128 {
    let (ib, cols) = (options.inner_block(&view.layout), view.layout.tile_cols(k));
    let t = product_of([ib as u128, cols as u128, view.element]);
    t * (u128::from(is_triangle) + u128::from(m > k))
}

/// What is packed to be sent: V, T and R travel as the parts that they are.
fn packed(view: &MatrixView, options: Options) -> u128 {
    if !view.is_spread() {
        return 0;
    }
    let panels = view.mt.min(view.nt);
    let here = (0..panels).flat_map(|k| (k..view.mt).map(move |m| (m, k)));
    let triangles = here
        .filter(|&(m, k)| view.is_here(m, k))
        .map(|at| of_t(view, options, true, at));
    view.sum_here(|m, k| usize::from(m >= k)) + triangles.sum::<u128>()
}

/// [`qr::least_squares`](crate::qr::least_squares) of A·X = B: both, X and the factors; of a wide
/// matrix those of its adjoint, beside it.
///
/// # Errors
/// If the tiles of X or of the adjoint are too many to be counted.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::Layout;
/// use dataflow_linalg::{needs, qr::Options};
/// let held = |m, n| -> Result<u128, Box<dyn std::error::Error>> {
///     let [a, b] = [Layout::general(m, n, 50)?, Layout::general(m, 1, 50)?];
///     Ok(needs::least_squares::<f64>([&a, &b], Options::of_order(50), 1)?.held)
/// };
/// assert!(held(200, 400)? > held(400, 200)?, "beside a wide matrix lies its adjoint");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn least_squares<T: Scalar>(
    [a, b]: [&Layout; 2],
    options: Options,
    workers: usize,
) -> Result<Needs, LinalgError> {
    let (m, n) = (a.rows(), a.cols());
    let x = alike(b, (n, b.cols()))?;
    let sides = matrix::<T>(b).and(matrix::<T>(&x));
    if m >= n {
        let factored = qr::<T>(a, options, workers);
        let turned = qr_apply::<T>((a, options), Side::Left, b, workers);
        let turned = turned.beside(factored);
        let solved = solve::<T>(a, &x, false, workers);
        let all = factored.overlapping(turned).overlapping(solved);
        return Ok(all.and(sides));
    }
    let adjoint = alike(a, (n, m))?;
    let (of_a, of_adjoint) = (MatrixView::of::<T>(a), MatrixView::of::<T>(&adjoint));
    let made = Needs {
        held: 0,
        received: of_a.sum(|i, j| usize::from(of_adjoint.is_here(j, i))),
        workspace: 0,
    };
    let factored = qr::<T>(&adjoint, options, workers);
    let turned = qr_apply::<T>((&adjoint, options), Side::Left, &x, workers);
    let turned = turned.beside(factored);
    let solved = solve::<T>(&adjoint, &x, true, workers);
    let all = made.overlapping(factored).overlapping(solved);
    let all = all.overlapping(turned);
    Ok(all.and(matrix::<T>(a)).and(sides))
}

/// What a solution with R takes, or with Rᴴ, beside its matrices.
fn solve<T: Scalar>(a: &Layout, x: &Layout, is_adjoint: bool, workers: usize) -> Needs {
    let (of_a, of_x) = (MatrixView::of::<T>(a), MatrixView::of::<T>(x));
    let any = of_x.meets_cols(0..of_x.nt);
    let factor = of_a.sum(|m, k| {
        let row = if is_adjoint { k } else { m };
        usize::from(m <= k && any && of_x.in_row(row))
    });
    Needs {
        held: 0,
        received: factor + of_x.sum(|_, j| usize::from(of_x.in_col(j))),
        workspace: of_x.kernels(workers),
    }
}

/// [`qr::check`](fn@crate::qr::check) of factors: they, Q, R, and what is left of A and of I.
///
/// # Errors
/// If the tiles of Q are too many to be counted.
pub fn qr_check<T: Scalar>(
    a: &Layout,
    options: Options,
    workers: usize,
) -> Result<Needs, LinalgError> {
    let (m, n) = (a.rows(), a.cols());
    let k = m.min(n);
    let (q, r, unit) = (alike(a, (m, k))?, alike(a, (k, n))?, alike(a, (k, k))?);
    let all = [a, &q, &r, &unit].map(matrix::<T>).into_iter();
    let held = qr::<T>(a, options, workers).and(all.fold(Needs::default(), Needs::and));
    let formed = qr_apply::<T>((a, options), Side::Left, &q, workers);
    let left = gemm::<T>([&q, &r, a], workers);
    // Qᴴ·Q reads Q by its columns, and by its rows.
    let (of_q, of_unit) = (MatrixView::of::<T>(&q), MatrixView::of::<T>(&unit));
    let turned = of_q.sum(|_, j| usize::from(of_unit.in_row(j) || of_unit.in_col(j)));
    let turned = Needs {
        held: 0,
        received: turned,
        workspace: of_unit.kernels(workers),
    };
    Ok(formed.then(left).then(turned).beside(held))
}

/// [`qr::solution_ratio`](crate::qr::solution_ratio): A, B and X, and of a matrix that is not wide
/// what is left of the normal equations.
///
/// # Errors
/// If the tiles of X are too many to be counted.
pub fn solution_ratio<T: Scalar>(
    [a, b]: [&Layout; 2],
    workers: usize,
) -> Result<Needs, LinalgError> {
    let x = alike(b, (a.cols(), b.cols()))?;
    let left = gemm::<T>([a, &x, b], workers);
    if a.rows() < a.cols() {
        return Ok(left);
    }
    let (of_a, of_b, of_x) = (
        MatrixView::of::<T>(a),
        MatrixView::of::<T>(b),
        MatrixView::of::<T>(&x),
    );
    let turned = of_a.sum(|_, j| usize::from(of_x.in_row(j)));
    let turned = Needs {
        held: 0,
        received: turned + of_b.sum(|_, j| usize::from(of_x.in_col(j))),
        workspace: of_x.kernels(workers),
    };
    Ok(left.then(turned).and(matrix::<T>(&x)))
}
