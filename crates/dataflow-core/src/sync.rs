//! One door for everything atomic: `std`, or `loom` when its models are run (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// A lock for a handful of instructions: one exchange to take it, one store to give it back.
#[cfg(not(loom))]
pub(crate) type SpinLock<T> = spin::mutex::SpinMutex<T, spin::relax::Yield>;

/// What holds a [`SpinLock`].
#[cfg(not(loom))]
pub(crate) type SpinGuard<'l, T> = spin::mutex::SpinMutexGuard<'l, T, spin::relax::Yield>;

#[cfg(loom)]
pub(crate) use modelled::{SpinGuard, SpinLock};

/// A lock that the models see.
#[cfg(loom)]
mod modelled {
    pub(crate) type SpinGuard<'l, T> = loom::sync::MutexGuard<'l, T>;

    pub(crate) struct SpinLock<T>(loom::sync::Mutex<T>);

    impl<T> SpinLock<T> {
        pub fn new(value: T) -> Self {
            SpinLock(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> SpinGuard<'_, T> {
            self.0
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}
