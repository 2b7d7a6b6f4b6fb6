//! Whoever waits uses no processor time. Alone in a file, one after the other: the time is that of
//! the whole process.
#![cfg(target_os = "linux")]

use dataflow_core::sequence::{TaskWindow, scope, write};
use dataflow_core::space::Independent;
use dataflow_numa::{WorkerStatistics, Workers};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whose test has the process for itself.
static ALONE: Mutex<()> = Mutex::new(());

/// User and system time of this process, in ticks of 10 ms.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name in brackets may hold anything; times are fields 14 and 15.
    let after_name = stat.rsplit_once(')').unwrap().1;
    after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn sleeping_workers_use_less_than_one_percent_of_a_processor() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let workers = Workers::builder().n_workers(4).build().unwrap();
    let job = Independent::new("work", 10_000, |_| Ok(()));
    dataflow_core::run(&job, &workers).unwrap();
    // Long enough for everybody to fall asleep.
    std::thread::sleep(Duration::from_millis(200));
    let before = (ticks(), workers.statistics());

    std::thread::sleep(Duration::from_secs(2));
    assert!(
        ticks() - before.0 <= 2,
        "{} ticks of 10 ms in 2 s",
        ticks() - before.0
    );
    assert_eq!(workers.statistics(), before.1, "nobody woke up");
    let sleeps = |statistics: &WorkerStatistics| statistics.sleeps > 0;
    assert!(
        workers.statistics_by_worker().iter().all(sleeps),
        "everybody sleeps"
    );

    // And they get up again.
    assert_eq!(dataflow_core::run(&job, &workers).unwrap().tasks, 10_000);
}

/// A program whose window was full burned its core behind a task that took long.
#[test]
fn a_program_behind_a_full_window_uses_little_of_a_processor() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let workers = Workers::builder().n_workers(2).build().unwrap();
    let before = ticks();
    let report = scope(&workers, |s| {
        s.set_window(TaskWindow {
            tasks: 4,
            ..TaskWindow::default()
        });
        let n = s.handle(0_u64);
        s.task(write(&n), |_| std::thread::sleep(Duration::from_secs(2)));
        for _ in 0..100 {
            s.task(write(&n), |n| *n += 1);
        }
    });
    let ((), report) = report.unwrap();
    assert_eq!(report.tasks, 101);
    let used = ticks() - before;
    assert!(used <= 40, "{used} ticks of 10 ms in 2 s");
}
