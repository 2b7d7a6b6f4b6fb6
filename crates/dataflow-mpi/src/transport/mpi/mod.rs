//! Ranks under an MPI launcher, through rsmpi.
//!
//! Packets come into rooms posted beforehand, one ring of them for all ranks; data come into the
//! rooms of their receivers, posted before they are asked for. Requests are completed by `MPI_Test` and
//! `MPI_Testsome`: nothing ever blocks. rsmpi's safe requests borrow their buffers, which a struct cannot
//! keep beside them; so its raw calls are made here, and what MPI reads or writes is owned until its request
//! is complete.
//!
//! # Law
//! One duplicate of the communicator carries everything: packets under tag 0, data under theirs.
//! MPI cannot ring: a thread that waits looks again and again, at growing intervals. Nobody sends more data
//! than were asked for: Open MPI 4.1 writes beyond the room when a long message finds a shorter one.
//!
//! # Elsewhere
//! MPI's beginning and end: [`MpiWorld`].

mod calls;
mod flights;
mod ring;
mod world;

pub use world::MpiWorld;

use super::{Bonds, Event, MessageLimits, Payload, Room, Transport};
use crate::bell::Bell;
use crate::host::{Host, Machine};
use calls::{Comm, MpiError, serialized};
use dataflow_core::rank::Rank;
use flights::Flights;
use ring::ReceiveRing;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long messages may still leave when a rank does.
const LINGER: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_micros(100);

/// How MPI is used; the defaults suit every MPI.
///
/// # Examples
/// Shorter messages than by default; what takes them is [`MpiWorld::transport`].
/// ```
/// use dataflow_mpi::transport::mpi::Sizes;
/// let sizes = Sizes { message_bytes: 1 << 20, ..Sizes::default() };
/// assert!(sizes.message_bytes < Sizes::default().message_bytes);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The longest message; MPI's counts allow 2³¹ − 1. Longer data go in parts, and as MPI does not
    /// tell what has come of a message, each part must come within the silence allowed.
    pub message_bytes: usize,
    /// The largest tag, if MPI's is not smaller.
    pub largest_tag: u32,
    /// A room for packets; longer ones come in pieces. The smallest of all ranks' counts.
    pub packet_bytes: usize,
    /// How many such rooms.
    pub packets: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            message_bytes: 4 << 20,
            largest_tag: i32::MAX as u32,
            packet_bytes: (16 << 10) + 64,
            packets: 16,
        }
    }
}

/// One rank's end.
pub struct Mpi {
    rank: Rank,
    n_ranks: usize,
    limits: MessageLimits,
    comm: Comm,
    packet_bytes: usize,
    ring: ReceiveRing,
    flights: Flights,
    events: VecDeque<Event>,
    /// What the last look found has not all been taken, or has just been.
    has_found: bool,
    /// MPI answers no more.
    broken: bool,
    _world: Arc<()>,
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mpi({} of {})", self.rank, self.n_ranks)
    }
}

impl Mpi {
    fn new(of: calls::MPI_Comm, sizes: Sizes, world: Arc<()>) -> Result<Self, MpiError> {
        let comm = Comm::copy(of)?;
        let n_ranks = comm.size()?;
        let packet_bytes = comm.smallest(sizes.packet_bytes.max(1) as u64)? as usize;
        Ok(Mpi {
            rank: Rank(comm.rank()? as u32),
            n_ranks,
            limits: MessageLimits {
                message_bytes: sizes.message_bytes.min(i32::MAX as usize),
                largest_tag: sizes.largest_tag.min(comm.largest_tag()?),
                in_order: true,
            },
            comm,
            packet_bytes,
            ring: ReceiveRing::new(comm, sizes.packets.max(1), packet_bytes, n_ranks)?,
            flights: Flights::default(),
            events: VecDeque::new(),
            has_found: false,
            broken: false,
            _world: world,
        })
    }

    /// A rank cannot be reached if MPI says so.
    fn heed(&mut self, rank: Rank, begun: Result<(), MpiError>) {
        if let Err(fault) = begun {
            self.events
                .push_back(Event::Lost(rank, format!("MPI: {fault}")));
        }
    }

    fn look(&mut self) -> Result<(), MpiError> {
        self.ring.look(self.comm, &mut self.events)?;
        self.flights.look(&mut self.events)
    }
}

impl Transport for Mpi {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    fn bonds(&self) -> Bonds {
        Bonds::None
    }

    fn limits(&self) -> MessageLimits {
        self.limits
    }

    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        debug_assert!(packet.len() <= self.limits.message_bytes);
        let _serialized = serialized();
        let (packet, room) = (Arc::new(packet), self.packet_bytes);
        for begin in (0..=packet.len()).step_by(room) {
            let end = packet.len().min(begin + room);
            let is_last = end - begin < room;
            let begun = self
                .flights
                .send(self.comm, to, &packet, begin..end, is_last);
            self.heed(to, begun);
        }
    }

    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        debug_assert!(payload.len() <= self.limits.message_bytes && tag <= self.limits.largest_tag);
        let _serialized = serialized();
        let begun = self.flights.send_data(self.comm, to, tag, payload);
        self.heed(to, begun);
    }

    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        let _serialized = serialized();
        let begun = self.flights.receive(self.comm, from, tag, room);
        self.heed(from, begun);
    }

    fn awaits(&mut self, _: Rank) -> bool {
        false
    }

    /// A look takes all that is complete. So behind what it has found there is nothing, and MPI, which takes as long
    /// to say so, is not asked at once.
    fn poll(&mut self) -> Option<Event> {
        if self.events.is_empty() && !self.broken && !std::mem::take(&mut self.has_found) {
            let _serialized = serialized();
            if let Err(fault) = self.look() {
                // Whose fault it is MPI does not say: nobody is reached any more.
                self.broken = true;
                let others = (0..self.n_ranks as u32)
                    .map(Rank)
                    .filter(|rank| *rank != self.rank);
                let lost = others.map(|rank| Event::Lost(rank, format!("MPI: {fault}")));
                self.events.extend(lost);
            }
            self.has_found = !self.events.is_empty();
        }
        self.events.pop_front()
    }

    fn bell(&mut self, _host: &dyn Host) -> Option<Arc<dyn Bell>> {
        None
    }
}

impl Drop for Mpi {
    /// What was begun is completed or given up; what MPI does not let go is leaked. So is the
    /// communicator: a last word may still be under way, which Open MPI would give to the next
    /// communicator that gets the same number.
    fn drop(&mut self) {
        if mpi::environment::is_finalized() {
            return;
        }
        let host = Machine::new();
        let (nap, deadline) = (host.bell(), host.now() + LINGER);
        {
            let _serialized = serialized();
            self.flights.cancel();
            self.ring.cancel();
        }
        loop {
            let has_ended = {
                let _serialized = serialized();
                let flights_have = self.flights.end();
                self.ring.end() && flights_have
            };
            if has_ended || host.now() > deadline {
                break;
            }
            nap.wait(Some(LOOK));
        }
    }
}
