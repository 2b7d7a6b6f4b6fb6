//! A task of a sequence: its name, its body, and its accesses, which [wait](super::waiting).

use super::held::{Ahead, Fallen, Held, InsertedTask, Label, Lend, ScopeInside, Twice, Wait};
use super::lent::InsertingThread;
use super::pace::Stopwatch;
use super::versions::Woken;
use super::waiting::Waiting;
use crate::error::TaskError;
use crate::foreign::Later;
use crate::port::Word;
use crate::sync::{AtomicU64, Ordering};
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::sync::Arc;

/// What a body may return: nothing, or a result.
///
/// # Examples
/// See [`Insertion`](super::Insertion#examples) for a body that returns a result. One that is still to be
/// written compiles:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::{scope, write};
///
/// let ended = scope(&Inline, |s| {
///     let number = s.handle(1);
///     s.name("double").task(write(&number), |_| todo!("twice the number"));
/// });
/// assert!(ended.unwrap_err().to_string().contains("twice the number (task double 0)"));
/// ```
#[diagnostic::on_unimplemented(
    message = "a task's body cannot return `{Self}`",
    label = "neither `()` nor a `Result<(), E>`",
    note = "results go into data that the task writes; errors are a `TaskError`, a text, or what implements `std::error::Error + Send + Sync`"
)]
pub trait BodyOutcome {
    /// The same as a result.
    ///
    /// # Errors
    /// The body's own.
    fn into_result(self) -> Result<(), TaskError>;
}

impl BodyOutcome for () {
    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<E: Into<TaskError>> BodyOutcome for Result<(), E> {
    fn into_result(self) -> Result<(), TaskError> {
        self.map_err(Into::into)
    }
}

/// What a function returns.
#[doc(hidden)]
pub trait Returning {
    type Output;
}

impl<R> Returning for fn() -> R {
    type Output = R;
}

/// What does not return, as the body `|_| todo!()`.
type Never = <fn() -> ! as Returning>::Output;

impl BodyOutcome for Never {
    fn into_result(self) -> Result<(), TaskError> {
        self
    }
}

/// What a task does with data that are held so.
pub(super) trait Body<H: Held>: Send {
    fn run(self, held: &mut H, inside: &ScopeInside<'_>) -> Result<(), Fallen>;
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
    O: BodyOutcome,
{
    fn run(self, held: &mut H, inside: &ScopeInside<'_>) -> Result<(), Fallen> {
        let arg = held.lend();
        let begin = inside.watch.as_ref().map(Stopwatch::begin);
        let outcome = (self.body)(arg);
        if let (Some(watch), Some(begin)) = (&inside.watch, begin) {
            watch.end(begin);
        }
        outcome.into_result().map_err(Fallen::Body)
    }
}

/// A task whose body holds many bytes until it has run, or is dropped.
pub(super) struct HeavyTask<'env> {
    task: Box<dyn InsertedTask + 'env>,
    /// `None` once the body is gone.
    weight: Option<WaitingBytes>,
}

/// Bytes among those that wait.
struct WaitingBytes {
    bytes: u64,
    waiting: Arc<AtomicU64>,
}

impl<'env> HeavyTask<'env> {
    pub fn new(task: Box<dyn InsertedTask + 'env>, bytes: u64, waiting: &Arc<AtomicU64>) -> Self {
        // Relaxed: a count, no more.
        waiting.fetch_add(bytes, Ordering::Relaxed);
        let waiting = waiting.clone();
        let weight = Some(WaitingBytes { bytes, waiting });
        HeavyTask { task, weight }
    }
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl InsertedTask for HeavyTask<'_> {
    fn label(&self) -> &Label {
        self.task.label()
    }

    fn advance(&mut self, woken: &mut Woken) -> Wait {
        self.task.advance(woken)
    }

    fn park(&self, wait: Wait, word: Word) -> bool {
        self.task.park(wait, word)
    }

    fn is_spoilt(&self) -> bool {
        self.task.is_spoilt()
    }

    fn pieces(&self, tell: &mut dyn FnMut(usize, u64)) {
        self.task.pieces(tell);
    }

    fn run(&mut self, inside: &ScopeInside<'_>) -> Result<(), Fallen> {
        let weight = self.weight.take();
        let result = self.task.run(inside);
        drop(weight);
        result
    }

    fn finish(&mut self, failed: bool, woken: &mut Woken) {
        self.task.finish(failed, woken);
        self.weight = None;
    }
}

/// A task with certain accesses and a certain body.
pub(super) struct BodyTask<H: Held, B> {
    label: Label,
    waiting: Waiting<H>,
    /// `None` once it has run.
    body: Option<B>,
}

impl<H: Held, B> BodyTask<H, B> {
    /// A task that is not inserted yet, at once where it will lie, and what it holds, too: a processor waits
    /// for what is moved right after it was written in parts.
    #[inline(always)]
    pub fn boxed(hold: impl FnOnce() -> H, body: B) -> Box<Self> {
        let place = Box::new_uninit();
        let task = BodyTask {
            label: Label::NONE,
            waiting: Waiting::new(hold()),
            body: Some(body),
        };
        Box::write(place, task)
    }

    /// Inserts what must come before it.
    pub fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
    where
        H: 'e,
    {
        self.waiting.prepare(ahead);
    }

    /// Inserts the accesses.
    ///
    /// # Errors
    /// Two are to the same datum.
    #[inline(always)]
    pub fn insert(&mut self, label: Label, by: &InsertingThread) -> Result<(), Twice> {
        self.label = label;
        self.waiting.insert(by)
    }
}

impl<H: Held, B> Drop for BodyTask<H, B> {
    /// One that has run holds nothing.
    fn drop(&mut self) {
        let are_several = H::N_LOUD + needs_drop::<B>() as usize > 1;
        if are_several && (self.body.is_some() || self.waiting.is_held()) {
            self.let_go();
        }
    }
}

impl<H: Held, B> BodyTask<H, B> {
    /// What a run leaves behind that was stopped is foreign, each by itself.
    #[cold]
    fn let_go(&mut self) {
        let data = Later::new(|| self.waiting.let_go());
        self.body = None;
        data.now();
    }
}

impl<'env> Ahead<'_, 'env> {
    /// Inserts a task on data that are known.
    pub(super) fn insert<H, F, O>(&mut self, name: &'static str, held: H, body: F)
    where
        H: Held + 'env,
        F: for<'a> FnOnce(<H as Lend<'a>>::Arg) -> O + Send + 'env,
        O: BodyOutcome + 'env,
    {
        let label = self.0.label(name);
        let mut task = BodyTask::boxed(|| held, Leaf::new(body));
        let inserted = task.insert(label, &self.by());
        self.0.insert(
            label,
            inserted.map(|()| task as Box<dyn InsertedTask + 'env>),
        );
    }
}

impl<H: Held, B: Body<H>> InsertedTask for BodyTask<H, B> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn advance(&mut self, woken: &mut Woken) -> Wait {
        self.waiting.advance(woken)
    }

    fn park(&self, wait: Wait, word: Word) -> bool {
        self.waiting.park(wait, word, &self.label)
    }

    fn is_spoilt(&self) -> bool {
        self.waiting.is_spoilt()
    }

    fn pieces(&self, tell: &mut dyn FnMut(usize, u64)) {
        self.waiting.pieces(tell);
    }

    fn run(&mut self, inside: &ScopeInside<'_>) -> Result<(), Fallen> {
        let (Some(body), Some(held)) = (self.body.take(), self.waiting.held_mut()) else {
            unreachable!("{:?} runs once", self.label);
        };
        body.run(held, inside)
    }

    fn finish(&mut self, failed: bool, woken: &mut Woken) {
        self.body = None;
        self.waiting.finish(failed, woken);
    }
}
