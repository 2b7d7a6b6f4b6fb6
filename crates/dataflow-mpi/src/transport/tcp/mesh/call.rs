//! A call: a connection to a rank is tried, at all its addresses in turn, until it stands.
//!
//! Attempts come with growing pauses. One that reaches this process itself, as can happen while
//! nobody listens at a port that the system gives to a socket that connects, is none, and leaves the port
//! free for who is to listen there. Of several addresses others may belong to somebody else: a call
//! has failed when none of them leads to a rank of this job.

use super::handshake::{CallRefused, Caller, Hello};
use crate::transport::tcp::Token;
use crate::transport::tcp::watch::Watch;
use mio::net::TcpStream;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// How long an attempt may take until the system says that there is a connection.
const ATTEMPT: Duration = Duration::from_secs(3);

/// How long an attempt may take until there is an answer, if there is another address to try.
const ANSWER: Duration = Duration::from_secs(5);

/// The pause after an attempt, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// Somebody is called.
pub struct MeshCall {
    /// Where, and why the last attempt there has not worked.
    addresses: Vec<(SocketAddr, CallRefused)>,
    hello: Hello,
    /// Which of them is tried now, or next.
    at: usize,
    state: CallState,
    pause: Duration,
    /// Until when it is tried.
    until: Duration,
    /// Whether one attempt decides: the host that is called listens for as long as it lives.
    is_once: bool,
}

enum CallState {
    Pausing {
        until: Duration,
    },
    Connecting {
        stream: TcpStream,
        since: Duration,
    },
    Talking {
        stream: TcpStream,
        caller: Caller,
        since: Duration,
    },
}

/// How far a call is.
pub enum Called {
    /// Not there yet.
    Not,
    /// There.
    Connected(TcpStream),
    /// It does not work, and why; perhaps another time.
    Failed(CallRefused),
}

impl MeshCall {
    /// Calls at these addresses, until then.
    pub fn new(addresses: Vec<SocketAddr>, hello: Hello, until: Duration) -> Self {
        let untried = |address| (address, CallRefused::Now("nobody has answered".into()));
        MeshCall {
            addresses: addresses.into_iter().map(untried).collect(),
            hello,
            at: 0,
            state: CallState::Pausing {
                until: Duration::ZERO,
            },
            pause: PAUSES[0],
            until,
            is_once: false,
        }
    }

    /// One attempt decides.
    pub fn once(self) -> Self {
        MeshCall {
            is_once: true,
            ..self
        }
    }

    /// When to look at it at the latest.
    pub fn wakes(&self) -> Duration {
        match &self.state {
            CallState::Pausing { until } => (*until).min(self.until),
            CallState::Connecting { since, .. } => self.connects_by(*since),
            CallState::Talking { since, .. } => self.answers_by(*since),
        }
    }

    /// Until when there is to be a connection. Where one attempt decides, the system does: there may be a
    /// crowd before a host that lives and is busy.
    fn connects_by(&self, since: Duration) -> Duration {
        match self.is_once {
            true => self.until,
            false => self.until.min(since + ATTEMPT),
        }
    }

    /// Until when an answer is waited for. A host that listens for as long as it lives may answer late.
    fn answers_by(&self, since: Duration) -> Duration {
        match self.addresses.len() {
            0 | 1 => self.until,
            _ if self.is_once => self.until,
            _ => self.until.min(since + ANSWER),
        }
    }

    /// Whom, and why it has not worked yet.
    pub fn told(&self) -> String {
        let told = |(address, refused): &(SocketAddr, CallRefused)| {
            let (CallRefused::Now(reason) | CallRefused::Ever(reason)) = refused;
            format!("{address}: {reason}")
        };
        let told: Vec<String> = self.addresses.iter().map(told).collect();
        told.join("; at ")
    }

    /// Goes on as far as it goes; its socket is noted under that number.
    pub fn go(&mut self, token: &Token, watch: &Watch, number: usize, now: Duration) -> Called {
        if self.addresses.is_empty() {
            return Called::Failed(CallRefused::Ever("no address".into()));
        }
        loop {
            if let CallState::Pausing { until } = self.state {
                if now > self.until {
                    return Called::Failed(CallRefused::Now(self.told()));
                }
                if now < until {
                    return Called::Not;
                }
            }
            let refused = match self.step(token, watch, number, now) {
                Ok(Some(stream)) => return Called::Connected(stream),
                Ok(None) => return Called::Not,
                Err(refused) => refused,
            };
            self.addresses[self.at].1 = refused;
            let is_ever = |(_, refused): &(_, CallRefused)| matches!(refused, CallRefused::Ever(_));
            if self.addresses.iter().all(is_ever) {
                return Called::Failed(CallRefused::Ever(self.told()));
            }
            if self.is_once {
                return Called::Failed(CallRefused::Now(self.told()));
            }
            self.rest(now);
        }
    }

    /// The attempt has come to nothing.
    fn rest(&mut self, now: Duration) {
        self.at = (self.at + 1) % self.addresses.len();
        // All addresses are tried before there is a pause.
        let was_last = self.at == 0;
        let pause = if was_last { self.pause } else { Duration::ZERO };
        self.state = CallState::Pausing { until: now + pause };
        if was_last {
            self.pause = (2 * self.pause).min(PAUSES[1]);
        }
    }

    /// Goes on with this attempt; the connection, once both sides have shown who they are.
    fn step(
        &mut self,
        token: &Token,
        watch: &Watch,
        number: usize,
        now: Duration,
    ) -> Result<Option<TcpStream>, CallRefused> {
        if let CallState::Pausing { .. } = self.state {
            self.connect(watch, number, now)?;
        }
        if !self.greet(now)? || !self.talk(token, now)? {
            return Ok(None);
        }
        match std::mem::replace(&mut self.state, CallState::Pausing { until: now }) {
            CallState::Talking { stream, .. } => Ok(Some(stream)),
            _ => Ok(None),
        }
    }

    /// Begins a connection to the address whose turn it is.
    fn connect(&mut self, watch: &Watch, number: usize, now: Duration) -> Result<(), CallRefused> {
        let address = self.addresses[self.at].0;
        let mut stream = TcpStream::connect(address).map_err(failed)?;
        watch.add(number, &mut stream).map_err(failed)?;
        self.state = CallState::Connecting { stream, since: now };
        Ok(())
    }

    /// Says who calls, once there is a connection; whether that is said.
    fn greet(&mut self, now: Duration) -> Result<bool, CallRefused> {
        let CallState::Connecting { stream, since } = &mut self.state else {
            return Ok(true);
        };
        if !is_connected(stream).map_err(failed)? {
            let since = *since;
            return match now > self.connects_by(since) {
                true => Err(CallRefused::Now("connection timed out".into())),
                false => Ok(false),
            };
        }
        stream.set_nodelay(true).map_err(failed)?;
        let caller = Caller::begin(&self.hello, stream)?;
        let pausing = CallState::Pausing { until: now };
        if let CallState::Connecting { stream, since } = std::mem::replace(&mut self.state, pausing)
        {
            self.state = CallState::Talking {
                stream,
                caller,
                since,
            };
        }
        Ok(true)
    }

    /// Goes on with what both sides say; whether that has ended.
    fn talk(&mut self, token: &Token, now: Duration) -> Result<bool, CallRefused> {
        let CallState::Talking {
            stream,
            caller,
            since,
        } = &mut self.state
        else {
            return Ok(true);
        };
        if caller.go(token, stream)? {
            return Ok(true);
        }
        let since = *since;
        let silent = CallRefused::Now("it is there, and has not answered".into());
        if now > self.answers_by(since) {
            return Err(silent);
        }
        self.addresses[self.at].1 = silent;
        Ok(false)
    }
}

fn failed(fault: io::Error) -> CallRefused {
    CallRefused::Now(fault.to_string())
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
        leave_no_trace(stream);
        return Err(io::Error::other("it was this process itself that answered"));
    }
    Ok(true)
}

/// A connection that is dropped next frees its port at once, which the system would keep for a minute.
#[cfg(unix)]
fn leave_no_trace(stream: &TcpStream) {
    use nix::libc::linger;
    use nix::sys::socket::{setsockopt, sockopt::Linger};
    let reset = linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(stream, Linger, &reset).ok(); // the port is kept, then
}

/// Elsewhere no library can say so.
#[cfg(not(unix))]
fn leave_no_trace(_: &TcpStream) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use dataflow_core::rank::Rank;
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getsockname, listen,
        socket,
    };
    use std::io::{Read, Write};
    use std::net::TcpListener;
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

    /// A rank that called a port of the system's own range, where nobody listened yet, got
    /// itself, died, and held the port. Later it lived, and the system held the port for a minute.
    #[test]
    fn a_socket_that_has_reached_itself_is_no_connection_and_leaves_its_port_to_whoever_listens() {
        let stream = std::net::TcpStream::from(connected_to_itself());
        let at = stream.local_addr().unwrap();
        let fault = is_connected(&TcpStream::from_std(stream)).unwrap_err();
        assert!(fault.to_string().contains("this process itself"), "{fault}");
        TcpListener::bind(at).unwrap();
    }

    /// A call at the addresses of these listeners.
    fn call(listeners: &[&TcpListener]) -> MeshCall {
        let at = |listener: &&TcpListener| listener.local_addr().unwrap();
        let hello = Hello {
            rank: Rank(1),
            called: Rank(0),
            n_ranks: 2,
            listens: "127.0.0.1:9".parse().unwrap(),
        };
        let addresses = listeners.iter().map(at).collect();
        MeshCall::new(addresses, hello, Duration::from_secs(600))
    }

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    /// Goes on until it is this far.
    fn go_until(
        call: &mut MeshCall,
        now: Duration,
        is_it: impl Fn(&MeshCall, &Called) -> bool,
    ) -> Called {
        let (token, watch) = (Token::random().unwrap(), Watch::new(1).unwrap());
        loop {
            let called = call.go(&token, &watch, 0, now);
            if is_it(call, &called) {
                return called;
            }
            std::thread::yield_now();
        }
    }

    /// The stranger that is there said nothing, and was listened to until the end of all patience.
    #[test]
    fn a_silent_listener_is_left_for_the_next_address_if_there_is_one() {
        let (silent, next) = (listener(), listener());
        let is_talking =
            |call: &MeshCall, _: &Called| matches!(call.state, CallState::Talking { .. });
        for (listeners, at) in [(&[&silent, &next][..], 1), (&[&silent], 0)] {
            let mut call = call(listeners);
            go_until(&mut call, Duration::ZERO, is_talking);
            assert_eq!(call.at, 0);
            go_until(&mut call, ANSWER, is_talking);
            assert_eq!(call.at, 0);
            go_until(&mut call, ANSWER + Duration::from_millis(1), is_talking);
            assert_eq!(call.at, at);
        }
    }

    /// A rank would call for ever a rank 0 that is not there, or that says nothing.
    #[test]
    fn a_call_ends_when_its_time_is_over_and_says_why_it_came_to_nothing() {
        let (silent, closed) = (listener(), listener());
        let [refused, unanswered] = [&closed, &silent].map(|listener| call(&[listener]));
        drop(closed);
        let is_tried = |call: &MeshCall, _: &Called| match call.state {
            CallState::Pausing { until } => until > Duration::ZERO,
            CallState::Connecting { .. } => false,
            CallState::Talking { .. } => true,
        };
        for (mut call, reason) in [
            (refused, "Connection refused"),
            (unanswered, "it is there, and has not answered"),
        ] {
            let until = call.until;
            go_until(&mut call, Duration::ZERO, is_tried);
            let called = go_until(&mut call, until, |_, _| true);
            assert!(matches!(called, Called::Not), "{reason}");
            let later = until + Duration::from_nanos(1);
            let mut gone_on = (0..1000).map(|_| go_until(&mut call, later, |_, _| true));
            let ended = gone_on.find(|called| !matches!(called, Called::Not));
            let Some(Called::Failed(CallRefused::Now(told))) = ended else {
                panic!("{reason}: it goes on calling")
            };
            assert!(told.contains(reason), "{told}");
        }
    }

    /// It was said that nobody answers, though somebody was there.
    #[test]
    fn a_call_whose_time_is_over_in_the_midst_of_an_attempt_says_how_far_that_came() {
        let (crowded, silent, next) = (listener(), listener(), listener());
        let crowd = crowd(&crowded);
        let is_connecting = |state: &CallState| matches!(state, CallState::Connecting { .. });
        let is_talking = |state: &CallState| matches!(state, CallState::Talking { .. });
        for (listeners, is_far, reason) in [
            (
                &[&crowded][..],
                is_connecting as fn(&CallState) -> bool,
                "connection timed out",
            ),
            (
                &[&silent, &next],
                is_talking,
                "it is there, and has not answered",
            ),
        ] {
            let mut call = call(listeners);
            call.until = Duration::from_secs(1); // no attempt takes so little
            go_until(&mut call, Duration::ZERO, |call, _| is_far(&call.state));
            let later = call.until + Duration::from_nanos(1);
            let called = go_until(&mut call, later, |_, _| true);
            let Called::Failed(CallRefused::Now(told)) = called else {
                panic!("{reason}: it goes on calling")
            };
            assert!(told.contains(reason), "{told}");
        }
        drop(crowd);
    }

    /// Nobody else gets through to that listener for now.
    fn crowd(listener: &TcpListener) -> [TcpStream; 2] {
        listen(listener, Backlog::new(0).unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        [(); 2].map(|()| TcpStream::connect(at).unwrap())
    }

    /// The host was taken for one that had ended, and the rank ended too.
    #[test]
    fn a_call_that_decides_waits_behind_a_crowd_for_as_long_as_the_system_does() {
        let crowded = listener();
        let crowd = crowd(&crowded);
        for (is_once, waits) in [(true, true), (false, false)] {
            let mut call = call(&[&crowded]);
            call.is_once = is_once;
            let mut is_connecting = |now| {
                let called = go_until(&mut call, now, |_, _| true);
                matches!(called, Called::Not) && matches!(call.state, CallState::Connecting { .. })
            };
            let later = ATTEMPT + Duration::from_millis(1);
            assert!(is_connecting(Duration::ZERO), "the crowd is too small");
            assert_eq!(is_connecting(later), waits);
        }
        drop(crowd);
    }

    /// A web server at one address of rank 0's name ended the rank.
    #[test]
    fn a_call_has_failed_for_ever_when_strangers_listen_at_all_its_addresses() {
        let (stranger, silent) = (listener(), listener());
        let speaks = std::thread::spawn({
            let stranger = stranger.try_clone().unwrap();
            move || {
                for _ in 0..4 {
                    let (mut caller, _) = stranger.accept().unwrap();
                    caller.write_all(b"HTTP/1.1 400\r\n").unwrap();
                    caller.read_to_end(&mut Vec::new()).ok(); // until it has left
                }
            }
        });
        let mut both = call(&[&stranger, &silent]);
        let is_at_last =
            |call: &MeshCall, called: &Called| call.at == 1 || !matches!(called, Called::Not);
        let called = go_until(&mut both, Duration::ZERO, is_at_last);
        assert!(matches!(called, Called::Not), "{}", both.told());
        assert!(
            both.told().contains("what ranks say; at 127."),
            "{}",
            both.told()
        );
        let has_failed = |_: &MeshCall, called: &Called| matches!(called, Called::Failed(_));
        for listeners in [&[&stranger][..], &[&stranger, &stranger]] {
            let called = go_until(&mut call(listeners), Duration::ZERO, has_failed);
            assert!(matches!(called, Called::Failed(CallRefused::Ever(_))));
        }
        speaks.join().unwrap();
    }
}
