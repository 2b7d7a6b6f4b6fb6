//! Clocks: how far the clocks of ranks are apart, by messages there and back.
//!
//! # Source
//! Cristian, *Probabilistic clock synchronization*, Distributed Computing 3 (1989).

use dataflow_core::prelude::*;
use dataflow_core::trace::Skew;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Messages to each rank: the shortest way of so many is within a tenth of the shortest of all.
const TRIPS: u32 = 32;

task_names! {
    /// Rank 0 asks for the time, a rank answers; at last rank 0 has heard all.
    pub(crate) enum Trip { Ask { rank, trip }, Answer { rank, trip } }
}
use Trip::{Answer, Ask};

/// Asks each rank for its time, one after the other.
pub(crate) struct Clocks {
    n_ranks: u32,
    /// By rank: when asked, what was answered, when that came.
    trips: Vec<Mutex<Vec<[u64; 3]>>>,
}

const TIME: usize = 0;

impl Clocks {
    pub fn new(n_ranks: usize) -> Self {
        Clocks {
            n_ranks: n_ranks as u32,
            trips: (0..n_ranks).map(|_| Mutex::default()).collect(),
        }
    }

    /// Adds what was found to what is known; on rank 0.
    pub fn add_to(self, skews: &mut Vec<Skew>) {
        skews.resize(self.trips.len(), Skew::default());
        for (skew, trips) in skews.iter_mut().zip(self.trips) {
            let trips = trips
                .into_inner()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            // The last question has no answer.
            skew.add(trips.into_iter().filter(|trip| trip[2] > 0));
        }
    }

    /// The question after another; `None` after the last.
    fn next(&self, rank: u32, trip: u32) -> Option<Trip> {
        match trip < TRIPS {
            true => Some(Ask {
                rank,
                trip: trip + 1,
            }),
            false if rank + 1 < self.n_ranks => Some(Ask {
                rank: rank + 1,
                trip: 0,
            }),
            false => None,
        }
    }

    fn with_trips(&self, rank: u32, change: impl FnOnce(&mut Vec<[u64; 3]>)) {
        let trips = self.trips[rank as usize].lock();
        change(&mut trips.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let date = SystemTime::now().duration_since(UNIX_EPOCH);
    date.map_or(0, |date| date.as_nanos() as u64)
}

impl TaskSpace for Clocks {
    type Task = Trip;
    type Datum = u64;

    fn describe(&self, about: &mut Description) {
        about.name("clocks").parameter("ranks", self.n_ranks);
        about.class("Ask").optional("TIME").new_flow("ASKED");
        about.class("Answer").update("TIME");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Trip> + Send {
        let each = move |rank| {
            let asks = (0..=TRIPS).map(move |trip| Ask { rank, trip });
            asks.chain((0..TRIPS).map(move |trip| Answer { rank, trip }))
        };
        (1..self.n_ranks)
            .flat_map(each)
            .filter(move |&trip| self.rank(trip) == on)
    }

    fn inputs(&self, task: Trip, from: &mut impl Inputs<Self>) {
        match task {
            Ask { rank: 1, trip: 0 } => {}
            Ask { rank, trip: 0 } => from.task(
                TIME,
                Ask {
                    rank: rank - 1,
                    trip: TRIPS,
                },
                1,
            ),
            Ask { rank, trip } => from.task(
                TIME,
                Answer {
                    rank,
                    trip: trip - 1,
                },
                TIME,
            ),
            Answer { rank, trip } => from.task(TIME, Ask { rank, trip }, 1),
        }
    }

    fn successors(&self, task: Trip, to: &mut impl Successors<Self>) {
        match task {
            Ask { rank, trip } if trip < TRIPS => to.task(1, Answer { rank, trip }, TIME),
            Ask { rank, trip } => {
                self.next(rank, trip)
                    .into_iter()
                    .for_each(|next| to.task(1, next, TIME));
            }
            Answer { rank, trip } => to.task(
                TIME,
                Ask {
                    rank,
                    trip: trip + 1,
                },
                TIME,
            ),
        }
    }

    fn run(&self, task: Trip, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
        match task {
            Ask { rank, trip } => {
                let [time, asked] = flows.slots();
                let came = now();
                self.with_trips(rank, |trips| {
                    if let (Some(last), Some(answered)) = (trips.last_mut(), time.get()) {
                        (last[1], last[2]) = (*answered, came);
                    }
                    if trip < TRIPS {
                        trips.push([now(), 0, 0]);
                    }
                });
                asked.put(0);
            }
            Answer { .. } => {
                let [time] = flows.slots();
                *time.update() = now();
            }
        }
        Ok(())
    }

    fn rank(&self, task: Trip) -> Rank {
        match task {
            Ask { .. } => Rank(0),
            Answer { rank, .. } => Rank(rank),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_questions_are_proved_for_1_to_4_ranks() {
        for n_ranks in 1..=4 {
            let clocks = Clocks::new(n_ranks);
            verify(&clocks, n_ranks as u32).unwrap_or_else(|fault| panic!("{n_ranks}: {fault}"));
        }
    }

    #[test]
    fn ranks_that_have_one_clock_are_found_to_have_one() {
        let skews = crate::launch(crate::Runtime::builder().ranks(3).threads(1), |runtime| {
            let clocks = Clocks::new(3);
            runtime.run_across(&clocks)?;
            let mut skews = Vec::new();
            clocks.add_to(&mut skews);
            Ok::<_, crate::Error>(skews)
        });
        for skew in &skews.unwrap()[1..] {
            let ahead = skew.ahead(now()).unsigned_abs();
            assert!(skew.error() > 0 && ahead <= skew.error(), "{skew:?}");
        }
    }
}
