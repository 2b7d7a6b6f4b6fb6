//! Needs: the memory that a run takes on one rank, told before anything is allocated.
//!
//! # Law
//! [`Needs::held`] is exact: a rank that has no room for it cannot run. The rest is from above: what
//! other ranks send counts as if all of it were there at once, except what one holds only in the
//! place of something else.
//!
//! A function of layouts, scalars and options; costs a look at each tile of the matrix.
//!
//! # Elsewhere
//! What is free: [`available`]. Each routine's formula: here, under its name.

mod available;

pub use available::available;

use crate::matrix::{Distribution, Grid, Layout, Tile};
use crate::qr::{Elimination, Options};
use crate::scalar::Scalar;
use std::fmt;
use std::ops::Range;

/// Bytes that one rank needs for a run.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::Layout;
/// use dataflow_linalg::needs;
/// let needs = needs::cholesky::<f64>(&Layout::lower(1000, 100)?, 2);
/// assert!(needs.held > 55 * 100 * 100 * 8 && needs.received == 0);
/// assert!(needs.expect_room(1 << 20).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Tiles that lie here before the run or after it.
    pub held: u128,
    /// What other ranks send, at most.
    pub received: u128,
    /// What tasks make and do not leave behind, and what kernels work in, at most.
    pub workspace: u128,
}

impl Needs {
    /// All of it.
    pub fn at_most(&self) -> u128 {
        self.held
            .saturating_add(self.received)
            .saturating_add(self.workspace)
    }

    /// Both, one after the other or at once, beside each other.
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            held: self.held.saturating_add(other.held),
            received: self.received.saturating_add(other.received),
            workspace: self.workspace.saturating_add(other.workspace),
        }
    }

    /// Whether a run is possible with so many bytes.
    ///
    /// # Errors
    /// If not even what is held fits.
    pub fn expect_room(&self, available: u64) -> Result<(), DoesNotFit> {
        match self.held > available.into() {
            true => Err(DoesNotFit {
                needs: *self,
                available,
            }),
            false => Ok(()),
        }
    }
}

/// A run that cannot fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoesNotFit {
    /// What it needs.
    pub needs: Needs,
    /// Bytes that there are.
    pub available: u64,
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the matrices take {} bytes on this rank and do not fit (available: {} bytes)",
            self.needs.held, self.available
        )
    }
}

impl std::error::Error for DoesNotFit {}

/// Tiles of a matrix alone.
pub fn matrix<T: Scalar>(layout: &Layout) -> Needs {
    let tiles = layout.n_slots() as u128 * size_of::<Tile<T>>() as u128;
    let elements = layout.n_elements().saturating_mul(size_of::<T>() as u128);
    Needs {
        held: elements.saturating_add(tiles),
        ..Needs::default()
    }
}

/// [`cholesky::Factor`](crate::cholesky::Factor) of a lower matrix.
pub fn cholesky<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = View::of::<T>(layout);
    let received = view.sum(|m, k| usize::from(m >= k && view.reads_column(m, k)));
    matrix::<T>(layout).and(Needs {
        held: 0,
        received,
        // A diagonal tile is packed to be sent.
        workspace: view.kernels(workers) + view.sum_here(|m, k| usize::from(m == k)),
    })
}

/// [`cholesky::Inverse`](crate::cholesky::Inverse) of a lower matrix.
pub fn inverse<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = View::of::<T>(layout);
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
    held.and(Needs {
        held: 0,
        received,
        // A tile that is still read is copied before it is overwritten, up to three times.
        workspace: view.kernels(workers) + 3 * held.held,
    })
}

/// [`lu::Factor`](crate::lu::Factor): partial pivoting of a matrix of any shape.
///
/// The stacks of rows of all panels count, though few are there at once: what is told to work in is
/// several times the matrix.
pub fn lu<T: Scalar>(layout: &Layout, workers: usize) -> Needs {
    let view = View::of::<T>(layout);
    let (mt, nt) = (view.mt, view.nt);
    let element = size_of::<T>() as u128;
    let words = size_of::<u32>() as u128;
    let (mut received, mut made) = (0, 0);
    for k in 0..mt.min(nt) {
        let width = layout.tile_cols(k) as u128;
        let rows = (layout.rows() - layout.row_range(k).start) as u128;
        let own: u128 = (k..mt)
            .filter(|&m| view.in_row(m))
            .map(|m| layout.tile_rows(m) as u128)
            .sum();
        // Stacks of rows come and go; the panel is one stack of all. The swaps, and their order.
        let stacks = own * width * element;
        let panel = rows * width * element;
        received += words * (2 + 4 * width + rows) + 2 * element;
        made += words * rows + element;
        if view.in_col(k) {
            received += stacks;
            made += 2 * stacks;
        }
        if view.in_row(k) && view.in_col(k) {
            received += panel;
            made += 2 * panel + words * (2 + 4 * width) + element;
        }
        for n in (k + 1..nt).filter(|&n| view.in_col(n)) {
            // Rows that rise and rows that fall, each with its number.
            let moving = width * (layout.tile_cols(n) as u128 + 1) * element;
            received += moving;
            made += 2 * moving;
        }
        if view.in_col(k) {
            // Columns left of later panels are reordered by stacks, once.
            received += stacks;
            made += stacks;
        }
    }
    let tiles = view.sum(|m, n| {
        let left = m >= n && view.in_row(m) && view.meets_cols(n + 1..nt);
        let upper = m < n && view.in_col(n) && view.meets_rows(m + 1..mt);
        usize::from(left || upper)
    });
    let held = matrix::<T>(layout);
    // L of diagonal tiles stands beside them; a tile that is being sent is copied before its rows
    // move.
    let copies = match layout.distribution().n_ranks() {
        1 => view.sum_here(|m, n| usize::from(m == n)),
        _ => view.sum_here(|m, n| usize::from(m >= n) + usize::from(m == n)),
    };
    held.and(Needs {
        held: 0,
        received: received.saturating_mul(u128::from(layout.distribution().n_ranks() > 1)) + tiles,
        workspace: view.kernels(workers) + made + copies,
    })
}

/// [`qr::Factor`](crate::qr::Factor): the matrix, its reflectors, and what they are made with.
pub fn qr<T: Scalar>(layout: &Layout, options: Options, workers: usize) -> Needs {
    let view = View::of::<T>(layout);
    let (mt, nt) = (view.mt, view.nt);
    let panels = mt.min(nt);
    let elimination = Elimination::of_tree(options.tree, mt as u32, panels as u32);
    let element = size_of::<T>() as u128;
    let (mut held, mut received, mut triangles) = (0, 0, 0);
    for (m, k) in (0..panels).flat_map(|k| (k..mt).map(move |m| (m, k))) {
        let (rows, cols) = (layout.tile_rows(m) as u128, layout.tile_cols(k) as u128);
        let t = options.ib.max(1) as u128 * cols * element;
        let is_triangle = elimination.is_triangle(k as u32, m as u32);
        let of_t = t * (u128::from(is_triangle) + u128::from(m > k));
        let made = match is_triangle {
            true => rows * rows.min(cols) * element + of_t,
            false => of_t,
        };
        if view.in_row(m) && view.in_col(k) {
            held += made + 3 * size_of::<Tile<T>>() as u128;
            triangles += of_t;
        } else if view.in_row(m) && view.meets_cols(k + 1..nt) {
            received += made + if m > k { view.bytes(m, k) } else { 0 };
        }
    }
    // Tiles of other rows pass through, each in one place at a time, and on its way.
    let guests = view.sum(|_, n| 2 * usize::from(view.in_col(n)));
    let packed = view.sum_here(|m, k| usize::from(m >= k));
    matrix::<T>(layout).and(Needs {
        held,
        received: received + guests,
        workspace: view.kernels(workers)
            + match layout.distribution().n_ranks() {
                1 => 0,
                _ => packed + triangles,
            },
    })
}

/// [`product::Gemm`](crate::product::Gemm): C ← A·B of matrices as they are stored.
pub fn gemm<T: Scalar>([a, b, c]: [&Layout; 3], workers: usize) -> Needs {
    let of = [a, b, c].map(matrix::<T>).into_iter();
    let held = of.fold(Needs::default(), Needs::and);
    let (of_a, of_b, of_c) = (View::of::<T>(a), View::of::<T>(b), View::of::<T>(c));
    let received =
        of_a.sum(|m, _| usize::from(of_c.in_row(m))) + of_b.sum(|_, n| usize::from(of_c.in_col(n)));
    held.and(Needs {
        held: 0,
        received,
        workspace: of_c.kernels(workers),
    })
}

/// A matrix as one rank sees it.
struct View {
    layout: Layout,
    grid: Grid,
    place: (usize, usize),
    element: u128,
    mt: usize,
    nt: usize,
}

impl View {
    fn of<T: Scalar>(layout: &Layout) -> Self {
        let Distribution::BlockCyclic(grid) = *layout.distribution();
        View {
            layout: *layout,
            grid,
            place: grid.place(layout.rank()).unwrap_or_default(),
            element: size_of::<T>() as u128,
            mt: layout.mt(),
            nt: layout.nt(),
        }
    }

    /// Whether the rank has a part in row `m` of tiles.
    fn in_row(&self, m: usize) -> bool {
        m % self.grid.p() == self.place.0
    }

    fn in_col(&self, n: usize) -> bool {
        n % self.grid.q() == self.place.1
    }

    /// Whether it has a part in one of these rows.
    fn meets_rows(&self, rows: Range<usize>) -> bool {
        let ahead = self.place.0 + self.grid.p() - rows.start % self.grid.p();
        rows.start + ahead % self.grid.p() < rows.end
    }

    fn meets_cols(&self, cols: Range<usize>) -> bool {
        let ahead = self.place.1 + self.grid.q() - cols.start % self.grid.q();
        cols.start + ahead % self.grid.q() < cols.end
    }

    /// Whether an update of Cholesky reads tile (m, k) here: along its row, and down column m.
    fn reads_column(&self, m: usize, k: usize) -> bool {
        let first = if m == k { m + 1 } else { m };
        let below = self.in_col(m) && self.meets_rows(first..self.nt);
        below || m > k && self.in_row(m) && self.meets_cols(k + 1..m + 1)
    }

    /// Bytes of tile (m, n).
    fn bytes(&self, m: usize, n: usize) -> u128 {
        let (rows, cols) = (self.layout.tile_rows(m), self.layout.tile_cols(n));
        rows as u128 * cols as u128 * self.element
    }

    /// Bytes of the tiles of other ranks, each so many times.
    fn sum(&self, times: impl Fn(usize, usize) -> usize) -> u128 {
        self.add(|m, n| match self.in_row(m) && self.in_col(n) {
            true => 0,
            false => times(m, n),
        })
    }

    /// Bytes of the tiles of this rank.
    fn sum_here(&self, times: impl Fn(usize, usize) -> usize) -> u128 {
        self.add(|m, n| match self.in_row(m) && self.in_col(n) {
            true => times(m, n),
            false => 0,
        })
    }

    fn add(&self, times: impl Fn(usize, usize) -> usize) -> u128 {
        let tiles = (0..self.nt).flat_map(|n| (0..self.mt).map(move |m| (m, n)));
        tiles
            .map(|(m, n)| times(m, n) as u128 * self.bytes(m, n))
            .sum()
    }

    /// What kernels work in: four tiles for each worker.
    fn kernels(&self, workers: usize) -> u128 {
        let nb = self
            .layout
            .nb()
            .min(self.layout.rows().max(self.layout.cols())) as u128;
        4 * workers as u128 * nb * nb * self.element
    }
}
