//! Ranks with NUMA nodes in virtual time: against the simulation of one machine, and worked out by hand.

use dataflow::core::space::Independent;
use dataflow::core::task_names;
use dataflow::numa::simulate::{Costs, Simulated, Ties, simulate};
use dataflow::numa::{Bind, Policy, Topology};
use dataflow::prelude::*;
use dataflow::simulate::{Machine, Numa, Played, Weather};
use std::time::Duration;

task_names! {
    enum Task { Potrf { k }, Trsm { m, k }, Herk { m, k }, Gemm { m, n, k } }
}
use Task::{Gemm, Herk, Potrf, Trsm};

/// The graph of a tile Cholesky factorisation of `nt` tiles a side, its rows dealt out to ranks.
#[derive(Clone, Copy)]
struct Cholesky {
    nt: u32,
    n_ranks: u32,
    tiles: &'static Store<u8>,
}

fn slot(m: u32, n: u32) -> usize {
    (m * (m + 1) / 2 + n) as usize
}

impl Cholesky {
    fn new(nt: u32, n_ranks: u32) -> Self {
        let tiles = Store::empty("tiles", (nt * (nt + 1) / 2) as usize);
        Cholesky {
            nt,
            n_ranks,
            tiles: Box::leak(Box::new(tiles)),
        }
    }

    /// The tile that a task updates comes from the task before it on that tile, or from home.
    fn tile(&self, before: Option<Task>, (m, n): (u32, u32), from: &mut impl Inputs<Self>) {
        match before {
            Some(task) => from.task(0, task, 0),
            None => from.home(0, self.tiles, slot(m, n)),
        }
    }
}

impl TaskSpace for Cholesky {
    type Task = Task;
    type Datum = u8;

    fn describe(&self, about: &mut Description) {
        about.name("cholesky");
        about.class("Potrf").update("TILE");
        about.class("Trsm").update("TILE").read("PANEL");
        about.class("Herk").update("TILE").read("PANEL");
        about.class("Gemm").update("TILE").read("LEFT").read("TOP");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let this = *self;
        let all = (0..this.nt).flat_map(move |k| {
            let columns = move |m| (k + 1..m).map(move |n| Gemm { m, n, k });
            let row = move |m| [Trsm { m, k }, Herk { m, k }].into_iter().chain(columns(m));
            std::iter::once(Potrf { k }).chain((k + 1..this.nt).flat_map(row))
        });
        all.filter(move |task| this.rank(*task) == on)
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        match task {
            Potrf { k } => {
                let before = k.checked_sub(1).map(|before| Herk { m: k, k: before });
                self.tile(before, (k, k), from);
            }
            Trsm { m, k } => {
                let before = k.checked_sub(1).map(|before| Gemm { m, n: k, k: before });
                self.tile(before, (m, k), from);
                from.task(1, Potrf { k }, 0);
            }
            Herk { m, k } => {
                let before = k.checked_sub(1).map(|before| Herk { m, k: before });
                self.tile(before, (m, m), from);
                from.task(1, Trsm { m, k }, 0);
            }
            Gemm { m, n, k } => {
                let before = k.checked_sub(1).map(|before| Gemm { m, n, k: before });
                self.tile(before, (m, n), from);
                from.task(1, Trsm { m, k }, 0);
                from.task(2, Trsm { m: n, k }, 0);
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        match task {
            Potrf { k } => {
                to.range(0, k + 1..self.nt, |m| Trsm { m, k }, 1);
                to.home(0, self.tiles, slot(k, k));
            }
            Trsm { m, k } => {
                to.home(0, self.tiles, slot(m, k));
                to.task(0, Herk { m, k }, 1);
                to.range(0, k + 1..m, |n| Gemm { m, n, k }, 1);
                to.range(0, m + 1..self.nt, |i| Gemm { m: i, n: m, k }, 2);
            }
            Herk { m, k } if m == k + 1 => to.task(0, Potrf { k: m }, 0),
            Herk { m, k } => to.task(0, Herk { m, k: k + 1 }, 0),
            Gemm { m, n, k } if n == k + 1 => to.task(0, Trsm { m, k: n }, 0),
            Gemm { m, n, k } => to.task(0, Gemm { m, n, k: k + 1 }, 0),
        }
    }

    /// The longest way to the end, in units of nb³/3 operations.
    fn priority(&self, task: Task) -> i64 {
        let last = i64::from(self.nt) - 1;
        let potrf = |k: i64| if k == last { 1 } else { 9 * (last - k) - 1 };
        match task {
            Potrf { k } => potrf(i64::from(k)),
            Trsm { k, .. } => 9 * (last - i64::from(k)) - 2,
            Herk { m, k } => 3 * i64::from(m - k) + potrf(i64::from(m)),
            Gemm { n, k, .. } => 6 * i64::from(n - k) + 9 * (last - i64::from(n)) - 2,
        }
    }

    fn rank(&self, task: Task) -> Rank {
        let (Potrf { k: m } | Trsm { m, .. } | Herk { m, .. } | Gemm { m, .. }) = task;
        Rank(m % self.n_ranks)
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let root = Potrf { k: 0 };
        (self.nt > 0 && self.rank(root) == on)
            .then_some(root)
            .into_iter()
    }

    fn run(&self, _: Task, _: &mut Flows<'_, u8>) -> Result<(), TaskError> {
        unreachable!("in virtual time bodies only let time pass")
    }
}

/// A 512th of a second, in nanoseconds: seconds and nanoseconds of its multiples are exact.
const UNIT: Duration = Duration::from_nanos(1_953_125);
/// Units of a task, by class.
const UNITS: [u32; 4] = [2, 5, 5, 9];
/// Bytes of a tile; from the next NUMA node they take a unit longer, from any other two.
const BYTES: u64 = 1 << 20;
const REMOTE_BYTE: f64 = 1.0 / 512.0 / (1 << 20) as f64;

/// NUMA nodes of as many cores each, in pairs.
fn machine(n_nodes: usize, cores: usize) -> Topology {
    Topology::made_of(&vec![cores; n_nodes], |from, to| match from == to {
        true => 10,
        false if from / 2 == to / 2 => 20,
        false => 30,
    })
}

fn numa(topology: &Topology, policy: &str) -> Numa {
    Numa {
        policy: policy.parse().unwrap(),
        remote_byte: REMOTE_BYTE,
        round: UNIT,
        ..Numa::of(topology.clone())
    }
}

fn play<S: TaskSpace + Copy + Send + Sync + 'static>(
    (space, ranks): (S, usize),
    numa: Option<Numa>,
    threads: usize,
    seed: u64,
) -> Vec<Played> {
    let machine = Machine {
        ranks,
        threads,
        weather: Weather {
            seed,
            jitter: Duration::from_micros(50),
            ..Weather::default()
        },
        numa,
        ..Machine::default()
    };
    let time = |task: S::Task| UNITS[task.class()] * UNIT;
    let played = machine.run(move |stage| stage.play(&space, &|_, _| BYTES, &time));
    let played = played.unwrap_or_else(|hung| panic!("{hung}")).into_iter();
    played.map(Result::unwrap).collect()
}

fn seconds(played: &[Played]) -> f64 {
    played[0].report.seconds
}

/// The same by the simulation that knows one machine only, and has a clock of its own.
fn alone(space: &impl TaskSpace, topology: &Topology, policy: &Policy) -> Simulated {
    let places = Bind::Cores.places(topology, topology.n_cores());
    let costs = Costs {
        classes: UNITS.map(|units| f64::from(units) / 512.0).into(),
        initialise: 1.0 / 512.0,
        bytes: BYTES,
        remote_byte: REMOTE_BYTE,
        round: 1.0 / 512.0,
        ties: Ties::First,
    };
    simulate(space, topology, &places, policy, &costs).unwrap()
}

/// A square of tasks: each reads what its left and upper neighbours have made.
#[derive(Clone, Copy)]
struct Wave {
    side: u32,
    has_priorities: bool,
}

impl TaskSpace for Wave {
    type Task = u32;
    type Datum = u8;

    fn describe(&self, about: &mut Description) {
        let class = about.name("wave").class("Task");
        class.new_flow("OUT").optional("LEFT").optional("UPPER");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
        0..self.side * self.side
    }

    fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
        if !task.is_multiple_of(self.side) {
            from.task(1, task - 1, 0);
        }
        if task >= self.side {
            from.task(2, task - self.side, 0);
        }
    }

    fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
        if !(task + 1).is_multiple_of(self.side) {
            to.task(0, task + 1, 1);
        }
        if task + self.side < self.side * self.side {
            to.task(0, task + self.side, 2);
        }
    }

    fn priority(&self, task: u32) -> i64 {
        i64::from(self.has_priorities) * i64::from(task * 7919 % 13)
    }

    fn roots(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
        std::iter::once(0)
    }

    fn run(&self, _: u32, _: &mut Flows<'_, u8>) -> Result<(), TaskError> {
        unreachable!("in virtual time bodies only let time pass")
    }
}

const POLICIES: [&str; 11] = [
    "distance",
    "distance-no-steal",
    "distance,patience=3",
    "distance,patience=20",
    "priority,patience=40",
    "distance,adjacent",
    "distance,keep=3",
    "priority",
    "oblivious",
    "fifo",
    "lifo",
];

/// Simultaneous turns have one order in both, and times are in whole nanoseconds.
fn take_one_course<S: TaskSpace + Copy + Send + Sync + 'static>(space: S, policy: &str) {
    let topology = machine(4, 6);
    verify(&space, 1).unwrap();
    let played = play((space, 1), Some(numa(&topology, policy)), 24, 0);
    let alone = alone(&space, &topology, &policy.parse().unwrap());
    assert_eq!(seconds(&played), alone.seconds, "{policy}");
    assert_eq!(played[0].workers, alone.workers, "{policy}");
}

#[test]
fn one_rank_takes_the_course_of_the_simulation_of_its_machine() {
    for policy in POLICIES {
        for has_priorities in [false, true] {
            let side = 40;
            take_one_course(
                Wave {
                    side,
                    has_priorities,
                },
                policy,
            );
        }
    }
}

/// All policies but the one that places nothing by data deal these out as a world does, round robin.
#[test]
fn with_data_from_home_one_rank_takes_the_course_of_the_simulation_of_its_machine() {
    for policy in POLICIES.iter().filter(|policy| **policy != "oblivious") {
        take_one_course(Cholesky::new(15, 1), policy);
    }
}

#[test]
fn stealing_from_the_nearest_beats_one_queue_for_all_on_two_ranks_of_eight_numa_nodes() {
    let topology = machine(8, 2);
    let space = Cholesky::new(24, 2);
    verify(&space, 2).unwrap();
    let [near, any] = ["distance", "oblivious"]
        .map(|policy| seconds(&play((space, 2), Some(numa(&topology, policy)), 16, 0)));
    assert!(near < 0.95 * any, "{near} against {any}");
}

/// Two tasks that read what a first one has made; the second runs on the second rank if there is one.
#[derive(Clone, Copy)]
struct Fork {
    n_ranks: u32,
}

impl TaskSpace for Fork {
    type Task = u32;
    type Datum = u8;

    fn describe(&self, about: &mut Description) {
        let class = about.name("fork").class("Task");
        class.new_flow("OUT").optional("IN");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
        let this = *self;
        (0..3).filter(move |task| this.rank(*task) == on)
    }

    fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
        if task > 0 {
            from.task(1, 0, 0);
        }
    }

    fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
        if task == 0 {
            (1..3).for_each(|next| to.task(0, next, 1));
        }
    }

    fn rank(&self, task: u32) -> Rank {
        Rank(task / 2 % self.n_ranks)
    }

    fn run(&self, _: u32, _: &mut Flows<'_, u8>) -> Result<(), TaskError> {
        unreachable!("in virtual time bodies only let time pass")
    }
}

/// Bytes that workers have read on their own NUMA node and from others.
fn read(played: &Played) -> (u64, u64) {
    let totals = played.workers.iter().map(|worker| worker.total());
    totals.fold((0, 0), |(local, remote), total| {
        (local + total.local_bytes, remote + total.remote_bytes)
    })
}

#[test]
fn a_byte_from_afar_costs_what_was_said_for_each_ten_of_its_distance_beyond_the_own() {
    let fork = Fork { n_ranks: 1 };
    let body = f64::from(UNITS[0]) / 512.0;
    for beyond in [0, 10, 25] {
        let topology = Topology::made_of(&[1, 1], |from, to| match from == to {
            true => 10,
            false => 10 + beyond,
        });
        let stolen = play((fork, 1), Some(numa(&topology, "distance")), 2, 0);
        let longer = BYTES as f64 * REMOTE_BYTE * f64::from(beyond) / 10.0;
        let wrong = (seconds(&stolen) - (2.0 * body + longer)).abs();
        assert!(wrong < 1e-9, "{beyond}: {}", seconds(&stolen));
        assert_eq!(read(&stolen[0]), (BYTES, BYTES));
        let kept = play((fork, 1), Some(numa(&topology, "distance-no-steal")), 2, 0);
        assert_eq!(seconds(&kept), 3.0 * body);
        assert_eq!(read(&kept[0]), (2 * BYTES, 0));
    }
}

#[test]
fn what_comes_from_another_rank_lies_with_the_worker_that_takes_it_in() {
    let fork = Fork { n_ranks: 2 };
    let topology = machine(2, 1);
    let played = play((fork, 2), Some(numa(&topology, "distance")), 2, 0);
    assert_eq!(read(&played[1]), (BYTES, 0));
}

#[test]
fn a_seed_decides_the_course_and_without_numa_nodes_no_worker_tells_what_it_did() {
    let topology = machine(4, 2);
    let space = Cholesky::new(12, 3);
    let course = |numa: Option<Numa>, seed| {
        let played = play((space, 3), numa, 8, seed);
        let told = |played: Played| (played.report.seconds, played.workers, played.sent.messages);
        played.into_iter().map(told).collect::<Vec<_>>()
    };
    let numa = || Some(numa(&topology, "distance,patience=2"));
    assert_eq!(course(numa(), 1), course(numa(), 1));
    assert_ne!(course(numa(), 1), course(numa(), 2));
    assert!(
        course(None, 1)
            .iter()
            .all(|(_, workers, _)| workers.is_empty())
    );
}

/// What had taken longer in a run that failed was counted once more in the next.
#[test]
fn what_a_failed_play_took_from_afar_is_no_part_of_the_next() {
    let space = Wave {
        side: 8,
        has_priorities: false,
    };
    let machine = Machine {
        threads: 4,
        numa: Some(numa(&machine(2, 2), "oblivious")),
        ..Machine::default()
    };
    let remote = move |fails: bool| {
        let played = machine.run(move |stage| {
            let last = |task| task == space.side * space.side - 1;
            let falls = |task| match last(task) {
                true => panic!("as told"),
                false => UNIT,
            };
            let failed = fails.then(|| stage.play(&space, &|_, _| BYTES, &falls));
            assert!(failed.is_none_or(|failed| failed.is_err()));
            stage.play(&space, &|_, _| BYTES, &|_| UNIT)
        });
        played.unwrap()[0].as_ref().unwrap().remote
    };
    assert!(remote(false) > Duration::ZERO);
    assert_eq!(remote(true), remote(false));
}

/// Worker 32,768 was turned away: tasks were lost, or the machine hung.
#[test]
fn a_rank_with_more_workers_than_a_run_has_room_for_is_refused() {
    for numa in [None, Some(Numa::of(Topology::flat(&[0])))] {
        for (threads, is_refused) in [(40_000, true), (usize::MAX, true), (0, false)] {
            let machine = Machine {
                threads,
                numa: numa.clone(),
                ..Machine::default()
            };
            let played = machine.run(|stage| {
                let space = Independent::new("seconds", 3, |_| Ok(()));
                let second = Duration::from_secs(1);
                let played = stage.play(&space, &|_, _| 0, &|_| second);
                (stage.n_workers(), played)
            });
            match &played.unwrap()[0] {
                (1, Ok(played)) => assert_eq!((is_refused, played.report.seconds), (false, 3.0)),
                (_, Err(error)) => {
                    assert!(is_refused && error.kind() == dataflow::Kind::WrongSettings);
                    let says = format!("{threads} workers of a rank (at most 32767)");
                    assert_eq!(error.to_string(), says);
                }
                (n_workers, Ok(_)) => panic!("{threads}: {n_workers} workers"),
            }
        }
    }
}

/// They were taken for infinitely fast, and shares for never or always.
#[test]
fn weather_that_cannot_be_is_refused() {
    let fair = Weather::default;
    let odd = [
        (
            "bytes_per_second is -1 (",
            Weather {
                bytes_per_second: -1.0,
                ..fair()
            },
        ),
        (
            "slow_links is NaN (",
            Weather {
                slow_links: vec![(Rank(0), Rank(1), f64::NAN)],
                ..fair()
            },
        ),
        (
            "loss is -3 (",
            Weather {
                loss: -3.0,
                ..fair()
            },
        ),
        (
            "duplication is 7 (",
            Weather {
                duplication: 7.0,
                ..fair()
            },
        ),
    ];
    for (told, weather) in odd {
        let machine = Machine {
            weather,
            ..Machine::default()
        };
        let played = machine.run(|stage| {
            let space = Independent::new("seconds", 3, |_| Ok(()));
            stage.play(&space, &|_, _| 0, &|_| Duration::ZERO)
        });
        let error = played.unwrap().remove(0).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

/// It counted as 0.
#[test]
fn a_byte_that_has_no_cost_is_refused() {
    for remote_byte in [f64::NAN, f64::INFINITY, -1.0] {
        let numa = Numa {
            remote_byte,
            ..Numa::of(Topology::flat(&[0]))
        };
        let machine = Machine {
            numa: Some(numa),
            ..Machine::default()
        };
        let played = machine.run(|stage| {
            let space = Independent::new("seconds", 3, |_| Ok(()));
            stage.play(&space, &|_, _| 0, &|_| Duration::ZERO)
        });
        let error = played.unwrap().remove(0).unwrap_err();
        assert!(error.to_string().contains("remote_byte is"), "{error}");
    }
}
