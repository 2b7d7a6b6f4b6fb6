//! Where threads and tiles really are, as the kernel tells it, on the machine that this runs on.
//!
//! On one NUMA node most of it holds trivially. `cargo xtask numa-vm` runs the same program in
//! guests that have several, and says in `DATAFLOW_NUMA_NODES` how many must be found.

use dataflow::core::port::{Executor, Memory};
use dataflow::linalg::cholesky::Factor;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::generate::PositiveDefinite;
use dataflow::linalg::matrix::{Layout, Tile, TiledMatrix};
use dataflow::numa::pages::{self, PagesError, Wish};
use dataflow::numa::pin::{allowed_pus, current_pu};
use dataflow::numa::{HugePages, NumaNode, Placing, Statistics, Topology};
use dataflow::prelude::*;
use dataflow::{Bind, Policy, Report, Runtime};
use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Tiles of this order take 72 KiB: large ones, which start at a page.
const NB: usize = 96;

/// The machine; `None`, said aloud, where the kernel does not tell about pages.
fn machine() -> Option<Topology> {
    let topology = Topology::discover().unwrap();
    let nodes: Vec<usize> = topology
        .numa_nodes()
        .iter()
        .map(|node| node.os_index)
        .collect();
    if let Ok(expected) = std::env::var("DATAFLOW_NUMA_NODES") {
        assert_eq!(nodes.len().to_string(), expected, "NUMA nodes {nodes:?}");
    }
    match pages::node_of(&[1]) {
        Err(PagesError::Forbidden { call }) => {
            println!("skipped: {call} is forbidden here");
            None
        }
        Err(PagesError::Unsupported) => {
            println!("skipped: this system does not tell where pages lie");
            None
        }
        _ => Some(topology),
    }
}

/// The same, if all its NUMA nodes have cores and memory that this process may use: others get no pages.
fn whole_machine() -> Option<Topology> {
    let topology = machine()?;
    let has_cores = |node| topology.cores().iter().any(|core| core.numa_node == node);
    let may_lie_on = |os_index| {
        let mut block = HugePages::new().allocate(1 << 20);
        pages::place(block.bytes_mut(), Wish::Prefer(os_index)).is_ok()
    };
    for (node, NumaNode { os_index, .. }) in topology.numa_nodes().iter().enumerate() {
        if !has_cores(node) || !may_lie_on(*os_index) {
            println!("skipped: NUMA node {os_index} has no cores or no memory for this process");
            return None;
        }
    }
    Some(topology)
}

fn runtime(policy: &str) -> Runtime {
    let policy: Policy = policy.parse().unwrap();
    Runtime::builder()
        .policy(policy)
        .bind(Bind::Cores)
        .build()
        .unwrap()
}

fn matrix(runtime: &Runtime, nt: usize) -> TiledMatrix<f64> {
    let n = nt * NB;
    let a = TiledMatrix::vacant(Layout::lower(n, NB).unwrap(), runtime.memory());
    a.fill(&PositiveDefinite::new(n, 1), runtime).unwrap();
    a
}

/// How many pages of a tile lie on each NUMA node, as the kernel numbers them.
fn pages_of(tile: &Tile<f64>) -> BTreeMap<Option<usize>, usize> {
    let bytes: &[u8] = bytemuck::cast_slice(tile.as_slice());
    let offsets: Vec<usize> = (0..bytes.len()).step_by(pages::size()).collect();
    let mut count = BTreeMap::new();
    for node in pages::nodes_of(bytes, &offsets).unwrap() {
        *count.entry(node).or_default() += 1;
    }
    count
}

/// The kernel's number of the NUMA node on which this thread runs.
fn here(topology: &Topology) -> Option<usize> {
    let pu = current_pu()?;
    let core = topology
        .cores()
        .iter()
        .find(|core| core.pus.contains(&pu))?;
    Some(topology.numa_nodes()[core.numa_node].os_index)
}

#[test]
fn workers_run_where_they_were_pinned() {
    let Some(topology) = machine() else { return };
    let runtime = runtime("distance-no-steal");
    let seen = Mutex::new(HashSet::new());
    let asks = dataflow::core::space::Independent::new("asks", 4000, |_| {
        let thread = std::thread::current();
        let worker = thread
            .name()
            .and_then(|name| name.strip_prefix("dataflow-"));
        let worker: usize = worker.and_then(|number| number.parse().ok()).unwrap();
        seen.lock()
            .unwrap()
            .insert((worker, allowed_pus(), current_pu()));
        // Long enough for everybody to come.
        std::thread::sleep(Duration::from_micros(50));
        Ok(())
    });
    runtime.run(&asks).unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!(
        seen.len(),
        topology.n_cores(),
        "each in one place: {seen:?}"
    );
    for (worker, allowed, pu) in seen {
        let place = &runtime.workers().places()[worker];
        assert_eq!((&allowed, pu), (&place.pus, Some(allowed[0])));
        assert_eq!(place.pus, topology.cores()[worker].pus[..1]);
    }
}

#[test]
fn pages_lie_on_the_node_asked_for_or_on_all_in_turn() {
    let Some(topology) = whole_machine() else {
        return;
    };
    let nodes: Vec<usize> = topology
        .numa_nodes()
        .iter()
        .map(|node| node.os_index)
        .collect();
    let n_pages = 4 << 20 >> 12;
    let offsets: Vec<usize> = (0..n_pages).map(|page| page << 12).collect();
    for &node in &nodes {
        let mut block = HugePages::new().allocate(4 << 20);
        pages::place(block.bytes_mut(), Wish::Prefer(node)).unwrap();
        block.bytes_mut().fill(1);
        let found = pages::nodes_of(block.bytes(), &offsets).unwrap();
        assert!(found.iter().all(|&found| found == Some(node)), "{node}");
    }
    let memory = HugePages::on(&topology, Placing::Interleaved);
    let mut block = memory.allocate(64 << 20);
    block.bytes_mut().fill(1);
    // All pages: where the kernel has no huge ones, every second small one lies on the same node.
    let n_pages = 64 << 20 >> 12;
    let offsets: Vec<usize> = (0..n_pages).map(|page| page << 12).collect();
    let found = pages::nodes_of(block.bytes(), &offsets).unwrap();
    for node in nodes.iter().copied().map(Some) {
        let share = found.iter().filter(|&&found| found == node).count();
        assert!(share >= n_pages / 2 / nodes.len(), "{node:?}: {share}");
    }
}

#[test]
fn tiles_are_made_round_robin_over_the_nodes_and_lie_where_they_say() {
    let Some(topology) = whole_machine() else {
        return;
    };
    let runtime = runtime("distance-no-steal");
    // Filled again, over tiles that were touched: they must not wander.
    let a = matrix(&runtime, 6);
    a.fill(&PositiveDefinite::new(6 * NB, 2), &runtime).unwrap();
    let mut tiles = BTreeMap::<usize, usize>::new();
    for (i, j) in a.tiles() {
        let tile = a.tile(i, j).unwrap();
        let node = tile.numa_node().unwrap();
        *tiles.entry(node).or_default() += 1;
        let os_index = topology.numa_nodes()[node].os_index;
        let pages = pages_of(&tile);
        assert_eq!(pages.keys().copied().collect::<Vec<_>>(), [Some(os_index)]);
        assert_eq!(tile.as_slice().as_ptr().addr() % 4096, 0);
    }
    let n_nodes = topology.n_numa_nodes();
    assert_eq!(tiles.len(), n_nodes, "{tiles:?}");
    let (least, most) = (tiles.values().min().unwrap(), tiles.values().max().unwrap());
    assert!(most - least <= 1, "21 tiles in turn: {tiles:?}");
    // And so everybody has work, though there is but one root.
    let report = Factor::new(&a, Backend::Auto).unwrap();
    let report = report.run(&runtime).unwrap();
    for (worker, tasks) in report.tasks_by_worker.iter().enumerate() {
        let place = &runtime.workers().places()[worker];
        let places = runtime.workers().places().iter();
        let alone = places
            .filter(|other| other.numa_node == place.numa_node)
            .count()
            == 1;
        assert!(*tasks > 0 || !alone, "{:?}", report.tasks_by_worker);
    }
}

/// A factorisation whose bodies ask the kernel where they run and where their tiles lie.
struct Asking<'a> {
    factor: Factor<'a, f64>,
    topology: &'a Topology,
    local: AtomicU64,
    all: AtomicU64,
}

impl<'a> TaskSpace for Asking<'a> {
    type Task = <Factor<'a, f64> as TaskSpace>::Task;
    type Datum = Tile<f64>;

    fn describe(&self, about: &mut Description) {
        self.factor.describe(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Self::Task> + Send {
        self.factor.tasks(on)
    }

    fn inputs(&self, task: Self::Task, from: &mut impl Inputs<Self>) {
        self.factor.inputs(task, &mut Through(from));
    }

    fn successors(&self, task: Self::Task, to: &mut impl Successors<Self>) {
        self.factor.successors(task, &mut Through(to));
    }

    fn priority(&self, task: Self::Task) -> i64 {
        self.factor.priority(task)
    }

    fn run(&self, task: Self::Task, flows: &mut Flows<'_, Tile<f64>>) -> Result<(), TaskError> {
        let here = here(self.topology);
        for tile in flows.iter().filter_map(|slot| slot.get()) {
            let pages = pages_of(tile);
            let bytes = size_of_val(tile.as_slice()) as u64;
            let n_pages: usize = pages.values().sum();
            let near = pages.get(&here).copied().unwrap_or(0) as u64;
            self.local
                .fetch_add(bytes * near / n_pages as u64, Ordering::Relaxed);
            self.all.fetch_add(bytes, Ordering::Relaxed);
        }
        TaskSpace::run(&self.factor, task, flows)
    }
}

/// The visitors of one space as those of the other: their tasks and data are the same.
struct Through<'v, V>(&'v mut V);

impl<'a, V: Inputs<Asking<'a>>> Inputs<Factor<'a, f64>> for Through<'_, V> {
    fn task(&mut self, flow: usize, source: <Asking<'a> as TaskSpace>::Task, source_flow: usize) {
        self.0.task(flow, source, source_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<Tile<f64>>, index: usize) {
        self.0.home(flow, store, index);
    }
}

impl<'a, V: Successors<Asking<'a>>> Successors<Factor<'a, f64>> for Through<'_, V> {
    fn task(&mut self, flow: usize, target: <Asking<'a> as TaskSpace>::Task, target_flow: usize) {
        self.0.task(flow, target, target_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<Tile<f64>>, index: usize) {
        self.0.home(flow, store, index);
    }
}

/// The policies, and how much must be local at least: without stealing a task runs where a third of
/// its tiles lie, or more.
const POLICIES: [(&str, f64); 9] = [
    ("distance", 0.0),
    ("distance,adjacent,patience=3", 0.0),
    ("distance,keep=0", 0.0),
    ("distance,keep=4", 0.0),
    ("distance-no-steal", 1.0 / 3.0),
    ("priority", 0.0),
    ("fifo", 0.0),
    ("lifo", 0.0),
    ("oblivious", 0.0),
];

#[test]
fn under_every_policy_the_factor_is_the_same_and_the_local_share_is_the_kernels() {
    let Some(topology) = machine() else { return };
    let several = topology.n_numa_nodes() > 1;
    let mut first: Option<Vec<u64>> = None;
    for (policy, least) in POLICIES {
        let runtime = runtime(policy);
        let a = matrix(&runtime, 4);
        let space = Asking {
            factor: Factor::new(&a, Backend::Auto).unwrap(),
            topology: &topology,
            local: AtomicU64::new(0),
            all: AtomicU64::new(0),
        };
        let report: Report = runtime.run(&space).unwrap();
        let (local, all) = (space.local.into_inner(), space.all.into_inner());
        let (told, asked) = (report.local_share().unwrap(), local as f64 / all as f64);
        println!("{policy}: local share {told:.4}, asked of the kernel {asked:.4}");
        assert!((told - asked).abs() <= 0.01, "{policy}: {told} and {asked}");
        if several {
            assert_eq!(report.local_bytes + report.remote_bytes, all, "{policy}");
            assert!(told >= least, "{policy}: {told}");
        }
        assert_eq!(report.copies(), 0);
        let entries = a.to_column_major().unwrap();
        let bits: Vec<u64> = entries.into_iter().map(f64::to_bits).collect();
        let first = first.get_or_insert_with(|| bits.clone());
        assert!(*first == bits, "{policy}: other bits");
    }
}

/// Task 0 frees many that take their time.
struct Fan;

impl TaskSpace for Fan {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("fan").class("Leaf").order("START");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..=400
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 0 {
            from.task(0, 0, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task == 0 {
            (1..=400).for_each(|leaf| to.task(0, leaf, 0));
        }
    }

    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        std::thread::sleep(Duration::from_micros(100));
        Ok(())
    }
}

#[test]
fn of_a_hundred_steals_none_goes_to_a_node_that_is_not_adjacent_if_so_asked() {
    let Some(topology) = machine() else { return };
    if topology.n_numa_nodes() == 1 {
        println!("skipped: one NUMA node has no neighbours");
        return;
    }
    let runtime = runtime("distance,adjacent");
    let from_others = |statistics: &[dataflow::numa::WorkerStatistics]| -> u64 {
        let traffic = statistics.iter().flat_map(|worker| {
            let own = worker.numa_node;
            worker
                .traffic
                .iter()
                .filter(move |traffic| traffic.from != own)
        });
        traffic.map(|traffic| traffic.steals).sum()
    };
    for _ in 0..200 {
        runtime.run(&Fan).unwrap();
        if from_others(&runtime.workers().statistics_by_worker()) >= 100 {
            break;
        }
    }
    let statistics = runtime.workers().statistics_by_worker();
    let steals = from_others(&statistics);
    println!("{steals} steals between nodes");
    assert!(steals >= 100, "{steals} steals");
    for worker in statistics {
        let own = worker.numa_node;
        let others = (0..topology.n_numa_nodes()).filter(|&node| node != own);
        let nearest = others
            .map(|node| topology.distance(own, node))
            .min()
            .unwrap();
        for (distance, steals) in worker.steals_by_distance() {
            let near = distance == topology.distance(own, own) || distance == nearest;
            assert!(near, "{steals} from {distance}, adjacent is {nearest}");
        }
    }
    assert_ne!(runtime.statistics(), Statistics::default());
    assert!(!runtime.is_uniform());
}
