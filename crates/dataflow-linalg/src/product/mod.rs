//! Products, BLAS 3: on tiled matrices, on one rank or on many.
//!
//! | call | does | task space |
//! |---|---|---|
//! | [`gemm`] | C ← α·op(A)·op(B) + β·C; an operand that is stored as its lower triangle stands for the symmetric, or Hermitian, matrix it is: `symm`, `hemm` | [`Gemm`]; [`Torus`] from neighbour to neighbour |
//! | [`herk`], [`syrk`] | C ← α·op(A)·op(A)ᴴ + β·C, or with the plain transpose; the lower triangle | [`Herk`] |
//! | [`trmm`] | B ← α·op(A)·B, or from the right, with a triangle of A | [`Triangular`] |
//! | [`trsm`] | B ← α·op(A)⁻¹·B, or from the right | [`Substitution`] |
//!
//! [`residual`] judges solutions and inverses by a product, [`defect`] judges a product.
//!
//! # Examples
//! ```
//! use dataflow_core::port::Inline;
//! use dataflow_linalg::kernel::Backend;
//! use dataflow_linalg::matrix::{Layout, TiledMatrix};
//! use dataflow_linalg::product::{Operand, gemm};
//!
//! let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| (i + j) as f64);
//! let b = TiledMatrix::from_fn(Layout::general(2, 4, 2)?, |i, j| (i * j) as f64);
//! let c = TiledMatrix::zeros(Layout::general(3, 4, 2)?);
//! gemm(1.0, Operand::plain(&a), Operand::plain(&b), 0.0, &c, Backend::Auto, &Inline)?;
//! assert_eq!(c.get(2, 3), Some(2.0 * 0.0 + 3.0 * 3.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod operand;

mod gemm;
mod herk;
mod substitution;
mod torus;
mod triangular;

mod check;
mod order;
mod weighed;

pub use check::{Residual, defect, residual};
pub use gemm::{Gemm, ProductTask, expect_alike, expect_product, gemm};
pub use herk::{Herk, HerkTask, herk, syrk};
pub use operand::Operand;
pub use order::default_tile_order;
pub use substitution::{Substitution, SubstitutionTask, trsm};
pub use torus::{Torus, TorusTask};
pub use triangular::{Triangular, TriangularOperand, TriangularTask, trmm};

#[cfg(test)]
mod cases;
