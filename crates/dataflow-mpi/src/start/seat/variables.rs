//! Variables: a seat in the environment of a process.

use super::Seat;
use crate::start::addresses::addresses;
use crate::transport::tcp::Token;
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

pub(super) const RANK: &str = "DATAFLOW_TCP_RANK";
const RANKS: &str = "DATAFLOW_TCP_RANKS";
const ROOT: &str = "DATAFLOW_TCP_ROOT";
const LISTEN: &str = "DATAFLOW_TCP_LISTEN";
const PORTS: &str = "DATAFLOW_PORTS";
const TOKEN: &str = "DATAFLOW_TOKEN";
const STARTED: &str = "DATAFLOW_TCP_STARTED";

impl Seat {
    /// Reads the seat from the environment through `variable`; `None` if no rank is set there.
    ///
    /// `DATAFLOW_TCP_RANK`, `DATAFLOW_TCP_RANKS`, `DATAFLOW_TCP_ROOT` (address and port of rank 0),
    /// `DATAFLOW_TOKEN` (64 hexadecimal digits) and, unless it is this machine alone,
    /// `DATAFLOW_TCP_LISTEN` (address and port of this rank); `DATAFLOW_PORTS` (like `4001-4100`)
    /// says of which ports a rank takes one where any would do.
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
        let root = addresses(&text(ROOT)?)?;
        let listen = match variable(LISTEN) {
            Some(listen) => addresses(&listen)?,
            None if rank == Rank(0) => root.clone(),
            None => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        };
        let seat = Seat {
            rank,
            n_ranks: read(RANKS, &text(RANKS)?)?,
            root,
            listen,
            ports: Seat::ports(&variable)?,
            token: Seat::token(&variable)?,
            started_by: match variable(STARTED) {
                Some(starter) => Some(read(STARTED, &starter)?),
                None => None,
            },
        };
        seat.checked().map(Some)
    }

    /// Which rank the environment says that this process is, whatever else it says, as
    /// [`Launched::rank_of`](crate::start::Launched::rank_of). `None` if no rank is set there, or it is no number.
    pub fn rank_of(variable: impl Fn(&str) -> Option<String>) -> Option<Rank> {
        read(RANK, &variable(RANK)?).ok().map(Rank)
    }

    /// The ports in the environment (`DATAFLOW_PORTS`, like `4001-4100`); none if it says nothing.
    ///
    /// # Errors
    /// If it says something else (`wrong_settings`).
    pub fn ports(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<RangeInclusive<u16>>, Error> {
        let Some(text) = variable(PORTS) else {
            return Ok(None);
        };
        let wrong = || {
            Error::wrong_settings(format!(
                "{PORTS} is {text:?} (a range like 4001-4100 is needed)"
            ))
        };
        Seat::port_range(&text).map(Some).ok_or_else(wrong)
    }

    /// A range of ports from text like `4001-4100`; `None` if it is anything else.
    ///
    /// # Examples
    /// ```
    /// use dataflow_mpi::start::Seat;
    /// assert_eq!(Seat::port_range("4001-4100"), Some(4001..=4100));
    /// assert_eq!(Seat::port_range("4100-4001"), None);
    /// ```
    pub fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
        let (first, last) = text.split_once('-')?;
        let [first, last] = [first, last].map(|port| port.trim().parse().ok());
        let range = first?..=last?;
        (!range.is_empty() && *range.start() > 0).then_some(range)
    }

    /// The token in the environment (`DATAFLOW_TOKEN`).
    ///
    /// # Errors
    /// If there is none, or it is no token (`wrong_settings`).
    pub fn token(variable: impl Fn(&str) -> Option<String>) -> Result<Token, Error> {
        let Some(text) = variable(TOKEN) else {
            return Err(Error::wrong_settings(format!(
                "{TOKEN} is not set: all ranks must know the same 64 hexadecimal digits (`openssl rand -hex 32`)"
            )));
        };
        // Its value is nobody's business.
        let parsed = text.trim().parse::<Token>();
        parsed.map_err(|fault| Error::wrong_settings(format!("{TOKEN} is wrong: {fault}")))
    }

    /// As variables of a process's environment.
    pub(in crate::start) fn variables(&self) -> Vec<(&'static str, String)> {
        let listed = |addresses: &[SocketAddr]| {
            let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
            addresses.join(",")
        };
        let starter = self
            .started_by
            .map(|starter| (STARTED, starter.to_string()));
        let seat = [
            (RANK, self.rank.0.to_string()),
            (RANKS, self.n_ranks.to_string()),
            (ROOT, listed(&self.root)),
            (LISTEN, listed(&self.listen)),
            (TOKEN, self.token.to_string()),
        ];
        seat.into_iter().chain(starter).collect()
    }
}

fn read<T: FromStr>(name: &str, value: &str) -> Result<T, Error> {
    let wrong = |_| Error::wrong_settings(format!("{name} is {value:?} (a number is needed)"));
    value.trim().parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::seat::MOST_RANKS;

    #[test]
    fn a_seat_is_what_was_put_into_the_environment() {
        let seat = Seat {
            rank: Rank(2),
            n_ranks: 3,
            root: vec![
                "127.0.0.1:4000".parse().unwrap(),
                "[::1]:4000".parse().unwrap(),
            ],
            listen: vec!["10.0.0.3:0".parse().unwrap()],
            ports: None,
            token: Token::random().unwrap(),
            started_by: Some(7),
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
            let may_lack = [RANK, LISTEN, STARTED].contains(name);
            assert_eq!(lacking.is_err(), !may_lack, "{name}");
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

    /// A rank other than 0 made room for all of them, and the system ended its process.
    #[test]
    fn more_ranks_than_a_process_can_be_connected_to_are_refused() {
        let token = Token::random().unwrap().to_string();
        let seat = |n_ranks: usize| {
            Seat::of(|name| match name {
                RANK => Some("1".into()),
                RANKS => Some(n_ranks.to_string()),
                ROOT => Some("127.0.0.1:4000".into()),
                TOKEN => Some(token.clone()),
                _ => None,
            })
        };
        assert!(seat(MOST_RANKS).is_ok());
        let refused = seat(100_000_000_000).unwrap_err().to_string();
        assert!(refused.contains("(at most 1048576)"), "{refused}");
    }
}
