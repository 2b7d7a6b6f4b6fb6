//! Scopes that are cancelled, stopped or left early.

use super::*;

#[test]
fn a_cancelled_scope_says_so_and_drops_what_waits() {
    for on in executors() {
        let monitor = Monitor::new();
        let held = std::sync::Arc::new(());
        let cancelled = scope(&Context::new(&*on).watched_by(&monitor), |s| {
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

/// All tasks that were inserted had run, so it counted as complete.
#[test]
fn a_cancelled_scope_that_has_left_something_out_does_not_succeed() {
    for on in executors() {
        let cancelled = |program: &(dyn Fn(&Scope<'_, '_>, &Monitor) + Sync)| {
            let monitor = Monitor::new();
            let ended = scope(&Context::new(&*on).watched_by(&monitor), |s| {
                program(s, &monitor);
            });
            ended.err().map(|error| error.kind())
        };
        let asks = cancelled(&|s, monitor| {
            s.task((), |()| ());
            monitor.cancel();
            assert!(s.has_failed() && s.is_stopped());
        });
        assert_eq!(asks, Some(Kind::Cancelled), "a program that was told so");
        let open = cancelled(&|s, monitor| {
            s.set_window(TaskWindow {
                bytes: 0,
                ..TaskWindow::default()
            });
            let total = s.handle(0u64);
            s.name("add").bytes(1).task(reduce(&total), |sum| *sum += 1);
            monitor.cancel();
        });
        assert_eq!(open, Some(Kind::Cancelled), "a copy that is not merged");

        let (monitor, mut number) = (Monitor::new(), 0);
        let ended = scope(&Context::new(&*on).watched_by(&monitor), |s| {
            let number = s.lend(&mut number);
            s.nested(write(&number), |s, number| {
                let number = s.lend(number);
                monitor.cancel();
                s.task(write(&number), |number| *number = 1);
            });
        });
        assert_eq!(ended.unwrap_err().kind(), Kind::Cancelled, "children");
        assert_eq!(number, 0);
    }
}

#[test]
fn a_program_that_leaves_early_runs_what_it_has_inserted() {
    for on in executors() {
        let ran = AtomicU64::new(0);
        let left = scope(&*on, |s| -> Result<(), &str> {
            let count = || {
                ran.fetch_add(1, Ordering::SeqCst);
            };
            let n = s.handle(0u64);
            s.task(write(&n), move |_| count());
            s.task(reduce(&n), move |_| count());
            let ran = &ran;
            s.nested(write(&n), move |s, n| -> Result<(), &str> {
                let n = s.handle(n);
                s.task(write(&n), move |_| {
                    ran.fetch_add(1, Ordering::SeqCst);
                });
                Err("the parent gives up")
            });
            Err("early")?;
            unreachable!()
        });
        // The parent's own error counts; its child has run.
        let error = left.unwrap_err();
        assert_eq!(error.task(), Some("nested 2"), "{error}");
        assert_eq!(ran.into_inner(), 3);
        let (answer, _) = scope(&*on, |_| Err::<(), _>("early")).unwrap();
        assert_eq!(answer, Err("early"));
    }
}

/// There is no guard whose drop waits, so none can be forgotten: what a program has in hand may
/// leak, and the scope ends with its tasks all the same. A task that was only named is none.
#[test]
fn whatever_a_program_forgets_its_scope_waits_for_all_that_it_has_inserted() {
    fn forget<T>(what: T) {
        std::mem::forget(what);
    }
    for on in executors() {
        let mut numbers = [1u64, 2, 3];
        let (first, rest) = numbers.split_at_mut(1);
        let (_, report) = scope(&*on, |s| {
            let first = s.handle(&mut first[0]);
            forget(s.name("never inserted").priority(3));
            s.task(write(&first), |first| **first *= 10);
            s.nested(write(&first), move |s, first| {
                let first = s.handle(&mut **first);
                s.task(write(&first), |first| **first += 1);
                for number in s.handles(rest.iter_mut()) {
                    s.task(write(&number), |number| **number *= 10);
                }
                forget(s);
            });
            forget(write(&first));
        })
        .unwrap();
        assert_eq!((numbers, report.tasks), ([11, 20, 30], 2 + 3));
        scope(&*on, |s| s.task((), |()| ())).unwrap();
    }
}

#[test]
fn a_panic_outside_ends_what_goes_on_inside() {
    let on = Shuffled::new(3).with_threads(2);
    let (started, panicking) = (AtomicU64::new(0), AtomicU64::new(0));
    let n = size::N_INSIDE;
    let error = scope(&on, |s| {
        let (started, panicking) = (&started, &panicking);
        s.nested((), move |s, ()| {
            for _ in 0..n {
                s.task((), move |()| {
                    started.fetch_add(1, Ordering::SeqCst);
                    while panicking.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    // Long enough that the panic has been seen before the last one.
                    std::thread::sleep(size::INSIDE);
                });
            }
        });
        s.name("beside").task((), move |()| -> () {
            while started.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            panicking.store(1, Ordering::SeqCst);
            panic!("now");
        });
    });
    assert_eq!(error.unwrap_err().task(), Some("beside 1"));
    let started = started.into_inner();
    assert!(started < n, "all {started} tasks ran inside");
}

/// What was inserted after a panic or a cancellation was kept: 40,000 records of 10 kB took 400 MB, ten
/// million insertions 1.9 GB, and a program that waited for an end to come never ended.
#[test]
fn a_stopped_scope_drops_what_is_inserted_and_the_program_can_ask() {
    struct Held<'a>(&'a AtomicU64);
    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    for on in executors() {
        for cancels in [false, true] {
            let (held, kept) = (AtomicU64::new(0), AtomicU64::new(0));
            let monitor = Monitor::new();
            let ended = scope(&Context::new(&*on).watched_by(&monitor), |s| {
                s.set_window(TaskWindow {
                    tasks: size::STOPPED.0,
                    ..TaskWindow::default()
                });
                let n = s.handle(0u64);
                s.task(write(&n), |_| assert!(cancels, "the first task panics"));
                if cancels {
                    monitor.cancel();
                }
                // A stream without end; the inserting worker runs tasks where nobody else does.
                let mut most = 0;
                while !s.is_stopped() {
                    held.fetch_add(1, Ordering::Relaxed);
                    let record = Held(&held);
                    s.task(write(&n), move |_| drop(record));
                    most = held.load(Ordering::Relaxed).max(most);
                }
                assert!(s.has_failed());
                let before = held.load(Ordering::Relaxed);
                for _ in 0..size::STOPPED.1 {
                    held.fetch_add(1, Ordering::Relaxed);
                    let record = Held(&held);
                    s.task(write(&n), move |_| drop(record));
                    let more = held.load(Ordering::Relaxed).saturating_sub(before);
                    kept.fetch_max(more, Ordering::Relaxed);
                }
                assert!(most < 10_000, "{most} waited");
            });
            let kind = if cancels {
                Kind::Cancelled
            } else {
                Kind::TaskPanicked
            };
            assert_eq!(ended.unwrap_err().kind(), kind);
            assert_eq!(kept.into_inner(), 0, "dropped at once");
            assert_eq!(held.into_inner(), 0);
        }
    }
}

#[test]
fn a_body_that_fails_stops_nothing_but_the_program_can_ask() {
    let later = AtomicU64::new(0);
    let ended = scope(&Inline, |s| {
        s.set_window(TaskWindow {
            tasks: 0,
            ..TaskWindow::default()
        });
        s.task((), |()| Err("bad"));
        (0..64).for_each(|_| s.task((), |()| ()));
        assert!(s.has_failed() && !s.is_stopped());
        s.task((), |()| _ = later.fetch_add(1, Ordering::Relaxed));
    });
    assert_eq!(ended.unwrap_err().message(), "bad");
    assert_eq!(later.into_inner(), 1);
}
