//! Runs: microseconds of a whole run of next to nothing, one after another, so that nobody sleeps.
//!
//! On several ranks the others take part; what rank 0 measured counts. Two ranks of one worker are four
//! threads that want a core now and then: the two that call, and the two that work.

use super::{Crew, Outcome, quartiles};
use dataflow::core::data::Store;
use dataflow::core::space::Independent;
use dataflow::prelude::*;
use dataflow::{Runtime, launch};
use std::time::Instant;

/// What is measured, and how long each of it took.
type Times = (String, Vec<f64>);

/// Measures so many of each, and prints medians.
pub fn measure(crews: &[Crew; 2], times: u32) -> Outcome {
    let mut rows: Vec<Times> = Vec::new();
    for crew in crews {
        let (runtime, n) = (&crew.runtime, crew.n_threads());
        let one = Independent::new("one", 1, |_| Ok(()));
        let run = each(times, || runtime.run(&one).map(drop))?;
        rows.push((format!("dataflow, one task on {n} workers"), run));
        let scope = each(times, || runtime.scope(|s| s.task((), |()| ())).map(drop))?;
        rows.push((
            format!("dataflow, a scope of one task on {n} workers"),
            scope,
        ));
        let install = each(times, || {
            crew.pool.install(|| ());
            Ok(())
        })?;
        rows.push((format!("rayon, install on {n} threads"), install));
    }
    for n_ranks in [1, 2] {
        let settings = Runtime::builder().threads(1).ranks(n_ranks);
        rows.extend(launch(settings, |runtime| across(runtime, times))?);
    }
    println!("\nruns: microseconds of a whole run, {times} one after another");
    for (name, times) in rows {
        let (median, spread) = quartiles(&times);
        println!("{name:48} {median:8.1} ± {spread:.1}");
    }
    Ok(())
}

/// What ranks do together.
fn across(runtime: &Runtime, times: u32) -> Result<Vec<Times>, Error> {
    let n_ranks = runtime.n_ranks();
    let numbers = Store::new("numbers", vec![0u64; n_ranks]);
    let own = |datum: usize| Rank(datum as u32);
    let gather = each(times, || runtime.gather(vec![0; 8]).map(drop))?;
    let collect = each(times, || runtime.collect(&numbers, own, Rank(0)).map(drop))?;
    Ok(vec![
        (format!("dataflow, gather on {n_ranks} ranks"), gather),
        (
            format!("dataflow, collect on {n_ranks} ranks, by workers"),
            collect,
        ),
    ])
}

/// How long it takes each time, in microseconds; the first tenth does not count.
fn each(times: u32, mut what: impl FnMut() -> Result<(), Error>) -> Result<Vec<f64>, Error> {
    let mut found = Vec::new();
    for turn in 0..times + times / 10 {
        let start = Instant::now();
        what()?;
        if turn >= times / 10 {
            found.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(found)
}
