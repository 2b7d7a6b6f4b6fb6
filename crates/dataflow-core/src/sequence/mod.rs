//! Sequences: tasks inserted in program order, on data with versions.
//!
//! The second way to write a program. [`scope()`] runs a program that inserts tasks; each says what
//! it [reads](read), [writes](write()) or changes in [any order](commute), and depends on those inserted
//! before it exactly as far as that requires. When the scope returns, all have run.
//!
//! A symbolic [space](crate::space) is never unrolled and costs less a task; a sequence needs no
//! formulas, and its graph may depend on data. Results are the same under every schedule
//! (commuting accesses excepted).
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
//! ```compile_fail
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
//!
//! # Source
//! SuperGlue (paper 001, §2): versions, commuting accesses that never block a worker.

mod access;
mod law;
mod run;
mod scope;
mod task;
mod versions;

pub use access::{Access, AccessSet, Commute, Handle, Read, Write, commute, read, update, write};
pub use scope::{Insertion, Scope};
pub use task::Outcome;

use crate::engine::{Ledger, Offered, Report, refuse_inside_a_body};
use crate::error::{Error, Kind};
use crate::monitor::Monitor;
use crate::port::Executor;
use run::{Sequence, Shared};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Runs a program that inserts tasks, and all that it inserts; returns what it returned.
///
/// The program runs on a worker, which runs tasks too when too many wait. Bodies may borrow
/// whatever outlives the call.
///
/// # Errors
/// Of bodies that failed the smallest by (index, number of the task), the same under every
/// schedule; what depends on them did not run. Or a panic; or two accesses of one task to one handle.
pub fn scope<'env, R: Send>(
    on: &dyn Executor,
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
) -> Result<R, Error> {
    scope_with(on, &Monitor::new(), program).map(|(result, _)| result)
}

/// The same, watched by a monitor; tells also what the run did.
///
/// # Errors
/// As [`scope()`], and [`Kind::Cancelled`].
pub fn scope_with<'env, R: Send>(
    on: &dyn Executor,
    monitor: &Monitor,
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
) -> Result<(R, Report), Error> {
    refuse_inside_a_body()?;
    let start = Instant::now();
    let ledger = Arc::new(Ledger::new(on.n_workers(), 0, false));
    let sequence = Sequence {
        shared: Shared::new(ledger.clone()),
        program: Mutex::new(Some(program)),
        result: Mutex::new(None),
    };
    {
        let offered = Offered::new(&sequence, Arc::default(), |sequence| {
            sequence.shared.ledger.stop();
        });
        monitor.watch(&ledger, offered.job());
        on.execute(offered.job());
    }
    if let Some(error) = sequence.shared.error() {
        return Err(error);
    }
    let tasks = ledger.executed();
    let result = sequence.result.into_inner();
    let result = result.unwrap_or_else(std::sync::PoisonError::into_inner);
    match result {
        Some(result) if tasks == ledger.count() => Ok((
            result,
            Report {
                tasks,
                seconds: start.elapsed().as_secs_f64(),
                tasks_by_worker: ledger.executed_by_worker(),
                uniform: on.is_uniform(),
                ..Report::default()
            },
        )),
        _ => {
            let text = format!("cancelled after {tasks} of {} tasks", ledger.count());
            Err(Error::new(Kind::Cancelled, None, text))
        }
    }
}
