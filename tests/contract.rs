//! The contract of the examples, tried on the programs themselves: exit status, the JSON object,
//! the line that begins with `error:`.
//!
//! `DATAFLOW_DATA` names a folder that holds `matrices/`; without it the tests of the collection
//! check nothing, and say so.

use dataflow::linalg::scalar::{Scalar, c64};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The keys of every example, in their order.
const KEYS: [&str; 25] = [
    "example",
    "n",
    "m",
    "nb",
    "grid",
    "ranks",
    "threads",
    "precision",
    "backend",
    "policy",
    "seed",
    "tasks",
    "seconds",
    "cpu_seconds",
    "gflops",
    "residual",
    "digest",
    "messages",
    "bytes",
    "activations",
    "packets",
    "control_bytes",
    "steals",
    "copies",
    "max_rss_bytes",
];

/// An example, small enough to run often.
const EXAMPLES: [(&str, &[&str]); 14] = [
    ("cholesky", &["--n", "50"]),
    ("inverse", &["--n", "50"]),
    ("solve", &["--n", "50"]),
    ("matmul", &["--n", "50"]),
    ("cholesky_sequence", &["--n", "50"]),
    ("lu", &["--n", "50"]),
    ("qr", &["--n", "50"]),
    ("least_squares", &["--n", "30", "--m", "50"]),
    ("alignment", &["--n", "50"]),
    ("overhead", &["--shape", "chain", "--size", "10"]),
    ("task_bench", &["--steps", "10"]),
    ("sequence", &[]),
    ("fibonacci", &["--n", "15", "--cutoff", "5"]),
    ("powerset", &["--n", "8", "--cutoff", "3"]),
];

struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

/// Runs an example that was built beside this test.
fn run(example: &str, arguments: &[&str]) -> Ended {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let program = profile.join("examples").join(example);
    let command = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = command.unwrap_or_else(|error| {
        panic!(
            "{}: {error} (cargo build --examples makes it)",
            program.display()
        )
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended {
        status: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs `cholesky` with `--json` and reads its object.
fn cholesky(arguments: &[&str]) -> (i32, Value) {
    let ended = run("cholesky", &[arguments, &["--json"]].concat());
    let object = ended.object();
    ended.says_what_failed(&object);
    (ended.status, object)
}

impl Ended {
    /// The one object on stdout; its keys are those of the contract, in their order.
    fn object(&self) -> Value {
        let Ended {
            status,
            stdout,
            stderr,
        } = self;
        assert!(matches!(status, 0 | 1), "{status}: {stderr}");
        let object: Value =
            serde_json::from_str(stdout).unwrap_or_else(|e| panic!("{e}: {stdout}"));
        let keys: Vec<_> = object.as_object().unwrap().keys().collect();
        assert_eq!(keys[..KEYS.len()], KEYS, "{stdout}");
        object
    }

    /// Exit status 1 if and only if the object has an `error`, told on stderr in one line.
    fn says_what_failed(&self, object: &Value) {
        let Some(error) = object.get("error") else {
            assert_eq!((self.status, &*self.stderr), (0, ""));
            return;
        };
        assert_eq!(self.status, 1, "{error}");
        let keys: Vec<_> = error.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["kind", "index", "message"]);
        let message = error["message"].as_str().unwrap();
        assert_eq!(self.error_line(), message);
    }

    /// The object of a run that succeeded.
    fn done(&self) -> Value {
        let object = self.object();
        self.says_what_failed(&object);
        assert!(object.get("error").is_none(), "{object}");
        object
    }

    /// The one line on stderr, without `error: `.
    fn error_line(&self) -> &str {
        let line = self.stderr.strip_suffix('\n').unwrap_or(&self.stderr);
        let line = line.strip_prefix("error: ");
        let line = line.unwrap_or_else(|| panic!("stderr: {:?}", self.stderr));
        assert!(!line.contains('\n'), "{line}");
        for trace in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!line.contains(trace), "{line}");
        }
        line
    }

    /// Status 2: a line, and no object.
    fn is_a_bad_argument(&self) -> &str {
        assert_eq!((self.status, &*self.stdout), (2, ""), "{}", self.stderr);
        self.error_line()
    }
}

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
    let page = run("cholesky", &["--n", "300"]).stdout;
    for word in ["GFLOP/s", "residual", "digest", "tasks", "% of"] {
        assert!(page.contains(word), "no {word:?} in {page}");
    }
}

/// All grids of 1, 2, 3, 4 and 6 ranks.
const GRIDS: [(usize, usize); 12] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (1, 3),
    (3, 1),
    (1, 4),
    (2, 2),
    (4, 1),
    (1, 6),
    (2, 3),
    (3, 2),
    (6, 1),
];

#[test]
fn every_grid_of_ranks_answers_as_one_rank() {
    for (example, arguments) in [
        ("cholesky", &["--n", "100", "--nb", "16"][..]),
        // More ranks than tiles.
        ("cholesky", &["--n", "20", "--nb", "16"]),
        (
            "inverse",
            &["--n", "70", "--nb", "16", "--precision", "c64"],
        ),
        (
            "matmul",
            &["--n", "60", "--m", "40", "--k", "90", "--nb", "16"],
        ),
    ] {
        let of_grid = |(p, q): (usize, usize)| {
            let (ranks, grid) = ((p * q).to_string(), format!("{p}x{q}"));
            let spread = ["--ranks", &ranks, "--grid", &grid, "--check", "--json"];
            run(example, &[arguments, &spread].concat()).done()
        };
        let alone = of_grid((1, 1));
        assert!(alone["residual"].as_f64() < Some(30.0), "{alone}");
        for (p, q) in GRIDS {
            let spread = of_grid((p, q));
            for key in ["residual", "digest"] {
                assert_eq!(spread[key], alone[key], "{example}: {key} on {p} x {q}");
            }
            if example == "cholesky" {
                for key in ["tasks", "copies"] {
                    assert_eq!(spread[key], alone[key], "{key} on {p} x {q}");
                }
            }
            let sent = spread["per_rank"].as_array().unwrap();
            assert_eq!(sent.len(), if p * q == 1 { 0 } else { p * q });
            let messages = sent.iter().map(|sent| sent["messages"].as_u64().unwrap());
            assert_eq!(Some(messages.sum()), spread["messages"].as_u64());
        }
    }
}

#[test]
fn the_product_of_small_integers_is_exact_on_every_grid() {
    // Values by another program.
    for (grid, ranks, algorithm) in [
        ("1x1", "1", "summa"),
        ("2x2", "4", "summa"),
        ("1x3", "3", "torus"),
        ("2x2", "4", "torus"),
    ] {
        let arguments = [
            "--integers",
            "--n",
            "64",
            "--nb",
            "20",
            "--ranks",
            ranks,
            "--grid",
            grid,
            "--algorithm",
            algorithm,
        ];
        let product = run("matmul", &[&arguments[..], &["--json"]].concat()).done();
        for (key, value) in [("trace", 20), ("sum", 5), ("sum_of_squares", 186_775)] {
            assert_eq!(product[key], f64::from(value), "{product}");
        }
        assert_eq!(product["residual"], 0.0);
    }
}

#[test]
fn every_order_is_inverted_and_what_is_not_definite_says_where() {
    for (n, nb) in [("0", "5"), ("1", "1"), ("7", "30"), ("50", "9")] {
        for precision in ["f32", "f64", "c32", "c64"] {
            let arguments = ["--n", n, "--nb", nb, "--precision", precision, "--json"];
            let inverse = run("inverse", &arguments).done();
            assert!(inverse["residual"].as_f64() < Some(30.0), "{inverse}");
            let (n, nb) = (n.parse::<u64>().unwrap(), nb.parse().unwrap());
            let nt = n.div_ceil(nb);
            assert_eq!(inverse["tasks"], nt * (nt + 1) * (nt + 2) / 2);
            assert!(inverse["copies"].as_u64() <= Some(3 * nt * (nt + 1) / 2));
        }
    }
    let digest = |threads: &str| {
        let arguments = ["--n", "150", "--nb", "20", "--threads", threads, "--json"];
        run("inverse", &arguments).done()["digest"].clone()
    };
    assert_eq!(digest("1"), digest("4"));
    let hilbert = ["--matrix", "hilbert", "--n", "40", "--json"];
    let (failed, expected) = (run("inverse", &hilbert), cholesky(&hilbert[..4]).1);
    assert_eq!(failed.object()["error"], expected["error"]);
}

#[test]
fn every_grid_of_ranks_factors_and_solves_as_one_rank() {
    // The third has more ranks than tiles.
    for (example, arguments) in [
        (
            "qr",
            &["--m", "90", "--n", "50", "--nb", "16", "--tree", "greedy"][..],
        ),
        (
            "qr",
            &["--m", "30", "--n", "60", "--nb", "9", "--precision", "c64"],
        ),
        (
            "qr",
            &["--m", "20", "--n", "20", "--nb", "16", "--tree", "binary"],
        ),
        (
            "least_squares",
            &["--m", "70", "--n", "40", "--nb", "9", "--nrhs", "11"],
        ),
        (
            "least_squares",
            &["--m", "40", "--n", "70", "--nb", "9", "--precision", "c64"],
        ),
    ] {
        let of_grid = |(p, q): (usize, usize)| {
            let (ranks, grid) = ((p * q).to_string(), format!("{p}x{q}"));
            let spread = ["--ranks", &ranks, "--grid", &grid, "--check", "--json"];
            run(example, &[arguments, &spread].concat()).done()
        };
        let alone = of_grid((1, 1));
        assert!(alone["residual"].as_f64() < Some(30.0), "{alone}");
        for grid in [(1, 2), (3, 1), (2, 2), (2, 3)] {
            let spread = of_grid(grid);
            for key in ["residual", "orthogonality", "digest", "tasks", "copies"] {
                assert_eq!(spread[key], alone[key], "{key} of {example} on {grid:?}");
            }
        }
    }
}

#[test]
fn every_shape_tree_and_precision_is_factored_and_solved() {
    let trees = [
        "flat",
        "binary",
        "greedy",
        "fibonacci",
        "hierarchical:2,2,greedy,binary",
    ];
    let mut turn = 0;
    for (m, n) in [(0, 0), (0, 5), (5, 0), (1, 1), (5, 97), (97, 5), (33, 33)] {
        for precision in ["f32", "f64", "c32", "c64"] {
            turn += 1;
            let (m, n, tree) = (m.to_string(), n.to_string(), trees[turn % trees.len()]);
            let nb = ["1", "7", "32", "200"][turn % 4];
            let shape = ["--m", &m, "--n", &n, "--nb", nb, "--tree", tree];
            for example in ["qr", "least_squares"] {
                let more = ["--precision", precision, "--json"];
                let object = run(example, &[&shape[..], &more].concat()).done();
                assert!(object["residual"].as_f64() < Some(30.0), "{object}");
                assert_eq!(
                    (&object["precision"], &object["copies"]),
                    (&precision.into(), &0.into())
                );
            }
        }
    }
}

#[test]
fn qr_and_least_squares_refuse_what_they_cannot_do() {
    for bad in [
        &["--tree", "oak"][..],
        &["--tree", "hierarchical:0,1,flat,flat"],
        &["--nb", "0"],
        &["--m", "7", "--n", "5", "--matrix", "spd"],
        &["--input", "a.mtx", "--m", "5"],
    ] {
        for example in ["qr", "least_squares"] {
            run(example, bad).is_a_bad_argument();
        }
    }
    run("qr", &["--ib", "0"]).is_a_bad_argument();
    for example in ["qr", "least_squares"] {
        let ended = run(example, &["--n", "100000000", "--json"]);
        assert_eq!(ended.object()["error"]["kind"], "does_not_fit");
        let nan = "%%MatrixMarket matrix array real general\n3 2\n1\n2\n3\n4\nnan\n6\n";
        let ended = run(example, &["--input", &written("nan.mtx", nan), "--json"]);
        let error = &ended.object()["error"];
        assert_eq!(error["kind"], "not_finite");
        assert!(
            error["message"].as_str().unwrap().contains("entry (1, 1)"),
            "{error}"
        );
    }
    let dependent = "%%MatrixMarket matrix array real general\n3 2\n1\n0\n0\n0\n0\n0\n";
    let file = written("dependent.mtx", dependent);
    let object = run("least_squares", &["--input", &file, "--json"]).object();
    let error = &object["error"];
    assert_eq!(
        (&error["kind"], &error["index"]),
        (&"singular".into(), &2.into())
    );
    run("qr", &["--input", &file, "--json"]).done();
}

#[test]
fn the_sequence_has_the_bits_of_the_space_on_1_to_4_threads() {
    for arguments in [
        &["--n", "100", "--nb", "16"][..],
        &["--n", "70", "--nb", "9", "--precision", "c32"],
        &["--n", "20", "--nb", "30"],
        &["--n", "0"],
    ] {
        let space = run("cholesky", &[arguments, &["--json"]].concat()).done();
        for threads in ["1", "2", "3", "4"] {
            let more = ["--threads", threads, "--json"];
            let sequence = run("cholesky_sequence", &[arguments, &more].concat()).done();
            for key in ["digest", "residual", "tasks", "copies"] {
                assert_eq!(sequence[key], space[key], "{key} of {arguments:?}");
            }
        }
    }
}

#[test]
fn the_sequence_sends_what_the_space_sends_and_has_its_bits_on_every_grid() {
    let arguments = ["--n", "100", "--nb", "16", "--threads", "1", "--json"];
    for (ranks, grid) in [("2", "1x2"), ("3", "3x1"), ("4", "2x2")] {
        let spread = [&arguments[..], &["--ranks", ranks, "--grid", grid]].concat();
        let (space, sequence) = (
            run("cholesky", &spread).done(),
            run("cholesky_sequence", &spread).done(),
        );
        for key in [
            "digest",
            "residual",
            "tasks",
            "copies",
            "messages",
            "bytes",
            "activations",
        ] {
            assert_eq!(sequence[key], space[key], "{key} on {grid}");
        }
    }
    let hilbert = [
        "--matrix", "hilbert", "--n", "40", "--nb", "6", "--ranks", "4", "--json",
    ];
    let (space, sequence) = (
        run("cholesky", &hilbert),
        run("cholesky_sequence", &hilbert),
    );
    let (space, sequence) = (space.object(), sequence.object());
    assert_eq!(sequence["error"]["kind"], "not_positive_definite");
    assert_eq!(sequence["error"]["index"], space["error"]["index"]);
}

/// Paper 001, Table 5: what travels are blocks, so there are as many messages as with tiles of their
/// order; and the bits are those of the small tiles.
#[test]
fn two_levels_have_the_bits_of_tiles_and_the_messages_of_blocks() {
    for (ranks, n, nb, block) in [
        ("1", "100", "8", "3"),
        ("4", "100", "8", "3"),
        ("3", "77", "10", "2"),
    ] {
        let arguments = |nb| {
            [
                "--n",
                n,
                "--ranks",
                ranks,
                "--threads",
                "2",
                "--json",
                "--nb",
                nb,
            ]
        };
        let two = [&arguments(nb)[..], &["--levels", "2", "--block", block]].concat();
        let two = run("cholesky", &two).done();
        let tiles = run("cholesky", &arguments(nb)).done();
        let of_blocks =
            (nb.parse::<usize>().unwrap() * block.parse::<usize>().unwrap()).to_string();
        let blocks = run("cholesky", &arguments(&of_blocks)).done();
        assert_eq!(two["digest"], tiles["digest"], "{n} on {ranks} ranks");
        for key in ["messages", "bytes", "tasks"] {
            assert_eq!(two[key], blocks[key], "{key} of {n} on {ranks} ranks");
        }
        assert_eq!(
            (&two["levels"], &two["block"]),
            (&2.into(), &block.parse::<u64>().unwrap().into())
        );
    }
    for bad in [
        &["--levels", "3"][..],
        &["--levels", "0"],
        &["--block", "2"],
        &["--levels", "2", "--block", "0"],
    ] {
        run("cholesky", bad).is_a_bad_argument();
    }
    run("cholesky_sequence", &["--levels", "2"]).is_a_bad_argument();
}

/// Calls of `fibonacci`, by the formula of its tree.
fn calls_of_fibonacci(n: u64, cutoff: u64) -> u64 {
    match n < cutoff {
        true => 1,
        false => 1 + calls_of_fibonacci(n - 1, cutoff) + calls_of_fibonacci(n - 2, cutoff),
    }
}

/// Calls of `powerset`: a call for each number of elements below, and so on.
fn calls_of_powerset(n: u64, cutoff: u64) -> u64 {
    match n <= cutoff {
        true => 1,
        false => {
            1 + (0..n)
                .map(|below| calls_of_powerset(below, cutoff))
                .sum::<u64>()
        }
    }
}

#[test]
fn recursions_have_their_value_and_the_tasks_of_the_formula_on_every_rank() {
    for (n, cutoff) in [(0, 2), (1, 2), (20, 2), (22, 7), (19, 30)] {
        for ranks in ["1", "2", "3"] {
            let (text, below) = (n.to_string(), cutoff.to_string());
            let arguments = [
                "--n",
                &text,
                "--cutoff",
                &below,
                "--ranks",
                ranks,
                "--threads",
                "2",
                "--json",
            ];
            let fibonacci = run("fibonacci", &arguments).done();
            let value = (0..n).fold((0u64, 1u64), |(a, b), _| (b, a + b)).0;
            assert_eq!(fibonacci["value"], value, "{arguments:?}");
            assert_eq!(
                fibonacci["tasks"],
                calls_of_fibonacci(n, cutoff),
                "{arguments:?}"
            );
            let set = n.min(16);
            let text = set.to_string();
            let arguments = [&["--n", &*text], &arguments[2..]].concat();
            let powerset = run("powerset", &arguments).done();
            assert_eq!(powerset["value"], 1u64 << set, "{arguments:?}");
            assert_eq!(
                powerset["tasks"],
                calls_of_powerset(set, cutoff),
                "{arguments:?}"
            );
        }
    }
    run("fibonacci", &["--n", "94"]).is_a_bad_argument();
    run("fibonacci", &["--cutoff", "1"]).is_a_bad_argument();
    run("powerset", &["--n", "64"]).is_a_bad_argument();
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

#[test]
fn a_matrix_that_is_not_positive_definite_has_the_same_index_on_every_grid() {
    let hilbert = ["--matrix", "hilbert", "--n", "40", "--nb", "6"];
    let (_, alone) = cholesky(&hilbert);
    assert_eq!(alone["error"]["kind"], "not_positive_definite");
    for (ranks, grid) in [("2", "1x2"), ("4", "2x2"), ("6", "3x2")] {
        let spread = ["--ranks", ranks, "--grid", grid];
        let (_, spread) = cholesky(&[&hilbert[..], &spread].concat());
        assert_eq!(spread["error"], alone["error"], "{grid}");
    }
}

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
            &["--transport", "pigeon"],
            &["--m", "7", "--grid", "2x2"],
            &["stray"],
        ] {
            for json in [&[][..], &["--json"]] {
                let ended = run(example, &[arguments, bad, json].concat());
                let line = ended.is_a_bad_argument();
                assert!(!line.is_empty(), "{example} {bad:?}");
            }
        }
    }
    for bad in [
        &["--nb", "0"][..],
        &["--n", "-1"],
        &["--precision", "f16"],
        &["--grid", "0x1"],
        &["--grid", "2x2"],
        &["--backend", "abacus"],
        &["--matrix", "vandermonde"],
        &["--condition", "10"],
        &["--matrix", "conditioned", "--condition", "0.5"],
        &["--matrix", "conditioned", "--condition", "nan"],
        &["--input", "a.mtx", "--matrix", "spd"],
        &["--input", "a.mtx", "--n", "5"],
    ] {
        run("cholesky", bad).is_a_bad_argument();
    }
}

#[test]
fn every_order_and_tile_order_is_factored() {
    for (n, nb) in [
        (0, 1),
        (0, 96),
        (1, 1),
        (1, 96),
        (5, 96),
        (5, 1),
        (5, usize::MAX),
        (97, 96),
        (100, 33),
    ] {
        for precision in ["f32", "f64", "c32", "c64"] {
            let (n, nb) = (n.to_string(), nb.to_string());
            let arguments = ["--n", &n, "--nb", &nb, "--precision", precision];
            let (status, object) = cholesky(&arguments);
            assert_eq!(status, 0, "{object}");
            let nt = n.parse::<u64>().unwrap().div_ceil(nb.parse().unwrap());
            assert_eq!(object["tasks"], nt * (nt + 1) * (nt + 2) / 6, "{object}");
            assert!(object["residual"].as_f64().unwrap() < 30.0, "{object}");
            assert_eq!(object["precision"], precision);
            assert_eq!(object["copies"], 0);
            if n == "0" {
                assert_eq!(object["residual"], 0.0, "{object}");
            }
        }
    }
}

#[test]
fn the_digest_does_not_depend_on_threads_or_repetitions() {
    let digest = |more: &[&str]| {
        let (status, object) = cholesky(&[&["--n", "300"], more].concat());
        assert_eq!(status, 0, "{object}");
        object["digest"].as_str().unwrap().to_owned()
    };
    let expected = digest(&["--threads", "1"]);
    assert_eq!(expected.len(), 16);
    for more in [
        &["--threads", "2"][..],
        &["--threads", "3", "--bind", "none"],
        &["--threads", "8", "--repeat", "3"],
    ] {
        assert_eq!(digest(more), expected, "{more:?}");
    }
    for other in [
        ["--n", "300", "--seed", "1"],
        ["--n", "300", "--nb", "10"],
        ["--n", "301", "--nb", "96"],
    ] {
        let (_, object) = cholesky(&other);
        assert_ne!(object["digest"], expected, "{other:?}");
    }
}

#[test]
fn the_check_can_be_left_out_and_asked_for() {
    let residual = |more: &[&str]| cholesky(&[&["--n", "60"], more].concat()).1["residual"].clone();
    assert!(residual(&[]).is_f64());
    assert!(residual(&["--check"]).is_f64());
    assert!(residual(&["--check=false"]).is_null());
}

#[test]
fn every_generated_matrix_is_factored_but_for_large_hilbert_ones() {
    for kind in ["spd", "conditioned", "laplacian", "trefethen"] {
        for n in ["0", "1", "13", "210"] {
            let (status, object) = cholesky(&["--matrix", kind, "--n", n]);
            assert_eq!(status, 0, "{kind}: {object}");
            assert!(
                object["residual"].as_f64().unwrap() < 30.0,
                "{kind}: {object}"
            );
        }
    }
    let (status, object) = cholesky(&["--matrix", "hilbert", "--n", "12"]);
    assert_eq!(status, 0, "{object}");
    let (status, object) = cholesky(&["--matrix", "hilbert", "--n", "100"]);
    assert_eq!(status, 1, "{object}");
    assert_eq!(object["error"]["kind"], "not_positive_definite");
    assert!(
        matches!(object["error"]["index"].as_u64(), Some(13..=18)),
        "{object}"
    );
}

#[test]
fn a_matrix_that_does_not_fit_is_refused_before_it_is_made() {
    for arguments in [
        &["--n", "100000000"][..],
        &["--n", "100000", "--nb", "1"],
        &["--n", "18446744073709551615"],
        &["--n", "18446744073709551615", "--nb", "1"],
        &[
            "--n",
            "100000000",
            "--nb",
            "100000000",
            "--matrix",
            "trefethen",
        ],
    ] {
        let (status, object) = cholesky(arguments);
        assert_eq!(
            (status, &object["error"]["kind"]),
            (1, &"does_not_fit".into()),
            "{arguments:?}"
        );
    }
}

/// A folder of this test run; files are written anew each time.
fn written(name: &str, text: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contract");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What `error` says, whatever the tiles and the threads.
fn failure(file: &str, more: &[&str]) -> (String, Option<u64>, String) {
    let mut answers = Vec::new();
    for layout in [
        &[][..],
        &["--nb", "1"],
        &["--nb", "2", "--threads", "1"],
        &["--nb", "3", "--threads", "3"],
    ] {
        let (status, object) = cholesky(&[&["--input", file], layout, more].concat());
        assert_eq!(status, 1, "{object}");
        let error = &object["error"];
        let text = |key: &str| error[key].as_str().unwrap().to_owned();
        answers.push((text("kind"), error["index"].as_u64(), text("message")));
    }
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    answers.swap_remove(0)
}

#[test]
fn a_file_that_cannot_be_factored_is_status_1_with_its_kind() {
    let missing = failure("no/such/file.mtx", &[]);
    assert_eq!((&*missing.0, missing.1), ("input_unreadable", None));
    assert!(missing.2.contains("no/such/file.mtx"), "{}", missing.2);

    let banner = "%%MatrixMarket matrix coordinate";
    let file = written(
        "malformed.mtx",
        &format!("{banner} real general\n2 2 1\n3 1 4\n"),
    );
    let malformed = failure(&file, &[]);
    assert_eq!(malformed.0, "malformed_input");
    assert!(malformed.2.contains("line 3"), "{}", malformed.2);

    let file = written(
        "truncated.mtx",
        &format!("{banner} real general\n2 2 3\n1 1 4\n"),
    );
    assert_eq!(failure(&file, &[]).0, "malformed_input");

    let file = written(
        "rectangular.mtx",
        &format!("{banner} real general\n2 3 1\n1 1 4\n"),
    );
    let rectangular = failure(&file, &[]);
    assert_eq!((&*rectangular.0, rectangular.1), ("wrong_shape", None));
    assert!(rectangular.2.contains("2 x 3"), "{}", rectangular.2);

    let file = written(
        "nan.mtx",
        &format!("{banner} real symmetric\n3 3 4\n1 1 4\n3 2 nan\n2 2 1\n3 3 inf\n"),
    );
    let not_finite = failure(&file, &[]);
    assert_eq!((&*not_finite.0, not_finite.1), ("not_finite", None));
    assert!(not_finite.2.contains("(2, 1)"), "{}", not_finite.2);
}

#[test]
fn a_matrix_that_is_not_positive_definite_is_status_1_with_lapacks_info() {
    for bad in 1..=7 {
        let mut text = "%%MatrixMarket matrix coordinate real symmetric\n7 7 7\n".to_owned();
        for i in 1..=7 {
            text += &format!("{i} {i} {}\n", if i < bad { 4 } else { -4 });
        }
        let file = written(&format!("indefinite_{bad}.mtx"), &text);
        for precision in ["f32", "f64", "c32", "c64"] {
            let (kind, index, message) = failure(&file, &["--precision", precision]);
            assert_eq!((&*kind, index), ("not_positive_definite", Some(bad)));
            assert!(
                message.contains(&format!("pivot {bad} is -4e0")),
                "{message}"
            );
        }
    }
}

#[test]
fn a_complex_file_decides_the_precision_and_refuses_a_real_one() {
    let text =
        "%%MatrixMarket matrix coordinate complex hermitian\n2 2 3\n1 1 4 0\n2 1 1 2\n2 2 9 0\n";
    let file = written("hermitian.mtx", text);
    let (status, object) = cholesky(&["--input", &file]);
    assert_eq!(
        (status, &object["precision"]),
        (0, &"c64".into()),
        "{object}"
    );
    assert_eq!(cholesky(&["--input", &file, "--precision", "c32"]).0, 0);
    for real in ["f32", "f64"] {
        assert_eq!(failure(&file, &["--precision", real]).0, "complex_as_real");
    }
    let text = "%%MatrixMarket matrix coordinate real symmetric\n1 1 1\n1 1 4\n";
    let file = written("real.mtx", text);
    for precision in ["f32", "f64", "c32", "c64"] {
        let (status, object) = cholesky(&["--input", &file, "--precision", precision]);
        assert_eq!(
            (status, &object["precision"]),
            (0, &precision.into()),
            "{object}"
        );
    }
}

/// The folder `matrices/`, or `None`, said aloud.
fn matrices() -> Option<PathBuf> {
    match std::env::var_os("DATAFLOW_DATA") {
        Some(folder) => Some(Path::new(&folder).join("matrices")),
        None => {
            println!("skipped: DATAFLOW_DATA is not set (a folder that holds matrices/)");
            None
        }
    }
}

fn json(path: PathBuf) -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_matrix_of_the_collection_is_factored_or_refused_with_its_info() {
    let Some(folder) = matrices() else { return };
    let facts = json(folder.join("facts.json"));
    for fact in &facts {
        let file = folder.join(fact["file"].as_str().unwrap());
        let input = ["--input", file.to_str().unwrap()];
        let runs = [&["--threads", "2"][..], &["--threads", "1", "--nb", "150"]];
        for more in runs {
            let (status, object) = cholesky(&[&input, more].concat());
            let error = &object["error"];
            match fact["potrf_info"].as_u64() {
                None => assert_eq!(error["kind"], "wrong_shape", "{object}"),
                Some(0) => {
                    assert_eq!((status, &object["copies"]), (0, &0.into()), "{object}");
                    assert!(object["residual"].as_f64().unwrap() < 30.0, "{object}");
                }
                Some(info) => {
                    assert_eq!((status, &error["index"]), (1, &info.into()), "{object}");
                    assert_eq!(error["kind"], "not_positive_definite");
                }
            }
        }
    }
    println!("checked: {} files", facts.len());
}

/// What factoring these rows has to end in: the kind of failure and its index.
fn expected_of(rows: &[Vec<c64>]) -> Option<(&'static str, Option<u64>)> {
    let n = rows.len();
    if rows.iter().any(|row| row.len() != n) {
        return Some(("wrong_shape", None));
    }
    let lower = (0..n).flat_map(|i| rows[i][..=i].iter());
    if lower.into_iter().any(|entry| !Scalar::is_finite(*entry)) {
        return Some(("not_finite", None));
    }
    let mut l = rows.to_vec();
    for j in 0..n {
        let squares: f64 = l[j][..j].iter().map(|entry| entry.norm_sqr()).sum();
        let pivot = l[j][j].re - squares;
        if pivot <= 0.0 {
            return Some(("not_positive_definite", Some(j as u64 + 1)));
        }
        l[j][j] = c64::new(pivot.sqrt(), 0.0);
        for i in j + 1..n {
            let sum: c64 = (0..j).map(|k| l[i][k] * l[j][k].conj()).sum();
            l[i][j] = (l[i][j] - sum) / l[j][j];
        }
    }
    None
}

/// A number, "NaN", or a complex number like "1-2i".
fn number(entry: &Value) -> c64 {
    match entry.as_str() {
        Some(text) => text.parse().unwrap(),
        None => c64::new(entry.as_f64().unwrap(), 0.0),
    }
}

#[test]
fn every_awkward_file_ends_as_it_has_to() {
    let Some(folder) = matrices() else { return };
    let folder = folder.join("awkward");
    let cases = json(folder.join("expected.json"));
    for case in &cases {
        let name = case["file"].as_str().unwrap();
        let file = folder.join(name);
        let (status, object) = cholesky(&["--input", file.to_str().unwrap(), "--nb", "2"]);
        let kind = object["error"]["kind"].as_str();
        match case["outcome"].as_str() {
            Some("reject") => {
                assert!(
                    matches!(kind, Some("malformed_input" | "does_not_fit")),
                    "{object}"
                );
                let message = object["error"]["message"].as_str().unwrap();
                assert!(message.contains(name), "{message}");
            }
            _ => {
                let rows = case["rows"].as_array().unwrap().iter();
                let rows = rows.map(|row| row.as_array().unwrap().iter().map(number).collect());
                let rows: Vec<Vec<c64>> = rows.collect();
                let found = kind.map(|kind| (kind, object["error"]["index"].as_u64()));
                assert_eq!(found, expected_of(&rows), "{name}: {object}");
                assert_eq!(status, i32::from(kind.is_some()));
            }
        }
    }
    println!("checked: {} awkward files", cases.len());
}

#[test]
fn lu_answers_alike_on_every_grid_and_any_number_of_threads() {
    for arguments in [
        "--n 60 --m 100 --nb 16",
        "--n 100 --m 60 --nb 16 --precision c32",
        "--n 20 --nb 16",
        "--n 100 --nb 16 --pivoting none",
        "--n 60 --m 100 --nb 16 --pivoting tournament --groups 3",
        "--n 70 --nb 16 --pivoting incremental",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let lu =
            |more: &[&str]| run("lu", &[&arguments, more, &["--check", "--json"]].concat()).done();
        let alone = lu(&["--threads", "1"]);
        assert!(alone["residual"].as_f64() < Some(2.0), "{alone}");
        let same = |other: Value, what: &str| {
            for key in ["residual", "digest"] {
                assert_eq!(other[key], alone[key], "{key} with {what}");
            }
        };
        for threads in ["2", "3", "8"] {
            same(lu(&["--threads", threads]), threads);
        }
        for (ranks, grid) in [("2", "2x1"), ("4", "2x2"), ("6", "2x3"), ("6", "6x1")] {
            same(lu(&["--ranks", ranks, "--grid", grid]), grid);
        }
    }
}

#[test]
fn lu_of_a_singular_matrix_is_complete_and_fails_with_the_index_of_its_pivot() {
    let path = std::env::temp_dir().join(format!("singular-{}.mtx", std::process::id()));
    let text =
        "%%MatrixMarket matrix coordinate real general\n4 4 5\n1 1 2\n2 2 3\n3 4 1\n4 4 5\n1 4 1\n";
    std::fs::write(&path, text).unwrap();
    let ended = run(
        "lu",
        &["--input", path.to_str().unwrap(), "--nb", "2", "--json"],
    );
    std::fs::remove_file(&path).unwrap();
    let object = ended.object();
    ended.says_what_failed(&object);
    assert_eq!(object["error"]["kind"], "singular", "{object}");
    assert_eq!(object["error"]["index"], 3, "{object}");
    assert!(object["residual"].as_f64() < Some(2.0), "{object}");
    assert!(object["digest"].is_string(), "{object}");
}

#[test]
fn lu_refuses_a_way_of_pivoting_that_it_does_not_have() {
    let ended = run("lu", &["--n", "5", "--pivoting", "rook"]);
    let text = ended.is_a_bad_argument();
    for way in ["partial", "tournament", "incremental", "none"] {
        assert!(text.contains(way), "{text}");
    }
    let ended = run("lu", &["--n", "5", "--groups", "2"]);
    let text = ended.is_a_bad_argument();
    assert!(text.contains("tournament"), "{text}");
}

#[test]
fn inverses_by_lu_are_alike_on_every_grid_and_judged() {
    for arguments in ["--n 60 --nb 16", "--n 20 --nb 16 --precision c32"] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let inverse = |more: &[&str]| {
            let more = [&arguments, more, &["--method", "lu", "--check", "--json"]];
            run("inverse", &more.concat()).done()
        };
        let alone = inverse(&["--threads", "1"]);
        assert!(alone["residual"].as_f64() < Some(30.0), "{alone}");
        for (ranks, grid) in [("1", "1x1"), ("4", "2x2"), ("6", "2x3")] {
            let spread = inverse(&["--ranks", ranks, "--grid", grid]);
            for key in ["residual", "digest"] {
                assert_eq!(spread[key], alone[key], "{key} on {grid}");
            }
        }
    }
    let singular = [
        "--matrix", "hilbert", "--n", "3", "--method", "lu", "--json",
    ];
    assert!(run("inverse", &singular).done()["residual"].as_f64() < Some(30.0));
}

#[test]
fn every_grid_of_ranks_solves_and_judges_as_one_rank() {
    for (arguments, method) in [
        ("--n 60 --nb 16", "cholesky"),
        ("--n 60 --nb 16 --method lu --precision c64", "lu"),
        ("--n 60 --nb 16 --method qr", "qr"),
        ("--n 60 --nb 16 --method mixed", "mixed"),
        (
            "--n 60 --nb 16 --method mixed --matrix random --precision c64",
            "mixed",
        ),
        ("--m 70 --n 40 --nb 9", "qr"),
        ("--m 40 --n 70 --nb 9 --precision c32", "qr"),
        // More ranks than tiles.
        ("--n 20 --nb 16 --matrix random", "lu"),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let of_grid = |(p, q): (usize, usize)| {
            let (ranks, grid) = ((p * q).to_string(), format!("{p}x{q}"));
            let spread = ["--ranks", &ranks, "--grid", &grid, "--check", "--json"];
            run("solve", &[&arguments[..], &spread].concat()).done()
        };
        let alone = of_grid((1, 1));
        assert!(alone["residual"].as_f64() < Some(30.0), "{alone}");
        let square = alone["n"] == alone["m"];
        assert_eq!(alone["method"], method, "{alone}");
        for key in ["condition", "forward_error_bound", "backward_error"] {
            assert_eq!(alone[key].is_f64(), square, "{alone}");
        }
        let refined = method == "mixed";
        assert_eq!(alone["corrections"].as_u64() >= Some(1), refined, "{alone}");
        assert_eq!(alone["log_det"].is_f64(), square && !refined, "{alone}");
        let has_phase = method != "qr" && !refined;
        assert_eq!(alone["det_phase"].is_array(), has_phase, "{alone}");
        for grid in [(2, 1), (2, 2), (2, 3)] {
            let spread = of_grid(grid);
            for key in [
                "residual",
                "digest",
                "condition",
                "forward_error_bound",
                "backward_error",
                "corrections",
                "log_det",
                "det_phase",
                "method",
            ] {
                assert_eq!(
                    spread[key], alone[key],
                    "{key} of {arguments:?} on {grid:?}"
                );
            }
        }
    }
}

#[test]
fn all_methods_agree_on_condition_and_determinant() {
    for matrix in ["spd", "conditioned"] {
        let of_method = |method: &str| {
            let arguments = ["--matrix", matrix, "--n", "60", "--nb", "13", "--json"];
            run("solve", &[&arguments[..], &["--method", method]].concat()).done()
        };
        let expected = of_method("cholesky");
        let number = |object: &Value, key: &str| object[key].as_f64().unwrap();
        if matrix == "conditioned" {
            // 10⁶ in the 2-norm.
            let condition = number(&expected, "condition");
            assert!((1e6 / 60.0..6e7).contains(&condition), "{expected}");
        }
        for method in ["lu", "qr"] {
            let found = of_method(method);
            let ratio = number(&found, "condition") / number(&expected, "condition");
            assert!((ratio - 1.0).abs() < 1e-6, "{found}");
            let difference = number(&found, "log_det") - number(&expected, "log_det");
            assert!(difference.abs() < 1e-7, "{found}");
        }
        assert_eq!(of_method("lu")["det_phase"], expected["det_phase"]);
    }
}

#[test]
fn right_hand_sides_are_read_and_solutions_are_written() {
    let banner = "%%MatrixMarket matrix array real general";
    let a = written("solve_a.mtx", &format!("{banner}\n2 2\n0\n2\n4\n8\n"));
    let b = written("solve_b.mtx", &format!("{banner}\n2 2\n4\n10\n4\n8\n"));
    for (ranks, nb) in [("1", "1"), ("1", "5"), ("4", "1")] {
        let x = written("solve_x.mtx", "stale");
        let arguments = ["--input", &a, "--rhs", &b, "--output", &x, "--nb", nb];
        let solved = run(
            "solve",
            &[&arguments[..], &["--ranks", ranks, "--json"]].concat(),
        );
        let solved = solved.done();
        assert_eq!(solved["method"], "lu");
        assert_eq!(
            (&solved["nrhs"], &solved["residual"]),
            (&2.into(), &0.0.into())
        );
        assert_eq!(solved["condition"], 15.0);
        assert_eq!(solved["det_phase"][0], -1.0);
        let text = std::fs::read_to_string(x).unwrap();
        assert_eq!(text, format!("{banner}\n2 2\n1.0\n1.0\n0.0\n1.0\n"));
    }
    let nowhere = ["--n", "5", "--output", "no/such/folder/x.mtx", "--json"];
    let ended = run("solve", &nowhere);
    let object = ended.object();
    ended.says_what_failed(&object);
    assert_eq!(object["error"]["kind"], "output_unwritable");
    // Three rows for a matrix of two.
    let long = written("solve_long.mtx", &format!("{banner}\n3 1\n1\n2\n3\n"));
    let object = run("solve", &["--input", &a, "--rhs", &long, "--json"]).object();
    assert_eq!(object["error"]["kind"], "wrong_shape", "{object}");
}

#[test]
fn the_method_follows_from_the_matrix_unless_one_is_asked_for() {
    let banner = "%%MatrixMarket matrix coordinate real";
    let definite = "2 2 3\n1 1 4\n2 1 1\n2 2 3\n";
    let indefinite = "2 2 3\n1 1 1\n2 1 2\n2 2 1\n";
    let named = |name: &str, symmetry: &str, text: &str| {
        written(name, &format!("{banner} {symmetry}\n{text}"))
    };
    for (file, asked, expected) in [
        (
            named("definite.mtx", "symmetric", definite),
            None,
            "cholesky",
        ),
        (
            named("definite.mtx", "symmetric", definite),
            Some("qr"),
            "qr",
        ),
        (named("asymmetric.mtx", "general", definite), None, "lu"),
        (named("indefinite.mtx", "symmetric", indefinite), None, "lu"),
        (named("tall.mtx", "general", "3 1 1\n2 1 5\n"), None, "qr"),
    ] {
        let method = asked.map_or(vec![], |method| vec!["--method", method]);
        let arguments = [&["--input", &*file, "--json"][..], &method].concat();
        assert_eq!(
            run("solve", &arguments).done()["method"],
            expected,
            "{file}"
        );
    }
    for (file, method, kind) in [
        (
            named("indefinite.mtx", "symmetric", indefinite),
            "cholesky",
            "not_positive_definite",
        ),
        (
            named("tall.mtx", "general", "3 1 1\n2 1 5\n"),
            "lu",
            "wrong_shape",
        ),
        (
            named("singular.mtx", "general", "2 2 1\n1 1 1\n"),
            "lu",
            "singular",
        ),
        (
            named("singular.mtx", "general", "2 2 1\n1 1 1\n"),
            "qr",
            "singular",
        ),
        // Cholesky reads the lower triangle only; the check does not.
        (
            named("asymmetric.mtx", "general", "2 2 3\n1 1 4\n1 2 3\n2 2 5\n"),
            "cholesky",
            "residual_too_large",
        ),
    ] {
        let ended = run("solve", &["--input", &file, "--method", method, "--json"]);
        let object = ended.object();
        ended.says_what_failed(&object);
        assert_eq!(object["error"]["kind"], kind, "{file}: {object}");
    }
    let ended = run("solve", &["--n", "5", "--method", "gauss"]);
    let text = ended.is_a_bad_argument();
    for method in ["cholesky", "lu", "qr", "mixed"] {
        assert!(text.contains(method), "{text}");
    }
}

#[test]
fn mixed_precision_says_whether_it_refined_or_why_it_fell_back() {
    let banner = "%%MatrixMarket matrix coordinate real";
    let matrix = |name: &str, text: &str| written(name, &format!("{banner} {text}\n"));
    for (file, corrections, fell_back, method) in [
        // Cholesky does not do for this one, in either precision; LU does.
        (
            matrix(
                "mixed_indefinite.mtx",
                "symmetric\n2 2 3\n1 1 1\n2 1 3\n2 2 1",
            ),
            true,
            None,
            "refined",
        ),
        (
            matrix("mixed_huge.mtx", "general\n2 2 2\n1 1 1e50\n2 2 1"),
            false,
            Some("overflow"),
            "does not hold",
        ),
        (
            matrix("mixed_tiny.mtx", "symmetric\n2 2 2\n1 1 1e-50\n2 2 1"),
            false,
            Some("no_factor"),
            "not positive definite",
        ),
    ] {
        let arguments = ["--input", &*file, "--method", "mixed", "--check"];
        let solved = run("solve", &[&arguments[..], &["--json"]].concat()).done();
        assert_eq!(solved["method"], "mixed");
        assert_eq!(solved["corrections"].is_u64(), corrections, "{solved}");
        assert_eq!(solved["fell_back"].as_str(), fell_back, "{solved}");
        assert_eq!(solved["log_det"].is_f64(), fell_back.is_some(), "{solved}");
        let page = run("solve", &arguments);
        assert!(page.stdout.contains(method), "{}", page.stdout);
    }
    for precision in ["f32", "c32"] {
        let arguments = ["--n", "5", "--method", "mixed", "--precision", precision];
        let ended = run("solve", &arguments);
        assert!(ended.is_a_bad_argument().contains(precision));
    }
}

#[test]
fn suitable_methods_solve_every_matrix_of_the_collection_and_say_how_well() {
    // All methods for the smaller ones; the larger ones in half the precision.
    let n_solved = solve_the_collection(|n, method| n <= 500 || method == "mixed");
    assert!(n_solved.is_none_or(|n| n > 40), "{n_solved:?}");
}

#[test]
#[ignore = "a minute: prints the table of docs/guide/trust.md (-- --ignored --nocapture)"]
fn every_suitable_method_solves_every_matrix_of_the_collection_in_a_table() {
    let n_solved = solve_the_collection(|_, _| true);
    assert!(n_solved.is_none_or(|n| n > 55), "{n_solved:?}");
}

/// Solves with each matrix by each of its methods that is chosen; how many solutions that were.
fn solve_the_collection(is_chosen: impl Fn(u64, &str) -> bool) -> Option<usize> {
    let folder = matrices()?;
    println!(
        "| matrix | n | method | residual | error bound | condition | of κ₁ | log \\|det A\\| |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|---:|");
    let mut n_solved = 0;
    for fact in &json(folder.join("facts.json")) {
        let square = fact["rows"] == fact["cols"];
        let methods = [
            (fact["positive_definite"] == true, "cholesky"),
            (square && fact["getrf_info"] == 0, "lu"),
            // Of a matrix without full rank QR promises nothing.
            (fact["cond2"].is_number(), "qr"),
            (square && fact["getrf_info"] == 0, "mixed"),
        ];
        let n = fact["rows"].as_u64().unwrap();
        for (suits, method) in methods {
            if suits && is_chosen(n, method) {
                solve_of_the_collection(&folder, fact, method);
                n_solved += 1;
            }
        }
    }
    println!("solved: {n_solved}");
    Some(n_solved)
}

/// Solves with a matrix by one method; checks and prints what it says of the solution.
fn solve_of_the_collection(folder: &Path, fact: &Value, method: &str) {
    let file = folder.join(fact["file"].as_str().unwrap());
    let arguments = ["--input", file.to_str().unwrap(), "--method", method];
    let solved = run("solve", &[&arguments[..], &["--check", "--json"]].concat()).done();
    // LAPACK asks for less than 30; what is refined is not worse than what is not.
    let residual = solved["residual"].as_f64().unwrap();
    assert!(residual < 1.0, "{solved}");
    let mut of_true = None;
    if let Some(expected) = fact["cond1"].as_f64() {
        let ratio = expected / solved["condition"].as_f64().unwrap();
        // Factors in half the precision do not know a condition beyond its reciprocal.
        let epsilon = match solved["corrections"].is_null() {
            true => f64::EPSILON,
            false => f32::EPSILON.into(),
        };
        let least = 1.0 - 10.0 * epsilon * expected;
        assert!((least..3.0).contains(&ratio), "{ratio}: {solved}");
        of_true = Some(1.0 / ratio);
    }
    if let (Some(found), Some(expected)) =
        (solved["log_det"].as_f64(), fact["log_abs_det"].as_f64())
    {
        let condition = fact["cond1"].as_f64().unwrap();
        let bound = 1e-12 * (1.0 + expected.abs()) + 10.0 * condition * f64::EPSILON;
        assert!((found - expected).abs() < bound, "{expected}: {solved}");
    }
    let happened = match (solved["corrections"].as_u64(), solved["fell_back"].as_str()) {
        (Some(corrections), _) => format!(", {corrections} corrections"),
        (None, Some(cause)) => format!(", fell back ({cause})"),
        (None, None) => String::new(),
    };
    let shown = |number: Option<f64>, digits: usize| match number {
        Some(number) => format!("{number:.digits$e}"),
        None => "–".to_owned(),
    };
    println!(
        "| {} | {} | {method}{happened} | {residual:.0e} | {} | {} | {} | {} |",
        fact["name"].as_str().unwrap(),
        match fact["rows"] == fact["cols"] {
            true => fact["rows"].to_string(),
            false => format!("{} × {}", fact["rows"], fact["cols"]),
        },
        shown(solved["forward_error_bound"].as_f64(), 1),
        shown(solved["condition"].as_f64(), 2),
        of_true.map_or("–".to_owned(), |share| format!("{share:.2}")),
        solved["log_det"]
            .as_f64()
            .map_or("–".to_owned(), |log| format!("{log:.6}")),
    );
}

#[test]
fn a_plan_says_what_each_rank_needs_and_computes_nothing() {
    let plan = |example: &str, more: &[&str]| {
        let arguments = ["--plan", "--json", "--n", "300", "--threads", "1"];
        let ended = run(example, &[&arguments[..], more].concat());
        assert_eq!(ended.status, 0, "{example}: {}", ended.stderr);
        let object = ended.object();
        assert!(object["seconds"].is_null(), "{example} computed");
        object["plan"].clone()
    };
    for example in [
        "cholesky",
        "cholesky_sequence",
        "inverse",
        "lu",
        "qr",
        "matmul",
    ] {
        let alone = &plan(example, &[])["ranks"];
        assert_eq!(alone.as_array().unwrap().len(), 1);
        assert_eq!(alone[0]["received_bytes"], 0, "{example}");
        let spread = plan(example, &["--ranks", "4", "--nb", "30"]);
        assert_eq!(spread["verdict"], "fits", "{example}");
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
    let huge = run("cholesky", &["--plan", "--json", "--n", "100000000"]);
    assert_eq!(
        (huge.status, &huge.object()["plan"]["verdict"]),
        (0, &"cannot fit".into())
    );
    let people = run("lu", &["--plan", "--n", "300"]);
    assert!(people.stdout.contains("bytes held"), "{}", people.stdout);
    assert_eq!(run("solve", &["--plan", "--n", "300"]).status, 2);
}
