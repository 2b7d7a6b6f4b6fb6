//! A bad network between two sockets of one machine: a relay with a rate, a delay and a cut.
//!
//! Whoever connects to [`Relay::address`] is led to another address; each way has the rate and the
//! delay that were asked for, shared by all connections. While it is cut nothing goes through, and
//! neither end hears of it, as of a cable that was pulled out. What crosses can be recorded.
//!
//! A job of two ranks runs over it when rank 1 is given the relay's address as rank 0's.

#![allow(dead_code)] // each test uses its part

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What is read at once, at most; at a low rate what passes in twenty milliseconds.
const PIECE: u64 = 16 << 10;

/// How many pieces are under way, at most, in each way of a connection.
const UNDER_WAY: usize = 64;

/// How often whoever waits looks whether he still must.
const LOOK: Duration = Duration::from_millis(2);

/// A relay that listens on the loopback interface; its connections end when it is dropped.
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Bytes a second in each way; 0 is as fast as it goes.
    rate: AtomicU64,
    /// Microseconds one way.
    delay: AtomicU64,
    cut: AtomicBool,
    ended: AtomicBool,
    /// What crossed, there and back.
    records: [Mutex<Option<Vec<u8>>>; 2],
    /// Until when each way is busy.
    busy: [Mutex<Option<Instant>>; 2],
}

impl Relay {
    /// A relay to that address, as fast as it goes.
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let led = state.clone();
        thread::spawn(move || {
            for guest in listener.incoming().map_while(Result::ok) {
                if led.ended() {
                    return;
                }
                // Whoever comes before the target listens is sent away, as by the target itself.
                if let Ok(host) = TcpStream::connect(target) {
                    join(&guest, &host, 0, &led);
                    join(&host, &guest, 1, &led);
                }
            }
        });
        Relay { address, state }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// So many bits a second in each way, from now on.
    pub fn with_rate(self, bits: f64) -> Self {
        let bytes = (bits / 8.0) as u64;
        self.state.rate.store(bytes.max(1), Ordering::SeqCst);
        self
    }

    /// So long one way, from now on.
    pub fn with_delay(self, delay: Duration) -> Self {
        let micros = delay.as_micros() as u64;
        self.state.delay.store(micros, Ordering::SeqCst);
        self
    }

    /// Records what crosses, from now on.
    pub fn recording(self) -> Self {
        for record in &self.state.records {
            *record.lock().unwrap() = Some(Vec::new());
        }
        self
    }

    /// Nothing goes through any more, and nobody hears of it.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
    }

    /// All goes through again.
    pub fn mend(&self) {
        self.state.cut.store(false, Ordering::SeqCst);
    }

    /// What has crossed, to the target and back.
    pub fn recorded(&self) -> [Vec<u8>; 2] {
        let record = |record: &Mutex<Option<Vec<u8>>>| record.lock().unwrap().clone();
        let [there, back] = &self.state.records;
        [there, back].map(|way| record(way).unwrap_or_default())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        TcpStream::connect(self.address).ok(); // so that the listener looks
    }
}

impl State {
    fn ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// How many bytes to read at once.
    fn piece(&self) -> usize {
        match self.rate.load(Ordering::SeqCst) {
            0 => PIECE as usize,
            rate => (rate / 50).clamp(1, PIECE) as usize,
        }
    }

    /// When so many bytes, here now, come out at the other end.
    fn due(&self, way: usize, bytes: usize) -> Instant {
        let now = Instant::now();
        let mut busy = self.busy[way].lock().unwrap();
        let takes = match self.rate.load(Ordering::SeqCst) {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(bytes as f64 / rate as f64),
        };
        let left = busy.map_or(now, |busy| busy.max(now)) + takes;
        *busy = Some(left);
        left + Duration::from_micros(self.delay.load(Ordering::SeqCst))
    }

    /// Waits until then, and until nothing is cut.
    fn wait(&self, until: Instant) {
        thread::sleep(until.saturating_duration_since(Instant::now()));
        while self.cut.load(Ordering::SeqCst) && !self.ended() {
            thread::sleep(LOOK);
        }
    }
}

/// One way of a connection.
fn join(from: &TcpStream, to: &TcpStream, way: usize, state: &Arc<State>) {
    let (mut from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    from.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    to.set_nodelay(true).unwrap();
    let (sender, receiver) = sync_channel(UNDER_WAY);
    let (reads, writes) = (state.clone(), state.clone());
    thread::spawn(move || deliver(to, &receiver, &writes));
    thread::spawn(move || {
        let mut piece = vec![0; PIECE as usize];
        while !reads.ended() {
            let got = match from.read(&mut piece[..reads.piece()]) {
                Err(fault) if fault.kind() == std::io::ErrorKind::WouldBlock => continue,
                got => got.unwrap_or(0),
            };
            if let Some(record) = &mut *reads.records[way].lock().unwrap() {
                record.extend_from_slice(&piece[..got]);
            }
            let due = reads.due(way, got);
            // An empty piece is the end.
            if sender.send((due, piece[..got].to_vec())).is_err() || got == 0 {
                return;
            }
        }
    });
}

/// Hands on what comes, each piece when it is due.
fn deliver(mut to: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>, state: &State) {
    for (due, piece) in pieces {
        state.wait(due);
        if state.ended() || piece.is_empty() || to.write_all(&piece).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Write).ok(); // it may have ended
}
