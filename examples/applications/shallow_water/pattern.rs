//! Pattern: nodes in blocks, and which rows of which blocks each of them reads.
//!
//! # Law
//! A block is a range of nodes, and neighbours stand in ascending order: so derivatives are summed in one
//! order, whatever the blocks are. Blocks lie on ranks in contiguous parts.

use super::nodes::Point;
use std::ops::Range;

/// Nodes and their neighbours.
#[derive(Debug)]
pub struct Mesh {
    pub nodes: Vec<Point>,
    /// Neighbours of a node, itself among them.
    pub size: usize,
    /// Those of node c, ascending, from place `size · c` on.
    pub near: Vec<u32>,
}

/// Blocks of a mesh over ranks.
#[derive(Debug)]
pub struct Pattern {
    /// Nodes in all, and in a block.
    pub n: usize,
    pub nb: usize,
    pub n_ranks: u32,
    /// For each block those that hold neighbours of its nodes, itself among them, ascending.
    pub reads: Vec<Vec<u32>>,
    /// And the other way round: who reads it, and as which of what that one reads.
    pub readers: Vec<Vec<(u32, u32)>>,
}

impl Mesh {
    /// The neighbours of a node.
    pub fn near(&self, node: usize) -> &[u32] {
        &self.near[node * self.size..(node + 1) * self.size]
    }
}

impl Pattern {
    /// The blocks of `nb` nodes of a mesh.
    pub fn new(mesh: &Mesh, nb: usize, n_ranks: usize) -> Self {
        let n = mesh.nodes.len();
        let read = |nodes: Range<usize>| {
            let near = mesh.near[nodes.start * mesh.size..nodes.end * mesh.size].iter();
            let mut blocks: Vec<u32> = near.map(|&node| node / nb as u32).collect();
            blocks.sort_unstable();
            blocks.dedup();
            blocks
        };
        let ranges = (0..n.div_ceil(nb)).map(|block| block * nb..n.min((block + 1) * nb));
        let reads: Vec<Vec<u32>> = ranges.map(read).collect();
        let mut readers = vec![Vec::new(); reads.len()];
        for (block, reads) in (0..).zip(&reads) {
            for (slot, &other) in (0..).zip(reads) {
                readers[other as usize].push((block, slot));
            }
        }
        Pattern {
            n,
            nb,
            n_ranks: n_ranks as u32,
            reads,
            readers,
        }
    }

    pub fn n_blocks(&self) -> u32 {
        self.reads.len() as u32
    }

    /// The nodes of a block.
    pub fn nodes(&self, block: u32) -> Range<usize> {
        let first = block as usize * self.nb;
        first..self.n.min(first + self.nb)
    }

    /// The rank of a block.
    pub fn rank(&self, block: u32) -> u32 {
        (u64::from(block) * u64::from(self.n_ranks) / u64::from(self.n_blocks())) as u32
    }

    /// The blocks of a rank.
    pub fn blocks(&self, rank: u32) -> Range<u32> {
        let (n_blocks, n_ranks) = (u64::from(self.n_blocks()), u64::from(self.n_ranks));
        let first = |rank: u64| (rank * n_blocks).div_ceil(n_ranks) as u32;
        first(rank.into())..first(u64::from(rank) + 1)
    }

    /// The other ranks that read a block, ascending.
    pub fn reader_ranks(&self, block: u32) -> Vec<u32> {
        let readers = self.readers[block as usize].iter();
        let mut ranks: Vec<u32> = readers.map(|&(reader, _)| self.rank(reader)).collect();
        ranks.retain(|&rank| rank != self.rank(block));
        ranks.dedup(); // readers ascend, and so do their ranks
        ranks
    }

    /// The rows of block `of` that `reader` reads, ascending, counted within `of`.
    pub fn rows(&self, mesh: &Mesh, of: u32, reader: u32) -> Vec<u32> {
        let nodes = self.nodes(of);
        let near = self.nodes(reader).flat_map(|node| mesh.near(node));
        let within = near.filter(|&&node| nodes.contains(&(node as usize)));
        let mut rows: Vec<u32> = within.map(|&node| node - nodes.start as u32).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// The rows of block `of` that the blocks of a rank read: what travels there.
    pub fn halo(&self, mesh: &Mesh, of: u32, rank: u32) -> Vec<u32> {
        let readers = self.readers[of as usize].iter();
        let there = readers.filter(|&&(reader, _)| self.rank(reader) == rank);
        let mut rows: Vec<u32> = there
            .flat_map(|&(reader, _)| self.rows(mesh, of, reader))
            .collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}
