//! Checks: is a factor, is a solution right?
//!
//! Scaled residuals in the 1-norm, with ε = 2⁻⁵³ or 2⁻²⁴: a backward stable method keeps them below
//! about 10, whatever the condition number; LAPACK's tests accept 30.
//!
//! # Law
//! A check computes with faer's products on its own copies, never with the kernels whose work it
//! judges, and sums in one fixed order. A NaN anywhere makes the result NaN, which is below no bound.
//!
//! # In parts
//! A check is cut into parts that may run as tasks, in any order, on any thread; joining them in the
//! order of their numbers gives the same bits as [`cholesky_residual`] and
//! [`solve_backward_error`], which do it on the calling thread.
//!
//! # Source
//! The ratios of LAPACK's TESTING/LIN (DPOT01, DGET02): Anderson et al., *LAPACK Users' Guide*,
//! SIAM 1999.

use super::layout::{Layout, Structure};
use super::norm::{Part, Sums, larger};
use super::tiled::{column_major, gather};
use super::{Entries, TiledMatrix};
use crate::error::{MatrixError, ShapeError, TileError};
use crate::scalar::Scalar;
use faer::linalg::matmul::matmul_with_conj;
use faer::{Accum, Conj, MatMut, MatRef, Par};

/// ‖A − L Lᴴ‖₁ / (n ‖A‖₁ ε) of a Cholesky factor; 0 for n = 0.
///
/// - `original`: A, of which the lower triangle is read
/// - `l`: the factor, a lower matrix with all tiles on this rank; its strict upper part is not read
///
/// n³/3 flops, four tiles of scratch.
///
/// # Errors
/// If a tile of `l` is not at hand.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, check::cholesky_residual};
/// let a = |i: usize, j: usize| [[4.0, 2.0], [2.0, 10.0]][i][j];
/// let l = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[2.0, 0.0], [1.0, 3.0]][i][j]);
/// assert_eq!(cholesky_residual(&a, &l)?, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cholesky_residual<T: Scalar>(
    original: &impl Entries<T>,
    l: &TiledMatrix<T>,
) -> Result<f64, TileError> {
    let check = CholeskyCheck::new(original, l);
    check.join((0..check.n_parts()).map(|part| check.part(part)))
}

/// The check of a Cholesky factor, a part per tile.
pub struct CholeskyCheck<'a, T: Scalar, E> {
    original: &'a E,
    l: &'a TiledMatrix<T>,
    /// Of all tiles, on whatever rank: parts are numbered by its slots.
    layout: Layout,
}

/// What one tile contributes.
#[derive(Clone, Debug)]
pub struct CholeskyPart {
    i: usize,
    j: usize,
    original: Sums,
    difference: Sums,
}

impl<'a, T: Scalar, E: Entries<T>> CholeskyCheck<'a, T, E> {
    /// The check of `l` against `original`.
    pub fn new(original: &'a E, l: &'a TiledMatrix<T>) -> Self {
        CholeskyCheck {
            original,
            l,
            layout: l.layout().alone(),
        }
    }

    /// Number of parts.
    pub fn n_parts(&self) -> usize {
        self.layout.n_slots()
    }

    /// Part `part`: A − L Lᴴ in one tile, at most 2 nb² n flops.
    ///
    /// # Errors
    /// If a tile of the two tile rows of L is not at hand.
    pub fn part(&self, part: usize) -> Result<CholeskyPart, TileError> {
        let Some((i, j)) = self.layout.tile_of(part) else {
            return Err(TileError::NotStored { i: part, j: 0 });
        };
        let (m, n) = (self.layout.tile_rows(i), self.layout.tile_cols(j));
        let kind = Part::of(Structure::Lower, i, j);
        let mut rest = Vec::new();
        gather(&self.layout, i, j, self.original, &mut rest);
        if i == j {
            drop_imaginary_diagonal(&mut rest, m);
        }
        let original = Sums::of_block(&rest, m, n, kind);
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for k in 0..=j {
            self.factor_tile(i, k, &mut left)?;
            self.factor_tile(j, k, &mut right)?;
            let width = self.layout.tile_cols(k);
            let right = Block(&right, n, width, Form::Adjoint);
            subtract(
                &mut rest,
                (m, n),
                Block(&left, m, width, Form::Plain),
                right,
            );
        }
        let difference = Sums::of_block(&rest, m, n, kind);
        Ok(CholeskyPart {
            i,
            j,
            original,
            difference,
        })
    }

    /// The residual from all parts, in the order of their numbers.
    ///
    /// # Errors
    /// The first error among the parts.
    pub fn join(
        &self,
        parts: impl IntoIterator<Item = Result<CholeskyPart, TileError>>,
    ) -> Result<f64, TileError> {
        let n = self.layout.rows();
        let (mut original, mut difference) = (Sums::new(n, n), Sums::new(n, n));
        for part in parts {
            let part = part?;
            let row = self.layout.row_range(part.i).start;
            let col = self.layout.col_range(part.j).start;
            let kind = Part::of(Structure::Lower, part.i, part.j);
            original.add(&part.original, row, col, kind);
            difference.add(&part.difference, row, col, kind);
        }
        let scale = n as f64 * largest(&original.columns) * T::EPSILON;
        Ok(ratio(largest(&difference.columns), scale))
    }

    /// Tile `(i, j)` of L without gaps, its strict upper part zeroed on the diagonal.
    fn factor_tile(&self, i: usize, j: usize, to: &mut Vec<T>) -> Result<(), TileError> {
        let tile = self.l.tile_at(i, j)?;
        to.clear();
        to.extend_from_slice(column_major(&tile, &mut Vec::new()));
        if i == j {
            for (col, column) in to.chunks_exact_mut(tile.rows().max(1)).enumerate() {
                column[..col].fill(T::zero());
            }
        }
        Ok(())
    }
}

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
pub struct SolveCheck<'a, T, A, B> {
    a: &'a A,
    b: &'a B,
    /// Of A.
    layout: Layout,
    /// Of X and B.
    sides: Layout,
    x: Vec<T>,
}

/// What one tile row contributes.
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
    /// If a tile of `x` is not at hand, or `x` is a lower matrix (a solution has all its entries).
    pub fn new(
        a: &'a A,
        structure: Structure,
        x: &TiledMatrix<T>,
        b: &'a B,
    ) -> Result<Self, MatrixError> {
        let (n, n_rhs) = (x.rows(), x.cols());
        if x.structure() == Structure::Lower {
            let what = "the solution, of which the lower triangle is stored,";
            ShapeError::check(what, (n, 0), (n, n_rhs))?;
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
        let mut rest = vec![T::zero(); m * n_rhs];
        let mut of_x = vec![T::zero(); m * n_rhs];
        let columns = rest.chunks_exact_mut(m.max(1));
        for ((col, rest), of_x) in columns.enumerate().zip(of_x.chunks_exact_mut(m.max(1))) {
            self.b.column(rows.clone(), col, rest);
            of_x.copy_from_slice(&self.x[col * n..][rows.clone()]);
        }
        let x = Sums::of_block(&of_x, m, n_rhs, Part::Whole).columns;
        let mut a = vec![0.0; n];
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
            let x = Block(&of_x, inner.len(), n_rhs, Form::Plain);
            subtract(&mut rest, (m, n_rhs), block, x);
        }
        let difference = Sums::of_block(&rest, m, n_rhs, Part::Whole).columns;
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
        let order = n.max(1) as f64;
        let scale = order * largest(&a) * largest(&x) * T::EPSILON;
        ratio(largest(&difference), scale)
    }

    /// Block `(i, k)` of the whole matrix A.
    fn a_tile<'b>(&self, i: usize, k: usize, buffer: &'b mut Vec<T>) -> Block<'b, T> {
        let layout = &self.layout;
        let lower = layout.structure() == Structure::Lower;
        if lower && i < k {
            gather(layout, k, i, self.a, buffer);
            return Block(
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
        Block(buffer, rows, layout.tile_cols(k), Form::Plain)
    }
}

/// How a column-major block without gaps enters a product.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    Adjoint,
}

/// The block, its rows and columns as it lies in memory, and its form.
#[derive(Clone, Copy)]
struct Block<'a, T>(&'a [T], usize, usize, Form);

impl<'a, T: Scalar> Block<'a, T> {
    fn view(self) -> (MatRef<'a, T>, Conj) {
        let Block(elements, rows, cols, form) = self;
        let view = MatRef::from_column_major_slice(elements, rows, cols);
        match form {
            Form::Plain => (view, Conj::No),
            Form::Adjoint => (view.transpose(), Conj::Yes),
        }
    }

    /// Sums of moduli along the columns of what enters the product.
    fn sums(self) -> Vec<f64> {
        let Block(elements, rows, cols, form) = self;
        let sums = Sums::of_block(elements, rows, cols, Part::Whole);
        match form {
            Form::Plain => sums.columns,
            Form::Adjoint => sums.rows,
        }
    }
}

/// C ← C − A·B.
fn subtract<T: Scalar>(c: &mut [T], shape: (usize, usize), a: Block<T>, b: Block<T>) {
    let ((a, conj_a), (b, conj_b)) = (a.view(), b.view());
    let c = MatMut::from_column_major_slice_mut(c, shape.0, shape.1);
    matmul_with_conj(c, Accum::Add, a, conj_a, b, conj_b, -T::one(), Par::Seq);
}

fn drop_imaginary_diagonal<T: Scalar>(block: &mut [T], rows: usize) {
    for diagonal in block.iter_mut().step_by(rows + 1) {
        *diagonal = T::from_real(diagonal.re());
    }
}

fn largest(sums: &[f64]) -> f64 {
    sums.iter().copied().fold(0.0, larger)
}

/// `difference / scale`, where nothing differs 0 whatever the scale.
fn ratio(difference: f64, scale: f64) -> f64 {
    match difference == 0.0 && !scale.is_nan() {
        true => 0.0,
        false => difference / scale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Format;
    use crate::matrix::generate::{PositiveDefinite, Random};
    use crate::scalar::{c32, c64};

    /// A factor with garbage above the diagonal, and the matrix L Lᴴ rounded.
    fn factor<T: Scalar>(i: usize, j: usize) -> T {
        let entry: T = Random::new(3).entry(i, j);
        match i == j {
            true => T::from_real(2.0 + entry.re()),
            false => entry,
        }
    }

    fn product<T: Scalar>(i: usize, j: usize) -> T {
        (0..=i.min(j)).fold(T::zero(), |sum, k| {
            sum + factor::<T>(i, k) * factor::<T>(j, k).conj()
        })
    }

    fn tiled<T: Scalar>(n: usize, nb: usize) -> TiledMatrix<T> {
        let format = Format::SubTiled { order: 3 };
        let layout = Layout::lower(n, nb).unwrap().with_format(format);
        let mut l = TiledMatrix::from_fn(layout, |i, j| factor(i, j));
        if nb > 1 && n > 1 {
            l.store_mut()
                .update(0, |tile| tile.set(0, 1, T::from_real(1e30)));
        }
        l
    }

    #[test]
    fn a_right_factor_has_a_residual_of_rounding_errors() {
        fn check<T: Scalar>() {
            for (n, nb) in [(0, 1), (1, 1), (7, 3), (20, 20), (23, 4), (5, 1)] {
                let residual =
                    cholesky_residual(&|i: usize, j: usize| product::<T>(i, j), &tiled(n, nb));
                let residual = residual.unwrap();
                assert!(
                    residual < 3.0,
                    "{} n = {n}, nb = {nb}: {residual}",
                    T::PRECISION
                );
                assert!(n > 0 || residual == 0.0);
            }
        }
        check::<f32>();
        check::<f64>();
        check::<c32>();
        check::<c64>();
    }

    #[test]
    fn the_residual_is_the_one_of_the_definition() {
        let n = 11;
        let a = PositiveDefinite::new(n, 1);
        let l = tiled::<c64>(n, 4);
        let entry = |i: usize, j: usize| Entries::<c64>::entry(&a, i, j);
        let one_norm = |of: &dyn Fn(usize, usize) -> c64| {
            let column = |j| (0..n).map(|i| of(i, j).norm()).sum::<f64>();
            (0..n).map(column).fold(0.0, f64::max)
        };
        let difference = one_norm(&|i, j| entry(i, j) - product::<c64>(i, j));
        let expected = difference / (n as f64 * one_norm(&entry) * c64::EPSILON);
        let found = cholesky_residual(&a, &l).unwrap();
        assert!(
            (found / expected - 1.0).abs() < 1e-12,
            "{found}, {expected}"
        );
    }

    #[test]
    fn one_wrong_entry_anywhere_shows() {
        let n = 9;
        for row in 0..n {
            for col in 0..=row {
                let mut l = tiled::<f64>(n, 4);
                let slot = l.slot(row / 4, col / 4).unwrap();
                l.store_mut().update(slot, |tile| {
                    let right = tile.get(row % 4, col % 4);
                    tile.set(row % 4, col % 4, right + 1e-9);
                });
                let a = |i: usize, j: usize| product::<f64>(i, j);
                let residual = cholesky_residual(&a, &l).unwrap();
                assert!(residual > 1e3, "({row}, {col}): {residual}");
            }
        }
    }

    #[test]
    fn a_nan_is_below_no_bound() {
        let l = TiledMatrix::from_fn(Layout::lower(5, 2).unwrap(), |i, j| match (i, j) {
            (4, 2) => f64::NAN,
            _ => factor(i, j),
        });
        let a = |i: usize, j: usize| product::<f64>(i, j);
        assert!(cholesky_residual(&a, &l).unwrap().is_nan());
        let a = |i: usize, j: usize| if (i, j) == (3, 0) { f64::NAN } else { a(i, j) };
        assert!(cholesky_residual(&a, &tiled(5, 2)).unwrap().is_nan());
        let zero = TiledMatrix::<f64>::zeros(Layout::general(5, 1, 2).unwrap());
        let error = solve_backward_error(&a, Structure::Lower, &zero, &zero);
        assert!(error.unwrap().is_nan());
    }

    #[test]
    fn the_parts_joined_are_the_whole_on_any_thread() {
        let (n, nb) = (20, 3);
        let a = PositiveDefinite::new(n, 1);
        let l = tiled::<c64>(n, nb);
        let check = CholeskyCheck::new(&a, &l);
        let mut parts: Vec<_> = (0..check.n_parts()).map(|_| None).collect();
        std::thread::scope(|scope| {
            for (number, slot) in parts.iter_mut().enumerate().rev() {
                let check = &check;
                scope.spawn(move || *slot = Some(check.part(number)));
            }
        });
        let joined = check.join(parts.into_iter().flatten());
        assert_eq!(joined, cholesky_residual(&a, &l));
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
