//! Listener: where the others find a rank.

use super::Seat;
use crate::start::addresses::is_link_local;
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use std::io;
use std::net::{SocketAddr, TcpListener};

impl Seat {
    /// Where the others find this rank.
    pub(super) fn listener(&self) -> Result<TcpListener, Error> {
        self.listen().map_err(|fault| {
            let at: Vec<String> = self.listen.iter().map(SocketAddr::to_string).collect();
            let ports = self.ports.as_ref();
            let ports = ports.map(|all| format!(", ports {} to {}", all.start(), all.end()));
            Error::wrong_settings(format!(
                "{} cannot listen at {}{}: {fault}",
                self.rank,
                at.join(" or "),
                ports.unwrap_or_default(),
            ))
        })
    }

    /// At the first address, and there the first port, that the system gives.
    fn listen(&self) -> io::Result<TcpListener> {
        let mut last = io::Error::other("no address was named");
        let listen = self.listen.iter();
        for address in listen.filter(|at| !self.is_lost_on_the_way(at)) {
            let ports = match &self.ports {
                Some(ports) if address.port() == 0 => ports.clone(),
                _ => address.port()..=address.port(),
            };
            // Ranks of one machine begin at different ones.
            let many = usize::from(*ports.end() - *ports.start()) + 1;
            let in_turn = ports.clone().cycle().skip(self.rank.0 as usize % many);
            for port in in_turn.take(many) {
                let mut at = *address; // with its scope, if it has one
                at.set_port(port);
                match TcpListener::bind(at) {
                    Ok(listener) => return Ok(listener),
                    Err(fault) => last = fault,
                }
            }
        }
        Err(last)
    }

    /// Whether others are told of an address that means nothing elsewhere. Nobody is told where rank 0
    /// listens, and of two ranks only the second calls.
    pub(super) fn is_lost_on_the_way(&self, at: &SocketAddr) -> bool {
        let is_told = self.rank != Rank(0) && self.n_ranks > 2;
        // A rank that listens everywhere is found at the address from which it calls rank 0.
        let is_seen_there = |at: &SocketAddr| match at.ip().is_unspecified() {
            true => self.root.iter().all(is_link_local),
            false => is_link_local(at),
        };
        is_told && is_seen_there(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::transport::tcp::Token;

    /// They were told others without the number of the link, and nobody reached them there.
    #[test]
    fn a_link_local_address_that_others_would_be_told_is_refused_or_left_out() {
        let token = Token::random().unwrap();
        let seat = |hosts: &[&str], rank| {
            let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
            Seat::among(&hosts, Rank(rank), token)
        };
        let [root, second, global] = ["[fe80::1%1]:4000", "[fe80::2%1]:0", "[fd00::2]:0"];
        for (hosts, rank, is_good) in [
            (&[root, second][..], 1, true),
            (&[root, second, second], 0, true),
            (&[root, second, second], 1, false),
            (&[root, "[::]:0", second], 1, false),
            (&[root, global, global], 1, true),
            (&["10.0.0.1:4000", "[::]:0", global], 1, true),
        ] {
            let seat = seat(hosts, rank);
            assert_eq!(seat.is_ok(), is_good, "{hosts:?}: {seat:?}");
        }
        let refused = seat(&[root, second, second], 2).unwrap_err().to_string();
        assert!(
            refused.contains("rank 2 listens at [fe80::2%1]:0"),
            "{refused}"
        );
        let both = Seat {
            listen: vec![second.parse().unwrap(), "127.0.0.1:0".parse().unwrap()],
            ..seat(&[root, global, global], 1).unwrap()
        };
        let listener = both.checked().unwrap().listen().unwrap();
        assert!(listener.local_addr().unwrap().is_ipv4());
    }

    /// A link-local address of this machine, with the number of its link.
    #[cfg(target_os = "linux")]
    fn of_this_machine() -> Option<SocketAddr> {
        let known = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
        known.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let ip = u128::from_str_radix(words.next()?, 16).ok()?;
            let link = u32::from_str_radix(words.next()?, 16).ok()?;
            let at = std::net::SocketAddrV6::new(ip.into(), 0, 0, link);
            Some(at.into()).filter(is_link_local)
        })
    }

    /// The number of the link was dropped, and the system refused the address.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_second_of_two_ranks_listens_at_a_link_local_address() {
        let Some(at) = of_this_machine() else {
            println!("skipped: this machine has no link-local address");
            return;
        };
        let hosts = ["[fe80::1%1]:4000".into(), at.to_string()];
        let seat = Seat::among(&hosts, Rank(1), Token::random().unwrap()).unwrap();
        let listens = seat.listen().unwrap().local_addr().unwrap();
        assert_eq!(listens.ip(), at.ip());
    }

    #[test]
    fn ranks_take_ports_of_the_range_and_say_so_when_none_is_left() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let seat = Seat {
            ports: Some(port..=port),
            ..Seat::among(
                &["127.0.0.1:9".into(), "127.0.0.1".into()],
                Rank(1),
                Token::random().unwrap(),
            )
            .unwrap()
        };
        let settings = Settings::default();
        // One that stayed ended as if all had gone well.
        for refused in [seat.take(&settings).map(Some), seat.stay(&settings)] {
            let error = refused.unwrap_err().to_string();
            let says = format!("ports {port} to {port}");
            assert!(error.contains(&says), "{error}");
        }
        drop(first);
        assert_eq!(seat.listen().unwrap().local_addr().unwrap().port(), port);
    }
}
