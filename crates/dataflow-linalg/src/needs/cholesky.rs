//! Cholesky: what a factor, a solution with it and an inverse take.

use super::view::MatrixView;
use super::{BESIDE, Needs, matrix, product_of};
use crate::matrix::Layout;
use crate::scalar::Scalar;

/// [`cholesky::Factor`](crate::cholesky::Factor) of a lower matrix.
pub fn cholesky<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let run = Needs {
        held: 0,
        received: view.sum(|m, k| received(&view, m, k)),
        // A diagonal tile is packed to be sent.
        workspace: view.kernels(workers) + view.sum_here(|m, k| usize::from(m == k)),
    };
    run.beside(matrix::<T>(layout))
}

/// The same with a [lookahead](crate::cholesky::Factor::with_lookahead) of so many columns.
///
/// What is received is for tasks in the order of their priorities and ranks that keep pace: of the panels
/// that the lookahead spans, and of four more. A rank that falls behind the others may get more.
///
/// # Examples
/// ```
/// use dataflow_core::rank::Rank;
/// use dataflow_linalg::matrix::{Distribution, Grid, Layout};
/// use dataflow_linalg::needs;
/// let grid = Distribution::BlockCyclic(Grid::new(2, 2)?);
/// let layout = Layout::lower(4000, 100)?.distributed(grid, Rank(0))?;
/// let all = needs::cholesky::<f64>(&layout, 1);
/// let ahead = needs::cholesky_ahead::<f64>(&layout, 2, 1);
/// assert!(ahead.received < all.received && ahead.held == all.held);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cholesky_ahead<T: Scalar>(layout: &Layout, columns: u32, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let steps = BESIDE.saturating_add(columns as usize);
    Needs {
        received: view.sum_of_steps(steps, &|m, k| received(&view, m, k)),
        ..cholesky::<T>(layout, workers)
    }
}

/// How often tile (m, k) of another rank comes.
fn received(view: &MatrixView, m: usize, k: usize) -> usize {
    usize::from(m >= k && view.reads_column(m, k))
}

/// [`cholesky::solve`](crate::cholesky::solve()): the factor, and the right-hand sides that become the
/// solution.
pub fn cholesky_solve<T: Scalar>([l, b]: [&Layout; 2], workers: usize) -> Needs {
    let (of_l, of_b) = (MatrixView::of::<T>(l), MatrixView::of::<T>(b));
    let any = of_b.meets_cols(0..of_b.nt);
    // A tile of L goes to those who have its row of B, and back up to those who have its column; one on the
    // diagonal once.
    let factor = of_l.sum(|m, k| match m >= k && any {
        true => usize::from(of_b.in_row(m)) + usize::from(m > k && of_b.in_row(k)),
        false => 0,
    });
    // What is solved down and up.
    let solved = of_b.sum(|_, j| 2 * usize::from(of_b.in_col(j)));
    let run = Needs {
        held: 0,
        received: factor + solved,
        workspace: of_b.kernels(workers),
    };
    run.beside(matrix::<T>(l).and(matrix::<T>(b)))
}

/// [`cholesky::Check`](crate::cholesky::Check) of a factor: that, and what is left of A where it is
/// looked at.
pub fn cholesky_check<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let read = |m, k| {
        let along = view.in_row(m) && view.meets_cols(k..m + 1);
        let down = view.in_col(m) && view.meets_rows(m..view.nt);
        usize::from(m >= k && (along || down))
    };
    let rest = match view.is_spread() {
        true => view.sum_here(|m, k| usize::from(m >= k)),
        false => view.begun(workers),
    };
    let run = Needs {
        held: 0,
        received: view.sum(read),
        workspace: rest + view.sums() + view.kernels(workers),
    };
    run.beside(matrix::<T>(layout))
}

/// [`cholesky::Inverse`](crate::cholesky::Inverse) of a lower matrix.
///
/// On one rank it is for tasks in the order of their priorities: of all on one worker, of each queue
/// on several.
pub fn inverse<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let received = view.sum(|m, k| match (m, k) {
        _ if m < k => 0,
        // L for both solves, and its inverse.
        (m, k) if m == k => {
            let solves = view.reads_column(k, k) || view.in_row(k) && view.meets_cols(0..k);
            usize::from(solves) + usize::from(view.in_row(k) && view.meets_cols(0..k))
        }
        // L; then what the columns left of k read, the rows below m, and the last stage.
        _ => {
            let last = view.in_col(k) && view.meets_rows(k..m);
            let last = last || view.in_row(k) && view.meets_cols(0..k);
            [
                view.reads_column(m, k),
                view.in_row(m) && view.meets_cols(0..k),
                view.in_col(k) && view.meets_rows(m + 1..view.nt),
                last,
            ]
            .into_iter()
            .map(usize::from)
            .sum()
        }
    });
    let held = matrix::<T>(layout);
    // A tile that is still read is copied before it is overwritten, up to four times. In the order of
    // priorities it is one of a row and a column of tiles; with queues of their own workers get out of
    // step, by a copy of each tile.
    let row_and_column = 2 * view.nt as u128 * view.largest_tile();
    let tiles = product_of([held.held]);
    let copies = match (view.is_spread(), workers) {
        (true, _) => 4 * tiles,
        (false, 1) => row_and_column.min(4 * tiles),
        (false, _) => (row_and_column + tiles).min(4 * tiles),
    };
    let run = Needs {
        held: 0,
        received,
        workspace: view.kernels(workers) + copies,
    };
    run.beside(held)
}
