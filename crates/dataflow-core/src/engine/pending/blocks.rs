//! Blocks: records of tasks whose inputs carry nothing, eight neighbours to a word.
//!
//! Names that differ only in the last three bits share a block: a tag and a byte for each of the
//! eight. Three blocks lie in a cache line, so up to 24 waiting tasks; more blocks, and tasks
//! with many flows, lie behind it.
//!
//! # Law
//! A byte is 0 if its task does not wait, otherwise the set of flows that are missing (bit 7:
//! an ancestor failed). A block without waiting tasks is free.

use super::list::{Few, List};
use super::table::Shelf;
use super::{Arrived, Key, Leftover, Missing, Poisoned};
use crate::space::NARROW;

const POISON: u8 = 1 << NARROW;
/// Blocks that fit a cache line beside lock, depth and pointer.
const IN_LINE: usize = 3;
/// Neighbours of a block, as bits of a key.
const NEAR: u32 = 3;

#[derive(Default)]
pub(crate) struct Blocks {
    line: [Block; IN_LINE],
    behind: Option<Box<Behind>>,
}

#[derive(Default)]
struct Behind {
    blocks: Vec<Block>,
    list: List<()>,
}

/// The neighbours of a tag that wait.
#[derive(Clone, Copy, Default)]
struct Block {
    /// The key without its last bits.
    tag: u64,
    states: u64,
}

/// One input that reaches a task.
pub(super) type Arrival = (Key, usize, Poisoned);

impl Blocks {
    /// Counts an input of a task that awaits these flows, if its block is, or can be, in the line.
    #[inline(always)]
    pub fn arrive(&mut self, awaited: u8, (key, flow, poisoned): Arrival) -> Option<Arrived> {
        let tag = key >> NEAR;
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
        Some(self.line[at].feed(awaited, (key, flow, poisoned)))
    }

    /// The same for a task whose block is not in the line. Also says what there was behind the
    /// line before and is now.
    #[cold]
    pub fn arrive_behind(
        &mut self,
        awaited: Few,
        (key, flow, poisoned): Arrival,
    ) -> (Arrived, usize, usize) {
        let before = self.spilled();
        let behind = self.behind.get_or_insert_default();
        let arrived = match awaited {
            Few::Narrow(awaited) => behind.arrive(awaited, (key, flow, poisoned)),
            Few::Count(count) => behind.list.arrive((key, count), flow, poisoned, |()| {}).0,
        };
        let after = self.spilled();
        if after == 0 {
            self.behind = None;
        }
        (arrived, before, after)
    }

    fn spilled(&self) -> usize {
        let behind = self.behind.as_ref();
        behind.map_or(0, |behind| behind.blocks.len() + behind.list.len())
    }

    /// Writes down who waits.
    pub fn leftovers(&self, left: &mut Vec<Leftover>) {
        let behind = self.behind.iter().flat_map(|behind| &behind.blocks);
        for block in self.line.iter().chain(behind) {
            let waits = |at: &u64| block.state(*at) != 0;
            left.extend((0..1 << NEAR).filter(waits).map(|at| Leftover {
                key: block.tag << NEAR | at,
                missing: Missing::Mask(block.state(at) & !POISON),
            }));
        }
        if let Some(behind) = &self.behind {
            behind.list.leftovers(left);
        }
    }
}

impl Behind {
    fn arrive(&mut self, awaited: u8, (key, flow, poisoned): Arrival) -> Arrived {
        let tag = key >> NEAR;
        let found = self.blocks.iter().position(|block| block.tag == tag);
        let at = found.unwrap_or_else(|| {
            self.blocks.push(Block { tag, states: 0 });
            self.blocks.len() - 1
        });
        let arrived = self.blocks[at].feed(awaited, (key, flow, poisoned));
        if self.blocks[at].tag == 0 {
            self.blocks.swap_remove(at);
        }
        arrived
    }
}

impl Block {
    #[inline(always)]
    fn state(&self, at: u64) -> u8 {
        (self.states >> (8 * at)) as u8
    }

    #[inline(always)]
    fn feed(&mut self, awaited: u8, (key, flow, poisoned): Arrival) -> Arrived {
        let at = key & ((1 << NEAR) - 1);
        let state = self.state(at);
        let before = if state == 0 { awaited } else { state };
        let bit = 1 << flow;
        if before & bit == 0 {
            return Arrived::FedTwice;
        }
        let after = before & !bit | u8::from(poisoned) << NARROW;
        let ready = after & !POISON == 0;
        // In one word: a byte written and read back as a word would wait for the store.
        let change = state ^ if ready { 0 } else { after };
        self.states ^= u64::from(change) << (8 * at);
        if self.states == 0 {
            self.tag = 0;
        }
        if ready {
            Arrived::Ready(after & POISON != 0)
        } else {
            Arrived::StillWaiting
        }
    }
}

impl Shelf for Blocks {
    const NEAR: u32 = NEAR;

    fn move_to(&mut self, child: &mut Self, moves: impl Fn(Key) -> bool) {
        let mut free = 0;
        for block in &mut self.line {
            if block.tag != 0 && moves(block.tag << NEAR) {
                child.line[free] = std::mem::take(block);
                free += 1;
            }
        }
        let Some(behind) = &mut self.behind else {
            return;
        };
        let blocks = behind
            .blocks
            .extract_if(.., |block| moves(block.tag << NEAR));
        let blocks: Vec<_> = blocks.collect();
        let list = behind.list.split_off(&moves);
        if !blocks.is_empty() || list.len() != 0 {
            child.behind = Some(Box::new(Behind { blocks, list }));
        }
        if self.spilled() == 0 {
            self.behind = None;
        }
    }
}
