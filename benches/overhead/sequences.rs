//! Sequences with empty bodies: a task writes one datum of 64 and reads the `READS` behind it.

use super::Outcome;
use dataflow::Runtime;
use dataflow::core::rank::Rank;
use dataflow::prelude::Store;
use dataflow::sequence::record::{self, Recorded};
use dataflow::sequence::{read, write};

/// How many data there are.
const DATA: usize = 64;

/// Inserts and runs so many tasks.
pub fn insert<const READS: usize>(on: &Runtime, count: u64) -> Outcome {
    on.scope(|s| {
        let data = s.handles([0u64; DATA]);
        for task in 0..count as usize {
            let at = |behind: usize| &data[(task + behind) % DATA];
            // Sets of accesses are of fixed size: tuples.
            match READS {
                0 => s.task(write(at(0)), |_| ()),
                2 => s.task((write(at(0)), read(at(1)), read(at(2))), |_| ()),
                _ => {
                    let near = (read(at(1)), read(at(2)), read(at(3)));
                    let far = (read(at(4)), read(at(5)), read(at(6)), read(at(7)));
                    s.task((write(at(0)), near, far), |_| ());
                }
            }
        }
    })?;
    Ok(())
}

/// The data of a recorded program.
pub fn store() -> Store<u64> {
    Store::new("data", [0; DATA])
}

/// The same, recorded: two reads.
pub fn record(store: &Store<u64>, count: u64) -> Outcome<Recorded<'_, u64>> {
    Ok(record::record("bench", 1, |r| {
        let data: Vec<_> = (0..DATA).map(|at| r.home(store, at, Rank(0))).collect();
        for task in 0..count as usize {
            let at = |behind: usize| &data[(task + behind) % DATA];
            r.task((write(at(0)), read(at(1)), read(at(2))), |_| ());
        }
    })?)
}
