//! Files of traces, read back by strict readers of their grammars: what was written is what was run.

mod cholesky;
mod chrome;
mod paje;
mod paraver;
mod perfetto;
mod pictures;
mod traces;
mod xml;

use dataflow_core::rank::Rank;
use dataflow_core::trace::{At, Came, Posted, RankTrace, Slice, Span, Trace};
use dataflow_trace::{Format, View, Window, WriteError, write};
use paraver::Labels;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use traces::{Body, arrows, bodies, file, random, text};

/// The tasks of each worker.
type Bodies = BTreeMap<(u32, usize), Vec<Body>>;

/// Tasks as formats have them that cannot escape names and tell only what became of each.
fn plain(mut bodies: Bodies) -> Bodies {
    for own in bodies.values_mut() {
        for body in own.iter_mut() {
            body.class = body.class.replace('"', "'").replace('\n', " ");
            let is_fate = |mark: &String| ["skipped", "failed"].contains(&mark.as_str());
            body.marks.retain(is_fate);
        }
        own.sort();
    }
    bodies
}

/// What Paraver's records say of these ranks, with the labels of their values.
fn labelled(read: &paraver::Read, types: &Labels, ranks: &[&RankTrace]) -> Bodies {
    let label = |kind: u64, value: u64| types[&kind][&value].clone();
    let body = |&(class, begin, end, fate): &(u64, u64, u64, u64)| Body {
        class: label(9_000_001, class),
        span: (begin, end),
        marks: (fate > 0)
            .then(|| label(9_000_002, fate))
            .into_iter()
            .collect(),
    };
    let mut found = Bodies::new();
    for (task, rank) in ranks.iter().enumerate() {
        for worker in 0..rank.workers.len() {
            let own = read.bodies.get(&(task + 1, worker + 1));
            let mut own: Vec<Body> = own.into_iter().flatten().map(body).collect();
            own.sort();
            found.insert((rank.rank.0, worker), own);
        }
    }
    found
}

/// The messages that its records say these ranks sent one another.
fn messages(read: &paraver::Read, ranks: &[&RankTrace]) -> Vec<traces::Arrow> {
    let number = |task: usize| ranks[task - 1].rank.0;
    let found = read.messages.iter();
    let found = found.map(|&(f, t, b, e, n)| (number(f), number(t), b, e, n));
    let mut found: Vec<_> = found.collect();
    found.sort();
    found
}

fn without_bytes(arrows: Vec<traces::Arrow>) -> Vec<traces::Arrow> {
    let mut arrows: Vec<_> = arrows
        .into_iter()
        .map(|(f, t, b, e, _)| (f, t, b, e, 0))
        .collect();
    arrows.sort();
    arrows
}

proptest! {
    #[test]
    fn perfetto_says_what_was_run(seed in any::<u64>(), most in 0_u64..40) {
        let trace = random(seed, most);
        let read = perfetto::read(&file(&View::of(&trace), Format::Perfetto));
        prop_assert_eq!(&read.bodies, &bodies(&trace));
        prop_assert_eq!(&read.arrows, &arrows(&trace));
        let missing = trace.ranks.iter().filter(|rank| rank.missing > 0);
        prop_assert_eq!(read.dropped, missing.map(|rank| rank.workers.len()).sum::<usize>());
        for ((_, name), values) in &read.counters {
            prop_assert!(values.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}: {values:?}");
        }
        for rank in &trace.ranks {
            let waiting = rank.slices.iter().any(|slice| slice.ready < slice.span.begin);
            let key = (rank.rank.0, "ready tasks".to_string());
            let last = read.counters.get(&key).and_then(|values| values.last());
            prop_assert_eq!(last.map(|(_, value)| *value), waiting.then_some(0));
        }
    }

    #[test]
    fn chrome_says_what_was_run(seed in any::<u64>(), most in 0_u64..40) {
        let trace = random(seed, most);
        let read = chrome::read(&text(&View::of(&trace), Format::Chrome));
        prop_assert_eq!(read.bodies, bodies(&trace));
        prop_assert_eq!(read.arrows, without_bytes(arrows(&trace)));
    }

    #[test]
    fn paje_says_what_was_run(seed in any::<u64>(), most in 0_u64..40) {
        let trace = random(seed, most);
        let read = paje::read(&text(&View::of(&trace), Format::Paje));
        prop_assert_eq!(read.bodies, plain(bodies(&trace)));
        prop_assert_eq!(read.arrows, without_bytes(arrows(&trace)));
    }

    #[test]
    fn paraver_says_what_was_run(seed in any::<u64>(), most in 0_u64..40) {
        let trace = random(seed, most);
        if trace.ranks.is_empty() {
            let refused = View::of(&trace).write_to(Format::Paraver, &mut Vec::new());
            prop_assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
            return Ok(());
        }
        let folder = Folder::new(&format!("prv-{seed}-{most}"));
        write(&trace, &folder.path("run.prv")).unwrap();
        let read = paraver::read(&folder.read("run.prv"));
        let (states, types) = paraver::labels(&folder.read("run.pcf"));
        let rows = paraver::rows(&folder.read("run.row"));
        prop_assert_eq!(rows["THREAD"].len(), read.threads.iter().sum::<usize>());
        prop_assert_eq!((rows["CPU"].len(), rows["NODE"].len()), (rows["THREAD"].len(), rows["TASK"].len()));
        prop_assert_eq!(rows["TASK"].len(), trace.ranks.len());
        for (task, rank) in trace.ranks.iter().enumerate() {
            for worker in 0..rank.workers.len() {
                let object = (task + 1, worker + 1);
                let states_of = read.states.get(&object).cloned().unwrap_or_default();
                prop_assert!(states_of.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap");
                let sum: u64 = states_of.iter().map(|(begin, end, _)| end - begin).sum();
                prop_assert_eq!(sum, trace.length());
                prop_assert!(states_of.iter().all(|(.., state)| states.contains_key(state)));
            }
        }
        let ranks: Vec<&RankTrace> = trace.ranks.iter().collect();
        prop_assert_eq!(labelled(&read, &types, &ranks), plain(bodies(&trace)));
        prop_assert_eq!(messages(&read, &ranks), arrows(&trace));
        for (kind, value) in read.values {
            prop_assert!(types.contains_key(&kind));
            prop_assert!(kind > 9_000_002 || types[&kind].contains_key(&value));
        }
    }

    #[test]
    fn pictures_are_well_formed_and_have_a_row_for_every_worker(
        seed in any::<u64>(),
        most in 0_u64..40,
    ) {
        let trace = random(seed, most);
        for format in [Format::Svg, Format::Html] {
            let text = text(&View::of(&trace), format);
            let elements = xml::read(&text);
            let ids: Vec<&String> = elements.iter().filter_map(|it| it.attributes.get("id")).collect();
            for (rank, worker) in bodies(&trace).keys() {
                let id = format!("r{rank}w{worker}");
                prop_assert!(ids.contains(&&id), "{id} is no row");
            }
            let title = if format == Format::Svg { "text" } else { "h1" };
            prop_assert!(elements.iter().any(|it| it.name == title && it.text == trace.name));
            for class in pictures::classes(&elements) {
                prop_assert!(text.contains(&format!(".{class}{{")), "{class} has no style");
            }
            for number in elements.iter().flat_map(|it| &it.attributes) {
                let is_length = ["width", "height", "r"].contains(&number.0.as_str());
                let value = number.1.parse::<f64>();
                prop_assert!(!is_length || value.is_ok_and(|value| value >= 0.0), "{number:?}");
            }
        }
    }

    #[test]
    fn a_cut_leaves_out_and_never_shortens(
        seed in any::<u64>(),
        (from, length) in (0_u64..500, 0_u64..500),
        (first, n) in (0_u32..4, 0_u32..5),
    ) {
        let trace = random(seed, 30);
        let window = Window { from, to: from + length, ranks: first..first + n };
        let view = View::cut(&trace, window.clone());
        prop_assert_eq!(view.is_beyond(), from > trace.length() || window.to == 0);
        prop_assume!(!view.is_beyond());
        let overlaps = |begin, end| {
            begin < window.to && (end > window.from || begin >= window.from)
        };
        let mut seen = bodies(&trace);
        seen.retain(|(rank, _), _| window.ranks.contains(rank));
        seen.values_mut().for_each(|own| own.retain(|body| overlaps(body.span.0, body.span.1)));
        let mut under_way = arrows(&trace);
        under_way.retain(|&(from, to, begin, end, _)| {
            [from, to].iter().all(|rank| window.ranks.contains(rank)) && overlaps(begin, end)
        });
        let perfetto = perfetto::read(&file(&view, Format::Perfetto));
        prop_assert_eq!((&perfetto.bodies, &perfetto.arrows), (&seen, &under_way));
        let bare = without_bytes(under_way.clone());
        let chrome = chrome::read(&text(&view, Format::Chrome));
        prop_assert_eq!((&chrome.bodies, &chrome.arrows), (&seen, &bare));
        let seen = plain(seen);
        let paje = paje::read(&text(&view, Format::Paje));
        prop_assert_eq!((&paje.bodies, &paje.arrows), (&seen, &bare));
        for format in [Format::Svg, Format::Html] {
            xml::read(&text(&view, format));
        }
        let ranks = trace.ranks.iter().filter(|rank| window.ranks.contains(&rank.rank.0));
        let ranks: Vec<&RankTrace> = ranks.collect();
        if !ranks.is_empty() {
            let folder = Folder::new(&format!("cut-{seed}-{from}-{length}-{first}-{n}"));
            view.write(&folder.path("run.prv")).unwrap();
            let read = paraver::read(&folder.read("run.prv"));
            let (_, types) = paraver::labels(&folder.read("run.pcf"));
            prop_assert_eq!(labelled(&read, &types, &ranks), seen);
            prop_assert_eq!(messages(&read, &ranks), under_way);
        }
    }
}

/// Two ranks; the first sends to the second, which had to wait.
fn two_ranks() -> Trace {
    let slice = |task, begin, end, class| Slice {
        task,
        span: Span { begin, end },
        class,
        ..Slice::default()
    };
    let span = Span { begin: 0, end: 100 };
    let mut one = RankTrace::new(
        Rank(0),
        span,
        vec![vec![slice(0, 0, 40, 0), slice(1, 40, 90, 1)]],
    );
    let mut other = RankTrace::new(Rank(1), span, vec![vec![slice(2, 60, 90, 1)]]);
    one.posted = vec![Posted {
        task: 0,
        at: 42,
        to: Rank(1),
        bytes: 800,
        left: None,
    }];
    other.came = vec![Came {
        task: 0,
        at: 60,
        from: Rank(0),
        bytes: 800,
        ..Came::default()
    }];
    let one = one.with_inputs(|index, _| [(0, Rank(0))][..index].to_vec());
    let other = other.with_inputs(|_, _| vec![(0, Rank(0))]);
    Trace::new("two ranks", ["Potrf", "Trsm"], vec![one, other])
}

/// The same: the message left at 45, was heard of at 46, asked for at 51 and there at 55.
fn two_ranks_stamped() -> Trace {
    let mut ranks = two_ranks().ranks;
    ranks[0].posted[0].left = Some(45);
    let came = &mut ranks[1].came[0];
    (came.heard, came.asked, came.there) = (Some(46), Some(51), Some(55));
    Trace::new("two ranks", ["Potrf", "Trsm"], ranks)
}

#[test]
fn when_a_message_had_left_and_come_is_seen() {
    let trace = two_ranks_stamped();
    let view = View::of(&trace);
    let read = perfetto::read(&file(&view, Format::Perfetto));
    let stamps = [
        ("left", (0, 45)),
        ("heard", (1, 46)),
        ("asked for", (1, 51)),
        ("there", (1, 55)),
    ];
    let stamps = stamps.map(|(name, at)| ((1, name.to_string()), at));
    assert_eq!(read.stamps, BTreeMap::from(stamps));
    assert!(text(&view, Format::Paraver).contains("\n3:1:1:1:1:42:45:2:1:2:1:60:55:800:1\n"));
    let page = text(&view, Format::Html);
    let told = "13 ns under way on average, 5 ns of it announced and not asked for, 5 ns more until they were taken in";
    assert!(page.contains(told), "{page}");
}

#[test]
fn what_has_no_length_is_seen_where_the_window_begins() {
    let slice = |begin| Slice {
        task: begin,
        span: Span { begin, end: begin },
        ..Slice::default()
    };
    let slices = vec![slice(0), slice(20), slice(40)];
    let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 60 }, vec![slices]);
    let trace = Trace::new("empty bodies", ["Task"], vec![rank]);
    for (from, to, expected) in [(0, u64::MAX, 3), (20, 40, 1), (1, 20, 0), (0, 1, 1)] {
        let window = Window {
            from,
            to,
            ..Window::default()
        };
        let read = chrome::read(&text(&View::cut(&trace, window), Format::Chrome));
        assert_eq!(read.bodies[&(0, 0)].len(), expected, "{from} to {to}");
    }
}

/// Each format made a file of no task, as of a run that had none.
#[test]
fn a_window_beyond_the_run_is_refused_with_how_long_the_run_was() {
    let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 60 }, vec![vec![]]);
    let trace = Trace::new("short", ["Task"], vec![rank]);
    let folder = Folder::new("beyond");
    for (window, told) in [
        ("5..6", Some("5..6 s")),
        ("0.000000061..", Some("0.000000061.. s")),
        ("0..0", Some("0..0 s")),
        ("0.00000006..", None),
        ("..", None),
    ] {
        let view = View::cut(&trace, window.parse().unwrap());
        for (extension, format) in [
            ("pftrace", Format::Perfetto),
            ("prv", Format::Paraver),
            ("paje", Format::Paje),
            ("json", Format::Chrome),
            ("dot", Format::Dot),
            ("svg", Format::Svg),
            ("html", Format::Html),
        ] {
            let path = folder.path(&format!("run.{extension}"));
            let written = view.write(&path).map_err(|fault| fault.to_string());
            let sent = view.write_to(format, &mut Vec::new());
            let Some(told) = told else {
                written.unwrap();
                sent.unwrap();
                std::fs::remove_file(&path).unwrap();
                continue;
            };
            let told =
                format!("nothing of the run is in the window {told} (the run lasted 0.00000006 s)");
            assert_eq!(sent.unwrap_err().to_string(), told);
            assert_eq!(written, Err(format!("{}: {told}", path.display())));
            assert!(!path.exists(), "{window}: {extension}");
        }
    }
}

#[test]
fn counters_say_what_is_ready_what_is_pending_and_what_is_held() {
    let read = perfetto::read(&file(&View::of(&two_ranks()), Format::Perfetto));
    let held = (1, "received bytes held".to_string());
    // From the time it was taken in until the task that read it had ended.
    assert_eq!(read.counters[&held], [(60, 800), (90, 0)]);
    let slice = |task, begin, end| Slice {
        task,
        span: Span { begin, end },
        ..Slice::default()
    };
    let slices = vec![slice(0, 0, 10), slice(1, 10, 20), slice(2, 20, 30)];
    let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 30 }, vec![slices]);
    let rank = rank.with_inputs(|index, _| vec![(0, Rank(0)); index.min(1)]);
    let trace = Trace::new("fork", ["Task"], vec![rank]);
    let read = perfetto::read(&file(&View::of(&trace), Format::Perfetto));
    let ready = (0, "ready tasks".to_string());
    assert_eq!(read.counters[&ready], [(10, 1), (20, 0)]);
    let pending = (0, "pending tasks".to_string());
    assert!(
        !read.counters.contains_key(&pending),
        "one input is the last"
    );
    // Rank 1's task waits for its own first (50), and for what is taken in at 60.
    let mut ranks = two_ranks().ranks;
    let begin = Span { begin: 0, end: 100 };
    let slices = vec![slice(3, 0, 50), slice(2, 60, 90)];
    let mut other = RankTrace::new(Rank(1), begin, vec![slices]);
    other.came = std::mem::take(&mut ranks[1].came);
    let inputs = [(3, Rank(1)), (0, Rank(0))];
    ranks[1] = other.with_inputs(|index, _| inputs[..2 * index].to_vec());
    let trace = Trace::new("join", ["Task"], ranks);
    let read = perfetto::read(&file(&View::of(&trace), Format::Perfetto));
    let pending = (1, "pending tasks".to_string());
    assert_eq!(read.counters[&pending], [(50, 1), (60, 0)]);
}

/// Only messages under way within the window, between ranks that are seen, were counted.
#[test]
fn what_came_before_the_window_or_from_a_rank_outside_is_held_within() {
    let trace = two_ranks();
    let all = Window::default();
    let between = Window {
        from: 70,
        to: 80,
        ..all.clone()
    };
    let receiver = Window { ranks: 1..2, ..all };
    for (window, expected) in [
        (between, vec![(70, 800)]),
        (receiver, vec![(60, 800), (90, 0)]),
    ] {
        let view = View::cut(&trace, window);
        let read = perfetto::read(&file(&view, Format::Perfetto));
        let held = (1, "received bytes held".to_string());
        assert_eq!(read.counters[&held], expected);
        assert!(text(&view, Format::Html).contains("Received data held"));
    }
}

#[test]
fn paraver_leaves_out_what_its_labels_cannot_hold() {
    for (task, is_there) in [((1 << 31) - 1, true), (1 << 31, false)] {
        let span = Span { begin: 0, end: 10 };
        let slice = Slice {
            task,
            span,
            ..Slice::default()
        };
        let rank = RankTrace::new(Rank(0), span, vec![vec![slice]]);
        let trace = Trace::new("large", ["Task"], vec![rank]);
        let read = paraver::read(&text(&View::of(&trace), Format::Paraver));
        assert_eq!(read.values.contains(&(9_000_003, task)), is_there);
    }
}

#[test]
fn paraver_of_two_ranks_is_this_text() {
    let expected = "\
#Paraver (01/01/1970 at 00:00):100_ns:2(1,1):1:2(1:1,1:2)
1:1:1:1:1:0:40:1
2:1:1:1:1:0:9000001:1:9000003:0
1:2:1:2:1:0:42:4
2:1:1:1:1:40:9000001:0
1:1:1:1:1:40:90:1
2:1:1:1:1:40:9000001:2:9000003:1
3:1:1:1:1:42:42:2:1:2:1:60:60:800:1
1:2:1:2:1:42:60:5
1:2:1:2:1:60:90:1
2:2:1:2:1:60:9000001:2:9000003:2
2:1:1:1:1:90:9000001:0
1:1:1:1:1:90:100:7
2:2:1:2:1:90:9000001:0
1:2:1:2:1:90:100:7
";
    assert_eq!(text(&View::of(&two_ranks()), Format::Paraver), expected);
}

#[test]
fn paje_of_two_ranks_is_this_text() {
    let text = text(&View::of(&two_ranks()), Format::Paje);
    let expected = "\
4 0.000000000 run Run 0 \"two ranks\"
4 0.000000000 r0 Rank run \"rank 0\"
4 0.000000000 r0w0 Worker r0 \"rank 0 worker 0\"
4 0.000000000 r1 Rank run \"rank 1\"
4 0.000000000 r1w0 Worker r1 \"rank 1 worker 0\"
7 0.000000000 Doing r0w0 c0 \"Potrf 0\"
6 0.000000000 Doing r1w0 i1
7 0.000000040 Doing r0w0 c1 \"Trsm 1\"
8 0.000000042 Message run r0 m k1
6 0.000000042 Doing r1w0 i2
9 0.000000060 Message run r1 m k1
7 0.000000060 Doing r1w0 c1 \"Trsm 2\"
6 0.000000090 Doing r0w0 i4
6 0.000000090 Doing r1w0 i4
5 0.000000100 Worker r0w0
5 0.000000100 Worker r1w0
5 0.000000100 Rank r0
5 0.000000100 Rank r1
5 0.000000100 Run run
";
    let events = text
        .find("4 0.000000000 run")
        .expect("the run is a container");
    assert_eq!(&text[events..], expected);
}

#[test]
fn tasks_within_a_task_are_nested_or_take_turns() {
    let slice = |task, begin, end| Slice {
        task,
        span: Span { begin, end },
        ..Slice::default()
    };
    let slices = vec![
        slice(0, 10, 80),
        slice(1, 20, 30),
        slice(2, 30, 50),
        slice(3, 80, 90),
    ];
    let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 100 }, vec![slices]);
    let trace = Trace::new("nested", ["Task"], vec![rank]);
    let view = View::of(&trace);
    let expected = bodies(&trace);
    assert_eq!(
        perfetto::read(&file(&view, Format::Perfetto)).bodies,
        expected
    );
    assert_eq!(chrome::read(&text(&view, Format::Chrome)).bodies, expected);
    let pieces: Vec<_> = paraver::read(&text(&view, Format::Paraver)).bodies[&(1, 1)].clone();
    assert_eq!(
        pieces,
        [
            (1, 10, 20, 0),
            (1, 20, 30, 0),
            (1, 30, 50, 0),
            (1, 50, 80, 0),
            (1, 80, 90, 0)
        ]
    );
}

#[test]
fn many_tasks_are_a_small_picture() {
    let mut dice = traces::Dice(7);
    let mut worker = || {
        let mut now = 0;
        let mut slice = |task| {
            let begin = now + dice.below(300);
            now = begin + dice.below(2_000);
            let class = dice.below(4) as u16;
            Slice {
                task,
                span: Span { begin, end: now },
                class,
                ..Slice::default()
            }
        };
        (0..20_000).map(&mut slice).collect::<Vec<_>>()
    };
    let workers: Vec<_> = (0..16).map(|_| worker()).collect();
    let end = workers
        .iter()
        .flatten()
        .map(|slice| slice.span.end)
        .max()
        .unwrap();
    let rank = RankTrace::new(Rank(0), Span { begin: 0, end }, workers);
    let trace = Trace::new("many", ["A", "B", "C", "D"], vec![rank]);
    let view = View::of(&trace);
    let (svg, html) = (text(&view, Format::Svg), text(&view, Format::Html));
    assert!(svg.len() < 700_000, "{} bytes", svg.len());
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
}

/// Of each pair of workers in a page's steal map: who made tasks ready, who ran them, how many, and how
/// many of them were stolen.
fn steal_map(trace: &Trace) -> BTreeMap<(String, String), (u64, u64)> {
    let page = xml::read(&text(&View::of(trace), Format::Html));
    let square = |title: &str| {
        let (pair, counts) = title.split_once(": ")?;
        let (from, to) = pair.split_once(" to ")?;
        let (tasks, stolen) = counts.split_once(", ")?;
        let (tasks, stolen) = (
            tasks.split_once(" task")?.0,
            stolen.strip_suffix(" stolen")?,
        );
        let counts = (tasks.parse().ok()?, stolen.parse().ok()?);
        Some(((from.to_string(), to.to_string()), counts))
    };
    let titles = page.iter().filter(|it| it.name == "title");
    titles.filter_map(|it| square(&it.text)).collect()
}

#[test]
fn the_steal_map_counts_what_a_worker_ran_and_another_made_ready() {
    for (grid, workers) in [((1, 1), 3), ((1, 2), 3)] {
        let trace = cholesky::trace(8, grid, workers);
        let name = |at: At| match trace.ranks.len() {
            1 => trace.slice(at).worker.to_string(),
            _ => format!("{}.{}", trace.ranks[at.rank].rank.0, trace.slice(at).worker),
        };
        let mut expected: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for (at, slice) in trace.slices() {
            if let Some(last) = trace.last_input(at).filter(|last| last.rank == at.rank) {
                let counts = expected.entry((name(last), name(at))).or_default();
                *counts = (counts.0 + 1, counts.1 + u64::from(slice.stolen));
            }
        }
        let moved = expected.iter().filter(|((from, to), _)| from != to);
        assert!(moved.count() > 1 && expected.values().any(|counts| counts.1 > 0));
        assert_eq!(steal_map(&trace), expected, "{grid:?}");
    }
}

/// So many workers, each with a task that the worker before it has made ready.
fn relay(workers: u64) -> Trace {
    let slice = |task: u64| Slice {
        task,
        span: Span {
            begin: 10 * task,
            end: 10 * task + 10,
        },
        ..Slice::default()
    };
    let span = Span {
        begin: 0,
        end: 10 * workers,
    };
    let own = (0..workers).map(|task| vec![slice(task)]).collect();
    let rank = RankTrace::new(Rank(0), span, own);
    let before = |slice: &Slice| slice.task.checked_sub(1).map(|task| (task, Rank(0)));
    let rank = rank.with_inputs(|_, slice| before(slice).into_iter().collect());
    Trace::new("relay", ["Task"], vec![rank])
}

#[test]
fn a_steal_map_is_there_if_tasks_change_workers_and_has_few_squares_for_many() {
    assert!(steal_map(&relay(1)).is_empty());
    let pair = |from: &str, to: &str| (from.to_string(), to.to_string());
    assert_eq!(steal_map(&relay(2)), [(pair("0", "1"), (1, 0))].into());
    let map = steal_map(&relay(130));
    assert_eq!(map.values().map(|counts| counts.0).sum::<u64>(), 129);
    let page = xml::read(&text(&View::of(&relay(130)), Format::Html));
    let squares = page
        .iter()
        .filter(|it| it.attributes.get("class").is_some_and(|of| of == "q"));
    assert!(squares.count() <= 64 * 64);
}

/// Readers of JSON take the last of two keys of one name, or none.
#[test]
fn no_two_keys_of_chromes_json_have_one_name() {
    use dataflow_core::prelude::*;
    use dataflow_core::trace::Schedule;
    let mut trace = two_ranks();
    let named = |name: &str, value: &str| (name.to_string(), value.to_string());
    trace.parameters = vec![
        named("n", "1"),
        named("name", "2"),
        named("n", "3"),
        named("n.2", "4"),
    ];
    let written = text(&View::of(&trace), Format::Chrome);
    let expected = r#""otherData":{"name":"two ranks","n":"1","name.2":"2","n.2":"3","n.2.2":"4"}"#;
    assert!(written.contains(expected), "{written}");

    dataflow_core::task_names! { enum Named { Step { failed, stolen } } }
    struct One;
    impl TaskSpace for One {
        type Task = Named;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("one").class("Step");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Named> + Send {
            std::iter::empty()
        }
        fn inputs(&self, _: Named, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: Named, _: &mut impl Successors<Self>) {}
        fn run(&self, _: Named, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let mut schedule = Schedule::new(1);
    let (failed, stolen) = (3, 4);
    let span = Span { begin: 0, end: 9 };
    schedule.ran(0, Named::Step { failed, stolen }, span, true);
    let written = text(&View::of(&schedule.trace(&One)), Format::Chrome);
    let expected = r#""args":{"failed.0":3,"stolen.1":4,"stolen":true,"#;
    assert!(written.contains(expected), "{written}");
}

#[test]
fn a_page_and_a_picture_say_how_many_tasks_were_not_done_when_the_run_ended() {
    let mut trace = two_ranks();
    let sentence = "The run ended before 12 of its tasks were done.";
    for format in [Format::Html, Format::Svg] {
        trace.ranks[1].undone = 0;
        let whole = text(&View::of(&trace), format);
        assert!(!whole.contains("The run ended before"), "{whole}");
        trace.ranks[1].undone = 12;
        let ended = text(&View::of(&trace), format);
        assert!(ended.contains(sentence), "{ended}");
    }
}

#[test]
fn an_empty_trace_is_a_file_too() {
    let trace = Trace::new("nothing", ["Task"], vec![]);
    let view = View::of(&trace);
    assert!(
        perfetto::read(&file(&view, Format::Perfetto))
            .bodies
            .is_empty()
    );
    assert!(chrome::read(&text(&view, Format::Chrome)).bodies.is_empty());
    assert!(paje::read(&text(&view, Format::Paje)).bodies.is_empty());
    xml::read(&text(&view, Format::Svg));
    xml::read(&text(&view, Format::Html));
}

#[test]
fn the_extension_names_the_format() {
    for (path, format) in [
        ("a.pftrace", Some(Format::Perfetto)),
        ("a.perfetto-trace", Some(Format::Perfetto)),
        ("a.b/c.PRV", Some(Format::Paraver)),
        ("a.paje", Some(Format::Paje)),
        ("a.trace", Some(Format::Paje)),
        ("a.json", Some(Format::Chrome)),
        ("a.svg", Some(Format::Svg)),
        ("a.html", Some(Format::Html)),
        ("a.txt", None),
        ("svg", None),
    ] {
        assert_eq!(Format::of(Path::new(path)), format, "{path}");
    }
}

#[test]
fn errors_name_the_path_and_what_is_allowed() {
    let refused = write(&two_ranks(), Path::new("run.otf2")).unwrap_err();
    assert!(matches!(refused, WriteError::Extension(_)));
    let expected = "run.otf2: no trace format has this extension (known: .pftrace, .perfetto-trace, .prv, .paje, .trace, .json, .dot, .gv, .svg, .html)";
    assert_eq!(refused.to_string(), expected);
    let refused = write(&two_ranks(), Path::new("no such folder/run.svg")).unwrap_err();
    assert!(refused.to_string().starts_with("no such folder/run.svg: "));
    assert!(std::error::Error::source(&refused).is_some());
}

/// A browser that read a page while the next one was written saw half of it.
#[cfg(unix)]
#[test]
fn a_file_is_replaced_as_a_whole_or_stays() {
    use std::io::Read;
    let folder = Folder::new("replaced");
    let path = folder.path("run.dot");
    write(&two_ranks(), &path).unwrap();
    let before = folder.read("run.dot");
    let mut reader = std::fs::File::open(&path).unwrap();
    write(&relay(2), &path).unwrap();
    let after = folder.read("run.dot");
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    assert!(read == before && after != before, "{read}");
    // Too many tasks for a drawing.
    let refused = write(&relay(2_001), &path).unwrap_err();
    assert!(matches!(refused, WriteError::File(..)), "{refused}");
    assert_eq!(folder.read("run.dot"), after);
    // What a link points to is written, and the link stays.
    let link = folder.path("link.dot");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    write(&two_ranks(), &link).unwrap();
    assert_eq!(folder.read("run.dot"), before);
    let names = std::fs::read_dir(&folder.0).unwrap();
    assert_eq!(names.count(), 2, "nothing is left beside them");
}

/// Both wrote into one file beside its place, and one of them found nothing to move.
#[test]
fn two_threads_that_write_one_file_each_leave_a_whole_one() {
    let folder = Folder::new("both");
    let path = folder.path("run.dot");
    let traces = [two_ranks(), relay(40)];
    let whole = traces
        .each_ref()
        .map(|trace| file(&View::of(trace), Format::Dot));
    std::thread::scope(|threads| {
        for trace in &traces {
            threads.spawn(|| {
                for _ in 0..200 {
                    write(trace, &path).unwrap();
                    let read = std::fs::read(&path).unwrap();
                    assert!(whole.contains(&read), "{}", String::from_utf8_lossy(&read));
                }
            });
        }
    });
    let names = std::fs::read_dir(&folder.0).unwrap();
    assert_eq!(names.count(), 1, "nothing is left beside it");
}

/// How fast files are written, for people: see CONTRIBUTING.md.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let tasks: u64 =
        std::env::var("TASKS").map_or(1_000_000, |tasks| tasks.parse().expect("a number"));
    let of_worker = |worker: u64| {
        let slice = |task: u64| Slice {
            task: worker * tasks + task,
            span: Span {
                begin: task * 1000,
                end: task * 1000 + 900,
            },
            class: (task % 4) as u16,
            ..Slice::default()
        };
        (0..tasks / 16).map(slice).collect::<Vec<_>>()
    };
    let workers: Vec<_> = (0..16).map(of_worker).collect();
    let rank = RankTrace::new(
        Rank(0),
        Span {
            begin: 0,
            end: tasks / 16 * 1000,
        },
        workers,
    );
    let trace = Trace::new("speed", ["Potrf", "Trsm", "Syrk", "Gemm"], vec![rank]);
    let formats = [
        Format::Perfetto,
        Format::Chrome,
        Format::Paraver,
        Format::Paje,
        Format::Svg,
        Format::Html,
    ];
    let timed = |name: &str, what: &dyn Fn()| {
        let begin = std::time::Instant::now();
        what();
        println!("{name}: {:.2} s", begin.elapsed().as_secs_f64());
    };
    timed("explanation", &|| {
        _ = std::hint::black_box(trace.explanation())
    });
    timed("limits", &|| _ = std::hint::black_box(trace.limits()));
    timed("activities", &|| {
        _ = std::hint::black_box(trace.activities_of(0))
    });
    timed("names", &|| {
        _ = trace
            .slices()
            .map(|(at, _)| trace.shown(at).len())
            .sum::<usize>()
    });
    for format in formats {
        let begin = std::time::Instant::now();
        let bytes = file(&View::of(&trace), format).len() as f64;
        let (time, n) = (begin.elapsed().as_secs_f64(), tasks as f64);
        println!(
            "{format:?}: {:.1} B a task, {:.0} MB/s, {time:.2} s",
            bytes / n,
            bytes / time / 1e6
        );
    }
}

/// Pictures to look at, in the folder that `PICTURES` names: see CONTRIBUTING.md.
#[test]
#[ignore = "for people"]
fn pictures() {
    let folder = std::env::var("PICTURES").expect("PICTURES names a folder");
    for (name, t, grid, workers) in [
        ("small", 6, (1, 1), 2),
        ("middle", 24, (2, 2), 4),
        ("large", 60, (4, 4), 12),
    ] {
        let trace = cholesky::trace(t, grid, workers);
        for extension in ["svg", "html", "pftrace", "prv", "paje", "json"] {
            write(
                &trace,
                &Path::new(&folder).join(format!("{name}.{extension}")),
            )
            .unwrap();
        }
    }
}

/// The page, which DATAFLOW_TRACE has written before a program returns its answer, panicked.
#[test]
fn every_format_writes_sums_beyond_64_bits() {
    let half = 1 << 61;
    let slices = [0, half].map(|begin| Slice {
        task: begin,
        span: Span {
            begin,
            end: begin + half,
        },
        ..Slice::default()
    });
    let span = Span {
        begin: 0,
        end: 2 * half,
    };
    // So many that pixels are coarse.
    let workers = vec![slices.to_vec(); 160];
    let mut ranks = [0, 1].map(|rank| RankTrace::new(Rank(rank), span, workers.clone()));
    for task in 0..9 {
        ranks[0].posted.push(Posted {
            task,
            at: 0,
            to: Rank(1),
            bytes: u64::MAX,
            left: None,
        });
        ranks[1].came.push(Came {
            task,
            at: span.end,
            from: Rank(0),
            bytes: u64::MAX,
            heard: Some(0),
            asked: Some(half),
            there: Some(half),
        });
    }
    let trace = Trace::new("long", ["Gemm"], ranks.into());
    assert_eq!(trace.messages().len(), 9);
    for format in FORMATS {
        let written = View::of(&trace).write_to(format, &mut Vec::new());
        written.unwrap_or_else(|error| panic!("{format:?}: {error}"));
    }
    let page = text(&View::of(&trace), Format::Html);
    for told in [
        "<td>Gemm</td><td>640</td><td>1475739525897 s</td>",
        "9 messages, 166020697 TB, 2305843009 s under way on average, 2305843009 s of it",
    ] {
        assert!(page.contains(told), "{page}");
    }
}

const FORMATS: [Format; 7] = [
    Format::Perfetto,
    Format::Paraver,
    Format::Paje,
    Format::Chrome,
    Format::Dot,
    Format::Svg,
    Format::Html,
];

/// Such a name was taken for one that packs, and there is none of its number.
#[test]
fn every_format_writes_a_task_that_the_space_does_not_list() {
    use dataflow_core::prelude::*;
    use dataflow_core::trace::Schedule;
    dataflow_core::task_names! { enum Named { A { i }, B { i, j, k } } }
    /// Lists one task of each class, but not the one that ran.
    struct Unlisted;
    impl TaskSpace for Unlisted {
        type Task = Named;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("unlisted").class("A");
            about.class("B");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Named> + Send {
            [Named::A { i: 0 }, Named::B { i: 0, j: 0, k: 0 }].into_iter()
        }
        fn inputs(&self, _: Named, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: Named, _: &mut impl Successors<Self>) {}
        fn run(&self, _: Named, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let mut schedule = Schedule::new(1);
    let (i, j, k) = (u32::MAX, 0, 0);
    let tasks = [Named::A { i: 0 }, Named::B { i, j, k }];
    for (task, begin) in tasks.into_iter().zip([0, 500]) {
        let end = begin + 500;
        schedule.ran(0, task, Span { begin, end }, false);
    }
    let trace = schedule.trace(&Unlisted);
    let (at, slice) = trace.slices().last().expect("two tasks ran");
    assert_eq!(trace.shown(at), format!("B {}", slice.task));
    for format in FORMATS {
        View::of(&trace)
            .write_to(format, &mut Vec::new())
            .unwrap_or_else(|error| panic!("{format:?}: {error}"));
    }
}

/// A folder for one test, removed after it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a folder for tests");
        Folder(path)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file that was written")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
