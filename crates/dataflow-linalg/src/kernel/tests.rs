//! Every kernel against textbook loops in `c64`: all scalars, backends, formats, ragged shapes.
//!
//! # Law
//! The loops below share nothing with the kernels but the reading of a tile.

use std::sync::Arc;

use dataflow_core::port::{Heap, Memory};

use super::*;
use crate::matrix::tile::{Format, Tile};
use crate::scalar::{Scalar, c32, c64};

/// All that differ; `Auto` is faer.
fn backends() -> Vec<Backend> {
    vec![
        Backend::Faer,
        #[cfg(feature = "openblas")]
        Backend::OpenBlas,
    ]
}

const FORMATS: [Format; 5] = [
    Format::ColumnMajor,
    Format::SubTiled { order: 7 },
    Format::SubTiled { order: 16 },
    Format::SubTiled { order: 56 },
    Format::SubTiled { order: 96 },
];

/// Calls a generic check once for each kind of number.
macro_rules! for_every_scalar {
    ($check:ident) => {
        $check::<f32>();
        $check::<f64>();
        $check::<c32>();
        $check::<c64>();
    };
}

mod triangles;

/// A matrix for the textbook: exact enough to judge by.
#[derive(Clone)]
struct Dense {
    rows: usize,
    cols: usize,
    elements: Vec<c64>,
}

impl Dense {
    fn from_fn(rows: usize, cols: usize, f: impl Fn(usize, usize) -> c64) -> Self {
        let elements = (0..rows * cols).map(|n| f(n % rows, n / rows)).collect();
        Self {
            rows,
            cols,
            elements,
        }
    }

    /// Numbers in [−1, 1] without pattern, exact in `T`.
    fn random<T: Scalar>(rows: usize, cols: usize, seed: u64) -> Self {
        Self::from_fn(rows, cols, |i, j| {
            let x = T::from_parts(noise(seed, i, j, 0), noise(seed, i, j, 1));
            c64::new(x.re(), x.im())
        })
    }

    /// A well-conditioned lower triangle with a positive diagonal and zeros above.
    fn triangle<T: Scalar>(n: usize, seed: u64) -> Self {
        let random = Self::random::<T>(n, n, seed);
        Self::from_fn(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => c64::new(0.0, 0.0),
            std::cmp::Ordering::Equal => c64::new(1.5 + random.at(i, j).re / 2.0, 0.0),
            std::cmp::Ordering::Greater => rounded::<T>(random.at(i, j) / n as f64),
        })
    }

    /// That triangle as it stands or transposed, its diagonal turned into ones if asked for.
    fn triangle_of<T: Scalar>(n: usize, (part, diagonal): (Triangle, Diagonal)) -> Self {
        let mut triangle = Self::triangle::<T>(n, 1);
        if diagonal == Diagonal::Unit {
            (0..n).for_each(|i| triangle.set(i, i, c64::new(1.0, 0.0)));
        }
        match part {
            Triangle::Lower => triangle,
            Triangle::Upper => triangle.op(Op::Transpose),
        }
    }

    /// A well-conditioned positive definite matrix: Hermitian, its diagonal dominant.
    fn positive<T: Scalar>(n: usize, seed: u64) -> Self {
        let triangle = Self::triangle::<T>(n, seed);
        Self::from_fn(n, n, |i, j| {
            if i >= j {
                triangle.at(i, j)
            } else {
                triangle.at(j, i).conj()
            }
        })
    }

    fn at(&self, i: usize, j: usize) -> c64 {
        self.elements[i + j * self.rows]
    }

    fn set(&mut self, i: usize, j: usize, x: c64) {
        self.elements[i + j * self.rows] = x;
    }

    fn op(&self, op: Op) -> Self {
        match op {
            Op::NoTranspose => self.clone(),
            Op::Transpose => Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i)),
            Op::ConjTranspose => Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i).conj()),
        }
    }

    /// self − a·b
    fn minus_product(&self, a: &Self, b: &Self) -> Self {
        Self::from_fn(self.rows, self.cols, |i, j| {
            let sum: c64 = (0..a.cols).map(|l| a.at(i, l) * b.at(l, j)).sum();
            self.at(i, j) - sum
        })
    }

    fn tile<T: Scalar>(&self, format: Format) -> Tile<T> {
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        Tile::from_fn(self.rows, self.cols, format, &memory, |i, j| {
            T::from_parts(self.at(i, j).re, self.at(i, j).im)
        })
    }
}

fn rounded<T: Scalar>(x: c64) -> c64 {
    let x = T::from_parts(x.re, x.im);
    c64::new(x.re(), x.im())
}

fn noise(seed: u64, i: usize, j: usize, part: u64) -> f64 {
    let mut x = seed ^ (i as u64) << 40 ^ (j as u64) << 16 ^ part << 8;
    for _ in 0..3 {
        x = (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (x >> 40) as f64 / (1u64 << 23) as f64 - 1.0
}

/// Fails unless every element with `i ≥ j − above` is within rounding of the expected one.
fn expect_close<T: Scalar>(what: &str, got: &Tile<T>, expected: &Dense, terms: usize, lower: bool) {
    assert_eq!((got.rows(), got.cols()), (expected.rows, expected.cols));
    let allowed = 8.0 * T::EPSILON * (terms + 4) as f64;
    for j in 0..got.cols() {
        for i in if lower { j } else { 0 }..got.rows() {
            let x = got.get(i, j);
            let error = (c64::new(x.re(), x.im()) - expected.at(i, j)).norm();
            assert!(
                error <= allowed,
                "{what}, {}: element ({i}, {j}) is {x:?}, not {}",
                T::PRECISION,
                expected.at(i, j)
            );
        }
    }
}

/// The bits of all elements, column by column.
fn bits<T: Scalar>(tile: &Tile<T>) -> Vec<[u64; 2]> {
    let places = (0..tile.cols()).flat_map(|j| (0..tile.rows()).map(move |i| (i, j)));
    places.map(|(i, j)| tile.get(i, j).bits()).collect()
}

/// Puts NaN wherever a kernel must not look: above the diagonal, imaginary parts on it.
fn poison<T: Scalar>(tile: &mut Tile<T>, diagonal_too: bool) {
    for j in 0..tile.cols() {
        for i in 0..j {
            tile.set(i, j, T::from_parts(f64::NAN, f64::NAN));
        }
        if diagonal_too {
            let re = tile.get(j, j).re();
            tile.set(j, j, T::from_parts(re, f64::NAN));
        }
    }
}

/// Puts NaN wherever a solve must not look: the other triangle, and a diagonal taken as ones.
fn poison_other<T: Scalar>(tile: &mut Tile<T>, (part, diagonal): (Triangle, Diagonal)) {
    let (m, n) = (tile.rows(), tile.cols());
    for (i, j) in (0..n).flat_map(|j| (0..m).map(move |i| (i, j))) {
        let other = match part {
            Triangle::Lower => i < j,
            Triangle::Upper => i > j,
        };
        if other || i == j && diagonal == Diagonal::Unit {
            tile.set(i, j, T::from_parts(f64::NAN, f64::NAN));
        }
    }
}

/// Fails unless the upper triangle still is NaN and the diagonal is real.
fn expect_untouched_above<T: Scalar>(what: &str, tile: &Tile<T>) {
    for j in 0..tile.cols() {
        for i in 0..j {
            assert!(tile.get(i, j).re().is_nan(), "{what}: ({i}, {j}) written");
        }
        assert_eq!(tile.get(j, j).im(), 0.0, "{what}: diagonal {j}");
    }
}

#[test]
fn gemm_subtracts_the_product_for_every_operation_and_mixture_of_formats() {
    fn check<T: Scalar>() {
        let shapes = [
            (0, 3, 2),
            (3, 0, 2),
            (3, 2, 0),
            (1, 1, 1),
            (1, 70, 9),
            (70, 1, 9),
            (5, 7, 1),
            (17, 9, 33),
            (97, 60, 112),
            (100, 3, 100),
        ];
        for (m, n, k) in shapes {
            for (op_a, op_b) in [
                (Op::NoTranspose, Op::ConjTranspose),
                (Op::NoTranspose, Op::NoTranspose),
                (Op::ConjTranspose, Op::NoTranspose),
                (Op::ConjTranspose, Op::ConjTranspose),
                (Op::Transpose, Op::NoTranspose),
                (Op::NoTranspose, Op::Transpose),
            ] {
                let a = Dense::random::<T>(m, k, 1);
                let b = Dense::random::<T>(k, n, 2);
                let c = Dense::random::<T>(m, n, 3);
                let expected = c.minus_product(&a, &b);
                for (f, &format) in FORMATS.iter().enumerate() {
                    // The three formats agree, differ by one, or all differ.
                    for step in [0, 1, 2] {
                        let [fa, fb] = [f + step, f + 2 * step].map(|f| FORMATS[f % 5]);
                        for backend in backends() {
                            let (ta, tb) = (a.op(op_a).tile::<T>(fa), b.op(op_b).tile::<T>(fb));
                            let mut tc = c.tile::<T>(format);
                            gemm_op(backend, (op_a, &ta), (op_b, &tb), &mut tc);
                            let what = format!(
                                "{op_a:?} {op_b:?} {m}×{n}×{k} {fa:?} {fb:?} {format:?} {backend}"
                            );
                            expect_close(&what, &tc, &expected, k, false);
                        }
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn gemm_alone_is_c_minus_a_times_b_conjugate_transposed() {
    fn check<T: Scalar>() {
        let (a, b) = (Dense::random::<T>(9, 4, 1), Dense::random::<T>(6, 4, 2));
        let c = Dense::random::<T>(9, 6, 3);
        let format = Format::SubTiled { order: 4 };
        let mut tile = c.tile::<T>(format);
        gemm(Backend::Auto, &a.tile(format), &b.tile(format), &mut tile);
        let expected = c.minus_product(&a, &b.op(Op::ConjTranspose));
        expect_close("gemm", &tile, &expected, 4, false);
    }
    for_every_scalar!(check);
}

#[test]
fn herk_updates_the_lower_triangle_and_looks_nowhere_else() {
    fn check<T: Scalar>() {
        for (n, k) in [
            (0, 2),
            (1, 1),
            (3, 0),
            (6, 9),
            (49, 5),
            (100, 97),
            (131, 60),
        ] {
            let a = Dense::random::<T>(n, k, 1);
            let c = Dense::positive::<T>(n, 2);
            let expected = c.minus_product(&a, &a.op(Op::ConjTranspose));
            for (f, &format) in FORMATS.iter().enumerate() {
                for other in [format, FORMATS[(f + 1) % 5]] {
                    for backend in backends() {
                        let what = format!("herk {n}×{k} {format:?} {other:?} {backend}");
                        let mut tile = c.tile::<T>(format);
                        poison(&mut tile, true);
                        herk(backend, &a.tile(other), &mut tile);
                        expect_close(&what, &tile, &expected, k, true);
                        if k > 0 {
                            expect_untouched_above(&what, &tile);
                        }
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn trsm_undoes_the_product_with_the_triangle() {
    fn check<T: Scalar>() {
        for (m, n) in [
            (0, 3),
            (3, 0),
            (1, 1),
            (2, 5),
            (60, 17),
            (40, 100),
            (131, 120),
        ] {
            let l = Dense::triangle::<T>(n, 1);
            let x = Dense::random::<T>(m, n, 2);
            let zero = Dense::from_fn(m, n, |_, _| c64::new(0.0, 0.0));
            // B = −X·Lᴴ
            let b = zero.minus_product(&x, &l.op(Op::ConjTranspose));
            let expected = Dense::from_fn(m, n, |i, j| -x.at(i, j));
            for (f, &format) in FORMATS.iter().enumerate() {
                for other in [format, FORMATS[(f + 1) % 5], FORMATS[(f + 2) % 5]] {
                    for backend in backends() {
                        let what = format!("trsm {m}×{n} {format:?} {other:?} {backend}");
                        let mut triangle = l.tile::<T>(other);
                        poison(&mut triangle, false);
                        let mut tile = b.tile::<T>(format);
                        trsm(backend, &triangle, &mut tile);
                        expect_close(&what, &tile, &expected, n, false);
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

/// The textbook's factor.
fn factor(a: &Dense) -> Dense {
    let n = a.rows;
    let mut l = Dense::from_fn(n, n, |_, _| c64::new(0.0, 0.0));
    for j in 0..n {
        let square: f64 = (0..j).map(|k| l.at(j, k).norm_sqr()).sum();
        let root = (a.at(j, j).re - square).sqrt();
        l.set(j, j, c64::new(root, 0.0));
        for i in j + 1..n {
            let sum: c64 = (0..j).map(|k| l.at(i, k) * l.at(j, k).conj()).sum();
            l.set(i, j, (a.at(i, j) - sum) / root);
        }
    }
    l
}

/// Every side, operation, triangle and kind of diagonal.
fn every_solve() -> impl Iterator<Item = (Side, Op, (Triangle, Diagonal))> {
    let sides = [Side::Left, Side::Right].into_iter();
    let with_op = sides.flat_map(|side| {
        let ops = [Op::NoTranspose, Op::Transpose, Op::ConjTranspose];
        ops.map(move |op| (side, op))
    });
    with_op
        .flat_map(|(side, op)| {
            let parts = [Triangle::Lower, Triangle::Upper];
            let kinds = [Diagonal::NonUnit, Diagonal::Unit];
            parts.map(move |part| kinds.map(move |diagonal| (side, op, (part, diagonal))))
        })
        .flatten()
}

#[test]
fn trsm_op_undoes_the_product_with_any_triangle_from_either_side() {
    fn check<T: Scalar>() {
        let shapes = [(0, 3), (3, 0), (1, 1), (5, 2), (17, 1), (100, 61)];
        for ((m, n), (side, op, shape)) in shapes
            .into_iter()
            .flat_map(|size| every_solve().map(move |kind| (size, kind)))
        {
            let a = Dense::triangle_of::<T>(if side == Side::Left { m } else { n }, shape);
            let x = Dense::random::<T>(m, n, 2);
            let zero = Dense::from_fn(m, n, |_, _| c64::new(0.0, 0.0));
            let b = match side {
                Side::Left => zero.minus_product(&a.op(op), &x),
                Side::Right => zero.minus_product(&x, &a.op(op)),
            };
            let expected = Dense::from_fn(m, n, |i, j| -x.at(i, j));
            for (f, &format) in FORMATS.iter().enumerate() {
                for other in [format, FORMATS[(f + 1) % 5]] {
                    for backend in backends() {
                        let what = format!(
                            "{side:?} {op:?} {shape:?} {m}×{n} {format:?} {other:?} {backend}"
                        );
                        let mut triangle = a.tile::<T>(other);
                        poison_other(&mut triangle, shape);
                        let mut tile = b.tile::<T>(format);
                        trsm_op(backend, side, (op, shape, &triangle), &mut tile);
                        expect_close(&what, &tile, &expected, m.max(n), false);
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn a_unit_matrix_is_solved_as_any_other_and_keeps_its_zeros() {
    fn check<T: Scalar>() {
        let kinds = every_solve().filter(|(side, ..)| *side == Side::Left);
        for (n, (_, op, shape)) in kinds.flat_map(|kind| [0, 1, 5, 48, 49, 101].map(|n| (n, kind)))
        {
            let a = Dense::triangle_of::<T>(n, shape);
            let unit = |i: usize, j: usize| c64::new(if i == j { 1.0 } else { 0.0 }, 0.0);
            for (f, &format) in FORMATS.iter().enumerate() {
                // The largest take nearly all of the time: each format once, beside another.
                let others = [FORMATS[(f + 1) % 5], format];
                for &other in others.iter().take(if n > 49 { 1 } else { 2 }) {
                    let what = format!("{op:?} {shape:?} {n} {format:?} {other:?}");
                    let mut triangle = a.tile::<T>(other);
                    poison_other(&mut triangle, shape);
                    let mut found = Dense::from_fn(n, n, unit).tile::<T>(format);
                    trsm_unit(Backend::Auto, (op, shape, &triangle), &mut found);
                    let inverse = Dense::from_fn(n, n, |i, j| {
                        let is_lower = (shape.0 == Triangle::Lower) == (op == Op::NoTranspose);
                        let (x, is_zero) = (found.get(i, j), if is_lower { i < j } else { i > j });
                        assert!(!is_zero || x == T::zero(), "{what}: ({i}, {j}) is {x:?}");
                        c64::new(x.re(), x.im())
                    });
                    let rest = Dense::from_fn(n, n, unit).minus_product(&a.op(op), &inverse);
                    let worst = rest.elements.iter().map(|x| x.norm()).fold(0.0, f64::max);
                    assert!(
                        worst <= 8.0 * T::EPSILON * (n + 4) as f64,
                        "{what}: {worst:e}"
                    );
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn potrf_gives_the_factor_and_looks_at_the_lower_triangle_alone() {
    fn check<T: Scalar>() {
        for n in [0, 1, 2, 3, 5, 17, 48, 49, 96, 97, 131, 200] {
            let a = Dense::positive::<T>(n, 7);
            let expected = factor(&a);
            for format in FORMATS {
                for backend in backends() {
                    let what = format!("potrf {n} {format:?} {backend}");
                    let mut clean = a.tile::<T>(format);
                    assert_eq!(potrf(backend, &mut clean), Ok(()), "{what}");
                    expect_close(&what, &clean, &expected, n, true);

                    let mut poisoned = a.tile::<T>(format);
                    poison(&mut poisoned, true);
                    assert_eq!(potrf(backend, &mut poisoned), Ok(()), "{what}");
                    expect_untouched_above(&what, &poisoned);
                    for j in 0..n {
                        for i in j..n {
                            let (x, y) = (clean.get(i, j), poisoned.get(i, j));
                            assert_eq!(x.bits(), y.bits(), "{what}: ({i}, {j})");
                        }
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn potrf_names_the_first_bad_pivot_at_every_position() {
    fn check<T: Scalar>() {
        let n = 70;
        let good = Dense::positive::<T>(n, 5);
        for at in 0..n {
            // Each row: what is wrong, whether INFO must name it, and what the pivot is.
            type Row = (&'static str, fn(&mut Dense, usize), fn(f64) -> bool);
            let rows: [Row; 5] = [
                (
                    "negative",
                    |a, p| a.set(p, p, c64::new(-3.0, 0.0)),
                    |x| (-4.0..=-3.0).contains(&x),
                ),
                (
                    "zero row",
                    |a, p| (0..=p).for_each(|j| a.set(p, j, c64::new(0.0, 0.0))),
                    |x| x == 0.0,
                ),
                (
                    "NaN",
                    |a, p| a.set(p, p, c64::new(f64::NAN, 0.0)),
                    f64::is_nan,
                ),
                (
                    "−∞",
                    |a, p| a.set(p, p, c64::new(f64::NEG_INFINITY, 0.0)),
                    |x| x == f64::NEG_INFINITY,
                ),
                (
                    "NaN left",
                    |a, p| a.set(p, 0, c64::new(f64::NAN, 0.0)),
                    f64::is_nan,
                ),
            ];
            for (what, spoil, is_pivot) in rows {
                let mut a = good.clone();
                spoil(&mut a, at);
                // What comes later must not matter.
                for later in at + 1..n {
                    a.set(later, later, c64::new(-1.0, 0.0));
                }
                for format in [FORMATS[0], FORMATS[1], FORMATS[3]] {
                    for backend in backends() {
                        let what =
                            format!("{what} at {at}, {format:?}, {backend}, {}", T::PRECISION);
                        let failed = potrf(backend, &mut a.tile::<T>(format));
                        let failed = failed.expect_err(&what);
                        assert_eq!(failed.index, at + 1, "{what}");
                        assert!(is_pivot(failed.pivot), "{what}: pivot {}", failed.pivot);
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn an_infinite_pivot_is_greater_than_zero() {
    fn check<T: Scalar>() {
        let n = 115;
        for at in [0, 1, 3, 47, 48, 60, 100, 114] {
            let mut a = Dense::positive::<T>(n, 5);
            a.set(at, at, c64::new(f64::INFINITY, 0.0));
            for format in FORMATS {
                for backend in backends() {
                    let mut tile = a.tile::<T>(format);
                    let result = potrf(backend, &mut tile);
                    assert_eq!(result, Ok(()), "{at} {format:?} {backend} {}", T::PRECISION);
                    assert_eq!(tile.get(at, at).re(), f64::INFINITY);
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn grouping_rows_or_columns_changes_no_bit() {
    fn check<T: Scalar>() {
        let (m, n, k) = (192, 160, 200);
        let (a, b) = (Dense::random::<T>(m, k, 1), Dense::random::<T>(n, k, 2));
        let (c, l) = (Dense::random::<T>(m, n, 3), Dense::triangle::<T>(n, 4));
        let sub_tiled = Format::SubTiled { order: 32 };
        // Sub-tiles make the same calls whatever lies beside them; OpenBLAS computes the edge of a
        // column-major block in another order than its middle.
        let mut cases = vec![(Backend::Faer, Format::ColumnMajor)];
        cases.extend(backends().into_iter().map(|backend| (backend, sub_tiled)));
        for (backend, format) in cases {
            let run = |rows: std::ops::Range<usize>| {
                let part =
                    |x: &Dense| Dense::from_fn(rows.len(), x.cols, |i, j| x.at(rows.start + i, j));
                let mut tile = part(&c).tile::<T>(format);
                gemm(backend, &part(&a).tile(format), &b.tile(format), &mut tile);
                trsm(backend, &l.tile(format), &mut tile);
                tile
            };
            let whole = run(0..m);
            for rows in [0..64, 64..96, 96..192] {
                let part = run(rows.clone());
                for j in 0..n {
                    for i in rows.clone() {
                        let (x, y) = (whole.get(i, j), part.get(i - rows.start, j));
                        assert_eq!(x.bits(), y.bits(), "{backend} {} ({i}, {j})", T::PRECISION);
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

/// The reciprocal of a pivot below 5.6e-309 is infinite. All is exact here: powers of two times
/// small integers, which subnormal numbers hold as well.
#[test]
fn a_triangle_is_solved_with_whatever_the_size_of_its_pivots() {
    fn check<T: Scalar>() {
        let (low, high) = match T::EPSILON < 1e-10 {
            true => (-1060, 1019),
            false => (-140, 124),
        };
        let (n, cols) = (11, 3);
        let small = |i: usize, j: usize| ((3 * i + 5 * j) % 7) as f64 - 3.0;
        for (exponent, times) in [(low, 1.0), (high, 0.0625)] {
            // In two steps: 2⁻¹⁰⁶⁰ alone is no power that `powi` reaches.
            let scale = 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
            let im = if T::IS_COMPLEX { 1.0 } else { 0.0 };
            let triangle = |lower: bool| {
                move |i: usize, j: usize| match (i == j, (i > j) == lower) {
                    (true, _) => c64::new(8.0, 8.0 * im) * scale,
                    (_, true) => c64::new(small(i, j), im * small(j, i + 1)) * scale,
                    _ => c64::new(f64::NAN, f64::NAN),
                }
            };
            let x = Dense::from_fn(n, cols, |i, j| c64::new(small(j, i), 0.0) * times);
            for (lower, op) in [
                (true, Op::NoTranspose),
                (true, Op::ConjTranspose),
                (false, Op::NoTranspose),
                (false, Op::Transpose),
            ] {
                let entry = triangle(lower);
                let applied = |i: usize, j: usize| match op {
                    Op::NoTranspose => entry(i, j),
                    Op::Transpose => entry(j, i),
                    Op::ConjTranspose => entry(j, i).conj(),
                };
                let is_stored = |i: usize, j: usize| {
                    let (i, j) = if op == Op::NoTranspose {
                        (i, j)
                    } else {
                        (j, i)
                    };
                    i == j || (i > j) == lower
                };
                let product = |i: usize, j: usize| {
                    let inner = (0..n).filter(|&k| is_stored(i, k));
                    inner.map(|k| applied(i, k) * x.at(k, j)).sum::<c64>()
                };
                let kind = match lower {
                    true => Triangle::Lower,
                    false => Triangle::Upper,
                };
                for format in [Format::ColumnMajor, Format::SubTiled { order: 4 }] {
                    let a = Dense::from_fn(n, n, entry).tile::<T>(format);
                    let mut left = Dense::from_fn(n, cols, product).tile::<T>(format);
                    let with = (op, (kind, Diagonal::NonUnit), &a);
                    trsm_op(Backend::Faer, Side::Left, with, &mut left);
                    for (i, j) in (0..n).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                        let (found, is) = (left.get(i, j), x.at(i, j));
                        let case = format!("{} 2^{exponent} {kind:?} {op:?}", T::PRECISION);
                        assert_eq!(
                            (found.re(), found.im()),
                            (is.re, is.im),
                            "{case} ({i}, {j})"
                        );
                    }
                }
            }
            // From the right, with Lᴴ.
            let entry = triangle(true);
            let product = |j: usize, i: usize| {
                (0..=i)
                    .map(|k| entry(i, k).conj() * x.at(k, j))
                    .sum::<c64>()
            };
            let mut right = Dense::from_fn(cols, n, product).tile::<T>(Format::ColumnMajor);
            let l = Dense::from_fn(n, n, entry).tile::<T>(Format::ColumnMajor);
            trsm(Backend::Faer, &l, &mut right);
            for (i, j) in (0..n).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                assert_eq!(
                    right.get(j, i).re(),
                    x.at(i, j).re,
                    "{} 2^{exponent}",
                    T::PRECISION
                );
            }
        }
    }
    for_every_scalar!(check);
}

/// A quotient of two entries may be no number where neither they nor the solution is far from one: all
/// is exact here.
#[test]
fn a_triangle_is_solved_with_whatever_the_quotients_of_its_entries() {
    fn check<T: Scalar>() {
        let large = 2f64.powi(if T::EPSILON < 1e-10 { 570 } else { 70 });
        let n = 7;
        // With the pivot of x's first entry and that of its second: what stands between them.
        for (first, second, beside) in [
            (large, 1.0 / large, 1.0 / large),
            (1.0 / large, large, large),
        ] {
            for k in 0..n - 1 {
                let entry = |i: usize, j: usize| match (i, j) {
                    _ if (i, j) == (k, k + 1) => beside,
                    _ if i != j => 0.0,
                    _ if i == k => first,
                    _ if i == k + 1 => second,
                    _ => 1.0,
                };
                let x = |i: usize| match i {
                    _ if i == k => 1.0 / first,
                    _ if i == k + 1 => 1.0 / second,
                    _ => 3.0,
                };
                let b = |i: usize| match i {
                    _ if i == k => 1.0 + beside / second,
                    _ if i == k + 1 => 1.0,
                    _ => 3.0,
                };
                let dense = |f: &dyn Fn(usize, usize) -> f64, rows, cols| {
                    Dense::from_fn(rows, cols, |i, j| f(i, j).into()).tile::<T>(Format::ColumnMajor)
                };
                let upper = dense(&entry, n, n);
                let lower = dense(&|i, j| entry(j, i), n, n);
                let triangles = [
                    (
                        Op::NoTranspose,
                        (Triangle::Upper, Diagonal::NonUnit),
                        &upper,
                    ),
                    (
                        Op::ConjTranspose,
                        (Triangle::Lower, Diagonal::NonUnit),
                        &lower,
                    ),
                ];
                let case = format!("{} {k} {first:e}", T::PRECISION);
                for (with, cols) in triangles.iter().flat_map(|with| [(*with, 1), (*with, 9)]) {
                    let mut columns = dense(&|i, _| b(i), n, cols);
                    trsm_op(Backend::Faer, Side::Left, with, &mut columns);
                    for (i, j) in (0..n).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                        assert_eq!(columns.get(i, j).re(), x(i), "{case}, left");
                    }
                }
                // X·Lᴴ with the rows and columns of L in reverse.
                let turned = dense(&|i, j| entry(n - 1 - i, n - 1 - j), n, n);
                let mut row = dense(&|_, j| b(n - 1 - j), 1, n);
                trsm(Backend::Faer, &turned, &mut row);
                (0..n).for_each(|i| assert_eq!(row.get(0, n - 1 - i).re(), x(i), "{case}, right"));
            }
        }
    }
    for_every_scalar!(check);
}

/// With feature `openblas` anywhere in a build, everybody's default changed its bits.
#[test]
fn what_nobody_asked_for_has_the_bits_of_faer_in_every_build() {
    fn of<T: Scalar>(backend: Backend) -> Vec<[u64; 2]> {
        let (a, b) = (
            Dense::random::<T>(96, 1000, 1),
            Dense::random::<T>(64, 1000, 2),
        );
        let format = Format::ColumnMajor;
        let mut c = Dense::random::<T>(96, 64, 3).tile::<T>(format);
        gemm(backend, &a.tile(format), &b.tile(format), &mut c);
        let bits = |n: usize| c.get(n % 96, n / 96).bits();
        (0..96 * 64).map(bits).collect()
    }
    fn check<T: Scalar>() {
        assert!(of::<T>(Backend::default()) == of::<T>(Backend::Faer));
    }
    for_every_scalar!(check);
}

#[test]
fn every_thread_and_every_repetition_gives_the_same_bits() {
    fn check<T: Scalar>() {
        let n = 150;
        let (a, b) = (Dense::positive::<T>(n, 1), Dense::random::<T>(70, n, 2));
        for backend in backends() {
            for format in [Format::ColumnMajor, Format::SubTiled { order: 64 }] {
                let run = || {
                    let (mut l, mut x) = (a.tile::<T>(format), b.tile::<T>(format));
                    let mut c = Dense::positive::<T>(70, 3).tile::<T>(format);
                    assert_eq!(potrf(backend, &mut l), Ok(()));
                    trsm(backend, &l, &mut x);
                    herk(backend, &x, &mut c);
                    let mut y = b.op(Op::ConjTranspose).tile::<T>(Format::ColumnMajor);
                    trsm_left(backend, &l, Op::NoTranspose, &mut y);
                    [bits(&l), bits(&x), bits(&c), bits(&y)]
                };
                let first = run();
                std::thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| (0..5).for_each(|_| assert!(run() == first)));
                    }
                });
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
#[should_panic(expected = "gemm: 2 × 2 ← (2 × 3) · (2 × 2)")]
fn gemm_refuses_shapes_that_disagree() {
    let (a, b) = (
        Tile::from_rows([[0.0; 3]; 2]),
        Tile::from_rows([[0.0; 2]; 2]),
    );
    gemm(Backend::Auto, &a, &b, &mut b.clone());
}

#[test]
#[should_panic(expected = "trsm: 3 × 3 triangle for 2 × 2")]
fn trsm_refuses_a_triangle_of_another_order() {
    let l = Tile::from_rows([[1.0; 3]; 3]);
    trsm(Backend::Auto, &l, &mut Tile::from_rows([[0.0; 2]; 2]));
}

#[test]
#[should_panic(expected = "potrf: 2 × 3 tile")]
fn potrf_refuses_a_tile_that_is_not_square() {
    let _unreached = potrf(Backend::Auto, &mut Tile::from_rows([[1.0; 3]; 2]));
}

#[test]
fn a_backend_is_known_by_its_name_and_a_missing_one_is_an_error_value() {
    for backend in backends() {
        assert_eq!(backend.to_string().parse(), Ok(backend));
    }
    let unknown = BackendError::Unknown("mkl".to_owned());
    assert_eq!("mkl".parse::<Backend>(), Err(unknown));
    #[cfg(not(feature = "openblas"))]
    {
        let missing = "openblas".parse::<Backend>().unwrap_err();
        assert_eq!(missing, BackendError::NotInThisBuild("openblas".to_owned()));
        assert!(missing.to_string().contains("--features openblas"));
    }
}

/// Textbook partial pivoting in `c64`, by rows: L\U and the swaps.
fn eliminated(a: &Dense) -> (Dense, Vec<u32>) {
    let (mut a, steps) = (a.clone(), a.rows.min(a.cols));
    let size = |x: c64| x.re.abs() + x.im.abs();
    let mut pivots = Vec::new();
    for k in 0..steps {
        let mut pivot = k;
        for i in k..a.rows {
            if size(a.at(i, k)) > size(a.at(pivot, k)) {
                pivot = i;
            }
        }
        pivots.push(pivot as u32);
        for j in 0..a.cols {
            let (above, below) = (a.at(k, j), a.at(pivot, j));
            a.set(k, j, below);
            a.set(pivot, j, above);
        }
        for i in k + 1..a.rows {
            let factor = a.at(i, k) / a.at(k, k);
            a.set(i, k, factor);
            for j in k + 1..a.cols {
                a.set(i, j, a.at(i, j) - factor * a.at(k, j));
            }
        }
    }
    (a, pivots)
}

#[test]
fn getrf_takes_the_textbooks_pivots_and_leaves_its_factors() {
    fn check<T: Scalar>() {
        let shapes = [
            (1, 1),
            (5, 1),
            (1, 5),
            (8, 8),
            (9, 30),
            (33, 17),
            (100, 61),
            (211, 96),
        ];
        for (m, n) in shapes {
            let a = Dense::random::<T>(m, n, 7);
            let (expected, swaps) = eliminated(&a);
            let growth = expected
                .elements
                .iter()
                .map(|x| x.norm())
                .fold(1.0, f64::max);
            for format in FORMATS {
                for backend in backends() {
                    let what = format!("getrf {m}×{n} {format:?} {backend}");
                    let mut tile = a.tile::<T>(format);
                    let mut pivots = vec![0; m.min(n)];
                    assert_eq!(getrf(backend, &mut tile, &mut pivots), None, "{what}");
                    assert_eq!(pivots, swaps, "{what}");
                    // Errors grow with the factors and the condition of the leading blocks.
                    let terms = 40 * m.min(n) * growth as usize;
                    expect_close(&what, &tile, &expected, terms, false);
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn getrf_completes_past_a_zero_pivot_and_names_the_first() {
    fn check<T: Scalar>() {
        for backend in backends() {
            let random = Dense::random::<T>(20, 12, 5);
            let a = Dense::from_fn(20, 12, |i, j| match j {
                3 | 9 => c64::new(0.0, 0.0),
                _ => random.at(i, j),
            });
            let mut tile = a.tile::<T>(Format::ColumnMajor);
            let mut pivots = [0; 12];
            assert_eq!(getrf(backend, &mut tile, &mut pivots), Some(4), "{backend}");
            assert_eq!((pivots[3], pivots[9]), (3, 9));
            assert!(tile.as_slice().iter().all(|x| x.is_finite()));
            let mut product = a.tile::<T>(Format::ColumnMajor);
            laswp(&mut product, &pivots);
            let zero = Dense::from_fn(20, 12, |_, _| c64::new(0.0, 0.0));
            let x = |i, j| rounded_at(&tile, i, j);
            let one = c64::new(1.0, 0.0);
            let l = Dense::from_fn(20, 12, |i, j| match i.cmp(&j) {
                std::cmp::Ordering::Less => c64::new(0.0, 0.0),
                std::cmp::Ordering::Equal => one,
                std::cmp::Ordering::Greater => x(i, j),
            });
            let u = Dense::from_fn(
                12,
                12,
                |i, j| if i <= j { -x(i, j) } else { c64::new(0.0, 0.0) },
            );
            expect_close(
                "P·A = L·U",
                &product,
                &zero.minus_product(&l, &u),
                12,
                false,
            );
        }
    }
    for_every_scalar!(check);
}

fn rounded_at<T: Scalar>(tile: &Tile<T>, i: usize, j: usize) -> c64 {
    c64::new(tile.get(i, j).re(), tile.get(i, j).im())
}

#[test]
fn getrf_breaks_ties_by_the_smallest_row_and_sees_both_parts() {
    let mut tile = Tile::from_rows([[1.0], [-2.0], [2.0], [-2.0]]);
    let mut pivots = [9];
    getrf(Backend::Auto, &mut tile, &mut pivots);
    assert_eq!(
        (pivots, tile),
        ([1], Tile::from_rows([[-2.0], [-0.5], [-1.0], [1.0]]))
    );
    // |re| + |im| is 4 and 3.5, the moduli are 2.83 and 3.5.
    let mut tile = Tile::from_rows([[c64::new(3.5, 0.0)], [c64::new(2.0, -2.0)]]);
    getrf(Backend::Auto, &mut tile, &mut pivots);
    assert_eq!(pivots, [1]);
}

#[test]
fn getrf_divides_by_pivots_below_the_smallest_normal_number() {
    fn check<T: Scalar>(tiny: f64) {
        let [small, smaller] = [tiny, tiny / 2.0].map(T::from_real);
        let mut tile = Tile::from_rows([[smaller], [small]]);
        assert_eq!(getrf(Backend::Auto, &mut tile, &mut [0]), None);
        assert_eq!(
            tile,
            Tile::from_rows([[small], [T::from_real(0.5)]]),
            "{}",
            T::PRECISION
        );
    }
    // 1 / x overflows for each of them.
    check::<f64>(f64::MIN_POSITIVE / 16.0);
    check::<c64>(f64::MIN_POSITIVE / 16.0);
    check::<f32>((f32::MIN_POSITIVE / 16.0).into());
    check::<c32>((f32::MIN_POSITIVE / 16.0).into());
}
mod qr;

#[test]
fn elimination_of_no_rows_is_done_at_once_also_with_a_zero_pivot() {
    fn check<T: Scalar>() {
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        for format in FORMATS {
            let mut none = Tile::<T>::new(0, 1, format, &memory);
            for pivot in [0.0, 2.0] {
                let u = Tile::from_rows([[T::from_real(pivot)]]);
                for backend in backends() {
                    eliminate(backend, &u, &mut none);
                }
            }
            assert_eq!((none.rows(), none.cols()), (0, 1));
        }
    }
    for_every_scalar!(check);
}
