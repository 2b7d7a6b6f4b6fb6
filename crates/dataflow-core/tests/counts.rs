//! What is counted over the edges of a space is what runs of it send, and what runs of its phantom send.

mod specimen;

use dataflow_core::phantom::{Length, Phantom};
use dataflow_core::port::{Context, Courier, Shuffled, Wire};
use dataflow_core::prelude::*;
use dataflow_core::run_across;
use dataflow_core::space::Erased;
use dataflow_core::space::counts::{CountedWork, Counting, Counts, Sending, Traffic};
use specimen::cholesky::Task;
use specimen::ranks::{Crossed, on_ranks};
use specimen::{Cholesky, Mixed, Mutant, Mutation, Twist, Wavefront, digest, within};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// A space on one rank whose tasks are dealt out to several, by their names.
struct Dealt<S> {
    space: S,
    n_ranks: u32,
}

impl<S: TaskSpace> TaskSpace for Dealt<S> {
    type Task = S::Task;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        self.space.describe(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = S::Task> + Send {
        let tasks = self.space.tasks(Rank(0));
        tasks.filter(move |task| self.rank(*task) == on)
    }

    fn inputs(&self, task: S::Task, from: &mut impl Inputs<Self>) {
        self.space.inputs(task, &mut Passed(from));
    }

    fn successors(&self, task: S::Task, to: &mut impl Successors<Self>) {
        self.space.successors(task, &mut Passed(to));
    }

    fn run(&self, task: S::Task, flows: &mut Flows<'_, S::Datum>) -> Result<(), TaskError> {
        self.space.run(task, flows)
    }

    fn rank(&self, task: S::Task) -> Rank {
        let words = task.to_wire().unwrap();
        Rank((digest(words.iter().map(|word| u64::from(*word))) % u64::from(self.n_ranks)) as u32)
    }

    fn priority(&self, task: S::Task) -> i64 {
        self.space.priority(task)
    }
}

/// Passes on what it hears.
struct Passed<'v, V>(&'v mut V);

impl<S: TaskSpace, V: Inputs<Dealt<S>>> Inputs<S> for Passed<'_, V> {
    fn task(&mut self, flow: usize, source: S::Task, source_flow: usize) {
        self.0.task(flow, source, source_flow);
    }
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.0.home(flow, store, index);
    }
}

impl<S: TaskSpace, V: Successors<Dealt<S>>> Successors<S> for Passed<'_, V> {
    fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
        self.0.task(flow, target, target_flow);
    }
    fn home(&mut self, flow: usize, store: &Store<S::Datum>, index: usize) {
        self.0.home(flow, store, index);
    }
}

/// Who passes a parcel on in the world of the tests: a heap of so many children.
fn heap(fan_out: usize) -> impl Fn(&Sending<'_>, &mut dyn FnMut(Rank, Rank)) {
    move |sending, hear| {
        for (at, to) in sending.to.iter().enumerate() {
            match at / fan_out {
                0 => hear(sending.from, *to),
                above => hear(sending.to[above - 1], *to),
            }
        }
    }
}

/// Runs a space on ranks: the tasks of each, and what crossed, in order.
fn ran<S: TaskSpace<Datum: Wire>>(
    what: &str,
    (n_ranks, fan_out): (u32, usize),
    space: &(dyn Fn() -> S + Sync),
) -> (Vec<u64>, Crossed) {
    let (tasks, mut crossed) = within(
        || what.to_string(),
        || {
            on_ranks(n_ranks, (7, fan_out), |courier: &dyn Courier| {
                let on = Shuffled::new(5);
                let report = run_across(&space(), &Context::new(&on).across(courier));
                report.unwrap().tasks
            })
        },
    );
    crossed.parcels.sort_unstable();
    (tasks, crossed)
}

/// Runs a space and its phantom on ranks, and compares what crossed with what is counted.
fn agrees<S: TaskSpace<Datum: Wire>>(what: &str, n_ranks: u32, space: impl Fn() -> S + Sync) {
    // A Number has eight bytes; what is empty crosses as nothing.
    let bytes = |_: S::Task, _: usize| 8 * u64::from(size_of::<S::Datum>() != 0);
    let here = space();
    let phantom = || Phantom::of(&here).bytes(&bytes);
    verify(&phantom(), n_ranks).unwrap();
    for fan_out in [1, 2, 8] {
        let what = || format!("{what} on {n_ranks} ranks, fan-out {fan_out}");
        let (tasks, crossed) = ran(&what(), (n_ranks, fan_out), &space);
        let whole = phantom();
        let erased = || Erased::<Length>::new(&whole);
        for (of, crossed_too) in [
            ran(&what(), (n_ranks, fan_out), &phantom),
            ran(&what(), (n_ranks, fan_out), &erased),
        ] {
            assert_eq!(of, tasks, "{}", what());
            assert_eq!(crossed_too.parcels, crossed.parcels, "{}", what());
            let sums = [&crossed_too, &crossed].map(|crossed| (crossed.data, crossed.bytes));
            assert_eq!(sums[0], sums[1], "{}", what());
        }
        let route = heap(fan_out);
        let counting = Counting::of(&here, n_ranks).bytes(&bytes).along(&route);
        let counts = counting.count().unwrap();
        let sent = counts.sent();
        assert_eq!(sent.messages, crossed.data, "{}", what());
        assert_eq!(sent.bytes, crossed.bytes, "{}", what());
        assert_eq!(sent.activations, crossed.parcels.len() as u64, "{}", what());
        let mut pairs = BTreeMap::new();
        for (from, to, _) in crossed.parcels {
            *pairs.entry((from, to)).or_insert(0) += 1;
        }
        let counted = counts.pairs.iter();
        let counted: BTreeMap<_, _> = counted
            .map(|(pair, traffic)| (*pair, traffic.activations))
            .collect();
        assert_eq!(counted, pairs, "{}", what());
        let counted: Vec<u64> = counts.ranks.iter().map(|rank| rank.work.tasks).collect();
        assert_eq!(counted, tasks, "{}", what());
    }
}

const GRIDS: &[(u32, u32)] = match cfg!(miri) {
    true => &[(2, 2)],
    false => &[(1, 1), (1, 2), (2, 2), (2, 3), (3, 2), (1, 5)],
};
const TILES: &[u32] = if cfg!(miri) { &[4] } else { &[1, 2, 5, 8] };

#[test]
fn counts_agree_with_what_crosses_between_the_ranks_of_a_run_and_of_its_phantom() {
    for &(p, q) in GRIDS {
        for &nt in TILES {
            let n_ranks = p * q;
            agrees("cholesky", n_ranks, || Cholesky::new(nt, (p, q)));
            // Data, several from a task, and order, each to ranks of its own.
            let space = || Mixed::new(nt + 1);
            agrees("mixed", n_ranks, || Dealt {
                space: space(),
                n_ranks,
            });
            let space = || Wavefront::new(nt);
            agrees("wavefront", n_ranks, || Dealt {
                space: space(),
                n_ranks,
            });
        }
    }
}

#[test]
fn the_bounds_of_cholesky_are_those_of_the_formulas() {
    // In units of nb³/3 flops.
    let weight = |task| match task {
        Task::Potrf { .. } => 1.0,
        Task::Trsm { .. } | Task::Syrk { .. } => 3.0,
        Task::Gemm { .. } => 6.0,
    };
    for nt in 2..12_u32 {
        let space = Cholesky::new(nt, (2, 3));
        let counts = Counting::of(&space, 6).cost(&weight).count().unwrap();
        assert_eq!(counts.tasks(), Cholesky::n_tasks(nt.into()));
        assert_eq!(counts.cost(), f64::from(nt.pow(3)));
        let CountedWork { tasks, cost, .. } = counts.path;
        let path = (3 * u64::from(nt) - 2, f64::from(9 * nt - 10));
        assert_eq!((tasks, cost), path, "nt = {nt}");
        let of_rank = |rank| space.tasks(Rank(rank)).map(weight).sum::<f64>();
        let most = (0..6).map(of_rank).fold(0.0, f64::max);
        assert_eq!(counts.area().cost, most);
        assert_eq!(counts.balance(), counts.cost() / 6.0 / most);
        let gemms: u64 = counts.ranks.iter().map(|rank| rank.classes[3]).sum();
        assert_eq!(gemms, u64::from(nt * (nt - 1) * (nt - 2) / 6));
    }
}

fn without_rounds(mut counts: Counts) -> Counts {
    counts.ranks.iter_mut().for_each(|rank| rank.held = 0);
    (counts.rounds, counts.waiting) = (None, 0);
    counts
}

#[test]
fn the_order_of_the_walk_changes_no_count() {
    let nt = if cfg!(miri) { 4 } else { 9 };
    let n_ranks = 5;
    let space = Cholesky::new(nt, (1, 1));
    let space = Dealt { space, n_ranks };
    let counting = Counting::of(&space, n_ranks).bytes(&|_, _| 8);
    let depth_first = without_rounds(counting.count().unwrap());
    for workers in [1, 3, 1 << 20] {
        let workers = NonZeroUsize::new(workers).unwrap();
        let counts = counting.in_rounds(workers).count().unwrap();
        let rounds = counts.rounds.unwrap();
        // No shorter than either bound; with workers for all tasks the path is all that counts.
        let area = counts.area().tasks.div_ceil(workers.get() as u64);
        assert!(rounds >= counts.path.tasks.max(area));
        assert!(workers.get() < 1 << 20 || rounds == counts.path.tasks);
        assert_eq!(without_rounds(counts), depth_first);
    }
}

/// A graph as a table: where a task runs, and whose datum it reads; its own has flow 0.
struct Drawn(Vec<(u32, Vec<u32>)>);

impl TaskSpace for Drawn {
    type Task = u32;
    type Datum = u64;

    fn describe(&self, about: &mut Description) {
        about
            .class("Node")
            .new_flow("MADE")
            .optional("ONE")
            .optional("OTHER");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
        (0..self.0.len() as u32).filter(move |task| self.rank(*task) == on)
    }

    fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
        for (at, source) in self.0[task as usize].1.iter().enumerate() {
            from.task(at + 1, *source, 0);
        }
    }

    fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
        for (target, (_, sources)) in self.0.iter().enumerate() {
            let ends = sources.iter().enumerate().filter(|end| *end.1 == task);
            ends.for_each(|(at, _)| to.task(0, target as u32, at + 1));
        }
    }

    fn run(&self, _: u32, _: &mut Flows<'_, u64>) -> Result<(), TaskError> {
        Ok(())
    }

    fn rank(&self, task: u32) -> Rank {
        Rank(self.0[task as usize].0)
    }
}

/// Activations, messages and bytes.
fn sent(counts: &Counts) -> [u64; 3] {
    let Traffic {
        activations,
        messages,
        bytes,
        ..
    } = counts.sent();
    [activations, messages, bytes]
}

#[test]
fn a_datum_is_held_from_the_round_that_made_it_to_the_last_that_reads_it() {
    let reads = |rank: u32, sources: &[u32]| (rank, sources.to_vec());
    // Tasks 0 and 1 on one rank; on the other 2 reads 0, 3 reads both, 4 reads 1.
    let space = Drawn(vec![
        reads(0, &[]),
        reads(0, &[]),
        reads(1, &[0]),
        reads(1, &[0, 1]),
        reads(1, &[1]),
    ]);
    verify(&space, 2).unwrap();
    let bytes = |task: u32, _: usize| if task == 0 { 8 } else { 100 };
    let counting = Counting::of(&space, 2).bytes(&bytes);
    let rounds = |workers| {
        let workers = NonZeroUsize::new(workers).unwrap();
        let counts = counting.in_rounds(workers).count().unwrap();
        let held: Vec<u64> = counts.ranks.iter().map(|rank| rank.held).collect();
        (counts.rounds, held, sent(&counts))
    };
    let both = [2, 2, 108];
    // 0; 1 and 2; 3; 4.
    assert_eq!(rounds(1), (Some(4), vec![0, 108], both));
    assert_eq!(rounds(2), (Some(3), vec![0, 108], both));
    // What 0 made has gone when 1 runs: it is read by 2 alone.
    let space = Drawn(vec![
        reads(0, &[]),
        reads(0, &[2]),
        reads(1, &[0]),
        reads(1, &[1]),
    ]);
    let counting = Counting::of(&space, 2).bytes(&bytes);
    let counts = counting.in_rounds(NonZeroUsize::MIN).count().unwrap();
    let held: Vec<u64> = counts.ranks.iter().map(|rank| rank.held).collect();
    assert_eq!((counts.rounds, held), (Some(4), vec![100, 100]));
}

/// They ran over: two such data were as good as none.
#[test]
fn bytes_beyond_all_numbers_are_the_largest_one() {
    let space = Drawn(vec![
        (0, vec![]),
        (0, vec![]),
        (1, vec![0, 1]),
        (1, vec![0]),
    ]);
    let counting = Counting::of(&space, 2).bytes(&|_, _| 1 << 63);
    let counts = counting.in_rounds(NonZeroUsize::MIN).count().unwrap();
    assert_eq!(sent(&counts), [2, 2, u64::MAX]);
    assert_eq!(counts.ranks[1].held, u64::MAX);
}

#[test]
fn a_space_that_contradicts_itself_or_needs_more_ranks_is_named() {
    let space = Cholesky::new(4, (2, 2));
    let few = Counting::of(&space, 3).count().unwrap_err().to_string();
    assert!(
        few.contains("rank 3") && few.contains("there are 3 ranks"),
        "{few}"
    );
    let tried = |mutation: Mutation<Task>| {
        let mutant = Mutant::new(&space, &mutation);
        Counting::of(&mutant, 4).count().unwrap_err().to_string()
    };
    let unfed = tried(Mutation::Output(
        Task::Trsm { m: 3, k: 0 },
        1,
        Twist::Removed,
    ));
    assert!(unfed.contains("waits for 1 of its inputs"), "{unfed}");
    let twice = tried(Mutation::Output(
        Task::Potrf { k: 0 },
        0,
        Twist::Task(Task::Potrf { k: 0 }),
    ));
    assert!(twice.contains("says that it has no inputs"), "{twice}");
}

/// The walk went on for ever.
#[test]
fn a_task_that_feeds_itself_is_counted_only_so_often() {
    /// Task 1 has one input, and gets it from both.
    struct Again;
    impl TaskSpace for Again {
        type Task = u32;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.class("Task").order("AFTER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
            0..2
        }
        fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
            if task == 1 {
                from.task(0, 0, 0);
            }
        }
        fn successors(&self, _: u32, to: &mut impl Successors<Self>) {
            to.task(0, 1, 0);
        }
        fn run(&self, _: u32, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let counted = within(|| "the walk".into(), || Counting::of(&Again, 1).count());
    let told = counted.unwrap_err().to_string();
    assert!(
        told.contains("more tasks run than the 2 that the space counts on rank 0"),
        "{told}"
    );
}

#[test]
fn the_busiest_sender_is_told_beside_the_mean() {
    let space = Cholesky::new(1, (2, 2));
    let counts = Counting::of(&space, 4).count().unwrap();
    assert_eq!((counts.busiest_sender(), counts.balance()), (None, 0.25));
    let space = Drawn(vec![(1, vec![]), (0, vec![0]), (2, vec![0]), (0, vec![2])]);
    let counts = Counting::of(&space, 3).count().unwrap();
    assert_eq!(counts.busiest_sender(), Some((Rank(1), 2.0)));
    // Two send as much: the lower one is named.
    let space = Drawn(vec![(1, vec![]), (2, vec![0]), (1, vec![1])]);
    let counts = Counting::of(&space, 3).count().unwrap();
    assert_eq!(counts.busiest_sender(), Some((Rank(1), 1.5)));
}
