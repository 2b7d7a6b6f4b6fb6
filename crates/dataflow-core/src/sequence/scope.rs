//! The scope: where tasks are inserted.

use super::access::{AccessSet, Handle};
use super::cell::{Holds, Series};
use super::held::{Ahead, Before, Close, Held, InsertedTask, Label, Lend, Twice};
use super::law::Mode;
use super::lent::InsertingThread;
use super::run::{ScopeHand, ScopeRun, TaskWindow};
use super::task::{Body, BodyOutcome, BodyTask, HeavyTask, Leaf};
use crate::data::Datum;
use crate::engine::Visit;
use crate::error::Kind;
use crate::foreign::{Quiet, in_turn};
use crate::port::Wants;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Inserts tasks in program order; the scope ends when all of them have ended.
///
/// - `'c`: belongs to this scope and to its handles
/// - `'env`: whatever bodies borrow must outlive it
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::{Scope, scope, write};
///
/// fn double<'c, 'env>(s: &Scope<'c, 'env>, numbers: &'env mut [i32]) {
///     for number in s.lend_all(numbers) {
///         s.name("double").task(write(&number), |number| *number *= 2);
///     }
/// }
///
/// let mut numbers = [1, 2, 3];
/// let ((), report) = scope(&Inline, |s| double(s, &mut numbers))?;
/// assert_eq!((numbers, report.tasks), ([2, 4, 6], 3));
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct Scope<'c, 'env> {
    shared: &'c ScopeRun<'c, 'env>,
    inserter: RefCell<Inserter<'c, 'env>>,
    own: PhantomData<fn(&'c ()) -> &'c ()>,
}

/// What changes with every insertion.
struct Inserter<'h, 'env> {
    visit: Visit<'h, ScopeHand<'h, 'env>>,
    /// Data with an open series of reductions, by the number of the series.
    series: BTreeMap<u64, ToClose<'env>>,
    /// Series that were opened.
    opened: u64,
    /// Tasks that reductions have inserted, up to the largest number.
    ahead: u32,
    window: TaskWindow,
    /// The names of tasks as classes, if the executor wants to be told.
    classes: Vec<&'static str>,
}

type ToClose<'env> = Box<dyn Close<'env> + 'env>;

/// A task is about to be inserted, and others before it.
struct Insert<'d, 'h, 'env> {
    shared: &'h ScopeRun<'h, 'env>,
    inserter: &'d mut Inserter<'h, 'env>,
    priority: i64,
}

/// A task that is about to be inserted, with its name and priority.
///
/// # Examples
/// A task with a name, a priority, and an error of its own:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::{scope, write};
///
/// let failed = scope(&Inline, |s| {
///     let number = s.handle(7u64);
///     s.name("halve").priority(1).task(write(&number), |number| match *number % 2 {
///         0 => { *number /= 2; Ok(()) }
///         _ => Err("it is odd"),
///     });
/// });
/// assert_eq!(failed.unwrap_err().to_string(), "it is odd (task halve 0)");
/// ```
#[must_use = "nothing is inserted until `task` or its like is called"]
pub struct Insertion<'s, 'c, 'env> {
    scope: &'s Scope<'c, 'env>,
    name: &'static str,
    priority: i64,
    bytes: u64,
}

/// How often the tasks of a window are counted, in insertions.
const EVERY: u64 = 64;

impl<'c, 'env> Scope<'c, 'env> {
    pub(super) fn new(
        shared: &'c ScopeRun<'c, 'env>,
        visit: Visit<'c, ScopeHand<'c, 'env>>,
    ) -> Self {
        let inserter = Inserter {
            visit,
            series: BTreeMap::new(),
            opened: 0,
            ahead: 0,
            window: TaskWindow::default(),
            classes: Vec::new(),
        };
        Scope {
            shared,
            inserter: RefCell::new(inserter),
            own: PhantomData,
        }
    }

    /// The program has returned: what is open is closed, unless the run is stopped.
    pub(super) fn end(&self) {
        let mut inserter = self.inserter.borrow_mut();
        if !inserter.series.is_empty() && self.shared.drops() {
            return;
        }
        let series = std::mem::take(&mut inserter.series);
        let mut inserting = Insert {
            shared: self.shared,
            inserter: &mut inserter,
            priority: 0,
        };
        let mut ahead = Ahead(&mut inserting);
        in_turn(series, |(_, series)| series.close(&mut ahead));
    }

    /// The visit of the inserting worker, at the end; and what may be the last to know reduced data.
    pub(super) fn into_parts(self) -> (Visit<'c, ScopeHand<'c, 'env>>, Quiet<ToClose<'env>>) {
        let Inserter { visit, series, .. } = self.inserter.into_inner();
        (visit, Quiet(series.into_values().collect()))
    }

    /// Whether no further task of this scope will start: because one has panicked, a fault of the
    /// program was found, or the run was cancelled. Tasks inserted from now on are dropped; a program
    /// that waits for something, or reads a stream, should return. A scope whose program was told so
    /// ends with an error, whatever had been done before.
    ///
    /// A body that *fails* stops only tasks that depend on it, since the error that is reported must be
    /// the same under every schedule: see [`has_failed`](Self::has_failed).
    pub fn is_stopped(&self) -> bool {
        self.shared.drops()
    }

    /// Whether it is already known that the scope will end with an error: it [is
    /// stopped](Self::is_stopped), or a body has failed. A program that returns for this reason may end
    /// with another error than if it had gone on.
    pub fn has_failed(&self) -> bool {
        self.is_stopped() || self.shared.has_failed()
    }

    /// How much may wait from now on; see [`TaskWindow`].
    pub fn set_window(&self, window: TaskWindow) {
        self.inserter.borrow_mut().window = window;
    }

    /// A handle for a datum that the scope keeps until both the handle and the last task that accesses the
    /// datum are gone. The worker that ends that task drops it: if that panics, the task has panicked.
    pub fn handle<T: Send + Sync + 'env>(&self, datum: T) -> Handle<'c, T> {
        Handle::new(datum)
    }

    /// A handle for each of some data that the scope keeps.
    pub fn handles<T: Send + Sync + 'env>(
        &self,
        data: impl IntoIterator<Item = T>,
    ) -> Vec<Handle<'c, T>> {
        data.into_iter().map(Handle::new).collect()
    }

    /// A handle for a borrowed datum, whose owner finds what tasks left when the scope has ended. Bodies get
    /// `&T` and `&mut T`, as of a datum of the [scope's own](Self::handle). Of a slice, which has no size,
    /// `s.handle(slice)` makes a handle: there the reference is the datum.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::sequence::{read, scope, write};
    ///
    /// fn scale(numbers: &mut Vec<f64>) {
    ///     numbers.iter_mut().for_each(|x| *x *= 2.0);
    /// }
    ///
    /// let (mut numbers, mut sum) = (vec![1.0, 2.0], 0.0);
    /// scope(&Inline, |s| {
    ///     let (numbers, sum) = (s.lend(&mut numbers), s.lend(&mut sum));
    ///     s.task(write(&numbers), scale);
    ///     s.task((read(&numbers), write(&sum)), |(numbers, sum)| *sum = numbers.iter().sum());
    /// })?;
    /// assert_eq!((numbers, sum), (vec![2.0, 4.0], 6.0));
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    pub fn lend<T: Send + Sync>(&self, datum: &'env mut T) -> Handle<'c, T, &'env mut T> {
        Handle::new(datum)
    }

    /// A handle for each of some borrowed data: of a slice, a vector, an array or an iterator of `&mut T`.
    pub fn lend_all<T: Send + Sync>(
        &self,
        data: impl IntoIterator<Item = &'env mut T>,
    ) -> Vec<Handle<'c, T, &'env mut T>> {
        data.into_iter().map(Handle::new).collect()
    }

    /// A datum that knows where it lies: executors of machines with several NUMA nodes are told, and
    /// run its tasks there. Otherwise the same as [`handle`](Self::handle).
    pub fn datum<D: Datum>(&self, datum: D) -> Handle<'c, D> {
        Handle::of_datum(datum)
    }

    /// The same, of a borrowed datum, whose owner finds what tasks left when the scope has ended.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::sequence::{scope, write};
    ///
    /// let mut tiles = vec![vec![1.0; 100]; 4]; // vectors of numbers are data
    /// scope(&Inline, |s| {
    ///     for tile in tiles.iter_mut().map(|tile| s.datum_mut(tile)) {
    ///         s.task(write(&tile), |tile| tile[0] = 2.0);
    ///     }
    /// })?;
    /// assert_eq!(tiles[3][..2], [2.0, 1.0]);
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    pub fn datum_mut<D: Datum>(&self, datum: &'env mut D) -> Handle<'c, D, &'env mut D> {
        Handle::of_borrowed(datum)
    }

    /// Inserts a task with its accesses and its body.
    ///
    /// It runs when all earlier tasks that it depends on have run, and is skipped if one of them failed.
    /// A body returns nothing or a `Result`; of several errors the scope returns the smallest by (index,
    /// number of the task).
    pub fn task<A, F, O>(&self, accesses: A, body: F)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        F: for<'a> FnOnce(<A::Held as Lend<'a>>::Arg) -> O + Send + 'env,
        O: BodyOutcome + 'env,
    {
        self.name("task").task(accesses, body);
    }

    /// Waits until all tasks inserted so far that change a datum have run, and looks at it; the inserting
    /// worker runs tasks meanwhile. So what is inserted next may depend on data: a loop ends when its
    /// result is good enough.
    ///
    /// Tasks on other data, and those that only read this one, are not waited for. It waits a little
    /// longer if the task that this worker has just taken is none of those. `look` can insert nothing:
    /// let it return what you need.
    ///
    /// `None` if the datum will never be what the program says, because the scope [is
    /// stopped](Self::is_stopped), or a task that was to change the datum has failed or was skipped. Then
    /// the scope ends with an error, whatever the program does; it should return. If a body panics that
    /// the inserting worker runs meanwhile, the panic goes on through the program. One that catches it
    /// finds the scope stopped. In a destructor that runs because the program unwinds, the panic ends here,
    /// and the answer is `None`.
    ///
    /// # Examples
    /// The square root of 2, by steps that go on until one changes little:
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::sequence::{scope, write};
    ///
    /// let mut root = 1.0;
    /// let (steps, _) = scope(&Inline, |s| {
    ///     let (root, change) = (s.lend(&mut root), s.handle(f64::MAX));
    ///     let mut steps = 0;
    ///     while s.wait(&change, |change| *change > 1e-12).unwrap_or(false) {
    ///         steps += 1;
    ///         s.task((write(&root), write(&change)), |(root, change)| {
    ///             let next = (*root + 2.0 / *root) / 2.0;
    ///             (*change, *root) = (f64::abs(next - *root), next);
    ///         });
    ///     }
    ///     steps
    /// })?;
    /// assert!(steps == 6 && (root - 2f64.sqrt()).abs() < 1e-12);
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    /// What is looked at cannot be kept:
    /// ```compile_fail
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::sequence::scope;
    /// scope(&Inline, |s| { let n = s.handle(1); let _kept = s.wait(&n, |n| n); });
    /// ```
    /// Nothing is inserted while it is looked at:
    /// ```compile_fail,E0277
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::sequence::{scope, write};
    /// scope(&Inline, |s| {
    ///     let n = s.handle(1);
    ///     s.wait(&n, |_| s.task(write(&n), |n| *n += 1));
    /// });
    /// ```
    pub fn wait<T, S, R>(
        &self,
        handle: &Handle<'c, T, S>,
        look: impl FnOnce(&T) -> R + Send,
    ) -> Option<R>
    where
        S: Holds<T> + 'env,
    {
        let (cell, shared) = (&handle.cell, self.shared);
        let is_there = !shared.drops() && {
            let mut inserter = self.inserter.borrow_mut();
            let mut inserting = Insert {
                shared,
                inserter: &mut inserter,
                priority: 0,
            };
            Series::close(cell, &mut Ahead(&mut inserting));
            let required = cell.versions.required(Mode::Read);
            let came = shared.wait_for(&cell.versions, required, &mut inserter.visit);
            // A program that is not given the datum does not do what it would: that is no success.
            (came || !shared.drops()) && !cell.versions.is_spoilt(required)
        };
        if !is_there {
            return None;
        }
        // What is inserted changes it, and `look` inserts nothing: a scope stays on one thread.
        let by = InsertingThread::of_a_scope();
        Some(handle.cell.look(&by, |datum| look(S::borrow(datum))))
    }

    /// Names the next task. Errors and traces call it by this name and its number among all tasks that the
    /// program inserts, counted from 0: `halve 12`. What tells tasks of one name apart, as the number of a
    /// record, goes into the text or the [index](crate::TaskError::with_index) of an error.
    pub fn name(&self, name: &'static str) -> Insertion<'_, 'c, 'env> {
        Insertion {
            scope: self,
            name,
            priority: 0,
            bytes: 0,
        }
    }

    /// Sets the priority of the next task; higher runs earlier.
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

    /// Declares how many bytes the body owns until it has run; they count in the [`TaskWindow`].
    pub fn bytes(self, bytes: usize) -> Self {
        let bytes = bytes as u64;
        Insertion { bytes, ..self }
    }

    /// Inserts the task; see [`Scope::task`].
    pub fn task<A, F, O>(self, accesses: A, body: F)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        F: for<'a> FnOnce(<A::Held as Lend<'a>>::Arg) -> O + Send + 'env,
        O: BodyOutcome + 'env,
    {
        self.insert(accesses, Leaf::new(body));
    }

    pub(super) fn insert<A, B>(self, accesses: A, body: B)
    where
        A: AccessSet<'c>,
        A::Held: 'env,
        B: Body<A::Held> + 'env,
    {
        let shared = self.scope.shared;
        if shared.drops() {
            return;
        }
        let mut inserter = self.scope.inserter.borrow_mut();
        let before = inserter.visit.hand.inserted;
        let mut inserting = Insert {
            shared,
            inserter: &mut inserter,
            priority: self.priority,
        };
        let by = InsertingThread::of_a_scope();
        let task = BodyTask::boxed(|| accesses.hold(&by), body);
        inserting.put(self.name, self.bytes, task);
        let Inserter { visit, window, .. } = &mut *inserter;
        let inserted = visit.hand.inserted;
        // More than one was inserted if a reduction begins or ends.
        if self.bytes > 0 || inserted / EVERY > before / EVERY {
            shared.keep_window(*window, visit);
        } else if inserted < EVERY {
            shared.count(inserted);
        }
    }
}

impl Inserter<'_, '_> {
    /// The class of the tasks of a name. Most often a name is the same text at the same place.
    #[cold]
    fn class(&mut self, name: &'static str) -> u32 {
        let is_it = |known: &&'static str| std::ptr::eq(*known, name) || *known == name;
        let known = self.classes.iter().position(is_it);
        let class = known.unwrap_or_else(|| {
            self.classes.push(name);
            self.classes.len() - 1
        });
        class as u32
    }
}

impl<'env> Insert<'_, '_, 'env> {
    fn put<H, B>(&mut self, name: &'static str, bytes: u64, mut task: Box<BodyTask<H, B>>)
    where
        H: Held + 'env,
        B: Body<H> + 'env,
    {
        task.prepare(&mut Ahead(self));
        match task.insert(self.next(name), &InsertingThread::of_a_scope()) {
            Ok(()) if bytes > 0 => self.insert_heavy(task, bytes),
            Ok(()) => self.shared.insert(task, &mut self.inserter.visit),
            Err(twice) => self.refuse(*task.label(), twice),
        }
    }

    fn insert_heavy(&mut self, task: Box<dyn InsertedTask + 'env>, bytes: u64) {
        let task = Box::new(HeavyTask::new(task, bytes, self.shared.bytes()));
        self.shared.insert(task, &mut self.inserter.visit);
    }

    /// Names the next task, and gives it its number.
    #[inline]
    fn next(&mut self, name: &'static str) -> Label {
        let class = match self.inserter.visit.wants {
            Wants::Priorities => 0,
            _ => self.inserter.class(name),
        };
        let hand = &mut self.inserter.visit.hand;
        let number = hand.inserted;
        hand.inserted += 1;
        Label {
            number,
            name,
            priority: self.priority,
            class,
            ahead: self.inserter.ahead,
        }
    }

    #[cold]
    fn refuse(&self, label: Label, Twice(first, second): Twice) {
        let text = format!(
            "its accesses {first} and {second}, counted from 0, are to the same handle (once is allowed)"
        );
        self.shared.fail(Kind::AccessedTwice, Some(label), text);
    }
}

impl<'env> Before<'env> for Insert<'_, '_, 'env> {
    fn label(&mut self, name: &'static str) -> Label {
        let label = self.next(name);
        self.inserter.ahead = self.inserter.ahead.saturating_add(1);
        label
    }

    fn insert(&mut self, label: Label, task: Result<Box<dyn InsertedTask + 'env>, Twice>) {
        match task {
            Ok(task) => self.shared.insert(task, &mut self.inserter.visit),
            Err(twice) => self.refuse(label, twice),
        }
    }

    fn opened(&mut self, series: ToClose<'env>) -> u64 {
        let number = self.inserter.opened;
        self.inserter.opened += 1;
        self.inserter.series.insert(number, series);
        number
    }

    fn closed(&mut self, number: u64) {
        // Whoever closes it has the datum: that is not dropped here.
        self.inserter.series.remove(&number);
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
