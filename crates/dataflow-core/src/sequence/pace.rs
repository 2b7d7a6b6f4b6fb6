//! Pace: how many tasks a worker takes that another has inserted.
//!
//! A task that runs elsewhere than where it was inserted costs both workers some hundred
//! nanoseconds: its memory, and the versions of its data, travel from cache to cache. All workers
//! but the one that inserts therefore measure how long bodies take, one of every [`SLICE`] tasks.
//! Where bodies take less than [`FINE`], such a worker rests for a while after each slice: the inserting
//! worker runs the tasks in less time than it would lose.
//!
//! The worker that inserts runs tasks too, while more wait than may. How many wait all workers know
//! together: to ask them is a cache line each. So it runs its share of what is too much before it asks.
//!
//! # Law
//! A rest ends when no task is left, and after [`LONGEST`] in any case. Meanwhile ready tasks lie in
//! queues, where other workers take them.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Tasks between two judgements.
const SLICE: u32 = 8;
/// Shorter bodies are not worth taking: that costs the inserting worker as much as running them.
const FINE: Duration = Duration::from_nanos(500);
/// Slices that count as worth taking whatever the measured body took, since not all bodies are alike.
const COARSE: Duration = Duration::from_micros(50);
/// How long to rest, in times of the slice before: so what others lose is about a thirtieth.
const REST: u32 = 32;
/// Longest rest.
const LONGEST: Duration = Duration::from_micros(400);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Tasks of this slice so far.
    tasks: u32,
    /// When it began, and how long its first body took.
    begin: Option<Instant>,
    body: Duration,
}

impl Pace {
    /// A task begins: of some the body is watched.
    #[inline(always)]
    pub fn watch(&mut self) -> Option<Stopwatch> {
        self.tasks += 1;
        if self.tasks > 1 {
            return None;
        }
        self.begin = Some(Instant::now());
        Some(Stopwatch(Cell::new(Duration::MAX)))
    }

    /// The task whose body was watched has ended.
    pub fn note(&mut self, Stopwatch(body): &Stopwatch) {
        self.body = body.get();
    }

    #[inline(always)]
    pub fn is_slice_over(&self) -> bool {
        self.tasks >= SLICE
    }

    /// Begins another slice; returns until when to rest before it, if the last one was not worth taking.
    pub fn judge(&mut self) -> Option<Instant> {
        let Pace { begin, body, .. } = std::mem::take(self);
        let (begin, now) = (begin?, Instant::now());
        let rest = rest_after(body, now.duration_since(begin));
        rest.map(|rest| now + rest)
    }
}

/// How long to rest after a slice that took so long, the first body so long of it.
fn rest_after(body: Duration, slice: Duration) -> Option<Duration> {
    let fine = body < FINE && slice < COARSE;
    fine.then(|| (REST * slice).min(LONGEST))
}

/// How many tasks the inserting worker runs of those that wait and should not, before it counts again.
#[derive(Debug, Default)]
pub(super) struct InserterShare {
    /// How many it will have run then, and how many it had when it was asked last.
    until: u64,
    asked: u64,
}

/// Largest share: the others must not run out of tasks meanwhile.
const MOST: u64 = 32;

impl InserterShare {
    /// So many of the next tasks, for a worker that has run `own`.
    pub fn of(tasks: u64, own: u64) -> Self {
        let until = own + tasks.min(MOST);
        InserterShare { until, asked: own }
    }

    /// Whether the worker is still at it. Who has found nothing to run since it was asked last is not.
    pub fn is_left(&mut self, own: u64) -> bool {
        let has_run = std::mem::replace(&mut self.asked, own) < own;
        has_run && own < self.until
    }
}

/// How long one body took, without what the runtime does before and after; infinite if unknown.
pub(super) struct Stopwatch(Cell<Duration>);

impl Stopwatch {
    pub fn begin(&self) -> Instant {
        Instant::now()
    }

    pub fn end(&self, begin: Instant) {
        self.0.set(begin.elapsed());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_share_ends_when_it_is_run_or_when_there_is_nothing_to_run() {
        let counts = |share: &mut InserterShare, own| !share.is_left(own);
        assert!(
            counts(&mut InserterShare::default(), 0) && counts(&mut InserterShare::of(0, 5), 6)
        );
        let mut share = InserterShare::of(3, 5);
        assert!(!counts(&mut share, 6) && !counts(&mut share, 7) && counts(&mut share, 8));
        let mut idle = InserterShare::of(3, 5);
        assert!(!counts(&mut idle, 6) && counts(&mut idle, 6));
        let mut large = InserterShare::of(u64::MAX / 2, 5);
        assert!(!counts(&mut large, 4 + MOST) && counts(&mut large, 5 + MOST));
    }

    #[test]
    fn a_worker_rests_after_fine_tasks_and_not_after_others() {
        let nanosecond = Duration::from_nanos(1);
        let (body, slice) = (FINE - nanosecond, Duration::from_micros(1));
        assert_eq!(rest_after(body, slice), Some(REST * slice));
        assert_eq!(rest_after(body, COARSE - nanosecond), Some(LONGEST));
        assert_eq!(rest_after(body, COARSE), None);
        assert_eq!(rest_after(FINE, slice), None);
    }

    #[test]
    fn of_each_slice_the_first_body_is_watched_and_a_slice_without_is_not_judged() {
        let mut pace = Pace::default();
        assert_eq!(pace.judge(), None);
        for _ in 0..3 {
            let watched = (0..SLICE).map(|_| {
                assert!(!pace.is_slice_over());
                let watch = pace.watch()?;
                let before = watch.begin();
                watch.end(before);
                pace.note(&watch);
                Some(())
            });
            assert_eq!(watched.flatten().count(), 1);
            assert!(pace.is_slice_over());
            // A body nobody has timed is no fine one.
            pace.body = Duration::MAX;
            assert_eq!(pace.judge(), None);
        }
    }
}
