//! Overhead: nanoseconds of a task with an empty body, beside rayon and beside a bare loop.
//!
//! ```console
//! $ cargo bench --bench overhead              # a few minutes
//! $ cargo bench --bench overhead -- --quick   # a tenth of the size
//! ```
//!
//! All contestants of a shape run in turn, round after round, after a cold round that does not
//! count; so whatever the machine does meanwhile, it does to all of them. Printed are medians,
//! half the distance of the quartiles, and processor time; `over:` marks what exceeds a bound.
//!
//! # Elsewhere
//! The bare loop: `overhead/bare.rs`. Sequences: `overhead/sequences.rs`. The graphs as task spaces:
//! `examples/common/shapes.rs` by hand, `overhead/derived.rs` from loops. Numbers: `benches/README.md`.

#[path = "overhead/bare.rs"]
mod bare;
#[path = "overhead/derived.rs"]
mod derived;
#[allow(dead_code)] // verdict reads
mod kept;
#[path = "overhead/runs.rs"]
mod runs;
#[path = "overhead/sequences.rs"]
mod sequences;
#[path = "overhead/statistics.rs"]
mod statistics;
#[path = "overhead/traced.rs"]
mod traced;
#[path = "overhead/wake.rs"]
mod wake;

use bare::{Numbered, run_bare};
use clap::{Parser, ValueEnum};
use common::shapes::{
    Chain, Cholesky, Factor, Independent, Moved, Shared, Stencil, Updated, WIDTH, Wavefront,
};
use common::{cli::process, shapes};
use dataflow::Runtime;
use dataflow::prelude::*;
use kept::{Row, Unit};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use statistics::{machine, quartiles};
use std::borrow::Cow;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Nanoseconds of an empty task, beside rayon and a bare loop.
#[derive(Parser)]
struct Settings {
    /// A tenth of the size and three rounds
    #[arg(long)]
    quick: bool,
    /// Rounds that count
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Only these shapes
    #[arg(long)]
    shape: Vec<Shape>,
    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    Independent,
    Chain,
    Wavefront,
    Cholesky,
    Stencil,
    /// Inserted tasks with 1, 3 and 8 accesses, and recorded ones.
    Sequence,
    /// What it costs to be recorded.
    Trace,
    /// No shape: how long a sleeper takes to wake.
    Wake,
    /// No shape: how long a run of next to nothing takes.
    Runs,
}

fn main() -> ExitCode {
    match measure_all(&Settings::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(settings: &Settings) -> Outcome {
    // Without `--bench` cargo only wants to see that it runs.
    let quick = settings.quick || !settings.bench;
    let rounds = settings.rounds.unwrap_or(if quick { 3 } else { 7 });
    let bench = Bench {
        crews: [Crew::new(1)?, Crew::new(2)?],
        quick,
        rounds,
    };
    println!(
        "{}, median of {rounds} rounds ± half the quartile distance",
        machine()
    );
    let mut rows = Vec::new();
    for shape in Shape::value_variants() {
        if settings.shape.is_empty() || settings.shape.contains(shape) {
            rows.extend(bench.measure(*shape)?);
        }
    }
    if !quick {
        kept::keep("overhead", machine(), rows)?;
    }
    Ok(())
}

/// Those who work at once: a runtime and a pool of rayon's with the same number of threads.
struct Crew {
    runtime: Runtime,
    pool: ThreadPool,
}

impl Crew {
    fn new(n_threads: usize) -> Outcome<Self> {
        let runtime = Runtime::builder().threads(n_threads).build()?;
        let pool = ThreadPoolBuilder::new().num_threads(n_threads).build()?;
        Ok(Crew { runtime, pool })
    }

    fn n_threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

struct Bench {
    crews: [Crew; 2],
    quick: bool,
    rounds: u32,
}

// ── The shapes ───────────────────────────────────────────────────────────────────────────────────

impl Bench {
    fn measure(&self, shape: Shape) -> Outcome<Vec<Row>> {
        let side = |full: u32, quick: u32| if self.quick { quick } else { full };
        match shape {
            Shape::Independent => self.independent(side(1_000_000, 100_000).into()),
            Shape::Chain => self.chain(side(1_000_000, 100_000).into()),
            Shape::Wavefront => self.wavefront(side(1000, 300)),
            Shape::Cholesky => self.cholesky(side(100, 46)),
            Shape::Stencil => self.stencil(side(10_000, 1000)),
            Shape::Sequence => self.sequence(side(1_000_000, 100_000).into()),
            Shape::Trace => {
                let tasks = side(1_000_000, 100_000).into();
                traced::measure(&self.crews, tasks, self.rounds)?;
                Ok(Vec::new())
            }
            Shape::Wake => {
                wake::measure(&self.crews, side(200, 20))?;
                Ok(Vec::new())
            }
            Shape::Runs => {
                runs::measure(&self.crews, side(5000, 200))?;
                Ok(Vec::new())
            }
        }
    }

    fn sequence(&self, count: u64) -> Outcome<Vec<Row>> {
        let store = sequences::store();
        let mut race = Race::new("sequence", count, 1.0);
        for crew in &self.crews {
            let on = &crew.runtime;
            race.enter("inserted, 1 access", crew, move || {
                sequences::insert::<0>(on, count)
            });
            race.enter("inserted, 3 accesses", crew, move || {
                sequences::insert::<2>(on, count)
            });
            race.enter("inserted, 8 accesses", crew, move || {
                sequences::insert::<7>(on, count)
            });
            let recording = &store;
            race.enter("recorded, 3 accesses", crew, move || {
                let recorded = sequences::record(recording, count)?;
                match recorded.n_tasks() {
                    tasks if tasks == count => Ok(()),
                    tasks => Err(format!("{tasks} of {count} tasks were recorded").into()),
                }
            });
            let recorded = sequences::record(&store, count)?;
            race.enter("replayed, 3 accesses", crew, move || {
                recorded.run(on)?;
                Ok(())
            });
        }
        race.run(self.rounds)
    }

    fn independent(&self, count: u64) -> Outcome<Vec<Row>> {
        let space = Independent { count };
        let mut race = Race::new("independent", count, 1.0);
        for crew in &self.crews {
            race.engine("dataflow", Some(f64::INFINITY), crew, &space);
            race.enter("rayon par_iter, max_len 1", crew, || {
                let tasks = (0..count as usize).into_par_iter().with_max_len(1);
                crew.pool.install(|| {
                    tasks.for_each(|task| {
                        black_box(task);
                    })
                });
                Ok(())
            });
            race.enter("rayon scope spawn", crew, || {
                crew.pool.scope(|scope| {
                    (0..count).for_each(|task| {
                        scope.spawn(move |_| {
                            black_box(task);
                        })
                    })
                });
                Ok(())
            });
        }
        race.run(self.rounds)
    }

    fn chain(&self, length: u64) -> Outcome<Vec<Row>> {
        fn link<'s>(scope: &Scope<'s>, left: u64) {
            if left > 0 {
                scope.spawn(move |scope| link(scope, left - 1));
            }
        }
        let ways = Ways {
            plain: Chain::<()>::new(length, false),
            indexed: Chain::<()>::new(length, true),
            moved: Chain::<Moved>::new(length, false),
            shared: Chain::<Shared>::new(length, false),
            updated: Chain::<Updated>::new(length, false),
        };
        let bare = BareChain { length };
        let mut race = Race::new("chain", length, 1.1);
        for crew in &self.crews {
            race.shape(crew, &bare, &ways);
            race.enter("rayon scope spawn", crew, || {
                crew.pool.scope(|scope| link(scope, length));
                Ok(())
            });
        }
        race.run(self.rounds)
    }

    fn wavefront(&self, side: u32) -> Outcome<Vec<Row>> {
        let ways = Ways {
            plain: Wavefront::<()>::new(side, false),
            indexed: Wavefront::<()>::new(side, true),
            moved: Wavefront::<Moved>::new(side, false),
            shared: Wavefront::<Shared>::new(side, false),
            updated: Wavefront::<Updated>::new(side, false),
        };
        let bare = BareWavefront { side };
        let loops = Loops {
            plain: derived::Wavefront { side, dense: false },
            indexed: derived::Wavefront { side, dense: true },
            data: ("data updated", derived::UpdatedWavefront::new(side)),
        };
        let mut race = Race::new("wavefront", bare.count() as u64, 0.8);
        for crew in &self.crews {
            race.shape(crew, &bare, &ways);
            race.loops(crew, &loops);
        }
        race.run(self.rounds)
    }

    fn cholesky(&self, nt: u32) -> Outcome<Vec<Row>> {
        let ways = Ways {
            plain: Cholesky::<()>::new(nt, false, false),
            indexed: Cholesky::<()>::new(nt, true, false),
            moved: Cholesky::<Moved>::new(nt, false, false),
            shared: Cholesky::<Shared>::new(nt, false, false),
            updated: Cholesky::<Updated>::new(nt, false, false),
        };
        let urgent = Cholesky::<()>::new(nt, false, true);
        let bare = BareCholesky { nt };
        let loops = Loops {
            plain: derived::Cholesky { nt, dense: false },
            indexed: derived::Cholesky { nt, dense: true },
            data: ("data updated", derived::UpdatedCholesky::new(nt)),
        };
        let mut race = Race::new("cholesky", bare.count() as u64, 1.1);
        for crew in &self.crews {
            race.shape(crew, &bare, &ways);
            race.loops(crew, &loops);
            race.engine("dataflow, bottom-level priorities", None, crew, &urgent);
        }
        race.run(self.rounds)
    }

    fn stencil(&self, steps: u32) -> Outcome<Vec<Row>> {
        let ways = Ways {
            plain: Stencil::<()>::new(steps, false),
            indexed: Stencil::<()>::new(steps, true),
            moved: Stencil::<Moved>::new(steps, false),
            shared: Stencil::<Shared>::new(steps, false),
            updated: Stencil::<Updated>::new(steps, false),
        };
        let bare = BareStencil { steps };
        let loops = Loops {
            plain: derived::Stencil {
                steps,
                dense: false,
            },
            indexed: derived::Stencil { steps, dense: true },
            data: ("data made", derived::MadeStencil { steps }),
        };
        let made = derived::MadeByHand { steps };
        let mut race = Race::new("stencil", bare.count() as u64, 1.0);
        for crew in &self.crews {
            race.shape(crew, &bare, &ways);
            race.engine("dataflow, data made", None, crew, &made);
            race.loops(crew, &loops);
        }
        race.run(self.rounds)
    }
}

// ── The race ─────────────────────────────────────────────────────────────────────────────────────

const DENSE: &str = "bare dense-counter loop";

/// Contestants that are kept for the verdict.
const KEPT: [&str; 4] = [
    "dataflow",
    "dataflow, data updated",
    "inserted, 3 accesses",
    "replayed, 3 accesses",
];

/// One shape, with and without data on its edges.
struct Ways<P, M, S, U> {
    plain: P,
    indexed: P,
    moved: M,
    shared: S,
    updated: U,
}

/// The same from loops, beside the ways of these names.
struct Loops<P, D> {
    plain: P,
    indexed: P,
    data: (&'static str, D),
}

/// What a derived space may take, as a share of the one written by hand.
const DERIVED_TO_HAND: f64 = 1.05;

/// No engine of ours may cost more than this, on one worker, without data and priorities.
const LARGEST_NS: f64 = 100.0;

/// Contestants that do the same work, in turn.
struct Race<'r> {
    shape: &'static str,
    n_tasks: u64,
    /// What two workers may take, as a share of one worker's wall time (or 3 ns more).
    two_to_one: f64,
    contestants: Vec<Contestant<'r>>,
}

struct Contestant<'r> {
    name: Cow<'static, str>,
    n_threads: usize,
    /// Bound of the ratio to the bare loop, if this is one that has bounds.
    to_dense: Option<f64>,
    /// The space written by hand that this one is derived like.
    by_hand: Option<String>,
    run: Box<dyn Fn() -> Outcome + 'r>,
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl<'r> Race<'r> {
    fn new(shape: &'static str, n_tasks: u64, two_to_one: f64) -> Self {
        Race {
            shape,
            n_tasks,
            two_to_one,
            contestants: Vec::new(),
        }
    }

    fn enter(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        crew: &Crew,
        run: impl Fn() -> Outcome + 'r,
    ) {
        self.contestants.push(Contestant {
            name: name.into(),
            n_threads: crew.n_threads(),
            to_dense: None,
            by_hand: None,
            run: Box::new(run),
            wall: Vec::new(),
            cpu: Vec::new(),
        });
    }

    fn engine<S: TaskSpace>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        to_dense: Option<f64>,
        crew: &'r Crew,
        space: &'r S,
    ) {
        let (name, n_tasks) = (name.into(), self.n_tasks);
        self.enter(name.clone(), crew, move || {
            match crew.runtime.run(space)?.tasks {
                tasks if tasks == n_tasks => Ok(()),
                tasks => Err(format!("{name} ran {tasks} tasks instead of {n_tasks}").into()),
            }
        });
        if let Some(last) = self.contestants.last_mut() {
            last.to_dense = to_dense;
        }
    }

    /// A shape: the bare loop, and the ways in which ours runs it.
    fn shape<P: TaskSpace, M: TaskSpace, S: TaskSpace, U: TaskSpace>(
        &mut self,
        crew: &'r Crew,
        bare: &'r impl Numbered,
        ways: &'r Ways<P, M, S, U>,
    ) {
        self.enter(DENSE, crew, move || {
            run_bare(bare, crew.n_threads());
            Ok(())
        });
        self.engine("dataflow", Some(4.0), crew, &ways.plain);
        self.engine("dataflow, dense index", Some(3.0), crew, &ways.indexed);
        self.engine("dataflow, data moved", None, crew, &ways.moved);
        self.engine("dataflow, data shared", None, crew, &ways.shared);
        self.engine("dataflow, data updated", None, crew, &ways.updated);
    }

    /// The shape from loops.
    fn loops<P: TaskSpace, D: TaskSpace>(&mut self, crew: &'r Crew, loops: &'r Loops<P, D>) {
        let (name, data) = (format!("dataflow, {}", loops.data.0), &loops.data.1);
        self.derived("dataflow", crew, &loops.plain);
        self.derived("dataflow, dense index", crew, &loops.indexed);
        self.derived(&name, crew, data);
    }

    fn derived<S: TaskSpace>(&mut self, by_hand: &str, crew: &'r Crew, space: &'r S) {
        let name = by_hand.replacen("dataflow", "derived", 1);
        self.engine(name, None, crew, space);
        if let Some(last) = self.contestants.last_mut() {
            last.by_hand = Some(by_hand.to_owned());
        }
    }

    /// Runs everybody, once and then `rounds` times, prints the table and answers the rows of ours that
    /// people look at.
    fn run(mut self, rounds: u32) -> Outcome<Vec<Row>> {
        for contestant in &self.contestants {
            (contestant.run)()?;
        }
        let n = self.contestants.len();
        for round in 0..rounds as usize {
            // Each round begins with another one: what follows whom changes nothing for long.
            for place in 0..n {
                self.contestants[(place + round) % n].measure(self.n_tasks)?;
            }
        }
        self.print();
        Ok(self.rows())
    }

    /// What is kept: each way of ours that has a row in the table, beside rayon and the bare loop.
    fn rows(&self) -> Vec<Row> {
        let unit = Unit::NanosecondsPerTask;
        let beside = |of: &Contestant, is: &dyn Fn(&str) -> bool| {
            let others = self.contestants.iter();
            let others = others.filter(|other| other.n_threads == of.n_threads && is(&other.name));
            unit.best(others.map(|other| (other.name.to_string(), quartiles(&other.wall).0)))
        };
        let mut rows: Vec<Row> = Vec::new();
        for ours in self
            .contestants
            .iter()
            .filter(|row| KEPT.contains(&&*row.name))
        {
            let way = ours
                .name
                .trim_start_matches("dataflow")
                .trim_start_matches(", ");
            let way = match way {
                "" => String::new(),
                way => format!(", {way}"),
            };
            let (median, spread) = quartiles(&ours.wall);
            rows.push(Row {
                what: format!("{}{way}, {} workers", self.shape, ours.n_threads),
                unit,
                ours: median,
                spread: Some(spread),
                other: beside(ours, &|name| name.starts_with("rayon")),
                limit: beside(ours, &|name| name == DENSE),
            });
        }
        rows
    }

    fn print(&self) {
        println!("\n{}: {} tasks", self.shape, self.n_tasks);
        println!(
            "{:36} workers  ns/task         ±  CPU ns  ÷ dense  2 ÷ 1  ÷ hand",
            ""
        );
        let mut rows: Vec<&Contestant> = self.contestants.iter().collect();
        let place = |name: &str| self.contestants.iter().position(|other| other.name == name);
        rows.sort_by_key(|contestant| (place(&contestant.name), contestant.n_threads));
        for row in rows {
            let of = |name: &str, n_threads: usize| {
                let found = self.contestants.iter();
                let mut found = found.filter(|o| o.name == name && o.n_threads == n_threads);
                found.next().map(|other| quartiles(&other.wall).0)
            };
            let (wall, spread) = quartiles(&row.wall);
            let ratios = Ratios {
                dense: of(DENSE, 1)
                    .filter(|_| row.n_threads == 1)
                    .map(|dense| wall / dense),
                single: of(&row.name, 1).filter(|_| row.n_threads == 2),
                hand: row
                    .by_hand
                    .as_ref()
                    .and_then(|name| of(name, row.n_threads))
                    .map(|hand| wall / hand),
            };
            println!(
                "{:36} {:7}  {wall:7.1}  {spread:8.1}  {:6.1}  {:>7}  {:>5}  {:>6}{}",
                row.name,
                row.n_threads,
                quartiles(&row.cpu).0,
                ratio(ratios.dense),
                ratio(ratios.single.map(|single| wall / single)),
                ratio(ratios.hand),
                self.over(row, wall, &ratios),
            );
        }
    }

    /// The bounds that a row exceeds.
    fn over(&self, row: &Contestant, wall: f64, ratios: &Ratios) -> String {
        if ratios.hand.is_some_and(|ratio| ratio > DERIVED_TO_HAND) {
            return format!("  over: ÷ hand ≤ {DERIVED_TO_HAND}");
        }
        let Some(to_dense) = row.to_dense else {
            return String::new();
        };
        let mut over = String::new();
        if ratios.dense.is_some_and(|ratio| ratio > to_dense) {
            over += &format!("  over: ÷ dense ≤ {to_dense}");
        }
        if row.n_threads == 1 && wall > LARGEST_NS {
            over += &format!("  over: {LARGEST_NS} ns");
        }
        let allowed = |single: f64| match self.two_to_one {
            bound if bound > 1.0 => f64::max(bound * single, single + 3.0),
            bound => bound * single,
        };
        if ratios.single.is_some_and(|single| wall > allowed(single)) {
            over += &format!("  over: 2 ÷ 1 ≤ {}", self.two_to_one);
        }
        over
    }
}

/// What a row is compared with.
struct Ratios {
    /// To the bare loop.
    dense: Option<f64>,
    /// One worker's time, if this is that of two.
    single: Option<f64>,
    /// To the space written by hand.
    hand: Option<f64>,
}

impl Contestant<'_> {
    fn measure(&mut self, n_tasks: u64) -> Outcome {
        let (cpu, start) = (process::cpu_seconds(), Instant::now());
        (self.run)()?;
        let (wall, cpu) = (start.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
        self.wall.push(wall * 1e9 / n_tasks as f64);
        self.cpu.push(cpu * 1e9 / n_tasks as f64);
        Ok(())
    }
}

fn ratio(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{value:.2}"))
}

// ── The shapes for the bare loop ──────────────────────────────────────────────────────────────────

struct BareChain {
    length: u64,
}

impl Numbered for BareChain {
    type Task = u64;

    fn count(&self) -> usize {
        self.length as usize
    }

    fn roots(&self) -> Vec<u64> {
        vec![0]
    }

    #[inline(always)]
    fn number(&self, link: u64) -> usize {
        link as usize
    }

    #[inline(always)]
    fn in_degree(&self, _: u64) -> u8 {
        1
    }

    #[inline(always)]
    fn successors(&self, link: u64, mut to: impl FnMut(u64)) {
        if link + 1 < self.length {
            to(link + 1);
        }
    }
}

struct BareWavefront {
    side: u32,
}

impl Numbered for BareWavefront {
    type Task = (u32, u32);

    fn count(&self) -> usize {
        self.side as usize * self.side as usize
    }

    fn roots(&self) -> Vec<(u32, u32)> {
        vec![(0, 0)]
    }

    #[inline(always)]
    fn number(&self, (i, j): (u32, u32)) -> usize {
        i as usize * self.side as usize + j as usize
    }

    #[inline(always)]
    fn in_degree(&self, (i, j): (u32, u32)) -> u8 {
        u8::from(i > 0) + u8::from(j > 0)
    }

    #[inline(always)]
    fn successors(&self, (i, j): (u32, u32), mut to: impl FnMut((u32, u32))) {
        if j + 1 < self.side {
            to((i, j + 1));
        }
        if i + 1 < self.side {
            to((i + 1, j));
        }
    }
}

struct BareStencil {
    steps: u32,
}

impl Numbered for BareStencil {
    type Task = (u32, u32);

    fn count(&self) -> usize {
        self.steps as usize * WIDTH as usize
    }

    fn roots(&self) -> Vec<(u32, u32)> {
        (0..WIDTH).map(|column| (0, column)).collect()
    }

    #[inline(always)]
    fn number(&self, (step, column): (u32, u32)) -> usize {
        step as usize * WIDTH as usize + column as usize
    }

    #[inline(always)]
    fn in_degree(&self, (_, column): (u32, u32)) -> u8 {
        1 + u8::from(column > 0) + u8::from(column + 1 < WIDTH)
    }

    #[inline(always)]
    fn successors(&self, (step, column): (u32, u32), mut to: impl FnMut((u32, u32))) {
        let next = step + 1;
        if next == self.steps {
            return;
        }
        if column > 0 {
            to((next, column - 1));
        }
        to((next, column));
        if column + 1 < WIDTH {
            to((next, column + 1));
        }
    }
}

struct BareCholesky {
    nt: u32,
}

impl Numbered for BareCholesky {
    type Task = Factor;

    fn count(&self) -> usize {
        shapes::tetrahedron(self.nt) as usize
    }

    fn roots(&self) -> Vec<Factor> {
        vec![Factor::Potrf { k: 0 }]
    }

    #[inline(always)]
    fn number(&self, task: Factor) -> usize {
        shapes::position(self.nt, task)
    }

    #[inline(always)]
    fn in_degree(&self, task: Factor) -> u8 {
        match task {
            Factor::Potrf { .. } => 1,
            Factor::Trsm { k, .. } | Factor::Syrk { k, .. } => 1 + u8::from(k > 0),
            Factor::Gemm { k, .. } => 2 + u8::from(k > 0),
        }
    }

    #[inline(always)]
    fn successors(&self, task: Factor, mut to: impl FnMut(Factor)) {
        match task {
            Factor::Potrf { k } => (k + 1..self.nt).for_each(|m| to(Factor::Trsm { m, k })),
            Factor::Trsm { m, k } => {
                to(Factor::Syrk { m, k });
                (k + 1..m).for_each(|n| to(Factor::Gemm { m, n, k }));
                (m + 1..self.nt).for_each(|i| to(Factor::Gemm { m: i, n: m, k }));
            }
            Factor::Syrk { m, k } if m == k + 1 => to(Factor::Potrf { k: m }),
            Factor::Syrk { m, k } => to(Factor::Syrk { m, k: k + 1 }),
            Factor::Gemm { m, n, k } if n == k + 1 => to(Factor::Trsm { m, k: n }),
            Factor::Gemm { m, n, k } => to(Factor::Gemm { m, n, k: k + 1 }),
        }
    }
}
