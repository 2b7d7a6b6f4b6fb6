//! Lists of tasks and roots, counts, classes and places that are wrong.

use super::*;

#[test]
fn a_count_that_is_wrong_is_told() {
    ends_in(
        &Table {
            count: Some(3),
            ..pair()
        },
        Kind::Stalled,
        &["1 of 3", "ever reached"],
    );
    ends_in(
        &Table {
            count: Some(1),
            ..pair()
        },
        Kind::CountExceeded,
        &["1"],
    );
    ends_in(
        &Table {
            count: Some(0),
            ..pair()
        },
        Kind::CountExceeded,
        &["0"],
    );
    ends_in(
        &Table {
            count: Some(u64::MAX),
            ..pair()
        },
        Kind::Stalled,
        &["ever reached"],
    );
}

/// A worker that looked for roots held a lock for which the others waited, while tasks were ready.
#[test]
fn whoever_looks_for_roots_keeps_nobody_from_ready_tasks() {
    /// Task 0 is before 1 and 2, which wait for one another; the next root is looked for until then.
    struct Slow {
        met: AtomicU32,
    }
    impl Slow {
        fn wait(&self) -> bool {
            let begin = Instant::now();
            while self.met.load(Relaxed) < 2 && begin.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            self.met.load(Relaxed) == 2
        }
    }
    impl TaskSpace for Slow {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("slow").class("Task").order("AFTER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..3
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task > 0 {
                from.task(0, 0, 0);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            if task == 0 {
                (1..3).for_each(|task| to.task(0, task, 0));
            }
        }
        fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            // Two, so that no worker has both in its first chunk.
            (0..2).filter(|&root| root == 0 || !self.wait())
        }
        fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            if task > 0 {
                self.met.fetch_add(1, Relaxed);
                return if self.wait() {
                    Ok(())
                } else {
                    Err("alone".into())
                };
            }
            Ok(())
        }
    }
    let met = AtomicU32::new(0);
    run(&Slow { met }, &Shuffled::new(1).with_threads(3)).unwrap();
}

#[test]
fn roots_that_are_missing_doubled_or_no_roots_are_told() {
    ends_in(
        &Table {
            roots: Some(vec![]),
            ..pair()
        },
        Kind::Stalled,
        &["2 of 2", "ever reached"],
    );
    ends_in(
        &Table {
            roots: Some(vec![1]),
            ..pair()
        },
        Kind::FlowEmpty,
        &["MAIN", "task: 1"],
    );
    // Doubled: slot 0 is taken a second time while lent, or everything runs twice.
    let doubled = Table {
        roots: Some(vec![0, 0]),
        ..pair()
    };
    for (name, executor) in executors() {
        let told = Told::new(doubled.clone());
        let error = within(|| name.clone(), || run(&told, &*executor)).unwrap_err();
        assert!(
            matches!(error.kind(), Kind::HomeEmpty | Kind::CountExceeded),
            "{error}"
        );
        assert!(told.store.get(0).is_some());
    }
}

#[test]
fn flows_and_classes_that_are_not_described_are_told() {
    ends_in(
        &Table { class: 5, ..pair() },
        Kind::NotDescribed,
        &["class 5", "task: 0"],
    );
    let mut table = pair();
    table.tasks[0].1.push(Home(6, 0));
    ends_in(&table, Kind::NotDescribed, &["flow 6", "task: 0"]);
    for &flow in size::FLOWS {
        let mut table = pair();
        table.tasks[0].1.push(Task(AFTER, 1, flow));
        table.tasks[1].0.push(Task(flow, 0, AFTER));
        ends_in(&table, Kind::NotDescribed, &["task: 1"]);
        let mut table = pair();
        table.tasks[0].1[0] = Task(flow, 1, MAIN);
        table.tasks[1].0[0] = Task(MAIN, 0, flow);
        ends_in(&table, Kind::NotDescribed, &["task: 0"]);
        let mut table = pair();
        table.tasks[0].0[0] = Home(flow, 0);
        ends_in(&table, Kind::NotDescribed, &["task: 0"]);
    }
}

#[test]
fn a_task_placed_elsewhere_is_told() {
    ends_in(
        &Table {
            elsewhere: vec![1],
            ..pair()
        },
        Kind::NoSuchRank,
        &["task: 1", "rank 1"],
    );
}

#[test]
fn tasks_dealt_out_to_more_ranks_than_there_are_are_refused_and_not_left_out() {
    let space = Independent::new("squares", 100, |_| Ok(()));
    assert!(run(&space.clone().across(1), &Inline).is_ok());
    let error = run(&space.clone().across(3), &Inline).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSuchRank);
    let text = error.to_string();
    assert!(
        text.contains("squares") && text.contains("3 ranks, and there are 1"),
        "{text}"
    );
    let fault = verify(&space.clone().across(3), 2).unwrap_err().to_string();
    assert!(fault.contains("3 ranks, and there are 2"), "{fault}");
    verify(&space.across(3), 3).unwrap();
}

#[test]
fn a_space_without_rank_is_told_so_on_several_ranks() {
    let told = verify(&Forgetful, 2).unwrap_err().to_string();
    assert!(told.contains("has the space a method `rank`?"), "{told}");
}

/// Tasks in a row, without data. More may be listed, or announced, than there are.
#[derive(Clone, Copy)]
struct Boundless {
    first: u64,
    n_listed: u64,
    /// How often the first is announced.
    n_roots: usize,
    /// Whether the second waits for one more, which nobody sends.
    starves: bool,
}

impl Boundless {
    const N_TASKS: u64 = 3;
}

impl TaskSpace for Boundless {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about.class("Task").order("AFTER").order("UNFED");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        self.first..self.first + self.n_listed
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > self.first {
            from.task(0, task - 1, 0);
        }
        if self.starves && task == self.first + 1 {
            from.task(1, task + Self::N_TASKS, 0);
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task + 1 < self.first + Self::N_TASKS {
            to.task(0, task + 1, 0);
        }
    }
    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }
    fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        std::iter::repeat_n(self.first, self.n_roots)
    }
    fn count(&self, _: Rank) -> u64 {
        Self::N_TASKS
    }
    fn index(&self, task: u64) -> Option<usize> {
        Some((task - self.first) as usize)
    }
}

/// Whoever asked what was wrong, or what a trace was to show, looked at all that is listed.
#[test]
fn a_list_of_tasks_or_roots_without_an_end_hides_no_failure() {
    let right = Boundless {
        first: 0,
        n_listed: Boundless::N_TASKS,
        n_roots: 1,
        starves: false,
    };
    verify(&right, 1).unwrap();
    run(&right, &Inline).unwrap();
    let listed = Boundless {
        n_listed: 1 << 40,
        ..right
    };
    let starved = Boundless {
        starves: true,
        ..listed
    };
    let unreached = Boundless {
        n_roots: 0,
        ..listed
    };
    // Names of so many bits have no number.
    let wide = Boundless {
        first: 1 << 62,
        ..starved
    };
    let announced = Boundless {
        n_roots: usize::MAX,
        ..right
    };
    for (space, kind, words) in [
        (starved, Kind::Stalled, "2 of 3 have not; 1 waits for UNFED"),
        (unreached, Kind::Stalled, "ever reached"),
        (wide, Kind::Stalled, "5 waits for UNFED"),
        (announced, Kind::CountExceeded, "root 0 is announced twice"),
    ] {
        let tracer = Tracer::new(1 << 16);
        let traced = Context::new(&Inline).traced_by(&tracer);
        let error = within(|| words.into(), || run(&space, &traced)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// The graph that edges tell is 0 before 1. In place of 1 another is listed, which nobody feeds.
struct Renamed<D> {
    listed: u64,
    is_numbered: bool,
    datum: fn() -> Option<D>,
}

impl<D: dataflow_core::data::Datum> TaskSpace for Renamed<D> {
    type Task = u64;
    type Datum = D;
    fn describe(&self, about: &mut Description) {
        about.class("Task").order("IN").new_flow("OUT");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        [0, self.listed].into_iter()
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        match task {
            0 => {}
            1 => from.task(0, 0, 0),
            _ => from.task(0, task + 1, 0),
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task == 0 {
            to.task(0, 1, 0);
        }
    }
    fn run(&self, _: u64, flows: &mut Flows<'_, D>) -> Result<(), TaskError> {
        let _ = (flows, self.datum);
        Ok(())
    }
    fn index(&self, task: u64) -> Option<usize> {
        self.is_numbered.then_some(task as usize)
    }
}

/// As many ran as are listed, and the run ended well.
#[test]
fn debug_builds_tell_that_another_task_ran_in_place_of_one_that_is_listed() {
    fn told<D: dataflow_core::data::Datum>(datum: fn() -> Option<D>) {
        for is_numbered in [false, true] {
            let space = |listed| Renamed {
                listed,
                is_numbered,
                datum,
            };
            for (name, executor) in executors() {
                within(|| name.clone(), || run(&space(1), &*executor)).unwrap();
                let error = within(|| name.clone(), || run(&space(2), &*executor)).unwrap_err();
                assert_eq!(error.kind(), Kind::Stalled, "{error}");
                let text = error.to_string();
                let expected =
                    "all 2 tasks ran on rank 0, and they are not those that `tasks` lists; ";
                assert!(text.starts_with(expected), "{text}");
            }
        }
    }
    if cfg!(debug_assertions) {
        told::<()>(|| None);
        told::<Number>(|| None);
    }
}
