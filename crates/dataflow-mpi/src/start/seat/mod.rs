//! The seat: what a process must know to become a rank over sockets; it is taken here.
//!
//! # Elsewhere
//! In the environment: `variables`. From a list of hosts: `hosts`. Where the others find its rank: `listener`.

mod hosts;
mod listener;
mod variables;

use crate::settings::Settings;
use crate::transport::tcp::{Mesh, Tcp, Token};
use crate::transport::{Event, Transport};
use dataflow_core::error::{Error, Kind};
use dataflow_core::rank::Rank;
use dataflow_core::words::counted;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;
use variables::RANK;

/// Longer than any program runs.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What rank 0 says to those that stay when it launches again.
pub(super) const AGAIN: &[u8] = b"again";

/// Which rank a process is, and where it finds the others.
///
/// Started processes get it in their environment; by hand it comes from flags or a file of hosts.
/// The token is never part of a command line, where everybody on the machine could read it.
///
/// # Examples
/// What the environment of a rank says; `std::env::var_os(name)?.to_string_lossy()` reads that of this process,
/// with marks where it is not Unicode, which are refused by the variable's name:
/// ```
/// use dataflow_mpi::start::Seat;
///
/// let variable = |name: &str| match name {
///     "DATAFLOW_TCP_RANK" => Some("1".to_string()),
///     "DATAFLOW_TCP_RANKS" => Some("2".to_string()),
///     "DATAFLOW_TCP_ROOT" => Some("127.0.0.1:4000".to_string()),
///     _ => None,
/// };
/// let refused = Seat::of(variable).unwrap_err();
/// assert_eq!(refused.name(), "wrong_settings");
/// let text = "DATAFLOW_TOKEN is not set: all ranks must know the same 64 hexadecimal digits";
/// assert!(refused.to_string().starts_with(text));
///
/// let secret = "0f".repeat(32);
/// let with_token = |name: &str| match name {
///     "DATAFLOW_TOKEN" => Some(secret.clone()),
///     _ => variable(name),
/// };
/// let seat = Seat::of(with_token)?.expect("a rank is set");
/// assert_eq!((seat.rank.0, seat.n_ranks), (1, 2));
/// assert_eq!(seat.root, ["127.0.0.1:4000".parse().unwrap()]);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Which rank.
    pub rank: Rank,
    /// Of how many.
    pub n_ranks: usize,
    /// Where rank 0 listens: all addresses of its name, which are tried in turn.
    pub root: Vec<SocketAddr>,
    /// Where this rank listens: at the first of these that it can; port 0 is any.
    pub listen: Vec<SocketAddr>,
    /// The range from which it chooses its port where any would do, for firewalls.
    pub ports: Option<RangeInclusive<u16>>,
    /// What all ranks know.
    pub token: Token,
    /// The process of rank 0, if it has started that of this rank, which is there for its part only.
    pub started_by: Option<u32>,
}

/// Rank 0 is connected to all others, and Linux by itself opens no more files for a process.
const MOST_RANKS: usize = 1 << 20;

impl Seat {
    /// Takes the seat: waits until all ranks are there, at most as long as the settings' patience.
    ///
    /// # Errors
    /// If it is the seat of the process that has started this one (`wrong_settings`); as [`Mesh::lead`] and
    /// [`Mesh::join`].
    pub fn take(&self, settings: &Settings) -> Result<Tcp, Error> {
        if self.started_by.is_some_and(is_inherited) {
            return Err(Error::wrong_settings(format!(
                "{RANK} names the seat of a process that has started this one: {} of {} (variables that \
                 begin with DATAFLOW_TCP_ are not to be handed on)",
                self.rank, self.n_ranks
            )));
        }
        let listener = self.listener()?;
        let mut mesh = Mesh::new(self.rank, self.n_ranks, self.token);
        mesh.patience = settings.patience;
        mesh.silence = settings.silence;
        if self.rank == Rank(0) {
            mesh.lead(listener, &mut || None)
        } else {
            mesh.join(&self.root, listener)
        }
    }

    /// To be called when this rank's part has ended well: waits until rank 0 launches again, and returns
    /// the connections for that; `None` if rank 0's process has ended, whoever listens in its place.
    ///
    /// Only for processes that rank 0 [has started](Self::started_by).
    ///
    /// # Errors
    /// If the operating system refuses (`wrong_settings`).
    pub fn stay(&self, settings: &Settings) -> Result<Option<Tcp>, Error> {
        let listener = self.listener()?;
        let mut mesh = Mesh::new(self.rank, self.n_ranks, self.token);
        mesh.patience = FOREVER;
        mesh.silence = settings.silence; // rank 0 has the same, and counts this one as lost after it
        mesh.started_by = self.started_by;
        mesh.log = |_| {}; // rank 0 says whom it waits for
        let mut tcp = match mesh.join(&self.root, listener) {
            Ok(tcp) => tcp,
            Err(lost) if lost.kind() == Kind::RankLost => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let Some(bell) = tcp.bell(&*mesh.host) else {
            unreachable!("sockets have one");
        };
        loop {
            match tcp.poll() {
                Some(Event::Packet { from, bytes }) if from == Rank(0) && bytes == AGAIN => {
                    return Ok(Some(tcp));
                }
                Some(Event::Lost(Rank(0), _)) => return Ok(None),
                Some(_) => {}
                None => bell.wait(None),
            }
        }
    }

    /// The seat, if it is one that can be taken.
    fn checked(self) -> Result<Self, Error> {
        let wrong = |text: String| Err(Error::wrong_settings(text));
        if self.rank.0 as usize >= self.n_ranks {
            return wrong(format!(
                "{} of {} (they begin at 0)",
                self.rank,
                counted(self.n_ranks, "rank")
            ));
        }
        if self.n_ranks > MOST_RANKS {
            return wrong(format!("{} ranks (at most {MOST_RANKS})", self.n_ranks));
        }
        if self.listen.iter().all(|at| self.is_lost_on_the_way(at)) && !self.listen.is_empty() {
            let at: Vec<String> = self.listen.iter().map(SocketAddr::to_string).collect();
            return wrong(format!(
                "{} listens at {}, and other ranks are told where: of a link-local address of IPv6 \
                 each machine has its own (another address is needed)",
                self.rank,
                at.join(" or ")
            ));
        }
        if let Some(root) = self.root.iter().find(|root| root.port() == 0) {
            return wrong(format!(
                "rank 0 listens at {root} (a port other than 0 is needed)"
            ));
        }
        Ok(self)
    }
}

/// Whether this process has a started rank's environment and is not that rank: the starter lives, and is
/// not its parent. Where the system does not say who lives, nobody is taken for an heir.
#[cfg(target_os = "linux")]
fn is_inherited(starter: u32) -> bool {
    let lives = std::path::Path::new(&format!("/proc/{starter}")).exists();
    lives && std::os::unix::process::parent_id() != starter
}

#[cfg(not(target_os = "linux"))]
fn is_inherited(_: u32) -> bool {
    false
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// It waited for a word of the stranger for ever, or ended with an error.
    #[test]
    fn a_rank_that_stays_ends_with_rank_0_also_if_a_stranger_listens_in_its_place() {
        for speaks in [false, true] {
            let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
            let hosts = [
                stranger.local_addr().unwrap().to_string(),
                "127.0.0.1".into(),
            ];
            std::thread::spawn(move || {
                let callers: Vec<_> = stranger.incoming().flatten().take(1).collect();
                let words: &[u8] = if speaks { b"HTTP/1.1 400\r\n" } else { b"" };
                callers
                    .iter()
                    .for_each(|mut caller| caller.write_all(words).unwrap());
                std::thread::park(); // connected
            });
            let seat = Seat {
                started_by: Some(std::process::id()), // who is not its own parent
                ..Seat::among(&hosts, Rank(1), Token::random().unwrap()).unwrap()
            };
            let (tell, told) = std::sync::mpsc::channel();
            let stay = move || seat.stay(&Settings::default()).map(|again| again.is_some());
            std::thread::spawn(move || tell.send(stay()));
            let ended = told.recv_timeout(Duration::from_secs(60));
            assert!(!ended.expect("it ends").unwrap(), "rank 0 launches again");
        }
    }
}
