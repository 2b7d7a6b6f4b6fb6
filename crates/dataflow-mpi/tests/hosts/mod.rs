//! Several hosts on one machine, as far as sockets know.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Network namespaces, joined by a switch in one more; gone when dropped.
pub struct Hosts {
    id: String,
    n_hosts: u32,
}

/// Their addresses, by rank.
pub const ADDRESSES: [&str; 3] = ["10.77.0.1", "10.77.0.2", "10.77.0.3"];

impl Hosts {
    /// So many of them, three at most; or why there are none.
    pub fn new(n_hosts: u32) -> Result<Self, &'static str> {
        static SETS: AtomicU32 = AtomicU32::new(0);
        let set = SETS.fetch_add(1, Ordering::Relaxed);
        let hosts = Hosts {
            id: format!("{}-{set}", std::process::id()),
            n_hosts,
        };
        let switch = hosts.switch();
        if !ip(&format!("netns add {switch}")) {
            return Err("this user or machine cannot make network namespaces (`ip netns add`)");
        }
        must(&format!("-n {switch} link add switch type bridge"));
        must(&format!("-n {switch} link set switch up"));
        for rank in 0..n_hosts {
            let host = hosts.name(rank);
            let address = ADDRESSES[rank as usize];
            must(&format!("netns add {host}"));
            must(&format!(
                "link add cable netns {host} type veth peer name port{rank} netns {switch}"
            ));
            must(&format!("-n {switch} link set port{rank} master switch up"));
            must(&format!("-n {host} addr add {address}/24 dev cable"));
            must(&format!("-n {host} link set lo up"));
            must(&format!("-n {host} link set cable up"));
        }
        Ok(hosts)
    }

    /// What a command on the host of a rank begins with.
    pub fn on(&self, rank: u32) -> [String; 4] {
        ["ip", "netns", "exec", &self.name(rank)].map(String::from)
    }

    /// What each host sends leaves it at this rate from now on, as `tc` writes it (`300mbit`); `false` if
    /// this machine cannot do that.
    #[allow(dead_code)] // each test uses its part
    pub fn limit(&self, rate: &str) -> bool {
        // Packets of sixteen kilobytes are few, and no more leaves at once.
        let packets = "mtu 16000 gso_max_size 16000";
        (0..self.n_hosts).all(|rank| {
            let (host, switch) = (self.name(rank), self.switch());
            ip(&format!("-n {switch} link set port{rank} {packets}"))
                && ip(&format!("-n {host} link set cable {packets}"))
                && ran("tc", &format!("-n {host} qdisc replace dev cable root tbf rate {rate} burst 16384 limit 16000000"))
        })
    }

    /// Pulls out the cable of a host.
    #[allow(dead_code)] // each test uses its part
    pub fn cut(&self, rank: u32) {
        must(&format!("-n {} link set port{rank} down", self.switch()));
    }

    /// Loses what a host sends and is sent, a moment long, so many times.
    #[allow(dead_code)] // each test uses its part
    pub fn lose(&self, rank: u32, times: usize) {
        for _ in 0..times {
            self.cut(rank);
            thread::sleep(Duration::from_millis(20));
            must(&format!("-n {} link set port{rank} up", self.switch()));
            thread::sleep(Duration::from_millis(80));
        }
    }

    /// Segments that the host of a rank had to send again.
    #[allow(dead_code)] // each test uses its part
    pub fn sent_again(&self, rank: u32) -> u64 {
        let [ip, words @ ..] = self.on(rank);
        let mut command = Command::new(ip);
        let out = command.args(words).args(["cat", "/proc/net/snmp"]).output();
        let text = String::from_utf8(out.unwrap().stdout).unwrap();
        let mut of_tcp = text.lines().filter(|line| line.starts_with("Tcp:"));
        let (names, values) = (of_tcp.next().unwrap(), of_tcp.next().unwrap());
        let mut both = names.split(' ').zip(values.split(' '));
        let found = both.find(|(name, _)| *name == "RetransSegs");
        found.unwrap().1.parse().unwrap()
    }

    /// What two hosts say to each other goes nowhere from now on, and neither hears of it; they
    /// reach the others.
    #[allow(dead_code)] // each test uses its part
    pub fn part(&self, a: u32, b: u32) {
        for (from, to) in [(a, b), (b, a)] {
            let (host, nobody) = (self.name(from), "02:00:00:00:00:99");
            let address = ADDRESSES[to as usize];
            must(&format!(
                "-n {host} neigh replace {address} lladdr {nobody} dev cable nud permanent"
            ));
        }
    }

    fn name(&self, rank: u32) -> String {
        format!("df-{}-{rank}", self.id)
    }

    fn switch(&self) -> String {
        format!("df-{}-switch", self.id)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for rank in 0..self.n_hosts {
            ip(&format!("netns del {}", self.name(rank)));
        }
        ip(&format!("netns del {}", self.switch()));
    }
}

fn must(line: &str) {
    assert!(ip(line), "ip {line}");
}

/// Runs `ip`, which root may.
fn ip(line: &str) -> bool {
    ran("ip", line)
}

fn ran(program: &str, line: &str) -> bool {
    let mut program = Command::new(program);
    let status = program.args(line.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
