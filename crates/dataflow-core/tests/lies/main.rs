//! Spaces that lie at run time end in a named error, or do no harm: never a hang, never a panic
//! out of `run`, never a store with a hole.
//!
//! Small enough for Miri: `cargo +nightly miri test -p dataflow-core-tests --test lies`.

mod edges;
mod homes;
mod lists;
mod mutants;
mod panics;
mod reports;

#[path = "../specimen/mod.rs"]
mod specimen;

use dataflow_core::port::{Context, Executor, Inline, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::space::Independent;
use dataflow_core::trace::Tracer;
use dataflow_core::{Error, error::Kind, run, run_across};
use specimen::forgetful::Forgetful;
use specimen::ranks::on_ranks;
use specimen::wavefront::{Naming, Wavefront};
use specimen::{
    Cholesky, Mixed, Mutant, Mutation, Number, Specimen, Twist, mutations, tried, within,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Small under Miri, for which a run is a long time.
mod size {
    pub const N_SEEDS: u64 = if cfg!(miri) { 1 } else { 2 };
    /// Mutants of each space that Miri tries.
    pub const BY_MIRI: usize = 12;
    /// Orders, and every which other end of an edge is tried.
    pub const CHOLESKY: &[(u32, usize)] = match cfg!(miri) {
        true => &[(1, 1), (2, 1), (3, 1)],
        false => &[(1, 1), (2, 1), (3, 1), (4, 31)],
    };
    pub const WAVEFRONT: &[u32] = if cfg!(miri) { &[1, 3] } else { &[1, 2, 3] };
    pub const MIXED: &[(u32, usize)] = match cfg!(miri) {
        true => &[(2, 1), (3, 7)],
        false => &[(2, 1), (3, 7), (9, 97)],
    };
    /// Flows that no class has, beside those of wide classes and words.
    pub const FLOWS: &[usize] = match cfg!(miri) {
        true => &[4, usize::MAX],
        false => &[4, 6, 7, 100, usize::MAX / 2, usize::MAX],
    };
}

/// Inline, and some shuffled orders on one and on two threads.
fn executors() -> Vec<(String, Box<dyn Executor>)> {
    executors_of(0..size::N_SEEDS)
}

/// The same of these seeds.
fn executors_of(seeds: Range<u64>) -> Vec<(String, Box<dyn Executor>)> {
    let mut all: Vec<(String, Box<dyn Executor>)> = vec![("inline".into(), Box::new(Inline))];
    for seed in seeds {
        for n_threads in [1, 2] {
            let shuffled = Shuffled::new(seed).with_threads(n_threads);
            all.push((format!("{shuffled:?}"), Box::new(shuffled)));
        }
    }
    all
}

/// A space written as a table, to tell any lie: by task, its inputs and its outputs.
#[derive(Clone, Default)]
struct Table {
    tasks: Vec<(Vec<End>, Vec<End>)>,
    roots: Option<Vec<u32>>,
    count: Option<u64>,
    elsewhere: Vec<u32>,
    class: usize,
}

/// (own flow, task, its flow), or a slot at home.
#[derive(Clone, Copy)]
enum End {
    Task(usize, u32, usize),
    Home(usize, usize),
}
use End::{Home, Task};

struct Told {
    table: Table,
    store: Store<Number>,
}

/// A name with a class of the teller's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Name {
    task: u32,
    class: u8,
}

impl TaskName for Name {
    fn class(self) -> usize {
        self.class.into()
    }
    fn pack(self) -> Option<u64> {
        Some(u64::from(self.task) << 8 | u64::from(self.class))
    }
    fn unpack(packed: u64) -> Self {
        Name {
            task: (packed >> 8) as u32,
            class: packed as u8,
        }
    }
}

impl Told {
    fn new(table: Table) -> Self {
        Told {
            table,
            store: Store::new("store", (0..4).map(Number)),
        }
    }

    fn name(&self, task: u32) -> Name {
        Name {
            task,
            class: self.table.class as u8,
        }
    }

    fn ends(&self, task: Name) -> Option<&(Vec<End>, Vec<End>)> {
        self.table.tasks.get(task.task as usize)
    }
}

impl TaskSpace for Told {
    type Task = Name;
    type Datum = Number;

    fn describe(&self, about: &mut Description) {
        about.name("told");
        about
            .class("Told")
            .update("MAIN")
            .read("SIDE")
            .new_flow("MADE")
            .order("AFTER");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = Name> + Send {
        (0..self.table.tasks.len() as u32).map(|task| self.name(task))
    }
    fn inputs(&self, task: Name, from: &mut impl Inputs<Self>) {
        for end in self.ends(task).iter().flat_map(|(inputs, _)| inputs) {
            match *end {
                Task(flow, other, other_flow) => from.task(flow, self.name(other), other_flow),
                Home(flow, index) => from.home(flow, &self.store, index),
            }
        }
        // What the table does not say: everybody reads slot 3.
        let of_side = |end: &End| matches!(end, Task(SIDE, ..) | Home(SIDE, _));
        if self
            .ends(task)
            .is_some_and(|(inputs, _)| !inputs.iter().any(of_side))
        {
            from.home(SIDE, &self.store, 3);
        }
    }
    fn successors(&self, task: Name, to: &mut impl Successors<Self>) {
        for end in self.ends(task).iter().flat_map(|(_, outputs)| outputs) {
            match *end {
                Task(flow, other, other_flow) => to.task(flow, self.name(other), other_flow),
                Home(flow, index) => to.home(flow, &self.store, index),
            }
        }
    }
    fn run(&self, _: Name, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        let [main, side, made, after] = flows.slots();
        let _ = (side, made, after);
        main.update().0 += 1;
        Ok(())
    }
    fn rank(&self, task: Name) -> Rank {
        Rank(u32::from(self.table.elsewhere.contains(&task.task)))
    }
    fn roots(&self, on: Rank) -> impl Iterator<Item = Name> + Send {
        let own = self
            .table
            .roots
            .iter()
            .flatten()
            .map(|&root| self.name(root));
        let found = self.tasks(on).filter(|&task| {
            let ends = self.ends(task);
            self.table.roots.is_none()
                && ends.is_some_and(|(inputs, _)| !inputs.iter().any(|e| matches!(e, Task(..))))
        });
        own.chain(found)
    }
    fn count(&self, on: Rank) -> u64 {
        self.table
            .count
            .unwrap_or_else(|| self.tasks(on).count() as u64)
    }
}

const MAIN: usize = 0;
const SIDE: usize = 1;
const MADE: usize = 2;
const AFTER: usize = 3;

/// Task 0 takes slot 0, changes it and hands it to task 1, which brings it home.
fn pair() -> Table {
    Table {
        tasks: vec![
            (vec![Home(MAIN, 0)], vec![Task(MAIN, 1, MAIN)]),
            (vec![Task(MAIN, 0, MAIN)], vec![Home(MAIN, 0)]),
        ],
        ..Table::default()
    }
}

/// Runs a table everywhere; every error must be of this kind and its text hold these words.
fn ends_in(table: &Table, kind: Kind, words: &[&str]) {
    for (name, executor) in executors() {
        let told = Told::new(table.clone());
        let result = within(|| format!("{kind:?} on {name}"), || run(&told, &*executor));
        let error: Error = result.expect_err("the lie is noticed");
        assert_eq!(error.kind(), kind, "{error} on {name}");
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{text:?} does not name {word:?}");
        }
        assert!(
            (0..4).all(|slot| told.store.get(slot).is_some()),
            "a hole after {error} on {name}"
        );
        run(&Told::new(pair()), &*executor).expect("the executor works afterwards");
    }
}
