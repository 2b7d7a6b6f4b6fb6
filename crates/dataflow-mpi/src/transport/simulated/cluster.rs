//! Cluster: which ranks share a host, and what a message costs the ranks that send and receive it.
//!
//! # Source
//! Alexandrov, Ionescu, Schauser, Scheiman, *LogGP: Incorporating Long Messages into the LogP Model*,
//! Journal of Parallel and Distributed Computing 44 (1997); the latency L and the time of a byte G
//! between hosts are those of the [`Weather`](super::Weather).

use dataflow_core::rank::Rank;
use std::time::Duration;

/// Hosts of ranks, and the costs of messages beside latency and bandwidth.
///
/// By default each rank has a host of its own, and messages cost nobody's time.
///
/// # Examples
/// Four ranks on two hosts, whose own messages go through memory:
/// ```
/// use dataflow_mpi::transport::simulated::{Cluster, MessageCosts, Shared, Weather};
/// use std::time::Duration;
///
/// let micro = Duration::from_micros(1);
/// let cluster = Cluster {
///     hosts: vec![0, 0, 1, 1],
///     costs: MessageCosts { send: micro, receive: micro, ..MessageCosts::default() },
///     shared: Some(Shared { latency: micro / 2, bytes_per_second: 20e9, costs: MessageCosts::default() }),
/// };
/// let weather = Weather { cluster, ..Weather::default() };
/// # assert_eq!(weather.latency, Duration::from_micros(5));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// The host of each rank; the ranks of a host share its way out and its way in. Ranks beyond the end
    /// have hosts of their own.
    pub hosts: Vec<u32>,
    /// Of messages between hosts.
    pub costs: MessageCosts,
    /// How ranks of one host send to each other, if not over its ways out and in.
    pub shared: Option<Shared>,
}

/// The way through the memory of a host: each rank's own way out and way in.
///
/// # Examples
/// See [`Cluster`](Cluster#examples).
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// From the end of sending to arrival.
    pub latency: Duration,
    /// Each rank's way in and way out carry so many bytes a second.
    pub bytes_per_second: f64,
    /// What messages cost.
    pub costs: MessageCosts,
}

/// What a message costs. The thread that moves it, a worker or the thread of the rank, does nothing else
/// meanwhile: its time passes when it next [spends](super::spend) some or waits.
///
/// # Examples
/// See [`Cluster`](Cluster#examples).
#[derive(Clone, Debug, PartialEq)]
pub struct MessageCosts {
    /// The sender's time (o of LogP): the message goes when it is over.
    pub send: Duration,
    /// The receiver's time. What it hands on is seen at once.
    pub receive: Duration,
    /// How long a way is busy after each message (g).
    pub gap: Duration,
    /// A packet is copied by its sender and by its receiver, so many bytes a second.
    pub copied_bytes_per_second: f64,
    /// Data are, too: where processors carry them, as through the memory of a host.
    pub data_copied_bytes_per_second: f64,
}

impl Default for MessageCosts {
    /// None.
    fn default() -> Self {
        MessageCosts {
            send: Duration::ZERO,
            receive: Duration::ZERO,
            gap: Duration::ZERO,
            copied_bytes_per_second: f64::INFINITY,
            data_copied_bytes_per_second: f64::INFINITY,
        }
    }
}

/// Where ranks live.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HostOf {
    /// On a host of the list.
    Host(u32),
    /// Alone.
    Own(u32),
}

impl Cluster {
    /// The host of a rank.
    pub(super) fn home(&self, rank: Rank) -> HostOf {
        let host = self.hosts.get(rank.0 as usize);
        host.map_or(HostOf::Own(rank.0), |&host| HostOf::Host(host))
    }

    /// How messages between two ranks go, if through memory.
    pub(super) fn shared(&self, one: Rank, other: Rank) -> Option<&Shared> {
        let shared = self.shared.as_ref()?;
        (self.home(one) == self.home(other)).then_some(shared)
    }

    /// All rates by their names.
    pub(super) fn rates(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let shared = self.shared.as_ref();
        let ways = shared.map(|shared| ("shared.bytes_per_second", shared.bytes_per_second));
        let costs = [Some(&self.costs), shared.map(|shared| &shared.costs)];
        let copied = costs.into_iter().flatten().flat_map(|costs| {
            [
                ("copied_bytes_per_second", costs.copied_bytes_per_second),
                (
                    "data_copied_bytes_per_second",
                    costs.data_copied_bytes_per_second,
                ),
            ]
        });
        ways.into_iter().chain(copied)
    }

    /// What messages between two ranks cost.
    pub(super) fn costs(&self, one: Rank, other: Rank) -> &MessageCosts {
        self.shared(one, other)
            .map_or(&self.costs, |shared| &shared.costs)
    }
}

impl MessageCosts {
    /// How long so many bytes are copied at each end, in nanoseconds.
    pub(super) fn copying(&self, is_packet: bool, bytes: usize) -> u64 {
        let rate = match is_packet {
            true => self.copied_bytes_per_second,
            false => self.data_copied_bytes_per_second,
        };
        carried(bytes, rate)
    }
}

/// Nanoseconds that bytes take at a rate.
pub(super) fn carried(bytes: usize, bytes_per_second: f64) -> u64 {
    (bytes as f64 / bytes_per_second * 1e9) as u64
}
