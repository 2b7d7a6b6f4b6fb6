//! Lookahead: urgency under which panels run only a few columns ahead of the other updates.
//!
//! # Law
//! Most urgent are the tasks of panels, by step; then the updates of the next columns behind their panel, by
//! column; then all others, by step. Only the order of ready tasks changes: edges, results and what travels
//! are those without it.
//!
//! # Elsewhere
//! Without it panels run as far ahead as they can, which holds the most data of other ranks: `priority` of
//! each space, by [`spans`](crate::spans) or by the longest way to the end. How much is held:
//! [`needs`](crate::needs).
//!
//! # Source
//! Strazdins, *A comparison of lookahead and algorithmic blocking techniques for parallel matrix
//! factorization*, Australian National University, TR-CS-98-07 (1998).

/// So many columns are urgent behind a panel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookahead {
    pub columns: u32,
}

impl Lookahead {
    /// How urgent a task of a step is that changes a column of tiles, of `nt`; at least 1. The task is
    /// one of the panel if it changes its step's own column.
    pub fn urgency(self, nt: u32, step: u32, column: u32) -> i64 {
        let nt = i64::from(nt);
        let left = |of: u32| nt - i64::from(of);
        match column.saturating_sub(step) {
            0 => 2 * nt + left(step),
            ahead if ahead <= self.columns => nt + left(column),
            _ => left(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_come_first_then_near_columns_by_column_then_far_ones_by_step() {
        let nt = 9;
        // What a task is, in the order that is wanted.
        let wanted = |columns: u32, step: u32, column: u32| match column - step {
            0 => (0, step),
            ahead if ahead <= columns => (1, column),
            _ => (2, step),
        };
        for columns in [0, 1, 3, 20] {
            let tasks = (0..nt).flat_map(|step| (step..nt).map(move |column| (step, column)));
            let tasks: Vec<_> = tasks.collect();
            let ahead = Lookahead { columns };
            for (one, other) in tasks
                .iter()
                .flat_map(|one| tasks.iter().map(move |o| (one, o)))
            {
                let of = |task: &(u32, u32)| ahead.urgency(nt, task.0, task.1);
                let wanted = |task: &(u32, u32)| wanted(columns, task.0, task.1);
                assert_eq!(
                    of(other).cmp(&of(one)),
                    wanted(one).cmp(&wanted(other)),
                    "{one:?} and {other:?}, {columns} columns"
                );
            }
            assert!(
                tasks
                    .iter()
                    .all(|task| ahead.urgency(nt, task.0, task.1) >= 1)
            );
        }
    }
}
