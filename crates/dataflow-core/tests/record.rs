//! Recorded programs: run again and again and across ranks, they do what their order says, and send
//! a version to a rank once.

mod specimen;

use dataflow_core::Report;
use dataflow_core::error::Kind;
use dataflow_core::monitor::{Monitor, Progress};
use dataflow_core::port::{Context, Executor, Inline, Job, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::sequence::record::{Home, Recorded, Recorder, record};
use dataflow_core::sequence::{commute, read, scope, write};
use proptest::prelude::*;
use specimen::Number;
use specimen::curious::{Asking, Placed};
use specimen::ranks::on_ranks;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const N_DATA: usize = 6;
/// Random programs, and of how many tasks each has fewer: few under Miri.
const N_PROGRAMS: u32 = if cfg!(miri) { 3 } else { 100 };
const N_TASKS: usize = if cfg!(miri) { 8 } else { 40 };
const N_RANKS: usize = if cfg!(miri) { 3 } else { 4 };

/// A task: with which data it does what.
type Program = Vec<Vec<(usize, Does)>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Reads,
    Writes,
    Commutes,
}

fn programs() -> impl Strategy<Value = Program> {
    let does = prop_oneof![
        Just(Does::Reads),
        Just(Does::Reads),
        Just(Does::Writes),
        Just(Does::Commutes)
    ];
    let task = prop::collection::vec((0..N_DATA, does), 1..=4);
    prop::collection::vec(task, 0..N_TASKS)
}

/// Tasks that fail, by number, and with which index.
type Failing = BTreeMap<usize, u64>;

fn owner(datum: usize, n_ranks: usize) -> usize {
    datum * 7 / 3 % n_ranks
}

/// The accesses of a task, each datum once, and all that is written of one owner.
fn accesses(task: &[(usize, Does)], n_ranks: usize) -> Vec<(usize, Does)> {
    let mut task = task.to_vec();
    task.sort_by_key(|(datum, _)| *datum);
    task.dedup_by_key(|(datum, _)| *datum);
    let written = task.iter().find(|(_, does)| *does != Does::Reads);
    let owner_of_all = written.map(|(datum, _)| owner(*datum, n_ranks));
    for (datum, does) in &mut task {
        if Some(owner(*datum, n_ranks)) != owner_of_all {
            *does = Does::Reads;
        }
    }
    task
}

/// A value that tells every lost, doubled or swapped access.
fn mix(value: u64, with: u64) -> u64 {
    (value ^ with.rotate_left(17))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
}

/// What a program with failing tasks leaves, and the number of the one that is reported. Whoever
/// accesses what a failed task has changed, or a task that was skipped, is skipped.
fn failed(program: &Program, failing: &Failing) -> (Vec<u64>, Option<usize>) {
    let mut data = vec![1; N_DATA];
    let mut spoilt = [false; N_DATA];
    let mut failed = Vec::new();
    for (number, task) in program.iter().enumerate() {
        let task = accesses(task, 1);
        let skipped = task.iter().any(|(datum, _)| spoilt[*datum]);
        let fails = failing.get(&number).filter(|_| !skipped);
        failed.extend(fails.map(|index| (*index, number)));
        let value = task
            .iter()
            .fold(number as u64, |value, (datum, _)| mix(value, data[*datum]));
        for (datum, _) in task.iter().filter(|(_, does)| *does != Does::Reads) {
            spoilt[*datum] |= skipped || fails.is_some();
            if !skipped {
                data[*datum] = mix(value, data[*datum]);
            }
        }
    }
    (data, failed.into_iter().min().map(|(_, number)| number))
}

/// So many times one after the other; and how often a version is read on a rank that is not its
/// owner's, in one of them.
fn interpreted(program: &Program, times: usize, n_ranks: usize) -> (Vec<u64>, u64) {
    let mut data = vec![1; N_DATA];
    let mut crossed = BTreeSet::new();
    for _ in 0..times {
        let mut version = [0; N_DATA];
        for (number, task) in program.iter().enumerate() {
            let task = accesses(task, n_ranks);
            let written = task.iter().find(|(_, does)| *does != Does::Reads);
            let here = owner(written.unwrap_or(&task[0]).0, n_ranks);
            let value = task
                .iter()
                .fold(number as u64, |value, (datum, _)| mix(value, data[*datum]));
            for (datum, does) in task {
                match does {
                    Does::Reads if owner(datum, n_ranks) != here => {
                        crossed.insert((datum, version[datum], here));
                    }
                    Does::Reads => {}
                    Does::Writes | Does::Commutes => {
                        data[datum] = mix(value, data[datum]);
                        version[datum] += 1;
                    }
                }
            }
        }
    }
    (data, crossed.len() as u64)
}

fn numbers() -> Store<Number> {
    Store::new("numbers", [1; N_DATA].map(Number))
}

fn values(store: &Store<Number>) -> Vec<u64> {
    (0..N_DATA)
        .map(|datum| store.get(datum).unwrap().0)
        .collect()
}

fn insert<'env>(
    (program, failing): (&Program, &Failing),
    r: &Recorder<'_, 'env, Number>,
    store: &'env Store<Number>,
) {
    let n_ranks = r.n_ranks();
    let homes: Vec<_> = (0..N_DATA)
        .map(|datum| r.home(store, datum, Rank(owner(datum, n_ranks) as u32)))
        .collect();
    for (number, task) in program.iter().enumerate() {
        let accesses = accesses(task, n_ranks);
        let of = |kind: Does| accesses.iter().filter(move |(_, does)| *does == kind);
        let reads: Vec<_> = of(Does::Reads)
            .map(|(datum, _)| read(&homes[*datum]))
            .collect();
        let writes: Vec<_> = of(Does::Writes)
            .map(|(datum, _)| write(&homes[*datum]))
            .collect();
        let commutes: Vec<_> = of(Does::Commutes)
            .map(|(datum, _)| commute(&homes[*datum]))
            .collect();
        let order: Vec<_> = accesses.iter().map(|(_, does)| *does).collect();
        let fails = failing.get(&number).copied();
        let task = r.priority(number as i64 % 3);
        task.task(
            (reads, writes, commutes),
            move |(reads, writes, commutes)| {
                let (mut read, mut write, mut commute) =
                    (reads.iter(), writes.iter(), commutes.iter());
                let value = order.iter().fold(number as u64, |value, does| {
                    let datum = match does {
                        Does::Reads => read.next().map(|datum| datum.0),
                        Does::Writes => write.next().map(|datum| datum.0),
                        Does::Commutes => commute.next().map(|datum| datum.0),
                    };
                    mix(value, datum.unwrap())
                });
                for datum in writes.into_iter().chain(commutes) {
                    datum.0 = mix(value, datum.0);
                }
                match fails {
                    Some(index) => Err(TaskError::new("odd", "as told").with_index(index)),
                    None => Ok(()),
                }
            },
        );
    }
}

fn recorded<'env>(
    program: (&Program, &Failing),
    n_ranks: usize,
    store: &'env Store<Number>,
) -> Recorded<'env, Number> {
    let recorded = record("random", n_ranks, |r| insert(program, r, store)).unwrap();
    verify(&recorded, n_ranks).unwrap_or_else(|fault| panic!("{fault}"));
    recorded
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: N_PROGRAMS,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_recorded_program_does_what_its_order_says_as_often_as_it_runs(program in programs(), seed: u64) {
        let (expected, _) = interpreted(&program, 3, 1);
        let shuffled = Shuffled::new(seed);
        let executors: [&dyn Executor; 3] = [&Inline, &shuffled, &shuffled.with_threads(3)];
        for on in executors {
            let store = numbers();
            let recorded = recorded((&program, &Failing::new()), 1, &store);
            // In place, as a space that copies, and in place again.
            recorded.run(on).unwrap();
            dataflow_core::run(&recorded, on).unwrap();
            let report = recorded.run(on).unwrap();
            prop_assert_eq!(report.tasks, program.len() as u64);
            prop_assert_eq!(report.copies(), 0);
            prop_assert_eq!(&values(&store), &expected);
        }
    }

    #[test]
    fn of_failing_tasks_the_smallest_is_reported_and_what_it_did_not_touch_is_done(
        program in programs(),
        failing in prop::collection::btree_map(0..40usize, 0..3u64, 1..6),
        seed: u64,
    ) {
        let (expected, reported) = failed(&program, &failing);
        let reported = reported.map(|number| format!("task {number}"));
        let shuffled = Shuffled::new(seed);
        let executors: [&dyn Executor; 3] = [&Inline, &shuffled, &shuffled.with_threads(3)];
        for on in executors {
            let (store, copied) = (numbers(), numbers());
            let ended = recorded((&program, &failing), 1, &store).run(on);
            let error = ended.as_ref().err();
            prop_assert_eq!(error.and_then(|error| error.task()), reported.as_deref());
            prop_assert_eq!(&values(&store), &expected);
            let as_space = dataflow_core::run(&recorded((&program, &failing), 1, &copied), on);
            prop_assert_eq!(as_space.is_err(), ended.is_err());
            prop_assert_eq!(&values(&copied), &expected, "as a space");
        }
    }

    #[test]
    fn across_ranks_too_and_each_version_goes_to_a_rank_once(program in programs(), seed: u64) {
        for n_ranks in 1..=N_RANKS {
            let (expected, crossed) = interpreted(&program, 1, n_ranks);
            let (parts, sent) = on_ranks(n_ranks as u32, (seed, 8), |courier| {
                let store = numbers();
                let recorded = recorded((&program, &Failing::new()), n_ranks, &store);
                let on = Shuffled::new(seed).with_threads(1 + courier.rank().0 as usize % 2);
                recorded.run_across(&Context::new(&on).across(courier)).unwrap();
                values(&store)
            });
            let data = (0..N_DATA).map(|datum| parts[owner(datum, n_ranks)][datum]);
            prop_assert_eq!(data.collect::<Vec<_>>(), expected, "{} ranks", n_ranks);
            prop_assert_eq!(sent.data, crossed, "{} ranks", n_ranks);
        }
    }
}

#[test]
fn a_gathered_datum_is_on_every_rank_as_it_was_at_that_place() {
    let (values, _) = on_ranks(3, (1, 8), |courier| {
        let store = numbers();
        let mut gathered = Vec::new();
        let recorded = record("gather", 3, |r| {
            let home = r.home(&store, 0, Rank(1));
            for factor in [2, 3, 5] {
                r.task(write(&home), move |number| number.0 *= factor);
                gathered.push(r.gather(&home));
            }
        });
        recorded
            .unwrap()
            .run_across(&Context::new(&Inline).across(courier))
            .unwrap();
        gathered
            .iter()
            .map(|gathered| gathered.take().unwrap().0)
            .collect::<Vec<_>>()
    });
    assert_eq!(values, [[2, 6, 30], [2, 6, 30], [2, 6, 30]]);
}

/// The value of the run before was still there.
/// What is gathered was a task of the program for each rank.
#[test]
fn a_task_is_called_by_the_same_number_on_any_number_of_ranks() {
    for n_ranks in [1, 3] {
        let store = Store::new("number", [0u64]);
        let recorded = record("steps", n_ranks, |r| {
            let home = r.home(&store, 0, Rank(0));
            for step in 0..3 {
                r.name("step").task(write(&home), move |_| match step {
                    2 => Err("the last fails"),
                    _ => Ok(()),
                });
                r.gather(&home);
            }
        });
        let recorded = recorded.unwrap();
        assert_eq!(recorded.n_tasks(), 3 + 3 * n_ranks as u64);
        let names: BTreeSet<_> = (0..n_ranks as u32)
            .flat_map(|rank| recorded.tasks(Rank(rank)))
            .map(|task| recorded.name_of(task))
            .collect();
        let expected = (0..3).flat_map(|step| [("step", 2 * step), ("gather", 2 * step + 1)]);
        assert_eq!(names, expected.collect());
    }
}

#[test]
fn what_a_run_does_not_come_to_is_not_gathered_though_an_earlier_run_came_there() {
    for n_ranks in [1, 2] {
        let (gathered, _) = on_ranks(n_ranks, (1, 8), |courier| {
            let (store, fails) = (numbers(), AtomicU64::new(0));
            let mut gathered = None;
            let recorded = record("gather", n_ranks as usize, |r| {
                let home = r.home(&store, 0, Rank(n_ranks - 1));
                r.task(write(&home), |number| match fails.load(Ordering::Relaxed) {
                    0 => {
                        number.0 += 1;
                        Ok(())
                    }
                    _ => Err("as told"),
                });
                gathered = Some(r.gather(&home));
            });
            let (recorded, gathered) = (recorded.unwrap(), gathered.unwrap());
            let on = Context::new(&Inline).across(courier);
            let mut taken = Vec::new();
            for (does_fail, takes) in [(0, true), (0, false), (1, true), (0, true)] {
                fails.store(does_fail, Ordering::Relaxed);
                let ended = recorded.run_across(&on);
                assert_eq!(ended.is_err(), does_fail == 1);
                if takes {
                    taken.push(gathered.take().map(|number| number.0));
                }
            }
            taken
        });
        for taken in gathered {
            assert_eq!(taken, [Some(2), None, Some(4)], "{n_ranks} ranks");
        }
    }
}

/// Which task fetches a datum, and where, depends on them.
#[test]
fn the_owners_of_its_data_are_among_what_ranks_compare_of_a_program() {
    let store = numbers();
    let terms = |owner| {
        let recorded = record("owned", 2, |r| {
            let home = r.home(&store, 0, Rank(owner));
            r.name("looks").on(Rank(0)).task(read(&home), |_| ());
        });
        let mut about = Description::default();
        recorded.unwrap().describe(&mut about);
        about.parameters().to_vec()
    };
    assert_eq!(terms(1), terms(1));
    assert_ne!(terms(0), terms(1));
}

/// Tasks of the ranks that were not there were left out, and nothing was said.
#[test]
fn a_program_with_tasks_of_ranks_that_are_not_there_does_not_run() {
    let store = numbers();
    let recorded = |ranks: &[u32]| {
        let program = record("for three", 3, |r| {
            for (slot, rank) in ranks.iter().enumerate() {
                let home = r.home(&store, slot, Rank(*rank));
                r.task(write(&home), |number| number.0 += 1);
            }
        });
        program.unwrap()
    };
    let before = values(&store);
    let one = recorded(&[0, 1, 2, 1]).run(&Inline).unwrap_err();
    assert_eq!(one.kind(), Kind::NoSuchRank);
    let text = "deals its tasks out to 3 ranks, and there are 1";
    assert!(one.message().contains(text), "{one}");
    // As any other space, which left them out silently.
    let plain = dataflow_core::run(&recorded(&[0, 1, 2, 1]), &Inline).unwrap_err();
    assert_eq!(plain.kind(), Kind::NoSuchRank, "{plain}");
    let across = |n_ranks, ranks: &[u32]| {
        let (ended, _) = on_ranks(n_ranks, (1, 8), |courier| {
            let on = Context::new(&Inline).across(courier);
            let report = recorded(ranks).run_across(&on);
            report
                .map(|report| report.tasks)
                .map_err(|error| error.kind())
        });
        ended
    };
    assert_eq!(across(1, &[0, 1]), [Err(Kind::NoSuchRank)]);
    assert_eq!(across(2, &[0, 1, 2]), [Err(Kind::NoSuchRank); 2]);
    assert_eq!(values(&store), before, "nothing ran");
    // Of the ranks that are not there it needs none.
    assert_eq!(across(1, &[0, 0]), [Ok(2)]);
    assert_eq!(across(2, &[0, 1, 1]), [Ok(1), Ok(2)]);
}

#[test]
fn what_a_recorder_does_not_take_is_a_named_error() {
    let store = numbers();
    type Insert<'i> = &'i dyn for<'c> Fn(&Recorder<'c, '_, Number>, &[Home<'c, Number>]);
    let fault = |program: Insert<'_>| {
        let recorded = record("wrong", 2, |r| {
            let homes = [0, 1, 2].map(|rank| r.home(&store, rank, Rank(rank as u32)));
            r.task(write(&homes[0]), |_| ());
            program(r, &homes);
        });
        let error = recorded.unwrap_err();
        let task = error.task().unwrap_or_default().to_string();
        (error.kind(), task, error.to_string())
    };
    let (kind, task, text) = fault(&|r, homes| {
        r.name("both")
            .task((write(&homes[0]), write(&homes[1])), |_| ())
    });
    assert_eq!((kind, &*task), (Kind::OwnersDiffer, "both 1"), "{text}");
    let both = "it writes slot 0 of numbers, of rank 0, and slot 1 of numbers, of rank 1";
    assert!(text.starts_with(both), "{text}");
    let (kind, task, text) = fault(&|r, homes| {
        r.name("away").on(Rank(1)).task(write(&homes[0]), |_| ());
    });
    assert_eq!((kind, &*task), (Kind::OwnersDiffer, "away 1"));
    let written = "it writes slot 0 of numbers, of rank 0, and was put on rank 1";
    assert!(text.starts_with(written), "{text}");
    let (kind, task, text) = fault(&|r, homes| {
        r.name("twice")
            .task((read(&homes[0]), write(&homes[0])), |_| ())
    });
    assert_eq!((kind, &*task), (Kind::AccessedTwice, "twice 1"));
    assert!(
        text.starts_with("it accesses slot 0 of numbers twice"),
        "{text}"
    );
    let (kind, _, text) = fault(&|r, homes| r.task(write(&homes[2]), |_| ()));
    assert_eq!(kind, Kind::NoSuchRank);
    assert!(text.contains("there are 2 ranks"), "{text}");
    let (kind, task, text) = fault(&|r, homes| {
        let looks = r.name("looks").on(Rank(0));
        looks.task((read(&homes[1]), read(&homes[2])), |_| ());
    });
    assert_eq!((kind, &*task), (Kind::NoSuchRank, "looks 1"));
    let read = "it reads slot 2 of numbers, of rank 2 (there are 2 ranks)";
    assert!(text.starts_with(read), "{text}");
    let (kind, task, text) = fault(&|r, homes| _ = r.gather(&homes[2]));
    assert_eq!((kind, &*task), (Kind::NoSuchRank, "gather 1"), "{text}");
    // What was refused left nothing behind: the same data, rightly written.
    let shuffled = Shuffled::new(2);
    let executors: [&dyn Executor; 3] = [&Inline, &shuffled, &shuffled.with_threads(2)];
    for on in executors {
        let recorded = record("right", 1, |r| {
            let homes = [0, 1].map(|datum| r.home(&store, datum, Rank(0)));
            r.task((write(&homes[0]), write(&homes[1])), |(a, b)| {
                (a.0, b.0) = (a.0 + 1, b.0 + 1);
            });
        });
        recorded.unwrap().run(on).unwrap();
    }
    assert_eq!(values(&store), [4, 4, 1, 1, 1, 1]);
}

#[test]
fn what_a_recorded_body_ends_in_names_the_program_s_task() {
    for panics in [false, true] {
        let store = numbers();
        let recorded = record("failing", 1, |r| {
            let [a, b] = [0, 1].map(|datum| r.home(&store, datum, Rank(0)));
            r.task(read(&a), |_| ());
            r.name("bad")
                .task((read(&a), write(&b)), move |_| match panics {
                    true => panic!("out of luck"),
                    false => Err(TaskError::new("odd", "as told").with_index(3)),
                });
            r.task(write(&b), |_| -> () {
                unreachable!("it depends on what failed")
            });
        })
        .unwrap();
        for _ in 0..2 {
            let error = recorded.run(&Inline).unwrap_err();
            assert_eq!(error.task(), Some("bad 1"));
            let kind = if panics {
                Kind::TaskPanicked
            } else {
                Kind::TaskFailed
            };
            assert_eq!(error.kind(), kind);
            assert_eq!(values(&store), [1; N_DATA], "all is at home again");
        }
        let as_space = dataflow_core::run(&recorded, &Inline);
        for ended in [recorded.run_across(&Inline), as_space] {
            assert_eq!(ended.unwrap_err().task(), Some("bad 1"));
        }
    }
}

#[test]
fn what_a_run_was_ended_in_is_at_home_as_its_tasks_have_left_it_and_runs_again() {
    let shuffled = Shuffled::new(1).with_threads(2);
    for on in [&Inline as &dyn Executor, &shuffled] {
        let (store, what) = (numbers(), AtomicU64::new(0));
        let monitors = [Monitor::new(), Monitor::new(), Monitor::new()];
        let recorded = record("ended", 1, |r| {
            let [a, b] = [0, 1].map(|datum| r.home(&store, datum, Rank(0)));
            r.task(write(&a), |a| a.0 *= 2);
            r.name("middle").task((read(&a), write(&b)), |(a, b)| {
                b.0 += a.0;
                match what.load(Ordering::Relaxed) {
                    0 => panic!("out of luck"),
                    1 => monitors[1].cancel(),
                    _ => {}
                }
            });
            r.task(write(&a), |a| a.0 += 1);
        })
        .unwrap();
        let ended = monitors.each_ref().map(|monitor| {
            let ended = recorded.run(&Context::new(on).watched_by(monitor));
            what.fetch_add(1, Ordering::Relaxed);
            let kind = ended.as_ref().map_err(|error| error.kind());
            let [a, b, ..] = values(&store)[..] else {
                unreachable!("there are {N_DATA}")
            };
            (
                kind.map(|report| report.tasks),
                monitor.progress().done,
                a,
                b,
            )
        });
        assert_eq!(ended[0], (Err(Kind::TaskPanicked), 1, 2, 3));
        assert_eq!(ended[1], (Err(Kind::Cancelled), 2, 4, 7));
        assert_eq!(ended[2], (Ok(3), 3, 9, 15));
        let Progress { done, count, .. } = monitors[2].progress();
        assert_eq!((done, count), (3, Some(3)));
    }
}

/// Each access was compared with each other.
#[test]
fn a_recorded_task_with_many_accesses_may_name_none_twice() {
    let n = if cfg!(miri) { 40 } else { 20_000 };
    for twice in [false, true] {
        let store = Store::new("many", (0..n as u64).map(Number));
        let recorded = record("many", 1, |r| {
            let homes: Vec<_> = (0..n).map(|at| r.home(&store, at, Rank(0))).collect();
            let mut all: Vec<_> = homes.iter().map(write).collect();
            if twice {
                all.push(write(&homes[n / 2]));
            }
            r.task(all, |all| all.into_iter().for_each(|number| number.0 += 1));
        });
        let kind = recorded.as_ref().err().map(|error| error.kind());
        assert_eq!(kind, twice.then_some(Kind::AccessedTwice));
        if let Ok(recorded) = recorded {
            recorded.run(&Inline).unwrap();
            assert_eq!(store.get(n - 1).unwrap().0, n as u64);
        }
    }
}

#[test]
fn a_slot_that_two_handles_name_is_told_if_tasks_use_both() {
    let store = numbers();
    let fault = |n_ranks: usize, both: bool| {
        let recorded = record("twice", n_ranks, |r| {
            let last = Rank(n_ranks as u32 - 1);
            let [a, b] = [1, 1].map(|index| r.home(&store, index, last));
            r.task(write(&a), |a| a.0 += 1);
            if both {
                r.task(write(&b), |b| b.0 += 1);
            }
        });
        recorded
            .err()
            .map(|error| (error.kind(), error.to_string()))
    };
    let (kind, text) = fault(1, true).expect("one slot by two handles");
    assert_eq!(kind, Kind::PutTwice);
    assert!(
        text.contains("slot 1 of numbers is named by two `home`s"),
        "{text}"
    );
    assert_eq!(fault(1, false), None);
    assert_eq!(
        fault(2, true),
        None,
        "slots of other ranks have no number here"
    );
}

#[test]
fn a_datum_that_is_not_at_home_is_named_before_anything_runs() {
    let store = numbers();
    let recorded = record("lent", 1, |r| {
        let [a, b, _unused] = [0, 1, usize::MAX].map(|at| r.home(&store, at, Rank(0)));
        r.task(write(&a), |a| a.0 += 1);
        r.name("second")
            .task((write(&a), read(&b)), |(a, b)| a.0 += b.0);
    })
    .unwrap();
    let lent = store.take(1).unwrap();
    let error = recorded.run(&Inline).unwrap_err();
    assert_eq!(
        (error.kind(), error.task()),
        (Kind::HomeEmpty, Some("second 1"))
    );
    let datum =
        "datum 1 of the program is to come from slot 1 of numbers (6 slots), which is empty";
    assert!(error.to_string().contains(datum), "{error}");
    drop(lent);
    assert_eq!(values(&store), [1; N_DATA]);
    recorded.run(&Inline).unwrap();
    assert_eq!(values(&store)[0], 3);
}

#[test]
fn whoever_holds_a_version_keeps_it_and_what_is_changed_is_copied_once() {
    let store = numbers();
    let recorded = record("held", 1, |r| {
        let [a, b] = [0, 1].map(|at| r.home(&store, at, Rank(0)));
        for _ in 0..2 {
            let task = r.name("adds");
            task.task((write(&a), read(&b)), |(a, b)| a.0 += b.0);
        }
    })
    .unwrap();
    let held = [0, 1].map(|at| store.get(at).unwrap());
    let report = recorded.run(&Inline).unwrap();
    assert_eq!((held[0].0, values(&store)[0]), (1, 3));
    let copies = report.copies_by_class.into_iter();
    let copies: Vec<_> = copies.filter(|(_, copies)| *copies > 0).collect();
    assert_eq!(copies, [("adds".to_string(), 1)]);
    assert_eq!(recorded.run(&Inline).unwrap().copies(), 0);
}

#[test]
fn a_task_may_read_many_and_a_datum_be_read_by_many() {
    let many = if cfg!(miri) { 20 } else { 300 };
    let store = Store::new("numbers", [0].repeat(many + 1).into_iter().map(Number));
    let recorded = record("many", 1, |r| {
        let homes: Vec<_> = (0..=many).map(|at| r.home(&store, at, Rank(0))).collect();
        let (sum, addends) = homes.split_last().unwrap();
        for addend in addends {
            r.task((read(sum), write(addend)), |(sum, addend)| {
                addend.0 = sum.0 + 1;
            });
        }
        let all: Vec<_> = addends.iter().map(read).collect();
        r.task((all, write(sum)), |(all, sum)| {
            sum.0 = all.iter().map(|addend| addend.0).sum();
        });
    })
    .unwrap();
    for _ in 0..2 {
        recorded.run(&Shuffled::new(5).with_threads(2)).unwrap();
    }
    let expected = (many * (many + 1)) as u64;
    assert_eq!(store.get(many).unwrap().0, expected);
}

#[test]
fn what_cannot_run_is_a_named_error() {
    /// Lets nobody in.
    struct Closed;
    impl Executor for Closed {
        fn n_workers(&self) -> usize {
            1
        }
        fn execute(&self, _: &std::sync::Arc<Job>) {}
    }
    let store = numbers();
    let recorded = record("nothing", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.task(write(&home), |number| number.0 += 1);
    })
    .unwrap();
    let error = recorded.run(&Closed).unwrap_err();
    assert_eq!(error.kind(), Kind::Stalled);
    assert!(error.message().ends_with("0 of 1 task"), "{error}");
    let inside = scope(&Inline, |s| {
        let inside = s.handle(None);
        s.task(write(&inside), |inside| {
            *inside = recorded.run(&Inline).err()
        });
        let kind = |inside: &Option<dataflow_core::Error>| {
            assert_eq!(inside.as_ref().unwrap().kind(), Kind::NestedRun);
        };
        s.task(read(&inside), move |inside| kind(inside));
    });
    inside.unwrap();
    assert_eq!(values(&store), [1; N_DATA]);
}

#[test]
fn of_those_made_ready_the_most_urgent_is_kept_where_the_lane_is_told_too() {
    let store = Store::new("placed", [Placed(0)]);
    let recorded = record("urgent", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.name("root").task(write(&home), |_| ());
        for priority in [1, 3, 2] {
            let reads = r.name("reads").priority(priority);
            reads.task(read(&home), |_| ());
        }
    })
    .unwrap();
    let queued = |run: &dyn Fn(&dyn Executor) -> Report| {
        let asking = Asking(Mutex::default());
        run(&asking);
        let queued = asking.0.into_inner().unwrap().queued;
        queued.iter().map(|ready| ready.2).collect::<Vec<_>>()
    };
    assert_eq!(queued(&|on| recorded.run(on).unwrap()), [1, 2]);
    let as_space = queued(&|on| dataflow_core::run(&recorded, on).unwrap());
    assert_eq!(as_space, [1, 2]);
}

/// The task before was blamed.
#[test]
fn a_panic_between_tasks_is_no_task_s() {
    /// Where it lies is a question that it does not bear, once it was changed.
    #[derive(Clone)]
    struct Shy(bool);
    impl Datum for Shy {
        fn numa_node(&self) -> Option<usize> {
            assert!(!self.0, "not to be asked");
            Some(0)
        }
    }
    let store = Store::new("shy", [Shy(false)]);
    let recorded = record("shy", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.name("before").task(write(&home), |datum| datum.0 = true);
        r.name("after").task(write(&home), |_| ());
    });
    let error = recorded.unwrap().run(&Asking(Mutex::default()));
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.task()), (Kind::TaskPanicked, None));
    assert!(
        error.message().starts_with("panicked between tasks"),
        "{error}"
    );
}

/// Of roots the most urgent is pulled, then the next two; a worker that has some looks for no others.
#[test]
fn in_place_what_is_urgent_goes_first_be_it_a_root_or_queued() {
    let order = Mutex::new(Vec::new());
    let ran = |number: u64| order.lock().unwrap().push(number);
    let (ran, store) = (&ran, Store::new("numbers", [0u64; 8]));
    let recorded = record("urgent", 1, |r| {
        let homes: Vec<_> = (0..8).map(|at| r.home(&store, at, Rank(0))).collect();
        for (number, priority) in (0..8).zip([9, 1, 5, 0, 0, 0, 0, 0]) {
            let root = r.priority(priority);
            root.task(write(&homes[number as usize]), move |_| ran(number));
        }
        // After root 2, but less urgent than root 1.
        r.priority(-1).task(write(&homes[2]), move |_| ran(8));
    });
    recorded.unwrap().run(&Inline).unwrap();
    assert_eq!(order.lock().unwrap()[..4], [0, 2, 1, 8]);
}

/// It ran last: roots were announced as they had been inserted, some at a time.
#[test]
fn of_roots_the_most_urgent_runs_first_however_late_it_was_inserted() {
    const LAST: usize = 99;
    let order = Mutex::new(Vec::new());
    let (ran, store) = (&order, Store::new("numbers", [0u64; LAST + 1]));
    let recorded = record("urgent", 1, |r| {
        for number in 0..=LAST {
            let home = r.home(&store, number, Rank(0));
            let root = r.priority(i64::from(number == LAST));
            root.task(write(&home), move |_| ran.lock().unwrap().push(number));
        }
    });
    let recorded = recorded.unwrap();
    let in_order = || std::mem::take(&mut *order.lock().unwrap());
    recorded.run(&Inline).unwrap();
    let in_place = in_order();
    assert!(in_place.into_iter().eq([LAST].into_iter().chain(0..LAST)));
    dataflow_core::run(&recorded, &Inline).unwrap();
    let as_space = in_order();
    assert!(as_space.into_iter().eq([LAST].into_iter().chain(0..LAST)));
}

/// A program for more ranks than have numbers asked for a counter of each: the process was ended.
#[test]
fn a_program_is_recorded_for_as_many_ranks_as_have_numbers_and_one_at_least() {
    for n_ranks in [0, usize::MAX, 1 << 40] {
        let error = record::<u64>("p", n_ranks, |_| {}).unwrap_err();
        assert_eq!(error.kind(), Kind::WrongSettings);
        let text = format!("for {n_ranks} ranks (1 to 4294967295 are allowed)");
        assert!(error.message().ends_with(&text), "{error}");
    }
    let store = Store::new("numbers", [1u64]);
    let program = record("for many", u32::MAX as usize, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.task(write(&home), |n| *n += 1);
    });
    assert_eq!(program.unwrap().run(&Inline).unwrap().tasks, 1);
}

/// A body asked for a flow, or for a datum, and there was none: edges of such data were taken for edges
/// that only order.
#[test]
fn data_without_size_are_lent_to_bodies_in_place_as_a_space_and_across_ranks() {
    fn units<'env>(
        store: &'env Store<()>,
        n_ranks: u32,
        ran: &'env AtomicU64,
    ) -> Recorded<'env, ()> {
        let program = record("units", n_ranks as usize, |r| {
            let [a, b] = [0, 1].map(|at| r.home(store, at, Rank(at as u32 % n_ranks)));
            let count = || _ = ran.fetch_add(1, Ordering::Relaxed);
            r.task(write(&a), move |()| count());
            r.task((read(&a), write(&b)), move |((), ())| count());
            let both = vec![read(&b), read(&a)];
            r.name("both").on(Rank(0)).task(both, move |both| {
                assert_eq!(both.len(), 2);
                count();
            });
        });
        program.unwrap()
    }
    let (store, ran) = (Store::new("units", [(); 2]), AtomicU64::new(0));
    let program = units(&store, 1, &ran);
    program.run(&Inline).unwrap();
    dataflow_core::run(&program, &Shuffled::new(3)).unwrap();
    drop(program);
    assert_eq!(ran.into_inner(), 2 * 3);

    let ran = AtomicU64::new(0);
    let (_, crossed) = on_ranks(2, (5, 8), |courier| {
        let store = Store::new("units", [(); 2]);
        let program = units(&store, 2, &ran);
        let on = Context::new(&Inline).across(courier);
        program.run_across(&on).unwrap();
        assert!((0..2).all(|at| store.get(at).is_some()));
        let counts = dataflow_core::space::counts::Counting::of(&program, 2);
        let counts = counts.count().unwrap();
        assert_eq!(counts.ranks[0].sent.messages, 1);
    });
    assert_eq!(ran.into_inner(), 3);
    assert_eq!(crossed.data, 2);
}

/// The run ended well, and what had been put was gone.
#[test]
fn what_is_put_by_hand_into_the_slot_of_a_lent_datum_is_told_in_place_too() {
    let store = numbers();
    let meddles = AtomicBool::new(true);
    let program = record("meddles", 1, |r| {
        let at = r.home(&store, 1, Rank(0));
        r.task(write(&at), |at| {
            at.0 = 7;
            if meddles.load(Ordering::Relaxed) {
                store.put(1, Version::new(Number(9))).expect("a slot");
            }
        });
    })
    .unwrap();
    let error = program.run(&Inline).unwrap_err();
    let text = "slot 1 of numbers was filled by hand while its datum was lent";
    assert_eq!((error.kind(), error.message()), (Kind::PutTwice, text));
    assert_eq!(store.get(1).map(|number| number.0), Some(9));
    meddles.store(false, Ordering::Relaxed);
    program.run(&Inline).unwrap();
    assert_eq!(store.get(1).map(|number| number.0), Some(7));
}

/// `recorded task 1` was told, of which the program knew nothing: it fetched the datum.
#[test]
fn a_datum_that_is_not_at_home_across_ranks_is_told_by_the_first_task_that_reads_it() {
    let (told, _) = on_ranks(2, (5, 8), |courier| {
        let store = numbers();
        let program = record("absent", 2, |r| {
            r.home(&store, 1, Rank(0));
            let a = r.home(&store, 0, Rank(0));
            let b = r.home(&store, N_DATA, Rank(1));
            r.name("first").task(write(&a), |a| a.0 += 1);
            let add = r.name("add");
            add.task((write(&a), read(&b)), |(a, b)| a.0 += b.0);
            r.name("again").task(read(&b), |_| ());
        });
        let (program, on) = (program.unwrap(), Context::new(&Inline).across(courier));
        let erased = dataflow_core::space::Erased::new(&program);
        [
            program.run_across(&on),
            dataflow_core::run_across(&program, &on),
            dataflow_core::run_across(&erased, &on),
        ]
        .map(|ended| ended.unwrap_err().to_string())
    });
    for text in told.into_iter().flatten() {
        let why = format!("slot {N_DATA} of numbers ({N_DATA} slots), which does not exist");
        let datum = "datum 2 of the program (accessed by add 1)";
        let expected = format!("{datum} is to come from {why} (task add 1 on rank 1)");
        assert_eq!(text, expected);
    }
}

/// It was looked for among the tasks, where there is none.
#[test]
fn a_step_from_elsewhere_is_one_of_the_program_s_or_none() {
    let store = numbers();
    let program = record("two", 1, |r| {
        let home = r.home(&store, 0, Rank(0));
        r.name("one").task(write(&home), |_| ());
        r.name("other").task(write(&home), |_| ());
    })
    .unwrap();
    for words in [&[1, 1][..], &[2, 1], &[1, 0], &[1, 2], &[1], &[]] {
        let is_one = words == [1, 1];
        assert_eq!(program.named_by(words).is_some(), is_one, "{words:?}");
        let erased = dataflow_core::space::Erased::new(&program);
        assert_eq!(erased.named_by(words).is_some(), is_one, "{words:?}");
    }
}
