//! `solve`, on generated matrices and on those of the collection.

use crate::ended::*;
use serde_json::Value;
use std::path::Path;

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
fn the_condition_is_told_of_a_matrix_whose_inverse_is_larger_than_any_number() {
    let banner = "%%MatrixMarket matrix array real general";
    let a = written(
        "solve_tiny.mtx",
        &format!("{banner}\n2 2\n1e-310\n0\n0\n1e-310\n"),
    );
    let b = written(
        "solve_tiny_b.mtx",
        &format!("{banner}\n2 1\n1e-310\n1e-310\n"),
    );
    for nb in ["1", "2"] {
        let arguments = ["--input", &a, "--rhs", &b, "--nb", nb, "--json"];
        let condition = run("solve", &arguments).done()["condition"].as_f64();
        assert!((condition.unwrap() - 1.0).abs() < 1e-14, "{condition:?}");
    }
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
#[ignore = "a minute: prints the table of docs/matrices.md (-- --ignored --nocapture)"]
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
