//! Workers in virtual time: real engines run in the world, their bodies [spend](super::spend) it.
//!
//! # Law
//! A worker that is woken and finds that another was quicker falls asleep again without coming into the run.
//! Who must stay inside until others have done something [waits](super::inside) in virtual time.

use super::here::{leaves_work, works_as};
use super::inside::Inside;
use super::queues::{HeapQueue, Ringer, VirtualQueues};
use super::world::World;
use crate::bell::Bell;
use crate::host::{Host, Thread, Turn};
use dataflow_core::port::{Executor, Job, Lane, Stay};
use dataflow_core::rank::Rank;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// `n` workers of one rank of a world: the most urgent task first, then the oldest, unless they are given
/// [other queues](VirtualWorkers::with_queues).
///
/// # Examples
/// Ten tasks of a second each on two workers:
/// ```
/// use dataflow_core::{run, space::Independent};
/// use dataflow_mpi::transport::simulated::{VirtualWorkers, Weather, World, spend};
/// use std::time::Duration;
///
/// let world = World::new(Weather::default());
/// let inside = world.clone();
/// world.run(1, move |rank| {
///     let workers = VirtualWorkers::new(&inside, rank, 2);
///     let seconds = Independent::new("seconds", 10, |_| {
///         spend(Duration::from_secs(1));
///         Ok(())
///     });
///     run(&seconds, &workers).map(drop)
/// })?.remove(0)?;
/// assert_eq!(world.now(), Duration::from_secs(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VirtualWorkers {
    rank: Rank,
    host: Arc<dyn Host>,
    n_workers: usize,
    by_turns: bool,
    open: OpensQueues,
}

impl fmt::Debug for VirtualWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualWorkers")
            .field("rank", &self.rank)
            .field("n_workers", &self.n_workers)
            .field("by_turns", &self.by_turns)
            .finish_non_exhaustive()
    }
}

/// Opens the queues of a run.
type OpensQueues = Box<dyn Fn(Ringer) -> Arc<dyn VirtualQueues> + Send + Sync>;

impl VirtualWorkers {
    /// At least one worker, at most [`MANY_INSIDE`](dataflow_core::port::MANY_INSIDE): with more every run is
    /// refused, as it is if the system has no room for a worker. Each has a stack, so bodies may wait in their
    /// midst.
    pub fn new(world: &World, rank: Rank, n_workers: usize) -> Self {
        let n_workers = n_workers.max(1);
        VirtualWorkers {
            rank,
            host: world.host(rank),
            n_workers,
            by_turns: false,
            open: Box::new(move |ring| Arc::new(HeapQueue::new(n_workers, ring))),
        }
    }

    /// The same workers, of which only the first, which is the caller of the run, has a stack: a run of a
    /// task space takes the same course with them, in less memory and time.
    ///
    /// A body may [spend](super::spend) time, but not wait for anything else: it runs when it begins, and
    /// its successors when its time has passed. If it panics, the run stops when it has begun. Those
    /// without a stack post messages without waiting, also where posts are to [wait](crate::Settings::blocking).
    pub fn lean(world: &World, rank: Rank, n_workers: usize) -> Self {
        VirtualWorkers {
            by_turns: true,
            ..VirtualWorkers::new(world, rank, n_workers)
        }
    }

    /// The same workers, which take their tasks from queues that `open` opens for each run. They wake a
    /// worker by ringing for it.
    pub fn with_queues(
        self,
        open: impl Fn(Ringer) -> Arc<dyn VirtualQueues> + Send + Sync + 'static,
    ) -> Self {
        VirtualWorkers {
            open: Box::new(open),
            ..self
        }
    }

    /// One of the workers beside the caller's own.
    fn start(
        &self,
        worker: usize,
        crew: &Arc<VirtualCrew>,
        job: &Arc<Job>,
    ) -> Result<Box<dyn Thread>, String> {
        let (name, crew, job) = (format!("worker {worker}"), crew.clone(), job.clone());
        if !self.by_turns {
            let live = move || crew.serve(worker, &job);
            return self.host.start(name, Box::new(live));
        }
        let mut presence = Presence::default();
        let turn = move || crew.turn(worker, &job, &mut presence);
        self.host.start_turns(name, Box::new(turn))
    }
}

impl Executor for VirtualWorkers {
    fn n_workers(&self) -> usize {
        self.n_workers
    }

    fn execute(&self, job: &Arc<Job>) {
        let bells: Vec<Arc<dyn Bell>> = (0..self.n_workers).map(|_| self.host.bell()).collect();
        let rung = bells.clone();
        let crew = Arc::new(VirtualCrew {
            queues: (self.open)(Box::new(move |worker| rung[worker].ring())),
            inside: Inside::new(bells.clone()),
            bells,
        });
        let (woken, run) = (crew.queues.clone(), Arc::downgrade(job));
        job.on_mail(move || match run.upgrade() {
            Some(run) if !run.is_over() => woken.mail_has_come(),
            _ => woken.is_over(),
        });
        let mut threads: Vec<Box<dyn Thread>> = Vec::new();
        for worker in 1..self.n_workers {
            match self.start(worker, &crew, job) {
                Ok(thread) => threads.push(thread),
                Err(text) => {
                    // Its tasks would wait for it: they may lie where no other takes them.
                    if let Some(entered) = job.enter() {
                        let rank = self.rank.0;
                        entered.refuse(format!(
                            "worker {worker} of rank {rank} was not started: {text}"
                        ));
                    }
                    break;
                }
            }
        }
        crew.serve(0, job);
        leaves_work();
        for thread in threads {
            if !thread.join() {
                unreachable!("the engine catches what bodies throw");
            }
        }
    }
}

/// The workers of one run.
struct VirtualCrew {
    queues: Arc<dyn VirtualQueues>,
    bells: Vec<Arc<dyn Bell>>,
    inside: Inside,
}

impl VirtualCrew {
    fn serve(&self, worker: usize, job: &Job) {
        works_as(worker, &self.queues);
        while let Some(entered) = job.enter() {
            let mut work = |lane: &mut dyn Lane| {
                let visit = |lane: &mut dyn Lane| _ = entered.work(lane);
                self.inside.visit(lane, &*self.queues, visit);
            };
            if let Some(fault) = self.queues.lend(worker, &mut work) {
                entered.refuse(fault);
            }
            drop(entered);
            while let Some(at_most) = self.rests(worker, job) {
                self.bells[worker].wait(at_most);
            }
        }
        self.queues.is_over();
    }

    /// A turn of a worker that is called when the body of its task has taken its time: what it does until
    /// it has begun another, or falls asleep.
    fn turn(&self, worker: usize, job: &Arc<Job>, presence: &mut Presence) -> Turn {
        if !presence.has_been_inside {
            works_as(worker, &self.queues);
        }
        loop {
            if presence.stay.is_none() {
                if presence.has_been_inside
                    && let Some(at_most) = self.rests(worker, job)
                {
                    return Turn::Rests(self.bells[worker].clone(), at_most);
                }
                presence.has_been_inside = true;
                presence.stay = job.enter_to_stay();
            }
            let Some(inside) = &presence.stay else {
                self.queues.is_over();
                return Turn::Ends;
            };
            let mut has_begun = false;
            let mut begin = |lane: &mut dyn Lane| {
                has_begun = inside.begin_next(lane);
            };
            if let Some(fault) = self.queues.lend(worker, &mut begin) {
                inside.refuse(fault);
            }
            if has_begun {
                return Turn::Again;
            }
            presence.stay = None;
        }
    }

    /// Whether a worker that has found nothing falls asleep, and for how long at most.
    fn rests(&self, worker: usize, job: &Job) -> Option<Option<Duration>> {
        let is_wanted = job.has_mail() || job.is_over();
        self.queues.rests(worker, is_wanted)
    }
}

/// A worker by turns, from one to the next.
#[derive(Default)]
struct Presence {
    /// While it is inside of the run.
    stay: Option<Stay>,
    /// Once it has looked for roots.
    has_been_inside: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::simulated::{Weather, spend};
    use dataflow_core::prelude::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Three tasks of a second.
    struct Seconds;

    impl TaskSpace for Seconds {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("seconds").class("Second");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..3
        }
        fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            spend(Duration::from_secs(1));
            Ok(())
        }
    }

    /// A host with room for one thread.
    struct Narrow(Arc<dyn Host>, AtomicBool);

    impl Host for Narrow {
        fn now(&self) -> Duration {
            self.0.now()
        }
        fn bell(&self) -> Arc<dyn Bell> {
            self.0.bell()
        }
        fn start(
            &self,
            name: String,
            body: Box<dyn FnOnce() + Send>,
        ) -> Result<Box<dyn Thread>, String> {
            match self.1.swap(true, Ordering::Relaxed) {
                true => Err("no room".into()),
                false => self.0.start(name, body),
            }
        }
        fn is_virtual(&self) -> bool {
            true
        }
    }

    /// Tasks on its NUMA node waited for it for ever, under policies that leave them there.
    #[test]
    fn a_run_whose_workers_cannot_all_be_started_is_refused() {
        for on in [World::new, World::on_threads] {
            for workers in [VirtualWorkers::new, VirtualWorkers::lean] {
                let world = on(Weather::default());
                let inside = world.clone();
                let ran = world.run(1, move |rank| {
                    let mut workers = workers(&inside, rank, 4);
                    workers.host = Arc::new(Narrow(workers.host.clone(), AtomicBool::new(false)));
                    dataflow_core::run(&Seconds, &workers)
                        .unwrap_err()
                        .to_string()
                });
                let told = ran.unwrap().remove(0);
                let text = "worker 2 of rank 0 was not started: no room";
                assert!(told.contains(text), "{told}");
            }
        }
    }

    /// Each run added its workers and their bells to those that the world had.
    #[test]
    fn a_world_keeps_no_more_for_a_thousand_runs_than_for_one() {
        const RUNS: u64 = 1000;
        for on in [World::new, World::on_threads] {
            for workers in [VirtualWorkers::new, VirtualWorkers::lean] {
                let world = on(Weather::default());
                let inside = world.clone();
                let ran = world.run(1, move |rank| {
                    let workers = workers(&inside, rank, 3);
                    let once = || dataflow_core::run(&Seconds, &workers).unwrap().tasks;
                    (0..RUNS).map(|_| once()).sum::<u64>()
                });
                assert_eq!(ran.unwrap(), [3 * RUNS]);
                assert_eq!(world.now().as_secs(), RUNS);
                // The rank and two workers; ends of three actors, and the bells of three workers.
                let state = world.state();
                assert_eq!((state.actors.len(), state.bells.len()), (3, 6));
            }
        }
    }
}
