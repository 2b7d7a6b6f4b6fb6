//! The factorisation: tiles of A become tiles of L, in place.
//!
//! # Law
//! For k = 0, 1, …: potrf on the diagonal tile; trsm on the tiles below; herk and gemm subtract
//! the column's contribution from what is right of it. The updates of a tile form one chain in
//! the order of k; so the bits of L depend on the matrix, the tile order and the backend only, and in
//! [`Format::CutColumns`] on the order of its pieces instead of that of its tiles.
//!
//! # Source
//! Buttari, Langou, Kurzak, Dongarra, *A class of parallel tiled linear algebra algorithms for
//! multicore architectures*, Parallel Computing 35 (2009); the task graph of Bosilca et al.,
//! *DAGuE*, Parallel Computing 38 (2012), Figure 1.

use crate::error::LinalgError;
use crate::kernel::{Backend, NotPositive, gemm, herk, nested, potrf, trsm};
use crate::lookahead::Lookahead;
use crate::matrix::{Distribution, Format, Part, Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use crate::spans::Spans;
use dataflow_core::Report;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use std::fmt;

/// The task space of the factorisation: nt(nt+1)(nt+2)/6 tasks for nt tiles a side.
///
/// # Examples
/// See [`with_lookahead`](Factor::with_lookahead), and the [module's](super) example of a call.
#[derive(Clone, Copy)]
pub struct Factor<'a, T: Scalar> {
    pub(crate) a: &'a TiledMatrix<T>,
    pub(super) backend: Backend,
    nt: u32,
    /// Who runs the tasks inside of tasks, if there are any.
    inside: Option<&'a dyn Executor>,
    lookahead: Option<Lookahead>,
}

/// Overwrites the lower triangle of `a` by its Cholesky factor L. n³/3 flops; copies no tile.
///
/// The strict upper triangle is not read. On failure the tiles are all there, in a state between
/// A and L.
///
/// # Errors
/// The first entry that is not finite; the first leading minor that is not positive (the same
/// for every executor, tile order and schedule, up to rounding); a matrix that is not stored as
/// [`Structure::Lower`].
pub fn factor<T: Scalar>(
    a: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let factor = Factor::new(a, backend)?;
    factor.scan(on)?;
    factor.run(on)
}

impl<'a, T: Scalar> Factor<'a, T> {
    /// The space for a matrix of [`Structure::Lower`].
    ///
    /// # Errors
    /// If the matrix is stored otherwise.
    pub fn new(a: &'a TiledMatrix<T>, backend: Backend) -> Result<Self, LinalgError> {
        if a.structure() != Structure::Lower {
            let text = format!(
                "a Cholesky factorisation takes a matrix stored as Lower, this one{} is {:?}, {} x {}",
                a.label(),
                a.structure(),
                a.rows(),
                a.cols()
            );
            return Err(LinalgError::Shape(text));
        }
        Ok(Factor {
            a,
            backend,
            nt: a.nt() as u32,
            inside: None,
            lookahead: None,
        })
    }

    /// The same in two levels: each task is a sequence of tasks on the sub-tiles of its tile, run by
    /// `on`, which must run the space too. Tiles of [`Format::SubTiled`] have the bits that they
    /// have in one level; those of other formats have no sub-tiles, and one level.
    pub fn in_two_levels(self, on: &'a dyn Executor) -> Self {
        let has_sub_tiles = matches!(self.a.format(), Format::SubTiled { .. });
        let inside = has_sub_tiles.then_some(on);
        Factor { inside, ..self }
    }

    /// The same with panels that run ahead of the other updates by so many columns only: first the panels,
    /// then the updates of the next `columns` columns behind their panel, then the others step by step.
    /// L has the same bits, and the same is sent.
    ///
    /// Without a bound panels run as far ahead as they can, and updates go by spans of steps. Then a rank
    /// holds what it receives of them, which may be several times its own part; with three columns it is
    /// about five panels ([`needs::cholesky_ahead`](crate::needs::cholesky_ahead)).
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::{port::Inline, prelude::*};
    /// use dataflow_linalg::cholesky::{Factor, Task};
    /// use dataflow_linalg::kernel::Backend;
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix, generate::PositiveDefinite};
    /// let a = TiledMatrix::<f64>::from_entries(Layout::lower(90, 10)?, &PositiveDefinite::new(90, 1));
    /// let factor = Factor::new(&a, Backend::Auto)?.with_lookahead(3);
    /// let update = |k| Task::Gemm { m: 8, n: 5, k };
    /// assert!(factor.priority(update(2)) > factor.priority(Task::Herk { m: 8, k: 0 }));
    /// assert!(factor.priority(update(1)) < factor.priority(Task::Herk { m: 8, k: 0 }));
    /// factor.run(&Inline)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_lookahead(self, columns: u32) -> Self {
        let lookahead = Some(Lookahead { columns });
        Factor { lookahead, ..self }
    }

    /// Looks for an entry that is not finite, all tiles in parallel; every rank looks through its own.
    ///
    /// # Errors
    /// [`LinalgError::NotFinite`]: the first in column order, the same on every rank; and what
    /// [`run_across`](dataflow_core::run_across) answers.
    pub fn scan(&self, on: &dyn Executor) -> Result<(), LinalgError> {
        self.a.scan(on).map(drop)
    }

    /// Runs this rank's part of the factorisation; every rank calls it with its part of the matrix.
    /// Sends each final tile once to each rank that needs it, diagonal tiles as triangles. Does not
    /// look for entries that are not finite ([`scan`](Self::scan)).
    ///
    /// # Errors
    /// As [`factor`], the same on every rank; and what [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), &[self.a], on).map_err(|error| self.a.failed(error))
    }
}

impl<T: Scalar> fmt::Debug for Factor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factor")
            .field("nt", &self.nt)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

task_space! {
    /// The tasks of tile Cholesky: indices of tiles, k the step.
    ///
    /// # Examples
    /// An error names the task that found it, here the second on the diagonal.
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_linalg::cholesky::{Factor, Task};
    /// use dataflow_linalg::kernel::Backend;
    /// use dataflow_linalg::matrix::{Layout, TiledMatrix};
    /// let a = TiledMatrix::from_fn(Layout::lower(2, 1)?, |i, j| [[1.0, 0.0], [2.0, 3.0]][i][j]);
    /// let error = dataflow_core::run(&Factor::new(&a, Backend::Auto)?, &Inline).unwrap_err();
    /// assert_eq!(error.task(), Some(&*format!("{:?}", Task::Potrf { k: 1 })));
    /// assert_eq!(error.index(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub enum Task;

    impl<T: Scalar> TaskSpace for Factor<'_, T> {
        type Datum = Tile<T>;
        let nt = self.nt;
        let p = self.a.grid().0;
        let q = self.a.grid().1;
        data A[m, n] where n <= m && m < nt
            in self.a.store() at self.a.place(m, n)
            on (m % p, n % q);

        for k in 0..nt {
            // A[k,k] ← L[k,k] with A[k,k] = L[k,k] · L[k,k]ᴴ
            Potrf { k }: update tile = A[k, k] => self.potrf(k, tile)?;
            for m in k + 1..nt {
                // A[m,k] ← A[m,k] · L[k,k]⁻ᴴ
                Trsm { m, k }: update tile = A[m, k], read triangle = A[k, k] => match self.inside {
                    None => trsm(self.backend, triangle, tile),
                    Some(on) => nested::trsm(on, self.backend, triangle, tile)?,
                };
            }
            for m in k + 1..nt {
                // A[m,m] ← A[m,m] − L[m,k] · L[m,k]ᴴ
                Herk { m, k }: update tile = A[m, m], read left = A[m, k] => match self.inside {
                    None => herk(self.backend, left, tile),
                    Some(on) => nested::herk(on, self.backend, left, tile)?,
                };
                for n in k + 1..m {
                    // A[m,n] ← A[m,n] − L[m,k] · L[n,k]ᴴ
                    Gemm { m, n, k }:
                        update tile = A[m, n], read left = A[m, k], read right = A[n, k]
                        => match self.inside {
                            None => gemm(self.backend, left, right, tile),
                            Some(on) => nested::gemm(on, self.backend, left, right, tile)?,
                        };
                }
            }
        }

        fn describe(&self, about: &mut Description) {
            about.name("cholesky");
            self.a.layout().describe(about);
            about.parameter("precision", T::PRECISION);
            about.parameter("backend", self.backend);
            if let Some(ahead) = self.lookahead {
                about.parameter("lookahead", ahead.columns);
            }
        }

        /// Tile (m, n) has n + 1 tasks; looks at each column of tiles that is there.
        fn count(&self, on: Rank) -> u64 {
            let Distribution::BlockCyclic(grid) = *self.a.distribution();
            let Some((row, column)) = grid.place(on) else { return 0 };
            let nt = self.nt as usize;
            let columns = (column..nt).step_by(grid.q());
            let tasks = columns.map(|n| (n + 1) as u64 * grid.rows_in(row, n..nt) as u64);
            tasks.sum()
        }

        /// Panels first, then updates by spans of steps; with a lookahead its order.
        fn priority(&self, task: Task) -> i64 {
            if let Some(ahead) = self.lookahead {
                let (step, column) = task.place();
                return ahead.urgency(self.nt, step, column);
            }
            let spans = Spans::new(self.nt, self.nt);
            match task {
                Potrf { k } => spans.panel((k, k)),
                Trsm { m, k } => spans.panel((m, k)),
                Herk { m, k } => spans.update((m, m), k),
                Gemm { m, n, k } => spans.update((m, n), k),
            }
        }
    }
}
use Task::{Gemm, Herk, Potrf, Trsm};

impl Task {
    /// Its step, and the column of tiles that it changes.
    fn place(self) -> (u32, u32) {
        match self {
            Potrf { k } | Trsm { k, .. } => (k, k),
            Herk { m, k } => (k, m),
            Gemm { n, k, .. } => (k, n),
        }
    }
}

impl<T: Scalar> Factor<'_, T> {
    fn potrf(&self, k: u32, tile: &mut Tile<T>) -> Result<(), TaskError> {
        let factored = match self.inside {
            None => potrf(self.backend, tile),
            Some(on) => nested::potrf(on, self.backend, tile)?,
        };
        factored.map_err(|failed| not_positive(self.a, k, failed))?;
        tile.set_part(Part::Lower);
        Ok(())
    }
}

/// A pivot of the k-th tile on the diagonal that is not positive, by its row of A.
pub(super) fn not_positive<T: Scalar>(
    a: &TiledMatrix<T>,
    k: u32,
    failed: NotPositive,
) -> TaskError {
    let index = a.row_range(k as usize).start + failed.index;
    LinalgError::not_positive(a.label(), index as u64, failed.pivot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate::{Hilbert, PositiveDefinite};
    use crate::matrix::{Format, Grid, Layout};
    use crate::scalar::{c32, c64};
    use dataflow_core::port::{Heap, Inline, Shuffled};
    use dataflow_core::sequence::record::{Recorded, record};
    use dataflow_core::sequence::{read, write};
    use std::collections::HashMap;
    use std::sync::Arc;

    /// A matrix of `nt` tiles a side that do not exist.
    fn vacant(nt: usize, grid: Grid) -> TiledMatrix<f64> {
        let layout = Layout::lower(nt, 1).unwrap();
        let layout = layout.distributed(Distribution::BlockCyclic(grid), Rank(0));
        TiledMatrix::vacant(layout.unwrap(), Arc::new(Heap))
    }

    fn n_tasks(nt: u64) -> u64 {
        nt * (nt + 1) * (nt + 2) / 6
    }

    #[test]
    fn the_space_is_proved_for_1_to_12_tiles_on_every_grid() {
        for (p, q) in [(1, 1), (2, 2), (2, 3)] {
            for nt in 0..=12 {
                let a = vacant(nt, Grid::new(p, q).unwrap());
                let space = Factor::new(&a, Backend::Auto).unwrap();
                verify(&space, p * q)
                    .unwrap_or_else(|fault| panic!("nt = {nt} on {p} x {q}: {fault}"));
                let count: u64 = (0..p * q).map(|on| space.count(Rank(on))).sum();
                assert_eq!(count, n_tasks(nt as u64), "nt = {nt} on {p} x {q}");
            }
        }
    }

    /// Hears whom a task feeds.
    #[derive(Default)]
    struct Fed(Vec<Task>);

    impl Successors<Factor<'_, f64>> for Fed {
        fn task(&mut self, _: usize, target: Task, _: usize) {
            self.0.push(target);
        }
        fn home(&mut self, _: usize, _: &Store<Tile<f64>>, _: usize) {}
    }

    /// Runs tasks in the order of their priorities, of equal ones the first that became ready.
    fn in_order(space: &Factor<'_, f64>) -> Vec<Task> {
        let mut ready: Vec<Task> = space.roots(Rank(0)).collect();
        let (mut fed, mut order) = (HashMap::<Task, usize>::new(), Vec::new());
        let n_inputs = |task: Task| match task {
            Potrf { k: 0 } => 0,
            Potrf { .. } => 1,
            Trsm { k, .. } => 1 + usize::from(k > 0),
            Herk { k, .. } => 1 + usize::from(k > 0),
            Gemm { k, .. } => 2 + usize::from(k > 0),
        };
        while let Some(at) = (0..ready.len())
            .rev()
            .max_by_key(|&at| space.priority(ready[at]))
        {
            let task = ready.remove(at);
            order.push(task);
            let mut next = Fed::default();
            space.successors(task, &mut next);
            for target in next.0 {
                let had = fed.entry(target).or_default();
                *had += 1;
                if *had == n_inputs(target) {
                    ready.push(target);
                }
            }
        }
        order
    }

    #[test]
    fn a_worker_updates_a_tile_by_all_steps_of_a_span_before_it_turns_to_another() {
        for nt in [1, 3, 8, 12, 24] {
            let a = vacant(nt, Grid::new(1, 1).unwrap());
            let space = Factor::new(&a, Backend::Auto).unwrap();
            for task in space.tasks(Rank(0)) {
                let is_panel = matches!(task, Potrf { .. } | Trsm { .. });
                assert_eq!(space.priority(task) > 0, is_panel, "{task:?} of nt = {nt}");
            }
            let order = in_order(&space);
            assert_eq!(order.len() as u64, n_tasks(nt as u64));
            let updated: Vec<(u32, u32, u32)> = { order.into_iter() }
                .filter_map(|task| match task {
                    Herk { m, k } => Some((m, m, k)),
                    Gemm { m, n, k } => Some((m, n, k)),
                    Potrf { .. } | Trsm { .. } => None,
                })
                .collect();
            let stays = |pair: &[(u32, u32, u32)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
            let turns = updated.windows(2).filter(|pair| !stays(pair)).count() + 1;
            // The spans of a tile in column n; its last update may have to wait for the panel before.
            let length = (nt / 4).clamp(4, 8);
            let spans = (1..nt).map(|n| n.div_ceil(length) * (nt - n));
            let tiles = (1..nt).map(|n| nt - n);
            assert!(
                turns <= spans.sum::<usize>() + tiles.sum::<usize>() + 1,
                "{turns} turns, nt = {nt}"
            );
        }
    }

    /// The factorisation by insertion, with bodies that do nothing; and the space's names of its
    /// tasks, by number.
    fn inserted<'env>(
        a: &'env TiledMatrix<f64>,
        n_ranks: usize,
    ) -> (Recorded<'env, Tile<f64>>, Vec<Task>) {
        let nt = a.nt() as u32;
        let mut names = Vec::new();
        let recorded = record("cholesky", n_ranks, |r| {
            let homes: Vec<_> = (0..nt * nt)
                .map(|at| (at / nt.max(1), at % nt.max(1)))
                .map(|(m, n)| {
                    let (m, n) = (m as usize, n as usize);
                    let owner = if n <= m { a.rank_of(m, n) } else { Rank(0) };
                    r.home(a.store(), m * nt as usize + n, owner)
                })
                .collect();
            let tile = |m: u32, n: u32| &homes[(m * nt + n) as usize];
            for k in 0..nt {
                r.task(write(tile(k, k)), |_| ());
                names.push(Potrf { k });
                for m in k + 1..nt {
                    r.task((write(tile(m, k)), read(tile(k, k))), |_| ());
                    names.push(Trsm { m, k });
                }
                for m in k + 1..nt {
                    r.task((write(tile(m, m)), read(tile(m, k))), |_| ());
                    names.push(Herk { m, k });
                    for n in k + 1..m {
                        let panel = (read(tile(m, k)), read(tile(n, k)));
                        r.task((write(tile(m, n)), panel), |_| ());
                        names.push(Gemm { m, n, k });
                    }
                }
            }
        });
        (recorded.unwrap(), names)
    }

    /// Hears edges: flow, target, target's flow. `None`: home.
    struct Edges<T>(Vec<(usize, Option<(T, usize)>)>);

    impl<S: TaskSpace> Successors<S> for Edges<S::Task> {
        fn task(&mut self, flow: usize, target: S::Task, target_flow: usize) {
            self.0.push((flow, Some((target, target_flow))));
        }
        fn home(&mut self, flow: usize, _: &Store<S::Datum>, _: usize) {
            self.0.push((flow, None));
        }
    }

    #[test]
    fn the_edges_found_by_insertion_are_those_of_the_space() {
        for (p, q) in [(1, 1), (2, 2), (1, 3)] {
            for nt in 1..=12 {
                let a = vacant(nt, Grid::new(p, q).unwrap());
                let space = Factor::new(&a, Backend::Auto).unwrap();
                let (recorded, names) = inserted(&a, (p * q) as usize);
                assert_eq!(names.len() as u64, n_tasks(nt as u64));
                let mut tasks = 0;
                for rank in (0..p * q).map(Rank) {
                    for step in recorded.tasks(rank) {
                        tasks += 1;
                        let name = |step| names[recorded.name_of(step).1 as usize];
                        let (mut found, mut formula) = (Edges(Vec::new()), Edges(Vec::new()));
                        recorded.successors(step, &mut found);
                        space.successors(name(step), &mut formula);
                        let edges = found.0.into_iter();
                        let mut found: Vec<_> = edges
                            .map(|(flow, to)| (flow, to.map(|(step, flow)| (name(step), flow))))
                            .collect();
                        found.sort();
                        formula.0.sort();
                        assert_eq!(found, formula.0, "{:?} of nt = {nt}", name(step));
                        assert_eq!(space.rank(name(step)), rank);
                    }
                }
                assert_eq!(tasks, names.len(), "no further task was needed");
            }
        }
    }

    /// The bits of L, in tiles of this order and format.
    fn bits_of_l<T: Scalar>(
        backend: Backend,
        (n, nb): (usize, usize),
        format: Format,
    ) -> Vec<(u64, u64)> {
        let layout = Layout::lower(n, nb).unwrap().with_format(format);
        let a = TiledMatrix::<T>::from_entries(layout, &PositiveDefinite::new(n, 1));
        factor(&a, backend, &Inline).unwrap();
        let elements = a.to_column_major().unwrap().into_iter();
        elements
            .map(|x| (x.re().to_bits(), x.im().to_bits()))
            .collect()
    }

    #[test]
    fn columns_that_are_cut_have_the_bits_of_tiles_that_are_as_small_as_their_pieces() {
        fn check<T: Scalar>(backend: Backend) {
            // With a last row alone, with one piece and a row, with tiles that are no multiple.
            for (n, order) in [(97, 16), (113, 16), (120, 24), (64, 64), (145, 48)] {
                let small = bits_of_l::<T>(backend, (n, order), Format::ColumnMajor);
                let sub_tiled = bits_of_l::<T>(backend, (n, 3 * order), Format::SubTiled { order });
                assert!(
                    small == sub_tiled,
                    "{backend} {} n = {n}, sub-tiled",
                    T::PRECISION
                );
                for times in 1..=4 {
                    let cut =
                        bits_of_l::<T>(backend, (n, times * order), Format::CutColumns { order });
                    assert!(
                        small == cut,
                        "{backend} {} n = {n}, {times} · {order}",
                        T::PRECISION
                    );
                }
            }
        }
        const BACKENDS: &[Backend] = &[
            Backend::Auto,
            #[cfg(feature = "openblas")]
            Backend::OpenBlas,
        ];
        for &backend in BACKENDS {
            check::<f64>(backend);
            check::<f32>(backend);
            check::<c64>(backend);
            check::<c32>(backend);
        }
    }

    #[test]
    fn a_pivot_that_is_not_positive_has_its_number_in_columns_that_are_cut() {
        let layout = Layout::lower(40, 24).unwrap();
        let cut = layout.with_format(Format::CutColumns { order: 4 });
        let message = |layout| {
            let hilbert = TiledMatrix::<f64>::from_entries(layout, &Hilbert);
            let failed = factor(&hilbert, Backend::Faer, &Inline).unwrap_err();
            (failed.index(), failed.to_string())
        };
        let sub_tiled = layout.with_format(Format::SubTiled { order: 4 });
        assert_eq!(message(cut), message(sub_tiled));
        assert!(
            (5..=24).contains(&message(cut).0.unwrap()),
            "in a later piece"
        );
    }

    #[test]
    fn two_levels_have_the_bits_of_one_and_the_same_failure() {
        fn check<T: Scalar>(on: &dyn Executor) {
            for (n, nb, block) in [(50, 4, 3), (23, 5, 2), (9, 3, 7)] {
                let matrix = PositiveDefinite::new(n, 1);
                let layout = Layout::lower(n, nb * block).unwrap();
                let layout = layout.with_format(Format::SubTiled { order: nb });
                let (blocks, tiles) = (
                    TiledMatrix::<T>::from_entries(layout, &matrix),
                    TiledMatrix::<T>::from_entries(Layout::lower(n, nb).unwrap(), &matrix),
                );
                let space = Factor::new(&blocks, Backend::Faer).unwrap();
                space.in_two_levels(on).run(on).unwrap();
                factor(&tiles, Backend::Faer, &Inline).unwrap();
                let bits = |a: &TiledMatrix<T>| {
                    let elements = a.to_column_major().unwrap();
                    elements.into_iter().map(Scalar::bits).collect::<Vec<_>>()
                };
                assert!(bits(&blocks) == bits(&tiles), "{} n = {n}", T::PRECISION);
            }
            let layout = Layout::lower(40, 12).unwrap();
            let layout = layout.with_format(Format::SubTiled { order: 3 });
            let hilbert = TiledMatrix::<T>::from_entries(layout, &Hilbert);
            let space = Factor::new(&hilbert, Backend::Faer).unwrap();
            let failed = space.in_two_levels(on).run(on);
            let failed = failed.unwrap_err();
            let hilbert = TiledMatrix::<T>::from_entries(layout, &Hilbert);
            let expected = factor(&hilbert, Backend::Faer, &Inline).unwrap_err();
            assert_eq!(failed.to_string(), expected.to_string());
            assert_eq!(failed.index(), expected.index());
        }
        let shuffled = Shuffled::new(5);
        let executors: [&dyn Executor; 3] = [&Inline, &shuffled, &shuffled.with_threads(3)];
        for on in executors {
            check::<f32>(on);
            check::<c64>(on);
        }
    }

    #[test]
    fn only_a_lower_matrix_is_accepted() {
        let layout = Layout::general(4, 3, 2).unwrap();
        let a = TiledMatrix::<f64>::zeros(layout);
        let refused = Factor::new(&a, Backend::Auto).unwrap_err();
        assert_eq!((refused.name(), refused.index()), ("wrong_shape", None));
        assert!(refused.to_string().contains("4 x 3"), "{refused}");
    }
}
