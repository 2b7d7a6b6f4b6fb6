//! Counted: the system's allocator, and what is live of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::sync::atomic::{AtomicIsize, Ordering};

static BLOCKS: AtomicIsize = AtomicIsize::new(0);
static BYTES: AtomicIsize = AtomicIsize::new(0);

/// Memory that is allocated and not freed; or how much more of it than before.
#[derive(Clone, Copy)]
pub struct Live {
    pub blocks: isize,
    pub bytes: isize,
}

impl Live {
    pub fn now() -> Self {
        Live {
            blocks: BLOCKS.load(Ordering::Relaxed),
            bytes: BYTES.load(Ordering::Relaxed),
        }
    }

    pub fn since(self, earlier: Self) -> Self {
        Live {
            blocks: self.blocks - earlier.blocks,
            bytes: self.bytes - earlier.bytes,
        }
    }

    pub fn is_within(self, most: Self) -> bool {
        self.blocks <= most.blocks && self.bytes <= most.bytes
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {} blocks", self.bytes, self.blocks)
    }
}

/// The system's allocator, which counts.
pub struct Counted;

fn count(blocks: isize, bytes: usize) {
    BLOCKS.fetch_add(blocks, Ordering::Relaxed);
    BYTES.fetch_add(blocks * bytes as isize, Ordering::Relaxed);
}

// SAFETY: each call is the system allocator's own, with the caller's arguments; what is not here is made of
// these two
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises is what is asked for
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            count(1, layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-1, layout.size());
        // SAFETY: the block is the system's, since all blocks of `self` are
        unsafe { System.dealloc(block, layout) }
    }
}
