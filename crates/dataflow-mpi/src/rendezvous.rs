//! Rendezvous: how much at once. Large data are announced, then asked for by their receiver.
//!
//! Three messages each: ACTIVATE names the datum, GET asks for it when room has been made, DATA
//! fills the room. The receiver asks for the most urgent first and has at most a window of bytes
//! under way; one datum (or part of one) is always allowed, so every run moves on.
//! What a transport cannot carry at once is asked for in parts.
//!
//! Who is to pass an activation on and takes no more data is relieved of that: its sender, who has
//! them all until the first is asked for, gives them to those below itself.
//!
//! # Law
//! Room is made before it is asked for. Asked-for bytes never exceed the window, or one part. A
//! datum that was unclaimed is given out once, whole, in order; as many bytes as were announced, whatever
//! it has.

use crate::broadcast::{BranchReach, TreeShape};
use crate::caught;
use crate::transport::{KeepAlive, Load, Payload, Room};
use crate::wire::{Get, Malformed};
use dataflow_core::port::{Arrival, Block, Cargo, Goods, Memory, Parcel, Ranks, drop_quietly};
use dataflow_core::rank::Rank;
use dataflow_core::wire::WireName;
use dataflow_core::words::counted;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Position, head and size of a datum that must be asked for.
pub type Promised = (u16, SmallVec<[u8; 32]>, usize);

/// Data that were announced and not asked for yet, at their sender.
#[derive(Default)]
pub struct Unclaimed {
    data: BTreeMap<(Rank, u32, u16), OfferedDatum>,
    /// What ranks shall pass on of which none has asked for anything yet.
    duties: BTreeMap<(Rank, u32), Duty>,
}

/// A parcel for all ranks below one.
pub struct Duty {
    /// To them, in the order of the tree.
    pub parcel: Parcel,
    /// Which tree.
    pub shape: TreeShape,
    /// Of a parcel whose leaving somebody wants to hear of: whom that was said to reach.
    reach: Option<BranchReach>,
}

impl Duty {
    /// A parcel for the ranks that are to get it.
    pub fn new(parcel: Parcel, shape: TreeShape) -> Self {
        let reach = None;
        Duty {
            parcel,
            shape,
            reach,
        }
    }
}

/// A datum that was announced.
pub struct OfferedDatum {
    task: WireName,
    cargo: Arc<dyn Cargo>,
    /// Made when the first part is asked for: until then nothing is packed.
    load: Option<Load>,
    given: usize,
    size: usize,
    /// Of a parcel whose leaving somebody wants to hear of.
    held: Option<KeepAlive>,
}

impl OfferedDatum {
    /// An output of a task, which says that it has so many bytes.
    pub fn new(task: WireName, cargo: Arc<dyn Cargo>, size: usize) -> Self {
        OfferedDatum {
            task,
            cargo,
            load: None,
            given: 0,
            size,
            held: None,
        }
    }

    /// It, packed if it has to be.
    fn packed(&self) -> Result<Load, Unsendable> {
        let packed = caught(|| {
            let load = Load::new(self.cargo.clone());
            let has = load.length();
            (load, has)
        });
        let (load, has) = packed.map_err(|text| Unsendable::panicked(&self.task, &text))?;
        match has == self.size {
            true => Ok(load),
            false => Err(Unsendable::of_length(&self.task, self.size, has)),
        }
    }

    /// It, ready to be sent; if it cannot be, zeros that are as many as it said, and when they are made, word of that.
    fn loaded(&mut self) -> (Load, Option<Unsendable>) {
        if let Some(load) = &self.load {
            return (load.clone(), None);
        }
        let (load, wrong) = match self.packed() {
            Ok(load) => (load, None),
            Err(wrong) => (Load::Packed(vec![0; self.size].into()), Some(wrong)),
        };
        self.load = Some(load.clone());
        (load, wrong)
    }
}

/// A datum cannot be sent as it was announced: a fault of the program, not of ranks.
#[derive(Debug)]
pub struct Unsendable {
    /// The task whose output it is.
    pub task: WireName,
    /// What is wrong.
    pub why: String,
}

impl Unsendable {
    /// It said that it has so many bytes, and has others.
    pub fn of_length(task: &WireName, said: usize, has: usize) -> Self {
        Unsendable {
            task: task.clone(),
            why: format!(
                "a datum said that it has {} and has {has}",
                counted(said, "byte")
            ),
        }
    }

    /// Its head has so many bytes, which is too long.
    pub fn of_head(task: &WireName, has: usize, most: usize) -> Self {
        Unsendable {
            task: task.clone(),
            why: format!("a datum has a head of {has} bytes (at most {most} are allowed)"),
        }
    }

    /// It was asked for its head, its size or its bytes, and panicked.
    pub fn panicked(task: &WireName, text: &str) -> Self {
        Unsendable {
            task: task.clone(),
            why: format!("a datum panicked as it was sent: {text}"),
        }
    }
}

impl Unclaimed {
    /// Keeps a datum until `to` asks for it.
    pub fn put(&mut self, to: Rank, (number, position): (u32, u16), offered: OfferedDatum) {
        self.data.insert((to, number, position), offered);
    }

    /// Data of that activation were put here, and `to` shall pass it on.
    pub fn charge(&mut self, to: Rank, number: u32, duty: Duty) {
        self.duties.insert((to, number), duty);
    }

    /// Whether somebody may still hand back what it was to pass on.
    pub fn has_duties(&self) -> bool {
        !self.duties.is_empty()
    }

    /// A rank does not pass an activation on: what it should have sent, and to whom.
    ///
    /// # Errors
    /// If it should not, or has asked for data of it.
    pub fn relieve(&mut self, to: Rank, number: u32) -> Result<Duty, Malformed> {
        let duty = self.duties.remove(&(to, number));
        if let Some(reach) = duty.as_ref().and_then(|duty| duty.reach.as_ref()) {
            reach.ends_there();
        }
        duty.ok_or_else(|| {
            Malformed(format!(
                "a RELIEVE of activation {number}, which was not to go on from there, or of which data were asked for"
            ))
        })
    }

    /// What is there of an activation holds this until it has left, and for that rank alone if it is
    /// [relieved](Self::relieve).
    pub fn hold(&mut self, to: Rank, number: u32, held: &KeepAlive, reach: BranchReach) {
        if let Some(duty) = self.duties.get_mut(&(to, number)) {
            duty.reach = Some(reach);
        }
        let of_it = (to, number, 0)..=(to, number, u16::MAX);
        for (_, offered) in self.data.range_mut(of_it) {
            offered.held = Some(held.clone());
        }
    }

    /// Drops all data, one by one: of two that panic as one collection drops them the second would end
    /// the process.
    pub fn drop_each(self) {
        let duties = self.duties.into_values();
        duties.for_each(|mut duty| drop_each_flow(&mut duty.parcel));
        self.data.into_values().for_each(drop_quietly);
    }

    /// Any of what nobody has asked for yet that cannot be sent: each is packed for that, if it has to be.
    pub fn unsendable(&self) -> Option<Unsendable> {
        let mut unasked = self.data.values().filter(|offered| offered.load.is_none());
        unasked.find_map(|offered| offered.packed().err())
    }

    /// Whether nobody has anything to ask for.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Whether data of an activation still wait to be asked for.
    pub fn holds(&self, to: Rank, number: u32) -> bool {
        let of_it = (to, number, 0)..=(to, number, u16::MAX);
        self.data.range(of_it).next().is_some()
    }

    /// What a rank asks for; with the first part of a datum, whether that can be sent.
    ///
    /// # Errors
    /// If it was not announced, or was given out before.
    pub fn give(
        &mut self,
        to: Rank,
        get: &Get,
    ) -> Result<(Payload, Option<Unsendable>), Malformed> {
        let key = (to, get.number, get.position);
        let unknown = |what: String| {
            Malformed(format!(
                "{to} asks for bytes {}+{} of flow {} of activation {}, {what}",
                get.offset, get.length, get.position, get.number
            ))
        };
        let Some(offered) = self.data.get_mut(&key) else {
            return Err(unknown("which is not there (any more)".into()));
        };
        let (offset, length) = (get.offset as usize, get.length as usize);
        if offset != offered.given || length == 0 || length > offered.size - offered.given {
            let text = format!("of which {} to {} are there", offered.given, offered.size);
            return Err(unknown(text));
        }
        if let Some(mut duty) = self.duties.remove(&(to, get.number)) {
            drop_each_flow(&mut duty.parcel);
        }
        offered.given += length;
        let (load, wrong) = offered.loaded();
        let payload = load.part(offset..offset + length);
        if offered.given < offered.size {
            return Ok((payload, wrong));
        }
        let held = self.data.remove(&key).and_then(|offered| offered.held);
        Ok((payload.holding(held), wrong))
    }
}

/// Drops the data of a parcel one by one.
pub fn drop_each_flow(parcel: &mut Parcel) {
    parcel.flows.drain(..).for_each(drop_quietly);
}

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
const MOST: usize = 1024;

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

#[cfg(test)]
mod tests;
