//! LAPACK's types of matrices: their spectra, their size, their zeros.

use crate::dense::Dense;
use dataflow::linalg::scalar::{Scalar, c64};

/// Uniform in (−1, 1), the same on every machine.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(seed)
    }

    fn next(&mut self) -> f64 {
        let Noise(state) = self;
        *state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let mixed = (*state ^ *state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn number<T: Scalar>(&mut self) -> c64 {
        let re = self.next();
        c64::new(re, if T::IS_COMPLEX { self.next() } else { 0.0 })
    }

    fn numbers<T: Scalar>(&mut self, n: usize) -> Vec<c64> {
        (0..n).map(|_| self.number::<T>()).collect()
    }

    /// A matrix of such numbers, of type `T`.
    pub fn matrix<T: Scalar>(&mut self, rows: usize, cols: usize) -> Dense {
        let numbers = self.numbers::<T>(rows * cols);
        Dense::from_fn(rows, cols, |i, j| numbers[i + j * rows]).rounded::<T>()
    }
}

/// The largest condition number, and the smallest size; dlatb4's BADC2 and SMALL.
fn limits<T: Scalar>() -> (f64, f64) {
    let precision = 2.0 * T::EPSILON;
    let smallest = match T::EPSILON < 1e-10 {
        true => f64::MIN_POSITIVE,
        false => f32::MIN_POSITIVE.into(),
    };
    (0.1 / precision, 0.25 * (smallest / precision))
}

/// Singular values from 1 down to 1 / condition, geometrically: dlatms with MODE = 3.
fn spectrum(rows: usize, cols: usize, condition: f64) -> Dense {
    let steps = (rows.min(cols).max(2) - 1) as f64;
    Dense::from_fn(rows, cols, |i, j| match i == j {
        true => c64::new(condition.powf(-(i as f64) / steps), 0.0),
        false => c64::new(0.0, 0.0),
    })
}

/// U·D·V of a spectrum and random unitary U and V.
fn turned<T: Scalar>(rows: usize, cols: usize, condition: f64, noise: &mut Noise) -> Dense {
    let mut a = spectrum(rows, cols, condition);
    for _ in 0..rows {
        a.reflect(&noise.numbers::<T>(rows));
    }
    let mut a = a.adjoint();
    for _ in 0..cols {
        a.reflect(&noise.numbers::<T>(cols));
    }
    a.adjoint()
}

/// A matrix with the same singular values that is an upper triangle: R of QR. The triangle of any matrix would
/// have a condition that grows with each column, up to 1/ε of 50.
fn triangular(mut a: Dense) -> Dense {
    for k in 0..a.rows.min(a.cols) {
        let below: Vec<c64> = (0..a.rows)
            .map(|i| {
                if i < k {
                    c64::new(0.0, 0.0)
                } else {
                    a.at(i, k)
                }
            })
            .collect();
        let length = below.iter().map(|x| x.norm_sqr()).sum::<f64>().sqrt();
        let phase = match below[k].norm() {
            0.0 => c64::new(1.0, 0.0),
            size => below[k] / size,
        };
        let mut v = below;
        v[k] += phase * length;
        a.reflect(&v);
    }
    a.only(|i, j| i <= j)
}

/// A Hermitian positive definite matrix of PO's types 1 to 9 with the INFO that it must have; none
/// if there is no such type of this order.
pub fn definite<T: Scalar>(kind: usize, n: usize) -> Option<(Dense, u64)> {
    let mut noise = Noise::new(1988 + kind as u64);
    let (bad, small) = limits::<T>();
    let (condition, size) = match kind {
        6 => (bad.sqrt(), 1.0),
        7 => (bad, 1.0),
        8 => (2.0, small),
        9 => (2.0, 1.0 / small),
        _ => (2.0, 1.0),
    };
    let zeroed = match kind {
        3 if n >= 1 => Some(0),
        4 if n >= 2 => Some(n - 1),
        5 if n >= 3 => Some(n / 2),
        3..=5 => return None,
        _ if n == 0 && kind > 1 => return None,
        _ => None,
    };
    let mut a = spectrum(n, n, condition);
    if kind > 1 {
        for _ in 0..n {
            let v = noise.numbers::<T>(n);
            a.reflect(&v);
            a = a.adjoint();
            a.reflect(&v);
        }
    }
    let a = a.scaled(size).rounded::<T>();
    let a = Dense::from_fn(n, n, |i, j| match zeroed {
        Some(zero) if i == zero || j == zero => c64::new(0.0, 0.0),
        _ if i == j => c64::new(a.at(i, i).re, 0.0),
        _ if i > j => a.at(i, j),
        _ => a.at(j, i).conj(),
    });
    Some((a, zeroed.map_or(0, |zero| zero as u64 + 1)))
}

/// A matrix of GE's types 1 to 11 with the INFO that it must have; none if there is no such type of
/// this shape.
pub fn general<T: Scalar>(kind: usize, m: usize, n: usize) -> Option<(Dense, u64)> {
    let short = m.min(n);
    let zeros = match kind {
        5 if short >= 1 => 0..1,
        6 if short >= 2 => short - 1..short,
        7 if short >= 3 => short / 2..n,
        5..=7 => return None,
        _ if short == 0 && kind > 1 => return None,
        _ => 0..0,
    };
    // QR's types are these without those that have zeros.
    let of_kind = match kind {
        1..=4 => kind,
        5..=7 => 4,
        _ => kind - 3,
    };
    let a = regular::<T>(of_kind, m, n);
    let info = if zeros.is_empty() {
        0
    } else {
        zeros.start as u64 + 1
    };
    Some((a.only(|_, j| !zeros.contains(&j)), info))
}

/// A matrix of QR's types 1 to 8.
pub fn regular<T: Scalar>(kind: usize, m: usize, n: usize) -> Dense {
    let mut noise = Noise::new(1988 + kind as u64);
    let (bad, small) = limits::<T>();
    let mut turned_by = |condition| turned::<T>(m, n, condition, &mut noise);
    let a = match kind {
        1 => spectrum(m, n, 2.0),
        2 => triangular(turned_by(2.0)),
        3 => {
            let wide = turned::<T>(n, m, 2.0, &mut noise);
            triangular(wide).adjoint()
        }
        4 => turned_by(2.0),
        5 => turned_by(bad.sqrt()),
        6 => turned_by(bad),
        7 => turned_by(2.0).scaled(small),
        8 => turned_by(2.0).scaled(1.0 / small),
        _ => unreachable!("type {kind}"),
    };
    a.rounded::<T>()
}
