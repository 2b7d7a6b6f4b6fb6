//! Words: counts as people read them, in errors and reports.

use std::fmt::Display;

/// One thing, several things.
///
/// # Examples
/// ```
/// use dataflow_core::words::counted;
/// assert_eq!([0, 1, 2].map(|n| counted(n, "task")), ["0 tasks", "1 task", "2 tasks"]);
/// ```
pub fn counted(count: impl Display + PartialEq + From<u8>, one: &str) -> String {
    let plural = if count == 1.into() { "" } else { "s" };
    format!("{count} {one}{plural}")
}

/// The same as all that there is.
///
/// # Examples
/// ```
/// use dataflow_core::words::there_are;
/// assert_eq!([1, 2].map(|n| there_are(n, "rank")), ["there is 1 rank", "there are 2 ranks"]);
/// ```
pub fn there_are(count: impl Display + PartialEq + From<u8>, one: &str) -> String {
    let are = if count == 1.into() { "is" } else { "are" };
    format!("there {are} {}", counted(count, one))
}
