//! The sweep: what one task computes, and the data that it gets and makes.
//!
//! # Law
//! Every cell is the same expression in the same order, so its bits depend on nothing but its six
//! neighbours: not on blocks, ranks or the schedule.

use super::grid::Side;
use super::problem::Source;
use atomic_refcell::{AtomicRef, AtomicRefCell};
use dataflow::core::port::{self, Head, Memory, Wire};
use dataflow::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// What flows: blocks, what neighbours on the same rank see of them, and faces.
#[derive(Clone)]
pub enum Part {
    Block(Block),
    View(View),
    Face(Vec<f64>),
}

/// The cells of a block twice: as they are, and as they were or will be.
///
/// Neighbours read the one while it writes the other. It writes again over what they read when it has
/// their faces of the step in which they read it: so the two never meet, and where they did, the cell
/// would panic.
#[derive(Clone)]
pub struct Block {
    pub shape: [usize; 3],
    cells: Option<Arc<[AtomicRefCell<Cells>; 2]>>,
    now: usize,
    /// Where the cells lie.
    numa_node: Option<usize>,
}

/// Memory of cells, the last axis first.
pub struct Cells(Box<dyn port::Block>);

/// A block as its neighbours on the same rank see it: one of its two states.
#[derive(Clone)]
pub struct View {
    shape: [usize; 3],
    cells: Arc<[AtomicRefCell<Cells>; 2]>,
    which: usize,
}

impl Cells {
    fn read(&self) -> &[f64] {
        bytemuck::cast_slice(self.0.bytes())
    }

    fn write(&mut self) -> &mut [f64] {
        bytemuck::cast_slice_mut(self.0.bytes_mut())
    }
}

impl Block {
    /// A block without memory; it comes with [`fill`](Self::fill).
    pub fn vacant(shape: [usize; 3]) -> Self {
        Block {
            shape,
            cells: None,
            now: 0,
            numa_node: None,
        }
    }

    pub fn is_vacant(&self) -> bool {
        self.cells.is_none()
    }

    /// Gets memory, near the worker that calls this, and gives each cell its value; those of a row
    /// at once, by the places of the row and the row itself.
    pub fn fill(&mut self, memory: &dyn Memory, mut row: impl FnMut(usize, usize, &mut [f64])) {
        let [along_i, along_j, along_k] = self.shape;
        let bytes = along_i * along_j * along_k * size_of::<f64>();
        let mut now = Cells(memory.allocate(bytes));
        let mut next = Cells(memory.allocate(bytes));
        let rows = now.write().chunks_exact_mut(along_k);
        for (at, cells) in rows.enumerate() {
            row(at / along_j, at % along_j, cells);
        }
        next.write().fill(0.0);
        self.numa_node = now.0.numa_node();
        self.cells = Some(Arc::new([now, next].map(AtomicRefCell::new)));
        self.now = 0;
    }

    /// What neighbours on the same rank may read until this block has been swept twice.
    pub fn view(&self) -> Option<View> {
        Some(View {
            shape: self.shape,
            cells: self.cells.clone()?,
            which: self.now,
        })
    }

    /// Lends the cells as they are.
    pub fn with_cells<R>(&self, look: impl FnOnce(&[f64]) -> R) -> Option<R> {
        let cells = self.cells.as_ref()?[self.now].borrow();
        Some(look(cells.read()))
    }

    /// The largest change of a cell in the last sweep; infinite if a cell is not a number.
    pub fn change(&self) -> Option<f64> {
        let cells = self.cells.as_ref()?;
        let (now, before) = (cells[self.now].borrow(), cells[1 - self.now].borrow());
        let change = now
            .read()
            .iter()
            .zip(before.read())
            .map(|(a, b)| (a - b).abs());
        Some(change.fold(0.0, |most, one| match one <= most {
            true => most,
            false if one.is_nan() => f64::INFINITY,
            false => one,
        }))
    }

    /// The cells at a side, packed.
    pub fn face(&self, side: Side) -> Vec<f64> {
        let Some(view) = self.view() else {
            return Vec::new();
        };
        let cells = view.cells[view.which].borrow();
        let beside = Beside::of_block(cells.read(), self.shape, side);
        let [outer, inner] = across(self.shape, side.axis);
        let rows = (0..outer).flat_map(|a| (0..inner).map(move |b| (a, b)));
        rows.map(|(a, b)| beside.cell(a, b)).collect()
    }

    /// One sweep: every cell is made of its six neighbours; of those beyond the block, `beyond` tells.
    pub fn relax(&mut self, beyond: [&Part; 6], source: Option<&Source>, first: [usize; 3]) {
        let Some(cells) = &self.cells else {
            return;
        };
        let sides: Vec<Side> = Side::all().collect();
        // Borrowed before they are read: a view lends its cells through a guard.
        let guards: [Option<AtomicRef<'_, Cells>>; 6] =
            std::array::from_fn(|at| match beyond[at] {
                Part::View(view) => Some(view.cells[view.which].borrow()),
                _ => None,
            });
        let beside: [Beside<'_>; 6] = std::array::from_fn(|at| match (beyond[at], &guards[at]) {
            (Part::View(view), Some(cells)) => {
                Beside::of_block(cells.read(), view.shape, sides[at].opposite())
            }
            (Part::Face(face), _) => Beside::packed(face, across(self.shape, sides[at].axis)),
            _ => panic!("the side {:?} of a block lies beside no face", sides[at]),
        });
        let now = cells[self.now].borrow();
        let mut next = cells[1 - self.now].borrow_mut();
        sweep(
            next.write(),
            now.read(),
            self.shape,
            &beside,
            (source, first),
        );
        drop(guards);
        self.now = 1 - self.now;
    }
}

/// Cells along the two axes of a side.
fn across([i, j, k]: [usize; 3], axis: usize) -> [usize; 2] {
    match axis {
        0 => [j, k],
        1 => [i, k],
        _ => [i, j],
    }
}

/// The cells on the other side of a face: the one at (a, b) is `cells[first + a·outer + b·inner]`.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    cells: &'a [f64],
    first: usize,
    outer: usize,
    inner: usize,
}

impl<'a> Beside<'a> {
    /// The outermost cells of a block at a side.
    pub fn of_block(cells: &'a [f64], [i, j, k]: [usize; 3], side: Side) -> Self {
        let strides = [j * k, k, 1];
        let last = match side.above {
            true => [i, j, k][side.axis] - 1,
            false => 0,
        };
        let [outer, inner] = across(strides, side.axis);
        Beside {
            cells,
            first: last * strides[side.axis],
            outer,
            inner,
        }
    }

    /// A packed face.
    pub fn packed(cells: &'a [f64], [_, inner]: [usize; 2]) -> Self {
        Beside {
            cells,
            first: 0,
            outer: inner,
            inner: 1,
        }
    }

    #[inline(always)]
    fn cell(&self, a: usize, b: usize) -> f64 {
        self.cells[self.first + a * self.outer + b * self.inner]
    }

    /// `length` cells along the inner axis, where they lie side by side.
    #[inline(always)]
    fn row(&self, a: usize, length: usize) -> &'a [f64] {
        &self.cells[self.first + a * self.outer..][..length]
    }
}

/// u'(i,j,k) ← (u(i−1) + u(i+1) + u(j−1) + u(j+1) + u(k−1) + u(k+1) − h²f) / 6 for all cells of a
/// block, which begins at `first` in the cube. 6 flops a cell, 8 with f; compiled for the widest vectors
/// that the processor has.
pub fn sweep(
    next: &mut [f64],
    now: &[f64],
    shape: [usize; 3],
    beside: &[Beside<'_>; 6],
    (source, first): (Option<&Source>, [usize; 3]),
) {
    pulp::Arch::new().dispatch(Sweep {
        next,
        now,
        shape,
        beside,
        source,
        first,
    });
}

struct Sweep<'a> {
    next: &'a mut [f64],
    now: &'a [f64],
    shape: [usize; 3],
    beside: &'a [Beside<'a>; 6],
    source: Option<&'a Source>,
    first: [usize; 3],
}

impl pulp::NullaryFnOnce for Sweep<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Sweep { now, beside, .. } = self;
        let [along_i, along_j, along_k] = self.shape;
        let plane = along_j * along_k;
        for i in 0..along_i {
            for j in 0..along_j {
                let at = i * plane + j * along_k;
                let row = |is_inside: bool, from: usize, side: usize, a: usize| match is_inside {
                    true => &now[from..from + along_k],
                    false => beside[side].row(a, along_k),
                };
                let star = Star {
                    own: &now[at..at + along_k],
                    west: row(i > 0, at.wrapping_sub(plane), 0, j),
                    east: row(i + 1 < along_i, at + plane, 1, j),
                    south: row(j > 0, at.wrapping_sub(along_k), 2, i),
                    north: row(j + 1 < along_j, at + along_k, 3, i),
                    ends: [beside[4].cell(i, j), beside[5].cell(i, j)],
                };
                let next = &mut self.next[at..at + along_k];
                match self.source {
                    None => star.relax(next, None),
                    Some(source) => {
                        let [i, j] = [self.first[0] + i, self.first[1] + j];
                        star.relax(next, Some(source.row(i, j, self.first[2], along_k)));
                    }
                }
            }
        }
    }
}

/// A row of cells and the four beside it, all of the same length.
struct Star<'a> {
    own: &'a [f64],
    west: &'a [f64],
    east: &'a [f64],
    south: &'a [f64],
    north: &'a [f64],
    /// The cells before and behind the row.
    ends: [f64; 2],
}

impl Star<'_> {
    /// `source`: a factor, and what it multiplies.
    #[inline(always)]
    fn relax(&self, next: &mut [f64], source: Option<(f64, &[f64])>) {
        let last = next.len() - 1;
        let cell = |k: usize, before: f64, behind: f64| {
            let plane = (self.west[k] + self.east[k]) + (self.south[k] + self.north[k]);
            let around = plane + (before + behind);
            source.map_or(around, |(scale, along)| around - scale * along[k]) * SIXTH
        };
        let [before, behind] = self.ends;
        if last == 0 {
            next[0] = cell(0, before, behind);
            return;
        }
        next[0] = cell(0, before, self.own[1]);
        next[last] = cell(last, self.own[last - 1], behind);
        // What lies between, in slices of one length: so nothing is checked in the loops.
        let n = last - 1;
        let next = &mut next[1..][..n];
        let [west, east, south, north] =
            [self.west, self.east, self.south, self.north].map(|row| &row[1..][..n]);
        let (before, behind) = (&self.own[..n], &self.own[2..][..n]);
        match source {
            None => {
                for k in 0..n {
                    let plane = (west[k] + east[k]) + (south[k] + north[k]);
                    next[k] = (plane + (before[k] + behind[k])) * SIXTH;
                }
            }
            Some((scale, along)) => {
                let along = &along[1..][..n];
                for k in 0..n {
                    let plane = (west[k] + east[k]) + (south[k] + north[k]);
                    next[k] = (plane + (before[k] + behind[k]) - scale * along[k]) * SIXTH;
                }
            }
        }
    }
}

const SIXTH: f64 = 1.0 / 6.0;

impl Datum for Part {
    fn bytes(&self) -> usize {
        match self {
            Part::Block(block) => 2 * block.shape.iter().product::<usize>() * size_of::<f64>(),
            Part::View(_) => 0,
            Part::Face(cells) => size_of_val(&cells[..]),
        }
    }

    fn numa_node(&self) -> Option<usize> {
        match self {
            Part::Block(block) => block.numa_node,
            // A view has no bytes of its own, and nobody knows where the heap's lie.
            Part::View(_) | Part::Face(_) => None,
        }
    }
}

/// Only faces leave their rank.
impl Wire for Part {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        self.body().len()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        match self {
            Part::Face(cells) => Cow::Borrowed(bytemuck::cast_slice(cells)),
            Part::Block(_) | Part::View(_) => Cow::Borrowed(&[]),
        }
    }

    fn unpack(_: &[u8], body: Box<dyn port::Block>) -> Result<Self, String> {
        match body.bytes() {
            [] => Err("a block was sent, of which only faces travel".into()),
            bytes => Ok(Part::Face(bytemuck::pod_collect_to_vec(bytes))),
        }
    }
}
