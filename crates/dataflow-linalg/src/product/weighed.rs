//! Weighed: what the tasks of products and of solves with triangles cost, and what they send.
//!
//! # Law
//! Of a matrix stored as [`Structure::Lower`] the tiles on the diagonal are taken to be as a Cholesky
//! factorisation leaves them, of any other as LU does: triangles there, whole here. Where they were filled
//! they travel whole.

use super::torus::{LEFT, RIGHT};
use super::{
    Gemm, Herk, HerkTask, ProductTask, Substitution, SubstitutionTask, Torus, TorusTask,
    Triangular, TriangularTask,
};
use crate::flops::{self, products};
use crate::kernel::Side;
use crate::matrix::{Part, Structure, TiledMatrix};
use crate::scalar::Scalar;
use crate::weight::Weight;

impl<T: Scalar> Weight for Gemm<'_, T> {
    fn bytes(&self, task: Self::Task, _: usize) -> u64 {
        use ProductTask::{GiveA, GiveB, MirrorA, MirrorB, Scale, Update};
        let (rows, cols) = (
            |m: u32| self.c.tile_rows(m as usize),
            |n: u32| self.c.tile_cols(n as usize),
        );
        let tile = |shape| Part::Whole.bytes::<T>(shape);
        match task {
            GiveA { m, k } => tile((rows(m), self.a.step(k))),
            MirrorA { m } => tile((rows(m), rows(m))),
            GiveB { k, n } => tile((self.a.step(k), cols(n))),
            MirrorB { k } => tile((self.a.step(k), self.a.step(k))),
            Scale { m, n } | Update { m, n, .. } => self.c.tile_bytes((m, n)),
        }
    }

    fn flops(&self, task: Self::Task) -> f64 {
        use ProductTask::Update;
        let Update { m, n, k } = task else { return 0.0 };
        let (rows, cols) = (self.c.tile_rows(m as usize), self.c.tile_cols(n as usize));
        products::<T>(rows, cols, self.a.step(k))
    }
}

impl<T: Scalar> Weight for Herk<'_, T> {
    fn bytes(&self, task: HerkTask, _: usize) -> u64 {
        use HerkTask::{Below, Give, OnDiagonal, Scale};
        match task {
            Give { n, k } => Part::Whole.bytes::<T>((self.c.tile_rows(n as usize), self.a.step(k))),
            Scale { m, n } | Below { m, n, .. } => self.c.tile_bytes((m, n)),
            OnDiagonal { n, .. } => self.c.tile_bytes((n, n)),
        }
    }

    fn flops(&self, task: HerkTask) -> f64 {
        let extent = |m: u32| self.c.tile_rows(m as usize);
        match task {
            HerkTask::Give { .. } | HerkTask::Scale { .. } => 0.0,
            HerkTask::OnDiagonal { n, k } => {
                products::<T>(extent(n), extent(n) + 1, self.a.step(k)) / 2.0
            }
            HerkTask::Below { m, n, k } => products::<T>(extent(m), extent(n), self.a.step(k)),
        }
    }
}

impl<T: Scalar> Weight for Torus<'_, T> {
    fn bytes(&self, task: TorusTask, flow: usize) -> u64 {
        use TorusTask::{GiveA, GiveB, Scale, Update};
        let (rows, cols) = (
            |m: u32| self.c.tile_rows(m as usize),
            |n: u32| self.c.tile_cols(n as usize),
        );
        match (task, flow) {
            (GiveA { i, j }, _) => self.a.matrix.tile_bytes((i, j)),
            (GiveB { i, j }, _) => self.b.matrix.tile_bytes((i, j)),
            (Update { m, k, .. }, LEFT) => Part::Whole.bytes::<T>((rows(m), self.a.step(k))),
            (Update { n, k, .. }, RIGHT) => Part::Whole.bytes::<T>((self.a.step(k), cols(n))),
            (Scale { m, n } | Update { m, n, .. }, _) => self.c.tile_bytes((m, n)),
        }
    }

    fn flops(&self, task: TorusTask) -> f64 {
        let TorusTask::Update { m, n, k } = task else {
            return 0.0;
        };
        let (rows, cols) = self.c.tile_shape((m, n));
        products::<T>(rows, cols, self.a.step(k))
    }
}

/// Bytes of a tile of a triangle.
fn of_triangle<T: Scalar>(a: &TiledMatrix<T>, (i, j): (u32, u32)) -> u64 {
    match i == j && a.structure() == Structure::Lower {
        true => Part::Lower.bytes::<T>(a.tile_shape((i, j))),
        false => a.tile_bytes((i, j)),
    }
}

/// Operations with a triangle of a tile's rows, or from the right of its columns.
fn by_triangle<T: Scalar>(side: Side, (rows, cols): (usize, usize)) -> f64 {
    let order = match side {
        Side::Left => rows,
        Side::Right => cols,
    };
    products::<T>(rows, cols, order) / 2.0
}

impl<T: Scalar> Weight for Substitution<'_, T> {
    fn bytes(&self, task: SubstitutionTask, _: usize) -> u64 {
        use SubstitutionTask::{
            Backward, BackwardUpdate, Begin, Forward, ForwardUpdate, GiveCorner, GiveDown, GiveUp,
        };
        match task {
            GiveCorner { k } => of_triangle(self.a, (k, k)),
            GiveDown { m, k } => self.a.tile_bytes(self.of_a(self.down, m, k)),
            GiveUp { m, k } => self.a.tile_bytes(self.of_a(self.up, m, k)),
            Forward { k: m, j }
            | Backward { k: m, j }
            | Begin { m, j }
            | ForwardUpdate { m, j, .. }
            | BackwardUpdate { m, j, .. } => self.b.tile_bytes(self.of_b(m, j)),
        }
    }

    fn flops(&self, task: SubstitutionTask) -> f64 {
        use SubstitutionTask::{
            Backward, BackwardUpdate, Begin, Forward, ForwardUpdate, GiveCorner, GiveDown, GiveUp,
        };
        let tile = |m: u32, j: u32| self.b.tile_shape(self.of_b(m, j));
        let extent = |k: u32| self.a.tile_rows(k as usize);
        match task {
            GiveCorner { .. } | GiveDown { .. } | GiveUp { .. } | Begin { .. } => 0.0,
            // I is solved for: what comes is triangular, too.
            Forward { k, j } if self.of_unit && k == j => flops::trtri::<T>(extent(k)) as f64,
            Forward { k, j } | Backward { k, j } => by_triangle::<T>(self.side, tile(k, j)),
            ForwardUpdate { m, k, j } | BackwardUpdate { m, k, j } => {
                let (rows, cols) = tile(m, j);
                products::<T>(rows, cols, extent(k))
            }
        }
    }
}

impl<T: Scalar> Weight for Triangular<'_, T> {
    fn bytes(&self, task: TriangularTask, _: usize) -> u64 {
        use TriangularTask::{Add, Begin, Give, Multiply};
        match task {
            Give { m, k } => of_triangle(self.a.matrix, self.of_a(m, k)),
            Begin { m, n } | Multiply { m, n } | Add { m, n, .. } => {
                self.b.tile_bytes(self.of_b(m, n))
            }
        }
    }

    fn flops(&self, task: TriangularTask) -> f64 {
        use TriangularTask::{Add, Begin, Give, Multiply};
        let tile = |m: u32, n: u32| self.b.tile_shape(self.of_b(m, n));
        match task {
            Give { .. } | Begin { .. } => 0.0,
            Multiply { m, n } => by_triangle::<T>(self.side, tile(m, n)),
            Add { m, k, n } => {
                let (rows, cols) = tile(m, n);
                let (turn, _) = self.of_a(k, k);
                products::<T>(rows, cols, self.a.matrix.tile_rows(turn as usize))
            }
        }
    }
}
