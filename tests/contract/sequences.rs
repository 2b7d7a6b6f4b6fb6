//! `cholesky_sequence`, two levels, `fibonacci` and `powerset`.

use crate::ended::*;

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
