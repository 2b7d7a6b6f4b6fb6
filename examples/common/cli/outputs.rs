//! Outputs: the files that a run leaves, each with a name of its own.
//!
//! # Law
//! The flags that name what is to be written are in one table, beside those that name what must not be
//! replaced; an example does nothing for it.

use super::Failure;
use clap::ArgMatches;
use dataflow::trace::Format;
use std::fs::read_link;
use std::path::{Path, PathBuf};

/// The flags that name such a file, in any example.
pub(super) const FLAGS: [&str; 5] = ["trace", "dot", "svg", "output", "xml"];

/// Flags that name a file which none of those may replace: it is read, and where costs are measured they are
/// written.
const KEPT: [&str; 4] = ["costs", "input", "rhs", "hosts"];

/// Graphs of one run of which each has a file: a loop to convergence has hundreds.
const MOST_FILES: usize = 8;

/// Links that are followed, one to another, as far as Linux follows them.
const MOST_LINKS: usize = 40;

/// The files that a command line names, by flag: first those that it asks for, then those that are kept.
#[derive(Clone, Debug, Default)]
pub struct Outputs(Vec<(&'static str, PathBuf)>);

impl Outputs {
    /// Those of a command line that was understood.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let file = |flag| {
            // Not every example has every flag.
            let path = matches.try_get_one::<PathBuf>(flag).ok()??;
            Some((flag, path.clone()))
        };
        Outputs(FLAGS.into_iter().chain(KEPT).filter_map(file).collect())
    }

    /// What to say of two flags that lead to one file, of which one would destroy what the other has left or
    /// is about to read. Two that only read may share one.
    pub(super) fn shared(&self) -> Option<String> {
        let mut taken: Vec<(PathBuf, &str)> = Vec::new();
        for (flag, path) in &self.0 {
            let is_kept = KEPT.contains(flag);
            let files: Vec<PathBuf> = match *flag {
                "trace" => trace_files(path).flat_map(with_siblings).collect(),
                _ => vec![path.clone()],
            };
            for file in files.iter().filter(|file| !is_special(file)) {
                let place = place(file);
                if let Some((_, other)) = taken.iter().find(|(taken, _)| *taken == place) {
                    let file = file.display();
                    return Some(match is_kept {
                        true => format!("--{other}: it would replace {file}, which --{flag} names"),
                        false => format!(
                            "--{flag}: --{other} writes {file} (each needs a file of its own)"
                        ),
                    });
                }
                if !is_kept {
                    taken.push((place, *flag));
                }
            }
        }
        None
    }

    /// Refuses what cannot be written of these flags, before there is anything to write.
    pub(super) fn expect_writable(&self, flags: &[&str]) -> Result<(), Failure> {
        let mut asked = self.0.iter().filter(|(flag, _)| flags.contains(flag));
        asked.try_for_each(|(_, path)| expect_writable(path))
    }
}

/// Refuses a file that cannot be written: a whole run would be for nothing. It stays as it was, and one that
/// was not there is not there.
///
/// # Errors
/// As of a file that cannot be written when the run is over.
pub fn expect_writable(path: &Path) -> Result<(), Failure> {
    let looked = dataflow::trace::expect_writable(path);
    looked.map_err(|fault| Failure::output_unwritable(path, fault))
}

/// The files that traces may go to: `run.html`, then `run.2.html` and so on.
pub(super) fn trace_files(first: &Path) -> impl Iterator<Item = PathBuf> {
    let numbered = |number: usize| {
        let extension = first.extension().unwrap_or_default().to_string_lossy();
        first.with_extension(format!("{number}.{extension}"))
    };
    std::iter::once(first.to_path_buf()).chain((2..=MOST_FILES).map(numbered))
}

/// A trace's file, and what its format writes beside it.
fn with_siblings(trace: PathBuf) -> Vec<PathBuf> {
    let beside: &[&str] = match Format::of(&trace) {
        Some(Format::Paraver) => &["pcf", "row"],
        _ => &[],
    };
    let siblings = beside.iter().map(|kind| trace.with_extension(kind));
    let mut files: Vec<PathBuf> = siblings.collect();
    files.push(trace);
    files
}

/// Where a file lies or would lie, however its name is spelled.
fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let mut path = path.to_path_buf();
    // Who writes to a link that leads nowhere yet makes the file there.
    for _ in 0..MOST_LINKS {
        let Ok(target) = read_link(&path) else { break };
        path.pop();
        path.push(target);
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// Whether it is there and no file, like `/dev/null`: as many may write to it as like, and looking whether
/// one may could disturb who reads it.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}
