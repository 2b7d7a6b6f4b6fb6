//! A program that waits for a datum: what it sees, what it runs meanwhile, and when it is told nothing. And
//! what is said of a test that waits for ever.

mod specimen;

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Context, Executor, Inline, Shuffled};
use dataflow_core::sequence::{
    Handle, Scope, TaskWindow, commute, read, reduce, scope, scope_inside, write,
};
use dataflow_core::{TaskError, run, space::Independent};
use specimen::{within, within_limit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

const N_TASKS: u64 = if cfg!(miri) { 20 } else { 1000 };

fn executors() -> Vec<Box<dyn Executor>> {
    vec![
        Box::new(Inline),
        Box::new(Shuffled::new(1)),
        Box::new(Shuffled::new(2).with_threads(3)),
    ]
}

#[test]
fn a_wait_sees_every_kind_of_change_inserted_before_it_and_none_after() {
    for on in executors() {
        let seen = scope(&*on, |s| {
            let (n, sum) = (s.handle(1u64), s.handle(0u64));
            let mut seen = vec![s.wait(&n, |n| *n)];
            s.task(write(&n), |n| *n *= 10);
            (0..N_TASKS).for_each(|_| s.task(commute(&n), |n| *n += 1));
            (0..N_TASKS).for_each(|_| s.task(reduce(&n), |n| *n += 1));
            s.task((read(&n), write(&sum)), |(n, sum)| *sum = *n);
            seen.push(s.wait(&n, |n| *n));
            s.task(write(&n), |n| *n = 0);
            seen.extend([s.wait(&sum, |sum| *sum), s.wait(&n, |n| *n)]);
            seen
        });
        let all = 10 + 2 * N_TASKS;
        assert_eq!(seen.unwrap().0, [1, all, all, 0].map(Some));
    }
}

/// Whoever came while the program inserted stood at a lock until it had returned.
#[test]
fn a_task_runs_on_another_worker_while_its_program_has_not_returned() {
    let on = Shuffled::new(1).with_threads(2);
    let told = scope(&on, |s| {
        let (tell, told) = channel();
        let n = s.handle(7);
        s.task(write(&n), move |n| _ = tell.send(*n));
        told.recv_timeout(Duration::from_secs(60))
    });
    assert_eq!(told.unwrap().0, Ok(7));
}

/// The rest of the row was run, too: a thousand tasks for nothing.
#[test]
fn who_waits_runs_no_more_of_a_row_than_is_needed() {
    let ran = AtomicU64::new(0);
    let early = scope(&Inline, |s| {
        let (row, first) = (s.handle(()), s.handle(0));
        let count = |()| _ = ran.fetch_add(1, Ordering::SeqCst);
        s.task((write(&row), write(&first)), move |(_, first)| {
            *first = 7;
            count(());
        });
        (0..N_TASKS).for_each(|_| s.task(write(&row), move |_| count(())));
        (s.wait(&first, |first| *first), ran.load(Ordering::SeqCst))
    });
    assert_eq!(early.unwrap().0, (Some(7), 1));
    assert_eq!(ran.into_inner(), N_TASKS + 1);
}

/// Each step doubles a number in parts, until their sum is large enough.
#[test]
fn a_loop_ends_when_its_result_is_good_enough_also_inside_of_tasks() {
    for on in executors() {
        let mut rows = [[1u64; 4], [3; 4]];
        let (steps, _) = scope(&*on, |s| {
            let steps = s.handles([0, 0]);
            let rows = s.handles(&mut rows);
            for (row, steps) in rows.iter().zip(&steps) {
                s.nested((write(row), write(steps)), |s, (row, steps)| {
                    let (parts, sum) = (s.handles(row.iter_mut()), s.handle(0u64));
                    while s
                        .wait(&sum, |sum| *sum < 1000)
                        .is_some_and(|is_small| is_small)
                    {
                        *steps += 1;
                        s.task(write(&sum), |sum| *sum = 0);
                        for part in &parts {
                            s.task((write(part), reduce(&sum)), |(part, sum)| {
                                **part *= 2;
                                *sum += **part;
                            });
                        }
                    }
                });
            }
            [0, 1].map(|row| s.wait(&steps[row], |steps| *steps))
        })
        .unwrap();
        assert_eq!(steps, [Some(8), Some(7)]);
        assert_eq!(rows, [[256; 4], [384; 4]]);
    }
}

#[test]
fn the_body_of_a_space_may_wait_in_a_scope_inside() {
    for on in executors() {
        let space = Independent::new("parents", 4, |parent| {
            let twice = scope_inside(&*on, |s| {
                let n = s.handle(parent);
                s.task(write(&n), |n| *n *= 2);
                s.wait(&n, |n| *n)
            })?;
            assert_eq!(twice, Some(2 * parent));
            Ok(())
        });
        run(&space, &*on).unwrap();
    }
}

#[test]
fn what_a_failed_task_was_to_change_is_not_seen_and_all_else_is() {
    for on in executors() {
        for reduces in [false, true] {
            let mut seen = [None; 3];
            let ended = scope(&*on, |s| {
                let (bad, after, good) = (s.handle(0u64), s.handle(0u64), s.handle(0u64));
                let fails = |_: &mut u64| Err(TaskError::new("odd_number", "as told"));
                match reduces {
                    true => s.name("bad").task(reduce(&bad), fails),
                    false => s.name("bad").task(write(&bad), fails),
                }
                s.task((read(&bad), write(&after)), |(_, after)| *after = 1);
                s.task(write(&good), |good| *good = 1);
                seen = [&bad, &after, &good].map(|handle| s.wait(handle, |seen| *seen));
                s.task(write(&good), |_| Err("a later one"));
            });
            assert_eq!(ended.unwrap_err().name(), "odd_number");
            assert_eq!(seen, [None, None, Some(1)]);
        }
    }
}

/// If the body that panics runs on the worker that waits, the program ends there.
#[test]
fn who_waits_in_a_scope_that_stops_is_told_nothing() {
    for on in executors() {
        for cancels in [true, false] {
            let monitor = Monitor::new();
            let mut seen = None;
            let ended = scope(&Context::new(&*on).watched_by(&monitor), |s| {
                let n = s.handle(0);
                s.task(write(&n), |_| match cancels {
                    true => monitor.cancel(),
                    false => panic!("as told"),
                });
                s.task(write(&n), |n| *n += 1);
                seen = s.wait(&n, |n| *n);
                while s.wait(&n, |n| *n).is_some() {}
            });
            let kind = match cancels {
                true => Kind::Cancelled,
                false => Kind::TaskPanicked,
            };
            assert_eq!((ended.unwrap_err().kind(), seen), (kind, None));
        }
    }
}

/// All tasks had run, so the run counted as complete, though its program was told that it is over.
#[test]
fn a_program_that_was_told_nothing_does_not_succeed() {
    let monitor = Monitor::new();
    let ended = scope(&Context::new(&Inline).watched_by(&monitor), |s| {
        let n = s.handle(1);
        monitor.cancel();
        s.wait(&n, |n| *n)
    });
    assert_eq!(ended.unwrap_err().kind(), Kind::Cancelled);
    // Another worker has begun the task, and ends it after its program was told.
    for seed in 0..10 {
        let (monitor, begun, told) = (Monitor::new(), AtomicU64::new(0), AtomicU64::new(0));
        let on = Shuffled::new(seed).with_threads(2);
        let ended = scope(&Context::new(&on).watched_by(&monitor), |s| {
            let n = s.handle(1);
            s.task(write(&n), |_| {
                begun.store(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
                monitor.cancel();
                until(&told);
            });
            until(&begun);
            let seen = s.wait(&n, |n| *n);
            told.store(1, Ordering::SeqCst);
            assert_eq!(seen, None);
        });
        assert_eq!(ended.unwrap_err().kind(), Kind::Cancelled);
    }
}

fn until(flag: &AtomicU64) {
    while flag.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_panic_of_who_looks_ends_the_scope_and_names_the_program() {
    for on in executors() {
        let ended = scope(&*on, |s| {
            let n = s.handle(0);
            s.task(write(&n), |n| *n = 1);
            s.wait(&n, |n| assert_eq!(*n, 2, "seen by the program"));
            s.task(write(&n), |n| *n = 2);
        });
        let error = ended.unwrap_err();
        assert_eq!((error.kind(), error.task()), (Kind::TaskPanicked, None));
        assert!(error.to_string().contains("seen by the program"), "{error}");
    }
}

/// It was forgotten: whoever waited again waited for ever, and the executor was said to have lost tasks.
#[test]
fn a_body_s_panic_ends_the_scope_also_if_the_program_that_ran_it_catches_it() {
    let inserts = |s: &Scope<'_, '_>| {
        s.set_window(TaskWindow {
            bytes: 0,
            ..TaskWindow::default()
        });
        let inserts = || {
            let bad = s.name("bad").bytes(1);
            bad.task((), |()| -> () { panic!("as told") });
        };
        // Where another worker runs the body there is nothing to catch.
        let _caught = catch_unwind(AssertUnwindSafe(inserts));
    };
    let waits = |s: &Scope<'_, '_>| {
        let n = s.handle(0);
        let bad = s.name("bad");
        bad.task(write(&n), |_| -> () { panic!("as told") });
        let waits = || s.wait(&n, |n| *n);
        let caught = catch_unwind(AssertUnwindSafe(waits));
        assert!(!matches!(caught, Ok(Some(_))));
        assert_eq!(s.wait(&n, |n| *n), None);
    };
    let programs: [&(dyn Fn(&Scope<'_, '_>) + Sync); 2] = [&inserts, &waits];
    for on in executors() {
        for (number, program) in programs.iter().enumerate() {
            let name = || format!("program {number}");
            let ended = within(name, || scope(&*on, |s| program(s)));
            let error = ended.unwrap_err();
            let told = (error.kind(), error.task());
            assert_eq!(told, (Kind::TaskPanicked, Some("bad 0")), "{error}");
            assert!(error.message().contains("as told"), "{error}");
        }
    }
}

/// The second panic left a destructor while the program was unwinding: the process was ended.
#[test]
fn a_body_s_panic_in_a_wait_of_a_program_that_unwinds_is_one_error() {
    struct Flush<'s, 'c, 'env>(&'s Scope<'c, 'env>, &'s Handle<'c, u64>, &'s AtomicU64);
    impl Drop for Flush<'_, '_, '_> {
        fn drop(&mut self) {
            let seen = self.0.wait(self.1, |_| ());
            self.2
                .store(1 + u64::from(seen.is_some()), Ordering::SeqCst);
        }
    }
    for on in executors() {
        let told = AtomicU64::new(0);
        let ended = scope(&*on, |s| {
            let n = s.handle(0);
            let _flush = Flush(s, &n, &told);
            s.task(write(&n), |_: &mut u64| -> () { panic!("body") });
            panic!("program")
        });
        let error = ended.map(|((), _)| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::TaskPanicked);
        assert!(error.to_string().contains("panicked: body"), "{error}");
        assert_eq!(told.into_inner(), 1, "the wait answers `None`");
    }
}

#[test]
#[ignore = "run by the test below, in a process that it ends"]
fn a_test_that_hangs() {
    let (_kept, never) = channel::<()>();
    within_limit(
        Duration::from_millis(10),
        || "who waits for ever".into(),
        || never.recv(),
    )
    .unwrap();
}

/// The harness captured the message, which went with the process: a run of twenty tests ended by a signal,
/// and nobody was told which of them had hung.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn a_test_that_hangs_ends_its_process_and_is_named_though_the_harness_captures() {
    let own = std::env::current_exe().unwrap();
    let arguments = ["--exact", "a_test_that_hangs", "--ignored"];
    let ended = Command::new(own).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{ended:?}");
    assert!(said.contains("error: hangs: who waits for ever"), "{said}");
}
