//! The real engine on virtual workers: bodies spend virtual time side by side.

use dataflow_core::prelude::*;
use dataflow_core::rank::Rank;
use dataflow_core::sequence::{Scope, TaskWindow, scope, write};
use dataflow_mpi::transport::simulated::{VirtualWorkers, Weather, World, spend};
use std::time::Duration;

/// `n` tasks of a second each; if they come in two rows, a first one feeds all others.
struct Seconds {
    n: u64,
    two_rows: bool,
}

impl TaskSpace for Seconds {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        about.name("seconds").class("Second").order("AFTER");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.n
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if self.two_rows && task > 0 {
            from.task(0, 0, 0);
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if self.two_rows && task == 0 {
            (1..self.n).for_each(|next| to.task(0, next, 0));
        }
    }
    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        spend(Duration::from_secs(1));
        Ok(())
    }
}

/// How long a run of so many takes, on two ranks each by itself.
fn lasts(
    n: u64,
    two_rows: bool,
    workers: fn(&World, Rank, usize) -> VirtualWorkers,
    n_workers: usize,
) -> Duration {
    let world = World::new(Weather::default());
    let inside = world.clone();
    let tasks = world.run(2, move |rank| {
        let workers = workers(&inside, rank, n_workers);
        let space = Seconds { n, two_rows };
        dataflow_core::run(&space, &workers).unwrap().tasks
    });
    assert_eq!(tasks.unwrap(), [n, n]);
    world.now()
}

#[test]
fn tasks_of_a_second_take_their_number_by_workers_in_virtual_time() {
    for (n_tasks, n_workers, seconds) in [(8, 4, 2), (9, 4, 3), (5, 1, 5), (3, 8, 1)] {
        for workers in [VirtualWorkers::new, VirtualWorkers::lean] {
            let lasted = lasts(n_tasks, false, workers, n_workers);
            assert_eq!(lasted.as_secs(), seconds, "{n_tasks} on {n_workers}");
        }
    }
}

/// They have nothing to run at first, and fall asleep.
#[test]
fn workers_that_sleep_are_woken_for_what_another_makes_ready() {
    for (n_tasks, n_workers, seconds) in [(5, 4, 2), (6, 4, 3), (4, 2, 3)] {
        for workers in [VirtualWorkers::new, VirtualWorkers::lean] {
            let lasted = lasts(n_tasks, true, workers, n_workers);
            assert_eq!(lasted.as_secs(), seconds, "{n_tasks} on {n_workers}");
        }
    }
}

/// What a program saw at which second of the virtual time, on so many workers.
fn seen(n_workers: usize, on: fn(Weather) -> World, program: Program) -> Vec<(u64, Option<u64>)> {
    let world = on(Weather::default());
    let inside = world.clone();
    let seen = world.run(1, move |rank| {
        let workers = VirtualWorkers::new(&inside, rank, n_workers);
        scope(&workers, |s| program(s, &inside)).unwrap().0
    });
    seen.unwrap().remove(0)
}

type Program = fn(&Scope<'_, '_>, &World) -> Vec<(u64, Option<u64>)>;

fn lasts_seconds(seconds: u64) -> u64 {
    spend(Duration::from_secs(seconds));
    seconds
}

/// The program's worker slept in real time, and so nobody's went on.
#[test]
fn a_program_waits_for_a_datum_in_virtual_time_until_the_task_has_ended() {
    let program: Program = |s, clock| {
        let data = s.handles([0; 3]);
        for (datum, seconds) in data.iter().zip([1, 2, 4]) {
            s.task(write(datum), move |datum| *datum = lasts_seconds(seconds));
        }
        let look = |datum| (s.wait(datum, |datum| *datum), clock.now().as_secs());
        let seen = data.iter().map(look).map(|(datum, at)| (at, datum));
        seen.collect()
    };
    for on in [World::new, World::on_threads] {
        let [one, three] = [1, 3].map(|n_workers| seen(n_workers, on, program));
        assert_eq!(one, [(1, Some(1)), (3, Some(2)), (7, Some(4))]);
        assert_eq!(three, [(1, Some(1)), (2, Some(2)), (4, Some(4))]);
    }
}

/// As it is for the one that runs longest, which another worker has taken.
#[test]
fn a_program_whose_window_is_exceeded_goes_on_in_virtual_time() {
    let program: Program = |s, clock| {
        let (tasks, bytes) = (64, 100);
        s.set_window(TaskWindow { tasks, bytes });
        for (seconds, priority) in [(5, 0), (1, 1)] {
            let insertion = s.name("seconds").priority(priority).bytes(60);
            insertion.task((), move |()| _ = lasts_seconds(seconds));
        }
        s.task((), |()| ());
        vec![(clock.now().as_secs(), None)]
    };
    assert_eq!(seen(1, World::new, program), [(6, None)]);
    assert_eq!(seen(2, World::new, program), [(5, None)]);
}
