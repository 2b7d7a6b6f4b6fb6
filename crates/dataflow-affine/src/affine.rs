//! Affine expressions: integer combinations of variables, and a constant.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Neg, Sub};

/// A parameter of a program, or the variable of one of its loops.
///
/// # Examples
/// See [`Affine`](Affine#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub(crate) u32);

/// Where the variables of a second instance begin, and where the parameters do.
const OTHER: u32 = 1 << 16;
const PARAMETER: u32 = 1 << 24;

impl Var {
    pub(crate) fn parameter(number: usize) -> Var {
        Var(PARAMETER + number as u32)
    }

    /// The number of a parameter; `None` for the variable of a loop.
    pub(crate) fn as_parameter(self) -> Option<usize> {
        self.0.checked_sub(PARAMETER).map(|number| number as usize)
    }

    /// The same variable of a second instance of the same or of another statement. Parameters are
    /// the same for all.
    pub(crate) fn other(self) -> Var {
        match self.as_parameter() {
            Some(_) => self,
            None => Var(self.0 % OTHER + OTHER),
        }
    }

    /// Whether it is one of a second instance.
    pub(crate) fn is_other(self) -> bool {
        self != self.own()
    }

    /// The variable of which this is that of a second instance.
    pub(crate) fn own(self) -> Var {
        match self.as_parameter() {
            Some(_) => self,
            None => Var(self.0 % OTHER),
        }
    }

    /// That of the second instance for the first one's, and the reverse.
    pub(crate) fn exchanged(self) -> Var {
        if self == self.own() {
            self.other()
        } else {
            self.own()
        }
    }
}

/// c₁·x₁ + … + cₙ·xₙ + c, with no coefficient 0 and the variables in order; or nothing is known, because a
/// number [was too large](Affine::is_too_large).
///
/// # Examples
/// ```
/// use dataflow_affine::Program;
///
/// let mut program = Program::default();
/// let (n, m) = (program.parameter("n"), program.parameter("m"));
/// let e = 2 * n - m + 3;
/// assert_eq!(program.expression(&e), "2 * n + 3 - m");
/// assert_eq!((e.coefficient(n), e.coefficient(m), e.constant()), (2, -1, 3));
/// assert_eq!(e.with(m, &(n + 1)), n + 2);
/// assert_eq!(e.at(&|var| if var == n { 10 } else { 4 }), 19);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Affine {
    terms: Vec<(Var, i64)>,
    constant: i64,
    is_too_large: bool,
}

/// So large may a number be: products with values of variables are exact in i128, and so are sums of some.
const LARGEST: u128 = 1 << 61;

impl Affine {
    /// The variables and their coefficients, none of which is 0.
    pub fn terms(&self) -> &[(Var, i64)] {
        &self.terms
    }

    /// What is added to the terms.
    pub fn constant(&self) -> i64 {
        self.constant
    }

    /// The coefficient of a variable; 0 if it does not occur.
    pub fn coefficient(&self, var: Var) -> i64 {
        let found = self.terms.binary_search_by_key(&var, |term| term.0);
        found.map_or(0, |at| self.terms[at].1)
    }

    /// Where it stands in the order of expressions beside the terms of `-other`.
    pub(crate) fn cmp_terms_negated(&self, other: &Affine) -> Ordering {
        let negated = other.terms.iter().map(|&(var, c)| (var, -c));
        self.terms.iter().copied().cmp(negated)
    }

    /// Whether its computation led to numbers beyond 2⁶¹: it has no terms, and whatever follows from it is
    /// too large as well.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    pub(crate) fn too_large() -> Affine {
        Affine {
            is_too_large: true,
            ..Affine::default()
        }
    }

    /// Its value where the variables have these values; the nearest `i64` if it is none.
    pub fn at(&self, value: &impl Fn(Var) -> i64) -> i64 {
        let wide = self.at_wide(value).unwrap_or(i128::MAX);
        wide.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The same, exactly; `None` if it is too large.
    pub(crate) fn at_wide(&self, value: &impl Fn(Var) -> i64) -> Option<i128> {
        let start = (!self.is_too_large).then_some(i128::from(self.constant));
        self.terms.iter().fold(start, |sum, &(var, c)| {
            sum?.checked_add(i128::from(c) * i128::from(value(var)))
        })
    }

    /// `self + factor · other`.
    pub fn plus(&self, other: &Affine, factor: i64) -> Affine {
        let mut is_too_large = self.is_too_large || other.is_too_large;
        let mut sum = |a: i64, b: i64| {
            let exact = i128::from(a) + i128::from(factor) * i128::from(b);
            is_too_large |= exact.unsigned_abs() > LARGEST;
            exact as i64 // the same, unless it is too large
        };
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut own, mut its) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let (var, c) = match (own.peek(), its.peek()) {
                (Some(&&(x, a)), Some(&&(y, b))) if x == y => {
                    own.next();
                    its.next();
                    (x, sum(a, b))
                }
                (Some(&&(x, a)), Some(&&(y, _))) if x < y => {
                    own.next();
                    (x, a)
                }
                (_, Some(&&(y, b))) => {
                    its.next();
                    (y, sum(0, b))
                }
                (Some(&&(x, a)), None) => {
                    own.next();
                    (x, a)
                }
                (None, None) => break,
            };
            if c != 0 {
                terms.push((var, c));
            }
        }
        let constant = sum(self.constant, other.constant);
        match is_too_large {
            true => Affine::too_large(),
            false => Affine {
                terms,
                constant,
                is_too_large,
            },
        }
    }

    /// `factor · self`.
    pub fn times(&self, factor: i64) -> Affine {
        Affine::default().plus(self, factor)
    }

    /// The expression with another one in place of a variable.
    pub fn with(&self, var: Var, value: &Affine) -> Affine {
        match self.coefficient(var) {
            0 => self.clone(),
            c => {
                let mut rest = self.clone();
                rest.terms.retain(|term| term.0 != var);
                rest.plus(value, c)
            }
        }
    }

    /// The expression with each variable replaced by another, or kept.
    pub(crate) fn renamed(&self, name: &impl Fn(Var) -> Var) -> Affine {
        let mut terms: Vec<_> = self.terms.iter().map(|&(v, c)| (name(v), c)).collect();
        terms.sort_unstable();
        Affine { terms, ..*self }
    }

    /// Of `self ≥ 0`: the same for integers, with coefficients that have no common divisor.
    pub(crate) fn tightened(mut self) -> Affine {
        let divisor = self.terms.iter().fold(0, |g, term| gcd(g, term.1));
        if divisor > 1 {
            self.terms.iter_mut().for_each(|term| term.1 /= divisor);
            self.constant = self.constant.div_euclid(divisor);
        }
        self
    }

    /// Of `self ≥ 0`: what holds exactly where that does not.
    pub(crate) fn negated(&self) -> Affine {
        self.times(-1) - 1
    }

    /// Of `self ≥ 0` or `self = 0` with coefficient ±1 of `var`: what `var` is compared with.
    pub(crate) fn bound(&self, var: Var) -> Affine {
        let c = self.coefficient(var);
        self.plus(&Affine::from(var), -c).times(-c)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    match b {
        0 => a.abs(),
        _ => gcd(b, a % b),
    }
}

impl From<i64> for Affine {
    fn from(constant: i64) -> Affine {
        Affine {
            constant,
            ..Affine::default()
        }
    }
}

impl From<Var> for Affine {
    fn from(var: Var) -> Affine {
        Affine {
            terms: vec![(var, 1)],
            ..Affine::default()
        }
    }
}

impl<T: Into<Affine>> Add<T> for Affine {
    type Output = Affine;
    fn add(self, other: T) -> Affine {
        self.plus(&other.into(), 1)
    }
}

impl<T: Into<Affine>> Sub<T> for Affine {
    type Output = Affine;
    fn sub(self, other: T) -> Affine {
        self.plus(&other.into(), -1)
    }
}

impl Neg for Affine {
    type Output = Affine;
    fn neg(self) -> Affine {
        self.times(-1)
    }
}

impl<T: Into<Affine>> Add<T> for Var {
    type Output = Affine;
    fn add(self, other: T) -> Affine {
        Affine::from(self) + other
    }
}

impl<T: Into<Affine>> Sub<T> for Var {
    type Output = Affine;
    fn sub(self, other: T) -> Affine {
        Affine::from(self) - other
    }
}

impl Mul<Var> for i64 {
    type Output = Affine;
    fn mul(self, var: Var) -> Affine {
        Affine::from(var).times(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_sums_without_zeros() {
        let (x, y) = (Var(0), Var(1));
        let sum = 2 * x + y - 3;
        assert_eq!(sum.clone() - 2 * x, y - 3);
        assert_eq!(sum.with(x, &(y + 1)), 3 * y - 1);
        assert_eq!(sum.at(&|v| i64::from(v.0) + 5), 13);
        assert_eq!((4 * x - 6 * y - 3).tightened(), 2 * x - 3 * y - 2);
        assert_eq!((y - x - 1).bound(y), x + 1);
        assert_eq!((x - y - 1).bound(y), x - 1);
        assert_eq!(x.other().own(), x);
    }

    /// They wrapped around, and formulas were of other numbers.
    #[test]
    fn numbers_that_are_too_large_are_told_and_stay_so() {
        let (x, y) = (Var(0), Var(1));
        let large = (1 << 40) * x + 1;
        assert_eq!(large.at(&|_| 1 << 40), i64::MAX);
        let larger = large.with(x, &((1 << 40) * y));
        assert!(!large.is_too_large() && larger.is_too_large());
        assert!((larger.clone() - larger.clone()).is_too_large());
        assert!(larger.with(y, &0.into()).tightened().is_too_large());
        let largest = (1 << 61) * x;
        assert!(!largest.is_too_large() && (largest + x).is_too_large());
    }
}
