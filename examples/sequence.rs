//! A tour of sequences: what a task can say that it does with which data, a screen each.
//!
//! Each stop checks what it has made. On several ranks the last one, a recorded program, runs across
//! them; the others run on each.

use common::cli::{self, Example, Failure, NoFlags, Outcome, Settings};
use dataflow::core::rank::Rank;
use dataflow::core::words::counted;
use dataflow::prelude::Store;
use dataflow::sequence::record::record;
use dataflow::sequence::{commute, read, reduce, scope, update, write};
use dataflow::{Error, Monitor, Report, Runtime};
use std::process::ExitCode;

const EXAMPLE: Example = Example {
    name: "sequence",
    about: "Shows what tasks of a sequence may do with their data",
    runs: true,
    honours: &[],
};

/// Reads run side by side; a write waits for all before it, and all after it wait for the write.
fn reading_and_writing(runtime: &Runtime, monitor: &Monitor) -> Result<(Report, String), Error> {
    let (mut numbers, mut sum) = ([1, 2, 3, 4], 0);
    let ((), report) = scope(&runtime.watched_by(monitor), |s| {
        let numbers = s.lend_all(&mut numbers);
        let sum = s.lend(&mut sum);
        for number in &numbers {
            s.task(update(number), |number| *number *= 10);
        }
        let all: Vec<_> = numbers.iter().map(read).collect();
        s.task((all, write(&sum)), |(all, sum)| {
            *sum = all.into_iter().sum();
        });
        // After the sum, though nothing here says so but the order of the program.
        s.task(write(&numbers[0]), |number| *number = 0);
    })?;
    assert_eq!((sum, numbers), (100, [0, 20, 30, 40]));
    Ok((report, format!("read, write: the sum is {sum}")))
}

/// Tasks that commute do so in any order, one at a time: whoever finds the datum taken does
/// something else meanwhile.
fn commuting(runtime: &Runtime, monitor: &Monitor) -> Result<(Report, String), Error> {
    let (mut even, mut odd) = (Vec::new(), Vec::new());
    let ((), report) = scope(&runtime.watched_by(monitor), |s| {
        let (even, odd) = (s.lend(&mut even), s.lend(&mut odd));
        for number in 0..100 {
            let list = if number % 2 == 0 { &even } else { &odd };
            s.task(commute(list), move |list| list.push(number));
        }
        s.task((update(&even), update(&odd)), |(even, odd)| {
            even.sort_unstable();
            odd.sort_unstable();
        });
    })?;
    assert!(even.iter().copied().eq((0..100).step_by(2)), "{even:?}");
    assert!(odd.iter().copied().eq((1..100).step_by(2)), "{odd:?}");
    Ok((
        report,
        format!("commute: {} even, {} odd", even.len(), odd.len()),
    ))
}

/// Tasks that reduce add to copies, which are merged in the order of the program: as parallel as
/// commuting, and the same bits each time.
fn reducing(runtime: &Runtime, monitor: &Monitor) -> Result<(Report, String), Error> {
    let mut pi = 0.0;
    let ((), report) = scope(&runtime.watched_by(monitor), |s| {
        let pi = s.lend(&mut pi);
        for part in 0..100 {
            s.task(reduce(&pi), move |pi| {
                let terms = (1000 * part..1000 * (part + 1)).map(|k| f64::from(2 * k + 1));
                *pi += terms
                    .map(|odd| {
                        if odd % 4.0 == 1.0 {
                            4.0 / odd
                        } else {
                            -4.0 / odd
                        }
                    })
                    .sum::<f64>();
            });
        }
    })?;
    assert!((pi - std::f64::consts::PI).abs() < 2e-5);
    Ok((
        report,
        format!("reduce: π is {pi:.6}, the same bits each time"),
    ))
}

/// A task may insert tasks on pieces of what it accesses, which it keeps until the last has ended.
fn nesting(runtime: &Runtime, monitor: &Monitor) -> Result<(Report, String), Error> {
    let mut blocks = vec![[3u64, 1, 2]; 4];
    let mut total = 0;
    let ((), report) = scope(&runtime.watched_by(monitor), |s| {
        let blocks = s.lend_all(&mut blocks);
        let total = s.lend(&mut total);
        for block in &blocks {
            s.nested(write(block), |s, block| {
                for number in s.lend_all(block) {
                    s.task(update(&number), |number| *number *= *number);
                }
            });
            s.task((read(block), commute(&total)), |(block, total)| {
                *total += block.iter().sum::<u64>();
            });
        }
    })?;
    assert_eq!(total, 4 * 14);
    Ok((report, format!("nested: the sum of squares is {total}")))
}

/// A recorded program runs as often as one likes, and across ranks: a task where what it writes is
/// at home, a version once to each rank that reads it.
fn recording(runtime: &Runtime, monitor: &Monitor) -> Result<(Report, String), Error> {
    const STEPS: u32 = 10;
    let n_ranks = runtime.n_ranks();
    // Each rank is at home to one number; the others' slots are never looked at.
    let store = Store::new("numbers", vec![1u64; n_ranks]);
    let mut sums = Vec::new();
    let step = record("smooth", n_ranks, |s| {
        let numbers = (0..n_ranks).map(|at| s.home(&store, at, Rank(at as u32)));
        let numbers: Vec<_> = numbers.collect();
        for at in 1..n_ranks {
            s.task(
                (read(&numbers[at - 1]), write(&numbers[at])),
                |(left, own)| *own += left,
            );
        }
        s.task(write(&numbers[0]), |first| *first += 1);
        sums.extend(numbers.iter().map(|number| s.gather(number)));
    })?;
    let mut report = Report::default();
    for _ in 0..STEPS {
        report = report.followed_by(step.run_across(&runtime.watched_by(monitor))?);
    }
    let numbers: Vec<u64> = sums.iter().filter_map(|sum| sum.take()).collect();
    // The same in a plain loop.
    let mut expected = vec![1; n_ranks];
    for _ in 0..STEPS {
        for at in 1..n_ranks {
            expected[at] += expected[at - 1];
        }
        expected[0] += 1;
    }
    assert_eq!(numbers, expected);
    Ok((
        report,
        format!(
            "recorded: after {STEPS} steps on {} {numbers:?}",
            counted(n_ranks, "rank")
        ),
    ))
}

fn tour(
    settings: &Settings<NoFlags>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let mut lines = Vec::new();
    let mut run = |monitor: &Monitor| -> Result<Report, Error> {
        let stops = [reading_and_writing, commuting, reducing, nesting, recording];
        lines.clear();
        let mut report = Report::default();
        for stop in stops {
            let (one, line) = stop(runtime, monitor)?;
            report = report.followed_by(one);
            lines.push(line);
        }
        Ok(report)
    };
    outcome.measured = settings.median(|_| settings.measure(runtime, &mut run))?;
    outcome.set("stops", lines.clone());
    lines.iter().for_each(|line| outcome.say(line));
    Ok(())
}

fn main() -> ExitCode {
    cli::run(&EXAMPLE, tour)
}
