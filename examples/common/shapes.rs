//! Shapes: task spaces with empty bodies, for measuring what the runtime itself costs.
//!
//! Each shape is generic over what its edges carry: `()` only orders tasks, [`Moved`], [`Shared`]
//! and [`Updated`] are data of eight bytes. Roots and counts are formulas; nothing is enumerated.
//!
//! | shape | size | tasks | edges of a task |
//! |---|---|---|---|
//! | independent | S tasks | S | 0 |
//! | chain | length S | S | 1 |
//! | wavefront | side S | S² | 2: right, below |
//! | cholesky | NT = S tiles a side | S(S+1)(S+2)/6 | up to S, 2.7 on average at S = 100 |
//! | stencil | S steps, 64 wide | 64 S | 3: itself and both neighbours, one step on |
//!
//! # Elsewhere
//! The bare loop that these are compared with: `benches/overhead.rs`.

use dataflow::core::port::{Block, Head, Wire};
use dataflow::prelude::*;
use dataflow_core::space::ClassBuilder;
use std::borrow::Cow;

/// What the edges of a shape carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Data {
    /// Nothing: edges order tasks.
    None,
    /// Each datum goes from one holder to the next, unchanged. In `cholesky` along the tiles; its
    /// panels only order.
    Moved,
    /// All successors of a task read one datum (in a chain there is one successor).
    Shared,
    /// As `moved`, changed in place on the way. In `stencil` a task's own datum is updated and its
    /// neighbours' are read; in `cholesky` tiles are updated and panels shared, as in the real one.
    Updated,
}

/// A datum that says by its type how it travels.
pub trait Carried: Datum + Default {
    const DATA: Data;
    const CARRIES: bool = !matches!(Self::DATA, Data::None);
}

impl Carried for () {
    const DATA: Data = Data::None;
}

macro_rules! carried {
    ($($name:ident),+) => {$(
        /// Eight bytes that travel as the name says; see [`Data`].
        #[derive(Clone, Debug, Default)]
        pub struct $name(pub u64);
        impl Datum for $name {}
        impl Carried for $name {
            const DATA: Data = Data::$name;
        }
        impl Wire for $name {
            fn head(&self) -> Head {
                Head::from_slice(&self.0.to_le_bytes())
            }
            fn size(&self) -> usize {
                0
            }
            fn body(&self) -> Cow<'_, [u8]> {
                Cow::Borrowed(&[])
            }
            fn unpack(head: &[u8], _: Box<dyn Block>) -> Result<Self, String> {
                let number = head.try_into().map_err(|_| format!("the number {head:?}"))?;
                Ok($name(u64::from_le_bytes(number)))
            }
        }
    )+};
}
carried!(Moved, Shared, Updated);

/// A flow of a class, in the mode of the data it carries.
fn flow<'d, D: Carried>(class: ClassBuilder<'d>, name: &str) -> ClassBuilder<'d> {
    match D::DATA {
        Data::None => class.order(name),
        Data::Moved | Data::Shared => class.read(name),
        Data::Updated => class.update(name),
    }
}

/// The same, of data that are never changed.
fn read_flow<'d, D: Carried>(class: ClassBuilder<'d>, name: &str) -> ClassBuilder<'d> {
    if D::CARRIES {
        class.read(name)
    } else {
        class.order(name)
    }
}

/// As many fresh data as asked, or none if edges carry nothing.
fn home<D: Carried>(name: &str, length: usize) -> Store<D> {
    let length = if D::CARRIES { length } else { 0 };
    Store::new(name, (0..length).map(|_| D::default()))
}

/// `count` tasks that know nothing of each other.
pub struct Independent {
    pub count: u64,
}

impl TaskSpace for Independent {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("independent").parameter("count", self.count);
        about.class("Task");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.count
    }

    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}

    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}

    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }

    fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.count
    }

    fn count(&self, _: Rank) -> u64 {
        self.count
    }
}

/// One task after the other.
pub struct Chain<D: Carried> {
    length: u64,
    dense: bool,
    ends: Store<D>,
}

const VALUE: usize = 0;

impl<D: Carried> Chain<D> {
    pub fn new(length: u64, dense: bool) -> Self {
        let ends = home("ends", 1);
        Chain {
            length,
            dense,
            ends,
        }
    }
}

impl<D: Carried> TaskSpace for Chain<D> {
    type Task = u64;
    type Datum = D;

    fn describe(&self, about: &mut Description) {
        about.name("chain").parameter("length", self.length);
        flow::<D>(about.class("Link"), "VALUE");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.length
    }

    #[inline(always)]
    fn inputs(&self, link: u64, from: &mut impl Inputs<Self>) {
        if link > 0 {
            from.task(VALUE, link - 1, VALUE);
        } else if D::CARRIES {
            from.home(VALUE, &self.ends, 0);
        }
    }

    #[inline(always)]
    fn successors(&self, link: u64, to: &mut impl Successors<Self>) {
        if link + 1 < self.length {
            to.task(VALUE, link + 1, VALUE);
        } else if D::DATA == Data::Updated {
            to.home(VALUE, &self.ends, 0);
        }
    }

    #[inline(always)]
    fn run(&self, _: u64, _: &mut Flows<'_, D>) -> Result<(), TaskError> {
        Ok(())
    }

    fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.length.min(1)
    }

    fn count(&self, _: Rank) -> u64 {
        self.length
    }

    #[inline(always)]
    fn index(&self, link: u64) -> Option<usize> {
        self.dense.then_some(link as usize)
    }
}

/// A square in which each task waits for its left and its upper neighbour.
pub struct Wavefront<D: Carried> {
    side: u32,
    dense: bool,
    left: Store<D>,
    top: Store<D>,
}

const LEFT: usize = 0;
const TOP: usize = 1;

impl<D: Carried> Wavefront<D> {
    pub fn new(side: u32, dense: bool) -> Self {
        Wavefront {
            side,
            dense,
            left: home("left", side as usize),
            top: home("top", side as usize),
        }
    }

    /// The flow by which a task feeds the one below: the same datum as to the right if shared.
    const DOWN: usize = match D::DATA {
        Data::Shared => LEFT,
        _ => TOP,
    };
}

impl<D: Carried> TaskSpace for Wavefront<D> {
    type Task = (u32, u32);
    type Datum = D;

    fn describe(&self, about: &mut Description) {
        about.name("wavefront").parameter("side", self.side);
        flow::<D>(flow::<D>(about.class("Cell"), "LEFT"), "TOP");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
        let side = self.side;
        (0..side).flat_map(move |i| (0..side).map(move |j| (i, j)))
    }

    #[inline(always)]
    fn inputs(&self, (i, j): (u32, u32), from: &mut impl Inputs<Self>) {
        if j > 0 {
            from.task(LEFT, (i, j - 1), LEFT);
        } else if D::CARRIES {
            from.home(LEFT, &self.left, i as usize);
        }
        if i > 0 {
            from.task(TOP, (i - 1, j), Self::DOWN);
        } else if D::CARRIES {
            from.home(TOP, &self.top, j as usize);
        }
    }

    #[inline(always)]
    fn successors(&self, (i, j): (u32, u32), to: &mut impl Successors<Self>) {
        if j + 1 < self.side {
            to.task(LEFT, (i, j + 1), LEFT);
        } else if D::DATA == Data::Updated {
            to.home(LEFT, &self.left, i as usize);
        }
        if i + 1 < self.side {
            to.task(Self::DOWN, (i + 1, j), TOP);
        } else if D::DATA == Data::Updated {
            to.home(TOP, &self.top, j as usize);
        }
    }

    #[inline(always)]
    fn run(&self, _: (u32, u32), _: &mut Flows<'_, D>) -> Result<(), TaskError> {
        Ok(())
    }

    fn roots(&self, _: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
        (0..self.side.min(1)).map(|_| (0, 0))
    }

    fn count(&self, _: Rank) -> u64 {
        u64::from(self.side).pow(2)
    }

    #[inline(always)]
    fn index(&self, (i, j): (u32, u32)) -> Option<usize> {
        self.dense
            .then_some(i as usize * self.side as usize + j as usize)
    }
}

/// Columns of a stencil.
pub const WIDTH: u32 = 64;

/// Each task waits for three of the step before: its own column and the neighbours'.
pub struct Stencil<D: Carried> {
    steps: u32,
    dense: bool,
    /// A datum per column, and one for whatever lies outside.
    columns: Store<D>,
}

const WEST: usize = 0;
const OWN: usize = 1;
const EAST: usize = 2;

impl<D: Carried> Stencil<D> {
    pub fn new(steps: u32, dense: bool) -> Self {
        let columns = home("columns", WIDTH as usize + 1);
        Stencil {
            steps,
            dense,
            columns,
        }
    }

    /// The flows that go on to the western and the eastern neighbour: what came from the other
    /// side, at a border what came from that neighbour; or the task's own if it is shared.
    #[inline(always)]
    fn onward(column: u32) -> (usize, usize) {
        let to_west = if column + 1 == WIDTH { WEST } else { EAST };
        let to_east = if column == 0 { EAST } else { WEST };
        if D::DATA == Data::Shared {
            (OWN, OWN)
        } else {
            (to_west, to_east)
        }
    }
}

impl<D: Carried> TaskSpace for Stencil<D> {
    type Task = (u32, u32);
    type Datum = D;

    fn describe(&self, about: &mut Description) {
        about.name("stencil").parameter("steps", self.steps);
        let class = read_flow::<D>(about.class("Point"), "WEST");
        read_flow::<D>(flow::<D>(class, "OWN"), "EAST");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
        (0..self.steps).flat_map(|step| (0..WIDTH).map(move |column| (step, column)))
    }

    #[inline(always)]
    fn inputs(&self, (step, column): (u32, u32), from: &mut impl Inputs<Self>) {
        let outside = WIDTH as usize;
        if step > 0 {
            from.task(OWN, (step - 1, column), OWN);
        } else if D::CARRIES {
            from.home(OWN, &self.columns, column as usize);
        }
        if step > 0 && column > 0 {
            from.task(WEST, (step - 1, column - 1), Self::onward(column - 1).1);
        } else if D::CARRIES {
            from.home(WEST, &self.columns, outside);
        }
        if step > 0 && column + 1 < WIDTH {
            from.task(EAST, (step - 1, column + 1), Self::onward(column + 1).0);
        } else if D::CARRIES {
            from.home(EAST, &self.columns, outside);
        }
    }

    #[inline(always)]
    fn successors(&self, (step, column): (u32, u32), to: &mut impl Successors<Self>) {
        let next = step + 1;
        if next == self.steps {
            if D::DATA == Data::Updated {
                to.home(OWN, &self.columns, column as usize);
            }
            return;
        }
        let (to_west, to_east) = Self::onward(column);
        if column > 0 {
            to.task(to_west, (next, column - 1), EAST);
        }
        to.task(OWN, (next, column), OWN);
        if column + 1 < WIDTH {
            to.task(to_east, (next, column + 1), WEST);
        }
    }

    #[inline(always)]
    fn run(&self, _: (u32, u32), _: &mut Flows<'_, D>) -> Result<(), TaskError> {
        Ok(())
    }

    fn roots(&self, _: Rank) -> impl Iterator<Item = (u32, u32)> + Send {
        (0..self.steps.min(1)).flat_map(|step| (0..WIDTH).map(move |column| (step, column)))
    }

    fn count(&self, _: Rank) -> u64 {
        u64::from(self.steps) * u64::from(WIDTH)
    }

    #[inline(always)]
    fn index(&self, (step, column): (u32, u32)) -> Option<usize> {
        self.dense
            .then_some(step as usize * WIDTH as usize + column as usize)
    }
}

task_names! {
    /// The tasks of a tile Cholesky factorisation.
    pub enum Factor { Potrf { k }, Trsm { k, m }, Syrk { k, m }, Gemm { k, m, n } }
}
use Factor::{Gemm, Potrf, Syrk, Trsm};

/// The graph of the tile Cholesky factorisation, `nt` tiles a side.
pub struct Cholesky<D: Carried> {
    nt: u32,
    dense: bool,
    priorities: bool,
    /// The lower triangle, by rows.
    tiles: Store<D>,
}

const TILE: usize = 0;
const PANEL: usize = 1;
const PANEL_TOP: usize = 2;

impl<D: Carried> Cholesky<D> {
    pub fn new(nt: u32, dense: bool, priorities: bool) -> Self {
        let tiles = home("tiles", nt as usize * (nt as usize + 1) / 2);
        Cholesky {
            nt,
            dense,
            priorities,
            tiles,
        }
    }

    /// Whether panel edges carry the panel's tile; otherwise they leave by a flow of their own.
    const PANELS_TRAVEL: bool = matches!(D::DATA, Data::Shared | Data::Updated);

    /// The flows by which the panel leaves a `Potrf` and a `Trsm`.
    const DIAGONAL_OUT: usize = if Self::PANELS_TRAVEL || !D::CARRIES {
        TILE
    } else {
        1
    };
    const PANEL_OUT: usize = if Self::PANELS_TRAVEL || !D::CARRIES {
        TILE
    } else {
        2
    };

    fn panel_flow<'d>(class: ClassBuilder<'d>, name: &str) -> ClassBuilder<'d> {
        if Self::PANELS_TRAVEL {
            class.read(name)
        } else {
            class.order(name)
        }
    }

    fn done_flow(class: ClassBuilder<'_>) {
        if D::CARRIES && !Self::PANELS_TRAVEL {
            class.order("DONE");
        }
    }

    #[inline(always)]
    fn tile_from(&self, writer: Option<Factor>, m: u32, n: u32, from: &mut impl Inputs<Self>) {
        match writer {
            Some(writer) => from.task(TILE, writer, TILE),
            None if D::CARRIES => from.home(TILE, &self.tiles, triangle(m) + n as usize),
            None => {}
        }
    }

    #[inline(always)]
    fn tile_home(&self, m: u32, n: u32, to: &mut impl Successors<Self>) {
        if D::DATA == Data::Updated {
            to.home(TILE, &self.tiles, triangle(m) + n as usize);
        }
    }
}

/// Number of tiles in a lower triangle of `m` rows.
#[inline(always)]
fn triangle(m: u32) -> usize {
    m as usize * (m as usize + 1) / 2
}

/// Number of tasks of a tile Cholesky factorisation with `nt` tiles a side.
#[inline(always)]
pub fn tetrahedron(nt: u32) -> u64 {
    let nt = u64::from(nt);
    nt * (nt + 1) * (nt + 2) / 6
}

impl<D: Carried> TaskSpace for Cholesky<D> {
    type Task = Factor;
    type Datum = D;

    fn describe(&self, about: &mut Description) {
        about.name("cholesky").parameter("nt", self.nt);
        Self::done_flow(flow::<D>(about.class("Potrf"), "TILE"));
        let trsm = flow::<D>(about.class("Trsm"), "TILE");
        Self::done_flow(Self::panel_flow(trsm, "PANEL"));
        Self::panel_flow(flow::<D>(about.class("Syrk"), "TILE"), "PANEL");
        let gemm = Self::panel_flow(flow::<D>(about.class("Gemm"), "TILE"), "PANEL");
        Self::panel_flow(gemm, "PANEL_TOP");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Factor> + Send {
        let nt = self.nt;
        (0..nt).flat_map(move |k| {
            let columns = move |m| (k + 1..m).map(move |n| Gemm { m, n, k });
            let row = move |m| [Trsm { m, k }, Syrk { m, k }].into_iter().chain(columns(m));
            std::iter::once(Potrf { k }).chain((k + 1..nt).flat_map(row))
        })
    }

    #[inline(always)]
    fn inputs(&self, task: Factor, from: &mut impl Inputs<Self>) {
        match task {
            Potrf { k } => {
                let writer = k.checked_sub(1).map(|before| Syrk { m: k, k: before });
                self.tile_from(writer, k, k, from);
            }
            Trsm { m, k } => {
                from.task(PANEL, Potrf { k }, Self::DIAGONAL_OUT);
                let writer = k.checked_sub(1).map(|before| Gemm { m, n: k, k: before });
                self.tile_from(writer, m, k, from);
            }
            Syrk { m, k } => {
                from.task(PANEL, Trsm { m, k }, Self::PANEL_OUT);
                let writer = k.checked_sub(1).map(|before| Syrk { m, k: before });
                self.tile_from(writer, m, m, from);
            }
            Gemm { m, n, k } => {
                from.task(PANEL, Trsm { m, k }, Self::PANEL_OUT);
                from.task(PANEL_TOP, Trsm { m: n, k }, Self::PANEL_OUT);
                let writer = k.checked_sub(1).map(|before| Gemm { m, n, k: before });
                self.tile_from(writer, m, n, from);
            }
        }
    }

    #[inline(always)]
    fn successors(&self, task: Factor, to: &mut impl Successors<Self>) {
        match task {
            Potrf { k } => {
                self.tile_home(k, k, to);
                to.range(Self::DIAGONAL_OUT, k + 1..self.nt, |m| Trsm { m, k }, PANEL);
            }
            Trsm { m, k } => {
                self.tile_home(m, k, to);
                to.task(Self::PANEL_OUT, Syrk { m, k }, PANEL);
                to.range(Self::PANEL_OUT, k + 1..m, |n| Gemm { m, n, k }, PANEL);
                let below = m + 1..self.nt;
                to.range(
                    Self::PANEL_OUT,
                    below,
                    |i| Gemm { m: i, n: m, k },
                    PANEL_TOP,
                );
            }
            Syrk { m, k } if m == k + 1 => to.task(TILE, Potrf { k: m }, TILE),
            Syrk { m, k } => to.task(TILE, Syrk { m, k: k + 1 }, TILE),
            Gemm { m, n, k } if n == k + 1 => to.task(TILE, Trsm { m, k: n }, TILE),
            Gemm { m, n, k } => to.task(TILE, Gemm { m, n, k: k + 1 }, TILE),
        }
    }

    #[inline(always)]
    fn run(&self, _: Factor, _: &mut Flows<'_, D>) -> Result<(), TaskError> {
        Ok(())
    }

    /// The longest way to the end, in units of nb³/3 flops.
    #[inline(always)]
    fn priority(&self, task: Factor) -> i64 {
        if !self.priorities {
            return 0;
        }
        let last = i64::from(self.nt) - 1;
        let between = |from: u32, to: u32| i64::from(to) - i64::from(from);
        // From a column's Potrf to the end: three tasks a column, then the last one.
        let after = |column: u32| match 9 * (last - i64::from(column)) {
            0 => 1,
            rest => rest - 1,
        };
        match task {
            Potrf { k } => after(k),
            Trsm { k, .. } => 9 * (last - i64::from(k)) - 2,
            Syrk { m, k } => 3 * between(k, m) + after(m),
            Gemm { n, k, .. } => 6 * between(k, n) + 9 * (last - i64::from(n)) - 2,
        }
    }

    fn roots(&self, _: Rank) -> impl Iterator<Item = Factor> + Send {
        (0..self.nt.min(1)).map(|k| Potrf { k })
    }

    fn count(&self, _: Rank) -> u64 {
        tetrahedron(self.nt)
    }

    #[inline(always)]
    fn index(&self, task: Factor) -> Option<usize> {
        self.dense.then(|| position(self.nt, task))
    }
}

/// The number of a Cholesky task: step by step, in each by rows of the triangle that is left.
#[inline(always)]
pub fn position(nt: u32, task: Factor) -> usize {
    let (m, n, k) = match task {
        Potrf { k } => (k, k, k),
        Trsm { m, k } => (m, k, k),
        Syrk { m, k } => (m, m, k),
        Gemm { m, n, k } => (m, n, k),
    };
    let earlier_steps = (tetrahedron(nt) - tetrahedron(nt - k)) as usize;
    earlier_steps + triangle(m - k) + (n - k) as usize
}
