//! Idle workers use no processor time. Alone in its file: the time is that of the whole process.
#![cfg(target_os = "linux")]

use dataflow_core::space::Independent;
use dataflow_numa::{WorkerStatistics, Workers};
use std::time::Duration;

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
