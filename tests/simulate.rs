//! The example `simulate`, run as a user would, on machines that this test describes.

mod built;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A made-up `/sys/devices/system`, removed when dropped: eight NUMA nodes in a row.
struct Machine(PathBuf);

impl Machine {
    /// Nodes of six cores; the distance grows by 6 with every step.
    fn new(name: &str) -> Machine {
        Machine::of(name, 6, 6)
    }

    /// Nodes of so many cores; the distance, 10 of a node to itself, grows so much with every step.
    fn of(name: &str, cores: usize, step: usize) -> Machine {
        let root = std::env::temp_dir().join(format!("simulate-{name}-{}", std::process::id()));
        for node in 0..8_usize {
            let folder = root.join(format!("node/node{node}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(
                folder.join("cpulist"),
                format!("{}-{}", cores * node, cores * node + cores - 1),
            )
            .unwrap();
            let row: Vec<String> = (0..8_usize)
                .map(|to| (10 + step * to.abs_diff(node)).to_string())
                .collect();
            fs::write(folder.join("distance"), row.join(" ")).unwrap();
            for pu in cores * node..cores * (node + 1) {
                let folder = root.join(format!("cpu/cpu{pu}/topology"));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("thread_siblings_list"), pu.to_string()).unwrap();
            }
        }
        Machine(root)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs the example: exit status, standard output and error.
fn simulate(input: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(built::example("simulate"));
    command.arg("--input").arg(input).args(arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let status = output.status.code().unwrap_or(-1);
    (status, text(output.stdout), text(output.stderr))
}

fn object(input: &Path, arguments: &[&str]) -> Value {
    let (status, stdout, stderr) = simulate(input, &[arguments, &["--json"]].concat());
    assert_eq!((status, &*stderr), (0, ""), "{arguments:?}: {stdout}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn policies_are_compared_on_a_machine_that_is_not_there() {
    let machine = Machine::new("compare");
    let run = |policy| {
        object(
            &machine.0,
            &["--n", "10240", "--nb", "256", "--policy", policy],
        )
    };
    let (oblivious, without, with) = (
        run("oblivious"),
        run("distance-no-steal"),
        run("distance,patience=20"),
    );
    let number = |object: &Value, key: &str| object[key].as_f64().unwrap();
    let seconds = |object| number(object, "simulated_seconds");
    assert!(seconds(&with) < seconds(&oblivious) && seconds(&with) < seconds(&without));
    for run in [&oblivious, &without, &with] {
        assert_eq!(run["tasks"], 40 * 41 * 42 / 6);
        assert_eq!(
            (&run["threads"], &run["numa_nodes"]),
            (&48.into(), &8.into())
        );
        assert!((0.0..1.0).contains(&number(run, "idle_share")));
        assert_eq!(run["per_worker"].as_array().unwrap().len(), 48);
    }
    assert!(number(&with, "local_share") > 2.0 * number(&oblivious, "local_share"));
    assert!(number(&with, "steals") > 0.0);
    assert_eq!(with["policy"], "distance,patience=20");
    assert_eq!(
        run("distance,patience=20")["simulated_seconds"],
        with["simulated_seconds"]
    );
}

/// The guide, *Why is it slow?*, shows these lines and says that they are of this machine.
#[test]
fn the_machine_of_the_guide_takes_the_times_that_the_guide_tells() {
    let machine = Machine::of("guide", 2, 12);
    let beside = ["--beside", "oblivious", "--beside", "distance-no-steal"];
    let own = ["--n", "5120", "--nb", "256", "--ties", "last"];
    let policy = ["--policy", "distance,patience=20"];
    let arguments = [&own[..], &policy, &beside].concat();
    let (status, stdout, stderr) = simulate(&machine.0, &arguments);
    assert_eq!((status, &*stderr), (0, ""));
    let page = include_str!("../docs/guide/slow.md");
    let told = [
        "simulated: ",
        "with oblivious: ",
        "with distance-no-steal: ",
    ];
    for begin in told {
        let line = stdout.lines().find(|line| line.starts_with(begin));
        let line = line.unwrap_or_else(|| panic!("no `{begin}`: {stdout}"));
        assert!(page.contains(line), "the guide does not tell `{line}`");
    }
}

/// The folders of processors that are off stay: they counted as cores of the first NUMA node.
#[test]
fn processors_that_are_off_are_no_cores() {
    let machine = Machine::of("online", 2, 6);
    let threads = || object(&machine.0, &["--n", "300", "--nb", "100"])["threads"].clone();
    assert_eq!(threads(), 16);
    fs::write(machine.0.join("cpu/online"), "0-11,14\n").unwrap();
    assert_eq!(threads(), 13);
}

/// They were that much faster, and nobody was told.
#[test]
fn more_workers_than_cores_are_told() {
    let machine = Machine::of("crowded", 2, 6);
    for (threads, is_told) in [("16", false), ("17", true)] {
        let flags = ["--n", "300", "--nb", "100", "--threads", threads];
        let (status, stdout, stderr) = simulate(&machine.0, &flags);
        assert_eq!((status, &*stderr), (0, ""));
        let warning = "warning: 17 workers share 16 cores\n";
        assert_eq!(stdout.contains(warning), is_told, "{stdout}");
    }
}

#[test]
fn costs_come_from_a_file_and_wrong_ones_are_told() {
    let machine = Machine::new("costs");
    let file = machine.0.join("costs.json");
    let costs = |gemm: &str| {
        let remote = if gemm == "-1" { gemm } else { "0" };
        let text = format!(
            r#"{{ "gflops": {{ "Potrf": 1, "Trsm": 1, "Herk": 1, "Gemm": {gemm} }},
                "remote_nanoseconds_per_byte": {remote}, "initialise_nanoseconds_per_byte": 0,
                "idle_round_microseconds": 1 }}"#
        );
        let text = if gemm.is_empty() { "\n" } else { &text };
        fs::write(&file, text).unwrap();
        let costs = file.to_str().unwrap();
        simulate(
            &machine.0,
            &[
                "--n",
                "300",
                "--nb",
                "100",
                "--threads",
                "1",
                "--costs",
                costs,
                "--json",
            ],
        )
    };
    let (status, stdout, _) = costs("2");
    let told: Value = serde_json::from_str(&stdout).unwrap();
    // 3 Potrf of nb³/3, 3 Trsm and 3 Herk of nb³, 1 Gemm of 2 nb³ at twice the rate.
    let seconds = told["simulated_seconds"].as_f64().unwrap();
    // Each of the ten in whole nanoseconds.
    assert_eq!(status, 0);
    assert!((seconds * 1e9 - 8e6).abs() <= 10.0, "{seconds}");
    for (wrong, says) in [
        ("0", "costs.json: gflops of Gemm"),
        ("\"fast\"", "invalid type"),
        ("", "costs.json: file is empty"),
        (
            "1, \"Gem\": 2",
            "costs.json: gflops: there is no class Gem (",
        ),
        ("-1", "costs.json: remote_nanoseconds_per_byte: -1 ("),
    ] {
        let (status, stdout, stderr) = costs(wrong);
        let told: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((status, &told["error"]["kind"]), (1, &"wrong_costs".into()));
        assert!(
            stderr.starts_with("error: ") && stderr.contains(says),
            "{stderr}"
        );
    }
}

#[test]
fn what_is_no_machine_and_no_policy_is_refused() {
    let machine = Machine::new("refused");
    let nowhere = machine.0.join("nowhere.xml");
    let (status, _, stderr) = simulate(&nowhere, &["--n", "100"]);
    // Without hwloc it is a flag that the example's build cannot honour.
    let (expected, says) = match cfg!(feature = "hwloc") {
        true => (1, "nowhere.xml"),
        false => (2, "needs the feature `hwloc`"),
    };
    assert!(
        status == expected && stderr.starts_with("error: ") && stderr.contains(says),
        "{status}: {stderr}(`cargo build --examples` with the features of this test?)"
    );
    // A folder that is no copy of `/sys/devices/system`.
    let empty = machine.0.join("node");
    let (status, stdout, stderr) = simulate(&empty, &["--n", "100", "--json"]);
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (status, &told["error"]["kind"]),
        (1, &"malformed_input".into())
    );
    assert!(stderr.contains("no folder cpu"), "{stderr}");
    let (status, stdout, stderr) = simulate(&machine.0, &["--policy", "near", "--json"]);
    assert_eq!((status, &*stdout), (2, ""));
    assert!(stderr.contains("distance-no-steal"), "{stderr}");
}

#[test]
fn policies_are_drawn_one_below_the_other_on_one_axis_of_time() {
    let machine = Machine::new("drawn");
    let picture = machine.0.join("policies.svg");
    let flags = [
        "--n",
        "2048",
        "--policy",
        "distance,patience=20",
        "--beside",
    ];
    let more = ["oblivious", "--beside", "distance-no-steal", "--trace"];
    let arguments = [&flags[..], &more, &[picture.to_str().unwrap()]].concat();
    let told = object(&machine.0, &arguments);
    let drawn = fs::read_to_string(&picture).unwrap();
    // A row for each of 48 workers, three times.
    assert_eq!(drawn.matches("<g id=\"run").count(), 3 * 48);
    for policy in ["distance,patience=20", "oblivious", "distance-no-steal"] {
        assert!(drawn.contains(&format!(">{policy}<")), "{policy}");
    }
    let [own, others] = [&told["simulated_seconds"], &told["beside"]];
    for other in others.as_array().unwrap() {
        assert!(
            other["simulated_seconds"].as_f64() >= own.as_f64(),
            "{told}"
        );
    }
    // One alone is any file: as many tasks as the run has, and they end when it does.
    let chrome = machine.0.join("run.json");
    let told = object(
        &machine.0,
        &["--n", "2048", "--trace", chrome.to_str().unwrap()],
    );
    let trace: Value = serde_json::from_str(&fs::read_to_string(&chrome).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let tasks: Vec<_> = events.filter(|event| event["cat"] == "task").collect();
    assert_eq!(Some(tasks.len() as u64), told["tasks"].as_u64());
    let end = |event: &&Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
    let last = tasks.iter().map(end).fold(0.0, f64::max) * 1e-6;
    let seconds = told["simulated_seconds"].as_f64().unwrap();
    assert!((last - seconds).abs() < 1e-8, "{last}, not {seconds}");
}

/// It was refused only after all policies had been simulated: minutes on a large machine.
#[test]
fn several_policies_in_a_file_that_holds_one_are_refused_before_anything_is_simulated() {
    let machine = Machine::new("several");
    let flags = ["--beside", "lifo", "--trace", "two.json"];
    // Nothing of the machine is looked at.
    let nowhere = machine.0.join("nowhere.xml");
    for input in [&machine.0, &nowhere] {
        let (status, stdout, stderr) = simulate(input, &flags);
        assert_eq!((status, &*stdout), (2, ""), "{stderr}");
        assert!(stderr.contains("a picture only (.svg)"), "{stderr}");
    }
}

#[test]
fn a_machine_may_have_more_workers_than_this_one_could_start() {
    let machine = Machine::new("many");
    let told = object(&machine.0, &["--n", "512", "--threads", "10000"]);
    assert_eq!(told["threads"], 10_000);
}

#[test]
fn no_task_has_no_rate() {
    let machine = Machine::new("none");
    let (status, page, stderr) = simulate(&machine.0, &["--n", "0"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(
        page.contains("simulated: 0.000000 s, workers idle"),
        "{page}"
    );
}
