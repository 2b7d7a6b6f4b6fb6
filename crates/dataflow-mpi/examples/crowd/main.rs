//! What many ranks cost each of them: signs of life, memory, and the way of a parcel.
//!
//! Depots of all ranks stand in one process. Each sends a parcel to the ranks next to it, then
//! computes for some seconds. A line for each number of ranks, or for those on the command line:
//! messages a second that only say that a rank lives; bytes of memory a rank (Linux only, and of the
//! first line, for memory is used again); nanoseconds a parcel from one depot to another.

mod world;

use dataflow_core::port::Pulse;
use std::time::{Duration, Instant};
use world::{Crowd, parcel};

/// How long the ranks compute: beats are counted in the latter half.
const SECONDS: u32 = 4;

/// To how many ranks each speaks.
const SPOKEN: u32 = 8;

/// Parcels of one round from one depot to another, and rounds.
const PARCELS: (usize, usize) = (10_000, 21);

fn main() {
    let asked: Option<Vec<usize>> = std::env::args().skip(1).map(number).collect();
    let Some(mut sizes) = asked else {
        eprintln!("usage: crowd [RANKS …], whole numbers, 2 or more");
        std::process::exit(2);
    };
    if sizes.is_empty() {
        sizes.extend([64, 256, 1024]);
    }
    println!("     ranks  beats/s  a rank  bytes a rank  ns a parcel");
    for n_ranks in sizes {
        let before = resident();
        let mut crowd = Crowd::new(n_ranks);
        crowd.forgets = true;
        let beats = compute(&mut crowd);
        let grown = resident().saturating_sub(before) / n_ranks as u64;
        drop(crowd);
        let parcel = nanoseconds_a_parcel(n_ranks);
        println!(
            "{n_ranks:>10} {beats:>8} {:>7.1} {grown:>13} {parcel:>12.0}",
            beats as f64 / n_ranks as f64,
        );
    }
}

fn number(text: String) -> Option<usize> {
    text.parse().ok().filter(|n_ranks| *n_ranks > 1)
}

/// Bytes of memory that this process has in use.
fn resident() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = told.split(' ').nth(1).and_then(|word| word.parse().ok());
    pages.unwrap_or(0_u64) * 4096
}

/// A run whose ranks all speak once and then compute; says how many packets went in a second of the
/// latter half.
fn compute(crowd: &mut Crowd) -> u64 {
    crowd.open();
    let n_ranks = crowd.depots.len() as u32;
    for (rank, depot) in (0..).zip(&mut crowd.depots) {
        depot.pulse(Pulse {
            count: 1,
            ..Pulse::default()
        });
        let distances = (1..=SPOKEN / 2).flat_map(|d| [d, n_ranks - d]);
        let to = distances.map(|distance| (rank + distance) % n_ranks);
        to.filter(|to| *to != rank).for_each(|to| {
            depot.post(parcel(to), false);
        });
    }
    let half = SECONDS / 2;
    crowd.pass(Duration::from_secs((SECONDS - half).into()));
    let before = crowd.packets();
    crowd.pass(Duration::from_secs(half.into()));
    (crowd.packets() - before) / u64::from(half)
}

/// The median of some rounds: posted, packed, unpacked and delivered, between two ranks of many that
/// are all there, but say nothing.
fn nanoseconds_a_parcel(n_ranks: usize) -> f64 {
    let mut crowd = Crowd::new(n_ranks);
    crowd.forgets = true;
    crowd.open();
    let (from, to) = (n_ranks - 1, 0);
    let (parcels, rounds) = PARCELS;
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..parcels {
                crowd.depots[from].post(parcel(to), false);
                crowd.settle_one(from);
            }
            begun.elapsed().as_secs_f64() / parcels as f64 * 1e9
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}
