//! The core's engine over ranks, and its traces.

#[path = "../engine/mod.rs"]
mod engine;

mod runs;
mod traced;
