//! Tasks, programs and drops that fail or panic.

use super::*;

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
        scope(&*on, |s| s.task((), |()| ())).unwrap();
    }
}

#[test]
fn of_several_errors_the_smallest_by_index_and_number_is_told_under_every_schedule() {
    for seed in 0..size::N_SEEDS {
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
        let text = error.to_string();
        assert!(
            text.starts_with("its accesses 0 and 1, counted from 0"),
            "{text}"
        );

        let program = |_: &Scope<'_, '_>| -> u64 { panic!("in the program") };
        let error = scope(&*on, program).unwrap_err();
        assert_eq!((error.kind(), error.task()), (Kind::TaskPanicked, None));
        assert!(error.to_string().contains("in the program"), "{error}");

        scope(&*on, |s| s.task((), |()| ())).unwrap();
    }
}

/// The program that inserts tasks was blamed.
#[test]
fn a_panic_of_what_a_task_drops_names_the_task() {
    struct Fragile;
    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let named = |ended: Result<_, dataflow_core::Error>| {
        let error = ended.map(|((), _)| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::TaskPanicked);
        assert!(error.message().starts_with("task panicked"), "{error}");
        error.task().map(str::to_owned)
    };
    for on in executors() {
        let body_of_skipped = scope(&*on, |s| {
            let n = s.handle(0);
            s.task(write(&n), |_| Err("bad"));
            let fragile = Fragile;
            s.name("skipped").task(write(&n), move |_| drop(fragile));
        });
        assert_eq!(named(body_of_skipped).as_deref(), Some("skipped 1"));
    }
    let datum = scope(&Inline, |s| {
        let fragile = s.handle(Fragile);
        s.name("last").task(read(&fragile), |_| ());
    });
    assert_eq!(named(datum).as_deref(), Some("last 0"));
}

/// Dropped, it panics; reduced, it counts nothing.
struct Loud;

impl Drop for Loud {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

impl Reduce for Loud {
    type Copy = u64;
    fn neutral(&self) -> u64 {
        0
    }
    fn merge(&mut self, _: u64) {}
}

/// The second panicked while the first unwound: the process ended.
#[test]
#[cfg_attr(
    miri,
    ignore = "a panic that a drop has made is forgotten, a leak for Miri"
)]
fn of_data_that_panic_as_a_task_drops_them_the_first_names_the_task() {
    let of_a_task = scope(&Inline, |s| {
        let [a, b, c, d, e] = std::array::from_fn(|_| s.handle(Loud));
        let accesses = (read(&a), (write(&b), vec![read(&c), read(&d)]), commute(&e));
        s.name("last").task(accesses, |_| ());
    });
    let expected = "task panicked: dropped (task last 0)";
    assert_eq!(failure(of_a_task).0, expected);

    let listed = scope(&Inline, |s| {
        let all = s.handles([Loud, Loud, Loud]);
        let all = all.iter().map(read).collect::<Vec<_>>();
        s.name("last").task(all, |_| ());
    });
    assert_eq!(failure(listed).0, expected);

    let left_behind = scope(&Inline, |s| {
        let n = s.handle(0);
        s.name("first")
            .task(write(&n), |n| assert!(*n != 0, "first"));
        let ([a, b, c], captured) = (std::array::from_fn(|_| s.handle(Loud)), Loud);
        let accesses = (read(&n), (write(&a), write(&b)), reduce(&c));
        s.task(accesses, move |_| drop(captured));
    });
    let expected = "task panicked: first (task first 0)";
    assert_eq!(failure(left_behind).0, expected);
}

/// Two ended the process, and of one the panic of the program was lost.
#[test]
#[cfg_attr(
    miri,
    ignore = "a panic that a drop has made is forgotten, a leak for Miri"
)]
fn a_program_that_panics_is_told_whatever_its_reduced_data_do_as_they_are_dropped() {
    for n in [1, 2] {
        let ended = scope(&Inline, |s| {
            let last = s.handle(0);
            for _ in 0..n {
                let reduced = s.handle(Loud);
                s.priority(1).task(reduce(&reduced), |sum| *sum += 1);
            }
            s.task(write(&last), |_| ());
            s.wait(&last, |_| ());
            panic!("mine");
        });
        let (text, kind) = failure(ended);
        assert_eq!(kind, Kind::TaskPanicked);
        assert!(text.contains("program") && text.contains("mine"), "{text}");
    }
}

/// It unwound out of the scope.
#[test]
#[cfg_attr(
    miri,
    ignore = "a panic that a drop has made is forgotten, a leak for Miri"
)]
fn what_the_program_of_a_scope_that_failed_returns_may_panic_as_it_is_dropped() {
    let ended = scope(&Inline, |s| {
        s.name("bad").task((), |()| Err("out of luck"));
        Loud
    });
    assert_eq!(failure(ended).0, "out of luck (task bad 0)");
}
