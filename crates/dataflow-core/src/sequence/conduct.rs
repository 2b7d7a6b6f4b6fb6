//! A scope from its first insertion to the end of its last task, on whatever executor.

use super::level::Level;
use super::run::{ScopeHand, ScopeRun};
use super::scope::Scope;
use crate::engine::{
    Begin, Front, Job, Report, Visit, buried, drive, drop_quietly, refuse_too_deep,
};
use crate::error::Error;
use crate::port::Executor;
use crate::sync::held;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Runs an inserting program and all that it inserts: whatever `execute` does with the job, it is
/// over when this returns.
pub(super) fn conduct<'env, P, R>(
    on: &dyn Executor,
    level: &Arc<Level>,
    program: P,
    execute: impl FnOnce(&Arc<Job>),
) -> Result<(R, Report), Error>
where
    P: for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
    R: Send,
{
    refuse_too_deep(level.depth)?;
    let start = Instant::now();
    let shared = ScopeRun::new(level.clone(), on);
    let program = Mutex::new(Some(program));
    let result = Mutex::new(None);
    let bell = Arc::default();
    let begin: Begin<'_, ScopeRun<'_, 'env>> = &|shared, visit| {
        if shared.is_stopped() {
            return; // it was cancelled before it began
        }
        if let Some(program) = taken(&program) {
            let returned = run_program(shared, program, visit);
            *held(&result) = returned;
        }
    };
    drive(&shared, bell, begin, execute);
    drop_quietly(taken(&program));
    let seconds = start.elapsed().as_secs_f64();
    let result = taken(&result);
    match (shared.ended(result.is_some(), seconds), result) {
        (Ok(report), Some(result)) => Ok((result, report)),
        (Ok(_), None) => unreachable!("a program that was not stopped has returned"),
        (Err(error), result) => {
            drop_quietly(result);
            Err(error)
        }
    }
}

fn taken<T>(mutex: &Mutex<Option<T>>) -> Option<T> {
    held(mutex).take()
}

/// Runs the inserting program; answers what it returned.
fn run_program<'f, 'env, R>(
    shared: &'f ScopeRun<'_, 'env>,
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R,
    visit: &mut Visit<'_, ScopeHand<'f, 'env>>,
) -> Option<R> {
    let hand = visit.hand.inserting();
    let scope = Scope::new(shared, visit.with(hand));
    let mut result = None;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        result = Some(program(&scope));
        scope.end();
    }));
    // What is left of the series is dropped when all is back in its place and the panic was noted.
    let (inserting, _series) = scope.into_parts();
    let (left, hand) = inserting.left();
    let hand = hand.after_inserting();
    visit.back(left);
    let inserted = hand.inserted;
    visit.hand = hand;
    match ended {
        Ok(()) => {
            shared.has_inserted(inserted);
            result
        }
        Err(panic) => {
            shared.program_panicked(visit, &buried(panic));
            drop_quietly(result);
            None
        }
    }
}
