//! Simulated weather over random graphs: every seed is a world of its own, and replays.
//!
//! `DATAFLOW_SEEDS=N` runs N seeds instead of the ordinary share; a failing seed says how to run it
//! alone (`DATAFLOW_SEED=S`).

mod engine;

use dataflow_core::port::Heap;
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::Transport;
use dataflow_mpi::transport::simulated::{Faults, Simulated, Weather, World, spend};
use dataflow_mpi::{Counters, Drive, Messenger, Settings};
use engine::{End, Graph, Random, run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a world of ranks came to.
struct Story {
    /// By rank, then by run.
    ends: Vec<Vec<End>>,
    counters: Vec<Counters>,
    totals: Vec<Counters>,
    faults: Faults,
    lasted: Duration,
}

type Plant = Arc<dyn Fn(Rank, &Messenger) + Send + Sync>;

fn tell(
    weather: &Weather,
    settings: &Settings,
    graphs: &[Arc<Graph>],
    plant: Option<Plant>,
) -> Story {
    let world = World::new(weather.clone());
    let n_ranks = graphs[0].n_ranks;
    let ends: Vec<Mutex<Option<Simulated>>> = world
        .connect(n_ranks)
        .into_iter()
        .map(|end| Mutex::new(Some(end)))
        .collect();
    let (inside, settings, graphs) = (world.clone(), settings.clone(), graphs.to_vec());
    let told = world.run(n_ranks, move |rank| {
        let transport: Box<dyn Transport> =
            Box::new(ends[rank.0 as usize].lock().unwrap().take().unwrap());
        let host = inside.host(rank);
        let messenger =
            Messenger::new(transport, settings.clone(), host.clone(), Arc::new(Heap)).unwrap();
        if let Some(plant) = &plant {
            plant(rank, &messenger);
        }
        let ends: Vec<End> = graphs
            .iter()
            .map(|graph| run(graph, &messenger, &*host))
            .collect();
        spend(Duration::from_secs(2)); // what is still under way arrives
        (ends, messenger.counters(), messenger.totals())
    });
    let told = told.unwrap_or_else(|hung| panic!("{hung}"));
    let (mut all, mut counters, mut totals) = (vec![], vec![], vec![]);
    for (ends, own, sum) in told {
        all.push(ends);
        counters.push(own);
        totals.push(sum);
    }
    Story {
        ends: all,
        counters,
        totals,
        faults: world.faults(),
        lasted: world.now(),
    }
}

/// Settings by a seed: caps as small as can be, and both drives.
fn settings(seed: u64) -> Settings {
    let mut random = Random(seed ^ 0x5e77);
    Settings {
        inline_bytes: [0, 64, 4096, 1 << 20][random.below(4)],
        packet_bytes: [64, 512, 16 << 10][random.below(3)],
        packets_in_flight: 1 + random.below(4),
        credit_bytes: [0, 100, 16 << 10, 1 << 20][random.below(4)],
        window_bytes: [1, 5000, 32 << 20][random.below(3)],
        star_ranks: random.below(4),
        drive: if random.below(2) == 0 {
            Drive::Dedicated
        } else {
            Drive::Workers
        },
        blocking: random.below(8) == 0,
        ..Settings::default()
    }
}

/// Runs `check` for each seed of the sweep; the first that fails is named.
fn sweep(test: &str, share: u64, check: impl Fn(u64)) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect(name))
    };
    let seeds = match number("DATAFLOW_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DATAFLOW_SEEDS").unwrap_or(share),
    };
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(seed))) {
            eprintln!(
                "replay: DATAFLOW_SEED={seed} cargo test -p dataflow-mpi --test weather {test}"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

fn graphs(seed: u64) -> (usize, Vec<Arc<Graph>>) {
    let mut random = Random(seed ^ 0x96a4);
    let n_ranks = 2 + random.below(4);
    let n_runs = 1 + random.below(2);
    let graph = |_| Graph::random(random.next(), n_ranks, 1 + Random(random.next()).below(120));
    (n_ranks, (0..n_runs).map(graph).collect())
}

#[test]
fn every_graph_runs_to_its_end_in_rough_weather() {
    let seen = Mutex::new(Faults::default());
    let repeated = Mutex::new(0);
    sweep("every_graph_runs", 200, |seed| {
        let (n_ranks, graphs) = graphs(seed);
        let (weather, settings) = (Weather::rough(seed, n_ranks), settings(seed));
        let story = tell(&weather, &settings, &graphs, None);
        for (rank, ends) in story.ends.iter().enumerate() {
            for end in ends {
                assert!(end.is_good(), "rank {rank}: {end:?}");
            }
        }
        check_counters(&story, &graphs, &settings, &weather);
        seen.lock().unwrap().add(story.faults);
        *repeated.lock().unwrap() += story
            .counters
            .iter()
            .map(|own| own.duplicates_dropped)
            .sum::<u64>();
    });
    if std::env::var("DATAFLOW_SEED").is_err() {
        let seen = seen.lock().unwrap();
        assert!(
            seen.delayed > 0 && seen.reordered > 0 && seen.duplicated > 0 && seen.frozen > 0,
            "{seen:?}"
        );
        assert!(
            *repeated.lock().unwrap() > 0,
            "duplicates are dropped and counted"
        );
    }
}

fn check_counters(story: &Story, graphs: &[Arc<Graph>], settings: &Settings, weather: &Weather) {
    let sum = |of: fn(&Counters) -> u64| story.counters.iter().map(of).sum::<u64>();
    let (messages, bytes) = graphs
        .iter()
        .map(|graph| graph.crossing())
        .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    assert_eq!(sum(|own| own.messages), messages);
    assert_eq!(sum(|own| own.bytes()), bytes);
    assert_eq!(sum(|own| own.credits_sent), sum(|own| own.credits_came));
    for own in &story.counters {
        assert!(own.peak_inline_bytes <= settings.credit_bytes as u64);
        let part = weather.message_bytes as u64;
        assert!(own.peak_fetched_bytes <= part.min(70_000).max(settings.window_bytes as u64));
    }
    for totals in &story.totals {
        assert_eq!(
            (totals.messages, totals.bytes()),
            (messages, bytes),
            "the same on every rank"
        );
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..20 {
        let (n_ranks, graphs) = graphs(seed);
        let tell = || {
            tell(
                &Weather::rough(seed, n_ranks),
                &settings(seed),
                &graphs,
                None,
            )
        };
        let (once, again) = (tell(), tell());
        assert_eq!(
            (once.lasted, once.faults, once.counters),
            (again.lasted, again.faults, again.counters),
            "seed {seed}"
        );
    }
}

#[test]
fn in_deadly_weather_every_surviving_rank_ends_with_a_named_error_or_its_whole_result() {
    let seen = Mutex::new((Faults::default(), 0, 0));
    sweep("in_deadly_weather", 200, |seed| {
        let (n_ranks, graphs) = graphs(seed);
        let weather = Weather::deadly(seed, n_ranks);
        let story = tell(&weather, &settings(seed), &graphs, None);
        let dead = weather.deaths.first().map(|(rank, _)| rank.0 as usize);
        let mut seen = seen.lock().unwrap();
        for (rank, ends) in story
            .ends
            .iter()
            .enumerate()
            .filter(|(rank, _)| Some(*rank) != dead)
        {
            for end in ends {
                match &end.result {
                    Ok(None) => assert!(end.complete, "rank {rank}: {end:?}"),
                    Err((kind, _)) => assert!(kind == "RankLost", "rank {rank}: {end:?}"),
                    Ok(Some(_)) => panic!("rank {rank}: {end:?}"),
                }
                if end.result.is_err() {
                    seen.1 += 1
                } else {
                    seen.2 += 1
                }
            }
        }
        seen.0.add(story.faults);
    });
    if std::env::var("DATAFLOW_SEED").is_err() {
        let (faults, errors, ends) = *seen.lock().unwrap();
        assert!(
            faults.lost > 0 && faults.cut > 0 && errors > 0 && ends > 0,
            "{faults:?} {errors} {ends}"
        );
    }
}
