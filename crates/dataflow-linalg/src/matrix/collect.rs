//! Collect: the tiles of a matrix that is spread over ranks, brought to one of them.

use super::{Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::Error;
use dataflow_core::data::Version;
use dataflow_core::error::Kind;
use dataflow_core::port::Executor;
use dataflow_core::rank::Rank;
use dataflow_core::space;

/// The space that does it.
pub(crate) type Collect<'a, T> = space::Collect<'a, Tile<T>>;

impl<T: Scalar> TiledMatrix<T> {
    /// The whole matrix on the rank `to`, in tiles like these and all on that rank alone; `None` on the
    /// others. Each rank calls it with its part, which stays as it is.
    ///
    /// Costs a message for each tile of another rank, and on `to` the memory of the whole matrix.
    ///
    /// # Errors
    /// If a tile is not filled, `to` is no rank, or ranks disagree on the number of tiles; what
    /// [`run_across`](dataflow_core::run_across) answers.
    ///
    /// # Examples
    /// On one rank it is a copy; over ranks the call is the same:
    /// ```
    /// use dataflow_core::{port::Inline, rank::Rank};
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// let a = TiledMatrix::from_fn(Layout::lower(5, 2)?, |i, j| (10 * i + j) as f64);
    /// let whole = a.collect(Rank(0), &Inline)?.ok_or("this is rank 0")?;
    /// assert_eq!(whole.to_ndarray()?[[4, 3]], 43.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn collect(&self, to: Rank, on: &dyn Executor) -> Result<Option<Self>, Error> {
        let whole = self.layout().alone();
        let places = |slot| {
            let (i, j) = whole.tile_of(slot).unwrap_or_default();
            (self.rank_of(i, j), self.place(i as u32, j as u32))
        };
        let collect = Collect::new(self.store(), whole.n_slots(), &places, to);
        let run = T::run_collect(&collect, self, on);
        run.map_err(|error| self.not_to(to, on, error))?;
        let tiles = collect.into_data();
        let here = tiles.filter(|_| on.courier().rank() == to);
        Ok(here.map(|tiles| {
            let all = TiledMatrix::vacant(whole, self.memory().clone());
            for (slot, tile) in tiles.into_iter().enumerate() {
                // The slot exists: there are as many tiles as slots.
                let _ = all.store().put(slot, Version::new(tile));
            }
            all
        }))
    }

    /// An error of the run, in words if the data were to go to no rank. The run is begun all the same: so
    /// the others hear of it, also if they named another.
    fn not_to(&self, to: Rank, on: &dyn Executor, error: Error) -> Error {
        let last = on.courier().n_ranks().saturating_sub(1);
        if error.kind() != Kind::NoSuchRank || to.0 as usize <= last {
            return error;
        }
        let called = self.called();
        Error::no_such_rank(format!(
            "{called} cannot be collected on {to}: the last is rank {last}"
        ))
    }
}
