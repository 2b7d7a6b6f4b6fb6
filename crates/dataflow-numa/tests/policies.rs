//! Policies on a real pool, on made-up machines of several NUMA nodes: every task runs once and in
//! order, nobody steals from beyond its reach, and nobody sleeps beside a task it may take.

mod fan;
mod machine;

use dataflow_core::port::Context;
use dataflow_core::prelude::*;
use dataflow_core::sequence::scope;
use dataflow_core::space::Independent;
use dataflow_core::trace::{Trace, Tracer};
use dataflow_core::{Kind, run, run_inside};
use dataflow_numa::policy::{Crew, Ready, ReadyQueue, Scheduler};
use dataflow_numa::simulate::{Costs, SimulateError, Ties, simulate};
use dataflow_numa::{Bind, Policy, Topology, Workers};
use fan::Fan;
use machine::{in_a_row, workers};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

const POLICIES: [&str; 14] = [
    "distance",
    "distance,adjacent",
    "distance,patience=5",
    "distance,keep=0",
    "distance,keep=4",
    "distance,adjacent,patience=3,keep=2",
    "distance-no-steal",
    "oblivious",
    "priority",
    "priority,own",
    "fifo",
    "fifo,adjacent,patience=2",
    "lifo",
    "lifo,own,keep=3",
];

/// Cell (i, j) of a square waits for its upper and left neighbours.
struct Wavefront {
    side: u64,
    priority: fn(u64) -> i64,
    runs: Vec<AtomicU64>,
}

impl TaskSpace for Wavefront {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("wavefront").parameter("side", self.side);
        about.class("Cell").order("UP").order("LEFT");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.side * self.side
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task >= self.side {
            from.task(0, task - self.side, 0);
        }
        if !task.is_multiple_of(self.side) {
            from.task(1, task - 1, 1);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task + self.side < self.side * self.side {
            to.task(0, task + self.side, 0);
        }
        if !(task + 1).is_multiple_of(self.side) {
            to.task(1, task + 1, 1);
        }
    }

    fn priority(&self, task: u64) -> i64 {
        (self.priority)(task)
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        let runs = |task: u64| self.runs[task as usize].load(Ordering::Relaxed);
        let before = runs(task);
        if task >= self.side && runs(task - self.side) <= before {
            return Err("ran before its upper neighbour".into());
        }
        if !task.is_multiple_of(self.side) && runs(task - 1) <= before {
            return Err("ran before its left neighbour".into());
        }
        self.runs[task as usize].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Bodies wait for what runs inside of them while other workers take tasks of it, or begin their own.
#[test]
fn under_every_policy_spaces_run_in_the_bodies_of_others_to_their_ends() {
    for cores in [&[1][..], &[2, 2], &[1, 0, 2, 1]] {
        let topology = in_a_row("inside", cores);
        for policy in POLICIES {
            let workers = workers(&topology, policy);
            let innermost = |_| {
                let space = Wavefront {
                    side: 6,
                    priority: |task| task as i64 % 7 - 3,
                    runs: (0..36).map(|_| AtomicU64::new(0)).collect(),
                };
                assert_eq!(run_inside(&space, &workers)?.tasks, 36, "{policy}");
                Ok(())
            };
            let between = |_| {
                let between = Independent::new("between", 5, innermost);
                assert_eq!(run_inside(&between, &workers)?.tasks, 5, "{policy}");
                Ok(())
            };
            let outer = Independent::new("outer", 20, between);
            for _ in 0..5 {
                assert_eq!(run(&outer, &workers).unwrap().tasks, 20, "{policy}");
            }
        }
    }
}

#[test]
fn under_every_policy_every_task_runs_once_and_in_order() {
    let priorities: [fn(u64) -> i64; 3] =
        [|_| 0, |task| task as i64 % 7 - 3, |task| -(task as i64)];
    for cores in [&[1][..], &[2, 2], &[1, 0, 2, 1]] {
        let topology = in_a_row("once", cores);
        for policy in POLICIES {
            let workers = workers(&topology, policy);
            assert_eq!(workers.policy().to_string(), policy);
            for priority in priorities {
                let space = Wavefront {
                    side: 30,
                    priority,
                    runs: (0..900).map(|_| AtomicU64::new(0)).collect(),
                };
                for _ in 0..3 {
                    assert_eq!(run(&space, &workers).unwrap().tasks, 900, "{policy}");
                }
                let thrice = |runs: &AtomicU64| runs.load(Ordering::Relaxed) == 3;
                assert!(space.runs.iter().all(thrice), "{policy}");
            }
        }
    }
}

/// The order in which one worker runs the leaves.
fn order(policy: &str) -> Vec<u64> {
    let seen = Mutex::new(Vec::new());
    let space = Fan {
        wide: 9,
        priority: |task| [0, 3, -1, 0, 7, 3, 0, -5, 2, 9][task as usize],
        body: |task| seen.lock().unwrap().push(task),
    };
    run(&space, &workers(&in_a_row("order", &[1]), policy)).unwrap();
    seen.into_inner().unwrap().split_off(1)
}

/// Task t frees 2t + 1 and 2t + 2.
struct Tree<'a>(&'a Mutex<Vec<u64>>);

/// No two tasks of the tree are equally urgent.
fn urgency(task: u64) -> i64 {
    (task * 7 % 31) as i64 - 15
}

impl TaskSpace for Tree<'_> {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("tree").class("Node").order("PARENT");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..31
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 0 {
            from.task(0, (task - 1) / 2, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        let children = [2 * task + 1, 2 * task + 2].into_iter();
        children
            .filter(|&child| child < 31)
            .for_each(|child| to.task(0, child, 0));
    }

    fn priority(&self, task: u64) -> i64 {
        urgency(task)
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        self.0.lock().unwrap().push(task);
        Ok(())
    }
}

#[test]
fn fifo_goes_level_by_level_and_lifo_to_the_leaves_first() {
    let order = |policy| {
        let seen = Mutex::new(Vec::new());
        run(&Tree(&seen), &workers(&in_a_row("tree", &[1]), policy)).unwrap();
        seen.into_inner().unwrap()
    };
    let level = |task: &u64| (task + 1).ilog2();
    assert!(order("fifo").is_sorted_by_key(level));
    let lifo = order("lifo");
    for pair in lifo.windows(2).filter(|pair| pair[0] < 15) {
        assert_eq!((pair[1] - 1) / 2, pair[0], "a child comes next: {lifo:?}");
    }
}

#[test]
fn one_worker_always_runs_the_most_urgent_of_what_is_ready() {
    let mut expected = Vec::new();
    let mut ready = vec![0];
    while let Some(at) = (0..ready.len()).max_by_key(|&at| urgency(ready[at])) {
        let task = ready.swap_remove(at);
        expected.push(task);
        ready.extend(
            [2 * task + 1, 2 * task + 2]
                .into_iter()
                .filter(|&child| child < 31),
        );
    }
    for policy in [
        "distance",
        "distance,keep=0",
        "distance-no-steal",
        "oblivious",
        "priority",
    ] {
        let seen = Mutex::new(Vec::new());
        run(&Tree(&seen), &workers(&in_a_row("urgent", &[1]), policy)).unwrap();
        assert_eq!(seen.into_inner().unwrap(), expected, "{policy}");
    }
}

#[test]
fn one_worker_takes_the_most_urgent_first() {
    let priorities = |policy| -> Vec<i64> {
        let of = |task| [0, 3, -1, 0, 7, 3, 0, -5, 2, 9][task as usize];
        order(policy).into_iter().map(of).collect()
    };
    for policy in [
        "distance",
        "distance-no-steal",
        "oblivious",
        "priority",
        "distance,keep=0",
        "distance,keep=4",
    ] {
        assert_eq!(
            priorities(policy),
            [9, 7, 3, 3, 2, 0, 0, -1, -5],
            "{policy}"
        );
    }
}

#[test]
fn nobody_steals_from_beyond_its_reach() {
    let topology = in_a_row("reach", &[1, 1, 1, 1]);
    let policies = [
        ("distance", 40),
        ("distance,adjacent", 20),
        ("distance-no-steal", 10),
        ("priority,adjacent", 20),
        ("fifo,adjacent", 20),
        ("lifo,own", 10),
    ];
    for (policy, farthest) in policies {
        let workers = workers(&topology, policy);
        let mut steals = 0;
        for round in 0..200 {
            let space = Fan {
                wide: 40,
                priority: |task| task as i64 % 3,
                body: |_| std::thread::sleep(Duration::from_micros(20)),
            };
            run(&space, &workers).unwrap();
            steals = workers.statistics().steals;
            if round >= 5 && (steals >= 100 || farthest == 10) {
                break;
            }
        }
        assert!(steals >= 100 || farthest == 10, "{policy}: {steals} steals");
        for worker in workers.statistics_by_worker() {
            for (distance, steals) in worker.steals_by_distance() {
                assert!(
                    distance <= farthest,
                    "{policy}: {steals} from {distance} to {}",
                    worker.worker
                );
            }
        }
    }
}

/// What a run on the workers leaves.
fn recorded(space: &impl TaskSpace, workers: &Workers) -> Trace {
    let tracer = Tracer::new(1 << 20);
    run(space, &Context::new(workers).traced_by(&tracer)).unwrap();
    tracer.take().remove(0)
}

#[test]
fn what_is_taken_from_elsewhere_is_marked_in_the_trace_under_every_policy() {
    let topology = in_a_row("marked", &[2, 2]);
    for policy in POLICIES {
        let workers = workers(&topology, policy);
        for _ in 0..3 {
            let before = workers.statistics().steals;
            let space = Wavefront {
                side: 20,
                priority: |task| task as i64 % 7 - 3,
                runs: (0..400).map(|_| AtomicU64::new(0)).collect(),
            };
            let trace = recorded(&space, &workers);
            let steals = workers.statistics().steals - before;
            let marked = trace.slices().filter(|(_, slice)| slice.stolen).count() as u64;
            // Of several tasks that are taken at once the one that runs first is marked.
            let is_right = marked <= steals && (marked > 0) == (steals > 0);
            assert!(is_right, "{policy}: {marked} of {steals}");
        }
    }
}

/// Each root frees two tasks: 0 the urgent 2 and 3, 1 the others.
struct Twins<B>(B);

impl<B: Fn(u64) + Sync> TaskSpace for Twins<B> {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("twins").class("Task").order("ROOT");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..6
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 1 {
            from.task(0, task / 2 - 1, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task < 2 {
            (2 * task + 2..2 * task + 4).for_each(|twin| to.task(0, twin, 0));
        }
    }

    fn priority(&self, task: u64) -> i64 {
        [0, 0, 9, 8, 2, 1][task as usize]
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        (self.0)(task);
        Ok(())
    }
}

/// In traces a task was not stolen that a worker had taken before less urgent ones of its own.
///
/// one worker: 0 ─ 2, until 5 has begun          the other: 1, until 2 has begun ─ 4 ─ 3 ─ 5
#[test]
fn help_for_a_neighbour_is_marked_in_the_trace() {
    let began: [AtomicBool; 6] = Default::default();
    let wait_for = |task: usize| {
        while !began[task].load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_micros(50));
        }
    };
    let space = Twins(|task: u64| {
        began[task as usize].store(true, Ordering::Release);
        match task {
            0 => wait_for(1),
            1 => wait_for(2),
            2 => wait_for(5),
            _ => {}
        }
    });
    let trace = recorded(&space, &workers(&in_a_row("help", &[2]), "distance"));
    let worker_of_5 = trace
        .slices()
        .find(|(_, slice)| slice.task == 5)
        .unwrap()
        .1
        .worker;
    let ran: Vec<(u64, bool)> = trace
        .slices()
        .filter(|(_, slice)| slice.worker == worker_of_5)
        .map(|(_, slice)| (slice.task, slice.stolen))
        .collect();
    assert_eq!(ran, [(1, false), (4, false), (3, true), (5, false)]);
}

/// Each leaf waits for the others, so all workers of the NUMA node are needed; those of the other
/// are asleep too, and waking them instead would be in vain.
#[test]
fn who_may_take_a_task_is_woken_for_it() {
    let topology = in_a_row("woken", &[3, 3]);
    for policy in ["distance-no-steal", "priority,own", "fifo,own", "lifo,own"] {
        let workers = workers(&topology, policy);
        for _ in 0..30 {
            let all = Barrier::new(3);
            let space = Fan {
                wide: 3,
                priority: |_| 0,
                body: |task| match task {
                    0 => std::thread::sleep(Duration::from_millis(2)),
                    _ => {
                        all.wait();
                    }
                },
            };
            run(&space, &workers).unwrap();
        }
        assert!(workers.statistics().sleeps > 0);
    }
}

#[test]
fn sleepers_of_all_nodes_within_reach_are_woken() {
    let topology = in_a_row("reached", &[1, 1, 1]);
    for policy in [
        "distance",
        "distance,adjacent",
        "oblivious",
        "priority",
        "fifo,patience=3",
    ] {
        let workers = workers(&topology, policy);
        for _ in 0..30 {
            // From an end of the row only one neighbour may help.
            let needed = if policy.contains("adjacent") { 2 } else { 3 };
            let all = Barrier::new(needed);
            let space = Fan {
                wide: needed as u64,
                priority: |task| task as i64,
                body: |task| match task {
                    0 => std::thread::sleep(Duration::from_millis(2)),
                    _ => {
                        all.wait();
                    }
                },
            };
            run(&space, &workers).unwrap();
        }
    }
}

/// The least urgent first.
#[derive(Debug, Default)]
struct Backwards {
    opened: AtomicU64,
}

struct Pile(Mutex<Vec<Ready>>);

impl Scheduler for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn open(&self, crew: &Crew) -> Box<dyn ReadyQueue> {
        assert_eq!(crew.distance(0, crew.n_numa_nodes() - 1), 20);
        assert_eq!(crew.numa_node(crew.n_workers() - 1), 1);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Box::new(Pile(Mutex::default()))
    }
}

impl ReadyQueue for Pile {
    fn push(&self, _: usize, task: Ready) {
        let mut pile = self.0.lock().unwrap();
        pile.push(task);
        pile.sort_by_key(|task| -task.priority);
    }

    fn take(&self, _: usize) -> Option<Ready> {
        self.0.lock().unwrap().pop()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    fn outranks(&self, _: usize, priority: i64) -> bool {
        let pile = self.0.lock().unwrap();
        pile.last().is_some_and(|task| task.priority < priority)
    }
}

#[test]
fn a_scheduler_of_the_users_own_decides_the_order_and_loses_nothing() {
    let topology = in_a_row("custom", &[1, 1]);
    let scheduler = Arc::new(Backwards::default());
    let policy = Policy::custom(scheduler.clone());
    assert_eq!(policy.to_string(), "backwards");
    let crew = |n| {
        let builder = Workers::builder().topology(topology.clone());
        builder
            .n_workers(n)
            .bind(Bind::None)
            .policy(policy.clone())
            .build()
            .unwrap()
    };
    let done = AtomicU64::new(0);
    let job = Independent::new("any", 1000, |_| {
        done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let workers = crew(2);
    for _ in 0..20 {
        run(&job, &workers).unwrap();
    }
    assert_eq!(done.into_inner(), 20_000);

    let seen = Mutex::new(Vec::new());
    let space = Fan {
        wide: 9,
        priority: |task| task as i64,
        body: |task| {
            seen.lock().unwrap().push(task);
            std::thread::sleep(Duration::from_micros(200));
        },
    };
    run(&space, &workers).unwrap();
    let mut leaves = seen.into_inner().unwrap();
    assert_eq!(scheduler.opened.load(Ordering::Relaxed), 21, "jobs opened");
    assert_eq!(leaves.remove(0), 0);
    assert_ne!(leaves[0], 9, "the most urgent does not come first");
    leaves.sort_unstable();
    assert_eq!(leaves, (1..=9).collect::<Vec<_>>());
}

/// What a scheduler does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Loses,
    Doubles,
    LosesAndDoubles,
    HoldsBack,
    PanicsInPush,
    PanicsInTake,
    PanicsInIsEmpty,
    PanicsInOpen,
    PanicsInName,
}

/// Each with a part of what is said of it.
const FAULTS: [(Fault, &str); 9] = [
    (Fault::Loses, "lost 1 ready task:"),
    (Fault::Doubles, "handed out a task twice"),
    (Fault::LosesAndDoubles, ""),
    (Fault::HoldsBack, "holds 1 ready task back"),
    (Fault::PanicsInPush, "panicked in push: no room"),
    (Fault::PanicsInTake, "panicked in take: cannot choose"),
    (Fault::PanicsInIsEmpty, "panicked in is_empty: cannot count"),
    (Fault::PanicsInOpen, "panicked in open: no queues today"),
    (Fault::PanicsInName, "panicked in name: forgotten"),
];

/// One pile, with a fault at the seventh task.
#[derive(Debug)]
struct Faulty(Fault);

struct FaultyPile {
    fault: Fault,
    pile: Mutex<Vec<Ready>>,
    pushed: AtomicU64,
    taken: AtomicU64,
}

impl Scheduler for Faulty {
    fn name(&self) -> &str {
        assert!(self.0 != Fault::PanicsInName, "forgotten");
        "faulty"
    }

    fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
        assert!(self.0 != Fault::PanicsInOpen, "no queues today");
        Box::new(FaultyPile {
            fault: self.0,
            pile: Mutex::default(),
            pushed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        })
    }
}

impl ReadyQueue for FaultyPile {
    fn push(&self, _: usize, task: Ready) {
        let nth = 1 + self.pushed.fetch_add(1, Ordering::Relaxed);
        let times = match (self.fault, nth) {
            (Fault::Loses, 7) | (Fault::LosesAndDoubles, 6) => 0,
            (Fault::Doubles, 7) | (Fault::LosesAndDoubles, 7) => 2,
            (Fault::PanicsInPush, 7) => panic!("no room"),
            _ => 1,
        };
        let mut pile = self.pile.lock().unwrap();
        pile.extend(std::iter::repeat_n(task, times));
    }

    fn take(&self, _: usize) -> Option<Ready> {
        let mut pile = self.pile.lock().unwrap();
        match self.fault {
            Fault::HoldsBack if pile.len() == 1 => None,
            _ => {
                let task = pile.pop()?;
                drop(pile);
                // However many there are at a time: with two workers it may never be more than one.
                let nth = 1 + self.taken.fetch_add(1, Ordering::Relaxed);
                assert!(
                    self.fault != Fault::PanicsInTake || nth < 7,
                    "cannot choose"
                );
                Some(task)
            }
        }
    }

    fn is_empty(&self) -> bool {
        let pile = self.pile.lock().unwrap();
        let panics =
            self.fault == Fault::PanicsInIsEmpty && self.pushed.load(Ordering::Relaxed) > 6;
        let empty = pile.is_empty();
        drop(pile);
        assert!(!panics, "cannot count");
        empty
    }
}

/// A scheduler that lost a task made the run hang; one that doubled one hung with two workers, or
/// ran its body twice; one that did both ran as if all were well, with wrong results; one that
/// panicked in `is_empty` ended the process; one that panicked in `open` unwound through the run.
#[test]
fn a_scheduler_that_loses_doubles_or_panics_fails_the_run_by_its_name() {
    for n_workers in [1, 2] {
        for (fault, text) in FAULTS {
            let builder = Workers::builder().n_workers(n_workers).bind(Bind::None);
            let policy = Policy::custom(Arc::new(Faulty(fault)));
            let workers = builder.policy(policy).build().unwrap();
            let runs: Vec<_> = (0..=20).map(|_| AtomicU64::new(0)).collect();
            let space = Fan {
                wide: 20,
                priority: |_| 1,
                body: |task: u64| {
                    runs[task as usize].fetch_add(1, Ordering::Relaxed);
                },
            };
            match run(&space, &workers) {
                // Nobody may have asked before all was done.
                Ok(report) => assert_eq!((fault, report.tasks), (Fault::PanicsInIsEmpty, 21)),
                Err(error) => {
                    assert_eq!(error.kind(), Kind::SchedulerFailed, "{fault:?}: {error}");
                    let whole = error.to_string();
                    let name = if fault == Fault::PanicsInName {
                        "?"
                    } else {
                        "faulty"
                    };
                    let named = whole.starts_with(&format!("scheduler {name:?} "));
                    assert!(named && whole.contains(text), "{whole}");
                }
            }
            let twice = runs.iter().any(|n| n.load(Ordering::Relaxed) > 1);
            assert!(!twice, "{fault:?}: no body runs twice");
            // The same workers with another run: it has its own queues.
            let again = run(&space, &workers);
            assert!(again.is_err() || fault == Fault::PanicsInIsEmpty);
        }
    }
}

/// In virtual time it went round for ever, or left tasks out as if all were well.
#[test]
fn a_scheduler_that_loses_doubles_or_panics_fails_a_simulation_by_its_name() {
    let machine = Topology::made_of(&[2, 2], |from, to| 10 + 10 * from.abs_diff(to) as u32);
    let costs = Costs {
        classes: vec![1e-3; 2],
        initialise: 0.0,
        bytes: 0,
        remote_byte: 0.0,
        round: 1e-6,
        ties: Ties::First,
    };
    let space = Fan {
        wide: 20,
        priority: |_| 1,
        body: |_| (),
    };
    for n_workers in [1, 2, 4] {
        for (fault, text) in FAULTS {
            let policy = Policy::custom(Arc::new(Faulty(fault)));
            let places = Bind::Cores.places(&machine, n_workers);
            let run = simulate(&space, &machine, &places, &policy, &costs);
            match run {
                // One worker alone has no reason to ask.
                Ok(run) if n_workers == 1 => {
                    assert_eq!((fault, run.tasks), (Fault::PanicsInIsEmpty, 21));
                }
                Err(SimulateError::SchedulerFailed { what }) => {
                    let is_named = what.starts_with("scheduler ");
                    assert!(is_named && what.contains(text), "{what}");
                }
                run => panic!("{fault:?}: {run:?}"),
            }
        }
    }
}

/// Of many workers that ask again and again one is nearly always at the queues: it was found out only when none
/// was.
#[test]
fn a_scheduler_that_holds_a_task_back_fails_a_run_of_many_workers_within_seconds() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let builder = Workers::builder().n_workers(16).bind(Bind::None);
        let policy = Policy::custom(Arc::new(Faulty(Fault::HoldsBack)));
        let workers = builder.policy(policy).build().unwrap();
        let space = Fan {
            wide: 40,
            priority: |_| 1,
            body: |_| (),
        };
        tell.send(run(&space, &workers).unwrap_err().to_string())
    });
    let failed = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(failed.contains("holds 1 ready task back"), "{failed}");
}

/// Gives the next task out when the last has ended: when the worker that had it asks again.
#[derive(Debug)]
struct OneByOne;

#[derive(Default)]
struct Counter(Mutex<(Vec<Ready>, Option<usize>)>);

impl Scheduler for OneByOne {
    fn name(&self) -> &str {
        "one by one"
    }

    fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
        Box::new(Counter::default())
    }
}

impl ReadyQueue for Counter {
    fn push(&self, _: usize, task: Ready) {
        self.0.lock().unwrap().0.push(task);
    }

    fn take(&self, worker: usize) -> Option<Ready> {
        let (tasks, runs_on) = &mut *self.0.lock().unwrap();
        if runs_on.is_some_and(|other| other != worker) {
            return None;
        }
        let task = tasks.pop();
        *runs_on = task.map(|_| worker);
        task
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().0.is_empty()
    }
}

/// The first leaf runs on the worker that freed it without having been queued.
#[test]
fn a_scheduler_may_keep_tasks_for_as_long_as_one_runs() {
    let policy = Policy::custom(Arc::new(OneByOne));
    let builder = Workers::builder().n_workers(4).bind(Bind::None);
    let workers = builder.policy(policy).build().unwrap();
    let space = Fan {
        wide: 3,
        priority: |_| 1,
        body: |task| std::thread::sleep(Duration::from_millis(if task == 0 { 0 } else { 1500 })),
    };
    assert_eq!(run(&space, &workers).unwrap().tasks, 4);
}

/// It was measured how long the simulation took: after a second, of a machine that was fast enough or of a
/// slow one, the scheduler was to blame for a task that ran in virtual time.
#[test]
fn in_virtual_time_a_scheduler_may_keep_tasks_for_as_long_as_one_runs() {
    let machine = Topology::flat(&[0, 1]);
    let places = Bind::Cores.places(&machine, 2);
    let policy = Policy::custom(Arc::new(OneByOne));
    let costs = Costs {
        classes: vec![5.0],
        initialise: 0.0,
        bytes: 0,
        remote_byte: 0.0,
        round: 1e-6,
        ties: Ties::First,
    };
    let space = Fan {
        wide: 3,
        priority: |_| 1,
        body: |_| (),
    };
    let run = simulate(&space, &machine, &places, &policy, &costs).unwrap();
    assert_eq!(run.tasks, 4);
}

/// Counts how often workers look for a task.
#[derive(Debug)]
struct Counted<S>(S, Arc<AtomicU64>);

struct CountedQueue(Box<dyn ReadyQueue>, Arc<AtomicU64>);

impl<S: Scheduler> Scheduler for Counted<S> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn open(&self, crew: &Crew) -> Box<dyn ReadyQueue> {
        Box::new(CountedQueue(self.0.open(crew), self.1.clone()))
    }
}

impl ReadyQueue for CountedQueue {
    fn push(&self, worker: usize, task: Ready) {
        self.0.push(worker, task);
    }

    fn take(&self, worker: usize) -> Option<Ready> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.take(worker)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How often 32 workers on 16 NUMA nodes look in virtual time, which run tasks of so many rounds.
fn looks_of_many(scheduler: impl Scheduler + 'static, rounds: f64) -> (Result<f64, String>, u64) {
    let looks = Arc::new(AtomicU64::new(0));
    let machine = Topology::made_of(&[2; 16], |from, to| 10 + from.abs_diff(to) as u32);
    let places = Bind::Cores.places(&machine, 32);
    let policy = Policy::custom(Arc::new(Counted(scheduler, looks.clone())));
    let costs = Costs {
        classes: vec![rounds * 1e-6; 2],
        initialise: 0.0,
        bytes: 0,
        remote_byte: 0.0,
        round: 1e-6,
        ties: Ties::First,
    };
    let space = Fan {
        wide: 3,
        priority: |_| 1,
        body: |_| (),
    };
    let run = simulate(&space, &machine, &places, &policy, &costs);
    let run = run
        .map(|run| run.seconds)
        .map_err(|error| error.to_string());
    (run, looks.load(Ordering::Relaxed))
}

/// Each worker that found nothing had all others look, once for every NUMA node, and after every round:
/// simulations of large machines went on for hours.
#[test]
fn in_virtual_time_workers_look_ever_more_seldom_for_a_scheduler_that_keeps_tasks() {
    let (run, looks) = looks_of_many(Faulty(Fault::HoldsBack), 20.0);
    assert!(run.unwrap_err().contains("holds 1 ready task back"));
    assert!(looks < 2 * 1000 * 32, "{looks} looks until it is found out");
    for (rounds, at_most) in [(20.0, 20), (1e4, 130), (1e6, 1200)] {
        let (run, looks) = looks_of_many(OneByOne, rounds);
        assert!((run.unwrap() / rounds * 1e6 - 4.0).abs() < 1e-9);
        let of_each = looks / (4 * 32);
        assert!(of_each <= at_most, "{of_each} of each in {rounds} rounds");
    }
}

/// Gives tasks to one worker only, and only when that has looked so often since the last came.
#[derive(Clone, Debug)]
struct OnlyTo(usize, u64);

struct Picky(OnlyTo, Mutex<(Vec<Ready>, u64)>);

impl Scheduler for OnlyTo {
    fn name(&self) -> &str {
        "only to"
    }

    fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
        Box::new(Picky(self.clone(), Mutex::default()))
    }
}

impl ReadyQueue for Picky {
    fn push(&self, _: usize, task: Ready) {
        let (tasks, looked) = &mut *self.1.lock().unwrap();
        tasks.push(task);
        *looked = 0;
    }

    fn take(&self, worker: usize) -> Option<Ready> {
        let Picky(OnlyTo(only, looks), pile) = self;
        let (tasks, looked) = &mut *pile.lock().unwrap();
        *looked += u64::from(worker == *only);
        tasks.pop_if(|_| worker == *only && *looked > *looks)
    }

    fn is_empty(&self) -> bool {
        self.1.lock().unwrap().0.is_empty()
    }
}

/// Of the idle workers of a NUMA node only the last to rest was asked, again and again: the scheduler was
/// said to hold back what it had for another.
#[test]
fn in_virtual_time_a_scheduler_gives_tasks_to_whichever_worker_it_likes_and_when_it_likes() {
    for (worker, looks) in (0..32).flat_map(|worker| [0, 20, 90].map(|looks| (worker, looks))) {
        let (run, _) = looks_of_many(OnlyTo(worker, looks), 100.0);
        let rounds = run.expect("all is handed out") * 1e6;
        // The root and what it frees: it looks in vain so often each time, the first time at once.
        let at_most = 400.0 + 2.0 * looks as f64;
        assert!(
            (at_most - 4.0..=at_most).contains(&rounds),
            "{worker}, {looks}: {rounds}"
        );
    }
}

/// The worker that came upon it last thought that it had a bug, and ended the process.
#[test]
fn a_scheduler_whose_queues_panic_as_they_are_dropped_has_run_everything() {
    #[derive(Debug)]
    struct Brittle;

    impl Scheduler for Brittle {
        fn name(&self) -> &str {
            "brittle"
        }
        fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
            Box::new(BrittlePile(Mutex::default()))
        }
    }

    struct BrittlePile(Mutex<Vec<Ready>>);

    impl ReadyQueue for BrittlePile {
        fn push(&self, _: usize, task: Ready) {
            self.0.lock().unwrap().push(task);
        }
        fn take(&self, _: usize) -> Option<Ready> {
            self.0.lock().unwrap().pop()
        }
        fn is_empty(&self) -> bool {
            self.0.lock().unwrap().is_empty()
        }
    }

    impl Drop for BrittlePile {
        fn drop(&mut self) {
            panic!("broken");
        }
    }

    let builder = Workers::builder().n_workers(2).bind(Bind::None);
    let policy = Policy::custom(Arc::new(Brittle));
    let workers = builder.policy(policy).build().unwrap();
    let tasks = Independent::new("tasks", 20, |_| Ok(()));
    for _ in 0..20 {
        assert_eq!(run(&tasks, &workers).unwrap().tasks, 20);
    }
}

#[test]
fn a_faulty_scheduler_fails_sequences_and_recursions_too() {
    let policy = Policy::custom(Arc::new(Faulty(Fault::Loses)));
    let builder = Workers::builder().n_workers(2).bind(Bind::None);
    let workers = builder.policy(policy).build().unwrap();
    let failed = dataflow_core::sequence::scope(&workers, |s| {
        (0..20).for_each(|_| s.task((), |()| ()));
    });
    assert_eq!(failed.unwrap_err().kind(), Kind::SchedulerFailed);
}

/// Who loses a task, or keeps it, is found out when nobody is at the queues: a program that waits for
/// a datum stays there, and waited for ever.
#[test]
fn a_program_that_waits_for_a_task_that_its_scheduler_does_not_give_out_is_told() {
    for n_workers in [1, 2] {
        for fault in [Fault::Loses, Fault::HoldsBack, Fault::PanicsInTake] {
            let policy = Policy::custom(Arc::new(Faulty(fault)));
            let builder = Workers::builder().n_workers(n_workers).bind(Bind::None);
            let workers = builder.policy(policy).build().unwrap();
            let failed = dataflow_core::sequence::scope(&workers, |s| {
                let data = s.handles([0; 20]);
                for n in &data {
                    s.task(dataflow_core::sequence::write(n), |n| *n += 1);
                }
                data.iter().map(|n| s.wait(n, |n| *n)).collect::<Vec<_>>()
            });
            let error = failed.unwrap_err();
            assert_eq!(error.kind(), Kind::SchedulerFailed, "{fault:?}: {error}");
        }
    }
}

/// The worker of the program kept for itself what was inserted, and what became ready while it waited; then
/// the program waited for that by other means, and another worker could have run it.
#[test]
fn what_a_scope_s_program_inserts_or_makes_ready_is_for_all_however_many_a_worker_keeps() {
    const LONG: Duration = Duration::from_secs(10);
    let workers = workers(&in_a_row("program", &[2]), "distance,keep=3");
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    let hears = || told.lock().unwrap().recv_timeout(LONG);
    let (inserted, _) = scope(&workers, |s| {
        let (busy, free) = mpsc::channel::<()>();
        let (begun, number) = (tell.clone(), s.handle(0));
        s.task((), move |()| {
            begun.send("inserted").unwrap();
            free.recv_timeout(LONG).ok();
        });
        let inserted = hears();
        s.task(write(&number), |number| *number = 1);
        for _ in 0..3 {
            let tell = tell.clone();
            s.task(read(&number), move |_| tell.send("made ready").unwrap());
        }
        // The other worker is busy: this one runs the task and makes three ready.
        let found = s.wait(&number, |number| *number);
        drop(busy);
        let made_ready = [(); 3].map(|()| hears());
        assert_eq!((found, made_ready), (Some(1), [Ok("made ready"); 3]));
        inserted
    })
    .unwrap();
    assert_eq!(inserted, Ok("inserted"));
}
