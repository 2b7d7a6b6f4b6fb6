//! NAS FT: the graph beside plain parallel loops over the same transforms, which wait for all between
//! sheets and planes.

use super::Outcome;
use super::kept::Row;
use super::turns::{Contestant, loops, turns};
use applications::nas_ft::problem::{Class, Problem};
use applications::nas_ft::space::Transforms;
use dataflow::Runtime;
use dataflow::linalg::scalar::c64;
use rayon::prelude::*;

/// A published size, on two workers.
pub fn race(class: Class, rounds: usize) -> Outcome<Row> {
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
        contestants.push(Contestant::ours(name, run));
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
    let mut u = frequencies(problem);
    let mut columns = room(u.len());
    for _ in 0..problem.steps {
        evolve(problem, &mut u, &mut columns);
        std::hint::black_box(problem.checksum(&samples(problem, &columns)));
    }
}

fn room(length: usize) -> Vec<c64> {
    vec![c64::default(); length]
}

/// The beginning in frequencies, [x][y][z]; on the way it is [z][x][y].
fn frequencies(problem: &Problem) -> Vec<c64> {
    let [nx, ny, nz] = problem.extent.0;
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
    let mut u = room(nx * ny * nz);
    u.par_chunks_exact_mut(ny * nz).enumerate().for_each_init(
        || (room(ny * nz), room(problem.scratch())),
        |(column, scratch), (x, lines)| {
            for (z, row) in column.chunks_exact_mut(ny).enumerate() {
                row.copy_from_slice(&turned[(z * nx + x) * ny..][..ny]);
            }
            problem.along_z(column, lines, scratch);
        },
    );
    u
}

/// A step of `u`, and back along z: `columns` are [x][z][y].
fn evolve(problem: &Problem, u: &mut [c64], columns: &mut [c64]) {
    let [_, ny, nz] = problem.extent.0;
    let sheets = u
        .par_chunks_exact_mut(ny * nz)
        .zip(columns.par_chunks_exact_mut(ny * nz));
    sheets.enumerate().for_each_init(
        || (room(ny * nz), room(problem.scratch())),
        |(work, scratch), (x, (lines, column))| {
            problem.evolve(x, lines, (work, column), scratch);
        },
    );
}

/// What the checksum is of, plane by plane.
fn samples(problem: &Problem, columns: &[c64]) -> Vec<Vec<c64>> {
    let [nx, ny, nz] = problem.extent.0;
    let planes = (0..nz).into_par_iter().map_init(
        || (room(nx * ny), room(nx * ny), room(problem.scratch())),
        |(turned, plane, scratch), z| {
            for (x, row) in turned.chunks_exact_mut(ny).enumerate() {
                row.copy_from_slice(&columns[(x * nz + z) * ny..][..ny]);
            }
            problem.to_places(turned, plane, scratch);
            problem.samples(z).map(|at| plane[at]).collect()
        },
    );
    planes.collect()
}
