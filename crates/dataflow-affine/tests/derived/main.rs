//! What is derived equals what running the program finds: for textbook programs over all small
//! parameters, and for random nests.

mod brute;
mod programs;
mod random;

use brute::check;
use dataflow_affine::{Derived, Reason, derive, edges};
use std::time::Instant;

#[test]
fn both_ends_of_every_edge_are_those_of_brute_force() {
    for (name, program, up_to) in programs::all() {
        let start = Instant::now();
        let derived = derive(&program).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
        let took = start.elapsed();
        let found =
            check(&program, &derived, up_to).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        println!(
            "{name:>16}: {:>7.2} ms to derive {:>3} inputs and {:>3} outputs; {} tasks, {} edges checked",
            took.as_secs_f64() * 1e3,
            derived
                .tasks
                .iter()
                .flat_map(|t| &t.inputs)
                .flatten()
                .count(),
            derived
                .tasks
                .iter()
                .flat_map(|t| &t.outputs)
                .flatten()
                .count(),
            found.tasks,
            found.edges,
        );
        assert!(found.tasks > 0 && found.edges > 0, "{name}");
        assert_eq!(found.unlisted, 0, "{name}");
    }
}

/// An inner variable that an equation ties to an outer one was maximised in its own loop's direction: `A[i +
/// 2 * j]` was said to come from the first of its writers.
#[test]
fn the_last_of_several_writers_is_found_or_the_program_is_refused() {
    let mut exact = Vec::new();
    for (name, program) in programs::strided() {
        match edges(&program) {
            Ok(derived) => {
                let found = check(&program, &derived, 6);
                found.unwrap_or_else(|fault| panic!("{name}: {fault}"));
                exact.push(name);
            }
            Err(faults) => assert!(
                faults
                    .iter()
                    .all(|f| matches!(f.reason, Reason::Inexact(_))),
                "{name}: {faults:?}"
            ),
        }
    }
    assert_eq!(exact, ["i + j"]);
}

/// Where none of six equations holds has 46 parts with as many sources each, and was refused for them.
#[test]
fn alternatives_are_counted_when_those_are_one_that_can_be_said_as_one() {
    let program = programs::planes();
    let derived = edges(&program).unwrap();
    assert_eq!(program.statements()[1].pieces.len(), 46);
    assert_eq!(derived.tasks[1].inputs[0].len(), 2, "written, or not");
    check(&program, &derived, 2).unwrap();
}

/// Seven took a minute, eight some hours.
#[test]
fn a_statement_under_many_unrelated_inequalities_is_refused_at_once() {
    for n_inequalities in [7, 8, 40] {
        let faults = edges(&programs::unequal(n_inequalities)).unwrap_err();
        let told: Vec<_> = faults.iter().map(|f| (f.access, &f.reason)).collect();
        assert_eq!(told, [(None, &Reason::TooManyParts)], "{n_inequalities}");
    }
    let program = programs::unequal(3);
    let derived = edges(&program).unwrap();
    check(&program, &derived, 2).unwrap();
}

#[test]
fn the_formulas_of_cholesky_are_those_written_by_hand() {
    let program = programs::cholesky();
    let text = derive(&program).unwrap().text(&program);
    let expected = include_str!("cholesky.txt");
    assert_eq!(text, expected, "derived:\n{text}");
}

/// Each nest was compared with each other one before the text was asked, which makes more guards than there are
/// alternatives.
#[test]
fn nests_one_after_another_have_as_many_alternatives_as_their_ranges_have_or_are_refused() {
    for n_slabs in 1..=7 {
        let program = programs::slabs(n_slabs);
        let of_last = |derived: Derived| derived.tasks[n_slabs - 1].inputs[0].len();
        let found = edges(&program).map(of_last);
        println!("{n_slabs} slabs: {found:?}");
        match found {
            // A datum lies before or behind each earlier range, or in it.
            Ok(n) => assert_eq!(n, (1 << n_slabs) - 1, "{n_slabs} slabs"),
            Err(faults) => {
                let (reason, access) = (&faults[0].reason, faults[0].access);
                let told = (n_slabs, reason, access);
                assert!(matches!(told, (7.., Reason::TooMany, Some(0))), "{told:?}");
            }
        }
    }
    for n_slabs in 2..=3 {
        let program = programs::slabs(n_slabs);
        let derived = edges(&program).unwrap();
        check(&program, &derived, 3).unwrap_or_else(|fault| panic!("{n_slabs} slabs: {fault}"));
    }
}
