//! A matrix to compute with by the textbook: all entries, in f64, real or complex.

use dataflow::linalg::scalar::{Scalar, c64};

#[derive(Clone, Debug)]
pub struct Dense {
    pub rows: usize,
    pub cols: usize,
    entries: Vec<c64>,
}

impl Dense {
    pub fn from_fn(rows: usize, cols: usize, entry: impl Fn(usize, usize) -> c64) -> Self {
        let entries = (0..rows * cols)
            .map(|n| entry(n % rows, n / rows))
            .collect();
        Dense {
            rows,
            cols,
            entries,
        }
    }

    pub fn zeros(rows: usize, cols: usize) -> Self {
        Dense::from_fn(rows, cols, |_, _| c64::new(0.0, 0.0))
    }

    pub fn unit(n: usize) -> Self {
        Dense::from_fn(n, n, |i, j| c64::new(f64::from(u8::from(i == j)), 0.0))
    }

    pub fn at(&self, i: usize, j: usize) -> c64 {
        self.entries[i + j * self.rows]
    }

    pub fn set(&mut self, i: usize, j: usize, entry: c64) {
        self.entries[i + j * self.rows] = entry;
    }

    /// An entry as a number of another type.
    pub fn entry<T: Scalar>(&self, i: usize, j: usize) -> T {
        T::from_parts(self.at(i, j).re, self.at(i, j).im)
    }

    /// The nearest matrix of another type's numbers.
    pub fn rounded<T: Scalar>(&self) -> Self {
        Dense::from_fn(self.rows, self.cols, |i, j| {
            let entry: T = self.entry(i, j);
            c64::new(entry.re(), entry.im())
        })
    }

    pub fn transposed(&self) -> Self {
        Dense::from_fn(self.cols, self.rows, |i, j| self.at(j, i))
    }

    pub fn adjoint(&self) -> Self {
        Dense::from_fn(self.cols, self.rows, |i, j| self.at(j, i).conj())
    }

    pub fn scaled(&self, by: f64) -> Self {
        Dense::from_fn(self.rows, self.cols, |i, j| self.at(i, j) * by)
    }

    /// With what a condition does not meet set to zero.
    pub fn only(&self, counts: impl Fn(usize, usize) -> bool) -> Self {
        Dense::from_fn(self.rows, self.cols, |i, j| match counts(i, j) {
            true => self.at(i, j),
            false => c64::new(0.0, 0.0),
        })
    }

    pub fn times(&self, other: &Self) -> Self {
        assert_eq!(self.cols, other.rows);
        let mut product = Dense::zeros(self.rows, other.cols);
        if self.rows == 0 {
            return product;
        }
        for (j, column) in product.entries.chunks_exact_mut(self.rows).enumerate() {
            for (k, of_self) in self.entries.chunks_exact(self.rows).enumerate() {
                let factor = other.at(k, j);
                let pairs = column.iter_mut().zip(of_self);
                pairs.for_each(|(sum, entry)| *sum += entry * factor);
            }
        }
        product
    }

    pub fn minus(&self, other: &Self) -> Self {
        assert_eq!((self.rows, self.cols), (other.rows, other.cols));
        Dense::from_fn(self.rows, self.cols, |i, j| self.at(i, j) - other.at(i, j))
    }

    /// The sum of the moduli of a column.
    pub fn column(&self, j: usize) -> f64 {
        (0..self.rows).map(|i| self.at(i, j).norm()).sum()
    }

    /// The largest modulus in a column; NaN if there is one.
    pub fn largest_in(&self, j: usize) -> f64 {
        largest((0..self.rows).map(|i| self.at(i, j).norm()))
    }

    /// The 1-norm; NaN if there is one.
    pub fn norm(&self) -> f64 {
        largest((0..self.cols).map(|j| self.column(j)))
    }

    /// A ← H·A with the reflector H of a random vector.
    pub fn reflect(&mut self, v: &[c64]) {
        let square: f64 = v.iter().map(|x| x.norm_sqr()).sum();
        if self.rows == 0 || square == 0.0 {
            return;
        }
        for column in self.entries.chunks_exact_mut(self.rows) {
            let along: c64 = column.iter().zip(v).map(|(x, v)| v.conj() * x).sum();
            let pairs = column.iter_mut().zip(v);
            pairs.for_each(|(x, v)| *x -= v * along * (2.0 / square));
        }
    }
}

fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |a, b| if a.is_nan() || a >= b { a } else { b })
}

#[test]
fn a_norm_forgets_no_nan() {
    for at in 0..3 {
        let mut a = Dense::unit(3);
        a.set(at, at, c64::new(f64::NAN, 0.0));
        assert!(a.norm().is_nan() && a.largest_in(at).is_nan(), "{at}");
    }
}
