//! One door for what the sleep protocol needs of threads: `std`, or `loom` when its models are
//! run (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
