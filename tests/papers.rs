//! The papers' machines: laws that every simulated run keeps, and small runs whose numbers are held.

#[path = "../benches/overlap/held.rs"]
#[allow(dead_code, reason = "other tests also look in between")]
mod held;
#[path = "../benches/papers/lookahead.rs"]
mod lookahead;
#[path = "../benches/papers/machine.rs"]
#[allow(dead_code, reason = "the bench also says what a machine is")]
mod machine;
#[path = "../benches/papers/protocol.rs"]
#[allow(dead_code, reason = "the bench prints all of an answer")]
mod protocol;
#[path = "../benches/papers/run.rs"]
#[allow(dead_code, reason = "the bench asks more, and prints all of an answer")]
mod run;
#[path = "../benches/overlap/spaces.rs"]
#[allow(dead_code, reason = "the bench overlap runs another space, too")]
mod spaces;
#[path = "../benches/overlap/world.rs"]
mod world;

use dataflow::linalg::flops;
use machine::Machine;
use run::{Answer, Question};
use std::time::Duration;

/// On a grid of Griffon's hosts, with so many workers each.
fn griffon(nt: usize, grid: (u32, u32), workers: usize) -> Question {
    let machine = Machine::named("griffon").unwrap();
    let question = Question::hybrid(&machine, 340 * nt, 340, 1).unwrap();
    Question {
        grid,
        workers,
        ..question
    }
}

/// Seconds of all kernels of a factorisation together on one core, and those of the longest way.
fn work_and_way(question: &Question) -> (f64, f64) {
    let (nt, nb) = ((question.n / question.nb) as f64, question.nb as f64);
    let seconds = |class, operations| question.machine.seconds(class) * operations;
    let potrf = seconds("Potrf", flops::potrf::<f64>(question.nb) as f64);
    let trsm = seconds("Trsm", nb.powi(3));
    let herk = seconds("Herk", nb.powi(2) * (nb + 1.0));
    let gemm = seconds("Gemm", 2.0 * nb.powi(3));
    let pairs = nt * (nt - 1.0) / 2.0;
    let work = nt * potrf + pairs * (trsm + herk) + pairs * (nt - 2.0) / 3.0 * gemm;
    let way = 2.0 * potrf + trsm + herk + (nt - 2.0) * (gemm + trsm);
    (work, way)
}

#[test]
fn a_rank_of_one_worker_takes_the_sum_of_all_kernels() {
    let question = griffon(12, (1, 1), 1);
    let Answer { seconds, tasks, .. } = question.simulate().unwrap();
    let (work, _) = work_and_way(&question);
    assert_eq!(tasks, 12 * 13 * 14 / 6);
    // Each body's time is rounded to nanoseconds.
    assert!(
        (seconds - work).abs() < 1e-9 * tasks as f64,
        "{seconds} {work}"
    );
}

#[test]
fn no_run_is_shorter_than_its_area_or_its_longest_way() {
    for (nt, grid, workers) in [
        (6, (1, 1), 8),
        (20, (2, 2), 4),
        (20, (3, 3), 8),
        (9, (2, 3), 2),
    ] {
        let question = griffon(nt, grid, workers);
        let answer = question.simulate().unwrap();
        let (work, way) = work_and_way(&question);
        let area = work / question.cores() as f64;
        let of = format!("{nt} tiles on {grid:?} of {workers}");
        assert!(
            answer.seconds >= area && answer.seconds >= way,
            "{of}: {answer:?}"
        );
    }
}

#[test]
fn hosts_help_and_waiting_for_what_is_sent_does_not() {
    let seconds = |question: &Question| question.simulate().unwrap().seconds;
    let (one, four) = (griffon(24, (1, 1), 8), griffon(24, (2, 2), 8));
    let blocking = Question {
        is_blocking: true,
        ..four.clone()
    };
    let flat = four.clone().flat().unwrap();
    assert_eq!(
        (flat.grid, flat.workers, flat.cores()),
        ((4, 8), 1, four.cores())
    );
    let all = [&four, &blocking, &flat, &one].map(seconds);
    assert!(all.is_sorted(), "{all:?}");
    assert!(
        all[3] < 4.0 * all[0],
        "four hosts do not do the work of five: {all:?}"
    );
}

#[test]
fn a_lookahead_of_three_columns_holds_less_on_griffon_and_takes_no_longer() {
    let machine = Machine::named("griffon").unwrap();
    let rows = lookahead::compare(&machine, (60, 340), 9).unwrap();
    let row = |columns| rows.iter().find(|row| row.columns == columns).unwrap();
    let (unbounded, three) = (row(None), row(Some(3)));
    assert!(
        3 * three.held < 2 * unbounded.held,
        "{} {}",
        three.held,
        unbounded.held
    );
    assert!(three.seconds < 1.02 * unbounded.seconds);
    assert!(row(Some(0)).held <= three.held);
}

#[test]
fn ranks_are_opened_told_and_closed_in_this_order() {
    let question = protocol::Question {
        n_ranks: 40,
        told: 30,
        steps: 3,
    };
    let answer = question
        .simulate(&Machine::named("large").unwrap())
        .unwrap();
    assert_eq!(answer.tasks, 121);
    // 8 MB at 25 GB/s, at least twice in a row: once out and once in.
    assert!(
        answer.told > answer.made + Duration::from_micros(320),
        "{answer:?}"
    );
    let opened = answer.opened.expect("ten ranks are told nothing");
    assert!(opened < answer.told && answer.computed < answer.closed);
    assert!(answer.told + Duration::from_micros(300) <= answer.computed);
}

#[test]
fn where_every_rank_is_told_none_says_when_the_run_was_open() {
    let question = protocol::Question {
        n_ranks: 4,
        told: 4,
        steps: 1,
    };
    let machine = Machine::named("large").unwrap();
    let answer = question.simulate(&machine).unwrap();
    assert_eq!(answer.opened, None, "{answer:?}");
}
