//! Random nests: depth at most 3, two arrays, conditions and descending loops.

use crate::brute::check;
use dataflow_affine::{Affine, Fault, Mode, Program, Reason, System, Var, derive, disjoint};
use proptest::prelude::*;

/// A nest, by choices that fit any place.
#[derive(Clone, Debug)]
enum Item {
    Each {
        from: Bound,
        to: Bound,
        down: bool,
        body: Vec<Item>,
    },
    If {
        left: Bound,
        right: Bound,
        differ: bool,
        body: Vec<Item>,
    },
    Task {
        accesses: Vec<(u8, usize, [Subscript; 2])>,
    },
}

/// An expression: a variable in scope, by number, or none, and a constant.
#[derive(Clone, Copy, Debug)]
struct Bound(u8, i64);

/// A sum of an expression and of a variable in scope, each times a factor.
#[derive(Clone, Copy, Debug)]
struct Subscript {
    first: (i64, Bound),
    second: (i64, u8),
}

fn bound() -> impl Strategy<Value = Bound> {
    (0..6u8, -1..=1i64).prop_map(|(var, c)| Bound(var, c))
}

/// A variable and a constant.
fn plain() -> impl Strategy<Value = Subscript> {
    let second = (0, 0);
    bound().prop_map(move |bound| Subscript {
        first: (1, bound),
        second,
    })
}

/// The variables of two loops, each times a factor.
fn with_factors() -> impl Strategy<Value = Subscript> {
    let first = prop_oneof![3 => 1..=2i64, 1 => -2..=0i64];
    let second = prop_oneof![1 => Just(0), 1 => -2..=2i64];
    let scaled = (first, -1..=1i64, second);
    scaled.prop_map(|(first, constant, second)| Subscript {
        first: (first, Bound(1, constant)),
        second: (second, 2),
    })
}

/// Two loops around a task that accesses one element of the first array by such a subscript.
fn loops_around(mode: u8) -> impl Strategy<Value = Item> {
    let zero = Subscript {
        first: (0, Bound(0, 0)),
        second: (0, 0),
    };
    let task = with_factors().prop_map(move |subscript| Item::Task {
        accesses: vec![(mode, 0, [subscript, zero])],
    });
    let each = |body: BoxedStrategy<Item>| {
        let each = (0..=1i64, -1..=1i64, any::<bool>(), body);
        let each = each.prop_map(|(from, to, down, body)| Item::Each {
            from: Bound(u8::MAX, from), // no variable
            to: Bound(0, to),
            down,
            body: vec![body],
        });
        each.boxed()
    };
    each(each(task.boxed()))
}

fn item() -> impl Strategy<Value = Item> {
    let access = (0..6u8, 0..2usize, [plain(), plain()]);
    let task = prop::collection::vec(access, 1..=3).prop_map(|accesses| Item::Task { accesses });
    task.prop_recursive(3, 8, 3, |inner| {
        let body = || prop::collection::vec(inner.clone(), 1..=3);
        prop_oneof![
            3 => (bound(), bound(), any::<bool>(), body())
                .prop_map(|(from, to, down, body)| Item::Each { from, to, down, body }),
            1 => (bound(), bound(), any::<bool>(), body())
                .prop_map(|(left, right, differ, body)| Item::If { left, right, differ, body }),
        ]
    })
}

impl Bound {
    /// The expression, over the parameter and the loops around.
    fn within(self, scope: &[Var]) -> Affine {
        match scope.get(self.0 as usize) {
            Some(&var) => Affine::from(var) + self.1,
            None => Affine::from(self.1.abs()),
        }
    }
}

impl Subscript {
    fn within(self, scope: &[Var]) -> Affine {
        let (factor, bound) = self.first;
        let second = scope.get(self.second.1 as usize);
        let second = second.map_or(Affine::default(), |&var| self.second.0 * var);
        bound.within(scope).times(factor) + second
    }
}

fn write(program: &mut Program, scope: &mut Vec<Var>, item: &Item) {
    match item {
        Item::Each {
            from,
            to,
            down,
            body,
        } => {
            let depth = scope.len() - 1;
            if depth == 3 {
                return body.iter().for_each(|item| write(program, scope, item));
            }
            // Never below 0: parameters of tasks are not negative.
            let from = match scope.get(from.0 as usize) {
                Some(&var) => var + from.1.abs(),
                None => from.1.abs().into(),
            };
            let to = match to.0 {
                0..3 => scope[0] + to.1,
                _ => to.within(scope),
            };
            let var = program.enter(["i", "j", "k"][depth], from, to, *down);
            scope.push(var);
            body.iter().for_each(|item| write(program, scope, item));
            scope.pop();
            program.leave();
        }
        Item::If {
            left,
            right,
            differ,
            body,
        } => {
            let (left, right) = (left.within(scope), right.within(scope));
            let less = System::new([right.clone() - left.clone() - 1]);
            let more = System::new([left - right - 1]);
            let parts = if *differ {
                vec![less, more]
            } else {
                vec![less]
            };
            program.only_if(disjoint(parts).unwrap());
            body.iter().for_each(|item| write(program, scope, item));
            program.unless();
        }
        Item::Task { accesses } => {
            let name = format!("S{}", program.statements().len());
            let accesses: Vec<_> = accesses
                .iter()
                .map(|(mode, family, subscripts)| {
                    let modes = [Mode::Read, Mode::Update, Mode::New, Mode::Give];
                    let mode = modes[*mode as usize % 4];
                    (mode, *family, subscripts.map(|s| s.within(scope)))
                })
                .collect();
            let accesses: Vec<_> = accesses.iter().map(|(m, f, s)| (*m, *f, &s[..])).collect();
            program.task(&name, &accesses);
        }
    }
}

/// Whether it has formulas, which are then those of brute force.
fn is_exact(items: &[Item], stored: bool) -> Result<bool, TestCaseError> {
    let mut program = Program::default();
    let n = program.parameter("n");
    for name in ["A", "B"] {
        program.family(name, stored);
    }
    items
        .iter()
        .for_each(|item| write(&mut program, &mut vec![n], item));
    // Whatever else is wrong with it is told, not met.
    let _ = derive(&program);
    match dataflow_affine::edges(&program) {
        Ok(derived) => match check(&program, &derived, 4) {
            Ok(found) => Ok(found.unlisted == 0),
            Err(fault) => Err(TestCaseError::fail(format!(
                "{fault}\n{}",
                derived.text(&program)
            ))),
        },
        Err(faults) => {
            let is_inexact = |f: &Fault| matches!(f.reason, Reason::Inexact(_));
            let is_twice = |f: &Fault| matches!(f.reason, Reason::WrittenTwice(_));
            let mut all = faults.iter();
            prop_assert!(all.all(|f| is_inexact(f) || is_twice(f)), "{faults:?}");
            Ok(!faults.iter().any(is_inexact))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_global_rejects: 100_000, ..ProptestConfig::default() })]
    #[test]
    fn random_nests_have_the_edges_of_brute_force(items in prop::collection::vec(item(), 1..=3)) {
        prop_assert!(is_exact(&items, true)?);
    }
}

/// Nests one after another over ranges of one vector, alone or each time around a loop: where each begins and
/// ends, by the number of a parameter or of the outer loop, or a constant.
fn slabs(ranges: &[(u8, u8)], in_turn: bool) -> Program {
    let mut program = Program::default();
    let [a, b] = ["a", "b"].map(|name| program.parameter(name));
    let x = program.family("X", true);
    let mut ends: Vec<Affine> = vec![0.into(), a.into(), b.into(), 2.into()];
    if in_turn {
        ends.push(program.enter("t", 0.into(), a.into(), false).into());
    }
    for (slab, range) in ranges.iter().enumerate() {
        let [from, to] = [range.0, range.1].map(|at| ends[at as usize % ends.len()].clone());
        let i = program.enter("i", from, to, false);
        program.task(&format!("S{slab}"), &[(Mode::Update, x, &[i.into()])]);
        program.leave();
    }
    program
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn random_nests_one_after_another_have_the_edges_of_brute_force(
        ranges in prop::collection::vec((0..10u8, 0..10u8), 2..=5),
        in_turn in any::<bool>(),
    ) {
        let program = slabs(&ranges, in_turn);
        match dataflow_affine::edges(&program) {
            Ok(derived) => {
                let found = check(&program, &derived, 3);
                prop_assert!(found.is_ok(), "{:?}\n{}", found.err(), derived.text(&program));
            }
            Err(faults) => prop_assert!(
                in_turn && faults.iter().all(|f| f.reason == Reason::TooMany),
                "{faults:?}"
            ),
        }
    }
}

proptest! {
    // About half of them have formulas.
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn random_subscripts_have_the_edges_of_brute_force_or_are_refused(
        items in [1..3u8, 0..2u8].prop_flat_map(|modes| modes.map(loops_around))
    ) {
        is_exact(&items, false)?;
    }
}
