//! The kernels of tile QR against the textbook: LAPACK's DQT and DQX tests with their ratios.

use super::*;

/// LAPACK's threshold.
const LARGEST_RATIO: f64 = 30.0;

const EVERY_WAY: [(Side, Op); 4] = [
    (Side::Left, Op::NoTranspose),
    (Side::Left, Op::ConjTranspose),
    (Side::Right, Op::NoTranspose),
    (Side::Right, Op::ConjTranspose),
];

impl Dense {
    fn zero(rows: usize, cols: usize) -> Self {
        Self::from_fn(rows, cols, |_, _| c64::new(0.0, 0.0))
    }

    fn identity(n: usize) -> Self {
        Self::from_fn(n, n, |i, j| c64::new(f64::from(u8::from(i == j)), 0.0))
    }

    fn of<T: Scalar>(tile: &Tile<T>) -> Self {
        let number = |x: T| c64::new(x.re(), x.im());
        Self::from_fn(tile.rows(), tile.cols(), |i, j| number(tile.get(i, j)))
    }

    fn minus(&self, other: &Self) -> Self {
        Self::from_fn(self.rows, self.cols, |i, j| self.at(i, j) - other.at(i, j))
    }

    fn times(&self, other: &Self) -> Self {
        let minus = Self::zero(self.rows, other.cols).minus_product(self, other);
        Self::from_fn(self.rows, other.cols, |i, j| -minus.at(i, j))
    }

    /// self on top of other
    fn above(&self, other: &Self) -> Self {
        Self::from_fn(self.rows + other.rows, self.cols, |i, j| {
            match i < self.rows {
                true => self.at(i, j),
                false => other.at(i - self.rows, j),
            }
        })
    }

    fn rows_of(&self, rows: std::ops::Range<usize>) -> Self {
        Self::from_fn(rows.len(), self.cols, |i, j| self.at(rows.start + i, j))
    }

    fn upper(&self) -> Self {
        let zero = c64::new(0.0, 0.0);
        Self::from_fn(self.rows, self.cols, |i, j| {
            if i <= j { self.at(i, j) } else { zero }
        })
    }

    fn one_norm(&self) -> f64 {
        let column = |j| (0..self.rows).map(|i| self.at(i, j).norm()).sum::<f64>();
        (0..self.cols)
            .map(column)
            .fold(0.0, |a, b| if a >= b { a } else { b })
    }
}

/// Fails unless ‖x − y‖₁ is small beside `scale` · `terms` · ε.
fn expect_equal<T: Scalar>(what: &str, x: &Dense, y: &Dense, scale: f64, terms: usize) {
    let (off, allowed) = (
        x.minus(y).one_norm(),
        scale * terms.max(1) as f64 * T::EPSILON,
    );
    let ratio = if off == 0.0 { 0.0 } else { off / allowed };
    assert!(
        ratio < LARGEST_RATIO,
        "{what}, {}: ratio {ratio:.1e}",
        T::PRECISION
    );
}

/// Q by applying it to an identity; and that Qᴴ and both sides agree with it.
fn explicit<T: Scalar>(
    what: &str,
    order: usize,
    apply: impl Fn((Side, Op), &Dense) -> Dense,
) -> Dense {
    let q = apply(EVERY_WAY[0], &Dense::identity(order));
    let gram = q.op(Op::ConjTranspose).times(&q);
    expect_equal::<T>(
        &format!("{what}: QᴴQ"),
        &gram,
        &Dense::identity(order),
        1.0,
        order,
    );
    for (side, op) in EVERY_WAY {
        let other = 1 + order / 2;
        let (c, expected) = match side {
            Side::Left => {
                let c = Dense::random::<T>(order, other, 5);
                (c.clone(), q.op(op).times(&c))
            }
            Side::Right => {
                let c = Dense::random::<T>(other, order, 6);
                (c.clone(), c.times(&q.op(op)))
            }
        };
        let what = format!("{what}: {side:?} {op:?}");
        let found = apply((side, op), &c);
        expect_equal::<T>(&what, &found, &expected, c.one_norm(), order);
    }
    q
}

/// Formats of A, of C, and inner blocks.
const CASES: [(Format, Format, usize); 5] = [
    (Format::ColumnMajor, Format::ColumnMajor, 4),
    (Format::ColumnMajor, Format::SubTiled { order: 7 }, 1),
    (
        Format::SubTiled { order: 16 },
        Format::SubTiled { order: 16 },
        16,
    ),
    (Format::SubTiled { order: 7 }, Format::ColumnMajor, 5),
    (
        Format::SubTiled { order: 56 },
        Format::SubTiled { order: 56 },
        24,
    ),
];

#[test]
fn geqrt_factors_and_gemqrt_applies_its_q() {
    fn check<T: Scalar>() {
        for (m, n) in [
            (0, 3),
            (3, 0),
            (1, 1),
            (1, 4),
            (5, 2),
            (2, 5),
            (17, 17),
            (50, 20),
            (20, 31),
            (70, 20),
        ] {
            for (format, other, ib) in CASES {
                for backend in backends() {
                    let what = format!("geqrt {m}×{n} {format:?} ib = {ib} {backend}");
                    let factor = |a: &mut Tile<T>, v: &mut Tile<T>, t: &mut Tile<T>| {
                        geqrt(backend, a, v, t);
                    };
                    factored_case(&what, factor, (m, n), (format, other, ib));
                }
            }
        }
    }
    for_every_scalar!(check);
}

/// Tiles in other formats go in blocks, each of which is reflected column by column up to eight.
#[test]
fn small_tiles_are_factored_whole_and_up_to_eight_columns_with_the_bits_of_a_block() {
    fn check<T: Scalar>() {
        let factor = |a: &mut Tile<T>, v: &mut Tile<T>, t: &mut Tile<T>| {
            geqrt(Backend::Auto, a, v, t);
        };
        for (m, n) in [
            (1, 4),
            (5, 2),
            (9, 8),
            (64, 7),
            (25, 9),
            (17, 17),
            (31, 50),
            (64, 64),
        ] {
            for ib in [4, 5, 24] {
                let [whole, in_blocks] =
                    [Format::ColumnMajor, Format::SubTiled { order: 64 }].map(|format| {
                        let what = format!("geqrt {m}×{n} {format:?} ib = {ib}");
                        factored_case::<T>(&what, factor, (m, n), (format, format, ib))
                    });
                // What is behind the panel of a block is reflected by products.
                let is_one_panel = n <= ib.min(8).min(m);
                assert!(
                    !is_one_panel || whole == in_blocks,
                    "{m}×{n}, ib = {ib}, {}",
                    T::PRECISION
                );
            }
        }
    }
    for_every_scalar!(check);
}

/// Fails unless A = Q·R, R is a triangle with a real diagonal, and Q is unitary and is applied either way. Returns R, V and T.
fn factored_case<T: Scalar>(
    what: &str,
    factor: impl Fn(&mut Tile<T>, &mut Tile<T>, &mut Tile<T>),
    (m, n): (usize, usize),
    (format, other, ib): (Format, Format, usize),
) -> [Vec<c64>; 3] {
    let (a, k) = (Dense::random::<T>(m, n, 1), m.min(n));
    let mut r = a.tile::<T>(format);
    let mut v = Dense::random::<T>(m, k, 2).tile::<T>(format);
    let mut t = Dense::random::<T>(ib, k, 3).tile::<T>(Format::ColumnMajor);
    factor(&mut r, &mut v, &mut t);
    let q = explicit::<T>(what, m, |way, c| {
        let mut c = c.tile::<T>(other);
        gemqrt(Backend::Auto, way, &v, &t, &mut c);
        Dense::of(&c)
    });
    let r = Dense::of(&r);
    assert_eq!(r.elements, r.upper().elements, "{what}: R is a triangle");
    assert!(
        (0..k).all(|i| r.at(i, i).im == 0.0),
        "{what}: its diagonal is real"
    );
    let rest = r.minus_product(&q.op(Op::ConjTranspose), &a);
    expect_equal::<T>(what, &rest, &Dense::zero(m, n), a.one_norm(), m);
    [r, Dense::of(&v), Dense::of(&t)].map(|found| found.elements)
}

#[test]
fn tpqrt_eliminates_a_tile_and_tpmqrt_applies_its_q() {
    fn check<T: Scalar>() {
        for shape in [Below::Square, Below::Triangle] {
            for (m, n) in [
                (0, 3),
                (3, 0),
                (1, 1),
                (1, 4),
                (5, 2),
                (17, 17),
                (40, 20),
                (20, 31),
            ] {
                for (format, other, ib) in CASES {
                    for backend in backends() {
                        tpqrt_case::<T>(shape, (m, n), (format, other, ib), backend);
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

fn tpqrt_case<T: Scalar>(
    shape: Below,
    (m, n): (usize, usize),
    (format, other, ib): (Format, Format, usize),
    backend: Backend,
) {
    let what = format!("tpqrt {shape:?} {m}×{n} {format:?} ib = {ib} {backend}");
    // The tile above may be higher than wide.
    let high = n + 3;
    let top = Dense::random::<T>(high, n, 1).upper();
    let top = Dense::from_fn(high, n, |i, j| match i == j {
        true => c64::new(top.at(i, j).re, 0.0),
        false => top.at(i, j),
    });
    let below = Dense::random::<T>(m, n, 2);
    let below = if shape == Below::Triangle {
        below.upper()
    } else {
        below
    };
    let (mut r, mut v) = (top.tile::<T>(format), below.tile::<T>(format));
    let mut t = Dense::random::<T>(ib, n, 3).tile::<T>(Format::ColumnMajor);
    tpqrt(backend, shape, &mut r, &mut v, &mut t);
    if shape == Below::Triangle {
        let v = Dense::of(&v);
        assert_eq!(v.elements, v.upper().elements, "{what}: V is a triangle");
    }
    // Q of order n + m; what the upper tile has beyond n stays as it is.
    let q = explicit::<T>(&what, n + m, |(side, op), c| {
        let turned = |c: &Dense| match side {
            Side::Left => c.clone(),
            Side::Right => c.op(Op::ConjTranspose),
        };
        let c = turned(c);
        let kept = Dense::random::<T>(2, c.cols, 7);
        let mut c1 = turned(&c.rows_of(0..n).above(&kept)).tile::<T>(other);
        let mut c2 = turned(&c.rows_of(n..n + m)).tile::<T>(other);
        tpmqrt(backend, (side, op), shape, (&v, &t), (&mut c1, &mut c2));
        let c1 = turned(&Dense::of(&c1));
        assert_eq!(
            c1.rows_of(n..n + 2).elements,
            kept.elements,
            "{what}: rows beyond"
        );
        turned(&c1.rows_of(0..n).above(&turned(&Dense::of(&c2))))
    });
    let r = Dense::of(&r).rows_of(0..n);
    assert!(
        (0..n).all(|i| r.at(i, i).im == 0.0),
        "{what}: the diagonal is real"
    );
    let a = top.rows_of(0..n).above(&below);
    let expected = r.above(&Dense::zero(m, n));
    let rest = expected.minus_product(&q.op(Op::ConjTranspose), &a);
    expect_equal::<T>(&what, &rest, &Dense::zero(n + m, n), a.one_norm(), n + m);
}

#[test]
fn reflectors_neither_overflow_nor_underflow() {
    fn check<T: Scalar>() {
        let tiny = if size_of::<T::Real>() == 4 {
            -122
        } else {
            -1018
        };
        for exponent in [tiny, -tiny] {
            let scale = 2f64.powi(exponent);
            let (m, n) = (20, 7);
            let a = Dense::random::<T>(m, n, 1);
            let scaled = Dense::from_fn(m, n, |i, j| a.at(i, j) * scale);
            let factored = |a: &Dense| {
                let mut r = a.tile::<T>(Format::ColumnMajor);
                let mut v = Dense::zero(m, n).tile::<T>(Format::ColumnMajor);
                let mut t = Dense::zero(4, n).tile::<T>(Format::ColumnMajor);
                geqrt(Backend::Faer, &mut r, &mut v, &mut t);
                (Dense::of(&r), Dense::of(&v))
            };
            let ((r, v), (r_scaled, v_scaled)) = (factored(&a), factored(&scaled));
            let r_scaled = Dense::from_fn(m, n, |i, j| r_scaled.at(i, j) / scale);
            let what = format!("2^{exponent}");
            expect_equal::<T>(&what, &r, &r_scaled, a.one_norm(), m);
            expect_equal::<T>(&what, &v, &v_scaled, v.one_norm(), m);
        }
    }
    for_every_scalar!(check);
}

#[test]
fn columns_of_any_scale_beside_each_other_keep_their_digits() {
    fn check<T: Scalar>() {
        let far = if size_of::<T::Real>() == 4 { 60 } else { 480 };
        let (m, n) = (21, 13);
        // Short beside long, in either order, within a narrow panel and across its end.
        let scale = |j: usize| 2f64.powi([0, far, -far, 0, -far, far, -far][j % 7]);
        let a = Dense::random::<T>(m, n, 1);
        let scaled = Dense::from_fn(m, n, |i, j| a.at(i, j) * scale(j));
        let factored = |a: &Dense| {
            let mut r = a.tile::<T>(Format::ColumnMajor);
            let mut v = Dense::zero(m, n).tile::<T>(Format::ColumnMajor);
            let mut t = Dense::zero(13, n).tile::<T>(Format::ColumnMajor);
            geqrt(Backend::Faer, &mut r, &mut v, &mut t);
            (Dense::of(&r), Dense::of(&v))
        };
        let ((r, v), (r_scaled, v_scaled)) = (factored(&a), factored(&scaled));
        let r_scaled = Dense::from_fn(m, n, |i, j| r_scaled.at(i, j) / scale(j));
        let what = T::PRECISION.to_string();
        expect_equal::<T>(&what, &r, &r_scaled, a.one_norm(), m);
        expect_equal::<T>(&what, &v, &v_scaled, v.one_norm(), m);
    }
    for_every_scalar!(check);
}

#[test]
#[should_panic(expected = "tpqrt: 2 × 2 tile under 1 × 2, T 1 × 2")]
fn tpqrt_refuses_a_triangle_that_is_too_small() {
    let (mut r, mut b) = (
        Tile::from_rows([[1.0, 2.0]]),
        Tile::from_rows([[1.0, 2.0]; 2]),
    );
    tpqrt(
        Backend::Auto,
        Below::Square,
        &mut r,
        &mut b,
        &mut Tile::from_rows([[0.0; 2]]),
    );
}

#[test]
fn reflectors_of_denormal_numbers_are_orthogonal() {
    fn check<T: Scalar>() {
        // Not by `powi`: compiled without optimisation it makes zero of the second.
        let tiny = match size_of::<T::Real>() {
            4 => f64::from_bits((1023 - 140) << 52),
            _ => f64::from_bits(1 << (1074 - 1066)),
        };
        let (m, n) = (20, 7);
        let a = Dense::random::<T>(m, n, 1);
        let a = Dense::from_fn(m, n, |i, j| a.at(i, j) * tiny);
        let mut r = a.tile::<T>(Format::ColumnMajor);
        let mut v = Dense::zero(m, n).tile::<T>(Format::ColumnMajor);
        let mut t = Dense::zero(4, n).tile::<T>(Format::ColumnMajor);
        geqrt(Backend::Faer, &mut r, &mut v, &mut t);
        assert!((0..n).all(|i| r.get(i, i).modulus() > 0.0), "R is not lost");
        explicit::<T>("denormal", m, |way, c| {
            let mut c = c.tile::<T>(Format::ColumnMajor);
            gemqrt(Backend::Faer, way, &v, &t, &mut c);
            Dense::of(&c)
        });
    }
    for_every_scalar!(check);
}
