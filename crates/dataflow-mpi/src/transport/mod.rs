//! Transports: who carries bytes from rank to rank.
//!
//! Two things are carried. *Packets* are short and come unasked; *data* are long and go straight
//! into room that the receiver has made for them beforehand. That is little enough for MPI
//! (`Isend`, posted `Irecv`, `Testsome`), for sockets, and for threads of one process.
//!
//! # Law
//! No call blocks. A transport is driven by one thread at a time. Bytes of a payload are read until
//! it is dropped. Packets may be lost, repeated or overtaken if [`MessageLimits::in_order`] is false; the
//! protocol notices. Data for a tag that no receive was posted for may be dropped. Data may be repeated
//! until their tag is used again, which is as late as can be, also from run to run.

pub mod local;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod raw;
pub mod simulated;
pub mod tcp;

use crate::bell::Bell;
use crate::host::Host;
use dataflow_core::port::{Block, Cargo};
use dataflow_core::rank::Rank;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Carries packets and data between one rank and the others.
///
/// # Examples
/// One in use: [`Messenger`](crate::Messenger#examples), [`Raw`](raw::Raw#examples). The guide of the package
/// `dataflow-runtime` has one written from nothing on its page `transport`; `dataflow::launch_over` takes it.
pub trait Transport: Send {
    /// This rank.
    fn rank(&self) -> Rank;

    /// How many ranks there are.
    fn n_ranks(&self) -> usize;

    /// What a message may be.
    fn limits(&self) -> MessageLimits;

    /// Between which ranks there are connections though they have said nothing to each other: those
    /// tell each other that they live, and when they leave. Others do so from their first word on.
    fn bonds(&self) -> Bonds {
        Bonds::All
    }

    /// Starts to send a packet, of at most [`MessageLimits::message_bytes`]. [`Event::Sent`] follows, maybe
    /// not before it is [awaited](Self::awaits).
    fn send(&mut self, to: Rank, packet: Vec<u8>);

    /// Starts to send data into the room that `to` has made under this tag.
    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload);

    /// Makes room for data that `from` will send under this tag. [`Event::Data`] follows.
    fn receive(&mut self, from: Rank, tag: u32, room: Room);

    /// Somebody waits for [`Event::Sent`] of what was sent to that rank; says whether one has come
    /// by this. Transports that say it in any case have nothing to do.
    fn awaits(&mut self, to: Rank) -> bool;

    /// The next thing that happened, if any; each once. One that panics whenever it is asked is asked no more: the
    /// run ends with what it says.
    fn poll(&mut self) -> Option<Event>;

    /// A bell that rings whenever [`poll`](Self::poll) may have something, and whenever anybody else
    /// rings it; none if this transport cannot ring and must be asked again and again.
    fn bell(&mut self, host: &dyn Host) -> Option<Arc<dyn Bell>>;
}

/// Which connections a transport keeps from the beginning.
///
/// # Examples
/// ```
/// use dataflow_mpi::transport::{Bonds, Transport, local};
/// let ends = local::connect(2);
/// assert_eq!(ends[0].bonds(), Bonds::All);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bonds {
    /// None: any rank can speak to any other, and nobody notices when one ends.
    None,
    /// Of each with rank 0. Two others are connected when one has something to say to the other: then
    /// [`Event::Part`] tells both, or [`Event::Lost`] the one that spoke.
    First,
    /// Of each with each: when a rank ends, all others notice.
    All,
}

/// What a message may be.
///
/// # Examples
/// ```
/// use dataflow_mpi::transport::{Transport, local};
///
/// let ends = local::connect(2);
/// let limits = ends[0].limits();
/// assert!(limits.in_order && limits.message_bytes >= 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// The longest packet or piece of data. At least 64.
    pub message_bytes: usize,
    /// The largest tag; tags begin at 1.
    pub largest_tag: u32,
    /// Whether packets arrive in the order they were sent, each once: then a gap is an error at
    /// once, else when it has not closed after a while.
    pub in_order: bool,
}

/// What happens at a transport.
///
/// # Examples
/// A packet arrives as it is sent, and data in the room that was made for them:
/// ```
/// use dataflow_core::port::{Heap, Memory};
/// use dataflow_core::rank::Rank;
/// use dataflow_mpi::transport::{Event, Load, Room, Transport, local};
///
/// let mut ends = local::connect(2);
/// let mut there = ends.pop().unwrap();
/// let mut here = ends.pop().unwrap();
/// here.send(Rank(1), b"short".to_vec());
/// let room = Room { block: Heap.allocate(100), range: 10..14 };
/// there.receive(Rank(0), 7, room);
/// here.send_data(Rank(1), 7, Load::Packed((*b"long").into()).part(0..4));
///
/// let mut n_came = 0;
/// while n_came < 2 {
///     match there.poll() {
///         Some(Event::Packet { from: Rank(0), bytes }) => assert_eq!(bytes, b"short"),
///         Some(Event::Data { tag: 7, room, bytes: 4, .. }) => assert_eq!(room.block.bytes()[10..14], *b"long"),
///         Some(other) => panic!("{other:?}"),
///         None => continue,
///     }
///     n_came += 1;
/// }
/// ```
#[derive(Debug)]
pub enum Event {
    /// A packet has arrived.
    Packet {
        /// From whom.
        from: Rank,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Data have arrived in the room made for them.
    Data {
        /// From whom.
        from: Rank,
        /// Under which tag.
        tag: u32,
        /// The room.
        room: Room,
        /// How many bytes came: the room's, or something is wrong.
        bytes: usize,
    },
    /// Part of something has come, which is not whole yet, or no bytes but a connection: who sends it
    /// lives, however slowly.
    /// Transports that see parts say so a few times a second.
    Part {
        /// From whom.
        from: Rank,
        /// How many bytes at least, since it was last said; none if it is connected now.
        bytes: usize,
    },
    /// A packet to that rank has left; another may follow it at once.
    Sent(Rank),
    /// Data arrived that nobody had made room for: a repetition, dropped.
    Unexpected(Rank),
    /// A rank cannot be reached any more. Told once: who tells it at every poll keeps the thread awake that moves
    /// messages.
    Lost(Rank, String),
}

/// Bytes on their way out: part of what a [`Cargo`] gives.
///
/// # Examples
/// See [`Load`](Load#examples).
#[derive(Clone)]
pub struct Payload {
    load: Load,
    range: Range<usize>,
    /// Gone when the payload is.
    _held: Option<KeepAlive>,
}

/// Whatever is held while something is on its way out.
pub(crate) type KeepAlive = Arc<dyn Any + Send + Sync>;

/// A datum ready to be sent: where it lies, or packed once.
///
/// # Examples
/// ```
/// use dataflow_mpi::transport::Load;
///
/// let load = Load::Packed([1, 2, 3, 4].into());
/// let payload = load.part(1..3);
/// assert_eq!((payload.len(), payload.read(|bytes| bytes.to_vec())), (2, vec![2, 3]));
/// ```
#[derive(Clone)]
pub enum Load {
    /// Its bytes lie there.
    Lent(Arc<dyn Cargo>),
    /// Its bytes were packed for the purpose.
    Packed(Arc<[u8]>),
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Lent(cargo) => write!(f, "Lent({} bytes)", cargo.size()),
            Load::Packed(bytes) => write!(f, "Packed({} bytes)", bytes.len()),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({:?} of {:?})", self.range, self.load)
    }
}

impl Load {
    /// Packs what has to be packed.
    pub fn new(cargo: Arc<dyn Cargo>) -> Self {
        if cargo.is_blank() {
            return Load::Lent(cargo);
        }
        let packed = match cargo.body() {
            Cow::Borrowed(_) => None,
            Cow::Owned(bytes) => Some(bytes.into()),
        };
        packed.map_or(Load::Lent(cargo), Load::Packed)
    }

    /// How many bytes it has, whatever was said.
    pub(crate) fn length(&self) -> usize {
        match self {
            Load::Lent(cargo) if cargo.is_blank() => cargo.size(),
            Load::Lent(cargo) => cargo.body().len(),
            Load::Packed(bytes) => bytes.len(),
        }
    }

    /// Part of it, on its way.
    pub fn part(&self, range: Range<usize>) -> Payload {
        Payload {
            load: self.clone(),
            range,
            _held: None,
        }
    }
}

impl Payload {
    /// The same, which holds something until it is dropped.
    pub(crate) fn holding(self, held: Option<KeepAlive>) -> Self {
        Payload {
            _held: held,
            ..self
        }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Whether nobody reads the bytes: see [`Cargo::is_blank`].
    pub fn is_blank(&self) -> bool {
        matches!(&self.load, Load::Lent(cargo) if cargo.is_blank())
    }

    /// What it holds.
    #[cfg(feature = "mpi")]
    pub(crate) fn into_held(self) -> Option<KeepAlive> {
        self._held
    }

    /// The bytes where they lie for as long as the payload does; none if they are packed for each
    /// look.
    #[cfg(feature = "mpi")]
    pub(crate) fn lasting(&self) -> Option<&[u8]> {
        let bytes = match &self.load {
            Load::Lent(cargo) => match cargo.body() {
                Cow::Borrowed(bytes) => bytes,
                Cow::Owned(_) => return None,
            },
            Load::Packed(bytes) => bytes,
        };
        let end = self.range.end.min(bytes.len());
        Some(&bytes[self.range.start.min(end)..end])
    }

    /// Shows the bytes; fewer than [`len`](Self::len) if the cargo broke its word on its size.
    pub fn read<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        let part = |bytes: &[u8]| {
            let end = self.range.end.min(bytes.len());
            look(&bytes[self.range.start.min(end)..end])
        };
        match &self.load {
            Load::Lent(cargo) => part(&cargo.body()),
            Load::Packed(bytes) => part(bytes),
        }
    }
}

/// What is copied at once. From the size of the second-level cache on, glibc copies in a loop of
/// loads and stores instead of the processor's own way (AMD): into lines that another core holds,
/// as blocks that travel are, that takes twice as long.
const PIECE: usize = 256 << 10;

/// Room for data to come: part of a block.
///
/// # Examples
/// See [`Event`](Event#examples).
#[derive(Debug)]
pub struct Room {
    /// The block.
    pub block: Box<dyn Block>,
    /// The part to be filled.
    pub range: Range<usize>,
}

impl Room {
    /// Copies a payload in, as far as both go; says how many bytes it had.
    pub fn fill(&mut self, payload: &Payload) -> usize {
        payload.read(|bytes| self.fill_with(bytes))
    }

    pub(crate) fn fill_with(&mut self, bytes: &[u8]) -> usize {
        let room = self.block.bytes_mut();
        let Range { start, end } = self.range;
        // A block of a length only has no bytes.
        let length = room.len();
        let room = &mut room[start.min(length)..end.min(length)];
        let pieces = room.chunks_mut(PIECE).zip(bytes.chunks(PIECE));
        for (room, bytes) in pieces {
            let fits = room.len().min(bytes.len());
            room[..fits].copy_from_slice(&bytes[..fits]);
        }
        bytes.len()
    }
}

#[cfg(test)]
mod delicate {
    use super::*;
    use dataflow_core::port::Head;
    use std::panic::resume_unwind;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A datum that panics as it is dropped, and counts that.
    pub struct Delicate(Arc<AtomicUsize>);

    impl Delicate {
        /// Sends so many; what is returned says how many have been dropped.
        pub fn counted(mut send: impl FnMut(Payload), many: usize) -> Box<dyn Fn() -> usize> {
            let dropped = Arc::new(AtomicUsize::new(0));
            for _ in 0..many {
                let cargo = Arc::new(Delicate(dropped.clone()));
                let payload = Load::new(cargo).part(0..8); // and nothing else holds it
                send(payload);
            }
            Box::new(move || dropped.load(Ordering::Relaxed))
        }
    }

    impl Cargo for Delicate {
        fn head(&self) -> Head {
            Head::default()
        }

        fn size(&self) -> usize {
            8
        }

        fn body(&self) -> Cow<'_, [u8]> {
            Cow::Borrowed(&[0; 8])
        }
    }

    impl Drop for Delicate {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            resume_unwind(Box::new("not a word on the screen"));
        }
    }
}
