//! Processes: a process starts the other ranks on this machine, and becomes rank 0.

use super::Seat;
use crate::host::Host;
use crate::transport::tcp::{Mesh, Tcp, Token};
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How long the others may take to end when this process has: one that was still on its way to a rank
/// 0 that has given up does not know yet.
const ENDING: Duration = Duration::from_secs(5);

/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(2);

/// The other ranks, processes that this one has started. None of them is left when it is dropped:
/// who has not ended by itself in five seconds is killed.
pub struct Processes {
    others: Vec<(Rank, Child)>,
    host: Arc<dyn Host>,
}

/// Starts the other ranks as processes: this program with these arguments, each with its [`Seat`]
/// in its environment, where the same program finds it by [`Seat::of`]. They print nothing on
/// standard output; what they say on standard error comes out here.
///
/// # Errors
/// If a process does not start (`wrong_settings`) or ends before all ranks are there (`rank_lost`).
pub fn start(n_ranks: usize, patience: Duration) -> Result<(Tcp, Processes), Error> {
    let mut processes = Processes {
        others: Vec::new(),
        host: crate::host::Machine::new(),
    };
    let refused =
        |fault: io::Error| Error::wrong_settings(format!("the ranks were not started: {fault}"));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any).map_err(refused)?;
    let root = listener.local_addr().map_err(refused)?;
    let token = Token::random().map_err(refused)?;
    for rank in (1..n_ranks as u32).map(Rank) {
        let seat = Seat {
            rank,
            n_ranks,
            root,
            listen: any,
            token,
        };
        processes
            .others
            .push((rank, spawn(&seat).map_err(refused)?));
    }
    let mut mesh = Mesh::new(Rank(0), n_ranks, token);
    mesh.patience = patience;
    let tcp = mesh.lead(listener, &mut || processes.ended())?;
    Ok((tcp, processes))
}

fn spawn(seat: &Seat) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .envs(seat.variables())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}

impl Processes {
    /// Somebody who has ended, and how.
    fn ended(&mut self) -> Option<(Rank, String)> {
        self.others.iter_mut().find_map(|(rank, child)| {
            let status = child.try_wait().ok()??;
            Some((*rank, format!("its process ended ({status})")))
        })
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    /// If one failed or had to be killed (`rank_lost`): the first such rank, and how it ended.
    pub fn end(mut self) -> Result<(), Error> {
        let ends = self.reap();
        let failed = ends
            .into_iter()
            .find(|(_, status)| !matches!(status, Ok(status) if status.success()));
        failed.map_or(Ok(()), |(rank, status)| {
            Err(Error::rank_lost(match status {
                Ok(status) => format!("{rank} failed: its process ended with {status}"),
                Err(reason) => format!("{rank} was killed: {reason}"),
            }))
        })
    }

    /// All of them end, by themselves or not.
    fn reap(&mut self) -> Vec<(Rank, Result<ExitStatus, String>)> {
        let deadline = self.host.now() + ENDING;
        let nap = self.host.bell();
        let mut ends = Vec::new();
        for (rank, mut child) in std::mem::take(&mut self.others) {
            let end = loop {
                match child.try_wait() {
                    Ok(Some(status)) => break Ok(status),
                    Ok(None) if self.host.now() < deadline => nap.wait(Some(LOOK)),
                    unknown => {
                        child.kill().ok(); // it may have ended just now
                        child.wait().ok();
                        let reason = unknown.err().map(|fault| fault.to_string());
                        let late = || format!("it did not end within {ENDING:?}");
                        break Err(reason.unwrap_or_else(late));
                    }
                }
            };
            ends.push((rank, end));
        }
        ends
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.reap();
    }
}
