//! The commands whose output nobody reads to its end: `cargo xtask loom | head -1`.

use std::io;
use std::process::{Command, ExitStatus, Stdio};

/// Starts the program with arguments, into a pipe whose reader has left; its status and what it says beside.
fn unread(arguments: &[&str]) -> (ExitStatus, String) {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let ended = command.args(arguments).stdout(writer);
    let ended = ended.stderr(Stdio::piped()).output().unwrap();
    (
        ended.status,
        String::from_utf8_lossy(&ended.stderr).into_owned(),
    )
}

/// All but two panicked at their first line, and those of many steps would have gone on for nobody.
#[test]
fn a_command_that_nobody_reads_begins_no_step_and_ends_as_one_that_failed_without_a_word() {
    for arguments in [&["help"][..], &["loom", "no_such_model"]] {
        let (status, said) = unread(arguments);
        assert_eq!((status.code(), &*said), (Some(1), ""), "{arguments:?}");
    }
}
