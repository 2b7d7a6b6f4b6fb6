//! L, solutions and inverses of small definite matrices by L·Lᴴ.

use super::tile_of;
use crate::error::LinalgError;
use crate::kernel::{
    Backend, Diagonal, NotPositive, Op, SCRATCH_MEMORY, Side, Triangle, potrf, potrf_whole,
    solve_block, with_potrf, with_scratch,
};
use crate::matrix::norm::{Extent, larger, tile_first_not_finite, tile_sums};
use crate::matrix::{Entries, Tile};
use crate::scalar::Scalar;
use faer::prelude::{IntoConst, ReborrowMut};
use faer::{MatMut, MatRef};

const LOWER: (Triangle, Diagonal) = (Triangle::Lower, Diagonal::NonUnit);

/// L of A = L·Lᴴ, column-major, zeros above the diagonal: that of [`potrf_whole`], and where there is none,
/// of [`potrf`], which says why. Of A the lower triangle counts.
///
/// # Errors
/// [`LinalgError::NotFinite`] with the first entry in column order that is not;
/// [`LinalgError::NotPositiveDefinite`].
///
/// # Panics
/// If n is larger than [`LARGEST_WHOLE`](crate::kernel::LARGEST_WHOLE).
///
/// # Examples
/// ```
/// use dataflow_linalg::whole::factor_definite;
/// let a = |i: usize, j: usize| [[4.0, 2.0], [2.0, 10.0]][i][j];
/// assert_eq!(factor_definite(2, &a)?, [2.0, 1.0, 0.0, 3.0]);
/// let found = factor_definite(2, &|i, j| a(i, j) - 9.5).unwrap_err();
/// assert_eq!((found.name(), found.index()), ("not_positive_definite", Some(1)));
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
#[track_caller]
pub fn factor_definite<T: Scalar>(n: usize, a: &impl Entries<T>) -> Result<Vec<T>, LinalgError> {
    let whole = potrf_whole(n, |j, column| a.column(j..n, j, column));
    whole.map_or_else(|| factor_by_tile(n, a), Ok)
}

#[cold]
fn factor_by_tile<T: Scalar>(n: usize, a: &impl Entries<T>) -> Result<Vec<T>, LinalgError> {
    let mut tile = tile_of((n, n), a, &SCRATCH_MEMORY);
    if let Some(found) = tile_first_not_finite(&tile, Extent::Triangle) {
        return Err(found.into());
    }
    potrf(Backend::Auto, &mut tile)?;
    let mut l = tile.as_slice().to_vec();
    for (j, column) in l.chunks_exact_mut(n.max(1)).enumerate() {
        column[..j].fill(T::zero());
    }
    Ok(l)
}

/// Of a matrix that was factored as a whole.
impl From<NotPositive> for LinalgError {
    fn from(found: NotPositive) -> Self {
        LinalgError::NotPositiveDefinite {
            index: found.index as u64,
            text: found.to_string(),
            source: None,
        }
    }
}

/// ‖A‖₁ of a Hermitian tile, of which the lower triangle is read.
///
/// # Examples
/// ```
/// use dataflow_linalg::{matrix::Tile, whole::one_norm_of_hermitian};
/// let a = Tile::from_rows([[3.0, f64::NAN], [-1.0, 4.0]]);
/// assert_eq!(one_norm_of_hermitian(&a), 5.0);
/// ```
pub fn one_norm_of_hermitian<T: Scalar>(a: &Tile<T>) -> f64 {
    let sums = tile_sums(a, Extent::Triangle);
    sums.columns.into_iter().fold(0.0, larger)
}

/// X of A·X = B, column-major, if A is positive definite; of A the lower triangle is read.
///
/// - `cols`: of B, which has the rows of A
///
/// # Panics
/// If n is larger than [`LARGEST_WHOLE`](crate::kernel::LARGEST_WHOLE).
///
/// # Examples
/// ```
/// use dataflow_linalg::whole::solve_definite;
/// let a = |i: usize, j: usize| [[4.0, 2.0], [2.0, 10.0]][i][j];
/// let b = |i: usize, _: usize| [8.0, 22.0][i];
/// assert_eq!(solve_definite(2, &a, 1, &b), Some(vec![1.0, 2.0]));
/// assert_eq!(solve_definite(2, &|i, j| a(i, j) - 5.0, 1, &b), None);
/// ```
#[track_caller]
pub fn solve_definite<T: Scalar>(
    n: usize,
    a: &impl Entries<T>,
    cols: usize,
    b: &impl Entries<T>,
) -> Option<Vec<T>> {
    with_l(n, a, |l| {
        let mut x = tile_of((n, cols), b, &SCRATCH_MEMORY);
        // X ← L⁻ᴴ·L⁻¹·X
        for op in [Op::NoTranspose, Op::ConjTranspose] {
            let x = MatMut::from_column_major_slice_mut(x.as_mut_slice(), n, cols);
            solve_block(Backend::Auto, Side::Left, (op, LOWER, l), x);
        }
        x.as_slice().to_vec()
    })
}

/// A⁻¹, column-major, if A is positive definite; of A the lower triangle is read. n³ flops.
///
/// # Panics
/// If n is larger than [`LARGEST_WHOLE`](crate::kernel::LARGEST_WHOLE).
///
/// # Examples
/// ```
/// use dataflow_linalg::whole::invert_definite;
/// let a = |i: usize, j: usize| [[4.0, 2.0], [2.0, 2.0]][i][j];
/// assert_eq!(invert_definite(2, &a), Some(vec![0.5, -0.5, -0.5, 1.0]));
/// ```
#[track_caller]
pub fn invert_definite<T: Scalar>(n: usize, a: &impl Entries<T>) -> Option<Vec<T>> {
    with_l(n, a, |l| {
        with_scratch(2 * n * n, |scratch: &mut [T]| {
            let (triangle, square) = scratch.split_at_mut(n * n);
            triangle.fill(T::zero());
            let mut w = MatMut::from_column_major_slice_mut(triangle, n, n);
            // W = L⁻¹, A⁻¹ = Wᴴ·W
            T::faer_trtri(l, w.rb_mut());
            square.fill(T::zero());
            let result = MatMut::from_column_major_slice_mut(square, n, n);
            T::faer_lauum(w.into_const(), result);
            mirrored(square, n)
        })
    })
}

/// What is computed from L, without gaps.
#[track_caller]
fn with_l<T: Scalar, R>(
    n: usize,
    a: &impl Entries<T>,
    then: impl FnOnce(MatRef<'_, T>) -> R,
) -> Option<R> {
    let lower = |j: usize, column: &mut [T]| a.column(j..n, j, column);
    with_potrf(n, lower, |l, ld| match ld == n {
        true => then(MatRef::from_column_major_slice(l, n, n)),
        false => with_scratch(n * n, |dense: &mut [T]| {
            // The bits of what follows are those of a tile, which has no gaps.
            for (to, from) in dense.chunks_exact_mut(n.max(1)).zip(l.chunks_exact(ld)) {
                to.copy_from_slice(&from[..n]);
            }
            then(MatRef::from_column_major_slice(dense, n, n))
        }),
    })
}

/// Both triangles of a Hermitian matrix of which the lower one is given.
fn mirrored<T: Scalar>(lower: &[T], n: usize) -> Vec<T> {
    const SIDE: usize = 8;
    let mut whole = Vec::with_capacity(n * n);
    for (j, column) in lower.chunks_exact(n.max(1)).enumerate() {
        whole.resize(j * n + j, T::zero());
        whole.push(T::from_real(column[j].re()));
        whole.extend_from_slice(&column[j + 1..]);
    }
    // By squares, of which a line of the cache is read whole.
    for left in (0..n).step_by(SIDE) {
        for i in left + 1..n {
            for j in left..i.min(left + SIDE) {
                whole[i * n + j] = lower[j * n + i].conj();
            }
        }
    }
    whole
}
