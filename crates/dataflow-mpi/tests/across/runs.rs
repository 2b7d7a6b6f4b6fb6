//! The real engine over this courier: a wavefront whose borders cross ranks.

use crate::engine::{Random, in_this, in_world};
use dataflow_core::error::Kind;
use dataflow_core::monitor::Monitor;
use dataflow_core::port::{Block, Context, Courier, Heap, Inline, Shuffled, Wire};
use dataflow_core::prelude::*;
use dataflow_core::recursion::{Call, Recursive, recurse_across};
use dataflow_core::{Report, run_across};
use dataflow_mpi::transport::local;
use dataflow_mpi::transport::simulated::{VirtualWorkers, Weather, World, spend};
use dataflow_mpi::{Drive, Machine, Messenger, Settings};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A value, in as many bytes as wanted.
#[derive(Clone)]
struct Border(Vec<u8>);

impl Datum for Border {}

impl Wire for Border {
    fn head(&self) -> SmallVec<[u8; 32]> {
        SmallVec::new()
    }
    fn size(&self) -> usize {
        self.0.len()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.0)
    }
    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(Border(body.bytes().to_vec()))
    }
}

/// Row and column.
type Cell = (u32, u32);

/// Makes the error of a task that fails.
type Why = fn() -> TaskError;

/// Cell (m, n) needs the border of the one above and the one to the left.
struct Wavefront {
    n: u32,
    bytes: usize,
    seconds: f64,
    grid: (u32, u32),
    corner: Store<Border>,
    /// The task that fails, and why.
    fails: Option<(Cell, Why)>,
}

const ABOVE: usize = 0;
const LEFT: usize = 1;
const OWN: usize = 2;

impl Wavefront {
    fn new(n: u32, bytes: usize, grid: (u32, u32)) -> Self {
        let corner = Store::new("corner", [Border(vec![0; bytes])]);
        Wavefront {
            n,
            bytes,
            seconds: 1e-4,
            grid,
            corner,
            fails: None,
        }
    }

    /// What the last cell computes.
    fn expected(&self) -> u8 {
        let n = self.n as usize;
        let mut row = vec![0u8; n];
        for m in 0..n {
            for k in 0..n {
                let left = if k > 0 { row[k - 1] } else { 0 };
                let above = if m > 0 { row[k] } else { 0 };
                row[k] = left
                    .wrapping_mul(3)
                    .wrapping_add(above)
                    .wrapping_add((m + 7 * k) as u8);
            }
        }
        row[n - 1]
    }
}

impl TaskSpace for Wavefront {
    type Task = Cell;
    type Datum = Border;

    fn describe(&self, about: &mut Description) {
        about
            .name("wavefront")
            .parameter("n", self.n)
            .parameter("bytes", self.bytes);
        about
            .class("At")
            .optional("ABOVE")
            .optional("LEFT")
            .new_flow("OWN");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Cell> + Send {
        let all = (0..self.n).flat_map(move |m| (0..self.n).map(move |n| (m, n)));
        all.filter(move |&cell| self.rank(cell) == on)
    }

    fn rank(&self, (m, n): Cell) -> Rank {
        Rank(m % self.grid.0 * self.grid.1 + n % self.grid.1)
    }

    fn inputs(&self, (m, n): Cell, from: &mut impl Inputs<Self>) {
        if m > 0 {
            from.task(ABOVE, (m - 1, n), OWN);
        }
        if n > 0 {
            from.task(LEFT, (m, n - 1), OWN);
        }
    }

    fn successors(&self, (m, n): Cell, to: &mut impl Successors<Self>) {
        if m + 1 < self.n {
            to.task(OWN, (m + 1, n), ABOVE);
        }
        if n + 1 < self.n {
            to.task(OWN, (m, n + 1), LEFT);
        }
        if (m + 1, n + 1) == (self.n, self.n) {
            to.home(OWN, &self.corner, 0);
        }
    }

    fn run(&self, (m, n): Cell, flows: &mut Flows<'_, Border>) -> Result<(), TaskError> {
        spend(Duration::from_secs_f64(self.seconds));
        if let Some((cell, why)) = self.fails
            && cell == (m, n)
        {
            return Err(why());
        }
        let value = |border: Option<&Border>| {
            border.map_or(0, |Border(bytes)| {
                assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                bytes[0]
            })
        };
        let [above, left, own] = flows.slots();
        let (above, left) = (value(above.get()), value(left.get()));
        let sum = left
            .wrapping_mul(3)
            .wrapping_add(above)
            .wrapping_add((m + 7 * n) as u8);
        own.put(Border(vec![sum; self.bytes]));
        Ok(())
    }
}

/// What a rank's run returned, and the corner if it is there.
type Ended = (Result<Report, Error>, u8);

fn run_here(
    space: &Wavefront,
    on: &dyn dataflow_core::port::Executor,
    messenger: &Messenger,
) -> Ended {
    let report = run_across(space, &Context::new(on).across(messenger));
    (report, space.corner.get(0).map_or(0, |corner| corner.0[0]))
}

/// The space of a rank.
type MakeSpace = Arc<dyn Fn(Rank) -> Wavefront + Send + Sync>;

fn in_weather(
    weather: Weather,
    n_workers: usize,
    settings: &Settings,
    space: MakeSpace,
) -> (Vec<Ended>, Duration) {
    let grid = space(Rank(0)).grid;
    let n_ranks = (grid.0 * grid.1) as usize;
    let story = in_world(weather, n_ranks, settings, move |messenger, world| {
        let workers = VirtualWorkers::new(world, messenger.rank(), n_workers);
        run_here(&space(messenger.rank()), &workers, &messenger)
    });
    let story = story.unwrap_or_else(|hung| panic!("{hung}"));
    (story.told, story.lasted)
}

fn assert_good(space: &Wavefront, ended: &[Ended], what: &str) {
    let last = space.rank((space.n - 1, space.n - 1)).0 as usize;
    let mut tasks = 0;
    for (report, _) in ended {
        tasks += report
            .as_ref()
            .unwrap_or_else(|error| panic!("{what}: {error}"))
            .tasks;
    }
    assert_eq!(tasks, u64::from(space.n * space.n), "{what}");
    assert_eq!(ended[last].1, space.expected(), "{what}");
}

#[test]
fn a_wavefront_runs_in_rough_weather_on_every_grid() {
    for seed in 0..60u64 {
        let mut random = Random(seed);
        let grid = [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (1, 5)][random.below(6)];
        let bytes = [1, 100, 5000, 70_000][random.below(4)];
        let n = 1 + random.below(12) as u32;
        let drive = [Drive::Dedicated, Drive::Workers][random.below(2)];
        let settings = Settings {
            drive,
            blocking: random.below(5) == 0,
            ..Settings::default()
        };
        let make: MakeSpace = Arc::new(move |_| Wavefront::new(n, bytes, grid));
        let weather = Weather::rough(seed, (grid.0 * grid.1) as usize);
        let (ended, _) = in_weather(weather, 1 + random.below(3), &settings, make.clone());
        assert_good(
            &make(Rank(0)),
            &ended,
            &format!("seed {seed}: n {n}, {bytes} bytes, {grid:?}, {drive:?}"),
        );
    }
}

/// A worker without a stack was to wait, and could not: the world ended with an internal error.
#[test]
fn workers_without_a_stack_post_without_waiting_where_posts_are_to_wait() {
    for drive in [Drive::Dedicated, Drive::Workers] {
        let settings = Settings {
            drive,
            blocking: true,
            ..Settings::default()
        };
        let make = || Wavefront::new(8, 100, (2, 2));
        let courses = [World::new, World::on_threads].map(|world| {
            let world = world(Weather::default());
            let story = in_this(&world, 4, &settings, move |messenger, world| {
                let workers = VirtualWorkers::lean(world, messenger.rank(), 3);
                run_here(&make(), &workers, &messenger)
            });
            let story = story.unwrap_or_else(|hung| panic!("{hung}"));
            assert_good(&make(), &story.told, &format!("{drive:?}"));
            (story.lasted, story.digest)
        });
        assert_eq!(courses[0], courses[1], "on fibers and on threads");
    }
}

/// Each call forks into two, down to a depth. It takes so long by the world's clock, and by the machine's.
#[derive(Default)]
struct Doubling {
    spends: Duration,
    sleeps: Duration,
    n_calls: AtomicU64,
}

impl Recursive for Doubling {
    type Argument = u64;
    type Value = u64;

    fn call(&self, depth: u64) -> Result<Call<Self>, TaskError> {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
        spend(self.spends);
        thread::sleep(self.sleeps);
        Ok(match depth {
            0 => Call::Done(1),
            _ => Call::fork([depth - 1; 2], |values| values.into_iter().sum()),
        })
    }
}

/// Ranks waited for each other by the machine's clock, where time stood still; and that clock said when calls
/// were slow.
#[test]
fn how_far_the_top_of_a_recursion_reaches_is_told_by_the_clock_of_the_world() {
    let run = |spends, sleeps| {
        let (spends, sleeps) = (Duration::from_micros(spends), Duration::from_micros(sleeps));
        let settings = Settings::default();
        let story = in_world(Weather::default(), 2, &settings, move |here, world| {
            let workers = VirtualWorkers::new(world, here.rank(), 1);
            let problem = Doubling {
                spends,
                sleeps,
                ..Doubling::default()
            };
            let on = Context::new(&workers).across(&here);
            let (value, _) = recurse_across(&problem, 6, &on).unwrap();
            assert_eq!(value, 64);
            problem.n_calls.into_inner()
        });
        let story = story.unwrap_or_else(|hung| panic!("{hung}"));
        (story.told.iter().sum::<u64>(), story.lasted, story.digest)
    };
    let fine = run(0, 0);
    assert_eq!(run(0, 400), fine);
    // Of 127 calls the top is made on both ranks.
    let slow = run(400, 0);
    assert!(127 < slow.0 && slow.0 < fine.0, "{slow:?}, {fine:?}");
    assert_eq!(run(400, 0), slow);
}

#[test]
fn a_failing_body_is_the_same_error_on_every_rank() {
    for seed in 0..20u64 {
        let fails: MakeSpace = Arc::new(|_| Wavefront {
            fails: Some(((3, 4), || {
                TaskError::new("wet_paint", "do not touch").with_index(3)
            })),
            ..Wavefront::new(8, 100, (2, 2))
        });
        let (ended, _) = in_weather(Weather::rough(seed, 4), 2, &Settings::default(), fails);
        for (report, _) in &ended {
            let error = report.as_ref().unwrap_err();
            assert_eq!(
                (error.name(), error.index(), error.task()),
                ("wet_paint", Some(3), Some("(3, 4)"))
            );
        }
    }
}

/// So many numbers and so many more; but its size is that of the first.
#[derive(Clone)]
struct TwoFields([usize; 2]);

impl Datum for TwoFields {}

impl Wire for TwoFields {
    fn head(&self) -> SmallVec<[u8; 32]> {
        SmallVec::new()
    }
    fn size(&self) -> usize {
        8 * self.0[0]
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(vec![0; 8 * (self.0[0] + self.0[1])])
    }
    /// What nothing can hold is not made here either.
    fn is_blank(&self) -> bool {
        self.0[0] > 1 << 40
    }
    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(TwoFields([body.bytes().len() / 8, 0]))
    }
}

/// Rank 0 makes such a datum, and each other rank reads it.
struct Handing {
    fields: [usize; 2],
    n_ranks: u32,
}

task_names! {
    enum HandingTask { Make {}, Read { on } }
}
use HandingTask::{Make, Read};

impl TaskSpace for Handing {
    type Task = HandingTask;
    type Datum = TwoFields;

    fn describe(&self, about: &mut Description) {
        about.class("Make").new_flow("DATUM");
        about.class("Read").read("DATUM");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = HandingTask> + Send {
        let all = std::iter::once(Make {}).chain((1..self.n_ranks).map(|on| Read { on }));
        all.filter(move |&task| self.rank(task) == on)
    }

    fn rank(&self, task: HandingTask) -> Rank {
        match task {
            Make {} => Rank(0),
            Read { on } => Rank(on),
        }
    }

    fn inputs(&self, task: HandingTask, from: &mut impl Inputs<Self>) {
        if let Read { .. } = task {
            from.task(0, Make {}, 0);
        }
    }

    fn successors(&self, task: HandingTask, to: &mut impl Successors<Self>) {
        if let Make {} = task {
            to.range(0, 1..self.n_ranks, |on| Read { on }, 0);
        }
    }

    fn run(&self, task: HandingTask, flows: &mut Flows<'_, TwoFields>) -> Result<(), TaskError> {
        if let Make {} = task {
            let [datum] = flows.slots();
            datum.put(TwoFields(self.fields));
        }
        Ok(())
    }
}

/// `size` counted one of two fields. While the datum was small the error named no task; where it was large the
/// reader got the first field and an empty second one, and all was well.
#[test]
fn a_datum_that_is_not_as_long_as_it_says_is_an_error_that_names_its_task_and_the_next_run_works() {
    for (n_ranks, fields) in [(2, 100), (2, 600), (6, 600), (6, 20_000)] {
        let settings = Settings::default();
        let story = in_world(
            Weather::default(),
            n_ranks,
            &settings,
            move |here, world| {
                let workers = VirtualWorkers::new(world, here.rank(), 2);
                let on = Context::new(&workers).across(&here);
                [[fields; 2], [fields, 0]].map(|fields| {
                    let n_ranks = n_ranks as u32;
                    run_across(&Handing { fields, n_ranks }, &on).map(|_| ())
                })
            },
        );
        let story = story.unwrap_or_else(|hung| panic!("{hung}"));
        let text = format!(
            "a datum said that it has {} bytes and has {} (task Make on rank 0)",
            8 * fields,
            16 * fields
        );
        for [wrong, good] in story.told {
            let error = wrong.expect_err("it is too long");
            assert_eq!(
                (error.kind(), error.to_string()),
                (Kind::Malformed, text.clone())
            );
            good.unwrap();
        }
    }
}

/// The error named neither the task nor its flow, and the ranks made no other run.
#[test]
fn a_datum_for_which_no_rank_has_room_is_an_error_that_names_its_task_and_the_next_run_works() {
    for (n_ranks, fields) in [(2, 1 << 50), (6, 1 << 50), (6, usize::MAX / 8)] {
        let settings = Settings::default();
        let story = in_world(
            Weather::default(),
            n_ranks,
            &settings,
            move |here, world| {
                let workers = VirtualWorkers::new(world, here.rank(), 2);
                let on = Context::new(&workers).across(&here);
                [fields, 600].map(|fields| {
                    let (fields, n_ranks) = ([fields, 0], n_ranks as u32);
                    run_across(&Handing { fields, n_ranks }, &on).map(|_| ())
                })
            },
        );
        let story = story.unwrap_or_else(|hung| panic!("{hung}"));
        for [wrong, good] in story.told {
            let error = wrong.expect_err("it is too long");
            let text = error.to_string();
            assert_eq!(error.kind(), Kind::Malformed, "{text}");
            let bytes = 8 * fields;
            let begins =
                format!("rank 0 sends flow 0 as a datum of {bytes} bytes, for which rank ");
            let ends = "is allowed) (task Make on rank 0)";
            assert!(text.starts_with(&begins) && text.ends_with(ends), "{text}");
            good.unwrap();
        }
    }
}

/// It was told as a stall of another rank, which waited for what the cancelled one no longer sent.
#[test]
fn a_run_that_one_rank_cancels_is_cancelled_on_every_rank() {
    for (seed, cancels) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
        let settings = Settings::default();
        let story = in_world(Weather::rough(seed, 4), 4, &settings, move |here, world| {
            let workers = VirtualWorkers::new(world, here.rank(), 2);
            let monitor = Monitor::new();
            if here.rank() == Rank(cancels) {
                monitor.cancel();
            }
            let on = Context::new(&workers).across(&here).watched_by(&monitor);
            run_across(&Wavefront::new(8, 100, (2, 2)), &on).unwrap_err()
        });
        for error in story.unwrap_or_else(|hung| panic!("{hung}")).told {
            let told = (error.kind(), error.rank());
            assert_eq!(told, (Kind::Cancelled, Some(Rank(cancels))), "{error}");
        }
    }
}

#[test]
fn an_error_of_another_library_is_a_text_on_every_rank_and_the_source_where_it_happened() {
    for seed in 0..20u64 {
        let fails: MakeSpace = Arc::new(|_| Wavefront {
            fails: Some(((3, 4), || "four".parse::<u32>().unwrap_err().into())),
            ..Wavefront::new(8, 100, (2, 2))
        });
        let rank = fails(Rank(0)).rank((3, 4));
        let (ended, _) = in_weather(Weather::rough(seed, 4), 2, &Settings::default(), fails);
        for (here, (report, _)) in (0..).map(Rank).zip(&ended) {
            let error = report.as_ref().unwrap_err();
            let told = (error.name(), error.message(), error.rank());
            let text = "invalid digit found in string";
            assert_eq!(told, ("task_failed", text, Some(rank)));
            assert_eq!(std::error::Error::source(error).is_some(), here == rank);
        }
    }
}

#[test]
fn ranks_with_different_spaces_are_told_which_parameter_differs_and_both_values() {
    for odd in (0..4).map(Rank) {
        for (name, n, bytes, values) in [("n", 9, 100, ["8", "9"]), ("bytes", 8, 7, ["100", "7"])] {
            let differ: MakeSpace = Arc::new(move |rank| match rank == odd {
                true => Wavefront::new(n, bytes, (2, 2)),
                false => Wavefront::new(8, 100, (2, 2)),
            });
            let weather = Weather::rough(odd.0.into(), 4);
            let (ended, _) = in_weather(weather, 2, &Settings::default(), differ);
            let errors = ended.iter().map(|(report, _)| report.as_ref().unwrap_err());
            let texts: Vec<&str> = errors.clone().map(|error| error.message()).collect();
            assert!(
                errors
                    .clone()
                    .all(|error| error.name() == "parameters_differ")
            );
            assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
            assert!(texts[0].starts_with(&format!("{name} is ")), "{texts:?}");
            for value in [
                &format!("{} on {odd}", values[1]),
                &format!("{} on ", values[0]),
            ] {
                assert!(texts[0].contains(value), "{texts:?}");
            }
        }
    }
}

#[test]
fn a_dead_rank_ends_the_run_on_every_other() {
    for dead in (0..4).map(Rank) {
        let weather = Weather {
            deaths: vec![(dead, Duration::from_millis(1))],
            ..Weather::default()
        };
        let make: MakeSpace = Arc::new(|_| Wavefront::new(30, 100, (2, 2)));
        let (ended, _) = in_weather(weather, 2, &Settings::default(), make);
        for (rank, (report, _)) in ended
            .iter()
            .enumerate()
            .filter(|(rank, _)| *rank != dead.0 as usize)
        {
            let error = report.as_ref().unwrap_err();
            assert_eq!(error.name(), "rank_lost", "rank {rank}: {error}");
            assert!(
                error.message().contains(&dead.to_string()),
                "rank {rank}: {error}"
            );
        }
    }
}

#[test]
fn communication_is_hidden_unless_posts_block() {
    let time = |weather: Weather, blocking| {
        let settings = Settings {
            drive: Drive::Dedicated,
            blocking,
            ..Settings::default()
        };
        let make: MakeSpace = Arc::new(|_| Wavefront::new(16, 65_536, (2, 2)));
        let (ended, lasted) = in_weather(weather, 4, &settings, make.clone());
        assert_good(&make(Rank(0)), &ended, "overlap");
        lasted
    };
    let ideal = time(Weather::free(), false);
    let (hidden, blocking) = (
        time(Weather::default(), false),
        time(Weather::default(), true),
    );
    assert!(
        ideal <= hidden && hidden < blocking,
        "{ideal:?} {hidden:?} {blocking:?}"
    );
}

#[test]
fn a_wavefront_runs_on_threads() {
    for drive in [Drive::Dedicated, Drive::Workers] {
        for grid in [(1, 1), (1, 2), (2, 2)] {
            let settings = Settings {
                drive,
                ..Settings::default()
            };
            let n_ranks = (grid.0 * grid.1) as usize;
            let ended: Vec<Ended> = thread::scope(|ranks| {
                let start = |transport| {
                    let settings = settings.clone();
                    ranks.spawn(move || {
                        let messenger = Messenger::new(
                            Box::new(transport),
                            settings,
                            Machine::new(),
                            Arc::new(Heap),
                        )
                        .unwrap();
                        assert_eq!(messenger.n_ranks(), n_ranks);
                        let workers = Shuffled::new(7).with_threads(2);
                        let mut last = None;
                        for _ in 0..3 {
                            last = Some(run_here(
                                &Wavefront::new(20, 5000, grid),
                                &workers,
                                &messenger,
                            ));
                        }
                        last.unwrap()
                    })
                };
                let ranks: Vec<_> = local::connect(n_ranks).into_iter().map(start).collect();
                ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
            });
            assert_good(
                &Wavefront::new(20, 5000, grid),
                &ended,
                &format!("{drive:?} {grid:?}"),
            );
        }
    }
}

task_names! {
    /// One hands a number each to many on another rank.
    enum Spread { Scatter {}, Leaf { i } }
}
use Spread::{Leaf, Scatter};

struct Many(u32);

impl TaskSpace for Many {
    type Task = Spread;
    type Datum = u64;

    fn describe(&self, about: &mut Description) {
        about.name("many");
        let flows = (0..self.0).map(|i| format!("TO {i}"));
        flows.fold(about.class("Scatter"), |class, name| class.new_flow(&name));
        about.class("Leaf").read("NUMBER");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Spread> + Send {
        let leaves = if on == Rank(1) { self.0 } else { 0 };
        let root = (on == Rank(0)).then_some(Scatter {});
        root.into_iter().chain((0..leaves).map(|i| Leaf { i }))
    }

    fn rank(&self, task: Spread) -> Rank {
        Rank((task != Scatter {}).into())
    }

    fn inputs(&self, task: Spread, from: &mut impl Inputs<Self>) {
        if let Leaf { i } = task {
            from.task(0, Scatter {}, i as usize);
        }
    }

    fn successors(&self, task: Spread, to: &mut impl Successors<Self>) {
        if let Scatter {} = task {
            (0..self.0).for_each(|i| to.task(i as usize, Leaf { i }, 0));
        }
    }

    fn run(&self, task: Spread, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
        for (i, slot) in (0..).zip(flows.iter()) {
            match task {
                Scatter {} => slot.put(i),
                Leaf { i } => assert_eq!(*slot.read(), i.into()),
            }
        }
        Ok(())
    }
}

/// How many flows an activation has is a number of 16 bits: of 65,536 it said that there were none.
#[test]
fn as_many_flows_leave_a_rank_as_can_be_counted_and_more_are_refused() {
    let most = u32::from(u16::MAX);
    assert_eq!(of_many(most), [None, None]);
    let told = of_many(most + 1);
    for end in told {
        let (kind, text) = end.expect("a flow too many");
        assert_eq!(kind, Kind::NotDescribed, "{text}");
        assert!(text.contains("flow 65535 of Scatter"), "{text}");
    }
}

/// How it ends on each of two ranks.
fn of_many(n: u32) -> Vec<Option<(Kind, String)>> {
    let rank = |transport| {
        let memory = Arc::new(Heap);
        let settings = Settings::default();
        let messenger = Messenger::new(Box::new(transport), settings, Machine::new(), memory);
        let messenger = messenger.unwrap();
        let ended = run_across(&Many(n), &Context::new(&Inline).across(&messenger));
        ended.err().map(|error| (error.kind(), error.to_string()))
    };
    thread::scope(|ranks| {
        let ranks: Vec<_> = local::connect(2)
            .into_iter()
            .map(|transport| ranks.spawn(move || rank(transport)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
