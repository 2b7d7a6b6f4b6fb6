//! A connection over which words are said, before it carries frames.

use super::words::{self, ADDRESS, Word};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a few words may take to be taken.
const TAKING: Duration = Duration::from_secs(5);

/// One end of it.
pub struct Talk {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Talk {
    /// Over a connection.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(TAKING))?;
        let heard = Vec::new();
        Ok(Talk { stream, heard })
    }

    /// Connects, in so much time.
    pub fn connect(to: SocketAddr, at_most: Duration) -> Result<Self, String> {
        TcpStream::connect_timeout(&to, at_most)
            .and_then(Talk::new)
            .map_err(|fault| fault.to_string())
    }

    /// Who is at the other end.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// Says something short.
    pub fn say(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut say = || {
            self.stream.set_nonblocking(false)?;
            self.stream.write_all(bytes)?;
            self.stream.set_nonblocking(true)
        };
        say().map_err(|fault| format!("its connection failed: {fault}"))
    }

    /// The next word, if it has been said.
    pub fn word(&mut self) -> Result<Option<Word>, String> {
        let Some(bytes) = self.hear(Word::BYTES)? else {
            return Ok(None);
        };
        let word = bytes.first_chunk().and_then(Word::decode);
        let strange = || "it said what ranks do not say".to_string();
        word.map(Some).ok_or_else(strange)
    }

    /// The addresses of so many ranks, if they have been said.
    pub fn roster(&mut self, n_ranks: usize) -> Result<Option<Vec<SocketAddr>>, String> {
        let bytes = self.hear(n_ranks * ADDRESS)?;
        let decode = |bytes: Vec<u8>| {
            let (addresses, _) = bytes.as_chunks::<ADDRESS>();
            addresses
                .iter()
                .copied()
                .map(words::decode_address)
                .collect()
        };
        Ok(bytes.map(decode))
    }

    /// So many bytes, if they have come; none beyond them is read.
    fn hear(&mut self, n: usize) -> Result<Option<Vec<u8>>, String> {
        let mut got = self.heard.len();
        self.heard.resize(n, 0);
        let ended = loop {
            if got == n {
                return Ok(Some(std::mem::take(&mut self.heard)));
            }
            match self.stream.read(&mut self.heard[got..]) {
                Ok(0) => break Some("it closed its connection".to_string()),
                Ok(read) => got += read,
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => break None,
                Err(fault) => break Some(format!("its connection failed: {fault}")),
            }
        };
        self.heard.truncate(got);
        ended.map_or(Ok(None), Err)
    }

    /// Carries frames from now on.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }
}
