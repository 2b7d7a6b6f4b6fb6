//! NAS FT: the graph beside plain parallel loops over the same transforms, which wait for all between
//! sheets and planes.

use super::Outcome;
use super::nas_ft::problem::{Class, Problem};
use super::nas_ft::space::Transforms;
use super::turns::{loops, turns};
use dataflow::Runtime;
use dataflow::linalg::scalar::c64;
use rayon::prelude::*;

/// A published size, on two workers.
pub fn race(class: Class, rounds: usize) -> Outcome {
    let runtime = Runtime::builder().threads(2).build()?;
    let problem = Problem::of_class(class);
    let all = move || plain(&problem);
    let mut contestants = vec![loops("loops over sheets and planes", 2, all)?];
    for blocks in [[16, 16], [32, 32]] {
        let runtime = &runtime;
        let run = move || {
            let problem = Problem::of_class(class);
            let transforms = Transforms::new(problem, blocks, 1, runtime.memory(), false);
            Ok(runtime.run(&transforms)?.seconds)
        };
        let name = format!("graph of {}x{} blocks", blocks[0], blocks[1]);
        contestants.push((name, Box::new(run)));
    }
    let title = format!("nas_ft, class {class:?}, 2 workers");
    let work = Problem::of_class(class).operations();
    turns(
        &title,
        (work, "operations a second"),
        rounds,
        0,
        contestants,
    )
}

/// The whole problem.
fn plain(problem: &Problem) {
    let [nx, ny, nz] = problem.extent.0;
    let room = |length: usize| vec![c64::default(); length];
    // [z][x][y], [x][y][z] and [x][z][y].
    let mut turned = room(nx * ny * nz);
    turned
        .par_chunks_exact_mut(nx * ny)
        .enumerate()
        .for_each_init(
            || (room(nx * ny), room(problem.scratch())),
            |(plane, scratch), (z, turned)| {
                problem.fill(z, plane);
                problem.to_frequencies(plane, turned, scratch);
            },
        );
    let (mut u, mut columns) = (room(nx * ny * nz), room(nx * ny * nz));
    u.par_chunks_exact_mut(ny * nz).enumerate().for_each_init(
        || (room(ny * nz), room(problem.scratch())),
        |(column, scratch), (x, lines)| {
            for (z, row) in column.chunks_exact_mut(ny).enumerate() {
                row.copy_from_slice(&turned[(z * nx + x) * ny..][..ny]);
            }
            problem.along_z(column, lines, scratch);
        },
    );
    for _ in 0..problem.steps {
        let sheets = u
            .par_chunks_exact_mut(ny * nz)
            .zip(columns.par_chunks_exact_mut(ny * nz));
        sheets.enumerate().for_each_init(
            || (room(ny * nz), room(problem.scratch())),
            |(work, scratch), (x, (lines, column))| {
                problem.evolve(x, lines, (work, column), scratch);
            },
        );
        let terms: Vec<Vec<c64>> = (0..nz)
            .into_par_iter()
            .map_init(
                || (room(nx * ny), room(nx * ny), room(problem.scratch())),
                |(turned, plane, scratch), z| {
                    for (x, row) in turned.chunks_exact_mut(ny).enumerate() {
                        row.copy_from_slice(&columns[(x * nz + z) * ny..][..ny]);
                    }
                    problem.to_places(turned, plane, scratch);
                    problem.samples(z).map(|at| plane[at]).collect()
                },
            )
            .collect();
        std::hint::black_box(problem.checksum(&terms));
    }
}
