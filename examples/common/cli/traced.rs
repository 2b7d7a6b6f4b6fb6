//! Traced: what `--trace` leaves: a file, an explanation for people, and the same as keys.

use super::outputs::trace_files;
use super::{Failure, Flags, Outcome, both};
use dataflow::core::words::counted;
use dataflow::trace::{self, Explanation, Trace, View};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// Draws the graph, writes the traces of the measured run, each of its first graphs to a file of its own, and
/// tells why it took as long as it did. Of a run that has not ended there is nothing to tell.
///
/// # Errors
/// If a file cannot be written. Traces are written and told of though the graph cannot be drawn.
pub fn tell(outcome: &mut Outcome, flags: &Flags) -> Result<(), Failure> {
    let (true, Some(measured)) = (flags.records(), &mut outcome.measured) else {
        return Ok(());
    };
    let traces = std::mem::take(&mut measured.traces);
    let drawn = match (&flags.dot, traces.first()) {
        (Some(path), Some(trace)) => draw(trace, path),
        _ => Ok(()),
    };
    let written = match &flags.trace {
        Some(path) => write(&traces, path, flags, outcome),
        None => Ok(()),
    };
    both(drawn, written)
}

fn draw(trace: &Trace, path: &Path) -> Result<(), Failure> {
    let failed = |fault: std::io::Error| Failure::output_unwritable(path, fault);
    let mut text = Vec::new();
    trace::write_to(trace, trace::Format::Dot, &mut text).map_err(failed)?;
    trace::replace(path, |mut file| file.write_all(&text)).map_err(failed)
}

/// Writes traces and tells of them; of several graphs those that the window shows something of.
fn write(
    traces: &[Trace],
    path: &Path,
    flags: &Flags,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let view = |trace| View::cut(trace, flags.window.clone());
    // What lies beyond the longest graph lies beyond all, and is refused.
    if let Some(longest) = traces.iter().max_by_key(|trace| trace.length()) {
        let view = view(longest);
        if view.is_beyond() {
            view.write(path)?;
        }
    }
    let mut objects = Vec::new();
    let mut n_beyond = 0;
    for (trace, path) in traces.iter().zip(trace_files(path)) {
        if view(trace).is_beyond() {
            let seconds = trace.length() as f64 / 1e9;
            outcome.say(format!("no trace of {}: it lasted {seconds} s", trace.name));
            n_beyond += 1;
            continue;
        }
        view(trace).write(&path)?;
        let told = trace.explanation();
        outcome.say(format!("trace of {} in {}", trace.name, path.display()));
        outcome.say(told.to_string().trim_end());
        objects.push(object(trace, &told, &path));
    }
    let left_out = traces.len() - objects.len();
    let more = left_out - n_beyond;
    if more > 0 {
        outcome.say(format!(
            "traces of {} of this run are left out",
            counted(more, "more graph")
        ));
    }
    outcome.set("trace", objects);
    outcome.set("traces_left_out", left_out);
    Ok(())
}

fn object(trace: &Trace, told: &Explanation, path: &Path) -> Value {
    let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
    let ahead = trace
        .ranks
        .iter()
        .map(|rank| rank.clock_ahead as f64 * 1e-9);
    // Parts of one graph may have classes of one name.
    let mut shares = Map::new();
    for share in &told.shares {
        let before = shares.get(&share.name).and_then(Value::as_f64);
        shares.insert(
            share.name.clone(),
            (before.unwrap_or(0.0) + share.part).into(),
        );
    }
    let chains = told.chains.iter();
    let chains: Vec<Value> = chains
        .map(|(length, shown)| json!({ "seconds": seconds(*length), "tasks": shown }))
        .collect();
    json!({
        "file": path.display().to_string(),
        "graph": trace.name,
        "verdict": told.verdict(),
        "workers": told.n_workers,
        "seconds": seconds(told.length),
        "area_seconds": seconds(told.limits.area),
        "path_seconds": seconds(told.limits.path),
        "efficiency": told.efficiency,
        "shares": shares,
        "hidden_share": told.hidden,
        "chains": chains,
        "missing_records": told.missing,
        "messages_backwards": told.backwards.0,
        "clock_error_seconds": seconds(trace.clock_error),
        "clock_ahead_seconds": ahead.collect::<Vec<f64>>(),
    })
}
