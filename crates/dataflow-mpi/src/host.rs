//! What communication stands on: a clock, bells, threads. The machine's own, or a simulated world's.
//!
//! # Law
//! Nothing in this crate sleeps, starts a thread or asks for the time but through a [`Host`].
//! Nobody holds a lock while it waits for a bell.

use crate::bell::{Bell, Gong};
use crate::sync::{Mutex, lock};
use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A machine to run on.
///
/// # Examples
/// ```
/// use dataflow_mpi::{Host, Machine};
///
/// let machine = Machine::new();
/// let before = machine.now();
/// let thread = machine.start("helper".into(), Box::new(|| ()))?;
/// assert!(thread.join() && machine.now() >= before);
/// # Ok::<(), String>(())
/// ```
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

/// What becomes of something [that acts by turns](Host::start_turns) when its turn is over.
pub enum Turn {
    /// It is called again, when what it spent has passed.
    Again,
    /// It is called when the bell rings, or so much time has passed.
    Rests(Arc<dyn Bell>, Option<Duration>),
    /// It is not called again.
    Ends,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Turn::Again => f.write_str("Again"),
            Turn::Rests(_, at_most) => f
                .debug_tuple("Rests")
                .field(at_most)
                .finish_non_exhaustive(),
            Turn::Ends => f.write_str("Ends"),
        }
    }
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
            Ok(handle) => Ok(Box::new(MachineThread(handle))),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct MachineThread(JoinHandle<()>);

impl Thread for MachineThread {
    fn join(self: Box<Self>) -> bool {
        self.0.join().is_ok()
    }
}

/// An answer that one thread waits for and another gives.
pub(crate) struct Promise<T> {
    value: Mutex<Option<T>>,
    bell: Arc<dyn Bell>,
}

impl<T> Promise<T> {
    pub fn new(host: &dyn Host) -> Arc<Self> {
        Arc::new(Promise {
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
        let answers: Vec<_> = (0..10_000).map(|_| Promise::new(&*host)).collect();
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
