//! Fill: the tiles of a matrix are made, each by a task of its own that touches it first.
//!
//! # Law
//! The tasks make data without reading any, so on machines of several NUMA nodes the executor
//! spreads them round robin, and a tile lies where its task ran. Which entry stands where does
//! not depend on that.
//!
//! Where there are other ranks no monitor watches a fill: it would end on this rank alone, and the others
//! would wait for the rank in their next run.

use super::tiled::{empty_tile, fill};
use super::{Entries, Layout, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Alone, Context, Executor, Memory};
use dataflow_core::prelude::*;
use dataflow_core::space::Independent;
use dataflow_core::{Error, Report, run_across, task_names};
use std::fmt;
use std::sync::Arc;

task_names! {
    /// A tile is made.
    pub enum FillTask { Fill { i, j } }
}

/// The tile that a task makes.
const TILE: usize = 0;

/// A task for each tile of this rank.
pub struct Fill<'a, T: Scalar> {
    pub(super) matrix: &'a TiledMatrix<T>,
    entries: &'a dyn Entries<T>,
    tiles: Vec<(usize, usize)>,
}

impl<T: Scalar> fmt::Debug for Fill<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Fill");
        shown.field("matrix", self.matrix).finish_non_exhaustive()
    }
}

impl<T: Scalar> TiledMatrix<T> {
    /// Makes all tiles of this rank anew with the given entries, in parallel, each near the worker
    /// that makes it. A monitor watches it only if there is no other rank.
    ///
    /// # Errors
    /// If the executor cannot run, or an entry panics. Other ranks do not hear of it: a rank that gets the
    /// error ends, for they wait for it in their next run.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::{Heap, Inline};
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// # use std::sync::Arc;
    /// let a = TiledMatrix::<f64>::vacant(Layout::lower(5, 2)?, Arc::new(Heap));
    /// a.fill(&|i, j| (10 * i + j) as f64, &Inline)?;
    /// assert_eq!(a.get(4, 3), Some(43.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fill(&self, entries: &impl Entries<T>, on: &dyn Executor) -> Result<Report, Error> {
        let tiles = self.tiles().collect();
        let fill = Fill {
            matrix: self,
            entries,
            tiles,
        };
        // No other rank has a part in it, whichever the matrix is seen from.
        let (alone, nobody) = (Context::new(on).across(&Alone), Monitor::new());
        let on = match on.courier().n_ranks() {
            1 => alone,
            _ => alone.watched_by(&nobody),
        };
        T::run_tiles(&fill.erased(), &[], &on).map_err(|error| self.told_in(error))
    }

    /// The error of a task, which is named by its tile, with the name of the matrix.
    fn told_in(&self, error: Error) -> Error {
        match (error.task(), self.name()) {
            (Some(_), Some(_)) => {
                error.retold(|text| format!("{text}, as {} was filled", self.called()))
            }
            _ => error,
        }
    }

    /// A matrix for runs beside another of this distribution: [filled](Self::fill) with these entries where
    /// it is seen from this rank, elsewhere without tiles.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::{Heap, Inline, Memory};
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// use std::sync::Arc;
    ///
    /// let memory: Arc<dyn Memory> = Arc::new(Heap);
    /// let ones = |_: usize, _: usize| 1.0;
    /// let (b, _) = TiledMatrix::beside(Layout::general(3, 1, 2)?, &memory, &ones, &Inline)?;
    /// assert_eq!(b.get(2, 0), Some(1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn beside(
        layout: Layout,
        memory: &Arc<dyn Memory>,
        entries: &impl Entries<T>,
        on: &dyn Executor,
    ) -> Result<(Self, Report), Error> {
        let made = TiledMatrix::vacant(layout, memory.clone());
        let report = match layout.rank() == on.courier().rank() {
            true => made.fill(entries, on)?,
            false => Report::default(),
        };
        Ok((made, report))
    }

    /// The same with entries that may panic, called by all ranks: if they do on one, all have its error.
    pub(crate) fn beside_of_user(
        layout: Layout,
        memory: &Arc<dyn Memory>,
        entries: &impl Entries<T>,
        on: &dyn Executor,
    ) -> Result<Self, Error> {
        let made = TiledMatrix::beside(layout, memory, entries, on).map(|(made, _)| made);
        tell_all(made.as_ref().err(), on)?;
        made
    }
}

/// What went wrong on one rank, if anything, becomes an error of all.
fn tell_all(fault: Option<&Error>, on: &dyn Executor) -> Result<(), Error> {
    let n_ranks = u32::try_from(on.courier().n_ranks()).unwrap_or(u32::MAX); // the run refuses more
    if n_ranks == 1 {
        return Ok(());
    }
    let tell = |_| fault.map_or(Ok(()), |fault| Err(fault.clone().into()));
    let told = Independent::new("filled", n_ranks.into(), tell).across(n_ranks);
    run_across(&told, on).map(drop)
}

impl FillTask {
    /// The tile that it makes.
    pub(super) fn tile(self) -> (usize, usize) {
        let FillTask::Fill { i, j } = self;
        (i as usize, j as usize)
    }
}

impl<T: Scalar> TaskSpace for Fill<'_, T> {
    type Task = FillTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("fill").parameter("matrix", self.matrix.called());
        about.parameter("tiles", self.tiles.len());
        about.class("Fill").new_flow("TILE");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = FillTask> + Send {
        let named = |&(i, j): &(usize, usize)| FillTask::Fill {
            i: i as u32,
            j: j as u32,
        };
        self.tiles.iter().map(named)
    }

    fn inputs(&self, _: FillTask, _: &mut impl Inputs<Self>) {}

    fn successors(&self, task: FillTask, to: &mut impl Successors<Self>) {
        let (i, j) = task.tile();
        if let Some(slot) = self.matrix.slot(i, j) {
            to.home(TILE, self.matrix.store(), slot);
        }
    }

    fn run(&self, task: FillTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        let (i, j) = task.tile();
        let (layout, memory) = (self.matrix.layout(), self.matrix.memory());
        let mut tile = empty_tile(layout, memory, i, j);
        fill(&mut tile, layout, i, j, self.entries, &mut Vec::new());
        let [slot] = flows.slots();
        slot.put(tile);
        Ok(())
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = FillTask> + Send {
        self.tasks(on)
    }

    fn count(&self, _: Rank) -> u64 {
        self.tiles.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::port::{Heap, Shuffled};

    #[test]
    fn the_space_is_proved_and_a_matrix_is_filled_again_over_what_was_there() {
        let layout = Layout::lower(7, 3).unwrap();
        let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
        let tiles: Vec<_> = a.tiles().collect();
        let entries = |_: usize, _: usize| 0.0;
        let space = Fill {
            matrix: &a,
            entries: &entries,
            tiles: tiles.clone(),
        };
        verify(&space, 1).unwrap();
        for round in 0..2 {
            let entry = |i: usize, j: usize| (100 * round + 10 * i + j) as f64;
            let report = a.fill(&entry, &Shuffled::new(round as u64)).unwrap();
            assert_eq!(report.tasks, tiles.len() as u64);
            for (i, j) in (0..7).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                assert_eq!(a.get(i, j), Some(entry(i, j)));
            }
        }
    }
}
