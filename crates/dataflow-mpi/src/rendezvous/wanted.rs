//! Wanted: data that their receiver asks for, the most urgent first, in rooms that it has made.

use crate::broadcast::TreeShape;
use crate::transport::Room;
use crate::wire::{Get, Malformed};
use dataflow_core::port::{Arrival, Block, Goods, Memory, Ranks};
use dataflow_core::rank::Rank;
use dataflow_core::wire::WireName;
use dataflow_core::words::counted;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

/// Position, head and size of a datum that must be asked for.
pub type Promised = (u16, SmallVec<[u8; 32]>, usize);

/// Data that were announced to this rank and have not all arrived.
pub struct Wanted {
    window: usize,
    longest: usize,
    /// What to ask for: most urgent first, then oldest.
    next: BinaryHeap<(i64, Reverse<u64>, Reverse<u16>)>,
    parcels: BTreeMap<u64, Incomplete>,
    /// Of which nothing was asked for yet, and which go on from here; ascending.
    duties: VecDeque<u64>,
    announced: u64,
    under_way: BTreeMap<(Rank, u32), Request>,
    bytes: usize,
    tags: Tags,
}

/// So many requests are under way at most, however few bytes they are for: transports look through them.
pub(super) const MOST: usize = 1024;

/// A parcel some of whose data are missing.
struct Incomplete {
    from: Rank,
    number: u32,
    receipt: bool,
    onward: Option<Box<Onward>>,
    priority: i64,
    arrival: Arrival,
    /// The data that were missing at first, ascending by position.
    missing: SmallVec<[MissingDatum; 2]>,
    /// How many of them still are.
    n_missing: usize,
    /// Somebody was told that the first of them was asked for.
    begun: bool,
}

struct MissingDatum {
    position: u16,
    head: SmallVec<[u8; 32]>,
    size: usize,
    got: usize,
    room: Option<Box<dyn Block>>,
}

struct Request {
    parcel: u64,
    position: u16,
    bytes: usize,
    since: Duration,
}

/// To whom a parcel goes on from here.
pub struct Onward {
    /// In the order of the tree.
    pub below: Ranks,
    /// Which tree.
    pub shape: TreeShape,
    /// How urgent it is.
    pub priority: i64,
}

/// A parcel that is there.
pub struct Complete {
    /// Who sent it.
    pub from: Rank,
    /// Its number.
    pub number: u32,
    /// Whether its sender waits to hear of it.
    pub receipt: bool,
    /// To whom it goes on.
    pub onward: Option<Box<Onward>>,
    /// The parcel.
    pub arrival: Arrival,
}

/// What arrived.
#[must_use]
pub enum Progressed {
    /// Part of a datum.
    Part,
    /// A datum whole, its parcel still without others.
    Datum,
    /// A datum, and with it its parcel.
    Parcel(Box<Complete>),
}

impl Incomplete {
    fn missing(&mut self, position: u16) -> Option<&mut MissingDatum> {
        let at = self
            .missing
            .binary_search_by_key(&position, |missing| missing.position);
        Some(&mut self.missing[at.ok()?])
    }
}

impl Wanted {
    /// At most `window` bytes under way, parts of at most `longest` bytes, tags up to `largest`.
    pub fn new(window: usize, longest: usize, largest_tag: u32) -> Self {
        Wanted {
            window,
            longest,
            next: BinaryHeap::new(),
            parcels: BTreeMap::new(),
            duties: VecDeque::new(),
            announced: 0,
            under_way: BTreeMap::new(),
            bytes: 0,
            tags: Tags {
                last: 0,
                largest: largest_tag.max(1),
            },
        }
    }

    /// Tags go on after those of another run: data that come twice may come late, in this one.
    pub fn go_on_after(&mut self, last: &Wanted) {
        self.tags.last = last.tags.last;
    }

    /// A parcel came whose data at some positions must be asked for.
    pub fn announce(
        &mut self,
        priority: i64,
        parcel: Complete,
        missing: impl Iterator<Item = Promised>,
    ) {
        let key = self.announced;
        self.announced += 1;
        let missing = missing.map(|(position, head, size)| {
            self.next.push((priority, Reverse(key), Reverse(position)));
            MissingDatum {
                position,
                head,
                size,
                got: 0,
                room: None,
            }
        });
        let mut missing: SmallVec<[MissingDatum; 2]> = missing.collect();
        missing.sort_unstable_by_key(|missing| missing.position);
        let incomplete = Incomplete {
            n_missing: missing.len(),
            missing,
            from: parcel.from,
            number: parcel.number,
            receipt: parcel.receipt,
            onward: parcel.onward,
            priority,
            arrival: parcel.arrival,
            begun: false,
        };
        if incomplete.onward.is_some() {
            self.duties.push_back(key);
        }
        self.parcels.insert(key, incomplete);
    }

    /// Whether there is something to pass on of which nothing was asked for.
    pub fn has_duties(&self) -> bool {
        !self.duties.is_empty()
    }

    /// The next of those goes on from here no more: who sent it, and its number.
    pub fn next_relief(&mut self) -> Option<(Rank, u32)> {
        let parcel = self.parcels.get_mut(&self.duties.pop_front()?)?;
        parcel.onward = None;
        Some((parcel.from, parcel.number))
    }

    /// The next thing to ask for, if the window allows: of whom, what, and room for it.
    pub fn ask(&mut self, memory: &dyn Memory, now: Duration) -> Option<(Rank, Get, Room)> {
        let &(_, Reverse(key), Reverse(position)) = self.next.peek()?;
        let Some((from, number, missing)) = self.missing(key, position) else {
            unreachable!("what is to be asked for belongs to a parcel that is not complete");
        };
        let (offset, left) = (missing.got, missing.size - missing.got);
        let bytes = left.min(self.longest);
        if self.bytes > 0 && self.bytes + bytes > self.window || self.under_way.len() >= MOST {
            return None;
        }
        let tag = self.tags.next(from, &self.under_way)?;
        self.next.pop();
        if let Ok(at) = self.duties.binary_search(&key) {
            self.duties.remove(at);
        }
        self.bytes += bytes;
        let asked = Request {
            parcel: key,
            position,
            bytes,
            since: now,
        };
        self.under_way.insert((from, tag), asked);
        let Some((.., missing)) = self.missing(key, position) else {
            unreachable!("it was there above");
        };
        let size = missing.size;
        let block = missing.room.take().unwrap_or_else(|| memory.allocate(size));
        let range = offset..offset + bytes;
        let get = Get {
            number,
            position,
            tag,
            offset: offset as u64,
            length: bytes as u64,
        };
        Some((from, get, Room { block, range }))
    }

    /// The task whose outputs were asked for under this tag, if nobody was told of it yet.
    pub fn begins(&mut self, from: Rank, tag: u32) -> Option<&WireName> {
        let asked = self.under_way.get(&(from, tag))?;
        let parcel = self.parcels.get_mut(&asked.parcel)?;
        let begun = std::mem::replace(&mut parcel.begun, true);
        (!begun).then_some(&parcel.arrival.task)
    }

    /// Data arrived in the room made for them.
    ///
    /// # Errors
    /// If nobody asked for them, or too few or too many came.
    pub fn arrived(
        &mut self,
        from: Rank,
        tag: u32,
        room: Room,
        bytes: usize,
    ) -> Result<Progressed, Malformed> {
        let Some(asked) = self.under_way.remove(&(from, tag)) else {
            let text = format!("{from} sent data under tag {tag} that were not asked for");
            return Err(Malformed(text));
        };
        self.bytes -= asked.bytes;
        if bytes != asked.bytes {
            let text = format!(
                "{from} sent {} under tag {tag} ({} were asked for)",
                counted(bytes, "byte"),
                asked.bytes
            );
            return Err(Malformed(text));
        }
        Ok(self.fill(asked, room))
    }

    fn fill(&mut self, asked: Request, room: Room) -> Progressed {
        let Some(parcel) = self.parcels.get_mut(&asked.parcel) else {
            return Progressed::Part; // the run was stopped meanwhile
        };
        let priority = parcel.priority;
        let Some(missing) = parcel.missing(asked.position) else {
            unreachable!("a datum is missing until its last part has arrived");
        };
        missing.got += asked.bytes;
        if missing.got < missing.size {
            missing.room = Some(room.block);
            self.next
                .push((priority, Reverse(asked.parcel), Reverse(asked.position)));
            return Progressed::Part;
        }
        let goods = Goods {
            head: std::mem::take(&mut missing.head),
            body: room.block,
        };
        parcel.arrival.flows[usize::from(asked.position)].1 = Some(goods);
        parcel.n_missing -= 1;
        if parcel.n_missing > 0 {
            return Progressed::Datum;
        }
        let Some(parcel) = self.parcels.remove(&asked.parcel) else {
            unreachable!("it was there above");
        };
        Progressed::Parcel(Box::new(Complete {
            from: parcel.from,
            number: parcel.number,
            receipt: parcel.receipt,
            onward: parcel.onward,
            arrival: parcel.arrival,
        }))
    }

    fn missing(&mut self, key: u64, position: u16) -> Option<(Rank, u32, &mut MissingDatum)> {
        let parcel = self.parcels.get_mut(&key)?;
        let (from, number) = (parcel.from, parcel.number);
        Some((from, number, parcel.missing(position)?))
    }

    /// Forgets all parcels, and says how many; data under way still arrive.
    pub fn stop(&mut self) -> usize {
        self.next.clear();
        self.duties.clear();
        std::mem::take(&mut self.parcels).len()
    }

    /// Bytes that were asked for and are under way.
    pub fn bytes_under_way(&self) -> usize {
        self.bytes
    }

    /// Whether there is more to ask for.
    pub fn wants_more(&self) -> bool {
        !self.next.is_empty()
    }

    /// Whether nothing is under way.
    pub fn is_settled(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Of the data that are under way those for which nothing has happened for longest: from whom,
    /// how many bytes, and since when; `moved` says when something last moved between this rank and
    /// another, and nothing of those that have not taken the question.
    pub fn stillest(
        &self,
        moved: impl Fn(Rank) -> Option<Duration>,
    ) -> Option<(Rank, usize, Duration)> {
        let still = self.under_way.iter().filter_map(|(&(from, _), asked)| {
            let since = asked.since.max(moved(from)?);
            Some((from, asked.bytes, since))
        });
        still.min_by_key(|(.., since)| *since)
    }
}

/// Tags in turn, so that one is used again as late as possible.
struct Tags {
    last: u32,
    largest: u32,
}

impl Tags {
    fn next(&mut self, from: Rank, used: &BTreeMap<(Rank, u32), Request>) -> Option<u32> {
        for _ in 0..used.len() + 1 {
            self.last = self.last % self.largest + 1;
            if !used.contains_key(&(from, self.last)) {
                return Some(self.last);
            }
        }
        None
    }
}
