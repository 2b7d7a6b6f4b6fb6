//! LAPACK's acceptance test of LU: the matrix types of TESTING/LIN's GE path, in four precisions,
//! with its ratios and its INFO.
//!
//! # Law
//! A ratio of 30 or more fails, and so does a NaN; that of the factors must be below 2, because 30
//! cannot tell partial pivoting from none. Tournament pivoting must pass all of it, too; incremental
//! pivoting has factors of another form and is judged by its solutions.
//!
//! # Source
//! DCHKGE and DLATB4 of LAPACK's TESTING/LIN; types and ratios in own words.

use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Courier, Executor, Inline};
use dataflow_linalg::kernel::{Backend, Op};
use dataflow_linalg::lu::{self, Exchanges, Pivots};
use dataflow_linalg::matrix::generate::Random;
use dataflow_linalg::matrix::{Entries, Format, Layout, TiledMatrix};
use dataflow_linalg::scalar::{Precision, Scalar, c32, c64};
use std::num::NonZeroU32;

/// Rows and columns.
const SIZES: [usize; 7] = [0, 1, 2, 3, 5, 10, 50];
/// Tile orders.
const TILES: [usize; 3] = [1, 3, 20];
/// Right-hand sides.
const COLUMNS: [usize; 3] = [1, 2, 15];

/// A dense matrix to compute with.
#[derive(Clone)]
struct Dense<T> {
    rows: usize,
    cols: usize,
    elements: Vec<T>,
}

impl<T: Scalar> Dense<T> {
    fn from_fn(rows: usize, cols: usize, f: impl Fn(usize, usize) -> T) -> Self {
        let elements = (0..rows * cols).map(|n| f(n % rows, n / rows)).collect();
        Dense {
            rows,
            cols,
            elements,
        }
    }

    fn of(a: &TiledMatrix<T>) -> Self {
        Dense {
            rows: a.rows(),
            cols: a.cols(),
            elements: a.to_column_major().unwrap(),
        }
    }

    fn at(&self, i: usize, j: usize) -> T {
        self.elements[i + j * self.rows]
    }

    fn op(&self, op: Op) -> Self {
        match op {
            Op::NoTranspose => self.clone(),
            Op::Transpose => Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i)),
            Op::ConjTranspose => {
                Self::from_fn(self.cols, self.rows, |i, j| Scalar::conj(self.at(j, i)))
            }
        }
    }

    /// self − a·b
    fn minus_product(mut self, a: &Self, b: &Self) -> Self {
        for (j, k) in (0..self.cols).flat_map(|j| (0..a.cols).map(move |k| (j, k))) {
            let factor = b.at(k, j);
            for i in 0..self.rows {
                self.elements[i + j * self.rows] -= a.at(i, k) * factor;
            }
        }
        self
    }

    /// The sum of moduli of a column.
    fn column(&self, j: usize) -> f64 {
        (0..self.rows).map(|i| self.at(i, j).modulus()).sum()
    }

    fn norm(&self) -> f64 {
        let columns = (0..self.cols).map(|j| self.column(j));
        columns.fold(0.0, |a, b| if a >= b { a } else { b })
    }

    /// A ← H·A with the reflector of a random vector.
    fn reflect(&mut self, seed: u64) {
        let v: Vec<c64> = (0..self.rows)
            .map(|i| Random::new(seed).entry(i, 0))
            .collect();
        let square: f64 = v.iter().map(|x| (*x * x.conj()).re).sum();
        let v: Vec<T> = v
            .iter()
            .map(|x| T::from_parts(x.re / square.sqrt(), x.im / square.sqrt()))
            .collect();
        for j in 0..self.cols {
            let products = (0..self.rows).map(|i| v[i].conj() * self.at(i, j));
            let inner = products.fold(T::zero(), |sum, x| sum + x);
            let twice = inner + inner;
            let column = &mut self.elements[j * self.rows..][..self.rows];
            for (x, &v) in column.iter_mut().zip(&v) {
                *x -= v * twice;
            }
        }
    }
}

/// A matrix of a type: what LAPACK's generator would make, from other random numbers.
fn matrix<T: Scalar>(kind: usize, m: usize, n: usize) -> Dense<T> {
    let (largest, smallest) = match T::PRECISION {
        Precision::F32 | Precision::C32 => (2f64.powi(105), 2f64.powi(-105)),
        Precision::F64 | Precision::C64 => (2f64.powi(972), 2f64.powi(-972)),
    };
    let worst = 0.1 / (2.0 * T::EPSILON);
    let condition = match kind {
        8 => worst.sqrt(),
        9 => worst,
        _ => 2.0,
    };
    let short = m.min(n);
    let singular_value = |i: usize| condition.powf(-(i as f64) / (short.max(2) - 1) as f64);
    let mut a = Dense::<T>::from_fn(m, n, |i, j| match i == j {
        true => T::from_real(singular_value(i)),
        false => T::zero(),
    });
    if kind > 1 {
        for seed in 0..3 {
            a.reflect(10 + seed);
            a = a.op(Op::Transpose);
            a.reflect(20 + seed);
            a = a.op(Op::Transpose);
        }
    }
    let zeros = match kind {
        5 => 0..1,
        6 => short - 1..short,
        7 => short / 2..n,
        _ => 0..0,
    };
    Dense::from_fn(m, n, |i, j| match kind {
        2 if i > j => T::zero(),
        3 if i < j => T::zero(),
        10 => a.at(i, j) * T::from_real(smallest),
        11 => a.at(i, j) * T::from_real(largest),
        _ if zeros.contains(&j) => T::zero(),
        _ => a.at(i, j),
    })
}

/// The INFO that a type must have.
fn info(kind: usize, m: usize, n: usize) -> Option<u64> {
    let short = m.min(n) as u64;
    match kind {
        5 => Some(1),
        6 => Some(short),
        7 => Some(short / 2 + 1),
        _ => None,
    }
}

/// Whether a type is defined for a shape.
fn exists(kind: usize, m: usize, n: usize) -> bool {
    match (m.min(n), kind) {
        (0, kind) => kind == 1,
        (short, 6) => short >= 2,
        (short, 7) => short >= 3,
        _ => true,
    }
}

/// Factors and solves; counts the ratios that were looked at.
///
/// - `groups`: of a tournament; none takes partial pivoting
fn accept<T: Scalar>(
    kind: usize,
    (m, n): (usize, usize),
    nb: usize,
    groups: Option<NonZeroU32>,
) -> usize {
    let a = matrix::<T>(kind, m, n);
    let entries = |i: usize, j: usize| a.at(i, j);
    let format = Format::SubTiled { order: 7 };
    let layout = Layout::general(m, n, nb).unwrap().with_format(format);
    let factors = TiledMatrix::from_entries(layout, &entries);
    let pivots = Pivots::new(&factors);
    let what = format!(
        "{}, type {kind}, {m} x {n}, tiles of {nb}, {groups:?}",
        T::PRECISION
    );
    let done = match groups {
        None => lu::factor(&factors, &pivots, Backend::Auto, &Inline),
        Some(n) => lu::factor_by_tournament(&factors, &pivots, n, Backend::Auto, &Inline),
    };
    let found = done.as_ref().err().map(|error| {
        assert_eq!(error.name(), "singular", "{what}");
        error.index().unwrap()
    });
    assert_eq!(found, info(kind, m, n), "{what}");
    let ratio = lu::residual(&entries, &factors, &pivots).unwrap();
    assert!(ratio < 2.0, "{what}: the ratio of the factors is {ratio}");
    if m != n || found.is_some() {
        return 1;
    }
    let solve = |op, b: &Dense<T>| {
        let layout = Layout::general(n, b.cols, nb).unwrap();
        let x = TiledMatrix::from_fn(layout, |i, j| b.at(i, j));
        lu::solve(&factors, &pivots, op, &x, Backend::Auto, &Inline).unwrap();
        Dense::of(&x)
    };
    let identity = Dense::from_fn(n, n, |i, j| match i == j {
        true => T::one(),
        false => T::zero(),
    });
    let ops = [Op::NoTranspose, Op::Transpose, Op::ConjTranspose];
    for (op, columns) in ops
        .into_iter()
        .flat_map(|op| COLUMNS.map(|columns| (op, columns)))
    {
        let of_op = a.op(op);
        let exact = Dense::from_fn(n, columns, |i, j| Random::new(5).entry(i, j));
        let zero = Dense::from_fn(n, columns, |_, _| T::zero());
        let b = zero.minus_product(&of_op, &exact);
        let x = solve(op, &b);
        let rest = b.minus_product(&of_op, &x);
        for j in 0..columns {
            let scale = of_op.norm() * x.column(j) * T::EPSILON;
            let ratio = rest.column(j) / scale;
            assert!(
                n == 0 || ratio < 30.0,
                "{what}, {op:?}: the ratio of a solution is {ratio}"
            );
        }
    }
    let monitor = Monitor::new();
    let at = (&Inline as &dyn Executor, &Alone as &dyn Courier, &monitor);
    let (inverse, _) = lu::invert(factors, &pivots, Backend::Auto, at).unwrap();
    let inverse = Dense::of(&inverse);
    // The norms' product first: either alone may lie near the ends of the range.
    let scale = (a.norm() * inverse.norm()) * n as f64 * T::EPSILON;
    let ratio = identity.minus_product(&inverse, &a).norm() / scale;
    assert!(
        n == 0 || ratio < 30.0,
        "{what}: the ratio of the inverse is {ratio}"
    );
    2 + ops.len() * COLUMNS.len()
}

/// The same with incremental pivoting, whose factors have no ratio: INFO, and solutions of A·X = B.
fn accept_incremental<T: Scalar>(kind: usize, n: usize, nb: usize) -> usize {
    let a = matrix::<T>(kind, n, n);
    let factors = TiledMatrix::from_fn(Layout::general(n, n, nb).unwrap(), |i, j| a.at(i, j));
    let exchanges = Exchanges::new(&factors);
    let what = format!("{}, type {kind}, order {n}, tiles of {nb}", T::PRECISION);
    let done = lu::factor_incremental(&factors, &exchanges, Backend::Auto, &Inline);
    let found = done.as_ref().err().and_then(|error| error.index());
    assert_eq!(found, info(kind, n, n), "{what}");
    if found.is_some() {
        return 0;
    }
    for columns in COLUMNS {
        let exact = Dense::from_fn(n, columns, |i, j| Random::new(5).entry(i, j));
        let zero = Dense::from_fn(n, columns, |_, _| T::zero());
        let b = zero.minus_product(&a, &exact);
        let layout = Layout::general(n, columns, nb).unwrap();
        let x = TiledMatrix::from_fn(layout, |i, j| b.at(i, j));
        lu::solve_incremental(&factors, &exchanges, &x, Backend::Auto, &Inline).unwrap();
        let x = Dense::of(&x);
        let rest = b.minus_product(&a, &x);
        for j in 0..columns {
            let ratio = rest.column(j) / (a.norm() * x.column(j) * T::EPSILON);
            assert!(n == 0 || ratio < 30.0, "{what}: the ratio is {ratio}");
        }
    }
    COLUMNS.len()
}

fn accept_all<T: Scalar>() {
    let shapes = SIZES.into_iter().flat_map(|m| SIZES.map(|n| (m, n)));
    let mut ratios = 0;
    for ((m, n), nb) in shapes.flat_map(|shape| TILES.map(|nb| (shape, nb))) {
        for kind in (1..=11).filter(|&kind| exists(kind, m, n)) {
            // A tile for each entry is tried where there are not too many.
            if nb > 1 || m * n <= 100 {
                ratios += accept::<T>(kind, (m, n), nb, None);
            }
            if nb == 3 {
                ratios += accept::<T>(kind, (m, n), nb, NonZeroU32::new(4));
            }
            if m == n && nb > 1 {
                ratios += accept_incremental::<T>(kind, n, nb);
            }
        }
    }
    println!("{}: {ratios} ratios", T::PRECISION);
    assert!(ratios > 3000);
}

#[test]
fn every_type_is_accepted_in_f32() {
    accept_all::<f32>();
}

#[test]
fn every_type_is_accepted_in_f64() {
    accept_all::<f64>();
}

#[test]
fn every_type_is_accepted_in_c32() {
    accept_all::<c32>();
}

#[test]
fn every_type_is_accepted_in_c64() {
    accept_all::<c64>();
}
