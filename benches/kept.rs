//! Kept: what benches have measured, as rows of one table that outlives them.
//!
//! # Law
//! A bench replaces its rows of the same names and leaves others; a quick run keeps nothing, nor does one
//! that was told what the library chooses: threads, tile orders, inner blocks, formats. The files lie in the target folder, one a bench; a baseline is all
//! of them in one file under a name.
//!
//! # Elsewhere
//! The table: `verdict.rs`.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What one thing takes, beside others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub what: String,
    pub unit: Unit,
    /// The median of ours.
    pub ours: f64,
    /// Half the distance of the quartiles, where rounds have one each.
    pub spread: Option<f64>,
    /// The best that is not ours, by name.
    pub other: Option<(String, f64)>,
    /// What it is a share of, by name: a large product, one reading of the data, a loop that only counts.
    pub limit: Option<(String, f64)>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    GigaflopsPerSecond,
    Milliseconds,
    Microseconds,
    NanosecondsPerTask,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::GigaflopsPerSecond => "GFLOP/s",
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "µs",
            Unit::NanosecondsPerTask => "ns a task",
        }
    }

    /// How many times as fast the first is as the second.
    pub fn speed(self, one: f64, other: f64) -> f64 {
        match self {
            Unit::GigaflopsPerSecond => one / other,
            _ => other / one,
        }
    }

    /// The faster one.
    pub fn best<N>(self, all: impl IntoIterator<Item = (N, f64)>) -> Option<(N, f64)> {
        let faster = |best: (N, f64), next: (N, f64)| match self.speed(next.1, best.1) > 1.0 {
            true => next,
            false => best,
        };
        all.into_iter().reduce(faster)
    }
}

/// The rows of a bench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Of the last run.
    pub machine: String,
    pub rows: Vec<Row>,
}

impl Sheet {
    /// Puts rows into the places of those of the same names; new ones come last.
    fn take(&mut self, machine: String, rows: Vec<Row>) {
        self.machine = machine;
        for row in rows {
            match self.rows.iter_mut().find(|old| old.what == row.what) {
                Some(old) => *old = row,
                None => self.rows.push(row),
            }
        }
    }
}

/// Keeps the rows of a bench.
pub fn keep(bench: &str, machine: String, rows: Vec<Row>) -> io::Result<()> {
    keep_in(&folder(), bench, machine, rows)
}

fn keep_in(folder: &Path, bench: &str, machine: String, rows: Vec<Row>) -> io::Result<()> {
    let path = folder.join(format!("{bench}.json"));
    let mut sheet: Sheet = match path.exists() {
        true => read(&path)?,
        false => Sheet::default(),
    };
    sheet.take(machine, rows);
    write(&path, &sheet)
}

/// The folder of what this build's benches keep.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept")
}

/// What stands in a file.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<T> {
    let wrong = |error: serde_json::Error| {
        io::Error::other(format!(
            "{}: {error} (delete it and run the bench again)",
            path.display()
        ))
    };
    serde_json::from_slice(&fs::read(path)?).map_err(wrong)
}

/// Writes a file, and the folder that it is in.
pub fn write(path: &Path, content: &impl Serialize) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut text = serde_json::to_string_pretty(content)?;
    text.push('\n');
    fs::write(path, text)
}
