//! Weighed: what the tasks of the factorisation and of the inversion cost, and what they send.

use super::{Check, CheckTask, Factor, Inverse, InverseTask, Task};
use crate::flops::{self, products};
use crate::matrix::Part;
use crate::scalar::Scalar;
use crate::weight::Weight;

impl<T: Scalar> Weight for Factor<'_, T> {
    fn bytes(&self, task: Task, _: usize) -> u64 {
        use Task::{Gemm, Herk, Potrf, Trsm};
        match task {
            Potrf { k } => Part::Lower.bytes::<T>(self.a.tile_shape((k, k))),
            Trsm { m, k: n } | Gemm { m, n, .. } => self.a.tile_bytes((m, n)),
            Herk { m, .. } => self.a.tile_bytes((m, m)),
        }
    }

    fn flops(&self, task: Self::Task) -> f64 {
        use Task::{Gemm, Herk, Potrf, Trsm};
        let extent = |m: u32| self.a.tile_rows(m as usize);
        match task {
            Potrf { k } => flops::potrf::<T>(extent(k)) as f64,
            Trsm { m, k } => products::<T>(extent(m), extent(k), extent(k)) / 2.0,
            Herk { m, k } => products::<T>(extent(m), extent(m) + 1, extent(k)) / 2.0,
            Gemm { m, n, k } => products::<T>(extent(m), extent(n), extent(k)),
        }
    }
}

/// From L as the factorisation leaves it: diagonal tiles are triangles all the way.
impl<T: Scalar> Weight for Inverse<'_, T> {
    fn bytes(&self, task: Self::Task, _: usize) -> u64 {
        let (m, n) = written(task);
        match m == n {
            true => Part::Lower.bytes::<T>(self.a.tile_shape((m, n))),
            false => self.a.tile_bytes((m, n)),
        }
    }

    fn flops(&self, task: Self::Task) -> f64 {
        use InverseTask::{
            Gemm, Hand, Herk, Invert, Lauum, Multiply, Potrf, Square, Trmm, Trsm, TrsmLeft,
            TrsmRight, Trtri,
        };
        let (rows, cols) = self.a.tile_shape(written(task));
        let extent = |k: u32| self.a.tile_rows(k as usize);
        match task {
            Hand { .. } => 0.0,
            Potrf { .. } => flops::potrf::<T>(rows) as f64,
            Trtri { .. } => flops::trtri::<T>(rows) as f64,
            Lauum { .. } => (flops::potri::<T>(rows) - flops::trtri::<T>(rows)) as f64,
            Trsm { .. } | TrsmRight { .. } => products::<T>(rows, cols, cols) / 2.0,
            TrsmLeft { .. } | Trmm { .. } => products::<T>(rows, cols, rows) / 2.0,
            Herk { k, .. } | Square { k, .. } => products::<T>(rows, rows + 1, extent(k)) / 2.0,
            Gemm { k, .. } | Invert { k, .. } | Multiply { k, .. } => {
                products::<T>(rows, cols, extent(k))
            }
        }
    }
}

/// Of L as the factorisation leaves it. Sums of moduli, of A and of what is left of it, cost no operations.
impl<T: Scalar> Weight for Check<'_, T> {
    fn bytes(&self, task: CheckTask, _: usize) -> u64 {
        use CheckTask::{Add, Begin, Give, Subtract};
        let sums = |(rows, cols): (usize, usize)| 2 * ((rows + cols) * size_of::<f64>()) as u64;
        match task {
            Give { m, k } if m == k => Part::Lower.bytes::<T>(self.l.tile_shape((m, k))),
            Give { m, k: n } | Begin { m, n } => self.l.tile_bytes((m, n)),
            Subtract { m, n, k } if n == k => sums(self.l.tile_shape((m, n))),
            Subtract { m, n, .. } => self.l.tile_bytes((m, n)),
            Add { .. } => sums((self.l.rows(), self.l.cols())),
        }
    }

    fn flops(&self, task: CheckTask) -> f64 {
        let CheckTask::Subtract { m, n, k } = task else {
            return 0.0;
        };
        let extent = |m: u32| self.l.tile_rows(m as usize);
        products::<T>(extent(m), extent(n), extent(k))
    }
}

/// The tile that a task of the inversion overwrites.
fn written(task: InverseTask) -> (u32, u32) {
    use InverseTask::{
        Gemm, Hand, Herk, Invert, Lauum, Multiply, Potrf, Square, Trmm, Trsm, TrsmLeft, TrsmRight,
        Trtri,
    };
    match task {
        Potrf { k } | Trtri { k } | Lauum { k } => (k, k),
        Herk { m, .. } => (m, m),
        Square { n, .. } => (n, n),
        Trsm { m, k } | TrsmRight { m, k } => (m, k),
        TrsmLeft { k, n } | Trmm { k, n } => (k, n),
        Hand { m, n } | Gemm { m, n, .. } | Invert { m, n, .. } | Multiply { m, n, .. } => (m, n),
    }
}
