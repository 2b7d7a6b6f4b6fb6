//! How fast virtual time passes: what a turn of an actor costs, and a run of many ranks.
//!
//! `cargo run --release -p dataflow-mpi --example pace [RANKS WORKERS STEPS]`; Linux tells the memory.

use dataflow_core::port::{Block, Context, Head, Lengths, Wire};
use dataflow_core::prelude::*;
use dataflow_core::run_across;
use dataflow_mpi::transport::Transport;
use dataflow_mpi::transport::simulated::{Hung, Simulated, VirtualWorkers, Weather, World, spend};
use dataflow_mpi::{Messenger, Settings};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let positive = |word: String| word.parse().ok().filter(|number| *number > 0);
    let asked: Option<Vec<usize>> = std::env::args().skip(1).map(positive).collect();
    let Some(numbers) = asked.filter(|numbers| matches!(numbers.len(), 0 | 3)) else {
        eprintln!("usage: pace [RANKS WORKERS STEPS], three whole numbers, 1 or more");
        std::process::exit(2);
    };
    if numbers.is_empty() {
        println!("ns a turn, median of 5, fibers and threads in turns");
        for n_actors in [2, 64, 1024] {
            let turns = 200_000 / n_actors;
            let mut rounds: Vec<[f64; 2]> = Vec::new();
            for _ in 0..5 {
                let fibers = turn(
                    World::on_fibers(Weather::default(), 64 << 10),
                    n_actors,
                    turns,
                )?;
                let threads = turn(World::on_threads(Weather::default()), n_actors, turns / 10)?;
                rounds.push([fibers, threads]);
            }
            let [fibers, threads] = [0, 1].map(|i| {
                let mut all: Vec<f64> = rounds.iter().map(|round| round[i]).collect();
                all.sort_by(f64::total_cmp);
                all[2]
            });
            println!("{n_actors:>6} actors: fibers {fibers:>7.0}, threads {threads:>7.0}");
        }
    }
    let [n_ranks, n_workers, steps] = numbers.try_into().unwrap_or([256, 8, 20]);
    for lean in [true, false] {
        if lean || n_ranks * n_workers <= 10_000 {
            stencil(n_ranks, n_workers, steps as u32, lean)?;
        }
    }
    Ok(())
}

/// Nanoseconds of real time for an actor's turn.
fn turn(world: World, n_actors: usize, turns: usize) -> Result<f64, Hung> {
    let start = Instant::now();
    world.run(n_actors, move |_| {
        (0..turns).for_each(|_| spend(Duration::from_nanos(1)));
    })?;
    Ok(start.elapsed().as_nanos() as f64 / (n_actors * turns) as f64)
}

task_names! {
    enum Point { At { step, column } }
}

/// Columns that show their neighbours 64 KiB after each step of 100 µs.
struct Stencil {
    n_ranks: u32,
    of_each: u32,
    steps: u32,
}

/// A halo of which only the length is there.
#[derive(Clone, Copy)]
struct Halo(usize);

impl Datum for Halo {}

impl Wire for Halo {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        self.0
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(vec![0; self.0])
    }
    fn is_blank(&self) -> bool {
        true
    }
    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(Halo(body.length()))
    }
}

impl Stencil {
    fn columns(&self, on: Rank) -> std::ops::Range<u32> {
        on.0 * self.of_each..(on.0 + 1) * self.of_each
    }

    /// The columns beside one, and itself, each with the flow for which it counts there.
    fn beside(&self, column: u32) -> impl Iterator<Item = (usize, u32)> {
        let last = self.n_ranks * self.of_each - 1;
        let west = column.checked_sub(1).map(|west| (0, west));
        let east = (column < last).then_some((2, column + 1));
        west.into_iter().chain([(1, column)]).chain(east)
    }
}

impl TaskSpace for Stencil {
    type Task = Point;
    type Datum = Halo;

    fn describe(&self, about: &mut Description) {
        let class = about.name("stencil").class("At");
        class
            .optional("WEST")
            .optional("OWN")
            .optional("EAST")
            .new_flow("SHOWN");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Point> + Send {
        let columns = self.columns(on);
        (0..self.steps).flat_map(move |step| {
            columns
                .clone()
                .map(move |column| Point::At { step, column })
        })
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Point> + Send {
        self.columns(on).map(|column| Point::At { step: 0, column })
    }

    fn count(&self, _: Rank) -> u64 {
        u64::from(self.steps) * u64::from(self.of_each)
    }

    fn inputs(&self, Point::At { step, column }: Point, from: &mut impl Inputs<Self>) {
        if let Some(step) = step.checked_sub(1) {
            for (flow, column) in self.beside(column) {
                from.task(flow, Point::At { step, column }, 3);
            }
        }
    }

    fn successors(&self, Point::At { step, column }: Point, to: &mut impl Successors<Self>) {
        if step + 1 < self.steps {
            for (flow, column) in self.beside(column) {
                let step = step + 1;
                to.task(3, Point::At { step, column }, 2 - flow);
            }
        }
    }

    fn run(&self, _: Point, flows: &mut Flows<'_, Halo>) -> Result<(), TaskError> {
        spend(Duration::from_micros(100));
        let [.., shown] = flows.slots::<4>();
        shown.put(Halo(64 << 10));
        Ok(())
    }

    fn rank(&self, Point::At { column, .. }: Point) -> Rank {
        Rank(column / self.of_each)
    }
}

/// Runs the stencil, two columns a worker, and tells how long that took and what a rank took.
fn stencil(n_ranks: usize, n_workers: usize, steps: u32, lean: bool) -> Result<(), Hung> {
    let world = World::on_fibers(Weather::default(), 64 << 10);
    let before = resident();
    let start = Instant::now();
    let ends = world.connect(n_ranks).into_iter();
    let ends: Vec<Mutex<Option<Simulated>>> = ends.map(|end| Mutex::new(Some(end))).collect();
    let inside = world.clone();
    let peaks = world.run(n_ranks, move |rank| {
        let end = ends[rank.0 as usize].lock().map(|mut end| end.take());
        let Ok(Some(end)) = end else {
            unreachable!("each rank takes its own end once");
        };
        let transport: Box<dyn Transport> = Box::new(end);
        let host = inside.host(rank);
        let messenger = Messenger::new(transport, Settings::default(), host, Arc::new(Lengths));
        let messenger = messenger.unwrap_or_else(|error| panic!("{error}"));
        let workers = match lean {
            true => VirtualWorkers::lean(&inside, rank, n_workers),
            false => VirtualWorkers::new(&inside, rank, n_workers),
        };
        let space = Stencil {
            n_ranks: n_ranks as u32,
            of_each: 2 * n_workers as u32,
            steps,
        };
        let report = run_across(&space, &Context::new(&workers).across(&messenger));
        report.unwrap_or_else(|error| panic!("{error}"));
        resident()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let tasks = (2 * n_ranks * n_workers) as f64 * f64::from(steps);
    let peak = peaks.into_iter().max().unwrap_or(before);
    println!(
        "{n_ranks} ranks × {n_workers} workers{}: {tasks:.0} tasks in {seconds:.2} s, {:.0} a second, \
         {:.1} KiB a rank, {:?} of virtual time",
        if lean { ", lean" } else { ", with stacks" },
        tasks / seconds,
        peak.saturating_sub(before) as f64 / 1024.0 / n_ranks as f64,
        world.now(),
    );
    Ok(())
}

/// Bytes of memory that the process has now; 0 where that is not told.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    4096 * pages.unwrap_or(0)
}
