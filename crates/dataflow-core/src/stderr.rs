//! Standard error: lines for whoever looks at it.
//!
//! # Law
//! Nothing depends on what is said here: if nobody takes it, nothing fails.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Writes a line to standard error, at once. If that is full, or a pipe that nobody reads, the line is lost:
/// `eprintln!` would panic, and a run that has ended well would fail.
///
/// # Examples
/// ```
/// dataflow_core::stderr::say("warning: more workers than cores");
/// ```
pub fn say(line: impl Display) {
    let line = format!("{line}\n");
    let _unread = stderr().write_all(line.as_bytes());
}
