//! Waiting: the accesses of a task, what each requires, and how far the task has come.
//!
//! Compiled once for each set of accesses, whatever bodies there are; the set itself is compiled in, for a
//! task goes through it five times.

use super::cell::Shown;
use super::held::{Ahead, Held, Label, Twice, Wait};
use super::law::Mode;
use super::lent::InsertingThread;
use super::versions::Woken;
use crate::port::Word;
use smallvec::SmallVec;
use std::collections::HashMap;

/// See the [module](self).
pub(super) struct Waiting<H> {
    /// `None` once the task has ended: others may be the last to know its data.
    held: Option<H>,
    /// How many accesses need not be waited for any more: the first ones.
    passed: u32,
    /// For the right to which datum it waited last.
    waited: Option<u32>,
}

/// Accesses up to which each is compared with each; more are sorted.
const FEW: usize = 16;

/// Whether two of them are the same; mixes them up.
#[inline]
pub(super) fn names_one_twice<T: Ord>(seen: &mut [T]) -> bool {
    if seen.len() <= FEW {
        return (1..seen.len()).any(|at| seen[..at].contains(&seen[at]));
    }
    seen.sort_unstable();
    seen.windows(2).any(|pair| pair[0] == pair[1])
}

impl Twice {
    /// Of a task of which two are.
    #[cold]
    fn of(held: &impl Held) -> Self {
        let mut named: HashMap<*const (), u32> = HashMap::new();
        let mut twice = None;
        let mut at = 0;
        held.each_named(&mut |place| {
            let first = *named.entry(place).or_insert(at);
            if first < at && twice.is_none() {
                twice = Some(Twice(first, at));
            }
            at += 1;
        });
        twice.unwrap_or_else(|| unreachable!("two accesses are to the same datum"))
    }
}

impl<H: Held> Waiting<H> {
    /// Accesses that are not inserted yet.
    #[inline(always)]
    pub fn new(held: H) -> Self {
        Waiting {
            held: Some(held),
            passed: 0,
            waited: None,
        }
    }

    /// Inserts what must come before the task.
    pub fn prepare<'e>(&mut self, ahead: &mut Ahead<'_, 'e>)
    where
        H: 'e,
    {
        if let Some(held) = &mut self.held {
            held.prepare(ahead);
        }
    }

    /// Inserts the accesses.
    ///
    /// # Errors
    /// Two are to the same datum.
    pub fn insert(&mut self, by: &InsertingThread) -> Result<(), Twice> {
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        let mut seen: SmallVec<[*const (); 8]> = SmallVec::new();
        held.each_named(&mut |place| seen.push(place));
        if names_one_twice(&mut seen) {
            return Err(Twice::of(held));
        }
        held.insert(by);
        Ok(())
    }

    /// The data, until the task has ended.
    pub fn held_mut(&mut self) -> Option<&mut H> {
        self.held.as_mut()
    }

    /// Whether the task has its data.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Goes on waiting where the task last parked.
    pub fn advance(&mut self, woken: &mut Woken) -> Wait {
        let mut passed = self.passed;
        let mut waits = false;
        self.each_from(passed, |shown| {
            waits = !shown.versions.have_finished(shown.required);
            passed += u32::from(!waits);
            !waits
        });
        self.passed = passed;
        if waits {
            return Wait::Version(passed);
        }
        match H::COMMUTES {
            true => self.begin_commuting(woken),
            false => Wait::Over,
        }
    }

    /// Takes the rights to commute: all or none, for a task that held some while it waited for others
    /// could close a circle of waits.
    fn begin_commuting(&mut self, woken: &mut Woken) -> Wait {
        let mut missing = None;
        self.each(|at, shown| {
            let asks = missing.is_none() && shown.mode == Mode::Commute;
            if asks && !shown.versions.try_begin_commuting() {
                missing = Some(at);
            }
        });
        let waited = self.waited.take();
        let Some(missing) = missing else {
            return Wait::Over;
        };
        self.each(|at, shown| {
            if at < missing && shown.mode == Mode::Commute {
                shown.versions.end_commuting(woken);
            } else if at > missing && waited == Some(at) {
                shown.versions.pass_on(woken);
            }
        });
        self.waited = Some(missing);
        Wait::Commuting(missing)
    }

    /// Parks at the access that [`advance`](Self::advance) named; false if the task may go on.
    pub fn park(&self, wait: Wait, word: Word, label: &Label) -> bool {
        let (Wait::Version(at) | Wait::Commuting(at)) = wait else {
            return false;
        };
        let mut parked = false;
        self.each_from(at, |shown| {
            parked = match wait {
                Wait::Commuting(_) if H::COMMUTES => {
                    let standing = (label.priority, label.number);
                    shown.versions.wait_to_commute(word, standing)
                }
                _ => shown.versions.park(shown.required, word),
            };
            false
        });
        parked
    }

    /// Whether a task that this one depends on has failed.
    pub fn is_spoilt(&self) -> bool {
        let mut spoilt = false;
        self.each(|_, shown| spoilt |= shown.versions.is_spoilt(shown.required));
        spoilt
    }

    /// Tells on which NUMA nodes the data lie, as far as that is known, and how many bytes they have.
    pub fn pieces(&self, tell: &mut dyn FnMut(usize, u64)) {
        self.each(|_, shown| {
            if let Some((node, bytes)) = shown.lying.lies() {
                tell(node, bytes);
            }
        });
    }

    /// Counts the accesses as finished and drops the data; returns the tasks that this wakes.
    pub fn finish(&mut self, failed: bool, woken: &mut Woken) {
        let Some(held) = self.held.take() else {
            return;
        };
        let left = held.finish(failed, woken);
        match H::N_LOUD < 2 {
            true => drop(left),
            false => H::drop_left(left),
        }
    }

    /// Drops the data, if that has not been done.
    #[inline(always)]
    pub fn let_go(&mut self) {
        if H::N_LOUD < 2 {
            self.held = None;
        } else if let Some(held) = self.held.take() {
            held.let_go();
        }
    }

    /// Calls with each access and its number.
    #[inline(always)]
    fn each(&self, mut show: impl FnMut(u32, Shown<'_>)) {
        let Some(held) = &self.held else { return };
        let mut at = 0;
        held.each(&mut |shown| {
            show(at, shown);
            at += 1;
        });
    }

    /// Calls with each access from one on, as long as that answers to go on.
    #[inline(always)]
    fn each_from(&self, first: u32, mut show: impl FnMut(Shown<'_>) -> bool) {
        if let Some(held) = &self.held {
            held.each_after(&mut { first }, &mut show);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::cell::Cell;
    use super::super::kept::Kept;
    use super::super::mode::{Commute, Read, Write};
    use super::*;

    const BY: InsertingThread = InsertingThread::of_a_scope();

    /// The first access that a task still waits for is found whatever the shape of the set, and the
    /// ones after it are not looked at.
    #[test]
    fn accesses_are_shown_from_one_on_and_no_further_than_is_asked_for() {
        let cells: [_; 5] = std::array::from_fn(|_| Cell::owned(0));
        let of = |at: usize| Kept::<i32, Commute>::new(&cells[at], &BY);
        let held = ((of(0), vec![of(1), of(2)]), (), vec![of(3)], of(4));
        let mut task = Waiting::new(held);
        task.insert(&BY).unwrap();
        let places = cells.each_ref().map(|cell| cell.versions.place());
        for first in 0..=places.len() {
            for n in 1..=places.len() {
                let mut seen = Vec::new();
                task.each_from(first as u32, |shown| {
                    assert_eq!(shown.required, 0, "nothing was inserted before");
                    seen.push(shown.versions.place());
                    seen.len() < n
                });
                let expected: Vec<_> = places[first..].iter().copied().take(n).collect();
                assert_eq!(seen, expected, "{n} from {first}");
            }
        }
    }

    #[test]
    fn of_several_data_that_are_named_twice_the_first_that_comes_again_is_told() {
        let [a, b] = [0, 1].map(Cell::owned);
        let of = |cell| Kept::<i32, Write>::new(cell, &BY);
        let mut task = Waiting::new(vec![of(&b), of(&a), of(&a), of(&b), of(&a)]);
        assert!(matches!(task.insert(&BY), Err(Twice(1, 2))));
    }

    #[test]
    fn a_task_that_fails_spoils_what_it_was_to_change_and_nothing_that_it_looked_at() {
        let [seen, changed, added] = [0, 1, 2].map(Cell::owned);
        let held = (
            Kept::<i32, Read>::new(&seen, &BY),
            Kept::<i32, Write>::new(&changed, &BY),
            Kept::<i32, Commute>::new(&added, &BY),
        );
        let mut fails = Waiting::new(held);
        fails.insert(&BY).unwrap();
        let next = [&seen, &changed, &added].map(|cell| {
            let mut task = Waiting::new(Kept::<i32, Write>::new(cell, &BY));
            task.insert(&BY).unwrap();
            task
        });
        let mut woken = Woken::new();
        assert!(matches!(fails.advance(&mut woken), Wait::Over));
        fails.finish(true, &mut woken);
        assert_eq!(next.map(|task| task.is_spoilt()), [false, true, true]);
    }

    /// A task that was woken because it may commute, and then waits elsewhere, wakes the next one in
    /// its place: nobody else would.
    #[test]
    fn a_right_to_commute_that_is_not_taken_is_passed_on() {
        let (a, b) = (Cell::owned(0), Cell::owned(0));
        let of = |cell| Kept::<i32, Commute>::new(cell, &BY);
        let (mut both, mut one) = (Waiting::new((of(&a), of(&b))), Waiting::new(of(&b)));
        both.insert(&BY).unwrap();
        one.insert(&BY).unwrap();
        fn waits<H: Held>(task: &mut Waiting<H>, word: Word) -> (bool, Vec<Word>) {
            let mut woken = Woken::new();
            let wait = task.begin_commuting(&mut woken);
            let waits = match wait {
                Wait::Commuting(at) => {
                    let mut waits = false;
                    task.each(|other, shown| {
                        if other == at {
                            waits = shown.versions.wait_to_commute(word, (0, word));
                        }
                    });
                    waits
                }
                _ => false,
            };
            (waits, woken.to_vec())
        }
        assert!(b.versions.try_begin_commuting(), "somebody is at b");
        assert_eq!(waits(&mut both, 1), (true, vec![]));
        assert_eq!(waits(&mut one, 2), (true, vec![]));
        assert!(a.versions.try_begin_commuting(), "and now at a");
        let mut woken = Woken::new();
        b.versions.end_commuting(&mut woken);
        assert_eq!(woken.to_vec(), [1], "who was inserted first");
        assert_eq!(
            waits(&mut both, 1),
            (true, vec![2]),
            "it waits at a: the next one at b may"
        );
        assert_eq!(waits(&mut one, 2), (false, vec![]));
    }

    /// One that was woken too late, for another had just taken the right, waited again behind all that had
    /// come meanwhile.
    #[test]
    fn of_those_that_wait_to_commute_the_most_urgent_is_next_then_who_was_inserted_first() {
        let cell = Cell::owned(0);
        let versions = &cell.versions;
        let next = || {
            let mut woken = Woken::new();
            versions.end_commuting(&mut woken);
            woken.pop()
        };
        assert!(versions.try_begin_commuting(), "somebody is at work");
        for (number, priority) in [(3, -1), (5, 0), (4, 5), (1, 0), (2, 5)] {
            assert!(versions.wait_to_commute(number, (priority, number)));
        }
        assert_eq!(next(), Some(2));
        assert!(versions.try_begin_commuting(), "who had not waited");
        assert!(versions.wait_to_commute(2, (5, 2)));
        let all: Vec<_> = std::iter::from_fn(next).collect();
        assert_eq!(all, [2, 4, 1, 5, 3]);
    }
}
