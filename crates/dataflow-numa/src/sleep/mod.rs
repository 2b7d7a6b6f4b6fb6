#![doc = include_str!("README.md")]

mod wards;

pub(crate) use wards::Wards;

use crate::barrier::Barrier;
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;

/// Where the workers of a pool sleep.
pub(crate) struct Sleep {
    /// Somebody is listed and nobody is on duty. Read by every push, written rarely.
    wanted: CachePadded<AtomicBool>,
    barrier: Barrier,
    dormitory: Mutex<Dormitory>,
    /// One per worker, rung when it is called.
    bells: Box<[Condvar]>,
}

struct Dormitory {
    /// The sleepers, the latest last: its caches are the warmest.
    sleepers: Vec<Sleeper>,
    /// Whether a wake-up for a queued task is under way.
    on_duty: bool,
    /// Per worker: called, and not up yet.
    calls: Box<[Option<Risen>]>,
}

#[derive(Clone, Copy)]
struct Sleeper {
    worker: usize,
    numa_node: usize,
}

/// How a worker came to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Risen {
    /// It saw a sign of work by itself, or was called for a job or for the end.
    Free,
    /// It was called for mail, and owes another the call if it takes a task while there is mail (D4).
    ForMail,
    /// It is the wake-up that is under way, and owes [`Sleep::end_duty`] or [`Sleep::list`].
    OnDuty,
}

/// Evidence that a worker stands on the list, or has been called since.
#[must_use]
pub(crate) struct Listed {
    worker: usize,
}

impl Sleep {
    pub fn new(n_workers: usize) -> Self {
        let dormitory = Dormitory {
            sleepers: Vec::with_capacity(n_workers),
            on_duty: false,
            calls: vec![None; n_workers].into(),
        };
        Sleep {
            wanted: CachePadded::new(AtomicBool::new(false)),
            barrier: Barrier::new(),
            dormitory: Mutex::new(dormitory),
            bells: (0..n_workers).map(|_| Condvar::new()).collect(),
        }
    }

    /// A word was queued, near the given NUMA node: wakes a sleeper if one is wanted (P2 to P4).
    /// Whether it did.
    #[inline]
    pub fn queued(&self, numa_node: usize) -> bool {
        // P2. Pairs with the heavy barrier in `list` (S3) and in `end_duty` (D2).
        self.barrier.light();
        // P3. Relaxed: ordered by the barriers.
        self.wanted.load(Ordering::Relaxed) && self.wake_for_duty(numa_node)
    }

    /// P4.
    #[cold]
    fn wake_for_duty(&self, numa_node: usize) -> bool {
        let mut dormitory = self.enter();
        if dormitory.on_duty {
            return false;
        }
        let sleepers = &mut dormitory.sleepers;
        let nearest = sleepers
            .iter()
            .rposition(|sleeper| sleeper.numa_node == numa_node);
        let Some(chosen) = nearest.or(sleepers.len().checked_sub(1)) else {
            return false;
        };
        let sleeper = sleepers.remove(chosen);
        dormitory.on_duty = true;
        self.call(dormitory, sleeper.worker, Risen::OnDuty);
        true
    }

    /// A sign of work appeared that is for everybody, a job or the end: wakes all sleepers, one
    /// after another, until it is `enough` (A1, A2).
    pub fn wake_all(&self, enough: impl Fn() -> bool) {
        // No fence: the mutex orders the sign before or the listing after (A2).
        while !enough() && self.wake_latest(Risen::Free) {}
    }

    /// The latest sleeper is called, without duty (A2). Whether there was one.
    pub fn wake_latest(&self, risen: Risen) -> bool {
        let mut dormitory = self.enter();
        let Some(sleeper) = dormitory.sleepers.pop() else {
            return false;
        };
        self.call(dormitory, sleeper.worker, risen);
        true
    }

    fn call(&self, mut dormitory: MutexGuard<'_, Dormitory>, worker: usize, risen: Risen) {
        self.sum_up(&dormitory);
        dormitory.calls[worker] = Some(risen);
        // Otherwise it would wake up only to wait for the mutex.
        drop(dormitory);
        self.bells[worker].notify_one();
    }

    /// Worker `worker`, the calling thread, enters the list (S2, S3). It must then look for signs
    /// of work once more (S4), and [`leave`](Self::leave) or [`park`](Self::park).
    pub fn list(&self, worker: usize, numa_node: usize, risen: Risen) -> Listed {
        // S2.
        let mut dormitory = self.enter();
        if risen == Risen::OnDuty {
            dormitory.on_duty = false;
        }
        dormitory.sleepers.push(Sleeper { worker, numa_node });
        self.sum_up(&dormitory);
        drop(dormitory);
        // S3. Pairs with the light barrier in `queued` (P2).
        self.barrier.heavy();
        Listed { worker }
    }

    /// There was a sign of work (S5).
    pub fn leave(&self, listed: Listed) -> Risen {
        let mut dormitory = self.enter();
        let place = dormitory
            .sleepers
            .iter()
            .position(|sleeper| sleeper.worker == listed.worker);
        if let Some(place) = place {
            dormitory.sleepers.remove(place);
            self.sum_up(&dormitory);
            return Risen::Free;
        }
        // The thread that took us off the list called us under the same lock.
        dormitory.calls[listed.worker].take().unwrap_or(Risen::Free)
    }

    /// There was none: blocks until called (S6).
    pub fn park(&self, listed: Listed) -> Risen {
        let mut dormitory = self.enter();
        // A wait may end for no reason.
        loop {
            match dormitory.calls[listed.worker].take() {
                Some(risen) => return risen,
                None => dormitory = self.wait(listed.worker, dormitory),
            }
        }
    }

    fn wait<'d>(
        &self,
        worker: usize,
        dormitory: MutexGuard<'d, Dormitory>,
    ) -> MutexGuard<'d, Dormitory> {
        self.bells[worker]
            .wait(dormitory)
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The worker on duty, on the given NUMA node, found a task (D1 to D3). `more` looks for
    /// further queued words.
    #[cold]
    pub fn end_duty(&self, numa_node: usize, more: impl Fn() -> bool) {
        // D1.
        let mut dormitory = self.enter();
        dormitory.on_duty = false;
        self.sum_up(&dormitory);
        drop(dormitory);
        // D2. Pairs with the light barrier in `queued` (P2).
        self.barrier.heavy();
        // D3.
        if more() {
            self.wake_for_duty(numa_node);
        }
    }

    #[cfg(test)]
    pub fn is_called(&self, worker: usize) -> bool {
        self.enter().calls[worker].is_some()
    }

    /// The flag follows what it sums up. Relaxed: ordered by the fences.
    fn sum_up(&self, dormitory: &Dormitory) {
        let wanted = !dormitory.sleepers.is_empty() && !dormitory.on_duty;
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    fn enter(&self) -> MutexGuard<'_, Dormitory> {
        self.dormitory
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Each of three sleepers is woken by the one before, as long as words are queued.
    #[test]
    fn a_worker_woken_on_duty_wakes_the_next_if_there_is_more_and_only_then() {
        let sleep = Sleep::new(3);
        let [a, b, c] = [0, 1, 2].map(|worker| sleep.list(worker, 0, Risen::Free));
        assert!(sleep.queued(0), "somebody is wanted");
        assert_eq!(sleep.leave(c), Risen::OnDuty, "the latest");
        assert!(!sleep.queued(0), "one is on duty");
        sleep.end_duty(0, || true);
        assert_eq!(sleep.leave(b), Risen::OnDuty, "there was more");
        sleep.end_duty(0, || false);
        assert_eq!(
            sleep.leave(a),
            Risen::Free,
            "there was no more: it left by itself"
        );
        assert!(!sleep.queued(0), "nobody sleeps");
    }

    /// It would rise at once from its next sleep, and stand on the list all the same.
    #[test]
    fn whoever_was_called_while_it_left_has_heard_the_call() {
        let sleep = Sleep::new(1);
        for on_duty in [true, false] {
            let listed = sleep.list(0, 0, Risen::Free);
            if on_duty {
                assert!(sleep.queued(0));
            } else {
                sleep.wake_all(|| false);
            }
            assert_eq!(sleep.leave(listed) == Risen::OnDuty, on_duty);
            assert_eq!(*sleep.enter().calls, [None]);
            sleep.end_duty(0, || false);
        }
    }

    #[test]
    fn a_word_wakes_the_latest_sleeper_beside_it_or_else_the_latest_of_all() {
        let sleep = Sleep::new(3);
        let sleepers = [(0, 0), (1, 0), (2, 1)];
        let [a, b, c] = sleepers.map(|(worker, node)| sleep.list(worker, node, Risen::Free));
        assert!(sleep.queued(0));
        assert_eq!(sleep.leave(b), Risen::OnDuty, "of NUMA node 0");
        sleep.end_duty(0, || false);
        assert!(sleep.queued(7));
        assert_eq!(
            sleep.leave(c),
            Risen::OnDuty,
            "there is nobody of NUMA node 7"
        );
        assert_eq!(sleep.leave(a), Risen::Free);
    }

    #[test]
    fn whoever_is_on_duty_and_falls_asleep_again_ends_it() {
        let sleep = Sleep::new(2);
        let a = sleep.list(0, 0, Risen::Free);
        assert!(sleep.queued(0));
        let risen = sleep.leave(a);
        let (a, b) = (sleep.list(0, 0, risen), sleep.list(1, 0, Risen::Free));
        assert!(sleep.queued(0), "nobody is on duty any more");
        assert_eq!(sleep.leave(b), Risen::OnDuty);
        assert_eq!(sleep.leave(a), Risen::Free);
    }

    /// Every push would take the mutex for nothing, or wake nobody.
    #[test]
    fn the_flag_is_up_while_somebody_sleeps_and_nobody_is_on_duty() {
        let sleep = Sleep::new(2);
        let is_up = || sleep.wanted.load(Ordering::Relaxed);
        assert!(!is_up(), "nobody sleeps");
        let [a, b] = [0, 1].map(|worker| sleep.list(worker, 0, Risen::Free));
        assert!(is_up(), "two sleep");
        assert!(sleep.queued(0));
        assert!(!is_up(), "one is on duty");
        assert_eq!(sleep.leave(b), Risen::OnDuty);
        sleep.end_duty(0, || false);
        assert!(is_up(), "its duty has ended");
        assert_eq!(sleep.leave(a), Risen::Free);
        assert!(!is_up(), "the last has left");
        let a = sleep.list(0, 0, Risen::Free);
        assert!(sleep.wake_latest(Risen::Free));
        assert!(!is_up(), "the last was called");
        assert_eq!(sleep.leave(a), Risen::Free);
    }

    /// It had seen the flag up just before another took it down.
    #[test]
    fn whoever_comes_late_with_a_word_wakes_nobody_beside_the_one_on_duty() {
        let sleep = Sleep::new(2);
        let [a, b] = [0, 1].map(|worker| sleep.list(worker, 0, Risen::Free));
        let woken = [(); 2].map(|()| sleep.wake_for_duty(0));
        assert_eq!(woken, [true, false]);
        assert_eq!(sleep.leave(b), Risen::OnDuty);
        assert_eq!(sleep.leave(a), Risen::Free);
    }

    #[test]
    fn what_is_for_everybody_wakes_the_latest_first_until_it_is_enough() {
        for (enough, called) in [(0, &[][..]), (1, &[2]), (2, &[1, 2]), (9, &[0, 1, 2])] {
            let sleep = Sleep::new(3);
            let listed = [0, 1, 2].map(|worker| sleep.list(worker, 0, Risen::Free));
            let up = || (0..3).filter(|&worker| sleep.is_called(worker));
            sleep.wake_all(|| up().count() == enough);
            assert_eq!(up().collect::<Vec<_>>(), called);
            for listed in listed {
                assert_eq!(sleep.leave(listed), Risen::Free);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// A queue of equal words, and beds.
    struct Pool {
        sleep: Sleep,
        words: AtomicUsize,
        /// Mail that makes two words, for the worker that takes it in.
        mail: AtomicBool,
        ended: AtomicBool,
        /// Bodies that have started.
        started: Mutex<usize>,
        bell: Condvar,
    }

    impl Pool {
        fn new(n_workers: usize) -> Arc<Pool> {
            Arc::new(Pool {
                sleep: Sleep::new(n_workers),
                words: AtomicUsize::new(0),
                mail: AtomicBool::new(false),
                ended: AtomicBool::new(false),
                started: Mutex::new(0),
                bell: Condvar::new(),
            })
        }

        fn push(&self) {
            // P1. Relaxed: the protocol's own fences must do.
            self.words.fetch_add(1, Ordering::Relaxed);
            self.sleep.queued(0);
        }

        /// As a courier delivers, whose mail a job calls one worker for: without duty, or on duty
        /// if a word was queued just before.
        fn post(&self) {
            self.mail.store(true, Ordering::Relaxed);
            self.sleep.queued(0);
        }

        /// What lies in queues, and mail.
        fn has_words(&self) -> bool {
            self.words.load(Ordering::Relaxed) > 0 || self.mail.load(Ordering::Relaxed)
        }

        /// Takes mail in, as a worker that is inside: its words go into the queue.
        fn take_mail(&self) {
            if self.mail.swap(false, Ordering::Relaxed) {
                self.push();
                self.push();
            }
        }

        /// Finds a word, sleeping when there seems to be none. `None` at the end.
        fn find(&self, worker: usize) -> Option<()> {
            let mut risen = Risen::Free;
            loop {
                if self.has_words() {
                    self.take_mail();
                    let take = |words: usize| words.checked_sub(1);
                    let order = Ordering::Relaxed;
                    if self.words.fetch_update(order, order, take).is_ok() {
                        if risen == Risen::OnDuty {
                            self.sleep.end_duty(0, || self.has_words());
                        }
                        return Some(());
                    }
                }
                if self.ended.load(Ordering::Relaxed) {
                    return None;
                }
                let listed = self.sleep.list(worker, 0, risen);
                risen = match self.has_words() || self.ended.load(Ordering::Relaxed) {
                    true => self.sleep.leave(listed),
                    false => self.sleep.park(listed),
                };
            }
        }

        /// A body that ends when `n` bodies have started: it needs as many workers.
        fn meet(&self, n: usize) {
            let mut started = self.started.lock().unwrap();
            *started += 1;
            self.bell.notify_all();
            while *started < n {
                started = self.bell.wait(started).unwrap();
            }
        }
    }

    /// With so many preemptions at most, or as many as `LOOM_MAX_PREEMPTIONS` says, where that is more.
    fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.max(Some(preemptions));
        builder.check(model);
    }

    /// Loom calls it a deadlock if the worker parks and nobody wakes it.
    #[test]
    fn a_queued_word_is_taken_by_a_worker_that_was_falling_asleep() {
        explore(4, || {
            let pool = Pool::new(1);
            let worker = thread::spawn({
                let pool = pool.clone();
                move || pool.find(0)
            });
            pool.push();
            assert_eq!(worker.join().unwrap(), Some(()));
        });
    }

    /// Two words that wait for one another need two workers: the one that was woken first must
    /// pass the wake-up on, for the pusher may have left it to it.
    #[test]
    fn two_words_get_two_workers() {
        explore(2, || {
            let pool = Pool::new(2);
            let workers = [0, 1].map(|worker| {
                let pool = pool.clone();
                thread::spawn(move || {
                    pool.find(worker);
                    pool.meet(2);
                })
            });
            pool.push();
            pool.push();
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
        });
    }

    /// Mail is taken in by one worker and makes two words that wait for one another. The worker that takes it
    /// may be on duty: then it wakes nobody when it queues them, and must when it takes the first.
    #[test]
    fn words_that_came_by_mail_get_two_workers() {
        explore(2, || {
            let pool = Pool::new(2);
            let workers = [0, 1].map(|worker| {
                let pool = pool.clone();
                thread::spawn(move || {
                    pool.find(worker);
                    pool.meet(2);
                })
            });
            pool.post();
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
        });
    }

    /// The pusher takes its first word back: the worker woken for it finds nothing, or the
    /// second word, which is then its alone to take.
    #[test]
    fn a_worker_woken_in_vain_does_not_swallow_the_next_wake_up() {
        explore(4, || {
            let pool = Pool::new(1);
            let worker = thread::spawn({
                let pool = pool.clone();
                move || pool.find(0)
            });
            pool.push();
            let order = Ordering::Relaxed;
            if pool
                .words
                .fetch_update(order, order, |words| words.checked_sub(1))
                .is_ok()
            {
                pool.push();
            }
            assert_eq!(worker.join().unwrap(), Some(()));
        });
    }

    #[test]
    fn the_end_reaches_workers_that_were_falling_asleep() {
        explore(3, || {
            let pool = Pool::new(2);
            let workers = [0, 1].map(|worker| {
                let pool = pool.clone();
                thread::spawn(move || pool.find(worker))
            });
            pool.ended.store(true, Ordering::Relaxed);
            pool.sleep.wake_all(|| false);
            for worker in workers {
                assert_eq!(worker.join().unwrap(), None);
            }
        });
    }
}
