//! The elimination of all panels, as a table that knows every row's way.
//!
//! # Law
//! A row's tiles are touched by one *step* after the other: in each panel, first its own
//! reflectors if it is a triangle, then the eliminations of others under it, at last its own; row k
//! stays after panel k. The table answers which step is next and which was before, so that both ends of every edge follow
//! from one list.

use super::Tree;
use super::tree::Kill;
use crate::kernel::Below;
use dataflow_core::words::counted;
use std::fmt;

/// What a row takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowStep {
    /// The row becomes a triangle.
    Reflect { k: u32 },
    /// Row m, this one or one under it, is eliminated.
    Eliminate { m: u32, k: u32 },
    /// The row is done: it stays, and its tiles go home from wherever they are.
    Stay { k: u32 },
}

/// The eliminations of a matrix with `mt` rows of tiles: 24 bytes for each row in each panel, and 4 for each
/// that vanishes there.
///
/// # Examples
/// ```
/// use dataflow_linalg::qr::{Elimination, Tree};
/// let elimination = Elimination::of_tree(Tree::Binary, 4, 1);
/// assert_eq!([1, 2, 3].map(|m| elimination.pivot(0, m)), [Some(0), Some(0), Some(2)]);
/// assert_eq!(elimination.next(0, 0, Some(1)), Some(2));
/// assert!(elimination.is_triangle(0, 3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elimination {
    mt: u32,
    panels: u32,
    /// Row m of panel k at `m + k · mt`.
    rows: Vec<Row>,
    /// The rows that vanish in each panel, in order.
    order: Vec<Vec<u32>>,
}

/// What a row does in a panel. Rows are counted from 1 here, 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    pivot: u32,
    is_square: bool,
    /// The first and the last row that vanish under it.
    victims: [u32; 2],
    /// The row that vanishes under the same pivot before this one, and after it.
    siblings: [u32; 2],
}

/// Why a list of eliminations leaves no triangle.
///
/// # Examples
/// ```
/// use dataflow_linalg::qr::{Elimination, Tree};
/// let mut lists = Tree::Flat.kills(3, 1);
/// lists[0].pop();
/// let refused = Elimination::of_lists(3, &lists).unwrap_err();
/// assert_eq!(refused.to_string(), "panel 0: row 2 does not vanish");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EliminationError {
    text: String,
}

impl fmt::Display for EliminationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for EliminationError {}

impl Elimination {
    /// The eliminations by a tree.
    ///
    /// # Panics
    /// If there are more panels than rows of tiles.
    #[track_caller]
    pub fn of_tree(tree: Tree, mt: u32, panels: u32) -> Self {
        assert!(panels <= mt, "{} (must not be more)", panels_of(panels, mt));
        let lists = tree.kills(mt, panels);
        let made = Elimination::of_lists(mt, &lists);
        made.unwrap_or_else(|error| unreachable!("{tree} of {}: {error}", counted(mt, "row")))
    }

    /// The eliminations by a list for each panel.
    ///
    /// # Errors
    /// If a row below the diagonal does not vanish once, under a triangle that stands above the
    /// diagonal of no later panel and has not vanished before.
    pub fn of_lists(mt: u32, lists: &[Vec<Kill>]) -> Result<Self, EliminationError> {
        let panels = lists.len() as u32;
        if panels > mt {
            let text = format!("{} (must not be more)", panels_of(panels, mt));
            return Err(EliminationError { text });
        }
        let rows = vec![Row::default(); mt as usize * panels as usize];
        let rows_of = |list: &Vec<Kill>| list.iter().map(|kill| kill.m).collect();
        let order = lists.iter().map(rows_of).collect();
        let mut made = Elimination {
            mt,
            panels,
            rows,
            order,
        };
        for (k, list) in (0..).zip(lists) {
            for kill in list {
                made.add(k, *kill)?;
            }
            for m in k + 1..mt {
                if made.pivot(k, m).is_none() {
                    let text = format!("panel {k}: row {m} does not vanish");
                    return Err(EliminationError { text });
                }
            }
        }
        Ok(made)
    }

    fn add(&mut self, k: u32, kill: Kill) -> Result<(), EliminationError> {
        let Kill { m, pivot, below } = kill;
        let wrong = |why: &str| {
            let text = format!("panel {k}: row {m} cannot vanish under row {pivot}, {why}");
            Err(EliminationError { text })
        };
        if !(k + 1..self.mt).contains(&m) || !(k..self.mt).contains(&pivot) || m == pivot {
            return wrong("one of them is not there");
        }
        if self.pivot(k, m).is_some() {
            return wrong("it did already");
        }
        if self.pivot(k, pivot).is_some() {
            return wrong("which did before");
        }
        let is_square = below == Below::Square;
        if is_square && self.row(k, m).victims[0] != 0 {
            return wrong("as a square it eliminates nobody");
        }
        let last = self.row(k, pivot).victims[1];
        if last != 0 {
            self.row_mut(k, last - 1).siblings[1] = m + 1;
        }
        let above = self.row_mut(k, pivot);
        if last == 0 {
            above.victims[0] = m + 1;
        }
        above.victims[1] = m + 1;
        let own = self.row_mut(k, m);
        (own.pivot, own.is_square, own.siblings[0]) = (pivot + 1, is_square, last);
        Ok(())
    }

    /// The rows that vanish in panel `k`, none before those that vanish under it.
    pub(super) fn order(&self, k: u32) -> &[u32] {
        &self.order[k as usize]
    }

    fn row(&self, k: u32, m: u32) -> &Row {
        &self.rows[m as usize + k as usize * self.mt as usize]
    }

    fn row_mut(&mut self, k: u32, m: u32) -> &mut Row {
        &mut self.rows[m as usize + k as usize * self.mt as usize]
    }

    /// Rows of tiles.
    pub fn mt(&self) -> u32 {
        self.mt
    }

    /// Panels: columns of tiles in which rows vanish.
    pub fn panels(&self) -> u32 {
        self.panels
    }

    /// The row under which row `m` vanishes in panel `k`; `None` for row k, which stays.
    pub fn pivot(&self, k: u32, m: u32) -> Option<u32> {
        self.row(k, m).pivot.checked_sub(1)
    }

    /// The row that vanishes under `pivot` after row `m`, or first of all.
    pub fn next(&self, k: u32, pivot: u32, m: Option<u32>) -> Option<u32> {
        let next = match m {
            Some(m) => self.row(k, m).siblings[1],
            None => self.row(k, pivot).victims[0],
        };
        next.checked_sub(1)
    }

    /// The row that vanishes under `pivot` before row `m`, or last of all.
    pub fn previous(&self, k: u32, pivot: u32, m: Option<u32>) -> Option<u32> {
        let previous = match m {
            Some(m) => self.row(k, m).siblings[0],
            None => self.row(k, pivot).victims[1],
        };
        previous.checked_sub(1)
    }

    /// Whether row `m` is made a triangle in panel `k`.
    pub fn is_triangle(&self, k: u32, m: u32) -> bool {
        !self.row(k, m).is_square
    }

    /// What row `m` is when it vanishes.
    pub(super) fn below(&self, k: u32, m: u32) -> Below {
        match self.is_triangle(k, m) {
            true => Below::Triangle,
            false => Below::Square,
        }
    }

    /// The first step of a row in panel `k`.
    fn first(&self, row: u32, k: u32) -> Option<RowStep> {
        if k >= self.panels || row < k {
            return None;
        }
        Some(match self.is_triangle(k, row) {
            true => RowStep::Reflect { k },
            false => RowStep::Eliminate { m: row, k },
        })
    }

    /// The last step of a row of all.
    fn last(&self, row: u32) -> Option<RowStep> {
        let k = row.min(self.panels.checked_sub(1)?);
        Some(match self.pivot(k, row) {
            Some(_) => RowStep::Eliminate { m: row, k },
            None => RowStep::Stay { k },
        })
    }

    /// What a triangle does last before it vanishes, or stays.
    fn last_as_pivot(&self, row: u32, k: u32) -> RowStep {
        match self.previous(k, row, None) {
            Some(m) => RowStep::Eliminate { m, k },
            None => RowStep::Reflect { k },
        }
    }

    /// The step of a row after another, or its first.
    pub(super) fn step_after(&self, row: u32, step: Option<RowStep>) -> Option<RowStep> {
        let (k, victim) = match step {
            None => return self.first(row, 0),
            Some(RowStep::Stay { .. }) => return None,
            Some(RowStep::Eliminate { m, k }) if m == row => return self.first(row, k + 1),
            Some(RowStep::Eliminate { m, k }) => (k, Some(m)),
            Some(RowStep::Reflect { k }) => (k, None),
        };
        let m = self.next(k, row, victim);
        let own = self.pivot(k, row).map(|_| row);
        Some(
            m.or(own)
                .map_or(RowStep::Stay { k }, |m| RowStep::Eliminate { m, k }),
        )
    }

    /// The step of a row before another, or its last.
    pub(super) fn step_before(&self, row: u32, step: Option<RowStep>) -> Option<RowStep> {
        match step {
            None => self.last(row),
            Some(RowStep::Stay { k }) => Some(self.last_as_pivot(row, k)),
            Some(RowStep::Eliminate { m, k }) if m != row => {
                let m = self.previous(k, row, Some(m));
                Some(m.map_or(RowStep::Reflect { k }, |m| RowStep::Eliminate { m, k }))
            }
            Some(RowStep::Eliminate { k, .. }) if self.is_triangle(k, row) => {
                Some(self.last_as_pivot(row, k))
            }
            Some(RowStep::Eliminate { k, .. } | RowStep::Reflect { k }) => {
                let k = k.checked_sub(1)?;
                Some(RowStep::Eliminate { m: row, k })
            }
        }
    }
}

fn panels_of(panels: u32, mt: u32) -> String {
    format!("{} of {}", counted(panels, "panel"), counted(mt, "row"))
}
