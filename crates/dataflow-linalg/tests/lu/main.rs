//! LU: the same bits on every grid of ranks.

mod across;

#[path = "../../../dataflow-core/tests/specimen/ranks.rs"]
#[allow(dead_code, reason = "the core's tests use all of it")]
mod ranks;
