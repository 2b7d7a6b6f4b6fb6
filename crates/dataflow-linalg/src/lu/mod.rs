//! LU: P·A = L·U of a matrix of any shape, by tiles.
//!
//! [`factor`] overwrites A by L and U and says which rows it swapped. [`Factor`] is the task space
//! behind it, to be run, watched or composed like any other, on one rank or on many.

mod body;
mod check;
mod factor;
mod moving;
mod order;
mod pivots;
mod rank_rows;
mod solve;

pub use check::{Check, CheckTask, residual};
pub use factor::{Factor, Task, expect_regular, factor};
pub use order::default_tile_order;
pub use pivots::Pivots;
pub use solve::{Solve, SolveTask, solve};

#[cfg(test)]
mod tests;
