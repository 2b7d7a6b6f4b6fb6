//! Policies compared on machines like those of the paper that proposed them.

use super::*;
use crate::crew::tests::{machine, nothing, tasks};
use crate::place::Bind;
use dataflow_core::port::Inline;
use dataflow_core::prelude::*;
use dataflow_core::task_names;
use dataflow_core::trace::Slice;

task_names! {
    enum Task { Potrf { k }, Trsm { m, k }, Herk { m, k }, Gemm { m, n, k } }
}
use Task::{Gemm, Herk, Potrf, Trsm};

/// The graph of a tile Cholesky factorisation of `nt` tiles a side.
struct Cholesky {
    nt: u32,
    tiles: Store<u8>,
}

impl Cholesky {
    fn new(nt: u32) -> Self {
        let tiles = Store::empty("tiles", (nt * (nt + 1) / 2) as usize);
        Cholesky { nt, tiles }
    }

    fn tile(&self, before: Option<Task>, (m, n): (u32, u32), from: &mut impl Inputs<Self>) {
        match before {
            Some(task) => from.task(0, task, 0),
            None => from.home(0, &self.tiles, (m * (m + 1) / 2 + n) as usize),
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

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Task> + Send {
        let nt = self.nt;
        (0..nt).flat_map(move |k| {
            let columns = move |m| (k + 1..m).map(move |n| Gemm { m, n, k });
            let row = move |m| [Trsm { m, k }, Herk { m, k }].into_iter().chain(columns(m));
            std::iter::once(Potrf { k }).chain((k + 1..nt).flat_map(row))
        })
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
            Potrf { k } => to.range(0, k + 1..self.nt, |m| Trsm { m, k }, 1),
            Trsm { m, k } => {
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
        let (m, n, k) = match task {
            Potrf { k } => (k, k, k),
            Trsm { m, k } => (m, k, k),
            Herk { m, k } => (m, m, k),
            Gemm { m, n, k } => (m, n, k),
        };
        let (m, n, k) = (i64::from(m), i64::from(n), i64::from(k));
        let potrf = |k: i64| if k == last { 1 } else { 9 * (last - k) - 1 };
        match task {
            Potrf { .. } => potrf(k),
            Trsm { .. } => 9 * (last - k) - 2,
            Herk { .. } => 3 * (m - k) + potrf(m),
            Gemm { .. } => 6 * (n - k) + 9 * (last - n) - 2,
        }
    }

    fn roots(&self, _: Rank) -> impl Iterator<Item = Task> + Send {
        (0..self.nt.min(1)).map(|k| Potrf { k })
    }

    fn run(&self, _: Task, _: &mut Flows<'_, u8>) -> Result<(), TaskError> {
        Err("a simulation runs no body".into())
    }
}

/// Costs of tiles of order 256 in f64 on a core of 8 Gflop/s; as in `examples/simulate/costs.json`.
fn costs() -> Costs {
    let nb = 256_f64;
    let seconds = |operations: f64, rate: f64| operations * nb.powi(3) / rate;
    Costs {
        classes: vec![
            seconds(1.0 / 3.0, 4.0e9),
            seconds(1.0, 6.5e9),
            seconds(1.0, 7.0e9),
            seconds(2.0, 7.5e9),
        ],
        initialise: 1e-3,
        bytes: 256 * 256 * 8,
        remote_byte: 0.4e-9,
        round: 50e-6,
        ties: Ties::First,
    }
}

/// The same, with a task of equally large inputs at the side of one that it only reads.
fn costs_of_crowding() -> Costs {
    let ties = Ties::Last;
    Costs { ties, ..costs() }
}

/// Four packages of two NUMA nodes of six cores, at most two hops apart.
fn packages() -> Topology {
    machine(&[6; 8], |from, to| match () {
        _ if from == to => 10,
        _ if from / 2 == to / 2 || from % 2 == to % 2 => 16,
        _ => 22,
    })
}

/// Eight sockets of six cores: two boards, each a square of four, joined by two links.
fn boards() -> Topology {
    let squares = [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 0),
        (4, 5),
        (5, 6),
        (6, 7),
        (7, 4),
    ];
    let links = [&squares[..], &[(0, 4), (2, 6)]].concat();
    let linked = |a, b| links.contains(&(a, b)) || links.contains(&(b, a));
    let hops = |from: usize, to: usize| {
        let mut reached = vec![from];
        let mut hops = 0;
        while !reached.contains(&to) {
            let next: Vec<usize> = (0..8)
                .filter(|&node| reached.iter().any(|&other| linked(node, other)))
                .collect();
            reached.extend(next);
            hops += 1;
        }
        hops
    };
    machine(&[6; 8], |from, to| 10 + 6 * hops(from, to))
}

/// Sockets of eight cores, two on a blade, four blades near each other.
fn blades(sockets: usize) -> Topology {
    machine(&vec![8; sockets], |from, to| match () {
        _ if from == to => 10,
        _ if from / 2 == to / 2 => 50,
        _ if from / 8 == to / 8 => 65,
        _ => 79,
    })
}

/// On so many cores of the machine.
fn simulated(
    policy: &Policy,
    machine: &Topology,
    n_workers: usize,
    nt: u32,
    costs: &Costs,
) -> Result<Simulated, SimulateError> {
    let places = Bind::Cores.places(machine, n_workers);
    simulate(&Cholesky::new(nt), machine, &places, policy, costs)
}

/// A thief waits for at most a millisecond, a fifth of a gemm: looks that others' tasks bring count as well.
const STEALING: &str = "distance,patience=20";

fn seconds(policy: &str, machine: &Topology, nt: u32, costs: &Costs) -> f64 {
    let policy = policy.parse().unwrap();
    let run = simulated(&policy, machine, machine.n_cores(), nt, costs);
    run.unwrap().seconds
}

/// How much longer it takes without looking at distances, and without stealing.
fn ratios(machine: &Topology, nt: u32, costs: &Costs) -> (f64, f64) {
    let seconds = |policy| seconds(policy, machine, nt, costs);
    let stealing = seconds(STEALING);
    (
        seconds("oblivious") / stealing,
        seconds("distance-no-steal") / stealing,
    )
}

/// Each of the costs times a factor.
const CHANGES: [fn(&mut Costs, f64); 8] = [
    |costs, by| costs.classes[0] *= by,
    |costs, by| costs.classes[1] *= by,
    |costs, by| costs.classes[2] *= by,
    |costs, by| costs.classes[3] *= by,
    |costs, by| costs.initialise *= by,
    |costs, by| costs.bytes = (costs.bytes as f64 * by) as u64,
    |costs, by| costs.remote_byte *= by,
    |costs, by| costs.round *= by,
];

/// How a cost is off by half.
#[derive(Clone, Copy)]
enum Off {
    /// Each less and more.
    BothWays,
    /// Of each two one is less, the other more.
    InTurn,
}

/// The ratios with each cost off by half, and which it was.
fn ratios_about(
    machine: &Topology,
    nt: u32,
    costs: &Costs,
    off: Off,
    mut check: impl FnMut(&str, (f64, f64)),
) {
    for (which, change) in CHANGES.iter().enumerate() {
        let factors = match off {
            Off::BothWays => &[0.5, 1.5][..],
            Off::InTurn => &[[0.5, 1.5][which % 2]],
        };
        for &by in factors {
            let mut costs = costs.clone();
            change(&mut costs, by);
            let which = format!("cost {which} times {by}");
            check(&which, ratios(machine, nt, &costs));
        }
    }
}

/// Tasks 0, 1 and 2 with such edges: what a task waits for and whom it feeds, of which rank each is.
struct Edges {
    inputs: [&'static [u64]; 3],
    successors: [&'static [u64]; 3],
    ranks: [u32; 3],
}

impl TaskSpace for Edges {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.class("Task").order("AFTER").order("AND_AFTER");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
        let ranks = self.ranks;
        (0..3).filter(move |&task| ranks[task as usize] == on.0)
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        for (flow, &source) in self.inputs[task as usize].iter().enumerate() {
            from.task(flow, source, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        for &target in self.successors[task as usize] {
            to.task(0, target, 0);
        }
    }

    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }

    fn rank(&self, task: u64) -> Rank {
        Rank(self.ranks[task as usize])
    }
}

/// Only tasks that waited were an error: others ran twice or never, and all was well; of a space of two
/// ranks it was said that its edges do not agree.
#[test]
fn edges_that_do_not_agree_or_lead_to_another_rank_are_an_error_that_names_a_task() {
    type Lists = [&'static [u64]; 3];
    let chain: (Lists, Lists) = ([&[], &[0], &[1]], [&[1], &[2], &[]]);
    let fork: Lists = [&[], &[0], &[0]];
    let run = |(inputs, successors): (Lists, Lists), ranks: [u32; 3]| {
        let space = Edges {
            inputs,
            successors,
            ranks,
        };
        let machine = boards();
        let places = Bind::Cores.places(&machine, 2);
        let run = simulate(&space, &machine, &places, &Policy::default(), &costs());
        run.map(|run| run.tasks)
    };
    assert_eq!(run(chain, [0; 3]).unwrap(), 3);
    let one = [0; 3];
    for (edges, ranks, kind, says) in [
        (
            (chain.0, [&[][..], &[2], &[]]),
            one,
            Kind::Stalled,
            "2 of 3",
        ),
        ((fork, [&[1, 1, 2], &[], &[]]), one, Kind::FedTwice, "1"),
        ((fork, [&[1, 1], &[], &[]]), one, Kind::FedTwice, "1"),
        ((chain.0, [&[1], &[2], &[0]]), one, Kind::NotExpected, "0"),
        ((chain.0, [&[1], &[], &[]]), one, Kind::Stalled, "1 of 3"),
        (chain, [0, 0, 1], Kind::NoSuchRank, "1 feeds 2 on rank 1"),
        (chain, [0, 1, 1], Kind::NoSuchRank, "0 feeds 1 on rank 1"),
        (chain, [1, 0, 0], Kind::Stalled, "1 waits for 0 on rank 1"),
        (chain, [0, 1, 0], Kind::NoSuchRank, "0 feeds 1 on rank 1"),
    ] {
        let Err(SimulateError::Failed(error)) = run(edges, ranks) else {
            panic!("{edges:?} on {ranks:?} ran");
        };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// Tasks 0 and 1 make a datum each, 2 reads two: in place of the first perhaps one from home.
struct Join {
    home: Store<u8>,
    is_first_from_home: bool,
}

impl TaskSpace for Join {
    type Task = u64;
    type Datum = u8;

    fn describe(&self, about: &mut Description) {
        let class = about.class("Task").new_flow("OUT");
        class.optional("FIRST").optional("SECOND");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..3
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task == 2 {
            match self.is_first_from_home {
                true => from.home(1, &self.home, 0),
                false => from.task(1, 0, 0),
            }
            from.task(2, 1, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task == 1 || task == 0 && !self.is_first_from_home {
            to.task(0, 2, task as usize + 1);
        }
    }

    fn run(&self, _: u64, _: &mut Flows<'_, u8>) -> Result<(), TaskError> {
        Err("a simulation runs no body".into())
    }
}

/// What had arrived went before what came from home.
#[test]
fn of_inputs_of_one_size_the_first_or_the_last_counts_wherever_it_comes_from() {
    let machine = Topology::made_of(&[1, 1], |from, to| 10 + 10 * from.abs_diff(to) as u32);
    let places = Bind::Cores.places(&machine, 2);
    for (is_first_from_home, ties, tasks) in [
        (false, Ties::First, [2, 1]),
        (false, Ties::Last, [1, 2]),
        (true, Ties::First, [2, 1]),
        (true, Ties::Last, [1, 2]),
    ] {
        let space = Join {
            home: Store::empty("home", 1),
            is_first_from_home,
        };
        verify(&space, 1).unwrap();
        let (policy, costs) = (Policy::distance_no_steal(), Costs { ties, ..costs() });
        let run = simulate(&space, &machine, &places, &policy, &costs).unwrap();
        let ran: Vec<u64> = run.workers.iter().map(|worker| worker.tasks).collect();
        assert_eq!(ran, tasks, "{is_first_from_home}, {ties:?}");
    }
}

#[test]
fn a_body_may_simulate() {
    let simulation = |_| {
        let (policy, machine) = (Policy::default(), boards());
        simulated(&policy, &machine, 4, 4, &costs())?;
        Ok(())
    };
    let ran = dataflow_core::run(&tasks(2, &simulation), &Inline).unwrap();
    assert_eq!(ran.tasks, 2);
}

/// Nobody was woken for a root that worker 0 kept: the answer was zero seconds and zero tasks.
#[test]
fn a_root_is_run_however_many_tasks_a_worker_keeps() {
    let policy = "distance,keep=3".parse().unwrap();
    let run = simulated(&policy, &packages(), 4, 4, &costs()).unwrap();
    assert_eq!(run.tasks, 20);
}

#[test]
fn stealing_by_distance_beats_both_others_whichever_cost_is_off_by_half() {
    for (name, machine) in [("boards", boards()), ("blades", blades(32))] {
        // Of 40 tiles a side to 60 it is so: the fewer, the sooner it is seen.
        let beats = |which: &str, (oblivious, no_stealing): (f64, f64)| {
            let beats = oblivious > 1.0 && no_stealing > 1.0;
            assert!(beats, "{name}, {which}: {oblivious:.4}, {no_stealing:.4}");
        };
        ratios_about(&machine, 40, &costs(), Off::BothWays, beats);
    }
}

#[test]
fn where_panels_are_crowded_not_stealing_is_the_worst() {
    let costs = costs_of_crowding();
    let is_as_in_the_paper = |least: f64, which: &str, (oblivious, no_stealing): (f64, f64)| {
        let order = least < oblivious && oblivious < no_stealing;
        assert!(order, "{which}: {oblivious:.4}, {no_stealing:.4}");
    };
    for (name, machine) in [("boards", boards()), ("blades", blades(32))] {
        is_as_in_the_paper(1.0, name, ratios(&machine, 60, &costs));
    }
    // Where bytes cost half, stealing is behind oblivious by less than a per cent.
    let about = |which: &str, ratios| is_as_in_the_paper(0.99, which, ratios);
    ratios_about(&blades(32), 60, &costs, Off::InTurn, about);
}

#[test]
fn the_gap_to_both_others_grows_with_the_machine() {
    let grow = |costs: Costs| {
        let ratios = |sockets| ratios(&blades(sockets), 60, &costs);
        (ratios(8), ratios(32))
    };
    let (few, many) = grow(costs());
    assert!(many.0 > few.0, "to oblivious: {} and {}", few.0, many.0);
    assert!(many.1 > few.1, "to no stealing: {} and {}", few.1, many.1);
    // Crowding holds stealing up as well, so only the gap to no stealing grows.
    let (few, many) = grow(costs_of_crowding());
    assert!(many.1 > few.1, "to no stealing: {} and {}", few.1, many.1);
}

#[test]
fn where_nodes_are_near_each_other_the_policies_differ_by_a_few_per_cent() {
    for costs in [costs(), costs_of_crowding()] {
        let (oblivious, no_stealing) = ratios(&packages(), 60, &costs);
        let is_near = |ratio: f64| (0.97..1.05).contains(&ratio);
        assert!(
            is_near(oblivious) && is_near(no_stealing),
            "{oblivious}, {no_stealing}"
        );
    }
}

#[test]
fn locality_idleness_and_task_times_are_ordered_as_the_paper_saw_them() {
    let machine = boards();
    let run = |policy: &str| {
        let policy = policy.parse().unwrap();
        simulated(&policy, &machine, 48, 40, &costs()).unwrap()
    };
    let (oblivious, without, with) = (run("oblivious"), run("distance-no-steal"), run(STEALING));
    let local = |run: &Simulated| run.total().local_share().unwrap();
    assert!(local(&without) >= local(&with) && local(&with) > local(&oblivious));
    assert!(without.idle_share > with.idle_share);
    let gemm = |run: &Simulated| run.mean_seconds[3];
    assert!(gemm(&without) < gemm(&with) && gemm(&with) < gemm(&oblivious));
    // Whatever the policy, the work is the same.
    for run in [&oblivious, &without, &with] {
        assert_eq!(run.tasks, 40 * 41 * 42 / 6);
        assert_eq!(run.total().tasks, run.tasks);
    }
}

#[test]
fn no_task_is_stolen_from_beyond_the_reach() {
    let machine = boards();
    for name in ["distance", "priority", "fifo", "lifo"] {
        for (reach, farthest) in [("own", 10), ("adjacent", 16), ("all", 28)] {
            let policy = format!("{name},{reach}").parse().unwrap();
            let run = simulated(&policy, &machine, 48, 40, &costs()).unwrap();
            let stolen = run.workers.iter().flat_map(|worker| &worker.traffic);
            let distances: Vec<u32> = stolen
                .filter(|traffic| traffic.steals > 0)
                .map(|traffic| traffic.distance)
                .collect();
            assert!(
                distances.iter().all(|&distance| distance <= farthest),
                "{policy}"
            );
            if farthest > 10 {
                assert!(run.total().steals >= 100, "{policy}: {:?}", run.total());
                assert!(distances.contains(&farthest), "{policy}");
            }
        }
    }
}

#[test]
fn a_simulation_has_one_answer() {
    let machine = blades(8);
    for policy in [
        "distance",
        "oblivious",
        "priority,adjacent,patience=3",
        "lifo,keep=4",
    ] {
        let policy = policy.parse().unwrap();
        let run = || simulated(&policy, &machine, 64, 20, &costs()).unwrap();
        assert_eq!(run(), run());
    }
}

#[test]
fn the_trace_of_a_simulation_is_one_that_its_graph_allows() {
    let machine = blades(8);
    for policy in [STEALING, "oblivious", "distance-no-steal", "lifo,keep=4"] {
        for n_workers in [1, 7, 64] {
            let policy = policy.parse().unwrap();
            let places = Bind::Cores.places(&machine, n_workers);
            let space = Cholesky::new(16);
            let (run, trace) =
                simulate_traced(&space, &machine, &places, &policy, &costs()).unwrap();
            let what = format!("{policy} on {n_workers}");
            let untraced = simulated(&policy, &machine, n_workers, 16, &costs());
            assert_eq!(untraced.unwrap(), run, "{what}");
            assert_eq!(trace.n_workers(), n_workers);
            assert_eq!(trace.slices().count() as u64, run.tasks, "{what}");
            // Rounded to nanoseconds, both by half of one at most.
            let seconds = trace.length() as f64 * 1e-9;
            assert!((seconds - run.seconds).abs() < 1e-9, "{what}: {seconds}");
            // Of several tasks that are taken at once the one that runs first is marked.
            let stolen = trace.slices().filter(|(_, slice)| slice.stolen).count() as u64;
            let steals = run.total().steals;
            assert!(
                stolen <= steals && (stolen > 0) == (steals > 0),
                "{what}: {stolen}"
            );
            for (at, slice) in trace.slices() {
                let fed = |input| trace.slice(input).span.end <= slice.span.begin;
                assert!(trace.inputs(at).all(fed), "{what}: {}", trace.shown(at));
            }
            // One task at a time, and idle in between: nothing of it is the runtime's.
            for worker in &trace.ranks[0].workers {
                let own = &trace.ranks[0].slices[worker.slices.clone()];
                let apart = |two: &[Slice]| two[0].span.end <= two[1].span.begin;
                assert!(own.windows(2).all(apart), "{what}");
            }
            let shares = trace.explanation().shares;
            assert!(
                shares
                    .iter()
                    .all(|share| share.name != "runtime" || share.time == 0),
                "{what}"
            );
        }
    }
}

#[test]
fn one_worker_takes_the_sum_of_all_tasks_and_many_the_longest_way() {
    let costs = Costs {
        classes: vec![1.0, 3.0, 3.0, 6.0],
        remote_byte: 0.0,
        ..costs()
    };
    let machine = blades(8);
    let nt = 8;
    let seconds = |n_workers| {
        let policy = Policy::distance();
        let run = simulated(&policy, &machine, n_workers, nt, &costs);
        run.unwrap().seconds
    };
    let (n, cholesky) = (f64::from(nt), Cholesky::new(nt));
    // nt Potrf, nt(nt-1)/2 each of Trsm and Herk, the rest Gemm.
    let gemms = n * (n - 1.0) * (n - 2.0) / 6.0;
    assert_eq!(seconds(1), n + 3.0 * n * (n - 1.0) + 6.0 * gemms);
    assert_eq!(seconds(64), cholesky.priority(Potrf { k: 0 }) as f64);
}

#[test]
fn wrong_costs_and_missing_workers_are_errors_that_say_what_is_allowed() {
    let run = |n_workers, costs: Costs| {
        let policy = Policy::default();
        let run = simulated(&policy, &boards(), n_workers, 3, &costs);
        run.unwrap_err().to_string()
    };
    assert!(run(0, costs()).contains("1 at least"));
    let negative = Costs {
        round: -1.0,
        ..costs()
    };
    assert!(run(1, negative).contains("round is -1 (must be 0 to 86400 s, a day)"));
    // Durations and clocks stood still at their largest value, and a wrong time was told.
    let mut endless = costs();
    endless.classes[1] = 1e18;
    assert!(run(1, endless).contains(" is 1000000000000000000 (must be 0 to 86400 s"));
    let mut without_gemm = costs();
    without_gemm.classes.pop();
    assert!(run(1, without_gemm).contains("class Gemm"));
}

/// Number 32,768 was turned away at the gate: two rounds of half a second each, or tasks that nobody ran.
#[test]
fn more_workers_than_a_run_has_room_for_are_refused() {
    let machine = Topology::flat(&[0]);
    let tasks = tasks(40_000, &nothing);
    let run = |n_workers| {
        let places = Bind::None.places(&machine, n_workers);
        let costs = Costs {
            classes: vec![0.5],
            ..costs()
        };
        simulate(&tasks, &machine, &places, &Policy::default(), &costs)
    };
    let refused = run(40_000).unwrap_err().to_string();
    assert_eq!(refused, "40000 workers in virtual time (at most 32767)");
}

/// A byte without end cost nothing, for none of it is no number; and of a class nobody was told which.
#[test]
fn a_cost_without_end_is_refused_and_a_wrong_one_of_a_class_named() {
    let run = |costs: Costs| {
        let run = simulated(&Policy::default(), &boards(), 1, 3, &costs);
        run.unwrap_err().to_string()
    };
    let byte = Costs {
        remote_byte: f64::INFINITY,
        ..costs()
    };
    assert!(run(byte).contains("remote_byte is inf (must be"));
    let mut herk = costs();
    herk.classes[2] = f64::NAN;
    assert!(run(herk).contains("of class Herk is NaN (must be"));
}

/// An index was said to be out of bounds, of nobody knew what.
#[test]
fn places_of_another_machine_are_refused() {
    let places = Bind::Cores.places(&boards(), 12);
    let one = Topology::flat(&[0, 1]);
    let run = simulate(
        &Cholesky::new(2),
        &one,
        &places,
        &Policy::default(),
        &costs(),
    );
    let says = "worker 6 sits on NUMA node 1 (there is 1: 0)";
    assert_eq!(run.unwrap_err().to_string(), says);
}

/// A space that panics when it is asked for something.
struct Odd {
    panics_in: &'static str,
    home: Store<u8>,
}

impl Odd {
    fn asks(&self, what: &str) {
        assert!(self.panics_in != what, "no {what} today");
    }
}

impl TaskSpace for Odd {
    type Task = u64;
    type Datum = u8;

    fn describe(&self, about: &mut Description) {
        self.asks("describe");
        about.class("Task").update("DATUM");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        self.asks("tasks");
        0..1
    }

    fn inputs(&self, _: u64, from: &mut impl Inputs<Self>) {
        self.asks("inputs");
        from.home(0, &self.home, 0);
    }

    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}

    fn run(&self, _: u64, _: &mut Flows<'_, u8>) -> Result<(), TaskError> {
        Err("a simulation runs no body".into())
    }
}

/// It unwound out of the simulation, where a run answers with an error.
#[test]
fn a_space_that_panics_when_it_is_asked_fails_a_simulation_as_it_would_a_run() {
    let machine = boards();
    let places = Bind::Cores.places(&machine, 2);
    for panics_in in ["describe", "tasks", "inputs"] {
        let odd = Odd {
            panics_in,
            home: Store::empty("home", 1),
        };
        let run = simulate(&odd, &machine, &places, &Policy::default(), &costs());
        let Err(SimulateError::Failed(error)) = run else {
            panic!("{panics_in}: {run:?}");
        };
        assert_eq!(error.kind(), Kind::TaskPanicked);
        let says = format!("the space panicked: no {panics_in} today");
        assert_eq!(error.to_string(), says);
    }
}

/// The classes are as many as the names say, and only the first is described.
struct OneDescribed;

impl TaskSpace for OneDescribed {
    type Task = Task;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.class("Potrf");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Task> + Send {
        [Trsm { m: 0, k: 0 }].into_iter()
    }

    fn inputs(&self, _: Task, _: &mut impl Inputs<Self>) {}
    fn successors(&self, _: Task, _: &mut impl Successors<Self>) {}

    fn run(&self, _: Task, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        Ok(())
    }
}

#[test]
fn a_task_of_a_class_that_is_not_described_is_named() {
    let machine = boards();
    let places = Bind::Cores.places(&machine, 2);
    let costs = Costs {
        classes: vec![1.0],
        ..costs()
    };
    let run = simulate(&OneDescribed, &machine, &places, &Policy::default(), &costs);
    let Err(SimulateError::Failed(error)) = run else {
        panic!("{run:?}");
    };
    assert_eq!(error.kind(), Kind::NotDescribed, "{error}");
}

/// The thread did not know any more that it was inside of a body, whose next run waited for itself.
#[test]
fn a_simulation_that_unwinds_gives_the_thread_its_state_back() {
    let body = |_| {
        let unwinds = || aside(|| -> () { panic!("in the midst of it") });
        assert!(std::panic::catch_unwind(unwinds).is_err());
        let refused = dataflow_core::run(&tasks(1, &nothing), &Inline).unwrap_err();
        assert_eq!(refused.kind(), Kind::NestedRun);
        Ok(())
    };
    dataflow_core::run(&tasks(1, &body), &Inline).unwrap();
}
