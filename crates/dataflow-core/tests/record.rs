//! Recorded programs: run again and again and across ranks, they do what their order says, and send
//! a version to a rank once.

mod specimen;

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Executor, Inline, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::sequence::record::{Home, Recorded, Recorder, record};
use dataflow_core::sequence::{commute, read, write};
use proptest::prelude::*;
use specimen::Number;
use specimen::ranks::on_ranks;
use std::collections::BTreeSet;

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

fn insert<'env>(program: &Program, r: &Recorder<'_, 'env, Number>, store: &'env Store<Number>) {
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
            },
        );
    }
}

fn recorded<'env>(
    program: &Program,
    n_ranks: usize,
    store: &'env Store<Number>,
) -> Recorded<'env, Number> {
    let recorded = record("random", n_ranks, |r| insert(program, r, store)).unwrap();
    verify(&recorded, n_ranks as u32).unwrap_or_else(|fault| panic!("{fault}"));
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
            let recorded = recorded(&program, 1, &store);
            for _ in 0..3 {
                recorded.run(on).unwrap();
            }
            prop_assert_eq!(&values(&store), &expected);
        }
    }

    #[test]
    fn across_ranks_too_and_each_version_goes_to_a_rank_once(program in programs(), seed: u64) {
        for n_ranks in 1..=N_RANKS {
            let (expected, crossed) = interpreted(&program, 1, n_ranks);
            let (parts, sent) = on_ranks(n_ranks as u32, (seed, 8), |courier| {
                let store = numbers();
                let recorded = recorded(&program, n_ranks, &store);
                let on = Shuffled::new(seed).with_threads(1 + courier.rank().0 as usize % 2);
                recorded.run_across(&on, courier, &Monitor::new()).unwrap();
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
            .run_across(&Inline, courier, &Monitor::new())
            .unwrap();
        gathered
            .iter()
            .map(|gathered| gathered.take().unwrap().0)
            .collect::<Vec<_>>()
    });
    assert_eq!(values, [[2, 6, 30], [2, 6, 30], [2, 6, 30]]);
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
    assert!(text.contains("rank 0") && text.contains("rank 1"), "{text}");
    let (kind, task, _) = fault(&|r, homes| {
        r.name("twice")
            .task((read(&homes[0]), write(&homes[0])), |_| ())
    });
    assert_eq!((kind, &*task), (Kind::AccessedTwice, "twice 1"));
    let (kind, _, text) = fault(&|r, homes| r.task(write(&homes[2]), |_| ()));
    assert_eq!(kind, Kind::NoSuchRank);
    assert!(text.contains("there are 2 ranks"), "{text}");
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
        let error = recorded
            .run_across(&Inline, &Alone, &Monitor::new())
            .unwrap_err();
        assert_eq!(error.task(), Some("bad 1"));
    }
}
