//! Communication is hidden behind work: the bench's table, which virtual time makes the same on
//! every machine.

#[path = "../benches/overlap/compare.rs"]
mod compare;
#[path = "../benches/overlap/spaces.rs"]
#[allow(dead_code, reason = "the bench prints how many ranks there are")]
mod spaces;
#[path = "../benches/overlap/world.rs"]
mod world;

use compare::table;
use dataflow::prelude::*;
use spaces::{Cholesky, N_RANKS, Stencil};

#[test]
fn both_ends_of_every_edge_agree() {
    for nt in 0..8 {
        verify(&Cholesky::new(nt, Rank(0)).unwrap(), N_RANKS).unwrap();
    }
    for steps in 0..4 {
        verify(&Stencil { steps }, N_RANKS).unwrap();
    }
}

#[test]
fn nine_tenths_of_the_time_that_communication_takes_are_hidden() {
    for row in table(40, 1000).unwrap() {
        assert!(row.ideal < row.blocking, "{}", row.json());
        assert!(row.hidden() >= 0.9, "{}", row.json());
    }
}
