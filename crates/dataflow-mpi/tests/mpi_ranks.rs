//! Ranks under `mpirun`: each test starts itself again there, once for each rank.
//!
//! `DATAFLOW_MPIRUN` names the launcher of the MPI that this was built with, if it is not `mpirun`.

#![cfg(all(feature = "mpi", target_os = "linux"))]

mod conform;
mod engine;
mod rest;

use conform::conform;
use dataflow_core::port::{Cargo, Courier, Head, Heap, Memory, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::start::{Launched, Mpi, check};
use dataflow_mpi::transport::mpi::{MpiWorld, Sizes};
use dataflow_mpi::transport::{Event, Load, Room, Transport};
use dataflow_mpi::{Drive, Machine, Messenger, Settings};
use engine::{Graph, Task, run};
use mpi::traits::Communicator;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rest::{Nothing, processor_millis};
use std::borrow::Cow;
use std::io::Write;
use std::panic::resume_unwind;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const INSIDE: &str = "DATAFLOW_TEST_MPI";

/// How long ranks that have come to the end wait for the others.
const PATIENCE: Duration = Duration::from_secs(60);

fn is_rank() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn launcher() -> String {
    std::env::var("DATAFLOW_MPIRUN").unwrap_or("mpirun".into())
}

/// Whether the launcher is Open MPI's; none if there is none.
fn is_open_mpi() -> Option<bool> {
    let version = Command::new(launcher()).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&version.stdout).contains("open-mpi.org"))
}

/// Starts a test again on so many ranks; none, said aloud, if there is no launcher.
fn started(test: &str, n_ranks: usize) -> Option<Child> {
    let Some(is_open_mpi) = is_open_mpi() else {
        eprintln!("skipped: {} is not there", launcher());
        return None;
    };
    let mut command = Command::new(launcher());
    if is_open_mpi {
        command.args(["--oversubscribe", "--bind-to", "none"]);
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // On one machine it takes this anyway, after it has looked for networks for a fifth of a second.
        if std::env::var_os("OMPI_MCA_pml").is_none() {
            command.env("OMPI_MCA_pml", "ob1");
        }
    }
    let own = std::env::current_exe().unwrap();
    command.args(["-n", &n_ranks.to_string()]).arg(own);
    command
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .env_remove("RUST_BACKTRACE");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Some(command.spawn().unwrap())
}

fn run_on(test: &str, n_ranks: usize) -> Option<Output> {
    Some(started(test, n_ranks)?.wait_with_output().unwrap())
}

fn must_pass(test: &str, n_ranks: &[usize]) {
    for &n_ranks in n_ranks {
        if let Some(output) = run_on(test, n_ranks) {
            assert!(
                output.status.success(),
                "{n_ranks} ranks: {}",
                said(&output)
            );
        }
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

fn messenger(world: &MpiWorld, sizes: Sizes, settings: Settings) -> (Messenger, Arc<Machine>) {
    let (transport, host) = (world.transport(sizes).unwrap(), Machine::new());
    let messenger = Messenger::new(Box::new(transport), settings, host.clone(), Arc::new(Heap));
    (messenger.unwrap(), host)
}

const TIGHT: Sizes = Sizes {
    message_bytes: 1000,
    largest_tag: 7,
    packet_bytes: 100,
    packets: 2,
};

#[test]
fn mpi_does_what_every_transport_must() {
    if !is_rank() {
        return must_pass("mpi_does_what_every_transport_must", &[2, 3, 4]);
    }
    let world = MpiWorld::begin().unwrap();
    let tight = Sizes {
        message_bytes: 200,
        ..TIGHT
    };
    // Rooms of each rank for what all of them send.
    let uneven = Sizes {
        packet_bytes: 60 + 70 * world.here().0,
        ..tight
    };
    for sizes in [Sizes::default(), tight, uneven] {
        let transport = world.transport(sizes).unwrap();
        // Of longer ones Open MPI 4.1 writes what the room does not hold.
        conform(Box::new(transport), &*Machine::new(), 1000);
    }
    world.end(PATIENCE).unwrap();
}

#[test]
fn sizes_that_mpi_cannot_have_are_those_nearest_to_them() {
    if !is_rank() {
        return must_pass("sizes_that_mpi_cannot_have_are_those_nearest_to_them", &[2]);
    }
    let world = MpiWorld::begin().unwrap();
    let most = Sizes {
        message_bytes: usize::MAX,
        largest_tag: u32::MAX,
        ..Sizes::default()
    };
    let limits = world.transport(most).unwrap().limits();
    assert_eq!(limits.message_bytes, i32::MAX as usize);
    assert!(limits.largest_tag <= i32::MAX as u32);
    let least = Sizes {
        packet_bytes: 0,
        packets: 0,
        ..Sizes::default()
    };
    // More in packets of one byte each would take ten seconds.
    let settings = Settings {
        inline_bytes: 100,
        ..Settings::default()
    };
    let (messenger, host) = messenger(&world, least, settings);
    let end = run(&Graph::random(1, world.n_ranks(), 10), &messenger, &*host);
    assert!(end.is_good(), "{end:?}");
    drop(messenger);
    world.end(PATIENCE).unwrap();
}

/// Else it would be waited for.
#[test]
fn a_rank_that_mpi_does_not_know_is_lost_with_what_mpi_says() {
    if !is_rank() {
        let name = "a_rank_that_mpi_does_not_know_is_lost_with_what_mpi_says";
        return must_pass(name, &[2]);
    }
    let world = MpiWorld::begin().unwrap();
    let mut transport = world.transport(Sizes::default()).unwrap();
    let (nobody, range) = (Rank(9), 0..8);
    let calls: [fn(&mut dyn Transport, Rank, Room); 3] = [
        |transport, nobody, _| transport.send(nobody, vec![7]),
        |transport, nobody, _| {
            let data = Load::Packed([7; 8].into());
            transport.send_data(nobody, 1, data.part(0..8));
        },
        |transport, nobody, room| transport.receive(nobody, 1, room),
    ];
    for call in calls {
        let (block, range) = (Heap.allocate(8), range.clone());
        call(&mut transport, nobody, Room { block, range });
        let Some(Event::Lost(rank, said)) = transport.poll() else {
            panic!("nobody says so")
        };
        assert!(rank == nobody && said.starts_with("MPI: "), "{said}");
    }
    drop(transport);
    world.end(PATIENCE).unwrap();
}

/// A datum that panics as it is dropped.
struct Brittle;

impl Cargo for Brittle {
    fn head(&self) -> Head {
        Head::default()
    }
    fn size(&self) -> usize {
        8
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[7; 8])
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        resume_unwind(Box::new("not a word on the screen"));
    }
}

/// A room that was filled in the same moment stayed on the list, and was freed twice; later on the panic came
/// out of the transport.
#[test]
fn a_datum_that_panics_as_it_is_dropped_leaves_the_room_of_another_alone() {
    if !is_rank() {
        let name = "a_datum_that_panics_as_it_is_dropped_leaves_the_room_of_another_alone";
        return must_pass(name, &[2]);
    }
    let world = MpiWorld::begin().unwrap();
    for _ in 0..100 {
        let mut transport = world.transport(Sizes::default()).unwrap();
        let other = Rank(1 - transport.rank().0);
        let (block, range) = (Heap.allocate(8), 0..8);
        transport.receive(other, 1, Room { block, range });
        let datum = Arc::new(Brittle);
        let lent = Arc::downgrade(&datum);
        transport.send_data(other, 1, Load::Lent(datum).part(0..8));
        let mut came = None;
        while lent.strong_count() > 0 || came.is_none() {
            if let Some(Event::Data { room, .. }) = transport.poll() {
                came = Some(room);
            }
        }
        assert_eq!(came.unwrap().block.bytes(), [7; 8]);
        drop(transport);
    }
    world.end(PATIENCE).unwrap();
}

/// MPI begins only once: the second launch of a program always failed.
#[test]
fn a_world_that_rests_is_begun_again_and_ends_with_its_process() {
    if !is_rank() {
        return must_pass(
            "a_world_that_rests_is_begun_again_and_ends_with_its_process",
            &[1, 2, 3],
        );
    }
    for seed in 0..3 {
        let world = MpiWorld::begin().unwrap();
        let graph = Graph::random(seed, world.n_ranks(), 30);
        let (messenger, host) = messenger(&world, Sizes::default(), Settings::default());
        assert!(run(&graph, &messenger, &*host).is_good());
        drop(messenger);
        world.rest(PATIENCE).unwrap();
    }
}

/// Each of them would wait for the other.
#[test]
fn a_rank_that_ends_or_exits_is_missed_by_one_that_begins_again() {
    let name = "a_rank_that_ends_or_exits_is_missed_by_one_that_begins_again";
    if !is_rank() {
        return must_pass(name, &[2]);
    }
    let world = MpiWorld::begin().unwrap();
    let first = world.here().0 == 0;
    world.rest(PATIENCE).unwrap();
    let world = MpiWorld::begin().unwrap();
    world.rest(PATIENCE).unwrap();
    if first {
        let missed = MpiWorld::begin().map(drop).unwrap_err();
        assert!(missed.message().contains("has ended"), "{missed}");
        let again = MpiWorld::begin().map(drop).unwrap_err();
        assert!(again.message().contains("begins only once"), "{again}");
    }
}

#[test]
fn a_world_that_one_rank_ends_rests_on_none() {
    if !is_rank() {
        return must_pass("a_world_that_one_rank_ends_rests_on_none", &[2, 3]);
    }
    let world = MpiWorld::begin().unwrap();
    match world.here().0 {
        0 => world.end(PATIENCE).unwrap(),
        _ => world.rest(PATIENCE).unwrap(),
    }
    let again = MpiWorld::begin().map(drop).unwrap_err();
    assert!(again.message().contains("begins only once"), "{again}");
}

#[test]
fn fifty_small_runs_end_well_however_messages_are_moved() {
    if !is_rank() {
        return must_pass(
            "fifty_small_runs_end_well_however_messages_are_moved",
            &[1, 2, 3, 4],
        );
    }
    let world = MpiWorld::begin().unwrap();
    for (drive, sizes, spin) in [
        (Drive::Workers, Sizes::default(), 0),
        (Drive::Dedicated, Sizes::default(), 0),
        (Drive::Workers, TIGHT, 20),
    ] {
        let settings = Settings {
            drive,
            spin: Duration::from_micros(spin),
            ..Settings::default()
        };
        let (messenger, host) = messenger(&world, sizes, settings);
        for seed in 0..50 {
            let end = run(
                &Graph::random(seed, world.n_ranks(), 60),
                &messenger,
                &*host,
            );
            assert!(end.is_good(), "{end:?}");
        }
    }
    world.end(PATIENCE).unwrap();
}

#[test]
fn a_communicator_of_the_users_is_taken_and_left_alone() {
    if !is_rank() {
        return must_pass("a_communicator_of_the_users_is_taken_and_left_alone", &[4]);
    }
    let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Serialized).unwrap();
    let whole = universe.world();
    // Odd and even ranks run apart, then all together; the user's messages do not disturb.
    let half = whole
        .split_by_color(mpi::topology::Color::with_value(whole.rank() % 2))
        .unwrap();
    for communicator in [half, whole] {
        let world = MpiWorld::over(&communicator).unwrap();
        let (messenger, host) = messenger(&world, Sizes::default(), Settings::default());
        assert_eq!(messenger.rank(), Rank(communicator.rank() as u32));
        let end = run(&Graph::random(1, world.n_ranks(), 100), &messenger, &*host);
        assert!(end.is_good(), "{end:?}");
        drop(messenger);
        world.end(PATIENCE).unwrap();
    }
    // Initialised before, the whole world is taken as well, and not ended.
    MpiWorld::begin().unwrap().end(PATIENCE).unwrap();
    assert!(!mpi::environment::is_finalized());
}

#[test]
fn a_world_is_not_ended_under_a_transport() {
    if !is_rank() {
        return must_pass("a_world_is_not_ended_under_a_transport", &[1, 2]);
    }
    let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Serialized).unwrap();
    let world = MpiWorld::over(&universe.world()).unwrap();
    let transport = world.transport(Sizes::default()).unwrap();
    let refused = world.end(PATIENCE).unwrap_err();
    assert!(refused.message().contains("still used it"), "{refused}");
    drop(transport);
}

/// It would wait for ever.
#[test]
fn a_world_whose_ranks_do_not_all_come_to_the_end_says_so_after_the_time_allowed() {
    let name = "a_world_whose_ranks_do_not_all_come_to_the_end_says_so_after_the_time_allowed";
    if !is_rank() {
        if let Some(output) = run_on(name, 2) {
            let said = said(&output);
            let named = said.contains("\nerror: not all ranks came to the end within 50ms\n");
            assert!(named && !output.status.success(), "{said}");
        }
        return;
    }
    let world = MpiWorld::begin().unwrap();
    if world.here().0 == 1 {
        thread::sleep(Duration::from_secs(60)); // the launcher ends it
    }
    let late = world.end(Duration::from_millis(50)).unwrap_err();
    assert_eq!(late.name(), "rank_lost");
    eprintln!("\nerror: {}", late.message());
    std::process::exit(1);
}

#[test]
fn an_mpi_that_its_owner_has_not_initialised_is_a_named_error() {
    let world = mpi::topology::SimpleCommunicator::world();
    let refused = MpiWorld::over(&world).unwrap_err();
    assert_eq!(refused.name(), "wrong_settings");
    assert!(refused.message().contains("not initialised"), "{refused}");
}

#[test]
fn a_thread_level_that_is_too_low_is_a_named_error() {
    if !is_rank() {
        return must_pass("a_thread_level_that_is_too_low_is_a_named_error", &[2]);
    }
    let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Funneled).unwrap();
    for refused in [
        MpiWorld::begin().map(drop),
        MpiWorld::over(&universe.world()).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.name(), "mpi_thread_level");
        assert!(error.message().contains("Funneled"), "{error}");
    }
}

#[test]
fn the_launcher_tells_what_mpi_says() {
    if !is_rank() {
        return must_pass("the_launcher_tells_what_mpi_says", &[3]);
    }
    let launched = Launched::of(|name| std::env::var(name).ok())
        .unwrap()
        .unwrap();
    let world = MpiWorld::begin().unwrap();
    let transport = world.transport(Sizes::default()).unwrap();
    assert_eq!(
        launched.rank,
        dataflow_mpi::transport::Transport::rank(&transport)
    );
    drop(transport);
    assert_eq!((launched.local_rank, launched.ranks_here), world.here());
    let mpi = Mpi {
        n_ranks: world.n_ranks(),
        library: world.library(),
    };
    check(Some(&launched), Some(3), Some(&mpi)).unwrap();
    assert!(check(Some(&launched), Some(4), None).is_err());
    world.end(PATIENCE).unwrap();
}

#[test]
fn a_world_that_is_dropped_by_a_panic_ends_the_job() {
    let name = "a_world_that_is_dropped_by_a_panic_ends_the_job";
    if !is_rank() {
        let begun = Instant::now();
        if let Some(output) = run_on(name, 3) {
            assert!(!output.status.success(), "{}", said(&output));
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{}",
                said(&output)
            );
            // Of a line that has no end.
            assert!(said(&output).contains("last words"), "{}", said(&output));
        }
        return;
    }
    let world = MpiWorld::begin().unwrap();
    let (messenger, host) = messenger(&world, Sizes::default(), Settings::default());
    if messenger.rank() == Rank(1) {
        print!("last words");
        panic!("on purpose");
    }
    // The others wait for a run that rank 1 never opens.
    run(&Graph::random(1, 3, 10), &messenger, &*host);
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_rank_that_is_killed_ends_the_job() {
    let name = "a_rank_that_is_killed_ends_the_job";
    if !is_rank() {
        let begun = Instant::now();
        if let Some(output) = run_on(name, 3) {
            assert!(!output.status.success(), "{}", said(&output));
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{}",
                said(&output)
            );
        }
        return;
    }
    let world = MpiWorld::begin().unwrap();
    let (messenger, host) = messenger(&world, Sizes::default(), Settings::default());
    for seed in 0.. {
        if seed == 5 && messenger.rank() == Rank(2) {
            kill(Pid::this(), Signal::SIGKILL).unwrap();
        }
        let end = run(&Graph::random(seed, 3, 100), &messenger, &*host);
        if !end.is_good() {
            std::process::exit(1);
        }
    }
}

#[test]
fn a_rank_that_stands_still_is_named_after_the_silence_allowed() {
    let name = "a_rank_that_stands_still_is_named_after_the_silence_allowed";
    if !is_rank() {
        if let Some(output) = run_on(name, 3) {
            let said = said(&output);
            let named = said
                .lines()
                .filter(|line| line.starts_with("error: rank 2 has been silent"));
            assert!(!output.status.success() && named.count() == 2, "{said}");
        }
        return;
    }
    let settings = Settings {
        silence: Duration::from_secs(2),
        ..Settings::default()
    };
    let world = MpiWorld::begin().unwrap();
    let (messenger, _) = messenger(&world, Sizes::default(), settings);
    let line = messenger
        .open(&Terms::default(), Arc::new(Nothing))
        .unwrap();
    if messenger.rank() == Rank(2) {
        kill(Pid::this(), Signal::SIGSTOP).unwrap();
        thread::sleep(Duration::from_secs(60)); // it may be a while until all threads stand still
    }
    let error = line.close(None).unwrap_err();
    // In one piece: the other one says so too, at the same time.
    let told = format!("\nerror: {}\n", error.message());
    std::io::stderr().write_all(told.as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(500));
    std::process::exit(1);
}

#[test]
fn a_datum_above_two_gibibytes_arrives() {
    const BYTES: usize = (2 << 30) + 4096;
    if !is_rank() {
        let available = available_bytes();
        if available < 5 * BYTES {
            eprintln!("skipped: {} MiB of memory are available", available >> 20);
            return;
        }
        return must_pass("a_datum_above_two_gibibytes_arrives", &[2]);
    }
    let settings = Settings {
        silence: Duration::from_secs(100), // on a busy machine pages come slowly
        ..Settings::default()
    };
    let world = MpiWorld::begin().unwrap();
    let task = |owner, inputs, size| Task {
        owner: Rank(owner),
        inputs,
        sizes: vec![size],
        seconds: 0.0,
        priority: 0,
    };
    let graph = Graph::new(
        2,
        vec![task(0, vec![], Some(BYTES)), task(1, vec![0], None)],
    );
    let (messenger, host) = messenger(&world, Sizes::default(), settings);
    let end = run(&graph, &messenger, &*host);
    assert!(end.is_good(), "{end:?}");
    drop(messenger);
    world.end(PATIENCE).unwrap();
}

fn available_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.unwrap().trim().trim_end_matches(" kB");
    kibibytes.parse::<usize>().unwrap() << 10
}

#[test]
fn a_rank_that_waits_for_work_uses_little_of_the_processor() {
    if !is_rank() {
        return must_pass(
            "a_rank_that_waits_for_work_uses_little_of_the_processor",
            &[2],
        );
    }
    let world = MpiWorld::begin().unwrap();
    for drive in [Drive::Workers, Drive::Dedicated] {
        let settings = Settings {
            drive,
            ..Settings::default()
        };
        let (messenger, _) = messenger(&world, Sizes::default(), settings);
        // In a run rank 0 takes its time; the other has nothing to do but wait for it.
        let line = messenger
            .open(&Terms::default(), Arc::new(Nothing))
            .unwrap();
        let millis = if messenger.rank() == Rank(0) {
            thread::sleep(Duration::from_secs(2));
            0
        } else {
            thread::sleep(Duration::from_millis(200));
            processor_millis(Duration::from_millis(1500))
        };
        eprintln!("{drive:?}: {millis} ms of processor time in 1500");
        // Who polls without a pause takes 1,500; the rest is for a machine that is busy.
        assert!(
            millis < 300,
            "{drive:?}: {millis} ms of processor time in 1500"
        );
        assert_eq!(line.close(None).unwrap(), None);
        let between = processor_millis(Duration::from_millis(500));
        assert!(
            between < 100,
            "{drive:?}: {between} ms in half a second between runs"
        );
    }
    world.end(PATIENCE).unwrap();
}
