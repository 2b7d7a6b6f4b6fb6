//! Wire: two hosts on one machine, joined by a network that is as slow as one likes.
//!
//! Each is a network namespace; the kernel's own queue (`tc`, tbf) lets bytes out at a rate, which takes
//! next to nothing of the processors. So ranks wait for what is under way, as they do not where the
//! network is a copy in memory. A message takes some 20 µs beside that; each rank has a core of its own.

#[path = "../../crates/dataflow-mpi/tests/hosts/mod.rs"]
mod hosts;

use crate::smoke::{self, Ended};
use hosts::{ADDRESSES, Hosts};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A rank on each.
pub const RANKS: usize = 2;

/// Two hosts and what joins them; gone when dropped.
pub struct Wire(Hosts);

impl Wire {
    /// Lets so much through each way, as `tc` writes it: `300mbit`.
    ///
    /// # Errors
    /// If the user is not root, or the kernel or the tools (iproute2, util-linux) lack something.
    pub fn new(rate: &str) -> Result<Self, String> {
        let hosts = Hosts::new(RANKS as u32)?;
        match hosts.limit(rate) {
            true => Ok(Wire(hosts)),
            false => Err(format!(
                "`tc qdisc replace … tbf rate {rate}` failed: no such rate, no `tc`, or a kernel without tbf"
            )),
        }
    }

    /// Runs a program on both, or kills it at the deadline; how rank 0 ended.
    pub fn run(
        &self,
        program: &Path,
        arguments: &[String],
        deadline: Duration,
    ) -> Result<Ended, String> {
        let commands = [0, 1].map(|rank| self.command(rank, program, arguments));
        let [first, second] = thread::scope(|scope| {
            let run = |mut command: Command| move || smoke::run(&mut command, deadline);
            let ranks = commands.map(|command| scope.spawn(run(command)));
            ranks.map(|rank| rank.join().unwrap_or(Err("its thread panicked".into())))
        });
        let second = second.map_err(|fault| format!("rank 1 {fault}"))?;
        second
            .exited_with(0)
            .map_err(|fault| format!("rank 1: {fault}\n{}", second.stderr))?;
        first
    }

    fn command(&self, rank: u32, program: &Path, arguments: &[String]) -> Command {
        let [first, second, _] = ADDRESSES;
        let port = [PORT, 0][rank as usize];
        let [by, words @ ..] = self.0.on(rank);
        let mut command = Command::new(by);
        command
            .args(words)
            .args(["taskset", "-c", &rank.to_string()]);
        command.arg(program).args(arguments);
        command.args(["--rank", &rank.to_string()]);
        command.args(["--listen", &format!("{}:{port}", ADDRESSES[rank as usize])]);
        command.args(["--peers", &format!("{first}:{PORT},{second}")]);
        command.env("DATAFLOW_TOKEN", "5a".repeat(32));
        command
    }
}

/// Where rank 0 is found.
const PORT: u16 = 4000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::say;
    use std::time::Instant;

    #[test]
    fn a_wire_lets_through_what_was_asked_and_no_more() {
        let wire = match Wire::new("80mbit") {
            Ok(wire) => wire,
            Err(fault) => return say!("skipped: {fault}"),
        };
        // 4 MB take 0.4 s, less what a full queue lets through at once.
        let server = "import socket; s = socket.create_server(('', 4000)); c, _ = s.accept(); \
            print(sum(iter(lambda: len(c.recv(1 << 20)), 0)))";
        let client = "import socket, time\nfor _ in range(400):\n  try:\n    \
            c = socket.create_connection(('10.77.0.1', 4000)); break\n  except OSError: time.sleep(0.01)\n\
            c.sendall(bytes(4_000_000)); c.close()";
        let python = |rank: u32, program: &str| {
            let [by, words @ ..] = wire.0.on(rank);
            let mut python = Command::new(by);
            python.args(words).args(["python3", "-c", program]);
            smoke::run(&mut python, Duration::from_secs(30)).unwrap()
        };
        let (received, took) = thread::scope(|scope| {
            let server = scope.spawn(|| python(0, server));
            let began = Instant::now();
            python(1, client).exited_with(0).unwrap();
            (server.join().unwrap().stdout, began.elapsed())
        });
        assert_eq!(received.trim(), "4000000");
        let took = took.as_secs_f64();
        assert!((0.35..5.0).contains(&took), "{took} s");
        assert!(Wire::new("fast").is_err());
    }
}
