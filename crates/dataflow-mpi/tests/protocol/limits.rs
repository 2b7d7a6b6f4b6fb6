//! Small limits, large numbers, late and slow ranks, on the simulated network.

use crate::engine::{End, Graph, Task, on_ranks, run, run_on};
use dataflow_core::error::Kind;
use dataflow_core::port::{Courier, Heap, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::simulated::{Weather, World, spend};
use dataflow_mpi::{Counters, Drive, Messenger, Settings};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn small() -> Weather {
    Weather {
        message_bytes: 1 << 10,
        largest_tag: 32_767,
        ..Weather::default()
    }
}

fn run_all(weather: Weather, graph: &Arc<Graph>, settings: &Settings) -> (Vec<End>, Counters) {
    let graph = graph.clone();
    let told = on_ranks(weather, graph.n_ranks, settings, move |messenger, host| {
        (run(&graph, &messenger, &*host), messenger.totals())
    });
    let totals = told[0].1;
    (told.into_iter().map(|(end, _)| end).collect(), totals)
}

fn assert_good(ends: &[End]) {
    for (rank, end) in ends.iter().enumerate() {
        assert!(end.is_good(), "rank {rank}: {end:?}");
    }
}

#[test]
fn a_hundred_thousand_activations_go_to_one_rank_many_in_a_packet() {
    let (ends, totals) = run_all(
        small(),
        &Graph::flood(4, 100_000, None, 0.0),
        &Settings::default(),
    );
    assert_good(&ends);
    assert_eq!((totals.activations, totals.messages), (100_000, 0));
    let each = totals.activations_per_packet();
    assert!(each > 3.0, "{each} activations in a packet of 1 KiB");
    let roomy = Weather::default();
    let (_, totals) = run_all(
        roomy,
        &Graph::flood(4, 20_000, None, 0.0),
        &Settings::default(),
    );
    assert!(
        totals.activations_per_packet() > each,
        "larger packets hold more: {totals:?}"
    );
}

#[test]
fn caps_hold_with_credit_of_one_packet_and_a_window_of_one() {
    for (credit_bytes, window_bytes, size) in [
        (1 << 10, 1, 200),
        (0, 1, 200),
        (200, 1, 5000),
        (1 << 10, 3000, 5000),
    ] {
        let settings = Settings {
            credit_bytes,
            window_bytes,
            ..Settings::default()
        };
        let (ends, totals) = run_all(small(), &Graph::flood(3, 5_000, Some(size), 0.0), &settings);
        assert_good(&ends);
        assert_eq!(
            (totals.messages, totals.bytes()),
            (5_000, 5_000 * size as u64)
        );
        assert!(
            totals.peak_inline_bytes <= credit_bytes as u64,
            "{totals:?}"
        );
        assert!(
            totals.peak_fetched_bytes <= window_bytes.max(size.min(1 << 10)) as u64,
            "{totals:?}"
        );
        assert!(
            totals.fetched_bytes > 0,
            "what found no credit was asked for"
        );
    }
}

#[test]
fn a_transport_with_three_tags_is_enough() {
    let weather = Weather {
        largest_tag: 3,
        ..small()
    };
    let (ends, totals) = run_all(
        weather,
        &Graph::flood(3, 500, Some(20_000), 0.0),
        &Settings::default(),
    );
    assert_good(&ends);
    assert_eq!(totals.gets, 500 * 20);
}

#[test]
fn a_large_datum_takes_three_messages_and_a_small_one_travels_along() {
    let (ends, totals) = run_all(
        Weather::default(),
        &Graph::flood(2, 100, Some(100_000), 0.0),
        &Settings::default(),
    );
    assert_good(&ends);
    assert_eq!(
        (totals.activations, totals.gets, totals.inline_bytes),
        (100, 100, 0)
    );
    let (ends, totals) = run_all(
        Weather::default(),
        &Graph::flood(2, 50, Some(4096), 0.0),
        &Settings::default(),
    );
    assert_good(&ends);
    assert_eq!((totals.gets, totals.inline_bytes), (0, 204_800));
}

#[test]
fn a_datum_for_many_ranks_leaves_its_root_less_often_than_there_are_receivers() {
    let n_ranks = 16;
    let task = |owner, inputs| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(1 << 20)],
        seconds: 0.0,
        priority: 0,
    };
    let tasks = (0..n_ranks)
        .map(|rank| task(rank, if rank == 0 { vec![] } else { vec![0] }))
        .collect();
    let graph = Graph::new(n_ranks as usize, tasks);
    let time = |star_ranks| {
        let settings = Settings {
            star_ranks,
            ..Settings::default()
        };
        let graph = graph.clone();
        let told = on_ranks(
            Weather::default(),
            n_ranks as usize,
            &settings,
            move |messenger, host| {
                let end = run(&graph, &messenger, &*host);
                (end, messenger.counters(), messenger.totals())
            },
        );
        assert_eq!(
            told[0].2.messages,
            u64::from(n_ranks) - 1,
            "each receiver gets it once"
        );
        let last = told.iter().map(|(end, ..)| end.worked).max().unwrap();
        (told[0].1.messages, last)
    };
    let (tree, star) = (time(2), time(100));
    assert_eq!((tree.0, star.0), (2, 15));
    assert!(tree.1 < star.1, "{tree:?} {star:?}");
}

#[test]
fn a_rank_that_starts_late_is_waited_for_and_one_that_does_not_come_is_named() {
    for (late, comes) in [(5, true), (500, true), (700, false)] {
        let settings = Settings::default();
        assert_eq!(settings.patience, Duration::from_secs(600));
        let ends = with_a_late_rank(Duration::from_secs(late), settings);
        for end in &ends {
            assert_eq!(end.is_good(), comes, "{end:?}");
            if let Err((kind, text)) = &end.result {
                assert!(
                    kind == "RankLost" && text.contains("did not open run 1"),
                    "{text}"
                );
            }
        }
    }
}

/// Four ranks of which one begins late: before that it says nothing at all.
fn with_a_late_rank(late: Duration, settings: Settings) -> Vec<End> {
    let world = World::new(Weather::default());
    let ends = world.connect(4).into_iter();
    let ends: Vec<_> = ends.map(|end| Mutex::new(Some(end))).collect();
    let (inside, graph) = (world.clone(), Graph::random(1, 4, 50));
    let told = world.run(4, move |rank| {
        if rank == Rank(2) {
            spend(late);
        }
        let end = ends[rank.0 as usize].lock().unwrap().take().unwrap();
        let host = inside.host(rank);
        let messenger = Messenger::new(Box::new(end), settings.clone(), host, Arc::new(Heap));
        run(&graph, &messenger.unwrap(), &*inside.host(rank))
    });
    told.unwrap()
}

/// Whoever asked waited for a thread that could not run meanwhile.
#[test]
fn a_simulated_world_does_not_lend_the_bare_transport() {
    let settings = Settings::default();
    let told = on_ranks(Weather::default(), 2, &settings, |messenger, host| {
        let lent = messenger.bare(false, |_| ()).map_err(|error| error.kind());
        (lent, run(&Graph::random(1, 2, 20), &messenger, &*host))
    });
    for (lent, end) in told {
        assert_eq!(lent, Err(Kind::WrongSettings));
        assert!(end.is_good(), "{end:?}");
    }
}

#[test]
fn ranks_that_differ_are_told_what_and_go_on() {
    for odd in 0..5 {
        let told = on_ranks(
            Weather::rough(odd, 5),
            5,
            &Settings::default(),
            move |messenger, host| {
                let n = if messenger.rank() == Rank(odd as u32) {
                    "2000"
                } else {
                    "4000"
                };
                let terms = |n: &str| Terms {
                    settings: vec![("n".into(), n.into()), ("nb".into(), "256".into())],
                };
                let graph = Graph::random(1, 5, 20);
                [
                    run_on(&graph, &messenger, &*host, &terms(n)),
                    run_on(&graph, &messenger, &*host, &terms("4000")),
                ]
            },
        );
        let text = told[0][0].result.clone().unwrap_err().1;
        assert!(
            text.starts_with("n is ") && text.contains(&format!("2000 on rank {odd}")),
            "{text}"
        );
        for [refused, good] in &told {
            assert_eq!(
                refused.result,
                Err(("ParametersDiffer".into(), text.clone()))
            );
            assert!(good.is_good());
        }
    }
}

#[test]
fn a_body_of_fifteen_seconds_delays_nobody_and_does_not_look_dead() {
    let task = |owner, inputs: Vec<usize>, seconds| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(100_000)],
        seconds,
        priority: 0,
    };
    // Rank 2 makes a large datum and then computes; rank 0 asks for it meanwhile, and feeds rank 1.
    let tasks = vec![
        task(2, vec![], 15.0),
        task(2, vec![], 0.0),
        task(0, vec![1], 0.0),
        task(1, vec![2], 0.0),
    ];
    let graph = Graph::new(3, tasks);
    for drive in [Drive::Dedicated, Drive::Workers] {
        let settings = Settings {
            drive,
            ..Settings::default()
        };
        let (ends, _) = run_all(Weather::default(), &graph, &settings);
        assert_good(&ends);
        assert!(ends[0].worked < Duration::from_millis(2), "{:?}", ends[0]);
        assert!(ends[1].worked < Duration::from_millis(3), "{:?}", ends[1]);
        assert!(ends[2].worked >= Duration::from_secs(15));
    }
}

#[test]
fn a_dead_rank_is_named_on_every_other_within_the_time_allowed() {
    let task = |i: u32| Task {
        owner: Rank(i % 4),
        inputs: if i == 0 { vec![] } else { vec![i as usize - 1] },
        sizes: vec![Some(10)],
        seconds: 0.1,
        priority: 0,
    };
    let graph = Graph::new(4, (0..400).map(task).collect());
    for silence in [2, 10] {
        let settings = Settings {
            silence: Duration::from_secs(silence),
            ..Settings::default()
        };
        for dead in (0..4).map(Rank) {
            let weather = Weather {
                deaths: vec![(dead, Duration::from_secs(5))],
                ..Weather::default()
            };
            let graph = graph.clone();
            let told = on_ranks(weather, 4, &settings, move |messenger, host| {
                let end = run(&graph, &messenger, &*host);
                (
                    messenger.rank(),
                    end,
                    host.now(),
                    run(&graph, &messenger, &*host),
                )
            });
            for (rank, end, ended, next) in told.into_iter().filter(|(rank, ..)| *rank != dead) {
                let (kind, text) = end.result.unwrap_err();
                assert!(
                    kind == "RankLost" && text.contains(&format!("{dead} has been silent")),
                    "{rank}: {text}"
                );
                assert!(
                    ended < Duration::from_secs(5 + silence + 2),
                    "{rank}: {ended:?}"
                );
                assert_eq!(
                    next.result.unwrap_err().0,
                    "RankLost",
                    "no later run begins"
                );
            }
        }
    }
}

#[test]
fn blocking_posts_wait_until_the_receiver_has_the_data() {
    // Rank 1 makes ten data for rank 0 of 1 ms each way; then it computes.
    let task = |i: usize| Task {
        owner: Rank((i < 10) as u32),
        inputs: if i < 10 { vec![] } else { vec![i - 10] },
        sizes: vec![Some(10_000_000)],
        seconds: 0.0,
        priority: 0,
    };
    let graph = Graph::new(2, (0..20).map(task).collect());
    let worked = |blocking| {
        let settings = Settings {
            blocking,
            ..Settings::default()
        };
        let (ends, _) = run_all(Weather::default(), &graph, &settings);
        assert_good(&ends);
        ends[1].worked
    };
    assert!(
        worked(true) >= Duration::from_millis(10),
        "each of ten waits for its millisecond"
    );
    assert!(worked(false) < Duration::from_millis(1));
}

#[test]
fn a_rank_that_leaves_is_named_when_others_open_the_next_run() {
    let told = on_ranks(
        Weather::default(),
        3,
        &Settings::default(),
        |messenger: Messenger, host| {
            let graph = Graph::random(1, 3, 20);
            let first = run(&graph, &messenger, &*host);
            assert!(first.is_good());
            if messenger.rank() == Rank(1) {
                return None;
            }
            Some(run(&graph, &messenger, &*host).result.unwrap_err())
        },
    );
    for (kind, text) in told.into_iter().flatten() {
        assert!(
            kind == "RankLost" && text.contains("rank 1 has left"),
            "{text}"
        );
    }
}
