//! Checks: is a solution right?
//!
//! Scaled residuals in the 1-norm, with ε = 2⁻⁵³ or 2⁻²⁴: a backward stable method keeps them below
//! about 10, whatever the condition number; LAPACK's tests accept 30.
//!
//! # Law
//! A check computes with faer's products on its own copies, never with the kernels whose work it
//! judges, and sums in one fixed order. A NaN anywhere makes the result NaN, which is below no bound;
//! so does a norm that overflows.
//!
//! Numbers below the smallest normal one are rounded by as much as that one is, whatever their size.
//! So to each norm the smallest normal number is added for each row: at usual scales that changes
//! nothing, and of a matrix of entries around 10⁻³¹⁰ it asks for no more digits than they have.
//!
//! # In parts
//! A check is cut into parts that may run as tasks, in any order, on any thread; joining them in the
//! order of their numbers gives the same bits as [`solve_backward_error`], which does it on the
//! calling thread.
//!
//! # Elsewhere
//! Is a factor right: [`cholesky::residual`](crate::cholesky::residual).
//!
//! # Source
//! The ratio of LAPACK's TESTING/LIN DGET02: Anderson et al., *LAPACK Users' Guide*, SIAM 1999.
//! The model of underflow: Demmel, *Underflow and the reliability of numerical software*, SIAM Journal
//! on Scientific and Statistical Computing 5 (1984).

use super::layout::{Layout, Structure};
use super::norm::{Extent, Sums, larger};
use super::tiled::{gather, zeros};
use super::{Entries, TiledMatrix};
use crate::error::MatrixError;
use crate::scalar::{Scalar, smallest_normal};
use faer::linalg::matmul::matmul_with_conj;
use faer::{Accum, Conj, MatMut, MatRef, Par};

/// ‖B − A X‖₁ / (max(1, n) ‖A‖₁ ‖X‖₁ ε) of a solution; 0 for n = 0 or no right-hand sides.
///
/// - `a`: of order n; with [`Structure::Lower`] its lower triangle is read and mirrored
/// - `x`: n × nrhs, all tiles on this rank; its tile order is the check's
/// - `b`: n × nrhs
///
/// 2 n² nrhs flops; a copy of X, two tiles and nb × nrhs of scratch.
///
/// # Errors
/// If a tile of `x` is not at hand.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, Structure, TiledMatrix, check::solve_backward_error};
/// let a = |i: usize, j: usize| [[4.0, 2.0], [2.0, 10.0]][i][j];
/// let b = |i: usize, _: usize| [8.0, 22.0][i];
/// let x = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [1.0, 2.0][i]);
/// assert_eq!(solve_backward_error(&a, Structure::Lower, &x, &b)?, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve_backward_error<T: Scalar>(
    a: &impl Entries<T>,
    structure: Structure,
    x: &TiledMatrix<T>,
    b: &impl Entries<T>,
) -> Result<f64, MatrixError> {
    let check = SolveCheck::new(a, structure, x, b)?;
    Ok(check.join((0..check.n_parts()).map(|part| check.part(part))))
}

/// The check of a solution, a part per tile row.
///
/// # Examples
/// Parts may be computed in any order, by whomever:
/// ```
/// use dataflow_linalg::matrix::{Layout, Structure, TiledMatrix, check::SolveCheck};
/// let a = |i: usize, j: usize| [[4.0, 2.0], [2.0, 10.0]][i][j];
/// let b = |i: usize, _: usize| [8.0, 22.0][i];
/// let x = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [1.0, 2.0][i]);
/// let check = SolveCheck::new(&a, Structure::Lower, &x, &b)?;
/// let (first, second) = (check.part(0), check.part(1));
/// assert_eq!((check.n_parts(), check.join([first, second])), (2, 0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SolveCheck<'a, T, A, B> {
    a: &'a A,
    b: &'a B,
    /// Of A.
    layout: Layout,
    /// Of X and B.
    sides: Layout,
    x: Vec<T>,
}

impl<T, A, B> std::fmt::Debug for SolveCheck<'_, T, A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SolveCheck")
            .field("layout", &self.layout)
            .field("sides", &self.sides)
            .finish_non_exhaustive()
    }
}

/// What one tile row contributes.
///
/// # Examples
/// See [`SolveCheck`](SolveCheck#examples).
#[derive(Clone, Debug)]
pub struct SolvePart {
    /// Sums of moduli along the columns of A, X and B − A X, over the rows of this tile row.
    a: Vec<f64>,
    x: Vec<f64>,
    difference: Vec<f64>,
}

impl<'a, T: Scalar, A: Entries<T>, B: Entries<T>> SolveCheck<'a, T, A, B> {
    /// The check of A X = B. Copies X.
    ///
    /// # Errors
    /// If a tile of `x` is not at hand; [`MatrixError::Lower`] if `x` is one (a solution has all its
    /// entries).
    pub fn new(
        a: &'a A,
        structure: Structure,
        x: &TiledMatrix<T>,
        b: &'a B,
    ) -> Result<Self, MatrixError> {
        if x.structure() == Structure::Lower {
            let (what, rows, cols) = ("the solution", x.rows(), x.cols());
            return Err(MatrixError::Lower { what, rows, cols });
        }
        let sides = x.layout().alone();
        Ok(SolveCheck {
            a,
            b,
            layout: sides.square(structure),
            sides,
            x: x.to_column_major()?,
        })
    }

    /// Number of parts.
    pub fn n_parts(&self) -> usize {
        self.layout.mt()
    }

    /// Part `part`: B − A X in one tile row, 2 nb n nrhs flops.
    pub fn part(&self, part: usize) -> SolvePart {
        let rows = self.layout.row_range(part);
        let (m, n, n_rhs) = (rows.len(), self.layout.rows(), self.sides.cols());
        let mut rest = zeros(m, n_rhs);
        let mut of_x = zeros(m, n_rhs);
        let columns = rest.chunks_exact_mut(m.max(1));
        for ((col, rest), of_x) in columns.enumerate().zip(of_x.chunks_exact_mut(m.max(1))) {
            self.b.column(rows.clone(), col, rest);
            of_x.copy_from_slice(&self.x[col * n..][rows.clone()]);
        }
        let x = Sums::of_block(&of_x, m, n_rhs, Extent::Whole).columns;
        let mut a = zeros(n, 1);
        let (mut block, mut of_x) = (Vec::new(), Vec::new());
        for k in 0..self.layout.nt() {
            let inner = self.layout.col_range(k);
            let block = self.a_tile(part, k, &mut block);
            let sums = block.sums();
            a[inner.clone()].copy_from_slice(&sums);
            of_x.clear();
            for column in self.x.chunks_exact(n.max(1)) {
                of_x.extend_from_slice(&column[inner.clone()]);
            }
            let x = BlockView(&of_x, inner.len(), n_rhs, Form::Plain);
            subtract(&mut rest, (m, n_rhs), block, x);
        }
        let difference = Sums::of_block(&rest, m, n_rhs, Extent::Whole).columns;
        SolvePart { a, x, difference }
    }

    /// The backward error from all parts, in the order of their numbers.
    pub fn join(&self, parts: impl IntoIterator<Item = SolvePart>) -> f64 {
        let (n, n_rhs) = (self.layout.rows(), self.sides.cols());
        let (mut a, mut x) = (vec![0.0; n], vec![0.0; n_rhs]);
        let mut difference = vec![0.0; n_rhs];
        for part in parts {
            for (sums, more) in [
                (&mut a, part.a),
                (&mut x, part.x),
                (&mut difference, part.difference),
            ] {
                for (sum, more) in sums.iter_mut().zip(more) {
                    *sum += more;
                }
            }
        }
        let norms = [largest(&a), largest(&x)];
        backward_error(
            largest(&difference),
            (n, n.max(1)),
            norms,
            Rounding::of::<T>(),
        )
    }

    /// Block `(i, k)` of the whole matrix A.
    fn a_tile<'b>(&self, i: usize, k: usize, buffer: &'b mut Vec<T>) -> BlockView<'b, T> {
        let layout = &self.layout;
        let lower = layout.structure() == Structure::Lower;
        if lower && i < k {
            gather(layout, k, i, self.a, buffer);
            return BlockView(
                buffer,
                layout.tile_rows(k),
                layout.tile_cols(i),
                Form::Adjoint,
            );
        }
        gather(layout, i, k, self.a, buffer);
        let rows = layout.tile_rows(i);
        if lower && i == k {
            drop_imaginary_diagonal(buffer, rows);
            for col in 0..rows {
                for row in 0..col {
                    buffer[row + col * rows] = buffer[col + row * rows].conj();
                }
            }
        }
        BlockView(buffer, rows, layout.tile_cols(k), Form::Plain)
    }
}

/// How a column-major block without gaps enters a product.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Plain,
    Adjoint,
}

/// The block, its rows and columns as it lies in memory, and its form.
#[derive(Clone, Copy)]
pub(crate) struct BlockView<'a, T>(pub &'a [T], pub usize, pub usize, pub Form);

impl<'a, T: Scalar> BlockView<'a, T> {
    fn view(self) -> (MatRef<'a, T>, Conj) {
        let BlockView(elements, rows, cols, form) = self;
        let view = MatRef::from_column_major_slice(elements, rows, cols);
        match form {
            Form::Plain => (view, Conj::No),
            Form::Adjoint => (view.transpose(), Conj::Yes),
        }
    }

    /// Sums of moduli along the columns of what enters the product.
    fn sums(self) -> Vec<f64> {
        let BlockView(elements, rows, cols, form) = self;
        let sums = Sums::of_block(elements, rows, cols, Extent::Whole);
        match form {
            Form::Plain => sums.columns,
            Form::Adjoint => sums.rows,
        }
    }
}

/// C ← C − A·B.
pub(crate) fn subtract<T: Scalar>(
    c: &mut [T],
    shape: (usize, usize),
    a: BlockView<T>,
    b: BlockView<T>,
) {
    let ((a, conj_a), (b, conj_b)) = (a.view(), b.view());
    let c = MatMut::from_column_major_slice_mut(c, shape.0, shape.1);
    matmul_with_conj(c, Accum::Add, a, conj_a, b, conj_b, -T::one(), Par::Seq);
}

pub(crate) fn drop_imaginary_diagonal<T: Scalar>(block: &mut [T], rows: usize) {
    for diagonal in block.iter_mut().step_by(rows + 1) {
        *diagonal = T::from_real(diagonal.re());
    }
}

pub(crate) fn largest(sums: &[f64]) -> f64 {
    sums.iter().copied().fold(0.0, larger)
}

/// `difference / scale`, where nothing differs 0 whatever the scale; NaN if that has overflowed.
pub(crate) fn ratio(difference: f64, scale: f64) -> f64 {
    match difference == 0.0 && !scale.is_nan() {
        true => 0.0,
        false if scale == f64::INFINITY => f64::NAN,
        false => difference / scale,
    }
}

/// How a precision rounds: by up to ε relative to a normal number, by up to 2·ε·`smallest` otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rounding {
    epsilon: f64,
    /// The smallest normal number.
    smallest: f64,
}

impl Rounding {
    pub(crate) fn of<T: Scalar>() -> Self {
        Rounding {
            epsilon: T::EPSILON,
            smallest: smallest_normal::<T>(),
        }
    }

    /// What is added to the norm of a matrix of so many rows.
    pub(crate) fn underflow(self, rows: usize) -> f64 {
        rows as f64 * self.smallest
    }
}

/// `difference` / (`terms`·‖A‖·‖X‖·ε) of matrices with up to `rows` rows, at whatever scale; where
/// nothing differs 0.
pub(crate) fn backward_error(
    difference: f64,
    (rows, terms): (usize, usize),
    norms: [f64; 2],
    rounding: Rounding,
) -> f64 {
    let underflow = rounding.underflow(rows);
    let [a, x] = norms.map(|norm| norm + underflow);
    let per_term = match a * x + underflow {
        scale if scale < f64::INFINITY => ratio(difference, scale),
        // The product overflows; or a norm has, or is NaN.
        _ => ratio(ratio(difference, a.min(x)), a.max(x)),
    };
    match norms.into_iter().any(f64::is_nan) {
        true => f64::NAN,
        false => ratio(per_term, terms as f64 * rounding.epsilon),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate::Random;
    use crate::scalar::{c32, c64};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_nan_is_below_no_bound() {
        let a = |i: usize, j: usize| if (i, j) == (3, 0) { f64::NAN } else { 1.0 };
        let zero = TiledMatrix::<f64>::zeros(Layout::general(5, 1, 2).unwrap());
        let error = solve_backward_error(&a, Structure::Lower, &zero, &zero);
        assert!(error.unwrap().is_nan());
    }

    #[test]
    fn a_solution_that_is_stored_as_lower_is_refused_whatever_its_shape() {
        for n in [0, 3] {
            let x = TiledMatrix::<f64>::zeros(Layout::lower(n, 2).unwrap());
            let refused = solve_backward_error(&x, Structure::General, &x, &x).unwrap_err();
            let expected = format!("the solution is stored as Lower, {n} x {n} (must be General)");
            assert_eq!(refused.to_string(), expected);
        }
    }

    /// The allocator ended the process.
    #[test]
    fn sums_of_more_columns_than_memory_holds_are_refused_by_their_number() {
        let layout = Layout::general(1 << 50, 0, 1 << 48).unwrap();
        let (none, one) = (TiledMatrix::zeros(layout), |_: usize, _: usize| 1.0);
        let check = SolveCheck::new(&one, Structure::General, &none, &none).unwrap();
        let judged = catch_unwind(AssertUnwindSafe(|| check.part(0)));
        let text = *judged.unwrap_err().downcast::<String>().unwrap();
        let told = "there is no memory for 281474976710656 × 1 entries";
        assert!(text.starts_with(told), "{text}");
    }

    #[test]
    fn an_error_is_judged_alike_at_every_scale() {
        let of =
            |difference, norms| backward_error(difference, (4, 4), norms, Rounding::of::<f64>());
        let usual = of(1e-15, [2.0, 3.0]);
        assert!((usual * 24.0 * f64::EPSILON / 2.0 / 1e-15 - 1.0).abs() < 1e-14);
        // Powers of two change no digit.
        let (huge, tiny) = (2f64.powi(900), 2f64.powi(-900));
        for (difference, a, x) in [
            (1e-15 * huge, huge, 1.0),
            (1e-15 * tiny, tiny, 1.0),
            (1e-15, huge, tiny),
            (1e-15 * tiny, 1.0, tiny),
        ] {
            let found = of(difference, [2.0 * a, 3.0 * x]);
            assert!((found / usual - 1.0).abs() < 1e-14, "{a:e} {x:e}: {found}");
        }
        // ‖A‖·‖X‖ is no number, what is left of B still is.
        assert!(of(1e292, [1e300, 1e299]) < 1e-290);
        assert!(of(1e307, [1e300, 1e8]) > 1e13);
        // A unit of the last place of numbers that have no more, in each of four entries; then wrong ones.
        assert!(of(4.0 * 5e-324, [4e-310, 1.0]) < 30.0);
        assert!(of(4e-311, [4e-310, 1.0]) > 1e10);
        assert_eq!(of(0.0, [4e-310, 1.0]), 0.0);
        for (difference, norm) in [(f64::NAN, 1.0), (1.0, f64::NAN), (1.0, f64::INFINITY)] {
            assert!(of(difference, [norm, 1.0]).is_nan());
        }
    }

    #[test]
    fn a_solution_is_judged_as_by_the_definition() {
        fn check<T: Scalar>(structure: Structure) {
            for (n, n_rhs, nb) in [(0, 2, 3), (1, 1, 1), (10, 1, 3), (10, 7, 4), (6, 0, 2)] {
                let whole = |i: usize, j: usize| -> T {
                    let above = structure == Structure::Lower && i < j;
                    let entry: T = Random::new(8).entry(i.max(j), i.min(j));
                    match () {
                        _ if structure == Structure::General => Random::new(9).entry(i, j),
                        _ if i == j => T::from_real(entry.re()),
                        _ if above => entry.conj(),
                        _ => entry,
                    }
                };
                let seen = |i: usize, j: usize| match structure {
                    // What must not be read: above the diagonal, the diagonal's imaginary part.
                    Structure::Lower if i < j => T::from_real(f64::NAN),
                    Structure::Lower if i == j => T::from_parts(whole(i, j).re(), 1e9),
                    _ => whole(i, j),
                };
                let x = TiledMatrix::from_entries(
                    Layout::general(n, n_rhs, nb).unwrap(),
                    &Random::new(1),
                );
                let b = Random::new(2);
                let of_b = |i, j| Entries::<T>::entry(&b, i, j);
                let rest = |i: usize, j: usize| {
                    let ax = (0..n).map(|k| whole(i, k) * x.get(k, j).unwrap());
                    ax.fold(of_b(i, j), |rest, term| rest - term)
                };
                let one_norm = |cols: usize, of: &dyn Fn(usize, usize) -> T| {
                    let column = |j| (0..n).map(|i| of(i, j).modulus()).sum::<f64>();
                    (0..cols).map(column).fold(0.0, f64::max)
                };
                let scale = one_norm(n, &whole) * one_norm(n_rhs, &|i, j| x.get(i, j).unwrap());
                let expected = one_norm(n_rhs, &rest) / (n.max(1) as f64 * scale * T::EPSILON);
                let found = solve_backward_error(&seen, structure, &x, &b).unwrap();
                match n * n_rhs {
                    0 => assert_eq!(found, 0.0),
                    _ => assert!(
                        (found / expected - 1.0).abs() < 1e3 * T::EPSILON,
                        "{} n = {n}: {found}, expected {expected}",
                        T::PRECISION
                    ),
                }
            }
        }
        for structure in [Structure::General, Structure::Lower] {
            check::<f32>(structure);
            check::<f64>(structure);
            check::<c32>(structure);
            check::<c64>(structure);
        }
    }
}
