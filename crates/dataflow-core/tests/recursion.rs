//! Recursion: values and counts by formula, on any number of workers and ranks; and what failures
//! end in.

mod specimen;

use dataflow_core::data::Datum;
use dataflow_core::error::Kind;
use dataflow_core::monitor::{Monitor, Progress};
use dataflow_core::port::{Block, Context, Executor, Head, Inline, Job, Shuffled, Wire};
use dataflow_core::rank::Rank;
use dataflow_core::recursion::{Call, Recursive, recurse, recurse_across};
use dataflow_core::{TaskError, run, space::Independent};
use specimen::ranks::on_ranks;
use specimen::within;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The sum of a tree with irregular forks, its calls, and how many of them are alive at once.
#[derive(Default)]
struct Tree {
    alive: AtomicI64,
    most: AtomicI64,
}

/// A call, counted while it lives.
struct Node<'t> {
    n: u64,
    tree: &'t Tree,
}

impl<'t> Node<'t> {
    fn new(n: u64, tree: &'t Tree) -> Self {
        let alive = tree.alive.fetch_add(1, Ordering::SeqCst) + 1;
        tree.most.fetch_max(alive, Ordering::SeqCst);
        Node { n, tree }
    }
}

/// As it is shown, ranks compare it.
impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.n.fmt(f)
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        self.tree.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Mixes in order, so that swapped values tell.
fn mix(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(1, |value, with| {
        (value ^ with.rotate_left(17))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
    })
}

fn children(n: u64) -> Vec<u64> {
    match n % 3 {
        _ if n == 0 => vec![],
        0 => vec![n / 2, n / 3, n - 1 - n / 4],
        1 => vec![n - 1, n / 4],
        _ => vec![n - 1],
    }
}

struct Irregular<'t>(&'t Tree);

impl<'t> Recursive for Irregular<'t> {
    type Argument = Node<'t>;
    type Value = u64;

    fn call(&self, node: Node<'t>) -> Result<Call<Self>, TaskError> {
        let children = children(node.n);
        let n = node.n;
        drop(node);
        if children.is_empty() {
            return Ok(Call::Done(7));
        }
        let arguments: Vec<_> = children.into_iter().map(|n| Node::new(n, self.0)).collect();
        Ok(Call::fork(arguments, move |values| mix(values) ^ n))
    }
}

/// Value and calls, by plain recursion.
fn expected(n: u64) -> (u64, u64) {
    let below: Vec<_> = children(n).into_iter().map(expected).collect();
    let calls = 1 + below.iter().map(|(_, calls)| calls).sum::<u64>();
    match below.is_empty() {
        true => (7, calls),
        false => (mix(below.into_iter().map(|(value, _)| value)) ^ n, calls),
    }
}

fn executors() -> Vec<Box<dyn Executor>> {
    let shuffled = Shuffled::new(4);
    vec![
        Box::new(Inline),
        Box::new(shuffled),
        Box::new(shuffled.with_threads(3)),
    ]
}

const N: u64 = if cfg!(miri) { 12 } else { 40 };

#[test]
fn a_tree_of_calls_has_the_value_and_the_calls_of_plain_recursion() {
    for on in executors() {
        let tree = Tree::default();
        let first = Node::new(N, &tree);
        let (value, report) = recurse(&Irregular(&tree), first, &*on).unwrap();
        assert_eq!((value, report.tasks), expected(N));
        assert_eq!(tree.alive.into_inner(), 0);
    }
}

/// The progress of a recursion had no count.
#[test]
fn whoever_watches_a_recursion_sees_how_much_was_called() {
    /// Each call looks at how far the run is, then makes the next one.
    struct Watched<'m>(&'m Monitor);
    impl Recursive for Watched<'_> {
        type Argument = u64;
        type Value = u64;

        fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
            let Progress { done, count, .. } = self.0.progress();
            let Some(count) = count.filter(|&count| (done..=N_CALLS).contains(&count)) else {
                return Err(format!("{done} of {count:?} calls").into());
            };
            Ok(match n {
                0 => Call::Done(count),
                _ => Call::fork([n - 1], |values| values[0]),
            })
        }
    }
    const N_CALLS: u64 = 301;
    let monitor = Monitor::new();
    let on = Context::new(&Inline);
    let on = on.watched_by(&monitor);
    let (seen, _) = recurse(&Watched(&monitor), N_CALLS - 1, &on).unwrap();
    let Progress { done, count, .. } = monitor.progress();
    assert_eq!((done, count), (N_CALLS, Some(N_CALLS)));
    assert!(seen >= N_CALLS - 64, "the last call saw {seen}");
}

#[test]
fn what_waits_is_bounded_by_the_depth_not_by_the_tree() {
    let n = if cfg!(miri) { 12 } else { 400 };
    let tree = Tree::default();
    let (_, report) = recurse(&Irregular(&tree), Node::new(n, &tree), &Inline).unwrap();
    let most = tree.most.into_inner();
    assert!(
        most <= 3 * n as i64,
        "{most} calls alive of {}",
        report.tasks
    );
    if !cfg!(miri) {
        assert!(
            report.tasks > 20 * most as u64,
            "{most} of {}",
            report.tasks
        );
    }
}

#[test]
fn across_ranks_the_same_on_every_rank_and_every_rank_has_calls() {
    for n_ranks in 1..=4 {
        let (ended, _) = within(
            || format!("{n_ranks} ranks"),
            || {
                on_ranks(n_ranks, (7, 8), |courier| {
                    let tree = Tree::default();
                    let first = Node::new(N, &tree);
                    let on = Shuffled::new(9).with_threads(2);
                    let on = Context::new(&on).across(courier);
                    let (value, report) = recurse_across(&Irregular(&tree), first, &on).unwrap();
                    (value, report.tasks)
                })
            },
        );
        let (value, calls) = expected(N);
        assert!(
            ended.iter().all(|ended| ended.0 == value),
            "{n_ranks} ranks"
        );
        assert_eq!(ended.iter().map(|ended| ended.1).sum::<u64>(), calls);
        // Miri's tree is so small that one rank's top can be all of it.
        let all_call = cfg!(miri) || ended.iter().all(|ended| ended.1 > 0);
        assert!(all_call, "{ended:?}");
    }
}

/// All had been computed, then the run failed: the flow of the value had a number that does not travel.
#[test]
#[cfg_attr(miri, ignore = "so many calls take Miri hours")]
fn a_call_that_forks_into_more_calls_than_there_are_numbers_of_flows_is_joined_on_every_rank() {
    struct Wide;
    impl Recursive for Wide {
        type Argument = u64;
        type Value = u64;

        fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
            Ok(match n {
                0 => Call::fork(1..=N_CALLS, mix),
                _ => Call::Done(n),
            })
        }
    }
    const N_CALLS: u64 = (1 << 16) + 10;
    let (ended, _) = on_ranks(2, (7, 8), |courier| {
        let on = Context::new(&Inline).across(courier);
        recurse_across(&Wide, 0, &on).map(|(value, _)| value)
    });
    for value in ended {
        assert_eq!(value.unwrap(), mix(1..=N_CALLS));
    }
}

/// Counts down, one call below the other; at the end some fail.
struct Countdown {
    fails: bool,
}

impl Recursive for Countdown {
    type Argument = u64;
    type Value = u64;

    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        match n {
            0 if self.fails => Err("as told".into()),
            0 => Ok(Call::Done(0)),
            _ => Ok(Call::fork([n - 1], |values| values[0] + 1)),
        }
    }
}

#[test]
fn depth_costs_no_stack_whether_it_ends_well_or_not() {
    let depth = if cfg!(miri) { 100 } else { 300_000 };
    let (value, _) = recurse(&Countdown { fails: false }, depth, &Inline).unwrap();
    assert_eq!(value, depth);
    let error = recurse(&Countdown { fails: true }, depth, &Inline).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (Kind::TaskFailed, "as told")
    );
    // Not all of the way to it: that would be text of 600 kB.
    let first = vec!["0"; 64].join(".");
    let task = format!("call {first} … ({depth} deep)");
    assert_eq!(error.task(), Some(&*task));
    // Stopped half-way, the frames are dropped one after the other.
    let monitor = Monitor::new();
    let stopping = Stopping {
        monitor: &monitor,
        at: depth / 2,
    };
    let on = Context::new(&Inline).watched_by(&monitor);
    let error = recurse(&stopping, depth, &on).unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled);
}

/// Each call copied the whole way to it: of so many that was 360 GB.
#[test]
fn depth_across_ranks_costs_time_in_proportion_whether_it_ends_well_or_not() {
    let depth = if cfg!(miri) { 100 } else { 300_000 };
    for fails in [false, true] {
        let (ended, _) = within(
            || format!("a narrow tree on two ranks, which fails: {fails}"),
            || {
                on_ranks(2, (7, 8), |courier| {
                    let on = Context::new(&Inline).across(courier);
                    let ended = recurse_across(&Countdown { fails }, depth, &on);
                    ended
                        .map(|(value, _)| value)
                        .map_err(|error| error.message().to_string())
                })
            },
        );
        let expected = match fails {
            false => Ok(depth),
            true => Err("as told".to_string()),
        };
        assert!(ended.iter().all(|ended| *ended == expected), "{ended:?}");
    }
}

/// Nobody looked at the monitor before calls were dealt out: here that is never.
#[test]
fn a_narrow_tree_that_one_rank_cancels_ends_on_all_of_them() {
    let (errors, _) = within(
        || "an endless tree on two ranks".into(),
        || {
            on_ranks(2, (3, 8), |courier| {
                let monitor = Monitor::new();
                let cancels = courier.rank() == Rank(1);
                let stopping = Stopping {
                    monitor: &monitor,
                    at: if cancels { u64::MAX - 100 } else { 0 },
                };
                let on = Context::new(&Inline).across(courier);
                recurse_across(&stopping, u64::MAX, &on.watched_by(&monitor)).unwrap_err()
            })
        },
    );
    for error in &errors {
        assert_eq!(error.kind(), Kind::Cancelled, "{error}");
        assert_eq!(error.to_string(), errors[0].to_string());
    }
}

/// A value that does not go quietly.
struct Loud;

impl Drop for Loud {
    fn drop(&mut self) {
        panic!("a value is dropped");
    }
}

/// Forks into two values and a fork of the same, down to a call that panics.
struct Loudly;

impl Recursive for Loudly {
    type Argument = u64;
    type Value = Loud;

    fn call(&self, depth: u64) -> Result<Call<Self>, TaskError> {
        match depth {
            0 => panic!("out of luck"),
            u64::MAX => Ok(Call::Done(Loud)),
            _ => Ok(Call::fork([u64::MAX, u64::MAX, depth - 1], |_| Loud)),
        }
    }
}

/// What the frames of a call that had panicked held was dropped where no guard stood: the process ended,
/// or whoever had called the recursion panicked.
#[test]
#[cfg_attr(
    miri,
    ignore = "a panic that a drop has made is forgotten, a leak for Miri"
)]
fn values_that_panic_when_they_are_dropped_after_a_panic_change_nothing_of_what_is_told() {
    for on in executors() {
        let ended = within(|| "loudly".into(), || recurse(&Loudly, 3, &*on).map(|_| ()));
        let error = ended.unwrap_err();
        assert_eq!(error.kind(), Kind::TaskPanicked, "{error}");
        assert!(error.message().contains("out of luck"), "{error}");
    }
}

/// Two calls at each fork, to a depth; they have nothing to say.
struct Silent(AtomicU64);

impl Recursive for Silent {
    type Argument = u64;
    type Value = ();

    fn call(&self, depth: u64) -> Result<Call<Self>, TaskError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(match depth {
            0 => Call::Done(()),
            _ => Call::fork([depth - 1, depth - 1], |values| {
                assert_eq!(values.len(), 2);
            }),
        })
    }
}

/// The task that makes an open call asked for a flow, and there was none.
#[test]
fn values_without_size_cross_ranks_too() {
    for n_ranks in [1, 2, 3] {
        let (calls, _) = on_ranks(n_ranks, (3, 8), |courier| {
            let on = Context::new(&Inline).across(courier);
            let ((), report) = recurse_across(&Silent(AtomicU64::new(0)), 8, &on).unwrap();
            report.tasks
        });
        assert_eq!(calls.iter().sum::<u64>(), (1 << 9) - 1);
    }
}

/// Whether values of [`Falling`] have begun to panic.
static FALLS: AtomicBool = AtomicBool::new(false);

/// A value that does not go quietly once something has gone wrong.
#[derive(Clone)]
struct Falls;

impl Drop for Falls {
    fn drop(&mut self) {
        if FALLS.load(Ordering::Relaxed) {
            panic!("a value is dropped");
        }
    }
}

impl Datum for Falls {}

impl Wire for Falls {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        0
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }
    fn unpack(_: &[u8], _: Box<dyn Block>) -> Result<Self, String> {
        Ok(Falls)
    }
}

/// Forks into two of the same and a value, down to a depth. On the way to the first call of all one goes
/// wrong, at this depth: its join, or if it forks into none, itself.
struct Falling(u64);

impl Recursive for Falling {
    type Argument = (u64, bool);
    type Value = Falls;

    fn call(&self, (depth, is_first): (u64, bool)) -> Result<Call<Self>, TaskError> {
        let falls = is_first && depth == self.0;
        fn fall() -> ! {
            FALLS.store(true, Ordering::Relaxed);
            panic!("out of luck");
        }
        match depth {
            0 if falls => fall(),
            0 => Ok(Call::Done(Falls)),
            _ => {
                let of_all = [(depth - 1, is_first), (0, false), (depth - 1, false)];
                Ok(Call::fork(of_all, move |values| {
                    std::mem::forget(values);
                    if falls {
                        fall();
                    }
                    Falls
                }))
            }
        }
    }
}

/// The top of the tree dropped them as one collection: the process ended.
#[test]
#[cfg_attr(
    miri,
    ignore = "a panic that a drop has made is forgotten, a leak for Miri"
)]
fn values_of_the_top_may_panic_as_they_are_dropped_after_a_call_or_a_join_has() {
    for at in [5, 0] {
        FALLS.store(false, Ordering::Relaxed);
        let (errors, _) = on_ranks(2, (3, 8), |courier| {
            let on = Context::new(&Inline).across(courier);
            let ended = recurse_across(&Falling(at), (7, true), &on);
            ended.map(|(value, _)| std::mem::forget(value)).unwrap_err()
        });
        for error in errors {
            assert_eq!(error.kind(), Kind::TaskPanicked, "{error}");
        }
    }
}

struct Stopping<'m> {
    monitor: &'m Monitor,
    at: u64,
}

impl Recursive for Stopping<'_> {
    type Argument = u64;
    type Value = u64;

    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        if n == self.at {
            self.monitor.cancel();
        }
        Ok(Call::fork([n - 1], |values| values[0]))
    }
}

/// Nobody watched what a rank recursed by itself: here that is 2⁶⁰ calls.
#[test]
fn ranks_that_are_cancelled_below_the_top_make_no_further_calls() {
    let (errors, _) = within(
        || "a very large tree on two ranks".into(),
        || {
            on_ranks(2, (3, 8), |courier| {
                let monitor = Monitor::new();
                let doubling = Doubling {
                    monitor: &monitor,
                    calls: AtomicU64::new(0),
                };
                let on = Context::new(&Inline).across(courier);
                let error = recurse_across(&doubling, 60, &on.watched_by(&monitor)).unwrap_err();
                assert!(doubling.calls.into_inner() <= Doubling::LAST);
                error
            })
        },
    );
    for error in &errors {
        assert_eq!(error.kind(), Kind::Cancelled, "{error}");
    }
}

/// Each call forks into two; one of them cancels.
struct Doubling<'m> {
    monitor: &'m Monitor,
    calls: AtomicU64,
}

impl Doubling<'_> {
    const LAST: u64 = 5000;
}

impl Recursive for Doubling<'_> {
    type Argument = u64;
    type Value = u64;

    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 == Self::LAST {
            self.monitor.cancel();
        }
        if n == 0 {
            return Ok(Call::Done(1));
        }
        Ok(Call::fork([n - 1; 2], |values| values.into_iter().sum()))
    }
}

/// Runs everything but what is inside of bodies.
struct OnlyOutside;

impl Executor for OnlyOutside {
    fn n_workers(&self) -> usize {
        1
    }
    fn execute(&self, job: &Arc<Job>) {
        Inline.execute(job);
    }
    fn execute_inside(&self, _: &Arc<Job>) {}
}

/// It was told as a failure of a task, after which the run went on.
#[test]
fn an_executor_that_runs_nothing_below_the_top_is_blamed_on_all_ranks() {
    let tree = Tree::default();
    let (errors, _) = on_ranks(2, (3, 8), |courier| {
        let on = Context::new(&OnlyOutside).across(courier);
        recurse_across(&Irregular(&tree), Node::new(40, &tree), &on).unwrap_err()
    });
    for error in &errors {
        assert_eq!(error.kind(), Kind::Stalled, "{error}");
        assert!(error.message().contains("it ran 0"), "{error}");
    }
}

type Fails<'f> = dyn Fn(&[usize]) -> Result<(), TaskError> + Sync + 'f;

/// So many levels of three calls; those whose way is listed fail or panic.
struct Failing<'f>(usize, &'f Fails<'f>);

impl Recursive for Failing<'_> {
    type Argument = Vec<usize>;
    type Value = u64;

    fn call(&self, way: Vec<usize>) -> Result<Call<Self>, TaskError> {
        (self.1)(&way)?;
        if way.len() == self.0 {
            return Ok(Call::Done(1));
        }
        let below = (0..3).map(|place| [&way[..], &[place]].concat());
        Ok(Call::fork(below, |values| values.into_iter().sum()))
    }
}

#[test]
fn of_several_failures_the_smallest_by_index_and_way_is_told_and_all_else_is_called() {
    for on in executors() {
        let calls = AtomicU64::new(0);
        let fails = |way: &[usize]| {
            calls.fetch_add(1, Ordering::SeqCst);
            match way {
                [0, 2] | [2, 1, 0] => Err(TaskError::new("odd", "as told").with_index(5)),
                [0, 0, 1] => Err(TaskError::new("odd", "no index")),
                [1, 1, 1] => Err(TaskError::new("odd", "as told").with_index(6)),
                _ => Ok(()),
            }
        };
        let error = recurse(&Failing(3, &fails), vec![], &*on).unwrap_err();
        assert_eq!((error.name(), error.index()), ("odd", Some(5)));
        assert_eq!(error.task(), Some("call 0.2"));
        assert_eq!(calls.into_inner(), 1 + 3 + 9 + 27 - 3);

        let panics = |way: &[usize]| match way {
            [1, 2] => panic!("out of luck"),
            _ => Ok(()),
        };
        let error = recurse(&Failing(3, &panics), vec![], &*on).unwrap_err();
        assert_eq!(
            (error.kind(), error.task()),
            (Kind::TaskPanicked, Some("call 1.2"))
        );
        let (value, _) = recurse(&Failing(3, &|_| Ok(())), vec![], &*on).unwrap();
        assert_eq!(value, 27);
    }
}

/// So many levels of two calls; the join of one of them panics.
struct Joining(usize, &'static [usize]);

impl Recursive for Joining {
    type Argument = Vec<usize>;
    type Value = u64;

    fn call(&self, way: Vec<usize>) -> Result<Call<Self>, TaskError> {
        let n = if way.len() == self.0 { 0 } else { 2 };
        let below = (0..n).map(|place| [&way[..], &[place]].concat());
        let panics = way == self.1;
        Ok(Call::fork(below.collect::<Vec<_>>(), move |_| {
            assert!(!panics, "out of luck");
            0
        }))
    }
}

/// The last call that was made was named, which may lie far below.
#[test]
fn a_join_that_panics_is_told_as_that_of_its_own_call() {
    for (way, task) in [
        (&[][..], "call"),
        (&[1], "call 1"),
        (&[0, 1], "call 0.1"),
        (&[1, 0, 0], "call 1.0.0"),
    ] {
        for on in executors() {
            let error = recurse(&Joining(3, way), vec![], &*on).unwrap_err();
            let told = (error.kind(), error.task());
            assert_eq!(told, (Kind::TaskPanicked, Some(task)), "{error}");
        }
    }
}

#[test]
fn a_failure_is_told_by_its_way_on_every_rank_at_the_top_as_well_as_below() {
    let fails = |failing: &'static [usize]| {
        move |way: &[usize]| match way == failing {
            true => Err(TaskError::new("odd", "as told").with_index(5)),
            false => Ok(()),
        }
    };
    let errors_of = |failing| {
        let (errors, _) = within(
            || "2 ranks".into(),
            || {
                on_ranks(2, (3, 8), |courier| {
                    let (fails, on) = (fails(failing), Context::new(&Inline).across(courier));
                    recurse_across(&Failing(4, &fails), vec![], &on).unwrap_err()
                })
            },
        );
        assert_eq!(errors[0].to_string(), errors[1].to_string());
        errors
    };
    for (failing, task) in [(&[2, 0, 1, 2][..], "call 2.0.1.2"), (&[1], "call 1")] {
        for error in errors_of(failing) {
            assert_eq!((error.name(), error.index()), ("odd", Some(5)));
            assert_eq!(error.task(), Some(task));
        }
    }
}

/// At the top it was the first that was called, below it the first that was dealt out.
#[test]
fn of_several_failures_across_ranks_the_smallest_by_index_and_way_is_told_too() {
    let at = |name, index| Err(TaskError::new(name, "as told").with_index(index));
    let none = |name| Err(TaskError::new(name, "as told"));
    let of_top = |way: &[usize]| match way {
        [0] => none("none"),
        [1, 2] | [2, 1] => at("smallest", 5),
        [2, 0] => at("larger", 6),
        _ => Ok(()),
    };
    let of_top_alike = |way: &[usize]| match way {
        [0, 1] => none("smallest"),
        [1] => none("called before"),
        _ => Ok(()),
    };
    // Of two ranks the top has some of the fourth level, below the first of the third.
    let below = |way: &[usize]| match way {
        [0, 0, 2, 2] => none("smallest"),
        [2, 2, 2] => none("dealt out before"),
        _ => Ok(()),
    };
    let programs: [(&str, &Fails<'_>); 3] = [
        ("call 1.2", &of_top),
        ("call 0.1", &of_top_alike),
        ("call 0.0.2.2", &below),
    ];
    for (call, fails) in programs {
        let alone = recurse(&Failing(4, fails), vec![], &Inline).unwrap_err();
        assert_eq!((alone.name(), alone.task()), ("smallest", Some(call)));
        let (errors, _) = on_ranks(2, (3, 8), |courier| {
            let on = Context::new(&Inline).across(courier);
            recurse_across(&Failing(4, fails), vec![], &on).unwrap_err()
        });
        for error in errors {
            assert_eq!(error.name(), "smallest", "{error}");
            let told = (error.index(), error.task(), error.message());
            assert_eq!(told, (alone.index(), alone.task(), alone.message()));
        }
    }
}

#[test]
fn a_panic_below_the_top_is_a_panic_on_every_rank() {
    let panics = |way: &[usize]| match way {
        [2, 0, 1] => panic!("out of luck"),
        _ => Ok(()),
    };
    let (errors, _) = on_ranks(2, (3, 8), |courier| {
        let on = Context::new(&Inline).across(courier);
        recurse_across(&Failing(4, &panics), vec![], &on).unwrap_err()
    });
    for error in errors {
        assert_eq!(error.kind(), Kind::TaskPanicked, "{error}");
        assert!(error.message().contains("out of luck"), "{error}");
        assert_eq!(error.task(), Some("call 2.0.1"));
    }
}

/// At the top it was told as a task that no user knows.
#[test]
fn a_join_that_panics_across_ranks_is_told_as_that_of_its_own_call() {
    // Of two ranks the top has five levels.
    for (way, task) in [
        (&[1, 0][..], "call 1.0"),
        (&[0, 1, 1, 0, 1, 1], "call 0.1.1.0.1.1"),
    ] {
        let (errors, _) = on_ranks(2, (3, 8), |courier| {
            let on = Context::new(&Inline).across(courier);
            recurse_across(&Joining(7, way), vec![], &on).unwrap_err()
        });
        for error in errors {
            let told = (error.kind(), error.task(), error.message());
            let expected = (Kind::TaskPanicked, Some(task), "call panicked: out of luck");
            assert_eq!(told, expected);
        }
    }
}

/// All was top, so every rank made all calls, in no time.
#[test]
fn few_calls_that_take_long_are_dealt_out_and_all_time_is_told() {
    const TAKES: Duration = Duration::from_millis(2);
    // Nine calls at the ends, of which a rank makes four or five; or the outermost, which all make.
    for (level, n_calls) in [(2, 4.0), (0, 1.0)] {
        let takes_long = |way: &[usize]| {
            if way.len() == level {
                std::thread::sleep(TAKES);
            }
            Ok(())
        };
        let (reports, _) = on_ranks(2, (3, 8), |courier| {
            let on = Context::new(&Inline).across(courier);
            recurse_across(&Failing(2, &takes_long), vec![], &on).unwrap()
        });
        let least = n_calls * TAKES.as_secs_f64();
        for (value, report) in reports {
            assert!(value == 9 && report.tasks > 0, "{report:?}");
            assert!(report.seconds > least, "{report:?}");
        }
    }
}

#[test]
fn a_body_may_recurse_inside() {
    for on in executors() {
        let on = &*on;
        let space = Independent::new("parents", 3, |n| {
            let tree = Tree::default();
            let (value, _) = recurse(&Irregular(&tree), Node::new(n + 5, &tree), on)?;
            assert_eq!(value, expected(n + 5).0);
            Ok(())
        });
        run(&space, on).unwrap();
    }
}
