//! Rows or columns of a matrix in another order.
//!
//! # Law
//! The order is known on every rank before the run, and so is which tiles a tile is made of. A tile
//! is given once to each rank that owns a tile with something of it; entries are copied.

use super::reflectors::alike;
use crate::error::LinalgError;
use crate::matrix::{Layout, Structure, Tile, TiledMatrix, expect_two};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::Slot;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of an arrangement: a tile of the matrix, and one that is made.
    pub enum ArrangeTask { Give { i, j }, Make { i, j } }
}
use ArrangeTask::{Give, Make};

/// Make: the tile that is made, then what it is made of.
const MADE: usize = 0;
const FROM: usize = 1;

/// What is put in another order.
///
/// # Examples
/// See [`arrange`](arrange()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Whole rows.
    Rows,
    /// Whole columns.
    Columns,
}

/// The task space of an arrangement: two tasks for each tile.
///
/// # Examples
/// See [`arrange`](arrange()).
#[derive(Debug)]
pub struct Arrange<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
    lines: Lines,
    order: &'a [usize],
    made: &'a TiledMatrix<T>,
    /// Which rows or columns of tiles one that is made takes from, in ascending order.
    sources: Vec<Vec<u32>>,
    /// The other way round: which are made of one, and as the how manieth it enters there.
    targets: Vec<Vec<(u32, usize)>>,
}

impl<T: Scalar> Clone for Arrange<'_, T> {
    fn clone(&self) -> Self {
        Arrange {
            sources: self.sources.clone(),
            targets: self.targets.clone(),
            ..*self
        }
    }
}

/// A with its rows or columns in another order, cut and spread like A; every rank calls it with its
/// part.
///
/// - `order`: for each row or column of the result the number of that of A; the same on every rank
///
/// # Errors
/// If `order` is not as long as A, or names what A does not have; what
/// [`run_across`](dataflow_core::run_across) answers.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::qr::{Lines, arrange};
/// let a = TiledMatrix::from_fn(Layout::general(2, 3, 2)?, |i, j| (10 * i + j) as f64);
/// let (turned, _) = arrange(&a, Lines::Columns, &[2, 0, 1], &Inline)?;
/// assert_eq!(turned.to_column_major()?, [2.0, 12.0, 0.0, 10.0, 1.0, 11.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn arrange<T: Scalar>(
    a: &TiledMatrix<T>,
    lines: Lines,
    order: &[usize],
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    let layout = alike(a.layout(), (a.rows(), a.cols()))?;
    let made = TiledMatrix::vacant(layout, a.memory().clone());
    let space = Arrange::new(a, lines, order, &made)?;
    let report = T::run_tiles(&space.erased(), &[a], on).map_err(LinalgError::Run)?;
    Ok((made, report))
}

/// See [`Arrange`].
fn sources_of(order: &[usize], nb: usize) -> Vec<Vec<u32>> {
    let tiles_of = |lines: &[usize]| {
        let mut tiles: Vec<u32> = lines.iter().map(|line| (line / nb) as u32).collect();
        tiles.sort_unstable();
        tiles.dedup();
        tiles
    };
    order.chunks(nb).map(tiles_of).collect()
}

fn targets_of(sources: &[Vec<u32>]) -> Vec<Vec<(u32, usize)>> {
    let mut targets = vec![Vec::new(); sources.len()];
    for (target, sources) in (0..).zip(sources) {
        for (nth, &source) in sources.iter().enumerate() {
            targets[source as usize].push((target, nth));
        }
    }
    targets
}

/// Refuses matrices that are laid out otherwise, and an order that names other lines than theirs, or not as
/// many.
fn expect_order<T: Scalar>(
    (a, made): (&TiledMatrix<T>, &TiledMatrix<T>),
    lines: Lines,
    order: &[usize],
) -> Result<(), LinalgError> {
    let (all, called) = match lines {
        Lines::Rows => (a.rows(), "rows"),
        Lines::Columns => (a.cols(), "columns"),
    };
    let (len, of_a, of_made) = (order.len(), a.laid_out(), made.laid_out());
    let refused = |text| Err(LinalgError::Shape(text));
    if a.structure() != Structure::General || a.layout() != made.layout() {
        return refused(format!(
            "a matrix{of_a} with its {called} in another order is not one{of_made} (both must be General, and \
             alike)"
        ));
    }
    if len != all {
        return refused(format!(
            "an order of {len} {called} for a matrix{of_a} (must be of {all})"
        ));
    }
    match order.iter().position(|&line| line >= all) {
        None => Ok(()),
        Some(at) => refused(format!(
            "entry {at} of an order of {called} is {} (must be below {all})",
            order[at]
        )),
    }
}

impl<'a, T: Scalar> Arrange<'a, T> {
    /// The space for a matrix and one of its layout, whose tiles the run makes.
    ///
    /// # Errors
    /// As [`arrange`]; if the layouts differ, both are one matrix, or it is not stored as
    /// [`Structure::General`].
    pub fn new(
        a: &'a TiledMatrix<T>,
        lines: Lines,
        order: &'a [usize],
        made: &'a TiledMatrix<T>,
    ) -> Result<Self, LinalgError> {
        expect_order((a, made), lines, order)?;
        expect_two(("A", a), ("what it becomes", made))?;
        let sources = sources_of(order, a.nb());
        Ok(Arrange {
            a,
            lines,
            order,
            made,
            targets: targets_of(&sources),
            sources,
        })
    }

    /// Of a tile the number of its row or column of tiles, along which the order runs.
    fn line(&self, (i, j): (u32, u32)) -> u32 {
        match self.lines {
            Lines::Rows => i,
            Lines::Columns => j,
        }
    }

    /// The tile beside one in another row or column of tiles.
    fn beside(&self, (i, j): (u32, u32), line: u32) -> (u32, u32) {
        match self.lines {
            Lines::Rows => (line, j),
            Lines::Columns => (i, line),
        }
    }

    fn sources(&self, tile: (u32, u32)) -> &[u32] {
        &self.sources[self.line(tile) as usize]
    }

    /// MADE ← its rows or columns, each from the tile that holds it.
    fn make(&self, tile: (u32, u32), flows: &mut Flows<'_, Tile<T>>) {
        let ([made], tiles, []) = flows.split();
        let from: Vec<&Tile<T>> = tiles.filter_map(Slot::get).collect();
        let (nb, sources) = (self.a.nb(), self.sources(tile));
        let first = self.line(tile) as usize * nb;
        let find = |line: usize| {
            let line = self.order[first + line];
            let nth = sources.partition_point(|&source| (source as usize) < line / nb);
            (from[nth], line % nb)
        };
        let (i, j) = (tile.0 as usize, tile.1 as usize);
        let (rows, cols) = (self.made.tile_rows(i), self.made.tile_cols(j));
        let entry = |row: usize, col: usize| match self.lines {
            Lines::Rows => {
                let (tile, row) = find(row);
                tile.get(row, col)
            }
            Lines::Columns => {
                let (tile, col) = find(col);
                tile.get(row, col)
            }
        };
        let (format, memory) = (self.made.format(), self.made.memory());
        made.put(Tile::from_fn(rows, cols, format, memory, entry));
    }
}

/// The tasks of a rank.
fn tasks_of(layout: &Layout, on: Rank) -> impl Iterator<Item = ArrangeTask> + Send + use<> {
    let give = layout.tiles_of(on).map(|(i, j)| Give { i, j });
    let make = layout.tiles_of(on).map(|(i, j)| Make { i, j });
    give.chain(make)
}

impl<T: Scalar> TaskSpace for Arrange<'_, T> {
    type Task = ArrangeTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("arrangement").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("lines", format!("{:?}", self.lines));
        let mixed = self.order.iter().fold(0u64, |mixed, &line| {
            (mixed.rotate_left(5) ^ line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        about.parameter("order", format!("{mixed:016x}"));
        about.parameter("precision", T::PRECISION);
        about.class("Give").read("TILE");
        let most = self.sources.iter().map(Vec::len).max();
        let mut make = about.class("Make").new_flow("MADE");
        for _ in 0..most.unwrap_or(0) {
            make = make.optional("FROM");
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = ArrangeTask> + Send {
        // Both have one layout.
        tasks_of(self.a.layout(), on)
    }

    fn inputs(&self, task: ArrangeTask, from: &mut impl Inputs<Self>) {
        match task {
            Give { i, j } => from.home(0, self.a.store(), self.a.place(i, j)),
            Make { i, j } => {
                for (nth, &line) in self.sources((i, j)).iter().enumerate() {
                    let (i, j) = self.beside((i, j), line);
                    from.task(FROM + nth, Give { i, j }, 0);
                }
            }
        }
    }

    fn successors(&self, task: ArrangeTask, to: &mut impl Successors<Self>) {
        match task {
            Give { i, j } => {
                for &(line, nth) in &self.targets[self.line((i, j)) as usize] {
                    let (i, j) = self.beside((i, j), line);
                    to.task(0, Make { i, j }, FROM + nth);
                }
            }
            Make { i, j } => to.home(MADE, self.made.store(), self.made.place(i, j)),
        }
    }

    fn run(&self, task: ArrangeTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        if let Make { i, j } = task {
            self.make((i, j), flows);
        }
        Ok(())
    }

    fn rank(&self, task: ArrangeTask) -> Rank {
        match task {
            Give { i, j } => self.a.rank_of(i as usize, j as usize),
            Make { i, j } => self.made.rank_of(i as usize, j as usize),
        }
    }

    /// What can be made is made, and what it was made of is gone, first.
    fn priority(&self, task: ArrangeTask) -> i64 {
        matches!(task, Make { .. }).into()
    }
}
