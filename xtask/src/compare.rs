//! `cargo xtask compare BEFORE.json AFTER.json`: what changed between two traced runs, by class of tasks
//! and by cause of idleness.
//!
//! Both files are what an example printed with `--json --trace FILE`. A policy, a grid or a tile order
//! is judged by where the workers' time went before and after.

use crate::out;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Which two files.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub before: String,
    pub after: String,
}

/// Prints the comparison.
pub fn command(options: &Options) -> ExitCode {
    let compared = [&options.before, &options.after].map(|path| read(Path::new(path)));
    let text = match compared {
        [Ok(before), Ok(after)] => table(&before, &after),
        [Err(fault), _] | [_, Err(fault)] => Err(fault),
    };
    match text {
        Ok(text) => {
            out::text(&text);
            ExitCode::SUCCESS
        }
        Err(fault) => {
            out::error(fault);
            ExitCode::FAILURE
        }
    }
}

/// A trace without something that every trace of an example has.
fn lacks(key: &str) -> String {
    format!("its trace lacks {key:?} (run an example of this version with --json --trace FILE)")
}

/// Of seconds, thirty years, and of workers.
const MOST: f64 = 1e9;

/// What shares that were rounded may add up to.
const WHOLE: f64 = 1.0 + 1e-9;

/// A graph that was traced.
struct Graph {
    name: String,
    verdict: String,
    seconds: f64,
    bound: f64,
    workers: f64,
    /// By name, of the workers' time.
    shares: Vec<(String, f64)>,
}

impl Graph {
    fn of(trace: &Value) -> Result<Self, String> {
        let text = |key: &str| trace[key].as_str().map(String::from).ok_or(lacks(key));
        let number = |key: &str| within(key, trace[key].as_f64(), MOST);
        let shares = trace["shares"].as_object().ok_or(lacks("shares"))?.iter();
        Ok(Graph {
            name: text("graph")?,
            verdict: text("verdict")?,
            seconds: number("seconds")?,
            bound: number("area_seconds")?.max(number("path_seconds")?),
            workers: number("workers")?,
            shares: shares
                .map(|(name, part)| {
                    Ok((name.clone(), within(name, part.as_f64().map(whole), 1.0)?))
                })
                .collect::<Result<_, String>>()?,
        })
    }

    /// Seconds of all workers that went there.
    fn time(&self, name: &str) -> f64 {
        let share = self.shares.iter().find(|(other, _)| other == name);
        share.map_or(0.0, |(_, part)| part * self.seconds * self.workers)
    }
}

/// The same share, but all where it is more by rounding.
fn whole(part: f64) -> f64 {
    match part <= WHOLE {
        true => part.min(1.0),
        false => part,
    }
}

/// A number of a file, if it is one that can be meant.
fn within(key: &str, number: Option<f64>, most: f64) -> Result<f64, String> {
    match number.ok_or(lacks(key))? {
        number if (0.0..=most).contains(&number) => Ok(number),
        number => Err(format!(
            "its {key:?} is {number:?} (must be from 0 to {most})"
        )),
    }
}

fn read(path: &Path) -> Result<Vec<Graph>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|fault| format!("{shown}: {fault}"))?;
    parsed(&text).map_err(|fault| format!("{shown}: {fault}"))
}

fn parsed(text: &str) -> Result<Vec<Graph>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(
            "file is empty (must be what an example printed with --json --trace FILE)".into(),
        );
    }
    let object = serde_json::from_str(text).map_err(|fault| fault.to_string())?;
    graphs(&object)
}

fn graphs(object: &Value) -> Result<Vec<Graph>, String> {
    let traces = object["trace"].as_array();
    let traces = traces.ok_or("no trace in it (run with --json --trace FILE)")?;
    if traces.is_empty() {
        return Err("no graph was traced".into());
    }
    traces.iter().map(Graph::of).collect()
}

/// Both runs side by side, graph by graph.
fn table(before: &[Graph], after: &[Graph]) -> Result<String, String> {
    if before.len() != after.len() {
        return Err(format!(
            "{} graphs before and {} after",
            before.len(),
            after.len()
        ));
    }
    let pairs = || before.iter().zip(after);
    if let Some((before, after)) = pairs().find(|(before, after)| before.name != after.name) {
        return Err(format!(
            "`{}` before is `{}` after: these are two programs",
            before.name, after.name
        ));
    }
    let mut text = String::new();
    for (before, after) in pairs() {
        compare(before, after, &mut text);
    }
    Ok(text)
}

fn compare(before: &Graph, after: &Graph, text: &mut String) {
    let names = before
        .shares
        .iter()
        .chain(&after.shares)
        .map(|(name, _)| &name[..]);
    let names: BTreeSet<&str> = names.collect();
    let mut rows: Vec<(&str, [f64; 2])> = names
        .into_iter()
        .map(|name| (name, [before.time(name), after.time(name)]))
        .collect();
    let change = |row: &(&str, [f64; 2])| (row.1[1] - row.1[0]).abs();
    rows.sort_by(|a, b| change(b).total_cmp(&change(a)));
    let mut lines = vec![
        (
            format!("{}, wall time (s)", after.name),
            [before.seconds, after.seconds],
        ),
        (
            "  no schedule takes less".into(),
            [before.bound, after.bound],
        ),
    ];
    lines.extend(
        rows.iter()
            .map(|(name, times)| (format!("  workers: {name}"), *times)),
    );
    write_lines(&lines, text);
    if let Some((name, [was, is])) = rows.first() {
        let _ = writeln!(
            text,
            "Most of the change: {name}, {:+.6} s of the workers' time.",
            is - was
        );
    }
    let _ = writeln!(
        text,
        "Before: {}\nAfter:  {}\n",
        before.verdict, after.verdict
    );
}

/// Names, two numbers and their change, in columns as wide as the longest name.
fn write_lines(lines: &[(String, [f64; 2])], text: &mut String) {
    let widths = lines.iter().map(|(name, _)| name.chars().count());
    let width = widths.max().unwrap_or_default();
    for (name, [was, is]) in lines {
        let change = match *was {
            0.0 => String::new(),
            was => format!("{:+.1} %", 100.0 * (is - was) / was),
        };
        let line = format!("{name:<width$} {was:>12.6} {is:>12.6} {change:>10}");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn graph(seconds: f64, shares: &[(&str, f64)]) -> Graph {
        Graph {
            name: "row".into(),
            verdict: "so".into(),
            seconds,
            bound: 1.0,
            workers: 2.0,
            shares: shares
                .iter()
                .map(|(name, part)| (name.to_string(), *part))
                .collect(),
        }
    }

    #[test]
    fn what_changed_most_is_named_first_and_last() {
        let before = graph(4.0, &[("Cell", 0.25), ("data under way", 0.75)]);
        let after = graph(2.0, &[("Cell", 0.5), ("runtime", 0.5)]);
        let text = table(&[before], &[after]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("row, wall time (s)") && lines[0].ends_with("-50.0 %"),
            "{text}"
        );
        assert!(lines[2].starts_with("  workers: data under way"), "{text}");
        assert!(
            lines[3].starts_with("  workers: runtime") && lines[4].ends_with("+0.0 %"),
            "{text}"
        );
        assert_eq!(
            lines[5],
            "Most of the change: data under way, -6.000000 s of the workers' time."
        );
    }

    /// The cause with the longest name pushed its numbers out of their columns.
    #[test]
    fn numbers_stand_below_each_other_whatever_the_names_are() {
        let long = "ready elsewhere (policy)";
        let before = graph(4.0, &[("Cell", 0.5), (long, 0.5)]);
        let after = graph(2.0, &[("Cell", 0.5), (long, 0.5)]);
        let text = table(&[before], &[after]).unwrap();
        let percents = text.lines().filter_map(|line| line.rfind(" %"));
        let percents: Vec<_> = percents.collect();
        assert_eq!(percents.len(), 4, "{text}");
        assert!(percents.iter().all(|at| *at == percents[0]), "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }

    #[test]
    fn files_without_a_trace_are_refused() {
        assert!(
            read(Path::new("nowhere.json")).is_err_and(|fault| fault.starts_with("nowhere.json"))
        );
        for (text, why) in [("", "file is empty"), ("\u{feff}{}", "no trace in it")] {
            let fault = parsed(text).err();
            assert!(fault.is_some_and(|fault| fault.starts_with(why)), "{why}");
        }
        for (trace, why) in [
            (json!(null), "no trace in it"),
            (json!([]), "no graph was traced"),
            (
                json!([{ "graph": "row" }]),
                "its trace lacks \"shares\" (run an example",
            ),
            (
                json!([{ "graph": "row", "shares": {} }]),
                "its trace lacks \"verdict\" (run an example",
            ),
        ] {
            let fault = graphs(&json!({ "trace": trace })).err();
            assert!(fault.is_some_and(|fault| fault.starts_with(why)), "{why}");
        }
        assert!(table(&[], &[graph(1.0, &[])]).is_err());
        let column = Graph {
            name: "column".into(),
            ..graph(1.0, &[])
        };
        let fault = table(&[graph(1.0, &[])], &[column]).unwrap_err();
        assert!(
            fault.contains("`row`") && fault.contains("`column`"),
            "{fault}"
        );
    }

    /// Of the shares of several parts the sum is told, which may be a last digit above 1.
    #[test]
    fn shares_that_are_all_but_for_rounding_are_all() {
        for (told, expected) in [(0.9, 0.9), (1.0, 1.0), (1.0 + f64::EPSILON, 1.0)] {
            let trace = json!({
                "graph": "row", "verdict": "so", "seconds": 2.0, "area_seconds": 0.5,
                "path_seconds": 0.5, "workers": 1, "shares": { "Cell": told },
            });
            let graphs = graphs(&json!({ "trace": [trace] })).unwrap();
            assert_eq!(graphs[0].time("Cell"), 2.0 * expected, "{told}");
        }
    }

    /// Differences of them were told as percent.
    #[test]
    fn numbers_that_cannot_be_meant_are_refused_by_field() {
        for (key, number) in [
            ("seconds", -1.0),
            ("seconds", 1e300),
            ("area_seconds", -0.5),
            ("workers", 1e300),
            ("Cell", -0.5),
            ("Cell", 1.001),
            ("Cell", 1e300),
        ] {
            let mut trace = json!({
                "graph": "row", "verdict": "so", "seconds": 1.0, "area_seconds": 0.5,
                "path_seconds": 0.5, "workers": 2, "shares": { "Cell": 1.0 },
            });
            assert!(graphs(&json!({ "trace": [trace] })).is_ok());
            match trace["shares"].get(key) {
                Some(_) => trace["shares"][key] = number.into(),
                None => trace[key] = number.into(),
            }
            let fault = graphs(&json!({ "trace": [trace] }))
                .err()
                .unwrap_or_default();
            assert!(
                fault.starts_with(&format!("its {key:?} is {number:?} (must be from 0 to ")),
                "{fault}"
            );
        }
    }
}
