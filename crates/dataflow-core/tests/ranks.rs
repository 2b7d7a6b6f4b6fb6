//! A space runs on several ranks as on one: same results, a parcel per task and rank, one error.

mod specimen;

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Context, Courier, Executor, Inbox, Inline, Line, Shuffled, Terms};
use dataflow_core::prelude::*;
use dataflow_core::recursion::{Call, Recursive, recurse_across};
use dataflow_core::sequence::scope_inside;
use dataflow_core::space::{Collect, Independent};
use dataflow_core::{Error, Report, run, run_across};
use specimen::cholesky::Task;
use specimen::forgetful::Forgetful;
use specimen::ranks::{Crossed, on_ranks};
use specimen::{Cholesky, Mutant, Mutation, Number, Specimen, Twist, mutations, tried, within};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Small under Miri, for which ranks of several threads are a long time.
mod size {
    pub const GRIDS: &[(u32, u32)] = match cfg!(miri) {
        true => &[(1, 2), (2, 2)],
        false => &[(1, 1), (1, 2), (2, 2), (2, 3), (3, 2), (1, 5)],
    };
    pub const TILES: &[u32] = if cfg!(miri) { &[1, 4] } else { &[1, 2, 5, 8] };
    pub const FAN_OUTS: &[usize] = if cfg!(miri) { &[1, 8] } else { &[1, 2, 8] };
    pub const N_SEEDS: u64 = if cfg!(miri) { 1 } else { 20 };
    /// Mutants that Miri tries.
    pub const BY_MIRI: usize = 8;
    pub const STRIDE: usize = if cfg!(miri) { 200 } else { 3 };
    pub const N_RANKS: u32 = if cfg!(miri) { 3 } else { 5 };
    /// Steps, and tasks in each.
    pub const STEPS: (u32, u32) = if cfg!(miri) { (4, 5) } else { (20, 7) };
}

fn executors(seed: u64) -> [Box<dyn Executor>; 3] {
    let shuffled = Shuffled::new(seed);
    [
        Box::new(Inline),
        Box::new(shuffled),
        Box::new(shuffled.with_threads(2)),
    ]
}

/// How a rank ended, and what it left behind.
type Ended = (Result<Report, Error>, Vec<u64>);

/// Runs a space of its own on each rank, and adds up what the ranks leave behind.
fn across<S: Specimen<Datum = Number>>(
    n_ranks: u32,
    (seed, fan_out): (u64, usize),
    space: impl Fn() -> S + Sync,
) -> (Vec<Ended>, Crossed) {
    let what = || format!("{n_ranks} ranks, seed {seed}, fan-out {fan_out}");
    within(what, || {
        on_ranks(n_ranks, (seed, fan_out), |courier: &dyn Courier| {
            let on = &executors(seed)[(seed as usize + courier.rank().0 as usize) % 3];
            let here = space();
            let result = run_across(&here, &Context::new(&**on).across(courier));
            assert!(here.holes().is_empty(), "{:?}", here.holes());
            (result, here.outcome())
        })
    })
}

#[test]
fn every_grid_leaves_the_tiles_that_one_rank_leaves_and_sends_a_task_to_a_rank_once() {
    for &(p, q) in size::GRIDS {
        for &nt in size::TILES {
            let alone = Cholesky::new(nt, (1, 1));
            run(&alone, &Inline).unwrap();
            for &fan_out in size::FAN_OUTS {
                let seed = u64::from(nt) + fan_out as u64;
                let (ended, crossed) = across(p * q, (seed, fan_out), || Cholesky::new(nt, (p, q)));
                let tasks: u64 = ended
                    .iter()
                    .map(|(report, _)| report.as_ref().unwrap().tasks)
                    .sum();
                assert_eq!(tasks, Cholesky::n_tasks(u64::from(nt)));
                let space = Cholesky::new(nt, (p, q));
                let tiles = (0..nt).flat_map(|m| (0..=m).map(move |n| (m, n)));
                for (at, (m, n)) in tiles.enumerate() {
                    let left = ended[space.owner(m, n).0 as usize].1[at];
                    assert_eq!(
                        left,
                        alone.outcome()[at],
                        "{p} x {q}, tile ({m}, {n}) of {nt}"
                    );
                }
                let mut seen = BTreeMap::new();
                for (_, to, task) in &crossed.parcels {
                    *seen.entry((to, task)).or_insert(0) += 1;
                }
                assert!(seen.values().all(|&n| n == 1), "{seen:?}");
                assert_eq!(crossed.data, crossed.parcels.len() as u64);
                assert_eq!(
                    crossed.data,
                    space.n_crossings() as u64,
                    "{p} x {q}, nt {nt}"
                );
            }
        }
    }
}

/// Threads that served one rank waited for the other, which no thread served.
#[cfg(feature = "rayon")]
#[test]
fn ranks_that_share_a_pool_of_rayon_are_refused_and_ranks_with_a_pool_each_are_not() {
    use dataflow_core::port::OnRayon;
    let pool = |n| {
        rayon_core::ThreadPoolBuilder::new()
            .num_threads(n)
            .build()
            .unwrap()
    };
    for n_threads in 1..4 {
        let shared = pool(n_threads);
        let errors = within(
            || format!("two ranks on a pool of {n_threads}"),
            || {
                on_ranks(2, (1, 2), |courier| {
                    let on_shared = OnRayon(&shared);
                    let on = Context::new(&on_shared).across(courier);
                    let error = run_across(&Cholesky::new(4, (1, 2)), &on).unwrap_err();
                    let (own, four) = (pool(n_threads), Cholesky::new(4, (1, 2)));
                    let on_own = OnRayon(&own);
                    run_across(&four, &Context::new(&on_own).across(courier)).unwrap();
                    error
                })
            },
        );
        for error in errors.0 {
            assert_eq!(error.kind(), Kind::SchedulerFailed, "{error}");
            assert!(error.message().contains("a pool each"), "{error}");
        }
        run(&Cholesky::new(4, (1, 1)), &OnRayon(&shared)).unwrap();
    }
}

#[test]
fn a_failing_body_is_the_same_error_on_every_rank_and_a_panic_too() {
    for panics in [false, true] {
        for seed in 0..size::N_SEEDS {
            let task = Task::Trsm { m: 3, k: 1 };
            let space = || Cholesky::new(5, (2, 2)).failing(task, panics);
            let (ended, _) = across(4, (seed, 2), space);
            for (result, _) in &ended {
                let error = result.as_ref().unwrap_err();
                let kind = if panics {
                    Kind::TaskPanicked
                } else {
                    Kind::TaskFailed
                };
                assert_eq!(error.kind(), kind, "{error}");
                assert_eq!(error.rank(), Some(space().rank(task)), "{error}");
                assert_eq!(error.task(), Some("Trsm { m: 3, k: 1 }"));
            }
        }
    }
}

#[test]
fn the_smallest_of_several_failures_on_several_ranks_is_reported_everywhere() {
    for seed in 0..size::N_SEEDS {
        let tasks = [Task::Gemm { m: 3, n: 2, k: 0 }, Task::Trsm { m: 4, k: 0 }];
        let (ended, _) = within(
            || format!("seed {seed}"),
            || {
                on_ranks(4, (seed, 1), |courier| {
                    // Every rank would fail in one of them; each owns another.
                    let rank = courier.rank();
                    let mine = tasks
                        .into_iter()
                        .find(|task| Cholesky::new(5, (2, 2)).rank(*task) == rank);
                    let space = Cholesky::new(5, (2, 2));
                    let space = match mine {
                        Some(task) => space.failing(task, false),
                        None => space,
                    };
                    run_across(&space, &Context::new(&Inline).across(courier))
                })
            },
        );
        for result in ended {
            assert_eq!(result.unwrap_err().task(), Some("Trsm { m: 4, k: 0 }"));
        }
    }
}

/// What had failed so far was told, whether it was the smallest or not.
#[test]
fn a_rank_that_is_cancelled_after_a_body_failed_there_ends_all_of_them_as_cancelled() {
    let (ended, _) = on_ranks(2, (3, 2), |courier| {
        let monitor = Monitor::new();
        let space = Independent::new("falling", 20, |task| match task {
            0 => Err(TaskError::new("bad", "as told").with_index(900)),
            2 => {
                monitor.cancel();
                Ok(())
            }
            18 => Err(TaskError::new("bad", "as told").with_index(1)),
            _ => Ok(()),
        });
        let on = Context::new(&Inline).across(courier);
        run_across(&space.across(2), &on.watched_by(&monitor)).unwrap_err()
    });
    for error in ended {
        let told = (error.kind(), error.rank());
        assert_eq!(told, (Kind::Cancelled, Some(Rank(0))), "{error}");
    }
}

#[test]
fn a_lost_edge_between_ranks_is_a_stall_that_names_the_task() {
    let space = Cholesky::new(4, (2, 2));
    let source = Task::Trsm { m: 3, k: 0 };
    let mutation = Mutation::Output(source, 2, Twist::Removed);
    let (ended, _) = across(4, (3, 1), || Mutant::new(&space, &mutation));
    for (result, _) in ended {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), Kind::Stalled, "{error}");
        let text = "Gemm { m: 3, n: 2, k: 0 } waits for A from Trsm { m: 3, k: 0 }";
        assert!(error.message().contains(text), "{error}");
        assert_eq!(
            error.rank(),
            Some(space.rank(Task::Gemm { m: 3, n: 2, k: 0 }))
        );
    }
}

#[test]
fn spaces_that_lie_across_ranks_end_in_an_error_or_right() {
    let space = Cholesky::new(4, (2, 2));
    let alone = Cholesky::new(4, (1, 1));
    run(&alone, &Inline).unwrap();
    // What goes home, and from where, stays on a rank, which knows no better.
    let home = |mutation: &Mutation<_>| match mutation {
        Mutation::Input(task, nth, _) => Homes::of(|homes| space.inputs(*task, homes)).0[*nth],
        Mutation::Output(task, nth, _) => Homes::of(|homes| space.successors(*task, homes)).0[*nth],
        _ => false,
    };
    let mut all = mutations(&space, 4, size::STRIDE);
    all.retain(|mutation| !home(mutation));
    for (at, mutation) in tried(&all, size::BY_MIRI).enumerate() {
        let (ended, _) = across(4, (at as u64, 2), || Mutant::new(&space, mutation));
        let failed = ended.iter().filter(|(result, _)| result.is_err()).count();
        assert!(
            failed == 0 || failed == 4,
            "{mutation:?}: {failed} ranks know of it"
        );
        if failed == 0 {
            let tiles = (0..4).flat_map(|m| (0..=m).map(move |n| (m, n)));
            for (at, (m, n)) in tiles.enumerate() {
                let left = ended[space.owner(m, n).0 as usize].1[at];
                assert_eq!(left, alone.outcome()[at], "{mutation:?}: tile ({m}, {n})");
            }
        }
    }
}

/// It listed all of its tasks, and looked at each, to explain a stall that nobody had asked about.
#[test]
fn a_rank_that_another_has_stopped_looks_for_no_stall_of_its_own() {
    /// The tasks of rank 1 wait for the one of rank 0, which panics when they do.
    #[derive(Default)]
    struct Waiting {
        are_waiting: AtomicBool,
        listed: AtomicU64,
    }
    impl TaskSpace for Waiting {
        type Task = u32;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("waiting").class("Task").order("FIRST");
        }
        fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
            self.listed.fetch_add(1, Ordering::Relaxed);
            (0..4).filter(move |&task| self.rank(task) == on)
        }
        fn roots(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
            self.are_waiting.fetch_or(on.0 > 0, Ordering::Relaxed);
            0..u32::from(on.0 == 0)
        }
        fn count(&self, on: Rank) -> u64 {
            if on.0 == 0 { 1 } else { 3 }
        }
        fn rank(&self, task: u32) -> Rank {
            Rank(task.min(1))
        }
        fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
            if task > 0 {
                from.task(0, 0, 0);
            }
        }
        fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
            if task == 0 {
                (1..4).for_each(|task| to.task(0, task, 0));
            }
        }
        fn run(&self, _: u32, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            while !self.are_waiting.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            panic!("out of luck")
        }
    }
    let space = Waiting::default();
    let (ended, _) = on_ranks(2, (1, 2), |courier| {
        run_across(&space, &Context::new(&Inline).across(courier)).unwrap_err()
    });
    for error in ended {
        assert_eq!(error.kind(), Kind::TaskPanicked, "{error}");
    }
    assert_eq!(space.listed.into_inner(), 0);
}

#[test]
fn a_task_without_data_crosses_ranks_too() {
    // Every task waits for both neighbours of the step before; columns go round the ranks.
    struct Steps {
        steps: u32,
        width: u32,
        n_ranks: u32,
        /// The task that fails, and how many ran that had to wait for it.
        fails: Option<(u32, u32)>,
        overtook: AtomicU64,
    }
    impl TaskSpace for Steps {
        type Task = (u32, u32);
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about
                .name("steps")
                .class("Step")
                .order("WEST")
                .order("OWN")
                .order("EAST");
        }
        fn tasks(&self, on: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
            let all = (0..self.steps).flat_map(|step| (0..self.width).map(move |at| (step, at)));
            all.filter(move |&task| self.rank(task) == on)
        }
        fn inputs(&self, (step, at): (u32, u32), from: &mut impl Inputs<Self>) {
            for (flow, at) in [(0, at.wrapping_sub(1)), (1, at), (2, at + 1)] {
                if step > 0 && at < self.width {
                    from.task(flow, (step - 1, at), 0);
                }
            }
        }
        fn successors(&self, (step, at): (u32, u32), to: &mut impl Successors<Self>) {
            for (flow, at) in [(2, at.wrapping_sub(1)), (1, at), (0, at + 1)] {
                if step + 1 < self.steps && at < self.width {
                    to.task(0, (step + 1, at), flow);
                }
            }
        }
        fn rank(&self, (_, at): (u32, u32)) -> Rank {
            Rank(at % self.n_ranks)
        }
        fn run(&self, task: (u32, u32), _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            let Some(fails) = self.fails else {
                return Ok(());
            };
            if task == fails {
                return Err("as told".into());
            }
            let waits = task.0 >= fails.0 && task.1.abs_diff(fails.1) <= task.0 - fails.0;
            self.overtook.fetch_add(waits.into(), Ordering::Relaxed);
            Ok(())
        }
    }
    let (steps, width) = size::STEPS;
    for n_ranks in 1..=size::N_RANKS {
        let mut space = Steps {
            steps,
            width,
            n_ranks,
            fails: None,
            overtook: AtomicU64::new(0),
        };
        verify(&space, n_ranks).unwrap();
        let (ended, crossed) = on_ranks(n_ranks, (9, 2), |courier| {
            run_across(&space, &Context::new(&Inline).across(courier))
                .unwrap()
                .tasks
        });
        assert_eq!(ended.iter().sum::<u64>(), u64::from(steps * width));
        assert_eq!(crossed.data, 0);
        space.fails = Some((0, 0));
        let (ended, _) = on_ranks(n_ranks, (9, 2), |courier| {
            run_across(&space, &Context::new(&Inline).across(courier)).unwrap_err()
        });
        assert!(ended.iter().all(|error| error.kind() == Kind::TaskFailed));
        assert_eq!(space.overtook.load(Ordering::Relaxed), 0);
    }
}

/// On two ranks every body ran twice.
#[test]
fn each_of_some_independent_tasks_runs_once_dealt_out_or_not() {
    for n_ranks in 1..=4 {
        for dealt in [false, true] {
            let runs: Vec<_> = (0..10).map(|_| AtomicU64::new(0)).collect();
            let (tasks, _) = on_ranks(n_ranks, (5, 2), |courier| {
                let space = Independent::new("some", 10, |task| {
                    runs[task as usize].fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
                let space = if dealt { space.across(n_ranks) } else { space };
                verify(&space, n_ranks).unwrap();
                let on = Context::new(&Inline);
                run_across(&space, &on.across(courier)).unwrap().tasks
            });
            let once = runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1);
            assert!(once, "{n_ranks} ranks: {runs:?}");
            let most = if dealt {
                10_u64.div_ceil(n_ranks.into())
            } else {
                10
            };
            assert_eq!(tasks.into_iter().max(), Some(most), "{n_ranks} ranks");
        }
    }
}

/// The task that the worker had run before was named.
#[test]
fn a_name_that_panics_when_it_arrives_is_not_taken_for_the_task_before() {
    /// Task 0 feeds task 2 on the other rank, where task 1 runs meanwhile.
    struct Nameless;
    impl TaskSpace for Nameless {
        type Task = u32;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("nameless").class("Task").order("IN");
        }
        fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
            dataflow_core::space::placed(self, on, 0..3)
        }
        fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
            if task == 2 {
                from.task(0, 0, 0);
            }
        }
        fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
            if task == 0 {
                to.task(0, 2, 0);
            }
        }
        fn rank(&self, task: u32) -> Rank {
            Rank(task.min(1))
        }
        fn run(&self, _: u32, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn named_by(&self, _: &[u32]) -> Option<u32> {
            panic!("no names")
        }
    }
    let (ended, _) = on_ranks(2, (1, 2), |courier| {
        run_across(&Nameless, &Context::new(&Inline).across(courier)).unwrap_err()
    });
    for error in ended {
        let told = (error.kind(), error.task(), error.message());
        let text = "panicked between tasks: no names";
        assert_eq!(told, (Kind::TaskPanicked, None, text));
    }
}

/// A body that called its failure `stalled` was told as a stall of the run, but on one rank as what it is.
#[test]
fn a_failing_body_is_of_the_same_kind_across_ranks_as_alone_whatever_name_it_gives() {
    type Body = fn(u64) -> Result<(), TaskError>;
    let bodies: [(&str, Body); 2] = [
        ("stalled", |_| Err(TaskError::new("stalled", "as told"))),
        ("task_panicked", |n| {
            scope_inside(&Inline, |s| s.task((), move |()| assert!(n > 0, "inside")))?;
            Ok(())
        }),
    ];
    for (name, body) in bodies {
        let space = Independent::new("failing", 1, body);
        let alone = run(&space, &Inline).unwrap_err();
        let (mut ended, _) = on_ranks(2, (1, 2), |courier| {
            run_across(&space, &Context::new(&Inline).across(courier)).unwrap_err()
        });
        ended.push(alone);
        for error in ended {
            let told = (error.kind(), error.name());
            assert_eq!(told, (Kind::TaskFailed, name), "{error}");
        }
    }
}

/// The run said that a root or an edge was missing.
#[test]
fn a_run_of_a_space_without_rank_is_told_so() {
    let (ended, _) = on_ranks(2, (1, 2), |courier| {
        run_across(&Forgetful, &Context::new(&Inline).across(courier)).unwrap_err()
    });
    for error in ended {
        let told = error.to_string();
        assert!(told.contains("has the space a method `rank`?"), "{told}");
    }
}

/// It was told that nothing was put into the slot, which the owner of the datum had filled: the space did not
/// say where tasks run, and so all ran on the first rank.
#[test]
fn a_datum_that_is_on_another_rank_is_told_with_the_rank_that_lacks_it() {
    struct Placeless(Store<Number>);
    task_space! {
        enum PlacelessTask;
        impl TaskSpace for Placeless {
            type Datum = Number;
            data X[i] where i < 2 in self.0 at i;

            for i in 0..2 {
                Add { i }: update x = X[i] => x.0 += 1;
            }
        }
    }
    let (ended, _) = on_ranks(2, (1, 8), |courier| {
        let space = Placeless(Store::empty("numbers", 2));
        let own = courier.rank().0;
        space.0.put(own as usize, Version::new(Number(1))).unwrap();
        run_across(&space, &Context::new(&Inline).across(courier)).unwrap_err()
    });
    for error in ended {
        let told = (error.kind(), error.rank(), error.task());
        assert_eq!(told, (Kind::HomeEmpty, Some(Rank(0)), Some("Add { i: 1 }")));
        assert_eq!(
            error.message(),
            "x of Add { i: 1 } is to come from slot 1 of numbers (2 slots), which is empty on rank 0, where \
             the task runs: nothing was put there, or it is lent already"
        );
    }
}

/// A space whose roots panicked when they were asked for unwound out of `run_across`, while the other ranks
/// were told that it was cancelled.
#[test]
fn roots_that_panic_when_they_are_asked_for_are_the_same_error_on_all_ranks() {
    struct Rootless;
    impl TaskSpace for Rootless {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("rootless").class("Task");
        }
        fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
            dataflow_core::space::placed(self, on, 0..2)
        }
        fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn roots(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
            assert!(on != Rank(1), "no roots here");
            self.tasks(on)
        }
        fn rank(&self, task: u64) -> Rank {
            Rank(task as u32)
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let all = || {
        on_ranks(2, (1, 2), |courier| {
            run_across(&Rootless, &Context::new(&Inline).across(courier)).unwrap_err()
        })
    };
    let (ended, _) = within(|| "roots that panic".to_string(), all);
    for error in ended {
        let told = (error.kind(), error.rank(), error.message());
        let text = "panicked between tasks: no roots here";
        assert_eq!(told, (Kind::TaskPanicked, Some(Rank(1)), text));
    }
}

/// Of all that a space says about a task, which is about home.
#[derive(Default)]
struct Homes(Vec<bool>);

impl Homes {
    fn of(ask: impl FnOnce(&mut Homes)) -> Homes {
        let mut homes = Homes::default();
        ask(&mut homes);
        homes
    }
}

impl Inputs<Cholesky> for Homes {
    fn task(&mut self, _: usize, _: Task, _: usize) {
        self.0.push(false);
    }
    fn home(&mut self, _: usize, _: &Store<Number>, _: usize) {
        self.0.push(true);
    }
}

impl Successors<Cholesky> for Homes {
    fn task(&mut self, _: usize, _: Task, _: usize) {
        self.0.push(false);
    }
    fn home(&mut self, _: usize, _: &Store<Number>, _: usize) {
        self.0.push(true);
    }
}

/// The run was none, and the rank that they were to come to had nothing.
#[test]
fn data_without_size_are_collected_too() {
    let (kept, _) = on_ranks(2, (3, 8), |courier| {
        let store = Store::empty("units", 3);
        let here = courier.rank().0 as usize;
        for at in (0..3).filter(|at| at % 2 == here) {
            store.put(at, Version::new(())).unwrap();
        }
        let places = |at: usize| (Rank(at as u32 % 2), at);
        let collect = Collect::new(&store, 3, &places, Rank(1));
        run_across(&collect, &Context::new(&Inline).across(courier)).unwrap();
        collect.into_data()
    });
    assert_eq!(kept, [None, Some(vec![(); 3])]);
}

/// Their number was cut to 32 bits: of 2³² + 1 one was left, and of 2³² none.
#[test]
fn a_courier_of_more_ranks_than_have_numbers_is_refused_and_so_is_one_of_none() {
    struct OneOf(usize);
    impl Courier for OneOf {
        fn rank(&self) -> Rank {
            Rank(0)
        }
        fn n_ranks(&self) -> usize {
            self.0
        }
        fn open(&self, _: &Terms, _: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error> {
            unreachable!("no run begins")
        }
    }
    struct Leaf;
    impl Recursive for Leaf {
        type Argument = u64;
        type Value = u64;
        fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
            Ok(Call::Done(n))
        }
    }
    for n_ranks in [0, 1 << 32, (1 << 32) + 1, usize::MAX] {
        let courier = OneOf(n_ranks);
        let on = Context::new(&Inline).across(&courier);
        let space = Independent::new("task", 1, |_| Ok(()));
        let refused = [
            run_across(&space, &on).unwrap_err(),
            recurse_across(&Leaf, 1, &on).unwrap_err(),
        ];
        let text = format!("the courier is one of {n_ranks} ranks (1 to 4294967295 are allowed)");
        for error in refused {
            let told = (error.kind(), error.message());
            assert_eq!(told, (Kind::WrongSettings, &text[..]));
        }
    }
}
