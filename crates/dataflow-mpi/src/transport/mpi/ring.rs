//! The ring: room for packets, posted before they come.
//!
//! Every room is for a packet of anybody, so MPI fills them in the order they were posted, and one
//! look at the oldest is enough. A packet longer than a room comes in pieces: one that fills its
//! room is followed by more, an empty one if need be.

use super::calls::{Comm, MPI_Request, MpiError, anybody, cancel, copied, null_request, test};
use crate::transport::Event;
use dataflow_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;

/// Rooms of equal size, used one after another.
pub struct ReceiveRing {
    /// As it came out of its box; one room behind the other.
    memory: NonNull<[u8]>,
    room: usize,
    requests: Vec<MPI_Request>,
    /// The room that is filled next.
    next: usize,
    /// Pieces of packets whose end has not come, by rank.
    pieces: BTreeMap<usize, Vec<u8>>,
    n_ranks: usize,
}

// SAFETY: - requests are handles, and all calls with them are serialized
//         - nobody else knows the memory
unsafe impl Send for ReceiveRing {}

impl ReceiveRing {
    /// Posts `n` rooms of so many bytes.
    pub fn new(comm: Comm, n: usize, room: usize, n_ranks: usize) -> Result<Self, MpiError> {
        let memory = Box::into_raw(vec![0; n * room].into_boxed_slice());
        let Some(memory) = NonNull::new(memory) else {
            unreachable!("a box is not null");
        };
        let mut ring = ReceiveRing {
            memory,
            room,
            requests: vec![null_request(); n],
            next: 0,
            pieces: BTreeMap::new(),
            n_ranks,
        };
        (0..n).try_for_each(|at| ring.post(comm, at))?;
        Ok(ring)
    }

    fn room(&self, at: usize) -> *mut u8 {
        // SAFETY: there are as many rooms as requests, one behind the other.
        unsafe { self.memory.cast::<u8>().as_ptr().add(at * self.room) }
    }

    fn post(&mut self, comm: Comm, at: usize) -> Result<(), MpiError> {
        // SAFETY: only this request writes to the room, which is read when it is complete.
        self.requests[at] = unsafe { comm.receive(self.room(at), self.room, anybody(), 0) }?;
        Ok(())
    }

    /// Takes what has come, in its order.
    pub fn look(&mut self, comm: Comm, events: &mut VecDeque<Event>) -> Result<(), MpiError> {
        for _ in 0..self.requests.len() {
            let at = self.next;
            let Some(completed) = test(&mut self.requests[at])? else {
                return Ok(());
            };
            let length = completed.bytes().min(self.room);
            // SAFETY: the room was filled so far (and zeroed before), its request is complete.
            let piece = unsafe { copied(self.room(at), length) };
            self.post(comm, at)?;
            self.next = (at + 1) % self.requests.len();
            let from = completed.source().min(self.n_ranks - 1);
            let bytes = match self.pieces.remove(&from) {
                None => piece,
                Some(mut pieces) => {
                    pieces.extend_from_slice(&piece);
                    pieces
                }
            };
            if length == self.room {
                self.pieces.insert(from, bytes);
            } else {
                let from = Rank(from as u32);
                events.push_back(Event::Packet { from, bytes });
            }
        }
        Ok(())
    }

    /// Gives all rooms up.
    pub fn cancel(&mut self) {
        for request in &mut self.requests {
            cancel(request).ok(); // it may be complete, or none
        }
    }

    /// Lets go what is complete; says whether nothing is left. Otherwise the memory is leaked.
    pub fn end(&mut self) -> bool {
        let is_left = |request: &mut MPI_Request| {
            *request != null_request() && matches!(test(request), Ok(None))
        };
        self.requests.retain_mut(is_left);
        if !self.requests.is_empty() {
            return false;
        }
        let nothing = NonNull::from(&mut []);
        let memory = std::mem::replace(&mut self.memory, nothing);
        if !memory.is_empty() {
            // SAFETY: it came out of a box, no request knows it any more, and this is done once.
            drop(unsafe { Box::from_raw(memory.as_ptr()) });
        }
        true
    }
}
