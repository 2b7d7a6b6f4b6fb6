//! Streams without sockets: whatever is cut anywhere arrives whole, and no bytes do harm.

use super::frame::{CONTROL, FrameHeader, FrameKind, PART};
use super::incoming::{Incoming, Stopped};
use super::outgoing::Outgoing;
use super::{Mesh, Tcp, Token};
use crate::bell::Bell;
use crate::transport::delicate::Delicate;
use crate::transport::{Event, Load, Room, Transport};
use dataflow_core::port::{Heap, Memory};
use dataflow_core::rank::Rank;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const LONGEST: usize = 4 << 20;

/// A pipe that takes and gives a few bytes at a time, as many as its list says, again and again.
struct Pipe {
    bytes: VecDeque<u8>,
    steps: Vec<usize>,
    at: usize,
}

impl Pipe {
    fn new(bytes: &[u8], steps: Vec<usize>) -> Self {
        let bytes = bytes.iter().copied().collect();
        Pipe {
            bytes,
            steps,
            at: 0,
        }
    }

    /// How many bytes go now; nothing now and then.
    fn step(&mut self) -> io::Result<usize> {
        self.at += 1;
        match self.steps[self.at % self.steps.len()] {
            0 => Err(ErrorKind::WouldBlock.into()),
            step => Ok(step),
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let step = self.step()?;
        if self.bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = step.min(target.len()).min(self.bytes.len());
        target
            .iter_mut()
            .zip(self.bytes.drain(..n))
            .for_each(|(to, byte)| *to = byte);
        Ok(n)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.step()?.min(bytes.len());
        self.bytes.extend(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn bytes_of(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| (i ^ i >> 8 ^ seed) as u8).collect()
}

fn room(size: usize) -> Room {
    Room {
        block: Heap.allocate(size),
        range: 0..size,
    }
}

/// Reads all that a source has, checking after each step that little memory is held for little.
fn read_all(
    incoming: &mut Incoming,
    source: &mut Pipe,
    events: &mut VecDeque<Event>,
) -> Result<(), String> {
    let all = source.bytes.len();
    for _ in 0..10 * all + 100 {
        let stopped = incoming.read(source, events)?;
        let came = all - source.bytes.len();
        assert!(
            incoming.memory() <= (64 << 10).max(2 * came),
            "{} for {came}",
            incoming.memory()
        );
        if stopped == Stopped::NoRoom || (source.bytes.is_empty() && stopped == Stopped::Empty) {
            break;
        }
    }
    Ok(())
}

/// Steps of which some go ahead.
fn steps(longest: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..longest, 1..20)
        .prop_filter("never goes", |steps| steps.iter().any(|step| *step > 0))
}

fn header(kind: FrameKind, tag: u32, length: usize) -> Vec<u8> {
    FrameHeader { kind, tag, length }.encode().into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_a_receiver_panic_or_hold_more_than_twice_what_came(
        pieces in proptest::collection::vec((0u32..5, 0u32..4, 0u64..2000, any::<u64>(), any::<bool>()), 0..20),
        steps in steps(5000),
    ) {
        let mut stream = Vec::new();
        for (kind, tag, length, wild, is_wild) in pieces {
            stream.extend(kind.to_le_bytes());
            stream.extend(tag.to_le_bytes());
            // Of every magnitude.
            let said = if is_wild { wild >> (wild % 64) } else { length };
            stream.extend(said.to_le_bytes());
            stream.extend(bytes_of(length as usize, wild as usize));
        }
        let mut incoming = Incoming::new(Rank(1), LONGEST);
        (1..4).for_each(|tag| incoming.receive(tag, room(1000)));
        let mut events = VecDeque::new();
        let read = read_all(&mut incoming, &mut Pipe::new(&stream, steps), &mut events);
        prop_assert!(read.is_ok() || read.unwrap_err().starts_with("it sent a frame"));
    }

    #[test]
    fn what_is_sent_arrives_however_the_stream_is_cut(
        packets in proptest::collection::vec(0usize..100_000, 0..6),
        data in proptest::collection::vec(0usize..3 * PART, 0..3),
        writes in steps(200_000),
        reads in steps(200_000),
    ) {
        let (mut outgoing, mut incoming) = (Outgoing::new(Rank(1)), Incoming::new(Rank(0), LONGEST));
        let mut wire = Pipe::new(&[], writes);
        let mut left = VecDeque::new();
        for (i, &size) in data.iter().enumerate() {
            incoming.receive(7, room(size));
            outgoing.send_data(7, Load::Packed(bytes_of(size, i).into()).part(0..size));
        }
        packets.iter().enumerate().for_each(|(i, &size)| outgoing.send(bytes_of(size, i)));
        for _ in 0..10_000_000 {
            let before = wire.bytes.len();
            outgoing.write(&mut wire, &mut left).unwrap();
            if wire.bytes.len() == before && outgoing.is_empty() {
                break;
            }
        }
        prop_assert_eq!(left.len(), packets.len());
        wire.steps = reads;
        let mut came = VecDeque::new();
        read_all(&mut incoming, &mut wire, &mut came).unwrap();
        let (mut next_packet, mut next_data) = (0, 0);
        for event in came {
            match event {
                Event::Packet { bytes, .. } => {
                    prop_assert!(bytes == bytes_of(packets[next_packet], next_packet));
                    next_packet += 1;
                }
                Event::Data { room, bytes, .. } => {
                    prop_assert_eq!(bytes, data[next_data]);
                    prop_assert!(room.block.bytes() == bytes_of(bytes, next_data));
                    next_data += 1;
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!((next_packet, next_data), (packets.len(), data.len()));
    }
}

#[test]
fn lengths_beyond_what_is_allowed_are_refused_before_anything_is_allocated() {
    let (two_to_63, most) = (1usize << 63, usize::MAX);
    for (kind, tag, length) in [
        (FrameKind::Packet, 0, LONGEST + 1),
        (FrameKind::Packet, 0, two_to_63),
        (FrameKind::Part, 1, PART + 1),
        (FrameKind::Last, 1, two_to_63),
        (FrameKind::Last, 1, most),
        (FrameKind::Packet, 1, 10),
        (FrameKind::Last, 0, 10),
    ] {
        let mut incoming = Incoming::new(Rank(1), LONGEST);
        incoming.receive(1, room(10));
        let mut source = Pipe::new(&header(kind, tag, length), vec![usize::MAX]);
        let refused = read_all(&mut incoming, &mut source, &mut VecDeque::new());
        assert!(
            refused.unwrap_err().starts_with("it sent a frame"),
            "{kind:?} {tag} {length}"
        );
        assert_eq!(incoming.memory(), 0);
    }
}

#[test]
fn frames_as_long_as_is_allowed_are_taken() {
    for (kind, tag, length) in [
        (FrameKind::Packet, 0, LONGEST),
        (FrameKind::Part, 1, PART),
        (FrameKind::Last, 1, PART),
        (FrameKind::Control, 0, CONTROL),
    ] {
        let header = FrameHeader { kind, tag, length };
        assert_eq!(FrameHeader::decode(&header.encode(), LONGEST), Ok(header));
    }
}

#[test]
fn packets_go_between_the_parts_of_a_long_datum() {
    let mut outgoing = Outgoing::new(Rank(1));
    let mut events = VecDeque::new();
    let long = Load::Packed(vec![1; 3 * PART].into());
    outgoing.send_data(1, long.part(0..3 * PART));
    let mut wire = Pipe::new(&[], vec![100, 0]);
    outgoing.write(&mut wire, &mut events).unwrap();
    outgoing.send(vec![2; 5]);
    wire.steps = vec![usize::MAX];
    outgoing.write(&mut wire, &mut events).unwrap();
    let stream: Vec<u8> = wire.bytes.into();
    let second = &stream[FrameHeader::BYTES + PART..];
    assert_eq!(
        second[..FrameHeader::BYTES],
        header(FrameKind::Packet, 0, 5)
    );
    let third = &second[FrameHeader::BYTES + 5..];
    assert_eq!(
        third[..FrameHeader::BYTES],
        header(FrameKind::Part, 1, PART)
    );
}

/// Two of them ended the process.
#[test]
fn data_that_panic_as_they_are_dropped_are_dropped_one_by_one() {
    let mut outgoing = Outgoing::new(Rank(1));
    let dropped = Delicate::counted(|payload| outgoing.send_data(1, payload), 3);
    drop(outgoing);
    assert_eq!(dropped(), 3);
}

/// The frame seemed to be leaving still: what came behind it was lost, and with it the connection.
#[test]
fn a_datum_that_panics_as_it_is_dropped_has_been_sent_and_what_comes_behind_it_leaves() {
    let mut outgoing = Outgoing::new(Rank(1));
    let dropped = Delicate::counted(|payload| outgoing.send_data(1, payload), 2);
    let (mut wire, mut events) = (Pipe::new(&[], vec![usize::MAX]), VecDeque::new());
    outgoing.write(&mut wire, &mut events).unwrap();
    assert_eq!(dropped(), 2);
    outgoing.send(vec![2; 5]);
    outgoing.write(&mut wire, &mut events).unwrap();
    assert!(outgoing.is_empty());
    let frames = 2 * (FrameHeader::BYTES + 8) + FrameHeader::BYTES + 5;
    assert_eq!(wire.bytes.len(), frames);
}

/// How much a socket takes whose other end reads nothing.
#[cfg(target_os = "linux")]
fn taken(prepare: impl Fn(&mio::net::TcpStream)) -> usize {
    let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(door.local_addr().unwrap()).unwrap();
    let _other = door.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut stream = mio::net::TcpStream::from_std(stream);
    prepare(&stream);
    let bytes = vec![0; 1 << 16];
    let mut taken = 0;
    // What has left the sender makes room a moment later.
    for _ in 0..20 {
        while let Ok(written) = stream.write(&bytes) {
            taken += written;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    taken
}

/// Words of what is urgent waited behind megabytes that the system had taken.
#[cfg(target_os = "linux")]
#[test]
fn a_socket_takes_little_more_than_what_its_wire_carries() {
    let [with, without] = [taken(super::keep_little_unsent), taken(|_| ())];
    assert!(with + (1 << 20) < without, "{with} and {without} bytes");
}

/// Rank 0 and rank 1, and a copy of the listener at which rank 0 was found.
fn two_ranks(settle: impl Fn(&mut Mesh) + Sync) -> (Tcp, Tcp, TcpListener) {
    let token = Token::random().unwrap();
    let mesh = |rank| {
        let mut mesh = Mesh::new(Rank(rank), 2, token);
        settle(&mut mesh);
        mesh
    };
    let [first, second] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let (root, copy) = (first.local_addr().unwrap(), first.try_clone().unwrap());
    std::thread::scope(|ranks| {
        let other = ranks.spawn(|| mesh(1).join(&[root], second).unwrap());
        let has_ended = || (Rank(1), "it has ended".into());
        let leader = mesh(0).lead(first, &mut || other.is_finished().then(has_ended));
        (leader.unwrap(), other.join().unwrap(), copy)
    })
}

#[test]
fn ranks_that_gather_at_one_address_know_which_of_them_they_are() {
    let (leader, other, _copy) = two_ranks(|_| ());
    assert_eq!([leader.here(), other.here()], [(0, 2), (1, 2)]);
}

/// The process that has started the others keeps the listener for the next launch. A rank whose part
/// was done called there, and the thread that moved messages span until the program's end.
#[test]
fn whoever_knocks_when_the_ranks_have_gathered_keeps_nobody_awake() {
    let (mut leader, _other, copy) = two_ranks(|_| ());
    let _guest = TcpStream::connect(copy.local_addr().unwrap()).unwrap();
    let (start, mut looks) = (Instant::now(), 0);
    while let Some(left) = Duration::from_millis(300).checked_sub(start.elapsed()) {
        assert!(leader.poll().is_none());
        leader.watch.wait(Some(left));
        looks += 1;
    }
    // What the ranks said last while they gathered may be told of late.
    assert!(looks < 10, "{looks} looks");
}

#[test]
fn a_door_is_open_after_all_have_gathered_only_where_others_may_still_call() {
    for (acquainted_ranks, expected) in [(64, [false, false]), (0, [false, true])] {
        let (leader, other, _copy) = two_ranks(|mesh| mesh.acquainted_ranks = acquainted_ranks);
        let are_open = [leader, other].map(|tcp| tcp.door.is_some());
        assert_eq!(are_open, expected, "{acquainted_ranks}");
    }
}

/// Otherwise the silence of a rank that is called would count before it can say anything.
#[test]
fn where_ranks_are_connected_when_one_speaks_a_connection_is_told_of() {
    for (acquainted_ranks, expected) in [(0, 1), (64, 0)] {
        let (mut leader, _other, _copy) =
            two_ranks(|mesh| mesh.acquainted_ranks = acquainted_ranks);
        let is_told = |event: &Event| matches!(event, Event::Part { bytes: 0, .. });
        let told = std::iter::from_fn(|| leader.poll()).filter(is_told).count();
        assert_eq!(told, expected, "{acquainted_ranks}");
    }
}

/// The end came together with the last bytes: it was heard at the next look, for which a thread that slept
/// without limit waited in vain.
#[test]
fn a_stream_that_ends_is_read_to_its_end_at_once() {
    let stream = [header(FrameKind::Packet, 0, 3), vec![7; 3]].concat();
    for ends in [false, true] {
        let mut incoming = Incoming::new(Rank(1), LONGEST);
        if ends {
            incoming.ends();
        }
        let mut events = VecDeque::new();
        let stopped = incoming.read(&mut &stream[..], &mut events);
        assert_eq!(stopped.is_err(), ends, "{stopped:?}");
        assert_eq!(events.len(), 1, "its last words are heard");
    }
}

/// Nobody looked for them again when there was room.
#[test]
fn data_that_come_before_their_room_are_said_to_wait_for_it() {
    let stream = [header(FrameKind::Last, 7, 3), vec![1; 3]].concat();
    let mut incoming = Incoming::new(Rank(1), LONGEST);
    let mut source = Pipe::new(&stream, vec![usize::MAX]);
    let mut events = VecDeque::new();
    let stopped = incoming.read(&mut source, &mut events);
    assert_eq!(stopped, Ok(Stopped::NoRoom));
    incoming.receive(7, room(3));
    let stopped = incoming.read(&mut source, &mut events);
    assert_eq!((stopped, events.len()), (Ok(Stopped::Empty), 1));
}

#[test]
fn a_rank_is_lost_once_with_what_the_system_said_of_writing_and_keeps_nobody_awake() {
    let (mut leader, _other, _copy) = two_ranks(|_| ());
    let cut = io::Error::other("the cable is cut");
    leader.connection(Rank(1)).unwrap().deaf = Some(cut);
    leader.watch.note(1);
    (0..2).for_each(|_| leader.lose(1, "it is gone".into()));
    assert_eq!(leader.watch.take_readable(1), None);
    let lost = |event| match event {
        Event::Lost(Rank(1), reason) => Some(reason),
        _ => None,
    };
    let lost: Vec<String> = leader.events.drain(..).filter_map(lost).collect();
    assert_eq!(
        lost,
        ["it is gone (writing to it failed: the cable is cut)"]
    );
}

/// `Duration::MAX` stands for a patience that never ends; added to the time of day it was a panic.
#[test]
fn ranks_may_be_patient_and_silent_for_ever() {
    let (mut leader, mut other, _copy) = two_ranks(|mesh| {
        mesh.patience = Duration::MAX;
        mesh.silence = Duration::MAX;
        mesh.acquainted_ranks = 0;
    });
    let start = Instant::now();
    leader.send(Rank(1), vec![1]);
    while other.poll().is_none() {
        assert!(start.elapsed() < Duration::from_secs(10), "nothing came");
        std::thread::sleep(Duration::from_millis(1));
    }
}
