//! The simulated network by itself: what a message costs in virtual time, and what faults do.

use dataflow_core::port::{Heap, Memory};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::raw::{Raw, Sendable};
use dataflow_mpi::transport::simulated::{Simulated, Weather, World, spend};
use std::sync::Mutex;
use std::time::Duration;

/// Each rank sends `n` messages of `bytes` to the last one, which notes when each has come.
fn arrivals(weather: Weather, n_ranks: usize, n: usize, bytes: usize) -> Vec<Duration> {
    let world = World::new(weather);
    let ends = world
        .connect(n_ranks)
        .into_iter()
        .map(|end| Mutex::new(Some(end)));
    let ends: Vec<Mutex<Option<Simulated>>> = ends.collect();
    let inside = world.clone();
    let times = world.run(n_ranks, move |rank| {
        let transport = ends[rank.0 as usize].lock().unwrap().take().unwrap();
        let host = inside.host(rank);
        let mut raw = Raw::new(Box::new(transport), &*host, false);
        let last = Rank(n_ranks as u32 - 1);
        if rank != last {
            spend(Duration::from_secs(1)); // room is made first
            let sendable = Sendable::new(vec![rank.0 as u8; bytes]);
            (0..n).for_each(|_| raw.send(last, &sendable));
            return vec![];
        }
        let mut times = vec![];
        for from in (0..last.0).map(Rank) {
            for _ in 0..n {
                let block = raw.receive(from, Heap.allocate(bytes)).unwrap();
                assert!(block.bytes().iter().all(|byte| *byte == from.0 as u8));
                times.push(host.now() - Duration::from_secs(1));
            }
        }
        times
    });
    times.unwrap().pop().unwrap()
}

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

#[test]
fn a_message_costs_latency_and_its_bytes_time_and_a_free_network_nothing() {
    let fair = Weather::default();
    assert_eq!(arrivals(fair.clone(), 2, 1, 0), [micros(5)]);
    assert_eq!(arrivals(fair, 2, 1, 1_000_000), [micros(105)]);
    let fair = Weather::default();
    let (one_way_out, one_way_in) = (
        arrivals(fair.clone(), 2, 3, 1_000_000),
        arrivals(fair, 3, 1, 1_000_000),
    );
    assert_eq!(one_way_out, [micros(105), micros(205), micros(305)]);
    assert_eq!(one_way_in, [micros(105), micros(205)]);
    assert_eq!(arrivals(Weather::free(), 2, 1, 1_000_000), [Duration::ZERO]);
}

#[test]
fn blocking_code_that_waits_for_nothing_is_a_world_that_hangs_and_says_who() {
    let world = World::new(Weather::default());
    let ends = Mutex::new(world.connect(2));
    let inside = world.clone();
    let hung = world.run(2, move |rank| {
        let transport = ends.lock().unwrap().remove(0);
        if rank == Rank(1) {
            let host = inside.host(rank);
            let mut raw = Raw::new(Box::new(transport), &*host, false);
            raw.receive(Rank(0), Heap.allocate(1)).unwrap();
        }
    });
    let text = hung.unwrap_err().to_string();
    assert!(
        text.contains("nobody in the world can run") && text.ends_with("asleep are rank 1"),
        "{text}"
    );
}

#[test]
fn a_world_ends_at_its_deadline() {
    let weather = Weather {
        deadline: Duration::from_secs(60),
        ..Weather::default()
    };
    let world = World::new(weather);
    let hung = world.run(1, |_| {
        loop {
            spend(Duration::from_secs(1));
        }
    });
    let hung: Result<Vec<()>, _> = hung;
    assert!(hung.unwrap_err().to_string().contains("deadline"));
}

#[test]
fn a_rank_that_stands_still_does_nothing_until_it_moves_again() {
    let freezes = vec![(Rank(0), Duration::from_secs(1), Duration::from_secs(7))];
    let world = World::new(Weather {
        freezes,
        ..Weather::default()
    });
    let inside = world.clone();
    let ends = world.run(2, move |_| {
        spend(Duration::from_secs(2));
        inside.now().as_secs()
    });
    assert_eq!(ends.unwrap(), [8, 2]);
    assert_eq!(world.faults().frozen, 1);
}

#[test]
#[should_panic(expected = "a body of rank 1")]
fn a_body_that_panics_panics_where_the_world_was_run() {
    let world = World::new(Weather::default());
    let ends = world.run(2, |rank| {
        if rank == Rank(1) {
            panic!("a body of {rank}");
        }
    });
    drop(ends);
}

#[test]
fn outside_of_a_world_nobody_spends_time() {
    spend(Duration::from_secs(1_000_000));
}
