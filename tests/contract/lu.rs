//! `lu`.

use crate::ended::*;
use serde_json::Value;

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

/// Without row swaps such factors have no right product, and only that was told.
#[test]
fn a_pivot_that_is_zero_or_overflows_is_told_although_the_product_is_wrong() {
    for (entries, pivoting, kind, index) in [
        (
            "3 3\n2\n1\n2\n2\n1\n1\n2\n2\n1\n",
            "none",
            "singular",
            Some(2),
        ),
        (
            "2 2\n1e308\n-1e308\n1e308\n1e308\n",
            "partial",
            "overflow",
            None,
        ),
    ] {
        let path = std::env::temp_dir().join(format!("{kind}-pivot-{}.mtx", std::process::id()));
        let text = format!("%%MatrixMarket matrix array real general\n{entries}");
        std::fs::write(&path, text).unwrap();
        let flags = [
            "--input",
            path.to_str().unwrap(),
            "--pivoting",
            pivoting,
            "--json",
        ];
        let ended = run("lu", &flags);
        std::fs::remove_file(&path).unwrap();
        let error = &ended.object()["error"];
        assert_eq!(
            (error["kind"].as_str(), error["index"].as_u64()),
            (Some(kind), index),
            "{error}"
        );
    }
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
