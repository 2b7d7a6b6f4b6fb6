//! Digests: 64 bits that tell whether two results are the same, bit for bit.
//!
//! # The function
//! The digest is the sum, modulo 2⁶⁴, over the entries of
//!
//! ```text
//! h(row, col, re, im) = m(m(m(m(row) + col) + re) + im)
//! m(z):  z ← z + 9e3779b97f4a7c15
//!        z ← (z ⊕ z ≫ 30) · bf58476d1ce4e5b9
//!        z ← (z ⊕ z ≫ 27) · 94d049bb133111eb
//!        z ⊕ z ≫ 31                               (all modulo 2⁶⁴)
//! ```
//!
//! where `row` and `col` are global and counted from 0 (column −1 is 2⁶⁴ − 1), and `re` and `im`
//! are the bits of the parts in the matrix's own precision, zero-extended; `im` is 0 for real
//! types; every NaN counts as the quiet NaN with no payload; −0 differs from 0. The numbers of rows that
//! were swapped are entries too; of one that the precision does not have `im` is the rest.
//! `m` is a step of SplitMix64: Steele, Lea, Flood, *Fast splittable pseudorandom number
//! generators*, OOPSLA 2014.
//!
//! # Law
//! A sum does not depend on the order, so the digest does not depend on grid, tile order, format
//! or schedule; those of parts add up to that of the whole.

use super::layout::Structure;
use super::tiled::column_major;
use super::{Tile, TiledMatrix};
use crate::error::TileError;
use crate::scalar::Scalar;
use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// A digest, or that of a part: they add up. Prints as 16 hexadecimal digits.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, digest::digest};
/// let of = |nb| digest(&TiledMatrix::from_fn(Layout::lower(5, nb).unwrap(), |i, j| (i + j) as f64));
/// assert_eq!(of(2)?, of(3)?);
/// assert_eq!(of(2)?.to_string().len(), 16);
/// # Ok::<(), dataflow_linalg::error::TileError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub u64);

impl Digest {
    /// The digest of one entry.
    pub fn of_entry<T: Scalar>(row: u64, col: u64, value: T) -> Self {
        Digest::of_bits(row, col, value.bits())
    }

    /// The digest of an entry that is a count: as [`of_entry`](Self::of_entry) where `T` has it, and otherwise
    /// with what rounding has taken from it for `im`.
    pub(crate) fn of_count<T: Scalar>(row: u64, col: u64, count: u64) -> Self {
        let rounded = T::from_real(count as f64);
        let [re, _] = rounded.bits();
        Digest::of_bits(row, col, [re, count.wrapping_sub(rounded.re() as u64)])
    }

    fn of_bits(row: u64, col: u64, [re, im]: [u64; 2]) -> Self {
        let place = mix(mix(row).wrapping_add(col));
        Digest(mix(mix(place.wrapping_add(re)).wrapping_add(im)))
    }

    /// The digest of a tile whose first entry is `(row, col)`; with `lower`, of its entries on and
    /// below the diagonal of the matrix. The piece of work that may run as a task.
    pub fn of_tile<T: Scalar>(tile: &Tile<T>, row: usize, col: usize, lower: bool) -> Self {
        let mut buffer = Vec::new();
        let block = column_major(tile, &mut buffer);
        let columns = block.chunks_exact(tile.rows().max(1)).take(tile.cols());
        columns
            .zip(col..)
            .flat_map(|(column, col)| {
                let skipped = match lower {
                    true => col.saturating_sub(row),
                    false => 0,
                };
                let entries = column.iter().zip(row as u64..).skip(skipped);
                entries.map(move |(value, row)| Digest::of_entry(row, col as u64, *value))
            })
            .sum()
    }

    /// The digest of the part of a tile that belongs to the upper triangle, or trapezium, in the first
    /// `rows` rows of the matrix: what lies below the diagonal there counts as zeros, whatever it is.
    pub fn of_upper<T: Scalar>(tile: &Tile<T>, row: usize, col: usize, rows: usize) -> Self {
        let mut buffer = Vec::new();
        let block = column_major(tile, &mut buffer);
        let columns = block.chunks_exact(tile.rows().max(1)).take(tile.cols());
        let entries = columns.zip(col..).flat_map(|(column, col)| {
            let entries = column.iter().zip(row..rows);
            entries.map(move |(value, row)| {
                let value = if row > col { T::zero() } else { *value };
                Digest::of_entry(row as u64, col as u64, value)
            })
        });
        entries.sum()
    }

    /// The digest of a tile of a lower matrix and of its mirror: of all entries that the tile stands
    /// for in the Hermitian matrix.
    pub fn of_tile_and_mirror<T: Scalar>(tile: &Tile<T>, row: usize, col: usize) -> Self {
        let mut buffer = Vec::new();
        let block = column_major(tile, &mut buffer);
        let columns = block.chunks_exact(tile.rows().max(1)).take(tile.cols());
        let mirrors = columns.zip(col..).flat_map(|(column, col)| {
            let below = (col + 1).saturating_sub(row);
            let entries = column.iter().zip(row as u64..).skip(below);
            entries.map(move |(value, row)| Digest::of_entry(col as u64, row, value.conj()))
        });
        Digest::of_tile(tile, row, col, true) + mirrors.sum()
    }
}

/// The digest of this rank's tiles, of a lower matrix of its lower triangle; those of all ranks add
/// up to that of the matrix.
///
/// # Errors
/// If a stored tile is not at hand.
pub fn digest<T: Scalar>(a: &TiledMatrix<T>) -> Result<Digest, TileError> {
    let lower = a.structure() == Structure::Lower;
    let of_tile = |(i, j)| {
        let (row, col) = (a.row_range(i).start, a.col_range(j).start);
        let tile = a.tile_at(i, j)?;
        Ok(Digest::of_tile(&tile, row, col, lower))
    };
    a.tiles().map(of_tile).sum()
}

fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Add for Digest {
    type Output = Digest;
    fn add(self, other: Digest) -> Digest {
        Digest(self.0.wrapping_add(other.0))
    }
}

impl Sum for Digest {
    fn sum<I: Iterator<Item = Digest>>(digests: I) -> Digest {
        digests.fold(Digest::default(), Add::add)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Distribution, Format, Grid, Layout};
    use crate::scalar::c64;
    use dataflow_core::rank::Rank;
    use std::collections::HashSet;

    fn entry(i: usize, j: usize) -> c64 {
        c64::new(i as f64 - 3.5, (j * j) as f64)
    }

    #[test]
    fn a_triangle_and_its_mirror_are_the_whole_matrix() {
        let lower = Layout::lower(7, 3).unwrap();
        let lower = TiledMatrix::from_fn(lower, |i, j| {
            if i == j {
                c64::new(1.0, 0.0)
            } else {
                entry(i, j)
            }
        });
        let whole = TiledMatrix::from_entries(Layout::general(7, 7, 4).unwrap(), &lower);
        let of_tile = |(i, j)| {
            let (row, col) = (lower.row_range(i).start, lower.col_range(j).start);
            Digest::of_tile_and_mirror(&*lower.tile_at(i, j).unwrap(), row, col)
        };
        let mirrored: Digest = lower.tiles().map(of_tile).sum();
        assert_eq!(mirrored, digest(&whole).unwrap());
    }

    #[test]
    fn the_mixing_step_is_splitmix64() {
        // The first numbers of SplitMix64 from state 1234567 (the test vector in wide use).
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
        let second = 1_234_567u64.wrapping_add(0x9e37_79b9_7f4a_7c15);
        assert_eq!(mix(second), 3_203_168_211_198_807_973);
    }

    #[test]
    fn tile_order_format_and_grid_do_not_show() {
        for (lower, m) in [(true, 13), (false, 9)] {
            let layout = |nb| match lower {
                true => Layout::lower(13, nb).unwrap(),
                false => Layout::general(m, 13, nb).unwrap(),
            };
            let expected = digest(&TiledMatrix::from_fn(layout(20), entry)).unwrap();
            let tiled = layout(4).with_format(Format::SubTiled { order: 3 });
            assert_eq!(digest(&TiledMatrix::from_fn(tiled, entry)), Ok(expected));
            let grid = Distribution::BlockCyclic(Grid::new(2, 2).unwrap());
            let parts = (0..4).map(|rank| {
                let a =
                    TiledMatrix::from_fn(layout(3).distributed(grid, Rank(rank)).unwrap(), entry);
                let tiles = a.layout().tiles().map(|(i, j)| {
                    let (row, col) = (a.row_range(i).start, a.col_range(j).start);
                    Digest::of_tile(&a.tile(i, j).unwrap(), row, col, lower)
                });
                tiles.sum::<Digest>()
            });
            assert_eq!(parts.sum::<Digest>(), expected);
        }
    }

    #[test]
    fn every_bit_and_every_place_shows() {
        let of = |change: fn(usize, usize) -> c64| {
            digest(&TiledMatrix::from_fn(
                Layout::general(4, 4, 2).unwrap(),
                change,
            ))
            .unwrap()
        };
        let digests = [
            of(entry),
            of(|i, j| entry(j, i)),
            of(|i, j| entry(i, j).conj()),
            of(|i, j| {
                if (i, j) == (2, 3) {
                    c64::new(-1.5, 9.000000000000002)
                } else {
                    entry(i, j)
                }
            }),
            of(|_, _| c64::new(0.0, 0.0)),
            of(|_, _| c64::new(0.0, -0.0)),
            of(|_, _| c64::new(f64::NAN, 0.0)),
        ];
        for (x, a) in digests.iter().enumerate() {
            for b in &digests[..x] {
                assert_ne!(a, b);
            }
        }
    }

    /// Those of one float were one count.
    #[test]
    fn every_count_shows_and_is_an_entry_where_it_is_a_number() {
        fn check<T: Scalar>(exact: u64) {
            let of = |count| Digest::of_count::<T>(5, 2, count);
            for count in [0, 1, exact - 1, exact] {
                let entry = Digest::of_entry(5, 2, T::from_real(count as f64));
                assert_eq!(of(count), entry, "{} {count}", T::PRECISION);
            }
            let near = |count: u64| (0..9).map(move |more| of(count - more));
            for most in [exact + 8, u64::MAX] {
                let digests: Vec<Digest> = near(most).collect();
                let different: HashSet<Digest> = digests.into_iter().collect();
                assert_eq!(different.len(), 9, "{} {most}", T::PRECISION);
            }
        }
        check::<f32>(1 << 24);
        check::<f64>(1 << 53);
        check::<c64>(1 << 53);
    }

    #[test]
    fn only_the_lower_triangle_of_a_lower_matrix_counts() {
        let mut a = TiledMatrix::from_fn(Layout::lower(5, 3).unwrap(), entry);
        let before = digest(&a);
        a.store_mut()
            .update(0, |tile| tile.set(0, 1, entry(9, 9)))
            .unwrap();
        assert_eq!(digest(&a), before);
        a.store_mut()
            .update(0, |tile| tile.set(1, 0, entry(9, 9)))
            .unwrap();
        assert_ne!(digest(&a), before);
    }
}
