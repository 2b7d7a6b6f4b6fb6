//! Lanes: the queues of one run and the workers that rest beside them, for somebody else's virtual time.
//!
//! Where an engine runs in virtual time, in [`simulate`](super::simulate) or in a world of ranks and
//! messages, this is what the workers of a machine take their tasks from.
//!
//! # Law
//! One worker acts at a time, and says before time passes that it does. Then idle workers that may take
//! what is queued try, the nearest first, as the sleep protocol would wake them: the one that finds a task has it
//! in hand and is woken for it, so nobody is woken in vain.
//!
//! What a user's queue answers is the user's affair: it may have a task for this worker and none for that,
//! or have it only after so many looks. So while something is queued, every idle worker looks: after each
//! [round](Lanes::new), then ever more seldom, but at the next round whenever anyone has queued or got
//! something. Else such workers would look a million times while a task of a second runs.

mod lent;
mod resting;

use crate::crew::Crew;
use crate::place::Place;
use crate::policy::{Policy, Ready};
use crate::queue::{Backlog, Habits, KeepingLane, Kit, Queues};
use crate::sleep::{Risen, Wards};
use crate::statistics::{Counters, WorkerStatistics};
use crate::sync::held;
use crate::topology::Topology;
use dataflow_core::port::{Lane, Word};
use lent::LentLane;
use resting::{Begins, Resting, SinceAsked, looked_in_vain};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Where ready tasks of one run wait, as a [`Policy`] says, and which workers rest.
///
/// # Examples
/// A task that one worker queues wakes the other:
/// ```
/// use dataflow_numa::simulate::{Lanes, Rest};
/// use dataflow_numa::{Bind, Policy, Topology};
/// use std::time::Duration;
///
/// let machine = Topology::made_of(&[1, 1], |from, to| if from == to { 10 } else { 20 });
/// let places = Bind::Cores.places(&machine, 2);
/// let lanes = Lanes::new(&machine, &places, &Policy::distance(), Duration::from_micros(1), 1e-9);
/// let now = Duration::ZERO;
/// lanes.lend(0, &mut |lane| {
///     lane.push(7, 0);
///     lane.push(8, 0);
///     assert!(lane.pop().is_some());
/// });
/// let mut woken = Vec::new();
/// lanes.pass(0, now, &mut |worker| woken.push(worker));
/// assert_eq!(woken, [1]);
/// assert_eq!(lanes.rest(1, now, false, &mut |_| ()), Rest::ComesIn);
/// lanes.lend(1, &mut |lane| assert!(lane.pop().is_some()));
/// // It reads a thousand bytes of the other's NUMA node.
/// assert_eq!(lanes.begins(1, &[(0, 1000)]), Duration::from_micros(1));
/// ```
pub struct Lanes {
    plan: Arc<Plan>,
    queues: Queues,
    wards: Wards,
    workers: Box<[Berth]>,
    resting: Mutex<Resting>,
}

/// What the lanes of all runs on a machine have in common. Of `n` NUMA nodes each has a list of all workers,
/// and some of `n` entries: a hundred megabytes for a thousand nodes with eight workers each.
struct Plan {
    crew: Crew,
    policy: Policy,
    /// By NUMA node: the nodes whose workers may take from it, the nearest first. A user's queue lies on
    /// all nodes: then all that have workers, once.
    takers: Box<[Box<[usize]>]>,
    round: Duration,
    /// By NUMA node, from there to each other: seconds that a byte takes longer.
    farther: Box<[Box<[f64]>]>,
}

/// Nobody sleeps in virtual time.
struct NoBacklog;

impl Backlog for NoBacklog {
    fn has_words_on(&self, _: usize) -> bool {
        false
    }

    fn has_mail(&self) -> bool {
        false
    }
}

/// What a worker does that has found no task.
///
/// # Examples
/// See [`Lanes`](Lanes#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It has a task in hand, or is to look again: it comes in.
    ComesIn,
    /// It rests until it is woken, or for so long if that is said; then it asks again.
    Sleeps(Option<Duration>),
}

/// What belongs to a worker.
struct Berth {
    counters: Counters,
    left: Mutex<Left>,
}

/// What it has left behind between two visits.
#[derive(Default)]
struct Left {
    habits: Habits,
    kept: Vec<Ready>,
    /// A task that it was woken for, and whether it was stolen.
    hand: Option<(Word, bool)>,
    has_visited: bool,
}

/// So often a worker looks again after a round, before it looks more seldom.
const OFTEN: u32 = 100;
/// Then it waits twice as long each time, so often.
const DOUBLED: u32 = 10;

impl Lanes {
    /// Empty queues, and workers at these places of a machine, all at rest. With patience they look again
    /// every `round`; and with a user's scheduler that has tasks and gives them none, a hundred times, then
    /// ever more seldom, up to 1,024 rounds apart, until anyone has queued or got a task. A byte of another
    /// NUMA node takes `remote_byte` seconds longer for every 10 by which that is farther than the own one:
    /// what SLIT calls the time of a local access; finite, and 0 at least.
    ///
    /// # Panics
    /// If a place is on a NUMA node that the topology has not.
    pub fn new(
        topology: &Topology,
        places: &[Place],
        policy: &Policy,
        round: Duration,
        remote_byte: f64,
    ) -> Self {
        let numa_nodes: Vec<usize> = places.iter().map(|place| place.numa_node).collect();
        let crew = Crew::new(topology, &numa_nodes, policy.reach);
        let n_nodes = crew.n_numa_nodes();
        let farther = |from, to| {
            let distance = |to| crew.distance(from, to);
            let beyond = distance(to).saturating_sub(distance(from));
            remote_byte * f64::from(beyond) / 10.0
        };
        let row = |from| (0..n_nodes).map(|to| farther(from, to)).collect();
        Lanes::on(Arc::new(Plan {
            farther: (0..n_nodes).map(row).collect(),
            takers: match policy.is_custom() {
                true => [crew.crewed()].into(),
                false => crew.takers(),
            },
            policy: policy.clone(),
            round: round.max(Duration::from_nanos(1)),
            crew,
        }))
    }

    /// The same once more for another run: empty queues, and workers at rest. What is known of the machine is
    /// shared.
    pub fn anew(&self) -> Self {
        Lanes::on(self.plan.clone())
    }

    fn on(plan: Arc<Plan>) -> Self {
        let crew = &plan.crew;
        let berth = |_| Berth {
            counters: Counters::new(crew.n_numa_nodes()),
            left: Mutex::default(),
        };
        Lanes {
            queues: Queues::new(&plan.policy, crew),
            wards: Wards::new(crew, true),
            workers: (0..crew.n_workers()).map(berth).collect(),
            resting: Mutex::new(Resting::all(crew)),
            plan,
        }
    }

    /// How many workers there are.
    pub fn n_workers(&self) -> usize {
        self.workers.len()
    }

    /// The NUMA node on which a worker sits.
    pub fn numa_node(&self, worker: usize) -> usize {
        self.plan.crew.numa_node(worker)
    }

    /// What each worker has done so far; tasks are those that it was said to [begin](Self::begins).
    pub fn statistics(&self) -> Vec<WorkerStatistics> {
        let workers = self.workers.iter().enumerate();
        let read = |(worker, berth): (usize, &Berth)| berth.counters.read(worker, &self.plan.crew);
        workers.map(read).collect()
    }

    /// A worker begins one more task, whose inputs are so many bytes each on a NUMA node: how much longer it
    /// takes than with all of them at hand.
    pub fn begins(&self, worker: usize, inputs: &[(usize, u64)]) -> Duration {
        self.workers[worker].counters.count_tasks(1);
        let row = &self.plan.farther[self.numa_node(worker)];
        let longer = |&(node, bytes): &(usize, u64)| Some(bytes as f64 * row.get(node)?);
        nanoseconds(inputs.iter().filter_map(longer).sum())
    }

    /// Where no task runs and nobody will look again: what a user's scheduler did wrong, if it did.
    pub(super) fn at_rest(&self) -> Option<String> {
        self.queues.at_rest(true)
    }

    /// Lends a worker its lane for a visit. What is wrong with the queues, if that has turned out: then the
    /// run is to be [refused](dataflow_core::port::Work::refuse).
    pub fn lend(&self, worker: usize, visit: &mut dyn FnMut(&mut dyn Lane)) -> Option<String> {
        let mut left = std::mem::take(&mut *held(&self.workers[worker].left));
        let is_first = !std::mem::replace(&mut left.has_visited, true);
        let node = self.plan.crew.numa_node(worker);
        let for_roots = self.resting().comes_in(worker, node, is_first);
        let fault = self.open(worker, &mut left, for_roots, visit);
        self.resting().is_busy(worker, left.hand.is_some());
        *held(&self.workers[worker].left) = left;
        fault
    }

    /// Time is about to pass for a worker that has begun a task, or waits in the midst of one: says by
    /// `wake` who is to be woken.
    pub fn pass(&self, worker: usize, now: Duration, wake: &mut dyn FnMut(usize)) {
        let (node, is_custom) = (self.plan.crew.numa_node(worker), self.is_custom());
        let begins = self.resting().begins(worker, node);
        let asks = match begins {
            Begins::WhatItWasCalledFor => false,
            // A user's queue is as it was when the others looked.
            Begins::ToWait { has_exchanged } => has_exchanged || !is_custom,
            Begins::ATask => true,
        };
        if asks {
            self.call(now, wake);
        }
    }

    /// A worker is without a task: whether it comes in (it does if it `is_wanted`, for mail or because the
    /// run is over) or rests. Says by `wake` whom else it wakes before it rests.
    pub fn rest(
        &self,
        worker: usize,
        now: Duration,
        is_wanted: bool,
        wake: &mut dyn FnMut(usize),
    ) -> Rest {
        let node = self.plan.crew.numa_node(worker);
        let comes = |resting: &mut Resting| {
            resting.gets_up(worker, node);
            Rest::ComesIn
        };
        let before = self.resting().asks(worker);
        let is_wanted = is_wanted || self.has_in_hand(worker);
        if before.rests && before.since_asked == SinceAsked::WasTold && !is_wanted {
            // If that is now, then after all that was to happen now.
            return Rest::Sleeps(before.looks_at.map(|at| at.saturating_sub(now)));
        }
        let has_looked = before.since_asked == SinceAsked::HasLooked;
        let is_time = before.looks_at.is_some_and(|at| at <= now);
        if is_time {
            self.resting().of(worker).looks_at = None;
        }
        if is_wanted || (is_time && before.rests && !has_looked) {
            return comes(&mut self.resting());
        }
        // Also one that was called for mail which another has taken in meanwhile.
        if !before.rests {
            self.lies_down(worker, now);
        }
        // A user's queue is as it was when the others looked, if nothing was exchanged.
        if has_looked && (before.has_exchanged || !self.is_custom()) {
            let mut others = |woken| {
                if woken != worker {
                    wake(woken)
                }
            };
            self.call(now, &mut others);
            if self.has_in_hand(worker) {
                return comes(&mut self.resting());
            }
        }
        if looked_in_vain(&self.resting, &self.queues).is_some() {
            return comes(&mut self.resting());
        }
        let looks_at = self.resting().of(worker).looks_at;
        Rest::Sleeps(looks_at.map(|at| at.saturating_sub(now)))
    }

    /// Who is to be woken because something has come by mail: the worker that rests shortest, unless
    /// another is under way.
    pub fn call_for_mail(&self) -> Option<usize> {
        self.resting().one_for_mail(&self.plan.crew)
    }

    /// The run is over: says who is to be woken to leave it.
    pub fn call_all(&self, wake: &mut dyn FnMut(usize)) {
        let all = self.resting().all_up();
        all.into_iter().for_each(wake);
    }

    fn resting(&self) -> MutexGuard<'_, Resting> {
        held(&self.resting)
    }

    fn has_in_hand(&self, worker: usize) -> bool {
        held(&self.workers[worker].left).hand.is_some()
    }

    /// It has looked and found nothing. If it would have found something but for its patience, it looks
    /// again after a round.
    fn lies_down(&self, worker: usize, now: Duration) {
        let waits = self.queues.has_words_for(worker, &self.plan.crew);
        let mut resting = self.resting();
        resting.lies_down(worker, self.plan.crew.numa_node(worker));
        let sleeper = resting.of(worker);
        let looks_at = &mut sleeper.looks_at;
        if looks_at.is_none() && waits {
            *looks_at = Some(now.saturating_add(self.pause(sleeper.looks)));
            sleeper.looks += 1;
        }
    }

    /// How long a worker waits that has resolved to look again so often since it had a task.
    fn pause(&self, looks: u32) -> Duration {
        let doubled = match self.is_custom() {
            true => looks.saturating_sub(OFTEN).min(DOUBLED),
            false => 0,
        };
        self.plan.round.saturating_mul(1 << doubled)
    }

    fn is_custom(&self) -> bool {
        self.plan.policy.is_custom()
    }

    /// Lets idle workers try for what is queued where they may take it.
    fn call(&self, now: Duration, wake: &mut dyn FnMut(usize)) {
        if self.resting().has_none() {
            return;
        }
        let has_words = |node| self.queues.has_words_on(node, &self.plan.crew);
        let takers = self.plan.takers.iter().enumerate();
        for (node, takers) in takers.filter(|(node, _)| has_words(*node)) {
            for &home in takers {
                while self.resting().has_one_on(home) && has_words(node) {
                    let Some(worker) = self.resting().last_on(home) else {
                        break;
                    };
                    if self.look(worker) {
                        wake(worker);
                        continue;
                    }
                    let looks_at = || self.resting().of(worker).looks_at;
                    let before = looks_at();
                    self.lies_down(worker, now);
                    let after = looks_at();
                    if after.is_some() && after != before {
                        wake(worker);
                    }
                    break;
                }
            }
        }
        if self.is_custom() && has_words(0) {
            let round = self.plan.round;
            let told = self.resting().look_at_next_round(now, round);
            told.into_iter().for_each(wake);
        }
    }

    /// Looks for a task in place of a worker; whether it has one in hand now.
    fn look(&self, worker: usize) -> bool {
        let berth = &self.workers[worker];
        let mut left = std::mem::take(&mut *held(&berth.left));
        let before = berth.counters.all_steals();
        let mut found = None;
        let mut look = |lane: &mut dyn Lane| found = lane.pop().or_else(|| lane.steal());
        // A fault will turn out again when it comes in.
        let _ = self.open(worker, &mut left, false, &mut look);
        let stole = berth.counters.all_steals() > before;
        left.hand = found.map(|word| (word, stole));
        self.resting().is_busy(worker, found.is_some());
        *held(&berth.left) = left;
        found.is_some()
    }

    fn open(
        &self,
        worker: usize,
        left: &mut Left,
        for_roots: bool,
        visit: &mut dyn FnMut(&mut dyn Lane),
    ) -> Option<String> {
        let (crew, counters) = (&self.plan.crew, &self.workers[worker].counters);
        let kit = Kit::new(
            worker,
            crew,
            &self.plan.policy,
            &self.wards,
            counters,
            &NoBacklog,
        );
        let kit = kit.simulated(left.habits);
        let mut open = self.queues.open(&kit, Risen::Free);
        let keeping = KeepingLane::new(open.as_lane(), self.plan.policy.keep);
        let mut lane = LentLane {
            lane: keeping.with_kept(std::mem::take(&mut left.kept)),
            hand: left.hand.take(),
            has_helped: false,
            for_roots,
            is_custom: self.is_custom(),
            queues: &self.queues,
            resting: &self.resting,
        };
        visit(&mut lane);
        let LentLane { lane, hand, .. } = lane;
        (left.kept, left.hand) = (lane.into_kept(), hand);
        let fault = open.close().fault;
        left.habits = kit.habits();
        fault
    }
}

/// Seconds in whole nanoseconds; none if they are fewer than 0, the longest time there is if they are more.
pub(super) fn nanoseconds(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9).round() as u64)
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes")
            .field("policy", &self.plan.policy)
            .field("n_workers", &self.workers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Bind;
    use crate::policy::{ReadyQueue, Scheduler};

    const ROUND: Duration = Duration::from_micros(1);

    /// Notes what it is told of bodies, and has no tasks.
    #[derive(Clone, Debug, Default)]
    struct Told(Arc<Mutex<Vec<f64>>>);

    impl Scheduler for Told {
        fn name(&self) -> &str {
            "told"
        }

        fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
            Box::new(self.clone())
        }
    }

    impl ReadyQueue for Told {
        fn push(&self, _: usize, _: Ready) {}

        fn take(&self, _: usize) -> Option<Ready> {
            None
        }

        fn is_empty(&self) -> bool {
            true
        }

        fn measured(&self, _: usize, _: usize, seconds: f64) {
            held(&self.0).push(seconds);
        }
    }

    /// Plays with one seed differed as the machine was busy.
    #[test]
    fn a_scheduler_is_not_told_in_virtual_time_what_bodies_really_took() {
        let (machine, told) = (Topology::made_of(&[1], |_, _| 10), Told::default());
        let places = Bind::Cores.places(&machine, 1);
        let policy = Policy::custom(Arc::new(told.clone()));
        let lanes = Lanes::new(&machine, &places, &policy, ROUND, 0.0);
        lanes.lend(0, &mut |lane| lane.measured(0, 1.0));
        assert!(held(&told.0).is_empty());
    }

    /// Two NUMA nodes with a worker each. The first has two tasks, runs one, and time passes for it: who is
    /// woken.
    fn begun(policy: &str) -> (Lanes, Vec<usize>) {
        let machine = Topology::made_of(&[1, 1], |from, to| 10 + 10 * from.abs_diff(to) as u32);
        let places = Bind::Cores.places(&machine, 2);
        let lanes = Lanes::new(&machine, &places, &policy.parse().unwrap(), ROUND, 0.0);
        lanes.lend(0, &mut |lane| {
            (7..9).for_each(|word| lane.push(word, 0));
            assert!(lane.pop().is_some());
        });
        let mut woken = Vec::new();
        lanes.pass(0, Duration::ZERO, &mut |worker| woken.push(worker));
        (lanes, woken)
    }

    /// What worker 1 finds when it looks.
    fn found(lanes: &Lanes) -> Option<Word> {
        let mut found = None;
        lanes.lend(1, &mut |lane| found = lane.pop().or_else(|| lane.steal()));
        found
    }

    fn rests(lanes: &Lanes, now: Duration) -> Rest {
        lanes.rest(1, now, false, &mut |_| ())
    }

    #[test]
    fn whoever_is_woken_has_its_task_in_hand() {
        let (lanes, woken) = begun("distance");
        assert_eq!(woken, [1]);
        assert_eq!(rests(&lanes, ROUND), Rest::ComesIn);
        assert_eq!(found(&lanes), Some(7));
        lanes.pass(1, ROUND, &mut |_| unreachable!("nothing is queued"));
        assert_eq!(lanes.statistics()[1].total().steals, 1);
    }

    #[test]
    fn a_worker_with_patience_looks_again_after_each_round_until_it_has_none() {
        let (lanes, woken) = begun("distance,patience=3");
        assert_eq!(woken, [1], "to be told when to look again");
        assert_eq!(rests(&lanes, Duration::ZERO), Rest::Sleeps(Some(ROUND)));
        assert_eq!(rests(&lanes, ROUND / 2), Rest::Sleeps(Some(ROUND / 2)));
        assert_eq!(rests(&lanes, ROUND), Rest::ComesIn);
        assert_eq!(found(&lanes), None);
        assert_eq!(rests(&lanes, ROUND), Rest::Sleeps(Some(ROUND)));
        assert_eq!(rests(&lanes, 2 * ROUND), Rest::ComesIn);
        assert_eq!(found(&lanes), Some(7), "after three looks in vain");
    }

    /// The time of the next look ran over.
    #[test]
    fn a_round_may_be_so_long_that_nobody_looks_again() {
        let machine = Topology::made_of(&[1, 1], |_, _| 10);
        let places = Bind::Cores.places(&machine, 2);
        let policy = "distance,patience=3".parse().unwrap();
        let lanes = Lanes::new(&machine, &places, &policy, Duration::MAX, 0.0);
        lanes.lend(0, &mut |lane| {
            (7..9).for_each(|word| lane.push(word, 0));
            assert!(lane.pop().is_some());
        });
        lanes.pass(0, ROUND, &mut |_| ());
        let rest = Rest::Sleeps(Some(Duration::MAX - ROUND));
        assert_eq!(rests(&lanes, ROUND), rest);
    }

    /// Has tasks for worker 0 alone.
    #[derive(Clone, Debug, Default)]
    struct Partial(Arc<Mutex<Vec<Ready>>>);

    impl Scheduler for Partial {
        fn name(&self) -> &str {
            "partial"
        }

        fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
            Box::new(self.clone())
        }
    }

    impl ReadyQueue for Partial {
        fn push(&self, _: usize, task: Ready) {
            held(&self.0).push(task);
        }

        fn take(&self, worker: usize) -> Option<Ready> {
            match worker {
                0 => held(&self.0).pop(),
                _ => None,
            }
        }

        fn is_empty(&self) -> bool {
            held(&self.0).is_empty()
        }
    }

    #[test]
    fn whoever_is_told_to_look_at_once_looks_after_all_that_happens_now() {
        let machine = Topology::made_of(&[1, 1], |_, _| 10);
        let places = Bind::Cores.places(&machine, 2);
        let policy = Policy::custom(Arc::new(Partial::default()));
        let lanes = Lanes::new(&machine, &places, &policy, ROUND, 0.0);
        lanes.lend(0, &mut |lane| (7..10).for_each(|word| lane.push(word, 0)));
        let begin = |now| {
            lanes.lend(0, &mut |lane| assert!(lane.pop().is_some()));
            let mut woken = Vec::new();
            lanes.pass(0, now, &mut |worker| woken.push(worker));
            woken
        };
        let mut now = Duration::ZERO;
        begin(now);
        // It looks in vain until it does so only after two rounds.
        while rests(&lanes, now) == Rest::Sleeps(Some(ROUND)) {
            now += ROUND;
            assert_eq!(rests(&lanes, now), Rest::ComesIn);
            assert_eq!(found(&lanes), None);
        }
        assert_eq!(rests(&lanes, now), Rest::Sleeps(Some(2 * ROUND)));
        assert_eq!(begin(now), [1], "what is queued has changed");
        assert_eq!(rests(&lanes, now), Rest::Sleeps(Some(Duration::ZERO)));
        assert_eq!(rests(&lanes, now), Rest::ComesIn);
    }

    /// Each of ten thousand ranks had tables of its own.
    #[test]
    fn lanes_of_another_run_share_what_is_known_of_the_machine_and_no_task() {
        let (lanes, _) = begun("distance");
        let anew = lanes.anew();
        assert!(Arc::ptr_eq(&lanes.plan, &anew.plan));
        assert_eq!(found(&anew), None);
        assert_eq!(found(&lanes), Some(7));
    }

    #[test]
    fn whoever_may_not_take_a_task_is_not_woken_for_it() {
        let (lanes, woken) = begun("distance-no-steal");
        assert_eq!(woken, []);
        assert_eq!(rests(&lanes, ROUND), Rest::Sleeps(None));
        assert_eq!(lanes.call_for_mail(), Some(1));
        assert_eq!(lanes.call_for_mail(), None, "one is under way");
        assert_eq!(found(&lanes), None);
        assert_eq!(rests(&lanes, ROUND), Rest::Sleeps(None));
        assert_eq!(lanes.call_for_mail(), Some(1));
        assert_eq!(
            rests(&lanes, ROUND),
            Rest::Sleeps(None),
            "another was quicker"
        );
        assert_eq!(lanes.call_for_mail(), Some(1));
    }
}
