//! Ranks as processes over sockets: runs, deaths, strangers.

#![cfg(target_os = "linux")]

mod engine;
mod hosts;
mod processes;
mod relay;
mod rest;

use dataflow_core::port::{Courier, Heap, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::tcp::{Mesh, Tcp};
use dataflow_mpi::{Drive, Machine, Messenger, Settings};
use engine::{End, Graph, Task, run};
use hosts::{ADDRESSES, Hosts};
use nix::sys::signal::Signal;
use processes::{Job, Seat, as_rank, fail, number, say};
use relay::Relay;
use rest::{Nothing, processor_millis};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

fn messenger(tcp: Tcp, settings: Settings) -> (Messenger, Arc<Machine>) {
    let host = Machine::new();
    let messenger = Messenger::new(Box::new(tcp), settings, host.clone(), Arc::new(Heap));
    (messenger.unwrap(), host)
}

/// Ends the process in failure unless the run ended well.
fn must_be_good(end: &End) {
    match &end.result {
        Err((_, reason)) => fail(reason),
        Ok(_) if !end.is_good() => fail(&format!("{end:?}")),
        Ok(_) => {}
    }
}

#[test]
fn fifty_small_runs_end_well_however_messages_are_moved() {
    if let Some(seat) = as_rank() {
        let drive = [Drive::Workers, Drive::Dedicated][number("drive").unwrap() as usize];
        let spin = Duration::from_micros(number("spin").unwrap());
        let settings = Settings {
            drive,
            spin,
            ..Settings::default()
        };
        let n_ranks = seat.mesh.n_ranks;
        let (messenger, host) = messenger(seat.connect(), settings);
        for seed in 0..50 {
            let graph = Graph::random(seed, n_ranks, 60);
            must_be_good(&run(&graph, &messenger, &*host));
        }
        return;
    }
    let name = "fifty_small_runs_end_well_however_messages_are_moved";
    for (n_ranks, drive, spin) in [(2, 0, 0), (3, 1, 0), (4, 0, 20), (1, 1, 0)] {
        Job::start(name, n_ranks, &[("drive", drive), ("spin", spin)]).end_well();
    }
}

/// Runs again and again until something happens.
fn run_for_ever(seat: &Seat) -> ! {
    let (messenger, host) = messenger(seat.connect(), Settings::default());
    for seed in 0.. {
        let graph = Graph::random(seed, seat.mesh.n_ranks, 200);
        let end = run(&graph, &messenger, &*host);
        if let Err((_, reason)) = end.result {
            drop(messenger);
            fail(&reason);
        }
        if seed == 3 {
            say("running");
        }
    }
    unreachable!()
}

#[test]
fn a_rank_that_is_killed_during_a_run_is_named_by_all_others() {
    if let Some(seat) = as_rank() {
        run_for_ever(&seat);
    }
    let name = "a_rank_that_is_killed_during_a_run_is_named_by_all_others";
    for lost in 0..3 {
        for pause in [0, 7, 50] {
            let mut job = Job::start(name, 3, &[]);
            job.all_say("running");
            thread::sleep(Duration::from_millis(pause));
            job.take(lost).kill();
            job.end_naming(lost);
        }
    }
}

#[test]
fn a_rank_that_stands_still_is_named_after_the_silence_allowed() {
    if let Some(seat) = as_rank() {
        let settings = Settings {
            silence: Duration::from_secs(2),
            ..Settings::default()
        };
        let (messenger, _) = messenger(seat.connect(), settings);
        let line = messenger
            .open(&Terms::default(), Arc::new(Nothing))
            .unwrap();
        say("running");
        if number("still") == Some(u64::from(seat.mesh.rank.0)) {
            thread::sleep(Duration::from_secs(60));
        }
        // The line still holds the messenger: the process ends without a goodbye.
        let closed = line.close(None);
        fail(closed.unwrap_err().message());
    }
    let name = "a_rank_that_stands_still_is_named_after_the_silence_allowed";
    let jobs = [0, 2].map(|still| {
        let mut job = Job::start(name, 3, &[("still", u64::from(still))]);
        job.all_say("running");
        let process = job.take(still);
        process.signal(Signal::SIGSTOP);
        (job, process)
    });
    for (mut job, process) in jobs {
        job.end_naming(process.rank);
        process.kill();
    }
}

#[test]
fn a_rank_that_is_killed_while_the_ranks_gather_is_named_by_all_others() {
    if let Some(seat) = as_rank() {
        if number("sleeper") == Some(u64::from(seat.mesh.rank.0)) {
            say("sleeping");
            thread::sleep(Duration::from_secs(60));
        }
        run_for_ever(&seat);
    }
    let name = "a_rank_that_is_killed_while_the_ranks_gather_is_named_by_all_others";
    // Rank 3 does not come; of those who wait for it one is killed.
    for lost in 0..3 {
        let mut job = Job::start(name, 4, &[("sleeper", 3)]);
        job.processes[3].word("sleeping");
        thread::sleep(Duration::from_millis(300));
        job.take(lost).kill();
        job.take(3).kill();
        job.end_naming(lost);
    }
    // Rank 1 ends before it has come: the others know when their patience ends.
    let mut job = Job::start(name, 3, &[("sleeper", 1), ("patience", 2)]);
    job.take(1).kill();
    job.end_naming(1);
}

#[test]
fn a_rank_that_starts_late_is_waited_for() {
    if let Some(seat) = as_rank() {
        let graph = Graph::random(1, 3, 100);
        let (messenger, host) = messenger(seat.connect(), Settings::default());
        must_be_good(&run(&graph, &messenger, &*host));
        return;
    }
    let mut job = Job::new("a_rank_that_starts_late_is_waited_for", 3, &[]);
    job.start_rank(0);
    job.start_rank(2);
    thread::sleep(Duration::from_secs(2));
    job.start_rank(1);
    job.end_well();
}

#[test]
fn strangers_are_refused_in_one_line_each_and_the_run_goes_on() {
    if let Some(seat) = as_rank() {
        let graph = Graph::random(1, 2, 100);
        let (messenger, host) = messenger(seat.connect(), Settings::default());
        must_be_good(&run(&graph, &messenger, &*host));
        return;
    }
    let name = "strangers_are_refused_in_one_line_each_and_the_run_goes_on";
    let mut job = Job::new(name, 2, &[]);
    job.start_rank(0);
    let hello = |rank: u32| {
        let mut hello = b"dfmesh2\n".to_vec();
        hello.extend([1; 32]);
        hello.extend(rank.to_le_bytes());
        hello.extend([0; 4]);
        hello.extend(2u32.to_le_bytes());
        hello.extend([0; 18]);
        hello
    };
    let verdict = |knows: u8| [vec![knows], vec![9; 32]].concat();
    let strangers = [
        ([hello(1), verdict(1)].concat(), "does not know the token"),
        ([hello(1), verdict(0)].concat(), "the token differs"),
        (vec![0xff; 1000], "does not say what ranks say"),
        (
            (1u64 << 63).to_le_bytes().to_vec(),
            "does not say what ranks say",
        ),
    ];
    for (words, _) in &strangers {
        let mut stream = TcpStream::connect(job.root()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream.write_all(words).unwrap();
        // It is sent away.
        let mut answer = [0; 100];
        while let Ok(1..) = stream.read(&mut answer) {}
    }
    // Of those that know the token, whoever says that it is another rank is in a unit test: a mesh does not.
    let mesh = Mesh::new(Rank(1), 3, job.token);
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    mesh.join(&[job.root()], own).unwrap_err();
    let half_open: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(job.root()).unwrap())
        .collect();
    let mut hesitant = TcpStream::connect(job.root()).unwrap();
    hesitant.write_all(&hello(1)[..20]).unwrap();
    thread::sleep(Duration::from_secs(6));
    job.start_rank(1);
    let ended = job.end(Duration::from_secs(60));
    drop((half_open, hesitant));
    assert!(
        ended.iter().all(|ended| ended.status.success()),
        "{}",
        ended[0].stderr
    );
    let log: Vec<&str> = ended[0]
        .stderr
        .lines()
        .filter(|line| line.contains("refused"))
        .collect();
    let strangers = strangers.iter().map(|(_, reason)| reason);
    let reasons: Vec<_> = strangers.chain([&"expects 3 ranks, not 2"]).collect();
    for reason in &reasons {
        assert!(
            log.iter().any(|line| line.contains(**reason)),
            "{reason}: {log:?}"
        );
    }
    assert_eq!(log.len(), reasons.len() + 4, "{log:?}");
    assert_eq!(
        log.iter().filter(|line| line.contains("within 5s")).count(),
        4,
        "{log:?}"
    );
}

#[test]
fn ranks_that_differ_in_their_number_or_are_the_same_are_named_errors() {
    if let Some(seat) = as_rank() {
        if seat.mesh.rank == Rank(2) {
            say("sleeping");
            thread::sleep(Duration::from_secs(2));
        }
        let (messenger, host) = messenger(seat.connect(), Settings::default());
        must_be_good(&run(&Graph::random(1, 3, 10), &messenger, &*host));
        return;
    }
    let name = "ranks_that_differ_in_their_number_or_are_the_same_are_named_errors";
    let mut job = Job::start(name, 3, &[("sleeper", 2)]);
    job.processes[2].word("sleeping");
    let refused = |job: &mut Job, reason: &str| {
        job.start_rank(1);
        let ended = job.processes.pop().unwrap().end(Duration::from_secs(30));
        assert!(
            !ended.status.success() && ended.stderr.contains(reason),
            "{}",
            ended.stderr
        );
    };
    thread::sleep(Duration::from_millis(300)); // rank 1 has come
    refused(&mut job, "rank 1 is another process");
    job.n_ranks = 4;
    refused(&mut job, "ranks: 3 on rank 0, 4 on rank 1");
    job.end_well();
}

#[test]
fn a_datum_above_two_gibibytes_arrives() {
    const BYTES: usize = (2 << 30) + 4096;
    if let Some(seat) = as_rank() {
        let settings = Settings {
            silence: Duration::from_secs(100), // on a busy machine pages come slowly
            ..Settings::default()
        };
        let (messenger, host) = messenger(seat.connect(), settings);
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
        must_be_good(&run(&graph, &messenger, &*host));
        return;
    }
    let available = available_bytes();
    if available < 5 * BYTES {
        eprintln!("skipped: {} MiB of memory are available", available >> 20);
        return;
    }
    Job::start("a_datum_above_two_gibibytes_arrives", 2, &[]).end_well();
}

fn available_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.unwrap().trim().trim_end_matches(" kB");
    kibibytes.parse::<usize>().unwrap() << 10
}

/// Starts two ranks, each on its host, and waits until both are running.
fn start_on(hosts: &Hosts, job: &mut Job) {
    for (rank, listen) in (0..2).zip(ADDRESSES) {
        let by = hosts.on(rank);
        job.start_in(rank, &by.each_ref().map(String::as_str), listen);
    }
    job.all_say("running");
}

#[test]
fn two_hosts_run_together_and_miss_each_other_when_the_cable_is_cut() {
    if let Some(seat) = as_rank() {
        let settings = Settings {
            silence: Duration::from_secs(2),
            ..Settings::default()
        };
        let (messenger, host) = messenger(seat.connect(), settings);
        for seed in 0..20 {
            must_be_good(&run(&Graph::random(seed, 2, 100), &messenger, &*host));
        }
        let line = messenger
            .open(&Terms::default(), Arc::new(Nothing))
            .unwrap();
        say("running");
        thread::sleep(Duration::from_secs(1));
        let closed = line.close(None);
        drop(messenger);
        fail(closed.unwrap_err().message());
    }
    let hosts = match Hosts::new(2) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: {why}"),
    };
    let name = "two_hosts_run_together_and_miss_each_other_when_the_cable_is_cut";
    let mut job = Job::new(name, 2, &[]);
    start_on(&hosts, &mut job);
    hosts.cut(1);
    for ended in job.end(Duration::from_secs(10)) {
        let other = format!("rank {} ", 1 - ended.rank);
        assert!(
            !ended.status.success() && ended.stderr.contains(&other),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_network_that_loses_packets_costs_time_and_no_task() {
    if let Some(seat) = as_rank() {
        let (messenger, host) = messenger(seat.connect(), Settings::default());
        for seed in 0..600 {
            let graph = Graph::random(seed, 2, 30);
            must_be_good(&run(&graph, &messenger, &*host));
            if seed == 3 {
                say("running");
            }
        }
        return;
    }
    let hosts = match Hosts::new(2) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut job = Job::new(
        "a_network_that_loses_packets_costs_time_and_no_task",
        2,
        &[],
    );
    start_on(&hosts, &mut job);
    hosts.lose(1, 10);
    let lost = hosts.sent_again(0) + hosts.sent_again(1);
    job.end_well();
    assert!(lost > 0, "nothing was lost");
}

#[test]
fn a_slow_and_far_rank_is_waited_for_and_one_that_is_cut_off_is_named() {
    if let Some(seat) = as_rank() {
        let settings = Settings {
            silence: Duration::from_secs(2),
            ..Settings::default()
        };
        let (messenger, host) = messenger(seat.connect(), settings);
        for seed in 0..3 {
            must_be_good(&run(&Graph::random(seed, 2, 30), &messenger, &*host));
        }
        say("running");
        let line = messenger
            .open(&Terms::default(), Arc::new(Nothing))
            .unwrap();
        thread::sleep(Duration::from_millis(500));
        fail(line.close(None).unwrap_err().message());
    }
    let name = "a_slow_and_far_rank_is_waited_for_and_one_that_is_cut_off_is_named";
    let mut job = Job::new(name, 2, &[]);
    job.start_rank(0);
    let relay = Relay::to(job.root())
        .with_rate(20e6)
        .with_delay(Duration::from_millis(10));
    job.reach(relay.address());
    job.start_rank(1);
    job.all_say("running");
    relay.cut();
    for ended in job.end(Duration::from_secs(10)) {
        let other = format!("rank {} ", 1 - ended.rank);
        assert!(
            !ended.status.success() && ended.stderr.contains(&other),
            "{}",
            ended.stderr
        );
    }
}

/// Two ranks send each other a datum over a link of so many bits a second, so that questions and
/// beats wait behind data too.
fn exchange_slowly(name: &str, bytes: usize, rate: f64, settings: Settings) {
    if let Some(seat) = as_rank() {
        let (messenger, host) = messenger(seat.connect(), settings);
        let task = |owner, inputs, size| Task {
            owner: Rank(owner),
            inputs,
            sizes: vec![Some(size)],
            seconds: 0.0,
            priority: 0,
        };
        let tasks = vec![
            task(0, vec![], bytes),
            task(1, vec![], bytes),
            task(0, vec![1], 8),
            task(1, vec![0], 8),
        ];
        return must_be_good(&run(&Graph::new(2, tasks), &messenger, &*host));
    }
    let mut job = Job::new(name, 2, &[]);
    job.start_rank(0);
    let relay = Relay::to(job.root()).with_rate(rate);
    job.reach(relay.address());
    job.start_rank(1);
    job.end_well();
}

/// Once only what had come whole was a sign of life.
#[test]
fn a_datum_that_takes_three_times_the_silence_allowed_arrives() {
    let name = "a_datum_that_takes_three_times_the_silence_allowed_arrives";
    let settings = Settings {
        beat: Duration::from_millis(200),
        silence: Duration::from_secs(1),
        ..Settings::default()
    };
    exchange_slowly(name, 1 << 20, 2.5e6, settings);
}

/// It ended after 10.6 s with "1 parcels were sent and 0 delivered, and nothing moves".
#[test]
#[ignore = "slow: half a minute"]
fn two_hundred_mebibytes_cross_a_link_of_100_mbit_with_ten_seconds_of_silence_allowed() {
    let name = "two_hundred_mebibytes_cross_a_link_of_100_mbit_with_ten_seconds_of_silence_allowed";
    exchange_slowly(name, 200 << 20, 100e6, Settings::default());
}

#[test]
fn idle_ranks_use_no_processor() {
    if let Some(seat) = as_rank() {
        let drive = [Drive::Workers, Drive::Dedicated][number("drive").unwrap() as usize];
        let settings = Settings {
            drive,
            spin: Duration::from_micros(50),
            ..Settings::default()
        };
        let (messenger, host) = messenger(seat.connect(), settings);
        let graph = Graph::random(1, 3, 100);
        must_be_good(&run(&graph, &messenger, &*host));
        thread::sleep(Duration::from_millis(200));
        let between = processor_millis(Duration::from_secs(2));
        // In a run rank 0 takes its time; the others have nothing to do but wait for it.
        let line = messenger
            .open(&Terms::default(), Arc::new(Nothing))
            .unwrap();
        let waiting = if seat.mesh.rank == Rank(0) {
            thread::sleep(Duration::from_secs(4));
            0
        } else {
            let waiting = thread::spawn(|| processor_millis(Duration::from_secs(2)));
            thread::sleep(Duration::from_millis(100));
            line.poll();
            waiting.join().unwrap()
        };
        assert_eq!(line.close(None).unwrap(), None);
        // One who polls without a pause takes 2,000; a machine that is busy adds a little.
        if between > 200 || waiting > 200 {
            fail(&format!(
                "{between} and {waiting} ms of processor time in two idle seconds"
            ));
        }
        return;
    }
    // Side by side: each process counts its own time.
    let name = "idle_ranks_use_no_processor";
    let jobs = [0, 1].map(|drive| Job::start(name, 3, &[("drive", drive)]));
    jobs.into_iter().for_each(|mut job| job.end_well());
}
