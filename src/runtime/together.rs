//! Together: what all ranks call, to tell each other a little, agree, or bring data to one of them.

use super::Runtime;
use crate::collective::{Agreement, Gather};
use dataflow_core::Error;
use dataflow_core::data::Store;
use dataflow_core::port::Wire;
use dataflow_core::rank::Rank;
use dataflow_core::space::{Collect, Description, Erased, TaskSpace};
use dataflow_core::words::counted;
use std::sync::atomic::Ordering;

impl Runtime {
    /// Returns on every rank what each rank has given, by rank. For a few numbers, not for large data.
    ///
    /// Costs each rank but one two messages with data, up a tree of ranks and down again, and every rank gets all
    /// bytes, with eight more for each rank. It is a run, which ranks open and close along the tree with twice as
    /// many messages: of P ranks 6 (P − 1) in all, in about 6 log₂ P steps.
    ///
    /// # Errors
    /// If a rank is lost, or makes another call instead.
    pub fn gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        Gather::new(own, self.n_ranks()).run(self)
    }

    /// Brings the data of a store to the rank `to`, in order; `None` on the other ranks. Every rank
    /// calls it with its own store, as many slots on each, and `owner` says in whose a datum is. The
    /// stores stay as they are.
    ///
    /// Costs a message for each datum of another rank, and on `to` memory for all of them. For a matrix
    /// take `TiledMatrix::collect`.
    ///
    /// Data without size, as `()`, cannot be collected: that does not compile.
    ///
    /// # Errors
    /// If a slot is empty on its owner, `to` or an owner is no rank, ranks name different numbers of
    /// data or other owners, or a rank is lost.
    ///
    /// # Examples
    /// Numbers that are dealt out to three ranks:
    /// ```
    /// use dataflow::prelude::*;
    ///
    /// let all = launch(Runtime::builder().ranks(3).threads(1), |runtime| {
    ///     let owner = |at: usize| Rank(at as u32 % 3);
    ///     let squares = Store::empty("squares", 7);
    ///     for at in (0..7).filter(|&at| owner(at) == runtime.rank()) {
    ///         squares.put(at, Version::new((at * at) as u64)).expect("there are 7 slots");
    ///     }
    ///     runtime.collect(&squares, owner, Rank(0))
    /// })?;
    /// assert_eq!(all, Some(vec![0, 1, 4, 9, 16, 25, 36]));
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn collect<D: Wire>(
        &self,
        store: &Store<D>,
        owner: impl Fn(usize) -> Rank + Sync,
        to: Rank,
    ) -> Result<Option<Vec<D>>, Error> {
        let places = |datum| (owner(datum), datum);
        let collect = Collect::new(store, store.len(), &places, to);
        if let Err(absent) = self.expect_ranks(store.len(), &owner, to) {
            // First, that the others were not told of other ranks: they would wait for this one.
            Agreement(&|about| collect.describe(about)).run(self)?;
            return Err(absent);
        }
        self.run_across(&Erased::new(&collect))?;
        Ok(collect.into_data().filter(|_| self.rank() == to))
    }

    fn expect_ranks(
        &self,
        n_data: usize,
        owner: &impl Fn(usize) -> Rank,
        to: Rank,
    ) -> Result<(), Error> {
        self.expect_rank(to, || "the rank that data go to".to_string())?;
        (0..n_data).try_for_each(|datum| {
            self.expect_rank(owner(datum), || format!("the owner of datum {datum}"))
        })
    }

    fn expect_rank(&self, rank: Rank, what: impl Fn() -> String) -> Result<(), Error> {
        let n_ranks = self.n_ranks();
        if (rank.0 as usize) < n_ranks {
            return Ok(());
        }
        let text = format!("{} is {rank} (there are {n_ranks})", what());
        Err(Error::no_such_rank(text))
    }

    /// Combines the values of all ranks into one, on every rank: each folds them with `op` from the
    /// lowest rank to the highest, so all get the same bits. For a number, or an array of a few.
    ///
    /// Values are plain memory, as a `Vec` is not: tasks of a recorded program add vectors, and
    /// [`gather`](crate::sequence::record::Recorder::gather) there brings the sum to every rank.
    ///
    /// Costs what [`gather`](Self::gather) does: of P ranks 6 (P − 1) messages, in about 6 log₂ P steps. The values
    /// travel in a third of them.
    ///
    /// # Errors
    /// If a rank is lost, does something else instead, or has a value of another type.
    ///
    /// # Examples
    /// ```
    /// use dataflow::{Runtime, launch};
    /// let sums = launch(Runtime::builder().ranks(3).threads(1), |runtime| {
    ///     let rank = f64::from(runtime.rank().0);
    ///     runtime.all_reduce([rank, -rank], |a, b| [a[0] + b[0], a[1].min(b[1])])
    /// })?;
    /// assert_eq!(sums, [3.0, -2.0]);
    /// # Ok::<(), dataflow::Error>(())
    /// ```
    pub fn all_reduce<T: bytemuck::Pod>(
        &self,
        own: T,
        op: impl FnMut(T, T) -> T,
    ) -> Result<T, Error> {
        self.reduce("all_reduce", None, own, op)
    }

    /// The same, as the call of this name, or in it as a step of so many: ranks that make different ones learn it.
    fn reduce<T: bytemuck::Pod>(
        &self,
        call: &'static str,
        step: Option<(u64, u64)>,
        own: T,
        op: impl FnMut(T, T) -> T,
    ) -> Result<T, Error> {
        let bytes = bytemuck::bytes_of(&own).to_vec();
        let gather = Gather::new(bytes, self.n_ranks()).called(call).at(step);
        let all = gather.of::<T>().run(self)?;
        let differs = |bytes: &[u8]| {
            let (len, own) = (bytes.len(), size_of::<T>());
            Error::malformed(format!(
                "a value of {} from a rank (here it has {own})",
                counted(len, "byte")
            ))
        };
        let read =
            |bytes: &Vec<u8>| bytemuck::try_pod_read_unaligned(bytes).map_err(|_| differs(bytes));
        let values = all.iter().map(read).collect::<Result<Vec<T>, _>>()?;
        Ok(values.into_iter().reduce(op).unwrap_or(own))
    }

    /// Repeats a step on all ranks, each of which calls this, until every rank could stop: the step gets
    /// the number of steps before it, and returns whether its rank could stop. Returns the number of
    /// steps; `None` if there were `limit` and a rank would still go on.
    ///
    /// A step finds the data as the last has left them: in the stores of a space, or in the data of a
    /// [replayed](Self::replay) program. The page [`converge`](crate::guide::converge) of the guide
    /// shows it.
    ///
    /// # Errors
    /// The error of a step, on its rank, which may be of the program's own type; the others get a
    /// [`StepFailed`](dataflow_core::Kind::StepFailed) that names that rank, and [`launch`](crate::launch)
    /// returns the step's. Or as [`all_reduce`](Self::all_reduce), also if ranks have different limits.
    pub fn repeat_until<E: From<Error>>(
        &self,
        limit: u64,
        mut step: impl FnMut(u64) -> Result<bool, E>,
    ) -> Result<Option<u64>, E> {
        const FAILED: u32 = 0;
        const AGAIN: u32 = 1;
        const DONE: u32 = 2;
        // A failure of another rank that was borne is no reason of this one's later errors.
        self.other_failed.store(false, Ordering::Relaxed);
        let Rank(rank) = self.rank();
        for number in 0..limit {
            let ended = step(number);
            let own = match &ended {
                Err(_) => FAILED,
                Ok(false) => AGAIN,
                Ok(true) => DONE,
            };
            // Also after a failure: the others must not wait for a rank that has left.
            let step = Some((number, limit));
            let least = self.reduce("repeat_until", step, [own, rank], |a, b| a.min(b));
            ended?;
            match least? {
                [FAILED, of] => {
                    self.other_failed.store(true, Ordering::Relaxed);
                    let text = format!("rank {of} failed in step {number}");
                    return Err(E::from(Error::step_failed(text)));
                }
                [DONE, _] => return Ok(Some(number + 1)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Compares settings by name and value with the other ranks'.
    ///
    /// # Errors
    /// The first that differs, with both values; the same on every rank.
    pub fn agree(&self, name: &str, settings: &[(&str, String)]) -> Result<(), Error> {
        let describe = |about: &mut Description| {
            about.name(name);
            for (name, value) in settings {
                about.parameter(*name, value);
            }
        };
        Agreement(&describe).run(self)
    }
}
