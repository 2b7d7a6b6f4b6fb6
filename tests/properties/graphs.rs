//! Random graphs on real workers: pinned threads, deques, stealing, sleeping.
//!
//! The graphs are those of dataflow-core's own test; each datum is a hash of its task and of its
//! inputs in slot order, so a lost, doubled or swapped input shows.

#[path = "../../crates/dataflow-core/tests/specimen/layered.rs"]
mod layered;

use dataflow::core::space::Independent;
use dataflow::prelude::*;
use layered::{Graph, Layered, graphs};
use proptest::prelude::*;
use std::sync::LazyLock;

/// The same pools for all cases: a runtime is for many runs.
static RUNTIMES: LazyLock<Vec<Runtime>> = LazyLock::new(|| {
    let runtimes = (1..=4).map(|n| Runtime::builder().threads(n).build());
    runtimes.collect::<Result<_, _>>().expect("workers start")
});

fn check(graph: &Graph, runtime: &Runtime) -> Result<(), TestCaseError> {
    let space = Layered::new(graph);
    let report = runtime
        .run(&space)
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(report.tasks, graph.nodes.len() as u64);
    prop_assert_eq!(
        space.outcome(),
        graph.model(),
        "{} threads",
        runtime.n_threads()
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_graphs_give_the_result_of_topological_execution_on_1_to_4_workers(graph in graphs()) {
        for runtime in RUNTIMES.iter() {
            check(&graph, runtime)?;
        }
    }

    #[test]
    fn runs_at_the_same_time_on_one_runtime_do_not_mix(first in graphs(), second in graphs()) {
        let runtime = &RUNTIMES[1];
        let other = std::thread::scope(|threads| {
            let other = threads.spawn(|| check(&second, runtime));
            check(&first, runtime)?;
            other.join().expect("the other run ends")
        });
        other?;
    }
}

#[test]
#[ignore = "another test runs it, in a process with an environment of its own"]
fn a_program_that_starts_its_runtime_from_the_environment() {
    let runtime = match Runtime::from_env() {
        Ok(runtime) => runtime,
        Err(error) => return println!("refused: {error}"),
    };
    for (name, count) in [("few tasks", 10), ("many tasks", 1000), ("some tasks", 20)] {
        let nothing = Independent::new(name, count, |_| Ok(()));
        runtime.run(&nothing).unwrap();
    }
}

#[test]
#[ignore = "another test runs it, in a process with an environment of its own"]
fn a_program_with_three_runtimes() {
    let sleeps = |name: &'static str, milliseconds| {
        Independent::new(name, 1, move |_| {
            std::thread::sleep(std::time::Duration::from_millis(milliseconds));
            Ok(())
        })
    };
    let own = Runtime::from_env().unwrap();
    own.run(&sleeps("the longest run", 500)).unwrap();
    let shared = Runtime::shared().unwrap();
    shared.run(&sleeps("a short run", 0)).unwrap();
    let launched = dataflow::launch(Runtime::builder().threads(1), |runtime| {
        runtime.run(&sleeps("a short run, launched", 0))
    });
    launched.unwrap();
}

#[test]
#[ignore = "another test runs it, in a process with an environment of its own"]
fn a_program_that_launches_two_ranks() {
    let settings = Runtime::builder().threads(1).ranks(2);
    let launched = dataflow::launch(settings, |runtime| runtime.gather(vec![7]));
    match launched {
        Ok(all) => assert_eq!(all, [[7], [7]]),
        Err(error) => println!("refused: {error}"),
    }
}

#[test]
#[ignore = "another test runs it, in a process with an environment of its own"]
fn a_program_of_whose_two_ranks_the_second_fails() {
    let settings = Runtime::builder().threads(1).ranks(2);
    let launched = dataflow::launch(settings, |runtime| {
        runtime.gather(vec![7])?;
        match runtime.rank() {
            Rank(0) => Ok(()),
            _ => Err(dataflow::Error::wrong_settings("as told")),
        }
    });
    println!("failed: {}", launched.unwrap_err());
}

/// Runs such a program with `DATAFLOW_TRACE` set, and gives what it printed.
fn with_trace(name: &str, path: &std::path::Path) -> String {
    let program = std::env::current_exe().unwrap();
    let name = &format!("graphs::{name}")[..];
    let output = std::process::Command::new(program)
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("DATAFLOW_TRACE", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_environment_asks_for_a_page_about_the_longest_run() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let page = folder.join("from-the-environment.html");
    // From an earlier run of this test.
    let _ = std::fs::remove_file(&page);
    let name = "a_program_that_starts_its_runtime_from_the_environment";
    let printed = with_trace(name, &page);
    assert!(!printed.contains("refused"), "{printed}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(
        page.contains(" tasks</h1>") && page.contains("The workers' time:"),
        "{page}"
    );
    let launches = "a_program_that_launches_two_ranks";
    for name in [name, launches] {
        let printed = with_trace(name, &folder.join("run.txt"));
        assert!(
            printed.contains("refused: ") && printed.contains(".pftrace"),
            "{printed}"
        );
    }
    let page = folder.join("from-two-ranks.html");
    let _ = std::fs::remove_file(&page);
    let printed = with_trace(launches, &page);
    assert!(!printed.contains("refused"), "{printed}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("2 ranks × 1 worker"), "{page}");
}

/// Each runtime kept a longest run of its own, and wrote it over the page of the others.
#[test]
fn the_longest_run_of_a_process_keeps_its_page_whichever_runtime_made_it() {
    let page = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("from-three-runtimes.html");
    // From an earlier run of this test.
    let _ = std::fs::remove_file(&page);
    with_trace("a_program_with_three_runtimes", &page);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("<h1>the longest run</h1>"), "{page}");
}

/// What rank 0 had recorded was dropped when the other's part did not come.
#[test]
fn whichever_rank_fails_rank_0_writes_its_own_part() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let page = folder.join("from-one-of-two-ranks.html");
    // From an earlier run of this test.
    let _ = std::fs::remove_file(&page);
    let printed = with_trace("a_program_of_whose_two_ranks_the_second_fails", &page);
    assert!(
        printed.contains("failed: ") && printed.contains("as told"),
        "{printed}"
    );
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(
        page.contains("gather") && page.contains("1 worker"),
        "{page}"
    );
    assert!(!page.contains("2 ranks"), "{page}");
}
