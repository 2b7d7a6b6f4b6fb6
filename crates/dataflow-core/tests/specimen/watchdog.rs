//! A test that hangs is a test that fails, with a message.

use std::io::{Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Three times what the longest takes under ThreadSanitizer on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);

/// Runs `what`; ends the process if it takes longer than a minute and a half.
///
/// Under Miri time is virtual and slow: there the harness's own limit must do.
pub fn within<R>(name: impl FnOnce() -> String + Send, what: impl FnOnce() -> R) -> R {
    if cfg!(miri) {
        return what();
    }
    within_limit(LIMIT, name, what)
}

/// The same, with a limit of the caller's.
pub fn within_limit<R>(
    limit: Duration,
    name: impl FnOnce() -> String + Send,
    what: impl FnOnce() -> R,
) -> R {
    let (done, wait) = channel::<()>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            if wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Not by `eprintln!`: what the harness captures of it would end with the process.
                let _unread = writeln!(stderr(), "error: hangs: {}", name());
                std::process::abort();
            }
        });
        let result = what();
        drop(done);
        result
    })
}
