//! What communication stands on: a clock, bells, threads. The machine's own, or a simulated world's.
//!
//! # Law
//! Nothing in this crate sleeps, starts a thread or asks for the time but through a [`Host`].
//! Nobody holds a lock while it waits for a bell.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A machine to run on.
pub trait Host: Send + Sync {
    /// Time since some moment that is the same for all threads of this rank.
    fn now(&self) -> Duration;

    /// A bell that one thread at a time may wait for.
    fn bell(&self) -> Arc<dyn Bell>;

    /// Starts a thread.
    ///
    /// # Errors
    /// What the operating system answered.
    fn start(
        &self,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>, String>;

    /// Starts what rests only between its turns, on a thread of its own unless the host has a cheaper
    /// way.
    ///
    /// # Errors
    /// What the operating system answered.
    fn start_turns(
        &self,
        name: String,
        mut body: Box<dyn FnMut() -> Turn + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        self.start(name, Box::new(move || live(&mut *body)))
    }

    /// Whether time stands still while a thread runs: then nobody must wait for it to pass.
    fn is_virtual(&self) -> bool {
        false
    }
}

/// Wakes the one who waits for it; a ring that nobody waits for is kept until somebody does.
pub trait Bell: Send + Sync {
    /// Wakes whoever waits, or whoever comes next.
    fn ring(&self);

    /// Waits for a ring, or for as long as said.
    fn wait(&self, at_most: Option<Duration>);

    /// Its number in the world it belongs to, if that is a simulated one.
    fn number(&self) -> Option<usize> {
        None
    }
}

/// What becomes of something [that acts by turns](Host::start_turns) when its turn is over.
pub enum Turn {
    /// It is called again, when what it spent has passed.
    Again,
    /// It is called when the bell rings, or so much time has passed.
    Rests(Arc<dyn Bell>, Option<Duration>),
    /// It is not called again.
    Ends,
}

/// Lives by turns on this thread.
pub(crate) fn live(body: &mut dyn FnMut() -> Turn) {
    loop {
        match body() {
            Turn::Again => {}
            Turn::Rests(bell, at_most) => bell.wait(at_most),
            Turn::Ends => return,
        }
    }
}

/// A thread that was started.
pub trait Thread: Send {
    /// Waits for its end; false if it panicked.
    fn join(self: Box<Self>) -> bool;
}

/// The machine this process runs on.
#[derive(Debug)]
pub struct Machine {
    start: Instant,
}

impl Machine {
    /// Its clock starts now.
    pub fn new() -> Arc<Self> {
        Arc::new(Machine {
            start: Instant::now(),
        })
    }
}

impl Host for Machine {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(Gong::default())
    }

    fn start(
        &self,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        let thread = thread::Builder::new().name(name).spawn(body);
        match thread {
            Ok(handle) => Ok(Box::new(Handle(handle))),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct Handle(JoinHandle<()>);

impl Thread for Handle {
    fn join(self: Box<Self>) -> bool {
        self.0.join().is_ok()
    }
}

/// A bell of threads.
///
/// Ringing costs no system call unless somebody sleeps.
#[derive(Default)]
struct Gong {
    rung: AtomicBool,
    asleep: AtomicUsize,
    waiting: Mutex<()>,
    woken: Condvar,
}

impl Gong {
    /// Whether it was rung since it was last asked.
    fn take(&self) -> bool {
        // SeqCst: of `ring` (writes rung, reads asleep) and `wait` (writes asleep, reads rung) at
        // least one sees the other; also what was done before a ring is seen by whoever takes it.
        self.rung.load(Ordering::SeqCst) && self.rung.swap(false, Ordering::SeqCst)
    }
}

impl Bell for Gong {
    fn ring(&self) {
        // A swap even if it was rung before: then too, what was done before this ring must be seen.
        let before = self.rung.swap(true, Ordering::SeqCst);
        if !before && self.asleep.load(Ordering::SeqCst) > 0 {
            // Under the lock, so that nobody falls asleep between looking and waiting.
            drop(lock(&self.waiting));
            self.woken.notify_one();
        }
    }

    fn wait(&self, at_most: Option<Duration>) {
        if self.take() {
            return;
        }
        let deadline = at_most.map(|wait| Instant::now() + wait);
        let mut waiting = lock(&self.waiting);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while !self.take() {
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
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Locks also what a panicking thread has left behind: nothing here is left half done.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// An answer that one thread waits for and another gives.
pub(crate) struct Answer<T> {
    value: Mutex<Option<T>>,
    bell: Arc<dyn Bell>,
}

impl<T> Answer<T> {
    pub fn new(host: &dyn Host) -> Arc<Self> {
        Arc::new(Answer {
            value: Mutex::new(None),
            bell: host.bell(),
        })
    }

    pub fn give(&self, value: T) {
        *lock(&self.value) = Some(value);
        self.bell.ring();
    }

    /// The answer, if it has been given.
    pub fn take(&self) -> Option<T> {
        lock(&self.value).take()
    }

    pub fn wait(&self) -> T {
        loop {
            if let Some(value) = self.take() {
                return value;
            }
            self.bell.wait(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_wait_is_kept_and_one_during_it_ends_it() {
        let host = Machine::new();
        let bell = host.bell();
        bell.ring();
        bell.ring();
        bell.wait(None);
        let ringer = bell.clone();
        let thread = host
            .start("ringer".into(), Box::new(move || ringer.ring()))
            .unwrap();
        bell.wait(None);
        assert!(thread.join());
        bell.wait(Some(Duration::from_millis(1)));
    }

    #[test]
    fn two_threads_hand_an_answer_over_ten_thousand_times() {
        let host = Machine::new();
        let answers: Vec<_> = (0..10_000).map(|_| Answer::new(&*host)).collect();
        let given = answers.clone();
        let giver = move || {
            given
                .iter()
                .enumerate()
                .for_each(|(i, answer)| answer.give(i))
        };
        let thread = host.start("giver".into(), Box::new(giver)).unwrap();
        for (i, answer) in answers.iter().enumerate() {
            assert_eq!(answer.wait(), i);
        }
        assert!(thread.join());
    }
}
