//! Aᴴ of a matrix that may be spread over ranks: each tile is read where it lies, turned where it
//! will lie.

use super::reflectors::alike;
use crate::error::LinalgError;
use crate::matrix::{Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

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

    /// Runs this rank's part; every rank calls it with its part of A.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_adjoint(self, on).map_err(LinalgError::Run)
    }

    /// This rank's part of Aᴴ, once the space has run.
    pub fn into_matrix(self) -> TiledMatrix<T> {
        self.made
    }
}

task_space! {
    /// The tasks of the adjoint: the indices of a tile of A.
    pub enum AdjointTask;

    impl<T: Scalar> TaskSpace for Adjoint<'_, T> {
        type Datum = Tile<T>;
        let mt = self.a.mt() as u32;
        let nt = self.a.nt() as u32;
        data A[i, j] in self.a.store() at self.a.place(i, j) on self.a.rank_of(i as usize, j as usize);
        data Made[j, i]
            in self.made.store() at self.made.place(j, i)
            on self.made.rank_of(j as usize, i as usize);

        for j in 0..nt {
            for i in 0..mt {
                Give { i, j }: give A[i, j];
                Turn { i, j }: read tile = A[i, j], new made = Made[j, i] => {
                    let (rows, cols, memory) = (tile.cols(), tile.rows(), self.made.memory());
                    let turned = |i, j| tile.get(j, i).conj();
                    made.put(Tile::from_fn(rows, cols, tile.format(), memory, turned));
                }
            }
        }

        fn describe(&self, about: &mut Description) {
            about.name("adjoint").parameter("m", self.a.rows());
            self.a.layout().describe(about);
            about.parameter("precision", T::PRECISION);
        }
    }
}
