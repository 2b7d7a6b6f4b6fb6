//! How many leading columns of R are independent: the largest leading triangle that is well enough
//! conditioned.
//!
//! # Law
//! Of each leading triangle the largest and the smallest singular value are estimated, with a vector
//! for each: x of length 1 for which ‖xᴴ·R‖ is nearly that. The next column adds an entry to both
//! vectors, so all triangles together cost 4·n² flops. The largest is estimated from below, the
//! smallest from above; the first triangle in which they are too far apart ends the search.
//!
//! Products with what stands above the diagonal tile are parts that its owner computes, added up in
//! the order of the rows: the bits do not depend on the grid.
//!
//! # Source
//! Bischof, *Incremental condition estimation*, SIAM J. Matrix Anal. Appl. 11 (1990); LAPACK's
//! `laic1` and what `gelsy` does with it.

use crate::error::LinalgError;
use crate::kernel::{sum_of_squares, with_scratch};
use crate::matrix::{Format, Tile, TiledMatrix};
use crate::scalar::{Scalar, c64, number, power_of_two, set_number};
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::{Slot, placed};
use dataflow_core::{Report, task_names};
use std::sync::OnceLock;

task_names! {
    /// The tasks of the search: (i, j) is a tile above the diagonal, j one on it.
    pub enum LeadingTask { Part { i, j }, Step { j }, Tell { rank } }
}
use LeadingTask::{Part, Step, Tell};

/// Part and Step: the tile of R.
const TILE: usize = 0;
/// Part: the vectors so far, and what is made of them. Step: the vectors before and behind it.
const BEFORE: usize = 1;
const MADE: usize = 2;
/// Step: the parts, from here on.
const PARTS: usize = 3;

/// How columns of R are compared.
///
/// # Examples
/// The second column is independent of the first, and very short:
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::qr::{Compare, Leading};
/// use std::sync::OnceLock;
///
/// let entries = [[1.0, 0.0], [0.0, 1e-20]];
/// let r = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| entries[i][j]);
/// let rank = |compare| {
///     let found = OnceLock::new();
///     dataflow_core::run(&Leading::new(&r, (compare, 1e-10), &found), &Inline)?;
///     Ok::<_, dataflow_core::Error>(found.get().map(|found| found.rank))
/// };
/// assert_eq!((rank(Compare::AsTheyAre)?, rank(Compare::ByDirection)?), (Some(1), Some(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// As they are, as LAPACK's `gelsy` does: short columns do not count.
    AsTheyAre,
    /// Each over its length: units of measurement do not matter.
    ByDirection,
}

/// What the search finds.
///
/// # Examples
/// See [`pivoted`](super::pivoted()), whose rank it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// How many leading columns are independent.
    pub rank: usize,
    /// The smallest singular value of their triangle, estimated from above; 0 for rank 0. Over 2³⁴, like the
    /// largest, where that may be larger than any number.
    pub smallest: f64,
    /// The largest, estimated from below.
    pub largest: f64,
}

/// The task space of the search.
///
/// # Examples
/// See [`pivoted`](super::pivoted()), which finds the rank by it.
#[derive(Clone, Copy, Debug)]
pub struct Leading<'a, T: Scalar> {
    pub(super) r: &'a TiledMatrix<T>,
    compare: Compare,
    rcond: f64,
    found: &'a OnceLock<Found>,
    steps: u32,
    /// How many ranks are told.
    n_told: u32,
}

/// How many leading columns of R have, together, a condition of at most 1/rcond; the same on every
/// rank.
///
/// - `r`: its upper triangle is read, of the leading square
///
/// 4·n² flops, one diagonal tile after the other.
///
/// # Errors
/// [`LinalgError::Overflow`] if R is not finite; what [`run_across`](dataflow_core::run_across)
/// answers.
pub(super) fn leading<T: Scalar>(
    r: &TiledMatrix<T>,
    (compare, rcond): (Compare, f64),
    on: &dyn Executor,
) -> Result<(Found, Report), LinalgError> {
    let found = OnceLock::new();
    let space = Leading::new(r, (compare, rcond), &found);
    let report = space.run(on)?;
    // A run that ended well has told every rank.
    Ok((found.into_inner().unwrap_or_default(), report))
}

impl<'a, T: Scalar> Leading<'a, T> {
    /// The space for a factored matrix, or a triangle, of any shape; and the place of the answer: that of the
    /// first run stays there.
    pub fn new(
        r: &'a TiledMatrix<T>,
        (compare, rcond): (Compare, f64),
        found: &'a OnceLock<Found>,
    ) -> Self {
        Leading {
            r,
            compare,
            rcond,
            found,
            steps: r.mt().min(r.nt()) as u32,
            n_told: r.distribution().n_ranks() as u32,
        }
    }

    /// The same for a run by this executor, over more ranks perhaps than have tiles.
    pub(super) fn telling_all(self, on: &dyn Executor) -> Self {
        let n_told = self.r.n_told(on);
        Leading { n_told, ..self }
    }

    /// Runs this rank's part; every rank calls it with its part of the matrix.
    ///
    /// # Errors
    /// [`LinalgError::Overflow`] if R is not finite; what [`run_across`](dataflow_core::run_across)
    /// answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        let space = self.telling_all(on);
        let run = T::run_tiles(&space.erased(), &[self.r], on);
        run.map_err(|error| self.r.failed(error))
    }

    /// How many columns of a diagonal tile belong to the leading square.
    pub(super) fn width(&self, j: usize) -> usize {
        self.r.tile_rows(j).min(self.r.tile_cols(j))
    }

    /// Fails at the first column of the leading square in a diagonal tile that is not finite, in the tile or
    /// above it.
    fn expect_finite(&self, j: usize, tile: &Tile<T>, parts: &[&Tile<T>]) -> Result<(), TaskError> {
        let is_finite = |col: usize| {
            let above = parts.iter().all(|part| length_of(part, col) != NOT_FINITE);
            above && is_finite(tile, col, col + 1)
        };
        match (0..self.width(j)).find(|&col| !is_finite(col)) {
            Some(col) => Err(LinalgError::overflow(self.r.col_range(j).start + col)),
            None => Ok(()),
        }
    }

    /// PART ← for each column of the tile its products with both vectors, and its length; or that it is not
    /// finite, which the step tells that sees all of the column.
    fn part(&self, (i, j): (usize, usize), tile: &Tile<T>, before: &Tile<T>) -> Tile<T> {
        let vectors = Vectors::unpacked(before);
        let (rows, format) = (self.r.row_range(i), Format::ColumnMajor);
        let mut part = Tile::new(OF_A_PART, self.width(j), format, self.r.memory());
        for (col, made) in part.columns_mut().enumerate() {
            if !is_finite(tile, col, rows.len()) {
                set_value(&mut made[LENGTH..], NOT_FINITE);
                continue;
            }
            if vectors.has_ended {
                continue;
            }
            let mut sums = [c64::new(0.0, 0.0); 2];
            let mut length = ScaledSum::default();
            for (at, row) in rows.clone().enumerate() {
                let entry = wide(tile.get(at, col));
                length.add(entry.norm());
                for (sum, x) in sums.iter_mut().zip(&vectors.x) {
                    *sum += wide(x[row]).conj() * entry;
                }
            }
            let length = length.get();
            // Neither is more than the length, which a number of `T` need not hold.
            let size = power_of_two(length);
            (made[0], made[1]) = (narrow(sums[0] / size), narrow(sums[1] / size));
            set_value(&mut made[LENGTH..], length);
        }
        part
    }

    /// The vectors with an entry more for each column of a diagonal tile, until one is dependent.
    fn step(
        &self,
        j: usize,
        tile: &Tile<T>,
        vectors: Vectors<T>,
        parts: &[&Tile<T>],
    ) -> Result<Tile<T>, TaskError> {
        let (width, how) = (self.width(j), (self.compare, self.rcond));
        let (vectors, overflow) = vectors.extended((tile, width), how, parts);
        match overflow {
            Some(col) => Err(LinalgError::overflow(self.r.col_range(j).start + col)),
            None => Ok(vectors.packed(self.r)),
        }
    }
}

/// The same search in a matrix that is one tile, without a graph; it ends at a column that overflows.
pub(super) fn leading_of_tile<T: Scalar>(r: &Tile<T>, how: (Compare, f64)) -> Found {
    let width = r.rows().min(r.cols());
    Vectors::none().extended((r, width), how, &[]).0.found()
}

/// Whether R with columns of length 1 has a condition far below 1/rcond, told by a bound that may be
/// too large: then [`leading_of_tile`] finds all columns independent, by direction. n² flops, for n
/// columns and no fewer rows.
///
/// ‖R⁻¹‖ is at most ‖M⁻¹‖, where M has the moduli of R on its diagonal and their negatives above it.
///
/// # Source
/// Higham, *A survey of condition number estimation for triangular matrices*, SIAM Review 29 (1987).
pub(super) fn is_clearly_regular<T: Scalar>(r: &Tile<T>, rcond: f64) -> bool {
    let (m, n) = (r.rows(), r.cols());
    if r.format().in_memory() != Format::ColumnMajor || m < n {
        return false;
    }
    let most = 0.5 / (n as f64 * rcond);
    let size = |x: T| x.re().abs() + x.im().abs();
    with_scratch(n, |z: &mut [f64]| {
        // M·z = (1, …, 1), from the last column to the first: ‖M⁻¹‖∞ is the largest of z.
        z.fill(1.0);
        (0..n).rev().all(|j| {
            let column = &r.as_slice()[j * m..][..=j];
            let (above, squares) = (&column[..j], sum_of_squares(column));
            let length = squares.sqrt();
            let x = z[j] * length / column[j].modulus();
            let by = x / length;
            let pairs = z[..j].iter_mut().zip(above);
            pairs.for_each(|(z, r)| *z += size(*r) * by);
            (1e-200..1e200).contains(&squares) && x <= most
        })
    })
}

/// The first rows of a column.
fn top_of<'a, T: Scalar>(
    tile: &'a Tile<T>,
    rows: usize,
    col: usize,
    buffer: &'a mut Vec<T>,
) -> &'a [T] {
    match tile.format() {
        Format::ColumnMajor | Format::CutColumns { .. } => {
            &tile.as_slice()[col * tile.rows()..][..rows]
        }
        Format::SubTiled { .. } => {
            buffer.clear();
            buffer.extend((0..rows).map(|row| tile.get(row, col)));
            buffer
        }
    }
}

/// xᴴ·a, in the wider precision.
fn product<T: Scalar>(start: c64, x: &[T], a: &[T]) -> c64 {
    let pairs = x.iter().zip(a);
    match T::IS_COMPLEX {
        true => pairs.fold(start, |sum, (x, a)| sum + wide(*x).conj() * wide(*a)),
        false => c64::new(
            pairs.fold(start.re, |sum, (x, a)| sum + x.re() * a.re()),
            start.im,
        ),
    }
}

/// The length of a vector, entry by entry, without overflow on the way.
#[derive(Default)]
struct ScaledSum {
    largest: f64,
    squares: f64,
}

impl ScaledSum {
    fn add(&mut self, size: f64) {
        if size > self.largest {
            let shrunk = self.largest / size;
            self.squares = self.squares * shrunk * shrunk + 1.0;
            self.largest = size;
        } else if size > 0.0 {
            let share = size / self.largest;
            self.squares += share * share;
        }
    }

    /// Adds all of them; at once where no square is near overflow or underflow.
    fn add_all<T: Scalar>(&mut self, x: &[T]) {
        let square = |x: &T| x.re() * x.re() + x.im() * x.im();
        let squares: f64 = x.iter().map(square).sum();
        match (1e-200..1e200).contains(&squares) {
            true => self.add(squares.sqrt()),
            false => x.iter().for_each(|x| self.add(wide(*x).norm())),
        }
    }

    fn get(&self) -> f64 {
        self.largest * self.squares.sqrt()
    }

    /// Two numbers to divide by, of which the length is the product: it may be larger than any number.
    fn factors(&self) -> [f64; 2] {
        match self.get() {
            length if length.is_finite() => [length, 1.0],
            _ => [self.largest, self.squares.sqrt()],
        }
    }
}

/// What is known of a leading triangle: of its smallest singular value first, then of its largest.
struct Vectors<T: Scalar> {
    value: [f64; 2],
    x: [Vec<T>; 2],
    /// What the vectors were multiplied by since products with them were computed.
    scale: [f64; 2],
    /// What columns are divided by where they are compared as they are: 1, or [`SHRINK`].
    unit: f64,
    has_ended: bool,
}

/// 2³⁴: over it, the length of all columns together of any matrix is a number.
const SHRINK: f64 = (1u64 << 34) as f64;
/// Where the first column, the strongest, is longer, all are divided.
const LONG: f64 = 1e290;

/// Numbers before the vectors as they travel: both values in two parts each, and whether it is over.
pub(super) const HEAD: usize = 5;

/// Numbers of a part for each column: its products with both vectors, over the power of two in its length,
/// and the length in two parts.
pub(super) const OF_A_PART: usize = 4;
/// The first part of the length.
const LENGTH: usize = 2;
/// Stands for the length of a column with an entry that is no number.
const NOT_FINITE: f64 = -1.0;

/// What a part has of a column.
fn of_part<T: Scalar>(part: &Tile<T>, col: usize) -> &[T] {
    &part.as_slice()[col * OF_A_PART..][..OF_A_PART]
}

/// The length of what a part has of a column, or [`NOT_FINITE`].
fn length_of<T: Scalar>(part: &Tile<T>, col: usize) -> f64 {
    value(&of_part(part, col)[LENGTH..])
}

/// Whether the first rows of a column are finite.
fn is_finite<T: Scalar>(tile: &Tile<T>, col: usize, rows: usize) -> bool {
    (0..rows).all(|row| tile.get(row, col).is_finite())
}

/// A number in full, by the bits of its halves, which stand in the places of two elements.
fn value<T: Scalar>(elements: &[T]) -> f64 {
    let half = |at: usize| u64::from(number(elements[at]));
    f64::from_bits(half(0) | half(1) << 32)
}

fn set_value<T: Scalar>(elements: &mut [T], value: f64) {
    let bits = value.to_bits();
    set_number(&mut elements[0], bits as u32);
    set_number(&mut elements[1], (bits >> 32) as u32);
}

impl<T: Scalar> Vectors<T> {
    fn none() -> Self {
        Vectors {
            value: [0.0; 2],
            x: [Vec::new(), Vec::new()],
            scale: [1.0; 2],
            unit: 1.0,
            has_ended: false,
        }
    }

    /// With an entry more for each of the first columns of a diagonal tile, until one is dependent, and
    /// the first column in which a number overflows; `parts` are what stands above the tile contributes.
    fn extended(
        mut self,
        (tile, width): (&Tile<T>, usize),
        (compare, rcond): (Compare, f64),
        parts: &[&Tile<T>],
    ) -> (Self, Option<usize>) {
        let (before, mut buffer) = (self.x[0].len(), Vec::new());
        for col in 0..width {
            if self.has_ended {
                break;
            }
            let (mut sums, mut length) = self.sum_of(parts, col);
            let column = top_of(tile, col + 1, col, &mut buffer);
            let (above, diagonal) = (&column[..col], wide(column[col]));
            for (sum, x) in sums.iter_mut().zip(&self.x) {
                *sum = product(*sum, &x[before..], above);
            }
            let unit = match compare {
                Compare::AsTheyAre => {
                    if self.x[0].is_empty() && diagonal.norm() > LONG {
                        self.unit = SHRINK;
                    }
                    [self.unit, 1.0]
                }
                Compare::ByDirection => {
                    length.add_all(column);
                    length.factors()
                }
            };
            if unit[0] == 0.0 {
                self.has_ended = true;
                break;
            }
            let over = |x: c64| x / unit[0] / unit[1];
            let (sums, diagonal) = ([over(sums[0]), over(sums[1])], over(diagonal));
            if unit[0].is_infinite() || !sums.into_iter().chain([diagonal]).all(c64::is_finite) {
                return (self, Some(col));
            }
            self.has_ended = !self.extend(sums, diagonal, rcond);
        }
        self.scale = [1.0; 2];
        (self, None)
    }

    /// The products of both vectors with what stands above a diagonal tile in one of its columns, and how long
    /// that is.
    fn sum_of(&self, parts: &[&Tile<T>], col: usize) -> ([c64; 2], ScaledSum) {
        let (mut sums, mut length) = ([c64::new(0.0, 0.0); 2], ScaledSum::default());
        for part in parts {
            let (its_length, part) = (length_of(part, col), of_part(part, col));
            let size = power_of_two(its_length);
            sums[0] += wide(part[0]) * size * self.scale[0];
            sums[1] += wide(part[1]) * size * self.scale[1];
            length.add(its_length);
        }
        (sums, length)
    }

    /// Takes in the next column, (above, diagonal), unless it depends on those before it. `products`
    /// are those of the vectors with what stands above the diagonal.
    fn extend(&mut self, products: [c64; 2], diagonal: c64, rcond: f64) -> bool {
        let size = diagonal.norm();
        if self.x[0].is_empty() {
            if size > 0.0 {
                self.value = [size; 2];
                self.x = [vec![T::one()], vec![T::one()]];
            }
            return size > 0.0;
        }
        let next = [0, 1].map(|which| {
            let found = Pair::of(self.value[which], products[which].norm(), size);
            let [small, large] = found.values;
            match which {
                // The vector to the smaller value stands upright on the other.
                0 => (small, -found.sine, found.cosine),
                _ => (large, found.cosine, found.sine),
            }
        });
        // Of a number that is not finite nothing is known.
        let (small, least) = (next[0].0, next[1].0 * rcond);
        if small == 0.0 || least > small || (least - small).is_nan() {
            return false;
        }
        for (which, (value, old, new)) in next.into_iter().enumerate() {
            self.value[which] = value;
            self.scale[which] *= old;
            let entries = self.x[which].iter_mut();
            entries.for_each(|x| *x *= T::from_real(old));
            // α = |α|·u and γ = |γ|·v: the phase of the new entry is v/u.
            let turned = phase(diagonal) * phase(products[which]).conj() * new;
            self.x[which].push(narrow(turned));
        }
        true
    }

    fn found(&self) -> Found {
        let [smallest, largest] = self.value;
        Found {
            rank: self.x[0].len(),
            smallest,
            largest,
        }
    }

    fn packed(&self, r: &TiledMatrix<T>) -> Tile<T> {
        let length = self.x[0].len();
        let mut tile = Tile::new(HEAD + length, 2, Format::ColumnMajor, r.memory());
        let (smallest, largest) = tile.as_mut_slice().split_at_mut(HEAD + length);
        smallest[HEAD..].copy_from_slice(&self.x[0]);
        largest[HEAD..].copy_from_slice(&self.x[1]);
        for (which, value) in self.value.into_iter().enumerate() {
            set_value(&mut smallest[2 * which..], value);
        }
        let flags = u32::from(self.has_ended) | u32::from(self.unit == SHRINK) << 1;
        set_number(&mut smallest[4], flags);
        tile
    }

    fn unpacked(tile: &Tile<T>) -> Self {
        let (smallest, largest) = tile.as_slice().split_at(tile.rows());
        let flags = number(smallest[4]);
        Vectors {
            value: [value(smallest), value(&smallest[2..])],
            x: [smallest[HEAD..].to_vec(), largest[HEAD..].to_vec()],
            scale: [1.0; 2],
            unit: if flags & 2 == 0 { 1.0 } else { SHRINK },
            has_ended: flags & 1 != 0,
        }
    }
}

/// The singular values of [f g; 0 h] with f, g, h ≥ 0, and the left vector to the larger one.
struct Pair {
    values: [f64; 2],
    cosine: f64,
    sine: f64,
}

impl Pair {
    fn of(f: f64, g: f64, h: f64) -> Self {
        let scale = f.max(g).max(h);
        if scale == 0.0 {
            return Pair {
                values: [0.0; 2],
                cosine: 1.0,
                sine: 0.0,
            };
        }
        let (f, g, h) = (f / scale, g / scale, h / scale);
        // σ₁ ± σ₂ are ‖(f ± h, g)‖, and σ₁·σ₂ = f·h.
        let large = 0.5 * ((f + h).hypot(g) + (f - h).hypot(g));
        let small = f / large * h;
        // tan 2θ = 2·g·h / (f² + g² − h²), of which the smaller of tan θ and cot θ is exact.
        let (p, q) = ((f - h) * (f + h) + g * g, 2.0 * g * h);
        let (cosine, sine) = match p >= 0.0 {
            true if q == 0.0 && p == 0.0 => (1.0, 0.0),
            true => (1.0, q / (p + p.hypot(q))),
            false => (q / (p.hypot(q) - p), 1.0),
        };
        let length = cosine.hypot(sine);
        Pair {
            values: [small * scale, large * scale],
            cosine: cosine / length,
            sine: sine / length,
        }
    }
}

fn wide<T: Scalar>(x: T) -> c64 {
    c64::new(x.re(), x.im())
}

fn narrow<T: Scalar>(x: c64) -> T {
    T::from_parts(x.re, x.im)
}

/// x/|x|, 1 where x is 0.
fn phase(x: c64) -> c64 {
    match x.norm() {
        0.0 => c64::new(1.0, 0.0),
        size => x / size,
    }
}

/// The tasks of so many columns of tiles, on all ranks.
fn columns(steps: u32) -> impl Iterator<Item = LeadingTask> + Send {
    (0..steps).flat_map(|j| {
        let parts = (0..j).map(move |i| Part { i, j });
        parts.chain([Step { j }])
    })
}

/// The classes of tasks, and their flows.
fn describe_classes(about: &mut Description, steps: u32) {
    let part = about
        .class("Part")
        .read("TILE")
        .read("BEFORE")
        .of("vectors");
    part.new_flow("PART").of("part");
    let step = about.class("Step").read("TILE");
    let step = step.optional("BEFORE").of("vectors");
    let mut step = step.new_flow("MADE").of("vectors");
    for _ in 1..steps {
        step = step.optional("PART").of("part");
    }
    about.class("Tell").optional("VECTORS").of("vectors");
}

impl<T: Scalar> TaskSpace for Leading<'_, T> {
    type Task = LeadingTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("leading columns").parameter("m", self.r.rows());
        self.r.layout().describe(about);
        about.parameter("compare", format!("{:?}", self.compare));
        about.parameter("rcond", format!("{:016x}", self.rcond.to_bits()));
        about.parameter("precision", T::PRECISION);
        describe_classes(about, self.steps);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = LeadingTask> + Send {
        let own = placed(self, on, columns(self.steps));
        own.chain([Tell { rank: on.0 }])
    }

    fn inputs(&self, task: LeadingTask, from: &mut impl Inputs<Self>) {
        match task {
            Part { i, j } => {
                from.home(TILE, self.r.store(), self.r.place(i, j));
                from.task(BEFORE, Step { j: j - 1 }, MADE);
            }
            Step { j } => {
                from.home(TILE, self.r.store(), self.r.place(j, j));
                if j > 0 {
                    from.task(BEFORE, Step { j: j - 1 }, MADE);
                }
                (0..j).for_each(|i| from.task(PARTS + i as usize, Part { i, j }, MADE));
            }
            Tell { .. } => {
                if let Some(j) = self.steps.checked_sub(1) {
                    from.task(0, Step { j }, MADE);
                }
            }
        }
    }

    fn successors(&self, task: LeadingTask, to: &mut impl Successors<Self>) {
        match task {
            Part { i, j } => to.task(MADE, Step { j }, PARTS + i as usize),
            Step { j } if j + 1 == self.steps => {
                to.range(MADE, 0..self.n_told, |rank| Tell { rank }, 0);
            }
            Step { j } => {
                to.task(MADE, Step { j: j + 1 }, BEFORE);
                to.range(MADE, 0..j + 1, |i| Part { i, j: j + 1 }, BEFORE);
            }
            Tell { .. } => {}
        }
    }

    fn run(&self, task: LeadingTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        match task {
            Part { i, j } => {
                let [tile, before, made] = flows.slots();
                let at = (i as usize, j as usize);
                made.put(self.part(at, tile.read(), before.read()));
            }
            Step { j } => {
                let ([tile, before, made], parts, []) = flows.split();
                let vectors = before.get().map_or_else(Vectors::none, Vectors::unpacked);
                let parts: Vec<&Tile<T>> = parts.filter_map(Slot::get).collect();
                let (j, tile) = (j as usize, tile.read());
                self.expect_finite(j, tile, &parts)?;
                made.put(self.step(j, tile, vectors, &parts)?);
            }
            Tell { .. } => {
                let [vectors] = flows.slots();
                let vectors = vectors.get().map(Vectors::unpacked);
                self.found
                    .get_or_init(|| vectors.map_or_else(Found::default, |v| v.found()));
            }
        }
        Ok(())
    }

    fn rank(&self, task: LeadingTask) -> Rank {
        match task {
            Part { i, j } => self.r.rank_of(i as usize, j as usize),
            Step { j } => self.r.rank_of(j as usize, j as usize),
            Tell { rank } => Rank(rank),
        }
    }
}
