//! A parcel that is handed in while another worker moves messages is not left lying.
//!
//! A worker that finds the lock of the messages taken goes away; whoever holds it must look once
//! more before it goes too. Others would look soon in any case: the helper when something arrives
//! or becomes due. Here it does not, so a parcel that is left lying lies there for good.

use dataflow_core::port::{Arrival, Courier, Failure, Heap, Inbox, Line, Parcel, Pulse, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::local;
use dataflow_mpi::{Bell, Drive, Host, Machine, Messenger, Settings, Thread};
use smallvec::smallvec;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The machine, but nobody looks by chance: its time stands still, waits end by a ring only, and
/// while it is deaf no ring is heard.
struct Undisturbed {
    machine: Arc<Machine>,
    deaf: Arc<AtomicBool>,
}

impl Host for Undisturbed {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(Muffled {
            bell: self.machine.bell(),
            deaf: self.deaf.clone(),
        })
    }
    fn start(
        &self,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        self.machine.start(name, body)
    }
}

struct Muffled {
    bell: Arc<dyn Bell>,
    deaf: Arc<AtomicBool>,
}

impl Bell for Muffled {
    fn ring(&self) {
        if !self.deaf.load(Ordering::SeqCst) {
            self.bell.ring();
        }
    }
    fn wait(&self, _: Option<Duration>) {
        self.bell.wait(None);
    }
}

/// Counts what arrives.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Inbox for Counting {
    fn deliver(&self, _: Rank, _: Arrival) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    /// At work for ever: the helper has no reason to look.
    fn pulse(&self) -> Pulse {
        Pulse::default()
    }
    fn stop(&self, failure: Failure) {
        panic!("{failure:?}");
    }
    fn stall(&self) {
        panic!("nothing stalls");
    }
}

fn parcel() -> Parcel {
    Parcel {
        to: Rank(1),
        task: smallvec![7],
        poisoned: false,
        priority: 0,
        flows: smallvec![],
    }
}

/// Far beyond any pause of a busy machine.
const LOST: Duration = Duration::from_secs(30);

/// One worker of rank 0 posts a parcel at the moment in which another looks for messages, again
/// and again, while rank 1 does look; whether all have come.
fn post_and_poll([here, there]: [&dyn Line; 2], came: &Counting, rounds: u64) -> bool {
    let (round, lost) = (AtomicU64::new(0), AtomicBool::new(false));
    let begins = |now| {
        let mut looks = 0;
        while round.load(Ordering::SeqCst) < now && !lost.load(Ordering::SeqCst) {
            spin_loop();
            looks += 1;
            if looks > 1000 {
                thread::yield_now(); // on a busy machine the other may need this core
            }
        }
        !lost.load(Ordering::SeqCst)
    };
    let poster = || {
        for now in (0..rounds).take_while(|&now| begins(now)) {
            // Ever later, and again.
            (0..now % 128).for_each(|_| spin_loop());
            here.post(parcel());
        }
    };
    let came_by = |now| {
        let since = Instant::now();
        while came.0.load(Ordering::SeqCst) <= now && since.elapsed() < LOST {
            there.poll();
            thread::yield_now();
        }
        came.0.load(Ordering::SeqCst) > now
    };
    thread::scope(|threads| {
        threads.spawn(poster);
        for now in (0..rounds).take_while(|&now| begins(now)) {
            here.poll();
            lost.store(!came_by(now), Ordering::SeqCst);
            round.store(now + 1, Ordering::SeqCst);
        }
    });
    !lost.into_inner()
}

/// Does something on both ranks at once, and returns what each said.
fn on_both<A: Send, R: Send>(ranks: [A; 2], what: impl Fn(A) -> R + Sync) -> [R; 2] {
    thread::scope(|threads| {
        let started = ranks.map(|rank| threads.spawn(|| what(rank)));
        started.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn no_parcel_is_left_lying_when_another_worker_moves_messages() {
    let deaf = Arc::new(AtomicBool::new(false));
    let messenger = |transport| {
        let settings = Settings {
            drive: Drive::Workers,
            ..Settings::default()
        };
        let host = Arc::new(Undisturbed {
            machine: Machine::new(),
            deaf: deaf.clone(),
        });
        Messenger::new(Box::new(transport), settings, host, Arc::new(Heap)).unwrap()
    };
    let ends: [local::Local; 2] = local::connect(2).try_into().ok().unwrap();
    let messengers = ends.map(messenger);
    let came = Arc::new(Counting::default());
    let open = |messenger: &Messenger| messenger.open(&Terms::default(), came.clone()).unwrap();
    let lines = on_both([&messengers[0], &messengers[1]], open);
    let both = [&*lines[0], &*lines[1]];
    // What opening has sent is acknowledged before the first round ends.
    assert!(post_and_poll(both, &came, 1));
    came.0.store(0, Ordering::SeqCst);
    deaf.store(true, Ordering::SeqCst);
    let all_came = post_and_poll(both, &came, 20_000);
    deaf.store(false, Ordering::SeqCst);
    let closed = on_both(lines, |line| line.close(None).unwrap());
    assert!(all_came, "a parcel is left lying: {came:?}");
    assert_eq!(closed, [None, None]);
}
