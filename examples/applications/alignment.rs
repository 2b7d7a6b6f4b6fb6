//! Optimal global alignment of two sequences with affine gaps: a task space of one's own.
//!
//! The table of best scores (rows: the first sequence, columns: the second) is cut into tiles of
//! `nb × nb` cells. A tile needs the lowest row of the tile above and the last column of the tile
//! to its left; these borders flow along the edges, and stay with their reader for the way back.
//!
//! Cost: `n · m` cells; `24 · n · m / nb` bytes of borders; the way back computes the tiles it
//! crosses once more, at most `(n + m) · nb` cells and `12 nb²` bytes at a time. Over ranks the
//! tiles are dealt out as on a chessboard, and each rank keeps the borders of its own; the way back
//! is a second task space, whose tiles hand on where the way has come from.
//!
//! # Elsewhere
//! What a cell is worth: `alignment/scores.rs`. The way back: `alignment/back.rs`. Where the sequences
//! come from: `alignment/sequences.rs`.
//!
//! # Source
//! Needleman and Wunsch, J. Mol. Biol. 48 (1970); Gotoh, J. Mol. Biol. 162 (1982); borders kept
//! and tiles computed again as in Hirschberg's and later methods of little memory.

pub mod back;
pub mod scores;
pub mod sequences;

pub use back::Back;
pub use scores::{Cell, Column, Scores};
pub use sequences::related;

use Task::Tile;
use back::Way;
use common::cli::settings::Grid;
use common::cli::{self, Example, Failure, Outcome, Settings};
use common::problem;
use dataflow::core::run_across;
use dataflow::core::words::counted;
use dataflow::linalg::matrix::digest::Digest;
use dataflow::prelude::*;
use dataflow::{Monitor, Runtime};
use scores::{NEVER, best, ending};
use sequences::read_fasta;
use std::process::ExitCode;

// ── The space ────────────────────────────────────────────────────────────────────────────────────

/// The tiles of the table of two sequences.
pub struct Alignment {
    first: Vec<u8>,
    second: Vec<u8>,
    scores: Scores,
    nb: usize,
    grid: Grid,
    /// What lies above tile `(i, j)`, in slot `i · n_columns + j`; there is one row more than tiles.
    above: Store<Border>,
    /// What lies left of tile `(i, j)`, in slot `j · n_rows + i`.
    left: Store<Border>,
}

/// Cells along an edge of a tile; those above it begin at the corner.
pub type Border = Vec<Cell>;

task_names! { pub enum Task { Tile { i: usize, j: usize } } }

const ABOVE: usize = 0;
const LEFT: usize = 1;
const BELOW: usize = 2;
const RIGHT: usize = 3;

impl TaskSpace for Alignment {
    type Task = Task;
    type Datum = Border;

    fn describe(&self, about: &mut Description) {
        about.name("alignment").parameter("nb", self.nb);
        about.parameter("n", self.first.len());
        about.parameter("m", self.second.len());
        about.parameter("grid", self.grid);
        let tile = about.class("Tile").read("ABOVE").read("LEFT");
        tile.new_flow("BELOW").new_flow("RIGHT");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let (rows, columns) = (self.n_rows(), self.n_columns());
        let tiles = (0..rows).flat_map(move |i| (0..columns).map(move |j| Tile { i, j }));
        tiles.filter(move |&tile| self.rank(tile) == on)
    }

    fn rank(&self, Tile { i, j }: Task) -> Rank {
        let (row, column) = (i % self.grid.rows, j % self.grid.columns);
        Rank((row * self.grid.columns + column) as u32)
    }

    fn inputs(&self, Tile { i, j }: Task, from: &mut impl Inputs<Self>) {
        match i.checked_sub(1) {
            Some(upper) => from.task(ABOVE, Tile { i: upper, j }, BELOW),
            None => from.home(ABOVE, &self.above, self.above_slot(i, j)),
        }
        match j.checked_sub(1) {
            Some(former) => from.task(LEFT, Tile { i, j: former }, RIGHT),
            None => from.home(LEFT, &self.left, self.left_slot(i, j)),
        }
    }

    fn successors(&self, Tile { i, j }: Task, to: &mut impl Successors<Self>) {
        if i > 0 {
            to.home(ABOVE, &self.above, self.above_slot(i, j));
        }
        match i + 1 < self.n_rows() {
            true => to.task(BELOW, Tile { i: i + 1, j }, ABOVE),
            false => to.home(BELOW, &self.above, self.above_slot(i + 1, j)),
        }
        if j > 0 {
            to.home(LEFT, &self.left, self.left_slot(i, j));
        }
        if j + 1 < self.n_columns() {
            to.task(RIGHT, Tile { i, j: j + 1 }, LEFT);
        }
    }

    fn run(&self, Tile { i, j }: Task, flows: &mut Flows<'_, Border>) -> Result<(), TaskError> {
        let [above, left, below, right] = flows.slots();
        let columns = part(&self.second, j, self.nb);
        let mut row = above.read().clone();
        let mut last = Vec::with_capacity(self.nb);
        for (&symbol, &before) in part(&self.first, i, self.nb).iter().zip(left.read()) {
            self.scores.advance(&mut row, before, symbol, columns);
            last.push(row[columns.len()]);
        }
        below.put(row);
        right.put(last);
        Ok(())
    }
}

// ── The table ────────────────────────────────────────────────────────────────────────────────────

/// Refuses sequences so long that a score could leave the range of its type.
fn expect_scores(scores: &Scores, [first, second]: [usize; 2]) -> Result<(), Failure> {
    let longest = scores.longest();
    if first + second <= longest {
        return Ok(());
    }
    let text = format!(
        "{first} + {second} symbols are too long for these scores, which allow {longest} in all"
    );
    Err(Failure::new("too_long", text))
}

/// Refuses a table for whose borders, and the way back, there is no room: `asked` are the words that asked for it.
fn expect_room(
    asked: &str,
    [first, second]: [usize; 2],
    nb: usize,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let [n, m, nb] = [first, second, nb].map(|extent| extent as u128);
    let cells = 2 * n.saturating_mul(m) / nb;
    let own = cells.saturating_mul(size_of::<Cell>() as u128) / runtime.n_ranks() as u128;
    // Every rank has a slot for each border.
    let slots = 2 * n.div_ceil(nb).saturating_mul(m.div_ceil(nb));
    let slots = slots.saturating_mul(size_of::<Border>() as u128);
    // The way back computes a tile once more, as a whole.
    let again = (nb.min(n) + 1).saturating_mul(nb.min(m) + 1);
    let again = again.saturating_mul(size_of::<Cell>() as u128);
    let bytes = own.saturating_add(slots).saturating_add(again);
    problem::expect_room(&format!("{asked}, --nb {nb}"), bytes, runtime)
}

impl Alignment {
    /// The table of two sequences, in tiles of order `nb` (at least 1), dealt out to a grid of ranks.
    ///
    /// # Errors
    /// If the sequences are so long that a score could leave the range of its type.
    pub fn new(
        first: Vec<u8>,
        second: Vec<u8>,
        scores: Scores,
        nb: usize,
        grid: Grid,
    ) -> Result<Self, Failure> {
        expect_scores(&scores, [first.len(), second.len()])?;
        let nb = nb.max(1);
        let (rows, columns) = (first.len().div_ceil(nb), second.len().div_ceil(nb));
        // Borders of the table are known; those within it are filled by tasks.
        let top = |j| {
            let places = j * nb..=second.len().min((j + 1) * nb);
            places.map(|j| scores.first_row(j)).collect()
        };
        let side = |i| {
            let places = i * nb + 1..=first.len().min((i + 1) * nb);
            places.map(|i| scores.first_column(i)).collect()
        };
        let unknown = |n| std::iter::repeat_n(Border::default(), n);
        let above = (0..columns).map(top).chain(unknown(rows * columns));
        let within = rows * columns.saturating_sub(1);
        let left = (0..rows).map(side).chain(unknown(within));
        let (above, left) = (Store::new("above", above), Store::new("left", left));
        Ok(Alignment {
            first,
            second,
            scores,
            nb,
            grid,
            above,
            left,
        })
    }

    fn n_rows(&self) -> usize {
        self.first.len().div_ceil(self.nb)
    }

    fn n_columns(&self) -> usize {
        self.second.len().div_ceil(self.nb)
    }

    fn above_slot(&self, i: usize, j: usize) -> usize {
        i * self.n_columns() + j
    }

    fn left_slot(&self, i: usize, j: usize) -> usize {
        j * self.n_rows() + i
    }

    /// Walks from a way's cell in a tile to the row above it or to the column left of it.
    fn walk_back(&self, Tile { i: row, j: column }: Task, way: &mut Way) {
        let (top, left) = (row * self.nb, column * self.nb);
        let cells = self.cells(row, column, way.i - top, way.j - left);
        while way.i > top && way.j > left {
            let next = way.next;
            way.columns.push(next);
            let at = |way: &Way| cells[way.i - top][way.j - left];
            way.next = match next {
                Column::Pair => {
                    (way.i, way.j) = (way.i - 1, way.j - 1);
                    ending(at(way))
                }
                Column::GapInSecond => {
                    way.i -= 1;
                    ending(self.scores.gap_in_second(at(way)))
                }
                Column::GapInFirst => {
                    way.j -= 1;
                    ending(self.scores.gap_in_first(at(way)))
                }
            };
        }
    }

    /// The first cells of a tile, computed once more; row and column 0 are its borders.
    fn cells(&self, row: usize, column: usize, height: usize, width: usize) -> Vec<Vec<Cell>> {
        let border = |store: &Store<Border>, slot| {
            store
                .get(slot)
                .map_or(Border::new(), |border| border.to_vec())
        };
        let symbols = &part(&self.second, column, self.nb)[..width];
        let mut line = border(&self.above, self.above_slot(row, column));
        line.truncate(width + 1);
        let left = border(&self.left, self.left_slot(row, column));
        let mut cells = vec![line.clone()];
        for (&symbol, before) in part(&self.first, row, self.nb)[..height].iter().zip(left) {
            self.scores.advance(&mut line, before, symbol, symbols);
            cells.push(line.clone());
        }
        cells
    }

    /// Where the way back begins.
    fn last(&self) -> Way {
        Way {
            leads: true,
            score: best(self.last_cell()),
            i: self.first.len(),
            j: self.second.len(),
            next: ending(self.last_cell()),
            columns: Vec::new(),
        }
    }

    /// The cell of both whole sequences, on the rank of the last tile.
    fn last_cell(&self) -> Cell {
        let (i, j) = (self.first.len(), self.second.len());
        if i == 0 {
            return self.scores.first_row(j);
        }
        if j == 0 {
            return self.scores.first_column(i);
        }
        let lowest = self.above.get(self.above.len() - 1);
        lowest
            .and_then(|border| border.last().copied())
            .unwrap_or([NEVER; 3])
    }
}

/// The symbols of a tile's rows or columns.
fn part(sequence: &[u8], tile: usize, nb: usize) -> &[u8] {
    let start = tile * nb;
    &sequence[start..sequence.len().min(start + nb)]
}

// ── The example ──────────────────────────────────────────────────────────────────────────────────

/// What it is called, and which flags it honours.
pub const EXAMPLE: Example = Example {
    name: "alignment",
    about: "Aligns two sequences, optimally and globally, with affine gaps",
    runs: true,
    honours: &["n", "nb", "grid", "input", "seed"],
};

/// The program.
pub fn main() -> ExitCode {
    cli::run(&EXAMPLE, align)
}

/// The whole example: sequences, graph, alignment.
pub fn align(
    settings: &Settings<Scores>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let [first, second] = sequences(settings, outcome)?;
    let longest = first.len().max(second.len());
    let nb = settings.nb.unwrap_or((longest / 64).clamp(64, 1024));
    let nb = nb.min(longest.max(1));
    (outcome.n, outcome.m, outcome.nb) = (Some(first.len()), Some(second.len()), Some(nb));
    let grid = settings.grid_of(runtime.n_ranks());
    outcome.grid = Some(grid.to_string());
    let asked = match &settings.input {
        Some(path) => path.display().to_string(),
        None => format!("--n {}", first.len()),
    };
    expect_room(&asked, [first.len(), second.len()], nb, runtime)?;

    let alignment = Alignment::new(first, second, settings.own, nb, grid)?;
    let run = |monitor: &Monitor| run_across(&alignment, &runtime.watched_by(monitor));
    outcome.measured = settings.median(|_| settings.measure(runtime, run))?;

    let back = Back::new(&alignment);
    runtime.run_across(&back)?;
    // Rank 0 has the first tile.
    let Some((score, columns)) = back.alignment() else {
        return Ok(());
    };
    outcome.set("score", score);
    outcome.set("alignment_length", columns.len());
    outcome.digest = Some(digest(score, &columns).to_string());
    let verified = alignment.verify(score, &columns)?;
    outcome.set("verified", verified.then_some(true));
    if !verified {
        outcome.say("not verified: the table is too large to be computed once more");
    }
    for line in alignment.page(&columns) {
        outcome.say(line);
    }
    outcome.say(format!(
        "score {score}, {}",
        counted(columns.len(), "column")
    ));
    Ok(())
}

/// The sequences of a file, or generated ones.
fn sequences(settings: &Settings<Scores>, outcome: &mut Outcome) -> Result<[Vec<u8>; 2], Failure> {
    let Some(path) = &settings.input else {
        outcome.seed = Some(settings.seed);
        let n = settings.n.unwrap_or(1000);
        // Before a sequence is made.
        expect_scores(&settings.own, [n, 0])?;
        return Ok(related(n, settings.seed));
    };
    if settings.n.is_some() {
        return Err(Failure::refused(
            "--n is for generated sequences, --input brings its own",
        ));
    }
    settings.expect_no_seed("--input brings its own sequences")?;
    read_fasta(path)
}

/// Over the columns, from first to last, and before them the score.
pub fn digest(score: i32, columns: &[Column]) -> Digest {
    let number = |column: &Column| f64::from(*column as u8);
    let columns = (0..).zip(columns);
    let columns = columns.map(|(at, column)| Digest::of_entry(at, 0, number(column)));
    columns.sum::<Digest>() + Digest::of_entry(0, u64::MAX, f64::from(score))
}

/// Of a table of so many cells the best score is computed once more, without tiles.
const MOST_CELLS: usize = 1 << 22;

/// Columns of an alignment on a line.
const WRAP: usize = 60;

impl Alignment {
    /// The sum of the columns' scores, in `n + m` steps; `None` if they are not an alignment of both whole
    /// sequences.
    pub fn worth(&self, columns: &[Column]) -> Option<i32> {
        let (mut first, mut second) = (self.first.iter(), self.second.iter());
        let (mut sum, mut before) = (0, Column::Pair);
        for &column in columns {
            let a = (column != Column::GapInFirst).then(|| first.next());
            let b = (column != Column::GapInSecond).then(|| second.next());
            sum += match (a, b) {
                (Some(None), _) | (_, Some(None)) => return None,
                (Some(a), Some(b)) if a == b => self.scores.equal,
                (Some(_), Some(_)) => self.scores.different,
                _ if column == before => self.scores.extend,
                _ => self.scores.open,
            };
            before = column;
        }
        let is_whole = first.next().or(second.next()).is_none();
        is_whole.then_some(sum)
    }

    /// Looks whether these columns are an alignment, worth what the table says; and of sequences that are not
    /// long, whether no other is worth more. Whether all of that is known.
    ///
    /// # Errors
    /// If one of it is not so.
    pub fn verify(&self, score: i32, columns: &[Column]) -> Result<bool, Failure> {
        let is_short = self.first.len().saturating_mul(self.second.len()) <= MOST_CELLS;
        let best = is_short.then(|| self.scores.optimum(&self.first, &self.second));
        let text = match (self.worth(columns), best) {
            (None, _) => "the columns are no alignment of the whole sequences".to_string(),
            (Some(worth), _) if worth != score => {
                format!("the columns are worth {worth}, and the table says {score}")
            }
            (_, Some(best)) if best != score => {
                format!("the table says {score}, and the best alignment is worth {best}")
            }
            (_, best) => return Ok(best.is_some()),
        };
        Err(Failure::wrong_result(text))
    }

    /// An alignment for people: both sequences, and `|` between equal symbols, `.` between others.
    fn page(&self, columns: &[Column]) -> Vec<String> {
        let (mut i, mut j) = (0, 0);
        let mut lines = Vec::new();
        for columns in columns.chunks(WRAP) {
            let (from_i, from_j) = (i + 1, j + 1);
            let [mut upper, mut marks, mut lower] = [const { String::new() }; 3];
            for column in columns {
                let (a, b) = match column {
                    Column::Pair => (self.first[i], self.second[j]),
                    Column::GapInSecond => (self.first[i], b'-'),
                    Column::GapInFirst => (b'-', self.second[j]),
                };
                i += usize::from(*column != Column::GapInFirst);
                j += usize::from(*column != Column::GapInSecond);
                upper.push(char::from(a));
                lower.push(char::from(b));
                marks.push(match column {
                    Column::Pair if a == b => '|',
                    Column::Pair => '.',
                    _ => ' ',
                });
            }
            lines.push(format!("{from_i:>9} {upper} {i}"));
            lines.push(format!("{:>9} {marks}", "").trim_end().to_string());
            lines.push(format!("{from_j:>9} {lower} {j}"));
            lines.push(String::new());
        }
        lines
    }
}
