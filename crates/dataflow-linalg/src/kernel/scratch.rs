//! Scratch memory for kernels: a few blocks a thread, grown to what was asked for, kept.

use std::cell::Cell;

use dataflow_core::port::{Block, Heap, Memory};

use crate::scalar::Scalar;

thread_local! {
    /// The block of the outermost call last.
    static SCRATCH: Cell<Vec<Box<dyn Block>>> = const { Cell::new(Vec::new()) };
}

/// Lends `length` elements of unspecified content to `work`.
///
/// They lie at a multiple of 64 bytes on every thread, so that no bit of a result can depend on an
/// address. A call within `work` is served from a block of its own.
pub(crate) fn with_scratch<T: Scalar, R>(length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = length * size_of::<T>();
    let mut blocks = SCRATCH.take();
    let kept = blocks.pop().filter(|block| block.bytes().len() >= bytes);
    SCRATCH.set(blocks);
    let mut block = kept.unwrap_or_else(|| Heap.allocate(bytes));
    let result = work(bytemuck::cast_slice_mut(&mut block.bytes_mut()[..bytes]));
    let mut blocks = SCRATCH.take();
    blocks.push(block);
    SCRATCH.set(blocks);
    result
}
