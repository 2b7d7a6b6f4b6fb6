//! Connection: the way to one rank, as far as there is one.

use super::LIMITS;
use super::incoming::Incoming;
use super::mesh::MeshCall;
use super::outgoing::Outgoing;
use super::watch::Watch;
use crate::transport::Event;
use dataflow_core::rank::Rank;
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::time::Duration;

/// How often it is said that part of something has come.
const PULSE: Duration = Duration::from_millis(20);

/// What another rank is to this one.
pub(super) enum Peer {
    /// Nothing was said yet; also this rank itself.
    Absent,
    /// There is a connection, or there will be.
    Known(Box<Connection>),
    /// There was a connection, or there cannot be.
    Lost,
}

/// The way to one rank.
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// Why nothing can be written any more; what can be read still is.
    pub(super) deaf: Option<io::Error>,
    /// Whether data wait for their room.
    pub(super) waits: bool,
    /// When it was heard of last.
    pub(super) heard: Duration,
    /// When it was last said that part of something has come.
    told: Duration,
}

/// How far it is.
pub(super) enum Link {
    /// It was told to call, and has until then.
    Awaited { until: Duration },
    /// It is called.
    Called(Box<MeshCall>),
    /// It stands.
    Open(TcpStream),
}

impl Connection {
    pub(super) fn new(rank: Rank, link: Link, now: Duration) -> Box<Self> {
        Box::new(Connection {
            link,
            incoming: Incoming::new(rank, LIMITS.message_bytes),
            outgoing: Outgoing::new(rank),
            deaf: None,
            waits: false,
            heard: now,
            told: Duration::ZERO,
        })
    }

    /// What to say of bytes that have come and are nothing whole yet, not too often.
    pub(super) fn part(&mut self, number: usize, now: Duration) -> Option<Event> {
        if now.saturating_sub(self.told) < PULSE {
            return None;
        }
        let (from, bytes) = (Rank(number as u32), self.incoming.take_came());
        self.told = now;
        (bytes > 0).then_some(Event::Part { from, bytes })
    }

    pub(super) fn write(&mut self, watch: &Watch, number: usize, events: &mut VecDeque<Event>) {
        let Link::Open(socket) = &mut self.link else {
            return;
        };
        if self.deaf.is_some() {
            return;
        }
        if let Err(fault) = self.outgoing.write(socket, events) {
            self.outgoing = Outgoing::new(Rank(number as u32));
            // The end of the connection, behind what the rank said before.
            socket.shutdown(Shutdown::Both).ok();
            self.deaf = Some(fault);
            self.waits = false;
            self.incoming.ends();
            watch.note(number);
        }
    }
}

/// Bytes that the system may hold of a connection beyond those that are on their way. A socket takes
/// megabytes at once, and what comes later, however short and urgent, waits behind them: at
/// 300 Mbit/s a datum took 23 ms from its task to the next that needed 1.4 ms on the wire.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 128 << 10;

/// Packets overtake data in [`Outgoing`] only, so data stay there as long as the wire is busy.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn keep_little_unsent(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_notsent_lowat(UNSENT).ok(); // otherwise packets are late
}

/// Elsewhere no library can say so.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn keep_little_unsent(_: &TcpStream) {}
