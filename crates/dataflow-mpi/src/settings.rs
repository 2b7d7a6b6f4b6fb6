//! What can be chosen about communication; the defaults suit a node and a fast network.

use dataflow_core::stderr;
use std::time::Duration;

/// Ranks that hardly beat look at their clock as if they did once an hour: they, too, must see that a run
/// has stalled, and in simulated worlds each look costs.
pub(crate) const RAREST_BEAT: Duration = Duration::from_secs(3600);

/// The choices of one rank.
///
/// # Examples
/// ```
/// use dataflow_mpi::Settings;
/// let frugal = Settings { window_bytes: 64 << 10, ..Settings::default() };
/// assert_eq!(frugal.inline_bytes, Settings::default().inline_bytes);
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// A datum of at most this many bytes travels inside its activation, if there is credit.
    pub inline_bytes: usize,
    /// Size of a full packet, in bytes; the transport's limit may be smaller.
    pub packet_bytes: usize,
    /// How many packets may be under way to one rank.
    pub packets_in_flight: usize,
    /// While a worker that moves messages has more to run, and its tasks are shorter than this,
    /// packets to one rank leave at least this far apart; messages in between go with the next. What
    /// follows data of that rank leaves at once.
    pub hold: Duration,
    /// How many inline bytes may be under way from one rank to another; more than 1 GiB count as that.
    /// Agreed on by all ranks.
    pub credit_bytes: usize,
    /// How many bytes this rank may have requested and not yet received; one datum is always allowed.
    /// If it is more than the network needs to stay busy, urgent data wait behind others.
    pub window_bytes: usize,
    /// When this many bytes of data have come that no task uses yet, no more are requested, except for
    /// one datum at a time when no task can run: the others stay with the rank they come from. Of what others
    /// get through it this rank keeps as much again; the rest they get from the rank that has it.
    pub held_bytes: usize,
    /// To at most this many ranks a datum is sent directly; to more it goes along a tree. Agreed on by
    /// all ranks.
    pub star_ranks: usize,
    /// From this many bytes on, each rank of the tree sends a datum to at most two others. Agreed on by
    /// all ranks.
    pub binary_bytes: usize,
    /// A rank that has sent another nothing for this long sends a sign of life. Agreed on by all ranks.
    /// Ranks that hardly beat also look at their clock less often, every three minutes at least: so much
    /// later they see that a run has stalled.
    pub beat: Duration,
    /// A rank from which not even a part of a message has come for this long during a run is lost. Agreed
    /// on by all ranks.
    pub silence: Duration,
    /// How long a run waits for ranks that have not opened it yet and were never heard of. For ranks
    /// that live it waits without limit, with a warning each time that this has passed.
    pub patience: Duration,
    /// Whether `post` waits until the receiver has the data: for comparison only.
    pub blocking: bool,
    /// Who moves messages.
    pub drive: Drive,
    /// Minimum time that a thread which waits for messages polls before it sleeps; workers do so too, if
    /// they move messages. It is extended to twice this rank's recent waits, at most two milliseconds, unless
    /// those were longer than that. Zero: never poll.
    pub spin: Duration,
    /// Gets a line for each oddity that is no error; by default it is printed to standard error.
    pub warn: fn(&str),
}

/// Who moves the messages of a rank.
///
/// # Examples
/// Two ranks of three workers have a core each to spare on eight cores, two of four have none:
/// ```
/// use dataflow_mpi::Drive;
///
/// assert_eq!(Drive::by_cores(8, 2, 3), Drive::Dedicated);
/// assert_eq!(Drive::by_cores(8, 2, 4), Drive::Workers);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// A thread of its own: for ranks with a core to spare.
    Dedicated,
    /// Workers, between tasks; a helper thread takes over when none has looked for 200 µs (up to a
    /// millisecond, if workers looked all the time before).
    Workers,
}

impl Drive {
    /// A dedicated thread if each of the ranks on this machine has a core for it.
    pub fn by_cores(n_cores: usize, ranks_here: usize, workers_each: usize) -> Self {
        if ranks_here.saturating_mul(workers_each.saturating_add(1)) <= n_cores {
            Drive::Dedicated
        } else {
            Drive::Workers
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            inline_bytes: 4096,
            packet_bytes: 16 << 10,
            packets_in_flight: 4,
            hold: Duration::from_micros(50),
            credit_bytes: 256 << 10,
            window_bytes: 1 << 20,
            held_bytes: 256 << 20,
            star_ranks: 2,
            binary_bytes: 64 << 10,
            beat: Duration::from_secs(1),
            silence: Duration::from_secs(10),
            patience: Duration::from_secs(600),
            blocking: false,
            drive: Drive::Workers,
            spin: Duration::from_micros(50),
            warn: |line| stderr::say(format_args!("warning: {line}")),
        }
    }
}

impl Settings {
    /// How long a rank does nothing at most about what time alone brings about: a part of the beat.
    pub(crate) fn pause(&self) -> Duration {
        self.beat.min(RAREST_BEAT) / 20
    }

    /// How often to look at the clock. By default a twentieth of the beat is those 50 ms: ranks that
    /// hardly beat hardly look.
    pub(crate) fn pace(&self) -> Duration {
        let longest = Duration::from_millis(50).max(self.pause());
        longest.min(self.beat / 2).min(self.silence / 8)
    }

    /// What ranks must agree on, by name and value: for trees and credits to fit together, and for a rank
    /// to beat as often as the others listen for it.
    pub(crate) fn agreed(&self) -> [(&'static str, String); 5] {
        [
            ("credit_bytes", self.credit_bytes.to_string()),
            ("star_ranks", self.star_ranks.to_string()),
            ("binary_bytes", self.binary_bytes.to_string()),
            ("beat", format!("{:?}", self.beat)),
            ("silence", format!("{:?}", self.silence)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_dedicated_only_if_every_rank_has_a_core_for_it() {
        for (n_cores, ranks, workers, expected) in [
            (2, 1, 1, Drive::Dedicated),
            (2, 1, 2, Drive::Workers),
            (2, 2, 1, Drive::Workers),
            (16, 4, 3, Drive::Dedicated),
            (15, 4, 3, Drive::Workers),
        ] {
            assert_eq!(
                Drive::by_cores(n_cores, ranks, workers),
                expected,
                "{n_cores} {ranks} {workers}"
            );
        }
    }
}
