//! The graph: blocks of options are priced where they fall, and their prices come to rank 0.
//!
//! | task | waits for | makes |
//! |---|---|---|
//! | `Price { b }`, on rank `b · ranks / blocks` | nothing | the prices of block b |
//! | `Gather { b }`, on rank 0, of other ranks' blocks | `Price { b }` | |

use super::options::Options;
use super::price::{Batch, Formula, WIDTH};
use crate::vector::Real;
use Task::{Gather, Price};
use common::variant::Rounds;
use dataflow::prelude::*;
use std::hint::black_box;
use std::ops::Range;

task_names! {
    /// A block of options is priced; its prices arrive.
    pub enum Task { Price { b }, Gather { b } }
}

const PRICES: usize = 0;

/// Options in blocks, over ranks.
pub struct Pricing<'o, T: Real> {
    pub options: &'o Options,
    /// Options of a block.
    pub nb: usize,
    pub formula: Formula,
    /// How often each option is priced.
    pub repeats: usize,
    pub n_ranks: u32,
    /// On rank 0: the prices of each block.
    home: Store<Prices<T>>,
    /// What `ideal` gathers: the prices of a block, and of the last, which are all 0.
    stale: Store<Prices<T>>,
}

/// The prices of one block.
pub type Prices<T> = Vec<T>;

impl<'o, T: Real> Pricing<'o, T> {
    /// Options in blocks of `nb`, each priced `repeats` times, over so many ranks.
    pub fn new(
        options: &'o Options,
        nb: usize,
        formula: Formula,
        repeats: usize,
        n_ranks: usize,
    ) -> Self {
        let n_blocks = options.count.div_ceil(nb);
        let lengths = [nb, options.count - n_blocks.saturating_sub(1) * nb];
        let zeros = lengths.map(|length| vec![T::of(0.0); length]);
        Pricing {
            options,
            nb,
            formula,
            repeats,
            n_ranks: n_ranks as u32,
            home: Store::empty("prices", n_blocks),
            stale: Store::new("stale", zeros),
        }
    }

    /// All prices, once the space has run, on rank 0; none elsewhere.
    pub fn prices(&self) -> Option<Vec<T>> {
        let mut prices = Vec::with_capacity(self.options.count);
        for b in 0..self.home.len() {
            prices.extend(self.home.get(b)?.iter());
        }
        Some(prices)
    }

    fn n_blocks(&self) -> u32 {
        self.home.len() as u32
    }

    /// The blocks of a rank: those that [`TaskSpace::rank`] places there.
    fn blocks(&self, on: Rank) -> Range<u32> {
        let (n_blocks, n_ranks) = (u64::from(self.n_blocks()), u64::from(self.n_ranks));
        let first = |rank: u64| (rank * n_blocks).div_ceil(n_ranks) as u32;
        first(on.0.into())..first(u64::from(on.0) + 1)
    }

    fn price(&self, b: u32) -> Prices<T> {
        let first = b as usize * self.nb;
        let last = (first + self.nb).min(self.options.count);
        let options: Vec<_> = (first..last).map(|index| self.options.get(index)).collect();
        let batches: Vec<Batch<T>> = options.chunks(WIDTH).map(Batch::new).collect();
        let mut prices = vec![[T::of(0.0); WIDTH]; batches.len()];
        for _ in 0..self.repeats {
            // As if the options were new each time.
            for (batch, prices) in black_box(&batches).iter().zip(&mut prices) {
                batch.price(self.formula, prices);
            }
        }
        let mut prices = prices.concat();
        prices.truncate(options.len());
        prices
    }
}

impl<T: Real> TaskSpace for Pricing<'_, T> {
    type Task = Task;
    type Datum = Prices<T>;

    fn describe(&self, about: &mut Description) {
        about
            .name("blackscholes")
            .parameter("precision", T::PRECISION);
        about
            .parameter("options", self.options.count)
            .parameter("nb", self.nb);
        about.parameter("formula", format!("{:?}", self.formula));
        about.parameter("repeats", self.repeats);
        about.class("Price").new_flow("PRICES");
        about.class("Gather").read("PRICES");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let others = match on {
            Rank(0) => self.blocks(on).end..self.n_blocks(),
            _ => 0..0,
        };
        self.roots(on).chain(others.map(|b| Gather { b }))
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        self.blocks(on).map(|b| Price { b })
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        if let Gather { b } = task {
            from.task(PRICES, Price { b }, PRICES);
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        match task {
            Price { b } if self.rank(task) != Rank(0) => to.task(PRICES, Gather { b }, PRICES),
            Price { b } | Gather { b } => to.home(PRICES, &self.home, b as usize),
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Prices<T>>) -> Result<(), TaskError> {
        if let Price { b } = task {
            let [prices] = flows.slots();
            prices.put(self.price(b));
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        match task {
            Price { b } => {
                let place = u64::from(b) * u64::from(self.n_ranks) / u64::from(self.n_blocks());
                Rank(place as u32)
            }
            Gather { .. } => Rank(0),
        }
    }
}

impl<T: Real> Rounds for Pricing<'_, T> {
    fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    fn n_rounds(&self) -> u32 {
        2
    }

    fn round(&self, task: Task) -> u32 {
        match task {
            Price { .. } => 0,
            Gather { .. } => 1,
        }
    }

    fn stand_in(&self, task: Task, _: usize) -> Option<(&Store<Prices<T>>, usize)> {
        match task {
            Price { .. } => None,
            Gather { b } => Some((&self.stale, usize::from(b + 1 == self.n_blocks()))),
        }
    }
}
