//! A race: contestants that factor the same matrix in turn, and the table of what they took.
//!
//! # Law
//! All contestants of a table run once a round, each round beginning with another one; figures of
//! one table compare, those of two do not. The clock runs while a contestant factors: the matrix
//! then lies in the layout that it works in, on huge pages. Each leaves its result column-major in
//! the shared room; in the first round, which does not count, it is compared with the matrix.
//! The peers' own buffers come from the C library: so a bench starts itself again with
//! `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`, and with `OPENBLAS_CORETYPE` where OpenBLAS would not use
//! the processor's vectors; unless these variables are set.

#[path = "../kept.rs"]
#[allow(dead_code)] // verdict reads
pub mod kept;
#[path = "../overhead/statistics.rs"]
mod statistics;

mod bench;
mod ours;
mod peak;
mod peers;
mod routine;

pub use bench::{Bench, Dense, Shared, at_its_best, locked};
pub use ours::Ours;
pub use peak::Peak;
pub use peers::Faer;
#[cfg(feature = "openblas")]
pub use peers::OpenBlas;
pub use routine::Routine;
pub use statistics::{machine, quartiles};

use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Format, Layout};
use dataflow::linalg::scalar::Scalar;
use kept::{Row, Unit};
use std::thread;
use std::time::{Duration, Instant};

pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// What every race can be asked for.
#[derive(clap::Args)]
#[group(skip)]
pub struct Settings {
    /// Orders of the matrix
    #[arg(long, value_delimiter = ',')]
    pub n: Vec<usize>,
    /// Tile orders of ours [default: the library's]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    nb: Vec<u32>,
    /// Formats of our tiles [default: the library's]
    #[arg(long, value_delimiter = ',')]
    format: Vec<TileFormat>,
    /// Orders of sub-tiles and of pieces of columns [default: the library's]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    sub: Vec<u32>,
    /// Rounds that count
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Threads of every contestant [default: all allowed cores]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Ours against ours: no peers
    #[arg(long)]
    pub sweep: bool,
    /// Two small matrices, three rounds
    #[arg(long)]
    quick: bool,
    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TileFormat {
    SubTiled,
    ColumnMajor,
    CutColumns,
}

impl Settings {
    /// Without `--bench` cargo only wants to see that it runs.
    pub fn is_quick(&self) -> bool {
        self.quick || !self.bench
    }

    /// Keeps the rows of a bench, unless it was quick, a sweep, or told something that the library
    /// chooses: how many threads, tile orders, formats, or what is not `usual` of the bench's own.
    pub fn keep(&self, bench: &str, rows: Vec<Row>, usual: bool) -> Outcome {
        let format = self.format.is_empty() && self.sub.is_empty();
        let usual = usual && format && self.nb.is_empty() && self.threads.is_none();
        if usual && !self.is_quick() && !self.sweep {
            kept::keep(bench, machine(), rows)?;
        }
        Ok(())
    }

    /// The orders of the matrices, unless others were asked for.
    pub fn orders<'s>(&'s self, usual: &'s [usize]) -> &'s [usize] {
        match (&self.n[..], self.is_quick()) {
            ([], true) => &[300, 700],
            ([], false) => usual,
            (orders, _) => orders,
        }
    }

    /// How ours cuts the matrix, and what to call it.
    pub fn layouts(
        &self,
        routine: Routine,
        n: usize,
        bench: &Bench,
    ) -> Outcome<Vec<(Layout, String)>> {
        if self.nb.is_empty() && self.format.is_empty() && !self.sweep {
            let layout = routine.default_layout(n, bench.n_threads())?;
            return Ok(vec![(layout, format!("nb {}", layout.nb()))]);
        }
        let orders = match &self.nb[..] {
            [] if self.sweep => vec![96, 192, 288, 384],
            [] => vec![routine.default_layout(n, bench.n_threads())?.nb()],
            orders => orders.iter().map(|&nb| nb as usize).collect(),
        };
        let mut layouts = Vec::new();
        for nb in orders {
            for (format, lie) in self.formats() {
                let layout = routine.layout(n, nb)?.with_format(format);
                layouts.push((layout, format!("nb {nb}{lie}")));
            }
        }
        Ok(layouts)
    }

    /// The formats of our tiles, and what to add to a contestant's name.
    fn formats(&self) -> Vec<(Format, String)> {
        let subs: Vec<usize> = match &self.sub[..] {
            [] => vec![f64::SUB_TILE_ORDER],
            subs => subs.iter().map(|&sub| sub as usize).collect(),
        };
        let each = |of: fn(usize) -> (Format, String)| subs.iter().copied().map(of).collect();
        let whole = vec![(Format::ColumnMajor, String::new())];
        let named = |format: &TileFormat| match format {
            TileFormat::ColumnMajor => whole.clone(),
            TileFormat::SubTiled => each(|order| {
                let format = Format::SubTiled { order };
                (format, format!(", sub-tiles of {order}"))
            }),
            TileFormat::CutColumns => each(|order| {
                let format = Format::CutColumns { order };
                (format, format!(", pieces of {order}"))
            }),
        };
        match &self.format[..] {
            [] => whole,
            formats => formats.iter().flat_map(named).collect(),
        }
    }

    /// How many rounds count for matrices of order `n`.
    pub fn rounds(&self, n: usize) -> u32 {
        self.rounds_or(match n {
            0..=1000 => 21,
            1001..=4000 => 9,
            _ => 5,
        })
    }

    /// How many rounds count, where it is usually so many.
    pub fn rounds_or(&self, usual: u32) -> u32 {
        let usual = if self.is_quick() { 3 } else { usual };
        self.rounds.unwrap_or(usual)
    }
}

/// The backends of this build.
pub const BACKENDS: &[Backend] = &[
    Backend::Faer,
    #[cfg(feature = "openblas")]
    Backend::OpenBlas,
];

/// Takes a turn in each round.
pub trait Contestant {
    /// Puts the matrix where it belongs, factors it, on the clock, and leaves the result in the
    /// shared room.
    fn run(&mut self, matrix: &Dense) -> Outcome<Times>;
}

/// Seconds of one run.
#[derive(Default)]
pub struct Times {
    pub factor: f64,
    /// Of ours: to tiles, looking for what is not finite, back to column-major.
    pub beside: Option<[f64; 3]>,
    /// Of LU: which row of the matrix is which of the factors.
    pub rows: Vec<usize>,
}

impl Times {
    pub fn of(factor: f64) -> Self {
        Times {
            factor,
            ..Times::default()
        }
    }
}

/// A contestant and what it took.
pub struct Entry<'b> {
    name: String,
    contestant: Box<dyn Contestant + 'b>,
    times: Vec<Times>,
}

impl<'b> Entry<'b> {
    pub fn new(name: String, contestant: impl Contestant + 'b) -> Self {
        Entry {
            name,
            contestant: Box::new(contestant),
            times: Vec::new(),
        }
    }

    fn seconds(&self) -> Vec<f64> {
        self.times.iter().map(|times| times.factor).collect()
    }

    fn is_ours(&self) -> bool {
        self.times.iter().any(|times| times.beside.is_some())
    }

    fn is_peak(&self) -> bool {
        self.name == PEAK
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

/// One matrix, and all who factor it.
pub struct Race<'b> {
    routine: Routine,
    matrix: &'b Dense,
    room: Shared,
    contestants: Vec<Entry<'b>>,
}

const PEAK: &str = "peak";

/// How long everybody waits before a turn: the threads of the one before spin a while after it.
pub const SETTLE: Duration = Duration::from_millis(60);

impl<'b> Race<'b> {
    /// A race in which only the peak runs so far.
    pub fn new(
        bench: &'b Bench,
        routine: Routine,
        matrix: &'b Dense,
        room: &Shared,
        settings: &Settings,
    ) -> Outcome<Self> {
        let peak = Peak::new(bench, if settings.is_quick() { 1000 } else { 3000 })?;
        Ok(Race {
            routine,
            matrix,
            room: room.clone(),
            contestants: vec![Entry::new(PEAK.into(), peak)],
        })
    }

    pub fn extend(&mut self, entries: Vec<Entry<'b>>) {
        self.contestants.extend(entries);
    }

    pub fn enter(&mut self, name: &str, contestant: impl Contestant + 'b) {
        self.contestants.push(Entry::new(name.into(), contestant));
    }

    /// Enters the routines of the libraries of this build.
    pub fn enter_peers(&mut self, bench: &Bench) {
        self.enter("faer", Faer::new(bench, self.routine, &self.room));
        #[cfg(feature = "openblas")]
        self.enter("OpenBLAS", OpenBlas::new(bench, self.routine, &self.room));
    }

    /// Runs everybody, once to compare the results and then `rounds` times, prints the table and answers its
    /// row.
    pub fn run(mut self, rounds: u32) -> Outcome<Row> {
        for entry in &mut self.contestants {
            // Whoever leaves nothing there is not judged by another's result.
            locked(&self.room).as_mut_slice().fill(f64::NAN);
            let times = entry.contestant.run(self.matrix)?;
            if !entry.is_peak() {
                let residual = (self.routine).residual(self.matrix, &locked(&self.room), &times);
                if residual.is_nan() || residual >= 30.0 {
                    let text = format!("{}: residual {residual:e} (must be < 30)", entry.name);
                    return Err(text.into());
                }
            }
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
        Ok(self.row())
    }

    /// 10⁹ operations a second of the fastest products.
    fn peak(&self) -> f64 {
        let peaks = self.contestants.iter().find(|entry| entry.is_peak());
        1e-9 / quartiles(&peaks.map(Entry::seconds).unwrap_or_default()).0
    }

    /// The best of ours beside the best of the others.
    fn row(&self) -> Row {
        let (n, unit) = (self.matrix.rows(), Unit::GigaflopsPerSecond);
        let flops = self.routine.flops(n) as f64;
        let rate = |entry: &Entry| {
            let rates = entry.seconds().into_iter().map(|time| flops / time / 1e9);
            quartiles(&rates.collect::<Vec<f64>>())
        };
        let runners = || self.contestants.iter().filter(|entry| !entry.is_peak());
        let ours = runners().filter(|entry| entry.is_ours());
        let ours = unit.best(ours.map(|entry| (rate(entry).1, rate(entry).0)));
        let (spread, ours) = ours.unwrap_or((f64::NAN, f64::NAN));
        let others = runners().filter(|entry| !entry.is_ours());
        Row {
            what: format!("{} {n}", self.routine),
            unit,
            ours,
            spread: Some(spread),
            other: unit.best(others.map(|entry| (entry.name.clone(), rate(entry).0))),
            limit: Some(("product".into(), self.peak())),
        }
    }

    fn print(&self, rounds: u32) {
        let (n, peak) = (self.matrix.rows(), self.peak());
        println!(
            "\n{}, n = {n}, median of {rounds} rounds ± half the quartile distance, peak {peak:.1} GFLOP/s",
            self.routine,
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
        let flops = self.routine.flops(n) as f64;
        for entry in self.contestants.iter().filter(|entry| !entry.is_peak()) {
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

/// Seconds that a call takes.
pub fn seconds<R>(call: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = call();
    (start.elapsed().as_secs_f64(), result)
}
