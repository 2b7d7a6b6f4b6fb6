//! The example `swaptions`: its random numbers, published prices, values that are known exactly, its
//! graph.

#[path = "../edges/mod.rs"]
mod edges;
#[path = "../../crates/dataflow-core/tests/specimen/mod.rs"]
mod specimen;
use applications::swaptions;
use applications::swaptions::contract::{Par, Swaption};
use applications::swaptions::model::{
    Claim, MOST_TRIALS, Model, N_DRAWS, Sums, VOLATILITIES, simulate,
};
use applications::swaptions::random::{PERIOD, Random, normal};
use applications::swaptions::space::{Simulation, Task};
use applications::swaptions::{EXAMPLE, PUBLISHED, is_plausible};
use common::variant::{Base, Ideal};
use dataflow::core::prelude::*;
use dataflow::{Bind, Error, Runtime, launch};
use edges::every_edge_counts;
use serde_json::Value;
use specimen::{Mutant, Mutation, Specimen, Twist, mutations};

/// The seed of the first swaption.
const SEED: u32 = 33_261_052;

fn answer(arguments: &[&str]) -> common::cli::Answer {
    let words = ["swaptions"].iter().chain(arguments);
    common::cli::answer(&EXAMPLE, words, swaptions::swaptions)
}

fn object(arguments: &[&str]) -> Value {
    let answer = answer(&[arguments, &["--json"]].concat());
    assert_eq!(answer.status, 0, "{arguments:?}: {answer:?}");
    serde_json::from_str(&answer.stdout).unwrap()
}

/// Swaption number `at` of PARSEC's.
fn parsec(at: usize) -> Swaption {
    Swaption::of_parsec(at + 1).0[at]
}

/// What a claim is worth, and the standard error.
fn price(model: &Model, claim: &Claim, seed: u32, trials: u64) -> (f64, f64) {
    let (price, error) = simulate(model, claim, Random::new(seed), 0..trials).mean();
    (price, error.unwrap())
}

#[test]
fn random_numbers_are_those_of_park_and_miller_and_can_jump() {
    let mut random = Random::new(1);
    (0..10_000).for_each(|_| _ = random.draw());
    assert_eq!(random, Random::new(1_043_618_065));
    assert_eq!(Random::new(1).after(10_000), random);
    for (first, then) in [(0, 0), (0, 1), (1, 0), (30, 960), (12_345, 1 << 40)] {
        let jumped = Random::new(SEED).after(first).after(then);
        assert_eq!(jumped, Random::new(SEED).after(first + then));
    }
    let mut largest = Random::new((1 << 31) - 2);
    let u = largest.draw();
    assert!(u > 0.0 && u < 1.0 && Random::new(1).after((1 << 31) - 2) == Random::new(1));
}

/// After five periods a trial begins where the first did, and is that trial: a standard error that went on
/// falling would promise what is not there.
#[test]
fn no_trial_draws_what_another_has_drawn() {
    let (model, claim) = (parsec(0).model(), parsec(0).claim(Par::Repaid));
    let simulated = |first| simulate(&model, &claim, Random::new(SEED), first..first + 100);
    let again = 5 * PERIOD / N_DRAWS;
    assert_eq!(simulated(0), simulated(again));
    const { assert!(MOST_TRIALS * N_DRAWS <= PERIOD) };
    for trials in [MOST_TRIALS + 1, again, 1 << 40] {
        // Chunks of one trial are refused as well: whoever takes so many trials simulates none here.
        let refused = answer(&["--trials", &trials.to_string(), "--chunk", "1"]);
        assert_eq!(refused.status, 2, "{trials}");
        assert!(refused.stderr.contains("--trials"), "{refused:?}");
    }
}

#[test]
fn normal_deviates_are_within_three_billionths() {
    let distribution = |x: f64| libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) / 2.0;
    let density = |x: f64| (-x * x / 2.0).exp() * 0.3989422804014327;
    for at in 1..20_000 {
        let u = f64::from(at) / 20_000.0;
        let z = normal(u);
        // How far the deviate is from the one that has exactly this share below it.
        let off = (distribution(z) - u) / density(z);
        assert!(off.abs() < 3.2e-9, "{u}: {z} is off by {off}");
        let mirrored = normal(1.0 - u);
        assert!((z + mirrored).abs() < 1e-11 * z.abs().max(1.0), "{u}");
    }
}

#[test]
fn the_swaptions_are_those_of_parsec() {
    let (all, seed) = Swaption::of_parsec(64);
    assert_eq!(seed, SEED);
    #[rustfmt::skip]
    let known: [(usize, f64, f64, [usize; 3]); 14] = [
        (0, 9.5, 1.7, [1, 1, 2]), (1, 15.0, 1.7, [1, 1, 1]), (2, 9.75, 0.5, [1, 1, 2]),
        (3, 12.0, 1.7, [1, 1, 2]), (4, 16.25, 4.7, [1, 1, 1]), (5, 18.75, 2.4, [1, 1, 1]),
        (6, 11.25, 4.0, [1, 1, 2]), (7, 9.0, 1.1, [1, 1, 2]), (8, 8.5, 3.9, [1, 1, 3]),
        (9, 9.0, 1.1, [1, 1, 2]), (17, 13.5, 4.9, [1, 1, 2]), (22, 17.5, 0.1, [1, 1, 1]),
        (37, 7.0, 1.0, [2, 2, 3]), (62, 15.75, 0.5, [1, 1, 1]),
    ];
    for (at, years, strike, steps) in known {
        assert_eq!(all[at].years, years, "{at}");
        assert!((all[at].strike - strike).abs() < 1e-12, "{at}");
        assert_eq!(all[at].steps(), steps, "{at}");
    }
}

#[test]
fn sixteen_and_thirty_two_swaptions_are_worth_what_parsec_says_digit_by_digit() {
    for (swaptions, trials) in [("16", "20000"), ("32", "20000"), ("16", "102400")] {
        let told = object(&["--swaptions", swaptions, "--trials", trials]);
        assert_eq!(told["verified"], true, "{told}");
        assert!(told["verification_error"].as_f64() < Some(2e-10), "{told}");
    }
    for &(trials, at, known) in PUBLISHED.iter().filter(|row| row.1 > 15) {
        let swaption = parsec(at);
        let (price, _) = price(
            &swaption.model(),
            &swaption.claim(Par::Repaid),
            SEED + at as u32,
            trials,
        );
        assert!((price - known).abs() < 2e-10, "{at}: {price}, not {known}");
    }
}

#[test]
fn standard_errors_are_those_of_parsec_and_fall_with_the_root_of_the_trials() {
    #[rustfmt::skip]
    let known = [
        (0, 20_000, 0.0009063581), (4, 20_000, 0.0138308670), (8, 20_000, 0.0139418526),
        (0, 102_400, 0.0004013781), (4, 102_400, 0.0061272793), (8, 102_400, 0.0061652388),
        (22, 102_400, 0.0000016238),
    ];
    for (at, trials, error) in known {
        let swaption = parsec(at);
        let claim = swaption.claim(Par::Repaid);
        let found = price(&swaption.model(), &claim, SEED + at as u32, trials).1;
        assert!((found - error).abs() < 2e-10, "{at}: {found}, not {error}");
    }
    let swaption = parsec(0);
    let error = |trials| {
        price(
            &swaption.model(),
            &swaption.claim(Par::Repaid),
            SEED,
            trials,
        )
        .1
    };
    let fall = error(1_000) / error(64_000);
    assert!((fall - 8.0).abs() < 0.8, "{fall}");
    let one = simulate(
        &swaption.model(),
        &swaption.claim(Par::Repaid),
        Random::new(SEED),
        0..1,
    );
    assert_eq!(one.mean().1, None);
}

#[test]
fn what_parsec_never_repays_is_worth_its_interest_only() {
    let of = |at: usize, par| {
        let swaption = parsec(at);
        price(
            &swaption.model(),
            &swaption.claim(par),
            SEED + at as u32,
            102_400,
        )
        .0
    };
    assert!((of(37, Par::NeverRepaid) - 0.4073387628).abs() < 2e-10);
    assert_eq!(of(38, Par::NeverRepaid), 0.0);
    assert!(of(37, Par::Repaid) > 1.0 && of(38, Par::Repaid) > 0.05);
    // Where the interval divides the tenor there is nothing to choose.
    assert_eq!(
        parsec(0).claim(Par::Repaid),
        parsec(0).claim(Par::NeverRepaid)
    );
}

/// A bond of the model: what is paid `after` steps from the `start`, discounted to today.
fn bond(start: usize, after: usize) -> Claim {
    Claim {
        start,
        payments: vec![(after, 1.0)],
        price: 0.0,
    }
}

#[test]
fn every_bond_is_worth_today_what_the_curve_of_today_says() {
    for years in [5.0, 9.5, 19.75] {
        let model = Model::new(years, VOLATILITIES);
        for start in [1, 2, 5, 9] {
            for after in [1, (11 - start) / 2, 11 - start] {
                let (mean, error) = price(&model, &bond(start, after.max(1)), SEED, 20_000);
                let known = model.discount(start + after.max(1));
                assert!(
                    (mean - known).abs() <= 4.0 * error,
                    "{years} {start} {after}: {mean} {known}"
                );
            }
        }
    }
}

#[test]
fn what_is_always_exercised_is_worth_the_difference_of_bonds() {
    #[rustfmt::skip]
    let known = [
        6.9310884536, 3.2383516080, 0.8539621106, 6.4803291599, 79.7594273395,
        6.8630746700, 81.2947895042, 3.0596521540, 112.3583748484, 3.0596521540,
    ];
    for (at, known) in known.into_iter().enumerate() {
        let (swaption, seed) = (parsec(at), SEED + at as u32);
        let (model, claim) = (swaption.model(), swaption.claim(Par::Repaid));
        let exact = claim.if_always_exercised(&model);
        assert!((exact - known).abs() < 2e-10, "{at}: {exact}, not {known}");
        let (mean, error) = price(&model, &claim, seed, 20_000);
        assert!(
            (mean - exact).abs() <= 2.0 * error,
            "{at}: {mean} ± {error}, not {exact}"
        );
    }
}

/// Prices were looked at where they are published: of the first ten.
#[test]
fn every_price_is_held_against_what_is_always_exercised() {
    for (at, trials) in (0..64).flat_map(|at| [(at, 1000), (at, 5000)]) {
        for par in [Par::Repaid, Par::NeverRepaid] {
            let (swaption, seed) = (parsec(at), SEED + at as u32);
            let (model, claim) = (swaption.model(), swaption.claim(par));
            let sums = simulate(&model, &claim, Random::new(seed), 0..trials);
            let known = claim.if_always_exercised(&model);
            assert!(
                is_plausible(&sums, known),
                "{at} of {trials}: {sums:?} {known}"
            );
            let times = |factor: f64| Sums {
                values: sums.values * factor,
                squares: sums.squares * factor * factor,
                ..sums
            };
            let is_worth_something = known > 1.0;
            for wrong in [0.9, 1.1].map(times) {
                let is_found = !is_plausible(&wrong, known);
                assert!(is_found || !is_worth_something, "{at}: {wrong:?} {known}");
            }
            for wrong in [f64::NAN, f64::INFINITY, -1.0] {
                let values = wrong * trials as f64;
                let wrong = Sums { values, ..sums };
                assert!(!is_plausible(&wrong, known), "{at}: {wrong:?}");
            }
        }
    }
}

#[test]
fn a_swaption_of_one_payment_is_worth_what_the_formula_says() {
    for (strike, known) in [
        (0.105, 0.0006457912),
        (0.115, 0.0035500233),
        (0.12, 0.0064395189),
        (0.125, 0.0102122962),
    ] {
        let swaption = Swaption {
            years: 5.5,
            strike,
            maturity: 0.5,
            tenor: 1.0,
            interval: 1.0,
        };
        assert_eq!(swaption.steps(), [2, 1, 2]);
        let (model, claim) = (swaption.model(), swaption.claim(Par::Repaid));
        // The bond of the payment is lognormal: price = P(0,1)·[F·N(d) − N(d − V)].
        let spread = VOLATILITIES.map(|of| of[0] + of[1]).map(|sum| sum * sum);
        let v = model.step.powf(1.5) * spread.iter().sum::<f64>().sqrt();
        assert!((v - 0.009354863).abs() < 1e-9, "{v}");
        let forward = f64::exp(strike) * model.discount(3) / model.discount(1);
        let d = forward.ln() / v + v / 2.0;
        let normal = |x: f64| libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) / 2.0;
        let exact = model.discount(1) * (forward * normal(d) - normal(d - v));
        assert!(
            (exact - known).abs() < 1e-10,
            "{strike}: {exact}, not {known}"
        );
        let (mean, error) = price(&model, &claim, SEED, 200_000);
        assert!(
            (mean - exact).abs() <= 3.0 * error,
            "{strike}: {mean} ± {error}, not {exact}"
        );
    }
}

#[test]
fn without_volatility_every_trial_is_worth_the_same() {
    let model = Model::new(9.5, [[0.0; 10]; 3]);
    let claim = parsec(0).claim(Par::Repaid);
    let (mean, error) = price(&model, &claim, SEED, 100);
    assert!(
        (mean - claim.if_always_exercised(&model)).abs() < 1e-13,
        "{mean}"
    );
    assert!(error < 1e-6, "{error}");
}

#[test]
fn any_number_of_trials_is_what_it_is_in_pieces() {
    let swaption = parsec(3);
    let (model, claim) = (swaption.model(), swaption.claim(Par::Repaid));
    let sums = |trials| simulate(&model, &claim, Random::new(SEED), trials);
    let each: Vec<f64> = (0..99).map(|trial| sums(trial..trial + 1).values).collect();
    for trials in [1, 15, 16, 17, 31, 32, 33, 50, 99] {
        let whole = sums(0..trials);
        assert_eq!(whole.trials, trials);
        assert_eq!(whole.values, each[..trials as usize].iter().sum::<f64>());
    }
    let pieces = [0..7, 7..40, 40..41, 41..99].map(sums);
    let joined = pieces.into_iter().fold(Sums::default(), Sums::and);
    assert!((joined.values - sums(0..99).values).abs() < 1e-11);
}

impl Specimen for Simulation {
    fn fresh(&self) -> Self {
        simulation(
            self.claims.len(),
            self.trials,
            self.chunk,
            self.n_ranks as usize,
        )
    }
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
    fn holes(&self) -> Vec<String> {
        Vec::new()
    }
    fn strangers(&self) -> Vec<Task> {
        vec![Task::Reduce { i: 9 }]
    }
}

fn simulation(claims: usize, trials: u64, chunk: u64, n_ranks: usize) -> Simulation {
    let (swaptions, seed) = Swaption::of_parsec(claims);
    let claims = swaptions
        .iter()
        .map(|of| (of.model(), of.claim(Par::Repaid)));
    Simulation::new(claims.collect(), seed, trials, chunk, n_ranks)
}

/// What rank 0 has when all ranks have run a mutant; nothing if they could not.
fn sums_of(space: &Simulation, mutation: &Mutation<Task>, n_ranks: u32) -> Option<Vec<Sums>> {
    let ranks = Runtime::builder().threads(1).bind(Bind::None);
    let ended = launch(ranks.ranks(n_ranks as usize), |runtime| {
        let mutant = Mutant::new(space, mutation);
        runtime.run_across(&mutant)?;
        Ok::<_, Error>(mutant.space().sums())
    });
    ended.ok().flatten()
}

#[test]
fn both_ends_of_every_edge_agree_and_every_mutant_is_found() {
    for (claims, trials, chunk, n_ranks) in [
        (1, 1, 1, 1),
        (2, 3, 2, 1),
        (3, 5, 2, 2),
        (2, 4, 1, 3),
        (1, 2, 1, 6),
    ] {
        let space = simulation(claims, trials, chunk, n_ranks);
        let n_ranks = n_ranks as u32;
        every_edge_counts(&space, n_ranks);
        every_edge_counts(&Base::new(&space), n_ranks);
        verify(&Ideal(&space), n_ranks).unwrap();
        let one_chunk = trials <= chunk;
        let right = sums_of(&space, &Mutation::Count(0), n_ranks);
        assert!(right.is_some());
        for mutation in mutations(&space, n_ranks, 1) {
            // What goes home is no contradiction: it is found when sums are missing, or those of a chunk.
            let is_missed = match mutation {
                // Of one chunk they are the right ones.
                Mutation::Output(Task::Reduce { .. }, _, Twist::Flow(1)) if one_chunk => false,
                Mutation::Output(
                    Task::Reduce { .. },
                    _,
                    Twist::Removed | Twist::Slot(_) | Twist::Flow(_),
                ) => sums_of(&space, &mutation, n_ranks) == right,
                _ => verify(&Mutant::new(&space, &mutation), n_ranks).is_ok(),
            };
            assert!(!is_missed, "{mutation:?} on {n_ranks} ranks");
        }
    }
}

#[test]
fn prices_are_the_same_for_all_threads_and_ranks() {
    let arguments = ["--swaptions", "5", "--trials", "1000", "--chunk", "90"];
    let alone = object(&[&arguments[..], &["--threads", "1"]].concat());
    assert_eq!(
        (&alone["verified"], &alone["tasks"]),
        (&Value::Null, &65.into())
    );
    for more in [
        &["--threads", "2"][..],
        &["--threads", "3"],
        &["--ranks", "2"],
        &["--ranks", "3"],
        &["--ranks", "4", "--variant", "base"],
        &["--ranks", "5"],
        &["--ranks", "6"],
    ] {
        let told = object(&[&arguments[..], more].concat());
        assert_eq!(told["digest"], alone["digest"], "{more:?}");
        assert_eq!(
            told["messages"].as_u64() > Some(0),
            told["ranks"] != 1,
            "{told}"
        );
    }
    let ideal = object(&[&arguments[..], &["--ranks", "2", "--variant", "ideal"]].concat());
    assert_ne!(ideal["digest"], alone["digest"]);
    assert_eq!(ideal["messages"], 0);
    assert_eq!(answer(&["--trials", "0"]).status, 2);
    assert_eq!(answer(&["--trials", "100000000", "--chunk", "1"]).status, 2);
}
