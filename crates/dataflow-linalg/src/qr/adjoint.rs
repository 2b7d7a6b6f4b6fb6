//! Aᴴ of a matrix that may be spread over ranks: each tile is read where it lies, turned where it
//! will lie.

use super::reflectors::alike;
use crate::error::LinalgError;
use crate::matrix::{Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::prelude::*;
use dataflow_core::task_names;

task_names! {
    /// The tasks of the adjoint: the indices of a tile of A.
    pub enum AdjointTask { Give { i, j }, Turn { i, j } }
}
use AdjointTask::{Give, Turn};

/// Turn: the tile that is made.
const MADE: usize = 1;

/// The task space of Aᴴ: two tasks for each tile.
pub struct Adjoint<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
    /// Its tiles are made by the run.
    made: TiledMatrix<T>,
}

impl<'a, T: Scalar> Adjoint<'a, T> {
    /// The space for a matrix of [`Structure::General`](crate::matrix::Structure::General); the
    /// adjoint is cut and spread like it.
    ///
    /// # Errors
    /// If the tiles are too many to be counted.
    pub fn new(a: &'a TiledMatrix<T>) -> Result<Self, LinalgError> {
        let layout = alike(a.layout(), (a.cols(), a.rows()))?;
        let made = TiledMatrix::vacant(layout, a.memory().clone());
        Ok(Adjoint { a, made })
    }

    /// This rank's part of Aᴴ, once the space has run.
    pub fn into_matrix(self) -> TiledMatrix<T> {
        self.made
    }
}

impl<T: Scalar> TaskSpace for Adjoint<'_, T> {
    type Task = AdjointTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("adjoint").parameter("m", self.a.rows());
        self.a.layout().describe(about);
        about.parameter("precision", T::PRECISION);
        about.class("Give").read("TILE");
        about.class("Turn").read("TILE").new_flow("MADE");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = AdjointTask> + Send {
        let (mt, nt) = (self.a.mt() as u32, self.a.nt() as u32);
        let tiles = (0..nt).flat_map(move |j| (0..mt).map(move |i| (i, j)));
        let each = tiles.flat_map(|(i, j)| [Give { i, j }, Turn { i, j }]);
        each.filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: AdjointTask, from: &mut impl Inputs<Self>) {
        match task {
            Give { i, j } => from.home(0, self.a.store(), self.a.place(i, j)),
            Turn { i, j } => from.task(0, Give { i, j }, 0),
        }
    }

    fn successors(&self, task: AdjointTask, to: &mut impl Successors<Self>) {
        match task {
            Give { i, j } => to.task(0, Turn { i, j }, 0),
            Turn { i, j } => to.home(MADE, self.made.store(), self.made.place(j, i)),
        }
    }

    fn run(&self, task: AdjointTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        if let Turn { .. } = task {
            let [tile, made] = flows.slots();
            let tile = tile.read();
            let (rows, cols, memory) = (tile.cols(), tile.rows(), self.made.memory());
            let turned = |i, j| tile.get(j, i).conj();
            made.put(Tile::from_fn(rows, cols, tile.format(), memory, turned));
        }
        Ok(())
    }

    fn rank(&self, task: AdjointTask) -> Rank {
        match task {
            Give { i, j } => self.a.rank_of(i as usize, j as usize),
            Turn { i, j } => self.made.rank_of(j as usize, i as usize),
        }
    }
}
