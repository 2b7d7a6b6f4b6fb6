//! `qr` and `least_squares`.

use crate::ended::*;

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
        (
            "least_squares",
            &["--m", "50", "--n", "40", "--nb", "9", "--method", "gelsy"],
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
            for key in ["residual", "orthogonality", "digest", "rank"] {
                assert_eq!(spread[key], alone[key], "{key} of {example} on {grid:?}");
            }
            // Of least squares every rank is told the rank, by a task of its own; and its stages are
            // one graph, in which a tile is copied that one changes while another still reads it.
            if example == "qr" {
                assert_eq!(spread["copies"], alone["copies"], "copies on {grid:?}");
                assert_eq!(spread["tasks"], alone["tasks"], "tasks on {grid:?}");
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
            let is_wide = m < n;
            let (m, n, tree) = (m.to_string(), n.to_string(), trees[turn % trees.len()]);
            let nb = ["1", "7", "32", "200"][turn % 4];
            let shape = ["--m", &m, "--n", &n, "--nb", nb, "--tree", tree];
            for example in ["qr", "least_squares"] {
                let more = ["--precision", precision, "--json"];
                let object = run(example, &[&shape[..], &more].concat()).done();
                assert!(object["residual"].as_f64() < Some(30.0), "{object}");
                assert_eq!(object["precision"], precision);
                // Of a wide matrix a tile of X is copied that changes while another still reads it.
                let may_copy = example == "least_squares" && is_wide;
                assert!(may_copy || object["copies"] == 0, "{object}");
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
    for bad in [
        &["--method", "gelss"][..],
        &["--rcond", "1.5"],
        &["--rcond", "-1"],
    ] {
        run("least_squares", bad).is_a_bad_argument();
    }
    let useless = ["--method", "qr", "--rcond", "0.1"];
    run("least_squares", &useless).is_a_bad_argument();
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
    let (error, rank) = (&object["error"], &object["rank"]);
    assert_eq!(
        (&error["kind"], rank),
        (&"rank_deficient".into(), &1.into())
    );
    for method in ["gelsy", "auto"] {
        let solves = ["--input", &file, "--method", method, "--json"];
        let object = run("least_squares", &solves).done();
        assert_eq!(
            (&object["rank"], &object["method"]),
            (&1.into(), &"gelsy".into())
        );
    }
    run("qr", &["--input", &file, "--json"]).done();
}

#[test]
fn least_squares_heeds_an_rcond_by_either_method_that_has_one() {
    let nearly = "%%MatrixMarket matrix array real general\n2 2\n1\n0\n0\n1e-5\n";
    let file = written("nearly.mtx", nearly);
    for method in ["gelsy", "auto"] {
        let of = |more: &[&str]| {
            let solves = ["--input", &file, "--method", method, "--json"];
            run("least_squares", &[&solves, more].concat()).done()
        };
        assert_eq!(of(&[])["rank"], 2, "{method}");
        let told = of(&["--rcond", "1e-3"]);
        assert_eq!(
            (&told["rank"], &told["method"]),
            (&1.into(), &"gelsy".into())
        );
    }
}
