//! Machines that are not there: schedules worked out by hand, and files of costs.

#[path = "../examples/calibrate/ends.rs"]
mod ends;
#[path = "../examples/calibrate/line.rs"]
mod line;
#[path = "../examples/calibrate/quantile.rs"]
mod quantile;

use common::cli::costs;
use costs::{Asked, CostFile, Kernel, Network, Numa, Overhead, Pace, Takes};
use dataflow::core::space::Independent;
use dataflow::mpi;
use dataflow::numa::Policy;
use dataflow::prelude::*;
use dataflow::simulate::{Cluster, Machine, MessageCosts, Played, Weather};
use dataflow::trace::Span;
use ends::end;
use line::Line;
use quantile::{lower_median, quantile};
use std::time::Duration;

/// Tasks by number, what leads from which to which, and how many ranks they are dealt out to.
#[derive(Clone, Copy)]
struct Few {
    tasks: u32,
    edges: &'static [(u32, u32)],
    n_ranks: u32,
}

const OUT: usize = 0;
const IN: usize = 1;

impl TaskSpace for Few {
    type Task = u32;
    type Datum = Vec<u8>;

    fn describe(&self, about: &mut Description) {
        let class = about.name("few").class("Task");
        class.new_flow("OUT").optional("IN");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
        let own = move |task: &u32| task % self.n_ranks == on.0;
        (0..self.tasks).filter(own)
    }

    fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
        for (source, _) in self.edges.iter().filter(|(_, target)| *target == task) {
            from.task(IN, *source, OUT);
        }
    }

    fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
        for (_, target) in self.edges.iter().filter(|(source, _)| *source == task) {
            to.task(OUT, *target, IN);
        }
    }

    fn run(&self, _: u32, _: &mut Flows<'_, Vec<u8>>) -> Result<(), TaskError> {
        unreachable!("in virtual time bodies only let time pass")
    }

    fn rank(&self, task: u32) -> Rank {
        Rank(task % self.n_ranks)
    }

    fn priority(&self, task: u32) -> i64 {
        -i64::from(task)
    }
}

const MILLI: Duration = Duration::from_millis(1);

/// Each task takes a millisecond, and its datum has so many bytes.
fn play(few: Few, machine: Machine, bytes: u64) -> Vec<Played> {
    let played = machine.run(move |stage| stage.play(&few, &|_, _| bytes, &|_| MILLI));
    let played = played.unwrap_or_else(|hung| panic!("{hung}")).into_iter();
    played.map(Result::unwrap).collect()
}

/// When the body of each task ran, microseconds since the first began.
fn bodies(played: Vec<Played>) -> Vec<(u64, u64)> {
    let mut traces = played.into_iter().map(|played| played.trace.unwrap());
    let first = traces.next().unwrap();
    let others: Vec<Vec<u8>> = traces.map(|trace| trace.to_bytes()).collect();
    let trace = first.joined(others.iter().map(Vec::as_slice)).unwrap();
    let slices = trace.slices();
    let mut spans: Vec<_> = slices.map(|(_, slice)| (slice.task, slice.span)).collect();
    spans.sort_unstable();
    let first = spans.iter().map(|(_, span)| span.begin).min().unwrap();
    let since = |at: u64| (at - first) / 1000;
    let span = |(_, span): (_, Span)| (since(span.begin), since(span.end));
    spans.into_iter().map(span).collect()
}

const CHAIN: Few = Few {
    tasks: 3,
    edges: &[(0, 1), (1, 2)],
    n_ranks: 1,
};

const FORK: Few = Few {
    tasks: 4,
    edges: &[(0, 1), (0, 2), (0, 3)],
    n_ranks: 1,
};

#[test]
fn on_one_rank_a_chain_takes_its_length_and_a_fork_its_rounds() {
    verify(&CHAIN, 1).unwrap();
    verify(&Few { n_ranks: 2, ..FORK }, 2).unwrap();
    for (few, threads, seconds) in [
        (CHAIN, 1, 0.003),
        (CHAIN, 2, 0.003),
        (FORK, 1, 0.004),
        (FORK, 2, 0.003),
        (FORK, 3, 0.002),
    ] {
        let machine = Machine {
            threads,
            ..Machine::default()
        };
        let played = play(few, machine, 0);
        assert_eq!(played[0].report.seconds, seconds, "{threads}");
        assert_eq!(played[0].report.tasks, u64::from(few.tasks));
    }
}

/// Ten microseconds on the way, three for the sender, two for the receiver, a byte a nanosecond.
fn two_ranks() -> Machine {
    let micros = Duration::from_micros;
    let costs = MessageCosts {
        send: micros(3),
        receive: micros(2),
        ..MessageCosts::default()
    };
    let cluster = Cluster {
        costs,
        ..Cluster::default()
    };
    Machine {
        ranks: 2,
        weather: Weather {
            latency: micros(10),
            bytes_per_second: f64::INFINITY,
            cluster,
            ..Weather::default()
        },
        trace: Some(1 << 20),
        ..Machine::default()
    }
}

#[test]
fn between_two_ranks_a_message_takes_its_overheads_and_its_way() {
    let ranks = |few| Few { n_ranks: 2, ..few };
    // Tasks 0 and 2 on rank 0, 1 and 3 on rank 1. What is received is seen at once, by the thread of the
    // rank while its worker has nothing to do: whoever waits pays for it, and nobody sees that.
    let spans = bodies(play(ranks(CHAIN), two_ranks(), 8));
    assert_eq!(spans, [(0, 1000), (1013, 2013), (2026, 3026)]);
    // A worker that sends pays during its next body.
    let spans = bodies(play(ranks(FORK), two_ranks(), 8));
    assert_eq!(spans, [(0, 1000), (1013, 2013), (1000, 2003), (2013, 3013)]);
}

/// What the engine takes for a task is in the flight of a ball as well, and was charged twice.
#[test]
fn task_and_message_of_a_simulated_hop_are_charged_with_what_the_ball_took() {
    let engine = Overhead {
        task_nanoseconds: 700.0,
        edge_nanoseconds: 100.0,
        run_nanoseconds: 9000.0,
    };
    let (ours, raw) = (5000.0, 1000.0);
    let task = engine.task_nanoseconds + engine.edge_nanoseconds;
    let end = end(ours, raw, engine);
    assert_eq!(task + end + raw + end, ours);
}

#[test]
fn a_flight_that_is_no_longer_than_a_bare_one_leaves_nothing_to_its_ends() {
    let engine = Overhead {
        task_nanoseconds: 300.0,
        ..Overhead::default()
    };
    assert_eq!(end(1200.0, 1000.0, engine), 0.0);
}

#[test]
fn a_rank_that_has_waited_for_longer_than_it_looks_takes_time_to_get_up() {
    let micros = Duration::from_micros;
    let machine = |awake, drive| {
        let calm = two_ranks();
        Machine {
            weather: Weather {
                awake,
                waking: micros(100),
                ..calm.weather
            },
            messages: mpi::Settings {
                drive,
                ..calm.messages
            },
            ..calm
        }
    };
    let few = Few {
        n_ranks: 2,
        ..CHAIN
    };
    for drive in [mpi::Drive::Workers, mpi::Drive::Dedicated] {
        let spans = |awake| bodies(play(few, machine(awake, drive), 8));
        assert_eq!(spans(micros(5000))[1].0, 1013, "{drive:?}");
        assert_eq!(spans(micros(50))[1].0, 1113, "{drive:?}");
    }
}

#[test]
fn a_run_in_virtual_time_is_the_same_to_the_nanosecond_whenever_it_is_played() {
    let few = Few { n_ranks: 2, ..FORK };
    let machine = |seed| Machine {
        weather: Weather {
            jitter: Duration::from_micros(500),
            seed,
            ..two_ranks().weather
        },
        ..two_ranks()
    };
    let [one, same, other] = [3, 3, 4].map(|seed| bodies(play(few, machine(seed), 1 << 20)));
    assert_eq!(one, same);
    assert_ne!(one, other);
}

#[test]
fn a_rank_that_has_nothing_to_say_costs_nothing() {
    let machine = Machine {
        threads: 2,
        ..Machine::default()
    };
    let played = machine.run(|stage| {
        let space = Independent::new("nothing", 1000, |_| Ok(()));
        stage.play(&space, &|_, _| 0, &|_| Duration::ZERO)
    });
    let played = played.unwrap().remove(0).unwrap();
    assert_eq!((played.report.tasks, played.report.seconds), (1000, 0.0));
    assert_eq!(played.sent.messages, 0);
}

/// A file with one kernel, in which a text stands for another.
fn with(from: &str, to: &str) -> String {
    let file = r#"{
  "about": ["any", "thing"],
  "cores": 2,
  "kernels": [
    { "graph": "few", "class": "Task", "nb": 100, "nanoseconds": 2000, "flops": 500, "spread": 0.1 }
  ],
  "runtime": { "task_nanoseconds": 100, "edge_nanoseconds": 10.5 },
  "networks": {
    "local": { "latency_nanoseconds": 500, "bytes_per_second": 1e10, "send_nanoseconds": 3 }
  }
}"#;
    assert!(file.contains(from), "{from}");
    file.replace(from, to)
}

#[test]
fn a_file_of_costs_is_read_as_it_was_written() {
    let costs = CostFile::parse(&with("any", "some")).unwrap();
    let text = serde_json::to_string_pretty(&costs).unwrap();
    assert_eq!(CostFile::parse(&text).unwrap(), costs, "{text}");
    let local = costs.networks["local"];
    assert_eq!(
        (local.ranks_on_a_host, local.copied_bytes_per_second),
        (1, None)
    );
    let weather = local.weather(7);
    assert_eq!((weather.seed, weather.latency.as_nanos()), (7, 500));
}

#[test]
fn a_wrong_file_of_costs_is_refused_with_key_line_and_what_is_allowed() {
    for (from, to, says) in [
        (
            "2000",
            "-1",
            &[
                "kernels[0]",
                "-1",
                "a number from 0 to 8.64e13, a day",
                "line 5",
            ][..],
        ),
        ("2000", "\"fast\"", &["kernels[0]", "fast", "f64", "line 5"]),
        ("500,", "0,", &["kernels[0]", "above 0", "line 5"]),
        (
            "\"flops\"",
            "\"flips\"",
            &["kernels[0]", "flips", "`flops`", "line 5"],
        ),
        (
            "\"nb\": 100",
            "\"nb\": 0",
            &["kernels[0]", "above 0", "line 5"],
        ),
        (
            "\"nanoseconds\": 2000, \"flops\": 500,",
            "",
            &["kernels[0]", "gflops"],
        ),
        (
            "10.5",
            "null",
            &["runtime.edge_nanoseconds", "f64", "line 7"],
        ),
        (
            "1e10",
            "0",
            &["networks.local.bytes_per_second", "at least 1000", "line 9"],
        ),
        (
            "\"latency_nanoseconds\": 500, ",
            "",
            &["networks.local", "latency_nanoseconds", "line 9"],
        ),
        (
            "\"kernels\"",
            "\"kernel\"",
            &["kernel", "`kernels`", "line 4"],
        ),
        ("\"cores\": 2", "\"cores\": two", &["cores", "line 3"]),
        // Such times overflowed the clock of virtual time, or ranks beat for them for hours.
        ("2000", "1e18", &["kernels[0]", "8.64e13, a day", "line 5"]),
        (
            "10.5",
            "8.65e13",
            &["runtime.edge_nanoseconds", "8.64e13, a day", "line 7"],
        ),
        (
            "1e10",
            "1e-3",
            &["networks.local.bytes_per_second", "at least 1000", "line 9"],
        ),
    ] {
        let wrong = CostFile::parse(&with(from, to)).unwrap_err().to_string();
        for word in says {
            assert!(wrong.contains(word), "{to}: no {word:?} in {wrong}");
        }
    }
    // It said "EOF while parsing a value".
    for empty in ["", "\n \n"] {
        let wrong = CostFile::parse(empty).unwrap_err().to_string();
        let says = "file is empty (must be an object of JSON, as the example calibrate writes it)";
        assert_eq!(wrong, says);
    }
    let nowhere = CostFile::read("nowhere.json".as_ref())
        .unwrap_err()
        .to_string();
    assert!(nowhere.starts_with("nowhere.json: "), "{nowhere}");
}

fn kernel(nb: usize, workers: usize, nanoseconds: f64) -> Kernel {
    Kernel {
        graph: Some("few".into()),
        class: Some("Task".into()),
        nb: Some(nb),
        workers: Some(workers),
        takes: Takes::Time {
            nanoseconds,
            fixed_nanoseconds: None,
            flops: Some(1000.0),
        },
        cold_nanoseconds: Some(3.0 * nanoseconds),
        ..Kernel::default()
    }
}

#[test]
fn the_line_that_says_most_counts_and_between_tile_orders_its_rate() {
    let any = Kernel {
        takes: Takes::Rate { gflops: 4.0 },
        ..Kernel::default()
    };
    let kernels = vec![
        any,
        kernel(100, 1, 500.0),
        kernel(300, 1, 250.0),
        kernel(100, 2, 800.0),
    ];
    let costs = CostFile {
        kernels,
        ..CostFile::default()
    };
    let time = |class: &str, nb, workers| {
        let asked = Asked {
            graph: "few",
            class,
            precision: "f64",
            nb,
            n: 1000,
            ranks: 1,
            workers,
        };
        let pace = costs.pace(&asked).unwrap();
        pace.time(1000.0, None, false).as_nanos()
    };
    for (class, nb, workers, expected) in [
        ("Task", 100, 1, 500),
        ("Task", 10, 1, 500),
        ("Task", 200, 1, 375),
        ("Task", 1000, 1, 250),
        ("Task", 100, 2, 800),
        ("Task", 100, 64, 800),
        ("Other", 100, 1, 250),
    ] {
        assert_eq!(time(class, nb, workers), expected, "{class} {nb} {workers}");
    }
    let none = CostFile {
        kernels: vec![kernel(100, 1, 500.0)],
        ..CostFile::default()
    };
    let asked = Asked {
        graph: "few",
        class: "Other",
        precision: "f64",
        nb: 100,
        n: 1000,
        ranks: 1,
        workers: 1,
    };
    let wrong = none.pace(&asked).unwrap_err().to_string();
    assert!(
        wrong.starts_with("no kernel is for Other of few in f64 "),
        "{wrong}"
    );
}

#[test]
fn a_larger_matrix_and_more_ranks_have_lines_of_their_own() {
    let line = |n: usize, ranks: usize, nanoseconds: f64| Kernel {
        n: Some(n),
        ranks: Some(ranks),
        ..kernel(100, 2, nanoseconds)
    };
    let with = |kernels| CostFile {
        kernels,
        ..CostFile::default()
    };
    let mut costs = with(vec![
        line(1000, 1, 500.0),
        line(3000, 1, 700.0),
        line(1000, 2, 900.0),
    ]);
    let time = |costs: &CostFile, n, ranks| {
        let asked = Asked {
            graph: "few",
            class: "Task",
            precision: "f64",
            nb: 100,
            n,
            ranks,
            workers: 2,
        };
        let pace = costs.pace(&asked).unwrap();
        pace.time(1000.0, None, false).as_nanos()
    };
    for (n, ranks, expected) in [
        (500, 1, 500),
        (1000, 1, 500),
        (1500, 1, 550),
        (9000, 1, 700),
        (1000, 2, 900),
        (3000, 2, 900),
        (1000, 8, 900),
    ] {
        assert_eq!(time(&costs, n, ranks), expected, "{n} on {ranks} ranks");
    }
    // What is measured anew takes the place of what was.
    costs.add([line(1000, 2, 800.0), line(3000, 2, 600.0)].into_iter());
    assert_eq!(costs.kernels.len(), 4);
    assert_eq!((time(&costs, 1000, 2), time(&costs, 2000, 2)), (800, 700));
}

#[test]
fn what_is_fixed_of_a_time_does_not_grow_with_operations() {
    let text = |fixed: f64| {
        format!(
            "{{ \"kernels\": [ {{ \"nanoseconds\": 500, \"flops\": 1000, \"fixed_nanoseconds\": {fixed} }} ] }}"
        )
    };
    let costs = CostFile::parse(&text(200.0)).unwrap();
    let asked = Asked {
        graph: "any",
        class: "Task",
        precision: "f64",
        nb: 100,
        n: 1000,
        ranks: 1,
        workers: 1,
    };
    let pace = costs.pace(&asked).unwrap();
    let time = |flops| pace.time(flops, None, false).as_nanos();
    assert_eq!((time(0.0), time(1000.0), time(2000.0)), (200, 500, 800));
    let wrong = CostFile::parse(&text(501.0)).unwrap_err().to_string();
    assert!(wrong.contains("a part of the `nanoseconds`"), "{wrong}");
}

/// A pause of the machine in one of two first bodies was what each simulated worker began with.
#[test]
fn one_first_body_of_two_that_was_paused_is_not_what_the_first_take() {
    assert_eq!(quantile([0.1, 4.7], 0.5), 2.4);
    for (cold, expected) in [
        (&[][..], 0.0),
        (&[4.7], 4.7),
        (&[4.7, 0.1], 0.1),
        (&[0.1, 4.7, 0.2], 0.2),
        (&[4.7, 0.2, 0.3, 0.1], 0.2),
    ] {
        assert_eq!(lower_median(cold), expected, "{cold:?}");
    }
}

#[test]
fn a_line_through_measured_points_has_their_fixed_part_and_their_slope() {
    let near = |line: Line, fixed: f64, slope: f64| {
        let close = |is: f64, should: f64| (is - should).abs() <= 1e-6 * should.abs().max(1e-6);
        let at_ten = close(line.at(10.0), fixed + 10.0 * slope);
        assert!(
            close(line.fixed, fixed) && close(line.slope, slope) && at_ten,
            "{line:?}"
        );
    };
    let points = |of: fn(f64) -> f64| [1.0, 2.0, 5.0, 80.0].map(|x| (x, of(x))).into_iter();
    near(Line::through(points(|x| 7.0 + 3.0 * x)), 7.0, 3.0);
    near(Line::through(points(|x| 3.0 * x)), 0.0, 3.0);
    near(Line::through(points(|_| 4.0)), 4.0, 0.0);
    // Of one x nothing is known to be fixed; without any, all is.
    near(
        Line::through([(2.0, 6.0), (2.0, 6.0)].into_iter()),
        0.0,
        3.0,
    );
    near(
        Line::through([(0.0, 6.0), (0.0, 6.0)].into_iter()),
        6.0,
        0.0,
    );
    near(Line::through(std::iter::empty()), 0.0, 0.0);
    // Nothing is negative: neither what would be fixed, nor the slope.
    let steep = Line::through(points(|x| (3.0 * x - 2.0).max(0.5)));
    assert!(steep.fixed == 0.0 && steep.slope > 0.0, "{steep:?}");
    let falling = Line::through(points(|x| 100.0 - x));
    assert!(falling.fixed > 20.0 && falling.slope == 0.0, "{falling:?}");
    near(
        Line {
            fixed: 1.0,
            slope: 2.0,
        }
        .times(3.0),
        3.0,
        6.0,
    );
}

#[test]
fn ranks_have_equal_parts_of_the_numa_nodes_of_their_host() {
    let text = |numa: &str| format!("{{ \"kernels\": [], \"numa\": {numa} }}");
    let numa = |told: &str| CostFile::parse(&text(told)).map(|costs| costs.numa.unwrap());
    let four = numa("{ \"cores\": [6, 6, 6, 6] }").unwrap();
    let part = |ranks| four.of_rank(ranks, Policy::distance());
    for (ranks, nodes, cores) in [(1, 4, 24), (2, 2, 12), (4, 1, 6), (8, 1, 3)] {
        let topology = part(ranks).unwrap().topology;
        let there_are = (topology.n_numa_nodes(), topology.n_cores());
        assert_eq!(there_are, (nodes, cores), "{ranks} ranks");
    }
    let costs = CostFile::parse(&text("{ \"cores\": [6, 2] }")).unwrap();
    assert_eq!(costs.cores_of_a_host(), Some(8));
    let of_two = part(2).unwrap();
    let distance = |to| of_two.topology.distance(0, to);
    assert_eq!((distance(0), distance(1)), (10, 20));
    assert_eq!(of_two.round, Duration::from_micros(1));
    let unequal = part(3).unwrap_err().to_string();
    assert!(unequal.contains("3 ranks"), "{unequal}");
    let told = "{ \"cores\": [1, 1], \"distances\": [[10, 21], [21, 10]], \"remote_nanoseconds_per_byte\": 0.5 }";
    let far = numa(told).unwrap().of_rank(1, Policy::distance()).unwrap();
    assert_eq!((far.topology.distance(0, 1), far.remote_byte), (21, 0.5e-9));
    let short = numa("{ \"cores\": [1, 1], \"distances\": [[10, 21]] }").unwrap();
    let short = short
        .of_rank(1, Policy::distance())
        .unwrap_err()
        .to_string();
    assert!(short.contains("2 NUMA nodes"), "{short}");
    let none = numa("{ \"cores\": [2, 0] }").unwrap_err().to_string();
    assert!(
        none.contains("numa") && none.contains("at least one core"),
        "{none}"
    );
}

/// It was a null of a wrong type.
#[test]
fn null_says_of_what_may_be_absent_that_it_is() {
    let without = CostFile::parse(
        "{ \"numa\": { \"cores\": [1, 1] }, \"kernels\": [{ \"nanoseconds\": 5 }] }",
    );
    let with = CostFile::parse(
        "{ \"cores\": null, \"numa\": { \"cores\": [1, 1], \"distances\": null },
           \"kernels\": [{ \"graph\": null, \"nb\": null, \"nanoseconds\": 5, \"flops\": null, \"gflops\": null }] }",
    );
    assert_eq!(with.unwrap(), without.unwrap());
    let refused = CostFile::parse("{ \"kernels\": [{ \"nanoseconds\": 5, \"nb\": 0 }] }");
    assert!(refused.unwrap_err().to_string().contains("above 0"));
}

/// Each rank had what the first has: two ranks of six and two cores had twelve.
#[test]
fn ranks_whose_parts_of_a_host_would_not_be_alike_are_refused() {
    let of_rank = |cores: &[usize], distances: Option<[[u32; 4]; 4]>, ranks| {
        let numa = Numa {
            cores: cores.to_vec(),
            distances: distances.map(|rows| rows.map(Vec::from).to_vec()),
            remote_nanoseconds_per_byte: 0.0,
            round_nanoseconds: 1.0,
        };
        numa.of_rank(ranks, Policy::distance())
            .map(|numa| numa.topology.n_cores())
            .map_err(|wrong| wrong.to_string())
    };
    assert_eq!(of_rank(&[6, 2], None, 1), Ok(8));
    assert_eq!(of_rank(&[6, 2, 6, 2], None, 2), Ok(8));
    for (cores, ranks) in [(&[6, 2][..], 2), (&[6, 2], 4), (&[6, 2, 2, 6], 2)] {
        let refused = of_rank(cores, None, ranks).unwrap_err();
        assert!(refused.contains("not alike"), "{cores:?}: {refused}");
    }
    let row = |from: u32| [0, 1, 2, 3].map(|to: u32| 10 + to.abs_diff(from));
    let mut rows = [0, 1, 2, 3].map(row);
    assert_eq!(of_rank(&[2; 4], Some(rows), 2), Ok(4));
    rows[3][2] = 15;
    assert_eq!(of_rank(&[2; 4], Some(rows), 4), Ok(2));
    assert!(of_rank(&[2; 4], Some(rows), 2).is_err());
}

#[test]
fn drawn_times_have_the_median_and_the_quartiles_of_their_line() {
    let pace = Pace {
        fixed: 1e6,
        per_flop: 0.0,
        spread: 0.1,
        cold: 3.0,
    };
    let bits = |draw: u64| draw.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ draw << 40;
    let mut times: Vec<u128> = (1..=4001)
        .map(|draw| pace.time(0.0, Some(bits(draw)), false).as_nanos())
        .collect();
    times.sort_unstable();
    for (place, expected) in [(1000, 0.9e6), (2000, 1e6), (3000, 1.1e6)] {
        let error = times[place] as f64 / expected - 1.0;
        assert!(error.abs() < 0.02, "{place}: {}", times[place]);
    }
    assert_eq!(pace.time(0.0, Some(5), true).as_nanos(), 3_000_000);
}

#[test]
fn a_network_is_weather_without_faults() {
    let network = Network {
        latency_nanoseconds: 1500.0,
        bytes_per_second: 2e9,
        send_nanoseconds: 300.0,
        receive_nanoseconds: 200.0,
        run_nanoseconds: 0.0,
        task_nanoseconds: 0.0,
        awake_nanoseconds: 50_000.0,
        waking_nanoseconds: 80_000.0,
        gap_nanoseconds: 100.0,
        copied_bytes_per_second: Some(5e9),
        data_copied_bytes_per_second: None,
        ranks_on_a_host: 2,
    };
    let weather = network.weather(1);
    let costs = &weather.cluster.costs;
    assert_eq!((weather.loss, weather.jitter), (0.0, Duration::ZERO));
    let micros = Duration::from_micros;
    assert_eq!((weather.awake, weather.waking), (micros(50), micros(80)));
    assert_eq!(
        costs.send + costs.receive + costs.gap,
        Duration::from_nanos(600)
    );
    assert_eq!(costs.copied_bytes_per_second, 5e9);
    assert_eq!(costs.data_copied_bytes_per_second, f64::INFINITY);
}
