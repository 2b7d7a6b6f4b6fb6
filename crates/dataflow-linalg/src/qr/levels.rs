//! Bottom levels of the factorisation: how long the way from a task to the end is.
//!
//! # Law
//! In units of nb³/3 flops, a task's own weight included. A panel's tasks are waited for by those
//! of all columns right of it, a row's steps by the next step of its rows in the same column.

use super::elimination::{Elimination, RowStep};
use crate::kernel::Below;

/// The levels of all tasks, whatever rank they are on: 8 bytes for each tile and each panel that reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    nt: usize,
    /// Of panel k: rows from k on, the two steps that a row can have, columns from k on.
    panels: Vec<Vec<u32>>,
}

impl Levels {
    /// The levels of a matrix with `nt` columns of tiles.
    pub(super) fn of(elimination: &Elimination, nt: usize) -> Self {
        let mut levels = Levels {
            nt,
            panels: Vec::new(),
        };
        let mt = elimination.mt() as usize;
        let room = |k| vec![0; Self::of_panel((mt, nt), k) as usize];
        let room = (0..elimination.panels() as usize).map(room);
        levels.panels = room.collect();
        for k in (0..elimination.panels()).rev() {
            let kills = elimination.order(k).iter().rev();
            for &m in kills {
                levels.add(elimination, RowStep::Eliminate { m, k });
            }
            for m in (k..elimination.mt()).filter(|&m| elimination.is_triangle(k, m)) {
                levels.add_reflect(elimination, m, k);
            }
        }
        levels
    }

    /// How many there are of a panel of mt × nt tiles.
    fn of_panel((mt, nt): (usize, usize), k: usize) -> u128 {
        2 * (mt - k) as u128 * (nt - k) as u128
    }

    /// The bytes that those of mt × nt tiles take.
    pub(crate) fn bytes((mt, nt): (usize, usize)) -> u128 {
        let of_panel = |k| Self::of_panel((mt, nt), k);
        (0..mt.min(nt)).map(of_panel).sum::<u128>() * size_of::<u32>() as u128
    }

    /// Where the level of a row's step in column `n` lies.
    fn place(&self, m: u32, k: u32, reflects: bool, n: usize) -> (usize, usize) {
        let (m, k) = (m as usize, k as usize);
        let step = 2 * (m - k) + usize::from(reflects);
        (k, step * (self.nt - k) + n - k)
    }

    /// The level of a step in column `n`; of the step of row `row` that makes it a triangle, or of
    /// the one in which a row vanishes.
    pub(super) fn of_step(&self, step: RowStep, row: u32, n: u32) -> u32 {
        let (k, at) = match step {
            RowStep::Reflect { k } => self.place(row, k, true, n as usize),
            RowStep::Eliminate { m, k } => self.place(m, k, false, n as usize),
            RowStep::Stay { .. } => return 0,
        };
        self.panels[k][at]
    }

    fn add(&mut self, elimination: &Elimination, step: RowStep) {
        let RowStep::Eliminate { m, k } = step else {
            return;
        };
        let weights = match elimination.below(k, m) {
            Below::Square => [6, 12],
            Below::Triangle => [2, 6],
        };
        let rows = [Some(m), elimination.pivot(k, m)];
        self.fill(elimination, (step, m, k), rows, weights);
    }

    fn add_reflect(&mut self, elimination: &Elimination, m: u32, k: u32) {
        let step = RowStep::Reflect { k };
        self.fill(elimination, (step, m, k), [Some(m), None], [4, 6]);
    }

    /// A step in all columns: those on the right first, which wait for the panel's.
    fn fill(
        &mut self,
        elimination: &Elimination,
        (step, m, k): (RowStep, u32, u32),
        rows: [Option<u32>; 2],
        [own, beside]: [u32; 2],
    ) {
        let after = rows
            .map(|row| row.and_then(|row| Some((elimination.step_after(row, Some(step))?, row))));
        let longest = |levels: &Self, n: u32| {
            let after = after.iter().flatten().filter(|(next, _)| next.panel() <= n);
            let of_next = after.map(|&(next, row)| levels.of_step(next, row, n));
            of_next.max().unwrap_or(0)
        };
        let reflects = matches!(step, RowStep::Reflect { .. });
        let mut most = 0;
        for n in k + 1..self.nt as u32 {
            let level = beside + longest(self, n);
            let (panel, at) = self.place(m, k, reflects, n as usize);
            self.panels[panel][at] = level;
            most = most.max(level);
        }
        let level = own + longest(self, k).max(most);
        let (panel, at) = self.place(m, k, reflects, k as usize);
        self.panels[panel][at] = level;
    }
}
