//! Out: the one door through which commands speak.
//!
//! # Law
//! A reader that leaves, like `head`, ends no command by a panic: what would be said from then on is not,
//! no further step begins, and the command ends as one that failed.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether what is said is still taken.
static IS_OPEN: AtomicBool = AtomicBool::new(true);

/// Says a line, as `println!` would.
macro_rules! say {
    ($($words:tt)*) => { $crate::out::text(&(format!($($words)*) + "\n")) };
}
pub(crate) use say;

/// Says a text as it is.
#[allow(clippy::print_stdout)]
pub fn text(text: &str) {
    if cfg!(test) {
        return print!("{text}"); // the harness keeps it of tests that pass
    }
    if !is_open() {
        return;
    }
    if let Err(fault) = write(text, &mut io::stdout()) {
        IS_OPEN.store(false, Ordering::Relaxed);
        if let Some(fault) = fault {
            error(format!("standard output: {fault}"));
        }
    }
}

/// Why a command cannot go on. If nobody takes that either, its exit status says it alone.
pub fn error(fault: impl Display) {
    writeln!(io::stderr(), "error: {fault}").ok();
}

/// Whether what is said is still taken.
pub fn is_open() -> bool {
    IS_OPEN.load(Ordering::Relaxed)
}

/// How a command ends that would end like this: well only if all that it said was taken.
pub fn ended(code: ExitCode) -> ExitCode {
    match is_open() {
        true => code,
        false => ExitCode::FAILURE,
    }
}

/// Writes a text to its end; a reader that left is a failure without a fault: nobody is there to be told.
fn write(text: &str, out: &mut dyn Write) -> Result<(), Option<io::Error>> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|fault| (fault.kind() != io::ErrorKind::BrokenPipe).then_some(fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that takes nothing, for this reason.
    struct Closed(io::ErrorKind);

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_leaves_is_no_fault_and_a_full_disk_is() {
        let fault = |kind| write("a\nb\n", &mut Closed(kind)).unwrap_err();
        assert!(fault(io::ErrorKind::BrokenPipe).is_none());
        let full = fault(io::ErrorKind::StorageFull);
        assert!(full.is_some_and(|fault| fault.kind() == io::ErrorKind::StorageFull));
        let mut read = Vec::new();
        assert!(write("a\nb\n", &mut read).is_ok() && read == b"a\nb\n");
    }
}
