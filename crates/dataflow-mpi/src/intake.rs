//! Intake: packets of one rank become its stream of messages again.
//!
//! # Law
//! Messages come out in the order in which they were said, each once. A packet that came before is
//! dropped; one that came too early waits for those before it. A gap that does not close is an
//! error of the rank that asks ([`gap`](Intake::gap)).

use crate::wire::{Malformed, MessageHeader};
use std::collections::BTreeMap;
use std::time::Duration;

/// What comes in from one rank.
#[derive(Debug, Default)]
pub struct Intake {
    expected: u64,
    early: BTreeMap<u64, Vec<u8>>,
    gap_since: Duration,
    stream: Vec<u8>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Accepted {
    /// It continues the stream.
    Next,
    /// One before it is missing.
    Early,
    /// It came before.
    Duplicate,
}

impl Intake {
    /// Takes in a packet.
    pub fn accept(&mut self, sequence: u64, part: &[u8], now: Duration) -> Accepted {
        if sequence < self.expected || self.early.contains_key(&sequence) {
            return Accepted::Duplicate;
        }
        if sequence > self.expected {
            if self.early.is_empty() {
                self.gap_since = now;
            }
            self.early.insert(sequence, part.to_vec());
            return Accepted::Early;
        }
        self.expected += 1;
        self.stream.extend_from_slice(part);
        while let Some(part) = self.early.remove(&self.expected) {
            self.expected += 1;
            self.gap_since = now;
            self.stream.extend_from_slice(&part);
        }
        Accepted::Next
    }

    /// The number of a packet that is missing while later ones have come, and since when.
    pub fn gap(&self) -> Option<(u64, Duration)> {
        (!self.early.is_empty()).then_some((self.expected, self.gap_since))
    }

    /// The stream as far as it was not read, to be given [back](Self::put_back).
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.stream)
    }

    /// Gives the stream back, the first `read` bytes of it used up.
    pub fn put_back(&mut self, mut stream: Vec<u8>, read: usize) {
        stream.drain(..read);
        self.stream = stream;
    }
}

/// The message at `at` in a stream: its header, its body; `None` if it is not all there.
///
/// # Errors
/// If there is no message.
pub fn message_at(stream: &[u8], at: usize) -> Result<Option<(MessageHeader, &[u8])>, Malformed> {
    let rest = &stream[at..];
    let Some(header) = MessageHeader::decode(rest)? else {
        return Ok(None);
    };
    let end = MessageHeader::BYTES.saturating_add(header.length as usize);
    Ok(rest
        .get(MessageHeader::BYTES..end)
        .map(|body| (header, body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_that_came_before_is_known_and_one_too_early_waits() {
        let mut intake = Intake::default();
        let at = Duration::from_secs;
        assert_eq!(intake.accept(1, b"b", at(3)), Accepted::Early);
        assert_eq!(intake.accept(1, b"b", at(4)), Accepted::Duplicate);
        assert_eq!(intake.gap(), Some((0, at(3))));
        assert_eq!(intake.accept(0, b"a", at(5)), Accepted::Next);
        assert_eq!(intake.accept(0, b"a", at(6)), Accepted::Duplicate);
        assert_eq!((intake.gap(), &intake.take()[..]), (None, &b"ab"[..]));
    }

    #[test]
    fn a_second_gap_counts_from_when_the_first_was_closed() {
        let mut intake = Intake::default();
        let at = Duration::from_secs;
        for (sequence, now) in [(1, 1), (3, 2), (0, 7)] {
            assert_ne!(intake.accept(sequence, b"", at(now)), Accepted::Duplicate);
        }
        assert_eq!(intake.gap(), Some((2, at(7))));
    }

    proptest! {
        #[test]
        fn in_any_order_and_repeated_packets_give_the_same_stream(order in Just((0..12u64).collect::<Vec<_>>()).prop_shuffle(), again in any::<u16>()) {
            let mut intake = Intake::default();
            let mut duplicates = 0;
            for &sequence in &order {
                for _ in 0..1 + (again >> sequence & 1) {
                    let accepted = intake.accept(sequence, &[sequence as u8; 3], Duration::ZERO);
                    duplicates += u32::from(accepted == Accepted::Duplicate);
                }
            }
            let whole: Vec<u8> = (0..12).flat_map(|i| [i; 3]).collect();
            prop_assert_eq!(intake.take(), whole);
            prop_assert_eq!(duplicates, (again & 0xfff).count_ones());
        }
    }
}
