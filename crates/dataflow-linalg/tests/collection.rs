//! The reader, the norms, Cholesky, LU and QR against a collection of matrices with known facts.
//!
//! `DATAFLOW_DATA` names a folder that holds `matrices/`: Matrix Market files, `facts.json` with
//! what is known of each, and `awkward/` with `expected.json`. Without it nothing is checked, and
//! that is said aloud.
//!
//! # Elsewhere
//! Every kind of awkward file, written for the purpose: the tests of `matrix/market`.

use dataflow_core::port::{Heap, Inline};
use dataflow_linalg::LinalgError;
use dataflow_linalg::cholesky;
use dataflow_linalg::determinant::Determinant;
use dataflow_linalg::kernel::{Backend, Op};
use dataflow_linalg::lu::{self, Pivots};
use dataflow_linalg::matrix::market::{Counts, Header, ReadError, Reader, physical_memory};
use dataflow_linalg::matrix::norm::{Norm, norm};
use dataflow_linalg::matrix::{Format, Layout, TiledMatrix};
use dataflow_linalg::qr::{self, Options, Tree};
use dataflow_linalg::scalar::{Scalar, c32, c64};
use serde_json::Value;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The facts checked here.
const CHECKED: [&str; 15] = [
    "rows",
    "cols",
    "field",
    "symmetry",
    "stored_entries",
    "stored_explicit_zeros",
    "duplicates",
    "stored_above_diagonal",
    "entries_expanded",
    "nonzeros",
    "norm1",
    "norm_inf",
    "norm_fro",
    "norm_max",
    "sum_of_entries",
];

/// The facts that the Cholesky factorisation is checked with.
const OF_CHOLESKY: [&str; 3] = ["potrf_info", "potrf_info_f32", "log_det"];

/// The facts that the LU factorisation with partial pivoting is checked with.
const OF_LU: [&str; 6] = [
    "getrf_info",
    "cond1",
    "log_abs_det",
    "det_phase",
    "solve_ones_sum",
    "solve_ones_norm2",
];

/// What says where a file comes from, not what its matrix is like.
const NOT_FACTS: [&str; 10] = [
    "file",
    "name",
    "kind",
    "collection",
    "repository",
    "commit",
    "path",
    "converted_from",
    "bytes",
    "sha256",
];

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
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

struct Read {
    header: Header,
    counts: Counts,
    matrix: TiledMatrix<c64>,
}

fn read(path: &Path, nb: usize) -> Result<Read, ReadError> {
    let mut reader = Reader::open(path)?;
    let header = *reader.header();
    let layout = Layout::general(header.rows, header.cols, nb).unwrap();
    let matrix = reader.read_tiled(layout, Arc::new(Heap), physical_memory())?;
    Ok(Read {
        header,
        counts: *reader.counts(),
        matrix,
    })
}

#[test]
fn every_fact_of_the_collection_that_concerns_reading_holds() {
    let Some(folder) = matrices() else { return };
    let facts = json(folder.join("facts.json"));
    assert!(!facts.is_empty());
    let mut skipped = BTreeSet::new();
    let mut n_checked = 0;
    for fact in &facts {
        let file = fact["file"].as_str().unwrap();
        let read = read(&folder.join(file), 96).unwrap();
        for (key, expected) in fact.as_object().unwrap() {
            if CHECKED.contains(&key.as_str()) {
                check_fact(file, key, expected, &read);
                n_checked += 1;
            } else if OF_CHOLESKY.contains(&key.as_str()) {
                check_cholesky(&folder.join(file), key, expected, fact);
                n_checked += 1;
            } else if ![&NOT_FACTS[..], &OF_LU].concat().contains(&key.as_str()) {
                skipped.insert(key);
            }
        }
        check_lower_layout(&folder.join(file), &read);
    }
    println!("checked: {n_checked} facts of {} files", facts.len());
    println!("skipped, not computed here: {skipped:?}");
}

fn check_fact(file: &str, key: &str, expected: &Value, read: &Read) {
    let Read {
        header,
        counts,
        matrix,
    } = read;
    let norm = |which| norm(matrix, which, &Inline).unwrap();
    match key {
        "rows" => assert_eq!(header.rows, expected.as_u64().unwrap() as usize, "{file}"),
        "cols" => assert_eq!(header.cols, expected.as_u64().unwrap() as usize, "{file}"),
        "field" => assert_eq!(
            Some(&*header.field.to_string()),
            expected.as_str(),
            "{file}"
        ),
        "symmetry" => {
            assert_eq!(
                Some(&*header.symmetry.to_string()),
                expected.as_str(),
                "{file}"
            );
        }
        "stored_entries" => assert_eq!(Some(counts.stored), expected.as_u64(), "{file}"),
        "stored_explicit_zeros" => {
            assert_eq!(Some(counts.explicit_zeros), expected.as_u64(), "{file}");
        }
        "duplicates" => assert_eq!(Some(counts.duplicates), expected.as_u64(), "{file}"),
        "stored_above_diagonal" => {
            assert_eq!(Some(counts.above_diagonal), expected.as_u64(), "{file}");
        }
        "entries_expanded" => assert_eq!(Some(counts.expanded), expected.as_u64(), "{file}"),
        "nonzeros" => {
            let entries = matrix.to_column_major().unwrap();
            let zero = c64::zero();
            let nonzeros = entries.iter().filter(|entry| **entry != zero).count();
            assert_eq!(Some(nonzeros as u64), expected.as_u64(), "{file}");
        }
        "norm1" => close(file, key, norm(Norm::One), expected),
        "norm_inf" => close(file, key, norm(Norm::Infinity), expected),
        "norm_fro" => close(file, key, norm(Norm::Frobenius), expected),
        "norm_max" => close(file, key, norm(Norm::Max), expected),
        "sum_of_entries" => check_sum(file, expected, matrix),
        _ => unreachable!("{key} is not checked"),
    }
}

/// INFO and log det are the same for every tile order.
fn check_cholesky(path: &Path, key: &str, expected: &Value, fact: &Value) {
    let is_complex = fact["field"] == "complex";
    for nb in [60, 96, 288, usize::MAX] {
        let factored = match (key == "potrf_info_f32", is_complex) {
            (true, false) => factored::<f32>(path, nb),
            (true, true) => factored::<c32>(path, nb),
            (false, false) => factored::<f64>(path, nb),
            (false, true) => factored::<c64>(path, nb),
        };
        let case = format!("{}, nb = {nb}: {key}", path.display());
        match (key, factored) {
            ("log_det", Ok((determinant, condition))) => {
                expect_condition(&case, condition, &fact["cond1"]);
                let log_det = determinant.log_abs;
                let expected = expected.as_f64().unwrap();
                let n = fact["rows"].as_f64().unwrap();
                let certain = 10.0 * n * f64::EPSILON * fact["cond2"].as_f64().unwrap();
                let difference = (log_det - expected).abs();
                let bound = certain.min(1e-9);
                assert!(difference < bound, "{case} is off by {difference:e}");
            }
            ("log_det", Err(error)) => panic!("{case}: {error}"),
            (_, Ok(_)) => assert_eq!(expected.as_u64(), Some(0), "{case}"),
            (_, Err(error)) => assert_eq!(error.index(), expected.as_u64(), "{case}: {error}"),
        }
    }
}

/// An estimate is a lower bound, up to the rounding errors of what it is estimated from.
fn expect_condition(case: &str, found: f64, expected: &Value) {
    let expected = expected.as_f64().unwrap();
    let ratio = expected / found;
    let least = 1.0 - 10.0 * f64::EPSILON * expected;
    assert!(
        (least..3.0).contains(&ratio),
        "{case}: condition is {found:e}, expected {expected:e}"
    );
}

/// det A and the condition of the matrix in a file, by its factor.
fn factored<T: Scalar>(path: &Path, nb: usize) -> Result<(Determinant, f64), LinalgError> {
    let mut reader = Reader::open(path).unwrap();
    let layout = Layout::lower(reader.header().rows, nb).unwrap();
    let layout = layout.with_format(Format::sub_tiled::<T>());
    let a = reader.read_tiled::<T>(layout, Arc::new(Heap), physical_memory());
    let a = a.unwrap();
    let norm = norm(&a, Norm::One, &Inline).unwrap();
    cholesky::factor(&a, Backend::Auto, &Inline)?;
    let condition = cholesky::condition(&a, norm, Backend::Auto, &Inline)?;
    Ok((cholesky::determinant(&a).unwrap(), condition))
}

fn close(file: &str, key: &str, found: f64, expected: &Value) {
    let expected = expected.as_f64().unwrap();
    // The facts are rounded once; a norm's own rounding errors grow with the root of the order.
    let bound = 1e-13 * expected.abs();
    let difference = (found - expected).abs();
    assert!(
        difference <= bound,
        "{file}: {key} is {found}, expected {expected}"
    );
}

/// The facts' sums are exact, rounded once; ours are compensated.
fn check_sum(file: &str, expected: &Value, matrix: &TiledMatrix<c64>) {
    let expected = match expected.as_array() {
        Some(parts) => [parts[0].as_f64().unwrap(), parts[1].as_f64().unwrap()],
        None => [expected.as_f64().unwrap(), 0.0],
    };
    let entries = matrix.to_column_major().unwrap();
    let parts: [Vec<f64>; 2] = [
        entries.iter().map(|entry| entry.re).collect(),
        entries.iter().map(|entry| entry.im).collect(),
    ];
    for (terms, expected) in parts.iter().zip(expected) {
        let found = sum(terms.iter().copied());
        // ε for the rounding of each, and the second order of what was summed.
        let sizes: f64 = terms.iter().map(|term| term.abs()).sum();
        let second_order = terms.len() as f64 * f64::EPSILON * f64::EPSILON * sizes;
        let bound = 2.0 * f64::EPSILON * expected.abs() + second_order;
        let difference = (found - expected).abs();
        assert!(
            difference <= bound,
            "{file}: sum is {found}, expected {expected}"
        );
    }
}

/// Neumaier's compensated sum.
fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for term in terms {
        let next = sum + term;
        lost += match sum.abs() >= term.abs() {
            true => (sum - next) + term,
            false => (term - next) + sum,
        };
        sum = next;
    }
    sum + lost
}

/// The same file through a lower layout has the same lower triangle, in tiles of another order.
fn check_lower_layout(path: &Path, whole: &Read) {
    if whole.header.rows != whole.header.cols {
        return;
    }
    let n = whole.header.rows;
    let mut reader = Reader::open(path).unwrap();
    let layout = Layout::lower(n, 64).unwrap();
    let lower = reader.read_tiled::<c64>(layout, Arc::new(Heap), physical_memory());
    let lower = lower.unwrap().to_column_major().unwrap();
    let whole = whole.matrix.to_column_major().unwrap();
    for col in 0..n {
        for row in 0..n {
            let expected = if row >= col {
                whole[row + col * n]
            } else {
                c64::zero()
            };
            assert_eq!(lower[row + col * n], expected, "{}", path.display());
        }
    }
}

#[test]
fn every_awkward_file_has_its_outcome() {
    let Some(folder) = matrices() else { return };
    let folder = folder.join("awkward");
    let cases = json(folder.join("expected.json"));
    assert!(!cases.is_empty());
    for case in &cases {
        let file = case["file"].as_str().unwrap();
        let outcome = read(&folder.join(file), 2);
        match (case["outcome"].as_str(), outcome) {
            (Some("accept"), Ok(read)) => check_rows(file, &case["rows"], &read.matrix),
            (Some("reject"), Err(error)) => check_reason(file, &case["reason"], &error),
            (outcome, Ok(_)) => panic!("{file} was accepted, expected {outcome:?}"),
            (outcome, Err(error)) => panic!("{error}, expected {outcome:?}"),
        }
    }
    println!("checked: {} awkward files", cases.len());
}

fn check_rows(file: &str, expected: &Value, matrix: &TiledMatrix<c64>) {
    let rows = expected.as_array().unwrap();
    assert_eq!(rows.len(), matrix.rows(), "{file}");
    for (i, row) in rows.iter().enumerate() {
        let row = row.as_array().unwrap();
        assert_eq!(row.len(), matrix.cols(), "{file}");
        for (j, entry) in row.iter().enumerate() {
            let expected = number(entry);
            let found = matrix.get(i, j).unwrap();
            assert_eq!(found.re.bits(), expected.re.bits(), "{file}: ({i}, {j})");
            assert_eq!(found.im, expected.im, "{file}: ({i}, {j})");
        }
    }
}

/// A number, "NaN", a complex number like "1-2i", or its two parts.
fn number(entry: &Value) -> c64 {
    match entry {
        Value::String(text) => text.parse().unwrap(),
        Value::Array(parts) => c64::new(parts[0].as_f64().unwrap(), parts[1].as_f64().unwrap()),
        real => c64::new(real.as_f64().unwrap(), 0.0),
    }
}

/// File and line are those of the expectation; the words of the reason are our own.
fn check_reason(file: &str, expected: &Value, error: &ReadError) {
    let expected = expected.as_str().unwrap();
    assert!(error.file().ends_with(file), "{error}");
    if let Some(rest) = expected.strip_prefix("line ") {
        let line = rest.split(':').next().unwrap().parse().unwrap();
        assert_eq!(error.line(), Some(line), "{error}, expected {expected}");
    }
    println!("{error}   [{expected}]");
}

/// Factors a matrix and solves for a right-hand side of ones; counts the facts that hold.
///
/// - `groups`: of a tournament; none takes partial pivoting
fn check_lu<T: Scalar>(folder: &Path, fact: &Value, groups: Option<NonZeroU32>) -> usize {
    let file = fact["file"].as_str().unwrap();
    let mut reader = Reader::open(folder.join(file)).unwrap();
    let (rows, cols) = (reader.header().rows, reader.header().cols);
    let layout = Layout::general(rows, cols, 96).unwrap();
    let a: TiledMatrix<T> = reader
        .read_tiled(layout, Arc::new(Heap), physical_memory())
        .unwrap();
    let (pivots, norm) = (Pivots::new(&a), norm(&a, Norm::One, &Inline).unwrap());
    let factored = match groups {
        None => lu::factor(&a, &pivots, Backend::Auto, &Inline),
        Some(n) => lu::factor_by_tournament(&a, &pivots, n, Backend::Auto, &Inline),
    };
    let info = match factored {
        Ok(_) => 0,
        Err(LinalgError::Singular { index, .. }) => index,
        Err(error) => panic!("{file}: {error}"),
    };
    assert_eq!(fact["getrf_info"].as_u64(), Some(info), "{file}");
    let Some(condition) = fact["cond1"].as_f64().filter(|_| info == 0) else {
        return 1;
    };
    let estimate = lu::condition(&a, &pivots, norm, Backend::Auto, &Inline).unwrap();
    expect_condition(file, estimate, &fact["cond1"]);
    let Determinant { log_abs, phase, .. } = lu::determinant(&a, &pivots).unwrap();
    let x = TiledMatrix::from_fn(Layout::general(rows, 1, 96).unwrap(), |_, _| T::one());
    lu::solve(&a, &pivots, Op::NoTranspose, &x, Backend::Auto, &Inline).unwrap();
    let x = x.to_column_major().unwrap();
    let sum = x.iter().map(|x| c64::new(x.re(), x.im())).sum::<c64>();
    let norm = x.iter().map(|x| x.modulus().powi(2)).sum::<f64>().sqrt();
    // What backward stability promises.
    let allowed = 1e-12 + 10.0 * condition * f64::EPSILON;
    let mut n_checked = 2;
    for (key, found, scale) in [
        ("log_abs_det", c64::new(log_abs, 0.0), 1.0 + log_abs.abs()),
        ("det_phase", phase, 1.0),
        ("solve_ones_sum", sum, norm * (rows as f64).sqrt()),
        ("solve_ones_norm2", c64::new(norm, 0.0), norm),
    ] {
        if let Some(expected) = fact.get(key).map(number) {
            let error = (found - expected).norm() / scale;
            assert!(error < allowed, "{file}: {key} is {found}, not {expected}");
            n_checked += 1;
        }
    }
    n_checked
}

#[test]
fn every_fact_of_the_collection_that_concerns_lu_holds() {
    let Some(folder) = matrices() else { return };
    let mut n_checked = 0;
    for fact in json(folder.join("facts.json")) {
        if fact["getrf_info"].is_u64() {
            for groups in [None, NonZeroU32::new(3)] {
                n_checked += match fact["field"].as_str() {
                    Some("complex") => check_lu::<c64>(&folder, &fact, groups),
                    _ => check_lu::<f64>(&folder, &fact, groups),
                };
            }
        }
    }
    println!("checked: {n_checked} facts");
    assert!(n_checked > 40);
}

/// The facts that QR gives: log |det R| of a matrix of full rank, and norms of least squares with
/// right-hand sides of ones and of a ramp.
#[test]
fn every_fact_of_the_collection_that_qr_gives_holds() {
    let Some(folder) = matrices() else { return };
    let mut n_checked = 0;
    for fact in &json(folder.join("facts.json")) {
        let file = fact["file"].as_str().unwrap();
        let known = fact["cond2"]
            .as_f64()
            .filter(|_| fact["rank_is_clear"] == true);
        let Some(condition) = known else {
            println!("left out: {file}, whose rank is not clear or not full");
            continue;
        };
        let read = read(&folder.join(file), 96).unwrap();
        let check = match fact["field"] == "complex" {
            true => check_qr::<c64>,
            false => check_qr::<f64>,
        };
        n_checked += check(file, &read.matrix, fact, condition);
    }
    println!("checked: {n_checked} facts");
}

/// How many facts of a file were there to be checked.
fn check_qr<T: Scalar>(file: &str, read: &TiledMatrix<c64>, fact: &Value, condition: f64) -> usize {
    let (m, n, nb) = (read.rows(), read.cols(), 60);
    let entry = |i: usize, j: usize| {
        let x = read.get(i, j).unwrap();
        T::from_parts(x.re, x.im)
    };
    let turned = |i: usize, j: usize| entry(j, i).conj();
    let options = Options::of_order(nb).with_tree(Tree::Greedy);
    let layout = |rows, cols| Layout::general(rows, cols, nb).unwrap();
    let mut n_checked = 0;
    if let Some(expected) = fact["sum_log_sigma"].as_f64() {
        // A wide matrix has the singular values of its adjoint.
        let a = match m >= n {
            true => TiledMatrix::from_fn(layout(m, n), entry),
            false => TiledMatrix::from_fn(layout(n, m), turned),
        };
        qr::factor(&a, options, Backend::Auto, &Inline).unwrap();
        let diagonal = (0..m.min(n)).map(|i| a.get(i, i).unwrap().re().abs());
        let difference = (sum(diagonal.map(f64::ln)) - expected).abs();
        let bound = 10.0 * m.max(n) as f64 * f64::EPSILON * condition;
        let bound = bound.max(1e-13 * expected.abs());
        assert!(
            difference < bound,
            "{file}: log |det R| is off by {difference:e}"
        );
        n_checked += 1;
    }
    for (key, of_row) in [
        ("lstsq_ones", (|_, _| 1.0) as fn(f64, f64) -> f64),
        ("lstsq_ramp", |i, m| (i + 1.0) / m),
    ] {
        let expected = &fact[key];
        if expected.is_null() {
            continue;
        }
        let a = TiledMatrix::from_fn(layout(m, n), entry);
        let side = |i: usize, _: usize| T::from_real(of_row(i as f64, m as f64));
        let b = TiledMatrix::from_fn(layout(m, 1), side);
        let (x, _) = qr::least_squares(&a, &b, options, Backend::Auto, &Inline).unwrap();
        let rest = TiledMatrix::from_fn(layout(m, 1), |i, j| {
            (0..n).fold(side(i, j), |rest, k| {
                rest - entry(i, k) * x.get(k, 0).unwrap()
            })
        });
        for (name, found) in [
            (
                "residual_norm",
                norm(&rest, Norm::Frobenius, &Inline).unwrap(),
            ),
            (
                "min_norm_solution_norm",
                norm(&x, Norm::Frobenius, &Inline).unwrap(),
            ),
        ] {
            let expected = expected[name].as_f64().unwrap();
            let bound = 10.0 * m.max(n) as f64 * f64::EPSILON * condition * expected.max(1.0);
            let difference = (found - expected).abs();
            assert!(
                difference < bound,
                "{file}: {key}, {name} is {found}, expected {expected}"
            );
            n_checked += 1;
        }
    }
    n_checked
}
