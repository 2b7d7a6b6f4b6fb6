//! Exchanges: what incremental pivoting leaves beside the tiles.

use super::pivots::expect_same_layout;
use crate::error::LinalgError;
use crate::matrix::digest::Digest;
use crate::matrix::{Layout, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::data::Store;

/// For each step the row swaps within its diagonal tile, and for each tile below the steps by which
/// it vanished; each on the rank of the tile.
///
/// # Examples
/// See [`factor_incremental`](super::factor_incremental#examples).
pub struct Exchanges<T: Scalar> {
    layout: Layout,
    store: Store<Tile<T>>,
}

impl<T: Scalar> std::fmt::Debug for Exchanges<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchanges")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl<T: Scalar> Exchanges<T> {
    /// Room for those of the factorisation of `a`.
    pub fn new(a: &TiledMatrix<T>) -> Self {
        let slots = a.mt() * a.mt().min(a.nt());
        Exchanges {
            layout: *a.layout(),
            store: Store::empty("exchanges", slots),
        }
    }

    /// The digest of this rank's part, as entries of columns beyond those of any matrix.
    pub fn digest(&self) -> Digest {
        let of_slot = |slot: usize| {
            let tile = self.store.get(slot);
            let words = tile.map(|tile| bytemuck::cast_slice(tile.as_slice()).to_vec());
            let words: Vec<u32> = words.unwrap_or_default();
            let entry = |(row, word): (u64, u32)| {
                let column = u64::MAX - 1 - slot as u64;
                Digest::of_count::<T>(row, column, word.into())
            };
            (0..).zip(words).map(entry).sum::<Digest>()
        };
        (0..self.store.len()).map(of_slot).sum()
    }

    /// Refuses a matrix of another shape, cut or distribution.
    pub(super) fn expect_of(&self, a: &TiledMatrix<T>) -> Result<(), LinalgError> {
        expect_same_layout("exchanges", &self.layout, a)
    }

    pub(super) fn store(&self) -> &Store<Tile<T>> {
        &self.store
    }

    /// The slot of tile (m, k).
    pub(super) fn slot(&self, m: u32, k: u32) -> usize {
        m as usize + k as usize * self.layout.mt()
    }
}
