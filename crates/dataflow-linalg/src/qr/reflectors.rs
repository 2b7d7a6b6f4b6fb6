//! The reflectors of a factorisation: what is needed, beside the tiles of R, to apply Q.
//!
//! # Law
//! R, V and T are data of their own. In the matrix stay R, on and above the diagonal of tiles, and
//! below it the V of eliminated rows. The V of rows that became triangles and all T live here, in
//! slots like those of the matrix.

use super::levels::Levels;
use super::{Elimination, Tree};
use crate::error::LinalgError;
use crate::kernel::Below;
use crate::matrix::{Layout, Tile};
use crate::scalar::Scalar;
use dataflow_core::data::{Store, Version};
use std::fmt;
use std::sync::OnceLock;

/// How a matrix is factored: part of what decides the bits of the result.
///
/// # Examples
/// See the [module's](super) example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Which rows vanish under which.
    pub tree: Tree,
    /// The inner block size of the kernels: rows of T, at least 1. More than a tile has rows or columns are
    /// as many as these.
    pub ib: usize,
}

impl Options {
    /// The flat tree and the inner block size that suits tiles of order `nb`.
    pub fn of_order(nb: usize) -> Self {
        Options {
            tree: Tree::Flat,
            ib: super::order::default_inner_block(nb),
        }
    }

    /// The inner block size that there is in tiles of such a matrix.
    pub(crate) fn inner_block(self, layout: &Layout) -> usize {
        let most = layout.nb().min(layout.rows().max(layout.cols()));
        self.ib.clamp(1, most.max(1))
    }

    /// The same with another tree.
    #[must_use]
    pub fn with_tree(self, tree: Tree) -> Self {
        Options { tree, ..self }
    }
}

/// The reflectors of the tiles of one rank, and the elimination they stand for.
///
/// # Examples
/// See the [module's](super) example: [`factor`](super::factor()) returns them.
pub struct Reflectors<T: Scalar> {
    pub(super) layout: Layout,
    pub(super) options: Options,
    pub(super) elimination: Elimination,
    /// How long the way from each task of the factorisation to the end is, once one of them was asked.
    levels: OnceLock<Levels>,
    /// V of the rows that became triangles, below the diagonal of their tile.
    pub(super) v: Store<Tile<T>>,
    /// T of the rows that became triangles.
    pub(super) t: Store<Tile<T>>,
    /// T of the rows that vanished.
    pub(super) s: Store<Tile<T>>,
}

impl<T: Scalar> Reflectors<T> {
    /// Room for the reflectors of a matrix; the factorisation fills it.
    pub fn new(layout: &Layout, options: Options) -> Self {
        let (mt, nt) = (layout.mt() as u32, layout.nt() as u32);
        let elimination = Elimination::of_tree(options.tree, mt, mt.min(nt));
        Reflectors::of(layout, options, elimination)
    }

    /// The same for eliminations of one's own, of which the options' tree is a name.
    pub(super) fn of(layout: &Layout, options: Options, elimination: Elimination) -> Self {
        let empty = |name| Store::empty(name, layout.n_slots());
        Reflectors {
            layout: *layout,
            options: Options {
                ib: options.inner_block(layout),
                ..options
            },
            levels: OnceLock::new(),
            elimination,
            v: empty("reflectors"),
            t: empty("triangles"),
            s: empty("triangles of eliminations"),
        }
    }

    /// Those of a matrix of one tile, as [`whole::Qr`](crate::whole::Qr) leaves them.
    ///
    /// # Errors
    /// If the matrix has more tiles.
    pub fn of_tile(
        layout: &Layout,
        options: Options,
        (v, t): (Tile<T>, Tile<T>),
    ) -> Result<Self, LinalgError> {
        let q = Reflectors::new(layout, options);
        match (layout.mt() * layout.nt(), layout.n_slots()) {
            (0 | 1, 0) => Ok(q),
            (1, _) => {
                // There are slots, and they are empty.
                let _ = q.v.put(0, Version::new(v));
                let _ = q.t.put(0, Version::new(t));
                Ok(q)
            }
            (tiles, _) => Err(LinalgError::Shape(format!(
                "reflectors of one tile for a matrix of {tiles}"
            ))),
        }
    }

    /// V and T of a matrix of one tile, once they are there.
    pub fn tile(&self) -> Option<[Version<Tile<T>>; 2]> {
        match (self.layout.mt() * self.layout.nt(), self.layout.n_slots()) {
            (1, 1) => Some([self.v.get(0)?, self.t.get(0)?]),
            _ => None,
        }
    }

    /// How the matrix is cut and spread.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How it was factored.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Which rows vanish under which.
    pub fn elimination(&self) -> &Elimination {
        &self.elimination
    }

    /// How urgent the tasks of the factorisation are along a tree that is not flat, without a lookahead.
    pub(super) fn levels(&self) -> &Levels {
        let of = || Levels::of(&self.elimination, self.layout.nt());
        self.levels.get_or_init(of)
    }

    /// The slot of tile (m, k) in the stores of its rank; elsewhere a number that stands for it.
    pub(super) fn place(&self, m: u32, k: u32) -> usize {
        self.layout.place(m, k)
    }

    /// What row `m` is when it vanishes in panel `k`.
    pub(super) fn below(&self, k: u32, m: u32) -> Below {
        self.elimination.below(k, m)
    }
}

impl<T: Scalar> fmt::Debug for Reflectors<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflectors")
            .field("precision", &T::PRECISION)
            .field("layout", &self.layout)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A matrix of another shape, cut and spread like one.
pub(crate) fn alike(layout: &Layout, (rows, cols): (usize, usize)) -> Result<Layout, LinalgError> {
    let alike = Layout::general(rows, cols, layout.nb())?.with_format(layout.format());
    Ok(alike.distributed(*layout.distribution(), layout.rank())?)
}
