//! Jacobi3D: 320³ cells in blocks of 20³, 25 sweeps.

#[path = "../../../examples/applications/jacobi3d/grid.rs"]
#[allow(dead_code)]
mod grid;
#[path = "../../../examples/applications/jacobi3d/problem.rs"]
#[allow(dead_code)]
mod problem;
#[path = "../../../examples/applications/jacobi3d/space.rs"]
#[allow(dead_code)]
mod space;
#[path = "../../../examples/applications/jacobi3d/sweep.rs"]
#[allow(dead_code)]
mod sweep;

use super::{Application, Outcome, Part, RANKS};
use dataflow::core::port::Lengths;
use dataflow::linalg::weight::Weight;
use grid::{Counts, Grid};
use problem::{Name, Problem};
use space::Jacobi;
use std::sync::Arc;
use std::time::Duration;

pub struct Sweeps {
    grid: Grid,
    count: u32,
}

impl Sweeps {
    pub fn new(quick: bool) -> Outcome<Self> {
        let (n, blocks, count) = if quick { (160, 8, 10) } else { (320, 16, 25) };
        let grid = Grid::new(n, Counts([blocks; 3]), RANKS as usize)?;
        Ok(Sweeps { grid, count })
    }
}

impl Application for Sweeps {
    fn title(&self) -> String {
        let (n, blocks, count) = (self.grid.n, self.grid.blocks, self.count);
        format!("jacobi3d, {n}³ in {blocks} blocks, {count} sweeps")
    }

    fn play(&self, part: &Part<'_>) -> Outcome<Duration> {
        let problem = Problem::new(Name::Mode, self.grid.n);
        let (on, memory) = (part.rank(), Arc::new(Lengths));
        let space = Jacobi::new((self.grid, problem), self.count, 1, on, memory);
        let bytes = |task, flow| space.bytes(task, flow);
        part.of(&space, &bytes, &|task| space.flops(task))
    }
}
