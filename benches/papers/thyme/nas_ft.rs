//! NAS FT: 512³ points, 20 steps, the size of class C; a task a sheet of four.

use super::{Application, Outcome, Part, RANKS};
use applications::nas_ft::problem::{Extent, Problem};
use applications::nas_ft::space::Transforms;
use dataflow::core::port::Lengths;
use dataflow::linalg::weight::Weight;
use std::sync::Arc;
use std::time::Duration;

pub struct Exchange {
    extent: Extent,
    steps: u32,
    /// Of planes, and of sheets.
    blocks: usize,
}

impl Exchange {
    pub fn new(quick: bool) -> Self {
        let (side, steps, blocks) = if quick { (256, 6, 64) } else { (512, 20, 128) };
        let extent = Extent([side; 3]);
        Exchange {
            extent,
            steps,
            blocks,
        }
    }
}

impl Application for Exchange {
    fn title(&self) -> String {
        let (extent, steps, blocks) = (self.extent, self.steps, self.blocks);
        format!("nas_ft, {extent}, {steps} steps, {blocks} × {blocks} blocks")
    }

    fn play(&self, part: &Part<'_>) -> Outcome<Duration> {
        let problem = Problem::new(self.extent, self.steps);
        let (blocks, ranks) = ([self.blocks; 2], RANKS as usize);
        let space = Transforms::new(problem, blocks, ranks, Arc::new(Lengths), false);
        let bytes = |task, flow| space.bytes(task, flow);
        part.of(&space, &bytes, &|task| space.flops(task))
    }
}
