//! Recorded programs: a sequence as a task space, to be run many times, or across ranks.
//!
//! [`record()`] runs a program that inserts tasks on data that live in [stores](Store), and finds
//! the edges; no task runs yet. It returns a [`TaskSpace`](crate::space::TaskSpace) that can be run any
//! number of times, also [across ranks](crate::run_across), where every rank records the same program.
//! A task runs on the rank that owns what it writes; each version of a
//! datum goes once to each rank that reads it, and is freed when its last reader there has ended.
//!
//! # Law
//! A task gets each datum as it was left by the last task before it that changes the datum. Accesses
//! that commute are made in the order of insertion.
//!
//! Recorded for one rank, a program [runs](Recorded::run) *in place*: a write waits for the reads
//! before it, and nothing is copied, unless a version is held outside of the run. Across ranks
//! data *flow*, as in any space (on one rank too, if [`run`](crate::run) is given the program): a write
//! does not wait for readers, it gets a copy if one still holds the version before. That takes more
//! memory and more time a task, and more tasks can run at once. The values are the same.
//!
//! If a body fails, the data that it changes stay as they are then; tasks that need them are skipped, all
//! others run. After a run all data are at home, and the program can run again. After a panic or a
//! cancellation data of a run in place are as its tasks have left them; of any other run they may also be
//! as they were before it.
//!
//! The whole program is kept, on every rank: some 70 bytes a task beside what its body holds, 30 an
//! access, and in place 4 a wait, of which there are at most two an access. Tasks of one name that access
//! different numbers of data, or change others of them, are of different classes, and a run across ranks
//! describes each flow of each class, in some 70 bytes: `Vec`s of accesses of many lengths take that beside.
//!
//! # Examples
//! A time step that is recorded once:
//! ```
//! use dataflow_core::prelude::*;
//! use dataflow_core::port::Inline;
//! use dataflow_core::sequence::{read, record::record, write};
//!
//! let store = Store::new("numbers", [1, 1]);
//! let step = record("fibonacci", 1, |r| {
//!     let [a, b] = [0, 1].map(|index| r.home(&store, index, Rank(0)));
//!     r.task((write(&a), read(&b)), |(a, b)| *a += b);
//!     r.task((read(&a), write(&b)), |(a, b)| *b += a);
//! })?;
//! for _ in 0..5 {
//!     step.run(&Inline)?;
//! }
//! assert_eq!(*store.get(1).unwrap(), 144);
//! # Ok::<(), dataflow_core::Error>(())
//! ```
//! Only handles of a scope can be [reduced](super::reduce()); in a recorded program write the copies
//! and the merging tasks yourself. This does not compile:
//! ```compile_fail,E0308
//! # use dataflow_core::prelude::*;
//! # use dataflow_core::sequence::{record::record, reduce};
//! # let store = Store::new("numbers", [1]);
//! record("sum", 1, |r| {
//!     let sum = r.home(&store, 0, Rank(0));
//!     r.task(reduce(&sum), |sum| *sum += 1);
//! });
//! ```
//!
//! # Source
//! Zafari, Larsson, Tillenius, *DuctTeip*, Parallel Computing 90 (2019), §4 (paper 001): a rank that
//! knows the whole program knows which ranks will read a datum, so none has to ask for it.

mod accesses;
mod graph;
mod order;
mod places;
mod program;
mod replay;
mod space;

pub use accesses::{Home, HomeSet, Lent};
pub use graph::Gathered;
pub use program::{Inserting, Recorder};
pub use space::{Recorded, Step};

use crate::data::Datum;
#[cfg(doc)]
use crate::data::Store;
use crate::error::Error;

/// Records a program for so many ranks.
///
/// # Errors
/// The first task that accesses one datum twice, writes data of two owners or of another rank than it
/// was put on, or belongs to a rank that does not exist; of a program for one rank, a slot that tasks access
/// by two handles; no ranks, or more than 4294967295; more than 2³¹ data, or 2³² - 1 tasks or accesses, those
/// that take data from home among them.
pub fn record<'env, D: Datum>(
    name: impl Into<String>,
    n_ranks: usize,
    program: impl for<'c> FnOnce(&Recorder<'c, 'env, D>),
) -> Result<Recorded<'env, D>, Error> {
    let name = name.into();
    if !u32::try_from(n_ranks).is_ok_and(|n| n > 0) {
        let most = u32::MAX;
        let text =
            format!("{name:?} is to be recorded for {n_ranks} ranks (1 to {most} are allowed)");
        return Err(Error::wrong_settings(text));
    }
    let recorder = Recorder::new(name, n_ranks);
    program(&recorder);
    recorder.finish().map(Recorded::of)
}
