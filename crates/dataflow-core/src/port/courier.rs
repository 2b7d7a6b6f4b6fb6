//! The port to other ranks.
//!
//! A rank that runs a space opens a [`Line`] with its [`Terms`]; the courier checks that all
//! ranks agree on them. The outputs of a finished task for another rank leave as one [`Parcel`] (the task
//! and its flows, but not its successors: the receiver evaluates those itself) and arrive in that
//! rank's [`Inbox`]. When a rank has nothing left to run it closes the line; closing returns the
//! same [`Failure`] on every rank, or none.
//!
//! # Law
//! A parcel arrives once, or the run fails on every rank that is left. Parcels may overtake one
//! another. `post` never blocks; bytes are read from the [`Cargo`] until it is dropped.

use crate::data::Datum;
use crate::error::Error;
use crate::port::Block;
use crate::rank::Rank;
use crate::wire::{Failure, Terms, WireName};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A few bytes that describe a datum, such as its shape; they come before the payload.
///
/// # Examples
/// See [`Wire`](Wire#examples).
pub type Head = SmallVec<[u8; 32]>;

/// Some ranks.
pub type Ranks = SmallVec<[Rank; 8]>;

/// What the engine needs from communication.
///
/// The simplest implementation is [`Alone`], for a single rank.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Alone, Courier};
/// use dataflow_core::rank::Rank;
///
/// assert_eq!((Alone.rank(), Alone.n_ranks()), (Rank(0), 1));
/// ```
/// A run gets another from its executor, or from a [`Context`](super::Context::across).
pub trait Courier: Send + Sync {
    /// This rank.
    fn rank(&self) -> Rank;

    /// Number of ranks; tasks placed on a rank outside `0..n_ranks` are a named error.
    fn n_ranks(&self) -> usize;

    /// The time of the simulated world that this rank lives in, where nothing may wait by the machine's;
    /// `None` on a machine.
    fn simulated_time(&self) -> Option<Duration> {
        None
    }

    /// Opens the next run: waits until every rank has opened it and compares the terms.
    ///
    /// # Errors
    /// Which term differs, and both values; or which rank was lost; or that the run before is still open
    /// here.
    fn open(&self, terms: &Terms, inbox: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error>;
}

/// The open line of one run on one rank.
///
/// # Examples
/// A line of rank 0 to one other rank of the process, whose inbox gets what is posted at once:
/// ```
/// use dataflow_core::port::{
///     Arrival, Cargo, Failure, Goods, Head, Heap, Inbox, Line, Memory, Parcel, Pulse,
/// };
/// use dataflow_core::smallvec::smallvec;
/// use dataflow_core::{Error, rank::Rank};
/// use std::borrow::Cow;
/// use std::sync::{Arc, Mutex};
///
/// struct AtOnce(Arc<dyn Inbox>);
///
/// impl Line for AtOnce {
///     fn post(&self, parcel: Parcel) {
///         let flows = parcel.flows.iter().map(|(flow, cargo)| {
///             let goods = cargo.as_ref().map(|cargo| {
///                 let mut body = Heap.allocate(cargo.size());
///                 body.bytes_mut().copy_from_slice(&cargo.body());
///                 Goods { head: cargo.head(), body }
///             });
///             (*flow, goods)
///         });
///         let flows = flows.collect();
///         self.0.deliver(Rank(0), Arrival { task: parcel.task, poisoned: parcel.poisoned, flows });
///     }
///
///     fn poll(&self) {} // nothing is under way
///     fn abort(&self, failure: &Failure) { self.0.stop(failure.clone()) }
///     fn close(&self, own: Option<Failure>) -> Result<Option<Failure>, Error> { Ok(own) }
/// }
///
/// /// Keeps the bytes that it gets; the engine's inbox wakes a worker, which takes them in.
/// #[derive(Default)]
/// struct Kept(Mutex<Vec<u8>>);
///
/// impl Inbox for Kept {
///     fn deliver(&self, _: Rank, arrival: Arrival) {
///         let goods = arrival.flows.iter().flat_map(|(_, goods)| goods);
///         goods.for_each(|goods| self.0.lock().unwrap().extend(goods.body.bytes()));
///     }
///
///     fn pulse(&self) -> Pulse { Pulse::default() }
///     fn stop(&self, _: Failure) {}
///     fn stall(&self) {}
/// }
///
/// /// The engine's cargo is a datum that implements [`Wire`](dataflow_core::port::Wire).
/// struct Text(&'static str);
///
/// impl Cargo for Text {
///     fn head(&self) -> Head { Head::new() }
///     fn size(&self) -> usize { self.0.len() }
///     fn body(&self) -> Cow<'_, [u8]> { self.0.as_bytes().into() }
/// }
///
/// let (inbox, cargo): (_, Arc<dyn Cargo>) = (Arc::new(Kept::default()), Arc::new(Text("a datum")));
/// AtOnce(inbox.clone()).post(Parcel {
///     to: smallvec![Rank(1)],
///     task: smallvec![0, 7], // the first class of tasks, and a parameter
///     poisoned: false,
///     priority: 0,
///     flows: smallvec![(0, Some(cargo)), (1, None)],
/// });
/// assert_eq!(*inbox.0.lock().unwrap(), b"a datum");
/// ```
pub trait Line: Send + Sync {
    /// Hands over the outputs of a finished task for other ranks. The couriers may pass them on from
    /// rank to rank; that waits for no body there.
    fn post(&self, parcel: Parcel);

    /// Called by a worker without a task: moves messages, if no thread of the courier does. Cheap
    /// otherwise.
    fn poll(&self);

    /// The same of a worker that has a task to run, which calls this before each: as often as that pays.
    fn glance(&self) {
        self.poll();
    }

    /// Called by a worker that has nothing to do until something arrives, or, if `finished`, nothing at
    /// all. Returns true if the worker should poll again instead of leaving the run. The line keeps its state
    /// in `since`, which is `None` when the wait begins.
    fn lingers(&self, finished: bool, since: &mut Option<Duration>) -> bool {
        let _ = (finished, since);
        false
    }

    /// Which run of all ranks this is, while the line is open: the same number on every rank, and another
    /// for each run. By it the parts of a recorded run find each other; couriers that need not be told
    /// apart may leave it.
    fn number(&self) -> u64 {
        0
    }

    /// This rank failed: every rank stops soon, and every inbox gets the reason.
    fn abort(&self, failure: &Failure);

    /// Called when this rank has nothing left to run. Waits until every rank has closed, and answers
    /// their requests meanwhile; returns the smallest failure of all ranks, the same on every rank.
    ///
    /// # Errors
    /// A rank was lost.
    fn close(&self, own: Option<Failure>) -> Result<Option<Failure>, Error>;
}

/// The side of a run that receives from other ranks.
///
/// # Examples
/// See [`Line`](Line#examples).
pub trait Inbox: Send + Sync {
    /// A parcel of another rank has arrived, complete.
    fn deliver(&self, from: Rank, arrival: Arrival);

    /// How far this rank is.
    fn pulse(&self) -> Pulse;

    /// Whether a worker of this rank may wait for what comes, or sleep; a hint. Else a messenger need not look on
    /// their behalf: those that are at work look themselves when their tasks end.
    fn has_idle_workers(&self) -> bool {
        true
    }

    /// The run fails for a reason outside this rank; no further task starts.
    fn stop(&self, failure: Failure);

    /// No rank can run anything and no message is under way: the run ends with the report of a stall.
    fn stall(&self);

    /// Whether it wants to hear what becomes of messages under way: what has [left](Self::left), was
    /// [heard](Self::heard) of and was [asked](Self::asked) for; asked once, when the run is opened.
    /// Runs that are recorded do.
    fn follows_messages(&self) -> bool {
        false
    }

    /// The transport has taken the last byte of a task's outputs for these ranks: for one of them, and
    /// for those that it passes them on to. Said by any thread; maybe not of what leaves last.
    /// Of a run that fails, what was given up counts as left.
    fn left(&self, _task: &WireName, _to: &[Rank]) {}

    /// This rank was told of outputs of a task of another rank, whose data it must ask for.
    fn heard(&self, _task: &WireName) {}

    /// It asked for the first of them.
    fn asked(&self, _task: &WireName) {}
}

/// How far a rank is with a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Tasks run so far.
    pub executed: u64,
    /// Tasks the space places on this rank.
    pub count: u64,
    /// Whether no worker is at work and nothing is queued: only an arrival can change that.
    pub idle: bool,
    /// Bytes of delivered data that a task has begun to use so far.
    pub used: u64,
}

/// Outputs of one task for other ranks, the same for each of them.
///
/// # Examples
/// See [`Line`](Line#examples).
pub struct Parcel {
    /// The ranks that get it, ascending.
    pub to: Ranks,
    /// The task whose outputs these are.
    pub task: WireName,
    /// Whether the task failed or was skipped, so that its successors are skipped.
    pub poisoned: bool,
    /// The most urgent successor's priority.
    pub priority: i64,
    /// The task's flows that go there, ascending, each with its datum if it has one.
    pub flows: SmallVec<[PostedFlow; 1]>,
}

impl Parcel {
    /// The same for other ranks.
    #[must_use]
    pub fn for_ranks(&self, to: Ranks) -> Self {
        Parcel {
            to,
            task: self.task.clone(),
            poisoned: self.poisoned,
            priority: self.priority,
            flows: self.flows.clone(),
        }
    }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows: Vec<u16> = self.flows.iter().map(|(flow, _)| *flow).collect();
        f.debug_struct("Parcel")
            .field("to", &self.to)
            .field("task", &self.task)
            .field("poisoned", &self.poisoned)
            .field("flows", &flows)
            .finish_non_exhaustive()
    }
}

/// A flow of a task, and its datum if it has one.
pub type PostedFlow = (u16, Option<Arc<dyn Cargo>>);

/// A parcel as it arrives.
///
/// # Examples
/// See [`Line`](Line#examples).
#[derive(Debug)]
pub struct Arrival {
    /// The task whose outputs these are.
    pub task: WireName,
    /// Whether the task failed or was skipped.
    pub poisoned: bool,
    /// Its flows, each with head and body of its datum if it has one.
    pub flows: SmallVec<[(u16, Option<Goods>); 1]>,
}

/// A datum on its way out; keeps it alive.
///
/// # Examples
/// See [`Line`](Line#examples).
pub trait Cargo: Send + Sync {
    /// What the receiver needs to know before it makes room: a few bytes.
    fn head(&self) -> Head;

    /// How many bytes the body has.
    fn size(&self) -> usize;

    /// The payload: where it lies, or packed for the purpose.
    fn body(&self) -> Cow<'_, [u8]>;

    /// Whether nobody reads the payload: see [`Wire::is_blank`].
    fn is_blank(&self) -> bool {
        false
    }
}

/// A datum as it arrives: head and body as the [`Cargo`] gave them.
///
/// # Examples
/// See [`Line`](Line#examples).
#[derive(Debug)]
pub struct Goods {
    /// A few bytes, as sent.
    pub head: Head,
    /// The payload.
    pub body: Box<dyn Block>,
}

/// A datum that can travel between ranks.
///
/// Its bits arrive as they were; both ends have the same byte order and floating-point format
/// (ranks of different kinds do not agree to run).
///
/// If [`head`](Self::head), [`size`](Self::size) or [`body`](Self::body) panics as a courier sends the datum, the
/// run fails, as [`Malformed`](crate::Kind::Malformed) too, and the error names the task whose output it is.
///
/// # Examples
/// A row of a grid, whose head is its number; the values leave from where they lie:
/// ```
/// use dataflow_core::bytemuck::{cast_slice, try_cast_slice};
/// use dataflow_core::data::Datum;
/// use dataflow_core::port::{Block, Head, Heap, Memory, Wire};
/// use std::borrow::Cow;
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Row { number: u32, values: Vec<f64> }
///
/// impl Datum for Row {
///     fn bytes(&self) -> usize { size_of_val(&self.values[..]) }
/// }
///
/// impl Wire for Row {
///     fn head(&self) -> Head { Head::from_slice(&self.number.to_ne_bytes()) }
///     fn size(&self) -> usize { self.bytes() }
///     fn body(&self) -> Cow<'_, [u8]> { cast_slice(&self.values).into() }
///
///     fn unpack(head: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
///         let number = head.try_into().map_err(|_| format!("a head of {} bytes", head.len()))?;
///         let values: &[f64] = try_cast_slice(body.bytes()).map_err(|error| error.to_string())?;
///         Ok(Row { number: u32::from_ne_bytes(number), values: values.to_vec() })
///     }
/// }
///
/// // What a courier does.
/// let row = Row { number: 3, values: vec![1.5, -2.0] };
/// let mut body = Heap.allocate(row.size());
/// body.bytes_mut().copy_from_slice(&row.body());
/// assert_eq!(Row::unpack(&row.head(), body), Ok(row));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Wire`: it cannot travel between ranks",
    label = "no datum that travels",
    note = "`run_across` and `replay` ask for it; on one rank `run`, `Recorded::run` and `recursion::recurse` do not; `wire_by_serde!(Type)` makes it from `serde` (feature `serde`), the example `alignment` implements it"
)]
pub trait Wire: Datum {
    /// Shape and kind: what [`unpack`](Self::unpack) needs beside the payload. A few bytes; couriers refuse more than
    /// 32 KiB, as [`Malformed`](crate::Kind::Malformed).
    fn head(&self) -> Head;

    /// How many bytes [`body`](Self::body) has. If it has more or fewer the run fails, as
    /// [`Malformed`](crate::Kind::Malformed).
    fn size(&self) -> usize;

    /// The payload: where it lies, or packed for the purpose.
    fn body(&self) -> Cow<'_, [u8]>;

    /// Whether nobody reads its bytes, but only counts them: then a courier in virtual time carries the
    /// length without them, if the datum does not travel inside a message. Others carry what
    /// [`body`](Self::body) gives, as ever.
    fn is_blank(&self) -> bool {
        false
    }

    /// The datum again. May keep `body` as its own memory.
    ///
    /// # Errors
    /// What is wrong with head or size.
    fn unpack(head: &[u8], body: Box<dyn Block>) -> Result<Self, String>;
}

/// One rank, alone.
///
/// # Examples
/// See [`Courier`](Courier#examples).
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Courier for Alone {
    fn rank(&self) -> Rank {
        Rank(0)
    }

    fn n_ranks(&self) -> usize {
        1
    }

    fn open(&self, _: &Terms, _: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error> {
        Ok(Box::new(Alone))
    }
}

impl Line for Alone {
    /// Never called: there is no other rank.
    fn post(&self, _: Parcel) {}

    fn poll(&self) {}

    fn abort(&self, _: &Failure) {}

    fn close(&self, own: Option<Failure>) -> Result<Option<Failure>, Error> {
        Ok(own)
    }
}
