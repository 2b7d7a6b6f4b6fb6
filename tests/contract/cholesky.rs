//! `cholesky`: orders, digests, grids, generated matrices.

use crate::ended::*;
use serde_json::Value;

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

/// Of so large tiles the bytes of one do not have 128 bits.
#[test]
fn a_matrix_of_the_largest_tile_that_has_a_number_does_not_fit() {
    let n = &usize::MAX.to_string();
    for of in [
        &["cholesky", "--n", n][..],
        &["lu", "--n", n],
        &["qr", "--n", n, "--m", n],
        &["least_squares", "--n", n],
    ] {
        let object = run(of[0], &[&of[1..], &["--nb", n, "--json"]].concat()).object();
        assert_eq!(object["error"]["kind"], "does_not_fit", "{object}");
    }
}

#[test]
fn a_matrix_of_more_tiles_than_can_be_counted_has_the_wrong_shape() {
    let n = &usize::MAX.to_string();
    for nb in ["1", "100"] {
        for of in [
            &["cholesky", "--n", n][..],
            &["lu", "--n", n],
            &["qr", "--n", n, "--m", n],
            &["least_squares", "--n", n],
        ] {
            let object = run(of[0], &[&of[1..], &["--nb", nb, "--json"]].concat()).object();
            assert_eq!(object["error"]["kind"], "wrong_shape", "{object}");
        }
    }
}

#[test]
fn a_lookahead_changes_what_is_held_and_nothing_else() {
    let arguments = ["--n", "600", "--nb", "10", "--ranks", "4", "--json"];
    let with = |more: &[&str]| run("cholesky", &[&arguments[..], more].concat()).done();
    let (free, bound) = (with(&[]), with(&["--lookahead", "2"]));
    assert_eq!(
        (&free["lookahead"], &bound["lookahead"]),
        (&Value::Null, &2.into())
    );
    for key in ["digest", "residual", "tasks", "messages", "bytes"] {
        assert_eq!(bound[key], free[key], "{key}");
    }
    let told = |object: &Value| {
        object["plan"]["ranks"][0]["received_bytes"]
            .as_u64()
            .unwrap()
    };
    let plan = |more: &[&str]| with(&[&["--plan", "--check=false"][..], more].concat());
    let (free, bound) = (plan(&[]), plan(&["--lookahead", "2"]));
    assert!(2 * told(&bound) < told(&free), "{bound} of {free}");
    let counted = ["--simulate", "counts", "--threads", "2"];
    let counted = |more: &[&str]| {
        let object = with(&[&counted[..], more].concat());
        object["counts"]["held_bytes_by_rank"]["max"]
            .as_f64()
            .unwrap()
    };
    let (free, bound) = (counted(&[]), counted(&["--lookahead", "2"]));
    assert!(bound < free, "{bound} of {free}");
    let refused = run("cholesky_sequence", &["--n", "20", "--lookahead", "2"]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
}
