//! Guards as a person writes them: `k == 0` rather than `−k ≥ 0`, and what was said before left out.

use crate::affine::{Affine, Var};
use crate::program::Statement;
use crate::sources::Input;
use crate::system::{Inexact, System, subtract};

/// How two expressions are compared.
///
/// # Examples
/// See [`Said`](Said#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// A comparison of two expressions without negative coefficients.
///
/// # Examples
/// ```
/// use dataflow_affine::{Comparison, Program, System, said};
///
/// let mut program = Program::default();
/// let i = program.subscript("i");
/// let natural = System::new([i + 0]);
/// let said = said(&System::new([-(i + 0)]), &natural)?; // i ≤ 0, where 0 ≤ i is known
/// assert_eq!((said.len(), said[0].comparison), (1, Comparison::Equal));
/// assert_eq!(program.say(&said), "i == 0");
/// # Ok::<(), dataflow_affine::Inexact>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The left side.
    pub left: Affine,
    /// How it is compared.
    pub comparison: Comparison,
    /// The right side.
    pub right: Affine,
}

/// A guard as comparisons, where `context` is known.
///
/// # Errors
/// If it cannot be told exactly what the context implies.
pub fn said(guard: &System, context: &System) -> Result<Vec<Said>, Inexact> {
    let mut comparisons: Vec<Said> = Vec::new();
    for e in guard.constraints() {
        let is_equal = guard.fixes(e) || context.and(guard).implies(&e.times(-1))?;
        let said = compare(e, is_equal);
        if !comparisons.contains(&said) {
            comparisons.push(said);
        }
    }
    comparisons.sort_by_key(|said| said.comparison != Comparison::Equal);
    Ok(comparisons)
}

/// `e ≥ 0`, or `e = 0`, with what varies most on the left.
fn compare(e: &Affine, is_equal: bool) -> Said {
    let of_loops = e.terms().iter().filter(|t| t.0.as_parameter().is_none());
    let innermost = of_loops.max_by_key(|t| t.0).or(e.terms().last()).copied();
    // The side with that variable is the left one: left ≥ right, or left ≤ right.
    let at_least = innermost.is_none_or(|(_, c)| c > 0);
    let own = if at_least { e.clone() } else { e.times(-1) };
    let part = |sign: i64| {
        let terms = own.terms().iter().filter(|t| t.1.signum() == sign);
        terms.fold(Affine::default(), |sum, &(v, c)| {
            sum.plus(&Affine::from(v), c * sign)
        })
    };
    let (mut left, mut right) = (part(1), part(-1));
    let constant = own.constant();
    // left + constant ≥ right, or ≤.
    let mut comparison = match (is_equal, at_least) {
        (true, _) => Comparison::Equal,
        (false, true) => Comparison::AtLeast,
        (false, false) => Comparison::AtMost,
    };
    let mut shift = -constant; // left ⋚ right + shift
    let stricter = if at_least { 1 } else { -1 };
    // One less to say: x ≥ y + 1 is x > y, x + 2 ≤ y is x + 1 < y.
    if !is_equal && (shift - stricter).abs() < shift.abs() {
        shift -= stricter;
        comparison = if at_least {
            Comparison::Greater
        } else {
            Comparison::Less
        };
    }
    if shift >= 0 {
        right = right + shift;
    } else {
        left = left - shift;
    }
    Said {
        left,
        comparison,
        right,
    }
}

/// Alternatives in the order in which a person asks for them: simple ones first, each without what
/// the ones before have ruled out. If they cover the statement's domain, nothing is asked of the last.
///
/// # Errors
/// If it cannot be told exactly what has been ruled out.
pub fn chain<'i>(
    inputs: &'i [Input],
    statement: &Statement,
) -> Result<Vec<(Vec<Said>, &'i Input)>, Inexact> {
    let mut ordered = Vec::new();
    for input in inputs {
        let plain = said(&input.guard, &statement.base)?;
        let open = plain
            .iter()
            .filter(|s| s.comparison != Comparison::Equal)
            .count();
        ordered.push(((plain.len() + 2 * open, plain.len()), input));
    }
    ordered.sort_by_key(|(cost, input)| (*cost, input.source.is_some()));
    let mut left = statement.pieces.clone();
    let mut links = Vec::new();
    for (_, input) in ordered {
        // Of what no alternative before took, this one takes what its guard says; some of which may
        // have become clear.
        let mut guard = input.guard.clone();
        for e in input.guard.constraints() {
            let fewer = guard
                .constraints()
                .iter()
                .filter(|other| *other != e)
                .cloned();
            let fewer = System::new(fewer);
            let mut same = true;
            for part in &left {
                same &= part.and(&fewer).implies(e)?;
            }
            if same {
                guard = fewer;
            }
        }
        let mut context = statement.base.clone();
        if let [only] = &left[..] {
            context = only.clone();
        }
        links.push((said(&guard, &context)?, input));
        left = subtract(left, &input.guard)?;
    }
    Ok(links)
}

/// Whether of two guards exactly one holds for each task of a statement.
///
/// # Errors
/// If it cannot be told exactly.
pub fn excludes(statement: &Statement, a: &System, b: &System) -> Result<bool, Inexact> {
    let mut left = statement.pieces.clone();
    for piece in &left {
        if piece.and(a).meets(b)? {
            return Ok(false);
        }
    }
    left = subtract(left, a)?;
    Ok(subtract(left, b)?.is_empty())
}

impl Said {
    /// The value of a variable, if this says that it has one.
    pub fn value_of(&self, var: Var) -> Option<&Affine> {
        let alone = self.comparison == Comparison::Equal && self.left == Affine::from(var);
        alone.then_some(&self.right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Mode, Program};

    #[test]
    fn comparisons_are_said_as_a_person_says_them() {
        let mut program = Program::default();
        let n = program.parameter("n");
        let mut found = Vec::new();
        program.each("k", 0, n, |program, k| {
            program.each("m", k + 1, n, |program, m| {
                let a = program.family("A", true);
                program.task("S", &[(Mode::Update, a, &[m + 0])]);
                let base = &program.statements()[0].base;
                for e in [
                    k - 1,
                    -(k + 0),
                    m - k - 2,
                    k + 1 - m,
                    n - k - 2,
                    n - k - 1,
                    m - k - 3,
                ] {
                    let guard = System::new([e]);
                    let said = said(&guard, base).unwrap();
                    found.push(program.say(&said));
                }
            });
        });
        let expected = [
            "k > 0",
            "k == 0",
            "m > k + 1",
            "m == k + 1",
            "k + 1 < n",
            "k < n",
            "m > k + 2",
        ];
        assert_eq!(found, expected);
    }
}
