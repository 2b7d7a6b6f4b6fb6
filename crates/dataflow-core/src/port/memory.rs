//! The port to memory: blocks for tiles and for receive buffers.

use std::fmt;
use std::sync::Arc;

/// A source of large blocks of memory.
///
/// The simplest implementation is [`Heap`]; `dataflow-numa` offers an arena on huge pages.
///
/// # Examples
/// The heap, and how many bytes it was asked for:
/// ```
/// use dataflow_core::port::{Block, Heap, Memory};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// #[derive(Default)]
/// struct Counted(AtomicUsize);
///
/// impl Memory for Counted {
///     fn allocate(&self, bytes: usize) -> Box<dyn Block> {
///         self.0.fetch_add(bytes, Ordering::Relaxed);
///         Heap.allocate(bytes)
///     }
/// }
///
/// let memory = Counted::default();
/// let mut block = memory.allocate(100);
/// block.bytes_mut()[99] = 1;
/// assert_eq!((block.length(), memory.0.into_inner()), (100, 100));
/// ```
pub trait Memory: Send + Sync {
    /// A block of `bytes` bytes at a multiple of 64, its content unspecified (but initialised).
    ///
    /// # Panics
    /// If there is no such memory; the text says how many bytes were asked for.
    fn allocate(&self, bytes: usize) -> Box<dyn Block>;
}

/// An owned block of memory, given back when dropped.
///
/// # Examples
/// See [`Memory`](Memory#examples).
pub trait Block: Send + Sync {
    /// Its bytes; the first lies at a multiple of 64.
    fn bytes(&self) -> &[u8];
    /// Its bytes, for writing.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// How many bytes it stands for: those that it has, but for a block of [`Lengths`].
    fn length(&self) -> usize {
        self.bytes().len()
    }

    /// The NUMA node on which it lies, as the executor numbers them; `None` if that is not known, or if
    /// it lies on several. Must be cheap: it is called for every task that reads the block.
    fn numa_node(&self) -> Option<usize> {
        None
    }
}

impl fmt::Debug for dyn Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block of {} bytes", self.length())
    }
}

impl<M: Memory + ?Sized> Memory for Arc<M> {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        (**self).allocate(bytes)
    }
}

/// Memory from the global allocator.
///
/// # Examples
/// See [`Memory`](Memory#examples).
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

struct HeapBlock {
    lines: Vec<CacheLine>,
    bytes: usize,
}

impl Memory for Heap {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        // Pages that nobody has touched cost nothing yet.
        let lines = bytemuck::allocation::try_zeroed_vec(bytes.div_ceil(64));
        let lines =
            lines.unwrap_or_else(|()| panic!("there is no memory for a block of {bytes} bytes"));
        Box::new(HeapBlock { lines, bytes })
    }
}

impl Block for HeapBlock {
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }
}

/// No memory at all: its blocks have a length and no bytes.
///
/// For ranks whose data are all [blank](super::Wire::is_blank), in virtual time: then what has arrived
/// takes no room. Data that are not blank arrive without their bytes there.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Lengths, Memory};
///
/// let block = Lengths.allocate(1 << 40);
/// assert_eq!((block.length(), block.bytes().len()), (1 << 40, 0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Lengths;

struct LengthBlock(usize);

impl Memory for Lengths {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        Box::new(LengthBlock(bytes))
    }
}

impl Block for LengthBlock {
    fn bytes(&self) -> &[u8] {
        &[]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
    fn length(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends where memory does")]
    fn a_block_that_does_not_fit_says_how_large_it_was_to_be() {
        let refused = std::panic::catch_unwind(|| Heap.allocate(1 << 62).bytes().len());
        let text = *refused.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("4611686018427387904 bytes"), "{text}");
    }
}
