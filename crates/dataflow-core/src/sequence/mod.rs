//! Sequences: tasks inserted in program order, on data with versions.
//!
//! This is the alternative to a [space](crate::space). [`scope()`] runs a program that inserts tasks; each
//! task says which data it [reads](read), [writes](write()), changes in [any order](commute) or
//! [adds to](reduce()), and waits only for those tasks before it that these accesses require. When the
//! scope returns, all tasks have run. The program may [wait for a datum](Scope::wait) and decide by its
//! value how to go on. A task may [insert tasks of its own](Scope::nested), on pieces of what it accesses.
//!
//! A space is never stored and costs less per task; a sequence needs no formulas, and its graph may
//! depend on data. Results are the same under every schedule (commuting accesses excepted). A sequence
//! can be [recorded](record), to be run many times or across ranks; it is then a space too.
//!
//! # Examples
//! ```
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{read, scope, write};
//!
//! let mut numbers = [1, 2, 3];
//! scope(&Inline, |s| {
//!     let n = s.lend_all(&mut numbers);
//!     s.task((read(&n[0]), write(&n[1])), |(a, b)| *b += *a);
//!     s.task((read(&n[1]), write(&n[2])), |(b, c)| *c *= *b);
//!     s.task(write(&n[0]), |a| *a = 0);
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
//! Tasks cannot use data that must stay on one thread:
//! ```compile_fail,E0277
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::scope;
//! scope(&Inline, |s| { s.handle(std::rc::Rc::new(1)); });
//! ```
//! A handle alone is no access, and a tuple of nine accesses is too long:
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
//! A body inserts nothing into the scope of its own task; a task that inserts others is
//! [nested](Scope::nested):
//! ```compile_fail,E0277
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{scope, write};
//! scope(&Inline, |s| {
//!     let (a, b) = (s.handle(1), s.handle(2));
//!     s.task(write(&a), move |_| s.task(write(&b), |b| *b += 1));
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
//!     s.nested(write(&row), |s, row| { let _two = (s.lend(&mut row[0]), s.lend(&mut row[0])); });
//! });
//! ```
//! Children cannot keep what their parent was lent:
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
//! Tillenius, *SuperGlue*, SIAM J. Sci. Comput. 37 (2015): versions, commuting accesses that never block a worker.

mod access;
mod cell;
mod conduct;
mod held;
mod kept;
mod law;
mod lent;
mod level;
mod mode;
mod nested;
mod pace;
pub mod record;
mod reduce;
mod run;
mod scope;
mod sifted;
mod task;
mod versions;
mod waiting;

pub use access::{Access, AccessSet, Accessible, Handle, commute, read, update, write};
pub use mode::{Commute, Read, Write};
pub use nested::Children;
pub use reduce::{Reduce, Reduced, reduce};
pub use run::TaskWindow;
pub use scope::{Insertion, Scope};
pub use sifted::{Bad, Sieve, Sifted};
pub use task::BodyOutcome;

use crate::engine::{Report, expect_workers, is_inside, refuse_inside_a_body};
use crate::error::Error;
use crate::port::Executor;
use conduct::{InsertingProgram, by_pointer, conduct};
use level::Level;

/// Runs a program that inserts tasks, and all tasks that it inserts, on this rank; returns the program's
/// result and the report of the run.
///
/// The program runs on a worker, which runs tasks too when more wait than its [`TaskWindow`] is wide
/// (8192, unless [set](Scope::set_window)); a body that panics there ends the scope even if the program
/// catches the panic. Bodies may borrow whatever outlives the call. Once a task
/// has panicked, or the run was cancelled, further tasks are dropped; a long program should ask
/// [`Scope::is_stopped`] and return.
///
/// # Errors
/// If bodies failed, the smallest error by (index, number of the task), the same under every schedule;
/// tasks that depend on them did not run. If a body panicked, that; and if a task accesses one handle
/// twice, that. [`Kind::Cancelled`](crate::error::Kind::Cancelled) by the executor's monitor.
/// [`Kind::NestedRun`](crate::error::Kind::NestedRun) inside the body of a task: there take [`scope_inside`].
pub fn scope<'env, R: Send>(
    on: &dyn Executor,
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
) -> Result<(R, Report), Error> {
    by_pointer(program, |program| run(on, program))
}

fn run(on: &dyn Executor, program: &mut InsertingProgram<'_, '_>) -> Result<Report, Error> {
    refuse_inside_a_body()?;
    expect_workers(on)?;
    let level = Level::outermost(on);
    let execute = |job: &_| {
        if let Some(monitor) = on.monitor() {
            monitor.watch(&level.ledger, job);
        }
        on.execute(job);
    };
    let report = conduct(on, &level, program, &execute);
    level.close_trace();
    let tasks = level.tasks();
    report.map(|report| Report { tasks, ..report })
}

/// Runs a scope inside the body of a task of any kind, on the workers of `on`, including the one that
/// runs the body. Outside of bodies it is the same as [`scope()`], without the report. In a body that another
/// executor runs, the thread of that body runs all tasks alone: it is none of the workers of `on`.
///
/// Inside tasks of a scope use [`Scope::nested`] instead; its errors name the path to the failed child.
///
/// # Errors
/// As [`scope()`]; but inside a body no monitor watches the scope. A run that is cancelled ends when the
/// body has returned.
pub fn scope_inside<'env, R: Send>(
    on: &dyn Executor,
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
) -> Result<R, Error> {
    let result = by_pointer(program, |program| match is_inside() {
        true => run_inside(on, program),
        false => run(on, program),
    });
    result.map(|(result, _)| result)
}

fn run_inside(on: &dyn Executor, program: &mut InsertingProgram<'_, '_>) -> Result<Report, Error> {
    expect_workers(on)?;
    let level = Level::outermost(on);
    let report = conduct(on, &level, program, &|job| on.execute_inside(job));
    level.close_trace();
    report
}
