//! Rates of the kernels on one core, by backend, tile order and sub-tile order.
//!
//! Every figure is a percentage of the rate of one large `gemm` of the same run (OpenBLAS's with the
//! feature `openblas`, faer's without). Tiles come from main memory: a kernel walks over a set of
//! them larger than any cache of a core. Runs are interleaved; a figure is the median of
//! all calls, the peak the best of the rounds.
//!
//! ```text
//! cargo bench -p dataflow-linalg --bench kernels [--features openblas] -- \
//!     [f32|f64|c32|c64]… [nb=288,384] [s=48,96] [rounds=9]
//! ```
//!
//! `s=0` stands for column-major tiles.
//!
//! # Law
//! [`Scalar::SUB_TILE_ORDER`] and the table of backends are chosen from what this prints, by hand.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use dataflow_core::port::{Heap, Memory};
use dataflow_linalg::flops;
use dataflow_linalg::kernel::{Backend, gemm, herk, potrf, trsm};
use dataflow_linalg::matrix::tile::{Format, Tile};
use dataflow_linalg::scalar::{Precision, Scalar, c32, c64};

/// What to measure, from the command line.
struct Plan {
    precisions: Vec<Precision>,
    tile_orders: Vec<usize>,
    sub_orders: Vec<usize>,
    rounds: usize,
}

fn main() -> ExitCode {
    let plan = match Plan::from_arguments(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(fault) => {
            eprintln!("error: {fault}");
            return ExitCode::from(2);
        }
    };
    for warning in BACKENDS.iter().filter_map(|backend| backend.warning()) {
        println!("warning: {warning}");
    }
    for &precision in &plan.precisions {
        match precision {
            Precision::F32 => sweep::<f32>(&plan),
            Precision::F64 => sweep::<f64>(&plan),
            Precision::C32 => sweep::<c32>(&plan),
            Precision::C64 => sweep::<c64>(&plan),
        }
    }
    ExitCode::SUCCESS
}

impl Plan {
    fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut plan = Self {
            precisions: vec![],
            tile_orders: vec![192, 288, 384],
            sub_orders: vec![48, 64, 96, 128, 192, 0],
            rounds: 9,
        };
        // Cargo passes `--bench`.
        for argument in arguments.filter(|argument| argument != "--bench") {
            match argument.split_once('=') {
                Some(("nb", list)) => plan.tile_orders = numbers("nb", list, 1)?,
                Some(("s", list)) => plan.sub_orders = numbers("s", list, 0)?,
                Some(("rounds", n)) => plan.rounds = number("rounds", n, 1)?,
                Some(_) => return Err(format!("`{argument}` is none of nb=, s= and rounds=")),
                None => plan.precisions.push(precision(&argument)?),
            }
        }
        if plan.precisions.is_empty() {
            plan.precisions = Precision::ALL.to_vec();
        }
        Ok(plan)
    }
}

fn precision(word: &str) -> Result<Precision, String> {
    let precision = word.parse();
    precision.map_err(|_| format!("`{word}` is none of f32, f64, c32 and c64"))
}

fn numbers(name: &str, list: &str, least: usize) -> Result<Vec<usize>, String> {
    list.split(',').map(|n| number(name, n, least)).collect()
}

fn number(name: &str, text: &str, least: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number >= least);
    number.ok_or(format!(
        "{name}: `{text}` must be a number, {least} or more"
    ))
}

/// One line of the table: what is timed, and the rate of each call.
struct Line<T: Scalar> {
    backend: Backend,
    nb: usize,
    sub: usize,
    tiles: Tiles<T>,
    rates: [Vec<f64>; 4],
}

/// The tiles that a line's kernels walk over.
struct Tiles<T: Scalar> {
    panel: Vec<Tile<T>>,
    targets: Vec<Tile<T>>,
    diagonal: Tile<T>,
    factor: Tile<T>,
}

fn sweep<T: Scalar>(plan: &Plan) {
    let mut lines = lines::<T>(plan);
    let mut peaks = vec![];
    for _ in 0..plan.rounds {
        peaks.push(peak::<T>());
        for line in &mut lines {
            line.tiles.run(line.backend, &mut line.rates);
        }
    }
    let (typical, _) = median(&mut peaks);
    let peak = peaks[peaks.len() - 1];
    println!(
        "{}: peak {peak:.1} GFLOP/s, median {typical:.1}",
        T::PRECISION
    );
    println!("backend     nb   s   gemm   trsm   herk  potrf   % of the peak (± spread)");
    for line in &mut lines {
        print!("{:8} {:5} {:3}", line.backend, line.nb, line.sub);
        for rates in &mut line.rates {
            let (rate, spread) = median(rates);
            print!(
                "  {:3.0}±{:<2.0}",
                100.0 * rate / peak,
                100.0 * spread / peak
            );
        }
        println!();
    }
}

/// Those of this build.
const BACKENDS: &[Backend] = &[
    Backend::Faer,
    #[cfg(feature = "openblas")]
    Backend::OpenBlas,
];

fn lines<T: Scalar>(plan: &Plan) -> Vec<Line<T>> {
    let mut lines = vec![];
    for &nb in &plan.tile_orders {
        for &backend in BACKENDS {
            for &sub in plan.sub_orders.iter().filter(|&&sub| sub <= nb) {
                let format = match sub {
                    0 => Format::ColumnMajor,
                    order => Format::SubTiled { order },
                };
                let tiles = Tiles::new(nb, format);
                lines.push(Line {
                    backend,
                    nb,
                    sub,
                    tiles,
                    rates: Default::default(),
                });
            }
        }
    }
    lines
}

impl<T: Scalar> Tiles<T> {
    fn new(nb: usize, format: Format) -> Self {
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        let tile = |shift: usize| {
            Tile::from_fn(nb, nb, format, &memory, |i, j| {
                let x = ((7 * i + 13 * j + shift) % 17) as f64 / 17.0 - 0.5;
                T::from_real(x / nb as f64)
            })
        };
        let diagonal = Tile::from_fn(nb, nb, format, &memory, |i, j| {
            T::from_real(if i == j { 2.0 } else { 0.5 / nb as f64 })
        });
        let mut factor = diagonal.clone();
        potrf(Backend::Faer, &mut factor).expect("a dominant diagonal is positive definite");
        // Eight megabytes of tiles on each side.
        let count = (8 << 20) / (nb * nb * size_of::<T>()) + 1;
        Self {
            panel: (0..count).map(tile).collect(),
            targets: (0..count).map(|n| tile(n + 5)).collect(),
            diagonal,
            factor,
        }
    }

    /// Times every call of gemm, trsm, herk and potrf: appends their rates, in GFLOP/s.
    fn run(&mut self, backend: Backend, rates: &mut [Vec<f64>; 4]) {
        let Self {
            panel,
            targets,
            diagonal,
            factor,
        } = self;
        let nb = diagonal.rows();
        let (cube, b) = (flops::gemm::<T>(nb, nb, nb), &panel[0]);
        for (a, c) in panel.iter().zip(&mut *targets) {
            rates[0].push(rate(cube, || gemm(backend, a, b, c)));
        }
        for b in &mut *targets {
            rates[1].push(rate(cube / 2, || trsm(backend, factor, b)));
        }
        for (a, c) in panel.iter().zip(&mut *targets) {
            rates[2].push(rate(cube / 2, || herk(backend, a, c)));
        }
        for _ in 0..targets.len() {
            let mut copy = diagonal.clone();
            let result = &mut Ok(());
            rates[3].push(rate(flops::potrf::<T>(nb), || {
                *result = potrf(backend, &mut copy)
            }));
            result.expect("a dominant diagonal is positive definite");
        }
    }
}

/// GFLOP/s of one call.
fn rate(flops: u64, call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    flops as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// GFLOP/s of one large product, on one thread.
fn peak<T: Scalar>() -> f64 {
    let n = if T::IS_COMPLEX { 1500 } else { 3000 };
    let [a, b, mut c] = [1.0, 2.0, 3.0].map(|x| vec![T::from_real(x / n as f64); n * n]);
    let rate = rate(flops::gemm::<T>(n, n, n), || large_gemm(n, &a, &b, &mut c));
    black_box(&c);
    rate
}

/// C ← C − A·B in one call.
#[cfg(feature = "openblas")]
fn large_gemm<T: Scalar>(n: usize, a: &[T], b: &[T], c: &mut [T]) {
    dataflow_linalg::kernel::openblas::gemm(n, n, n, a, b, c);
}

/// C ← C − A·B in one call.
#[cfg(not(feature = "openblas"))]
fn large_gemm<T: Scalar>(n: usize, a: &[T], b: &[T], c: &mut [T]) {
    use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
    let [a, b] = [a, b].map(|x| MatRef::from_column_major_slice(x, n, n));
    let c = MatMut::from_column_major_slice_mut(c, n, n);
    matmul(c, Accum::Add, a, b, -T::one(), Par::Seq);
}

/// The median, and half the distance between the quartiles.
fn median(rates: &mut [f64]) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    let n = rates.len();
    (rates[n / 2], (rates[3 * n / 4] - rates[n / 4]) / 2.0)
}
