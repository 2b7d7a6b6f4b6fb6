//! Cholesky: GFLOP/s of the factorisation beside faer's, OpenBLAS's and a parallel tile loop.
//!
//! ```console
//! $ cargo bench --bench cholesky --features openblas
//! $ cargo bench --bench cholesky -- --n 1000,2000 --rounds 21
//! $ cargo bench --bench cholesky -- --n 2000 --sweep --nb 192,288 --format column-major,sub-tiled
//! ```
//!
//! All contestants run once a round, in turn, each round beginning with another one; printed are
//! medians, half the distance of the quartiles, and shares of the peak: the faster of two large
//! products on all threads, which ran in the same rounds. `--sweep` races tile orders, formats and
//! backends of ours instead of peers; the defaults are chosen from what it prints, by hand.
//!
//! # Law
//! Everybody factors the same matrix, which lies in the layout that they work in, on huge pages,
//! when the clock starts; ours works in tiles, and what it costs to get there and back, in tasks,
//! stands in columns of its own. Each factor of the first round, which does not count, is
//! compared with the matrix.
//! The peers' own buffers come from the C library: so the bench starts itself again with
//! `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`, unless that variable is set.
//!
//! # Elsewhere
//! Rates of single kernels: `dataflow-linalg/benches/kernels.rs`. Numbers: `benches/README.md`.

#[path = "overhead/statistics.rs"]
mod statistics;

use clap::{Parser, ValueEnum};
use dataflow::Runtime;
use dataflow::core::TaskError;
use dataflow::core::monitor::Monitor;
use dataflow::core::port::Memory;
use dataflow::core::space::Independent;
use dataflow::linalg::cholesky::{Factor, default_tile_order};
use dataflow::linalg::flops;
use dataflow::linalg::kernel::{Backend, NotPositive, gemm, herk, potrf, trsm};
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{ColumnMajor, Entries, Format, Layout, Tile, TiledMatrix};
use dataflow::linalg::scalar::Scalar;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::Scope;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use statistics::{machine, quartiles};
use std::cell::RefCell;
use std::fmt;
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// GFLOP/s of tile Cholesky in f64, beside its peers.
#[derive(Parser)]
struct Settings {
    /// Orders of the matrix
    #[arg(long, value_delimiter = ',')]
    n: Vec<usize>,
    /// Tile orders of ours [default: the library's]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    nb: Vec<u32>,
    /// Formats of our tiles
    #[arg(long, value_delimiter = ',', default_value = "column-major")]
    format: Vec<TileFormat>,
    /// Orders of sub-tiles [default: the library's]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    sub: Vec<u32>,
    /// Rounds that count
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Threads of every contestant [default: all allowed cores]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Ours against ours: no peers
    #[arg(long)]
    sweep: bool,
    /// Two small matrices, three rounds
    #[arg(long)]
    quick: bool,
    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TileFormat {
    SubTiled,
    ColumnMajor,
}

fn main() -> ExitCode {
    match with_huge_pages().and_then(|()| measure_all(&Settings::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts this program anew with huge pages for `malloc`, unless its environment says something.
#[cfg(target_os = "linux")]
fn with_huge_pages() -> Outcome {
    use std::os::unix::process::CommandExt;
    const TUNABLES: &str = "GLIBC_TUNABLES";
    if std::env::var_os(TUNABLES).is_some() {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1));
    // Returns only if it failed.
    Err(again.env(TUNABLES, "glibc.malloc.hugetlb=1").exec().into())
}

/// Huge pages for `malloc` are a matter of glibc.
#[cfg(not(target_os = "linux"))]
fn with_huge_pages() -> Outcome {
    Ok(())
}

fn measure_all(settings: &Settings) -> Outcome {
    // Without `--bench` cargo only wants to see that it runs.
    let quick = settings.quick || !settings.bench;
    let orders = match (&settings.n[..], quick) {
        ([], true) => &[300, 700],
        ([], false) => &[500, 1000, 2000, 4000, 8000][..],
        (orders, _) => orders,
    };
    let mut runtime = Runtime::builder();
    if let Some(threads) = settings.threads {
        runtime = runtime.threads(threads as usize);
    }
    let bench = Bench::new(runtime.build()?)?;
    println!("{}, {} threads, f64", machine(), bench.n_threads());
    for &n in orders {
        let rounds = settings.rounds.unwrap_or(match n {
            _ if quick => 3,
            0..=1000 => 21,
            1001..=4000 => 9,
            _ => 5,
        });
        bench.race(n, rounds, quick, settings)?;
    }
    Ok(())
}

/// A square matrix in one piece, column-major, on huge pages.
type Dense = Tile<f64>;

/// What all contestants of a run share.
struct Bench {
    runtime: Runtime,
    pool: rayon::ThreadPool,
    memory: Arc<dyn Memory>,
}

impl Bench {
    fn new(runtime: Runtime) -> Outcome<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(runtime.n_threads())
            .build()?;
        let memory = runtime.memory();
        Ok(Bench {
            runtime,
            pool,
            memory,
        })
    }

    fn n_threads(&self) -> usize {
        self.runtime.n_threads()
    }

    /// Room for a matrix of order `n` in one piece.
    fn dense(&self, n: usize) -> Dense {
        Dense::new(n, n, Format::ColumnMajor, &self.memory)
    }

    /// Runs `work` on each piece of the columns of a matrix, in tasks; `work` learns their number.
    fn on_strips(
        &self,
        matrix: &mut Dense,
        width: usize,
        work: impl Fn(usize, &mut [f64]) -> Result<(), TaskError> + Sync,
    ) -> Outcome {
        let n = matrix.rows();
        let strips: Vec<_> = matrix
            .as_mut_slice()
            .chunks_mut((n * width).max(1))
            .map(Mutex::new)
            .collect();
        let each = Independent::new("strip", strips.len() as u64, |strip| {
            let strip = strip as usize;
            work(strip, &mut locked(&strips[strip]))
        });
        self.runtime.run(&each)?;
        Ok(())
    }

    fn race(&self, n: usize, rounds: u32, quick: bool, settings: &Settings) -> Outcome {
        let mut matrix = self.dense(n);
        let random = Random::new(1);
        self.on_strips(&mut matrix, 1, |j, column| {
            random.column(j..n, j, &mut column[j..]);
            column[j] += n as f64;
            Ok(())
        })?;
        let dense = Rc::new(RefCell::new(self.dense(n)));
        let mut race = Race {
            matrix: &matrix,
            contestants: self.ours(n, &dense, settings)?,
        };
        race.enter(PEAK, Peak::new(self, if quick { 1000 } else { 3000 })?);
        if !settings.sweep {
            race.enter("faer", Faer::new(self, &dense));
            #[cfg(feature = "openblas")]
            race.enter("OpenBLAS dpotrf", OpenBlas::new(self, &dense));
            for style in [Style::Barriers, Style::Dependences] {
                let (nb, peer) = self.best_loop(&matrix, style)?;
                race.enter(&format!("{style}, nb {nb}"), peer);
            }
        }
        race.run(rounds)
    }

    /// Every combination of backend, tile order and format that was asked for.
    fn ours(&self, n: usize, dense: &Shared, settings: &Settings) -> Outcome<Vec<Entry<'_>>> {
        let orders: Vec<usize> = match &settings.nb[..] {
            [] => vec![default_tile_order::<f64>(n)],
            orders => orders.iter().map(|&nb| nb as usize).collect(),
        };
        let subs: Vec<usize> = match &settings.sub[..] {
            [] => vec![f64::SUB_TILE_ORDER],
            subs => subs.iter().map(|&sub| sub as usize).collect(),
        };
        let formats = settings.format.iter().flat_map(|format| match format {
            TileFormat::ColumnMajor => vec![Format::ColumnMajor],
            TileFormat::SubTiled => subs
                .iter()
                .map(|&order| Format::SubTiled { order })
                .collect(),
        });
        let formats: Vec<Format> = formats.collect();
        let mut entries = Vec::new();
        for &backend in BACKENDS {
            for (&nb, &format) in orders
                .iter()
                .flat_map(|nb| formats.iter().map(move |f| (nb, f)))
            {
                let lie = match format {
                    Format::ColumnMajor => "column-major".to_string(),
                    Format::SubTiled { order } => format!("sub-tiles of {order}"),
                };
                let name = format!("dataflow, {backend}, nb {nb}, {lie}");
                let layout = Layout::lower(n, nb)?.with_format(format);
                entries.push(Entry::new(name, Ours::new(self, layout, backend, dense)));
            }
        }
        Ok(entries)
    }

    /// The tile loop with the tile order that is fastest in a few rounds of their own.
    fn best_loop(&self, matrix: &Dense, style: Style) -> Outcome<(usize, TileLoop<'_>)> {
        let n = matrix.rows();
        let mut loops: Vec<_> = [64, 96, 128, 192, 256, 384]
            .into_iter()
            .filter(|nb| (2 * nb..60 * nb).contains(&n))
            .map(|nb| (Vec::new(), nb, TileLoop::new(self, n, nb, style)))
            .collect();
        for _ in 0..4 {
            for (seconds, _, peer) in &mut loops {
                seconds.push(peer.run(matrix)?.factor);
            }
        }
        // The first run, which touched the memory, is the slowest and does not matter.
        let best = loops
            .into_iter()
            .min_by(|a, b| quartiles(&a.0).0.total_cmp(&quartiles(&b.0).0));
        let (_, nb, peer) = best.ok_or("the matrix is too small for a tile loop")?;
        Ok((nb, peer))
    }
}

/// The backends of this build.
const BACKENDS: &[Backend] = &[
    Backend::Faer,
    #[cfg(feature = "openblas")]
    Backend::OpenBlas,
];

// ── The race ─────────────────────────────────────────────────────────────────────────────────────

/// Takes a turn in each round.
trait Contestant {
    /// Puts the matrix where it belongs and factors it, on the clock.
    fn run(&mut self, matrix: &Dense) -> Outcome<Times>;

    /// Column `j` of the factor of the last run, from the diagonal down; `false` if there is none.
    fn column(&self, j: usize, into: &mut [f64]) -> bool;
}

/// Seconds of one run.
#[derive(Default)]
struct Times {
    factor: f64,
    /// Of ours: to tiles, looking for what is not finite, back to column-major.
    beside: Option<[f64; 3]>,
}

struct Entry<'b> {
    name: String,
    contestant: Box<dyn Contestant + 'b>,
    times: Vec<Times>,
}

impl<'b> Entry<'b> {
    fn new(name: String, contestant: impl Contestant + 'b) -> Self {
        Entry {
            name,
            contestant: Box::new(contestant),
            times: Vec::new(),
        }
    }

    fn seconds(&self) -> Vec<f64> {
        self.times.iter().map(|times| times.factor).collect()
    }
}

struct Race<'b> {
    matrix: &'b Dense,
    contestants: Vec<Entry<'b>>,
}

const PEAK: &str = "peak";

/// How long everybody waits before a turn: the threads of the one before spin a while after it.
const SETTLE: Duration = Duration::from_millis(60);

impl<'b> Race<'b> {
    fn enter(&mut self, name: &str, contestant: impl Contestant + 'b) {
        self.contestants.push(Entry::new(name.into(), contestant));
    }

    fn run(mut self, rounds: u32) -> Outcome {
        for entry in &mut self.contestants {
            entry.contestant.run(self.matrix)?;
            check(self.matrix, entry)?;
        }
        let n = self.contestants.len();
        for round in 0..rounds as usize {
            // Each round begins with another one: what follows whom changes nothing for long.
            for place in 0..n {
                let entry = &mut self.contestants[(place + round) % n];
                thread::sleep(SETTLE);
                entry.times.push(entry.contestant.run(self.matrix)?);
            }
        }
        self.print(rounds);
        Ok(())
    }

    fn print(&self, rounds: u32) {
        let is_peak = |entry: &&Entry| entry.name == PEAK;
        let peaks = self.contestants.iter().find(is_peak).map(Entry::seconds);
        let peak = 1e-9 / quartiles(&peaks.unwrap_or_default()).0;
        println!(
            "\nn = {}, median of {rounds} rounds ± half the quartile distance, peak {peak:.1} GFLOP/s",
            self.matrix.rows()
        );
        println!(
            "{:44} GFLOP/s     ±  % peak  time ÷ best of ours   best ms  to tiles   scan   back, ms",
            ""
        );
        let of_ours = self.contestants.iter().filter(|entry| entry.is_ours());
        let ours = of_ours.min_by(|a, b| {
            let [a, b] = [a, b].map(|entry| quartiles(&entry.seconds()).0);
            a.total_cmp(&b)
        });
        let ours = ours.map(Entry::seconds).unwrap_or_default();
        let flops = flops::potrf::<f64>(self.matrix.rows()) as f64;
        for entry in self.contestants.iter().filter(|entry| !is_peak(entry)) {
            let seconds = entry.seconds();
            let rates: Vec<f64> = seconds.iter().map(|time| flops / time / 1e9).collect();
            let quotients = seconds.iter().zip(&ours).map(|(it, ours)| it / ours);
            let ((rate, spread), (ratio, about)) = (
                quartiles(&rates),
                quartiles(&quotients.collect::<Vec<f64>>()),
            );
            println!(
                "{:44} {rate:7.1}  {spread:4.1}  {:6.1}  {ratio:10.3} ± {about:5.3}  {:10.2}{}",
                entry.name,
                100.0 * rate / peak,
                1e3 * seconds.iter().copied().fold(f64::INFINITY, f64::min),
                entry.beside(),
            );
        }
    }
}

impl Entry<'_> {
    fn is_ours(&self) -> bool {
        self.times.iter().any(|times| times.beside.is_some())
    }

    /// The medians of what stands beside the factorisation, in milliseconds.
    fn beside(&self) -> String {
        let column = |part: usize| {
            let times = self
                .times
                .iter()
                .filter_map(|times| Some(times.beside?[part]));
            1e3 * quartiles(&times.collect::<Vec<f64>>()).0
        };
        match self.is_ours() {
            true => format!("  {:8.2}  {:5.2}  {:5.2}", column(0), column(1), column(2)),
            false => String::new(),
        }
    }
}

/// Whether L·(Lᵀ·x) is A·x for a random x, as LAPACK's tests measure it.
fn check(matrix: &Dense, entry: &Entry<'_>) -> Outcome {
    let n = matrix.rows();
    let mut x = vec![0.0; n];
    Random::new(2).column(0..n, 0, &mut x);
    let [mut difference, mut sums, mut l] = [(); 3].map(|()| vec![0.0; n]);
    for j in 0..n {
        let (a, l) = (&matrix.as_slice()[n * j..][j..n], &mut l[j..]);
        if !entry.contestant.column(j, l) {
            return Ok(());
        }
        let below = &x[j..];
        let dot = |a: &[f64]| a.iter().zip(below).map(|(a, x)| a * x).sum::<f64>();
        let z = dot(l);
        difference[j] += dot(a) - a[0] * x[j];
        for (difference, (a, l)) in difference[j..].iter_mut().zip(a.iter().zip(l)) {
            *difference += a * x[j] - *l * z;
        }
        sums[j] += a[0].abs();
        for (i, a) in (j + 1..n).zip(&a[1..]) {
            sums[i] += a.abs();
            sums[j] += a.abs();
        }
    }
    let sum = |x: &[f64]| x.iter().map(|x| x.abs()).sum::<f64>();
    let norm = sums.iter().copied().fold(0.0, f64::max);
    let residual = sum(&difference) / (n as f64 * norm * sum(&x) * f64::EPSILON);
    // False for a NaN, too.
    match residual < 30.0 {
        true => Ok(()),
        false => Err(format!("{}: residual {residual:e} (must be < 30)", entry.name).into()),
    }
}

/// Seconds that a call takes.
fn seconds<R>(call: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = call();
    (start.elapsed().as_secs_f64(), result)
}

/// The content of a lock that nobody waits for.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// ── Ours ─────────────────────────────────────────────────────────────────────────────────────────

struct Ours<'b> {
    bench: &'b Bench,
    a: TiledMatrix<f64>,
    backend: Backend,
    dense: Shared,
}

impl<'b> Ours<'b> {
    fn new(bench: &'b Bench, layout: Layout, backend: Backend, dense: &Shared) -> Self {
        Ours {
            bench,
            a: TiledMatrix::vacant(layout, bench.memory.clone()),
            backend,
            dense: dense.clone(),
        }
    }

    fn fill(&self, elements: &[f64]) -> Outcome {
        let ld = self.a.rows();
        let entries = ColumnMajor { elements, ld };
        let a = &self.a;
        let tiles: Vec<_> = a.tiles().collect();
        let fill = Independent::new("fill", tiles.len() as u64, |tile| {
            let (i, j) = tiles[tile as usize];
            let filled = a.fill_tile(i, j, &entries);
            filled.map_err(|error| TaskError::new("not_filled", error.to_string()))
        });
        self.bench.runtime.run(&fill)?;
        Ok(())
    }
}

impl Contestant for Ours<'_> {
    fn run(&mut self, matrix: &Dense) -> Outcome<Times> {
        let runtime = &self.bench.runtime;
        let (to_tiles, filled) = seconds(|| self.fill(matrix.as_slice()));
        filled?;
        let factor = Factor::new(&self.a, self.backend)?;
        let (scan, scanned) = seconds(|| factor.scan(runtime));
        scanned?;
        let (factor, factored) = seconds(|| factor.run_watched(runtime, &Monitor::new()));
        factored?;
        let mut dense = self.dense.borrow_mut();
        let (back, written) = seconds(|| {
            let (a, ld) = (&self.a, self.a.rows());
            self.bench.on_strips(&mut dense, a.nb(), |j, strip| {
                let written = a.write_strip(j, strip, ld);
                written.map_err(|error| TaskError::new("not_written", error.to_string()))
            })
        });
        written?;
        Ok(Times {
            factor,
            beside: Some([to_tiles, scan, back]),
        })
    }

    fn column(&self, j: usize, into: &mut [f64]) -> bool {
        lower_column(&self.dense, j, into)
    }
}

// ── The peers ────────────────────────────────────────────────────────────────────────────────────

/// The room that column-major contestants work in, one after the other.
type Shared = Rc<RefCell<Dense>>;

fn lower_column(dense: &Shared, j: usize, into: &mut [f64]) -> bool {
    let dense = dense.borrow();
    into.copy_from_slice(&dense.as_slice()[dense.rows() * j..][j..dense.rows()]);
    true
}

/// faer's own parallel factorisation, in place.
struct Faer {
    dense: Shared,
    par: Par,
    scratch: MemBuffer,
}

impl Faer {
    fn new(bench: &Bench, dense: &Shared) -> Self {
        let par = Par::rayon(bench.n_threads());
        let n = dense.borrow().rows();
        Faer {
            dense: dense.clone(),
            par,
            scratch: MemBuffer::new(cholesky_in_place_scratch::<f64>(n, par, Default::default())),
        }
    }
}

impl Contestant for Faer {
    fn run(&mut self, matrix: &Dense) -> Outcome<Times> {
        let mut dense = self.dense.borrow_mut();
        dense.as_mut_slice().copy_from_slice(matrix.as_slice());
        let n = matrix.rows();
        let a = MatMut::from_column_major_slice_mut(dense.as_mut_slice(), n, n);
        let stack = MemStack::new(&mut self.scratch);
        let (none, parameters) = (Default::default(), Default::default());
        let (factor, factored) =
            seconds(|| cholesky_in_place(a, none, self.par, stack, parameters));
        factored.map_err(|error| format!("faer: {error:?}"))?;
        Ok(Times {
            factor,
            beside: None,
        })
    }

    fn column(&self, j: usize, into: &mut [f64]) -> bool {
        lower_column(&self.dense, j, into)
    }
}

/// OpenBLAS's own parallel `dpotrf`, in place.
#[cfg(feature = "openblas")]
struct OpenBlas {
    dense: Shared,
    n_threads: usize,
}

#[cfg(feature = "openblas")]
impl OpenBlas {
    fn new(bench: &Bench, dense: &Shared) -> Self {
        OpenBlas {
            dense: dense.clone(),
            n_threads: bench.n_threads(),
        }
    }
}

#[cfg(feature = "openblas")]
impl Contestant for OpenBlas {
    fn run(&mut self, matrix: &Dense) -> Outcome<Times> {
        use dataflow::linalg::kernel::openblas;
        let mut dense = self.dense.borrow_mut();
        dense.as_mut_slice().copy_from_slice(matrix.as_slice());
        let n = matrix.rows();
        openblas::set_threads(self.n_threads);
        let (factor, info) = seconds(|| openblas::potrf(n, dense.as_mut_slice(), n));
        openblas::set_threads(1);
        match info {
            0 => Ok(Times {
                factor,
                beside: None,
            }),
            info => Err(format!("dpotrf: INFO = {info}").into()),
        }
    }

    fn column(&self, j: usize, into: &mut [f64]) -> bool {
        lower_column(&self.dense, j, into)
    }
}

/// Large products on all threads, by each library of this build; its time is that of one flop in
/// the faster one.
struct Peak {
    operands: [Dense; 3],
    n_threads: usize,
}

impl Peak {
    fn new(bench: &Bench, n: usize) -> Outcome<Self> {
        let operand = |seed| {
            let (mut operand, random) = (bench.dense(n), Random::new(seed));
            bench.on_strips(&mut operand, 1, |j, column| {
                random.column(0..n, j, column);
                Ok(())
            })?;
            Ok(operand)
        };
        let operands: Outcome<Vec<Dense>> = [3, 4, 5].map(operand).into_iter().collect();
        Ok(Peak {
            operands: operands?
                .try_into()
                .map_err(|_| "three operands were made")?,
            n_threads: bench.n_threads(),
        })
    }
}

impl Contestant for Peak {
    fn run(&mut self, _: &Dense) -> Outcome<Times> {
        let [a, b, c] = &mut self.operands;
        let n = a.rows();
        let par = Par::rayon(self.n_threads);
        let view = |x| MatRef::from_column_major_slice(x, n, n);
        let by_faer = seconds(|| {
            let c = MatMut::from_column_major_slice_mut(c.as_mut_slice(), n, n);
            matmul(
                c,
                Accum::Add,
                view(a.as_slice()),
                view(b.as_slice()),
                -1.0,
                par,
            );
        });
        let best = by_faer.0;
        #[cfg(feature = "openblas")]
        let best = {
            use dataflow::linalg::kernel::openblas;
            thread::sleep(SETTLE);
            openblas::set_threads(self.n_threads);
            let (a, b, c) = (a.as_slice(), b.as_slice(), c.as_mut_slice());
            let by_openblas = seconds(|| openblas::gemm(n, n, n, a, b, c));
            openblas::set_threads(1);
            best.min(by_openblas.0)
        };
        Ok(Times {
            factor: best / flops::gemm::<f64>(n, n, n) as f64,
            beside: None,
        })
    }

    fn column(&self, _: usize, _: &mut [f64]) -> bool {
        false
    }
}

// ── The tile loop ────────────────────────────────────────────────────────────────────────────────

/// How the tile loop is made parallel: as one would with OpenMP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `parallel for` over the tiles below a diagonal tile, then over all tiles right of them.
    Barriers,
    /// `task depend`: a task starts when those that wrote its tiles have ended; no priorities.
    Dependences,
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Style::Barriers => "tile loop with barriers",
            Style::Dependences => "tile loop with dependences",
        })
    }
}

/// Cholesky by column-major tiles, one call of a kernel each, on rayon's threads.
///
/// The kernels are ours: they gain on OpenBLAS's own triangular ones, so this peer is faster than
/// a loop over those.
struct TileLoop<'b> {
    bench: &'b Bench,
    n: usize,
    nb: usize,
    style: Style,
    backend: Backend,
    failed: OnceLock<NotPositive>,
    /// By columns; the first tile of each is on the diagonal.
    columns: Vec<Vec<RwLock<Tile<f64>>>>,
}

/// A task of the tile loop: step `k` on tile `(i, j)`.
type Step = (usize, usize, usize);

impl<'b> TileLoop<'b> {
    fn new(bench: &'b Bench, n: usize, nb: usize, style: Style) -> Self {
        let (nt, side) = (n.div_ceil(nb), |i| nb.min(n - i * nb));
        let tile = |i, j| Tile::new(side(i), side(j), Format::ColumnMajor, &bench.memory);
        let column = |j| (j..nt).map(|i| RwLock::new(tile(i, j))).collect();
        TileLoop {
            bench,
            n,
            nb,
            style,
            backend: BACKENDS[BACKENDS.len() - 1],
            failed: OnceLock::new(),
            columns: (0..nt).map(column).collect(),
        }
    }

    fn nt(&self) -> usize {
        self.columns.len()
    }

    fn tile(&self, i: usize, j: usize) -> &RwLock<Tile<f64>> {
        &self.columns[j][i - j]
    }

    /// No lock is ever waited for: the order of the steps keeps writers alone.
    fn run_step(&self, (i, j, k): Step) {
        let read = |i, j| {
            let tile = self.tile(i, j).read();
            tile.unwrap_or_else(PoisonError::into_inner)
        };
        let mut tile = self.write(i, j);
        match () {
            () if i == k => {
                if let Err(failed) = potrf(self.backend, &mut tile) {
                    // Only the first of several is told.
                    self.failed.get_or_init(|| failed);
                }
            }
            () if j == k => trsm(self.backend, &read(k, k), &mut tile),
            () if i == j => herk(self.backend, &read(i, k), &mut tile),
            () => gemm(self.backend, &read(i, k), &read(j, k), &mut tile),
        }
    }

    fn write(&self, i: usize, j: usize) -> RwLockWriteGuard<'_, Tile<f64>> {
        let tile = self.tile(i, j).write();
        tile.unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, matrix: &Dense) {
        let tiles = (0..self.nt()).flat_map(|j| (j..self.nt()).map(move |i| (i, j)));
        let tiles: Vec<_> = tiles.collect();
        tiles.into_par_iter().with_max_len(1).for_each(|(i, j)| {
            let mut tile = self.write(i, j);
            let from = &matrix.as_slice()[(i + j * self.n) * self.nb..];
            tile.read_column_major(from, self.n);
        });
    }

    fn with_barriers(&self) {
        let nt = self.nt();
        let parallel_for = |steps: Vec<Step>| {
            let steps = steps.into_par_iter().with_max_len(1);
            steps.for_each(|step| self.run_step(step));
        };
        for k in 0..nt {
            self.run_step((k, k, k));
            parallel_for((k + 1..nt).map(|i| (i, k, k)).collect());
            let updates = (k + 1..nt).flat_map(|j| (j..nt).map(move |i| (i, j, k)));
            parallel_for(updates.collect());
        }
    }

    fn with_dependences(&self) {
        let nt = self.nt();
        let waits_for = |place: usize| {
            let (k, j, i) = (place % nt, place / nt % nt, place / nt / nt);
            let panel = match () {
                () if i == k => 0,
                () if i == j || j == k => 1,
                () => 2,
            };
            AtomicU32::new(panel + u32::from(k > 0))
        };
        let waiting: Vec<AtomicU32> = (0..nt * nt * nt).map(waits_for).collect();
        rayon::in_place_scope(|scope| self.spawn(scope, &waiting, (0, 0, 0)));
    }

    /// Runs a step as a task, and then those that waited for it alone.
    fn spawn<'s>(&'s self, scope: &Scope<'s>, waiting: &'s [AtomicU32], step: Step) {
        let nt = self.nt();
        scope.spawn(move |scope| {
            self.run_step(step);
            let ready = |(i, j, k): Step| {
                let count = &waiting[(i * nt + j) * nt + k];
                // AcqRel: whoever counts last sees what the others wrote.
                if count.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.spawn(scope, waiting, (i, j, k));
                }
            };
            match step {
                (i, j, k) if i == k && j == k => (k + 1..nt).for_each(|i| ready((i, k, k))),
                (i, j, k) if j == k => {
                    (k + 1..=i).for_each(|j| ready((i, j, k)));
                    (i + 1..nt).for_each(|m| ready((m, i, k)));
                }
                (i, j, k) => ready((i, j, k + 1)),
            }
        });
    }
}

impl Contestant for TileLoop<'_> {
    fn run(&mut self, matrix: &Dense) -> Outcome<Times> {
        let pool = &self.bench.pool;
        pool.install(|| self.fill(matrix));
        let (factor, ()) = seconds(|| {
            pool.install(|| match self.style {
                Style::Barriers => self.with_barriers(),
                Style::Dependences => self.with_dependences(),
            })
        });
        match self.failed.get() {
            None => Ok(Times {
                factor,
                beside: None,
            }),
            Some(failed) => Err(failed.to_string().into()),
        }
    }

    fn column(&self, j: usize, into: &mut [f64]) -> bool {
        let (tile_column, y) = (j / self.nb, j % self.nb);
        let mut written = 0;
        for (step, tile) in self.columns[tile_column].iter().enumerate() {
            let tile = tile.read().unwrap_or_else(PoisonError::into_inner);
            let first = if step == 0 { y } else { 0 };
            let rows = tile.rows();
            let part = &tile.as_slice()[y * rows..][first..rows];
            into[written..][..part.len()].copy_from_slice(part);
            written += part.len();
        }
        true
    }
}
