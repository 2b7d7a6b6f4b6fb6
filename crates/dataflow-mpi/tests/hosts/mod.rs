//! Two hosts on one machine, as far as sockets know.

use std::process::{Command, Stdio};

/// Two network namespaces, joined by a cable; gone when dropped.
pub struct Hosts(u32);

/// Their addresses, by rank.
pub const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

impl Hosts {
    /// None, said aloud, if this user or machine cannot.
    pub fn new() -> Option<Self> {
        let id = std::process::id();
        let (a, b) = (format!("df-{id}-a"), format!("df-{id}-b"));
        if !ip(&format!("netns add {a}")) {
            eprintln!(
                "skipped: this user or machine cannot make network namespaces (`ip netns add`)"
            );
            return None;
        }
        let hosts = Hosts(id);
        let [first, second] = ADDRESSES;
        let cable = [
            format!("netns add {b}"),
            format!("link add v{id}a netns {a} type veth peer name v{id}b netns {b}"),
            format!("-n {a} addr add {first}/24 dev v{id}a"),
            format!("-n {b} addr add {second}/24 dev v{id}b"),
            format!("-n {a} link set v{id}a up"),
            format!("-n {b} link set v{id}b up"),
        ];
        for line in cable {
            assert!(ip(&line), "ip {line}");
        }
        Some(hosts)
    }

    /// What a command on the host of a rank begins with.
    pub fn on(&self, rank: u32) -> [String; 4] {
        ["ip", "netns", "exec", &self.name(rank)].map(String::from)
    }

    /// Pulls the cable out.
    #[allow(dead_code)] // each test uses its part
    pub fn cut(&self) {
        assert!(ip(&format!(
            "-n {} link set v{}b down",
            self.name(1),
            self.0
        )));
    }

    fn name(&self, rank: u32) -> String {
        format!("df-{}-{}", self.0, ["a", "b"][rank as usize])
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for rank in 0..2 {
            ip(&format!("netns del {}", self.name(rank)));
        }
    }
}

/// Runs `ip`, which root may.
fn ip(line: &str) -> bool {
    let mut ip = Command::new("ip");
    let status = ip.args(line.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
