//! Messages: a ball between two ranks, over the bare transport and through the runtime.
//!
//! The bare transport's flight is the latency; what the runtime adds is overhead, half at each end. What
//! a larger ball takes longer is the time of a byte; while it is small enough to travel in a packet it is
//! copied besides. Between ranks of one host processors carry all bytes, half of the time at each end.

use super::kernels::quantile;
use super::rally::Game;
use common::cli::Failure;
use common::cli::costs::Network;
use dataflow::{Runtime, Transport};

/// The smallest ball, the largest that travels in a packet, and larger ones.
const SIZES: [usize; 6] = [8, 4096, 64 << 10, 256 << 10, 1 << 20, 2 << 20];

/// Rallies of each size.
const RALLIES: usize = 15;

/// Bytes a second that take no time beside the work of those who carry them.
const AT_ONCE: f64 = 1e15;

/// What messages between two ranks take; `task` nanoseconds of it are the task's own.
///
/// # Errors
/// What running answers.
pub fn network(runtime: &Runtime, task: f64) -> Result<Network, Failure> {
    let game = Game {
        sizes: SIZES.to_vec(),
        rallies: RALLIES,
        spin: true,
    };
    let flights = game.play(runtime)?;
    // Whoever began has the clock; all ranks go on with the same numbers.
    let mut medians = [0.0; 2 * SIZES.len()];
    for (place, flights) in flights.iter().enumerate() {
        let mut ours: Vec<f64> = flights.iter().map(|flight| flight.ours * 1e9).collect();
        let mut raw: Vec<f64> = flights.iter().map(|flight| flight.raw * 1e9).collect();
        medians[place] = quantile(&mut ours, 0.5);
        medians[SIZES.len() + place] = quantile(&mut raw, 0.5);
    }
    let medians = runtime.all_reduce(medians, |first, _| first)?;
    let (ours, raw) = medians.split_at(SIZES.len());
    let byte = slope(&SIZES[2..], &ours[2..]).max(1e-6);
    let inline = (ours[1] - ours[0]) / (SIZES[1] - SIZES[0]) as f64;
    let end = ((ours[0] - raw[0] - task) / 2.0).max(0.0);
    let ranks_on_a_host = match runtime.transport() {
        Transport::Local => runtime.workers().topology().n_cores().max(2),
        _ => on_this_host(runtime)?,
    };
    let is_carried = ranks_on_a_host > 1;
    Ok(Network {
        latency_nanoseconds: raw[0],
        bytes_per_second: if is_carried { AT_ONCE } else { 1e9 / byte },
        send_nanoseconds: end,
        receive_nanoseconds: end,
        gap_nanoseconds: 0.0,
        // At both ends.
        copied_bytes_per_second: match is_carried {
            true => (inline > 0.0).then_some(2e9 / inline),
            false => (inline > byte).then(|| 2e9 / (inline - byte)),
        },
        data_copied_bytes_per_second: is_carried.then_some(2e9 / byte),
        ranks_on_a_host,
    })
}

/// How many of the ranks are on the first one's host.
fn on_this_host(runtime: &Runtime) -> Result<usize, Failure> {
    let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let names = runtime.gather(name)?;
    Ok(names.iter().filter(|name| **name == names[0]).count())
}

/// Nanoseconds that a byte more takes: least squares.
fn slope(sizes: &[usize], times: &[f64]) -> f64 {
    let mean = |numbers: &mut dyn Iterator<Item = f64>| numbers.sum::<f64>() / sizes.len() as f64;
    let size = mean(&mut sizes.iter().map(|size| *size as f64));
    let time = mean(&mut times.iter().copied());
    let pairs = || sizes.iter().map(|own| *own as f64 - size).zip(times);
    let both: f64 = pairs().map(|(own, taken)| own * (taken - time)).sum();
    let squares: f64 = pairs().map(|(own, _)| own * own).sum();
    both / squares
}
