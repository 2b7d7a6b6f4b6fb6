//! Random nests: depth at most 3, two arrays, conditions and descending loops.

use crate::brute::check;
use dataflow_affine::{Affine, Mode, Program, Reason, System, Var, derive, disjoint};
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
        accesses: Vec<(u8, usize, [Bound; 2])>,
    },
}

/// An expression: a variable in scope, by number, or none, and a constant.
#[derive(Clone, Copy, Debug)]
struct Bound(u8, i64);

fn bound() -> impl Strategy<Value = Bound> {
    (0..6u8, -1..=1i64).prop_map(|(var, c)| Bound(var, c))
}

fn item() -> impl Strategy<Value = Item> {
    let access = (0..6u8, 0..2usize, [bound(), bound()]);
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
                    let mode = [Mode::Read, Mode::Update, Mode::New][*mode as usize % 3];
                    (mode, *family, subscripts.map(|s| s.within(scope)))
                })
                .collect();
            let accesses: Vec<_> = accesses.iter().map(|(m, f, s)| (*m, *f, &s[..])).collect();
            program.task(&name, &accesses);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_global_rejects: 100_000, ..ProptestConfig::default() })]
    #[test]
    fn random_nests_have_the_edges_of_brute_force(items in prop::collection::vec(item(), 1..=3)) {
        let mut program = Program::default();
        let n = program.parameter("n");
        for name in ["A", "B"] {
            program.family(name, true);
        }
        items.iter().for_each(|item| write(&mut program, &mut vec![n], item));
        match dataflow_affine::edges(&program) {
            Ok(derived) => {
                if let Err(fault) = check(&program, &derived, 4) {
                    panic!("{fault}\n{}", derived.text(&program));
                }
            }
            Err(faults) => prop_assert!(
                faults.iter().all(|f| matches!(f.reason, Reason::WrittenTwice(_))),
                "{faults:?}"
            ),
        }
        // Whatever else is wrong with it is told, not met.
        let _ = derive(&program);
    }
}
