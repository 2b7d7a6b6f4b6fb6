//! Replay: a recorded program runs in place, on one rank.
//!
//! # Law
//! A task starts when those have ended that the [order](Order) puts before it; nothing is copied, and
//! nothing flows. A body that fails spoils what it was to change. Who accesses what is spoilt is
//! skipped, and spoils in turn; waiting alone spoils nothing.
//!
//! A worker keeps hold of data from one task to the next on its path, if that accesses them alike and
//! waits for nothing else: nobody may touch them in between, for the others wait for that one too.

use super::accesses::Loan;
use super::order::{Access, Countdown, Order};
use super::places::{Held, Places};
use super::space::{Recorded, Task};
use crate::data::Datum;
use crate::engine::{Ledger, Line, Offered, Report, Tally, guarded, refuse_inside_a_body};
use crate::error::{Error, Kind, TaskError};
use crate::monitor::Monitor;
use crate::port::{Executor, Hint, Lane, Ready, Wants, Word, Work, most_bytes};
use crate::rank::Rank;
use crate::sequence::fault::Faults;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::trace::{Fate, Opened, Told, Track};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Roots that a worker takes in hand at most, and as which part of its share of those that are left;
/// as the engine announces roots.
const LARGEST_CHUNK: usize = 64;
const PART: usize = 4;

/// One run: what the workers share.
struct Replay<'r, 'env, D: Datum> {
    recorded: &'r Recorded<'env, D>,
    order: &'r Order,
    places: Places<'r, 'env, D>,
    waiting: Box<[Countdown]>,
    /// How many roots workers have in hand, or had.
    announced: AtomicUsize,
    ledger: Arc<Ledger>,
    /// By class.
    copies: Box<[AtomicU64]>,
    local_bytes: AtomicU64,
    remote_bytes: AtomicU64,
    faults: Faults,
    /// Where workers note what they do, if the executor has a tracer.
    opened: Option<Opened>,
}

/// The data of a task, or of the next one so far.
type Holding<'p, D> = SmallVec<[Held<'p, D>; FEW]>;

/// Of so many data at most some are kept: each is looked for among those of the next task.
const FEW: usize = 8;

/// What a worker has in hand.
struct Hand<'l> {
    lane: &'l mut dyn Lane,
    line: &'l Line,
    tally: Tally,
    /// What the lane wants to be told.
    wants: Wants,
    /// Places of roots that nobody else starts.
    roots: Range<usize>,
    /// What runs, for reports of panics.
    running: Option<u32>,
    /// Where it notes what it does, if the run is recorded.
    track: Option<Track>,
    /// When what runs began, by the track's clock; 0 if nothing does.
    began: u64,
}

/// Runs a program.
pub(super) fn run<D: Datum>(
    recorded: &Recorded<'_, D>,
    order: &Order,
    on: &dyn Executor,
) -> Result<Report, Error> {
    refuse_inside_a_body()?;
    let start = Instant::now();
    let places = Places::take(&recorded.origins);
    let places = places.map_err(|datum| recorded.not_at_home(datum))?;
    let replay = Replay {
        recorded,
        order,
        places,
        waiting: order.countdowns(),
        announced: AtomicUsize::new(0),
        ledger: Arc::new(Ledger::new(on.n_workers(), recorded.n_tasks(), false)),
        copies: recorded.classes.iter().map(|_| AtomicU64::new(0)).collect(),
        local_bytes: AtomicU64::new(0),
        remote_bytes: AtomicU64::new(0),
        faults: Faults::default(),
        opened: on
            .tracer()
            .and_then(|tracer| tracer.open(on.n_workers(), Some(recorded.n_tasks()))),
    };
    {
        let offered = Offered::new(&replay, Arc::default(), |replay: &Replay<'_, '_, D>| {
            replay.ledger.stop();
        });
        if let Some(monitor) = on.monitor() {
            monitor.watch(&replay.ledger, offered.job());
        }
        on.execute(offered.job());
    }
    let seconds = start.elapsed().as_secs_f64();
    replay.close_trace();
    replay.finish(on, seconds)
}

impl<D: Datum> Work for Replay<'_, '_, D> {
    fn work(&self, lane: &mut dyn Lane) -> u64 {
        let line_of = lane.worker();
        let line = self.ledger.line(line_of);
        let mut hand = Hand {
            tally: line.read(),
            wants: lane.wants(),
            lane,
            line,
            roots: 0..0,
            running: None,
            track: self
                .opened
                .as_ref()
                .and_then(|opened| opened.enter(line_of)),
            began: 0,
        };
        let before = hand.tally.executed;
        if let Some(text) = guarded(|| self.visit(&mut hand)) {
            let task = hand.running.map(|task| self.recorded.label(task));
            let task = task.map(|label| format!("{label:?}"));
            if let (Some(task), 1..) = (hand.running, hand.began) {
                self.note_ran(task, Fate::Failed, &mut hand);
            }
            let text = format!("task panicked: {text}");
            self.stop(Error::new(Kind::TaskPanicked, task, text));
        }
        if let (Some(opened), Some(track)) = (&self.opened, hand.track.take()) {
            opened.leave(line_of, track);
        }
        line.publish(&hand.tally);
        hand.tally.executed - before
    }

    fn is_drained(&self) -> bool {
        self.ledger.is_drained()
    }

    fn refuse(&self, text: String) {
        self.stop(Error::new(Kind::SchedulerFailed, None, text));
    }
}

impl<D: Datum> Replay<'_, '_, D> {
    /// Ends the run: the first fault that does is reported.
    #[cold]
    fn stop(&self, error: Error) {
        if !self.ledger.is_stopped() {
            self.faults.stop(error);
        }
        self.ledger.stop();
    }

    /// Runs tasks until there is none; after each the most urgent of those that waited for it last.
    fn visit(&self, hand: &mut Hand<'_>) {
        let (mut held, mut kept) = (Holding::new(), Holding::new());
        let (mut held, mut kept) = (&mut held, &mut kept);
        while let Some(task) = self.next(hand) {
            let mut next = Some(task);
            while let Some(task) = next {
                if self.ledger.is_stopped() {
                    return;
                }
                self.hold(task, kept, held);
                self.run_one(task, held, hand);
                next = self.release(task, held, hand);
                std::mem::swap(&mut held, &mut kept);
                hand.tally.executed += 1;
                hand.line.publish_executed(hand.tally.executed);
            }
        }
    }

    /// From near queues, else a root, else from another's queue.
    fn next(&self, hand: &mut Hand<'_>) -> Option<u32> {
        let word = loop {
            if let Some(word) = hand.lane.pop() {
                break word;
            }
            if let Some(root) = hand.roots.next() {
                return Some(self.order.roots[root]);
            }
            if !self.announce(hand) {
                break hand.lane.steal()?;
            }
        };
        hand.tally.taken += 1;
        Some(word as u32)
    }

    /// Takes some of the roots in hand, fewer towards the end; queues those that have a priority, or
    /// belong elsewhere. False after the last.
    fn announce(&self, hand: &mut Hand<'_>) -> bool {
        let n = self.order.roots.len();
        let left = n.saturating_sub(self.announced.load(Ordering::Relaxed));
        let fair = left / (PART * self.ledger.n_workers());
        let size = fair.clamp(1, LARGEST_CHUNK).min(left);
        let first = self.announced.fetch_add(size, Ordering::Relaxed).min(n);
        let end = (first + size).min(n);
        if end == n {
            self.ledger.all_announced();
        }
        let roots = &self.order.roots[first..end];
        let is_queued =
            |&root: &u32| self.task(root).priority != 0 || self.goes_elsewhere(root, hand);
        match roots.iter().any(is_queued) {
            true => roots.iter().for_each(|&root| self.queue(root, hand)),
            false => hand.roots = first..end,
        }
        first < end
    }

    /// Takes hold of the data of a task, as far as they were not kept.
    #[inline(always)]
    fn hold<'p>(&'p self, task: u32, kept: &mut Holding<'p, D>, held: &mut Holding<'p, D>) {
        for &access in self.accesses(task) {
            let found = kept.iter().position(|kept| kept.access == access);
            held.push(match found {
                Some(at) => kept.swap_remove(at),
                None => self.places.hold(access),
            });
        }
    }

    /// Runs one task, unless what it accesses is spoilt.
    #[inline(always)]
    fn run_one(&self, number: u32, held: &mut Holding<'_, D>, hand: &mut Hand<'_>) {
        hand.running = Some(number);
        let task = self.task(number);
        let mut failed = held.iter().any(Held::is_spoilt);
        let mut fate = if failed { Fate::Skipped } else { Fate::Ran };
        hand.began = hand.track.as_ref().map_or(0, |track| track.now());
        if !failed && let Err(error) = self.call(task, held, hand) {
            let error = Error::of_task(&self.recorded.label(number), error);
            self.faults.note(task.number, error);
            (failed, fate) = (true, Fate::Failed);
        }
        self.note_ran(number, fate, hand);
        if failed {
            held.iter_mut().for_each(Held::spoil);
        }
    }

    /// A task has run, if that is recorded.
    #[inline(always)]
    fn note_ran(&self, number: u32, fate: Fate, hand: &mut Hand<'_>) {
        if let Some(track) = &mut hand.track {
            let class = self.task(number).class as usize;
            track.ran(number.into(), class, hand.began, fate);
            hand.began = 0;
        }
    }

    /// What was noted becomes a trace.
    fn close_trace(&self) {
        let Some(opened) = &self.opened else { return };
        let told = Told {
            name: self.recorded.name().to_string(),
            parameters: Vec::new(),
            classes: self
                .recorded
                .classes
                .iter()
                .map(|class| class.name.into())
                .collect(),
            rank: Rank(0),
            text: |task| task.to_string(),
            wide: BTreeMap::new(),
        };
        let before = self.order.before_each();
        opened.close(told, &mut |task, hear| {
            let sources = before.get(task as usize).into_iter().flatten();
            sources.for_each(|&source| hear(source.into(), Rank(0)));
        });
    }

    /// Calls the body of a task.
    fn call(
        &self,
        task: &Task<'_, D>,
        held: &mut [Held<'_, D>],
        hand: &mut Hand<'_>,
    ) -> Result<(), TaskError> {
        if hand.wants > Wants::Priorities {
            self.tell_reads(held, hand.lane);
        }
        let Some(body) = &task.body else {
            unreachable!("what fetches a datum is no task of a run in place");
        };
        let class = task.class as usize;
        let copied = || _ = self.copies[class].fetch_add(1, Ordering::Relaxed);
        let mut loans = Loan::all(held.iter_mut().map(|held| held.lend(copied)));
        let start = (hand.wants == Wants::Everything).then(Instant::now);
        let result = body(&mut loans);
        if let Some(start) = start {
            hand.lane.measured(class, start.elapsed().as_secs_f64());
        }
        result
    }

    /// Tells those that wait for a task. Returns the most urgent of those that may run now, unless
    /// a queued one is more urgent still; what that one accesses too may be kept.
    #[inline(always)]
    fn release(&self, task: u32, held: &mut Holding<'_, D>, hand: &mut Hand<'_>) -> Option<u32> {
        let heir = self.order.next_on_path(task);
        let heir = heir.filter(|&heir| self.waiting[heir as usize].is_one());
        match heir {
            // Where the lane is told of data they are looked at before the next task is chosen.
            Some(heir) if hand.wants == Wants::Priorities && held.len() <= FEW => {
                let accesses = self.accesses(heir);
                held.retain(|held| accesses.contains(&held.access));
            }
            _ => held.clear(),
        }
        let mut queue = |next, hand: &mut Hand<'_>| {
            if heir == Some(next) {
                held.clear();
            }
            self.queue(next, hand);
        };
        let mut best: Option<u32> = None;
        for &next in self.order.after(task) {
            if !self.waiting[next as usize].arrive() {
                continue;
            }
            let more_urgent = |best: u32| self.task(next).priority > self.task(best).priority;
            if self.goes_elsewhere(next, hand) || best.is_some_and(|best| !more_urgent(best)) {
                queue(next, hand);
            } else if let Some(other) = best.replace(next) {
                queue(other, hand);
            }
        }
        let best = best?;
        if hand.lane.outranks(self.task(best).priority) {
            queue(best, hand);
            return None;
        }
        Some(best)
    }

    fn queue(&self, number: u32, hand: &mut Hand<'_>) {
        let (word, priority) = (Word::from(number), self.task(number).priority);
        hand.tally.queued += 1;
        if hand.wants > Wants::Priorities {
            let ready = Ready::new(word, priority).with_hint(self.hint(number));
            let class = self.task(number).class as usize;
            hand.lane.push_ready(ready.with_class(class));
        } else {
            hand.lane.push(word, priority);
        }
    }

    #[inline(always)]
    fn task(&self, number: u32) -> &Task<'_, D> {
        &self.recorded.tasks[number as usize]
    }

    #[inline(always)]
    fn accesses(&self, number: u32) -> &[Access] {
        self.order.accesses(self.recorded.flow_range(number))
    }
}

/// The hints that a lane asked for, as the [engine](crate::engine) gives them.
impl<D: Datum> Replay<'_, '_, D> {
    /// Whether a task that may run belongs elsewhere than with this worker.
    #[inline(always)]
    fn goes_elsewhere(&self, number: u32, hand: &Hand<'_>) -> bool {
        hand.wants > Wants::Priorities && hand.lane.goes_elsewhere(self.hint(number))
    }

    /// Where the data of a task that may run lie.
    fn hint(&self, number: u32) -> Hint {
        let piece = |datum: &D| Some((datum.numa_node()?, datum.bytes() as u64));
        let accesses = self.accesses(number).iter();
        let pieces = accesses.filter_map(|&access| self.places.peek(access, piece).flatten());
        let pieces: SmallVec<[(usize, u64); 8]> = pieces.collect();
        most_bytes(pieces.iter().copied()).map_or(Hint::None, Hint::Node)
    }

    /// Tells what the task that is about to run reads, and from where.
    fn tell_reads(&self, held: &[Held<'_, D>], lane: &mut dyn Lane) {
        for datum in held.iter().map(Held::datum) {
            if let Some(node) = datum.numa_node() {
                let bytes = datum.bytes() as u64;
                let count = match lane.reads(node, bytes) {
                    true => &self.local_bytes,
                    false => &self.remote_bytes,
                };
                count.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }
}

impl<D: Datum> Replay<'_, '_, D> {
    /// What became of the run, once nobody is inside. The data go home.
    fn finish(self, on: &dyn Executor, seconds: f64) -> Result<Report, Error> {
        let (executed, count) = (self.ledger.executed(), self.ledger.count());
        if let Some(error) = self.faults.take() {
            return Err(error);
        }
        if executed < count {
            let (kind, text) = match on.monitor().is_some_and(Monitor::is_cancelled) {
                true => (Kind::Cancelled, "cancelled after"),
                false => (Kind::Stalled, "the executor has lost tasks: it ran"),
            };
            let text = format!("{text} {executed} of {count} tasks");
            return Err(Error::new(kind, None, text));
        }
        let classes = self.recorded.classes.iter().zip(&self.copies);
        Ok(Report {
            tasks: executed,
            seconds,
            tasks_by_worker: self.ledger.executed_by_worker(),
            copies_by_class: classes
                .map(|(class, copies)| (class.name.into(), copies.load(Ordering::Relaxed)))
                .collect(),
            local_bytes: self.local_bytes.load(Ordering::Relaxed),
            remote_bytes: self.remote_bytes.load(Ordering::Relaxed),
            uniform: on.is_uniform(),
        })
    }
}
