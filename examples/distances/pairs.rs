//! Measuring between two NUMA nodes: threads pinned on one, memory placed on the other.
//!
//! Latency: one core follows a chain of addresses in random order, a cache line each, so that
//! the next load cannot start before the last one came. Bandwidth: all cores read at once, each
//! a part of its own. Of several rounds over all pairs the median counts.

use super::Failure;
use chacha20::ChaCha8Rng;
use dataflow::core::port::{Block, Memory};
use dataflow::numa::pages::{self, PagesError, Wish};
use dataflow::numa::pin::pin_current_thread;
use dataflow::numa::{Core, HugePages, Topology};
use rand::{RngExt, SeedableRng};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// A cache line: each holds the number of the next one in its first four bytes.
const LINE: usize = 64;
/// With more memory there would be more lines than four bytes can number.
pub const MOST_MEBIBYTES: u64 = (1 << 32) / (1 << 20) * LINE as u64 - 1;
/// Loads that one latency is the mean of.
const LOADS: usize = 1 << 20;

/// Rows are the nodes of the cores, columns those of the memory; `None` where no core is, or no memory.
pub struct Measured {
    pub nanoseconds: Vec<Vec<Option<f64>>>,
    pub gigabytes: Vec<Vec<Option<f64>>>,
}

/// Measures every pair of NUMA nodes, `rounds` times over.
///
/// # Errors
/// If memory cannot be placed where it shall be.
pub fn measure(
    topology: &Topology,
    bytes: usize,
    rounds: usize,
    seed: u64,
) -> Result<Measured, Failure> {
    let n = topology.n_numa_nodes();
    let mut nanoseconds = vec![vec![Vec::new(); n]; n];
    let mut gigabytes = nanoseconds.clone();
    for to in 0..n {
        let Some(block) = chain_on(topology, to, bytes, seed)? else {
            continue;
        };
        for _ in 0..rounds {
            for from in 0..n {
                let cores = topology
                    .cores()
                    .iter()
                    .filter(|core| core.numa_node == from);
                let cores: Vec<&Core> = cores.collect();
                let Some(first) = cores.first() else { continue };
                nanoseconds[from][to].push(latency(first, block.bytes()));
                gigabytes[from][to].push(bandwidth(&cores, block.bytes()));
            }
        }
    }
    if nanoseconds.iter().flatten().all(Vec::is_empty) {
        let text = "no NUMA node has memory that this process may use";
        return Err(Failure::new("no_locality", text));
    }
    let medians = |rows: Vec<Vec<Vec<f64>>>| {
        let row = |row: Vec<Vec<f64>>| row.into_iter().map(median).collect();
        rows.into_iter().map(row).collect()
    };
    Ok(Measured {
        nanoseconds: medians(nanoseconds),
        gigabytes: medians(gigabytes),
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Memory on a NUMA node with a chain through all its lines in random order; none if the node has no memory
/// that this process may use.
fn chain_on(
    topology: &Topology,
    node: usize,
    bytes: usize,
    seed: u64,
) -> Result<Option<Box<dyn Block>>, Failure> {
    let os = topology.numa_nodes()[node].os_index;
    // An arena of its own: what another has used already lies somewhere.
    let mut block = HugePages::new().allocate(bytes);
    let wished = pages::place(block.bytes_mut(), Wish::Prefer(os));
    let is_alone = topology.n_numa_nodes() == 1;
    if matches!(wished, Err(PagesError::Refused { .. })) && !is_alone {
        return Ok(None);
    }
    let mut next: Vec<u32> = (0..(bytes / LINE) as u32).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Sattolo's shuffle: one cycle through all of them.
    for last in (1..next.len()).rev() {
        next.swap(last, random.random_range(0..last));
    }
    for (line, next) in block.bytes_mut().chunks_exact_mut(LINE).zip(&next) {
        line[..4].copy_from_slice(&next.to_le_bytes());
    }
    if is_alone {
        return Ok(Some(block));
    }
    let sample: Vec<usize> = (0..64).map(|at| at * (bytes / 64)).collect();
    let lie_on = wished.and_then(|()| pages::nodes_of(block.bytes(), &sample));
    let lie_on = lie_on.map_err(|error| Failure::new("no_locality", error.to_string()))?;
    let elsewhere = lie_on.iter().filter(|&&node| node != Some(os)).count();
    if elsewhere > 6 {
        let text = format!(
            "NUMA node {os} has no room for {} MiB: {elsewhere} of 64 pages lie elsewhere",
            bytes >> 20
        );
        return Err(Failure::new("does_not_fit", text));
    }
    Ok(Some(block))
}

/// Nanoseconds from one load to the next.
fn latency(core: &Core, memory: &[u8]) -> f64 {
    on(core, || {
        let start = Instant::now();
        let mut line = 0;
        for _ in 0..LOADS {
            let at = line * LINE;
            line = match memory[at..at + 4].try_into() {
                Ok(next) => u32::from_le_bytes(next) as usize,
                Err(_) => unreachable!("four bytes are four bytes"),
            };
        }
        black_box(line);
        start.elapsed().as_secs_f64() * 1e9 / LOADS as f64
    })
}

/// 10⁹ bytes a second that all these cores read together.
fn bandwidth(cores: &[&Core], memory: &[u8]) -> f64 {
    let part = memory.len().div_ceil(cores.len()).next_multiple_of(LINE);
    let parts: Vec<&[u8]> = memory.chunks(part).collect();
    let together = Barrier::new(parts.len());
    let read = |core: &Core, part: &[u8]| {
        on(core, || {
            together.wait();
            let start = Instant::now();
            let words = part.chunks_exact(8).map(|word| match word.try_into() {
                Ok(word) => u64::from_le_bytes(word),
                Err(_) => unreachable!("eight bytes are eight bytes"),
            });
            black_box(words.fold(0, u64::wrapping_add));
            (start, Instant::now())
        })
    };
    let times: Vec<(Instant, Instant)> = thread::scope(|threads| {
        let started: Vec<_> = cores
            .iter()
            .zip(parts)
            .map(|(core, part)| threads.spawn(move || read(core, part)))
            .collect();
        started
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    });
    let first = times.iter().map(|(start, _)| *start).min();
    let last = times.iter().map(|(_, end)| *end).max();
    let seconds = first
        .zip(last)
        .map_or(f64::NAN, |(first, last)| (last - first).as_secs_f64());
    memory.len() as f64 / seconds * 1e-9
}

/// Runs on a thread of its own that is pinned to the first PU of a core.
fn on<R: Send>(core: &Core, measure: impl FnOnce() -> R + Send) -> R {
    let pinned = || {
        // Unpinned the number is worse, not wrong: the kernel may still leave the thread alone.
        let _ = pin_current_thread(&core.pus[..1]);
        measure()
    };
    match thread::scope(|threads| threads.spawn(pinned).join()) {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
