//! The example `alignment` against a plain table, against all alignments there are, and its files.

use applications::alignment;
use applications::alignment::{Alignment, Back, Cell, Column, Scores, align, related};
use common::cli::settings::Grid;
use dataflow::core::port::{Executor, Inline, Shuffled};
use dataflow::core::space::verify;
use std::path::PathBuf;

const SCORES: Scores = Scores {
    equal: 2,
    different: -1,
    open: -3,
    extend: -1,
};

/// Symbols few enough for many ties.
fn sequence(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut symbol = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        b"AB"[(state >> 62 & 1) as usize]
    };
    (0..length).map(|_| symbol()).collect()
}

fn aligned(first: &[u8], second: &[u8], scores: Scores, nb: usize) -> (i32, Vec<Column>) {
    let alignment =
        Alignment::new(first.to_vec(), second.to_vec(), scores, nb, grid(1, 1)).unwrap();
    dataflow::core::run(&alignment, &Inline).unwrap();
    way_back(&alignment, &Inline)
}

fn way_back(alignment: &Alignment, on: &dyn Executor) -> (i32, Vec<Column>) {
    let back = Back::new(alignment);
    dataflow::core::run(&back, on).unwrap();
    back.alignment().unwrap()
}

fn grid(rows: usize, columns: usize) -> Grid {
    Grid { rows, columns }
}

/// Score of an alignment by the definition: pairs one by one, gaps by their length.
fn worth(first: &[u8], second: &[u8], columns: &[Column], scores: Scores) -> i32 {
    let (mut first, mut second) = (first.iter(), second.iter());
    let mut total = 0;
    for run in columns.chunk_by(|a, b| a == b) {
        let gap = scores.open + (run.len() as i32 - 1) * scores.extend;
        match run[0] {
            Column::Pair => {
                for _ in run {
                    let pair = (first.next().unwrap(), second.next().unwrap());
                    total += if pair.0 == pair.1 {
                        scores.equal
                    } else {
                        scores.different
                    };
                }
            }
            Column::GapInSecond => {
                first.by_ref().take(run.len()).for_each(drop);
                total += gap;
            }
            Column::GapInFirst => {
                second.by_ref().take(run.len()).for_each(drop);
                total += gap;
            }
        }
    }
    assert!(
        first.next().is_none() && second.next().is_none(),
        "not all symbols are aligned"
    );
    total
}

/// The best of all alignments, found by writing each of them down; ties decided from the end.
fn best_of_all(first: &[u8], second: &[u8], scores: Scores) -> (i32, Vec<Column>) {
    fn all(i: usize, j: usize) -> Vec<Vec<Column>> {
        if i == 0 && j == 0 {
            return vec![Vec::new()];
        }
        let mut found = Vec::new();
        let steps = [
            (1, 1, Column::Pair),
            (1, 0, Column::GapInSecond),
            (0, 1, Column::GapInFirst),
        ];
        for (down, across, column) in steps {
            if i >= down && j >= across {
                for mut columns in all(i - down, j - across) {
                    columns.push(column);
                    found.push(columns);
                }
            }
        }
        found
    }
    let ranked = all(first.len(), second.len()).into_iter().map(|columns| {
        let from_the_end: Vec<Column> = columns.iter().rev().copied().collect();
        (
            -worth(first, second, &columns, scores),
            from_the_end,
            columns,
        )
    });
    let (loss, _, columns) = ranked.min().unwrap();
    (-loss, columns)
}

/// Best score by one table that is kept whole, with plain loops.
fn plain_score(first: &[u8], second: &[u8], scores: Scores) -> i32 {
    const NEVER: i32 = -1_000_000;
    let (n, m) = (first.len(), second.len());
    let mut table: Vec<Vec<Cell>> = vec![vec![[NEVER; 3]; m + 1]; n + 1];
    table[0][0] = [0, NEVER, NEVER];
    for i in 0..=n {
        for j in 0..=m {
            if i > 0 && j > 0 {
                let pair = if first[i - 1] == second[j - 1] {
                    scores.equal
                } else {
                    scores.different
                };
                table[i][j][0] = table[i - 1][j - 1].into_iter().max().unwrap() + pair;
            }
            if i > 0 {
                let [pair, second, first] = table[i - 1][j];
                table[i][j][1] = (pair.max(first) + scores.open).max(second + scores.extend);
            }
            if j > 0 {
                let [pair, second, first] = table[i][j - 1];
                table[i][j][2] = (pair.max(second) + scores.open).max(first + scores.extend);
            }
        }
    }
    table[n][m].into_iter().max().unwrap()
}

#[test]
fn both_ends_of_every_edge_agree() {
    for (n, m, nb) in [
        (0, 0, 1),
        (5, 0, 2),
        (1, 1, 1),
        (5, 3, 1),
        (7, 9, 4),
        (12, 8, 4),
    ] {
        for (rows, columns) in [(1, 1), (2, 2), (3, 1)] {
            let grid = grid(rows, columns);
            let alignment =
                Alignment::new(sequence(n, 1), sequence(m, 2), SCORES, nb, grid).unwrap();
            let n_ranks = (rows * columns) as u32;
            let proved = verify(&alignment, n_ranks);
            let back = verify(&Back::new(&alignment), n_ranks);
            if let Err(fault) = proved.and(back) {
                panic!("n = {n}, m = {m}, nb = {nb} on {grid}: {fault}");
            }
        }
    }
}

#[test]
fn short_sequences_get_the_best_of_all_alignments_and_ties_are_decided_as_told() {
    let scores = [
        SCORES,
        Scores { open: -1, ..SCORES }, // no dearer than a further symbol
        Scores {
            open: 0,
            extend: -4,
            ..SCORES
        }, // cheaper than one
        Scores {
            different: -9,
            ..SCORES
        }, // two gaps side by side beat a pair
        Scores {
            equal: 0,
            different: 0,
            open: 0,
            extend: 0,
        }, // everything ties
        Scores {
            equal: -2,
            different: -2,
            open: -1,
            extend: -1,
        }, // as many columns, as many ties
    ];
    for scores in scores {
        for (n, m) in [
            (0, 0),
            (0, 3),
            (3, 0),
            (1, 1),
            (2, 4),
            (4, 3),
            (4, 4),
            (5, 3),
        ] {
            for seed in 0..6 {
                let (first, second) = (sequence(n, seed), sequence(m, seed + 100));
                let expected = best_of_all(&first, &second, scores);
                assert_eq!(scores.optimum(&first, &second), expected.0, "{scores:?}");
                for nb in 1..=5 {
                    assert_eq!(
                        aligned(&first, &second, scores, nb),
                        expected,
                        "{first:?} {second:?} nb = {nb} {scores:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn columns_that_are_not_worth_the_score_or_leave_symbols_over_are_found() {
    use Column::{GapInFirst, GapInSecond, Pair};
    for (n, m) in [(0, 0), (0, 5), (5, 0), (1, 1), (40, 33)] {
        let (first, second) = (sequence(n, 7), sequence(m, 8));
        let (score, columns) = aligned(&first, &second, SCORES, 9);
        let table = Alignment::new(first.clone(), second.clone(), SCORES, 9, grid(1, 1)).unwrap();
        assert_eq!(
            table.worth(&columns),
            Some(worth(&first, &second, &columns, SCORES))
        );
        assert!(table.verify(score, &columns).unwrap());
        assert!(table.verify(score + 1, &columns).is_err());
        for more in [Pair, GapInFirst, GapInSecond] {
            assert_eq!(table.worth(&[&columns[..], &[more]].concat()), None);
        }
        if let Some((_, less)) = columns.split_last() {
            assert_eq!(table.worth(less), None);
        }
    }
    // Two gaps in place of a pair.
    let table = Alignment::new(b"A".into(), b"A".into(), SCORES, 1, grid(1, 1)).unwrap();
    let wrong = table.verify(2, &[GapInFirst, GapInSecond]).unwrap_err();
    assert!(wrong.message().contains("worth -6"), "{}", wrong.message());
    // A table that is wrong says what its columns are worth.
    let wrong = table.verify(-6, &[GapInFirst, GapInSecond]).unwrap_err();
    assert!(wrong.message().contains("worth 2"), "{}", wrong.message());
}

#[test]
fn ties_are_decided_by_hand() {
    use Column::{GapInFirst, GapInSecond, Pair};
    // A pair at the end before a gap at the end: both B can stand below the one B.
    assert_eq!(
        aligned(b"B", b"BB", SCORES, 1),
        (-1, vec![GapInFirst, Pair])
    );
    assert_eq!(
        aligned(b"BB", b"B", SCORES, 1),
        (-1, vec![GapInSecond, Pair])
    );
    // Two gaps side by side: from the end, the one in the second comes first.
    let scores = Scores {
        different: -9,
        ..SCORES
    };
    assert_eq!(
        aligned(b"A", b"B", scores, 1),
        (-6, vec![GapInFirst, GapInSecond])
    );
    // One long gap is better than two.
    assert_eq!(
        aligned(b"ABBA", b"AA", SCORES, 2),
        (0, vec![Pair, GapInSecond, GapInSecond, Pair])
    );
}

#[test]
fn longer_sequences_agree_with_a_plain_table_for_every_tile_order() {
    for (n, m, seed) in [(40, 40, 1), (61, 33, 2), (1, 80, 3), (97, 101, 4)] {
        let (first, second) = (sequence(n, seed), sequence(m, seed + 50));
        let whole = aligned(&first, &second, SCORES, 200);
        assert_eq!(whole.0, plain_score(&first, &second, SCORES));
        assert_eq!(whole.0, worth(&first, &second, &whole.1, SCORES));
        for nb in [1, 2, 3, 7, 16, 32, 33, 64, 100] {
            assert_eq!(
                aligned(&first, &second, SCORES, nb),
                whole,
                "n = {n}, m = {m}, nb = {nb}"
            );
        }
    }
}

#[test]
fn the_alignment_is_the_same_under_every_schedule() {
    let [first, second] = related(300, 7);
    let expected = aligned(&first, &second, SCORES, 1000);
    for seed in 0..20 {
        let alignment =
            Alignment::new(first.clone(), second.clone(), SCORES, 17, grid(1, 1)).unwrap();
        let shuffled = Shuffled::new(seed).with_threads(1 + seed as usize % 3);
        let report = dataflow::core::run(&alignment, &shuffled).unwrap();
        assert_eq!(way_back(&alignment, &shuffled), expected, "seed {seed}");
        assert_eq!(report.copies(), 0);
    }
}

#[test]
fn ranks_find_the_alignment_of_one_rank_on_every_grid() {
    let told = |arguments: &[&str]| {
        let told = object(&answer(&[arguments, &["--n", "300", "--json"]].concat()));
        assert!(told.get("error").is_none(), "{arguments:?}: {told}");
        told
    };
    let alone = told(&["--nb", "1000"]);
    for (ranks, grid) in [("2", "1x2"), ("2", "2x1"), ("4", "2x2"), ("6", "2x3")] {
        let ranks = told(&["--ranks", ranks, "--grid", grid, "--nb", "17"]);
        for key in ["score", "alignment_length"] {
            assert_eq!(ranks[key], alone[key], "{grid}");
        }
        assert!(ranks["messages"].as_u64() > Some(0), "{ranks}");
    }
    let shown = answer(&["--n", "100", "--ranks", "3", "--nb", "9"]).stdout;
    let alone = answer(&["--n", "100", "--nb", "9"]).stdout;
    let alignment = |page: &str| {
        let lines = page.lines().filter(|line| line.starts_with("  "));
        lines.map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(alignment(&shown), alignment(&alone));
    assert!(alignment(&shown).len() > 4, "{shown}");
}

#[test]
fn a_tile_may_be_larger_than_the_table() {
    let told = |nb: u64| object(&answer(&["--n", "90", "--json", "--nb", &nb.to_string()]));
    let n_columns = told(90)["m"].as_u64().unwrap();
    for nb in [1000, 1 << 61] {
        let told_of = told(nb);
        assert!(told_of.get("error").is_none(), "{nb}: {told_of}");
        assert_eq!(told_of["score"], told(90)["score"], "{nb}");
        assert_eq!(told_of["nb"].as_u64(), Some(n_columns.max(90)), "{nb}");
        assert_eq!(told_of["tasks"], 1, "{nb}");
    }
}

#[test]
fn sequences_too_long_for_their_scores_are_refused() {
    let scores = Scores {
        equal: 1000,
        ..SCORES
    };
    let (first, second) = (vec![b'A'; 200_000], vec![b'A'; 100_000]);
    assert!(Alignment::new(first, second, scores, 1000, grid(1, 1)).is_err());
    // Nor are they made.
    let told = answer(&["--n", "1000000000000", "--json"]);
    assert_eq!(object(&told)["error"]["kind"], "too_long", "{told:?}");
}

// ── The command line ─────────────────────────────────────────────────────────────────────────────

fn answer(arguments: &[&str]) -> common::cli::Answer {
    let words = ["alignment"].iter().chain(arguments);
    common::cli::answer(&alignment::EXAMPLE, words, align)
}

fn object(answer: &common::cli::Answer) -> serde_json::Value {
    serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// A file that is gone when dropped.
struct Fasta(PathBuf);

impl Fasta {
    fn new(name: &str, text: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("dataflow-{}-{name}.fasta", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Fasta(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Fasta {
    fn drop(&mut self) {
        // Left over in the temporary folder if it cannot be removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn two_records_are_aligned_and_printed() {
    let file = Fasta::new("two", ">one\nACGT\nACGT\n>two of them\r\nACGACGT\r\n");
    let shown = answer(&["--input", file.path(), "--threads", "2"]);
    assert_eq!((shown.status, shown.stderr.as_str()), (0, ""), "{shown:?}");
    let page = "        1 ACGTACGT 8\n          ||| ||||\n        1 ACG-ACGT 7\n";
    assert!(shown.stdout.contains(page), "{}", shown.stdout);
    let told = object(&answer(&["--input", file.path(), "--json"]));
    assert_eq!(told["score"], 11);
    assert_eq!(told["alignment_length"], 8);
    assert_eq!((&told["n"], &told["m"]), (&8.into(), &7.into()));
    let other = answer(&[
        "--input",
        file.path(),
        "--json",
        "--match",
        "3",
        "--gap-open",
        "-7",
    ]);
    assert_eq!(object(&other)["score"], 14);
}

#[test]
fn a_malformed_file_is_one_clear_error() {
    let malformed = [
        ("empty", "", "holds 0 records, must hold 2"),
        ("blank", "\n\n", "holds 0 records, must hold 2"),
        ("text", "ACGT\n", "begins with 'A', must begin with '>'"),
        ("one", ">a\nACGT\n", "holds 1 record,"),
        ("three", ">a\nA\n>b\nC\n>c\nG\n", "holds 3 records"),
        ("void", ">a\n>b\nACGT\n", "record 1 is empty"),
        ("end", ">a\nACGT\n>b\n", "Unexpected end"),
        (
            "lower",
            ">a\nACGT\n>b\nACgT\n",
            "symbol 3 of record 2 is 'g'",
        ),
        (
            "digit",
            ">a\nAC7T\n>b\nACGT\n",
            "symbol 3 of record 1 is '7'",
        ),
        ("gap", ">a\nA-\n>b\nACGT\n", "symbol 2 of record 1 is '-'"),
        ("fastq", "@a\nACGT\n+\nIIII\n@b\nA\n+\nI\n", "FASTQ"),
    ];
    for (name, text, expected) in malformed {
        let file = Fasta::new(name, text);
        let told = answer(&["--input", file.path(), "--json"]);
        assert_eq!(told.status, 1, "{name}: {told:?}");
        assert!(
            told.stderr.starts_with("error: ") && told.stderr.lines().count() == 1,
            "{name}: {told:?}"
        );
        assert!(told.stderr.contains(expected), "{name}: {told:?}");
        assert_eq!(object(&told)["error"]["kind"], "malformed_input", "{name}");
    }
    let missing = answer(&["--input", "no-such-file.fasta", "--json"]);
    assert_eq!(
        (missing.status, &object(&missing)["error"]["kind"]),
        (1, &"input_unreadable".into())
    );
    assert!(answer(&["--input", "no-such-file.fasta"]).stdout.is_empty());
    let folder = std::env::temp_dir();
    let folder = answer(&["--input", folder.to_str().unwrap(), "--json"]);
    assert_eq!(
        (folder.status, &object(&folder)["error"]["kind"]),
        (1, &"input_unreadable".into())
    );
}

#[test]
fn bad_arguments_are_one_line_and_status_two() {
    let bad: [&[&str]; 17] = [
        &["--no-such-flag"],
        &["--threads", "0"],
        &["--threads", "-1"],
        &["--nb", "0"],
        &["--repeat", "0"],
        &["--n", "many"],
        &["--grid", "1x2"],
        &["--precision", "f32"],
        &["--check"],
        &["--m", "5"],
        &["--ranks", "3", "--grid", "2x2"],
        &["--ranks", "0"],
        &["--transport", "pigeon"],
        &["--policy", "no-such-policy"],
        &["--match", "100000"],
        &["--n", "5", "--input", "file.fasta"],
        &["--seed", "5", "--input", "file.fasta"],
    ];
    for arguments in bad {
        let told = answer(&[arguments, &["--json"]].concat());
        assert_eq!(
            (told.status, told.stdout.as_str()),
            (2, ""),
            "{arguments:?}: {told:?}"
        );
        assert!(
            told.stderr.starts_with("error: ") && told.stderr.lines().count() == 1,
            "{told:?}"
        );
        let named = arguments
            .iter()
            .any(|argument| told.stderr.contains(argument));
        assert!(named, "{told:?}");
    }
}

#[test]
fn the_object_has_its_keys_in_their_order() {
    let told = answer(&[
        "--n",
        "100",
        "--seed",
        "3",
        "--json",
        "--transport",
        "local",
        "--ranks",
        "1",
    ]);
    assert_eq!((told.status, told.stderr.as_str()), (0, ""));
    let told = object(&told);
    let keys: Vec<&str> = told
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = "example n m nb grid ranks threads precision backend policy seed tasks seconds \
        cpu_seconds gflops residual digest messages bytes activations packets control_bytes steals \
        copies max_rss_bytes per_rank per_worker local_share score alignment_length verified";
    assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!(
        (&told["example"], &told["seed"], &told["copies"]),
        (&"alignment".into(), &3.into(), &0.into())
    );
    assert!(
        ["precision", "backend", "gflops", "residual"]
            .iter()
            .all(|key| told[key].is_null())
    );
}

#[test]
fn empty_and_generated_sequences_are_aligned() {
    for n in ["0", "1", "7"] {
        let told = answer(&["--n", n, "--json"]);
        assert_eq!(told.status, 0, "{told:?}");
    }
    assert_eq!(
        object(&answer(&["--n", "0", "--json"]))["alignment_length"],
        0
    );
    let (one, two) = (
        answer(&["--n", "50", "--seed", "1", "--json"]),
        answer(&["--n", "50", "--seed", "2", "--json"]),
    );
    assert_ne!(object(&one)["score"], object(&two)["score"]);
}

#[test]
fn help_shows_what_is_honoured_and_only_that() {
    let help = answer(&["--help"]);
    assert_eq!((help.status, help.stderr.as_str()), (0, ""));
    assert!(help.stdout.contains("--gap-open") && help.stdout.contains("--input"));
    assert!(!help.stdout.contains("--precision") && !help.stdout.contains("--check"));
}

#[test]
fn a_panic_of_the_example_is_told_like_any_failure() {
    let words = ["alignment", "--json"];
    let told = common::cli::answer(
        &alignment::EXAMPLE,
        words,
        |_: &common::cli::Settings<Scores>, _, _| panic!("at the\ndisco"),
    );
    assert_eq!(
        (told.status, told.stderr.as_str()),
        (1, "error: the example panicked: at the disco\n")
    );
    assert_eq!(object(&told)["error"]["kind"], "panicked");
}
