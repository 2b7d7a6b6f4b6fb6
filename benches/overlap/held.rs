//! Held: memory that counts the bytes of its blocks that are alive.

use dataflow::core::port::{Block, Memory};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a rank holds, in bytes.
#[derive(Default)]
pub struct Held {
    alive: AtomicUsize,
    peak: AtomicUsize,
}

impl Held {
    pub fn now(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    /// The most at once.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }
}

/// One rank's memory: blocks of another, counted.
pub struct Counting<M> {
    pub held: Arc<Held>,
    pub memory: M,
}

struct Counted {
    block: Box<dyn Block>,
    held: Arc<Held>,
}

impl<M: Memory> Memory for Counting<M> {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        let held = self.held.clone();
        let alive = held.alive.fetch_add(bytes, Ordering::SeqCst) + bytes;
        held.peak.fetch_max(alive, Ordering::SeqCst);
        let block = self.memory.allocate(bytes);
        Box::new(Counted { block, held })
    }
}

impl Block for Counted {
    fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.block.bytes_mut()
    }
    fn length(&self) -> usize {
        self.block.length()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held
            .alive
            .fetch_sub(self.block.length(), Ordering::SeqCst);
    }
}
