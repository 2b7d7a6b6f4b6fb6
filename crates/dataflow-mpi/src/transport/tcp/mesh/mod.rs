//! The mesh: how processes find each other and become ranks.
//!
//! ```text
//!   rank 0                                    rank r
//!   listens where all know it                 listens anywhere, and calls until it is heard
//!      ◄═════════════ handshake ═══════════════►
//!      ◄──────────────── beats ────────────────►
//!      ══════════ meet, when all have come ════►
//!                                             in a small job: is connected to all others,
//!      ◄─── ask (rank) ─────────────────────────  by asking for each
//!      ──── at (rank, address) ─────► the higher, which calls the lower
//!      ◄───────────────────── ready ────────────
//!      ══════════ go, when all are ready ══════►
//! ```
//! Until all have heard *go*, rank 0 has one deadline for the whole, everybody beats towards it and
//! it towards all: who ends, falls silent or cannot be reached on the way is named to the others, and
//! so is the rank that missed the deadline. Every few seconds rank 0 says whom it waits for, and so does each
//! rank that has not reached rank 0, or that is one of sixteen or fewer; they sleep in between. In a small job
//! no rank listens afterwards; in a large one ranks go on being connected when they first have something to
//! say to each other.
//!
//! # Security
//! A process that knows the token can become a rank; both ends of a connection prove that they do, and the
//! token never travels. What follows the proofs is neither hidden nor sealed: between hosts the
//! network must be trusted, or tunnelled. Strangers are refused in a bounded number of lines, and the
//! others go on.

mod call;
mod control;
mod door;
mod handshake;
mod join;
mod lead;
mod room;

pub(super) use call::{Called, MeshCall};
pub(super) use control::Control;
pub(super) use door::{Door, Guest};
pub(super) use handshake::{CallRefused, Hello};
pub(super) use room::widen;

use super::{Tcp, Token};
use crate::host::Host;
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use dataflow_core::stderr;
use dataflow_core::words::counted;
use mio::net::TcpStream;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// How often ranks that gather say that they live, at least.
const BEAT: Duration = Duration::from_secs(1);

/// How often they say whom they wait for.
const TOLD: Duration = Duration::from_secs(5);

/// How often rank 0 asks who has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How long rank 0 may take to say who was lost, when another cannot be reached.
const EXPLANATION: Duration = Duration::from_secs(3);

/// In a job of so many ranks each says by itself whom it waits for; in a larger one rank 0 does.
const TALKATIVE: usize = 16;

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
///     let other = ranks.spawn(|| Mesh::new(Rank(1), 2, token).join(&[root], another));
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
    /// How long gathering may take: on rank 0 until all are ready, elsewhere until rank 0 is there.
    pub patience: Duration,
    /// How long a rank that has come may say nothing while the others come.
    pub silence: Duration,
    /// So many ranks are connected each to each before anything runs; of more, two are connected
    /// when they have something to say to each other. The same on all ranks.
    pub acquainted_ranks: usize,
    /// The process of rank 0, if it has started this one and listens for as long as it lives: then one attempt
    /// to reach it decides, and whoever listens there when it has ended is not waited for.
    pub(crate) started_by: Option<u32>,
    /// Is told of strangers and of waiting, a line each; at first standard error is.
    pub log: fn(&str),
    /// Clock and bells.
    pub host: Arc<dyn Host>,
}

/// Says who is known to have ended, and how: asked again and again while the ranks gather.
pub type Interrupt<'a> = dyn FnMut() -> Option<(Rank, String)> + 'a;

/// Why ranks did not become a mesh.
enum MeshError {
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
            silence: Duration::from_secs(10),
            acquainted_ranks: 64,
            started_by: None,
            log: |line| stderr::say(line),
            host: crate::host::Machine::new(),
        }
    }

    /// To be called before the others are started: looks whether this process may open as many sockets as
    /// their rank 0 needs.
    ///
    /// # Errors
    /// If it may not, or they are more than ranks can be numbered (`wrong_settings`).
    pub(crate) fn expect_room(&self) -> Result<(), Error> {
        let n_ranks = self.n_ranks;
        u32::try_from(n_ranks).map_err(|_| {
            Error::wrong_settings(format!("{n_ranks} ranks (at most {})", u32::MAX))
        })?;
        room::for_sockets(self).map_err(MeshError::into_error)
    }

    /// Becomes rank 0, which the others find where `listener` listens.
    ///
    /// # Errors
    /// If a rank ends or falls silent meanwhile, cannot be reached by another or does not come in
    /// time (`rank_lost`), or this is another rank or the operating system refuses (`wrong_settings`).
    pub fn lead(&self, listener: TcpListener, interrupt: &mut Interrupt) -> Result<Tcp, Error> {
        let led = || {
            self.expect_place(self.rank == Rank(0), "leads (rank 0 does)")?;
            room::for_sockets(self)?;
            let mut tcp = Tcp::new(self, listener)?;
            lead::Leader::new(&mut tcp, interrupt).lead()?;
            Ok(tcp)
        };
        led().map_err(MeshError::into_error)
    }

    /// Becomes a rank other than 0, which is found at one of the addresses of `root`; the others find
    /// this one where `listener` listens.
    ///
    /// # Errors
    /// If rank 0 cannot be reached in time or another rank is lost meanwhile (`rank_lost`), if they
    /// expect another number of ranks (`parameters_differ`), if rank 0 does not know the token, this is
    /// rank 0 or the operating system refuses (`wrong_settings`).
    pub fn join(&self, root: &[SocketAddr], listener: TcpListener) -> Result<Tcp, Error> {
        let joined = || {
            self.expect_place(self.rank != Rank(0), "joins (it leads)")?;
            room::for_sockets(self)?;
            let mut tcp = Tcp::new(self, listener)?;
            join::Joiner::new(&mut tcp).join(root)?;
            Ok(tcp)
        };
        joined().map_err(MeshError::into_error)
    }

    /// Whether there is such a rank, and it is one that may do so: places are looked up by its number.
    fn expect_place(&self, may: bool, does: &str) -> Result<(), MeshError> {
        let (rank, n_ranks) = (self.rank, self.n_ranks);
        let text = match (rank.0 as usize) < n_ranks {
            true if may => return Ok(()),
            true => format!("{rank} {does}"),
            false => format!("{rank} of {} (they begin at 0)", counted(n_ranks, "rank")),
        };
        Err(MeshError::Other(Error::wrong_settings(text)))
    }

    /// How often ranks that gather say that they live.
    fn beat(&self) -> Duration {
        BEAT.min(self.silence / 4)
    }

    /// Whether rank 0 is known to have ended: this process would have another parent.
    fn has_lost_its_parent(&self) -> bool {
        #[cfg(unix)]
        let parent = Some(std::os::unix::process::parent_id());
        #[cfg(not(unix))]
        let parent = self.started_by; // nobody says
        self.started_by.is_some() && self.started_by != parent
    }

    /// Whether all are connected to all before anything runs.
    pub(super) fn is_acquainted(&self) -> bool {
        self.n_ranks <= self.acquainted_ranks
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mesh({} of {})", self.rank, self.n_ranks)
    }
}

/// Where a guest is found, and from which machine it came if that is another. A guest that listens on all
/// its addresses is found at the one it came from.
pub(super) fn whereabouts(
    hello: &Hello,
    came_from: SocketAddr,
    stream: &TcpStream,
) -> (SocketAddr, Option<IpAddr>) {
    let ip = came_from.ip().to_canonical();
    let own = stream
        .local_addr()
        .map(|address| address.ip().to_canonical());
    let is_here = own.is_ok_and(|own| own == ip || own.is_loopback() && ip.is_loopback());
    let found = match hello.listens.ip().is_unspecified() {
        true => SocketAddr::new(ip, hello.listens.port()),
        false => hello.listens,
    };
    (found, (!is_here).then_some(ip))
}

/// Why others will not reach a guest where it is said to be, if that can be told.
pub(super) fn out_of_reach(
    hello: &Hello,
    found: SocketAddr,
    machine: Option<IpAddr>,
) -> Option<String> {
    let (at, ip) = (hello.listens, found.ip());
    // Nobody calls the last rank.
    let is_called = hello.rank.0 + 1 < hello.n_ranks;
    if is_called && at.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) && ip.is_ipv6() {
        return Some(format!(
            "it listens at {at}, all its addresses of IPv4, and came from {ip}, where others would look \
             for it (`--listen [::]:0` is needed)"
        ));
    }
    let machine = machine.filter(|_| ip.is_loopback())?;
    Some(format!(
        "it listens at {found}, where only its own machine reaches it, and came from {machine} (another \
         name or `--listen` is needed)"
    ))
}

/// Which of the ranks of its machine each rank is, and how many there are.
fn places(machines: &[Option<IpAddr>]) -> Vec<(usize, usize)> {
    let place = |rank: usize| {
        let own = |machine: &&Option<IpAddr>| **machine == machines[rank];
        let before = machines[..rank].iter().filter(own).count();
        (before, machines.iter().filter(own).count())
    };
    (0..machines.len()).map(place).collect()
}

/// Ranks in words: `rank 1`, `ranks 1, 4 to 9`.
fn named(ranks: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let mut words: Vec<String> = runs
        .iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first} to {last}"),
        })
        .collect();
    if words.len() > 8 {
        words.truncate(8);
        words.push("others".into());
    }
    let rank = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{rank} {}", words.join(", "))
}

impl From<io::Error> for MeshError {
    fn from(fault: io::Error) -> Self {
        let text = format!("the operating system refuses sockets: {fault}");
        MeshError::Other(Error::wrong_settings(text))
    }
}

impl MeshError {
    /// No `From`: as the only one it would stand in what the compiler says of every error that has none.
    fn into_error(self) -> Error {
        match self {
            MeshError::Lost(rank, reason) => Error::rank_lost(format!(
                "{rank} was lost while the ranks gathered: {reason}"
            )),
            MeshError::Other(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_came_from_one_address_are_counted_together() {
        let a = Some(IpAddr::from([10, 0, 0, 2]));
        let b = Some(IpAddr::from([10, 0, 0, 3]));
        let places = places(&[None, a, b, None, a, a]);
        assert_eq!(places, [(0, 2), (0, 3), (0, 1), (1, 2), (1, 3), (2, 3)]);
    }

    /// Each would be alone on its machine otherwise, and have all cores of it.
    #[test]
    fn whoever_came_from_this_machine_is_of_it_and_is_found_where_it_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = TcpStream::from_std(stream);
        for (listens, came_from, found, machine) in [
            ("127.0.0.1:9", "127.0.0.1:7", "127.0.0.1:9", None),
            ("0.0.0.0:9", "127.0.0.1:7", "127.0.0.1:9", None),
            ("127.0.1.1:9", "127.0.1.1:7", "127.0.1.1:9", None),
            ("[::1]:9", "[::1]:7", "[::1]:9", None),
            ("[::]:9", "[::ffff:127.0.0.1]:7", "127.0.0.1:9", None),
            ("0.0.0.0:9", "10.0.0.2:7", "10.0.0.2:9", Some("10.0.0.2")),
            ("10.1.0.2:9", "10.0.0.2:7", "10.1.0.2:9", Some("10.0.0.2")),
        ] {
            let hello = Hello {
                rank: Rank(1),
                called: Rank(0),
                n_ranks: 2,
                listens: listens.parse().unwrap(),
            };
            let expected = (
                found.parse().unwrap(),
                machine.map(|ip| ip.parse().unwrap()),
            );
            let told = whereabouts(&hello, came_from.parse().unwrap(), &stream);
            assert_eq!(told, expected, "{listens}, from {came_from}");
        }
    }

    /// They were sent to an address of IPv6 where nobody listened, and "could not reach it".
    #[test]
    fn a_rank_that_listens_where_it_was_not_seen_is_told_so_unless_nobody_calls_it() {
        for (listens, found, machine, rank, told) in [
            (
                "0.0.0.0:9",
                "[fd00::2]:9",
                Some("fd00::2"),
                1,
                "all its addresses of IPv4",
            ),
            ("0.0.0.0:9", "[::1]:9", None, 1, "all its addresses of IPv4"),
            ("0.0.0.0:9", "[fd00::2]:9", Some("fd00::2"), 2, ""),
            ("0.0.0.0:9", "10.0.0.2:9", Some("10.0.0.2"), 1, ""),
            ("[::]:9", "[fd00::2]:9", Some("fd00::2"), 1, ""),
            ("[::]:9", "10.0.0.2:9", Some("10.0.0.2"), 1, ""),
            (
                "127.0.0.1:9",
                "127.0.0.1:9",
                Some("10.0.0.2"),
                1,
                "only its own machine",
            ),
            ("127.0.0.1:9", "127.0.0.1:9", None, 1, ""),
        ] {
            let hello = Hello {
                rank: Rank(rank),
                called: Rank(0),
                n_ranks: 3,
                listens: listens.parse().unwrap(),
            };
            let machine = machine.map(|ip| ip.parse().unwrap());
            let text = out_of_reach(&hello, found.parse().unwrap(), machine);
            let is_as_expected = match told {
                "" => text.is_none(),
                told => text.as_ref().is_some_and(|text| text.contains(told)),
            };
            assert!(
                is_as_expected,
                "{listens} {found} {machine:?} {rank}: {text:?}"
            );
        }
    }

    /// Rank 5 of 2 led: all came, and none of them had a place.
    #[test]
    fn a_rank_that_there_is_not_is_refused_and_so_is_one_that_takes_anothers_part() {
        let no_rank = |rank, n_ranks| {
            let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
            let mut mesh = Mesh::new(Rank(rank), n_ranks, Token::random().unwrap());
            mesh.patience = Duration::from_millis(1); // nobody comes
            let led = mesh.lead(listener(), &mut || None).err();
            let joined = mesh.join(&[], listener()).err();
            [led, joined].map(|refused| refused.map(|error| error.message().to_owned()))
        };
        let said = |text: &str| Some(text.to_owned());
        for (rank, n_ranks, text) in [
            (5, 2, "rank 5 of 2 ranks (they begin at 0)"),
            (1, 1, "rank 1 of 1 rank (they begin at 0)"),
            (0, 0, "rank 0 of 0 ranks (they begin at 0)"),
        ] {
            assert_eq!(no_rank(rank, n_ranks), [said(text), said(text)]);
        }
        assert_eq!(no_rank(1, 2)[0], said("rank 1 leads (rank 0 does)"));
        assert_eq!(no_rank(0, 1), [None, said("rank 0 joins (it leads)")]);
    }

    #[test]
    fn many_ranks_are_named_in_few_words() {
        for (ranks, words) in [
            (vec![3], "rank 3"),
            (vec![1, 2], "ranks 1, 2"),
            (vec![1, 4, 5, 6, 9], "ranks 1, 4 to 6, 9"),
            (
                (0..40).step_by(2).collect(),
                "ranks 0, 2, 4, 6, 8, 10, 12, 14, others",
            ),
        ] {
            assert_eq!(named(&ranks), words);
        }
    }
}
