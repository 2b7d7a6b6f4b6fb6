//! Cholesky: A = L·Lᴴ of a Hermitian positive definite matrix, by tiles.
//!
//! [`factor`] overwrites the lower triangle of A by L; [`solve`] overwrites B by the solution of
//! A·X = B, [`factor_and_solve`] does both as one graph; [`inverse`] overwrites A by A⁻¹; [`residual`] judges a factor;
//! [`condition`] and [`determinant`] are computed from the factor; [`error_bounds`] judges X, [`improve`]
//! corrects it. [`Factor`], [`substitution`], [`Inverse`] and [`Check`] are the task spaces behind them, to be
//! run, watched or composed like any other, on one rank or on many.
//!
//! # Examples
//! ```
//! use dataflow_core::port::Inline;
//! use dataflow_linalg::kernel::Backend;
//! use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Laplacian};
//! use dataflow_linalg::cholesky;
//!
//! let laplacian = Laplacian { width: 6, height: 5 };
//! let a = TiledMatrix::<f64>::from_entries(Layout::lower(30, 8)?, &laplacian);
//! cholesky::factor(&a, Backend::Auto, &Inline)?;
//! assert!((cholesky::determinant(&a)?.log_abs - laplacian.log_det()).abs() < 1e-10);
//!
//! let b = TiledMatrix::from_fn(Layout::general(30, 1, 8)?, |i, _| i as f64);
//! cholesky::solve(&a, &b, Backend::Auto, &Inline)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod factor;
mod inverse;
mod order;
mod posv;
mod solve;
mod trust;
mod weighed;

pub use check::{Check, CheckTask, residual};
pub use factor::{Factor, Task, factor};
pub use inverse::{Inverse, InverseTask, inverse};
pub use order::{default_layout, default_tile_order};
pub use posv::factor_and_solve;
pub use solve::{solve, substitution};
pub use trust::{condition, determinant, error_bounds, improve};
