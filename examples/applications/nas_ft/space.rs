//! The graph: planes and sheets that exchange pieces, all with all, in every step.
//!
//! | task | makes of | |
//! |---|---|---|
//! | `Plane{p}` | random numbers | planes, transformed along x and y: a piece for each sheet |
//! | `Sheet{q}` | a piece of each `Plane` | U, transformed along z; stays |
//! | `Evolve{t, q}` | U, updated | transformed back along z: a piece for each `Back` |
//! | `Back{t, p}` | a piece of each `Evolve` | planes of v; terms of the checksum; the last v goes home |
//! | `Sum{t}` | terms of each `Back` | the checksum; and allows `Evolve{t + 2}` |
//!
//! Piece (p, q) holds the columns x of sheet q in the planes z of block p: `[z][x][y]`.

use super::problem::{Problem, part};
use common::variant::Rounds;
use dataflow::core::data::Version;
use dataflow::core::port::{Block, Head, Heap, Memory, Wire};
use dataflow::linalg::scalar::c64;
use dataflow::linalg::weight::Weight;
use dataflow::prelude::*;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

task_names! {
    pub enum Task { Plane { p }, Sheet { q }, Evolve { t, q }, Back { t, p }, Sum { t } }
}
use Task::{Back, Evolve, Plane, Sheet, Sum};

/// Complex numbers that flow.
pub struct Lines(Box<dyn Block>);

impl Lines {
    /// Room for so many, of unspecified value.
    pub fn new(memory: &dyn Memory, length: usize) -> Self {
        Lines(memory.allocate(length * size_of::<c64>()))
    }

    pub fn read(&self) -> &[c64] {
        bytemuck::cast_slice(self.0.bytes())
    }

    pub fn write(&mut self) -> &mut [c64] {
        bytemuck::cast_slice_mut(self.0.bytes_mut())
    }
}

impl Clone for Lines {
    fn clone(&self) -> Self {
        let mut copy = Lines::new(&Heap, self.read().len());
        copy.write().copy_from_slice(self.read());
        copy
    }
}

impl Datum for Lines {
    fn bytes(&self) -> usize {
        self.0.bytes().len()
    }

    fn numa_node(&self) -> Option<usize> {
        self.0.numa_node()
    }
}

impl Wire for Lines {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        self.0.bytes().len()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0.bytes())
    }

    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(Lines(body))
    }
}

/// What a Sheet has, an Evolve updates.
const U: usize = 0;
/// Evolve: may begin. Sum: says so.
const GO: usize = 1;
/// Back: terms of the checksum, and planes of v.
pub const TERMS: usize = 0;
const V: usize = 1;
/// Sum: the checksum.
const CHECKSUM: usize = 0;
/// The first of as many flows as there are on the other side.
pub const PIECE: usize = 2;

/// How far steps may be ahead of a checksum: they hold two arrays' worth of pieces.
const AHEAD: u32 = 2;

/// The transforms of a problem, in blocks of planes and of sheets.
pub struct Transforms {
    pub problem: Problem,
    /// Blocks of planes, and blocks of sheets.
    pub blocks: [usize; 2],
    n_ranks: u32,
    memory: Arc<dyn Memory>,
    /// By step.
    pub checksums: Store<Lines>,
    /// v after the last step, by block of planes.
    pub planes: Store<Lines>,
    /// What `ideal` has for pieces, and behind them for terms.
    stale: Store<Lines>,
}

impl Transforms {
    /// `blocks` of planes (1 to NZ) and of sheets (1 to NX), on so many ranks; with `stale`, what the
    /// variant `ideal` reads is there.
    pub fn new(
        problem: Problem,
        blocks: [usize; 2],
        n_ranks: usize,
        memory: Arc<dyn Memory>,
        stale: bool,
    ) -> Self {
        let [planes, sheets] = blocks;
        let transforms = Transforms {
            checksums: Store::empty("checksums", problem.steps as usize),
            planes: Store::empty("planes", planes),
            stale: Store::empty("stale", if stale { planes * sheets + planes } else { 0 }),
            problem,
            blocks,
            n_ranks: n_ranks as u32,
            memory,
        };
        if stale {
            transforms.fill_stale();
        }
        transforms
    }

    /// Zeros in place of every piece and of all terms.
    fn fill_stale(&self) {
        let [planes, sheets] = self.blocks;
        let zeros = |slot, length| {
            let mut lines = Lines::new(&*self.memory, length);
            lines.write().fill(c64::default());
            let put = self.stale.put(slot, Version::new(lines));
            assert!(put.is_some(), "a slot for each block");
        };
        for p in 0..planes {
            for q in 0..sheets {
                zeros(p * sheets + q, self.piece(p as u32, q as u32));
            }
            zeros(planes * sheets + p, self.terms(self.zs(p as u32)));
        }
    }

    /// The planes of a block, and the columns of a sheet.
    pub fn zs(&self, p: u32) -> Range<usize> {
        part(self.problem.extent.0[2], self.blocks[0], p)
    }

    pub fn xs(&self, q: u32) -> Range<usize> {
        part(self.problem.extent.0[0], self.blocks[1], q)
    }

    /// How many numbers a piece has.
    pub fn piece(&self, p: u32, q: u32) -> usize {
        self.zs(p).len() * self.xs(q).len() * self.problem.extent.0[1]
    }

    /// How many terms of a checksum lie in some planes.
    pub fn terms(&self, zs: Range<usize>) -> usize {
        zs.map(|z| self.problem.samples(z).count()).sum()
    }

    fn planes(&self) -> u32 {
        self.blocks[0] as u32
    }

    fn sheets(&self) -> u32 {
        self.blocks[1] as u32
    }

    fn room(&self, length: usize) -> Lines {
        Lines::new(&*self.memory, length)
    }

    fn rank_of_block(&self, block: u32, blocks: u32) -> Rank {
        Rank((u64::from(block) * u64::from(self.n_ranks) / u64::from(blocks)) as u32)
    }

    // ── Bodies ───────────────────────────────────────────────────────────────────────────────────

    /// Planes of random numbers, transformed and cut into pieces.
    fn plane(&self, p: u32) -> Vec<Lines> {
        let [nx, ny, _] = self.problem.extent.0;
        let mut pieces: Vec<Lines> = (0..self.sheets())
            .map(|q| self.room(self.piece(p, q)))
            .collect();
        let (mut plane, mut turned) = (self.room(nx * ny), self.room(nx * ny));
        let mut scratch = self.room(self.problem.scratch());
        for (at, z) in self.zs(p).enumerate() {
            self.problem.fill(z, plane.write());
            self.problem
                .to_frequencies(plane.write(), turned.write(), scratch.write());
            for (q, piece) in (0..).zip(&mut pieces) {
                let xs = self.xs(q);
                let length = xs.len() * ny;
                piece.write()[at * length..][..length]
                    .copy_from_slice(&turned.read()[xs.start * ny..xs.end * ny]);
            }
        }
        pieces
    }

    /// U of a sheet, `[x][y][z]`, from the pieces of all planes.
    fn sheet(&self, q: u32, pieces: &[&Lines]) -> Lines {
        let [_, ny, nz] = self.problem.extent.0;
        let width = self.xs(q).len();
        let mut u = self.room(width * ny * nz);
        let mut column = self.room(ny * nz);
        let mut scratch = self.room(self.problem.scratch());
        for (x, lines) in u.write().chunks_exact_mut(ny * nz).enumerate() {
            for (z, row) in rows(pieces, width, x, ny).enumerate() {
                column.write()[z * ny..][..ny].copy_from_slice(row);
            }
            self.problem.along_z(column.read(), lines, scratch.write());
        }
        u
    }

    /// A step of a sheet, and the pieces of its planes.
    fn evolve(&self, q: u32, u: &mut Lines) -> Vec<Lines> {
        let [_, ny, nz] = self.problem.extent.0;
        let xs = self.xs(q);
        let mut pieces: Vec<Lines> = (0..self.planes())
            .map(|p| self.room(self.piece(p, q)))
            .collect();
        let (mut work, mut column) = (self.room(ny * nz), self.room(ny * nz));
        let mut scratch = self.room(self.problem.scratch());
        for (at, lines) in u.write().chunks_exact_mut(ny * nz).enumerate() {
            let room = (work.write(), column.write());
            self.problem
                .evolve(xs.start + at, lines, room, scratch.write());
            for (p, piece) in (0..).zip(&mut pieces) {
                let zs = self.zs(p);
                let rows = column.read()[zs.start * ny..zs.end * ny].chunks_exact(ny);
                let into = piece
                    .write()
                    .chunks_exact_mut(ny)
                    .skip(at)
                    .step_by(xs.len());
                for (into, row) in into.zip(rows) {
                    into.copy_from_slice(row);
                }
            }
        }
        pieces
    }

    /// The terms of the checksum in a block's planes; planes are kept if there is room for them.
    fn back(&self, p: u32, pieces: &[&Lines], mut keep: Option<&mut Lines>) -> Lines {
        let [nx, ny, _] = self.problem.extent.0;
        let zs = self.zs(p);
        let mut terms = self.room(self.terms(zs.clone()));
        let (mut plane, mut turned) = (self.room(nx * ny), self.room(nx * ny));
        let mut scratch = self.room(self.problem.scratch());
        let mut term = terms.write().iter_mut();
        for (at, z) in zs.enumerate() {
            for (q, piece) in (0..).zip(pieces) {
                let xs = self.xs(q);
                let length = xs.len() * ny;
                turned.write()[xs.start * ny..xs.end * ny]
                    .copy_from_slice(&piece.read()[at * length..][..length]);
            }
            self.problem
                .to_places(turned.write(), plane.write(), scratch.write());
            for (from, into) in self.problem.samples(z).zip(&mut term) {
                *into = plane.read()[from];
            }
            if let Some(keep) = &mut keep {
                keep.write()[at * nx * ny..][..nx * ny].copy_from_slice(plane.read());
            }
        }
        terms
    }

    /// The checksum of a step.
    fn sum(&self, of_blocks: &[&Lines]) -> Lines {
        let mut terms = Vec::new();
        for (p, lines) in (0..).zip(of_blocks) {
            let mut rest = lines.read();
            for z in self.zs(p) {
                let (own, others) = rest.split_at(self.problem.samples(z).count());
                terms.push(own.to_vec());
                rest = others;
            }
        }
        let mut checksum = self.room(1);
        checksum.write()[0] = self.problem.checksum(&terms);
        checksum
    }
}

/// Row `[z][x]` of the pieces of a sheet of so many columns, for all z.
fn rows<'p>(
    pieces: &'p [&'p Lines],
    width: usize,
    x: usize,
    ny: usize,
) -> impl Iterator<Item = &'p [c64]> {
    let pieces = pieces.iter();
    pieces.flat_map(move |piece| piece.read().chunks_exact(ny).skip(x).step_by(width))
}

impl TaskSpace for Transforms {
    type Task = Task;
    type Datum = Lines;

    fn describe(&self, about: &mut Description) {
        about.name("nas_ft");
        about.parameter("size", self.problem.extent);
        about.parameter("steps", self.problem.steps);
        about.parameter("blocks", format!("{}x{}", self.planes(), self.sheets()));
        let [planes, sheets] = self.blocks;
        let names =
            |name: &str, n: usize| (0..n).map(|at| format!("{name} {at}")).collect::<Vec<_>>();
        let mut plane = about.class("Plane").order("U").order("GO");
        for name in names("PIECE", sheets) {
            plane = plane.new_flow(&name);
        }
        let mut sheet = about.class("Sheet").new_flow("U").order("GO");
        for name in names("PIECE", planes) {
            sheet = sheet.read(&name);
        }
        let mut evolve = about.class("Evolve").update("U").order("GO");
        for name in names("PIECE", planes) {
            evolve = evolve.new_flow(&name);
        }
        let mut back = about.class("Back").new_flow("TERMS").new_flow("V");
        for name in names("PIECE", sheets) {
            back = back.read(&name);
        }
        let mut sum = about.class("Sum").new_flow("CHECKSUM").order("GO");
        for name in names("TERMS", planes) {
            sum = sum.read(&name);
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let (planes, sheets) = (self.planes(), self.sheets());
        let first = (0..planes).map(|p| Plane { p });
        let first = first.chain((0..sheets).map(|q| Sheet { q }));
        let steps = (1..=self.problem.steps).flat_map(move |t| {
            let evolve = (0..sheets).map(move |q| Evolve { t, q });
            let back = (0..planes).map(move |p| Back { t, p });
            evolve.chain(back).chain(std::iter::once(Sum { t }))
        });
        first
            .chain(steps)
            .filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        let of_planes = 0..self.planes();
        let of_sheets = 0..self.sheets();
        match task {
            Plane { .. } => {}
            Sheet { q } => of_planes
                .for_each(|p| from.task(PIECE + p as usize, Plane { p }, PIECE + q as usize)),
            Evolve { t, q } => {
                match t {
                    1 => from.task(U, Sheet { q }, U),
                    _ => from.task(U, Evolve { t: t - 1, q }, U),
                }
                if t > AHEAD {
                    from.task(GO, Sum { t: t - AHEAD }, GO);
                }
            }
            Back { t, p } => of_sheets
                .for_each(|q| from.task(PIECE + q as usize, Evolve { t, q }, PIECE + p as usize)),
            Sum { t } => {
                of_planes.for_each(|p| from.task(PIECE + p as usize, Back { t, p }, TERMS));
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        let of_planes = 0..self.planes();
        let of_sheets = 0..self.sheets();
        let steps = self.problem.steps;
        match task {
            Plane { p } => {
                of_sheets.for_each(|q| to.task(PIECE + q as usize, Sheet { q }, PIECE + p as usize))
            }
            Sheet { q } if steps > 0 => to.task(U, Evolve { t: 1, q }, U),
            Sheet { .. } => {}
            Evolve { t, q } => {
                if t < steps {
                    to.task(U, Evolve { t: t + 1, q }, U);
                }
                of_planes
                    .for_each(|p| to.task(PIECE + p as usize, Back { t, p }, PIECE + q as usize));
            }
            Back { t, p } => {
                to.task(TERMS, Sum { t }, PIECE + p as usize);
                if t == steps {
                    to.home(V, &self.planes, p as usize);
                }
            }
            Sum { t } => {
                to.home(CHECKSUM, &self.checksums, t as usize - 1);
                if t + AHEAD <= steps {
                    to.range(GO, of_sheets, |q| Evolve { t: t + AHEAD, q }, GO);
                }
            }
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Lines>) -> Result<(), TaskError> {
        let mut slots = flows.iter();
        let (Some(first), Some(second)) = (slots.next(), slots.next()) else {
            return Err(TaskError::new("no_flows", "a task has two flows and more"));
        };
        match task {
            Plane { p } => slots
                .zip(self.plane(p))
                .for_each(|(slot, piece)| slot.put(piece)),
            Sheet { q } => {
                let pieces: Vec<_> = slots.map(|slot| slot.read()).collect();
                first.put(self.sheet(q, &pieces));
            }
            Evolve { q, .. } => {
                let pieces = self.evolve(q, first.update());
                slots.zip(pieces).for_each(|(slot, piece)| slot.put(piece));
            }
            Back { t, p } => {
                let pieces: Vec<_> = slots.map(|slot| slot.read()).collect();
                let [nx, ny, _] = self.problem.extent.0;
                let is_last = t == self.problem.steps;
                let mut v = is_last.then(|| self.room(self.zs(p).len() * nx * ny));
                first.put(self.back(p, &pieces, v.as_mut()));
                if let Some(v) = v {
                    second.put(v);
                }
            }
            Sum { .. } => {
                let terms: Vec<_> = slots.map(|slot| slot.read()).collect();
                first.put(self.sum(&terms));
            }
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        match task {
            Plane { p } | Back { p, .. } => self.rank_of_block(p, self.planes()),
            Sheet { q } | Evolve { q, .. } => self.rank_of_block(q, self.sheets()),
            Sum { .. } => Rank(0),
        }
    }

    /// Earlier steps first; `Back` of a step and `Evolve` of the next take turns, so that pieces are on
    /// their way while others have come.
    fn priority(&self, task: Task) -> i64 {
        let ahead = i64::from(matches!(task, Evolve { .. }));
        ahead - i64::from(self.round(task))
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let planes = (0..self.planes()).map(|p| Plane { p });
        planes.filter(move |&task| self.rank(task) == on)
    }
}

impl Weight for Transforms {
    fn bytes(&self, task: Task, flow: usize) -> u64 {
        let other = flow.saturating_sub(PIECE) as u32;
        let length = match task {
            Plane { p } if flow >= PIECE => self.piece(p, other),
            Evolve { q, .. } if flow >= PIECE => self.piece(other, q),
            Back { p, .. } if flow == TERMS => self.terms(self.zs(p)),
            _ => 0,
        };
        (length * size_of::<c64>()) as u64
    }

    /// 5·n·log₂ n of a transform of n numbers; of sheets also six for each number, by which it is multiplied.
    fn flops(&self, task: Task) -> f64 {
        let [nx, ny, nz] = self.problem.extent.0;
        let log = |n: usize| (n as f64).log2();
        let columns = |q: u32| (self.xs(q).len() * ny * nz) as f64;
        match task {
            Plane { p } | Back { p, .. } => {
                let numbers = (self.zs(p).len() * nx * ny) as f64;
                5.0 * numbers * log(nx * ny)
            }
            Sheet { q } => 5.0 * columns(q) * log(nz),
            Evolve { q, .. } => columns(q) * (5.0 * log(nz) + 6.0),
            Sum { .. } => 0.0,
        }
    }
}

impl Rounds for Transforms {
    fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    fn n_rounds(&self) -> u32 {
        2 * self.problem.steps + 2
    }

    fn round(&self, task: Task) -> u32 {
        match task {
            Plane { .. } => 0,
            Sheet { .. } => 1,
            Evolve { t, .. } => 2 * t - 1,
            Back { t, .. } => 2 * t,
            Sum { t } => 2 * t + 1,
        }
    }

    fn stand_in(&self, task: Task, flow: usize) -> Option<(&Store<Lines>, usize)> {
        let [planes, sheets] = self.blocks;
        let other = flow.checked_sub(PIECE)?;
        let slot = match task {
            Sheet { q } => other * sheets + q as usize,
            Back { p, .. } => p as usize * sheets + other,
            Sum { .. } => planes * sheets + other,
            Plane { .. } | Evolve { .. } => return None,
        };
        Some((&self.stale, slot))
    }
}
