//! Each tile: a body called for every tile, on the rank that owns it.

use super::seen::run_seen;
use super::{Layout, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::Erased;
use dataflow_core::{Error, Report};
use std::fmt;

/// A task without edges for each stored tile of a matrix, on its owner.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{EachTile, Layout};
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let (layout, elements) = (Layout::general(7, 5, 3)?, AtomicUsize::new(0));
/// let count = EachTile::new("count", &layout, |i, j| {
///     elements.fetch_add(layout.tile_rows(i) * layout.tile_cols(j), Relaxed);
///     Ok(())
/// });
/// assert_eq!(count.run(&Inline)?.tasks, 6);
/// drop(count);
/// assert_eq!(elements.into_inner(), 35);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EachTile<'a> {
    name: &'static str,
    layout: Layout,
    body: Box<dyn Fn(usize, usize) -> Result<(), TaskError> + Sync + 'a>,
}

impl<'a> EachTile<'a> {
    /// Tasks that call `body` with the indices of a tile.
    pub fn new(
        name: &'static str,
        layout: &Layout,
        body: impl Fn(usize, usize) -> Result<(), TaskError> + Sync + 'a,
    ) -> Self {
        EachTile {
            name,
            layout: *layout,
            body: Box::new(body),
        }
    }

    /// Runs this rank's tasks, together with the other ranks.
    ///
    /// # Errors
    /// A body's; and what [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, Error> {
        run_seen(&Erased::new(self), &mut std::iter::empty(), None, on)
    }

    /// The same over the tiles of a matrix; refused on all ranks if it is out of place on one.
    pub(super) fn run_over<T: Scalar>(
        &self,
        matrix: &TiledMatrix<T>,
        on: &dyn Executor,
    ) -> Result<Report, Error> {
        let (mut name, misplaced) = (matrix.name().into_iter(), matrix.misplaced(on));
        run_seen(&Erased::new(self), &mut name, misplaced, on)
    }
}

impl fmt::Debug for EachTile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EachTile");
        shown.field("name", &self.name);
        shown.field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl TaskSpace for EachTile<'_> {
    type Task = (u32, u32);
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name(self.name);
        about.parameter("m", self.layout.rows());
        self.layout.describe(about);
        about.class("Tile");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
        self.layout.tiles_of(on)
    }

    fn inputs(&self, _: (u32, u32), _: &mut impl Inputs<Self>) {}

    fn successors(&self, _: (u32, u32), _: &mut impl Successors<Self>) {}

    fn run(&self, (i, j): (u32, u32), _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        (self.body)(i as usize, j as usize)
    }

    fn rank(&self, (i, j): (u32, u32)) -> Rank {
        self.layout.rank_of(i as usize, j as usize)
    }
}
