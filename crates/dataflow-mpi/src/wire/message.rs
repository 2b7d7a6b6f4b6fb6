//! Messages: what ranks say to each other.

use super::activate::Activate;
use super::bytes::{Malformed, PacketReader, PacketWrite};
use super::header::{Kind, MessageHeader};
use dataflow_core::port::Failure;
use dataflow_core::rank::Rank;

/// What one rank says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the kinds are documented at `Kind`, the fields in PROTOCOL.md
pub enum Message<'a> {
    Hello {
        settings: Vec<(String, String)>,
        disagreement: String,
    },
    Welcome {
        disagreement: String,
    },
    Activate(Activate<'a>),
    Relieve {
        number: u32,
    },
    Get(Get),
    Credit {
        arrived: u64,
    },
    Receipt {
        number: u32,
    },
    Dry,
    Wave {
        round: u32,
    },
    Tally {
        round: u32,
        tally: Tally,
    },
    Quiet {
        round: u32,
    },
    Close(Account),
    Closed(Account),
    Abort(Failure),
    Beat {
        stage: RunStage,
        came: u64,
    },
    Bye,
    Broken(Failure),
}

/// How far a rank is with a run; a rank that hears it knows what must have come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RunStage {
    /// It has not opened it, or those below it have not.
    Apart = 0,
    /// It has said HELLO.
    Open = 1,
    /// The run has begun there.
    Begun = 2,
    /// It has said CLOSE.
    Closed = 3,
}

impl RunStage {
    fn decode(number: u8) -> Result<Self, Malformed> {
        let all = [
            RunStage::Apart,
            RunStage::Open,
            RunStage::Begun,
            RunStage::Closed,
        ];
        let stage = all.get(usize::from(number)).copied();
        let wrong = || {
            Malformed(format!(
                "the stage of a BEAT is {number} (0 to 3 are allowed)"
            ))
        };
        stage.ok_or_else(wrong)
    }
}

/// Asks for part of a datum that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// The number of the activation that announced it.
    pub number: u32,
    /// Which of its flows, by position.
    pub position: u16,
    /// The tag under which room was made.
    pub tag: u32,
    /// Where the part begins.
    pub offset: u64,
    /// Its length.
    pub length: u64,
}

/// What a subtree of ranks answers to a wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Parcels sent.
    pub sent: u64,
    /// Parcels delivered.
    pub delivered: u64,
    /// Ranks that have not run everything.
    pub short: u32,
    /// Grows as bytes come.
    pub came: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.sent = self.sent.wrapping_add(other.sent);
        self.delivered = self.delivered.wrapping_add(other.delivered);
        self.short = self.short.wrapping_add(other.short);
        self.came = self.came.wrapping_add(other.came);
    }
}

/// What a subtree of ranks has to say at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The smallest failure.
    pub failure: Option<Failure>,
    /// Numbers that are added up: tasks, parcels sent and delivered, data announced and fetched,
    /// then the [counters](crate::Counters).
    pub numbers: Vec<u64>,
}

impl Message<'_> {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Message::Hello { .. } => Kind::Hello,
            Message::Welcome { .. } => Kind::Welcome,
            Message::Activate(_) => Kind::Activate,
            Message::Relieve { .. } => Kind::Relieve,
            Message::Get(_) => Kind::Get,
            Message::Credit { .. } => Kind::Credit,
            Message::Receipt { .. } => Kind::Receipt,
            Message::Dry => Kind::Dry,
            Message::Wave { .. } => Kind::Wave,
            Message::Tally { .. } => Kind::Tally,
            Message::Quiet { .. } => Kind::Quiet,
            Message::Close(_) => Kind::Close,
            Message::Closed(_) => Kind::Closed,
            Message::Abort(_) => Kind::Abort,
            Message::Beat { .. } => Kind::Beat,
            Message::Bye => Kind::Bye,
            Message::Broken(_) => Kind::Broken,
        }
    }

    /// How many bytes of data it carries.
    pub fn payload(&self) -> usize {
        let Message::Activate(activate) = self else {
            return 0;
        };
        let data = activate.flows.iter().flat_map(|output| &output.datum);
        data.flat_map(|datum| &datum.inline)
            .map(|body| body.len())
            .sum()
    }

    /// Appends header and body to a stream.
    ///
    /// # Panics
    /// If the body is longer than 4 GiB; then nothing is appended.
    pub fn encode(&self, run: u32, stream: &mut Vec<u8>) {
        self.encode_within(u32::MAX, run, stream);
    }

    /// The same of a body that may be so long.
    #[inline]
    pub(super) fn encode_within(&self, longest: u32, run: u32, stream: &mut Vec<u8>) {
        let at = stream.len();
        stream.u32(0);
        stream.u32(run);
        stream.u32(self.kind() as u32);
        self.body(stream);
        let length = stream.len() - at - MessageHeader::BYTES;
        let Some(told) = MessageHeader::length_of(length, longest) else {
            stream.truncate(at);
            panic!("a message of {length} bytes (at most {longest} are allowed)");
        };
        stream[at..at + 4].copy_from_slice(&told.to_le_bytes());
    }

    fn body(&self, out: &mut Vec<u8>) {
        match self {
            Message::Hello {
                settings,
                disagreement,
            } => {
                out.counted(disagreement.as_bytes());
                out.u32(settings.len() as u32);
                for (name, value) in settings {
                    out.counted(name.as_bytes());
                    out.counted(value.as_bytes());
                }
            }
            Message::Welcome { disagreement } => out.counted(disagreement.as_bytes()),
            Message::Activate(activate) => activate.encode(out),
            Message::Get(get) => {
                out.u32(get.number);
                out.u16(get.position);
                out.u32(get.tag);
                out.u64(get.offset);
                out.u64(get.length);
            }
            Message::Credit { arrived } => out.u64(*arrived),
            Message::Relieve { number } | Message::Receipt { number } => out.u32(*number),
            Message::Wave { round } | Message::Quiet { round } => out.u32(*round),
            Message::Tally { round, tally } => {
                out.u32(*round);
                out.u64(tally.sent);
                out.u64(tally.delivered);
                out.u32(tally.short);
                out.u64(tally.came);
            }
            Message::Close(account) | Message::Closed(account) => {
                out.u8(account.failure.is_some().into());
                if let Some(failure) = &account.failure {
                    encode_failure(failure, out);
                }
                out.u32(account.numbers.len() as u32);
                account.numbers.iter().for_each(|&number| out.u64(number));
            }
            Message::Abort(failure) | Message::Broken(failure) => encode_failure(failure, out),
            Message::Beat { stage, came } => {
                out.u8(*stage as u8);
                out.u64(*came);
            }
            Message::Dry | Message::Bye => {}
        }
    }

    /// The message of a header and a body.
    ///
    /// # Errors
    /// What is wrong with the body.
    pub fn decode(kind: Kind, body: &[u8]) -> Result<Message<'_>, Malformed> {
        let mut reader = PacketReader(body);
        let from = &mut reader;
        let message = match kind {
            Kind::Hello => decode_hello(from)?,
            Kind::Welcome => Message::Welcome {
                disagreement: from.string("a disagreement")?,
            },
            Kind::Activate => Message::Activate(Activate::decode(from)?),
            Kind::Relieve => Message::Relieve {
                number: from.u32("a RELIEVE")?,
            },
            Kind::Get => Message::Get(Get {
                number: from.u32("the number of a GET")?,
                position: from.u16("the flow of a GET")?,
                tag: from.u32("the tag of a GET")?,
                offset: from.u64("the offset of a GET")?,
                length: from.u64("the length of a GET")?,
            }),
            Kind::Credit => Message::Credit {
                arrived: from.u64("a CREDIT")?,
            },
            Kind::Receipt => Message::Receipt {
                number: from.u32("a RECEIPT")?,
            },
            Kind::Dry => Message::Dry,
            Kind::Wave => Message::Wave {
                round: from.u32("a WAVE")?,
            },
            Kind::Tally => Message::Tally {
                round: from.u32("the round of a TALLY")?,
                tally: Tally {
                    sent: from.u64("a TALLY")?,
                    delivered: from.u64("a TALLY")?,
                    short: from.u32("a TALLY")?,
                    came: from.u64("a TALLY")?,
                },
            },
            Kind::Quiet => Message::Quiet {
                round: from.u32("a QUIET")?,
            },
            Kind::Close => Message::Close(decode_account(from)?),
            Kind::Closed => Message::Closed(decode_account(from)?),
            Kind::Abort => Message::Abort(decode_failure(from)?),
            Kind::Beat => Message::Beat {
                stage: RunStage::decode(from.u8("a BEAT")?)?,
                came: from.u64("the bytes of a BEAT")?,
            },
            Kind::Bye => Message::Bye,
            Kind::Broken => Message::Broken(decode_failure(from)?),
        };
        reader.end("a message")?;
        Ok(message)
    }
}

fn decode_hello<'a>(from: &mut PacketReader<'a>) -> Result<Message<'a>, Malformed> {
    let disagreement = from.string("a disagreement")?;
    let n_settings = from.u32("the number of settings")?;
    let setting = |_| {
        Ok((
            from.string("a setting's name")?,
            from.string("a setting's value")?,
        ))
    };
    let settings = (0..n_settings).map(setting).collect::<Result<_, _>>()?;
    Ok(Message::Hello {
        settings,
        disagreement,
    })
}

fn decode_account(from: &mut PacketReader<'_>) -> Result<Account, Malformed> {
    let failed = from.bool("whether a run failed")?;
    let failure = if failed {
        Some(decode_failure(from)?)
    } else {
        None
    };
    let n_numbers = from.u32("the numbers of an account")?;
    let number = |_| from.u64("a number of an account");
    let numbers = (0..n_numbers).map(number).collect::<Result<_, _>>()?;
    Ok(Account { failure, numbers })
}

fn encode_failure(failure: &Failure, out: &mut Vec<u8>) {
    out.u8(failure.of_body.into());
    out.u64(failure.index);
    out.words(&failure.name);
    out.u32(failure.rank.0);
    for text in [&failure.kind, &failure.task, &failure.message] {
        out.counted(text.as_bytes());
    }
}

fn decode_failure(from: &mut PacketReader<'_>) -> Result<Failure, Malformed> {
    Ok(Failure {
        of_body: from.bool("whether a body failed")?,
        index: from.u64("the index of a failure")?,
        name: from.words("the task of a failure")?,
        rank: Rank(from.u32("the rank of a failure")?),
        kind: from.string("the kind of a failure")?,
        task: from.string("the task of a failure")?,
        message: from.string("the text of a failure")?,
    })
}
