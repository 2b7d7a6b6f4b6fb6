//! LU: P·A = L·U of a matrix of any shape, by tiles.
//!
//! [`factor`] overwrites A by L and U and says which rows it swapped; [`factor_by_tournament`]
//! chooses them otherwise, [`factor_unpivoted`] swaps none. [`factor_and_solve`] makes one graph of
//! factorisation and solution. [`factor_incremental`] swaps between two
//! tiles at a time, and has [a solution of its own](solve_incremental). [`solve`] overwrites B by the solution
//! of A·X = B, Aᵀ·X = B or Aᴴ·X = B; [`inverse`] makes A⁻¹; [`residual`] judges factors;
//! [`condition`] and [`determinant`] are computed from the factors; [`error_bounds`] judges X, [`improve`]
//! corrects it. [`Factor`], [`Columns`], [`Unpivoted`], [`Solve`] and [`Check`] are the task spaces behind
//! them, to be run, watched or composed like any other, on one rank or on many.
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
mod columns;
mod edges;
mod exchanges;
mod factor;
mod flows;
mod gesv;
mod incremental;
mod inverse;
mod moving;
mod numbered;
mod order;
mod pivots;
mod rank_rows;
mod reorder;
mod replay;
mod solve;
mod tournament;
mod trust;
mod unpivoted;
mod weighed;

pub use check::{Check, CheckTask, residual};
pub use columns::{Columns, ColumnsTask, suits_columns};
pub use exchanges::Exchanges;
pub use factor::{Factor, Task, expect_regular, factor, factor_by_tournament};
pub use gesv::factor_and_solve;
pub(crate) use incremental::INNER_BLOCK;
pub use incremental::{Incremental, IncrementalTask, factor_incremental};
pub(crate) use inverse::Relay;
pub use inverse::{inverse, invert};
pub use order::{default_layout, default_tile_order};
pub use pivots::{Pivots, permutation};
pub use reorder::{Reorder, ReorderTask};
pub use replay::{Replay, ReplayTask, solve_incremental};
pub use solve::{Solve, solve};
pub(crate) use tournament::first_entrant;
pub use trust::{condition, determinant, error_bounds, improve};
pub use unpivoted::{Unpivoted, UnpivotedTask, factor_unpivoted};

#[cfg(test)]
mod tests;
