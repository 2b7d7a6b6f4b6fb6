//! Kit: what a worker brings to every job, and what it has to see to while it is inside.

use crate::crew::Crew;
use crate::nearest::Ring;
use crate::policy::Policy;
use crate::sleep::{Risen, Sleep, Wards};
use crate::statistics::Counters;
use dataflow_core::port::Wants;
use std::cell::Cell;

/// Knows whether words are queued, or mail waits, for jobs that are not over; may take locks.
pub(crate) trait Backlog {
    /// Whether a word lies on the NUMA node, as far as the calling thread can see.
    fn has_words_on(&self, numa_node: usize) -> bool;
    /// Whether there is mail: the worker that was woken for it may have taken a word instead.
    fn has_mail(&self) -> bool;
}

/// What a worker brings to every job.
pub(crate) struct Kit<'p> {
    pub worker: usize,
    pub numa_node: usize,
    pub crew: &'p Crew,
    pub policy: &'p Policy,
    pub counters: &'p Counters,
    pub backlog: &'p dyn Backlog,
    /// Time passes as the machine's does; not so in a simulation.
    pub is_real: bool,
    /// It stays for a moment where it runs out of tasks: it keeps nobody from its core.
    lingers: bool,
    /// It takes from everybody, whatever the policy says: it has waited in vain for what is within reach.
    pub takes_all: bool,
    wards: &'p Wards,
    /// Those that may take what lies here are in this ward, or in one of several.
    ward: &'p Sleep,
    is_only_ward: bool,
    /// What it has from one visit to the next.
    habits: Cell<Habits>,
}

/// What a worker remembers of its visits: how they go on from the last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// Rounds without a task so far.
    idle: u32,
    /// Sweeps over others' queues.
    sweeps: usize,
    /// With which of its neighbours the next glance begins.
    glance: usize,
}

impl<'p> Kit<'p> {
    pub fn new(
        worker: usize,
        crew: &'p Crew,
        policy: &'p Policy,
        wards: &'p Wards,
        counters: &'p Counters,
        backlog: &'p dyn Backlog,
    ) -> Self {
        let numa_node = crew.numa_node(worker);
        Kit {
            worker,
            numa_node,
            crew,
            policy,
            counters,
            backlog,
            is_real: true,
            lingers: true,
            takes_all: false,
            wards,
            ward: wards.of(numa_node),
            is_only_ward: wards.is_one(),
            habits: Cell::default(),
        }
    }

    /// The same of a worker that stays for a moment where it runs out of tasks, or does not.
    pub fn lingering(self, lingers: bool) -> Self {
        Kit { lingers, ..self }
    }

    /// The kit of a worker whose visits are simulated, as it was left.
    pub fn simulated(self, habits: Habits) -> Self {
        Kit {
            is_real: false,
            lingers: false,
            habits: Cell::new(habits),
            ..self
        }
    }

    /// How it is left.
    pub fn habits(&self) -> Habits {
        self.habits.get()
    }

    /// The ward in which this worker sleeps.
    pub fn ward(&self) -> &'p Sleep {
        self.ward
    }

    /// A word was queued on this worker's NUMA node (P2 to P4 of the sleep protocol).
    #[inline(always)]
    pub fn queued_here(&self) {
        if self.is_only_ward {
            self.ward.queued(self.numa_node);
        } else {
            self.wards.queued(self.numa_node);
        }
    }

    /// A word was queued on a NUMA node.
    pub fn queued_on(&self, numa_node: usize) {
        self.wards.queued(numa_node);
    }

    /// This worker has something to do, and what it was called for is another's.
    #[cold]
    pub fn gets_busy(&self, risen: Risen) -> Risen {
        match risen {
            Risen::Free => {}
            Risen::OnDuty => self.end_duty(),
            Risen::ForMail => self.pass_mail_on(),
        }
        Risen::Free
    }

    /// It was on duty (D1 to D3).
    fn end_duty(&self) {
        let has_words = |&node: &usize| self.backlog.has_words_on(node);
        if self.is_only_ward {
            let any = || (0..self.crew.n_numa_nodes()).any(|node| has_words(&node));
            let more = || self.backlog.has_mail() || any();
            return self.ward.end_duty(self.numa_node, more);
        }
        self.ward.end_duty(self.numa_node, || false);
        for node in self.crew.reach(self.worker).filter(has_words) {
            self.wards.queued(node);
        }
        self.pass_mail_on();
    }

    /// There may be mail still that it was called for (D4).
    fn pass_mail_on(&self) {
        if self.backlog.has_mail() {
            self.wards.wake_for_mail();
        }
    }

    /// Begins a sweep over others' queues; the first begins behind this worker, each one place later.
    pub fn sweep(&self) -> usize {
        let mut habits = self.habits.get();
        let sweep = habits.sweeps;
        habits.sweeps = sweep.wrapping_add(1);
        self.habits.set(habits);
        sweep
    }

    /// Where in a list of `n` neighbours a glance at so many begins.
    pub fn glance(&self, n: usize, at_most: usize) -> usize {
        let mut habits = self.habits.get();
        let begin = habits.glance;
        habits.glance = (begin + at_most.min(n)).checked_rem(n).unwrap_or(0);
        self.habits.set(habits);
        begin
    }

    /// How many rounds it has been idle, one more than before, or again from the first.
    fn idle_round(&self, anew: bool, at_most: u32) -> u32 {
        let mut habits = self.habits.get();
        let idle = if anew { 0 } else { habits.idle };
        habits.idle = at_most.min(idle.saturating_add(1));
        self.habits.set(habits);
        idle
    }

    /// It leaves in the midst of its work: its next idle round is the first.
    fn is_busy(&self) {
        let mut habits = self.habits.get();
        habits.idle = 0;
        self.habits.set(habits);
    }
}

/// How a worker leaves a job.
pub(crate) struct Parting {
    /// Whether it is still on duty.
    pub risen: Risen,
    /// There was nothing to take; otherwise the job itself told it to leave.
    pub dry: bool,
    /// What a user's scheduler did wrong: then the job is to be stopped.
    pub fault: Option<String>,
}

/// A worker's visit to a job.
pub(crate) struct Visit<'s, 'p> {
    pub kit: &'s Kit<'p>,
    pub has_others: bool,
    /// There is no queue but those that it pops from.
    pub is_alone: bool,
    /// As in the kit, or until it has found a task.
    takes_all: bool,
    risen: Risen,
    /// Whether the last look found nothing to take.
    dry: bool,
    /// Whether a task was taken since the last time that one was looked for elsewhere; then it is
    /// not on duty.
    busy: bool,
    /// Whether one was, when that was done last.
    was_busy: bool,
}

impl<'s, 'p> Visit<'s, 'p> {
    pub fn begin(kit: &'s Kit<'p>, risen: Risen) -> Self {
        Visit {
            kit,
            has_others: kit.crew.n_workers() > 1,
            is_alone: kit.crew.n_workers() == 1 && kit.crew.n_numa_nodes() == 1,
            takes_all: kit.takes_all,
            risen,
            dry: false,
            busy: false,
            was_busy: false,
        }
    }

    pub fn end(self) -> Parting {
        if self.busy {
            self.kit.is_busy();
        }
        Parting {
            risen: self.risen,
            dry: self.dry,
            fault: None,
        }
    }

    #[inline(always)]
    pub fn queued_here(&self) {
        if self.has_others {
            self.kit.queued_here();
        }
    }

    /// A task was taken, from wherever: it may have come by mail into this worker's own queue.
    #[inline(always)]
    pub fn found(&mut self) {
        if !self.busy {
            self.becomes_busy();
        }
    }

    /// The first task since one was looked for elsewhere, or at all: duty ends, and the call for mail.
    #[cold]
    fn becomes_busy(&mut self) {
        (self.busy, self.dry) = (true, false);
        if self.risen != Risen::Free {
            self.risen = self.kit.gets_busy(self.risen);
        }
    }

    /// What its lane wants to be told: on one NUMA node nothing.
    pub fn wants(&self) -> Wants {
        match self.kit.crew.n_numa_nodes() {
            1 => Wants::Priorities,
            _ => Wants::Places,
        }
    }

    /// Bytes that lie on a NUMA node are about to be read; says whether they are near. Data may
    /// name a node that does not exist: then they are far.
    pub fn reads(&self, numa_node: usize, bytes: u64) -> bool {
        self.kit.counters.count_bytes(numa_node, bytes);
        numa_node == self.kit.numa_node
    }

    /// So many words were taken from a NUMA node's queue, or from another worker's there.
    pub fn stole(&mut self, from: usize, words: usize) {
        self.kit.counters.count_steals(from, words as u64);
        self.found();
    }

    /// The rings into which an idle worker may look this time: all within reach, once its patience is
    /// at an end. Who has waited in vain has none left, and no reach: those who might come for it may wait, too.
    pub fn rings(&mut self) -> &'s [Ring] {
        let (anew, patience) = (std::mem::take(&mut self.busy), self.kit.policy.patience);
        self.was_busy |= anew;
        if anew {
            self.takes_all = self.kit.takes_all;
        }
        let Kit { crew, worker, .. } = *self.kit;
        let is_patient = self.kit.idle_round(anew, patience) < patience;
        match self.takes_all {
            true => crew.all_rings(worker),
            false if is_patient => &crew.rings(worker)[..1],
            false => crew.rings(worker),
        }
    }

    /// It has waited in vain for what is within its reach: so it takes the next task from anywhere.
    #[cold]
    pub fn waits(&mut self) {
        self.takes_all = true;
    }

    /// Whether it has just run out of tasks and stays for a moment: once each time.
    pub fn lingers(&mut self) -> bool {
        std::mem::take(&mut self.was_busy) && self.kit.lingers
    }

    /// Nothing was found in them.
    pub fn is_dry(&mut self) {
        self.dry = true;
    }
}
