//! Turns: contestants run one after the other, round after round, each round beginning with another one;
//! then a row for each, and one that is kept.

use super::Outcome;
use super::kept::{Row, Unit};
use super::statistics::quartiles;
use dataflow::Runtime;
use dataflow::prelude::TaskSpace;
use std::time::Instant;

/// Somebody's run.
pub struct Contestant<'r> {
    name: String,
    is_ours: bool,
    /// Tells its seconds.
    run: Box<dyn FnMut() -> Outcome<f64> + 'r>,
}

impl<'r> Contestant<'r> {
    /// A run of tasks.
    pub fn ours(name: String, run: impl FnMut() -> Outcome<f64> + 'r) -> Self {
        Contestant {
            name,
            is_ours: true,
            run: Box::new(run),
        }
    }

    /// A run of something else.
    pub fn other(name: String, run: impl FnMut() -> Outcome<f64> + 'r) -> Self {
        Contestant {
            is_ours: false,
            ..Contestant::ours(name, run)
        }
    }
}

/// Work by rayon's loops, on so many threads.
pub fn loops<'r>(
    name: &str,
    threads: usize,
    mut work: impl FnMut() + Send + 'r,
) -> Outcome<Contestant<'r>> {
    let pool = rayon::ThreadPoolBuilder::new();
    let pool = pool.num_threads(threads).build()?;
    let run = move || {
        let start = Instant::now();
        pool.install(&mut work);
        Ok(start.elapsed().as_secs_f64())
    };
    let name = format!("{name}, rayon, {threads} threads");
    Ok(Contestant::other(name, run))
}

/// A space, on so many workers.
pub fn tasks<'r>(
    name: &str,
    workers: usize,
    space: impl TaskSpace + 'r,
) -> Outcome<Contestant<'r>> {
    let runtime = Runtime::builder().threads(workers).build()?;
    let run = move || Ok(runtime.run(&space)?.seconds);
    Ok(Contestant::ours(format!("{name}, {workers} workers"), run))
}

/// Runs all in turn and prints their medians; `work` is counted in `unit`s, rates are compared with the
/// contestant of that number. Answers the fastest of ours beside the fastest other.
pub fn turns(
    title: &str,
    (work, unit): (f64, &str),
    rounds: usize,
    beside: usize,
    mut contestants: Vec<Contestant>,
) -> Outcome<Row> {
    let mut seconds = vec![Vec::new(); contestants.len()];
    // The first round warms up.
    for round in 0..=rounds {
        for place in 0..contestants.len() {
            let place = (place + round) % contestants.len();
            let took = (contestants[place].run)()?;
            if round > 0 {
                seconds[place].push(took);
            }
        }
    }
    println!("\n{title:46}   seconds       ±  {unit:>16}  beside");
    let (anchor, _) = quartiles(&seconds[beside]);
    let mut rows = Vec::new();
    for (Contestant { name, is_ours, .. }, seconds) in contestants.iter().zip(&seconds) {
        let (median, spread) = quartiles(seconds);
        let (rate, ratio) = (work / median, anchor / median);
        println!("{name:46}  {median:8.5}  {spread:6.4}  {rate:16.4e}  {ratio:6.3}");
        rows.push((name, is_ours, median, spread));
    }
    let fastest = |ours: bool| {
        let of = rows.iter().filter(|(_, is_ours, ..)| **is_ours == ours);
        of.min_by(|(.., a, _), (.., b, _)| a.total_cmp(b))
    };
    let Some((_, _, ours, spread)) = fastest(true) else {
        return Err(format!("{title}: nobody of ours").into());
    };
    Ok(Row {
        what: title.into(),
        unit: Unit::Milliseconds,
        ours: ours * 1e3,
        spread: Some(spread * 1e3),
        other: fastest(false).map(|(name, _, median, _)| (name.to_string(), median * 1e3)),
        limit: None,
    })
}
