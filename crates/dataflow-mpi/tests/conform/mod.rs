//! What every transport that keeps order must do: each rank runs [`conform`] over its end.
//!
//! Nothing here knows where the other ranks are: threads of this process, or processes.

use dataflow_core::port::{Block, Heap, Memory};
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::{Event, Load, Room, Transport};
use dataflow_mpi::{Bell, Host};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nothing may happen while something must.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest message that is tried, where a transport would take longer ones.
const LONGEST: usize = 64 << 20;

/// One rank's end, and what came before it was asked for.
pub struct End {
    pub transport: Box<dyn Transport>,
    bell: Option<Arc<dyn Bell>>,
    kept: Vec<Event>,
}

/// All checks, one after another; data that are too long are as long as that at most.
pub fn conform(transport: Box<dyn Transport>, host: &dyn Host, too_long: usize) {
    let mut end = End::new(transport, host);
    packets_come_in_order_and_each_is_said_to_have_left(&mut end);
    packets_of_all_sizes_come_whole(&mut end);
    data_fill_the_rooms_made_for_them(&mut end);
    data_of_a_wrong_size_are_noticed_and_harm_nothing(&mut end, too_long);
    data_wait_for_their_room(&mut end);
    data_of_one_tag_fill_their_rooms_in_order(&mut end);
    a_flood_in_all_directions_arrives(&mut end);
    let more = |event: &&Event| !matches!(event, Event::Lost(..));
    assert_eq!(
        end.kept.iter().find(more).map(|event| format!("{event:?}")),
        None
    );
}

fn packets_come_in_order_and_each_is_said_to_have_left(end: &mut End) {
    for to in end.others() {
        for i in 0..200u32 {
            end.transport.send(to, i.to_le_bytes().into());
        }
    }
    for from in end.others() {
        for i in 0..200u32 {
            assert_eq!(end.packet(from), i.to_le_bytes(), "packet {i} of {from}");
        }
    }
    for to in end.others() {
        (0..200).for_each(|_| end.sent(to));
    }
    end.meet();
}

fn packets_of_all_sizes_come_whole(end: &mut End) {
    let longest = end.longest();
    for size in [
        0, 1, 15, 16, 17, 4079, 4080, 4081, 65_535, 65_536, 200_000, longest,
    ] {
        let size = size.min(longest);
        let (to, from) = end.neighbours();
        end.transport.send(to, pattern(end.rank(), 0, size));
        assert!(end.packet(from) == pattern(from, 0, size), "{size} bytes");
        end.sent(to);
    }
    end.meet();
}

fn data_fill_the_rooms_made_for_them(end: &mut End) {
    let (to, from) = end.neighbours();
    let (longest, largest) = (end.longest(), end.transport.limits().largest_tag);
    let sizes = [
        0,
        1,
        7,
        4096,
        65_537,
        1 << 20,
        (1 << 20) + 1,
        3_000_000,
        longest,
    ];
    let tags: Vec<u32> = (1..9)
        .chain([largest])
        .map(|tag| tag.min(largest))
        .collect();
    let distinct = tags.iter().take_while(|tag| **tag < largest).count() + 1;
    let all: Vec<(u32, usize)> = tags.into_iter().zip(sizes).take(distinct).collect();
    for &(tag, size) in &all {
        // The room is the middle of a block, whose ends nobody may touch.
        let size = size.min(longest);
        let mut block = Heap.allocate(size + 20);
        block.bytes_mut().fill(0xee);
        let range = 10..10 + size;
        end.transport.receive(from, tag, Room { block, range });
    }
    end.meet();
    for &(tag, size) in all.iter().rev() {
        let bytes = pattern(end.rank(), tag, size.min(longest));
        end.send_data(to, tag, bytes);
    }
    for &(tag, size) in &all {
        let size = size.min(longest);
        let (block, bytes) = end.data(from, tag);
        assert_eq!(bytes, size);
        assert!(block.bytes()[10..10 + size] == pattern(from, tag, size));
        assert!(block.bytes()[..10].iter().all(|byte| *byte == 0xee));
        assert!(block.bytes()[10 + size..].iter().all(|byte| *byte == 0xee));
    }
    end.meet();
}

fn data_of_a_wrong_size_are_noticed_and_harm_nothing(end: &mut End, too_long: usize) {
    let (to, from) = end.neighbours();
    let longest = end.longest();
    for (room, sent) in [
        (50, 49),
        (50, 51),
        (10, 0),
        (0, 10),
        (20, longest.min(too_long)),
        (longest, 5),
    ] {
        let mut block = Heap.allocate(room + 10);
        block.bytes_mut().fill(0xee);
        let range = 0..room;
        end.transport.receive(from, 1, Room { block, range });
        end.meet();
        end.send_data(to, 1, pattern(end.rank(), 1, sent));
        let (block, bytes) = end.data(from, 1);
        assert!(
            bytes == sent || (sent > room && bytes > room),
            "{bytes} of {sent} in {room}"
        );
        assert!(block.bytes()[room..].iter().all(|byte| *byte == 0xee));
        let sent = sent.min(room);
        assert!(bytes > room || block.bytes()[..sent] == pattern(from, 1, sent));
        end.meet();
    }
}

fn data_wait_for_their_room(end: &mut End) {
    let (to, from) = end.neighbours();
    let size = end.longest().min(100_000);
    end.send_data(to, 1, pattern(end.rank(), 1, size));
    let until = Instant::now() + Duration::from_millis(30);
    while Instant::now() < until {
        end.look();
    }
    end.transport.receive(from, 1, room(size));
    let (block, bytes) = end.data(from, 1);
    assert!(bytes == size && block.bytes() == pattern(from, 1, bytes));
    end.meet();
}

fn data_of_one_tag_fill_their_rooms_in_order(end: &mut End) {
    let (to, from) = end.neighbours();
    let sizes = [10, 2_000_000, 20].map(|size| end.longest().min(size));
    for size in sizes {
        end.transport.receive(from, 1, room(size));
    }
    end.meet();
    for (i, size) in sizes.into_iter().enumerate() {
        end.send_data(to, 1, pattern(end.rank(), i as u32, size));
    }
    // In which order they are told is the transport's affair; what fills which room is not.
    for _ in sizes {
        let (block, bytes) = end.data(from, 1);
        let i = sizes.iter().position(|size| *size == block.bytes().len());
        let expected = pattern(from, i.unwrap() as u32, bytes);
        assert!(bytes == block.bytes().len() && block.bytes() == expected);
    }
    end.meet();
}

/// Nobody reads before all have sent more than any socket takes.
fn a_flood_in_all_directions_arrives(end: &mut End) {
    let (long, short) = (end.longest().min(5_000_000), end.longest().min(16 << 10));
    for from in end.others() {
        end.transport.receive(from, 1, room(long));
    }
    end.meet();
    for to in end.others() {
        end.send_data(to, 1, pattern(end.rank(), to.0, long));
        for i in 0..100 {
            end.transport.send(to, pattern(end.rank(), i, short));
        }
    }
    let own = end.rank();
    for from in end.others() {
        for i in 0..100 {
            assert!(end.packet(from) == pattern(from, i, short));
        }
        let (block, bytes) = end.data(from, 1);
        assert!(bytes == long && block.bytes() == pattern(from, own.0, long));
    }
    for to in end.others() {
        (0..100).for_each(|_| end.sent(to));
    }
    end.meet();
}

/// After how many bytes a pattern begins again.
const PERIOD: usize = 1 << 16;

fn pattern(from: Rank, seed: u32, size: usize) -> Vec<u8> {
    let seed = from.0.wrapping_mul(31).wrapping_add(seed);
    let byte = |i: usize| (i as u32 ^ (i >> 8) as u32 ^ seed) as u8;
    // The rest is the same again, and copied: this is not optimised.
    let first: Vec<u8> = (0..size.min(PERIOD)).map(byte).collect();
    let mut bytes = first.repeat(size.div_ceil(PERIOD));
    bytes.truncate(size);
    bytes
}

fn room(size: usize) -> Room {
    Room {
        block: Heap.allocate(size),
        range: 0..size,
    }
}

impl End {
    pub fn new(mut transport: Box<dyn Transport>, host: &dyn Host) -> Self {
        let bell = transport.bell(host);
        let kept = Vec::new();
        End {
            transport,
            bell,
            kept,
        }
    }

    pub fn rank(&self) -> Rank {
        self.transport.rank()
    }

    fn longest(&self) -> usize {
        self.transport.limits().message_bytes.min(LONGEST)
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let own = self.rank();
        let all = (0..self.transport.n_ranks() as u32).map(Rank);
        all.filter(move |rank| *rank != own)
    }

    /// To whom this rank sends in a ring, and from whom it hears.
    fn neighbours(&self) -> (Rank, Rank) {
        let (own, n) = (self.rank().0, self.transport.n_ranks() as u32);
        (Rank((own + 1) % n), Rank((own + n - 1) % n))
    }

    pub fn send_data(&mut self, to: Rank, tag: u32, bytes: Vec<u8>) {
        let length = bytes.len();
        let payload = Load::Packed(bytes.into()).part(0..length);
        self.transport.send_data(to, tag, payload);
    }

    /// Takes in one event, if there is one.
    fn look(&mut self) -> bool {
        let event = self.transport.poll();
        let came = event.is_some();
        // That part of something has come may be said or not.
        let whole = event.filter(|event| !matches!(event, Event::Part { .. }));
        self.kept.extend(whole);
        came
    }

    /// The first event that is wanted, as far as it goes by the bell, where there is one.
    fn take<T>(
        &mut self,
        what: &str,
        wanted: impl Fn(&Event) -> bool,
        open: impl Fn(Event) -> T,
    ) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.kept.iter().position(&wanted) {
                return open(self.kept.remove(at));
            }
            if self.look() {
                continue;
            }
            assert!(
                Instant::now() < deadline,
                "{}: {what} did not come; {:?} did",
                self.rank(),
                self.kept
            );
            match &self.bell {
                Some(bell) => bell.wait(Some(PATIENCE)),
                None => std::thread::yield_now(),
            }
        }
    }

    pub fn packet(&mut self, from: Rank) -> Vec<u8> {
        let is_it =
            |event: &Event| matches!(event, Event::Packet { from: rank, .. } if *rank == from);
        self.take(&format!("a packet of {from}"), is_it, |event| match event {
            Event::Packet { bytes, .. } => bytes,
            _ => unreachable!(),
        })
    }

    pub fn data(&mut self, from: Rank, tag: u32) -> (Box<dyn Block>, usize) {
        let is_it = |event: &Event| matches!(event, Event::Data { from: rank, tag: other, .. } if (*rank, *other) == (from, tag));
        self.take(
            &format!("data {tag} of {from}"),
            is_it,
            |event| match event {
                Event::Data { room, bytes, .. } => (room.block, bytes),
                _ => unreachable!(),
            },
        )
    }

    fn sent(&mut self, to: Rank) {
        let is_it = |event: &Event| matches!(event, Event::Sent(rank) if *rank == to);
        self.transport.awaits(to);
        self.take(&format!("that a packet to {to} has left"), is_it, drop)
    }

    /// Waits for all other ranks.
    fn meet(&mut self) {
        for to in self.others() {
            self.transport.send(to, b"here".to_vec());
        }
        for from in self.others() {
            assert_eq!(self.packet(from), b"here");
            self.sent(from);
        }
    }
}
