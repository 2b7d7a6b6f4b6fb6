//! Swaptions: 20,000 trials of each, in chunks of the default size.

use super::{HOSTS, Outcome, Row, row};
use applications::swaptions::contract::{Par, Swaption};
use applications::swaptions::space::{Simulation, Task, default_chunk};

pub fn row_of(count: usize) -> Outcome<Row> {
    let trials = 20_000;
    let title = format!("swaptions, {count} of {trials} trials");
    row(title, 0.95, move |part| {
        let (swaptions, seed) = Swaption::of_parsec(count);
        let claims = swaptions
            .iter()
            .map(|of| (of.model(), of.claim(Par::NeverRepaid)));
        let chunk = default_chunk(trials);
        let space = Simulation::new(claims.collect(), seed, trials, chunk, HOSTS as usize);
        let simulated = |task| match task {
            Task::Simulate { c, .. } => chunk.min(trials - u64::from(c) * chunk),
            Task::Reduce { .. } => 0,
        };
        part.of(&space, &|_, _| 0, &|task| simulated(task) as f64)
    })
}
