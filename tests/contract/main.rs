//! The contract of the examples, tried on the programs themselves: exit status, the JSON object,
//! the line that begins with `error:`.
//!
//! `DATAFLOW_DATA` names a folder that holds `matrices/`; without it the tests of the collection
//! check nothing, and say so.

#[path = "../built/mod.rs"]
mod built;
mod cholesky;
mod ended;
mod every;
mod faults;
mod files;
mod lu;
mod memory;
mod products;
mod qr;
mod sequences;
mod simulated;
mod solve;
mod traced;
