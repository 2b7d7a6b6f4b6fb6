//! Wake: how long a task waits for a thread that sleeps, in microseconds, beside rayon.
//!
//! Before each turn everybody rests long enough to fall asleep. A *job* comes from outside to a
//! sleeping pool; a *task* comes from a worker whose neighbour sleeps, and runs on that neighbour.

use super::{Crew, Outcome, quartiles};
use dataflow::core::space::Independent;
use dataflow::prelude::*;
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Rest before a turn; workers search for some 50 µs before they sleep.
const REST: Duration = Duration::from_millis(3);
/// Nobody waits longer for a neighbour.
const LONGEST: Duration = Duration::from_millis(200);

/// Measures in turn, so many rounds, and prints medians.
pub fn measure(crews: &[Crew; 2], rounds: u32) -> Outcome {
    let [one, two] = crews;
    let mut waits: [(&str, Vec<f64>); 5] = [
        ("dataflow, job to 1 worker", Vec::new()),
        ("dataflow, job to 2 workers", Vec::new()),
        ("rayon, job to 2 threads", Vec::new()),
        ("dataflow, task to the neighbour", Vec::new()),
        ("rayon, task to the neighbour", Vec::new()),
    ];
    // The first round does not count.
    for round in 0..=rounds {
        let found = [
            job(one)?,
            job(two)?,
            job_of_rayon(two),
            task(two)?,
            task_of_rayon(two),
        ];
        for ((_, waits), found) in waits.iter_mut().zip(found) {
            if let (Some(seconds), true) = (found, round > 0) {
                waits.push(seconds * 1e6);
            }
        }
    }
    println!("\nwake: microseconds until a sleeper runs the first task, {rounds} turns");
    for (name, waits) in waits {
        let (median, spread) = quartiles(&waits);
        let seen = waits.len();
        println!("{name:36} {median:8.1} ± {spread:.1}, in {seen} of {rounds}");
    }
    Ok(())
}

fn job(crew: &Crew) -> Outcome<Option<f64>> {
    thread::sleep(REST);
    let began = OnceLock::new();
    let space = Independent::new("wake", 1, |_| {
        began.get_or_init(Instant::now);
        Ok(())
    });
    let start = Instant::now();
    crew.runtime.run(&space)?;
    Ok(began.get().map(|began| (*began - start).as_secs_f64()))
}

fn job_of_rayon(crew: &Crew) -> Option<f64> {
    thread::sleep(REST);
    let start = Instant::now();
    let began = crew.pool.install(Instant::now);
    Some((began - start).as_secs_f64())
}

/// What two threads know of a task that one of them left to the other.
#[derive(Default)]
struct Left {
    at: OnceLock<Instant>,
    by: OnceLock<ThreadId>,
    taken: OnceLock<(Instant, ThreadId)>,
}

impl Left {
    /// Works while the neighbour falls asleep, and leaves a task behind at the end.
    fn leave(&self) {
        wait(REST, || false);
        self.by.get_or_init(|| thread::current().id());
        self.at.get_or_init(Instant::now);
    }

    /// A task that was left: who left it waits until the other one was taken.
    fn take(&self) {
        let me = thread::current().id();
        match self.by.get() == Some(&me) {
            true => wait(LONGEST, || self.taken.get().is_some()),
            false => {
                self.taken.get_or_init(|| (Instant::now(), me));
            }
        }
    }

    /// How long it lay; `None` if nobody came for it.
    fn seconds(&self) -> Option<f64> {
        let (taken, _) = self.taken.get()?;
        Some((*taken - *self.at.get()?).as_secs_f64())
    }
}

fn wait(longest: Duration, until: impl Fn() -> bool) {
    let start = Instant::now();
    while start.elapsed() < longest && !until() {
        spin_loop();
    }
}

/// Task 0 frees two.
struct Fork<'l>(&'l Left);

impl TaskSpace for Fork<'_> {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("fork").class("Task").order("START");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..3
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 0 {
            from.task(0, 0, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task == 0 {
            (1..3).for_each(|child| to.task(0, child, 0));
        }
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        match task {
            0 => self.0.leave(),
            _ => self.0.take(),
        }
        Ok(())
    }
}

fn task(crew: &Crew) -> Outcome<Option<f64>> {
    let left = Left::default();
    crew.runtime.run(&Fork(&left))?;
    Ok(left.seconds())
}

fn task_of_rayon(crew: &Crew) -> Option<f64> {
    let left = Left::default();
    crew.pool.install(|| {
        left.leave();
        rayon::join(|| left.take(), || left.take());
    });
    left.seconds()
}
