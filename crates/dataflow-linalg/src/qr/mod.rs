//! QR: A = Q·R of a rectangular matrix, by tiles and along a tree.

mod adjoint;
mod apply;
mod check;
mod elimination;
mod factor;
mod form;
mod least_squares;
mod order;
mod reflectors;
mod solve;
mod tree;

pub use adjoint::{Adjoint, AdjointTask};
pub use apply::{Apply, ApplyTask, apply};
pub use check::{Ratios, check, solution_ratio};
pub use elimination::{Elimination, EliminationError};
pub use factor::{Factor, Task, factor};
pub use form::{form, triangle};
pub use least_squares::{Where, least_squares};
pub use order::{default_inner_block, default_tile_order};
pub use reflectors::{Options, Reflectors};
pub use solve::{SolveTask, Triangular};
pub use tree::{Kill, Reduction, Tree, UnknownTree};

#[cfg(test)]
mod tests;
