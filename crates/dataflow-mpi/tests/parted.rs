//! Hosts that cannot reach each other although both live, and reach the others: who is named.
//!
//! Where this user or machine cannot make network namespaces the tests say that they are skipped.

#![cfg(target_os = "linux")]

mod hosts;
mod processes;
mod rest;

use dataflow_core::port::{Courier, Heap, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::{Machine, Messenger, Settings};
use hosts::{ADDRESSES, Hosts};
use processes::{Ended, Job, Seat, as_rank, fail, say};
use rest::Nothing;
use std::sync::Arc;
use std::time::Duration;

/// A rank that waits in a run until the run fails.
fn wait(seat: &Seat) -> ! {
    let settings = Settings {
        silence: Duration::from_secs(2),
        ..Settings::default()
    };
    let tcp = Box::new(seat.connect());
    let messenger = Messenger::new(tcp, settings, Machine::new(), Arc::new(Heap)).unwrap();
    let line = messenger.open(&Terms::default(), Arc::new(Nothing));
    let line = line.unwrap_or_else(|error| fail(error.message()));
    say("running");
    // Rank 0 holds the run open; it hears of the others.
    if seat.mesh.rank == Rank(0) {
        std::thread::sleep(Duration::from_secs(6));
    }
    let closed = line.close(None);
    drop(messenger);
    fail(closed.unwrap_err().message())
}

fn start(job: &mut Job, hosts: &Hosts, rank: u32) {
    let by = hosts.on(rank);
    let by = by.each_ref().map(String::as_str);
    job.start_in(rank, &by, ADDRESSES[rank as usize]);
}

/// Each ends with one line, which names both.
fn must_name(ended: &[Ended], a: u32, b: u32) {
    for ended in ended {
        let errors = ended.stderr.lines();
        let errors: Vec<&str> = errors.filter(|line| line.starts_with("error:")).collect();
        let names = |rank: u32| errors[0].contains(&format!("rank {rank} "));
        assert!(
            errors.len() == 1 && names(a) && names(b),
            "rank {}, {:?}: {}",
            ended.rank,
            ended.status,
            ended.stderr
        );
    }
}

#[test]
fn two_ranks_that_cannot_reach_each_other_are_named_by_all_three() {
    if let Some(seat) = as_rank() {
        wait(&seat);
    }
    let hosts = match Hosts::new(3) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: {why}"),
    };
    hosts.part(1, 2);
    let name = "two_ranks_that_cannot_reach_each_other_are_named_by_all_three";
    let mut job = Job::new(name, 3, &[("silence", 2)]);
    (0..3).for_each(|rank| start(&mut job, &hosts, rank));
    must_name(&job.end(Duration::from_secs(15)), 1, 2);
}

#[test]
fn two_ranks_that_are_parted_during_a_run_are_named_by_all_three() {
    if let Some(seat) = as_rank() {
        wait(&seat);
    }
    let hosts = match Hosts::new(3) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: {why}"),
    };
    let name = "two_ranks_that_are_parted_during_a_run_are_named_by_all_three";
    let mut job = Job::new(name, 3, &[]);
    (0..3).for_each(|rank| start(&mut job, &hosts, rank));
    job.all_say("running");
    hosts.part(1, 2);
    must_name(&job.end(Duration::from_secs(15)), 1, 2);
}

#[test]
fn a_host_that_is_cut_off_while_the_ranks_gather_is_named_on_each_within_the_deadline() {
    if let Some(seat) = as_rank() {
        wait(&seat);
    }
    let hosts = match Hosts::new(3) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: {why}"),
    };
    let name = "a_host_that_is_cut_off_while_the_ranks_gather_is_named_on_each_within_the_deadline";
    // The fourth never comes, so they are still gathering.
    let mut job = Job::new(name, 4, &[("silence", 2), ("patience", 30)]);
    (0..3).for_each(|rank| start(&mut job, &hosts, rank));
    std::thread::sleep(Duration::from_secs(1));
    hosts.cut(1);
    for ended in job.end(Duration::from_secs(15)) {
        let lost = if ended.rank == 1 { 0 } else { 1 };
        let errors = ended.stderr.lines();
        let errors: Vec<&str> = errors.filter(|line| line.starts_with("error:")).collect();
        assert!(
            errors.len() == 1 && errors[0].contains(&format!("rank {lost} ")),
            "rank {}: {}",
            ended.rank,
            ended.stderr
        );
    }
}
