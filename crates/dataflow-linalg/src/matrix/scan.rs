//! The search for an entry that is not finite, and for a zero pivot: all tiles in parallel, on all
//! ranks.

use super::norm::{Extent, tile_first_not_finite};
use super::{EachTile, TiledMatrix};
use crate::error::LinalgError;
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;

impl<T: Scalar> TiledMatrix<T> {
    /// Looks for an entry that is NaN or infinite; every rank looks through its own tiles.
    ///
    /// Of a lower matrix only the lower triangle counts. Reads each entry once.
    ///
    /// # Errors
    /// [`LinalgError::NotFinite`]: the first in column order, the same on every rank; and what
    /// [`run_across`](dataflow_core::run_across) answers.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// let entry = |i: usize, j: usize| if (i, j) == (4, 1) { f64::NAN } else { 1.0 };
    /// let a = TiledMatrix::from_fn(Layout::general(5, 3, 2)?, entry);
    /// let found = a.scan(&Inline).unwrap_err();
    /// assert!(found.to_string().contains("entry (4, 1)"));
    /// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
    /// ```
    pub fn scan(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        let scan = EachTile::new("scan", self.layout(), |i, j| {
            let tile = self.tile_at(i, j)?;
            let extent = Extent::of(self.structure(), i, j);
            let Some(found) = tile_first_not_finite(&tile, extent) else {
                return Ok(());
            };
            let (row, col) = (self.row_range(i).start, self.col_range(j).start);
            Err(LinalgError::not_finite(
                row + found.row,
                col + found.col,
                self.rows(),
            ))
        });
        let found = scan.run_over(self, on);
        found.map_err(|error| self.failed(error))
    }
}
