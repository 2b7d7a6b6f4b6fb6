//! The choice: which columns come first, so that of any number of leading columns the others are
//! combinations, as nearly as can be had.
//!
//! # Law
//! A column of tiles is a strip, gathered where it is worked on. For each panel the strips put
//! forward their strongest columns, as many as the panel has rows; pairs of such sets play again, up
//! a binary tree, by the same rule. The winners leave their strips, and what they span is taken from
//! the columns that stay. Strips only shrink: no column is moved to make room for another, so every
//! edge is known beforehand, whoever wins. A strip's height is that of the rows below the panel.
//!
//! Strips and tree know nothing of the grid, so neither does the order. What comes out is an order
//! alone: the factorisation with it is [`Factor`](super::Factor)'s.
//!
//! # Source
//! Demmel, Grigori, Gu, Xiang, *Communication avoiding rank revealing QR factorization with column
//! pivoting*, SIAM J. Matrix Anal. Appl. 36 (2015).
//!
//! # Elsewhere
//! The rule: [`strongest_columns`](crate::kernel::strongest_columns). Rows that play for the top of a
//! panel: `lu/tournament.rs`.

use crate::error::LinalgError;
use crate::flops;
use crate::kernel::{Backend, Op, Side, gemqrt, geqrt, strongest_columns};
use crate::lu::first_entrant;
use crate::matrix::{Format, Part, Structure, Tile, TiledMatrix, expect_numbered};
use crate::scalar::{Scalar, number, set_number};
use crate::weight::Weight;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::placed;
use dataflow_core::{Report, task_names};
use std::ops::Range;
use std::sync::OnceLock;

task_names! {
    /// The tasks of a choice: (i, j) is a tile, j a strip, k a panel, v a node of the tree.
    pub enum ChoiceTask {
        Give { i, j }, Gather { j }, Merge { v, k }, Crown { k }, Turn { j, k }, Tell { rank },
    }
}
use ChoiceTask::{Crown, Gather, Give, Merge, Tell, Turn};

/// Gather and Turn: the strip, and the columns that it puts forward. A strip or a set has its columns
/// with their numbers below them, in one row more.
const STRIP: usize = 0;
const ENTRANTS: usize = 1;
/// Gather: the tiles of the strip, from here on.
const TILES: usize = 2;
/// Merge and Crown: the sets that play. Merge: the winners; Crown: the order so far.
const FIRST: usize = 0;
const WINNERS: usize = 1;
const SECOND: usize = 2;
/// Crown: the order before it, and what the winners span.
const BEFORE: usize = 3;
const MADE_V: usize = 4;
const MADE_T: usize = 5;
/// Turn: what the winners span, and the order.
const V: usize = 2;
const T_OF_V: usize = 3;
const ORDER: usize = 4;

/// The task space of the choice for a matrix that is not higher than wide.
///
/// # Examples
/// See [`pivoted`](super::pivoted()), which factors by the order that it finds.
#[derive(Debug)]
pub struct Choice<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    /// What was found, once this rank was told.
    order: &'a OnceLock<Vec<usize>>,
    backend: Backend,
    panels: u32,
    strips: u32,
    /// How many ranks are told.
    n_told: u32,
}

impl<T: Scalar> Clone for Choice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Scalar> Copy for Choice<'_, T> {}

/// The order of the columns of A, m ≤ n, in which QR with column pivoting takes them: entry j is the
/// number of the column that comes j-th; the same on every rank.
///
/// About 3.5 times the flops of a factorisation of A, mostly in products; a copy of A.
///
/// # Errors
/// If `a` is higher than wide or not stored as [`Structure::General`], or has more than 2³² − 1 columns; what
/// [`run_across`](dataflow_core::run_across) answers.
pub fn choose<T: Scalar>(
    a: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(Vec<usize>, Report), LinalgError> {
    let order = OnceLock::new();
    let choice = Choice::new(a, &order, backend)?.telling_all(on);
    let report = T::run_tiles(&choice.erased(), &[a], on).map_err(LinalgError::Run)?;
    // A run that ended well has told every rank.
    Ok((order.into_inner().unwrap_or_default(), report))
}

impl<'a, T: Scalar> Choice<'a, T> {
    /// The space for a matrix, and the place of the order: that of the first run stays there.
    ///
    /// # Errors
    /// As [`choose`].
    pub fn new(
        a: &'a TiledMatrix<T>,
        order: &'a OnceLock<Vec<usize>>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        if a.structure() != Structure::General || a.rows() > a.cols() {
            let text = format!(
                "columns are chosen of a matrix stored as General that is not higher than wide, \
                 this one{} is {:?}, {} x {}",
                a.label(),
                a.structure(),
                a.rows(),
                a.cols()
            );
            return Err(LinalgError::Shape(text));
        }
        expect_numbered("columns", a.cols())?;
        Ok(Choice {
            a,
            order,
            backend,
            panels: a.mt() as u32,
            strips: a.nt() as u32,
            n_told: a.distribution().n_ranks() as u32,
        })
    }

    /// The same for a run by this executor, over more ranks perhaps than have tiles.
    fn telling_all(self, on: &dyn Executor) -> Self {
        let n_told = self.a.n_told(on);
        Choice { n_told, ..self }
    }

    /// Where a strip is worked on: they are dealt to all ranks in turn.
    fn home(&self, j: u32) -> Rank {
        Rank(j % self.a.distribution().n_ranks() as u32)
    }

    fn is_last(&self, k: u32) -> bool {
        k + 1 == self.panels
    }

    /// How many columns win panel k.
    fn width(&self, k: u32) -> usize {
        self.a.tile_rows(k as usize)
    }

    /// Who makes the set at a node of the tree: 1 is the root, below `v` come `2·v` and `2·v + 1`,
    /// the strips are the leaves.
    fn made(&self, v: u32, k: u32) -> (ChoiceTask, usize) {
        match (v.checked_sub(self.strips), k.checked_sub(1)) {
            (Some(j), None) => (Gather { j }, ENTRANTS),
            (Some(j), Some(k)) => (Turn { j, k }, ENTRANTS),
            (None, _) => (Merge { v, k }, WINNERS),
        }
    }

    /// The match in which the set at a node plays.
    fn match_of(v: u32, k: u32) -> (ChoiceTask, usize) {
        let flow = if v % 2 == 1 && v > 1 { SECOND } else { FIRST };
        match v / 2 {
            0 | 1 => (Crown { k }, flow),
            v => (Merge { v, k }, flow),
        }
    }

    /// The nodes whose winners play at a node; a strip alone has none but itself.
    fn below(&self, v: u32) -> Range<u32> {
        match (v, self.strips) {
            (1, 1) => v..v + 1,
            _ => 2 * v..2 * v + 2,
        }
    }

    /// Says whose columns play at a node.
    fn players(&self, v: u32, k: u32, from: &mut impl Inputs<Self>) {
        for (v, flow) in self.below(v).zip([FIRST, SECOND]) {
            let (source, its) = self.made(v, k);
            from.task(flow, source, its);
        }
    }

    /// Hands on the set at a node.
    fn advance(&self, flow: usize, v: u32, k: u32, to: &mut impl Successors<Self>) {
        let (target, its) = Self::match_of(v, k);
        to.task(flow, target, its);
    }

    /// The strongest columns of a strip or of some sets.
    fn winners(&self, of: &NumberedColumns<T>, most: usize) -> NumberedColumns<T> {
        let order = strongest_columns(self.backend, &of.tile, most);
        of.select(&order, 0)
    }

    /// STRIP ← its tiles, one below the other; ENTRANTS ← its strongest columns.
    fn gather(&self, j: u32, flows: &mut Flows<'_, Tile<T>>) {
        let cols = self.a.col_range(j as usize);
        let (height, memory) = (self.a.rows(), self.a.memory());
        let mut tile = Tile::new(height, cols.len(), Format::ColumnMajor, memory);
        let ([strip, entrants], tiles, []) = flows.split();
        for (i, slot) in tiles.enumerate() {
            let top = self.a.row_range(i).start;
            slot.read()
                .write_column_major(&mut tile.as_mut_slice()[top..], height);
        }
        let columns = NumberedColumns {
            tile,
            numbers: cols.map(|col| col as u32).collect(),
        };
        entrants.put(self.winners(&columns, self.width(0)).packed());
        strip.put(columns.packed());
    }

    /// ORDER ← the winners of panel k behind those before; V and T ← what they span.
    fn crown(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [first, order, second, before, made_v, made_t] = flows.slots();
        let sets = [Some(first.read()), second.get()];
        let sets = sets.into_iter().flatten().map(NumberedColumns::of);
        let winners = self.winners(&NumberedColumns::joined(sets.collect()), self.width(k));
        let memory = self.a.memory();
        let so_far = before.get().map(numbers_of).unwrap_or_default();
        let so_far = [so_far, winners.numbers].concat();
        let mut list = Tile::new(so_far.len(), 1, Format::ColumnMajor, memory);
        let places = list.as_mut_slice().iter_mut().zip(&so_far);
        places.for_each(|(place, &number)| set_number(place, number));
        order.put(list);
        if self.is_last(k) {
            return;
        }
        // [winners] = Q·R with Q = I − V·T·Vᴴ
        let mut r = winners.tile;
        let (height, width) = (r.rows(), r.cols());
        let ib = super::default_inner_block(self.a.nb());
        let mut v = Tile::new(height, width, Format::ColumnMajor, memory);
        let mut t = Tile::new(ib, width, Format::ColumnMajor, memory);
        geqrt(self.backend, &mut r, &mut v, &mut t);
        v.set_part(Part::UnitLower);
        t.set_part(Part::UpperBlocks);
        made_v.put(v);
        made_t.put(t);
    }

    /// STRIP ← Qᴴ·STRIP without the winners and the rows of panel k; ENTRANTS ← its strongest columns.
    fn turn(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [strip, entrants, v, t, order] = flows.slots();
        let (strip, v) = (strip.update(), v.read());
        let order = numbers_of(order.read());
        let won = &order[order.len() - v.cols()..];
        let columns = NumberedColumns::of(strip);
        let stay = columns.numbers.iter().enumerate();
        let stay = stay.filter(|(_, number)| !won.contains(number));
        let stay: Vec<usize> = stay.map(|(at, _)| at).collect();
        let mut columns = columns.select(&stay, 0);
        if !stay.is_empty() {
            let adjoint = (Side::Left, Op::ConjTranspose);
            gemqrt(self.backend, adjoint, v, t.read(), &mut columns.tile);
        }
        let all: Vec<usize> = (0..stay.len()).collect();
        let columns = columns.select(&all, v.cols());
        entrants.put(self.winners(&columns, self.width(k + 1)).packed());
        *strip = columns.packed();
    }

    /// What was found: the winners, then those that never won.
    fn tell(&self, order: Option<&Tile<T>>) {
        let won = order.map(numbers_of).unwrap_or_default();
        let mut is_left = vec![true; self.a.cols()];
        won.iter()
            .for_each(|&column| is_left[column as usize] = false);
        let left = (0..self.a.cols()).filter(|&column| is_left[column]);
        let all = won.iter().map(|&column| column as usize).chain(left);
        self.order.get_or_init(|| all.collect());
    }
}

/// What is expected if columns of all strips are as likely to win.
impl<T: Scalar> Weight for Choice<'_, T> {
    fn bytes(&self, task: ChoiceTask, flow: usize) -> u64 {
        let set = |k: u32, columns: f64| {
            let elements = (self.height(k) + 1) as f64 * columns;
            (elements * size_of::<T>() as f64).round() as u64
        };
        match (task, flow) {
            (Give { i, j }, _) => self.a.tile_bytes((i, j)),
            (Gather { j }, ENTRANTS) => set(0, self.players_of(self.strips + j, 0)),
            (Turn { j, k }, ENTRANTS) => set(k + 1, self.players_of(self.strips + j, k + 1)),
            (Merge { v, k }, _) => set(k, self.players_of(v, k)),
            (Crown { k }, WINNERS) => Part::Whole.bytes::<T>((self.won(k + 1), 1)),
            (Crown { k }, MADE_V) => Part::UnitLower.bytes::<T>((self.height(k), self.width(k))),
            (Crown { k }, MADE_T) => {
                let ib = super::default_inner_block(self.a.nb());
                Part::UpperBlocks.bytes::<T>((ib, self.width(k)))
            }
            (Gather { j }, _) => set(0, self.left(j, 0)),
            (Turn { j, k }, _) => set(k + 1, self.left(j, k + 1)),
            (Crown { .. } | Tell { .. }, _) => 0,
        }
    }

    fn flops(&self, task: ChoiceTask) -> f64 {
        let choose = |k: u32, columns: f64| {
            let (height, columns) = (self.height(k), columns.round() as usize);
            let (rows, most) = (height.min(columns), self.width(k).min(columns));
            let pivoted =
                flops::geqrf::<T>(rows, most) + flops::unmqr::<T>(rows, columns - most, most);
            (flops::geqrf::<T>(height, columns) + pivoted) as f64
        };
        match task {
            Give { .. } | Tell { .. } => 0.0,
            Gather { j } => choose(0, self.left(j, 0)),
            Merge { v, k } => choose(k, self.pair(v, k)),
            Crown { k } => {
                let spans = match self.is_last(k) {
                    true => 0.0,
                    false => flops::geqrf::<T>(self.height(k), self.width(k)) as f64,
                };
                choose(k, self.pair(1, k)) + spans
            }
            Turn { j, k } => {
                let left = self.left(j, k + 1);
                let columns = left.round() as usize;
                let turned = flops::unmqr::<T>(self.height(k), columns, self.width(k));
                turned as f64 + choose(k + 1, left)
            }
        }
    }
}

impl<T: Scalar> Choice<'_, T> {
    /// Rows from panel k on.
    fn height(&self, k: u32) -> usize {
        self.a.rows() - self.won(k)
    }

    /// How many columns have won before panel k.
    fn won(&self, k: u32) -> usize {
        (k as usize * self.a.nb()).min(self.a.rows())
    }

    /// How many columns of a strip are expected to be left at panel k.
    fn left(&self, j: u32, k: u32) -> f64 {
        let lost = self.won(k) as f64 / self.a.cols() as f64;
        self.a.tile_cols(j as usize) as f64 * (1.0 - lost)
    }

    /// How many columns play at a node.
    fn pair(&self, v: u32, k: u32) -> f64 {
        self.below(v).map(|v| self.players_of(v, k)).sum()
    }

    /// How many columns of a node play on.
    fn players_of(&self, v: u32, k: u32) -> f64 {
        let all = match v.checked_sub(self.strips) {
            Some(j) => self.left(j, k),
            None => self.pair(v, k),
        };
        all.min(self.width(k) as f64)
    }
}

/// Columns of equal height, and their numbers in the matrix.
struct NumberedColumns<T: Scalar> {
    tile: Tile<T>,
    numbers: Vec<u32>,
}

impl<T: Scalar> NumberedColumns<T> {
    /// From how they travel: with their numbers below them.
    fn of(packed: &Tile<T>) -> Self {
        let (rows, cols) = (packed.rows() - 1, packed.cols());
        let mut tile = Tile::unspecified(rows, cols, Format::ColumnMajor, packed.memory());
        let from = packed.as_slice().chunks_exact(rows + 1);
        let to = tile.as_mut_slice().chunks_exact_mut(rows.max(1));
        to.zip(from)
            .for_each(|(to, from)| to.copy_from_slice(&from[..rows]));
        let numbers = packed.as_slice().chunks_exact(rows + 1);
        let numbers = numbers.map(|column| number(column[rows])).collect();
        NumberedColumns { tile, numbers }
    }

    fn packed(&self) -> Tile<T> {
        let (rows, cols) = (self.tile.rows(), self.tile.cols());
        let mut packed = Tile::new(rows + 1, cols, Format::ColumnMajor, self.tile.memory());
        let from = self.tile.as_slice().chunks_exact(rows.max(1));
        let to = packed.as_mut_slice().chunks_exact_mut(rows + 1);
        for ((to, from), &number) in to.zip(from).zip(&self.numbers) {
            to[..rows].copy_from_slice(from);
            set_number(&mut to[rows], number);
        }
        packed
    }

    /// Some of them, from a row on.
    fn select(&self, which: &[usize], top: usize) -> Self {
        let rows = self.tile.rows();
        let (height, memory) = (rows - top, self.tile.memory());
        let mut tile = Tile::unspecified(height, which.len(), Format::ColumnMajor, memory);
        let to = tile.as_mut_slice().chunks_exact_mut(height.max(1));
        for (to, &at) in to.zip(which) {
            to.copy_from_slice(&self.tile.as_slice()[at * rows + top..][..height]);
        }
        let numbers = which.iter().map(|&at| self.numbers[at]).collect();
        NumberedColumns { tile, numbers }
    }

    /// Those of one or two sets, one beside the other.
    fn joined(mut sets: Vec<Self>) -> Self {
        let Some(second) = sets.pop() else {
            unreachable!("a match without players");
        };
        let Some(first) = sets.pop() else {
            return second;
        };
        let (rows, memory) = (first.tile.rows(), first.tile.memory());
        let cols = first.tile.cols() + second.tile.cols();
        let mut tile = Tile::unspecified(rows, cols, Format::ColumnMajor, memory);
        let (left, right) = tile.as_mut_slice().split_at_mut(rows * first.tile.cols());
        left.copy_from_slice(first.tile.as_slice());
        right.copy_from_slice(second.tile.as_slice());
        let numbers = [first.numbers, second.numbers].concat();
        NumberedColumns { tile, numbers }
    }
}

/// The numbers that stand in the places of the elements of a list.
fn numbers_of<T: Scalar>(list: &Tile<T>) -> Vec<u32> {
    list.as_slice().iter().copied().map(number).collect()
}

fn give((i, j): (u32, u32)) -> ChoiceTask {
    Give { i, j }
}

/// The tasks of all ranks, but those that a rank has for its own tiles and to be told.
fn shared_tasks(panels: u32, strips: u32) -> impl Iterator<Item = ChoiceTask> + Send {
    let gather = (0..if panels > 0 { strips } else { 0 }).map(|j| Gather { j });
    let of_panel = move |k| {
        let merges = (2..strips).map(move |v| Merge { v, k });
        let turned = if k + 1 < panels { strips } else { 0 };
        let turns = (0..turned).map(move |j| Turn { j, k });
        merges.chain([Crown { k }]).chain(turns)
    };
    gather.chain((0..panels).flat_map(of_panel))
}

/// The classes of tasks, and their flows.
fn describe_classes(about: &mut Description, panels: u32) {
    about.class("Give").read("TILE");
    let gather = about.class("Gather").new_flow("STRIP").of("strip");
    let mut gather = gather.new_flow("ENTRANTS").of("set");
    for _ in 0..panels {
        gather = gather.read("TILE");
    }
    let merge = about.class("Merge").read("FIRST").of("set");
    merge.new_flow("WINNERS").of("set").read("SECOND").of("set");
    let crown = about.class("Crown").read("FIRST").of("set");
    let crown = crown.new_flow("ORDER").of("numbers");
    let crown = crown.optional("SECOND").of("set");
    let crown = crown.optional("BEFORE").of("numbers");
    crown.new_flow("V").new_flow("T").of("triangle");
    let turn = about.class("Turn").update("STRIP").of("strip");
    let turn = turn.new_flow("ENTRANTS").of("set");
    let turn = turn.read("V").read("T").of("triangle");
    turn.read("ORDER").of("numbers");
    about.class("Tell").optional("ORDER").of("numbers");
}

impl<T: Scalar> TaskSpace for Choice<'_, T> {
    type Task = ChoiceTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about
            .name("choice of columns")
            .parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend);
        describe_classes(about, self.panels);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = ChoiceTask> + Send {
        let given = self.a.layout().tiles_of(on).map(give);
        let rest = placed(self, on, shared_tasks(self.panels, self.strips));
        given.chain(rest).chain([Tell { rank: on.0 }])
    }

    fn inputs(&self, task: ChoiceTask, from: &mut impl Inputs<Self>) {
        match task {
            Give { i, j } => from.home(0, self.a.store(), self.a.place(i, j)),
            Gather { j } => {
                (0..self.panels).for_each(|i| from.task(TILES + i as usize, Give { i, j }, 0));
            }
            Merge { v, k } => self.players(v, k, from),
            Crown { k } => {
                self.players(1, k, from);
                if let Some(k) = k.checked_sub(1) {
                    from.task(BEFORE, Crown { k }, WINNERS);
                }
            }
            Turn { j, k } => {
                match k.checked_sub(1) {
                    None => from.task(STRIP, Gather { j }, STRIP),
                    Some(k) => from.task(STRIP, Turn { j, k }, STRIP),
                }
                from.task(V, Crown { k }, MADE_V);
                from.task(T_OF_V, Crown { k }, MADE_T);
                from.task(ORDER, Crown { k }, WINNERS);
            }
            Tell { .. } => {
                if let Some(k) = self.panels.checked_sub(1) {
                    from.task(0, Crown { k }, WINNERS);
                }
            }
        }
    }

    fn successors(&self, task: ChoiceTask, to: &mut impl Successors<Self>) {
        let strips = self.strips;
        match task {
            Give { i, j } => to.task(0, Gather { j }, TILES + i as usize),
            Gather { j } => {
                self.advance(ENTRANTS, strips + j, 0, to);
                if !self.is_last(0) {
                    to.task(STRIP, Turn { j, k: 0 }, STRIP);
                }
            }
            Merge { v, k } => self.advance(WINNERS, v, k, to),
            Crown { k } if self.is_last(k) => {
                to.range(WINNERS, 0..self.n_told, |rank| Tell { rank }, 0);
            }
            Crown { k } => {
                to.task(WINNERS, Crown { k: k + 1 }, BEFORE);
                to.range(WINNERS, 0..strips, |j| Turn { j, k }, ORDER);
                to.range(MADE_V, 0..strips, |j| Turn { j, k }, V);
                to.range(MADE_T, 0..strips, |j| Turn { j, k }, T_OF_V);
            }
            Turn { j, k } => {
                self.advance(ENTRANTS, strips + j, k + 1, to);
                if !self.is_last(k + 1) {
                    to.task(STRIP, Turn { j, k: k + 1 }, STRIP);
                }
            }
            Tell { .. } => {}
        }
    }

    fn run(&self, task: ChoiceTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            // It hands on what it reads.
            Give { .. } => {}
            Gather { j } => self.gather(j, flows),
            Merge { k, .. } => {
                let [first, winners, second] = flows.slots();
                let (one, other) = (first.read(), second.read());
                let sets = vec![NumberedColumns::of(one), NumberedColumns::of(other)];
                let best = self.winners(&NumberedColumns::joined(sets), self.width(k));
                winners.put(best.packed());
            }
            Crown { k } => self.crown(k, flows),
            Turn { k, .. } => self.turn(k, flows),
            Tell { .. } => {
                let [order] = flows.slots();
                self.tell(order.get());
            }
        }
        Ok(())
    }

    fn rank(&self, task: ChoiceTask) -> Rank {
        match task {
            Give { i, j } => self.a.rank_of(i as usize, j as usize),
            Gather { j } | Turn { j, .. } => self.home(j),
            Merge { v, .. } => self.home(first_entrant(v, self.strips)),
            Crown { .. } => self.home(first_entrant(1, self.strips)),
            Tell { rank } => Rank(rank),
        }
    }

    /// Panel by panel; within one the matches first.
    fn priority(&self, task: ChoiceTask) -> i64 {
        let panels = match task {
            Give { .. } | Gather { .. } => 0,
            Merge { k, .. } | Crown { k } => 2 * k,
            Turn { k, .. } => 2 * k + 1,
            Tell { .. } => 2 * self.panels,
        };
        -i64::from(panels)
    }
}
