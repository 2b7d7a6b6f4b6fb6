//! SVG: a Gantt chart as one file, with what it shows above and what colours mean below.

use crate::draw::{Picture, lines, style};
use crate::gantt;
use crate::text::time;
use crate::view::View;
use dataflow_core::trace::{Fate, Trace};
use dataflow_core::words::counted;
use std::io;

/// Writes what is seen of a trace.
pub(crate) fn write(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut picture = Picture::default();
    picture.text("h", 8.0, 26.0, &view.trace.name);
    let mut y = 46.0;
    let about = [
        parameters(view),
        machine(view),
        view.trace.explanation().verdict().to_string(),
    ];
    for line in about.iter().flat_map(|line| lines(line, 170)) {
        picture.text("t", 8.0, y, &line);
        y += 16.0;
    }
    gantt::draw(view, &mut picture, y + 4.0);
    out.write_all(picture.alone(&style(view.trace.classes.len())).as_bytes())?;
    out.flush()
}

/// Writes whole traces one below the other, each under its name, on one axis of time.
pub(crate) fn write_beside(runs: &[(&str, &Trace)], out: &mut dyn io::Write) -> io::Result<()> {
    let mut picture = Picture::default();
    let (mut y, mut n_classes) = (26.0, 0);
    let end = runs.iter().map(|(_, trace)| trace.length()).max();
    for (number, (name, trace)) in runs.iter().enumerate() {
        let mark = format!("run{number}");
        let view = View::beside(trace, end.unwrap_or(0), &mark);
        n_classes = n_classes.max(trace.classes.len());
        picture.text("h", 8.0, y, name);
        let about = [machine(&view), trace.explanation().verdict().to_string()];
        for line in about.iter().flat_map(|line| lines(line, 170)) {
            y += 16.0;
            picture.text("t", 8.0, y, &line);
        }
        y = 22.0 + gantt::draw(&view, &mut picture, y + 12.0);
    }
    out.write_all(picture.alone(&style(n_classes)).as_bytes())?;
    out.flush()
}

/// The parameters of what ran.
pub(crate) fn parameters(view: &View<'_>) -> String {
    let parameters = view.trace.parameters.iter();
    let shown: Vec<_> = parameters
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    shown.join(", ")
}

/// What it ran on, how long, and how many tasks there were.
pub(crate) fn machine(view: &View<'_>) -> String {
    let trace = view.trace;
    let mut workers: Vec<usize> = trace.ranks.iter().map(|rank| rank.workers.len()).collect();
    workers.sort_unstable();
    let of_each = match (workers.first(), workers.last()) {
        (Some(least), Some(most)) if least == most => counted(*least, "worker"),
        (Some(least), Some(most)) => format!("{least} to {most} workers"),
        _ => "no workers".to_string(),
    };
    let ranks = counted(trace.ranks.len(), "rank");
    let ran = trace.slices().filter(|(_, of)| of.fate != Fate::Skipped);
    let tasks = counted(ran.count(), "task");
    let mut text = format!("{ranks} × {of_each}, {tasks} in {}", time(trace.length()));
    let missing: u64 = trace.ranks.iter().map(|rank| rank.missing).sum();
    if missing > 0 {
        let records = counted(missing as usize, "record");
        text.push_str(&format!("; {records} found no room"));
    }
    let (own, seen) = (view.span(), view.ranks().count());
    if own.begin > 0 || own.end < trace.length() || seen < trace.ranks.len() {
        let (begin, end) = (time(own.begin), time(own.end));
        text.push_str(&format!(
            "; shown: {}, {begin} to {end}",
            counted(seen, "rank")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::rank::Rank;
    use dataflow_core::trace::{RankTrace, Slice, Span};

    /// Skipped tasks were counted, and notes that found no room were called tasks.
    #[test]
    fn tasks_are_counted_that_ran_and_records_that_found_no_room() {
        let slice = |fate| Slice {
            fate,
            ..Slice::default()
        };
        let slices = [Fate::Ran, Fate::Failed, Fate::Skipped].map(slice);
        let span = Span { begin: 0, end: 50 };
        let mut rank = RankTrace::new(Rank(0), span, vec![slices.to_vec()]);
        rank.missing = 1200;
        let trace = Trace::new("run", ["Gemm"], vec![rank]);
        let expected = "1 rank × 1 worker, 2 tasks in 50 ns; 1200 records found no room";
        assert_eq!(machine(&View::of(&trace)), expected);
    }

    #[test]
    fn ranks_of_several_sizes_are_told_and_what_of_them_is_shown() {
        let span = Span { begin: 0, end: 50 };
        let rank = |number, workers| RankTrace::new(Rank(number), span, vec![vec![]; workers]);
        let trace = Trace::new("run", ["Gemm"], vec![rank(0, 3), rank(1, 1), rank(2, 2)]);
        let shown = |window: &str| machine(&View::cut(&trace, window.parse().unwrap()));
        let all = "3 ranks × 1 to 3 workers, 0 tasks in 50 ns";
        assert_eq!(shown(".."), all);
        for (window, part) in [
            ("..@1..", "2 ranks, 0 ns to 50 ns"),
            ("0.00000001..", "3 ranks, 10 ns to 50 ns"),
            ("..0.00000002@2..3", "1 rank, 0 ns to 20 ns"),
        ] {
            assert_eq!(shown(window), format!("{all}; shown: {part}"));
        }
    }
}
