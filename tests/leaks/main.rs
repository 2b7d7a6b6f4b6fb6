//! A process that runs graphs for weeks does not grow: after a hundred runs as much is allocated as after
//! twenty, whichever way they are written and run.
//!
//! One test, since others beside it would be counted too. There is no clock in it and no resident size: what
//! is counted is what was allocated and not freed.
//!
//! # Law
//! Who runs tasks on the calling thread holds after run 100 what it held after run 20, to the byte. Threads
//! that stay may hold more by less than a block for every other run: what one of them holds a moment longer
//! than the run, and room for the most that ever lay in a queue or on the way to another rank.

mod counted;

use counted::{Counted, Live};
use dataflow::core::port::{Executor, Inline};
use dataflow::core::run_across;
use dataflow::prelude::*;
use dataflow::recursion::{Call, Recursive, recurse};
use dataflow::sequence::record::record;
use dataflow::sequence::{commute, read, reduce, scope, update, write};
use dataflow::{Error, Runtime, RuntimeBuilder, TaskError, launch};
use std::sync::Barrier;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counted = Counted;

const FEW: usize = 20;
const MANY: usize = 100;
const NOTHING: Live = Live {
    blocks: 0,
    bytes: 0,
};
/// A leak of a block a run is twice as many.
const LITTLE: Live = Live {
    blocks: (MANY - FEW) as isize / 2,
    bytes: 64 << 10,
};

/// Says by how much more is live after many runs than after a few, if that is more than `most`.
fn grows(front: &str, most: Live, mut run: impl FnMut()) -> Option<String> {
    (0..FEW).for_each(|_| run());
    let before = Live::now();
    (FEW..MANY).for_each(|_| run());
    let more = || Live::now().since(before);
    // What a thread lets go of a moment after the run.
    let start = Instant::now();
    while !more().is_within(most) && start.elapsed() < Duration::from_secs(2) {
        sleep(Duration::from_millis(1));
    }
    let more = more();
    let text = format!("{front}: {more} more after {MANY} runs than after {FEW} (at most {most})");
    (!more.is_within(most)).then_some(text)
}

/// Rows of a plate; each becomes the mean of its neighbours, again and again.
struct Plate {
    rows: Store<Vec<f64>>,
    n: u32,
    fails: bool,
}

impl Plate {
    fn step(&self, at: (u32, u32)) -> Result<(), TaskError> {
        match self.fails && at == (2, 3) {
            true => Err(TaskError::new("refused", "as told")),
            false => Ok(()),
        }
    }
}

task_space! {
    enum Task;

    impl TaskSpace for Plate {
        type Datum = Vec<f64>;
        let n = self.n;
        data Row[i] where i < n in self.rows at i on Rank(0);

        for i in 0..n {
            Take { i }: update Row[i];
        }
        for t in 0..5 {
            for i in 1..n - 1 {
                Relax { t, i }: read above = Row[i - 1], update own = Row[i], read below = Row[i + 1] => {
                    own[0] = (above[0] + below[0]) / 2.0;
                    self.step((t, i))?;
                }
            }
        }
    }
}

fn plate(fails: bool, on: &dyn Executor) {
    let n = 12;
    let rows = Store::new("plate", (0..n).map(|i| vec![f64::from(i); 8]));
    let ended = run_across(&Plate { rows, n, fails }, on);
    assert_eq!(ended.is_err(), fails);
}

/// Every kind of access.
fn in_order(on: &dyn Executor) {
    let (mut blocks, mut sum, mut list) = (vec![[3u64, 1, 2]; 4], 0u64, Vec::new());
    let ran = scope(on, |s| {
        let (blocks, sum, list) = (s.lend_all(&mut blocks), s.lend(&mut sum), s.lend(&mut list));
        let own = s.handle(1u64);
        for block in &blocks {
            s.task(update(block), |block| block[0] += 1);
            s.task((read(block), reduce(&sum)), |(block, sum)| *sum += block[0]);
            s.task((read(&own), commute(&list)), |(own, list)| list.push(*own));
        }
        s.task((read(&sum), write(&own)), |(sum, own)| *own = *sum);
    });
    ran.unwrap();
    assert_eq!((sum, list.len()), (16, 4));
}

/// Tasks with tasks of their own.
fn nested(on: &dyn Executor) {
    let mut blocks = vec![[3u64, 1, 2]; 4];
    let ran = scope(on, |s| {
        for block in &s.lend_all(&mut blocks) {
            s.nested(write(block), |s, block| {
                for number in s.lend_all(block) {
                    s.task(update(&number), |number| *number += 1);
                }
            });
        }
    });
    ran.unwrap();
    assert_eq!(blocks, [[4, 2, 3]; 4]);
}

/// A program that is recorded, and run in place and as a space.
fn recorded(on: &dyn Executor) {
    let store = Store::new("numbers", (0..6).map(|i| vec![f64::from(i); 10]));
    let program = record("steps", 1, |r| {
        let all: Vec<_> = (0..6).map(|at| r.home(&store, at, Rank(0))).collect();
        for at in 1..6 {
            r.task((read(&all[at - 1]), write(&all[at])), |(left, own)| {
                own[0] += left[0];
            });
        }
    });
    let program = program.unwrap();
    program.run(on).unwrap();
    program.run_across(on).unwrap();
}

struct Fibonacci;

impl Recursive for Fibonacci {
    type Argument = u64;
    type Value = u64;

    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        match n {
            0 | 1 => Ok(Call::Done(n)),
            _ => Ok(Call::fork([n - 1, n - 2], |values| {
                values.into_iter().sum()
            })),
        }
    }
}

fn fibonacci(on: &dyn Executor) {
    assert_eq!(recurse(&Fibonacci, 12, on).unwrap().0, 144);
}

type Program = fn(&dyn Executor);

const FRONTS: [(&str, Program); 6] = [
    ("a space", |on| plate(false, on)),
    ("a space whose body fails", |on| plate(true, on)),
    ("a sequence", in_order),
    ("scopes within scopes", nested),
    ("a recorded program", recorded),
    ("a recursion", fibonacci),
];

/// Each rank has two data and reads the other's, of which the larger travel by request.
fn exchange(on: &Runtime) {
    let (store, sizes) = (Store::empty("data", 4), [8, 100_000]);
    for (at, size) in sizes.into_iter().enumerate() {
        let at = 2 * on.rank().0 as usize + at;
        store.put(at, Version::new(vec![0u8; size])).unwrap();
    }
    let program = record("exchange", 2, |r| {
        let home = |at: usize| r.home(&store, at, Rank(at as u32 / 2));
        let [all, others] = [[0, 1], [2, 3]].map(|both| both.map(home));
        for (one, other) in all.iter().zip(&others) {
            for (from, to) in [(one, other), (other, one), (one, other)] {
                r.task((read(from), write(to)), |(from, to)| to[0] = from[0] + 1);
            }
        }
    });
    program.unwrap().run_across(on).unwrap();
    on.recurse(&Fibonacci, 8).unwrap();
}

fn ranks() -> RuntimeBuilder {
    Runtime::builder().threads(1).ranks(2)
}

/// The same ranks for all runs; one counts when both have ended one and have not begun the next.
fn on_ranks_that_stay() -> Option<String> {
    let both = Barrier::new(2);
    let ran = launch(ranks(), |runtime| {
        let run = || {
            both.wait();
            exchange(runtime);
            both.wait();
        };
        Ok::<_, Error>(match runtime.rank() {
            Rank(0) => grows("ranks that stay", LITTLE, run),
            _ => {
                (0..MANY).for_each(|_| run());
                None
            }
        })
    });
    ran.unwrap()
}

fn on_ranks_made_anew() {
    let ran = launch(ranks(), |runtime| {
        exchange(runtime);
        Ok::<_, Error>(())
    });
    ran.unwrap();
}

#[test]
fn nothing_grows_with_the_number_of_runs() {
    let mut all = Vec::new();
    for (front, program) in FRONTS {
        let on_the_thread = format!("{front}, on the calling thread");
        all.extend(grows(&on_the_thread, NOTHING, || program(&Inline)));
        let runtime = Runtime::builder().threads(2).build().unwrap();
        let on_two = format!("{front}, on two workers");
        all.extend(grows(&on_two, LITTLE, || program(&runtime)));
    }
    all.extend(on_ranks_that_stay());
    all.extend(grows("ranks made anew", LITTLE, on_ranks_made_anew));
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}
