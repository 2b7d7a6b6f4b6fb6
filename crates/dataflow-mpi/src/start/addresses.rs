//! Addresses: where ranks listen and are called, from the names of their hosts.

use dataflow_core::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// A host with its port, or with any.
pub(super) fn with_port(host: &str) -> String {
    let names_one = |(name, _): (&str, &str)| !name.contains(':');
    let has_port =
        host.parse::<SocketAddr>().is_ok() || host.rsplit_once(':').is_some_and(names_one);
    match has_port {
        true => host.into(),
        false if host.parse::<Ipv6Addr>().is_ok() => format!("[{host}]:0"),
        false => format!("{host}:0"),
    }
}

/// Where a host listens: at its own addresses, the first that the system gives. If one of them leads back
/// to itself and another host is elsewhere, everywhere; if that has addresses of IPv6, first at all
/// addresses of both kinds, where the system has that.
pub(super) fn listened(
    own: Vec<SocketAddr>,
    others: impl Iterator<Item = Vec<SocketAddr>>,
) -> Vec<SocketAddr> {
    let leads_back = |at: &SocketAddr| at.ip().is_loopback();
    if !own.iter().any(leads_back) {
        return own;
    }
    let elsewhere = others.filter(|at| !at.iter().all(leads_back));
    let elsewhere: Vec<SocketAddr> = elsewhere.flatten().collect();
    match elsewhere.is_empty() {
        true => own,
        false => everywhere(own, elsewhere.iter().any(SocketAddr::is_ipv6)),
    }
}

/// All addresses of the kinds of some, with their ports.
fn everywhere(own: Vec<SocketAddr>, has_v6: bool) -> Vec<SocketAddr> {
    let (v4, v6) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    let mut all: Vec<SocketAddr> = Vec::new();
    for at in own {
        let both = SocketAddr::from((v6, at.port()));
        let own = match at {
            SocketAddr::V4(_) => SocketAddr::from((v4, at.port())),
            SocketAddr::V6(_) => both,
        };
        for at in has_v6.then_some(both).into_iter().chain([own]) {
            if !all.contains(&at) {
                all.push(at);
            }
        }
    }
    all
}

/// Whether an address is one of IPv6 that needs to be told on which link: by a number of each machine's
/// own.
pub(super) fn is_link_local(at: &SocketAddr) -> bool {
    matches!(at, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local())
}

/// All addresses that are named, or that a name has.
pub(super) fn addresses(text: &str) -> Result<Vec<SocketAddr>, Error> {
    let mut all: Vec<SocketAddr> = Vec::new();
    for name in text.split(',') {
        let resolved = name.trim().to_socket_addrs().map_err(|fault| {
            Error::wrong_settings(format!(
                "{name:?} is no address (like 10.0.0.1:4000): {fault}"
            ))
        })?;
        for address in resolved {
            if !all.contains(&address) {
                all.push(address);
            }
        }
    }
    match all.is_empty() {
        true => Err(Error::wrong_settings(format!("{text:?} has no address"))),
        false => Ok(all),
    }
}
