//! Watch: which sockets have something, and the bell of the thread that sleeps until one has.
//!
//! The sleeper waits in the operating system itself, so nobody stands between a message and the
//! thread that waits for it, and none is woken while the receiver looks by itself.
//!
//! # Law
//! A socket is said to have something once for each time that something comes; the thread that hears it
//! reads until nothing is left, or the end of one that ends. While somebody sleeps, only it is told, and leaves a note for others.

use crate::bell::{Bell, Flags};
use crate::sync::{AtomicU8, Mutex, Ordering, lock, try_lock};
use mio::event::Source;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// There may be bytes to read.
const READ: u8 = 1;
/// Bytes may be written.
const WRITE: u8 = 2;
/// Reading has ended, or will when all is read. Noted beside [`READ`] only, and taken with it.
const ENDS: u8 = 4;

/// What a socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// Perhaps bytes: it is told of what comes behind them.
    Bytes,
    /// Perhaps bytes, and behind them its end, of which nobody is told again.
    ToItsEnd,
}

/// Watches the sockets to other ranks, and the door.
pub struct Watch {
    look: Mutex<Poller>,
    registry: Registry,
    waker: Waker,
    /// What was heard of each socket and not used yet.
    notes: Box<[AtomicU8]>,
    flags: Flags,
}

struct Poller {
    poll: Poll,
    events: Events,
}

const WOKEN: Token = Token(usize::MAX);

impl Watch {
    /// Over no sockets yet; they will have numbers below `n`.
    pub fn new(n: usize) -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, WOKEN)?;
        let events = Events::with_capacity(64);
        Ok(Watch {
            look: Mutex::new(Poller { poll, events }),
            registry,
            waker,
            notes: (0..n).map(|_| AtomicU8::new(0)).collect(),
            flags: Flags::default(),
        })
    }

    /// Watches a socket too; several may have one number.
    pub fn add(&self, number: usize, socket: &mut impl Source) -> io::Result<()> {
        self.registry
            .register(socket, Token(number), Self::INTEREST)?;
        self.note_all(number);
        Ok(())
    }

    /// A socket that is watched has another number from now on.
    pub fn renumber(&self, number: usize, socket: &mut impl Source) -> io::Result<()> {
        self.registry
            .reregister(socket, Token(number), Self::INTEREST)?;
        self.note_all(number);
        Ok(())
    }

    /// Watches a socket no more.
    pub fn remove(&self, socket: &mut impl Source) {
        self.registry.deregister(socket).ok(); // it is closed next
    }

    const INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);

    /// What came before it was watched is not told of, nor an end: it is looked at once. All there is to
    /// note, so nothing that is noted meanwhile is lost.
    fn note_all(&self, number: usize) {
        self.notes[number].store(READ | WRITE | ENDS, Ordering::Relaxed);
    }

    /// Looks which sockets have something; while somebody sleeps, he does.
    pub fn look(&self) {
        if let Some(mut look) = try_lock(&self.look) {
            self.listen(&mut look, Some(Duration::ZERO));
        }
    }

    fn listen(&self, look: &mut Poller, at_most: Option<Duration>) {
        if let Err(fault) = look.poll.poll(&mut look.events, at_most) {
            // Only a mistake of ours makes waiting fail otherwise.
            assert_eq!(fault.kind(), ErrorKind::Interrupted, "{fault}");
            return;
        }
        for event in look.events.iter().filter(|event| event.token() != WOKEN) {
            let mut note = READ | WRITE;
            if event.is_read_closed() || event.is_error() {
                note |= ENDS;
            }
            // Release: pairs with the acquire in `take`.
            self.notes[event.token().0].fetch_or(note, Ordering::Release);
        }
    }

    /// Whether a socket may be read; it must be until it is empty, or be [noted](Self::note) again. The caller that
    /// notes it remembers whether it ends.
    pub fn take_readable(&self, number: usize) -> Option<Readable> {
        let note = &self.notes[number];
        if note.load(Ordering::Relaxed) & READ == 0 {
            return None;
        }
        let taken = note.fetch_and(!(READ | ENDS), Ordering::Acquire);
        Some(match taken & ENDS {
            0 => Readable::Bytes,
            _ => Readable::ToItsEnd,
        })
    }

    /// Whether a socket that took nothing may take something now.
    pub fn take_writable(&self, number: usize) -> bool {
        let note = &self.notes[number];
        note.load(Ordering::Relaxed) & WRITE != 0
            && note.fetch_and(!WRITE, Ordering::Acquire) & WRITE != 0
    }

    /// There is more to read from a socket.
    pub fn note(&self, number: usize) {
        self.notes[number].fetch_or(READ, Ordering::Release);
    }

    /// Nothing more is wanted of a socket.
    pub fn forget(&self, number: usize) {
        self.notes[number].store(0, Ordering::Relaxed);
    }

    /// Whether it was rung, or a socket has something that was not used.
    fn has_reason(&self) -> bool {
        let has_bytes = |note: &AtomicU8| note.load(Ordering::Relaxed) & READ != 0;
        self.flags.take() || self.notes.iter().any(has_bytes)
    }
}

impl Bell for Watch {
    fn ring(&self) {
        if self.flags.ring() {
            // It fails only when the machine has no memory for eight bytes.
            self.waker.wake().unwrap_or_else(|fault| panic!("{fault}"));
        }
    }

    /// Ends early when a socket has something.
    fn wait(&self, at_most: Option<Duration>) {
        let mut look = lock(&self.look);
        self.flags.fall_asleep();
        if !self.has_reason() {
            self.listen(&mut look, at_most);
            self.flags.take();
        }
        self.flags.get_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::net::TcpStream;
    use std::io::Write;
    use std::net::{self, Shutdown, TcpListener};

    fn pair() -> (TcpStream, net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (here, _) = listener.accept().unwrap();
        here.set_nonblocking(true).unwrap();
        (TcpStream::from_std(here), there)
    }

    /// A thread that read the bytes and then slept was not woken by the end; and the door, where strangers had
    /// ended, was looked at again and again.
    #[test]
    fn an_end_that_is_told_together_with_the_last_bytes_is_heard_once_and_with_them() {
        let (mut here, mut there) = pair();
        let watch = Watch::new(1).unwrap();
        watch.add(0, &mut here).unwrap();
        watch.take_readable(0);
        there.write_all(b"the last words").unwrap();
        there.shutdown(Shutdown::Write).unwrap();
        while watch.notes[0].load(Ordering::Relaxed) & ENDS == 0 {
            watch.look();
        }
        assert!(watch.has_reason());
        assert_eq!(watch.take_readable(0), Some(Readable::ToItsEnd));
        assert_eq!(watch.take_readable(0), None);
        assert!(!watch.has_reason());
        watch.note(0);
        assert_eq!(watch.take_readable(0), Some(Readable::Bytes));
    }

    #[test]
    fn a_ring_keeps_the_next_sleeper_awake_once() {
        let watch = Watch::new(1).unwrap();
        watch.ring();
        assert!(watch.has_reason() && !watch.has_reason());
    }

    #[test]
    fn a_socket_that_gets_another_number_is_read_there_to_the_end_it_may_have_come_to() {
        let (mut here, _there) = pair();
        let watch = Watch::new(2).unwrap();
        watch.add(1, &mut here).unwrap();
        watch.renumber(0, &mut here).unwrap();
        assert_eq!(watch.take_readable(0), Some(Readable::ToItsEnd));
        assert!(watch.take_writable(0));
    }
}
