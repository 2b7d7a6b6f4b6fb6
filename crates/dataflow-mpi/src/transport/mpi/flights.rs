//! Flights: what MPI is sending or filling, each with what must stay until it has.
//!
//! # Law
//! What MPI reads or writes lives until its request is complete. If that cannot be had it is
//! leaked, never freed.

use super::calls::{Comm, Completed, Looker, MPI_Request, MpiError, cancel, test};
use crate::transport::{Event, Load, Payload, Room};
use dataflow_core::port::{Block, drop_quietly};
use dataflow_core::rank::Rank;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Requests that are not complete, and what they hold, place by place.
#[derive(Default)]
pub struct Flights {
    requests: Vec<MPI_Request>,
    /// Leaked with this, unless its request is complete.
    holds: Vec<ManuallyDrop<Hold>>,
    looker: Looker,
}

// SAFETY: - requests are handles, and all calls with them are serialized
//         - blocks are `Send`, and nobody else knows those that are held
unsafe impl Send for Flights {}

/// What stays while a request is under way.
enum Hold {
    /// A piece of a packet.
    Packet {
        to: Rank,
        _packet: Arc<Vec<u8>>,
        is_last: bool,
    },
    /// Data that are sent.
    Data { to: Rank, _payload: Payload },
    /// A block that is filled, as it came out of its box.
    Room(Rank, u32, NonNull<dyn Block>, Range<usize>),
}

impl Flights {
    /// Begins to send a piece of a packet.
    pub fn send(
        &mut self,
        comm: Comm,
        to: Rank,
        packet: &Arc<Vec<u8>>,
        piece: Range<usize>,
        is_last: bool,
    ) -> Result<(), MpiError> {
        let bytes = &packet[piece];
        // SAFETY: the bytes lie on the heap, held and unchanged until the request is complete.
        let request = unsafe { comm.send(bytes.as_ptr(), bytes.len(), place(to), 0) }?;
        let hold = Hold::Packet {
            to,
            _packet: packet.clone(),
            is_last,
        };
        self.keep(request, hold);
        Ok(())
    }

    /// Begins to send data.
    pub fn send_data(
        &mut self,
        comm: Comm,
        to: Rank,
        tag: u32,
        payload: Payload,
    ) -> Result<(), MpiError> {
        let payload = lasting(payload);
        let bytes = payload.lasting().unwrap_or_default();
        // SAFETY: what a payload lends lasts as long as the payload, which is held.
        let request = unsafe { comm.send(bytes.as_ptr(), bytes.len(), place(to), tag as c_int) }?;
        let hold = Hold::Data {
            to,
            _payload: payload,
        };
        self.keep(request, hold);
        Ok(())
    }

    /// Begins to fill a room.
    pub fn receive(
        &mut self,
        comm: Comm,
        from: Rank,
        tag: u32,
        room: Room,
    ) -> Result<(), MpiError> {
        let range = room.range;
        let Some(mut block) = NonNull::new(Box::into_raw(room.block)) else {
            unreachable!("a box is not null");
        };
        // SAFETY: it came out of its box just now; nobody else knows it.
        let bytes = unsafe { block.as_mut() }.bytes_mut();
        let bytes = &mut bytes[range.clone()];
        // SAFETY: the block is ours alone and not touched until the request is complete.
        let begun =
            unsafe { comm.receive(bytes.as_mut_ptr(), bytes.len(), place(from), tag as c_int) };
        match begun {
            Ok(request) => {
                self.keep(request, Hold::Room(from, tag, block, range));
                Ok(())
            }
            Err(fault) => {
                // SAFETY: it came out of a box, and MPI has not taken it.
                drop(unsafe { Box::from_raw(block.as_ptr()) });
                Err(fault)
            }
        }
    }

    fn keep(&mut self, request: MPI_Request, hold: Hold) {
        self.requests.push(request);
        self.holds.push(ManuallyDrop::new(hold));
    }

    /// Looks what is complete, and says what has happened.
    pub fn look(&mut self, events: &mut VecDeque<Event>) -> Result<(), MpiError> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let mut done = self.looker.test(&mut self.requests)?;
        // The order in which they were begun is the order in which they are told.
        done.sort_unstable_by_key(|(at, _)| *at);
        for (at, end) in &done {
            events.extend(self.holds[*at].land(*end));
        }
        let landed = done.into_iter().rev().map(|(at, _)| {
            self.requests.remove(at);
            self.holds.remove(at)
        });
        // All are out of here before one is dropped: a datum may panic then, and the rest is leaked.
        let landed: Vec<_> = landed.collect();
        let landed = landed.into_iter().map(ManuallyDrop::into_inner);
        landed.for_each(drop_quietly);
        Ok(())
    }

    /// Gives receives up.
    pub fn cancel(&mut self) {
        for (request, hold) in self.requests.iter_mut().zip(&self.holds) {
            if matches!(**hold, Hold::Room(..)) {
                cancel(request).ok(); // it may be complete
            }
        }
    }

    /// Lets go what is complete; says whether nothing is left. What is left is leaked with this.
    pub fn end(&mut self) -> bool {
        for at in (0..self.requests.len()).rev() {
            if matches!(test(&mut self.requests[at]), Ok(Some(_))) {
                self.requests.remove(at);
                let mut hold = ManuallyDrop::into_inner(self.holds.remove(at));
                hold.land(Err(MpiError::default())); // nobody wants to hear of it any more
                drop_quietly(hold);
            }
        }
        self.requests.is_empty()
    }
}

impl Hold {
    /// The request is complete: what that means.
    fn land(&mut self, end: Result<Completed, MpiError>) -> Option<Event> {
        let lost = |rank: Rank, fault: MpiError| Some(Event::Lost(rank, format!("MPI: {fault}")));
        match (self, end) {
            (Hold::Packet { to, .. } | Hold::Data { to, .. }, Err(fault)) => lost(*to, fault),
            (
                Hold::Packet {
                    to, is_last: true, ..
                },
                Ok(_),
            ) => Some(Event::Sent(*to)),
            (Hold::Packet { .. } | Hold::Data { .. }, Ok(_)) => None,
            (Hold::Room(from, tag, block, range), end) => {
                // SAFETY: it came out of its box, its request is complete, and this is done once: the code that
                //         lands a hold takes it out of the list before anything of the user's runs.
                let block = unsafe { Box::from_raw(block.as_ptr()) };
                let bytes = match end {
                    Ok(completed) => completed.bytes(),
                    Err(fault) if fault.is_truncation() => range.len() + 1,
                    Err(fault) => return lost(*from, fault),
                };
                Some(Event::Data {
                    from: *from,
                    tag: *tag,
                    room: Room {
                        block,
                        range: range.clone(),
                    },
                    bytes,
                })
            }
        }
    }
}

/// A payload whose bytes stay where they are.
fn lasting(payload: Payload) -> Payload {
    if payload.lasting().is_some() {
        return payload;
    }
    let packed: Arc<[u8]> = payload.read(|bytes| bytes.into());
    let length = packed.len();
    Load::Packed(packed)
        .part(0..length)
        .holding(payload.into_held())
}

/// A rank as MPI counts.
pub fn place(rank: Rank) -> c_int {
    c_int::try_from(rank.0).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::port::{Cargo, Head};
    use std::borrow::Cow;

    /// A datum that is packed for each look.
    struct Folded;

    impl Cargo for Folded {
        fn head(&self) -> Head {
            Head::default()
        }
        fn size(&self) -> usize {
            8
        }
        fn body(&self) -> Cow<'_, [u8]> {
            Cow::Owned(b"01234567".to_vec())
        }
    }

    #[test]
    fn what_is_packed_for_each_look_is_packed_once_and_holds_what_it_held() {
        let held = Arc::new(());
        let payload = Load::Lent(Arc::new(Folded)).part(2..6);
        assert_eq!(payload.lasting(), None);
        let payload = lasting(payload.holding(Some(held.clone())));
        assert_eq!(payload.lasting(), Some(&b"2345"[..]));
        assert_eq!(Arc::strong_count(&held), 2);
        drop(payload);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
