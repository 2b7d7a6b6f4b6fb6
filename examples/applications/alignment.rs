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
//! # Source
//! Needleman and Wunsch, J. Mol. Biol. 48 (1970); Gotoh, J. Mol. Biol. 162 (1982); borders kept
//! and tiles computed again as in Hirschberg's and later methods of little memory.

#[path = "../cli/mod.rs"]
pub(crate) mod cli;

use Task::Tile;
use cli::settings::Grid;
use cli::{Example, Failure, Measured, Outcome, Settings};
use dataflow::core::port::{Block, Head, Wire};
use dataflow::core::run_across;
use dataflow::prelude::*;
use dataflow::{Monitor, Runtime};
use needletail::parse_fastx_reader;
use needletail::parser::Format;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;
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
#[derive(Clone, Default)]
pub struct Border(Vec<Cell>);

impl Datum for Border {}

impl Wire for Border {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        size_of_val(&self.0[..])
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(bytemuck::cast_slice(&self.0))
    }

    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        let cells = body.bytes().chunks_exact(size_of::<Cell>());
        Ok(Border(cells.map(bytemuck::pod_read_unaligned).collect()))
    }
}

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
        let Border(mut row) = above.read().clone();
        let mut last = Vec::with_capacity(self.nb);
        for (&symbol, &before) in part(&self.first, i, self.nb).iter().zip(&left.read().0) {
            self.scores.advance(&mut row, before, symbol, columns);
            last.push(row[columns.len()]);
        }
        below.put(Border(row));
        right.put(Border(last));
        Ok(())
    }
}

// ── Scores ───────────────────────────────────────────────────────────────────────────────────────

/// Best scores of two prefixes whose alignment ends in a pair, in a gap in the second sequence,
/// in a gap in the first: in the order in which ties are decided.
pub type Cell = [i32; 3];

/// Of what does not exist; far below any score, far above the end of the numbers.
const NEVER: i32 = i32::MIN / 2;

/// What each column of an alignment is worth.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Scores {
    /// Score of a pair of equal symbols
    #[arg(long = "match", value_name = "SCORE", default_value_t = 2, allow_negative_numbers = true, value_parser = score())]
    pub equal: i32,
    /// Score of a pair of different symbols
    #[arg(long = "mismatch", value_name = "SCORE", default_value_t = -1, allow_negative_numbers = true, value_parser = score())]
    pub different: i32,
    /// Score of the first symbol of a gap
    #[arg(long = "gap-open", value_name = "SCORE", default_value_t = -3, allow_negative_numbers = true, value_parser = score())]
    pub open: i32,
    /// Score of each further symbol of a gap
    #[arg(long = "gap-extend", value_name = "SCORE", default_value_t = -1, allow_negative_numbers = true, value_parser = score())]
    pub extend: i32,
}

fn score() -> clap::builder::RangedI64ValueParser<i32> {
    clap::value_parser!(i32).range(-1000..=1000)
}

impl Scores {
    /// How many symbols two sequences may have in all, so that no score comes near [`NEVER`].
    fn longest(&self) -> usize {
        let scores = [self.equal, self.different, self.open, self.extend];
        let largest = scores.map(i32::unsigned_abs).into_iter().fold(1, u32::max);
        (i32::MAX.unsigned_abs() / 8 / largest) as usize
    }

    /// Turns a row of cells into the next one: `symbol` of the first sequence against `columns` of
    /// the second. `row` begins one cell left of them, `before` is what it begins with afterwards.
    fn advance(&self, row: &mut [Cell], before: Cell, symbol: u8, columns: &[u8]) {
        let mut diagonal = std::mem::replace(&mut row[0], before);
        let mut left = before;
        for (cell, &other) in row[1..].iter_mut().zip(columns) {
            let up = *cell;
            let pair = if symbol == other {
                self.equal
            } else {
                self.different
            };
            *cell = [
                best(diagonal) + pair,
                best(self.gap_in_second(up)),
                best(self.gap_in_first(left)),
            ];
            (diagonal, left) = (up, *cell);
        }
    }

    /// Scores with one more gap in the second sequence, by what the alignment ended in before.
    fn gap_in_second(&self, [pair, second, first]: Cell) -> Cell {
        [pair + self.open, second + self.extend, first + self.open]
    }

    /// The same for a gap in the first.
    fn gap_in_first(&self, [pair, second, first]: Cell) -> Cell {
        [pair + self.open, second + self.open, first + self.extend]
    }

    /// A cell of the first column: `length` symbols of the first sequence against nothing.
    fn first_column(&self, length: usize) -> Cell {
        match length {
            0 => [0, NEVER, NEVER],
            _ => [NEVER, self.open + (length - 1) as i32 * self.extend, NEVER],
        }
    }

    /// A cell of the first row.
    fn first_row(&self, length: usize) -> Cell {
        let [pair, second, first] = self.first_column(length);
        [pair, first, second]
    }
}

fn best([pair, second, first]: Cell) -> i32 {
    pair.max(second).max(first)
}

/// What the last column of an alignment is: of the best endings of a cell the first.
fn ending(cell: Cell) -> Column {
    let score = best(cell);
    if cell[0] == score {
        Column::Pair
    } else if cell[1] == score {
        Column::GapInSecond
    } else {
        Column::GapInFirst
    }
}

// ── The table ────────────────────────────────────────────────────────────────────────────────────

/// One column of an alignment; the order is that of a [`Cell`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Column {
    /// A symbol of each.
    #[default]
    Pair,
    /// A symbol of the first sequence only.
    GapInSecond,
    /// A symbol of the second sequence only.
    GapInFirst,
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
        let longest = scores.longest();
        if first.len() + second.len() > longest {
            let text = format!(
                "{} + {} symbols are too long for these scores, which allow {longest} in all",
                first.len(),
                second.len()
            );
            return Err(Failure::new("too_long", text));
        }
        let nb = nb.max(1);
        let (rows, columns) = (first.len().div_ceil(nb), second.len().div_ceil(nb));
        // Borders of the table are known; those within it are filled by tasks.
        let top = |j| {
            Border(
                (j * nb..=second.len().min((j + 1) * nb))
                    .map(|j| scores.first_row(j))
                    .collect(),
            )
        };
        let side = |i| {
            Border(
                (i * nb + 1..=first.len().min((i + 1) * nb))
                    .map(|i| scores.first_column(i))
                    .collect(),
            )
        };
        let unknown = |n| std::iter::repeat_n(Border::default(), n);
        let above = Store::new(
            "above",
            (0..columns).map(top).chain(unknown(rows * columns)),
        );
        let within = rows * columns.saturating_sub(1);
        let left = Store::new("left", (0..rows).map(side).chain(unknown(within)));
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
                .map_or(Vec::new(), |border| border.0.clone())
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
            .and_then(|border| border.0.last().copied())
            .unwrap_or([NEVER; 3])
    }
}

// ── The way back ─────────────────────────────────────────────────────────────────────────────────

/// The best alignment, of a table whose tiles have run: from the last cell to the first. Of equally
/// good ones that whose last column comes first in the order of [`Column`], and so on towards the
/// first column.
///
/// Each tile hears from those below, right and diagonally beyond it; the way comes from at most one
/// of them, and goes on to one. The others send an empty one.
pub struct Back<'a> {
    table: &'a Alignment,
    /// On the rank of the first tile: where the way ended.
    end: Store<Way>,
}

/// How far one has come on the way back, from whichever cell it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Whether this is it: between most tiles the way does not lead.
    leads: bool,
    /// The score of the cell it began at.
    pub score: i32,
    /// The cell it has come to.
    i: usize,
    j: usize,
    /// What the next column is.
    next: Column,
    /// Those so far, the last one first.
    columns: Vec<Column>,
}

impl Datum for Way {}

impl Wire for Way {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        self.body().len()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(serde_json::to_vec(self).unwrap_or_default())
    }

    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        serde_json::from_slice(body.bytes()).map_err(|error| error.to_string())
    }
}

/// The ways that come from the tile below, from the right, from beyond both.
const FROM: [(usize, usize); 3] = [(1, 0), (0, 1), (1, 1)];
/// Those that go on, by the flow at which they arrive, from here on.
const ON: usize = FROM.len();

impl<'a> Back<'a> {
    /// The way back through a table.
    pub fn new(table: &'a Alignment) -> Self {
        let end = Store::empty("end", 1);
        Back { table, end }
    }

    /// The score, and the columns from first to last; once all tiles have run, on the rank of the
    /// first tile.
    pub fn alignment(&self) -> Option<(i32, Vec<Column>)> {
        let way = match self.table.n_rows().min(self.table.n_columns()) {
            0 => self.table.last(),
            _ => (*self.end.get(0)?).clone(),
        };
        let mut columns = way.columns;
        columns.extend(std::iter::repeat_n(Column::GapInSecond, way.i));
        columns.extend(std::iter::repeat_n(Column::GapInFirst, way.j));
        columns.reverse();
        Some((way.score, columns))
    }
}

impl TaskSpace for Back<'_> {
    type Task = Task;
    type Datum = Way;

    fn describe(&self, about: &mut Description) {
        about.name("way back").parameter("nb", self.table.nb);
        let tile = about.class("Tile");
        let tile = tile.optional("BELOW").optional("RIGHT").optional("BEYOND");
        tile.new_flow("UP").new_flow("LEFT").new_flow("BACK");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        self.table.tasks(on)
    }

    fn rank(&self, tile: Task) -> Rank {
        self.table.rank(tile)
    }

    fn inputs(&self, Tile { i, j }: Task, from: &mut impl Inputs<Self>) {
        for (flow, (down, right)) in FROM.into_iter().enumerate() {
            if i + down < self.table.n_rows() && j + right < self.table.n_columns() {
                from.task(
                    flow,
                    Tile {
                        i: i + down,
                        j: j + right,
                    },
                    ON + flow,
                );
            }
        }
    }

    fn successors(&self, Tile { i, j }: Task, to: &mut impl Successors<Self>) {
        for (flow, (down, right)) in FROM.into_iter().enumerate() {
            if let (Some(i), Some(j)) = (i.checked_sub(down), j.checked_sub(right)) {
                to.task(ON + flow, Tile { i, j }, flow);
            }
        }
        if (i, j) == (0, 0) {
            to.home(ON, &self.end, 0);
        }
    }

    fn run(&self, tile: Task, flows: &mut Flows<'_, Way>) -> Result<(), TaskError> {
        let Tile { i, j } = tile;
        let [below, right, beyond, up, left, back] = flows.slots();
        let came = [below, right, beyond].map(|way| way.get().filter(|way| way.leads));
        let is_last = i + 1 == self.table.n_rows() && j + 1 == self.table.n_columns();
        let mut way = match came.into_iter().flatten().next() {
            Some(way) => way.clone(),
            None if is_last => self.table.last(),
            None => Way::default(),
        };
        let (top, start) = (i * self.table.nb, j * self.table.nb);
        if way.leads && way.i > top && way.j > start {
            self.table.walk_back(tile, &mut way);
        }
        // Where one sequence has ended the way is known; it is handed on to the first tile.
        let ended = way.i == 0 || way.j == 0;
        let leaves_up = i > 0 && (ended || way.i <= top);
        let leaves_left = j > 0 && (ended || way.j <= start);
        let out = match (leaves_up, leaves_left) {
            (true, true) => 2,
            (false, true) => 1,
            _ => 0,
        };
        for (number, slot) in [up, left, back].into_iter().enumerate() {
            slot.put(match number == out {
                true => std::mem::take(&mut way),
                false => Way::default(),
            });
        }
        Ok(())
    }
}

/// The symbols of a tile's rows or columns.
fn part(sequence: &[u8], tile: usize, nb: usize) -> &[u8] {
    let start = tile * nb;
    &sequence[start..sequence.len().min(start + nb)]
}

// ── Sequences ────────────────────────────────────────────────────────────────────────────────────

/// The two records of a FASTA file, in capital letters.
///
/// # Errors
/// If the file cannot be read, is malformed, has not two records, or one of them is empty or has
/// symbols other than capital letters.
pub fn read_fasta(path: &Path) -> Result<[Vec<u8>; 2], Failure> {
    let malformed = |text: String| Failure::new("malformed", format!("{}: {text}", path.display()));
    let unread = |error| Failure::new("io", format!("{}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(unread)?;
    let mut reader =
        parse_fastx_reader(&bytes[..]).map_err(|error| malformed(error.to_string()))?;
    let mut sequences = Vec::new();
    while let Some(record) = reader.next() {
        let record = record.map_err(|error| malformed(error.to_string()))?;
        let number = sequences.len() + 1;
        if record.format() != Format::Fasta {
            return Err(malformed("is FASTQ, must be FASTA".into()));
        }
        let sequence = record.seq().into_owned();
        if sequence.is_empty() {
            return Err(malformed(format!("record {number} is empty")));
        }
        if let Some(at) = sequence
            .iter()
            .position(|symbol| !symbol.is_ascii_uppercase())
        {
            let symbol = sequence[at].escape_ascii();
            let text = format!(
                "symbol {} of record {number} is '{symbol}', must be a capital letter",
                at + 1
            );
            return Err(malformed(text));
        }
        sequences.push(sequence);
    }
    let n = sequences.len();
    sequences
        .try_into()
        .map_err(|_| malformed(format!("holds {n} records, must hold 2")))
}

/// A random sequence of `n` nucleotides and a relative of it: one symbol in ten replaced, and now
/// and then some symbols lost or gained.
pub fn related(n: usize, seed: u64) -> [Vec<u8>; 2] {
    let [mut symbols, mut random] = [0, 1].map(|stream| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        random
    });
    let mut nucleotide = || b"ACGT"[symbols.random_range(0..4)];
    let first: Vec<u8> = (0..n).map(|_| nucleotide()).collect();
    let mut second = Vec::with_capacity(n);
    let mut rest = first.iter();
    while let Some(&symbol) = rest.next() {
        match random.random_range(0..1000) {
            0..15 => rest = rest.as_slice()[rest.len().min(random.random_range(0..8))..].iter(),
            15..30 => second.extend((0..random.random_range(1..9)).map(|_| nucleotide())),
            30..130 => second.push(nucleotide()),
            _ => second.push(symbol),
        }
    }
    [first, second]
}

// ── The example ──────────────────────────────────────────────────────────────────────────────────

/// Also used by the tests.
pub const EXAMPLE: Example = Example {
    name: "alignment",
    about: "Aligns two sequences, optimally and globally, with affine gaps",
    runs: true,
    honours: &["n", "nb", "grid", "input", "seed"],
};

fn main() -> ExitCode {
    cli::run(&EXAMPLE, align)
}

/// The whole example: sequences, graph, alignment.
pub fn align(
    settings: &Settings<Scores>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let [first, second] = match &settings.input {
        Some(_) if settings.n.is_some() => {
            return Err(Failure::refused(
                "--n is for generated sequences, --input brings its own",
            ));
        }
        Some(path) => read_fasta(path)?,
        None => {
            outcome.seed = Some(settings.seed);
            related(settings.n.unwrap_or(1000), settings.seed)
        }
    };
    let longest = first.len().max(second.len());
    let nb = settings.nb.unwrap_or((longest / 64).clamp(64, 1024));
    (outcome.n, outcome.m, outcome.nb) = (Some(first.len()), Some(second.len()), Some(nb));
    let grid = settings.grid_of(runtime.n_ranks());
    outcome.grid = Some(grid.to_string());

    let alignment = Alignment::new(first, second, settings.own, nb, grid)?;
    let runs = (0..settings.repeat).map(|_| {
        let run = |monitor: &Monitor| run_across(&alignment, &runtime.watched_by(monitor));
        settings.measure(runtime, run)
    });
    outcome.measured = Measured::median(runs.collect::<Result<_, _>>()?);

    let back = Back::new(&alignment);
    runtime.run_across(&back)?;
    // Rank 0 has the first tile.
    let Some((score, columns)) = back.alignment() else {
        return Ok(());
    };
    outcome.set("score", score);
    outcome.set("alignment_length", columns.len());
    for line in alignment.page(&columns) {
        outcome.say(line);
    }
    outcome.say(format!("score {score}, {} columns", columns.len()));
    Ok(())
}

/// Columns of an alignment on a line.
const WRAP: usize = 60;

impl Alignment {
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
