//! Blackscholes at the size of paper 004: each option 500 times, in blocks of 1024, of which it says nothing.

use super::{HOSTS, Outcome, Row, row};
use applications::blackscholes::options::Options;
use applications::blackscholes::price::Formula;
use applications::blackscholes::space::{Pricing, Task};

pub fn row_of(count: usize) -> Outcome<Row> {
    let (nb, repeats) = (1024, 500);
    let title = format!("blackscholes, {count} options, {repeats} times");
    row(title, 0.95, move |part| {
        let options = Options::of_parsec(count);
        let space = Pricing::<f64>::new(&options, nb, Formula::Exact, repeats, HOSTS as usize);
        let priced = |task| match task {
            Task::Price { b } => nb.min(count - b as usize * nb),
            Task::Gather { .. } => 0,
        };
        let bytes = |task, _| (priced(task) * size_of::<f64>()) as u64;
        part.of(&space, &bytes, &|task| (priced(task) * repeats) as f64)
    })
}
