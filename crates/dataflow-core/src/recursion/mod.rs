//! Recursion: a call either has its result, or forks into calls whose results are joined.
//!
//! No worker waits inside a call for those that it forks into: a fork leaves a frame behind, and the worker
//! that brings the last result joins all results and goes on with the call above. So neither the stack nor
//! the number of workers limits the depth of forks. Since each worker calls depth first, at most
//! depth × calls of a fork × workers calls wait at once. A recursion that a call itself starts is different:
//! it lies on the stack, and at most 100 recursions and scopes may be nested in one another.
//!
//! # Examples
//! ```
//! use dataflow_core::port::Inline;
//! use dataflow_core::recursion::{Call, Recursive, recurse};
//! use dataflow_core::TaskError;
//!
//! struct Fibonacci;
//!
//! impl Recursive for Fibonacci {
//!     type Argument = u64;
//!     type Value = u64;
//!
//!     fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
//!         Ok(match n {
//!             0 | 1 => Call::Done(n),
//!             _ => Call::fork([n - 1, n - 2], |values| values.into_iter().sum()),
//!         })
//!     }
//! }
//!
//! let (value, report) = recurse(&Fibonacci, 20, &Inline)?;
//! assert_eq!((value, report.tasks), (6765, 21891));
//! # Ok::<(), dataflow_core::Error>(())
//! ```
//!
//! # Source
//! Matheou, Evripidou, *FREDDO*, PACT 2015 and follow-ups, §3.7 (paper 004): recursion without a
//! stack, results that travel to their parents.

mod across;
mod frame;
mod run;
mod top;

pub use across::recurse_across;

use crate::engine::{Report, is_inside};
use crate::error::{Error, TaskError};
use crate::port::Executor;
use run::CallPath;

/// A problem that is solved by solving smaller ones.
///
/// # Examples
/// See the [module's](self) example.
pub trait Recursive: Sync {
    /// The argument of a call.
    type Argument: Send;
    /// The result of a call.
    type Value: Send;

    /// One call: its result, or the calls that it takes. Across ranks it must be pure.
    ///
    /// # Errors
    /// The call's own. Calls that need its value are not joined; all others are made.
    fn call(&self, argument: Self::Argument) -> Result<Call<Self>, TaskError>;
}

/// The outcome of a call.
///
/// # Examples
/// See the [module's](self) example.
pub enum Call<P: Recursive + ?Sized> {
    /// The call has its value.
    Done(P::Value),
    /// The call has its value when these calls have theirs.
    Fork {
        /// Their arguments.
        arguments: Vec<P::Argument>,
        /// Makes its value of theirs, given in that order.
        join: Join<P>,
    },
}

/// Makes the value of a call of the values of the calls that it has forked into.
///
/// # Examples
/// See the [module's](self) example: [`Call::fork`] makes one of a closure.
pub type Join<P> = Box<dyn FnOnce(Vec<<P as Recursive>::Value>) -> <P as Recursive>::Value + Send>;

impl<P: Recursive + ?Sized> Call<P> {
    /// Calls, and how their values are joined. Where the compiler does not see what the values are, as in
    /// `&values[0]`, it is told by `Call::<Self>::fork`.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::TaskError;
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::recursion::{Call, Recursive, recurse};
    ///
    /// struct MergeSort;
    ///
    /// impl Recursive for MergeSort {
    ///     type Argument = Vec<u32>;
    ///     type Value = Vec<u32>;
    ///
    ///     fn call(&self, mut numbers: Vec<u32>) -> Result<Call<Self>, TaskError> {
    ///         if numbers.len() < 2 {
    ///             return Ok(Call::Done(numbers));
    ///         }
    ///         let upper = numbers.split_off(numbers.len() / 2);
    ///         Ok(Call::<Self>::fork([numbers, upper], |halves| merged(&halves[0], &halves[1])))
    ///     }
    /// }
    ///
    /// fn merged<'a>(mut left: &'a [u32], mut right: &'a [u32]) -> Vec<u32> {
    ///     let mut all = Vec::with_capacity(left.len() + right.len());
    ///     while let (Some(l), Some(r)) = (left.first(), right.first()) {
    ///         let smaller = if l <= r { &mut left } else { &mut right };
    ///         all.push(smaller[0]);
    ///         *smaller = &smaller[1..];
    ///     }
    ///     [&all, left, right].concat()
    /// }
    ///
    /// assert_eq!(recurse(&MergeSort, vec![3, 1, 2, 5, 4], &Inline)?.0, [1, 2, 3, 4, 5]);
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    pub fn fork(
        arguments: impl IntoIterator<Item = P::Argument>,
        join: impl FnOnce(Vec<P::Value>) -> P::Value + Send + 'static,
    ) -> Self {
        Call::Fork {
            arguments: arguments.into_iter().collect(),
            join: Box::new(join),
        }
    }
}

impl<P: Recursive + ?Sized> std::fmt::Debug for Call<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Call::Done(_) => f.write_str("Done"),
            Call::Fork { arguments, .. } => write!(f, "Fork({})", arguments.len()),
        }
    }
}

/// Calls a problem with an argument, and makes all calls that this forks into; each call is a task. May
/// be used inside a body.
///
/// # Errors
/// If calls failed, the smallest error by (index, path to the call), the same under every schedule; or a
/// panic; or [`Kind::Cancelled`](crate::error::Kind::Cancelled) by the executor's monitor, which watches
/// no call inside a body; or [`Kind::NestedTooDeep`](crate::error::Kind::NestedTooDeep).
pub fn recurse<P: Recursive>(
    problem: &P,
    argument: P::Argument,
    on: &dyn Executor,
) -> Result<(P::Value, Report), Error> {
    let here = CallPath::default();
    match is_inside() {
        true => run::run(problem, argument, here, on, |_, job| on.execute_inside(job)),
        false => run::run(problem, argument, here, on, |common, job| {
            common.execute(on, job)
        }),
    }
}

/// A part of a run across ranks, inside one of its bodies; its outermost call is told by its way there.
/// The run's monitor watches it, too.
fn recurse_below<P: Recursive>(
    problem: &P,
    argument: P::Argument,
    way: CallPath,
    on: &dyn Executor,
) -> Result<(P::Value, Report), Error> {
    run::run(problem, argument, way, on, |common, job| {
        if let Some(monitor) = on.monitor() {
            monitor.watch_inside(&common.ledger, job);
        }
        on.execute_inside(job);
    })
}
