//! Walk: the tasks of loops inside of loops, one after the other. Used by `task_space!`.
//!
//! Iterators inside of iterators (`flat_map`, `chain`) say the same, but are a type for each loop, all
//! of whose methods are compiled for each type of the space's data: they were a third of what the
//! compiler had to do for tile algorithms. Here the loops that are open stand in an array; and what they run
//! over is said by a function of numbers, which is compiled once.

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
    // Wider than the values: two of them together may be more than one holds.
    let [at, of, start] = [place, places, range.start].map(u64::from);
    let after = (at % of + of - start % of) % of;
    let next = match place < places {
        true => range.start.saturating_add(after as u32),
        false => range.end, // nobody sits there
    };
    Steps {
        next,
        end: range.end,
        by: places,
    }
}

/// A number of tasks, or the largest one: what is beyond it will not end either. It is a sum of products, of
/// a coefficient with parameters each, over a divisor; not negative, exact however large they are on the way.
#[doc(hidden)]
pub fn counted(terms: &[(i128, &[u32])], divisor: i128) -> u64 {
    // In two's complement, lowest bits first: some 32 for each factor, and for the coefficients and
    // their sum.
    let factors = terms.iter().map(|(_, factors)| factors.len()).max();
    let n_limbs = factors.unwrap_or(0) + 6;
    let mut sum = vec![0; n_limbs];
    for (coefficient, factors) in terms {
        let mut term: Vec<u32> = (0..n_limbs)
            .map(|at| (coefficient >> (32 * at).min(127)) as u32)
            .collect();
        for &factor in *factors {
            let mut carry = 0;
            for limb in &mut term {
                carry += u64::from(*limb) * u64::from(factor);
                *limb = carry as u32;
                carry >>= 32;
            }
        }
        let mut carry = 0;
        for (limb, more) in sum.iter_mut().zip(term) {
            carry += u64::from(*limb) + u64::from(more);
            *limb = carry as u32;
            carry >>= 32;
        }
    }
    let (low, high) = sum.split_at(4);
    let low = low
        .iter()
        .rev()
        .fold(0, |low, &limb| low << 32 | u128::from(limb));
    match high.iter().all(|&limb| limb == 0) {
        true => u64::try_from(low / divisor.unsigned_abs()).unwrap_or(u64::MAX),
        false => u64::MAX,
    }
}

/// Loops inside of one another around one task, of which a space has several, one after the other.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Nest {
    /// How many, 1 or more.
    pub loops: usize,
    /// How many of the innermost ones, 1 or more, run the same whatever the values of each other.
    pub even: usize,
    /// Whether tasks are among them that are not asked for.
    pub others: bool,
}

/// The tasks of some nests. `range` says what a loop of a nest runs over, given the values of those
/// around it; `task` names the task for the values of all its loops.
#[doc(hidden)]
pub fn walk<N, R, T, const DEPTH: usize>(
    nests: &'static [Nest],
    range: R,
    task: T,
) -> NestWalk<R, T, DEPTH>
where
    R: Fn(usize, usize, &[u32; DEPTH]) -> Steps,
    T: Fn(usize, &[u32; DEPTH]) -> N,
{
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

/// Of the tasks of some nests, those that are asked for: all where no others are among them.
#[doc(hidden)]
pub fn asked<N, R, T, const DEPTH: usize>(
    walk: NestWalk<R, T, DEPTH>,
    is_asked: impl Fn(N) -> bool + Send,
) -> impl Iterator<Item = N> + Send
where
    N: Copy,
    R: Fn(usize, usize, &[u32; DEPTH]) -> Steps + Send,
    T: Fn(usize, &[u32; DEPTH]) -> N + Send,
{
    AskedWalk { walk, is_asked }
}

/// See [`walk`].
#[doc(hidden)]
#[derive(Debug)]
pub struct NestWalk<R, T, const DEPTH: usize> {
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

    fn begin(&mut self, level: usize) {
        self.open[level] = self.steps(level);
    }

    /// Not in each of its callers: what the loops of a space run over is said once.
    #[inline(never)]
    fn steps(&self, level: usize) -> Steps {
        (self.range)(self.nest, level, &self.values)
    }

    /// How often the innermost of these loops turns, which run the same whatever their own values.
    fn turns(&self, levels: Range<usize>) -> usize {
        levels.fold(1, |n, level| n.saturating_mul(self.steps(level).len()))
    }

    fn next_nest(&mut self) {
        self.nest += 1;
        self.has_begun = false;
    }

    /// How many turns are left of a nest, of which the innermost loops are not walked through.
    fn count_nest(&mut self, Nest { loops, even, .. }: Nest) -> usize {
        let (mut n, outer) = (0usize, loops - even);
        if self.has_begun {
            for level in outer..loops {
                let each = self.turns(level + 1..loops);
                n = n.saturating_add(self.open[level].len().saturating_mul(each));
            }
        }
        while n < usize::MAX && self.turn(outer) {
            n = n.saturating_add(self.turns(outer..loops));
        }
        n
    }
}

impl<N, R, T, const DEPTH: usize> Iterator for NestWalk<R, T, DEPTH>
where
    R: Fn(usize, usize, &[u32; DEPTH]) -> Steps,
    T: Fn(usize, &[u32; DEPTH]) -> N,
{
    type Item = N;

    fn next(&mut self) -> Option<N> {
        while let Some(nest) = self.nests.get(self.nest) {
            if self.turn(nest.loops) {
                return Some((self.task)(self.nest, &self.values));
            }
            self.next_nest();
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

    /// A number beyond the largest is the largest.
    fn count(mut self) -> usize {
        let mut n: usize = 0;
        while let Some(&nest) = self.nests.get(self.nest) {
            n = n.saturating_add(self.count_nest(nest));
            self.next_nest();
        }
        n
    }
}

struct AskedWalk<W, A> {
    walk: W,
    is_asked: A,
}

impl<N, R, T, A, const DEPTH: usize> Iterator for AskedWalk<NestWalk<R, T, DEPTH>, A>
where
    N: Copy,
    R: Fn(usize, usize, &[u32; DEPTH]) -> Steps,
    T: Fn(usize, &[u32; DEPTH]) -> N,
    A: Fn(N) -> bool,
{
    type Item = N;

    fn next(&mut self) -> Option<N> {
        loop {
            let task = self.walk.next()?;
            if !self.walk.nests[self.walk.nest].others || (self.is_asked)(task) {
                return Some(task);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.walk.size_hint()
    }

    /// The innermost loops are not walked through where all their tasks count.
    fn count(mut self) -> usize {
        let mut n: usize = 0;
        while let Some(&nest) = self.walk.nests.get(self.walk.nest) {
            if nest.others {
                while self.walk.turn(nest.loops) {
                    let task = (self.walk.task)(self.walk.nest, &self.walk.values);
                    n += usize::from((self.is_asked)(task));
                }
            } else {
                n = n.saturating_add(self.walk.count_nest(nest));
            }
            self.walk.next_nest();
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
        // A place and all places are more together than a `u32` holds: what was left of them is another's.
        let half = 1 << 31;
        assert!(dealt(0..10, half, half + 1).eq([]));
        assert!(dealt(half - 1..half + 9, half, half + 1).eq([half]));
    }

    /// A triangle, nothing, one task, every third number of a row, a box; of some only the even ones; a
    /// row of rectangles, and a square.
    fn nests(n: u32) -> impl Iterator<Item = (usize, [u32; 3])> + Send {
        const fn nest(loops: usize, even: usize, others: bool) -> Nest {
            Nest {
                loops,
                even,
                others,
            }
        }
        const NESTS: &[Nest] = &[
            nest(2, 1, false),
            nest(3, 3, false),
            nest(1, 1, false),
            nest(1, 1, true),
            nest(3, 1, true),
            nest(3, 2, false),
            nest(2, 2, false),
        ];
        let all = walk(
            NESTS,
            move |nest, level, at: &[u32; 3]| match (nest, level) {
                (0, 1) => (at[0] + 1..n).into(),
                (1, 2) => (n + 5..n).into(),
                (2, _) => (0..1).into(),
                (3, _) => dealt(0..n, 1, 3),
                (5, 1) => (at[0]..n).into(),
                (5, 2) => (1..at[0]).into(),
                _ => (0..n).into(),
            },
            |nest, at| (nest, *at),
        );
        asked(all, |(_, at)| at[0] % 2 == 0)
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
        let oblong = move |i| (i..n).flat_map(move |j| (1..i).map(move |k| (5, vec![i, j, k])));
        let square = (0..n).flat_map(|i| (0..n).map(move |j| (6, vec![i, j])));
        triangle
            .chain([(2, vec![0])])
            .chain(third)
            .chain(of_box)
            .chain((0..n).flat_map(oblong))
            .chain(square)
            .collect()
    }

    #[test]
    fn nests_are_walked_through_and_counted_as_by_iterators_from_wherever_one_stands() {
        for n in 0..6 {
            let loops = [2, 3, 1, 1, 3, 3, 2];
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
    fn a_count_is_exact_however_large_it_is_on_the_way() {
        let most = u32::MAX;
        assert_eq!(counted(&[], 1), 0);
        assert_eq!(counted(&[(3, &[]), (2, &[5, 7])], 1), 73);
        assert_eq!(counted(&[(1, &[most, most]), (-1, &[most])], 2), {
            u64::from(most) * u64::from(most - 1) / 2
        });
        // (a² − a) · b⁶: nothing, and twice two.
        let skew = |a, b| {
            counted(
                &[(1, &[a, a, b, b, b, b, b, b]), (-1, &[a, b, b, b, b, b, b])],
                1,
            )
        };
        assert_eq!((skew(1, most), skew(2, 1), skew(2, most)), (0, 2, u64::MAX));
        assert_eq!(counted(&[(1, &[most, most]), (2, &[most])], 1), u64::MAX);
        assert_eq!(
            counted(&[(1, &[most, most]), (2, &[most]), (1, &[])], 1),
            u64::MAX
        );
        assert_eq!(counted(&[(1, &[1 << 31; 4])], 24), u64::MAX);
        assert_eq!(counted(&[(1, &[1 << 31; 6])], 1), u64::MAX);
        assert_eq!(counted(&[(i128::MAX, &[])], i128::MAX), 1);
    }

    /// It would go on for ever.
    #[test]
    fn a_walk_that_is_counted_ends_with_the_numbers() {
        const ENDLESS: &[Nest] = &[Nest {
            loops: 4,
            even: 2,
            others: false,
        }];
        let range = |_, level, at: &[u32; 4]| match level {
            2 => (at[1].min(1)..1 << 31).into(),
            _ => (0..1 << 31).into(),
        };
        let mut endless = walk(ENDLESS, range, |_, at| *at);
        endless.next();
        assert_eq!(endless.count(), usize::MAX);
    }

    #[test]
    fn of_one_loop_it_is_known_how_many_are_left() {
        const ROW: &[Nest] = &[Nest {
            loops: 1,
            even: 1,
            others: false,
        }];
        let mut row = walk(ROW, |_, _, _: &[u32; 1]| (3..8).into(), |_, at| at[0]);
        for left in (0..5).rev() {
            row.next();
            assert_eq!(row.size_hint(), (0, Some(left)));
        }
        assert_eq!(nests(3).size_hint(), (0, None));
    }
}
