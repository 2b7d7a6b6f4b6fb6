//! Recording: tasks are inserted, and each access finds the version that it gets.

use super::super::access::Access;
use super::super::law::Mode;
use super::super::mode::Read;
use super::super::task::BodyOutcome;
use super::super::waiting::names_one_twice;
use super::accesses::{Home, HomeSet, Lent, NamedAccess};
use super::graph::{
    Gathered, Graph, NONE, RecordedBody, RecordedClass, RecordedDatum, RecordedFlow, RecordedTask,
};
use crate::data::{Datum, Store};
use crate::error::{Error, Kind};
use crate::rank::Rank;
use crate::words::there_are;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;

/// Inserts tasks in program order, on data at home in stores.
///
/// - `'c`: belongs to this recording and to the data that it names
/// - `'env`: stores, and whatever bodies borrow, must outlive it
///
/// # Examples
/// A sum that every rank gets; here there is one:
/// ```
/// use dataflow_core::prelude::*;
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::record::record;
///
/// let store = Store::new("numbers", [2, 3]);
/// let mut sum = None;
/// let program = record("sum", 1, |r| {
///     let [a, b] = [0, 1].map(|index| r.home(&store, index, Rank(0)));
///     r.name("add").priority(1).task((update(&a), read(&b)), |(a, b)| *a += b);
///     sum = Some(r.gather(&a));
/// })?;
/// assert_eq!(program.n_tasks(), 2);
/// program.run(&Inline)?;
/// assert_eq!(sum.and_then(|sum| sum.take()), Some(5));
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct Recorder<'c, 'env, D: Datum> {
    recording: RefCell<Recording<'env, D>>,
    own: PhantomData<fn(&'c ()) -> &'c ()>,
}

/// A task that is about to be recorded, with its name, priority and rank.
///
/// # Examples
/// See [`Recorder`](Recorder#examples).
#[must_use = "nothing is inserted until `task` is called"]
pub struct Inserting<'r, 'c, 'env, D: Datum> {
    recorder: &'r Recorder<'c, 'env, D>,
    name: &'static str,
    priority: i64,
    on: Option<Rank>,
}

/// What has been recorded so far.
struct Recording<'env, D: Datum> {
    graph: Graph<'env, D>,
    /// Classes by name and by which of their flows change a datum.
    classes: HashMap<(&'static str, SmallVec<[bool; 8]>), u32>,
    /// The class of the task before: often that of the next, too.
    latest: u32,
    error: Option<Error>,
    /// So many data there may be, and so many tasks or flows: they are numbered by `u32`, in which the order
    /// has a bit of its own beside a datum.
    most_data: usize,
    most_flows: usize,
}

/// There may be so many of what a program consists of; or why not.
fn expect_room(n: usize, most: usize, what: &str) -> Result<(), String> {
    match n <= most {
        true => Ok(()),
        false => Err(format!(
            "a recorded program has too many {what} ({most} are the most)"
        )),
    }
}

impl<'c, 'env, D: Datum> Recorder<'c, 'env, D> {
    pub(super) fn new(name: String, n_ranks: usize) -> Self {
        let recording = Recording {
            graph: Graph::new(name, n_ranks),
            classes: HashMap::new(),
            latest: 0,
            error: None,
            most_data: 1 << 31,
            most_flows: NONE as usize,
        };
        Recorder {
            recording: RefCell::new(recording),
            own: PhantomData,
        }
    }

    pub(super) fn finish(self) -> Result<Graph<'env, D>, Error> {
        let Recording { graph, error, .. } = self.recording.into_inner();
        match error.or_else(|| graph.named_twice()) {
            None => Ok(graph),
            Some(error) => Err(error),
        }
    }

    /// Number of ranks that the program is recorded for.
    pub fn n_ranks(&self) -> usize {
        self.recording.borrow().graph.n_ranks
    }

    /// A datum that `owner` keeps in a slot of its store; other ranks ignore store and index. Each slot
    /// may be named only once. Errors name the datum by its slot, and by its number among these calls, from 0.
    pub fn home(&self, store: &'env Store<D>, index: usize, owner: Rank) -> Home<'c, D> {
        let mut recording = self.recording.borrow_mut();
        let n_data = recording.graph.origins.len();
        if let Err(text) = expect_room(n_data + 1, recording.most_data, "data") {
            let error = Error::new(Kind::CountExceeded, None, text);
            recording.error.get_or_insert(error);
            return Home::new(NONE); // nothing is inserted any more
        }
        let datum = n_data as u32;
        recording.graph.origins.push(RecordedDatum {
            store,
            index,
            owner,
            last: NONE,
        });
        Home::new(datum)
    }

    /// Inserts a task with its accesses and its body, which runs each time that the program runs.
    pub fn task<S, F, O>(&self, accesses: S, body: F)
    where
        S: HomeSet<'c, D>,
        F: for<'a> Fn(<S::Shape as Lent<'a, D>>::Arg) -> O + Send + Sync + 'env,
        O: BodyOutcome,
    {
        self.name("task").task(accesses, body);
    }

    /// Names the next task. Errors and traces call it by this name and its number among all tasks that the
    /// program inserts, counted from 0.
    pub fn name(&self, name: &'static str) -> Inserting<'_, 'c, 'env, D> {
        Inserting {
            recorder: self,
            name,
            priority: 0,
            on: None,
        }
    }

    /// Sets the priority of the next task; higher runs earlier.
    pub fn priority(&self, priority: i64) -> Inserting<'_, 'c, 'env, D> {
        self.name("task").priority(priority)
    }

    /// Brings a datum, as it is after all tasks inserted before, to every rank.
    pub fn gather(&self, home: &Home<'c, D>) -> Gathered<D> {
        let gathered = Gathered::nothing();
        let mut recording = self.recording.borrow_mut();
        recording.graph.gathered.push(gathered.clone());
        let number = recording.graph.n_numbered;
        drop(recording);
        for rank in 0..self.n_ranks() {
            self.recording.borrow_mut().graph.n_numbered = number;
            let here = gathered.clone();
            let keep = move |datum: &D| here.put(datum.clone());
            let read: Access<'_, Home<'c, D>, Read> = Access::to(home);
            self.name("gather").on(Rank(rank as u32)).task(read, keep);
        }
        gathered
    }
}

impl<'c, 'env, D: Datum> Inserting<'_, 'c, 'env, D> {
    /// The name of the task in errors.
    pub fn name(self, name: &'static str) -> Self {
        Inserting { name, ..self }
    }

    /// Higher runs earlier.
    pub fn priority(self, priority: i64) -> Self {
        Inserting { priority, ..self }
    }

    /// The rank that runs it, if it writes nothing; by default the owner of the first datum that it
    /// accesses.
    pub fn on(self, rank: Rank) -> Self {
        let on = Some(rank);
        Inserting { on, ..self }
    }

    /// Inserts the task; see [`Recorder::task`].
    pub fn task<S, F, O>(self, accesses: S, body: F)
    where
        S: HomeSet<'c, D>,
        F: for<'a> Fn(<S::Shape as Lent<'a, D>>::Arg) -> O + Send + Sync + 'env,
        O: BodyOutcome,
    {
        let mut named = SmallVec::<[NamedAccess; 8]>::new();
        accesses.each(&mut |access| named.push(access));
        let shape = accesses.shape();
        let body: RecordedBody<'env, D> =
            Box::new(move |loans| body(shape.lend(loans)).into_result());
        let mut recording = self.recorder.recording.borrow_mut();
        if recording.error.is_some() {
            return;
        }
        if let Err(error) = recording.insert((self.name, self.priority, self.on), &named, body) {
            recording.error = Some(error);
        }
    }
}

impl<'env, D: Datum> Recording<'env, D> {
    fn insert(
        &mut self,
        (name, priority, on): (&'static str, i64, Option<Rank>),
        accesses: &[NamedAccess],
        body: RecordedBody<'env, D>,
    ) -> Result<(), Error> {
        let number = self.graph.n_numbered;
        let wrong = |kind, text: String| Error::new(kind, Some(format!("{name} {number}")), text);
        let mut data: SmallVec<[u32; 8]> = accesses.iter().map(|access| access.datum).collect();
        if names_one_twice(&mut data) {
            data.sort_unstable();
            let twice = data.windows(2).find(|pair| pair[0] == pair[1]);
            let slot = twice.map_or_else(String::new, |pair| self.graph.slot(pair[0]));
            let text = format!("it accesses {slot} twice (once is allowed)");
            return Err(wrong(Kind::AccessedTwice, text));
        }
        let rank = self.place(accesses, on);
        let rank = rank.map_err(|text| wrong(Kind::OwnersDiffer, text))?;
        if let Some(does) = self.strays(accesses, rank) {
            let text = format!("{does} ({})", there_are(self.graph.n_ranks, "rank"));
            return Err(wrong(Kind::NoSuchRank, text));
        }
        // Each datum may be fetched, by a task with one flow.
        let (tasks, flows) = (1 + accesses.len(), 2 * accesses.len());
        expect_room(self.graph.tasks.len() + tasks, self.most_flows, "tasks")
            .and_then(|()| expect_room(self.graph.flows.len() + flows, self.most_flows, "accesses"))
            .map_err(|text| wrong(Kind::CountExceeded, text))?;
        for access in accesses {
            self.fetch(*access);
        }
        let class = self.class(name, accesses);
        self.graph.note(name, rank, accesses);
        self.graph.n_inserted += 1;
        self.graph.n_numbered += 1;
        self.push(class, priority, rank, accesses, Some(body));
        Ok(())
    }

    /// What a task does with a rank that is not there, if it does: one of an access, or its own.
    fn strays(&self, accesses: &[NamedAccess], rank: Rank) -> Option<String> {
        let is_absent = |rank: Rank| rank.0 as usize >= self.graph.n_ranks;
        let mut absent = accesses.iter();
        match absent.find(|access| is_absent(self.owner(access))) {
            Some(access) => {
                let does = match access.mode {
                    Mode::Read => "reads",
                    _ => "writes",
                };
                Some(format!("it {does} {}", self.slot_of(access)))
            }
            None => is_absent(rank).then(|| format!("it was put on {rank}")),
        }
    }

    /// Where a task runs; or why it cannot be there.
    fn place(&self, accesses: &[NamedAccess], on: Option<Rank>) -> Result<Rank, String> {
        let owner = |access: &NamedAccess| self.owner(access);
        let mut written = accesses.iter().filter(|access| access.mode != Mode::Read);
        let Some(first) = written.next() else {
            return Ok(on.or(accesses.first().map(owner)).unwrap_or(Rank(0)));
        };
        if let Some(other) = written.find(|other| owner(other) != owner(first)) {
            let [first, other] = [first, other].map(|access| self.slot_of(access));
            return Err(format!(
                "it writes {first}, and {other} (they must have one owner)"
            ));
        }
        match on.filter(|on| *on != owner(first)) {
            None => Ok(owner(first)),
            Some(on) => Err(format!(
                "it writes {}, and was put on {on} (a task that writes runs on the owner)",
                self.slot_of(first)
            )),
        }
    }

    /// The slot of an access and its owner, for texts.
    fn slot_of(&self, access: &NamedAccess) -> String {
        format!(
            "{}, of {}",
            self.graph.slot(access.datum),
            self.owner(access)
        )
    }

    fn owner(&self, access: &NamedAccess) -> Rank {
        self.graph.origins[access.datum as usize].owner
    }

    /// A datum whose first access is a read is taken from home by a task of its own, for all.
    fn fetch(&mut self, access: NamedAccess) {
        let origin = &self.graph.origins[access.datum as usize];
        if access.mode == Mode::Read && origin.last == NONE {
            let (owner, mode) = (origin.owner, Mode::Write);
            let accesses = [NamedAccess { mode, ..access }];
            let class = self.class("home", &accesses);
            self.push(class, i64::MAX, owner, &accesses, None);
        }
    }

    /// The class of a task: its name, and which of its flows change a datum.
    fn class(&mut self, name: &'static str, accesses: &[NamedAccess]) -> u32 {
        let changes = accesses.iter().map(|access| access.mode != Mode::Read);
        let classes = &mut self.graph.classes;
        let is_it = |class: &RecordedClass| {
            class.name == name && changes.clone().eq(class.changes.iter().copied())
        };
        if classes.get(self.latest as usize).is_some_and(is_it) {
            return self.latest;
        }
        self.latest = *self
            .classes
            .entry((name, changes.collect()))
            .or_insert_with_key(|(name, changes)| {
                let changes = changes.clone();
                classes.push(RecordedClass { name, changes });
                classes.len() as u32 - 1
            });
        self.latest
    }

    fn push(
        &mut self,
        class: u32,
        priority: i64,
        rank: Rank,
        accesses: &[NamedAccess],
        body: Option<RecordedBody<'env, D>>,
    ) {
        let graph = &mut self.graph;
        let task = graph.tasks.len() as u32;
        graph.tasks.push(RecordedTask {
            class,
            rank,
            priority,
            first_flow: graph.flows.len() as u32,
            number: graph.n_numbered - u64::from(body.is_some()),
            body,
        });
        for access in accesses {
            let flow = graph.flows.len() as u32;
            let origin = &mut graph.origins[access.datum as usize];
            let source = origin.last;
            if access.mode != Mode::Read {
                origin.last = flow;
            }
            graph.flows.push(RecordedFlow {
                task,
                datum: access.datum,
                source,
                first: NONE,
                last: NONE,
                next: NONE,
            });
            graph.follow(source, flow);
        }
    }
}

impl<D: Datum> std::fmt::Debug for Recorder<'_, '_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

impl<D: Datum> std::fmt::Debug for Inserting<'_, '_, '_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inserting({})", self.name)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sequence::write;

    #[test]
    fn a_program_that_outgrows_its_numbers_is_a_named_error() {
        let store = Store::new("numbers", [0u64; 3]);
        let fault = |most_data, most_flows| {
            let recorder = Recorder::new("large".into(), 1);
            recorder.recording.borrow_mut().most_data = most_data;
            recorder.recording.borrow_mut().most_flows = most_flows;
            let homes = [0, 1, 2].map(|at| recorder.home(&store, at, Rank(0)));
            for home in &homes {
                recorder.task(write(home), |_| ());
            }
            let error = recorder.finish().err();
            error.map(|error| (error.kind(), error.to_string()))
        };
        assert_eq!(fault(3, 4), None);
        for (most_data, most_flows, what) in [(2, 4, "data"), (3, 3, "tasks")] {
            let (kind, text) = fault(most_data, most_flows).expect("too many");
            assert_eq!(kind, Kind::CountExceeded);
            assert!(text.contains(&format!("too many {what}")), "{text}");
        }
    }
}
