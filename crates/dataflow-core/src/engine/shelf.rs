//! Shelves: where values wait that queues know as words.
//!
//! # Law
//! A word names a place from when the place is [given out](Shelves::place) until it is
//! [freed](Shelves::free), and is held once meanwhile: so a place's lock is hardly ever waited for.
//! A worker gives out places of its own shelf only; a worker that frees one of another's hands it back,
//! many at a time. One that it frees itself it keeps locked until it gives it out again, for nobody else
//! goes there: so a worker that runs what it has queued itself locks a place once for each value, not twice. A
//! run that is stopped drops all values with its shelves, whatever these do then.

use crate::foreign::drop_quietly;
use crate::port::Word;
use crate::sync::{SpinGuard, SpinLock, lock};
use std::sync::OnceLock;

/// A shelf for each worker that ever came in; anybody may go to any.
pub(crate) struct Shelves<T> {
    shelves: Box<[OnceLock<Box<Shelf<T>>>]>,
}

/// A place: a value, or what was left of the one before.
pub(crate) type PlaceGuard<'s, T> = SpinGuard<'s, Option<T>>;

type ShelfRow<T> = Box<[SpinLock<Option<T>>]>;

struct Shelf<T> {
    /// Of 8 places, of 16, and so on: no place ever moves.
    rows: [OnceLock<ShelfRow<T>>; ROWS],
    /// While its worker is away.
    known: SpinLock<Known>,
    /// Places that others have freed.
    freed: SpinLock<Vec<u32>>,
}

/// What a worker knows of places while it is inside.
pub(crate) struct Keeper<'s, T> {
    worker: usize,
    known: Known,
    /// Places of its shelf that it has freed itself, with their locks.
    locked: Vec<(Word, PlaceGuard<'s, T>)>,
    /// Words whose places it has freed on others' shelves.
    others: Vec<Word>,
}

/// What a worker knows of its own shelf.
#[derive(Debug, Default)]
struct Known {
    /// How many places were ever given out, and those of them that are free.
    n_places: u32,
    free: Vec<u32>,
}

/// How many bits of a word name a place on a shelf; those above name the shelf.
const PLACE: u32 = 32;
/// Places in the first row, as a power of two.
const FIRST: u32 = 3;
/// Rows until places have no more numbers.
const ROWS: usize = (PLACE - FIRST) as usize;
/// Places that are handed back at once: one exchange of cache lines for all of them.
const MANY: usize = 64;

fn worker_of(word: Word) -> usize {
    (word >> PLACE) as usize
}

impl<T> Shelves<T> {
    pub fn new(n_workers: usize) -> Self {
        Shelves {
            shelves: (0..n_workers).map(|_| OnceLock::new()).collect(),
        }
    }

    /// A worker comes in.
    pub fn keeper(&self, worker: usize) -> Keeper<'_, T> {
        let shelf = self.shelves[worker].get_or_init(Box::default);
        let known = std::mem::take(&mut *lock(&shelf.known));
        Keeper {
            worker,
            known,
            ..Keeper::default()
        }
    }

    /// It goes.
    pub fn keep(&self, keeper: Keeper<'_, T>) {
        let mut keeper = keeper.unlocked();
        self.hand_back(&mut keeper.others);
        let shelf = self.shelves[keeper.worker].get_or_init(Box::default);
        *lock(&shelf.known) = keeper.known;
    }

    /// Gives out a place: its word, and the place under its lock.
    #[inline]
    pub fn place<'s>(&'s self, keeper: &mut Keeper<'s, T>) -> (Word, PlaceGuard<'s, T>) {
        keeper.locked.pop().unwrap_or_else(|| {
            let word = self.unlocked_place(keeper.worker, &mut keeper.known);
            (word, self.at(word))
        })
    }

    /// A place that others have freed, or a new one.
    fn unlocked_place(&self, worker: usize, known: &mut Known) -> Word {
        if known.free.is_empty()
            && let Some(shelf) = self.shelves[worker].get()
        {
            std::mem::swap(&mut known.free, &mut *lock(&shelf.freed));
        }
        let place = known.free.pop().unwrap_or_else(|| {
            known.n_places += 1;
            known.n_places - 1
        });
        (worker as u64) << PLACE | u64::from(place)
    }

    /// The place of a word, under its lock.
    #[inline]
    pub fn at(&self, word: Word) -> PlaceGuard<'_, T> {
        let shelf = self.shelves[worker_of(word)].get_or_init(Box::default);
        let place = u64::from(word as u32) + (1 << FIRST);
        let row = place.ilog2();
        let places = shelf.rows[(row - FIRST) as usize].get_or_init(|| {
            let places = 0..1u64 << row;
            places.map(|_| SpinLock::new(None)).collect()
        });
        lock(&places[(place - (1 << row)) as usize])
    }

    /// The place of a word is free. What lies there is dropped by the worker that gets the place next.
    pub fn free<'s>(&self, word: Word, place: PlaceGuard<'s, T>, keeper: &mut Keeper<'s, T>) {
        if worker_of(word) == keeper.worker {
            return keeper.locked.push((word, place));
        }
        drop(place);
        keeper.others.push(word);
        if keeper.others.len() >= MANY {
            self.hand_back(&mut keeper.others);
        }
    }

    #[cold]
    fn hand_back(&self, others: &mut Vec<Word>) {
        others.sort_unstable();
        let same_shelf = |a: &Word, b: &Word| worker_of(*a) == worker_of(*b);
        for words in others.chunk_by(same_shelf) {
            if let Some(shelf) = self.shelves[worker_of(words[0])].get() {
                lock(&shelf.freed).extend(words.iter().map(|&word| word as u32));
            }
        }
        others.clear();
    }

    /// Puts a value on the worker's own shelf; answers its word.
    pub fn put<'s>(&'s self, value: T, keeper: &mut Keeper<'s, T>) -> Word {
        let (word, mut place) = self.place(keeper);
        *place = Some(value);
        word
    }

    /// The value of a word, and frees its place.
    pub fn take<'s>(&'s self, word: Word, keeper: &mut Keeper<'s, T>) -> T {
        let mut place = self.at(word);
        let value = place.take();
        self.free(word, place, keeper);
        value.unwrap_or_else(|| unreachable!("a word that is held once has its value"))
    }
}

impl<T> Drop for Shelves<T> {
    fn drop(&mut self) {
        let shelves = self.shelves.iter().filter_map(OnceLock::get);
        let rows = shelves.flat_map(|shelf| &shelf.rows);
        let places = rows.filter_map(OnceLock::get).flatten();
        for place in places {
            if let Some(value) = lock(place).take() {
                drop_quietly(value);
            }
        }
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf {
            rows: std::array::from_fn(|_| OnceLock::new()),
            known: SpinLock::new(Known::default()),
            freed: SpinLock::new(Vec::new()),
        }
    }
}

impl<T> Default for Keeper<'_, T> {
    fn default() -> Self {
        Keeper {
            worker: 0,
            known: Known::default(),
            locked: Vec::new(),
            others: Vec::new(),
        }
    }
}

impl<T> Keeper<'_, T> {
    /// Whose it is.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The same, without the locks that it has kept: it need not go before what they borrow.
    pub fn unlocked<'t>(self) -> Keeper<'t, T> {
        let Keeper {
            worker,
            mut known,
            locked,
            others,
        } = self;
        known
            .free
            .extend(locked.iter().map(|(word, _)| *word as u32));
        Keeper {
            worker,
            known,
            locked: Vec::new(),
            others,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_whoever_frees_them_and_are_never_two_words() {
        let (n_words, rounds) = if cfg!(miri) { (150, 4) } else { (1000, 10) };
        let shelves = Shelves::new(2);
        let (mut own, mut other) = (shelves.keeper(0), shelves.keeper(1));
        for round in 0..rounds {
            let words: Vec<Word> = (0..n_words).map(|n| shelves.put(n, &mut own)).collect();
            let mut different = words.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), words.len());
            for (n, word) in words.into_iter().enumerate() {
                let keeper = if n % 3 == round % 3 {
                    &mut own
                } else {
                    &mut other
                };
                assert_eq!(shelves.take(word, keeper), n);
            }
        }
        // What the other one has freed comes back in parts.
        assert!(own.known.n_places < n_words as u32 + 2 * MANY as u32);
        shelves.keep(other);
        shelves.keep(own);
        let mut own = shelves.keeper(0);
        let given_out = u64::from(own.known.n_places);
        assert!(given_out > 0 && shelves.place(&mut own).0 < given_out);
    }

    /// A worker that ran what it had queued took two locks for each task. When it goes, others may come to
    /// what it gave out before.
    #[test]
    fn a_place_that_its_worker_has_freed_stays_locked_until_it_is_used_again_or_the_worker_goes() {
        let shelves = Shelves::new(1);
        let mut own = shelves.keeper(0);
        let word = shelves.put(1, &mut own);
        let is_locked = || {
            let rows = &shelves.shelves[0].get().unwrap().rows;
            rows[0].get().unwrap()[word as usize].is_locked()
        };
        for used in 2..5 {
            assert!(!is_locked(), "the worker that has the word may come");
            assert_eq!(shelves.take(word, &mut own), used - 1);
            assert!(is_locked());
            assert_eq!(shelves.put(used, &mut own), word);
        }
        shelves.take(word, &mut own);
        shelves.keep(own);
        assert!(!is_locked());
    }

    #[test]
    fn whoever_goes_hands_back_the_few_places_it_has_freed() {
        let shelves = Shelves::new(2);
        let (mut own, mut other) = (shelves.keeper(0), shelves.keeper(1));
        let words: Vec<Word> = (0..3).map(|n| shelves.put(n, &mut own)).collect();
        for &word in &words {
            shelves.take(word, &mut other);
        }
        shelves.keep(other);
        for _ in &words {
            assert!(words.contains(&shelves.place(&mut own).0));
        }
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p dataflow-core --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};
    use loom::thread;
    use std::sync::Arc;

    /// As a task parks: its word is known to others before its place is given back. Whether the place is new,
    /// or its worker has kept the lock since the last value.
    #[test]
    fn loom_whoever_learns_a_word_under_the_lock_of_its_place_finds_the_value() {
        for is_used_again in [false, true] {
            loom::model(move || learn_a_word(is_used_again));
        }
    }

    fn learn_a_word(is_used_again: bool) {
        let shelves = Arc::new(Shelves::new(2));
        let known = Arc::new(AtomicU64::new(0));
        let mut keeper = shelves.keeper(0);
        if is_used_again {
            let word = shelves.put(1, &mut keeper);
            assert_eq!(shelves.take(word, &mut keeper), 1);
        }
        let (others, learnt) = (shelves.clone(), known.clone());
        let taking = thread::spawn(move || {
            let mut keeper = others.keeper(1);
            let word = learnt.load(Ordering::Relaxed);
            let value = (word > 0).then(|| others.take(word - 1, &mut keeper));
            others.keep(keeper);
            value
        });
        let (word, mut place) = shelves.place(&mut keeper);
        known.store(word + 1, Ordering::Relaxed);
        *place = Some(7);
        drop(place);
        match taking.join().unwrap() {
            // It was handed back: nobody is given another one.
            Some(value) => assert_eq!((value, shelves.place(&mut keeper).0), (7, word)),
            None => assert_eq!(shelves.take(word, &mut keeper), 7),
        }
    }
}
