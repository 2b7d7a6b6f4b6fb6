//! Policies on a real pool, on made-up machines of several NUMA nodes: every task runs once and in
//! order, nobody steals from beyond its reach, and nobody sleeps beside a task it may take.

#[path = "../fan/mod.rs"]
mod fan;
#[path = "../machine/mod.rs"]
mod machine;

mod faults;
mod orders;
mod reach;
mod schedulers;

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

/// What a run on the workers leaves.
fn recorded(space: &impl TaskSpace, workers: &Workers) -> Trace {
    let tracer = Tracer::new(1 << 20);
    run(space, &Context::new(workers).traced_by(&tracer)).unwrap();
    tracer.take().remove(0)
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
