//! Cholesky, Task Bench and recorded sequences across ranks in simulated weather: every seed is a
//! world of its own.
//!
//! 200 seeds run here, more by `cargo xtask weather --seeds N`, which runs random graphs
//! (`crates/dataflow-mpi/tests/weather.rs`) too. A failing seed says how to replay it.

#[path = "../examples/task_bench/kernel.rs"]
#[allow(dead_code)]
mod kernel;
#[path = "../examples/task_bench/pattern.rs"]
#[allow(dead_code)]
mod pattern;
#[path = "../examples/task_bench/space.rs"]
#[allow(dead_code)]
mod space;
#[path = "../crates/dataflow-mpi/tests/engine/world.rs"]
#[allow(dead_code)]
mod world;

use clap::ValueEnum;
use dataflow::core::port::{Context, Courier, Executor, Inline};
use dataflow::core::run_across;
use dataflow::linalg::LinalgError;
use dataflow::linalg::cholesky::{Factor, factor};
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::digest::{Digest, digest};
use dataflow::linalg::matrix::generate::PositiveDefinite;
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::prelude::*;
use dataflow::sequence::record::{Recorded, record};
use dataflow::sequence::{read, write};
use dataflow::{Error, Report};
use dataflow_mpi::Counters;
use dataflow_mpi::transport::simulated::{Faults, VirtualWorkers, Weather, spend};
use kernel::{Kernel, Kind};
use pattern::{Graph, Pattern};
use space::TaskBench;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use world::{Random, Seen, in_world, settings, survivors, sweep};

/// What runs in a world.
#[derive(Clone, Copy, Debug)]
enum Program {
    Cholesky {
        n: usize,
        nb: usize,
        grid: (u32, u32),
    },
    TaskBench {
        graph: Graph,
        bytes: usize,
    },
    /// Random tasks on a few numbers.
    Recorded {
        seed: u64,
        n_ranks: usize,
    },
}

/// What a run leaves behind: the parts of all ranks, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Left {
    tasks: u64,
    digest: Digest,
    errors: u64,
}

type Ended = Result<Left, Error>;

impl Program {
    /// A program and a number of ranks, by a seed.
    fn by(seed: u64) -> (Self, usize) {
        let mut random = Random(seed ^ 0x70b5);
        let n_ranks = 2 + random.below(4);
        if random.below(2) == 0 {
            let grids = [
                (1, 2),
                (2, 1),
                (1, 3),
                (3, 1),
                (2, 2),
                (1, 4),
                (4, 1),
                (1, 5),
                (5, 1),
            ];
            let fitting = grids.iter().filter(|(p, q)| p * q == n_ranks as u32);
            let fitting: Vec<_> = fitting.copied().collect();
            let grid = fitting[random.below(fitting.len())];
            let (n, nb) = (1 + random.below(48), [5, 8, 16][random.below(3)]);
            return (Program::Cholesky { n, nb, grid }, n_ranks);
        }
        if random.below(2) == 0 {
            return (Program::Recorded { seed, n_ranks }, n_ranks);
        }
        loop {
            let patterns = Pattern::value_variants();
            let pattern = patterns[random.below(patterns.len())];
            let graph = Graph {
                pattern,
                width: 1 + random.below(12) as u32,
                steps: 1 + random.below(12) as u32,
                radix: random.below(6) as u32,
                period: 1 + random.below(3) as u32,
                fraction: 0.5,
            };
            let bytes = [16, 100, 5000, 70_000][random.below(4)];
            if let Ok(graph) = graph.checked() {
                return (Program::TaskBench { graph, bytes }, n_ranks);
            }
        }
    }

    /// Runs one rank's part.
    fn run(&self, on: &dyn Executor) -> Ended {
        let courier = on.courier();
        match *self {
            Program::Cholesky { n, nb, grid } => {
                let a = matrix(n, nb, grid, courier.rank());
                let factor = Factor::new(&a, Backend::Faer).unwrap();
                let report = factor.run(on);
                let tasks = report.map_err(of_the_run)?.tasks;
                let digest = digest(&a).unwrap();
                Ok(Left {
                    tasks,
                    digest,
                    errors: 0,
                })
            }
            Program::TaskBench { graph, bytes } => {
                let space = TaskBench::new(graph, courier.n_ranks(), bytes, EMPTY);
                let tasks = run_across(&space, on)?.tasks;
                let errors = space.errors();
                Ok(Left {
                    tasks,
                    errors,
                    ..Left::default()
                })
            }
            Program::Recorded { seed, n_ranks } => {
                let owner = |datum: usize| Rank((datum % n_ranks) as u32);
                recorded(
                    seed,
                    n_ranks,
                    owner,
                    |program| program.run_across(on),
                    |datum| owner(datum) == courier.rank(),
                )
            }
        }
    }

    /// What it leaves behind on one rank.
    fn alone(&self) -> Left {
        static KNOWN: Mutex<BTreeMap<(usize, usize), Left>> = Mutex::new(BTreeMap::new());
        match *self {
            Program::Cholesky { n, nb, .. } => {
                let mut known = KNOWN.lock().unwrap();
                *known.entry((n, nb)).or_insert_with(|| {
                    let a = matrix(n, nb, (1, 1), Rank(0));
                    let tasks = factor(&a, Backend::Faer, &Inline).unwrap().tasks;
                    let digest = digest(&a).unwrap();
                    Left {
                        tasks,
                        digest,
                        errors: 0,
                    }
                })
            }
            Program::Recorded { seed, n_ranks } => {
                let here = |_| Rank(0);
                let left = recorded(
                    seed,
                    n_ranks,
                    here,
                    |program| {
                        // Ranks count also who fetches data for all; in place nobody does.
                        let mut report = program.run(&Inline)?;
                        report.tasks = program.count(Rank(0));
                        Ok(report)
                    },
                    |_| true,
                );
                left.unwrap()
            }
            Program::TaskBench { graph, .. } => {
                let points = (0..graph.steps).map(|step| graph.active(step).len() as u64);
                let tasks = points.sum();
                Left {
                    tasks,
                    ..Left::default()
                }
            }
        }
    }
}

/// Numbers of a recorded program.
const NUMBERS: usize = 7;

/// Records random tasks, each of which writes numbers of one of the ranks and reads any; runs them,
/// and adds up the numbers that count.
fn recorded(
    seed: u64,
    n_ranks: usize,
    owner: impl Fn(usize) -> Rank,
    run: impl FnOnce(&Recorded<'_, u64>) -> Result<Report, Error>,
    counts: impl Fn(usize) -> bool,
) -> Ended {
    let mut random = Random(seed ^ 0x5e9);
    let store = Store::new("numbers", 0..NUMBERS as u64);
    let program = record("random", n_ranks, |r| {
        let homes: Vec<_> = (0..NUMBERS)
            .map(|at| r.home(&store, at, owner(at)))
            .collect();
        for _ in 0..20 + random.below(60) {
            let written = random.below(NUMBERS);
            let mut others: Vec<usize> = (0..NUMBERS).filter(|at| *at != written).collect();
            others.retain(|_| random.below(3) == 0);
            let too = |at: &usize| at % n_ranks == written % n_ranks && at.is_multiple_of(2);
            let (writes, reads): (Vec<_>, Vec<_>) = others.into_iter().partition(too);
            let writes = std::iter::once(written)
                .chain(writes)
                .map(|at| write(&homes[at]));
            let reads: Vec<_> = reads.into_iter().map(|at| read(&homes[at])).collect();
            r.task((writes.collect::<Vec<_>>(), reads), |(writes, reads)| {
                let value = reads.into_iter().fold(1, |value, read| mix(value, *read));
                for written in writes {
                    *written = mix(*written, value);
                }
            });
        }
    });
    let tasks = run(&program?)?.tasks;
    let own = (0..NUMBERS).filter(|at| counts(*at));
    let digests = own.filter_map(|at| Some(Digest(mix(at as u64, *store.get(at)?))));
    Ok(Left {
        tasks,
        digest: digests.sum(),
        errors: 0,
    })
}

/// Tells every lost, doubled or swapped number.
fn mix(value: u64, with: u64) -> u64 {
    (value ^ with.rotate_left(17))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
}

const EMPTY: Kernel = Kernel {
    kind: Kind::Empty,
    iterations: 0,
};

fn matrix(n: usize, nb: usize, (p, q): (u32, u32), rank: Rank) -> TiledMatrix<f64> {
    let distribution = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let layout = Layout::lower(n, nb).unwrap();
    let layout = layout.distributed(distribution, rank).unwrap();
    TiledMatrix::from_entries(layout, &PositiveDefinite::new(n, 3))
}

/// Nothing is wrong with the matrices.
fn of_the_run(error: LinalgError) -> Error {
    match error {
        LinalgError::Run(error) => error,
        other => panic!("{other}"),
    }
}

/// How each rank of a seed's world ended, and what its messenger had counted by then.
fn tell(seed: u64, weather: &Weather) -> (Vec<(Ended, Counters)>, Faults) {
    let (program, n_ranks) = Program::by(seed);
    let n_workers = 1 + seed as usize % 3;
    let story = in_world(
        weather.clone(),
        n_ranks,
        &settings(seed),
        move |messenger, world| {
            let workers = VirtualWorkers::new(world, messenger.rank(), n_workers);
            let ended = program.run(&Context::new(&workers).across(&messenger));
            spend(Duration::from_secs(2)); // what is still under way arrives
            (ended, messenger.counters())
        },
    );
    let story = story.unwrap_or_else(|hung| panic!("{program:?}: {hung}"));
    (story.told, story.faults)
}

fn sum<'e>(ended: impl IntoIterator<Item = &'e Left>) -> Left {
    let add = |a: Left, b: &Left| Left {
        tasks: a.tasks + b.tasks,
        digest: [a.digest, b.digest].into_iter().sum(),
        errors: a.errors + b.errors,
    };
    ended.into_iter().fold(Left::default(), add)
}

#[test]
fn in_rough_weather_no_bit_is_wrong() {
    let seen = sweep("--test weather in_rough_weather", 200, |seed, seen| {
        let (program, n_ranks) = Program::by(seed);
        let (told, faults) = tell(seed, &Weather::rough(seed, n_ranks));
        let ended = told.iter().map(|(ended, _)| ended.as_ref());
        let ended = ended.map(|ended| ended.unwrap_or_else(|error| panic!("{program:?}: {error}")));
        assert_eq!(sum(ended), program.alone(), "{program:?}");
        seen.add(faults, told.iter().map(|(_, own)| *own));
    });
    seen.iter().for_each(Seen::assert_rough);
}

#[test]
fn in_deadly_weather_every_surviving_rank_ends_with_a_named_error_or_its_result() {
    let seen = sweep("--test weather in_deadly_weather", 200, |seed, seen| {
        let (program, n_ranks) = Program::by(seed);
        let weather = Weather::deadly(seed, n_ranks);
        let (told, faults) = tell(seed, &weather);
        let ended: Vec<&Ended> = survivors(&weather, n_ranks)
            .map(|rank| &told[rank].0)
            .collect();
        for error in ended.iter().filter_map(|ended| ended.as_ref().err()) {
            assert_eq!(error.name(), "rank_lost", "{program:?}: {error}");
            seen.errors += 1;
        }
        let left: Vec<&Left> = ended
            .iter()
            .filter_map(|ended| ended.as_ref().ok())
            .collect();
        seen.ends += left.len() as u64;
        if left.len() == n_ranks {
            assert_eq!(sum(left), program.alone(), "{program:?}");
        }
        seen.add(faults, told.iter().map(|(_, own)| *own));
    });
    seen.iter().for_each(Seen::assert_deadly);
}
