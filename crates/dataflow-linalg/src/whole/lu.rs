//! P·A = L·U of one tile, and what is solved with it.

use super::finite_tile_of;
use crate::error::LinalgError;
use crate::kernel::{
    Backend, Diagonal, Op, SCRATCH_MEMORY, Side, Triangle, getrf, trsm_op, trsm_unit,
};
use crate::lu::permutation;
use crate::matrix::norm::{Extent, tile_first_not_finite};
use crate::matrix::{Entries, Format, Tile};
use crate::scalar::Scalar;

const LOWER: (Triangle, Diagonal) = (Triangle::Lower, Diagonal::Unit);
const UPPER: (Triangle, Diagonal) = (Triangle::Upper, Diagonal::NonUnit);

/// The factors P, L and U of a tile of any shape.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::Op;
/// use dataflow_linalg::whole::Lu;
/// let a = |i: usize, j: usize| [[0.0, 4.0], [2.0, 8.0]][i][j];
/// let lu = Lu::of((2, 2), &a)?;
/// lu.expect_regular()?;
/// assert_eq!(lu.solve(1, &|i: usize, _: usize| [4.0, 10.0][i]), [1.0, 1.0]);
/// assert_eq!((lu.permutation()?, lu.l(), lu.u()), (vec![1, 0], vec![1.0, 0.0, 0.0, 1.0], vec![2.0, 0.0, 8.0, 4.0]));
/// assert_eq!(lu.inverse(), [-1.0, 0.25, 0.5, 0.0]);
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
#[derive(Debug)]
pub struct Lu<T: Scalar> {
    /// L below the diagonal, U on and above it.
    both: Tile<T>,
    /// Row `i` was swapped with row `pivots[i] ≥ i`, one after the other.
    pivots: Vec<u32>,
    /// LAPACK's INFO: the first pivot that is zero, from 1.
    info: Option<usize>,
}

impl<T: Scalar> Lu<T> {
    /// The factors of a matrix in memory of the thread: for one call.
    ///
    /// # Errors
    /// [`LinalgError::NotFinite`] with the first entry that is not.
    pub fn of(shape: (usize, usize), a: &impl Entries<T>) -> Result<Self, LinalgError> {
        Ok(Lu::of_tile(finite_tile_of(shape, a, &SCRATCH_MEMORY)?))
    }

    /// The factors of a column-major tile, in its memory.
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::{matrix::Tile, whole::Lu};
    /// let lu = Lu::of_tile(Tile::from_rows([[1.0, 2.0], [2.0, 4.0]]));
    /// assert_eq!(lu.expect_regular().unwrap_err().index(), Some(2));
    /// assert_eq!(lu.into_parts().1, [1, 1]);
    /// ```
    pub fn of_tile(mut a: Tile<T>) -> Self {
        let mut pivots = vec![0; a.rows().min(a.cols())];
        // A ← L\U
        let info = getrf(Backend::Auto, &mut a, &mut pivots);
        Lu {
            both: a,
            pivots,
            info,
        }
    }

    /// Both factors in one tile, and the swaps: row `i` with row `pivots[i] ≥ i`.
    pub fn into_parts(self) -> (Tile<T>, Vec<usize>) {
        let pivots = self.pivots.iter().map(|&pivot| pivot as usize);
        (self.both, pivots.collect())
    }

    /// Fails if a pivot is zero, or not finite.
    ///
    /// # Errors
    /// [`LinalgError::Singular`] with the first that is zero; [`LinalgError::Overflow`] with the first
    /// that is not finite, if none is.
    pub fn expect_regular(&self) -> Result<(), LinalgError> {
        if let Some(index) = self.info {
            let (index, source) = (index as u64, None);
            let matrix = None;
            return Err(LinalgError::Singular {
                index,
                matrix,
                source,
            });
        }
        let mut pivots = 0..self.both.rows().min(self.both.cols());
        match pivots.find(|&i| !self.both.get(i, i).is_finite()) {
            Some(col) => Err(LinalgError::overflow_in(col)),
            None => Ok(()),
        }
    }

    /// Fails if L or U is not finite, as A was.
    ///
    /// # Errors
    /// [`LinalgError::Overflow`] with the first column that is not.
    ///
    /// # Examples
    /// ```
    /// use dataflow_linalg::{matrix::Tile, whole::Lu};
    /// let large = [[1e308, 1e308], [-1e308, 1e308]];
    /// let lu = Lu::of_tile(Tile::from_rows(large));
    /// assert_eq!(lu.expect_finite().unwrap_err().name(), "overflow");
    /// ```
    pub fn expect_finite(&self) -> Result<(), LinalgError> {
        match tile_first_not_finite(&self.both, Extent::Whole) {
            Some(found) => Err(LinalgError::overflow_in(found.col)),
            None => Ok(()),
        }
    }

    /// Row `i` of L·U is which one of A.
    ///
    /// # Errors
    /// As [`lu::permutation`](crate::lu::permutation).
    pub fn permutation(&self) -> Result<Vec<usize>, LinalgError> {
        let pivots = self.pivots.iter().map(|&pivot| pivot as usize);
        permutation(self.both.rows(), pivots.enumerate())
    }

    /// The same of a square matrix: there is memory for its columns.
    #[track_caller]
    fn order(&self) -> Vec<usize> {
        let order = self.permutation();
        order.unwrap_or_else(|error| panic!("{error}"))
    }

    /// L, m × min(m, n), column-major.
    pub fn l(&self) -> Vec<T> {
        let (m, k) = (self.both.rows(), self.pivots.len());
        let mut l = Vec::with_capacity(m * k);
        for (j, column) in self.columns().take(k).enumerate() {
            l.resize(j * m + j, T::zero());
            l.push(T::one());
            l.extend_from_slice(&column[j + 1..]);
        }
        l
    }

    /// U, min(m, n) × n, column-major.
    pub fn u(&self) -> Vec<T> {
        let (k, n) = (self.pivots.len(), self.both.cols());
        let mut u = Vec::with_capacity(k * n);
        for (j, column) in self.columns().enumerate() {
            u.extend_from_slice(&column[..k.min(j + 1)]);
            u.resize((j + 1) * k, T::zero());
        }
        u
    }

    fn columns(&self) -> impl Iterator<Item = &[T]> {
        let m = self.both.rows();
        let columns = self.both.as_slice().chunks_exact(m.max(1));
        columns.take(self.both.cols())
    }

    /// X of A·X = B, column-major; A is square and [regular](Self::expect_regular).
    ///
    /// - `cols`: of B, which has the rows of A
    pub fn solve(&self, cols: usize, b: &impl Entries<T>) -> Vec<T> {
        solve_with_lu((&self.both, &self.order()), Op::NoTranspose, cols, b)
    }

    /// A⁻¹, column-major; A is square and [regular](Self::expect_regular).
    pub fn inverse(&self) -> Vec<T> {
        invert_with_lu((&self.both, &self.order()))
    }
}

/// X of op(A)·X = B, column-major, with what [`Lu`] is made of and its permutation. 2n² flops a column.
///
/// - `cols`: of B, which has the rows of A
///
/// # Panics
/// If the factors are not square, or `rows` is no permutation of their rows: with the first entry that is
/// none of them, or one of those before.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::Op;
/// use dataflow_linalg::{matrix::Tile, whole::{Lu, solve_with_lu}};
/// let lu = Lu::of_tile(Tile::from_rows([[0.0, 4.0], [2.0, 8.0]]));
/// let (rows, (both, _)) = (lu.permutation()?, lu.into_parts());
/// let b = |i: usize, _: usize| [2.0, 12.0][i];
/// assert_eq!(solve_with_lu((&both, &rows), Op::Transpose, 1, &b), [1.0, 1.0]);
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
#[track_caller]
pub fn solve_with_lu<T: Scalar>(
    (lu, rows): (&Tile<T>, &[usize]),
    op: Op,
    cols: usize,
    b: &impl Entries<T>,
) -> Vec<T> {
    let n = expect_order(lu, rows);
    let mut x = Tile::unspecified(n, cols, Format::ColumnMajor, &SCRATCH_MEMORY);
    let mut before = vec![T::zero(); n];
    let columns = x.as_mut_slice().chunks_exact_mut(n.max(1));
    for (j, column) in columns.enumerate() {
        match op {
            Op::NoTranspose => {
                b.column(0..n, j, &mut before);
                let moved = column.iter_mut().zip(rows);
                moved.for_each(|(to, &from)| *to = before[from]);
            }
            Op::Transpose | Op::ConjTranspose => b.column(0..n, j, column),
        }
    }
    // X ← op(L·U)⁻¹·X
    for triangle in in_order(op) {
        trsm_op(Backend::Auto, Side::Left, (op, triangle, lu), &mut x);
    }
    let mut answer = x.as_slice().to_vec();
    if op != Op::NoTranspose {
        for column in answer.chunks_exact_mut(n.max(1)) {
            before.copy_from_slice(column);
            let moved = rows.iter().zip(&before);
            moved.for_each(|(&to, from)| column[to] = *from);
        }
    }
    answer
}

/// A⁻¹, column-major, with what [`Lu`] is made of and its permutation: Aᴴ·X = I is solved, and X is
/// turned. 4n³/3 flops.
///
/// # Panics
/// If the factors are not square, or `rows` is no permutation of their rows: with the first entry that is
/// none of them, or one of those before.
///
/// # Examples
/// ```
/// use dataflow_linalg::{matrix::Tile, whole::{Lu, invert_with_lu}};
/// let lu = Lu::of_tile(Tile::from_rows([[0.0, 4.0], [2.0, 8.0]]));
/// let (rows, (both, _)) = (lu.permutation()?, lu.into_parts());
/// assert_eq!(invert_with_lu((&both, &rows)), [-1.0, 0.25, 0.5, 0.0]);
/// # Ok::<(), dataflow_linalg::LinalgError>(())
/// ```
#[track_caller]
pub fn invert_with_lu<T: Scalar>((lu, rows): (&Tile<T>, &[usize])) -> Vec<T> {
    let n = expect_order(lu, rows);
    let mut x = Tile::new(n, n, Format::ColumnMajor, &SCRATCH_MEMORY);
    let diagonal = x.as_mut_slice().iter_mut().step_by(n + 1);
    diagonal.for_each(|one| *one = T::one());
    // X ← U⁻ᴴ, then L⁻ᴴ·U⁻ᴴ
    let [first, second] = in_order(Op::ConjTranspose).map(|shape| (Op::ConjTranspose, shape, lu));
    trsm_unit(Backend::Auto, first, &mut x);
    trsm_op(Backend::Auto, Side::Left, second, &mut x);
    turned(x.as_slice(), rows)
}

/// The triangles, in the order in which they are solved.
fn in_order(op: Op) -> [(Triangle, Diagonal); 2] {
    match op {
        Op::NoTranspose => [LOWER, UPPER],
        Op::Transpose | Op::ConjTranspose => [UPPER, LOWER],
    }
}

/// Xᴴ·P: row k of X becomes column `rows[k]`. By squares, of which a line of the cache is read whole.
fn turned<T: Scalar>(x: &[T], rows: &[usize]) -> Vec<T> {
    const SIDE: usize = 8;
    let n = rows.len();
    let mut turned = vec![T::zero(); n * n];
    for left in (0..n).step_by(SIDE) {
        let right = n.min(left + SIDE);
        for (k, &to) in rows.iter().enumerate() {
            let column = &mut turned[to * n..][left..right];
            for (j, slot) in (left..right).zip(column) {
                *slot = x[j * n + k].conj();
            }
        }
    }
    turned
}

#[track_caller]
fn expect_order<T: Scalar>(lu: &Tile<T>, rows: &[usize]) -> usize {
    let (m, n, len) = (lu.rows(), lu.cols(), rows.len());
    assert!(m == n, "a solution with factors of {m} × {n}");
    assert!(len == n, "a permutation of {len} rows for factors of {n}");
    let mut is_there = vec![false; n];
    for (at, &row) in rows.iter().enumerate() {
        assert!(
            row < n,
            "entry {at} of a permutation is {row} (must be below {n})"
        );
        assert!(
            !is_there[row],
            "entry {at} of a permutation is {row} (as one before it is)"
        );
        is_there[row] = true;
    }
    n
}
