//! Whole: small problems as one tile on the calling thread, kernel after kernel, without a graph.
//!
//! # Law
//! The kernels are those of a graph of one tile, in its order, on tiles of the same format; so the bits are
//! those of the graph, and so are the errors, except that no run is their source. One kernel differs: L of a
//! definite matrix is that of [`potrf_whole`](crate::kernel::potrf_whole).
//! Intermediate results lie in memory that the thread keeps from one call to the next: only the answer is
//! allocated.
//!
//! # Elsewhere
//! Which problems are small is for the caller to say: up to
//! [`LARGEST_WHOLE`](crate::kernel::LARGEST_WHOLE) for a definite matrix.

mod definite;
mod lu;
mod qr;

pub use definite::{factor_definite, invert_definite, one_norm_of_hermitian, solve_definite};
pub use lu::{Lu, invert_with_lu, solve_with_lu};
pub use qr::{Qr, expect_full_rank, least_squares, least_squares_with_qr};

use crate::error::LinalgError;
use crate::matrix::norm::{Extent, larger, tile_first_not_finite, tile_sums};
use crate::matrix::{Entries, Format, Tile, column_major_of};
use crate::scalar::Scalar;
use dataflow_core::port::Memory;
use std::sync::Arc;

/// An `m × n` matrix as a column-major tile.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Heap, Memory};
/// use dataflow_linalg::whole::tile_of;
/// use std::sync::Arc;
/// let memory: Arc<dyn Memory> = Arc::new(Heap);
/// let tile = tile_of((2, 2), &|i, j| (10 * i + j) as f64, &memory);
/// assert_eq!(tile.as_slice(), [0.0, 10.0, 1.0, 11.0]);
/// ```
pub fn tile_of<T: Scalar>(
    (rows, cols): (usize, usize),
    entries: &impl Entries<T>,
    memory: &Arc<dyn Memory>,
) -> Tile<T> {
    let mut tile = Tile::unspecified(rows, cols, Format::ColumnMajor, memory);
    match column_major_of(entries, rows) {
        Some((elements, ld)) => tile.read_column_major(elements, ld),
        None => {
            let columns = tile.as_mut_slice().chunks_exact_mut(rows.max(1));
            for (j, column) in columns.enumerate() {
                entries.column(0..rows, j, column);
            }
        }
    }
    tile
}

/// The same of a matrix that must be finite.
///
/// # Errors
/// [`LinalgError::NotFinite`] with the first entry in column order that is not.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Heap, Memory};
/// use dataflow_linalg::whole::finite_tile_of;
/// use std::sync::Arc;
/// let memory: Arc<dyn Memory> = Arc::new(Heap);
/// let found = finite_tile_of((2, 2), &|i, j| [1.0, f64::NAN][i * j], &memory).unwrap_err();
/// assert!(found.to_string().contains("(1, 1)"));
/// ```
pub fn finite_tile_of<T: Scalar>(
    shape: (usize, usize),
    entries: &impl Entries<T>,
    memory: &Arc<dyn Memory>,
) -> Result<Tile<T>, LinalgError> {
    let tile = tile_of(shape, entries, memory);
    match tile_first_not_finite(&tile, Extent::Whole) {
        None => Ok(tile),
        Some(found) => Err(found.into()),
    }
}

/// Aᴴ of a column-major tile. By squares, of which a line of the cache is read whole.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Heap, Memory};
/// use dataflow_linalg::{matrix::Tile, whole::adjoint_of};
/// use std::sync::Arc;
/// let memory: Arc<dyn Memory> = Arc::new(Heap);
/// let a = Tile::from_rows([[1.0, 2.0]]);
/// assert_eq!(adjoint_of(&a, &memory), Tile::from_rows([[1.0], [2.0]]));
/// ```
pub fn adjoint_of<T: Scalar>(a: &Tile<T>, memory: &Arc<dyn Memory>) -> Tile<T> {
    const SIDE: usize = 8;
    let (m, n) = (a.rows(), a.cols());
    let mut adjoint = Tile::unspecified(n, m, Format::ColumnMajor, memory);
    let (from, to) = (a.as_slice(), adjoint.as_mut_slice());
    for left in (0..n).step_by(SIDE) {
        let right = n.min(left + SIDE);
        for (i, column) in to.chunks_exact_mut(n).enumerate() {
            for (j, slot) in (left..right).zip(&mut column[left..right]) {
                *slot = from[j * m + i].conj();
            }
        }
    }
    adjoint
}

/// ‖A‖₁ of a tile.
///
/// # Examples
/// ```
/// use dataflow_linalg::{matrix::Tile, whole::one_norm};
/// assert_eq!(one_norm(&Tile::from_rows([[3.0, -4.0], [-1.0, 0.0]])), 4.0);
/// ```
pub fn one_norm<T: Scalar>(a: &Tile<T>) -> f64 {
    let sums = tile_sums(a, Extent::Whole);
    sums.columns.into_iter().fold(0.0, larger)
}
