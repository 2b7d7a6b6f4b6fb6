//! Every message decodes to what was encoded; no bytes make decoding panic.

use super::*;
use dataflow_core::port::Failure;
use dataflow_core::rank::Rank;
use proptest::collection::vec;
use proptest::prelude::*;
use smallvec::smallvec;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn failure() -> Failure {
    Failure {
        of_body: true,
        index: 17,
        name: smallvec![3, 1, 4],
        rank: Rank(2),
        kind: "not_positive_definite".into(),
        task: "Potrf { k: 1 }".into(),
        message: "pivot 17 is −3.2e−4".into(),
    }
}

/// For comparison: messages that borrow from different places are of different types.
fn text(message: &Message<'_>) -> String {
    format!("{message:?}")
}

/// One of each kind, and of each form.
fn samples() -> Vec<Message<'static>> {
    let datum = |size: u64, inline: Option<&'static [u8]>| Announced {
        head: Cow::Borrowed(&[9, 9]),
        size,
        inline: inline.map(Cow::Borrowed),
    };
    let activate = Activate {
        number: 5,
        poisoned: true,
        receipt: true,
        priority: -3,
        task: smallvec![1, 2, 3],
        onward: Some(Onward {
            is_binary: true,
            below: smallvec![6, 7],
        }),
        flows: smallvec![
            ActivatedFlow {
                flow: 0,
                datum: None
            },
            ActivatedFlow {
                flow: 1,
                datum: Some(datum(1 << 33, None))
            },
            ActivatedFlow {
                flow: 2,
                datum: Some(datum(3, Some(b"abc")))
            },
        ],
    };
    let account = Account {
        failure: Some(failure()),
        numbers: vec![1, 2, 3],
    };
    vec![
        Message::Hello {
            settings: vec![("n".into(), "4000".into()), ("nb".into(), "256".into())],
            disagreement: "n".into(),
        },
        Message::Welcome {
            disagreement: String::new(),
        },
        Message::Activate(activate),
        Message::Relieve { number: 5 },
        Message::Get(Get {
            number: 5,
            position: 1,
            tag: 32_767,
            offset: 1 << 33,
            length: 9,
        }),
        Message::Credit { arrived: 77 },
        Message::Receipt { number: 5 },
        Message::Dry,
        Message::Wave { round: 1 },
        Message::Tally {
            round: 1,
            tally: Tally {
                sent: 2,
                delivered: 3,
                short: 4,
                came: 1 << 41,
            },
        },
        Message::Quiet { round: 1 },
        Message::Close(account.clone()),
        Message::Closed(Account {
            failure: None,
            ..account
        }),
        Message::Abort(failure()),
        Message::Beat {
            stage: RunStage::Closed,
            came: 1 << 40,
        },
        Message::Bye,
        Message::Broken(failure()),
    ]
}

#[test]
fn every_kind_decodes_to_what_was_encoded() {
    for (message, kind) in samples().into_iter().zip(Kind::ALL) {
        let mut stream = Vec::new();
        message.encode(9, &mut stream);
        let header = MessageHeader::decode(&stream).unwrap().unwrap();
        let body = &stream[MessageHeader::BYTES..];
        assert_eq!(
            (header.run, header.kind, header.length as usize),
            (9, *kind, body.len())
        );
        assert_eq!(
            text(&Message::decode(header.kind, body).unwrap()),
            text(&message)
        );
    }
}

#[test]
fn what_is_cut_short_or_too_long_is_named() {
    for message in samples() {
        let mut stream = Vec::new();
        message.encode(9, &mut stream);
        let body = &stream[MessageHeader::BYTES..];
        for end in 0..body.len() {
            let error = Message::decode(message.kind(), &body[..end]);
            assert!(error.is_err(), "{end} bytes of {message:?}");
        }
        let longer = [body, &[0]].concat();
        assert!(Message::decode(message.kind(), &longer).is_err());
    }
}

#[test]
fn a_foreign_packet_an_unknown_kind_and_absurd_counts_are_named() {
    let text = |error: Malformed| error.to_string();
    assert!(
        text(PacketHeader::decode(b"GET / HTTP/1.1\r\n").unwrap_err())
            .contains("0x33726664 is allowed")
    );
    assert!(text(PacketHeader::decode(b"dfr3").unwrap_err()).contains("0 are left"));
    assert!(
        text(MessageHeader::decode(&[0, 0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 0]).unwrap_err())
            .contains("kind 99")
    );
    // Four billion settings in no bytes: an error at once, and nothing is allocated for them.
    let body = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    assert!(text(Message::decode(Kind::Hello, &body).unwrap_err()).contains("a setting's name"));
}

#[test]
fn flags_that_no_activation_has_are_refused_by_number() {
    let activate = Activate {
        number: 5,
        poisoned: false,
        receipt: false,
        priority: 0,
        task: smallvec![1],
        onward: None,
        flows: smallvec![],
    };
    let mut stream = Vec::new();
    Message::Activate(activate).encode(9, &mut stream);
    let body = &mut stream[MessageHeader::BYTES..];
    // Those with ONWARD say to whom.
    for flags in (0..=u8::MAX).filter(|flags| flags & 4 == 0) {
        body[4] = flags;
        match Message::decode(Kind::Activate, body) {
            Ok(_) => assert!(flags <= 3, "{flags:#x} is allowed"),
            Err(error) => assert!(
                flags > 3
                    && error
                        .to_string()
                        .contains(&format!("the flags {flags:#x} ")),
                "{error}"
            ),
        }
    }
}

#[test]
fn the_document_knows_the_layouts() {
    let mut bytes = Vec::new();
    PacketHeader {
        from: Rank(1),
        sequence: 2,
    }
    .encode(&mut bytes);
    samples()
        .iter()
        .for_each(|message| message.encode(9, &mut bytes));
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let line = format!("Samples: {hash:016x}");
    let document = include_str!("PROTOCOL.md");
    assert!(
        document.lines().any(|own| own == line),
        "PROTOCOL.md must say `{line}`"
    );
    assert!(document.contains(&format!("\nVersion {VERSION}.\n")));
    for kind in Kind::ALL {
        let row = format!(
            "| {} | {} |",
            *kind as u32,
            format!("{kind:?}").to_uppercase()
        );
        assert!(document.contains(&row), "{row}");
    }
}

#[test]
fn an_activation_of_three_parameters_costs_what_the_document_says() {
    let datum = Announced {
        head: Cow::Borrowed(&[]),
        size: 0,
        inline: Some(Cow::Borrowed(&[])),
    };
    let activate = Activate {
        number: 0,
        poisoned: false,
        receipt: false,
        priority: 0,
        task: smallvec![0, 1, 2, 3],
        onward: None,
        flows: smallvec![ActivatedFlow {
            flow: 0,
            datum: Some(datum)
        }],
    };
    let mut stream = Vec::new();
    Message::Activate(activate).encode(1, &mut stream);
    assert_eq!(stream.len(), MessageHeader::BYTES + 50);
}

fn kind() -> impl Strategy<Value = Kind> {
    (0..Kind::ALL.len()).prop_map(|i| Kind::ALL[i])
}

type Flow = (u16, Option<(Vec<u8>, Vec<u8>, bool)>);

fn output((flow, datum): &Flow) -> ActivatedFlow<'_> {
    ActivatedFlow {
        flow: *flow,
        datum: datum.as_ref().map(|(head, body, inline)| Announced {
            head: Cow::Borrowed(head),
            size: body.len() as u64,
            inline: inline.then(|| Cow::Borrowed(&body[..])),
        }),
    }
}

proptest! {
    #[test]
    fn no_bytes_make_decoding_panic(kind in kind(), body in vec(any::<u8>(), 0..200)) {
        if let Ok(message) = Message::decode(kind, &body) {
            // What decodes, encodes to the same bytes.
            let mut stream = Vec::new();
            message.encode(0, &mut stream);
            prop_assert_eq!(&stream[MessageHeader::BYTES..], &body[..]);
        }
        PacketHeader::decode(&body).ok();
        MessageHeader::decode(&body).ok();
    }

    #[test]
    fn a_byte_that_was_changed_makes_no_message_panic(sample in 0usize..16, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let message = &samples()[sample];
        let mut stream = Vec::new();
        message.encode(1, &mut stream);
        let at = at.index(stream.len());
        stream[at] = byte;
        if let Ok(Some(header)) = MessageHeader::decode(&stream) {
            Message::decode(header.kind, &stream[MessageHeader::BYTES..]).ok();
        }
    }

    #[test]
    fn activations_of_any_size_come_back(
        number in any::<u32>(), priority in any::<i64>(), task in vec(any::<u32>(), 0..20),
        onward in prop::option::of((any::<bool>(), vec(any::<u32>(), 1..10))),
        flows in vec((any::<u16>(), prop::option::of((vec(any::<u8>(), 0..50), vec(any::<u8>(), 0..100), any::<bool>()))), 0..10),
    ) {
        let activate = Activate {
            number, poisoned: false, receipt: true, priority,
            task: task.into_iter().collect(),
            onward: onward.map(|(is_binary, below)| Onward { is_binary, below: below.into() }),
            flows: flows.iter().map(output).collect(),
        };
        let message = Message::Activate(activate);
        let mut stream = Vec::new();
        message.encode(1, &mut stream);
        prop_assert_eq!(text(&Message::decode(Kind::Activate, &stream[MessageHeader::BYTES..]).unwrap()), text(&message));
    }
}

/// Its length was told wrong, and so were all that came behind it.
#[test]
fn a_body_that_is_longer_than_its_header_can_tell_is_not_appended() {
    let most = u32::MAX;
    for (body, told) in [
        (0, Some(0)),
        (1 << 31, Some(1 << 31)),
        (most as usize, Some(most)),
    ] {
        assert_eq!(MessageHeader::length_of(body, most), told);
    }
    for body in [1 << 32, (1 << 32) + 7, usize::MAX] {
        assert_eq!(MessageHeader::length_of(body, most), None);
    }
    for message in samples() {
        let mut stream = vec![7];
        message.encode(9, &mut stream);
        let length = (stream.len() - 1 - MessageHeader::BYTES) as u32;
        let mut within = vec![7];
        message.encode_within(length, 9, &mut within);
        assert_eq!(within, stream);
        let Some(less) = length.checked_sub(1) else {
            continue;
        };
        let mut before = vec![7];
        let encode = AssertUnwindSafe(|| message.encode_within(less, 9, &mut before));
        let text = *catch_unwind(encode)
            .unwrap_err()
            .downcast::<String>()
            .unwrap();
        let expected = format!("a message of {length} bytes (at most {less} are allowed)");
        assert_eq!((text, before), (expected, vec![7]));
    }
}
