//! Pool: what the threads of an executor share, and how a job comes to them.
//!
//! # Law
//! A job is on offer from the moment it arrives until it is over. Its queues are its own, so
//! several jobs may be on offer at once.

use crate::crew::Crew;
use crate::place::Place;
use crate::policy::Policy;
use crate::queue::{Backlog, Kit, Queues};
use crate::sleep::Wards;
use crate::statistics::{Counters, WorkerStatistics};
use crate::topology::Topology;
use crossbeam_utils::CachePadded;
use dataflow_core::port::Job;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long the caller of a job looks on before it wakes sleepers, if a worker is searching.
const GRACE: Duration = Duration::from_micros(3);

pub(crate) struct Pool {
    places: Vec<Place>,
    crew: Crew,
    policy: Policy,
    /// More workers than cores: one that spins may keep one that works from its core.
    pub crowded: bool,
    pub wards: Wards,
    offers: Mutex<Vec<Arc<OfferedJob>>>,
    /// Raised whenever `offers` changes.
    edition: CachePadded<AtomicU64>,
    ending: AtomicBool,
    counters: Box<[CachePadded<Counters>]>,
}

impl Pool {
    pub fn new(topology: &Topology, places: Vec<Place>, policy: Policy, crowded: bool) -> Pool {
        let numa_nodes: Vec<usize> = places.iter().map(|place| place.numa_node).collect();
        let crew = Crew::new(topology, &numa_nodes, policy.reach);
        let counters = |_| CachePadded::new(Counters::new(topology.n_numa_nodes()));
        Pool {
            wards: Wards::new(&crew, policy.reaches_all()),
            counters: numa_nodes.iter().map(counters).collect(),
            places,
            crew,
            policy,
            crowded,
            offers: Mutex::default(),
            edition: CachePadded::default(),
            ending: AtomicBool::new(false),
        }
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    pub fn n_workers(&self) -> usize {
        self.places.len()
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    #[cfg(test)]
    pub fn crew(&self) -> &Crew {
        &self.crew
    }

    pub fn statistics(&self) -> impl Iterator<Item = WorkerStatistics> + '_ {
        let read =
            |(worker, counters): (usize, &CachePadded<Counters>)| counters.read(worker, &self.crew);
        self.counters.iter().enumerate().map(read)
    }

    /// What a worker brings to every job.
    pub fn kit(&self, worker: usize) -> Kit<'_> {
        let Pool {
            crew,
            policy,
            wards,
            counters,
            ..
        } = self;
        let kit = Kit::new(worker, crew, policy, wards, &counters[worker], self);
        kit.lingering(!self.crowded)
    }

    /// Whether a job wants the worker with this kit.
    pub fn wants(&self, offer: &OfferedJob, kit: &Kit<'_>) -> bool {
        match offer.visited(kit.worker) {
            Visited::NotYet => !offer.job.is_over(),
            Visited::Before => {
                let has_words = || match kit.takes_all {
                    true => offer.queues.has_words(&self.crew),
                    false => offer.queues.has_words_for(kit.worker, &self.crew),
                };
                (offer.job.has_mail() || has_words()) && !offer.job.is_over()
            }
            Visited::SentAway => false,
        }
    }

    /// Tells every thread to end.
    pub fn end(&self) {
        // Relaxed: the mutex in `wake_all` orders it before those look who are listed later.
        self.ending.store(true, Ordering::Relaxed);
        self.wards.wake_all(|| false);
    }

    /// Mail came, which any one worker can take in. A worker that falls asleep later looks first.
    pub fn wake_for_mail(&self) {
        self.wards.wake_for_mail();
    }

    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Changes with the offers.
    pub fn edition(&self) -> u64 {
        // Acquire: pairs with the release of the thread that raised it; `offers` is at least as new.
        self.edition.load(Ordering::Acquire)
    }

    /// The jobs on offer, oldest first.
    pub fn offers(&self) -> MutexGuard<'_, Vec<Arc<OfferedJob>>> {
        self.offers
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether no thread looks at the offers, or changes them.
    #[cfg(test)]
    pub fn are_offers_free(&self) -> bool {
        self.offers.try_lock().is_ok()
    }

    /// All workers may enter the job until it is over.
    pub fn execute(&self, job: &Arc<Job>) {
        self.while_offered(job, |_| {
            // If somebody is awake, a short job is over before a sleeper would be up.
            if self.counters.iter().any(|counters| counters.is_searching()) {
                let start = Instant::now();
                while !job.is_over() && start.elapsed() < GRACE {
                    spin_loop();
                }
            }
            self.wards.wake_all(|| job.is_over());
            job.wait_over();
        });
    }

    /// The job is on offer while the caller does something. Sleepers are woken by what is queued, not by the
    /// job itself.
    pub fn while_offered(&self, job: &Arc<Job>, act: impl FnOnce(&OfferedJob)) {
        let offer = Arc::new(OfferedJob::new(job, &self.policy, &self.crew));
        self.announce(&offer);
        act(&offer);
        self.withdraw(&offer);
    }

    fn announce(&self, offer: &Arc<OfferedJob>) {
        self.offers().push(Arc::clone(offer));
        self.edition.fetch_add(1, Ordering::Release);
    }

    fn withdraw(&self, offer: &Arc<OfferedJob>) {
        self.offers().retain(|other| !Arc::ptr_eq(other, offer));
        self.edition.fetch_add(1, Ordering::Release);
    }
}

impl Backlog for Pool {
    fn has_words_on(&self, numa_node: usize) -> bool {
        let has_words = |offer: &Arc<OfferedJob>| {
            !offer.job.is_over() && offer.queues.has_words_on(numa_node, &self.crew)
        };
        // A user's scheduler is asked, and jobs may end meanwhile: not under the lock.
        let offers = self.offers().clone();
        offers.iter().any(has_words)
    }

    fn has_mail(&self) -> bool {
        let has_mail = |offer: &Arc<OfferedJob>| offer.job.has_mail() && !offer.job.is_over();
        self.offers().iter().any(has_mail)
    }
}

/// A job on offer, and its queues.
pub(crate) struct OfferedJob {
    pub job: Arc<Job>,
    pub queues: Queues,
    visits: Box<[CachePadded<AtomicU8>]>,
}

/// What a worker knows of a job. Written by that worker only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Visited {
    /// It was never inside: there may be roots.
    NotYet,
    /// It left because nothing was left to do.
    Before,
    /// It was sent away: the job is stopping.
    SentAway,
}

impl OfferedJob {
    pub fn new(job: &Arc<Job>, policy: &Policy, crew: &Crew) -> OfferedJob {
        let not_yet = |_| CachePadded::new(AtomicU8::new(Visited::NotYet as u8));
        OfferedJob {
            job: Arc::clone(job),
            queues: Queues::new(policy, crew),
            visits: (0..crew.n_workers()).map(not_yet).collect(),
        }
    }

    pub fn visited(&self, worker: usize) -> Visited {
        match self.visits[worker].load(Ordering::Relaxed) {
            visited if visited == Visited::NotYet as u8 => Visited::NotYet,
            visited if visited == Visited::Before as u8 => Visited::Before,
            _ => Visited::SentAway,
        }
    }

    pub fn set_visited(&self, worker: usize, visited: Visited) {
        self.visits[worker].store(visited as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::tests::{in_a_row, nothing, tasks};
    use crate::place::Bind;
    use crate::policy::Reach;
    use crate::sleep::Risen;
    use dataflow_core::error::Error;
    use dataflow_core::port::{Arrival, Context, Courier, Executor, Inbox, Inline, Line, Parcel};
    use dataflow_core::rank::Rank;
    use dataflow_core::wire::{Failure, Terms, WireName};

    /// Mail woke nobody if the sleepers were on another NUMA node than the first: the ward of the
    /// first, where nobody slept, counted as woken, and the run hung.
    #[test]
    fn what_any_one_worker_can_take_in_wakes_one_of_whichever_numa_node_has_a_sleeper() {
        let topology = in_a_row(&[1, 1, 1]);
        for (reach, asleep) in [
            (Reach::Own, &[1, 2][..]),
            (Reach::Own, &[2]),
            (Reach::Adjacent, &[0, 2]),
            (Reach::All, &[1, 2]),
        ] {
            let places = Bind::None.places(&topology, 3);
            let pool = Pool::new(&topology, places, Policy::distance().reach(reach), false);
            let list = |&worker: &usize| pool.wards.of(worker).list(worker, worker, Risen::Free);
            let listed: Vec<_> = asleep.iter().map(list).collect();
            pool.wake_for_mail();
            // A worker that still sleeps would be called to duty by a word on its node.
            asleep.iter().for_each(|&node| pool.wards.queued(node));
            let risen = asleep.iter().zip(listed);
            let risen = risen.map(|(&node, listed)| pool.wards.of(node).leave(listed));
            let woken = risen.filter(|risen| *risen == Risen::ForMail).count();
            assert_eq!(woken, 1, "{reach}, asleep on {asleep:?}");
        }
    }

    /// Another rank that only sends: one parcel, of no task that there is.
    #[derive(Default)]
    struct Sends(Mutex<Option<Arc<dyn Inbox>>>);

    impl Sends {
        fn send(&self) {
            let arrival = Arrival {
                task: WireName::new(),
                poisoned: false,
                flows: Default::default(),
            };
            let inbox = self.0.lock().unwrap();
            inbox.as_ref().unwrap().deliver(Rank(1), arrival);
        }
    }

    impl Courier for Sends {
        fn rank(&self) -> Rank {
            Rank(0)
        }
        fn n_ranks(&self) -> usize {
            2
        }
        fn open(&self, _: &Terms, inbox: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error> {
            *self.0.lock().unwrap() = Some(inbox);
            Ok(Box::new(Silent))
        }
    }

    struct Silent;

    impl Line for Silent {
        fn post(&self, _: Parcel) {}
        fn poll(&self) {}
        fn abort(&self, _: &Failure) {}
        fn close(&self, _: Option<Failure>) -> Result<Option<Failure>, Error> {
            Ok(None)
        }
    }

    /// The worker that was called for it may have gone into an older job: nobody was called any more.
    #[test]
    fn mail_of_a_job_on_offer_is_a_sign_of_work_until_somebody_takes_it_in() {
        struct Looks<'c>(Pool, &'c Sends);
        impl Executor for Looks<'_> {
            fn n_workers(&self) -> usize {
                1
            }
            fn execute(&self, job: &Arc<Job>) {
                let Looks(pool, other) = self;
                pool.announce(&Arc::new(OfferedJob::new(job, &pool.policy, &pool.crew)));
                assert!(!pool.has_mail());
                other.send();
                assert!(pool.has_mail() && !pool.has_words_on(0));
                Inline.execute(job);
                assert!(!pool.has_mail());
            }
        }
        let topology = in_a_row(&[1]);
        let places = Bind::None.places(&topology, 1);
        let other = Sends::default();
        let looks = Looks(
            Pool::new(&topology, places, Policy::default(), false),
            &other,
        );
        let job = tasks(1, &nothing);
        let run = dataflow_core::run_across(&job, &Context::new(&looks).across(&other));
        run.expect_err("the parcel is of no task");
    }

    /// Without that a pool would keep every job that it ever had, and its workers would look at all.
    #[test]
    fn a_job_that_is_over_is_no_longer_on_offer() {
        struct Offers(Pool);
        impl Executor for Offers {
            fn n_workers(&self) -> usize {
                1
            }
            fn execute(&self, job: &Arc<Job>) {
                let Offers(pool) = self;
                pool.while_offered(job, |_| {
                    assert_eq!(pool.offers().len(), 1);
                    Inline.execute(job);
                });
                assert!(pool.offers().is_empty());
                pool.execute(job);
                assert!(pool.offers().is_empty());
            }
        }
        let topology = in_a_row(&[1]);
        let places = Bind::None.places(&topology, 1);
        let offers = Offers(Pool::new(&topology, places, Policy::default(), false));
        let job = tasks(1, &nothing);
        dataflow_core::run(&job, &offers).unwrap();
    }
}
