//! The way back through a table whose tiles have run, as a task space of its own.

use super::Alignment;
use super::Task::{self, Tile};
use super::scores::Column;
use dataflow::core::port::{Block, Head, Wire};
use dataflow::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The best alignment, of a table whose tiles have run: from the last cell to the first. Of equally
/// good ones that whose last column comes first in the order of [`Column`], and so on towards the
/// first column.
///
/// Each tile hears from those below, right and diagonally beyond it; the way comes from at most one
/// of them, and goes on to one. The others send an empty one.
pub struct Back<'a> {
    table: &'a Alignment,
    /// On the rank of the first tile: where the way ended.
    end: Store<Way>,
}

/// How far one has come on the way back, from whichever cell it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Whether this is it: between most tiles the way does not lead.
    pub(super) leads: bool,
    /// The score of the cell it began at.
    pub score: i32,
    /// The cell it has come to.
    pub(super) i: usize,
    pub(super) j: usize,
    /// What the next column is.
    pub(super) next: Column,
    /// Those so far, the last one first.
    pub(super) columns: Vec<Column>,
}

impl Datum for Way {}

impl Wire for Way {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        self.body().len()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(serde_json::to_vec(self).unwrap_or_default())
    }

    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        serde_json::from_slice(body.bytes()).map_err(|error| error.to_string())
    }
}

/// The ways that come from the tile below, from the right, from beyond both.
const FROM: [(usize, usize); 3] = [(1, 0), (0, 1), (1, 1)];
/// Those that go on, by the flow at which they arrive, from here on.
const ON: usize = FROM.len();

impl<'a> Back<'a> {
    /// The way back through a table.
    pub fn new(table: &'a Alignment) -> Self {
        let end = Store::empty("end", 1);
        Back { table, end }
    }

    /// The score, and the columns from first to last; once all tiles have run, on the rank of the
    /// first tile.
    pub fn alignment(&self) -> Option<(i32, Vec<Column>)> {
        let way = match self.table.n_rows().min(self.table.n_columns()) {
            0 => self.table.last(),
            _ => (*self.end.get(0)?).clone(),
        };
        let mut columns = way.columns;
        columns.extend(std::iter::repeat_n(Column::GapInSecond, way.i));
        columns.extend(std::iter::repeat_n(Column::GapInFirst, way.j));
        columns.reverse();
        Some((way.score, columns))
    }
}

impl TaskSpace for Back<'_> {
    type Task = Task;
    type Datum = Way;

    fn describe(&self, about: &mut Description) {
        about.name("way back").parameter("nb", self.table.nb);
        let tile = about.class("Tile");
        let tile = tile.optional("BELOW").optional("RIGHT").optional("BEYOND");
        tile.new_flow("UP").new_flow("LEFT").new_flow("BACK");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        self.table.tasks(on)
    }

    fn rank(&self, tile: Task) -> Rank {
        self.table.rank(tile)
    }

    fn inputs(&self, Tile { i, j }: Task, from: &mut impl Inputs<Self>) {
        for (flow, (down, right)) in FROM.into_iter().enumerate() {
            if i + down < self.table.n_rows() && j + right < self.table.n_columns() {
                from.task(
                    flow,
                    Tile {
                        i: i + down,
                        j: j + right,
                    },
                    ON + flow,
                );
            }
        }
    }

    fn successors(&self, Tile { i, j }: Task, to: &mut impl Successors<Self>) {
        for (flow, (down, right)) in FROM.into_iter().enumerate() {
            if let (Some(i), Some(j)) = (i.checked_sub(down), j.checked_sub(right)) {
                to.task(ON + flow, Tile { i, j }, flow);
            }
        }
        if (i, j) == (0, 0) {
            to.home(ON, &self.end, 0);
        }
    }

    fn run(&self, tile: Task, flows: &mut Flows<'_, Way>) -> Result<(), TaskError> {
        let Tile { i, j } = tile;
        let [below, right, beyond, up, left, back] = flows.slots();
        let came = [below, right, beyond].map(|way| way.get().filter(|way| way.leads));
        let is_last = i + 1 == self.table.n_rows() && j + 1 == self.table.n_columns();
        let mut way = match came.into_iter().flatten().next() {
            Some(way) => way.clone(),
            None if is_last => self.table.last(),
            None => Way::default(),
        };
        let (top, start) = (i * self.table.nb, j * self.table.nb);
        if way.leads && way.i > top && way.j > start {
            self.table.walk_back(tile, &mut way);
        }
        // Where one sequence has ended the way is known; it is handed on to the first tile.
        let ended = way.i == 0 || way.j == 0;
        let leaves_up = i > 0 && (ended || way.i <= top);
        let leaves_left = j > 0 && (ended || way.j <= start);
        let out = match (leaves_up, leaves_left) {
            (true, true) => 2,
            (false, true) => 1,
            _ => 0,
        };
        for (number, slot) in [up, left, back].into_iter().enumerate() {
            slot.put(match number == out {
                true => std::mem::take(&mut way),
                false => Way::default(),
            });
        }
        Ok(())
    }
}
