//! The core's engine over this courier in virtual time: late, slow and failing ranks, small limits.
//!
//! What the protocol does by itself in these cases: `limits.rs`, `faults.rs`.

use crate::engine::space::{Drawn, Fault};
use crate::engine::{Graph, Task, in_world};
use dataflow_core::port::{Context, Courier};
use dataflow_core::prelude::*;
use dataflow_core::{Report, run_across};
use dataflow_mpi::transport::simulated::{VirtualWorkers, Weather, World, spend};
use dataflow_mpi::{Drive, Messenger, Settings};
use std::sync::Arc;
use std::time::Duration;

/// Runs a graph on this rank; how it ended, and when the last body here did.
fn run(
    space: &Drawn,
    messenger: &Messenger,
    world: &World,
    n_workers: usize,
) -> (Result<Report, Error>, Duration) {
    let workers = VirtualWorkers::new(world, messenger.rank(), n_workers);
    let report = run_across(space, &Context::new(&workers).across(messenger));
    (report, space.worked())
}

fn tasks_of(reports: impl IntoIterator<Item = Result<Report, Error>>) -> u64 {
    reports
        .into_iter()
        .map(|report| report.unwrap().tasks)
        .sum()
}

#[test]
fn a_hundred_thousand_activations_to_one_rank_stay_within_caps_as_small_as_can_be() {
    let weather = Weather {
        message_bytes: 1 << 10,
        largest_tag: 32_767,
        ..Weather::default()
    };
    let settings = Settings {
        credit_bytes: 1 << 10,
        window_bytes: 1,
        ..Settings::default()
    };
    let graph = Graph::flood(4, 100_000, Some(8), 0.0);
    let story = in_world(weather, 4, &settings, move |messenger, world| {
        let (report, _) = run(&Drawn::new(&graph, world), &messenger, world, 2);
        (report, messenger.totals())
    });
    let (reports, totals): (Vec<_>, Vec<_>) = story.unwrap().told.into_iter().unzip();
    assert_eq!(tasks_of(reports), 200_000);
    let totals = totals[0];
    assert_eq!((totals.activations, totals.messages), (100_000, 100_000));
    assert_eq!(totals.bytes(), 800_000);
    assert!(totals.peak_inline_bytes <= 1 << 10, "{totals:?}");
    assert!(
        totals.peak_fetched_bytes <= 8,
        "one datum is always allowed: {totals:?}"
    );
    assert!(
        totals.inline_bytes > 0 && totals.fetched_bytes > 0,
        "both ways: {totals:?}"
    );
}

#[test]
fn a_rank_that_starts_5_s_late_is_waited_for() {
    for late in (0..4).map(Rank) {
        let graph = Graph::random(1, 4, 50);
        let settings = Settings::default();
        let story = in_world(Weather::default(), 4, &settings, move |messenger, world| {
            if messenger.rank() == late {
                spend(Duration::from_secs(5));
            }
            run(&Drawn::new(&graph, world), &messenger, world, 2)
        });
        let told = story.unwrap().told;
        assert!(
            told.iter()
                .all(|(_, worked)| *worked >= Duration::from_secs(5))
        );
        assert_eq!(tasks_of(told.into_iter().map(|(report, _)| report)), 50);
    }
}

/// Rank 2 makes a large datum and then computes for 15 s; rank 0 asks for it meanwhile, and feeds
/// rank 1.
#[test]
fn a_body_of_15_s_delays_nobody_and_does_not_look_dead() {
    let task = |owner, inputs: Vec<usize>, seconds, priority| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(100_000)],
        seconds,
        priority,
    };
    let graph = Graph::new(
        3,
        vec![
            task(2, vec![], 0.0, 1),
            task(2, vec![], 15.0, 0),
            task(0, vec![0], 0.0, 0),
            task(1, vec![2], 0.0, 0),
        ],
    );
    for drive in [Drive::Dedicated, Drive::Workers] {
        let settings = Settings {
            drive,
            ..Settings::default()
        };
        let graph = graph.clone();
        let story = in_world(Weather::default(), 3, &settings, move |messenger, world| {
            run(&Drawn::new(&graph, world), &messenger, world, 1)
        });
        let told = story.unwrap().told;
        let worked = |rank: usize| told[rank].1;
        assert!(
            worked(0) < Duration::from_millis(2),
            "{drive:?}: {:?}",
            worked(0)
        );
        assert!(
            worked(1) < Duration::from_millis(3),
            "{drive:?}: {:?}",
            worked(1)
        );
        assert!(worked(2) >= Duration::from_secs(15));
        assert_eq!(tasks_of(told.into_iter().map(|(report, _)| report)), 4);
    }
}

#[test]
fn a_body_that_fails_or_panics_on_any_rank_is_the_same_error_on_all_and_the_next_run_works() {
    for fault in [Fault::Error, Fault::Panic] {
        for on in (0..3).map(Rank) {
            let good = Graph::random(u64::from(on.0), 3, 60);
            let mut bad = Arc::into_inner(Graph::random(u64::from(on.0), 3, 60)).unwrap();
            let task = (20..60).find(|&task| bad.tasks[task].owner == on).unwrap();
            bad.fails = Some((task, true));
            let bad = Arc::new(bad);
            let weather = Weather::rough(u64::from(on.0), 3);
            let settings = Settings::default();
            let story = in_world(weather, 3, &settings, move |messenger, world| {
                let failing = Drawn::new(&bad, world).failing_by(fault);
                let (failed, _) = run(&failing, &messenger, world, 2);
                let (next, _) = run(&Drawn::new(&good, world), &messenger, world, 2);
                (failed.unwrap_err(), next)
            });
            let (errors, next): (Vec<_>, Vec<_>) = story.unwrap().told.into_iter().unzip();
            let name = match fault {
                Fault::Error => "broken_pivot",
                Fault::Panic => "task_panicked",
            };
            for error in &errors {
                assert_eq!((error.name(), error.rank()), (name, Some(on)), "{error}");
                assert_eq!(error.task(), Some(&task.to_string()[..]));
                assert_eq!(error.message(), errors[0].message());
            }
            assert_eq!(tasks_of(next), 60);
        }
    }
}
