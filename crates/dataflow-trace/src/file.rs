//! File: a new one takes the place of an old one as a whole.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Writes a file beside its place and moves it there: a file that was there is replaced as a whole, and no
/// reader sees a part of the new one. In place is written what is no plain file, like a pipe or a link, and
/// where nothing can be made beside it.
///
/// # Errors
/// If the file cannot be made or `write` fails; what was there stays.
///
/// # Examples
/// ```
/// use std::io::Write;
/// let path = std::env::temp_dir().join(format!("replaced-{}", std::process::id()));
/// dataflow_trace::replace(&path, |mut file| file.write_all(b"whole"))?;
/// let failed = dataflow_trace::replace(&path, |mut file| {
///     file.write_all(b"pa")?;
///     Err(std::io::ErrorKind::StorageFull.into())
/// });
/// assert!(failed.is_err());
/// assert_eq!(std::fs::read(&path)?, b"whole");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn replace(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    let is_plain = fs::symlink_metadata(path).map_or(true, |found| found.is_file());
    let beside = path
        .file_name()
        .filter(|_| is_plain)
        .and_then(|name| file_beside(path, &name.to_string_lossy()).ok());
    let Some((file, beside)) = beside else {
        return File::create(path).and_then(write);
    };
    let moved = write(file).and_then(|()| fs::rename(&beside, path));
    if moved.is_err() {
        let _stays = fs::remove_file(&beside);
    }
    moved
}

/// Whether [`replace`] would find a place to write, asked before there is anything to write. A file that is
/// there stays as it is, and one that is not there is not made. Of a pipe, a device, and a link that leads
/// nowhere yet nothing is asked.
///
/// # Errors
/// What the system says against a file there.
///
/// # Examples
/// ```
/// use dataflow_trace::expect_writable;
/// let path = std::env::temp_dir().join("not-there-yet.html");
/// expect_writable(&path)?;
/// assert!(!path.exists());
/// assert!(expect_writable("/nowhere/run.html".as_ref()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn expect_writable(path: &Path) -> io::Result<()> {
    // A pipe that was opened would be one that its reader sees the end of.
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    let try_beside = || file_beside(path, "tried").and_then(|(_, beside)| fs::remove_file(beside));
    match File::options().append(true).open(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere yet will be followed.
            fs::symlink_metadata(path).map_or_else(|_| try_beside(), |_| Ok(()))
        }
        // It is replaced as a whole, so it is enough to be able to write beside it.
        Err(fault) if fault.kind() == io::ErrorKind::PermissionDenied && path.is_file() => {
            try_beside().map_err(|_| fault)
        }
        opened => opened.map(drop),
    }
}

/// A new file beside another, which no other thread or process has: in containers processes may have the
/// same number.
fn file_beside(path: &Path, name: &str) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
        let beside = path.with_file_name(format!(".{name}.{process}.{next}"));
        match File::create_new(&beside) {
            Ok(file) => return Ok((file, beside)),
            // Another's, or what is left of one that was killed.
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {}
            Err(fault) => return Err(fault),
        }
    }
}
