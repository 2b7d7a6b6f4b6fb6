//! Products with a triangle: B ← α·op(A)·B and α·B·op(A), BLAS's `trmm`.
//!
//! # Law
//! Every side, triangle and operation is one graph. From the right, rows and columns of B change
//! places. The rows of tiles of B are numbered in the order in which a solve with the triangle would go
//! through them; the number of a row is its *turn*. A row is multiplied by its tile on the diagonal. Then
//! the rows of turns 0, 1, … before its own, as they were, are added in this order, each times its tile of
//! A. So the bits depend on the matrices, the tile order and the backend only.
//!
//! # Over ranks
//! A task runs where its tile of B lives. A tile of A is given once to each rank that needs it.
//!
//! # Elsewhere
//! With the inverse of a triangle: `substitution`.

use crate::error::LinalgError;
use crate::kernel::{Backend, Diagonal, Op, Side, Triangle, gemm_add, scale, trmm_op};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::{Scalar, shown};
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// A triangle of a square matrix, as it is, transposed or conjugated.
///
/// The other triangle is not read; a matrix that is stored as [`Structure::Lower`] has a lower one.
///
/// # Examples
/// See [`Triangular`].
#[derive(Clone, Copy, Debug)]
pub struct TriangularOperand<'a, T: Scalar> {
    pub(super) matrix: &'a TiledMatrix<T>,
    pub(super) op: Op,
    pub(super) triangle: Triangle,
    pub(super) diagonal: Diagonal,
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
    #[must_use]
    pub fn with(self, op: Op) -> Self {
        TriangularOperand { op, ..self }
    }
}

/// The task space of a product with a triangle: a task for each tile of B, one for each tile of A in
/// each tile column of B, and over ranks one for each tile of A.
///
/// # Examples
/// B ← Aᵀ·B with the lower triangle of A, whose other entries are not read:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::{Backend, Op, Side};
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::product::{Triangular, TriangularOperand};
///
/// let a = TiledMatrix::from_fn(Layout::general(3, 3, 2)?, |i, j| (10 * i + j) as f64);
/// let b = TiledMatrix::from_fn(Layout::general(3, 1, 2)?, |_, _| 1.0);
/// let transposed = TriangularOperand::lower(&a).with(Op::Transpose);
/// Triangular::new(Side::Left, 1.0, transposed, &b, Backend::Auto)?.run(&Inline)?;
/// assert_eq!(b.get(0, 0), Some(0.0 + 10.0 + 20.0));
/// assert_eq!(b.get(2, 0), Some(22.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Triangular<'a, T: Scalar> {
    pub(super) side: Side,
    alpha: T,
    pub(super) a: TriangularOperand<'a, T>,
    pub(super) b: &'a TiledMatrix<T>,
    backend: Backend,
    /// Tiles of A along its diagonal.
    nt: u32,
    /// Tile columns of B; its tile rows from the right.
    columns: u32,
}

/// Overwrites `b` by α·op(A)·B, or by α·B·op(A). n·m² flops on the left, m·n² on the right; copies
/// a tile of B only if it is overwritten before all have read it.
///
/// With α = 0 nothing is read.
///
/// # Errors
/// As [`trsm`](super::trsm).
pub fn trmm<T: Scalar>(
    side: Side,
    alpha: T,
    a: TriangularOperand<'_, T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    Triangular::new(side, alpha, a, b, backend)?.run(on)
}

impl<'a, T: Scalar> Triangular<'a, T> {
    /// The space of [`trmm`] for matrices with the same tile order; each may have a distribution of
    /// its own.
    ///
    /// # Errors
    /// As [`trmm`].
    pub fn new(
        side: Side,
        alpha: T,
        a: TriangularOperand<'a, T>,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_fit(side, a, b)?;
        let (nt, columns) = extents(side, b);
        Ok(Triangular {
            side,
            alpha,
            a,
            b,
            backend,
            nt,
            columns,
        })
    }

    /// Runs this rank's part; every rank calls it with its parts of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers, the same on every rank.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a.matrix, self.b], on).map_err(LinalgError::Run)
    }

    fn is_spread(&self) -> bool {
        self.a.matrix.is_spread() || self.b.is_spread()
    }

    /// The row that has a turn.
    fn row(&self, turn: u32) -> u32 {
        let lower = (self.a.triangle == Triangle::Lower) == (self.a.op == Op::NoTranspose);
        match lower == (self.side == Side::Left) {
            true => turn,
            false => self.nt - 1 - turn,
        }
    }

    /// The stored tile of A with which the row of turn m is updated by that of turn k.
    pub(super) fn of_a(&self, m: u32, k: u32) -> (u32, u32) {
        let (m, k) = (self.row(m), self.row(k));
        match (self.side == Side::Left) == (self.a.op == Op::NoTranspose) {
            true => (m, k),
            false => (k, m),
        }
    }

    /// The tile of B in the row of turn m and column n, seen from the left.
    pub(super) fn of_b(&self, m: u32, n: u32) -> (u32, u32) {
        match self.side {
            Side::Left => (self.row(m), n),
            Side::Right => (n, self.row(m)),
        }
    }

    /// How the tile of A on the diagonal enters.
    fn factor<'t>(&self, tile: &'t Tile<T>) -> (Op, (Triangle, Diagonal), &'t Tile<T>) {
        (self.a.op, (self.a.triangle, self.a.diagonal), tile)
    }

    /// B ← B + op(A) · other, or other · op(A).
    fn add(&self, factor: &Tile<T>, other: &Tile<T>, tile: &mut Tile<T>) {
        let (factor, other) = ((self.a.op, factor), (Op::NoTranspose, other));
        let (left, right) = match self.side {
            Side::Left => (factor, other),
            Side::Right => (other, factor),
        };
        gemm_add(self.backend, T::one(), left, right, tile);
    }
}

/// Tiles of the triangle along its diagonal, and tile columns of B; its tile rows from the right.
pub(super) fn extents<T: Scalar>(side: Side, b: &TiledMatrix<T>) -> (u32, u32) {
    let (along, columns) = match side {
        Side::Left => (b.mt(), b.nt()),
        Side::Right => (b.nt(), b.mt()),
    };
    (along as u32, columns as u32)
}

/// Refuses a triangle and a matrix of which there is no product.
pub(super) fn expect_fit<T: Scalar>(
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
        let (of_a, of_b) = (of_a.laid_out(), b.laid_out());
        return Err(LinalgError::Shape(format!(
            "a triangle{of_a} does not fit a matrix{of_b} from the {side:?} (must be of order {order}, and the \
             matrix General, in tiles of one order)"
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

task_space! {
    /// The tasks of a product with a triangle: m and k are turns of tile rows of B, n is their column
    /// (from the right: turns of columns, and a row).
    pub enum TriangularTask;

    impl<T: Scalar> TaskSpace for Triangular<'_, T> {
        type Datum = Tile<T>;
        let nt = self.nt;
        let columns = self.columns;
        let reads = u32::from(self.alpha != T::zero() && self.columns > 0);
        let gives = u32::from(self.is_spread());
        data A[m, k] where k <= m && m < nt
            in self.a.matrix.store() at { let (i, j) = self.of_a(m, k); self.a.matrix.place(i, j) }
            on { let (i, j) = self.of_a(m, k); self.a.matrix.rank_of(i as usize, j as usize) };
        data B[m, n] where m < nt && n < columns
            in self.b.store() at { let (i, j) = self.of_b(m, n); self.b.place(i, j) }
            on { let (i, j) = self.of_b(m, n); self.b.rank_of(i as usize, j as usize) };

        for m in 0..nt {
            for n in 0..columns {
                // B[m,n] ← α · B[m,n]
                Begin { m, n }: update tile = B[m, n] => scale(self.alpha, tile);
            }
        }
        if reads > 0 {
            if gives > 0 {
                for m in 0..nt {
                    for k in 0..=m {
                        Give { m, k }: give A[m, k];
                    }
                }
            }
            for m in (0..nt).rev() {
                for n in 0..columns {
                    // B[m,n] ← op(A)[m,m] · B[m,n]
                    Multiply { m, n }: update tile = B[m, n], read factor = A[m, m]
                        => trmm_op(T::one(), self.side, self.factor(factor), tile);
                    for k in 0..m {
                        // B[m,n] ← B[m,n] + op(A)[m,k] · B[k,n]
                        Add { m, k, n }:
                            update tile = B[m, n], read factor = A[m, k], read other = B[k, n]
                            => self.add(factor, other, tile);
                    }
                }
            }
        }

        fn describe(&self, about: &mut Description) {
            about.name("trmm");
            about.parameter("m", self.b.rows());
            self.b.layout().describe(about);
            about.parameter("grid of A", self.a.matrix.distribution());
            about.parameter("side", format!("{:?}", self.side));
            about.parameter("op", format!("{:?}", self.a.op));
            let shape = (self.a.triangle, self.a.diagonal);
            about.parameter("triangle", format!("{shape:?}"));
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
            about.parameter("alpha", shown(self.alpha));
        }

        /// The rows with late turns first, since they read those that are overwritten later.
        fn priority(&self, task: TriangularTask) -> i64 {
            let all = 2 * i64::from(self.nt);
            let turn = |m: u32| i64::from(m);
            match task {
                Begin { .. } => 2 * all,
                Give { m, .. } => all + turn(m),
                Multiply { m, .. } | Add { m, .. } => turn(m),
            }
        }
    }
}
use TriangularTask::{Add, Begin, Give, Multiply};

#[cfg(test)]
mod tests;
