//! The real engine on virtual workers: bodies spend virtual time side by side.

use dataflow_core::prelude::*;
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::simulated::{VirtualWorkers, Weather, World, spend};
use std::time::Duration;

/// `n` tasks without edges, a second each.
struct Seconds(u64);

impl TaskSpace for Seconds {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about.name("seconds").class("Second");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.0
    }
    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        spend(Duration::from_secs(1));
        Ok(())
    }
}

#[test]
fn tasks_of_a_second_take_their_number_by_workers_in_virtual_time() {
    for (n_tasks, n_workers, seconds) in [(8, 4, 2), (9, 4, 3), (5, 1, 5), (3, 8, 1)] {
        for workers in [VirtualWorkers::new, VirtualWorkers::lean] {
            let world = World::new(Weather::default());
            let inside = world.clone();
            let tasks = world.run(2, move |rank| {
                let workers = workers(&inside, rank, n_workers);
                dataflow_core::run(&Seconds(n_tasks), &workers)
                    .unwrap()
                    .tasks
            });
            assert_eq!(tasks.unwrap(), [n_tasks, n_tasks]);
            assert_eq!(
                world.now(),
                Duration::from_secs(seconds),
                "{n_tasks} on {n_workers}"
            );
        }
    }
}
