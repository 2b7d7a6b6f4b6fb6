//! The seat: what a process must know to become a rank over sockets.

use crate::transport::tcp::{Mesh, Tcp, Token};
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// Which rank a process is, and where it finds the others.
///
/// Started processes get it in their environment; by hand it comes from flags or a file of hosts.
/// The token is never part of a command line, where everybody on the machine could read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Which rank.
    pub rank: Rank,
    /// Of how many.
    pub n_ranks: usize,
    /// Where rank 0 listens.
    pub root: SocketAddr,
    /// Where this rank listens; port 0 is any.
    pub listen: SocketAddr,
    /// What all ranks know.
    pub token: Token,
}

const RANK: &str = "DATAFLOW_TCP_RANK";
const RANKS: &str = "DATAFLOW_TCP_RANKS";
const ROOT: &str = "DATAFLOW_TCP_ROOT";
const LISTEN: &str = "DATAFLOW_TCP_LISTEN";
const TOKEN: &str = "DATAFLOW_TOKEN";

impl Seat {
    /// What the environment says, asked for by name; none if it says nothing of a rank.
    ///
    /// `DATAFLOW_TCP_RANK`, `DATAFLOW_TCP_RANKS`, `DATAFLOW_TCP_ROOT` (address and port of rank 0),
    /// `DATAFLOW_TOKEN` (64 hexadecimal digits) and, unless it is this machine alone,
    /// `DATAFLOW_TCP_LISTEN` (address and port of this rank).
    ///
    /// # Errors
    /// If one is missing or wrong (`wrong_settings`): its name, value and what is allowed.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        let Some(rank) = variable(RANK) else {
            return Ok(None);
        };
        let text = |name: &str| {
            let missing = || Error::wrong_settings(format!("{RANK} is set, but not {name}"));
            variable(name).ok_or_else(missing)
        };
        let rank = Rank(read(RANK, &rank)?);
        let root = address(&text(ROOT)?)?;
        let listen = match variable(LISTEN) {
            Some(listen) => address(&listen)?,
            None if rank == Rank(0) => root,
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        };
        let seat = Seat {
            rank,
            n_ranks: read(RANKS, &text(RANKS)?)?,
            root,
            listen,
            token: token(&variable)?,
        };
        seat.checked().map(Some)
    }

    /// The seat of a rank among hosts: their addresses by rank, rank 0's with its port.
    ///
    /// # Errors
    /// If an address is wrong or the rank has none (`wrong_settings`).
    pub fn among(hosts: &[String], rank: Rank, token: Token) -> Result<Self, Error> {
        let host = |rank: usize| {
            let none = || {
                Error::wrong_settings(format!(
                    "rank {rank} has no host ({} are named)",
                    hosts.len()
                ))
            };
            let host = hosts.get(rank).ok_or_else(none)?;
            let has_port = host.parse::<SocketAddr>().is_ok()
                || host
                    .rsplit_once(':')
                    .is_some_and(|(name, _)| !name.contains(':'));
            if has_port {
                address(host)
            } else {
                address(&format!("{host}:0"))
            }
        };
        let seat = Seat {
            rank,
            n_ranks: hosts.len(),
            root: host(0)?,
            listen: host(rank.0 as usize)?,
            token,
        };
        seat.checked()
    }

    /// The hosts of a file's text: one a line, by rank; what follows `#` is not read.
    ///
    /// # Examples
    /// ```
    /// use dataflow_mpi::start::Seat;
    /// let hosts = Seat::hosts("10.0.0.1:4000  # rank 0\n\n10.0.0.2\n");
    /// assert_eq!(hosts, ["10.0.0.1:4000", "10.0.0.2"]);
    /// ```
    pub fn hosts(text: &str) -> Vec<String> {
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(line).trim());
        lines
            .filter(|line| !line.is_empty())
            .map(String::from)
            .collect()
    }

    /// The token in the environment (`DATAFLOW_TOKEN`).
    ///
    /// # Errors
    /// If there is none, or it is no token (`wrong_settings`).
    pub fn token(variable: impl Fn(&str) -> Option<String>) -> Result<Token, Error> {
        token(&variable)
    }

    /// Which rank of this machine it is, and how many there are: all, if they are reached without
    /// leaving it; else it is taken to be alone.
    pub fn here(&self) -> (usize, usize) {
        match self.root.ip().is_loopback() {
            true => (self.rank.0 as usize, self.n_ranks),
            false => (0, 1),
        }
    }

    fn checked(self) -> Result<Self, Error> {
        let wrong = |text: String| Err(Error::wrong_settings(text));
        if self.rank.0 as usize >= self.n_ranks {
            return wrong(format!(
                "{} of {} ranks (they begin at 0)",
                self.rank, self.n_ranks
            ));
        }
        if self.root.port() == 0 {
            return wrong(format!(
                "rank 0 listens at {} (a port other than 0 is needed)",
                self.root
            ));
        }
        Ok(self)
    }

    /// Takes it: waits until all ranks are there, at most so long.
    ///
    /// # Errors
    /// As [`Mesh::join`].
    pub fn take(&self, patience: Duration) -> Result<Tcp, Error> {
        let listener = TcpListener::bind(self.listen).map_err(|fault| {
            Error::wrong_settings(format!(
                "{} cannot listen at {}: {fault}",
                self.rank, self.listen
            ))
        })?;
        let mut mesh = Mesh::new(self.rank, self.n_ranks, self.token);
        mesh.patience = patience;
        if self.rank == Rank(0) {
            mesh.lead(listener, &mut || None)
        } else {
            mesh.join(self.root, listener)
        }
    }

    /// As variables of a process's environment.
    pub(super) fn variables(&self) -> [(&'static str, String); 5] {
        [
            (RANK, self.rank.0.to_string()),
            (RANKS, self.n_ranks.to_string()),
            (ROOT, self.root.to_string()),
            (LISTEN, self.listen.to_string()),
            (TOKEN, self.token.to_string()),
        ]
    }
}

fn token(variable: &impl Fn(&str) -> Option<String>) -> Result<Token, Error> {
    let Some(text) = variable(TOKEN) else {
        let text = format!(
            "{TOKEN} is not set: all ranks must know the same 64 hexadecimal digits (`openssl rand -hex 32`)"
        );
        return Err(Error::wrong_settings(text));
    };
    // Its value is nobody's business.
    let parsed = text.trim().parse::<Token>();
    parsed.map_err(|fault| Error::wrong_settings(format!("{TOKEN} is wrong: {fault}")))
}

fn read<T: FromStr>(name: &str, value: &str) -> Result<T, Error> {
    let wrong = |_| Error::wrong_settings(format!("{name} is {value:?} (a number is needed)"));
    value.trim().parse().map_err(wrong)
}

fn address(text: &str) -> Result<SocketAddr, Error> {
    let resolved = text.to_socket_addrs();
    let first = resolved.map(|mut addresses| addresses.next());
    match first {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Error::wrong_settings(format!("{text:?} has no address"))),
        Err(fault) => Err(Error::wrong_settings(format!(
            "{text:?} is no address (like 10.0.0.1:4000): {fault}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_what_was_put_into_the_environment() {
        let seat = Seat {
            rank: Rank(2),
            n_ranks: 3,
            root: "127.0.0.1:4000".parse().unwrap(),
            listen: "10.0.0.3:0".parse().unwrap(),
            token: Token::random().unwrap(),
        };
        let variables = seat.variables();
        let of = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(Seat::of(of).unwrap(), Some(seat));
        assert_eq!(Seat::of(|_| None).unwrap(), None);
        for (name, _) in &variables {
            let lacking = Seat::of(|wanted| of(wanted).filter(|_| wanted != *name));
            assert_eq!(lacking.is_err(), ![RANK, LISTEN].contains(name), "{name}");
            let wrong = Seat::of(|wanted| {
                if wanted == *name {
                    Some("x".into())
                } else {
                    of(wanted)
                }
            });
            assert!(wrong.is_err(), "{name}");
        }
    }

    #[test]
    fn hosts_give_each_rank_its_address_and_all_the_same_root() {
        let hosts = Seat::hosts("# ours\n10.0.0.1:4000\n10.0.0.2 # no port\n[::1]:5000\n");
        let token = Token::random().unwrap();
        for (rank, listen) in ["10.0.0.1:4000", "10.0.0.2:0", "[::1]:5000"]
            .into_iter()
            .enumerate()
        {
            let seat = Seat::among(&hosts, Rank(rank as u32), token).unwrap();
            assert_eq!(seat.root.to_string(), "10.0.0.1:4000");
            assert_eq!(
                (seat.listen.to_string().as_str(), seat.n_ranks),
                (listen, 3)
            );
        }
        assert!(Seat::among(&hosts, Rank(3), token).is_err());
        assert!(Seat::among(&Seat::hosts("10.0.0.1\n10.0.0.2"), Rank(1), token).is_err());
    }
}
