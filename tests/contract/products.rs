//! `matmul` and `inverse`.

use crate::ended::*;
use serde_json::Value;

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
fn products_that_wait_are_right_and_those_that_hear_of_nobody_are_wrong() {
    for algorithm in ["summa", "torus"] {
        let product = |more: &str| {
            let common = format!("--n 50 --nb 16 --algorithm {algorithm} --threads 1 --json");
            let arguments = format!("{common} {more}");
            let arguments: Vec<&str> = arguments.split(' ').collect();
            run("matmul", &arguments).done()
        };
        let alone = product("--ranks 1");
        for on in ["--ranks 2", "--ranks 4 --grid 2x2", "--ranks 6 --grid 3x2"] {
            let base = product(&format!("{on} --variant base"));
            assert_eq!(base["digest"], alone["digest"], "{on}: {base}");
            assert!(base["messages"].as_u64() > Some(0), "{base}");
            let ideal = product(&format!("{on} --variant ideal"));
            assert_ne!(ideal["digest"], alone["digest"], "{on}: {ideal}");
            assert_eq!(
                (&ideal["messages"], &ideal["residual"]),
                (&0.into(), &Value::Null)
            );
        }
    }
    let other = run(
        "matmul",
        &["--n", "9", "--variant", "base", "--precision", "f32"],
    );
    assert_eq!(other.status, 2, "{}", other.stderr);
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

/// Of such files the lower triangle alone was inverted, and the check read no more.
#[test]
fn what_no_header_calls_hermitian_is_inverted_as_a_whole() {
    let file = |name: &str, kind: &str, entries: &str| {
        let text = entries.replace(", ", "\n");
        written(
            name,
            &format!("%%MatrixMarket matrix array {kind}\n2 2\n{text}\n"),
        )
    };
    let general = file("whole.mtx", "real general", "4, 2, 1, 5");
    let complex = file("whole_complex.mtx", "complex symmetric", "4 1, 1 2, 5 0");
    let alike = file("whole_alike.mtx", "real general", "4, 2, 2, 5");
    let definite = file("whole_definite.mtx", "real symmetric", "4, 2, 5");
    let hermitian = file("whole_hermitian.mtx", "complex hermitian", "4 0, 1 2, 5 0");
    for (input, method, expected) in [
        (&general, None, ("lu", None)),
        (&complex, None, ("lu", None)),
        (&alike, None, ("lu", None)),
        (&definite, None, ("cholesky", None)),
        (&hermitian, None, ("cholesky", None)),
        (&definite, Some("lu"), ("lu", None)),
        (&alike, Some("cholesky"), ("cholesky", None)),
        (
            &general,
            Some("cholesky"),
            ("cholesky", Some("residual_too_large")),
        ),
        (
            &complex,
            Some("cholesky"),
            ("cholesky", Some("residual_too_large")),
        ),
    ] {
        for ranks in ["1", "2"] {
            let asked = method.map_or(vec![], |method| vec!["--method", method]);
            let arguments = ["--input", input, "--nb", "1", "--ranks", ranks, "--json"];
            let told = run("inverse", &[&arguments[..], &asked].concat()).object();
            let found = (
                told["method"].as_str().unwrap(),
                told["error"]["kind"].as_str(),
            );
            assert_eq!(found, expected, "{input} {method:?}: {told}");
        }
    }
    let generated = |matrix| {
        let arguments = ["--n", "20", "--matrix", matrix, "--json"];
        run("inverse", &arguments).done()["method"].clone()
    };
    assert_eq!(generated("random"), "lu");
    assert_eq!(generated("trefethen"), "cholesky");
}
