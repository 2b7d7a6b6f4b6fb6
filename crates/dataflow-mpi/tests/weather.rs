//! Simulated weather over random graphs: every seed is a world of its own, and replays.
//!
//! `DATAFLOW_SEEDS=N` runs N seeds instead of the ordinary share; a failing seed says how to run it
//! alone (`DATAFLOW_SEED=S`).

mod engine;

use dataflow_core::port::{Context, Courier};
use dataflow_core::prelude::*;
use dataflow_core::run_across;
use dataflow_mpi::transport::simulated::{
    Cluster, MessageCosts, Shared, VirtualWorkers, Weather, World, spend,
};
use dataflow_mpi::{Counters, Settings};
use engine::clocked::{Clocked, Spans};
use engine::space::Drawn;
use engine::world::{Seen, Story, settings, survivors, sweep};
use engine::{End, Graph, Random, Task, in_this, run};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the runs of a rank ended, and what it and all had counted by then.
type Told = (Vec<End>, Counters, Counters);

/// The small engine runs graphs on each rank, one after the other.
fn tell(world: &World, settings: &Settings, graphs: &[Arc<Graph>]) -> Story<Told> {
    let graphs = graphs.to_vec();
    let n_ranks = graphs[0].n_ranks;
    let story = in_this(world, n_ranks, settings, move |messenger, world| {
        let host = world.host(messenger.rank());
        let runs = graphs.iter().map(|graph| run(graph, &messenger, &*host));
        let ends: Vec<End> = runs.collect();
        spend(Duration::from_secs(2)); // what is still under way arrives
        (ends, messenger.counters(), messenger.totals())
    });
    story.unwrap_or_else(|hung| panic!("{hung}"))
}

/// The core's engine does, with one to three workers a rank.
fn tell_really(
    world: &World,
    settings: &Settings,
    graphs: &[Arc<Graph>],
    n_workers: usize,
) -> Story<Told> {
    let graphs = graphs.to_vec();
    let n_ranks = graphs[0].n_ranks;
    let story = in_this(world, n_ranks, settings, move |messenger, world| {
        let workers = VirtualWorkers::new(world, messenger.rank(), n_workers);
        let runs = graphs.iter().map(|graph| {
            let space = Drawn::new(graph, world);
            let own = space.count(messenger.rank());
            let report = run_across(&space, &Context::new(&workers).across(&messenger));
            End::of_report(report, own, space.worked())
        });
        let ends: Vec<End> = runs.collect();
        spend(Duration::from_secs(2));
        (ends, messenger.counters(), messenger.totals())
    });
    story.unwrap_or_else(|hung| panic!("{hung}"))
}

fn graphs(seed: u64) -> (usize, Vec<Arc<Graph>>) {
    let mut random = Random(seed ^ 0x96a4);
    let n_ranks = 2 + random.below(4);
    let n_runs = 1 + random.below(2);
    let graph = |_| Graph::random(random.next(), n_ranks, 1 + Random(random.next()).below(120));
    (n_ranks, (0..n_runs).map(graph).collect())
}

fn counters(story: &Story<Told>) -> impl Iterator<Item = Counters> {
    story.told.iter().map(|(_, own, _)| *own)
}

/// One engine or the other, by the seed.
fn tell_by(seed: u64, weather: &Weather, graphs: &[Arc<Graph>]) -> Story<Told> {
    tell_in(&World::new(weather.clone()), seed, graphs)
}

fn tell_in(world: &World, seed: u64, graphs: &[Arc<Graph>]) -> Story<Told> {
    let settings = settings(seed);
    match seed % 2 {
        0 => tell(world, &settings, graphs),
        _ => tell_really(world, &settings, graphs, 1 + seed as usize / 2 % 3),
    }
}

#[test]
fn every_graph_runs_to_its_end_in_rough_weather() {
    let test = "-p dataflow-mpi-tests --test weather every_graph_runs";
    let seen = sweep(test, 100, |seed, seen| {
        let (n_ranks, graphs) = graphs(seed);
        let weather = Weather::rough(seed, n_ranks);
        let story = tell_by(seed, &weather, &graphs);
        for (rank, (ends, ..)) in story.told.iter().enumerate() {
            for end in ends {
                assert!(end.is_good(), "rank {rank}: {end:?}");
            }
        }
        check_counters(&story, &graphs, &settings(seed), &weather);
        seen.add(story.faults, counters(&story));
    });
    seen.iter().for_each(Seen::assert_rough);
}

/// Payload of a flow that carries nothing travels in the real engine too, as no bytes.
fn check_counters(
    story: &Story<Told>,
    graphs: &[Arc<Graph>],
    settings: &Settings,
    weather: &Weather,
) {
    let sum = |of: fn(&Counters) -> u64| counters(story).map(|own| of(&own)).sum::<u64>();
    let crossing = graphs.iter().map(|graph| graph.crossing());
    let (messages, bytes) = crossing.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    assert!(sum(|own| own.messages) >= messages);
    assert_eq!(sum(|own| own.bytes()), bytes);
    assert_eq!(sum(|own| own.credits_sent), sum(|own| own.credits_came));
    for own in counters(story) {
        assert!(own.peak_inline_bytes <= settings.credit_bytes as u64);
        let part = weather.message_bytes as u64;
        assert!(own.peak_fetched_bytes <= part.min(70_000).max(settings.window_bytes as u64));
    }
    for (.., totals) in &story.told {
        let all = (sum(|own| own.messages), bytes);
        assert_eq!(
            (totals.messages, totals.bytes()),
            all,
            "the same on every rank"
        );
    }
}

/// A datum of rank 1 for rank 0, so many tasks after the first.
fn one_datum(before: usize) -> Arc<Graph> {
    let task = |owner, inputs: Vec<usize>| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![Some(100_000)],
        seconds: 0.0,
        priority: 0,
    };
    let mut tasks: Vec<Task> = (0..before).map(|_| task(0, vec![])).collect();
    tasks.extend([task(1, vec![]), task(0, vec![before])]);
    Graph::new(2, tasks)
}

/// Tags began anew in each run, so it filled the room for what the next run had asked for.
#[test]
fn a_datum_that_comes_again_during_the_next_run_fills_no_room_of_that() {
    for seed in 0..100 {
        let weather = Weather {
            seed,
            latency: Duration::from_micros(seed % 5),
            jitter: Duration::from_millis(1),
            reorder: true,
            duplication: 1.0,
            ..Weather::default()
        };
        let graphs = [0, 1].map(one_datum);
        let story = tell(&World::new(weather), &Settings::default(), &graphs);
        let ends = story.told.iter().flat_map(|(ends, ..)| ends);
        assert!(ends.clone().all(End::is_good), "seed {seed}");
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..20 {
        let (n_ranks, graphs) = graphs(seed);
        let tell = || tell_by(seed, &Weather::rough(seed, n_ranks), &graphs);
        let (once, again) = (tell(), tell());
        assert_eq!(
            (once.lasted, once.faults, once.digest),
            (again.lasted, again.faults, again.digest),
            "seed {seed}"
        );
        assert!(counters(&once).eq(counters(&again)), "seed {seed}");
    }
}

/// Actors on threads take turns by a baton, the real one of a world before it had fibers; and the
/// courier, which acts by turns on fibers, waits where it stands.
#[test]
fn in_any_weather_fibers_and_threads_take_the_same_course_to_the_last_message() {
    let test = "-p dataflow-mpi-tests --test weather in_any_weather";
    sweep(test, 50, |seed, _| {
        let (n_ranks, graphs) = graphs(seed);
        let weather = match seed % 3 {
            0 => Weather::deadly(seed, n_ranks),
            _ => Weather::rough(seed, n_ranks),
        };
        let course = |world: World| {
            let story = tell_in(&world, seed, &graphs);
            let counted: Vec<Counters> = counters(&story).collect();
            (story.digest, story.lasted, story.faults, counted)
        };
        let on_fibers = course(World::on_fibers(weather.clone(), 1 << 20));
        assert_eq!(on_fibers, course(World::on_threads(weather)));
    });
}

/// One run of a graph, by a seed: on up to 64 ranks of up to eight workers, with hosts and costs.
struct Play {
    graph: Arc<Graph>,
    weather: Weather,
    settings: Settings,
    n_workers: usize,
}

/// What there is to compare of it: the course of the world, the span of each task, how each rank ended.
type Played = (u64, Spans, Vec<Result<u64, String>>, Vec<Counters>);

impl Play {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x91a7);
        let most = [3, 10, 63][random.below(3)];
        let n_ranks = 2 + random.below(most);
        let mut graph = Graph::random(random.next(), n_ranks, 1 + random.below(300));
        if random.below(6) == 0 {
            let fails = random.below(graph.tasks.len());
            Arc::get_mut(&mut graph).unwrap().fails = Some((fails, false));
        }
        let mut weather = match random.below(8) {
            0 => Weather::deadly(seed, n_ranks),
            1..3 => Weather::rough(seed, n_ranks),
            _ => Weather {
                seed,
                shuffle: random.below(2) == 0,
                ..Weather::default()
            },
        };
        weather.cluster = cluster(&mut random, n_ranks);
        let settings = Settings {
            blocking: false,
            ..settings(seed)
        };
        Play {
            graph,
            weather,
            settings,
            n_workers: 1 + random.below(8),
        }
    }

    fn played(&self, workers: fn(&World, Rank, usize) -> VirtualWorkers, bytes: bool) -> Played {
        let (graph, n_workers) = (self.graph.clone(), self.n_workers);
        let spans = Arc::new(Mutex::new(Spans::new()));
        let noted = spans.clone();
        let world = World::on_fibers(self.weather.clone(), 256 << 10);
        let story = in_this(
            &world,
            graph.n_ranks,
            &self.settings,
            move |messenger, world| {
                let workers = workers(world, messenger.rank(), n_workers);
                let mut space = Clocked::new(&graph, world, &noted);
                if bytes {
                    space = space.with_bytes();
                }
                let report = run_across(&space, &Context::new(&workers).across(&messenger));
                let ended = report.map(|report| report.tasks);
                (
                    ended.map_err(|error| error.to_string()),
                    messenger.counters(),
                )
            },
        );
        let story = story.unwrap_or_else(|hung| panic!("{hung}"));
        let (ends, counted) = story.told.into_iter().unzip();
        let spans = std::mem::take(&mut *spans.lock().unwrap());
        (story.digest, spans, ends, counted)
    }
}

/// Ranks by one to four on a host, with costs or without.
fn cluster(random: &mut Random, n_ranks: usize) -> Cluster {
    let a_host = 1 + random.below(4);
    let mut costs = || match random.below(2) {
        0 => MessageCosts::default(),
        _ => MessageCosts {
            send: Duration::from_nanos(random.below(3_000) as u64),
            receive: Duration::from_nanos(random.below(3_000) as u64),
            gap: Duration::from_nanos(random.below(500) as u64),
            copied_bytes_per_second: 1e9,
            data_copied_bytes_per_second: [f64::INFINITY, 5e9][random.below(2)],
        },
    };
    let (costs, of_shared) = (costs(), costs());
    let shared = Shared {
        latency: Duration::from_nanos(300),
        bytes_per_second: 20e9,
        costs: of_shared,
    };
    Cluster {
        hosts: (0..n_ranks).map(|rank| (rank / a_host) as u32).collect(),
        costs,
        shared: (a_host > 2).then_some(shared),
    }
}

#[test]
fn in_any_weather_lean_workers_begin_and_end_every_task_when_others_do_to_the_nanosecond() {
    let test = "-p dataflow-mpi-tests --test weather in_any_weather_lean";
    sweep(test, 50, |seed, _| {
        let play = Play::new(seed);
        let (mut lean, others) = (
            play.played(VirtualWorkers::lean, false),
            play.played(VirtualWorkers::new, false),
        );
        // A lean body cannot know that its rank will stand still in its midst: its note is too early.
        match play.weather.freezes.is_empty() {
            true => assert_eq!(lean.1, others.1, "spans of tasks"),
            false => lean.1.clone_from(&others.1),
        }
        assert_eq!(lean, others);
    });
}

#[test]
fn in_any_weather_lengths_travel_as_bytes_do() {
    let test = "-p dataflow-mpi-tests --test weather in_any_weather_lengths";
    sweep(test, 20, |seed, _| {
        let play = Play::new(seed);
        let bytes = play.played(VirtualWorkers::lean, true);
        assert_eq!(play.played(VirtualWorkers::lean, false), bytes);
    });
}

#[test]
fn in_deadly_weather_every_surviving_rank_ends_with_a_named_error_or_its_whole_result() {
    let test = "-p dataflow-mpi-tests --test weather in_deadly_weather";
    let seen = sweep(test, 100, |seed, seen| {
        let (n_ranks, graphs) = graphs(seed);
        let weather = Weather::deadly(seed, n_ranks);
        let story = tell_by(seed, &weather, &graphs);
        for rank in survivors(&weather, n_ranks) {
            for end in &story.told[rank].0 {
                match &end.result {
                    Ok(None) => assert!(end.complete, "rank {rank}: {end:?}"),
                    Err((kind, _)) => assert!(kind == "RankLost", "rank {rank}: {end:?}"),
                    Ok(Some(_)) => panic!("rank {rank}: {end:?}"),
                }
                seen.errors += u64::from(end.result.is_err());
                seen.ends += u64::from(end.result.is_ok());
            }
        }
        seen.add(story.faults, counters(&story));
    });
    seen.iter().for_each(Seen::assert_deadly);
}

/// The rank that a text names first.
fn named(text: &str) -> Option<u32> {
    let (_, after) = text.split_once("rank ")?;
    let digits = after.split(|sign: char| !sign.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Most ranks are no neighbours of the dead ones in the tree, and have never spoken to them.
#[test]
fn in_a_crowd_and_the_same_weather_nobody_blames_a_rank_that_lives() {
    let test = "-p dataflow-mpi-tests --test weather in_a_crowd";
    let seen = sweep(test, 25, |seed, seen| {
        let mut random = Random(seed ^ 0xc20d);
        let n_ranks = 6 + random.below(30);
        let graph = Graph::random(random.next(), n_ranks, 50 + random.below(100));
        let mut weather = Weather::rough(seed, n_ranks);
        for _ in 0..1 + random.below(3) {
            let dead = Rank(random.below(n_ranks) as u32);
            let at = Duration::from_micros(random.below(3_000) as u64);
            weather.deaths.push((dead, at));
        }
        let story = tell_by(seed, &weather, &[graph]);
        for rank in survivors(&weather, n_ranks) {
            for end in &story.told[rank].0 {
                let is_right = match &end.result {
                    Ok(failure) => failure.is_none() && end.complete,
                    Err((kind, text)) => {
                        let is_dead = |rank: u32| {
                            let mut deaths = weather.deaths.iter();
                            deaths.any(|(dead, _)| dead.0 == rank)
                        };
                        kind == "RankLost" && named(text).is_some_and(is_dead)
                    }
                };
                assert!(is_right, "rank {rank}: {end:?}, {:?} died", weather.deaths);
                seen.errors += u64::from(end.result.is_err());
                seen.ends += u64::from(end.result.is_ok());
            }
        }
        seen.add(story.faults, counters(&story));
    });
    let all_met = |seen: Seen| seen.errors > 0 && seen.faults.cut > 0;
    assert!(seen.is_none_or(all_met));
}
