//! The scope: where tasks are inserted.

use super::access::{AccessSet, Handle, Held, Lend};
use super::nested::{Children, Parent};
use super::reduce::Close;
use super::run::{Hand, Shared};
use super::task::{Body, Label, Leaf, Outcome, Task};
use crate::error::Kind;
use std::cell::RefCell;
use std::marker::PhantomData;

/// Inserts tasks in program order; ends when all of them have.
///
/// - `'c`: the scope's own; its handles carry it
/// - `'env`: what bodies may borrow outlives it
pub struct Scope<'c, 'env> {
    shared: &'c Shared<'env>,
    desk: RefCell<Desk<'c, 'env>>,
    own: PhantomData<fn(&'c ()) -> &'c ()>,
}

/// What changes with every insertion.
struct Desk<'h, 'env> {
    hand: Hand<'h>,
    /// Data with a series of reductions that was open when it was looked at last.
    series: Vec<Box<dyn Close<'env> + 'env>>,
    /// How many of them there may be before those that are closed are sorted out.
    many: usize,
}

/// A task is about to be inserted: what it needs inserted before it.
#[doc(hidden)]
pub struct Ahead<'d, 'h, 'env> {
    shared: &'d Shared<'env>,
    desk: &'d mut Desk<'h, 'env>,
    priority: i64,
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
/// Open series that are remembered without looking whether they still are.
const FEW_SERIES: usize = 16;

impl<'c, 'env> Scope<'c, 'env> {
    pub(super) fn new(shared: &'c Shared<'env>, hand: Hand<'c>) -> Self {
        let desk = Desk {
            hand,
            series: Vec::new(),
            many: FEW_SERIES,
        };
        Scope {
            shared,
            desk: RefCell::new(desk),
            own: PhantomData,
        }
    }

    /// The program has returned: what is open is closed.
    pub(super) fn end(&self) {
        let mut desk = self.desk.borrow_mut();
        let series = std::mem::take(&mut desk.series);
        let mut ahead = Ahead {
            shared: self.shared,
            desk: &mut desk,
            priority: 0,
        };
        series.iter().for_each(|series| series.close(&mut ahead));
    }

    /// What the inserting worker has in hand at the end.
    pub(super) fn into_hand(self) -> Hand<'c> {
        self.desk.into_inner().hand
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

    /// Inserts a task that inserts tasks of its own, on pieces of what it accesses, which it keeps
    /// until the last of them has ended. A child may be nested too, to any depth.
    ///
    /// Errors of children are the task's own: of several the smallest by (index, number); a panic
    /// ends the whole scope. The text names the way: `Block 3 / Potrf 0`.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::sequence::{read, scope, write};
    ///
    /// let mut rows = [[1, 2], [3, 4]];
    /// scope(&Inline, |s| {
    ///     let rows = s.handles(&mut rows);
    ///     s.nested(write(&rows[0]), |s, row| {
    ///         for number in s.handles(row.iter_mut()) {
    ///             s.task(write(&number), |number| **number *= 10);
    ///         }
    ///     });
    ///     s.task((read(&rows[0]), write(&rows[1])), |(from, to)| to[0] += from[1]);
    /// })?;
    /// assert_eq!(rows, [[10, 20], [23, 4]]);
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    pub fn nested<A, F, O>(&self, accesses: A, body: F)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        F: for<'s, 'd, 'a> FnOnce(Children<'s, 'd, 'a, 'env>, <A::Held as Lend<'a>>::Arg) -> O
            + Send
            + 'env,
        O: Outcome + Send + 'env,
    {
        self.name("nested").nested(accesses, body);
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
        A::Held: 'env,
        F: for<'a> FnOnce(<A::Held as Lend<'a>>::Arg) -> O + Send + 'env,
        O: Outcome + 'env,
    {
        self.insert(accesses, Leaf::new(body));
    }

    /// Inserts a task that inserts tasks of its own; see [`Scope::nested`].
    pub fn nested<A, F, O>(self, accesses: A, body: F)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        F: for<'s, 'd, 'a> FnOnce(Children<'s, 'd, 'a, 'env>, <A::Held as Lend<'a>>::Arg) -> O
            + Send
            + 'env,
        O: Outcome + Send + 'env,
    {
        self.insert(accesses, Parent::new(body));
    }

    fn insert<A, B>(self, accesses: A, body: B)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        B: Body<A::Held> + 'env,
    {
        let shared = self.scope.shared;
        let mut desk = self.scope.desk.borrow_mut();
        let mut ahead = Ahead {
            shared,
            desk: &mut desk,
            priority: self.priority,
        };
        let mut held = accesses.hold();
        held.prepare(&mut ahead);
        ahead.put(self.name, held, body);
        if desk.hand.inserted.is_multiple_of(EVERY) {
            shared.keep_window(WINDOW, &mut desk.hand);
        }
    }
}

impl<'env> Ahead<'_, '_, 'env> {
    /// Inserts a task on data that are known.
    pub(super) fn insert<H, F, O>(&mut self, name: &'static str, held: H, body: F)
    where
        H: Held + 'env,
        F: for<'a> FnOnce(<H as Lend<'a>>::Arg) -> O + Send + 'env,
        O: Outcome + 'env,
    {
        self.put(name, held, Leaf::new(body));
    }

    fn put<H: Held + 'env>(&mut self, name: &'static str, held: H, body: impl Body<H> + 'env) {
        let hand = &mut self.desk.hand;
        let label = Label {
            number: hand.inserted,
            name,
            priority: self.priority,
        };
        hand.inserted += 1;
        match Task::new(label, held, body) {
            Some(task) => self.shared.insert(Box::new(task), hand),
            None => {
                let text = "a task accesses the same handle twice (once is allowed)";
                self.shared.fail(Kind::AccessedTwice, Some(label), text);
            }
        }
    }

    /// Remembers a series that has just been opened.
    pub(super) fn close_at_the_end(&mut self, series: Box<dyn Close<'env> + 'env>) {
        let open = &mut self.desk.series;
        if open.len() >= self.desk.many {
            open.retain(|series| series.is_open());
            self.desk.many = FEW_SERIES.max(2 * open.len());
        }
        open.push(series);
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
