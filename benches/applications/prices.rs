//! Blackscholes and Swaptions: independent tasks beside plain loops over the same vector code, and beside
//! a scalar loop.

use super::Outcome;
use super::kept::Row;
use super::turns::{Contestant, loops, tasks, turns};
use applications::blackscholes::options::{Contract, Options};
use applications::blackscholes::price::{Batch, Formula, WIDTH};
use applications::blackscholes::space::Pricing;
use applications::swaptions::contract::{Par, Swaption};
use applications::swaptions::model::{Claim, Model, Sums, simulate};
use applications::swaptions::random::Random;
use applications::swaptions::space::{Simulation, default_chunk};
use applications::vector::Real;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// Workers of a contestant.
const WORKERS: [usize; 2] = [1, 2];

/// 65 536 options, each priced so many times, in blocks of 1024.
pub fn blackscholes(rounds: usize, quick: bool) -> Outcome<Row> {
    let repeats = if quick { 5 } else { 100 };
    let options = Options::of_parsec(65_536);
    let title = format!("blackscholes, 65536 x {repeats}");
    let name = "scalar loop, f64, 1 thread".into();
    let mut scalar: Vec<Contestant> = vec![Contestant::other(name, || {
        let start = Instant::now();
        scalar_loop(&options, repeats);
        Ok(start.elapsed().as_secs_f64())
    })];
    let work = (options.count * repeats) as f64;
    let (double, single) = (of::<f64>(&options, repeats)?, of::<f32>(&options, repeats)?);
    scalar.extend(double.into_iter().chain(single));
    // Beside the vector loop on two threads.
    turns(&title, (work, "prices a second"), rounds, 2, scalar)
}

fn of<T: Real>(options: &Options, repeats: usize) -> Outcome<Vec<Contestant<'_>>> {
    let mut contestants: Vec<Contestant> = Vec::new();
    let all: Vec<Contract> = (0..options.count).map(|at| options.get(at)).collect();
    for threads in WORKERS {
        let batches: Vec<Batch<T>> = all.chunks(WIDTH).map(Batch::new).collect();
        let mut prices = vec![[T::of(0.0); WIDTH]; batches.len()];
        let price = move || {
            let blocks = prices.par_chunks_mut(1024 / WIDTH);
            let blocks = blocks.zip(batches.par_chunks(1024 / WIDTH));
            blocks.for_each(|(prices, batches)| {
                for _ in 0..repeats {
                    for (batch, prices) in black_box(batches).iter().zip(&mut *prices) {
                        batch.price(Formula::Polynomial, prices);
                    }
                }
            });
        };
        let name = format!("vector loop, {}", T::PRECISION);
        contestants.push(loops(&name, threads, price)?);
    }
    for workers in WORKERS {
        let space = Pricing::<T>::new(options, 1024, Formula::Polynomial, repeats, 1);
        contestants.push(tasks(&format!("tasks, {}", T::PRECISION), workers, space)?);
    }
    Ok(contestants)
}

/// As PARSEC does it, in f64: one option after the other, with the functions of the standard library.
fn scalar_loop(options: &Options, repeats: usize) {
    let normal = |x: f64| {
        let k = 1.0 / (1.0 + 0.2316419 * x.abs());
        let terms = [
            1.330274429,
            -1.821255978,
            1.781477937,
            -0.356563782,
            0.319381530,
        ];
        let sum = terms.into_iter().fold(0.0, |sum, term| sum * k + term) * k;
        let below = 1.0 - (-0.5 * x * x).exp() * 0.3989422804014327 * sum;
        if x < 0.0 { 1.0 - below } else { below }
    };
    for _ in 0..repeats {
        for at in 0..options.count {
            let Contract {
                spot,
                strike,
                rate,
                volatility,
                time,
                is_put,
                ..
            } = black_box(options.get(at));
            let spread = volatility * time.sqrt();
            let d1 =
                ((spot / strike).ln() + (rate + volatility * volatility * 0.5) * time) / spread;
            let (n1, n2) = (normal(d1), normal(d1 - spread));
            let discounted = strike * (-(rate * time)).exp();
            black_box(match is_put {
                false => spot * n1 - discounted * n2,
                true => discounted * (1.0 - n2) - spot * (1.0 - n1),
            });
        }
    }
}

/// 32 swaptions, and one with as many trials as all of them.
pub fn swaptions(rounds: usize, quick: bool) -> Outcome<Vec<Row>> {
    let trials = if quick { 2_000 } else { 20_000 };
    let mut rows = Vec::new();
    for (count, trials) in [(32, trials), (1, 32 * trials)] {
        let (swaptions, seed) = Swaption::of_parsec(count);
        let claims: Vec<_> = swaptions
            .iter()
            .map(|of| (of.model(), of.claim(Par::Repaid)))
            .collect();
        let mut contestants: Vec<Contestant> = Vec::new();
        for threads in WORKERS {
            let claims = &claims;
            let price = move || _ = black_box(loop_over(claims, seed, trials));
            contestants.push(loops("loop over chunks", threads, price)?);
        }
        for workers in WORKERS {
            let space = Simulation::new(claims.clone(), seed, trials, default_chunk(trials), 1);
            contestants.push(tasks("tasks", workers, space)?);
        }
        let (title, work) = (
            format!("swaptions, {count} x {trials}"),
            (count as u64 * trials) as f64,
        );
        let work = (work, "trials a second");
        rows.push(turns(&title, work, rounds, 1, contestants)?);
    }
    Ok(rows)
}

fn loop_over(claims: &[(Model, Claim)], seed: u32, trials: u64) -> Vec<Sums> {
    let chunk = default_chunk(trials);
    let of = |(at, (model, claim)): (usize, &(Model, Claim))| {
        let random = Random::new(seed + at as u32);
        let chunks = (0..trials.div_ceil(chunk)).into_par_iter();
        let sums =
            chunks.map(|c| simulate(model, claim, random, c * chunk..trials.min((c + 1) * chunk)));
        sums.collect::<Vec<_>>()
            .into_iter()
            .fold(Sums::default(), Sums::and)
    };
    claims.par_iter().enumerate().map(of).collect()
}
