//! Traces over ranks, and what is under way between them.

use super::*;

#[test]
fn messages_that_came_before_they_were_posted_are_told() {
    let told = |clock_error| {
        let span = Span {
            begin: 0,
            end: 1_000,
        };
        let mut parts = [0, 1].map(|rank| RankTrace::new(Rank(rank), span, Vec::new()));
        for (task, at, there) in [(7, 500, 450), (8, 600, 620)] {
            let (bytes, from, to, left) = (8, Rank(0), Rank(1), None);
            parts[0].posted.push(Posted {
                task,
                at,
                to,
                bytes,
                left,
            });
            let there = Some(there);
            let came = Came {
                task,
                at: 700,
                from,
                bytes,
                there,
                ..Came::default()
            };
            parts[1].came.push(came);
        }
        let parts = parts.map(|part| {
            let mut trace = Trace::new("two", ["Task"], vec![part]);
            trace.clock_error = clock_error;
            trace
        });
        Trace::of_ranks(parts.into()).explanation()
    };
    // The errors of two ranks add up.
    let wrong = told(24);
    assert_eq!(wrong.backwards, (1, 50), "{wrong}");
    assert!(
        wrong
            .to_string()
            .contains("Messages that seem to come before they were posted: 1, by up to 50 ns")
    );
    assert_eq!(told(25).backwards, (0, 0));
}

#[test]
fn a_trace_over_ranks_has_every_task_and_an_arrow_for_each_parcel() {
    for &(p, q) in sizes::GRIDS {
        for seed in 0..if cfg!(miri) { 1 } else { 10 } {
            let (parts, crossed) = on_ranks(p * q, (seed, 2), |courier| {
                let tracer = Tracer::new(ROOM);
                let on = Shuffled::new(seed).with_threads(1 + (seed % 2) as usize);
                let space = Cholesky::new(sizes::TILES, (p, q));
                let on = Context::new(&on).across(courier).traced_by(&tracer);
                let report = run_across(&space, &on).unwrap();
                let trace = tracer.take().remove(0);
                assert_eq!(trace.slices().count() as u64, report.tasks);
                trace
            });
            let mut parts = parts.into_iter();
            let first = parts.next().unwrap();
            let others: Vec<Vec<u8>> = parts.map(|part| part.to_bytes()).collect();
            let others: Vec<&[u8]> = others.iter().map(|part| &part[..]).collect();
            let trace = first.joined(others).unwrap();
            keeps_the_laws(&trace);
            assert_eq!(
                trace.slices().count() as u64,
                Cholesky::n_tasks(sizes::TILES.into())
            );
            // Broadcasts go through others: who gets it is the same, and so is how much.
            let told = trace.messages().iter();
            let mut told: Vec<_> = told.map(|message| message.to as u32).collect();
            let mut sent: Vec<_> = crossed.parcels.iter().map(|(_, to, _)| to.0).collect();
            told.sort_unstable();
            sent.sort_unstable();
            assert_eq!(told, sent, "{p} x {q}, seed {seed}");
            // What goes straight to its receiver is told to have left.
            let left = trace
                .messages()
                .iter()
                .filter(|message| message.left.is_some());
            let most = trace.messages().len();
            let left = left.count();
            assert!(
                0 < left && left <= most && (p * q > 2 || left == most),
                "{left} of {most}"
            );
            let bytes: u64 = trace.messages().iter().map(|message| message.bytes).sum();
            assert_eq!(bytes, crossed.bytes);
            // Potrf { k } is fed by one, Trsm by one or two, and so on: as many as in one's own run.
            let alone = traced(&Cholesky::new(sizes::TILES, (1, 1)), &Inline).1;
            let edges = |trace: &Trace| -> usize {
                trace.slices().map(|(at, _)| trace.inputs(at).count()).sum()
            };
            assert_eq!(edges(&trace), edges(&alone));
        }
    }
}

#[test]
fn what_a_rank_has_not_done_travels() {
    let mut trace = traced(&Cholesky::new(4, (1, 1)), &Inline).1;
    for undone in [0, 1, 300, u64::MAX] {
        trace.ranks[0].undone = undone;
        let came = trace.of_another(&trace.to_bytes()).unwrap();
        assert_eq!(came.ranks[0].undone, undone);
    }
    let bytes = trace.to_bytes();
    let both = trace.joined([&bytes[..]]).unwrap();
    assert_eq!(both.explanation().undone, u64::MAX);
}

#[test]
fn bytes_that_are_no_trace_are_refused() {
    let trace = traced(&Cholesky::new(4, (1, 1)), &Inline).1;
    let bytes = trace.to_bytes();
    const STRIDE: usize = if cfg!(miri) { 50 } else { 1 };
    for length in (0..bytes.len()).step_by(STRIDE) {
        assert!(
            trace.clone().joined([&bytes[..length]]).is_err(),
            "{length} of {}",
            bytes.len()
        );
    }
    for at in (0..bytes.len()).step_by(STRIDE) {
        let mut other = bytes.clone();
        other[at] ^= 0xff;
        // Whatever it says now, nothing panics.
        if let Ok(joined) = trace.clone().joined([&other[..]]) {
            _ = joined.limits();
        }
    }
}

/// A rank whose few tasks hand tiles on was slow, since each took thirteen times as long as elsewhere:
/// microseconds, while the other rank had all the work.
#[test]
fn a_rank_with_little_to_do_is_not_slow() {
    let slice = |task: u64, class, begin, length| Slice {
        task,
        class,
        span: Span {
            begin,
            end: begin + length,
        },
        ..Slice::default()
    };
    let span = Span {
        begin: 0,
        end: 1001,
    };
    let gemms = (0..10).map(|task| slice(task, 0, 100 * task, 100));
    let busy = gemms.chain([slice(10, 1, 1000, 1)]).collect();
    let idle = (11..15).map(|task| slice(task, 1, 13 * (task - 11), 13));
    let ranks = vec![
        RankTrace::new(Rank(0), span, vec![busy]),
        RankTrace::new(Rank(1), span, vec![idle.collect()]),
    ];
    let told = Trace::new("a bad grid", ["Gemm", "Give"], ranks).explanation();
    let begins = "The work is spread unevenly: rank 0 has ";
    assert!(told.verdict().starts_with(begins), "{told}");
}

/// Rank 0 was slow, sixty times, beside tasks that took no time since they were skipped.
#[test]
fn tasks_that_were_skipped_make_no_other_rank_slow() {
    let slice = |task: u64, length, fate| Slice {
        task,
        span: Span {
            begin: 60 * task,
            end: 60 * task + length,
        },
        fate,
        ..Slice::default()
    };
    let ran = (0..10).map(|task| slice(task, 60, Fate::Ran));
    let skipped = (10..16).map(|task| slice(task, 1, Fate::Skipped));
    let span = Span {
        begin: 0,
        end: 1000,
    };
    let ranks = vec![
        RankTrace::new(Rank(0), span, vec![ran.collect()]),
        RankTrace::new(Rank(1), span, vec![skipped.collect()]),
    ];
    let told = Trace::new("failed", ["Task"], ranks).explanation();
    assert!(!told.verdict().contains("is slow"), "{told}");
}

/// What a rank does not wait for since it has not begun was hidden, nine tenths of it.
#[test]
fn only_bodies_hide_what_is_under_way() {
    let slice = |task: u64, begin, end| Slice {
        task,
        span: Span { begin, end },
        ..Slice::default()
    };
    let hidden = |first_visit, bodies: &[(u64, u64)]| {
        let span = Span { begin: 0, end: 120 };
        let mut source = RankTrace::new(Rank(0), span, vec![vec![slice(0, 0, 10)]]);
        source.posted.push(Posted {
            task: 0,
            at: 10,
            to: Rank(1),
            bytes: 8,
            left: None,
        });
        let bodies = bodies.iter().zip(1..);
        let bodies = bodies.map(|(&(begin, end), task)| slice(task, begin, end));
        let mut target = RankTrace::new(Rank(1), span, vec![bodies.collect()]);
        target.workers[0].visits[0].begin = first_visit;
        target.came.push(Came {
            task: 0,
            at: 110,
            from: Rank(0),
            bytes: 8,
            there: Some(110),
            ..Came::default()
        });
        Trace::new("two", ["Task"], vec![source, target])
            .explanation()
            .hidden
    };
    assert_eq!(hidden(100, &[(110, 120)]), Some(0.0));
    assert_eq!(hidden(0, &[(0, 60), (80, 120)]), Some(0.8));
    assert_eq!(hidden(0, &[(0, 120)]), Some(1.0));
}
