//! Brute force: runs a program with given parameters and compares every answer of the formulas.

use dataflow_affine::{
    Affine, Derived, Mode, Program, Range, Statement, System, Var, count, enumerated, position,
};
use std::collections::{BTreeMap, BTreeSet};

/// What was compared.
#[derive(Default)]
pub struct Found {
    pub tasks: usize,
    pub edges: usize,
    /// Statements whose tasks or roots have no exact list: a space of them is refused.
    pub unlisted: usize,
}

/// A task: statement and iteration.
type Task = (usize, Vec<i64>);
/// An edge: source and its access, target and its access.
type Edge = (Task, usize, Task, usize);

/// The values of the parameters and of variables that are bound.
#[derive(Clone, Default)]
struct Values(BTreeMap<Var, i64>);

impl Values {
    fn of(&self, e: &Affine) -> i64 {
        e.at(&|var| self.0[&var])
    }
    fn hold(&self, guard: &System) -> bool {
        guard.holds(&|var| self.0[&var])
    }
    fn with(&self, vars: impl Iterator<Item = Var>, values: &[i64]) -> Values {
        let mut all = self.clone();
        all.0.extend(vars.zip(values.iter().copied()));
        all
    }
}

/// Compares for all parameters from 0 to `up_to`.
pub fn check(program: &Program, derived: &Derived, up_to: i64) -> Result<Found, String> {
    let mut found = Found::default();
    let parameters: Vec<Var> = program.parameters().collect();
    let mut all = vec![Values::default()];
    for &parameter in &parameters {
        let with = |values: &Values| {
            let values = values.clone();
            (0..=up_to).map(move |value| values.with([parameter].into_iter(), &[value]))
        };
        all = all.iter().flat_map(with).collect();
    }
    for values in all {
        let given: Vec<i64> = parameters.iter().map(|p| values.0[p]).collect();
        compare(program, derived, &values, &mut found)
            .map_err(|fault| format!("with {given:?}: {fault}"))?;
    }
    Ok(found)
}

fn compare(
    program: &Program,
    derived: &Derived,
    values: &Values,
    found: &mut Found,
) -> Result<(), String> {
    let tasks = in_order(program, values)?;
    found.tasks += tasks.len();
    let mut last: BTreeMap<(usize, Vec<i64>), (Task, usize)> = BTreeMap::new();
    // The same but for those who only give a datum on.
    let mut changed = last.clone();
    let mut edges: BTreeSet<Edge> = BTreeSet::new();
    for (number, iteration) in &tasks {
        let statement = &program.statements()[*number];
        let here = values.with(statement.vars(), iteration);
        let mut waits = false;
        for (at, access) in statement.accesses.iter().enumerate() {
            let datum: Vec<i64> = access.subscripts.iter().map(|e| here.of(e)).collect();
            if !access.mode.reads() {
                continue;
            }
            let expected = last.get(&(access.family, datum)).cloned();
            let alternatives = derived.tasks[*number].inputs[at].iter();
            let hits: Vec<_> = alternatives
                .filter(|input| here.hold(&input.guard))
                .map(|input| {
                    let source = input.source.as_ref()?;
                    let iteration = source.iteration.iter().map(|e| here.of(e)).collect();
                    Some(((source.statement, iteration), source.access))
                })
                .collect();
            if hits != [expected.clone()] {
                return Err(format!(
                    "access {at} of {} {iteration:?} comes from {hits:?}, not {expected:?}",
                    statement.name
                ));
            }
            if let Some((source, its)) = expected {
                waits = true;
                edges.insert((source, its, (*number, iteration.clone()), at));
            }
        }
        let root = derived.tasks[*number]
            .roots
            .iter()
            .filter(|guard| here.hold(guard));
        if root.count() != usize::from(!waits) {
            return Err(format!(
                "{} {iteration:?} is a root: {}",
                statement.name, !waits
            ));
        }
        for (at, access) in statement.accesses.iter().enumerate() {
            let datum: Vec<i64> = access.subscripts.iter().map(|e| here.of(e)).collect();
            let (datum, own) = ((access.family, datum), ((*number, iteration.clone()), at));
            if access.mode.writes() {
                last.insert(datum.clone(), own.clone());
            }
            if access.mode != Mode::Give && access.mode.writes() {
                changed.insert(datum, own);
            }
        }
    }
    found.edges += edges.len();
    compare_targets(program, derived, values, &tasks, &edges)?;
    compare_homes(program, derived, values, &tasks, &changed)?;
    for (number, statement) in program.statements().iter().enumerate() {
        if !is_listed(program, derived, (number, statement)) {
            found.unlisted += 1;
            continue;
        }
        let own: Vec<&Vec<i64>> = tasks
            .iter()
            .filter(|t| t.0 == number)
            .map(|t| &t.1)
            .collect();
        compare_enumeration(program, derived, values, (number, statement), &own)?;
    }
    Ok(())
}

/// Every task, in the order of the program.
fn in_order(program: &Program, values: &Values) -> Result<Vec<Task>, String> {
    let mut tasks = Vec::new();
    for (number, statement) in program.statements().iter().enumerate() {
        let mut iterations = vec![Vec::new()];
        for each in &statement.loops {
            let longer = |before: &Vec<i64>| {
                let here = values.with(statement.vars(), before);
                let steps = here.of(&each.from)..here.of(&each.to);
                let longer = steps.map(|value| before.iter().copied().chain([value]).collect());
                longer.collect::<Vec<Vec<i64>>>()
            };
            iterations = iterations.iter().flat_map(longer).collect();
        }
        for iteration in iterations {
            let here = values.with(statement.vars(), &iteration);
            match statement.pieces.iter().filter(|p| here.hold(p)).count() {
                0 => {}
                1 => tasks.push((statement.when(&iteration), (number, iteration))),
                n => {
                    return Err(format!(
                        "{} {iteration:?} lies in {n} pieces",
                        statement.name
                    ));
                }
            }
        }
    }
    tasks.sort();
    Ok(tasks.into_iter().map(|task| task.1).collect())
}

fn compare_targets(
    program: &Program,
    derived: &Derived,
    values: &Values,
    tasks: &[Task],
    edges: &BTreeSet<Edge>,
) -> Result<(), String> {
    let mut forward = BTreeSet::new();
    for (number, iteration) in tasks {
        let statement = &program.statements()[*number];
        let here = values.with(statement.vars(), iteration);
        for (at, outputs) in derived.tasks[*number].outputs.iter().enumerate() {
            for output in outputs.iter().filter(|output| here.hold(&output.guard)) {
                for point in points(&output.ranges, &here) {
                    let target = output.iteration.iter().map(|e| point.of(e)).collect();
                    let target = (output.statement, target);
                    let edge = ((*number, iteration.clone()), at, target, output.access);
                    if !forward.insert(edge.clone()) {
                        return Err(format!("{edge:?} is said twice"));
                    }
                }
            }
        }
    }
    match (
        forward.difference(edges).next(),
        edges.difference(&forward).next(),
    ) {
        (None, None) => Ok(()),
        (more, less) => Err(format!(
            "targets: {more:?} is too much, {less:?} is missing"
        )),
    }
}

fn compare_homes(
    program: &Program,
    derived: &Derived,
    values: &Values,
    tasks: &[Task],
    changed: &BTreeMap<(usize, Vec<i64>), (Task, usize)>,
) -> Result<(), String> {
    for (number, iteration) in tasks {
        let statement = &program.statements()[*number];
        let here = values.with(statement.vars(), iteration);
        for (at, access) in statement.accesses.iter().enumerate() {
            let stored = program.families()[access.family].stored;
            let datum = access.subscripts.iter().map(|e| here.of(e)).collect();
            let by = changed.get(&(access.family, datum));
            let is_last = by == Some(&((*number, iteration.clone()), at));
            let expected = stored && is_last;
            let guards = derived.tasks[*number].homes[at].iter();
            let hits = guards.filter(|guard| here.hold(guard)).count();
            if hits != usize::from(expected) {
                let name = &statement.name;
                return Err(format!(
                    "access {at} of {name} {iteration:?} goes home: {expected}"
                ));
            }
        }
    }
    Ok(())
}

/// Whether there are exact formulas for the lists of a statement's tasks and roots, and for its count.
fn is_listed(
    program: &Program,
    derived: &Derived,
    (number, statement): (usize, &Statement),
) -> bool {
    let mut roots = derived.tasks[number].roots.iter();
    count(program, statement).is_ok()
        && position(program, statement).is_ok()
        && enumerated(program, statement, &System::default()).is_ok()
        && roots.all(|root| enumerated(program, statement, root).is_ok())
}

/// Roots and all tasks are enumerated once each, counted, and numbered without gaps.
fn compare_enumeration(
    program: &Program,
    derived: &Derived,
    values: &Values,
    (number, statement): (usize, &Statement),
    own: &[&Vec<i64>],
) -> Result<(), String> {
    let name = &statement.name;
    let listed = |guard: &System| -> Result<Vec<Vec<i64>>, String> {
        let parts = enumerated(program, statement, guard).map_err(|e| format!("{e:?}"))?;
        let parts = parts.iter().filter(|part| values.hold(&part.guard));
        let points = parts.flat_map(|part| points(&part.ranges, values));
        Ok(points
            .map(|p| statement.vars().map(|var| p.0[&var]).collect())
            .collect())
    };
    let mut all = listed(&System::default())?;
    all.sort();
    let mut expected: Vec<Vec<i64>> = own.iter().map(|t| (*t).clone()).collect();
    expected.sort();
    if all != expected {
        return Err(format!("{name}: enumerated {all:?}"));
    }
    for root in &derived.tasks[number].roots {
        for iteration in listed(root)? {
            let here = values.with(statement.vars(), &iteration);
            if !here.hold(root) || !expected.contains(&iteration) {
                return Err(format!("{name} {iteration:?} is no root"));
            }
        }
        let holding = expected
            .iter()
            .filter(|i| values.with(statement.vars(), i).hold(root));
        if holding.count() != listed(root)?.len() {
            return Err(format!("{name}: not all roots are enumerated"));
        }
    }
    let exact = |e| format!("{e:?}");
    if let Some(count) = count(program, statement).map_err(exact)? {
        let count = count.at(&|var| values.0[&var]);
        if count != expected.len() as i128 {
            return Err(format!("{name} has {} tasks, not {count}", expected.len()));
        }
    }
    if let Some(position) = position(program, statement).map_err(exact)? {
        for (at, iteration) in expected.iter().enumerate() {
            let here = values.with(statement.vars(), iteration);
            let found = position.at(&|var| here.0[&var]);
            if found != at as i128 {
                return Err(format!("{name} {iteration:?} has number {at}, not {found}"));
            }
        }
    }
    Ok(())
}

/// Every point of nested ranges.
fn points(ranges: &[Range], values: &Values) -> Vec<Values> {
    let mut points = vec![values.clone()];
    for range in ranges {
        let further = |point: &Values| {
            let lower = range.lower.iter().map(|e| point.of(e)).max();
            let upper = range.upper.iter().map(|e| point.of(e)).min();
            let (lower, upper) = (
                lower.expect("a lower bound"),
                upper.expect("an upper bound"),
            );
            let point = point.clone();
            (lower..=upper).map(move |v| point.with([range.var].into_iter(), &[v]))
        };
        points = points.iter().flat_map(further).collect();
    }
    points
}
