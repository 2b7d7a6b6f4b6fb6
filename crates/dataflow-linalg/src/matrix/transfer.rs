//! Transfer: the entries of one tiled matrix into another: cut anew, spread over another grid, in
//! another format, or transposed.
//!
//! # Law
//! Entries are copied (and conjugated), never computed with. A tile is given once to each rank that
//! owns a tile which it overlaps.

use super::{Structure, Tile, TiledMatrix};
use crate::error::LinalgError;
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::Erased;
use dataflow_core::{Report, task_names};
use std::ops::Range;

task_names! {
    /// The tasks of a transfer: (i, j) is a tile of the source, or of the target with x the number of
    /// a source tile among those that overlap it.
    pub enum TransferTask { Give { i, j }, Place { i, j, x } }
}
use TransferTask::{Give, Place};

/// The tile that is handed on, or filled.
const TILE: usize = 0;
/// Place: the source.
const SOURCE: usize = 1;

/// What becomes of the entries on their way.
///
/// # Examples
/// See [`transfer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// As they are.
    Plain,
    /// Transposed.
    Transposed,
    /// Transposed and conjugated.
    Adjoint,
}

/// The task space of a transfer: a task for each tile of the source, and one for each pair of tiles
/// that overlap.
///
/// # Examples
/// See [`transfer`].
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a, T: Scalar> {
    pub(super) from: &'a TiledMatrix<T>,
    turn: Turn,
    pub(super) to: &'a TiledMatrix<T>,
}

/// Overwrites `to` by the entries of `from`; each rank gives its parts of both. Copies each entry
/// once, one by one.
///
/// # Errors
/// If the shapes disagree, a matrix is not stored as [`Structure::General`], or both are one matrix; what
/// [`run_across`](dataflow_core::run_across) answers.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, transfer::{Turn, transfer}};
/// let a = TiledMatrix::from_fn(Layout::general(5, 3, 2)?, |i, j| (10 * i + j) as f64);
/// let transposed = TiledMatrix::zeros(Layout::general(3, 5, 4)?);
/// transfer(&a, Turn::Transposed, &transposed, &Inline)?;
/// assert_eq!(transposed.get(2, 4), Some(42.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn transfer<T: Scalar>(
    from: &TiledMatrix<T>,
    turn: Turn,
    to: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let transfer = Transfer::new(from, turn, to)?;
    T::run_tiles(&Erased::new(&transfer), &[from, to], on).map_err(LinalgError::Run)
}

impl<'a, T: Scalar> Transfer<'a, T> {
    /// The space for two matrices of any tile orders, formats and distributions.
    ///
    /// # Errors
    /// As [`transfer`].
    pub fn new(
        from: &'a TiledMatrix<T>,
        turn: Turn,
        to: &'a TiledMatrix<T>,
    ) -> Result<Self, LinalgError> {
        let (m, n) = match turn {
            Turn::Plain => (from.rows(), from.cols()),
            Turn::Transposed | Turn::Adjoint => (from.cols(), from.rows()),
        };
        let structures = [from.structure(), to.structure()];
        if (m, n) != (to.rows(), to.cols()) || structures != [Structure::General; 2] {
            return Err(LinalgError::Shape(format!(
                "{m} x {n}{} ({:?}) does not fit into {} x {}{} ({:?})",
                from.label(),
                structures[0],
                to.rows(),
                to.cols(),
                to.label(),
                structures[1]
            )));
        }
        if std::ptr::eq(from, to) {
            let named = from.label();
            return Err(LinalgError::Shape(format!(
                "a matrix{named} cannot be transferred into itself (into another one it can)"
            )));
        }
        Ok(Transfer { from, turn, to })
    }

    /// A tile of the source where it stands in the target, or back.
    fn turned(&self, (i, j): (u32, u32)) -> (u32, u32) {
        match self.turn {
            Turn::Plain => (i, j),
            Turn::Transposed | Turn::Adjoint => (j, i),
        }
    }

    /// The rows and columns of tiles of the source, as they stand in the target, that overlap a tile
    /// of the target.
    fn sources(&self, i: u32, j: u32) -> (Range<u32>, Range<u32>) {
        let (to, nb) = (self.to, self.from.nb());
        let rows = overlapping(to.row_range(i as usize), nb);
        (rows, overlapping(to.col_range(j as usize), nb))
    }

    /// The tile of the source with number `x` among those of a tile of the target.
    fn source(&self, i: u32, j: u32, x: u32) -> (u32, u32) {
        let (rows, cols) = self.sources(i, j);
        let height = rows.len() as u32;
        self.turned((rows.start + x % height, cols.start + x / height))
    }

    fn n_sources(&self, i: u32, j: u32) -> u32 {
        let (rows, cols) = self.sources(i, j);
        (rows.len() * cols.len()) as u32
    }

    /// Where a tile of the source stands in the target: rows and columns of entries.
    fn standing(&self, tile: (u32, u32)) -> (Range<usize>, Range<usize>) {
        let (i, j) = (tile.0 as usize, tile.1 as usize);
        let (rows, cols) = (self.from.row_range(i), self.from.col_range(j));
        match self.turn {
            Turn::Plain => (rows, cols),
            Turn::Transposed | Turn::Adjoint => (cols, rows),
        }
    }

    /// Copies what a tile of the source and one of the target have in common.
    fn copy(&self, source: &Tile<T>, of: (u32, u32), target: &mut Tile<T>, (i, j): (u32, u32)) {
        let (rows, cols) = self.standing(of);
        let to_rows = self.to.row_range(i as usize);
        let to_cols = self.to.col_range(j as usize);
        for col in cols.start.max(to_cols.start)..cols.end.min(to_cols.end) {
            for row in rows.start.max(to_rows.start)..rows.end.min(to_rows.end) {
                let (x, y) = (row - rows.start, col - cols.start);
                let entry = match self.turn {
                    Turn::Plain => source.get(x, y),
                    Turn::Transposed => source.get(y, x),
                    Turn::Adjoint => source.get(y, x).conj(),
                };
                target.set(row - to_rows.start, col - to_cols.start, entry);
            }
        }
    }
}

/// The tiles of order `nb` that hold a range of rows or columns.
fn overlapping(range: Range<usize>, nb: usize) -> Range<u32> {
    (range.start / nb) as u32..range.end.div_ceil(nb) as u32
}

impl<T: Scalar> TaskSpace for Transfer<'_, T> {
    type Task = TransferTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("transfer").parameter("m", self.to.rows());
        self.to.layout().describe(about);
        about.parameter("nb of the source", self.from.nb());
        about.parameter("grid of the source", self.from.distribution());
        about.parameter("turn", format!("{:?}", self.turn));
        about.class("Give").read("TILE");
        about.class("Place").update("TILE").read("SOURCE");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = TransferTask> + Send {
        let give = self.from.layout().tiles_of(on);
        let places = self.to.layout().tiles_of(on).flat_map(|(i, j)| {
            let each = 0..self.n_sources(i, j);
            each.map(move |x| Place { i, j, x })
        });
        give.map(|(i, j)| Give { i, j }).chain(places)
    }

    fn inputs(&self, task: TransferTask, from: &mut impl Inputs<Self>) {
        match task {
            Give { i, j } => from.home(TILE, self.from.store(), self.from.place(i, j)),
            Place { i, j, x } => {
                match x.checked_sub(1) {
                    None => from.home(TILE, self.to.store(), self.to.place(i, j)),
                    Some(x) => from.task(TILE, Place { i, j, x }, TILE),
                }
                let (i, j) = self.source(i, j, x);
                from.task(SOURCE, Give { i, j }, TILE);
            }
        }
    }

    fn successors(&self, task: TransferTask, to: &mut impl Successors<Self>) {
        match task {
            Give { i, j } => {
                let (rows, cols) = self.standing((i, j));
                let nb = self.to.nb();
                let (p, q) = self.turned((i, j));
                for (m, n) in overlapping(cols, nb)
                    .flat_map(|n| overlapping(rows.clone(), nb).map(move |m| (m, n)))
                {
                    let (above, before) = self.sources(m, n);
                    let x = (q - before.start) * above.len() as u32 + (p - above.start);
                    to.task(TILE, Place { i: m, j: n, x }, SOURCE);
                }
            }
            Place { i, j, x } if x + 1 == self.n_sources(i, j) => {
                to.home(TILE, self.to.store(), self.to.place(i, j));
            }
            Place { i, j, x } => to.task(TILE, Place { i, j, x: x + 1 }, TILE),
        }
    }

    fn run(&self, task: TransferTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        if let Place { i, j, x } = task {
            let [tile, source] = flows.slots();
            self.copy(source.read(), self.source(i, j, x), tile.update(), (i, j));
        }
        Ok(())
    }

    fn rank(&self, task: TransferTask) -> Rank {
        match task {
            Give { i, j } => self.from.rank_of(i as usize, j as usize),
            Place { i, j, .. } => self.to.rank_of(i as usize, j as usize),
        }
    }

    /// What has begun is finished first.
    fn priority(&self, task: TransferTask) -> i64 {
        matches!(task, Place { .. }).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Distribution, Format, Grid, Layout};
    use crate::scalar::c64;
    use dataflow_core::port::{Heap, Shuffled};
    use proptest::prelude::*;
    use std::sync::Arc;

    const TURNS: [Turn; 3] = [Turn::Plain, Turn::Transposed, Turn::Adjoint];

    fn number(row: usize, col: usize) -> c64 {
        c64::new(row as f64, col as f64 + 0.5)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(80))]
        #[test]
        fn every_entry_arrives_whatever_the_cuts_and_the_turn(
            m in 0usize..20, n in 0usize..20, from in 1usize..9, to in 1usize..9,
            turn in 0usize..3, seed: u64,
        ) {
            let format = Format::SubTiled { order: 3 };
            let source = Layout::general(m, n, from).unwrap().with_format(format);
            let source = TiledMatrix::from_fn(source, number);
            let turn = TURNS[turn];
            let (rows, cols) = if turn == Turn::Plain { (m, n) } else { (n, m) };
            let target = TiledMatrix::zeros(Layout::general(rows, cols, to).unwrap());
            let on = Shuffled::new(seed).with_threads(2);
            let report = transfer(&source, turn, &target, &on).unwrap();
            prop_assert_eq!(report.copies(), 0);
            for (i, j) in (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j))) {
                let expected = match turn {
                    Turn::Plain => number(i, j),
                    Turn::Transposed => number(j, i),
                    Turn::Adjoint => number(j, i).conj(),
                };
                prop_assert_eq!(target.get(i, j), Some(expected));
            }
        }
    }

    #[test]
    fn the_space_is_proved_between_every_pair_of_grids() {
        let vacant = |layout: Layout, (p, q): (u32, u32)| {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            let layout = layout.distributed(grid, Rank(0)).unwrap();
            TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
        };
        let grids = [(1, 1), (2, 2), (2, 3), (6, 1)];
        for (from, to) in grids
            .into_iter()
            .flat_map(|from| grids.map(|to| (from, to)))
        {
            for (turn, (m, n), (nb, mb)) in [
                (Turn::Plain, (7, 5), (2, 3)),
                (Turn::Adjoint, (7, 5), (3, 2)),
                (Turn::Transposed, (4, 9), (4, 4)),
                (Turn::Plain, (0, 3), (1, 2)),
            ] {
                let source = vacant(Layout::general(m, n, nb).unwrap(), from);
                let (m, n) = if turn == Turn::Plain { (m, n) } else { (n, m) };
                let target = vacant(Layout::general(m, n, mb).unwrap(), to);
                let space = Transfer::new(&source, turn, &target).unwrap();
                verify(&space, 6)
                    .unwrap_or_else(|fault| panic!("{from:?} {to:?} {turn:?}: {fault}"));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let general = |m, n| TiledMatrix::<f64>::zeros(Layout::general(m, n, 2).unwrap());
        let (a, lower) = (
            general(4, 3),
            TiledMatrix::zeros(Layout::lower(4, 2).unwrap()),
        );
        fn refused(from: &TiledMatrix<f64>, turn: Turn, to: &TiledMatrix<f64>) -> String {
            Transfer::new(from, turn, to).unwrap_err().to_string()
        }
        assert!(refused(&a, Turn::Adjoint, &general(4, 3)).contains("3 x 4"));
        assert!(refused(&lower, Turn::Plain, &general(4, 4)).contains("Lower"));
        assert!(refused(&a, Turn::Plain, &a).contains("itself"));
    }
}
