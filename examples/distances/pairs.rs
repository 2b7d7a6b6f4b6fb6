//! Measuring between two NUMA nodes: threads pinned on one, memory placed on the other.
//!
//! Latency: one core follows a chain of addresses in random order, a cache line each, so that
//! the next load cannot start before the last one came. Bandwidth: all cores read at once, each
//! a part of its own. Of several rounds over all pairs the median counts.

use super::Failure;
use chacha20::ChaCha8Rng;
use dataflow::core::port::{Block, Memory};
use dataflow::linalg::needs::{DoesNotFit, Needs, available};
use dataflow::numa::pages::{self, PagesError, Wish};
use dataflow::numa::pin::pin_current_thread;
use dataflow::numa::{Core, HugePages, Topology};
use rand::{RngExt, SeedableRng};
use std::hint::black_box;
use std::sync::{Barrier, OnceLock};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};
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

/// Refuses so many bytes on a node if there is no room for them, and for the order in which they are linked.
///
/// # Errors
/// If there is none.
pub fn expect_room(bytes: usize) -> Result<(), DoesNotFit> {
    let order = bytes / LINE * size_of::<u32>();
    let needs = Needs {
        held: bytes as u128 + order as u128,
        ..Needs::default()
    };
    needs.expect_room(available())
}

/// Measures every pair of NUMA nodes, `rounds` times over.
///
/// # Errors
/// If memory cannot be placed where it shall be, or a thread cannot be started.
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
                nanoseconds[from][to].push(latency(first, block.bytes())?);
                gigabytes[from][to].push(bandwidth(&cores, block.bytes())?);
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
fn latency(core: &Core, memory: &[u8]) -> Result<f64, Failure> {
    let follow = || {
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
    };
    thread::scope(|threads| Ok(ended(start_on(core, threads, follow)?)))
}

/// 10⁹ bytes a second that all these cores read together.
fn bandwidth(cores: &[&Core], memory: &[u8]) -> Result<f64, Failure> {
    let part = memory.len().div_ceil(cores.len()).next_multiple_of(LINE);
    let parts: Vec<&[u8]> = memory.chunks(part).collect();
    // Those that have started would wait for one that could not, for ever.
    let have_all_started: &OnceLock<bool> = &OnceLock::new();
    let together = &Barrier::new(parts.len());
    let read = |part: &[u8]| {
        if !*have_all_started.wait() {
            return None;
        }
        together.wait();
        let start = Instant::now();
        let words = part.chunks_exact(8).map(|word| match word.try_into() {
            Ok(word) => u64::from_le_bytes(word),
            Err(_) => unreachable!("eight bytes are eight bytes"),
        });
        black_box(words.fold(0, u64::wrapping_add));
        Some((start, Instant::now()))
    };
    let times = thread::scope(|threads| -> Result<Vec<(Instant, Instant)>, Failure> {
        let on_cores = cores.iter().zip(parts);
        let started = on_cores.map(|(core, part)| start_on(core, threads, move || read(part)));
        let started: Result<Vec<_>, Failure> = started.collect();
        have_all_started.get_or_init(|| started.is_ok());
        Ok(started?.into_iter().filter_map(ended).collect())
    })?;
    let first = times.iter().map(|(start, _)| *start).min();
    let last = times.iter().map(|(_, end)| *end).max();
    let seconds = first
        .zip(last)
        .map_or(f64::NAN, |(first, last)| (last - first).as_secs_f64());
    Ok(memory.len() as f64 / seconds * 1e-9)
}

/// Starts a thread that is pinned to the first PU of a core.
fn start_on<'scope, R: Send + 'scope>(
    core: &'scope Core,
    threads: &'scope Scope<'scope, '_>,
    measure: impl FnOnce() -> R + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, R>, Failure> {
    let pinned = move || {
        // Unpinned the number is worse, not wrong: the kernel may still leave the thread alone.
        let _ = pin_current_thread(&core.pus[..1]);
        measure()
    };
    let started = Builder::new().spawn_scoped(threads, pinned);
    started
        .map_err(|error| Failure::new("no_thread", format!("a thread cannot be started: {error}")))
}

/// What a thread has measured, when it is done.
fn ended<R>(thread: ScopedJoinHandle<'_, R>) -> R {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
