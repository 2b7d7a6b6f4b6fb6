//! What stands above every table, and what stands in it.

use std::process::Command;
use std::thread;

/// Processor, number of cores, commit.
pub fn machine() -> String {
    let description = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = description
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let git = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output();
    let commit = git.map(|git| String::from_utf8_lossy(&git.stdout).trim().to_string());
    format!(
        "{model}, {cores} cores, commit {}",
        commit.unwrap_or_default()
    )
}

/// The median, and half the distance of the quartiles.
pub fn quartiles(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * (sorted.len().max(1) - 1) as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        sorted
            .get(below)
            .zip(sorted.get(above))
            .map_or(f64::NAN, |(a, b)| a + (b - a) * place.fract())
    };
    (at(0.5), (at(0.75) - at(0.25)) / 2.0)
}
