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
use dataflow_core::stderr;
use std::{io, thread};

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
        if self.asymmetric {
            until_memory(kernel::fence_everywhere).unwrap_or_else(|error| {
                // If the call fails in spite of registration, nothing replaces it: better to stop.
                stderr::say(format_args!(
                    "membarrier failed, which orders workers as they fall asleep: {error}"
                ));
                std::process::abort();
            });
        }
        fence(Ordering::SeqCst);
    }
}

/// Calls again while the kernel has no memory for the list of cores: that passes.
fn until_memory(call: impl Fn() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => thread::yield_now(),
            answer => return answer,
        }
    }
}

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod kernel {
    use std::io;
    use std::sync::atomic::{Ordering, compiler_fence};

    /// The process will use private expedited barriers; false if the kernel has none.
    pub fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).is_ok()
    }

    /// A full fence in every running thread of this process.
    pub fn fence_everywhere() -> io::Result<()> {
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    #[inline(always)]
    pub fn keep_order() {
        compiler_fence(Ordering::SeqCst);
    }

    fn membarrier(command: libc::c_int) -> io::Result<()> {
        // SAFETY: - the call takes numbers only and touches no memory of ours
        //         - an unknown command is answered with an error
        let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        match answer {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(not(all(target_os = "linux", not(loom), not(miri))))]
mod kernel {
    pub fn register() -> bool {
        false
    }

    pub fn fence_everywhere() -> std::io::Result<()> {
        Ok(())
    }

    pub fn keep_order() {}
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Linux allocates for the call, and says so where it cannot: the process ended, and nobody knew why.
    #[test]
    fn a_barrier_is_asked_for_again_while_memory_is_short_and_any_other_answer_counts() {
        let calls = Cell::new(0);
        let short = |code| {
            calls.set(calls.get() + 1);
            match calls.get() {
                3 => Ok(()),
                _ => Err(io::Error::from_raw_os_error(code)),
            }
        };
        until_memory(|| short(libc::ENOMEM)).unwrap();
        assert_eq!(calls.take(), 3);
        let error = until_memory(|| short(libc::EPERM)).unwrap_err();
        assert_eq!((calls.get(), error.raw_os_error()), (1, Some(libc::EPERM)));
    }
}
