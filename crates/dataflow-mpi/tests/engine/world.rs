//! Worlds of simulated ranks: how they are set up, and how seeds are swept and replayed.
//!
//! Included by the root package's tests too (`#[path]`).

use dataflow_core::port::{Courier, Heap};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::Transport;
use dataflow_mpi::transport::simulated::{Faults, Hung, Simulated, Weather, World};
use dataflow_mpi::{Counters, Drive, Messenger, Settings};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Numbers from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

pub fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// What a world came to.
#[derive(Debug)]
pub struct Story<R> {
    /// What each rank's body returned.
    pub told: Vec<R>,
    pub faults: Faults,
    pub lasted: Duration,
    /// Of the world's whole course.
    pub digest: u64,
}

/// Runs `body` on each rank of a world, with a messenger of its own.
///
/// # Errors
/// If the world hangs.
pub fn in_world<R: Send + 'static>(
    weather: Weather,
    n_ranks: usize,
    settings: &Settings,
    body: impl Fn(Messenger, &World) -> R + Send + Sync + 'static,
) -> Result<Story<R>, Hung> {
    in_this(&World::new(weather), n_ranks, settings, body)
}

/// The same in a world that is there.
///
/// # Errors
/// If it hangs.
pub fn in_this<R: Send + 'static>(
    world: &World,
    n_ranks: usize,
    settings: &Settings,
    body: impl Fn(Messenger, &World) -> R + Send + Sync + 'static,
) -> Result<Story<R>, Hung> {
    let ends = world
        .connect(n_ranks)
        .into_iter()
        .map(|end| Mutex::new(Some(end)));
    let ends: Vec<Mutex<Option<Simulated>>> = ends.collect();
    let (inside, settings) = (world.clone(), settings.clone());
    let told = world.run(n_ranks, move |rank| {
        let end = ends[rank.0 as usize].lock().unwrap().take().unwrap();
        let transport: Box<dyn Transport> = Box::new(end);
        let host = inside.host(rank);
        let messenger = Messenger::new(transport, settings.clone(), host, Arc::new(Heap));
        let messenger = messenger.unwrap();
        assert_eq!((messenger.rank(), messenger.n_ranks()), (rank, n_ranks));
        body(messenger, &inside)
    })?;
    Ok(Story {
        told,
        faults: world.faults(),
        lasted: world.now(),
        digest: world.digest(),
    })
}

/// Settings by a seed: caps as small as can be, and both drives.
pub fn settings(seed: u64) -> Settings {
    let mut random = Random(seed ^ 0x5e77);
    Settings {
        inline_bytes: [0, 64, 4096, 1 << 20][random.below(4)],
        packet_bytes: [64, 512, 16 << 10][random.below(3)],
        packets_in_flight: 1 + random.below(4),
        credit_bytes: [0, 100, 16 << 10, 1 << 20][random.below(4)],
        window_bytes: [1, 5000, 32 << 20][random.below(3)],
        star_ranks: random.below(4),
        drive: if random.below(2) == 0 {
            Drive::Dedicated
        } else {
            Drive::Workers
        },
        blocking: random.below(8) == 0,
        hold: Duration::from_micros([0, 50, 2000][random.below(3)]),
        held_bytes: [0, 20_000, 256 << 20][random.below(3)],
        ..Settings::default()
    }
}

/// Runs `check` for each seed of the sweep; of those that fail each says how to run it alone.
///
/// `DATAFLOW_SEEDS=N` runs N seeds instead of the ordinary share, `DATAFLOW_SEED=S` only seed S.
/// `test` is how cargo is asked for the test. Returns what was seen, unless fewer seeds than the ordinary share
/// were run, which need not meet everything.
pub fn sweep(test: &str, share: u64, mut check: impl FnMut(u64, &mut Seen)) -> Option<Seen> {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect(name))
    };
    let alone = number("DATAFLOW_SEED");
    let seeds = match alone {
        Some(seed) => seed..seed + 1,
        None => 0..number("DATAFLOW_SEEDS").unwrap_or(share),
    };
    let (mut seen, mut failed) = (Seen::default(), Vec::new());
    for seed in seeds.clone() {
        if catch_unwind(AssertUnwindSafe(|| check(seed, &mut seen))).is_err() {
            eprintln!("replay: DATAFLOW_SEED={seed} cargo test {test}");
            failed.push(seed);
            assert!(failed.len() < 10, "enough have failed: {failed:?}");
        }
    }
    assert!(failed.is_empty(), "{failed:?} of {seeds:?} failed");
    println!("{test}: {seen:?}");
    (seeds.end - seeds.start >= share).then_some(seen)
}

/// What was seen in a sweep, added up.
#[derive(Debug, Default)]
pub struct Seen {
    pub worlds: u64,
    pub faults: Faults,
    pub duplicates_dropped: u64,
    /// Ranks that ended with an error, and with their whole result.
    pub errors: u64,
    pub ends: u64,
}

impl Seen {
    pub fn add(&mut self, faults: Faults, counters: impl IntoIterator<Item = Counters>) {
        self.worlds += 1;
        self.faults.add(faults);
        let dropped = counters.into_iter().map(|own| own.duplicates_dropped);
        self.duplicates_dropped += dropped.sum::<u64>();
    }

    /// Every kind of rough weather was met. What came twice was dropped and counted, but for the
    /// little that came when its rank had ended.
    pub fn assert_rough(&self) {
        let Faults {
            delayed,
            reordered,
            duplicated,
            frozen,
            slowed,
            parts,
            ..
        } = self.faults;
        let all = [delayed, reordered, duplicated, frozen, slowed, parts];
        assert!(all.iter().all(|&times| times > 0), "{self:?}");
        let counted = duplicated * 95 / 100..=duplicated;
        assert!(counted.contains(&self.duplicates_dropped), "{self:?}");
    }

    /// Messages were lost and ranks died, and runs ended both ways.
    pub fn assert_deadly(&self) {
        let all = [self.faults.lost, self.faults.cut, self.errors, self.ends];
        assert!(all.iter().all(|&times| times > 0), "{self:?}");
    }
}

/// The ranks that are still there at the end of a weather.
pub fn survivors(weather: &Weather, n_ranks: usize) -> impl Iterator<Item = usize> {
    let is_dead = move |rank: &usize| {
        let mut deaths = weather.deaths.iter();
        deaths.any(|(dead, _)| *dead == Rank(*rank as u32))
    };
    (0..n_ranks).filter(move |rank| !is_dead(rank))
}
