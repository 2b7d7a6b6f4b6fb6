//! Custom: the queues of a user's own scheduler, and a worker's lane to them.
//!
//! # Law
//! As [`ReadyQueue`] says; and what a scheduler does otherwise ends the run with an error that names
//! it. What is queued is noted beside its queues: a task that comes out and is not noted was handed
//! out before, or made up, and does not run; one that is noted when nobody is at the queues, which
//! say that they are empty, is lost. A scheduler that panics is called no more.
//!
//! # Cost
//! Two turns of a lock a task, one of sixteen. The built-in queues know nothing of all this.

use super::kit::{Kit, Visit};
use crate::crew::Crew;
use crate::policy::{ReadyQueue, Scheduler};
use crate::sleep::Risen;
use crate::sync::held;
use crossbeam_utils::CachePadded;
use dataflow_core::port::{Hint, Lane, Ready, Wants, Word};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Parts of the notes: workers seldom want the same at once.
const PARTS: usize = 16;
/// A scheduler that has tasks and gives none out is asked so often, and for so long.
pub(crate) const IN_VAIN: u32 = 1000;
const PATIENCE: Duration = Duration::from_secs(1);

/// The queues of a job, and what was given to them.
pub(crate) struct CustomQueue {
    scheduler: String,
    queue: Box<dyn ReadyQueue>,
    /// What was pushed and not taken.
    noted: [CachePadded<Mutex<HashSet<Word>>>; PARTS],
    desk: Mutex<Desk>,
    /// The same as `desk.fault.is_some()`, for a glance.
    is_faulty: AtomicBool,
}

#[derive(Default)]
struct Desk {
    /// Workers at the queues, and how often one came.
    n_lanes: usize,
    n_came: u64,
    /// Whether one that has left got something since one that stays looked last.
    has_given: bool,
    /// How often, and since when, the last one there left tasks behind and had got none.
    in_vain: u32,
    since: Option<Instant>,
    /// What the scheduler has done first against its law.
    fault: Option<String>,
}

impl Drop for CustomQueue {
    /// Its run is over: of a panic nobody can be told.
    fn drop(&mut self) {
        let queue = std::mem::replace(&mut self.queue, Box::new(NotMade));
        caught(|| drop(queue)).ok();
    }
}

impl CustomQueue {
    /// The queues that a scheduler makes for a job.
    pub fn open(scheduler: &dyn Scheduler, crew: &Crew) -> Self {
        let name = caught(|| scheduler.name().to_string());
        match name.map(|name| (name, caught(|| scheduler.open(crew)))) {
            Err(text) => Self::failed("?", format!("panicked in name: {text}")),
            Ok((name, Err(text))) => Self::failed(&name, format!("panicked in open: {text}")),
            Ok((name, Ok(queue))) => Self::new(&name, queue),
        }
    }

    fn new(scheduler: &str, queue: Box<dyn ReadyQueue>) -> Self {
        CustomQueue {
            scheduler: scheduler.into(),
            queue,
            noted: Default::default(),
            desk: Mutex::default(),
            is_faulty: AtomicBool::new(false),
        }
    }

    /// Those of a scheduler that has made none.
    fn failed(scheduler: &str, what: String) -> Self {
        let queue = Self::new(scheduler, Box::new(NotMade));
        queue.blame(what);
        queue
    }

    /// Whether a worker should come: to take a task, or to say what is wrong.
    pub fn has_words(&self) -> bool {
        self.is_faulty()
            || !self.ask("is_empty", true, |queue| queue.is_empty())
            || self.is_faulty()
    }

    fn is_faulty(&self) -> bool {
        self.is_faulty.load(Ordering::Relaxed)
    }

    /// Calls the scheduler; what it answers instead if it panics or has done wrong before.
    fn ask<T>(&self, what: &str, otherwise: T, ask: impl FnOnce(&dyn ReadyQueue) -> T) -> T {
        if self.is_faulty() {
            return otherwise;
        }
        caught(|| ask(&*self.queue)).unwrap_or_else(|text| {
            self.blame(format!("panicked in {what}: {text}"));
            otherwise
        })
    }

    #[cold]
    fn blame(&self, what: String) {
        let text = format!("scheduler {:?} {what}", self.scheduler);
        self.desk().fault.get_or_insert(text);
        self.is_faulty.store(true, Ordering::Relaxed);
    }

    fn push(&self, worker: usize, ready: Ready) {
        self.part(ready.word).insert(ready.word);
        self.ask("push", (), |queue| queue.push(worker, ready));
    }

    fn take(&self, worker: usize) -> Option<Word> {
        let word = self.ask("take", None, |queue| queue.take(worker))?.word;
        if self.part(word).remove(&word) {
            return Some(word);
        }
        self.blame("handed out a task twice, or one that it was never given".into());
        None
    }

    fn come(&self) {
        let mut desk = self.desk();
        desk.n_lanes += 1;
        desk.n_came += 1;
    }

    /// A worker goes; answers what is wrong, if anything is. `dry` if it found nothing at last, and
    /// `busy` if it got something before.
    fn go(&self, dry: bool, busy: bool) -> Option<String> {
        let mut desk = self.desk();
        desk.n_lanes -= 1;
        desk.has_given |= busy;
        if desk.n_lanes == 0 && dry {
            let busy = std::mem::take(&mut desk.has_given);
            desk = self.left_behind(busy, desk);
        }
        desk.fault.clone()
    }

    /// A worker stays that found nothing; answers what is wrong, if anything is. `busy` if it got
    /// something since it looked last.
    #[cold]
    fn look(&self, busy: bool) -> Option<String> {
        let mut desk = self.desk();
        if desk.n_lanes == 1 {
            let busy = std::mem::take(&mut desk.has_given) | busy;
            desk = self.left_behind(busy, desk);
        }
        desk.fault.clone()
    }

    /// Nobody else is at the queues: if tasks were given to them, they should say so.
    fn left_behind<'d>(&'d self, busy: bool, desk: MutexGuard<'d, Desk>) -> MutexGuard<'d, Desk> {
        let n_left = self.n_left();
        if n_left == 0 || desk.fault.is_some() {
            return desk;
        }
        let n_came = desk.n_came;
        drop(desk);
        let is_empty = self.ask("is_empty", false, |queue| queue.is_empty());
        let mut desk = self.desk();
        // The worker that came meanwhile looks in our place.
        if desk.n_came != n_came || desk.fault.is_some() {
            return desk;
        }
        if !is_empty && busy {
            (desk.in_vain, desk.since) = (0, None);
            return desk;
        }
        if !is_empty {
            desk.in_vain += 1;
            let since = desk.since.get_or_insert_with(Instant::now).elapsed();
            if desk.in_vain < IN_VAIN || since < PATIENCE {
                return desk;
            }
        }
        let what = not_handed_out(n_left, is_empty);
        desk.fault = Some(format!("scheduler {:?} {what}", self.scheduler));
        self.is_faulty.store(true, Ordering::Relaxed);
        desk
    }

    /// In virtual time, where no task runs and workers have looked in vain for long enough, or see nothing:
    /// what is wrong, if anything is.
    pub fn at_rest(&self) -> Option<String> {
        let n_left = self.n_left();
        if n_left > 0 && !self.is_faulty() {
            let is_empty = self.ask("is_empty", false, |queue| queue.is_empty());
            self.blame(not_handed_out(n_left, is_empty));
        }
        self.desk().fault.clone()
    }

    /// How many tasks were pushed and not taken.
    fn n_left(&self) -> usize {
        self.noted.iter().map(|part| held(part).len()).sum()
    }

    fn part(&self, word: Word) -> MutexGuard<'_, HashSet<Word>> {
        let spread = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        held(&self.noted[spread as usize % PARTS])
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        held(&self.desk)
    }
}

/// What a scheduler does wrong that has so many tasks and hands none out.
fn not_handed_out(n_left: usize, is_empty: bool) -> String {
    let tasks = if n_left == 1 { "task" } else { "tasks" };
    match is_empty {
        true => format!(
            "lost {n_left} ready {tasks}: it handed none of them out, and says that nothing is queued"
        ),
        false => format!(
            "holds {n_left} ready {tasks} back: it says that something is queued, and hands nothing out to any worker"
        ),
    }
}

/// What a scheduler answers; if it panics, with which text.
fn caught<T>(ask: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(ask)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("(no text)").to_string();
        // Dropping it might panic again.
        std::mem::forget(panic);
        text
    })
}

/// In place of queues that were not made: nobody calls them.
struct NotMade;

impl ReadyQueue for NotMade {
    fn push(&self, _: usize, _: Ready) {}

    fn take(&self, _: usize) -> Option<Ready> {
        None
    }

    fn is_empty(&self) -> bool {
        true
    }
}

/// A worker's lane to the queues of the job it is in.
pub(crate) struct CustomLane<'q, 'p> {
    queue: &'q CustomQueue,
    visit: Visit<'q, 'p>,
    /// Whether it got anything; and since it was asked for a fault.
    busy: bool,
    has_found: bool,
}

impl<'q, 'p> CustomLane<'q, 'p> {
    pub fn open(queue: &'q CustomQueue, kit: &'q Kit<'p>, risen: Risen) -> Self {
        queue.come();
        CustomLane {
            queue,
            visit: Visit::begin(kit, risen),
            busy: false,
            has_found: false,
        }
    }

    /// As the other lanes'; and what the scheduler did wrong.
    pub fn close(self) -> (Risen, bool, Option<String>) {
        let (risen, dry) = self.visit.end();
        (risen, dry, self.queue.go(dry, self.busy))
    }
}

impl Lane for CustomLane<'_, '_> {
    fn worker(&self) -> usize {
        self.visit.kit.worker
    }

    fn push(&mut self, word: Word, priority: i64) {
        self.push_ready(Ready::new(word, priority));
    }

    fn pop(&mut self) -> Option<Word> {
        let word = self.queue.take(self.visit.kit.worker)?;
        (self.busy, self.has_found) = (true, true);
        self.visit.found();
        Some(word)
    }

    fn steal(&mut self) -> Option<Word> {
        self.visit.is_dry();
        None
    }

    fn fault(&mut self) -> Option<String> {
        self.queue.look(std::mem::take(&mut self.has_found))
    }

    fn outranks(&self, priority: i64) -> bool {
        let worker = self.visit.kit.worker;
        (self.queue).ask("outranks", false, |queue| queue.outranks(worker, priority))
    }

    fn wants(&self) -> Wants {
        Wants::Everything
    }

    fn push_ready(&mut self, ready: Ready) {
        self.queue.push(self.visit.kit.worker, ready);
        self.visit.queued_here();
    }

    fn goes_elsewhere(&self, hint: Hint) -> bool {
        let worker = self.visit.kit.worker;
        let ask = |queue: &dyn ReadyQueue| queue.goes_elsewhere(worker, hint);
        self.queue.ask("goes_elsewhere", false, ask)
    }

    fn reads(&mut self, numa_node: usize, bytes: u64) -> bool {
        self.visit.reads(numa_node, bytes)
    }

    fn measured(&mut self, class: usize, seconds: f64) {
        let worker = self.visit.kit.worker;
        let tell = |queue: &dyn ReadyQueue| queue.measured(worker, class, seconds);
        self.queue.ask("measured", (), tell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, OnceLock, Weak};

    /// One task at most; a worker comes for it while another asks whether there is any.
    #[derive(Default)]
    struct Hasty {
        task: Mutex<Option<Ready>>,
        comes: OnceLock<Weak<CustomQueue>>,
    }

    impl ReadyQueue for Arc<Hasty> {
        fn push(&self, _: usize, task: Ready) {
            *held(&self.task) = Some(task);
        }
        fn take(&self, _: usize) -> Option<Ready> {
            held(&self.task).take()
        }
        fn is_empty(&self) -> bool {
            if let Some(queue) = self.comes.get().and_then(Weak::upgrade) {
                queue.come();
                queue.take(1);
            }
            held(&self.task).is_none()
        }
    }

    #[test]
    fn a_task_that_another_worker_takes_meanwhile_is_not_lost() {
        let hasty = Arc::new(Hasty::default());
        let queue = Arc::new(CustomQueue::new("hasty", Box::new(Arc::clone(&hasty))));
        hasty.comes.get_or_init(|| Arc::downgrade(&queue));
        queue.come();
        queue.push(0, Ready::new(7, 0));
        assert_eq!(queue.go(true, false), None);
        assert_eq!(queue.go(true, true), None, "the other one goes");
    }

    #[test]
    fn a_scheduler_that_gave_a_task_out_has_all_the_time_again() {
        let queue = CustomQueue::new("slow", Box::new(Arc::new(Hasty::default())));
        queue.push(0, Ready::new(7, 0));
        let visit = |busy| {
            queue.come();
            queue.go(true, busy)
        };
        let has_waited_long = || {
            let mut desk = queue.desk();
            (desk.in_vain, desk.since) = (IN_VAIN, Instant::now().checked_sub(PATIENCE));
        };
        has_waited_long();
        assert_eq!(visit(true), None);
        assert_eq!(visit(false), None, "in vain for the first time");
        has_waited_long();
        assert!(visit(false).is_some());
    }
}
