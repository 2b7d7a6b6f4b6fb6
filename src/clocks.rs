//! Clocks: how far the clocks of ranks are apart, by messages there and back.
//!
//! First by tasks, in a run like any other, so that a rank that is lost is noticed; then, where each
//! thread has a core, over the bare transport, where nothing else is on the way: there a message takes
//! less than a tenth of that. Ranks of one machine ask one system for the time: their clocks are one, as
//! long as no message says that they cannot be.
//!
//! # Source
//! Cristian, *Probabilistic clock synchronization*, Distributed Computing 3 (1989).

use crate::collective::Bytes;
use dataflow_core::Error;
use dataflow_core::port::{Courier, Heap, Memory};
use dataflow_core::prelude::*;
use dataflow_core::trace::Skew;
use dataflow_mpi::Messenger;
use dataflow_mpi::transport::raw::{Raw, Sendable};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Messages to each rank: the shortest way of so many is within a tenth of the shortest of all.
const TRIPS: u32 = 32;

/// Over the bare transport a rank is asked until the best way takes less than two microseconds, and so many
/// messages in a row were no shorter; and for so long at most: where others use the processors, both ranks
/// run at once in some of that time.
const SHORT: u64 = 2_000;
const IN_VAIN: u32 = 200;
const BARE_TIME: Duration = Duration::from_millis(20);

/// For how long each of so many ranks is asked over the bare transport at most. Rank 0 answers nobody until
/// all were asked: that takes no more than a quarter of the silence after which it would be lost.
fn time_for_each(n_ranks: usize, silence: Duration) -> Duration {
    let n_ranks = u32::try_from(n_ranks.max(1)).unwrap_or(u32::MAX);
    BARE_TIME.min(silence / 4 / n_ranks)
}

task_names! {
    /// Rank 0 asks for the time, a rank answers; at last rank 0 has heard all.
    pub(crate) enum Trip { Ask { rank, trip }, Answer { rank, trip } }
}
use Trip::{Answer, Ask};

/// Asks each rank for its time, one after the other.
pub(crate) struct Clocks {
    n_ranks: u32,
    /// By rank: whether its clock is that of rank 0, as far as is known.
    same: Vec<bool>,
    /// By rank: when asked, what was answered, when that came.
    trips: Vec<Mutex<Vec<[u64; 3]>>>,
}

const TIME: usize = 0;

impl Clocks {
    /// For each rank the name of its [`machine`], empty if it has none.
    pub fn new(machines: &[impl AsRef<[u8]>]) -> Self {
        let first = machines.first().map_or(&[][..], AsRef::as_ref);
        let is_first = |machine: &[u8]| !machine.is_empty() && machine == first;
        Clocks {
            n_ranks: machines.len() as u32,
            same: machines
                .iter()
                .map(|machine| is_first(machine.as_ref()))
                .collect(),
            trips: machines.iter().map(|_| Mutex::default()).collect(),
        }
    }

    /// Adds what was found to what is known; on rank 0.
    pub fn add_to(self, skews: &mut Vec<Skew>) {
        skews.resize(self.trips.len(), Skew::default());
        let of_ranks = self.trips.into_iter().zip(self.same);
        for (skew, (trips, is_same)) in skews.iter_mut().zip(of_ranks) {
            let trips = trips
                .into_inner()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            // The last question has no answer.
            let trips = trips.into_iter().filter(|trip| trip[2] > 0);
            match is_same {
                true => skew.add_same(trips),
                false => skew.add(trips),
            }
        }
    }

    /// Whether there is a clock that may be another than rank 0's.
    pub fn are_several(&self) -> bool {
        self.same.contains(&false)
    }

    /// Asks each rank whose clock may be another over the bare transport, all of them in a part of the
    /// silence after which a rank is lost; of the others only whether they are there. All ranks call this between
    /// the same two runs, and none goes on before all have come: the transport is not lent when a rank has left.
    ///
    /// # Errors
    /// If the transport loses a rank, ranks cannot go on together, or a run is open.
    pub fn ask_bare(&self, messenger: &Messenger) -> Result<(), Error> {
        let Rank(own) = messenger.rank();
        let is_asked = |rank: &u32| !self.same[*rank as usize];
        let asked = (1..self.n_ranks).filter(is_asked);
        let at_most = time_for_each(asked.count(), messenger.silence());
        let ask_all = |bare: &mut Raw<'_>| {
            for rank in 1..self.n_ranks {
                let at_most = if is_asked(&rank) {
                    at_most
                } else {
                    Duration::ZERO
                };
                self.ask(bare, rank, at_most)?;
            }
            let enough = Sendable::new(vec![ENOUGH]);
            (1..self.n_ranks).for_each(|rank| bare.send(Rank(rank), &enough));
            Ok(())
        };
        let talk = |bare: &mut Raw<'_>| match own {
            0 => ask_all(bare),
            _ => answer(bare),
        };
        messenger.bare(true, talk).flatten()
    }

    /// Asks one rank, again and again for so long at most, and keeps the shortest way.
    fn ask(&self, bare: &mut Raw<'_>, rank: u32, at_most: Duration) -> Result<(), Error> {
        let at_most = at_most.as_nanos() as u64; // no longer than `BARE_TIME`
        let more = Sendable::new(vec![MORE]);
        let (to, since) = (Rank(rank), now());
        let (mut best, mut in_vain) = (None, 0);
        let mut time = Heap.allocate(size_of::<u64>());
        let is_short =
            |best: &Option<(u64, _)>| best.as_ref().is_some_and(|(took, _)| *took < SHORT);
        loop {
            let asked = now();
            bare.send(to, &more);
            time = bare.receive(to, time)?;
            let came = now();
            let answered = time.bytes().try_into().map(u64::from_le_bytes);
            let took = came.saturating_sub(asked);
            in_vain += 1;
            if best.is_none_or(|(shortest, _)| took < shortest) {
                best = Some((took, [asked, answered.unwrap_or(0), came]));
                in_vain = 0;
            }
            let is_enough = in_vain >= IN_VAIN && is_short(&best);
            if is_enough || came.saturating_sub(since) >= at_most {
                break;
            }
        }
        self.with_trips(rank, |trips| trips.extend(best.map(|(_, trip)| trip)));
        Ok(())
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

/// What a question over the bare transport says.
const MORE: u8 = 1;
const ENOUGH: u8 = 0;

/// Answers rank 0 until it has asked enough.
fn answer(bare: &mut Raw<'_>) -> Result<(), Error> {
    let mut question = Heap.allocate(1);
    loop {
        question = bare.receive(Rank(0), question)?;
        if question.bytes() != [MORE] {
            return Ok(());
        }
        bare.send(Rank(0), &Sendable::new(now().to_le_bytes().to_vec()));
    }
}

/// The name of the machine whose system this process asks for the time, until it is started again; empty
/// if it has none.
pub(crate) fn machine() -> Vec<u8> {
    let kernel = Path::new("/proc/sys/kernel");
    let told = |name| fs::read(kernel.join(name)).unwrap_or_default();
    match told("random/boot_id") {
        boot if boot.is_empty() => boot,
        boot => [boot, told("hostname")].concat(),
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let date = SystemTime::now().duration_since(UNIX_EPOCH);
    date.map_or(0, |date| date.as_nanos() as u64)
}

/// A time as it travels.
fn told(time: u64) -> Bytes {
    Bytes(time.to_le_bytes().to_vec())
}

impl TaskSpace for Clocks {
    type Task = Trip;
    type Datum = Bytes;

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

    fn run(&self, task: Trip, flows: &mut Flows<'_, Bytes>) -> Result<(), TaskError> {
        match task {
            Ask { rank, trip } => {
                let [time, asked] = flows.slots();
                let came = now();
                let answered = time.get().map(|Bytes(time)| time[..].try_into());
                let answered = answered.transpose()?.map(u64::from_le_bytes);
                self.with_trips(rank, |trips| {
                    if let (Some(last), Some(answered)) = (trips.last_mut(), answered) {
                        (last[1], last[2]) = (answered, came);
                    }
                    if trip < TRIPS {
                        trips.push([now(), 0, 0]);
                    }
                });
                asked.put(told(0));
            }
            Answer { .. } => {
                let [time] = flows.slots();
                *time.update() = told(now());
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
    use crate::collective::run_together;
    use dataflow_core::space::Erased;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_questions_are_proved_for_1_to_4_ranks() {
        for n_ranks in 1..=4 {
            let clocks = Clocks::new(&vec![""; n_ranks]);
            verify(&clocks, n_ranks).unwrap_or_else(|fault| panic!("{n_ranks}: {fault}"));
        }
    }

    #[test]
    fn ranks_of_one_machine_have_one_clock_and_others_are_asked() {
        let clocks = Clocks::new(&["here", "here", "there", ""]);
        assert_eq!(clocks.same, [true, true, false, false]);
        assert!(clocks.are_several() && !Clocks::new(&["here"; 3]).are_several());
        assert!(
            Clocks::new(&[""; 2]).are_several(),
            "of machines without a name"
        );
        assert_eq!(machine(), machine());
        assert_eq!(machine().is_empty(), !cfg!(target_os = "linux"));
    }

    /// Of six hundred ranks on other machines each took 20 ms, and rank 0 was lost after ten seconds.
    #[test]
    fn all_ranks_together_are_asked_for_less_time_than_a_rank_may_be_silent() {
        let silence = Duration::from_secs(10);
        for n_ranks in [1, 64, 126, 600, 10_000] {
            let each = time_for_each(n_ranks, silence);
            assert!(each * n_ranks as u32 <= silence / 4, "{n_ranks}: {each:?}");
            assert_eq!(each == BARE_TIME, n_ranks < 126, "{n_ranks}: {each:?}");
        }
        assert_eq!(time_for_each(3, Duration::MAX), BARE_TIME);
        assert_eq!(time_for_each(0, silence), BARE_TIME);
    }

    /// The first to be asked went on and might leave, and then the transport was not lent to the last.
    #[test]
    fn no_rank_goes_on_before_all_have_come_that_are_asked_over_the_bare_transport() {
        let has_come = AtomicBool::new(false);
        let settings = crate::Runtime::builder().ranks(3).threads(1);
        let told = crate::launch(settings, |runtime| {
            let clocks = Clocks::new(&["here", "here", "there"]);
            if runtime.rank() == Rank(2) {
                std::thread::sleep(Duration::from_millis(100));
                has_come.store(true, Ordering::SeqCst);
            }
            let messenger = runtime.messenger().expect("there are three ranks");
            clocks.ask_bare(messenger)?;
            let last_was_there = has_come.load(Ordering::SeqCst);
            runtime.all_reduce(u8::from(last_was_there), u8::min)
        });
        assert_eq!(told.unwrap(), 1);
    }

    #[test]
    fn ranks_that_have_one_clock_are_found_to_have_one() {
        let skews = crate::launch(crate::Runtime::builder().ranks(3).threads(1), |runtime| {
            let by_tasks = Clocks::new(&[""; 3]);
            run_together(&Erased::new(&by_tasks), runtime)?;
            let bare = Clocks::new(&[""; 3]);
            runtime
                .messenger()
                .map_or(Ok(()), |messenger| bare.ask_bare(messenger))?;
            let found = [by_tasks, bare].map(|clocks| {
                let mut skews = Vec::new();
                clocks.add_to(&mut skews);
                skews
            });
            // The ranks can go on.
            runtime.all_reduce(1, |a, b| a + b)?;
            Ok::<_, crate::Error>(found)
        });
        for skew in skews.unwrap().iter().flat_map(|skews| &skews[1..]) {
            let ahead = skew.ahead(now()).unsigned_abs();
            assert!(skew.error() > 0 && ahead <= skew.error(), "{skew:?}");
        }
    }
}
