//! QR with column pivoting: what the choice of columns, the factors and shortest solutions take.

use super::view::MatrixView;
use super::{Needs, least_squares, matrix, product_of, qr, qr_apply};
use crate::error::LinalgError;
use crate::kernel::Side;
use crate::matrix::Layout;
use crate::qr::{Options, alike};
use crate::scalar::Scalar;

/// [`qr::least_squares_minimum_norm`](crate::qr::least_squares_minimum_norm) of A·X = B, whatever the
/// rank: A, B and X, the factors of A and, with the columns in their order, of its triangle, and of
/// the adjoint of what is left of that.
///
/// # Errors
/// If the tiles of X or of a triangle are too many to be counted.
pub fn least_squares_minimum_norm<T: Scalar>(
    [a, b]: [&Layout; 2],
    options: Options,
    workers: usize,
) -> Result<Needs, LinalgError> {
    let (m, n, nrhs) = (a.rows(), a.cols(), b.cols());
    let k = m.min(n);
    let (s, c, x) = (
        alike(a, (k, n))?,
        alike(b, (k, nrhs))?,
        alike(b, (n, nrhs))?,
    );
    let outer = match m > n {
        true => {
            let turned = qr_apply::<T>((a, options), Side::Left, b, workers);
            let factored = qr::<T>(a, options, workers);
            factored.then(turned.beside(factored))
        }
        false => matrix::<T>(a),
    };
    let kept = outer.and(matrix::<T>(b)).and(matrix::<T>(&x));
    // Of a tall matrix the triangle as it was, while columns are chosen and moved and it is factored.
    let before = match m > n {
        true => matrix::<T>(&s),
        false => Needs::default(),
    };
    let factored = qr::<T>(&s, options, workers);
    let turned = qr_apply::<T>((&s, options), Side::Left, &c, workers);
    let inner = choice::<T>(&s, workers).then(factored).and(before);
    let inner = inner.then(vectors::<T>(&s).beside(factored)).then(turned);
    // Less than full rank, or wide: beside the factors R, what is left of it, and its adjoint.
    let left = alike(a, (k.min(n.saturating_sub(1)), n))?;
    let of_left = alike(b, (left.rows(), nrhs))?;
    let factors = Needs::default().beside(factored);
    let shortest = least_squares::<T>([&left, &of_left], options, workers)?;
    let shortest = shortest.and(matrix::<T>(&s));
    // Rows go back to their places, from one matrix to another.
    let of_x = MatrixView::of::<T>(&x);
    let moved = Needs {
        received: of_x.sum(|_, j| usize::from(of_x.in_col(j))),
        ..matrix::<T>(&x)
    };
    let shortest = shortest.then(moved).and(factors).and(matrix::<T>(&c));
    // The larger of each, the matrices that are gone at the end among them.
    let (inner, shortest) = (passing(inner), passing(shortest));
    Ok(kept.and(inner.then(shortest)))
}

/// What is made on the way and gone at the end.
fn passing(needs: Needs) -> Needs {
    Needs {
        held: 0,
        received: needs.received,
        workspace: needs.held.saturating_add(needs.workspace),
    }
}

/// What the search for the rank takes: vectors as long as the columns so far, and parts of products
/// with them, of two steps at once.
fn vectors<T: Scalar>(s: &Layout) -> Needs {
    let view = MatrixView::of::<T>(s);
    let (length, nb) = (s.rows() as u128 + 8, s.nb().min(s.cols()) as u128);
    let bytes = product_of([2, 2 * length + 3 * nb * view.mt as u128, view.element]);
    Needs {
        held: 0,
        received: u128::from(view.is_spread()) * bytes,
        workspace: bytes,
    }
}

/// What the choice of columns takes beside its matrix: strips, with the tiles they are gathered of,
/// the sets that play, and reflectors on their way; then the tiles that columns are moved from.
fn choice<T: Scalar>(s: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(s);
    let ranks = s.distribution().n_ranks();
    let own = (0..view.nt).filter(|j| j % ranks == s.rank().0 as usize);
    let (mut strips, mut width) = (0, 0);
    for j in own {
        strips += s.tile_cols(j) as u128;
        width = width.max(s.tile_cols(j) as u128);
    }
    let height = s.rows() as u128 + 1;
    let nb = s.nb().min(s.rows().max(s.cols())) as u128;
    let column = height * view.element;
    let moved = view.sum(|i, _| usize::from(view.in_row(i)));
    let sets = product_of([4, nb, column]);
    let both = product_of([2, strips, column]);
    Needs {
        held: 0,
        received: match view.is_spread() {
            true => both.max(moved) + sets,
            false => 0,
        },
        // Strips, and the sets that they put forward; a turn copies its strip, a match has both of its
        // sets beside a triangle and V.
        workspace: both
            + sets
            + product_of([workers as u128, 3 * width.max(nb) + 8 * nb, column])
            + view.kernels(workers),
    }
}
