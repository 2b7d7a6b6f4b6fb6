//! Faults of the protocol itself, planted one by one: each must be found.
//!
//! A message is dropped, doubled or changed on its way out. Found means: no wrong result passes for a
//! right one. Either every rank ends with an error, or the counters disagree, or (where a protocol
//! heals itself) everything is right.

use crate::engine::{End, Graph, Random, Task, on_ranks, run, run_on};
use dataflow_core::port::{Courier, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::simulated::{Weather, spend};
use dataflow_mpi::wire::{Kind, Message};
use dataflow_mpi::{Counters, Settings};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to the first message of a kind that a rank says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Dropped,
    /// All of the kind are dropped, from the first on.
    NeverSaid,
    Doubled,
    OfAnotherRun,
    Changed,
}

struct Found {
    ends: Vec<End>,
    counters: Vec<Counters>,
    planted: u32,
}

/// Three ranks run a graph; the first message of `kind` is treated badly, wherever it is said.
fn plant(kind: Kind, fault: Fault, graph: &Arc<Graph>, settings: &Settings) -> Found {
    let weather = Weather {
        deadline: Duration::from_secs(2000),
        ..Weather::default()
    };
    let planted = Arc::new(Mutex::new(0));
    let (count, graph) = (planted.clone(), graph.clone());
    let told = on_ranks(weather, 3, settings, move |messenger, host| {
        let count = count.clone();
        messenger.tamper(Box::new(move |_, run, message| {
            let mut planted = count.lock().unwrap();
            if message.kind() != kind || (*planted > 0 && fault != Fault::NeverSaid) {
                return 1;
            }
            *planted += 1;
            spoil(fault, run, message)
        }));
        let end = run(&graph, &messenger, &*host);
        spend(Duration::from_secs(15));
        (end, messenger.counters())
    });
    let (ends, counters) = told.into_iter().unzip();
    let planted = *planted.lock().unwrap();
    Found {
        ends,
        counters,
        planted,
    }
}

fn spoil(fault: Fault, run: &mut u32, message: &mut Message<'_>) -> usize {
    match (fault, message) {
        (Fault::Dropped | Fault::NeverSaid, _) => return 0,
        (Fault::Doubled, _) => return 2,
        (Fault::OfAnotherRun, _) => *run += 1,
        (Fault::Changed, Message::Activate(activate)) => activate.number += 1,
        (Fault::Changed, Message::Get(get)) => get.offset += 1,
        (Fault::Changed, Message::Credit { arrived }) => *arrived += 1 << 40,
        (Fault::Changed, Message::Tally { tally, .. }) => tally.delivered += 1,
        (Fault::Changed, Message::Quiet { round }) => *round += 1,
        (Fault::Changed, Message::Close(account)) => account.numbers[1] += 1,
        (Fault::Changed, Message::Welcome { disagreement }) => {
            *disagreement = "n is 1 on rank 0 and 2 on rank 1".into()
        }
        (Fault::Changed, _) => return 0,
    }
    1
}

fn settings() -> Settings {
    Settings {
        credit_bytes: 8 << 10,
        ..Settings::default()
    }
}

fn all_fail(found: &Found) -> bool {
    found.ends.iter().all(|end| !matches!(end.result, Ok(None)))
}

#[test]
fn a_fault_planted_in_a_message_without_which_no_run_ends_is_an_error_on_every_rank() {
    let graph = Graph::random(7, 3, 200);
    for kind in [Kind::Hello, Kind::Activate, Kind::Get, Kind::Close] {
        for fault in [
            Fault::Dropped,
            Fault::Doubled,
            Fault::OfAnotherRun,
            Fault::Changed,
        ] {
            if (kind, fault) == (Kind::Hello, Fault::OfAnotherRun) {
                continue; // below: the next run begins with it, and this one never
            }
            let found = plant(kind, fault, &graph, &settings());
            assert!(found.planted > 0, "{kind:?} was said");
            assert!(all_fail(&found), "{kind:?} {fault:?}: {:?}", found.ends);
        }
    }
}

#[test]
fn data_that_do_not_come_are_named_with_whom_they_were_asked_of() {
    let found = plant(
        Kind::Get,
        Fault::Dropped,
        &Graph::random(7, 3, 200),
        &settings(),
    );
    for end in &found.ends {
        let (_, text) = end.result.clone().unwrap_err();
        assert!(text.contains("bytes that it was asked for"), "{text}");
    }
}

#[test]
fn a_decision_that_does_not_reach_a_rank_is_an_error_there() {
    let graph = Graph::random(8, 3, 50);
    for (kind, fault) in [
        (Kind::Welcome, Fault::Dropped),
        (Kind::Welcome, Fault::Doubled),
        (Kind::Welcome, Fault::Changed),
        (Kind::Closed, Fault::Dropped),
        (Kind::Closed, Fault::OfAnotherRun),
    ] {
        let found = plant(kind, fault, &graph, &settings());
        let errors = found.ends.iter().filter(|end| end.result.is_err()).count();
        assert!(
            found.planted > 0 && errors > 0,
            "{kind:?} {fault:?}: {:?}",
            found.ends
        );
    }
}

#[test]
fn credit_that_is_lost_shows_in_the_counters_and_more_than_was_lent_is_an_error() {
    let graph = Graph::flood(3, 500, Some(200), 2e-5);
    let good = plant(Kind::Bye, Fault::Changed, &graph, &settings());
    let sum = |found: &Found, of: fn(&Counters) -> u64| found.counters.iter().map(of).sum::<u64>();
    assert_eq!(
        sum(&good, |own| own.credits_sent),
        sum(&good, |own| own.credits_came)
    );
    let found = plant(Kind::Credit, Fault::NeverSaid, &graph, &settings());
    assert!(
        found.planted > 0 && found.ends.iter().all(End::is_good),
        "the data are asked for instead"
    );
    assert!(sum(&found, |own| own.credits_sent) > sum(&found, |own| own.credits_came));
    assert!(sum(&found, |own| own.gets) > sum(&good, |own| own.gets));
    assert!(all_fail(&plant(
        Kind::Credit,
        Fault::Changed,
        &graph,
        &settings()
    )));
}

#[test]
fn a_rank_that_says_nothing_any_more_is_lost() {
    // Rank 2 computes for a minute; without beats it looks dead, with them it does not.
    let task = |owner, inputs: Vec<usize>, seconds| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(8)],
        seconds,
        priority: 0,
    };
    let graph = Graph::new(
        3,
        vec![
            task(2, vec![], 60.0),
            task(0, vec![0], 0.0),
            task(1, vec![0], 0.0),
        ],
    );
    let fair = plant(Kind::Bye, Fault::Changed, &graph, &settings());
    assert!(fair.ends.iter().all(End::is_good), "{:?}", fair.ends);
    let found = plant(Kind::Beat, Fault::NeverSaid, &graph, &settings());
    for end in &found.ends {
        let (kind, text) = end.result.clone().unwrap_err();
        assert!(kind == "RankLost" && text.contains("silent"), "{text}");
    }
}

/// Task 1 waits for task 0, which its owner does not know to feed it: nothing can run any more.
fn stalled() -> Arc<Graph> {
    let task = |owner, inputs: Vec<usize>| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(8)],
        seconds: 0.001,
        priority: 0,
    };
    let mut tasks = vec![task(0, vec![]), task(1, vec![0]), task(2, vec![1])];
    tasks.push(task(2, vec![]));
    let mut graph = Arc::into_inner(Graph::new(3, tasks)).unwrap();
    graph.forget_edge(0, 1);
    Arc::new(graph)
}

#[test]
fn a_stall_is_found_by_all_ranks_even_if_a_message_of_a_wave_is_lost() {
    let graph = stalled();
    for (kind, fault) in [
        (Kind::Bye, Fault::Changed), // nothing planted: the run has ended by then
        (Kind::Dry, Fault::Dropped),
        (Kind::Wave, Fault::Dropped),
        (Kind::Tally, Fault::Dropped),
        (Kind::Tally, Fault::Changed),
        (Kind::Tally, Fault::Doubled),
    ] {
        let found = plant(kind, fault, &graph, &settings());
        assert!(
            found.planted > 0 && all_fail(&found),
            "{kind:?} {fault:?}: {:?}",
            found.ends
        );
        assert!(
            found.ends[1].stalled,
            "{kind:?} {fault:?}: {:?}",
            found.ends
        );
        let failures: Vec<_> = found.ends.iter().map(|end| end.result.clone()).collect();
        assert!(
            failures.iter().all(|failure| *failure == failures[0]),
            "the same everywhere"
        );
    }
}

/// They never looked at the clock, and so not at whether anything went on.
#[test]
fn ranks_that_never_beat_hear_of_a_stall_too() {
    let never = Settings {
        beat: Duration::MAX,
        silence: Duration::MAX,
        ..settings()
    };
    let found = plant(Kind::Bye, Fault::Changed, &stalled(), &never);
    assert!(
        all_fail(&found) && found.ends[1].stalled,
        "{:?}",
        found.ends
    );
}

#[test]
fn a_wave_that_ends_early_is_an_error() {
    // Every rank is told that nothing will happen any more while rank 2 is at work.
    let task = |owner, inputs: Vec<usize>, seconds| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(8)],
        seconds,
        priority: 0,
    };
    let graph = Graph::new(
        3,
        vec![
            task(2, vec![], 5.0),
            task(0, vec![0], 0.0),
            task(1, vec![0], 0.0),
        ],
    );
    let found = plant_early_quiet(&graph);
    assert!(
        found.iter().all(|end| end
            .result
            .as_ref()
            .is_err_and(|(kind, text)| kind == "Malformed" && text.contains("too early"))),
        "{found:?}"
    );
}

fn plant_early_quiet(graph: &Arc<Graph>) -> Vec<End> {
    let graph = graph.clone();
    on_ranks(
        Weather::default(),
        3,
        &settings(),
        move |messenger, host| {
            // The root concludes as soon as it has asked.
            messenger.tamper(Box::new(|_, _, message| {
                if let Message::Wave { round } = *message {
                    *message = Message::Quiet { round };
                }
                1
            }));
            run(&graph, &messenger, &*host)
        },
    )
}

#[test]
fn a_failure_that_is_not_told_still_ends_the_run_with_that_failure() {
    let mut graph = Arc::into_inner(Graph::random(9, 3, 100)).unwrap();
    graph.fails = Some((40, true));
    let graph = Arc::new(graph);
    let task = 40;
    for fault in [Fault::Dropped, Fault::NeverSaid, Fault::Doubled] {
        let found = plant(Kind::Abort, fault, &graph, &settings());
        for end in &found.ends {
            let failure = end.result.clone().unwrap().unwrap();
            assert_eq!(
                (&failure.kind[..], failure.index),
                ("broken_pivot", task as u64),
                "{fault:?}"
            );
        }
    }
}

#[test]
fn a_body_that_fails_is_the_same_failure_on_every_rank_and_the_next_run_succeeds() {
    for seed in 0..60 {
        let (fails, stops) = (Random(seed).below(100), seed % 3 > 0);
        let mut bad = Arc::into_inner(Graph::random(seed, 3, 100)).unwrap();
        bad.fails = Some((fails, stops));
        let (bad, good) = (Arc::new(bad), Graph::random(seed + 1, 3, 60));
        // Most data are asked for, so that some are under way when the run stops.
        let settings = Settings {
            inline_bytes: 60,
            blocking: seed % 4 == 0,
            ..settings()
        };
        let told = on_ranks(
            Weather::rough(seed, 3),
            3,
            &settings,
            move |messenger, host| {
                let n = messenger.rank().0.min(1).to_string();
                let terms = Terms {
                    settings: vec![("n".into(), n)],
                };
                [
                    run(&bad, &messenger, &*host),
                    run_on(&good, &messenger, &*host, &terms),
                    run(&good, &messenger, &*host),
                ]
            },
        );
        for [failed, refused, good] in told {
            assert_eq!(
                failed.result.unwrap().unwrap().index,
                fails as u64,
                "seed {seed}"
            );
            let differs = (
                "ParametersDiffer".to_string(),
                "n is 0 on rank 0 and 1 on rank 1".to_string(),
            );
            assert_eq!(refused.result, Err(differs), "seed {seed}");
            assert!(good.is_good(), "seed {seed}: {good:?}");
        }
    }
}

/// Rank 1 fails before the datum of rank 0 comes, and confirms it no more; rank 2 computes for longer than
/// ranks may be silent. Rank 1 was lost then, and no further run began.
#[test]
fn a_receipt_that_nobody_waits_for_any_more_is_not_missed() {
    let task = |owner, inputs: Vec<usize>, seconds| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(8)],
        seconds,
        priority: 0,
    };
    let tasks = vec![
        task(1, vec![], 0.0),
        // It is sent when rank 1 begins, 5 µs after rank 0, and before rank 0 can hear that rank 1 failed.
        task(0, vec![], 3e-6),
        task(1, vec![1], 0.0),
        task(2, vec![], 15.0),
    ];
    let mut bad = Arc::into_inner(Graph::new(3, tasks)).unwrap();
    bad.fails = Some((0, true));
    let (bad, good) = (Arc::new(bad), Graph::random(1, 3, 30));
    let settings = Settings {
        blocking: true,
        ..settings()
    };
    let told = on_ranks(Weather::default(), 3, &settings, move |messenger, host| {
        [&bad, &good].map(|graph| run(graph, &messenger, &*host))
    });
    for [failed, good] in told {
        let failure = failed.result.unwrap().unwrap();
        assert_eq!((&*failure.kind, failure.index), ("broken_pivot", 0));
        assert!(good.is_good(), "{good:?}");
    }
}
