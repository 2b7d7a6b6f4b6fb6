//! Order: which tasks of a recorded program wait for which, when each datum lies in one place.
//!
//! # Law
//! A read waits for the last task before it that changes the datum; a change for the reads since
//! then, or, if there are none, for the change before. What other waits imply is left out where
//! that is cheap to see: tasks lie on paths, each of which is waited for along its whole length, so
//! a task waits for the last one only of each path.
//!
//! Waits are at most two for each access, and are found in time in proportion to their number, but
//! for sorting those of one task.

use super::graph::{Graph, NONE};
use crate::data::Datum;
use crate::sync::{AtomicU32, Ordering};
use std::cmp::Reverse;
use std::ops::Range;

/// The waits of a program, by tasks as the record numbers them.
#[derive(Debug)]
pub(super) struct ReplayOrder {
    /// For how many others each waits.
    n_before: Vec<u32>,
    /// Those that wait for each, one after the other; and where each one's begin.
    after: Vec<u32>,
    first_after: Vec<usize>,
    /// The next on the path of each; [`NONE`] at its end.
    next_on_path: Vec<u32>,
    /// The accesses of each, one after the other, as the record has its flows.
    accesses: Vec<PackedAccess>,
    /// Tasks that wait for no other, the most urgent first.
    pub roots: Vec<u32>,
}

/// A datum, and whether it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedAccess(u32);

impl PackedAccess {
    fn new(datum: u32, changes: bool) -> Self {
        PackedAccess(datum << 1 | u32::from(changes))
    }

    pub fn datum(self) -> usize {
        (self.0 >> 1) as usize
    }

    pub fn changes(self) -> bool {
        self.0 & 1 != 0
    }
}

/// The number of tasks for which a task still waits.
#[derive(Debug)]
pub(super) struct Countdown(AtomicU32);

impl Countdown {
    /// Whether all but one have ended; only the last to end may ask.
    #[inline(always)]
    pub fn is_one(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }

    /// One of them has ended; true if it was the last.
    #[inline(always)]
    pub fn arrive(&self) -> bool {
        // Release and acquire: the last one sees what all before it wrote. The load is enough for
        // that too, and nobody else changes a count of one.
        self.0.load(Ordering::Acquire) == 1 || self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl ReplayOrder {
    pub fn of<D: Datum>(graph: &Graph<'_, D>) -> Self {
        let n_tasks = graph.tasks.len();
        let mut order = ReplayOrder {
            n_before: vec![0; n_tasks],
            after: Vec::new(),
            first_after: vec![0; n_tasks + 1],
            next_on_path: vec![NONE; n_tasks],
            accesses: accesses(graph),
            roots: Vec::new(),
        };
        let mut paths = Paths::new(n_tasks);
        let (mut waits, mut before) = (Vec::new(), Vec::new());
        for (number, task) in (0u32..).zip(&graph.tasks) {
            if task.body.is_none() {
                continue;
            }
            for flow in graph.flow_range(number) {
                order.before(graph, flow, &mut before);
            }
            paths.keep_the_last(&mut before);
            if let Some(end) = paths.go_on(&before, number) {
                order.next_on_path[end as usize] = number;
            }
            order.n_before[number as usize] = before.len() as u32;
            if before.is_empty() {
                order.roots.push(number);
            }
            for source in before.drain(..) {
                order.first_after[source as usize + 1] += 1;
                waits.push((source, number));
            }
        }
        order.sort(&waits);
        graph.most_urgent_first(&mut order.roots);
        order
    }

    /// The tasks for which each waits.
    pub fn before_each(&self) -> Vec<Vec<u32>> {
        let mut before = vec![Vec::new(); self.n_before.len()];
        for source in 0..self.n_before.len() as u32 {
            for &task in self.after(source) {
                before[task as usize].push(source);
            }
        }
        before
    }

    /// The tasks that a flow has to wait for.
    fn before<D: Datum>(&self, graph: &Graph<'_, D>, flow: u32, tell: &mut Vec<u32>) {
        let source = graph.flows[flow as usize].source;
        let Some(changed) = graph.flows.get(source as usize) else {
            return;
        };
        let n_told = tell.len();
        if self.accesses[flow as usize].changes() {
            // The task that changes a version is the last that gets it.
            let mut reader = changed.first;
            while reader != flow {
                tell.push(graph.flows[reader as usize].task);
                reader = graph.flows[reader as usize].next;
            }
        }
        let is_inserted = graph.tasks[changed.task as usize].body.is_some();
        if tell.len() == n_told && is_inserted {
            tell.push(changed.task);
        }
    }

    /// Lays out the waits, grouped by the task waited for; how many there are for each is known.
    fn sort(&mut self, waits: &[(u32, u32)]) {
        let mut n = 0;
        for first in &mut self.first_after {
            n += *first;
            *first = n;
        }
        let mut next = self.first_after.clone();
        self.after = vec![0; waits.len()];
        for &(source, task) in waits {
            let place = &mut next[source as usize];
            self.after[*place] = task;
            *place += 1;
        }
    }

    /// Tasks that wait for one.
    #[inline(always)]
    pub fn after(&self, task: u32) -> &[u32] {
        let task = task as usize;
        &self.after[self.first_after[task]..self.first_after[task + 1]]
    }

    /// The task that follows one on its path.
    #[inline(always)]
    pub fn next_on_path(&self, task: u32) -> Option<u32> {
        let next = self.next_on_path[task as usize];
        (next != NONE).then_some(next)
    }

    /// The accesses of the flows of a task.
    #[inline(always)]
    pub fn accesses(&self, flows: Range<u32>) -> &[PackedAccess] {
        &self.accesses[flows.start as usize..flows.end as usize]
    }

    /// For how many others each task waits before a run.
    pub fn countdowns(&self) -> Box<[Countdown]> {
        let counts = self.n_before.iter();
        counts.map(|&n| Countdown(AtomicU32::new(n))).collect()
    }
}

fn accesses<D: Datum>(graph: &Graph<'_, D>) -> Vec<PackedAccess> {
    let mut accesses = Vec::with_capacity(graph.flows.len());
    let mut flows = graph.flows.iter();
    for task in &graph.tasks {
        let changes = graph.classes[task.class as usize].changes.iter();
        let of_task = changes.zip(&mut flows);
        accesses.extend(of_task.map(|(&changes, flow)| PackedAccess::new(flow.datum, changes)));
    }
    accesses
}

/// Paths on which each task waits for the one before it; every task lies on one.
struct Paths {
    of_task: Vec<u32>,
    /// The last task of each so far.
    ends: Vec<u32>,
}

impl Paths {
    fn new(n_tasks: usize) -> Self {
        Paths {
            of_task: vec![NONE; n_tasks],
            ends: Vec::new(),
        }
    }

    /// Keeps of some tasks the last one of each path: it waits for the others.
    fn keep_the_last(&self, tasks: &mut Vec<u32>) {
        if tasks.len() < 2 {
            return;
        }
        let path = |task: u32| self.of_task[task as usize];
        tasks.sort_unstable_by_key(|&task| (path(task), Reverse(task)));
        tasks.dedup_by_key(|task| path(*task));
    }

    /// A task is the next on a path that ends with one of those it waits for, the last inserted; or
    /// the first of its own. Says whom it follows.
    fn go_on(&mut self, before: &[u32], task: u32) -> Option<u32> {
        let path = |task: u32| self.of_task[task as usize];
        let ends = |task: &u32| self.ends[path(*task) as usize] == *task;
        let end = before.iter().copied().filter(ends).max();
        let path = end.map_or(self.ends.len() as u32, path);
        match end {
            Some(_) => self.ends[path as usize] = task,
            None => self.ends.push(task),
        }
        self.of_task[task as usize] = path;
        end
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::record;
    use super::*;
    use crate::data::Store;
    use crate::rank::Rank;
    use crate::sequence::{read, write};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A task: data, and whether it changes them.
    type Program = Vec<Vec<(usize, bool)>>;

    const N_DATA: usize = 5;

    /// Who waits for whom, by numbers of insertion.
    fn waits(program: &Program) -> BTreeSet<(u64, u64)> {
        let store = Store::new("numbers", [0u64; N_DATA]);
        let recorded = record("random", 1, |r| {
            let homes: Vec<_> = (0..N_DATA).map(|at| r.home(&store, at, Rank(0))).collect();
            for task in program {
                let of = |changes| task.iter().filter(move |access| access.1 == changes);
                let reads: Vec<_> = of(false).map(|(at, _)| read(&homes[*at])).collect();
                let writes: Vec<_> = of(true).map(|(at, _)| write(&homes[*at])).collect();
                r.task((reads, writes), |_| ());
            }
        });
        let graph = &recorded.unwrap().graph;
        let order = ReplayOrder::of(graph);
        let number = |task: u32| graph.tasks[task as usize].number;
        let tasks = 0..graph.tasks.len() as u32;
        let after = tasks.clone().flat_map(|task| {
            let after = order.after(task).iter();
            after.map(move |&after| (number(task), number(after)))
        });
        let found: Vec<_> = after.collect();
        let waits: BTreeSet<_> = found.iter().copied().collect();
        assert_eq!(waits.len(), found.len(), "nobody waits for one twice");
        for task in tasks.filter(|&task| graph.tasks[task as usize].body.is_some()) {
            let n_before = waits.iter().filter(|wait| wait.1 == number(task)).count();
            assert_eq!(order.n_before[task as usize], n_before as u32);
            assert_eq!(order.roots.contains(&task), n_before == 0);
        }
        waits
    }

    /// Whether two tasks may not run side by side.
    fn exclude(a: &[(usize, bool)], b: &[(usize, bool)]) -> bool {
        let excludes = |a: &(usize, bool), b: &(usize, bool)| a.0 == b.0 && (a.1 || b.1);
        a.iter().any(|a| b.iter().any(|b| excludes(a, b)))
    }

    fn programs() -> impl Strategy<Value = Program> {
        let task = prop::collection::btree_map(0..N_DATA, any::<bool>(), 0..=4);
        let task = task.prop_map(|task| task.into_iter().collect());
        prop::collection::vec(task, 0..30)
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 3 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn whoever_excludes_an_earlier_task_waits_for_it_and_nobody_else_is_waited_for(program in programs()) {
            let waits = waits(&program);
            let n = program.len();
            let mut reached = vec![BTreeSet::new(); n];
            for task in 0..n {
                for &(before, _) in waits.iter().filter(|wait| wait.1 == task as u64) {
                    let before = before as usize;
                    prop_assert!(exclude(&program[before], &program[task]), "{task} waits for {before}");
                    let more = reached[before].clone();
                    reached[task].extend(more);
                    reached[task].insert(before);
                }
                for before in (0..task).filter(|&before| exclude(&program[before], &program[task])) {
                    prop_assert!(reached[task].contains(&before), "{task} overtakes {before}");
                }
            }
        }
    }

    #[test]
    fn what_a_path_implies_is_left_out() {
        // Each changes what the two before it read: a chain, whatever else is read.
        let chain = (0..40).map(|at| (0..3).map(move |near| ((at + near) % N_DATA, near == 0)));
        let chain: Program = chain.map(Iterator::collect).collect();
        let expected = (1..40).map(|task| (task - 1, task)).collect();
        assert_eq!(waits(&chain), expected);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p dataflow-core --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::AtomicU64;
    use loom::thread;
    use std::sync::Arc;

    #[test]
    fn loom_one_is_the_last_to_arrive_and_sees_what_the_others_did() {
        loom::model(|| {
            let waits = Arc::new((
                Countdown(AtomicU32::new(3)),
                [(); 3].map(|()| AtomicU64::new(0)),
            ));
            let arrive = |at: usize| {
                let waits = waits.clone();
                move || {
                    let (countdown, done) = &*waits;
                    done[at].store(1, Ordering::Relaxed);
                    let last = countdown.arrive();
                    let all = || done.iter().all(|done| done.load(Ordering::Relaxed) == 1);
                    assert!(!last || all(), "{at} is the last, but not all is done");
                    last
                }
            };
            let others = [1, 2].map(|at| thread::spawn(arrive(at)));
            let own = arrive(0)();
            let lasts = others.map(|other| other.join().unwrap());
            assert_eq!(
                lasts.iter().filter(|last| **last).count() + usize::from(own),
                1
            );
        });
    }
}
