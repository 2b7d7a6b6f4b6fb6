//! The scope: where tasks are inserted.

use super::access::{AccessSet, Handle, Held, Lend};
use super::run::{Hand, Shared};
use super::task::{Label, Outcome, Task};
use crate::error::Kind;
use std::cell::RefCell;
use std::marker::PhantomData;

/// Inserts tasks in program order; ends when all of them have.
///
/// - `'c`: the scope's own; its handles carry it
/// - `'env`: what bodies may borrow outlives it
pub struct Scope<'c, 'env> {
    shared: &'c Shared<'env>,
    hand: RefCell<Hand<'c>>,
    own: PhantomData<fn(&'c ()) -> &'c ()>,
}

/// A task to be: its name and how urgent it is.
pub struct Insertion<'s, 'c, 'env> {
    scope: &'s Scope<'c, 'env>,
    name: &'static str,
    priority: i64,
}

/// Tasks that may wait at once before the inserting thread runs some.
const WINDOW: u64 = 8192;
/// How often that is looked at, in insertions.
const EVERY: u64 = 64;

impl<'c, 'env> Scope<'c, 'env> {
    pub(super) fn new(shared: &'c Shared<'env>, hand: Hand<'c>) -> Self {
        Scope {
            shared,
            hand: RefCell::new(hand),
            own: PhantomData,
        }
    }

    /// What the inserting worker has in hand at the end.
    pub(super) fn into_hand(self) -> Hand<'c> {
        self.hand.into_inner()
    }

    /// A datum for tasks of this scope: a value, or a borrowed `&mut T` whose owner finds what they
    /// left when the scope has ended.
    pub fn handle<T: Send + Sync + 'env>(&self, datum: T) -> Handle<'c, T> {
        Handle::new(datum)
    }

    /// One for each of some data.
    pub fn handles<T: Send + Sync + 'env>(
        &self,
        data: impl IntoIterator<Item = T>,
    ) -> Vec<Handle<'c, T>> {
        data.into_iter().map(Handle::new).collect()
    }

    /// Inserts a task: what it accesses, and what it does with that.
    ///
    /// It runs when all tasks inserted before that it depends on have, and never if one of them
    /// failed. A body returns nothing or a `Result`; of several errors the smallest by (index,
    /// number of the task) ends the scope.
    pub fn task<A, F, O>(&self, accesses: A, body: F)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        F: for<'a> FnOnce(<A::Held as Lend<'a>>::Arg) -> O + Send + 'env,
        O: Outcome + 'env,
    {
        self.name("task").task(accesses, body);
    }

    /// The next task has this name in errors.
    pub fn name(&self, name: &'static str) -> Insertion<'_, 'c, 'env> {
        Insertion {
            scope: self,
            name,
            priority: 0,
        }
    }

    /// The next task has this priority; higher runs earlier.
    pub fn priority(&self, priority: i64) -> Insertion<'_, 'c, 'env> {
        self.name("task").priority(priority)
    }
}

impl<'c, 'env> Insertion<'_, 'c, 'env> {
    /// The name of the task in errors.
    pub fn name(self, name: &'static str) -> Self {
        Insertion { name, ..self }
    }

    /// Higher runs earlier.
    pub fn priority(self, priority: i64) -> Self {
        Insertion { priority, ..self }
    }

    /// Inserts the task; see [`Scope::task`].
    pub fn task<A, F, O>(self, accesses: A, body: F)
    where
        A: AccessSet<'c>,
        A::Held: Held + 'env,
        F: for<'a> FnOnce(<A::Held as Lend<'a>>::Arg) -> O + Send + 'env,
        O: Outcome + 'env,
    {
        let shared = self.scope.shared;
        let mut hand = self.scope.hand.borrow_mut();
        let label = Label {
            number: hand.inserted,
            name: self.name,
            priority: self.priority,
        };
        hand.inserted += 1;
        match Task::new(label, accesses, body) {
            Some(task) => shared.insert(Box::new(task), &mut hand),
            None => {
                let text = "a task accesses the same handle twice (once is allowed)";
                shared.fail(Kind::AccessedTwice, Some(label), text);
            }
        }
        if hand.inserted.is_multiple_of(EVERY) {
            shared.keep_window(WINDOW, &mut hand);
        }
    }
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}

impl std::fmt::Debug for Insertion<'_, '_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Insertion({})", self.name)
    }
}
