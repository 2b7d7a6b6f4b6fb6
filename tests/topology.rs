//! The examples `topology` and `distances`, run as a user would: machines of a collection with
//! known facts, this machine under masks and launchers, and what must be refused.
//!
//! `DATAFLOW_DATA` names a folder that holds `topologies/`: hwloc XML files and `expected.json`.
//! Without it, or without the feature `hwloc`, the collection is not looked at, and that is said
//! aloud.

mod built;
#[path = "../examples/distances/pairs.rs"]
mod pairs;

use common::cli::Failure;
use dataflow::numa::Topology;
use dataflow::numa::pin::allowed_pus;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// What the environment of the tests themselves may hold.
const FOREIGN: [&str; 8] = [
    "HWLOC_XMLFILE",
    "HWLOC_SYNTHETIC",
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "SLURM_STEP_ID",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
];

struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    run_example("topology", arguments, environment)
}

fn run_example(example: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(built::example(example));
    command.args(arguments).stdin(Stdio::null());
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    let output = command.envs(environment.iter().copied()).output();
    let output = output.unwrap_or_else(|error| panic!("{example}: {error}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended {
        status: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

impl Ended {
    fn object(&self) -> Value {
        assert_eq!((self.status, &*self.stderr), (0, ""), "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The one line on stderr.
    fn refusal(&self, status: i32) -> &str {
        assert_eq!(self.status, status, "{}", self.stderr);
        let line = self.stderr.strip_prefix("error: ").unwrap();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        line.trim_end()
    }
}

fn machine(arguments: &[&str]) -> Value {
    run(&[arguments, &["--json"]].concat(), &[]).object()
}

/// A file of this test run, written anew.
fn written(name: &str, content: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("topology");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn this_machine_is_shown_with_a_worker_on_every_core() {
    let found = machine(&[]);
    let n = found["workers"].as_u64().unwrap();
    assert_eq!((&found["cores"], &found["threads"]), (&n.into(), &n.into()));
    assert_eq!(found["pus"].as_u64().unwrap() as usize, allowed_pus().len());
    assert_eq!(found["steal_order"].as_array().unwrap().len() as u64, n);
    assert_eq!(found["warnings"], json!([]));
    let page = run(&[], &[]).stdout;
    for word in ["topology", "NUMA node", "worker", "steals from"] {
        assert!(page.contains(word), "no {word:?} in {page}");
    }
}

/// `taskset`, a cpuset and `mpirun` end in the same: a mask that a child inherits.
#[test]
#[cfg(target_os = "linux")]
fn under_a_mask_of_one_processor_there_is_one_core() {
    for pu in allowed_pus() {
        let masked = std::thread::spawn(move || {
            dataflow::numa::pin::pin_current_thread(&[pu]).unwrap();
            machine(&[])
        });
        let found = masked.join().unwrap();
        for key in ["cores", "pus", "workers"] {
            assert_eq!(found[key], 1, "{found}");
        }
        assert_eq!(found["steal_order"][0]["pin_to_pu_os"], pu, "{found}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn ranks_of_one_launch_take_different_cores_until_there_are_none_left() {
    let n = allowed_pus().len();
    let pus = |rank: usize, n_ranks: usize| -> Vec<u64> {
        let (rank, n_ranks) = (rank.to_string(), n_ranks.to_string());
        let launcher = [("MPI_LOCALRANKID", &*rank), ("MPI_LOCALNRANKS", &n_ranks)];
        let found = run(&["--json"], &launcher).object();
        let order = found["steal_order"].as_array().unwrap().iter();
        order
            .flat_map(|worker| {
                worker["pus_os"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|pu| pu.as_u64().unwrap())
            })
            .collect()
    };
    // Whether somebody made the mask smaller before: then ranks leave it alone.
    let granted = dataflow::numa::topology::share::granted();
    if granted.is_none_or(|granted| granted.len() != n) {
        println!("skipped: this test does not have the whole machine");
        return;
    }
    let cores = machine(&[])["cores"].as_u64().unwrap() as usize;
    let mut all: Vec<u64> = (0..cores).flat_map(|rank| pus(rank, cores)).collect();
    all.sort_unstable();
    assert_eq!(all.len(), n);
    all.dedup();
    assert_eq!(all.len(), n, "a processor in two ranks");
    assert!(!pus(2 * cores - 1, 2 * cores).is_empty());
}

#[test]
fn more_threads_than_cores_are_placed_and_warned_of() {
    let cores = machine(&[])["cores"].as_u64().unwrap();
    let threads = (cores + 3).to_string();
    let found = machine(&["--threads", &threads]);
    assert_eq!(found["workers"], cores + 3);
    assert_eq!(
        found["steal_order"].as_array().unwrap().len() as u64,
        cores + 3
    );
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains(&threads) && warning.contains(&cores.to_string()),
        "{warning}"
    );
    assert!(
        run(&["--threads", &threads], &[])
            .stdout
            .contains("warning: ")
    );

    let rival = run(&["--json"], &[("OMP_NUM_THREADS", "1000")]).object();
    let warning = rival["warnings"][0].as_str().unwrap();
    assert!(warning.contains("OMP_NUM_THREADS=1000"), "{warning}");

    for (bind, pinned) in [("none", false), ("cores", true), ("pus", true)] {
        let found = machine(&["--bind", bind, "--threads", "1"]);
        assert_eq!(
            found["steal_order"][0]["pin_to_pu_os"].is_u64(),
            pinned,
            "{found}"
        );
    }
}

#[test]
fn a_picture_shows_every_worker() {
    let file = written("machine.svg", "");
    let found = machine(&["--svg", &file]);
    let picture = std::fs::read_to_string(&file).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    let cores = found["cores"].as_u64().unwrap() as usize;
    assert_eq!(picture.matches("<title>").count(), cores);
    let line = run(&["--svg", "no/such/folder/machine.svg"], &[]);
    assert!(line.refusal(1).contains("no/such/folder/machine.svg"));
}

#[test]
fn distances_between_nodes_are_measured_in_both_directions() {
    let measured = run_example("distances", &["--mebibytes", "2", "--json"], &[]).object();
    let n = machine(&[])["numa_nodes"].as_u64().unwrap() as usize;
    for key in ["latency_ns", "bandwidth_gb_per_s", "distances"] {
        let rows = measured[key].as_array().unwrap();
        let is_row = |row: &Value| row.as_array().is_some_and(|row| row.len() == n);
        assert!(
            rows.len() == n && rows.iter().all(is_row),
            "{key}: {measured}"
        );
    }
    let latencies = measured["latency_ns"].as_array().unwrap().iter();
    let known: Vec<f64> = latencies
        .flat_map(|row| row.as_array().unwrap())
        .filter_map(Value::as_f64)
        .collect();
    assert!(
        !known.is_empty() && known.iter().all(|ns| *ns > 0.0),
        "{measured}"
    );
    let distances = measured["distances"].as_array().unwrap().iter();
    let distances = distances.flat_map(|row| row.as_array().unwrap());
    let nearest = distances.map(|distance| distance.as_u64().unwrap()).min();
    assert_eq!(nearest, Some(10), "{measured}");
    for bad in [
        ["--tolerance", "-1"],
        ["--tolerance", "nan"],
        ["--mebibytes", "many"],
        ["--mebibytes", "1"],
        // Lines are numbered in four bytes, and these were 2³²: the chain had none.
        ["--mebibytes", &(pairs::MOST_MEBIBYTES + 1).to_string()],
    ] {
        run_example("distances", &bad, &[]).refusal(2);
    }
}

/// Nothing was measured on a machine that has one.
#[test]
fn a_node_without_memory_is_as_if_nobody_could_go_there() {
    if cfg!(not(target_os = "linux")) {
        println!("skipped: only on Linux is memory placed on a node");
        return;
    }
    // One node more than there are: the kernel places nothing there.
    let last = Topology::discover().unwrap().n_numa_nodes();
    let mut cores = vec![0; last + 1];
    cores[0] = 1;
    let topology = Topology::made_of(&cores, |from, to| if from == to { 10 } else { 20 });
    assert!(pairs::expect_room(usize::MAX / 2).is_err());
    assert!(pairs::expect_room(2 << 20).is_ok());
    match pairs::measure(&topology, 2 << 20, 1, 0) {
        Ok(measured) => {
            let row = &measured.nanoseconds[0];
            assert!(row[0].is_some() && row[last].is_none(), "{row:?}");
            assert_eq!(measured.gigabytes[0][last], None);
        }
        Err(failure) if failure.message().contains("forbidden here") => {
            println!("skipped: {}", failure.message());
        }
        Err(failure) => panic!("{}", failure.message()),
    }
}

#[test]
fn the_environment_says_which_workers_there_are_here() {
    let environment = [("DATAFLOW_THREADS", "3"), ("DATAFLOW_BIND", "none")];
    let pinned = |found: &Value| {
        let workers = found["steal_order"].as_array().unwrap().iter();
        workers
            .filter(|worker| !worker["pin_to_pu_os"].is_null())
            .count()
    };
    let found = run(&["--json"], &environment).object();
    assert_eq!((&found["workers"], pinned(&found)), (&json!(3), 0));
    // Who says more on the command line is heard, and of other machines the environment knows nothing.
    let found = run(&["--json", "--threads", "1", "--bind", "pus"], &environment).object();
    assert_eq!((&found["workers"], pinned(&found)), (&json!(1), 1));
    let wrong = run(&[], &[("DATAFLOW_BIND", "nothing")]);
    assert!(wrong.refusal(2).contains("DATAFLOW_BIND"));
}

#[test]
fn what_cannot_be_honoured_is_a_bad_argument() {
    let file = written("prose.xml", "two sockets");
    for arguments in [
        &["--synthetic", "two sockets"][..],
        &["--synthetic", "Core:2 PU:1", "--input", &file],
        &["--threads", "0"],
        &["--n", "5"],
        &["--bind", "moon"],
        &["--policy", "fifo"],
        &["--repeat", "2"],
    ] {
        let ended = run(&[arguments, &["--json"]].concat(), &[]);
        ended.refusal(2);
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    if !cfg!(feature = "hwloc") {
        for arguments in [["--input", &*file], ["--synthetic", "Core:2 PU:1"]] {
            let ended = run(&arguments, &[]);
            assert!(
                ended.refusal(2).contains("feature `hwloc`"),
                "{}",
                ended.stderr
            );
        }
    }
}

#[cfg(feature = "hwloc")]
mod with_hwloc {
    use super::*;
    use std::path::PathBuf;

    /// The keys of `expected.json` that the example prints.
    const FACTS: [&str; 7] = [
        "numa_nodes",
        "packages",
        "cores",
        "pus",
        "workers",
        "nodes_without_workers_os",
        "adjacency",
    ];

    #[test]
    fn a_missing_or_broken_file_is_one_error_whoever_names_it() {
        let prose = written("prose.xml", "two sockets");
        for (file, kind) in [
            ("no/such/machine.xml", "input_unreadable"),
            (env!("CARGO_TARGET_TMPDIR"), "input_unreadable"),
            (&prose, "malformed_input"),
        ] {
            for (arguments, environment) in [
                (&["--json", "--input", file][..], &[][..]),
                (&["--json"], &[("HWLOC_XMLFILE", file)]),
            ] {
                let ended = run(arguments, environment);
                assert!(ended.refusal(1).contains(file), "{}", ended.stderr);
                let object: Value = serde_json::from_str(&ended.stdout).unwrap();
                assert_eq!(object["error"]["kind"], kind, "{object}");
            }
        }
    }

    #[test]
    fn what_the_environment_describes_is_believed_and_restricted_to_what_is_allowed() {
        let allowed = allowed_pus().len() as u64;
        let description = "Package:2 [NUMANode] Core:64 PU:1";
        let found = run(&["--json"], &[("HWLOC_SYNTHETIC", description)]).object();
        assert_eq!(
            (&found["numa_nodes"], &found["cores"]),
            (&2.into(), &allowed.into())
        );
        let whole = machine(&["--synthetic", description]);
        assert_eq!(whole["cores"], 128);
    }

    #[test]
    fn measured_distances_are_written_where_the_runtime_reads_them() {
        let file = written("measured.xml", "");
        let arguments = ["--mebibytes", "2", "--xml", &file, "--json"];
        let measured = run_example("distances", &arguments, &[]).object();
        let found = run(&["--json"], &[("HWLOC_XMLFILE", &file)]).object();
        let n = measured["numa_nodes_os"].as_array().unwrap().len();
        assert_eq!(found["numa_nodes_os"], measured["numa_nodes_os"]);
        if n > 1 {
            assert_eq!(found["distances"], measured["distances"]);
        }
        let nowhere = ["--mebibytes", "2", "--xml", "no/such/folder/m.xml"];
        let ended = run_example("distances", &nowhere, &[]);
        assert!(ended.refusal(1).contains("no/such/folder/m.xml"));
    }

    /// The folder `topologies/`, or `None`, said aloud.
    fn topologies() -> Option<PathBuf> {
        match std::env::var_os("DATAFLOW_DATA") {
            Some(folder) => Some(Path::new(&folder).join("topologies")),
            None => {
                println!("skipped: DATAFLOW_DATA is not set (a folder that holds topologies/)");
                None
            }
        }
    }

    /// Facts, matrix and stealing orders of one machine.
    fn check(name: &str, found: &Value, expected: &Value) {
        for fact in FACTS {
            assert_eq!(found[fact], expected[fact], "{name}: {fact}");
        }
        for example in expected["steal_examples"].as_array().unwrap() {
            let worker = example["worker"].as_u64().unwrap() as usize;
            assert_eq!(&found["steal_order"][worker], example, "{name}");
        }
        let n_workers = expected["workers"].as_u64().unwrap() as usize;
        assert_eq!(
            found["steal_order"].as_array().unwrap().len(),
            n_workers,
            "{name}"
        );
        for node in expected["nodes"].as_array().unwrap() {
            let order = found["steal_order"].as_array().unwrap().iter();
            let here = order
                .filter(|worker| worker["home_node_os"] == node["os"])
                .count() as u64;
            assert_eq!(here, node["workers"], "{name}: {node}");
        }
        // The matrix, whose rows here follow the nodes and there an order of their own.
        let distances = &expected["node_distances"];
        assert_eq!(found["distances"].is_null(), distances.is_null(), "{name}");
        let row = |os: &Value| {
            let rows = distances["objects_os"].as_array().unwrap();
            rows.iter().position(|row| row == os).unwrap()
        };
        if !distances.is_null() {
            let nodes = found["numa_nodes_os"].as_array().unwrap();
            for (from, from_os) in nodes.iter().enumerate() {
                for (to, to_os) in nodes.iter().enumerate() {
                    let value = &distances["values"][row(from_os)][row(to_os)];
                    assert_eq!(
                        &found["distances"][from][to], value,
                        "{name}: {from_os} {to_os}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_machine_of_the_collection_has_its_facts_or_is_refused() {
        let Some(folder) = topologies() else { return };
        let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&text).unwrap();
        let mut n_checked = 0;
        for (name, facts) in expected["files"].as_object().unwrap() {
            let file = folder.join(name);
            let arguments = ["--json", "--input", file.to_str().unwrap()];
            let ended = run(&arguments, &[]);
            if facts["loads_with_hwloc_2_9"] == true {
                check(name, &ended.object(), facts);
            } else {
                assert!(ended.refusal(1).contains(name), "{}", ended.stderr);
            }
            n_checked += 1;
        }
        for (description, facts) in expected["synthetic"].as_object().unwrap() {
            check(description, &machine(&["--synthetic", description]), facts);
            n_checked += 1;
        }
        println!("checked: {n_checked} machines");
    }
}
