//! The door: who comes is let in if it knows the token, and sent away otherwise.
//!
//! # Law
//! Nobody waits for a stranger: whoever hesitates is sent away, and a crowd at the door loses its
//! oldest. A stranger costs as many bytes as a hello has.

use super::Mesh;
use super::words::Hello;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a stranger may take to introduce itself.
const HESITATION: Duration = Duration::from_secs(5);

/// How many strangers may stand at the door, beside as many as there are ranks.
const CROWD: usize = 64;

/// Where others come in.
pub struct Door<'a> {
    mesh: &'a Mesh,
    listener: TcpListener,
    strangers: VecDeque<Stranger>,
}

/// Somebody who has not introduced himself.
struct Stranger {
    stream: TcpStream,
    address: SocketAddr,
    since: Duration,
    said: [u8; Hello::BYTES],
    got: usize,
}

/// Somebody who knows the token.
pub struct Guest {
    /// What it said.
    pub hello: Hello,
    /// Its connection.
    pub stream: TcpStream,
}

impl<'a> Door<'a> {
    /// Opens it.
    pub fn new(mesh: &'a Mesh, listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Door {
            mesh,
            listener,
            strangers: VecDeque::new(),
        })
    }

    /// Where it is.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Those who have introduced themselves.
    pub fn look(&mut self) -> Vec<Guest> {
        let now = self.mesh.host.now();
        self.accept(now);
        let mut guests = Vec::new();
        for mut stranger in std::mem::take(&mut self.strangers) {
            match stranger.listen(self.mesh, now) {
                Ok(Some(hello)) => guests.push(Guest {
                    hello,
                    stream: stranger.stream,
                }),
                Ok(None) => self.strangers.push_back(stranger),
                Err(reason) => self.refuse(stranger.address, &reason),
            }
        }
        guests
    }

    fn accept(&mut self, now: Duration) {
        loop {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    if let Err(fault) = stream.set_nonblocking(true) {
                        self.refuse(address, &fault.to_string());
                        continue;
                    }
                    self.strangers.push_back(Stranger {
                        stream,
                        address,
                        since: now,
                        said: [0; Hello::BYTES],
                        got: 0,
                    });
                }
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => break,
                Err(fault) => {
                    (self.mesh.log)(&format!("{} lost a connection: {fault}", self.mesh.rank));
                    break;
                }
            }
        }
        while self.strangers.len() > CROWD + self.mesh.n_ranks {
            if let Some(oldest) = self.strangers.pop_front() {
                self.refuse(oldest.address, "there is a crowd at the door");
            }
        }
    }

    /// Says in one line who was refused, and why.
    pub fn refuse(&self, address: SocketAddr, reason: &str) {
        (self.mesh.log)(&format!("{} refused {address}: {reason}", self.mesh.rank));
    }
}

impl Stranger {
    /// Its hello, when it is complete.
    fn listen(&mut self, mesh: &Mesh, now: Duration) -> Result<Option<Hello>, String> {
        while self.got < Hello::BYTES {
            match self.stream.read(&mut self.said[self.got..]) {
                Ok(0) => return Err("it left without a word".into()),
                Ok(got) => self.got += got,
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => break,
                Err(fault) => return Err(fault.to_string()),
            }
        }
        if !Hello::may_begin_with(&self.said[..self.got]) {
            return Err("it does not say what ranks say".into());
        }
        if self.got == Hello::BYTES {
            return Ok(Some(Hello::decode(&self.said, &mesh.token)?));
        }
        if now.saturating_sub(self.since) > HESITATION {
            return Err(format!("it did not introduce itself within {HESITATION:?}"));
        }
        Ok(None)
    }
}
