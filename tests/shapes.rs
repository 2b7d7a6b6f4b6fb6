//! The shapes of the example and the bench `overhead`: proved, counted, and without copies.

#[path = "../benches/overhead/derived.rs"]
mod derived;

use common::shapes::{
    Carried, Chain, Cholesky, Factor, Independent, Moved, Shared, Stencil, Updated, Wavefront,
};
use dataflow::core::port::{Inline, Shuffled};
use dataflow::prelude::*;
use dataflow_core::space::TaskName;

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

/// All edges of a space: class and parameters of both ends, by the successors of each task.
fn edges<S: TaskSpace>(space: &S, words: fn(S::Task) -> Vec<u32>) -> Vec<[Vec<u32>; 2]> {
    struct Fed<T>(Vec<T>);
    impl<S: TaskSpace> Successors<S> for Fed<S::Task> {
        fn task(&mut self, _: usize, target: S::Task, _: usize) {
            self.0.push(target);
        }
        fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
    }
    let of_task = |task| {
        let mut fed = Fed(Vec::new());
        space.successors(task, &mut fed);
        fed.0.into_iter().map(move |to| [words(task), words(to)])
    };
    let mut edges: Vec<_> = space.tasks(Rank(0)).flat_map(of_task).collect();
    edges.sort();
    edges
}

/// What is raced in the bench `overhead` must be the same graphs.
#[test]
fn the_shapes_from_loops_are_those_written_by_hand() {
    fn of_pair((i, j): (u32, u32)) -> Vec<u32> {
        vec![0, i, j]
    }
    fn of_enum<T: TaskName>(task: T) -> Vec<u32> {
        let words = task.to_wire().expect("an enum's name travels");
        words.iter().copied().collect()
    }
    for n in 0..7 {
        let tasks = u64::from(n);
        for dense in [false, true] {
            let wavefront = derived::Wavefront { side: n, dense };
            check(&wavefront, tasks * tasks);
            let stencil = derived::Stencil { steps: n, dense };
            check(&stencil, 64 * tasks);
            let cholesky = derived::Cholesky { nt: n, dense };
            check(&cholesky, tasks * (tasks + 1) * (tasks + 2) / 6);
            let by_hand = Wavefront::<()>::new(n, dense);
            assert_eq!(edges(&wavefront, of_enum), edges(&by_hand, of_pair));
            let by_hand = Stencil::<()>::new(n, dense);
            assert_eq!(edges(&stencil, of_enum), edges(&by_hand, of_pair));
            let by_hand = Cholesky::<()>::new(n, dense, false);
            assert_eq!(edges(&cholesky, of_enum), edges(&by_hand, of_enum));
        }
        let wavefront = derived::UpdatedWavefront::new(n);
        check(&wavefront, tasks * tasks);
        let by_hand = Wavefront::<Updated>::new(n, false);
        assert_eq!(edges(&wavefront, of_enum), edges(&by_hand, of_pair));
        let cholesky = derived::UpdatedCholesky::new(n);
        check(&cholesky, tasks * (tasks + 1) * (tasks + 2) / 6);
        let by_hand = Cholesky::<Updated>::new(n, false, false);
        assert_eq!(edges(&cholesky, of_enum), edges(&by_hand, of_enum));
        let stencil = derived::MadeStencil { steps: n };
        check(&stencil, 64 * tasks);
        let by_hand = derived::MadeByHand { steps: n };
        check(&by_hand, 64 * tasks);
        assert_eq!(edges(&stencil, of_enum), edges(&by_hand, of_pair));
    }
}

#[test]
fn derived_tasks_are_numbered_without_gaps() {
    fn dense<S: TaskSpace>(space: &S) {
        let tasks = space.tasks(Rank(0));
        let mut numbers: Vec<_> = tasks.filter_map(|task| space.index(task)).collect();
        numbers.sort();
        assert!(numbers.into_iter().eq(0..space.count(Rank(0)) as usize));
    }
    for n in 0..8 {
        dense(&derived::Wavefront {
            side: n,
            dense: true,
        });
        dense(&derived::Stencil {
            steps: n,
            dense: true,
        });
        dense(&derived::Cholesky { nt: n, dense: true });
    }
    // What would not fit into the counters has no number, instead of a wrong one.
    let huge = derived::Cholesky {
        nt: u32::MAX,
        dense: true,
    };
    let last = derived::Factor::Potrf { k: u32::MAX - 1 };
    assert_eq!(huge.index(last), None);
}
