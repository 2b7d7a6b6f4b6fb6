//! A parcel that is handed in while another worker moves messages is not left lying.
//!
//! A worker that finds the lock of the messages taken goes away; whoever holds it must look once
//! more before it goes too. Others would look soon in any case: the helper when something arrives
//! or becomes due. Here it does not, so a parcel that is left lying lies there for good.

use dataflow_core::port::{Arrival, Courier, Failure, Heap, Inbox, Line, Parcel, Pulse, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::local::{self, Local};
use dataflow_mpi::transport::{Event, MessageLimits, Payload, Room, Transport};
use dataflow_mpi::{Bell, Drive, Host, Machine, Messenger, Settings, Thread};
use smallvec::smallvec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The machine, but nobody looks by chance: its time stands still, and while it is deaf whoever
/// waits does so until that has passed.
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
    fn is_virtual(&self) -> bool {
        true
    }
}

struct Muffled {
    bell: Arc<dyn Bell>,
    deaf: Arc<AtomicBool>,
}

impl Bell for Muffled {
    fn ring(&self) {
        self.bell.ring();
    }
    fn wait(&self, at_most: Option<Duration>) {
        if !self.deaf.load(Ordering::SeqCst) {
            return self.bell.wait(at_most);
        }
        while self.deaf.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
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
        to: smallvec![Rank(1)],
        task: smallvec![7],
        poisoned: false,
        priority: 0,
        flows: smallvec![],
    }
}

/// What happens when nothing more has arrived, while the lock of the messages is held.
type Interrupt = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A transport that is interrupted, when whoever moves messages is about to find nothing to do.
struct Interrupted {
    inner: Local,
    by: Interrupt,
    /// Whether nothing had arrived the last time either.
    idle: bool,
}

impl Transport for Interrupted {
    fn rank(&self) -> Rank {
        self.inner.rank()
    }
    fn n_ranks(&self) -> usize {
        self.inner.n_ranks()
    }
    fn limits(&self) -> MessageLimits {
        self.inner.limits()
    }
    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        self.inner.send(to, packet);
    }
    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        self.inner.send_data(to, tag, payload);
    }
    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        self.inner.receive(from, tag, room);
    }
    fn awaits(&mut self, to: Rank) -> bool {
        self.inner.awaits(to)
    }
    fn poll(&mut self) -> Option<Event> {
        let event = self.inner.poll();
        let was_idle = std::mem::replace(&mut self.idle, event.is_none());
        if was_idle
            && event.is_none()
            && let Some(interrupt) = self.by.lock().unwrap().take()
        {
            interrupt();
        }
        event
    }
    fn bell(&mut self, host: &dyn Host) -> Option<Arc<dyn Bell>> {
        self.inner.bell(host)
    }
}

/// Far beyond any pause of a busy machine.
const LOST: Duration = Duration::from_secs(10);

/// Rank 1 looks until so many parcels have come.
fn all_come(there: &dyn Line, came: &Counting, n: u64) -> bool {
    let since = Instant::now();
    while came.0.load(Ordering::SeqCst) < n && since.elapsed() < LOST {
        there.poll();
        thread::yield_now();
    }
    came.0.load(Ordering::SeqCst) == n
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
    let (deaf, interrupt) = (Arc::new(AtomicBool::new(false)), Interrupt::default());
    let messenger = |inner: Local| {
        let is_first = inner.rank() == Rank(0);
        let by = if is_first {
            interrupt.clone()
        } else {
            Interrupt::default()
        };
        let settings = Settings {
            drive: Drive::Workers,
            hold: Duration::ZERO,
            ..Settings::default()
        };
        let host = Arc::new(Undisturbed {
            machine: Machine::new(),
            deaf: deaf.clone(),
        });
        let transport = Box::new(Interrupted {
            inner,
            by,
            idle: false,
        });
        Messenger::new(transport, settings, host, Arc::new(Heap)).unwrap()
    };
    let ends: [Local; 2] = local::connect(2).try_into().ok().unwrap();
    let messengers = ends.map(messenger);
    let came = Arc::new(Counting::default());
    let open = |messenger: &Messenger| -> Arc<dyn Line> {
        let line = messenger.open(&Terms::default(), came.clone());
        line.unwrap().into()
    };
    let [here, there] = on_both([&messengers[0], &messengers[1]], open);
    // What opening has sent is acknowledged by then.
    here.post(parcel());
    assert!(all_come(&*there, &came, 1));
    deaf.store(true, Ordering::SeqCst);
    let mut left_lying = Vec::new();
    for n in 2..12 {
        let poster = here.clone();
        let post = move || thread::spawn(move || poster.post(parcel())).join().unwrap();
        *interrupt.lock().unwrap() = Some(Box::new(post));
        while interrupt.lock().unwrap().is_some() {
            here.poll();
        }
        if !all_come(&*there, &came, n) {
            left_lying.push(n);
            break;
        }
    }
    deaf.store(false, Ordering::SeqCst);
    let closed = on_both([here, there], |line| line.close(None).unwrap());
    assert!(left_lying.is_empty(), "parcel {left_lying:?} is left lying");
    assert_eq!(closed, [None, None]);
}
