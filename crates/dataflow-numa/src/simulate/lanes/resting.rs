//! Resting: which workers rest, since when, and what each is to do when it asks.

use crate::crew::Crew;
use crate::queue::{IN_VAIN, Queues};
use crate::sync::held;
use std::sync::Mutex;
use std::time::Duration;

/// Who rests.
pub(super) struct Resting {
    /// By NUMA node, the latest last.
    on: Vec<Vec<usize>>,
    sleepers: Vec<RestingWorker>,
    rests: u64,
    /// Who was woken for mail and has not come in.
    for_mail: Option<usize>,
    /// How many have a task, in hand or begun; and how often since one had, one looked in vain.
    n_busy: usize,
    in_vain: usize,
}

/// A worker, whether it rests or not.
#[derive(Clone, Copy, Default)]
pub(super) struct RestingWorker {
    pub rests: bool,
    /// Which rest of all is its last.
    since: u64,
    occupation: Occupation,
    pub since_asked: SinceAsked,
    /// When it looks again by itself.
    pub looks_at: Option<Duration>,
    /// How often it has resolved to look again by itself since it had a task.
    pub looks: u32,
    /// Whether it begins what it was woken for: then all others have just been asked.
    pub was_called: bool,
    /// Whether it has got or queued a task since it last rested or waited.
    pub has_exchanged: bool,
}

/// What a worker does.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Occupation {
    #[default]
    Nothing,
    /// It has a task, in hand or begun.
    Task,
    /// Time is about to pass for it because it waits inside for others.
    Waits,
}

/// What a worker has done since it last asked what to do; the last that is true.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SinceAsked {
    #[default]
    Nothing,
    /// It was only woken to be told when to look again.
    WasTold,
    /// It has been inside, and looked or queued something.
    HasLooked,
}

/// For whom time is about to pass.
pub(super) enum Begins {
    /// Who was woken for this task: all others have just been asked.
    WhatItWasCalledFor,
    ATask,
    /// Who waits inside; whether it has got or queued a task since it last did.
    ToWait {
        has_exchanged: bool,
    },
}

impl Resting {
    /// The last to rest is the first to be woken: worker 0.
    pub fn all(crew: &Crew) -> Self {
        let n_workers = crew.n_workers();
        let mut resting = Resting {
            on: vec![Vec::new(); crew.n_numa_nodes()],
            sleepers: vec![RestingWorker::default(); n_workers],
            rests: 0,
            for_mail: None,
            n_busy: 0,
            in_vain: 0,
        };
        for worker in (0..n_workers).rev() {
            resting.lies_down(worker, crew.numa_node(worker));
        }
        resting
    }

    pub fn of(&mut self, worker: usize) -> &mut RestingWorker {
        &mut self.sleepers[worker]
    }

    pub fn has_none(&self) -> bool {
        self.on.iter().all(Vec::is_empty)
    }

    pub fn has_one_on(&self, node: usize) -> bool {
        !self.on[node].is_empty()
    }

    pub fn lies_down(&mut self, worker: usize, node: usize) {
        self.for_mail = self.for_mail.filter(|&called| called != worker);
        self.rests += 1;
        let sleeper = &mut self.sleepers[worker];
        (sleeper.rests, sleeper.since) = (true, self.rests);
        self.on[node].push(worker);
    }

    /// It comes in; whether only for roots, as all do at the beginning: then it rests on until it has begun
    /// a task.
    pub fn comes_in(&mut self, worker: usize, node: usize, is_first: bool) -> bool {
        self.for_mail = self.for_mail.filter(|&called| called != worker);
        let for_roots = is_first && self.sleepers[worker].rests;
        if !for_roots {
            self.has_looked(worker);
            self.gets_up(worker, node);
        }
        for_roots
    }

    /// It has begun a task, or waits.
    pub fn begins(&mut self, worker: usize, node: usize) -> Begins {
        let waits = self.sleepers[worker].occupation == Occupation::Waits;
        self.is_busy(worker, !waits);
        self.gets_up(worker, node);
        let sleeper = &mut self.sleepers[worker];
        match std::mem::take(&mut sleeper.was_called) {
            true => Begins::WhatItWasCalledFor,
            false if waits => Begins::ToWait {
                has_exchanged: std::mem::take(&mut sleeper.has_exchanged),
            },
            false => Begins::ATask,
        }
    }

    /// What is queued has changed, and no worker that was asked got any of it: all that rest look at the
    /// next of their rounds. Those to tell, in the order in which they came to rest.
    pub fn look_at_next_round(&mut self, now: Duration, round: Duration) -> Vec<usize> {
        let mut told = Vec::new();
        for &worker in self.on.iter().flatten() {
            let sleeper = &mut self.sleepers[worker];
            let looks_at = match sleeper.looks_at {
                Some(at) if at.saturating_sub(now) <= round => continue,
                // Its rounds go on while it does not look.
                Some(at) => now + remainder(at - now, round),
                None => now.saturating_add(round),
            };
            sleeper.looks_at = Some(looks_at);
            sleeper.since_asked = sleeper.since_asked.max(SinceAsked::WasTold);
            told.push(worker);
        }
        told.sort_by_key(|&worker| self.sleepers[worker].since);
        told
    }

    /// Whether it has a task, in hand or begun.
    pub fn is_busy(&mut self, worker: usize, is_so: bool) {
        match is_so {
            true => {
                self.does(worker, Occupation::Task);
                self.in_vain = 0;
                self.sleepers[worker].looks = 0;
            }
            false => self.does(worker, Occupation::Nothing),
        }
    }

    /// It waits inside for others, and time is about to pass.
    pub fn waits(&mut self, worker: usize) {
        self.does(worker, Occupation::Waits);
    }

    fn does(&mut self, worker: usize, now: Occupation) {
        let before = std::mem::replace(&mut self.sleepers[worker].occupation, now);
        let is_busy = |occupation| usize::from(occupation == Occupation::Task);
        self.n_busy = self.n_busy + is_busy(now) - is_busy(before);
    }

    /// It has looked or queued something.
    pub fn has_looked(&mut self, worker: usize) {
        self.sleepers[worker].since_asked = SinceAsked::HasLooked;
    }

    /// It asks what to do: how it was before.
    pub fn asks(&mut self, worker: usize) -> RestingWorker {
        let sleeper = &mut self.sleepers[worker];
        let before = *sleeper;
        (sleeper.since_asked, sleeper.has_exchanged) = (SinceAsked::Nothing, false);
        before
    }

    pub fn gets_up(&mut self, worker: usize, node: usize) {
        let sleeper = &mut self.sleepers[worker];
        if std::mem::take(&mut sleeper.rests) {
            self.on[node].retain(|&other| other != worker);
        }
    }

    /// Who is to be woken because something has come by mail: the worker that rests shortest gets up,
    /// unless another is under way.
    pub fn one_for_mail(&mut self, crew: &Crew) -> Option<usize> {
        if self.for_mail.is_some() {
            return None;
        }
        let last = self.on.iter().filter_map(|on| on.last().copied());
        let latest = last.max_by_key(|&worker| self.sleepers[worker].since)?;
        self.gets_up(latest, crew.numa_node(latest));
        self.for_mail = Some(latest);
        Some(latest)
    }

    /// All that rest get up.
    pub fn all_up(&mut self) -> Vec<usize> {
        let all = self.on.concat();
        self.on.iter_mut().for_each(Vec::clear);
        for &worker in &all {
            self.sleepers[worker].rests = false;
        }
        all
    }

    /// The latest to rest on a NUMA node gets up.
    pub fn last_on(&mut self, node: usize) -> Option<usize> {
        let worker = self.on[node].pop()?;
        self.sleepers[worker].rests = false;
        Some(worker)
    }
}

/// A worker has looked in vain: what is wrong, if anything is; one that rests comes in for it. While a
/// task runs, or will, that is lawful.
pub(super) fn looked_in_vain(resting: &Mutex<Resting>, queues: &Queues) -> Option<String> {
    let mut resting = held(resting);
    if resting.n_busy > 0 {
        return None;
    }
    resting.in_vain += 1;
    let is_long = resting.in_vain >= IN_VAIN as usize * resting.sleepers.len();
    drop(resting);
    queues.at_rest(is_long)
}

/// What is left of a time after whole rounds, of which it is longer than one.
fn remainder(time: Duration, round: Duration) -> Duration {
    let left = time.as_nanos() % round.as_nanos();
    // Shorter than the round.
    round.min(Duration::from_nanos(
        u64::try_from(left).unwrap_or(u64::MAX),
    ))
}
