//! Each tile: a body called for every tile, on the rank that owns it.

use super::Layout;
use dataflow_core::prelude::*;

/// A task without edges for each stored tile of a matrix, on its owner.
///
/// # Examples
/// ```
/// use dataflow_core::{port::Inline, run};
/// use dataflow_linalg::matrix::{EachTile, Layout};
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let (layout, elements) = (Layout::general(7, 5, 3)?, AtomicUsize::new(0));
/// let count = EachTile::new("count", &layout, |i, j| {
///     elements.fetch_add(layout.tile_rows(i) * layout.tile_cols(j), Relaxed);
///     Ok(())
/// });
/// assert_eq!(run(&count, &Inline)?.tasks, 6);
/// assert_eq!(elements.into_inner(), 35);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EachTile<F> {
    name: &'static str,
    layout: Layout,
    body: F,
}

impl<F: Fn(usize, usize) -> Result<(), TaskError> + Sync> EachTile<F> {
    /// Tasks that call `body` with the indices of a tile.
    pub fn new(name: &'static str, layout: &Layout, body: F) -> Self {
        EachTile {
            name,
            layout: *layout,
            body,
        }
    }
}

impl<F: Fn(usize, usize) -> Result<(), TaskError> + Sync> TaskSpace for EachTile<F> {
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
