//! Block: the rows of some nodes, and the right-hand side on them: four derivatives of four values in one
//! pass over the neighbours.
//!
//! With unit vectors x of the nodes, u = (u, v, w), a the radius, f Coriolis' parameter:
//!
//! ```text
//! (p, q, r) = −(u·∇)u/a − f·x × u − ∇φ/a
//! uₜ = (p, q, r) − x·(x·(p, q, r)) + γ·Δᵏu
//! φₜ = −u·∇(φ − g·hₘ)/a − (φ + g·h₀ − g·hₘ)·∇·u/a + γ·Δᵏφ
//! ```
//!
//! # Law
//! Neighbours are added in ascending order, each by a fused multiply-add: in one pass, or block by block.
//!
//! # Source
//! Flyer, Wright, *A radial basis function method for the shallow water equations on a sphere*, Proc.
//! R. Soc. A 465 (2009); one pass for all products as in paper 001, §5.3.

use super::cases::{Case, RADIUS, State};
use super::nodes::{Point, dot};
use super::pattern::{Mesh, Pattern};
use super::weights::{Stencil, Weight, weights};
use crate::vector::{Loop, dispatch};
use std::array::from_fn;
use std::ops::Range;

/// What is the same at all nodes and times.
#[derive(Clone, Copy, Debug)]
pub struct Physics {
    /// g·h₀.
    pub depth: f64,
    /// Whether velocities stay.
    pub is_carried: bool,
    /// γ: how much is smoothed.
    pub gamma: f64,
}

/// What a node has of its own.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: Point,
    coriolis: f64,
    /// g times the height of the mountain, and its gradient.
    mountain: f64,
    slope: Point,
}

/// The rows of a range of nodes.
#[derive(Debug)]
pub struct Block {
    /// The block's nodes.
    pub nodes: Range<usize>,
    /// Neighbours of each.
    size: usize,
    places: Vec<Place>,
    weights: Vec<Weight>,
    /// For each neighbour, where its value stands among those that are gathered.
    index: Vec<u32>,
    /// Where the block's own rows stand among them.
    own: usize,
    /// For each block that is read, its rows, as they stand in what arrives.
    gathered: Vec<Vec<u32>>,
    /// For each block that is read and lies on another rank, the nodes whose rows arrive; else none.
    pub arriving: Vec<Vec<usize>>,
    /// For each other rank that reads this block, the rows that it gets.
    pub halos: Vec<Vec<u32>>,
    /// For each block that is read, the nodes that have neighbours there.
    shares: Vec<Vec<Share>>,
}

/// The neighbours of a node that lie in one block.
#[derive(Clone, Copy, Debug)]
struct Share {
    row: u32,
    /// Where they begin and end among all weights and neighbours of the block.
    begin: u32,
    end: u32,
}

impl Share {
    /// The neighbours of a node, the `row`-th of its block, among some nodes, if it has any.
    fn of(mesh: &Mesh, nodes: Range<usize>, node: usize, row: usize) -> Option<Share> {
        let near = mesh.near(node);
        let before = |end: usize| near.partition_point(|&other| (other as usize) < end);
        let within = before(nodes.start)..before(nodes.end);
        let first = row * mesh.size;
        (!within.is_empty()).then_some(Share {
            row: row as u32,
            begin: (first + within.start) as u32,
            end: (first + within.end) as u32,
        })
    }
}

/// The derivatives of a node so far: ∂x, ∂y, ∂z and Δᵏ of u, v, w and φ.
pub type Derivatives = [State; 4];

impl Block {
    /// The rows of a block: weights and, on its rank, who gets which rows.
    pub fn new(
        mesh: &Mesh,
        pattern: &Pattern,
        number: u32,
        case: &Case,
        stencil: &Stencil,
    ) -> Self {
        let (nodes, reads) = (pattern.nodes(number), &pattern.reads[number as usize]);
        let needs = reads.iter().map(|&other| match other == number {
            true => (0..nodes.len() as u32).collect(),
            false => pattern.rows(mesh, other, number),
        });
        let needs: Vec<Vec<u32>> = needs.collect();
        let mut block = Block::bare(mesh, nodes, case, stencil);
        block.find(mesh, pattern, reads, &needs);
        block.own = Self::first_of(number, reads, &needs);
        let rank = pattern.rank(number);
        let arriving = reads.iter().map(|&other| {
            let (first, is_here) = (pattern.nodes(other).start, pattern.rank(other) == rank);
            let rows = match is_here {
                true => Vec::new(),
                false => pattern.halo(mesh, other, rank),
            };
            rows.into_iter().map(|row| first + row as usize).collect()
        });
        block.arriving = arriving.collect();
        let arrived = reads.iter().zip(needs).map(|(&other, rows)| {
            if pattern.rank(other) == rank {
                return rows;
            }
            let halo = pattern.halo(mesh, other, rank);
            let place = |row: &u32| halo.partition_point(|other| other < row) as u32;
            rows.iter().map(place).collect()
        });
        block.gathered = arrived.collect();
        let readers = pattern.reader_ranks(number).into_iter();
        block.halos = readers.map(|to| pattern.halo(mesh, number, to)).collect();
        block
    }

    /// The rows of some nodes that read values where they are, among those of all nodes: what a plain
    /// loop works on.
    pub fn plain(mesh: &Mesh, nodes: Range<usize>, case: &Case, stencil: &Stencil) -> Self {
        let mut block = Block::bare(mesh, nodes.clone(), case, stencil);
        block.own = nodes.start;
        block.index = mesh.near[nodes.start * mesh.size..nodes.end * mesh.size].to_vec();
        block
    }

    /// The rows of some nodes, which do not know yet where values are.
    fn bare(mesh: &Mesh, nodes: Range<usize>, case: &Case, stencil: &Stencil) -> Self {
        let mut block = Block {
            size: mesh.size,
            places: Vec::with_capacity(nodes.len()),
            weights: Vec::with_capacity(nodes.len() * mesh.size),
            index: Vec::new(),
            own: 0,
            gathered: Vec::new(),
            arriving: Vec::new(),
            halos: Vec::new(),
            shares: Vec::new(),
            nodes: nodes.clone(),
        };
        for node in nodes {
            block.push(mesh, node, case, stencil);
        }
        block
    }

    /// Finds each neighbour among the rows that are needed of the blocks that are read.
    fn find(&mut self, mesh: &Mesh, pattern: &Pattern, reads: &[u32], needs: &[Vec<u32>]) {
        let nb = pattern.nb;
        let starts = reads.iter().map(|&read| Self::first_of(read, reads, needs));
        let starts: Vec<usize> = starts.collect();
        for node in self.nodes.clone() {
            let near = mesh.near(node);
            for other in near.iter().map(|&other| other as usize) {
                let slot = reads.partition_point(|&read| (read as usize) < other / nb);
                let row = (other % nb) as u32;
                let place = starts[slot] + needs[slot].partition_point(|need| *need < row);
                self.index.push(place as u32);
            }
        }
        self.shares = reads
            .iter()
            .map(|&read| {
                let nodes = self.nodes.clone();
                let share = |node| Share::of(mesh, pattern.nodes(read), node, node - nodes.start);
                nodes.clone().filter_map(share).collect()
            })
            .collect();
    }

    /// Where the rows of one of the blocks that are read begin among all that are gathered.
    fn first_of(block: u32, reads: &[u32], needs: &[Vec<u32>]) -> usize {
        let before = reads
            .iter()
            .zip(needs)
            .take_while(|(read, _)| **read < block);
        before.map(|(_, rows)| rows.len()).sum()
    }

    /// Appends what a node has of its own, and its weights.
    fn push(&mut self, mesh: &Mesh, node: usize, case: &Case, stencil: &Stencil) {
        let near = mesh
            .near(node)
            .iter()
            .map(|&other| mesh.nodes[other as usize]);
        let near: Vec<Point> = near.collect();
        let at = mesh.nodes[node];
        let weights = weights(at, &near, stencil);
        let mut slope = [0.0; 3];
        for (weight, other) in weights.iter().zip(&near) {
            let height = case.mountain(*other);
            slope
                .iter_mut()
                .zip(weight)
                .for_each(|(slope, weight)| *slope += weight * height);
        }
        self.places.push(Place {
            node: at,
            coriolis: case.coriolis(at),
            mountain: case.mountain(at),
            slope,
        });
        self.weights.extend(weights);
    }

    /// Appends the rows that this block reads of the `slot`-th one that it reads, as they arrived.
    pub fn gather(&self, slot: usize, arrived: &[State], values: &mut Vec<State>) {
        let rows = &self.gathered[slot];
        match rows.len() == arrived.len() {
            true => values.extend_from_slice(arrived),
            false => values.extend(rows.iter().map(|&row| arrived[row as usize])),
        }
    }

    /// How many rows are gathered in all.
    pub fn n_gathered(&self) -> usize {
        self.gathered.iter().map(Vec::len).sum()
    }

    /// The next stage, with the values that were gathered.
    pub fn advance(
        &self,
        physics: &Physics,
        stage: Stage,
        values: &[State],
        own: &mut [State],
        next: &mut [State],
    ) {
        dispatch(Advance {
            block: self,
            physics,
            stage,
            values,
            own,
            next,
        });
    }

    /// Adds to the derivatives what the `slot`-th block that is read has to give, of all its rows.
    pub fn multiply(
        &self,
        mesh: &Mesh,
        slot: usize,
        first: usize,
        rows: &[State],
        sums: &mut [State],
    ) {
        dispatch(Multiply {
            block: self,
            near: &mesh.near[self.nodes.start * self.size..self.nodes.end * self.size],
            slot,
            first: first as u32,
            rows,
            sums,
        });
    }

    /// The next stage with derivatives that are complete, which begin anew.
    pub fn combine(
        &self,
        physics: &Physics,
        stage: Stage,
        sums: &mut [State],
        own: &mut [State],
        values: &mut [State],
    ) {
        let (now, sum) = own.split_at_mut(values.len());
        let (sums, _) = sums.as_chunks_mut::<4>();
        for (at, place) in self.places.iter().enumerate() {
            let rate = physics.rate(place, values[at], &std::mem::take(&mut sums[at]));
            values[at] = stage.step(rate, &mut now[at], &mut sum[at]);
        }
    }
}

/// One of the four stages of a step of Runge and Kutta.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// From 0.
    pub number: u32,
    /// Seconds of a step.
    pub dt: f64,
}

impl Stage {
    /// From the state `now` and the `sum` of rates so far: the state at which the next rate is taken; of
    /// the last stage the next state, which is `now` from then on.
    #[inline(always)]
    fn step(self, rate: State, now: &mut State, sum: &mut State) -> State {
        let (ahead, share) = match self.number {
            0 => (0.5, 1.0 / 6.0),
            1 => (0.5, 1.0 / 3.0),
            2 => (1.0, 1.0 / 3.0),
            _ => (0.0, 1.0 / 6.0),
        };
        let before = if self.number == 0 { *now } else { *sum };
        *sum = from_fn(|at| before[at] + share * self.dt * rate[at]);
        let next = from_fn(|at| now[at] + ahead * self.dt * rate[at]);
        match self.number {
            3 => {
                *now = *sum;
                *sum
            }
            _ => next,
        }
    }
}

impl Physics {
    /// How fast the state of a node changes.
    #[inline(always)]
    fn rate(&self, place: &Place, state: State, of: &Derivatives) -> State {
        let [u, v, w, phi] = state;
        let ([x, y, z], f) = (place.node, place.coriolis);
        let [dx, dy, dz, smooth] = *of;
        let slope = [
            dx[3] - place.slope[0],
            dy[3] - place.slope[1],
            dz[3] - place.slope[2],
        ];
        let carried = u * slope[0] + v * slope[1] + w * slope[2];
        let spread = (phi + self.depth - place.mountain) * (dx[0] + dy[1] + dz[2]);
        if self.is_carried {
            return [0.0, 0.0, 0.0, -carried / RADIUS + self.gamma * smooth[3]];
        }
        let along = |at: usize| u * dx[at] + v * dy[at] + w * dz[at];
        let p = -(along(0) + dx[3]) / RADIUS - f * (y * w - z * v);
        let q = -(along(1) + dy[3]) / RADIUS - f * (z * u - x * w);
        let r = -(along(2) + dz[3]) / RADIUS - f * (x * v - y * u);
        let up = dot(place.node, [p, q, r]);
        [
            p - x * up + self.gamma * smooth[0],
            q - y * up + self.gamma * smooth[1],
            r - z * up + self.gamma * smooth[2],
            -(carried + spread) / RADIUS + self.gamma * smooth[3],
        ]
    }
}

/// `D ← D + w·sᵀ` of one neighbour: sixteen products at once.
#[inline(always)]
fn add(of: &mut Derivatives, weight: &Weight, state: &State) {
    for (row, weight) in of.iter_mut().zip(weight) {
        for (sum, value) in row.iter_mut().zip(state) {
            *sum = weight.mul_add(*value, *sum);
        }
    }
}

/// A stage in one pass.
struct Advance<'a> {
    block: &'a Block,
    physics: &'a Physics,
    stage: Stage,
    values: &'a [State],
    own: &'a mut [State],
    next: &'a mut [State],
}

impl Loop for Advance<'_> {
    #[inline(always)]
    fn run(self) {
        let Block { size, own, .. } = *self.block;
        let n = self.next.len();
        let (now, sum) = self.own.split_at_mut(n);
        let rows = self
            .block
            .weights
            .chunks_exact(size)
            .zip(self.block.index.chunks_exact(size));
        let states = now.iter_mut().zip(sum).zip(self.next);
        let values = &self.values[own..own + n];
        let rows = rows.zip(&self.block.places).zip(values);
        for ((((weights, index), place), value), ((now, sum), next)) in rows.zip(states) {
            let mut of = Derivatives::default();
            for (weight, &at) in weights.iter().zip(index) {
                add(&mut of, weight, &self.values[at as usize]);
            }
            let rate = self.physics.rate(place, *value, &of);
            *next = self.stage.step(rate, now, sum);
        }
    }
}

/// What one block has to give to the derivatives of another.
struct Multiply<'a> {
    block: &'a Block,
    near: &'a [u32],
    slot: usize,
    /// The first node of the block that is read.
    first: u32,
    rows: &'a [State],
    sums: &'a mut [State],
}

impl Loop for Multiply<'_> {
    #[inline(always)]
    fn run(self) {
        let (sums, _) = self.sums.as_chunks_mut::<4>();
        for share in &self.block.shares[self.slot] {
            let there = share.begin as usize..share.end as usize;
            let sum = &mut sums[share.row as usize];
            let mut of = *sum;
            for (weight, node) in self.block.weights[there.clone()]
                .iter()
                .zip(&self.near[there])
            {
                add(&mut of, weight, &self.rows[(node - self.first) as usize]);
            }
            *sum = of;
        }
    }
}
