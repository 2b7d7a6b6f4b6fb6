//! LU: what its four ways to choose pivots, its solutions and its inverse take.

use super::view::MatrixView;
use super::{BESIDE, Needs, matrix, product_of};
use crate::kernel::Op;
use crate::lu::{INNER_BLOCK, first_entrant, suits_columns};
use crate::matrix::{Layout, Tile};
use crate::scalar::Scalar;
use std::num::NonZeroU32;

/// Bytes of the number of a row.
const WORD: u128 = size_of::<u32>() as u128;

/// [`lu::Factor`](crate::lu::Factor): partial pivoting of a matrix of any shape.
///
/// On one rank with several columns of tiles for each worker it takes a copy of the matrix, up to 128 MiB.
/// On one rank columns left of the panels are reordered by as many workers as there are, two at a
/// time each: so it is where tasks run in the order of their priorities.
pub fn lu<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    if suits_columns::<T>(layout, workers) {
        return by_whole_columns::<T>(layout, workers);
    }
    by_columns::<T>(layout, workers, 0, |view, k| {
        let (own, rows) = (view.rows_here(k), layout.rows() - layout.row_range(k).start);
        let width = layout.tile_cols(k) as u128;
        let (stacks, panel) = (product_of([own, width]), product_of([rows as u128, width]));
        // Stacks of rows come and go; the panel is one stack of all.
        match view.in_row(k) {
            _ if !view.is_spread() => [0, stacks],
            true => [stacks + panel, 2 * stacks + 2 * panel],
            false => [stacks, 2 * stacks],
        }
    })
}

/// Columns that lie whole beside their tiles; of each panel L of its diagonal tile, the swaps and the order
/// of the rows that they come to.
fn by_whole_columns<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let of_panel = |k: usize| {
        let rows = (layout.rows() - layout.row_range(k).start) as u128;
        swaps::<T>(layout.tile_cols(k) as u128) + WORD * rows + view.element
    };
    let panels = (0..view.mt.min(view.nt)).map(of_panel);
    let run = Needs {
        held: 0,
        received: 0,
        workspace: view.kernels(workers)
            + view.sum_here(|m, n| 1 + usize::from(m == n))
            + panels.sum::<u128>(),
    };
    run.beside(matrix::<T>(layout))
}

/// [`lu::Check`](crate::lu::Check) of factors: they, and what is left of P·A where it is looked at.
pub fn lu_check<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let steps = view.mt.min(view.nt);
    let read = |m: usize, n: usize| {
        let along = m >= n && view.in_row(m) && view.meets_cols(n..view.nt);
        let down = m <= n && view.in_col(n) && view.meets_rows(m..view.mt);
        usize::from(along || down)
    };
    // The rows of A, then those that moved; at last what is left.
    let rest = match view.is_spread() {
        true => view.sum_here(|_, _| 2),
        // The rows of a column, and those of one that another worker has begun.
        false => view.columns(2) + view.begun(workers),
    };
    let orders = 2 * steps as u128 * WORD * layout.rows() as u128;
    let run = Needs {
        held: 0,
        received: view.sum(read)
            + u128::from(view.is_spread()) * (view.sum_here(|_, _| 1) + orders),
        workspace: rest + orders + view.sums() + view.kernels(workers),
    };
    run.beside(matrix::<T>(layout))
}

/// The same by [tournament](crate::lu::Factor::by_tournament), in so many groups.
pub fn lu_tournament<T: Scalar>(layout: &Layout, groups: NonZeroU32, workers: usize) -> Needs {
    let groups = groups.get() as usize;
    let panel = |view: &MatrixView, k: usize| Tournament { view, groups, k }.panel();
    let view = MatrixView::of::<T>(layout);
    let steps = (0..view.mt.min(view.nt)).filter(|&k| view.in_col(k));
    let largest = steps.map(|k| {
        let view = &view;
        Tournament { view, groups, k }.largest_stack()
    });
    let stacks = product_of([workers as u128, largest.max().unwrap_or(0)]);
    by_columns::<T>(layout, workers, stacks, panel)
}

/// The tournament of a panel.
struct Tournament<'v> {
    view: &'v MatrixView,
    groups: usize,
    /// The panel.
    k: usize,
}

impl Tournament<'_> {
    /// How many groups have a tile.
    fn entrants(&self) -> usize {
        self.groups.min(self.view.mt - self.k)
    }

    /// The rows of the tiles of a group.
    fn group(&self, entrant: usize) -> impl Iterator<Item = usize> {
        (self.k + entrant..self.view.mt).step_by(self.groups)
    }

    /// The groups that play on this rank, if it is in the panel's column.
    fn here(&self) -> impl Iterator<Item = usize> {
        (0..self.entrants()).filter(|entrant| self.view.in_row(self.k + entrant))
    }

    /// Bytes of the largest stack on which a group plays here, of all its rows.
    fn largest_stack(&self) -> u128 {
        let bytes = |entrant| -> u128 {
            let tiles = self.group(entrant);
            tiles.map(|m| self.view.bytes(m, self.k)).sum()
        };
        self.here().map(bytes).max().unwrap_or(0)
    }

    /// Elements that a rank in the panel's column gets and makes.
    fn panel(&self) -> [u128; 2] {
        let &Tournament { view, k, .. } = self;
        let width = view.layout.tile_cols(k) as u128;
        let [received, made] = self.matches(width);
        // For each row of ranks the winners' factors, and the rows that fall there.
        let (factors, fallen) = (product_of([width, width]), winners(width));
        let beside = width + 1;
        match view.in_row(k) {
            true => {
                let for_rows = view.grid.p() as u128 * (factors + beside);
                [received, made + for_rows + fallen]
            }
            false => [received + factors + fallen + beside, made],
        }
    }

    /// The same of the matches alone.
    fn matches(&self, width: u128) -> [u128; 2] {
        let &Tournament { view, k, .. } = self;
        let elements = |m: usize| product_of([view.layout.tile_rows(m) as u128, width]);
        // The tiles of a group that it gathers from other rows of ranks.
        let gathered = self.here().flat_map(|entrant| self.group(entrant));
        let elsewhere = gathered.filter(|&m| !view.in_row(m));
        let (mut received, mut made) = (elsewhere.map(elements).sum::<u128>(), 0);
        // The winners at each node of the tree.
        let most = self.entrants() as u32;
        let is_here = |v: u32| view.in_row(k + first_entrant(v, most) as usize);
        for v in most.min(2)..2 * most {
            match is_here(v) {
                true => made += winners(width),
                false if v > 1 && is_here(v / 2) => received += winners(width),
                false => {}
            }
        }
        [received, made]
    }
}

/// Elements of the winning rows of a panel, with their numbers.
fn winners(width: u128) -> u128 {
    product_of([width + 1, width])
}

/// What swaps of whole rows take; `panel` tells how many elements a rank in a panel's column gets
/// and makes for it, beside bytes that workers need as long as there are panels.
fn by_columns<T: Scalar>(
    layout: &Layout,
    workers: usize,
    beside: u128,
    panel: impl Fn(&MatrixView, usize) -> [u128; 2],
) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let panels = Panels::of::<T>(&view, workers, panel);
    let run = Needs {
        held: 0,
        received: panels.received() + received_tiles(&view),
        workspace: view.kernels(workers) + panels.made(beside) + copies(&view),
    };
    run.beside(matrix::<T>(layout))
}

/// What the panels of a matrix take, and the columns whose rows they swap: elements where nothing
/// else is said.
struct Panels<'v> {
    view: &'v MatrixView,
    /// The most that one panel gets, and makes.
    of_panel: [u128; 2],
    /// The most that moves at once in each column.
    of_column: Vec<u128>,
    /// What stands in the stacks by which columns left of panels are reordered.
    stacks: u128,
    /// Bytes of swaps and orders that come from the panels, and that are made.
    orders: [u128; 2],
}

impl<'v> Panels<'v> {
    fn of<T: Scalar>(
        view: &'v MatrixView,
        workers: usize,
        panel: impl Fn(&MatrixView, usize) -> [u128; 2],
    ) -> Self {
        let layout = &view.layout;
        let mut of_panel = [0; 2];
        let mut of_column = vec![0; view.nt];
        let mut stacks = Vec::new();
        let mut orders = [0; 2];
        for k in 0..view.mt.min(view.nt) {
            let width = layout.tile_cols(k) as u128;
            let rows = (layout.rows() - layout.row_range(k).start) as u128;
            // The swaps, and the order of rows that they come to.
            let (swaps, order) = (swaps::<T>(width), WORD * rows + view.element);
            orders[0] += swaps + order;
            orders[1] += order + u128::from(view.is_here(k, k)) * swaps;
            if view.in_col(k) {
                let [gets, makes] = panel(view, k);
                of_panel = [of_panel[0].max(gets), of_panel[1].max(makes)];
                // Columns left of later panels are reordered by stacks, once.
                stacks.push(product_of([view.rows_here(k), width]));
            }
            for n in (k + 1..view.nt).filter(|&n| view.in_col(n)) {
                // Rows that rise and rows that fall, each with its number.
                let moving = product_of([width, layout.tile_cols(n) as u128 + 1]);
                of_column[n] = moving.max(of_column[n]);
            }
        }
        let at_once = match view.is_spread() {
            true => stacks.len(),
            // The first ones are the highest.
            false => workers.saturating_mul(2),
        };
        Panels {
            view,
            of_panel,
            of_column,
            stacks: stacks.iter().take(at_once).sum(),
            orders,
        }
    }

    /// How many are there at once. A panel is done with before the next is gathered, and a column with
    /// its rows that move before they move again; over ranks one may be a step behind another.
    fn at_once(&self) -> u128 {
        if self.view.is_spread() { 2 } else { 1 }
    }

    /// What moves at once in the columns from this one on.
    fn moving(&self, first: usize) -> u128 {
        self.of_column.iter().skip(first).sum()
    }

    /// Bytes that come from other ranks.
    fn received(&self) -> u128 {
        if !self.view.is_spread() {
            return 0;
        }
        let elements = self.at_once() * (self.of_panel[0] + self.moving(0)) + self.stacks;
        self.orders[0] + elements * self.view.element
    }

    /// Bytes that are made here.
    fn made(&self, beside: u128) -> u128 {
        let element = self.view.element;
        let panels = self.at_once() * (self.of_panel[1] + 2 * self.moving(0)) * element + beside;
        if self.view.is_spread() {
            return self.orders[1] + panels + self.stacks * element;
        }
        // Columns of panels are reordered after the last panel, when only those behind them may move.
        let behind = 2 * self.moving(self.view.mt);
        self.orders[1] + panels.max((self.stacks + behind) * element)
    }
}

/// Bytes of tiles that come from other ranks: left ones along their row, upper ones down their column.
fn received_tiles(view: &MatrixView) -> u128 {
    view.sum(|m, n| {
        let left = m >= n && view.in_row(m) && view.meets_cols(n + 1..view.nt);
        let upper = m < n && view.in_col(n) && view.meets_rows(m + 1..view.mt);
        usize::from(left || upper)
    })
}

/// Bytes of copies: L of diagonal tiles stands beside them; a tile that is being sent is copied before
/// its rows move.
fn copies(view: &MatrixView) -> u128 {
    let of_left = usize::from(view.is_spread());
    view.sum_here(|m, n| of_left * usize::from(m >= n) + usize::from(m == n))
}

/// Bytes of the row swaps of a panel, and of what they come to.
fn swaps<T: Scalar>(width: u128) -> u128 {
    WORD * (2 + 4 * width) + size_of::<T>() as u128
}

/// [`lu::Unpivoted`](crate::lu::Unpivoted): as it stands.
pub fn lu_unpivoted<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let received = view.sum(|m, n| received_unpivoted(&view, m, n));
    let diagonal = (0..view.mt.min(view.nt)).filter(|&k| view.is_here(k, k));
    let swaps = diagonal.map(|k| swaps::<T>(layout.tile_cols(k) as u128));
    let run = Needs {
        held: 0,
        received,
        // Of a diagonal tile each triangle goes its own way.
        workspace: view.kernels(workers)
            + view.sum_here(|m, n| 2 * usize::from(m == n))
            + swaps.sum::<u128>(),
    };
    run.beside(matrix::<T>(layout))
}

/// The same with a [lookahead](crate::lu::Unpivoted::with_lookahead) of so many columns.
///
/// What is received is for tasks in the order of their priorities and ranks that keep pace, as with
/// [`cholesky_ahead`](super::cholesky_ahead).
pub fn lu_unpivoted_ahead<T: Scalar>(layout: &Layout, columns: u32, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let steps = BESIDE.saturating_add(columns as usize);
    Needs {
        received: view.sum_of_steps(steps, &|m, n| received_unpivoted(&view, m, n)),
        ..lu_unpivoted::<T>(layout, workers)
    }
}

/// How often tile (m, n) of another rank comes: along its row, and down its column.
fn received_unpivoted(view: &MatrixView, m: usize, n: usize) -> usize {
    let along = m >= n && view.in_row(m) && view.meets_cols(n + 1..view.nt);
    let down = m <= n && view.in_col(n) && view.meets_rows(m + 1..view.mt);
    usize::from(along) + usize::from(down)
}

/// [`lu::Incremental`](crate::lu::Incremental): the matrix, and for each tile on and below the
/// diagonal what was exchanged.
pub fn lu_incremental<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    // What is left on and below the diagonal goes along its row.
    let received = received_exchanges(&view, |m, k| {
        view.in_row(m) && view.meets_cols(k + 1..view.nt)
    });
    // A tile on or above it goes down its column, from rank to rank, and back.
    let down = view.is_spread_down();
    let passing = view.add(&|m, n| usize::from(down && m <= n && view.in_col(n)));
    let run = Needs {
        held: 0,
        received: received + passing,
        // L and U of a diagonal tile stand beside it.
        workspace: view.kernels(workers) + 2 * view.sum_here(|m, n| usize::from(m == n)),
    };
    run.beside(matrix::<T>(layout).and(exchanges::<T>(&view)))
}

/// [`lu::Replay`](crate::lu::Replay): those, and the right-hand sides that become the solution.
pub fn lu_replay<T: Scalar>([lu, b]: [&Layout; 2], workers: usize) -> Needs {
    let (view, of_b) = (MatrixView::of::<T>(lu), MatrixView::of::<T>(b));
    let any = of_b.meets_cols(0..of_b.nt);
    let upper = view.sum(|m, n| usize::from(m < n && any && view.in_row(m)));
    let lower = received_exchanges(&view, |m, _| any && view.in_row(m));
    // Each tile goes down its column, then what is solved goes up.
    let down = of_b.is_spread_down();
    let passing = of_b.add(&|_, j| 2 * usize::from(down && of_b.in_col(j)));
    let run = Needs {
        held: 0,
        received: upper + lower + passing,
        workspace: of_b.kernels(workers),
    };
    let held = matrix::<T>(lu).and(exchanges::<T>(&view));
    run.beside(held.and(matrix::<T>(b)))
}

/// What [`Exchanges`](crate::lu::Exchanges) hold here.
fn exchanges<T: Scalar>(view: &MatrixView) -> Needs {
    let here = on_and_below(view).filter(|&(m, k)| view.is_here(m, k));
    let tile = size_of::<Tile<T>>() as u128;
    Needs {
        held: here.map(|(m, k)| exchange(view, m, k) + tile).sum(),
        ..Needs::default()
    }
}

/// Bytes of the tiles on and below the diagonal that come from other ranks if they are read here,
/// each with what was exchanged.
fn received_exchanges(view: &MatrixView, reads: impl Fn(usize, usize) -> bool) -> u128 {
    let there = on_and_below(view).filter(|&(m, k)| !view.is_here(m, k) && reads(m, k));
    there
        .map(|(m, k)| view.bytes(m, k) + exchange(view, m, k))
        .sum()
}

fn on_and_below(view: &MatrixView) -> impl Iterator<Item = (usize, usize)> + use<> {
    let mt = view.mt;
    (0..mt.min(view.nt)).flat_map(move |k| (k..mt).map(move |m| (m, k)))
}

/// Bytes of the row swaps within a diagonal tile, or of the steps by which a tile below vanished.
fn exchange(view: &MatrixView, m: usize, k: usize) -> u128 {
    let (rows, cols) = (view.layout.tile_rows(m), view.layout.tile_cols(k));
    match m == k {
        true => (WORD * rows.min(cols) as u128).next_multiple_of(view.element),
        false => (INNER_BLOCK.min(cols) as u128 + 1) * cols as u128 * view.element,
    }
}

/// [`lu::Solve`](crate::lu::Solve): the factors, and the right-hand sides that become the solution.
///
/// On one rank as many columns move as there are workers, two at a time each: so it is where tasks run in
/// the order of their priorities.
pub fn lu_solve<T: Scalar>([lu, b]: [&Layout; 2], op: Op, workers: usize) -> Needs {
    let (of_lu, of_b) = (MatrixView::of::<T>(lu), MatrixView::of::<T>(b));
    let any = of_b.meets_cols(0..of_b.nt);
    let factors = of_lu.sum(|m, n| {
        let row = if op == Op::NoTranspose { m } else { n };
        usize::from(any && of_b.in_row(row))
    });
    // What is solved down and up.
    let solved = of_b.sum(|_, j| 2 * usize::from(of_b.in_col(j)));
    // Rows that move, and the order of all; that of each step is made from that of the next.
    let all = of_b.sum_here(|_, _| 1);
    let moving = match of_lu.is_spread() {
        true => all,
        false => all.min(of_b.columns(2 * workers as u128)),
    };
    let orders = 2 * (WORD * lu.rows() as u128 + of_lu.element);
    let swaps = swaps::<T>(lu.nb().min(lu.cols()) as u128);
    let run = Needs {
        held: 0,
        received: match of_lu.is_spread() {
            true => factors + solved + moving + orders + swaps,
            false => 0,
        },
        workspace: of_b.kernels(workers) + moving + orders,
    };
    run.beside(matrix::<T>(lu).and(matrix::<T>(b)))
}

/// [`lu::inverse`](crate::lu::inverse()): the factors and A⁻ᴴ, which A⁻¹ takes the place of the factors
/// from.
///
/// On one rank it is for tasks in the order of their priorities.
pub fn lu_inverse<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = MatrixView::of::<T>(layout);
    let solved = lu_solve::<T>([layout; 2], Op::ConjTranspose, workers);
    // A factor that is overwritten before all have read it is copied. On one rank that is what the other
    // workers read: a column is overwritten when it is solved, and those behind are at their last tile.
    let copies = match view.is_spread() {
        true => view.sum_here(|_, _| 1),
        false => view.begun(workers),
    };
    let turned = Needs {
        held: 0,
        received: view.sum(|m, n| usize::from(view.is_here(n, m))),
        workspace: copies,
    };
    let factored = lu::<T>(layout, workers);
    let inverted = solved.overlapping(turned);
    match suits_columns::<T>(layout, workers) {
        // Columns go back to their tiles before these are read.
        true => factored.then(inverted),
        false => factored.overlapping(inverted),
    }
}
