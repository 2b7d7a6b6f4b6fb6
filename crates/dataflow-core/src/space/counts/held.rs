//! Held: received data that some task of their rank still needs.

use super::mixer::NameTable;
use super::{Counting, OfRank};
use crate::data::Store;
use crate::rank::Rank;
use crate::space::{Inputs, TaskSpace};

/// What all ranks hold.
pub(super) struct HeldBytes<T> {
    /// By source, its flow and the rank: how many tasks there have not run yet, and its bytes.
    needed: NameTable<(T, u32, Rank), (u32, u64)>,
    /// By rank; of data that need not fit any memory.
    bytes: Vec<u128>,
}

impl<T> HeldBytes<T> {
    pub fn by(n_ranks: u32) -> Self {
        HeldBytes {
            needed: NameTable::default(),
            bytes: vec![0; n_ranks as usize],
        }
    }

    /// What a rank holds now.
    pub fn note(&self, ranks: &mut [OfRank]) {
        let ranks = ranks.iter_mut().zip(&self.bytes);
        let narrow = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        ranks.for_each(|(rank, bytes)| rank.held = rank.held.max(narrow(*bytes)));
    }
}

impl<T: crate::space::TaskName> HeldBytes<T> {
    /// A datum has come, for so many tasks.
    pub fn come(&mut self, datum: (T, u32, Rank), uses: u32, bytes: u64) {
        self.bytes[datum.2.0 as usize] += u128::from(bytes);
        self.needed.insert(datum, (uses, bytes));
    }

    /// A task has run: what it was the last to need goes.
    pub fn has_run<S: TaskSpace<Task = T>>(&mut self, asked: &Counting<'_, S>, task: T, on: Rank) {
        let space = asked.space;
        space.inputs(
            task,
            &mut Needed {
                held: self,
                space,
                on,
            },
        );
    }
}

/// Hears what a task has needed.
struct Needed<'h, S: TaskSpace> {
    held: &'h mut HeldBytes<S::Task>,
    space: &'h S,
    on: Rank,
}

impl<S: TaskSpace> Inputs<S> for Needed<'_, S> {
    fn task(&mut self, _: usize, source: S::Task, source_flow: usize) {
        if self.space.rank(source) == self.on {
            return;
        }
        let datum = (source, source_flow as u32, self.on);
        // Edges that only order bring nothing.
        let Some((uses, bytes)) = self.held.needed.get_mut(&datum) else {
            return;
        };
        *uses -= 1;
        if *uses == 0 {
            self.held.bytes[self.on.0 as usize] -= u128::from(*bytes);
            self.held.needed.remove(&datum);
        }
    }

    fn home(&mut self, _: usize, _: &Store<S::Datum>, _: usize) {}
}
