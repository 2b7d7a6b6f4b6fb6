//! QR: A = Q·R of a rectangular matrix, by tiles and along a tree.

mod apply;
mod elimination;
mod factor;
mod order;
mod reflectors;
mod tree;

pub use apply::{Apply, ApplyTask, apply};
pub use elimination::{Elimination, EliminationError};
pub use factor::{Factor, Task, factor};
pub use order::{default_inner_block, default_tile_order};
pub use reflectors::{Options, Reflectors};
pub use tree::{Kill, Reduction, Tree, UnknownTree};

#[cfg(test)]
mod tests;
