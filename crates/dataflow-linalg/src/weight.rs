//! Weight: what tasks cost and what their outputs weigh, so that a run is counted before it is made.
//!
//! # Law
//! Bytes are exactly those that travel: of tiles that are read in parts, these parts. Only how many rows LU
//! swaps depends on the matrix: there bytes are those that are expected if each row is as likely as any
//! other to be a pivot's, as in a random matrix. Flops are LAPACK's
//! count of the kernel where there is one; for eliminations of tile QR, and of LU with incremental
//! pivoting, the leading term, without what is spent on T or on the steps.
//!
//! # Elsewhere
//! Counting: [`counts`](dataflow_core::space::counts). The memory that a run takes: [`needs`](crate::needs).

use crate::matrix::Part;
use crate::scalar::Scalar;
use crate::{cholesky, flops, lu, product, qr};
use dataflow_core::prelude::*;

/// A space whose tasks and data have a known weight; none of it needs a matrix to exist.
///
/// # Examples
/// What a factorisation on 2 × 3 ranks sends, and how evenly its work is spread:
/// ```
/// use dataflow_core::space::counts::Counting;
/// use dataflow_core::{port::Heap, rank::Rank};
/// use dataflow_linalg::cholesky::Factor;
/// use dataflow_linalg::kernel::Backend;
/// use dataflow_linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
/// use dataflow_linalg::weight::Weight;
/// use std::sync::Arc;
///
/// let grid = Distribution::BlockCyclic(Grid::new(2, 3)?);
/// let layout = Layout::lower(40_000, 1000)?.distributed(grid, Rank(0))?;
/// let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
/// let factor = Factor::new(&a, Backend::Auto)?;
/// let bytes = |task, flow| factor.bytes(task, flow);
/// let flops = |task| factor.flops(task);
/// let counts = Counting::of(&factor, 6).bytes(&bytes).cost(&flops).count()?;
/// assert_eq!((counts.tasks(), counts.sent().messages), (40 * 41 * 42 / 6, 2301));
/// assert!(counts.balance() > 0.9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Weight: TaskSpace {
    /// Bytes of the datum that leaves a task through a flow; 0 of one that never leaves its rank.
    fn bytes(&self, task: Self::Task, flow: usize) -> u64;

    /// Floating-point operations of a task.
    fn flops(&self, task: Self::Task) -> f64;
}

/// Bytes of a part of a tile.
fn travels<T: Scalar>(shape: (usize, usize), part: Part) -> u64 {
    part.bytes::<T>(shape)
}

/// Operations of a product with so many multiplications.
fn products<T: Scalar>(rows: usize, cols: usize, sum: usize) -> f64 {
    flops::gemm::<T>(rows, cols, sum) as f64
}

impl<T: Scalar> Weight for cholesky::Factor<'_, T> {
    fn bytes(&self, task: Self::Task, _: usize) -> u64 {
        use cholesky::Task::{Gemm, Herk, Potrf, Trsm};
        let shape = |m: u32, n: u32| (self.a.tile_rows(m as usize), self.a.tile_cols(n as usize));
        match task {
            Potrf { k } => travels::<T>(shape(k, k), Part::Lower),
            Trsm { m, k } => travels::<T>(shape(m, k), Part::Whole),
            Herk { .. } | Gemm { .. } => 0,
        }
    }

    fn flops(&self, task: Self::Task) -> f64 {
        use cholesky::Task::{Gemm, Herk, Potrf, Trsm};
        let extent = |m: u32| self.a.tile_rows(m as usize);
        match task {
            Potrf { k } => flops::potrf::<T>(extent(k)) as f64,
            Trsm { m, k } => products::<T>(extent(m), extent(k), extent(k)) / 2.0,
            Herk { m, k } => products::<T>(extent(m), extent(m) + 1, extent(k)) / 2.0,
            Gemm { m, n, k } => products::<T>(extent(m), extent(n), extent(k)),
        }
    }
}

impl<T: Scalar> Weight for lu::Factor<'_, T> {
    fn bytes(&self, task: Self::Task, flow: usize) -> u64 {
        self.bytes_handed_on(task, flow)
    }

    fn flops(&self, task: Self::Task) -> f64 {
        self.operations(task)
    }
}

/// All on one rank: nothing travels.
impl<T: Scalar> Weight for lu::Columns<'_, T> {
    fn bytes(&self, _: Self::Task, _: usize) -> u64 {
        0
    }

    fn flops(&self, task: Self::Task) -> f64 {
        self.operations(task)
    }
}

impl<T: Scalar> Weight for lu::Unpivoted<'_, T> {
    fn bytes(&self, task: Self::Task, flow: usize) -> u64 {
        use lu::UnpivotedTask::{Below, Getrf, Right, Update};
        let shape = |m: u32, n: u32| (self.a.tile_rows(m as usize), self.a.tile_cols(n as usize));
        match (task, flow) {
            (Getrf { k }, 1) => travels::<T>(shape(k, k), Part::UnitLower),
            (Getrf { k }, 2) => travels::<T>(shape(k, k), Part::Upper),
            (Right { n, k }, _) => travels::<T>(shape(k, n), Part::Whole),
            (Below { m, k }, _) => travels::<T>(shape(m, k), Part::Whole),
            (Getrf { .. } | Update { .. }, _) => 0,
        }
    }

    fn flops(&self, task: Self::Task) -> f64 {
        use lu::UnpivotedTask::{Below, Getrf, Right, Update};
        let (rows, cols) = (
            |m: u32| self.a.tile_rows(m as usize),
            |n: u32| self.a.tile_cols(n as usize),
        );
        match task {
            Getrf { k } => flops::getrf::<T>(rows(k), cols(k)) as f64,
            Right { n, k } => products::<T>(rows(k), cols(n), rows(k)) / 2.0,
            Below { m, k } => products::<T>(rows(m), cols(k), cols(k)) / 2.0,
            Update { m, n, k } => products::<T>(rows(m), cols(n), cols(k)),
        }
    }
}

impl<T: Scalar> Weight for lu::Incremental<'_, T> {
    fn bytes(&self, task: Self::Task, flow: usize) -> u64 {
        self.bytes_handed_on(task, flow)
    }

    fn flops(&self, task: Self::Task) -> f64 {
        self.operations(task)
    }
}

impl<T: Scalar> Weight for qr::Factor<'_, T> {
    fn bytes(&self, task: Self::Task, flow: usize) -> u64 {
        use qr::Task::{Gemqrt, Geqrt, Stay, Tpmqrt, Tpqrt};
        let shape = |m: u32, n: u32| (self.a.tile_rows(m as usize), self.a.tile_cols(n as usize));
        let blocks = |cols| travels::<T>((self.q.options().ib, cols), Part::UpperBlocks);
        let elimination = self.q.elimination();
        match (task, flow) {
            (Geqrt { m, k }, 0) => travels::<T>(shape(m, k), Part::Upper),
            (Geqrt { m, k }, flow) => {
                let (rows, cols) = shape(m, k);
                let short = rows.min(cols);
                match flow {
                    1 => travels::<T>((rows, short), Part::UnitLower),
                    _ => blocks(short),
                }
            }
            (Tpqrt { m, k }, 0) => {
                let above = elimination.pivot(k, m).unwrap_or(k);
                travels::<T>(shape(above, k), Part::Upper)
            }
            (Tpqrt { m, k }, 1) if elimination.is_triangle(k, m) => {
                travels::<T>(shape(m, k), Part::Upper)
            }
            (Tpqrt { m, k }, 1) => travels::<T>(shape(m, k), Part::Whole),
            (Tpqrt { k, .. }, _) => blocks(shape(k, k).1),
            (Gemqrt { m, n, .. }, _) => travels::<T>(shape(m, n), Part::Whole),
            (Tpmqrt { m, k, n }, 0) => {
                let above = elimination.pivot(k, m).unwrap_or(k);
                travels::<T>(shape(above, n), Part::Whole)
            }
            (Tpmqrt { m, n, .. }, _) => travels::<T>(shape(m, n), Part::Whole),
            (Stay { .. }, _) => 0,
        }
    }

    fn flops(&self, task: Self::Task) -> f64 {
        use qr::Task::{Gemqrt, Geqrt, Stay, Tpmqrt, Tpqrt};
        let (rows, cols) = (
            |m: u32| self.a.tile_rows(m as usize),
            |n: u32| self.a.tile_cols(n as usize),
        );
        // A triangle below is half of a square.
        let share = |m: u32, k: u32| match self.q.elimination().is_triangle(k, m) {
            true => 0.5,
            false => 1.0,
        };
        match task {
            Geqrt { m, k } => flops::geqrf::<T>(rows(m), cols(k)) as f64,
            Gemqrt { m, k, n } => {
                let short = rows(m).min(cols(k));
                flops::unmqr::<T>(rows(m), cols(n), short) as f64
            }
            Tpqrt { m, k } => {
                // The columns of a triangle are a third as long on the whole, if each is updated by those before.
                let share = if share(m, k) < 1.0 { 1.0 / 3.0 } else { 1.0 };
                share * products::<T>(rows(m), cols(k), cols(k))
            }
            Tpmqrt { m, k, n } => 2.0 * share(m, k) * products::<T>(rows(m), cols(n), cols(k)),
            Stay { .. } => 0.0,
        }
    }
}

impl<T: Scalar> Weight for product::Gemm<'_, T> {
    fn bytes(&self, task: Self::Task, _: usize) -> u64 {
        use product::ProductTask::{GiveA, GiveB, MirrorA, MirrorB, Scale, Update};
        let (rows, cols) = (
            |m: u32| self.c.tile_rows(m as usize),
            |n: u32| self.c.tile_cols(n as usize),
        );
        let tile = |shape| travels::<T>(shape, Part::Whole);
        match task {
            GiveA { m, k } => tile((rows(m), self.step(k))),
            MirrorA { m } => tile((rows(m), rows(m))),
            GiveB { k, n } => tile((self.step(k), cols(n))),
            MirrorB { k } => tile((self.step(k), self.step(k))),
            Scale { .. } | Update { .. } => 0,
        }
    }

    fn flops(&self, task: Self::Task) -> f64 {
        use product::ProductTask::Update;
        let Update { m, n, k } = task else { return 0.0 };
        let (rows, cols) = (self.c.tile_rows(m as usize), self.c.tile_cols(n as usize));
        products::<T>(rows, cols, self.step(k))
    }
}

impl<T: Scalar> product::Gemm<'_, T> {
    /// How many columns of op(A) a step multiplies.
    fn step(&self, k: u32) -> usize {
        let nb = self.c.nb();
        let rest = self.a.shape().1.saturating_sub(k as usize * nb);
        rest.min(nb)
    }
}
