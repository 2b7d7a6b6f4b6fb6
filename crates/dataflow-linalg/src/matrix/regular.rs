//! Regular: is no pivot on the diagonal of a factored matrix zero, and is each finite?
//!
//! # Law
//! LAPACK goes on after a zero pivot, and so do factorisations here: the diagonal is looked at when it is
//! final, each tile by a task of its own; alone or as one of a series.

use super::{Tile, TiledMatrix};
use crate::error::LinalgError;
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;

/// The task space of the search: a task for each tile on the diagonal.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::matrix::{Layout, Regular, TiledMatrix};
/// let factors = [[1.0, 2.0], [0.5, 0.0]];
/// let lu = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| factors[i][j]);
/// let error = dataflow_core::run(&Regular::new(&lu), &Inline).unwrap_err();
/// assert_eq!((error.name(), error.index()), ("singular", Some(2)));
/// # Ok::<(), dataflow_linalg::matrix::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Regular<'a, T: Scalar> {
    a: &'a TiledMatrix<T>,
}

impl<'a, T: Scalar> Regular<'a, T> {
    /// The space for a factored matrix of any shape.
    pub fn new(a: &'a TiledMatrix<T>) -> Self {
        Regular { a }
    }

    fn look(&self, k: u32, tile: &Tile<T>) -> Result<(), TaskError> {
        let mut diagonal = (0..tile.rows().min(tile.cols())).map(|d| (d, tile.get(d, d)));
        let bad = |pivot: &T| *pivot == T::zero() || !pivot.is_finite();
        let Some((d, pivot)) = diagonal.find(|(_, pivot)| bad(pivot)) else {
            return Ok(());
        };
        let at = self.a.row_range(k as usize).start + d;
        match pivot.is_finite() {
            true => Err(LinalgError::singular(at as u64 + 1)),
            false => Err(LinalgError::overflow(at)),
        }
    }
}

impl<T: Scalar> TiledMatrix<T> {
    /// Whether no pivot on the diagonal is zero, and each is finite; asked by all ranks at once.
    ///
    /// # Errors
    /// [`LinalgError::Singular`] with the first that is, [`LinalgError::Overflow`] with the first that
    /// is not.
    pub(crate) fn expect_regular(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        let found = T::run_tiles(&Regular::new(self).erased(), &[self], on);
        found.map_err(|error| self.failed(error))
    }
}

task_space! {
    /// The tasks of the search: k is a tile on the diagonal.
    pub enum RegularTask;

    impl<T: Scalar> TaskSpace for Regular<'_, T> {
        type Datum = Tile<T>;
        let steps = self.a.mt().min(self.a.nt()) as u32;
        data A[k, n]
            in self.a.store() at self.a.place(k, n)
            on self.a.rank_of(k as usize, n as usize);

        for k in 0..steps {
            Look { k }: read tile = A[k, k], on self.a.rank_of(k as usize, k as usize)
                => self.look(k, tile)?;
        }

        /// It only looks: nothing is handed on.
        fn successors(&self, _: RegularTask, to: &mut impl Successors<Self>) {
            let _ = to;
        }

        fn describe(&self, about: &mut Description) {
            about.name("search for zero pivots").parameter("m", self.a.rows());
            self.a.layout().describe(about);
        }
    }
}
