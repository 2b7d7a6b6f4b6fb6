//! A task of a sequence: its accesses, its body, and how far it has come with waiting.

use super::access::{Held, Lend, Shown};
use super::law::Mode;
use super::nested::Inside;
use super::pace::Watch;
use super::versions::Woken;
use crate::error::{Error, TaskError};
use crate::port::Word;
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;

/// What a body may return: nothing, or a result.
pub trait Outcome {
    /// The same as a result.
    ///
    /// # Errors
    /// The body's own.
    fn into_result(self) -> Result<(), TaskError>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<E: Into<TaskError>> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), TaskError> {
        self.map_err(Into::into)
    }
}

/// What is known of a task besides its accesses and its body.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    /// Counted from 0 in the order of insertion.
    pub number: u64,
    pub name: &'static str,
    pub priority: i64,
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.number)
    }
}

/// A task, whatever its accesses and its body.
pub(super) trait Inserted: Send {
    fn label(&self) -> Label;

    /// Goes on waiting where it last parked. Ready when nothing is to be waited for.
    fn advance(&mut self, woken: &mut Woken) -> Step;

    /// Parks at the access that [`advance`](Self::advance) named; false if it may go on.
    fn park(&self, at: Step, word: Word) -> bool;

    /// Whether it is to be skipped, for a task that it depends on has failed.
    fn is_spoilt(&self) -> bool;

    /// Runs the body.
    fn run(&mut self, inside: &Inside<'_>) -> Result<(), Fallen>;

    /// Counts its accesses as finished and lets go of its data; names those whom that wakes.
    fn finish(&mut self, failed: bool, woken: &mut Woken);
}

/// Why a body did not do what it should.
pub(super) enum Fallen {
    /// It says so itself.
    Body(TaskError),
    /// One of its children has, or has ended the run; the error names it.
    Inside(Error),
}

/// What a task does with data that are held so.
pub(super) trait Body<H: Held>: Send {
    fn run(self, guards: &mut H::Guards<'_>, inside: &Inside<'_>) -> Result<(), Fallen>;
}

/// The body of a task without children.
pub(super) struct Leaf<F, O> {
    body: F,
    outcome: PhantomData<fn() -> O>,
}

impl<F, O> Leaf<F, O> {
    pub fn new(body: F) -> Self {
        let outcome = PhantomData;
        Leaf { body, outcome }
    }
}

impl<H, F, O> Body<H> for Leaf<F, O>
where
    H: Held,
    F: for<'a> FnOnce(<H as Lend<'a>>::Arg) -> O + Send,
    O: Outcome,
{
    fn run(self, guards: &mut H::Guards<'_>, inside: &Inside<'_>) -> Result<(), Fallen> {
        let arg = H::lend(guards);
        let begin = inside.watch.as_ref().map(Watch::begin);
        let outcome = (self.body)(arg);
        if let (Some(watch), Some(begin)) = (&inside.watch, begin) {
            watch.end(begin);
        }
        outcome.into_result().map_err(Fallen::Body)
    }
}

/// What became of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ready,
    /// The access of this number has to wait for a version.
    Version(usize),
    /// It has to wait for the right to commute.
    Commuting(usize),
}

/// A task with certain accesses and a certain body.
pub(super) struct Task<H, B> {
    label: Label,
    /// `None` once it has ended: others may be the last to know its data.
    held: Option<H>,
    /// What each access requires.
    required: SmallVec<[u64; 4]>,
    /// How many accesses need not be waited for any more.
    passed: usize,
    /// For the right to which datum it waited last.
    waited: Option<usize>,
    /// `None` once it has run.
    body: Option<B>,
}

impl<H: Held, B> Task<H, B> {
    /// Inserts the accesses; `None` if two are to the same datum.
    pub fn new(label: Label, held: H, body: B) -> Option<Self> {
        let mut seen: SmallVec<[*const (); 8]> = SmallVec::new();
        held.each_named(&mut |place| seen.push(place));
        let twice = (1..seen.len()).any(|at| seen[..at].contains(&seen[at]));
        if twice {
            return None;
        }
        let mut required = SmallVec::new();
        held.each(&mut |Shown { versions, mode }| required.push(versions.insert(mode)));
        Some(Task {
            label,
            held: Some(held),
            required,
            passed: 0,
            waited: None,
            body: Some(body),
        })
    }

    /// Takes the rights to commute: all or none, for whoever held some while it waited could close a
    /// circle.
    fn begin_commuting(&mut self, woken: &mut Woken) -> Step {
        let mut missing = None;
        self.each(|at, shown, _| {
            let asks = missing.is_none() && shown.mode == Mode::Commute;
            if asks && !shown.versions.try_begin_commuting() {
                missing = Some(at);
            }
        });
        let waited = self.waited.take();
        let Some(missing) = missing else {
            return Step::Ready;
        };
        self.each(|at, shown, _| {
            if at < missing && shown.mode == Mode::Commute {
                shown.versions.end_commuting(woken);
            } else if at > missing && waited == Some(at) {
                shown.versions.pass_on(woken);
            }
        });
        self.waited = Some(missing);
        Step::Commuting(missing)
    }

    /// Calls with each access, its number and what it requires.
    fn each(&self, mut show: impl FnMut(usize, Shown<'_>, u64)) {
        let Some(held) = &self.held else { return };
        let mut at = 0;
        held.each(&mut |shown| {
            show(at, shown, self.required[at]);
            at += 1;
        });
    }
}

impl<H: Held, B: Body<H>> Inserted for Task<H, B> {
    fn label(&self) -> Label {
        self.label
    }

    fn advance(&mut self, woken: &mut Woken) -> Step {
        let mut passed = self.passed;
        let mut commutes = false;
        self.each(|at, shown, required| {
            commutes |= shown.mode == Mode::Commute;
            if at == passed && shown.versions.have_finished(required) {
                passed += 1;
            }
        });
        self.passed = passed;
        if passed < self.required.len() {
            return Step::Version(passed);
        }
        match commutes {
            true => self.begin_commuting(woken),
            false => Step::Ready,
        }
    }

    fn park(&self, step: Step, word: Word) -> bool {
        let mut parked = false;
        self.each(|at, shown, required| match step {
            Step::Version(here) if here == at => parked = shown.versions.park(required, word),
            Step::Commuting(here) if here == at => parked = shown.versions.wait_to_commute(word),
            _ => {}
        });
        parked
    }

    fn is_spoilt(&self) -> bool {
        let mut spoilt = false;
        self.each(|_, shown, required| spoilt |= shown.versions.is_spoilt(required));
        spoilt
    }

    fn run(&mut self, inside: &Inside<'_>) -> Result<(), Fallen> {
        let (Some(body), Some(held)) = (self.body.take(), &self.held) else {
            unreachable!("{:?} runs once", self.label);
        };
        body.run(&mut held.guards(), inside)
    }

    fn finish(&mut self, failed: bool, woken: &mut Woken) {
        self.body = None;
        self.each(|_, Shown { versions, mode }, required| {
            if mode == Mode::Commute {
                versions.end_commuting(woken);
            }
            versions.finish(required, failed && mode != Mode::Read, woken);
        });
        self.held = None;
    }
}
