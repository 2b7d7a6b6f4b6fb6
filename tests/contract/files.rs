//! `cholesky --input`: files that are refused, and those of the collection.

use crate::ended::*;
use dataflow::linalg::scalar::{Scalar, c64};
use serde_json::Value;

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

/// It was told as any other: that the residual is small, of a factorisation of another matrix.
#[test]
fn a_general_matrix_that_is_factored_by_its_lower_triangle_is_told_so() {
    let file = |name: &str, symmetry: &str, entries: &str| {
        let banner = "%%MatrixMarket matrix coordinate real";
        written(name, &format!("{banner} {symmetry}\n{entries}"))
    };
    let general = file(
        "uneven.mtx",
        "general",
        "2 2 4\n1 1 4\n2 1 2\n1 2 1\n2 2 10\n",
    );
    let symmetric = file("even.mtx", "symmetric", "2 2 3\n1 1 4\n2 1 2\n2 2 10\n");
    for (file, is_told) in [(general, true), (symmetric, false)] {
        let page = run("cholesky", &["--input", &file]).stdout;
        let told = page.contains("this general matrix has above its diagonal was left out");
        assert_eq!(told, is_told, "{file}: {page}");
    }
}

/// The shape alone was told, as if it had been asked for by a flag.
#[test]
fn a_shape_that_an_example_has_no_use_for_is_told_with_its_file() {
    let shaped = |name: &str, shape: String| {
        let banner = "%%MatrixMarket matrix coordinate real general";
        written(name, &format!("{banner}\n{shape} 1\n1 1 4\n"))
    };
    let endless = shaped("endless.mtx", format!("{0} {0}", usize::MAX));
    let wide = shaped("wide.mtx", "2 3".into());
    let tall = shaped("tall_side.mtx", "3 1".into());
    let one = shaped("one.mtx", "1 1".into());
    for (example, flags, file) in [
        ("cholesky", &["--input", &*endless][..], &endless),
        ("lu", &["--input", &endless], &endless),
        ("qr", &["--input", &endless], &endless),
        ("solve", &["--input", &endless], &endless),
        ("least_squares", &["--input", &endless], &endless),
        ("inverse", &["--input", &endless], &endless),
        ("cholesky", &["--input", &wide], &wide),
        ("inverse", &["--input", &wide], &wide),
        ("solve", &["--input", &wide, "--method", "lu"], &wide),
        ("solve", &["--input", &one, "--rhs", &tall], &tall),
    ] {
        let ended = run(example, &[flags, &["--json"]].concat());
        assert_eq!(ended.object()["error"]["kind"], "wrong_shape", "{example}");
        let line = ended.error_line();
        let begins = line.starts_with(&format!("{file}: "));
        let once = line.matches(&**file).count() == 1;
        assert!(begins && once, "{example}: {line}");
    }
}

/// Four examples had four words for it.
#[test]
fn what_cannot_be_written_has_one_name() {
    for (example, flags) in [
        ("solve", &["--n", "5", "--output"][..]),
        ("ping_pong", &["--largest", "8", "--repeat", "1", "--svg"]),
        (
            "blackscholes",
            &["--options", "10", "--repeats", "1", "--output"],
        ),
        ("topology", &["--svg"]),
        ("jacobi3d", &["--n", "5", "--svg"]),
        (
            "shallow_water",
            &["--nodes", "162", "--steps", "1", "--svg"],
        ),
        ("cholesky", &["--n", "5", "--trace"]),
        ("cholesky", &["--n", "5", "--dot"]),
    ] {
        let ended = run(
            example,
            &[flags, &["no/such/folder/a.json", "--json"]].concat(),
        );
        let object = ended.object();
        assert_eq!(object["error"]["kind"], "output_unwritable", "{example}");
        assert!(ended.error_line().contains("no/such/folder"), "{example}");
        // It was told after the whole run.
        assert!(object["tasks"].is_null(), "{example}: {object}");
    }
}

/// It was the file alone that was told of.
#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_written_hides_no_verdict() {
    let flags = ["--n", "3", "--iterations", "200", "--check", "--json"];
    let ended = run("jacobi3d", &[&flags[..], &["--svg", "/dev/full"]].concat());
    let object = ended.object();
    assert_eq!(object["error"]["kind"], "not_verified", "{object}");
    assert!(ended.error_line().contains("then /dev/full: "), "{object}");
}

/// The file that a link leads to was not there yet, so the name of the link was another file.
#[test]
#[cfg(unix)]
fn a_link_to_a_file_that_is_not_there_yet_is_that_file() {
    let beside = written("beside.svg", "");
    let folder = std::path::Path::new(&beside).parent().unwrap();
    let [file, link, onward] = ["linked.svg", "link.svg", "onward.svg"].map(|name| {
        let path = folder.join(name);
        let _absent = std::fs::remove_file(&path);
        path
    });
    std::os::unix::fs::symlink("linked.svg", &link).unwrap();
    std::os::unix::fs::symlink(&link, &onward).unwrap();
    for (trace, dot) in [(&file, &link), (&onward, &file), (&link, &onward)] {
        let [trace, dot] = [trace, dot].map(|path| path.to_str().unwrap());
        let told = run("cholesky", &["--n", "5", "--trace", trace, "--dot", dot]);
        let told = told.is_a_bad_argument();
        assert!(told.contains("a file of its own"), "{told}");
    }
    let circle = folder.join("circle.svg");
    let _absent = std::fs::remove_file(&circle);
    std::os::unix::fs::symlink("circle.svg", &circle).unwrap();
    let flags = ["--n", "5", "--trace", circle.to_str().unwrap(), "--json"];
    let told = run("cholesky", &flags).object();
    assert_eq!(told["error"]["kind"], "output_unwritable", "{told}");
}

/// What is tried before the run stays as it was.
#[test]
fn a_file_that_is_not_written_after_all_stays_as_it_was() {
    let there = written("there.svg", "there");
    let folder = std::path::Path::new(&there).parent().unwrap();
    let not_there = folder.join("not_there.svg");
    for path in [&*there, not_there.to_str().unwrap()] {
        // Sweeps do not converge, so there is no picture.
        let flags = ["--n", "5", "--until", "1e-300", "--limit", "25", "--svg"];
        assert_eq!(run("jacobi3d", &[&flags[..], &[path]].concat()).status, 1);
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "there");
    assert!(!not_there.exists());
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

/// Whether the file holds half of a matrix that is not its own adjoint, whatever its entries are.
fn is_half_of_another(file: &std::path::Path) -> bool {
    let text = std::fs::read(file).unwrap();
    let banner = String::from_utf8_lossy(text.split(|byte| *byte == b'\n').next().unwrap());
    let words = banner.to_lowercase();
    let words: Vec<&str> = words.split_whitespace().collect();
    words.contains(&"skew-symmetric") || words.ends_with(&["complex", "symmetric"])
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
                // Of which matrix half is there is told before the entries are read.
                let refused = kind == Some("wrong_shape") && is_half_of_another(&file);
                assert!(
                    refused || matches!(kind, Some("malformed_input" | "does_not_fit")),
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
                let expected = match is_half_of_another(&file) {
                    true => Some(("wrong_shape", None)),
                    false => expected_of(&rows),
                };
                assert_eq!(found, expected, "{name}: {object}");
                assert_eq!(status, i32::from(kind.is_some()));
            }
        }
    }
    println!("checked: {} awkward files", cases.len());
}

/// Editors of Windows put one before everything else; the first line was blamed.
#[test]
fn a_byte_order_mark_is_no_part_of_a_file() {
    let options = "\u{feff}1\n42 40 0.1 0 0.2 0.5 C 0 4.759423036851750\n";
    let nodes = "\u{feff}1 0 0\n";
    let sequences = "\u{feff}>one\nAC\n>two\nAG\n";
    let costs = "\u{feff}{ \"kernels\": [{ \"gflops\": 8 }] }";
    for (example, flags) in [
        (
            "blackscholes",
            &["--input", &written("mark.txt", options)][..],
        ),
        (
            "alignment",
            &["--input", &written("mark.fasta", sequences)][..],
        ),
        (
            "cholesky",
            &[
                "--n",
                "9",
                "--simulate",
                "time",
                "--costs",
                &written("mark.json", costs),
            ][..],
        ),
    ] {
        let ended = run(example, flags);
        assert_eq!(ended.status, 0, "{example}: {}", ended.stderr);
    }
    // One node is too few; it is read, though.
    let ended = run("shallow_water", &["--input", &written("mark.nodes", nodes)]);
    assert!(!ended.stderr.contains("line 1"), "{}", ended.stderr);
}

/// The result took the place of the matrix, and the run ended well.
#[test]
fn no_output_replaces_what_is_read() {
    let text = "%%MatrixMarket matrix array real general\n1 1\n2\n";
    let file = std::env::temp_dir().join(format!("kept-{}.mtx", std::process::id()));
    let name = file.to_str().unwrap();
    for of in [
        &["solve", "--input", name, "--output", name][..],
        &["solve", "--rhs", name, "--output", name],
        &["lu", "--input", name, "--dot", name],
        &["lu", "--rank", "0", "--hosts", name, "--dot", name],
        &["topology", "--input", name, "--svg", name],
        &["alignment", "--input", name, "--dot", name],
        &["blackscholes", "--input", name, "--output", name],
        &["shallow_water", "--input", name, "--svg", name],
    ] {
        std::fs::write(&file, text).unwrap();
        let ended = run(of[0], &of[1..]);
        let line = ended.is_a_bad_argument();
        let (kept, asked) = (of[of.len() - 4], of[of.len() - 2]);
        assert!(
            line.contains(kept) && line.contains(asked),
            "{of:?}: {line}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "{of:?}");
    }
    // Two that only read may share a file.
    let shared = run("solve", &["--input", name, "--rhs", name, "--json"]);
    assert_eq!(shared.object()["error"], serde_json::Value::Null);
    std::fs::remove_file(&file).unwrap();
}
