//! Run: the workers of a recursion.
//!
//! # Law
//! A call that waits is a word in a queue and lies on a shelf. A worker calls the first of a fork
//! itself and queues the others, the second on top: so it goes down before it goes sideways.

use super::frame::{Above, Frame};
use super::{Call, Recursive};
use crate::engine::{
    Common, Front, Job, Keeper, Ledger, Report, Shelves, Visit, chain, depth, drive,
    expect_workers, open_trace, refuse_too_deep, replace_depth,
};
use crate::error::{Error, Kind, TaskError};
use crate::foreign::drop_quietly;
use crate::port::{Executor, Hint, Word};
use crate::rank::Rank;
use crate::space::Spelling;
use crate::sync::{AtomicU64, Ordering, held};
use crate::trace::{Fate, TaskNumber, Told};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A call that waits for a worker.
type QueuedCall<P> = (<P as Recursive>::Argument, Above<P>);

/// In numbers of traces, above the number of a call stands that of its worker.
const WORKER: u32 = 44;
/// What a call completes is joined under its number and this.
const JOINED: TaskNumber = 1 << (WORKER - 1);
/// Classes: executors know calls alone, in traces joins have their own.
const CALL: usize = 0;
const JOIN: usize = 1;

struct RecursionRun<'p, P: Recursive> {
    /// Failures are ordered by the ways to the calls.
    common: Common<Vec<usize>>,
    problem: &'p P,
    /// The way to the outermost call, if it is a part of a larger tree.
    above: CallPath,
    /// In how many scopes and recursions it is nested.
    depth: usize,
    /// Calls that were forked into, and the outermost one; counted if the run is recorded.
    known: AtomicU64,
    shelves: Shelves<QueuedCall<P>>,
    /// The outermost call, until a worker takes it.
    first: Mutex<Option<P::Argument>>,
    /// What became of it, once all calls have ended: its value, or `None` if a call failed.
    value: Mutex<Option<Option<P::Value>>>,
}

/// A call by the way to it: `call 0.1.1`; the outermost is `call`. Of a long way the beginning is shown.
#[derive(Default)]
pub(super) struct CallPath(pub Vec<usize>);

/// Forks of a way that are shown.
const SHOWN: usize = 64;

impl fmt::Debug for CallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().take(SHOWN);
        let places: Vec<_> = shown.map(usize::to_string).collect();
        write!(f, "{}", format!("call {}", places.join(".")).trim_end())?;
        match self.0.len() {
            ..=SHOWN => Ok(()),
            depth => write!(f, " … ({depth} deep)"),
        }
    }
}

/// What a worker has in hand.
struct RecursionHand<'f, P: Recursive> {
    keeper: Keeper<'f, QueuedCall<P>>,
    /// What is called or joined, for reports of panics.
    calling: Option<Above<P>>,
    /// Which of the two, for traces.
    class: usize,
    /// Calls that were forked into, if the run is recorded.
    forked: u64,
    /// In how many scopes and recursions the worker was before.
    outer_depth: usize,
}

/// Calls a problem, whose outermost call is told by the way `above`; whatever `execute` does with the job,
/// it is over when this returns.
pub(super) fn run<P: Recursive>(
    problem: &P,
    argument: P::Argument,
    above: CallPath,
    on: &dyn Executor,
    execute: impl FnOnce(&Common<Vec<usize>>, &Arc<Job>),
) -> Result<(P::Value, Report), Error> {
    let depth = depth() + 1;
    refuse_too_deep(depth)?;
    expect_workers(on)?;
    let start = Instant::now();
    let ledger = Arc::new(Ledger::new(on.n_workers(), 0, false));
    let opened = open_trace(None, on).map(Arc::new);
    let run = RecursionRun {
        common: Common::new(ledger, opened).of("call"),
        problem,
        above,
        depth,
        known: AtomicU64::new(1),
        shelves: Shelves::new(on.n_workers()),
        first: Mutex::new(Some(argument)),
        value: Mutex::new(None),
    };
    drive(&run, Arc::default(), &RecursionRun::call_outermost, |job| {
        execute(&run.common, job)
    });
    let seconds = start.elapsed().as_secs_f64();
    run.close_trace();
    // Nobody has made the outermost call, if the run was stopped before.
    drop_quietly(held(&run.first).take());
    let value = held(&run.value).take();
    match (run.common.ended(value.is_some(), on), value.flatten()) {
        (Ok(()), Some(value)) => Ok((value, run.common.report(on, seconds))),
        (Ok(()), None) => unreachable!("a recursion that has ended has its value"),
        (Err(fault), value) => {
            drop_quietly(value);
            Err(fault.error)
        }
    }
}

impl<P: Recursive> Front for RecursionRun<'_, P> {
    type Key = Vec<usize>;
    type Ready<'f>
        = QueuedCall<P>
    where
        Self: 'f;
    type Hand<'f>
        = RecursionHand<'f, P>
    where
        Self: 'f;

    #[inline(always)]
    fn common(&self) -> &Common<Vec<usize>> {
        &self.common
    }

    fn enter(&self, worker: usize) -> RecursionHand<'_, P> {
        RecursionHand {
            keeper: self.shelves.keeper(worker),
            calling: None,
            class: CALL,
            forked: 0,
            outer_depth: replace_depth(self.depth),
        }
    }

    #[inline(always)]
    fn unpack<'f>(
        &'f self,
        word: Word,
        visit: &mut Visit<'_, RecursionHand<'f, P>>,
    ) -> Option<QueuedCall<P>> {
        Some(self.shelves.take(word, &mut visit.hand.keeper))
    }

    /// Makes a call. Answers the first one that it forks into.
    #[inline(always)]
    fn step<'f>(
        &'f self,
        (argument, above): QueuedCall<P>,
        visit: &mut Visit<'_, RecursionHand<'f, P>>,
    ) -> Option<QueuedCall<P>> {
        (visit.hand.calling, visit.hand.class) = (Some(above), CALL);
        let number = Self::number(visit);
        if visit.track.is_some() {
            Self::note_ready(visit, number);
        }
        visit.begins();
        let called = visit.timed(CALL, |_| self.call(argument));
        let fate = if called.is_ok() {
            Fate::Ran
        } else {
            Fate::Failed
        };
        visit.ends(fate, |_| (number, CALL));
        match called {
            Ok(Call::Fork { arguments, join }) => {
                let above = visit.hand.calling.take().unwrap_or_else(Above::nothing);
                let forked = visit.track.as_ref().map(|track| (number, track.now()));
                if forked.is_some() {
                    visit.hand.forked += arguments.len() as u64;
                }
                let first = Frame::fork(above, arguments.len(), join, forked);
                let mut calls = arguments.into_iter().enumerate();
                let next = calls.next().map(|(_, argument)| (argument, first.clone()));
                for (place, argument) in calls.rev() {
                    self.queue((argument, first.at(place)), visit);
                }
                return next;
            }
            Ok(Call::Done(value)) => self.bring(Some(value), visit),
            Err(error) => {
                let way = visit
                    .hand
                    .calling
                    .as_ref()
                    .map_or_else(Vec::new, Above::way);
                let error = Error::of_task(&self.path(&way), error);
                self.common.note(way, error);
                self.bring(None, visit);
            }
        }
        None
    }

    fn panicked<'f>(&'f self, visit: &mut Visit<'_, RecursionHand<'f, P>>, text: &str) {
        let (number, class) = (Self::number(visit), visit.hand.class);
        visit.ends_by_panic(|_| (number, class));
        let way = visit.hand.calling.as_ref().map(Above::way);
        let task = way.map(|way| format!("{:?}", self.path(&way)));
        let text = format!("call panicked: {text}");
        self.stop(Error::new(Kind::TaskPanicked, task, text));
    }

    /// The ledger has no count of calls: nobody knows it before the run is over.
    fn known(&self) -> u64 {
        self.known.load(Ordering::Relaxed)
    }

    /// What a call that panicked has left, its frame with the values in there, is dropped by the
    /// worker that holds it last.
    fn leave<'f>(&'f self, hand: RecursionHand<'f, P>) {
        replace_depth(hand.outer_depth);
        // Relaxed: read when nobody is inside.
        self.known.fetch_add(hand.forked, Ordering::Relaxed);
        drop_quietly(hand.calling);
        self.shelves.keep(hand.keeper);
    }
}

impl<P: Recursive> RecursionRun<'_, P> {
    /// The first worker that comes in makes the outermost call.
    fn call_outermost<'f>(&'f self, visit: &mut Visit<'_, RecursionHand<'f, P>>) {
        let first = held(&self.first).take();
        if let Some(argument) = first {
            self.common.ledger.all_announced();
            chain(self, (argument, Above::nothing()), visit);
        }
    }

    /// A call by the whole way to it.
    fn path(&self, way: &[usize]) -> CallPath {
        CallPath([&self.above.0, way].concat())
    }

    /// One call; a fork into no calls is joined at once, as a part of it.
    fn call(&self, argument: P::Argument) -> Result<Call<P>, TaskError> {
        Ok(match self.problem.call(argument)? {
            Call::Fork { arguments, join } if arguments.is_empty() => Call::Done(join(Vec::new())),
            called => called,
        })
    }

    /// In traces calls are numbered by worker, as they come, and so are joins.
    fn number(visit: &Visit<'_, RecursionHand<'_, P>>) -> TaskNumber {
        let joined = if visit.hand.class == JOIN { JOINED } else { 0 };
        (visit.lane.worker() as u64) << WORKER | joined | visit.tally.executed
    }

    /// A call was ready when the one above it had forked.
    #[cold]
    #[inline(never)]
    fn note_ready(visit: &mut Visit<'_, RecursionHand<'_, P>>, number: TaskNumber) {
        let forked = visit.hand.calling.as_ref().and_then(Above::forked);
        if let (Some(track), Some((above, at))) = (&mut visit.track, forked) {
            track.ready_at(number, Some(above), at);
        }
    }

    /// What was noted becomes a trace.
    fn close_trace(&self) {
        let Some(opened) = &self.common.opened else {
            return;
        };
        let told = Told {
            name: "recursion".to_string(),
            parameters: Vec::new(),
            classes: ["call", "join"].map(String::from).to_vec(),
            text: Spelling::of_numbers(|call| {
                let number = call & (JOINED - 1);
                format!("{number} of worker {}", call >> WORKER)
            }),
            wide: BTreeMap::new(),
        };
        // A join waits for the call that brought the last of its values.
        opened.close(told, &mut |task, hear| {
            if task & JOINED != 0 {
                hear(task & !JOINED, Rank::default());
            }
        });
    }

    fn queue<'f>(&'f self, call: QueuedCall<P>, visit: &mut Visit<'_, RecursionHand<'f, P>>) {
        let word = self.shelves.put(call, &mut visit.hand.keeper);
        visit.push(word, 0, || (Hint::None, CALL));
    }

    /// Brings the value of what is called, and whatever it completes: in traces one join.
    fn bring(&self, value: Option<P::Value>, visit: &mut Visit<'_, RecursionHand<'_, P>>) {
        visit.hand.class = JOIN;
        visit.begins();
        let calling = visit.hand.calling.get_or_insert_with(Above::nothing);
        let mut has_joined = false;
        let outermost = calling.bring(value, || has_joined = true);
        visit.hand.calling = None;
        match has_joined {
            true => {
                let number = Self::number(visit);
                visit.ends(Fate::Ran, |_| (number, JOIN));
            }
            false => visit.ends_without_body(),
        }
        if let Some(value) = outermost {
            *held(&self.value) = Some(value);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_shown_whole_up_to_so_many_forks() {
        let shown = |depth| format!("{:?}", CallPath(vec![1; depth]));
        assert_eq!((&*shown(0), &*shown(2)), ("call", "call 1.1"));
        let whole = shown(SHOWN);
        assert!(whole.ends_with(".1"), "{whole}");
        assert_eq!(shown(SHOWN + 1), format!("{whole} … (65 deep)"));
    }
}
