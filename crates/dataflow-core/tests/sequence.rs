//! Sequences against a plain interpreter, on every executor; and what misuse ends in.

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Executor, Inline, Shuffled};
use dataflow_core::sequence::{Scope, commute, read, scope, scope_with, update, write};
use dataflow_core::{TaskError, run, space::Independent};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A value that tells every lost, doubled or swapped access.
fn mix(value: u64, with: u64) -> u64 {
    (value ^ with.rotate_left(17))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Reads,
    Writes,
    /// Adds, which commutes.
    Adds,
}

/// A task: with which data it does what.
type Program = Vec<Vec<(usize, Does)>>;

const N_DATA: usize = 5;

fn programs() -> impl Strategy<Value = Program> {
    let does = prop_oneof![Just(Does::Reads), Just(Does::Writes), Just(Does::Adds)];
    let access = (0..N_DATA, does);
    let task = prop::collection::vec(access, 1..=3).prop_map(|mut task| {
        task.sort_by_key(|(datum, _)| *datum);
        task.dedup_by_key(|(datum, _)| *datum);
        task
    });
    prop::collection::vec(task, 0..60)
}

/// What a task makes of the data it reads.
fn seen(number: usize, read: impl Iterator<Item = u64>) -> u64 {
    read.fold(number as u64 + 1, mix)
}

fn interpreted(program: &Program) -> Vec<u64> {
    let mut data = vec![0; N_DATA];
    for (number, task) in program.iter().enumerate() {
        let read = task.iter().filter(|(_, does)| *does == Does::Reads);
        let value = seen(number, read.map(|&(datum, _)| data[datum]));
        for &(datum, does) in task {
            match does {
                Does::Reads => {}
                Does::Writes => data[datum] = mix(data[datum], value),
                Does::Adds => data[datum] = data[datum].wrapping_add(value),
            }
        }
    }
    data
}

fn inserted(program: &Program, on: &dyn Executor) -> Vec<u64> {
    let mut data = vec![0; N_DATA];
    let n_tasks = program.len() as u64;
    let (_, report) = scope_with(on, &Monitor::new(), |s| {
        let data = s.handles(&mut data);
        for (number, task) in program.iter().enumerate() {
            let of = |kind: Does| {
                let those = task.iter().filter(move |(_, does)| *does == kind);
                those.map(|&(datum, _)| &data[datum])
            };
            let reads: Vec<_> = of(Does::Reads).map(read).collect();
            let writes: Vec<_> = of(Does::Writes).map(write).collect();
            let adds: Vec<_> = of(Does::Adds).map(commute).collect();
            let accesses = (reads, writes, adds);
            s.priority(number as i64 % 3)
                .task(accesses, move |(reads, writes, adds)| {
                    let value = seen(number, reads.into_iter().map(|datum| **datum));
                    writes
                        .into_iter()
                        .for_each(|datum| **datum = mix(**datum, value));
                    adds.into_iter()
                        .for_each(|datum| **datum = datum.wrapping_add(value));
                });
        }
    })
    .unwrap();
    assert_eq!(report.tasks, n_tasks);
    data
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 300 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_programs_do_what_their_order_says(program in programs(), seed in any::<u64>()) {
        let expected = interpreted(&program);
        prop_assert_eq!(&inserted(&program, &Inline), &expected);
        for threads in 1..=4 {
            let on = Shuffled::new(seed).with_threads(threads);
            prop_assert_eq!(&inserted(&program, &on), &expected, "{} threads", threads);
        }
    }
}

fn executors() -> Vec<Box<dyn Executor>> {
    vec![
        Box::new(Inline),
        Box::new(Shuffled::new(1)),
        Box::new(Shuffled::new(2).with_threads(3)),
    ]
}

#[test]
fn a_scope_returns_what_its_program_does_and_lends_what_outlives_it() {
    for on in executors() {
        let text = String::from("borrowed");
        let lengths = AtomicUsize::new(0);
        let answer = scope(&*on, |s| {
            for _ in 0..10 {
                s.task((), |()| {
                    lengths.fetch_add(text.len(), Ordering::Relaxed);
                });
            }
            42
        });
        assert_eq!((answer.unwrap(), lengths.into_inner()), (42, 80));
    }
}

#[test]
fn tuples_and_lists_of_accesses_come_in_the_shape_they_were_given() {
    let mut sum = 0;
    scope(&Inline, |s| {
        let numbers = s.handles(0..10u64);
        let total = s.handle(&mut sum);
        s.task(
            (write(&numbers[3]), update(&numbers[4])),
            |(three, four)| {
                (*three, *four) = (30, 40);
            },
        );
        let all: Vec<_> = numbers.iter().map(read).collect();
        s.task((all, write(&total)), |(all, total)| {
            **total = all.into_iter().sum()
        });
    })
    .unwrap();
    assert_eq!(sum, 45 - 7 + 70);
}

/// Ten tasks in a row on one datum, the fourth and the seventh of which fail; and one beside.
fn failing(s: &Scope<'_, '_>, ran: &'static AtomicU64) {
    let (row, beside) = (s.handle(0), s.handle(0));
    for number in 0..10u64 {
        s.name("link").task(write(&row), move |_| match number {
            3 | 6 => Err(TaskError::new("odd_number", "as told").with_index(100 - number)),
            _ => {
                ran.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        });
    }
    s.task(write(&beside), |_| {
        ran.fetch_add(100, Ordering::SeqCst);
    });
    s.task((read(&row), write(&beside)), |_| {
        ran.fetch_add(1000, Ordering::SeqCst);
    });
}

#[test]
fn what_depends_on_a_failed_task_does_not_run_and_all_else_does() {
    for on in executors() {
        static RAN: AtomicU64 = AtomicU64::new(0);
        RAN.store(0, Ordering::SeqCst);
        let error = scope(&*on, |s| failing(s, &RAN)).unwrap_err();
        assert_eq!(
            (error.kind(), error.name()),
            (Kind::TaskFailed, "odd_number")
        );
        assert_eq!((error.index(), error.task()), (Some(97), Some("link 3")));
        assert_eq!(
            RAN.load(Ordering::SeqCst),
            103,
            "three links and the one beside"
        );
        scope(&*on, |s| s.task((), |()| ())).unwrap();
    }
}

#[test]
fn a_failed_commuting_task_spoils_what_comes_after_its_group_only() {
    for on in executors() {
        let (mut sum, mut after) = (0u64, 0u64);
        let error = scope(&*on, |s| {
            let (total, next) = (s.handle(&mut sum), s.handle(&mut after));
            for number in 0..10u64 {
                s.task(commute(&total), move |total| match number {
                    4 => Err("the fifth fails"),
                    _ => {
                        **total += 1;
                        Ok(())
                    }
                });
            }
            s.task((read(&total), write(&next)), |(_, next)| **next = 1);
        })
        .unwrap_err();
        assert_eq!(error.task(), Some("task 4"));
        assert_eq!((sum, after), (9, 0));
    }
}

#[test]
fn of_several_errors_the_smallest_by_index_and_number_is_told_under_every_schedule() {
    for seed in 0..if cfg!(miri) { 2 } else { 50 } {
        let on = Shuffled::new(seed).with_threads(2);
        let error = scope(&on, |s| {
            for index in [7, 3, 5, 3] {
                s.task((), move |()| {
                    Err::<(), _>(TaskError::new("bad", "x").with_index(index))
                });
            }
        })
        .unwrap_err();
        assert_eq!((error.index(), error.task()), (Some(3), Some("task 1")));
    }
}

#[test]
fn a_panic_and_a_handle_given_twice_name_the_task() {
    for on in executors() {
        let panics = |()| -> () { panic!("as told") };
        let error = scope(&*on, |s| s.name("bad").task((), panics)).unwrap_err();
        assert_eq!(
            (error.kind(), error.task()),
            (Kind::TaskPanicked, Some("bad 0"))
        );
        assert!(error.to_string().contains("as told"), "{error}");

        let error = scope(&*on, |s| {
            let n = s.handle(0);
            s.task((), |()| ());
            s.name("twice").task((read(&n), write(&n)), |_| ());
            s.task(write(&n), |_| ());
        })
        .unwrap_err();
        assert_eq!(
            (error.kind(), error.task()),
            (Kind::AccessedTwice, Some("twice 1"))
        );

        let program = |_: &Scope<'_, '_>| -> u64 { panic!("in the program") };
        let error = scope(&*on, program).unwrap_err();
        assert_eq!((error.kind(), error.task()), (Kind::TaskPanicked, None));
        assert!(error.to_string().contains("in the program"), "{error}");

        scope(&*on, |s| s.task((), |()| ())).unwrap();
    }
}

#[test]
fn a_scope_inside_a_body_or_a_program_is_refused() {
    for on in executors() {
        let inner = scope(&*on, |s| {
            s.task((), |()| {
                scope(&Inline, |_| ()).map_err(|error| error.to_string())
            });
        });
        assert!(inner.unwrap_err().to_string().contains("body"));
        let inside = scope(&*on, |_| {
            run(&Independent::new("one", 1, |_| Ok(())), &Inline).map(drop)
        });
        assert_eq!(inside.unwrap().unwrap_err().kind(), Kind::NestedRun);
    }
}

#[test]
fn a_cancelled_scope_says_so_and_drops_what_waits() {
    for on in executors() {
        let monitor = Monitor::new();
        let held = std::sync::Arc::new(());
        let cancelled = scope_with(&*on, &monitor, |s| {
            let n = s.handle(0);
            s.task(write(&n), |_| monitor.cancel());
            for _ in 0..10 {
                let held = held.clone();
                s.task(write(&n), move |_| drop(held));
            }
        });
        assert_eq!(cancelled.unwrap_err().kind(), Kind::Cancelled);
        assert_eq!(
            std::sync::Arc::strong_count(&held),
            1,
            "bodies that never ran are dropped"
        );
    }
}

#[test]
fn tasks_that_commute_on_crossed_pairs_all_run() {
    let n = if cfg!(miri) { 20 } else { 2000 };
    for seed in 0..4 {
        let on = Shuffled::new(seed).with_threads(4);
        let mut sums = [0u64; 3];
        scope(&on, |s| {
            let sums = s.handles(&mut sums);
            for number in 0..n {
                let (a, b) = (number % 3, (number + 1 + number / 3 % 2) % 3);
                let pair = (commute(&sums[a]), commute(&sums[b]));
                s.task(pair, |(a, b)| (**a, **b) = (**a + 1, **b + 1));
            }
        })
        .unwrap();
        assert_eq!(sums.iter().sum::<u64>(), 2 * n as u64);
    }
}

#[test]
#[cfg_attr(miri, ignore = "a million tasks")]
fn the_window_bounds_what_waits() {
    for on in executors() {
        // The first tasks wait for the last of a thousand others, so that insertion runs ahead.
        let (alive, most) = (AtomicU64::new(0), AtomicU64::new(0));
        struct Alive<'a>(&'a AtomicU64);
        impl Drop for Alive<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        scope(&*on, |s| {
            let n = s.handle(0u64);
            for _ in 0..100_000 {
                let now = alive.fetch_add(1, Ordering::Relaxed) + 1;
                most.fetch_max(now, Ordering::Relaxed);
                let counted = Alive(&alive);
                s.task(write(&n), move |n| {
                    *n += 1;
                    drop(counted);
                });
            }
        })
        .unwrap();
        assert_eq!(alive.into_inner(), 0);
        let most = most.into_inner();
        assert!(
            (1000..10_000).contains(&most),
            "{most} tasks waited at once"
        );
    }
}
