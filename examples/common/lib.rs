//! What the examples share, compiled once for all of them.
//!
//! | module | what |
//! |---|---|
//! | [`cli`] | flags, exit statuses, JSON, progress |
//! | [`problem`] | where a matrix comes from, what is said of a result |
//! | [`variant`] | a graph with barriers, or without messages: what communication costs |
//! | [`shapes`] | graphs with empty bodies: what the runtime costs |

#![allow(missing_debug_implementations, reason = "nobody prints them")]
#![allow(
    missing_docs,
    reason = "a name is enough here, and what documents a flag is its help"
)]

pub mod cli;
pub mod problem;
pub mod shapes;
pub mod variant;
