//! One door for everything atomic, and for locks that models see: `std`, or `loom` when its models are run (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// Locks also what a panicking thread has left behind.
pub(crate) fn held<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A lock for a handful of instructions: one exchange to take it, one store to give it back.
#[cfg(not(loom))]
pub(crate) type SpinLock<T> = spin::mutex::SpinMutex<T, spin::relax::Yield>;

/// Looks at a lock before its holder is believed to be off its core.
#[cfg(not(loom))]
const LOOKS: u32 = 200;

/// Takes a lock whose holder needs a moment: looks on for less than a microsecond, then gives
/// the core away between looks.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn lock<T>(lock: &SpinLock<T>) -> SpinGuard<'_, T> {
    match lock.try_lock() {
        Some(guard) => guard,
        None => wait_for(lock),
    }
}

#[cfg(not(loom))]
#[cold]
fn wait_for<T>(lock: &SpinLock<T>) -> SpinGuard<'_, T> {
    for _ in 0..LOOKS {
        std::hint::spin_loop();
        if !lock.is_locked()
            && let Some(guard) = lock.try_lock()
        {
            return guard;
        }
    }
    lock.lock()
}

/// What holds a [`SpinLock`].
#[cfg(not(loom))]
pub(crate) type SpinGuard<'l, T> = spin::mutex::SpinMutexGuard<'l, T, spin::relax::Yield>;

#[cfg(loom)]
pub(crate) use modelled::{SpinGuard, SpinLock, lock};

/// A lock that the models see.
#[cfg(loom)]
mod modelled {
    pub(crate) type SpinGuard<'l, T> = loom::sync::MutexGuard<'l, T>;

    pub(crate) struct SpinLock<T>(loom::sync::Mutex<T>);

    impl<T> SpinLock<T> {
        pub fn new(value: T) -> Self {
            SpinLock(loom::sync::Mutex::new(value))
        }
    }

    pub(crate) fn lock<T>(lock: &SpinLock<T>) -> SpinGuard<'_, T> {
        lock.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
