//! Machine: an engine's workers in virtual time, on real lanes.
//!
//! When it is a worker's turn, the engine ends the task that it has begun, if it has, and begins the next,
//! whose body does no more than to say how long it takes. Once that has passed it is its turn again. Who
//! finds no task rests until its [lanes](Lanes) wake it.
//!
//! # Law
//! Simultaneous turns are in the order in which they were made. A run ends, also if a user's scheduler
//! does not give its tasks out: then with what it did wrong.

use super::lanes::{Lanes, Rest};
use crate::sync::held;
use dataflow_core::phantom::Land;
use dataflow_core::port::{Executor, Job, Lane, Stay};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Workers, their queues, and where data lie; for one run.
pub(super) struct VirtualMachine {
    lanes: Lanes,
    /// By slot: on which NUMA node its datum lies.
    homes: Vec<Option<usize>>,
    course: Arc<Mutex<Course>>,
}

/// What has happened so far.
#[derive(Clone, Default)]
pub(super) struct Course {
    /// Since the run began.
    now: Duration,
    /// The worker whose turn it is.
    acts: usize,
    /// What the task takes that it has just begun.
    takes: Duration,
    /// When the last task ended.
    pub ended: Duration,
    /// By class of tasks: what all have taken, and how many they are.
    pub spent: Vec<(Duration, u64)>,
}

impl VirtualMachine {
    pub fn new(lanes: Lanes, homes: Vec<Option<usize>>) -> Self {
        VirtualMachine {
            lanes,
            homes,
            course: Arc::default(),
        }
    }

    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// How its run went.
    pub fn course(&self) -> Course {
        self.here_and_now().clone()
    }

    /// Nanoseconds since the run began, for observers that look at the clock.
    pub fn clock(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let course = self.course.clone();
        move || u64::try_from(held(&course).now.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The body of a task of this class takes so long, and longer by what its inputs do.
    pub fn spend(&self, class: usize, time: Duration) {
        let mut course = self.here_and_now();
        course.takes = course.takes.saturating_add(time);
        let takes = course.takes;
        if course.spent.len() <= class {
            course.spent.resize(class + 1, (Duration::ZERO, 0));
        }
        let (all, tasks) = &mut course.spent[class];
        (*all, *tasks) = (all.saturating_add(takes), *tasks + 1);
    }

    fn here_and_now(&self) -> MutexGuard<'_, Course> {
        held(&self.course)
    }

    /// The turn of a worker that is inside of the job or not: it begins a task or rests.
    fn turn(&self, worker: usize, job: &Arc<Job>, at: &mut WorkerState, agenda: &mut Agenda) {
        let now = agenda.now;
        loop {
            if at.stay.is_none() {
                if at.has_been_inside {
                    let mut wake = |woken| agenda.wakes(woken);
                    let rest = self.lanes.rest(worker, now, job.is_over(), &mut wake);
                    if let Rest::Sleeps(at_most) = rest {
                        if let Some(time) = at_most {
                            agenda.sleeps(worker, time);
                        }
                        return;
                    }
                }
                at.has_been_inside = true;
                at.stay = job.enter_to_stay();
            }
            let Some(inside) = &at.stay else { return };
            let mut has_begun = false;
            let mut visit = |lane: &mut dyn Lane| has_begun = inside.begin_next(lane);
            if let Some(fault) = self.lanes.lend(worker, &mut visit) {
                inside.refuse(fault);
            }
            if has_begun {
                self.lanes
                    .pass(worker, now, &mut |woken| agenda.wakes(woken));
                let takes = std::mem::take(&mut self.here_and_now().takes);
                return agenda.sleeps(worker, takes);
            }
            at.stay = None;
        }
    }

    /// No task runs, and nobody finds one: if a user's scheduler is to blame, the run ends.
    fn is_at_rest(&self, job: &Job) {
        if let Some(fault) = self.lanes.at_rest()
            && let Some(inside) = job.enter()
        {
            inside.refuse(fault);
        }
    }
}

impl Executor for VirtualMachine {
    fn n_workers(&self) -> usize {
        self.lanes.n_workers()
    }

    fn execute(&self, job: &Arc<Job>) {
        let n_workers = self.n_workers();
        let mut states: Vec<WorkerState> = (0..n_workers).map(|_| WorkerState::default()).collect();
        let mut agenda = Agenda::new(n_workers);
        while !job.is_over() {
            let Some(worker) = agenda.next() else {
                return self.is_at_rest(job);
            };
            let state = &mut states[worker];
            let mut course = self.here_and_now();
            (course.now, course.acts) = (agenda.now, worker);
            if state.stay.is_some() {
                course.ended = agenda.now;
            }
            drop(course);
            self.turn(worker, job, state, &mut agenda);
        }
    }
}

impl Land for VirtualMachine {
    fn here(&self) -> Option<usize> {
        Some(self.lanes.numa_node(self.here_and_now().acts))
    }

    fn home(&self, slot: usize) -> Option<usize> {
        *self.homes.get(slot)?
    }

    fn reads(&self, inputs: &[(usize, u64)]) {
        let mut course = self.here_and_now();
        course.takes = self.lanes.begins(course.acts, inputs);
    }
}

/// What belongs to a worker.
#[derive(Default)]
struct WorkerState {
    /// While it has begun a task.
    stay: Option<Stay>,
    /// Once it has looked for roots.
    has_been_inside: bool,
}

/// Whose turn is when.
struct Agenda {
    turns: BinaryHeap<Reverse<(TurnTime, usize)>>,
    /// By worker: its next turn; others are forgotten.
    next: Vec<Option<TurnTime>>,
    made: u64,
    now: Duration,
}

/// When; whether it was not woken for it, since the worker that was comes first; and the how many-eth it is.
type TurnTime = (Duration, bool, u64);

impl Agenda {
    /// All look for roots.
    fn new(n_workers: usize) -> Self {
        let mut agenda = Agenda {
            turns: BinaryHeap::new(),
            next: vec![None; n_workers],
            made: 0,
            now: Duration::ZERO,
        };
        (0..n_workers).for_each(|worker| agenda.sleeps(worker, Duration::ZERO));
        agenda
    }

    /// Whose turn it is, and from now on when; nobody's if all rest.
    fn next(&mut self) -> Option<usize> {
        while let Some(Reverse((turn, worker))) = self.turns.pop() {
            if self.next[worker] == Some(turn) {
                self.next[worker] = None;
                self.now = turn.0;
                return Some(worker);
            }
        }
        None
    }

    /// It is a worker's turn after so long, or when it is woken.
    fn sleeps(&mut self, worker: usize, time: Duration) {
        self.add(worker, (self.now.saturating_add(time), true));
    }

    /// It is a worker's turn at once, unless it has been woken before.
    fn wakes(&mut self, worker: usize) {
        if self.next[worker].is_none_or(|(time, is_unasked, _)| time > self.now || is_unasked) {
            self.add(worker, (self.now, false));
        }
    }

    fn add(&mut self, worker: usize, (time, is_unasked): (Duration, bool)) {
        self.made += 1;
        let turn = (time, is_unasked, self.made);
        self.next[worker] = Some(turn);
        self.turns.push(Reverse((turn, worker)));
    }
}
