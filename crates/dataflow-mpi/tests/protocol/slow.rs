//! Slow networks: what takes longer than ranks may be silent is no death, as long as bytes come.

use crate::engine::world::{Story, in_world};
use crate::engine::{End, Graph, Task, run};
use dataflow_core::port::Courier;
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::simulated::{Weather, spend};
use dataflow_mpi::{Drive, Settings};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MEBIBYTE: usize = 1 << 20;

/// Bytes a second of a network of so many megabits.
fn megabits(n: f64) -> f64 {
    n * 1e6 / 8.0
}

fn task(owner: u32, inputs: Vec<usize>, size: usize) -> Task {
    Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(size)],
        seconds: 0.0,
        priority: 0,
    }
}

/// How the run ended on each rank, with ten seconds of silence allowed.
fn tell(weather: &Weather, settings: &Settings, graph: &Arc<Graph>) -> Story<End> {
    let graph = graph.clone();
    let (weather, n_ranks) = (weather.clone(), graph.n_ranks);
    let story = in_world(weather, n_ranks, settings, move |messenger, world| {
        run(&graph, &messenger, &*world.host(messenger.rank()))
    });
    story.unwrap_or_else(|hung| panic!("{hung}"))
}

fn assert_good(story: &Story<End>, what: &str) {
    for (rank, end) in story.told.iter().enumerate() {
        assert!(end.is_good(), "{what}, rank {rank}: {end:?}");
    }
}

/// The time that 200 MiB take at 100 Mbit/s, with a tenth of both: the run ended after 10.6 s with "1
/// parcels were sent and 0 delivered, and nothing moves".
#[test]
fn a_datum_that_takes_longer_than_the_silence_allowed_arrives() {
    let graph = Graph::new(3, vec![task(1, vec![], 20 * MEBIBYTE), task(0, vec![0], 8)]);
    for message_bytes in [64 << 20, 4 << 20] {
        for drive in [Drive::Workers, Drive::Dedicated] {
            for blocking in [false, true] {
                let settings = Settings {
                    drive,
                    blocking,
                    ..Settings::default()
                };
                let weather = Weather {
                    bytes_per_second: megabits(10.0),
                    message_bytes,
                    ..Weather::default()
                };
                let story = tell(&weather, &settings, &graph);
                assert_good(
                    &story,
                    &format!("{drive:?}, parts of {message_bytes}, {blocking}"),
                );
                assert!(story.lasted > 16 * SECOND, "{:?}", story.lasted);
            }
        }
    }
}

/// Tiles of 1.2 MB at 1 Mbit/s take ten seconds each, to and fro.
#[test]
fn data_that_cross_both_ways_on_a_slow_link_arrive() {
    let n_tasks = 12;
    let tasks = (0..n_tasks).map(|i: usize| {
        let inputs = if i < 3 { vec![] } else { vec![i - 3, i - 2] };
        task(i as u32 % 3, inputs, 1_200_000)
    });
    let graph = Graph::new(3, tasks.collect());
    let ranks = || (0..3).map(Rank);
    let links = ranks().flat_map(|from| ranks().map(move |to| (from, to, megabits(1.0))));
    let slow = Weather {
        slow_links: links.collect(),
        ..Weather::default()
    };
    let narrow = Weather {
        bytes_per_second: megabits(1.0),
        ..Weather::default()
    };
    for weather in [slow, narrow] {
        for drive in [Drive::Workers, Drive::Dedicated] {
            let settings = Settings {
                drive,
                ..Settings::default()
            };
            let story = tell(&weather, &settings, &graph);
            assert_good(&story, &format!("{drive:?}, {weather:?}"));
            assert!(story.lasted > 30 * SECOND, "{:?}", story.lasted);
        }
    }
}

#[test]
fn a_rank_that_dies_while_it_sends_slowly_is_named_within_the_silence_allowed() {
    let graph = Graph::new(2, vec![task(1, vec![], 20 * MEBIBYTE), task(0, vec![0], 8)]);
    let weather = Weather {
        bytes_per_second: megabits(10.0),
        deaths: vec![(Rank(1), 12 * SECOND)],
        ..Weather::default()
    };
    let graph = graph.clone();
    let story = in_world(weather, 2, &Settings::default(), move |messenger, world| {
        let host = world.host(messenger.rank());
        (run(&graph, &messenger, &*host), host.now())
    });
    let (end, at) = story.unwrap().told.remove(0);
    let (kind, text) = end.result.unwrap_err();
    assert!(kind == "RankLost" && text.contains("rank 1"), "{text}");
    assert!(at > 21 * SECOND && at < 24 * SECOND, "{text}, at {at:?}");
}

#[test]
fn a_packet_overtakes_data_and_is_not_overtaken() {
    // Rank 1 sends rank 0 a datum of ten seconds, and then a small one that rank 2 waits for.
    let mut tasks = vec![task(1, vec![], 1_250_000), task(0, vec![0], 8)];
    tasks.push(task(1, vec![], 8));
    tasks.push(task(2, vec![2], 8));
    let graph = Graph::new(3, tasks);
    let weather = Weather {
        bytes_per_second: megabits(1.0),
        ..Weather::default()
    };
    let story = in_world(weather, 3, &Settings::default(), move |messenger, world| {
        if messenger.rank() == Rank(1) {
            spend(SECOND);
        }
        run(&graph, &messenger, &*world.host(messenger.rank()))
    });
    let told = story.unwrap().told;
    assert!(told.iter().all(End::is_good), "{told:?}");
    assert!(told[2].worked < 3 * SECOND, "{:?}", told[2]);
    assert!(told[0].worked > 10 * SECOND, "{:?}", told[0]);
}

#[test]
fn ranks_between_which_a_link_carries_nothing_are_lost_to_each_other() {
    let graph = Graph::new(2, vec![task(1, vec![], 100), task(0, vec![0], 8)]);
    for rate in [0.0, f64::MIN_POSITIVE] {
        for (from, to) in [(0, 1), (1, 0)] {
            let weather = Weather {
                slow_links: vec![(Rank(from), Rank(to), rate)],
                ..Weather::default()
            };
            let story = tell(&weather, &Settings::default(), &graph);
            for end in story.told {
                let (kind, text) = end.result.unwrap_err();
                assert_eq!(kind, "RankLost", "{from} to {to} at {rate}: {text}");
            }
        }
    }
}
