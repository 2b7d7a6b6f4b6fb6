//! MMULT: matrices of order 16,384 in tiles of order 256, with broadcasts along rows and columns.
//!
//! The torus of the paper has no row: its `base` waits for each hop, however fast the network.

#[path = "../../../examples/linalg/matmul/steps.rs"]
mod steps;

use super::{Application, Outcome, Part, RANKS};
use common::cli::settings::Grid;
use common::variant::Given;
use dataflow::core::port::Heap;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{self, Distribution, Layout, TiledMatrix};
use dataflow::linalg::product::{Gemm, Operand};
use dataflow::linalg::weight::Weight;
use std::sync::Arc;
use std::time::Duration;
use steps::Steps;

pub struct Product {
    n: usize,
    grid: matrix::Grid,
}

const NB: usize = 256;

impl Product {
    pub fn new(quick: bool) -> Outcome<Self> {
        Ok(Product {
            n: if quick { 8192 } else { 16_384 },
            grid: matrix::Grid::squarest(RANKS).ok_or("there is no grid without ranks")?,
        })
    }
}

impl Application for Product {
    fn title(&self) -> String {
        format!("matmul, n = {}, tiles of order {NB}", self.n)
    }

    fn play(&self, part: &Part<'_>) -> Outcome<Duration> {
        let (rows, columns) = (self.grid.p(), self.grid.q());
        let grid = Grid { rows, columns };
        let answers = Steps::new([self.n; 3], NB, grid)?;
        let on_all = Distribution::BlockCyclic(self.grid);
        let layout = Layout::general(self.n, self.n, NB)?.distributed(on_all, part.rank())?;
        let vacant = || TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
        let [a, b, c] = [vacant(), vacant(), vacant()];
        let (a, b) = (Operand::plain(&a), Operand::plain(&b));
        let gemm = Gemm::new(1.0, a, b, 0.0, &c, Backend::Auto)?;
        let space = Given {
            space: &gemm,
            answers,
        };
        let bytes = |task, flow| gemm.bytes(task, flow);
        part.of(&space, &bytes, &|task| gemm.flops(task))
    }
}
