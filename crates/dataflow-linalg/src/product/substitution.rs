//! Substitution: solves with a triangle, or with two one after the other; every side, triangle and
//! operation is this graph.
//!
//! # Law
//! Some triangles are solved from the first row to the last, *down*; the others *up*. Both ways of a
//! factored matrix are one graph: what is solved down begins its way up without a barrier. The updates of
//! a tile of B form one chain in each direction, in the order of the solved tiles; so the bits depend on
//! the triangles, B, the tile order and the backend only. From the right, rows and columns of B change
//! places.
//!
//! # Over ranks
//! A task runs where its tile of B lives. A tile of A is given once to each rank that needs it on a way; a
//! diagonal tile once for both. Who gives does not wait: what comes too early stays with its owner, since
//! ranks ask for data by urgency, and for so many bytes at a time only.

use super::triangular::{TriangularOperand, expect_fit, extents};
use crate::error::LinalgError;
use crate::kernel::{Backend, Diagonal, Op, Side, Triangle, gemm_op, scale, trsm_op, trsm_unit};
use crate::matrix::{Tile, TiledMatrix};
use crate::scalar::{Scalar, shown};
use crate::spans::Spans;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// The task space of one way or both: nt(nt+1)/2 tasks for each tile column of B and each way, and over
/// ranks one for each tile of A that is read.
///
/// # Examples
/// See [`trsm`].
#[derive(Clone, Copy, Debug)]
pub struct Substitution<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
    pub(super) down: Option<TriangleForm>,
    pub(super) up: Option<TriangleForm>,
    pub(super) side: Side,
    alpha: T,
    pub(super) b: &'a TiledMatrix<T>,
    backend: Backend,
    /// Tiles of A along its diagonal.
    nt: u32,
    /// Tile columns of B; its tile rows from the right.
    columns: u32,
    /// Whether B is I, so that above its diagonal the way down finds zeros only.
    pub(super) of_unit: bool,
}

/// How a triangle enters.
#[derive(Clone, Copy, Debug)]
pub(super) struct TriangleForm {
    op: Op,
    shape: (Triangle, Diagonal),
}

/// How a triangle enters, as users write it.
fn way(form: Option<TriangleForm>) -> String {
    let shown = |TriangleForm {
                     op,
                     shape: (triangle, diagonal),
                 }| { format!("{op:?}, {triangle:?}, {diagonal:?}") };
    form.map_or_else(|| "none".to_string(), shown)
}

/// Overwrites `b` by the X of op(A)·X = α·B, or of X·op(A) = α·B. n·m² flops on the left, m·n² on
/// the right; copies no tile.
///
/// With α = 0 nothing is read. A zero on the diagonal is not looked for.
///
/// # Errors
/// If shapes or tile orders disagree, B is A or not stored as
/// [`Structure::General`](crate::matrix::Structure::General), or the upper triangle is asked for of a
/// matrix that is stored as [`Structure::Lower`](crate::matrix::Structure::Lower); if the run fails.
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
    Substitution::new(side, alpha, a, b, backend)?.run(on)
}

impl<'a, T: Scalar> Substitution<'a, T> {
    /// The space of [`trsm`] for matrices with the same tile order; each may have a distribution of
    /// its own.
    ///
    /// # Errors
    /// As [`trsm`].
    pub fn new(
        side: Side,
        alpha: T,
        a: TriangularOperand<'a, T>,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_fit(side, a, b)?;
        let (nt, columns) = extents(side, b);
        let form = TriangleForm {
            op: a.op,
            shape: (a.triangle, a.diagonal),
        };
        let is_down = form.is_down(side);
        Ok(Substitution {
            a: a.matrix,
            down: is_down.then_some(form),
            up: (!is_down).then_some(form),
            side,
            alpha,
            b,
            backend,
            nt,
            columns,
            of_unit: false,
        })
    }

    /// The solution of A·X = B with both triangles of one factored matrix: down with the first, then up
    /// with the second.
    ///
    /// # Errors
    /// As [`trsm`].
    pub(crate) fn with_both(
        [down, up]: [TriangularOperand<'a, T>; 2],
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let [down, up] = [down, up].map(|a| Substitution::new(Side::Left, T::one(), a, b, backend));
        let (down, up) = (down?, up?);
        debug_assert!(
            down.down.is_some() && up.up.is_some(),
            "first down, then up"
        );
        Ok(Substitution { up: up.up, ..down })
    }

    /// The same for a unit matrix, without what is known to be zero.
    pub(crate) fn of_unit(self) -> Self {
        Substitution {
            of_unit: true,
            ..self
        }
    }

    /// Runs this rank's part; every rank calls it with its parts of the matrices.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers, the same on every rank.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &self.matrices(), on).map_err(LinalgError::Run)
    }

    /// What it reads and what it overwrites.
    pub(crate) fn matrices(&self) -> [&TiledMatrix<T>; 2] {
        [self.a, self.b]
    }

    /// Whether there is anything to be solved.
    fn solves(&self) -> bool {
        self.alpha != T::zero() && self.columns > 0
    }

    fn is_spread(&self) -> bool {
        self.a.is_spread() || self.b.is_spread()
    }

    /// The stored tile of A with which row m of B is updated by row k.
    pub(super) fn of_a(&self, form: Option<TriangleForm>, m: u32, k: u32) -> (u32, u32) {
        let is_plain = form.is_none_or(|form| form.op == Op::NoTranspose);
        match (self.side == Side::Left) == is_plain {
            true => (m, k),
            false => (k, m),
        }
    }

    /// The tile of B in row m and column j, seen from the left.
    pub(super) fn of_b(&self, m: u32, j: u32) -> (u32, u32) {
        match self.side {
            Side::Left => (m, j),
            Side::Right => (j, m),
        }
    }

    /// B ← op(A)⁻¹·B, or from the right, with a tile of A on the diagonal; B may be I.
    fn solve(
        &self,
        form: Option<TriangleForm>,
        factor: &Tile<T>,
        tile: &mut Tile<T>,
        is_unit: bool,
    ) {
        let Some(TriangleForm { op, shape }) = form else {
            return;
        };
        let factor = (op, shape, factor);
        match is_unit {
            true => trsm_unit(self.backend, factor, tile),
            false => trsm_op(self.backend, self.side, factor, tile),
        }
    }

    /// B ← B − op(A)·X, or B − X·op(A).
    fn update(
        &self,
        form: Option<TriangleForm>,
        factor: &Tile<T>,
        solved: &Tile<T>,
        tile: &mut Tile<T>,
    ) {
        let Some(TriangleForm { op, .. }) = form else {
            return;
        };
        let (factor, solved) = ((op, factor), (Op::NoTranspose, solved));
        match self.side {
            Side::Left => gemm_op(self.backend, factor, solved, tile),
            Side::Right => gemm_op(self.backend, solved, factor, tile),
        }
    }
}

impl TriangleForm {
    /// Whether the first row is solved first; from the right, the first column.
    fn is_down(self, side: Side) -> bool {
        let is_lower = (self.shape.0 == Triangle::Lower) == (self.op == Op::NoTranspose);
        is_lower == (side == Side::Left)
    }
}

task_space! {
    /// The tasks of a solve with triangles: k is the row of tiles that is solved, m one that is updated
    /// with it, j the column of tiles of B (from the right columns and a row). Over ranks tiles of A are
    /// given, those on the diagonal once for both ways.
    pub enum SubstitutionTask;

    impl<T: Scalar> TaskSpace for Substitution<'_, T> {
        type Datum = Tile<T>;
        let nt = self.nt;
        let columns = self.columns;
        let scales = u32::from(self.alpha != T::one());
        let downs = u32::from(self.down.is_some() && self.solves());
        let ups = u32::from(self.up.is_some() && self.solves());
        let gives = u32::from(self.is_spread() && self.solves());
        // Down the columns of a unit matrix begins on the diagonal.
        let slack = if self.of_unit { 0 } else { self.columns };
        data B[m, j]
            in self.b.store() at { let (row, col) = self.of_b(m, j); self.b.place(row, col) }
            on {
                let (row, col) = self.of_b(m, j);
                self.b.rank_of(row as usize, col as usize)
            };
        data Corner[k]
            in self.a.store() at self.a.place(k, k)
            on self.a.rank_of(k as usize, k as usize);
        data Down[m, k]
            in self.a.store() at { let (row, col) = self.of_a(self.down, m, k); self.a.place(row, col) }
            on {
                let (row, col) = self.of_a(self.down, m, k);
                self.a.rank_of(row as usize, col as usize)
            };
        data Up[m, k]
            in self.a.store() at { let (row, col) = self.of_a(self.up, m, k); self.a.place(row, col) }
            on {
                let (row, col) = self.of_a(self.up, m, k);
                self.a.rank_of(row as usize, col as usize)
            };

        if scales > 0 {
            for m in 0..nt {
                for j in 0..columns {
                    // B[m,j] ← α · B[m,j]
                    Begin { m, j }: update tile = B[m, j] => scale(self.alpha, tile);
                }
            }
        }
        if gives > 0 {
            for k in 0..nt {
                GiveCorner { k }: give Corner[k];
                if downs > 0 {
                    for m in k + 1..nt {
                        GiveDown { m, k }: give Down[m, k];
                    }
                }
                if ups > 0 {
                    for m in 0..k {
                        GiveUp { m, k }: give Up[m, k];
                    }
                }
            }
        }
        if downs > 0 {
            for j in 0..columns {
                for k in 0..nt {
                    if k + slack >= j {
                        // B[k,j] ← op(A)[k,k]⁻¹ · B[k,j]
                        Forward { k, j }: update tile = B[k, j], read factor = Corner[k]
                            => self.solve(self.down, factor, tile, self.of_unit && k == j);
                        for m in k + 1..nt {
                            // B[m,j] ← B[m,j] − op(A)[m,k] · B[k,j]
                            ForwardUpdate { m, k, j }:
                                update tile = B[m, j], read factor = Down[m, k], read solved = B[k, j]
                                => self.update(self.down, factor, solved, tile);
                        }
                    }
                }
            }
        }
        if ups > 0 {
            for j in 0..columns {
                for k in (0..nt).rev() {
                    // B[k,j] ← op(A)[k,k]⁻¹ · B[k,j]
                    Backward { k, j }: update tile = B[k, j], read factor = Corner[k]
                        => self.solve(self.up, factor, tile, false);
                    for m in 0..k {
                        // B[m,j] ← B[m,j] − op(A)[m,k] · B[k,j]
                        BackwardUpdate { m, k, j }:
                            update tile = B[m, j], read factor = Up[m, k], read solved = B[k, j]
                            => self.update(self.up, factor, solved, tile);
                    }
                }
            }
        }

        fn describe(&self, about: &mut Description) {
            about.name("trsm").parameter("m", self.b.rows());
            self.b.layout().describe(about);
            about.parameter("grid of A", self.a.distribution());
            about.parameter("side", format!("{:?}", self.side));
            about.parameter("down", way(self.down));
            about.parameter("up", way(self.up));
            if self.of_unit {
                about.parameter("b", "unit");
            }
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
            about.parameter("alpha", shown(self.alpha));
        }

        /// Solutions of rows first, then updates by spans of steps: so a tile is updated several times while it
        /// lies in a cache. Else the steps that remain on the longest way, down to the last row and back up.
        fn priority(&self, task: SubstitutionTask) -> i64 {
            let (last, spans) = (self.nt.saturating_sub(1), Spans::new(1, self.nt));
            let steps = i64::from(last);
            let all = if self.up.is_some() { 4 * steps + 2 } else { 2 * steps + 1 };
            let down = |m: u32, k: u32| all - i64::from(m) - i64::from(spans.first(k));
            let up = |m: u32, k: u32| i64::from(m) + i64::from(last - spans.first(last - k)) + 1;
            let solved_down = |k: u32| 2 * all - i64::from(k) + 2;
            let solved_up = |k: u32| all + i64::from(k) + 2;
            match task {
                // As urgent as what reads the tile.
                GiveCorner { k } => match self.down {
                    Some(_) => solved_down(k) + 1,
                    None => solved_up(k) + 1,
                },
                GiveDown { m, k } => down(m, k) + 1,
                GiveUp { m, k } => up(m, k) + 1,
                Begin { m, .. } => match self.down {
                    Some(_) => down(m, 0) + 1,
                    None => up(m, last) + 1,
                },
                Forward { k, .. } => solved_down(k),
                ForwardUpdate { m, k, .. } => down(m, k),
                Backward { k, .. } => solved_up(k),
                BackwardUpdate { m, k, .. } => up(m, k),
            }
        }
    }
}
use SubstitutionTask::{
    Backward, BackwardUpdate, Begin, Forward, ForwardUpdate, GiveCorner, GiveDown, GiveUp,
};
