//! Prices European options by the formula of Black and Scholes: independent tasks, vector code, and a
//! gathering of results over ranks.
//!
//! The options are those of PARSEC's inputs, by formula or from its files; `--output` writes prices as
//! PARSEC does. Each is priced `--repeats` times, as there, where 100 is the rule.
//!
//! # Elsewhere
//! The options: [`options`]. The formula: [`price`]. The graph: [`space`].
//!
//! # Source
//! The benchmark of that name in PARSEC 3.0: Bienia, *Benchmarking modern multiprocessors*, thesis,
//! Princeton 2011; its use in Matheou, Evripidou, *FREDDO*, 2017, §5 (paper 004).

pub mod options;
pub mod price;
pub mod space;

use crate::vector::Real;
use common::cli::settings::{Precision, at_least_one};
use common::cli::{self, Example, Failure, Outcome, Settings};
use common::problem;
use dataflow::Runtime;
use dataflow::core::rank::Rank;
use dataflow::linalg::matrix::digest::Digest;
use dataflow::trace::replace;
use options::{Contract, Options};
use price::{Formula, exact};
use space::{Prices, Pricing};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What it is called, and which flags it honours.
pub const EXAMPLE: Example = Example {
    name: "blackscholes",
    about: "Prices options by the formula of Black and Scholes",
    runs: true,
    honours: &["nb", "precision", "input", "variant"],
};

/// What to price.
#[derive(Clone, Debug, clap::Args)]
#[command(
    mut_arg("nb", |nb| nb.help(
        "Options of a block [default: 1024]"
    ))
)]
pub struct Own {
    /// Options of PARSEC's list [default: 65536]
    #[arg(long, value_name = "N", value_parser = at_least_one, conflicts_with = "input")]
    options: Option<usize>,
    /// How often each is priced
    #[arg(long, value_name = "R", default_value = "100", value_parser = at_least_one)]
    repeats: usize,
    /// How the normal distribution is computed
    #[arg(long, default_value = "polynomial")]
    formula: Formula,
    /// Write the prices into this file, as PARSEC does
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The program.
pub fn main() -> ExitCode {
    cli::run(&EXAMPLE, blackscholes)
}

/// The whole example.
pub fn blackscholes(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    match settings.precision.unwrap_or(Precision::F64) {
        Precision::F64 => priced::<f64>(settings, runtime, outcome),
        Precision::F32 => priced::<f32>(settings, runtime, outcome),
        other => Err(Failure::refused(format!(
            "--precision {other}: prices are real, f32 or f64"
        ))),
    }
}

fn priced<T: Real>(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let own = &settings.own;
    let options = match &settings.input {
        Some(path) => Options::read(path)?,
        None => Options::of_parsec(own.options.unwrap_or(65_536)),
    };
    let nb = settings.nb.unwrap_or(1024).min(options.count);
    (outcome.n, outcome.nb) = (Some(options.count), Some(nb));
    outcome.precision = Some(T::PRECISION.to_string());
    outcome.set("repeats", own.repeats);

    expect_room::<T>(&options, nb, settings, runtime)?;
    let space = Pricing::<T>::new(&options, nb, own.formula, own.repeats, runtime.n_ranks());
    outcome.measured = settings.median(|_| settings.measure_variant(runtime, &space))?;
    // The prices have come to rank 0.
    let Some(prices) = space.prices() else {
        return Ok(());
    };
    let told = tell(&options, settings, &prices, outcome);
    // Whoever asks for prices gets those that are wrong too, to see how.
    let written = match &own.output {
        Some(path) => write(&prices, path),
        None => Ok(()),
    };
    cli::both(told, written)
}

/// Writes the prices as PARSEC does.
fn write<T: Real>(prices: &[T], path: &Path) -> Result<(), Failure> {
    let prices = prices.iter().map(|price| price.wide());
    let unwritten = |error| Failure::output_unwritable(path, error);
    replace(path, |file| options::write(prices, file)).map_err(unwritten)
}

/// Refuses more options than there is room for, or than make blocks that can be numbered in 32 bits.
fn expect_room<T: Real>(
    options: &Options,
    nb: usize,
    settings: &Settings<Own>,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let (count, blocks) = (options.count, options.count.div_ceil(nb));
    if u32::try_from(blocks).is_err() {
        let most = u32::MAX;
        let text = format!("--nb {nb}: {count} options are {blocks} blocks, at most {most} may be");
        return Err(Failure::refused(text));
    }
    let asked = match &settings.input {
        Some(path) => path.display().to_string(),
        None => format!("--options {count}"),
    };
    let prices = match runtime.rank() {
        // As they come, and one behind the other.
        Rank(0) => 2 * count as u128,
        _ => 0,
    };
    // A block of zeros; and each worker has one of contracts, once more by their fields, and its prices.
    let of_worker = nb as u128 * (size_of::<Contract>() + 8 * size_of::<T>()) as u128;
    let bytes = (prices + nb as u128) * size_of::<T>() as u128
        + runtime.n_threads().min(blocks) as u128 * of_worker
        + blocks as u128 * size_of::<Prices<T>>() as u128;
    problem::expect_room(&format!("{asked}, --nb {nb}"), bytes, runtime)
}

/// Digest, rate, and how far the prices are from the exact ones.
fn tell<T: Real>(
    options: &Options,
    settings: &Settings<Own>,
    prices: &[T],
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let own = &settings.own;
    let digests = prices.iter().zip(0..);
    let digest: Digest = digests
        .map(|(&price, at)| Digest::of_entry(at, 0, price))
        .sum();
    outcome.digest = Some(digest.to_string());
    let work = options.count as f64 * own.repeats as f64;
    outcome.rate("options_per_second", "prices a second", work);
    let farthest = |error: fn(&Contract, f64) -> Option<f64>| {
        let errors = prices.iter().enumerate().filter_map(|(at, price)| {
            let error = error(&options.get(at), price.wide())?;
            Some((at, error))
        });
        // What is not a number is the worst.
        errors.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
    };
    let reference = farthest(|option, price| Some((price - option.reference?).abs()));
    outcome.set("reference_error", reference.map(|(_, error)| error));
    let exact = farthest(|option, price| Some(error(option, price)));
    let (at, error) = exact.unwrap_or_default();
    outcome.say(format!(
        "the price farthest from the exact one is that of option {at}"
    ));
    let verified = outcome.verify(settings.variant, Some(error), allowed::<T>(own.formula));
    verified.map_err(|failure| failure.with_index(at as u64))
}

/// How far a price is from the exact one, if spot and discounted strike were 100 on the mean: an error
/// of the normal distribution is multiplied by them.
pub fn error(option: &Contract, price: f64) -> f64 {
    let discounted = option.strike * (-option.rate * option.time).exp();
    (price - exact(option)).abs() / ((option.spot + discounted) / 200.0)
}

/// How far that may be.
pub fn allowed<T: Real>(formula: Formula) -> f64 {
    match (size_of::<T>(), formula) {
        (4, _) => 1e-4,
        // 200 times that of the distribution.
        (_, Formula::Polynomial) => 1.5e-5,
        (_, Formula::Exact) => 1e-11,
    }
}
