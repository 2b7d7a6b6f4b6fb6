//! Blocks: records of tasks whose inputs carry nothing, sixteen, eight or four neighbours to a word.
//!
//! Names that differ only in their last bits share a block: a tag, and four bits for each of sixteen
//! neighbours that wait for none but the first three flows, eight bits for each of eight that wait for none
//! but the first seven, or sixteen for each of four others. Three blocks lie in a cache line, so up to 48
//! waiting tasks; more blocks, and tasks with many flows, lie behind it.
//!
//! # Law
//! The state of a task is 0 if it does not wait, otherwise the set of flows that are missing (last
//! bit: an ancestor failed). A block without waiting tasks is free. How wide a task's state is
//! follows from the flows that it awaits, so it has one.
//!
//! # Cost
//! On two workers a line travels twice from core to core for each block that both of them feed;
//! so the more neighbours a block holds, the less a task costs.

use super::list::{Few, List};
use super::table::{BucketContents, Group};
use super::{Arrived, Key, Leftover, Missing, Poisoned};
use crate::space::Sources;

/// Blocks that fit a cache line beside lock, depth and pointer.
const IN_LINE: usize = 3;

#[derive(Default)]
pub(crate) struct Blocks {
    line: [NeighbourBlock; IN_LINE],
    behind: Option<Box<Overflow>>,
}

#[derive(Default)]
struct Overflow {
    blocks: Vec<NeighbourBlock>,
    list: List<()>,
}

/// The neighbours of a tag that wait.
#[derive(Clone, Copy, Default)]
struct NeighbourBlock {
    /// 0 if the block is free.
    tag: u64,
    states: u64,
}

/// Bits of each neighbour in a block: these, or [`MANY`].
pub(super) const FEW: u32 = 4;
/// Bits of each neighbour of a task with more than three flows, or [`MOST`].
pub(super) const MANY: u32 = 8;
/// Bits of each neighbour of a task with more than seven flows.
pub(super) const MOST: u32 = 16;

/// Whether a task that awaits these flows has so many bits, or fewer.
#[inline(always)]
pub(super) fn fits(bits: u32, awaited: u16) -> bool {
    awaited >> (bits - 1) == 0
}

/// How many bits a task has that awaits these flows.
fn bits_of(awaited: u16) -> u32 {
    if fits(FEW, awaited) {
        FEW
    } else if fits(MANY, awaited) {
        MANY
    } else {
        MOST
    }
}

/// Neighbours of a block, as bits of a key.
#[inline]
const fn near(bits: u32) -> u32 {
    (u64::BITS / bits).ilog2()
}

const fn poison(bits: u32) -> u16 {
    1 << (bits - 1)
}

/// What a block is found by, and a bucket: the key of its last neighbour, and in bits beyond all
/// keys the width; never 0. Tasks that are listed lie where a block of [`MANY`] bits would.
#[inline(always)]
pub(super) fn tag(bits: u32, key: Key) -> Group {
    let last = key | ((1 << near(bits)) - 1);
    match bits {
        FEW => last,
        MANY => last | WIDE,
        _ => last | WIDER,
    }
}

const WIDE: u64 = 1 << 63;
const WIDER: u64 = 1 << 62;

/// One input that reaches a task.
pub(super) type KeyedInput = (Key, usize, Poisoned);

impl Blocks {
    /// Counts an input of a task that awaits these flows, if its block is, or can be, in the line.
    #[inline(always)]
    pub fn arrive<const BITS: u32>(
        &mut self,
        awaited: u16,
        arrival: KeyedInput,
    ) -> Option<Arrived> {
        let tag = tag(BITS, arrival.0);
        let found = self.line.iter().position(|block| block.tag == tag);
        let at = match found {
            Some(at) => at,
            None if self.behind.is_some() => return None,
            None => {
                let free = self.line.iter().position(|block| block.tag == 0)?;
                self.line[free].tag = tag;
                free
            }
        };
        Some(self.line[at].feed(BITS, awaited, arrival))
    }

    /// The same for a task whose block is not in the line. Also says how much more lies behind the line
    /// now.
    #[cold]
    pub fn arrive_behind(
        &mut self,
        awaited: Few,
        (key, flow, poisoned): KeyedInput,
    ) -> (Arrived, isize) {
        let before = self.spilled();
        let behind = self.behind.get_or_insert_default();
        let arrived = match awaited {
            Few::Narrow(awaited) => behind.arrive(awaited, (key, flow, poisoned)),
            Few::Count(count) => behind.list.arrive((key, count), flow, poisoned, |()| {}).0,
        };
        (arrived, self.spilled_since(before))
    }

    /// An input through a flow of a high number, of a task that is listed; see
    /// [`Pending::arrive_wide`](super::Pending::arrive_wide).
    pub fn arrive_wide(
        &mut self,
        (key, claim): (Key, u64),
        (flow, poisoned): (usize, Poisoned),
        sources: Option<Sources>,
    ) -> Option<(Option<Arrived>, isize)> {
        let before = self.spilled();
        let list = &mut self.behind.get_or_insert_default().list;
        if let Some(sources) = sources {
            list.learn(key, sources);
        }
        let named = list.names(key, flow, claim);
        let arrived =
            named.map(|named| named.then(|| list.arrive((key, 0), flow, poisoned, |()| {}).0));
        let spilled = self.spilled_since(before);
        Some((arrived?, spilled))
    }

    fn spilled(&self) -> isize {
        let behind = self.behind.as_ref();
        behind.map_or(0, |behind| behind.blocks.len() + behind.list.len()) as isize
    }

    /// How much more lies behind the line than before; the memory for it goes with the last of it.
    fn spilled_since(&mut self, before: isize) -> isize {
        let now = self.spilled();
        if now == 0 {
            self.behind = None;
        }
        now - before
    }

    /// Writes down who waits.
    pub fn leftovers(&self, left: &mut Vec<Leftover>) {
        let behind = self.behind.iter().flat_map(|behind| &behind.blocks);
        for block in self
            .line
            .iter()
            .chain(behind)
            .filter(|block| block.tag != 0)
        {
            let bits = block.bits();
            let last = block.tag & !(WIDE | WIDER);
            let waits = |before: &u64| block.state(bits, last - before) != 0;
            let neighbours = 0..1 << near(bits);
            left.extend(neighbours.filter(waits).map(|before| Leftover {
                key: last - before,
                missing: Missing::Mask(block.state(bits, last - before) & !poison(bits)),
            }));
        }
        if let Some(behind) = &self.behind {
            behind.list.leftovers(left);
        }
    }
}

impl Overflow {
    fn arrive(&mut self, awaited: u16, (key, flow, poisoned): KeyedInput) -> Arrived {
        let bits = bits_of(awaited);
        let tag = tag(bits, key);
        let found = self.blocks.iter().position(|block| block.tag == tag);
        let at = found.unwrap_or_else(|| {
            self.blocks.push(NeighbourBlock { tag, states: 0 });
            self.blocks.len() - 1
        });
        let arrived = self.blocks[at].feed(bits, awaited, (key, flow, poisoned));
        if self.blocks[at].tag == 0 {
            self.blocks.swap_remove(at);
        }
        arrived
    }
}

impl NeighbourBlock {
    fn bits(&self) -> u32 {
        match self.tag & (WIDE | WIDER) {
            0 => FEW,
            WIDE => MANY,
            _ => MOST,
        }
    }

    /// Where in `states` a neighbour begins.
    #[inline(always)]
    fn place(bits: u32, key: Key) -> u32 {
        bits * (key as u32 & ((1 << near(bits)) - 1))
    }

    #[inline(always)]
    fn state(&self, bits: u32, key: Key) -> u16 {
        (self.states >> Self::place(bits, key)) as u16 & (u16::MAX >> (16 - bits))
    }

    #[inline(always)]
    fn feed(&mut self, bits: u32, awaited: u16, (key, flow, poisoned): KeyedInput) -> Arrived {
        let poison = poison(bits);
        let state = self.state(bits, key);
        let before = if state == 0 { awaited } else { state };
        let bit = 1 << flow;
        if before & !poison & bit == 0 {
            return Arrived::FedTwice;
        }
        let after = before & !bit | u16::from(poisoned) << (bits - 1);
        let ready = after & !poison == 0;
        // In one word: a byte written and read back as a word would wait for the store.
        let change = state ^ if ready { 0 } else { after };
        self.states ^= u64::from(change) << Self::place(bits, key);
        if self.states == 0 {
            self.tag = 0;
        }
        if ready {
            Arrived::Ready(after & poison != 0)
        } else {
            Arrived::StillWaiting
        }
    }
}

impl BucketContents for Blocks {
    fn move_to(&mut self, child: &mut Self, moves: impl Fn(Group) -> bool) {
        let mut free = 0;
        for block in &mut self.line {
            if block.tag != 0 && moves(block.tag) {
                child.line[free] = std::mem::take(block);
                free += 1;
            }
        }
        let Some(behind) = &mut self.behind else {
            return;
        };
        let blocks = behind.blocks.extract_if(.., |block| moves(block.tag));
        let blocks: Vec<_> = blocks.collect();
        let list = behind.list.split_off(|key| moves(tag(MANY, key)));
        if !blocks.is_empty() || list.len() != 0 {
            child.behind = Some(Box::new(Overflow { blocks, list }));
        }
        if self.spilled() == 0 {
            self.behind = None;
        }
    }
}
