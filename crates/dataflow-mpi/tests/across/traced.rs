//! Traces of runs in virtual time: exact to the byte, and the cause of slowness is named first.

use crate::engine::in_world;
use dataflow_core::port::{Context, Executor, Heap, Job, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::run_across;
use dataflow_core::space::Erased;
use dataflow_core::trace::{Cause, Clock, Doing, Message, Span, Trace, Tracer};
use dataflow_mpi::transport::local;
use dataflow_mpi::transport::simulated::{VirtualWorkers, Weather, World, spend};
use dataflow_mpi::{Drive, Machine, Messenger, Settings};
use std::sync::Arc;
use std::time::Duration;

task_names! {
    /// A cell of a row after so many steps.
    pub enum Cell { Cell { step, place } }
}

/// Cells in a row, dealt to ranks in pieces; each step needs those left and right of the last.
#[derive(Clone, Debug)]
struct Row {
    n_ranks: u32,
    /// Cells of each rank.
    width: u32,
    steps: u32,
    /// Bytes of a cell.
    bytes: usize,
    /// How long bodies take: ordinarily, on a slow rank, one of them.
    body: Duration,
    slow_rank: Option<(u32, Duration)>,
    long_body: Option<(u32, u32, Duration)>,
    /// Whether it runs behind a pointer.
    is_erased: bool,
}

const LEFT: usize = 0;
const MIDDLE: usize = 1;
const RIGHT: usize = 2;
const NEXT: usize = 3;

impl Row {
    fn new(n_ranks: u32, width: u32) -> Self {
        Row {
            n_ranks,
            width,
            steps: 20,
            bytes: 1000,
            body: Duration::from_millis(1),
            slow_rank: None,
            long_body: None,
            is_erased: false,
        }
    }

    fn length(&self) -> u32 {
        self.n_ranks * self.width
    }

    /// From flow to place, of those next to a place.
    fn beside(&self, place: u32) -> impl Iterator<Item = (usize, u32)> + use<> {
        let length = self.length();
        let places = [
            (LEFT, place.checked_sub(1)),
            (MIDDLE, Some(place)),
            (RIGHT, Some(place + 1)),
        ];
        let places = places
            .into_iter()
            .filter_map(|(flow, place)| Some((flow, place?)));
        places.filter(move |(_, place)| *place < length)
    }
}

impl TaskSpace for Row {
    type Task = Cell;
    type Datum = Vec<u8>;

    fn describe(&self, about: &mut Description) {
        about
            .name("row")
            .parameter("ranks", self.n_ranks)
            .parameter("steps", self.steps);
        let cell = about.class("Cell").optional("LEFT").optional("MIDDLE");
        cell.optional("RIGHT").new_flow("NEXT");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Cell> + Send {
        let places = on.0 * self.width..(on.0 + 1) * self.width;
        (0..self.steps)
            .flat_map(move |step| places.clone().map(move |place| Cell::Cell { step, place }))
    }

    fn inputs(&self, Cell::Cell { step, place }: Cell, from: &mut impl Inputs<Self>) {
        if let Some(step) = step.checked_sub(1) {
            for (flow, place) in self.beside(place) {
                from.task(flow, Cell::Cell { step, place }, NEXT);
            }
        }
    }

    fn successors(&self, Cell::Cell { step, place }: Cell, to: &mut impl Successors<Self>) {
        if step + 1 < self.steps {
            for (flow, place) in self.beside(place) {
                // Who lies left of me has me on the right.
                to.task(
                    NEXT,
                    Cell::Cell {
                        step: step + 1,
                        place,
                    },
                    RIGHT - flow,
                );
            }
        }
    }

    fn run(
        &self,
        Cell::Cell { step, place }: Cell,
        flows: &mut Flows<'_, Vec<u8>>,
    ) -> Result<(), TaskError> {
        let slow = self
            .slow_rank
            .filter(|(rank, _)| *rank == place / self.width);
        let long = self
            .long_body
            .filter(|&(at, of, _)| (at, of) == (step, place));
        spend(match (slow, long) {
            (_, Some((.., body))) | (Some((_, body)), _) => body,
            _ => self.body,
        });
        let [_, _, _, next] = flows.slots();
        next.put(vec![step as u8; self.bytes]);
        Ok(())
    }

    fn rank(&self, Cell::Cell { place, .. }: Cell) -> Rank {
        Rank(place / self.width)
    }
}

/// So many workers are told of, and one works.
struct Hoarding {
    one: VirtualWorkers,
    n_workers: usize,
}

impl Executor for Hoarding {
    fn n_workers(&self) -> usize {
        self.n_workers
    }

    fn execute(&self, job: &Arc<Job>) {
        self.one.execute(job);
    }
}

/// How the workers of each rank share their tasks.
#[derive(Clone, Copy, PartialEq)]
enum Shares {
    All,
    OneHasThem,
}

/// What the run of a row leaves, on so many workers a rank.
fn trace_of(row: &Row, weather: Weather, n_workers: usize, shares: Shares) -> Trace {
    trace_with(&Settings::default(), row, weather, n_workers, shares)
}

fn trace_with(
    settings: &Settings,
    row: &Row,
    weather: Weather,
    n_workers: usize,
    shares: Shares,
) -> Trace {
    let n_ranks = row.n_ranks as usize;
    let row = row.clone();
    let body = move |messenger: dataflow_mpi::Messenger, world: &World| {
        let rank = dataflow_core::port::Courier::rank(&messenger);
        let clock = world.clone();
        let clock = Clock::given(move || clock.now().as_nanos() as u64);
        let tracer = Tracer::with_clock(1 << 22, clock);
        let on: Box<dyn Executor> = match shares {
            Shares::All => Box::new(VirtualWorkers::new(world, rank, n_workers)),
            Shares::OneHasThem => Box::new(Hoarding {
                one: VirtualWorkers::new(world, rank, 1),
                n_workers,
            }),
        };
        let on = Context::new(&*on).traced_by(&tracer).across(&messenger);
        match row.is_erased {
            true => run_across(&Erased::new(&row), &on).unwrap(),
            false => run_across(&row, &on).unwrap(),
        };
        tracer.take().remove(0)
    };
    let story = in_world(weather, n_ranks, settings, body);
    let mut parts = story
        .unwrap_or_else(|hung| panic!("{hung}"))
        .told
        .into_iter();
    let first = parts.next().unwrap();
    let others: Vec<Vec<u8>> = parts.map(|part| part.to_bytes()).collect();
    first.joined(others.iter().map(Vec::as_slice)).unwrap()
}

#[test]
fn a_trace_in_virtual_time_is_a_function_of_the_seed() {
    let row = Row::new(3, 4);
    let weather = || Weather {
        seed: 7,
        jitter: Duration::from_micros(300),
        shuffle: true,
        ..Weather::default()
    };
    let [first, second] = [(); 2].map(|()| trace_of(&row, weather(), 2, Shares::All));
    assert_eq!(first.to_bytes(), second.to_bytes());
    assert_eq!(first.slices().count(), 3 * 4 * 20);
    assert_eq!(
        first.messages().len(),
        4 * 19,
        "each border cell but the last ones"
    );
}

#[test]
fn a_space_behind_a_pointer_leaves_the_same_trace() {
    let row = Row::new(3, 4);
    let erased = Row {
        is_erased: true,
        ..row.clone()
    };
    let [plain, erased] =
        [row, erased].map(|row| trace_of(&row, Weather::default(), 2, Shares::All));
    assert!(
        plain
            .messages()
            .iter()
            .all(|message| message.left.is_some())
    );
    assert_eq!(erased.to_bytes(), plain.to_bytes());
}

#[test]
fn every_nanosecond_of_virtual_time_is_accounted_for() {
    let trace = trace_of(&Row::new(2, 4), Weather::default(), 2, Shares::All);
    let bodies = |rank: usize, worker: usize| {
        let activities = trace.activities(rank, worker);
        let bodies = activities
            .iter()
            .filter(|of| matches!(of.doing, Doing::Body(_)));
        bodies.map(|of| of.span.length()).sum::<u64>()
    };
    // 160 bodies of a millisecond, half of them on each rank.
    for rank in 0..2 {
        assert_eq!(bodies(rank, 0) + bodies(rank, 1), 80_000_000, "{rank}");
    }
    let limits = trace.limits();
    assert_eq!((limits.area, limits.path), (40_000_000, 20_000_000));
    assert_eq!(limits.path_tasks.len(), 20);
}

/// The first sentence of an explanation.
fn verdict(trace: &Trace) -> String {
    trace.explanation().verdict().to_string()
}

#[test]
fn a_slow_link_is_named() {
    let weather = Weather {
        // A cell takes 10 ms from rank 1 to rank 0, and a fifth of a microsecond elsewhere.
        slow_links: vec![(Rank(1), Rank(0), 1e5)],
        ..Weather::default()
    };
    let trace = trace_of(&Row::new(2, 4), weather, 2, Shares::All);
    let told = verdict(&trace);
    assert!(
        told.starts_with("Workers wait for data under way"),
        "{told}"
    );
    assert!(
        told.contains("longest from rank 1 to rank 0: 19 messages of 1000 bytes"),
        "{told}"
    );
    let explained = trace.explanation();
    // It is the link that is slow, not whoever takes in: they wait to leave.
    assert!(told.contains(" of it before they had left."), "{told}");
    assert!(
        explained.part(Cause::DataUnderWay.shown()) > 0.3,
        "{explained}"
    );
    assert!(explained.hidden.unwrap() < 0.5, "{explained}");
}

/// The middle of three ranks may have one datum under way at a time, and two are announced to it.
#[test]
fn a_window_that_is_too_narrow_is_named() {
    let row = Row {
        bytes: 100_000,
        ..Row::new(3, 2)
    };
    let weather = || Weather {
        slow_links: [(0, 1), (2, 1), (1, 0), (1, 2)]
            .map(|(from, to)| (Rank(from), Rank(to), 1e7))
            .to_vec(),
        ..Weather::default()
    };
    let narrow = Settings {
        window_bytes: 1,
        ..Settings::default()
    };
    let waits = " of it before they were asked for";
    for (settings, is_narrow) in [(&narrow, true), (&Settings::default(), false)] {
        let trace = trace_with(settings, &row, weather(), 2, Shares::All);
        let told = verdict(&trace);
        assert_eq!(told.contains(waits), is_narrow, "{told}");
    }
}

#[test]
fn a_slow_rank_is_named() {
    let row = Row {
        slow_rank: Some((1, Duration::from_millis(3))),
        ..Row::new(3, 4)
    };
    let told = verdict(&trace_of(&row, Weather::default(), 2, Shares::All));
    assert_eq!(
        told,
        "rank 1 is slow: its bodies take 3.0 times as long as the same elsewhere."
    );
}

#[test]
fn one_long_body_on_the_critical_path_is_named() {
    let row = Row {
        long_body: Some((10, 5, Duration::from_millis(100))),
        ..Row::new(2, 4)
    };
    let told = verdict(&trace_of(&row, Weather::default(), 2, Shares::All));
    assert!(
        told.starts_with(
            "One body is most of the longest chain: Cell { step: 10, place: 5 } takes 100.00 ms"
        ),
        "{told}"
    );
}

#[test]
fn too_few_tasks_are_named() {
    let told = verdict(&trace_of(
        &Row::new(2, 1),
        Weather::default(),
        8,
        Shares::All,
    ));
    assert!(
        told.starts_with("There are too few tasks at a time: 2.0 of 16 workers are busy"),
        "{told}"
    );
}

#[test]
fn a_policy_that_keeps_tasks_from_workers_is_named() {
    let trace = trace_of(&Row::new(2, 8), Weather::default(), 4, Shares::OneHasThem);
    let told = verdict(&trace);
    assert!(
        told.starts_with("Tasks were ready while workers had nothing to do"),
        "{told}"
    );
}

#[test]
fn communication_that_is_hidden_is_told_to_be() {
    let weather = Weather {
        latency: Duration::from_micros(800),
        ..Weather::default()
    };
    let trace = trace_of(&Row::new(2, 16), weather, 2, Shares::All);
    let explained = trace.explanation();
    // What had come and lay until a worker took it in was not under way any more.
    assert!(explained.hidden.unwrap() > 0.9, "{explained}");
    assert!(
        explained.verdict().starts_with("The workers compute 97 %"),
        "{explained}"
    );
}

/// Every task: who ran it, when it was ready, began and ended, in microseconds.
fn told(trace: &Trace) -> String {
    let line = |(at, slice): (dataflow_core::trace::At, &dataflow_core::trace::Slice)| {
        let times = [slice.ready, slice.span.begin, slice.span.end].map(|time| time as f64 * 1e-3);
        let rank = trace.ranks[at.rank].rank.0;
        let afar = if slice.from_afar { " from afar" } else { "" };
        let shown = trace.shown(at);
        format!(
            "{rank}.{} {shown}: {} {} {}{afar}\n",
            slice.worker, times[0], times[1], times[2]
        )
    };
    trace.slices().map(line).collect()
}

#[test]
fn a_small_run_is_told_to_the_nanosecond() {
    let row = Row {
        steps: 2,
        ..Row::new(2, 2)
    };
    let trace = trace_of(&row, Weather::default(), 1, Shares::All);
    assert_eq!(told(&trace), GOLDEN);
}

/// Two ranks with two cells each, a millisecond a body; 5 µs and 10 GB/s between them. Rank 1 begins
/// when it has heard that all are there; what comes for it while its worker is in a body waits for the
/// end of that body.
const GOLDEN: &str = "\
0.0 Cell { step: 0, place: 0 }: 0 0 1000
0.0 Cell { step: 0, place: 1 }: 0 1000 2000
0.0 Cell { step: 1, place: 0 }: 2000 2000 3000
0.0 Cell { step: 1, place: 1 }: 2000 3000 4000 from afar
1.0 Cell { step: 0, place: 2 }: 5.003 5.003 1005.003
1.0 Cell { step: 0, place: 3 }: 5.003 1005.003 2005.003
1.0 Cell { step: 1, place: 3 }: 2005.003 2005.003 3005.003
1.0 Cell { step: 1, place: 2 }: 3005.003 3005.003 4005.003 from afar
";

/// Each message: when it was posted, had left, was heard of and asked for if it had to be, had come and
/// was taken in, in microseconds.
fn ways(trace: &Trace) -> String {
    let line = |message: &Message| {
        let Message { from, to, .. } = *message;
        let Span { begin, end } = message.span;
        let ways = [message.left, message.heard, message.asked, message.there];
        let stamps = [Some(begin)].into_iter().chain(ways).chain([Some(end)]);
        let stamps = stamps.map(|stamp| match stamp {
            Some(stamp) => format!(" {:.3}", stamp as f64 * 1e-3),
            None => " -".to_string(),
        });
        format!(
            "{from} to {to}, {} B:{}\n",
            message.bytes,
            stamps.collect::<String>()
        )
    };
    trace.messages().iter().map(line).collect()
}

#[test]
fn when_messages_left_and_came_is_told_to_the_nanosecond() {
    for (bytes, golden) in [(1000, INLINE), (100_000, ASKED_FOR)] {
        let row = Row {
            steps: 2,
            bytes,
            ..Row::new(2, 2)
        };
        let trace = trace_of(&row, Weather::default(), 1, Shares::All);
        assert_eq!(ways(&trace), golden);
    }
}

/// A way takes 5 µs. Both workers are in bodies of a millisecond, so somebody else looks at messages,
/// 200 µs after a worker has done so last (rank 0's at 1000, rank 1's at 1005.003): then a rank hears what
/// has come. A worker takes it in when its body has ended, and then notices what has left, for which nobody
/// is woken.
const INLINE: &str = "\
1 to 0, 1000 B: 1005.003 2005.003 - - 1200.000 2000.000
0 to 1, 1000 B: 2000.000 3000.000 - - 2205.003 3005.003
";

/// The same; when it is heard of, the data are asked for, which takes 5 µs, and come, which takes 15. The
/// simulated network takes them at once.
const ASKED_FOR: &str = "\
1 to 0, 100000 B: 1005.003 1205.005 1200.000 1200.000 1220.005 2000.000
0 to 1, 100000 B: 2000.000 2210.008 2205.003 2205.003 2225.008 3005.003
";

#[test]
fn every_message_leaves_and_comes_before_it_is_taken_in_whatever_the_weather() {
    for seed in 0..20 {
        let weather = Weather {
            seed,
            jitter: Duration::from_micros(300),
            shuffle: true,
            reorder: true,
            ..Weather::default()
        };
        let row = Row {
            bytes: if seed % 2 == 0 { 1000 } else { 100_000 },
            ..Row::new(3, 4)
        };
        let trace = trace_of(&row, weather, 2, Shares::All);
        for message in trace.messages() {
            let (left, there) = (message.left.unwrap(), message.there.unwrap());
            assert!(message.span.begin <= left, "{seed}: {message:?}");
            assert!(message.span.begin < there, "{seed}: {message:?}");
            assert!(there <= message.span.end, "{seed}: {message:?}");
            let asked = message.heard.zip(message.asked);
            assert_eq!(asked.is_some(), row.bytes > 1000, "{seed}: {message:?}");
            if let Some((heard, asked)) = asked {
                let way = [message.span.begin, heard, asked, there];
                assert!(way.is_sorted(), "{seed}: {message:?}");
            }
        }
    }
}

/// What the run of a row leaves on ranks that are threads, in real time.
fn trace_on_threads(row: &Row, drive: Drive) -> Trace {
    let rank = |transport: local::Local| {
        let settings = Settings {
            drive,
            ..Settings::default()
        };
        let (carrier, memory) = (Box::new(transport), Arc::new(Heap));
        let messenger = Messenger::new(carrier, settings, Machine::new(), memory).unwrap();
        let (tracer, on) = (Tracer::new(1 << 20), Shuffled::new(1).with_threads(2));
        let on = Context::new(&on).traced_by(&tracer).across(&messenger);
        run_across(row, &on).unwrap();
        tracer.take().remove(0)
    };
    let parts = std::thread::scope(|threads| {
        let ends = local::connect(row.n_ranks as usize).into_iter();
        let ranks: Vec<_> = ends.map(|end| threads.spawn(move || rank(end))).collect();
        let parts = ranks.into_iter().map(|rank| rank.join().unwrap());
        parts.collect()
    });
    Trace::of_ranks(parts)
}

/// Workers, messengers and, of what goes from thread to thread, its receiver note stamps of one run:
/// what ThreadSanitizer looks at too.
#[test]
fn on_ranks_that_are_threads_stamps_of_a_message_follow_one_another_whoever_notes_them() {
    for drive in [Drive::Workers, Drive::Dedicated] {
        for bytes in [100, 200_000] {
            let row = Row {
                bytes,
                ..Row::new(3, 2)
            };
            let trace = trace_on_threads(&row, drive);
            let messages = trace.messages();
            assert_eq!(messages.len(), 4 * 19);
            for message in messages {
                let Span { begin, end } = message.span;
                let there = message.there.unwrap();
                assert!(there <= end, "{message:?}");
                assert!(begin <= there + trace.clock_error, "{message:?}");
                assert!(message.left.is_none_or(|left| begin <= left), "{message:?}");
            }
            // Of the last ones word may come after the run.
            let left = messages
                .iter()
                .filter(|message| message.left.is_some())
                .count();
            assert!(
                left >= messages.len() / 2,
                "{drive:?}: {left} of {}",
                messages.len()
            );
        }
    }
}

/// Tasks of a millisecond: a hundred that nobody waits for, and behind them a chain of twenty.
struct ChainLast;

impl TaskSpace for ChainLast {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("chain last").class("Link").order("BEFORE");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..120
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 100 {
            from.task(0, task - 1, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if (100..119).contains(&task) {
            to.task(0, task + 1, 0);
        }
    }

    fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        spend(Duration::from_millis(1));
        Ok(())
    }
}

#[test]
fn urgent_tasks_that_run_late_are_named() {
    let world = World::new(Weather::default());
    let inside = world.clone();
    let traces = world.run(1, move |rank| {
        let clock = inside.clone();
        let clock = Clock::given(move || clock.now().as_nanos() as u64);
        let tracer = Tracer::with_clock(1 << 22, clock);
        let on = VirtualWorkers::new(&inside, rank, 2);
        dataflow_core::run(&ChainLast, &Context::new(&on).traced_by(&tracer)).unwrap();
        tracer.take().remove(0)
    });
    let told = verdict(&traces.unwrap()[0]);
    assert!(
        told.starts_with("What is urgent runs late: workers find nothing ready"),
        "{told}"
    );
    assert!(
        told.contains("the longest chain, of 20 tasks, takes 20.00 ms of"),
        "{told}"
    );
}
