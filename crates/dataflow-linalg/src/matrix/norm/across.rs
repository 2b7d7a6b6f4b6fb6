//! Norms as graphs: each tile is measured by its owner, rank 0 adds up, every rank is told.
//!
//! # Law
//! What the tiles contribute is added in the order of the layout's slots, whatever the grid: the
//! bits are those of a plain loop over the tiles.

use super::{Extent, Norm, Sums, larger, of_tile, scale_of, tile_sums};
use crate::matrix::tiled::column_major;
use crate::matrix::{self, Layout, TiledMatrix};
use crate::scalar::Scalar;
use crate::weight::Weight;
use dataflow_core::port::{Block, Executor, Head, Wire};
use dataflow_core::prelude::*;
use dataflow_core::{Error, Report, task_names};
use std::borrow::Cow;
use std::sync::OnceLock;

/// A norm of a matrix, of which each rank gives its tiles; the same on every rank, 0 if it is empty.
/// One pass, or two for Frobenius.
///
/// # Errors
/// If a stored tile is not at hand; what [`run_across`](dataflow_core::run_across) answers.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, norm::{Norm, norm}};
/// // [3 −4; −4 0], of which the lower triangle is stored
/// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[3.0, 9.9], [-4.0, 0.0]][i][j]);
/// assert_eq!(norm(&a, Norm::One, &Inline)?, 7.0);
/// assert_eq!(norm(&a, Norm::Frobenius, &Inline)?, 41f64.sqrt());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn norm<T: Scalar>(a: &TiledMatrix<T>, which: Norm, on: &dyn Executor) -> Result<f64, Error> {
    let measured = |what| Ok::<_, Error>(measured(a, what, on)?.0);
    let largest = |sums: &[f64]| sums.iter().copied().fold(0.0, larger);
    match which {
        Norm::One => Ok(largest(&measured(What::Columns)?.columns)),
        Norm::Infinity => Ok(largest(&measured(What::Rows)?.rows)),
        Norm::Max => Ok(largest(&measured(What::Largest)?.columns)),
        Norm::Frobenius => {
            let largest_entry = largest(&measured(What::Largest)?.columns);
            match scale_of(largest_entry) {
                None => Ok(largest_entry),
                Some(scale) => {
                    let squares = measured(What::Squares(scale))?.columns;
                    Ok(scale * largest(&squares).sqrt())
                }
            }
        }
    }
}

/// ‖A‖_∞ and what it cost.
pub(crate) fn infinity_norm<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(f64, Report), Error> {
    let (Sums { rows, .. }, report) = measured(a, What::Rows, on)?;
    Ok((rows.into_iter().fold(0.0, larger), report))
}

/// The largest modulus in each column of a matrix that is stored as
/// [`Structure::General`](crate::matrix::Structure), NaN where there is one, the same on every rank;
/// none if columns have no rows; and what they cost.
pub(crate) fn peaks<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(Vec<f64>, Report), Error> {
    let (peaks, report) = measured(a, What::Peaks, on)?;
    Ok((peaks.columns, report))
}

/// All entries of a matrix that is stored as [`Structure::General`](crate::matrix::Structure),
/// column-major, on every rank: for vectors.
pub(crate) fn entries<T: Scalar>(a: &TiledMatrix<T>, on: &dyn Executor) -> Result<Vec<T>, Error> {
    let (Sums { columns, rows }, _) = measured(a, What::Entries, on)?;
    let parts = columns.into_iter().zip(rows);
    Ok(parts.map(|(re, im)| T::from_parts(re, im)).collect())
}

/// What is added up, on every rank, and what that cost.
fn measured<T: Scalar>(
    a: &TiledMatrix<T>,
    what: What,
    on: &dyn Executor,
) -> Result<(Sums, Report), Error> {
    let measure = Measure::new(a, what, a.n_told(on));
    let report = T::run_measure(&measure, a, on)?;
    // A run that ended well has told every rank; of an empty matrix there is nothing to tell.
    let told = measure.told.into_inner();
    let sums = told.unwrap_or_else(|| what.start(a.layout()));
    Ok((sums, report))
}

/// What is added up over the tiles.
#[derive(Clone, Copy, Debug)]
enum What {
    Columns,
    Rows,
    Largest,
    /// Of moduli over this scale.
    Squares(f64),
    /// The largest of each column.
    Peaks,
    /// Nothing: real parts, as columns, and imaginary parts, as rows, stand where they are.
    Entries,
}

impl What {
    /// As people read it.
    fn shown(self) -> String {
        match self {
            What::Squares(scale) => format!("Squares over {scale:?}"),
            _ => format!("{self:?}"),
        }
    }

    /// How many numbers there are of a tile, or of all.
    fn length(self, (rows, cols): (usize, usize)) -> usize {
        match self {
            What::Columns | What::Rows => rows + cols,
            What::Largest | What::Squares(_) => 1,
            What::Peaks => cols,
            What::Entries => 2 * rows * cols,
        }
    }

    /// Before the first tile.
    fn start(self, all: &Layout) -> Sums {
        let (rows, cols) = (all.rows(), all.cols());
        match self {
            // Of nothing, however many rows or columns it has.
            What::Columns | What::Rows | What::Peaks if rows == 0 || cols == 0 => Sums::new(0, 0),
            What::Columns | What::Rows => Sums::new(rows, cols),
            What::Largest | What::Squares(_) => Sums::new(0, 1),
            What::Peaks => Sums::new(0, cols),
            What::Entries => Sums::new(rows * cols, rows * cols),
        }
    }
}

task_names! {
    /// The tasks of a norm: a tile is measured, its part is added, a rank is told.
    pub enum MeasureTask { Tile { i, j }, Add { i, j }, Tell { rank } }
}
use MeasureTask::{Add, Tell, Tile};

/// The sums so far, or the result.
const TOTAL: usize = 0;
/// Add: what a tile contributes.
const PART: usize = 1;

#[derive(Debug)]
pub struct Measure<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    what: What,
    /// Of all tiles, on whatever rank.
    all: Layout,
    /// How many ranks are told.
    n_told: u32,
    total: Store<Sums>,
    told: OnceLock<Sums>,
}

impl<'a, T: Scalar> Measure<'a, T> {
    fn new(a: &'a TiledMatrix<T>, what: What, n_told: u32) -> Self {
        let first = (a.layout().rank() == Rank(0)).then(|| what.start(a.layout()));
        Measure {
            a,
            what,
            all: a.layout().alone(),
            n_told,
            total: Store::new("total", first),
            told: OnceLock::new(),
        }
    }

    /// The last tile in the order of slots, if there is one.
    fn last(&self) -> Option<(u32, u32)> {
        let slot = self.all.n_slots().checked_sub(1)?;
        let (i, j) = self.all.tile_of(slot)?;
        Some((i as u32, j as u32))
    }

    fn extent(&self, i: usize, j: usize) -> Extent {
        Extent::of(self.a.structure(), i, j)
    }

    /// What a tile contributes.
    fn measured(&self, tile: &matrix::Tile<T>, extent: Extent) -> Sums {
        let one = |number| Sums {
            columns: vec![number],
            rows: vec![],
        };
        let mut buffer = Vec::new();
        match self.what {
            What::Columns | What::Rows => tile_sums(tile, extent),
            What::Largest => one(of_tile(tile, extent, 0.0, |all, size, _| larger(all, size))),
            What::Squares(scale) => one(of_tile(tile, extent, 0.0, |sum, size, times| {
                let scaled = size / scale;
                sum + times * scaled * scaled
            })),
            What::Peaks => {
                let columns = column_major(tile, &mut buffer).chunks_exact(tile.rows().max(1));
                let peak = |column: &[T]| column.iter().map(|x| x.modulus()).fold(0.0, larger);
                Sums {
                    columns: columns.map(peak).collect(),
                    rows: vec![],
                }
            }
            What::Entries => {
                let entries = column_major(tile, &mut buffer);
                Sums {
                    columns: entries.iter().map(|x| x.re()).collect(),
                    rows: entries.iter().map(|x| x.im()).collect(),
                }
            }
        }
    }
}

/// Copies the entries of a tile to where they stand in the whole.
fn place(all: &Layout, part: &Sums, (i, j): (usize, usize), total: &mut Sums) {
    let rows = all.row_range(i);
    for (y, col) in all.col_range(j).enumerate() {
        let from = y * rows.len()..(y + 1) * rows.len();
        let to = rows.start + col * all.rows()..rows.end + col * all.rows();
        total.columns[to.clone()].copy_from_slice(&part.columns[from.clone()]);
        total.rows[to].copy_from_slice(&part.rows[from]);
    }
}

/// The tasks of a rank that has some of all tiles.
fn tasks_of<'l>(
    some: &Layout,
    all: &'l Layout,
    on: Rank,
) -> impl Iterator<Item = MeasureTask> + Send + use<'l> {
    let own = some.tiles_of(on).map(|(i, j)| Tile { i, j });
    let first = (on == Rank(0)).then_some(all);
    let add = first.into_iter().flat_map(|all| all.tiles_of(Rank(0)));
    let add = add.map(|(i, j)| Add { i, j });
    own.chain(add).chain([Tell { rank: on.0 }])
}

impl<T: Scalar> TaskSpace for Measure<'_, T> {
    type Task = MeasureTask;
    type Datum = Sums;

    fn describe(&self, about: &mut Description) {
        about.name("norm").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("what", self.what.shown());
        about.class("Tile").new_flow("TOTAL");
        about.class("Add").update("TOTAL").read("PART");
        about.class("Tell").optional("TOTAL");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = MeasureTask> + Send {
        tasks_of(self.a.layout(), &self.all, on)
    }

    fn inputs(&self, task: MeasureTask, from: &mut impl Inputs<Self>) {
        match task {
            Tile { .. } => {}
            Add { i, j } => {
                match self.all.neighbours(i, j)[0] {
                    None => from.home(TOTAL, &self.total, 0),
                    Some((i, j)) => from.task(TOTAL, Add { i, j }, TOTAL),
                }
                from.task(PART, Tile { i, j }, TOTAL);
            }
            Tell { .. } => {
                if let Some((i, j)) = self.last() {
                    from.task(TOTAL, Add { i, j }, TOTAL);
                }
            }
        }
    }

    fn successors(&self, task: MeasureTask, to: &mut impl Successors<Self>) {
        match task {
            Tile { i, j } => to.task(TOTAL, Add { i, j }, PART),
            Add { i, j } => match self.all.neighbours(i, j)[1] {
                Some((i, j)) => to.task(TOTAL, Add { i, j }, TOTAL),
                None => {
                    let tell = |rank| Tell { rank };
                    to.range(TOTAL, 0..self.n_told, tell, TOTAL);
                    to.home(TOTAL, &self.total, 0);
                }
            },
            Tell { .. } => {}
        }
    }

    fn run(&self, task: MeasureTask, flows: &mut Flows<'_, Sums>) -> Result<(), TaskError> {
        match task {
            Tile { i, j } => {
                let (i, j) = (i as usize, j as usize);
                let tile = self.a.tile_at(i, j)?;
                let [total] = flows.slots();
                total.put(self.measured(&tile, self.extent(i, j)));
            }
            Add { i, j } => {
                let (i, j) = (i as usize, j as usize);
                let [total, part] = flows.slots();
                let (total, part) = (total.update(), part.read());
                match self.what {
                    What::Columns | What::Rows => {
                        let (row, col) = (self.all.row_range(i).start, self.all.col_range(j).start);
                        total.add(part, row, col, self.extent(i, j));
                    }
                    What::Largest => total.columns[0] = larger(total.columns[0], part.columns[0]),
                    What::Squares(_) => total.columns[0] += part.columns[0],
                    What::Peaks => {
                        let peaks = &mut total.columns[self.all.col_range(j)];
                        let pairs = peaks.iter_mut().zip(&part.columns);
                        pairs.for_each(|(peak, of_tile)| *peak = larger(*peak, *of_tile));
                    }
                    What::Entries => place(&self.all, part, (i, j), total),
                }
            }
            Tell { .. } => {
                let [total] = flows.slots();
                if let Some(total) = total.get() {
                    self.told.get_or_init(|| total.clone());
                }
            }
        }
        Ok(())
    }

    fn rank(&self, task: MeasureTask) -> Rank {
        match task {
            Tile { i, j } => self.a.rank_of(i as usize, j as usize),
            Add { .. } => Rank(0),
            Tell { rank } => Rank(rank),
        }
    }

    /// What is measured is added, and gone, first.
    fn priority(&self, task: MeasureTask) -> i64 {
        matches!(task, Add { .. }).into()
    }
}

/// Measuring is looking: it costs no operations.
impl<T: Scalar> Weight for Measure<'_, T> {
    fn bytes(&self, task: MeasureTask, _: usize) -> u64 {
        let numbers = match task {
            Tile { i, j } => self.what.length(self.a.tile_shape((i, j))),
            Add { .. } => self.what.length((self.all.rows(), self.all.cols())),
            Tell { .. } => 0,
        };
        8 * numbers as u64
    }

    fn flops(&self, _: MeasureTask) -> f64 {
        0.0
    }
}

impl Datum for Sums {
    fn bytes(&self) -> usize {
        Wire::size(self)
    }
}

/// The head: how many columns there are, 8 bytes, little endian. The body: columns, then rows.
impl Wire for Sums {
    fn head(&self) -> Head {
        Head::from_slice(&(self.columns.len() as u64).to_le_bytes())
    }

    fn size(&self) -> usize {
        8 * (self.columns.len() + self.rows.len())
    }

    fn body(&self) -> Cow<'_, [u8]> {
        let numbers = self.columns.iter().chain(&self.rows);
        Cow::Owned(numbers.flat_map(|number| number.to_ne_bytes()).collect())
    }

    fn unpack(head: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        let columns = head.try_into().map(u64::from_le_bytes);
        let columns = columns.map_err(|_| format!("sums with a head of {} bytes", head.len()))?;
        let bytes = body.bytes();
        let numbers = bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned);
        let numbers: Vec<f64> = numbers.collect();
        let columns = usize::try_from(columns).unwrap_or(usize::MAX);
        if columns > numbers.len() || !bytes.len().is_multiple_of(8) {
            return Err(format!("{columns} sums in {} bytes", bytes.len()));
        }
        let (columns, rows) = numbers.split_at(columns);
        Ok(Sums {
            columns: columns.to_vec(),
            rows: rows.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate::Random;
    use crate::matrix::{Distribution, Grid};
    use crate::scalar::c64;
    use dataflow_core::port::{Heap, Memory, Shuffled};
    use std::sync::Arc;

    /// A norm by a plain loop over the tiles in the order of slots.
    fn by_a_loop<T: Scalar>(a: &TiledMatrix<T>, which: Norm) -> f64 {
        let mut sums = Sums::new(a.rows(), a.cols());
        let (mut peak, mut squares) = (0.0, 0.0);
        let stored = (0..a.nt()).flat_map(|j| (0..a.mt()).map(move |i| (i, j)));
        let stored: Vec<_> = stored.filter(|(i, j)| a.stores(*i, *j)).collect();
        for &(i, j) in &stored {
            let (tile, extent) = (a.tile_at(i, j).unwrap(), Extent::of(a.structure(), i, j));
            let (row, col) = (a.row_range(i).start, a.col_range(j).start);
            sums.add(&tile_sums(&tile, extent), row, col, extent);
            peak = of_tile(&tile, extent, peak, |peak, size, _| larger(peak, size));
        }
        let Some(scale) = scale_of(peak) else {
            return peak;
        };
        for (i, j) in stored {
            let (tile, extent) = (a.tile_at(i, j).unwrap(), Extent::of(a.structure(), i, j));
            squares += of_tile(&tile, extent, 0.0, |sum, size, times| {
                sum + times * (size / scale) * (size / scale)
            });
        }
        match which {
            Norm::One => sums.columns.into_iter().fold(0.0, larger),
            Norm::Infinity => sums.rows.into_iter().fold(0.0, larger),
            Norm::Max => peak,
            Norm::Frobenius => scale * f64::sqrt(squares),
        }
    }

    #[test]
    fn the_space_is_proved_for_every_shape_on_every_grid() {
        for (p, q) in [(1, 1), (2, 2), (2, 3)] {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            for (m, n) in [(0, 0), (0, 3), (1, 1), (4, 3), (3, 5)] {
                for layout in [Layout::general(m, n, 1), Layout::lower(n, 1)] {
                    let layout = layout.unwrap().distributed(grid, Rank(0)).unwrap();
                    let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
                    verify(&Measure::new(&a, What::Columns, p * q), p * q)
                        .unwrap_or_else(|fault| panic!("{m} x {n} on {p} x {q}: {fault}"));
                }
            }
        }
    }

    #[test]
    fn sums_weigh_what_is_told_before() {
        let layout = Layout::general(13, 9, 4).unwrap();
        let a = TiledMatrix::<c64>::from_entries(layout, &Random::new(2));
        let whats = [
            What::Columns,
            What::Rows,
            What::Largest,
            What::Squares(2.0),
            What::Peaks,
            What::Entries,
        ];
        for what in whats {
            let space = Measure::new(&a, what, 1);
            for (i, j) in layout.tiles_of(Rank(0)) {
                let (m, n) = (i as usize, j as usize);
                let sums = space.measured(&a.tile_at(m, n).unwrap(), space.extent(m, n));
                let told = space.bytes(Tile { i, j }, TOTAL);
                assert_eq!(told, Wire::size(&sums) as u64, "{what:?}");
                let told = space.bytes(Add { i, j }, TOTAL);
                assert_eq!(told, Wire::size(&what.start(&layout)) as u64, "{what:?}");
            }
        }
    }

    #[test]
    fn a_norm_in_tasks_is_that_of_a_plain_loop_to_the_bit() {
        for layout in [
            Layout::general(13, 9, 4),
            Layout::lower(11, 3),
            Layout::general(0, 2, 3),
        ] {
            let a = TiledMatrix::<c64>::from_entries(layout.unwrap(), &Random::new(2));
            for which in [Norm::One, Norm::Infinity, Norm::Frobenius, Norm::Max] {
                let expected = by_a_loop(&a, which);
                for seed in 0..5 {
                    let on = Shuffled::new(seed).with_threads(2);
                    let found = norm(&a, which, &on).unwrap();
                    assert_eq!(found.to_bits(), expected.to_bits(), "{which:?}");
                }
            }
        }
    }

    #[test]
    fn peaks_and_entries_are_those_of_the_matrix_and_nan_is_a_peak() {
        let entry = |i: usize, j: usize| match (i, j) {
            (5, 2) => c64::new(f64::NAN, 0.0),
            _ => c64::new(-(i as f64), (i * j) as f64),
        };
        let on = Shuffled::new(1).with_threads(2);
        for (m, n) in [(0, 3), (7, 0), (7, 4)] {
            let a = TiledMatrix::from_fn(Layout::general(m, n, 3).unwrap(), entry);
            let (peaks, _) = peaks(&a, &on).unwrap();
            assert_eq!(peaks.len(), if m == 0 { 0 } else { n });
            for (j, peak) in peaks.into_iter().enumerate() {
                let expected = (0..m).map(|i| entry(i, j).modulus()).fold(0.0, larger);
                assert_eq!(
                    peak.to_bits(),
                    expected.to_bits(),
                    "column {j} of {m} x {n}"
                );
            }
            let entries = entries(&a, &on).unwrap();
            assert_eq!(entries.len(), m * n);
            for (at, found) in entries.into_iter().enumerate() {
                assert_eq!(found.bits(), entry(at % m, at / m).bits());
            }
        }
    }

    #[test]
    fn sums_arrive_as_they_left() {
        let sent = Sums {
            columns: vec![1.0, f64::NAN],
            rows: vec![-3.0],
        };
        let mut block = Heap.allocate(Wire::size(&sent));
        block.bytes_mut().copy_from_slice(&sent.body());
        let came = Sums::unpack(&sent.head(), block).unwrap();
        assert_eq!(format!("{came:?}"), format!("{sent:?}"));
        for (head, bytes) in [(&[][..], 8), (&[2, 0, 0, 0, 0, 0, 0, 0], 8), (&[0; 8], 7)] {
            assert!(Sums::unpack(head, Heap.allocate(bytes)).is_err());
        }
    }
}
