//! Spaces whose bodies let virtual time pass and whose data are blank, but of full size.

use super::world::Outcome;
use dataflow::core::port::{Block, Head, Heap, Wire};
use dataflow::linalg::cholesky::{Factor, Task};
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Distribution, Grid, Layout, Tile, TiledMatrix};
use dataflow::mpi::transport::simulated::spend;
use dataflow::prelude::*;
use dataflow::task_names;
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Ranks, in a square.
pub const N_RANKS: u32 = 4;

/// A datum of zeros, which take no room before they travel.
#[derive(Clone, Debug)]
pub enum Blank {
    /// So many bytes.
    Made(usize),
    /// Where they came from.
    Received(Arc<dyn Block>),
}

/// The longest blank.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

impl Datum for Blank {
    fn bytes(&self) -> usize {
        match self {
            Blank::Made(bytes) => *bytes,
            Blank::Received(block) => block.length(),
        }
    }
}

impl Wire for Blank {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        self.bytes()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&ZEROS[..self.bytes()])
    }
    fn is_blank(&self) -> bool {
        true
    }
    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(Blank::Received(body.into()))
    }
}

// ── Cholesky ─────────────────────────────────────────────────────────────────────────────────────

/// What kernels of one tile order take.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernels {
    #[serde(rename = "about")]
    _about: serde_json::Value,
    nb: usize,
    microseconds: Microseconds,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Microseconds {
    potrf: f64,
    trsm: f64,
    herk: f64,
    gemm: f64,
}

impl Kernels {
    /// Those of `kernels.json`.
    pub fn measured() -> Outcome<Self> {
        Ok(serde_json::from_str(include_str!("kernels.json"))?)
    }

    /// Those that take what a function says of each class, in microseconds.
    pub fn of(nb: usize, microseconds: impl Fn(&str) -> f64) -> Self {
        Kernels {
            _about: serde_json::Value::Null,
            nb,
            microseconds: Microseconds {
                potrf: microseconds("Potrf"),
                trsm: microseconds("Trsm"),
                herk: microseconds("Herk"),
                gemm: microseconds("Gemm"),
            },
        }
    }
}

/// The tile Cholesky factorisation of `dataflow-linalg` without its arithmetic: its edges, ranks
/// and priorities are asked of the real space, over a matrix that is not there.
pub struct Cholesky {
    matrix: TiledMatrix<f64>,
    blanks: Store<Blank>,
    microseconds: Microseconds,
    lookahead: Option<u32>,
}

impl Cholesky {
    /// `nt` tiles a side, on a square of ranks.
    pub fn new(nt: usize, rank: Rank) -> Outcome<Self> {
        Self::on(N_RANKS, nt, None, &Kernels::measured()?, rank)
    }

    /// The same on any square of ranks, with a lookahead of so many columns or none.
    pub fn on(
        n_ranks: u32,
        nt: usize,
        lookahead: Option<u32>,
        kernels: &Kernels,
        rank: Rank,
    ) -> Outcome<Self> {
        let side = n_ranks.isqrt();
        let distribution = Distribution::BlockCyclic(Grid::new(side, side)?);
        let layout = Layout::lower(nt * kernels.nb, kernels.nb)?.distributed(distribution, rank)?;
        let bytes = kernels.nb * kernels.nb * size_of::<f64>();
        let blanks = (0..layout.n_slots()).map(|_| Blank::Made(bytes));
        Ok(Cholesky {
            blanks: Store::new("blanks", blanks),
            matrix: TiledMatrix::vacant(layout, Arc::new(Heap)),
            microseconds: kernels.microseconds,
            lookahead,
        })
    }

    fn factor(&self) -> Factor<'_, f64> {
        let factor = Factor::new(&self.matrix, Backend::Auto);
        let factor = factor.unwrap_or_else(|_| unreachable!("the layout is a lower one"));
        match self.lookahead {
            Some(columns) => factor.with_lookahead(columns),
            None => factor,
        }
    }
}

/// Passes on what the real space says, with blanks in place of its tiles.
struct Through<'v, V> {
    to: &'v mut V,
    blanks: &'v Store<Blank>,
}

impl<V: Inputs<Cholesky>> Inputs<Factor<'_, f64>> for Through<'_, V> {
    fn task(&mut self, flow: usize, source: Task, source_flow: usize) {
        self.to.task(flow, source, source_flow);
    }
    fn home(&mut self, flow: usize, _: &Store<Tile<f64>>, index: usize) {
        self.to.home(flow, self.blanks, index);
    }
}

impl<V: Successors<Cholesky>> Successors<Factor<'_, f64>> for Through<'_, V> {
    fn task(&mut self, flow: usize, target: Task, target_flow: usize) {
        self.to.task(flow, target, target_flow);
    }
    fn home(&mut self, flow: usize, _: &Store<Tile<f64>>, index: usize) {
        self.to.home(flow, self.blanks, index);
    }
}

impl TaskSpace for Cholesky {
    type Task = Task;
    type Datum = Blank;

    fn describe(&self, about: &mut Description) {
        self.factor().describe(about);
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let tasks: Vec<Task> = self.factor().tasks(on).collect();
        tasks.into_iter()
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        let blanks = &self.blanks;
        self.factor()
            .inputs(task, &mut Through { to: from, blanks });
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        let blanks = &self.blanks;
        self.factor().successors(task, &mut Through { to, blanks });
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Blank>) -> Result<(), TaskError> {
        let kernels = self.microseconds;
        let microseconds = match task {
            Task::Potrf { .. } => {
                // The factor of a diagonal tile travels as its triangle.
                let nb = self.matrix.nb();
                if let Some(tile) = flows.iter().next() {
                    *tile.update() = Blank::Made(nb * (nb + 1) / 2 * size_of::<f64>());
                }
                kernels.potrf
            }
            Task::Trsm { .. } => kernels.trsm,
            Task::Herk { .. } => kernels.herk,
            Task::Gemm { .. } => kernels.gemm,
        };
        spend(Duration::from_secs_f64(microseconds * 1e-6));
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        self.factor().rank(task)
    }

    fn priority(&self, task: Task) -> i64 {
        self.factor().priority(task)
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let roots: Vec<Task> = self.factor().roots(on).collect();
        roots.into_iter()
    }

    fn count(&self, on: Rank) -> u64 {
        self.factor().count(on)
    }
}

// ── Stencil ──────────────────────────────────────────────────────────────────────────────────────

task_names! {
    /// A column at a step.
    pub enum Point { Body { step, column } }
}

/// A stencil of 64 columns: each body takes 100 µs and shows its neighbours a halo of 64 KiB.
pub struct Stencil {
    pub steps: u32,
}

const WIDTH: u32 = 64;
const BODY: Duration = Duration::from_micros(100);
const HALO: usize = 64 << 10;

/// The column's own, which stays on its rank.
const OWN: usize = 0;
const WEST: usize = 1;
const EAST: usize = 2;
/// What both neighbours read.
const SHOWN: usize = 3;

impl TaskSpace for Stencil {
    type Task = Point;
    type Datum = Blank;

    fn describe(&self, about: &mut Description) {
        about.name("stencil").parameter("steps", self.steps);
        about
            .class("Body")
            .order("OWN")
            .optional("WEST")
            .optional("EAST")
            .new_flow("SHOWN");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Point> + Send {
        let points = (0..self.steps)
            .flat_map(|step| (0..WIDTH).map(move |column| Point::Body { step, column }));
        points.filter(move |&point| self.rank(point) == on)
    }

    fn inputs(&self, Point::Body { step, column }: Point, from: &mut impl Inputs<Self>) {
        let Some(step) = step.checked_sub(1) else {
            return;
        };
        let mut at = |flow, column, source_flow| {
            from.task(flow, Point::Body { step, column }, source_flow);
        };
        at(OWN, column, OWN);
        if column > 0 {
            at(WEST, column - 1, SHOWN);
        }
        if column + 1 < WIDTH {
            at(EAST, column + 1, SHOWN);
        }
    }

    fn successors(&self, Point::Body { step, column }: Point, to: &mut impl Successors<Self>) {
        let step = step + 1;
        if step == self.steps {
            return;
        }
        let mut at = |flow, column, target_flow| {
            to.task(flow, Point::Body { step, column }, target_flow);
        };
        at(OWN, column, OWN);
        if column > 0 {
            at(SHOWN, column - 1, EAST);
        }
        if column + 1 < WIDTH {
            at(SHOWN, column + 1, WEST);
        }
    }

    fn run(&self, _: Point, flows: &mut Flows<'_, Blank>) -> Result<(), TaskError> {
        spend(BODY);
        let [.., shown] = flows.slots::<4>();
        shown.put(Blank::Made(HALO));
        Ok(())
    }

    fn rank(&self, Point::Body { column, .. }: Point) -> Rank {
        Rank(column / (WIDTH / N_RANKS))
    }

    /// Earlier steps first.
    fn priority(&self, Point::Body { step, .. }: Point) -> i64 {
        -i64::from(step)
    }
}
