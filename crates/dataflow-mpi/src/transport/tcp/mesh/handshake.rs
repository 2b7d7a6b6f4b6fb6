//! The handshake: two ends of a connection prove to each other that they know the token.
//!
//! ```text
//!   caller → host    hello    magic 8 │ nonce 32 │ caller's rank u32 │ host's rank u32 │ ranks u32
//!                             │ where the caller listens: address 16, port u16
//!   host → caller    answer   magic 8 │ nonce 32 │ proof 32
//!   caller → host    verdict  1: the host knows the token, 0: it does not, u8 │ proof 32
//! ```
//! A proof is the keyed hash of who says it, the hello and the host's nonce. The host proves first,
//! and the caller proves nothing to a host that could not: a process that took the port before rank 0
//! learns a rank, an address and a random number. Nonces are new for each connection, so what was
//! said once is worth nothing later; ranks and roles are hashed too, so it is worth nothing elsewhere.

use super::control::{ADDRESS, decode_address, encode_address, take};
use crate::transport::tcp::Token;
use crate::transport::tcp::token::{PROOF, nonce};
use dataflow_core::rank::Rank;
use mio::net::TcpStream;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

/// The first bytes of a caller that wants to be heard by a rank, and of a rank that answers.
const CALLER: [u8; 8] = *b"dfmesh2\n";
const HOST: [u8; 8] = *b"dfmesh2h";

const HELLO: usize = 8 + 32 + 12 + ADDRESS;
const ANSWER: usize = 8 + 32 + PROOF;
const VERDICT: usize = 1 + PROOF;

/// How a process introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which rank it is.
    pub rank: Rank,
    /// Whom it calls.
    pub called: Rank,
    /// How many ranks it expects.
    pub n_ranks: u32,
    /// Where it listens.
    pub listens: SocketAddr,
}

impl Hello {
    fn encode(&self, nonce: [u8; 32]) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        let parts: [&[u8]; 6] = [
            &CALLER,
            &nonce,
            &self.rank.0.to_le_bytes(),
            &self.called.0.to_le_bytes(),
            &self.n_ranks.to_le_bytes(),
            &encode_address(self.listens),
        ];
        let joined = parts.into_iter().flatten();
        bytes
            .iter_mut()
            .zip(joined)
            .for_each(|(to, from)| *to = *from);
        bytes
    }

    fn decode(bytes: &[u8; HELLO]) -> Self {
        let mut rest = &bytes[40..];
        let mut number = || u32::from_le_bytes(take(&mut rest));
        let (rank, called, n_ranks) = (Rank(number()), Rank(number()), number());
        Hello {
            rank,
            called,
            n_ranks,
            listens: decode_address(take(&mut rest)),
        }
    }
}

/// Who says a proof.
const HOSTS: &[u8] = b"dataflow host";
const CALLERS: &[u8] = b"dataflow caller";

/// What comes from the other end, of a known length.
struct PartialRead<const N: usize> {
    bytes: [u8; N],
    got: usize,
}

impl<const N: usize> PartialRead<N> {
    fn new() -> Self {
        PartialRead {
            bytes: [0; N],
            got: 0,
        }
    }

    /// All of it, when it has come; nothing beyond it is read.
    fn hear(&mut self, stream: &mut impl Read) -> Result<Option<&[u8; N]>, String> {
        while self.got < N {
            match stream.read(&mut self.bytes[self.got..]) {
                Ok(0) if self.got == 0 => return Err("it left without a word".into()),
                Ok(0) => return Err("it left in the middle of a word".into()),
                Ok(got) => self.got += got,
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(fault) => return Err(fault.to_string()),
            }
        }
        Ok(Some(&self.bytes))
    }

    /// Whether what has come can still become what begins like this.
    fn may_begin_with(&self, magic: &[u8]) -> bool {
        let said = self.bytes[..self.got].iter();
        said.zip(magic).all(|(said, magic)| said == magic)
    }
}

/// Says something so short that a new connection takes it whole.
fn say(stream: &mut impl Write, bytes: &[u8]) -> Result<(), String> {
    match stream.write(bytes) {
        Ok(said) if said == bytes.len() => Ok(()),
        Ok(_) => Err("it takes no word".into()),
        Err(fault) => Err(fault.to_string()),
    }
}

/// The caller's end.
pub struct Caller {
    hello: [u8; HELLO],
    answer: PartialRead<ANSWER>,
}

/// Why a call has not led to anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallRefused {
    /// It may another time.
    Now(String),
    /// It will not.
    Ever(String),
}

impl Caller {
    /// Says hello.
    pub fn begin(hello: &Hello, stream: &mut TcpStream) -> Result<Self, CallRefused> {
        let nonce = nonce().map_err(|fault| CallRefused::Ever(fault.to_string()))?;
        let hello = hello.encode(nonce);
        say(stream, &hello).map_err(CallRefused::Now)?;
        let answer = PartialRead::new();
        Ok(Caller { hello, answer })
    }

    /// Hears the answer; true when both have proved what they know.
    pub fn go(&mut self, token: &Token, stream: &mut TcpStream) -> Result<bool, CallRefused> {
        let heard = self.answer.hear(stream).map(|answer| answer.copied());
        if !self.answer.may_begin_with(&HOST) {
            let text = "whoever listens there does not say what ranks say";
            return Err(CallRefused::Ever(text.into()));
        }
        let Some(answer) = heard.map_err(CallRefused::Now)? else {
            return Ok(false);
        };
        let mut rest = &answer[8..];
        let nonce = take::<32>(&mut rest);
        let proof = take::<PROOF>(&mut rest);
        let knows = token.is_proved_by(&proof, &[HOSTS, &self.hello, &nonce]);
        let mut verdict = [0; VERDICT];
        if knows {
            verdict[0] = 1;
            let proof = token.proof(&[CALLERS, &self.hello, &nonce]);
            verdict[1..].copy_from_slice(&proof);
        }
        let said = say(stream, &verdict);
        if !knows {
            let text = "the token differs: whoever listens there does not know this rank's";
            return Err(CallRefused::Ever(text.into()));
        }
        said.map_err(CallRefused::Now)?;
        Ok(true)
    }
}

/// The end that is called.
pub struct Callee {
    nonce: [u8; 32],
    hello: PartialRead<HELLO>,
    verdict: PartialRead<VERDICT>,
    answered: bool,
}

impl Callee {
    /// Hears nothing yet.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn new() -> io::Result<Self> {
        Ok(Callee {
            nonce: nonce()?,
            hello: PartialRead::new(),
            verdict: PartialRead::new(),
            answered: false,
        })
    }

    /// Who it says that it is, once it has said so; not yet proved.
    pub fn claim(&self) -> Option<Hello> {
        self.answered.then(|| Hello::decode(&self.hello.bytes))
    }

    /// Hears and answers; who it is, when both have proved what they know.
    pub fn go(&mut self, token: &Token, stream: &mut TcpStream) -> Result<Option<Hello>, String> {
        let heard = self.hello.hear(stream).map(|hello| hello.copied());
        if !self.hello.may_begin_with(&CALLER) {
            return Err("it does not say what ranks say".into());
        }
        let Some(hello) = heard? else {
            return Ok(None);
        };
        if !self.answered {
            let proof = token.proof(&[HOSTS, &hello, &self.nonce]);
            let mut answer = HOST.to_vec();
            answer.extend(self.nonce);
            answer.extend(proof);
            say(stream, &answer)?;
            self.answered = true;
        }
        let Some(verdict) = self.verdict.hear(stream)? else {
            return Ok(None);
        };
        let mut proof = &verdict[1..];
        if verdict[0] == 0 {
            return Err("the token differs: it says that this rank's is not its own".into());
        }
        if !token.is_proved_by(&take(&mut proof), &[CALLERS, &hello, &self.nonce]) {
            return Err("it does not know the token".into());
        }
        Ok(Some(Hello::decode(&hello)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tcp::tests::pair;

    /// What a host says of a caller that has heard its answer and makes this proof of it.
    fn heard(
        token: &Token,
        prove: impl Fn(&[u8], [u8; 32], [u8; PROOF]) -> [u8; PROOF],
    ) -> Result<Hello, String> {
        let (mut here, mut there) = pair();
        let hello = Hello {
            rank: Rank(1),
            called: Rank(0),
            n_ranks: 2,
            listens: "127.0.0.1:9".parse().unwrap(),
        };
        let hello = hello.encode([3; 32]);
        let mut callee = Callee::new().unwrap();
        there.write_all(&hello).unwrap();
        let mut answer = [0; ANSWER];
        while !callee.answered {
            assert_eq!(callee.go(token, &mut here), Ok(None));
        }
        there.read_exact(&mut answer).unwrap();
        let mut rest = &answer[8..];
        let (nonce, proof) = (take(&mut rest), take(&mut rest));
        let proof = prove(&hello, nonce, proof);
        there.write_all(&[&[1], &proof[..]].concat()).unwrap();
        loop {
            if let Some(hello) = callee.go(token, &mut here)? {
                return Ok(hello);
            }
        }
    }

    /// A stranger that sends back what the host has proved knows nothing of the token.
    #[test]
    fn a_proof_is_worth_nothing_of_another_role_door_or_hello() {
        let token = Token::random().unwrap();
        let own = |hello: &[u8], nonce: [u8; 32], _| token.proof(&[CALLERS, hello, &nonce]);
        assert_eq!(heard(&token, own).map(|hello| hello.rank), Ok(Rank(1)));
        let refused = Err("it does not know the token".to_string());
        assert_eq!(heard(&token, |_, _, hosts| hosts), refused);
        let elsewhere = |hello: &[u8], _: [u8; 32], _| token.proof(&[CALLERS, hello, &[0; 32]]);
        assert_eq!(heard(&token, elsewhere), refused);
        for at in 0..HELLO {
            let other = |hello: &[u8], nonce: [u8; 32], _| {
                let mut hello = hello.to_vec();
                hello[at] ^= 1;
                token.proof(&[CALLERS, &hello, &nonce])
            };
            assert_eq!(heard(&token, other), refused, "byte {at} of the hello");
        }
    }
}
