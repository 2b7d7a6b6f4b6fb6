//! Weather: what a simulated network does to messages and ranks.

use super::cluster::Cluster;
use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use dataflow_core::Error;
use dataflow_core::rank::Rank;
use std::time::Duration;

/// How messages travel, and what goes wrong.
///
/// # Examples
/// Two ranks share ten tasks where every message comes twice:
/// ```
/// use dataflow_core::port::{Context, Heap};
/// use dataflow_core::{rank::Rank, run_across, space::Independent};
/// use dataflow_mpi::transport::simulated::{VirtualWorkers, Weather, World};
/// use dataflow_mpi::{Messenger, Settings};
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
///
/// let world = World::new(Weather { duplication: 1.0, ..Weather::default() });
/// let ends: BTreeMap<Rank, _> = (0..).map(Rank).zip(world.connect(2)).collect();
/// let (ends, inside) = (Mutex::new(ends), world.clone());
/// let tasks = world.run(2, move |rank| {
///     let end = ends.lock().unwrap().remove(&rank).unwrap();
///     let workers = VirtualWorkers::new(&inside, rank, 2);
///     let (settings, host) = (Settings::default(), inside.host(rank));
///     let courier = Messenger::new(Box::new(end), settings, host, Arc::new(Heap))?;
///     let tasks = Independent::new("tasks", 10, |_| Ok(())).across(2);
///     run_across(&tasks, &Context::new(&workers).across(&courier)).map(|report| report.tasks)
/// })?;
/// for of_rank in tasks {
///     assert_eq!(of_rank?, 5);
/// }
/// assert!(world.faults().duplicated > 0 && world.faults().lost == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Weather {
    /// Decides everything below that is left to chance, and whose turn it is.
    pub seed: u64,
    /// From the end of sending to arrival.
    pub latency: Duration,
    /// Each host's way in and way out carry so many bytes a second.
    pub bytes_per_second: f64,
    /// Links from one rank to another that carry fewer bytes a second than both ways.
    pub slow_links: Vec<(Rank, Rank, f64)>,
    /// Up to so much is added to the latency.
    pub jitter: Duration,
    /// Whether messages may overtake one another.
    pub reorder: bool,
    /// Whether actors that could run take turns at random.
    pub shuffle: bool,
    /// The share of messages that are lost.
    pub loss: f64,
    /// The share of messages that come twice.
    pub duplication: f64,
    /// Ranks that stand still from a moment on, for a while.
    pub freezes: Vec<(Rank, Duration, Duration)>,
    /// Ranks that are cut off from a moment on.
    pub deaths: Vec<(Rank, Duration)>,
    /// A world that is not over by then hangs.
    pub deadline: Duration,
    /// How long a rank that waits looks at least before it falls asleep; as real ranks do, for longer if its waits of
    /// late were longer.
    pub awake: Duration,
    /// How long it takes to get up when it has fallen asleep and is rung.
    pub waking: Duration,
    /// Which ranks share a host, and what messages cost the threads that move them.
    pub cluster: Cluster,
    /// The longest message.
    pub message_bytes: usize,
    /// The largest tag.
    pub largest_tag: u32,
}

impl Default for Weather {
    /// Fair: 5 µs, 10 GB/s, a host for each rank, no faults; who is rung gets up at once.
    fn default() -> Self {
        Weather {
            seed: 0,
            latency: Duration::from_micros(5),
            bytes_per_second: 10e9,
            slow_links: Vec::new(),
            jitter: Duration::ZERO,
            reorder: false,
            shuffle: false,
            loss: 0.0,
            duplication: 0.0,
            freezes: Vec::new(),
            deaths: Vec::new(),
            deadline: Duration::from_secs(20_000),
            awake: Duration::ZERO,
            waking: Duration::ZERO,
            cluster: Cluster::default(),
            message_bytes: 1 << 30,
            largest_tag: 32_767,
        }
    }
}

impl Weather {
    /// Whether rates and shares are what they can be.
    ///
    /// # Errors
    /// The first that is not: its name, its value and what is allowed.
    ///
    /// # Examples
    /// ```
    /// use dataflow_mpi::transport::simulated::Weather;
    /// let backwards = Weather { bytes_per_second: -1.0, ..Weather::default() };
    /// let refused = backwards.check().unwrap_err().to_string();
    /// assert_eq!(refused, "the weather's bytes_per_second is -1 (0, more, and infinity are allowed)");
    /// assert!(Weather::default().check().is_ok());
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        let rates = self
            .slow_links
            .iter()
            .map(|&(_, _, rate)| ("slow_links", rate));
        let rates = rates.chain([("bytes_per_second", self.bytes_per_second)]);
        for (name, rate) in rates.chain(self.cluster.rates()) {
            if rate.is_nan() || rate < 0.0 {
                return Err(Error::wrong_settings(format!(
                    "the weather's {name} is {rate} (0, more, and infinity are allowed)"
                )));
            }
        }
        for (name, share) in [("loss", self.loss), ("duplication", self.duplication)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::wrong_settings(format!(
                    "the weather's {name} is {share} (from 0 to 1 is allowed)"
                )));
            }
        }
        Ok(())
    }

    /// How many bytes a second the link between two ranks carries, if it is slow.
    pub(super) fn link(&self, from: Rank, to: Rank) -> Option<f64> {
        let mut links = self.slow_links.iter();
        let link = links.find(|link| (link.0, link.1) == (from, to))?;
        Some(link.2)
    }

    /// A network that costs nothing.
    pub fn free() -> Self {
        Weather {
            latency: Duration::ZERO,
            bytes_per_second: f64::INFINITY,
            ..Weather::default()
        }
    }

    /// Rough, by a seed: delays, overtaking, repetitions, slow links, short freezes (also while the
    /// first run is opened), small limits, but nothing that a run could not survive.
    pub fn rough(seed: u64, n_ranks: usize) -> Self {
        let mut chance = Chance::new(seed ^ 0x5eed);
        let micros = |n| Duration::from_micros(n);
        let freezes = (0..chance.below(3)).map(|_| {
            let rank = Rank(chance.below(n_ranks as u64) as u32);
            (
                rank,
                micros(chance.below(2_000)),
                micros(chance.below(500_000)),
            )
        });
        let mut freezes: Vec<_> = freezes.collect();
        let mut somebody = || Rank(chance.below(n_ranks as u64) as u32);
        let (late, from, to) = (somebody(), somebody(), somebody());
        if chance.below(4) == 0 {
            let while_opening = Duration::from_millis(chance.below(8_000));
            freezes.push((late, Duration::ZERO, while_opening));
        }
        let rate = [2e4, 1e5, 1e6][chance.below(3) as usize];
        let is_slow = chance.below(4) == 0;
        let slow_links = is_slow.then_some((from, to, rate)).into_iter().collect();
        Weather {
            seed,
            slow_links,
            latency: micros(chance.below(50)),
            bytes_per_second: [1e7, 1e9, 1e10][chance.below(3) as usize],
            jitter: micros([0, 20, 1_000][chance.below(3) as usize]),
            reorder: chance.below(4) > 0,
            shuffle: true,
            duplication: [0.0, 0.05, 0.3][chance.below(3) as usize],
            freezes,
            message_bytes: [64, 1 << 10, 1 << 20][chance.below(3) as usize],
            ..Weather::default()
        }
    }

    /// Rough, and messages are lost, a rank dies or it stands still for as long as the dead are
    /// silent: the run must end with an error everywhere, or not have noticed.
    pub fn deadly(seed: u64, n_ranks: usize) -> Self {
        let mut chance = Chance::new(seed ^ 0xdead);
        let mut weather = Weather::rough(seed, n_ranks);
        match chance.below(3) {
            0 => weather.loss = [0.002, 0.02, 0.2][chance.below(3) as usize],
            what => {
                let rank = Rank(chance.below(n_ranks as u64) as u32);
                let at = Duration::from_micros(chance.below(3_000));
                match what {
                    1 => weather.deaths.push((rank, at)),
                    _ => weather.freezes.push((rank, at, Duration::from_secs(60))),
                }
            }
        }
        weather
    }
}

/// How often each kind of fault happened.
///
/// # Examples
/// See [`Weather`](Weather#examples).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// Messages that took longer than the latency.
    pub delayed: u64,
    /// Messages that overtook an earlier one.
    pub reordered: u64,
    /// Messages that came twice.
    pub duplicated: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// Messages from or to dead ranks.
    pub cut: u64,
    /// Messages that went over a slow link.
    pub slowed: u64,
    /// Times that part of a message was said to have come.
    pub parts: u64,
    /// Times an actor could not run because its rank stood still.
    pub frozen: u64,
}

impl Faults {
    /// Adds those of another world.
    pub fn add(&mut self, other: Faults) {
        self.delayed += other.delayed;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
        self.lost += other.lost;
        self.cut += other.cut;
        self.slowed += other.slowed;
        self.parts += other.parts;
        self.frozen += other.frozen;
    }
}

/// Numbers from a seed.
#[derive(Debug)]
pub(super) struct Chance(ChaCha8Rng);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(ChaCha8Rng::seed_from_u64(seed))
    }

    /// One of `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    /// Whether something of that probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        let uniform = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        uniform < probability
    }
}
