//! Custom: the queues of a user's own scheduler, and a worker's lane to them.
//!
//! # Law
//! As [`ReadyQueue`] says; and what a scheduler does otherwise ends the run with an error that names
//! it. What is queued is noted beside its queues: a task that comes out and is not noted was handed
//! out before, or made up, and does not run; one that is noted when nobody is [busy](Desk), while the
//! queues say that they are empty, is lost. A scheduler that panics is called no more.
//!
//! Who finds nothing where something is queued asks again and again, as all workers of a pool may do at
//! once: there is always one in the midst of it. So a scheduler that holds tasks back is found out in three
//! steps: whoever was busy when the doubt arose has come back with nothing; then for long enough nobody
//! has got anything; and whoever was busy at last has come back with nothing too.
//!
//! # Cost
//! Two turns of a lock a task, one of sixteen. The built-in queues know nothing of all this.

use super::kit::{Kit, Parting, Visit};
use crate::crew::Crew;
use crate::policy::{ReadyQueue, Scheduler};
use crate::sleep::Risen;
use crate::sync::held;
use crossbeam_utils::CachePadded;
use dataflow_core::port::{Hint, Lane, Ready, Wants, Word, caught};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
    /// What was pushed and not taken, and how often: of a space that feeds a task once more than it has inputs
    /// a word comes twice, which the engine finds out.
    noted: [CachePadded<Mutex<HashMap<Word, usize>>>; PARTS],
    desk: Mutex<Desk>,
    /// The same as `desk.fault.is_some()`, for a glance.
    is_faulty: AtomicBool,
}

/// Who is busy: from when it comes, or looks for the next task, until it has found nothing. It may give
/// tasks to the queues, or have got one.
#[derive(Default)]
struct Desk {
    n_busy: usize,
    /// How often one became so.
    n_came: u64,
    /// Pages are turned so that those who are busy since before can be told from the others.
    page: u64,
    n_busy_since_before: usize,
    doubt: Option<Doubt>,
    /// What the scheduler has done first against its law.
    fault: Option<String>,
}

/// Something is queued, and nobody gets anything; nor has, since it arose.
#[derive(Default)]
struct Doubt {
    /// How often, and since when, since whoever was busy as it arose has come back.
    in_vain: u32,
    since: Option<Instant>,
    /// That was long enough: only those who were busy then may know better.
    is_ripe: bool,
}

/// The page on which a worker became busy.
type BusyPage = u64;

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
        *self.part(ready.word).entry(ready.word).or_default() += 1;
        self.ask("push", (), |queue| queue.push(worker, ready));
    }

    fn take(&self, worker: usize) -> Option<Word> {
        let word = self.ask("take", None, |queue| queue.take(worker))?.word;
        if self.takes_note(word) {
            return Some(word);
        }
        self.blame("handed out a task twice, or one that it was never given".into());
        None
    }

    /// Whether a task that was taken had been pushed.
    fn takes_note(&self, word: Word) -> bool {
        match self.part(word).entry(word) {
            Entry::Vacant(_) => return false,
            Entry::Occupied(noted) if *noted.get() == 1 => _ = noted.remove(),
            Entry::Occupied(mut noted) => *noted.get_mut() -= 1,
        }
        true
    }

    /// A worker becomes busy.
    fn come(&self) -> BusyPage {
        let mut desk = self.desk();
        desk.n_busy += 1;
        desk.n_came += 1;
        desk.page
    }

    /// A worker is no longer busy, if it was since this page; answers what is wrong, if anything is.
    /// `exchanged` if it gave or got something meanwhile; `dry` if it found nothing at last.
    fn go(&self, since: Option<BusyPage>, exchanged: bool, dry: bool) -> Option<String> {
        let mut desk = self.desk();
        if let Some(since) = since {
            desk.n_busy -= 1;
            desk.n_busy_since_before -= usize::from(since < desk.page);
        }
        if exchanged {
            desk.doubt = None;
        }
        if dry {
            desk = self.judge(desk);
        }
        desk.fault.clone()
    }

    /// A worker has found nothing: if tasks were given to the queues, and nobody is busy with them, they
    /// should say so, and give them out.
    #[cold]
    fn judge<'d>(&'d self, desk: MutexGuard<'d, Desk>) -> MutexGuard<'d, Desk> {
        let is_too_early = desk.doubt.is_some() && desk.n_busy_since_before > 0;
        if is_too_early || desk.fault.is_some() {
            return desk;
        }
        let (was_alone, n_came) = (desk.n_busy == 0, desk.n_came);
        drop(desk);
        let is_empty = self.ask("is_empty", false, |queue| queue.is_empty());
        let mut desk = self.desk();
        // Who came meanwhile, or is busy, looks in our place.
        let is_alone = was_alone && desk.n_came == n_came;
        let is_wrong = match is_empty {
            true => is_alone && self.n_left() > 0,
            false => desk.is_wrong_to_wait(),
        };
        if is_wrong && desk.fault.is_none() {
            let what = not_handed_out(self.n_left(), is_empty);
            desk.fault = Some(format!("scheduler {:?} {what}", self.scheduler));
            self.is_faulty.store(true, Ordering::Relaxed);
        }
        desk
    }

    /// In virtual time, where no task runs and a worker has looked in vain, or all have for long enough: what
    /// is wrong, if anything is.
    pub fn at_rest(&self, is_long: bool) -> Option<String> {
        if !self.is_faulty() {
            let (n_left, is_empty) = (
                self.n_left(),
                self.ask("is_empty", false, |queue| queue.is_empty()),
            );
            let is_wrong = if is_empty { n_left > 0 } else { is_long };
            if is_wrong && !self.is_faulty() {
                self.blame(not_handed_out(n_left, is_empty));
            }
        }
        self.desk().fault.clone()
    }

    /// How many tasks were pushed and not taken.
    fn n_left(&self) -> usize {
        let in_part =
            |part: &CachePadded<Mutex<HashMap<Word, usize>>>| held(part).values().sum::<usize>();
        self.noted.iter().map(in_part).sum()
    }

    fn part(&self, word: Word) -> MutexGuard<'_, HashMap<Word, usize>> {
        let spread = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        held(&self.noted[spread as usize % PARTS])
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        held(&self.desk)
    }
}

impl Desk {
    /// Something is queued, and a worker has found nothing: whether it has been so for long enough.
    fn is_wrong_to_wait(&mut self) -> bool {
        if self.doubt.is_none() {
            self.doubt = Some(Doubt::default());
            self.turn_the_page();
        }
        let Some(doubt) = self
            .doubt
            .as_mut()
            .filter(|_| self.n_busy_since_before == 0)
        else {
            return false;
        };
        if !doubt.is_ripe {
            doubt.in_vain += 1;
            let since = doubt.since.get_or_insert_with(Instant::now).elapsed();
            doubt.is_ripe = doubt.in_vain >= IN_VAIN && since >= PATIENCE;
            if !doubt.is_ripe {
                return false;
            }
            self.turn_the_page();
        }
        self.n_busy_since_before == 0
    }

    fn turn_the_page(&mut self) {
        self.page += 1;
        self.n_busy_since_before = self.n_busy;
    }
}

/// What a scheduler does wrong that has so many tasks and hands none out.
fn not_handed_out(n_left: usize, is_empty: bool) -> String {
    let tasks = if n_left == 1 { "task" } else { "tasks" };
    match is_empty {
        false if n_left == 0 => {
            "says that something is queued, and has handed out all that it was given".into()
        }
        true => format!(
            "lost {n_left} ready {tasks}: it handed none of them out, and says that nothing is queued"
        ),
        false => format!(
            "holds {n_left} ready {tasks} back: it says that something is queued, and hands nothing out to any worker"
        ),
    }
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
    /// Since when it is busy, if it is, and whether it gave or got anything meanwhile.
    busy_since: Option<BusyPage>,
    has_exchanged: bool,
}

impl<'q, 'p> CustomLane<'q, 'p> {
    pub fn open(queue: &'q CustomQueue, kit: &'q Kit<'p>, risen: Risen) -> Self {
        CustomLane {
            queue,
            visit: Visit::begin(kit, risen),
            busy_since: Some(queue.come()),
            has_exchanged: false,
        }
    }

    pub fn close(self) -> Parting {
        let is_real = self.visit.kit.is_real;
        let parting = self.visit.end();
        // Whether others are busy in virtual time, lanes do not know: there the simulation asks.
        let dry = parting.dry && is_real;
        let fault = (self.queue).go(self.busy_since, self.has_exchanged, dry);
        Parting { fault, ..parting }
    }

    fn is_busy(&mut self) {
        self.busy_since.get_or_insert_with(|| self.queue.come());
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
        self.is_busy();
        let word = self.queue.take(self.visit.kit.worker)?;
        self.has_exchanged = true;
        self.visit.found();
        Some(word)
    }

    fn steal(&mut self) -> Option<Word> {
        self.visit.is_dry();
        None
    }

    fn fault(&mut self) -> Option<String> {
        let has_exchanged = std::mem::take(&mut self.has_exchanged);
        let is_real = self.visit.kit.is_real;
        (self.queue).go(self.busy_since.take(), has_exchanged, is_real)
    }

    fn outranks(&self, priority: i64) -> bool {
        let worker = self.visit.kit.worker;
        (self.queue).ask("outranks", false, |queue| queue.outranks(worker, priority))
    }

    fn wants(&self) -> Wants {
        Wants::Everything
    }

    fn push_ready(&mut self, ready: Ready) {
        self.is_busy();
        self.has_exchanged = true;
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
        let page = queue.come();
        queue.push(0, Ready::new(7, 0));
        assert_eq!(queue.go(Some(page), false, true), None);
        assert_eq!(queue.go(Some(page), true, true), None, "the other one goes");
    }

    /// A queue with a task that it hands out to nobody, and says so or not.
    fn held_back() -> CustomQueue {
        struct Never;

        impl ReadyQueue for Never {
            fn push(&self, _: usize, _: Ready) {}
            fn take(&self, _: usize) -> Option<Ready> {
                None
            }
            fn is_empty(&self) -> bool {
                false
            }
        }

        let queue = CustomQueue::new("slow", Box::new(Never));
        queue.push(0, Ready::new(7, 0));
        queue
    }

    /// A worker comes, exchanges something or not, and goes dry.
    fn visit(queue: &CustomQueue, exchanged: bool) -> Option<String> {
        let page = queue.come();
        queue.go(Some(page), exchanged, true)
    }

    /// As if it had been so for long.
    fn waits_long(queue: &CustomQueue) {
        let mut desk = queue.desk();
        let doubt = desk.doubt.as_mut().unwrap();
        (doubt.in_vain, doubt.since) = (IN_VAIN, Instant::now().checked_sub(PATIENCE));
    }

    /// Also where nothing was left meanwhile: what was noted before was blamed on it at once.
    #[test]
    fn a_scheduler_that_gave_a_task_out_has_all_the_time_again() {
        for is_left in [true, false] {
            let queue = held_back();
            assert_eq!(visit(&queue, false), None);
            waits_long(&queue);
            if !is_left {
                queue.part(7).clear();
            }
            assert_eq!(visit(&queue, true), None);
            queue.part(7).insert(7, 1);
            assert_eq!(visit(&queue, false), None, "in vain for the first time");
            waits_long(&queue);
            assert!(
                visit(&queue, false)
                    .unwrap()
                    .contains("holds 1 ready task back")
            );
        }
    }

    /// With many workers there was always one at the queues: all of them asked for ever.
    #[test]
    fn of_workers_that_ask_in_turns_without_end_none_keeps_a_scheduler_from_being_found_out() {
        let queue = held_back();
        let mut last = queue.come();
        let mut next = || {
            let page = queue.come();
            queue.go(Some(std::mem::replace(&mut last, page)), false, true)
        };
        assert!((0..3).all(|_| next().is_none()));
        waits_long(&queue);
        assert_eq!(next(), None, "one that was busy then may have got it");
        let fault = (0..3).find_map(|_| next());
        assert!(fault.unwrap().contains("holds 1 ready task back"));
    }

    #[test]
    fn while_a_worker_has_a_task_its_scheduler_may_keep_the_others() {
        let queue = held_back();
        let works = queue.come();
        assert!((0..3).all(|_| visit(&queue, false).is_none()));
        assert_eq!(queue.desk().doubt.as_ref().unwrap().in_vain, 0);
        // It comes back with nothing: from now on nobody has one.
        assert_eq!(queue.go(Some(works), false, true), None);
        let next = queue.come();
        waits_long(&queue);
        assert!(
            (0..3).all(|_| visit(&queue, false).is_none()),
            "has got one"
        );
        assert_eq!(queue.go(Some(next), true, true), None);
        assert!(queue.desk().doubt.as_ref().unwrap().in_vain <= 1);
    }

    /// A scheduler was said to hand out twice what a wrong space had fed twice.
    #[test]
    fn what_was_pushed_twice_may_be_taken_twice_and_no_more() {
        struct Endless;

        impl ReadyQueue for Endless {
            fn push(&self, _: usize, _: Ready) {}
            fn take(&self, _: usize) -> Option<Ready> {
                Some(Ready::new(7, 0))
            }
            fn is_empty(&self) -> bool {
                false
            }
        }

        let queue = CustomQueue::new("endless", Box::new(Endless));
        (0..2).for_each(|_| queue.push(0, Ready::new(7, 0)));
        assert_eq!(
            [0, 1, 2].map(|worker| queue.take(worker)),
            [Some(7), Some(7), None]
        );
        assert!(queue.is_faulty());
    }

    #[test]
    fn a_scheduler_that_says_that_something_is_queued_when_nothing_is_left_is_found_out() {
        let queue = held_back();
        queue.part(7).clear();
        assert_eq!(visit(&queue, false), None);
        waits_long(&queue);
        assert!(visit(&queue, false).unwrap().contains("has handed out all"));
    }
}
