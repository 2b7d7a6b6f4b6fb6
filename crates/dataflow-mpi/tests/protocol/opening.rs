//! Ranks that wait for a run to begin: whom they wait for, and for how long.

use crate::engine::{Graph, on_ranks, run};
use dataflow_core::port::Courier;
use dataflow_core::rank::Rank;
use dataflow_mpi::Settings;
use dataflow_mpi::transport::simulated::{Weather, spend};
use std::sync::Mutex;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_rank_that_dies_between_two_runs_is_named_within_the_silence_allowed() {
    for n_ranks in 2..=5 {
        for dead in (0..n_ranks as u32).map(Rank) {
            let graph = Graph::random(1, n_ranks, 50);
            let weather = Weather {
                deaths: vec![(dead, 60 * SECOND)],
                ..Weather::default()
            };
            let ends = on_ranks(
                weather,
                n_ranks,
                &Settings::default(),
                move |messenger, host| {
                    assert!(run(&graph, &messenger, &*host).is_good());
                    spend(100 * SECOND - host.now());
                    if messenger.rank() == dead {
                        return None; // it leaves, and nobody hears it
                    }
                    let end = run(&graph, &messenger, &*host);
                    Some((end.result.unwrap_err(), host.now()))
                },
            );
            assert_eq!(ends.iter().flatten().count(), n_ranks - 1);
            for ((kind, text), at) in ends.into_iter().flatten() {
                assert!(
                    kind == "RankLost" && text.contains(&format!("{dead} ")),
                    "{text}"
                );
                assert!(at < 112 * SECOND, "{text}, at {at:?}");
            }
        }
    }
}

#[test]
fn a_rank_that_only_takes_its_time_between_two_runs_is_waited_for() {
    for late in (0..4).map(Rank) {
        let graph = Graph::random(2, 4, 50);
        let ends = on_ranks(
            Weather::default(),
            4,
            &Settings::default(),
            move |messenger, host| {
                let first = run(&graph, &messenger, &*host);
                if messenger.rank() == late {
                    spend(300 * SECOND);
                }
                let second = run(&graph, &messenger, &*host);
                first.is_good() && second.is_good()
            },
        );
        assert!(ends.into_iter().all(|good| good), "{late} was late");
    }
}

/// Once it was called lost: "did not open run 2 within 5s".
#[test]
fn a_rank_that_computes_for_longer_than_patience_lasts_is_waited_for_with_a_warning() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    for late in (0..4).map(Rank) {
        let graph = Graph::random(2, 4, 50);
        let settings = Settings {
            patience: 5 * SECOND,
            warn: |line| SAID.lock().unwrap().push(line.into()),
            ..Settings::default()
        };
        let ends = on_ranks(Weather::default(), 4, &settings, move |messenger, host| {
            let first = run(&graph, &messenger, &*host);
            if messenger.rank() == late {
                spend(19 * SECOND);
            }
            let second = run(&graph, &messenger, &*host);
            first.is_good() && second.is_good()
        });
        assert!(ends.into_iter().all(|good| good), "{late} was late");
        let said = std::mem::take(&mut *SAID.lock().unwrap());
        let of_it = |line: &&String| {
            line.contains(&late.to_string()) && line.ends_with("it lives, and is waited for")
        };
        // Whoever waits for it says so every five seconds.
        assert!(said.iter().filter(of_it).count() >= 3, "{said:?}");
    }
}
