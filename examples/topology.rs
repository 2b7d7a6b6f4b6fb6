//! What the runtime makes of a machine: its NUMA nodes and cores, which worker runs where, and
//! from whom each worker steals, nearest first.
//!
//! The machine is this one as far as the process may use it (try `taskset -c 1`), with the workers that
//! the environment asks for unless flags do; or that of an hwloc XML file (`--input`), or of a synthetic
//! description (`--synthetic`).
//!
//! ```text
//! cargo run --release --features hwloc --example topology -- \
//!     --synthetic 'Package:2 [NUMANode] Core:4 PU:2' --svg machine.svg
//! ```

#[path = "topology/picture.rs"]
mod picture;

use common::cli::{self, Failure, Outcome, Settings};
use dataflow::core::words::counted;
use dataflow::numa::{Place, Topology, TopologyError, Warning, nearest, rivals};
use serde_json::{Value, json};
use std::path::PathBuf;

const EXAMPLE: cli::Example = cli::Example {
    name: "topology",
    about: "Shows a machine, which worker runs where on it, and from whom each one steals",
    runs: false,
    honours: &["input", "threads", "bind"],
};

#[derive(clap::Args)]
#[command(
    mut_arg("input", |input| input.help("A machine by an hwloc XML file [default: this one]")),
    mut_arg("threads", |threads| threads.help(
        "Workers [default: of this machine as DATAFLOW_THREADS says, else one per core]"
    ))
)]
struct Own {
    /// A machine by its description, like 'Package:2 [NUMANode] Core:4 PU:2'
    #[arg(long, value_name = "TEXT", conflicts_with = "input")]
    synthetic: Option<String>,
    /// Draw a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    cli::run_alone(&EXAMPLE, show)
}

fn show(settings: &Settings<Own>, outcome: &mut Outcome) -> Result<(), Failure> {
    let (name, topology) = machine(settings)?;
    let is_here = settings.input.is_none() && settings.own.synthetic.is_none();
    let (threads, bind) = match is_here {
        true => settings.workers()?,
        false => (settings.threads, settings.bound_to()),
    };
    let capacity = bind.capacity(&topology);
    let n_workers = threads.unwrap_or(capacity);
    let places = bind.places(&topology, n_workers);
    let plan = Plan {
        name,
        topology,
        places,
    };
    let warnings = plan.warnings(n_workers > capacity);

    outcome.threads = Some(n_workers);
    plan.set(outcome);
    outcome.set("warnings", warnings.clone());
    plan.say(outcome);
    for warning in warnings {
        outcome.say(format!("warning: {warning}"));
    }
    if let Some(file) = &settings.own.svg {
        let cannot = |error| Failure::output_unwritable(file, error);
        let drawn = picture::draw(&plan);
        dataflow::trace::replace(file, |to| svg::write(to, &drawn)).map_err(cannot)?;
        outcome.say(format!("picture: {}", file.display()));
    }
    Ok(())
}

/// The machine that was asked for, and what to call it.
fn machine(settings: &Settings<Own>) -> Result<(String, Topology), TopologyError> {
    if let Some(file) = &settings.input {
        let name = file.file_name().unwrap_or(file.as_os_str());
        return Ok((
            name.to_string_lossy().into_owned(),
            Topology::from_xml(file)?,
        ));
    }
    if let Some(text) = &settings.own.synthetic {
        return Ok((text.clone(), Topology::from_synthetic(text)?));
    }
    Ok(("this process".to_owned(), Topology::discover()?))
}

/// A machine and the workers on it.
struct Plan {
    name: String,
    topology: Topology,
    places: Vec<Place>,
}

impl Plan {
    /// The home of each worker.
    fn homes(&self) -> Vec<usize> {
        self.places.iter().map(|place| place.numa_node).collect()
    }

    /// The operating system's numbers of NUMA nodes.
    fn os(&self, nodes: &[usize]) -> Vec<usize> {
        let nodes = nodes.iter();
        nodes
            .map(|&node| self.topology.numa_nodes()[node].os_index)
            .collect()
    }

    fn nodes_without_workers(&self) -> Vec<usize> {
        let homes = self.homes();
        let mut nodes: Vec<usize> = (0..self.topology.n_numa_nodes()).collect();
        nodes.retain(|node| !homes.contains(node));
        nodes
    }

    /// The other NUMA nodes with workers, by distance from one.
    fn groups(&self, from: usize) -> Vec<Vec<usize>> {
        nearest::groups(&self.topology, &self.homes(), from)
    }

    /// The PUs of the core that a worker has for itself, or all it may run on.
    fn pus_of(&self, worker: usize) -> &[usize] {
        let place = &self.places[worker];
        let core = |pu: &usize| {
            let mut cores = self.topology.cores().iter();
            cores.find(|core| core.pus.contains(pu))
        };
        match &place.pus[..] {
            [pu] => core(pu).map_or(&place.pus, |core| &core.pus),
            shared => shared,
        }
    }

    /// The PU that a worker is pinned to, if it has one for itself.
    fn pinned_to(&self, worker: usize) -> Option<usize> {
        match self.places[worker].pus[..] {
            [pu] => Some(pu),
            _ => None,
        }
    }

    /// What is likely to make these workers slow.
    fn warnings(&self, crowded: bool) -> Vec<String> {
        let (n_workers, n_cores) = (self.places.len(), self.topology.n_cores());
        let shared = crowded.then_some(Warning::MoreWorkersThanCores { n_workers, n_cores });
        let rivals = rivals::rivals(n_workers, n_cores, |name| std::env::var(name).ok());
        let rivals = rivals.iter().map(rivals::Rival::to_string);
        shared
            .iter()
            .map(Warning::to_string)
            .chain(rivals)
            .collect()
    }

    /// The keys of the example's own.
    fn set(&self, outcome: &mut Outcome) {
        let topology = &self.topology;
        let n = topology.n_numa_nodes();
        let nodes: Vec<usize> = (0..n).collect();
        let row = |from: usize| -> Vec<u32> {
            nodes
                .iter()
                .map(|&to| topology.distance(from, to))
                .collect()
        };
        let distances = topology
            .has_distances()
            .then(|| nodes.iter().map(|&from| row(from)).collect::<Vec<_>>());
        outcome.set("machine", self.name.clone());
        outcome.set("numa_nodes", n);
        outcome.set("numa_nodes_os", self.os(&nodes));
        outcome.set("packages", topology.packages().len());
        outcome.set("cores", topology.n_cores());
        outcome.set("pus", topology.n_pus());
        outcome.set("workers", self.places.len());
        outcome.set(
            "nodes_without_workers_os",
            self.os(&self.nodes_without_workers()),
        );
        outcome.set("distances", json!(distances));
        outcome.set(
            "adjacency",
            nodes
                .iter()
                .map(|&node| self.adjacency(node))
                .collect::<Vec<_>>(),
        );
        outcome.set(
            "steal_order",
            (0..self.places.len())
                .map(|worker| self.steal_order(worker))
                .collect::<Vec<_>>(),
        );
    }

    fn adjacency(&self, node: usize) -> Value {
        let known = self.topology.has_distances();
        let distance = |to| known.then(|| self.topology.distance(node, to));
        let class = |mut group: Vec<usize>| {
            let distance = distance(group[0]);
            group.sort_unstable();
            json!({ "distance": distance, "nodes_os": self.os(&group) })
        };
        let classes: Vec<Value> = self.groups(node).into_iter().map(class).collect();
        let node_os = self.topology.numa_nodes()[node].os_index;
        json!({ "node_os": node_os, "local": distance(node), "classes": classes })
    }

    fn steal_order(&self, worker: usize) -> Value {
        let (homes, node) = (self.homes(), self.places[worker].numa_node);
        let sweep = |number| self.os(&nearest::sweep(&self.topology, &homes, node, number));
        let mut adjacent = self.groups(node).into_iter().next().unwrap_or_default();
        adjacent.sort_unstable();
        json!({
            "worker": worker,
            "pus_os": self.pus_of(worker),
            "pin_to_pu_os": self.pinned_to(worker),
            "home_node_os": self.topology.numa_nodes()[node].os_index,
            "adjacent_nodes_os": self.os(&adjacent),
            "first_sweep_nodes_os": sweep(0),
            "second_sweep_nodes_os": sweep(1),
        })
    }

    /// One line: what was found.
    fn summary(&self) -> String {
        let topology = &self.topology;
        [
            counted(topology.packages().len(), "package"),
            counted(topology.n_numa_nodes(), "NUMA node"),
            counted(topology.n_cores(), "core"),
            counted(topology.n_pus(), "PU"),
            counted(self.places.len(), "worker"),
        ]
        .join(", ")
    }

    fn say(&self, outcome: &mut Outcome) {
        outcome.say(format!("{}: {}", self.name, self.summary()));
        outcome.say("(nodes and PUs by the operating system's numbers)");
        self.say_caches(outcome);
        self.say_distances(outcome);
        let without = self.nodes_without_workers();
        if !without.is_empty() {
            outcome.say(format!(
                "nodes without workers: {}",
                words(&self.os(&without))
            ));
        }
        outcome.say(format!(
            "\n{:>6}  {:<12} {:<9} {:>4}  steals from",
            "worker", "PUs", "pinned to", "node"
        ));
        for worker in 0..self.places.len() {
            let node = self.places[worker].numa_node;
            let groups = self
                .groups(node)
                .into_iter()
                .map(|group| words(&self.os(&group)));
            let pinned = self
                .pinned_to(worker)
                .map_or("-".to_owned(), |pu| pu.to_string());
            outcome.say(format!(
                "{worker:>6}  {:<12} {pinned:<9} {:>4}  {}",
                ranges(self.pus_of(worker)),
                self.topology.numa_nodes()[node].os_index,
                groups.collect::<Vec<_>>().join(" | "),
            ));
        }
        outcome.say("(a bar stands between distances; equals are taken in turn)");
    }

    fn say_caches(&self, outcome: &mut Outcome) {
        let mut caches: Vec<(usize, u64)> = self
            .topology
            .caches()
            .iter()
            .map(|cache| (cache.level, cache.bytes))
            .collect();
        caches.sort_unstable();
        for alike in caches.chunk_by(|one, next| one == next) {
            let (level, bytes) = alike[0];
            outcome.say(format!(
                "{} x L{level} cache of {} KiB",
                alike.len(),
                bytes >> 10
            ));
        }
    }

    fn say_distances(&self, outcome: &mut Outcome) {
        let nodes: Vec<usize> = (0..self.topology.n_numa_nodes()).collect();
        if nodes.len() == 1 {
            return;
        }
        if !self.topology.has_distances() {
            return outcome.say("distances are not known: all other nodes are equally near");
        }
        let line = |head: String, row: Vec<String>| format!("{head:>8}{}", row.concat());
        let cell = |number: &dyn std::fmt::Display| format!("{number:>5}");
        let heads = self.os(&nodes);
        outcome.say(line(
            "from\\to".to_owned(),
            heads.iter().map(|head| cell(head)).collect(),
        ));
        for (&from, head) in nodes.iter().zip(&heads) {
            let row = nodes
                .iter()
                .map(|&to| cell(&self.topology.distance(from, to)));
            outcome.say(line(head.to_string(), row.collect()));
        }
    }
}

fn words(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    words.join(" ")
}

/// `0-3,8` for 0, 1, 2, 3, 8; `any` for none.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let runs: Vec<String> = runs
        .map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        })
        .collect();
    match runs.is_empty() {
        true => "any".to_owned(),
        false => runs.join(","),
    }
}
