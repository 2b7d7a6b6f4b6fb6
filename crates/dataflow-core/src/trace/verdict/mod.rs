//! Verdict: the one sentence that says what costs most.
//!
//! # Law
//! A cause is named only if it takes a tenth of the workers' time or more; where none does, that nothing
//! is ready and that a rank is done before others count as one, and each is told by its name. Of several
//! the one that explains the others goes first: a slow rank makes the rest wait, a long body leaves nothing
//! ready.
//! The time after the last task of all is due to none of them: it is told by itself, if it is much.
//! Of a run that failed it is said first where: what it costs that tasks did not run is due to that.
//! Before that, of a run that ended before all its tasks were done, how many were not.
//! Before all that it is said if notes are missing: then nothing is known of the time after the last note.

mod data;
mod ready;
mod slow;

use super::doing::OwnTimes;
use super::explanation::{Explanation, part, time};
use super::{Cause, Fate, Trace};
use crate::words::counted;
use data::waits_for_data;
use ready::{few_ready, too_little};
use slow::slow_rank;

/// From this part of the workers' time on, something is worth a sentence.
const MUCH: f64 = 0.1;

/// What costs most, and where.
pub(super) fn of(trace: &Trace, told: &Explanation, own: &OwnTimes) -> String {
    let ends = trace.slices().map(|(_, slice)| slice.span.end);
    let after = told.length - ends.max().unwrap_or(0).min(told.length);
    let much = part(after, told.length) >= MUCH;
    let sentence = of_tasks(trace, &until_last(told, after, much), own);
    let of_part = match told.missing {
        _ if !much || told.n_tasks == 0 => String::new(),
        0 => format!(
            " That is of the time until the last task ended; after it came {}, {} of the run.",
            time(after),
            percent(part(after, told.length)),
        ),
        _ => format!(
            " That is of the first {}, {} of the run; what came after is not recorded.",
            time(told.length - after),
            percent(part(told.length - after, told.length)),
        ),
    };
    let missing = match told.missing {
        0 => String::new(),
        n => format!(
            "Only a part was recorded ({} missing). ",
            counted(n, "note")
        ),
    };
    [
        missing,
        undone(told.undone),
        failure(trace).unwrap_or_default(),
        sentence,
        of_part,
    ]
    .concat()
}

/// Of a run that ended early, what it left: without this it looks whole.
fn undone(tasks: u64) -> String {
    match tasks {
        0 => String::new(),
        1 => "The run ended before 1 of its tasks was done. ".to_string(),
        n => format!("The run ended before {n} of its tasks were done. "),
    }
}

/// Of a run that failed, where: what did not run any more is no fault of the graph.
fn failure(trace: &Trace) -> Option<String> {
    let with = |fate| trace.slices().filter(move |(_, of)| of.fate == fate);
    let failed = || with(Fate::Failed);
    let Some((first, _)) = failed().min_by_key(|(_, slice)| slice.span.end) else {
        return with(Fate::Skipped).next().map(|_| failure_elsewhere(trace));
    };
    let others = match failed().count() - 1 {
        0 => String::new(),
        1 => " and one more".to_string(),
        n => format!(" and {n} more"),
    };
    Some(format!(
        "The run failed in {}{others}; what follows is of the tasks that ran. ",
        trace.shown(first)
    ))
}

/// Tasks were skipped, and the one that failed is not in the trace: another rank ran it, or its note is missing.
fn failure_elsewhere(trace: &Trace) -> String {
    let is_whole = trace.ranks.iter().all(|rank| rank.missing == 0);
    let place = match trace.is_across && is_whole {
        true => " on another rank",
        false => "",
    };
    format!("Tasks were skipped since one{place} failed; what follows is of the tasks that ran. ")
}

/// The same without so much time at the end; if that is much, as if the run had taken only the rest.
fn until_last(told: &Explanation, after: u64, much: bool) -> Explanation {
    let mut rest = told.clone();
    if much {
        rest.length -= after;
    }
    let longer = told.length as f64 / rest.length.max(1) as f64;
    for share in &mut rest.shares {
        if !share.is_body && share.name == Cause::Closing.shown() {
            // All workers had nothing to do after the last task.
            share.part = (share.part - part(after, told.length)).max(0.0);
        }
        share.part *= longer;
    }
    rest
}

/// What costs most until the last task has ended.
fn of_tasks(trace: &Trace, told: &Explanation, own: &OwnTimes) -> String {
    let idle = |cause: Cause| told.lost_to(cause.shown());
    let worst = Cause::ALL
        .into_iter()
        .max_by(|a, b| idle(*a).total_cmp(&idle(*b)));
    let lost = 1.0 - told.in_bodies();
    match (told.n_tasks, told.missing) {
        (0, 0) => return "No task ran.".to_string(),
        (0, _) => return "No task was recorded.".to_string(),
        _ => {}
    }
    let slow = slow_rank(trace, told, own).filter(|_| lost >= MUCH);
    let by_runtime = told.lost_to("runtime");
    match worst {
        _ if slow.is_some() => slow.unwrap_or_default(),
        Some(cause) if idle(cause).max(by_runtime) < MUCH => match too_little(told) < MUCH {
            true => busy(told),
            false => few_ready(trace, told, own),
        },
        Some(cause) if idle(cause) > by_runtime => match cause {
            Cause::DataUnderWay => waits_for_data(trace, told),
            Cause::Policy => format!(
                "Tasks were ready while workers had nothing to do, {} of their time: the policy keeps them apart, or workers wake up late.",
                percent(idle(cause))
            ),
            Cause::Opening => format!(
                "Before the first task {} of the workers' time passed.",
                percent(idle(cause))
            ),
            Cause::NothingReady | Cause::Closing => few_ready(trace, told, own),
        },
        _ => format!(
            "The tasks are too small: the runtime takes {} of the workers' time, a body {} on average.",
            percent(by_runtime),
            time(mean_body(told)),
        ),
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

fn mean_body(told: &Explanation) -> u64 {
    let bodies = told.shares.iter().filter(|share| share.is_body);
    let all: u128 = bodies.map(|share| u128::from(share.time)).sum();
    (all / u128::from(told.n_tasks.max(1))) as u64 // the longest body has its time in 64 bits
}

/// No cause is worth a sentence.
fn busy(told: &Explanation) -> String {
    let Some(dearest) = told.shares.iter().find(|share| share.is_body) else {
        return "The tasks took no time that the clock tells.".to_string();
    };
    let helps = match 1.0 - told.in_bodies() < MUCH {
        true => ": only faster bodies or more workers help",
        false => "; the rest goes to several causes, to none of them much",
    };
    format!(
        "The workers compute {} of the time, {} of it in {}{helps}.",
        percent(told.in_bodies()),
        percent(dearest.part / told.in_bodies()),
        dearest.name,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::Rank;
    use crate::trace::{Came, Posted, RankTrace, Slice, Span};

    /// The verdict on one task of a class, of which a worker ran nothing else.
    fn of_one(class: &str, end: u64) -> String {
        let span = Span { begin: 0, end };
        let slice = Slice {
            span,
            ..Slice::default()
        };
        let rank = RankTrace::new(Rank(0), span, vec![vec![slice]]);
        let trace = Trace::new("one", [class], vec![rank]);
        trace.explanation().verdict().to_string()
    }

    #[test]
    fn a_class_with_the_name_of_a_cause_is_no_cause() {
        for class in ["opening", "runtime", "closing", "Gemm"] {
            let expected =
                format!("The workers compute 100 % of the time, 100 % of it in {class}:");
            let found = of_one(class, 100);
            assert!(found.starts_with(&expected), "{found}");
        }
    }

    /// What a rank of one worker ran in a thousand nanoseconds; `ready` says when what begins was ready. The
    /// worker enters when the first one begins.
    fn ran(rank: u32, tasks: &[(u64, u64)], ready: impl Fn(u64) -> u64) -> RankTrace {
        let slices = tasks.iter().zip(0..);
        let slices = slices.map(|(&(begin, end), task)| Slice {
            task,
            span: Span { begin, end },
            ready: ready(begin),
            ..Slice::default()
        });
        let span = Span {
            begin: 0,
            end: 1000,
        };
        let mut rank = RankTrace::new(Rank(rank), span, vec![slices.collect()]);
        rank.workers[0].visits[0].begin = tasks[0].0;
        rank
    }

    fn of_ranks(ranks: Vec<RankTrace>) -> String {
        let trace = Trace::new("some", ["Gemm"], ranks);
        trace.explanation().verdict().to_string()
    }

    /// The verdict on tasks of one worker, each ready when it begins.
    fn of_some(tasks: &[(u64, u64)]) -> String {
        of_ranks(vec![ran(0, tasks, |begin| begin)])
    }

    /// Where a fifth of the time was lost, only faster bodies helped.
    #[test]
    fn what_several_causes_take_together_is_told() {
        let full = ran(0, &[(0, 350), (350, 700), (700, 1000)], |begin| begin);
        let part = ran(1, &[(0, 400), (550, 850)], |begin| begin);
        let found = of_ranks(vec![full, part]);
        let expected = "The work is spread unevenly: rank 0 has 1.0 µs for each of its workers, of 1.0 µs in all.";
        assert_eq!(found, expected);
        let found = of_some(&[(0, 410), (500, 910)]);
        let expected = "The workers compute 82 % of the time, 100 % of it in Gemm; the rest goes to several causes, to none of them much.";
        assert_eq!(found, expected);
        let found = of_some(&[(90, 910)]);
        assert_eq!(found, expected);
        let found = of_some(&[(0, 950)]);
        assert!(found.ends_with(": only faster bodies or more workers help."));
    }

    #[test]
    fn what_is_urgent_runs_late_where_nothing_is_ready_and_no_chain_is_long() {
        let found = of_some(&[(0, 410), (590, 1000)]);
        let expected = "What is urgent runs late: workers find nothing ready 18 % of their time, though the longest chain, of 1 task, takes 410 ns of 1.0 µs.";
        assert_eq!(found, expected);
    }

    /// It was said that workers found nothing ready, though their rank had no task left.
    #[test]
    fn a_rank_that_is_done_before_others_is_told_by_itself() {
        let early = ran(0, &[(0, 200), (400, 600)], |begin| begin);
        let late = ran(1, &[(0, 200), (450, 650), (760, 960)], |begin| begin);
        let found = of_ranks(vec![early, late]);
        let expected = "What is urgent runs late: workers find nothing ready 28 % of their time and are done before others 18 %, though the longest chain, of 1 task, takes 200 ns of 1.0 µs.";
        assert_eq!(found, expected);
        let early = ran(0, &[(0, 160)], |begin| begin);
        let late = ran(1, &[(0, 160), (250, 400), (500, 650), (850, 1000)], |_| 0);
        let found = of_ranks(vec![early, late]);
        let expected = "The ranks end unevenly: rank 0 after 160 ns, rank 1 after 1.0 µs; workers are done before others 42 % of their time.";
        assert_eq!(found, expected);
        let late = ran(0, &[(0, 160), (250, 400), (500, 650), (850, 1000)], |_| 0);
        let early = ran(1, &[(0, 160)], |begin| begin);
        let found = of_ranks(vec![late, early]);
        let expected = "The ranks end unevenly: rank 1 after 160 ns, rank 0 after 1.0 µs;";
        assert!(found.starts_with(expected), "{found}");
        // Longer than for nothing ready, which is much too.
        let early = ran(0, &[(0, 150), (250, 350)], |begin| begin);
        let late = ran(
            1,
            &[(0, 150), (300, 450), (600, 750), (860, 960)],
            |begin| begin,
        );
        let found = of_ranks(vec![early, late]);
        assert!(found.starts_with("What is urgent runs late"), "{found}");
    }

    /// A chain of tiny tasks, at whose end nobody got a core for a while, was told that what is urgent runs
    /// late.
    #[test]
    fn the_time_after_the_last_task_is_told_by_itself() {
        let tiny = [(0, 20), (50, 70), (100, 120), (150, 170)];
        let found = of_ranks(vec![ran(0, &tiny, |_| 0)]);
        let expected = "The tasks are too small: the runtime takes 53 % of the workers' time, a body 20 ns on average. That is of the time until the last task ended; after it came 830 ns, 83 % of the run.";
        assert_eq!(found, expected);
    }

    /// The policy was blamed for a chain that breaks at every parent.
    #[test]
    fn nested_tasks_have_no_chain_that_could_run_late() {
        let found = of_some(&[(0, 410), (100, 310), (590, 1000), (690, 900)]);
        let expected = "Workers find nothing ready 18 % of their time; how long the longest chain is, is not known where tasks have tasks of their own.";
        assert_eq!(found, expected);
    }

    /// A body of rank 2 was longer than all waits of rank 1: what came to it meanwhile was blamed, which was
    /// there at once.
    #[test]
    fn data_are_blamed_that_somebody_waits_for() {
        let tiles: Vec<_> = (0..30).map(|n| (100 * n, 100 * n + 100)).collect();
        let mut source = ran(0, &tiles, |begin| begin);
        source.span.end = 3100;
        let used: Vec<_> = (2..32).map(|n| (100 * n, 100 * n + 1)).collect();
        let mut waiting = ran(1, &used, |begin| begin);
        waiting.span.end = 3201;
        waiting.slices.iter_mut().for_each(|slice| slice.class = 2);
        let mut busy = ran(2, &[(0, 3200)], |begin| begin);
        busy.slices[0].class = 1;
        let post = |task, at, to| Posted {
            task,
            at,
            to: Rank(to),
            bytes: 8,
            left: None,
        };
        let take = |task, at, there| Came {
            task,
            at,
            there: Some(there),
            bytes: 8,
            ..Came::default()
        };
        for task in 0..30 {
            source.posted.push(post(task, 100 * (task + 1), 1));
            let at = 100 * (task + 2);
            waiting.came.push(take(task, at, at));
        }
        source.posted.push(post(0, 100, 2));
        busy.came.push(take(0, 3200, 102));
        let found = of_ranks(vec![source, waiting, busy]);
        let expected = "Workers wait for data under way 30 % of their time; longest from rank 0 to rank 1: 30 messages of 8 bytes on average, 100 ns from post to use.";
        assert_eq!(found, expected);
    }

    /// The first of what failed, and how many.
    #[test]
    fn of_a_run_that_failed_it_is_said_first_where() {
        let mut rank = ran(0, &[(0, 350), (350, 700), (700, 1000)], |begin| begin);
        for (slice, fate) in rank.slices[1..].iter_mut().zip([Fate::Failed; 2]) {
            slice.fate = fate;
        }
        let expected = "The run failed in Gemm 1 and one more; what follows is of the tasks that ran. The workers compute 100 %";
        let found = of_ranks(vec![rank.clone()]);
        assert!(found.starts_with(expected), "{found}");
        rank.slices[2].fate = Fate::Skipped;
        let found = of_ranks(vec![rank]);
        assert!(found.starts_with("The run failed in Gemm 1; "), "{found}");
    }

    /// It looked like one that had done all its work.
    #[test]
    fn of_a_run_that_ended_early_it_is_said_how_many_tasks_were_not_done() {
        let mut rank = ran(0, &[(0, 350), (350, 1000)], |begin| begin);
        for (undone, expected) in [
            (
                1,
                "The run ended before 1 of its tasks was done. The workers ",
            ),
            (
                300,
                "The run ended before 300 of its tasks were done. The workers ",
            ),
        ] {
            rank.undone = undone;
            let found = of_ranks(vec![rank.clone()]);
            assert!(found.starts_with(expected), "{found}");
        }
        (rank.missing, rank.slices[1].fate) = (7, Fate::Failed);
        let mut other = ran(1, &[(0, 1000)], |begin| begin);
        other.undone = 12;
        let found = of_ranks(vec![rank, other]);
        let expected = "Only a part was recorded (7 notes missing). The run ended before 312 of its tasks were done. The run failed in Gemm 1; ";
        assert!(found.starts_with(expected), "{found}");
    }

    /// The rank that ran the failed task has its slice: the others explained an ordinary run.
    #[test]
    fn of_a_run_that_failed_elsewhere_it_is_said_that_tasks_were_skipped() {
        let mut rank = ran(0, &[(0, 350), (350, 1000)], |begin| begin);
        rank.slices[1].fate = Fate::Skipped;
        let mut trace = Trace::new("part", ["Gemm"], vec![rank]);
        for (is_across, missing, expected) in [
            (
                true,
                0,
                "Tasks were skipped since one on another rank failed; ",
            ),
            (false, 0, "Tasks were skipped since one failed; "),
            (
                true,
                7,
                "Only a part was recorded (7 notes missing). Tasks were skipped since one failed; ",
            ),
        ] {
            (trace.is_across, trace.ranks[0].missing) = (is_across, missing);
            let told = trace.explanation();
            assert!(told.verdict().starts_with(expected), "{told}");
        }
    }

    /// What a worker did after the last note that found room was the time after the last task.
    #[test]
    fn of_a_run_of_which_notes_are_missing_that_is_said_first() {
        let tiny = [(0, 20), (50, 70), (100, 120), (150, 170)];
        let mut rank = ran(0, &tiny, |_| 0);
        rank.missing = 30;
        let expected = "Only a part was recorded (30 notes missing). The tasks are too small: the runtime takes 53 % of the workers' time, a body 20 ns on average. That is of the first 170 ns, 17 % of the run; what came after is not recorded.";
        assert_eq!(of_ranks(vec![rank]), expected);
        let mut rank = ran(0, &[(0, 0)], |_| 0);
        (rank.missing, rank.slices[0].fate) = (30, Fate::Skipped);
        let found = of_ranks(vec![rank]);
        assert!(found.ends_with(" No task was recorded."), "{found}");
    }

    /// Of 320,000 simulated workers the times of half a day are more than 64 bits hold.
    #[test]
    fn times_of_many_workers_add_up_beyond_64_bits() {
        let end = 1 << 62;
        let slice = Slice {
            span: Span { begin: 0, end },
            ..Slice::default()
        };
        let workers = vec![vec![slice]; 16];
        let rank = |number| RankTrace::new(Rank(number), slice.span, workers.clone());
        let told = Trace::new("long", ["Gemm"], vec![rank(0), rank(1)]).explanation();
        assert_eq!((told.in_bodies(), told.limits.area), (1.0, end), "{told}");
        assert!(
            told.verdict().starts_with("The workers compute 100 %"),
            "{told}"
        );
    }

    #[test]
    fn tasks_without_length_take_no_time() {
        let expected = "The tasks took no time that the clock tells.";
        assert_eq!(of_one("Gemm", 0), expected);
    }
}
