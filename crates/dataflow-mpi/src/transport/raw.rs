//! Send and receive on a transport without any protocol above it: what the runtime is compared with.
//!
//! Buffers are used again on both sides: what is sent lies where it lay, what is received comes into
//! the block of the last time. The limits of the transport are the caller's affair.

use super::{Event, Load, MessageLimits, Payload, Room, Transport};
use crate::bell::Bell;
use crate::host::Host;
use dataflow_core::error::Error;
use dataflow_core::port::{Block, Cargo};
use dataflow_core::rank::Rank;
use std::fmt;
use std::sync::Arc;

/// One rank's end.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Cargo, Heap, Memory};
/// use dataflow_core::rank::Rank;
/// use dataflow_mpi::transport::{local, raw::{Raw, Sendable}};
/// use dataflow_mpi::Machine;
///
/// let mut ends = local::connect(2).into_iter().map(|end| Raw::new(Box::new(end), &*Machine::new(), false));
/// let (mut here, mut there) = (ends.next().unwrap(), ends.next().unwrap());
/// here.send(Rank(1), &Sendable::new(vec![7; 8]));
/// let received = there.receive(Rank(0), Heap.allocate(8))?;
/// assert_eq!(received.bytes(), [7; 8]);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct Raw<'t> {
    transport: Box<dyn Transport + 't>,
    bell: Arc<dyn Bell>,
    spins: bool,
    /// Which rank was lost, and why: what was to be received then may still come.
    lost: Option<String>,
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, n_ranks) = (self.transport.rank(), self.transport.n_ranks());
        write!(f, "Raw({rank} of {n_ranks})")
    }
}

/// A buffer to be sent, as often as wanted.
///
/// # Examples
/// See [`Raw`](Raw#examples).
#[derive(Debug)]
pub struct Sendable(Load, usize);

impl Sendable {
    /// Of bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        let length = bytes.len();
        Sendable(Load::Packed(bytes.into()), length)
    }

    /// Of a cargo, where it lies.
    pub fn of(cargo: Arc<dyn Cargo>) -> Self {
        let length = cargo.size();
        Sendable(Load::new(cargo), length)
    }
}

/// All data go under this tag.
const TAG: u32 = 1;

impl<'t> Raw<'t> {
    /// Over a transport; `spins` says whether a receiver looks again and again, or sleeps.
    pub fn new(mut transport: Box<dyn Transport + 't>, host: &dyn Host, spins: bool) -> Self {
        let bell = transport.bell(host);
        Raw {
            transport,
            spins: spins || bell.is_none(),
            bell: bell.unwrap_or_else(|| host.bell()),
            lost: None,
        }
    }

    /// Over a transport that belongs to a protocol, and its bell, if it can ring.
    pub(crate) fn over(
        lent: LentTransport<'t>,
        bell: Option<Arc<dyn Bell>>,
        host: &dyn Host,
    ) -> Self {
        Raw {
            transport: Box::new(lent),
            spins: bell.is_none(),
            bell: bell.unwrap_or_else(|| host.bell()),
            lost: None,
        }
    }

    /// Starts to send.
    pub fn send(&mut self, to: Rank, sendable: &Sendable) {
        self.transport
            .send_data(to, TAG, sendable.0.part(0..sendable.1));
    }

    /// Waits for what `from` sends, in a block of its size: without limit, since nobody says here that it
    /// lives.
    ///
    /// # Errors
    /// If the transport says meanwhile that it has lost a rank, whichever: its peer may wait for that one. From
    /// then on nothing more is received. Over MPI it may never notice.
    pub fn receive(&mut self, from: Rank, block: Box<dyn Block>) -> Result<Box<dyn Block>, Error> {
        if let Some(text) = &self.lost {
            return Err(Error::rank_lost(text));
        }
        let range = 0..block.bytes().len();
        self.transport.receive(from, TAG, Room { block, range });
        loop {
            match self.transport.poll() {
                Some(Event::Data { room, .. }) => return Ok(room.block),
                Some(Event::Lost(rank, reason)) => {
                    let text = format!("{rank} is lost: {reason}");
                    self.lost = Some(text.clone());
                    return Err(Error::rank_lost(text));
                }
                Some(_) => {}
                None if self.spins => std::hint::spin_loop(),
                None => self.bell.wait(None),
            }
        }
    }
}

/// A transport lent by its protocol, which gets what came for it meanwhile.
pub(crate) struct LentTransport<'t> {
    pub transport: &'t mut dyn Transport,
    pub kept: &'t mut Vec<Event>,
}

impl Transport for LentTransport<'_> {
    fn rank(&self) -> Rank {
        self.transport.rank()
    }

    fn n_ranks(&self) -> usize {
        self.transport.n_ranks()
    }

    fn limits(&self) -> MessageLimits {
        self.transport.limits()
    }

    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        self.transport.send(to, packet);
    }

    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        self.transport.send_data(to, tag, payload);
    }

    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        self.transport.receive(from, tag, room);
    }

    fn awaits(&mut self, to: Rank) -> bool {
        self.transport.awaits(to)
    }

    fn poll(&mut self) -> Option<Event> {
        loop {
            match self.transport.poll()? {
                data @ Event::Data { .. } => return Some(data),
                Event::Lost(rank, reason) => {
                    self.kept.push(Event::Lost(rank, reason.clone()));
                    return Some(Event::Lost(rank, reason));
                }
                Event::Part { bytes: 1.., .. } => {}
                other => self.kept.push(other),
            }
        }
    }

    fn bell(&mut self, _: &dyn Host) -> Option<Arc<dyn Bell>> {
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::host::Machine;
    use crate::transport::local;
    use dataflow_core::port::{Heap, Memory};
    use std::collections::VecDeque;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    /// A transport that answers so when it is asked; then what was to be received is there. It cannot ring.
    struct Scripted {
        answers: VecDeque<Option<Event>>,
        room: Option<Room>,
    }

    impl Scripted {
        fn new(answers: impl IntoIterator<Item = Option<Event>>) -> Self {
            Scripted {
                answers: answers.into_iter().collect(),
                room: None,
            }
        }
    }

    impl Transport for Scripted {
        fn rank(&self) -> Rank {
            Rank(0)
        }
        fn n_ranks(&self) -> usize {
            2
        }
        fn limits(&self) -> MessageLimits {
            local::connect(1)[0].limits()
        }
        fn send(&mut self, _: Rank, _: Vec<u8>) {}
        fn send_data(&mut self, _: Rank, _: u32, _: Payload) {}
        fn receive(&mut self, _: Rank, _: u32, room: Room) {
            self.room = Some(room);
        }
        fn awaits(&mut self, _: Rank) -> bool {
            false
        }
        fn poll(&mut self) -> Option<Event> {
            self.answers.pop_front().unwrap_or_else(|| {
                let (from, tag, bytes) = (Rank(1), TAG, 8);
                let room = self.room.take()?;
                Some(Event::Data {
                    from,
                    tag,
                    room,
                    bytes,
                })
            })
        }
        fn bell(&mut self, _: &dyn Host) -> Option<Arc<dyn Bell>> {
            None
        }
    }

    /// It slept, and nobody rang.
    #[test]
    fn who_receives_over_a_transport_that_cannot_ring_looks_again() {
        let owned = || {
            let scripted = Scripted::new([None, None]);
            let mut raw = Raw::new(Box::new(scripted), &*Machine::new(), false);
            raw.receive(Rank(1), Heap.allocate(8)).is_ok()
        };
        let lent = || {
            let (mut transport, mut kept) = (Scripted::new([None, None]), Vec::new());
            let lent = LentTransport {
                transport: &mut transport,
                kept: &mut kept,
            };
            let mut raw = Raw::over(lent, None, &*Machine::new());
            raw.receive(Rank(1), Heap.allocate(8)).is_ok()
        };
        for receives in [owned as fn() -> bool, lent] {
            let (tell, told) = channel();
            // Not joined: if it sleeps for ever the test must not.
            thread::spawn(move || tell.send(receives()));
            assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(true));
        }
    }

    /// Bytes are those of the data that come meanwhile, which are none of the protocol's.
    #[test]
    fn who_is_connected_while_the_transport_is_lent_is_told_to_its_protocol_and_no_bytes() {
        let (from, mut kept) = (Rank(1), Vec::new());
        let parts = [0, 5, 0].map(|bytes| Some(Event::Part { from, bytes }));
        let mut transport = Scripted::new(parts);
        let mut lent = LentTransport {
            transport: &mut transport,
            kept: &mut kept,
        };
        assert!(lent.poll().is_none());
        let connected = |event: &Event| matches!(event, Event::Part { bytes: 0, .. });
        assert!(kept.len() == 2 && kept.iter().all(connected), "{kept:?}");
    }

    #[test]
    fn a_rank_that_is_lost_while_the_transport_is_lent_is_lost_to_its_protocol_too() {
        let mut ends = local::connect(2);
        drop(ends.pop());
        let mut kept = Vec::new();
        let mut lent = LentTransport {
            transport: &mut ends[0],
            kept: &mut kept,
        };
        assert!(matches!(lent.poll(), Some(Event::Lost(Rank(1), _))));
        assert!(matches!(&kept[..], [Event::Lost(Rank(1), _)]));
    }

    /// What rank 1 sent was taken for what rank 2 had not.
    #[test]
    fn who_has_lost_a_rank_receives_no_more_and_nothing_of_another() {
        let ends = local::connect(4).into_iter();
        let ends = ends.map(|end| Raw::new(Box::new(end), &*Machine::new(), true));
        let mut ends: Vec<_> = ends.collect();
        drop(ends.pop());
        let lost = ends[0].receive(Rank(1), Heap.allocate(8)).unwrap_err();
        assert!(lost.to_string().starts_with("rank 3 is lost"), "{lost}");
        ends[1].send(Rank(0), &Sendable::new(vec![1; 8]));
        let again = ends[0].receive(Rank(2), Heap.allocate(8)).unwrap_err();
        assert_eq!(again.to_string(), lost.to_string());
    }
}
