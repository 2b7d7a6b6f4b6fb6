//! What goes wrong around a run: ranks that do not start, an output that is full, sizes that no memory holds.

use crate::ended::*;
use common::cli::{Example, Failure, NoFlags, Outcome, Settings, answer_on};
use dataflow::numa::Policy;
use dataflow::numa::policy::{Crew, ReadyQueue, Scheduler};
use dataflow::{Runtime, RuntimeBuilder};
use serde_json::Value;
use std::sync::Arc;

/// The ranks that had started were told of, which knew only that another one was lost.
#[test]
#[cfg(target_os = "linux")]
fn a_rank_that_does_not_start_is_told_with_its_cause_and_its_object() {
    // Stacks of 1 GiB: not every thread gets one, and which does not is another each time.
    for kibibytes in [3_700_000, 5_300_000, 6_300_000, 7_300_000, 7_300_000] {
        let limits = format!("export RUST_MIN_STACK=1073741824 && ulimit -v {kibibytes}");
        let flags = ["--n", "40", "--ranks", "4", "--threads", "1", "--json"];
        let ended = run_with(&limits, "cholesky", &flags);
        ended.says_what_failed(&ended.object());
        assert!(ended.stderr.contains("not started"), "{}", ended.stderr);
    }
}

/// Of two ranks both printed one, for neither knew that it was one of two.
#[test]
fn of_ranks_that_a_launcher_started_in_vain_only_the_first_prints_an_object() {
    let two = "OMPI_COMM_WORLD_SIZE=2";
    for (variables, says) in [
        // So nothing is launched, with MPI neither.
        (
            format!("DATAFLOW_EXPECTED_RANKS=two {two} OMPI_COMM_WORLD_RANK="),
            "\"two\"",
        ),
        (
            "DATAFLOW_EXPECTED_RANKS=two SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=".into(),
            "\"two\"",
        ),
        // Which rank it is it knows all the same.
        (
            format!("{two} OMPI_COMM_WORLD_LOCAL_SIZE=none OMPI_COMM_WORLD_RANK="),
            "\"none\"",
        ),
        (
            "DATAFLOW_TCP_RANKS=2 DATAFLOW_TCP_ROOT=nowhere DATAFLOW_TCP_RANK=".into(),
            "\"nowhere\"",
        ),
    ] {
        for rank in [0, 1] {
            let launcher = format!("export {variables}{rank}");
            let ended = run_with(&launcher, "cholesky", &["--n", "40", "--json"]);
            assert!(ended.error_line().contains(says), "{}", ended.stderr);
            assert_eq!(ended.status, 1, "{launcher}");
            match rank {
                0 => ended.says_what_failed(&ended.object()),
                _ => assert_eq!(ended.stdout, "", "{launcher}"),
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_under_standard_output_is_named() {
    let ended = run_with("exec >/dev/full", "cholesky", &["--n", "40", "--json"]);
    assert_eq!(ended.status, 1);
    assert!(ended.error_line().starts_with("standard output: "));
}

/// It was status 1.
#[test]
#[cfg(target_os = "linux")]
fn a_bad_argument_is_one_though_nobody_takes_the_line() {
    for to in ["/dev/full", "&-"] {
        let ended = run_with(&format!("exec 2>{to}"), "cholesky", &["--bogus"]);
        assert_eq!((ended.status, &*ended.stdout), (2, ""), "{to}");
    }
}

/// A scheduler that has no name.
#[derive(Debug)]
struct Nameless;

impl Scheduler for Nameless {
    fn name(&self) -> &str {
        panic!("nobody has named it")
    }

    fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
        unreachable!("nothing is run")
    }
}

/// The process ended with 101, and said nothing.
#[test]
fn a_panic_while_ranks_start_is_told_as_any_failure() {
    let example = Example {
        name: "cholesky",
        about: "",
        runs: true,
        honours: &[],
    };
    let prepare = |_: &Settings<NoFlags>, builder: RuntimeBuilder| {
        Ok(builder.policy(Policy::custom(Arc::new(Nameless))))
    };
    let body = |_: &Settings<NoFlags>, _: &Runtime, _: &mut Outcome| Ok::<(), Failure>(());
    for ranks in ["1", "2"] {
        let words = ["cholesky", "--threads", "1", "--json", "--ranks", ranks];
        let told = answer_on(&example, words, prepare, body);
        let object: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(told.status, 1, "{told:?}");
        assert_eq!(object["error"]["kind"], "panicked", "{told:?}");
        assert!(told.stderr.contains("nobody has named it"), "{told:?}");
    }
}

/// The process was killed for the memory that it asked for.
#[test]
fn ranks_that_no_memory_counts_are_refused() {
    let grid = ["--grid", "65535x65537", "--n", "40", "--nb", "10"];
    let ended = run("cholesky", &[&["--simulate", "counts"], &grid[..]].concat());
    let line = ended.is_a_bad_argument();
    assert!(line.contains("at most 10000000 "), "{line}");
}

/// A grid was blamed that nobody had asked for; and the squarest one of a large prime was sought for minutes.
#[test]
fn ranks_that_nobody_counts_are_refused_for_what_they_are() {
    for ranks in ["4294967296", "18446744073709551557"] {
        for (what, told) in [("counts", "at most 10000000 "), ("time", "at most 10000 ")] {
            let ended = run("cholesky", &["--simulate", what, "--ranks", ranks]);
            let line = ended.is_a_bad_argument();
            assert!(line.contains("--ranks") && line.contains(told), "{line}");
        }
    }
}

/// Two ranks of two blocks each were four GiB, asked for one by one.
#[test]
#[cfg(target_os = "linux")]
fn a_ball_that_does_not_fit_is_refused_before_it_is_served() {
    let ball = ["--largest", "1073741824", "--repeat", "1", "--json"];
    let ended = run_with("ulimit -v 4000000", "ping_pong", &ball);
    assert_eq!(ended.object()["error"]["kind"], "does_not_fit");
    assert!(ended.error_line().contains("--largest 1073741824"));
}

/// It panicked.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_that_cannot_be_started_is_a_failure_with_its_object() {
    let no_stack = "export RUST_MIN_STACK=1000000000000000";
    let ended = run_with(no_stack, "distances", &["--mebibytes", "2", "--json"]);
    let object = ended.object();
    ended.says_what_failed(&object);
    assert_eq!(object["error"]["kind"], "no_thread", "{object}");
}

/// The process was killed, or the example panicked, for what it asked for.
#[test]
fn a_table_that_does_not_fit_is_refused_before_it_is_made() {
    let most = &usize::MAX.to_string();
    for (flag, of) in [
        ("--n", &["heat", "--n", "10000000"][..]),
        ("--n", &["heat", "--n", most, "--nb", most]),
        (
            "--n",
            &["floyd_warshall", "--n", "10000000", "--nb", "1000"],
        ),
        ("--n", &["floyd_warshall", "--n", most, "--nb", most]),
        ("--nb 1:", &["floyd_warshall", "--n", "4000", "--nb", "1"]),
        ("--nb 1", &["alignment", "--n", "1000000", "--nb", "1"]),
        // The way back alone.
        (
            "--nb 40000",
            &["alignment", "--n", "40000", "--nb", "40000"],
        ),
        (
            "--mebibytes 100000",
            &["distances", "--mebibytes", "100000"],
        ),
        (
            "--size",
            &[
                "overhead",
                "--shape",
                "wavefront",
                "--dense",
                "--size",
                "200000",
            ],
        ),
        (
            "--variant base",
            &[
                "jacobi3d",
                "--n",
                "16",
                "--blocks",
                "16x16x8",
                "--iterations",
                "1000000",
                "--variant",
                "base",
                "--ranks",
                "2",
            ],
        ),
        ("order 9999936", &["calibrate", "--matrices", "10000000"]),
        (
            "order",
            &["calibrate", "--matrices", "96", "--orders", most],
        ),
        ("--n", &["ldlt", "--n", "10000000", "--nb", "1000"]),
        ("--n", &["ldlt", "--n", most, "--nb", most]),
        (
            "--options",
            &["blackscholes", "--options", most, "--nb", most],
        ),
        // What its workers hold alone.
        (
            "--nb 20000000",
            &[
                "blackscholes",
                "--options",
                "160000000",
                "--nb",
                "20000000",
                "--threads",
                "8",
            ],
        ),
        ("--swaptions", &["swaptions", "--swaptions", "4000000000"]),
        ("--n", &["jacobi3d", "--n", "100000"]),
        (
            "--blocks",
            &["jacobi3d", "--n", "8191", "--blocks", "8191x8191x8191"],
        ),
        (
            "--blocks",
            &[
                "jacobi3d",
                "--n",
                "8191",
                "--blocks",
                "8191x8191x8191",
                "--simulate",
                "counts",
            ],
        ),
        ("--size", &["nas_ft", "--size", "65536x65536x65536"]),
        (
            "--bytes",
            &["task_bench", "--width", "16777216", "--bytes", "4294967295"],
        ),
        (
            "--bytes",
            &[
                "task_bench",
                "--pattern",
                "all_to_all",
                "--width",
                "16777216",
                "--bytes",
                "4294967295",
            ],
        ),
        (
            "--size",
            &[
                "overhead", "--shape", "cholesky", "--data", "moved", "--size", "4000000",
            ],
        ),
        (
            "--nodes",
            &[
                "shallow_water",
                "--nodes",
                "4294967290",
                "--places",
                "fibonacci",
            ],
        ),
    ] {
        let flags = [&of[1..], &["--json"]].concat();
        // One that asked for nothing would take the machine's memory.
        let ended = match cfg!(target_os = "linux") {
            true => run_with("ulimit -v 16000000", of[0], &flags),
            false => run(of[0], &flags),
        };
        let object = ended.object();
        ended.says_what_failed(&object);
        assert_eq!(object["error"]["kind"], "does_not_fit", "{of:?}");
        let line = ended.error_line();
        assert!(
            line.contains(flag) && line.contains("available: "),
            "{line}"
        );
    }
    for (flag, of) in [
        ("--n ", &["heat", "--n", most][..]),
        (
            "--nb",
            &["blackscholes", "--options", "4294967296", "--nb", "1"],
        ),
        (
            "--swaptions",
            &["swaptions", "--swaptions", "1000000000000"],
        ),
        ("--swaptions", &["swaptions", "--swaptions", most]),
        ("--nodes", &["shallow_water", "--nodes", most]),
        (
            "--nodes",
            &["shallow_water", "--nodes", most, "--places", "fibonacci"],
        ),
    ] {
        let ended = run(of[0], &of[1..]);
        let line = ended.is_a_bad_argument();
        assert!(line.contains(flag), "{line}");
    }
}

/// All passes were measured first, for minutes.
#[test]
fn a_file_of_costs_that_cannot_be_written_is_told_before_anything_is_measured() {
    let ended = run("calibrate", &["--costs", "/nowhere/costs.json", "--json"]);
    let object = ended.object();
    ended.says_what_failed(&object);
    assert_eq!(object["error"]["kind"], "output_unwritable", "{object}");
    assert!(ended.seconds < 10.0, "{} s", ended.seconds);
}

/// The mesh was built before.
#[test]
fn a_default_that_nodes_of_a_file_do_not_have_is_refused_before_their_mesh_is_built() {
    let file = written("twice.nodes", &"1 0 0\n".repeat(8));
    let flags = ["--input", &file, "--stencil", "7"];
    let told = run("shallow_water", &flags);
    assert!(told.is_a_bad_argument().contains("--epsilon"));
    let told = run("shallow_water", &[&flags[..], &["--epsilon", "1"]].concat());
    assert!(told.error_line().contains("two nodes lie at"));
}

#[test]
fn a_file_of_no_nodes_is_named() {
    let ended = run("shallow_water", &["--input", "/dev/null", "--json"]);
    let object = ended.object();
    assert_eq!(object["error"]["kind"], "too_few_nodes", "{object}");
    assert!(ended.error_line().contains("/dev/null"));
}
