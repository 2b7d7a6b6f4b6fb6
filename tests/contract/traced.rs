//! `--trace FILE`: a file of the kind that its extension tells, an explanation, and the same as keys.

use crate::ended::*;
use crate::every::EXAMPLES;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file of this test's own, in a folder of its own: nothing of an earlier run lies there.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join("traced").join(name);
    // There is none at first.
    let _none = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// A name that can be opened and not written: that shows when the run is over.
#[cfg(target_os = "linux")]
fn full(name: &str) -> String {
    let path = file(name);
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_graph_is_drawn_with_its_ranks() {
    let path = file("cholesky.dot");
    let flags = [
        "--n",
        "60",
        "--nb",
        "20",
        "--ranks",
        "2",
        "--dot",
        path.to_str().unwrap(),
    ];
    let ended = run("cholesky", &flags);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let text = std::fs::read_to_string(&path).unwrap();
    for part in ["cluster_1", "Gemm { m: 2, n: 1, k: 0 }"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Three tiles a side: ten tasks, and twelve edges.
    assert_eq!(
        (text.matches("label=\"").count(), text.matches("->").count()),
        (12, 12),
        "{text}"
    );
}

/// Runs an example with a trace, and gives its object.
fn traced(example: &str, arguments: &[&str], path: &Path) -> Value {
    let flags = ["--json", "--trace", path.to_str().unwrap()];
    let ended = run(example, &[arguments, &flags].concat());
    assert_eq!((ended.status, &*ended.stderr), (0, ""), "{example}");
    ended.object()
}

/// Where an example tells what it has computed; of empty tasks, how many there were.
fn result(example: &str) -> &'static str {
    match example {
        "fibonacci" | "powerset" => "value",
        "sequence" => "stops",
        "overhead" => "tasks",
        "task_bench" => "errors",
        _ => "digest",
    }
}

#[test]
fn every_example_leaves_a_trace_of_what_it_measured_and_computes_the_same() {
    for (example, arguments) in EXAMPLES {
        let arguments = [arguments, &["--threads", "2"]].concat();
        let plain = run(example, &[&arguments[..], &["--json"]].concat()).object();
        let path = file(&format!("{example}.pftrace"));
        let object = traced(example, &arguments, &path);
        let result = result(example);
        assert!(!plain[result].is_null(), "{result} of {plain}");
        assert_eq!(object[result], plain[result], "{example}");
        let traces = object["trace"].as_array().unwrap();
        assert!(!traces.is_empty(), "{example}");
        for trace in traces {
            let shares = trace["shares"].as_object().unwrap().values();
            let sum: f64 = shares.map(|share| share.as_f64().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{example}: {trace}");
            assert!(
                trace["efficiency"].as_f64().unwrap() <= 1.0,
                "{example}: {trace}"
            );
            assert!(!trace["verdict"].as_str().unwrap().is_empty());
            assert_eq!(trace["missing_records"], 0);
            let written = std::fs::read(trace["file"].as_str().unwrap()).unwrap();
            assert!(!written.is_empty(), "{example}");
        }
        assert!(plain.get("trace").is_none(), "{example}");
    }
}

#[test]
fn each_extension_makes_a_file_of_its_kind() {
    let declared = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg ";
    let begins = [
        ("pftrace", "\n"), // a packet
        ("json", "{\"displayTimeUnit\":"),
        ("prv", "#Paraver ("),
        ("paje", "%EventDef"),
        ("svg", declared),
        ("html", "<!DOCTYPE html>"),
    ];
    for (extension, begin) in begins {
        let path = file(&format!("kind.{extension}"));
        traced(
            "cholesky",
            &["--n", "200", "--nb", "40", "--threads", "2"],
            &path,
        );
        let read = |of: &str| std::fs::read(path.with_extension(of)).unwrap();
        let has = |of, text| String::from_utf8_lossy(&read(of)).contains(text);
        let written = read(extension);
        let first = &written[..written.len().min(60)];
        let begins = written.starts_with(begin.as_bytes());
        assert!(begins, "{extension}: {}", first.escape_ascii());
        match extension {
            "prv" => assert!(has("pcf", "Potrf") && has("row", "rank 0 worker 1")),
            _ => assert!(has(extension, "Potrf"), "{extension}"),
        }
    }
}

#[test]
fn a_window_shows_some_time_and_some_ranks() {
    let run = ["--n", "200", "--nb", "40", "--ranks", "2", "--threads", "1"];
    let shown = |window: &str| {
        let path = file("window.paje");
        let object = traced(
            "cholesky",
            &[&run[..], &["--window", window]].concat(),
            &path,
        );
        assert_eq!(object["tasks"], 35, "all of the run is measured");
        let text = std::fs::read_to_string(path).unwrap();
        [0, 1].map(|rank| text.contains(&format!("\"rank {rank}\"")))
    };
    assert_eq!(shown(".."), [true, true]);
    assert_eq!(shown("..@1..2"), [false, true]);
    let refused = crate::ended::run(
        "cholesky",
        &["--n", "50", "--window", "2..1", "--trace", "a.svg"],
    );
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("2..1"), "{}", refused.stderr);
}

/// An empty picture was written, and the status was 0.
#[test]
fn a_window_on_ranks_that_there_are_not_is_refused_with_those_there_are() {
    let path = file("nobody.html");
    let path = path.to_str().unwrap();
    for (of, window, told) in [
        ("--ranks 1", "0..1@7..9", "7..9 (its ranks are 0..1)"),
        ("--ranks 2", "..@2..", "2.. (its ranks are 0..2)"),
        ("--ranks 2", "..@1..1", "1..1 (its ranks are 0..2)"),
        (
            "--ranks 3 --grid 1x3 --simulate time",
            "..@3..4",
            "3..4 (its ranks are 0..3)",
        ),
    ] {
        let mut words = vec!["--n", "50", "--window", window, "--trace", path];
        words.extend(of.split(' '));
        let refused = crate::ended::run("cholesky", &words);
        let told = format!("--window: this run has no rank in {told}");
        let line = refused.is_a_bad_argument();
        assert!(line.contains(&told), "{of} {window}: {line}");
    }
}

/// An empty picture was written, and the status was 0.
#[test]
fn a_window_beyond_the_run_is_refused_with_how_long_the_run_was() {
    let path = file("beyond.html");
    let name = path.to_str().unwrap();
    let words = ["--n", "50", "--trace", name, "--window", "5000.."];
    let refused = crate::ended::run("cholesky", &words);
    let told = "nothing of the run is in the window 5000.. s (the run lasted 0.";
    assert_eq!(refused.status, 1, "{}", refused.stdout);
    let line = refused.stderr.trim_end();
    let begins = line.starts_with(&format!("error: {name}: {told}"));
    assert!(begins && line.ends_with(" s)"), "{line}");
    assert!(!path.exists(), "no empty page is left");
}

/// The matrix is read through three times, in far less time than it is factored in.
#[test]
fn of_several_graphs_those_are_written_that_the_window_shows_something_of() {
    let path = file("some.json");
    let flags = ["--n", "600", "--m", "600", "--threads", "1"];
    let flags = [&flags[..], &["--window", "0.001.."]].concat();
    let object = traced("least_squares", &flags, &path);
    let traces = object["trace"].as_array().unwrap();
    let left_out = object["traces_left_out"].as_u64().unwrap();
    assert_eq!(traces.len() + left_out as usize, 5, "{object}");
    assert!(!traces.is_empty(), "{object}");
    for trace in traces {
        assert!(trace["seconds"].as_f64().unwrap() >= 0.001, "{trace}");
    }
}

#[test]
fn the_version_of_an_example_is_that_of_the_workspace() {
    let told = crate::ended::run("cholesky", &["--version"]);
    let version = concat!("cholesky ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!((told.status, &*told.stdout), (0, version));
}

#[test]
fn a_trace_of_four_ranks_has_the_tasks_and_messages_of_all() {
    for transport in ["local", "tcp"] {
        let path = file(&format!("ranks-{transport}.json"));
        let flags = [
            "--n",
            "200",
            "--nb",
            "40",
            "--ranks",
            "4",
            "--threads",
            "1",
            "--transport",
            transport,
        ];
        let object = traced("cholesky", &flags, &path);
        let trace: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let events = trace["traceEvents"]
            .as_array()
            .or(trace.as_array())
            .unwrap();
        let of = |key: &str, value: &str| {
            let with = events.iter().filter(|event| event[key] == value);
            with.count() as u64
        };
        assert_eq!(
            of("cat", "task"),
            object["tasks"].as_u64().unwrap(),
            "{transport}"
        );
        // An arrow has two ends.
        assert_eq!(
            of("ph", "s"),
            object["messages"].as_u64().unwrap(),
            "{transport}"
        );
        assert_eq!(
            of("ph", "f"),
            object["messages"].as_u64().unwrap(),
            "{transport}"
        );
        let told = &object["trace"][0];
        assert!(told["hidden_share"].as_f64().is_some(), "{told}");
        let error = told["clock_error_seconds"].as_f64().unwrap();
        // Threads have one clock, as well as each rank knows it.
        let most = if transport == "tcp" { 1e-2 } else { 1e-4 };
        assert!(0.0 < error && error < most, "{told}");
        assert_eq!(told["clock_ahead_seconds"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn a_run_that_fails_leaves_its_trace() {
    let path = file("failed.svg");
    let matrix = file("indefinite.mtx");
    let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 1.0\n2 2 -1.0\n";
    std::fs::write(&matrix, text).unwrap();
    let flags = [
        "--input",
        matrix.to_str().unwrap(),
        "--nb",
        "1",
        "--trace",
        path.to_str().unwrap(),
    ];
    let ended = run("cholesky", &flags);
    assert_eq!(ended.status, 1);
    assert!(
        ended.stderr.contains("positive definite"),
        "{}",
        ended.stderr
    );
    assert!(std::fs::read_to_string(&path).unwrap().contains("failed"));
}

/// What the run came to was judged first, and what it had recorded was dropped without a word.
#[test]
fn a_run_whose_result_is_judged_bad_leaves_its_trace_too() {
    let text = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n";
    let matrix = file("singular.mtx");
    std::fs::write(&matrix, text).unwrap();
    let singular = ["--input", matrix.to_str().unwrap(), "--nb", "1"];
    let unfinished = "--n 20 --until 1e-12 --iterations 5 --limit 10 --ranks 2 --threads 1";
    let unfinished: Vec<&str> = unfinished.split(' ').collect();
    for (example, flags, kind) in [
        ("lu", &singular[..], "singular"),
        ("jacobi3d", &unfinished[..], "not_converged"),
    ] {
        let [page, graph] = [format!("{example}.html"), format!("{example}.dot")];
        let [page, graph] = [page, graph].map(|name| file(&name));
        let both = [page.to_str().unwrap(), graph.to_str().unwrap()];
        let both = ["--json", "--trace", both[0], "--dot", both[1]];
        let ended = run(example, &[flags, &both].concat());
        let told = ended.object();
        ended.says_what_failed(&told);
        assert_eq!(told["error"]["kind"], kind, "{told}");
        assert!(told["trace"][0]["verdict"].is_string(), "{told}");
        for path in [page, graph] {
            assert!(path.exists(), "{}", path.display());
        }
        #[cfg(target_os = "linux")]
        {
            let full = full(&format!("{example}_full.svg"));
            let told = run(example, &[flags, &["--json", "--trace", &full]].concat()).object();
            assert_eq!(told["error"]["kind"], kind, "{told}");
            let message = told["error"]["message"].as_str().unwrap();
            assert!(message.contains(&full), "{message}");
        }
    }
}

/// Each look at the change, and each word of ranks about it, was a graph with a file of its own.
#[test]
fn a_loop_to_convergence_leaves_its_first_sweeps_and_says_how_many_more_there_were() {
    for ranks in ["1", "2"] {
        let path = file(&format!("loop_{ranks}.svg"));
        let ninth = path.with_extension("9.svg");
        let flags = "--n 6 --problem source --iterations 1 --until 1e-9 --threads 1 --ranks";
        let flags: Vec<&str> = flags.split(' ').chain([ranks]).collect();
        let told = traced("jacobi3d", &flags, &path);
        let traces = told["trace"].as_array().unwrap();
        assert_eq!(traces.len(), 8, "{told}");
        let sweeps = told["iterations"].as_u64().unwrap();
        assert_eq!(told["traces_left_out"], sweeps - 8, "{told}");
        assert!(
            traces.iter().all(|trace| trace["graph"] == "jacobi3d"),
            "{told}"
        );
        assert!(!ninth.exists());
    }
}

/// The first one stayed among what had been recorded: ranks could not agree on it, and its graph was drawn.
#[test]
fn of_several_attempts_the_one_that_is_told_is_shown() {
    let matrix = file("two_attempts.mtx");
    let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 1\n2 1 2\n2 2 1\n";
    std::fs::write(&matrix, text).unwrap();
    for (ranks, flag, name) in [
        ("1", "--dot", "attempts_1.dot"),
        ("2", "--dot", "attempts_2.dot"),
        ("2", "--trace", "attempts_2.svg"),
    ] {
        let path = file(name);
        let (matrix, path) = (matrix.to_str().unwrap(), path.to_str().unwrap());
        let flags = [
            "--input", matrix, "--nb", "1", "--ranks", ranks, flag, path, "--json",
        ];
        assert_eq!(run("solve", &flags).done()["method"], "lu", "{name}");
        let shown = std::fs::read_to_string(path).unwrap();
        assert!(
            !shown.is_empty() && !shown.contains("Potrf"),
            "{name}: {shown}"
        );
    }
}

/// The example took what it had recorded, though nobody had asked it to: there was no page, and no word.
#[test]
fn a_page_that_the_environment_asks_for_is_left_by_examples_too() {
    let path = file("environment.html");
    let asking = format!("export DATAFLOW_TRACE='{}'", path.display());
    for (matrix, status) in [("spd", 0), ("hilbert", 1)] {
        for ranks in ["1", "2"] {
            let flags = ["--n", "50", "--matrix", matrix, "--ranks", ranks];
            let ended = run_with(&asking, "cholesky", &flags);
            assert_eq!(ended.status, status, "{}", ended.stderr);
            let page = std::fs::read_to_string(&path).unwrap_or_else(|fault| {
                panic!("{matrix} on {ranks} ranks: {fault}: {}", ended.stderr)
            });
            assert!(page.contains("Potrf"), "{matrix} on {ranks} ranks");
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// There was no page, and no word.
#[test]
fn an_example_that_measures_no_graph_says_that_there_is_no_page() {
    let path = file("nothing.html");
    let asking = format!("export DATAFLOW_TRACE='{}'", path.display());
    for (example, flags) in [
        ("ping_pong", &["--largest", "8", "--repeat", "1"][..]),
        ("cholesky", &["--n", "50", "--simulate", "counts"]),
    ] {
        let ended = run_with(&asking, example, flags);
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("nothing was recorded"),
            "{}",
            ended.stderr
        );
        assert!(!path.exists());
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error_that_says_why() {
    let refused = run("cholesky", &["--n", "50", "--trace", "run.txt"]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("pftrace"), "{}", refused.stderr);
    let ended = run(
        "cholesky",
        &["--n", "50", "--json", "--trace", "/nowhere/run.svg"],
    );
    assert_eq!(ended.status, 1);
    let error = &ended.object()["error"];
    assert_eq!(error["kind"], "output_unwritable");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("/nowhere/run.svg"),
        "{error}"
    );
}

/// The trace of the same run was thrown away.
#[test]
fn a_graph_that_is_too_large_to_be_drawn_leaves_the_trace_all_the_same() {
    let (path, drawn) = (file("large.html"), file("large.dot"));
    let files = [path.to_str().unwrap(), drawn.to_str().unwrap()];
    let flags = [
        "--n", "400", "--nb", "15", "--trace", files[0], "--dot", files[1],
    ];
    let (status, object) = cholesky(&flags);
    assert_eq!(status, 1, "{object}");
    assert_eq!(object["error"]["kind"], "output_unwritable", "{object}");
    assert_eq!(object["trace"][0]["file"], files[0], "{object}");
    assert!(path.exists());
}

/// The name was refused, where other files may have it.
#[test]
#[cfg(unix)]
fn a_trace_may_have_any_name_that_a_file_has() {
    use std::os::unix::ffi::OsStrExt;
    let path = file("any_name").with_file_name(std::ffi::OsStr::from_bytes(b"\xff.svg"));
    // A file system of texts has no such names.
    if std::fs::write(&path, "").is_err() {
        return println!("skipped: no file here has a name that is no text");
    }
    let flags = "cd \"$FOLDER\" && set -- --n 40 --trace \"$(printf '\\377.svg')\"";
    let folder = format!("export FOLDER='{}'", path.parent().unwrap().display());
    let ended = run_with(&format!("{folder} && {flags}"), "cholesky", &[]);
    assert_eq!((ended.status, &*ended.stderr), (0, ""));
    assert!(std::fs::read_to_string(&path).unwrap().contains("<svg"));
}

/// What the run had to say was lost, and with it LAPACK's INFO.
#[cfg(target_os = "linux")]
#[test]
fn a_trace_that_cannot_be_written_hides_no_failure_of_the_run() {
    let full = full("full.svg");
    let failing = ["--n", "20", "--matrix", "hilbert"];
    let (status, alone) = cholesky(&failing);
    assert_eq!(status, 1);
    let (status, traced) = cholesky(&[&failing[..], &["--trace", &full]].concat());
    assert_eq!(status, 1);
    let [alone, traced] = [&alone["error"], &traced["error"]];
    assert_eq!(traced["kind"], "not_positive_definite");
    assert_eq!(traced["index"], alone["index"]);
    let message = traced["message"].as_str().unwrap();
    assert!(
        message.starts_with(alone["message"].as_str().unwrap()),
        "{message}"
    );
    assert!(message.contains(&full), "{message}");
}

#[test]
fn people_read_why_it_took_so_long() {
    let path = file("people.html");
    let ended = run(
        "cholesky",
        &[
            "--n",
            "300",
            "--nb",
            "50",
            "--trace",
            path.to_str().unwrap(),
        ],
    );
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    for part in [
        "trace of cholesky in ",
        "no schedule of these bodies takes less than",
        "The workers' time:",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
}

#[test]
fn each_rank_says_how_far_it_is_when_that_is_asked() {
    for transport in ["local", "tcp"] {
        let flags = [
            "--n", "60", "--nb", "20", "--ranks", "2", "--live", "--json",
        ];
        let ended = run(
            "cholesky",
            &[&flags[..], &["--transport", transport]].concat(),
        );
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let of = |rank: usize| {
            let mut own = lines
                .iter()
                .filter_map(|line| line.strip_prefix(&format!("rank {rank}: ")));
            let last = own.next_back().unwrap_or_default();
            let (done, count) = last
                .strip_suffix(" tasks")
                .unwrap()
                .split_once(" of ")
                .unwrap();
            assert_eq!(done, count, "{transport}: {lines:?}");
            done.parse::<u64>().unwrap()
        };
        let told: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(Some(of(0) + of(1)), told["tasks"].as_u64());
    }
}
