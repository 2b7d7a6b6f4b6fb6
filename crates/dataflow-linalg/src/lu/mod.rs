//! LU: P·A = L·U of a matrix of any shape, by tiles.
//!
//! [`factor`] overwrites A by L and U and says which rows it swapped; [`factor_unpivoted`] swaps
//! none. [`solve`] overwrites B by the solution of A·X = B, Aᵀ·X = B or Aᴴ·X = B; [`residual`]
//! judges factors; [`condition`] and [`determinant`] say what they tell of A, [`error_bounds`] and
//! [`improve`] what of X. [`Factor`], [`Unpivoted`], [`Solve`] and [`Check`] are the task spaces behind them, to be run, watched or
//! composed like any other, on one rank or on many.
//!
//! # Examples
//! ```
//! use dataflow_core::port::Inline;
//! use dataflow_linalg::kernel::{Backend, Op};
//! use dataflow_linalg::lu::{Pivots, factor, solve};
//! use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Random};
//!
//! let a = TiledMatrix::<f64>::from_entries(Layout::general(30, 30, 8)?, &Random::new(1));
//! let pivots = Pivots::new(&a);
//! factor(&a, &pivots, Backend::Auto, &Inline)?;
//!
//! let b = TiledMatrix::from_fn(Layout::general(30, 1, 8)?, |i, _| i as f64);
//! solve(&a, &pivots, Op::NoTranspose, &b, Backend::Auto, &Inline)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod body;
mod check;
mod factor;
mod moving;
mod order;
mod pivots;
mod rank_rows;
mod solve;
mod trust;
mod unpivoted;

pub use check::{Check, CheckTask, residual};
pub use factor::{Factor, Task, expect_regular, factor};
pub use order::default_tile_order;
pub use pivots::Pivots;
pub use solve::{Solve, SolveTask, solve};
pub use trust::{condition, determinant, error_bounds, improve};
pub use unpivoted::{Unpivoted, UnpivotedTask, factor_unpivoted};

#[cfg(test)]
mod tests;
