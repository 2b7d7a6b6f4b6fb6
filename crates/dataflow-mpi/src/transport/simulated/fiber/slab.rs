//! Slabs: stacks that share one mapping of memory, each above pages of its own that nothing may touch.
//!
//! Linux allows a process 65,530 mappings, and a protected page divides one. Since Linux 6.13 pages can be
//! marked within a mapping instead: a thread that touches one is stopped all the same.

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use nix::libc::{c_int, c_void, madvise};
use std::io;
use std::sync::Arc;

/// Bytes below each stack that nothing may touch: a multiple of all sizes that pages have.
const GUARD: usize = 64 << 10;

/// Marks pages (`include/uapi/asm-generic/mman-common.h` of Linux 6.13).
const MADV_GUARD_INSTALL: c_int = 102;

/// One of the stacks of a slab.
pub struct SlabStack {
    base: StackPointer,
    limit: StackPointer,
    /// Given back when none of its parts is left.
    _slab: Arc<DefaultStack>,
}

/// A stack of so many bytes with a mapping of its own.
pub fn one(bytes: usize) -> io::Result<SlabStack> {
    let slab = Arc::new(DefaultStack::new(bytes)?);
    Ok(SlabStack {
        base: slab.base(),
        limit: slab.limit(),
        _slab: slab,
    })
}

/// So many stacks of so many bytes in one mapping.
///
/// # Errors
/// If there is no memory for them, or the system cannot mark pages.
pub fn many(bytes: usize, n: usize) -> io::Result<Vec<SlabStack>> {
    let each = bytes.max(1).next_multiple_of(GUARD) + GUARD;
    let slab = Arc::new(DefaultStack::new(n * each)?);
    let mut base = slab.base();
    let mut parts = Vec::with_capacity(n);
    for _ in 0..n {
        let Some(limit) = StackPointer::new(base.get() - each) else {
            unreachable!("no memory lies at address 0");
        };
        guard(limit)?;
        parts.push(SlabStack {
            base,
            limit,
            _slab: slab.clone(),
        });
        base = limit;
    }
    Ok(parts)
}

/// Nothing may touch the lowest pages of a part that nobody uses yet.
fn guard(limit: StackPointer) -> io::Result<()> {
    let lowest = limit.get() as *mut c_void;
    // SAFETY: - the pages lie in a mapping of ours, and begin where one begins: parts are a multiple of
    //           their size long, and the mapping's end is the end of a page
    //         - nobody has a reference to anything there: the slab was just made
    match unsafe { madvise(lowest, GUARD, MADV_GUARD_INSTALL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

// SAFETY: - from `limit` to `base` lies memory that is this part's alone, and that the slab keeps
//         - who touches the lowest pages of it is stopped: of a part by the marks, of a stack alone by the
//           page that `DefaultStack` protects
//         - both ends are ends of pages, and at least a page above the guard is left
unsafe impl Stack for SlabStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}
