//! Temporary.
