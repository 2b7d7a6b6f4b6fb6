//! Pictures and pages: what is drawn, what is summed up where it is too much, and what is written beside it.

use crate::traces::{file, text};
use crate::xml::{self, Element};
use crate::{perfetto, two_ranks};
use dataflow_core::rank::Rank;
use dataflow_core::trace::{Came, Fate, Posted, RankTrace, Slice, Span, Trace};
use dataflow_trace::{Format, View, write_beside};
use std::collections::BTreeSet;

/// The classes of all elements, which have a style each.
pub fn classes(elements: &[Element]) -> BTreeSet<&str> {
    let classes = elements.iter().filter_map(|it| it.attributes.get("class"));
    classes.flat_map(|classes| classes.split(' ')).collect()
}

/// A task from when to when.
fn slice(task: u64, begin: u64, end: u64) -> Slice {
    let span = Span { begin, end };
    Slice {
        task,
        span,
        ..Slice::default()
    }
}

/// A rank whose workers did this.
fn rank(number: u32, end: u64, workers: Vec<Vec<Slice>>) -> RankTrace {
    RankTrace::new(Rank(number), Span { begin: 0, end }, workers)
}

/// Texts of a picture or page.
fn texts(trace: &Trace, format: Format) -> Vec<String> {
    let elements = xml::read(&text(&View::of(trace), format));
    elements.into_iter().map(|it| it.text).collect()
}

#[test]
fn a_task_that_failed_is_marked_by_name_and_explained() {
    let mut failed = slice(1, 10, 30);
    failed.fate = Fate::Failed;
    let slices = |second| vec![vec![slice(0, 0, 10), second]];
    let trace = Trace::new("run", ["Step"], vec![rank(0, 40, slices(failed))]);
    let texts_of_failed = texts(&trace, Format::Svg);
    for told in ["failed: Step 1", "failed"] {
        assert!(texts_of_failed.iter().any(|text| text == told), "{told}");
    }
    let trace = Trace::new("run", ["Step"], vec![rank(0, 40, slices(slice(1, 10, 30)))]);
    assert!(
        !texts(&trace, Format::Svg)
            .iter()
            .any(|text| text == "failed")
    );
}

/// So many messages from one rank to another, each read by a task.
fn messages(n: u64) -> Trace {
    let sent = (0..n).map(|task| slice(task, 10 * task, 10 * task + 5));
    let read = (0..n).map(|task| slice(n + task, 10 * task + 8, 10 * task + 9));
    let mut from = rank(0, 10 * n, vec![sent.collect()]);
    let mut to = rank(1, 10 * n, vec![read.collect()]);
    for task in 0..n {
        let (at, bytes) = (10 * task + 5, 8);
        from.posted.push(Posted {
            task,
            at,
            to: Rank(1),
            bytes,
            left: None,
        });
        to.came.push(Came {
            task,
            at: at + 2,
            from: Rank(0),
            bytes,
            ..Came::default()
        });
    }
    let to = to.with_inputs(|_, slice| vec![(slice.task - n, Rank(0))]);
    Trace::new("messages", ["Step"], vec![from, to])
}

#[test]
fn messages_are_arrows_while_they_are_few() {
    for (n, told) in [(1, "1 message"), (600, "600 messages")] {
        let told = told.to_string();
        assert!(texts(&messages(n), Format::Svg).contains(&told), "{told}");
    }
    let many = xml::read(&text(&View::of(&messages(601)), Format::Svg));
    assert!(!many.iter().any(|it| it.text == "601 messages"));
    assert!(!classes(&many).contains("w"), "no arrow is drawn");
}

/// The worker that read a message first stands where its arrow ends, not the first worker that read it.
#[test]
fn an_arrow_ends_at_the_task_that_read_first() {
    let mut ranks = messages(1).ranks;
    let workers = vec![vec![slice(1, 9, 10)], vec![slice(2, 8, 9)]];
    let mut to = rank(1, 10, workers);
    to.came = std::mem::take(&mut ranks[1].came);
    ranks[1] = to.with_inputs(|_, _| vec![(0, Rank(0))]);
    let trace = Trace::new("two readers", ["Step"], ranks);
    let written = text(&View::of(&trace), Format::Paraver);
    assert!(
        written.contains("\n3:1:1:1:1:5:5:3:1:2:2:7:7:8:1\n"),
        "{written}"
    );
}

/// So many ranks, each with workers that run a task which was ready before.
fn waiting(n_ranks: u32, n_workers: usize) -> Trace {
    let task = Slice {
        ready: 3,
        ..slice(0, 10, 20)
    };
    let ranks = (0..n_ranks).map(|number| rank(number, 20, vec![vec![task]; n_workers]));
    Trace::new("waiting", ["Step"], ranks.collect())
}

#[test]
fn many_ranks_are_one_line_and_many_workers_share_a_bar() {
    let has = |trace: &Trace, told: &str| texts(trace, Format::Html).iter().any(|of| of == told);
    let (few, many) = (waiting(8, 1), waiting(9, 1));
    assert!(has(&few, "rank 7") && !has(&few, "sum of 8 ranks"));
    assert!(has(&many, "sum of 9 ranks"));
    let (few, many) = (waiting(1, 64), waiting(1, 130));
    assert!(has(&few, "0.63") && !has(&few, "0.0 to 0.1"));
    assert!(has(&many, "0.0 to 0.2") && has(&many, "0.129"));
}

#[test]
fn bodies_are_told_apart_by_where_their_data_lay_and_outliers_are_counted() {
    let locality = ["by its own worker", "stolen", "with data from another rank"];
    let told = |trace: &Trace| {
        let texts = texts(trace, Format::Html);
        locality.map(|of| texts.iter().any(|text| text == of))
    };
    let mut trace = Trace::new(
        "run",
        ["Step"],
        vec![rank(0, 9, vec![vec![slice(0, 0, 9)]])],
    );
    assert_eq!(told(&trace), [true, false, false]);
    trace.ranks[0].slices[0].stolen = true;
    assert_eq!(told(&trace), [false, true, false]);
    let mut trace = messages(1);
    assert_eq!(told(&trace), [true, false, true]);
    trace.ranks[1].slices[0].stolen = true;
    assert_eq!(told(&trace), [true, false, true]);
    let many = (0..100).map(|task| slice(task, 10 * task, 10 * task + 10));
    let all = many.chain([slice(100, 1_000, 9_000)]).collect();
    let trace = Trace::new("run", ["Step"], vec![rank(0, 9_000, vec![all])]);
    let texts = texts(&trace, Format::Html);
    let beyond = |text: &&String| text.ends_with(" (1 more, up to 8 µs)");
    assert_eq!(texts.iter().filter(beyond).count(), 1, "{texts:?}");
}

#[test]
fn runs_beside_one_another_have_one_scale_and_each_the_shares_of_its_own_time() {
    let run = |end| {
        let ranks = vec![rank(0, end, vec![vec![slice(0, 0, end)]])];
        Trace::new("run", ["Step"], ranks)
    };
    let mut out = Vec::new();
    write_beside(&[("before", &run(40)), ("after", &run(20))], &mut out).unwrap();
    let elements = xml::read(&String::from_utf8(out).unwrap());
    let count = |told: &str| elements.iter().filter(|it| it.text == told).count();
    assert_eq!((count("before"), count("after")), (1, 1));
    assert_eq!(count("40 ns"), 2, "both axes go as far");
    assert_eq!(count("Step 100.0 %"), 2);
    assert!(
        !elements.iter().any(|it| it.name == "title"),
        "no name of a task"
    );
}

#[test]
fn what_colours_mean_takes_as_many_lines_as_it_needs() {
    let n = 60;
    let slices = (0..n).map(|task| Slice {
        class: task as u16,
        ..slice(task, 10 * task, 10 * task + 10)
    });
    let names = (0..n).map(|class| format!("Factorise{class}"));
    let ranks = vec![rank(0, 10 * n, vec![slices.collect()])];
    let trace = Trace::new("run", names, ranks);
    for format in [Format::Svg, Format::Html] {
        let elements = xml::read(&text(&View::of(&trace), format));
        let of_legend = |it: &&Element| it.name == "text" && it.text.starts_with("Factorise");
        let legend: Vec<_> = elements.iter().filter(of_legend).collect();
        assert!(legend.len() >= n as usize, "{}", legend.len());
        for it in legend {
            let x: f64 = it.attributes["x"].parse().unwrap();
            assert!(
                x + 7.0 * it.text.len() as f64 <= 1200.0,
                "{} at {x}",
                it.text
            );
        }
    }
}

#[test]
fn a_page_has_a_line_for_parameters_if_there_are_some() {
    let mut trace = two_ranks();
    let lines = |trace: &Trace| {
        let elements = xml::read(&text(&View::of(trace), Format::Html));
        let about = |it: &&Element| it.attributes.get("class").is_some_and(|of| of == "about");
        elements.iter().filter(about).count()
    };
    assert_eq!(lines(&trace), 1);
    trace.parameters = vec![("n".into(), "7".into())];
    assert_eq!(lines(&trace), 2);
}

#[test]
fn files_for_viewers_tell_how_long_a_task_waited_and_how_far_clocks_are_apart() {
    let written = text(&View::of(&waiting(1, 1)), Format::Chrome);
    assert!(written.contains("\"waited (ns)\":7}"), "{written}");
    let mut trace = two_ranks();
    trace.clock_error = 1_234;
    trace.ranks[1].missing = 5;
    let read = perfetto::read(&file(&View::of(&trace), Format::Perfetto));
    assert_eq!(read.of_run["clock error (ns)"], 1_234);
    assert_eq!(read.of_run["missing records"], 5);
}
