//! Sources: which task wrote last what a task reads.
//!
//! # Law
//! For each read and each write of the same family, and each loop that both share, the iterations of
//! the write that come before and concern the same datum are a system, and its last iteration is a
//! candidate. Of two candidates the one is later that shares more loops' values with the reader, then
//! the one that stands later in the text of the loop up to which both share them; within one loop text
//! and iterations decide together. What no candidate feeds comes from home.
//!
//! Alternatives are conjunctions that exclude each other. Of k ranges with unrelated bounds there are 2ᵏ,
//! since a datum lies before or behind each: [`MOST`] of them are an answer, more are refused. What can be
//! said as one is counted as one; since that takes time it is only looked for when there are [`MOST`] more.
//!
//! # Source
//! Feautrier, *Dataflow analysis of array and scalar references*, Int. J. of Parallel Programming 20
//! (1991); Pugh and Wonnacott, *Constraint-based array dependence analysis*, TOPLAS 20 (1998).

use crate::affine::{Affine, Var};
use crate::fault::Reason;
use crate::last::last;
use crate::program::{Access, Program, Statement, same_datum};
use crate::system::{Inexact, System, equal, subtract, union};

/// One alternative of where a datum comes from.
///
/// # Examples
/// See [`Derived`](crate::Derived#examples).
#[derive(Clone, Debug)]
pub struct Input {
    /// Where it holds, given the statement's domain; alternatives exclude each other.
    pub guard: System,
    /// The task that wrote it last; `None`: nobody did.
    pub source: Option<Source>,
}

impl Input {
    /// Nobody wrote the datum.
    fn from_home(guard: System) -> Self {
        Input {
            guard,
            source: None,
        }
    }
}

/// A write by a task.
///
/// # Examples
/// See [`Derived`](crate::Derived#examples).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The statement, by number.
    pub statement: usize,
    /// Which of its accesses.
    pub access: usize,
    /// Its iteration, as expressions of the reader's variables.
    pub iteration: Vec<Affine>,
}

/// The most alternatives of one access that are looked for: formulas of more nobody reads.
pub(crate) const MOST: usize = 64;

/// A source that may be later than others, where its guard holds.
struct Candidate {
    /// How many loops' values it shares with the reader, and where it stands in the text of the last of
    /// them: what is larger is later, whatever the iterations.
    when: (usize, usize),
    guard: System,
    source: Source,
}

/// Where an access of a statement gets its datum: alternatives that exclude each other and cover
/// the statement's domain.
pub(crate) fn inputs(
    program: &Program,
    reader: &Statement,
    access: &Access,
) -> Result<Vec<Input>, Reason> {
    let mut inputs = Vec::new();
    let mut most = MOST; // before they are merged once more
    for piece in &reader.pieces {
        let mut candidates = candidates(program, reader, piece, access)?;
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.when));
        let mut rest = vec![piece.clone()];
        for group in candidates.chunk_by(|a, b| a.when == b.when) {
            for (at, candidate) in group.iter().enumerate() {
                for guard in survivors(program, (reader, piece), group, at)? {
                    claim(&mut rest, &guard, &candidate.source, &mut inputs)?;
                    if inputs.len() + rest.len() > most {
                        inputs = merge(inputs, reader)?;
                        rest = merge_guards(rest, (reader, piece))?;
                        let n_left = inputs.len() + rest.len();
                        expect_few(n_left)?;
                        most = n_left + MOST;
                    }
                }
            }
        }
        inputs.extend(rest.into_iter().map(Input::from_home));
    }
    let merged = merge(inputs, reader)?;
    expect_few(merged.len()).map(|()| merged)
}

fn expect_few(n_alternatives: usize) -> Result<(), Reason> {
    match n_alternatives {
        ..=MOST => Ok(()),
        _ => Err(Reason::TooMany),
    }
}

/// Where one candidate of a group, all of one loop's text, is overtaken by no other.
fn survivors(
    program: &Program,
    (reader, piece): (&Statement, &System),
    group: &[Candidate],
    at: usize,
) -> Result<Vec<System>, Reason> {
    let own = &group[at];
    let mut guards = vec![own.guard.clone()];
    let mut most = MOST;
    for other in group[..at].iter().chain(&group[at + 1..]) {
        let mut kept = Vec::new();
        for guard in &guards {
            kept.extend(unless_later(program, piece, guard, own, other)?);
        }
        if kept.len() > most {
            kept = merge_guards(kept, (reader, piece))?;
            expect_few(kept.len())?;
            most = kept.len() + MOST;
        }
        guards = kept;
    }
    Ok(guards)
}

/// Feeds from a source what its guard meets of the rest, and takes that out of the rest.
fn claim(
    rest: &mut Vec<System>,
    guard: &System,
    source: &Source,
    inputs: &mut Vec<Input>,
) -> Result<(), Inexact> {
    for open in rest.iter() {
        let here = open.and(guard);
        if !here.is_empty()? {
            inputs.push(Input {
                guard: here,
                source: Some(source.clone()),
            });
        }
    }
    *rest = subtract(std::mem::take(rest), guard)?;
    Ok(())
}

/// Every write that may be the source of a read, level by level.
fn candidates(
    program: &Program,
    reader: &Statement,
    piece: &System,
    access: &Access,
) -> Result<Vec<Candidate>, Inexact> {
    let mut candidates = Vec::new();
    let accesses = program.accesses_to(access.family);
    for write in accesses.filter(|of| of.access.mode.writes()) {
        let same = same_datum(piece, access, write.piece, write.access);
        if same.is_empty()? {
            continue;
        }
        let loops = write.statement.loops.iter();
        let vars: Vec<(Var, bool)> = loops
            .map(|each| (each.var.other(), each.descends))
            .collect();
        for (level, system) in earlier(reader, write.statement, &same) {
            if system.is_empty()? {
                continue;
            }
            for found in last(&system, &vars)? {
                let (statement, access) = write.place;
                let source = Source {
                    statement,
                    access,
                    iteration: found.iteration,
                };
                candidates.push(Candidate {
                    when: (level, write.statement.position[level]),
                    guard: found.guard.given(piece)?,
                    source,
                });
            }
        }
    }
    Ok(candidates)
}

/// The parts of a system of two instances in which that of `before` comes before that of `reader`:
/// for each number of loops whose values they share.
pub(crate) fn earlier(
    reader: &Statement,
    before: &Statement,
    both: &System,
) -> Vec<(usize, System)> {
    let shared = reader.shared(before);
    let mut systems = Vec::new();
    let mut alike = both.clone();
    for level in 0..=shared {
        if level < shared {
            // The other's iteration of this loop is earlier.
            let each = &reader.loops[level];
            let (own, its) = (Affine::from(each.var), Affine::from(each.var.other()));
            let step = if each.descends {
                its.plus(&own, -1)
            } else {
                own.plus(&its, -1)
            };
            systems.push((level, alike.with([step - 1])));
            alike = alike.with(equal(&own, &its));
        } else if before.position[level..] < reader.position[level..] {
            systems.push((level, alike.clone()));
        }
    }
    systems
}

/// The parts of a guard where a candidate is not overtaken by another one of its group.
fn unless_later(
    program: &Program,
    piece: &System,
    guard: &System,
    own: &Candidate,
    other: &Candidate,
) -> Result<Vec<System>, Inexact> {
    let mut kept = Vec::new();
    let mut keep = |part: System| -> Result<(), Inexact> {
        if part.meets(piece)? {
            kept.push(part);
        }
        Ok(())
    };
    for part in guard.minus(&other.guard)? {
        keep(part)?;
    }
    let mut tied = guard.and(&other.guard);
    let [ours, theirs] = [own, other].map(|c| &program.statements[c.source.statement]);
    let mut depth = 0;
    while tied.meets(piece)? {
        let [our_place, their_place] = [ours, theirs].map(|s| s.position[depth]);
        if our_place != their_place {
            if their_place < our_place {
                keep(tied)?;
            }
            break;
        }
        let Some(each) = ours.loops.get(depth) else {
            break; // the same task
        };
        let [our_value, their_value] = [own, other].map(|c| &c.source.iteration[depth]);
        let ahead = match each.descends {
            false => our_value.plus(their_value, -1),
            true => their_value.plus(our_value, -1),
        };
        keep(tied.with([ahead - 1]))?;
        tied = tied.with(equal(our_value, their_value));
        depth += 1;
    }
    Ok(kept)
}

/// Alternatives with the same source as one, where that can be said as one conjunction; guards say
/// only what the domain does not.
pub(crate) fn merge(mut inputs: Vec<Input>, reader: &Statement) -> Result<Vec<Input>, Inexact> {
    for input in &mut inputs {
        input.guard = input.guard.given(&reader.base)?;
    }
    let mut merged: Vec<Input> = Vec::new();
    for mut input in inputs {
        let mut place = merged.len();
        // What is larger now may swallow more.
        while let Some((at, both)) = first_union(&merged, &input, reader)? {
            merged.remove(at);
            (place, input) = (place.min(at), both);
        }
        merged.insert(place, input);
    }
    Ok(merged)
}

/// Parts of a piece of the reader's domain, as one where that can be said as one conjunction.
fn merge_guards(
    guards: Vec<System>,
    (reader, piece): (&Statement, &System),
) -> Result<Vec<System>, Inexact> {
    let parts = guards.into_iter().map(Input::from_home).collect();
    let merged = merge(parts, reader)?.into_iter();
    Ok(merged.map(|part| part.guard.and(piece)).collect())
}

/// The first alternative that is one with another, and both as one.
fn first_union(
    inputs: &[Input],
    with: &Input,
    reader: &Statement,
) -> Result<Option<(usize, Input)>, Inexact> {
    for (at, input) in inputs.iter().enumerate() {
        if let Some(both) = union_of(input, with, reader)? {
            return Ok(Some((at, both)));
        }
    }
    Ok(None)
}

fn union_of(a: &Input, b: &Input, reader: &Statement) -> Result<Option<Input>, Inexact> {
    let source = match (&a.source, &b.source) {
        (None, None) => None,
        (Some(x), Some(y)) => match general(x, a, y, b, reader)? {
            Some(source) => Some(source.clone()),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let guard = union(&a.guard, &b.guard, &reader.pieces)?;
    let guard = guard.map(|guard| guard.given(&reader.base)).transpose()?;
    Ok(guard.map(|guard| Input { guard, source }))
}

/// The one of two sources that is also right where the other one is meant.
fn general<'s>(
    x: &'s Source,
    a: &Input,
    y: &'s Source,
    b: &Input,
    reader: &Statement,
) -> Result<Option<&'s Source>, Inexact> {
    if (x.statement, x.access) != (y.statement, y.access) {
        return Ok(None);
    }
    let values = || x.iteration.iter().zip(&y.iteration);
    'sides: for (source, where_other) in [(x, &b.guard), (y, &a.guard)] {
        for piece in &reader.pieces {
            let known = piece.and(where_other);
            for (v, w) in values() {
                for e in equal(v, w) {
                    if !known.implies(&e)? {
                        continue 'sides;
                    }
                }
            }
        }
        return Ok(Some(source));
    }
    Ok(None)
}
