//! Words: what processes say to one another before they are ranks. Every one has its fixed length.
//!
//! ```text
//!   hello   magic 8 │ token 32 │ rank u32 │ ranks u32 │ where it listens: address 16, port u16
//!   word    kind u32 │ number u32             a roster is followed by an address and port a rank
//! ```

use crate::transport::tcp::Token;
use dataflow_core::rank::Rank;
use std::net::{Ipv6Addr, SocketAddr};

/// The first bytes of whoever wants to be a rank.
const MAGIC: [u8; 8] = *b"dfmesh1\n";

/// How a process introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which rank it is.
    pub rank: Rank,
    /// How many it expects.
    pub n_ranks: u32,
    /// Where it can be reached.
    pub listens: SocketAddr,
}

impl Hello {
    /// Its length on the wire.
    pub const BYTES: usize = 8 + Token::BYTES + 8 + ADDRESS;

    /// As bytes.
    pub fn encode(&self, token: &Token) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(token.bytes());
        bytes.extend_from_slice(&self.rank.0.to_le_bytes());
        bytes.extend_from_slice(&self.n_ranks.to_le_bytes());
        bytes.extend_from_slice(&encode_address(self.listens));
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// If it is no hello, or one of another job.
    pub fn decode(bytes: &[u8; Self::BYTES], token: &Token) -> Result<Self, &'static str> {
        let mut rest = &bytes[..];
        if take(&mut rest) != MAGIC {
            return Err("it does not say what ranks say");
        }
        if !token.is_known_to(&take(&mut rest)) {
            return Err("it does not know the token");
        }
        Ok(Hello {
            rank: Rank(u32::from_le_bytes(take(&mut rest))),
            n_ranks: u32::from_le_bytes(take(&mut rest)),
            listens: decode_address(take(&mut rest)),
        })
    }

    /// Whether what has come of it can still become one.
    pub fn may_begin_with(bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC).all(|(said, magic)| *said == magic)
    }
}

/// What is said between rank 0 and another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// All have come; the addresses of so many ranks follow.
    Roster(u32),
    /// This rank is connected to all others.
    Ready,
    /// All are.
    Go,
    /// A rank has ended, and with it the job.
    Lost(Rank),
    /// The job has so many ranks, not as many as were expected.
    Ranks(u32),
    /// Somebody else is this rank.
    Taken(Rank),
}

impl Word {
    /// Its length on the wire.
    pub const BYTES: usize = 8;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let (kind, number) = match *self {
            Word::Roster(n) => (1u32, n),
            Word::Ready => (2, 0),
            Word::Go => (3, 0),
            Word::Lost(rank) => (4, rank.0),
            Word::Ranks(n) => (5, n),
            Word::Taken(rank) => (6, rank.0),
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// From bytes; none if it is no word.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let kind = u32::from_le_bytes(take(&mut rest));
        let number = u32::from_le_bytes(take(&mut rest));
        match kind {
            1 => Some(Word::Roster(number)),
            2 => Some(Word::Ready),
            3 => Some(Word::Go),
            4 => Some(Word::Lost(Rank(number))),
            5 => Some(Word::Ranks(number)),
            6 => Some(Word::Taken(Rank(number))),
            _ => None,
        }
    }
}

/// The length of an address on the wire.
pub const ADDRESS: usize = 18;

/// An address as bytes.
pub fn encode_address(address: SocketAddr) -> [u8; ADDRESS] {
    let ip = match address {
        SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped(),
        SocketAddr::V6(v6) => *v6.ip(),
    };
    let mut bytes = [0; ADDRESS];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_le_bytes());
    bytes
}

/// An address from bytes.
pub fn decode_address(bytes: [u8; ADDRESS]) -> SocketAddr {
    let mut rest = &bytes[..];
    let ip = Ipv6Addr::from(take::<16>(&mut rest));
    SocketAddr::new(ip.to_canonical(), u16::from_le_bytes(take(&mut rest)))
}

/// The first bytes of a slice that has them.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (first, others) = rest.split_at(N);
    *rest = others;
    std::array::from_fn(|i| first[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hello_is_understood_by_those_who_know_its_token_only(
            bytes in any::<[u8; 16]>(), rank: u32, n_ranks: u32, port: u16, mapped: bool
        ) {
            let [a, b, c, d, ..] = bytes;
            let ip = if mapped { [a, b, c, d].into() } else { Ipv6Addr::from(bytes).to_canonical() };
            let hello = Hello { rank: Rank(rank), n_ranks, listens: SocketAddr::new(ip, port) };
            let (token, other) = (Token::random().unwrap(), Token::random().unwrap());
            let encoded: [u8; Hello::BYTES] = hello.encode(&token).try_into().unwrap();
            prop_assert_eq!(Hello::decode(&encoded, &token), Ok(hello));
            prop_assert_eq!(Hello::decode(&encoded, &other), Err("it does not know the token"));
            prop_assert!((0..Hello::BYTES).all(|n| Hello::may_begin_with(&encoded[..n])));
        }

        #[test]
        fn any_eight_bytes_are_a_word_or_none(bytes: [u8; 8]) {
            if let Some(word) = Word::decode(&bytes) {
                let again = word.encode();
                prop_assert_eq!(Word::decode(&again), Some(word));
            }
        }
    }
}
