//! Which cases are tried, and what came of them.

use std::collections::{BTreeMap, BTreeSet};

/// How many of all cases are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    All,
    /// One in so many, by a fixed seed.
    OneIn(u64),
}

impl Share {
    /// All if the environment says so.
    pub fn or_all(self) -> Self {
        match std::env::var_os("DATAFLOW_LAPACK").is_some_and(|value| value == "all") {
            true => Share::All,
            false => self,
        }
    }
}

/// Ratios by routine.
pub struct Tally {
    share: Share,
    /// Cases so far, tried or not.
    n_cases: u64,
    rows: BTreeMap<&'static str, Row>,
    failures: Vec<String>,
}

#[derive(Default)]
struct Row {
    n_ratios: u64,
    largest: f64,
}

impl Tally {
    pub fn new(share: Share) -> Self {
        Tally {
            share,
            n_cases: 0,
            rows: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// Whether the next case is to be tried: the same on every rank.
    pub fn tries(&mut self) -> bool {
        self.n_cases += 1;
        match self.share {
            Share::All => true,
            Share::OneIn(many) => {
                let mixed = (self.n_cases ^ 1988).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 33).is_multiple_of(many)
            }
        }
    }

    /// Notes what is off beside its scale; where nothing is off, whatever the scale.
    pub fn ratio(
        &mut self,
        routine: &'static str,
        (off, scale): (f64, f64),
        threshold: f64,
        what: &str,
    ) {
        let ratio = if off == 0.0 { 0.0 } else { off / scale };
        let row = self.rows.entry(routine).or_default();
        row.n_ratios += 1;
        if ratio.is_nan() || ratio > row.largest {
            row.largest = ratio;
        }
        if !(0.0..threshold).contains(&ratio) {
            self.failures.push(format!(
                "{routine} of {what}: {ratio:.3e} (must be below {threshold})"
            ));
        }
    }

    /// Notes whether INFO is what it must be.
    pub fn info(&mut self, routine: &'static str, found: u64, expected: u64, what: &str) {
        if expected > 0 {
            self.rows.entry("INFO").or_default().n_ratios += 1;
        }
        if found != expected {
            let text = format!("INFO of {routine} of {what}: {found} (must be {expected})");
            self.failures.push(text);
        }
    }

    /// A line for each routine.
    pub fn print(&self, head: &str) {
        for (routine, row) in &self.rows {
            let Row { n_ratios, largest } = row;
            println!("{head:<9} {routine:<6} {n_ratios:>7} tests, largest ratio {largest:.3}");
        }
    }

    /// Fails if anything did, or if not exactly these routines were tried.
    pub fn expect_accepted(&self, routines: &[&str]) {
        let tried: BTreeSet<&str> = self.rows.keys().copied().collect();
        assert_eq!(tried, routines.iter().copied().collect());
        let first: Vec<_> = self.failures.iter().take(20).collect();
        assert!(
            first.is_empty(),
            "{} failures: {first:#?}",
            self.failures.len()
        );
    }
}

#[test]
fn a_ratio_at_its_threshold_a_nan_and_a_wrong_info_fail() {
    let fails = |note: fn(&mut Tally)| {
        let mut tally = Tally::new(Share::All);
        note(&mut tally);
        !tally.failures.is_empty()
    };
    assert!(!fails(|tally| tally.ratio("potrf", (29.0, 1.0), 30.0, "")));
    assert!(!fails(|tally| tally.ratio("potrf", (0.0, 0.0), 30.0, "")));
    assert!(fails(|tally| tally.ratio("potrf", (30.0, 1.0), 30.0, "")));
    assert!(fails(|tally| tally.ratio(
        "potrf",
        (f64::NAN, 1.0),
        30.0,
        ""
    )));
    assert!(fails(|tally| tally.ratio(
        "potrf",
        (1.0, f64::NAN),
        30.0,
        ""
    )));
    assert!(fails(|tally| tally.ratio(
        "potrf",
        (f64::INFINITY, 1.0),
        30.0,
        ""
    )));
    assert!(fails(|tally| tally.info("potrf", 0, 1, "")));
}
