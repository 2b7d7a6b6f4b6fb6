//! Steps: what the variants of the product ask beside its edges: rounds, and tiles of zeros.
//!
//! A rank gives tiles in a round of its own before each step, and in `Torus` each hop is a round: so in
//! `base` nothing travels while a rank multiplies. Only for numbers of type f64.
//!
//! # Source
//! MMULT of Sorensen, Baden, *Hiding communication latency with non-SPMD, graph-based execution*, ICCS
//! 2009, §3.

use common::cli::settings::Grid;
use common::variant::Answers;
use dataflow::linalg::matrix::{Layout, LayoutError, Tile, TiledMatrix};
use dataflow::linalg::product::{Gemm, ProductTask, Torus, TorusTask};
use dataflow::prelude::*;

/// What there is beside a product of tiles: its grid, its steps, and tiles of zeros.
pub struct Steps {
    grid: Grid,
    /// Tiles of C, and in the sum.
    tiles: [usize; 3],
    /// A corner of A and of B, with tiles of every shape that they have.
    corners: [TiledMatrix<f64>; 2],
}

impl Steps {
    /// Of an m × k by k × n product in tiles of order `nb` on a grid.
    ///
    /// # Errors
    /// If there is no such layout.
    pub fn new([m, n, k]: [usize; 3], nb: usize, grid: Grid) -> Result<Self, LayoutError> {
        // One whole tile and what is left over, along each side.
        let corner = |length: usize| match length > nb {
            true => nb + (length - 1) % nb + 1,
            false => length,
        };
        let zeros = |rows, cols| -> Result<_, LayoutError> {
            Ok(TiledMatrix::zeros(Layout::general(
                corner(rows),
                corner(cols),
                nb,
            )?))
        };
        Ok(Steps {
            grid,
            tiles: [m, n, k].map(|length| length.div_ceil(nb)),
            corners: [zeros(m, k)?, zeros(k, n)?],
        })
    }

    fn n_ranks(&self) -> u32 {
        (self.grid.rows * self.grid.columns) as u32
    }

    /// A tile of zeros of the shape of tile (i, j) of A or B, of so many tiles.
    fn zeros(&self, of_b: bool, (i, j): (u32, u32)) -> Option<(&Store<Tile<f64>>, usize)> {
        let [mt, nt, kt] = self.tiles;
        let (rows, cols) = if of_b { (kt, nt) } else { (mt, kt) };
        // The last row or column is that of the corner, any other its first.
        let at = |i: u32, tiles: usize| usize::from(tiles > 1 && i as usize + 1 == tiles);
        let corner = &self.corners[usize::from(of_b)];
        let slot = corner.layout().slot(at(i, rows), at(j, cols))?;
        Some((corner.store(), slot))
    }

    /// How many hops a tile of step `k` has behind it at place `at` of a ring of so many ranks.
    fn hops(at: u32, k: u32, ranks: usize, tiles: usize) -> u32 {
        let ring = ranks.min(tiles).max(1) as u32;
        let owner = k % ranks as u32;
        let entry = if owner < ring { owner } else { 0 };
        (at % ring + ring - entry) % ring
    }

    /// Rounds of a step in `Torus`.
    fn width(&self) -> u32 {
        (self.grid.rows + self.grid.columns - 1) as u32
    }
}

impl<'a> Answers<Gemm<'a, f64>> for Steps {
    fn n_ranks(&self) -> u32 {
        self.n_ranks()
    }

    fn n_rounds(&self) -> u32 {
        2 * self.tiles[2] as u32 + 1
    }

    fn round(&self, task: ProductTask) -> u32 {
        match task {
            ProductTask::GiveA { k, .. } | ProductTask::GiveB { k, .. } => 2 * k,
            ProductTask::MirrorA { m: k } | ProductTask::MirrorB { k } => 2 * k,
            ProductTask::Scale { .. } => 0,
            ProductTask::Update { k, .. } => 2 * k + 1,
        }
    }

    fn stand_in(&self, task: ProductTask, flow: usize) -> Option<(&Store<Tile<f64>>, usize)> {
        match (task, flow) {
            (ProductTask::Update { m, k, .. }, 1) => self.zeros(false, (m, k)),
            (ProductTask::Update { n, k, .. }, 2) => self.zeros(true, (k, n)),
            _ => None,
        }
    }
}

impl<'a> Answers<Torus<'a, f64>> for Steps {
    fn n_ranks(&self) -> u32 {
        self.n_ranks()
    }

    fn n_rounds(&self) -> u32 {
        self.width() * self.tiles[2] as u32 + 1
    }

    fn round(&self, task: TorusTask) -> u32 {
        match task {
            TorusTask::GiveA { j, .. } => self.width() * j,
            TorusTask::GiveB { i, .. } => self.width() * i,
            TorusTask::Scale { .. } => 0,
            TorusTask::Update { m, n, k } => {
                let [mt, nt, _] = self.tiles;
                let across = Steps::hops(n, k, self.grid.columns, nt);
                let down = Steps::hops(m, k, self.grid.rows, mt);
                self.width() * k + 1 + across + down
            }
        }
    }

    fn stand_in(&self, task: TorusTask, flow: usize) -> Option<(&Store<Tile<f64>>, usize)> {
        match (task, flow) {
            (TorusTask::Update { m, k, .. }, 1) => self.zeros(false, (m, k)),
            (TorusTask::Update { n, k, .. }, 2) => self.zeros(true, (k, n)),
            _ => None,
        }
    }
}
