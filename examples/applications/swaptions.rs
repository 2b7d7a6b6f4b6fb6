//! Prices swaptions by Monte Carlo simulation of forward rates: independent trials in tasks, random
//! numbers that can jump, vector code across trials, and ordered sums.
//!
//! The swaptions and their random numbers are PARSEC's, for as many trials as there are numbers that were
//! not drawn before. Every path is simulated to its end, as there.
//!
//! # Elsewhere
//! Random numbers: [`random`]. Rates and claims: [`model`]. Swaptions: [`contract`]. The graph:
//! [`space`].
//!
//! # Source
//! The benchmark of that name in PARSEC 3.0: Bienia, *Benchmarking modern multiprocessors*, thesis,
//! Princeton 2011; its use in Matheou, Evripidou, *FREDDO*, 2017, §5 (paper 004).

pub mod contract;
pub mod model;
pub mod random;
pub mod space;

use common::cli::settings::{Variant, at_least_one};
use common::cli::{self, Example, Failure, Outcome, Settings};
use common::problem;
use contract::{Par, SEED, Swaption};
use dataflow::Runtime;
use dataflow::core::rank::Rank;
use dataflow::linalg::matrix::digest::Digest;
use model::{Claim, MOST_TRIALS, Model, Sums};
use serde_json::json;
use space::{Simulation, default_chunk};
use std::process::ExitCode;

/// What it is called, and which flags it honours.
pub const EXAMPLE: Example = Example {
    name: "swaptions",
    about: "Prices swaptions by simulating forward rates",
    runs: true,
    honours: &["variant"],
};

/// What to price.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Own {
    /// Swaptions of PARSEC's list
    #[arg(long, value_name = "N", default_value = "32", value_parser = at_least_one)]
    swaptions: usize,
    /// Trials of each
    #[arg(long, value_name = "M", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=MOST_TRIALS))]
    trials: u64,
    /// Trials of a task [default: 2048, or what makes 256 tasks of a swaption]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u64).range(1..))]
    chunk: Option<u64>,
    /// Compute what PARSEC does where the payment interval does not divide the tenor
    #[arg(long)]
    par_never_repaid: bool,
}

/// The program.
pub fn main() -> ExitCode {
    cli::run(&EXAMPLE, swaptions)
}

/// The whole example.
pub fn swaptions(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let own = settings.own;
    let par = match own.par_never_repaid {
        true => Par::NeverRepaid,
        false => Par::Repaid,
    };
    expect_room(own.swaptions, runtime)?;
    let (swaptions, seed) = Swaption::of_parsec(own.swaptions);
    let chunk = own.chunk.unwrap_or(default_chunk(own.trials));
    if own.trials.div_ceil(chunk) > 1 << 16 {
        let n_chunks = own.trials.div_ceil(chunk);
        let text =
            format!("--chunk {chunk} makes {n_chunks} tasks of a swaption, at most 65536 may be");
        return Err(Failure::refused(text));
    }
    outcome.n = Some(swaptions.len());
    outcome.precision = Some("f64".into());
    outcome.seed = Some(SEED.into());
    outcome.set("trials", own.trials);
    outcome.set("chunk", chunk);

    let claims = swaptions.iter().map(|of| (of.model(), of.claim(par)));
    let (claims, ranks) = (claims.collect(), runtime.n_ranks());
    let space = Simulation::new(claims, seed, own.trials, chunk, ranks);
    outcome.measured = settings.median(|_| settings.measure_variant(runtime, &space))?;
    // The sums have come to rank 0.
    match space.sums() {
        Some(sums) => tell((&swaptions, settings.variant), &space, &sums, outcome),
        None => Ok(()),
    }
}

/// Bytes of a swaption in what rank 0 tells: its row, the same once more in the object, and its text.
const OF_A_ROW: usize = 1900;

/// Refuses more swaptions than there is room for, or than can be numbered in 32 bits.
fn expect_room(count: usize, runtime: &Runtime) -> Result<(), Failure> {
    if u32::try_from(count).is_err() {
        let text = format!("--swaptions {count}: at most {} may be", u32::MAX);
        return Err(Failure::refused(text));
    }
    let each = size_of::<Swaption>() + size_of::<(Model, Claim)>() + size_of::<Sums>();
    let of_rank = match runtime.rank() {
        Rank(0) => each + OF_A_ROW,
        _ => each,
    };
    let bytes = count as u128 * of_rank as u128;
    problem::expect_room(&format!("--swaptions {count}"), bytes, runtime)
}

/// Digest, rate, prices with their errors, how far they are from published ones, and whether all can be
/// right.
fn tell(
    (swaptions, variant): (&[Swaption], Variant),
    space: &Simulation,
    sums: &[Sums],
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let digest = |(sums, at): (&Sums, u64)| {
        Digest::of_entry(at, 0, sums.values) + Digest::of_entry(at, 1, sums.squares)
    };
    outcome.digest = Some(sums.iter().zip(0..).map(digest).sum::<Digest>().to_string());
    let work = space.trials as f64 * sums.len() as f64;
    outcome.rate("trials_per_second", "trials a second", work);
    let mut rows = Vec::new();
    outcome.say(" swaption  years  strike             price     standard error");
    for (at, (swaption, sums)) in swaptions.iter().zip(sums).enumerate() {
        let (price, error) = sums.mean();
        let Swaption { years, strike, .. } = swaption;
        if at < SHOWN {
            let error = error.map_or("–".into(), |error| format!("{error:.10}"));
            outcome.say(format!(
                "{at:9} {years:6.2} {strike:7.1} {price:17.10} {error:>18}"
            ));
        }
        let (model, claim) = &space.claims[at];
        rows.push(json!({
            "years": years,
            "strike": strike,
            "price": price,
            "standard_error": error,
            "if_always_exercised": claim.if_always_exercised(model),
        }));
    }
    outcome.set("prices", rows);
    let deviation = PUBLISHED.iter().filter_map(|&(trials, at, price)| {
        let known = trials == space.trials && at < sums.len();
        known.then(|| ((sums[at].mean().0 - price).abs(), at))
    });
    let worst = deviation.max_by(|a, b| a.0.total_cmp(&b.0));
    let verified = outcome.verify(variant, worst.map(|(error, _)| error), ALLOWED);
    match worst {
        Some((_, at)) => verified.map_err(|failure| failure.with_index(at as u64))?,
        None => verified?,
    }
    match variant {
        Variant::Ideal => Ok(()),
        _ => expect_plausible(space, sums),
    }
}

/// Looks at every price, published or not.
fn expect_plausible(space: &Simulation, sums: &[Sums]) -> Result<(), Failure> {
    let wrong = |(sums, (model, claim)): (&Sums, &(Model, Claim))| {
        let known = claim.if_always_exercised(model);
        sums.trials != space.trials || !is_plausible(sums, known)
    };
    match sums.iter().zip(&space.claims).position(wrong) {
        None => Ok(()),
        Some(at) => {
            let (price, trials) = (sums[at].mean().0, sums[at].trials);
            let text = format!("swaption {at} cannot be worth {price} after {trials} trials");
            Err(Failure::wrong_result(text).with_index(at as u64))
        }
    }
}

/// Trials of which a standard error tells something.
const MANY: u64 = 1000;

/// Whether a claim can be worth what these trials say: never less than if it is exercised whatever
/// happens, which is `known`; and as much, if hardly a trial is without gain. Within six standard errors.
pub fn is_plausible(sums: &Sums, known: f64) -> bool {
    let (price, error) = sums.mean();
    let Some(error) = error.filter(|_| sums.trials >= MANY) else {
        return price.is_finite() && price >= 0.0;
    };
    let allowed = 6.0 * error + ALLOWED;
    let deviation = error * (sums.trials as f64).sqrt();
    let most = match known > 8.0 * deviation {
        true => known + allowed,
        false => f64::MAX,
    };
    (known.max(0.0) - allowed..=most).contains(&price)
}

/// Rows for people.
const SHOWN: usize = 16;

/// Published prices have ten digits behind the point.
const ALLOWED: f64 = 1e-9;

/// Trials, swaption, and what PARSEC's program says it is worth.
#[rustfmt::skip]
pub const PUBLISHED: [(u64, usize, f64); 23] = [
    (20_000, 0, 6.9319565131), (20_000, 1, 3.2383626469), (20_000, 2, 0.8540378899),
    (20_000, 3, 6.4811546688), (20_000, 4, 79.7699788268), (20_000, 5, 6.8636585104),
    (20_000, 6, 81.2911624260), (20_000, 7, 3.0595092399), (20_000, 8, 112.3456009976),
    (20_000, 9, 3.0596526260),
    (102_400, 0, 6.9318134168), (102_400, 1, 3.2381381195), (102_400, 2, 0.8538175010),
    (102_400, 3, 6.4808573828), (102_400, 4, 79.7595441543), (102_400, 5, 6.8626938012),
    (102_400, 6, 81.2960002035), (102_400, 7, 3.0595925861), (102_400, 8, 112.3532948944),
    (102_400, 9, 3.0597875720), (102_400, 17, 191.6893435129), (102_400, 22, 0.0000197746),
    (102_400, 62, 0.3540368605),
];
