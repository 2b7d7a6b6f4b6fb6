//! Simulated: what `--simulate` tells of a graph that is not run: counts, or a run in virtual time.
//!
//! In virtual time the engine, the protocol and the order of tasks are those of a real run on as many
//! ranks and workers. Its report is that of a real run; what nobody computed is null.
//!
//! # Elsewhere
//! Counts: [`counts`](super::counts). What bodies and messages take: [`costs`](super::costs).

use super::costs::{Asked, CostFile, DAY, Pace, WrongCosts};
use super::counts::{COUNTS_ONLY, count};
use super::settings::{Drive, MOST_SIMULATED, ROOM, Simulation, Transport};
use super::{Failure, Flags, Measured, Outcome};
use dataflow::Report;
use dataflow::core::prelude::{Datum, Description, Store, Successors, TaskName, TaskSpace};
use dataflow::core::space::Erased;
use dataflow::linalg::weight::Weight;
use dataflow::mpi;
use dataflow::numa::{Policy, Warning};
use dataflow::simulate::{Machine, Played, Stage, Weather};
use dataflow::trace::Trace;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What hears of a graph instead of running it.
pub enum Simulator<'s> {
    /// Counts it.
    Counter(&'s Flags, RefCell<&'s mut Outcome>),
    /// Plays a rank's part of it.
    Player(Player<'s>),
}

impl Simulator<'_> {
    /// Workers of a rank; one where nobody says how many.
    pub fn n_workers(&self) -> usize {
        match self {
            Simulator::Counter(flags, _) => flags.threads.unwrap_or(1),
            Simulator::Player(player) => player.stage.n_workers(),
        }
    }

    /// Ranks that are simulated.
    ///
    /// # Errors
    /// If they are too many to be counted.
    pub fn n_ranks(&self) -> Result<usize, Failure> {
        match self {
            Simulator::Counter(flags, _) => flags.n_simulated().map(|n| n as usize),
            Simulator::Player(player) => Ok(player.stage.n_ranks()),
        }
    }

    /// Hears of graphs one after another, as one; called once, in place of [`hear`](Self::hear). They are
    /// counted only: names that are behind a pointer cannot be put behind another one, as a player does.
    ///
    /// # Errors
    /// As there.
    pub fn hear_series<D: Datum>(&self, graphs: Vec<Erased<'_, D>>) -> Result<(), Failure> {
        match self {
            Simulator::Counter(flags, _) => {
                self.hear(&Erased::series(graphs, 0..flags.n_simulated()?)?)
            }
            Simulator::Player(_) => Err(Failure::refused(COUNTS_ONLY)),
        }
    }

    /// Hears of the graph; called once.
    ///
    /// # Errors
    /// If the space contradicts itself, or nobody knows what its tasks take.
    pub fn hear<S: Weight>(&self, space: &S) -> Result<(), Failure> {
        let mut about = Description::default();
        space.describe(&mut about);
        let weights = Weights {
            graph: about.space_name(),
            bytes: &|task, flow| space.bytes(task, flow),
            flops: &|task| space.flops(task),
        };
        self.hear_weighed(space, &weights)
    }

    /// Hears of a graph that does not know what it weighs; called once, in place of [`hear`](Self::hear).
    ///
    /// # Errors
    /// As there.
    pub fn hear_weighed<S: TaskSpace>(
        &self,
        space: &S,
        weights: &Weights<'_, S::Task>,
    ) -> Result<(), Failure> {
        match self {
            Simulator::Counter(flags, outcome) => {
                let outcome = &mut outcome.borrow_mut();
                count(space, weights.bytes, weights.flops, flags, outcome)
            }
            Simulator::Player(player) => player.play(space, weights),
        }
    }
}

/// What the data and the tasks of a graph weigh.
pub struct Weights<'w, N> {
    /// The graph whose kernels its tasks call: that of the file of costs.
    pub graph: &'w str,
    /// Of the datum that leaves a task through a flow.
    pub bytes: &'w (dyn Fn(N, usize) -> u64 + Sync),
    pub flops: &'w (dyn Fn(N) -> f64 + Sync),
}

/// Simulates a graph, if that was asked for: then nothing is to be computed. `graph` makes it and lets the
/// simulator hear of it, on each rank.
///
/// # Errors
/// As [`Simulator::hear`]; if there are no such costs.
pub fn is_simulated_only(
    flags: &Flags,
    outcome: &mut Outcome,
    graph: impl Fn(&Simulator<'_>) -> Result<(), Failure> + Send + Sync + 'static,
) -> Result<bool, Failure> {
    match flags.simulate {
        None => Ok(false),
        Some(what) => simulate(what, flags, outcome, Arc::new(graph)).map(|()| true),
    }
}

/// What makes a graph and lets a simulator hear of it.
type Graph = Arc<dyn Fn(&Simulator<'_>) -> Result<(), Failure> + Send + Sync>;

/// Compiled once for all graphs.
fn simulate(
    what: Simulation,
    flags: &Flags,
    outcome: &mut Outcome,
    graph: Graph,
) -> Result<(), Failure> {
    match what {
        Simulation::Counts => graph(&Simulator::Counter(flags, RefCell::new(outcome))),
        Simulation::Time => {
            let began = Instant::now();
            let theatre = Theatre::open(flags, outcome)?;
            outcome.measured = Measured::median(theatre.play_graph(graph, flags.repeat)?);
            theatre.tell(began.elapsed().as_secs_f64(), outcome);
            Ok(())
        }
    }
}

/// What is said where rows are swapped: how many depends on the matrix.
pub const SWAPS: &str = "bytes of swapped rows are those to expect of a random matrix";

/// Workers in virtual time, of all ranks: each has a queue, and a line of the report.
const MOST_WORKERS: usize = 1 << 20;

/// Where a graph is played.
pub struct Theatre {
    machine: Machine,
    prices: Prices,
    /// The transport whose costs are taken.
    network: String,
}

/// What is known of all graphs.
#[derive(Clone)]
struct Prices {
    costs: Arc<CostFile>,
    precision: String,
    nb: usize,
    /// Order of the matrix on a host.
    n: usize,
    /// Ranks of a host, and their workers.
    ranks: usize,
    workers: usize,
    /// What a run takes before its first task and after its last, and each task for its rank's being one of
    /// several, nanoseconds.
    around: f64,
    looking: f64,
    seed: u64,
}

/// What is played, and on what.
pub struct Asking<'a> {
    pub n_ranks: usize,
    /// Of each rank; if nothing is said as many as a host of the file has for each.
    pub threads: Option<usize>,
    /// The transport whose costs messages have.
    pub transport: Transport,
    /// Of workers on NUMA nodes, if the costs have any.
    pub policy: Policy,
    pub drive: Option<Drive>,
    pub precision: &'a str,
    pub n: usize,
    pub nb: usize,
    pub seed: u64,
    pub is_traced: bool,
}

impl Theatre {
    /// A machine of such costs.
    ///
    /// # Errors
    /// If they have no such network.
    pub fn of(costs: Arc<CostFile>, asking: &Asking<'_>) -> Result<Self, WrongCosts> {
        let n_ranks = asking.n_ranks;
        let transport = asking.transport.to_string();
        let network = costs.networks.get(&transport).copied();
        if n_ranks > 1 && network.is_none() {
            return Err(WrongCosts(format!(
                "networks: there is no `{transport}` (several ranks need it)"
            )));
        }
        let on_a_host = network.map_or(1, |network| network.ranks_on_a_host.min(n_ranks));
        let numa = costs.numa.as_ref();
        let numa = numa.map(|numa| numa.of_rank(on_a_host, asking.policy.clone()));
        let numa = numa.transpose()?;
        let cores = costs.cores_of_a_host();
        let own_cores = match &numa {
            Some(numa) => numa.topology.n_cores(),
            None => cores.map_or(1, |cores| cores / on_a_host),
        };
        let threads = asking.threads.unwrap_or(own_cores).max(1);
        let drive = match (asking.drive, cores) {
            (Some(Drive::Workers), _) => mpi::Drive::Workers,
            (None, Some(cores)) => mpi::Drive::by_cores(cores, on_a_host, threads),
            (Some(Drive::Dedicated), _) | (None, None) => mpi::Drive::Dedicated,
        };
        let weather = network.map_or_else(Weather::default, |network| network.weather(asking.seed));
        let (around, looking) = match network.filter(|_| n_ranks > 1) {
            Some(network) => (network.run_nanoseconds, network.task_nanoseconds),
            None => (costs.runtime.run_nanoseconds, 0.0),
        };
        let prices = Prices {
            costs,
            precision: asking.precision.to_string(),
            nb: asking.nb,
            n: (asking.n as f64 * (on_a_host as f64 / n_ranks as f64).sqrt()) as usize,
            ranks: on_a_host,
            workers: threads * on_a_host,
            around,
            looking,
            seed: asking.seed,
        };
        Ok(Theatre {
            machine: Machine {
                ranks: n_ranks,
                threads,
                weather,
                messages: mpi::Settings {
                    drive,
                    ..mpi::Settings::default()
                },
                trace: asking.is_traced.then_some(ROOM),
                numa,
            },
            prices,
            network: transport,
        })
    }

    /// The machine that the flags ask for, with the costs of their file.
    fn open(flags: &Flags, outcome: &Outcome) -> Result<Self, Failure> {
        let n_ranks = flags.n_simulated()? as usize;
        let Some(file) = &flags.costs else {
            return Err(Failure::refused(
                "--simulate time needs --costs FILE; the example calibrate writes one for this machine",
            ));
        };
        let asking = Asking {
            n_ranks,
            threads: flags.threads,
            transport: flags.transport.unwrap_or(Transport::Local),
            policy: flags.policy.clone(),
            drive: flags.drive,
            precision: outcome.precision.as_deref().unwrap_or_default(),
            n: outcome.n.unwrap_or(0),
            nb: outcome.nb.unwrap_or(0),
            seed: flags.seed,
            is_traced: flags.records(),
        };
        let wrong = |WrongCosts(text)| WrongCosts(format!("{}: {text}", file.display()));
        let costs = Arc::new(CostFile::read(file)?);
        if flags.says_policy && costs.numa.is_none() {
            let file = file.display();
            let text = format!("--policy: {file} has no NUMA nodes (key `numa`)");
            return Err(Failure::refused(text));
        }
        let theatre = Theatre::of(costs, &asking).map_err(wrong)?;
        let threads = theatre.machine.threads;
        if threads > MOST_SIMULATED {
            return Err(Failure::refused(format!(
                "{threads} workers of a rank, one for each core of {}: at most {MOST_SIMULATED} are simulated (give --threads)",
                file.display()
            )));
        }
        match n_ranks.saturating_mul(threads) > MOST_WORKERS {
            true => Err(Failure::refused(format!(
                "--ranks {n_ranks} --threads {threads}: at most {MOST_WORKERS} workers in virtual time"
            ))),
            false => Ok(theatre),
        }
    }

    /// Plays the graph so many times; the first time everything is cold.
    ///
    /// # Errors
    /// As [`Simulator::hear`].
    pub fn play(
        &self,
        graph: impl Fn(&Simulator<'_>) -> Result<(), Failure> + Send + Sync + 'static,
        times: usize,
    ) -> Result<Vec<Measured>, Failure> {
        self.play_graph(Arc::new(graph), times)
    }

    fn play_graph(&self, graph: Graph, times: usize) -> Result<Vec<Measured>, Failure> {
        let play = |time| {
            let graph = graph.clone();
            let prices = Prices {
                seed: self.prices.seed.wrapping_add(time as u64),
                ..self.prices.clone()
            };
            let parts = self.machine.run(move |stage| {
                let part = RefCell::new(None);
                let player = Player {
                    stage,
                    prices: &prices,
                    cold: if time == 0 { stage.n_workers() } else { 0 },
                    part: &part,
                };
                graph(&Simulator::Player(player))?;
                let untold = || Failure::new("not_simulated", "nobody was told of the graph");
                part.into_inner().ok_or_else(untold)
            });
            let parts = parts.map_err(|hung| Failure::new("stalled", hung.to_string()))?;
            joined(parts.into_iter().collect::<Result<_, _>>()?)
        };
        (0..times).map(play).collect()
    }

    /// What the report has beside that of a real run.
    fn tell(&self, seconds: f64, outcome: &mut Outcome) {
        let Theatre {
            machine,
            prices,
            network,
        } = self;
        (outcome.ranks, outcome.threads) = (machine.ranks, Some(machine.threads));
        outcome.seed = Some(prices.seed);
        let policy = machine.numa.as_ref().map(|numa| numa.policy.to_string());
        let limits = if policy.is_some() {
            LIMITS_ON_NUMA
        } else {
            LIMITS
        };
        outcome.policy = policy.unwrap_or_else(|| "priority".into());
        let network = (machine.ranks > 1).then_some(network);
        outcome.say(format!("simulated in {seconds:.3} s, not run. {limits}"));
        let n_workers = prices.workers;
        let n_cores = prices.costs.cores_of_a_host();
        if let Some(n_cores) = n_cores.filter(|&n_cores| n_workers > n_cores) {
            let warning = Warning::MoreWorkersThanCores { n_workers, n_cores };
            outcome.say(format!("warning: {warning}"));
        }
        outcome.set("simulate", Simulation::Time.to_string());
        outcome.set(
            "simulation",
            json!({
                "real_seconds": seconds,
                "network": network,
                "workers_on_a_host": prices.workers,
                "limits": limits,
            }),
        );
    }
}

/// What a simulation does not know.
const LIMITS: &str = "Kernels take what was measured, with its spread: no NUMA nodes, shared bandwidth, \
    shared cores or other programs, and caches as where it was measured; runs that differ by less than seeds do are equal.";

/// What it does not know where ranks have NUMA nodes.
const LIMITS_ON_NUMA: &str = "Kernels take what was measured, with its spread, and a byte from another \
    NUMA node the same however many travel: no shared bandwidth, shared cores or other programs, and caches \
    as where it was measured; runs that differ by less than seeds do are equal.";

/// A rank that plays its part.
pub struct Player<'s> {
    stage: &'s Stage,
    prices: &'s Prices,
    /// So many tasks of each class are cold.
    cold: usize,
    part: &'s RefCell<Option<Part>>,
}

/// What a rank tells of its part.
struct Part {
    measured: Measured,
    trace: Option<Trace>,
}

impl Player<'_> {
    fn play<S: TaskSpace>(&self, space: &S, weights: &Weights<'_, S::Task>) -> Result<(), Failure> {
        let bodies = Bodies::of(space, weights.graph, self.prices, self.cold);
        let time = |task| bodies.time(space, task, (weights.flops)(task));
        let mut played = self.stage.play(space, weights.bytes, &time)?;
        played.report.seconds += self.prices.around * 1e-9;
        bodies.were_known()?;
        *self.part.borrow_mut() = Some(Part::of(self.stage, played, bodies.busy()));
        Ok(())
    }
}

/// What the tasks of a space take.
struct Bodies {
    classes: Vec<Body>,
    /// So many of each class are cold.
    cold: usize,
    task: f64,
    edge: f64,
    seed: u64,
    /// All of them, nanoseconds.
    busy: AtomicU64,
}

/// What the tasks of a class take.
struct Body {
    class: String,
    /// A class without arithmetic takes nothing, unless the file says otherwise.
    pace: Result<Pace, WrongCosts>,
    /// How many have begun.
    begun: AtomicUsize,
    /// Whether a time was asked for that nobody knows.
    is_unknown: AtomicBool,
    /// Nanoseconds of the latest task that would take too long, if any would.
    too_long: AtomicU64,
}

impl Bodies {
    fn of<S: TaskSpace>(space: &S, graph: &str, prices: &Prices, cold: usize) -> Self {
        let mut about = Description::default();
        space.describe(&mut about);
        let pace = |class: &str| {
            prices.costs.pace(&Asked {
                graph,
                class,
                precision: &prices.precision,
                nb: prices.nb,
                n: prices.n,
                ranks: prices.ranks,
                workers: prices.workers,
            })
        };
        let classes = about.classes().iter().map(|class| Body {
            class: class.name.clone(),
            pace: pace(&class.name),
            begun: AtomicUsize::default(),
            is_unknown: AtomicBool::default(),
            too_long: AtomicU64::default(),
        });
        Bodies {
            classes: classes.collect(),
            cold,
            task: prices.costs.runtime.task_nanoseconds + prices.looking,
            edge: prices.costs.runtime.edge_nanoseconds,
            seed: prices.seed,
            busy: AtomicU64::default(),
        }
    }

    /// What a task of so many `flops` takes, with what the runtime takes for it.
    fn time<S: TaskSpace>(&self, space: &S, task: S::Task, flops: f64) -> Duration {
        let body = &self.classes[task.class()];
        let is_cold = body.begun.fetch_add(1, Ordering::Relaxed) < self.cold;
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let drawn = hasher.hash_one((self.seed, task));
        let own = match &body.pace {
            Ok(pace) => pace.time(flops, Some(drawn), is_cold),
            Err(_) => {
                body.is_unknown.fetch_or(flops > 0.0, Ordering::Relaxed);
                Duration::ZERO
            }
        };
        let mut edges = Edges::default();
        space.successors(task, &mut edges);
        let runtime = self.task + self.edge * edges.0 as f64;
        let time = own.saturating_add(Duration::from_nanos(runtime.round() as u64));
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // The run goes on without it to its end, where it is refused.
        if nanoseconds as f64 > DAY {
            body.too_long.store(nanoseconds, Ordering::Relaxed);
            return Duration::ZERO;
        }
        self.busy.fetch_add(nanoseconds, Ordering::Relaxed);
        time
    }

    /// Whether all that was asked for is known, and no task takes too long.
    fn were_known(&self) -> Result<(), WrongCosts> {
        for body in &self.classes {
            let nanoseconds = body.too_long.load(Ordering::Relaxed);
            if nanoseconds > 0 {
                let class = &body.class;
                let text = format!(
                    "a task {class} would take {:e} ns (at most {DAY:e}, a day)",
                    nanoseconds as f64
                );
                return Err(WrongCosts(text));
            }
        }
        let unknown = |body: &&Body| body.is_unknown.load(Ordering::Relaxed);
        let unknown = self.classes.iter().find(unknown);
        match unknown.map(|body| body.pace.clone()) {
            Some(pace) => pace.map(drop),
            None => Ok(()),
        }
    }

    fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.load(Ordering::Relaxed))
    }
}

/// Counts the edges that leave a task.
#[derive(Default)]
pub struct Edges(pub usize);

impl<S: TaskSpace> Successors<S> for Edges {
    fn task(&mut self, _: usize, _: S::Task, _: usize) {
        self.0 += 1;
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}

    fn range(&mut self, _: usize, range: Range<u32>, _: impl Fn(u32) -> S::Task, _: usize) {
        self.0 += range.len();
    }
}

impl Part {
    fn of(stage: &Stage, played: Played, busy: Duration) -> Self {
        let rank = stage.rank().0;
        let (tasks, seconds) = (played.report.tasks, played.report.seconds);
        let mut measured = Measured::of_workers(tasks, seconds, &played.workers);
        if played.workers.is_empty() {
            measured.workers = without_places(&played.report);
        }
        for worker in &mut measured.workers {
            worker["sleeps"] = Value::Null;
            if stage.n_ranks() > 1 {
                worker["rank"] = rank.into();
            }
        }
        let mut sent = Map::from_iter([("rank".to_string(), rank.into())]);
        for (name, number) in played.sent.named() {
            sent.insert(name.to_string(), number.into());
        }
        measured.cpu_seconds = (busy + played.remote).as_secs_f64();
        measured.copies = played.report.copies();
        if stage.n_ranks() > 1 {
            measured.sent = vec![sent.into()];
        }
        let trace = played.trace;
        Part { measured, trace }
    }
}

/// What workers did of whom only the number of tasks is known.
fn without_places(report: &Report) -> Vec<Value> {
    let by_worker = report.tasks_by_worker.iter().enumerate();
    let worker = |(worker, tasks)| {
        json!({
            "worker": worker,
            "numa_node": 0,
            "tasks": tasks,
            "steals": 0,
            "local_bytes": null,
            "remote_bytes": null,
            "from": [],
        })
    };
    by_worker.map(worker).collect()
}

/// All ranks' parts as one.
fn joined(parts: Vec<Part>) -> Result<Measured, Failure> {
    let (measured, traces): (Vec<_>, Vec<_>) = parts
        .into_iter()
        .map(|part| (part.measured, part.trace))
        .unzip();
    let mut all = Measured::joined(measured, false);
    let mut traces = traces.into_iter().flatten();
    if let Some(first) = traces.next() {
        let others: Vec<Vec<u8>> = traces.map(|part| part.to_bytes()).collect();
        let joined = first.joined(others.iter().map(Vec::as_slice));
        all.traces = vec![joined.map_err(|error| Failure::new("malformed", error))?];
    }
    Ok(all)
}

impl From<WrongCosts> for Failure {
    fn from(wrong: WrongCosts) -> Self {
        Failure::new("wrong_costs", wrong.to_string())
    }
}
