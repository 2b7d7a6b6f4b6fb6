//! NAS FT: the graph beside plain parallel loops over the same transforms, which wait for all between
//! sheets and planes.

use super::Outcome;
use super::kept::Row;
use super::turns::{Contestant, loops, turns};
use applications::nas_ft::problem::Problem;
use applications::nas_ft::published::Class;
use applications::nas_ft::space::{Lines, Transforms};
use dataflow::Runtime;
use dataflow::core::port::Memory;
use dataflow::linalg::scalar::c64;
use rayon::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

const THREADS: usize = 2;

/// A published size, on two workers.
pub fn race(class: Class, rounds: usize) -> Outcome<Row> {
    let runtime = Runtime::builder().threads(THREADS).build()?;
    let mut plain = Plain::new(Problem::of_class(class), &*runtime.memory());
    let all = move || plain.run();
    let mut contestants = vec![loops("loops over sheets and planes", THREADS, all)?];
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
    let title = format!("nas_ft, class {class:?}, {THREADS} workers");
    let work = Problem::of_class(class).operations();
    turns(
        &title,
        (work, "operations a second"),
        rounds,
        0,
        contestants,
    )
}

/// What the loops work on: made once, as the graph's blocks are.
struct Plain {
    problem: Problem,
    /// The problem in frequencies, [x][y][z].
    u: Lines,
    /// On the way to it, [z][x][y].
    turned: Lines,
    /// Back along z, [x][z][y].
    columns: Lines,
    /// One for each thread.
    rooms: Vec<Mutex<Room>>,
}

/// A thread's own: two planes, and what transforms need.
struct Room {
    planes: [Lines; 2],
    scratch: Lines,
}

impl Plain {
    fn new(problem: Problem, memory: &dyn Memory) -> Self {
        let room = |length| {
            let mut lines = Lines::new(memory, length);
            lines.write().fill(c64::default());
            lines
        };
        let [nx, ny, nz] = problem.extent.0;
        let [u, turned, columns] = [(); 3].map(|()| room(nx * ny * nz));
        let of_thread = |_| {
            let planes = [(); 2].map(|()| room(ny * nx.max(nz)));
            let scratch = room(problem.scratch());
            Mutex::new(Room { planes, scratch })
        };
        let rooms = (0..THREADS).map(of_thread).collect();
        Plain {
            problem,
            u,
            turned,
            columns,
            rooms,
        }
    }

    /// The whole problem.
    ///
    /// # Panics
    /// If the checksums are not those that were published.
    fn run(&mut self) {
        self.begin();
        let steps = 0..self.problem.steps;
        let step = |_| {
            self.evolve();
            self.problem.checksum(&self.samples())
        };
        let checksums: Vec<c64> = steps.map(step).collect();
        let error = self.problem.error(&checksums);
        assert!(error.is_some_and(|error| error < 1e-12), "{error:?}");
    }

    /// The beginning in frequencies.
    fn begin(&mut self) {
        let (problem, rooms) = (&self.problem, &self.rooms);
        let [nx, ny, nz] = problem.extent.0;
        let planes = self.turned.write().par_chunks_exact_mut(nx * ny);
        planes.enumerate().for_each(|(z, turned)| {
            let Room { planes, scratch } = &mut *own(rooms);
            let plane = &mut planes[0].write()[..nx * ny];
            problem.fill(z, plane);
            problem.to_frequencies(plane, turned, scratch.write());
        });
        let turned = self.turned.read();
        let sheets = self.u.write().par_chunks_exact_mut(ny * nz);
        sheets.enumerate().for_each(|(x, lines)| {
            let Room { planes, scratch } = &mut *own(rooms);
            let column = &mut planes[0].write()[..ny * nz];
            for (z, row) in column.chunks_exact_mut(ny).enumerate() {
                row.copy_from_slice(&turned[(z * nx + x) * ny..][..ny]);
            }
            problem.along_z(column, lines, scratch.write());
        });
    }

    /// A step of u, and back along z.
    fn evolve(&mut self) {
        let (problem, rooms) = (&self.problem, &self.rooms);
        let [_, ny, nz] = problem.extent.0;
        let sheets = self.u.write().par_chunks_exact_mut(ny * nz);
        let sheets = sheets.zip(self.columns.write().par_chunks_exact_mut(ny * nz));
        sheets.enumerate().for_each(|(x, (lines, column))| {
            let Room { planes, scratch } = &mut *own(rooms);
            let work = &mut planes[0].write()[..ny * nz];
            problem.evolve(x, lines, (work, column), scratch.write());
        });
    }

    /// What the checksum is of, plane by plane.
    fn samples(&self) -> Vec<Vec<c64>> {
        let problem = &self.problem;
        let ([nx, ny, nz], columns) = (problem.extent.0, self.columns.read());
        let planes = (0..nz).into_par_iter().map(|z| {
            let Room { planes, scratch } = &mut *own(&self.rooms);
            let [turned, plane] = planes.each_mut().map(|of| &mut of.write()[..nx * ny]);
            for (x, row) in turned.chunks_exact_mut(ny).enumerate() {
                row.copy_from_slice(&columns[(x * nz + z) * ny..][..ny]);
            }
            problem.to_places(turned, plane, scratch.write());
            problem.samples(z).map(|at| plane[at]).collect()
        });
        planes.collect()
    }
}

/// What the calling thread of the pool has for itself; nobody waits for it.
fn own(rooms: &[Mutex<Room>]) -> MutexGuard<'_, Room> {
    let room = &rooms[rayon::current_thread_index().unwrap_or_default()];
    room.lock().unwrap_or_else(PoisonError::into_inner)
}
