//! What runs take of memory beside what their plans say.
//!
//! A process is measured from outside: peak resident memory of a run less that of the smallest run of
//! the same program. A plan is never less than any run takes, but for the code of the program itself; and at
//! most a third more than the dearest of a few runs, beside what a process takes for whatever its size. How
//! much one run takes depends on which tasks overlap.

use crate::ended::*;

/// A routine: its example, the flags that choose it, and those of its size, if it is not square.
type Routine = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// Every routine that has a plan.
const ROUTINES: [Routine; 18] = [
    ("cholesky", &[], &[]),
    ("cholesky_sequence", &[], &[]),
    ("inverse", &[], &[]),
    ("inverse", &["--method", "lu"], &[]),
    ("lu", &[], &[]),
    ("lu", &["--pivoting", "tournament"], &[]),
    ("lu", &["--pivoting", "incremental"], &[]),
    ("lu", &["--pivoting", "none"], &[]),
    ("qr", &[], &[]),
    ("qr", &["--tree", "greedy"], &["--m", "2000"]),
    ("least_squares", &[], &["--m", "3200"]),
    ("least_squares", &[], &["--m", "1000"]),
    ("least_squares", &["--method", "gelsy"], &["--m", "2000"]),
    ("solve", &["--method", "cholesky"], &[]),
    ("solve", &["--method", "lu"], &[]),
    ("solve", &["--method", "qr"], &[]),
    ("solve", &["--method", "mixed"], &[]),
    ("matmul", &[], &[]),
];

/// Sizes whose tiles outweigh the process.
const LARGE: &[&str] = &["--n", "1600", "--nb", "100"];

const SMALLEST: &[&str] = &["--n", "2", "--nb", "1"];

/// Bytes of code that the smallest run does not reach, in an unoptimised build.
const CODE: u64 = 4 << 20;

/// Bytes that plans count for any size and runs of this one leave unused: large pages that tiles do not fill,
/// and what products pack blocks into.
const PROCESS: u64 = 2 << 20;

/// So many runs show what one may take, unless the first shows it.
const RUNS: usize = 6;

/// Peak resident bytes of a run.
fn peak(example: &str, flags: &[&str]) -> u64 {
    let ended = run(example, &[flags, &["--threads", "2", "--json"]].concat());
    assert_eq!(ended.status, 0, "{example} {flags:?}: {}", ended.stderr);
    ended.object()["max_rss_bytes"].as_u64().unwrap()
}

#[test]
fn a_plan_is_never_less_than_a_run_takes_and_at_most_a_third_more() {
    for (example, flags, rows) in ROUTINES {
        expect_as_planned(example, flags, &[LARGE, rows].concat());
    }
}

/// No plan told of it, and it outweighs small tiles.
#[test]
fn the_plan_of_a_sequence_counts_the_recorded_program() {
    let small = ["--n", "100", "--nb", "1", "--check=false"];
    expect_as_planned("cholesky_sequence", &[], &small);
}

/// Compares the plan of a routine with what runs of this size take.
fn expect_as_planned(example: &str, flags: &[&str], size: &[&str]) {
    let large = [flags, size].concat();
    let plan = [&large, &["--plan", "--threads", "2", "--json"][..]].concat();
    let plan = run(example, &plan).object()["plan"]["ranks"][0].clone();
    let told = plan["at_most_bytes"].as_u64().unwrap();
    let smallest = peak(example, &[flags, SMALLEST].concat());
    let is_tight = |took: u64| told <= took / 3 * 4 + PROCESS;
    let mut most = 0;
    for _ in 0..RUNS {
        let took = peak(example, &large).saturating_sub(smallest);
        let what = format!("{example} {large:?}: told {told} bytes, took {took}");
        assert!(took <= told + CODE, "{what}");
        most = most.max(took);
        if is_tight(most) {
            break;
        }
    }
    let what = format!("{example} {large:?}: told {told} bytes, took {most} at most");
    assert!(is_tight(most), "{what}");
}

/// A process began with the peak of the one that started it.
#[test]
fn a_peak_is_that_of_the_program_and_not_of_who_starts_it() {
    let ballast = vec![1u8; 400 << 20];
    assert!(peak("cholesky", SMALLEST) < ballast.iter().map(|&one| u64::from(one)).sum());
}

/// Once only the process of rank 0 was told of.
#[test]
fn the_largest_process_is_told_of_whichever_rank_it_is() {
    let largest = |n: &str, nb: &str| {
        let ranks = "--ranks 2 --grid 2x1 --transport tcp --check=false";
        let ranks: Vec<_> = ranks.split(' ').collect();
        peak("cholesky", &[&ranks[..], &["--n", n, "--nb", nb]].concat())
    };
    // Of three tiles in two rows rank 0 holds one, rank 1 two, and it receives the third.
    let tiles = 3 * 1500 * 1500 * 8;
    let (peak, least) = (largest("3000", "1500"), largest("2", "1") + tiles);
    assert!(peak > least, "{peak} bytes, rank 1 has {least}");
}
