//! Scopes inside of tasks and of other scopes.

use super::*;
use dataflow_core::port::Job;
use dataflow_core::run_inside;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[test]
fn a_scope_inside_a_body_or_a_program_is_refused() {
    for on in executors() {
        let inner = scope(&*on, |s| {
            s.task((), |()| {
                let ended = scope(&Inline, |_| ());
                ended.map(drop).map_err(|error| error.to_string())
            });
        });
        assert!(inner.unwrap_err().to_string().contains("body"));
        let inside = scope(&*on, |_| {
            run(&Independent::new("one", 1, |_| Ok(())), &Inline).map(drop)
        });
        let (inside, _) = inside.unwrap();
        let refused = inside.unwrap_err();
        assert_eq!(refused.kind(), Kind::NestedRun);
        // `Runtime::recurse` is refused too.
        assert!(
            refused.message().contains("`recursion::recurse`"),
            "{refused}"
        );
    }
}

#[test]
fn a_parent_keeps_what_it_accesses_until_its_last_descendant_has_ended() {
    for on in executors() {
        let ended = AtomicUsize::new(0);
        let mut numbers = [0u64; 8];
        let (mut seen, mut seen_too) = (0, 0);
        let (_, report) = scope(&*on, |s| {
            let all = s.handle(&mut numbers[..]);
            let (after, beside) = (s.handle(&mut seen), s.handle(&mut seen_too));
            let ended = &ended;
            s.nested(write(&all), move |s, all| {
                for half in all.chunks_mut(4) {
                    let half = s.handle(half);
                    s.nested(write(&half), move |s, half| {
                        for number in s.handles(half.iter_mut()) {
                            s.task(write(&number), move |number| {
                                **number = 1 + ended.fetch_add(1, Ordering::SeqCst) as u64;
                            });
                        }
                    });
                    s.task(write(&half), |half| half.reverse());
                }
            });
            s.task((read(&all), write(&after)), |(all, after)| {
                **after = all.iter().sum::<u64>();
            });
            s.task(write(&beside), |beside| **beside = 1);
        })
        .unwrap();
        assert_eq!((seen, seen_too), (36, 1));
        assert_eq!(report.tasks, 3 + 4 + 8, "children are counted");
    }
}

/// A task that fails in its own way, in the third child of a child of a child.
fn deep<O: dataflow_core::sequence::BodyOutcome + Send + 'static>(
    on: &dyn Executor,
    way: impl Fn() -> O + Send + Sync + Copy + 'static,
) -> (dataflow_core::Error, u64) {
    let after = AtomicU64::new(0);
    let error = scope(on, |s| {
        let (n, beside) = (s.handle(1), s.handle(2));
        s.task(write(&beside), |_| ());
        s.name("outer").nested(write(&n), move |s, n| {
            let n = s.handle(n);
            s.name("middle").nested(write(&n), move |s, n| {
                let n = s.handle(&mut **n);
                s.task(write(&n), |n| **n += 1);
                s.task(write(&n), |n| **n += 1);
                s.name("inner").task(write(&n), move |_| way());
                s.task(write(&n), |n| **n += 1);
            });
        });
        s.task(read(&n), |_| {
            after.fetch_add(1, Ordering::SeqCst);
        });
        s.task(read(&beside), |_| {
            after.fetch_add(100, Ordering::SeqCst);
        });
    })
    .unwrap_err();
    (error, after.into_inner())
}

#[test]
fn what_fails_in_a_descendant_names_the_way_to_it() {
    for on in executors() {
        let (error, after) = deep(&*on, || {
            Err::<(), _>(TaskError::new("odd", "as told").with_index(7))
        });
        assert_eq!((error.kind(), error.name()), (Kind::TaskFailed, "odd"));
        assert_eq!(error.index(), Some(7));
        assert_eq!(error.task(), Some("outer 1 / middle 0 / inner 2"));
        assert_eq!(
            after, 100,
            "what depends on it does not run, and all else does"
        );

        let (error, _) = deep(&*on, || -> () { panic!("out of luck") });
        assert_eq!(error.kind(), Kind::TaskPanicked);
        assert_eq!(error.task(), Some("outer 1 / middle 0 / inner 2"));
        assert!(error.to_string().contains("out of luck"), "{error}");

        let error = scope(&*on, |s| {
            s.name("parent").nested((), |s, ()| -> () {
                s.task((), |()| ());
                panic!("before the end");
            });
        });
        let error = error.unwrap_err();
        assert_eq!(
            (error.kind(), error.task()),
            (Kind::TaskPanicked, Some("parent 0"))
        );
        assert!(error.to_string().starts_with("task panicked"), "{error}");

        let twice = scope(&*on, |s| {
            s.nested((), |s, ()| {
                let n = s.handle(0);
                s.name("twice").task((read(&n), write(&n)), |_| ());
            });
        });
        let twice = twice.unwrap_err();
        assert_eq!(
            (twice.kind(), twice.task()),
            (Kind::AccessedTwice, Some("nested 0 / twice 0"))
        );
        scope(&*on, |s| s.task((), |()| ())).unwrap();
    }
}

#[test]
fn the_body_of_a_space_may_run_a_scope_inside() {
    for on in executors() {
        let on = &*on;
        let sums: Vec<_> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let space = Independent::new("parents", 4, |parent| {
            let mut numbers = [parent; 10];
            scope_inside(on, |s| {
                for number in s.handles(&mut numbers) {
                    s.task(write(&number), |number| **number += 1);
                }
            })?;
            sums[parent as usize].store(numbers.iter().sum(), Ordering::SeqCst);
            match parent {
                3 => Ok(scope_inside(on, |s| {
                    let failing = s.name("inner");
                    failing.task((), |()| Err(TaskError::new("odd", "as told").with_index(5)));
                })?),
                _ => Ok(()),
            }
        });
        let error = run(&space, on).unwrap_err();
        assert_eq!(
            (error.name(), error.index(), error.task()),
            ("odd", Some(5), Some("3"))
        );
        assert!(error.message().contains("inner 0"), "{error}");
        let sums: Vec<_> = sums.iter().map(|sum| sum.load(Ordering::SeqCst)).collect();
        assert_eq!(sums, [10, 20, 30, 40]);
    }
    let outside = scope_inside(&Inline, |s| s.task((), |()| ()));
    outside.unwrap();
}

/// Between six and eight hundred levels overflowed the stack, which ended the process; so did some hundred
/// recursions in one another.
#[test]
#[cfg_attr(miri, ignore = "as many frames as nesting may have")]
fn scopes_nested_too_deep_are_an_error() {
    fn nest<'c, 'env: 'c>(s: &Scope<'c, 'env>, levels: usize, ran: &'env AtomicUsize) {
        s.nested((), move |s, ()| {
            ran.fetch_add(1, Ordering::Relaxed);
            if levels > 0 {
                nest(&s, levels - 1, ran);
            }
        });
    }
    fn inside(on: &dyn Executor, levels: usize) -> Result<(), dataflow_core::Error> {
        let deeper = |levels| inside(on, levels).map_err(TaskError::from);
        scope_inside(on, |s| {
            s.task((), move |()| {
                if levels > 0 {
                    deeper(levels - 1)
                } else {
                    Ok(())
                }
            });
        })
    }
    struct Below<'on>(&'on dyn Executor);
    impl Recursive for Below<'_> {
        type Argument = usize;
        type Value = usize;

        /// A recursion in a recursion, every other one in a scope of its own.
        fn call(&self, levels: usize) -> Result<Call<Self>, TaskError> {
            let deeper = || recurse(self, levels - 1, self.0).map(|(value, _)| value);
            let value = match levels {
                0 => 0,
                _ if levels.is_multiple_of(3) => scope_inside(self.0, |_| deeper())??,
                _ => deeper()?,
            };
            Ok(Call::Done(value + 1))
        }
    }
    for on in executors() {
        for (levels, deep) in [(98, false), (150, true), (5000, true)] {
            let ran = AtomicUsize::new(0);
            let ended = scope(&*on, |s| nest(s, levels, &ran));
            let kind = ended.err().map(|error| error.kind());
            assert_eq!(kind, deep.then_some(Kind::NestedTooDeep));
            let levels_run = if deep { 99..=100 } else { 99..=99 };
            assert!(levels_run.contains(&ran.into_inner()));
            let ended = inside(&*on, levels);
            let name = ended.err().map(|error| error.name().to_owned());
            assert_eq!(name, deep.then(|| "nested_too_deep".into()));
        }
        for (levels, deep) in [(74, false), (75, true), (100_000, true)] {
            let ended = recurse(&Below(&*on), levels, &*on);
            let value = ended.map(|(value, _)| value);
            let value = value.map_err(|error| error.name().to_owned());
            match deep {
                true => assert_eq!(value, Err("nested_too_deep".into())),
                false => assert_eq!(value, Ok(levels + 1)),
            }
        }
    }
}

/// Each left its thread a level deeper, until no body there could run anything inside of itself.
#[test]
fn a_run_inside_a_body_whose_executor_panics_leaves_no_level_behind() {
    struct Breaks;
    impl Executor for Breaks {
        fn n_workers(&self) -> usize {
            1
        }
        fn execute(&self, job: &Arc<Job>) {
            Inline.execute(job);
        }
        fn execute_inside(&self, _: &Arc<Job>) {
            panic!("it runs nothing inside")
        }
    }
    let inner = Independent::new("inner", 1, |_| Ok(()));
    let outer = Independent::new("outer", 101, |_| {
        let broken = catch_unwind(AssertUnwindSafe(|| run_inside(&inner, &Breaks)));
        assert!(broken.is_err());
        run_inside(&inner, &Inline)?;
        Ok(())
    });
    run(&outer, &Inline).unwrap();
}
