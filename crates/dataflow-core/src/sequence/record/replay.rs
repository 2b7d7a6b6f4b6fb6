//! Replay: a recorded program runs in place, on one rank.
//!
//! # Law
//! A task starts when those have ended that the [order](ReplayOrder) puts before it; nothing is copied, and
//! nothing flows. A body that fails spoils what it was to change. Who accesses what is spoilt is
//! skipped, and spoils in turn; waiting alone spoils nothing.
//!
//! A worker keeps hold of data from one task to the next on its path, if that accesses them alike and
//! waits for nothing else: nobody may touch them in between, for the others wait for that one too.

use super::accesses::Loan;
use super::graph::{Graph, RecordedTask};
use super::order::{Countdown, PackedAccess, ReplayOrder};
use super::places::{AccessGuard, Places};
use crate::data::Datum;
use crate::engine::{
    Best, BytesRead, Chunk, Common, Copies, Front, Ledger, Next, Pulled, Report, Roots, Visit,
    drive, expect_workers, open_trace,
};
use crate::error::{Error, Kind, TaskError};
use crate::port::{Executor, Hint, Wants, Word, most_bytes};
use crate::rank::Rank;
use crate::space::Spelling;
use crate::trace::{Fate, Told, TracedRun};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// One run: what the workers share.
struct ReplayRun<'r, 'env, D: Datum> {
    /// Failures are ordered by the numbers of tasks.
    common: Common<u64>,
    graph: &'r Graph<'env, D>,
    order: &'r ReplayOrder,
    places: Places<'r, 'env, D>,
    waiting: Box<[Countdown]>,
    roots: Mutex<Roots<'r, u32>>,
    copies: Copies,
}

/// The data of a task, or of the next one so far.
type Holding<'p, D> = SmallVec<[AccessGuard<'p, D>; FEW]>;

/// Of so many data at most some are kept: each is looked for among those of the next task.
const FEW: usize = 8;

/// What a worker has in hand.
struct ReplayHand<'p, D: Datum> {
    /// Roots that nobody else starts, the next one last.
    roots: Chunk<u32>,
    /// The data of the task that runs, and those kept from the one before: by turns.
    holding: [Holding<'p, D>; 2],
    turn: usize,
    /// What runs, for reports of panics.
    running: Option<u32>,
    read: BytesRead,
}

/// Runs a program; not inside a body.
pub(super) fn run<D: Datum>(
    graph: &Graph<'_, D>,
    order: &ReplayOrder,
    on: &dyn Executor,
) -> Result<Report, Error> {
    expect_workers(on)?;
    let start = Instant::now();
    let places = Places::take(&graph.origins);
    let places = places.map_err(|datum| graph.not_at_home(datum))?;
    let n_tasks = graph.n_inserted;
    let ledger = Arc::new(Ledger::new(on.n_workers(), n_tasks, false));
    let opened = open_trace(Some(n_tasks), on).map(Arc::new);
    let replay = ReplayRun {
        common: Common::new(ledger, opened),
        graph,
        order,
        places,
        waiting: order.countdowns(),
        roots: Mutex::new(Roots::new(|| order.roots.iter().copied())),
        copies: Copies::none(graph.classes.len()),
    };
    drive(&replay, Arc::default(), &|_, _| {}, |job| {
        replay.common.execute(on, job);
    });
    let seconds = start.elapsed().as_secs_f64();
    replay.finish(on, seconds)
}

impl<D: Datum> Front for ReplayRun<'_, '_, D> {
    type Key = u64;
    type Ready<'f>
        = u32
    where
        Self: 'f;
    type Hand<'f>
        = ReplayHand<'f, D>
    where
        Self: 'f;

    #[inline(always)]
    fn common(&self) -> &Common<u64> {
        &self.common
    }

    fn enter(&self, _: usize) -> ReplayHand<'_, D> {
        ReplayHand {
            roots: Chunk::new(),
            holding: [Holding::new(), Holding::new()],
            turn: 0,
            running: None,
            read: BytesRead::default(),
        }
    }

    #[inline(always)]
    fn unpack<'f>(&'f self, word: Word, _: &mut Visit<'_, ReplayHand<'f, D>>) -> Option<u32> {
        Some(word as u32)
    }

    #[inline(always)]
    fn root<'f>(&'f self, visit: &mut Visit<'_, ReplayHand<'f, D>>) -> Option<u32> {
        visit.hand.roots.pop()
    }

    /// Roots that have a priority, or belong elsewhere, are queued.
    fn announce<'f>(&'f self, visit: &mut Visit<'_, ReplayHand<'f, D>>) -> Pulled {
        let has_priority = |&root: &u32| self.task(root).priority != 0;
        let (ledger, roots) = (&self.common.ledger, &mut visit.hand.roots);
        let announced = Roots::pull(&self.roots, ledger, has_priority, roots);
        let is_queued =
            |&root: &u32| self.task(root).priority != 0 || self.goes_elsewhere(root, visit);
        if visit.hand.roots.iter().any(is_queued) {
            while let Some(root) = visit.hand.roots.pop() {
                let about = || (self.hint(root), self.class(root));
                visit.share(Word::from(root), self.task(root).priority, about);
            }
        }
        announced
    }

    #[inline(always)]
    fn step<'f>(&'f self, task: u32, visit: &mut Visit<'_, ReplayHand<'f, D>>) -> Option<u32> {
        self.hold(task, &mut visit.hand);
        self.run_one(task, visit);
        let next = self.release(task, visit);
        visit.hand.turn = 1 - visit.hand.turn;
        next
    }

    fn panicked<'f>(&'f self, visit: &mut Visit<'_, ReplayHand<'f, D>>, text: &str) {
        let task = visit.hand.running;
        let mut what = "panicked between tasks";
        if let Some(task) = task {
            visit.ends_by_panic(|_| (self.task(task).number, self.class(task)));
            what = "task panicked";
        }
        let task = task.map(|task| format!("{:?}", self.graph.label(task)));
        let text = format!("{what}: {text}");
        self.stop(Error::new(Kind::TaskPanicked, task, text));
    }

    fn leave<'f>(&'f self, hand: ReplayHand<'f, D>) {
        self.common.note_read(hand.read);
    }
}

impl<'p, D: Datum> ReplayHand<'p, D> {
    /// The data of the task that runs.
    #[inline(always)]
    fn held(&mut self) -> &mut Holding<'p, D> {
        &mut self.holding[self.turn]
    }
}

impl<D: Datum> ReplayRun<'_, '_, D> {
    /// Takes hold of the data of a task, as far as they were not kept.
    #[inline(always)]
    fn hold<'f>(&'f self, task: u32, hand: &mut ReplayHand<'f, D>) {
        let [first, second] = &mut hand.holding;
        let (held, kept) = match hand.turn {
            0 => (first, second),
            _ => (second, first),
        };
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
    fn run_one<'f>(&'f self, number: u32, visit: &mut Visit<'_, ReplayHand<'f, D>>) {
        visit.hand.running = Some(number);
        let is_spoilt = visit.hand.held().iter().any(AccessGuard::is_spoilt);
        let mut fate = if is_spoilt { Fate::Skipped } else { Fate::Ran };
        visit.begins();
        if !is_spoilt && let Err(error) = self.call(number, visit) {
            let error = Error::of_task(&self.graph.label(number), error);
            self.common.note(self.task(number).number, error);
            fate = Fate::Failed;
        }
        visit.ends(fate, |_| (self.task(number).number, self.class(number)));
        if fate != Fate::Ran {
            visit.hand.held().iter_mut().for_each(AccessGuard::spoil);
        }
        visit.hand.running = None;
    }

    /// Calls the body of a task.
    fn call<'f>(
        &'f self,
        number: u32,
        visit: &mut Visit<'_, ReplayHand<'f, D>>,
    ) -> Result<(), TaskError> {
        if visit.wants > Wants::Priorities {
            self.tell_reads(visit);
        }
        let Some(body) = &self.task(number).body else {
            unreachable!("what fetches a datum is no task of a run in place");
        };
        let class = self.class(number);
        let copied = || self.copies.note(class);
        visit.timed(class, |visit| {
            let held = visit.hand.held().iter_mut();
            body(&mut Loan::all(held.map(|held| held.lend(copied))))
        })
    }

    /// Tells those that wait for a task. Returns the most urgent of those that may run now, unless
    /// a queued one is more urgent still; what that one accesses too may be kept.
    #[inline(always)]
    fn release<'f>(&'f self, task: u32, visit: &mut Visit<'_, ReplayHand<'f, D>>) -> Option<u32> {
        let heir = self.order.next_on_path(task);
        let heir = heir.filter(|&heir| self.waiting[heir as usize].is_one());
        let held = visit.hand.held();
        match heir {
            // Where the lane is told of data they are looked at before the next task is chosen.
            Some(heir) if visit.wants == Wants::Priorities && held.len() <= FEW => {
                let accesses = self.accesses(heir);
                held.retain(|held| accesses.contains(&held.access));
            }
            _ => held.clear(),
        }
        let queue = |next, visit: &mut Visit<'_, ReplayHand<'f, D>>| {
            if heir == Some(next) {
                visit.hand.held().clear();
            }
            self.queue(next, visit);
        };
        let mut best = Best::new();
        for &next in self.order.after(task) {
            if !self.waiting[next as usize].arrive() {
                continue;
            }
            let goes_elsewhere = self.goes_elsewhere(next, visit);
            let offered = best.offer(next, self.task(next).priority, goes_elsewhere);
            if let Some((other, _)) = offered.queued() {
                queue(other, visit);
            }
        }
        match best.next(visit.lane)? {
            Next::Runs(best) => Some(best),
            Next::Queued(best, _) => {
                queue(best, visit);
                None
            }
        }
    }

    fn queue<'f>(&'f self, number: u32, visit: &mut Visit<'_, ReplayHand<'f, D>>) {
        let about = || (self.hint(number), self.class(number));
        visit.push(Word::from(number), self.task(number).priority, about);
    }

    #[inline(always)]
    fn task(&self, number: u32) -> &RecordedTask<'_, D> {
        &self.graph.tasks[number as usize]
    }

    #[inline(always)]
    fn class(&self, number: u32) -> usize {
        self.task(number).class as usize
    }

    #[inline(always)]
    fn accesses(&self, number: u32) -> &[PackedAccess] {
        self.order.accesses(self.graph.flow_range(number))
    }
}

/// The hints that a lane asked for, as the [engine](crate::engine) gives them.
impl<D: Datum> ReplayRun<'_, '_, D> {
    /// Whether a task that may run belongs elsewhere than with this worker.
    #[inline(always)]
    fn goes_elsewhere<'f>(&'f self, number: u32, visit: &Visit<'_, ReplayHand<'f, D>>) -> bool {
        visit.wants > Wants::Priorities && visit.lane.goes_elsewhere(self.hint(number))
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
    fn tell_reads<'f>(&'f self, visit: &mut Visit<'_, ReplayHand<'f, D>>) {
        let ReplayHand {
            holding,
            turn,
            read,
            ..
        } = &mut visit.hand;
        for datum in holding[*turn].iter().map(AccessGuard::datum) {
            if let Some(node) = datum.numa_node() {
                read.read(visit.lane, node, datum.bytes() as u64);
            }
        }
    }

    /// What became of the run, once nobody is inside. The data go home, before anybody hears of its trace.
    fn finish(self, on: &dyn Executor, seconds: f64) -> Result<Report, Error> {
        let ReplayRun {
            common,
            graph,
            order,
            mut places,
            copies,
            ..
        } = self;
        let filled = places.bring_home();
        if let Some(opened) = &common.opened {
            close_trace(graph, order, opened);
        }
        let is_complete = common.ledger.executed() >= common.ledger.count();
        let ended = common.ended(is_complete, on);
        ended.map_err(|fault| fault.error)?;
        if let Some(slot) = filled {
            let text = format!("{slot} was filled by hand while its datum was lent");
            return Err(Error::new(Kind::PutTwice, None, text));
        }
        let classes = graph.classes.iter().map(|class| class.name);
        Ok(Report {
            copies_by_class: copies.by_class(classes),
            ..common.report(on, seconds)
        })
    }
}

/// What was noted becomes a trace, in which tasks have the numbers that the program gave them.
fn close_trace<D: Datum>(graph: &Graph<'_, D>, order: &ReplayOrder, opened: &TracedRun) {
    let classes = graph.classes.iter().map(|class| class.name.into());
    let told = Told {
        name: graph.name.to_string(),
        parameters: Vec::new(),
        classes: classes.collect(),
        text: Spelling::of_numbers(|task| task.to_string()),
        wide: BTreeMap::new(),
    };
    let tasks = graph.tasks.iter().zip(order.before_each());
    let inserted = tasks.filter(|(task, _)| task.body.is_some());
    let before: Vec<_> = inserted.map(|(_, before)| before).collect();
    opened.close(told, &mut |task, hear| {
        let sources = before.get(task as usize).into_iter().flatten();
        sources.for_each(|&source| hear(graph.tasks[source as usize].number, Rank(0)));
    });
}
