//! Sequences: tasks inserted in program order, on data with versions.
//!
//! The second way to write a program. [`scope()`] runs a program that inserts tasks; each says what
//! it [reads](read), [writes](write()), changes in [any order](commute) or [adds to](reduce()), and
//! depends on those inserted before it exactly as far as that requires. When the scope returns, all
//! have run. A task may [insert tasks of its own](Scope::nested), on pieces of what it accesses.
//!
//! A symbolic [space](crate::space) is never unrolled and costs less a task; a sequence needs no
//! formulas, and its graph may depend on data. Results are the same under every schedule
//! (commuting accesses excepted). A [recorded](record) sequence is a space: for programs that run
//! many times, or across ranks.
//!
//! # Examples
//! ```
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{read, scope, write};
//!
//! let mut numbers = [1, 2, 3];
//! scope(&Inline, |s| {
//!     let n = s.handles(&mut numbers);
//!     s.task((read(&n[0]), write(&n[1])), |(a, b)| **b += **a);
//!     s.task((read(&n[1]), write(&n[2])), |(b, c)| **c *= **b);
//!     s.task(write(&n[0]), |a| **a = 0);
//! })?;
//! assert_eq!(numbers, [0, 3, 9]);
//! # Ok::<(), dataflow_core::Error>(())
//! ```
//! A handle lives in its scope:
//! ```compile_fail,E0521
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::scope;
//! let mut leaked = None;
//! scope(&Inline, |s| leaked = Some(s.handle(1)));
//! ```
//! What is read is not written:
//! ```compile_fail,E0594
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{read, scope};
//! scope(&Inline, |s| { let n = s.handle(1); s.task(read(&n), |n| *n = 2); });
//! ```
//! A body may not keep what it was lent:
//! ```compile_fail,E0521
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{scope, write};
//! let mut kept: Option<&mut u64> = None;
//! scope(&Inline, |s| { let n = s.handle(1); s.task(write(&n), |n| kept = Some(n)); });
//! ```
//! Data that other threads must not touch are no data for tasks:
//! ```compile_fail,E0277
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::scope;
//! scope(&Inline, |s| { s.handle(std::rc::Rc::new(1)); });
//! ```
//! A handle alone does not say what is done with it, and neither do nine accesses in one tuple:
//! ```compile_fail,E0277
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::scope;
//! scope(&Inline, |s| { let n = s.handle(1); s.task(&n, |n| *n += 1); });
//! ```
//! ```compile_fail,E0277
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{read, scope};
//! scope(&Inline, |s| {
//!     let n = s.handles([0; 9]);
//!     let [a, b, c, d, e, f, g, h, i] = std::array::from_fn(|at| read(&n[at]));
//!     s.task((a, b, c, d, e, f, g, h, i), |_| ());
//! });
//! ```
//! A child works on what its parent was lent, not on the parent's handles:
//! ```compile_fail,E0521
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{scope, write};
//! scope(&Inline, |s| {
//!     let (a, b) = (s.handle(1), s.handle(2));
//!     s.nested(write(&a), move |s, _| s.task(write(&b), |b| *b += 1));
//! });
//! ```
//! Two children do not get the same piece:
//! ```compile_fail,E0499
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{scope, write};
//! scope(&Inline, |s| {
//!     let row = s.handle([1, 2]);
//!     s.nested(write(&row), |s, row| { let _two = (s.handle(&mut row[0]), s.handle(&mut row[0])); });
//! });
//! ```
//! What a parent was lent does not leave it by its children:
//! ```compile_fail,E0521
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{scope, write};
//! let mut kept: Option<&mut u64> = None;
//! scope(&Inline, |s| {
//!     let n = s.handle(1);
//!     s.nested(write(&n), |s, n| { let n = s.handle(n); s.task(write(&n), |n| kept = Some(*n)); });
//! });
//! ```
//!
//! # Source
//! SuperGlue (paper 001, §2): versions, commuting accesses that never block a worker.

mod access;
mod law;
mod nested;
mod pace;
pub mod record;
mod reduce;
mod run;
mod scope;
mod sifted;
mod task;
mod versions;

pub use access::{
    Access, AccessSet, Accessible, Commute, Handle, Read, Write, commute, read, update, write,
};
pub use nested::Children;
pub use reduce::{Reduce, Reduced, reduce};
pub use scope::{Insertion, Scope, Window};
pub use sifted::{Bad, Sieve, Sifted};
pub use task::Outcome;

use crate::engine::{Report, is_inside, refuse_inside_a_body};
use crate::error::Error;
use crate::port::Executor;
use run::{Level, conduct};

/// Runs a program that inserts tasks, and all that it inserts, on this rank; returns what it returned,
/// and what the run did.
///
/// The program runs on a worker, which runs tasks too when more wait than its [`Window`] is wide
/// (8192, unless [set](Scope::set_window)). Bodies may borrow whatever outlives the call. Once a task
/// has panicked, or the run was cancelled, what is inserted is dropped: a long program asks
/// [`Scope::is_stopped`].
///
/// # Errors
/// Of bodies that failed the smallest by (index, number of the task), the same under every
/// schedule; what depends on them did not run. Or a panic; or two accesses of one task to one handle;
/// or [`Kind::Cancelled`](crate::error::Kind::Cancelled) by the executor's monitor.
pub fn scope<'env, R: Send>(
    on: &dyn Executor,
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
) -> Result<(R, Report), Error> {
    refuse_inside_a_body()?;
    let level = Level::outermost(on);
    let execute = |job: &_| {
        if let Some(monitor) = on.monitor() {
            monitor.watch(&level.ledger, job);
        }
        on.execute(job);
    };
    let result = conduct(on, &level, program, execute);
    level.close_trace();
    let (result, report) = result?;
    let tasks = level.tasks();
    Ok((result, Report { tasks, ..report }))
}

/// The same inside the body of a task, whatever kind of task that is: on the workers of `on`, the
/// one that runs the body among them. Anywhere else the same as [`scope()`], without its report.
///
/// Inside a scope's own tasks [`Scope::nested`] does it, and names the way to the child that fails.
///
/// # Errors
/// As [`scope()`].
pub fn scope_inside<'env, R: Send>(
    on: &dyn Executor,
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
) -> Result<R, Error> {
    if !is_inside() {
        return scope(on, program).map(|(result, _)| result);
    }
    let level = Level::outermost(on);
    let execute = |job: &_| on.execute_inside(job);
    let result = conduct(on, &level, program, execute);
    level.close_trace();
    result.map(|(result, _)| result)
}
