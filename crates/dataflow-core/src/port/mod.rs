//! The ports.
mod memory;
pub use memory::{Block, Heap, Memory};
