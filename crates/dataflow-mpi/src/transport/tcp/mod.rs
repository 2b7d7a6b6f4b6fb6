//! Ranks as processes, a connection between each two that have something to say: no MPI needed.
//!
//! Processes find each other by [`Mesh`], which gives each of them one [`Tcp`]. Data go from where they
//! lie through the socket into the room made for them. A thread that waits for messages sleeps in the
//! operating system on all sockets at once; there is no other thread between it and the sockets.
//!
//! Every rank is connected to rank 0, which knows where all are. Small jobs are connected throughout
//! before anything runs; in large ones two ranks are connected when the first of them says something
//! to the other: it asks rank 0, and the higher of the two calls the lower.
//!
//! # Law
//! If a connection ends, its rank is lost: nothing is connected anew. What the rank has sent before is read
//! first, so that its last messages are heard.
//!
//! # Elsewhere
//! Bytes on the wire: `frame`. How processes find each other, and who is refused: `mesh`.

mod connection;
mod frame;
mod incoming;
mod mesh;
mod outgoing;
mod token;
mod watch;

pub use mesh::{Interrupt, Mesh};
pub use token::{NoToken, Token};

use super::{Bonds, Event, MessageLimits, Payload, Room, Transport};
use crate::bell::Bell;
use crate::host::Host;
use connection::{Connection, Link, Peer, keep_little_unsent};
use dataflow_core::rank::Rank;
use dataflow_core::words::counted;
use incoming::Stopped;
use mesh::{CallRefused, Called, Control, Door, Guest, MeshCall};
use mio::net::TcpStream;
use outgoing::Outgoing;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use watch::{Readable, Watch};

/// Data go in parts, so a datum of any size would do; but no packet should need more memory.
const LIMITS: MessageLimits = MessageLimits {
    message_bytes: 64 << 20,
    largest_tag: u32::MAX,
    in_order: true,
};

/// How long a rank that leaves waits until the others have left too, so that they get its last words.
const LINGER: Duration = Duration::from_millis(200);

/// How long a rank that is known to live may take to be connected, at least.
const REACH: Duration = Duration::from_secs(5);

/// How much longer for each rank that there is: all of them may ask rank 0 at once, and share a core.
const REACH_EACH: Duration = Duration::from_millis(40);

/// One rank's connections to the others.
///
/// # Examples
/// See [`Mesh`](Mesh#examples).
pub struct Tcp {
    mesh: Mesh,
    /// By rank.
    peers: Box<[Peer]>,
    watch: Arc<Watch>,
    events: VecDeque<Event>,
    /// Control messages that ranks said while they gathered.
    controls: VecDeque<(Rank, Control)>,
    door: Option<Door>,
    listens: SocketAddr,
    /// On rank 0: where the others listen, and from where they came if that is another machine.
    roster: Vec<Option<(SocketAddr, Option<IpAddr>)>>,
    /// How many are called or waited for.
    awaited: usize,
    /// Why a rank that was called will never be talked to.
    denied: Option<String>,
    here: (usize, usize),
}

impl Tcp {
    /// Connected to nobody; `listener` is where others come in.
    fn new(mesh: &Mesh, listener: std::net::TcpListener) -> io::Result<Self> {
        mesh::widen(&listener);
        listener.set_nonblocking(true)?;
        let watch = Watch::new(mesh.n_ranks + 1)?;
        let door = Door::new(
            mio::net::TcpListener::from_std(listener),
            &watch,
            mesh.n_ranks,
        )?;
        Ok(Tcp {
            peers: (0..mesh.n_ranks).map(|_| Peer::Absent).collect(),
            watch: Arc::new(watch),
            events: VecDeque::new(),
            controls: VecDeque::new(),
            listens: door.address()?,
            door: Some(door),
            roster: vec![
                None;
                if mesh.rank == Rank(0) {
                    mesh.n_ranks
                } else {
                    0
                }
            ],
            awaited: 0,
            denied: None,
            here: (0, 1),
            mesh: mesh.clone(),
        })
    }

    /// Which of the ranks of its machine this is, and how many there are: all that rank 0 saw come
    /// from one address.
    pub fn here(&self) -> (usize, usize) {
        self.here
    }

    fn now(&self) -> Duration {
        self.mesh.host.now()
    }

    /// How long a rank may take to be connected.
    fn reach(&self) -> Duration {
        let for_all = REACH_EACH * self.peers.len() as u32;
        self.mesh.silence.max(REACH).saturating_add(for_all)
    }

    fn connection(&mut self, rank: Rank) -> Option<&mut Connection> {
        match self.peers.get_mut(rank.0 as usize)? {
            Peer::Known(connection) => Some(connection),
            _ => None,
        }
    }

    fn is_open(&self, rank: usize) -> bool {
        matches!(&self.peers[rank], Peer::Known(connection) if matches!(connection.link, Link::Open(_)))
    }

    /// The way to a rank, which is looked for if there is none; none if the rank is lost.
    fn way_to(&mut self, to: Rank) -> Option<&mut Connection> {
        let number = to.0 as usize;
        if to == self.mesh.rank || number >= self.peers.len() {
            return None;
        }
        if matches!(self.peers[number], Peer::Absent) {
            let until = self.now().saturating_add(self.reach());
            self.await_link(to, Link::Awaited { until });
            self.ask(self.mesh.rank, to);
        }
        self.connection(to)
    }

    fn await_link(&mut self, rank: Rank, link: Link) {
        let connection = Connection::new(rank, link, self.now());
        self.peers[rank.0 as usize] = Peer::Known(connection);
        self.awaited += 1;
    }

    /// One rank wants to talk to another: the higher is told where the lower listens.
    fn ask(&mut self, who: Rank, whom: Rank) {
        if self.mesh.rank != Rank(0) {
            return self.say(Rank(0), &Control::Ask(whom));
        }
        let (low, high) = (who.min(whom), who.max(whom));
        let at = self.roster.get(low.0 as usize).copied().flatten();
        if let Some((address, _)) = at {
            self.say(high, &Control::At(low, address));
        }
    }

    fn write(&mut self, to: Rank) {
        let number = to.0 as usize;
        if let Some(Peer::Known(connection)) = self.peers.get_mut(number) {
            connection.write(&self.watch, number, &mut self.events);
        }
    }

    /// Says a control message to a rank that is connected, or will be.
    fn say(&mut self, to: Rank, control: &Control) {
        if let Some(connection) = self.connection(to) {
            connection.outgoing.say(control.encode());
            self.write(to);
        }
    }

    /// Calls a rank at these addresses, unless that is being done.
    fn call(&mut self, rank: Rank, addresses: Vec<SocketAddr>, until: Duration) {
        let hello = mesh::Hello {
            rank: self.mesh.rank,
            called: rank,
            n_ranks: self.mesh.n_ranks as u32,
            listens: self.listens,
        };
        let call = MeshCall::new(addresses, hello, until);
        let call = match rank == Rank(0) && self.mesh.started_by.is_some() {
            true => call.once(),
            false => call,
        };
        let call = Link::Called(Box::new(call));
        match self.peers.get_mut(rank.0 as usize) {
            Some(Peer::Absent) => self.await_link(rank, call),
            Some(Peer::Known(connection)) if matches!(connection.link, Link::Awaited { .. }) => {
                connection.link = call;
            }
            _ => return,
        }
        self.go_on_calling(rank.0 as usize);
    }

    /// Lets in who has come, goes on with calls, reads from those that have something, writes to
    /// those that take something again.
    fn visit(&mut self) {
        self.look_at_the_door();
        for number in 0..self.peers.len() {
            let Peer::Known(connection) = &mut self.peers[number] else {
                continue;
            };
            if !matches!(connection.link, Link::Open(_)) {
                self.go_on_calling(number);
                continue;
            }
            if self.watch.take_writable(number) {
                connection.write(&self.watch, number, &mut self.events);
            }
            // Taken also if nothing is read before there is room: it would keep a sleeper awake.
            let readable = self.watch.take_readable(number);
            if readable == Some(Readable::ToItsEnd) {
                connection.incoming.ends();
            }
            if readable.is_some() && !connection.waits {
                self.read(number);
            }
        }
    }

    fn read(&mut self, number: usize) {
        let now = self.now();
        let Peer::Known(connection) = &mut self.peers[number] else {
            return;
        };
        let Link::Open(socket) = &mut connection.link else {
            return;
        };
        connection.heard = now;
        let whole = self.events.len();
        let read = connection.incoming.read(socket, &mut self.events);
        if self.events.len() == whole {
            self.events.extend(connection.part(number, now));
        }
        let controls: Vec<_> = std::iter::from_fn(|| connection.incoming.control()).collect();
        match read {
            Ok(Stopped::Empty) => {}
            Ok(Stopped::OthersTurn) => self.watch.note(number),
            Ok(Stopped::NoRoom) if connection.deaf.is_none() => connection.waits = true,
            Ok(Stopped::NoRoom) => self.lose(number, "its data have no room".into()),
            Err(reason) => self.lose(number, reason),
        }
        for control in controls {
            match Control::decode(&control) {
                Some(control) => self.heed(Rank(number as u32), control),
                None => self.lose(number, "it said what ranks do not say".into()),
            }
        }
    }

    /// What is asked and answered at any time is done, the rest kept for those who gather.
    fn heed(&mut self, from: Rank, control: Control) {
        match control {
            Control::Ask(whom) if self.mesh.rank == Rank(0) && whom != from => self.ask(from, whom),
            Control::At(rank, address) if from == Rank(0) && rank < self.mesh.rank => {
                let until = self.now().saturating_add(self.reach());
                self.call(rank, vec![address], until);
            }
            control => self.controls.push_back((from, control)),
        }
    }

    /// A call goes on; who does not call although it was to is lost.
    fn go_on_calling(&mut self, number: usize) {
        let now = self.now();
        let Peer::Known(connection) = &mut self.peers[number] else {
            return;
        };
        let called = match &mut connection.link {
            Link::Open(_) => return,
            Link::Awaited { until } if now > *until => {
                Called::Failed(CallRefused::Now("no address: it did not call".into()))
            }
            Link::Awaited { .. } => return,
            Link::Called(call) => {
                self.watch.take_readable(number);
                call.go(&self.mesh.token, &self.watch, number, now)
            }
        };
        match called {
            Called::Not => {}
            Called::Connected(stream) => self.connect(number, stream),
            Called::Failed(refused) => {
                let own = self.mesh.rank;
                let reason = match refused {
                    CallRefused::Now(reason) => reason,
                    CallRefused::Ever(reason) => {
                        let denied = format!("{own} cannot join rank {number} at {reason}");
                        self.denied = Some(denied);
                        reason
                    }
                };
                self.lose(number, format!("{own} cannot reach it at {reason}"));
            }
        }
    }

    /// The connection to a rank stands.
    fn connect(&mut self, number: usize, mut stream: TcpStream) {
        let watched = self.watch.renumber(number, &mut stream);
        // Within a machine there is no wire, and the system takes fewer bytes at a time.
        if !stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
            keep_little_unsent(&stream);
        }
        let now = self.now();
        match &mut self.peers[number] {
            Peer::Known(connection) => {
                connection.link = Link::Open(stream);
                connection.heard = now;
                self.awaited -= 1;
            }
            absent => {
                *absent = Peer::Known(Connection::new(
                    Rank(number as u32),
                    Link::Open(stream),
                    now,
                ))
            }
        }
        if let Err(fault) = watched {
            return self.lose(number, fault.to_string());
        }
        if let Peer::Known(connection) = &mut self.peers[number] {
            connection.write(&self.watch, number, &mut self.events);
        }
        if !self.mesh.is_acquainted() {
            let from = Rank(number as u32);
            self.events.push_back(Event::Part { from, bytes: 0 });
        }
    }

    /// When a call must be looked at, at the latest.
    fn wakes(&self) -> Option<Duration> {
        if self.awaited == 0 {
            return None;
        }
        let wakes = |peer: &Peer| match peer {
            Peer::Known(connection) => match &connection.link {
                Link::Awaited { until } => Some(*until),
                Link::Called(call) => Some(call.wakes()),
                Link::Open(_) => None,
            },
            _ => None,
        };
        self.peers.iter().filter_map(wakes).min()
    }

    fn look_at_the_door(&mut self) {
        let number = self.peers.len();
        // Taken also if there is no door any more: it would keep a sleeper awake.
        let has_come = self.watch.take_readable(number).is_some();
        let Some(door) = &mut self.door else {
            return;
        };
        if has_come || door.is_busy() {
            for guest in door.look(&self.mesh, &self.watch, number) {
                self.place(guest);
            }
        }
    }

    /// Nobody is let in any more.
    fn close_door(&mut self) {
        if let Some(door) = self.door.take() {
            door.close(&self.watch);
            self.watch.forget(self.peers.len());
        }
    }

    /// A guest gets its place, or hears why not.
    fn place(&mut self, guest: Guest) {
        let Guest {
            hello,
            mut stream,
            address,
        } = guest;
        let number = hello.rank.0 as usize;
        let is_free = match self.peers.get(number) {
            Some(Peer::Absent) => true,
            Some(Peer::Known(connection)) => matches!(connection.link, Link::Awaited { .. }),
            _ => false,
        };
        let (control, reason) = if hello.n_ranks as usize != self.mesh.n_ranks {
            let (theirs, ours) = (hello.n_ranks, self.mesh.n_ranks);
            let reason = format!("it expects {}, not {ours}", counted(theirs, "rank"));
            (Control::Ranks(ours as u32), reason)
        } else if hello.called != self.mesh.rank {
            let reason = format!("it looks for {}", hello.called);
            (Control::Taken(hello.called), reason)
        } else if !is_free || hello.rank <= self.mesh.rank {
            let reason = format!("it says that it is {}", hello.rank);
            (Control::Taken(hello.rank), reason)
        } else {
            return self.admit(&hello, address, stream);
        };
        if let Some(door) = &mut self.door {
            door.refuse(&self.mesh, address, &reason);
        }
        let mut outgoing = Outgoing::new(hello.rank);
        outgoing.say(control.encode());
        outgoing.write(&mut stream, &mut VecDeque::new()).ok(); // perhaps it has left
    }

    /// A guest is the rank that it says it is.
    fn admit(&mut self, hello: &mesh::Hello, address: SocketAddr, stream: TcpStream) {
        let number = hello.rank.0 as usize;
        if let Some(known) = self.roster.get_mut(number) {
            let (found, machine) = mesh::whereabouts(hello, address, &stream);
            *known = Some((found, machine));
            if let Some(text) = mesh::out_of_reach(hello, found, machine) {
                self.controls
                    .push_back((hello.rank, Control::Lost(hello.rank, text)));
            }
        }
        self.connect(number, stream);
    }

    fn lose(&mut self, number: usize, mut reason: String) {
        if matches!(self.peers[number], Peer::Lost) {
            return;
        }
        if let Peer::Known(connection) = std::mem::replace(&mut self.peers[number], Peer::Lost) {
            if let Some(fault) = connection.deaf {
                reason = format!("{reason} (writing to it failed: {fault})");
            }
            self.awaited -= usize::from(!matches!(connection.link, Link::Open(_)));
        }
        self.watch.forget(number);
        self.events
            .push_back(Event::Lost(Rank(number as u32), reason));
    }
}

impl Transport for Tcp {
    fn rank(&self) -> Rank {
        self.mesh.rank
    }

    fn n_ranks(&self) -> usize {
        self.peers.len()
    }

    fn limits(&self) -> MessageLimits {
        LIMITS
    }

    fn bonds(&self) -> Bonds {
        if self.mesh.is_acquainted() {
            Bonds::All
        } else {
            Bonds::First
        }
    }

    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        debug_assert!(packet.len() <= LIMITS.message_bytes);
        if let Some(connection) = self.way_to(to) {
            connection.outgoing.send(packet);
            self.write(to);
        }
    }

    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        if let Some(connection) = self.way_to(to) {
            connection.outgoing.send_data(tag, payload);
            self.write(to);
        }
    }

    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        if let Some(connection) = self.way_to(from) {
            connection.incoming.receive(tag, room);
            if std::mem::take(&mut connection.waits) {
                self.watch.note(from.0 as usize);
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
            // Said when the ranks had gathered; nobody waits for them.
            self.controls.clear();
        }
        self.events.pop_front()
    }

    fn bell(&mut self, _host: &dyn Host) -> Option<Arc<dyn Bell>> {
        Some(self.watch.clone())
    }
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tcp({} of {})", self.mesh.rank, self.peers.len())
    }
}

impl Drop for Tcp {
    /// Says that nothing more comes and waits for the same word of the others, a moment at most: a
    /// socket that is closed with bytes unread takes back what it sent.
    fn drop(&mut self) {
        let mut waste = vec![0; 64 << 10];
        let mut open: Vec<TcpStream> = Vec::new();
        self.close_door();
        for peer in &mut self.peers {
            if let Peer::Known(connection) = std::mem::replace(peer, Peer::Lost)
                && let Link::Open(socket) = connection.link
                && socket.shutdown(Shutdown::Write).is_ok()
            {
                open.push(socket);
            }
        }
        let deadline = self.now() + LINGER;
        loop {
            (0..=self.peers.len()).for_each(|number| self.watch.forget(number));
            open.retain_mut(|socket| {
                matches!(drain(socket, &mut waste), Err(fault) if fault.kind() == io::ErrorKind::WouldBlock)
            });
            let left = deadline.saturating_sub(self.now());
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
