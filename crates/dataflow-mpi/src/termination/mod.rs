//! Termination: when a run is over.
//!
//! Every run knows how many tasks a rank has; a rank that has run them all closes, and one [closing] sum over
//! the tree of ranks ends the run on all. No rank can know alone that nothing will happen any more; [waves] of
//! counting find that. It means a stall (and would end a run whose number of tasks is not known).

pub mod closing;
pub mod waves;
