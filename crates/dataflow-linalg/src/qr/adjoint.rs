//! Aᴴ of a matrix that may be spread over ranks: each tile is read where it lies, turned where it
//! will lie.

use super::reflectors::alike;
use crate::error::LinalgError;
use crate::matrix::{Structure, Tile, TiledMatrix, expect_two};
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// The task space of Aᴴ: two tasks for each tile.
///
/// # Examples
/// See [`adjoint`](adjoint()), which makes the room for it and runs it.
#[derive(Clone, Copy, Debug)]
pub struct Adjoint<'a, T: Scalar> {
    pub(super) a: &'a TiledMatrix<T>,
    into: &'a TiledMatrix<T>,
    /// Whether there are tiles that are overwritten, or the run makes them.
    is_over: bool,
}

/// Aᴴ, cut and spread like A, of which each rank gives its part; and what that cost.
///
/// # Errors
/// If the matrix is not stored as [`Structure::General`], the tiles are too many to be counted, or the run
/// fails.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, TiledMatrix};
/// use dataflow_linalg::qr::adjoint;
///
/// let a = TiledMatrix::from_fn(Layout::general(3, 2, 2)?, |i, j| (10 * i + j) as f64);
/// let (adjoint, _) = adjoint(&a, &Inline)?;
/// assert_eq!(adjoint.get(1, 2), Some(21.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn adjoint<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    let made = room(a)?;
    let report = Adjoint::new(a, &made)?.run(on)?;
    Ok((made, report))
}

/// A matrix of the shape of Aᴴ without tiles, cut and spread like A.
pub(super) fn room<T: Scalar>(a: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
    let layout = alike(a.layout(), (a.cols(), a.rows()))?;
    Ok(TiledMatrix::vacant(layout, a.memory().clone()))
}

impl<'a, T: Scalar> Adjoint<'a, T> {
    /// The space for a matrix of [`Structure::General`], and one
    /// without tiles which the run makes.
    ///
    /// # Errors
    /// If the first is not `General`, or the second not of the shape of the adjoint, cut and spread like
    /// the first, or the same matrix.
    pub fn new(a: &'a TiledMatrix<T>, made: &'a TiledMatrix<T>) -> Result<Self, LinalgError> {
        if a.structure() != Structure::General {
            return Err(LinalgError::Shape(format!(
                "the adjoint of a matrix{} stored as {:?}, {} x {} (must be General)",
                a.label(),
                a.structure(),
                a.rows(),
                a.cols()
            )));
        }
        if *made.layout() != alike(a.layout(), (a.cols(), a.rows()))? {
            return Err(LinalgError::Shape(format!(
                "the adjoint of {} x {}{} does not fit {} x {}{}, or that is cut or spread otherwise",
                a.rows(),
                a.cols(),
                a.label(),
                made.rows(),
                made.cols(),
                made.label()
            )));
        }
        expect_two(("A", a), ("its adjoint", made))?;
        Ok(Adjoint {
            a,
            into: made,
            is_over: false,
        })
    }

    /// The same over the tiles that a matrix has already.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn over(a: &'a TiledMatrix<T>, into: &'a TiledMatrix<T>) -> Result<Self, LinalgError> {
        let made = Adjoint::new(a, into)?;
        Ok(Adjoint {
            is_over: true,
            ..made
        })
    }

    /// Runs this rank's part; every rank calls it with its part of A.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a, self.into], on).map_err(LinalgError::Run)
    }

    fn turned(&self, tile: &Tile<T>) -> Tile<T> {
        let (rows, cols, memory) = (tile.cols(), tile.rows(), self.into.memory());
        let entry = |i, j| tile.get(j, i).conj();
        Tile::from_fn(rows, cols, tile.format(), memory, entry)
    }
}

task_space! {
    /// The tasks of the adjoint: the indices of a tile of A.
    pub enum AdjointTask;

    impl<T: Scalar> TaskSpace for Adjoint<'_, T> {
        type Datum = Tile<T>;
        let mt = self.a.mt() as u32;
        let nt = self.a.nt() as u32;
        let over = u32::from(self.is_over);
        data A[i, j] in self.a.store() at self.a.place(i, j) on self.a.rank_of(i as usize, j as usize);
        data Made[j, i]
            in self.into.store() at self.into.place(j, i)
            on self.into.rank_of(j as usize, i as usize);

        for j in 0..nt {
            for i in 0..mt {
                Give { i, j }: give A[i, j];
                if over > 0 {
                    TurnOver { i, j }: read tile = A[i, j], update made = Made[j, i]
                        => *made = self.turned(tile);
                } else {
                    Turn { i, j }: read tile = A[i, j], new made = Made[j, i]
                        => made.put(self.turned(tile));
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
