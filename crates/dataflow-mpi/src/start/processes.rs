//! Processes: a process starts the other ranks on this machine, and becomes rank 0.

use super::Seat;
use super::seat::AGAIN;
use crate::host::Host;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::transport::tcp::{Mesh, Tcp, Token};
use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use dataflow_core::stderr;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How long the others may take to end when this rank has failed: one that was still on its way to a
/// rank 0 that has given up does not know yet.
const ENDING: Duration = Duration::from_secs(5);

/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(2);

/// The other ranks, processes that this one has started. None of them is left when it is dropped:
/// a process that has not ended by itself in five seconds is killed.
pub struct Processes {
    others: Vec<(Rank, Child)>,
    /// Where the others find rank 0, for as long as this lives.
    listener: Option<TcpListener>,
    token: Token,
    host: Arc<dyn Host>,
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Processes");
        shown.field("others", &self.others).finish_non_exhaustive()
    }
}

/// The other ranks, whose parts have ended well: their processes end with this one, unless it
/// launches [again](Self::again).
#[derive(Debug)]
pub struct Staying {
    tcp: Tcp,
    processes: Processes,
}

/// Starts the other ranks as processes: this program with these arguments, each with its [`Seat`]
/// in its environment, where the same program finds it by [`Seat::of`]. What they print comes out
/// where this process prints; they have nothing to read.
///
/// # Errors
/// If this process may not open as many sockets or another does not start (`wrong_settings`), or if one
/// ends before all ranks are there (`rank_lost`).
pub fn start(n_ranks: usize, settings: &Settings) -> Result<(Tcp, Processes), Error> {
    let token = Token::random().map_err(refused)?;
    let mut mesh = Mesh::new(Rank(0), n_ranks, token);
    mesh.patience = settings.patience;
    mesh.silence = settings.silence;
    mesh.expect_room()?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any).map_err(refused)?;
    let root = listener.local_addr().map_err(refused)?;
    let mut processes = Processes {
        others: Vec::new(),
        listener: Some(listener),
        token,
        host: crate::host::Machine::new(),
    };
    for rank in (1..n_ranks as u32).map(Rank) {
        let seat = Seat {
            rank,
            n_ranks,
            root: vec![root],
            listen: vec![any],
            ports: None,
            token,
            started_by: Some(std::process::id()),
        };
        let child = spawn(&seat).map_err(refused)?;
        processes.others.push((rank, child));
    }
    let tcp = processes.lead(&mesh)?;
    Ok((tcp, processes))
}

fn refused(fault: io::Error) -> Error {
    Error::wrong_settings(format!("the ranks were not started: {fault}")).with_source(fault)
}

fn spawn(seat: &Seat) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .envs(seat.variables())
        .stdin(Stdio::null())
        .spawn()
}

impl Processes {
    fn lead(&mut self, mesh: &Mesh) -> Result<Tcp, Error> {
        let Some(listener) = &self.listener else {
            unreachable!("it is closed when this is dropped");
        };
        let listener = listener.try_clone().map_err(refused)?;
        mesh.lead(listener, &mut || self.ended())
    }

    /// Somebody who has ended, and how.
    fn ended(&mut self) -> Option<(Rank, String)> {
        self.others.iter_mut().find_map(|(rank, child)| {
            let status = child.try_wait().ok()??;
            Some((*rank, format!("its process ended ({status})")))
        })
    }

    /// To be called when rank 0's part has ended well: waits until those of all others have, however long
    /// that takes.
    ///
    /// # Errors
    /// If one failed (`rank_lost`): the first such rank, and how its process ended.
    pub fn stay(mut self, settings: &Settings) -> Result<Staying, Error> {
        let mut mesh = Mesh::new(Rank(0), self.others.len() + 1, self.token);
        mesh.patience = Duration::MAX;
        mesh.silence = settings.silence;
        mesh.log = |line| stderr::say(format_args!("the program has ended on rank 0: {line}"));
        match self.lead(&mesh) {
            Ok(tcp) => Ok(Staying {
                tcp,
                processes: self,
            }),
            Err(fault) => Err(self.ended().map_or(fault, |(rank, how)| {
                Error::rank_lost(format!("{rank} failed: {how}"))
            })),
        }
    }

    /// All of them end, by themselves or not. Of one that a signal has ended nobody else tells why: it may be the
    /// system's, which had no memory left.
    fn reap(&mut self) {
        let nap = self.host.bell();
        let deadline = self.host.now() + ENDING;
        for (rank, mut child) in std::mem::take(&mut self.others) {
            loop {
                match child.try_wait() {
                    Ok(None) if self.host.now() > deadline => {
                        child.kill().ok(); // it may have ended just now
                        child.wait().ok();
                        break;
                    }
                    Ok(None) => nap.wait(Some(LOOK)),
                    Ok(Some(status)) if status.code().is_none() => {
                        stderr::say(format_args!(
                            "dataflow: the process of {rank} ended by {status}"
                        ));
                        break;
                    }
                    Ok(Some(_)) | Err(_) => break,
                }
            }
        }
    }
}

impl Staying {
    /// How many ranks there are.
    pub fn n_ranks(&self) -> usize {
        self.processes.others.len() + 1
    }

    /// Lets the others go on to the next launch, together with this process.
    ///
    /// # Errors
    /// If the process of one has ended meanwhile (`rank_lost`).
    pub fn again(mut self) -> Result<(Tcp, Processes), Error> {
        if let Some((rank, how)) = self.processes.ended() {
            return Err(Error::rank_lost(format!("{rank} was lost: {how}")));
        }
        for rank in 1..self.n_ranks() as u32 {
            self.tcp.send(Rank(rank), AGAIN.to_vec());
        }
        Ok((self.tcp, self.processes))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // A rank that waits for rank 0 hears that it is gone.
        self.listener = None;
        self.reap();
    }
}
