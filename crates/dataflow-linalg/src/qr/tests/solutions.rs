//! What solutions must be, whatever the matrix; errors; and the same bits under every schedule.

use crate::error::Given;
use crate::kernel::Backend;
use crate::matrix::generate::Random;
use crate::matrix::{Distribution, Entries, Format, Grid, Layout, Tile, TiledMatrix};
use crate::needs;
use crate::qr::{self, Options, Reflectors, Tree, factor, form, least_squares};
use crate::scalar::{Scalar, c32, c64};
use crate::{lu, refine, whole};
use dataflow_core::port::{Inline, Shuffled};
use dataflow_core::rank::Rank;

/// LAPACK's threshold.
const LARGEST_RATIO: f64 = 30.0;

/// A column-major matrix for the textbook.
#[derive(Clone)]
struct Dense {
    m: usize,
    n: usize,
    entries: Vec<c64>,
}

impl Dense {
    fn from_fn(m: usize, n: usize, entry: impl Fn(usize, usize) -> c64) -> Self {
        let entries = (0..m * n).map(|x| entry(x % m, x / m)).collect();
        Dense { m, n, entries }
    }

    fn at(&self, i: usize, j: usize) -> c64 {
        self.entries[i + j * self.m]
    }

    fn of<T: Scalar>(a: &TiledMatrix<T>) -> Self {
        let entries = a.to_column_major().unwrap();
        let entries = entries
            .into_iter()
            .map(|x| c64::new(x.re(), x.im()))
            .collect();
        Dense {
            m: a.rows(),
            n: a.cols(),
            entries,
        }
    }

    /// Numbers of `T` in the unit square.
    fn random<T: Scalar>(m: usize, n: usize, seed: u64) -> Self {
        let random = Random::new(seed);
        Self::from_fn(m, n, |i, j| {
            let x: T = random.entry(i, j);
            c64::new(x.re(), x.im())
        })
    }

    fn adjoint(&self) -> Self {
        Self::from_fn(self.n, self.m, |i, j| self.at(j, i).conj())
    }

    fn times(&self, other: &Self) -> Self {
        let mut product = Self::from_fn(self.m, other.n, |_, _| c64::new(0.0, 0.0));
        for j in 0..other.n {
            for k in 0..self.n {
                let factor = other.at(k, j);
                for i in 0..self.m {
                    product.entries[i + j * self.m] += self.at(i, k) * factor;
                }
            }
        }
        product
    }

    fn minus(&self, other: &Self) -> Self {
        assert_eq!((self.m, self.n), (other.m, other.n));
        Self::from_fn(self.m, self.n, |i, j| self.at(i, j) - other.at(i, j))
    }

    fn norm(&self) -> f64 {
        let column = |j| (0..self.m).map(|i| self.at(i, j).norm()).sum::<f64>();
        let larger = |a: f64, b: f64| if a.is_nan() || a >= b { a } else { b };
        (0..self.n).map(column).fold(0.0, larger)
    }

    /// An orthogonal basis of its columns, orthogonalised twice, of full rank; and R.
    fn orthogonalised(&self) -> (Self, Self) {
        let mut q = self.clone();
        let mut r = Self::from_fn(self.n, self.n, |_, _| c64::new(0.0, 0.0));
        for j in 0..self.n {
            for k in (0..j).chain(0..j) {
                let dot: c64 = (0..self.m).map(|i| q.at(i, k).conj() * q.at(i, j)).sum();
                (0..self.m).for_each(|i| {
                    let part = dot * q.at(i, k);
                    q.entries[i + j * self.m] -= part;
                });
                r.entries[k + j * self.n] += dot;
            }
            let norm = (0..self.m)
                .map(|i| q.at(i, j).norm_sqr())
                .sum::<f64>()
                .sqrt();
            (0..self.m).for_each(|i| q.entries[i + j * self.m] /= norm);
            r.entries[j + j * self.n] = c64::new(norm, 0.0);
        }
        (q, r)
    }
}

fn tiled<T: Scalar>(a: &Dense, nb: usize, format: Format) -> TiledMatrix<T> {
    let layout = Layout::general(a.m, a.n, nb).unwrap().with_format(format);
    TiledMatrix::from_fn(layout, |i, j| T::from_parts(a.at(i, j).re, a.at(i, j).im))
}

/// Fails unless `off` is small beside `scale`; where nothing is off, whatever the scale.
fn expect_small(what: &str, test: &str, off: f64, scale: f64) {
    let ratio = if off == 0.0 { 0.0 } else { off / scale };
    assert!(
        ratio < LARGEST_RATIO,
        "{what}: {test} has ratio {ratio:.2e}"
    );
}

/// The bits of all tiles of a factored matrix.
fn factored<T: Scalar>(on: &dyn dataflow_core::port::Executor) -> Vec<[u64; 2]> {
    let layout = Layout::general(37, 22, 5).unwrap();
    let a = TiledMatrix::<T>::from_entries(layout, &Random::new(3));
    let options = Options {
        tree: Tree::Greedy,
        ib: 3,
    };
    let (q, report) = factor(&a, options, Backend::Auto, on).unwrap();
    assert_eq!(report.copies(), 0);
    let q = form(&a, &q, 37, Backend::Auto, on).unwrap();
    let entries = [a.to_column_major().unwrap(), q.to_column_major().unwrap()].concat();
    entries.into_iter().map(Scalar::bits).collect()
}

#[test]
fn the_bits_of_q_and_r_are_the_same_under_every_schedule() {
    fn check<T: Scalar>() {
        let expected = factored::<T>(&Inline);
        for seed in 0..20 {
            let on = Shuffled::new(seed).with_threads(2);
            assert!(factored::<T>(&on) == expected, "{} {on:?}", T::PRECISION);
        }
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

#[test]
fn the_determinant_is_that_of_lu_for_every_tree_and_kind_of_number() {
    fn check<T: Scalar>(epsilon: f64) {
        let trees = [Tree::Flat, Tree::Binary, Tree::Greedy];
        for (n, tree) in (0..8).flat_map(|n| trees.map(|tree| (n, tree))) {
            let layout = Layout::general(n, n, 2).unwrap();
            let random = Random::new(n as u64);
            let [by_lu, by_qr] = [(); 2].map(|()| TiledMatrix::<T>::from_entries(layout, &random));
            let pivots = lu::Pivots::new(&by_lu);
            lu::factor(&by_lu, &pivots, Backend::Auto, &Inline).unwrap();
            let expected = lu::determinant(&by_lu, &pivots).unwrap();
            let options = Options { tree, ib: 2 };
            let unmade = Reflectors::new(&layout, options);
            assert_eq!(qr::determinant(&by_qr, &unmade).is_ok(), n == 0);
            let (q, _) = factor(&by_qr, options, Backend::Auto, &Inline).unwrap();
            let found = qr::determinant(&by_qr, &q).unwrap();
            let off =
                (found.log_abs - expected.log_abs).abs() + (found.phase - expected.phase).norm();
            assert!(
                off < 300.0 * epsilon,
                "{} {n} {tree}: {found:?}, {expected:?}",
                T::PRECISION
            );
        }
    }
    check::<f32>(f32::EPSILON.into());
    check::<f64>(f64::EPSILON);
    check::<c32>(f32::EPSILON.into());
    check::<c64>(f64::EPSILON);
}

#[test]
fn a_column_that_is_zero_has_no_reflector_and_a_determinant_of_zero() {
    let a = TiledMatrix::from_fn(Layout::general(3, 3, 1).unwrap(), |i, j| {
        f64::from(u8::from(j != 1 && i <= j))
    });
    let (q, _) = factor(&a, Options::of_order(1), Backend::Auto, &Inline).unwrap();
    let found = qr::determinant(&a, &q).unwrap();
    assert_eq!(
        (found.log_abs, found.phase),
        (f64::NEG_INFINITY, c64::zero())
    );
    // A triangle is its own R: no column is reflected, but for the sign of a last one.
    let triangle = TiledMatrix::from_fn(Layout::general(3, 3, 1).unwrap(), |i, j| {
        f64::from(u8::from(i <= j))
    });
    let (q, _) = factor(&triangle, Options::of_order(1), Backend::Auto, &Inline).unwrap();
    let found = qr::determinant(&triangle, &q).unwrap();
    assert_eq!((found.log_abs, found.phase.re), (0.0, 1.0));
}

#[test]
fn the_determinant_of_a_matrix_that_is_not_square_or_of_other_reflectors_is_refused() {
    let factored = |m, n| {
        let a =
            TiledMatrix::<f64>::from_entries(Layout::general(m, n, 2).unwrap(), &Random::new(1));
        let (q, _) = factor(&a, Options::of_order(2), Backend::Auto, &Inline).unwrap();
        (a, q)
    };
    let (square, q) = factored(4, 4);
    assert!(qr::determinant(&square, &q).is_ok());
    for (m, n) in [(5, 4), (4, 5), (5, 5)] {
        let (a, own) = factored(m, n);
        assert_eq!(qr::determinant(&a, &own).is_ok(), m == n);
        let refused = qr::determinant(&a, &q).unwrap_err().to_string();
        assert!(refused.contains(&format!("{m} x {n}")), "{refused}");
    }
}

#[test]
fn an_inner_block_wider_than_a_tile_is_one_as_wide_with_the_same_bits_and_needs() {
    let layout = Layout::general(5, 4, 2).unwrap();
    let options = |ib| Options {
        tree: Tree::Greedy,
        ib,
    };
    let factored = |ib| {
        let a = TiledMatrix::<f64>::from_entries(layout, &Random::new(3));
        let (q, _) = factor(&a, options(ib), Backend::Auto, &Inline).unwrap();
        let made = form(&a, &q, 5, Backend::Auto, &Inline).unwrap();
        let entries = [a.to_column_major(), made.to_column_major()].map(Result::unwrap);
        let needs = needs::qr::<f64>(&layout, options(ib), 1);
        (entries, q.options().ib, format!("{needs:?}"))
    };
    let [wider, as_wide] = [factored(1_000_000), factored(2)];
    assert_eq!(wider, as_wide);
    assert_eq!(wider.1, 2);
    // Tiles are no larger than their matrix.
    let small = Layout::general(3, 1, 100).unwrap();
    assert_eq!(Reflectors::<f64>::new(&small, options(50)).options().ib, 3);
}

#[test]
fn reflectors_of_one_tile_are_of_no_matrix_that_has_one_on_each_rank() {
    let grid = Distribution::BlockCyclic(Grid::new(2, 2).unwrap());
    let one = Layout::general(2, 2, 2).unwrap();
    let four = Layout::general(4, 4, 2).unwrap();
    for (layout, fits) in [(one, true), (four, false)] {
        for rank in 0..4 {
            let layout = layout.distributed(grid, Rank(rank)).unwrap();
            let unit = Tile::from_rows([[1.0, 0.0], [0.0, 1.0]]);
            let parts = (unit.clone(), unit);
            let q = Reflectors::of_tile(&layout, Options::of_order(2), parts);
            assert_eq!(q.is_ok(), fits, "rank {rank}: {q:?}");
            let is_here = q.is_ok_and(|q| q.tile().is_some());
            assert_eq!(is_here, fits && rank == 0, "rank {rank}");
        }
    }
}

#[test]
fn an_entry_that_is_not_finite_is_named() {
    for (row, col) in [(0, 0), (6, 0), (3, 2), (6, 4)] {
        for wrong in [f64::NAN, f64::INFINITY] {
            let entry = |i: usize, j: usize| if (i, j) == (row, col) { wrong } else { 1.0 };
            let a = TiledMatrix::from_fn(Layout::general(7, 5, 2).unwrap(), entry);
            let refused = factor(&a, Options::of_order(2), Backend::Auto, &Inline).unwrap_err();
            let text = refused.to_string();
            assert!(text.contains(&format!("entry ({row}, {col})")), "{text}");
        }
    }
}

#[test]
fn the_shortest_solution_is_orthogonal_to_what_the_matrix_forgets() {
    fn check<T: Scalar>() {
        let (m, n, nb) = (7, 17, 4);
        let a = Dense::random::<T>(m, n, 1);
        let b = Dense::random::<T>(m, 3, 2);
        let (tiles, sides) = (
            tiled::<T>(&a, nb, Format::ColumnMajor),
            tiled::<T>(&b, nb, Format::ColumnMajor),
        );
        let options = Options::of_order(nb).with_tree(Tree::Binary);
        let (x, report) = least_squares(&tiles, &sides, options, Backend::Auto, &Inline).unwrap();
        assert!(report.tasks > 0);
        let x = Dense::of(&x);
        // x lies in the range of Aᴴ: what is left of it there is nothing.
        let (basis, _) = a.adjoint().orthogonalised();
        let rest = x.minus(&basis.times(&basis.adjoint().times(&x)));
        let what = format!("{}", T::PRECISION);
        expect_small(
            &what,
            "range",
            rest.norm(),
            n as f64 * x.norm() * T::EPSILON,
        );
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

#[test]
fn what_no_solution_removes_is_orthogonal_to_the_matrix() {
    fn check<T: Scalar>() {
        let (m, n, nb) = (23, 9, 4);
        let (a, b) = (Dense::random::<T>(m, n, 1), Dense::random::<T>(m, 3, 2));
        let (tiles, sides) = (
            tiled::<T>(&a, nb, Format::ColumnMajor),
            tiled::<T>(&b, nb, Format::ColumnMajor),
        );
        let options = Options::of_order(nb).with_tree(Tree::Fibonacci);
        let (x, _) = least_squares(&tiles, &sides, options, Backend::Auto, &Inline).unwrap();
        let rest = b.minus(&a.times(&Dense::of(&x)));
        let off = a.adjoint().times(&rest).norm();
        let scale = m as f64 * a.norm() * b.norm() * T::EPSILON;
        expect_small(&T::PRECISION.to_string(), "Aᴴ(B − A·X)", off, scale);
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

/// Row 3 of column 0 may be of either.
#[test]
fn an_entry_that_is_not_finite_is_of_the_matrix_or_of_the_right_hand_sides() {
    let (n, options) = (5, Options::of_order(2));
    let side = |bad: f64| {
        let entry = move |i: usize, _: usize| if i == 3 { bad } else { 1.0 };
        TiledMatrix::from_fn(Layout::general(n, 1, 2).unwrap(), entry)
    };
    let matrix = |bad: f64| {
        let entry = move |i: usize, j: usize| match (i, j) {
            (3, 0) => bad,
            _ => f64::from(i == j),
        };
        TiledMatrix::from_fn(Layout::general(n, n, 2).unwrap(), entry)
    };
    let (auto, on) = (Backend::Auto, &Inline);
    for (of, a, b) in [
        (Given::Matrix, f64::NAN, f64::NAN),
        (Given::RightHandSides, 0.0, f64::NAN),
    ] {
        let (whole_a, whole_b) = (matrix(a), side(b));
        let entries = |x: &TiledMatrix<f64>, i, j| x.get(i, j).unwrap();
        let (entry, of_side) = (
            |i, j| entries(&whole_a, i, j),
            |i, j| entries(&whole_b, i, j),
        );
        let kept = matrix(if a.is_nan() { 0.0 } else { a });
        let factors = qr::pivoted(&kept, None, options, auto, on).unwrap();
        let mut refused = vec![
            qr::least_squares(&matrix(a), &side(b), options, auto, on).map(drop),
            refine::solve(&matrix(a), &side(b), auto, on).map(drop),
            whole::least_squares((n, n), &entry, 1, &of_side).map(drop),
        ];
        if of == Given::RightHandSides {
            refused.push(factors.solve(&side(b), auto, on).map(drop));
            let solved =
                qr::least_squares_minimum_norm(&matrix(a), &side(b), None, options, auto, on);
            refused.push(solved.map(drop));
        }
        for (call, refused) in refused.into_iter().enumerate() {
            let refused = refused.unwrap_err();
            let expected = match of {
                Given::Matrix => "matrix is not finite: entry (3, 0)",
                Given::RightHandSides => "right-hand sides are not finite: entry (3, 0)",
            };
            assert!(
                refused.to_string().starts_with(expected),
                "{call}: {refused}"
            );
        }
    }
}
