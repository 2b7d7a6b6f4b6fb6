//! Targets: the same edges seen from their source.
//!
//! An alternative of an input says which task wrote the datum. Read backwards, its equations are
//! solved for as many of the reader's variables as possible; the others run through ranges.

use crate::affine::{Affine, Var};
use crate::last::bounds;
use crate::program::{Program, Statement};
use crate::sources::Input;
use crate::system::{Inexact, System, equal, union};

/// Tasks that read what an access of a task wrote.
///
/// # Examples
/// See [`Derived`](crate::Derived#examples).
#[derive(Clone, Debug)]
pub struct Output {
    /// Where there are any, given the writer's domain.
    pub guard: System,
    /// The variables that the writer does not determine, outermost first.
    pub ranges: Vec<Range>,
    /// The statement that reads.
    pub statement: usize,
    /// Which of its accesses.
    pub access: usize,
    /// Its iteration, as expressions of the writer's variables and of the ranges'.
    pub iteration: Vec<Affine>,
}

/// From the largest of the lower to the smallest of the upper bounds, both included.
///
/// # Examples
/// See [`Part`](Part#examples).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// What runs through it: a variable of the reader, which is not one of the writer's though it
    /// may be called alike.
    pub var: Var,
    /// Lower bounds, of which each may be the largest.
    pub lower: Vec<Affine>,
    /// Upper bounds, of which each may be the smallest.
    pub upper: Vec<Affine>,
}

/// The targets of one alternative of an input of `reader`, which `writer` feeds. Variables of the
/// reader are `other`s in what is returned.
pub(crate) fn outputs(
    writer: &Statement,
    reader: &Statement,
    (statement, access): (usize, usize),
    input: &Input,
) -> Result<Vec<Output>, Inexact> {
    let Some(source) = &input.source else {
        return Ok(Vec::new());
    };
    let mut outputs = Vec::new();
    for piece in &reader.pieces {
        let here = piece.and(&input.guard).renamed(&Var::other);
        let values = source.iteration.iter().map(|e| e.renamed(&Var::other));
        let equations = writer.vars().zip(values);
        let equations = equations.flat_map(|(var, value)| equal(&Affine::from(var), &value));
        let mut system = here.with(equations);
        if system.is_empty()? {
            continue;
        }
        let vars: Vec<Var> = reader.vars().map(Var::other).collect();
        let mut iteration: Vec<Affine> = vars.iter().map(|&var| var.into()).collect();
        while let Some((var, value)) = determined(&system, &vars) {
            system = system.substitute(var, &value);
            iteration = iteration.iter().map(|e| e.with(var, &value)).collect();
        }
        let free: Vec<Var> = vars
            .into_iter()
            .filter(|&v| iteration.contains(&v.into()))
            .filter(|v| system.vars().contains(v))
            .collect();
        let ranges = ranges(&system, &free, &writer.base)?;
        let guard = independent(&system, &free).given(&writer.base)?;
        outputs.push(Output {
            guard,
            ranges,
            statement,
            access,
            iteration,
        });
    }
    Ok(outputs)
}

/// Targets that differ only in where they hold as one, where that can be said as one conjunction.
pub(crate) fn merged(outputs: Vec<Output>, writer: &Statement) -> Result<Vec<Output>, Inexact> {
    let mut merged: Vec<Output> = Vec::new();
    'next: for output in outputs {
        for own in &mut merged {
            let alike = (own.statement, own.access) == (output.statement, output.access)
                && own.iteration == output.iteration
                && own.ranges == output.ranges;
            if alike && let Some(both) = union(&own.guard, &output.guard, &writer.pieces)? {
                own.guard = both.given(&writer.base)?;
                continue 'next;
            }
        }
        merged.push(output);
    }
    Ok(merged)
}

/// A variable that an equation determines; those of inner loops first, so that ranges are over outer
/// ones only where they must.
fn determined(system: &System, vars: &[Var]) -> Option<(Var, Affine)> {
    let inner_first = vars.iter().rev();
    let mut found = inner_first.filter_map(|&var| Some((var, system.value_of(var)?)));
    found.next()
}

/// The bounds of each free variable by those before it and by what else is `known`.
pub(crate) fn ranges(system: &System, free: &[Var], known: &System) -> Result<Vec<Range>, Inexact> {
    let mut ranges = Vec::new();
    // What has been asked when a range is walked through.
    let mut known = known.and(&independent(system, free));
    for (at, &var) in free.iter().enumerate() {
        let projected = system.without_all(&free[at + 1..])?;
        let of_var = projected.constraints().iter();
        let of_var = System::new(of_var.filter(|e| e.coefficient(var) != 0).cloned());
        let needed = of_var.bounds_given(&known, var)?;
        known = known.and(&of_var);
        ranges.push(Range {
            var,
            lower: bounds(&needed, var, false)?,
            upper: bounds(&needed, var, true)?,
        });
    }
    Ok(ranges)
}

/// What a system says of other variables than these.
fn independent(system: &System, of: &[Var]) -> System {
    let others = system.constraints().iter();
    let others = others.filter(|e| of.iter().all(|&var| e.coefficient(var) == 0));
    System::new(others.cloned())
}

/// A part of a statement's tasks: where the parameters fulfil `guard`, those in these ranges of its
/// variables, outermost first.
///
/// # Examples
/// The first row of a triangle of tiles:
/// ```
/// use dataflow_affine::{Mode, Program, enumerated, equation};
///
/// let mut program = Program::default();
/// let n = program.parameter("n");
/// let a = program.family("A", true);
/// let mut row = None;
/// program.each("m", 0, n, |program, m| {
///     row = Some(m);
///     program.each("k", 0, m + 1, |program, k| {
///         program.task("Tile", &[(Mode::Update, a, &[m + 0, k + 0])]);
///     });
/// });
/// let first = equation(&row.unwrap().into(), &0.into());
/// let parts = enumerated(&program, &program.statements()[0], &first)?;
/// let bounds = |of: usize| {
///     let range = &parts[0].ranges[of];
///     [&range.lower[0], &range.upper[0]].map(|bound| program.expression(bound))
/// };
/// assert_eq!((bounds(0), bounds(1)), (["0", "0"].map(String::from), ["0", "m"].map(String::from)));
/// # Ok::<(), dataflow_affine::Inexact>(())
/// ```
#[derive(Clone, Debug)]
pub struct Part {
    /// What is asked of the parameters.
    pub guard: System,
    /// The values of each variable by those before it.
    pub ranges: Vec<Range>,
}

/// The tasks of a statement where a guard holds, in parts that have none in common.
///
/// # Errors
/// If a bound is one of fractions.
pub fn enumerated(
    program: &Program,
    statement: &Statement,
    guard: &System,
) -> Result<Vec<Part>, Inexact> {
    let vars: Vec<Var> = statement.vars().collect();
    let mut parts = Vec::new();
    for piece in &statement.pieces {
        let system = piece.and(guard);
        if !system.is_empty()? {
            let context = program.context();
            parts.push(Part {
                guard: independent(&system, &vars).given(&context)?,
                ranges: ranges(&system, &vars, &context)?,
            });
        }
    }
    Ok(parts)
}

impl System {
    /// The bounds of a variable without those that others on the same side make superfluous.
    fn bounds_given(&self, context: &System, var: Var) -> Result<System, Inexact> {
        let mut kept = self.constraints().to_vec();
        let mut at = 0;
        while at < kept.len() {
            let sign = kept[at].coefficient(var).signum();
            let others = kept
                .iter()
                .enumerate()
                .filter(|(other, e)| *other != at && e.coefficient(var).signum() == sign);
            let others = others.map(|(_, e)| e.clone());
            match context.with(others).implies(&kept[at])? {
                true => drop(kept.remove(at)),
                false => at += 1,
            }
        }
        Ok(System::new(kept))
    }
}
