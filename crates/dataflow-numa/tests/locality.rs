//! Tasks go where their data lie: on made-up machines of several NUMA nodes, whose data remember
//! the node of the worker that made them.

mod machine;

use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::{run, task_names};
use dataflow_numa::policy::{Crew, Hint, Ready, ReadyQueue, Scheduler};
use dataflow_numa::{Bind, Policy, Topology, Workers};
use machine::{in_a_row, workers};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// So many bytes on a NUMA node.
#[derive(Clone, Debug)]
struct Piece {
    numa_node: usize,
    bytes: usize,
}

impl Datum for Piece {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn numa_node(&self) -> Option<usize> {
        Some(self.numa_node)
    }
}

task_names! { enum Task { Make { i }, Join { i }, Change { i } } }

/// Make(i) makes a piece of `bytes(i)`; Join(i) reads those of i and i + 1; Change(i) updates a
/// piece from home.
struct Pieces {
    n: u32,
    homes: Store<Piece>,
    /// Who ran where.
    ran: Mutex<Vec<(Task, usize)>>,
    topology: Topology,
}

/// What every body takes at least.
const NAP: Duration = Duration::from_micros(20);
const PIECE: usize = 0;
const OTHER: usize = 1;

impl Pieces {
    /// Piece `h` of those at home lies on node `homes[h]`.
    fn new(topology: &Topology, n: u32, homes: &[usize]) -> Self {
        let home = |&numa_node: &usize| Piece {
            numa_node,
            bytes: 50,
        };
        Pieces {
            n,
            homes: Store::new("homes", homes.iter().map(home)),
            ran: Mutex::default(),
            topology: topology.clone(),
        }
    }

    /// The second of two neighbours is always the larger, except at the end of four.
    fn bytes(i: u32) -> usize {
        [100, 200, 400, 800][i as usize % 4]
    }

    /// The NUMA node of the worker that runs this thread.
    fn here(&self) -> usize {
        let thread = std::thread::current();
        let worker = thread.name().unwrap().strip_prefix("dataflow-").unwrap();
        let worker: usize = worker.parse().unwrap();
        self.topology.cores()[worker].numa_node
    }

    fn ran_on(&self, task: Task) -> usize {
        let ran = self.ran.lock().unwrap();
        ran.iter().find(|(other, _)| *other == task).unwrap().1
    }
}

impl TaskSpace for Pieces {
    type Task = Task;
    type Datum = Piece;

    fn describe(&self, about: &mut Description) {
        about.name("pieces").parameter("n", self.n);
        about.class("Make").new_flow("PIECE");
        about.class("Join").read("PIECE").read("OTHER");
        about.class("Change").update("PIECE");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Task> + Send {
        let makes = (0..self.n).map(|i| Task::Make { i });
        let joins = (1..self.n).map(|i| Task::Join { i: i - 1 });
        let changes = (0..self.homes.len() as u32).map(|i| Task::Change { i });
        makes.chain(joins).chain(changes)
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        match task {
            Task::Make { .. } => {}
            Task::Join { i } => {
                from.task(PIECE, Task::Make { i }, PIECE);
                from.task(OTHER, Task::Make { i: i + 1 }, PIECE);
            }
            Task::Change { i } => from.home(PIECE, &self.homes, i as usize),
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        match task {
            Task::Make { i } => {
                if i + 1 < self.n {
                    to.task(PIECE, Task::Join { i }, PIECE);
                }
                if i > 0 {
                    to.task(PIECE, Task::Join { i: i - 1 }, OTHER);
                }
            }
            Task::Join { .. } => {}
            Task::Change { i } => to.home(PIECE, &self.homes, i as usize),
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Piece>) -> Result<(), TaskError> {
        let numa_node = self.here();
        self.ran.lock().unwrap().push((task, numa_node));
        std::thread::sleep(NAP);
        if let Task::Make { i } = task {
            let [piece] = flows.slots();
            let bytes = Self::bytes(i);
            piece.put(Piece { numa_node, bytes });
        }
        Ok(())
    }
}

#[test]
fn the_space_is_proved() {
    verify(&Pieces::new(&in_a_row("proved", &[1]), 9, &[0, 0]), 1).unwrap();
}

/// Nobody steals, so tasks run where they were placed: what keeps, too.
#[test]
fn what_makes_data_goes_round_robin_and_what_reads_them_goes_to_most_of_the_bytes() {
    let topology = in_a_row("placed", &[1, 2, 0, 1]);
    for policy in [
        "distance-no-steal",
        "distance-no-steal,keep=0",
        "distance-no-steal,keep=3",
        "priority,own",
        "fifo,own",
        "lifo,own,keep=2",
    ] {
        let workers = workers(&topology, policy);
        let homes = [3, 0, 1, 2, 3, 3];
        let pieces = Pieces::new(&topology, 60, &homes);
        let report = run(&pieces, &workers).unwrap();
        assert_eq!(report.copies(), 0, "a look at home shares nothing");

        let makes = |node| {
            let ran = pieces.ran.lock().unwrap();
            let here = ran
                .iter()
                .filter(|(task, at)| matches!(task, Task::Make { .. }) && *at == node);
            here.count()
        };
        assert_eq!([0, 1, 3].map(makes), [20, 20, 20], "{policy}");
        let (mut local, mut all) = (0, 0);
        for i in 0..59 {
            let [one, other] = [i, i + 1].map(|i| pieces.ran_on(Task::Make { i }));
            let most = if i % 4 == 3 { one } else { other };
            assert_eq!(pieces.ran_on(Task::Join { i }), most, "{policy}: {i}");
            for (node, i) in [(one, i), (other, i + 1)] {
                all += Pieces::bytes(i);
                local += if node == most { Pieces::bytes(i) } else { 0 };
            }
        }
        for (i, &home) in homes.iter().enumerate() {
            // Node 2 has no workers; node 1 is as near as node 3 and stands in.
            let node = if home == 2 { 1 } else { home };
            assert_eq!(pieces.ran_on(Task::Change { i: i as u32 }), node);
            all += 50;
            local += if node == home { 50 } else { 0 };
        }
        assert_eq!(report.local_bytes, local as u64, "{policy}");
        assert_eq!(report.remote_bytes, (all - local) as u64, "{policy}");
        let total = workers.statistics();
        assert_eq!((total.local_bytes, total.tasks), (local as u64, 125));
        assert_eq!(total.local_share(), report.local_share());
        for worker in workers.statistics_by_worker() {
            assert!(
                worker.tasks > 0 || worker.numa_node == 1,
                "{policy}: {worker:?}"
            );
        }
    }
}

/// Under other policies it is open who runs what, but not what was read.
#[test]
fn bytes_are_counted_under_every_policy_by_where_they_were_read() {
    let topology = in_a_row("counted", &[1, 1, 1]);
    for policy in [
        "distance",
        "distance,adjacent",
        "oblivious",
        "lifo",
        "distance,keep=4",
    ] {
        let workers = workers(&topology, policy);
        let pieces = Pieces::new(&topology, 200, &[]);
        let report = run(&pieces, &workers).unwrap();
        let local = |i: u32| {
            let here = pieces.ran_on(Task::Join { i });
            let there = [i, i + 1].into_iter();
            let near = there.filter(|&i| pieces.ran_on(Task::Make { i }) == here);
            near.map(Pieces::bytes).sum::<usize>()
        };
        let expected: usize = (0..199).map(local).sum();
        assert_eq!(report.local_bytes, expected as u64, "{policy}");
        let all: usize = (0..199)
            .map(|i| Pieces::bytes(i) + Pieces::bytes(i + 1))
            .sum();
        assert_eq!(report.local_bytes + report.remote_bytes, all as u64);
        assert_eq!(workers.statistics().remote_bytes, report.remote_bytes);
    }
}

#[test]
fn on_one_numa_node_nothing_is_counted_and_everything_is_local() {
    let topology = in_a_row("one", &[2]);
    let workers = workers(&topology, "distance");
    let report = run(&Pieces::new(&topology, 20, &[0]), &workers).unwrap();
    assert!(workers.is_uniform());
    assert_eq!((report.local_bytes, report.remote_bytes), (0, 0));
    assert_eq!(report.local_share(), Some(1.0));
    assert_eq!(workers.statistics().local_share(), None);
}

/// Notes what it learns, and hands out the newest.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<Learnt>>);

#[derive(Debug, Default)]
struct Learnt {
    waiting: Vec<Ready>,
    pushed: Vec<Ready>,
    /// Class and seconds.
    measured: Vec<(usize, f64)>,
}

impl Scheduler for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
        Box::new(self.clone())
    }
}

impl ReadyQueue for Notes {
    fn push(&self, _: usize, task: Ready) {
        let mut notes = self.0.lock().unwrap();
        notes.waiting.push(task);
        notes.pushed.push(task);
    }

    fn take(&self, _: usize) -> Option<Ready> {
        self.0.lock().unwrap().waiting.pop()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().waiting.is_empty()
    }

    /// Everything goes through the queue.
    fn outranks(&self, _: usize, _: i64) -> bool {
        true
    }

    /// Roots that make data, too.
    fn goes_elsewhere(&self, _: usize, hint: Hint) -> bool {
        hint == Hint::Initialises
    }

    fn measured(&self, _: usize, class: usize, seconds: f64) {
        self.0.lock().unwrap().measured.push((class, seconds));
    }
}

/// Make(i) makes a number, which never knows where it lies; Join(i) reads it and makes another.
struct Numbers(u32);

impl TaskSpace for Numbers {
    type Task = Task;
    type Datum = f64;

    fn describe(&self, about: &mut Description) {
        about.name("numbers").parameter("n", self.0);
        about.class("Make").new_flow("NUMBER");
        about.class("Join").read("NUMBER").new_flow("OTHER");
        about.class("Change");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Task> + Send {
        let joins = (0..self.0).map(|i| Task::Join { i });
        (0..self.0).map(|i| Task::Make { i }).chain(joins)
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        if let Task::Join { i } = task {
            from.task(0, Task::Make { i }, 0);
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        if let Task::Make { i } = task {
            to.task(0, Task::Join { i }, 0);
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, f64>) -> Result<(), TaskError> {
        if let Task::Make { .. } = task {
            let [number] = flows.slots();
            number.put(1.0);
        }
        Ok(())
    }
}

/// It went to another node each time, through a queue that all share.
#[test]
fn what_reads_data_that_do_not_know_where_they_lie_initialises_nothing() {
    let notes = Notes::default();
    let policy = Policy::custom(Arc::new(notes.clone()));
    let builder = Workers::builder().topology(in_a_row("unknown", &[1, 1]));
    let workers = builder.bind(Bind::None).policy(policy).build().unwrap();
    run(&Numbers(20), &workers).unwrap();
    let pushed = std::mem::take(&mut notes.0.lock().unwrap().pushed);
    let count = |class, hint| {
        let told = |ready: &&Ready| (ready.class, ready.hint) == (Some(class), hint);
        pushed.iter().filter(told).count()
    };
    assert_eq!(count(0, Hint::Initialises), 20);
    assert_eq!(count(1, Hint::None), 20);
}

#[test]
fn a_scheduler_of_the_users_own_learns_class_hint_and_seconds() {
    let topology = in_a_row("learns", &[1, 1]);
    let notes = Notes::default();
    let builder = Workers::builder()
        .topology(topology.clone())
        .bind(Bind::None);
    let policy = Policy::custom(Arc::new(notes.clone()));
    let workers = builder.policy(policy).build().unwrap();
    let pieces = Pieces::new(&topology, 40, &[1]);
    run(&pieces, &workers).unwrap();
    let Learnt {
        pushed, measured, ..
    } = std::mem::take(&mut *notes.0.lock().unwrap());
    let count = |class, hint| {
        let told = |ready: &&Ready| (ready.class, ready.hint) == (Some(class), hint);
        pushed.iter().filter(told).count()
    };
    assert_eq!(count(0, Hint::Initialises), 40);
    for node in 0..2 {
        let most = |i: u32| {
            pieces.ran_on(Task::Make {
                i: if i % 4 == 3 { i } else { i + 1 },
            })
        };
        let there = (0..39).filter(|&i| most(i) == node).count();
        assert_eq!(count(1, Hint::Node(node)), there);
    }
    assert_eq!(
        pushed.len(),
        79,
        "a root whose data lie somewhere stays in hand"
    );
    let classes = |class| measured.iter().filter(|(other, _)| *other == class).count();
    assert_eq!([0, 1, 2].map(classes), [40, 39, 1]);
    assert!(
        measured
            .iter()
            .all(|&(_, seconds)| seconds >= NAP.as_secs_f64())
    );
}
