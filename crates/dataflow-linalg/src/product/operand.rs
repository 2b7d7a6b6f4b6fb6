//! Operands: which stored tile stands where in op(A), and how it enters a product.

use crate::kernel::Op;
use crate::matrix::norm::Norm;
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::rank::Rank;

/// A matrix as it enters a product: as it is, or transposed and conjugated.
///
/// A matrix that is stored as [`Structure::Lower`] enters as the symmetric, or Hermitian, matrix
/// it stands for; imaginary parts on its diagonal are not read.
///
/// # Examples
/// See the [module's](super) example.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a, T: Scalar> {
    pub(super) matrix: &'a TiledMatrix<T>,
    op: Op,
}

/// Where tile (i, j) of an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The tile of the matrix.
    pub tile: (u32, u32),
    /// How it enters.
    pub op: Op,
    /// Whether it is a triangle whose mirror has to be made first.
    pub is_triangle: bool,
}

impl<'a, T: Scalar> Operand<'a, T> {
    /// A.
    pub fn plain(matrix: &'a TiledMatrix<T>) -> Self {
        Operand {
            matrix,
            op: Op::NoTranspose,
        }
    }

    /// Aᴴ, which is Aᵀ for real numbers.
    pub fn adjoint(matrix: &'a TiledMatrix<T>) -> Self {
        Operand {
            matrix,
            op: Op::ConjTranspose,
        }
    }

    /// Aᵀ. Of a Hermitian matrix there is none here: its conjugate is not stored.
    pub fn transposed(matrix: &'a TiledMatrix<T>) -> Self {
        Operand {
            matrix,
            op: Op::Transpose,
        }
    }

    /// How its tiles enter, unless it is Hermitian.
    pub(super) fn op(&self) -> Op {
        self.op
    }

    /// Whether it is the transpose of a Hermitian matrix, which cannot be made from tiles.
    pub(super) fn is_conjugate(&self) -> bool {
        T::IS_COMPLEX && self.is_hermitian() && self.op == Op::Transpose
    }

    /// The norm of the stored matrix that is the 1-norm of what enters.
    pub(super) fn one_norm(&self) -> Norm {
        match self.op {
            Op::NoTranspose => Norm::One,
            Op::Transpose | Op::ConjTranspose => Norm::Infinity,
        }
    }

    /// Rows and columns of what enters.
    pub fn shape(&self) -> (usize, usize) {
        match self.op {
            Op::NoTranspose => (self.matrix.rows(), self.matrix.cols()),
            Op::Transpose | Op::ConjTranspose => (self.matrix.cols(), self.matrix.rows()),
        }
    }

    /// Rows and columns of tiles of what enters.
    pub(super) fn tiles(&self) -> (u32, u32) {
        let (mt, nt) = (self.matrix.mt() as u32, self.matrix.nt() as u32);
        match self.op {
            Op::NoTranspose => (mt, nt),
            Op::Transpose | Op::ConjTranspose => (nt, mt),
        }
    }

    /// How many columns of what enters are multiplied in a step.
    pub(super) fn step(&self, k: u32) -> usize {
        let nb = self.matrix.nb();
        let rest = self.shape().1.saturating_sub(k as usize * nb);
        rest.min(nb)
    }

    /// Whether the matrix is stored as its lower triangle.
    pub(super) fn is_hermitian(&self) -> bool {
        self.matrix.structure() == Structure::Lower
    }

    /// Where tile (i, j) of what enters comes from.
    pub(super) fn stored(&self, i: u32, j: u32) -> Stored {
        let whole = |tile, op| Stored {
            tile,
            op,
            is_triangle: false,
        };
        match self.is_hermitian() {
            true if i == j => Stored {
                tile: (i, i),
                op: Op::NoTranspose,
                is_triangle: true,
            },
            true if i > j => whole((i, j), Op::NoTranspose),
            true => whole((j, i), Op::ConjTranspose),
            false if self.op == Op::NoTranspose => whole((i, j), self.op),
            false => whole((j, i), self.op),
        }
    }

    /// The slot of tile (i, j) of what enters.
    pub(super) fn slot(&self, i: u32, j: u32) -> usize {
        let (i, j) = self.stored(i, j).tile;
        self.matrix.place(i, j)
    }

    /// The owner of tile (i, j) of what enters.
    pub(super) fn rank_of(&self, i: u32, j: u32) -> Rank {
        let (i, j) = self.stored(i, j).tile;
        self.matrix.rank_of(i as usize, j as usize)
    }

    /// Where in what enters stored tile (i, j) stands: in one place or, mirrored, in two.
    pub(super) fn places(&self, (i, j): (u32, u32)) -> impl Iterator<Item = (u32, u32)> + use<T> {
        let (first, second) = match self.is_hermitian() {
            true => ((i, j), (i != j).then_some((j, i))),
            false if self.op == Op::NoTranspose => ((i, j), None),
            false => ((j, i), None),
        };
        std::iter::once(first).chain(second)
    }
}

/// The whole Hermitian tile of which a lower triangle is stored.
pub(super) fn mirrored<T: Scalar>(triangle: &Tile<T>) -> Tile<T> {
    let n = triangle.rows();
    let memory = triangle.memory();
    Tile::from_fn(n, n, triangle.format(), memory, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => triangle.get(j, i).conj(),
        std::cmp::Ordering::Equal => T::from_real(triangle.get(i, i).re()),
        std::cmp::Ordering::Greater => triangle.get(i, j),
    })
}
