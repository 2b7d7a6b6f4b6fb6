//! A call: a connection to a rank is tried, at all its addresses in turn, until it stands.
//!
//! Attempts come with growing pauses. One that reaches this process itself, as can happen while
//! nobody listens at a port that the system gives to whoever connects, is none.

use super::handshake::{Caller, Hello, Refused};
use crate::transport::tcp::Token;
use crate::transport::tcp::watch::Watch;
use mio::net::TcpStream;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// How long an attempt may take until the system says that there is a connection.
const ATTEMPT: Duration = Duration::from_secs(3);

/// The pause after an attempt, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// Somebody is called.
pub struct Call {
    addresses: Vec<SocketAddr>,
    hello: Hello,
    /// How many attempts there were.
    attempts: usize,
    state: CallState,
    pause: Duration,
    /// Until when it is tried.
    until: Duration,
    /// Whether one attempt decides: whoever is called listens for as long as it lives.
    is_once: bool,
    /// Why it has not worked yet.
    reason: String,
}

enum CallState {
    Pausing { until: Duration },
    Connecting { stream: TcpStream, since: Duration },
    Talking { stream: TcpStream, caller: Caller },
}

/// How far a call is.
pub enum Called {
    /// Not there yet.
    Not,
    /// There.
    Connected(TcpStream),
    /// It does not work, and why; perhaps another time.
    Failed(Refused),
}

impl Call {
    /// Calls at these addresses, until then.
    pub fn new(addresses: Vec<SocketAddr>, hello: Hello, until: Duration) -> Self {
        Call {
            addresses,
            hello,
            attempts: 0,
            state: CallState::Pausing {
                until: Duration::ZERO,
            },
            pause: PAUSES[0],
            until,
            is_once: false,
            reason: "nobody has answered".into(),
        }
    }

    /// One attempt decides.
    pub fn once(self) -> Self {
        Call {
            is_once: true,
            ..self
        }
    }

    /// When to look at it at the latest.
    pub fn wakes(&self) -> Duration {
        match &self.state {
            CallState::Pausing { until } => (*until).min(self.until),
            CallState::Connecting { since, .. } => (*since + ATTEMPT).min(self.until),
            CallState::Talking { .. } => self.until,
        }
    }

    /// Whom, and why it has not worked yet.
    pub fn told(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        format!("{}: {}", addresses.join(" or "), self.reason)
    }

    /// Goes on as far as it goes; its socket is noted under that number.
    pub fn go(&mut self, token: &Token, watch: &Watch, number: usize, now: Duration) -> Called {
        loop {
            if let CallState::Pausing { until } = self.state {
                if now > self.until {
                    return Called::Failed(Refused::Now(self.told()));
                }
                if now < until {
                    return Called::Not;
                }
            }
            match self.step(token, watch, number, now) {
                Ok(Some(stream)) => return Called::Connected(stream),
                Ok(None) if now <= self.until => return Called::Not,
                Ok(None) => self.rest(now, "nobody answers".into()),
                Err(Refused::Now(reason)) if self.is_once => {
                    self.reason = reason;
                    return Called::Failed(Refused::Now(self.told()));
                }
                Err(Refused::Now(reason)) => self.rest(now, reason),
                Err(Refused::Ever(reason)) => {
                    self.reason = reason;
                    return Called::Failed(Refused::Ever(self.told()));
                }
            }
        }
    }

    /// The attempt has come to nothing.
    fn rest(&mut self, now: Duration, reason: String) {
        self.reason = reason;
        // All addresses are tried before there is a pause.
        let is_last = self.attempts.is_multiple_of(self.addresses.len().max(1));
        let pause = if is_last { self.pause } else { Duration::ZERO };
        self.state = CallState::Pausing { until: now + pause };
        if is_last {
            self.pause = (2 * self.pause).min(PAUSES[1]);
        }
    }

    fn step(
        &mut self,
        token: &Token,
        watch: &Watch,
        number: usize,
        now: Duration,
    ) -> Result<Option<TcpStream>, Refused> {
        let failed = |fault: io::Error| Refused::Now(fault.to_string());
        if let CallState::Pausing { .. } = self.state {
            let at = self.attempts % self.addresses.len().max(1);
            let address = self.addresses.get(at).copied();
            let none = || Refused::Ever("it has no address".into());
            self.attempts += 1;
            let mut stream = TcpStream::connect(address.ok_or_else(none)?).map_err(failed)?;
            watch.add(number, &mut stream).map_err(failed)?;
            self.state = CallState::Connecting { stream, since: now };
        }
        if let CallState::Connecting { stream, since } = &mut self.state {
            if !is_connected(stream).map_err(failed)? {
                return match now.saturating_sub(*since) > ATTEMPT {
                    true => Err(Refused::Now("connection timed out".into())),
                    false => Ok(None),
                };
            }
            stream.set_nodelay(true).map_err(failed)?;
            let caller = Caller::begin(&self.hello, stream)?;
            let pausing = CallState::Pausing { until: now };
            if let CallState::Connecting { stream, .. } =
                std::mem::replace(&mut self.state, pausing)
            {
                self.state = CallState::Talking { stream, caller };
            }
        }
        if let CallState::Talking { stream, caller } = &mut self.state
            && !caller.go(token, stream)?
        {
            self.reason = "it is there, and has not answered".into();
            return Ok(None);
        }
        match std::mem::replace(&mut self.state, CallState::Pausing { until: now }) {
            CallState::Talking { stream, .. } => Ok(Some(stream)),
            _ => Ok(None),
        }
    }
}

/// Whether a connection stands that was begun.
fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(fault) = stream.take_error()? {
        return Err(fault);
    }
    let peer = match stream.peer_addr() {
        Ok(peer) => peer,
        Err(fault) if fault.kind() == ErrorKind::NotConnected => return Ok(false),
        Err(fault) => return Err(fault),
    };
    if stream.local_addr()? == peer {
        return Err(io::Error::other("it was this process itself that answered"));
    }
    Ok(true)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, getsockname, socket,
    };
    use std::os::fd::{AsRawFd, OwnedFd};

    /// A socket that is bound to a port and calls that very port: the system connects it to itself.
    fn connected_to_itself() -> OwnedFd {
        let (family, kind) = (AddressFamily::Inet, SockType::Stream);
        let own = socket(family, kind, SockFlag::empty(), None).unwrap();
        bind(own.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        let at: SockaddrIn = getsockname(own.as_raw_fd()).unwrap();
        connect(own.as_raw_fd(), &at).unwrap();
        own
    }

    /// Attack R6: a rank that called a port of the system's own range, where nobody listened yet, got
    /// itself, died, and held the port.
    #[test]
    fn a_socket_that_has_reached_itself_is_no_connection() {
        let stream = std::net::TcpStream::from(connected_to_itself());
        let fault = is_connected(&TcpStream::from_std(stream)).unwrap_err();
        assert!(fault.to_string().contains("this process itself"), "{fault}");
    }
}
