//! Agenda: what will happen when. What is due at the same time comes in the order in which it was planned.
//!
//! A radix heap: time does not go back, so what is due lies in piles by the highest bit in which its time
//! differs from that of the last that was taken. The lowest pile that holds something is dealt out to
//! those below it. Piles are written and read from end to end, so a million entries lie in no cache and
//! nobody waits for memory.
//!
//! # Source
//! Ahuja, Mehlhorn, Orlin, Tarjan, *Faster algorithms for the shortest path problem*, Journal of the ACM
//! 37 (1990).

use std::collections::VecDeque;
use std::time::Duration;

/// A time as the agenda has it: nanoseconds, as many as there are numbers for.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Things by the time at which they are due.
pub struct Agenda<T> {
    /// When the last one was due.
    last: u64,
    /// All that is due at that time.
    now: VecDeque<T>,
    len: usize,
    /// What differs from it in this bit and in none above, in the order in which it was planned: of two
    /// with the same time, both lie in the same pile.
    piles: [Vec<(u64, T)>; 64],
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Agenda {
            last: 0,
            now: VecDeque::new(),
            len: 0,
            piles: [const { Vec::new() }; 64],
        }
    }
}

impl<T> Agenda<T> {
    /// Something is due at a time; now, if that is over.
    pub fn plan(&mut self, time: u64, due: T) {
        self.len += 1;
        self.put(time, due);
    }

    fn put(&mut self, time: u64, due: T) {
        match self.pile(time) {
            None => self.now.push_back(due),
            Some(pile) => self.piles[pile].push((time, due)),
        }
    }

    /// The next thing that is due, and when.
    pub fn next(&mut self) -> Option<(u64, T)> {
        if self.now.is_empty() {
            self.deal_out();
        }
        let due = self.now.pop_front()?;
        self.len -= 1;
        Some((self.last, due))
    }

    /// How much is planned.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes out what is not wanted any more; the rest keeps its order.
    pub fn retain(&mut self, is_wanted: impl Fn(&T) -> bool) {
        self.now.retain(&is_wanted);
        for pile in &mut self.piles {
            pile.retain(|(_, due)| is_wanted(due));
            pile.shrink_to(2 * pile.len());
        }
        self.len = self.now.len() + self.piles.iter().map(Vec::len).sum::<usize>();
    }

    /// Where something of that time belongs, unless it is due now.
    fn pile(&self, time: u64) -> Option<usize> {
        let differs = time.max(self.last) ^ self.last;
        differs.checked_ilog2().map(|bit| bit as usize)
    }

    /// The earliest that is left becomes due.
    fn deal_out(&mut self) {
        let Some(lowest) = self.piles.iter().position(|pile| !pile.is_empty()) else {
            return;
        };
        let mut pile = std::mem::take(&mut self.piles[lowest]);
        let times = pile.iter().map(|(time, _)| *time);
        self.last = times.min().unwrap_or(self.last);
        for (time, due) in pile.drain(..) {
            self.put(time, due);
        }
        // Its room is for the next.
        self.piles[lowest] = pile;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Times after the last that was taken, near or far; and how many are taken then.
        #[test]
        fn what_is_due_first_comes_first_and_of_the_same_time_what_was_planned_first(
            deeds in prop::collection::vec((0_u64..4, 0_u32..40, 0_usize..3), 0..200),
            unwanted_of in 2_usize..9,
        ) {
            let (mut agenda, mut sorted) = (Agenda::default(), BTreeMap::new());
            let mut now = 0;
            for (number, (few, bit, taken)) in deeds.into_iter().enumerate() {
                agenda.plan(now + (few << bit), number);
                sorted.insert((now + (few << bit), number), number);
                for _ in 0..taken {
                    let first = sorted.pop_first().map(|((time, _), number)| (time, number));
                    prop_assert_eq!(agenda.next(), first);
                    now = first.map_or(now, |(time, _)| time);
                }
                if number % 20 == 19 {
                    let is_wanted = |number: &usize| !number.is_multiple_of(unwanted_of);
                    agenda.retain(is_wanted);
                    sorted.retain(|_, number| is_wanted(number));
                }
                prop_assert_eq!(agenda.len(), sorted.len());
            }
            let rest: Vec<(u64, usize)> = std::iter::from_fn(|| agenda.next()).collect();
            let left = sorted.into_iter().map(|((time, _), number)| (time, number));
            prop_assert_eq!(rest, left.collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_planned_for_the_past_is_due_now() {
        let mut agenda = Agenda::default();
        agenda.plan(5, 'a');
        assert_eq!(agenda.next(), Some((5, 'a')));
        agenda.plan(3, 'b');
        agenda.plan(u64::MAX, 'd');
        agenda.plan(5, 'c');
        let rest: Vec<(u64, char)> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(rest, [(5, 'b'), (5, 'c'), (u64::MAX, 'd')]);
    }
}
