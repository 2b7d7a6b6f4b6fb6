//! Protocol: what opening a run, telling many ranks and closing it take when there are very many.
//!
//! Rank 0 tells so many ranks a tile; a column of tasks on each rank then exchanges halos with its
//! neighbours, step by step.

use super::machine::Machine;
use super::run::{Cost, resident};
use super::world::{Outcome, on_ranks};
use dataflow::core::phantom::Length;
use dataflow::core::port::{Context, Courier, Lengths, Memory};
use dataflow::core::run_across;
use dataflow::mpi::transport::simulated::{VirtualWorkers, World, spend};
use dataflow::mpi::{Counters, Drive, Settings};
use dataflow::prelude::*;
use dataflow::task_names;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

task_names! {
    /// Rank 0 tells; then a column at each step.
    pub enum Event { Tell { number }, At { step, column } }
}
use Event::{At, Tell};

/// What is to be told to how many, and how many steps follow.
#[derive(Clone, Copy)]
pub struct Question {
    pub n_ranks: u32,
    pub told: u32,
    pub steps: u32,
}

/// Virtual time at which things were over, since the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The last of the ranks that are not told anything runs its first task; `None` if all are told.
    pub opened: Option<Duration>,
    /// The datum was made, and the last rank that is told begins.
    pub made: Duration,
    pub told: Duration,
    /// The last task has ended, and the last rank has left the run.
    pub computed: Duration,
    pub closed: Duration,
    pub counters: Counters,
    pub tasks: u64,
    pub cost: Cost,
}

const BODY: Duration = Duration::from_micros(100);
const HALO: Length = Length::new(64 << 10);
/// A tile of order 1000.
const TILE: Length = Length::new(8_000_000);

/// The latest moments, in nanoseconds.
#[derive(Default)]
struct Moments {
    opened: AtomicU64,
    made: AtomicU64,
    told: AtomicU64,
    computed: AtomicU64,
}

/// The space; its bodies note when they run.
struct Halos {
    asked: Question,
    world: World,
    moments: Arc<Moments>,
}

const WEST: usize = 0;
const OWN: usize = 1;
const EAST: usize = 2;
const TOLD: usize = 3;
const SHOWN: usize = 4;

impl Halos {
    /// The columns beside one, and itself, each with the flow by which a column gets what it shows.
    fn beside(&self, column: u32) -> impl Iterator<Item = (usize, u32)> {
        let west = column.checked_sub(1).map(|west| (WEST, west));
        let east = (column + 1 < self.asked.n_ranks).then_some((EAST, column + 1));
        [west, Some((OWN, column)), east].into_iter().flatten()
    }

    fn note(&self, moment: &AtomicU64, later: Duration) {
        let at = (self.world.now() + later).as_nanos() as u64;
        moment.fetch_max(at, Ordering::Relaxed);
    }
}

impl TaskSpace for Halos {
    type Task = Event;
    type Datum = Length;

    fn describe(&self, about: &mut Description) {
        about.name("halos").class("Tell").new_flow("TILE");
        let at = about
            .class("At")
            .optional("WEST")
            .optional("OWN")
            .optional("EAST");
        at.optional("TOLD").new_flow("SHOWN");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Event> + Send {
        let tell = (on.0 == 0).then_some(Tell { number: 0 });
        let steps = (0..self.asked.steps).map(move |step| At { step, column: on.0 });
        tell.into_iter().chain(steps)
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Event> + Send {
        let tell = (on.0 == 0).then_some(Tell { number: 0 });
        let first = At {
            step: 0,
            column: on.0,
        };
        tell.into_iter()
            .chain((on.0 >= self.asked.told).then_some(first))
    }

    fn count(&self, on: Rank) -> u64 {
        u64::from(self.asked.steps) + u64::from(on.0 == 0)
    }

    fn inputs(&self, task: Event, from: &mut impl Inputs<Self>) {
        let At { step, column } = task else { return };
        match step.checked_sub(1) {
            None if column < self.asked.told => from.task(TOLD, Tell { number: 0 }, 0),
            None => {}
            Some(step) => {
                let beside = self.beside(column);
                beside.for_each(|(flow, column)| from.task(flow, At { step, column }, SHOWN));
            }
        }
    }

    fn successors(&self, task: Event, to: &mut impl Successors<Self>) {
        match task {
            Tell { .. } => to.range(0, 0..self.asked.told, |column| At { step: 0, column }, TOLD),
            At { step, column } if step + 1 < self.asked.steps => {
                let step = step + 1;
                // What lies to the west gets this from its east.
                let beside = self.beside(column);
                beside.for_each(|(flow, column)| {
                    to.task(SHOWN, At { step, column }, EAST - flow);
                });
            }
            At { .. } => {}
        }
    }

    fn run(&self, task: Event, flows: &mut Flows<'_, Length>) -> Result<(), TaskError> {
        match task {
            Tell { .. } => {
                self.note(&self.moments.made, BODY);
                let [tile] = flows.slots::<1>();
                tile.put(TILE);
            }
            At { step, column } => {
                let moments = &self.moments;
                if step == 0 && column < self.asked.told {
                    self.note(&moments.told, Duration::ZERO);
                } else if step == 0 {
                    self.note(&moments.opened, Duration::ZERO);
                }
                self.note(&moments.computed, BODY);
                let [.., shown] = flows.slots::<5>();
                shown.put(HALO);
            }
        }
        spend(BODY);
        Ok(())
    }

    fn rank(&self, task: Event) -> Rank {
        match task {
            Tell { .. } => Rank(0),
            At { column, .. } => Rank(column),
        }
    }
}

impl Question {
    pub fn simulate(self, machine: &Machine) -> Outcome<Answer> {
        let (start, before) = (Instant::now(), resident());
        let moments: Arc<Moments> = Arc::default();
        let noted = moments.clone();
        let settings = Settings {
            drive: Drive::Workers,
            ..Settings::default()
        };
        let lengths = |_| -> Arc<dyn Memory> { Arc::new(Lengths) };
        let weather = machine.weather(self.n_ranks as usize, 1);
        let ran = on_ranks(
            weather,
            self.n_ranks,
            &settings,
            lengths,
            move |world, messenger| {
                let halos = Halos {
                    asked: self,
                    world: world.clone(),
                    moments: noted.clone(),
                };
                let workers = VirtualWorkers::lean(world, messenger.rank(), 1);
                run_across(&halos, &Context::new(&workers).across(messenger))?;
                let grown = if messenger.rank().0 == 0 {
                    resident()
                } else {
                    0
                };
                Outcome::Ok((world.now(), messenger.totals(), grown))
            },
        )?;
        let ends = ran.into_iter().collect::<Outcome<Vec<_>>>()?;
        let at = |moment: &AtomicU64| Duration::from_nanos(moment.load(Ordering::Relaxed));
        Ok(Answer {
            opened: (self.told < self.n_ranks).then(|| at(&moments.opened)),
            made: at(&moments.made),
            told: at(&moments.told),
            computed: at(&moments.computed),
            closed: ends.iter().map(|end| end.0).max().unwrap_or_default(),
            counters: ends.first().map(|end| end.1).unwrap_or_default(),
            tasks: u64::from(self.n_ranks) * u64::from(self.steps) + 1,
            cost: Cost {
                seconds: start.elapsed().as_secs_f64(),
                bytes: ends
                    .iter()
                    .map(|end| end.2)
                    .max()
                    .unwrap_or(0)
                    .saturating_sub(before),
            },
        })
    }
}
