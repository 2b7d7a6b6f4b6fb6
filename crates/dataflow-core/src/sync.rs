//! One door for everything atomic: `std`, or `loom` when its models are run (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// A lock for a handful of instructions: one exchange to take it, one store to give it back.
pub(crate) type SpinLock<T> = spin::mutex::SpinMutex<T, spin::relax::Yield>;

/// What holds a [`SpinLock`].
pub(crate) type SpinGuard<'l, T> = spin::mutex::SpinMutexGuard<'l, T, spin::relax::Yield>;
