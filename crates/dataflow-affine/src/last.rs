//! The last iteration of a system: its lexicographic maximum, in pieces.
//!
//! # Source
//! Feautrier, *Dataflow analysis of array and scalar references*, Int. J. of Parallel Programming 20
//! (1991), section 4.

use crate::affine::{Affine, Var};
use crate::system::{Inexact, System};

/// Where `guard` holds, the last iteration is this.
#[derive(Clone, Debug)]
pub(crate) struct LastWhere {
    pub iteration: Vec<Affine>,
    pub guard: System,
}

/// The last values of `vars` that fulfil a system, as expressions of its other variables. A variable
/// that descends is last where it is smallest.
pub(crate) fn last(system: &System, vars: &[(Var, bool)]) -> Result<Vec<LastWhere>, Inexact> {
    let mut fixed: Vec<(Var, Affine)> = Vec::new();
    let mut rest = system.clone();
    while let Some((var, value)) = determined(&rest, vars) {
        rest = determine(&mut fixed, &rest, var, &value);
    }
    let is_free = |var: Var| fixed.iter().all(|other| other.0 != var);
    let free: Vec<(Var, bool)> = vars.iter().copied().filter(|v| is_free(v.0)).collect();
    let mut pieces = vec![(fixed, rest)];
    for (at, &(var, descends)) in free.iter().enumerate() {
        let further: Vec<Var> = free[at + 1..].iter().map(|v| v.0).collect();
        let mut next = Vec::new();
        for (values, system) in pieces {
            let projected = system.without_all(&further)?;
            if projected.is_empty()? {
                continue;
            }
            if let Some(value) = projected.value_of(var) {
                let mut values = values.clone();
                let system = determine(&mut values, &system, var, &value);
                next.push((values, system));
                continue;
            }
            for (value, guard) in extreme(&projected, var, descends)? {
                let mut values = values.clone();
                let system = determine(&mut values, &system.with(guard), var, &value);
                if !system.is_empty()? {
                    next.push((values, system));
                }
            }
        }
        pieces = next;
    }
    let piece = |(values, guard): (Vec<(Var, Affine)>, System)| {
        let value = |var| values.iter().find(|v: &&(Var, Affine)| v.0 == var);
        let iteration = vars.iter().filter_map(|&(var, _)| value(var));
        let iteration = iteration.map(|v| v.1.clone()).collect();
        LastWhere { iteration, guard }
    };
    Ok(pieces.into_iter().map(piece).collect())
}

/// What an equation determines needs no search, unless by a loop further in: that one's last value need
/// not make this one's last.
fn determined(system: &System, vars: &[(Var, bool)]) -> Option<(Var, Affine)> {
    let mut innermost_first = vars.iter().enumerate().rev();
    innermost_first.find_map(|(at, &(var, _))| {
        let value = system.value_of(var)?;
        let mut inner = vars[at + 1..].iter();
        let is_by_inner = inner.any(|inner| value.coefficient(inner.0) != 0);
        (!is_by_inner).then_some((var, value))
    })
}

/// Puts the value of a variable into a system and into the values found before.
fn determine(values: &mut Vec<(Var, Affine)>, system: &System, var: Var, value: &Affine) -> System {
    for other in values.iter_mut() {
        other.1 = other.1.with(var, value);
    }
    values.push((var, value.clone()));
    system.substitute(var, value)
}

/// The least upper bound of a variable, or its greatest lower bound if it descends: each candidate
/// with what says that it is that one.
fn extreme(
    projected: &System,
    var: Var,
    descends: bool,
) -> Result<Vec<(Affine, Vec<Affine>)>, Inexact> {
    let mut bounds = bounds(projected, var, !descends)?;
    // tighter(a, b) ≥ 0: a is at least as tight as b.
    let tighter = |a: &Affine, b: &Affine| match descends {
        false => b.plus(a, -1),
        true => a.plus(b, -1),
    };
    let mut at = 0;
    while at < bounds.len() {
        let mut others = bounds.iter().enumerate().filter(|(other, _)| *other != at);
        let implied = others.try_fold(false, |found, (_, other)| {
            Ok(found || projected.implies(&tighter(other, &bounds[at]))?)
        })?;
        match implied {
            true => drop(bounds.remove(at)),
            false => at += 1,
        }
    }
    let pieces = bounds.iter().enumerate().map(|(at, bound)| {
        // Of equal ones the first.
        let others = bounds.iter().enumerate().filter(|(other, _)| *other != at);
        let guard = others.map(|(other, its)| tighter(bound, its) - i64::from(other < at));
        (bound.clone(), guard.collect())
    });
    Ok(pieces.collect())
}

/// The upper or the lower bounds of a variable.
///
/// # Errors
/// If one has another coefficient than ±1: it bounds fractions.
pub(crate) fn bounds(system: &System, var: Var, upper: bool) -> Result<Vec<Affine>, Inexact> {
    let sign = if upper { -1 } else { 1 };
    let of_this_side = |e: &&Affine| e.coefficient(var) * sign > 0;
    let bound = |e: &Affine| match e.coefficient(var) {
        1 | -1 => Ok(e.bound(var)),
        _ => Err(Inexact::of([e.clone(), e.clone()], var)),
    };
    let constraints = system.constraints().iter();
    constraints.filter(of_this_side).map(bound).collect()
}
