//! Bells: one thread sleeps until another rings.
//!
//! # Law
//! A ring is kept until it is taken, and the thread that takes it sees what was done before it. Ringing costs
//! no system call unless somebody sleeps.

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, lock};
use std::time::{Duration, Instant};

/// Wakes the one who waits for it; a ring that nobody waits for is kept until somebody does.
///
/// # Examples
/// See [`Thread`](crate::Thread), a host whose bells are those of threads, and [`Transport::bell`](crate::transport::Transport::bell).
pub trait Bell: Send + Sync {
    /// Wakes the thread that waits, or the next one that comes to wait.
    fn ring(&self);

    /// Waits for a ring, or for as long as said.
    fn wait(&self, at_most: Option<Duration>);

    /// Its number in the world it belongs to, if that is a simulated one.
    fn number(&self) -> Option<usize> {
        None
    }
}

/// The two flags of a bell: whether it was rung, and how many sleep beside it.
///
/// Of a ringer and somebody who falls asleep at the same time, one comes first at `rung`, which both of
/// them exchange: if the ringer, the other takes the ring and stays awake; if the other, the ringer has
/// read what it wrote, and so sees it asleep. That is why a sleeper [takes](Self::take) the ring by an
/// exchange whatever the flag holds.
#[derive(Default)]
pub(crate) struct Flags {
    rung: AtomicBool,
    asleep: AtomicUsize,
}

impl Flags {
    /// Rings; says whether somebody sleeps who must be woken.
    pub fn ring(&self) -> bool {
        // Release and acquire: pairs with the exchange in `take`, in both directions. An exchange even if
        // it was rung before: then too, what was done before this ring must be seen.
        let before = self.rung.swap(true, Ordering::AcqRel);
        // Relaxed: what `take` read before this exchange was written after `fall_asleep`.
        !before && self.asleep.load(Ordering::Relaxed) > 0
    }

    /// Whether it was rung since it was last asked: for a thread that is awake, and costs nothing if not.
    pub fn take_awake(&self) -> bool {
        self.rung.load(Ordering::Relaxed) && self.take()
    }

    /// Whether it was rung since it was last asked: for a thread that has [fallen asleep](Self::fall_asleep).
    pub fn take(&self) -> bool {
        // Acquire and release: pairs with the exchange in `ring`, in both directions.
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// From now on a ring says that somebody is to be woken. Under the lock of those who sleep, as
    /// [`get_up`](Self::get_up).
    pub fn fall_asleep(&self) {
        // Relaxed: ordered by the exchange in `take`, which follows. A store: only sleepers write it.
        let others = self.asleep.load(Ordering::Relaxed);
        self.asleep.store(others + 1, Ordering::Relaxed);
    }

    /// The sleeper is up. A ring that sees it asleep all the same wakes nobody.
    pub fn get_up(&self) {
        let all = self.asleep.load(Ordering::Relaxed);
        self.asleep.store(all - 1, Ordering::Relaxed);
    }
}

/// A bell of threads.
#[derive(Default)]
pub(crate) struct Gong {
    flags: Flags,
    waiting: Mutex<()>,
    woken: Condvar,
}

impl Bell for Gong {
    fn ring(&self) {
        if self.flags.ring() {
            // Under the lock, so that nobody falls asleep between looking and waiting.
            drop(lock(&self.waiting));
            self.woken.notify_one();
        }
    }

    fn wait(&self, at_most: Option<Duration>) {
        if self.flags.take_awake() {
            return;
        }
        // What ends later than any clock can tell never ends.
        let deadline = at_most.and_then(|wait| Instant::now().checked_add(wait));
        let mut waiting = lock(&self.waiting);
        self.flags.fall_asleep();
        while !self.flags.take() {
            let left = deadline.map(|deadline| deadline.checked_duration_since(Instant::now()));
            waiting = match left {
                None => self
                    .woken
                    .wait(waiting)
                    .unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(None) => break,
                Some(Some(left)) => {
                    let woken = self.woken.wait_timeout(waiting, left);
                    woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
            };
        }
        self.flags.get_up();
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{AtomicU64, explore};
    use loom::sync::Arc;
    use loom::thread;

    /// Loom calls it a deadlock if the sleeper is never woken. What was done before the ring is seen
    /// with no ordering of its own.
    #[test]
    fn a_ring_wakes_whoever_falls_asleep_and_shows_what_was_done_before() {
        explore(4, || {
            let (gong, done) = (Arc::new(Gong::default()), Arc::new(AtomicU64::new(0)));
            let ringer = thread::spawn({
                let (gong, done) = (gong.clone(), done.clone());
                move || {
                    done.store(1, Ordering::Relaxed);
                    gong.ring();
                }
            });
            gong.wait(None);
            assert_eq!(done.load(Ordering::Relaxed), 1);
            ringer.join().unwrap();
        });
    }

    /// Two ring; a thread that waits until both have done their part is woken as often as it takes.
    #[test]
    fn of_two_rings_neither_hides_what_the_other_shows() {
        explore(3, || {
            let (gong, done) = (Arc::new(Gong::default()), Arc::new(AtomicU64::new(0)));
            let ringers = [1, 2].map(|part| {
                let (gong, done) = (gong.clone(), done.clone());
                thread::spawn(move || {
                    done.fetch_add(part, Ordering::Relaxed);
                    gong.ring();
                })
            });
            while done.load(Ordering::Relaxed) < 3 {
                gong.wait(None);
            }
            ringers
                .into_iter()
                .for_each(|ringer| ringer.join().unwrap());
        });
    }

    /// A ring that was kept ends the next sleep, and the one after that waits for the next ring.
    #[test]
    fn a_sleeper_that_was_woken_falls_asleep_again() {
        explore(3, || {
            let gong = Arc::new(Gong::default());
            let (asked, told) = (Arc::new(Gong::default()), gong.clone());
            let ringer = thread::spawn({
                let asked = asked.clone();
                move || {
                    told.ring();
                    asked.wait(None);
                    told.ring();
                }
            });
            gong.wait(None);
            asked.ring();
            gong.wait(None);
            ringer.join().unwrap();
        });
    }
}
