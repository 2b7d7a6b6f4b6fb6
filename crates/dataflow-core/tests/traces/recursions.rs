//! Traces of recursions.

use super::*;

/// Subsets of n things.
struct Subsets;

impl Recursive for Subsets {
    type Argument = u64;
    type Value = u64;
    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        Ok(Call::fork(0..n, |values| {
            1 + values.into_iter().sum::<u64>()
        }))
    }
}

#[test]
fn a_recursion_leaves_its_calls() {
    for &threads in sizes::THREADS {
        let tracer = Tracer::new(ROOM);
        let on = executor(threads, 1);
        let (value, report) =
            recurse(&Subsets, sizes::N, &Context::new(&*on).traced_by(&tracer)).unwrap();
        let n = 1 << sizes::N;
        assert_eq!((value, report.tasks), (n, n));
        let trace = tracer.take().remove(0);
        keeps_the_laws(&trace);
        let calls = trace
            .slices()
            .filter(|(_, slice)| trace.class(slice) == "call");
        assert_eq!((calls.count() as u64, trace.ranks[0].undone), (n, 0));
        let numbers: BTreeSet<_> = trace.slices().map(|(_, slice)| slice.task).collect();
        assert_eq!(numbers.len(), trace.slices().count());
    }
}

/// Halves, until there are single ones: a call takes a nanosecond, a join ten.
struct Halves(Arc<AtomicU64>);

impl Recursive for Halves {
    type Argument = u64;
    type Value = u64;
    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if n == 1 {
            return Ok(Call::Done(1));
        }
        let now = self.0.clone();
        Ok(Call::fork([n / 2, n - n / 2], move |values| {
            now.fetch_add(10, Ordering::Relaxed);
            values.iter().sum()
        }))
    }
}

/// Joins counted as idleness, and calls as ready from the beginning.
#[test]
fn joins_are_bodies_and_calls_are_ready_when_they_are_forked_into() {
    let (now, tracer) = given_time();
    let on = Context::new(&Inline).traced_by(&tracer);
    let (value, _) = recurse(&Halves(now), 8, &on).unwrap();
    assert_eq!(value, 8);
    let trace = tracer.take().remove(0);
    keeps_the_laws(&trace);
    let told = trace.explanation();
    let time = |name: &str| {
        let share = told.shares.iter().find(|share| share.name == name);
        share.map_or(0, |share| share.time)
    };
    assert_eq!((time("call"), time("join")), (15, 70), "{told}");
    assert_eq!(told.in_bodies(), 1.0, "{told}");
    for (at, slice) in trace.slices() {
        let before = trace.last_input(at).map(|input| trace.slice(input));
        let ready = before.map_or(0, |before| before.span.end);
        assert_eq!(slice.ready, ready, "{}", trace.shown(at));
        let is_outermost = trace.shown(at) == "call 0 of worker 0";
        assert_eq!(before.is_none(), is_outermost, "{}", trace.shown(at));
    }
    // The ways to the last call and from it: three forks, itself, three joins.
    assert_eq!(told.limits.path, 4 + 30);
}

#[test]
fn a_join_that_panics_is_marked() {
    struct Panics;
    impl Recursive for Panics {
        type Argument = u64;
        type Value = ();
        fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
            Ok(match n {
                0 => Call::Done(()),
                n => Call::fork([n - 1], |_| panic!("out of luck")),
            })
        }
    }
    let (_, tracer) = given_time();
    let on = Context::new(&Inline).traced_by(&tracer);
    let failed = recurse(&Panics, 2, &on).map(|_| ()).unwrap_err();
    assert_eq!(failed.kind(), Kind::TaskPanicked);
    let trace = tracer.take().remove(0);
    assert_eq!(with_fate(&trace, Fate::Failed), ["join 2 of worker 0"]);
    assert_eq!(with_fate(&trace, Fate::Ran).len(), 3);
    // The call that brought the value to join has not come to its end.
    assert_eq!(trace.ranks[0].undone, 1);
}

#[test]
fn what_a_body_runs_inside_is_a_part_of_it() {
    let tracer = Tracer::new(ROOM);
    let on = Context::new(&Inline).traced_by(&tracer);
    let space = Independent::new("outer", 3, |_| {
        let mut sum = 0_u64;
        scope_inside(&on, |s| {
            let handle = s.handle(&mut sum);
            (0..5).for_each(|_| s.task(write(&handle), |sum| **sum += 1));
        })?;
        recurse(&Subsets, 3, &on)?;
        Ok(())
    });
    run(&space, &on).unwrap();
    let traces = tracer.take();
    assert_eq!((traces.len(), traces[0].slices().count()), (1, 3));
}
