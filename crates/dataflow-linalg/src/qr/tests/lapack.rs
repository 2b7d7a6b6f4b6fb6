//! LAPACK's tests of QR on its eight types of matrices: TESTING/LIN DCHKQR and DQRT01 to DQRT03.
//!
//! Every shape and type, each with a tile order and a tree of its turn; ratios as LAPACK's, and a
//! NaN fails.

use crate::error::LinalgError;
use crate::kernel::{Backend, Op, Side};
use crate::matrix::generate::Random;
use crate::matrix::{Entries, Format, Layout, TiledMatrix};
use crate::qr::{
    Options, Reduction, Tree, Where, apply, check, factor, form, least_squares, triangle,
};
use crate::scalar::{Scalar, c32, c64};
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Inline, Shuffled};

/// LAPACK's threshold.
const LARGEST_RATIO: f64 = 30.0;
/// Its rows and columns.
const EXTENTS: [usize; 7] = [0, 1, 2, 3, 5, 10, 50];

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

    fn unit(n: usize) -> Self {
        Self::from_fn(n, n, |i, j| c64::new(f64::from(u8::from(i == j)), 0.0))
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
        (0..self.n)
            .map(column)
            .fold(0.0, |a, b| if a >= b { a } else { b })
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

/// Singular values from `norm` down to `norm / condition`, random directions: LAPACK's DLATMS, mode 3.
fn conditioned<T: Scalar>(m: usize, n: usize, condition: f64) -> Dense {
    let k = m.min(n);
    let (u, _) = Dense::random::<T>(m, k, 1988).orthogonalised();
    let (v, _) = Dense::random::<T>(n, k, 1989).orthogonalised();
    let steps = k.saturating_sub(1).max(1) as f64;
    let scaled = Dense::from_fn(m, k, |i, j| {
        u.at(i, j) * condition.powf(-(j as f64) / steps)
    });
    scaled.times(&v.adjoint())
}

/// The matrix of one of LAPACK's types, from 1, rounded to `T`.
fn of_type<T: Scalar>(kind: usize, m: usize, n: usize) -> Dense {
    // LAPACK's precision of generation, and its range.
    let eps = 2.0 * T::EPSILON;
    let smallest = if size_of::<T::Real>() == 4 {
        -126
    } else {
        -1022
    };
    let small = 0.25 * 2f64.powi(smallest) / eps;
    let k = m.min(n);
    let diagonal = |i: usize| 2f64.powf(-(i as f64) / (k.max(2) - 1) as f64);
    let zero = c64::new(0.0, 0.0);
    let exact = match kind {
        1 => Dense::from_fn(m, n, |i, j| {
            if i == j {
                c64::new(diagonal(i), 0.0)
            } else {
                zero
            }
        }),
        2 => {
            let a = conditioned::<T>(m, n, 2.0);
            Dense::from_fn(m, n, |i, j| if i <= j { a.at(i, j) } else { zero })
        }
        3 => {
            let a = conditioned::<T>(m, n, 2.0);
            Dense::from_fn(m, n, |i, j| if i >= j { a.at(i, j) } else { zero })
        }
        4 => conditioned::<T>(m, n, 2.0),
        5 => conditioned::<T>(m, n, (0.1 / eps).sqrt()),
        6 => conditioned::<T>(m, n, 0.1 / eps),
        7 | 8 => {
            let scale = if kind == 7 { small } else { 1.0 / small };
            let a = conditioned::<T>(m, n, 2.0);
            Dense::from_fn(m, n, |i, j| a.at(i, j) * scale)
        }
        _ => unreachable!("type {kind}"),
    };
    Dense::from_fn(m, n, |i, j| {
        let x = T::from_parts(exact.at(i, j).re, exact.at(i, j).im);
        c64::new(x.re(), x.im())
    })
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

/// Tests 1 to 7 of one matrix.
fn tests_of<T: Scalar>(what: &str, a: &Dense, nb: usize, options: Options, format: Format) {
    let (m, n) = (a.m, a.n);
    let of_m = |scale: f64| m.max(1) as f64 * scale * T::EPSILON;
    let tiles = tiled::<T>(a, nb, format);
    let original = |i: usize, j: usize| T::from_parts(a.at(i, j).re, a.at(i, j).im);
    let (q, report) = factor(&tiles, options, Backend::Auto, &Inline).unwrap();
    assert_eq!(report.copies(), 0, "{what}");
    let explicit = form(&tiles, &q, m, Backend::Auto, &Inline, &Alone).unwrap();
    let (explicit, r) = (
        Dense::of(&explicit),
        Dense::of(&triangle(&tiles, &Inline).unwrap()),
    );
    assert!(
        (0..m.min(n)).all(|i| r.at(i, i).im == 0.0),
        "{what}: the diagonal is real"
    );
    let whole = Dense::from_fn(m, n, |i, j| {
        if i <= j {
            r.at(i, j)
        } else {
            c64::new(0.0, 0.0)
        }
    });
    let turned = explicit.adjoint().times(a);
    expect_small(
        what,
        "1, R − QᴴA",
        whole.minus(&turned).norm(),
        of_m(a.norm()),
    );
    let gram = explicit.adjoint().times(&explicit);
    expect_small(
        what,
        "2, I − QᴴQ",
        Dense::unit(m).minus(&gram).norm(),
        of_m(1.0),
    );
    let ratios = check(&original, &tiles, &q, &Inline, &Alone).unwrap();
    assert!(ratios.residual < LARGEST_RATIO, "{what}: {ratios:?}");
    assert!(ratios.orthogonality < LARGEST_RATIO, "{what}: {ratios:?}");
    for (side, op) in [
        (Side::Left, Op::NoTranspose),
        (Side::Right, Op::NoTranspose),
        (Side::Left, Op::ConjTranspose),
        (Side::Right, Op::ConjTranspose),
    ] {
        let of_op = match op {
            Op::NoTranspose => explicit.clone(),
            _ => explicit.adjoint(),
        };
        let (c, expected) = match side {
            Side::Left => {
                let c = Dense::random::<T>(m, n, 3);
                (c.clone(), of_op.times(&c))
            }
            Side::Right => {
                let c = Dense::random::<T>(n, m, 4);
                (c.clone(), c.times(&of_op))
            }
        };
        let applied = tiled::<T>(&c, nb, format);
        let report = apply(&tiles, &q, (side, op), &applied, Backend::Auto, &Inline).unwrap();
        assert_eq!(report.copies(), 0, "{what}");
        let off = Dense::of(&applied).minus(&expected).norm();
        expect_small(what, &format!("3-6, {side:?} {op:?}"), off, of_m(c.norm()));
    }
    if m > 0 && n > 0 {
        solves::<T>(what, a, nb, options, format);
    }
}

/// Test 7, for tall and wide: B − A·X of right-hand sides that have a solution.
fn solves<T: Scalar>(what: &str, a: &Dense, nb: usize, options: Options, format: Format) {
    let known = Dense::random::<T>(a.n, 2, 5);
    let b = a.times(&known);
    let (tiles, sides) = (tiled::<T>(a, nb, format), tiled::<T>(&b, nb, format));
    let b = Dense::of(&sides);
    let monitor = Monitor::new();
    let here = Where {
        on: &Inline,
        courier: &Alone,
        monitor: &monitor,
    };
    let (x, _) = least_squares(&tiles, &sides, options, Backend::Auto, here).unwrap();
    let x = Dense::of(&x);
    let off = b.minus(&a.times(&x)).norm();
    let scale = a.norm() * x.norm() * T::EPSILON * a.m.max(a.n) as f64;
    expect_small(what, "7, B − A·X", off, scale);
}

fn every_type<T: Scalar>() {
    let (greedy, binary) = (Reduction::Greedy, Reduction::Binary);
    let trees = [
        Tree::Flat,
        Tree::Binary,
        Tree::Greedy,
        Tree::Fibonacci,
        Tree::Hierarchical {
            p: 2,
            a: 2,
            low: greedy,
            high: binary,
        },
    ];
    let mut turn = 0;
    for m in EXTENTS {
        for n in EXTENTS {
            for kind in 1..=8 {
                turn += 1;
                let nb = [3, 20, 7, 50][turn % 4];
                let (tree, ib) = (trees[turn % 5], [1, 3, 20][turn % 3]);
                let format = match turn % 2 {
                    0 => Format::ColumnMajor,
                    _ => Format::SubTiled { order: 8 },
                };
                let what = format!("{m} × {n} of type {kind}, nb = {nb}, {tree}, ib = {ib}");
                let what = format!("{what}, {format:?}, {}", T::PRECISION);
                let a = of_type::<T>(kind, m, n);
                tests_of::<T>(&what, &a, nb, Options { tree, ib }, format);
            }
        }
    }
}

#[test]
fn all_types_of_matrices_pass_all_tests_in_f32() {
    every_type::<f32>();
}

#[test]
fn all_types_of_matrices_pass_all_tests_in_f64() {
    every_type::<f64>();
}

#[test]
fn all_types_of_matrices_pass_all_tests_in_c32() {
    every_type::<c32>();
}

#[test]
fn all_types_of_matrices_pass_all_tests_in_c64() {
    every_type::<c64>();
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
    let q = form(&a, &q, 37, Backend::Auto, on, &Alone).unwrap();
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
fn a_matrix_without_full_rank_has_no_solution_and_the_first_zero_is_named() {
    let monitor = Monitor::new();
    let here = Where {
        on: &Inline,
        courier: &Alone,
        monitor: &monitor,
    };
    // Columns (wide: rows) from the third on are zero.
    for (m, n) in [(9, 5), (5, 9), (5, 5)] {
        let entry = |i: usize, j: usize| {
            let on_diagonal = i == j && i < 2;
            if on_diagonal { 1.0 } else { 0.0 }
        };
        let a = TiledMatrix::from_fn(Layout::general(m, n, 2).unwrap(), entry);
        let b = TiledMatrix::from_fn(Layout::general(m, 1, 2).unwrap(), |_, _| 1.0);
        let options = Options::of_order(2);
        let refused = least_squares(&a, &b, options, Backend::Auto, here).unwrap_err();
        assert!(
            matches!(refused, LinalgError::Singular { index: 3 }),
            "{refused}"
        );
    }
}

#[test]
fn the_shortest_solution_is_orthogonal_to_what_the_matrix_forgets() {
    fn check<T: Scalar>() {
        let monitor = Monitor::new();
        let here = Where {
            on: &Inline,
            courier: &Alone,
            monitor: &monitor,
        };
        let (m, n, nb) = (7, 17, 4);
        let a = Dense::random::<T>(m, n, 1);
        let b = Dense::random::<T>(m, 3, 2);
        let (tiles, sides) = (
            tiled::<T>(&a, nb, Format::ColumnMajor),
            tiled::<T>(&b, nb, Format::ColumnMajor),
        );
        let options = Options::of_order(nb).with_tree(Tree::Binary);
        let (x, report) = least_squares(&tiles, &sides, options, Backend::Auto, here).unwrap();
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
        let monitor = Monitor::new();
        let here = Where {
            on: &Inline,
            courier: &Alone,
            monitor: &monitor,
        };
        let (m, n, nb) = (23, 9, 4);
        let (a, b) = (Dense::random::<T>(m, n, 1), Dense::random::<T>(m, 3, 2));
        let (tiles, sides) = (
            tiled::<T>(&a, nb, Format::ColumnMajor),
            tiled::<T>(&b, nb, Format::ColumnMajor),
        );
        let options = Options::of_order(nb).with_tree(Tree::Fibonacci);
        let (x, _) = least_squares(&tiles, &sides, options, Backend::Auto, here).unwrap();
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
