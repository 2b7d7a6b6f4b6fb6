//! `verify` proves right spaces, and finds every lie about them.

mod specimen;

use dataflow_core::port::Inline;
use dataflow_core::prelude::*;
use dataflow_core::{Error, Kind, run};
use specimen::{Cholesky, Mixed, Mutant, Mutation, Specimen, Twist, Wavefront, mutations, tried};

/// Small under Miri, for which a proof is a long time.
mod size {
    /// Mutants of each space that Miri tries.
    pub const BY_MIRI: usize = 12;
    pub const GRIDS: &[(u32, u32)] = match cfg!(miri) {
        true => &[(1, 1), (2, 2)],
        false => &[(1, 1), (2, 2), (2, 3)],
    };
    pub const PROVED: u32 = if cfg!(miri) { 3 } else { 12 };
    /// Orders, and every which other end of an edge is tried.
    pub const CHOLESKY: &[(u32, usize)] = match cfg!(miri) {
        true => &[(1, 1), (2, 1)],
        false => &[(1, 1), (2, 1), (3, 1), (4, 1), (5, 7)],
    };
    pub const WAVEFRONT: u32 = if cfg!(miri) { 2 } else { 4 };
    pub const MIXED: &[(u32, usize)] = match cfg!(miri) {
        true => &[(2, 1)],
        false => &[(2, 1), (3, 1), (9, 5)],
    };
}

/// Tries every mutant but those that are `right`: another space, without contradiction.
fn every_mutant_is_found<S: Specimen>(
    space: &S,
    n_ranks: u32,
    stride: usize,
    right: impl Fn(&Mutation<S::Task>) -> bool,
) -> usize {
    verify(space, n_ranks).unwrap();
    let all = mutations(space, n_ranks, stride);
    let mut missed = vec![];
    for mutation in tried(&all, size::BY_MIRI) {
        let mutant = Mutant::new(space, mutation);
        if verify(&mutant, n_ranks).is_ok() != right(mutation) {
            missed.push(mutation);
        }
    }
    let (n, some) = (missed.len(), &missed[..missed.len().min(10)]);
    assert!(
        missed.is_empty(),
        "{n} of {} misjudged, such as {some:#?}",
        all.len()
    );
    all.len()
}

#[test]
fn ranks_are_counted_in_integers_of_any_type_and_are_one_at_least() {
    let space = Cholesky::new(3, (2, 2));
    assert_eq!(
        (verify(&space, 4usize), verify(&space, 4u64)),
        (Ok(()), Ok(()))
    );
    let none = [
        verify(&space, 0),
        verify(&space, -1),
        verify(&space, u64::MAX),
    ];
    for refused in none {
        let text = refused.unwrap_err().to_string();
        assert_eq!(text, "a space is verified on 1 to 4294967295 ranks");
    }
}

#[test]
fn what_is_found_is_handed_on_as_the_error_of_a_run() {
    fn proved_and_run<S: TaskSpace>(space: &S) -> Result<(), Error> {
        verify(space, 1)?;
        run(space, &Inline)?;
        Ok(())
    }
    let space = Cholesky::new(2, (1, 1));
    proved_and_run(&space).unwrap();
    let space = Cholesky::new(2, (1, 1));
    let lie = mutations(&space, 1, 1).remove(0);
    let error = proved_and_run(&Mutant::new(&space, &lie)).unwrap_err();
    assert_eq!(error.kind(), Kind::Contradiction, "{lie:?}: {error}");
}

#[test]
fn the_cholesky_shape_is_proved_for_1_to_12_tiles_on_every_grid() {
    for &(p, q) in size::GRIDS {
        for nt in 1..=size::PROVED {
            let space = Cholesky::new(nt, (p, q));
            verify(&space, p * q).unwrap_or_else(|fault| panic!("nt = {nt}, {p} × {q}: {fault}"));
            let count: u64 = (0..p * q).map(|on| space.count(Rank(on))).sum();
            assert_eq!(count, Cholesky::n_tasks(nt.into()));
        }
    }
}

#[test]
fn every_mutant_of_the_cholesky_shape_is_found() {
    for &(p, q) in size::GRIDS {
        for &(nt, stride) in size::CHOLESKY {
            let space = Cholesky::new(nt, (p, q));
            let n = every_mutant_is_found(&space, p * q, stride, |_| false);
            assert!(nt < 3 || n > 300, "{n} mutants of nt = {nt}");
        }
    }
}

#[test]
fn every_mutant_of_a_wavefront_is_found() {
    for side in 1..=size::WAVEFRONT {
        every_mutant_is_found(&Wavefront::new(side), 1, 1, |_| false);
    }
}

#[test]
fn every_mutant_of_a_space_with_one_of_everything_is_found() {
    use specimen::mixed::Task::{Load, Work};
    for &(n, stride) in size::MIXED {
        every_mutant_is_found(&Mixed::new(n), 1, stride, |mutation| match mutation {
            // Another given item that nobody changes may be read.
            Mutation::Input(Load { .. }, 0, Twist::Slot(slot)) => *slot < n as usize,
            // What is made need not be kept.
            Mutation::Output(Work { .. }, 2, Twist::Removed) => true,
            _ => false,
        });
    }
}

/// Two tasks were one to the queues: the run ended well, with wrong data.
#[test]
fn names_that_pack_to_one_number_are_found() {
    /// Cells of a row, of which the packed name forgets the row.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct Cell(u32, u32);
    impl TaskName for Cell {
        fn class(self) -> usize {
            0
        }
        fn pack(self) -> Option<u64> {
            Some(self.1.into())
        }
        fn unpack(packed: u64) -> Self {
            Cell(0, packed as u32)
        }
    }
    struct Cells {
        index: fn(Cell) -> Option<usize>,
        rows: u32,
    }
    impl TaskSpace for Cells {
        type Task = Cell;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("cells").class("Cell");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Cell> + Send {
            (0..self.rows).flat_map(|row| (0..3).map(move |column| Cell(row, column)))
        }
        fn inputs(&self, _: Cell, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: Cell, _: &mut impl Successors<Self>) {}
        fn index(&self, task: Cell) -> Option<usize> {
            (self.index)(task)
        }
        fn run(&self, _: Cell, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let told = |rows, index| verify(&Cells { rows, index }, 1).map_err(|fault| fault.to_string());
    assert_eq!(told(1, |_| None), Ok(()));
    let packs = told(2, |_| None).unwrap_err();
    assert!(
        packs.contains("Cell(1, 0) packs to 0, which unpacks to Cell(0, 0)"),
        "{packs}"
    );
    let index = told(1, |cell| Some(cell.1 as usize / 2)).unwrap_err();
    assert!(
        index.contains("Cell(0, 0) and Cell(0, 1) both have the index 0"),
        "{index}"
    );
}

/// What a run of this lie says, and of which kind it is.
fn lie_told(lie: &GraphLie) -> (Kind, String) {
    let error = run(lie, &Inline).unwrap_err();
    (error.kind(), error.to_string())
}

/// Numbered tasks that order each other, of which one thing is wrong.
enum GraphLie {
    /// 1 and 2 wait for each other.
    Cycle,
    /// 0 feeds 9, which has no other input.
    UnlistedWithOneInput,
    /// 0 feeds 9, which waits for 8, too.
    UnlistedWithTwo,
    /// Tasks 1 and 2 both feed one input of 0.
    TwoSources,
}

impl TaskSpace for GraphLie {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about.class("Task").order("LEFT").order("RIGHT");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..3
    }
    fn index(&self, task: u64) -> Option<usize> {
        Some(task as usize)
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        match (self, task) {
            (GraphLie::Cycle, 1 | 2) => {
                from.task(0, 3 - task, 0);
                from.task(1, 0, 1);
            }
            (GraphLie::UnlistedWithOneInput, 9) => from.task(0, 0, 0),
            (GraphLie::UnlistedWithTwo, 9) => {
                from.task(0, 0, 0);
                from.task(1, 8, 0);
            }
            (GraphLie::TwoSources, 0) => {
                from.task(0, 1, 0);
                from.task(0, 2, 0);
            }
            _ => {}
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        match (self, task) {
            (GraphLie::Cycle, 0) => {
                to.task(1, 1, 1);
                to.task(1, 2, 1);
            }
            (GraphLie::Cycle, 1 | 2) => to.task(0, 3 - task, 0),
            (GraphLie::UnlistedWithOneInput | GraphLie::UnlistedWithTwo, 0) => to.task(0, 9, 0),
            (GraphLie::TwoSources, 1 | 2) => to.task(0, 0, 0),
            _ => {}
        }
    }
    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }
}

/// A task that no list holds was fed half of its inputs, and the run ended well.
#[test]
fn a_run_of_a_wrong_graph_says_what_verify_would() {
    for (lie, kind, parts) in [
        (
            GraphLie::Cycle,
            Kind::Stalled,
            &["LEFT of 1 comes from LEFT of 2, LEFT of 2 comes from LEFT of 1"],
        ),
        (
            GraphLie::UnlistedWithOneInput,
            Kind::CountExceeded,
            &["LEFT of 0 goes to 9, which `tasks` does not list"],
        ),
        (
            GraphLie::UnlistedWithTwo,
            Kind::Stalled,
            &["LEFT of 0 goes to 9, which `tasks` does not list"],
        ),
        (
            GraphLie::TwoSources,
            Kind::NotExpected,
            &["LEFT of 0 has two sources: LEFT of 1 and LEFT of 2"],
        ),
    ] {
        let (told, text) = lie_told(&lie);
        assert_eq!(told, kind, "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

/// All that was listed was noted, until there was no memory left.
#[test]
fn a_list_of_tasks_that_goes_on_beyond_its_count_is_told_before_memory_ends() {
    struct Endless;
    impl TaskSpace for Endless {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.class("Task");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..1 << 40
        }
        fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn count(&self, _: Rank) -> u64 {
            2
        }
    }
    let fault = verify(&Endless, 1).unwrap_err().to_string();
    assert_eq!(fault, "rank 0 counts 2 tasks but lists more than 100002");
}

/// The panic came out of `verify`.
#[test]
fn a_space_that_panics_is_told_with_the_task_that_it_was_asked_about() {
    struct Halves(u64);
    impl TaskSpace for Halves {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.class("Half").order("AFTER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..4
        }
        fn inputs(&self, task: u64, _: &mut impl Inputs<Self>) {
            assert!(task != self.0, "there is no half of {task}");
        }
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
        fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            (0..4).inspect(|root| assert!(root + 5 != self.0, "there is no root {root}"))
        }
    }
    assert_eq!(verify(&Halves(10), 1), Ok(()));
    for (half, text) in [
        (
            3,
            "asked about 3, the space panicked: there is no half of 3",
        ),
        (7, "the space panicked: there is no root 2"),
    ] {
        assert_eq!(verify(&Halves(half), 1).unwrap_err().to_string(), text);
    }
}

/// It was said to be no task, and who had placed it on a rank that is not there looked for it in `tasks`.
#[test]
fn a_task_that_no_rank_lists_is_told_with_the_number_of_ranks() {
    /// Task 1 of 3 is placed on rank 9.
    struct Astray;
    impl TaskSpace for Astray {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.class("Task").order("AFTER");
        }
        fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
            dataflow_core::space::placed(self, on, 0..3)
        }
        fn rank(&self, task: u64) -> Rank {
            Rank([0, 9, 1][task as usize])
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task > 0 {
                from.task(0, task - 1, 0);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            if task < 2 {
                to.task(0, task + 1, 0);
            }
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let text = "AFTER of 2 comes from 1, which `tasks` lists on none of 2 ranks";
    assert_eq!(verify(&Astray, 2).unwrap_err().to_string(), text);
}

/// A line leads from a tile to what wants a vector.
struct Crossed {
    n: u32,
}

task_space! {
    enum CrossedTask;

    impl TaskSpace for Crossed {
        type Datum = u64;
        let n = self.n;
        data Tile[i] of "tile";

        Make { i } for i in 0..n: new tile = Tile[i] => tile.put(1);
        Take { i } for i in 0..n: read vector of "vector" => assert!(*vector == 1);
        Make { i }.tile -> Take { i }.vector;
    }
}

#[test]
fn an_edge_between_data_of_two_kinds_is_told_with_both() {
    let text =
        "tile of Make { i: 0 } is of kind \"tile\", vector of Take { i: 0 } expects \"vector\"";
    assert_eq!(verify(&Crossed { n: 2 }, 1).unwrap_err().to_string(), text);
}
