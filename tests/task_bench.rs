//! The example `task_bench`: its patterns against Task Bench's own, its payloads, its measure.

#[path = "../examples/task_bench.rs"]
#[allow(dead_code)] // its `main`
mod task_bench;

use common::cli::{Answer, Measured, answer};
use dataflow::Error;
use dataflow::core::port::{Context, Courier, Heap, Shuffled};
use dataflow::core::space::verify;
use dataflow::core::{Report, run_across};
use dataflow::mpi::transport::local;
use dataflow::mpi::wire::Message;
use dataflow::mpi::{Machine, Messenger, Settings};
use std::sync::Arc;
use std::thread;
use task_bench::bare::median;
use task_bench::kernel::{Kernel, Kind};
use task_bench::metg::{Run, metg};
use task_bench::pattern::{Graph, Pattern, uniform};
use task_bench::space::TaskBench;

const EMPTY: Kernel = Kernel {
    kind: Kind::Empty,
    iterations: 0,
};

fn graph(pattern: Pattern, width: u32, steps: u32, radix: u32) -> Graph {
    let period = if pattern.has_period() { 3 } else { 0 };
    Graph {
        pattern,
        width,
        steps,
        radix,
        period,
        fraction: 0.5,
    }
}

/// All patterns in all small sizes that they allow.
fn graphs() -> impl Iterator<Item = Graph> {
    use clap::ValueEnum;
    let sizes = [1, 2, 3, 5, 8, 13].into_iter().flat_map(|width| {
        [1, 2, 4, 9, 17, 30]
            .into_iter()
            .map(move |steps| (width, steps))
    });
    sizes.flat_map(|(width, steps)| {
        let patterns = Pattern::value_variants().iter();
        patterns.flat_map(move |&pattern| {
            let radices = if pattern.has_radix() { 0..6 } else { 0..1 };
            radices.filter_map(move |radix| graph(pattern, width, steps, radix).checked().ok())
        })
    })
}

/// What the original program prints for width 8: the inputs of points 0 to 7, `.` for none.
#[test]
fn the_inputs_of_every_pattern_are_those_of_the_original() {
    use Pattern::*;
    let random = |radix, fraction| Graph {
        fraction,
        ..graph(RandomNearest, 8, 40, radix)
    };
    let of = |pattern, radix| graph(pattern, 8, 40, radix);
    let diamond = graph(Dom, 8, 17, 0);
    let all = "01234567 ".repeat(8);
    for (graph, step, expected) in [
        (of(Trivial, 0), 1, ". . . . . . . ."),
        (of(NoComm, 0), 1, "0 1 2 3 4 5 6 7"),
        (of(Stencil, 0), 1, "01 012 123 234 345 456 567 67"),
        (of(PeriodicStencil, 0), 1, "017 012 123 234 345 456 567 670"),
        (of(Tree, 0), 2, "0 0 1 1"),
        (of(Tree, 0), 3, "0 0 1 1 2 2 3 3"),
        (of(Tree, 0), 39, "0 0 1 1 2 2 3 3"),
        (of(Fft, 0), 1, "01 012 123 234 345 456 567 67"),
        (of(Fft, 0), 2, "02 13 024 135 246 357 46 57"),
        (of(Fft, 0), 3, "04 15 26 37 04 15 26 37"),
        (of(Fft, 0), 4, "01 012 123 234 345 456 567 67"),
        (diamond, 2, "0 01 1"),
        (diamond, 8, "0 01 12 23 34 45 56 67"),
        (diamond, 14, "45 56 67"),
        (of(AllToAll, 0), 1, all.trim_end()),
        (of(Nearest, 0), 1, ". . . . . . . ."),
        (of(Nearest, 1), 1, "0 1 2 3 4 5 6 7"),
        (
            of(Nearest, 5),
            1,
            "012 0123 01234 12345 23456 34567 4567 567",
        ),
        (of(Nearest, 4), 1, "01 012 0123 1234 2345 3456 4567 567"),
        (of(Spread, 3), 1, "036 147 250 361 472 503 614 725"),
        (of(Spread, 3), 2, "047 150 261 372 403 514 625 736"),
        (of(Spread, 4), 3, "0246 1357 2460 3571 4602 5713 6024 7135"),
        (random(5, 0.5), 3, "0 01 24 1345 34 567 467 7"),
        (random(5, 0.5), 1, "012 13 1234 123 346 34567 4567 67"),
        (random(3, 0.25), 1, "01 1 2 234 4 5 6 7"),
    ] {
        let inputs = |point| {
            let digits: String = graph
                .inputs(step, point)
                .map(|(_, q)| q.to_string())
                .collect();
            if digits.is_empty() {
                ".".into()
            } else {
                digits
            }
        };
        let row: Vec<String> = graph.active(step).map(inputs).collect();
        assert_eq!(row.join(" "), expected, "{graph:?}, step {step}");
    }
    assert_eq!(diamond.active(14), 5..8);
    assert_eq!(of(Tree, 0).active(2), 0..4);
}

#[test]
fn chance_is_that_of_the_original() {
    assert!((uniform(&[0, 3, 0, 1, 1]) - 0.230749501902453).abs() < 1e-15);
    assert!((uniform(&[0, 0, 0]) - 0.937142068623676).abs() < 1e-15);
}

#[test]
fn both_ends_of_every_edge_agree_on_1_to_4_ranks() {
    let mut proved = 0;
    for graph in graphs().filter(|graph| graph.steps < 30) {
        for n_ranks in 1..=4 {
            let space = TaskBench::new(graph, n_ranks, 16, EMPTY);
            if let Err(fault) = verify(&space, n_ranks) {
                panic!("{graph:?} on {n_ranks} ranks: {fault}");
            }
            proved += 1;
        }
    }
    assert!(proved > 1000, "{proved}");
}

/// Runs a graph across ranks that are threads: what each rank's run returned, and its errors.
fn on_threads(
    graph: Graph,
    n_ranks: usize,
    bytes: usize,
    prepare: impl Fn(&Messenger) + Sync,
) -> Vec<(Result<Report, Error>, u64)> {
    let rank = |transport| {
        let messenger = Messenger::new(
            Box::new(transport),
            Settings::default(),
            Machine::new(),
            Arc::new(Heap),
        );
        let messenger = messenger.unwrap();
        prepare(&messenger);
        let space = TaskBench::new(graph, n_ranks, bytes, EMPTY);
        let on = Shuffled::new(messenger.rank().0.into()).with_threads(2);
        let report = run_across(&space, &Context::new(&on).across(&messenger));
        (report, space.errors())
    };
    thread::scope(|ranks| {
        let ranks: Vec<_> = local::connect(n_ranks)
            .into_iter()
            .map(|transport| ranks.spawn(|| rank(transport)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn every_pattern_runs_on_1_to_4_ranks_and_no_payload_is_wrong() {
    for (i, graph) in graphs().enumerate().filter(|(i, _)| i % 5 == 0) {
        let bytes = [16, 17, 100, 5000][i % 4];
        for n_ranks in 1..=4 {
            let ended = on_threads(graph, n_ranks, bytes, |_| {});
            let mut tasks = 0;
            for (report, errors) in ended {
                assert_eq!(errors, 0, "{graph:?} on {n_ranks} ranks");
                tasks += report.unwrap().tasks;
            }
            let all = (0..graph.steps).map(|step| graph.active(step).len() as u64);
            assert_eq!(tasks, all.sum::<u64>(), "{graph:?} on {n_ranks} ranks");
        }
    }
}

#[test]
fn a_byte_that_changes_on_its_way_is_the_same_error_on_every_rank() {
    let spoil = |messenger: &Messenger| {
        let mut is_first = messenger.rank().0 == 1;
        messenger.tamper(Box::new(move |_, _, message| {
            if let Message::Activate(activate) = message {
                let data = activate.flows.iter_mut().flat_map(|flow| &mut flow.datum);
                for payload in data.flat_map(|datum| &mut datum.inline) {
                    payload.to_mut()[40] ^= u8::from(std::mem::take(&mut is_first));
                }
            }
            1
        }));
    };
    let ended = on_threads(graph(Pattern::Stencil, 6, 10, 0), 3, 100, spoil);
    assert_eq!(ended.iter().map(|(_, errors)| errors).sum::<u64>(), 1);
    for (report, _) in ended {
        let error = report.unwrap_err();
        assert_eq!(error.name(), "wrong_payload", "{error}");
        assert!(
            error.message().contains("is not 100 bytes of point "),
            "{error}"
        );
    }
}

#[test]
fn metg_lies_between_the_last_effective_run_and_the_next() {
    let run = |granularity, rate| Run { granularity, rate };
    // 100 % at 8 µs, 80 % at 5 µs, 40 % at 3 µs: a quarter of the way from 3 to 5.
    let sweep = [
        run(8.0, 50.0),
        run(5.0, 40.0),
        run(3.0, 20.0),
        run(2.5, 10.0),
    ];
    assert_eq!(metg(&sweep, 50.0), Some(3.5));
    assert_eq!(
        metg(&sweep[..2], 50.0),
        None,
        "no run below half of the peak"
    );
    assert_eq!(metg(&sweep, 200.0), None, "none above");
    // A next run that is not finer tells nothing.
    assert_eq!(metg(&[run(8.0, 50.0), run(9.0, 20.0)], 50.0), Some(8.0));
}

fn ask(line: &str) -> Answer {
    let words = std::iter::once("task_bench").chain(line.split_whitespace());
    answer(&task_bench::EXAMPLE, words, task_bench::task_bench)
}

#[test]
fn the_command_line_runs_what_it_can_honour_and_refuses_the_rest() {
    for (line, at_fault) in [
        ("--pattern stencil --radix 3", "--radix"),
        ("--pattern fft --period 2", "--period"),
        ("--pattern nearest --fraction 0.5", "--fraction"),
        ("--pattern random_nearest --fraction 1.5", "--fraction"),
        ("--pattern stencil_1d_periodic --width 2", "--width"),
        (
            "--pattern spread --width 8 --radix 4 --period 3",
            "--period",
        ),
        ("--pattern spread --width 2", "--radix"),
        ("--bytes 15", "--bytes"),
        ("--kernel empty --iterations 5", "--iterations"),
        ("--kernel empty --metg", "--metg"),
        ("--n 5", "--n"),
    ] {
        let refused = ask(line);
        assert_eq!(refused.status, 2, "{line}: {}", refused.stdout);
        assert!(
            refused.stderr.contains(at_fault),
            "{line}: {}",
            refused.stderr
        );
    }
    for (line, tasks) in [
        ("--pattern trivial --width 5 --steps 7", 35),
        ("--pattern dom --width 3 --steps 5 --kernel memory", 9),
        ("--pattern tree --width 8 --steps 5 --kernel compute", 23),
        (
            "--pattern random_nearest --width 5 --steps 4 --bytes 70000",
            20,
        ),
    ] {
        let told = ask(&format!("{line} --threads 2 --json"));
        assert_eq!(told.status, 0, "{line}: {}", told.stderr);
        let object: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(
            (&object["tasks"], &object["errors"]),
            (&tasks.into(), &0.into())
        );
        assert!(object["seconds"].as_f64().unwrap() > 0.0);
    }
}

/// Of two runs, which is the number that was asked for most often, the bare loop took the slower.
#[test]
fn the_bare_loop_and_the_tasks_are_told_by_the_same_run_of_several() {
    for n in 0..6 {
        let seconds: Vec<f64> = (0..n).map(|run| f64::from(run * 5 % 7)).collect();
        let measured = |&seconds: &f64| Measured {
            seconds,
            ..Measured::default()
        };
        let runs = seconds.iter().map(measured).collect();
        let ours = Measured::median(runs).map_or(0.0, |run| run.seconds);
        assert_eq!(median(seconds.clone()), ours, "{seconds:?}");
    }
}

#[test]
fn a_sweep_finds_a_granularity_that_lies_within_it() {
    let told = ask("--metg --iterations 4096 --steps 50 --ranks 2 --threads 1 --json");
    let object: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let of = |run: &serde_json::Value| run["granularity_seconds"].as_f64().unwrap();
    let sweep = object["sweep"].as_array().unwrap();
    assert_eq!(sweep.len(), 13);
    let metg = object["metg_seconds"].as_f64().unwrap();
    let all = || sweep.iter().map(of);
    let (finest, coarsest) = (all().fold(1.0, f64::min), all().fold(0.0, f64::max));
    assert!(
        finest <= metg && metg <= coarsest,
        "{finest} {metg} {coarsest}"
    );
}
