//! The factors of A by one of four methods, and solutions with them, over any number of ranks; or the graph
//! of both alone, for simulations.

use clap::ValueEnum;
use common::cli::Failure;
use common::cli::simulated::Simulator;
use common::problem::in_numbers;
use dataflow::core::port::Heap;
use dataflow::core::rank::Rank;
use dataflow::core::space::Erased;
use dataflow::linalg::determinant::Determinant;
use dataflow::linalg::kernel::{Backend, Op};
use dataflow::linalg::matrix::{Entries, Layout, LayoutError, Tile, TiledMatrix};
use dataflow::linalg::needs::{self, Needs};
use dataflow::linalg::qr::{self, Options, Reflectors};
use dataflow::linalg::refine::{self, Refinement};
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::{LinalgError, cholesky, lu};
use dataflow::{Monitor, Report, Runtime};
use std::cell::OnceCell;
use std::sync::Arc;

/// By which decomposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Of a Hermitian positive definite matrix, of which the lower triangle is read.
    Cholesky,
    /// Of a square matrix.
    Lu,
    /// Of any: least squares for a tall one, the shortest solution for a wide one.
    Qr,
    /// In half the precision, Cholesky of a Hermitian matrix or LU of another square one; the
    /// solution is refined, or the factors are made again in full precision.
    Mixed,
}

impl Method {
    /// How A is cut, of which Cholesky reads the lower triangle.
    pub fn layout(
        self,
        is_hermitian: bool,
        (m, n): (usize, usize),
        nb: usize,
    ) -> Result<Layout, LayoutError> {
        match self {
            Method::Cholesky => Layout::lower(n, nb),
            Method::Mixed if is_hermitian => Layout::lower(n, nb),
            _ => Layout::general(m, n, nb),
        }
    }

    /// What the factors of A and the solution of A·X = B take.
    pub fn needs<T: Scalar>(
        self,
        [a, b]: [&Layout; 2],
        workers: usize,
    ) -> Result<Needs, LinalgError> {
        match self {
            Method::Cholesky | Method::Lu => Ok(needs::solve::<T>([a, b], workers)),
            Method::Qr => needs::least_squares::<T>([a, b], Options::of_order(a.nb()), workers),
            Method::Mixed => Ok(needs::mixed::<T>([a, b], workers)),
        }
    }

    /// Lets a simulator hear of the graph that makes factors and solution, over matrices that are not there.
    pub fn simulated<T: Scalar>(
        self,
        [a, b]: [Layout; 2],
        backend: Backend,
        simulator: &Simulator<'_>,
    ) -> Result<(), Failure> {
        let (m, n) = (a.rows(), a.cols());
        let x = Layout::general(n, b.cols(), b.nb())?;
        let x = x.distributed(*b.distribution(), b.rank())?;
        let [a, b, x] = [a, b, x].map(|layout| TiledMatrix::<T>::vacant(layout, Arc::new(Heap)));
        let hear = |all: Vec<Erased<'_, Tile<T>>>| simulator.hear_series(all);
        let options = Options::of_order(a.nb());
        match self {
            Method::Cholesky => cholesky::Factor::new(&a, backend)?.stages(&b, hear)?,
            Method::Lu => {
                let pivots = lu::Pivots::new(&a);
                let factor = lu::Factor::new(&a, &pivots, backend)?;
                factor.stages(&b, simulator.n_workers(), hear)?
            }
            Method::Qr if m < n => {
                qr::least_squares_stages(&a, (&b, &x), (options, backend), hear)?
            }
            Method::Qr => {
                let q = Reflectors::new(a.layout(), options);
                qr::Factor::new(&a, &q, backend)?.stages((&b, &x), hear)?
            }
            Method::Mixed => Err(Failure::refused(
                "--simulate: --method mixed is as many graphs as corrections, and those depend on the \
                 matrix (take cholesky or lu)",
            )),
        }
    }

    /// What of that is left beside X and B, for the check.
    pub fn left<T: Scalar>(self, a: &Layout, workers: usize) -> Needs {
        let of_a = needs::matrix::<T>(a);
        let held = match self {
            Method::Cholesky | Method::Lu => of_a,
            Method::Qr if a.rows() < a.cols() => of_a,
            Method::Qr => needs::qr::<T>(a, Options::of_order(a.nb()), workers),
            Method::Mixed => of_a.and(needs::matrix::<T::Lower>(a)),
        };
        Needs {
            held: held.held,
            ..Needs::default()
        }
    }

    /// The word of the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or(String::new(), |value| value.get_name().to_owned())
    }
}

/// Whatever a graph needs beside its matrices.
#[derive(Clone, Copy)]
pub struct By<'a> {
    pub runtime: &'a Runtime,
    pub backend: Backend,
    pub monitor: &'a Monitor,
}

/// A, then its factors.
pub enum Factors<T: Scalar> {
    /// L.
    Cholesky(TiledMatrix<T>),
    /// L and U.
    Lu(TiledMatrix<T>, lu::Pivots<T>),
    /// R, with the reflectors that are Q; of a matrix that is not wide.
    Qr(TiledMatrix<T>, Reflectors<T>),
    /// A itself: factors of its adjoint live only while they are solved with.
    Wide(TiledMatrix<T>, Options),
    /// A itself, or in the end its factors; what happened, once there is a solution.
    Mixed(TiledMatrix<T>, OnceCell<(Refinement, refine::Factors<T>)>),
}

impl<T: Scalar> Factors<T> {
    /// A, which is cut as `layout` says, made and looked through.
    pub fn begin(
        method: Method,
        layout: Layout,
        original: &impl Entries<T>,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let a = TiledMatrix::vacant(layout, runtime.memory());
        // Each tile near the worker that makes it.
        a.fill(original, runtime)?;
        a.scan(runtime)?;
        let options = Options::of_order(layout.nb());
        Ok(match method {
            Method::Cholesky => Factors::Cholesky(a),
            Method::Lu => {
                let pivots = lu::Pivots::new(&a);
                Factors::Lu(a, pivots)
            }
            Method::Qr if a.rows() < a.cols() => Factors::Wide(a, options),
            Method::Qr => Factors::Qr(a, Reflectors::new(&layout, options)),
            Method::Mixed => Factors::Mixed(a, OnceCell::new()),
        })
    }

    /// Overwrites A by its factors, if they do not come with the solution, and solves A·X = B; as one
    /// graph.
    pub fn factor_and_solve(
        &self,
        b: TiledMatrix<T>,
        by: By<'_>,
    ) -> Result<(TiledMatrix<T>, Report), LinalgError> {
        let on = &by.runtime.watched_by(by.monitor);
        match self {
            Factors::Cholesky(a) => {
                let report = cholesky::Factor::new(a, by.backend)?.and_solve(&b, on)?;
                Ok((b, report))
            }
            Factors::Lu(a, pivots) => {
                let report = lu::Factor::new(a, pivots, by.backend)?.and_solve(&b, on)?;
                Ok((b, report))
            }
            Factors::Qr(a, q) => {
                let (x, fill) = zeros((a.cols(), b.cols()), &b, by)?;
                let report = qr::Factor::new(a, q, by.backend)?.and_solve(&b, &x, on)?;
                Ok((x, fill.followed_by(report)))
            }
            Factors::Wide(..) | Factors::Mixed(..) => self.solve(Op::NoTranspose, b, by),
        }
    }

    /// The solution of A·X = B, or Aᴴ·X = B for a square matrix, with the factors. In mixed precision the
    /// first one is of A·X = B.
    pub fn solve(
        &self,
        op: Op,
        b: TiledMatrix<T>,
        by: By<'_>,
    ) -> Result<(TiledMatrix<T>, Report), LinalgError> {
        let on = &by.runtime.watched_by(by.monitor);
        match self {
            Factors::Cholesky(l) => {
                let report = cholesky::solve(l, &b, by.backend, on)?;
                Ok((b, report))
            }
            Factors::Lu(lu, pivots) => {
                let solve = lu::Solve::new(lu, pivots, op, &b, by.backend)?;
                let report = solve.run(on)?;
                Ok((b, report))
            }
            Factors::Qr(r, q) => {
                let (x, fill) = zeros((r.cols(), b.cols()), &b, by)?;
                let report = qr::solve((r, q), op, (&b, &x), by.backend, on)?;
                Ok((x, fill.followed_by(report)))
            }
            Factors::Wide(a, options) => qr::least_squares(a, &b, *options, by.backend, on),
            Factors::Mixed(a, found) => {
                if let Some((_, factors)) = found.get() {
                    let report = factors.solve(a, op, &b, by.backend, on)?;
                    return Ok((b, report));
                }
                let solved = refine::solve(a, &b, by.backend, on)?;
                // Nothing was found before.
                let _ = found.set((solved.outcome, solved.factors));
                Ok((solved.x, solved.report))
            }
        }
    }

    /// What became of half the precision.
    pub fn outcome(&self) -> Option<&Refinement> {
        match self {
            Factors::Mixed(_, found) => found.get().map(|(outcome, _)| outcome),
            _ => None,
        }
    }

    /// det A of a square matrix; of QR without its phase, which is hidden in Q. None from factors in
    /// half the precision.
    pub fn determinant(&self, runtime: &Runtime) -> Result<Option<Determinant>, Failure> {
        use refine::Factors::Full;
        let (a, pivots, is_square_root) = match self {
            Factors::Cholesky(a) => (a, None, true),
            Factors::Lu(a, pivots) => (a, Some(pivots), false),
            Factors::Qr(a, _) | Factors::Wide(a, _) => (a, None, false),
            Factors::Mixed(a, found) => match found.get() {
                Some((_, Full(pivots))) => (a, pivots.as_ref(), pivots.is_none()),
                _ => return Ok(None),
            },
        };
        let diagonal = gathered(
            a.layout(),
            |k| (k, k),
            runtime,
            |k| {
                let tile = a.tile(k, k)?;
                Some((0..tile.rows()).map(|d| tile.get(d, d)).collect())
            },
        );
        let triangle = Determinant::of_triangle::<T>(diagonal?);
        Ok(Some(match pivots {
            Some(pivots) => {
                let swaps = pivots.rows().filter(|(row, pivot)| row != pivot);
                let own = swaps.count() as u64;
                let all = runtime.gather(own.to_le_bytes().to_vec())?;
                triangle.swapped(in_numbers(&all).sum::<u64>() as usize)
            }
            None if is_square_root => triangle.of_square(),
            None => triangle,
        }))
    }
}

/// Zeros, cut and spread like a matrix.
fn zeros<T: Scalar>(
    (rows, cols): (usize, usize),
    like: &TiledMatrix<T>,
    by: By<'_>,
) -> Result<(TiledMatrix<T>, Report), LinalgError> {
    let layout = Layout::general(rows, cols, like.nb())?;
    let layout = layout.distributed(*like.distribution(), like.rank())?;
    let x = TiledMatrix::vacant(layout, like.memory().clone());
    let on = &by.runtime.watched_by(by.monitor);
    let fill = x.fill(&|_: usize, _: usize| T::zero(), on);
    Ok((x, fill.map_err(LinalgError::Run)?))
}

/// A vector of as many entries as a matrix has rows, on every rank; the owner of the tile that
/// belongs to a row of tiles gives their piece.
pub fn gathered<T: Scalar>(
    layout: &Layout,
    tile: impl Fn(usize) -> (usize, usize),
    runtime: &Runtime,
    piece: impl Fn(usize) -> Option<Vec<T>>,
) -> Result<Vec<T>, Failure> {
    let own: Vec<T> = (0..layout.mt()).filter_map(piece).flatten().collect();
    let all = runtime.gather(bytemuck::cast_slice(&own).to_vec())?;
    let mut left: Vec<&[u8]> = all.iter().map(|of_rank| &of_rank[..]).collect();
    let mut whole = vec![T::zero(); layout.rows()];
    for k in 0..layout.mt() {
        let (i, j) = tile(k);
        let Rank(owner) = layout.rank_of(i, j);
        let to = bytemuck::cast_slice_mut::<T, u8>(&mut whole[layout.row_range(k)]);
        let from = &mut left[owner as usize];
        let (first, rest) = from.split_at(to.len());
        to.copy_from_slice(first);
        *from = rest;
    }
    Ok(whole)
}
