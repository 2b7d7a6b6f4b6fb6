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
        let (b, l) = (b.laid_out(), l.laid_out());
        let text = format!(
            "right-hand sides{b} do not fit a factor{l} (which must be Lower, and B General, with as many rows, \
             in tiles of one order)"
        );
        return Err(LinalgError::Shape(text));
    }
    let down = TriangularOperand::lower(l);
    Substitution::with_both([down, down.with(Op::ConjTranspose)], b, backend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Side;
    use crate::matrix::Tile;
    use crate::matrix::{Distribution, Grid, Layout};
    use crate::product::SubstitutionTask::{Backward, BackwardUpdate, Forward, ForwardUpdate};
    use crate::product::{Substitution, SubstitutionTask, TriangularOperand};
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

    /// The update of the same tile by the first step of a span of four.
    fn first_of_span(task: SubstitutionTask, nt: u32) -> Option<SubstitutionTask> {
        let first = |step: u32| step / 4 * 4;
        match task {
            ForwardUpdate { m, k, j } => Some(ForwardUpdate { m, k: first(k), j }),
            BackwardUpdate { m, k, j } => {
                let k = nt - 1 - first(nt - 1 - k);
                Some(BackwardUpdate { m, k, j })
            }
            _ => None,
        }
    }

    #[test]
    fn rows_are_solved_first_and_updates_of_a_span_are_as_urgent_as_the_steps_that_remain_of_its_first()
     {
        for nt in 1..=12 {
            let (l, b) = vacant(nt as usize, 2);
            let space = substitution(&l, &b, Backend::Auto).unwrap();
            let (mut known, mut updates) = (HashMap::new(), vec![0]);
            for task in space.tasks(Rank(0)) {
                if let Some(first) = first_of_span(task, nt) {
                    let remain = steps(&space, first, &mut known);
                    assert_eq!(space.priority(task), remain, "{task:?} of nt = {nt}");
                    updates.push(remain);
                }
            }
            let forwards = (0..nt).map(|k| space.priority(Forward { k, j: 0 }));
            let backwards = (0..nt).rev().map(|k| space.priority(Backward { k, j: 1 }));
            let rows: Vec<i64> = forwards.chain(backwards).collect();
            assert!(
                rows.windows(2).all(|pair| pair[0] > pair[1]),
                "nt = {nt}: {rows:?}"
            );
            assert!(rows.last() > updates.iter().max(), "nt = {nt}");
        }
    }

    /// Up alone, the last row is the first that is solved.
    #[test]
    fn one_way_alone_solves_rows_first_in_its_own_order() {
        let square = |nt, columns| {
            let layout = Layout::general(nt, columns, 1).unwrap();
            TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
        };
        let (a, b) = (square(9, 9), square(9, 1));
        let [down, up] = [TriangularOperand::lower(&a), TriangularOperand::upper(&a)]
            .map(|a| Substitution::new(Side::Left, 1.0, a, &b, Backend::Auto).unwrap());
        let urgencies = |space: &Substitution<'_, f64>, tasks: [SubstitutionTask; 4]| {
            let urgencies = tasks.map(|task| space.priority(task));
            assert!(
                urgencies.windows(2).all(|pair| pair[0] > pair[1]),
                "{urgencies:?}"
            );
        };
        let update = |m, k| ForwardUpdate { m, k, j: 0 };
        let (first, last) = (Forward { k: 0, j: 0 }, Forward { k: 8, j: 0 });
        urgencies(&down, [first, last, update(5, 3), update(5, 4)]);
        let update = |m, k| BackwardUpdate { m, k, j: 0 };
        let (first, last) = (Backward { k: 8, j: 0 }, Backward { k: 0, j: 0 });
        urgencies(&up, [first, last, update(3, 5), update(3, 4)]);
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
