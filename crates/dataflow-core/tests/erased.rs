//! A space behind a pointer does what it does itself: results, errors, messages and traces.

mod specimen;

use dataflow_core::port::{Context, Executor, Inline, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::space::{Contradiction, Erased, TaskName};
use dataflow_core::trace::{Trace, Tracer};
use dataflow_core::{Report, run, run_across};
use specimen::cholesky::Task;
use specimen::ranks::{Crossed, on_ranks};
use specimen::wavefront::Naming;
use specimen::{Cholesky, Mixed, Mutant, Number, Specimen, Wavefront, mutations, tried, within};

mod size {
    pub const TILES: u32 = 4;
    pub const SIDE: u32 = if cfg!(miri) { 3 } else { 9 };
    /// One mutant in so many, and how many of those Miri tries.
    pub const STRIDE: usize = if cfg!(miri) { 40 } else { 3 };
    pub const BY_MIRI: usize = 4;
}

/// What a run answered, but for its time.
fn told(result: Result<Report, Error>) -> Result<(u64, u64), String> {
    let told = |report: Report| (report.tasks, report.copies());
    result.map(told).map_err(|error| format!("{error:?}"))
}

/// Runs a space as it is and its double behind a pointer: the same in order and, where it is right, on
/// threads.
fn ends_alike<S: Specimen>(space: &S, what: &str) {
    let (plain, erased) = (space.fresh(), space.fresh());
    let expected = within(|| what.into(), || told(run(&plain, &Inline)));
    let got = within(|| what.into(), || told(run(&Erased::new(&erased), &Inline)));
    assert_eq!(got, expected, "{what}");
    assert_eq!(erased.outcome(), plain.outcome(), "{what}");
    assert_eq!(erased.holes(), plain.holes(), "{what}");
    if let Ok((tasks, _)) = expected {
        let again = space.fresh();
        let on = Shuffled::new(tasks).with_threads(2);
        assert_eq!(run(&Erased::new(&again), &on).unwrap().tasks, tasks);
        assert_eq!(again.outcome(), plain.outcome(), "{what}, on threads");
    }
}

#[test]
fn with_data_or_without_and_whatever_its_names_a_space_leaves_what_it_leaves() {
    ends_alike(&Cholesky::new(size::TILES, (1, 1)), "cholesky");
    ends_alike(&Mixed::new(size::SIDE), "mixed");
    for naming in [Naming::Packed, Naming::Wide, Naming::Dense, Naming::Huge] {
        let wavefront = Wavefront::named(size::SIDE, naming);
        ends_alike(&wavefront, &format!("{naming:?}"));
    }
}

#[test]
fn a_space_that_lies_or_fails_ends_in_the_same_words() {
    let space = Cholesky::new(size::TILES, (1, 1));
    let all = mutations(&space, 1, size::STRIDE);
    for mutation in tried(&all, size::BY_MIRI) {
        ends_alike(&Mutant::new(&space, mutation), &format!("{mutation:?}"));
    }
    for panics in [false, true] {
        let failing = |task| Cholesky::new(size::TILES, (1, 1)).failing(task, panics);
        ends_alike(&failing(Task::Trsm { m: 3, k: 1 }), "a body that fails");
    }
}

#[test]
fn what_is_proved_of_a_space_is_proved_of_it_behind_a_pointer() {
    let space = Cholesky::new(size::TILES, (1, 1));
    let all = mutations(&space, 1, size::STRIDE);
    for mutation in tried(&all, size::BY_MIRI) {
        let mutant = Mutant::new(&space, mutation);
        let told = |found: Result<(), _>| found.map_err(|fault: Contradiction| fault.to_string());
        let expected = told(verify(&mutant, 1));
        assert_eq!(told(verify(&Erased::new(&mutant), 1)), expected);
    }
}

/// What ranks leave, say, and send.
type Left = (Vec<(Result<(u64, u64), String>, Vec<u64>)>, Crossed);

fn across(space: impl Fn() -> Cholesky + Sync, is_erased: bool) -> Left {
    on_ranks(4, (1, 2), |courier| {
        let here = space();
        let on = Context::new(&Inline).across(courier);
        let result = match is_erased {
            true => run_across(&Erased::<Number>::new(&here), &on),
            false => run_across(&here, &on),
        };
        (told(result), here.outcome())
    })
}

#[test]
fn over_ranks_the_same_is_sent_and_left_and_failures_are_the_same() {
    let right = || Cholesky::new(size::TILES, (2, 2));
    let wrong = || right().failing(Task::Trsm { m: 3, k: 1 }, false);
    let sent = |crossed: Crossed| {
        let mut parcels = crossed.parcels;
        parcels.sort();
        (parcels, crossed.data, crossed.bytes)
    };
    let ((plain, crossed), (erased, as_well)) = (across(right, false), across(right, true));
    assert_eq!(erased, plain);
    assert_eq!(sent(as_well), sent(crossed));
    let ((plain, _), (erased, _)) = (across(wrong, false), across(wrong, true));
    assert!(plain.iter().all(|(result, _)| result.is_err()), "{plain:?}");
    let errors = |of: Left| {
        of.0.into_iter()
            .map(|(result, _)| result)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        errors((erased, Crossed::default())),
        errors((plain, Crossed::default()))
    );
}

#[test]
fn its_traces_show_the_names_of_the_space_and_who_waited_for_whom() {
    fn traced<S: TaskSpace>(space: &S) -> Trace {
        let tracer = Tracer::new(1 << 20);
        let on: &dyn Executor = &Inline;
        run(space, &Context::new(on).traced_by(&tracer)).unwrap();
        tracer.take().remove(0)
    }
    fn shown(trace: &Trace) -> Vec<(String, String, Vec<String>)> {
        let slices = trace.slices();
        let of = |(at, slice)| {
            let class = trace.class(slice).to_string();
            let inputs = trace.inputs(at).map(|at| trace.shown(at));
            (trace.shown(at), class, inputs.collect())
        };
        slices.map(of).collect()
    }
    let (plain, erased) = (
        Cholesky::new(size::TILES, (1, 1)),
        Cholesky::new(size::TILES, (1, 1)),
    );
    assert_eq!(
        shown(&traced(&Erased::new(&erased))),
        shown(&traced(&plain))
    );
    for naming in [Naming::Packed, Naming::Wide] {
        let new = || Wavefront::named(3, naming);
        let expected = shown(&traced(&new()));
        assert_eq!(shown(&traced(&Erased::new(&new()))), expected, "{naming:?}");
    }
}

/// Answers each question of a task with another number.
struct Odd;

impl TaskSpace for Odd {
    type Task = u32;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about
            .name("odd")
            .class("Odd")
            .order("FIRST")
            .order("SECOND");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
        0..4
    }
    fn inputs(&self, _: u32, _: &mut impl Inputs<Self>) {}
    fn successors(&self, _: u32, _: &mut impl Successors<Self>) {}
    fn run(&self, _: u32, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }
    fn rank(&self, i: u32) -> Rank {
        Rank(10 + i)
    }
    fn owner(&self, i: u32, flow: usize) -> Rank {
        Rank(20 + i + 100 * flow as u32)
    }
    fn priority(&self, i: u32) -> i64 {
        30 + i64::from(i)
    }
    fn index(&self, i: u32) -> Option<usize> {
        (i != 2).then_some(40 + i as usize)
    }
    fn count(&self, on: Rank) -> u64 {
        50 + u64::from(on.0)
    }
    fn roots(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
        self.tasks(on).skip(1)
    }
}

#[test]
fn every_question_gets_the_answer_of_the_space() {
    let (plain, erased) = (Odd, Erased::new(&Odd));
    let pairs = plain.tasks(Rank(0)).zip(erased.tasks(Rank(0)));
    for (i, any) in pairs {
        assert_eq!(erased.rank(any), plain.rank(i));
        for flow in [0, 1] {
            assert_eq!(erased.owner(any, flow), plain.owner(i, flow));
        }
        assert_eq!(erased.priority(any), plain.priority(i));
        assert_eq!(erased.index(any), plain.index(i));
        assert_eq!(any.class(), i.class());
    }
    assert_eq!(erased.count(Rank(3)), plain.count(Rank(3)));
    assert_eq!(erased.roots(Rank(0)).count(), 3);
}

/// A name that neither packs nor can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Unspeakable(u128);

impl TaskName for Unspeakable {
    fn class(self) -> usize {
        0
    }
    fn pack(self) -> Option<u64> {
        None
    }
    fn unpack(packed: u64) -> Self {
        Unspeakable(packed.into())
    }
}

struct One;

impl TaskSpace for One {
    type Task = Unspeakable;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about.name("one").class("One");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = Unspeakable> + Send {
        std::iter::once(Unspeakable(1 << 100))
    }
    fn inputs(&self, _: Unspeakable, _: &mut impl Inputs<Self>) {}
    fn successors(&self, _: Unspeakable, _: &mut impl Successors<Self>) {}
    fn run(&self, _: Unspeakable, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }
}

#[test]
fn a_name_that_no_number_tells_is_an_error_that_says_so() {
    assert_eq!(run(&One, &Inline).unwrap().tasks, 1);
    let error = run(&Erased::new(&One), &Inline).unwrap_err().to_string();
    assert!(error.contains("cannot be erased"), "{error}");
    assert!(error.contains("Unspeakable("), "{error}");
}

/// The panic spoke of an index.
#[test]
fn weights_for_a_series_of_no_spaces_are_refused_as_for_any_series() {
    let weigh = || {
        let none = Erased::<u64>::series([], 0..1).unwrap();
        _ = none.weighed(|_: u64, _| 0, |_: u64| 0.0);
    };
    let panic = std::panic::catch_unwind(weigh).unwrap_err();
    let text = panic.downcast_ref::<&str>();
    assert_eq!(text, Some(&"weights for a series of spaces"));
}
