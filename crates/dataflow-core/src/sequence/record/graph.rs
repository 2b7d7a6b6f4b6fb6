//! What a program has recorded: tasks, their flows, and the data that these come from.
//!
//! # Law
//! Every flow has one source: a flow of an earlier task that changed the datum, or home. The flows
//! that get a version form a linked list: readers first, and the flow that changes it next at the end.
//! The last version of a datum goes home.

use super::super::held::Label;
use super::accesses::{Loans, NamedAccess};
use crate::data::{Datum, Store};
use crate::error::{Error, Kind, TaskError};
use crate::fingerprint::mixed;
use crate::foreign::drop_quietly;
use crate::rank::Rank;
use crate::sync::held;
use crate::words::counted;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// No flow.
pub(super) const NONE: u32 = u32::MAX;

/// What a task does with its data.
pub(super) type RecordedBody<'env, D> =
    Box<dyn Fn(&mut Loans<'_, D>) -> Result<(), TaskError> + Send + Sync + 'env>;

/// A recorded program.
pub(super) struct Graph<'env, D: Datum> {
    pub name: String,
    pub n_ranks: usize,
    pub classes: Vec<RecordedClass>,
    pub tasks: Vec<RecordedTask<'env, D>>,
    pub flows: Vec<RecordedFlow>,
    pub origins: Vec<RecordedDatum<'env, D>>,
    /// What runs leave behind beside the data.
    pub gathered: Vec<Gathered<D>>,
    /// Tasks that the program has inserted; those that fetch data are not counted.
    pub n_inserted: u64,
    /// How many of them their program counts: what is gathered is one, for however many ranks.
    pub n_numbered: u64,
    pub fingerprint: u64,
    /// The fingerprint after 1, 2, 4, … tasks.
    pub fingerprints: Vec<u64>,
}

pub(super) struct RecordedClass {
    pub name: &'static str,
    /// Whether a flow changes its datum.
    pub changes: SmallVec<[bool; 8]>,
}

pub(super) struct RecordedTask<'env, D: Datum> {
    pub class: u32,
    pub rank: Rank,
    pub priority: i64,
    pub first_flow: u32,
    /// As its program counts it.
    pub number: u64,
    /// `None` of a task that fetches a datum.
    pub body: Option<RecordedBody<'env, D>>,
}

/// An access of a task.
pub(super) struct RecordedFlow {
    pub task: u32,
    pub datum: u32,
    /// The flow that it gets its version from; [`NONE`]: from home.
    pub source: u32,
    /// The flows that get the version which it leaves, first and last.
    pub first: u32,
    pub last: u32,
    /// The next one that gets the same version as this one.
    pub next: u32,
}

/// A datum.
pub(super) struct RecordedDatum<'env, D: Datum> {
    pub store: &'env Store<D>,
    pub index: usize,
    pub owner: Rank,
    /// The flow that changes it last; [`NONE`] before any.
    pub last: u32,
}

impl<D: Datum> fmt::Display for RecordedDatum<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of {}", self.index, self.store.name())
    }
}

/// The value of a datum at one point of the program, available on every rank.
///
/// # Examples
/// See [`Recorder`](super::Recorder#examples).
#[derive(Clone, Debug)]
pub struct Gathered<D> {
    value: Arc<Mutex<Option<D>>>,
}

impl<D> Gathered<D> {
    /// Before any run.
    pub(super) fn nothing() -> Self {
        Gathered {
            value: Arc::default(),
        }
    }

    /// The datum; `None` if the last [run](super::Recorded::run) of the program has not come to that
    /// point. (A run of it as any other [space](crate::run) leaves the value of the run before it in
    /// place until it comes there.)
    pub fn take(&self) -> Option<D> {
        self.value().take()
    }

    /// The program has come to that point.
    pub(super) fn put(&self, value: D) {
        // The datum of the run before is the user's: its destructor may look here.
        let before = self.value().replace(value);
        drop(before);
    }

    fn value(&self) -> MutexGuard<'_, Option<D>> {
        held(&self.value)
    }
}

impl<'env, D: Datum> Graph<'env, D> {
    pub fn new(name: String, n_ranks: usize) -> Self {
        Graph {
            name,
            n_ranks,
            classes: Vec::new(),
            tasks: Vec::new(),
            flows: Vec::new(),
            origins: Vec::new(),
            gathered: Vec::new(),
            n_inserted: 0,
            n_numbered: 0,
            fingerprint: 0,
            fingerprints: Vec::new(),
        }
    }

    /// A task is recorded: it changes the fingerprint.
    pub fn note(&mut self, name: &str, rank: Rank, accesses: &[NamedAccess]) {
        let mut mix = |value: u64| self.fingerprint = mixed(self.fingerprint, value);
        name.bytes().for_each(|byte| mix(byte.into()));
        mix(rank.0.into());
        for access in accesses {
            mix(u64::from(access.datum) << 2 | access.mode as u64);
            // Who owns a datum takes it from home and sends it: ranks must agree on that too.
            mix(self.origins[access.datum as usize].owner.0.into());
        }
        if (self.n_inserted + 1).is_power_of_two() {
            self.fingerprints.push(self.fingerprint);
        }
    }

    /// A run begins: it has come to no point yet.
    pub fn forget_gathered(&self) {
        self.gathered
            .iter()
            .for_each(|gathered| drop_quietly(gathered.take()));
    }

    /// `flow` gets the version that `source` leaves.
    pub fn follow(&mut self, source: u32, flow: u32) {
        if source == NONE {
            return;
        }
        let RecordedFlow { first, last, .. } = &mut self.flows[source as usize];
        let before = std::mem::replace(last, flow);
        match before {
            NONE => *first = flow,
            before => self.flows[before as usize].next = flow,
        }
    }

    /// Orders tasks as they are to be announced, the most urgent first; equal ones stay as they were inserted.
    pub fn most_urgent_first(&self, tasks: &mut [u32]) {
        tasks.sort_by_key(|&task| Reverse(self.tasks[task as usize].priority));
    }

    pub fn first_flow(&self, number: u32) -> u32 {
        let task = self.tasks.get(number as usize);
        task.map_or(self.flows.len() as u32, |task| task.first_flow)
    }

    pub fn flow_range(&self, number: u32) -> Range<u32> {
        self.first_flow(number)..self.first_flow(number + 1)
    }

    pub fn flows_of(&self, number: u32) -> &[RecordedFlow] {
        let Range { start, end } = self.flow_range(number);
        &self.flows[start as usize..end as usize]
    }

    /// The number of a flow among those of its task.
    pub fn place(&self, flow: u32) -> usize {
        (flow - self.first_flow(self.flows[flow as usize].task)) as usize
    }

    /// The name of the task with that number in the record, as its program gave it.
    pub fn label(&self, number: u32) -> Label {
        let task = &self.tasks[number as usize];
        Label {
            number: task.number,
            name: self.classes[task.class as usize].name,
            priority: task.priority,
            class: task.class,
            ahead: 0,
        }
    }

    /// The task itself; of one that fetches a datum, the first that reads it.
    pub fn inserted(&self, number: u32) -> u32 {
        let fetches = self.tasks[number as usize].body.is_none();
        match self.flows_of(number) {
            [flow] if fetches && flow.first != NONE => self.flows[flow.first as usize].task,
            _ => number,
        }
    }

    /// Where a datum is at home, for texts.
    pub fn slot(&self, datum: u32) -> String {
        self.origins[datum as usize].to_string()
    }

    /// A slot whose datum two handles name, which tasks access by both. Of several ranks nobody knows here
    /// which is this one, and the slots of others may be said in any way.
    pub fn named_twice(&self) -> Option<Error> {
        if self.n_ranks > 1 {
            return None;
        }
        let mut named = HashSet::new();
        let mut used = self.origins.iter().filter(|origin| origin.last != NONE);
        let slot =
            |origin: &RecordedDatum<'env, D>| (std::ptr::from_ref(origin.store), origin.index);
        let again = used.find(|origin| !named.insert(slot(origin)))?;
        let text = format!("{again} is named by two `home`s; make the handle once");
        Some(Error::new(Kind::PutTwice, None, text))
    }

    /// The first task that accesses a datum does not find it.
    #[cold]
    pub fn not_at_home(&self, datum: u32) -> Error {
        let inserted = |flow: &&RecordedFlow| self.tasks[flow.task as usize].body.is_some();
        let mut flows = self.flows.iter().filter(|flow| flow.datum == datum);
        let first = flows.find(inserted);
        let task = first.map(|flow| format!("{:?}", self.label(flow.task)));
        let origin = &self.origins[datum as usize];
        let n_slots = origin.store.len();
        let why = match origin.index < n_slots {
            true => "is empty: nothing was put there, or it is lent to another task",
            false => "does not exist",
        };
        let text = format!(
            "datum {datum} of the program is to come from {origin} ({}), which {why}",
            counted(n_slots, "slot")
        );
        Error::new(Kind::HomeEmpty, task, text)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    /// A datum that looks for what was gathered when it is dropped.
    struct Looks(Option<Gathered<Looks>>);

    impl Drop for Looks {
        fn drop(&mut self) {
            if let Some(gathered) = self.0.take() {
                assert!(gathered.take().is_some(), "the new one is there");
            }
        }
    }

    /// The worker waited for the lock that it held itself.
    #[test]
    fn a_gathered_datum_may_look_for_the_one_that_replaces_it() {
        let (done, is_done) = channel();
        let putting = thread::spawn(move || {
            let gathered = Gathered::nothing();
            let value = gathered.value.clone();
            gathered.put(Looks(Some(Gathered { value })));
            gathered.put(Looks(None));
            done.send(gathered.take().is_none())
        });
        let taken = is_done.recv_timeout(Duration::from_secs(20));
        assert_eq!(taken, Ok(true), "`put` does not return");
        putting.join().unwrap().unwrap();
    }
}
