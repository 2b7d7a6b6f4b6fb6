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

use super::access::AccessSet;
use super::conduct::{by_pointer, conduct};
use super::held::{Fallen, Held, Lend, ScopeInside};
use super::level::Level;
use super::scope::{Insertion, Scope};
use super::task::{Body, BodyOutcome};
use crate::error::Error;
use std::marker::PhantomData;
use std::ops::Deref;

/// The scope of a parent's children.
///
/// - `'c`: belongs to this scope; handles of the parent's scope have another
/// - `'a`: the time for which the parent holds what it accesses; children may borrow that, and whatever
///   outlives the parent's scope (`'env`)
///
/// # Examples
/// See [`Scope::nested`].
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

impl<'c, 'env> Scope<'c, 'env> {
    /// Inserts a task that inserts tasks of its own, on pieces of what it accesses; it keeps its accesses
    /// until the last child has ended. Children may be nested too, up to a hundred scopes in one another,
    /// since each lies on the stack of a worker; deeper nesting is an error. (A
    /// [recursion](crate::recursion) may be as deep as memory allows.)
    ///
    /// An error of a child is an error of the task: of several the smallest by (index, number). A panic
    /// ends the whole scope. The text names the path to the child: `Block 3 / Potrf 0`.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::sequence::{read, scope, write};
    ///
    /// let mut rows = [[1, 2], [3, 4]];
    /// scope(&Inline, |s| {
    ///     let rows = s.lend_all(&mut rows);
    ///     s.nested(write(&rows[0]), |s, row| {
    ///         for number in s.lend_all(row) {
    ///             s.task(write(&number), |number| *number *= 10);
    ///         }
    ///     });
    ///     s.task((read(&rows[0]), write(&rows[1])), |(from, to)| to[0] += from[1]);
    /// })?;
    /// assert_eq!(rows, [[10, 20], [23, 4]]);
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    /// A function that inserts tasks takes the scope, be it the outermost or that of a parent's children, and
    /// what it works on for as long as its tasks may borrow:
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::sequence::{Scope, scope, write};
    ///
    /// fn sort<'a>(s: &Scope<'_, 'a>, numbers: &'a mut [u32]) {
    ///     let middle = numbers.len() / 2;
    ///     let whole = s.handle(numbers);
    ///     if middle > 0 {
    ///         s.nested(write(&whole), move |s, numbers| {
    ///             let (lower, upper) = numbers.split_at_mut(middle);
    ///             sort(&s, lower);
    ///             sort(&s, upper);
    ///         });
    ///         // A stable sort merges what is sorted on either side.
    ///         s.task(write(&whole), |numbers| numbers.sort());
    ///     }
    /// }
    ///
    /// let mut numbers = [3, 1, 2, 5, 4];
    /// scope(&Inline, |s| sort(s, &mut numbers))?;
    /// assert_eq!(numbers, [1, 2, 3, 4, 5]);
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    pub fn nested<A, F, O>(&self, accesses: A, body: F)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        F: for<'s, 'd, 'a> FnOnce(Children<'s, 'd, 'a, 'env>, <A::Held as Lend<'a>>::Arg) -> O
            + Send
            + 'env,
        O: BodyOutcome + Send + 'env,
    {
        self.name("nested").nested(accesses, body);
    }
}

impl<'c, 'env> Insertion<'_, 'c, 'env> {
    /// Inserts a task that inserts tasks of its own; see [`Scope::nested`].
    pub fn nested<A, F, O>(self, accesses: A, body: F)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        F: for<'s, 'd, 'a> FnOnce(Children<'s, 'd, 'a, 'env>, <A::Held as Lend<'a>>::Arg) -> O
            + Send
            + 'env,
        O: BodyOutcome + Send + 'env,
    {
        self.insert(accesses, Parent::new(body));
    }
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
    O: BodyOutcome + Send,
{
    fn run(self, held: &mut H, inside: &ScopeInside<'_>) -> Result<(), Fallen> {
        run_children(self, held.lend(), inside)
    }
}

/// Runs the children of a parent that was lent `arg`, until the last has ended.
fn run_children<'a, 'env: 'a, A, F, O>(
    parent: Parent<'env, F, O>,
    arg: A,
    inside: &ScopeInside<'_>,
) -> Result<(), Fallen>
where
    A: Send + 'a,
    F: for<'s, 'c> FnOnce(Children<'s, 'c, 'a, 'env>, A) -> O + Send + 'env,
    O: BodyOutcome + Send,
{
    let worker = inside.aside.worker();
    let level = Level::within(inside.on.n_workers(), inside.level, worker);
    let program = |scope: &Scope<'_, 'a>| {
        let outer = PhantomData;
        (parent.body)(Children { scope, outer }, arg)
    };
    let result = by_pointer(program, |program| {
        inside.aside.during(|| {
            let execute = |job: &_| inside.on.execute_inside(job);
            conduct(inside.on, &level, program, &execute)
        })
    });
    inside.level.count_nested(&level);
    match result {
        Ok((outcome, _)) => outcome.into_result().map_err(Fallen::Body),
        Err(error) => Err(Fallen::Inside(Error::within(inside.label, error))),
    }
}
