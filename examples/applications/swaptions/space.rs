//! The graph: the trials of each swaption in chunks, and their sums on rank 0.
//!
//! | task | waits for | makes |
//! |---|---|---|
//! | `Simulate { i, c }`, in contiguous parts over the ranks | nothing | sums of chunk c of swaption i |
//! | `Reduce { i }`, on rank 0 | `Simulate { i, c }` of every c | their sum, in the order of c |
//!
//! # Law
//! The size of a chunk follows from the number of trials alone, and sums from left to right: so prices
//! do not depend on threads, ranks or schedule.

use super::model::{Claim, Model, Sums, simulate};
use super::random::Random;
use Task::{Reduce, Simulate};
use common::variant::Rounds;
use dataflow::core::port::{Block, Head, Wire};
use dataflow::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

task_names! {
    /// A chunk of trials of a swaption; all its chunks.
    pub enum Task { Simulate { i, c }, Reduce { i } }
}

const SUMS: usize = 0;

/// The flow of `Reduce` that brings chunk `c`; flow 0 is the sum.
fn addend(c: u32) -> usize {
    1 + c as usize
}

/// Claims to be simulated, over ranks.
pub struct Simulation {
    pub claims: Vec<(Model, Claim)>,
    /// Of the first claim; that of the next is one more.
    pub seed: u32,
    /// Trials of each, and of a chunk.
    pub trials: u64,
    pub chunk: u64,
    pub n_ranks: u32,
    /// On rank 0: the sums of each.
    home: Store<Sums>,
    /// What `ideal` has for the sums of a chunk of another rank: none.
    stale: Store<Sums>,
}

impl Datum for Sums {}

impl Wire for Sums {
    fn head(&self) -> Head {
        let values = [self.values, self.squares].map(f64::to_le_bytes).concat();
        Head::from_slice(&[&self.trials.to_le_bytes()[..], &values].concat())
    }

    fn size(&self) -> usize {
        0
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }

    fn unpack(head: &[u8], _: Box<dyn Block>) -> Result<Self, String> {
        let (words, rest) = head.as_chunks::<8>();
        let ([trials, values, squares], []) = (words, rest) else {
            return Err(format!("the sums of {} bytes (must be 24)", head.len()));
        };
        Ok(Sums {
            trials: u64::from_le_bytes(*trials),
            values: f64::from_le_bytes(*values),
            squares: f64::from_le_bytes(*squares),
        })
    }
}

/// Trials of a chunk: some hundred microseconds of work, and not more than 256 chunks.
pub fn default_chunk(trials: u64) -> u64 {
    trials.div_ceil(256).max(2048)
}

impl Simulation {
    /// So many trials of each claim, in chunks, over so many ranks.
    pub fn new(
        claims: Vec<(Model, Claim)>,
        seed: u32,
        trials: u64,
        chunk: u64,
        n_ranks: usize,
    ) -> Self {
        let home = Store::empty("sums", claims.len());
        Simulation {
            claims,
            seed,
            trials,
            chunk,
            n_ranks: n_ranks as u32,
            home,
            stale: Store::new("stale", [Sums::default()]),
        }
    }

    /// The sums of all claims, once the space has run, on rank 0; none elsewhere.
    pub fn sums(&self) -> Option<Vec<Sums>> {
        let all = 0..self.claims.len();
        all.map(|i| self.home.get(i).map(|sums| *sums)).collect()
    }

    fn n_claims(&self) -> u32 {
        self.claims.len() as u32
    }

    fn n_chunks(&self) -> u32 {
        self.trials.div_ceil(self.chunk) as u32
    }

    /// The chunks of a rank, counted through all claims.
    fn part(&self, on: Rank) -> Range<u64> {
        let all = u64::from(self.n_claims()) * u64::from(self.n_chunks());
        let first = |rank: u64| (rank * all).div_ceil(u64::from(self.n_ranks));
        first(on.0.into())..first(u64::from(on.0) + 1)
    }

    fn simulate(&self, i: u32, c: u32) -> Sums {
        let (model, claim) = &self.claims[i as usize];
        let first = u64::from(c) * self.chunk;
        let last = (first + self.chunk).min(self.trials);
        simulate(model, claim, Random::new(self.seed + i), first..last)
    }
}

impl TaskSpace for Simulation {
    type Task = Task;
    type Datum = Sums;

    fn describe(&self, about: &mut Description) {
        about
            .name("swaptions")
            .parameter("swaptions", self.n_claims());
        about
            .parameter("trials", self.trials)
            .parameter("chunk", self.chunk);
        about.parameter("seed", self.seed);
        about.class("Simulate").new_flow("SUMS");
        let chunks = 0..self.n_chunks();
        let reduce = about.class("Reduce").new_flow("SUM");
        chunks.fold(reduce, |reduce, c| reduce.read(&format!("SUMS {c}")));
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let n_reduced = match on {
            Rank(0) => self.n_claims(),
            _ => 0,
        };
        let reduced = (0..n_reduced).map(|i| Reduce { i });
        self.roots(on).chain(reduced)
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let n_chunks = u64::from(self.n_chunks());
        self.part(on).map(move |at| Simulate {
            i: (at / n_chunks) as u32,
            c: (at % n_chunks) as u32,
        })
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        if let Reduce { i } = task {
            for c in 0..self.n_chunks() {
                from.task(addend(c), Simulate { i, c }, SUMS);
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        match task {
            Simulate { i, c } => to.task(SUMS, Reduce { i }, addend(c)),
            Reduce { i } => to.home(SUMS, &self.home, i as usize),
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Sums>) -> Result<(), TaskError> {
        match task {
            Simulate { i, c } => {
                let [sums] = flows.slots();
                sums.put(self.simulate(i, c));
            }
            Reduce { .. } => {
                let mut slots = flows.iter();
                let sum = slots.next();
                let total = slots
                    .map(|sums| *sums.read())
                    .fold(Sums::default(), Sums::and);
                if let Some(sum) = sum {
                    sum.put(total);
                }
            }
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        match task {
            Simulate { i, c } => {
                let all = u64::from(self.n_claims()) * u64::from(self.n_chunks());
                let at = u64::from(i) * u64::from(self.n_chunks()) + u64::from(c);
                Rank((at * u64::from(self.n_ranks) / all) as u32)
            }
            Reduce { .. } => Rank(0),
        }
    }
}

impl Rounds for Simulation {
    fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    fn n_rounds(&self) -> u32 {
        2
    }

    fn round(&self, task: Task) -> u32 {
        match task {
            Simulate { .. } => 0,
            Reduce { .. } => 1,
        }
    }

    fn stand_in(&self, task: Task, _: usize) -> Option<(&Store<Sums>, usize)> {
        match task {
            Simulate { .. } => None,
            Reduce { .. } => Some((&self.stale, 0)),
        }
    }
}
