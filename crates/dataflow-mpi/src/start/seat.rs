//! The seat: what a process must know to become a rank over sockets.

use super::addresses::{addresses, is_link_local, listened, with_port};
use crate::settings::Settings;
use crate::transport::tcp::{Mesh, Tcp, Token};
use crate::transport::{Event, Transport};
use dataflow_core::error::{Error, Kind};
use dataflow_core::rank::Rank;
use dataflow_core::words::counted;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

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

const RANK: &str = "DATAFLOW_TCP_RANK";
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
    /// [`Launched::rank_of`](super::Launched::rank_of). `None` if no rank is set there, or it is no number.
    pub fn rank_of(variable: impl Fn(&str) -> Option<String>) -> Option<Rank> {
        read(RANK, &variable(RANK)?).ok().map(Rank)
    }

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

    /// Whether others are told of an address that means nothing elsewhere. Nobody is told where rank 0
    /// listens, and of two ranks only the second calls.
    fn is_lost_on_the_way(&self, at: &SocketAddr) -> bool {
        let is_told = self.rank != Rank(0) && self.n_ranks > 2;
        // A rank that listens everywhere is found at the address from which it calls rank 0.
        let is_seen_there = |at: &SocketAddr| match at.ip().is_unspecified() {
            true => self.root.iter().all(is_link_local),
            false => is_link_local(at),
        };
        is_told && is_seen_there(at)
    }

    /// Where the others find this rank.
    fn listener(&self) -> Result<TcpListener, Error> {
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

    /// As variables of a process's environment.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
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

fn read<T: FromStr>(name: &str, value: &str) -> Result<T, Error> {
    let wrong = |_| Error::wrong_settings(format!("{name} is {value:?} (a number is needed)"));
    value.trim().parse().map_err(wrong)
}

/// How many hosts are.
fn named(n_hosts: usize) -> String {
    let are = if n_hosts == 1 { "is" } else { "are" };
    format!("{n_hosts} {are} named")
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use std::io::Write;

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

    /// It waited for a word of the stranger for ever, or ended with an error.
    #[test]
    #[cfg(unix)]
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
