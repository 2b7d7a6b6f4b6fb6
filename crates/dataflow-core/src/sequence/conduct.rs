//! A scope from its first insertion to the end of its last task, on whatever executor.

use super::level::Level;
use super::run::{ScopeHand, ScopeRun};
use super::scope::Scope;
use crate::engine::{Begin, Front, Job, Report, Visit, drive, refuse_too_deep};
use crate::error::Error;
use crate::foreign::{caught, drop_quietly};
use crate::port::Executor;
use crate::sync::{AtomicBool, Ordering, held};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A program that inserts into a scope, called once at most. Behind a pointer, so that what runs it is
/// compiled here, and not for each program.
pub(super) type InsertingProgram<'p, 'env> = dyn for<'c> FnMut(&Scope<'c, 'env>) + Send + 'p;

/// Has a program run by `run`; returns the program's result with the report.
pub(super) fn by_pointer<'env, R: Send>(
    program: impl for<'c> FnOnce(&Scope<'c, 'env>) -> R + Send,
    run: impl FnOnce(&mut InsertingProgram<'_, 'env>) -> Result<Report, Error>,
) -> Result<(R, Report), Error> {
    let (mut program, mut result) = (Some(program), None);
    let report = run(&mut |scope: &Scope<'_, 'env>| {
        let program = program.take();
        result = program.map(|program| program(scope));
    });
    drop_quietly(program);
    match (report, result) {
        (Ok(report), Some(result)) => Ok((result, report)),
        (Ok(_), None) => unreachable!("a program that was not stopped has returned"),
        (Err(error), result) => {
            drop_quietly(result);
            Err(error)
        }
    }
}

/// Runs an inserting program and all that it inserts: whatever `execute` does with the job, it is
/// over when this returns.
pub(super) fn conduct<'env>(
    on: &dyn Executor,
    level: &Arc<Level>,
    program: &mut InsertingProgram<'_, 'env>,
    execute: &dyn Fn(&Arc<Job>),
) -> Result<Report, Error> {
    refuse_too_deep(level.depth)?;
    let start = Instant::now();
    let shared = ScopeRun::new(level.clone(), on);
    let program = Mutex::new(Some(program));
    let has_returned = AtomicBool::new(false);
    let begin: Begin<'_, ScopeRun<'_, 'env>> = &|shared, visit| {
        if shared.is_stopped() {
            return; // it was cancelled before it began
        }
        // Not in the condition: whoever comes meanwhile would wait for the lock until the program has returned.
        let program = held(&program).take();
        if let Some(program) = program {
            let returned = run_program(shared, program, visit);
            has_returned.store(returned, Ordering::Relaxed);
        }
    };
    drive(&shared, Arc::default(), begin, execute);
    let seconds = start.elapsed().as_secs_f64();
    shared.ended(has_returned.load(Ordering::Relaxed), seconds)
}

/// Runs the inserting program; answers whether it returned.
fn run_program<'f, 'env>(
    shared: &'f ScopeRun<'_, 'env>,
    program: &mut InsertingProgram<'_, 'env>,
    visit: &mut Visit<'_, ScopeHand<'f, 'env>>,
) -> bool {
    let hand = visit.hand.inserting();
    let scope = Scope::new(shared, visit.with(hand));
    let ended = caught(|| {
        program(&scope);
        scope.end();
    });
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
            true
        }
        Err(text) => {
            shared.count(inserted);
            shared.program_panicked(visit, &text);
            false
        }
    }
}
