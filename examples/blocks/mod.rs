//! Tables of numbers in blocks, dealt out to a grid of ranks: what the examples of first graphs share.

// Each example uses its part.
#![allow(dead_code)]

use common::cli::settings::Grid;
use common::cli::{Failure, Outcome, Settings};
use common::problem::{OF_A_TASK, expect_room};
use dataflow::core::words::counted;
use dataflow::linalg::matrix::digest::Digest;
use dataflow::prelude::*;
use dataflow::{Error, Runtime};
use std::ops::Range;

/// A table of `rows × columns` numbers in blocks of `mb × nb`, those at the end smaller. A block is a
/// vector, row by row; block (i, j) lies in slot `i · nt + j` of a store, on its owner.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    pub rows: usize,
    pub columns: usize,
    pub mb: usize,
    pub nb: usize,
    pub grid: Grid,
}

/// No flags but those of all examples, of which two say how large the table is.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(
    mut_arg("n", |n| n.help("Rows and columns of the table [default: 512]")),
    mut_arg("nb", |nb| nb.help("Rows and columns of a block [default: 64]"))
)]
pub struct OfTable {}

/// Tables of more rows are checked only if that is asked for.
pub const MOST_CHECKED: usize = 1024;

impl Blocks {
    /// The square table that is asked for, of 512 rows in blocks of 64 if nothing is said; in the
    /// outcome too. A check holds so many numbers beside for each of its own.
    ///
    /// # Errors
    /// As [`with_room`](Self::with_room).
    pub fn square(
        settings: &Settings<OfTable>,
        runtime: &Runtime,
        outcome: &mut Outcome,
        of_check: u32,
    ) -> Result<Blocks, Failure> {
        let n = settings.n.unwrap_or(512);
        let nb = settings.nb.unwrap_or(64).min(n.max(1));
        let grid = settings.grid_of(runtime.n_ranks());
        (outcome.n, outcome.nb, outcome.grid) = (Some(n), Some(nb), Some(grid.to_string()));
        outcome.precision = Some("f64".into());
        let blocks = Blocks {
            rows: n,
            columns: n,
            mb: nb,
            nb,
            grid,
        };
        let is_checked = settings.check.unwrap_or(n <= MOST_CHECKED);
        blocks.with_room(runtime, if is_checked { of_check } else { 0 })
    }

    /// The same, if its blocks can be numbered in 32 bits and there is room for a rank's part of them, and
    /// for so many numbers beside for each of the whole table.
    ///
    /// # Errors
    /// If they are too many.
    pub fn with_room(self, runtime: &Runtime, beside: u32) -> Result<Blocks, Failure> {
        let blocks = self.numbered()?;
        let bytes = blocks.bytes(runtime, beside);
        expect_room(&format!("--n {}", blocks.rows), bytes, runtime).map(|()| blocks)
    }

    /// What a rank's part of them takes, and so many numbers beside for each of the whole table.
    fn bytes(&self, runtime: &Runtime, beside: u32) -> u128 {
        let numbers = self.rows as u128 * self.columns as u128;
        let own = numbers.div_ceil(runtime.n_ranks() as u128);
        let held = own.saturating_add(numbers.saturating_mul(beside.into()));
        let slots = u128::from(self.mt()) * u128::from(self.nt());
        let bytes = held.saturating_mul(size_of::<f64>() as u128);
        bytes.saturating_add(slots * size_of::<Vec<f64>>() as u128)
    }

    /// Refuses a recorded program of so many tasks, which every rank keeps as a whole beside its part of
    /// the blocks, if there is no room for both.
    ///
    /// # Errors
    /// If there is none.
    pub fn expect_program(&self, n_tasks: u128, runtime: &Runtime) -> Result<(), Failure> {
        let program = OF_A_TASK.saturating_mul(n_tasks);
        let bytes = self.bytes(runtime, 0).saturating_add(program);
        let n_tasks = counted(n_tasks, "task");
        let asked = format!("--n {} --nb {}: {n_tasks}", self.rows, self.nb);
        expect_room(&asked, bytes, runtime)
    }

    fn numbered(self) -> Result<Blocks, Failure> {
        let Blocks { rows, columns, .. } = self;
        let [mt, nt] = [rows.div_ceil(self.mb), columns.div_ceil(self.nb)];
        match mt as u128 * nt as u128 > u32::MAX.into() {
            true => Err(Failure::refused(format!(
                "--n {rows} --nb {}: {rows} x {columns} numbers are {mt} x {nt} blocks, at most {} may be",
                self.mb,
                u32::MAX
            ))),
            false => Ok(self),
        }
    }

    /// Rows of blocks.
    pub fn mt(&self) -> u32 {
        self.rows.div_ceil(self.mb) as u32
    }

    /// Columns of blocks.
    pub fn nt(&self) -> u32 {
        self.columns.div_ceil(self.nb) as u32
    }

    /// Slot of a block in a store.
    pub fn slot(&self, i: u32, j: u32) -> usize {
        (i * self.nt() + j) as usize
    }

    /// Whose block it is: rows and columns are dealt out in turn.
    pub fn owner(&self, i: u32, j: u32) -> Rank {
        let Grid { rows, columns } = self.grid;
        Rank((i as usize % rows * columns + j as usize % columns) as u32)
    }

    /// Rows and columns of the table that a block holds.
    pub fn extent(&self, i: u32, j: u32) -> [Range<usize>; 2] {
        let part = |k: u32, nb: usize, n: usize| k as usize * nb..n.min((k as usize + 1) * nb);
        [part(i, self.mb, self.rows), part(j, self.nb, self.columns)]
    }

    /// The blocks of a rank.
    pub fn of(&self, rank: Rank) -> impl Iterator<Item = (u32, u32)> {
        let nt = self.nt();
        let all = (0..self.mt()).flat_map(move |i| (0..nt).map(move |j| (i, j)));
        all.filter(move |&(i, j)| self.owner(i, j) == rank)
    }

    /// A store with no block in it yet.
    pub fn store(&self, name: &str) -> Store<Vec<f64>> {
        Store::empty(name, self.slot(self.mt(), 0))
    }

    /// Puts a rank's blocks into their store: each row's part, by its number and columns.
    pub fn fill<Row: Iterator<Item = f64>>(
        &self,
        store: &Store<Vec<f64>>,
        rank: Rank,
        row: impl Fn(usize, Range<usize>) -> Row,
    ) {
        for (i, j) in self.of(rank) {
            let [rows, columns] = self.extent(i, j);
            let block = rows.flat_map(|at| row(at, columns.clone())).collect();
            let put = store.put(self.slot(i, j), Version::new(block));
            assert!(put.is_some(), "a slot for each block");
        }
    }

    /// Looks at all numbers of a rank: row, column, value.
    pub fn each(
        &self,
        store: &Store<Vec<f64>>,
        rank: Rank,
        mut look: impl FnMut(usize, usize, f64),
    ) {
        for (i, j) in self.of(rank) {
            let block = store.get(self.slot(i, j));
            let block = block.expect("after a run all data are at home");
            let [rows, columns] = self.extent(i, j);
            for (row, values) in rows.zip(block.chunks_exact(columns.len())) {
                for (column, value) in columns.clone().zip(values) {
                    look(row, column, *value);
                }
            }
        }
    }

    /// The digest of the table, the same on every rank.
    pub fn digest(&self, store: &Store<Vec<f64>>, runtime: &Runtime) -> Result<String, Error> {
        let mut own = Digest::default();
        self.each(store, runtime.rank(), |row, column, value| {
            own = own + Digest::of_entry(row as u64, column as u64, value);
        });
        let all = runtime.all_reduce(own.0, u64::wrapping_add)?;
        Ok(Digest(all).to_string())
    }
}
