//! Temporary.
pub mod data;
pub mod error;
pub mod port;
pub mod rank;
