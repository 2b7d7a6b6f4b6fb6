//! Messages: a ball between two ranks, over the bare transport and through the runtime.
//!
//! The bare transport's flight is the latency; what the runtime adds, but for what it takes for the task that
//! strikes the ball, is overhead, half at [each end](super::ends). What
//! a larger ball takes longer is the time of a byte; while it is small enough to travel in a packet it is
//! copied besides. Between ranks of one host processors carry all bytes, half of the time at each end.
//! Who has waited for longer than ranks look must be woken: a ball that everybody holds for a while says
//! how long that takes, and the rest of such a run, how long ranks take to begin and to end one.

use super::ends::end;
use super::line::Line;
use super::quantile::quantile;
use super::rally::Game;
use super::space::{Ball, PingPong};
use common::cli::Failure;
use common::cli::costs::{Network, Overhead};
use dataflow::core::rank::Rank;
use dataflow::mpi::Settings;
use dataflow::{Runtime, Transport};
use std::time::Duration;

/// The smallest ball, the largest that travels in a packet, and larger ones.
const SIZES: [usize; 6] = [8, 4096, 64 << 10, 256 << 10, 1 << 20, 2 << 20];

/// Rallies of each size in a pass.
const RALLIES: usize = 5;

/// Bytes a second that take no time beside the work of those who carry them.
const AT_ONCE: f64 = 1e15;

/// Rounds of a rally, once in how many of them each side holds the ball, and for how long: as a wait of a
/// graph among waits that are so short that ranks do not look for long.
const HELD: (u32, u32, Duration) = (40, 8, Duration::from_micros(500));

/// What messages between two ranks take, beside what the engine takes for the tasks at both ends.
///
/// # Errors
/// What running answers.
pub fn network(runtime: &Runtime, engine: Overhead, passes: usize) -> Result<Network, Failure> {
    let rallies = passes.saturating_mul(RALLIES);
    let game = Game {
        sizes: SIZES.to_vec(),
        rallies,
        spin: true,
    };
    let flights = game.play(runtime)?;
    // Whoever began has the clock; all ranks go on with the same numbers.
    let mut medians = [0.0; 2 * SIZES.len() + 2];
    for (place, flights) in flights.iter().enumerate() {
        medians[place] = quantile(flights.iter().map(|flight| flight.ours * 1e9), 0.5);
        medians[SIZES.len() + place] = quantile(flights.iter().map(|flight| flight.raw * 1e9), 0.5);
    }
    let held = held(runtime, rallies)?;
    medians[2 * SIZES.len()..].copy_from_slice(&held);
    let medians = runtime.all_reduce(medians, |first, _| first)?;
    let (ours, raw) = medians.split_at(SIZES.len());
    let (raw, held) = raw.split_at(SIZES.len());
    let waking = waking(held[0], ours[0]);
    let byte = slope(&SIZES[2..], &ours[2..]).max(1e-6);
    let inline = (ours[1] - ours[0]) / (SIZES[1] - SIZES[0]) as f64;
    let end = end(ours[0], raw[0], engine);
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
        awake_nanoseconds: Settings::default().spin.as_nanos() as f64,
        waking_nanoseconds: waking,
        task_nanoseconds: 0.0,
        run_nanoseconds: (held[1] - waking).max(0.0),
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

/// What is learnt from runs: that workers look for messages between tasks, and that bytes of tiles take
/// longer than those of a ball, which stays in caches.
pub fn learn(network: &mut Network, carrying: Line) {
    network.task_nanoseconds = carrying.fixed;
    if let Some(copied) = &mut network.data_copied_bytes_per_second {
        *copied = copied.min(1e9 / carrying.slope.max(1e-6));
    }
}

/// What it takes to wake who waits for a ball that is held, if others fly for so long; one in so many
/// strokes holds it.
fn waking(held: f64, flight: f64) -> f64 {
    let (_, once_in, hold) = HELD;
    let more = f64::from(once_in) * (held - flight);
    (more - hold.as_nanos() as f64).max(0.0)
}

/// Nanoseconds one way of a small ball that is held now and then, and of the rest of the run, in which the
/// ball is held once, and whoever waits for it must be woken: the median rallies'.
fn held(runtime: &Runtime, rallies: usize) -> Result<[f64; 2], Failure> {
    let (rounds, once_in, hold) = HELD;
    let (mut flights, mut rests) = (Vec::new(), Vec::new());
    for _ in 0..rallies {
        let begins = runtime.rank() == Rank(0);
        let ball = begins.then(|| Ball(runtime.memory().allocate(SIZES[0])));
        let rally = PingPong::new(rounds, ball).hold(once_in, hold);
        runtime.all_reduce((), |(), ()| ())?; // who begins first would wait for the other
        let seconds = runtime.run_across(&rally)?.seconds;
        let flight = rally.seconds().unwrap_or_default();
        flights.push(flight * 1e9);
        let rest = seconds - flight * f64::from(2 * (rounds - 1));
        rests.push((rest - hold.as_secs_f64()) * 1e9);
    }
    Ok([quantile(flights, 0.5), quantile(rests, 0.5)])
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
