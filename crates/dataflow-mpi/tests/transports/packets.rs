//! Over sockets a packet leaves at once, so what makes a batch is when workers look: one whose tasks
//! are short sends a packet in a while, one whose tasks are long at once. Whoever has nothing to run looks
//! for as long as it has had to wait before.

use dataflow_core::port::{Arrival, Courier, Failure, Heap, Inbox, Line, Parcel, Pulse, Terms};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::tcp::{Mesh, Tcp, Token};
use dataflow_mpi::{Bell, Drive, Host, Machine, Messenger, Settings, Thread, Turn};
use smallvec::smallvec;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// The machine, whose time stands still unless the test lets it pass, and whose helpers act only while a
/// run opens or closes: one that is awake in between sees how much of that time passes at once, and sends
/// what is held back.
struct Stopped {
    machine: Arc<Machine>,
    has_helpers: Arc<RwLock<bool>>,
    micros: AtomicU64,
    /// Whether workers that wait look for no time at all.
    is_virtual: bool,
}

impl Stopped {
    fn pass(&self, micros: u64) {
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// Helpers act from now on, or none is in a turn any more.
    fn has_helpers(&self, whether: bool) {
        *self.has_helpers.write().unwrap() = whether;
    }
}

impl Host for Stopped {
    fn now(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }
    fn bell(&self) -> Arc<dyn Bell> {
        self.machine.bell()
    }
    fn start(
        &self,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        self.machine.start(name, body)
    }
    fn start_turns(
        &self,
        name: String,
        mut body: Box<dyn FnMut() -> Turn + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        let (has_helpers, bell) = (self.has_helpers.clone(), self.bell());
        let turn = move || match *has_helpers.read().unwrap() {
            true => body(),
            false => Turn::Rests(bell.clone(), Some(Duration::from_millis(1))),
        };
        self.machine.start_turns(name, Box::new(turn))
    }
    fn is_virtual(&self) -> bool {
        self.is_virtual
    }
}

/// Counts what arrives; at work until the end.
#[derive(Default)]
struct Counting {
    came: AtomicU64,
    has_ended: AtomicBool,
}

impl Inbox for Counting {
    fn deliver(&self, _: Rank, _: Arrival) {
        self.came.fetch_add(1, Ordering::SeqCst);
    }
    fn pulse(&self) -> Pulse {
        Pulse {
            idle: self.has_ended.load(Ordering::SeqCst),
            ..Pulse::default()
        }
    }
    fn stop(&self, failure: Failure) {
        panic!("{failure:?}");
    }
    fn stall(&self) {
        panic!("nothing stalls");
    }
}

fn connect() -> [Tcp; 2] {
    let token = Token::random().unwrap();
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (first, second) = (listen(), listen());
    let root = first.local_addr().unwrap();
    thread::scope(|ranks| {
        let other = ranks.spawn(|| Mesh::new(Rank(1), 2, token).join(&[root], second));
        let first = Mesh::new(Rank(0), 2, token).lead(first, &mut || None);
        [first.unwrap(), other.join().unwrap().unwrap()]
    })
}

/// A task without data for that rank.
fn word_for(rank: u32) -> Parcel {
    Parcel {
        to: smallvec![Rank(rank)],
        task: smallvec![7],
        poisoned: false,
        priority: 0,
        flows: smallvec![],
    }
}

/// Two ranks in a run.
struct Pair {
    host: Arc<Stopped>,
    messenger: Messenger,
    here: Box<dyn Line>,
    there: Box<dyn Line>,
    /// What has come here, and there.
    came: [Arc<Counting>; 2],
    _other: Messenger,
}

impl Pair {
    fn new() -> Self {
        Self::on(true)
    }

    fn on(is_virtual: bool) -> Self {
        let host = Arc::new(Stopped {
            machine: Machine::new(),
            has_helpers: Arc::new(RwLock::new(true)),
            micros: AtomicU64::new(1_000_000),
            is_virtual,
        });
        let settings = Settings {
            drive: Drive::Workers,
            ..Settings::default()
        };
        let [messenger, other] = connect().map(|tcp| {
            let host: Arc<dyn Host> = host.clone();
            Messenger::new(Box::new(tcp), settings.clone(), host, Arc::new(Heap)).unwrap()
        });
        let came = [Arc::new(Counting::default()), Arc::default()];
        let open = |messenger: &Messenger, at: usize| {
            let inbox = came[at].clone();
            messenger.open(&Terms::default(), inbox).unwrap()
        };
        let (here, there) = thread::scope(|ranks| {
            let there = ranks.spawn(|| open(&other, 1));
            (open(&messenger, 0), there.join().unwrap())
        });
        host.has_helpers(false);
        here.poll();
        host.pass(1_000);
        Pair {
            host,
            messenger,
            here,
            there,
            came,
            _other: other,
        }
    }

    fn post(&self) {
        self.here.post(word_for(1));
    }

    /// The other rank posts; whether this one then has `n` in all.
    fn hear(&self, n: u64) -> bool {
        self.there.post(word_for(0));
        self.there.poll();
        self.there.lingers(false, &mut None);
        Self::come(&self.came[0], n, &*self.here)
    }

    fn packets(&self) -> u64 {
        self.messenger.counters().packets
    }

    /// Whether so many have come there, in ten seconds.
    fn all_come(&self, n: u64) -> bool {
        Self::come(&self.came[1], n, &*self.there)
    }

    fn come(inbox: &Counting, n: u64, line: &dyn Line) -> bool {
        let since = Instant::now();
        while inbox.came.load(Ordering::SeqCst) < n && since.elapsed().as_secs() < 10 {
            line.poll();
            thread::yield_now();
        }
        inbox.came.load(Ordering::SeqCst) == n
    }

    /// Ends the run; before that nothing is asserted, for a line that is dropped waits for the other.
    fn close(self) {
        for inbox in &self.came {
            inbox.has_ended.store(true, Ordering::SeqCst);
        }
        self.host.has_helpers(true);
        thread::scope(|ranks| {
            let there = ranks.spawn(|| self.there.close(None).unwrap());
            assert_eq!(self.here.close(None).unwrap(), None);
            assert_eq!(there.join().unwrap(), None);
        });
    }
}

/// Each went alone: 39,137 packets for 39,424 activations, and four times the processor time.
#[test]
fn what_short_tasks_post_leaves_together_when_nothing_is_left_to_run() {
    let pair = Pair::new();
    let before = pair.packets();
    for _ in 0..100 {
        pair.here.poll();
        pair.post();
    }
    pair.here.poll();
    let first = pair.packets() - before;
    pair.here.lingers(false, &mut None);
    let all = pair.packets() - before;
    let have_come = pair.all_come(100);
    pair.close();
    assert_eq!((first, all), (1, 2), "the first alone, the others together");
    assert!(have_come);
}

#[test]
fn what_is_held_back_leaves_when_a_while_has_passed_or_a_packet_is_full() {
    let pair = Pair::new();
    let before = pair.packets();
    let micros = Settings::default().hold.as_micros() as u64;
    let mut in_a_while = Vec::new();
    for _ in 0..5 {
        for _ in 0..10 {
            pair.here.poll();
            pair.post();
        }
        pair.host.pass(micros);
        pair.here.poll();
        in_a_while.push(pair.packets() - before);
    }
    for _ in 0..2_000 {
        pair.here.poll();
        pair.post();
    }
    let full = pair.packets() - before - in_a_while[4];
    pair.here.lingers(false, &mut None);
    let have_come = pair.all_come(2_050);
    pair.close();
    assert_eq!(in_a_while, [2, 3, 4, 5, 6], "one in a while");
    assert!((2..20).contains(&full), "{full} full packets");
    assert!(have_come);
}

#[test]
fn what_a_long_task_posts_leaves_at_once() {
    let pair = Pair::new();
    let before = pair.packets();
    let mut left = Vec::new();
    for _ in 0..20 {
        pair.here.poll();
        pair.host.pass(1_000);
        pair.post();
        left.push(pair.packets() - before);
    }
    let have_come = pair.all_come(20);
    pair.close();
    assert!(
        left.iter().copied().eq(1..=20),
        "nobody has looked since: {left:?}"
    );
    assert!(have_come);
}

/// A stencil of short tasks exchanges data in each step: held back for 50 µs, they were what the other
/// waited for.
#[test]
fn what_follows_data_of_the_other_rank_leaves_at_once() {
    let pair = Pair::new();
    let before = pair.packets();
    let mut left = Vec::new();
    for step in 1..=5 {
        let heard = pair.hear(step);
        let so_far = pair.packets();
        pair.post();
        pair.here.poll();
        left.push((heard, pair.packets() - so_far));
    }
    pair.post();
    pair.here.poll();
    let held = pair.packets() - before;
    pair.here.lingers(false, &mut None);
    let have_come = pair.all_come(6);
    pair.close();
    assert_eq!(left, [(true, 1); 5]);
    assert_eq!(held, 5, "nothing had come since");
    assert!(have_come);
}

#[test]
fn whoever_waits_looks_for_as_long_as_it_has_had_to_wait_before() {
    let pair = Pair::on(false);
    // How long it goes on looking, in steps of 25 µs.
    let looks = || {
        let mut since = None;
        let steps = (0..400).take_while(|_| {
            pair.here.poll();
            let lingers = pair.here.lingers(false, &mut since);
            pair.host.pass(25);
            lingers
        });
        25 * steps.count()
    };
    let at_first = looks();
    let mut n = 0;
    let mut after_waits_of = |micros| {
        let all_heard = (0..9).all(|_| {
            pair.here.poll();
            pair.here.lingers(false, &mut None);
            pair.host.pass(micros);
            n += 1;
            pair.hear(n)
        });
        (all_heard, looks())
    };
    let (short, long) = (after_waits_of(300), after_waits_of(30_000));
    pair.close();
    assert_eq!(at_first, 50, "`Settings::spin`");
    assert!(short.0 && (550..=625).contains(&short.1), "{short:?}");
    assert_eq!(long, (true, 50), "sleeping costs less than looking");
}
