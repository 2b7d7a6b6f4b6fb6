//! Ends: which tasks wait for nobody, and who brings a datum home.

use crate::affine::Var;
use crate::program::{Program, Statement, same_datum};
use crate::sources::{Input, earlier};
use crate::system::{Inexact, System, subtract, union};

/// Where an access of a statement is the last change of its datum: disjoint guards. Who gives it on later
/// brings nothing home.
pub(crate) fn homes(
    program: &Program,
    writer: &Statement,
    access: usize,
) -> Result<Vec<System>, Inexact> {
    let write = &writer.accesses[access];
    let mut homes = Vec::new();
    for piece in &writer.pieces {
        let mut rest = vec![piece.clone()];
        let accesses = program.accesses_to(write.family);
        for later in accesses.filter(|of| of.access.mode.changes()) {
            let vars: Vec<Var> = later.statement.vars().map(Var::other).collect();
            // Seen from the later one, this one is the `other`.
            let same = same_datum(later.piece, later.access, piece, write);
            for (_, system) in earlier(later.statement, writer, &same) {
                let own = system.renamed(&Var::exchanged);
                let overwritten = own.without_all(&vars)?.given(piece)?;
                if overwritten.meets(piece)? {
                    rest = subtract(rest, &overwritten)?;
                }
            }
        }
        homes.extend(rest);
    }
    simplest(homes, writer)
}

/// Where a task waits for no other: disjoint guards. The alternatives of an access cover the domain, so that is
/// where each comes from home; of those there are fewer than of the pieces that all others leave.
pub(crate) fn roots(writer: &Statement, inputs: &[Vec<Input>]) -> Result<Vec<System>, Inexact> {
    let mut roots = writer.pieces.clone();
    for alternatives in inputs.iter().filter(|all| !all.is_empty()) {
        let mut unfed = Vec::new();
        for home in alternatives.iter().filter(|input| input.source.is_none()) {
            for root in &roots {
                let both = root.and(&home.guard);
                if !both.is_empty()? {
                    unfed.push(both);
                }
            }
        }
        roots = unfed;
    }
    simplest(roots, writer)
}

/// Disjoint guards as few as possible, and with what the domain does not say only.
fn simplest(parts: Vec<System>, of: &Statement) -> Result<Vec<System>, Inexact> {
    let mut parts: Vec<System> = parts
        .into_iter()
        .map(|part| part.given(&of.base))
        .collect::<Result<_, _>>()?;
    let mut at = 0;
    while at < parts.len() {
        let mut merged = None;
        for other in at + 1..parts.len() {
            if let Some(both) = union(&parts[at], &parts[other], &of.pieces)? {
                merged = Some((other, both.given(&of.base)?));
                break;
            }
        }
        match merged {
            Some((other, both)) => {
                parts[at] = both;
                parts.remove(other);
                at = 0;
            }
            None => at += 1,
        }
    }
    Ok(parts)
}
