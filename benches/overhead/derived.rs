//! Shapes as loops: what `task_space!` derives for the graphs that `examples/common/shapes.rs` writes by hand.
//!
//! Each comes twice, for edges that only order tasks and for edges that carry data. A stencil whose
//! tasks make their data is written here by hand too ([`MadeByHand`]): that of the shapes moves eight
//! bytes around instead.

use common::shapes::{Updated, WIDTH};
use dataflow::prelude::*;

// ── Wavefront ─────────────────────────────────────────────────────────────────────────────────────

pub struct Wavefront {
    pub side: u32,
    pub dense: bool,
}

task_space! {
    /// The tasks of a wavefront that carries nothing.
    pub enum Cell;

    impl TaskSpace for Wavefront {
        type Datum = ();
        let side = self.side;
        dense if self.dense;
        order Left[i];
        order Top[j];

        for i in 0..side {
            for j in 0..side {
                Tile { i, j }: update Left[i], update Top[j];
            }
        }
    }
}

pub struct UpdatedWavefront {
    side: u32,
    left: Store<Updated>,
    top: Store<Updated>,
}

impl UpdatedWavefront {
    pub fn new(side: u32) -> Self {
        let fresh = |name| Store::new(name, (0..side).map(|_| Updated::default()));
        UpdatedWavefront {
            side,
            left: fresh("left"),
            top: fresh("top"),
        }
    }
}

task_space! {
    /// The tasks of a wavefront that updates its data.
    pub enum UpdatedCell;

    impl TaskSpace for UpdatedWavefront {
        type Datum = Updated;
        let side = self.side;
        data Left[i] in self.left at i;
        data Top[j] in self.top at j;

        for i in 0..side {
            for j in 0..side {
                Tile { i, j }: update Left[i], update Top[j];
            }
        }
    }
}

// ── Cholesky ──────────────────────────────────────────────────────────────────────────────────────

pub struct Cholesky {
    pub nt: u32,
    pub dense: bool,
}

task_space! {
    /// The tasks of a factorisation that carries nothing.
    pub enum Factor;

    impl TaskSpace for Cholesky {
        type Datum = ();
        let nt = self.nt;
        dense if self.dense;
        order A[m, n];

        for k in 0..nt {
            Potrf { k }: update A[k, k];
            for m in k + 1..nt {
                Trsm { k, m }: update A[m, k], read A[k, k];
            }
            for m in k + 1..nt {
                Syrk { k, m }: update A[m, m], read A[m, k];
                for n in k + 1..m {
                    Gemm { k, m, n }: update A[m, n], read A[m, k], read A[n, k];
                }
            }
        }
    }
}

pub struct UpdatedCholesky {
    nt: u32,
    /// The lower triangle, by rows.
    tiles: Store<Updated>,
}

impl UpdatedCholesky {
    pub fn new(nt: u32) -> Self {
        let tiles = (0..nt * (nt + 1) / 2).map(|_| Updated::default());
        let tiles = Store::new("tiles", tiles);
        UpdatedCholesky { nt, tiles }
    }
}

task_space! {
    /// The tasks of a factorisation that updates its tiles.
    pub enum UpdatedFactor;

    impl TaskSpace for UpdatedCholesky {
        type Datum = Updated;
        let nt = self.nt;
        data A[m, n] in self.tiles at m * (m + 1) / 2 + n;

        for k in 0..nt {
            Potrf { k }: update A[k, k];
            for m in k + 1..nt {
                Trsm { k, m }: update A[m, k], read A[k, k];
            }
            for m in k + 1..nt {
                Syrk { k, m }: update A[m, m], read A[m, k];
                for n in k + 1..m {
                    Gemm { k, m, n }: update A[m, n], read A[m, k], read A[n, k];
                }
            }
        }
    }
}

// ── Stencil ───────────────────────────────────────────────────────────────────────────────────────

pub struct Stencil {
    pub steps: u32,
    pub dense: bool,
}

task_space! {
    /// The tasks of a stencil that carries nothing.
    pub enum Point;

    impl TaskSpace for Stencil {
        type Datum = ();
        let steps = self.steps;
        let width = WIDTH;
        dense if self.dense;
        order C[step, column];

        for step in 0..steps {
            for column in 0..width {
                At { step, column }:
                    read C[step - 1, column + 1], read C[step - 1, column], read C[step - 1, column - 1],
                    new C[step, column];
            }
        }
    }
}

pub struct MadeStencil {
    pub steps: u32,
}

task_space! {
    /// The tasks of a stencil that makes its data.
    pub enum MadePoint;

    impl TaskSpace for MadeStencil {
        type Datum = Updated;
        let steps = self.steps;
        let width = WIDTH;
        data C[step, column];

        for step in 0..steps {
            for column in 0..width {
                At { step, column }:
                    optional C[step - 1, column + 1], optional C[step - 1, column],
                    optional C[step - 1, column - 1], new made = C[step, column]
                    => made.put(Updated::default());
            }
        }
    }
}

/// The same by hand.
pub struct MadeByHand {
    pub steps: u32,
}

const EAST: usize = 0;
const OWN: usize = 1;
const WEST: usize = 2;
const MADE: usize = 3;

impl TaskSpace for MadeByHand {
    type Task = (u32, u32);
    type Datum = Updated;

    fn describe(&self, about: &mut Description) {
        about.name("stencil").parameter("steps", self.steps);
        let class = about.class("At").optional("EAST").optional("OWN");
        class.optional("WEST").new_flow("MADE");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
        (0..self.steps).flat_map(|step| (0..WIDTH).map(move |column| (step, column)))
    }

    #[inline(always)]
    fn inputs(&self, (step, column): (u32, u32), from: &mut impl Inputs<Self>) {
        let Some(before) = step.checked_sub(1) else {
            return;
        };
        if column + 1 < WIDTH {
            from.task(EAST, (before, column + 1), MADE);
        }
        from.task(OWN, (before, column), MADE);
        if column > 0 {
            from.task(WEST, (before, column - 1), MADE);
        }
    }

    #[inline(always)]
    fn successors(&self, (step, column): (u32, u32), to: &mut impl Successors<Self>) {
        let next = step + 1;
        if next == self.steps {
            return;
        }
        if column > 0 {
            to.task(MADE, (next, column - 1), EAST);
        }
        to.task(MADE, (next, column), OWN);
        if column + 1 < WIDTH {
            to.task(MADE, (next, column + 1), WEST);
        }
    }

    #[inline(always)]
    fn run(&self, _: (u32, u32), flows: &mut Flows<'_, Updated>) -> Result<(), TaskError> {
        let [_, _, _, made] = flows.slots();
        made.put(Updated::default());
        Ok(())
    }

    fn roots(&self, _: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
        (0..self.steps.min(1)).flat_map(|step| (0..WIDTH).map(move |column| (step, column)))
    }

    fn count(&self, _: Rank) -> u64 {
        u64::from(self.steps) * u64::from(WIDTH)
    }
}
