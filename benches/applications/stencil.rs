//! Jacobi3D: blocks in the order of plain loops and in that of the cache, beside a plain parallel loop
//! over planes with the same sweep, which waits for all at the end of each.

use super::Outcome;
use super::kept::Row;
use super::turns::{loops, tasks, turns};
use applications::jacobi3d::grid::{Counts, Grid};
use applications::jacobi3d::problem::{Name, Problem};
use applications::jacobi3d::space::Jacobi;
use applications::jacobi3d::sweep::{Beside, sweep};
use applications::jacobi3d::{default_blocks, default_depth};
use dataflow::Runtime;
use dataflow::core::port::{Block, Memory};
use dataflow::core::rank::Rank;
use rayon::prelude::*;

const SWEEPS: u32 = 25;

/// n³ cells, on two workers.
pub fn race(n: usize, rounds: usize) -> Outcome<Row> {
    let runtime = Runtime::builder().threads(2).build()?;
    let mut plain = Plain::new(n, &*runtime.memory());
    let mut contestants = vec![loops("loop over planes", 2, move || plain.run())?];
    let cubes = Counts([n.div_ceil(64); 3]);
    let layers = default_blocks(n, 1);
    let depth = default_depth(n, layers, 2);
    for (name, blocks, depth) in [
        ("blocks of 64³, plain order", cubes, 1),
        ("thick layers, plain order", Counts([10, 1, 1]), 1),
        ("layers, plain order", layers, 1),
        ("layers, the cache's order", layers, depth),
    ] {
        let grid = Grid::new(n, blocks, 1)?;
        let jacobi = Jacobi::new(
            (grid, Problem::new(Name::Mode, n)),
            SWEEPS,
            depth,
            Rank(0),
            runtime.memory(),
        );
        // The first run makes the blocks; those that count go on with them, as the loop does.
        let name = format!("{name} ({blocks}, depth {depth})");
        contestants.push(tasks(&name, 2, jacobi)?);
    }
    let work = (n as f64).powi(3) * f64::from(SWEEPS);
    let title = format!("jacobi3d, {n}³, {SWEEPS} sweeps, 2 workers");
    turns(&title, (work, "cells a second"), rounds, 0, contestants)
}

/// Two arrays of n³ cells.
struct Plain {
    n: usize,
    now: Box<dyn Block>,
    next: Box<dyn Block>,
    border: Vec<f64>,
}

impl Plain {
    fn new(n: usize, memory: &dyn Memory) -> Self {
        let problem = Problem::new(Name::Mode, n);
        let bytes = n * n * n * size_of::<f64>();
        let [mut now, mut next] = [(); 2].map(|()| memory.allocate(bytes));
        let cells: &mut [f64] = bytemuck::cast_slice_mut(now.bytes_mut());
        for (at, cell) in cells.iter_mut().enumerate() {
            let at = [at / n / n, at / n % n, at % n].map(|at| at as isize);
            *cell = problem.exact(at, 0);
        }
        next.bytes_mut().fill(0);
        let border = vec![0.0; n * n];
        Plain {
            n,
            now,
            next,
            border,
        }
    }

    fn run(&mut self) {
        let n = self.n;
        for _ in 0..SWEEPS {
            let now: &[f64] = bytemuck::cast_slice(self.now.bytes());
            let next: &mut [f64] = bytemuck::cast_slice_mut(self.next.bytes_mut());
            let border = Beside::packed(&self.border, [n, n]);
            let plane = |i: usize| &now[i * n * n..(i + 1) * n * n];
            let planes = next.par_chunks_exact_mut(n * n).enumerate();
            planes.for_each(|(i, next)| {
                let mut beside = [border; 6];
                if i > 0 {
                    beside[0] = Beside::packed(plane(i - 1), [n, n]);
                }
                if i + 1 < n {
                    beside[1] = Beside::packed(plane(i + 1), [n, n]);
                }
                sweep(next, plane(i), [1, n, n], &beside, (None, [i, 0, 0]));
            });
            std::mem::swap(&mut self.now, &mut self.next);
        }
    }
}
