//! Records: tasks whose inputs carry data, a word and four places each.
//!
//! Up to five cells of one word (key and the set of flows still missing) lie in a cache line; the
//! data that have arrived lie behind it, in places that are made once and used again. Tasks with
//! more flows, or without a free cell, are listed behind.
//!
//! # Law
//! A cell is 0 if it is free. A record without missing flows is a ready task that is parked.

use super::list::List;
use super::table::{BucketContents, Group};
use super::{Arrived, ArrivingInput, Key, Leftover, Missing, Poisoned};
use crate::data::Datum;
use crate::engine::slots::{INLINE, InlineSlots, Slots, empty, exchange, let_go, set};
use crate::space::Sources;

/// Bits of a cell beside the key.
const FLOWS: usize = 7;
const POISON: u64 = 1 << FLOWS;
const CELLS: usize = 5;

/// Four neighbours share a bucket.
#[inline(always)]
pub(super) fn group(key: Key) -> Group {
    key >> 2
}

pub(crate) struct Records<D: Datum> {
    /// `key << 8 | poison | missing flows`.
    cells: [u64; CELLS],
    behind: Option<Box<Overflow<D>>>,
}

struct Overflow<D: Datum> {
    data: [InlineSlots<D>; CELLS],
    list: List<Slots<D>>,
}

impl<D: Datum> Overflow<D> {
    fn n_listed(&self) -> isize {
        self.list.len() as isize
    }

    /// Counts an input of a task that awaits so many, and is listed.
    fn arrive(
        &mut self,
        of: (Key, usize),
        (flow, datum, poisoned): &mut ArrivingInput<D>,
        slots: &mut Slots<D>,
    ) -> Arrived {
        let put = |data: &mut Slots<D>| set(data, *flow, datum.take());
        let (arrived, data) = self.list.arrive(of, *flow, *poisoned, put);
        if let Some(data) = data {
            *slots = data;
        }
        arrived
    }
}

/// A run that was stopped leaves data here.
impl<D: Datum> Drop for Overflow<D> {
    fn drop(&mut self) {
        for places in &mut self.data {
            let_go(places);
        }
        for mut slots in self.list.drain() {
            let_go(&mut slots);
        }
    }
}

impl<D: Datum> Default for Records<D> {
    fn default() -> Self {
        let cells = [0; CELLS];
        Records {
            cells,
            behind: None,
        }
    }
}

impl<D: Datum> Records<D> {
    /// Counts an input of a task that awaits these flows, if it has, or can have, a cell.
    #[inline(always)]
    pub fn arrive(
        &mut self,
        (key, awaited): (Key, u8),
        input: &mut ArrivingInput<D>,
        slots: &mut Slots<D>,
    ) -> Option<Arrived> {
        let cell = match self.cell_of(key) {
            Some(cell) => cell,
            None if self.is_listing() => return None,
            None => {
                let cell = self.free_cell()?;
                self.cells[cell] = key << 8 | u64::from(awaited);
                cell
            }
        };
        Some(self.feed(cell, input, slots))
    }

    #[inline(always)]
    fn feed(&mut self, cell: usize, input: &mut ArrivingInput<D>, slots: &mut Slots<D>) -> Arrived {
        let (flow, datum, poisoned) = input;
        let before = self.cells[cell];
        if before & 1 << *flow == 0 {
            return Arrived::FedTwice;
        }
        let after = before & !(1 << *flow) | u64::from(*poisoned) << FLOWS;
        self.cells[cell] = after;
        if after & (POISON - 1) == 0 {
            let poisoned = self.remove(cell, slots);
            std::mem::swap(&mut slots[*flow], datum);
            return Arrived::Ready(poisoned);
        }
        if datum.is_some() {
            std::mem::swap(&mut self.behind().data[cell][*flow], datum);
        }
        Arrived::StillWaiting
    }

    /// The same for a task without a cell. Also says how many more are listed now. If the flow had been
    /// fed before, `input` keeps the datum.
    #[cold]
    pub fn arrive_behind(
        &mut self,
        of: (Key, usize),
        input: &mut ArrivingInput<D>,
        slots: &mut Slots<D>,
    ) -> (Arrived, isize) {
        let behind = self.behind();
        let before = behind.n_listed();
        let arrived = behind.arrive(of, input, slots);
        (arrived, behind.n_listed() - before)
    }

    /// An input through a flow of a high number, of a task that is listed; see
    /// [`Pending::arrive_wide`](super::Pending::arrive_wide).
    pub fn arrive_wide(
        &mut self,
        (key, claim): (Key, u64),
        input: &mut ArrivingInput<D>,
        sources: Option<Sources>,
        slots: &mut Slots<D>,
    ) -> Option<(Option<Arrived>, isize)> {
        let behind = self.behind();
        let before = behind.n_listed();
        if let Some(sources) = sources {
            behind.list.learn(key, sources);
        }
        let is_named = behind.list.names(key, input.0, claim)?;
        let arrived = is_named.then(|| behind.arrive((key, 0), input, slots));
        Some((arrived, behind.n_listed() - before))
    }

    /// Keeps a ready task's inputs; leaves `slots` empty. Says whether it had to list them.
    pub fn park(&mut self, key: Key, slots: &mut Slots<D>) -> bool {
        match self.free_cell() {
            Some(cell) if slots.len() == INLINE => {
                self.cells[cell] = key << 8;
                exchange(slots, &mut self.behind().data[cell]);
                false
            }
            _ => {
                let data = std::mem::take(slots);
                self.behind().list.park(key, data);
                true
            }
        }
    }

    /// Takes a parked task's inputs back, and says whether it was listed.
    pub fn take(&mut self, key: Key, slots: &mut Slots<D>) -> Option<bool> {
        if let Some(cell) = self.cell_of(key) {
            self.remove(cell, slots);
            return Some(false);
        }
        *slots = self.behind.as_mut()?.list.take(key)?;
        Some(true)
    }

    /// Writes down who waits.
    pub fn leftovers(&self, left: &mut Vec<Leftover>) {
        for cell in self.cells {
            if cell != 0 {
                left.push(Leftover {
                    key: cell >> 8,
                    missing: Missing::Mask((cell & (POISON - 1)) as u16),
                });
            }
        }
        if let Some(behind) = &self.behind {
            behind.list.leftovers(left);
        }
    }

    #[inline(always)]
    fn cell_of(&self, key: Key) -> Option<usize> {
        self.cells.iter().position(|&cell| cell >> 8 == key)
    }

    #[inline(always)]
    fn free_cell(&self) -> Option<usize> {
        self.cells.iter().position(|&cell| cell == 0)
    }

    fn is_listing(&self) -> bool {
        let behind = self.behind.as_ref();
        behind.is_some_and(|behind| behind.list.len() != 0)
    }

    #[inline(always)]
    fn remove(&mut self, cell: usize, slots: &mut Slots<D>) -> Poisoned {
        let poisoned = self.cells[cell] & POISON != 0;
        self.cells[cell] = 0;
        empty(slots);
        if let Some(behind) = &mut self.behind {
            exchange(slots, &mut behind.data[cell]);
        }
        poisoned
    }

    fn behind(&mut self) -> &mut Overflow<D> {
        self.behind.get_or_insert_with(|| {
            Box::new(Overflow {
                data: Default::default(),
                list: List::default(),
            })
        })
    }
}

impl<D: Datum> BucketContents for Records<D> {
    fn move_to(&mut self, child: &mut Self, moves: impl Fn(Group) -> bool) {
        for cell in 0..CELLS {
            let word = self.cells[cell];
            if word != 0 && moves(group(word >> 8)) {
                self.cells[cell] = 0;
                child.cells[cell] = word;
                if let Some(behind) = &mut self.behind {
                    child.behind().data[cell] = std::mem::take(&mut behind.data[cell]);
                }
            }
        }
        if let Some(behind) = &mut self.behind {
            let list = behind.list.split_off(|key| moves(group(key)));
            if list.len() != 0 {
                child.behind().list.append(list);
            }
        }
    }
}
