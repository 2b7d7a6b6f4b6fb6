//! Model: forward rates in three factors, after Heath, Jarrow and Morton, in eleven steps; and what a
//! claim on them is worth on simulated paths, many paths at a time.
//!
//! # Source
//! Heath, Jarrow, Morton, *Bond pricing and the term structure of interest rates: a new methodology for
//! contingent claims valuation*, Econometrica 60 (1992); the parameters are those of PARSEC 3.0.

use super::random::{PERIOD, Random, normal};
use crate::vector::{Loop, Real, dispatch};
use std::ops::Range;

/// Points of the forward curve.
pub const N_POINTS: usize = 11;
/// Steps of a path, and forward rates that move in the first.
pub const N_STEPS: usize = N_POINTS - 1;
const N_FACTORS: usize = 3;
/// Random numbers that a trial takes.
pub const N_DRAWS: u64 = (N_STEPS * N_FACTORS) as u64;
/// Trials that have random numbers of their own: those after them would draw what the first have drawn, and
/// be no independent samples.
pub const MOST_TRIALS: u64 = PERIOD / N_DRAWS;
/// Trials that are simulated at once.
const WIDTH: usize = 32;

/// The volatility of each factor, by distance.
pub const VOLATILITIES: [[f64; N_STEPS]; N_FACTORS] = [
    [0.01; N_STEPS],
    [
        0.009048, 0.008187, 0.007408, 0.006703, 0.006065, 0.005488, 0.004966, 0.004493, 0.004066,
        0.003679,
    ],
    [
        0.001, 0.00075, 0.0005, 0.00025, 0.0, -0.00025, -0.0005, -0.00075, -0.001, -0.00125,
    ],
];

/// The forward curve today, and how it moves in a step.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Years of a step.
    pub step: f64,
    /// Forward rates, by step.
    pub forward: [f64; N_POINTS],
    /// What a forward rate gains in a step, by distance: `μ·Δ`.
    drift: [f64; N_STEPS],
    /// And by how much it moves with each factor: `σ·√Δ`.
    spread: [[f64; N_FACTORS]; N_STEPS],
}

impl Model {
    /// The curve of so many years, with these volatilities.
    pub fn new(years: f64, volatilities: [[f64; N_STEPS]; N_FACTORS]) -> Self {
        let step = years / N_POINTS as f64;
        // From yields 0.1, 0.105, 0.11, …: f(j) = (j + 1)·y(j) − j·y(j − 1).
        let total = |j: usize| j as f64 * (0.1 + 0.005 * (j as f64 - 1.0));
        // The sum of all drifts so far is Δ/2 · Σ (sum of a factor's volatilities so far)².
        let sums = |distances: usize| volatilities.map(|of| of[..distances].iter().sum::<f64>());
        let drifts =
            |distances| sums(distances).map(|sum| sum * sum).iter().sum::<f64>() * step / 2.0;
        Model {
            step,
            forward: std::array::from_fn(|j| total(j + 1) - total(j)),
            drift: std::array::from_fn(|l| (drifts(l + 1) - drifts(l)) * step),
            spread: std::array::from_fn(|l| volatilities.map(|of| of[l] * step.sqrt())),
        }
    }

    /// What a payment after so many steps is worth today.
    pub fn discount(&self, steps: usize) -> f64 {
        (-self.step * self.forward[..steps].iter().sum::<f64>()).exp()
    }
}

/// The right to get payments, for a price, after some steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Steps until one may choose.
    pub start: usize,
    /// What is paid, and how many steps after the start.
    pub payments: Vec<(usize, f64)>,
    /// What one pays at the start for that.
    pub price: f64,
}

impl Claim {
    /// What it is worth if it is exercised whatever happens.
    pub fn if_always_exercised(&self, model: &Model) -> f64 {
        let payment = |&(steps, amount): &(usize, f64)| amount * model.discount(self.start + steps);
        let paid = self.payments.iter().map(payment).sum::<f64>();
        paid - self.price * model.discount(self.start)
    }
}

/// The sum of what some trials are worth, and of its squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    pub trials: u64,
    pub values: f64,
    pub squares: f64,
}

impl Sums {
    /// Those of both, in this order.
    pub fn and(self, after: Sums) -> Sums {
        Sums {
            trials: self.trials + after.trials,
            values: self.values + after.values,
            squares: self.squares + after.squares,
        }
    }

    /// The mean value, and its standard error; that of a single trial is not known.
    pub fn mean(&self) -> (f64, Option<f64>) {
        let n = self.trials as f64;
        let variance = (self.squares - self.values * self.values / n).max(0.0) / (n - 1.0);
        let error = (variance.sqrt() / n.sqrt()).is_finite();
        (self.values / n, error.then(|| (variance / n).sqrt()))
    }
}

/// Simulates some trials of a claim; `random` is the generator of its first one, number 0.
pub fn simulate(model: &Model, claim: &Claim, random: Random, trials: Range<u64>) -> Sums {
    let mut sums = Sums::default();
    let mut first = trials.start;
    while first < trials.end {
        let mut values = [0.0; WIDTH];
        dispatch(Paths {
            model,
            claim,
            first: random.after(first * N_DRAWS),
            values: &mut values,
        });
        let n = (trials.end - first).min(WIDTH as u64);
        for value in &values[..n as usize] {
            sums.values += value;
            sums.squares += value * value;
        }
        sums.trials += n;
        first += n;
    }
    sums
}

/// Some trials, one after the other in the stream of random numbers.
struct Paths<'a> {
    model: &'a Model,
    claim: &'a Claim,
    first: Random,
    values: &'a mut [f64; WIDTH],
}

/// A number of each trial.
type Lanes = [f64; WIDTH];

impl Loop for Paths<'_> {
    #[inline(always)]
    fn run(self) {
        let Model { step, forward, .. } = *self.model;
        let mut next = self.first;
        let mut random = [next; WIDTH];
        for random in &mut random[1..] {
            next = next.after(N_DRAWS);
            *random = next;
        }
        let mut rates: [Lanes; N_POINTS] = forward.map(|rate| [rate; WIDTH]);
        // Δ·(F₀(0) + F₁(0) + …) until the start, and then the whole curve.
        let mut waited = [0.0; WIDTH];
        let mut curve = rates;
        for j in 0..=N_STEPS {
            if j < self.claim.start {
                for (waited, rate) in waited.iter_mut().zip(&rates[0]) {
                    *waited += step * rate;
                }
            }
            if j == self.claim.start {
                curve = rates;
            }
            if j < N_STEPS {
                self.model.advance(j, &mut rates, &mut random);
            }
        }
        self.claim.value(step, &curve, &waited, self.values);
    }
}

impl Model {
    /// One step of all rates: `F(l) ← F(l + 1) + μ(l)·Δ + √Δ·Σ σ(l)·z`.
    #[inline(always)]
    fn advance(&self, j: usize, rates: &mut [Lanes; N_POINTS], random: &mut [Random; WIDTH]) {
        let mut z = [[0.0; WIDTH]; N_FACTORS];
        for z in &mut z {
            for (z, random) in z.iter_mut().zip(&mut *random) {
                *z = normal(random.draw());
            }
        }
        for l in 0..N_STEPS - j {
            let (drift, [a, b, c]) = (self.drift[l], self.spread[l]);
            for at in 0..WIDTH {
                let moved = a * z[0][at] + b * z[1][at] + c * z[2][at];
                rates[l][at] = rates[l + 1][at] + drift + moved;
            }
        }
    }
}

impl Claim {
    /// `max(Σ c·P(steps) − price, 0)`, discounted from the start.
    #[inline(always)]
    fn value(&self, step: f64, curve: &[Lanes; N_POINTS], waited: &Lanes, values: &mut Lanes) {
        let (mut paid, mut ahead, mut from) = ([0.0; WIDTH], [0.0; WIDTH], 0);
        for &(steps, amount) in &self.payments {
            for rates in &curve[from..steps] {
                for (ahead, rate) in ahead.iter_mut().zip(rates) {
                    *ahead += step * rate;
                }
            }
            from = steps;
            for (paid, ahead) in paid.iter_mut().zip(&ahead) {
                *paid += amount * (-ahead).exponential();
            }
        }
        for (at, value) in values.iter_mut().enumerate() {
            let gain = paid[at] - self.price;
            let gain = if gain > 0.0 { gain } else { 0.0 };
            *value = gain * (-waited[at]).exponential();
        }
    }
}
