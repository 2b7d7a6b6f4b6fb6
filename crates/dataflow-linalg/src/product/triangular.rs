//! Products with a triangle, or with its inverse: B ← α·op(A)·B and α·B·op(A), BLAS's `trmm`;
//! B ← α·op(A)⁻¹·B and α·B·op(A)⁻¹, BLAS's `trsm`.
//!
//! # Law
//! Every side, triangle and operation is one graph. From the right, rows and columns of B change
//! places. Its rows have turns, in the order in which the triangle can be solved; a row is updated
//! with those of turns 0, 1, … before its own, in this order. A solve updates with rows that are
//! done, and divides by the tile on the diagonal last; a product multiplies by it first, and updates
//! with rows as they were. So the bits depend on the matrices, the tile order and the backend only.
//!
//! # Over ranks
//! A task runs where its tile of B lives. A tile of A is given once to each rank that needs it, at
//! most [`AHEAD`] turns early; those on the diagonal of a product at once.

use crate::error::LinalgError;
use crate::kernel::{Backend, Diagonal, Op, Side, Triangle, gemm_add, scale, trmm_op, trsm_op};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Courier, Executor};
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of a product with a triangle: (i, j) is a stored tile of it; m is a tile row of B, k the
    /// one that it is updated with, n their column (from the right: m and k are columns, n a row).
    pub enum TriangularTask { Give { i, j }, Begin { m, n }, OnDiagonal { m, n }, Update { m, k, n } }
}
use TriangularTask::{Begin, Give, OnDiagonal, Update};

/// The tile that a task overwrites, or hands on.
const TILE: usize = 0;
/// Give: not before this.
const AFTER: usize = 1;
/// OnDiagonal, Update: the tile of A.
const FACTOR: usize = 1;
/// Update: the other tile of B.
const OTHER: usize = 2;
/// Update: this turn is done.
const DONE: usize = 3;

/// How many turns before its first use a tile of A may be given to other ranks.
const AHEAD: u32 = 4;

/// A triangle of a square matrix, as it is, transposed or conjugated.
///
/// The other triangle is not read; a matrix that is stored as [`Structure::Lower`] has a lower one.
#[derive(Clone, Copy, Debug)]
pub struct TriangularOperand<'a, T: Scalar> {
    matrix: &'a TiledMatrix<T>,
    op: Op,
    triangle: Triangle,
    diagonal: Diagonal,
}

impl<'a, T: Scalar> TriangularOperand<'a, T> {
    /// What lies on and below the diagonal.
    pub fn lower(matrix: &'a TiledMatrix<T>) -> Self {
        TriangularOperand {
            matrix,
            op: Op::NoTranspose,
            triangle: Triangle::Lower,
            diagonal: Diagonal::NonUnit,
        }
    }

    /// What lies on and above the diagonal.
    pub fn upper(matrix: &'a TiledMatrix<T>) -> Self {
        TriangularOperand {
            triangle: Triangle::Upper,
            ..TriangularOperand::lower(matrix)
        }
    }

    /// The same with ones on the diagonal, whatever stands there.
    pub fn unit(self) -> Self {
        let diagonal = Diagonal::Unit;
        TriangularOperand { diagonal, ..self }
    }

    /// The triangle as `op` lets it enter.
    pub fn with(self, op: Op) -> Self {
        TriangularOperand { op, ..self }
    }
}

/// The task space of a product with a triangle or its inverse: a task for each tile of both, and one
/// for each tile of A in each tile column of B.
#[derive(Clone, Copy, Debug)]
pub struct Triangular<'a, T: Scalar> {
    solves: bool,
    side: Side,
    alpha: T,
    a: TriangularOperand<'a, T>,
    b: &'a TiledMatrix<T>,
    backend: Backend,
    /// Tiles of A along its diagonal.
    nt: u32,
    /// Tile columns of B; its tile rows from the right.
    columns: u32,
    /// Turns that tiles may be given ahead; all of them on one rank.
    ahead: u32,
}

/// Overwrites `b` by the X of op(A)·X = α·B, or of X·op(A) = α·B. n·m² flops on the left, m·n² on
/// the right; copies no tile.
///
/// With α = 0 nothing is read. A zero on the diagonal is not looked for.
///
/// # Errors
/// If shapes or tile orders disagree, B is A or not stored as [`Structure::General`], or the upper
/// triangle is asked for of a matrix that is stored as [`Structure::Lower`]; if the run fails.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::{Backend, Op, Side};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::product::{TriangularOperand, trsm};
/// let l = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[2.0, 0.0], [1.0, 4.0]][i][j]);
/// let b = TiledMatrix::from_fn(Layout::general(1, 2, 1)?, |_, j| [4.0, 10.0][j]);
/// let l = TriangularOperand::lower(&l).with(Op::Transpose);
/// trsm(Side::Right, 1.0, l, &b, Backend::Auto, &Inline)?;
/// assert_eq!(b.to_column_major()?, [2.0, 2.0]); // [2, 2]·Lᵀ = [4, 10]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn trsm<T: Scalar>(
    side: Side,
    alpha: T,
    a: TriangularOperand<'_, T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Triangular::solve(side, alpha, a, b, backend)?.run_across(on, &Alone, &Monitor::new())
}

/// Overwrites `b` by α·op(A)·B, or by α·B·op(A). n·m² flops on the left, m·n² on the right; copies
/// a tile of B only if it is overwritten before all have read it.
///
/// With α = 0 nothing is read.
///
/// # Errors
/// As [`trsm`].
pub fn trmm<T: Scalar>(
    side: Side,
    alpha: T,
    a: TriangularOperand<'_, T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Triangular::multiply(side, alpha, a, b, backend)?.run_across(on, &Alone, &Monitor::new())
}

impl<'a, T: Scalar> Triangular<'a, T> {
    /// The space of [`trsm`] for matrices with the same tile order; each may have a distribution of
    /// its own.
    ///
    /// # Errors
    /// As [`trsm`].
    pub fn solve(
        side: Side,
        alpha: T,
        a: TriangularOperand<'a, T>,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        fits(side, a, b)?;
        let (along, columns) = match side {
            Side::Left => (b.mt(), b.nt()),
            Side::Right => (b.nt(), b.mt()),
        };
        let n_ranks = [a.matrix, b].map(|x| x.distribution().n_ranks());
        let nt = along as u32;
        Ok(Triangular {
            solves: true,
            side,
            alpha,
            a,
            b,
            backend,
            nt,
            columns: columns as u32,
            ahead: if n_ranks == [1; 2] { nt } else { AHEAD },
        })
    }

    /// The space of [`trmm`].
    ///
    /// # Errors
    /// As [`trsm`].
    pub fn multiply(
        side: Side,
        alpha: T,
        a: TriangularOperand<'a, T>,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let solve = Triangular::solve(side, alpha, a, b, backend)?;
        Ok(Triangular {
            solves: false,
            ..solve
        })
    }

    /// Runs this rank's part; every rank calls it with its parts of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers, the same on every rank.
    pub fn run_across(
        &self,
        on: &dyn Executor,
        courier: &dyn Courier,
        monitor: &Monitor,
    ) -> Result<Report, LinalgError> {
        T::run_triangular(self, (on, courier, monitor)).map_err(LinalgError::Run)
    }

    /// When a row has its turn; also the row that has it then.
    fn turn(&self, row: u32) -> u32 {
        let lower = (self.a.triangle == Triangle::Lower) == (self.a.op == Op::NoTranspose);
        match lower == (self.side == Side::Left) {
            true => row,
            false => self.nt - 1 - row,
        }
    }

    /// The stored tile with which row m is updated by row k; also back.
    fn stored(&self, m: u32, k: u32) -> (u32, u32) {
        match (self.side == Side::Left) == (self.a.op == Op::NoTranspose) {
            true => (m, k),
            false => (k, m),
        }
    }

    /// The tile of B with row m and column n, seen from the left; also back.
    fn of_b(&self, (m, n): (u32, u32)) -> (u32, u32) {
        match self.side {
            Side::Left => (m, n),
            Side::Right => (n, m),
        }
    }

    /// Whether a stored tile of A is needed.
    fn gives(&self, (i, j): (u32, u32)) -> bool {
        let inside = match self.a.triangle {
            Triangle::Lower => i >= j,
            Triangle::Upper => i <= j,
        };
        inside && self.columns > 0 && self.alpha != T::zero()
    }

    /// The task with number `place` among those that overwrite tile (m, n).
    fn link(&self, (m, n): (u32, u32), place: u32) -> Option<TriangularTask> {
        let updates = self.turn(m);
        let with = |turn| Update {
            m,
            k: self.turn(turn),
            n,
        };
        match place {
            0 => Some(Begin { m, n }),
            _ if self.alpha == T::zero() || place > updates + 1 => None,
            1 if !self.solves => Some(OnDiagonal { m, n }),
            _ if !self.solves => Some(with(place - 2)),
            _ if place <= updates => Some(with(place - 1)),
            _ => Some(OnDiagonal { m, n }),
        }
    }

    /// The tile that a task overwrites, and its number among those that do; `None` for Give.
    fn place(&self, task: TriangularTask) -> Option<((u32, u32), u32)> {
        let first = if self.solves { 1 } else { 2 };
        match task {
            Give { .. } => None,
            Begin { m, n } => Some(((m, n), 0)),
            OnDiagonal { m, n } if self.solves => Some(((m, n), self.turn(m) + 1)),
            OnDiagonal { m, n } => Some(((m, n), 1)),
            Update { m, k, n } => Some(((m, n), self.turn(k) + first)),
        }
    }

    /// Who hands tile (m, n) to the rows that are updated with it.
    fn source(&self, m: u32, n: u32) -> TriangularTask {
        match self.solves {
            true => OnDiagonal { m, n },
            false => Begin { m, n },
        }
    }

    /// The update that a giver waits for: of the row with the last turn.
    fn before(&self, (i, j): (u32, u32)) -> Option<TriangularTask> {
        if i == j && !self.solves {
            return None;
        }
        let (_, k) = self.stored(i, j);
        let turn = self.turn(k).checked_sub(self.ahead)?;
        Some(self.of_last(turn))
    }

    /// The update of the row with the last turn with that of another turn, in the first column.
    fn of_last(&self, turn: u32) -> TriangularTask {
        Update {
            m: self.turn(self.nt - 1),
            k: self.turn(turn),
            n: 0,
        }
    }
}

/// Whether there is such a product.
fn fits<T: Scalar>(
    side: Side,
    a: TriangularOperand<'_, T>,
    b: &TiledMatrix<T>,
) -> Result<(), LinalgError> {
    let order = match side {
        Side::Left => b.rows(),
        Side::Right => b.cols(),
    };
    let of_a = a.matrix;
    if (of_a.rows(), of_a.cols()) != (order, order)
        || b.structure() != Structure::General
        || of_a.nb() != b.nb()
    {
        return Err(LinalgError::Shape(format!(
            "a triangle of {} x {} in tiles of {} does not fit {} x {} ({:?}, tiles of {}) from \
             the {side:?}",
            of_a.rows(),
            of_a.cols(),
            of_a.nb(),
            b.rows(),
            b.cols(),
            b.structure(),
            b.nb()
        )));
    }
    if of_a.structure() == Structure::Lower && a.triangle == Triangle::Upper {
        let text = "of a matrix stored as Lower the upper triangle is not there (take the adjoint)";
        return Err(LinalgError::Shape(text.to_owned()));
    }
    if std::ptr::eq(of_a, b) {
        let text = "the result of a product with a triangle is that triangle (it must be another \
                    matrix)";
        return Err(LinalgError::Shape(text.to_owned()));
    }
    Ok(())
}

impl<T: Scalar> TaskSpace for Triangular<'_, T> {
    type Task = TriangularTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name(if self.solves { "trsm" } else { "trmm" });
        about.parameter("m", self.b.rows());
        self.b.layout().describe(about);
        about.parameter("grid of A", self.a.matrix.distribution());
        about.parameter("side", format!("{:?}", self.side));
        about.parameter("op", format!("{:?}", self.a.op));
        let shape = (self.a.triangle, self.a.diagonal);
        about.parameter("triangle", format!("{shape:?}"));
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend.on_this_machine());
        about.parameter("alpha", format!("{:?}", self.alpha));
        about.class("Give").read("TILE").order("AFTER");
        about.class("Begin").update("TILE");
        about.class("OnDiagonal").update("TILE").read("FACTOR");
        let update = about.class("Update").update("TILE").read("FACTOR");
        update.read("OTHER").order("DONE");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = TriangularTask> + Send {
        let given = self.a.matrix.layout().tiles_of(on);
        let given = given.filter(move |&tile| self.gives(tile));
        let tiles = self
            .b
            .layout()
            .tiles_of(on)
            .map(move |tile| self.of_b(tile));
        let chains = tiles.flat_map(move |tile| {
            let link = move |place| self.link(tile, place);
            (0..).map_while(link)
        });
        given.map(|(i, j)| Give { i, j }).chain(chains)
    }

    fn inputs(&self, task: TriangularTask, from: &mut impl Inputs<Self>) {
        if let Some((tile, place)) = self.place(task) {
            let before = place
                .checked_sub(1)
                .and_then(|place| self.link(tile, place));
            match before {
                Some(before) => from.task(TILE, before, TILE),
                None => {
                    let (i, j) = self.of_b(tile);
                    from.home(TILE, self.b.store(), self.b.place(i, j));
                }
            }
        }
        match task {
            Give { i, j } => {
                from.home(TILE, self.a.matrix.store(), self.a.matrix.place(i, j));
                if let Some(before) = self.before((i, j)) {
                    from.task(AFTER, before, DONE);
                }
            }
            Begin { .. } => {}
            OnDiagonal { m, .. } => from.task(FACTOR, Give { i: m, j: m }, TILE),
            Update { m, k, n } => {
                let (i, j) = self.stored(m, k);
                from.task(FACTOR, Give { i, j }, TILE);
                from.task(OTHER, self.source(k, n), TILE);
            }
        }
    }

    fn successors(&self, task: TriangularTask, to: &mut impl Successors<Self>) {
        let columns = 0..self.columns;
        if let Give { i, j } = task {
            let (m, k) = self.stored(i, j);
            return match m == k {
                true => to.range(TILE, columns, |n| OnDiagonal { m, n }, FACTOR),
                false => to.range(TILE, columns, |n| Update { m, k, n }, FACTOR),
            };
        }
        let Some(((m, n), place)) = self.place(task) else {
            return;
        };
        if task == self.source(m, n) && self.alpha != T::zero() {
            let later = |turn| Update {
                m: self.turn(turn),
                k: m,
                n,
            };
            to.range(TILE, self.turn(m) + 1..self.nt, later, OTHER);
        }
        match self.link((m, n), place + 1) {
            Some(next) => to.task(TILE, next, TILE),
            None => {
                let (i, j) = self.of_b((m, n));
                to.home(TILE, self.b.store(), self.b.place(i, j));
            }
        }
        if let Update { k, .. } = task {
            let turn = self.turn(k).saturating_add(self.ahead);
            if turn < self.nt && task == self.of_last(self.turn(k)) {
                let k = self.turn(turn);
                let first = if self.solves { turn } else { turn + 1 };
                let giver = |turn| {
                    let (i, j) = self.stored(self.turn(turn), k);
                    Give { i, j }
                };
                to.range(DONE, first..self.nt, giver, AFTER);
            }
        }
    }

    fn run(&self, task: TriangularTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        let TriangularOperand {
            op,
            triangle,
            diagonal,
            ..
        } = self.a;
        match task {
            Give { .. } => {}
            Begin { .. } => {
                // B[m,n] ← α · B[m,n]
                let [tile] = flows.slots();
                scale(self.alpha, tile.update());
            }
            OnDiagonal { .. } => {
                // B[m,n] ← op(A)[m,m]⁻¹ · B[m,n], or op(A)[m,m] · B[m,n]; or from the right
                let [tile, factor] = flows.slots();
                let factor = (op, (triangle, diagonal), factor.read());
                match self.solves {
                    true => trsm_op(self.backend, self.side, factor, tile.update()),
                    false => trmm_op(T::one(), self.side, factor, tile.update()),
                }
            }
            Update { .. } => {
                // B[m,n] ← B[m,n] ∓ op(A)[m,k] · B[k,n]; or B[n,k] · op(A)[k,m] from the right
                let [tile, factor, other, _] = flows.slots();
                let sign = if self.solves { -T::one() } else { T::one() };
                let (factor, other) = ((op, factor.read()), (Op::NoTranspose, other.read()));
                let (left, right) = match self.side {
                    Side::Left => (factor, other),
                    Side::Right => (other, factor),
                };
                gemm_add(self.backend, sign, left, right, tile.update());
            }
        }
        Ok(())
    }

    fn rank(&self, task: TriangularTask) -> Rank {
        let (of, (i, j)) = match (task, self.place(task)) {
            (Give { i, j }, _) => (self.a.matrix, (i, j)),
            (_, Some((tile, _))) => (self.b, self.of_b(tile)),
            (_, None) => unreachable!("{task:?} overwrites a tile of B"),
        };
        of.rank_of(i as usize, j as usize)
    }

    /// Of a solve the tasks that remain on the longest way, without what givers wait for; of a
    /// product the rows with late turns first, since they read those that are overwritten later.
    fn priority(&self, task: TriangularTask) -> i64 {
        let turn = |row| i64::from(self.turn(row));
        let all = 2 * i64::from(self.nt);
        match task {
            Give { i, j } => {
                let (m, k) = self.stored(i, j);
                match self.solves {
                    true => all - turn(m) - turn(k),
                    false => all + turn(m),
                }
            }
            Begin { m, .. } if self.solves => all - turn(m),
            OnDiagonal { m, .. } if self.solves => all - 1 - 2 * turn(m),
            Update { m, k, .. } if self.solves => all - 1 - turn(m) - turn(k),
            Begin { .. } => 2 * all,
            OnDiagonal { m, .. } | Update { m, .. } => turn(m),
        }
    }
}

#[cfg(test)]
mod tests;
