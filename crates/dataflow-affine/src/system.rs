//! Systems of affine inequalities: what follows from them, and what is left without a variable.
//!
//! # Law
//! Everything is exact over the integers. Eliminating a variable (Fourier and Motzkin) is exact where
//! of each pair of bounds one has the coefficient ±1 there; any other pair ends in [`Inexact`].
//!
//! # Source
//! Pugh, *The Omega test*, Supercomputing '91.

use crate::affine::{Affine, Var};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};

/// A conjunction of inequalities `e ≥ 0`.
///
/// # Examples
/// ```
/// use dataflow_affine::{Program, System};
///
/// let mut program = Program::default();
/// let (n, i) = (program.parameter("n"), program.subscript("i"));
/// let inside = System::new([i + 0, n - i - 1]); // 0 ≤ i < n
/// assert!(inside.holds(&|var| if var == n { 3 } else { 2 }));
/// assert!(inside.implies(&(n - 1))?);
/// assert!(inside.with([i - n]).is_empty()?);
/// assert_eq!(inside.without(i)?, System::new([n - 1])); // there is such an i
/// # Ok::<(), dataflow_affine::Inexact>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct System {
    constraints: Vec<Affine>,
}

/// An answer would hold for fractions, and perhaps not for integers; or its numbers are
/// [too large](Affine::is_too_large), and so are both inequalities.
///
/// # Examples
/// Whether there is an integer i with n ≤ 2·i and 3·i ≤ m no inequality of n and m says exactly:
/// ```
/// use dataflow_affine::{Program, System};
///
/// let mut program = Program::default();
/// let (n, m) = (program.parameter("n"), program.parameter("m"));
/// let i = program.subscript("i");
/// let inexact = System::new([2 * i - n, m - 3 * i]).without(i).unwrap_err();
/// let mut coefficients = inexact.constraints.map(|e| e.coefficient(inexact.var));
/// coefficients.sort();
/// assert_eq!((inexact.var, coefficients), (i, [-3, 2]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inexact {
    /// The inequalities whose coefficients are the cause.
    pub constraints: [Affine; 2],
    /// The variable on which both depend.
    pub var: Var,
    is_too_long: bool,
}

impl Inexact {
    /// Whether it was given up, since too much would have to be looked at; the constraints say nothing then.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    pub(crate) fn too_long() -> Inexact {
        Inexact {
            is_too_long: true,
            ..Inexact::of([Affine::default(), Affine::default()], Var::parameter(0))
        }
    }

    /// Inequalities that have no exact formula without a variable.
    pub(crate) fn of(constraints: [Affine; 2], var: Var) -> Inexact {
        Inexact {
            constraints,
            var,
            is_too_long: false,
        }
    }

    /// Where a variable was to be found, or eliminated.
    pub(crate) fn too_large(var: Var) -> Inexact {
        Inexact::of([Affine::too_large(), Affine::too_large()], var)
    }
}

/// What was found out about systems.
#[derive(Default)]
struct Findings {
    /// Those without a point.
    empty: HashSet<System>,
    /// Points of others; those that served last are first.
    points: VecDeque<Point>,
    /// How many more systems may be looked at, within a derivation.
    n_left: Option<usize>,
}

/// Systems that a derivation may look at: more than half a minute would pass otherwise, or hours. The largest that is
/// known takes 20,000.
const MOST_ASKED: usize = 1 << 15;
/// Some megabytes.
const MOST_EMPTY: usize = 1 << 14;
/// As many are tried faster than a variable is eliminated.
const MOST_POINTS: usize = 64;

thread_local! {
    static FINDINGS: RefCell<Findings> = RefCell::default();
}

/// What was found out is forgotten. A point makes a system non-empty whose variables cannot be eliminated:
/// whether a program is refused would depend on the programs before it.
pub fn forget() {
    FINDINGS.with_borrow_mut(|memory| {
        let n_left = memory.n_left;
        *memory = Findings::default();
        memory.n_left = n_left;
    });
}

/// While it lives, [`MOST_ASKED`] systems are looked at and then none: each question is answered by an error.
pub(crate) struct Limit(());

impl Limit {
    pub(crate) fn begin() -> Limit {
        FINDINGS.with_borrow_mut(|memory| memory.n_left = Some(MOST_ASKED));
        Limit(())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        FINDINGS.with_borrow_mut(|memory| memory.n_left = None);
    }
}

impl Findings {
    fn knows_a_point_of(&mut self, system: &System) -> bool {
        let mut points = self.points.iter();
        let Some(at) = points.position(|point| system.holds(&|var| point.value(var))) else {
            return false;
        };
        self.points.swap(0, at);
        true
    }

    fn bound(&mut self) {
        self.points.truncate(MOST_POINTS);
        if self.empty.len() > MOST_EMPTY {
            self.empty.clear();
        }
    }
}

/// Values of variables; those of all others are 0.
#[derive(Debug, Default)]
struct Point {
    values: Vec<(Var, i64)>,
}

impl Point {
    fn value(&self, var: Var) -> i64 {
        let known = self.values.iter().find(|known| known.0 == var);
        known.map_or(0, |known| known.1)
    }
}

/// `e = 0` as two inequalities.
pub(crate) fn equal(a: &Affine, b: &Affine) -> [Affine; 2] {
    [a.plus(b, -1), b.plus(a, -1)]
}

impl System {
    /// The conjunction of inequalities `e ≥ 0`.
    pub fn new(constraints: impl IntoIterator<Item = Affine>) -> Self {
        let constraints = constraints.into_iter().collect();
        System { constraints }.clean()
    }

    /// Its inequalities, each of the form `e ≥ 0`.
    pub fn constraints(&self) -> &[Affine] {
        &self.constraints
    }

    /// Whether it holds everywhere.
    pub fn is_always(&self) -> bool {
        self.constraints.is_empty()
    }

    /// Whether it holds at a point.
    pub fn holds(&self, value: &impl Fn(Var) -> i64) -> bool {
        let mut values = self.constraints.iter().map(|e| e.at_wide(value));
        values.all(|value| value.is_some_and(|value| value >= 0))
    }

    /// Both together.
    pub fn and(&self, other: &System) -> System {
        self.with(other.constraints.iter().cloned())
    }

    /// The system with further inequalities.
    pub fn with(&self, more: impl IntoIterator<Item = Affine>) -> System {
        let mut system = self.clone();
        let mut more = more.into_iter();
        match !self.is_never() && more.all(|e| system.add(e.tightened())) {
            true => system,
            false => System::never(),
        }
    }

    /// Puts an inequality in its place, and keeps the stricter one of two of a kind. `false`: it
    /// contradicts what is there.
    fn add(&mut self, e: Affine) -> bool {
        if e.terms().is_empty() && !e.is_too_large() {
            return e.constant() >= 0;
        }
        let own = &mut self.constraints;
        let opposite = own.binary_search_by(|other| other.cmp_terms_negated(&e));
        if opposite.is_ok_and(|at| own[at].constant() + e.constant() < 0) {
            return false;
        }
        match own.binary_search_by(|other| other.terms().cmp(e.terms())) {
            Ok(at) if own[at].constant() <= e.constant() => {}
            Ok(at) => own[at] = e,
            Err(at) => own.insert(at, e),
        }
        true
    }

    fn never() -> System {
        let constraints = vec![Affine::from(-1)];
        System { constraints }
    }

    /// Whether a contradiction is written in it.
    fn is_never(&self) -> bool {
        let mut constraints = self.constraints.iter();
        constraints.any(|e| e.terms().is_empty() && e.constant() < 0)
    }

    /// Without what says nothing or is said twice.
    fn clean(self) -> System {
        let tight = self.constraints.into_iter().map(Affine::tightened);
        let mut sorted: Vec<Affine> = tight.collect();
        sorted.sort_unstable(); // of equal terms the smallest constant, the strictest, is first
        sorted.dedup_by(|later, first| {
            later.terms() == first.terms() && later.is_too_large() == first.is_too_large()
        });
        if sorted
            .first()
            .is_some_and(|e| e.terms().is_empty() && e.constant() < 0)
        {
            return System::never();
        }
        sorted.retain(|e| !e.terms().is_empty() || e.is_too_large());
        let contradicts = |e: &Affine| {
            let found = sorted.binary_search_by(|other| other.cmp_terms_negated(e));
            found.is_ok_and(|at| sorted[at].constant() + e.constant() < 0)
        };
        if sorted.iter().any(contradicts) {
            return System::never();
        }
        System {
            constraints: sorted,
        }
    }

    /// The system, unless something in it is too large.
    fn if_known(self, var: Var) -> Result<System, Inexact> {
        match self.constraints.iter().any(Affine::is_too_large) {
            false => Ok(self),
            true => Err(Inexact::too_large(var)),
        }
    }

    /// Whether `e ≥ 0` is there and `−e ≥ 0` too.
    pub(crate) fn fixes(&self, e: &Affine) -> bool {
        let constraints = &self.constraints;
        let found = constraints.binary_search_by(|other| other.cmp_terms_negated(e));
        !e.is_too_large() && found.is_ok_and(|at| constraints[at].constant() == -e.constant())
    }

    /// The variables that occur, in order.
    pub(crate) fn vars(&self) -> Vec<Var> {
        let terms = self.constraints.iter().flat_map(|e| e.terms());
        let mut vars: Vec<Var> = terms.map(|term| term.0).collect();
        vars.sort_unstable();
        vars.dedup();
        vars
    }

    /// The system with an expression in place of a variable.
    pub fn substitute(&self, var: Var, value: &Affine) -> System {
        System::new(self.constraints.iter().map(|e| e.with(var, value)))
    }

    pub(crate) fn renamed(&self, name: &impl Fn(Var) -> Var) -> System {
        System::new(self.constraints.iter().map(|e| e.renamed(name)))
    }

    /// An equation that determines a variable: its value.
    pub(crate) fn value_of(&self, var: Var) -> Option<Affine> {
        let determines = |e: &&Affine| e.coefficient(var).abs() == 1 && self.fixes(e);
        self.constraints
            .iter()
            .find(determines)
            .map(|e| e.bound(var))
    }

    /// What holds for the other variables where some value of `var` fulfils the system.
    ///
    /// # Errors
    /// If that would be exact for fractions only, or its numbers are too large.
    pub fn without(&self, var: Var) -> Result<System, Inexact> {
        if let Some(value) = self.value_of(var) {
            return self.substitute(var, &value).if_known(var);
        }
        let (with, mut rest): (Vec<_>, Vec<_>) = self
            .constraints
            .iter()
            .cloned()
            .partition(|e| e.coefficient(var) != 0);
        let (lower, upper): (Vec<_>, Vec<_>) =
            with.into_iter().partition(|e| e.coefficient(var) > 0);
        for low in &lower {
            for high in &upper {
                let (a, b) = (low.coefficient(var), -high.coefficient(var));
                if a != 1 && b != 1 {
                    return Err(Inexact::of([low.clone(), high.clone()], var));
                }
                rest.push(low.times(b).plus(high, a));
            }
        }
        System::new(rest).if_known(var)
    }

    /// The same for several variables.
    pub(crate) fn without_all(&self, vars: &[Var]) -> Result<System, Inexact> {
        let first = self.clone();
        vars.iter()
            .try_fold(first, |system, &var| system.without(var))
    }

    /// Whether no integers fulfil it. An analysis asks most of its questions several times and of
    /// systems that are nearly the same: answers are remembered, and points that fulfilled others are
    /// tried first.
    ///
    /// # Errors
    /// If fractions do and integers perhaps do not, or numbers are too large.
    pub fn is_empty(&self) -> Result<bool, Inexact> {
        if self.is_never() {
            return Ok(true);
        }
        FINDINGS.with_borrow_mut(|memory| {
            if memory.knows_a_point_of(self) {
                return Ok(false);
            }
            if memory.empty.contains(self) {
                return Ok(true);
            }
            if let Some(n_left) = &mut memory.n_left {
                *n_left = n_left.checked_sub(1).ok_or_else(Inexact::too_long)?;
            }
            let point = self.point()?;
            let is_empty = point.is_none();
            match point {
                Some(point) => memory.points.push_front(point),
                None => drop(memory.empty.insert(self.clone())),
            }
            memory.bound();
            Ok(is_empty)
        })
    }

    /// Integers that fulfil it: eliminates one variable after the other, then gives them values in
    /// the opposite order.
    fn point(&self) -> Result<Option<Point>, Inexact> {
        let mut eliminated = Vec::new();
        let mut system = self.clone().if_known(Var::parameter(0))?;
        while let Some(var) = system.cheapest() {
            let rest = system.without(var)?;
            if rest.is_never() {
                return Ok(None);
            }
            eliminated.push((var, system));
            system = rest;
        }
        let mut point = Point::default();
        for (var, system) in eliminated.into_iter().rev() {
            let value = system.least(var, &point);
            let value = value.ok_or_else(|| Inexact::too_large(var))?;
            point.values.push((var, value));
        }
        debug_assert!(self.holds(&|var| point.value(var)), "{self:?} at {point:?}");
        Ok(Some(point))
    }

    /// The least value of a variable where the others have those of a point; the largest if nothing
    /// bounds it from below. `None`: it is too large.
    fn least(&self, var: Var, others: &Point) -> Option<i64> {
        let (mut least, mut largest) = (None, None);
        for e in &self.constraints {
            let c = i128::from(e.coefficient(var));
            let rest = e.at_wide(&|other| others.value(other))?; // that of `var` is not there: 0
            match c {
                0 => {}
                1.. => least = least.max(Some(-rest.div_euclid(c))),
                _ => {
                    let most = rest.div_euclid(-c);
                    largest = Some(largest.map_or(most, |so_far: i128| so_far.min(most)));
                }
            }
        }
        i64::try_from(least.or(largest).unwrap_or(0)).ok()
    }

    /// The variable whose elimination leaves the fewest inequalities.
    fn cheapest(&self) -> Option<Var> {
        let cost = |&var: &Var| {
            if self.value_of(var).is_some() {
                return 0;
            }
            let signs = self.constraints.iter().map(|e| e.coefficient(var));
            let (lower, upper) = signs.fold((0, 0), |(l, u), c| match c {
                0 => (l, u),
                1.. => (l + 1, u),
                _ => (l, u + 1),
            });
            1 + lower * upper
        };
        self.vars().into_iter().min_by_key(cost)
    }

    /// Whether `e ≥ 0` follows.
    pub fn implies(&self, e: &Affine) -> Result<bool, Inexact> {
        self.with([e.negated()]).is_empty()
    }

    /// Whether both have a point in common.
    pub(crate) fn meets(&self, other: &System) -> Result<bool, Inexact> {
        Ok(!self.and(other).is_empty()?)
    }

    /// What has to be said where `context` is known.
    pub fn given(&self, context: &System) -> Result<System, Inexact> {
        let mut kept: Vec<Affine> = Vec::new();
        // From behind, so that what is said of loops further out stays rather than goes.
        for (at, e) in self.constraints.iter().enumerate().rev() {
            let others = kept.iter().chain(&self.constraints[..at]).cloned();
            if !context.with(others).implies(e)? {
                kept.push(e.clone());
            }
        }
        Ok(System::new(kept))
    }

    /// The points of `self` outside of `other`, in disjoint pieces.
    pub(crate) fn minus(&self, other: &System) -> Result<Vec<System>, Inexact> {
        let mut pieces = Vec::new();
        let mut inside = self.clone();
        for e in &other.constraints {
            let piece = inside.with([e.negated()]);
            if !piece.is_empty()? {
                pieces.push(piece);
            }
            inside = inside.with([e.clone()]);
        }
        Ok(pieces)
    }
}

/// The points of pieces outside of a system, in disjoint pieces.
pub(crate) fn subtract(pieces: Vec<System>, other: &System) -> Result<Vec<System>, Inexact> {
    let mut left = Vec::new();
    for piece in pieces {
        left.extend(piece.minus(other)?);
    }
    Ok(left)
}

/// Two systems as one, if it holds in `universe` exactly where one of them does.
pub(crate) fn union(
    a: &System,
    b: &System,
    universe: &[System],
) -> Result<Option<System>, Inexact> {
    // What one says and the other implies, on each piece of the universe.
    let follows = |e: &Affine, from: &System| -> Result<bool, Inexact> {
        for piece in universe {
            if !piece.and(from).implies(e)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let mut hull = Vec::new();
    for (own, other) in [(a, b), (b, a)] {
        for e in &own.constraints {
            if follows(e, other)? {
                hull.push(e.clone());
            }
        }
    }
    let hull = System::new(hull);
    for piece in universe {
        let outside_a = piece.and(&hull).minus(a)?;
        if !subtract(outside_a, b)?.is_empty() {
            return Ok(None);
        }
    }
    Ok(Some(hull))
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Var = Var(0);
    const Y: Var = Var(1);
    const N: Var = Var(2);

    fn square() -> System {
        System::new([X + 0, Y + 0, N - X - 1, N - Y - 1])
    }

    #[test]
    fn emptiness_is_that_of_integers() {
        assert_eq!(square().is_empty(), Ok(false));
        assert_eq!(square().with([X - N]).is_empty(), Ok(true));
        // 2x = 2y + 1 has fractions only.
        let odd = System::new(equal(&(2 * X), &(2 * Y + 1)));
        assert_eq!(odd.is_empty(), Ok(true));
        // 3 ≤ 2x and 3x ≤ 5: 1.5 ≤ x ≤ 1.67; of one variable alone the bounds are rounded.
        assert_eq!(System::new([2 * X - 3, -(3 * X) + 5]).is_empty(), Ok(true));
        let between = System::new([2 * X - Y, Y - 3 * X + 1, Y - 3]);
        assert!(between.without(X).is_err(), "2x ≥ y and 3x ≤ y + 1");
    }

    /// As points of others are tried first, it would have one of those.
    #[test]
    fn of_a_number_that_is_too_large_nothing_is_known_whatever_is_said_beside_it() {
        let point = System::new([X + 0]);
        assert_eq!((point.is_empty(), point.holds(&|_| 0)), (Ok(false), true));
        let large = ((1 << 40) * X).with(X, &((1 << 40) * Y));
        for constant in [0, 1] {
            let system = System::new([large.clone(), constant.into()]);
            assert!(!system.holds(&|_| 0) && system.is_empty().is_err());
            assert!(point.and(&system).is_empty().is_err());
        }
        assert!(System::new([large, Affine::from(-1)]).is_never());
    }

    /// Only a debug build looks at the point that was found.
    #[test]
    fn what_is_bounded_on_one_side_has_a_point_at_that_bound() {
        for (factor, expected) in [(2, 4), (3, 3), (-2, -4), (-3, -3)] {
            // X is eliminated first, and so valued last, where Y is 7.
            let system = System::new([factor * X - Y, Y - 7, -(1 * Y) + 8]);
            let point = system.point().unwrap().unwrap();
            assert_eq!((point.value(Y), point.value(X)), (7, expected));
        }
    }

    /// A program was accepted or refused by what had been derived before it on the same thread.
    #[test]
    fn a_derivation_knows_no_points_of_the_one_before() {
        let inexact = System::new([2 * X - Y, Y - 3 * X + 10, Y - 3]);
        assert!(inexact.is_empty().is_err());
        let point =
            System::new([equal(&X.into(), &2.into()), equal(&Y.into(), &3.into())].concat());
        assert_eq!(point.is_empty(), Ok(false));
        assert_eq!(inexact.is_empty(), Ok(false), "the point is known");
        crate::derive(&crate::Program::default()).unwrap();
        assert!(inexact.is_empty().is_err());
    }

    #[test]
    fn a_derivation_that_asks_of_too_many_systems_is_told_so_and_who_asks_after_it_is_not() {
        forget();
        let limit = Limit::begin();
        // y + k ≤ x ≤ n + k − 1 and n ≤ y: found to be empty only when variables are eliminated.
        let empty = |k: i64| System::new([X - Y - k, N - X + k - 1, Y - N]);
        for k in 0..MOST_ASKED as i64 {
            assert_eq!(empty(k).is_empty(), Ok(true));
        }
        let given_up = empty(-1).is_empty().unwrap_err();
        assert!(given_up.is_too_long());
        drop(limit);
        assert_eq!(empty(-1).is_empty(), Ok(true));
        let fractions = System::new([2 * X - Y, Y - 3 * X + 1]).without(X);
        assert!(!fractions.unwrap_err().is_too_long());
    }

    #[test]
    fn what_is_known_is_not_said_again() {
        let guard = System::new([X - Y - 1, X + 0, N - 1]);
        let said = guard.given(&square()).unwrap();
        assert_eq!(said.constraints(), [X - Y - 1]);
        assert!(square().given(&square()).unwrap().is_always());
    }

    #[test]
    fn two_halves_are_one_where_what_lies_between_is_outside() {
        let (left, right) = (System::new([Y - X - 1]), System::new([X - Y - 1]));
        let universe = [square()];
        assert_eq!(union(&left, &right, &universe), Ok(None));
        let off_diagonal = [square().and(&left), square().and(&right)];
        assert_eq!(
            union(&left, &right, &off_diagonal),
            Ok(Some(System::default()))
        );
        let rest = square().minus(&left).unwrap();
        assert_eq!(rest.len(), 1);
        assert!(rest[0].implies(&(X - Y)).unwrap());
    }
}
