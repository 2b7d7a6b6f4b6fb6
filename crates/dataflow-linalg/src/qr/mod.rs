//! QR: A = Q·R of a matrix of any shape, by tiles and along a tree.
//!
//! [`factor()`] overwrites A by R and part of the reflectors, the rest is in [`Reflectors`];
//! [`apply()`] multiplies by Q or Qᴴ from either side, [`form()`] makes Q and [`triangle`] R,
//! [`check()`] judges both; [`least_squares()`] solves, and [`tall_least_squares`] where rows are many
//! and columns few. With column pivoting, [`pivoted()`] finds the
//! rank, and [`least_squares_minimum_norm()`] and [`pseudo_inverse()`] answer whatever it is.
//! [`Factor`], [`Apply`], [`Solve`], [`Adjoint`], [`Choice`], [`Arrange`], [`Leading`] and [`Tall`] are the
//! task spaces behind them, for one rank or many; [`Tree`] says which rows of tiles vanish under which.
//!
//! # Examples
//! ```
//! use dataflow_core::port::Inline;
//! use dataflow_linalg::kernel::Backend;
//! use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::Random};
//! use dataflow_linalg::qr::{self, Options, Tree};
//!
//! let random = Random::new(1);
//! let a = TiledMatrix::<f64>::from_entries(Layout::general(50, 20, 8)?, &random);
//! let options = Options::of_order(8).with_tree(Tree::Greedy);
//! let (q, _) = qr::factor(&a, options, Backend::Auto, &Inline)?;
//! let ratios = qr::check(&random, &a, &q, &Inline)?;
//! assert!(ratios.residual < 10.0 && ratios.orthogonality < 10.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adjoint;
mod apply;
mod arrange;
mod check;
mod choice;
mod condition;
mod determinant;
mod elimination;
mod factor;
mod form;
mod leading;
mod least_squares;
mod levels;
mod order;
mod pivoted;
mod reflectors;
mod solve;
mod strongest;
mod tall;
mod tree;
mod weighed;

pub use adjoint::{Adjoint, AdjointTask, adjoint};
pub use apply::{Apply, ApplyTask, apply};
pub use arrange::{Arrange, ArrangeTask, Lines, arrange};
pub use check::{Ratios, check, least_squares_ratio, solution_ratio};
pub use choice::{Choice, ChoiceTask, choose};
pub use condition::condition;
pub use determinant::determinant;
pub use elimination::{Elimination, EliminationError};
pub use factor::{Factor, Task, factor};
pub use form::{form, triangle};
pub use leading::{Compare, Found, Leading, LeadingTask};
pub(crate) use least_squares::has_full_rank;
pub use least_squares::{expect_full_rank, least_squares, least_squares_stages, solve};
pub(crate) use levels::Levels;
pub use order::{default_inner_block, default_tile_order};
pub use pivoted::{Pivoted, least_squares_minimum_norm, pivoted, pseudo_inverse};
pub(crate) use reflectors::alike;
pub use reflectors::{Options, Reflectors};
pub use solve::{Solve, SolveTask};
pub use strongest::default_rcond;
pub use tall::{Tall, TallTask, is_tall_and_skinny, tall_least_squares};
pub use tree::{Kill, Reduction, Tree, UnknownTree};

#[cfg(test)]
mod tests;
