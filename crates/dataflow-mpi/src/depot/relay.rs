//! Relay: what has come for this rank and goes on to others, without waiting for its workers.
//!
//! The engine gets the block that came, and those below in the tree read the same bytes. Who changes
//! it first gets a copy, unless all of them have theirs.

use crate::transport::Room;
use dataflow_core::port::{Block, Cargo, Goods, Head, Memory};
use std::borrow::Cow;
use std::sync::Arc;

/// Goods that came once: for the engine here, and for other ranks.
pub(super) fn relayed(goods: Goods, memory: &Arc<dyn Memory>) -> (Goods, Arc<dyn Cargo>) {
    let came = Arc::new(Came {
        head: goods.head.clone(),
        block: goods.body,
    });
    let body = Box::new(SharedBlock {
        came: came.clone(),
        own: None,
        memory: memory.clone(),
    });
    let head = goods.head;
    (Goods { head, body }, came)
}

/// A datum as it came.
struct Came {
    head: Head,
    block: Box<dyn Block>,
}

impl Cargo for Came {
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
struct SharedBlock {
    came: Arc<Came>,
    /// A copy, made when it was to be changed too early.
    own: Option<Box<dyn Block>>,
    memory: Arc<dyn Memory>,
}

impl SharedBlock {
    fn copied(&self) -> Box<dyn Block> {
        let mut room = Room {
            block: self.memory.allocate(self.came.size()),
            range: 0..self.came.size(),
        };
        room.fill_with(self.came.block.bytes());
        room.block
    }
}

impl Block for SharedBlock {
    fn bytes(&self) -> &[u8] {
        let own = self.own.as_ref();
        own.map_or_else(|| self.came.block.bytes(), |own| own.bytes())
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // Nobody can take hold of it any more when nobody else has it.
        if self.own.is_none() && Arc::get_mut(&mut self.came).is_none() {
            self.own = Some(self.copied());
        }
        match (&mut self.own, Arc::get_mut(&mut self.came)) {
            (Some(own), _) => own.bytes_mut(),
            (None, Some(came)) => came.block.bytes_mut(),
            (None, None) => unreachable!("it was copied above"),
        }
    }

    fn length(&self) -> usize {
        self.came.size()
    }

    fn numa_node(&self) -> Option<usize> {
        let own = self.own.as_ref();
        own.map_or_else(|| self.came.block.numa_node(), |own| own.numa_node())
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
            let (mut here, there) = relayed(Goods { head, body }, &memory);
            let there = others_read.then_some(there);
            here.body.bytes_mut()[0] = b'x';
            assert_eq!(here.body.bytes(), b"xbc");
            assert_eq!(here.body.bytes().as_ptr() == came_at, !others_read);
            if let Some(there) = there {
                assert_eq!(&there.body()[..], b"abc");
            }
        }
    }
}
