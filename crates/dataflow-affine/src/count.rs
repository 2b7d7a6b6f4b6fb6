//! Counting: how many tasks a statement has, and which number one of them has, as polynomials.
//!
//! The sum of a polynomial over a range is a polynomial in its bounds (Faulhaber), right wherever the
//! range does not end before it begins: of `1..n` it is not where n is 0.

use crate::affine::{Affine, Var};
use crate::program::{Program, Statement};
use crate::system::{Inexact, System};
use std::collections::BTreeMap;

/// Variables and their powers.
type Monomial = Vec<(Var, u32)>;

/// A polynomial with rational coefficients: a sum of integer multiples of monomials, divided.
///
/// # Examples
/// The tiles of a lower triangle are (n² + n) / 2:
/// ```
/// use dataflow_affine::{Mode, Program, count};
///
/// let mut program = Program::default();
/// let n = program.parameter("n");
/// let a = program.family("A", true);
/// program.each("m", 0, n, |program, m| {
///     program.each("k", 0, m + 1, |program, k| {
///         program.task("Tile", &[(Mode::Update, a, &[m + 0, k + 0])]);
///     });
/// });
/// let tasks = count(&program, &program.statements()[0])?.expect("loops without a condition");
/// assert_eq!((tasks.divisor(), tasks.at(&|_| 4)), (2, 10));
/// # Ok::<(), dataflow_affine::Inexact>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polynomial {
    terms: BTreeMap<Monomial, i128>,
    divisor: i128,
}

impl Default for Polynomial {
    fn default() -> Self {
        Polynomial::constant(0)
    }
}

impl Polynomial {
    /// Its terms: coefficient and powers of variables; their sum is to be divided.
    pub fn terms(&self) -> impl Iterator<Item = (i128, &[(Var, u32)])> {
        self.terms.iter().map(|(powers, &c)| (c, &powers[..]))
    }

    /// By what the sum of the terms is to be divided.
    pub fn divisor(&self) -> i128 {
        self.divisor
    }

    /// Its value, where it is an integer.
    pub fn at(&self, value: &impl Fn(Var) -> i64) -> i128 {
        let monomial = |powers: &Monomial| {
            let powers = powers.iter().map(|&(v, p)| i128::from(value(v)).pow(p));
            powers.product::<i128>()
        };
        let sum: i128 = self.terms.iter().map(|(m, c)| c * monomial(m)).sum();
        sum / self.divisor
    }

    /// Whether no term is subtracted.
    pub fn is_sum(&self) -> bool {
        self.terms.values().all(|&c| c >= 0)
    }

    /// How many bits the variables may have so that no step of its evaluation, in any order, needs
    /// more than so many bits (and a sign, unless it [is a sum](Self::is_sum)): at most 32.
    pub fn safe_bits(&self, width: u32) -> u32 {
        let fits = |&bits: &u32| {
            let largest = (1i128 << bits) - 1;
            let mut terms = self.terms.iter().map(|(powers, c)| {
                let degree = powers.iter().map(|v| v.1).sum();
                largest.checked_pow(degree)?.checked_mul(c.abs())
            });
            let sum = terms.try_fold(0i128, |sum, term| sum.checked_add(term?));
            sum.is_some_and(|sum| sum >> width == 0)
        };
        (0..=32).rev().find(fits).unwrap_or(0)
    }

    fn constant(number: i128) -> Polynomial {
        Polynomial::of(BTreeMap::from([(Vec::new(), number)]), 1)
    }

    fn of(mut terms: BTreeMap<Monomial, i128>, divisor: i128) -> Polynomial {
        terms.retain(|_, c| *c != 0);
        let common = terms.values().fold(divisor, |g, &c| gcd(g, c));
        terms.values_mut().for_each(|c| *c /= common);
        let divisor = divisor / common;
        Polynomial { terms, divisor }
    }

    fn affine(e: &Affine) -> Polynomial {
        let terms = e
            .terms()
            .iter()
            .map(|&(v, c)| (vec![(v, 1)], i128::from(c)));
        let constant = (Vec::new(), i128::from(e.constant()));
        Polynomial::of(terms.chain([constant]).collect(), 1)
    }

    /// `self + numerator/divisor · other`.
    fn plus(&self, other: &Polynomial, numerator: i128, divisor: i128) -> Polynomial {
        let (own, its) = (other.divisor * divisor, self.divisor * numerator);
        let mut terms: BTreeMap<Monomial, i128> = self
            .terms
            .iter()
            .map(|(m, c)| (m.clone(), c * own))
            .collect();
        for (m, c) in &other.terms {
            *terms.entry(m.clone()).or_default() += c * its;
        }
        Polynomial::of(terms, self.divisor * own)
    }

    /// The sum of both.
    pub fn and(&self, other: &Polynomial) -> Polynomial {
        self.plus(other, 1, 1)
    }

    fn product(&self, other: &Polynomial) -> Polynomial {
        let mut terms = BTreeMap::new();
        for (m, c) in &self.terms {
            for (n, d) in &other.terms {
                let mut powers: BTreeMap<Var, u32> = m.iter().copied().collect();
                for &(v, p) in n {
                    *powers.entry(v).or_default() += p;
                }
                *terms.entry(powers.into_iter().collect()).or_default() += c * d;
            }
        }
        Polynomial::of(terms, self.divisor * other.divisor)
    }

    /// The coefficients of the powers of a variable, lowest first.
    fn powers_of(&self, var: Var) -> Vec<Polynomial> {
        let mut powers: Vec<BTreeMap<Monomial, i128>> = vec![BTreeMap::new()];
        for (m, &c) in &self.terms {
            let power = m.iter().find(|v| v.0 == var).map_or(0, |v| v.1) as usize;
            let rest = m.iter().copied().filter(|v| v.0 != var).collect();
            powers.resize(powers.len().max(power + 1), BTreeMap::new());
            powers[power].insert(rest, c);
        }
        let of = |terms| Polynomial::of(terms, self.divisor);
        powers.into_iter().map(of).collect()
    }

    /// Σ over `var` from `from` to before `to`, where `to` ≥ `from`.
    fn summed(&self, var: Var, from: &Affine, to: &Affine) -> Polynomial {
        let mut sum = Polynomial::constant(0);
        for (power, coefficient) in self.powers_of(var).iter().enumerate() {
            let [upper, lower] = [to, from].map(|end| power_sum(power, &Polynomial::affine(end)));
            sum = sum.and(&coefficient.product(&upper.plus(&lower, -1, 1)));
        }
        sum
    }
}

/// Σ iᵈ for i from 0 to before n: (nᵈ⁺¹ − Σ over k < d of C(d + 1, k) · Σ iᵏ) / (d + 1).
fn power_sum(d: usize, n: &Polynomial) -> Polynomial {
    let mut sums: Vec<Polynomial> = Vec::new();
    let mut power = n.clone();
    for degree in 0..=d {
        let mut sum = power.clone();
        let mut binomial = 1;
        for (k, lower) in sums.iter().enumerate() {
            sum = sum.plus(lower, -binomial, 1);
            binomial = binomial * (degree as i128 + 1 - k as i128) / (k as i128 + 1);
        }
        sums.push(Polynomial::constant(0).plus(&sum, 1, degree as i128 + 1));
        power = power.product(n);
    }
    sums.swap_remove(d)
}

fn gcd(a: i128, b: i128) -> i128 {
    match b {
        0 => a.abs(),
        _ => gcd(b, a % b),
    }
}

/// How many tasks a statement has, if that is one polynomial in the parameters.
///
/// # Errors
/// If it cannot be told exactly whether its loops may end before they begin.
pub fn count(program: &Program, statement: &Statement) -> Result<Option<Polynomial>, Inexact> {
    let counts = counts(program, statement)?;
    Ok(counts.map(|mut counts| counts.swap_remove(0)))
}

/// The number of a task among those of its statement, from 0 and without gaps, if that is one
/// polynomial in its variables and the parameters.
///
/// # Errors
/// As [`count`].
pub fn position(program: &Program, statement: &Statement) -> Result<Option<Polynomial>, Inexact> {
    let Some(counts) = counts(program, statement)? else {
        return Ok(None);
    };
    let mut before = Polynomial::constant(0);
    for (each, inner) in statement.loops.iter().zip(&counts[1..]) {
        before = before.and(&inner.summed(each.var, &each.from, &each.var.into()));
    }
    Ok(Some(before))
}

/// For each loop how many tasks there are in one of its steps, all of them first; `None` where a loop
/// may end before it begins, or a condition leaves some out.
fn counts(program: &Program, statement: &Statement) -> Result<Option<Vec<Polynomial>>, Inexact> {
    let mut known = program.context();
    for each in &statement.loops {
        if !known.implies(&each.to.plus(&each.from, -1))? {
            return Ok(None);
        }
        known = known.with(each.bounds());
    }
    let [all] = &statement.pieces[..] else {
        return Ok(None);
    };
    let conditions: &System = &all.given(&known)?;
    if !conditions.is_always() {
        return Ok(None);
    }
    let mut counts = vec![Polynomial::constant(1)];
    for each in statement.loops.iter().rev() {
        counts.push(counts[counts.len() - 1].summed(each.var, &each.from, &each.to));
    }
    counts.reverse();
    Ok(Some(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_of_tasks_is_numbered_in_64_bits_for_every_side() {
        let [i, side, j] = [0, 1, 2].map(|var| Polynomial::affine(&Var(var).into()));
        let number = i.product(&side).and(&j);
        assert!(number.is_sum());
        assert_eq!((number.safe_bits(64), number.safe_bits(63)), (32, 31));
        let (most, value) = (i64::from(u32::MAX), number.at(&|_| i64::from(u32::MAX)));
        assert_eq!(
            value,
            i128::from(most) * i128::from(most) + i128::from(most)
        );
        assert!(value < 1 << 64);
        let less = side.plus(&j, -1, 1);
        assert!(!less.is_sum());
        assert_eq!(
            less.safe_bits(16),
            side.and(&j).safe_bits(16),
            "in any order"
        );
    }

    #[test]
    fn sums_of_powers_are_faulhabers() {
        let n = Polynomial::affine(&Var(0).into());
        for d in 0..5 {
            let sum = power_sum(d, &n);
            for value in 0..6i64 {
                let plain: i64 = (0..value).map(|i| i.pow(d as u32)).sum();
                assert_eq!(
                    sum.at(&|_| value),
                    i128::from(plain),
                    "d = {d}, n = {value}"
                );
            }
        }
    }
}
