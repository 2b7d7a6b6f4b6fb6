//! Ranks as processes, a connection between each two: no MPI needed.
//!
//! Processes find each other by [`Mesh`], which leads to one [`Tcp`] each. Data go from where they
//! lie through the socket into the room made for them. Whoever waits for messages sleeps in the
//! operating system on all sockets at once; no thread stands between.
//!
//! # Law
//! A connection that ends is a rank that is lost: nothing is connected anew. What a rank has sent
//! before is read first, so that its last words are heard.
//!
//! # Elsewhere
//! Bytes on the wire: `frame`. How processes find each other, and who is refused: `mesh`.

mod frame;
mod incoming;
mod mesh;
mod outgoing;
mod token;
mod watch;

pub use mesh::{Interrupt, Mesh};
pub use token::Token;

use super::{Event, Limits, Payload, Room, Transport};
use crate::host::{Bell, Host};
use dataflow_core::rank::Rank;
use incoming::{Incoming, Stopped};
use mio::net::TcpStream;
use outgoing::Outgoing;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use watch::Watch;

/// Data go in parts, so a datum of any size would do; but what is asked for at once must arrive in
/// time on a slow network too.
const LIMITS: Limits = Limits {
    message_bytes: 64 << 20,
    largest_tag: u32::MAX,
    in_order: true,
};

/// How long a rank that leaves waits until the others have left too, so that they get its last words.
const LINGER: Duration = Duration::from_millis(200);

/// One rank's connections to the others.
pub struct Tcp {
    rank: Rank,
    /// By rank; none to itself.
    peers: Box<[Option<Peer>]>,
    watch: Arc<Watch>,
    events: VecDeque<Event>,
    host: Arc<dyn Host>,
}

struct Peer {
    socket: TcpStream,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Why nothing can be written any more; what can be read still is.
    deaf: Option<io::Error>,
    /// Whether data wait for their room.
    waits: bool,
}

impl Tcp {
    /// Over connections by rank, all others' there.
    fn over(
        rank: Rank,
        sockets: Vec<Option<std::net::TcpStream>>,
        host: Arc<dyn Host>,
    ) -> io::Result<Self> {
        let peers = sockets.into_iter().zip((0u32..).map(Rank));
        let peer = |(socket, rank): (Option<std::net::TcpStream>, Rank)| {
            let Some(socket) = socket else {
                return Ok(None);
            };
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            Ok(Some(Peer {
                socket: TcpStream::from_std(socket),
                incoming: Incoming::new(rank, LIMITS.message_bytes),
                outgoing: Outgoing::new(rank),
                deaf: None,
                waits: false,
            }))
        };
        let mut peers = peers.map(peer).collect::<io::Result<Box<[_]>>>()?;
        let n_ranks = peers.len();
        let sockets = peers.iter_mut().enumerate();
        let sockets =
            sockets.filter_map(|(number, peer)| Some((number, &mut peer.as_mut()?.socket)));
        let watch = Arc::new(Watch::new(n_ranks, sockets)?);
        Ok(Tcp {
            rank,
            peers,
            watch,
            events: VecDeque::new(),
            host,
        })
    }

    fn peer(&mut self, rank: Rank) -> Option<&mut Peer> {
        self.peers.get_mut(rank.0 as usize)?.as_mut()
    }

    /// Reads from those that have something, writes to those that take something again.
    fn visit(&mut self) {
        for number in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[number] else {
                continue;
            };
            if self.watch.take_writable(number) {
                peer.write(&self.watch, number, &mut self.events);
            }
            // Taken also if nothing is read before there is room: it would keep a sleeper awake.
            if !self.watch.take_readable(number) || peer.waits {
                continue;
            }
            match peer.incoming.read(&mut peer.socket, &mut self.events) {
                Ok(Stopped::Empty) => {}
                Ok(Stopped::OthersTurn) => self.watch.note(number),
                Ok(Stopped::NoRoom) if peer.deaf.is_none() => peer.waits = true,
                Ok(Stopped::NoRoom) => self.lose(number, "its data have no room".into()),
                Err(reason) => self.lose(number, reason),
            }
        }
    }

    fn lose(&mut self, number: usize, mut reason: String) {
        if let Some(fault) = self.peers[number].take().and_then(|peer| peer.deaf) {
            reason = format!("{reason} (writing to it failed: {fault})");
        }
        self.watch.forget(number);
        self.events
            .push_back(Event::Lost(Rank(number as u32), reason));
    }
}

impl Peer {
    fn write(&mut self, watch: &Watch, number: usize, events: &mut VecDeque<Event>) {
        if self.deaf.is_some() {
            return;
        }
        if let Err(fault) = self.outgoing.write(&mut self.socket, events) {
            self.outgoing = Outgoing::new(Rank(number as u32));
            // The end of the connection, behind what the rank said before.
            self.socket.shutdown(Shutdown::Both).ok();
            self.deaf = Some(fault);
            self.waits = false;
            watch.note(number);
        }
    }
}

impl Transport for Tcp {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.peers.len()
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        debug_assert!(packet.len() <= LIMITS.message_bytes);
        let (watch, number) = (self.watch.clone(), to.0 as usize);
        if let Some(peer) = self.peers.get_mut(number).and_then(Option::as_mut) {
            peer.outgoing.send(packet);
            peer.write(&watch, number, &mut self.events);
        }
    }

    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        let (watch, number) = (self.watch.clone(), to.0 as usize);
        if let Some(peer) = self.peers.get_mut(number).and_then(Option::as_mut) {
            peer.outgoing.send_data(tag, payload);
            peer.write(&watch, number, &mut self.events);
        }
    }

    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        let watch = self.watch.clone();
        if let Some(peer) = self.peer(from) {
            peer.incoming.receive(tag, room);
            if std::mem::take(&mut peer.waits) {
                watch.note(from.0 as usize);
            }
        }
    }

    fn awaits(&mut self, _: Rank) -> bool {
        false
    }

    fn poll(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.watch.look();
            self.visit();
        }
        self.events.pop_front()
    }

    fn bell(&mut self, _host: &dyn Host) -> Option<Arc<dyn Bell>> {
        Some(self.watch.clone())
    }
}

impl Drop for Tcp {
    /// Says that nothing more comes and waits for the same word of the others, a moment at most: a
    /// socket that is closed with bytes unread takes back what it sent.
    fn drop(&mut self) {
        let mut waste = vec![0; 64 << 10];
        let mut open: Vec<TcpStream> = Vec::new();
        for peer in self.peers.iter_mut().filter_map(Option::take) {
            if peer.socket.shutdown(Shutdown::Write).is_ok() {
                open.push(peer.socket);
            }
        }
        let deadline = self.host.now() + LINGER;
        loop {
            (0..self.peers.len()).for_each(|number| self.watch.forget(number));
            open.retain_mut(|socket| {
                matches!(drain(socket, &mut waste), Err(fault) if fault.kind() == io::ErrorKind::WouldBlock)
            });
            let left = deadline.saturating_sub(self.host.now());
            if open.is_empty() || left.is_zero() {
                return;
            }
            self.watch.wait(Some(left));
        }
    }
}

/// Reads until nothing is there, or the end.
fn drain(socket: &mut TcpStream, waste: &mut [u8]) -> io::Result<()> {
    while socket.read(waste)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests;
