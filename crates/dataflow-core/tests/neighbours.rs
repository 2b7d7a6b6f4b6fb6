//! Records of tasks with neighbouring names lie in one bucket: nobody who has it locked does what takes long.

use dataflow_core::error::Kind;
use dataflow_core::port::{Context, Courier, Failure, Inbox, Line, Parcel, Shuffled, Terms};
use dataflow_core::prelude::*;
use dataflow_core::{run, run_across};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// What two workers wait for, not for ever.
#[derive(Default)]
struct Signs {
    /// Task 1 runs.
    runs: AtomicBool,
    /// What takes long has begun.
    begins: AtomicBool,
    /// What task 1 has made ready runs.
    goes_on: AtomicBool,
    /// It did before that had ended.
    in_time: AtomicBool,
}

impl Signs {
    /// Takes until the other worker has gone on.
    fn take_long(&self) {
        self.begins.store(true, Ordering::SeqCst);
        let in_time = comes(&self.goes_on);
        self.in_time.store(in_time, Ordering::SeqCst);
    }

    /// The body of any task. With `waits` that of one during which task 1 is to begin.
    fn body(&self, task: u64, waits: bool) {
        match task {
            0 if waits => assert!(comes(&self.runs), "both run at once"),
            1 => {
                self.runs.store(true, Ordering::SeqCst);
                assert!(comes(&self.begins), "what takes long begins");
            }
            64 => self.goes_on.store(true, Ordering::SeqCst),
            _ => {}
        }
    }
}

fn comes(sign: &AtomicBool) -> bool {
    let start = Instant::now();
    while !sign.load(Ordering::SeqCst) && start.elapsed() < Duration::from_secs(5) {
        yield_now();
    }
    sign.load(Ordering::SeqCst)
}

/// Task 0 feeds 32 and what else it is told to, by a flow of each. Task 1 feeds 33, whose record lies beside
/// that of 32, and 64.
struct Neighbours {
    signs: Arc<Signs>,
    fed_by_0: &'static [(u64, usize)],
}

/// Tasks that wait for task 0 alone; whoever asks for their priority waits for long.
const URGENT: std::ops::Range<u64> = 100..102;
/// A task that is nowhere.
const NOWHERE: u64 = 200;

impl TaskSpace for Neighbours {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("neighbours");
        about.class("Any").order("ONE").order("OTHER");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
        let fed = self.fed_by_0.iter().map(|(task, _)| *task);
        let urgent = fed.filter(|task| URGENT.contains(task));
        let all = [0, 1, 32, 33, 64].into_iter().chain(urgent);
        all.filter(move |_| on == Rank(0))
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        match task {
            32 | 33 => {
                from.task(0, task - 32, 0);
                from.task(1, 64, 0);
            }
            64 => from.task(0, 1, 0),
            100.. => from.task(0, 0, 0),
            _ => {}
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        match task {
            0 => {
                let fed = self.fed_by_0.iter();
                fed.for_each(|&(target, flow)| to.task(0, target, flow));
            }
            1 => {
                to.task(0, 33, 0);
                to.task(0, 64, 0);
            }
            64 => [32, 33].into_iter().for_each(|task| to.task(0, task, 1)),
            _ => {}
        }
    }

    fn rank(&self, task: u64) -> Rank {
        Rank(if task == NOWHERE { 7 } else { 0 })
    }

    fn priority(&self, task: u64) -> i64 {
        if URGENT.contains(&task) {
            self.signs.take_long();
        }
        0
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        self.signs.body(task, true);
        Ok(())
    }
}

/// To another rank that is told of a fault only once the other worker has gone on.
struct Slow(Arc<Signs>);

impl Courier for Slow {
    fn rank(&self) -> Rank {
        Rank(0)
    }

    fn n_ranks(&self) -> usize {
        2
    }

    fn open(&self, _: &Terms, _: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error> {
        Ok(Box::new(Slow(self.0.clone())))
    }
}

impl Line for Slow {
    fn post(&self, _: Parcel) {}

    fn poll(&self) {}

    fn abort(&self, _: &Failure) {
        self.0.take_long();
    }

    fn close(&self, own: Option<Failure>) -> Result<Option<Failure>, Error> {
        Ok(own)
    }
}

fn tells_in_time(fed_by_0: &'static [(u64, usize)], kind: Kind) {
    let signs = Arc::<Signs>::default();
    let (workers, courier) = (Shuffled::new(1).with_threads(2), Slow(signs.clone()));
    let on = Context::new(&workers).across(&courier);
    let space = Neighbours {
        signs: signs.clone(),
        fed_by_0,
    };
    let error = run_across(&space, &on).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(signs.in_time.load(Ordering::SeqCst));
}

/// To tell it may move messages for long: meanwhile the worker held the records of waiting tasks that it had
/// fed last.
#[test]
fn whoever_tells_of_a_fault_keeps_nobody_from_feeding_neighbours() {
    // The second time through a flow that comes from elsewhere.
    tells_in_time(&[(32, 0), (32, 1)], Kind::NotExpected);
}

/// The same of a task that is on no rank: of that the worker tells before any record is looked for.
#[test]
fn whoever_tells_of_an_edge_to_no_rank_keeps_nobody_from_feeding_neighbours() {
    tells_in_time(&[(32, 0), (NOWHERE, 0)], Kind::NoSuchRank);
}

/// Task 0 runs twice and feeds 32 by the same flow each time; otherwise like [`Neighbours`], with data and so
/// many inputs.
struct Doubled {
    signs: Arc<Signs>,
    n_inputs: usize,
    runs_of_0: AtomicU64,
}

/// Takes long to be dropped, if it has signs.
#[derive(Clone)]
struct Lasting(Option<Arc<Signs>>);

impl Datum for Lasting {}

impl Drop for Lasting {
    fn drop(&mut self) {
        if let Some(signs) = &self.0 {
            signs.take_long();
        }
    }
}

impl TaskSpace for Doubled {
    type Task = u64;
    type Datum = Lasting;

    fn describe(&self, about: &mut Description) {
        let class = about.name("doubled").class("Any");
        let inputs = (0..self.n_inputs).fold(class, |class, _| class.optional("READ"));
        inputs.new_flow("MADE");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        [0, 0, 1, 32, 33, 64].into_iter()
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if let 32 | 33 = task {
            from.task(0, task - 32, self.n_inputs);
            (1..self.n_inputs).for_each(|flow| from.task(flow, 64, flow));
        }
        if task == 64 {
            from.task(0, 1, self.n_inputs);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        match task {
            0 => to.task(self.n_inputs, 32, 0),
            1 => [33, 64]
                .into_iter()
                .for_each(|task| to.task(self.n_inputs, task, 0)),
            _ => {}
        }
    }

    fn run(&self, task: u64, flows: &mut Flows<'_, Lasting>) -> Result<(), TaskError> {
        let again = task == 0 && self.runs_of_0.fetch_add(1, Ordering::SeqCst) == 1;
        self.signs.body(task, again);
        if task < 2 {
            let made = Lasting(again.then(|| self.signs.clone()));
            flows.iter().last().unwrap().put(made);
        }
        Ok(())
    }
}

/// What was fed once too often was dropped while the record was locked: the datum is foreign, and may take
/// long.
#[test]
fn a_datum_that_is_fed_twice_is_dropped_with_no_record_locked() {
    // Three have a place in the record, five do not.
    for n_inputs in [3, 5] {
        let signs = Arc::<Signs>::default();
        let space = Doubled {
            signs: signs.clone(),
            n_inputs,
            runs_of_0: AtomicU64::new(0),
        };
        let error = run(&space, &Shuffled::new(1).with_threads(2)).unwrap_err();
        assert_eq!(error.kind(), Kind::FedTwice, "{error}");
        assert!(signs.in_time.load(Ordering::SeqCst), "{n_inputs} inputs");
    }
}
