//! The protocol between ranks in simulated worlds: seconds and faults of any sort in no time, the same
//! in each run.

#[path = "../../examples/crowd/world.rs"]
mod crowded;
#[path = "../engine/mod.rs"]
mod engine;

mod crowd;
mod faults;
mod limits;
mod opening;
mod plants;
mod real_engine;
mod simulated;
mod slow;
mod virtual_workers;
