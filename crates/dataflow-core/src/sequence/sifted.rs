//! Sifted: a reduction that adds up good records and says which were bad.
//!
//! # Law
//! A bad record leaves the copy as it was. Which are counted, and which are named, depends on the
//! program alone: copies are merged in the order of insertion.

use super::reduce::Reduce;
use crate::error::TaskError;
use crate::foreign::drop_quietly;

/// Bad records that are kept with their errors; more are counted.
const NAMED: usize = 16;

/// A datum that is [reduced](super::reduce()) from records some of which may be bad.
///
/// A task whose body *fails* spoils the copy that it shares with its neighbours, and with it the
/// whole reduction. Here the body does not fail: it passes its result for the record to
/// [`Sieve::take`], which adds a good one and leaves a bad one out. Bad records are no error of the
/// scope; check [`n_bad`](Self::n_bad) if they should be.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::sequence::{Sifted, reduce, scope};
///
/// let mut sum = Sifted::new(0u64);
/// scope(&Inline, |s| {
///     let sum = s.lend(&mut sum);
///     for (number, line) in (0..).zip(["1", "2", "three", "4"]) {
///         s.task(reduce(&sum), move |sieve| {
///             sieve.take(number, line.parse::<u64>(), |sum, value| *sum += value);
///         });
///     }
/// })?;
/// assert_eq!((sum.good, sum.n_good(), sum.n_bad()), (7, 3, 1));
/// assert_eq!(sum.bad()[0].to_string(), "record 2: invalid digit found in string");
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sifted<T> {
    /// The value built up from the good records.
    pub good: T,
    tally: RecordTally,
}

/// The copy that a task changes instead of a [`Sifted`] datum.
///
/// # Examples
/// See [`Sifted`](Sifted#examples).
#[derive(Clone, Debug)]
pub struct Sieve<C> {
    copy: C,
    tally: RecordTally,
}

/// A record that was left out.
///
/// # Examples
/// See [`Sifted`](Sifted#examples).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bad {
    /// Its number, as its task gave it.
    pub record: u64,
    /// What was wrong.
    pub error: TaskError,
}

#[derive(Clone, Debug, Default)]
struct RecordTally {
    n_good: u64,
    n_bad: u64,
    bad: Vec<Bad>,
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record {}: {}", self.record, self.error)
    }
}

impl<T> Sifted<T> {
    /// A value before any record was added.
    pub fn new(good: T) -> Self {
        let tally = RecordTally::default();
        Sifted { good, tally }
    }

    /// How many records were added.
    pub fn n_good(&self) -> u64 {
        self.tally.n_good
    }

    /// How many were left out.
    pub fn n_bad(&self) -> u64 {
        self.tally.n_bad
    }

    /// The first sixteen that were left out, in the order of insertion.
    pub fn bad(&self) -> &[Bad] {
        &self.tally.bad
    }
}

impl<C> Sieve<C> {
    /// Adds a record to the copy if it is good; otherwise leaves the copy as it is and notes the
    /// record's number and error. Costs nothing beyond `add`.
    pub fn take<V, E: Into<TaskError>>(
        &mut self,
        record: u64,
        value: Result<V, E>,
        add: impl FnOnce(&mut C, V),
    ) {
        match value {
            Ok(value) => {
                add(&mut self.copy, value);
                self.tally.n_good += 1;
            }
            Err(error) => {
                let error = error.into();
                self.tally.n_bad += 1;
                self.tally.keep([Bad { record, error }]);
            }
        }
    }
}

impl RecordTally {
    fn keep(&mut self, bad: impl IntoIterator<Item = Bad>) {
        for bad in bad {
            match self.bad.len() < NAMED {
                true => self.bad.push(bad),
                false => drop_quietly(bad),
            }
        }
    }
}

impl Drop for RecordTally {
    /// Errors are foreign, each by itself.
    fn drop(&mut self) {
        self.bad.drain(..).for_each(drop_quietly);
    }
}

impl<T: Reduce> Reduce for Sifted<T> {
    type Copy = Sieve<T::Copy>;

    fn neutral(&self) -> Self::Copy {
        let (copy, tally) = (self.good.neutral(), RecordTally::default());
        Sieve { copy, tally }
    }

    fn merge(&mut self, mut sieve: Self::Copy) {
        self.good.merge(sieve.copy);
        self.tally.n_good += sieve.tally.n_good;
        self.tally.n_bad += sieve.tally.n_bad;
        self.tally.keep(std::mem::take(&mut sieve.tally.bad));
    }
}
