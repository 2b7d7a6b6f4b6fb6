//! The door: who comes is let in if it proves that it knows the token, and sent away otherwise.
//!
//! # Law
//! Nobody waits for a stranger: a guest that hesitates is sent away. When all have been listened to, a crowd
//! at the door loses its oldest, those first that have not said who they are. A stranger costs a few
//! hundred bytes, and after the first hundred no line of its own.

use super::Mesh;
use super::handshake::{Callee, Hello};
use crate::transport::tcp::watch::Watch;
use dataflow_core::rank::Rank;
use dataflow_core::words::counted;
use mio::net::{TcpListener, TcpStream};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a stranger may take to introduce itself.
const HESITATION: Duration = Duration::from_secs(5);

/// How many strangers may stand at the door, beside as many as there are ranks.
const CROWD: usize = 64;

/// How many lines are said of strangers, and how long those are counted that come after.
const LINES: usize = 100;
const COUNTED: Duration = Duration::from_secs(10);

/// Where others come in.
pub struct Door {
    listener: TcpListener,
    strangers: VecDeque<Stranger>,
    /// Whether somebody waits whom the system has no room for.
    waits: bool,
    log: Log,
    /// What became of strangers that said they were a rank.
    claims: BTreeMap<Rank, String>,
}

/// Somebody who has not proved anything.
struct Stranger {
    stream: TcpStream,
    address: SocketAddr,
    since: Duration,
    handshake: Callee,
}

/// Somebody who knows the token.
pub struct Guest {
    /// What it said.
    pub hello: Hello,
    /// Its connection.
    pub stream: TcpStream,
    /// Where it came from.
    pub address: SocketAddr,
}

impl Door {
    /// Opens it; a guest that comes is noted under that number.
    pub fn new(mut listener: TcpListener, watch: &Watch, number: usize) -> io::Result<Self> {
        watch.add(number, &mut listener)?;
        Ok(Door {
            listener,
            strangers: VecDeque::new(),
            waits: false,
            log: Log::default(),
            claims: BTreeMap::new(),
        })
    }

    /// Closes it: the system is told that nobody listens for guests. It would go on telling
    /// of them if the socket had a copy that stays open.
    pub fn close(mut self, watch: &Watch) {
        watch.remove(&mut self.listener);
    }

    /// Where it is.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Whether somebody stands there.
    pub fn is_busy(&self) -> bool {
        self.waits || !self.strangers.is_empty()
    }

    /// Those who have proved that they know the token.
    pub fn look(&mut self, mesh: &Mesh, watch: &Watch, number: usize) -> Vec<Guest> {
        let now = mesh.host.now();
        self.accept(mesh, watch, number);
        // Before the crowd is thinned out: the proof of one may have come.
        let guests = self.listen(mesh, now);
        self.thin_out(mesh);
        guests
    }

    fn listen(&mut self, mesh: &Mesh, now: Duration) -> Vec<Guest> {
        let mut guests = Vec::new();
        for mut stranger in std::mem::take(&mut self.strangers) {
            match stranger.listen(mesh, now) {
                Ok(Some(hello)) => guests.push(Guest {
                    hello,
                    stream: stranger.stream,
                    address: stranger.address,
                }),
                Ok(None) => self.strangers.push_back(stranger),
                Err(reason) => {
                    // Of no more ranks than there are: strangers could make up others without end.
                    if let Some(claim) = stranger.handshake.claim()
                        && (claim.rank.0 as usize) < mesh.n_ranks
                    {
                        let claimed = format!("{} said it was it: {reason}", stranger.address);
                        self.claims.insert(claim.rank, claimed);
                    }
                    self.refuse(mesh, stranger.address, &reason);
                }
            }
        }
        guests
    }

    /// What became of somebody who said that he was this rank.
    pub fn claimed(&self, rank: Rank) -> Option<&str> {
        self.claims.get(&rank).map(String::as_str)
    }

    fn accept(&mut self, mesh: &Mesh, watch: &Watch, number: usize) {
        self.waits = false;
        loop {
            match self.listener.accept() {
                Ok((mut stream, address)) => {
                    let handshake = Callee::new().and_then(|handshake| {
                        watch.add(number, &mut stream)?;
                        stream.set_nodelay(true).map(|()| handshake)
                    });
                    match handshake {
                        Ok(handshake) => self.strangers.push_back(Stranger {
                            stream,
                            address,
                            since: mesh.host.now(),
                            handshake,
                        }),
                        Err(fault) => self.refuse(mesh, address, &fault.to_string()),
                    }
                }
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => break,
                Err(fault) => {
                    // It, or the next, is tried again soon: there may be room then.
                    self.waits = true;
                    let line = format!("{} could not let somebody in: {fault}", mesh.rank);
                    self.log.say(mesh, &line);
                    break;
                }
            }
        }
    }

    /// Of more strangers than may stand there the oldest that claim to be nobody go, then those that do.
    fn thin_out(&mut self, mesh: &Mesh) {
        while self.strangers.len() > CROWD + mesh.n_ranks {
            let claims_nothing = |stranger: &Stranger| stranger.handshake.claim().is_none();
            let first = self.strangers.iter().position(claims_nothing);
            if let Some(leaves) = self.strangers.remove(first.unwrap_or(0)) {
                self.refuse(mesh, leaves.address, "there is a crowd at the door");
            }
        }
    }

    /// Says who was refused, and why.
    pub fn refuse(&mut self, mesh: &Mesh, address: SocketAddr, reason: &str) {
        let line = format!("{} refused {address}: {reason}", mesh.rank);
        self.log.say(mesh, &line);
    }
}

impl Stranger {
    /// Who it is, when it has proved it.
    fn listen(&mut self, mesh: &Mesh, now: Duration) -> Result<Option<Hello>, String> {
        let hello = self.handshake.go(&mesh.token, &mut self.stream)?;
        if hello.is_none() && now.saturating_sub(self.since) > HESITATION {
            return Err(format!("it did not introduce itself within {HESITATION:?}"));
        }
        Ok(hello)
    }
}

/// Lines, of which only the first are said one by one.
#[derive(Default)]
struct Log {
    said: usize,
    kept: usize,
    since: Duration,
}

impl Log {
    fn say(&mut self, mesh: &Mesh, line: &str) {
        let now = mesh.host.now();
        self.said += 1;
        if self.said <= LINES {
            (mesh.log)(line);
            self.since = now;
            return;
        }
        self.kept += 1;
        if now.saturating_sub(self.since) >= COUNTED {
            (mesh.log)(&format!(
                "{line} (and {} like this)",
                counted(self.kept - 1, "line")
            ));
            (self.kept, self.since) = (0, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::handshake::Caller;
    use super::*;
    use crate::transport::tcp::Token;

    fn door(mesh: &Mesh) -> (Door, Watch, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let watch = Watch::new(mesh.n_ranks + 1).unwrap();
        let door = Door::new(listener, &watch, mesh.n_ranks).unwrap();
        let at = door.address().unwrap();
        (door, watch, at)
    }

    fn calls(at: SocketAddr, rank: Rank) -> (TcpStream, Caller) {
        let hello = Hello {
            rank,
            called: Rank(0),
            n_ranks: 3,
            listens: at,
        };
        let stream = std::net::TcpStream::connect(at).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream);
        let caller = Caller::begin(&hello, &mut stream);
        let Ok(caller) = caller else {
            panic!("a new connection takes no word")
        };
        (stream, caller)
    }

    /// Its proof lay unread, and its job ended: rank 0 had closed the connection.
    #[test]
    fn a_rank_whose_proof_has_come_is_let_in_before_the_crowd_behind_it_is_thinned_out() {
        let mut mesh = Mesh::new(Rank(0), 3, Token::random().unwrap());
        mesh.log = |_| {};
        let (mut door, watch, at) = door(&mesh);
        let (mut stream, mut caller) = calls(at, Rank(1));
        while !caller.go(&mesh.token, &mut stream).unwrap() {
            assert!(door.look(&mesh, &watch, 3).is_empty());
            std::thread::yield_now();
        }
        let connect = |_| std::net::TcpStream::connect(at).unwrap();
        let crowd: Vec<_> = (0..CROWD + mesh.n_ranks + 5).map(connect).collect();
        let guests = door.look(&mesh, &watch, 3);
        let ranks: Vec<Rank> = guests.iter().map(|guest| guest.hello.rank).collect();
        assert_eq!(ranks, [Rank(1)]);
        assert_eq!(door.strangers.len(), CROWD + mesh.n_ranks);
        drop(crowd);
    }

    #[test]
    fn of_a_crowd_those_leave_first_that_have_not_said_who_they_are() {
        let mut mesh = Mesh::new(Rank(0), 3, Token::random().unwrap());
        mesh.log = |_| {};
        let (mut door, watch, at) = door(&mesh);
        let (stream, _) = calls(at, Rank(1));
        let has_claimed = |door: &Door| {
            door.strangers
                .iter()
                .any(|one| one.handshake.claim().is_some())
        };
        while !has_claimed(&door) {
            assert!(door.look(&mesh, &watch, 3).is_empty());
            std::thread::yield_now();
        }
        let connect = |_| std::net::TcpStream::connect(at).unwrap();
        let crowd: Vec<_> = (0..CROWD + mesh.n_ranks + 5).map(connect).collect();
        assert!(door.look(&mesh, &watch, 3).is_empty());
        assert!(has_claimed(&door), "it was there first");
        assert_eq!(door.strangers.len(), CROWD + mesh.n_ranks);
        drop((stream, crowd));
    }

    #[test]
    fn a_stranger_that_says_nothing_is_sent_away_after_a_while() {
        let mut mesh = Mesh::new(Rank(0), 3, Token::random().unwrap());
        mesh.log = |_| {};
        let (mut door, watch, at) = door(&mesh);
        let stranger = std::net::TcpStream::connect(at).unwrap();
        while door.strangers.is_empty() {
            assert!(door.look(&mesh, &watch, 3).is_empty());
            std::thread::yield_now();
        }
        let since = door.strangers[0].since;
        for (later, n_left) in [(Duration::ZERO, 1), (Duration::from_nanos(1), 0)] {
            assert!(door.listen(&mesh, since + HESITATION + later).is_empty());
            assert_eq!(door.strangers.len(), n_left);
        }
        drop(stranger);
    }

    /// A text was kept for each number that strangers made up.
    #[test]
    fn of_strangers_only_those_are_remembered_that_say_they_are_a_rank_there_is() {
        let mut mesh = Mesh::new(Rank(0), 3, Token::random().unwrap());
        mesh.log = |_| {};
        let (mut door, watch, at) = door(&mesh);
        for (refused, rank) in [1, 3, 2, 1_000_000, u32::MAX].into_iter().enumerate() {
            drop(calls(at, Rank(rank)));
            while door.log.said == refused {
                assert!(door.look(&mesh, &watch, 3).is_empty());
                std::thread::yield_now();
            }
        }
        let known = door.claims.keys().copied();
        assert_eq!(known.collect::<Vec<_>>(), [Rank(1), Rank(2)]);
    }
}
