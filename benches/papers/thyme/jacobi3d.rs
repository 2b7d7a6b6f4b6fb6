//! Jacobi3D: 320³ cells in blocks of 20³, 25 sweeps.

use super::{Application, Outcome, Part, RANKS};
use applications::jacobi3d::grid::{Counts, Grid};
use applications::jacobi3d::problem::{Name, Problem};
use applications::jacobi3d::space::Jacobi;
use dataflow::core::port::Lengths;
use dataflow::linalg::weight::Weight;
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
