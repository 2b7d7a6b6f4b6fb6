//! Built: the examples beside a test, which cargo builds only if it is asked to: no old one is tried.

use std::env::{consts, current_exe};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// An example that was built beside this test.
///
/// # Panics
/// If it was not, or before one of its sources was changed.
pub fn example(name: &str) -> PathBuf {
    let test = current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let program = profile.join("examples").join(name);
    let program = program.with_extension(consts::EXE_EXTENSION);
    if let Some(fault) = outdated(&program) {
        let make = "cargo build --profile test --examples";
        panic!("{fault}: `{make}` makes it, with the features of this test");
    }
    program
}

/// What is wrong with a program that cargo would build anew. Beside it lies cargo's list of its sources, those
/// of our libraries too.
pub fn outdated(program: &Path) -> Option<String> {
    let shown = program.display();
    let list = fs::read_to_string(program.with_extension("d"));
    let (Some(built), Ok(list)) = (changed(program), list) else {
        return Some(format!("{shown} is not there"));
    };
    // `PROGRAM: SOURCE SOURCE …`, with a backslash before each blank of a name.
    let (_, sources) = list.split_once(": ").unwrap_or_default();
    let sources = sources.trim_end().replace("\\ ", "\0");
    let mut sources = sources.split(' ').map(|source| source.replace('\0', " "));
    let is_newer = |source: &String| changed(Path::new(source)).is_none_or(|then| then > built);
    let newer = sources.find(is_newer)?;
    let fault = format!("{shown} was built before its source {newer} was changed");
    Some(fault)
}

/// When a file was changed last; none if it is not there.
fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|about| about.modified()).ok()
}
