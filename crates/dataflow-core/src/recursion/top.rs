//! The top of a tree of calls, which every rank unfolds.
//!
//! # Law
//! Breadth first, until there are [`enough_for`] the ranks of open calls or none is left; or fewer, if the
//! calls of the top take long. A call that has failed is an open one that fails again where it is dealt
//! to, so that it does not matter how far the top reaches. Open calls are numbered in the order of the
//! ways to them.

use super::run::CallPath;
use super::{Call, Join, Recursive};
use crate::error::{Error, Kind, TaskError};
use crate::fingerprint::GOLDEN;
use crate::foreign::{Quiet, caught, drop_quietly};
use crate::rank::Rank;
use crate::sync::held;
use std::sync::Mutex;
use std::time::Duration;

/// How many open calls are enough for so many ranks: for each as many as there are ranks, 16 at least and
/// 64 at most. What ranks have of a tree that is uneven is the more alike the more there are, and the more
/// ranks there are the more it takes: of double recursion all of eight ranks have 0.91 of what the busiest
/// has on average, of 64 to 256 ranks 0.8 (with 16 for each 0.75 to 0.6).
pub(super) fn enough_for(n_ranks: usize) -> usize {
    n_ranks.clamp(16, 64) * n_ranks
}

/// Calls of the top that take longer in all are not made on every rank.
const SLOW: Duration = Duration::from_micros(300);
/// So long a rank expects to call before it is asked again.
const UNASKED: Duration = Duration::from_micros(75);

/// The top, and of what is below it this rank's share.
pub(super) struct Top<P: Recursive> {
    /// Calls in the order in which they were unfolded; children stand behind their parents.
    nodes: Mutex<Quiet<Node<P>>>,
    ways: Ways,
    /// By number.
    open: Quiet<OpenCall<P>>,
    /// How many calls were made here.
    pub n_calls: u64,
}

enum Node<P: Recursive> {
    Done(P::Value),
    /// With its children: so many, from this number on.
    Fork(Join<P>, usize, usize),
    Open(Argument<P>),
    /// The same, and its number.
    Dealt(usize),
    /// Taken.
    Gone,
}

/// The argument of a call; or what it has failed with, if it was made already.
type Argument<P> = Result<<P as Recursive>::Argument, TaskError>;

/// An open call: its node, and its argument if it is this rank's.
struct OpenCall<P: Recursive>(usize, Mutex<Option<Argument<P>>>);

/// One of some ranks.
#[derive(Clone, Copy)]
pub(super) struct RankAmong {
    pub rank: Rank,
    pub n_ranks: usize,
}

impl RankAmong {
    /// Whom an open call is dealt to. In each turn further by the golden section of all ranks, so that
    /// nobody has the last children of all forks, which may be the smallest, nor their neighbours.
    pub fn dealt_to(self, number: usize) -> Rank {
        let turn = number / self.n_ranks;
        Rank(((number + self.advance(turn)) % self.n_ranks) as u32)
    }

    /// By how many ranks a turn is further than the first: the golden section times its number, without
    /// what is whole of that, of all ranks.
    fn advance(self, turn: usize) -> usize {
        let part = (turn as u64).wrapping_mul(GOLDEN);
        ((u128::from(part) * self.n_ranks as u128) >> u64::BITS) as usize
    }

    /// The open calls that are [dealt to](Self::dealt_to) a rank, of so many: one in each turn.
    pub fn dealt(self, rank: Rank, n_open: usize) -> impl Iterator<Item = usize> + Send {
        let (rank, n) = (rank.0 as usize, self.n_ranks);
        let turns = 0..n_open.div_ceil(n);
        let in_turn = turns.map(move |turn| turn * n + (rank + n - self.advance(turn)) % n);
        in_turn.filter(move |&number| number < n_open)
    }
}

impl<P: Recursive> Top<P> {
    /// All ranks `ask` alike how many calls more one of them [makes unasked](makes_unasked), which has
    /// spent so long on so many, and end the top if it found them slow: after as many calls as there are
    /// ranks, after the first that has its value, and then after as many as the answer says, twice as many
    /// in all at least.
    ///
    /// - `now`: the clock of this rank, which may be a simulated one
    ///
    /// # Errors
    /// Those of asking.
    pub fn unfold(
        problem: &P,
        argument: P::Argument,
        seat: RankAmong,
        now: impl Fn() -> Duration,
        mut ask: impl FnMut(usize, Duration) -> Result<usize, Error>,
    ) -> Result<Self, Error> {
        let enough = enough_for(seat.n_ranks);
        let mut unfolded = Quiet(vec![Node::Open(Ok(argument))]);
        let nodes = &mut unfolded.0;
        let mut ways = Ways(vec![(0, 0)]);
        let (mut n_calls, mut ask_at, mut has_value) = (0, seat.n_ranks, false);
        let mut spent = Duration::ZERO;
        // They are called in the order in which they stand: those that wait are the last nodes.
        while (1..enough).contains(&(nodes.len() - n_calls)) {
            if n_calls == ask_at {
                let unasked = ask(n_calls, spent)?;
                if unasked == 0 && nodes.len() - n_calls >= seat.n_ranks {
                    break;
                }
                ask_at = n_calls.saturating_add(unasked.max(n_calls));
            }
            let Node::Open(Ok(argument)) = nodes[n_calls].take() else {
                unreachable!("calls are made in their order")
            };
            let start = now();
            let called = guarded(|| problem.call(argument));
            spent += now().saturating_sub(start);
            if matches!(called, Ok(Call::Done(_))) && !has_value {
                (has_value, ask_at) = (true, n_calls + 1);
            }
            nodes[n_calls] = match called {
                Ok(Call::Done(value)) => Node::Done(value),
                Ok(Call::Fork { arguments, join }) => {
                    let (first, n) = (nodes.len(), arguments.len());
                    ways.0.extend((0..n).map(|place| (n_calls, place)));
                    let children = arguments.into_iter();
                    nodes.extend(children.map(|argument| Node::Open(Ok(argument))));
                    Node::Fork(join, first, n)
                }
                Err(error) => Node::Open(Err(error)),
            };
            n_calls += 1;
        }
        Ok(Top {
            open: Quiet(deal_out(nodes, seat)),
            nodes: Mutex::new(unfolded),
            ways,
            n_calls: n_calls as u64,
        })
    }

    pub fn n_open(&self) -> usize {
        self.open.0.len()
    }

    /// Which calls of the top fork into how many, and which are open.
    pub fn shape(&self) -> impl Iterator<Item = u64> {
        let forks = self.ways.0.iter().map(|(above, _)| *above as u64);
        forks.chain(self.open.0.iter().map(|open| open.0 as u64))
    }

    /// An open call that was dealt to this rank, once: the way to it, and its argument.
    pub fn take(&self, number: usize) -> (CallPath, Argument<P>) {
        let OpenCall(node, argument) = &self.open.0[number];
        let Some(argument) = held(argument).take() else {
            unreachable!("an open call is called once, by the rank that it was dealt to");
        };
        (self.ways.to(*node), argument)
    }

    /// Joins all on the first rank, given the values of the open calls: children first.
    ///
    /// # Errors
    /// A join has panicked.
    pub fn join(&self, open: &[&P::Value]) -> Result<P::Value, Error>
    where
        P::Value: Clone,
    {
        let mut unfolded = Quiet(std::mem::take(&mut held(&self.nodes).0));
        let nodes = &mut unfolded.0;
        let mut joined = Quiet(nodes.iter().map(|_| None).collect());
        let values: &mut Vec<Option<P::Value>> = &mut joined.0;
        for at in (0..nodes.len()).rev() {
            values[at] = match nodes[at].take() {
                Node::Done(value) => Some(value),
                Node::Dealt(number) => open.get(number).map(|value| (*value).clone()),
                Node::Fork(join, first, n) => {
                    let children = values[first..first + n].iter_mut().map(Option::take);
                    let children = children.collect::<Option<Vec<_>>>();
                    let joined = guarded(|| Ok(children.map(join)));
                    joined.map_err(|error| Error::of_task(&self.ways.to(at), error))?
                }
                Node::Open(_) | Node::Gone => None,
            };
        }
        match values.first_mut().and_then(Option::take) {
            Some(value) => Ok(value),
            None => unreachable!("every call of the top has its value"),
        }
    }
}

impl<P: Recursive> Node<P> {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Node::Gone)
    }
}

/// Numbers the open calls. What others call, and on all but the first rank, which joins, the values and
/// joins of the top, is dropped.
fn deal_out<P: Recursive>(nodes: &mut Vec<Node<P>>, seat: RankAmong) -> Vec<OpenCall<P>> {
    let mut open = Vec::new();
    let mut below = vec![0];
    while let Some(at) = below.pop() {
        match &nodes[at] {
            Node::Fork(_, first, n) => below.extend((*first..first + n).rev()),
            Node::Open(_) => open.push(at),
            Node::Done(_) | Node::Dealt(_) | Node::Gone => {}
        }
    }
    let mut deal = |(number, at): (usize, usize)| {
        let dealt = std::mem::replace(&mut nodes[at], Node::Dealt(number));
        let argument = match dealt {
            Node::Open(argument) if seat.dealt_to(number) == seat.rank => Some(argument),
            of_others => {
                drop_quietly(of_others);
                None
            }
        };
        OpenCall(at, Mutex::new(argument))
    };
    let open = open.into_iter().enumerate().map(&mut deal).collect();
    if seat.rank != Rank(0) {
        nodes.drain(..).for_each(drop_quietly);
    }
    open
}

/// Of each node the one above it, and its place among those below that one.
struct Ways(Vec<(usize, usize)>);

impl Ways {
    /// The way to a node.
    fn to(&self, mut node: usize) -> CallPath {
        let mut way = Vec::new();
        while node > 0 {
            let (above, place) = self.0[node];
            way.push(place);
            node = above;
        }
        way.reverse();
        CallPath(way)
    }
}

/// How many calls more a rank makes of the top before it is asked again, which has spent so long on so
/// many; 0 if these were slow.
pub(super) fn makes_unasked(n_calls: usize, spent: Duration) -> usize {
    if spent > SLOW {
        return 0;
    }
    let foreseen = n_calls as u128 * UNASKED.as_nanos() / spent.as_nanos().max(1);
    n_calls.max(usize::try_from(foreseen).unwrap_or(usize::MAX))
}

/// A call or a join; its panic is a failure that ends the run.
fn guarded<T>(called: impl FnOnce() -> Result<T, TaskError>) -> Result<T, TaskError> {
    caught(called).unwrap_or_else(|text| {
        let text = format!("call panicked: {text}");
        Err(TaskError::of_part(Error::new(
            Kind::TaskPanicked,
            None,
            text,
        )))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Double recursion; the cost of a call is that of all below it.
    struct Fibonacci;

    impl Recursive for Fibonacci {
        type Argument = u64;
        type Value = u64;

        fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
            Ok(match n {
                0 | 1 => Call::Done(1),
                _ => Call::fork([n - 1, n - 2], |values| values.into_iter().sum()),
            })
        }
    }

    fn cost(n: u64) -> u64 {
        (0..n).fold((1, 1), |(a, b), _| (b, a + b + 1)).0
    }

    fn seats(n_ranks: usize) -> impl Iterator<Item = RankAmong> {
        let seat = move |rank| RankAmong {
            rank: Rank(rank),
            n_ranks,
        };
        (0..n_ranks as u32).map(seat)
    }

    fn unfolded(
        n: u64,
        seat: RankAmong,
        ask: impl FnMut(usize, Duration) -> Result<usize, Error>,
    ) -> Top<Fibonacci> {
        Top::unfold(&Fibonacci, n, seat, || Duration::ZERO, ask).unwrap()
    }

    fn top_of(seat: RankAmong) -> Top<Fibonacci> {
        unfolded(35, seat, |_, _| Ok(usize::MAX))
    }

    /// One rank had the last branch of every fork: the busiest of eight ranks had almost twice its share.
    /// With a rank further each turn, and 16 calls for each, 256 ranks had 0.43 of the busiest's.
    #[test]
    fn of_double_recursion_all_ranks_have_alike() {
        let least = [(2, 0.95), (4, 0.9), (8, 0.9), (16, 0.88), (32, 0.87)];
        for (n_ranks, least) in least.into_iter().chain([64, 128, 256].map(|n| (n, 0.8))) {
            let costs: Vec<u64> = seats(n_ranks)
                .map(|seat| {
                    let top = top_of(seat);
                    let own = top.open.0.iter().filter_map(|open| held(&open.1).take());
                    own.map(|argument| cost(argument.unwrap())).sum()
                })
                .collect();
            let mean = costs.iter().sum::<u64>() as f64 / n_ranks as f64;
            let share = mean / *costs.iter().max().unwrap() as f64;
            assert!(share > least, "{n_ranks} ranks: {share}");
        }
    }

    #[test]
    fn what_a_rank_is_dealt_are_the_calls_that_are_dealt_to_it() {
        for (n_ranks, n_open) in [(2, 0), (2, 33), (3, 48), (5, 83), (7, 6), (64, 1030)] {
            for seat in seats(n_ranks) {
                let all = (0..n_open).filter(|&number| seat.dealt_to(number) == seat.rank);
                assert!(seat.dealt(seat.rank, n_open).eq(all), "{n_ranks}, {n_open}");
            }
        }
    }

    #[test]
    fn each_open_call_is_kept_by_the_rank_that_it_is_dealt_to_alone() {
        let tops: Vec<_> = seats(3).map(|seat| (seat, top_of(seat))).collect();
        assert!(tops[0].1.n_open() >= enough_for(3));
        for number in 0..tops[0].1.n_open() {
            for (seat, top) in &tops {
                let is_kept = held(&top.open.0[number].1).is_some();
                assert_eq!(is_kept, seat.dealt_to(number) == seat.rank);
            }
        }
    }

    /// As many are open as there are ranks, at least, when one finds calls slow.
    #[test]
    fn where_calls_are_slow_fewer_are_made_at_the_top() {
        for seat in seats(4) {
            let top = unfolded(35, seat, |_, _| Ok(0));
            assert_eq!((top.n_calls, top.n_open()), (4, 5));
        }
    }

    /// A chain of ten calls, below which each forks into two.
    struct Stem;

    impl Recursive for Stem {
        type Argument = u64;
        type Value = u64;

        fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
            let below = vec![n + 1; if n < 10 { 1 } else { 2 }];
            Ok(Call::fork(below, |values| values.into_iter().sum()))
        }
    }

    #[test]
    fn however_slow_calls_are_every_rank_has_one() {
        for seat in seats(4) {
            let top = Top::unfold(&Stem, 0, seat, || Duration::ZERO, |_, _| Ok(0)).unwrap();
            assert!(
                top.n_open() >= 4,
                "{} calls, {} open",
                top.n_calls,
                top.n_open()
            );
        }
    }

    #[test]
    fn ranks_ask_after_the_first_call_that_has_its_value() {
        let mut asked = 0;
        let seat = seats(8).next().unwrap();
        let ask = |n_calls, _| {
            asked += 1;
            Ok(if asked > 1 { 0 } else { n_calls })
        };
        // 4 | 3 2 | 2 1 1 0 | …: the fifth call has its value, before as many were made as there are ranks.
        let top = unfolded(4, seat, ask);
        assert_eq!((top.n_calls, asked), (9, 1));
    }

    /// Each question is a run of all ranks: of calls that take nothing there were four on two ranks.
    #[test]
    fn of_fine_calls_ranks_ask_once() {
        for seat in seats(2) {
            let mut asked = 0;
            let ask = |n_calls, spent| {
                asked += 1;
                Ok(makes_unasked(n_calls, spent))
            };
            let top = unfolded(35, seat, ask);
            assert_eq!((top.n_open(), asked), (enough_for(2), 1));
        }
    }

    #[test]
    fn the_longer_calls_take_the_sooner_ranks_ask_again() {
        let micros = Duration::from_micros;
        for (spent, unasked) in [(1, 750), (30, 25), (75, 10), (300, 10), (301, 0)] {
            assert_eq!(makes_unasked(10, micros(spent)), unasked, "{spent}");
        }
    }
}
