//! Nested tasks: a task that inserts tasks of its own, on pieces of what it accesses.
//!
//! # Law
//! A parent's accesses are released when its last child has ended: the references that it was lent stay
//! on the stack of the worker that runs it, and children borrow from there. Meanwhile that worker runs
//! only descendants of the parent. These depend on nothing outside the parent's accesses, so they
//! end, and the stack is no deeper than the nesting.
//!
//! # Source
//! Zafari, Larsson, Tillenius, *DuctTeip*, Parallel Computing 90 (2019), §3 (paper 001): blocks
//! that travel, tiles that are views into them.

use super::access::{Held, Lend};
use super::pace::Watch;
use super::run::{Level, conduct};
use super::scope::Scope;
use super::task::{Body, Fallen, Label, Outcome};
use crate::error::Error;
use crate::port::Executor;
use crate::trace::Aside;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// The scope of a parent's children.
///
/// - `'c`: belongs to this scope; handles of the parent's scope have another
/// - `'a`: the time for which the parent holds what it accesses; children may borrow that, and whatever
///   outlives the parent's scope (`'env`)
pub struct Children<'s, 'c, 'a, 'env: 'a> {
    scope: &'s Scope<'c, 'a>,
    outer: PhantomData<&'a &'env ()>,
}

impl<'c, 'a> Deref for Children<'_, 'c, 'a, '_> {
    type Target = Scope<'c, 'a>;

    fn deref(&self) -> &Scope<'c, 'a> {
        self.scope
    }
}

impl std::fmt::Debug for Children<'_, '_, '_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Children")
    }
}

/// What a task needs to run a scope inside.
pub(super) struct Inside<'r> {
    pub on: &'r dyn Executor,
    pub level: &'r Arc<Level>,
    pub label: Label,
    /// Where the worker notes what it does.
    pub aside: Aside<'r>,
    /// For bodies whose time is taken.
    pub watch: Option<Watch>,
}

/// The body of a parent.
pub(super) struct Parent<'env, F, O> {
    body: F,
    outcome: PhantomData<fn(&'env ()) -> O>,
}

impl<F, O> Parent<'_, F, O> {
    pub fn new(body: F) -> Self {
        let outcome = PhantomData;
        Parent { body, outcome }
    }
}

impl<'env, H, F, O> Body<H> for Parent<'env, F, O>
where
    H: Held + 'env,
    F: for<'s, 'c, 'a> FnOnce(Children<'s, 'c, 'a, 'env>, <H as Lend<'a>>::Arg) -> O + Send + 'env,
    O: Outcome + Send,
{
    fn run(self, guards: &mut H::Guards<'_>, inside: &Inside<'_>) -> Result<(), Fallen> {
        run_children(self, H::lend(guards), inside)
    }
}

/// Runs the children of a parent that was lent `arg`, until the last has ended.
fn run_children<'a, 'env: 'a, A, F, O>(
    parent: Parent<'env, F, O>,
    arg: A,
    inside: &Inside<'_>,
) -> Result<(), Fallen>
where
    A: Send + 'a,
    F: for<'s, 'c> FnOnce(Children<'s, 'c, 'a, 'env>, A) -> O + Send + 'env,
    O: Outcome + Send,
{
    let level = Level::within(inside.on.n_workers(), inside.level);
    let program = |scope: &Scope<'_, 'a>| {
        let outer = PhantomData;
        (parent.body)(Children { scope, outer }, arg)
    };
    let result = inside.aside.during(|| {
        let execute = |job: &_| inside.on.execute_inside(job);
        conduct(inside.on, &level, program, execute)
    });
    inside.level.count_nested(level.tasks());
    match result {
        Ok((outcome, _)) => outcome.into_result().map_err(Fallen::Body),
        Err(error) => Err(Fallen::Inside(Error::within(&inside.label, error))),
    }
}
