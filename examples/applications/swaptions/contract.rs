//! Contract: the swaptions of PARSEC's inputs, and the payments that each is a right to.

use super::model::{Claim, Model, VOLATILITIES};
use super::random::Random;

/// PARSEC's seed.
pub const SEED: u32 = 1979;

/// What happens to par where the payment interval does not divide the tenor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Par {
    /// It is repaid at the end, with the interest of the last, shorter interval.
    Repaid,
    /// It is never repaid, and the last interval pays nothing: what PARSEC computes.
    NeverRepaid,
}

/// The right to enter a swap that pays fixed interest, after `maturity` years for `tenor` years.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swaption {
    /// Years of the forward curve, in eleven steps.
    pub years: f64,
    /// Interest of a year, continuous; 0.1 is 10 %.
    pub strike: f64,
    pub maturity: f64,
    pub tenor: f64,
    /// Years between payments.
    pub interval: f64,
}

impl Swaption {
    /// The first swaptions of PARSEC's inputs, and the seed of the first one's random numbers; that of
    /// the next is one more.
    pub fn of_parsec(count: usize) -> (Vec<Swaption>, u32) {
        let mut random = Random::new(SEED);
        let seed = (2147483647.0 * random.draw()) as u32;
        let each = std::iter::repeat_with(|| Swaption {
            years: 5.0 + (60.0 * random.draw()).floor() / 4.0,
            strike: 0.1 + 0.1 * (49.0 * random.draw()).floor(),
            maturity: 1.0,
            tenor: 2.0,
            interval: 1.0,
        });
        (each.take(count).collect(), seed)
    }

    /// The rates that it depends on.
    pub fn model(&self) -> Model {
        Model::new(self.years, VOLATILITIES)
    }

    /// Steps of the model from payment to payment, until the start, and of the whole tenor.
    pub fn steps(&self) -> [usize; 3] {
        let step = self.model().step;
        [self.interval, self.maturity, self.tenor].map(|years| (years / step + 0.5) as usize)
    }

    /// What is paid when. A payment is the interest of its interval, the last one repays par, too.
    pub fn claim(&self, par: Par) -> Claim {
        let [interval, start, tenor] = self.steps();
        let coupon = (self.strike * self.interval).exp() - 1.0;
        let whole = (interval..=tenor).step_by(interval);
        let mut payments: Vec<_> = whole.map(|steps| (steps, coupon)).collect();
        match (tenor % interval, par) {
            (0, _) => payments
                .iter_mut()
                .rev()
                .take(1)
                .for_each(|last| last.1 += 1.0),
            (_, Par::NeverRepaid) => {}
            (rest, Par::Repaid) => {
                let years = self.interval * rest as f64 / interval as f64;
                payments.push((tenor, (self.strike * years).exp()));
            }
        }
        Claim {
            start,
            payments,
            price: 1.0,
        }
    }
}
