//! The same examples over threads, over processes and under `mpirun`: the same results, and one line
//! that says so when a rank is lost, started wrongly or given something else.
//!
//! `DATAFLOW_MPIRUN` names the launcher of the MPI that this was built with, if it is not `mpirun`.

#![cfg(target_os = "linux")]

mod built;
#[path = "../crates/dataflow-mpi/tests/hosts/mod.rs"]
mod hosts;

use built::example;
use dataflow::{Runtime, launch};
use hosts::{ADDRESSES, Hosts};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
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
const ALL: &[usize] = &[1, 2, 3, 4, 5, 6];
const PRIME: &[usize] = &[2, 3, 5];
const SOME: &[usize] = &[2, 4];

#[rustfmt::skip]
const EXAMPLES: [Example; 26] = [
    ("cholesky", "--n 300 --nb 64 --threads 1 --check", &["residual", "digest", "tasks"], ALL),
    ("alignment", "--n 400 --nb 64 --threads 1", &["score", "alignment_length", "tasks"], PRIME),
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
    ("blackscholes", "--options 5000 --repeats 1 --nb 100 --threads 1", &["digest", "verified"], ALL),
    ("swaptions", "--swaptions 5 --trials 1000 --chunk 90 --threads 1", &["digest", "tasks"], PRIME),
    ("shallow_water", "--case 5 --nodes 642 --steps 3 --nb 70 --threads 1", &["digest", "tasks"], ALL),
    ("shallow_water", "--case 5 --nodes 642 --steps 3 --nb 70 --form sequence --threads 1", &["digest"], PRIME),
    ("jacobi3d", "--n 24 --blocks 6x2x2 --threads 1", &["digest", "verified", "tasks"], ALL),
    // By default it has as many blocks as ranks ask for.
    ("nas_ft", "--size 24x16x20 --threads 1", &["digest"], PRIME),
    ("sequence", "--threads 1", &["example"], SOME),
    ("fibonacci", "--n 22 --cutoff 8 --threads 1", VALUE, SOME),
    ("powerset", "--n 14 --cutoff 4 --threads 1", VALUE, SOME),
    ("task_bench", "--width 8 --steps 50 --bytes 1000 --threads 1", &["tasks", "errors"], SOME),
    ("overhead", "--shape wavefront --size 50 --threads 1", &["tasks"], SOME),
    ("heat", "--n 60 --nb 7 --steps 5 --threads 1", &["digest", "largest_error", "tasks"], SOME),
    ("ldlt", "--n 100 --nb 16 --threads 1 --check", FACTOR, SOME),
    ("floyd_warshall", "--n 100 --nb 16 --threads 1 --check", &["digest", "differing"], SOME),
];

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
    let is_open_mpi = String::from_utf8_lossy(&version.stdout).contains("open-mpi.org");
    let flags = if is_open_mpi {
        "--oversubscribe --bind-to none"
    } else {
        ""
    };
    let mut command = command(launcher, &format!("{flags} -n {n_ranks}"));
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // On one machine it takes this anyway, after it has looked for networks for a fifth of a second.
    if std::env::var_os("OMPI_MCA_pml").is_none() {
        command.env("OMPI_MCA_pml", "ob1");
    }
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

/// A launch waits for most of its time: so many examples run at once.
const AT_ONCE: usize = 2;

/// Examples on one rank, and on so many as `spread` starts them with these arguments; none where it cannot.
fn results_must_be_those_of_one_rank(
    spread: impl Fn(&Path, &str, usize) -> Option<Command> + Sync,
) {
    let examples = Mutex::new(EXAMPLES.iter());
    let next = || examples.lock().unwrap().next();
    let run_all = || {
        while let Some((name, arguments, keys, on)) = next() {
            let (program, arguments) = (example(name), format!("{arguments} --json"));
            let alone = object(command(&program, &arguments));
            for &ranks in *on {
                let Some(spread) = spread(&program, &arguments, ranks) else {
                    return;
                };
                must_agree(&alone, &object(spread), keys, ranks);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(run_all);
        }
    });
}

#[test]
fn examples_have_the_same_results_on_ranks_that_are_threads() {
    results_must_be_those_of_one_rank(|program, arguments, ranks| {
        Some(command(
            program,
            &format!("{arguments} --ranks {ranks} --transport local"),
        ))
    });
}

#[test]
fn examples_have_the_same_results_over_sockets() {
    results_must_be_those_of_one_rank(|program, arguments, ranks| {
        Some(command(
            program,
            &format!("{arguments} --ranks {ranks} --transport tcp"),
        ))
    });
}

#[test]
fn examples_have_the_same_results_under_mpirun() {
    results_must_be_those_of_one_rank(|program, arguments, ranks| {
        let mut mpirun = under_mpi(ranks)?;
        mpirun.arg(program).args(arguments.split_whitespace());
        Some(mpirun)
    });
}

/// Set where this test is the program.
const INSIDE: &str = "DATAFLOW_TEST_LAUNCHES";

/// The second launch said that MPI had ended.
#[test]
fn a_program_launches_again_and_again_under_mpirun() {
    if std::env::var_os(INSIDE).is_some() {
        for launched in 1..=3 {
            let sum = launch(Runtime::builder().threads(1), |runtime| {
                runtime.all_reduce(launched + runtime.rank().0, |a, b| a + b)
            });
            assert_eq!(sum.unwrap(), 2 * launched + 1);
        }
        return;
    }
    let Some(mut mpirun) = under_mpi(2) else {
        return;
    };
    mpirun.arg(std::env::current_exe().unwrap()).env(INSIDE, "");
    mpirun.args(["a_program_launches_again_and_again_under_mpirun", "--exact"]);
    let output = must_end_soon(mpirun.spawn().unwrap());
    assert!(output.status.success(), "{}", said(&output));
}

/// `--ranks 1` was ignored, and two ran.
#[test]
fn one_rank_that_is_asked_for_is_not_two_under_mpirun() {
    let Some(mut mpirun) = under_mpi(2) else {
        return;
    };
    mpirun.arg(example("cholesky"));
    mpirun.args("--n 10 --ranks 1 --threads 1".split(' '));
    let output = must_end_soon(mpirun.spawn().unwrap());
    let told = said(&output);
    assert!(!output.status.success(), "{told}");
    let expected = "1 rank was asked for, and 2 were started";
    assert!(told.contains(expected), "{told}");
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
fn two_ranks_play_ping_pong_as_threads_as_processes_and_under_mpirun() {
    let arguments = "--smallest 65536 --largest 262144 --repeat 1 --json";
    let must_tell = |mut game: Command| {
        game.args(arguments.split_whitespace());
        let told = object(game);
        assert_eq!(told["ranks"], 2);
        let rows = told["rows"].as_array().unwrap();
        let sizes = rows.iter().map(|row| row["bytes"].as_u64().unwrap());
        assert!(sizes.eq((16..=18).map(|power| 1 << power)), "{told}");
        for key in ["latency_seconds", "raw_latency_seconds"] {
            assert!(
                rows.iter().all(|row| row[key].as_f64() > Some(0.0)),
                "{told}"
            );
        }
    };
    for how in ["", "--spin", "--transport tcp", "--transport tcp --spin"] {
        must_tell(command(example("ping_pong"), how));
    }
    if let Some(mut mpirun) = under_mpi(2) {
        mpirun.arg(example("ping_pong")).arg("--spin");
        must_tell(mpirun);
    }
    let three = command(example("ping_pong"), "--ranks 3").output().unwrap();
    assert_eq!(three.status.code(), Some(2), "{}", said(&three));
}

/// What all ranks that are started by hand know.
fn token() -> (&'static str, String) {
    ("DATAFLOW_TOKEN", "5a".repeat(32))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Three ranks of an example on this machine, started by hand.
struct ByHand {
    program: &'static str,
    port: u16,
    ranks: Vec<(usize, Child)>,
}

impl ByHand {
    fn new() -> Self {
        Self::of("cholesky")
    }

    fn of(program: &'static str) -> Self {
        ByHand {
            program,
            port: free_port(),
            ranks: Vec::new(),
        }
    }

    fn start(&mut self, rank: usize, arguments: &str) {
        let peers = format!("--peers 127.0.0.1:{},127.0.0.1,127.0.0.1", self.port);
        let arguments = format!("{arguments} --threads 1 --rank {rank} {peers}");
        let mut command = command(example(self.program), &arguments);
        let child = command.envs([token()]).spawn().unwrap();
        self.ranks.push((rank, child));
    }

    fn start_all(arguments: &str) -> Self {
        let mut job = ByHand::new();
        (0..3).for_each(|rank| job.start(rank, arguments));
        job
    }

    /// Waits until so many have come to rank 0.
    fn wait_for(&self, others: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let local = format!("0100007F:{:04X}", self.port);
        let connections = || {
            let table = fs::read_to_string("/proc/net/tcp").unwrap();
            let words = table.lines().map(|line| line.split_whitespace());
            let established = words.map(|mut words| (words.nth(1), words.nth(1)));
            established
                .filter(|&state| state == (Some(&local[..]), Some("01")))
                .count()
        };
        while connections() < others {
            assert!(
                Instant::now() < deadline,
                "the ranks do not find each other"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal(&mut self, rank: usize, signal: Signal) -> Child {
        let at = self.ranks.iter().position(|other| other.0 == rank);
        let (_, child) = self.ranks.remove(at.unwrap());
        // It may have ended; it is not reaped, so the number is still its own.
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        child
    }

    /// How all end, within ten seconds.
    fn ended(mut self) -> Vec<(usize, Output)> {
        let ranks = std::mem::take(&mut self.ranks).into_iter();
        ranks
            .map(|(rank, child)| (rank, must_end_soon(child)))
            .collect()
    }
}

/// All have failed, each with one line that names a rank.
fn must_name(ended: Vec<(usize, Output)>, lost: usize, why: &str) {
    for (rank, output) in ended {
        let told = format!("rank {rank}: {}", said(&output));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let errors = stderr.lines().filter(|line| line.starts_with("error:"));
        let errors: Vec<&str> = errors.collect();
        let [error] = errors[..] else {
            panic!("one error of {told}")
        };
        assert_eq!(output.status.code(), Some(1), "{told}");
        let names = error.contains(&format!("rank {lost} ")) && error.contains(why);
        assert!(names, "rank {lost} is not named by {told}");
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        for (_, child) in &mut self.ranks {
            child.kill().ok(); // it may have ended
            child.wait().ok();
        }
    }
}

#[test]
fn whichever_rank_is_killed_during_set_up_in_the_middle_or_near_the_end_is_named_by_all_others() {
    let arguments = "--n 1500 --nb 50 --repeat 8 --check=false --json";
    for lost in 0..3 {
        let mut job = ByHand::new();
        let beside = usize::from(lost == 0);
        for rank in [lost, beside] {
            job.start(rank, arguments); // and another does not come
        }
        job.wait_for(1);
        thread::sleep(Duration::from_millis(200));
        job.signal(lost, Signal::SIGKILL).wait().unwrap();
        must_name(job.ended(), lost, "");
    }
    let mut whole = ByHand::start_all(arguments);
    whole.wait_for(2);
    let begun = Instant::now();
    let mut digest = Value::Null;
    for (rank, child) in std::mem::take(&mut whole.ranks) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        if rank == 0 {
            digest = told_digest(&output);
        }
    }
    let whole = begun.elapsed();
    for (lost, share) in [(0, 0.4), (1, 0.4), (2, 0.4), (0, 0.9), (1, 0.9), (2, 0.9)] {
        let is_named = (0..TRIES).any(|tries| {
            let mut job = ByHand::start_all(arguments);
            job.wait_for(2);
            thread::sleep(whole.mul_f64(share * 0.8_f64.powi(tries)));
            let killed = job.signal(lost, Signal::SIGKILL).wait().unwrap();
            let is_good = |(_, output): &(usize, Output)| output.status.success();
            let (good, failed): (Vec<_>, Vec<_>) = job.ended().into_iter().partition(is_good);
            // Where one has ended well, the last run was over before.
            if let Some((_, first)) = good.iter().find(|(rank, _)| *rank == 0) {
                assert_eq!(told_digest(first), digest);
            }
            must_name(failed, lost, "");
            !killed.success() && good.is_empty()
        });
        assert!(is_named, "{TRIES} runs ended well without rank {lost}");
    }
}

/// The digest that rank 0 prints.
fn told_digest(output: &Output) -> Value {
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|fault| panic!("{fault}: {}", said(output)));
    assert!(told["digest"].is_string(), "{told}");
    told["digest"].clone()
}

/// So often a run may be over before a rank is killed, each time a fifth earlier.
const TRIES: i32 = 10;

/// Examples with data of their own, that run for a while.
const APPLICATIONS: &[(&str, &str)] = &[
    ("jacobi3d", "--n 60 --blocks 6x6x1 --iterations 100000"),
    ("nas_ft", "--size 64x64x64 --iterations 10000"),
    ("blackscholes", "--options 5000000 --repeats 100"),
    ("swaptions", "--swaptions 32 --trials 10000000"),
    ("shallow_water", "--nodes 2562 --steps 50000"),
];

#[test]
fn a_rank_of_an_application_that_is_killed_is_named_by_the_others() {
    for &(program, arguments) in APPLICATIONS {
        let mut job = ByHand::of(program);
        (0..3).for_each(|rank| job.start(rank, arguments));
        job.wait_for(2);
        thread::sleep(Duration::from_millis(300));
        job.signal(1, Signal::SIGKILL).wait().unwrap();
        must_name(job.ended(), 1, "");
    }
}

#[test]
fn a_rank_that_stands_still_is_named_after_the_silence_that_was_asked_for() {
    let mut job = ByHand::start_all("--n 4000 --nb 40 --repeat 50 --check=false --silence 2");
    job.wait_for(2);
    thread::sleep(Duration::from_millis(300));
    let mut still = job.signal(1, Signal::SIGSTOP);
    must_name(job.ended(), 1, "has been silent towards rank");
    still.kill().unwrap();
    still.wait().unwrap();
}

#[test]
fn ranks_that_are_given_different_flags_by_hand_are_told_which() {
    let mut job = ByHand::new();
    for (rank, nb) in [(0, 100), (1, 96), (2, 100)] {
        job.start(rank, &format!("--n 200 --nb {nb}"));
    }
    for (_, rank) in std::mem::take(&mut job.ranks) {
        let told = said(&must_end_soon(rank));
        let line = told.lines().find(|line| line.starts_with("error:"));
        let names = |word: &&str| line.is_some_and(|line| line.contains(word));
        assert!(["--nb", "100", "96"].iter().all(names), "{told}");
    }
}

#[test]
fn a_rank_that_starts_five_seconds_late_is_waited_for() {
    let mut job = ByHand::new();
    let arguments = "--n 200 --nb 64";
    for rank in [0, 2] {
        job.start(rank, arguments);
    }
    thread::sleep(Duration::from_secs(5));
    job.start(1, arguments);
    for (_, rank) in std::mem::take(&mut job.ranks) {
        let output = must_end_soon(rank);
        assert!(output.status.success(), "{}", said(&output));
    }
}

/// The processes of a program that descend from another.
fn descendants(of: u32, name: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for child in children(of) {
        let is_it = fs::read_to_string(format!("/proc/{child}/comm"));
        if is_it.is_ok_and(|comm| comm.trim() == name) {
            found.push(child);
        }
        found.extend(descendants(child, name));
    }
    found
}

/// Both ranks ask one system for the time, so what is left is how well each knows it: arrows between
/// processes are right to a microsecond, whoever uses the cores meanwhile.
#[test]
fn clocks_of_ranks_of_one_machine_are_found_to_agree_under_mpirun() {
    let Some(mut mpirun) = under_mpi(2) else {
        return;
    };
    let path = std::env::temp_dir().join(format!("clocks-{}.svg", std::process::id()));
    mpirun.arg(example("cholesky"));
    mpirun.args("--n 400 --nb 100 --threads 1 --json --trace".split(' '));
    mpirun.arg(&path);
    let told = object(mpirun);
    std::fs::remove_file(&path).ok();
    let told = &told["trace"][0];
    let error = told["clock_error_seconds"].as_f64().unwrap();
    let ahead = told["clock_ahead_seconds"].as_array().unwrap();
    println!("clocks: ahead by {ahead:?} s, {error:.1e} s at most wrong");
    assert_eq!(ahead.len(), 2);
    for ahead in ahead {
        assert_eq!(ahead.as_f64(), Some(0.0), "{told}");
    }
    assert!(0.0 < error && error < 1e-6, "{told}");
    assert_eq!(told["messages_backwards"], 0, "{told}");
}

#[test]
fn under_mpirun_all_have_ended_within_ten_seconds_after_a_rank_was_killed() {
    for (lost, pause) in [(0, 0), (1, 300), (2, 1000)] {
        let Some(mut mpirun) = under_mpi(3) else {
            return;
        };
        mpirun.arg(example("cholesky"));
        mpirun.args("--n 4000 --nb 40 --threads 1 --check=false".split(' '));
        mpirun.stdout(Stdio::null()).stderr(Stdio::null());
        let mpirun = mpirun.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let ranks = loop {
            let ranks = descendants(mpirun.id(), "cholesky");
            if ranks.len() == 3 {
                break ranks;
            }
            assert!(Instant::now() < deadline, "the ranks do not start");
            thread::sleep(Duration::from_millis(1));
        };
        thread::sleep(Duration::from_millis(pause));
        kill(Pid::from_raw(ranks[lost] as i32), Signal::SIGKILL).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        assert!(!must_end_soon(mpirun).status.success());
        while ranks.iter().any(|rank| is_alive(*rank)) {
            assert!(Instant::now() < deadline, "ranks are left");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn is_alive(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn two_hosts_have_the_digest_of_one_rank() {
    let hosts = match Hosts::new(2) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: {why}"),
    };
    let file = std::env::temp_dir().join(format!("dataflow-two-hosts-{}", std::process::id()));
    let [first, second, _] = ADDRESSES;
    fs::write(&file, format!("{first}:4000\n{second}\n")).unwrap();
    let by_file = |_: usize| format!("--hosts {}", file.display());
    let by_flags = |rank: usize| {
        let own = ["4001", "0"][rank];
        let own = format!("{}:{own}", ADDRESSES[rank]);
        format!("--listen {own} --peers {first}:4001,{second}")
    };
    let named: [(&str, &dyn Fn(usize) -> String); 2] = [("1x2", &by_file), ("2x1", &by_flags)];
    let arguments = "--n 300 --nb 64 --threads 1 --check --json";
    let alone = object(command(example("cholesky"), arguments));
    for (grid, named) in named {
        let start = |rank: usize| {
            let by = hosts.on(rank as u32);
            let mut command = command(&by[0], "");
            command.args(&by[1..]).arg(example("cholesky"));
            let line = format!("{arguments} --grid {grid} --rank {rank} {}", named(rank));
            command.args(line.split(' ')).envs([token()]);
            command.spawn().unwrap()
        };
        let [first, second] = [0, 1]
            .map(start)
            .map(|rank| rank.wait_with_output().unwrap());
        assert!(second.status.success(), "{}", said(&second));
        let told = serde_json::from_slice(&first.stdout);
        let told: Value = told.unwrap_or_else(|fault| panic!("{fault}: {}", said(&first)));
        must_agree(&alone, &told, FACTOR, 2);
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn ranks_started_by_hand_find_each_other_and_rank_0_alone_speaks() {
    let hosts = std::env::temp_dir().join(format!("dataflow-hosts-{}", std::process::id()));
    let port = free_port();
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
            command.envs([token()]).spawn().unwrap()
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
        output.status.code() == Some(2) && said(&output).contains("DATAFLOW_TOKEN is not set"),
        "{}",
        said(&output)
    );
}

/// They were variables that are not set: any port was taken.
#[test]
fn what_a_rank_by_hand_cannot_read_in_its_environment_is_refused_by_name() {
    for (name, told) in [
        ("DATAFLOW_PORTS", "DATAFLOW_PORTS is \"4\u{fffd}\""),
        ("DATAFLOW_TOKEN", "DATAFLOW_TOKEN is wrong"),
    ] {
        let arguments = "--n 10 --rank 0 --peers 127.0.0.1:1,127.0.0.1";
        let mut command = command(example("cholesky"), arguments);
        command.envs([token()]);
        command.env(name, OsStr::from_bytes(b"4\xff"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(said(&output).contains(told), "{name}: {}", said(&output));
    }
}

/// What is measured for people alone told each rank's own number of workers, and ended in `parameters_differ`
/// after a good run; so did a width that is the number of all workers.
#[test]
fn ranks_may_have_different_numbers_of_workers() {
    for (program, arguments) in [
        ("cholesky", "--n 100 --nb 32"),
        ("task_bench", "--steps 10 --json"),
    ] {
        let peers = format!("--peers 127.0.0.1:{},127.0.0.1", free_port());
        let start = |rank: usize| {
            let threads = rank + 1;
            let arguments = format!("{arguments} --threads {threads} --rank {rank} {peers}");
            let mut command = command(example(program), &arguments);
            command.envs([token()]).spawn().unwrap()
        };
        let [other, first] = [1, 0]
            .map(start)
            .map(|rank| rank.wait_with_output().unwrap());
        assert!(first.status.success(), "{program}: {}", said(&first));
        assert!(other.status.success(), "{program}: {}", said(&other));
        if program == "task_bench" {
            let object: Value = serde_json::from_slice(&first.stdout).unwrap();
            assert_eq!(object["width"], 3, "{object}");
        }
    }
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
        let long =
            "--n 4000 --nb 40 --repeat 50 --threads 1 --check=false --ranks 4 --transport tcp";
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
        let how = "dataflow: the process of rank 2 ended by signal: 9 (SIGKILL)";
        assert_eq!(told.matches(how).count(), 1, "after {pause} ms: {told}");
        let left = others.iter().filter(|child| is_alive(**child));
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
