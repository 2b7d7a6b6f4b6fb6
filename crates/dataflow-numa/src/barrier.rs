//! Two barriers that order like a pair of fences, where one side pays for both.
//!
//! The sleep protocol needs a store and a read of a pusher and of a sleeper not to pass each
//! other, crosswise. With two fences each push would pay one, and that doubles the time of
//! empty tasks on two workers. Linux can run a fence in all threads of a process at the
//! request of one (`membarrier(2)`); so sleepers, who are few and have time, ask for it, and pushers
//! only keep the compiler from reordering.
//!
//! # Law
//! Of a [`light`](Barrier::light) and a [`heavy`](Barrier::heavy) barrier of the same `Barrier`
//! one comes first, as of two sequentially consistent fences. Where the system has no such call
//! (and in loom's models) both *are* sequentially consistent fences.

use crate::sync::{Ordering, fence};

/// How this process orders pushers and sleepers.
#[derive(Debug)]
pub(crate) struct Barrier {
    /// Whether the kernel runs the pushers' fences.
    asymmetric: bool,
}

impl Barrier {
    /// Asks the kernel once whether it does.
    pub fn new() -> Self {
        Barrier {
            asymmetric: kernel::register(),
        }
    }

    /// Whether light barriers cost nothing here.
    pub fn is_asymmetric(&self) -> bool {
        self.asymmetric
    }

    /// For those who are many and in a hurry.
    #[inline(always)]
    pub fn light(&self) {
        if self.asymmetric {
            kernel::keep_order();
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// For those who are few and have time: some microseconds.
    pub fn heavy(&self) {
        // If the call fails in spite of registration, nothing replaces it: better to stop.
        if self.asymmetric && !kernel::fence_everywhere() {
            std::process::abort();
        }
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod kernel {
    use std::sync::atomic::{Ordering, compiler_fence};

    /// The process will use private expedited barriers; false if the kernel has none.
    pub fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    /// A full fence in every running thread of this process.
    pub fn fence_everywhere() -> bool {
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    #[inline(always)]
    pub fn keep_order() {
        compiler_fence(Ordering::SeqCst);
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: - the call takes numbers only and touches no memory of ours
        //         - an unknown command is answered with an error
        let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        answer == 0
    }
}

#[cfg(not(all(target_os = "linux", not(loom), not(miri))))]
mod kernel {
    pub fn register() -> bool {
        false
    }

    pub fn fence_everywhere() -> bool {
        false
    }

    pub fn keep_order() {}
}
