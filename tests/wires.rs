//! The same examples over threads, over processes and under `mpirun`: the same results, and one line
//! that says so when a rank is lost, started wrongly or given something else.
//!
//! `DATAFLOW_MPIRUN` names the launcher of the MPI that this was built with, if it is not `mpirun`.

#![cfg(target_os = "linux")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// An example and its arguments, what must be the same however ranks talk, and on how many ranks.
type Example = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [usize],
);

const FACTOR: &[&str] = &["residual", "digest"];
const VALUE: &[&str] = &["value", "tasks"];
const ALL: &[usize] = &[1, 2, 3, 4, 6];
const SOME: &[usize] = &[2, 4];

#[rustfmt::skip]
const EXAMPLES: [Example; 17] = [
    ("cholesky", "--n 300 --nb 64 --threads 1 --check", &["residual", "digest", "tasks"], ALL),
    ("alignment", "--n 400 --nb 64 --threads 1", &["score", "alignment_length", "tasks"], ALL),
    ("cholesky_sequence", "--n 200 --nb 32 --threads 1 --check", FACTOR, SOME),
    ("lu", "--n 200 --m 150 --nb 32 --threads 1 --check", FACTOR, SOME),
    ("lu", "--n 200 --m 150 --nb 32 --pivoting tournament --threads 1 --check", FACTOR, SOME),
    ("lu", "--n 150 --nb 32 --pivoting incremental --threads 1 --check", FACTOR, SOME),
    ("qr", "--n 100 --m 200 --nb 32 --tree greedy --threads 1 --check", &["residual", "digest", "orthogonality"], SOME),
    ("solve", "--n 200 --nb 32 --method lu --threads 1 --check", &["residual", "digest", "condition", "log_det"], SOME),
    ("least_squares", "--n 100 --m 200 --nb 32 --threads 1 --check", FACTOR, SOME),
    ("inverse", "--n 200 --nb 32 --threads 1 --check", FACTOR, SOME),
    ("inverse", "--n 150 --nb 32 --method lu --threads 1 --check", FACTOR, SOME),
    ("matmul", "--n 200 --nb 32 --threads 1 --check", FACTOR, SOME),
    ("sequence", "--threads 1", &["example"], SOME),
    ("fibonacci", "--n 22 --cutoff 8 --threads 1", VALUE, SOME),
    ("powerset", "--n 14 --cutoff 4 --threads 1", VALUE, SOME),
    ("task_bench", "--width 8 --steps 50 --bytes 1000 --threads 1", &["tasks", "errors"], SOME),
    ("overhead", "--shape wavefront --size 50 --threads 1", &["tasks"], SOME),
];

/// An example that was built beside this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join(name)
}

fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments.split_whitespace())
        .stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Under the launcher; none if this was built without MPI or no launcher is there, said aloud.
fn under_mpi(n_ranks: usize) -> Option<Command> {
    if !cfg!(feature = "mpi") {
        eprintln!("skipped: built without the feature `mpi`");
        return None;
    }
    let launcher = std::env::var("DATAFLOW_MPIRUN").unwrap_or("mpirun".into());
    let Ok(version) = Command::new(&launcher).arg("--version").output() else {
        eprintln!("skipped: {launcher} is not there");
        return None;
    };
    let is_open_mpi = String::from_utf8_lossy(&version.stdout).contains("Open MPI");
    let flags = if is_open_mpi {
        "--oversubscribe --bind-to none"
    } else {
        ""
    };
    let mut command = command(launcher, &format!("{flags} -n {n_ranks}"));
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    Some(command)
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// The one object that a command prints.
fn object(mut command: Command) -> Value {
    let output = command
        .output()
        .unwrap_or_else(|fault| panic!("{command:?}: {fault}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    let parsed = serde_json::from_slice(&output.stdout);
    parsed.unwrap_or_else(|fault| panic!("{command:?}: {fault}: {}", said(&output)))
}

fn must_agree(alone: &Value, other: &Value, keys: &[&str], ranks: usize) {
    for key in keys {
        assert!(!alone[key].is_null(), "{key} of {alone}");
        assert_eq!(alone[key], other[key], "{key} on {ranks} ranks: {other}");
    }
    assert_eq!(other["ranks"], ranks);
}

#[test]
fn examples_have_the_same_results_on_threads_over_sockets_and_under_mpirun() {
    for (name, arguments, keys, on) in EXAMPLES {
        let (program, arguments) = (example(name), format!("{arguments} --json"));
        let alone = object(command(&program, &arguments));
        for &ranks in on {
            for transport in ["local", "tcp"] {
                let arguments = format!("{arguments} --ranks {ranks} --transport {transport}");
                let spread = object(command(&program, &arguments));
                must_agree(&alone, &spread, keys, ranks);
            }
            if let Some(mut mpirun) = under_mpi(ranks) {
                mpirun.arg(&program).args(arguments.split_whitespace());
                must_agree(&alone, &object(mpirun), keys, ranks);
            }
        }
    }
}

#[test]
fn examples_that_need_no_ranks_speak_once_under_mpirun() {
    for (name, arguments) in [
        ("topology", "--json"),
        ("simulate", "--n 400 --nb 100 --json"),
    ] {
        let Some(mut mpirun) = under_mpi(3) else {
            return;
        };
        mpirun.arg(example(name)).args(arguments.split_whitespace());
        assert_eq!(object(mpirun)["example"], name);
    }
}

#[test]
fn ranks_started_by_hand_find_each_other_and_rank_0_alone_speaks() {
    let hosts = std::env::temp_dir().join(format!("dataflow-hosts-{}", std::process::id()));
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    fs::write(
        &hosts,
        format!("127.0.0.1:{port}\n127.0.0.1 # any port\n127.0.0.1\n"),
    )
    .unwrap();
    let peers = format!("127.0.0.1:{port},127.0.0.1,127.0.0.1");
    for named in [
        format!("--hosts {}", hosts.display()),
        format!("--peers {peers}"),
    ] {
        let start = |rank: usize| {
            let arguments = format!("--n 200 --nb 64 --threads 1 --json --rank {rank} {named}");
            let mut command = command(example("cholesky"), &arguments);
            command
                .env("DATAFLOW_TOKEN", "5a".repeat(32))
                .spawn()
                .unwrap()
        };
        let ended: Vec<Output> = [2, 1, 0]
            .map(start)
            .into_iter()
            .map(|rank| rank.wait_with_output().unwrap())
            .collect();
        assert!(
            ended.iter().all(|rank| rank.status.success()),
            "{}",
            said(&ended[2])
        );
        assert!(ended[0].stdout.is_empty() && ended[1].stdout.is_empty());
        let object: Value = serde_json::from_slice(&ended[2].stdout).unwrap();
        assert_eq!(object["ranks"], 3);
    }
    fs::remove_file(hosts).unwrap();
    let mut untold = command(
        example("cholesky"),
        "--n 10 --rank 0 --peers 127.0.0.1:1,127.0.0.1",
    );
    let output = untold.env_remove("DATAFLOW_TOKEN").output().unwrap();
    assert!(
        !output.status.success() && said(&output).contains("DATAFLOW_TOKEN is not set"),
        "{}",
        said(&output)
    );
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let listed = listed.unwrap_or_default();
    listed
        .split_whitespace()
        .map(|child| child.parse().unwrap())
        .collect()
}

fn must_end_soon(mut child: Child) -> Output {
    let deadline = Instant::now() + Duration::from_secs(10);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!(
                "it does not end: {}",
                said(&child.wait_with_output().unwrap())
            );
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_process_that_is_killed_is_named_by_all_others_and_none_is_left() {
    for pause in [0, 100, 600] {
        let long = "--n 4000 --nb 40 --threads 1 --check=false --ranks 4 --transport tcp";
        let first = command(example("cholesky"), long).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while children(first.id()).len() < 3 {
            assert!(Instant::now() < deadline, "the others do not start");
            thread::sleep(Duration::from_millis(1));
        }
        let others = children(first.id());
        thread::sleep(Duration::from_millis(pause));
        kill(Pid::from_raw(others[1] as i32), Signal::SIGKILL).unwrap();
        let output = must_end_soon(first);
        let told = said(&output);
        let named = told
            .lines()
            .filter(|line| line.starts_with("error: rank 2 "));
        assert!(
            output.status.code() == Some(1) && named.count() >= 1,
            "after {pause} ms: {told}"
        );
        let left = others
            .iter()
            .filter(|child| Path::new(&format!("/proc/{child}")).exists());
        assert_eq!(left.count(), 0, "processes are left");
    }
}

#[test]
fn ranks_that_are_given_different_flags_are_told_which_under_mpirun() {
    let Some(mut mpirun) = under_mpi(1) else {
        return;
    };
    let program = example("cholesky");
    mpirun.arg(&program).args([
        "--n",
        "200",
        "--threads",
        "1",
        "--nb",
        "100",
        ":",
        "-n",
        "1",
    ]);
    mpirun
        .arg(&program)
        .args(["--n", "200", "--threads", "1", "--nb", "96"]);
    let output = mpirun.output().unwrap();
    let told = said(&output);
    assert!(!output.status.success(), "{told}");
    let line = told
        .lines()
        .find(|line| line.starts_with("error:"))
        .unwrap_or_default();
    assert!(
        line.contains("--nb") && line.contains("100") && line.contains("96"),
        "{told}"
    );
}

#[test]
fn a_launcher_that_is_not_understood_is_an_error_and_never_so_many_jobs() {
    // The other MPI's launcher, as far as the program can see; and more ranks than there are.
    for variables in [
        &[
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "4"),
            ("MPI_LOCALRANKID", "0"),
            ("MPI_LOCALNRANKS", "4"),
        ][..],
        &[("DATAFLOW_EXPECTED_RANKS", "4")],
    ] {
        let mut command = command(example("cholesky"), "--n 10 --json");
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("\"kind\":\"wrong_launcher\"") && told.contains("started 4 ranks"),
            "{told}"
        );
    }
}
