//! The solution of A·X = B, Aᵀ·X = B or Aᴴ·X = B from the factors, as one graph: rows are
//! reordered, then one triangle is solved down the tiles and the other back up; for the transposed
//! systems the rows come last.
//!
//! # Law
//! The updates of a tile form one chain in each direction, in the order of the solved tiles; so the
//! bits of X depend on the factors, B, the tile order and the backend only.

use super::factor::{expect_general, expect_regular};
use super::moving::Moving;
use super::pivots::{Pivots, Swaps, inverse, of_words, order, words};
use super::rank_rows::RankRows;
use crate::error::LinalgError;
use crate::kernel::{Backend, Diagonal, Op, Side, Triangle, gemm_op, trsm_op};
use crate::matrix::{Structure, Tile, TiledMatrix};
use crate::scalar::Scalar;
use dataflow_core::port::Executor;
use dataflow_core::prelude::*;
use dataflow_core::space::{Slot, placed};
use dataflow_core::{Report, task_names};

task_names! {
    /// The tasks of a solution: k is the step, m the tile row that is updated, j the tile column
    /// of right-hand sides, r a row of ranks; Give has the indices of a tile of the factors.
    pub enum SolveTask {
        Order { k }, Give { m, n }, Begin { m, j }, Leave { r, j }, Settle { m, j },
        Forward { k, j }, ForwardUpdate { m, k, j }, Backward { k, j }, BackwardUpdate { m, k, j },
    }
}
use SolveTask::{
    Backward, BackwardUpdate, Begin, Forward, ForwardUpdate, Give, Leave, Order, Settle,
};

/// The tile of B that a task overwrites; of Give the tile of the factors.
const TILE: usize = 0;
/// The tile of the factors that a solve or an update reads.
const FACTOR: usize = 1;
/// Updates: the solved tile.
const SOLVED: usize = 2;
/// Order: the order of rows from its step on, that from the next one on, and its swaps.
const ORDER: usize = 0;
const LATER: usize = 1;
const SWAPS: usize = 2;
/// Settle: the order of rows, then the rows that come from each row of ranks.
const NEW_ORDER: usize = 1;
const INCOMING: usize = 2;

/// The task space of a solution: about nt² tasks for each tile column of B.
#[derive(Clone, Copy)]
pub struct Solve<'a, T: Scalar> {
    lu: &'a TiledMatrix<T>,
    pivots: &'a Pivots<T>,
    op: Op,
    b: &'a TiledMatrix<T>,
    backend: Backend,
    rows: RankRows,
    columns: u32,
    /// Whether B is I, so that above the diagonal the first triangle finds zeros only.
    of_unit: bool,
}

/// Overwrites `b` by the solution X of op(A)·X = B; `lu` and `pivots` are what
/// [`factor`](super::factor) left. 2n² flops for each column.
///
/// # Errors
/// [`LinalgError::Singular`] if a pivot is zero: `b` is then as it was. If the shapes or tile orders
/// do not fit, or the run fails.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::kernel::{Backend, Op};
/// use dataflow_linalg::{lu, matrix::{Layout, TiledMatrix}};
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let pivots = lu::Pivots::new(&a);
/// lu::factor(&a, &pivots, Backend::Auto, &Inline)?;
/// let b = TiledMatrix::from_fn(Layout::general(2, 1, 1)?, |i, _| [4.0, 10.0][i]);
/// lu::solve(&a, &pivots, Op::NoTranspose, &b, Backend::Auto, &Inline)?;
/// assert_eq!(b.to_column_major()?, [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve<T: Scalar>(
    lu: &TiledMatrix<T>,
    pivots: &Pivots<T>,
    op: Op,
    b: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<Report, LinalgError> {
    let solve = Solve::new(lu, pivots, op, b, backend)?;
    expect_regular(lu, on)?;
    solve.run(on)
}

/// Refuses factors that are not square, and right-hand sides that are not cut and spread alike.
pub(super) fn expect_sides<T: Scalar>(
    lu: &TiledMatrix<T>,
    b: &TiledMatrix<T>,
) -> Result<(), LinalgError> {
    let fits = lu.rows() == lu.cols()
        && b.structure() == Structure::General
        && b.rows() == lu.rows()
        && b.nb() == lu.nb()
        && b.distribution() == lu.distribution();
    if fits {
        return Ok(());
    }
    Err(LinalgError::Shape(format!(
        "right-hand sides of {} x {} (tiles of {}, on {}) do not fit factors of {} x {} \
         (square, tiles of {}, on {})",
        b.rows(),
        b.cols(),
        b.nb(),
        b.distribution(),
        lu.rows(),
        lu.cols(),
        lu.nb(),
        lu.distribution()
    )))
}

impl<'a, T: Scalar> Solve<'a, T> {
    /// The space for factors of a square matrix and right-hand sides of the same tile order, on
    /// the same grid.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn new(
        lu: &'a TiledMatrix<T>,
        pivots: &'a Pivots<T>,
        op: Op,
        b: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        expect_general(lu)?;
        pivots.expect_of(lu)?;
        expect_sides(lu, b)?;
        Ok(Solve {
            lu,
            pivots,
            op,
            b,
            backend,
            rows: RankRows::of(lu),
            columns: b.nt() as u32,
            of_unit: false,
        })
    }

    /// The space that makes a unit matrix `unit`, of the factors' shape, A⁻ᴴ.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn of_unit(
        lu: &'a TiledMatrix<T>,
        pivots: &'a Pivots<T>,
        unit: &'a TiledMatrix<T>,
        backend: Backend,
    ) -> Result<Self, LinalgError> {
        let solve = Solve::new(lu, pivots, Op::ConjTranspose, unit, backend)?;
        if unit.cols() == lu.cols() {
            return Ok(Solve {
                of_unit: true,
                ..solve
            });
        }
        let text = format!(
            "a unit matrix of {} columns does not fit factors of order {}",
            unit.cols(),
            lu.cols()
        );
        Err(LinalgError::Shape(text))
    }

    /// Runs this rank's part of the solution; every rank calls it with its part of the matrices.
    /// Does not look for zero pivots.
    ///
    /// # Errors
    /// What [`run_across`](dataflow_core::run_across) answers.
    pub fn run(&self, on: &dyn Executor) -> Result<Report, LinalgError> {
        T::run_tiles(&self.erased(), on).map_err(LinalgError::Run)
    }

    /// Tile rows and columns of the factors.
    fn nt(&self) -> u32 {
        self.rows.mt
    }

    /// Whether the rows are reordered before the solves, not after.
    fn rows_first(&self) -> bool {
        self.op == Op::NoTranspose
    }

    /// The tile of the factors that an update of row m by row k reads.
    fn factor_tile(&self, m: u32, k: u32) -> (u32, u32) {
        match self.op {
            Op::NoTranspose => (m, k),
            Op::Transpose | Op::ConjTranspose => (k, m),
        }
    }

    /// The first step that finds more than zeros in column j of B.
    fn start(&self, j: u32) -> u32 {
        if self.of_unit { j } else { 0 }
    }

    /// The first task of the solves that changes tile (m, j).
    fn entry(&self, m: u32, j: u32) -> SolveTask {
        let start = self.start(j);
        match m {
            m if m < start => BackwardUpdate {
                m,
                k: self.nt() - 1,
                j,
            },
            m if m == start => Forward { k: m, j },
            m => ForwardUpdate { m, k: start, j },
        }
    }

    /// Who wrote tile (m, j) before the solves.
    fn before_solves(&self, m: u32, j: u32) -> SolveTask {
        match self.rows_first() {
            true => Settle { m, j },
            false => Begin { m, j },
        }
    }

    /// Who wrote tile (m, j) before the rows are reordered.
    fn before_order(&self, m: u32, j: u32) -> SolveTask {
        match self.rows_first() {
            true => Begin { m, j },
            false => Backward { k: m, j },
        }
    }

    /// Hands tile (m, j) to those who reorder rows.
    fn hand_to_order(&self, m: u32, j: u32, to: &mut impl Successors<Self>) {
        let r = self.rows.owner(m);
        to.task(TILE, Leave { r, j }, 1 + self.rows.at(m));
        to.task(TILE, Settle { m, j }, TILE);
    }

    /// The two triangles, in the order in which they are solved.
    fn triangles(&self) -> [(Triangle, Diagonal); 2] {
        let lower = (Triangle::Lower, Diagonal::Unit);
        let upper = (Triangle::Upper, Diagonal::NonUnit);
        match self.rows_first() {
            true => [lower, upper],
            false => [upper, lower],
        }
    }

    fn moving<'o>(&self, order: &'o Tile<T>) -> Moving<'o> {
        Moving {
            order: &words(order)[..self.b.rows()],
            first: 0,
            nb: self.b.nb(),
            p: self.rows.p as usize,
        }
    }

    /// ORDER ← the order of rows from step k on; of all rows as this system needs it.
    fn order(&self, k: u32, flows: &mut Flows<'_, Tile<T>>) {
        let [new, later, swaps] = flows.slots();
        let rows = self.lu.rows() - self.lu.row_range(k as usize).start;
        let swaps = Swaps::of(swaps.read());
        let mut order = order(swaps.pivots, later.get().map(words), rows);
        if k == 0 && !self.rows_first() {
            order = inverse(&order);
        }
        new.put(of_words(&order, self.b.memory()));
    }

    /// OUT ← the rows of rank row r, for each row of ranks those that go there.
    fn leave(&self, r: u32, j: u32, flows: &mut Flows<'_, Tile<T>>) {
        let mut slots = flows.iter();
        let Some(order) = slots.next() else { return };
        let moving = self.moving(order.read());
        let tiles = slots.by_ref().take(self.rows.most());
        let tiles: Vec<_> = tiles.filter_map(Slot::get).collect();
        let width = self.b.tile_cols(j as usize);
        let stacks = moving.collect(r as usize, width, tiles.into_iter(), self.b.memory());
        slots.zip(stacks).for_each(|(slot, stack)| slot.put(stack));
    }

    /// TILE ← its rows, from wherever they come.
    fn settle(&self, m: u32, flows: &mut Flows<'_, Tile<T>>) {
        let mut slots = flows.iter();
        let (Some(tile), Some(order)) = (slots.next(), slots.next()) else {
            return;
        };
        let stacks: Vec<_> = slots.map(Slot::get).collect();
        self.moving(order.read())
            .take(m as usize, &stacks, tile.update());
    }

    /// B[k,j] ← op(L or U)[k,k]⁻¹ · B[k,j]
    fn solve_tile(&self, triangle: (Triangle, Diagonal), flows: &mut Flows<'_, Tile<T>>) {
        let [tile, factor] = flows.slots();
        let factor = (self.op, triangle, factor.read());
        trsm_op(self.backend, Side::Left, factor, tile.update());
    }

    /// B[m,j] ← B[m,j] − op(L or U)[m,k] · B[k,j]
    fn update(&self, flows: &mut Flows<'_, Tile<T>>) {
        let [tile, factor, solved] = flows.slots();
        let (factor, solved) = ((self.op, factor.read()), (Op::NoTranspose, solved.read()));
        gemm_op(self.backend, factor, solved, tile.update());
    }
}

impl<T: Scalar> TaskSpace for Solve<'_, T> {
    type Task = SolveTask;
    type Datum = Tile<T>;

    fn describe(&self, about: &mut Description) {
        about.name("lu_solve");
        self.lu.layout().describe(about);
        about.parameter("nrhs", self.b.cols());
        about.parameter("op", format!("{:?}", self.op));
        if self.of_unit {
            about.parameter("b", "unit");
        }
        about.parameter("backend", self.backend);
        let (p, most) = (self.rows.p, self.rows.most());
        let order = about.class("Order").new_flow("ORDER").of("order");
        order
            .optional("LATER")
            .of("order")
            .read("SWAPS")
            .of("pivots");
        about.class("Give").read("TILE").of("factor");
        about.class("Begin").update("TILE");
        let leave = about.class("Leave").read("ORDER").of("order");
        let leave = (0..most).fold(leave, |leave, i| leave.optional(&format!("ROWS{i}")));
        (0..p).fold(leave, |leave, r| {
            leave.new_flow(&format!("OUT{r}")).of("rows")
        });
        let settle = about
            .class("Settle")
            .update("TILE")
            .read("ORDER")
            .of("order");
        (0..p).fold(settle, |settle, r| {
            settle.optional(&format!("IN{r}")).of("rows")
        });
        for direction in ["Forward", "Backward"] {
            let solve = about.class(direction).update("TILE");
            solve.read("FACTOR").of("factor");
            let update = about.class(format!("{direction}Update")).update("TILE");
            update.read("FACTOR").of("factor").read("SOLVED");
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = SolveTask> + Send {
        let (nt, columns, rows) = (self.nt(), self.columns, self.rows);
        let needed = if columns > 0 { nt } else { 0 };
        let give = (0..needed).flat_map(move |n| (0..nt).map(move |m| Give { m, n }));
        let orders = (0..needed).map(|k| Order { k });
        let of_step = move |k, j| {
            let solved = k >= self.start(j);
            let first = if solved { k + 1 } else { nt };
            let below = (first..nt).map(move |m| ForwardUpdate { m, k, j });
            let above = (0..k).map(move |m| BackwardUpdate { m, k, j });
            let m = k;
            let own = [
                Some(Begin { m, j }),
                Some(Settle { m, j }),
                solved.then_some(Forward { k, j }),
                Some(Backward { k, j }),
            ];
            own.into_iter().flatten().chain(below).chain(above)
        };
        let leave = (0..columns).flat_map(move |j| rows.with_tiles(0).map(move |r| Leave { r, j }));
        let steps = (0..columns).flat_map(move |j| (0..nt).map(move |k| (k, j)));
        let steps = steps.flat_map(move |(k, j)| of_step(k, j));
        let all = give.chain(orders).chain(leave).chain(steps);
        placed(self, on, all)
    }

    fn inputs(&self, task: SolveTask, from: &mut impl Inputs<Self>) {
        let last = self.nt() - 1;
        let most = self.rows.most();
        match task {
            Order { k } => {
                if k < last {
                    from.task(LATER, Order { k: k + 1 }, ORDER);
                }
                from.home(SWAPS, self.pivots.store(), k as usize);
            }
            Give { m, n } => from.home(TILE, self.lu.store(), self.lu.place(m, n)),
            Begin { m, j } => from.home(TILE, self.b.store(), self.b.place(m, j)),
            Leave { r, j } => {
                from.task(ORDER, Order { k: 0 }, ORDER);
                for m in self.rows.tiles(r, 0) {
                    from.task(1 + self.rows.at(m), self.before_order(m, j), TILE);
                }
            }
            Settle { m, j } => {
                from.task(TILE, self.before_order(m, j), TILE);
                from.task(NEW_ORDER, Order { k: 0 }, ORDER);
                let out = 1 + most + self.rows.owner(m) as usize;
                for r in self.rows.with_tiles(0) {
                    from.task(INCOMING + r as usize, Leave { r, j }, out);
                }
            }
            Forward { k, j } => {
                let before = match k == self.start(j) {
                    true => self.before_solves(k, j),
                    false => ForwardUpdate { m: k, k: k - 1, j },
                };
                from.task(TILE, before, TILE);
                from.task(FACTOR, Give { m: k, n: k }, TILE);
            }
            ForwardUpdate { m, k, j } => {
                let before = match k == self.start(j) {
                    true => self.before_solves(m, j),
                    false => ForwardUpdate { m, k: k - 1, j },
                };
                from.task(TILE, before, TILE);
                let (row, n) = self.factor_tile(m, k);
                from.task(FACTOR, Give { m: row, n }, TILE);
                from.task(SOLVED, Forward { k, j }, TILE);
            }
            Backward { k, j } => {
                let before = match k == last {
                    true => Forward { k, j },
                    false => BackwardUpdate { m: k, k: k + 1, j },
                };
                from.task(TILE, before, TILE);
                from.task(FACTOR, Give { m: k, n: k }, TILE);
            }
            BackwardUpdate { m, k, j } => {
                let before = match k == last {
                    true if m < self.start(j) => self.before_solves(m, j),
                    true => Forward { k: m, j },
                    false => BackwardUpdate { m, k: k + 1, j },
                };
                from.task(TILE, before, TILE);
                let (row, n) = self.factor_tile(m, k);
                from.task(FACTOR, Give { m: row, n }, TILE);
                from.task(SOLVED, Backward { k, j }, TILE);
            }
        }
    }

    fn successors(&self, task: SolveTask, to: &mut impl Successors<Self>) {
        let (nt, last, most) = (self.nt(), self.nt() - 1, self.rows.most());
        match task {
            Order { k: 0 } => {
                for j in 0..self.columns {
                    for r in self.rows.with_tiles(0) {
                        to.task(ORDER, Leave { r, j }, ORDER);
                    }
                    to.range(ORDER, 0..nt, |m| Settle { m, j }, NEW_ORDER);
                }
            }
            Order { k } => to.task(ORDER, Order { k: k - 1 }, LATER),
            Give { m, n } => {
                for j in 0..self.columns {
                    // Of the updates that may read it, the tile of row `row` by row `k`.
                    let (row, k) = self.factor_tile(m, n);
                    let solved = k >= self.start(j);
                    if row == k {
                        if solved {
                            to.task(TILE, Forward { k, j }, FACTOR);
                        }
                        to.task(TILE, Backward { k, j }, FACTOR);
                    } else if row > k {
                        if solved {
                            to.task(TILE, ForwardUpdate { m: row, k, j }, FACTOR);
                        }
                    } else {
                        to.task(TILE, BackwardUpdate { m: row, k, j }, FACTOR);
                    }
                }
            }
            Begin { m, j } if self.rows_first() => self.hand_to_order(m, j, to),
            Begin { m, j } => to.task(TILE, self.entry(m, j), TILE),
            Leave { r, j } => {
                for m in 0..nt {
                    let out = 1 + most + self.rows.owner(m) as usize;
                    to.task(out, Settle { m, j }, INCOMING + r as usize);
                }
            }
            Settle { m, j } if self.rows_first() => to.task(TILE, self.entry(m, j), TILE),
            Settle { m, j } => to.home(TILE, self.b.store(), self.b.place(m, j)),
            Forward { k, j } => {
                to.range(TILE, k + 1..nt, |m| ForwardUpdate { m, k, j }, SOLVED);
                if k == last {
                    to.task(TILE, Backward { k, j }, TILE);
                } else {
                    to.task(TILE, BackwardUpdate { m: k, k: last, j }, TILE);
                }
            }
            ForwardUpdate { m, k, j } if m == k + 1 => to.task(TILE, Forward { k: m, j }, TILE),
            ForwardUpdate { m, k, j } => to.task(TILE, ForwardUpdate { m, k: k + 1, j }, TILE),
            Backward { k, j } => {
                to.range(TILE, 0..k, |m| BackwardUpdate { m, k, j }, SOLVED);
                match self.rows_first() {
                    true => to.home(TILE, self.b.store(), self.b.place(k, j)),
                    false => self.hand_to_order(k, j, to),
                }
            }
            BackwardUpdate { m, k, j } if k == m + 1 => to.task(TILE, Backward { k: m, j }, TILE),
            BackwardUpdate { m, k, j } => to.task(TILE, BackwardUpdate { m, k: k - 1, j }, TILE),
        }
    }

    fn run(&self, task: SolveTask, flows: &mut Flows<'_, Tile<T>>) -> Result<(), TaskError> {
        let [first, second] = self.triangles();
        match task {
            // What it has is only handed on.
            Give { .. } | Begin { .. } => {}
            Order { k } => self.order(k, flows),
            Leave { r, j } => self.leave(r, j, flows),
            Settle { m, .. } => self.settle(m, flows),
            Forward { .. } => self.solve_tile(first, flows),
            Backward { .. } => self.solve_tile(second, flows),
            ForwardUpdate { .. } | BackwardUpdate { .. } => self.update(flows),
        }
        Ok(())
    }

    fn rank(&self, task: SolveTask) -> Rank {
        let (m, n) = match task {
            Order { k } => (k, k),
            Give { m, n } => (m, n),
            Leave { r, j } => (r, j),
            Begin { m, j } | Settle { m, j } => (m, j),
            Forward { k, j } | Backward { k, j } => (k, j),
            ForwardUpdate { m, j, .. } | BackwardUpdate { m, j, .. } => (m, j),
        };
        self.lu.rank_of(m as usize, n as usize)
    }

    /// Steps that remain on the longest way, down to the last tile row and back up; the rows
    /// before or after, tiles of the factors when they are needed.
    fn priority(&self, task: SolveTask) -> i64 {
        let last = i64::from(self.nt()) - 1;
        let forward = |m: u32, k: u32| 4 * last - i64::from(m) - i64::from(k) + 2;
        let backward = |m: u32, k: u32| i64::from(m) + i64::from(k) + 1;
        match task {
            Order { .. } | Begin { .. } => 4 * last + 4,
            Leave { .. } | Settle { .. } if self.rows_first() => 4 * last + 3,
            Leave { .. } | Settle { .. } => 0,
            Give { m, n } => match self.factor_tile(m, n) {
                (m, k) if m >= k => forward(m, k),
                (m, k) => backward(m, k),
            },
            Forward { k, .. } => forward(k, k),
            ForwardUpdate { m, k, .. } => forward(m, k),
            Backward { k, .. } => backward(k, k),
            BackwardUpdate { m, k, .. } => backward(m, k),
        }
    }
}
