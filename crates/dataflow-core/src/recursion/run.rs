//! Run: the workers of a recursion.
//!
//! # Law
//! A call that waits is a word in a queue and lies on a shelf. A worker calls the first of a fork
//! itself and queues the others, the second on top: so it goes down before it goes sideways.

use super::frame::{Above, Frame};
use super::{Call, Recursive};
use crate::engine::{
    Job, Keeper, Ledger, Line, Offered, Report, Shelves, Tally, guarded, is_inside,
};
use crate::error::{Error, Kind};
use crate::port::{Executor, Lane, Work};
use crate::rank::Rank;
use crate::trace::{Fate, Opened, Told, Track};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A call that waits for a worker.
type Waiting<P> = (<P as Recursive>::Argument, Above<P>);

/// In numbers of traces, above the number of a call stands that of its worker.
const WORKER: u32 = 44;

struct Run<'p, P: Recursive> {
    problem: &'p P,
    ledger: Arc<Ledger>,
    shelves: Shelves<Waiting<P>>,
    /// The outermost call, until a worker takes it.
    first: Mutex<Option<P::Argument>>,
    /// Its value.
    value: Mutex<Option<P::Value>>,
    fault: Mutex<Option<Fault>>,
    /// Where workers note what they do, if the executor has a tracer.
    opened: Option<Opened>,
}

/// The failure to report: what stopped the run goes before what calls reported.
struct Fault {
    order: (bool, u64, Vec<usize>),
    error: Error,
}

/// A call by the way to it: `call 0.1.1`; the outermost is `call`.
struct Way(Vec<usize>);

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<_> = self.0.iter().map(usize::to_string).collect();
        write!(f, "{}", format!("call {}", places.join(".")).trim_end())
    }
}

/// What a worker has in hand.
struct Hand<'l, P: Recursive> {
    lane: &'l mut dyn Lane,
    line: &'l Line,
    tally: Tally,
    keeper: Keeper,
    /// What is called, for reports of panics.
    calling: Option<Above<P>>,
    /// Where it notes what it does, if the run is recorded.
    track: Option<Track>,
    /// When what is called began, by the track's clock; 0 if nothing is.
    began: u64,
}

/// Calls a problem; whatever `execute` does with the job, it is over when this returns.
pub(super) fn run<P: Recursive>(
    problem: &P,
    argument: P::Argument,
    on: &dyn Executor,
    execute: impl FnOnce(&Arc<Ledger>, &Arc<Job>),
) -> Result<(P::Value, Report), Error> {
    let start = Instant::now();
    let ledger = Arc::new(Ledger::new(on.n_workers(), 0, false));
    let run = Run {
        problem,
        ledger: ledger.clone(),
        shelves: Shelves::new(on.n_workers()),
        first: Mutex::new(Some(argument)),
        value: Mutex::new(None),
        fault: Mutex::new(None),
        opened: on
            .tracer()
            .filter(|_| !is_inside())
            .and_then(|tracer| tracer.open(on.n_workers(), None)),
    };
    {
        let offered = Offered::new(&run, Arc::default(), |run: &Run<'_, P>| run.ledger.stop());
        execute(&ledger, offered.job());
    }
    let seconds = start.elapsed().as_secs_f64();
    run.close_trace();
    if let Some(fault) = run.fault().take() {
        return Err(fault.error);
    }
    let tasks = ledger.executed();
    let value = run.value.into_inner();
    let Some(value) = value.unwrap_or_else(PoisonError::into_inner) else {
        let text = format!("cancelled after {tasks} calls");
        return Err(Error::new(Kind::Cancelled, None, text));
    };
    let report = Report {
        tasks,
        seconds,
        tasks_by_worker: ledger.executed_by_worker(),
        uniform: on.is_uniform(),
        ..Report::default()
    };
    Ok((value, report))
}

impl<P: Recursive> Work for Run<'_, P> {
    fn work(&self, lane: &mut dyn Lane) -> u64 {
        let line = self.ledger.line(lane.worker());
        let mut hand = Hand {
            tally: line.read(),
            keeper: self.shelves.keeper(lane.worker()),
            track: self
                .opened
                .as_ref()
                .and_then(|opened| opened.enter(lane.worker())),
            lane,
            line,
            calling: None,
            began: 0,
        };
        let before = hand.tally.executed;
        if let Some(text) = guarded(|| self.visit(&mut hand)) {
            Self::note_called(Fate::Failed, &mut hand);
            let way = hand.calling.as_ref().map(Above::way);
            let text = format!("call panicked: {text}");
            let task = way.map(|way| format!("{:?}", Way(way)));
            self.stop(Error::new(Kind::TaskPanicked, task, text));
        }
        if let (Some(opened), Some(track)) = (&self.opened, hand.track.take()) {
            opened.leave(hand.lane.worker(), track);
        }
        self.shelves.keep(hand.keeper);
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

impl<P: Recursive> Run<'_, P> {
    fn visit(&self, hand: &mut Hand<'_, P>) {
        let first = locked(&self.first).take();
        if let Some(argument) = first {
            self.ledger.all_announced();
            self.call_down((argument, Above::nothing()), hand);
        }
        while !self.ledger.is_stopped()
            && let Some(word) = hand.lane.pop().or_else(|| hand.lane.steal())
        {
            hand.tally.taken += 1;
            let call = self.shelves.take(word, &mut hand.keeper);
            self.call_down(call, hand);
        }
    }

    /// A call, the first one that it forks into, and so on.
    fn call_down(&self, call: Waiting<P>, hand: &mut Hand<'_, P>) {
        let mut next = Some(call);
        while let Some((argument, above)) = next.take() {
            if self.ledger.is_stopped() {
                return;
            }
            hand.calling = Some(above);
            hand.began = hand.track.as_ref().map_or(0, |track| track.now());
            let called = self.problem.call(argument);
            let fate = if called.is_ok() {
                Fate::Ran
            } else {
                Fate::Failed
            };
            Self::note_called(fate, hand);
            let above = hand.calling.take().unwrap_or_else(Above::nothing);
            hand.tally.executed += 1;
            hand.line.publish_executed(hand.tally.executed);
            match called {
                Ok(Call::Fork { arguments, join }) if !arguments.is_empty() => {
                    let first = Frame::fork(above, arguments.len(), join);
                    let mut calls = arguments.into_iter().enumerate();
                    next = calls.next().map(|(_, argument)| (argument, first.clone()));
                    for (place, argument) in calls.rev() {
                        self.queue((argument, first.at(place)), hand);
                    }
                }
                Ok(Call::Fork { join, .. }) => self.bring(Some(join(Vec::new())), above, hand),
                Ok(Call::Done(value)) => self.bring(Some(value), above, hand),
                Err(error) => {
                    let way = above.way();
                    let error = Error::of_task(&Way(way.clone()), error);
                    let order = (true, error.index().unwrap_or(u64::MAX), way);
                    self.keep(Fault { order, error });
                    self.bring(None, above, hand);
                }
            }
        }
    }

    /// A call has returned, if that is recorded: calls are numbered by worker, as they come.
    fn note_called(fate: Fate, hand: &mut Hand<'_, P>) {
        if let (Some(track), 1..) = (&mut hand.track, hand.began) {
            let number = (hand.lane.worker() as u64) << WORKER | hand.tally.executed;
            track.ran(number, 0, hand.began, fate);
            hand.began = 0;
        }
    }

    /// What was noted becomes a trace.
    fn close_trace(&self) {
        let Some(opened) = &self.opened else { return };
        let told = Told {
            name: "recursion".to_string(),
            parameters: Vec::new(),
            classes: vec!["call".to_string()],
            rank: Rank(0),
            text: |call| {
                let number = call & ((1 << WORKER) - 1);
                format!("{number} of worker {}", call >> WORKER)
            },
            wide: BTreeMap::new(),
        };
        opened.close(told, &mut |_, _| {});
    }

    fn queue(&self, call: Waiting<P>, hand: &mut Hand<'_, P>) {
        let word = self.shelves.put(call, &mut hand.keeper);
        hand.tally.queued += 1;
        hand.lane.push(word, 0);
    }

    fn bring(&self, value: Option<P::Value>, above: Above<P>, hand: &mut Hand<'_, P>) {
        // A join may panic.
        hand.calling = Some(above.clone());
        let outermost = above.bring(value);
        hand.calling = None;
        if let Some(value) = outermost {
            *locked(&self.value) = value;
        }
    }

    fn stop(&self, error: Error) {
        if !self.ledger.is_stopped() {
            let order = (false, 0, Vec::new());
            self.keep(Fault { order, error });
        }
        self.ledger.stop();
    }

    fn keep(&self, fault: Fault) {
        let mut kept = self.fault();
        if kept.as_ref().is_none_or(|kept| fault.order < kept.order) {
            *kept = Some(fault);
        }
    }

    fn fault(&self) -> MutexGuard<'_, Option<Fault>> {
        locked(&self.fault)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
