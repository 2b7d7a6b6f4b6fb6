//! Streams without sockets: whatever is cut anywhere arrives whole, and no bytes do harm.

use super::frame::{CONTROL, FrameHeader, FrameKind, PART};
use super::incoming::{Incoming, Stopped};
use super::mesh::{Control, Guest, Hello};
use super::outgoing::Outgoing;
use super::watch::Readable;
use super::{Link, Mesh, Peer, Tcp, Token};
use crate::bell::Bell;
use crate::host::{Host, Machine, Thread};
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::transport::delicate::Delicate;
use crate::transport::{Event, Load, Room, Transport};
use dataflow_core::port::{Cargo, Head, Heap, Memory};
use dataflow_core::rank::Rank;
use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
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

/// A datum that has fewer bytes each time that somebody looks.
struct Shrinking([u8; 100], AtomicUsize);

impl Cargo for Shrinking {
    fn head(&self) -> Head {
        Head::default()
    }

    fn size(&self) -> usize {
        self.0.len()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        let left = self.1.fetch_sub(1, Ordering::Relaxed);
        Cow::Borrowed(&self.0[..left])
    }
}

/// Its receiver would take the next frame for the rest of this one.
#[test]
fn nothing_leaves_behind_a_frame_that_cannot_be_completed() {
    let mut outgoing = Outgoing::new(Rank(1));
    let datum = Load::Lent(Arc::new(Shrinking([1; 100], AtomicUsize::new(100))));
    outgoing.send_data(1, datum.part(0..100));
    outgoing.send_data(2, Load::Packed([2; 5].into()).part(0..5));
    let (mut wire, mut events) = (Pipe::new(&[], vec![20]), VecDeque::new());
    let fault = outgoing.write(&mut wire, &mut events).unwrap_err();
    assert_eq!(fault.to_string(), "a datum shrank while it was sent");
    assert!(wire.bytes.len() < FrameHeader::BYTES + 100);
    // Nor behind a packet that a sink has no more room for.
    let (mut outgoing, mut sink) = (Outgoing::new(Rank(1)), &mut [0; 20][..]);
    outgoing.send(vec![1; 5]);
    let fault = outgoing.write(&mut sink, &mut events).unwrap_err();
    assert_eq!(fault.kind(), ErrorKind::WriteZero);
    assert!(events.is_empty());
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

/// A host whose time passes when a test says so.
pub struct HandClock {
    now: Mutex<Duration>,
    machine: Arc<Machine>,
}

impl HandClock {
    /// So much time passes.
    pub fn pass(&self, time: Duration) -> Duration {
        let mut now = lock(&self.now);
        *now += time;
        *now
    }
}

impl Host for HandClock {
    fn now(&self) -> Duration {
        *lock(&self.now)
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.machine.bell()
    }

    fn start(
        &self,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        self.machine.start(name, body)
    }
}

/// A rank that is connected to nobody yet, of so many that are connected when one speaks, and its clock.
pub fn alone(rank: u32, n_ranks: usize) -> (Tcp, Arc<HandClock>) {
    let clock = Arc::new(HandClock {
        now: Mutex::new(Duration::from_secs(1000)),
        machine: Machine::new(),
    });
    let mut mesh = Mesh::new(Rank(rank), n_ranks, Token::random().unwrap());
    mesh.host = clock.clone();
    mesh.acquainted_ranks = 0;
    mesh.log = |_| {};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (Tcp::new(&mesh, listener).unwrap(), clock)
}

/// Two ends of a connection; the first never blocks.
pub fn pair() -> (mio::net::TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // A word that never comes fails the test.
    there
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let (here, _) = listener.accept().unwrap();
    here.set_nonblocking(true).unwrap();
    (mio::net::TcpStream::from_std(here), there)
}

/// The other end of a new connection to a rank.
pub fn connected(tcp: &mut Tcp, rank: usize) -> TcpStream {
    let (mut here, there) = pair();
    tcp.watch.add(rank, &mut here).unwrap();
    tcp.connect(rank, here);
    there
}

/// A control message as it crosses.
pub fn framed(control: &Control) -> Vec<u8> {
    let told = control.encode();
    [header(FrameKind::Control, 0, told.len()), told].concat()
}

/// What is said next by control.
pub fn told(stream: &mut TcpStream) -> Option<Control> {
    let mut header = [0; FrameHeader::BYTES];
    stream.read_exact(&mut header).unwrap();
    let header = FrameHeader::decode(&header, LONGEST).unwrap();
    assert_eq!(header.kind, FrameKind::Control);
    let mut told = vec![0; header.length];
    stream.read_exact(&mut told).unwrap();
    Control::decode(&told)
}

/// Whoever knows the token may be the wrong rank, of another job, or look for somebody else.
#[test]
fn of_those_that_prove_themselves_only_a_rank_that_is_awaited_and_looks_for_this_one_is_let_in() {
    let all = (0..6).flat_map(|rank| (0..4).map(move |called| (rank, called)));
    for (rank, called, n_ranks) in all.flat_map(|(a, b)| (3..6).map(move |n| (a, b, n))) {
        let hello = Hello {
            rank: Rank(rank),
            called: Rank(called),
            n_ranks,
            listens: "127.0.0.1:9".parse().unwrap(),
        };
        let refused = match (rank, called) {
            _ if n_ranks != 4 => Some(Control::Ranks(4)),
            (_, called) if called != 1 => Some(Control::Taken(Rank(called))),
            (2 | 3, _) => None,
            _ => Some(Control::Taken(Rank(rank))),
        };
        let (mut tcp, _) = alone(1, 4);
        let comes = |tcp: &mut Tcp| {
            let ((mut stream, there), address) = (pair(), "127.0.0.1:7".parse().unwrap());
            tcp.watch.add(4, &mut stream).unwrap();
            tcp.place(Guest {
                hello,
                stream,
                address,
            });
            there
        };
        let mut there = comes(&mut tcp);
        assert_eq!(
            (2..4).any(|rank| tcp.is_open(rank)),
            refused.is_none(),
            "{hello:?}"
        );
        if let Some(expected) = refused {
            assert_eq!(told(&mut there), Some(expected), "{hello:?}");
            continue;
        }
        let second = told(&mut comes(&mut tcp));
        assert_eq!(second, Some(Control::Taken(Rank(rank))), "{hello:?}");
        tcp.say(Rank(rank), &Control::Ready);
        assert_eq!(told(&mut there), Some(Control::Ready), "the first stays");
    }
}

/// Waits until bytes have come, or the end of the connection, that were not read.
fn wait_for_bytes(tcp: &mut Tcp, rank: u32) {
    let Some(Link::Open(socket)) = tcp
        .connection(Rank(rank))
        .map(|connection| &connection.link)
    else {
        panic!("no connection to rank {rank}")
    };
    while socket.peek(&mut [0]).is_err() {
        std::thread::yield_now();
    }
}

/// Nobody was woken to hear what it had said before, nor that it was lost.
#[test]
fn what_a_rank_said_is_heard_when_nothing_can_be_written_to_it_any_more() {
    let (packet, data) = (
        header(FrameKind::Packet, 0, 1),
        header(FrameKind::Last, 7, 1),
    );
    for (said, reason) in [
        (&packet, "it closed its connection"),
        (&data, "its data have no room"),
    ] {
        let (mut tcp, _) = alone(0, 2);
        let mut there = connected(&mut tcp, 1);
        assert!(tcp.watch.take_readable(1).is_some() && tcp.watch.take_writable(1));
        there.write_all(&[said, &[5][..]].concat()).unwrap();
        wait_for_bytes(&mut tcp, 1);
        if said == &data {
            tcp.read(1);
            assert!(tcp.connection(Rank(1)).unwrap().waits);
        }
        let Some(Link::Open(socket)) = tcp.connection(Rank(1)).map(|known| &known.link) else {
            panic!("no connection")
        };
        socket.shutdown(Shutdown::Write).unwrap();
        (0..2).for_each(|_| tcp.send(Rank(1), vec![1]));
        // Without a look at the sockets: what was there before is not told of again.
        tcp.visit();
        tcp.events
            .retain(|event| !matches!(event, Event::Part { .. }));
        if said == &packet {
            let first = tcp.events.pop_front();
            assert!(matches!(first, Some(Event::Packet { bytes, .. }) if bytes == [5]));
        }
        let Some(Event::Lost(Rank(1), told)) = tcp.events.pop_front() else {
            panic!("{reason}: nobody is lost")
        };
        let begins = told.starts_with(reason) && told.contains("(writing to it failed: ");
        assert!(begins, "{told}");
        assert!(tcp.events.is_empty() && matches!(tcp.peers[1], Peer::Lost));
    }
}

#[test]
fn the_last_words_of_a_rank_are_heard_before_its_end() {
    let (mut tcp, _) = alone(1, 3);
    let mut there = connected(&mut tcp, 0);
    let last = Control::Lost(Rank(2), "it has ended".into());
    there.write_all(&framed(&last)).unwrap();
    drop(there);
    while !matches!(tcp.peers[0], Peer::Lost) {
        tcp.watch.look();
        tcp.visit();
    }
    assert_eq!(tcp.controls.pop_front(), Some((Rank(0), last)));
}

/// Its end was not told of again: a thread that slept without limit never heard of it.
#[test]
fn a_rank_that_says_something_and_ends_is_heard_and_lost_at_one_visit() {
    let (mut tcp, _) = alone(0, 2);
    let mut there = connected(&mut tcp, 1);
    tcp.visit();
    tcp.events.clear();
    there
        .write_all(&[header(FrameKind::Packet, 0, 1), vec![5]].concat())
        .unwrap();
    there.shutdown(Shutdown::Write).unwrap();
    let watch = tcp.watch.clone();
    while watch.take_readable(1) != Some(Readable::ToItsEnd) {
        watch.look();
    }
    let Some(Link::Open(socket)) = tcp.connection(Rank(1)).map(|known| &mut known.link) else {
        panic!("no connection")
    };
    watch.renumber(1, socket).unwrap(); // and is told of anew
    tcp.visit();
    let events = tcp.events.make_contiguous();
    assert!(
        matches!(events, [Event::Packet { .. }, Event::Lost(Rank(1), _)]),
        "{events:?}"
    );
}

/// A socket that is closed with bytes unread takes back what it sent: its last words were lost.
#[test]
fn what_has_left_reaches_the_other_rank_though_not_all_that_it_said_was_heard() {
    let (mut tcp, _) = alone(0, 2);
    let mut there = connected(&mut tcp, 1);
    there.write_all(&[0; 100]).unwrap();
    wait_for_bytes(&mut tcp, 1);
    let (length, mut n_left) = (64 << 10, 0);
    loop {
        tcp.send(Rank(1), vec![1; length]);
        let left = tcp.events.drain(..);
        match left.filter(|event| matches!(event, Event::Sent(_))).count() {
            0 => break, // the socket is full
            left => n_left += left,
        }
    }
    let ends = std::thread::spawn(move || drop(tcp));
    let mut heard = Vec::new();
    there.read_to_end(&mut heard).unwrap();
    drop(there);
    ends.join().unwrap();
    let least = n_left * (FrameHeader::BYTES + length);
    assert!(
        n_left > 0 && heard.len() >= least,
        "{} of {least} bytes",
        heard.len()
    );
}

/// A rank that was told to call and does not would be waited for without end.
#[test]
fn who_does_not_call_within_its_time_is_lost_and_not_before() {
    let (mut tcp, clock) = alone(1, 3);
    let mut leader = connected(&mut tcp, 0);
    tcp.send(Rank(2), vec![1]);
    assert_eq!(told(&mut leader), Some(Control::Ask(Rank(2))));
    let (now, until) = (tcp.now(), tcp.wakes().unwrap());
    assert_eq!(until, now + tcp.reach());
    let lost = |tcp: &mut Tcp| {
        tcp.visit();
        let lost = tcp
            .events
            .iter()
            .find(|event| matches!(event, Event::Lost(..)));
        lost.map(|event| format!("{event:?}"))
    };
    clock.pass(until - now);
    assert_eq!(lost(&mut tcp), None);
    clock.pass(Duration::from_nanos(1));
    let lost = lost(&mut tcp).unwrap_or_default();
    assert!(
        lost.contains("rank 1 cannot reach it at no address: it did not call"),
        "{lost}"
    );
    assert_eq!(tcp.wakes(), None);
}
