//! Walk: the tasks of loops inside of loops, one after the other. Used by `task_space!`.
//!
//! Iterators inside of iterators (`flat_map`, `chain`) say the same, but are a type for each loop, all
//! of whose methods are compiled for each type of the space's data: they were a third of what the
//! compiler had to do for tile algorithms. Here the loops that are open stand in an array.

use std::ops::Range;

/// What one loop runs over: every `by`th number of a range.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    next: u32,
    end: u32,
    by: u32,
}

impl From<Range<u32>> for Steps {
    fn from(range: Range<u32>) -> Self {
        let Range { start, end } = range;
        Steps {
            next: start,
            end,
            by: 1,
        }
    }
}

impl Iterator for Steps {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let value = self.next;
        // A range ends before the largest number, which so is none of its values.
        self.next = value.saturating_add(self.by);
        (value < self.end).then_some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end.saturating_sub(self.next);
        let left = left.div_ceil(self.by.max(1)) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Steps {}

/// A range with an end that was computed wider than the values, which must fit.
///
/// # Panics
/// If one does not.
#[doc(hidden)]
#[inline]
pub fn narrow(range: Range<u64>) -> Range<u32> {
    let Range { start, end } = range;
    match u32::try_from(end) {
        _ if start >= end => 0..0,
        Ok(end) => start as u32..end,
        Err(_) => beyond(end),
    }
}

#[cold]
fn beyond(end: u64) -> ! {
    panic!(
        "a loop of a space runs to {end} (its variable is a `u32`: {} is the most)",
        u32::MAX
    )
}

/// The numbers of a range whose remainder by `places` is `place`: those of one rank.
#[doc(hidden)]
pub fn dealt(range: Range<u32>, place: u32, places: u32) -> Steps {
    let after = (place % places + places - range.start % places) % places;
    let next = match place < places {
        true => range.start.saturating_add(after),
        false => range.end, // nobody sits there
    };
    Steps {
        next,
        end: range.end,
        by: places,
    }
}

/// A number of tasks, or the largest one: what is beyond it will not end either.
#[doc(hidden)]
#[inline]
pub fn counted(tasks: i128) -> u64 {
    u64::try_from(tasks).unwrap_or(u64::MAX)
}

/// Loops inside of one another around one task, of which a space has several, one after the other.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Nest {
    /// How many, 1 or more.
    pub loops: usize,
    /// Whether tasks are among them that are not asked for.
    pub others: bool,
}

/// The tasks of some nests. `range` says what a loop of a nest runs over, given the values of those
/// around it; `task` names the task for the values of all its loops, if it is asked for.
#[doc(hidden)]
pub fn walk<N, const DEPTH: usize>(
    nests: &'static [Nest],
    range: impl Fn(usize, usize, &[u32; DEPTH]) -> Steps + Send,
    task: impl Fn(usize, &[u32; DEPTH]) -> Option<N> + Send,
) -> impl Iterator<Item = N> + Send {
    NestWalk {
        nests,
        range,
        task,
        nest: 0,
        has_begun: false,
        open: [Steps::default(); DEPTH],
        values: [0; DEPTH],
    }
}

struct NestWalk<R, T, const DEPTH: usize> {
    nests: &'static [Nest],
    range: R,
    task: T,
    /// Which nest is walked through.
    nest: usize,
    has_begun: bool,
    /// What is left of its loops, outermost first.
    open: [Steps; DEPTH],
    values: [u32; DEPTH],
}

impl<R, T, const DEPTH: usize> NestWalk<R, T, DEPTH>
where
    R: Fn(usize, usize, &[u32; DEPTH]) -> Steps,
{
    /// Gives the outermost loops of the nest, so many, their next values. False if there are none.
    fn turn(&mut self, loops: usize) -> bool {
        let begins = !std::mem::replace(&mut self.has_begun, true);
        // Which loop has its turn; those outside of it have their values.
        let mut at = if begins { 0 } else { loops };
        match at {
            0 if loops == 0 => return begins,
            0 => self.begin(0),
            _ => at -= 1,
        }
        while at < loops {
            match self.open[at].next() {
                Some(value) => {
                    self.values[at] = value;
                    at += 1;
                    if at < loops {
                        self.begin(at);
                    }
                }
                None if at == 0 => return false,
                None => at -= 1,
            }
        }
        true
    }

    /// Not in each of its callers: what the loops of a space run over is said once.
    #[inline(never)]
    fn begin(&mut self, level: usize) {
        self.open[level] = (self.range)(self.nest, level, &self.values);
    }

    fn next_nest(&mut self) {
        self.nest += 1;
        self.has_begun = false;
    }
}

impl<N, R, T, const DEPTH: usize> Iterator for NestWalk<R, T, DEPTH>
where
    R: Fn(usize, usize, &[u32; DEPTH]) -> Steps,
    T: Fn(usize, &[u32; DEPTH]) -> Option<N>,
{
    type Item = N;

    fn next(&mut self) -> Option<N> {
        while let Some(nest) = self.nests.get(self.nest) {
            if !self.turn(nest.loops) {
                self.next_nest();
            } else if let Some(task) = (self.task)(self.nest, &self.values) {
                return Some(task);
            }
        }
        None
    }

    /// Of one loop that has begun it is known how many are left.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.nests[self.nest.min(self.nests.len())..] {
            [] => Some(0),
            [Nest { loops: 1, .. }] if self.has_begun => self.open[0].size_hint().1,
            _ => None,
        };
        (0, left)
    }

    /// The innermost loops are not walked through where all their tasks count.
    fn count(mut self) -> usize {
        let mut n = 0;
        while let Some(&Nest { loops, others }) = self.nests.get(self.nest) {
            if others {
                while self.turn(loops) {
                    n += usize::from((self.task)(self.nest, &self.values).is_some());
                }
            } else {
                if self.has_begun {
                    n += self.open[loops - 1].len();
                }
                while self.turn(loops - 1) {
                    self.begin(loops - 1);
                    n += self.open[loops - 1].len();
                }
            }
            self.next_nest();
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_dealt_to_one_place() {
        for (range, places) in [(0..0, 1), (5..5, 2), (0..9, 1), (2..17, 3), (7..8, 5)] {
            let mut all: Vec<u32> = (0..places + 2)
                .flat_map(|place| {
                    let dealt = dealt(range.clone(), place, places);
                    assert_eq!(dealt.len(), dealt.count());
                    dealt.inspect(move |number| assert_eq!(number % places, place))
                })
                .collect();
            all.sort();
            assert!(all.into_iter().eq(range.clone()), "{range:?} to {places}");
        }
        assert_eq!(dealt(u32::MAX - 1..u32::MAX, 3, 7).count(), 0);
        assert_eq!(dealt(u32::MAX - 9..u32::MAX, 3, 7).count(), 1);
    }

    /// A triangle, nothing, one task, every third number of a row, a box; of some only the even ones.
    fn nests(n: u32) -> impl Iterator<Item = (usize, [u32; 3])> + Send {
        const fn nest(loops: usize, others: bool) -> Nest {
            Nest { loops, others }
        }
        const NESTS: &[Nest] = &[
            nest(2, false),
            nest(3, false),
            nest(1, false),
            nest(1, true),
            nest(3, true),
        ];
        walk(
            NESTS,
            move |nest, level, at: &[u32; 3]| match (nest, level) {
                (0, 1) => (at[0] + 1..n).into(),
                (1, 2) => (n + 5..n).into(),
                (2, _) => (0..1).into(),
                (3, _) => dealt(0..n, 1, 3),
                _ => (0..n).into(),
            },
            |nest, at| (nest < 3 || at[0] % 2 == 0).then_some((nest, *at)),
        )
    }

    /// The same by iterators inside of iterators; values of loops that a nest has not got are not told.
    fn expected(n: u32) -> Vec<(usize, Vec<u32>)> {
        let triangle = (0..n).flat_map(|i| (i + 1..n).map(move |j| (0, vec![i, j])));
        let third = (0..n)
            .filter(|i| i % 3 == 1 && i % 2 == 0)
            .map(|i| (3, vec![i]));
        let even = (0..n).step_by(2);
        let of_box =
            even.flat_map(|i| (0..n).flat_map(move |j| (0..n).map(move |k| (4, vec![i, j, k]))));
        triangle
            .chain([(2, vec![0])])
            .chain(third)
            .chain(of_box)
            .collect()
    }

    #[test]
    fn nests_are_walked_through_and_counted_as_by_iterators_from_wherever_one_stands() {
        for n in 0..6 {
            let loops = [2, 3, 1, 1, 3];
            let told = nests(n).map(|(nest, at)| (nest, at[..loops[nest]].to_vec()));
            let expected = expected(n);
            assert_eq!(told.collect::<Vec<_>>(), expected);
            for gone in 0..=expected.len() {
                let mut rest = nests(n);
                rest.by_ref().take(gone).for_each(drop);
                assert_eq!(rest.count(), expected.len() - gone);
            }
        }
    }

    #[test]
    fn of_one_loop_it_is_known_how_many_are_left() {
        const ROW: &[Nest] = &[Nest {
            loops: 1,
            others: false,
        }];
        let mut row = walk(ROW, |_, _, _: &[u32; 1]| (3..8).into(), |_, at| Some(at[0]));
        for left in (0..5).rev() {
            row.next();
            assert_eq!(row.size_hint(), (0, Some(left)));
        }
        assert_eq!(nests(3).size_hint(), (0, None));
    }
}
