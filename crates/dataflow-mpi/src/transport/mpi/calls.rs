//! The calls of MPI that are made here, their results as values.
//!
//! # Law
//! MPI is called by one thread of this process at a time ([`serialized`]): more than
//! `MPI_THREAD_SERIALIZED` is not asked for. Errors come back as codes, on communicators of our own.

use mpi::ffi;
use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use mpi::ffi::{MPI_Comm, MPI_Request, MPI_Status};

/// MPI is one for the whole process, whatever uses it. A lock of `std`: those of models cannot be static.
static CALLS: Mutex<()> = Mutex::new(());

/// The right to call MPI, until it is dropped.
pub fn serialized() -> MutexGuard<'static, ()> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What MPI answered instead of success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpiError(c_int);

impl MpiError {
    /// Whether a message was longer than the room for it.
    pub fn is_truncation(self) -> bool {
        let mut class = 0;
        // SAFETY: MPI is initialised (the code came from it), `class` is ours.
        let answer = unsafe { ffi::MPI_Error_class(self.0, &mut class) };
        answer == SUCCESS && class == ffi::MPI_ERR_TRUNCATE as c_int
    }

    fn is_in_status(self) -> bool {
        let mut class = 0;
        // SAFETY: as above.
        let answer = unsafe { ffi::MPI_Error_class(self.0, &mut class) };
        answer == SUCCESS && class == ffi::MPI_ERR_IN_STATUS as c_int
    }
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // MPI's own bound is at most 1024 in the implementations there are; it is checked.
        let mut text = [0u8; 2048];
        let mut length = 0;
        const { assert!(ffi::MPI_MAX_ERROR_STRING <= 2048) };
        // SAFETY: the buffer is at least as long as the longest text.
        let answer =
            unsafe { ffi::MPI_Error_string(self.0, text.as_mut_ptr().cast(), &mut length) };
        if answer != SUCCESS {
            return write!(f, "MPI's error {}", self.0);
        }
        let text = &text[..(length.max(0) as usize).min(text.len())];
        f.write_str(&String::from_utf8_lossy(text))
    }
}

const SUCCESS: c_int = ffi::MPI_SUCCESS as c_int;

fn check(answer: c_int) -> Result<(), MpiError> {
    if answer == SUCCESS {
        Ok(())
    } else {
        Err(MpiError(answer))
    }
}

fn byte() -> ffi::MPI_Datatype {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_UINT8_T }
}

fn long() -> ffi::MPI_Datatype {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_INT64_T }
}

fn minimum() -> ffi::MPI_Op {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_MIN }
}

fn returns_errors() -> ffi::MPI_Errhandler {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_ERRORS_RETURN }
}

fn null_communicator() -> MPI_Comm {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_COMM_NULL }
}

/// A request that is none.
pub fn null_request() -> MPI_Request {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}

/// A source that is everybody.
pub fn anybody() -> c_int {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_ANY_SOURCE }
}

/// A communicator of our own: nobody else's messages are heard on it.
#[derive(Clone, Copy)]
pub struct Comm(MPI_Comm);

// SAFETY: a communicator is a handle; every call with it is serialized, which MPI allows from any
// thread at the level that is checked before one is made.
unsafe impl Send for Comm {}

impl Comm {
    /// A copy of a communicator; all its ranks must call this.
    pub fn copy(of: MPI_Comm) -> Result<Self, MpiError> {
        let mut copy = null_communicator();
        // SAFETY: MPI is initialised, `of` is a communicator by its maker's word.
        check(unsafe { ffi::MPI_Comm_dup(of, &mut copy) })?;
        // SAFETY: `copy` was made above.
        check(unsafe { ffi::MPI_Comm_set_errhandler(copy, returns_errors()) })?;
        Ok(Comm(copy))
    }

    /// Those ranks of a communicator that share memory with this one; all its ranks must call this.
    pub fn of_this_machine(of: MPI_Comm, key: c_int) -> Result<Self, MpiError> {
        let mut part = null_communicator();
        // SAFETY: a constant of the library.
        let shared = unsafe { ffi::RSMPI_COMM_TYPE_SHARED };
        // SAFETY: a constant of the library.
        let no_info = unsafe { ffi::RSMPI_INFO_NULL };
        // SAFETY: as in `copy`.
        check(unsafe { ffi::MPI_Comm_split_type(of, shared, key, no_info, &mut part) })?;
        Ok(Comm(part))
    }

    /// As MPI knows it.
    pub fn raw(self) -> MPI_Comm {
        self.0
    }

    /// This rank.
    pub fn rank(self) -> Result<usize, MpiError> {
        let mut rank = 0;
        // SAFETY: `self` is a communicator.
        check(unsafe { ffi::MPI_Comm_rank(self.0, &mut rank) })?;
        Ok(rank as usize)
    }

    /// How many ranks it has.
    pub fn size(self) -> Result<usize, MpiError> {
        let mut size = 0;
        // SAFETY: `self` is a communicator.
        check(unsafe { ffi::MPI_Comm_size(self.0, &mut size) })?;
        Ok(size as usize)
    }

    /// The largest tag.
    pub fn largest_tag(self) -> Result<u32, MpiError> {
        let mut bound: *const c_int = ptr::null();
        let mut is_set = 0;
        let bound_at: *mut *const c_int = &mut bound;
        // SAFETY: this attribute is a pointer to an int, written to `bound`.
        check(unsafe {
            ffi::MPI_Comm_get_attr(
                self.0,
                ffi::MPI_TAG_UB as c_int,
                bound_at.cast(),
                &mut is_set,
            )
        })?;
        if is_set == 0 || bound.is_null() {
            return Ok(32_767); // what every MPI has at least
        }
        // SAFETY: it is not null, and MPI keeps it as long as the communicator.
        Ok(unsafe { bound.read() }.max(1) as u32)
    }

    /// The smallest number that a rank brings; all ranks must call this.
    pub fn smallest(self, own: u64) -> Result<u64, MpiError> {
        let (own, mut all) = (own as i64, 0i64);
        let (send, receive): (*const i64, *mut i64) = (&own, &mut all);
        // SAFETY: one 64-bit integer is read, one is written, both ours for the whole call.
        check(unsafe {
            ffi::MPI_Allreduce(send.cast(), receive.cast(), 1, long(), minimum(), self.0)
        })?;
        Ok(all as u64)
    }

    /// Begins to wait for all ranks.
    pub fn barrier(self) -> Result<MPI_Request, MpiError> {
        let mut request = null_request();
        // SAFETY: `self` is a communicator.
        check(unsafe { ffi::MPI_Ibarrier(self.0, &mut request) })?;
        Ok(request)
    }

    /// Begins to send.
    ///
    /// # Safety
    /// The bytes stay where they are, unchanged, until the request is complete.
    pub unsafe fn send(
        self,
        bytes: *const u8,
        length: usize,
        to: c_int,
        tag: c_int,
    ) -> Result<MPI_Request, MpiError> {
        let count = count(length)?;
        let mut request = null_request();
        // SAFETY: the caller keeps the bytes.
        check(unsafe {
            ffi::MPI_Isend(bytes.cast(), count, byte(), to, tag, self.0, &mut request)
        })?;
        Ok(request)
    }

    /// Begins to receive.
    ///
    /// # Safety
    /// Nobody else touches the bytes, which stay where they are, until the request is complete.
    pub unsafe fn receive(
        self,
        bytes: *mut u8,
        length: usize,
        from: c_int,
        tag: c_int,
    ) -> Result<MPI_Request, MpiError> {
        let count = count(length)?;
        let mut request = null_request();
        // SAFETY: the caller keeps the bytes.
        check(unsafe {
            ffi::MPI_Irecv(bytes.cast(), count, byte(), from, tag, self.0, &mut request)
        })?;
        Ok(request)
    }

    /// Gives the communicator back.
    pub fn free(mut self) {
        // SAFETY: it is ours, and not used again: `self` was the last that knew it.
        unsafe { ffi::MPI_Comm_free(&mut self.0) };
    }
}

/// Ends all ranks of the job, this one first. On the world: on another communicator MPICH 4.0 waits.
pub fn abort(status: c_int) {
    // SAFETY: a constant of the library.
    let world = unsafe { ffi::RSMPI_COMM_WORLD };
    // SAFETY: may be called at any time between initialisation and the end.
    unsafe { ffi::MPI_Abort(world, status) };
}

unsafe extern "C" {
    /// Of the C library, which every MPI needs.
    fn atexit(last: extern "C" fn()) -> c_int;
}

/// Does something when the process exits, by the end of `main` or by `exit`: before MPI itself, which was
/// loaded earlier, is taken down.
pub fn at_exit(last: extern "C" fn()) {
    // SAFETY: a function without arguments, which stays where it is; that it may not unwind is in its type.
    let answer = unsafe { atexit(last) };
    // There is room for 32 at least; otherwise the launcher says that MPI was not ended.
    debug_assert_eq!(answer, 0);
}

/// Makes faults that belong to no communicator values, too: MPICH asks the world's handler.
pub fn return_errors() -> Result<(), MpiError> {
    // SAFETY: a constant of the library.
    let world = unsafe { ffi::RSMPI_COMM_WORLD };
    // SAFETY: MPI is initialised, by us: the handler is ours to choose.
    check(unsafe { ffi::MPI_Comm_set_errhandler(world, returns_errors()) })
}

/// A length as MPI counts; one above its limit is the count of an error.
fn count(length: usize) -> Result<c_int, MpiError> {
    c_int::try_from(length).map_err(|_| MpiError(ffi::MPI_ERR_COUNT as c_int))
}

/// How a request was completed.
#[derive(Clone, Copy)]
pub struct Completed(MPI_Status);

impl Completed {
    /// From whom, of a receive.
    pub fn source(&self) -> usize {
        self.0.MPI_SOURCE.max(0) as usize
    }

    /// How many bytes, of a receive.
    pub fn bytes(&self) -> usize {
        let mut count = 0;
        // SAFETY: the status of a completed request.
        let answer = unsafe { ffi::MPI_Get_count(&self.0, byte(), &mut count) };
        if answer == SUCCESS {
            count.max(0) as usize
        } else {
            0
        }
    }
}

/// Whether a request is complete; it is none any more then, nor after an error.
pub fn test(request: &mut MPI_Request) -> Result<Option<Completed>, MpiError> {
    let mut done = 0;
    let mut status = MaybeUninit::<MPI_Status>::zeroed();
    // SAFETY: a request of ours, or none; flag and status are ours.
    check(unsafe { ffi::MPI_Test(request, &mut done, status.as_mut_ptr()) })?;
    if done == 0 {
        return Ok(None);
    }
    // SAFETY: a status is made of integers, for which zeroes will do.
    Ok(Some(Completed(unsafe { status.assume_init() })))
}

/// Asks to give a receive up; it is complete then, or was before.
pub fn cancel(request: &mut MPI_Request) -> Result<(), MpiError> {
    // SAFETY: a request of ours that is not complete.
    check(unsafe { ffi::MPI_Cancel(request) })
}

/// A request that is complete: its place among those that were asked for, and how it ended.
pub type Landed = (usize, Result<Completed, MpiError>);

/// Looks which of many requests are complete; keeps its room between calls.
#[derive(Default)]
pub struct Looker {
    places: Vec<c_int>,
    statuses: Vec<MaybeUninit<MPI_Status>>,
}

impl Looker {
    /// Which of the requests are complete, and how: place and status or error of each.
    pub fn test(&mut self, requests: &mut [MPI_Request]) -> Result<Vec<Landed>, MpiError> {
        let n = requests.len();
        self.places.resize(n, 0);
        self.statuses.resize(n, MaybeUninit::zeroed());
        let mut n_done = 0;
        let places = self.places.as_mut_ptr();
        let statuses = self.statuses.as_mut_ptr().cast();
        let requests = requests.as_mut_ptr();
        // SAFETY: - `n` requests of ours
        //         - room for as many places and statuses
        let answer =
            unsafe { ffi::MPI_Testsome(n as c_int, requests, &mut n_done, places, statuses) };
        let is_mixed = match check(answer) {
            Err(fault) if fault.is_in_status() => true,
            answer => answer.map(|()| false)?,
        };
        if n_done <= 0 {
            return Ok(Vec::new()); // none, or "undefined": there was nothing to ask for
        }
        let done = self.places.iter().zip(&self.statuses).take(n_done as usize);
        let done = done.map(|(place, status)| {
            // SAFETY: a status is made of integers, for which zeroes will do.
            let status = unsafe { status.assume_init() };
            let failed = is_mixed && status.MPI_ERROR != SUCCESS;
            let end = if failed {
                Err(MpiError(status.MPI_ERROR))
            } else {
                Ok(Completed(status))
            };
            (*place as usize, end)
        });
        Ok(done.collect())
    }
}

/// The bytes that a pointer shows, copied.
///
/// # Safety
/// They are initialised, and nobody writes them meanwhile.
pub unsafe fn copied(bytes: *const u8, length: usize) -> Vec<u8> {
    // SAFETY: the caller's word.
    unsafe { std::slice::from_raw_parts(bytes, length) }.to_vec()
}
