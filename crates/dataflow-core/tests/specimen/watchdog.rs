//! A test that hangs is a test that fails, with a message.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs `what`; ends the process if it takes longer than 20 seconds.
///
/// Under Miri time is virtual and slow: there the harness's own limit must do.
pub fn within<R>(name: impl FnOnce() -> String + Send, what: impl FnOnce() -> R) -> R {
    if cfg!(miri) {
        return what();
    }
    let (done, wait) = channel::<()>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            if wait.recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("error: hangs: {}", name());
                std::process::abort();
            }
        });
        let result = what();
        drop(done);
        result
    })
}
