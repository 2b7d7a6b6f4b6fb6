//! The problem: ∂u/∂t = α∇²u on a periodic box, solved in the space of frequencies.
//!
//! u is filled with random numbers, u ↦ U = F(u) once, and for t = 1, 2, …
//! U ← U · exp(−4π²α·k̄²), v = F⁻¹(U) without the factor 1/N, and the checksum is
//! 1/N · Σ v[j mod NX, 3j mod NY, 5j mod NZ] over j = 1 … 1024, with N = NX·NY·NZ.
//!
//! # Source
//! Bailey and others, *The NAS Parallel Benchmarks*, RNR-94-007 (1994), §2.3; sizes, checksums and
//! operations counted as in NPB 3.4.

use super::published::{Class, checksums};
use dataflow::linalg::scalar::c64;
use rustfft::{Fft, FftPlanner};
use std::f64::consts::PI;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

impl Class {
    /// Its box and its number of time steps.
    pub fn size(self) -> (Extent, u32) {
        let (extent, steps) = match self {
            Class::S => ([64, 64, 64], 6),
            Class::W => ([128, 128, 32], 6),
            Class::A => ([256, 256, 128], 6),
            Class::B => ([512, 256, 256], 20),
            Class::C => ([512, 512, 512], 20),
        };
        (Extent(extent), steps)
    }
}

/// NX, NY and NZ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent(pub [usize; 3]);

impl Extent {
    /// How many points.
    pub fn points(self) -> usize {
        self.0.iter().product()
    }
}

impl FromStr for Extent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        let extent = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        let fits = |extent: &[usize; 3]| extent.iter().all(|n| (1..=1 << 16).contains(n));
        extent
            .filter(fits)
            .map(Extent)
            .ok_or_else(|| "a size is three numbers from 1 to 65536, like 64x64x64".to_string())
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x}x{y}x{z}")
    }
}

/// Random numbers: x ← 5¹³·x mod 2⁴⁶, as fractions of 2⁴⁶.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    const MULTIPLIER: u64 = 1_220_703_125;
    const MODULUS: u64 = 1 << 46;

    /// The sequence from the number after so many.
    pub fn after(mut numbers: u64) -> Self {
        let (mut state, mut power) = (314_159_265u64, Self::MULTIPLIER);
        while numbers > 0 {
            if numbers % 2 == 1 {
                state = state.wrapping_mul(power) % Self::MODULUS;
            }
            power = power.wrapping_mul(power) % Self::MODULUS;
            numbers /= 2;
        }
        Random(state)
    }

    /// The next, as a whole number.
    pub fn step(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER) % Self::MODULUS;
        self.0
    }

    fn fraction(&mut self) -> f64 {
        self.step() as f64 / Self::MODULUS as f64
    }
}

const ALPHA: f64 = 1e-6;
/// Terms of a checksum.
pub const SAMPLES: usize = 1024;

/// A box, its plans and its factors.
pub struct Problem {
    pub extent: Extent,
    pub steps: u32,
    /// Checksums that were published for it.
    pub published: Option<&'static [[f64; 2]]>,
    /// Along x, y and z.
    forward: [Arc<dyn Fft<f64>>; 3],
    inverse: [Arc<dyn Fft<f64>>; 3],
    /// exp(−4π²α·k̄²) along x, y and z.
    fading: [Vec<f64>; 3],
}

impl Problem {
    /// The problem of a published class.
    pub fn of_class(class: Class) -> Self {
        let (extent, steps) = class.size();
        Problem {
            published: Some(checksums(class)),
            ..Problem::new(extent, steps)
        }
    }

    /// A box of any size.
    pub fn new(extent: Extent, steps: u32) -> Self {
        let mut planner = FftPlanner::new();
        let fading = extent.0.map(|n| {
            let wave = |at: usize| ((at + n / 2) % n) as f64 - (n / 2) as f64;
            let factor = |at| (-4.0 * PI * PI * ALPHA * wave(at) * wave(at)).exp();
            (0..n).map(factor).collect()
        });
        Problem {
            extent,
            steps,
            published: None,
            forward: extent.0.map(|n| planner.plan_fft_forward(n)),
            inverse: extent.0.map(|n| planner.plan_fft_inverse(n)),
            fading,
        }
    }

    /// Room that transforms need.
    pub fn scratch(&self) -> usize {
        let plans = self.forward.iter().chain(&self.inverse);
        plans
            .map(|plan| plan.get_inplace_scratch_len())
            .max()
            .unwrap_or(0)
    }

    /// Fills plane `z` of u, `plane[y][x]`.
    pub fn fill(&self, z: usize, plane: &mut [c64]) {
        let [nx, ny, _] = self.extent.0;
        let mut random = Random::after(2 * (nx * ny * z) as u64);
        for value in plane {
            let re = random.fraction();
            *value = c64::new(re, random.fraction());
        }
    }

    /// Transforms a plane along x and y: `plane[y][x]`, overwritten, to `turned[x][y]`.
    pub fn to_frequencies(&self, plane: &mut [c64], turned: &mut [c64], scratch: &mut [c64]) {
        let [nx, ny, _] = self.extent.0;
        self.forward[0].process_with_scratch(plane, scratch);
        transpose::transpose(plane, turned, nx, ny);
        self.forward[1].process_with_scratch(turned, scratch);
    }

    /// Transforms a column along z: `column[z][y]` to `lines[y][z]`.
    pub fn along_z(&self, column: &[c64], lines: &mut [c64], scratch: &mut [c64]) {
        let [_, ny, nz] = self.extent.0;
        transpose::transpose(column, lines, ny, nz);
        self.forward[2].process_with_scratch(lines, scratch);
    }

    /// U ← U · exp(−4π²α·k̄²) in column `x`, `lines[y][z]`, and back along z: to `column[z][y]`.
    pub fn evolve(
        &self,
        x: usize,
        lines: &mut [c64],
        (work, column): (&mut [c64], &mut [c64]),
        scratch: &mut [c64],
    ) {
        let [_, ny, nz] = self.extent.0;
        let [of_x, of_y, of_z] = &self.fading;
        let copies = work.chunks_exact_mut(nz);
        for ((line, copy), of_y) in lines.chunks_exact_mut(nz).zip(copies).zip(of_y) {
            let factor = of_x[x] * of_y;
            for ((value, copy), of_z) in line.iter_mut().zip(copy).zip(of_z) {
                *value *= factor * of_z;
                *copy = *value;
            }
        }
        self.inverse[2].process_with_scratch(work, scratch);
        transpose::transpose(work, column, nz, ny);
    }

    /// Transforms a plane back along y and x: `turned[x][y]`, overwritten, to `plane[y][x]`.
    pub fn to_places(&self, turned: &mut [c64], plane: &mut [c64], scratch: &mut [c64]) {
        let [nx, ny, _] = self.extent.0;
        self.inverse[1].process_with_scratch(turned, scratch);
        transpose::transpose(turned, plane, ny, nx);
        self.inverse[0].process_with_scratch(plane, scratch);
    }

    /// Where the terms of a checksum lie in plane `z`, `plane[y][x]`, in their order.
    pub fn samples(&self, z: usize) -> impl Iterator<Item = usize> + '_ {
        let [nx, ny, nz] = self.extent.0;
        let of_plane = (1..=SAMPLES).filter(move |j| 5 * j % nz == z);
        of_plane.map(move |j| 3 * j % ny * nx + j % nx)
    }

    /// The checksum from the terms of each plane, in the order of j.
    pub fn checksum(&self, terms: &[Vec<c64>]) -> c64 {
        let nz = self.extent.0[2];
        let mut planes: Vec<_> = terms.iter().map(|terms| terms.iter()).collect();
        let in_order = (1..=SAMPLES).filter_map(|j| planes[5 * j % nz].next());
        in_order.sum::<c64>() / self.extent.points() as f64
    }

    /// The largest relative error of the checksums, infinite if they are not as many as were published;
    /// `None` where none were.
    pub fn error(&self, checksums: &[c64]) -> Option<f64> {
        let published = self.published?;
        if checksums.len() != published.len() {
            return Some(f64::INFINITY);
        }
        let published = published.iter().map(|&[re, im]| c64::new(re, im));
        let errors = checksums
            .iter()
            .zip(published)
            .map(
                |(checksum, published)| match (checksum - published).norm() / published.norm() {
                    error if error.is_nan() => f64::INFINITY,
                    error => error,
                },
            );
        Some(errors.fold(0.0, f64::max))
    }

    /// Operations of a run, as NPB counts them.
    pub fn operations(&self) -> f64 {
        let n = self.extent.points() as f64;
        let per_step = 5.23518 + 7.21113 * n.ln();
        n * (14.8157 + 7.19641 * n.ln() + per_step * f64::from(self.steps))
    }
}

/// The places of a part, of `parts`, of `n`.
pub fn part(n: usize, parts: usize, part: u32) -> Range<usize> {
    let first = |part: usize| part * n / parts;
    first(part as usize)..first(part as usize + 1)
}
