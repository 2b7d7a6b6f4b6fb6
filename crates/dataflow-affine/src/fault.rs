//! Faults: what a program says that has no meaning, or no exact formula.

use crate::affine::Affine;
use crate::program::{Access, MOST_PIECES, Mode, Program, Statement, same_datum};
use crate::system::{Inexact, System};
use crate::{Derived, Var};

/// A place of a program that is refused.
///
/// # Examples
/// In its first step this loop reads a sum that nobody has made:
/// ```
/// use dataflow_affine::{Mode, Program, Reason, derive};
///
/// let mut program = Program::default();
/// let n = program.parameter("n");
/// let sums = program.family("Sum", false); // tasks make its data, no store has them
/// program.each("i", 0, n, |program, i| {
///     program.task("Add", &[(Mode::Read, sums, &[i - 1]), (Mode::New, sums, &[i + 0])]);
/// });
/// let faults = derive(&program).unwrap_err();
/// assert_eq!((faults[0].statement, faults[0].access), (0, Some(0)));
/// let Reason::NobodyWrote(guard) = &faults[0].reason else { panic!("{faults:?}") };
/// assert_eq!(program.guard(guard, &program.statements()[0].base), "i == 0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The statement, by number.
    pub statement: usize,
    /// Which of its accesses, if it is one.
    pub access: Option<usize>,
    /// Why.
    pub reason: Reason,
}

/// Why a place is refused.
///
/// # Examples
/// See [`Fault`](Fault#examples).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A formula would hold for fractions, and perhaps not for integers.
    Inexact(Box<Inexact>),
    /// An access has too many alternatives of where its datum comes from: as many ranges with unrelated
    /// bounds double them.
    TooMany,
    /// The conditions of a statement hold in too many parts: each `!=` of unrelated numbers doubles them.
    TooManyParts,
    /// The variable of a loop may be negative, and a task's parameters may not.
    Negative(Var),
    /// One task writes the same datum by this access and by another one.
    WrittenTwice(usize),
    /// One task reads by this access what it writes by another one, or the reverse.
    ReadAndWritten(usize, System),
    /// A datum without a store is read where nobody wrote it before.
    NobodyWrote(System),
    /// A subscript that the family does not have.
    Outside(System),
    /// A datum is read from home that a task of this statement, by this access, takes or replaces
    /// there meanwhile.
    TakenMeanwhile(usize, usize),
    /// The datum that an update took from home would be replaced by one that this access makes.
    Replaced(usize, usize),
    /// A datum is given, that is only read, and this access of this statement writes it.
    GivenAndWritten(usize, usize),
    /// This line leaves open which task feeds the access.
    Undetermined(usize),
    /// Both lines feed the access of the same task.
    TwoSources(usize, usize),
}

impl From<Inexact> for Reason {
    fn from(cause: Inexact) -> Reason {
        Reason::Inexact(Box::new(cause))
    }
}

fn fault((statement, access, reason): (usize, Option<usize>, Reason)) -> Fault {
    Fault {
        statement,
        access,
        reason,
    }
}

pub(crate) fn one((statement, access): (usize, usize), reason: Reason) -> Vec<Fault> {
    vec![fault((statement, Some(access), reason))]
}

pub(crate) fn inexact(statement: usize, access: Option<usize>, cause: Inexact) -> Vec<Fault> {
    vec![fault((statement, access, cause.into()))]
}

/// What can be seen without the edges.
pub(crate) fn before(program: &Program) -> Result<(), Vec<Fault>> {
    let mut faults = Vec::new();
    for (number, statement) in program.statements.iter().enumerate() {
        if statement.pieces.len() > MOST_PIECES {
            faults.push((number, None, Reason::TooManyParts));
            continue;
        }
        for each in &statement.loops {
            if may_be_negative(statement, each.var).map_err(|e| inexact(number, None, e))? {
                let reason = Reason::Negative(each.var);
                faults.push((number, None, reason));
            }
        }
        for (at, access) in statement.accesses.iter().enumerate() {
            let caused = |e| inexact(number, Some(at), e);
            if let Some(outside) = outside(program, statement, at).map_err(caused)? {
                faults.push((number, Some(at), Reason::Outside(outside)));
            }
            let written = |its: &Access| access.mode.writes() && its.mode.writes();
            for twice in at_once(statement, at, written) {
                let (other, _) = twice.map_err(caused)?;
                faults.push((number, Some(at), Reason::WrittenTwice(other)));
            }
        }
    }
    refuse(faults)
}

/// The earlier accesses of a task that may be to the same datum as one of its accesses, among those that
/// are asked for, and where they are.
fn at_once<'s>(
    statement: &'s Statement,
    at: usize,
    asked: impl Fn(&Access) -> bool + 's,
) -> impl Iterator<Item = Result<(usize, System), Inexact>> + 's {
    let access = &statement.accesses[at];
    let earlier = statement.accesses[..at].iter().enumerate();
    let earlier = earlier.filter(move |(_, its)| its.family == access.family && asked(its));
    earlier.filter_map(move |(other, its)| {
        let alike = access.subscripts.iter().zip(&its.subscripts);
        let alike = System::new(alike.flat_map(|(a, b)| crate::system::equal(a, b)));
        let both = |piece: &System| match piece.meets(&alike) {
            Ok(false) => None,
            Ok(true) => Some(Ok((other, piece.and(&alike)))),
            Err(inexact) => Some(Err(inexact)),
        };
        statement.pieces.iter().find_map(both)
    })
}

/// Whether a variable is negative in some task: where the loops say no, conditions need not be asked.
fn may_be_negative(statement: &Statement, var: Var) -> Result<bool, Inexact> {
    let below = System::new([Affine::from(-1).plus(&var.into(), -1)]);
    if !statement.base.meets(&below)? {
        return Ok(false);
    }
    for piece in &statement.pieces {
        if piece.meets(&below)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where an access is outside of its family.
fn outside(
    program: &Program,
    statement: &Statement,
    access: usize,
) -> Result<Option<System>, Inexact> {
    let access = &statement.accesses[access];
    let Some((names, domain)) = &program.families[access.family].domain else {
        return Ok(None);
    };
    let mut inside = domain.clone();
    for (&name, value) in names.iter().zip(&access.subscripts) {
        inside = inside.substitute(name, value);
    }
    for piece in &statement.pieces {
        if let Some(part) = piece.minus(&inside)?.first() {
            return Ok(Some(part.given(&statement.base)?));
        }
    }
    Ok(None)
}

/// What only the edges tell.
pub(crate) fn after(program: &Program, derived: &Derived) -> Result<(), Vec<Fault>> {
    let mut faults = Vec::new();
    for (number, statement) in program.statements.iter().enumerate() {
        let mut mixed = Vec::new();
        for at in 0..statement.accesses.len() {
            let found = read_and_written(program, statement, at);
            if let Some((other, both)) = found.map_err(|e| inexact(number, Some(at), e))? {
                mixed.push((at, other));
                faults.push((number, Some(at), Reason::ReadAndWritten(other, both)));
            }
        }
        for (at, access) in statement.accesses.iter().enumerate() {
            let stored = program.families[access.family].stored;
            for input in &derived.tasks[number].inputs[at] {
                let may_lack = program.families[access.family].orders
                    || access.mode == Mode::Optional && !stored;
                if input.source.is_some() || may_lack {
                    continue;
                }
                if !stored {
                    let reason = Reason::NobodyWrote(input.guard.clone());
                    faults.push((number, Some(at), reason));
                    continue;
                }
                // That a task has a datum twice was said: not that it changes what it takes, too.
                let is_said = |by| mixed.contains(&(at, by)) || mixed.contains(&(by, at));
                let found = at_home(program, (number, at), &input.guard, is_said);
                let found = found.map_err(|e| inexact(number, Some(at), e))?;
                faults.extend(found.map(|reason| (number, Some(at), reason)));
            }
        }
    }
    refuse(faults)
}

/// Whether an access reads what an earlier one of the same task writes, or the reverse: the reader would
/// see the datum as it was, which no loop says. Answers the earlier one, and where that is so.
fn read_and_written(
    program: &Program,
    statement: &Statement,
    at: usize,
) -> Result<Option<(usize, System)>, Inexact> {
    let access = &statement.accesses[at];
    let family = &program.families[access.family];
    if family.related || family.orders {
        return Ok(None);
    }
    let mixed = |its: &Access| access.mode.writes() != its.mode.writes();
    let Some(found) = at_once(statement, at, mixed).next() else {
        return Ok(None);
    };
    let (other, both) = found?;
    Ok(Some((other, both.given(&statement.base)?)))
}

/// What is wrong with taking a datum from home where a guard holds, beside what is said already of the
/// task's own accesses.
fn at_home(
    program: &Program,
    (number, at): (usize, usize),
    guard: &System,
    is_said: impl Fn(usize) -> bool,
) -> Result<Option<Reason>, Inexact> {
    let statement = &program.statements[number];
    let access = &statement.accesses[at];
    for (other, its) in program.statements.iter().enumerate() {
        for (by, write) in its.accesses.iter().enumerate() {
            let concerns = write.family == access.family && write.mode.writes();
            let own = other == number && (is_said(by) || by == at && access.mode != Mode::Read);
            if !concerns || own {
                continue;
            }
            let reason = match (access.mode, write.mode) {
                (Mode::Read | Mode::Optional, Mode::Give) => continue,
                (Mode::Read | Mode::Optional, _) => Reason::TakenMeanwhile(other, by),
                (Mode::Give, Mode::Update | Mode::New) => Reason::GivenAndWritten(other, by),
                (Mode::Update, Mode::New) => Reason::Replaced(other, by),
                _ => continue,
            };
            for piece in &statement.pieces {
                let here = piece.and(guard);
                for its_piece in &its.pieces {
                    if !same_datum(&here, access, its_piece, write).is_empty()? {
                        return Ok(Some(reason));
                    }
                }
            }
        }
    }
    Ok(None)
}

fn refuse(faults: Vec<(usize, Option<usize>, Reason)>) -> Result<(), Vec<Fault>> {
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.into_iter().map(fault).collect()),
    }
}
