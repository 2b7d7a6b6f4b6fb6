//! The example `blackscholes`: its prices, its functions, its graph, its files.

#[path = "../edges/mod.rs"]
mod edges;
#[path = "../../crates/dataflow-core/tests/specimen/mod.rs"]
mod specimen;

use applications::blackscholes;
use applications::blackscholes::options::{Contract, Options};
use applications::blackscholes::price::{Batch, Formula, WIDTH, exact};
use applications::blackscholes::space::{Pricing, Task};
use applications::blackscholes::{EXAMPLE, allowed, error};
use applications::vector::{Loop, Real, dispatch};
use common::variant::{Base, Ideal};
use dataflow::core::prelude::*;
use dataflow::{Bind, Error, Runtime, launch};
use edges::every_edge_counts;
use serde_json::Value;
use specimen::{Mutant, Mutation, Specimen, Twist, mutations};
use std::collections::HashSet;
use std::path::PathBuf;

fn answer(arguments: &[&str]) -> common::cli::Answer {
    let words = ["blackscholes"].iter().chain(arguments);
    common::cli::answer(&EXAMPLE, words, blackscholes::blackscholes)
}

fn object(arguments: &[&str]) -> Value {
    let answer = answer(&[arguments, &["--json"]].concat());
    assert_eq!(answer.status, 0, "{arguments:?}: {answer:?}");
    serde_json::from_str(&answer.stdout).unwrap()
}

/// Prices of some options, in vector code.
fn prices<T: Real>(options: &[Contract], formula: Formula) -> Vec<f64> {
    let mut prices = Vec::new();
    for options in options.chunks(WIDTH) {
        let mut batch = [T::of(0.0); WIDTH];
        Batch::<T>::new(options).price(formula, &mut batch);
        prices.extend(batch[..options.len()].iter().map(|price| price.wide()));
    }
    prices
}

fn list() -> Vec<Contract> {
    Options::of_parsec(1000).list
}

fn farthest(prices: &[f64], from: &[f64]) -> f64 {
    let pairs = prices.iter().zip(from);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn parsec_repeats_a_list_of_1000_options_of_which_821_are_distinct() {
    let list = list();
    let distinct: HashSet<String> = list.iter().map(|option| format!("{option:?}")).collect();
    assert_eq!((list.len(), distinct.len()), (1000, 821));
    let options = Options::of_parsec(10_000);
    assert_eq!(options.get(9_004), list[4]);
}

#[test]
fn ten_prices_and_the_sum_of_a_thousand_are_those_that_are_known() {
    let known = [
        (4.759422392872, 4.759422997128),
        (0.808599372900, 0.808599977157),
        (3.714600762161, 3.714601868897),
        (8.591658312089, 8.591659418825),
        (2.133368444916, 2.133371861931),
        (10.895610882134, 10.895610714789),
        (14.421571264530, 14.421570827260),
        (18.630858529921, 18.630859117414),
        (1.814984086530, 1.814984078096),
        (5.850272981162, 5.850273556474),
    ];
    let [exact, polynomial] =
        [Formula::Exact, Formula::Polynomial].map(|formula| prices::<f64>(&list(), formula));
    let [first, second]: [Vec<f64>; 2] = [
        known.map(|pair| pair.0).into(),
        known.map(|pair| pair.1).into(),
    ];
    assert!(farthest(&exact, &first) < 1e-12, "{exact:?}");
    assert!(farthest(&polynomial, &second) < 1e-12, "{polynomial:?}");
    let sums = [&exact, &polynomial].map(|prices| prices.iter().sum::<f64>());
    assert!((sums[0] - 6924.727976944).abs() < 1e-9, "{sums:?}");
    assert!((sums[1] - 6924.728571773).abs() < 1e-9, "{sums:?}");
}

#[test]
fn approximate_prices_stay_within_their_bounds_and_use_them() {
    let list = list();
    let exact: Vec<f64> = list.iter().map(exact).collect();
    let double = farthest(&prices::<f64>(&list, Formula::Polynomial), &exact);
    let single = farthest(&prices::<f32>(&list, Formula::Polynomial), &exact);
    let rounded = farthest(&prices::<f32>(&list, Formula::Exact), &exact);
    assert!(
        (1e-6..allowed::<f64>(Formula::Polynomial)).contains(&double),
        "{double}"
    );
    assert!(
        (1e-6..allowed::<f32>(Formula::Polynomial)).contains(&single),
        "{single}"
    );
    assert!((1e-8..1e-4).contains(&rounded), "{rounded}");
}

#[test]
fn a_price_may_be_off_by_a_share_of_what_is_traded_not_by_an_amount() {
    for (spot, off, is_right) in [
        (0.01, 1e-9, true),
        (0.01, 1e-5, false),
        (4000.0, 5e-4, true),
        (4000.0, 5e-3, false),
    ] {
        let (strike, rate, volatility, time) = (1.025 * spot, 0.05, 0.2, 0.5);
        let option = Contract {
            spot,
            strike,
            rate,
            volatility,
            time,
            is_put: false,
            reference: None,
        };
        let error = error(&option, exact(&option) + off);
        let allowed = allowed::<f64>(Formula::Polynomial);
        assert_eq!(error <= allowed, is_right, "{spot}, {off}: {error}");
    }
    assert!(error(&list()[0], f64::NAN).is_nan());
}

#[test]
fn a_call_less_its_put_is_the_share_less_the_discounted_strike() {
    for formula in [Formula::Exact, Formula::Polynomial] {
        for option in list() {
            let [call, put] = [false, true].map(|is_put| Contract { is_put, ..option });
            let prices = prices::<f64>(&[call, put], formula);
            let parity = option.spot - option.strike * (-option.rate * option.time).exp();
            assert!((prices[0] - prices[1] - parity).abs() < 1e-12, "{option:?}");
        }
    }
}

#[test]
fn without_volatility_an_option_is_worth_what_it_pays_and_more_volatility_is_worth_more() {
    for option in list() {
        let of = |volatility, spot| Contract {
            volatility,
            spot,
            is_put: false,
            ..option
        };
        let still = prices::<f64>(&[of(1e-9, option.spot)], Formula::Polynomial)[0];
        let paid = (option.spot - option.strike * (-option.rate * option.time).exp()).max(0.0);
        assert!(
            (still - paid).abs() < 1e-5,
            "{option:?}: {still}, not {paid}"
        );
        let ever = |options: Vec<Contract>| {
            let prices = prices::<f64>(&options, Formula::Exact);
            prices.is_sorted_by(|a, b| *b >= a - 1e-12)
        };
        assert!(
            ever(
                (1..40)
                    .map(|v| of(f64::from(v) * 0.02, option.spot))
                    .collect()
            ),
            "{option:?}"
        );
        assert!(
            ever((1..40).map(|s| of(0.2, f64::from(s) * 5.0)).collect()),
            "{option:?}"
        );
    }
}

/// Both functions of many numbers at once.
struct Both<'a, T> {
    of: &'a [T],
    exponentials: &'a mut [T],
    logarithms: &'a mut [T],
}

impl<T: Real> Loop for Both<'_, T> {
    #[inline(always)]
    fn run(self) {
        let made = self.exponentials.iter_mut().zip(self.logarithms);
        for (&x, (exponential, logarithm)) in self.of.iter().zip(made) {
            *exponential = x.exponential();
            let size = if x < T::of(0.0) { -x } else { x };
            *logarithm = (size + T::of(1e-30)).logarithm();
        }
    }
}

/// The farthest of both from the standard library's, in units of the last place.
fn off<T: Real>(largest: f64, unit: f64) -> [f64; 2] {
    let numbers = (-40_000..=40_000).map(|at| f64::from(at) * largest / 40_000.0);
    let near_one = (0..1000).map(|at| 1.0 + f64::from(at - 500) * 1e-5);
    let of: Vec<T> = numbers.chain(near_one).map(T::of).collect();
    let (mut exponentials, mut logarithms) = (of.clone(), of.clone());
    dispatch(Both {
        of: &of,
        exponentials: &mut exponentials,
        logarithms: &mut logarithms,
    });
    let mut off = [0.0f64; 2];
    for (at, x) in of.iter().enumerate() {
        let argument = (T::of(x.wide().abs()) + T::of(1e-30)).wide().ln();
        let pairs = [
            (exponentials[at], x.wide().exp()),
            (logarithms[at], argument),
        ];
        for (off, (ours, theirs)) in off.iter_mut().zip(pairs) {
            if theirs != 0.0 {
                *off = off.max((ours.wide() - theirs).abs() / (theirs.abs() * unit));
            }
        }
    }
    off
}

#[test]
fn the_functions_are_within_two_units_of_the_last_place() {
    for off in [
        off::<f64>(700.0, f64::EPSILON),
        off::<f32>(86.0, f32::EPSILON.into()),
    ] {
        assert!(off.iter().all(|&off| off > 0.0 && off <= 2.0), "{off:?}");
    }
    let ends = [-1e9f64, -708.0, 709.0, 1e9].map(Real::exponential);
    assert!(ends[0] == ends[1] && ends[2] == ends[3] && ends[2].is_finite() && ends[0] > 0.0);
    assert!(f64::NAN.exponential().is_nan());
}

/// Whether all ranks run a mutant well, and rank 0 has all prices then.
fn has_all_prices(space: &Pricing<'_, f64>, mutation: &Mutation<Task>, n_ranks: u32) -> bool {
    let ranks = Runtime::builder().threads(1).bind(Bind::None);
    let ended = launch(ranks.ranks(n_ranks as usize), |runtime| {
        let mutant = Mutant::new(space, mutation);
        runtime.run_across(&mutant)?;
        Ok::<_, Error>(mutant.space().prices().is_some())
    });
    ended.unwrap_or(false)
}

impl Specimen for Pricing<'_, f64> {
    fn fresh(&self) -> Self {
        let n_ranks = self.n_ranks as usize;
        Pricing::new(self.options, self.nb, self.formula, self.repeats, n_ranks)
    }
    fn outcome(&self) -> Vec<u64> {
        Vec::new()
    }
    fn holes(&self) -> Vec<String> {
        Vec::new()
    }
    fn strangers(&self) -> Vec<Task> {
        vec![Task::Gather { b: 90 }, Task::Gather { b: 0 }]
    }
}

#[test]
fn both_ends_of_every_edge_agree_and_every_mutant_is_found() {
    for (count, nb, n_ranks) in [
        (1, 1, 1),
        (7, 2, 1),
        (7, 2, 2),
        (9, 2, 3),
        (12, 3, 4),
        (3, 1, 6),
    ] {
        let options = Options::of_parsec(count);
        let space = Pricing::<f64>::new(&options, nb, Formula::Exact, 1, n_ranks);
        let n_ranks = n_ranks as u32;
        match n_ranks {
            1 => verify(&space, 1).unwrap(), // nothing is gathered
            _ => every_edge_counts(&space, n_ranks),
        }
        every_edge_counts(&Base::new(&space), n_ranks);
        verify(&Ideal(&space), n_ranks).unwrap();
        assert!(has_all_prices(&space, &Mutation::Count(0), n_ranks));
        for mutation in mutations(&space, n_ranks, 1) {
            // What goes home elsewhere is no contradiction: it is found when prices are missing.
            let twisted_home = match mutation {
                Mutation::Output(task, _, Twist::Removed | Twist::Slot(_)) => {
                    space.rank(task) == Rank(0)
                }
                _ => false,
            };
            let is_missed = match twisted_home {
                true => has_all_prices(&space, &mutation, n_ranks),
                false => verify(&Mutant::new(&space, &mutation), n_ranks).is_ok(),
            };
            assert!(!is_missed, "{mutation:?} on {n_ranks} ranks");
        }
    }
}

#[test]
fn prices_are_the_same_for_all_threads_ranks_and_blocks() {
    let arguments = ["--options", "1500", "--repeats", "2"];
    let alone = object(&[&arguments[..], &["--threads", "1"]].concat());
    assert_eq!(
        (&alone["verified"], &alone["tasks"]),
        (&true.into(), &2.into())
    );
    for more in [
        &["--threads", "2"][..],
        &["--threads", "3", "--nb", "64"],
        &["--threads", "1", "--nb", "1"],
        &["--ranks", "2", "--nb", "100"],
        &["--ranks", "3", "--nb", "77"],
        &["--ranks", "3", "--nb", "77", "--variant", "base"],
        &["--ranks", "4", "--nb", "400"],
        &["--ranks", "5", "--nb", "10", "--threads", "1"],
        &["--ranks", "6", "--nb", "333", "--threads", "1"],
    ] {
        let told = object(&[&arguments[..], more].concat());
        assert_eq!(told["digest"], alone["digest"], "{more:?}");
        assert_eq!(
            told["messages"].as_u64() > Some(0),
            told["ranks"] != 1,
            "{told}"
        );
    }
    let single = object(&["--options", "1000", "--repeats", "1", "--precision", "f32"]);
    assert_eq!(single["verified"], true);
    let exact = object(&["--options", "1000", "--repeats", "1", "--formula", "exact"]);
    assert!(
        exact["verification_error"].as_f64() < Some(1e-12),
        "{exact}"
    );
}

#[test]
fn a_block_may_have_more_options_than_there_are() {
    let told = |nb: u64| {
        object(&[
            "--options",
            "100",
            "--repeats",
            "1",
            "--nb",
            &nb.to_string(),
        ])
    };
    let whole = told(100);
    for nb in [101, 1 << 61] {
        let told = told(nb);
        assert_eq!(told["digest"], whole["digest"], "{nb}");
        assert_eq!((&told["nb"], &told["tasks"]), (&100.into(), &1.into()));
    }
}

/// Numbers of flows that leave a rank have 16 bits, and those of prices came after those of all tasks.
#[test]
fn a_round_of_many_tasks_hands_on_what_they_made() {
    let many = [
        "--options",
        "66000",
        "--repeats",
        "1",
        "--nb",
        "1",
        "--ranks",
        "8",
    ];
    let told = |variant| object(&[&many[..], &["--threads", "1", "--variant", variant]].concat());
    let (base, graph) = (told("base"), told("graph"));
    assert_eq!(base["digest"], graph["digest"]);
    assert_eq!(
        (&base["verified"], &base["messages"]),
        (&true.into(), &57_750.into())
    );
}

#[test]
fn what_is_not_gathered_is_worth_nothing() {
    let ideal = object(&[
        "--options",
        "150",
        "--repeats",
        "1",
        "--nb",
        "40",
        "--ranks",
        "2",
        "--variant",
        "ideal",
    ]);
    assert_eq!(
        (&ideal["verified"], &ideal["messages"]),
        (&Value::Null, &0.into())
    );
    assert!(ideal["verification_error"].as_f64() > Some(1.0), "{ideal}");
}

/// A file that is gone when dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("dataflow-{}-{name}.txt", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Left over in the temporary folder if it cannot be removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn options_are_read_and_prices_written_as_parsec_does_it() {
    let lines = [
        "2",
        "42.00 40.00 0.1000 0.00 0.20 0.50 C 0.00 4.759423036851750055",
        "42.00 40.00 0.1000 0.00 0.20 0.50 P 0.00 0.808600016880314021",
    ];
    let (input, output) = (File::new("in", &lines.join("\n")), File::new("out", ""));
    let told = object(&[
        "--input",
        input.path(),
        "--output",
        output.path(),
        "--ranks",
        "2",
        "--nb",
        "1",
    ]);
    assert_eq!((&told["n"], &told["verified"]), (&2.into(), &true.into()));
    assert!(told["reference_error"].as_f64() < Some(1e-6), "{told}");
    let written = std::fs::read_to_string(&output.0).unwrap();
    let words: Vec<&str> = written.lines().collect();
    assert_eq!(
        (words.len(), words[0], words[1].len()),
        (3, "2", 20),
        "{written}"
    );
    let price: f64 = words[1].parse().unwrap();
    assert!((price - 4.759422997128).abs() < 1e-12, "{written}");
}

/// The bound was one for shares of about 100, so a right price of 4000 was called wrong; and then
/// no price was written.
#[test]
fn prices_of_shares_of_thousands_are_right_and_written() {
    let input = File::new("dear", "1\n4000 4100 0.05 0 0.2 0.5 C 0 0\n");
    for precision in ["f64", "f32"] {
        let output = File::new(precision, "");
        let told = object(&[
            "--input",
            input.path(),
            "--output",
            output.path(),
            "--precision",
            precision,
        ]);
        assert_eq!(told["verified"], true, "{told}");
        let written = std::fs::read_to_string(&output.0).unwrap();
        let price: f64 = written.lines().nth(1).unwrap().parse().unwrap();
        assert!((225.0..235.0).contains(&price), "{written}");
    }
}

#[test]
fn a_malformed_file_names_its_line() {
    let good = "42 40 0.1 0 0.2 0.5 C 0 4.76";
    for (text, expected) in [
        ("many\n", "line 1: `many` must be the number"),
        ("0\n", "line 1: there are 0 options"),
        (
            &format!("2\n{good}\n"),
            "line 1: 2 options are announced, 1 follow",
        ),
        (
            &format!("1\n{good}\n{good}\n"),
            "line 1: 1 option is announced, 2 follow",
        ),
        (
            &format!("2\n{good}\n42 40 0.1\n"),
            "line 3: has 3 fields, must have 9",
        ),
        (
            &format!("1\n{}\n", good.replace('C', "X")),
            "line 2: the type is `X`",
        ),
        (
            &format!("1\n{}\n", good.replace("0.2", "-1")),
            "line 2: the volatility is -1, must be positive",
        ),
        (
            &format!("1\n{}\n", good.replace("40", "nan")),
            "line 2: the strike is `nan`",
        ),
    ] {
        let file = File::new("bad", text);
        let told = answer(&["--input", file.path()]);
        assert_eq!((told.status, told.stdout.as_str()), (1, ""), "{told:?}");
        assert!(told.stderr.contains(expected), "{told:?}");
    }
    let refused = answer(&["--options", "5", "--input", "file.txt"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert_eq!(answer(&["--precision", "c64"]).status, 2);
}
