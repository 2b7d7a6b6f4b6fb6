//! Shelves: where values wait that queues know as words.
//!
//! # Law
//! A value is taken by its word once. A run that is stopped drops all values with its shelves.

use crate::port::Word;
use crate::sync::{SpinGuard, SpinLock, lock};
use crossbeam_utils::CachePadded;

/// A shelf for each worker; anybody may take from any.
pub(crate) struct Shelves<T> {
    shelves: Box<[CachePadded<SpinLock<Shelf<T>>>]>,
}

/// Values by place.
pub(crate) struct Shelf<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

/// How many bits of a word name a place on a shelf; those above name the shelf.
const PLACE: u32 = 32;

impl<T> Shelves<T> {
    pub fn new(n_workers: usize) -> Self {
        let shelf = || Shelf {
            values: Vec::new(),
            free: Vec::new(),
        };
        let shelves = (0..n_workers).map(|_| CachePadded::new(SpinLock::new(shelf())));
        Shelves {
            shelves: shelves.collect(),
        }
    }

    /// A worker's shelf, under its lock.
    pub fn of(&self, worker: usize) -> SpinGuard<'_, Shelf<T>> {
        lock(&self.shelves[worker])
    }

    /// Puts a value on a worker's shelf; answers its word.
    pub fn put(&self, worker: usize, value: T) -> Word {
        let mut shelf = self.of(worker);
        let word = shelf.next_word(worker);
        shelf.put(word, value);
        word
    }

    /// The value of a word.
    pub fn take(&self, word: Word) -> T {
        let value = self.of((word >> PLACE) as usize).take(word);
        value.unwrap_or_else(|| unreachable!("a word that is held once has its value"))
    }
}

impl<T> Shelf<T> {
    /// The word of the next value to be put on the shelf, which is this worker's.
    pub fn next_word(&mut self, worker: usize) -> Word {
        if self.free.is_empty() {
            self.free.push(self.values.len() as u32);
            self.values.push(None);
        }
        let place = self.free.last().copied().unwrap_or_default();
        (worker as u64) << PLACE | u64::from(place)
    }

    /// Puts a value where [`next_word`](Self::next_word) said.
    pub fn put(&mut self, word: Word, value: T) {
        self.free.pop();
        self.values[word as u32 as usize] = Some(value);
    }

    fn take(&mut self, word: Word) -> Option<T> {
        let place = word as u32;
        let value = self.values.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(value)
    }
}
