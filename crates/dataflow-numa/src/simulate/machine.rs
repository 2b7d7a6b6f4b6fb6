//! Machine: workers in virtual time, on real lanes.
//!
//! An event is the end of a task. Its worker does what the engine does: it keeps the most urgent
//! task that became ready, if the policy places it here and nothing queued is more urgent, and
//! queues the others; then it takes from its lane, then steals. After it, idle workers that may
//! take what was queued try, the nearest first, as the sleep protocol would wake them.
//!
//! # Law
//! Simultaneous events are in the order in which they were made. A play ends, also if a user's scheduler
//! does not give its tasks out: then with what it did wrong.

use crate::crew::Crew;
use crate::policy::Policy;
use crate::queue::{Backlog, Habits, IN_VAIN, KeepingLane, Kit, Queues};
use crate::sleep::{Risen, Wards};
use crate::statistics::{Counters, WorkerStatistics};
use dataflow_core::port::{Best, Lane, Next, Ready, Word};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What workers run.
pub(super) trait Script {
    /// The tasks that are ready at the beginning.
    fn roots(&mut self, ready: &mut Vec<Ready>);

    /// A worker begins a task: how many seconds it takes.
    fn begin(&mut self, word: Word, by: Beginner<'_>) -> f64;

    /// It is done: what became ready.
    fn end(&mut self, word: Word, numa_node: usize, ready: &mut Vec<Ready>);
}

/// Who begins a task, and when.
pub(super) struct Beginner<'b> {
    pub worker: usize,
    pub numa_node: usize,
    pub counters: &'b Counters,
    /// Seconds.
    pub now: f64,
    /// Whether it took it from another's queue.
    pub stole: bool,
}

/// What a script cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Played {
    pub seconds: f64,
    /// Of all workers together.
    pub busy: f64,
    pub tasks: u64,
}

/// Workers, their queues and their counts.
pub(super) struct VirtualMachine<'m> {
    crew: &'m Crew,
    policy: &'m Policy,
    queues: Queues,
    wards: Wards,
    counters: Vec<Counters>,
    round: f64,
}

/// Nobody sleeps in a simulation.
pub(super) struct NoBacklog;

impl Backlog for NoBacklog {
    fn has_words_on(&self, _: usize) -> bool {
        false
    }

    fn has_mail(&self) -> bool {
        false
    }
}

impl<'m> VirtualMachine<'m> {
    pub fn new(crew: &'m Crew, policy: &'m Policy, round: f64) -> Self {
        let counters = |_| Counters::new(crew.n_numa_nodes());
        VirtualMachine {
            crew,
            policy,
            queues: Queues::new(policy, crew),
            wards: Wards::new(crew, true),
            counters: (0..crew.n_workers()).map(counters).collect(),
            round,
        }
    }

    pub fn statistics(&self) -> impl Iterator<Item = WorkerStatistics> + '_ {
        let read = |(worker, counters): (usize, &Counters)| counters.read(worker, self.crew);
        self.counters.iter().enumerate().map(read)
    }

    /// Plays a script to its end.
    ///
    /// # Errors
    /// What a user's scheduler did wrong.
    pub fn play(&mut self, script: &mut dyn Script) -> Result<Played, String> {
        let kit = |worker| {
            let counters = &self.counters[worker];
            let crew = self.crew;
            let kit = Kit::new(worker, crew, self.policy, &self.wards, counters, &NoBacklog);
            kit.simulated(Habits::default())
        };
        let kits: Vec<Kit> = (0..self.crew.n_workers()).map(kit).collect();
        let open = |kit| self.queues.open(kit, Risen::Free);
        let mut lanes: Vec<_> = kits.iter().map(open).collect();
        let keep = self.policy.keep;
        let keeping = lanes
            .iter_mut()
            .map(|lane| KeepingLane::new(lane.as_lane(), keep));
        let n_nodes = self.crew.n_numa_nodes();
        let mut playing = Playing {
            machine: self,
            script,
            lanes: keeping.collect(),
            takers: (0..n_nodes).map(|node| self.crew.takers(node)).collect(),
            idle: vec![Vec::new(); n_nodes],
            polls: vec![false; self.crew.n_workers()],
            events: BinaryHeap::new(),
            made: 0,
            now: 0.0,
            stole: false,
            running: 0,
            in_vain: 0,
            fault: None,
            played: Played::default(),
        };
        playing.play();
        match playing.fault.or_else(|| self.queues.at_rest()) {
            Some(fault) => Err(fault),
            None => Ok(playing.played),
        }
    }
}

/// A moment in virtual time; moments are ordered by time, then by when they were made.
#[derive(Clone, Copy, Debug)]
struct Event {
    time: f64,
    made: u64,
    worker: usize,
    /// The task that ends; none: an idle worker looks again.
    ends: Option<Word>,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_time = self.time.total_cmp(&other.time);
        by_time.then(self.made.cmp(&other.made))
    }
}

/// A machine while it plays.
struct Playing<'s, 'm, 'l> {
    machine: &'s VirtualMachine<'m>,
    script: &'s mut dyn Script,
    lanes: Vec<KeepingLane<'l>>,
    /// By NUMA node: the nodes whose workers may take from it, the nearest first.
    takers: Vec<Vec<usize>>,
    /// By NUMA node: its idle workers, the latest last.
    idle: Vec<Vec<usize>>,
    /// By worker: whether it will look again by itself.
    polls: Vec<bool>,
    events: BinaryHeap<Reverse<Event>>,
    made: u64,
    now: f64,
    /// Whether what the last worker found was another's.
    stole: bool,
    /// Tasks that have begun and not ended.
    running: usize,
    /// How often workers have found nothing since the last one ran.
    in_vain: usize,
    /// What a user's scheduler did wrong.
    fault: Option<String>,
    played: Played,
}

impl Playing<'_, '_, '_> {
    fn play(&mut self) {
        let n_workers = self.machine.crew.n_workers();
        // The last to fall asleep is the first to be woken: worker 0.
        for worker in (0..n_workers).rev() {
            let node = self.node_of(worker);
            self.idle[node].push(worker);
        }
        let mut ready = Vec::new();
        self.script.roots(&mut ready);
        for root in ready.drain(..) {
            self.lanes[0].share_ready(root);
        }
        self.wake();
        while let Some(Reverse(event)) = self.events.pop()
            && self.fault.is_none()
        {
            self.now = event.time;
            let next = match event.ends {
                Some(word) => self.end(event.worker, word, &mut ready),
                None => {
                    self.polls[event.worker] = false;
                    let node = self.node_of(event.worker);
                    let idle = &mut self.idle[node];
                    let Some(place) = idle.iter().position(|&worker| worker == event.worker) else {
                        // It was woken meanwhile.
                        continue;
                    };
                    idle.remove(place);
                    None
                }
            };
            let next = next.or_else(|| self.look(event.worker));
            self.go_on(event.worker, next);
            self.wake();
        }
    }

    fn node_of(&self, worker: usize) -> usize {
        self.machine.crew.numa_node(worker)
    }

    /// Ends a task. Answers the one to run next, if it is in hand: the engine's own choice.
    fn end(&mut self, worker: usize, word: Word, ready: &mut Vec<Ready>) -> Option<Word> {
        self.played.seconds = self.now;
        self.running -= 1;
        let numa_node = self.node_of(worker);
        self.script.end(word, numa_node, ready);
        self.stole = false;
        let lane = &mut self.lanes[worker];
        let mut best = Best::new();
        for ready in ready.drain(..) {
            let goes_elsewhere = lane.goes_elsewhere(ready.hint);
            let offered = best.offer(ready, ready.priority, goes_elsewhere);
            if let Some((other, _)) = offered.queued() {
                lane.push_ready(other);
            }
        }
        match best.next(lane)? {
            Next::Runs(best) => Some(best.word),
            Next::Queued(best, _) => {
                lane.push_ready(best);
                None
            }
        }
    }

    /// What an idle worker finds.
    fn look(&mut self, worker: usize) -> Option<Word> {
        let lane = &mut self.lanes[worker];
        let counters = &self.machine.counters[worker];
        let before = counters.all_steals();
        let found = lane.pop().or_else(|| lane.steal());
        self.stole = counters.all_steals() > before;
        if found.is_none() && self.fault.is_none() {
            self.fault = lane.fault();
        }
        self.in_vain = match found.is_some() || self.running > 0 {
            true => 0,
            false => self.in_vain + 1,
        };
        if self.in_vain == IN_VAIN as usize * self.lanes.len() {
            self.fault = self.machine.queues.at_rest();
        }
        found
    }

    /// Begins a task, or idles.
    fn go_on(&mut self, worker: usize, next: Option<Word>) {
        let numa_node = self.node_of(worker);
        let (pause, ends) = match next {
            Some(word) => {
                let counters = &self.machine.counters[worker];
                counters.count_tasks(1);
                let by = Beginner {
                    worker,
                    numa_node,
                    counters,
                    now: self.now,
                    stole: self.stole,
                };
                let seconds = self.script.begin(word, by);
                self.played.busy += seconds;
                self.played.tasks += 1;
                self.running += 1;
                (seconds, next)
            }
            None => {
                self.idle[numa_node].push(worker);
                let VirtualMachine { queues, crew, .. } = self.machine;
                // It has patience left; otherwise it would have taken something.
                let waits = !self.polls[worker] && queues.has_words_for(worker, crew);
                if !waits {
                    return;
                }
                self.polls[worker] = true;
                (self.machine.round.max(f64::MIN_POSITIVE), None)
            }
        };
        self.made += 1;
        self.events.push(Reverse(Event {
            time: self.now + pause,
            made: self.made,
            worker,
            ends,
        }));
    }

    /// Lets idle workers try for what is queued where they may take it.
    fn wake(&mut self) {
        for node in 0..self.takers.len() {
            for place in 0..self.takers[node].len() {
                let home = self.takers[node][place];
                while !self.idle[home].is_empty() && self.has_words_on(node) {
                    let Some(worker) = self.idle[home].pop() else {
                        break;
                    };
                    let next = self.look(worker);
                    let found = next.is_some();
                    self.go_on(worker, next);
                    if !found {
                        break;
                    }
                }
            }
        }
    }

    fn has_words_on(&self, node: usize) -> bool {
        let VirtualMachine { queues, crew, .. } = self.machine;
        queues.has_words_on(node, crew)
    }
}
