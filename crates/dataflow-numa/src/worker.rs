//! Worker: what a thread of the pool does all its life.
//!
//! It searches for a job that wants it, visits the job until there is nothing left to do, and
//! falls asleep when it has searched in vain for some microseconds.
//!
//! A job wants a worker that has not visited it yet (it may have roots), or while words lie in
//! its queues. A job that sends a worker away before its queues are empty is stopping: that
//! worker does not come back.
//!
//! # Law
//! A worker is inside one job at a time and stays while there is something to do: a job that
//! came later waits until a worker finds nothing in those before it. A body may begin a job inside
//! of its own: then its worker goes into that one only, until it is over. Once it has found nothing
//! there for a while it takes from beyond its reach, too: so such a job never waits for another's worker
//! that waits for this one.

use crate::pool::{OfferedJob, Pool, Visited};
use crate::queue::{KeepingLane, Kit, Parting};
use crate::sleep::Risen;
use std::cell::Cell;
use std::hint::spin_loop;
use std::ptr;
use std::sync::Arc;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

/// How long a worker searches in vain before it falls asleep. Waking it costs the waker some
/// 5 µs; so even where every wake-up is in vain, waking takes a tenth of the waker's time at most.
const SEARCH: Duration = Duration::from_micros(50);
/// After so long it lets others have the core between two looks: the caller of a run, whose core is a
/// worker's too, would wait for the end of the search.
const ALONE: Duration = Duration::from_micros(3);
/// A caller gives the core back before long. Who keeps it for longer is another program, which would have
/// it for a time slice in each search, and gets it no more for [a while](GRUDGE).
const ROBBED: Duration = Duration::from_millis(2);
const GRUDGE: Duration = Duration::from_millis(100);
/// Longest pause between two looks, in turns of a spin loop: each look takes cache lines away
/// from those who work.
const LONGEST_PAUSE: u32 = 32;
/// Longest nap of a worker that waits for what others do in a job inside of its own.
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// No edition has this number: the offers are to be read.
const UNREAD: u64 = u64::MAX;

thread_local! {
    /// Which pool this thread belongs to, by its address, and as which worker.
    static MYSELF: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Which worker of a pool the calling thread is.
pub(crate) fn of(pool: &Pool) -> Option<usize> {
    let (address, worker) = MYSELF.get();
    (address == ptr::from_ref(pool).addr()).then_some(worker)
}

/// One thread of a pool.
pub(crate) struct Worker<'p> {
    pool: &'p Pool,
    kit: Kit<'p>,
    /// The offers of the edition read last.
    offers: Vec<Arc<OfferedJob>>,
    edition: u64,
    /// When it gave its core away and was not given it back for long.
    robbed: Option<Instant>,
}

/// What a search ended with.
enum SearchEnd {
    Wanted(Arc<OfferedJob>),
    Nothing,
    TheEnd,
}

impl<'p> Worker<'p> {
    pub fn new(pool: &'p Pool, worker: usize) -> Self {
        Worker {
            pool,
            kit: pool.kit(worker),
            offers: Vec::new(),
            edition: UNREAD,
            robbed: None,
        }
    }

    /// Works until the pool ends.
    pub fn live(mut self) {
        MYSELF.set((ptr::from_ref(self.pool).addr(), self.kit.worker));
        let mut risen = Risen::Free;
        loop {
            self.kit.counters.set_searching(true);
            let found = self.search();
            self.kit.counters.set_searching(false);
            risen = match found {
                SearchEnd::Wanted(offer) => self.visit(&offer, risen),
                SearchEnd::Nothing => self.sleep(risen),
                SearchEnd::TheEnd => return,
            }
        }
    }

    /// Works in one job and in no other until it is over, from inside a body.
    pub fn help(mut self, offer: &OfferedJob) {
        let mut since = None;
        while !offer.job.is_over() {
            if self.pool.wants(offer, &self.kit) {
                // A worker that comes in free leaves free.
                let _free = self.visit(offer, Risen::Free);
                since = None;
                continue;
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited > SEARCH {
                self.kit.takes_all = true;
                // It wakes late by an eighth of what it has waited, at most.
                sleep((waited / 8).min(LONGEST_NAP));
            } else if self.pool.crowded {
                yield_now();
            } else {
                spin_loop();
            }
        }
    }

    fn search(&mut self) -> SearchEnd {
        let mut start = None;
        let mut pause = 1;
        loop {
            if self.pool.is_ending() {
                return SearchEnd::TheEnd;
            }
            self.refresh();
            if let Some(offer) = self
                .offers
                .iter()
                .find(|offer| self.pool.wants(offer, &self.kit))
            {
                return SearchEnd::Wanted(Arc::clone(offer));
            }
            let searched = start.get_or_insert_with(Instant::now).elapsed();
            if searched > SEARCH {
                return SearchEnd::Nothing;
            }
            if self.pool.crowded {
                yield_now();
            } else if searched > ALONE {
                self.stand_back();
            }
            (0..pause).for_each(|_| spin_loop());
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Lets others have the core, unless they have kept it of late.
    fn stand_back(&mut self) {
        let start = Instant::now();
        if self.robbed.is_none_or(|at| start - at > GRUDGE) {
            yield_now();
            self.robbed = (start.elapsed() > ROBBED).then_some(start);
        }
    }

    /// Reads the offers if they have changed.
    fn refresh(&mut self) {
        let edition = self.pool.edition();
        if edition != self.edition {
            // The last of a job's queues may go here, a user's with them: not under the lock.
            self.offers.clear();
            self.offers.extend_from_slice(&self.pool.offers());
            self.edition = edition;
        }
    }

    /// Goes into a job and works until there is nothing more.
    fn visit(&self, offer: &OfferedJob, risen: Risen) -> Risen {
        let worker = self.kit.worker;
        let mut risen = risen;
        if offer.visited(worker) == Visited::NotYet {
            offer.set_visited(worker, Visited::Before);
            // Its roots may keep us, and the lane would not notice.
            risen = self.kit.gets_busy(risen);
        }
        let Some(entered) = offer.job.enter() else {
            return risen;
        };
        let mut lane = offer.queues.open(&self.kit, risen);
        let tasks = match self.kit.policy.keep {
            1 => entered.work(lane.as_lane()),
            tasks => entered.work(&mut KeepingLane::new(lane.as_lane(), tasks)),
        };
        self.kit.counters.count_tasks(tasks);
        let Parting { risen, dry, fault } = lane.close();
        if !dry || fault.is_some() {
            offer.set_visited(worker, Visited::SentAway);
        }
        if let Some(fault) = fault {
            entered.refuse(fault);
        }
        risen
    }

    fn sleep(&mut self, risen: Risen) -> Risen {
        let Worker { pool, kit, .. } = self;
        let ward = kit.ward();
        let listed = ward.list(kit.worker, kit.numa_node, risen);
        let changed = pool.is_ending() || pool.edition() != self.edition;
        let wants = |offer: &Arc<OfferedJob>| pool.wants(offer, kit);
        if changed || self.offers.iter().any(wants) {
            return ward.leave(listed);
        }
        // A sleeper holds no job alive.
        self.offers.clear();
        self.edition = UNREAD;
        kit.counters.count_sleep();
        ward.park(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::{nothing, tasks};
    use crate::place::Bind;
    use crate::policy::{Crew, Policy, Ready, ReadyQueue, Scheduler};
    use crate::queue::Backlog;
    use crate::sync::held;
    use crate::topology::Topology;
    use dataflow_core::port::{Executor, Inline, Job};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, OnceLock, Weak};
    use std::thread;

    /// Its roots may keep a worker for long: it must not be the wake-up that is under way meanwhile.
    #[test]
    fn a_worker_on_duty_that_comes_into_a_job_for_the_first_time_ends_its_duty() {
        struct Probe(Pool);
        impl Executor for Probe {
            fn n_workers(&self) -> usize {
                2
            }
            fn execute(&self, job: &Arc<Job>) {
                let ward = self.0.wards.of(0);
                let [first, second] = [0, 1].map(|worker| ward.list(worker, 0, Risen::Free));
                self.0.wards.queued(0);
                let risen = ward.leave(second);
                assert_eq!(risen, Risen::OnDuty);
                let offer = OfferedJob::new(job, self.0.policy(), self.0.crew());
                let risen = Worker::new(&self.0, 1).visit(&offer, risen);
                assert_eq!(risen, Risen::Free);
                self.0.wards.queued(0);
                assert_eq!(ward.leave(first), Risen::OnDuty, "nobody was on duty");
            }
        }
        let topology = Topology::flat(&[0, 1]);
        let places = Bind::None.places(&topology, 2);
        let probe = Probe(Pool::new(&topology, places, Policy::default(), false));
        let job = tasks(10, &nothing);
        assert_eq!(dataflow_core::run(&job, &probe).unwrap().tasks, 10);
    }

    /// The system's scheduler would give another program a time slice for it, in every search.
    #[test]
    fn a_worker_whose_core_was_kept_of_late_does_not_give_it_away() {
        let topology = Topology::flat(&[0]);
        let places = Bind::None.places(&topology, 1);
        let pool = Pool::new(&topology, places, Policy::default(), false);
        let mut worker = Worker::new(&pool, 0);
        worker.robbed = Some(Instant::now());
        let before = worker.robbed;
        worker.stand_back();
        assert_eq!(worker.robbed, before, "it has yielded");
        worker.robbed = Instant::now().checked_sub(2 * GRUDGE);
        let before = worker.robbed;
        worker.stand_back();
        assert_ne!(worker.robbed, before, "it has not");
    }

    /// What worker 1 of two does with an offer when it is about to fall asleep.
    struct Bedtime {
        pool: Pool,
        look: fn(&Pool, &Arc<OfferedJob>),
    }

    impl Bedtime {
        fn new(look: fn(&Pool, &Arc<OfferedJob>)) -> Self {
            let topology = Topology::flat(&[0, 1]);
            let places = Bind::None.places(&topology, 2);
            let pool = Pool::new(&topology, places, Policy::default(), false);
            Bedtime { pool, look }
        }

        fn run(&self) {
            let job = tasks(10, &nothing);
            assert_eq!(dataflow_core::run(&job, self).unwrap().tasks, 10);
        }
    }

    impl Executor for Bedtime {
        fn n_workers(&self) -> usize {
            2
        }
        fn execute(&self, job: &Arc<Job>) {
            let offer = Arc::new(OfferedJob::new(job, self.pool.policy(), self.pool.crew()));
            offer.set_visited(1, Visited::Before);
            self.pool.offers().push(Arc::clone(&offer));
            (self.look)(&self.pool, &offer);
            self.pool.offers().clear();
            Inline.execute(job);
        }
    }

    /// Has the worker sleep until `meanwhile` was called, or not at all. Says whether it did.
    fn sleeps<T>(pool: &Pool, meanwhile: impl Fn() -> T) -> (bool, T) {
        let has_slept = || pool.statistics().any(|worker| worker.total().sleeps > 0);
        thread::scope(|threads| {
            let falls_asleep = threads.spawn(|| {
                let mut worker = Worker::new(pool, 1);
                worker.refresh();
                let _free = worker.sleep(Risen::Free);
            });
            while !falls_asleep.is_finished() && !has_slept() {
                yield_now();
            }
            let seen = meanwhile();
            pool.wake_for_mail();
            (has_slept(), seen)
        })
    }

    /// Its queues, and what they hold, would stay for as long as the worker sleeps.
    #[test]
    fn a_sleeper_holds_no_job_alive() {
        let look = |pool: &Pool, offer: &Arc<OfferedJob>| {
            let (slept, n_holders) = sleeps(pool, || Arc::strong_count(offer));
            assert!(slept);
            assert_eq!(n_holders, 2, "the pool and this test");
        };
        Bedtime::new(look).run();
    }

    /// The worker that queued it saw nobody asleep.
    #[test]
    fn whoever_falls_asleep_looks_for_what_was_queued_meanwhile() {
        let look = |pool: &Pool, offer: &Arc<OfferedJob>| {
            let kit = pool.kit(0);
            let mut lane = offer.queues.open(&kit, Risen::Free);
            lane.as_lane().push(7, 0);
            let (slept, ()) = sleeps(pool, || {});
            assert!(!slept);
        };
        Bedtime::new(look).run();
    }

    /// The thread that brought it saw nobody asleep.
    #[test]
    fn whoever_falls_asleep_looks_for_a_job_that_came_meanwhile() {
        let look = |pool: &Pool, offer: &Arc<OfferedJob>| {
            let (has_read, edition) = (AtomicBool::new(false), pool.edition());
            let has_slept = || pool.statistics().any(|worker| worker.total().sleeps > 0);
            thread::scope(|threads| {
                let falls_asleep = threads.spawn(|| {
                    let mut worker = Worker::new(pool, 1);
                    worker.refresh();
                    has_read.store(true, Ordering::SeqCst);
                    while pool.edition() == edition {
                        yield_now();
                    }
                    let _free = worker.sleep(Risen::Free);
                });
                while !has_read.load(Ordering::SeqCst) {
                    yield_now();
                }
                threads.spawn(|| pool.execute(&offer.job));
                while !falls_asleep.is_finished() && !has_slept() {
                    yield_now();
                }
                pool.wake_for_mail();
                Inline.execute(&offer.job);
            });
            assert!(!has_slept());
        };
        Bedtime::new(look).run();
    }

    /// The end had called all that slept already.
    #[test]
    fn whoever_falls_asleep_looks_for_the_end_of_the_pool() {
        let look = |pool: &Pool, _: &Arc<OfferedJob>| {
            pool.end();
            let (slept, ()) = sleeps(pool, || {});
            assert!(!slept);
        };
        Bedtime::new(look).run();
    }

    /// Queues of a user's that note whether the pool is free when they are asked and dropped.
    #[derive(Clone, Debug, Default)]
    struct Onlooker {
        pool: Arc<OnceLock<Weak<Pool>>>,
        seen: Arc<Mutex<Vec<(&'static str, bool)>>>,
    }

    impl Onlooker {
        fn look(&self, when: &'static str) {
            let pool = self.pool.get().and_then(Weak::upgrade);
            let is_free = pool.is_some_and(|pool| pool.are_offers_free());
            held(&self.seen).push((when, is_free));
        }
    }

    struct Onlooking(Onlooker);

    impl Scheduler for Onlooker {
        fn name(&self) -> &str {
            "onlooker"
        }
        fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
            Box::new(Onlooking(self.clone()))
        }
    }

    impl ReadyQueue for Onlooking {
        fn push(&self, _: usize, _: Ready) {}
        fn take(&self, _: usize) -> Option<Ready> {
            None
        }
        fn is_empty(&self) -> bool {
            self.0.look("asked");
            true
        }
    }

    impl Drop for Onlooking {
        fn drop(&mut self) {
            self.0.look("dropped");
        }
    }

    /// What a user's code did there that needed the pool, as a run does, waited for itself.
    #[test]
    fn a_users_queues_are_asked_and_dropped_while_jobs_may_come_and_go() {
        struct Probe(Arc<Pool>);
        impl Executor for Probe {
            fn n_workers(&self) -> usize {
                1
            }
            fn execute(&self, job: &Arc<Job>) {
                let Probe(pool) = self;
                let mut worker = Worker::new(pool, 0);
                let offer = Arc::new(OfferedJob::new(job, pool.policy(), pool.crew()));
                pool.offers().push(offer);
                assert!(!pool.has_words_on(0));
                worker.refresh();
                pool.offers().clear();
                worker.edition = UNREAD;
                worker.refresh();
                Inline.execute(job);
            }
        }
        let topology = Topology::flat(&[0]);
        let places = Bind::None.places(&topology, 1);
        let onlooker = Onlooker::default();
        let policy = Policy::custom(Arc::new(onlooker.clone()));
        let probe = Probe(Arc::new(Pool::new(&topology, places, policy, false)));
        onlooker.pool.get_or_init(|| Arc::downgrade(&probe.0));
        let job = tasks(1, &nothing);
        dataflow_core::run(&job, &probe).unwrap();
        assert_eq!(*held(&onlooker.seen), [("asked", true), ("dropped", true)]);
    }

    /// It would be sent away again and again, until the last of the others has left.
    #[test]
    fn whoever_was_sent_away_is_not_wanted_whatever_is_queued() {
        let look = |pool: &Pool, offer: &Arc<OfferedJob>| {
            let [kit, sent] = [pool.kit(0), pool.kit(1)];
            let mut lane = offer.queues.open(&kit, Risen::Free);
            lane.as_lane().push(7, 0);
            assert!(pool.wants(offer, &sent));
            offer.set_visited(1, Visited::SentAway);
            assert!(!pool.wants(offer, &sent));
        };
        Bedtime::new(look).run();
    }

    #[test]
    fn whoever_leaves_a_job_that_is_stopping_was_sent_away() {
        struct Probe(Pool);
        impl Executor for Probe {
            fn n_workers(&self) -> usize {
                1
            }
            fn execute(&self, job: &Arc<Job>) {
                let Probe(pool) = self;
                let offer = OfferedJob::new(job, pool.policy(), pool.crew());
                let _free = Worker::new(pool, 0).visit(&offer, Risen::Free);
                assert_eq!(offer.visited(0), Visited::SentAway);
            }
        }
        let topology = Topology::flat(&[0]);
        let places = Bind::None.places(&topology, 1);
        let probe = Probe(Pool::new(&topology, places, Policy::default(), false));
        let job = tasks(10, &|_| panic!("as told"));
        dataflow_core::run(&job, &probe).unwrap_err();
    }
}
