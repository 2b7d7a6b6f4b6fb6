//! Policy: how ready tasks are queued, where they are placed, and which workers may steal them.
//!
//! A policy is a value. The named ones are combinations of four decisions, each of which can be
//! set by itself:
//!
//! | name | queues | placed by data | steals from |
//! |---|---|---|---|
//! | `distance` (the default) | a deque and a priority queue per worker, a priority queue per NUMA node | yes | all, by distance |
//! | `distance-no-steal` | the same | yes | its own NUMA node |
//! | `oblivious` | one priority queue for all | no | – |
//! | `priority` | a priority queue per NUMA node | yes | all, by distance |
//! | `fifo`, `lifo` | a queue per NUMA node, in the order in which tasks became ready | yes | all, by distance |
//!
//! # Placing by data
//! On machines of several NUMA nodes the engine reports where a task's data lie, as far as the
//! [data know](dataflow_core::data::Datum::numa_node). A task is queued on the node where most of its
//! input bytes lie. Tasks that make data without reading any are dealt round robin over the nodes, and
//! touch their data there first (those of spaces: sequences and recorded programs have data when they
//! begin). Tasks without data stay where they became ready; so under
//! `distance-no-steal` they use only the NUMA nodes where a root starts. Roots are placed as they are
//! pulled: a worker pulls roots until it finds one for its own node; the others wait in their nodes' queues,
//! 24 bytes each. On a machine with one node
//! none of this is computed. A user's own [`Scheduler`] gets hint, class and the time of bodies on any
//! machine; for spaces without data it gets only word and priority, and no roots without a priority.
//!
//! # Law
//! Policies decide when and where a task runs, never what it computes. Whatever the policy, a
//! task that is ready is run: one that is placed on a NUMA node without workers waits in the
//! queue of the nearest node that has some. A worker that waits inside a body, for its children or for
//! a datum, steals from all once it has found nothing within its reach for some microseconds.
//!
//! On one worker priorities are honoured exactly (`fifo` and `lifo` apart) among tasks that are queued or
//! [kept](Policy::keep). Roots are ready once they are pulled: in chunks of at most
//! 64, when nothing near is queued; so tasks that follow from earlier roots go before them, in `fifo`,
//! too, and whatever their priority. On several,
//! `distance` honours them approximately: a worker runs the most urgent of its own and looks at
//! its neighbours' most urgent every few microseconds. `priority` and `oblivious` honour them exactly among
//! the workers that share a queue, and pay for it with a lock that those workers share.
//!
//! # Source
//! Al-Omairy, Miranda, Ltaief, Badia, Martorell, Labarta, Keyes, *Dense matrix computations on
//! NUMA architectures with distance-aware work stealing*, Supercomputing Frontiers and
//! Innovations 2 (2015), section 4, whose own policy has one queue per NUMA node and steals from adjacent
//! nodes only, queues every ready task, and waits for some rounds that it does not tell:
//! `priority,adjacent,keep=0` here, with a [patience](Policy::patience). Two things differ. Of equally near nodes,
//! the one with which a sweep begins changes in turn, here for each worker, there for each NUMA node. And here
//! tasks that read nothing are dealt round robin, there all tasks that write a datum for the first time. Tasks
//! that a worker keeps for itself: Bosilca et al.,
//! *DAGuE*, Parallel Computing 38 (2012), section III-B.

mod place;
mod scheduler;

pub use crate::crew::{Crew, Reach};
pub use dataflow_core::port::{Hint, Ready, most_bytes};
pub(crate) use place::Placer;
pub use scheduler::{ReadyQueue, Scheduler};

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How ready tasks are queued, placed and stolen; see the [module](self).
///
/// Read from and shown as text: a name, then what differs from it.
///
/// ```
/// use dataflow_numa::policy::{Policy, Reach};
///
/// let policy: Policy = "distance,adjacent,patience=16".parse()?;
/// assert_eq!(policy, Policy::distance().reach(Reach::Adjacent).patience(16));
/// assert_eq!(policy.to_string(), "distance,adjacent,patience=16");
/// assert_eq!(Policy::default(), Policy::distance());
/// # Ok::<(), dataflow_numa::UnknownPolicy>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) queues: Queueing,
    pub(crate) by_data: bool,
    pub(crate) reach: Reach,
    pub(crate) patience: u32,
    pub(crate) keep: usize,
}

/// What the queues of a job are.
#[derive(Clone, Debug)]
pub(crate) enum Queueing {
    /// A deque and a priority queue per worker, and a priority queue per NUMA node.
    Workers,
    /// A queue per NUMA node.
    Nodes(Order),
    /// One queue.
    Shared(Order),
    /// The user's own.
    Custom(Arc<dyn Scheduler>),
}

/// Which of the queued tasks comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The most urgent; of equal ones the newest.
    Priority,
    /// The oldest.
    Fifo,
    /// The newest.
    Lifo,
}

impl PartialEq for Queueing {
    /// Schedulers of the user's are equal if they are the same one.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Queueing::Workers, Queueing::Workers) => true,
            (Queueing::Nodes(one), Queueing::Nodes(other))
            | (Queueing::Shared(one), Queueing::Shared(other)) => one == other,
            (Queueing::Custom(one), Queueing::Custom(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Queueing {}

/// The policies that have names. `Custom` has the scheduler's own.
const NAMES: [&str; 6] = [
    "distance",
    "distance-no-steal",
    "oblivious",
    "priority",
    "fifo",
    "lifo",
];

impl Default for Policy {
    fn default() -> Self {
        Policy::distance()
    }
}

impl Policy {
    fn new(queues: Queueing) -> Self {
        Policy {
            queues,
            by_data: true,
            reach: Reach::All,
            patience: 0,
            keep: 1,
        }
    }

    /// Tasks go to where their data lie; idle workers steal them, from the nearest first.
    pub fn distance() -> Self {
        Policy::new(Queueing::Workers)
    }

    /// Tasks go to where their data lie and stay there, unless a body [waits](self) for them.
    pub fn distance_no_steal() -> Self {
        Policy::distance().reach(Reach::Own)
    }

    /// One priority queue for all workers; where data lie does not matter.
    pub fn oblivious() -> Self {
        Policy {
            by_data: false,
            ..Policy::new(Queueing::Shared(Order::Priority))
        }
    }

    /// A priority queue per NUMA node: its workers take the most urgent first, exactly.
    pub fn priority() -> Self {
        Policy::new(Queueing::Nodes(Order::Priority))
    }

    /// A queue per NUMA node: what became ready first runs first; priorities are ignored.
    /// Tasks that one task made ready count as ready at the same time.
    pub fn fifo() -> Self {
        Policy::new(Queueing::Nodes(Order::Fifo)).keep(0)
    }

    /// A stack per NUMA node: what became ready last runs first; priorities are ignored.
    pub fn lifo() -> Self {
        Policy::new(Queueing::Nodes(Order::Lifo)).keep(0)
    }

    /// The user's own queues, which also decide reach and patience.
    pub fn custom(scheduler: Arc<dyn Scheduler>) -> Self {
        Policy::new(Queueing::Custom(scheduler))
    }

    /// The workers from which an idle worker may steal.
    pub fn reach(self, reach: Reach) -> Self {
        Policy { reach, ..self }
    }

    /// For how many rounds an idle worker looks only at its own NUMA node before it steals from
    /// others; 0: it steals at once. Patience gains locality at the price of idle time. A worker woken for
    /// another node's task also waits this many rounds first, and no other sleeper is woken meanwhile.
    pub fn patience(self, rounds: u32) -> Self {
        Policy {
            patience: rounds,
            ..self
        }
    }

    /// How many of a finished task's successors its worker keeps for itself: tasks that no other
    /// worker can steal (DAGuE's placeholder).
    ///
    /// - 0: all are queued.
    /// - 1: the most urgent one runs next, unless something queued is more urgent.
    /// - n > 1: n − 1 more wait on the worker, the most urgent first, unless something queued is more urgent.
    ///   They wait as long as a body takes, even if other workers are idle; bodies must not wait for one
    ///   another.
    ///
    /// One more is put in order among those that are kept: what is the least urgent of so many moves them all.
    ///
    /// Only successors are kept: not roots, nor tasks whose inputs come from another rank, nor what becomes
    /// ready on the worker that runs the program of a scope.
    pub fn keep(self, tasks: usize) -> Self {
        Policy {
            keep: tasks,
            ..self
        }
    }

    /// Whether the queues are the user's own.
    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.queues, Queueing::Custom(_))
    }

    /// Whether all workers can take all tasks.
    pub(crate) fn reaches_all(&self) -> bool {
        self.reach == Reach::All || matches!(self.queues, Queueing::Shared(_) | Queueing::Custom(_))
    }

    /// The policy of a name, or of a scheduler, before anything else was set.
    fn named(name: &str) -> Option<Policy> {
        Some(match name {
            "distance" => Policy::distance(),
            "distance-no-steal" => Policy::distance_no_steal(),
            "oblivious" => Policy::oblivious(),
            "priority" => Policy::priority(),
            "fifo" => Policy::fifo(),
            "lifo" => Policy::lifo(),
            _ => return None,
        })
    }

    fn name(&self) -> &str {
        match &self.queues {
            Queueing::Workers if self.reach == Reach::Own => "distance-no-steal",
            Queueing::Workers => "distance",
            Queueing::Shared(_) => "oblivious",
            Queueing::Nodes(Order::Priority) => "priority",
            Queueing::Nodes(Order::Fifo) => "fifo",
            Queueing::Nodes(Order::Lifo) => "lifo",
            Queueing::Custom(scheduler) => scheduler.name(),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        let built_in = Policy::named(name).filter(|_| !self.is_custom());
        let plain = built_in.unwrap_or_else(|| Policy::new(self.queues.clone()));
        // A scheduler that is called like a policy is not that.
        match self.is_custom() && name.parse::<Policy>().is_ok() {
            true => write!(f, "{name:?}")?,
            false => f.write_str(name)?,
        }
        if self.reach != plain.reach {
            write!(f, ",{}", self.reach)?;
        }
        if self.patience != plain.patience {
            write!(f, ",patience={}", self.patience)?;
        }
        if self.keep != plain.keep {
            write!(f, ",keep={}", self.keep)?;
        }
        Ok(())
    }
}

/// A text that is no [`Policy`].
///
/// # Examples
/// ```
/// use dataflow_numa::{Policy, UnknownPolicy};
/// let refused = "distance,patience=long".parse::<Policy>().unwrap_err();
/// assert_eq!(refused, UnknownPolicy::Setting("patience=long".into()));
/// assert!(refused.to_string().starts_with(r#""patience=long" is no setting of a policy"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownPolicy {
    /// No policy has this name.
    Name(String),
    /// No setting of a policy reads so.
    Setting(String),
    /// A setting that is given a second time: of `own`, `adjacent` and `all` one, as of each of the others.
    Again(String),
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownPolicy::Name(name) => {
                write!(f, "there is no policy {name:?} ({})", NAMES.join(", "))
            }
            UnknownPolicy::Setting(word) => write!(
                f,
                "{word:?} is no setting of a policy (own, adjacent, all, patience=N, keep=N)"
            ),
            UnknownPolicy::Again(word) => write!(
                f,
                "{word:?} gives a setting of a policy again (one of own, adjacent and all, one patience=N, \
                 one keep=N)"
            ),
        }
    }
}

impl Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    /// Reads a name, then any of `own`, `adjacent`, `all`, `patience=N` and `keep=N`, separated
    /// by commas; one of the first three, and each of the others once.
    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let mut words = text.split(',');
        let name = words.next().unwrap_or_default();
        let policy = Policy::named(name).ok_or_else(|| UnknownPolicy::Name(name.to_owned()))?;
        let mut given = Vec::new();
        words.try_fold(policy, |policy, word| {
            let wrong = || UnknownPolicy::Setting(word.to_owned());
            let (setting, policy) = match (word, word.split_once('=')) {
                ("own", _) => ("reach", policy.reach(Reach::Own)),
                ("adjacent", _) => ("reach", policy.reach(Reach::Adjacent)),
                ("all", _) => ("reach", policy.reach(Reach::All)),
                (_, Some((setting @ "patience", rounds))) => {
                    let rounds = rounds.parse().map_err(|_| wrong())?;
                    (setting, policy.patience(rounds))
                }
                (_, Some((setting @ "keep", tasks))) => {
                    (setting, policy.keep(tasks.parse().map_err(|_| wrong())?))
                }
                _ => return Err(wrong()),
            };
            if given.contains(&setting) {
                return Err(UnknownPolicy::Again(word.to_owned()));
            }
            given.push(setting);
            Ok(policy)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_by_the_texts_they_print() {
        for name in NAMES {
            let policy: Policy = name.parse().unwrap();
            assert_eq!(policy.to_string(), name);
            for reach in [Reach::Own, Reach::Adjacent, Reach::All] {
                for (patience, keep) in [(0, 1), (7, 0), (0, 5)] {
                    let policy = policy.clone().reach(reach).patience(patience).keep(keep);
                    assert_eq!(policy.to_string().parse(), Ok(policy));
                }
            }
        }
    }

    /// The last one counted, and nothing said so.
    #[test]
    fn a_setting_that_is_given_twice_is_refused_by_name() {
        for (text, again) in [
            ("distance,patience=2,patience=3", "patience=3"),
            ("fifo,keep=1,own,keep=1", "keep=1"),
            ("lifo,own,all", "all"),
        ] {
            let refused = text.parse::<Policy>().unwrap_err();
            assert_eq!(refused, UnknownPolicy::Again(again.into()));
            assert!(
                refused.to_string().contains(&format!("{again:?}")),
                "{refused}"
            );
        }
    }

    /// A report said that it was made under a policy that had been replaced.
    #[test]
    fn a_scheduler_that_is_called_like_a_policy_is_shown_in_quotes() {
        #[derive(Debug)]
        struct Named(&'static str);

        impl Scheduler for Named {
            fn name(&self) -> &str {
                self.0
            }
            fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
                unreachable!("it is only named")
            }
        }

        let shown = |name| Policy::custom(std::sync::Arc::new(Named(name))).to_string();
        assert_eq!(shown("fifo"), "\"fifo\"");
        assert_eq!(shown("lifo,own"), "\"lifo,own\"");
        assert_eq!(shown("mine"), "mine");
    }

    #[test]
    fn what_is_no_policy_is_refused_with_what_is_allowed() {
        let refused = |text: &str| text.parse::<Policy>().unwrap_err().to_string();
        assert!(refused("nearest").contains("\"nearest\" (distance, distance-no-steal"));
        assert!(refused("").contains("\"\""));
        assert!(refused("fifo,patience=-1").contains("\"patience=-1\""));
        assert!(refused("lifo,near").contains("adjacent"));
    }
}
