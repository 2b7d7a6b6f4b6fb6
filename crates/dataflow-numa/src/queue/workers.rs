//! Workers: the lane of a worker with queues of its own.
//!
//! Every worker has a deque: it pushes and pops at one end, last in, first out, and thieves take
//! the oldest from the other. It holds tasks of priority 0 that were made ready here. All others
//! are in priority queues: those made ready here in the worker's own, those placed on its NUMA
//! node from elsewhere in the node's.
//!
//! # Law
//! Of its own and its node's a worker takes first what is more urgent than 0, then its deque,
//! then the rest; of equals its own. So one worker alone honours priorities exactly, of what is queued. Every few microseconds, at
//! each task if tasks are longer than that, it glances at some neighbours and helps with what is more
//! urgent than all it has.
//! It steals ring by ring, the nearest first, beginning elsewhere each time: half of what it finds
//! with a neighbour on its own NUMA node, one task from farther away, where tasks lie for their
//! data's sake.
//!
//! # Cost
//! Until a job queues its first task with a priority or a place, a push is a few stores and a pop
//! one more load than the deque's own.
//!
//! # Source
//! Queues per worker that are looked into at random keep priorities nearly as well as one for
//! all: Rihani, Sanders, Dementiev, *MultiQueues*, SPAA 2015.

use super::from;
use super::kit::{Kit, Parting, Visit};
use super::ranked::{EMPTY, Ranked, RankedWord};
use crate::nearest::Ring;
use crate::policy::{Order, Placer};
use crate::sleep::Risen;
use crossbeam_deque::{Steal, Stealer, Worker as Deque};
use crossbeam_utils::CachePadded;
use dataflow_core::port::{Hint, Lane, Ready, Wants, Word};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often a worker glances at its neighbours' queues: some thousandth of a tile task, some
/// ten empty ones.
const GLANCE: Duration = Duration::from_micros(4);
/// Tasks between two glances at most.
const LONGEST_PERIOD: u32 = 64;
/// How often a worker that runs out of tasks looks at neighbours' queues before it leaves the job: some
/// 3 µs. A neighbour's next task often comes sooner, and to leave and to come back takes some ten cache
/// lines away from others.
const LOOKS: usize = 64;
/// Neighbours in one glance at most.
const NEIGHBOURS: usize = 8;

/// The queues of one job: three kinds.
pub(crate) struct WorkerQueues {
    deques: Box<[CachePadded<Mutex<Deque<Word>>>]>,
    stealers: Box<[Stealer<Word>]>,
    own: Box<[CachePadded<Ranked>]>,
    nodes: Box<[CachePadded<Ranked>]>,
    /// Whether anything was ever queued in a priority queue.
    is_ranked: CachePadded<AtomicBool>,
}

impl WorkerQueues {
    pub fn new(n_workers: usize, n_numa_nodes: usize) -> Self {
        let deques: Vec<_> = (0..n_workers).map(|_| Deque::new_lifo()).collect();
        let ranked = |_| CachePadded::new(Ranked::new(Order::Priority));
        WorkerQueues {
            stealers: deques.iter().map(Deque::stealer).collect(),
            deques: deques
                .into_iter()
                .map(|deque| CachePadded::new(Mutex::new(deque)))
                .collect(),
            own: (0..n_workers).map(ranked).collect(),
            nodes: (0..n_numa_nodes).map(ranked).collect(),
            is_ranked: CachePadded::default(),
        }
    }

    pub fn has_words_on(&self, node: usize, workers: &[usize]) -> bool {
        let has_words =
            |&worker: &usize| !self.stealers[worker].is_empty() || !self.own[worker].is_empty();
        !self.nodes[node].is_empty() || workers.iter().any(has_words)
    }

    #[inline(always)]
    fn is_ranked(&self) -> bool {
        // Relaxed: the thread that must see a word is ordered by the sleep protocol, as with `top`.
        self.is_ranked.load(Ordering::Relaxed)
    }

    fn set_ranked(&self) {
        if !self.is_ranked() {
            self.is_ranked.store(true, Ordering::Relaxed);
        }
    }
}

/// A worker's lane to the queues of the job it is in.
pub(crate) struct WorkersLane<'q, 'p> {
    deque: MutexGuard<'q, Deque<Word>>,
    own: &'q Ranked,
    near: &'q Ranked,
    queues: &'q WorkerQueues,
    placer: &'q Placer,
    visit: Visit<'q, 'p>,
    glances: Glances,
    /// On its way from a victim to this worker; empty otherwise.
    loot: Vec<RankedWord>,
    /// Whether it has helped a neighbour since it was last asked.
    helped: bool,
}

impl<'q, 'p> WorkersLane<'q, 'p> {
    /// Opens the lane of the worker with `kit`. The lock on its deque is never waited for, since
    /// no other thread has this kit.
    pub fn open(
        queues: &'q WorkerQueues,
        placer: &'q Placer,
        kit: &'q Kit<'p>,
        risen: Risen,
    ) -> Self {
        let deque = &queues.deques[kit.worker];
        WorkersLane {
            deque: deque
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
            own: &queues.own[kit.worker],
            near: &queues.nodes[kit.numa_node],
            queues,
            placer,
            visit: Visit::begin(kit, risen),
            glances: Glances::new(kit.is_real),
            loot: Vec::new(),
            helped: false,
        }
    }

    pub fn close(self) -> Parting {
        self.visit.end()
    }

    /// The most urgent, wherever it is nearby.
    fn pop_ranked(&mut self) -> Option<Word> {
        if self.visit.has_others
            && self.glances.is_due()
            && let Some(word) = self.help_a_neighbour()
        {
            return Some(word);
        }
        if self.own.top().max(self.near.top()) > 0
            && let Some(word) = self.pop_queues()
        {
            return Some(word);
        }
        if let Some(word) = self.deque.pop() {
            self.visit.found();
            return Some(word);
        }
        self.pop_queues()
    }

    /// From the priority queues.
    fn pop_queues(&mut self) -> Option<Word> {
        let (own, near) = (self.own.top(), self.near.top());
        if near > own
            && let Some(word) = self.near.pop()
        {
            self.visit.found();
            return Some(word);
        }
        if own != EMPTY
            && let Some(word) = self.own.pop()
        {
            self.visit.found();
            return Some(word);
        }
        if near == EMPTY {
            return None;
        }
        let word = self.near.pop()?;
        self.visit.found();
        Some(word)
    }

    /// A task on this NUMA node that is more urgent than all this worker has.
    fn help_a_neighbour(&mut self) -> Option<Word> {
        let kit = self.visit.kit;
        let rest = if self.deque.is_empty() { EMPTY } else { 0 };
        let mine = rest.max(self.own.top()).max(self.near.top());
        let neighbours = &kit.crew.rings(kit.worker).first()?.workers;
        let turn = kit.glance(neighbours.len(), NEIGHBOURS);
        let word = from(neighbours, turn)
            .take(NEIGHBOURS)
            .map(|neighbour| &self.queues.own[neighbour])
            .filter(|queue| queue.top() > mine)
            .find_map(|queue| queue.try_pop_above(mine))?;
        self.visit.stole(kit.numa_node, 1);
        self.helped = true;
        Some(word)
    }

    /// One look at everybody within reach, the nearest ring first.
    fn look_around(&mut self) -> Steal<Word> {
        let kit = self.visit.kit;
        let sweep = kit.sweep();
        let is_ranked = self.queues.is_ranked();
        let mut lost = false;
        for (place, ring) in self.visit.rings().iter().enumerate() {
            if is_ranked && let Some(word) = self.steal_ranked(ring, sweep, 0) {
                return Steal::Success(word);
            }
            for victim in victims(ring, kit, sweep) {
                match self.steal_deque(victim, place == 0) {
                    Steal::Success(word) => return Steal::Success(word),
                    Steal::Retry => lost = true,
                    Steal::Empty => {}
                }
            }
            if is_ranked && let Some(word) = self.steal_ranked(ring, sweep, EMPTY) {
                return Steal::Success(word);
            }
        }
        if lost { Steal::Retry } else { Steal::Empty }
    }

    /// From a worker's deque: half if it is near, else one.
    fn steal_deque(&mut self, victim: usize, is_near: bool) -> Steal<Word> {
        let stealer = &self.queues.stealers[victim];
        let stolen = match is_near {
            true => stealer.steal_batch_and_pop(&self.deque),
            false => stealer.steal(),
        };
        if let Steal::Success(_) = stolen {
            let node = self.visit.kit.crew.numa_node(victim);
            self.visit.stole(node, 1 + self.deque.len());
            if !self.deque.is_empty() {
                self.visit.queued_here();
            }
        }
        stolen
    }

    /// From the priority queues of a ring, if there is something above `rank`.
    fn steal_ranked(&mut self, ring: &Ring, sweep: usize, rank: i64) -> Option<Word> {
        let kit = self.visit.kit;
        for node in from(&ring.queues, sweep) {
            let queue = &self.queues.nodes[node];
            if queue.top() > rank
                && let Some(word) = queue.pop()
            {
                self.visit.stole(node, 1);
                return Some(word);
            }
        }
        for victim in victims(ring, kit, sweep) {
            let queue = &self.queues.own[victim];
            if queue.top() <= rank {
                continue;
            }
            let node = kit.crew.numa_node(victim);
            let word = if node == kit.numa_node {
                queue.take_half(&mut self.loot)
            } else {
                queue.pop()
            };
            if let Some(word) = word {
                self.visit.stole(node, 1 + self.loot.len());
                if !self.loot.is_empty() {
                    self.own.absorb(&mut self.loot);
                    self.visit.queued_here();
                }
                return Some(word);
            }
        }
        None
    }
}

/// The workers of a ring, NUMA node by NUMA node; of its own, beginning behind the thief.
fn victims<'r>(ring: &'r Ring, kit: &Kit<'r>, sweep: usize) -> impl Iterator<Item = usize> + 'r {
    let crew = kit.crew;
    let mine: &[usize] = match ring.queues.is_empty() {
        true => &ring.workers,
        false => &[],
    };
    let me = kit.worker;
    let behind = mine.partition_point(|&other| other <= me);
    let on = move |node| from(crew.workers_on(node), sweep);
    let mine = from(mine, behind + sweep).filter(move |&other| other != me);
    mine.chain(from(&ring.queues, sweep).flat_map(on))
}

impl Lane for WorkersLane<'_, '_> {
    fn worker(&self) -> usize {
        self.visit.kit.worker
    }

    #[inline]
    fn push(&mut self, word: Word, priority: i64) {
        if priority == 0 {
            self.deque.push(word);
        } else {
            self.queues.set_ranked();
            self.own.push(word, priority);
        }
        self.visit.queued_here();
    }

    #[inline]
    fn pop(&mut self) -> Option<Word> {
        if self.queues.is_ranked() {
            return self.pop_ranked();
        }
        let word = self.deque.pop();
        if word.is_some() {
            self.visit.found();
        }
        word
    }

    fn steal(&mut self) -> Option<Word> {
        if self.visit.is_alone {
            self.visit.is_dry();
            return None;
        }
        loop {
            match self.look_around() {
                Steal::Success(word) => return Some(word),
                // Another thief was faster: it has a word now, there may be more.
                Steal::Retry => spin_loop(),
                Steal::Empty => {
                    self.visit.is_dry();
                    return None;
                }
            }
        }
    }

    fn lingers(&mut self) -> bool {
        if !self.visit.lingers() {
            return false;
        }
        let kit = self.visit.kit;
        let neighbours = match kit.crew.rings(kit.worker) {
            [own, ..] => &own.workers[..],
            [] => &[],
        };
        let looks = LOOKS.checked_div(neighbours.len());
        (0..looks.unwrap_or(0)).any(|_| {
            spin_loop();
            self.queues.has_words_on(kit.numa_node, neighbours)
        })
    }

    fn has_helped(&mut self) -> bool {
        std::mem::take(&mut self.helped)
    }

    fn waits(&mut self, in_body: bool) -> bool {
        if in_body {
            self.visit.waits();
        }
        false
    }

    #[inline]
    fn outranks(&self, priority: i64) -> bool {
        (priority < 0 && !self.deque.is_empty())
            || (self.queues.is_ranked() && self.own.top().max(self.near.top()) > priority)
    }

    fn wants(&self) -> Wants {
        self.visit.wants()
    }

    fn push_ready(&mut self, ready: Ready) {
        let node = self.placer.place(ready.hint);
        match node.filter(|&node| node != self.visit.kit.numa_node) {
            None => self.push(ready.word, ready.priority),
            Some(node) => {
                self.queues.set_ranked();
                self.queues.nodes[node].push(ready.word, ready.priority);
                self.visit.kit.queued_on(node);
            }
        }
    }

    fn goes_elsewhere(&self, hint: Hint) -> bool {
        self.placer.goes_elsewhere(hint, self.visit.kit.numa_node)
    }

    fn reads(&mut self, numa_node: usize, bytes: u64) -> bool {
        self.visit.reads(numa_node, bytes)
    }
}

/// When to glance at the neighbours: often enough for their urgent tasks, seldom enough for
/// one's own.
struct Glances {
    /// Tasks until the next one, and between two.
    left: u32,
    period: u32,
    /// The time of the last one; `None` in a simulation, where every task is long.
    last: Option<Instant>,
}

impl Glances {
    fn new(is_real: bool) -> Self {
        Glances {
            left: 1,
            period: 1,
            last: is_real.then(Instant::now),
        }
    }

    #[inline]
    fn is_due(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.adapt();
        self.left = self.period;
        true
    }

    fn adapt(&mut self) {
        let Some(last) = &mut self.last else { return };
        let now = Instant::now();
        let since = now.duration_since(*last);
        *last = now;
        if since < GLANCE {
            self.period = (2 * self.period).min(LONGEST_PERIOD);
        } else if since > 2 * GLANCE {
            self.period = (self.period / 2).max(1);
        }
    }
}
