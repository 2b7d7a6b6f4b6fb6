//! Weighed: what the tasks of QR and of what follows it cost, and what they send.
//!
//! # Law
//! Which columns are chosen depends on the matrix: those of a strip are taken to be as likely as any other
//! to win. The rank is taken to be full.

use super::leading::{HEAD, OF_A_PART};
use super::reflectors::Reflectors;
use super::{
    Adjoint, AdjointTask, Apply, ApplyTask, Arrange, ArrangeTask, Factor, Leading, LeadingTask,
    Solve, SolveTask, Tall, TallTask, Task,
};
use crate::flops::{self, products};
use crate::kernel::Side;
use crate::matrix::{Part, TiledMatrix};
use crate::scalar::Scalar;
use crate::weight::Weight;

/// A step of a factorisation, on tiles of its matrix or of another.
#[derive(Clone, Copy)]
enum Reflected {
    /// By the reflectors of a tile that became a triangle.
    Alone,
    /// By those of one that vanished under another.
    Pair,
}

/// Bytes of the V and T of a tile of a factored matrix.
fn reflectors<T: Scalar>(
    (a, q): (&TiledMatrix<T>, &Reflectors<T>),
    (m, k): (u32, u32),
    step: Reflected,
) -> [u64; 2] {
    let (rows, cols) = a.tile_shape((m, k));
    let blocks = |cols| Part::UpperBlocks.bytes::<T>((q.options().ib, cols));
    match step {
        Reflected::Alone => {
            let short = rows.min(cols);
            let v = Part::UnitLower.bytes::<T>((rows, short));
            [v, blocks(short)]
        }
        Reflected::Pair => {
            let is_triangle = q.elimination().is_triangle(k, m);
            let part = if is_triangle {
                Part::Upper
            } else {
                Part::Whole
            };
            [part.bytes::<T>((rows, cols)), blocks(cols)]
        }
    }
}

/// Operations of a step with so many rows or columns of tiles that it is applied to.
fn reflecting<T: Scalar>(
    (a, q): (&TiledMatrix<T>, &Reflectors<T>),
    (m, k): (u32, u32),
    lines: usize,
    step: Reflected,
) -> f64 {
    let (rows, cols) = a.tile_shape((m, k));
    match step {
        Reflected::Alone => flops::unmqr::<T>(rows, lines, rows.min(cols)) as f64,
        Reflected::Pair => {
            // A triangle below is half of a square.
            let is_triangle = q.elimination().is_triangle(k, m);
            let share = if is_triangle { 0.5 } else { 1.0 };
            2.0 * share * products::<T>(rows, lines, cols)
        }
    }
}

impl<T: Scalar> Weight for Factor<'_, T> {
    fn bytes(&self, task: Task, flow: usize) -> u64 {
        use Task::{Gemqrt, Geqrt, Stay, Tpmqrt, Tpqrt};
        let of = (self.a, self.q);
        let above = |m, k| self.q.elimination().pivot(k, m).unwrap_or(k);
        let triangle = |m, k| Part::Upper.bytes::<T>(self.a.tile_shape((m, k)));
        match (task, flow) {
            (Geqrt { m, k }, 0) => triangle(m, k),
            (Geqrt { m, k }, flow) => reflectors(of, (m, k), Reflected::Alone)[flow - 1],
            (Tpqrt { m, k }, 0) => triangle(above(m, k), k),
            (Tpqrt { m, k }, flow) => reflectors(of, (m, k), Reflected::Pair)[flow - 1],
            (Tpmqrt { m, k, n }, 0) => self.a.tile_bytes((above(m, k), n)),
            (Gemqrt { m, n, .. } | Tpmqrt { m, n, .. }, _) => self.a.tile_bytes((m, n)),
            (Stay { k, n }, _) if n == k => triangle(k, n),
            (Stay { k, n }, _) => self.a.tile_bytes((k, n)),
        }
    }

    fn flops(&self, task: Task) -> f64 {
        use Task::{Gemqrt, Geqrt, Stay, Tpmqrt, Tpqrt};
        let of = (self.a, self.q);
        let width = |n: u32| self.a.tile_cols(n as usize);
        match task {
            Geqrt { m, k } => {
                let (rows, cols) = self.a.tile_shape((m, k));
                flops::geqrf::<T>(rows, cols) as f64
            }
            Gemqrt { m, k, n } => reflecting(of, (m, k), width(n), Reflected::Alone),
            Tpqrt { m, k } => {
                let (rows, cols) = self.a.tile_shape((m, k));
                // The columns of a triangle are a third as long on the whole, if each is updated by those before.
                let is_triangle = self.q.elimination().is_triangle(k, m);
                let share = if is_triangle { 1.0 / 3.0 } else { 1.0 };
                share * products::<T>(rows, cols, cols)
            }
            Tpmqrt { m, k, n } => reflecting(of, (m, k), width(n), Reflected::Pair),
            Stay { .. } => 0.0,
        }
    }
}

impl<T: Scalar> Weight for Apply<'_, T> {
    fn bytes(&self, task: ApplyTask, flow: usize) -> u64 {
        use ApplyTask::{Eliminated, Gemqrt, Reflectors, Stay, Tpmqrt};
        let (of, tile) = ((self.a, self.q), |row, n| {
            self.c.tile_bytes(self.tile(row, n))
        });
        match (task, flow) {
            (Reflectors { m, k }, flow) => reflectors(of, (m, k), Reflected::Alone)[flow],
            (Eliminated { m, k }, flow) => reflectors(of, (m, k), Reflected::Pair)[flow],
            (Tpmqrt { m, k, n }, 0) => tile(self.q.elimination().pivot(k, m).unwrap_or(k), n),
            (Gemqrt { m, n, .. } | Tpmqrt { m, n, .. } | Stay { k: m, n }, _) => tile(m, n),
        }
    }

    fn flops(&self, task: ApplyTask) -> f64 {
        use ApplyTask::{Eliminated, Gemqrt, Reflectors, Stay, Tpmqrt};
        let lines = |n: u32| match self.way.0 {
            Side::Left => self.c.tile_cols(n as usize),
            Side::Right => self.c.tile_rows(n as usize),
        };
        let of = (self.a, self.q);
        match task {
            Reflectors { .. } | Eliminated { .. } | Stay { .. } => 0.0,
            Gemqrt { m, k, n } => reflecting(of, (m, k), lines(n), Reflected::Alone),
            Tpmqrt { m, k, n } => reflecting(of, (m, k), lines(n), Reflected::Pair),
        }
    }
}

impl<T: Scalar> Weight for Solve<'_, T> {
    fn bytes(&self, task: SolveTask, flow: usize) -> u64 {
        use SolveTask::{Give, Solve, Update};
        match task {
            Give { m, k } if m == k => Part::Upper.bytes::<T>(self.a.tile_shape(self.factor(m, k))),
            Give { m, k } => self.a.tile_bytes(self.factor(m, k)),
            Solve { k, j } if flow == SOLVED => self.x.tile_bytes((self.row(k), j)),
            Solve { k: m, j } | Update { m, j, .. } => self.b.tile_bytes((self.row(m), j)),
        }
    }

    fn flops(&self, task: SolveTask) -> f64 {
        use SolveTask::{Give, Solve, Update};
        let extent = |turn| self.a.tile_cols(self.row(turn) as usize);
        let cols = |j: u32| self.b.tile_cols(j as usize);
        match task {
            Give { .. } => 0.0,
            Solve { k, j } => products::<T>(extent(k), cols(j), extent(k)) / 2.0,
            Update { m, k, j } => products::<T>(extent(m), cols(j), extent(k)),
        }
    }
}

/// The solution that a tile of X becomes.
const SOLVED: usize = 2;

impl<T: Scalar> Weight for Adjoint<'_, T> {
    fn bytes(&self, task: AdjointTask, _: usize) -> u64 {
        use AdjointTask::{Give, Turn, TurnOver};
        let (Give { i, j } | Turn { i, j } | TurnOver { i, j }) = task;
        self.a.tile_bytes((i, j))
    }

    fn flops(&self, _: AdjointTask) -> f64 {
        0.0
    }
}

impl<T: Scalar> Weight for Arrange<'_, T> {
    fn bytes(&self, task: ArrangeTask, _: usize) -> u64 {
        let (ArrangeTask::Give { i, j } | ArrangeTask::Make { i, j }) = task;
        self.a.tile_bytes((i, j))
    }

    fn flops(&self, _: ArrangeTask) -> f64 {
        0.0
    }
}

impl<T: Scalar> Weight for Leading<'_, T> {
    fn bytes(&self, task: LeadingTask, _: usize) -> u64 {
        match task {
            LeadingTask::Part { j, .. } => {
                Part::Whole.bytes::<T>((OF_A_PART, self.width(j as usize)))
            }
            LeadingTask::Step { j } => {
                let before = self.r.col_range(j as usize).start;
                let length = before + self.width(j as usize);
                Part::Whole.bytes::<T>((HEAD + length, 2))
            }
            LeadingTask::Tell { .. } => 0,
        }
    }

    /// Products of both vectors with each column, its length, and the vectors scaled.
    fn flops(&self, task: LeadingTask) -> f64 {
        match task {
            LeadingTask::Part { i, j } => {
                3.0 * products::<T>(self.r.tile_rows(i as usize), self.width(j as usize), 1)
            }
            LeadingTask::Step { j } => {
                let (width, before) = (self.width(j as usize), self.r.col_range(j as usize).start);
                1.5 * products::<T>(width, width + 1, 1) + products::<T>(width, before, 1)
            }
            LeadingTask::Tell { .. } => 0.0,
        }
    }
}

/// On one rank: nothing travels. Blocks are taken to be well conditioned.
impl<T: Scalar> Weight for Tall<'_, T> {
    fn bytes(&self, _: TallTask, _: usize) -> u64 {
        0
    }

    fn flops(&self, task: TallTask) -> f64 {
        let (n, nrhs) = (self.a.ncols(), self.b.ncols());
        let rows = match task {
            TallTask::Block { i } => self.rows(i).len(),
            TallTask::Join { level, i } => n * self.parts(level, i).count(),
        };
        products::<T>(rows, n, n) / 2.0 + products::<T>(rows, n, nrhs)
    }
}
