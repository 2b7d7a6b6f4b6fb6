//! What a task, the data that it holds and the scope that inserts it ask of each other.

use super::cell::Shown;
use super::lent::InsertingThread;
use super::level::Level;
use super::mode::sealed;
use super::pace::Stopwatch;
use super::versions::Woken;
use crate::error::{Error, TaskError};
use crate::port::{Executor, Word};
use crate::trace::Aside;
use std::fmt;
use std::sync::Arc;

/// What a body gets from a set of accesses.
#[doc(hidden)]
pub trait Lend<'a, B = &'a Self> {
    /// References, in the shape of the set.
    type Arg: Send;
}

/// A set of accesses while its task waits and runs.
#[doc(hidden)]
pub trait Held: Sized + Send + for<'a> Lend<'a> + sealed::Sealed {
    /// Whether any of the accesses commutes.
    const COMMUTES: bool;

    /// How many of the data have destructors, which may panic; two of a list.
    const N_LOUD: usize;

    /// Inserts what must come before the task.
    fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
    where
        Self: 'e;

    /// Inserts the accesses: from now on each knows what it requires.
    fn insert(&mut self, by: &InsertingThread);

    /// Shows each access, but the first so many, as long as `show` answers that it wants more. Counts
    /// `skip` down by those that were left out; says whether more are wanted.
    fn each_after(&self, skip: &mut u32, show: &mut impl FnMut(Shown<'_>) -> bool) -> bool;

    /// Shows each access.
    #[inline(always)]
    fn each(&self, show: &mut impl FnMut(Shown<'_>)) {
        self.each_after(&mut 0, &mut |shown| {
            show(shown);
            true
        });
    }

    /// Where each datum lies that was named, even if others stand for it.
    fn each_named(&self, show: &mut impl FnMut(*const ())) {
        self.each(&mut |shown| show(shown.versions.place()));
    }

    /// The data that nobody else has when the task has ended.
    type Left;

    /// Counts the accesses as finished; tells the tasks that this wakes.
    fn finish(self, failed: bool, woken: &mut Woken) -> Self::Left;

    /// Drops what is left. If a datum panics as it is dropped, those behind it go quietly.
    fn drop_left(left: Self::Left);

    /// The same of a task that does not run.
    fn let_go(self);

    /// What the body gets.
    fn lend(&mut self) -> <Self as Lend<'_>>::Arg;
}

/// Shows one access, unless it is one of those to be left out.
#[inline(always)]
pub(super) fn show_after(
    skip: &mut u32,
    shown: Shown<'_>,
    show: &mut impl FnMut(Shown<'_>) -> bool,
) -> bool {
    match skip.checked_sub(1) {
        Some(left) => {
            *skip = left;
            true
        }
        None => show(shown),
    }
}

/// A task is about to be inserted: by this it inserts others before it.
#[doc(hidden)]
pub struct Ahead<'d, 'env>(pub(super) &'d mut (dyn Before<'env> + 'd));

impl Ahead<'_, '_> {
    /// The thread that inserts is the calling one.
    pub(super) fn by(&self) -> InsertingThread {
        InsertingThread::of_a_scope()
    }
}

impl fmt::Debug for Ahead<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ahead")
    }
}

/// Who inserts tasks before another.
pub(super) trait Before<'env> {
    /// Names the next task, which the program does not insert itself, and gives it its number.
    fn label(&mut self, name: &'static str) -> Label;

    /// Inserts the task of that label, unless it accesses a datum twice, which is an error.
    fn insert(&mut self, label: Label, task: Result<Box<dyn InsertedTask + 'env>, Twice>);

    /// Remembers a series that has just been opened, to close it at the end of the scope; answers its number.
    fn opened(&mut self, series: Box<dyn Close<'env> + 'env>) -> u64;

    /// The series of that number has been closed before.
    fn closed(&mut self, number: u64);
}

/// The first two accesses of a task that are to the same datum, counted from 0.
#[derive(Debug)]
pub(super) struct Twice(pub u32, pub u32);

/// A series that is to be closed at the end of its scope.
pub(super) trait Close<'e> {
    fn close(&self, ahead: &mut Ahead<'_, 'e>);
}

/// What is known of a task besides its accesses and its body.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    /// Counted from 0 in the order of insertion; unlike any other.
    pub number: u64,
    pub name: &'static str,
    pub priority: i64,
    /// Tasks of one name are of one class, as executors are told it; 0 if nobody wants to be told. Replays
    /// tell them by what they change, too.
    pub class: u32,
    /// How many of the tasks before it, up to the largest number, its program has not inserted itself.
    pub ahead: u32,
}

impl Label {
    /// Of a task that is not inserted yet.
    pub const NONE: Label = Label {
        number: 0,
        name: "",
        priority: 0,
        class: 0,
        ahead: 0,
    };
}

/// As its program counts it.
impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.number - u64::from(self.ahead))
    }
}

/// A task, whatever its accesses and its body.
pub(super) trait InsertedTask: Send {
    fn label(&self) -> &Label;

    /// Goes on waiting where it last parked. Ready when nothing is to be waited for.
    fn advance(&mut self, woken: &mut Woken) -> Wait;

    /// Parks at the access that [`advance`](Self::advance) named; false if it may go on.
    fn park(&self, at: Wait, word: Word) -> bool;

    /// Whether it is to be skipped, for a task that it depends on has failed.
    fn is_spoilt(&self) -> bool;

    /// Tells of the data that it accesses, as far as that is known, on which NUMA node they lie and
    /// how many bytes they have: once nothing is to be waited for.
    fn pieces(&self, tell: &mut dyn FnMut(usize, u64));

    /// Runs the body.
    fn run(&mut self, inside: &ScopeInside<'_>) -> Result<(), Fallen>;

    /// Counts its accesses as finished and drops its data; returns the tasks that this wakes.
    fn finish(&mut self, failed: bool, woken: &mut Woken);
}

/// What a task still waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing: it may run.
    Over,
    /// The access of this number has to wait for a version.
    Version(u32),
    /// It has to wait for the right to commute.
    Commuting(u32),
}

/// Why a body did not do what it should.
pub(super) enum Fallen {
    /// It says so itself.
    Body(TaskError),
    /// One of its children has, or has ended the run; the error names it.
    Inside(Error),
}

/// What a task needs to run a scope inside.
pub(super) struct ScopeInside<'r> {
    pub on: &'r dyn Executor,
    pub level: &'r Arc<Level>,
    pub label: &'r Label,
    /// Where the worker notes what it does.
    pub aside: Aside<'r>,
    /// For bodies whose time is taken.
    pub watch: Option<Stopwatch>,
}
