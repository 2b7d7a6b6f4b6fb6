//! Spans: urgency under which a tile is updated several times in a row, while it lies in a cache.
//!
//! # Law
//! Most urgent are the tasks of panels, by column. An update belongs to the span of its step, so many
//! steps long: spans go by the longest way to the end as if each were one step, in a span columns come
//! before those on their right and tiles before those below. So a worker that began a tile applies all steps of
//! the span to it, as far as their panels are there. Only the order of ready tasks changes.
//!
//! # Elsewhere
//! How far panels may run ahead of all that: [`lookahead`](crate::lookahead). What it brings: DESIGN.md,
//! *A tile is updated several times in a row*.
//!
//! # Source
//! Between the right-looking order (spans of one step) and the left-looking one (one span): Dongarra, Duff,
//! Sorensen, van der Vorst, *Numerical Linear Algebra for High-Performance Computers* (1998).

/// Spans of the steps of one factorisation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    columns: i64,
    rows: i64,
    length: u32,
}

/// Steps of the shortest span: then a tile comes from memory for a quarter of its updates.
const SHORTEST: u32 = 4;

/// Steps of the longest span: with longer ones ranks hold more of each other's tiles.
const LONGEST: u32 = 8;

/// Spans of a factorisation, if that is not too many: with fewer, the last columns are left to few workers.
const FEWEST: u32 = 4;

impl Spans {
    /// Of a matrix of so many tiles a column and a row, with a step for each column.
    pub fn new(rows: u32, columns: u32) -> Self {
        Spans {
            columns: columns.into(),
            rows: rows.into(),
            length: (columns / FEWEST).clamp(SHORTEST, LONGEST),
        }
    }

    /// The first step of a step's span.
    pub fn first(self, step: u32) -> u32 {
        step / self.length * self.length
    }

    /// How urgent the task of a panel is that ends tile (m, n); more than 0.
    pub fn panel(self, (m, n): (u32, u32)) -> i64 {
        let columns = self.columns - i64::from(n);
        columns.saturating_mul(self.rows) - i64::from(m)
    }

    /// How urgent the update of tile (m, n) by a step before n is; less than 0.
    ///
    /// A step down the diagonal is 9 units of the longest way and an update 6: so a way is as long for each
    /// tile of the same n + 2·step.
    pub fn update(self, (m, n): (u32, u32), step: u32) -> i64 {
        let way = i64::from(n) + 2 * i64::from(self.first(step));
        -way.saturating_mul(self.rows).saturating_add(m.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All updates of a matrix of so many tiles a side, as (row, column, step) of the lower triangle.
    fn updates(nt: u32) -> impl Iterator<Item = (u32, u32, u32)> {
        let columns = (0..nt).flat_map(|n| (0..n).map(move |step| (n, step)));
        columns.flat_map(move |(n, step)| (n..nt).map(move |m| (m, n, step)))
    }

    #[test]
    fn steps_of_a_span_are_equally_urgent_and_a_tile_that_was_begun_comes_before_those_below() {
        for nt in [1, 4, 5, 13, 40] {
            let spans = Spans::new(nt, nt);
            for (m, n, step) in updates(nt) {
                let urgency = spans.update((m, n), step);
                assert_eq!(urgency, spans.update((m, n), spans.first(step)));
                assert!(m + 1 == nt || urgency > spans.update((m + 1, n), step));
            }
        }
    }

    #[test]
    fn a_span_has_a_quarter_of_all_steps_but_four_to_eight() {
        for (columns, length) in [(1, 4), (4, 4), (19, 4), (20, 5), (41, 8), (1000, 8)] {
            let spans = Spans::new(columns, columns);
            let firsts: Vec<u32> = (0..columns).map(|step| spans.first(step)).collect();
            let expected = (0..columns).map(|step| step / length * length);
            assert_eq!(firsts, expected.collect::<Vec<_>>(), "{columns} columns");
        }
    }

    #[test]
    fn ways_of_one_length_are_equally_urgent_but_for_the_row() {
        let spans = Spans::new(16, 16);
        let way = |n: u32, step: u32| 6 * (n - step) + 9 * (15 - n);
        for n in 13..16 {
            assert_eq!(way(n, 0), way(n - 8, 4));
            assert_eq!(spans.update((15, n), 0), spans.update((15, n - 8), 4));
        }
    }

    #[test]
    fn panels_come_before_all_updates_and_earlier_columns_first() {
        for nt in [1, 2, 7, 40] {
            let spans = Spans::new(nt, nt);
            let tiles = || (0..nt).flat_map(|n| (n..nt).map(move |m| (m, n)));
            let urgencies: Vec<i64> = tiles().map(|tile| spans.panel(tile)).collect();
            assert!(urgencies.windows(2).all(|pair| pair[0] > pair[1]));
            assert!(urgencies.iter().all(|&urgency| urgency > 0));
            assert!(updates(nt).all(|(m, n, step)| spans.update((m, n), step) < 0));
        }
    }

    #[test]
    fn no_number_of_tiles_overflows() {
        let most = u32::MAX;
        let spans = Spans::new(most, most);
        assert!(spans.panel((most - 1, most - 1)) > 0);
        assert!(spans.panel((0, 0)) > 0);
        assert!(spans.update((most - 1, most - 1), most - 2) < 0);
    }
}
