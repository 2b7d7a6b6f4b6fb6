//! What all examples have in common: keys, pages, refusals, plans.

use crate::ended::*;
use dataflow::linalg::matrix::digest::Digest;
use serde_json::Value;

/// An example, small enough to run often.
pub const EXAMPLES: [(&str, &[&str]); 22] = [
    ("cholesky", &["--n", "50"]),
    ("inverse", &["--n", "50"]),
    ("solve", &["--n", "50"]),
    ("matmul", &["--n", "50"]),
    ("cholesky_sequence", &["--n", "50"]),
    ("lu", &["--n", "50"]),
    ("qr", &["--n", "50"]),
    ("least_squares", &["--n", "30", "--m", "50"]),
    ("alignment", &["--n", "50"]),
    ("blackscholes", &["--options", "100", "--repeats", "1"]),
    ("swaptions", &["--swaptions", "2", "--trials", "100"]),
    ("shallow_water", &["--nodes", "162", "--steps", "2"]),
    ("jacobi3d", &["--n", "20"]),
    ("nas_ft", &["--size", "8x6x7"]),
    ("overhead", &["--shape", "chain", "--size", "10"]),
    ("task_bench", &["--steps", "10"]),
    ("sequence", &[]),
    ("fibonacci", &["--n", "15", "--cutoff", "5"]),
    ("powerset", &["--n", "8", "--cutoff", "3"]),
    ("heat", &["--n", "20", "--steps", "3"]),
    ("ldlt", &["--n", "50"]),
    ("floyd_warshall", &["--n", "50"]),
];

/// Those of them that have no type of numbers to tell.
const WITHOUT_PRECISION: [&str; 6] = [
    "alignment",
    "overhead",
    "task_bench",
    "sequence",
    "fibonacci",
    "powerset",
];

#[test]
fn every_example_prints_one_object_with_the_keys_in_order() {
    for (example, arguments) in EXAMPLES {
        let ended = run(
            example,
            &[arguments, &["--json", "--threads", "2"]].concat(),
        );
        assert_eq!((ended.status, &*ended.stderr), (0, ""), "{example}");
        let object = ended.object();
        assert_eq!(object["example"], example);
        assert_eq!(
            (&object["threads"], &object["ranks"]),
            (&2.into(), &1.into())
        );
        assert!(object["tasks"].as_u64().unwrap() > 0, "{object}");
        let workers = object["per_worker"].as_array().unwrap().iter();
        let by_workers: u64 = workers
            .map(|worker| worker["tasks"].as_u64().unwrap())
            .sum();
        assert_eq!(Some(by_workers), object["tasks"].as_u64(), "{object}");
        assert!(object["seconds"].as_f64().unwrap() > 0.0, "{object}");
        assert_eq!(object["messages"], 0);
        let has_precision = object["precision"].is_string();
        assert_ne!(
            has_precision,
            WITHOUT_PRECISION.contains(&example),
            "{object}"
        );
        // The inversion trades copies for a shorter critical path.
        assert!(object["copies"] == 0 || example == "inverse", "{object}");
        assert!(object.get("error").is_none(), "{object}");
        let one_node = dataflow::numa::Topology::of_this_process().n_numa_nodes() == 1;
        match object["local_share"].as_f64() {
            Some(share) if one_node => assert_eq!(share, 1.0, "{object}"),
            Some(share) => assert!((0.0..=1.0).contains(&share), "{object}"),
            None => assert!(!one_node, "on one node all is local: {object}"),
        }
    }
}

#[test]
fn every_example_has_a_page_for_people() {
    for (example, arguments) in EXAMPLES {
        let ended = run(example, arguments);
        assert_eq!((ended.status, &*ended.stderr), (0, ""), "{example}");
        assert!(ended.stdout.starts_with(example), "{}", ended.stdout);
        assert!(serde_json::from_str::<Value>(&ended.stdout).is_err());
    }
    let small = run("cholesky", &["--n", "10"]).stdout;
    assert!(small.contains("\n1 task in "), "{small}");
    let page = run("cholesky", &["--n", "300"]).stdout;
    for word in ["GFLOP/s", "residual", "digest", "tasks", "% of"] {
        assert!(page.contains(word), "no {word:?} in {page}");
    }
}

#[test]
fn examples_heed_the_environment_where_no_flag_says_otherwise() {
    let with = |variables: &str, flags: &[&str]| {
        let flags = [&["--n", "50", "--json"][..], flags].concat();
        run_with(&format!("export {variables}"), "cholesky", &flags)
    };
    let variables = "DATAFLOW_THREADS=3 DATAFLOW_BIND=none DATAFLOW_POLICY=fifo";
    for (flags, threads, policy) in [
        (&[][..], 3, "fifo"),
        (&["--threads", "2", "--policy", "lifo"], 2, "lifo"),
    ] {
        let told = with(variables, flags).done();
        let expected = (&Value::from(threads), &Value::from(policy));
        assert_eq!((&told["threads"], &told["policy"]), expected);
    }
}

/// Of some it was status 1, with an object.
#[test]
fn a_variable_with_a_value_that_means_nothing_is_a_bad_argument_that_says_what_is_allowed() {
    let simulated = &["--simulate", "counts"][..];
    let by_hand = &["--rank", "0", "--peers", "127.0.0.1:1,127.0.0.1"];
    for (name, value, allowed, flags) in [
        ("THREADS", "x", "must be a number, 1 or more", &[][..]),
        ("THREADS", "0", "must be a number, 1 or more", simulated),
        ("BIND", "zzz", "cores, pus", &[]),
        ("POLICY", "zzz", "fifo", &[]),
        ("TRACE", "x", ".html", &[]),
        ("TRACE", "x.zzz", ".html", simulated),
        ("VERIFY", "2", "0 and 1 are allowed", &[]),
        ("VERIFY", "x", "0 and 1 are allowed", simulated),
        ("VERIFY", "x", "0 and 1 are allowed", &["--plan"]),
        ("PORTS", "x", "4001-4100", by_hand),
    ] {
        let token = "a".repeat(64);
        let variables = format!("export DATAFLOW_TOKEN={token} DATAFLOW_{name}={value}");
        let flags = [&["--n", "50", "--json"][..], flags].concat();
        let ended = run_with(&variables, "cholesky", &flags);
        let line = ended.is_a_bad_argument();
        let name = format!("DATAFLOW_{name}");
        for part in [&name[..], value, allowed] {
            assert!(line.contains(part), "{name}={value}: {line}");
        }
    }
}

#[test]
fn every_shape_runs_as_many_tasks_on_three_ranks_as_on_one() {
    for shape in ["independent", "chain", "wavefront", "cholesky", "stencil"] {
        for data in ["none", "moved", "shared", "updated"] {
            let arguments = ["--shape", shape, "--size", "7", "--data", data, "--json"];
            if shape == "independent" && data != "none" {
                continue;
            }
            let alone = run("overhead", &arguments).done();
            let ranks = [&arguments[..], &["--ranks", "3"]].concat();
            let ranks = run("overhead", &ranks).done();
            assert_eq!(ranks["tasks"], alone["tasks"], "{shape} {data}");
            assert_eq!(ranks["per_worker"].as_array().unwrap().len(), 3);
            assert_eq!(alone["messages"], 0);
        }
    }
}

/// The runs whose end one rank has told: there all tasks are done. Others of its lines are told each second.
fn runs_told(stderr: &str) -> usize {
    let told = |line: &str| {
        let counts = line.strip_prefix("rank 0: ")?.trim_end_matches('s');
        let counts = counts.strip_suffix(" task")?;
        let (done, count) = counts.split_once(" of ")?;
        Some(done == count)
    };
    let lines = stderr.lines().filter_map(told);
    lines.filter(|is_over| *is_over).count()
}

/// Three of them ran their graph once, whatever was said.
#[test]
fn every_example_runs_its_graph_as_often_as_it_is_asked_to() {
    for (example, arguments) in EXAMPLES {
        let thrice = ["--repeat", "3", "--live", "--json"];
        let ended = run(example, &[arguments, &thrice].concat());
        assert_eq!(ended.status, 0, "{example}: {}", ended.stderr);
        assert_eq!(runs_told(&ended.stderr), 3, "{example}: {}", ended.stderr);
    }
}

/// A hundred thousand threads, or two hundred ranks as threads, had not ended after ten
/// seconds.
#[test]
fn bad_arguments_are_told_in_one_line_with_status_2() {
    for (example, arguments) in EXAMPLES {
        for bad in [
            &["--threads", "0"][..],
            &["--threads", "-1"],
            &["--nonsense"],
            &["--repeat", "0"],
            &["--ranks", "2", "--grid", "3x1"],
            &["--ranks", "0"],
            &["--threads", "100000"],
            &["--ranks", "200"],
            &["--ranks", "50", "--threads", "500"],
            &["--ranks", "100000", "--transport", "tcp"],
            &["--transport", "pigeon"],
            &["--m", "7", "--grid", "2x2"],
            &["stray"],
        ] {
            for json in [&[][..], &["--json"]] {
                let ended = run(example, &[arguments, bad, json].concat());
                let line = ended.is_a_bad_argument();
                assert!(!line.is_empty(), "{example} {bad:?}");
                assert!(
                    ended.seconds < IN_TIME,
                    "{example} {bad:?}: {} s",
                    ended.seconds
                );
            }
        }
    }
    for bad in [
        &["--nb", "0"][..],
        &["--n", "-1"],
        &["--precision", "f16"],
        &["--grid", "0x1"],
        &["--grid", "65536x65536"],
        &["--grid", "4294967296x4294967296"],
        &["--grid", "65536x65536", "--simulate", "counts"],
        &["--grid", "2x2"],
        &["--backend", "abacus"],
        &["--matrix", "vandermonde"],
        &["--condition", "10"],
        &["--matrix", "conditioned", "--condition", "0.5"],
        &["--matrix", "conditioned", "--condition", "nan"],
        &["--input", "a.mtx", "--matrix", "spd"],
        &["--input", "a.mtx", "--n", "5"],
        &["--input", "a.mtx", "--seed", "5"],
        &["--matrix", "laplacian", "--seed", "5"],
    ] {
        run("cholesky", bad).is_a_bad_argument();
    }
    for ignored in [
        &["heat", "--n", "0"][..],
        &["jacobi3d", "--pixels", "8"],
        &[
            "overhead", "--shape", "chain", "--size", "9", "--grid", "1x1",
        ],
        &["calibrate", "--trace", "run.html"],
        &["calibrate", "--dot", "run.dot"],
        &["calibrate", "--live"],
        &["cholesky", "--trace", "run.svg", "--dot", "run.svg"],
        &["cholesky", "--trace", "run.json", "--dot", "./run.2.json"],
        &["cholesky", "--trace", "run.prv", "--dot", "run.pcf"],
        &["cholesky", "--trace", "run.prv", "--dot", "./run.2.row"],
        &[
            "cholesky",
            "--simulate",
            "time",
            "--costs",
            "run.json",
            "--trace",
            "./run.json",
        ],
        &["simulate", "--costs", "costs.json", "--trace", "costs.json"],
        &["jacobi3d", "--svg", "run.svg", "--trace", "./run.svg"],
        &[
            "blackscholes",
            "--output",
            "run.json",
            "--trace",
            "run.json",
        ],
        &[
            "matmul",
            "--variant",
            "base",
            "--precision",
            "f32",
            "--plan",
        ],
        &["simulate", "--n", "100000000"],
        &["alignment", "--input", "a.fasta", "--seed", "5"],
        &["qr", "--matrix", "hilbert", "--n", "5", "--seed", "5"],
        &[
            "inverse",
            "--matrix",
            "trefethen",
            "--n",
            "5",
            "--seed",
            "5",
        ],
        &["solve", "--input", "a.mtx", "--seed", "5"],
        &["lu", "--input", "a.mtx", "--seed", "5"],
        &[
            "least_squares",
            "--input",
            "a.mtx",
            "--rhs",
            "ones",
            "--seed",
            "5",
        ],
        &["matmul", "--n", "5", "--integers", "--seed", "5"],
        &["matmul", "--n", "5", "--variant", "ideal", "--check"],
        &["jacobi3d", "--n", "5", "--variant", "ideal", "--check"],
        &["nas_ft", "--variant", "ideal", "--check"],
        &["jacobi3d", "--n", "1073741824"],
        &["heat", "--n", "4294967296", "--nb", "1"],
        &["floyd_warshall", "--n", "4294967297", "--nb", "1"],
        &["jacobi3d", "--n", "5", "--until", "1e-3", "--limit", "0"],
        &["nas_ft", "--size", "8x6x7", "--check"],
        &[
            "lu",
            "--pivoting",
            "incremental",
            "--m",
            "30",
            "--n",
            "20",
            "--check",
        ],
    ] {
        run(ignored[0], &ignored[1..]).is_a_bad_argument();
    }
}

/// It said that two were asked for, though nobody had asked.
#[test]
fn three_ranks_that_a_launcher_has_started_play_no_ping_pong() {
    let launched = "export SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3";
    let refused = run_with(launched, "ping_pong", &[]);
    let line = refused.is_a_bad_argument();
    assert!(line.starts_with("3 ranks were started"), "{line}");
}

/// It ended with 1, and with `--json` printed an object, as if something had failed.
#[test]
fn another_number_of_ranks_than_there_are_is_a_bad_argument() {
    let hosts = "cholesky --n 50 --rank 1 --peers 127.0.0.1:4000,127.0.0.1 --ranks 3 --json";
    let launched = "export SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2";
    let token = format!("export DATAFLOW_TOKEN={}", "5a".repeat(32));
    let mut lines = vec![(&*token, hosts)];
    if cfg!(feature = "mpi") {
        lines.push((launched, "cholesky --n 50 --ranks 3 --json"));
    }
    for (before, line) in lines {
        let flags: Vec<&str> = line.split(' ').collect();
        let ended = run_with(before, flags[0], &flags[1..]);
        let told = ended.is_a_bad_argument();
        let words = "--ranks 3: 3 ranks were asked for, and 2 were started";
        assert!(told.starts_with(words), "{line}: {told}");
    }
}

/// Three hosts each did all the work.
#[test]
fn a_seat_beside_another_transport_than_sockets_is_refused() {
    let seat = ["--rank", "1", "--peers", "127.0.0.1:4000,127.0.0.1"];
    for transport in ["local", "mpi"] {
        let flags = [&["--n", "50", "--transport", transport][..], &seat].concat();
        let ended = run("cholesky", &flags);
        assert!(ended.is_a_bad_argument().contains("--transport tcp"));
    }
}

/// The wave with which a plate begins is 0 in the middle of it: one row began cold, and any result was right.
#[test]
fn a_plate_of_one_row_begins_warm() {
    let told = run("heat", &["--n", "1", "--steps", "0", "--json"]).object();
    let warm = Digest::of_entry(0, 0, 1.0);
    assert_eq!(told["digest"], warm.to_string(), "{told}");
    let told = run("heat", &["--n", "1", "--steps", "3", "--json"]).object();
    assert!(told["largest_error"].as_f64() < Some(1e-12), "{told}");
}

/// A plate that has cooled down is as near to nothing as to what is left of it.
#[test]
fn a_cold_plate_is_not_verified() {
    for (steps, verified) in [("300", Value::Bool(true)), ("2000", Value::Null)] {
        let told = run("heat", &["--n", "20", "--steps", steps, "--json"]);
        assert_eq!(told.object()["verified"], verified, "{steps}");
        let page = run("heat", &["--n", "20", "--steps", steps]).stdout;
        assert_eq!(page.contains("not verified"), verified.is_null(), "{page}");
    }
}

/// Whoever asked for a check was told that all is well.
#[test]
fn a_check_of_what_nothing_can_judge_fails() {
    for (example, flags) in [
        ("heat", ["--n", "20", "--steps", "2000"]),
        ("jacobi3d", ["--n", "3", "--iterations", "200"]),
    ] {
        let told = run(example, &[&flags[..], &["--json"]].concat()).done();
        assert_eq!(told["verified"], Value::Null, "{told}");
        let ended = run(example, &[&flags[..], &["--json", "--check"]].concat());
        let told = ended.object();
        ended.says_what_failed(&told);
        assert_eq!(told["error"]["kind"], "not_verified", "{told}");
    }
}

/// It had none.
#[test]
fn an_alignment_has_a_digest_whatever_the_tiles_and_ranks() {
    let told = |more: &[&str]| {
        let flags = [&["--n", "200", "--json"][..], more].concat();
        let told = run("alignment", &flags).done();
        assert_eq!(told["verified"], true, "{told}");
        told["digest"].as_str().unwrap().to_owned()
    };
    let digest = told(&[]);
    assert_eq!(told(&["--nb", "30", "--ranks", "3"]), digest);
    assert_ne!(told(&["--seed", "1"]), digest);
}

/// They named what was not asked for, or came after minutes, or did not come.
#[test]
fn a_refusal_says_which_flag_and_what_may_be() {
    for (line, words) in [
        ("shallow_water --nodes 5", "such as 12 or 42"),
        ("shallow_water --nodes 12", "--stencil"),
        (
            "shallow_water --nodes 8 --places fibonacci --stencil 7",
            "--epsilon",
        ),
        (
            "shallow_water --form sequence --variant base",
            "--form space",
        ),
        ("nas_ft --blocks 100000x100000", "64 planes and 64 sheets"),
        ("nas_ft --blocks 0x4", "blocks are two positive numbers"),
        ("heat --thread 2", "'--thread' found (there is '--threads')"),
        ("heat --foo", "'--foo' found (--help lists the flags)"),
        ("heat 17", "'17' found (--help lists the flags)"),
        (
            "heat -n 17",
            "'-n' found (flags begin with two dashes; --help lists them)",
        ),
        ("heat --m 3", "the example heat does not honour --m"),
    ] {
        let flags: Vec<&str> = line.split(' ').collect();
        let ended = run(flags[0], &flags[1..]);
        let told = ended.is_a_bad_argument();
        assert!(told.contains(words), "{line}: {told}");
    }
}

/// Rounding adds up over steps: a right result of 100,000 was called wrong, and of this plate, of which less is
/// left than 7200 steps may make, it was said that it is verified.
#[test]
fn what_rounding_may_make_of_a_plate_grows_with_its_steps() {
    let told = run("heat", &["--n", "50", "--steps", "7200", "--json"]).object();
    assert!(told.get("error").is_none(), "{told}");
    assert_eq!(told["verified"], Value::Null, "{told}");
}

/// Right-hand sides are drawn whatever the matrix is.
#[test]
fn a_seed_is_honoured_where_anything_is_drawn() {
    for line in [
        "least_squares --n 4 --m 4 --matrix hilbert --seed 5",
        "lu --n 50 --matrix laplacian --pivoting incremental --seed 5",
    ] {
        let (example, flags) = line.split_once(' ').unwrap();
        let flags: Vec<&str> = flags.split(' ').collect();
        let ended = run(example, &flags);
        assert_eq!(ended.status, 0, "{line}: {}", ended.stderr);
    }
}

/// One or two were taken for three.
#[test]
fn a_sweep_over_sizes_runs_each_as_often_as_it_is_asked_to() {
    for (repeat, expected) in [
        (&["--repeat", "1"][..], 1),
        (&["--repeat", "2"], 2),
        (&[], 3),
    ] {
        let one_size = [
            "--metg",
            "--iterations",
            "1",
            "--steps",
            "3",
            "--width",
            "1",
        ];
        let ended = run("task_bench", &[&one_size[..], repeat, &["--live"]].concat());
        let runs = runs_told(&ended.stderr);
        assert_eq!(runs, expected, "{repeat:?}: {}", ended.stderr);
    }
}

#[test]
fn help_says_of_a_shared_flag_what_the_example_does_with_it() {
    for (example, flag, says) in [
        ("cholesky", "--repeat", "median run [default: 1]"),
        ("ping_pong", "--repeat", "the fastest [default: 20]"),
        ("calibrate", "--repeat", "does not count [default: 2]"),
        ("calibrate", "--costs", "[default: costs.json]"),
        ("fibonacci", "--n", "Which number [default: 32]"),
        ("heat", "--nb", "Rows of a band [default: 32]"),
        ("heat", "--threads", "divided among the ranks here]"),
        ("ldlt", "--n", "columns of the table [default: 512]"),
        ("floyd_warshall", "--nb", "of a block [default: 64]"),
        ("lu", "--n", "[default: 4000]"),
        ("lu", "--nb", "[default: what suits the matrix]"),
        (
            "lu",
            "--precision",
            "for a complex file c64] [possible values: f32, f64, c32, c64]",
        ),
        (
            "matmul",
            "--precision",
            "numbers [default: f64] [possible values: f32, f64, c32, c64]",
        ),
        (
            "cholesky",
            "--input",
            "of a general matrix the lower triangle",
        ),
        ("blackscholes", "--nb", "Options of a block [default: 1024]"),
        (
            "simulate",
            "--costs",
            "a file like the default one [default: examples/simulate/costs.json]",
        ),
    ] {
        let help = run(example, &["--help"]).stdout;
        let flag = format!("      {flag} <");
        let (_, of_flag) = help.split_once(&flag).unwrap_or_else(|| panic!("{help}"));
        let of_flag = of_flag.split("\n      --").next().unwrap_or_default();
        let words: Vec<&str> = of_flag.split_whitespace().collect();
        assert!(words.join(" ").ends_with(says), "{example}: {words:?}");
    }
}

/// `solve`, `least_squares`, `jacobi3d` and `nas_ft` offered `--costs` and `--simulate time`, and refused
/// both whatever the file said.
#[test]
fn help_offers_costs_where_virtual_time_can_be_had() {
    for (example, is_played) in [
        ("cholesky", true),
        ("cholesky_sequence", true),
        ("inverse", true),
        ("lu", true),
        ("matmul", true),
        ("qr", true),
        ("jacobi3d", false),
        ("least_squares", false),
        ("nas_ft", false),
        ("solve", false),
    ] {
        let help = run(example, &["--help"]).stdout;
        assert!(help.contains("--simulate <WHAT>"), "{example}: {help}");
        assert_eq!(help.contains("--costs <FILE>"), is_played, "{example}");
        assert_eq!(help.contains("virtual time"), is_played, "{example}");
        let asked = run(example, &["--simulate", "time"]);
        assert_eq!(asked.status, 2, "{example}: {}", asked.stderr);
        let says = match is_played {
            true => "needs --costs FILE",
            false => "[possible values: counts]",
        };
        assert!(asked.error_line().contains(says), "{}", asked.stderr);
    }
}

#[test]
fn a_rank_of_no_hosts_and_an_address_without_a_port_are_told_what_is_needed() {
    let alone = &["--rank", "0"][..];
    let without_port = &["--rank", "0", "--peers", "h", "--listen", "10.0.0.2"][..];
    for (flags, says) in [
        (alone, "--hosts FILE or --peers HOSTS"),
        (without_port, "like 10.0.0.2:4001"),
    ] {
        let asked = run("cholesky", flags);
        assert_eq!(asked.status, 2, "{}", asked.stderr);
        assert!(asked.error_line().contains(says), "{}", asked.stderr);
    }
}

#[test]
fn a_file_of_hosts_that_is_not_there_is_a_failure_with_its_object() {
    let flags = ["--rank", "0", "--hosts", "no/such/file", "--json"];
    let ended = run("cholesky", &flags);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let object = ended.object();
    assert_eq!(object["error"]["kind"], "input_unreadable", "{object}");
    assert!(ended.error_line().contains("no/such/file"));
}

/// It was told that rank 0 has no host, and not by which file.
#[test]
fn a_file_of_hosts_that_names_no_rank_s_host_is_told_with_its_name() {
    let file = std::env::temp_dir().join(format!("no-{}-hosts", std::process::id()));
    let name = file.to_str().unwrap();
    for (text, why) in [
        ("# none\n", "rank 0 has no host (0 are named)"),
        ("127.0.0.1\n", "127.0.0.1:0 (a port other than 0 is needed)"),
    ] {
        std::fs::write(&file, text).unwrap();
        let token = format!("export DATAFLOW_TOKEN={}", "a".repeat(64));
        let flags = ["--rank", "0", "--hosts", name, "--json"];
        let ended = run_with(&token, "cholesky", &flags);
        assert_eq!(ended.status, 1, "{}", ended.stderr);
        let line = ended.error_line();
        assert!(line.starts_with(name) && line.contains(why), "{line}");
    }
    std::fs::remove_file(&file).unwrap();
}

/// Seconds in which what is refused must be refused, on a machine that does other things too.
const IN_TIME: f64 = 10.0;

/// Every routine that has a plan, with the flags that choose it.
const PLANS: [&str; 18] = [
    "cholesky",
    "cholesky_sequence",
    "inverse",
    "inverse --method lu",
    "lu",
    "lu --pivoting tournament --groups 3",
    "lu --pivoting incremental",
    "lu --pivoting none",
    "qr",
    "qr --tree greedy --m 400",
    "least_squares --m 500",
    "least_squares --m 200",
    "least_squares --m 400 --method gelsy",
    "solve --method cholesky",
    "solve --method lu",
    "solve --method qr",
    "solve --method mixed",
    "matmul",
];

/// Runs one of them with more flags.
fn run_of(plan: &str, more: &[&str]) -> Ended {
    let (example, flags) = plan.split_once(' ').unwrap_or((plan, ""));
    let flags: Vec<&str> = flags.split_whitespace().collect();
    run(example, &[&flags[..], more].concat())
}

/// Ranks of a job at whose first rank too few files may be open.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_open_files_that_is_too_low_is_named_with_what_is_needed() {
    let ranks = [
        "--n",
        "50",
        "--threads",
        "1",
        "--ranks",
        "64",
        "--transport",
        "tcp",
    ];
    let ended = run_with("ulimit -n 150", "cholesky", &ranks);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let told = "64 ranks over sockets need 192 open files on rank 0, the system allows 150";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn a_plan_says_what_each_rank_needs_and_computes_nothing() {
    let plan = |of: &str, more: &[&str]| {
        let arguments = ["--plan", "--json", "--n", "300", "--threads", "1"];
        let ended = run_of(of, &[&arguments[..], more].concat());
        assert_eq!(ended.status, 0, "{of}: {}", ended.stderr);
        let object = ended.object();
        assert!(object["seconds"].is_null(), "{of} computed");
        object["plan"].clone()
    };
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let first = plan(PLANS[0], &[]);
    for of in PLANS {
        let alone = plan(of, &[]);
        assert_eq!(keys(&alone), keys(&first), "{of}");
        let alone = &alone["ranks"];
        assert_eq!(keys(&alone[0]), keys(&first["ranks"][0]), "{of}");
        assert_eq!(alone.as_array().unwrap().len(), 1);
        assert_eq!(alone[0]["received_bytes"], 0, "{of}");
        let spread = plan(of, &["--ranks", "4", "--nb", "30"]);
        assert_eq!(spread["verdict"], "fits", "{of}");
        let ranks = spread["ranks"].as_array().unwrap();
        let sum = |key: &str| {
            ranks
                .iter()
                .map(|of| of[key].as_u64().unwrap())
                .sum::<u64>()
        };
        assert_eq!(ranks.len(), 4);
        // Half a matrix at least, and what is sent.
        assert!(sum("held_bytes") > 300 * 300 * 4 && sum("received_bytes") > 0);
        let parts = sum("held_bytes") + sum("received_bytes") + sum("workspace_bytes");
        assert_eq!(sum("at_most_bytes"), parts);
    }
    // Ranks that are processes of one machine share its memory as those do that are threads.
    let alone = plan("cholesky", &[])["available_bytes"].as_u64();
    let processes = ["--ranks", "4", "--transport", "tcp"];
    let of_four = plan("cholesky", &processes)["available_bytes"].as_u64();
    assert!(
        of_four.unwrap() < alone.unwrap() / 2,
        "{of_four:?} of {alone:?}"
    );
    let huge = run("cholesky", &["--plan", "--json", "--n", "100000000"]);
    assert_eq!(huge.status, 1);
    let huge = huge.object();
    assert_eq!(huge["plan"]["verdict"], "cannot fit");
    assert_eq!(huge["error"]["kind"], "does_not_fit");
    let people = run("lu", &["--plan", "--n", "300"]);
    assert!(people.stdout.contains("bytes held"), "{}", people.stdout);
}

/// Ranks were started for it: above 64 it was refused, and over sockets each was a process.
#[test]
fn a_plan_is_told_of_ranks_that_this_machine_would_not_start() {
    let planned = |flags: &str| {
        let flags: Vec<&str> = flags.split(' ').chain(["--plan", "--json"]).collect();
        run("cholesky", &flags).done()
    };
    for (flags, n_ranks, is_here) in [
        ("--n 30000 --nb 500 --ranks 81 --grid 9x9", 81, false),
        ("--n 3000 --nb 100 --ranks 81 --transport tcp", 81, true),
        (
            "--n 3000 --nb 100 --ranks 2000 --transport tcp",
            2000,
            false,
        ),
        ("--n 3000 --nb 100 --ranks 4 --transport mpi", 4, false),
        ("--n 300 --grid 2x3", 6, true),
    ] {
        let told = planned(flags);
        let plan = &told["plan"];
        assert_eq!(told["ranks"], n_ranks, "{told}");
        assert_eq!(plan["ranks"].as_array().unwrap().len(), n_ranks, "{flags}");
        assert_eq!(plan["available_bytes"].is_u64(), is_here, "{flags}: {told}");
        assert_eq!(plan["verdict"].is_string(), is_here, "{flags}: {told}");
    }
    let page = run(
        "cholesky",
        &["--n", "3000", "--nb", "100", "--ranks", "81", "--plan"],
    );
    assert!(page.stdout.contains("other machines"), "{}", page.stdout);
    let slip = run("cholesky", &["--n", "50", "--ranks", "100000", "--plan"]);
    assert!(slip.is_a_bad_argument().contains("at most 10000"));
    let wrong = run("cholesky", &["--ranks", "80", "--grid", "9x9", "--plan"]);
    assert!(wrong.is_a_bad_argument().contains("81 ranks"));
}

/// It said "invalid digit found in string", of -1 too, "number too large to fit in target type", and "0 is not
/// in 1..18446744073709551615".
#[test]
fn what_is_no_number_is_refused_with_what_would_be_one() {
    let [large, small] = ["99999999999999999999", "-99999999999999999999"];
    let largest = format!("must be at most {}", u64::MAX);
    let of_rank = format!("must be at most {}", u32::MAX);
    for (flag, value, allowed) in [
        ("--n", "-1", "must be a whole number, 0 or more"),
        ("--n", "1e3", "must be a whole number"),
        ("--n", "", "must be a whole number"),
        ("--seed", "0.5", "must be a whole number"),
        ("--nb", "-1", "must be a whole number, 1 or more"),
        ("--nb", "x", "must be a whole number, 1 or more"),
        ("--silence", "x", "must be a whole number"),
        ("--condition", "x", "must be a number"),
        ("--condition", "", "must be a number"),
        ("--n", large, &largest),
        ("--n", small, "must be a whole number, 0 or more"),
        ("--nb", large, &largest),
        ("--seed", large, &largest),
        ("--silence", large, &largest),
        ("--silence", "0", "must be at least 1"),
        ("--silence", "-1", "must be a whole number, 0 or more"),
        ("--rank", large, &of_rank),
        ("--rank", "4294967296", &of_rank),
        ("--rank", "-1", "must be at least 0"),
        ("--levels", "0", "must be 1 to 2"),
        ("--levels", large, "must be 1 to 2"),
        ("--levels", small, "must be 1 to 2"),
    ] {
        // What is negative was no value but an unexpected argument, if it stood apart.
        for words in [&[&*format!("{flag}={value}")][..], &[flag, value]] {
            let refused = run("cholesky", words);
            let line = refused.is_a_bad_argument();
            let begins = line.starts_with(&format!("invalid value '{value}' for '{flag} <"));
            assert!(
                begins && line.ends_with(&format!(">': {allowed}")),
                "{line}"
            );
        }
    }
}

/// Files that were asked for were never written, and nobody was told.
#[test]
fn what_means_nothing_beside_a_plan_is_refused() {
    for beside in [
        &["--repeat", "3"][..],
        &["--trace", "plan.html"],
        &["--trace", "plan.html", "--window", "0..1"],
        &["--dot", "plan.dot"],
        &["--live"],
        &["--output", "plan.mtx"],
    ] {
        let ended = run("solve", &[&["--n", "50", "--plan"][..], beside].concat());
        assert!(ended.is_a_bad_argument().contains("--plan"));
    }
}

#[test]
fn counts_of_a_run_that_is_not_made_are_those_of_the_run() {
    for of in [
        "cholesky --n 190 --nb 20",
        "cholesky_sequence --n 190 --nb 20",
        "lu --n 190 --nb 20 --pivoting none",
        "lu --n 190 --nb 20 --pivoting incremental",
        "qr --n 190 --nb 20 --tree greedy",
        "matmul --n 190 --nb 20",
        "solve --n 190 --nb 20",
        "inverse --n 190 --nb 20",
        "least_squares --n 110 --nb 20 --m 230 --nrhs 30 --tree greedy",
        "least_squares --n 230 --nb 20 --m 110",
        "jacobi3d --n 20 --blocks 5x4x3 --iterations 4",
        "nas_ft --size 16x32x64 --blocks 7x8",
    ] {
        let arguments = ["--json", "--ranks", "6"];
        let simulate = ["--simulate", "counts"];
        let counted = run_of(of, &[&arguments[..], &simulate].concat());
        assert_eq!(counted.status, 0, "{of}: {}", counted.stderr);
        let (counted, ran) = (
            counted.object(),
            run_of(of, &[&arguments[..], &["--threads", "1"]].concat()).object(),
        );
        assert!(
            counted["seconds"].is_null() && counted["residual"].is_null(),
            "{of} computed"
        );
        for key in [
            "n",
            "nb",
            "grid",
            "ranks",
            "tasks",
            "messages",
            "bytes",
            "activations",
        ] {
            if key == "tasks" && of.starts_with("least_squares") {
                // A run looks for entries that are not finite, too, and makes zeros.
                assert!(counted[key].as_u64() < ran[key].as_u64(), "{of}");
                continue;
            }
            assert_eq!(counted[key], ran[key], "{of}: {key}");
        }
        let by_rank = ran["per_rank"].as_array().unwrap().iter();
        let most = by_rank.map(|rank| rank["messages"].as_u64().unwrap()).max();
        let counted = &counted["counts"]["messages_sent_by_rank"]["max"];
        assert_eq!(counted.as_f64(), most.map(|most| most as f64), "{of}");
    }
}

#[test]
fn what_row_swaps_are_to_send_is_told_within_some_per_cent() {
    for of in [
        "lu --n 190 --nb 20",
        "lu --n 190 --nb 20 --pivoting tournament",
        "solve --n 190 --nb 20 --method lu",
        "inverse --n 190 --nb 20 --method lu",
    ] {
        let flags = ["--json", "--ranks", "6"];
        let counted = run_of(of, &[&flags[..], &["--simulate", "counts"]].concat()).object();
        let ran = run_of(of, &[&flags[..], &["--threads", "1"]].concat()).object();
        for key in ["messages", "activations"] {
            assert_eq!(counted[key], ran[key], "{of}: {key}");
        }
        // I is made on the way.
        let made = if of.starts_with("inverse") { 100 } else { 0 };
        let ran_tasks = ran["tasks"].as_u64().unwrap();
        assert_eq!(counted["tasks"], ran_tasks - made, "{of}");
        let [told, sent] = [&counted, &ran].map(|object| object["bytes"].as_f64().unwrap());
        assert!((told / sent - 1.0).abs() < 0.05, "{of}: {told} of {sent}");
    }
}

#[test]
fn more_ranks_than_start_here_are_counted_and_what_they_would_hold() {
    let arguments = [
        "--simulate",
        "counts",
        "--n",
        "4000",
        "--nb",
        "100",
        "--grid",
        "16x16",
    ];
    let object = run(
        "cholesky",
        &[&arguments[..], &["--threads", "4", "--json"]].concat(),
    )
    .object();
    let counts = &object["counts"];
    assert_eq!(
        (&object["ranks"], &object["tasks"]),
        (&256.into(), &11_480.into())
    );
    assert_eq!(
        (&counts["path_tasks"], &counts["tasks_by_class"]["Potrf"]),
        (&118.into(), &40.into())
    );
    assert!(
        counts["held_bytes_by_rank"]["max"].as_f64().unwrap() >= 80_000.0,
        "{counts}"
    );
    let people = run("cholesky", &arguments);
    assert!(
        people.stdout.contains("critical path: 118 tasks"),
        "{}",
        people.stdout
    );
    // It asks for nothing.
    let unchecked = run("cholesky", &[&arguments[..], &["--check=false"]].concat());
    assert_eq!((unchecked.status, &*unchecked.stderr), (0, ""));
    for refused in [
        &["cholesky", "--simulate", "counts", "--check"][..],
        &["cholesky", "--simulate", "counts", "--check=true"],
        &[
            "cholesky",
            "--simulate",
            "counts",
            "--ranks",
            "5",
            "--grid",
            "2x2",
        ],
        &["solve", "--simulate", "counts", "--method", "mixed"],
        &["solve", "--simulate", "counts", "--output", "x.mtx"],
        &["least_squares", "--simulate", "counts", "--method", "gelsy"],
        &["sequence", "--simulate", "counts"],
    ] {
        assert_eq!(run(refused[0], &refused[1..]).status, 2, "{refused:?}");
    }
    for example in [
        "cholesky",
        "lu",
        "qr",
        "matmul",
        "solve",
        "inverse",
        "least_squares",
    ] {
        let huge = run(example, &["--simulate", "counts", "--n", "100000000"]);
        assert_eq!(huge.status, 2, "{example}");
        assert!(
            huge.error_line().contains("take a larger --nb"),
            "{}",
            huge.stderr
        );
    }
}

#[test]
fn a_run_without_room_is_refused_with_the_numbers() {
    // A rectangular one would be small.
    for of in PLANS.iter().filter(|of| !of.contains("--m ")) {
        let refused = run_of(of, &["--n", "2000000", "--nb", "2000", "--json"]);
        let error = &refused.object()["error"];
        assert_eq!(error["kind"], "does_not_fit", "{of}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("available: "), "{of}: {message}");
    }
}
