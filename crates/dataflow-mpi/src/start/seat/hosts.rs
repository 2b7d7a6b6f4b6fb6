//! Hosts: a seat from a list of hosts, by rank.

use super::Seat;
use crate::start::addresses::{addresses, listened, with_port};
use crate::transport::tcp::Token;
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;

impl Seat {
    /// The seat of a rank among hosts: their addresses by rank, rank 0's with its port.
    ///
    /// A host whose own name leads back to itself (`127.0.1.1`, as Debian writes into `/etc/hosts`),
    /// if only by one of its addresses, listens at all that it has if another host is elsewhere.
    ///
    /// # Errors
    /// If an address is wrong or the rank has none (`wrong_settings`).
    pub fn among(hosts: &[String], rank: Rank, token: Token) -> Result<Self, Error> {
        let none = || Error::wrong_settings(format!("{rank} has no host ({})", named(hosts.len())));
        let own = hosts.get(rank.0 as usize).ok_or_else(none)?;
        let others = hosts.iter().filter(|host| *host != own);
        let others = others.filter_map(|host| addresses(&with_port(host)).ok());
        let listen = listened(addresses(&with_port(own))?, others);
        let seat = Seat {
            rank,
            n_ranks: hosts.len(),
            root: addresses(&with_port(&hosts[0]))?,
            listen,
            ports: None,
            token,
            started_by: None,
        };
        seat.checked()
    }

    /// The hosts of a file's text: one a line, by rank; what follows `#` is not read, nor is a byte
    /// order mark.
    ///
    /// # Examples
    /// ```
    /// use dataflow_mpi::start::Seat;
    /// let hosts = Seat::hosts("10.0.0.1:4000  # rank 0\n\n10.0.0.2\n");
    /// assert_eq!(hosts, ["10.0.0.1:4000", "10.0.0.2"]);
    /// ```
    pub fn hosts(text: &str) -> Vec<String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(line).trim());
        lines
            .filter(|line| !line.is_empty())
            .map(String::from)
            .collect()
    }
}

/// How many hosts are.
fn named(n_hosts: usize) -> String {
    let are = if n_hosts == 1 { "is" } else { "are" };
    format!("{n_hosts} {are} named")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn hosts_give_each_rank_its_address_and_all_the_same_root() {
        let hosts = Seat::hosts("# ours\n10.0.0.1:4000\n10.0.0.2 # no port\n[::1]:5000\n");
        let token = Token::random().unwrap();
        for (rank, listen) in ["10.0.0.1:4000", "10.0.0.2:0", "[::]:5000"]
            .into_iter()
            .enumerate()
        {
            let seat = Seat::among(&hosts, Rank(rank as u32), token).unwrap();
            assert_eq!(seat.root, ["10.0.0.1:4000".parse().unwrap()]);
            assert_eq!(
                (seat.listen, seat.n_ranks),
                (vec![listen.parse().unwrap()], 3)
            );
        }
        assert!(Seat::among(&hosts, Rank(3), token).is_err());
        assert!(Seat::among(&Seat::hosts("10.0.0.1\n10.0.0.2"), Rank(1), token).is_err());
    }

    #[test]
    fn a_hosts_file_may_begin_with_a_byte_order_mark() {
        assert_eq!(
            Seat::hosts("\u{feff}10.0.0.1:4000\r\n10.0.0.2\r\n"),
            ["10.0.0.1:4000", "10.0.0.2"]
        );
    }

    #[test]
    fn a_host_whose_name_leads_back_to_itself_listens_everywhere_if_others_are_elsewhere() {
        let token = Token::random().unwrap();
        let listens = |hosts: [&str; 2], rank| {
            let hosts = hosts.map(String::from);
            Seat::among(&hosts, Rank(rank), token).unwrap().listen[0].to_string()
        };
        assert_eq!(listens(["10.0.0.1:4000", "127.0.1.1"], 1), "0.0.0.0:0");
        assert_eq!(listens(["127.0.1.1:4000", "10.0.0.2"], 0), "0.0.0.0:4000");
        assert_eq!(listens(["127.0.0.1:4000", "127.0.0.1"], 1), "127.0.0.1:0");
        assert_eq!(listens(["[::1]:4000", "fd00::2"], 0), "[::]:4000");
        // Others call it there, too: where IPv4 and IPv6 have one socket it hears both.
        assert_eq!(listens(["[fd00::1]:4000", "127.0.1.1"], 1), "[::]:0");
        let hosts = ["127.0.1.1:4000", "fd00::2"].map(String::from);
        let both = Seat::among(&hosts, Rank(0), token).unwrap().listen;
        let both: Vec<String> = both.iter().map(SocketAddr::to_string).collect();
        assert_eq!(both, ["[::]:4000", "0.0.0.0:4000"]);
        // One more line of `/etc/hosts` gives the name an address that others reach: the second.
        let twice = addresses("127.0.1.1:4000,10.0.0.1:4000").unwrap();
        let others = |at: &str| [addresses(at).unwrap()].into_iter();
        assert_eq!(listened(twice.clone(), others("127.0.0.1:0")), twice);
        let listen = listened(twice, others("10.0.0.2:0"));
        assert_eq!(listen, addresses("0.0.0.0:4000").unwrap());
    }
}
