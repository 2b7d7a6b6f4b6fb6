//! Launch, where the ranks are processes that it starts: what is done how often, and how all end.
//!
//! A test starts itself again as the program that it is about; the ranks of that do the same.

#![cfg(target_os = "linux")]

use dataflow::core::space::{Erased, Independent};
use dataflow::linalg::LinalgError;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::mpi::Settings;
use dataflow::prelude::*;
use dataflow::{Error, RuntimeBuilder, Tiled, Transport};
use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Set where this process is the program.
const PROGRAM: &str = "DATAFLOW_TEST_PROGRAM";

/// The program is this function, in a process of its own; otherwise starts that process.
fn program(test: &str, main: impl FnOnce() -> ExitCode) -> Command {
    if std::env::var_os(PROGRAM).is_some() {
        let code = main();
        std::process::exit(i32::from(code != ExitCode::SUCCESS));
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture"])
        .env(PROGRAM, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// How it ended, all its ranks too: they hold what it prints to open. Not later than in a minute.
fn ended(mut command: Command) -> Output {
    let child = command.spawn().unwrap();
    let id = child.id();
    let waits = thread::spawn(move || child.wait_with_output().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !waits.is_finished() {
        if Instant::now() > deadline {
            Command::new("kill").arg(id.to_string()).status().unwrap();
            panic!("the program does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
    waits.join().unwrap()
}

/// How often a line was printed that begins like this.
fn count(output: &Output, begins: &str) -> usize {
    let all = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let lines = all.iter().flat_map(|text| text.lines());
    lines.filter(|line| line.starts_with(begins)).count()
}

fn told(output: &Output) -> String {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{}\n{stdout}\n{stderr}", output.status)
}

fn ranks(n_ranks: usize) -> RuntimeBuilder {
    let ranks = Runtime::builder().threads(1).ranks(n_ranks);
    ranks.transport(Transport::Tcp)
}

/// The sum of what all ranks add.
fn sum(runtime: &Runtime, own: u64) -> Result<u64, Error> {
    runtime.all_reduce(own, |a, b| a + b)
}

#[test]
fn what_stands_behind_a_launch_is_done_once_and_what_stands_before_by_every_rank() {
    let name = "what_stands_behind_a_launch_is_done_once_and_what_stands_before_by_every_rank";
    let program = program(name, || {
        println!("\nbefore");
        let answer = launch(ranks(4), |runtime| {
            let all = sum(runtime, u64::from(runtime.rank().0))?;
            if runtime.rank() == Rank(2) {
                thread::sleep(Duration::from_secs(1)); // it is waited for
            }
            println!("\nranks add up to {all}");
            Ok::<_, Error>(runtime.rank())
        });
        println!("\nbehind: {answer:?}");
        ExitCode::SUCCESS
    });
    let output = ended(program);
    assert!(output.status.success(), "{}", told(&output));
    let counts = [
        "before",
        "ranks add up to 6",
        "behind: Ok(Rank(0))",
        "behind",
    ];
    let counts = counts.map(|line| count(&output, line));
    assert_eq!(counts, [4, 4, 1, 1], "{}", told(&output));
}

/// All were started before anybody asked: a hundred thousand, for a digit too many.
#[test]
fn ranks_for_which_a_process_has_too_few_sockets_are_not_started() {
    let name = "ranks_for_which_a_process_has_too_few_sockets_are_not_started";
    let unlimited = program(name, || {
        println!("\nbefore");
        let error = launch(ranks(4), |_| Ok::<_, Error>(())).unwrap_err();
        println!("\nrefused: {error}");
        ExitCode::SUCCESS
    });
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 100 && exec \"$0\" \"$@\""])
        .arg(unlimited.get_program())
        .args(unlimited.get_args())
        .env(PROGRAM, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = ended(limited);
    assert!(
        told(&output).contains("the system allows 100"),
        "{}",
        told(&output)
    );
    let counts = ["before", "refused"].map(|line| count(&output, line));
    assert_eq!(counts, [1, 1], "{}", told(&output));
}

/// A trace that could not be written was told of by a panic, after a run that had ended well.
#[test]
fn what_nobody_takes_from_standard_error_fails_no_program() {
    let name = "what_nobody_takes_from_standard_error_fails_no_program";
    let mut program = program(name, || {
        let two = Runtime::builder().threads(1).ranks(2);
        let all = launch(two, |runtime| sum(runtime, 1)).unwrap();
        println!("\nbehind: {all}");
        ExitCode::SUCCESS
    });
    let full = std::fs::File::options().write(true).open("/dev/full");
    // A device, so it is not looked at before the end.
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("full.html");
    std::fs::remove_file(&page).ok(); // of an earlier run of this test
    std::os::unix::fs::symlink("/dev/full", &page).unwrap();
    program.env("DATAFLOW_TRACE", &page).stderr(full.unwrap());
    let output = ended(program);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(count(&output, "behind: 2"), 1, "{}", told(&output));
}

#[test]
fn a_program_launches_again_and_again_and_the_ranks_are_the_same() {
    let name = "a_program_launches_again_and_again_and_the_ranks_are_the_same";
    let program = program(name, || {
        let mut seen = Vec::new();
        for n in 1..=3u64 {
            let answer = launch(ranks(3), |runtime| {
                let own = (runtime.rank(), std::process::id());
                seen.iter().for_each(|before| assert_eq!(own, *before));
                let all = sum(runtime, n * u64::from(runtime.rank().0))?;
                Ok::<_, Error>((own, all))
            });
            let (own, all) = answer.unwrap();
            seen.push(own);
            println!("\nlaunch {n}: {all}");
        }
        let threads = launch(ranks(2).transport(Transport::Local), |runtime| {
            sum(runtime, 1)
        });
        println!("\nthreads: {threads:?}");
        let other = launch(ranks(2), |_| Ok::<_, Error>(()));
        println!("\nof 2: {}", other.unwrap_err());
        let all = launch(ranks(3), |runtime| sum(runtime, 1));
        println!("\nafter that: {all:?}");
        ExitCode::SUCCESS
    });
    let output = ended(program);
    assert!(output.status.success(), "{}", told(&output));
    for (line, times) in [
        ("launch 1: 3", 3),
        ("launch 2: 6", 3),
        ("launch 3: 9", 3),
        ("threads: Ok(2)", 3),
        ("after that: Ok(3)", 1),
    ] {
        assert_eq!(count(&output, line), times, "{line} of {}", told(&output));
    }
    let of_2 = "of 2: 2 ranks were asked for, and 3 were started";
    assert!(count(&output, of_2) >= 1, "{}", told(&output));
}

/// Started ranks took their part of the launch over sockets in the first that did not name a transport.
#[test]
fn started_ranks_join_the_launches_that_ask_for_sockets_and_no_others() {
    let name = "started_ranks_join_the_launches_that_ask_for_sockets_and_no_others";
    let program = program(name, || {
        let threads = |n_ranks| Runtime::builder().threads(1).ranks(n_ranks);
        let all = [threads(2), threads(1), ranks(2), threads(2), ranks(2)]
            .into_iter()
            .zip([1, 2, 10, 20, 100])
            .map(|(settings, own)| launch(settings, |runtime| sum(runtime, own)));
        println!("\nsums: {:?}", all.collect::<Result<Vec<_>, _>>());
        ExitCode::SUCCESS
    });
    let output = ended(program);
    let line = "sums: Ok([2, 2, 20, 40, 200])";
    assert_eq!(count(&output, line), 1, "{}", told(&output));
}

/// It waited for rank 0, which did not expect it, and could take the last word of the rank from it.
#[test]
fn a_program_that_a_rank_starts_does_not_take_its_seat() {
    const TOOL: &str = "DATAFLOW_TEST_TOOL";
    let name = "a_program_that_a_rank_starts_does_not_take_its_seat";
    let program = program(name, || {
        if std::env::var_os(TOOL).is_some() {
            let messages = Settings {
                patience: Duration::from_secs(2),
                ..Settings::default()
            };
            let threads = Runtime::builder().threads(1).ranks(2);
            println!("\ntool: {:?}", launch(threads, |runtime| sum(runtime, 2)));
            let sockets = launch(ranks(2).messages(messages), |runtime| sum(runtime, 1));
            println!("\ntool: {}", sockets.unwrap_err());
            return ExitCode::SUCCESS;
        }
        let answer = launch(ranks(2), |runtime| {
            if runtime.rank() == Rank(1) {
                let mut tool = Command::new(std::env::current_exe().unwrap());
                tool.args(std::env::args_os().skip(1)).env(TOOL, "1");
                tool.status().unwrap();
            }
            sum(runtime, 1)
        });
        println!("\nanswer: {answer:?}");
        ExitCode::SUCCESS
    });
    let output = ended(program);
    for line in ["tool: Ok(4)", "answer: Ok(2)"] {
        assert_eq!(count(&output, line), 1, "{line} of {}", told(&output));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let refused = "seat of a process that has started this one: rank 1 of 2";
    assert!(text.contains(refused), "{}", told(&output));
}

/// An error of a program's own.
#[derive(Debug)]
enum Failed {
    Run(Error),
    NoSpace,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Run(error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Run(error) => write!(f, "the run: {error}"),
            Failed::NoSpace => f.write_str("no space is left"),
        }
    }
}

/// Rank 0 had said that all was well.
#[test]
fn a_rank_that_fails_when_all_else_is_done_fails_the_program() {
    let name = "a_rank_that_fails_when_all_else_is_done_fails_the_program";
    let program = program(name, || {
        let answer = launch(ranks(3), |runtime| {
            sum(runtime, 1)?;
            match runtime.rank() == Rank(1) {
                true => {
                    thread::sleep(Duration::from_millis(300));
                    Err(Failed::NoSpace)
                }
                false => Ok(()),
            }
        });
        match answer {
            Ok(()) => ExitCode::SUCCESS,
            Err(failed) => {
                println!("\nfailed: {failed}");
                ExitCode::FAILURE
            }
        }
    });
    let output = ended(program);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(count(&output, "failed: no space"), 1, "{}", told(&output));
    let of_rank_0 = count(&output, "failed: the run: rank 1 failed: its process ended");
    assert_eq!(of_rank_0, 1, "{}", told(&output));
    assert_eq!(count(&output, "failed"), 2, "{}", told(&output));
}

/// `Duration::MAX` was added to the time, which is a panic: in each rank at another place.
#[test]
fn ranks_that_may_wait_and_be_silent_for_ever_run() {
    let name = "ranks_that_may_wait_and_be_silent_for_ever_run";
    let program = program(name, || {
        let messages = Settings {
            patience: Duration::MAX,
            silence: Duration::MAX,
            ..Settings::default()
        };
        let answer = launch(ranks(3).messages(messages), |runtime| sum(runtime, 1));
        println!("\nanswer: {answer:?}");
        ExitCode::SUCCESS
    });
    let output = ended(program);
    assert_eq!(count(&output, "answer: Ok(3)"), 1, "{}", told(&output));
}

/// They said only once a second that they live, and were lost to rank 0, which waited for another.
#[test]
fn ranks_whose_part_is_done_say_that_they_live_as_often_as_the_silence_allowed_asks() {
    let name = "ranks_whose_part_is_done_say_that_they_live_as_often_as_the_silence_allowed_asks";
    let program = program(name, || {
        let settings = ranks(3).silence(Duration::from_millis(400));
        let answer = launch(settings, |runtime| {
            let all = sum(runtime, 1)?;
            if runtime.rank() == Rank(2) {
                thread::sleep(Duration::from_millis(1500));
            }
            Ok::<_, Error>(all)
        });
        println!("\nanswer: {answer:?}");
        ExitCode::SUCCESS
    });
    let output = ended(program);
    assert_eq!(count(&output, "answer: Ok(3)"), 1, "{}", told(&output));
}

#[test]
fn ranks_whose_part_is_done_end_with_the_process_that_started_them() {
    let name = "ranks_whose_part_is_done_end_with_the_process_that_started_them";
    let mut program = program(name, || {
        let answer = launch(ranks(3), |runtime| {
            println!("\nprocess {}", std::process::id());
            sum(runtime, 1)
        });
        println!("\nbehind: {answer:?}");
        thread::sleep(Duration::from_secs(60));
        ExitCode::SUCCESS
    });
    let mut first: Child = program.spawn().unwrap();
    let lines = BufReader::new(first.stdout.take().unwrap()).lines();
    let mut processes = Vec::new();
    for line in lines.map_while(Result::ok) {
        if let Some(id) = line.strip_prefix("process ") {
            processes.push(id.to_string());
        }
        if line.starts_with("behind") {
            break;
        }
    }
    let is_alive = |id: &&String| Path::new(&format!("/proc/{id}")).exists();
    assert_eq!(processes.iter().filter(is_alive).count(), 3, "they stay");
    first.kill().unwrap();
    first.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while processes.iter().any(|id| is_alive(&id)) {
        assert!(Instant::now() < deadline, "processes are left");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Every task reads slot 0, and the last replaces it: no run sees that nothing orders it after the others.
struct Unordered(Store<u64>);

impl TaskSpace for Unordered {
    type Task = u64;
    type Datum = u64;

    fn describe(&self, about: &mut Description) {
        let task = about.name("unordered").class("Task");
        task.read("OLD").new_flow("NEW");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
        (0..3).filter(move |_| on == Rank(0))
    }

    fn inputs(&self, _: u64, from: &mut impl Inputs<Self>) {
        from.home(0, &self.0, 0);
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task == 2 {
            to.home(1, &self.0, 0);
        }
    }

    fn run(&self, _: u64, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
        let [_, new] = flows.slots();
        new.put(1);
        Ok(())
    }
}

/// Each solution is a series of graphs.
fn solve_systems(runtime: &Runtime) -> Result<(), LinalgError> {
    let (definite, random) = (PositiveDefinite::new(7, 1), Random::new(3));
    let over = |layout: Layout| {
        let grid = Distribution::BlockCyclic(Grid::new(1, 2).unwrap());
        layout.distributed(grid, runtime.rank()).unwrap()
    };
    let lower = over(Layout::lower(7, 2).unwrap());
    let [whole, sides] = [7, 2].map(|cols| over(Layout::general(7, cols, 2).unwrap()));
    let b = TiledMatrix::<f64>::from_entries(sides, &random);
    for layout in [lower, whole] {
        TiledMatrix::from_entries(layout, &definite).solve(&b, runtime)?;
    }
    let a = TiledMatrix::<f64>::from_entries(whole, &random);
    a.least_squares(&b, runtime)?;
    a.inverse(runtime)?;
    Ok(())
}

/// Each rank knew how its own part of such a series is joined, and was asked for all.
#[test]
fn a_series_over_ranks_is_verified_if_the_environment_asks() {
    let name = "a_series_over_ranks_is_verified_if_the_environment_asks";
    for (asked, ends) in [
        ("0", "run with 6 tasks"),
        ("1", "refused: 2 reads slot 0 of numbers, which 2 replaces"),
    ] {
        let mut program = program(name, || {
            let solved = launch(ranks(2), solve_systems);
            let ran = launch(ranks(2), |runtime| {
                let lies = [(); 2].map(|()| Unordered(Store::new("numbers", [0])));
                let series = Erased::series(lies.iter().map(Erased::new), 0..2)?;
                runtime.run_across(&series)
            });
            match (solved, ran) {
                (Err(fault), _) => println!("\nno solution: {fault}"),
                (Ok(()), Ok(report)) => println!("\nrun with {} tasks", report.tasks),
                (Ok(()), Err(fault)) => println!("\nrefused: {fault}"),
            }
            ExitCode::SUCCESS
        });
        program.env("DATAFLOW_VERIFY", asked);
        let output = ended(program);
        assert!(count(&output, ends) >= 1, "{asked}: {}", told(&output));
    }
}

/// A rank that could not be read was none: the process ran alone, as all ranks there are. And of a number of
/// workers nothing was said but that it is not Unicode.
#[test]
fn variables_that_are_not_unicode_are_refused_by_name_with_what_is_allowed() {
    let name = "variables_that_are_not_unicode_are_refused_by_name_with_what_is_allowed";
    let seated = [("DATAFLOW_TCP_RANKS", "2"), ("DATAFLOW_TOKEN", "no token")];
    let by_slurm = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_LOCALID", "0")];
    let traced = [("DATAFLOW_TRACE", "page.html"), ("PMI_SIZE", "2")];
    for (variable, others, allowed) in [
        ("DATAFLOW_TCP_RANK", &seated[..], "a number is needed"),
        ("SLURM_PROCID", &by_slurm, "a number is needed"),
        ("PMI_RANK", &traced, "a number is needed"),
        ("DATAFLOW_EXPECTED_RANKS", &[], "a number is needed"),
        ("DATAFLOW_THREADS", &[], "must be a number, 1 or more"),
        ("DATAFLOW_BIND", &[], "pus"),
        ("DATAFLOW_POLICY", &[], "fifo"),
        ("DATAFLOW_TRACE", &[], ".html"),
        ("DATAFLOW_VERIFY", &[], "0 and 1 are allowed"),
    ] {
        let mut program = program(name, || {
            let started = Runtime::new().map(|_| ());
            let launched = || launch(Runtime::builder().threads(1), |_| Ok::<_, Error>(()));
            match started.and_then(|()| launched()) {
                Err(fault) => println!("\nrefused: {fault}"),
                Ok(()) => println!("\nran"),
            }
            ExitCode::SUCCESS
        });
        program.envs(others.iter().copied());
        program.env(variable, OsStr::from_bytes(b"1\xff"));
        let told = told(&ended(program));
        for part in ["refused", variable, "1\u{fffd}", allowed] {
            assert!(told.contains(part), "{variable}: {part} of {told}");
        }
    }
}

/// It was told by the first run of a space, if there was one.
#[test]
fn what_the_environment_asks_of_runs_in_no_known_words_is_refused_before_a_program_begins() {
    let name =
        "what_the_environment_asks_of_runs_in_no_known_words_is_refused_before_a_program_begins";
    for (variable, wrong) in [("DATAFLOW_VERIFY", "2"), ("DATAFLOW_TRACE", "x")] {
        let mut program = program(name, || {
            let begun = |_: &Runtime| {
                println!("\nbegun");
                Ok::<_, Error>(())
            };
            let settings = || Runtime::builder().threads(1).ranks(2);
            let answers = [
                launch(settings(), begun),
                launch(settings().transport(Transport::Tcp), begun),
                Runtime::from_env().map(drop),
                RuntimeBuilder::from_env().map(drop),
            ];
            for answer in answers {
                match answer {
                    Err(fault) => println!("\nrefused: {fault}"),
                    Ok(()) => println!("\nran"),
                }
            }
            ExitCode::SUCCESS
        });
        program.env(variable, wrong);
        let output = ended(program);
        let (refused, begun) = (count(&output, "refused: "), count(&output, "begun"));
        assert_eq!((refused, begun), (4, 0), "{variable}: {}", told(&output));
        assert!(told(&output).contains(variable), "{}", told(&output));
    }
}

/// There was no page, and nobody knew why.
#[test]
fn a_program_that_asks_for_traces_itself_says_once_that_there_is_no_page() {
    let name = "a_program_that_asks_for_traces_itself_says_once_that_there_is_no_page";
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-of-its-own.html");
    let mut program = program(name, || {
        let settings = || Runtime::builder().threads(1).ranks(2).trace(1 << 20);
        for transport in [Transport::Local, Transport::Tcp, Transport::Local] {
            launch(settings().transport(transport), |_| Ok::<_, Error>(())).unwrap();
        }
        ExitCode::SUCCESS
    });
    program.env("DATAFLOW_TRACE", &page);
    let output = ended(program);
    let said = count(
        &output,
        "dataflow: DATAFLOW_TRACE: the program asks for traces itself",
    );
    assert_eq!(said, 1, "{}", told(&output));
    assert!(!page.exists());
}

/// A file's name is bytes.
#[test]
fn a_trace_is_written_to_a_file_whose_name_is_not_unicode() {
    let name = "a_trace_is_written_to_a_file_whose_name_is_not_unicode";
    let mut page = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .as_os_str()
        .to_owned();
    page.push(OsStr::from_bytes(b"/page-\xff.html"));
    std::fs::remove_file(&page).ok(); // of an earlier run of this test
    let mut program = program(name, || {
        let runtime = Runtime::new().unwrap();
        let nothing = Independent::new("nothing", 3, |_| Ok(()));
        runtime.run(&nothing).unwrap();
        ExitCode::SUCCESS
    });
    let output = ended({
        program.env("DATAFLOW_TRACE", &page);
        program
    });
    assert!(Path::new(&page).exists(), "{}", told(&output));
}
