//! Work: the routines whose kernels are measured and whose runs are compared.

use super::stage::Stage;
use clap::ValueEnum;
use common::cli::Failure;
use common::cli::simulated::Simulator;
use dataflow::core::port::Memory;
use dataflow::core::rank::Rank;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::{Distribution, Grid, Layout, LayoutError, TiledMatrix};
use dataflow::linalg::needs;
use dataflow::linalg::product::{Gemm, Operand};
use dataflow::linalg::qr::{Options, Reflectors};
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::weight::Weight;
use dataflow::linalg::{LinalgError, cholesky, lu, qr};
use dataflow::{Report, Runtime};
use std::num::NonZeroU32;
use std::sync::Arc;

/// What is done with matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Routine {
    Cholesky,
    /// Without row swaps.
    Lu,
    /// With them: partial pivoting.
    LuSwaps,
    /// The same by whole columns, on one rank.
    LuColumns,
    /// With rows that play for the top, from four groups of tiles on.
    LuTournament,
    /// Incremental pivoting.
    LuIncremental,
    /// Along a flat tree.
    Qr,
    Matmul,
}

/// Bytes of a task's name, with its operations and edges.
const OF_A_NAME: u128 = size_of::<(String, (f64, usize))>() as u128;

/// From how many groups a tournament begins.
const GROUPS: NonZeroU32 = NonZeroU32::new(4).unwrap();

impl Routine {
    /// As its example is called, or the way in which it runs.
    pub fn name(self) -> &'static str {
        match self {
            Routine::Cholesky => "cholesky",
            Routine::Lu => "lu",
            Routine::LuSwaps => "lu_swaps",
            Routine::LuColumns => "lu_columns",
            Routine::LuTournament => "lu_tournament",
            Routine::LuIncremental => "lu_incremental",
            Routine::Qr => "qr",
            Routine::Matmul => "matmul",
        }
    }

    /// Whether so many ranks can run it.
    pub fn suits(self, n_ranks: usize) -> bool {
        self != Routine::LuColumns || n_ranks == 1
    }

    /// Whether it is compared, in the form that a run of the library takes there.
    pub fn is_as_run<T: Scalar>(self, n: usize, on: Stage) -> bool {
        let by_columns = || {
            let layout = Layout::general(n, n, self.default_order::<T>(n));
            let suits = |layout| lu::suits_columns::<T>(&layout, on.threads);
            on.n_ranks == 1 && layout.is_ok_and(suits)
        };
        match self {
            Routine::LuSwaps => !by_columns(),
            Routine::LuColumns => by_columns(),
            Routine::Matmul | Routine::LuTournament | Routine::LuIncremental => false,
            Routine::Cholesky | Routine::Lu | Routine::Qr => true,
        }
    }

    /// Bytes of its matrices, and of its graph at least a name for each task.
    ///
    /// # Errors
    /// If there is no such layout.
    pub fn bytes<T: Scalar>(self, n: usize, nb: usize) -> Result<u128, Failure> {
        let n_matrices = match self {
            Routine::Matmul => 3,
            _ => 1,
        };
        let layout = self.layout(n, nb)?;
        let matrix = needs::matrix::<T>(&layout).held;
        let n_tasks = (layout.nt() as u128).saturating_pow(3) / 6;
        let names = n_tasks.saturating_mul(OF_A_NAME);
        Ok(matrix.saturating_mul(n_matrices).saturating_add(names))
    }

    fn layout(self, n: usize, nb: usize) -> Result<Layout, LayoutError> {
        match self {
            Routine::Cholesky => Layout::lower(n, nb),
            _ => Layout::general(n, n, nb),
        }
    }

    /// The tile order that its example takes.
    pub fn default_order<T: Scalar>(self, n: usize) -> usize {
        match self {
            Routine::Cholesky => cholesky::default_tile_order::<T>(n),
            Routine::Qr => qr::default_tile_order::<T>(n, n),
            Routine::Matmul => dataflow::linalg::product::default_tile_order::<T>(n),
            _ => lu::default_tile_order::<T>(n, n),
        }
    }
}

/// A routine with its matrices, on one rank.
pub struct Instance<T: Scalar> {
    backend: Backend,
    a: TiledMatrix<T>,
    beside: Beside<T>,
}

/// What a routine has beside a matrix.
enum Beside<T: Scalar> {
    Nothing,
    Pivots(lu::Pivots<T>),
    Swaps(lu::Pivots<T>),
    Columns(lu::Pivots<T>),
    Tournament(lu::Pivots<T>),
    Exchanges(lu::Exchanges<T>),
    Reflectors(Box<Reflectors<T>>),
    /// The other factor, and the product.
    Matrices(TiledMatrix<T>, TiledMatrix<T>),
}

/// Orders of the matrix and of its tiles, and rows and columns of the grid of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub n: usize,
    pub nb: usize,
    pub grid: (u32, u32),
}

/// Hears of a graph of a type of its own.
pub trait Hear {
    /// Called once.
    ///
    /// # Errors
    /// As what it does.
    fn hear<S: Weight>(&mut self, space: &S) -> Result<(), Failure>;
}

impl Hear for &Simulator<'_> {
    fn hear<S: Weight>(&mut self, space: &S) -> Result<(), Failure> {
        Simulator::hear(self, space)
    }
}

impl<T: Scalar> Instance<T> {
    /// With matrices that have no tiles yet.
    ///
    /// # Errors
    /// If there is no such layout.
    pub fn new(
        routine: Routine,
        shape: Shape,
        rank: Rank,
        memory: Arc<dyn Memory>,
        backend: Backend,
    ) -> Result<Self, Failure> {
        let Shape { n, nb, grid } = shape;
        let grid = Grid::new(grid.0, grid.1)?;
        let layout = routine
            .layout(n, nb)?
            .distributed(Distribution::BlockCyclic(grid), rank)?;
        let matrix = || TiledMatrix::vacant(layout, memory.clone());
        let a = matrix();
        let beside = match routine {
            Routine::Cholesky => Beside::Nothing,
            Routine::Lu => Beside::Pivots(lu::Pivots::new(&a)),
            Routine::LuSwaps => Beside::Swaps(lu::Pivots::new(&a)),
            Routine::LuColumns => Beside::Columns(lu::Pivots::new(&a)),
            Routine::LuTournament => Beside::Tournament(lu::Pivots::new(&a)),
            Routine::LuIncremental => Beside::Exchanges(lu::Exchanges::new(&a)),
            Routine::Qr => {
                Beside::Reflectors(Box::new(Reflectors::new(&layout, Options::of_order(nb))))
            }
            Routine::Matmul => Beside::Matrices(matrix(), matrix()),
        };
        Ok(Instance { backend, a, beside })
    }

    /// Fills the matrices anew; where rows are swapped, with one in which every row is as likely as any
    /// other to be a pivot's.
    ///
    /// # Errors
    /// What running answers.
    pub fn fill(&self, runtime: &Runtime) -> Result<(), Failure> {
        use Beside::{Columns, Exchanges, Swaps, Tournament};
        if let Swaps(_) | Columns(_) | Tournament(_) | Exchanges(_) = &self.beside {
            self.a.fill(&Random::new(1), runtime)?;
            return Ok(());
        }
        let entries = PositiveDefinite::new(self.a.rows(), 1);
        self.a.fill(&entries, runtime)?;
        if let Beside::Matrices(b, c) = &self.beside {
            b.fill(&entries, runtime)?;
            c.fill(&|_: usize, _: usize| T::zero(), runtime)?;
        }
        Ok(())
    }

    /// Runs this rank's part.
    ///
    /// # Errors
    /// What running answers.
    pub fn run(&self, runtime: &Runtime) -> Result<Report, Failure> {
        let (a, backend) = (&self.a, self.backend);
        let ran: Result<Report, LinalgError> = match &self.beside {
            Beside::Nothing => cholesky::Factor::new(a, backend)?.run(runtime),
            Beside::Pivots(pivots) => lu::Unpivoted::new(a, pivots, backend)?.run(runtime),
            Beside::Swaps(pivots) => {
                let factor = lu::Factor::new(a, pivots, backend)?;
                factor.by_tiles().run(runtime)
            }
            Beside::Columns(pivots) => lu::Columns::new(a, pivots, backend)?.run(runtime),
            Beside::Tournament(pivots) => {
                let factor = lu::Factor::new(a, pivots, backend)?;
                factor.by_tournament(GROUPS).run(runtime)
            }
            Beside::Exchanges(exchanges) => {
                lu::Incremental::new(a, exchanges, backend)?.run(runtime)
            }
            Beside::Reflectors(q) => qr::Factor::new(a, q, backend)?.run(runtime),
            Beside::Matrices(b, c) => self.product(b, c)?.run(runtime),
        };
        Ok(ran?)
    }

    /// Lets somebody hear of the graph.
    ///
    /// # Errors
    /// As what hears.
    pub fn show(&self, mut to: impl Hear) -> Result<(), Failure> {
        let (a, backend) = (&self.a, self.backend);
        match &self.beside {
            Beside::Nothing => to.hear(&cholesky::Factor::new(a, backend)?),
            Beside::Pivots(pivots) => to.hear(&lu::Unpivoted::new(a, pivots, backend)?),
            Beside::Swaps(pivots) => to.hear(&lu::Factor::new(a, pivots, backend)?),
            Beside::Columns(pivots) => to.hear(&lu::Columns::new(a, pivots, backend)?),
            Beside::Tournament(pivots) => {
                let factor = lu::Factor::new(a, pivots, backend)?;
                to.hear(&factor.by_tournament(GROUPS))
            }
            Beside::Exchanges(exchanges) => to.hear(&lu::Incremental::new(a, exchanges, backend)?),
            Beside::Reflectors(q) => to.hear(&qr::Factor::new(a, q, backend)?),
            Beside::Matrices(b, c) => to.hear(&self.product(b, c)?),
        }
    }

    fn product<'m>(
        &'m self,
        b: &'m TiledMatrix<T>,
        c: &'m TiledMatrix<T>,
    ) -> Result<Gemm<'m, T>, LinalgError> {
        let (a, b) = (Operand::plain(&self.a), Operand::plain(b));
        Gemm::new(T::one(), a, b, T::zero(), c, self.backend)
    }
}
