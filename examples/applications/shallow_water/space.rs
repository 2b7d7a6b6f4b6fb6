//! The graph as a space: stages of steps on blocks, and rows that travel.
//!
//! | task | waits for | makes |
//! |---|---|---|
//! | `Start { i }` | nothing | the values of block i at the beginning |
//! | `Advance { t, i }`, stage t mod 4 of step t / 4 | the task before, on the blocks that hold neighbours of block i | the values for the next stage |
//!
//! A block's own state passes from task to task and is changed in place. Its values are read by the
//! blocks of its rank as they are; other ranks get the rows that their stencils read, once each.
//!
//! # Source
//! Paper 001, §5.3, its products and additions fused.

use super::block::{Block, Physics, Stage};
use super::cases::State;
use super::pattern::Pattern;
use Task::{Advance, Start};
use common::variant::Rounds;
use dataflow::prelude::*;

task_names! {
    /// The values of block i at the beginning; after stage t.
    pub enum Task { Start { i }, Advance { t, i } }
}

fn block_of(task: Task) -> u32 {
    match task {
        Start { i } | Advance { i, .. } => i,
    }
}

/// Some values of nodes, row by row.
pub type Rows = Vec<State>;

const OWN: usize = 0;
const NEXT: usize = 1;
/// The first of the flows to other ranks; behind them are those that bring values.
pub const HALOS: usize = 2;

/// So many steps on the blocks of all ranks.
pub struct Steps<'b> {
    pub pattern: &'b Pattern,
    /// For each block of this rank its rows; none of the others.
    pub blocks: &'b [Option<Block>],
    pub physics: Physics,
    pub steps: u32,
    pub dt: f64,
    /// On the rank of each block: its state, and behind it the sum of rates.
    pub own: Store<Rows>,
    /// What `ideal` reads instead of what other ranks send, by block and number of what it reads.
    pub stale: Store<Rows>,
    /// For each block the other ranks that read it.
    reader_ranks: Vec<Vec<u32>>,
    n_halos: usize,
    n_reads: usize,
}

impl<'b> Steps<'b> {
    /// Steps of `dt` seconds; the states of this rank's blocks by node number. What the variant `ideal` reads
    /// is not there.
    pub fn new(
        pattern: &'b Pattern,
        blocks: &'b [Option<Block>],
        physics: Physics,
        (steps, dt): (u32, f64),
        state: impl Fn(usize) -> State,
    ) -> Self {
        let own = blocks.iter().map(|block| match block {
            None => Rows::default(),
            Some(block) => {
                let twice = [(); 2].iter();
                twice
                    .flat_map(|()| block.nodes.clone().map(&state))
                    .collect()
            }
        });
        let reader_ranks = (0..pattern.n_blocks()).map(|block| pattern.reader_ranks(block));
        let reader_ranks: Vec<_> = reader_ranks.collect();
        let longest = |lists: &mut dyn Iterator<Item = usize>| lists.max().unwrap_or(0);
        let n_reads = longest(&mut pattern.reads.iter().map(Vec::len));
        Steps {
            own: Store::new("state", own),
            stale: Store::empty("stale", 0),
            n_halos: longest(&mut reader_ranks.iter().map(Vec::len)),
            n_reads,
            pattern,
            blocks,
            physics,
            steps,
            dt,
            reader_ranks,
        }
    }

    /// The same with what `ideal` reads: the states of the nodes that others would send.
    pub fn with_stale(self, state: impl Fn(usize) -> State) -> Self {
        let stale = self.blocks.iter().flat_map(|block| {
            let arriving = block.as_ref().map_or(&[][..], |block| &block.arriving[..]);
            let rows = arriving
                .iter()
                .map(|nodes| nodes.iter().map(|&node| state(node)).collect());
            let rows: Vec<Rows> = rows.collect();
            let all = rows.into_iter().chain(std::iter::repeat(Rows::new()));
            all.take(self.n_reads)
        });
        let stale = Store::new("stale", stale);
        Steps { stale, ..self }
    }

    /// The flow by which the `slot`-th of the blocks that are read arrives.
    fn read(&self, slot: u32) -> usize {
        HALOS + self.n_halos + slot as usize
    }

    /// The flow by which a block's values go to a rank.
    fn to(&self, block: u32, rank: u32) -> usize {
        if self.pattern.rank(block) == rank {
            return NEXT;
        }
        let ranks = &self.reader_ranks[block as usize];
        HALOS + ranks.partition_point(|&other| other < rank)
    }

    /// The task that comes before stage `t` on a block.
    fn before(t: u32, i: u32) -> Task {
        match t.checked_sub(1) {
            None => Start { i },
            Some(t) => Advance { t, i },
        }
    }

    /// The stage of a task, and the one that comes after it.
    fn after(&self, task: Task) -> Option<(u32, u32)> {
        let (t, i) = match task {
            Start { i } => (0, i),
            Advance { t, i } => (t + 1, i),
        };
        (t < 4 * self.steps).then_some((t, i))
    }

    /// What a rank runs.
    fn block(&self, i: u32) -> Result<&Block, TaskError> {
        let block = self.blocks.get(i as usize).and_then(Option::as_ref);
        block.ok_or_else(|| TaskError::new("no_block", format!("block {i} is of another rank")))
    }
}

impl TaskSpace for Steps<'_> {
    type Task = Task;
    type Datum = Rows;

    fn describe(&self, about: &mut Description) {
        about
            .name("shallow_water")
            .parameter("nodes", self.pattern.n);
        about
            .parameter("nb", self.pattern.nb)
            .parameter("steps", self.steps);
        about
            .parameter("dt", self.dt)
            .parameter("gamma", self.physics.gamma);
        for name in ["Start", "Advance"] {
            let class = about.class(name).update("OWN").of("state");
            let mut class = class.new_flow("NEXT").of("rows");
            for halo in 0..self.n_halos {
                class = class.new_flow(&format!("HALO {halo}")).of("rows");
            }
            for slot in 0..self.n_reads {
                if name == "Advance" {
                    class = class.optional(&format!("VALUES {slot}")).of("rows");
                }
            }
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let blocks = self.pattern.blocks(on.0);
        let stages = move |t| blocks.clone().map(move |i| Advance { t, i });
        self.roots(on).chain((0..4 * self.steps).flat_map(stages))
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        self.pattern.blocks(on.0).map(|i| Start { i })
    }

    fn count(&self, on: Rank) -> u64 {
        self.pattern.blocks(on.0).len() as u64 * (4 * u64::from(self.steps) + 1)
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        let Advance { t, i } = task else {
            let i = block_of(task);
            return from.home(OWN, &self.own, i as usize);
        };
        from.task(OWN, Self::before(t, i), OWN);
        let here = self.pattern.rank(i);
        for (slot, &other) in (0..).zip(&self.pattern.reads[i as usize]) {
            from.task(
                self.read(slot),
                Self::before(t, other),
                self.to(other, here),
            );
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        let i = block_of(task);
        let Some((t, i)) = self.after(task) else {
            return to.home(OWN, &self.own, i as usize);
        };
        to.task(OWN, Advance { t, i }, OWN);
        for &(reader, slot) in &self.pattern.readers[i as usize] {
            let flow = self.to(i, self.pattern.rank(reader));
            to.task(flow, Advance { t, i: reader }, self.read(slot));
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Rows>) -> Result<(), TaskError> {
        let i = block_of(task);
        let block = self.block(i)?;
        let n = block.nodes.len();
        let mut slots = flows.iter();
        let (Some(own), Some(out)) = (slots.next(), slots.next()) else {
            return Ok(());
        };
        let halos: Vec<_> = slots.by_ref().take(self.n_halos).collect();
        let own = own.update();
        let mut next = vec![State::default(); n];
        match task {
            Start { .. } => next.copy_from_slice(&own[..n]),
            Advance { t, .. } => {
                let mut values = Vec::with_capacity(block.n_gathered());
                for (slot, arrived) in slots.enumerate() {
                    if let Some(arrived) = arrived.get() {
                        block.gather(slot, arrived, &mut values);
                    }
                }
                let (number, dt) = (t % 4, self.dt);
                let stage = Stage { number, dt };
                block.advance(&self.physics, stage, &values, own, &mut next);
            }
        }
        if self.after(task).is_some() {
            for (halo, rows) in halos.into_iter().zip(&block.halos) {
                halo.put(rows.iter().map(|&row| next[row as usize]).collect());
            }
            out.put(next);
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        let i = block_of(task);
        Rank(self.pattern.rank(i))
    }

    /// Earlier stages first.
    fn priority(&self, task: Task) -> i64 {
        match task {
            Start { .. } => 1,
            Advance { t, .. } => -i64::from(t),
        }
    }
}

impl Rounds for Steps<'_> {
    fn n_ranks(&self) -> u32 {
        self.pattern.n_ranks
    }

    fn n_rounds(&self) -> u32 {
        4 * self.steps + 1
    }

    fn round(&self, task: Task) -> u32 {
        match task {
            Start { .. } => 0,
            Advance { t, .. } => t + 1,
        }
    }

    /// The rows at the beginning.
    fn stand_in(&self, task: Task, flow: usize) -> Option<(&Store<Rows>, usize)> {
        let slot = flow.checked_sub(self.read(0))?;
        Some((&self.stale, block_of(task) as usize * self.n_reads + slot))
    }
}
