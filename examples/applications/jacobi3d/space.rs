//! The graph: `Start` makes a block and shows it, `Relax` sweeps it once.
//!
//! | flow | of `Relax{s, b}` | from | to |
//! |---|---|---|---|
//! | BLOCK | updated | BLOCK of the step before | BLOCK of the next step; home after the last |
//! | SHOWN | made | | FROM of the neighbours on the same rank: a view of the block |
//! | TO a side | made | | FROM of the neighbour there, if on another rank: a packed face |
//! | FROM a side | read | SHOWN or TO of the neighbour's step before; at the border home | |
//!
//! A block stays where it is from run to run: a run that finds it filled goes on with it.

use super::grid::{Grid, Place, Side};
use super::problem::Problem;
use super::sweep::{Block, Part};
use common::variant::Rounds;
use dataflow::core::data::Version;
use dataflow::core::port::Memory;
use dataflow::linalg::weight::Weight;
use dataflow::prelude::*;
use std::sync::Arc;

task_names! {
    /// Step s = 0 is `Start`; s = 1, 2, … are sweeps.
    pub enum Task { Start { i, j, k }, Relax { s, i, j, k } }
}
use Task::{Relax, Start};

const BLOCK: usize = 0;
const SHOWN: usize = 1;
/// The first of the six flows to, and of those from, the sides.
pub const TO: usize = 2;
const FROM: usize = 8;
const NAMES: [&str; 6] = ["WEST", "EAST", "SOUTH", "NORTH", "BELOW", "ABOVE"];

/// Sweeps over the blocks of a grid.
pub struct Jacobi {
    pub grid: Grid,
    pub problem: Problem,
    sweeps: u32,
    /// How many sweeps are done on a neighbourhood before those beside it.
    depth: u32,
    memory: Arc<dyn Memory>,
    /// A slot for each block.
    pub blocks: Store<Part>,
    /// What lies beyond a side that has no neighbour on this rank: slot 6·block + side.
    beyond: Store<Part>,
}

impl Jacobi {
    /// `sweeps` (at least 1) on this rank's blocks, all vacant, with memory of `memory`.
    pub fn new(
        (grid, problem): (Grid, Problem),
        sweeps: u32,
        depth: u32,
        on: Rank,
        memory: Arc<dyn Memory>,
    ) -> Self {
        let space = Self::counted((grid, problem), sweeps, depth, memory);
        for place in space.places_on(on) {
            let number = grid.number(place);
            let vacant = Part::Block(Block::vacant(grid.shape(place)));
            let put = space.blocks.put(number, Version::new(vacant));
            assert!(put.is_some(), "a slot for each block");
            for side in Side::all() {
                let neighbour = grid.neighbour(place, side);
                if neighbour.is_none_or(|other| Rank(grid.rank(other)) != on) {
                    let face = Part::Face(face_beyond(&grid, &space.problem, place, side));
                    let slot = 6 * number + side.index();
                    let put = space.beyond.put(slot, Version::new(face));
                    assert!(put.is_some(), "a slot for each side");
                }
            }
        }
        space
    }

    /// The same with nothing in its stores: to be counted, not to be run.
    pub fn counted(
        (grid, problem): (Grid, Problem),
        sweeps: u32,
        depth: u32,
        memory: Arc<dyn Memory>,
    ) -> Self {
        let n_blocks = grid.blocks.product();
        Jacobi {
            grid,
            problem,
            sweeps,
            depth: depth.max(1),
            memory,
            blocks: Store::empty("blocks", n_blocks),
            beyond: Store::empty("beyond", 6 * n_blocks),
        }
    }

    /// This rank's blocks, by place.
    pub fn places_on(&self, on: Rank) -> impl Iterator<Item = Place> + Send {
        let grid = self.grid;
        (grid.places()).filter(move |&place| Rank(grid.rank(place)) == on)
    }

    /// Where the cells of a block begin.
    pub fn first(&self, place: Place) -> [usize; 3] {
        std::array::from_fn(|axis| self.grid.cells(axis, place[axis]).start)
    }

    /// The flow by which a block's cells reach a neighbour.
    fn shown(&self, place: Place, side: Side, neighbour: Place) -> usize {
        match self.grid.rank(place) == self.grid.rank(neighbour) {
            true => SHOWN,
            false => TO + side.index(),
        }
    }

    fn fill(&self, block: &mut Block, place: Place) {
        let first = self.first(place).map(|first| first as isize);
        block.fill(&*self.memory, |i, j, row| {
            for (k, cell) in (first[2]..).zip(row) {
                let at = [first[0] + i as isize, first[1] + j as isize, k];
                *cell = self.problem.exact(at, 0);
            }
        });
    }
}

/// The cells beyond a side of a block: on the border of the cube; elsewhere those of the exact
/// solution at the beginning, which nobody may read but `ideal`.
fn face_beyond(grid: &Grid, problem: &Problem, place: Place, side: Side) -> Vec<f64> {
    let mut ranges: [_; 3] = std::array::from_fn(|axis| {
        let cells = grid.cells(axis, place[axis]);
        cells.start as isize..cells.end as isize
    });
    let along = &mut ranges[side.axis];
    *along = match side.above {
        true => along.end..along.end + 1,
        false => along.start - 1..along.start,
    };
    let [i, j, k] = ranges;
    let rows = i.flat_map(|i| j.clone().map(move |j| (i, j)));
    let places = rows.flat_map(|(i, j)| k.clone().map(move |k| [i, j, k]));
    places.map(|at| problem.exact(at, 0)).collect()
}

/// The step and the block of a task.
pub fn parts(task: Task) -> (u32, Place) {
    match task {
        Start { i, j, k } => (0, [i, j, k]),
        Relax { s, i, j, k } => (s, [i, j, k]),
    }
}

/// The task of a step on a block.
fn step(s: u32, [i, j, k]: Place) -> Task {
    match s {
        0 => Start { i, j, k },
        _ => Relax { s, i, j, k },
    }
}

impl TaskSpace for Jacobi {
    type Task = Task;
    type Datum = Part;

    fn describe(&self, about: &mut Description) {
        about.name("jacobi3d").parameter("n", self.grid.n);
        about.parameter("sweeps", self.sweeps);
        about.parameter("blocks", self.grid.blocks);
        about.parameter("boxes of ranks", self.grid.ranks);
        about.parameter("problem", format!("{:?}", self.problem.name));
        for class in ["Start", "Relax"] {
            let mut flows = about.class(class).update("BLOCK").new_flow("SHOWN");
            for side in NAMES {
                flows = flows.new_flow(&format!("TO {side}"));
            }
            if class == "Relax" {
                for side in NAMES {
                    flows = flows.read(&format!("FROM {side}"));
                }
            }
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        (0..=self.sweeps).flat_map(move |s| self.places_on(on).map(move |place| step(s, place)))
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        let (s, place) = parts(task);
        let number = self.grid.number(place);
        let Some(before) = s.checked_sub(1) else {
            return from.home(BLOCK, &self.blocks, number);
        };
        from.task(BLOCK, step(before, place), BLOCK);
        for side in Side::all() {
            let flow = FROM + side.index();
            match self.grid.neighbour(place, side) {
                None => from.home(flow, &self.beyond, 6 * number + side.index()),
                Some(other) => {
                    let shown = self.shown(other, side.opposite(), place);
                    from.task(flow, step(before, other), shown);
                }
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        let (s, place) = parts(task);
        if s == self.sweeps {
            return to.home(BLOCK, &self.blocks, self.grid.number(place));
        }
        to.task(BLOCK, step(s + 1, place), BLOCK);
        for side in Side::all() {
            if let Some(other) = self.grid.neighbour(place, side) {
                let shown = self.shown(place, side, other);
                to.task(shown, step(s + 1, other), FROM + side.opposite().index());
            }
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Part>) -> Result<(), TaskError> {
        let (s, place) = parts(task);
        let mut slots = flows.iter();
        let Some(Part::Block(block)) = slots.next().map(|slot| slot.update()) else {
            return Err(TaskError::new("no_block", "BLOCK holds something else"));
        };
        let shown = slots.next();
        let to: Vec<_> = slots.by_ref().take(6).collect();
        let beyond: Vec<&Part> = slots.map(|slot| slot.read()).collect();
        match beyond.try_into() {
            Ok(beyond) => block.relax(beyond, self.problem.source.as_ref(), self.first(place)),
            // A block that a run has left in place is as it was.
            Err(_) if block.is_vacant() => self.fill(block, place),
            Err(_) => {}
        }
        if s == self.sweeps {
            return Ok(());
        }
        if let (Some(slot), Some(view)) = (shown, block.view()) {
            slot.put(Part::View(view));
        }
        for (side, slot) in Side::all().zip(to) {
            let neighbour = self.grid.neighbour(place, side);
            if neighbour.is_some_and(|other| self.shown(place, side, other) != SHOWN) {
                slot.put(Part::Face(block.face(side)));
            }
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        Rank(self.grid.rank(parts(task).1))
    }

    /// Layers of blocks along the first axis, and `depth` sweeps behind one another on them: sweep `t` of
    /// a pass on layer `i` comes with sweep `t − 1` on layer `i + 1`, right after it, so that what is read
    /// was written not long before. With `depth` 1 the blocks of a sweep are equally urgent, so that they stay
    /// with the worker that swept them last.
    fn priority(&self, task: Task) -> i64 {
        let (s, [i, ..]) = parts(task);
        if self.depth == 1 {
            return -i64::from(s);
        }
        let depth = i64::from(self.depth);
        // `Start` comes before the first pass.
        let (pass, t) = (
            (i64::from(s) - 1).div_euclid(depth),
            (i64::from(s) - 1).rem_euclid(depth),
        );
        let diagonals = self.grid.blocks.0[0] as i64 + depth;
        let diagonal = pass * diagonals + i64::from(i) + t;
        t - diagonal * depth
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        self.places_on(on).map(|place| step(0, place))
    }

    fn count(&self, on: Rank) -> u64 {
        (u64::from(self.sweeps) + 1) * self.places_on(on).count() as u64
    }
}

impl Weight for Jacobi {
    fn bytes(&self, task: Task, flow: usize) -> u64 {
        let side = Side::all().nth(flow.wrapping_sub(TO));
        side.map_or(0, |side| {
            let shape = self.grid.shape(parts(task).1).into_iter().enumerate();
            let along = shape.filter(|(axis, _)| *axis != side.axis);
            along.map(|(_, cells)| cells as u64).product::<u64>() * size_of::<f64>() as u64
        })
    }

    fn flops(&self, task: Task) -> f64 {
        let (s, place) = parts(task);
        match s {
            0 => 0.0,
            _ => self.problem.flops() * self.grid.shape(place).iter().product::<usize>() as f64,
        }
    }
}

impl Rounds for Jacobi {
    fn n_ranks(&self) -> u32 {
        self.grid.ranks.product() as u32
    }

    fn n_rounds(&self) -> u32 {
        self.sweeps + 1
    }

    fn round(&self, task: Task) -> u32 {
        parts(task).0
    }

    fn stand_in(&self, task: Task, flow: usize) -> Option<(&Store<Part>, usize)> {
        let side = flow.checked_sub(FROM)?;
        let number = self.grid.number(parts(task).1);
        Some((&self.beyond, 6 * number + side))
    }
}
