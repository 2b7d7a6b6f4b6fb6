//! Pin: which processors this thread may run on, asked of and told to the kernel.
//!
//! Processors (PUs, hardware threads) go by the operating system's numbers. Masks are as long as
//! the kernel's, so machines with more than 1024 PUs are no exception. Only Linux can do this;
//! elsewhere [`allowed_pus`] counts from 0 and [`pin_current_thread`] says why it did nothing.

use crate::Answer;
use std::cell::RefCell;
use std::fmt;

/// Why a thread was not pinned.
///
/// # Examples
/// ```
/// use dataflow_numa::pin::{PinError, pin_current_thread};
///
/// assert_eq!(pin_current_thread(&[]), Err(PinError::NoProcessor));
/// let refused = pin_current_thread(&[1 << 30]).unwrap_err();
/// assert_eq!(refused, PinError::NoSuchProcessor { pu: 1 << 30 });
/// assert!(refused.to_string().contains("processor 1073741824: no kernel knows so many"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinError {
    /// The list of processors was empty.
    NoProcessor,
    /// The operating system offers no way to pin a thread.
    Unsupported,
    /// A processor's number is beyond what any kernel knows.
    NoSuchProcessor {
        /// The number.
        pu: usize,
    },
    /// The kernel refused.
    Refused {
        /// The processors asked for.
        pus: Vec<usize>,
        /// What the kernel answered.
        reason: Answer,
    },
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PinError::NoProcessor => {
                f.write_str("a thread cannot be pinned to no processor at all")
            }
            PinError::NoSuchProcessor { pu } => write!(
                f,
                "a thread cannot be pinned to processor {pu}: no kernel knows so many (below {})",
                MOST_PUS
            ),
            PinError::Unsupported => {
                write!(f, "threads cannot be pinned on {}", std::env::consts::OS)
            }
            PinError::Refused { pus, reason } => {
                write!(
                    f,
                    "the kernel refused to pin a thread to processors {pus:?}: {reason}"
                )
            }
        }
    }
}

impl std::error::Error for PinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PinError::Refused { reason, .. } => reason.as_source(),
            _ => None,
        }
    }
}

/// Numbers of processors end here: a mask of so many bits takes 512 KiB.
pub(crate) const MOST_PUS: usize = 1 << 22;

/// The processors that the calling thread may use, ascending: its affinity mask, which the kernel
/// has already cut down to the cgroup's cpuset.
///
/// A thread inherits the mask of the one that started it. So ask before anything is pinned.
///
/// Where there is no such mask, `0..std::thread::available_parallelism()`.
///
/// ```
/// let pus = dataflow_numa::pin::allowed_pus();
/// assert!(!pus.is_empty());
/// ```
pub fn allowed_pus() -> Vec<usize> {
    kernel::affinity().unwrap_or_else(|| {
        let n = std::thread::available_parallelism().map_or(1, |n| n.get());
        (0..n).collect()
    })
}

thread_local! {
    /// Of a worker's thread: what the thread that made its pool [might use](usable_pus).
    static OF_POOL: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

/// As [`allowed_pus`], but for a thread that this library has pinned: on a worker's it is what the thread
/// that made its pool might use. So what a body makes is not confined to the core of its worker.
pub(crate) fn usable_pus() -> Vec<usize> {
    OF_POOL
        .with_borrow(Clone::clone)
        .unwrap_or_else(allowed_pus)
}

/// The calling thread becomes a worker's: it runs on its own processors only, or on all that are `usable` to
/// the thread that made the pool if it has none of its own.
///
/// # Errors
/// As [`pin_current_thread`].
pub(crate) fn become_worker(own: &[usize], usable: Vec<usize>) -> Result<(), PinError> {
    // Without any of its own it has inherited them all, unless it was started in a body.
    let pinned = match own {
        [] if usable == allowed_pus() => Ok(()),
        [] => pin_current_thread(&usable),
        own => pin_current_thread(own),
    };
    OF_POOL.set(Some(usable));
    pinned
}

/// Lets the calling thread run on these processors only. About 0.3 µs.
///
/// # Errors
/// If the list is empty, if a number is beyond 2²², if none of them is allowed here, or if the
/// system cannot pin.
///
/// ```
/// use dataflow_numa::pin::{allowed_pus, pin_current_thread};
///
/// std::thread::spawn(|| {
///     let first = allowed_pus()[0];
///     if pin_current_thread(&[first]).is_ok() {
///         assert_eq!(allowed_pus(), [first]);
///     }
/// })
/// .join()
/// .unwrap();
/// ```
pub fn pin_current_thread(pus: &[usize]) -> Result<(), PinError> {
    if pus.is_empty() {
        return Err(PinError::NoProcessor);
    }
    if let Some(&pu) = pus.iter().find(|&&pu| pu >= MOST_PUS) {
        return Err(PinError::NoSuchProcessor { pu });
    }
    kernel::set_affinity(pus)?;
    // Whoever pins a worker's thread anew means that thread.
    OF_POOL.set(None);
    Ok(())
}

/// The processor on which the calling thread runs at this moment; `None` if the system does not
/// say. Below 0.01 µs.
pub fn current_pu() -> Option<usize> {
    kernel::current_pu()
}

#[cfg(target_os = "linux")]
mod kernel {
    use super::PinError;
    use std::io;

    const BITS: usize = libc::c_ulong::BITS as usize;
    /// The calling thread, to the kernel.
    const SELF: libc::pid_t = 0;

    pub fn current_pu() -> Option<usize> {
        // SAFETY: asks for a number
        let pu = unsafe { libc::sched_getcpu() };
        usize::try_from(pu).ok()
    }

    /// `None` if the kernel does not say.
    pub fn affinity() -> Option<Vec<usize>> {
        // The kernel answers EINVAL to a mask shorter than its own, whose length it does not tell.
        let mut words = 16;
        while words <= 1 << 16 {
            let mut mask: Vec<libc::c_ulong> = vec![0; words];
            // SAFETY: - the kernel writes at most `size_of_val` bytes from the pointer on
            //         - they belong to `mask`, which nobody else sees
            //         - every bit pattern is a c_ulong
            let answer = unsafe {
                libc::sched_getaffinity(SELF, size_of_val(&mask[..]), mask.as_mut_ptr().cast())
            };
            if answer == 0 {
                return Some(numbers(&mask));
            }
            if io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
                return None;
            }
            words *= 2;
        }
        None
    }

    pub fn set_affinity(pus: &[usize]) -> Result<(), PinError> {
        let words = pus.iter().max().map_or(0, |last| last / BITS + 1);
        let mut mask: Vec<libc::c_ulong> = vec![0; words];
        for pu in pus {
            mask[pu / BITS] |= 1 << (pu % BITS);
        }
        // SAFETY: the kernel reads `size_of_val` bytes from the pointer on, all inside `mask`
        let answer =
            unsafe { libc::sched_setaffinity(SELF, size_of_val(&mask[..]), mask.as_ptr().cast()) };
        if answer == 0 {
            return Ok(());
        }
        let reason = io::Error::last_os_error().into();
        Err(PinError::Refused {
            pus: pus.to_vec(),
            reason,
        })
    }

    fn numbers(mask: &[libc::c_ulong]) -> Vec<usize> {
        let is_set = |pu: &usize| mask[pu / BITS] >> (pu % BITS) & 1 == 1;
        (0..mask.len() * BITS).filter(is_set).collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::PinError;

    pub fn current_pu() -> Option<usize> {
        None
    }

    pub fn affinity() -> Option<Vec<usize>> {
        None
    }

    pub fn set_affinity(_pus: &[usize]) -> Result<(), PinError> {
        Err(PinError::Unsupported)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The kernel's other answer to the same question.
    fn allowed_by_status_file() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list:"))
            .unwrap();
        line["Cpus_allowed_list:".len()..].trim().to_owned()
    }

    #[test]
    fn a_pinned_thread_is_where_it_was_pinned() {
        for pu in allowed_pus() {
            let seen = std::thread::spawn(move || {
                pin_current_thread(&[pu]).unwrap();
                (allowed_pus(), allowed_by_status_file(), current_pu())
            });
            assert_eq!(seen.join().unwrap(), (vec![pu], pu.to_string(), Some(pu)));
        }
    }

    #[test]
    fn pinning_to_all_allowed_processors_changes_nothing() {
        let seen = std::thread::spawn(|| {
            let before = allowed_pus();
            pin_current_thread(&before).unwrap();
            (before, allowed_pus())
        });
        let (before, after) = seen.join().unwrap();
        assert_eq!(before, after);
    }

    #[test]
    fn a_processor_that_does_not_exist_is_refused_with_its_number() {
        let error = pin_current_thread(&[100_000]).unwrap_err();
        assert!(error.to_string().contains("100000"), "{error}");
        assert_eq!(pin_current_thread(&[]), Err(PinError::NoProcessor));
        // A mask of so many bits was the capacity of no vector: a panic, or out of memory.
        for pu in [MOST_PUS, usize::MAX / 2, usize::MAX] {
            let refused = pin_current_thread(&[0, pu]).unwrap_err();
            assert_eq!(refused, PinError::NoSuchProcessor { pu });
            assert!(refused.to_string().contains(&pu.to_string()));
        }
    }
}
