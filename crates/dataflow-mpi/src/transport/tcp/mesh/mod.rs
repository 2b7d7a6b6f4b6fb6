//! The mesh: how processes find each other and become ranks.
//!
//! ```text
//!   rank 0                                    rank r
//!   listens where all know it                 listens anywhere
//!      ◄───────────────────── hello ────────────
//!      ══════════ roster, when all have come ══►
//!                                             connects to the ranks below it, lets in those above
//!      ◄───────────────────── ready ────────────
//!      ══════════ go, when all are ready ══════►
//! ```
//! Until all have heard *go*, everybody keeps an ear on rank 0, and it on all: who ends on the way
//! is named to the others. Then no door is open any more.
//!
//! # Security
//! Whoever knows the token can become a rank; it travels in the clear, so between hosts the network
//! must be trusted. Strangers are refused, each in one line of the log, and the others go on.

mod door;
mod talk;
mod words;

use super::{Tcp, Token};
use crate::host::Host;
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use door::{Door, Guest};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use talk::Talk;
use words::{Hello, Word};

/// How often sockets are looked at while ranks gather.
const TICK: Duration = Duration::from_millis(1);

/// How long one attempt to connect may take, and the pause before the next.
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// How long rank 0 may take to say who was lost, when another cannot be reached.
const EXPLANATION: Duration = Duration::from_secs(3);

/// The place of a process among those that become ranks.
///
/// # Examples
/// Two threads stand for two processes:
/// ```
/// use dataflow_core::rank::Rank;
/// use dataflow_mpi::transport::{Transport, tcp::{Mesh, Token}};
/// use std::net::TcpListener;
///
/// let token = Token::random()?;
/// let [listener, another] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
/// let root = listener.local_addr()?;
/// let ends = std::thread::scope(|ranks| {
///     let other = ranks.spawn(|| Mesh::new(Rank(1), 2, token).join(root, another));
///     let first = Mesh::new(Rank(0), 2, token).lead(listener, &mut || None)?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>((first, other.join().unwrap()?))
/// })?;
/// assert_eq!((ends.0.rank(), ends.1.rank()), (Rank(0), Rank(1)));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone)]
pub struct Mesh {
    /// Which rank this process is.
    pub rank: Rank,
    /// How many there are.
    pub n_ranks: usize,
    /// What all of them know.
    pub token: Token,
    /// How long those who have not come, and rank 0, are waited for.
    pub patience: Duration,
    /// Is told of strangers, a line each; at first standard error is.
    pub log: fn(&str),
    /// Clock and bells.
    pub host: Arc<dyn Host>,
}

/// Says who is known to have ended, and how: asked again and again while the ranks gather.
pub type Interrupt<'a> = dyn FnMut() -> Option<(Rank, String)> + 'a;

/// Why ranks did not become a mesh.
enum Fault {
    Lost(Rank, String),
    Other(Error),
}

impl Mesh {
    /// A rank on this machine, with ten minutes' patience.
    pub fn new(rank: Rank, n_ranks: usize, token: Token) -> Self {
        Mesh {
            rank,
            n_ranks,
            token,
            patience: Duration::from_secs(600),
            log: |line| eprintln!("{line}"),
            host: crate::host::Machine::new(),
        }
    }

    /// Becomes rank 0, which the others find where `listener` listens.
    ///
    /// # Errors
    /// If a rank ends meanwhile or does not come in time (`rank_lost`), or the operating system
    /// refuses.
    pub fn lead(&self, listener: TcpListener, interrupt: &mut Interrupt) -> Result<Tcp, Error> {
        let mut others: Vec<Option<Talk>> = (0..self.n_ranks).map(|_| None).collect();
        let mut roster = vec![SocketAddr::from(([0; 4], 0)); self.n_ranks];
        let led = self
            .gather(listener, &mut others, &mut roster, interrupt)
            .and_then(|()| self.introduce(&mut others, &roster, interrupt));
        if let Err(Fault::Lost(lost, _)) = &led {
            let word = Word::Lost(*lost).encode();
            for other in others.iter_mut().flatten() {
                other.say(&word).ok(); // who is lost itself does not hear it
            }
        }
        led?;
        Ok(self.connected(others)?)
    }

    /// Waits until all have come.
    fn gather(
        &self,
        listener: TcpListener,
        others: &mut [Option<Talk>],
        roster: &mut [SocketAddr],
        interrupt: &mut Interrupt,
    ) -> Result<(), Fault> {
        let mut door = Door::new(self, listener)?;
        let deadline = self.host.now() + self.patience;
        let nap = self.host.bell();
        loop {
            for guest in door.look() {
                let hello = guest.hello;
                let is_free = |rank: usize| rank > 0 && others[rank].is_none();
                if let Some(talk) = self.place(&door, guest, is_free)? {
                    roster[hello.rank.0 as usize] = reachable(hello.listens, talk.peer()?);
                    others[hello.rank.0 as usize] = Some(talk);
                }
            }
            if others.iter().skip(1).all(Option::is_some) {
                return Ok(());
            }
            listen(others, interrupt, |_, _| Ok(()))?;
            if self.host.now() > deadline {
                let missing = others.iter().skip(1).position(Option::is_none);
                let missing = Rank(missing.unwrap_or(0) as u32 + 1);
                let text = format!("it did not come within {:?}", self.patience);
                return Err(Fault::Lost(missing, text));
            }
            nap.wait(Some(TICK));
        }
    }

    /// Tells all where all are, and waits until each is connected to each.
    fn introduce(
        &self,
        others: &mut [Option<Talk>],
        roster: &[SocketAddr],
        interrupt: &mut Interrupt,
    ) -> Result<(), Fault> {
        let mut words = Word::Roster(self.n_ranks as u32).encode().to_vec();
        words.extend(
            roster
                .iter()
                .flat_map(|address| words::encode_address(*address)),
        );
        tell(others, &words)?;
        let mut is_ready = vec![false; self.n_ranks];
        let nap = self.host.bell();
        while is_ready.iter().skip(1).any(|ready| !ready) {
            listen(others, interrupt, |rank, word| match word {
                Word::Ready => {
                    is_ready[rank] = true;
                    Ok(())
                }
                other => Err(format!("it said {other:?} while it was to connect")),
            })?;
            nap.wait(Some(TICK));
        }
        tell(others, &Word::Go.encode())
    }

    /// Becomes a rank other than 0, which is found at `root`; the others find this one where
    /// `listener` listens.
    ///
    /// # Errors
    /// If rank 0 cannot be reached in time or another rank ends meanwhile (`rank_lost`), if they
    /// expect another number of ranks (`parameters_differ`) or the operating system refuses.
    pub fn join(&self, root: SocketAddr, listener: TcpListener) -> Result<Tcp, Error> {
        Ok(self.join_in(root, listener)?)
    }

    fn join_in(&self, root: SocketAddr, listener: TcpListener) -> Result<Tcp, Fault> {
        let mut door = Door::new(self, listener)?;
        let hello = Hello {
            rank: self.rank,
            n_ranks: self.n_ranks as u32,
            listens: door.address()?,
        };
        let hello = hello.encode(&self.token);
        let mut leader = self.reach(root)?;
        leader
            .say(&hello)
            .map_err(|reason| Fault::Lost(Rank(0), reason))?;
        let roster = self.hear_roster(&mut leader)?;
        let own = self.rank.0 as usize;
        let mut others: Vec<Option<Talk>> = (0..self.n_ranks).map(|_| None).collect();
        for (rank, address) in roster.iter().enumerate().take(own).skip(1) {
            let talk = Talk::connect(*address, ATTEMPT).and_then(|mut talk| {
                talk.say(&hello)?;
                Ok(talk)
            });
            match talk {
                Ok(talk) => others[rank] = Some(talk),
                Err(reason) => return Err(self.explain(&mut leader, rank, *address, &reason)),
            }
        }
        let nap = self.host.bell();
        while others.iter().skip(own + 1).any(Option::is_none) {
            for guest in door.look() {
                let rank = guest.hello.rank.0 as usize;
                let free = |rank: usize| rank > own && others[rank].is_none();
                if let Some(talk) = self.place(&door, guest, free)? {
                    others[rank] = Some(talk);
                }
            }
            self.hear(&mut leader)?;
            nap.wait(Some(TICK));
        }
        let ready = Word::Ready.encode();
        leader
            .say(&ready)
            .map_err(|reason| Fault::Lost(Rank(0), reason))?;
        while self.hear(&mut leader)? != Some(Word::Go) {
            nap.wait(Some(TICK));
        }
        others[0] = Some(leader);
        self.connected(others)
    }

    /// Connects to rank 0, which may not be there yet.
    fn reach(&self, root: SocketAddr) -> Result<Talk, Fault> {
        let begun = self.host.now();
        let nap = self.host.bell();
        loop {
            match Talk::connect(root, ATTEMPT) {
                Ok(talk) => return Ok(talk),
                Err(reason) if self.host.now() - begun > self.patience => {
                    let text = format!("it cannot be reached at {root}: {reason}");
                    return Err(Fault::Lost(Rank(0), text));
                }
                Err(_) => nap.wait(Some(PAUSE)),
            }
        }
    }

    /// The next word of rank 0, if it has said one: a bad one is the end.
    fn hear(&self, leader: &mut Talk) -> Result<Option<Word>, Fault> {
        let word = leader
            .word()
            .map_err(|reason| Fault::Lost(Rank(0), reason))?;
        match word {
            None => Ok(None),
            Some(Word::Lost(rank)) => Err(Fault::Lost(rank, "rank 0 says so".into())),
            Some(Word::Ranks(n)) => Err(Fault::Other(Error::parameters_differ(format!(
                "ranks: {n} on rank 0, {} on {}",
                self.n_ranks, self.rank
            )))),
            Some(Word::Taken(rank)) => Err(Fault::Other(Error::wrong_settings(format!(
                "{rank} is another process (of {} ranks each is to be started once)",
                self.n_ranks
            )))),
            Some(word) => Ok(Some(word)),
        }
    }

    fn hear_roster(&self, leader: &mut Talk) -> Result<Vec<SocketAddr>, Fault> {
        let nap = self.host.bell();
        let n_ranks = self.n_ranks as u32;
        while self.hear(leader)? != Some(Word::Roster(n_ranks)) {
            nap.wait(Some(TICK));
        }
        loop {
            let roster = leader.roster(self.n_ranks);
            match roster.map_err(|reason| Fault::Lost(Rank(0), reason))? {
                Some(roster) => return Ok(roster),
                None => nap.wait(Some(TICK)),
            }
        }
    }

    /// A guest gets its place, or hears why not.
    fn place(
        &self,
        door: &Door,
        guest: Guest,
        is_free: impl Fn(usize) -> bool,
    ) -> Result<Option<Talk>, Fault> {
        let Hello { rank, n_ranks, .. } = guest.hello;
        let mut talk = Talk::new(guest.stream)?;
        let (word, reason) = if n_ranks as usize != self.n_ranks {
            let reason = format!("it expects {n_ranks} ranks, not {}", self.n_ranks);
            (Word::Ranks(self.n_ranks as u32), reason)
        } else if rank.0 as usize >= self.n_ranks || !is_free(rank.0 as usize) {
            (Word::Taken(rank), format!("it says that it is {rank}"))
        } else {
            return Ok(Some(talk));
        };
        door.refuse(talk.peer()?, &reason);
        talk.say(&word.encode()).ok(); // perhaps it has left
        Ok(None)
    }

    /// Why a rank that was there cannot be reached: rank 0 knows soon.
    fn explain(&self, leader: &mut Talk, rank: usize, at: SocketAddr, reason: &str) -> Fault {
        let nap = self.host.bell();
        let deadline = self.host.now() + EXPLANATION;
        while self.host.now() < deadline {
            if let Err(fault) = self.hear(leader) {
                return fault;
            }
            nap.wait(Some(TICK));
        }
        let text = format!("it cannot be reached at {at}: {reason}");
        Fault::Lost(Rank(rank as u32), text)
    }

    fn connected(&self, others: Vec<Option<Talk>>) -> Result<Tcp, Fault> {
        let sockets = others.into_iter().map(|other| other.map(Talk::into_stream));
        Ok(Tcp::over(self.rank, sockets.collect(), self.host.clone())?)
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mesh({} of {})", self.rank, self.n_ranks)
    }
}

/// Listens whether anybody has ended, or says a word.
fn listen(
    others: &mut [Option<Talk>],
    interrupt: &mut Interrupt,
    mut heed: impl FnMut(usize, Word) -> Result<(), String>,
) -> Result<(), Fault> {
    if let Some((rank, text)) = interrupt() {
        return Err(Fault::Lost(rank, text));
    }
    for (rank, other) in others.iter_mut().enumerate() {
        let Some(other) = other else {
            continue;
        };
        let heard = other.word().and_then(|word| match word {
            Some(word) => heed(rank, word),
            None => Ok(()),
        });
        heard.map_err(|reason| Fault::Lost(Rank(rank as u32), reason))?;
    }
    Ok(())
}

fn tell(others: &mut [Option<Talk>], words: &[u8]) -> Result<(), Fault> {
    for (rank, other) in others.iter_mut().enumerate() {
        if let Some(other) = other {
            let said = other.say(words);
            said.map_err(|reason| Fault::Lost(Rank(rank as u32), reason))?;
        }
    }
    Ok(())
}

/// Whoever listens on all its addresses is found at the one it came from.
fn reachable(listens: SocketAddr, came_from: SocketAddr) -> SocketAddr {
    match listens.ip().is_unspecified() {
        true => SocketAddr::new(came_from.ip().to_canonical(), listens.port()),
        false => listens,
    }
}

impl From<io::Error> for Fault {
    fn from(fault: io::Error) -> Self {
        let text = format!("the operating system refuses sockets: {fault}");
        Fault::Other(Error::wrong_settings(text))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Lost(rank, reason) => Error::rank_lost(format!(
                "{rank} was lost while the ranks gathered: {reason}"
            )),
            Fault::Other(error) => error,
        }
    }
}
