//! What the reader accepts, what it refuses and in which words.

use super::*;
use crate::scalar::c32;
use dataflow_core::port::Heap;

/// The whole matrix, row by row, through tiles of order 2; as an array it is the same.
fn rows<T: Scalar>(text: &[u8]) -> Result<Vec<Vec<T>>, ReadError> {
    let mut reader = Reader::new("a.mtx", text)?;
    let Header { rows, cols, .. } = *reader.header();
    let layout = Layout::general(rows, cols, 2).unwrap();
    let array = Reader::new("a.mtx", text)?.read_ndarray::<T>();
    let a = reader
        .read_tiled::<T>(layout, Arc::new(Heap), 1 << 30)
        .inspect_err(|error| {
            assert_eq!(array.as_ref().unwrap_err().to_string(), error.to_string())
        })?;
    let row = |i| (0..cols).map(|j| a.get(i, j).unwrap()).collect();
    let found: Vec<Vec<T>> = (0..rows).map(row).collect();
    let array: Vec<_> = array?.outer_iter().map(|row| row.to_vec()).collect();
    assert_eq!(format!("{array:?}"), format!("{found:?}"));
    Ok(found)
}

/// Banner words after `matrix`, then the other lines.
fn file(words: &str, lines: &[&str]) -> Vec<u8> {
    format!("%%MatrixMarket matrix {words}\n{}\n", lines.join("\n")).into_bytes()
}

fn accepts(text: &[u8], expected: &[&[f64]]) {
    let shown = String::from_utf8_lossy(text).into_owned();
    let found = rows::<f64>(text).unwrap_or_else(|error| panic!("{shown}{error}"));
    let bits = |rows: &[f64]| rows.iter().map(|x| x.bits()).collect::<Vec<_>>();
    assert_eq!(found.len(), expected.len(), "{shown}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(bits(found), bits(expected), "{shown}{found:?}");
    }
}

fn accepts_complex(text: &[u8], expected: &[&[(f64, f64)]]) {
    let found = rows::<c64>(text).unwrap();
    let number = |(re, im): &(f64, f64)| c64::new(*re, *im);
    let expected: Vec<Vec<_>> = expected
        .iter()
        .map(|row| row.iter().map(number).collect())
        .collect();
    assert_eq!(found, expected);
}

fn refusal(text: &[u8]) -> String {
    match rows::<c64>(text) {
        Ok(found) => panic!("accepted {found:?} from\n{}", String::from_utf8_lossy(text)),
        Err(error) => error.to_string(),
    }
}

fn refuses(text: &[u8], expected: &str) {
    let found = refusal(text);
    let (name, reason) = found.split_once(": ").unwrap();
    assert_eq!(name, "a.mtx");
    assert!(
        reason.contains(expected),
        "{}\n{reason}\nshould say\n{expected}",
        String::from_utf8_lossy(text)
    );
}

#[test]
fn arrays_run_down_their_columns() {
    accepts(
        &file("array real general", &["2 3", "1", "2", "3", "4", "5", "6"]),
        &[&[1.0, 3.0, 5.0], &[2.0, 4.0, 6.0]],
    );
    accepts(
        &file("array integer symmetric", &["2 2", "7", "-8", "9"]),
        &[&[7.0, -8.0], &[-8.0, 9.0]],
    );
    accepts(
        &file("array real skew-symmetric", &["3 3", "1", "2", "3"]),
        &[&[0.0, -1.0, -2.0], &[1.0, 0.0, -3.0], &[2.0, 3.0, 0.0]],
    );
    accepts_complex(
        &file("array complex hermitian", &["2 2", "1 0", "2 3", "4 0"]),
        &[&[(1.0, 0.0), (2.0, -3.0)], &[(2.0, 3.0), (4.0, 0.0)]],
    );
    accepts_complex(
        &file("array complex general", &["1 2", "0 -1", "2.5 0"]),
        &[&[(0.0, -1.0), (2.5, 0.0)]],
    );
}

#[test]
fn each_symmetry_mirrors_in_its_way_from_either_triangle() {
    accepts(
        &file(
            "coordinate real symmetric",
            &["3 3 3", "3 1 4", "1 2 5", "3 3 6"],
        ),
        &[&[0.0, 5.0, 4.0], &[5.0, 0.0, 0.0], &[4.0, 0.0, 6.0]],
    );
    accepts(
        &file("coordinate real skew-symmetric", &["2 2 1", "1 2 7"]),
        &[&[0.0, 7.0], &[-7.0, 0.0]],
    );
    accepts(
        &file("coordinate pattern symmetric", &["2 2 2", "2 1", "2 2"]),
        &[&[0.0, 1.0], &[1.0, 1.0]],
    );
    accepts_complex(
        &file(
            "coordinate complex hermitian",
            &["2 2 2", "1 2 3 4", "1 1 5 0"],
        ),
        &[&[(5.0, 0.0), (3.0, 4.0)], &[(3.0, -4.0), (0.0, 0.0)]],
    );
    accepts_complex(
        &file("coordinate complex symmetric", &["2 2 1", "2 1 3 4"]),
        &[&[(0.0, 0.0), (3.0, 4.0)], &[(3.0, 4.0), (0.0, 0.0)]],
    );
}

#[test]
fn white_space_comments_and_case_are_free() {
    let text = "%%MatrixMarket  MATRIX\tCoordinate REAL General \r\n\r\n% one\r\n   % two\r\n\
                \t2 1\x0b 2 \r\n%\r\n\r\n 2\t1 -3.5\r\n%%\r\n1 1 1e1 \r\n  \r\n%end";
    accepts(text.as_bytes(), &[&[10.0], &[-3.5]]);
    let text = b"\xef\xbb\xbf%%MatrixMarket matrix array real general\n%\xe9\xff\n1 1\n-0";
    accepts(text, &[&[-0.0]]);
}

#[test]
fn numbers_are_read_in_every_usual_form_and_rounded_once() {
    accepts(
        &file(
            "array real general",
            &[
                "1 8", "+2", ".25", "7.", "1E+2", "-5e-1", "1e-999", "0.1", "-1e-400",
            ],
        ),
        &[&[2.0, 0.25, 7.0, 100.0, -0.5, 0.0, 0.1, -0.0]],
    );
    accepts(
        &file(
            "array integer general",
            &["1 3", "-7", "+9007199254740992", "0007"],
        ),
        &[&[-7.0, 9007199254740992.0, 7.0]],
    );
}

#[test]
fn nan_and_inf_spelled_out_are_values() {
    accepts(
        &file(
            "array real general",
            &["1 4", "NaN", "inf", "-Infinity", "nan"],
        ),
        &[&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]],
    );
}

#[test]
fn entries_at_one_position_of_a_general_matrix_are_summed() {
    accepts(
        &file(
            "coordinate real general",
            &["1 2 4", "1 1 1", "1 1 2", "1 2 5", "1 1 4"],
        ),
        &[&[7.0, 5.0]],
    );
    accepts(
        &file("coordinate pattern general", &["1 1 2", "1 1", "1 1"]),
        &[&[2.0]],
    );
    accepts(
        &file("coordinate real general", &["1 1 1", "1 1 -0"]),
        &[&[-0.0]],
    );
}

/// Each value was looked at, and their sum became infinite.
#[test]
fn a_sum_of_values_that_overflows_is_refused_and_one_with_infinities_is_not() {
    let text = |values: [&str; 2]| {
        let lines = values.map(|value| format!("1 1 {value}"));
        file("coordinate real general", &["1 1 2", &lines[0], &lines[1]])
    };
    let large = text(["1e308", "1e308"]);
    refuses(&large, "line 4: 1e308 + 1e308 is out of range");
    let narrow = rows::<f32>(&text(["-3e38", "-3e38"])).unwrap_err();
    assert!(
        narrow.to_string().ends_with("is out of range of f32"),
        "{narrow}"
    );
    accepts(&text(["1e308", "-1e308"]), &[&[0.0]]);
    accepts(&text(["inf", "1e308"]), &[&[f64::INFINITY]]);
    let none = rows::<f64>(&text(["inf", "-inf"])).unwrap();
    assert!(none[0][0].is_nan());
}

#[test]
fn matrices_without_rows_columns_or_entries_are_read() {
    for sizes in ["0 0 0", "0 5 0"] {
        accepts(&file("coordinate real general", &[sizes]), &[]);
    }
    accepts(&file("coordinate real general", &["2 0 0"]), &[&[], &[]]);
    accepts(&file("array real symmetric", &["0 0"]), &[]);
    accepts(&file("array real skew-symmetric", &["1 1"]), &[&[0.0]]);
    accepts(&file("coordinate real general", &["1 2 0"]), &[&[0.0, 0.0]]);
}

#[test]
fn a_first_line_that_is_no_banner_is_refused() {
    assert_eq!(
        refusal(b""),
        "a.mtx: file is empty (must begin with %%MatrixMarket)"
    );
    for text in [
        &b"\n%%MatrixMarket matrix array real general\n1 1\n1"[..],
        b"2 2 0\n",
        b"\n",
    ] {
        refuses(text, "line 1: first line is not a banner");
    }
    refuses(
        b"%%matrixmarket matrix array real general\n0 0\n",
        "not a banner",
    );
    refuses(
        b"%%MatrixMarket matrix array real\n0 0\n",
        "banner has 4 words (must be five",
    );
    refuses(
        b"%%MatrixMarket matrix array real general x\n0 0\n",
        "banner has 6 words",
    );
    refuses(
        b"%%MatrixMarket vector array real general\n0 0\n",
        "\"vector\" in the banner",
    );
    refuses(&file("sparse real general", &["0 0"]), "\"sparse\"");
    refuses(
        &file("array quaternion general", &["0 0"]),
        "must be real, integer, pattern",
    );
    refuses(
        &file("array real triangular", &["0 0"]),
        "must be general, symmetric, skew",
    );
}

#[test]
fn words_that_do_not_go_together_are_refused() {
    refuses(
        &file("array pattern general", &["1 1", "1"]),
        "pattern matrix in array storage",
    );
    refuses(
        &file("coordinate pattern skew-symmetric", &["1 1 0"]),
        "must be general or symm",
    );
    for field in ["real", "integer", "pattern"] {
        let words = format!("coordinate {field} hermitian");
        refuses(
            &file(&words, &["1 1 0"]),
            "hermitian matrix that is not complex",
        );
    }
    for symmetry in ["symmetric", "skew-symmetric", "hermitian"] {
        let words = format!("coordinate complex {symmetry}");
        let expected = format!("line 2: a {symmetry} matrix of 3 x 2 (must be square)");
        refuses(&file(&words, &["3 2 0"]), &expected);
    }
}

#[test]
fn sizes_that_are_none_are_refused_with_the_word() {
    let refuses_sizes = |sizes: &str, expected: &str| {
        refuses(&file("coordinate real general", &["%", sizes]), expected);
    };
    refuses_sizes("4 -2 1", "line 3: negative size -2");
    refuses_sizes(
        "4 2",
        "line 3: size line has 2 words (must be three: rows, columns, entries)",
    );
    refuses_sizes("4 2 1 1", "size line has 4 words");
    refuses_sizes("", "the size line is missing (must be ");
    refuses_sizes("4 2.0 1", "size \"2.0\" (must be a whole number");
    refuses_sizes(
        "99999999999999999999999 1 1",
        "size \"99999999999999999999999\"",
    );
    refuses(
        &file("array real general", &["1 1 1", "1"]),
        "must be two: rows, columns",
    );
}

#[test]
fn indices_outside_the_matrix_are_refused_with_line_and_range() {
    let refuses_entry = |entry: &str, expected: &str| {
        let lines = ["2 3 2", "1 1 1", entry];
        refuses(&file("coordinate real general", &lines), expected);
    };
    refuses_entry(
        "0 1 5",
        "line 4: row index 0, indices start at 1 (must be 1 to 2)",
    );
    refuses_entry(
        "3 1 5",
        "line 4: row index 3 is outside the matrix (must be 1 to 2)",
    );
    refuses_entry(
        "1 4 5",
        "line 4: column index 4 is outside the matrix (must be 1 to 3)",
    );
    refuses_entry("1 -1 5", "column index \"-1\" is not a whole number");
    refuses_entry("1.0 1 5", "row index \"1.0\" is not a whole number");
    refuses_entry(
        "99999999999999999999 1 5",
        "row index 99999999999999999999 is outside",
    );
    let text = file("coordinate real general", &["0 0 1", "1 1 1"]);
    refuses(&text, "row index 1 in a matrix without rows");
}

#[test]
fn the_number_of_entries_must_be_the_declared_one() {
    let text = file("coordinate real general", &["2 2 3", "1 1 1", "2 2 1"]);
    refuses(&text, "line 4: file ends after 2 of 3 declared entries");
    let text = file(
        "coordinate real general",
        &["2 2 1", "1 1 1", "% and", "2 2 1"],
    );
    refuses(&text, "line 5: more entries found than the 1 declared");
    refuses(
        &file("array real general", &["2 2", "1", "2", "3"]),
        "file ends after 3 of 4 declared entries",
    );
    refuses(
        &file("array real symmetric", &["2 2", "1", "2", "3", "4"]),
        "more entries found than the 3 declared",
    );
    let text = file(
        "coordinate real general",
        &["1 1 888888888888888888", "1 1 1"],
    );
    refuses(
        &text,
        "file ends after 1 of 888888888888888888 declared entries",
    );
}

#[test]
fn an_entry_that_is_cut_or_too_long_is_refused() {
    let refuses_entry = |words: &str, entry: &str, expected: &str| {
        let text = file(words, &["2 2 1", entry]);
        refuses(text.trim_ascii_end(), &format!("line 3: {expected}"));
    };
    refuses_entry("coordinate real general", "1", "column index missing");
    refuses_entry("coordinate real general", "1 2", "value missing");
    refuses_entry(
        "coordinate complex general",
        "1 2 3",
        "imaginary part missing",
    );
    refuses_entry(
        "coordinate real general",
        "1 2 3 4",
        "4 words (an entry has 3",
    );
    refuses_entry(
        "coordinate pattern general",
        "1 2 1",
        "3 words (an entry has 2",
    );
    refuses(
        &file("array real general", &["2 1", "1 2"]),
        "line 3: 2 words (an entry has 1",
    );
}

#[test]
fn values_that_are_none_are_refused_with_the_word() {
    let refuses_value = |field: &str, value: &str, expected: &str| {
        let words = format!("array {field} general");
        refuses(
            &file(&words, &["1 1", value]),
            &format!("line 3: {expected}"),
        );
    };
    for word in [
        "x", "1,5", "1.5D3", "--1", "1e", ".", "0x10", "1_0", "1e5.0", "na", "\u{b5}",
    ] {
        refuses_value("real", word, &format!("\"{word}\" is not a number"));
    }
    for (word, meant) in [("1.5D+00", "1.5E+00"), ("-2d3", "-2E3")] {
        let hint = format!("\"{word}\" is not a number: an exponent is written with E, {meant}");
        refuses_value("real", word, &hint);
    }
    refuses_value("real", "-1e309", "-1e309 is out of range of f64");
    refuses_value("complex", "0 1e999", "1e999 is out of range of f64");
    for word in ["2.5", "2.0", "1e3", "nan", "inf"] {
        refuses_value("integer", word, &format!("\"{word}\" is not an integer"));
    }
    let huge = "9".repeat(400);
    refuses_value("integer", &huge, &format!("{huge} is out of range"));
}

#[test]
fn a_position_of_a_symmetric_kind_is_given_only_once() {
    for (words, value) in [
        ("coordinate real symmetric", "1"),
        ("coordinate pattern symmetric", ""),
        ("coordinate integer skew-symmetric", "1"),
        ("coordinate complex hermitian", "1 0"),
    ] {
        let entry = |place: &str| format!("{place} {value}");
        let (lower, upper) = (entry("2 1"), entry("1 2"));
        for second in [&lower, &upper] {
            let text = file(words, &["2 2 2", &lower, second]);
            refuses(&text, "was given before, or");
        }
    }
    let text = file("coordinate real symmetric", &["2 2 2", "2 2 1", "2 2 1"]);
    refuses(&text, "line 4: (2, 2) is given twice");
}

#[test]
fn a_diagonal_that_breaks_the_symmetry_is_refused() {
    let text = file("coordinate real skew-symmetric", &["2 2 1", "2 2 0"]);
    refuses(
        &text,
        "line 3: diagonal entry (2, 2) in a skew-symmetric matrix",
    );
    let text = file("coordinate complex hermitian", &["2 2 1", "2 2 1 1e-3"]);
    refuses(&text, "line 3: imaginary part 0.001 at (2, 2)");
    let text = file("array complex hermitian", &["1 1", "1 2"]);
    refuses(&text, "line 3: imaginary part 2 at (1, 1)");
}

#[test]
fn a_matrix_that_does_not_fit_is_refused_before_it_is_allocated() {
    struct None;
    impl Memory for None {
        fn allocate(&self, bytes: usize) -> Box<dyn dataflow_core::port::Block> {
            panic!("{bytes} bytes were allocated");
        }
    }
    for (text, limit) in [
        (
            "array real general\n4000000000 4000000000\n1\n",
            physical_memory(),
        ),
        (
            "coordinate real symmetric\n3000000000 3000000000 1\n1 1 1\n",
            physical_memory(),
        ),
        ("coordinate real general\n10 10 1\n1 1 1\n", 799),
    ] {
        let text = format!("%%MatrixMarket matrix {text}");
        let mut reader = Reader::new("a.mtx", text.as_bytes()).unwrap();
        let Header { rows, cols, .. } = *reader.header();
        for layout in [Layout::general(rows, cols, 100), Layout::lower(rows, 100)] {
            let limit = limit.min(if rows == 10 { 799 } else { u64::MAX });
            let refused = reader.read_tiled::<f64>(layout.unwrap(), Arc::new(None), limit);
            let refused = refused.unwrap_err();
            assert_eq!((refused.kind(), refused.line()), ("does_not_fit", Some(2)));
            assert!(refused.to_string().contains("does not fit: needs"));
        }
    }
}

#[test]
fn a_huge_matrix_without_elements_does_not_hang() {
    let text = file("coordinate real general", &["0 999999999999999999 0"]);
    let mut reader = Reader::new("a.mtx", &text[..]).unwrap();
    let layout = Layout::general(0, 999_999_999_999_999_999, 1 << 40).unwrap();
    let a = reader
        .read_tiled::<f64>(layout, Arc::new(Heap), 1 << 20)
        .unwrap();
    assert_eq!(a.n_slots(), 0);
}

#[test]
fn a_real_type_for_a_complex_matrix_and_another_shape_are_named() {
    let text = file("array complex general", &["1 1", "1 0"]);
    let refused = rows::<f32>(&text).unwrap_err();
    assert_eq!(refused.kind(), "complex_as_real");
    assert!(
        refused
            .to_string()
            .contains("asked for in f32 (must be c32 or c64)")
    );
    assert_eq!(rows::<c32>(&text).unwrap(), [[c32::new(1.0, 0.0)]]);
    let mut reader = Reader::new("a.mtx", &text[..]).unwrap();
    let layout = Layout::lower(2, 1).unwrap();
    let refused = reader
        .read_tiled::<c64>(layout, Arc::new(Heap), 1 << 20)
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a.mtx: line 2: the layout is 2 x 2 (must be 1 x 1)"
    );
}

#[test]
fn a_value_beyond_single_precision_is_refused_and_not_made_infinite() {
    let text = file("array real general", &["1 2", "1e-60", "-1e39"]);
    let refused = rows::<f32>(&text).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a.mtx: line 4: -1e39 is out of range of f32"
    );
    let text = file("array real general", &["1 2", "1e-60", "-inf"]);
    assert_eq!(rows::<f32>(&text).unwrap(), [[0.0, f32::NEG_INFINITY]]);
}

#[test]
fn a_lower_layout_keeps_the_lower_triangle_of_any_file() {
    for text in [
        file(
            "coordinate real general",
            &["2 2 3", "1 2 9", "2 1 3", "1 1 1"],
        ),
        file("coordinate real symmetric", &["2 2 2", "1 2 3", "1 1 1"]),
        file("array real symmetric", &["2 2", "1", "3", "0"]),
    ] {
        let mut reader = Reader::new("a.mtx", &text[..]).unwrap();
        let layout = Layout::lower(2, 2).unwrap();
        let a = reader
            .read_tiled::<f64>(layout, Arc::new(Heap), 1 << 20)
            .unwrap();
        assert_eq!(a.to_column_major().unwrap(), [1.0, 3.0, 0.0, 0.0]);
    }
}

#[test]
fn everything_is_counted() {
    let lines = ["3 3 4", "1 2 0", "3 3 1", "3 1 -0", "2 2 0"];
    let mut reader = Reader::new("a", &*file("coordinate real symmetric", &lines).leak());
    let reader = reader.as_mut().unwrap();
    assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 4);
    let expected = Counts {
        stored: 4,
        explicit_zeros: 3,
        duplicates: 0,
        above_diagonal: 1,
        expanded: 6,
    };
    assert_eq!(*reader.counts(), expected);
    let text = file(
        "coordinate real general",
        &["1 2 3", "1 2 1", "1 2 1", "1 1 1"],
    );
    let mut reader = Reader::new("a", &text[..]).unwrap();
    let again: Vec<bool> = reader.by_ref().map(|entry| entry.unwrap().again).collect();
    assert_eq!(again, [false, true, false]);
    assert_eq!(
        (reader.counts().duplicates, reader.counts().above_diagonal),
        (1, 0)
    );
}

#[test]
fn after_an_error_nothing_more_is_read() {
    let text = file("coordinate real general", &["1 1 2", "1 1 x", "1 1 1"]);
    let mut reader = Reader::new("a", &text[..]).unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_missing_file_and_a_folder_are_refused_by_name() {
    for path in ["no/such/file.mtx", "."] {
        let refused = Reader::open(path).unwrap_err();
        assert_eq!(refused.kind(), "input_unreadable");
        assert!(
            refused
                .to_string()
                .starts_with(&format!("{path}: cannot be read: "))
        );
    }
}

#[test]
fn physical_memory_is_plausible() {
    assert!((1 << 24..1 << 50).contains(&physical_memory()));
}

#[test]
fn a_file_is_read_once() {
    let text = file("array real general", &["1 2", "1e-60", "1e39"]);
    let layout = Layout::general(1, 2, 2).unwrap();
    let read =
        |reader: &mut Reader<&[u8]>, limit| reader.read_tiled::<f64>(layout, Arc::new(Heap), limit);
    let open = || Reader::new("a.mtx", &text[..]).unwrap();
    let refused = |reader: &mut Reader<&[u8]>| {
        let refused = read(reader, 1 << 30).unwrap_err();
        assert!(matches!(refused.reason(), Reason::AlreadyRead), "{refused}");
        assert_eq!((refused.line(), refused.kind()), (None, "already_read"));
    };
    // After a value that is out of range of f32.
    let mut reader = open();
    let narrow = reader.read_tiled::<f32>(layout, Arc::new(Heap), 1 << 30);
    assert!(narrow.unwrap_err().to_string().contains("out of range"));
    refused(&mut reader);
    // After a matrix, and after entries by hand.
    let mut reader = open();
    assert_eq!(read(&mut reader, 1 << 30).unwrap().get(0, 1), Some(1e39));
    refused(&mut reader);
    let mut reader = open();
    assert!(reader.next().is_some_and(|entry| entry.is_ok()));
    refused(&mut reader);
    // After a line that breaks the rules, and after the end of a matrix without entries.
    for (words, lines, is_right) in [
        ("array real general", vec!["1 2", "one"], false),
        ("coordinate real general", vec!["1 2 0"], true),
    ] {
        let text = file(words, &lines);
        let mut reader = Reader::new("a.mtx", &text[..]).unwrap();
        let first = reader.read_tiled::<f64>(layout, Arc::new(Heap), 1 << 30);
        assert_eq!(first.is_ok(), is_right, "{words}");
        refused(&mut reader);
    }
    // Where there was no room, nothing was read.
    let mut reader = open();
    let refusal = read(&mut reader, 1).unwrap_err();
    assert!(matches!(refusal.reason(), Reason::DoesNotFit { .. }));
    assert_eq!(read(&mut reader, 1 << 30).unwrap().get(0, 0), Some(1e-60));
}

#[test]
fn an_array_of_more_than_memory_holds_is_refused_before_there_is_room_for_it() {
    let text = file("coordinate real general", &["4000000000 4000000000 0"]);
    let refused = Reader::new("a.mtx", &text[..])
        .unwrap()
        .read_ndarray::<f64>();
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused.reason(), Reason::DoesNotFit { .. }),
        "{refused}"
    );
}

/// A panic said that it was unreachable.
#[test]
fn a_side_that_no_array_has_is_refused_though_the_matrix_has_no_entries() {
    let longest = isize::MAX as usize;
    for (rows, cols) in [(longest + 1, 0), (0, usize::MAX)] {
        let sizes = format!("{rows} {cols} 0");
        let text = file("coordinate real general", &[&sizes]);
        let read = || Reader::new("a.mtx", &text[..]).unwrap();
        let refused = read().read_ndarray::<f64>().unwrap_err();
        let told = format!("a.mtx: line 2: no array has a side of {}", rows.max(cols));
        assert!(refused.to_string().starts_with(&told), "{refused}");
        // Tiles may have any.
        let layout = Layout::general(rows, cols, usize::MAX).unwrap();
        let tiled = read().read_tiled::<f64>(layout, Arc::new(Heap), 0).unwrap();
        assert_eq!((tiled.rows(), tiled.cols()), (rows, cols));
    }
    let text = file("coordinate real general", &[&format!("0 {longest} 0")]);
    let array = Reader::new("a.mtx", &text[..])
        .unwrap()
        .read_ndarray::<f64>();
    assert_eq!(array.unwrap().dim(), (0, longest));
}

/// Of a matrix whose lower triangle is stored the rest is taken for its adjoint.
#[test]
fn a_lower_layout_is_for_matrices_that_are_their_adjoint() {
    let lower = |words: &str, entry: &str| {
        let text = file(
            &format!("coordinate {words}"),
            &["2 2 1", &format!("2 1 {entry}")],
        );
        let mut reader = Reader::new("a.mtx", &text[..]).unwrap();
        let layout = Layout::lower(2, 2).unwrap();
        let read = reader.read_tiled::<c64>(layout, Arc::new(Heap), 1 << 20);
        read.map(|a| a.get(1, 0).unwrap())
            .map_err(|error| (error.kind(), error.to_string()))
    };
    for words in [
        "real symmetric",
        "integer symmetric",
        "real general",
        "complex general",
    ] {
        let entry = if words.starts_with("complex") {
            "3 0"
        } else {
            "3"
        };
        assert_eq!(lower(words, entry), Ok(c64::new(3.0, 0.0)), "{words}");
    }
    assert_eq!(lower("complex hermitian", "3 4"), Ok(c64::new(3.0, 4.0)));
    assert_eq!(lower("pattern symmetric", ""), Ok(c64::new(1.0, 0.0)));
    for (words, entry, what) in [
        ("real skew-symmetric", "3", "skew-symmetric"),
        ("integer skew-symmetric", "3", "skew-symmetric"),
        ("complex skew-symmetric", "3 4", "skew-symmetric"),
        ("complex symmetric", "3 4", "symmetric"),
    ] {
        let (kind, text) = lower(words, entry).unwrap_err();
        assert_eq!(kind, "wrong_shape", "{words}: {text}");
        let says = text.contains(what) && text.contains("Layout::general");
        assert!(
            says && text.starts_with("a.mtx: line 2: "),
            "{words}: {text}"
        );
    }
}
