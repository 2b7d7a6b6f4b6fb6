//! Squares: C ← α·op(A)·op(A)ᴴ + β·C, BLAS's `herk`, and with the plain transpose `syrk`; the lower
//! triangle of C.
//!
//! # Law
//! C[m,n] is scaled, then updated for k = 0, 1, … in this order: its bits depend on the matrices,
//! the tile order and the backend only. A task runs where its tile of C lives; a tile of A is given
//! once to each rank that needs it, for its row and its column of C together, as in
//! [`Gemm`](super::Gemm).

use super::gemm::{turn, turn_to_give};
use super::operand::Operand;
use crate::error::LinalgError;
use crate::kernel::{Backend, Op, gemm_add, herk_add, scale};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::{Scalar, shown};
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// The task space of C ← α·op(A)·op(A)ᴴ + β·C: a task for each tile of A, and one for each step of
/// each tile of C, of which the first scales; where nothing is added one that only scales.
///
/// # Examples
/// See [`herk`].
#[derive(Clone, Copy, Debug)]
pub struct Herk<'a, T: Scalar> {
    alpha: T,
    pub(super) a: Operand<'a, T>,
    /// How the second factor enters.
    second: Op,
    beta: T,
    pub(super) c: &'a TiledMatrix<T>,
    backend: Backend,
    /// Tiles of C along its diagonal.
    nt: u32,
    /// Tiles in the sum; none if there is nothing to be added.
    kt: u32,
    /// Whether there is but one rank.
    is_alone: bool,
}

/// Overwrites the lower triangle of `c` by that of α·op(A)·op(A)ᴴ + β·C, with op(A) = A or Aᴴ.
/// n·(n + 1)·k flops; copies no tile.
///
/// With β = 0 nothing is read of C; with α = 0 nothing of A. Imaginary parts on the diagonal of C are
/// not read and become 0, whatever the factors.
///
/// # Errors
/// If shapes or tile orders disagree, C is A or not stored as [`Structure::Lower`], A is not stored
/// as [`Structure::General`] or enters transposed without being conjugated; if the run fails.
/// [`LinalgError::Argument`] if a finite α or β is infinite in the precision of `T`, or is 0 there
/// and was not.
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
    Herk::new(alpha, a, beta, c, backend)?.run(on)
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
    Herk::symmetric(alpha, a, beta, c, backend)?.run(on)
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
        let (alpha, beta) = (held("alpha", alpha)?, held("beta", beta)?);
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
            is_alone: !(a.matrix.is_spread() || c.is_spread()),
        })
    }

    /// Runs this rank's part; every rank calls it with its parts of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers, the same on every rank.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a.matrix, self.c], on).map_err(LinalgError::Run)
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
            "the square of {n} x {k}{} ({:?}, {:?}) does not fit into {} x {}{} ({:?}) by {transpose:?}",
            a.matrix.label(),
            a.matrix.structure(),
            a.op(),
            c.rows(),
            c.cols(),
            c.label(),
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

task_space! {
    /// The tasks of a square: (n, k) is a tile of op(A), m and n name a tile of C, k the step.
    pub enum HerkTask;

    impl<T: Scalar> TaskSpace for Herk<'_, T> {
        type Datum = Tile<T>;
        let nt = self.nt;
        let kt = self.kt;
        let p = self.c.grid().0;
        let q = self.c.grid().1;
        data A[n, k] in self.a.matrix.store() at self.a.slot(n, k) on self.a.rank_of(n, k);
        data C[m, n] where n <= m in self.c.store() at self.c.place(m, n) on (m % p, n % q);

        for k in 0..kt {
            for n in 0..nt {
                Give { n, k }: give tile = A[n, k];
            }
        }
        for m in 0..nt {
            for n in 0..=m {
                // C[m,n] ← β · C[m,n]
                Scale { m, n } if kt < 1: update tile = C[m, n] => self.scale(m == n, tile);
            }
        }
        for k in 0..kt {
            for n in 0..nt {
                // C[n,n] ← C[n,n] + α · op(A)[n,k] · op(A)[n,k]ᴴ, at first β · C[n,n]
                OnDiagonal { n, k }: update tile = C[n, n], read left = A[n, k]
                    => {
                        if k == 0 {
                            self.scale(true, tile);
                        }
                        self.on_diagonal(left, tile);
                    }
                for m in n + 1..nt {
                    // C[m,n] ← C[m,n] + α · op(A)[m,k] · op(A)[n,k]ᴴ, at first β · C[m,n]
                    Below { m, n, k }:
                        update tile = C[m, n], read left = A[m, k], read right = A[n, k]
                        => {
                            if k == 0 {
                                self.scale(false, tile);
                            }
                            let (left, right) = ((self.a.op(), left), (self.second, right));
                            gemm_add(self.backend, self.alpha, left, right, tile);
                        }
                }
            }
        }

        fn describe(&self, about: &mut Description) {
            about.name("herk").parameter("k", self.a.shape().1);
            self.c.layout().describe(about);
            about.parameter("grid of A", self.a.matrix.distribution());
            let ops = (self.a.op(), self.second);
            about.parameter("ops", format!("{ops:?}"));
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
            about.parameter("alpha", shown(self.alpha));
            about.parameter("beta", shown(self.beta));
        }

        /// As that of `Gemm`.
        fn priority(&self, task: HerkTask) -> i64 {
            match task {
                Scale { .. } => 0,
                OnDiagonal { k, .. } | Below { k, .. } if self.is_alone => -i64::from(k == 0),
                OnDiagonal { n, k } => turn(self.c, (n, n), k),
                Below { m, n, k } => turn(self.c, (m, n), k),
                Give { .. } if self.is_alone => 1,
                Give { k, .. } => turn_to_give(self.c, k),
            }
        }
    }
}
use HerkTask::{Below, Give, OnDiagonal, Scale};

/// A factor in the precision of the matrices, if it stays finite, and stays other than 0.
fn held<T: Scalar>(name: &str, factor: f64) -> Result<T, LinalgError> {
    let rounded = T::from_real(factor);
    let overflows = factor.is_finite() && !rounded.is_finite();
    if overflows || (factor != 0.0 && rounded == T::zero()) {
        let precision = T::PRECISION;
        let text = format!("{name} is {factor:e} (must be a number of {precision}, or 0)");
        return Err(LinalgError::Argument(text));
    }
    Ok(rounded)
}

impl<T: Scalar> Herk<'_, T> {
    /// Whether it is a square with the transpose, not the adjoint, of complex numbers.
    fn is_symmetric(&self) -> bool {
        T::IS_COMPLEX && [self.a.op(), self.second].contains(&Op::Transpose)
    }

    /// Also where nothing is added afterwards a Hermitian matrix has a real diagonal.
    fn scale(&self, on_diagonal: bool, tile: &mut Tile<T>) {
        let is_real = on_diagonal && T::IS_COMPLEX && !self.is_symmetric();
        // Before, for a product with β takes both parts; after, for ∞·0 is a NaN.
        if is_real {
            make_diagonal_real(tile);
        }
        scale(self.beta, tile);
        if is_real {
            make_diagonal_real(tile);
        }
    }

    fn on_diagonal(&self, left: &Tile<T>, tile: &mut Tile<T>) {
        let first = self.a.op();
        if self.is_symmetric() {
            let factors = ((first, left), (self.second, left));
            return gemm_add(self.backend, self.alpha, factors.0, factors.1, tile);
        }
        let op = match first {
            Op::NoTranspose => first,
            Op::Transpose | Op::ConjTranspose => Op::ConjTranspose,
        };
        herk_add(self.backend, self.alpha.re(), (op, left), tile);
    }
}

fn make_diagonal_real<T: Scalar>(tile: &mut Tile<T>) {
    for i in 0..tile.rows() {
        tile.set(i, i, T::from_real(tile.get(i, i).re()));
    }
}

#[cfg(test)]
mod tests;
