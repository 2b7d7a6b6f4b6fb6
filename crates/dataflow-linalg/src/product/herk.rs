//! Squares: C ← α·op(A)·op(A)ᴴ + β·C, BLAS's `herk`, and with the plain transpose `syrk`; the lower
//! triangle of C.
//!
//! # Law
//! C[m,n] is scaled, then updated for k = 0, 1, … in this order: its bits depend on the matrices,
//! the tile order and the backend only. A task runs where its tile of C lives; a tile of A is given
//! once to each rank that needs it, for its row and its column of C together, at most [`AHEAD`]
//! steps before its first use.

use super::operand::Operand;
use crate::error::LinalgError;
use crate::kernel::{Backend, Op, gemm_add, herk_add, scale};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Courier, Executor};
use dataflow_core::prelude::*;
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of a square: (i, j) is a stored tile of A, m and n name a tile of C, k the step.
    pub enum HerkTask { Give { i, j }, Scale { m, n }, OnDiagonal { n, k }, Below { m, n, k } }
}
use HerkTask::{Below, Give, OnDiagonal, Scale};

/// The tile that a task overwrites, or hands on.
const TILE: usize = 0;
/// Give: not before this.
const AFTER: usize = 1;
/// OnDiagonal, Below: the tile of A in the row of C; Below: that in its column.
const LEFT: usize = 1;
const RIGHT: usize = 2;
/// OnDiagonal: this step is done.
const DONE: usize = 2;

/// How many steps before its first use a tile may be given to other ranks.
const AHEAD: u32 = 4;

/// The task space of C ← α·op(A)·op(A)ᴴ + β·C: a task for each tile of A and C, and one for each
/// step of each tile of C.
#[derive(Clone, Copy, Debug)]
pub struct Herk<'a, T: Scalar> {
    alpha: T,
    a: Operand<'a, T>,
    /// How the second factor enters.
    second: Op,
    beta: T,
    c: &'a TiledMatrix<T>,
    backend: Backend,
    /// Tiles of C along its diagonal.
    nt: u32,
    /// Tiles in the sum; none if there is nothing to be added.
    kt: u32,
    /// Steps that tiles may be given ahead; all of them on one rank.
    ahead: u32,
}

/// Overwrites the lower triangle of `c` by that of α·op(A)·op(A)ᴴ + β·C, with op(A) = A or Aᴴ.
/// n·(n + 1)·k flops; copies no tile.
///
/// With β = 0 nothing is read of C; with α = 0 nothing of A.
///
/// # Errors
/// If shapes or tile orders disagree, C is A or not stored as [`Structure::Lower`], A is not stored
/// as [`Structure::General`] or enters transposed without being conjugated; if the run fails.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::product::{Operand, herk};
/// let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| (i + j) as f64);
/// let c = TiledMatrix::zeros(Layout::lower(2, 2)?);
/// herk(1.0, Operand::adjoint(&a), 0.0, &c, Backend::Auto, &Inline)?;
/// assert_eq!(c.get(1, 0), Some(0.0 * 1.0 + 1.0 * 2.0 + 2.0 * 3.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn herk<T: Scalar>(
    alpha: f64,
    a: Operand<'_, T>,
    beta: f64,
    c: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Herk::new(alpha, a, beta, c, backend)?.run_across(on, &Alone, &Monitor::new())
}

/// Overwrites the lower triangle of `c` by that of α·op(A)·op(A)ᵀ + β·C, with op(A) = A or Aᵀ: for
/// real numbers [`herk`].
///
/// For complex numbers C is symmetric, not Hermitian: its lower triangle is, like that of a
/// triangular matrix, all that `c` stands for.
///
/// # Errors
/// As [`herk`], but for the operation: A may not enter as its adjoint.
pub fn syrk<T: Scalar>(
    alpha: T,
    a: Operand<'_, T>,
    beta: T,
    c: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Herk::symmetric(alpha, a, beta, c, backend)?.run_across(on, &Alone, &Monitor::new())
}

impl<'a, T: Scalar> Herk<'a, T> {
    /// The space of [`herk`] for matrices with the same tile order; each may have a distribution of
    /// its own.
    ///
    /// # Errors
    /// As [`herk`].
    pub fn new(
        alpha: f64,
        a: Operand<'a, T>,
        beta: f64,
        c: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let (alpha, beta) = (T::from_real(alpha), T::from_real(beta));
        Herk::with(alpha, a, Op::ConjTranspose, beta, c, backend)
    }

    /// The space of [`syrk`].
    ///
    /// # Errors
    /// As [`syrk`].
    pub fn symmetric(
        alpha: T,
        a: Operand<'a, T>,
        beta: T,
        c: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        Herk::with(alpha, a, Op::Transpose, beta, c, backend)
    }

    /// The space for a product with the transpose of this kind.
    fn with(
        alpha: T,
        a: Operand<'a, T>,
        transpose: Op,
        beta: T,
        c: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        fits(&a, transpose, c)?;
        let nt = c.nt() as u32;
        let nothing = alpha == T::zero() || nt == 0;
        let kt = if nothing { 0 } else { a.tiles().1 };
        let n_ranks = [a.matrix, c].map(|x| x.distribution().n_ranks());
        Ok(Herk {
            alpha,
            a,
            second: match a.op() {
                Op::NoTranspose => transpose,
                Op::Transpose | Op::ConjTranspose => Op::NoTranspose,
            },
            beta,
            c,
            backend,
            nt,
            kt,
            ahead: if n_ranks == [1; 2] { kt } else { AHEAD },
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
        T::run_herk(self, (on, courier, monitor)).map_err(LinalgError::Run)
    }

    /// The task that hands on what stands at (i, k) of op(A).
    fn giver(&self, i: u32, k: u32) -> HerkTask {
        let (i, j) = self.a.stored(i, k).tile;
        Give { i, j }
    }

    /// Where in op(A) a stored tile stands.
    fn place(&self, (i, j): (u32, u32)) -> (u32, u32) {
        match self.a.op() {
            Op::NoTranspose => (i, j),
            Op::Transpose | Op::ConjTranspose => (j, i),
        }
    }

    /// The task with which the updates of C[m,n] go on at step k.
    fn update(m: u32, n: u32, k: u32) -> HerkTask {
        match m == n {
            true => OnDiagonal { n, k },
            false => Below { m, n, k },
        }
    }

    /// The edge that leads to step k of C[m,n].
    fn chain(&self, (m, n): (u32, u32), k: u32, from: &mut impl Inputs<Self>) {
        match k.checked_sub(1) {
            None => from.task(TILE, Scale { m, n }, TILE),
            Some(k) => from.task(TILE, Self::update(m, n, k), TILE),
        }
    }

    /// The edge of C[m,n] to its step k, or home.
    fn go_on(&self, (m, n): (u32, u32), k: u32, to: &mut impl Successors<Self>) {
        match k == self.kt {
            true => to.home(TILE, self.c.store(), self.c.place(m, n)),
            false => to.task(TILE, Self::update(m, n, k), TILE),
        }
    }
}

/// Whether there is such a square.
fn fits<T: Scalar>(
    a: &Operand<'_, T>,
    transpose: Op,
    c: &TiledMatrix<T>,
) -> Result<(), LinalgError> {
    let (n, k) = a.shape();
    let wrong_op = T::IS_COMPLEX && ![Op::NoTranspose, transpose].contains(&a.op());
    if wrong_op || a.is_hermitian() || c.structure() != Structure::Lower || c.rows() != n {
        return Err(LinalgError::Shape(format!(
            "the square of {n} x {k} ({:?}, {:?}) does not fit into {} x {} ({:?}) by {transpose:?}",
            a.matrix.structure(),
            a.op(),
            c.rows(),
            c.cols(),
            c.structure()
        )));
    }
    if a.matrix.nb() != c.nb() {
        return Err(LinalgError::Shape(format!(
            "the square of tiles of order {} in tiles of order {} (both must be alike)",
            a.matrix.nb(),
            c.nb()
        )));
    }
    Ok(())
}

impl<T: Scalar> TaskSpace for Herk<'_, T> {
    type Task = HerkTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("herk").parameter("k", self.a.shape().1);
        self.c.layout().describe(about);
        about.parameter("grid of A", self.a.matrix.distribution());
        let ops = (self.a.op(), self.second);
        about.parameter("ops", format!("{ops:?}"));
        about.parameter("precision", T::PRECISION);
        about.parameter("backend", self.backend.on_this_machine());
        about.parameter("alpha", format!("{:?}", self.alpha));
        about.parameter("beta", format!("{:?}", self.beta));
        about.class("Give").read("TILE").order("AFTER");
        about.class("Scale").update("TILE");
        let diagonal = about.class("OnDiagonal").update("TILE").read("LEFT");
        diagonal.order("DONE");
        let below = about.class("Below").update("TILE");
        below.read("LEFT").read("RIGHT");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = HerkTask> + Send {
        let kt = self.kt;
        let given = self.a.matrix.layout().tiles_of(on);
        let given = given.filter(move |_| kt > 0).map(|(i, j)| Give { i, j });
        let updates = move |(m, n)| {
            let steps = (0..kt).map(move |k| Self::update(m, n, k));
            std::iter::once(Scale { m, n }).chain(steps)
        };
        given.chain(self.c.layout().tiles_of(on).flat_map(updates))
    }

    fn inputs(&self, task: HerkTask, from: &mut impl Inputs<Self>) {
        match task {
            Give { i, j } => {
                from.home(TILE, self.a.matrix.store(), self.a.matrix.place(i, j));
                let (n, k) = self.place((i, j));
                if let Some(k) = k.checked_sub(self.ahead) {
                    from.task(AFTER, OnDiagonal { n, k }, DONE);
                }
            }
            Scale { m, n } => from.home(TILE, self.c.store(), self.c.place(m, n)),
            OnDiagonal { n, k } => {
                self.chain((n, n), k, from);
                from.task(LEFT, self.giver(n, k), TILE);
            }
            Below { m, n, k } => {
                self.chain((m, n), k, from);
                from.task(LEFT, self.giver(m, k), TILE);
                from.task(RIGHT, self.giver(n, k), TILE);
            }
        }
    }

    fn successors(&self, task: HerkTask, to: &mut impl Successors<Self>) {
        match task {
            Give { i, j } => {
                let (i, k) = self.place((i, j));
                to.task(TILE, OnDiagonal { n: i, k }, LEFT);
                to.range(TILE, 0..i, |n| Below { m: i, n, k }, LEFT);
                to.range(TILE, i + 1..self.nt, |m| Below { m, n: i, k }, RIGHT);
            }
            Scale { m, n } => self.go_on((m, n), 0, to),
            OnDiagonal { n, k } => {
                self.go_on((n, n), k + 1, to);
                let ahead = k.saturating_add(self.ahead);
                if ahead < self.kt {
                    to.task(DONE, self.giver(n, ahead), AFTER);
                }
            }
            Below { m, n, k } => self.go_on((m, n), k + 1, to),
        }
    }

    fn run(&self, task: HerkTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        let first = self.a.op();
        match task {
            Give { .. } => {}
            Scale { .. } => {
                // C[m,n] ← β · C[m,n]
                let [tile] = flows.slots();
                scale(self.beta, tile.update());
            }
            OnDiagonal { .. } => {
                // C[n,n] ← C[n,n] + α · op(A)[n,k] · op(A)[n,k]ᴴ
                let [tile, left, _] = flows.slots();
                let (left, tile) = (left.read(), tile.update());
                let symmetric = [first, self.second].contains(&Op::Transpose);
                if T::IS_COMPLEX && symmetric {
                    let factors = ((first, left), (self.second, left));
                    gemm_add(self.backend, self.alpha, factors.0, factors.1, tile);
                } else {
                    let op = match first {
                        Op::NoTranspose => first,
                        Op::Transpose | Op::ConjTranspose => Op::ConjTranspose,
                    };
                    herk_add(self.backend, self.alpha.re(), (op, left), tile);
                }
            }
            Below { .. } => {
                // C[m,n] ← C[m,n] + α · op(A)[m,k] · op(A)[n,k]ᴴ
                let [tile, left, right] = flows.slots();
                let (left, right) = ((first, left.read()), (self.second, right.read()));
                gemm_add(self.backend, self.alpha, left, right, tile.update());
            }
        }
        Ok(())
    }

    fn rank(&self, task: HerkTask) -> Rank {
        let (of, i, j) = match task {
            Give { i, j } => (self.a.matrix, i, j),
            Scale { m, n } | Below { m, n, .. } => (self.c, m, n),
            OnDiagonal { n, .. } => (self.c, n, n),
        };
        of.rank_of(i as usize, j as usize)
    }

    /// A few steps at a time, so that ranks need the same tiles at once; what is given comes first,
    /// then the diagonal, for which the next tiles wait. Chains begin as those of `Gemm`.
    fn priority(&self, task: HerkTask) -> i64 {
        let turn = |k: u32| -4 * i64::from(k / self.ahead.max(1));
        match task {
            Scale { .. } => -1,
            Below { k, .. } => turn(k),
            OnDiagonal { k, .. } => turn(k) + 1,
            Give { i, j } => turn(self.place((i, j)).1) + 2,
        }
    }
}

#[cfg(test)]
mod tests;
