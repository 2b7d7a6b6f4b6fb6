//! Shallow water: the space and the sequence beside a plain parallel loop over the same rows, which waits
//! for all at the end of each stage.

use super::Outcome;
use super::kept::Row;
use super::turns::{Contestant, loops, tasks, turns};
use applications::shallow_water::block::{Block, Physics, Stage};
use applications::shallow_water::cases::{Case, Number, State};
use applications::shallow_water::known;
use applications::shallow_water::nodes::{Places, nodes};
use applications::shallow_water::pattern::{Mesh, Pattern};
use applications::shallow_water::prepare;
use applications::shallow_water::sequence::{Data, program};
use applications::shallow_water::space::Steps;
use applications::shallow_water::weights::Stencil;
use dataflow::Runtime;
use rayon::prelude::*;

const STEPS: u32 = 20;

/// Case 5 on so many icosahedral nodes, twenty steps.
pub fn race(count: usize, rounds: usize) -> Outcome<Row> {
    let runtime = Runtime::builder().threads(2).build()?;
    let case = Case {
        number: Number::Mountain,
        alpha: 0.0,
    };
    let stencil = Stencil {
        size: 31,
        epsilon: known::epsilon(count),
        power: 4,
    };
    let physics = Physics {
        depth: case.depth(),
        is_carried: false,
        gamma: -0.05 / (count as f64).powi(4),
    };
    let failed = |failure: common::cli::Failure| failure.message().to_string();
    let nodes = nodes(Places::Icosahedral, count).map_err(failed)?;
    let mesh = prepare::mesh(&runtime, nodes, &stencil).map_err(failed)?;
    let nb = count.div_ceil((count / 4096).max(8));
    let pattern = Pattern::new(&mesh, nb, 1);
    let blocks = prepare::blocks(&runtime, &mesh, &pattern, &case, &stencil).map_err(failed)?;
    let first: Vec<State> = mesh.nodes.iter().map(|&node| case.state(node)).collect();
    let dt = 45_000.0 / (count as f64).sqrt();
    let (mesh, pattern, blocks, physics, first) = (&mesh, &pattern, &blocks[..], &physics, &first);

    let data = Data::new(blocks, |node| first[node]);
    let recorded = program(mesh, pattern, blocks, physics, &data, (STEPS, dt))?;

    let mut contestants: Vec<Contestant> = Vec::new();
    for threads in [1, 2] {
        let mut plain = Plain::new(mesh, pattern, &case, &stencil, first);
        let steps = move || plain.run(physics, dt);
        contestants.push(loops("fused loop", threads, steps)?);
    }
    for workers in [1, 2] {
        let space = Steps::new(pattern, blocks, *physics, (STEPS, dt), |node| first[node]);
        contestants.push(tasks("space", workers, space)?);
    }
    for workers in [1, 2] {
        let runtime = Runtime::builder().threads(workers).build()?;
        let recorded = &recorded;
        let run = move || -> Outcome<f64> { Ok(runtime.replay(recorded)?.seconds) };
        contestants.push(Contestant::ours(
            format!("sequence, {workers} workers"),
            run,
        ));
    }
    let title = format!("shallow water, {count} nodes, {STEPS} steps");
    turns(
        &title,
        (f64::from(STEPS), "steps a second"),
        rounds,
        1,
        contestants,
    )
}

/// The same rows without tasks: values are read where they are.
struct Plain {
    blocks: Vec<Block>,
    own: Vec<Vec<State>>,
    values: Vec<State>,
    next: Vec<State>,
}

impl Plain {
    fn new(
        mesh: &Mesh,
        pattern: &Pattern,
        case: &Case,
        stencil: &Stencil,
        first: &[State],
    ) -> Self {
        let all = (0..pattern.n_blocks()).into_par_iter();
        let blocks = all.map(|block| Block::plain(mesh, pattern.nodes(block), case, stencil));
        let blocks: Vec<Block> = blocks.collect();
        let own = |block: &Block| [&first[block.nodes.clone()]; 2].concat();
        Plain {
            own: blocks.iter().map(own).collect(),
            values: first.to_vec(),
            next: first.to_vec(),
            blocks,
        }
    }

    /// Twenty steps.
    fn run(&mut self, physics: &Physics, dt: f64) {
        let nb = self.blocks[0].nodes.len();
        for number in (0..4 * STEPS).map(|t| t % 4) {
            let (values, stage) = (&self.values, Stage { number, dt });
            let rows = self.blocks.par_iter().zip(&mut self.own);
            rows.zip(self.next.par_chunks_mut(nb))
                .for_each(|((block, own), next)| {
                    block.advance(physics, stage, values, own, next);
                });
            std::mem::swap(&mut self.values, &mut self.next);
        }
    }
}
