//! Scratch memory for kernels: one block a thread, grown to what was asked for, kept.

use std::cell::Cell;

use dataflow_core::port::{Block, Heap, Memory};

use crate::scalar::Scalar;

thread_local! {
    static SCRATCH: Cell<Option<Box<dyn Block>>> = const { Cell::new(None) };
}

/// Lends `length` elements of unspecified content to `work`.
///
/// They lie at a multiple of 64 bytes on every thread, so that no bit of a result can depend on an
/// address. A call within `work` is served from a block of its own.
pub(super) fn with_scratch<T: Scalar, R>(length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = length * size_of::<T>();
    let mut block = SCRATCH
        .take()
        .filter(|block| block.bytes().len() >= bytes)
        .unwrap_or_else(|| Heap.allocate(bytes));
    let result = work(bytemuck::cast_slice_mut(&mut block.bytes_mut()[..bytes]));
    SCRATCH.set(Some(block));
    result
}
