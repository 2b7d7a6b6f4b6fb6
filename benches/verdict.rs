//! Verdict: what the other benches have kept, in one table; `cargo bench` ends with it.
//!
//! ```console
//! $ cargo bench                                                # all benches, then the table
//! $ cargo bench --bench verdict                                # the table again
//! $ cargo bench --bench verdict -- --save-baseline before      # keeps it under a name
//! $ cargo bench --bench verdict -- --baseline before           # how much faster it is since then
//! ```
//!
//! Each row is ours, beside the best of the others and a limit: a large product, one reading of the data, a
//! loop that only counts arrivals (which chains pass). Ratios are speeds, so above 1 ours is faster. A row has the figures of the last run in which its bench measured it.
//!
//! # Elsewhere
//! The rows: `kept.rs`. How they were measured: the benches that they are named after.

#[allow(dead_code)] // benches keep rows, here they are read
mod kept;

use clap::Parser;
use kept::{Row, Sheet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

/// What all benches have measured, in one table.
#[derive(Parser)]
struct Settings {
    /// Keeps the table under a name
    #[arg(long, value_name = "NAME")]
    save_baseline: Option<String>,
    /// Compares with the table of that name
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

/// By bench.
type Sheets = BTreeMap<String, Sheet>;

fn main() -> ExitCode {
    match tell(&Settings::parse(), &kept::folder()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tell(settings: &Settings, folder: &Path) -> io::Result<()> {
    let sheets = sheets(folder)?;
    let before = match &settings.baseline {
        Some(name) => Some(baseline(folder, name)?),
        None => None,
    };
    if sheets.is_empty() {
        println!("nothing is kept yet: run cargo bench");
    }
    let new = Sheet::default();
    for (bench, sheet) in &sheets {
        let before = before.as_ref();
        let before = before.map(|before| before.get(bench).unwrap_or(&new));
        print_sheet(bench, sheet, before);
    }
    if let Some(name) = &settings.save_baseline {
        kept::write(&place(folder, name), &sheets)?;
        println!("\nkept as baseline {name}");
    }
    Ok(())
}

/// What benches have kept.
fn sheets(folder: &Path) -> io::Result<Sheets> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Sheets::new()),
        entries => entries?,
    };
    let mut sheets = Sheets::new();
    for entry in entries {
        let path = entry?.path();
        let bench = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        if let Some(bench) = bench.filter(|_| path.extension() == Some("json".as_ref())) {
            sheets.insert(bench, kept::read(&path)?);
        }
    }
    Ok(sheets)
}

/// Where a baseline lies.
fn place(folder: &Path, name: &str) -> PathBuf {
    folder.join("baselines").join(format!("{name}.json"))
}

fn baseline(folder: &Path, name: &str) -> io::Result<Sheets> {
    let path = place(folder, name);
    match path.exists() {
        true => kept::read(&path),
        false => Err(io::Error::other(format!(
            "there is no baseline {name} (keep one: cargo bench --bench verdict -- --save-baseline {name})"
        ))),
    }
}

/// A table; with a baseline how many times as fast each row is as it was there.
fn print_sheet(bench: &str, sheet: &Sheet, before: Option<&Sheet>) {
    println!("\n{bench}: {}", sheet.machine);
    let since = if before.is_some() { "  × before" } else { "" };
    println!(
        "{:38} {:>9} {:>7}             {:38}  {:38}{since}",
        "", "ours", "±", "best of the others (ours ×)", "limit (share)"
    );
    for row in &sheet.rows {
        let (ours, spread) = (row.ours, row.spread.map_or("–".into(), figure));
        let beside = |beside: &Option<(String, f64)>, percent: bool| match beside {
            Some((name, value)) => {
                let speed = row.unit.speed(ours, *value);
                match percent {
                    true => format!("{name} {} ({:.0} %)", figure(*value), 100.0 * speed),
                    false => format!("{name} {} ({speed:.2})", figure(*value)),
                }
            }
            None => String::new(),
        };
        let line = format!(
            "{:38} {:>9} {:>7} {:10}  {:38}  {:38}{}",
            row.what,
            figure(ours),
            spread,
            row.unit.name(),
            beside(&row.other, false),
            beside(&row.limit, true),
            before.map_or(String::new(), |before| since_then(row, before)),
        );
        println!("{}", line.trim_end());
    }
}

/// How many times as fast a row is as the one of its name.
fn since_then(row: &Row, before: &Sheet) -> String {
    let old = before.rows.iter().find(|old| old.what == row.what);
    old.map_or("         –".into(), |old| {
        format!("{:10.2}", row.unit.speed(row.ours, old.ours))
    })
}

/// Three digits, or all before the point.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
