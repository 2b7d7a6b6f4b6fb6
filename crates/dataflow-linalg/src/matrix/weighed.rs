//! Weighed: what is sent by the tasks that make, look at and move tiles; none of them computes.

use super::transfer::{Transfer, TransferTask};
use super::{EachTile, Fill, FillTask, Regular, RegularTask};
use crate::scalar::Scalar;
use crate::weight::Weight;

impl<T: Scalar> Weight for Fill<'_, T> {
    fn bytes(&self, FillTask::Fill { i, j }: FillTask, _: usize) -> u64 {
        self.matrix.tile_bytes((i, j))
    }

    fn flops(&self, _: FillTask) -> f64 {
        0.0
    }
}

/// There are no data.
impl Weight for EachTile<'_> {
    fn bytes(&self, _: (u32, u32), _: usize) -> u64 {
        0
    }

    fn flops(&self, _: (u32, u32)) -> f64 {
        0.0
    }
}

/// It only looks.
impl<T: Scalar> Weight for Regular<'_, T> {
    fn bytes(&self, _: RegularTask, _: usize) -> u64 {
        0
    }

    fn flops(&self, _: RegularTask) -> f64 {
        0.0
    }
}

impl<T: Scalar> Weight for Transfer<'_, T> {
    fn bytes(&self, task: TransferTask, _: usize) -> u64 {
        match task {
            TransferTask::Give { i, j } => self.from.tile_bytes((i, j)),
            TransferTask::Place { i, j, .. } => self.to.tile_bytes((i, j)),
        }
    }

    fn flops(&self, _: TransferTask) -> f64 {
        0.0
    }
}
