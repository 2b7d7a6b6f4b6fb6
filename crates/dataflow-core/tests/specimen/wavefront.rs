//! A wavefront: a square of tasks, each after the one above and the one to the left; no data.

use super::{Specimen, digest};
use dataflow_core::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many bits the names of the tasks have, and whether they are numbered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Naming {
    /// Names that pack into a word.
    Packed,
    /// Names that do not.
    Wide,
    /// Names that pack, and a dense index.
    Dense,
    /// Names that pack, and an index that is anything but dense.
    Huge,
}

/// `side × side` tasks.
pub struct Wavefront {
    side: u32,
    naming: Naming,
    /// By task: the digest of its name and of its predecessors' digests, added once per run of it.
    seen: Vec<AtomicU64>,
}

/// The row and the column of a task; in wide names far from the origin.
pub type Cell = (u32, u32);

impl Wavefront {
    pub fn new(side: u32) -> Self {
        Self::named(side, Naming::Packed)
    }

    pub fn named(side: u32, naming: Naming) -> Self {
        let seen = (0..side * side).map(|_| AtomicU64::new(0)).collect();
        Wavefront { side, naming, seen }
    }

    /// Row and column of the first task.
    fn origin(&self) -> u32 {
        if self.naming == Naming::Wide {
            1 << 30
        } else {
            0
        }
    }

    fn seen(&self, (i, j): Cell) -> Option<&AtomicU64> {
        let (i, j) = (i - self.origin(), j - self.origin());
        (i < self.side && j < self.side).then(|| &self.seen[(i * self.side + j) as usize])
    }
}

const ABOVE: usize = 0;
const LEFT: usize = 1;

impl TaskSpace for Wavefront {
    type Task = Cell;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("wavefront").parameter("side", self.side);
        about.class("Cell").order("ABOVE").order("LEFT");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Cell> + Send {
        let all = self.origin()..self.origin() + self.side;
        all.clone()
            .flat_map(move |i| all.clone().map(move |j| (i, j)))
    }

    fn inputs(&self, (i, j): Cell, from: &mut impl Inputs<Self>) {
        if i > self.origin() {
            from.task(ABOVE, (i - 1, j), ABOVE);
        }
        if j > self.origin() {
            from.task(LEFT, (i, j - 1), LEFT);
        }
    }

    fn successors(&self, (i, j): Cell, to: &mut impl Successors<Self>) {
        let end = self.origin() + self.side;
        if i + 1 < end {
            to.task(ABOVE, (i + 1, j), ABOVE);
        }
        if j + 1 < end {
            to.task(LEFT, (i, j + 1), LEFT);
        }
    }

    fn run(&self, (i, j): Cell, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        let before = |cell: Option<Cell>| match cell.and_then(|cell| self.seen(cell)) {
            Some(seen) => seen.load(Ordering::Relaxed),
            None => 7,
        };
        let (row, column) = (i - self.origin(), j - self.origin());
        let above = before((row > 0).then(|| (i - 1, j)));
        let left = before((column > 0).then(|| (i, j - 1)));
        let own = digest([u64::from(row), u64::from(column), above, left]);
        if let Some(seen) = self.seen((i, j)) {
            seen.fetch_add(own, Ordering::Relaxed);
        }
        Ok(())
    }

    fn index(&self, (i, j): Cell) -> Option<usize> {
        let number = i as usize * (self.side as usize + 2) + j as usize;
        match self.naming {
            Naming::Dense => Some(number),
            Naming::Huge => Some(usize::MAX - number),
            Naming::Packed | Naming::Wide => None,
        }
    }
}

impl Specimen for Wavefront {
    fn fresh(&self) -> Self {
        Self::named(self.side, self.naming)
    }
    fn outcome(&self) -> Vec<u64> {
        self.seen
            .iter()
            .map(|seen| seen.load(Ordering::Relaxed))
            .collect()
    }
    fn holes(&self) -> Vec<String> {
        vec![]
    }
    fn strangers(&self) -> Vec<Cell> {
        let end = self.origin() + self.side;
        vec![(end, end), (self.origin(), end)]
    }
}
