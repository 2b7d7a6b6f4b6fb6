//! The grid: how the cells of a cube are cut into blocks, and how blocks are dealt out to ranks.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// How many along each axis; of blocks or of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts(pub [usize; 3]);

impl Counts {
    /// How many in all.
    pub fn product(self) -> usize {
        self.0.iter().product()
    }
}

impl FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        let counts = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        let counts = counts.filter(|counts: &[usize; 3]| counts.iter().all(|&count| count > 0));
        counts
            .map(Counts)
            .ok_or_else(|| "blocks are three positive numbers, like 5x5x5".to_string())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [i, j, k] = self.0;
        write!(f, "{i}x{j}x{k}")
    }
}

/// A side of a block: below or above it along one of the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub axis: usize,
    pub above: bool,
}

impl Side {
    /// All six, in the order of their flows.
    pub fn all() -> impl Iterator<Item = Side> {
        (0..6).map(|at| Side {
            axis: at / 2,
            above: at % 2 == 1,
        })
    }

    /// Its place among the six.
    pub fn index(self) -> usize {
        2 * self.axis + usize::from(self.above)
    }

    /// The same side as the neighbour sees it.
    pub fn opposite(self) -> Side {
        Side {
            above: !self.above,
            ..self
        }
    }
}

/// A block by its place along each axis.
pub type Place = [u32; 3];

/// The cells of a cube of `n³`, in blocks, which boxes of ranks share.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub n: usize,
    pub blocks: Counts,
    pub ranks: Counts,
}

impl Grid {
    /// Cuts `n³` cells (`n` at least 1) into blocks, at most one a cell along each axis, and deals
    /// them out to ranks in boxes whose faces are as small as can be.
    ///
    /// # Errors
    /// If there are more blocks than cells along an axis.
    pub fn new(n: usize, blocks: Counts, n_ranks: usize) -> Result<Self, String> {
        if blocks.0.iter().any(|&count| count > n.min(8191)) {
            return Err(format!(
                "--blocks {blocks}: there are {n} cells along an axis, and at most 8191 blocks"
            ));
        }
        Ok(Grid {
            n,
            blocks,
            ranks: boxes(blocks, n_ranks),
        })
    }

    /// The cells of a block along an axis.
    pub fn cells(&self, axis: usize, block: u32) -> Range<usize> {
        let first = |block: usize| block * self.n / self.blocks.0[axis];
        first(block as usize)..first(block as usize + 1)
    }

    /// How many cells a block has along each axis.
    pub fn shape(&self, place: Place) -> [usize; 3] {
        std::array::from_fn(|axis| self.cells(axis, place[axis]).len())
    }

    /// The block's number: the last axis is counted first.
    pub fn number(&self, [i, j, k]: Place) -> usize {
        let [_, along_j, along_k] = self.blocks.0;
        (i as usize * along_j + j as usize) * along_k + k as usize
    }

    /// All blocks, in the order of their numbers.
    pub fn places(self) -> impl Iterator<Item = Place> + Send {
        let [i, j, k] = self.blocks.0.map(|count| count as u32);
        (0..i).flat_map(move |i| (0..j).flat_map(move |j| (0..k).map(move |k| [i, j, k])))
    }

    /// The block beside one; `None` at the border of the cube.
    pub fn neighbour(&self, mut place: Place, side: Side) -> Option<Place> {
        let at = place[side.axis];
        let next = match side.above {
            true => at + 1,
            false => at.checked_sub(1)?,
        };
        place[side.axis] = next;
        ((next as usize) < self.blocks.0[side.axis]).then_some(place)
    }

    /// The rank that has a block.
    pub fn rank(&self, place: Place) -> u32 {
        let along = |axis: usize| place[axis] as usize * self.ranks.0[axis] / self.blocks.0[axis];
        let [_, of_j, of_k] = self.ranks.0;
        ((along(0) * of_j + along(1)) * of_k + along(2)) as u32
    }
}

/// So many ranks along each axis that all have blocks and show each other as few cells as can be;
/// where there are more ranks than such boxes, the rest has nothing.
fn boxes(blocks: Counts, n_ranks: usize) -> Counts {
    let [bi, bj, bk] = blocks.0;
    let mut best = (0, f64::MAX, Counts([1, 1, 1]));
    for i in 1..=n_ranks.min(bi) {
        for j in 1..=(n_ranks / i).min(bj) {
            let k = (n_ranks / (i * j)).min(bk);
            let used = i * j * k;
            let shown = (i + j + k) as f64;
            if used > best.0 || used == best.0 && shown < best.1 {
                best = (used, shown, Counts([i, j, k]));
            }
        }
    }
    best.2
}
