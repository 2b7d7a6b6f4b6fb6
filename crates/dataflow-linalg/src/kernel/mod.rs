//! Kernels: sequential arithmetic on tiles, under LAPACK's names.
//!
//! | kernel | does | for |
//! |---|---|---|
//! | [`potrf`] | A ← L with A = L·Lᴴ | the diagonal tile of a panel |
//! | [`trsm`] | B ← B·L⁻ᴴ | the tiles below it |
//! | [`herk`] | C ← C − A·Aᴴ, lower triangle (syrk for real numbers) | the update of a diagonal tile |
//! | [`gemm`], [`gemm_op`] | C ← C − A·Bᴴ, or any op(A)·op(B) | the update of any other tile |
//! | [`gemm_add`], [`herk_add`], [`scale`] | C ← C + α·op(A)·op(B), C + α·op(A)·op(A)ᴴ, β·C | products, inverses |
//! | [`trtri`], [`lauum`], [`trmm`] | L ← L⁻¹, L ← Lᴴ·L, B ← α·op(L)·B | inverses |
//! | [`getrf`], [`laswp`] | A ← L\U with P·A = L·U, and its row swaps | a panel of tile columns |
//! | [`eliminate`] | B ← B·U⁻¹, by the rules of getrf for small pivots | rows that lost a tournament |
//! | [`tstrf`], [`ssssm`] | \[U; A\] ← \[U'; L\] with row swaps between the two; pairs of tiles alike | incremental pivoting |
//! | [`trsm_left`] | B ← L⁻¹·B or L⁻ᴴ·B | right-hand sides |
//! | [`trsm_unit`] | B ← op(A)⁻¹, where B is I | inverses |
//! | [`trsm_op`], [`trmm_op`] | B ← op(A)⁻¹·B or B·op(A)⁻¹, A any triangle; the products | LU, and solutions with it; any triangle |
//! | [`geqrt`], [`gemqrt`] | A ← R with A = Q·R; C ← op(Q)·C or C·op(Q) | the tiles that begin a panel of QR |
//! | [`orgqr`] | C ← the first columns of Q | Q itself, of one tile |
//! | [`tpqrt`], [`tpmqrt`] | \[R; B\] ← R'; pairs of tiles ← op(Q) of them | the tiles that vanish under others |
//! | [`solve_leading`] | X ← op(R)⁻¹·B in the leading rows | least squares |
//!
//! # Law
//! The bits of a result depend on the contents, shapes and formats of the tiles and on the backend,
//! on nothing else: never on the thread, the addresses, or what ran before.
//! Sums over the inner index run in one fixed order, first to last, cut at sub-tile boundaries.
//! Tiles may be rectangular, ragged, empty, of either [`Format`](crate::matrix::tile::Format) and
//! of different ones. Scratch of the size of a tile is allocated once a thread; some kernels allocate
//! short lists on each call: pivots, lengths of columns, LAPACK's work space.
//!
//! # Elsewhere
//! When a kernel runs, and on which tiles: [`cholesky`](crate::cholesky), [`lu`](crate::lu),
//! [`qr`](crate::qr), [`product`](crate::product).
//! Foreign calls: `openblas.rs` (feature `openblas`). Vectors: `vectors.rs`. Only these two files of this
//! crate have `unsafe`.

mod basis;
mod columns;
pub(crate) mod faer;
mod gemm;
mod gemv;
mod geqr2;
mod geqrt;
mod getrf;
pub(crate) mod gram;
mod herk;
mod larfg;
mod leading;
mod narrow;
pub mod nested;
#[cfg(feature = "openblas")]
pub mod openblas;
mod panel;
mod pieces;
mod potrf;
mod prepare;
mod product;
mod real;
mod reflector;
mod scale;
pub(crate) mod scratch;
pub(crate) mod strips;
mod strongest;
mod tpqrt;
mod transpose;
mod triangle;
mod trsm;
mod trsv;
mod tstrf;
mod vectors;

use std::fmt;
use std::str::FromStr;

pub(crate) use columns::{FactoredPanel, RowMoves, getrf_from, getrf_right};
pub use gemm::{gemm, gemm_add, gemm_op};
pub use geqrt::{gemqrt, geqrt, orgqr};
pub use getrf::{eliminate, getrf, getrf_unpivoted, laswp};
pub use herk::{herk, herk_add};
pub(crate) use larfg::sum_of_squares;
pub use leading::solve_leading;
pub(crate) use pieces::{getrf_below, solve_unit_rows};
pub(crate) use potrf::with_potrf;
pub use potrf::{LARGEST_WHOLE, NotPositive, potrf, potrf_whole};
pub(crate) use prepare::prepare;
pub use reflector::Below;
pub use scale::scale;
pub(crate) use scratch::{SCRATCH_MEMORY, with_scratch};
pub use strongest::strongest_columns;
pub use tpqrt::{tpmqrt, tpqrt};
pub use triangle::{lauum, trmm, trmm_op, trtri};
pub(crate) use trsm::solve_block;
pub use trsm::{trsm, trsm_left, trsm_op, trsm_unit};
pub use tstrf::{ssssm, tstrf};

/// The library behind the kernels.
///
/// Which library serves which part of a kernel is a table in `kernel/product.rs`, written down from
/// measurements (`benches/kernels.rs`) and never measured at run time. The bits of a result depend on
/// it, so ranks that would differ in it do not start a run.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::Backend;
/// assert_eq!("faer".parse(), Ok(Backend::Faer));
/// let refused = "mkl".parse::<Backend>().unwrap_err();
/// assert!(refused.to_string().starts_with("unknown backend \"mkl\""));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// What suits most machines, the same in every build: faer. A feature adds a choice and changes no
    /// bits unless it is made.
    #[default]
    Auto,
    /// faer, and strips for the leaves of Cholesky: pure Rust, in every build.
    Faer,
    /// OpenBLAS's `gemm` for all larger products, for the triangular leaves what the others have.
    ///
    /// Exists with the feature `openblas`.
    #[cfg(feature = "openblas")]
    OpenBlas,
}

impl Backend {
    /// Why its kernels are slower here than they could be, and what to do: for people.
    ///
    /// `None` if nothing is known to be slow.
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::kernel::Backend;
    /// assert_eq!(Backend::Auto.warning(), None); // faer finds out what the processor has
    /// ```
    pub fn warning(self) -> Option<String> {
        match self {
            Self::Auto | Self::Faer => None,
            #[cfg(feature = "openblas")]
            Self::OpenBlas => openblas::better_core().map(|better| {
                format!(
                    "OpenBLAS runs its kernels for {}, whose vectors are narrower than this processor's: \
                     OPENBLAS_CORETYPE={better} in the environment helps",
                    openblas::core_name()
                )
            }),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Faer => "faer",
            #[cfg(feature = "openblas")]
            Self::OpenBlas => "openblas",
        })
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<Self, BackendError> {
        match name {
            "auto" => Ok(Self::Auto),
            "faer" => Ok(Self::Faer),
            #[cfg(feature = "openblas")]
            "openblas" => Ok(Self::OpenBlas),
            #[cfg(not(feature = "openblas"))]
            "openblas" => Err(BackendError::NotInThisBuild(name.to_owned())),
            _ => Err(BackendError::Unknown(name.to_owned())),
        }
    }
}

/// A backend that cannot be had.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::Backend;
/// let refused = "mkl".parse::<Backend>().unwrap_err();
/// assert_eq!(refused.to_string(), r#"unknown backend "mkl" (must be auto, faer or openblas)"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendError {
    /// No backend has this name.
    Unknown(String),
    /// The backend exists, but this build was made without the feature of the same name.
    NotInThisBuild(String),
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                f,
                "unknown backend {name:?} (must be auto, faer or openblas)"
            ),
            Self::NotInThisBuild(name) => write!(
                f,
                "backend {name} is not in this build (must be auto or faer; \
                 build with --features {name} to have it)"
            ),
        }
    }
}

impl std::error::Error for BackendError {}

/// How an operand enters a product.
///
/// # Examples
/// See [`gemm_add`](gemm_add#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// As it is: X.
    NoTranspose,
    /// Transposed: Xᵀ.
    Transpose,
    /// Transposed and conjugated: Xᴴ, which is Xᵀ for real numbers.
    ConjTranspose,
}

/// On which side of the unknown a triangle stands.
///
/// # Examples
/// See [`trmm_op`](trmm_op#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// op(A)·X = B.
    Left,
    /// X·op(A) = B.
    Right,
}

/// Which triangle of a tile is read.
///
/// # Examples
/// See [`trmm_op`](trmm_op#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Triangle {
    /// On and below the diagonal.
    Lower,
    /// On and above the diagonal.
    Upper,
}

/// Whether the diagonal of a triangle is read.
///
/// # Examples
/// See [`trmm_op`](trmm_op#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Diagonal {
    /// It is.
    NonUnit,
    /// It is taken as ones, whatever stands there.
    Unit,
}

#[cfg(test)]
mod tests;
