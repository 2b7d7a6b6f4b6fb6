//! A small engine of the tests: random task graphs whose payloads check themselves.
//!
//! A task has an owner and inputs among the tasks before it. Its value is a hash of its inputs'
//! values, and its payload is made of its value, so a byte that is wrong anywhere is noticed.

#![allow(dead_code, unused_imports)] // each test uses its part

pub mod clocked;
pub mod space;
pub mod world;

use dataflow_core::port::{
    Arrival, Cargo, Courier, Failure, Goods, Inbox, Line, Parcel, Pulse, Terms,
};
use dataflow_core::rank::Rank;
use dataflow_core::{Error, Report};
use dataflow_mpi::transport::simulated::{Weather, spend};
use dataflow_mpi::{Bell, Host, Messenger, Settings};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::mix;
pub use world::{Random, in_this, in_world};

/// Outputs of a task, at most.
pub const MAX_FLOWS: usize = 3;

/// A payload above this is hashed in its first block only, which takes seconds of two gibibytes; the other
/// blocks are the same but for a number of their own.
const LARGE: usize = 1 << 20;
const BLOCK: usize = 64 << 10;

/// A graph, placed on ranks.
#[derive(Debug)]
pub struct Graph {
    pub n_ranks: usize,
    pub tasks: Vec<Task>,
    successors: Vec<Vec<usize>>,
    values: Vec<u64>,
    /// A task whose body fails, and whether that stops the run.
    pub fails: Option<(usize, bool)>,
}

#[derive(Debug)]
pub struct Task {
    pub owner: Rank,
    pub inputs: Vec<usize>,
    /// Payload of each flow; `None` carries nothing.
    pub sizes: Vec<Option<usize>>,
    pub seconds: f64,
    pub priority: i64,
}

impl Graph {
    pub fn new(n_ranks: usize, tasks: Vec<Task>) -> Arc<Self> {
        let mut successors = vec![Vec::new(); tasks.len()];
        let mut values = Vec::new();
        for (i, task) in tasks.iter().enumerate() {
            let inputs = task
                .inputs
                .iter()
                .inspect(|&&input| successors[input].push(i));
            let value = inputs.fold(mix(i as u64), |value, &input| mix(value ^ values[input]));
            values.push(value);
        }
        Arc::new(Graph {
            n_ranks,
            tasks,
            successors,
            values,
            fails: None,
        })
    }

    /// Layers of random width, inputs from the last layers, sizes around the limits.
    pub fn random(seed: u64, n_ranks: usize, n_tasks: usize) -> Arc<Self> {
        let mut random = Random(seed);
        let sizes = [0, 1, 8, 63, 64, 200, 4095, 4096, 4097, 9000, 70_000];
        let task = |i: usize| {
            let n_inputs = random.below(4).min(i);
            let inputs: BTreeSet<usize> = (0..n_inputs)
                .map(|_| i - 1 - random.below(i.min(40)))
                .collect();
            Task {
                owner: Rank(random.below(n_ranks) as u32),
                inputs: inputs.into_iter().collect(),
                sizes: (0..1 + random.below(MAX_FLOWS))
                    .map(|_| (random.below(5) > 0).then(|| sizes[random.below(11)]))
                    .collect(),
                seconds: [0.0, 1e-6, 1e-4][random.below(3)],
                priority: random.below(10) as i64,
            }
        };
        Graph::new(n_ranks, (0..n_tasks).map(task).collect())
    }

    /// Many tasks of the other ranks, of so many seconds each, feed one task of rank 0 each.
    pub fn flood(n_ranks: usize, n_tasks: usize, size: Option<usize>, seconds: f64) -> Arc<Self> {
        let task = |i: usize| {
            let feeds = i.is_multiple_of(2);
            let owner = if feeds {
                1 + (i / 2) % (n_ranks - 1)
            } else {
                0
            };
            Task {
                owner: Rank(owner as u32),
                inputs: if feeds { vec![] } else { vec![i - 1] },
                sizes: vec![size],
                seconds: if feeds { seconds } else { 0.0 },
                priority: 0,
            }
        };
        Graph::new(n_ranks, (0..2 * n_tasks).map(task).collect())
    }

    /// The ranks that get a task's outputs, ascending, without its owner.
    pub fn receivers(&self, task: usize) -> Vec<Rank> {
        let owner = self.tasks[task].owner;
        let ranks = self.successors[task]
            .iter()
            .map(|&next| self.tasks[next].owner);
        let ranks: BTreeSet<Rank> = ranks.filter(|rank| *rank != owner).collect();
        ranks.into_iter().collect()
    }

    /// The tasks that read a task's outputs.
    pub fn readers(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        self.successors[task].iter().copied()
    }

    /// Data and bytes that must cross ranks.
    pub fn crossing(&self) -> (u64, u64) {
        let mut crossing = (0, 0);
        for (i, task) in self.tasks.iter().enumerate() {
            let receivers = self.receivers(i).len() as u64;
            crossing.0 += receivers * task.sizes.iter().flatten().count() as u64;
            crossing.1 += receivers * task.sizes.iter().flatten().sum::<usize>() as u64;
        }
        crossing
    }

    /// The source forgets that it feeds the target.
    pub fn forget_edge(&mut self, source: usize, target: usize) {
        self.successors[source].retain(|&next| next != target);
    }

    fn payload(&self, task: usize, flow: usize, size: usize) -> Vec<u8> {
        let seed = self.values[task] ^ flow as u64;
        let hashed = if size > LARGE { BLOCK } else { size };
        let mut bytes = Vec::with_capacity(size.next_multiple_of(8));
        for word in 0..hashed.div_ceil(8) as u64 {
            bytes.extend_from_slice(&mix(seed ^ word).to_le_bytes());
        }
        bytes.truncate(hashed);
        while bytes.len() < size {
            let at = bytes.len();
            bytes.extend_from_within(..BLOCK.min(size - at));
            let number = mix(seed ^ at as u64).to_le_bytes();
            let n_stamped = number.len().min(size - at);
            bytes[at..at + n_stamped].copy_from_slice(&number[..n_stamped]);
        }
        bytes
    }
}

struct Bytes(Vec<u8>, u8);

impl Cargo for Bytes {
    fn head(&self) -> SmallVec<[u8; 32]> {
        smallvec![self.1, 0xda]
    }
    fn size(&self) -> usize {
        self.0.len()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        match self.0.len() % 2 {
            0 => Cow::Borrowed(&self.0),
            _ => Cow::Owned(self.0.clone()),
        }
    }
}

/// One rank's run.
struct Engine {
    graph: Arc<Graph>,
    rank: Rank,
    count: u64,
    state: Mutex<State>,
    bell: Arc<dyn Bell>,
}

#[derive(Default)]
struct State {
    mail: Vec<(Rank, Arrival)>,
    executed: u64,
    used: u64,
    idle: bool,
    stopped: Option<Failure>,
    stalled: bool,
}

impl Inbox for Engine {
    fn deliver(&self, from: Rank, arrival: Arrival) {
        self.state.lock().unwrap().mail.push((from, arrival));
        self.bell.ring();
    }

    fn pulse(&self) -> Pulse {
        let state = self.state.lock().unwrap();
        Pulse {
            executed: state.executed,
            count: self.count,
            idle: state.idle && state.mail.is_empty(),
            used: state.used,
        }
    }

    fn stop(&self, failure: Failure) {
        self.state.lock().unwrap().stopped.get_or_insert(failure);
        self.bell.ring();
    }

    fn stall(&self) {
        self.state.lock().unwrap().stalled = true;
        self.bell.ring();
    }
}

/// How a rank's run ended.
#[derive(Clone, Debug)]
pub struct End {
    /// What `open` or `close` said.
    pub result: Result<Option<Failure>, (String, String)>,
    /// Whether all of this rank's tasks ran.
    pub complete: bool,
    /// Whether the inbox was told of a stall.
    pub stalled: bool,
    /// When this rank had run its tasks.
    pub worked: Duration,
}

impl End {
    pub fn is_good(&self) -> bool {
        self.result == Ok(None) && self.complete
    }

    /// How a run of the core's engine ended, of which this rank had so many tasks.
    pub fn of_report(report: Result<Report, Error>, own: u64, worked: Duration) -> Self {
        match report {
            Ok(report) => End {
                result: Ok(None),
                complete: report.tasks == own,
                stalled: false,
                worked,
            },
            Err(error) => End {
                worked,
                ..End::of(error)
            },
        }
    }

    fn of(error: Error) -> Self {
        let kind = format!("{:?}", error.kind());
        End {
            result: Err((kind, error.message().to_string())),
            complete: false,
            stalled: false,
            worked: Duration::ZERO,
        }
    }
}

pub fn failure(rank: Rank, kind: &str, task: usize, of_body: bool) -> Failure {
    Failure {
        of_body,
        index: task as u64,
        name: smallvec![task as u32],
        rank,
        kind: kind.into(),
        task: format!("Task({task})"),
        message: "it failed".into(),
    }
}

/// Runs a rank's part of a graph.
pub fn run(graph: &Arc<Graph>, messenger: &Messenger, host: &dyn Host) -> End {
    let terms = Terms {
        settings: vec![("tasks".into(), graph.tasks.len().to_string())],
    };
    run_on(graph, messenger, host, &terms)
}

pub fn run_on(graph: &Arc<Graph>, messenger: &Messenger, host: &dyn Host, terms: &Terms) -> End {
    let rank = messenger.rank();
    let own = graph.tasks.iter().filter(|task| task.owner == rank);
    let engine = Arc::new(Engine {
        graph: graph.clone(),
        rank,
        count: own.count() as u64,
        state: Mutex::default(),
        bell: host.bell(),
    });
    let line = match messenger.open(terms, engine.clone()) {
        Ok(line) => line,
        Err(error) => return End::of(error),
    };
    let own = engine.work(&*line);
    let worked = host.now();
    let state = engine.state.lock().unwrap();
    let (complete, stalled) = (state.executed == engine.count, state.stalled);
    drop(state);
    let own = own.or_else(|| stalled.then(|| failure(rank, "stalled", usize::MAX >> 1, false)));
    match line.close(own) {
        Ok(failure) => End {
            result: Ok(failure),
            complete,
            stalled,
            worked,
        },
        Err(error) => End {
            stalled,
            worked,
            ..End::of(error)
        },
    }
}

impl Engine {
    /// Runs tasks until all have run or the run stops; says how this rank failed.
    fn work(&self, line: &dyn Line) -> Option<Failure> {
        let tasks = &self.graph.tasks;
        let mut missing: Vec<usize> = tasks.iter().map(|task| task.inputs.len()).collect();
        let mut seen = BTreeSet::new();
        let mut ready: Vec<usize> = (0..tasks.len())
            .filter(|&i| missing[i] == 0 && tasks[i].owner == self.rank)
            .collect();
        let mut own = None;
        loop {
            let mut state = self.state.lock().unwrap();
            let mail = std::mem::take(&mut state.mail);
            if state.stopped.is_some() || state.stalled {
                return own;
            }
            let done = state.executed == self.count;
            state.idle = mail.is_empty() && ready.is_empty() && !done;
            let idle = state.idle;
            drop(state);
            for (from, arrival) in mail {
                let goods = arrival.flows.iter().flat_map(|(_, goods)| goods);
                let bytes: usize = goods.map(|goods| goods.body.bytes().len()).sum();
                self.state.lock().unwrap().used += bytes as u64;
                let task = self.take_in(from, arrival);
                assert!(seen.insert(task), "task {task} came twice to {}", self.rank);
                self.feed(task, &mut missing, &mut ready);
            }
            if let Some(task) = ready.pop() {
                spend(Duration::from_secs_f64(tasks[task].seconds));
                let poisoned = self.graph.fails.is_some_and(|(fails, _)| fails == task);
                if let Some((_, stops)) = self.graph.fails.filter(|_| poisoned) {
                    let failure = failure(self.rank, "broken_pivot", task, !stops);
                    if stops {
                        line.abort(&failure);
                        return Some(failure);
                    }
                    own = Some(failure);
                }
                self.send(task, line);
                self.feed(task, &mut missing, &mut ready);
                self.state.lock().unwrap().executed += 1;
                line.poll();
            } else if done {
                return own;
            } else if idle {
                line.lingers(false, &mut None);
                self.bell.wait(None);
                self.state.lock().unwrap().idle = false;
            }
        }
    }

    fn feed(&self, task: usize, missing: &mut [usize], ready: &mut Vec<usize>) {
        for &next in &self.graph.successors[task] {
            if self.graph.tasks[next].owner == self.rank {
                missing[next] -= 1;
                if missing[next] == 0 {
                    ready.push(next);
                }
            }
        }
    }

    fn send(&self, task: usize, line: &dyn Line) {
        let sizes = self.graph.tasks[task].sizes.iter().enumerate();
        let cargo = |(flow, size): (usize, &Option<usize>)| {
            let cargo = size.map(|size| {
                Arc::new(Bytes(self.graph.payload(task, flow, size), flow as u8)) as Arc<dyn Cargo>
            });
            (flow as u16, cargo)
        };
        let to: SmallVec<[Rank; 8]> = self.graph.receivers(task).into();
        if !to.is_empty() {
            line.post(Parcel {
                to,
                task: smallvec![task as u32],
                poisoned: false,
                priority: self.graph.tasks[task].priority,
                flows: sizes.map(cargo).collect(),
            });
        }
    }

    /// Checks what has arrived.
    fn take_in(&self, from: Rank, arrival: Arrival) -> usize {
        let task = arrival.task[0] as usize;
        let sizes = &self.graph.tasks[task].sizes;
        assert_eq!(arrival.flows.len(), sizes.len());
        for (flow, goods) in arrival.flows {
            let expected =
                sizes[flow as usize].map(|size| self.graph.payload(task, flow as usize, size));
            assert_eq!(goods.is_some(), expected.is_some());
            let Some((goods, expected)) = goods.zip(expected) else {
                continue;
            };
            assert_eq!(goods.head[..], [flow as u8, 0xda]);
            assert!(
                goods.body.bytes() == expected,
                "task {task} from {from} to {}: wrong bytes",
                self.rank
            );
        }
        task
    }
}

/// Runs `body` on each rank of a simulated world, with a messenger of its own.
pub fn on_ranks<R: Send + 'static>(
    weather: Weather,
    n_ranks: usize,
    settings: &Settings,
    body: impl Fn(Messenger, Arc<dyn Host>) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let story = in_world(weather, n_ranks, settings, move |messenger, world| {
        let host = world.host(messenger.rank());
        body(messenger, host)
    });
    story.unwrap_or_else(|hung| panic!("{hung}")).told
}
