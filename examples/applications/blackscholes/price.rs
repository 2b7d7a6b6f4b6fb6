//! Price: the formula of Black and Scholes, with the normal distribution as PARSEC approximates it, in
//! vector code, and exactly.
//!
//! # Source
//! Black, Scholes, *The pricing of options and corporate liabilities*, J. Political Economy 81 (1973);
//! Abramowitz, Stegun, *Handbook of Mathematical Functions*, 26.2.17.

use super::options::Contract;
use crate::vector::{Loop, Real, dispatch, polynomial};

/// How the normal distribution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Formula {
    /// By a polynomial, within 7.45e-8, as PARSEC does it
    Polynomial,
    /// By the error function, to the last places of f64
    Exact,
}

/// Options that are priced at once.
pub const WIDTH: usize = 64;

/// Some options, field by field.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    spot: [T; WIDTH],
    strike: [T; WIDTH],
    rate: [T; WIDTH],
    volatility: [T; WIDTH],
    time: [T; WIDTH],
    /// 1 for a put, 0 for a call.
    put: [T; WIDTH],
}

impl<T: Real> Batch<T> {
    /// Up to [`WIDTH`] options; the last one stands for those that are missing.
    pub fn new(options: &[Contract]) -> Self {
        let field = |of: fn(&Contract) -> f64| {
            std::array::from_fn(|at| T::of(of(&options[at.min(options.len() - 1)])))
        };
        Batch {
            spot: field(|option| option.spot),
            strike: field(|option| option.strike),
            rate: field(|option| option.rate),
            volatility: field(|option| option.volatility),
            time: field(|option| option.time),
            put: field(|option| option.is_put.into()),
        }
    }

    /// Their prices.
    pub fn price(&self, formula: Formula, prices: &mut [T; WIDTH]) {
        match formula {
            Formula::Polynomial => dispatch(ByPolynomial {
                options: self,
                prices,
            }),
            Formula::Exact => {
                for (at, price) in prices.iter_mut().enumerate() {
                    let of = |field: &[T; WIDTH]| field[at].wide();
                    *price = T::of(exact(&Contract {
                        spot: of(&self.spot),
                        strike: of(&self.strike),
                        rate: of(&self.rate),
                        volatility: of(&self.volatility),
                        time: of(&self.time),
                        is_put: of(&self.put) != 0.0,
                        reference: None,
                    }));
                }
            }
        }
    }
}

struct ByPolynomial<'a, T> {
    options: &'a Batch<T>,
    prices: &'a mut [T; WIDTH],
}

impl<T: Real> Loop for ByPolynomial<'_, T> {
    #[inline(always)]
    fn run(self) {
        let one = T::of(1.0);
        let of = self.options;
        for at in 0..WIDTH {
            let (spot, strike, rate, time) = (of.spot[at], of.strike[at], of.rate[at], of.time[at]);
            // d₁ = (ln(S/K) + (r + v²/2)·T) / (v·√T),  d₂ = d₁ − v·√T
            let v = of.volatility[at];
            let spread = v * time.root();
            let drift = (rate + v * v * T::of(0.5)) * time;
            let d1 = ((spot / strike).logarithm() + drift) / spread;
            let (n1, n2) = (normal(d1), normal(d1 - spread));
            // call = S·N(d₁) − K·e^(−rT)·N(d₂),  put = K·e^(−rT)·(1 − N(d₂)) − S·(1 − N(d₁))
            let discounted = strike * (-(rate * time)).exponential();
            let call = spot * n1 - discounted * n2;
            let put = discounted * (one - n2) - spot * (one - n1);
            self.prices[at] = if of.put[at] > T::of(0.0) { put } else { call };
        }
    }
}

/// `N(x) = 1 − e^(−x²/2)/√(2π) · k·(c₁ + k·(c₂ + …))` with `k = 1/(1 + 0.2316419·x)` for x ≥ 0, and
/// `N(−x) = 1 − N(x)`.
#[inline(always)]
fn normal<T: Real>(x: T) -> T {
    const TERMS: [f64; 5] = [
        0.319381530,
        -0.356563782,
        1.781477937,
        -1.821255978,
        1.330274429,
    ];
    let (zero, one) = (T::of(0.0), T::of(1.0));
    let size = if x < zero { -x } else { x };
    let k = one / (one + T::of(0.2316419) * size);
    let density = (T::of(-0.5) * size * size).exponential() * T::of(0.3989422804014327);
    let below = one - density * k * polynomial(TERMS, k);
    if x < zero { one - below } else { below }
}

/// The price to the last places of `f64`, by the error function.
pub fn exact(option: &Contract) -> f64 {
    let Contract {
        spot,
        strike,
        rate,
        volatility,
        time,
        ..
    } = *option;
    let spread = volatility * time.sqrt();
    let d1 = ((spot / strike).ln() + (rate + volatility * volatility / 2.0) * time) / spread;
    let d2 = d1 - spread;
    let discounted = strike * (-rate * time).exp();
    // N(x) = erfc(−x/√2) / 2, and 1 − N(x) = N(−x)
    let normal = |x: f64| libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) / 2.0;
    match option.is_put {
        false => spot * normal(d1) - discounted * normal(d2),
        true => discounted * normal(-d2) - spot * normal(-d1),
    }
}
