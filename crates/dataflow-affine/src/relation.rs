//! Relations: a graph that need be no loop nest, a line for each family of edges.
//!
//! A line relates a task that writes to one that reads, both by expressions of the line's own
//! variables. Where the domains of both hold, the equations are solved for the writer: that is an
//! alternative of the reader's input, and the other end follows as it does for loops.

use crate::affine::{Affine, Var};
use crate::fault::{Fault, Reason, inexact};
use crate::program::Program;
use crate::sources::{Input, Source, merge};
use crate::system::{Inexact, Limit, System, equal, subtract};
use crate::{Derived, assemble, fault};

/// An access of a task, as a line names it.
///
/// # Examples
/// See [`Relation`](Relation#examples).
#[derive(Clone, Debug)]
pub struct End {
    /// The statement, by number.
    pub statement: usize,
    /// Which of its accesses.
    pub access: usize,
    /// Its iteration, by the line's variables.
    pub iteration: Vec<Affine>,
}

/// A line: what `source` wrote goes to `target` where a condition holds, or home.
///
/// # Examples
/// A ball is handed on from task to task; the last brings it home:
/// ```
/// use dataflow_affine::{End, Mode, Program, Relation, System, relate};
///
/// let mut program = Program::default();
/// let n = program.parameter("n");
/// let ball = program.family("Ball", true);
/// program.related(ball);
/// program.each("i", 0, n, |program, i| program.task("Hand", &[(Mode::Update, ball, &[i + 0])]));
///
/// let i = program.subscript("i");
/// let hand = |iteration| End { statement: 0, access: 0, iteration: vec![iteration] };
/// let on = Relation { source: hand(i + 0), target: Some(hand(i + 1)), condition: System::default() };
/// let home = Relation { source: hand(n - 1), target: None, condition: System::default() };
///
/// let derived = relate(&program, &[on, home]).unwrap();
/// let source = derived.tasks[0].inputs[0].iter().find_map(|input| input.source.as_ref());
/// assert_eq!(program.expression(&source.unwrap().iteration[0]), "i - 1");
/// let last = &derived.tasks[0].homes[0][0];
/// assert_eq!(program.guard(last, &program.statements()[0].base), "i + 1 == n");
/// ```
#[derive(Clone, Debug)]
pub struct Relation {
    /// Who writes.
    pub source: End,
    /// Who reads; `None`: it goes home.
    pub target: Option<End>,
    /// Where, by the line's variables.
    pub condition: System,
}

/// Both ends of every edge that relations name. What no line feeds comes from home.
///
/// # Errors
/// As [`derive`](crate::derive); a line that leaves open which task feeds a flow, two lines that feed
/// the same one.
pub fn relate(program: &Program, relations: &[Relation]) -> Result<Derived, Vec<Fault>> {
    crate::forget();
    let _limit = Limit::begin();
    fault::before(program)?;
    let mut inputs = Vec::new();
    for (statement, reader) in program.statements.iter().enumerate() {
        let mut of_statement = Vec::new();
        for (access, read) in reader.accesses.iter().enumerate() {
            let alternatives = match read.mode.reads() {
                true => alternatives(program, relations, (statement, access))?,
                false => Vec::new(),
            };
            of_statement.push(alternatives);
        }
        inputs.push(of_statement);
    }
    let homes = |statement: usize, access: usize| homes(program, relations, (statement, access));
    let derived = assemble(program, inputs, homes)?;
    fault::after(program, &derived)?;
    Ok(derived)
}

/// What feeds an access, line by line, and home for the rest.
pub(crate) fn alternatives(
    program: &Program,
    relations: &[Relation],
    at: (usize, usize),
) -> Result<Vec<Input>, Vec<Fault>> {
    let reader = &program.statements[at.0];
    let caused = |e| inexact(at.0, Some(at.1), e);
    let mut inputs: Vec<(usize, Input)> = Vec::new();
    for (line, relation) in relations.iter().enumerate() {
        let is_target = |end: &&End| (end.statement, end.access) == at;
        let Some(target) = relation.target.as_ref().filter(is_target) else {
            continue;
        };
        for piece in &reader.pieces {
            for (guard, source) in solved(program, relation, target, piece).map_err(caused)? {
                let Some(source) = source else {
                    let reason = Reason::Undetermined(line);
                    return Err(fault::one(at, reason));
                };
                for (other, input) in &inputs {
                    if input.guard.meets(&guard).map_err(caused)? {
                        return Err(fault::one(at, Reason::TwoSources(*other, line)));
                    }
                }
                let source = Some(source);
                inputs.push((line, Input { guard, source }));
            }
        }
    }
    let mut rest = reader.pieces.clone();
    for (_, input) in &inputs {
        rest = subtract(rest, &input.guard).map_err(caused)?;
    }
    let fed = inputs.into_iter().map(|(_, input)| input);
    let home = rest.into_iter().map(|guard| Input {
        guard,
        source: None,
    });
    merge(fed.chain(home).collect(), reader).map_err(caused)
}

/// Where a line feeds a reader, and by which task: `None` if that is left open.
fn solved(
    program: &Program,
    relation: &Relation,
    target: &End,
    piece: &System,
) -> Result<Vec<(System, Option<Source>)>, Inexact> {
    let reader = &program.statements[target.statement];
    let writer = &program.statements[relation.source.statement];
    let own = reader.vars().zip(&target.iteration);
    let own = System::new(own.flat_map(|(var, value)| equal(&var.into(), value)));
    let its = writer.vars().zip(&relation.source.iteration);
    let its = System::new(its.flat_map(|(var, value)| equal(&var.other().into(), value)));
    let mut found = Vec::new();
    for its_piece in &writer.pieces {
        let both = piece.and(&its_piece.renamed(&Var::other));
        let both = both.and(&relation.condition).and(&own).and(&its);
        let mut system = eliminated(&both, |var| {
            reader.vars().any(|own| own == var) || writer.vars().any(|w| w.other() == var)
        })?;
        if system.is_empty()? {
            continue;
        }
        let mut iteration: Vec<Affine> = writer.vars().map(|var| var.other().into()).collect();
        for var in writer.vars().map(Var::other) {
            if let Some(value) = system.value_of(var) {
                system = system.substitute(var, &value);
                iteration = iteration.iter().map(|e| e.with(var, &value)).collect();
            }
        }
        let is_open = iteration
            .iter()
            .any(|e| e.terms().iter().any(|t| t.0.is_other()));
        let source = (!is_open).then_some(Source {
            statement: relation.source.statement,
            access: relation.source.access,
            iteration,
        });
        found.push((system, source));
    }
    Ok(found)
}

/// A system without the variables of the line.
fn eliminated(system: &System, keeps: impl Fn(Var) -> bool) -> Result<System, Inexact> {
    let of_line = |var: &Var| var.as_parameter().is_none() && !keeps(*var);
    let vars: Vec<Var> = system.vars().into_iter().filter(of_line).collect();
    system.without_all(&vars)
}

/// Where an access goes home, as lines say.
fn homes(
    program: &Program,
    relations: &[Relation],
    at: (usize, usize),
) -> Result<Vec<System>, Inexact> {
    let writer = &program.statements[at.0];
    let mut homes: Vec<System> = Vec::new();
    let lines = relations
        .iter()
        .filter(|relation| relation.target.is_none());
    for line in lines.filter(|line| (line.source.statement, line.source.access) == at) {
        let values = writer.vars().zip(&line.source.iteration);
        let values = System::new(values.flat_map(|(var, value)| equal(&var.into(), value)));
        for piece in &writer.pieces {
            let here = piece.and(&line.condition).and(&values);
            let guard = eliminated(&here, |var| writer.vars().any(|own| own == var))?;
            let mut fresh = vec![guard];
            for home in &homes {
                fresh = subtract(fresh, home)?;
            }
            for part in fresh {
                if !part.is_empty()? {
                    homes.push(part.given(&writer.base)?);
                }
            }
        }
    }
    Ok(homes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Mode;

    #[test]
    fn what_two_lines_bring_home_goes_home_once() {
        let mut program = Program::default();
        let (n, ball) = (program.parameter("n"), program.family("Ball", true));
        program.related(ball);
        program.each("i", 0, n, |program, i| {
            program.task("Hand", &[(Mode::Update, ball, &[i + 0])]);
        });
        let i = program.subscript("i");
        let home = |from: i64| Relation {
            source: End {
                statement: 0,
                access: 0,
                iteration: vec![i + 0],
            },
            target: None,
            condition: System::new([i - from]),
        };
        let derived = relate(&program, &[home(2), home(0)]).unwrap();
        for number in 0..4 {
            let holds = |guard: &&System| guard.holds(&|var| if var == n { 4 } else { number });
            let n_homes = derived.tasks[0].homes[0].iter().filter(holds).count();
            assert_eq!(n_homes, 1, "of task {number}");
        }
    }
}
