//! A task of a sequence: its accesses, its body, and how far it has come with waiting.

use super::cell::Shown;
use super::held::{Ahead, Fallen, Held, Inserted, Inside, Label, Lend, Wait};
use super::law::Mode;
use super::pace::Watch;
use super::versions::Woken;
use crate::error::TaskError;
use crate::port::Word;
use crate::sync::{AtomicU64, Ordering};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a body may return: nothing, or a result.
#[diagnostic::on_unimplemented(
    message = "a task's body cannot return `{Self}`",
    label = "neither `()` nor a `Result<(), E>`",
    note = "results go into data that the task writes; errors are a `TaskError`, a text, or what implements `std::error::Error + Send + Sync`"
)]
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

/// A body that holds many bytes until it has run, or is dropped.
pub(super) struct Heavy<B> {
    body: B,
    weight: Weight,
}

/// Bytes among those that wait.
struct Weight {
    bytes: u64,
    waiting: Arc<AtomicU64>,
}

impl<B> Heavy<B> {
    pub fn new(body: B, bytes: u64, waiting: &Arc<AtomicU64>) -> Self {
        // Relaxed: a count, no more.
        waiting.fetch_add(bytes, Ordering::Relaxed);
        let waiting = waiting.clone();
        let weight = Weight { bytes, waiting };
        Heavy { body, weight }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<H: Held, B: Body<H>> Body<H> for Heavy<B> {
    fn run(self, guards: &mut H::Guards<'_>, inside: &Inside<'_>) -> Result<(), Fallen> {
        let Heavy { body, weight } = self;
        let result = body.run(guards, inside);
        drop(weight);
        result
    }
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

/// Accesses up to which each is compared with each; more are sorted.
const FEW: usize = 16;

#[inline]
fn names_one_twice(seen: &mut [*const ()]) -> bool {
    if seen.len() <= FEW {
        return (1..seen.len()).any(|at| seen[..at].contains(&seen[at]));
    }
    seen.sort_unstable();
    seen.windows(2).any(|pair| pair[0] == pair[1])
}

impl<H: Held, B> Task<H, B> {
    /// Inserts the accesses; `None` if two are to the same datum.
    pub fn new(label: Label, held: H, body: B) -> Option<Self> {
        let mut seen: SmallVec<[*const (); 8]> = SmallVec::new();
        held.each_named(&mut |place| seen.push(place));
        if names_one_twice(&mut seen) {
            return None;
        }
        let mut required = SmallVec::new();
        held.each(&mut |shown| required.push(shown.versions.insert(shown.mode)));
        Some(Task {
            label,
            held: Some(held),
            required,
            passed: 0,
            waited: None,
            body: Some(body),
        })
    }

    /// Takes the rights to commute: all or none, for a task that held some while it waited for others
    /// could close a circle of waits.
    fn begin_commuting(&mut self, woken: &mut Woken) -> Wait {
        let mut missing = None;
        self.each(|at, shown, _| {
            let asks = missing.is_none() && shown.mode == Mode::Commute;
            if asks && !shown.versions.try_begin_commuting() {
                missing = Some(at);
            }
        });
        let waited = self.waited.take();
        let Some(missing) = missing else {
            return Wait::Over;
        };
        self.each(|at, shown, _| {
            if at < missing && shown.mode == Mode::Commute {
                shown.versions.end_commuting(woken);
            } else if at > missing && waited == Some(at) {
                shown.versions.pass_on(woken);
            }
        });
        self.waited = Some(missing);
        Wait::Commuting(missing)
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

impl<'env> Ahead<'_, 'env> {
    /// Inserts a task on data that are known.
    pub(super) fn insert<H, F, O>(&mut self, name: &'static str, held: H, body: F)
    where
        H: Held + 'env,
        F: for<'a> FnOnce(<H as Lend<'a>>::Arg) -> O + Send + 'env,
        O: Outcome + 'env,
    {
        let label = self.0.label(name);
        let task = Task::new(label, held, Leaf::new(body));
        let task = task.map(|task| Box::new(task) as Box<dyn Inserted + 'env>);
        self.0.insert(label, task);
    }
}

impl<H: Held, B: Body<H>> Inserted for Task<H, B> {
    fn label(&self) -> Label {
        self.label
    }

    fn advance(&mut self, woken: &mut Woken) -> Wait {
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
            return Wait::Version(passed);
        }
        match commutes {
            true => self.begin_commuting(woken),
            false => Wait::Over,
        }
    }

    fn park(&self, wait: Wait, word: Word) -> bool {
        let mut parked = false;
        self.each(|at, shown, required| match wait {
            Wait::Version(here) if here == at => parked = shown.versions.park(required, word),
            Wait::Commuting(here) if here == at => parked = shown.versions.wait_to_commute(word),
            _ => {}
        });
        parked
    }

    fn is_spoilt(&self) -> bool {
        let mut spoilt = false;
        self.each(|_, shown, required| spoilt |= shown.versions.is_spoilt(required));
        spoilt
    }

    fn pieces(&self, tell: &mut dyn FnMut(usize, u64)) {
        self.each(|_, shown, _| {
            if let Some((node, bytes)) = shown.lying.lies() {
                tell(node, bytes);
            }
        });
    }

    fn run(&mut self, inside: &Inside<'_>) -> Result<(), Fallen> {
        let (Some(body), Some(held)) = (self.body.take(), &self.held) else {
            unreachable!("{:?} runs once", self.label);
        };
        body.run(&mut held.guards(), inside)
    }

    fn finish(&mut self, failed: bool, woken: &mut Woken) {
        self.body = None;
        self.each(|_, shown, required| {
            let Shown { versions, mode, .. } = shown;
            if mode == Mode::Commute {
                versions.end_commuting(woken);
            }
            versions.finish(required, failed && mode != Mode::Read, woken);
        });
        self.held = None;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::cell::Cell;
    use super::super::kept::{Commute, Kept};
    use super::*;

    /// A task that was woken because it may commute, and then waits elsewhere, wakes the next one in
    /// its place: nobody else would.
    #[test]
    fn a_right_to_commute_that_is_not_taken_is_passed_on() {
        let (a, b) = (Cell::new(0), Cell::new(0));
        let label = |number| Label {
            number,
            name: "task",
            priority: 0,
        };
        let of = |cell| Kept::<i32, Commute>::new(cell);
        let mut both = Task::new(label(1), (of(&a), of(&b)), ()).unwrap();
        let mut one = Task::new(label(2), of(&b), ()).unwrap();
        fn waits<H: Held>(task: &mut Task<H, impl Sized>, word: Word) -> (bool, Vec<Word>) {
            let mut woken = Woken::new();
            let wait = task.begin_commuting(&mut woken);
            let waits = match wait {
                Wait::Commuting(at) => {
                    let mut waits = false;
                    task.each(|other, shown, _| {
                        if other == at {
                            waits = shown.versions.wait_to_commute(word);
                        }
                    });
                    waits
                }
                _ => false,
            };
            (waits, woken.to_vec())
        }
        assert!(b.versions.try_begin_commuting(), "somebody is at b");
        assert_eq!(waits(&mut both, 1), (true, vec![]));
        assert_eq!(waits(&mut one, 2), (true, vec![]));
        assert!(a.versions.try_begin_commuting(), "and now at a");
        let mut woken = Woken::new();
        b.versions.end_commuting(&mut woken);
        assert_eq!(woken.to_vec(), [1], "who waited longest at b");
        assert_eq!(
            waits(&mut both, 1),
            (true, vec![2]),
            "it waits at a: the next one at b may"
        );
        assert_eq!(waits(&mut one, 2), (false, vec![]));
    }
}
