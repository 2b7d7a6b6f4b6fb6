//! The shapes of the example and the bench `overhead`: proved, counted, and without copies.

#[path = "../examples/cli/shapes.rs"]
mod shapes;

use dataflow::core::port::{Inline, Shuffled};
use dataflow::prelude::*;
use shapes::{
    Carried, Chain, Cholesky, Factor, Independent, Moved, Shared, Stencil, Updated, Wavefront,
};

fn check<S: TaskSpace>(space: &S, tasks: u64) {
    if let Err(fault) = verify(space, 1) {
        panic!("{fault}");
    }
    let reports = [
        dataflow::core::run(space, &Inline),
        dataflow::core::run(space, &Shuffled::new(3).with_threads(2)),
    ];
    for report in reports {
        let report = report.unwrap();
        assert_eq!((report.tasks, report.copies()), (tasks, 0));
    }
}

fn check_all<D: Carried>(dense: bool) {
    for size in 0..6 {
        let n = u64::from(size);
        check(&Chain::<D>::new(n, dense), n);
        check(&Wavefront::<D>::new(size, dense), n * n);
        check(&Stencil::<D>::new(size, dense), 64 * n);
        for priorities in [false, true] {
            let space = Cholesky::<D>::new(size, dense, priorities);
            check(&space, n * (n + 1) * (n + 2) / 6);
        }
    }
}

#[test]
fn every_shape_runs_all_its_tasks_and_copies_nothing_whatever_its_edges_carry() {
    check(&Independent { count: 10 }, 10);
    check_all::<()>(false);
    check_all::<()>(true);
    check_all::<Moved>(false);
    check_all::<Shared>(false);
    check_all::<Updated>(false);
}

#[test]
fn cholesky_tasks_are_numbered_without_gaps() {
    for nt in 0..8 {
        let space = Cholesky::<()>::new(nt, true, false);
        let mut numbers: Vec<usize> = space
            .tasks(Rank(0))
            .filter_map(|task| space.index(task))
            .collect();
        numbers.sort();
        assert!(
            numbers.iter().copied().eq(0..space.count(Rank(0)) as usize),
            "nt = {nt}"
        );
    }
}

/// The priority of a task is the longest way from it to the end: recomputed edge by edge.
#[test]
fn cholesky_priorities_are_bottom_levels() {
    struct Longest<'s>(&'s Cholesky<()>, i64);
    impl Successors<Cholesky<()>> for Longest<'_> {
        fn task(&mut self, _: usize, target: Factor, _: usize) {
            self.1 = self.1.max(bottom_level(self.0, target));
        }
        fn home(&mut self, _: usize, _: &Store<()>, _: usize) {}
    }
    fn bottom_level(space: &Cholesky<()>, task: Factor) -> i64 {
        let weight = match task {
            Factor::Potrf { .. } => 1,
            Factor::Trsm { .. } | Factor::Syrk { .. } => 3,
            Factor::Gemm { .. } => 6,
        };
        let mut longest = Longest(space, 0);
        space.successors(task, &mut longest);
        weight + longest.1
    }
    for nt in 1..5 {
        let space = Cholesky::<()>::new(nt, false, true);
        for task in space.tasks(Rank(0)) {
            assert_eq!(
                space.priority(task),
                bottom_level(&space, task),
                "{task:?} of {nt}"
            );
        }
    }
}
