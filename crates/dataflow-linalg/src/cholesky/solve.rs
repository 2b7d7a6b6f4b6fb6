//! The solution of A·X = B from the factor: L·Y = B down the tiles, Lᴴ·X = Y back up, as one
//! graph; the backward part starts where the forward part is done, without a barrier.

use crate::error::LinalgError;
use crate::kernel::{Backend, Op};
use crate::matrix::{Structure, TiledMatrix};
use crate::product::{Substitution, TriangularOperand};
use crate::scalar::Scalar;
use dataflow_core::Report;
use dataflow_core::port::Executor;

/// Overwrites `b` by the solution X of L·Lᴴ·X = B; `l` is what [`factor`](super::factor) left.
/// 2n² flops for each column; copies no tile.
///
/// # Errors
/// If the shapes or tile orders of `l` and `b` do not fit, or `l` is not stored as
/// [`Structure::Lower`]; if the run fails.
pub fn solve<T: Scalar>(
    l: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    substitution(l, b, backend)?.run(on)
}

/// The task space of [`solve`], for a factor and right-hand sides with the same tile order; each may have
/// a distribution of its own.
///
/// # Errors
/// If they do not fit.
pub fn substitution<'a, T: Scalar>(
    l: &'a TiledMatrix<T>,
    b: &'a TiledMatrix<T>,
    backend: Backend,
) -> Result<Substitution<'a, T>, LinalgError> {
    let fits = l.structure() == Structure::Lower
        && b.structure() == Structure::General
        && b.rows() == l.rows()
        && b.nb() == l.nb();
    if !fits {
        let text = format!(
            "right-hand sides{} of {} x {} ({:?}, tiles of {}) do not fit a factor{} of order {} \
             ({:?}, tiles of {})",
            b.label(),
            b.rows(),
            b.cols(),
            b.structure(),
            b.nb(),
            l.label(),
            l.rows(),
            l.structure(),
            l.nb()
        );
        return Err(LinalgError::Shape(text));
    }
    let down = TriangularOperand::lower(l);
    Substitution::with_both([down, down.with(Op::ConjTranspose)], b, backend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Tile;
    use crate::matrix::{Distribution, Grid, Layout};
    use crate::product::SubstitutionTask;
    use dataflow_core::port::Heap;
    use dataflow_core::prelude::*;
    use std::collections::HashMap;
    use std::sync::Arc;

    /// A factor of `nt` tiles a side and `columns` tile columns of right-hand sides, without tiles.
    fn vacant(nt: usize, columns: usize) -> (TiledMatrix<f64>, TiledMatrix<f64>) {
        let l = Layout::lower(nt, 1).unwrap();
        let b = Layout::general(nt, columns, 1).unwrap();
        let heap = Arc::new(Heap);
        (
            TiledMatrix::vacant(l, heap.clone()),
            TiledMatrix::vacant(b, heap),
        )
    }

    #[test]
    fn the_space_is_proved_for_1_to_12_tiles() {
        for nt in 0..=12 {
            for columns in 0..=3 {
                let (l, b) = vacant(nt, columns);
                let space = substitution(&l, &b, Backend::Auto).unwrap();
                verify(&space, 1)
                    .unwrap_or_else(|fault| panic!("nt = {nt}, {columns} columns: {fault}"));
                assert_eq!(space.count(Rank(0)), (columns * nt * (nt + 1)) as u64);
            }
        }
    }

    /// Hears whom a task feeds.
    #[derive(Default)]
    struct Fed(Vec<SubstitutionTask>);

    impl Successors<Substitution<'_, f64>> for Fed {
        fn task(&mut self, _: usize, target: SubstitutionTask, _: usize) {
            self.0.push(target);
        }
        fn home(&mut self, _: usize, _: &Store<Tile<f64>>, _: usize) {}
    }

    /// Tasks on the longest way from a task to the end, itself included.
    fn steps(
        space: &Substitution<'_, f64>,
        task: SubstitutionTask,
        known: &mut HashMap<SubstitutionTask, i64>,
    ) -> i64 {
        if let Some(steps) = known.get(&task) {
            return *steps;
        }
        let mut fed = Fed::default();
        space.successors(task, &mut fed);
        let after = fed.0.into_iter().map(|next| steps(space, next, known));
        let all = 1 + after.max().unwrap_or(0);
        known.insert(task, all);
        all
    }

    #[test]
    fn priorities_are_the_steps_that_remain() {
        for nt in 1..=12 {
            let (l, b) = vacant(nt, 2);
            let space = substitution(&l, &b, Backend::Auto).unwrap();
            let mut known = HashMap::new();
            for task in space.tasks(Rank(0)) {
                let remain = steps(&space, task, &mut known);
                assert_eq!(space.priority(task), remain, "{task:?} of nt = {nt}");
            }
        }
    }

    #[test]
    fn the_space_is_proved_on_every_grid() {
        for (p, q) in [(2, 1), (1, 2), (2, 2), (2, 3)] {
            let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
            let spread = |layout: Layout| {
                let layout = layout.distributed(grid, Rank(0)).unwrap();
                TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
            };
            for (nt, columns) in (0..=9).flat_map(|nt| (0..=3).map(move |columns| (nt, columns))) {
                let l = spread(Layout::lower(nt, 1).unwrap());
                let b = spread(Layout::general(nt, columns, 1).unwrap());
                let space = substitution(&l, &b, Backend::Auto).unwrap();
                verify(&space, p * q)
                    .unwrap_or_else(|fault| panic!("{nt} x {columns} on {p} x {q}: {fault}"));
            }
        }
    }

    #[test]
    fn right_hand_sides_that_do_not_fit_are_refused() {
        let l = TiledMatrix::<f64>::zeros(Layout::lower(4, 2).unwrap());
        for wrong in [
            Layout::general(5, 1, 2).unwrap(), // rows
            Layout::general(4, 1, 3).unwrap(), // tile order
            Layout::lower(4, 2).unwrap(),      // structure
        ] {
            let b = TiledMatrix::zeros(wrong);
            let refused = substitution(&l, &b, Backend::Auto).unwrap_err();
            assert_eq!(refused.name(), "wrong_shape", "{wrong:?}");
        }
        let general = TiledMatrix::<f64>::zeros(Layout::general(4, 4, 2).unwrap());
        let b = TiledMatrix::zeros(Layout::general(4, 1, 2).unwrap());
        assert!(substitution(&general, &b, Backend::Auto).is_err());
    }
}
