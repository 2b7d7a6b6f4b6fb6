//! The check: is L the factor of A?
//!
//! # Law
//! For each tile A[m,n] on or below the diagonal, and k = 0 … n: subtract L[m,k]·L[n,k]ᴴ. The
//! tiles' sums of moduli are added on rank 0 in the order of the layout's slots. So the bits of the
//! residual do not depend on grid, threads or schedule.
//!
//! A tile of L travels once to the ranks of its row and of its column. On one rank nothing travels,
//! and few tiles of A are there at once.
//!
//! # Source
//! The ratio of LAPACK's TESTING/LIN DPOT01: Anderson et al., *LAPACK Users' Guide*, SIAM 1999.

use crate::error::LinalgError;
use crate::matrix::check::{
    BlockView, Form, Rounding, backward_error, drop_imaginary_diagonal, subtract,
};
use crate::matrix::norm::Extent;
use crate::matrix::rest::{self, SumsView};
use crate::matrix::tiled::{column_major, gather};
use crate::matrix::{Entries, Layout, Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::{Executor, Inline};
use dataflow_core::prelude::*;
use dataflow_core::space::placed;

/// ‖A − L Lᴴ‖₁ / (n ‖A‖₁ ε) of a Cholesky factor, on the calling thread; 0 for n = 0.
///
/// - `original`: A, of which the lower triangle is read
/// - `l`: the factor, a lower matrix with all tiles on this rank; its strict upper part is not read
///
/// n³/3 flops, and a copy of the lower triangle of A.
///
/// # Errors
/// If `l` is not stored as [`Structure::Lower`], or a tile of it is not at hand.
///
/// # Examples
/// ```
/// use dataflow_linalg::{cholesky::residual, matrix::{Layout, TiledMatrix}};
/// let a = |i: usize, j: usize| [[4.0, 2.0], [2.0, 10.0]][i][j];
/// let l = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[2.0, 0.0], [1.0, 3.0]][i][j]);
/// assert_eq!(residual(&a, &l)?, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn residual<T: Scalar>(
    original: &impl Entries<T>,
    l: &TiledMatrix<T>,
) -> Result<f64, LinalgError> {
    let check = Check::new(original, l)?;
    check.run(&Inline)?;
    Ok(check.residual().unwrap_or(f64::NAN))
}

/// Fails unless a factor is stored as one.
pub(super) fn expect_lower<T: Scalar>(l: &TiledMatrix<T>) -> Result<(), LinalgError> {
    if l.structure() == Structure::Lower {
        return Ok(());
    }
    Err(LinalgError::Shape(format!(
        "a Cholesky factor is stored as Lower, this one{} is {:?}, {} x {}",
        l.label(),
        l.structure(),
        l.rows(),
        l.cols()
    )))
}

task_names! {
    /// The tasks of the check: indices of tiles, k the step.
    pub enum CheckTask { Give { m, k }, Begin { m, n }, Subtract { m, n, k }, Add { m, n } }
}
use CheckTask::{Add, Begin, Give, Subtract};
use dataflow_core::task_names;

/// Give: the tile of L. Begin and Subtract: what is left of A's. Add: the sums so far.
const PIECE: usize = 0;
/// Subtract: the tile of L in the row of the tile.
const LEFT: usize = 1;
/// Subtract: the tile of L in the row of the tile's column.
const RIGHT: usize = 2;
/// Add: the sums of a tile.
const PART: usize = 1;

/// The task space of the check.
///
/// # Examples
/// See [`residual`].
pub struct Check<'a, T: Scalar> {
    original: &'a dyn Entries<T>,
    pub(super) l: &'a TiledMatrix<T>,
    nt: u32,
    /// Of all tiles, on whatever rank: sums are added in the order of its slots.
    all: Layout,
    total: Store<Tile<T>>,
}

impl<T: Scalar> std::fmt::Debug for Check<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check")
            .field("l", &self.l)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Scalar> Check<'a, T> {
    /// The check of `l` against `original`, of which each rank reads the tiles that it has of `l`.
    ///
    /// # Errors
    /// If `l` is not stored as [`Structure::Lower`].
    pub fn new(original: &'a dyn Entries<T>, l: &'a TiledMatrix<T>) -> Result<Self, LinalgError> {
        expect_lower(l)?;
        let n = l.rows();
        // The sums are added on one rank.
        let zeros = || rest::zero_sums((n, n), l.memory());
        let total = (l.layout().rank() == Rank(0)).then(zeros);
        Ok(Check {
            original,
            l,
            nt: l.nt() as u32,
            all: l.layout().alone(),
            total: Store::new("total", total),
        })
    }

    /// Checks what the factor is by now, with all ranks; as often as it changes.
    ///
    /// # Errors
    /// If a tile of the factor is not at hand; and what [`run_across`](dataflow_core::run_across)
    /// answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, dataflow_core::Error> {
        rest::keep_on_rank_0(&self.total, on);
        T::run_check(self, self.l, on)
    }

    /// ‖A − L Lᴴ‖₁ / (n ‖A‖₁ ε) by the last run, once the space has run; on other ranks than 0 `None`.
    pub fn residual(&self) -> Option<f64> {
        let total = self.total.get(0)?;
        let n = self.l.rows();
        let sums = SumsView::both(&total, (n, n));
        let [norm, difference] = sums.map(|sums| sums.largest_column());
        let rounding = Rounding::of::<T>();
        Some(backward_error(difference, (n, n), [norm, 1.0], rounding))
    }

    /// Whether all tiles are on this rank: then giving one costs nothing.
    fn is_alone(&self) -> bool {
        self.all == *self.l.layout()
    }

    /// A[m,n], and its sums.
    fn begin(&self, m: usize, n: usize) -> Tile<T> {
        let shape = (self.all.tile_rows(m), self.all.tile_cols(n));
        let mut elements = Vec::new();
        gather(&self.all, m, n, self.original, &mut elements);
        if m == n {
            drop_imaginary_diagonal(&mut elements, shape.0);
        }
        let extent = Extent::of(Structure::Lower, m, n);
        rest::begun(&elements, shape, extent, self.l.memory())
    }
}

/// The tasks of all ranks.
fn all_tasks(nt: u32) -> impl Iterator<Item = CheckTask> + Send {
    let columns = (0..nt).flat_map(move |n| (n..nt).map(move |m| (m, n)));
    columns.flat_map(|(m, n)| {
        let own = [Give { m, k: n }, Begin { m, n }, Add { m, n }];
        let subtract = (0..=n).map(move |k| Subtract { m, n, k });
        own.into_iter().chain(subtract)
    })
}

impl<T: Scalar> TaskSpace for Check<'_, T> {
    type Task = CheckTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("cholesky check");
        self.l.layout().describe(about);
        about.class("Give").read("PIECE");
        about.class("Begin").new_flow("PIECE");
        let subtract = about.class("Subtract").update("PIECE");
        subtract.read("LEFT").read("RIGHT");
        about.class("Add").update("PIECE").read("PART");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = CheckTask> + Send {
        placed(self, on, all_tasks(self.nt))
    }

    fn inputs(&self, task: CheckTask, from: &mut impl Inputs<Self>) {
        match task {
            Begin { .. } => {}
            Give { m, k } => from.home(PIECE, self.l.store(), self.l.place(m, k)),
            Subtract { m, n, k } => {
                match k.checked_sub(1) {
                    None => from.task(PIECE, Begin { m, n }, PIECE),
                    Some(k) => from.task(PIECE, Subtract { m, n, k }, PIECE),
                }
                from.task(LEFT, Give { m, k }, PIECE);
                from.task(RIGHT, Give { m: n, k }, PIECE);
            }
            Add { m, n } => {
                match self.all.neighbours(m, n)[0] {
                    None => from.home(PIECE, &self.total, 0),
                    Some((m, n)) => from.task(PIECE, Add { m, n }, PIECE),
                }
                from.task(PART, Subtract { m, n, k: n }, PIECE);
            }
        }
    }

    fn successors(&self, task: CheckTask, to: &mut impl Successors<Self>) {
        match task {
            Begin { m, n } => to.task(PIECE, Subtract { m, n, k: 0 }, PIECE),
            Give { m, k } => {
                to.range(PIECE, k..m + 1, |n| Subtract { m, n, k }, LEFT);
                to.range(PIECE, m..self.nt, |i| Subtract { m: i, n: m, k }, RIGHT);
            }
            Subtract { m, n, k } if k == n => to.task(PIECE, Add { m, n }, PART),
            Subtract { m, n, k } => to.task(PIECE, Subtract { m, n, k: k + 1 }, PIECE),
            Add { m, n } => match self.all.neighbours(m, n)[1] {
                None => to.home(PIECE, &self.total, 0),
                Some((m, n)) => to.task(PIECE, Add { m, n }, PIECE),
            },
        }
    }

    fn run(&self, task: CheckTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            Give { .. } => {}
            Begin { m, n } => {
                let [piece] = flows.slots();
                piece.put(self.begin(m as usize, n as usize));
            }
            Subtract { m, n, k } => {
                let [piece, left, right] = flows.slots();
                let (piece, left, right) = (piece.update(), left.read(), right.read());
                // A[m,n] ← A[m,n] − L[m,k] · L[n,k]ᴴ
                let (rows, cols, width) = (left.rows(), right.rows(), left.cols());
                let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
                let left = BlockView(
                    entries(left, m == k, &mut of_left),
                    rows,
                    width,
                    Form::Plain,
                );
                let right = entries(right, n == k, &mut of_right);
                let right = BlockView(right, cols, width, Form::Adjoint);
                let rest = rest::elements_mut(piece, (rows, cols));
                subtract(rest, (rows, cols), left, right);
                if k == n {
                    let extent = Extent::of(Structure::Lower, m as usize, n as usize);
                    *piece = rest::ended(piece, (rows, cols), extent, self.l.memory());
                }
            }
            Add { m, n } => {
                let is_first = self.all.neighbours(m, n)[0].is_none();
                let (m, n) = (m as usize, n as usize);
                let extent = Extent::of(Structure::Lower, m, n);
                rest::sum_up(flows, is_first, &self.all, (m, n), extent);
            }
        }
        Ok(())
    }

    fn rank(&self, task: CheckTask) -> Rank {
        let (m, n) = match task {
            Give { m, k } => (m, k),
            Begin { m, n } | Subtract { m, n, .. } => (m, n),
            Add { .. } => return Rank(0),
        };
        self.l.rank_of(m as usize, n as usize)
    }

    /// Step by step; what is finished is added, and gone, first. On one rank, where no tile of L has
    /// to be held for long, column by column: then few copies of tiles are there at once.
    fn priority(&self, task: CheckTask) -> i64 {
        match task {
            Add { .. } => 1,
            // On one rank column by column: a tile that is begun waits for nothing, and few are there
            // at once.
            Begin { n, .. } if self.is_alone() => -i64::from(n),
            Begin { .. } => 0,
            Give { k, .. } if self.is_alone() => 1 - i64::from(k),
            Give { k, .. } | Subtract { k, .. } => -i64::from(k),
        }
    }
}

/// The elements of a tile of L, column-major without gaps; what lies above the diagonal is zero.
fn entries<'a, T: Scalar>(tile: &'a Tile<T>, diagonal: bool, buffer: &'a mut Vec<T>) -> &'a [T] {
    if !diagonal {
        return column_major(tile, buffer);
    }
    *buffer = column_major(tile, &mut Vec::new()).to_vec();
    for (col, column) in buffer.chunks_exact_mut(tile.rows().max(1)).enumerate() {
        column[..col].fill(T::zero());
    }
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate::{PositiveDefinite, Random};
    use crate::matrix::{Distribution, Format, Grid};
    use crate::scalar::{c32, c64};
    use dataflow_core::port::{Heap, Shuffled};
    use std::sync::Arc;

    /// A factor with garbage above the diagonal, and the matrix L Lᴴ rounded.
    fn factor<T: Scalar>(i: usize, j: usize) -> T {
        let entry: T = Random::new(3).entry(i, j);
        match i == j {
            true => T::from_real(2.0 + entry.re()),
            false => entry,
        }
    }

    fn product<T: Scalar>(i: usize, j: usize) -> T {
        (0..=i.min(j)).fold(T::zero(), |sum, k| {
            sum + factor::<T>(i, k) * factor::<T>(j, k).conj()
        })
    }

    fn tiled<T: Scalar>(n: usize, nb: usize) -> TiledMatrix<T> {
        let format = Format::SubTiled { order: 3 };
        let layout = Layout::lower(n, nb).unwrap().with_format(format);
        let mut l = TiledMatrix::from_fn(layout, |i, j| factor(i, j));
        if nb > 1 && n > 1 {
            l.store_mut()
                .update(0, |tile| tile.set(0, 1, T::from_real(1e30)))
                .unwrap();
        }
        l
    }

    #[test]
    fn a_right_factor_has_a_residual_of_rounding_errors() {
        fn check<T: Scalar>() {
            for (n, nb) in [(0, 1), (1, 1), (7, 3), (20, 20), (23, 4), (5, 1)] {
                let residual = residual(&|i: usize, j: usize| product::<T>(i, j), &tiled(n, nb));
                let residual = residual.unwrap();
                assert!(
                    residual < 3.0,
                    "{} n = {n}, nb = {nb}: {residual}",
                    T::PRECISION
                );
                assert!(n > 0 || residual == 0.0);
            }
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }

    #[test]
    fn the_residual_is_the_one_of_the_definition() {
        let n = 11;
        let a = PositiveDefinite::new(n, 1);
        let l = tiled::<c64>(n, 4);
        let entry = |i: usize, j: usize| Entries::<c64>::entry(&a, i, j);
        let one_norm = |of: &dyn Fn(usize, usize) -> c64| {
            let column = |j| (0..n).map(|i| of(i, j).norm()).sum::<f64>();
            (0..n).map(column).fold(0.0, f64::max)
        };
        let difference = one_norm(&|i, j| entry(i, j) - product::<c64>(i, j));
        let expected = difference / (n as f64 * one_norm(&entry) * c64::EPSILON);
        let found = residual(&a, &l).unwrap();
        assert!(
            (found / expected - 1.0).abs() < 1e-12,
            "{found}, {expected}"
        );
    }

    #[test]
    fn one_wrong_entry_anywhere_shows() {
        let n = 9;
        for row in 0..n {
            for col in 0..=row {
                let mut l = tiled::<f64>(n, 4);
                let slot = l.slot(row / 4, col / 4).unwrap();
                let spoil = |tile: &mut Tile<f64>| {
                    let right = tile.get(row % 4, col % 4);
                    tile.set(row % 4, col % 4, right + 1e-9);
                };
                l.store_mut().update(slot, spoil).unwrap();
                let a = |i: usize, j: usize| product::<f64>(i, j);
                let residual = super::residual(&a, &l).unwrap();
                assert!(residual > 1e3, "({row}, {col}): {residual}");
            }
        }
    }

    #[test]
    fn a_nan_is_below_no_bound() {
        let l = TiledMatrix::from_fn(Layout::lower(5, 2).unwrap(), |i, j| match (i, j) {
            (4, 2) => f64::NAN,
            _ => factor(i, j),
        });
        let a = |i: usize, j: usize| product::<f64>(i, j);
        assert!(residual(&a, &l).unwrap().is_nan());
        let a = |i: usize, j: usize| if (i, j) == (3, 0) { f64::NAN } else { a(i, j) };
        assert!(residual(&a, &tiled(5, 2)).unwrap().is_nan());
    }

    #[test]
    fn the_space_is_proved_for_0_to_9_tiles_on_every_grid() {
        for (p, q) in [(1, 1), (2, 2), (2, 3), (1, 4)] {
            for nt in 0..=9 {
                let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
                let layout = Layout::lower(nt, 1).unwrap().distributed(grid, Rank(0));
                let l = TiledMatrix::<f64>::vacant(layout.unwrap(), Arc::new(Heap));
                verify(&Check::new(&l, &l).unwrap(), p * q)
                    .unwrap_or_else(|fault| panic!("nt = {nt} on {p} x {q}: {fault}"));
            }
        }
    }

    #[test]
    fn any_order_gives_the_same_bits() {
        let a = PositiveDefinite::new(20, 1);
        let l = tiled::<c64>(20, 3);
        for seed in 0..20 {
            let check = Check::new(&a, &l).unwrap();
            let on = Shuffled::new(seed).with_threads(2);
            check.run(&on).unwrap();
            assert_eq!(check.residual(), Some(residual(&a, &l).unwrap()));
        }
    }

    #[test]
    fn a_check_says_what_the_factor_is_by_now() {
        let a = |i: usize, j: usize| product::<f64>(i, j);
        let l = tiled::<f64>(9, 4);
        let first = l.store().get(0).unwrap();
        let check = Check::new(&a, &l).unwrap();
        let judged = || {
            check.run(&Inline).unwrap();
            check.residual().unwrap()
        };
        let right = judged();
        assert!(right < 3.0, "{right}");
        let mut spoiled = (*first).clone();
        spoiled.set(0, 0, f64::NAN);
        l.store().put(0, Version::new(spoiled)).unwrap();
        assert!(judged().is_nan());
        l.store().put(0, first).unwrap();
        assert_eq!(judged(), right);
        assert_eq!(judged(), right);
    }

    #[test]
    fn a_factor_that_is_not_stored_as_a_triangle_is_refused() {
        let whole = TiledMatrix::<f64>::zeros(Layout::general(4, 3, 2).unwrap());
        let a = |i: usize, j: usize| product::<f64>(i, j);
        let refused = residual(&a, &whole).unwrap_err();
        assert_eq!(refused.name(), "wrong_shape");
        assert!(refused.to_string().contains("General, 4 x 3"), "{refused}");
    }
}
