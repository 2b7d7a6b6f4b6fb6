//! Options: PARSEC's list by formula, its input files, its output files.

use common::cli::Failure;
use dataflow::core::words::counted;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A European option on a share without dividends, and what a file says it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contract {
    pub spot: f64,
    pub strike: f64,
    /// A year's, continuous.
    pub rate: f64,
    /// Of a year.
    pub volatility: f64,
    /// Years until it ends.
    pub time: f64,
    pub is_put: bool,
    /// The price that a file carries for comparison.
    pub reference: Option<f64>,
}

/// So many options: a list, over and over.
#[derive(Clone, Debug)]
pub struct Options {
    pub list: Vec<Contract>,
    pub count: usize,
}

impl Options {
    /// The first options of PARSEC's inputs, which repeat a list of 1000.
    pub fn of_parsec(count: usize) -> Self {
        let list = parsec();
        Options { list, count }
    }

    /// Option number `index`.
    pub fn get(&self, index: usize) -> Contract {
        self.list[index % self.list.len()]
    }

    /// Reads an input file of PARSEC's: the number of options, then for each a line of spot, strike,
    /// rate, dividend, volatility, time, `P` or `C`, dividends and reference price.
    ///
    /// # Errors
    /// If it cannot be read, or a line is not such; the line is named.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let unread = |error| Failure::input_unreadable(path, error);
        let text = std::fs::read_to_string(path).map_err(unread)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let malformed = |(line, text): (usize, String)| {
            let text = format!("{}, line {line}: {text}", path.display());
            Failure::malformed_input(text).with_index(line as u64)
        };
        let list = parse(text).map_err(malformed)?;
        let count = list.len();
        Ok(Options { list, count })
    }
}

/// The options of a file, or the line that is wrong and why.
fn parse(text: &str) -> Result<Vec<Contract>, (usize, String)> {
    let mut lines = (1..).zip(text.lines());
    let first = lines.next().map_or("", |(_, line)| line).trim();
    let count: usize = first
        .parse()
        .map_err(|_| (1, format!("`{first}` must be the number of options")))?;
    if count == 0 {
        return Err((1, "there are 0 options, there must be at least 1".into()));
    }
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(number, line)| contract(line).map_err(|text| (number, text)));
    let list: Vec<_> = read.collect::<Result<_, _>>()?;
    match list.len() {
        found if found == count => Ok(list),
        found => {
            let (are, count) = (
                if count == 1 { "is" } else { "are" },
                counted(count, "option"),
            );
            Err((1, format!("{count} {are} announced, {found} follow")))
        }
    }
}

fn contract(line: &str) -> Result<Contract, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [spot, strike, rate, _, volatility, time, kind, _, reference] = words[..] else {
        return Err(format!(
            "has {}, must have 9",
            counted(words.len(), "field")
        ));
    };
    let number = |name: &str, word: &str| match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("{name} is `{word}`, must be a number")),
    };
    let positive = |name: &str, word: &str| match number(name, word)? {
        value if value >= f64::from(f32::MIN_POSITIVE) => Ok(value),
        value => Err(format!("{name} is {value}, must be positive")),
    };
    Ok(Contract {
        spot: positive("the spot", spot)?,
        strike: positive("the strike", strike)?,
        rate: number("the rate", rate)?,
        volatility: positive("the volatility", volatility)?,
        time: positive("the time", time)?,
        is_put: match kind {
            "P" => true,
            "C" => false,
            other => return Err(format!("the type is `{other}`, must be P or C")),
        },
        reference: Some(number("the reference price", reference)?),
    })
}

/// Writes prices as PARSEC does: their number, then one a line.
pub fn write(prices: impl ExactSizeIterator<Item = f64>, to: impl Write) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    writeln!(to, "{}", prices.len())?;
    for price in prices {
        writeln!(to, "{price:.18}")?;
    }
    to.flush()
}

// ── The list ─────────────────────────────────────────────────────────────────────────────────────

/// Spots, and the strikes of each.
const STRIKES: [(f64, [f64; 3]); 2] = [(100.0, [90.0, 100.0, 110.0]), (50.0, [41.25, 50.0, 60.75])];

/// Volatility and time of options that come in pairs.
#[rustfmt::skip]
const PAIRS: [(f64, f64); 6] =
    [(0.05, 0.05), (0.15, 0.15), (0.25, 0.25), (0.35, 0.35), (0.45, 0.4), (0.65, 0.75)];

/// Calls and puts at each spot, with the strikes there.
fn kinds() -> impl Iterator<Item = (f64, [f64; 3], bool)> {
    let both = |(spot, strikes)| [false, true].map(move |is_put| (spot, strikes, is_put));
    STRIKES.into_iter().flat_map(both)
}

/// The 1000 options that the inputs of PARSEC 3.0 repeat, 821 of them distinct.
fn parsec() -> Vec<Contract> {
    let option = |spot, strike, rate, volatility, time, is_put| Contract {
        spot,
        strike,
        rate,
        volatility,
        time,
        is_put,
        reference: None,
    };
    let mut list = vec![
        option(42.0, 40.0, 0.1, 0.2, 0.5, false),
        option(42.0, 40.0, 0.1, 0.2, 0.5, true),
        option(100.0, 100.0, 0.05, 0.15, 1.0, true),
        option(100.0, 100.0, 0.05, 0.15, 1.0, false),
        option(60.0, 65.0, 0.08, 0.3, 0.25, false),
    ];
    let mut over = |rates: &[f64], times: &[f64]| {
        for &rate in rates {
            for (spot, strikes, is_put) in kinds() {
                for volatility in [0.1, 0.25, 0.5] {
                    for strike in strikes {
                        let each = times.iter();
                        list.extend(
                            each.map(|&time| option(spot, strike, rate, volatility, time, is_put)),
                        );
                    }
                }
            }
        }
    };
    over(&[0.1, 0.0275, 0.05, 0.0725, 0.0825], &[0.1, 0.5, 1.0]);
    over(&[0.0275], &[0.05, 0.15, 0.25, 0.35, 0.4, 0.75]);
    for (spot, strikes, is_put) in kinds() {
        for strike in [strikes; 3].concat() {
            let paired = PAIRS.iter();
            list.extend(paired.map(|&(v, time)| option(spot, strike, 0.0275, v, time, is_put)));
        }
    }
    let last = PAIRS[2..5].iter();
    list.extend(last.map(|&(v, time)| option(50.0, 60.75, 0.0275, v, time, true)));
    list.extend_from_within(21..41);
    list
}
