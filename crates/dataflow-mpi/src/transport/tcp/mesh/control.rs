//! Control messages: what processes say to one another beside the protocol, a frame each.
//!
//! ```text
//!   kind u8 │ what belongs to it          numbers u32, little endian; addresses 18 bytes; texts UTF-8
//! ```

use crate::transport::tcp::frame::CONTROL;
use dataflow_core::rank::Rank;
use std::net::{Ipv6Addr, SocketAddr};

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// I live; from rank 0 also whom it waits for.
    Beat(String),
    /// All have come: be connected to the ranks below you, if so, and say that you are ready.
    Meet(bool),
    /// I am.
    Ready,
    /// All are. On your machine you are this one of so many.
    Go(u32, u32),
    /// That rank cannot be reached, and by whom, or has ended; and with it the job.
    Lost(Rank, String),
    /// The job has so many ranks, not as many as you expect.
    Ranks(u32),
    /// Somebody else is this rank, or you have called another than you meant.
    Taken(Rank),
    /// To rank 0: I want to talk to that rank.
    Ask(Rank),
    /// From rank 0: call that rank, which listens there.
    At(Rank, SocketAddr),
}

impl Control {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut say = |kind: u8, numbers: &[u32]| {
            bytes.push(kind);
            numbers
                .iter()
                .for_each(|number| bytes.extend(number.to_le_bytes()));
        };
        match self {
            Control::Beat(_) => say(0, &[]),
            Control::Meet(all) => say(1, &[u32::from(*all)]),
            Control::Ready => say(2, &[]),
            Control::Go(rank, n_ranks) => say(3, &[*rank, *n_ranks]),
            Control::Lost(rank, _) => say(4, &[rank.0]),
            Control::Ranks(n) => say(5, &[*n]),
            Control::Taken(rank) => say(6, &[rank.0]),
            Control::Ask(rank) => say(7, &[rank.0]),
            Control::At(rank, _) => say(8, &[rank.0]),
        }
        match self {
            Control::Beat(text) | Control::Lost(_, text) => bytes.extend(text.as_bytes()),
            Control::At(_, address) => bytes.extend(encode_address(*address)),
            _ => {}
        }
        bytes.truncate(CONTROL);
        bytes
    }

    /// From bytes; none if it is no control message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        let number = |rest: &mut &[u8]| {
            let (number, others) = rest.split_first_chunk()?;
            *rest = others;
            Some(u32::from_le_bytes(*number))
        };
        let text = |rest: &[u8]| String::from_utf8_lossy(rest).into_owned();
        Some(match kind {
            0 => Control::Beat(text(rest)),
            1 => Control::Meet(number(&mut rest)? != 0),
            2 => Control::Ready,
            3 => Control::Go(number(&mut rest)?, number(&mut rest)?),
            4 => Control::Lost(Rank(number(&mut rest)?), text(rest)),
            5 => Control::Ranks(number(&mut rest)?),
            6 => Control::Taken(Rank(number(&mut rest)?)),
            7 => Control::Ask(Rank(number(&mut rest)?)),
            8 => {
                let rank = Rank(number(&mut rest)?);
                Control::At(rank, decode_address(*rest.first_chunk()?))
            }
            _ => return None,
        })
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
pub fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
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
        fn any_bytes_are_a_control_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(control) = Control::decode(&bytes) {
                let again = control.encode();
                prop_assert_eq!(Control::decode(&again), Some(control));
            }
        }

        #[test]
        fn words_are_understood(kind in 0u8..9, a: u32, b: u32, text: String, ip: [u8; 16], port: u16) {
            let address = SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port);
            let control = match kind {
                0 => Control::Beat(text),
                1 => Control::Meet(a.is_multiple_of(2)),
                2 => Control::Ready,
                3 => Control::Go(a, b),
                4 => Control::Lost(Rank(a), text),
                5 => Control::Ranks(a),
                6 => Control::Taken(Rank(a)),
                7 => Control::Ask(Rank(a)),
                _ => Control::At(Rank(a), address),
            };
            prop_assert_eq!(Control::decode(&control.encode()), Some(control));
        }
    }

    /// Who hears of a longer one gives up the connection.
    #[test]
    fn a_text_of_any_length_is_cut_to_what_a_control_message_holds() {
        for letter in ["e", "\u{e9}", "\u{1f980}"] {
            for n in (0..2 * CONTROL).step_by(7).chain(CONTROL - 8..CONTROL + 1) {
                let text = letter.repeat(n);
                let told = Control::Lost(Rank(3), text.clone()).encode();
                assert_eq!(told.len(), (5 + text.len()).min(CONTROL), "{n} of {letter}");
                let Some(Control::Lost(Rank(3), heard)) = Control::decode(&told) else {
                    panic!("{n} of {letter}: {told:?}")
                };
                let whole = heard.trim_end_matches(char::REPLACEMENT_CHARACTER);
                assert!(text.starts_with(whole) && whole.len() + 4 > told.len() - 5);
            }
        }
    }
}
