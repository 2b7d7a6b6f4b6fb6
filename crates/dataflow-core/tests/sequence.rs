//! Sequences against a plain interpreter, on every executor; and what misuse ends in.

use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Context, Executor, Inline, Shuffled};
use dataflow_core::recursion::{Call, Recursive, recurse};
use dataflow_core::sequence::{
    Handle, Reduce, Scope, Sifted, TaskWindow, commute, read, reduce, scope, scope_inside, update,
    write,
};
use dataflow_core::{TaskError, run, space::Independent};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Small under Miri, for which a task is a long time.
mod size {
    use std::time::Duration;

    /// Random programs, and of how many steps each has fewer.
    pub const N_PROGRAMS: u32 = if cfg!(miri) { 2 } else { 300 };
    pub const N_STEPS: usize = if cfg!(miri) { 8 } else { 60 };
    pub const N_SEEDS: u64 = if cfg!(miri) { 2 } else { 50 };
    pub const N_PAIRS: usize = if cfg!(miri) { 20 } else { 2000 };
    pub const N_INSIDE: u64 = if cfg!(miri) { 200 } else { 10_000 };
    /// Miri takes a tenth of a second for a panic.
    pub const INSIDE: Duration = Duration::from_micros(if cfg!(miri) { 10_000 } else { 200 });
    /// More than the widest window of the tests holds.
    pub const N_WINDOWED: usize = if cfg!(miri) { 250 } else { 2000 };
    /// Tasks that may wait before a program is stopped, and those that it inserts afterwards.
    pub const STOPPED: (u64, u64) = if cfg!(miri) { (16, 30) } else { (8192, 1000) };
    pub const N_REDUCED: usize = if cfg!(miri) { 20 } else { 1000 };
}

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
    /// Changes a copy, which is merged.
    Reduces,
}

/// A task: with which data it does what, and the tasks it inserts on the halves of what it writes. And
/// the datum that the program waits for before it goes on, with another number for what it sees.
#[derive(Clone, Debug)]
struct Step {
    accesses: Vec<(usize, Does)>,
    inside: Option<Program>,
    waits: Option<usize>,
}

type Program = Vec<Step>;

const N_DATA: usize = 5;
/// Numbers in a datum of the outermost program.
const LENGTH: usize = 4;
/// Tasks that share a copy.
const GROUP: usize = 8;

fn steps(
    inside: impl Strategy<Value = Option<Program>> + 'static,
    length: usize,
) -> BoxedStrategy<Program> {
    let does = prop_oneof![
        Just(Does::Reads),
        Just(Does::Writes),
        Just(Does::Adds),
        Just(Does::Reduces),
    ];
    let accesses = prop::collection::vec((0..N_DATA, does), 1..=3);
    let waits = prop::option::weighted(0.2, 0..N_DATA);
    let step = (accesses, inside, waits);
    let step = step.prop_map(|(accesses, inside, waits)| Step {
        accesses,
        inside,
        waits,
    });
    // A task that only reduces comes in a series, often longer than a group.
    let series = |(step, times): (Step, usize)| {
        let reduces = matches!(step.accesses[..], [(_, Does::Reduces)]) && step.inside.is_none();
        let waits = step.waits;
        let mut steps = vec![
            Step {
                waits: None,
                ..step
            };
            if reduces { times } else { 1 }
        ];
        steps[0].waits = waits;
        steps
    };
    let steps = prop::collection::vec((step, 1..20usize).prop_map(series), 0..length);
    steps.prop_map(|steps| steps.concat()).boxed()
}

fn programs() -> impl Strategy<Value = Program> {
    let leaves = steps(Just(None), 6);
    let parents = steps(prop::option::weighted(0.3, leaves), 8);
    steps(prop::option::weighted(0.1, parents), size::N_STEPS)
}

impl Step {
    /// The accesses to so many data, each once; a parent reads and writes, and one datum at most is
    /// reduced.
    fn accesses(&self, n_data: usize) -> Vec<(usize, Does)> {
        let accesses = self.accesses.iter();
        let mut accesses: Vec<_> = accesses
            .map(|&(datum, does)| (datum % n_data, does))
            .collect();
        accesses.sort_by_key(|(datum, _)| *datum);
        accesses.dedup_by_key(|(datum, _)| *datum);
        let mut reduces = self.inside.is_some();
        for (_, does) in &mut accesses {
            if self.inside.is_some() && *does == Does::Adds {
                *does = Does::Writes;
            }
            if *does == Does::Reduces && std::mem::replace(&mut reduces, true) {
                *does = if self.inside.is_some() {
                    Does::Writes
                } else {
                    Does::Adds
                };
            }
        }
        accesses
    }
}

/// Some numbers; merging is not commutative, so that the order tells.
struct Numbers<'a>(&'a mut [u64]);

impl Reduce for Numbers<'_> {
    type Copy = Vec<u64>;

    fn neutral(&self) -> Vec<u64> {
        vec![0; self.0.len()]
    }

    fn merge(&mut self, copy: Vec<u64>) {
        self.mix_in(copy.into_iter());
    }
}

impl Numbers<'_> {
    fn mix_in(&mut self, with: impl Iterator<Item = u64>) {
        self.0
            .iter_mut()
            .zip(with)
            .for_each(|(number, with)| *number = mix(*number, with));
    }

    fn write(&mut self, value: u64) {
        self.mix_in(std::iter::repeat(value));
    }

    fn add(&mut self, value: u64) {
        self.0
            .iter_mut()
            .for_each(|number| *number = number.wrapping_add(value));
    }

    fn halves(&mut self) -> impl Iterator<Item = Numbers<'_>> {
        let half = self.0.len().div_ceil(2);
        self.0.chunks_mut(half).map(Numbers)
    }
}

/// What a task makes of the data it reads.
fn seen<'d>(number: usize, read: impl Iterator<Item = &'d Numbers<'d>>) -> u64 {
    let numbers = read.flat_map(|datum| datum.0.iter().copied());
    numbers.fold(number as u64 + 1, mix)
}

/// One after the other.
fn interpret(program: &Program, data: &mut [Numbers<'_>], mut above: u64) {
    let mut series: Vec<Option<(usize, Vec<u64>)>> = vec![None; data.len()];
    for (number, step) in program.iter().enumerate() {
        if let Some(datum) = step.waits.map(|datum| datum % data.len()) {
            if let Some((_, copy)) = series[datum].take() {
                data[datum].merge(copy);
            }
            above = mix(above, seen(number, [&data[datum]].into_iter()));
        }
        let accesses = step.accesses(data.len());
        for &(datum, does) in &accesses {
            let full = series[datum].as_ref().is_some_and(|(n, _)| *n == GROUP);
            if (does != Does::Reduces || full)
                && let Some((_, copy)) = series[datum].take()
            {
                data[datum].merge(copy);
            }
        }
        let of = |kind| {
            accesses
                .iter()
                .filter(move |(_, does)| *does == kind)
                .map(|(datum, _)| *datum)
        };
        let value = above ^ seen(number, of(Does::Reads).map(|datum| &data[datum]));
        of(Does::Writes).for_each(|datum| data[datum].write(value));
        of(Does::Adds).for_each(|datum| data[datum].add(value));
        for datum in of(Does::Reduces) {
            let (n, copy) = series[datum].get_or_insert_with(|| (0, data[datum].neutral()));
            *n += 1;
            Numbers(copy).write(value);
        }
        if let Some(inside) = &step.inside {
            let written: Vec<_> = of(Does::Writes).collect();
            let data = data.iter_mut().enumerate();
            let data = data.filter(|(datum, _)| written.contains(datum));
            let mut pieces: Vec<_> = data.flat_map(|(_, datum)| datum.halves()).collect();
            if !pieces.is_empty() {
                interpret(inside, &mut pieces, value);
            }
        }
    }
    for (datum, series) in data.iter_mut().zip(series) {
        if let Some((_, copy)) = series {
            datum.merge(copy);
        }
    }
}

/// The same by a sequence, and sequences inside.
fn insert<'c, 'env>(
    program: &'env Program,
    s: &Scope<'c, 'env>,
    data: &[Handle<'c, Numbers<'env>>],
    mut above: u64,
) {
    for (number, step) in program.iter().enumerate() {
        if let Some(datum) = step.waits.map(|datum| datum % data.len()) {
            let seen = s.wait(&data[datum], |datum| seen(number, [datum].into_iter()));
            above = mix(above, seen.unwrap());
        }
        let accesses = step.accesses(data.len());
        let of = |kind| {
            accesses
                .iter()
                .filter(move |(_, does)| *does == kind)
                .map(|(datum, _)| &data[*datum])
        };
        let reads: Vec<_> = of(Does::Reads).map(read).collect();
        let writes: Vec<_> = of(Does::Writes).map(write).collect();
        let adds: Vec<_> = of(Does::Adds).map(commute).collect();
        let reduces = of(Does::Reduces).map(reduce).next();
        let task = s.priority(number as i64 % 3);
        if let Some(inside) = &step.inside {
            task.nested((reads, writes), move |s, (reads, writes)| {
                let value = above ^ seen(number, reads.into_iter());
                let mut pieces = Vec::new();
                for datum in writes {
                    datum.write(value);
                    pieces.extend(datum.halves().map(|half| s.handle(half)));
                }
                if !pieces.is_empty() {
                    insert(inside, &s, &pieces, value);
                }
            });
            continue;
        }
        let run = move |reads: Vec<&Numbers<'_>>,
                        writes: Vec<&mut Numbers<'_>>,
                        adds: Vec<&mut Numbers<'_>>| {
            let value = above ^ seen(number, reads.into_iter());
            writes.into_iter().for_each(|datum| datum.write(value));
            adds.into_iter().for_each(|datum| datum.add(value));
            value
        };
        match reduces {
            None => task.task((reads, writes, adds), move |(reads, writes, adds)| {
                run(reads, writes, adds);
            }),
            Some(reduces) => task.task(
                (reads, writes, adds, reduces),
                move |(reads, writes, adds, copy)| {
                    Numbers(copy).write(run(reads, writes, adds));
                },
            ),
        }
    }
}

fn interpreted(program: &Program) -> Vec<u64> {
    let mut numbers = vec![0; N_DATA * LENGTH];
    let mut data: Vec<_> = numbers.chunks_mut(LENGTH).map(Numbers).collect();
    interpret(program, &mut data, 0);
    numbers
}

fn inserted(program: &Program, on: &dyn Executor) -> Vec<u64> {
    let mut numbers = vec![0; N_DATA * LENGTH];
    scope(on, |s| {
        let data = s.handles(numbers.chunks_mut(LENGTH).map(Numbers));
        insert(program, s, &data, 0);
    })
    .unwrap();
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: size::N_PROGRAMS,
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
        let (answer, report) = answer.unwrap();
        assert_eq!((answer, report.tasks), (42, 10));
        assert_eq!(lengths.into_inner(), 80);
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

/// Some were kept until others were reduced.
#[test]
fn a_datum_whose_reduction_has_ended_is_gone_with_its_handle_and_its_tasks() {
    struct Counted<'l>(&'l AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    impl Reduce for Counted<'_> {
        type Copy = u64;
        fn neutral(&self) -> u64 {
            0
        }
        fn merge(&mut self, _: u64) {}
    }
    let live = AtomicUsize::new(0);
    scope(&Inline, |s| {
        let last = s.handle(0);
        for _ in 0..10 {
            live.fetch_add(1, Ordering::Relaxed);
            let datum = s.handle(Counted(&live));
            s.task(reduce(&datum), |sum| *sum += 1);
            s.task((read(&datum), write(&last)), |(_, last)| *last += 1);
        }
        assert_eq!(s.wait(&last, |last| *last), Some(10));
        assert_eq!(live.load(Ordering::Relaxed), 0);
    })
    .unwrap();
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

/// What a scope ends with, whose program may return something loud.
fn failure<R>(ended: Result<(R, dataflow_core::Report), dataflow_core::Error>) -> (String, Kind) {
    match ended {
        Ok((loud, _)) => {
            std::mem::forget(loud);
            panic!("it has not failed")
        }
        Err(error) => (error.to_string(), error.kind()),
    }
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
        assert_eq!(inside.unwrap_err().kind(), Kind::NestedRun);
    }
}

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
fn tasks_that_commute_on_crossed_pairs_all_run() {
    let n = size::N_PAIRS;
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

#[test]
fn a_reduction_adds_up_in_the_order_of_insertion_whatever_the_schedule() {
    let n = size::N_REDUCED;
    let part = |number: usize| 1.0 / (number as f64 + 1.0);
    // Groups of eight, then the sums of the groups: bit for bit.
    let groups = (0..n).step_by(8);
    let expected: f64 = groups
        .map(|first| (first..n.min(first + 8)).map(part).sum::<f64>())
        .sum();
    for on in executors() {
        let mut sum = 0.0;
        let mut after = 0.0;
        scope(&*on, |s| {
            let (total, copy) = (s.handle(&mut sum), s.handle(&mut after));
            for number in 0..n {
                s.task(reduce(&total), move |sum| *sum += part(number));
            }
            s.task((read(&total), write(&copy)), |(sum, copy)| **copy = **sum);
            s.task(reduce(&total), |sum| *sum += 1.0);
        })
        .unwrap();
        assert_eq!((after, sum), (expected, expected + 1.0));
    }
}

#[test]
fn a_failed_reduction_leaves_the_rest_out_and_says_who_it_was() {
    for on in executors() {
        let mut sums = vec![0u64, 0];
        let error = scope(&*on, |s| {
            let total = s.handle(&mut sums);
            for number in 0..20 {
                s.name("add")
                    .task(reduce(&total), move |sums| match number {
                        11 => Err("as told"),
                        _ => {
                            sums[number % 2] += 1;
                            Ok(())
                        }
                    });
            }
        })
        .unwrap_err();
        // What begins the series and merges the first group has no number of the program's.
        assert_eq!(error.task(), Some("add 11"));
        assert_eq!(sums, [4, 4], "the first group was merged before");
    }
}

/// What stood beyond the end of the shorter one was dropped, and the scope ended well.
#[test]
fn a_copy_that_does_not_keep_the_length_of_its_vector_is_an_error() {
    for on in executors() {
        let mut found: Vec<u64> = vec![];
        let error = scope(&*on, |s| {
            let found = s.lend(&mut found);
            for number in 0..20 {
                s.task(reduce(&found), move |copy| copy.push(number));
            }
        })
        .unwrap_err();
        assert_eq!(error.kind(), Kind::TaskPanicked);
        assert!(error.task().is_some_and(|task| task.starts_with("merge ")));
        let text = "a copy of 8 elements cannot be merged into a vector of 0";
        assert!(error.message().contains(text), "{error}");
        assert!(found.is_empty());

        let mut sums = Sifted::new(vec![7_u64; 3]);
        let error = scope(&*on, |s| {
            let sums = s.lend(&mut sums);
            s.task(reduce(&sums), |sieve| {
                sieve.take(0, Ok::<_, TaskError>(2), |sums, n| sums.truncate(n));
            });
        })
        .unwrap_err();
        let text = "a copy of 2 elements cannot be merged into a vector of 3";
        assert!(error.message().contains(text), "{error}");
        assert_eq!(sums.good, [7; 3]);
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

/// One bad record of a hundred thousand cut the sum off at its group.
#[test]
fn a_sifted_reduction_keeps_the_good_records_and_names_the_bad() {
    let n = size::N_REDUCED as u64;
    let is_bad = |record: u64| record % 7 == 3;
    for on in executors() {
        let mut sum = Sifted::new(100u64);
        scope(&*on, |s| {
            let sum = s.handle(&mut sum);
            for record in 0..n {
                let value = if is_bad(record) {
                    Err("no number")
                } else {
                    Ok(record)
                };
                s.task(reduce(&sum), move |sieve| {
                    sieve.take(record, value, |sum, value| *sum += value)
                });
            }
        })
        .unwrap();
        let bad: Vec<u64> = (0..n).filter(|&record| is_bad(record)).collect();
        assert_eq!(
            sum.good,
            100 + (0..n).sum::<u64>() - bad.iter().sum::<u64>()
        );
        assert_eq!(
            (sum.n_good(), sum.n_bad()),
            (n - bad.len() as u64, bad.len() as u64)
        );
        let named: Vec<u64> = sum.bad().iter().map(|bad| bad.record).collect();
        assert_eq!(named, bad[..16.min(bad.len())]);
        assert_eq!(sum.bad()[0].to_string(), "record 3: no number");
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

/// Each access was compared with each other: sixty thousand took two seconds.
#[test]
fn a_task_with_many_accesses_may_name_none_twice() {
    let n = if cfg!(miri) { 40 } else { 60_000 };
    for twice in [false, true] {
        let mut data = vec![0u64; n];
        let ended = scope(&Inline, |s| {
            let data = s.handles(&mut data);
            let mut all: Vec<_> = data.iter().map(write).collect();
            if twice {
                all.push(write(&data[n / 2]));
            }
            s.task(all, |all| all.into_iter().for_each(|n| **n += 1));
        });
        assert_eq!(
            ended.err().map(|error| error.kind()),
            twice.then_some(Kind::AccessedTwice)
        );
        assert!(data.iter().all(|&n| n == u64::from(!twice)));
    }
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

/// Every kind of access, and what looks at a datum, meets a lent one as one of the scope's own.
#[test]
fn bodies_get_of_lent_data_what_they_get_of_the_scopes_own() {
    fn add_up(numbers: Vec<&u64>) -> u64 {
        numbers.into_iter().sum()
    }
    let (mut numbers, mut sum, mut log) = ([1, 2, 3], 0u64, Vec::new());
    let (seen, _) = scope(&Shuffled::new(1).with_threads(2), |s| {
        let numbers = s.lend_all(&mut numbers);
        let (sum, log, own) = (s.lend(&mut sum), s.lend(&mut log), s.handle(10u64));
        s.nested(write(&numbers[0]), |s, number| {
            let number = s.lend(number);
            s.task(update(&number), |number: &mut u64| *number *= 5);
        });
        let all: Vec<_> = numbers.iter().map(read).collect();
        s.task((all, read(&own), write(&sum)), |(all, own, sum)| {
            *sum = own + add_up(all);
        });
        for number in &numbers {
            let accesses = (reduce(&sum), read(number), commute(&log));
            s.task(accesses, |(sum, number, log)| {
                *sum += number;
                log.push(*number);
            });
        }
        s.wait(&sum, |sum: &u64| *sum)
    })
    .unwrap();
    log.sort_unstable();
    assert_eq!((seen, sum, log), (Some(30), 30, vec![2, 3, 5]));
    assert_eq!(numbers, [5, 2, 3]);
}
