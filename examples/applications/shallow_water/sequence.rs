//! The graph in program order, as paper 001 has it: for each pair of blocks that has weights a task that
//! adds its products, then the additions of Runge and Kutta.
//!
//! Products of one block commute; recorded programs make them in the order of insertion, which is that of
//! the nodes: so the bits are those of the [space](super::space).
//!
//! The example records as many steps as there is [room](steps_at_once) for, and runs them until all are
//! taken: of all steps at once there may be more tasks than there is memory for.
//!
//! # Source
//! Paper 001, §5.3, where steps are inserted as those before them end.

use super::block::{Block, Physics, Stage};
use super::cases::State;
use super::pattern::{Mesh, Pattern};
use super::space::Rows;
use dataflow::Error;
use dataflow::prelude::*;
use dataflow::sequence::record::{Recorded, record};
use dataflow::sequence::{commute, read, write};

/// What a program works on, of each block on its rank.
pub struct Data {
    /// The state, and behind it the sum of rates.
    pub own: Store<Rows>,
    /// The values of which derivatives are taken.
    values: Store<Rows>,
    /// The derivatives so far, four rows a node.
    sums: Store<Rows>,
}

impl Data {
    /// The states of this rank's blocks, by node number.
    pub fn new(blocks: &[Option<Block>], state: impl Fn(usize) -> State) -> Self {
        let of = |times: usize| {
            let state = &state;
            blocks.iter().map(move |block| {
                let nodes = block.as_ref().map_or(0..0, |block| block.nodes.clone());
                (0..times).flat_map(|_| nodes.clone().map(state)).collect()
            })
        };
        let sums = of(4).map(|rows: Rows| vec![State::default(); rows.len()]);
        Data {
            own: Store::new("state", of(2)),
            values: Store::new("values", of(1)),
            sums: Store::new("derivatives", sums),
        }
    }
}

/// Tasks that are recorded at once, at most: some 50 MB of them on each rank.
const MOST_TASKS: usize = 1 << 18;

/// So many steps are recorded at once, if as many are taken: one at least.
pub fn steps_at_once(pattern: &Pattern) -> u32 {
    let products: usize = pattern.reads.iter().map(Vec::len).sum();
    let in_a_step = 4 * (products + pattern.reads.len());
    (MOST_TASKS / in_a_step.max(1)).clamp(1, u32::MAX as usize) as u32
}

/// Records so many steps of `dt` seconds on the blocks of all ranks.
///
/// # Errors
/// As [`record`].
pub fn program<'env>(
    mesh: &'env Mesh,
    pattern: &'env Pattern,
    blocks: &'env [Option<Block>],
    physics: &'env Physics,
    data: &'env Data,
    (steps, dt): (u32, f64),
) -> Result<Recorded<'env, Rows>, Error> {
    record("shallow_water", pattern.n_ranks as usize, |s| {
        let homes = |store| {
            let each = 0..pattern.n_blocks();
            let homes = each.map(|i| s.home(store, i as usize, Rank(pattern.rank(i))));
            homes.collect::<Vec<_>>()
        };
        let [own, values, sums] = [&data.own, &data.values, &data.sums].map(homes);
        for number in (0..4 * steps).map(|t| t % 4) {
            let stage = Stage { number, dt };
            for (i, reads) in pattern.reads.iter().enumerate() {
                for (slot, &other) in reads.iter().enumerate() {
                    let first = pattern.nodes(other).start;
                    let accesses = (read(&values[other as usize]), commute(&sums[i]));
                    s.name("Multiply").task(accesses, move |(rows, sums)| {
                        // F(i) ← F(i) + A(i, other) · K(other)
                        if let Some(block) = &blocks[i] {
                            block.multiply(mesh, slot, first, rows, sums);
                        }
                    });
                }
            }
            for (i, block) in blocks.iter().enumerate() {
                let accesses = (write(&sums[i]), write(&own[i]), write(&values[i]));
                s.name("Combine")
                    .task(accesses, move |(sums, own, values)| {
                        // K(i) ← H(i) + c·dt·F(i), D(i) ← D(i) + b·dt·F(i)
                        if let Some(block) = block {
                            block.combine(physics, stage, sums, own, values);
                        }
                    });
            }
        }
    })
}
