//! Relay: what has come for this rank and goes on to others, without waiting for its workers.
//!
//! The engine gets the block that came, and those below in the tree read the same bytes. Who changes
//! it first gets a copy, unless all of them have theirs; the block goes when the last of them does.
//! While those below may read it, it counts as passed on.

use crate::sync::{AtomicU64, Ordering};
use crate::transport::Room;
use dataflow_core::port::{Block, Cargo, Goods, Head, Memory};
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes of data that have come and that others have not all read.
#[derive(Default)]
pub(super) struct Passing(Arc<AtomicU64>);

impl Passing {
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Goods that came once: for the engine here, and for other ranks.
    pub fn relayed(&self, goods: Goods, memory: &Arc<dyn Memory>) -> (Goods, Arc<dyn Cargo>) {
        let Goods { head, body: block } = goods;
        let came = Arc::new(ReceivedDatum {
            head: head.clone(),
            block,
        });
        let body = Box::new(RelayedBlock {
            held: SharedOrOwn::Shared(came.clone()),
            memory: memory.clone(),
        });
        let bytes = self.0.clone();
        bytes.fetch_add(came.size() as u64, Ordering::Relaxed);
        (Goods { head, body }, Arc::new(PassedOn { came, bytes }))
    }
}

/// A datum as those below get it.
struct PassedOn {
    came: Arc<ReceivedDatum>,
    bytes: Arc<AtomicU64>,
}

impl Cargo for PassedOn {
    fn head(&self) -> Head {
        self.came.head()
    }

    fn size(&self) -> usize {
        self.came.size()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        self.came.body()
    }

    fn is_blank(&self) -> bool {
        self.came.is_blank()
    }
}

impl Drop for PassedOn {
    fn drop(&mut self) {
        // Relaxed, as all of it: a thread that sees it late takes no more for a moment longer.
        self.bytes.fetch_sub(self.size() as u64, Ordering::Relaxed);
    }
}

/// A datum as it came.
struct ReceivedDatum {
    head: Head,
    block: Box<dyn Block>,
}

impl Cargo for ReceivedDatum {
    fn head(&self) -> Head {
        self.head.clone()
    }

    fn size(&self) -> usize {
        self.block.length()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        match self.is_blank() {
            true => Cow::Owned(vec![0; self.size()]),
            false => Cow::Borrowed(self.block.bytes()),
        }
    }

    fn is_blank(&self) -> bool {
        self.block.length() != self.block.bytes().len()
    }
}

/// The block of a datum that others may still read.
struct RelayedBlock {
    held: SharedOrOwn,
    memory: Arc<dyn Memory>,
}

enum SharedOrOwn {
    Shared(Arc<ReceivedDatum>),
    /// A copy, made when it was to be changed too early.
    Own(Box<dyn Block>),
}

impl RelayedBlock {
    fn block(&self) -> &dyn Block {
        match &self.held {
            SharedOrOwn::Shared(came) => &*came.block,
            SharedOrOwn::Own(own) => &**own,
        }
    }
}

fn copied(block: &dyn Block, memory: &dyn Memory) -> Box<dyn Block> {
    let mut room = Room {
        block: memory.allocate(block.length()),
        range: 0..block.length(),
    };
    room.fill_with(block.bytes());
    room.block
}

impl Block for RelayedBlock {
    fn bytes(&self) -> &[u8] {
        self.block().bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // Nobody can take hold of it any more when nobody else has it.
        if let SharedOrOwn::Shared(came) = &mut self.held
            && Arc::get_mut(came).is_none()
        {
            self.held = SharedOrOwn::Own(copied(&*came.block, &*self.memory));
        }
        match &mut self.held {
            SharedOrOwn::Own(own) => own.bytes_mut(),
            SharedOrOwn::Shared(came) => match Arc::get_mut(came) {
                Some(came) => came.block.bytes_mut(),
                None => unreachable!("it was copied above"),
            },
        }
    }

    fn length(&self) -> usize {
        self.block().length()
    }

    fn numa_node(&self) -> Option<usize> {
        self.block().numa_node()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::port::Heap;

    #[test]
    fn who_changes_what_others_still_read_changes_a_copy_and_the_last_one_the_block_itself() {
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        for others_read in [true, false] {
            let mut body = Heap.allocate(3);
            body.bytes_mut().copy_from_slice(b"abc");
            let came_at = body.bytes().as_ptr();
            let head = Head::new();
            let passing = Passing::default();
            let (mut here, there) = passing.relayed(Goods { head, body }, &memory);
            assert_eq!(passing.bytes(), 3);
            let there = others_read.then_some(there);
            here.body.bytes_mut()[0] = b'x';
            assert_eq!(here.body.bytes(), b"xbc");
            assert_eq!(here.body.bytes().as_ptr() == came_at, !others_read);
            if let Some(there) = there {
                assert_eq!(&there.body()[..], b"abc");
                let came = Arc::downgrade(&there);
                drop(there);
                assert!(came.upgrade().is_none(), "a copy keeps the block");
            }
            assert_eq!(passing.bytes(), 0);
        }
    }
}
