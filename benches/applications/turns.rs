//! Turns: contestants run one after the other, round after round, each round beginning with another one;
//! then a row for each.

use super::Outcome;
use super::statistics::quartiles;
use dataflow::Runtime;
use dataflow::prelude::TaskSpace;
use std::time::Instant;

/// A name and a run that tells its seconds.
pub type Contestant<'r> = (String, Box<dyn FnMut() -> Outcome<f64> + 'r>);

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
    Ok((format!("{name}, rayon, {threads} threads"), Box::new(run)))
}

/// A space, on so many workers.
pub fn tasks<'r>(
    name: &str,
    workers: usize,
    space: impl TaskSpace + 'r,
) -> Outcome<Contestant<'r>> {
    let runtime = Runtime::builder().threads(workers).build()?;
    let run = move || Ok(runtime.run(&space)?.seconds);
    Ok((format!("{name}, {workers} workers"), Box::new(run)))
}

/// Runs all in turn and prints their medians; `work` is counted in `unit`s, rates are compared with the
/// contestant of that number.
pub fn turns(
    title: &str,
    (work, unit): (f64, &str),
    rounds: usize,
    beside: usize,
    mut contestants: Vec<Contestant>,
) -> Outcome {
    let mut seconds = vec![Vec::new(); contestants.len()];
    // The first round warms up.
    for round in 0..=rounds {
        for place in 0..contestants.len() {
            let place = (place + round) % contestants.len();
            let took = contestants[place].1()?;
            if round > 0 {
                seconds[place].push(took);
            }
        }
    }
    println!("\n{title:46}   seconds       ±  {unit:>16}  beside");
    let (anchor, _) = quartiles(&seconds[beside]);
    for ((name, _), seconds) in contestants.iter().zip(&seconds) {
        let (median, spread) = quartiles(seconds);
        let (rate, ratio) = (work / median, anchor / median);
        println!("{name:46}  {median:8.5}  {spread:6.4}  {rate:16.4e}  {ratio:6.3}");
    }
    Ok(())
}
