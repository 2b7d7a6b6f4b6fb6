//! Ranks gather over sockets: who is blamed, what a stranger can learn, and how many can come.

#![cfg(target_os = "linux")]

mod engine;
mod hosts;
mod processes;
mod relay;

use dataflow_core::port::Heap;
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::tcp::{Mesh, Tcp, Token};
use dataflow_mpi::{Machine, Messenger, Settings};
use engine::{Graph, run};
use hosts::{ADDRESSES, Hosts};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use processes::{Ended, Job, Seat, as_rank, fail};
use relay::Relay;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A rank that gathers, runs a little and ends.
fn live(seat: &Seat) {
    let graph = Graph::random(1, seat.mesh.n_ranks, 50);
    let settings = Settings {
        silence: seat.mesh.silence.max(Settings::default().silence),
        ..Settings::default()
    };
    if let Err((_, reason)) = work(seat.connect(), &graph, settings) {
        fail(&reason);
    }
}

fn work(tcp: Tcp, graph: &Arc<Graph>, settings: Settings) -> Result<(), (String, String)> {
    let host = Machine::new();
    let memory = Arc::new(Heap);
    let messenger = Messenger::new(Box::new(tcp), settings, host.clone(), memory);
    let messenger = messenger.unwrap();
    let end = run(graph, &messenger, &*host);
    drop(messenger);
    end.result.map(drop)
}

fn errors(ended: &Ended) -> Vec<&str> {
    let lines = ended.stderr.lines();
    lines.filter(|line| line.starts_with("error:")).collect()
}

/// Waits until so many connections to that port stand on this machine.
fn wait_for_connections(port: u16, n: usize) {
    let local = format!("0100007F:{port:04X}");
    loop {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let is_it = |line: &&str| {
            let mut words = line.split_whitespace().skip(1);
            words.next() == Some(&local) && words.nth(1) == Some("01")
        };
        if table.lines().filter(is_it).count() >= n {
            return thread::sleep(Duration::from_millis(300)); // and have shaken hands
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn another_token_is_told_on_both_sides_and_ends_no_job() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    let mut job = Job::new(
        "another_token_is_told_on_both_sides_and_ends_no_job",
        2,
        &[],
    );
    job.start_rank(0);
    let token = std::mem::replace(&mut job.token, Token::random().unwrap());
    job.start_rank(1);
    let refused = job.take(1).end(Duration::from_secs(20));
    let told = errors(&refused).join("\n");
    assert!(told.contains("the token differs"), "{}", refused.stderr);
    assert!(!told.contains("lost"), "{told}");
    job.token = token;
    job.start_rank(1);
    for ended in job.end(Duration::from_secs(60)) {
        assert!(ended.status.success(), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("the token differs"), ended.rank == 0);
    }
}

#[test]
fn whoever_listens_in_rank_0s_place_learns_nothing_of_the_token() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    let name = "whoever_listens_in_rank_0s_place_learns_nothing_of_the_token";
    let mut job = Job::new(name, 2, &[]);
    let thief = TcpListener::bind("127.0.0.1:0").unwrap();
    job.reach(thief.local_addr().unwrap());
    job.start_rank(1);
    let (mut caller, _) = thief.accept().unwrap();
    let mut hello = [0; 70];
    caller.read_exact(&mut hello).unwrap();
    // It answers as rank 0 would, and cannot prove anything.
    let mut answer = b"dfmesh2h".to_vec();
    answer.extend([7; 64]);
    caller.write_all(&answer).unwrap();
    let mut rest = Vec::new();
    caller.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [0; 33], "no proof is given to a thief");
    assert!(!reveals(&hello, job.token));
    let ended = job.take(1).end(Duration::from_secs(20));
    assert!(
        errors(&ended)[0].contains("the token differs"),
        "{}",
        ended.stderr
    );
}

/// Whether bytes hold a part of the token, as it is or in digits.
fn reveals(bytes: &[u8], token: Token) -> bool {
    let digits = token.to_string();
    let plain: Vec<u8> = (0..32)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    plain.chunks(8).any(holds) || digits.as_bytes().chunks(16).any(holds)
}

#[test]
fn the_token_never_crosses_and_what_crossed_once_opens_no_door() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    let name = "the_token_never_crosses_and_what_crossed_once_opens_no_door";
    let mut job = Job::new(name, 2, &[]);
    job.start_rank(0);
    let relay = Relay::to(job.root()).recording();
    job.reach(relay.address());
    job.start_rank(1);
    job.end_well();
    let [there, back] = relay.recorded();
    assert!(
        there.len() > 103 && back.len() > 72,
        "both spoke through the relay"
    );
    assert!(!reveals(&there, job.token) && !reveals(&back, job.token));
    // The same job again: all that rank 1 said is said once more, by somebody else.
    job.reach("127.0.0.1:0".parse().unwrap());
    job.start_rank(0);
    let mut replay = TcpStream::connect(job.root()).unwrap();
    replay.write_all(&there).ok();
    let mut answer = Vec::new();
    replay.read_to_end(&mut answer).ok(); // it is sent away, perhaps with bytes unread
    job.start_rank(1);
    for ended in job.end(Duration::from_secs(60)) {
        assert!(ended.status.success(), "{}", ended.stderr);
        let refused = ended.stderr.contains("it does not know the token");
        assert_eq!(refused, ended.rank == 0, "{}", ended.stderr);
    }
}

#[test]
fn a_peer_with_the_token_that_resets_ends_no_job() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    let mut job = Job::new("a_peer_with_the_token_that_resets_ends_no_job", 2, &[]);
    job.start_rank(0);
    for (rank, n_ranks) in [(1, 3), (0, 2), (7, 2)] {
        let mesh = Mesh::new(Rank(rank), n_ranks, job.token);
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        mesh.join(&[job.root()], own).unwrap_err();
    }
    for _ in 0..200 {
        drop(TcpStream::connect(job.root()).unwrap());
    }
    job.start_rank(1);
    let ended = job.end(Duration::from_secs(60));
    assert!(
        ended.iter().all(|ended| ended.status.success()),
        "{}",
        ended[0].stderr
    );
    let lines = ended[0].stderr.lines().count();
    assert!((4..=110).contains(&lines), "{lines} lines of 203 strangers");
}

#[test]
fn a_rank_that_is_stopped_after_its_hello_is_named_by_all() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    let name = "a_rank_that_is_stopped_after_its_hello_is_named_by_all";
    let jobs = [0, 2].map(|still| {
        let mut job = Job::new(name, 4, &[("silence", 2)]);
        (0..3).for_each(|rank| job.start_rank(rank)); // and rank 3 does not come
        wait_for_connections(job.root().port(), 2);
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
fn a_rank_that_is_cut_off_after_its_hello_is_named() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    let name = "a_rank_that_is_cut_off_after_its_hello_is_named";
    let mut job = Job::new(name, 4, &[("silence", 2)]);
    job.start_rank(0);
    let root = job.root();
    let relay = Relay::to(root);
    job.reach(relay.address());
    job.start_rank(1);
    job.reach(root);
    job.start_rank(2);
    wait_for_connections(root.port(), 2);
    relay.cut();
    for ended in job.end(Duration::from_secs(10)) {
        let named = if ended.rank == 1 {
            "rank 0 "
        } else {
            "rank 1 "
        };
        let told = errors(&ended).join("\n");
        assert!(
            told.contains(named),
            "rank {}: {}",
            ended.rank,
            ended.stderr
        );
    }
}

#[test]
fn whoever_did_not_come_in_time_is_named_and_waiting_is_told_and_costs_nothing() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    let name = "whoever_did_not_come_in_time_is_named_and_waiting_is_told_and_costs_nothing";
    let mut killed = Job::start(name, 3, &[("patience", 7)]);
    killed.take(2).kill();
    let mut job = Job::new(name, 3, &[("patience", 7)]);
    (0..2).for_each(|rank| job.start_rank(rank));
    wait_for_connections(job.root().port(), 1);
    thread::sleep(Duration::from_secs(4));
    for process in &job.processes {
        let spent = process.processor_millis();
        // One who polls without a pause takes 4,000.
        assert!(spent < 800, "rank {} spent {spent} ms", process.rank);
    }
    for ended in killed.end(Duration::from_secs(20)) {
        let told = errors(&ended).join("\n");
        assert!(
            told.contains("rank 2 "),
            "rank {}: {}",
            ended.rank,
            ended.stderr
        );
    }
    for ended in job.end(Duration::from_secs(10)) {
        let told = errors(&ended).join("\n");
        assert!(
            told.contains("rank 2 ") && told.contains("within 7s"),
            "{}",
            ended.stderr
        );
        let waits = ended.stderr.contains("waits for rank 2: 2 of 3 are there");
        assert!(
            waits,
            "rank {} says whom it waits for: {}",
            ended.rank, ended.stderr
        );
    }
}

#[test]
fn a_rank_that_listens_where_others_cannot_reach_it_is_named_by_all() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    let hosts = match Hosts::new(2) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: {why}"),
    };
    let name = "a_rank_that_listens_where_others_cannot_reach_it_is_named_by_all";
    let mut job = Job::new(name, 2, &[]);
    for (rank, listen) in [(0, ADDRESSES[0]), (1, "127.0.1.1")] {
        let by = hosts.on(rank);
        job.start_in(rank, &by.each_ref().map(String::as_str), listen);
    }
    for ended in job.end(Duration::from_secs(20)) {
        let told = errors(&ended).join("\n");
        let names = told.contains("rank 1 ") && told.contains("127.0.1.1");
        assert!(names, "rank {}: {}", ended.rank, ended.stderr);
    }
}

/// So many ranks, threads of this process, gather and run a graph together.
fn many_gather(n_ranks: usize, acquainted: usize, tasks: usize) {
    gather_at(&[], n_ranks, acquainted, tasks);
}

/// The same where the name of rank 0 has other addresses before its own.
fn gather_at(before: &[SocketAddr], n_ranks: usize, acquainted: usize, tasks: usize) {
    let token = Token::random().unwrap();
    let graph = Graph::random(5, n_ranks, tasks);
    let mesh = |rank: usize| {
        let mut mesh = Mesh::new(Rank(rank as u32), n_ranks, token);
        mesh.acquainted_ranks = acquainted;
        mesh.silence = Duration::from_secs(120);
        mesh
    };
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let first = listen();
    let root: SocketAddr = first.local_addr().unwrap();
    let addresses = [before, &[root]].concat();
    let ends: Vec<_> = thread::scope(|ranks| {
        let begin = |rank: usize| {
            let (mesh, graph, addresses) = (mesh(rank), &graph, &addresses);
            let small = thread::Builder::new().stack_size(256 << 10);
            let join = move || {
                let own = TcpListener::bind("127.0.0.1:0").unwrap();
                work(
                    mesh.join(addresses, own).unwrap(),
                    graph,
                    Settings::default(),
                )
            };
            small.spawn_scoped(ranks, join).unwrap()
        };
        let others: Vec<_> = (1..n_ranks).map(begin).collect();
        let own = mesh(0).lead(first, &mut || None);
        let own = work(own.unwrap(), &graph, Settings::default());
        let others = others.into_iter().map(|rank| rank.join().unwrap());
        std::iter::once(own).chain(others).collect()
    });
    for (rank, end) in ends.into_iter().enumerate() {
        assert_eq!(end, Ok(()), "rank {rank} of {n_ranks}");
    }
}

#[test]
fn ranks_that_are_connected_on_need_run_as_those_that_all_are() {
    for acquainted in [0, 64] {
        many_gather(9, acquainted, 300);
    }
    many_gather(150, 64, 600);
}

/// Only the first address of a name was tried. Later a stranger that listened at another
/// ended the rank.
#[test]
fn rank_0_is_found_at_the_last_address_of_its_name() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let before = [
        nobody.unwrap(),
        stranger.local_addr().unwrap(),
        "[::1]:9".parse().unwrap(),
    ];
    thread::spawn(move || {
        for caller in stranger.incoming() {
            caller
                .unwrap()
                .write_all(b"HTTP/1.1 400 Bad Request\r\n")
                .ok();
        }
    });
    gather_at(&before, 3, 64, 100);
}

/// The size is what is tested: some ten seconds of two cores.
#[test]
#[ignore = "wide: a thousand ranks, 2000 threads"]
fn a_thousand_ranks_gather_on_one_machine() {
    many_gather(1000, 64, 4000);
}

/// The size is what is tested: each rank is a process of some megabytes.
#[test]
#[ignore = "wide: a thousand processes"]
fn a_thousand_processes_gather_on_one_machine() {
    if let Some(seat) = as_rank() {
        return live(&seat);
    }
    // The test reads what each of them says.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    // They share a few cores, so each is silent for long.
    let silence = [("silence", 60)];
    Job::start("a_thousand_processes_gather_on_one_machine", 1000, &silence).end_well();
}
