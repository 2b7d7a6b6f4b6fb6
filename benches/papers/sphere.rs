//! Sphere: the shallow-water solver of paper 001 as what its tasks and messages weigh.
//!
//! Neighbours are real, weights and states are not there.

use super::world::Outcome;
use applications::shallow_water::block::{Block, Physics};
use applications::shallow_water::cases::State;
use applications::shallow_water::nodes;
use applications::shallow_water::pattern::{Mesh, Pattern};
use applications::shallow_water::prepare;
use applications::shallow_water::sequence::{Data, program};
use applications::shallow_water::space::{HALOS, Rows, Steps, Task};
use applications::shallow_water::weights::Stencil;
use common::cli;
use dataflow::Runtime;
use dataflow::sequence::record::Recorded;
use std::sync::Arc;

pub use applications::shallow_water::nodes::Places;

/// Neighbours of a node, itself among them.
const STENCIL: usize = 31;
/// Operations of a node for each neighbour, and beside them.
const EACH: f64 = 32.0;
const MORE: f64 = 60.0;

const PHYSICS: Physics = Physics {
    depth: 0.0,
    is_carried: false,
    gamma: 0.0,
};

/// Nodes and their neighbours, in an order that keeps them near.
pub fn mesh(on: Places, count: usize) -> Outcome<Arc<Mesh>> {
    let stencil = Stencil {
        size: STENCIL,
        epsilon: 1.0,
        power: 4,
    };
    let failed = |failure: cli::Failure| failure.message().to_string();
    let runtime = Runtime::builder().build()?;
    let nodes = nodes::nodes(on, count).map_err(failed)?;
    Ok(Arc::new(
        prepare::mesh(&runtime, nodes, &stencil).map_err(failed)?,
    ))
}

/// Steps on the blocks of a mesh.
pub struct Sphere {
    mesh: Arc<Mesh>,
    pattern: Pattern,
    pub steps: u32,
    /// None of them has weights.
    blocks: Vec<Option<Block>>,
    /// By block and other rank that reads it: the rows that it gets.
    halos: Vec<Vec<u64>>,
    /// Operations of the tasks of a stage, in the order of the program.
    program: Vec<f64>,
}

impl Sphere {
    pub fn new(mesh: &Arc<Mesh>, nb: usize, n_ranks: u32, steps: u32) -> Self {
        let pattern = Pattern::new(mesh, nb, n_ranks as usize);
        let halo = |block: u32, rank: &u32| pattern.halo(mesh, block, *rank).len() as u64;
        let halos = |block| {
            let ranks = pattern.reader_ranks(block);
            ranks.iter().map(|rank| halo(block, rank)).collect()
        };
        Sphere {
            halos: (0..pattern.n_blocks()).map(halos).collect(),
            blocks: (0..pattern.n_blocks()).map(|_| None).collect(),
            program: program_flops(mesh, &pattern),
            mesh: mesh.clone(),
            pattern,
            steps,
        }
    }

    pub fn n_nodes(&self) -> usize {
        self.pattern.n
    }

    pub fn nb(&self) -> usize {
        self.pattern.nb
    }

    pub fn space(&self) -> Steps<'_> {
        let steps = (self.steps, 1.0);
        Steps::new(&self.pattern, &self.blocks, PHYSICS, steps, |_| {
            State::default()
        })
    }

    /// Bytes of what leaves a task of the space for another rank.
    pub fn bytes(&self, task: Task, flow: usize) -> u64 {
        let (Task::Start { i } | Task::Advance { i, .. }) = task;
        let rows = flow.checked_sub(HALOS);
        let rows = rows.and_then(|at| self.halos[i as usize].get(at));
        rows.map_or(0, |rows| rows * size_of::<State>() as u64)
    }

    /// Operations of a task of the space.
    pub fn flops(&self, task: Task) -> f64 {
        match task {
            Task::Start { .. } => 0.0,
            Task::Advance { i, .. } => {
                self.pattern.nodes(i).len() as f64 * (EACH * STENCIL as f64 + MORE)
            }
        }
    }

    /// The same as a sequence. `body` gets it, and operations by the number of a task in the program.
    pub fn as_sequence<R>(
        &self,
        body: impl FnOnce(&Recorded<'_, Rows>, &(dyn Fn(u64) -> f64 + Sync)) -> R,
    ) -> Outcome<R> {
        let data = Data::new(&self.blocks, |_| State::default());
        let steps = (self.steps, 1.0);
        let recorded = program(
            &self.mesh,
            &self.pattern,
            &self.blocks,
            &PHYSICS,
            &data,
            steps,
        )?;
        let flops = |number: u64| self.program[number as usize % self.program.len()];
        Ok(body(&recorded, &flops))
    }

    /// Bytes of a block's values, all of which travel in the sequence.
    pub fn block_bytes(&self) -> u64 {
        (self.pattern.nb * size_of::<State>()) as u64
    }
}

/// Products of each block with each that it reads, then the additions of each.
fn program_flops(mesh: &Mesh, pattern: &Pattern) -> Vec<f64> {
    let blocks = || 0..pattern.n_blocks();
    let products = |block: u32| {
        let reads = &pattern.reads[block as usize];
        let mut flops = vec![0.0; reads.len()];
        for node in pattern.nodes(block) {
            for &near in mesh.near(node) {
                let other = near / pattern.nb as u32;
                flops[reads.partition_point(|&read| read < other)] += EACH;
            }
        }
        flops
    };
    let additions = blocks().map(|block| MORE * pattern.nodes(block).len() as f64);
    blocks().flat_map(products).chain(additions).collect()
}
