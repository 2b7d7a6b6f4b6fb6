//! List: records of tasks with many inputs, and of those that found no other place.

use super::{Arrived, Key, Leftover, Missing, Poisoned};
use crate::space::Sources;

/// What a task awaits.
#[derive(Clone, Copy)]
pub(crate) enum Few {
    /// A set of narrow flows.
    Narrow(u16),
    /// So many flows, of which some are wide.
    Count(usize),
}

/// Records that lie behind a bucket; `P` is what has arrived for them.
pub(crate) struct List<P>(Vec<ListedRecord<P>>);

struct ListedRecord<P> {
    key: Key,
    missing: usize,
    fed: Vec<bool>,
    /// Where its inputs come from, once one has come through a flow of a high number.
    sources: Option<Sources>,
    poisoned: Poisoned,
    data: P,
}

impl<P: Default> ListedRecord<P> {
    fn awaiting(count: usize, key: Key) -> Self {
        ListedRecord {
            key,
            missing: count,
            fed: Vec::new(),
            sources: None,
            poisoned: false,
            data: P::default(),
        }
    }
}

impl<P> Default for List<P> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<P: Default> List<P> {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, key: Key) -> Option<usize> {
        self.0.iter().position(|listed| listed.key == key)
    }

    /// Counts an input of a task that awaits `count`; the last one gets what has arrived.
    pub fn arrive(
        &mut self,
        (key, count): (Key, usize),
        flow: usize,
        poisoned: Poisoned,
        put: impl FnOnce(&mut P),
    ) -> (Arrived, Option<P>) {
        let at = self.find(key).unwrap_or_else(|| {
            self.0.push(ListedRecord::awaiting(count, key));
            self.0.len() - 1
        });
        let listed = &mut self.0[at];
        if listed.fed.len() <= flow {
            listed.fed.resize(flow + 1, false);
        }
        if listed.missing == 0 || std::mem::replace(&mut listed.fed[flow], true) {
            return (Arrived::FedTwice, None);
        }
        listed.missing -= 1;
        listed.poisoned |= poisoned;
        put(&mut listed.data);
        if listed.missing == 0 {
            let listed = self.0.swap_remove(at);
            return (Arrived::Ready(listed.poisoned), Some(listed.data));
        }
        (Arrived::StillWaiting, None)
    }

    /// Whether an input of a task is one that it names; `None` if its sources are not known.
    pub fn names(&self, key: Key, flow: usize, claim: u64) -> Option<bool> {
        let listed = &self.0[self.find(key)?];
        // Nothing is missing: it is parked, and fed once too often.
        let Some(sources) = &listed.sources else {
            return (listed.missing == 0).then_some(true);
        };
        Some(sources.names(flow, claim))
    }

    /// Notes where the inputs of a task come from.
    pub fn learn(&mut self, key: Key, sources: Sources) {
        let at = self.find(key).unwrap_or_else(|| {
            self.0.push(ListedRecord::awaiting(sources.count(), key));
            self.0.len() - 1
        });
        self.0[at].sources = Some(sources);
    }

    /// Keeps what has arrived for a task that waits for nothing more.
    pub fn park(&mut self, key: Key, data: P) {
        let mut parked = ListedRecord::awaiting(0, key);
        parked.data = data;
        self.0.push(parked);
    }

    /// Takes out what has arrived for a task.
    pub fn take(&mut self, key: Key) -> Option<P> {
        let listed = self.0.swap_remove(self.find(key)?);
        Some(listed.data)
    }

    /// Takes out the records of some keys.
    pub fn split_off(&mut self, moves: impl Fn(Key) -> bool) -> Self {
        let mut split = List::default();
        for listed in std::mem::take(&mut self.0) {
            match moves(listed.key) {
                true => split.0.push(listed),
                false => self.0.push(listed),
            }
        }
        split
    }

    /// Takes out what has arrived, for all.
    pub fn drain(&mut self) -> impl Iterator<Item = P> {
        let all = std::mem::take(&mut self.0);
        all.into_iter().map(|listed| listed.data)
    }

    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub fn leftovers(&self, left: &mut Vec<Leftover>) {
        for listed in &self.0 {
            left.push(Leftover {
                key: listed.key,
                missing: Missing::Fed(listed.fed.clone()),
            });
        }
    }
}
