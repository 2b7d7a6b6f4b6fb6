//! Dense: arrivals of spaces that number their tasks and carry no data, one byte a task.
//!
//! # Law
//! A byte holds the flows that have arrived. One read-modify-write is an arrival; the one that
//! completes the set gets the task.
//!
//! # Orderings
//! Acquire and release on the byte: the last to arrive sees what all others wrote before.

use super::pending::{Arrived, Poisoned};
use crate::sync::{AtomicU8, Ordering};
use std::sync::OnceLock;

/// Bytes of a page (under Miri a few, here and below, so that small spaces have many pages).
const PAGE: usize = if cfg!(miri) { 8 } else { 4096 };
/// Pages whose places exist from the start, at most: two million tasks.
const FIRST: usize = if cfg!(miri) { 2 } else { 512 };
/// Times the number of places can double from one on: to 256 MiB of them.
const DOUBLINGS: usize = if cfg!(miri) { 6 } else { 24 };
/// Numbers from here on are none: a space that gives such a one has not numbered densely, and room for
/// all below it would be more than machines have.
pub(crate) const LIMIT: usize = PAGE << DOUBLINGS;
const POISON: u8 = 1 << 7;

/// Bytes by task number, in pages that are made when first touched.
pub(crate) struct DenseRecords {
    first: Box<[OnceLock<ArrivalsPage>]>,
    /// By the logarithm of their first, each as large as all before together.
    later: [OnceLock<Box<[OnceLock<ArrivalsPage>]>>; DOUBLINGS],
}

type ArrivalsPage = Box<[Arrivals; PAGE]>;

impl DenseRecords {
    /// For a run of so many tasks.
    pub fn new(n_tasks: u64) -> Self {
        let n_pages = n_tasks.div_ceil(PAGE as u64).min(FIRST as u64) as usize;
        let n_pages = n_pages.next_power_of_two();
        DenseRecords {
            first: (0..n_pages).map(|_| OnceLock::new()).collect(),
            later: [const { OnceLock::new() }; DOUBLINGS],
        }
    }

    #[inline(always)]
    pub fn arrive(&self, index: usize, flow: usize, awaited: u8, poisoned: Poisoned) -> Arrived {
        self.byte(index).arrive(flow, awaited, poisoned)
    }

    /// The flows that have arrived at a task. Makes no page.
    pub fn arrived(&self, index: usize) -> u8 {
        let arrivals = self.touched(index);
        arrivals.map_or(0, |arrivals| arrivals.0.load(Ordering::Relaxed) & !POISON)
    }

    /// How many tasks of these numbers and above have got something, as far as there are few places for
    /// pages: a run is not to look through a hundred megabytes of them. Makes no page.
    pub fn n_fed_from(&self, index: usize) -> usize {
        let later = self.later.iter().filter_map(OnceLock::get);
        let later = later.take_while(|pages| pages.len() <= FIRST);
        let later = later.flat_map(|pages| pages.iter().zip(pages.len()..));
        let first = self.first.iter().zip(0..);
        let pages = first
            .chain(later)
            .filter_map(|(place, page)| Some((place.get()?, page)));
        let fed = pages.map(|(bytes, page)| {
            let skipped = index.saturating_sub(page * PAGE).min(PAGE);
            let bytes = bytes[skipped..].iter();
            bytes
                .filter(|arrivals| arrivals.0.load(Ordering::Relaxed) & !POISON != 0)
                .count()
        });
        fed.sum()
    }

    /// The byte of a task, if its page was touched.
    fn touched(&self, index: usize) -> Option<&Arrivals> {
        let page = index / PAGE;
        let place = match self.first.get(page) {
            Some(place) => place,
            None => &self.later[page.ilog2() as usize].get()?[page - (1 << page.ilog2())],
        };
        Some(&place.get()?[index % PAGE])
    }

    #[inline(always)]
    fn byte(&self, index: usize) -> &Arrivals {
        let page = index / PAGE;
        let place = match self.first.get(page) {
            Some(place) => place,
            None => self.later_place(page),
        };
        &place.get_or_init(new_page)[index % PAGE]
    }

    fn later_place(&self, page: usize) -> &OnceLock<ArrivalsPage> {
        let first = 1 << page.ilog2();
        let part = &self.later[page.ilog2() as usize];
        &part.get_or_init(|| (0..first).map(|_| OnceLock::new()).collect())[page - first]
    }
}

fn new_page() -> ArrivalsPage {
    let page: Box<[Arrivals]> = (0..PAGE).map(|_| Arrivals::default()).collect();
    page.try_into()
        .unwrap_or_else(|_| unreachable!("a page has {PAGE} bytes"))
}

/// The arrivals at one task.
#[derive(Default)]
pub(crate) struct Arrivals(AtomicU8);

impl Arrivals {
    #[inline(always)]
    pub fn arrive(&self, flow: usize, awaited: u8, poisoned: Poisoned) -> Arrived {
        let bit = 1 << flow;
        let before = if poisoned {
            self.0.fetch_or(bit | POISON, Ordering::AcqRel)
        } else {
            // One instruction, where `fetch_or` is a loop. It spoils the byte if the bit was set
            // already; but then the run ends.
            self.0.fetch_add(bit, Ordering::AcqRel)
        };
        if before & bit != 0 {
            Arrived::FedTwice
        } else if (before | bit) & !POISON == awaited {
            Arrived::Ready(poisoned || before & POISON != 0)
        } else {
            Arrived::StillWaiting
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_flow_gets_the_task_and_a_repeated_one_is_told() {
        for n_tasks in [0, 2 * PAGE as u64, 1 << 40] {
            check(DenseRecords::new(n_tasks));
        }
    }

    fn check(dense: DenseRecords) {
        let is_touched = |index| dense.touched(index).is_some();
        for index in [0, 3 * PAGE, LIMIT - 1] {
            assert_eq!((dense.arrived(index), is_touched(index)), (0, false));
        }
        for index in [0, 1, PAGE - 1, PAGE, 3 * PAGE, LIMIT / 64 + 7, LIMIT - 1] {
            assert_eq!(dense.arrive(index, 2, 0b101, true), Arrived::StillWaiting);
            assert_eq!(dense.arrived(index), 0b100);
            assert_eq!(dense.arrive(index, 2, 0b101, true), Arrived::FedTwice);
            assert_eq!(dense.arrive(index, 0, 0b101, false), Arrived::Ready(true));
            assert_eq!(dense.arrive(index, 0, 0b101, false), Arrived::FedTwice);
        }
        // The largest are too far up to be looked for.
        let near = if cfg!(miri) { 6 } else { 5 };
        let fed = [0, 1, 2, 3 * PAGE, LIMIT - 1].map(|index| dense.n_fed_from(index));
        assert_eq!(fed, [near, near - 1, near - 2, 1, 0]);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p dataflow-core --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    /// What the sources of a task wrote; relaxed, so that only the arrivals order it.
    type Sources = [AtomicU64; 2];

    #[test]
    fn loom_exactly_one_arrival_gets_the_task_and_sees_what_the_others_wrote() {
        loom::model(|| {
            let task = Arc::new((Arrivals::default(), [AtomicU64::new(0), AtomicU64::new(0)]));
            let arrive = |task: &(Arrivals, Sources), flow: usize| {
                task.1[flow].store(flow as u64 + 1, Ordering::Relaxed);
                let got = task.0.arrive(flow, 0b11, flow == 1);
                if let Arrived::Ready(poisoned) = got {
                    assert!(poisoned, "the failure of source 1 is known");
                    for (flow, written) in task.1.iter().enumerate() {
                        assert_eq!(written.load(Ordering::Relaxed), flow as u64 + 1);
                    }
                }
                got
            };
            let other = task.clone();
            let source = thread::spawn(move || arrive(&other, 1));
            let both = [arrive(&task, 0), source.join().unwrap()];
            let ready = both
                .iter()
                .filter(|got| matches!(got, Arrived::Ready(_)))
                .count();
            assert_eq!(ready, 1, "{both:?}");
        });
    }
}
