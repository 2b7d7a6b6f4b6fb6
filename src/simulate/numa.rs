//! NUMA: what a rank's machine looks like inside, and the queues of its workers there.
//!
//! The queues are those of `dataflow-numa`, the time is that of `dataflow-mpi`'s world: here they meet.

use dataflow_core::phantom::Land;
use dataflow_core::port::{Block, Lane, Memory};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::simulated::{Ringer, VirtualQueues, VirtualWorkers, World, worker};
use dataflow_numa::simulate::{Lanes, Rest};
use dataflow_numa::{Bind, Place, Policy, Topology, WorkerStatistics};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What each rank has inside: NUMA nodes, and a policy by which its workers take their tasks.
///
/// Workers sit on the cores of the topology in their order, as [`Bind::Cores`] places them. A datum lies
/// on the NUMA node of the worker whose task made it, wherever it is updated; one that has come from another
/// rank on that of the worker that took it in; those from home are dealt out round robin over the NUMA
/// nodes that have workers, in the order in which tasks name them.
///
/// # Examples
/// Four cores, two for each half of the memory; and bytes of the other half cost a nanosecond more:
/// ```
/// use dataflow::numa::{Policy, Topology};
/// use dataflow::simulate::{Machine, Numa};
/// use dataflow::core::space::Independent;
/// use std::time::Duration;
///
/// let topology = Topology::made_of(&[2, 2], |from, to| if from == to { 10 } else { 20 });
/// let numa = Numa { policy: Policy::distance(), remote_byte: 1e-9, ..Numa::of(topology) };
/// let machine = Machine { ranks: 2, threads: 4, numa: Some(numa), ..Machine::default() };
/// let played = machine.run(|stage| {
///     let space = Independent::new("seconds", 16, |_| Ok(()));
///     stage.play(&space, &|_, _| 0, &|_| Duration::from_secs(1))
/// })?;
/// let first = played[0].as_ref().unwrap();
/// assert!((4.0..4.001).contains(&first.report.seconds));
/// assert_eq!(first.workers.iter().map(|worker| worker.tasks).collect::<Vec<_>>(), [4; 4]);
/// # Ok::<(), dataflow::simulate::Hung>(())
/// ```
#[derive(Clone, Debug)]
pub struct Numa {
    /// The cores and NUMA nodes of each rank.
    pub topology: Topology,
    /// How ready tasks are queued, placed and stolen.
    pub policy: Policy,
    /// Seconds of a byte that a task reads from another NUMA node, for every 10 by which that is farther
    /// than the own one: what SLIT calls the time of a local access. Finite, and 0 at least.
    pub remote_byte: f64,
    /// Time between two looks that an idle worker with patience left makes by itself. When another worker
    /// begins or ends a task it may look as well, in no time, and every look counts as a round: so many
    /// rounds are the longest that patience lasts. With a user's scheduler it is as
    /// [there](dataflow_numa::simulate::Costs::round).
    pub round: Duration,
}

impl Numa {
    /// A machine with the default policy whose bytes are equally near; a round is a microsecond.
    pub fn of(topology: Topology) -> Self {
        Numa {
            topology,
            policy: Policy::default(),
            remote_byte: 0.0,
            round: Duration::from_micros(1),
        }
    }
}

/// What is under all ranks' workers, once: a machine's tables grow with the square of its NUMA nodes.
pub(super) struct Ground {
    places: Vec<Place>,
    /// NUMA nodes that have workers.
    crewed: Vec<usize>,
    /// Those of each run are like these.
    lanes: Lanes,
}

impl Ground {
    pub fn new(numa: &Numa, n_workers: usize) -> Arc<Self> {
        let topology = &numa.topology;
        let places = Bind::Cores.places(topology, n_workers);
        let has_workers = |node: &usize| places.iter().any(|place| place.numa_node == *node);
        Arc::new(Ground {
            crewed: (0..topology.n_numa_nodes()).filter(has_workers).collect(),
            lanes: Lanes::new(
                topology,
                &places,
                &numa.policy,
                numa.round,
                numa.remote_byte,
            ),
            places,
        })
    }
}

/// What is under a rank's workers.
pub(super) struct Floor {
    ground: Arc<Ground>,
    /// By worker: nanoseconds that the inputs of the task that it begins take longer.
    longer: Vec<AtomicU64>,
    /// The same of all tasks of the run.
    remote: AtomicU64,
    /// Those of the last run.
    lanes: Mutex<Option<Arc<Lanes>>>,
}

impl Floor {
    pub fn new(ground: Arc<Ground>) -> Arc<Self> {
        Arc::new(Floor {
            longer: ground.places.iter().map(|_| AtomicU64::new(0)).collect(),
            remote: AtomicU64::new(0),
            lanes: Mutex::default(),
            ground,
        })
    }

    /// A rank's workers on it.
    pub fn workers(self: &Arc<Self>, world: &World, rank: Rank) -> VirtualWorkers {
        let (floor, clock) = (self.clone(), world.clone());
        let workers = VirtualWorkers::lean(world, rank, self.ground.places.len());
        workers.with_queues(move |ring| {
            let lanes = Arc::new(floor.ground.lanes.anew());
            *floor.lanes() = Some(lanes.clone());
            let clock = clock.clone();
            Arc::new(InWorld { lanes, clock, ring })
        })
    }

    /// How much longer than with all its inputs at hand the task takes that the calling worker begins; once.
    pub fn longer(&self) -> Duration {
        let longer = worker().and_then(|worker| self.longer.get(worker));
        let longer = longer.map_or(0, |longer| longer.swap(0, Ordering::Relaxed));
        self.remote.fetch_add(longer, Ordering::Relaxed);
        Duration::from_nanos(longer)
    }

    /// How much longer all tasks took since this was last asked.
    pub fn remote(&self) -> Duration {
        Duration::from_nanos(self.remote.swap(0, Ordering::Relaxed))
    }

    /// What each worker has done in the last run.
    pub fn statistics(&self) -> Vec<WorkerStatistics> {
        self.lanes()
            .as_ref()
            .map_or(Vec::new(), |lanes| lanes.statistics())
    }

    fn lanes(&self) -> std::sync::MutexGuard<'_, Option<Arc<Lanes>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Land for Floor {
    fn here(&self) -> Option<usize> {
        Some(self.ground.places.get(worker()?)?.numa_node)
    }

    fn home(&self, slot: usize) -> Option<usize> {
        let turn = slot.checked_rem(self.ground.crewed.len())?;
        self.ground.crewed.get(turn).copied()
    }

    fn reads(&self, inputs: &[(usize, u64)]) {
        if let (Some(worker), Some(lanes)) = (worker(), &*self.lanes()) {
            let longer = lanes.begins(worker, inputs).as_nanos();
            let longer = u64::try_from(longer).unwrap_or(u64::MAX);
            self.longer[worker].store(longer, Ordering::Relaxed);
        }
    }
}

/// Where received data land: they have a length, no bytes, and lie with the worker that takes them in.
pub(super) struct Landing(pub Arc<Floor>);

struct LandedBlock {
    bytes: usize,
    floor: Arc<Floor>,
}

impl Memory for Landing {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        let floor = self.0.clone();
        Box::new(LandedBlock { bytes, floor })
    }
}

impl Block for LandedBlock {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn length(&self) -> usize {
        self.bytes
    }

    fn numa_node(&self) -> Option<usize> {
        self.floor.here()
    }
}

/// Lanes in the world's time.
struct InWorld {
    lanes: Arc<Lanes>,
    clock: World,
    ring: Ringer,
}

impl VirtualQueues for InWorld {
    fn lend(&self, worker: usize, visit: &mut dyn FnMut(&mut dyn Lane)) -> Option<String> {
        self.lanes.lend(worker, visit)
    }

    fn passes(&self, worker: usize) {
        let mut wake = |woken| (self.ring)(woken);
        self.lanes.pass(worker, self.clock.now(), &mut wake);
    }

    fn rests(&self, worker: usize, is_wanted: bool) -> Option<Option<Duration>> {
        let mut wake = |woken| (self.ring)(woken);
        let now = self.clock.now();
        match self.lanes.rest(worker, now, is_wanted, &mut wake) {
            Rest::ComesIn => None,
            Rest::Sleeps(at_most) => Some(at_most),
        }
    }

    fn mail_has_come(&self) {
        if let Some(woken) = self.lanes.call_for_mail() {
            (self.ring)(woken);
        }
    }

    fn is_over(&self) {
        self.lanes.call_all(&mut |woken| (self.ring)(woken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::port::Ready;
    use crate::core::sequence::{scope, write};
    use crate::simulate::Weather;
    use crate::{Error, Kind};
    use dataflow_mpi::transport::simulated::spend;
    use dataflow_numa::policy::{Crew, ReadyQueue, Scheduler};
    use std::sync::mpsc;

    /// What a scheduler does wrong with the third task that it is given, and what is said of it.
    const FAULTS: [(&str, &str); 3] = [
        ("loses", "lost 1 ready task: it handed none of them out"),
        ("doubles", "handed out a task twice"),
        ("holds", "holds 1 ready task back"),
    ];

    #[derive(Debug)]
    struct Faulty(&'static str);

    struct FaultyPile {
        fault: &'static str,
        /// The pile, the task that is held back, and how many were given.
        pile: Mutex<(Vec<Ready>, Option<Ready>, u32)>,
    }

    impl Scheduler for Faulty {
        fn name(&self) -> &str {
            self.0
        }

        fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
            Box::new(FaultyPile {
                fault: self.0,
                pile: Mutex::default(),
            })
        }
    }

    impl ReadyQueue for FaultyPile {
        fn push(&self, _: usize, task: Ready) {
            let (pile, held_back, given) = &mut *self.pile.lock().unwrap();
            *given += 1;
            match (self.fault, *given) {
                ("loses", 3) => {}
                ("doubles", 3) => pile.extend([task, task]),
                ("holds", 3) => *held_back = Some(task),
                _ => pile.push(task),
            }
        }

        fn take(&self, _: usize) -> Option<Ready> {
            self.pile.lock().unwrap().0.pop()
        }

        fn is_empty(&self) -> bool {
            let (pile, held_back, _) = &*self.pile.lock().unwrap();
            pile.is_empty() && held_back.is_none()
        }
    }

    /// A program that waits for each of six tasks: how its run ended.
    fn ends(on: fn(Weather) -> World, n_workers: usize, fault: &'static str) -> Option<Error> {
        let world = on(Weather::default());
        let inside = world.clone();
        let ran = world.run(1, move |rank| {
            let machine = Topology::made_of(&[2, 2], |from, to| 10 + from.abs_diff(to) as u32);
            let policy = Policy::custom(Arc::new(Faulty(fault)));
            let places = Bind::Cores.places(&machine, n_workers);
            let lanes = Lanes::new(&machine, &places, &policy, Duration::from_micros(1), 0.0);
            let clock = inside.clone();
            let workers = VirtualWorkers::new(&inside, rank, n_workers).with_queues(move |ring| {
                let (lanes, clock) = (Arc::new(lanes.anew()), clock.clone());
                Arc::new(InWorld { lanes, clock, ring })
            });
            let ran = scope(&workers, |s| {
                let data = s.handles([0; 6]);
                for datum in &data {
                    s.task(write(datum), |_| spend(Duration::from_micros(10)));
                }
                data.iter().all(|datum| s.wait(datum, |_| ()).is_some())
            });
            ran.err()
        });
        ran.unwrap().remove(0)
    }

    /// Who waits inside counted as one that runs a task: the run had no end.
    #[test]
    fn a_scheduler_that_loses_or_keeps_a_task_fails_the_run_of_a_program_that_waits_inside() {
        for on in [World::new, World::on_threads] {
            for n_workers in [1, 2, 4] {
                for (fault, says) in FAULTS {
                    let (tell, told) = mpsc::channel();
                    std::thread::spawn(move || tell.send(ends(on, n_workers, fault)));
                    let ended = told.recv_timeout(Duration::from_secs(60));
                    let error = ended.expect("the run ends").expect("the scheduler is told");
                    assert_eq!(error.kind(), Kind::SchedulerFailed, "{error}");
                    let text = error.to_string();
                    let is_named = text.starts_with(&format!("scheduler {fault:?} "));
                    assert!(is_named && text.contains(says), "{n_workers}: {text}");
                }
            }
        }
    }
}
