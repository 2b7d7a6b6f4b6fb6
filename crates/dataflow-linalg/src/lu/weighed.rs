//! Weighed: what the tasks of LU and of solutions with it cost, and what they send; where rows are swapped,
//! if every row is as likely as any other to be the next pivot's.
//!
//! # Law
//! Which tasks there are and who sends to whom does not depend on the matrix; how many rows a step moves
//! does. Of R rows from a panel on h go to the top, each with probability h/R; as many fall into the places
//! of those from below. With partial pivoting that is what a random matrix sends, within some per cent
//! where it is small. In a tournament fewer rows move if the number of its groups is no power of two, since
//! the first of them, from that of the diagonal on, play one match less than the others: a quarter fewer
//! with three groups, each on a row of ranks of its own. The same holds of rows of right-hand sides.

use super::check::{CheckTask, OUTGOING, steps_of};
use super::factor::Task::{
    Begin, Gather, Leave, Merge, Order, Panel, Rise, Scatter, Settle, Top, Update,
};
use super::factor::{Factor, Task};
use super::flows::{crown, leave, panel, scatter, top};
use super::inverse::HandTask;
use super::numbered::stored_width;
use super::pivots::words_bytes;
use super::rank_rows::RankRows;
use super::reorder::ReorderTask;
use super::replay::{BELOW, ReplayTask};
use super::unpivoted::UnpivotedTask;
use super::{Check, Columns, Incremental, Relay, Reorder, Replay, Unpivoted};
use crate::flops::{self, products};
use crate::matrix::{Part, TiledMatrix};
use crate::scalar::Scalar;
use crate::weight::Weight;

impl<T: Scalar> Factor<'_, T> {
    /// Bytes of what a task hands on through a flow.
    pub(crate) fn bytes_handed_on(&self, task: Task, flow: usize) -> u64 {
        let tile = |m: u32, n: u32| Part::Whole.bytes::<T>(self.shape(m, n));
        match task {
            Begin { m, n } | Update { m, n, .. } | Settle { m, n } => tile(m, n),
            Scatter { m, k } if flow == scatter::TILE => tile(m, k),
            Top { n, k } if flow == top::TILE => tile(k, n),
            Scatter { k, .. } => Part::UnitLower.bytes::<T>(self.shape(k, k)),
            Panel { k } if flow == panel::PIVOTS => self.swaps_bytes(k),
            Order { n } => words_bytes::<T>(self.rows_from(n + 1)),
            _ => (self.rows_on_their_way(task, flow) * size_of::<T>() as f64).round() as u64,
        }
    }

    /// Floating-point operations of a task.
    pub(crate) fn operations(&self, task: Task) -> f64 {
        let product = products::<T>;
        let (rows, cols) = (|m: u32| self.shape(m, 0).0, |n: u32| self.shape(0, n).1);
        let panel = |rows: usize, k: u32| flops::getrf::<T>(rows, cols(k)) as f64;
        match task {
            Gather { r, k } if self.tournament => panel(self.group_rows(r, k), k),
            Merge { v, k } => panel(self.playing_rows(v, k), k),
            Panel { k } if self.tournament => panel(self.playing_rows(1, k), k),
            Panel { k } => panel(self.rows_from(k), k),
            Scatter { m, k } if self.tournament => {
                // Of the diagonal tile the rows that have lost.
                let winners = if m == k { self.height(k) } else { 0 };
                product(rows(m) - winners, cols(k), cols(k)) / 2.0
            }
            Top { n, k } => product(self.height(k), cols(n), self.height(k)) / 2.0,
            Update { m, n, k } => product(rows(m), cols(n), self.height(k)),
            _ => 0.0,
        }
    }

    fn shape(&self, m: u32, n: u32) -> (usize, usize) {
        (self.a.tile_rows(m as usize), self.a.tile_cols(n as usize))
    }

    /// Rows that go to the top in step k.
    fn height(&self, k: u32) -> usize {
        self.rows_from(k).min(self.shape(k, k).1)
    }

    /// Rows of panel k that are gathered together in group r.
    fn group_rows(&self, r: u32, k: u32) -> usize {
        let tiles = self.groups.tiles(r, k);
        tiles.map(|m| self.shape(m, k).0).sum()
    }

    /// Rows that play at a node of the tree of panel k: as many as it has columns of each set, of a group that
    /// has fewer all.
    fn playing_rows(&self, v: u32, k: u32) -> usize {
        let width = self.shape(k, k).1;
        let of_set = |v: u32| match v.checked_sub(self.entrants(k)) {
            Some(i) => self.group_rows(k + i, k).min(width),
            // Groups of fewer rows than columns are the last one.
            None => width,
        };
        self.players(v, k).map(of_set).sum()
    }

    /// Elements of the rows, in stacks or one by one, that a task hands on through a flow.
    fn rows_on_their_way(&self, task: Task, flow: usize) -> f64 {
        let width = |n: u32| self.shape(0, n).1;
        match task {
            Gather { r, k } if self.tournament => {
                let winners = self.group_rows(r, k).min(width(k));
                (winners * stored_width(width(k))) as f64
            }
            Gather { r, k } => (self.group_rows(r, k) * width(k)) as f64,
            Merge { k, .. } => (width(k) * stored_width(width(k))) as f64,
            Panel { k } if self.tournament => self.seat_elements(k, flow),
            Panel { k } => {
                let distance = panel::distance(self.rows, flow);
                (self.group_rows(k + distance, k) * width(k)) as f64
            }
            Rise { r, n, k } => self.touched(r, k) * width(n) as f64,
            Top { n, k } => match top::falls_to(self.rows, flow) {
                Some(r) => self.touched(r, k) * stored_width(width(n)) as f64,
                None => 0.0, // a row of ranks without tiles, from which nothing came
            },
            Leave { r, n } => match leave::goes_to(self.rows, flow) {
                Some(to) => {
                    let pivots = self.a.rows().min(self.a.cols());
                    let of = (self.a, self.rows);
                    moving(of, [r, to], n + 1, pivots) * width(n) as f64
                }
                None => 0.0,
            },
            _ => 0.0,
        }
    }

    /// Elements of a seat: the factors of the winners, and behind them the rows that fall.
    fn seat_elements(&self, k: u32, flow: usize) -> f64 {
        let (height, width) = (self.height(k) as f64, self.shape(k, k).1);
        let fallen = self.touched(k + crown::distance(flow), k);
        // Whole columns: half a one more on average.
        let behind = (1.0 + fallen * stored_width(width) as f64) / height + 0.5;
        height * (width as f64 + behind)
    }

    /// Rows of rank row `r` in the tiles from row `first` on.
    fn rows_below(&self, r: u32, first: u32) -> f64 {
        let tiles = self.rows.tiles(r, first);
        tiles.map(|m| self.shape(m, 0).0 as f64).sum()
    }

    /// How many rows of rank row `r` leave their tiles below the top for it in step k.
    fn touched(&self, r: u32, k: u32) -> f64 {
        let height = self.height(k);
        let all = self.rows_below(r, k);
        let top = if self.rows.owner(k) == self.rows.owner(r) {
            height as f64
        } else {
            0.0
        };
        (all - top).max(0.0) * height as f64 / self.rows_from(k) as f64
    }

    /// Bytes of the swaps of panel k: two counts, two lists for the top and two for the rows below.
    fn swaps_bytes(&self, k: u32) -> u64 {
        let height = self.height(k) as f64;
        let rows = self.rows_from(k) as f64;
        let below = height * (rows - height) / rows;
        words_bytes::<T>((2.0 + 2.0 * height + 2.0 * below).round() as usize)
    }
}

/// How many rows go from one rank row to another by the swaps from tile row `first` on, if the matrix has so
/// many pivots: each of their places gets any row, and who was there takes the place of one that left.
fn moving<T: Scalar>(
    (a, rows): (&TiledMatrix<T>, RankRows),
    [from, to]: [u32; 2],
    first: u32,
    pivots: usize,
) -> f64 {
    let of = |r: u32, end: usize| -> f64 {
        let ranges = rows.tiles(r, first).map(|m| a.row_range(m as usize));
        let below = ranges.map(|range| range.end.min(end).saturating_sub(range.start));
        below.sum::<usize>() as f64
    };
    let (top, top_there) = (of(from, pivots), of(to, pivots));
    let (all, all_there) = (of(from, a.rows()), of(to, a.rows()));
    let left = a.rows() - a.row_range(first as usize).start;
    (top_there * all + (all_there - top_there) * top) / left.max(1) as f64
}

impl<T: Scalar> Weight for Factor<'_, T> {
    fn bytes(&self, task: Self::Task, flow: usize) -> u64 {
        self.bytes_handed_on(task, flow)
    }

    fn flops(&self, task: Self::Task) -> f64 {
        self.operations(task)
    }
}

/// All on one rank: nothing travels.
impl<T: Scalar> Weight for Columns<'_, T> {
    fn bytes(&self, _: Self::Task, _: usize) -> u64 {
        0
    }

    fn flops(&self, task: Self::Task) -> f64 {
        self.operations(task)
    }
}

impl<T: Scalar> Weight for Unpivoted<'_, T> {
    fn bytes(&self, task: UnpivotedTask, flow: usize) -> u64 {
        use UnpivotedTask::{Below, Getrf, Right, Update};
        match (task, flow) {
            (Getrf { k }, 1) => Part::UnitLower.bytes::<T>(self.a.tile_shape((k, k))),
            (Getrf { k }, 2) => Part::Upper.bytes::<T>(self.a.tile_shape((k, k))),
            (Getrf { k }, _) => self.a.tile_bytes((k, k)),
            (Right { n, k: m } | Below { m, k: n } | Update { m, n, .. }, _) => {
                self.a.tile_bytes((m, n))
            }
        }
    }

    fn flops(&self, task: Self::Task) -> f64 {
        use UnpivotedTask::{Below, Getrf, Right, Update};
        let (rows, cols) = (
            |m: u32| self.a.tile_rows(m as usize),
            |n: u32| self.a.tile_cols(n as usize),
        );
        match task {
            Getrf { k } => flops::getrf::<T>(rows(k), cols(k)) as f64,
            Right { n, k } => products::<T>(rows(k), cols(n), rows(k)) / 2.0,
            Below { m, k } => products::<T>(rows(m), cols(k), cols(k)) / 2.0,
            Update { m, n, k } => products::<T>(rows(m), cols(n), cols(k)),
        }
    }
}

impl<T: Scalar> Weight for Incremental<'_, T> {
    fn bytes(&self, task: Self::Task, flow: usize) -> u64 {
        self.bytes_handed_on(task, flow)
    }

    fn flops(&self, task: Self::Task) -> f64 {
        self.operations(task)
    }
}

impl<T: Scalar> Weight for Replay<'_, T> {
    fn bytes(&self, task: ReplayTask, flow: usize) -> u64 {
        use ReplayTask::{Backward, Forward, Give, GiveSteps, Pair, Update};
        match task {
            Give { m, n } => self.lu.tile_bytes((m, n)),
            GiveSteps { m, k } => self.steps_bytes(m, k),
            Pair { m, j, .. } if flow == BELOW => self.b.tile_bytes((m, j)),
            Forward { k, j } | Pair { k, j, .. } | Backward { k, j } => self.b.tile_bytes((k, j)),
            Update { m, j, .. } => self.b.tile_bytes((m, j)),
        }
    }

    fn flops(&self, task: ReplayTask) -> f64 {
        use ReplayTask::{Backward, Forward, Give, GiveSteps, Pair, Update};
        let (rows, cols) = (
            |m: u32| self.b.tile_rows(m as usize),
            |j: u32| self.b.tile_cols(j as usize),
        );
        match task {
            Give { .. } | GiveSteps { .. } => 0.0,
            Forward { k, j } | Backward { k, j } => products::<T>(rows(k), cols(j), rows(k)) / 2.0,
            Pair { m, k, j } | Update { m, k, j } => products::<T>(rows(m), cols(j), rows(k)),
        }
    }
}

impl<T: Scalar> Weight for Reorder<'_, T> {
    fn bytes(&self, task: ReorderTask, flow: usize) -> u64 {
        use ReorderTask::{Begin, Leave, Order, Settle};
        match task {
            Order { k } => words_bytes::<T>(self.rows_from(k)),
            Begin { m, j } | Settle { m, j } => self.b.tile_bytes((m, j)),
            Leave { r, j } => self.rows_bytes(r, j, flow),
        }
    }

    fn flops(&self, _: ReorderTask) -> f64 {
        0.0
    }
}

impl<T: Scalar> Reorder<'_, T> {
    /// Bytes of the rows that a rank row hands on through a flow.
    fn rows_bytes(&self, r: u32, j: u32, flow: usize) -> u64 {
        let (of, ways) = ((self.b, self.rows), [r, self.goes_to(flow)]);
        let elements = moving(of, ways, 0, self.b.rows()) * self.b.tile_cols(j as usize) as f64;
        (elements * size_of::<T>() as f64).round() as u64
    }
}

impl<T: Scalar> Weight for Relay<'_, T> {
    fn bytes(&self, HandTask::HandOn { m, n }: HandTask, _: usize) -> u64 {
        self.a.tile_bytes((m, n))
    }

    fn flops(&self, _: HandTask) -> f64 {
        0.0
    }
}

/// Sums of moduli, of A and of what is left of it, cost no operations.
impl<T: Scalar> Weight for Check<'_, T> {
    fn bytes(&self, task: CheckTask, flow: usize) -> u64 {
        use CheckTask::{Add, Begin, Give, Leave, Order, Subtract};
        let sums = |(rows, cols): (usize, usize)| 2 * ((rows + cols) * size_of::<f64>()) as u64;
        match task {
            Order { k } => words_bytes::<T>(self.rows_from(k)),
            Leave { r, n } => {
                let to = flow.saturating_sub(OUTGOING) as u32;
                let pivots = self.lu.rows().min(self.lu.cols());
                let elements = moving((self.lu, self.rows), [r, to], 0, pivots)
                    * self.lu.tile_cols(n as usize) as f64;
                (elements * size_of::<T>() as f64).round() as u64
            }
            Subtract { m, n, k } if k + 1 == steps_of(m, n) => sums(self.lu.tile_shape((m, n))),
            Begin { m, n } | Give { m, n } | Subtract { m, n, .. } => self.lu.tile_bytes((m, n)),
            Add { .. } => sums((self.lu.rows(), self.lu.cols())),
        }
    }

    fn flops(&self, task: CheckTask) -> f64 {
        let CheckTask::Subtract { m, n, k } = task else {
            return 0.0;
        };
        let (rows, cols) = self.lu.tile_shape((m, n));
        let (height, width) = self.lu.tile_shape((k, k));
        products::<T>(rows, cols, height.min(width))
    }
}
