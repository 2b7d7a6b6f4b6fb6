//! ACTIVATE: outputs of a task, with their data or the promise of them.

use super::bytes::{Malformed, PacketReader, PacketWrite};
use dataflow_core::port::WireName;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Outputs of a task, with their data or the promise of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activate<'a> {
    /// How many activations the sender sent to this rank in this run before.
    pub number: u32,
    /// Whether the task failed or was skipped.
    pub poisoned: bool,
    /// Whether the sender wants a receipt.
    pub receipt: bool,
    /// The priority of the most urgent successor.
    pub priority: i64,
    /// The task.
    pub task: WireName,
    /// To whom the receiver passes it on, and in which tree.
    pub onward: Option<Onward>,
    /// Its flows.
    pub flows: SmallVec<[ActivatedFlow<'a>; 1]>,
}

/// Ranks that get an activation from its receiver, or through others that do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Onward {
    /// Which of the two trees.
    pub is_binary: bool,
    /// In its order; at least one.
    pub below: SmallVec<[u32; 8]>,
}

/// One flow of an activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivatedFlow<'a> {
    /// The flow.
    pub flow: u16,
    /// Its datum, if it has one.
    pub datum: Option<Announced<'a>>,
}

/// A datum of an activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced<'a> {
    /// What the receiver needs to know beforehand.
    pub head: Cow<'a, [u8]>,
    /// Bytes of the body.
    pub size: u64,
    /// The body, or `None` if it must be asked for.
    pub inline: Option<Cow<'a, [u8]>>,
}

const POISONED: u8 = 1;
const RECEIPT: u8 = 2;
const ONWARD: u8 = 4;
const BINARY: u8 = 8;

const NO_DATUM: u8 = 0;
const ON_REQUEST: u8 = 1;
const INLINE: u8 = 2;

impl<'a> Activate<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(self.number);
        out.u8(self.flags());
        out.i64(self.priority);
        out.words(&self.task);
        if let Some(onward) = &self.onward {
            out.words(&onward.below);
        }
        out.u16(self.flows.len() as u16);
        for output in &self.flows {
            out.u16(output.flow);
            let Some(datum) = &output.datum else {
                out.u8(NO_DATUM);
                continue;
            };
            out.u8(if datum.inline.is_some() {
                INLINE
            } else {
                ON_REQUEST
            });
            out.counted(&datum.head);
            out.u64(datum.size);
            if let Some(body) = &datum.inline {
                out.extend_from_slice(body);
            }
        }
    }

    pub(super) fn decode(from: &mut PacketReader<'a>) -> Result<Self, Malformed> {
        let number = from.u32("the number of an ACTIVATE")?;
        let flags = from.u8("the flags of an ACTIVATE")?;
        if flags & !(POISONED | RECEIPT | ONWARD | BINARY) != 0
            || flags & (ONWARD | BINARY) == BINARY
        {
            return Err(Malformed(format!(
                "an ACTIVATE has the flags {flags:#x} (0 to 7 and 12 to 15 are allowed)"
            )));
        }
        let priority = from.i64("the priority of an ACTIVATE")?;
        let task = from.words("the task of an ACTIVATE")?;
        let onward = match flags & ONWARD {
            0 => None,
            _ => Some(Onward {
                is_binary: flags & BINARY != 0,
                below: from.words("whom an ACTIVATE is passed on to")?,
            }),
        };
        let n_flows = from.u16("the flows of an ACTIVATE")?;
        let mut flows = SmallVec::new();
        for _ in 0..n_flows {
            flows.push(ActivatedFlow::decode(from)?);
        }
        Ok(Activate {
            number,
            poisoned: flags & POISONED != 0,
            receipt: flags & RECEIPT != 0,
            priority,
            task,
            onward,
            flows,
        })
    }

    fn flags(&self) -> u8 {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let is_binary = self.onward.as_ref().is_some_and(|onward| onward.is_binary);
        flag(self.poisoned, POISONED)
            | flag(self.receipt, RECEIPT)
            | flag(self.onward.is_some(), ONWARD)
            | flag(is_binary, BINARY)
    }
}

impl<'a> ActivatedFlow<'a> {
    fn decode(from: &mut PacketReader<'a>) -> Result<Self, Malformed> {
        let flow = from.u16("a flow of an ACTIVATE")?;
        let form = from.u8("the form of a datum")?;
        if form == NO_DATUM {
            return Ok(ActivatedFlow { flow, datum: None });
        }
        let head = Cow::Borrowed(from.counted("the head of a datum")?);
        let size = from.u64("the size of a datum")?;
        let inline = match form {
            ON_REQUEST => None,
            INLINE => {
                let bytes = usize::try_from(size).unwrap_or(usize::MAX);
                Some(Cow::Borrowed(from.take(bytes, "an inline datum")?))
            }
            _ => {
                return Err(Malformed(format!(
                    "a datum has the form {form} (0 to 2 are allowed)"
                )));
            }
        };
        Ok(ActivatedFlow {
            flow,
            datum: Some(Announced { head, size, inline }),
        })
    }
}
