//! How much waits, and how much was inserted.

use super::*;

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

#[test]
fn the_window_bounds_tasks_and_bytes_as_it_is_set() {
    for on in executors() {
        for (window, bytes, bound) in [
            (
                TaskWindow {
                    tasks: 100,
                    ..TaskWindow::default()
                },
                0,
                200,
            ),
            (
                TaskWindow {
                    bytes: 1000,
                    ..TaskWindow::default()
                },
                100,
                12,
            ),
            (
                TaskWindow {
                    bytes: 10,
                    ..TaskWindow::default()
                },
                100,
                2,
            ),
        ] {
            let (waiting, most) = (AtomicU64::new(0), AtomicU64::new(0));
            scope(&*on, |s| {
                s.set_window(window);
                let n = s.handle(0u64);
                for _ in 0..size::N_WINDOWED {
                    most.fetch_max(
                        waiting.fetch_add(1, Ordering::Relaxed) + 1,
                        Ordering::Relaxed,
                    );
                    let body = |_: &mut u64| _ = waiting.fetch_sub(1, Ordering::Relaxed);
                    s.name("weighs").bytes(bytes).task(write(&n), body);
                }
            })
            .unwrap();
            let most = most.into_inner();
            assert!(most <= bound, "{most} waited in {window:?}");
        }
    }
}

/// Tasks were counted when the number of those inserted was a multiple of 64, which it may never be: a
/// reduction inserts tasks of its own.
#[test]
fn the_window_bounds_reductions_wherever_they_begin() {
    for on in executors() {
        let (waiting, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let now = || {
            let before = waiting.fetch_add(1, Ordering::Relaxed);
            most.fetch_max(before + 1, Ordering::Relaxed);
        };
        let ends = || _ = waiting.fetch_sub(1, Ordering::Relaxed);
        scope(&*on, |s| {
            s.set_window(TaskWindow {
                tasks: 100,
                ..TaskWindow::default()
            });
            let n = s.handle(0u64);
            // From here on the number is odd after each insertion.
            s.task((), |()| ());
            for _ in 0..size::N_WINDOWED {
                now();
                s.task(reduce(&n), |n| {
                    *n += 1;
                    ends();
                });
                now();
                s.task(read(&n), |_| ends());
            }
        })
        .unwrap();
        let most = most.into_inner();
        assert!(most <= 200, "{most} waited");
    }
}

#[test]
fn whoever_watches_a_scope_sees_how_much_was_inserted() {
    let monitor = Monitor::new();
    scope(&Context::new(&Inline).watched_by(&monitor), |s| {
        for inserted in 1..=10 {
            s.task((), |()| ());
            assert_eq!(monitor.progress().count, Some(inserted));
        }
    })
    .unwrap();
    assert_eq!(
        (monitor.progress().done, monitor.progress().count),
        (10, Some(10))
    );
}
