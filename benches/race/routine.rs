//! What is raced for: the routine, its matrix, its count of operations and its check.

use super::{Bench, Dense, Outcome, Times};
use clap::ValueEnum;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{Entries, Layout, LayoutError};
use dataflow::linalg::{cholesky, flops, lu, product, qr};
use std::fmt;

/// A routine, by LAPACK's name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Routine {
    /// Cholesky factorisation
    Potrf,
    /// LU with partial pivoting
    Getrf,
    /// QR
    Geqrf,
    /// Inverse of a positive definite matrix: potrf and potri
    Inverse,
    /// The product of the matrix with itself
    Gemm,
}
use Routine::{Gemm, Geqrf, Getrf, Inverse, Potrf};

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Potrf => "potrf",
            Getrf => "getrf",
            Geqrf => "geqrf",
            Inverse => "inverse",
            Gemm => "gemm",
        })
    }
}

impl Routine {
    pub fn flops(self, n: usize) -> u64 {
        match self {
            Potrf => flops::potrf::<f64>(n),
            Getrf => flops::getrf::<f64>(n, n),
            Geqrf => flops::geqrf::<f64>(n, n),
            Inverse => flops::potrf::<f64>(n) + flops::potri::<f64>(n),
            Gemm => flops::gemm::<f64>(n, n, n),
        }
    }

    /// How ours cuts the matrix where nobody says how.
    pub fn default_layout(self, n: usize, n_workers: usize) -> Result<Layout, LayoutError> {
        let nb = match self {
            Potrf => return cholesky::default_layout::<f64>(n, n_workers),
            Inverse => cholesky::default_tile_order::<f64>(n),
            Getrf => return lu::default_layout::<f64>(n, n, n_workers),
            Geqrf => qr::default_tile_order::<f64>(n, n),
            Gemm => product::default_tile_order::<f64>(n),
        };
        self.layout(n, nb)
    }

    /// How ours cuts the matrix into tiles of this order.
    pub fn layout(self, n: usize, nb: usize) -> Result<Layout, LayoutError> {
        match self {
            Potrf | Inverse => Layout::lower(n, nb),
            Getrf | Geqrf | Gemm => Layout::general(n, n, nb),
        }
    }

    /// A random matrix, positive definite where it must be.
    pub fn matrix(self, bench: &Bench, n: usize) -> Outcome<Dense> {
        let mut matrix = bench.random(n, 1)?;
        if let Potrf | Inverse = self {
            bench.on_strips(&mut matrix, 1, |j, column| {
                column[j] += n as f64;
                Ok(())
            })?;
        }
        Ok(matrix)
    }

    /// How far the result is from the matrix on a random vector x, in units of rounding, as
    /// LAPACK's tests measure it: L·Lᵀ·x from A·x, L·U·x from P·A·x, Rᵀ·R·x from Aᵀ·A·x (Q is each
    /// library's own), A·A⁻¹·x from x, C·x from A·A·x.
    pub fn residual(self, matrix: &Dense, result: &Dense, times: &Times) -> f64 {
        let n = matrix.rows();
        let mut x = vec![0.0; n];
        Random::new(2).column(0..n, 0, &mut x);
        let (a, factor) = (Part(matrix, 0.0), Part(result, 0.0));
        let (made, expected, scale) = match self {
            Potrf => {
                let z = factor.transposed(&x, |j| j..n);
                (factor.times(&z, |j| j..n), a.symmetric(&x), a.norm())
            }
            Getrf => {
                let (unit, z) = (Part(result, 1.0), factor.times(&x, |j| 0..j + 1));
                let product = a.times(&x, |_| 0..n);
                let swapped = times.rows.iter().map(|&row| product[row]).collect();
                (unit.times(&z, |j| j + 1..n), swapped, a.norm())
            }
            Geqrf => {
                let z = factor.times(&x, |j| 0..j + 1);
                let product = a.times(&x, |_| 0..n);
                let expected = a.transposed(&product, |_| 0..n);
                (
                    factor.transposed(&z, |j| 0..j + 1),
                    expected,
                    a.norm().powi(2),
                )
            }
            Inverse => {
                let z = factor.symmetric(&x);
                (a.symmetric(&z), x.clone(), a.norm() * factor.norm())
            }
            Gemm => {
                let product = a.times(&x, |_| 0..n);
                let expected = a.times(&product, |_| 0..n);
                (factor.times(&x, |_| 0..n), expected, a.norm().powi(2))
            }
        };
        let sum = |x: &mut dyn Iterator<Item = f64>| x.map(f64::abs).sum::<f64>();
        let difference = sum(&mut made.iter().zip(&expected).map(|(made, it)| made - it));
        match expected.len() == n {
            true => difference / (n as f64 * scale * sum(&mut x.into_iter()) * f64::EPSILON),
            false => f64::INFINITY,
        }
    }
}

/// A matrix of which some rows of each column count, and a multiple of the identity beside them.
struct Part<'a>(&'a Dense, f64);

impl Part<'_> {
    fn column(&self, j: usize) -> &[f64] {
        let n = self.0.rows();
        &self.0.as_slice()[n * j..][..n]
    }

    fn times(&self, x: &[f64], rows: impl Fn(usize) -> std::ops::Range<usize>) -> Vec<f64> {
        let mut product: Vec<f64> = x.iter().map(|x| self.1 * x).collect();
        for (j, x) in x.iter().enumerate() {
            let of_column = product[rows(j)].iter_mut().zip(&self.column(j)[rows(j)]);
            of_column.for_each(|(sum, a)| *sum += a * x);
        }
        product
    }

    fn transposed(&self, x: &[f64], rows: impl Fn(usize) -> std::ops::Range<usize>) -> Vec<f64> {
        let dot = |j| {
            let of_column = self.column(j)[rows(j)].iter().zip(&x[rows(j)]);
            of_column.map(|(a, x)| a * x).sum()
        };
        (0..x.len()).map(dot).collect()
    }

    /// The product with a symmetric matrix of which the lower triangle is read.
    fn symmetric(&self, x: &[f64]) -> Vec<f64> {
        let (n, mut product) = (x.len(), self.times(x, |j| j..x.len()));
        let above = self.transposed(x, |j| j + 1..n);
        product
            .iter_mut()
            .zip(above)
            .for_each(|(sum, it)| *sum += it);
        product
    }

    /// The largest sum of moduli of a column, of the lower triangle; the first column is whole.
    fn norm(&self) -> f64 {
        let sum = |j| self.column(j)[j..].iter().map(|a: &f64| a.abs()).sum();
        (0..self.0.rows()).map(sum).fold(0.0, f64::max)
    }
}
