//! Termination: when a run is over.
//!
//! A symbolic space knows how many tasks a rank has; the rank that has run them all closes, and one
//! [closing] sum over the tree ends the run on all. What no rank can know alone, that nothing will
//! happen any more, is found by [waves] of counting: the end of a dynamic run, or a stall.

pub mod closing;
pub mod waves;
