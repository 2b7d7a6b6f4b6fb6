//! Scratch memory for kernels, and for tiles that do not leave a call: a few blocks a thread, grown to
//! what was asked for, kept. A thread that ends has no place for them any more: what its destructors call
//! gets blocks of its own.

use std::cell::Cell;
use std::sync::{Arc, LazyLock};
use std::thread::LocalKey;

use dataflow_core::port::{Block, Heap, Memory};

use crate::scalar::Scalar;

thread_local! {
    /// The block of the outermost call last.
    static SCRATCH: KeptBlocks = const { Cell::new(Vec::new()) };
}

/// Lends `length` elements of unspecified content to `work`.
///
/// They lie at a multiple of 64 bytes on every thread, so that no bit of a result can depend on an
/// address. A call within `work` is served from a block of its own.
pub(crate) fn with_scratch<T: Scalar, R>(length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = length * size_of::<T>();
    let mut block = taken(bytes);
    let result = work(elements_mut(&mut *block, bytes));
    put_back(block);
    result
}

/// The first so many bytes of a block as elements. Not in each of the many copies of [`with_scratch`].
#[inline(never)]
fn elements_mut<T: Scalar>(block: &mut dyn Block, bytes: usize) -> &mut [T] {
    bytemuck::cast_slice_mut(&mut block.bytes_mut()[..bytes])
}

/// A block of so many bytes or more.
fn taken(bytes: usize) -> Box<dyn Block> {
    let mut blocks = taken_from(&SCRATCH);
    let kept = blocks.pop().filter(|block| block.bytes().len() >= bytes);
    leave_to(&SCRATCH, blocks);
    kept.unwrap_or_else(|| Heap.allocate(bytes))
}

fn put_back(block: Box<dyn Block>) {
    let mut blocks = taken_from(&SCRATCH);
    blocks.push(block);
    leave_to(&SCRATCH, blocks);
}

/// What a thread keeps.
type KeptBlocks = Cell<Vec<Box<dyn Block>>>;

/// What this thread keeps; nothing once it ends.
fn taken_from(kept: &'static LocalKey<KeptBlocks>) -> Vec<Box<dyn Block>> {
    kept.try_with(Cell::take).unwrap_or_default()
}

/// Keeps blocks for the next call; frees them once the thread ends.
fn leave_to(kept: &'static LocalKey<KeptBlocks>, blocks: Vec<Box<dyn Block>>) {
    // KeptBlocks that nobody keeps are dropped with the closure.
    let _ = kept.try_with(|kept| kept.set(blocks));
}

thread_local! {
    /// KeptBlocks that no tile has.
    static KEPT: KeptBlocks = const { Cell::new(Vec::new()) };
}

/// How many blocks a thread keeps for tiles: as many as a call has at a time.
const MOST_KEPT: usize = 6;

/// Memory for tiles that do not leave a call: what is given back is lent again, on whichever thread
/// it is given back.
struct ScratchMemory;

/// The one that all share.
pub(crate) static SCRATCH_MEMORY: LazyLock<Arc<dyn Memory>> =
    LazyLock::new(|| Arc::new(ScratchMemory));

/// A block of at least the bytes that were asked for, until it is dropped.
struct LentBlock {
    block: Option<Box<dyn Block>>,
    bytes: usize,
}

impl Memory for ScratchMemory {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        let mut blocks = taken_from(&KEPT);
        let found = blocks
            .iter()
            .rposition(|block| block.bytes().len() >= bytes);
        let block = match found {
            Some(at) => blocks.swap_remove(at),
            None => {
                // One that is too small makes room.
                blocks.pop();
                Heap.allocate(bytes)
            }
        };
        leave_to(&KEPT, blocks);
        let block = Some(block);
        Box::new(LentBlock { block, bytes })
    }
}

impl Block for LentBlock {
    fn bytes(&self) -> &[u8] {
        let block = self.block.as_ref();
        block.map_or(&[], |block| &block.bytes()[..self.bytes])
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let (block, bytes) = (self.block.as_mut(), self.bytes);
        block.map_or(&mut [], |block| &mut block.bytes_mut()[..bytes])
    }
}

impl Drop for LentBlock {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else {
            return;
        };
        let mut blocks = taken_from(&KEPT);
        if blocks.len() < MOST_KEPT {
            blocks.push(block);
        }
        leave_to(&KEPT, blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::spawn;

    #[test]
    fn a_block_is_lent_again_to_whom_it_suffices() {
        let first = ScratchMemory.allocate(1000);
        let place = first.bytes().as_ptr();
        drop(first);
        let smaller = ScratchMemory.allocate(10);
        assert_eq!(
            (smaller.bytes().as_ptr(), smaller.bytes().len()),
            (place, 10)
        );
        let beside = ScratchMemory.allocate(10);
        assert_ne!(beside.bytes().as_ptr(), place);
        drop((smaller, beside));
        assert!(KEPT.take().len() == 2);
    }

    /// A destructor of a thread's data that called a kernel ended the process.
    #[test]
    fn a_thread_that_ends_still_gets_blocks() {
        struct AtTheEnd(Option<Sender<usize>>);
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                let Some(to) = self.0.take() else {
                    return;
                };
                let lent = ScratchMemory.allocate(10);
                let of_scratch = with_scratch(3, |elements: &mut [f64]| elements.len());
                to.send(lent.bytes().len() + of_scratch).unwrap();
            }
        }
        thread_local!(static LAST: Cell<AtTheEnd> = const { Cell::new(AtTheEnd(None)) });
        let (to, from) = channel();
        let thread = spawn(move || {
            // What a thread uses first ends last.
            LAST.set(AtTheEnd(None));
            drop(ScratchMemory.allocate(10));
            with_scratch(1, |_: &mut [f64]| ());
            LAST.set(AtTheEnd(Some(to)));
        });
        thread.join().unwrap();
        assert_eq!(from.recv(), Ok(13));
    }

    #[test]
    fn a_thread_keeps_no_more_blocks_than_a_call_has() {
        drop(KEPT.take());
        let blocks: Vec<_> = (0..2 * MOST_KEPT)
            .map(|_| ScratchMemory.allocate(64))
            .collect();
        drop(blocks);
        assert_eq!(KEPT.take().len(), MOST_KEPT);
    }
}
