//! Problems whose exact discrete solution is known at every step, so that every wrong ghost cell shows.
//!
//! On the unit cube with n³ unknowns, h = 1/(n+1), x = (i+1)·h and so on from 0:
//!
//! | problem | u⁰ | on the border | h²f | after s sweeps |
//! |---|---|---|---|---|
//! | `mode` | m = sin πx · sin 2πy · sin 3πz | 0 | 0 | λˢ·m |
//! | `harmonic` | x² + y² − 2z² + xyz | the same | 0 | unchanged |
//! | `source` | 0 | 0 | 6·(λ − 1)·m | (1 − λˢ)·m |
//!
//! where λ = (cos πh + cos 2πh + cos 3πh)/3. For n below 3 each wave has n halves at most: with n + 1 of them
//! m would vanish in every cell. `mode` fades all the same: what is left of it in the end is less than
//! rounding, and proves nothing ([`Problem::size`]).

use clap::ValueEnum;
use std::f64::consts::PI;

/// What is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// A mode of the discrete Laplacian, which fades
    Mode,
    /// A polynomial that a sweep does not change
    Harmonic,
    /// A right-hand side whose solution is a mode
    Source,
}

/// A right-hand side: `h²f(i,j,k) = along[0][i] · along[1][j] · along[2][k]`.
pub struct Source {
    along: [Vec<f64>; 3],
}

impl Source {
    /// The factor of a row of cells, and what it multiplies.
    #[inline(always)]
    pub fn row(&self, i: usize, j: usize, k: usize, length: usize) -> (f64, &[f64]) {
        (
            self.along[0][i] * self.along[1][j],
            &self.along[2][k..][..length],
        )
    }
}

/// A problem on `n³` unknowns.
pub struct Problem {
    pub name: Name,
    n: usize,
    /// Of the mode along each axis.
    sines: [Vec<f64>; 3],
    lambda: f64,
    pub source: Option<Source>,
}

/// Half waves of the mode along each axis, if there are as many cells: all different, so that swapped axes
/// show.
const WAVES: [f64; 3] = [1.0, 2.0, 3.0];

impl Problem {
    pub fn new(name: Name, n: usize) -> Self {
        let h = 1.0 / (n + 1) as f64;
        let halves = WAVES.map(|waves| waves.min(n as f64));
        let sines = halves.map(|waves| {
            let sine = |i| (PI * waves * (i + 1) as f64 * h).sin();
            (0..n).map(sine).collect::<Vec<f64>>()
        });
        let lambda = halves
            .map(|waves| (PI * waves * h).cos())
            .iter()
            .sum::<f64>()
            / 3.0;
        let source = (name == Name::Source).then(|| {
            let [i, j, k] = sines.clone();
            let i = i.iter().map(|sine| 6.0 * (lambda - 1.0) * sine).collect();
            Source { along: [i, j, k] }
        });
        Problem {
            name,
            n,
            sines,
            lambda,
            source,
        }
    }

    /// The value after so many sweeps of the cell at `place`, counted from −1, which is on the border,
    /// as n is.
    pub fn exact(&self, place: [isize; 3], sweeps: u64) -> f64 {
        let [i, j, k] = place;
        let n = self.n as isize;
        if self.name == Name::Harmonic {
            let [x, y, z] = [i, j, k].map(|at| (at + 1) as f64 / (self.n + 1) as f64);
            return x * x + y * y - 2.0 * z * z + x * y * z;
        }
        if place.iter().any(|&at| at < 0 || at == n) {
            return 0.0;
        }
        let [x, y, z] = &self.sines;
        let mode = x[i as usize] * y[j as usize] * z[k as usize];
        let faded = self.lambda.powf(sweeps as f64);
        match self.name {
            Name::Source => (1.0 - faded) * mode,
            _ => faded * mode,
        }
    }

    /// How far from 0 some cell is after so many sweeps; where the solution is a mode, the farthest.
    pub fn size(&self, sweeps: u64) -> f64 {
        let far = |of: &Vec<f64>| {
            let cells = 0..self.n as isize;
            let value = |&at: &isize| of[at as usize].abs();
            cells.max_by(|a, b| value(a).total_cmp(&value(b)))
        };
        let last = self.n as isize - 1;
        let place = match self.name {
            Name::Harmonic => [last, last, 0],
            _ => self.sines.each_ref().map(|of| far(of).unwrap_or(last)),
        };
        self.exact(place, sweeps).abs()
    }

    /// Operations that a sweep takes for a cell: five sums and a product; with f one of each more.
    pub fn flops(&self) -> f64 {
        match self.source {
            None => 6.0,
            Some(_) => 8.0,
        }
    }
}
