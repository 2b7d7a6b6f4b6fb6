//! What crosses ranks, counted over the reads and writes of the plain loops.
//!
//! # Law
//! A datum, or the part of it that is read, is sent once to each rank that reads a version of it
//! where it does not lie; nothing else is sent.
//!
//! # Elsewhere
//! Of Cholesky and of the products: with the tests of their bits, in `ranks`. Of Cholesky over
//! the real protocol: `tests/messages.rs` of the root.

mod counted;
mod lu;
mod qr;
mod series;
mod solves;
mod weighed;

use crate::ranks::Crossed;
use dataflow_core::port::Courier;
use dataflow_linalg::matrix::generate::Random;
use dataflow_linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use std::collections::{BTreeMap, BTreeSet};

const NB: usize = 4;

/// What a loop names: a letter and two numbers.
pub type Name = (char, usize, usize);
/// A datum or a part of it, and how many elements that is.
pub type Read = (Name, char, usize);

/// Data, where their versions lie, and what was sent.
pub struct Loops {
    grid: (usize, usize),
    /// Version and place.
    lie: BTreeMap<Name, (usize, usize)>,
    sent: BTreeSet<(Name, char, usize, usize)>,
    elements: usize,
}

/// A tile read as it is, and parts of one.
pub fn whole(name: Name, rows: usize, cols: usize) -> Read {
    (name, 'W', rows * cols)
}

pub fn upper(name: Name, rows: usize, cols: usize) -> Read {
    (name, 'U', each(rows, cols).filter(|(i, j)| i <= j).count())
}

pub fn lower(name: Name, rows: usize, cols: usize) -> Read {
    (name, 'L', each(rows, cols).filter(|(i, j)| i >= j).count())
}

fn unit_lower(name: Name, rows: usize, cols: usize) -> Read {
    (name, 'l', each(rows, cols).filter(|(i, j)| i > j).count())
}

/// Numbers of 32 bits in the place of elements.
fn words(name: Name, words: usize) -> Read {
    let elements = words.div_ceil(size_of::<f64>() / size_of::<u32>());
    (name, 'W', elements)
}

fn each(rows: usize, cols: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..cols).flat_map(move |j| (0..rows).map(move |i| (i, j)))
}

/// Rows or columns of a tile.
pub fn extent(length: usize, nb: usize, tile: usize) -> usize {
    nb.min(length - tile * nb)
}

impl Loops {
    pub fn on((p, q): (u32, u32)) -> Self {
        Loops {
            grid: (p as usize, q as usize),
            lie: BTreeMap::new(),
            sent: BTreeSet::new(),
            elements: 0,
        }
    }

    /// The rank of tile (i, j).
    pub fn rank(&self, i: usize, j: usize) -> usize {
        i % self.grid.0 * self.grid.1 + j % self.grid.1
    }

    /// A task on a rank; what it has not touched before lies where the tile of its numbers does.
    pub fn task(&mut self, rank: usize, reads: &[Read], writes: &[Name]) {
        for &(name, part, elements) in reads {
            let home = self.rank(name.1, name.2);
            let (version, place) = *self.lie.entry(name).or_insert((0, home));
            if place != rank && self.sent.insert((name, part, version, rank)) {
                self.elements += elements;
            }
        }
        for &name in writes {
            let version = self.lie.get(&name).map_or(0, |(version, _)| version + 1);
            self.lie.insert(name, (version, rank));
        }
    }

    /// How many data are sent, and how many elements in them.
    pub fn counted(&self) -> (u64, u64) {
        (self.sent.len() as u64, self.elements as u64)
    }

    pub fn expect<T: Scalar>(&self, crossed: &Crossed, what: &str) {
        let (data, elements) = self.counted();
        let expected = (data, elements * size_of::<T>() as u64);
        assert_eq!((crossed.data, crossed.bytes), expected, "{what}");
    }
}

/// A rank's part of a random matrix, its diagonal raised by so much.
fn part(
    (m, n): (usize, usize),
    (p, q): (u32, u32),
    courier: &dyn Courier,
    raised: f64,
) -> TiledMatrix<f64> {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let layout = Layout::general(m, n, NB).unwrap();
    let layout = layout.distributed(grid, courier.rank()).unwrap();
    TiledMatrix::from_fn(layout, |i, j| {
        let entry: f64 = Random::new(3).entry(i, j);
        if i == j { entry + raised } else { entry }
    })
}
