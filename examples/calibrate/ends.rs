//! Ends: what a message takes of a processor where it is sent, and where it is received.

use common::cli::costs::Overhead;

/// Nanoseconds at each end of a message: half of what a flight through the runtime takes more than a bare
/// one, but for what the engine takes for the task that strikes the ball and for its one edge, which a
/// simulated task takes by itself.
pub fn end(ours: f64, raw: f64, engine: Overhead) -> f64 {
    let task = engine.task_nanoseconds + engine.edge_nanoseconds;
    ((ours - raw - task) / 2.0).max(0.0)
}
