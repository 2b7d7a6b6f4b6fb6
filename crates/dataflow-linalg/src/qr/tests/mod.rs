//! Trees against published lists and critical paths; the spaces proved for every tree; solutions; and
//! what becomes of matrices without full rank, or nearly so.

pub(super) mod deficient;
mod edges;
#[cfg(feature = "openblas")]
mod gelsy;
mod solutions;
mod spaces;
mod trees;
