//! Erased: a space behind a pointer, or several one after another as one graph without a barrier.
//!
//! The engine is generic: each type of space that a program runs brings a copy of it, which takes the
//! compiler a second or so and the binary a hundred kilobytes. A space of nanosecond tasks wants its own
//! copy. One whose bodies take microseconds does not notice some calls through a pointer.
//!
//! # Law
//! Of one space nothing but the time differs: names, messages, errors, traces and results are its own. Of
//! several, what an earlier one brings home and a later one takes becomes an edge; nothing else changes.
//! So each begins wherever those before it have ended, and together they do what one run after another
//! does, to the last bit.

mod joints;
mod raw;

use super::name::{Number, PACKED_BITS, Spell, Spelling, class_bits};
use super::{Description, Flows, Inputs, Successors, TaskName, TaskSpace, is_root};
use crate::data::{Datum, Store};
use crate::error::{Error, Kind, TaskError};
use crate::rank::Rank;
use crate::wire::WireName;
use joints::{DescribedSpace, Joints, Urgency};
use raw::{Ends, Listing, NameVtable, Of, OwnScales, RawName, RawSpace, Scales, ShownName, told};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter;
use std::ops::Range;
use std::sync::Arc;

/// Any space whose data are of one type, or [several](Self::series) one after another. What runs it is
/// compiled once for that type, whatever the spaces; a task costs some hundred nanoseconds more.
///
/// [`verify`](super::verify) the space itself: two of its names that pack to one number, a fault that it
/// names, are one name here.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::run;
/// use dataflow_core::space::{Erased, Independent};
///
/// let space = Independent::new("any", 100, |_| Ok(()));
/// assert_eq!(run(&Erased::new(&space), &Inline)?.tasks, 100);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
pub struct Erased<'s, D: Datum> {
    parts: Vec<SpacePart<'s, D>>,
    names: Arc<Roster>,
    joints: Joints,
}

impl<D: Datum> fmt::Debug for Erased<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erased")
            .field("spaces", &self.parts.len())
            .finish_non_exhaustive()
    }
}

/// A space, alone or one of several.
struct SpacePart<'s, D: Datum> {
    space: MaybeOwned<'s, D>,
    /// How much more urgent its tasks are than they say: so that none is less urgent than one of a later
    /// space.
    lead: i64,
    /// What its data and its tasks weigh, if somebody said so.
    scales: Option<Box<dyn Scales + 's>>,
}

enum MaybeOwned<'s, D: Datum> {
    Lent(&'s (dyn RawSpace<D> + 's)),
    Own(Box<dyn RawSpace<D> + Send + 's>),
}

impl<'s, D: Datum> MaybeOwned<'s, D> {
    fn get(&self) -> &(dyn RawSpace<D> + 's) {
        match self {
            MaybeOwned::Lent(space) => *space,
            MaybeOwned::Own(space) => &**space,
        }
    }
}

impl<'s, D: Datum> Erased<'s, D> {
    /// The space, its type forgotten.
    ///
    /// A space of this library whose bodies get data without size, as a recorded program of `()`, does not
    /// compile here: behind a pointer edges of such data only order.
    /// ```compile_fail,E0080
    /// # use dataflow_core::prelude::*;
    /// # use dataflow_core::{sequence::record::record, space::Erased};
    /// let recorded = record::<()>("nothing", 1, |_| ())?;
    /// Erased::new(&recorded);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new<S: TaskSpace<Datum = D>>(space: &'s S) -> Self {
        const { expect_size::<S>() }
        Self::alone(MaybeOwned::Lent(space), &Of::<S::Task>::NAMES)
    }

    /// The same of a space that is given away.
    pub fn of<S: TaskSpace<Datum = D> + Send + 's>(space: S) -> Self {
        const { expect_size::<S>() }
        Self::alone(MaybeOwned::Own(Box::new(space)), &Of::<S::Task>::NAMES)
    }

    fn alone(space: MaybeOwned<'s, D>, names: &'static NameVtable) -> Self {
        Erased {
            parts: vec![SpacePart {
                space,
                lead: 0,
                scales: None,
            }],
            names: Arc::new(Roster::new([(names, 0)])),
            joints: Joints::default(),
        }
    }

    /// The same with what its data and its tasks weigh, by the names of the space that it was made of: alone
    /// or in a [series](Self::series) it can be [counted](super::counts).
    ///
    /// - `bytes`: of the datum that leaves a task through a flow
    /// - `cost`: of a task, in any unit
    ///
    /// # Panics
    /// If these are not the names of its space, or it is a series, be it of none: weigh the spaces that it is of.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::space::counts::Counting;
    /// use dataflow_core::space::{Erased, Independent};
    ///
    /// let stage = |n, cost: f64| {
    ///     let space = Independent::new("any", n, |_| Ok(()));
    ///     Erased::of(space).weighed(|_: u64, _| 0, move |_: u64| cost)
    /// };
    /// let both = Erased::series([stage(100, 1.0), stage(10, 5.0)], 0..1)?;
    /// let cost = |task| both.cost(task);
    /// assert_eq!(Counting::of(&both, 1).cost(&cost).count()?.cost(), 150.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn weighed<N: TaskName>(
        self,
        bytes: impl Fn(N, usize) -> u64 + Send + Sync + 's,
        cost: impl Fn(N) -> f64 + Send + Sync + 's,
    ) -> Self {
        self.scaled(Box::new(OwnScales::new(bytes, cost)), Of::<N>::NAMES.text)
    }

    /// The same with scales for names of a type.
    fn scaled(mut self, scales: Box<dyn Scales + 's>, names: fn() -> &'static str) -> Self {
        assert!(self.parts.len() == 1, "weights for a series of spaces");
        let (of, own) = (names(), (self.names.parts[0].names.text)());
        assert!(of == own, "weights by {of} for a space of {own}");
        self.parts[0].scales = Some(scales);
        self
    }

    /// The bytes of the datum that leaves a task through a flow; 0 in a space that nobody has
    /// [weighed](Self::weighed).
    pub fn bytes(&self, task: AnyName, flow: usize) -> u64 {
        let scales = self.part(task).scales.as_ref();
        scales.map_or(0, |scales| scales.bytes(task.raw, flow))
    }

    /// What a task costs; 0 in a space that nobody has [weighed](Self::weighed).
    pub fn cost(&self, task: AnyName) -> f64 {
        let scales = self.part(task).scales.as_ref();
        scales.map_or(0.0, |scales| scales.cost(task.raw))
    }

    /// Spaces one after another over the same data as one graph, on some ranks: `0..1` on one,
    /// `0..n_ranks` where each knows of all; a rank may know of its own tasks only, unless the series is
    /// [verified](super::verify()) before it runs.
    ///
    /// A task keeps its class, flows, rank and body, and in errors its name. No task is more urgent than
    /// one of an earlier space; the most urgent of later ones may be as urgent as the least urgent of an
    /// earlier one, so that the tasks of spaces without priorities have none here either.
    ///
    /// Cost: all spaces are asked for the ends of all tasks of these ranks, some ten nanoseconds each;
    /// memory for the slots that they touch.
    ///
    /// # Errors
    /// [`Kind::Contradiction`] if a space changes a slot which earlier
    /// ones read and none brings home, or fills one that it does not take, or lists a hundred thousand
    /// tasks more than it counts;
    /// [`Kind::NotDescribed`] if a space, other than a recorded program, does not describe as many
    /// classes as the names of its tasks have, or they have more than 65,535 classes together;
    /// [`Kind::NoSuchRank`] if a space deals its tasks out to 0 ranks.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::port::Inline;
    /// use dataflow_core::prelude::*;
    /// use dataflow_core::space::Erased;
    ///
    /// /// Adds to each of some numbers.
    /// struct Add<'s>(&'s Store<u64>, u64);
    ///
    /// impl TaskSpace for Add<'_> {
    ///     type Task = u32;
    ///     type Datum = u64;
    ///     fn describe(&self, about: &mut Description) {
    ///         about.name("add").class("Add").update("NUMBER");
    ///     }
    ///     fn tasks(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
    ///         0..self.0.len() as u32
    ///     }
    ///     fn inputs(&self, i: u32, from: &mut impl Inputs<Self>) {
    ///         from.home(0, self.0, i as usize);
    ///     }
    ///     fn successors(&self, i: u32, to: &mut impl Successors<Self>) {
    ///         to.home(0, self.0, i as usize);
    ///     }
    ///     fn run(&self, _: u32, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
    ///         let [number] = flows.slots();
    ///         *number.update() += self.1;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let numbers = Store::new("numbers", [1, 2, 3]);
    /// let (one, ten) = (Add(&numbers, 1), Add(&numbers, 10));
    /// let both = Erased::series([Erased::new(&one), Erased::new(&ten)], 0..1)?;
    /// verify(&both, 1)?;
    /// assert_eq!(dataflow_core::run(&both, &Inline)?.tasks, 6);
    /// assert_eq!(*numbers.get(2).unwrap(), 14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn series(
        spaces: impl IntoIterator<Item = Self>,
        ranks: Range<u32>,
    ) -> Result<Self, Error> {
        let (mut parts, mut names) = (Vec::new(), Vec::new());
        for space in spaces {
            names.extend(space.names.parts.iter().map(|part| part.names));
            parts.extend(space.parts);
        }
        let asked = parts.iter().zip(&names);
        let asked = asked.map(|(part, names)| DescribedSpace::new(part.space.get(), names));
        let spaces = asked.collect::<Result<Vec<_>, _>>()?;
        let classes = spaces.iter().map(DescribedSpace::n_classes);
        let names: Vec<_> = names.into_iter().zip(classes).collect();
        let widest = names
            .iter()
            .map(|(names, described)| names.n_classes.max(*described));
        let n_classes: usize = widest.sum();
        if n_classes > MANY_CLASSES {
            return Err(too_many(parts.len(), n_classes));
        }
        let (mut joints, mut urgencies) = (Joints::default(), Vec::new());
        for n in 1..=spaces.len() {
            urgencies.push(joints.add(&spaces[..n], ranks.clone())?);
        }
        drop(spaces);
        line_up(&mut parts, &urgencies);
        let names = Arc::new(Roster::new(names));
        Ok(Erased {
            parts,
            names,
            joints,
        })
    }

    fn part(&self, task: AnyName) -> &SpacePart<'s, D> {
        &self.parts[usize::from(task.standing.part)]
    }

    fn space(&self, task: AnyName) -> &(dyn RawSpace<D> + 's) {
        self.part(task).space.get()
    }

    /// The names that spaces list, one space after the other.
    fn listed<'l>(
        &'l self,
        list: impl Fn(&'l (dyn RawSpace<D> + 's)) -> Listing<'l> + Send,
    ) -> impl Iterator<Item = AnyName> + Send {
        let mut parts = self.parts.iter().enumerate();
        let mut open: Option<(usize, Listing<'_>)> = None;
        iter::from_fn(move || {
            loop {
                if let Some((part, names)) = &mut open {
                    match names.next_name() {
                        Some(raw) => return Some(self.names.name(*part, raw)),
                        None => open = None,
                    }
                }
                let (part, of) = parts.next()?;
                open = Some((part, list(of.space.get())));
            }
        })
    }

    fn is_series(&self) -> bool {
        self.parts.len() > 1
    }

    /// A text of a run of several spaces, in which each tells what its numbers stand for.
    fn told(&self, text: &str) -> String {
        let (mut all, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once(OF_SPACE) {
            let after = behind.trim_start_matches(|c: char| c.is_ascii_digit());
            let part = behind[..behind.len() - after.len()].parse::<usize>();
            match part.ok().and_then(|part| self.parts.get(part)) {
                Some(part) => {
                    all += &told(part.space.get(), before);
                    rest = after;
                }
                None => {
                    all += before;
                    all += OF_SPACE;
                    rest = behind;
                }
            }
        }
        all + rest
    }
}

/// Gives each space its lead over those after it.
fn line_up<D: Datum>(parts: &mut [SpacePart<'_, D>], urgencies: &[Urgency]) {
    let mut highest = i64::MIN;
    for (part, urgency) in parts.iter_mut().zip(urgencies).rev() {
        part.lead = highest.saturating_sub(urgency.lowest).max(0);
        highest = part.lead.saturating_add(urgency.highest);
    }
}

/// What follows a name that is a number, before the number of its space.
const OF_SPACE: &str = " of space ";

/// Behind a pointer the type of the data alone says whether edges carry any.
const fn expect_size<S: TaskSpace>() {
    let has_size = size_of::<S::Datum>() != 0;
    assert!(
        S::CARRIES == has_size,
        "a space whose bodies get data without size cannot be erased"
    );
}

/// A task's name, of whatever type.
#[derive(Clone, Copy)]
pub struct AnyName {
    raw: RawName,
    names: &'static NameVtable,
    standing: SpacePlace,
}

/// So many classes the spaces of a series have at most, and so no more spaces: each has one.
const MANY_CLASSES: usize = u16::MAX as usize;

#[cold]
fn too_many(n_spaces: usize, n_classes: usize) -> Error {
    let text = format!(
        "{n_spaces} spaces have {n_classes} classes together: at most {MANY_CLASSES} can be one graph"
    );
    Error::new(Kind::NotDescribed, None, text)
}

/// Where a name's space stands among several.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct SpacePlace {
    part: u16,
    /// Classes that those before it describe.
    described_before: u16,
    /// Classes of the names of those before it: all names of a recorded program are packed as of one.
    before: u16,
    /// Classes of the names of all; 0 if there is only one.
    all: u16,
}

impl SpacePlace {
    fn is_alone(self) -> bool {
        self.all == 0
    }

    /// A packed name with its class, which stands on top, counted among all.
    fn widened(self, packed: u64, n_classes: usize) -> Option<u64> {
        let [own, all] = [n_classes as u64, self.all.into()].map(class_place);
        let (class, rest) = (packed >> own, packed & ((1 << own) - 1));
        let fits = class < n_classes as u64 && rest >> all == 0;
        fits.then_some((class + u64::from(self.before)) << all | rest)
    }
}

/// Where the class stands in packed names of so many.
fn class_place(n_classes: u64) -> u32 {
    PACKED_BITS - class_bits(n_classes)
}

/// The types of the names of some spaces, one after another, and how many classes come before each.
struct Roster {
    parts: Vec<RosterPart>,
    all: u16,
}

/// See [`SpacePlace`].
struct RosterPart {
    described_before: u16,
    before: u16,
    names: &'static NameVtable,
}

impl Roster {
    /// Of types of names, and how many classes each space describes.
    fn new(names: impl IntoIterator<Item = (&'static NameVtable, usize)>) -> Self {
        let (mut described_before, mut before, mut parts) = (0, 0, Vec::new());
        for (names, described) in names {
            parts.push(RosterPart {
                described_before,
                before,
                names,
            });
            described_before += described as u16;
            before += names.n_classes as u16;
        }
        Roster { parts, all: before }
    }

    fn name(&self, part: usize, raw: RawName) -> AnyName {
        let RosterPart {
            described_before,
            before,
            names,
        } = self.parts[part];
        let standing = match self.parts.len() {
            1 => SpacePlace::default(),
            _ => SpacePlace {
                part: part as u16,
                described_before,
                before,
                all: self.all,
            },
        };
        AnyName {
            raw,
            names,
            standing,
        }
    }

    fn named(&self, packed: u64) -> AnyName {
        if self.parts.len() == 1 {
            return self.name(0, RawName::Packed(packed));
        }
        let all = class_place(self.all.into());
        let class = packed >> all;
        let of_class = |part: &RosterPart| u64::from(part.before) <= class;
        let part = self.parts.partition_point(of_class) - 1;
        let RosterPart { before, names, .. } = self.parts[part];
        let class = (class - u64::from(before)) << class_place(names.n_classes as u64);
        self.name(part, RawName::Packed(class | packed & ((1 << all) - 1)))
    }

    /// The part that a name belongs to as it travels, and its own words.
    fn addressed<'w>(&self, words: &'w [u32]) -> Option<(usize, &'w [u32])> {
        if self.parts.len() == 1 {
            return Some((0, words));
        }
        let (&part, words) = words.split_first()?;
        Some((part as usize, words))
    }

    fn named_by(&self, words: &[u32]) -> Option<AnyName> {
        let (part, words) = self.addressed(words)?;
        let RosterPart { names, .. } = self.parts.get(part)?;
        Some(self.name(part, (names.from_wire)(words)?))
    }
}

impl Spell for Roster {
    fn text(&self, packed: u64) -> String {
        let AnyName { raw, names, .. } = self.named(packed);
        format!("{:?}", ShownName(raw, names))
    }

    fn number(&self, words: &[u32]) -> Option<Number> {
        self.named_by(words).map(Number::of)
    }
}

impl PartialEq for AnyName {
    fn eq(&self, other: &Self) -> bool {
        (self.raw, self.standing.part) == (other.raw, other.standing.part)
    }
}

impl Eq for AnyName {}

impl Hash for AnyName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
        self.standing.part.hash(state);
    }
}

impl PartialOrd for AnyName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AnyName {
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = self.standing.part.cmp(&other.standing.part);
        parts.then_with(|| (self.names.order)(self.raw, other.raw))
    }
}

impl fmt::Debug for AnyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.names.show)(self.raw, f)?;
        match self.names.is_numbered && !self.standing.is_alone() {
            true => write!(f, "{OF_SPACE}{}", self.standing.part),
            false => Ok(()),
        }
    }
}

impl TaskName for AnyName {
    fn class(self) -> usize {
        usize::from(self.standing.described_before) + (self.names.class)(self.raw)
    }

    fn pack(self) -> Option<u64> {
        match self.raw {
            RawName::Packed(packed) if self.standing.is_alone() => Some(packed),
            RawName::Packed(packed) => self.standing.widened(packed, self.names.n_classes),
            RawName::Wide { .. } => None,
        }
    }

    fn unpack(_: u64) -> Self {
        unreachable!("only the space knows of what type its names are: `TaskSpace::named`")
    }

    fn to_wire(self) -> Option<WireName> {
        let name = (self.names.to_wire)(self.raw)?;
        let part = (!self.standing.is_alone()).then_some(self.standing.part.into());
        Some(part.into_iter().chain(name).collect())
    }

    fn from_wire(_: &[u32]) -> Option<Self> {
        unreachable!("only the space knows of what type its names are: `TaskSpace::named_by`")
    }
}

/// Passes on, to the visitor that asked for inputs of a task, names that know their type.
struct InputsOf<'e, 's, D: Datum, I> {
    to: &'e mut I,
    of: &'e Erased<'s, D>,
    task: AnyName,
}

impl<'s, D: Datum, I: Inputs<Erased<'s, D>>> Ends<D> for InputsOf<'_, 's, D, I> {
    fn task(&mut self, flow: usize, raw: RawName, source_flow: usize) {
        let source = AnyName { raw, ..self.task };
        self.to.task(flow, source, source_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<D>, index: usize) {
        let Erased { joints, names, .. } = self.of;
        if self.of.is_series() {
            let slot = (store, index, TaskSpace::rank(self.of, self.task));
            if let Some((part, (source, its))) =
                joints.bringer(self.task.standing.part.into(), slot)
            {
                return self.to.task(flow, names.name(part, source), its);
            }
        }
        self.to.home(flow, store, index);
    }
}

/// The same for the visitor that asked for successors.
struct SuccessorsOf<'e, 's, D: Datum, T> {
    to: &'e mut T,
    of: &'e Erased<'s, D>,
    task: AnyName,
}

impl<'s, D: Datum, T: Successors<Erased<'s, D>>> Ends<D> for SuccessorsOf<'_, 's, D, T> {
    fn task(&mut self, flow: usize, raw: RawName, target_flow: usize) {
        let target = AnyName { raw, ..self.task };
        self.to.task(flow, target, target_flow);
    }

    fn home(&mut self, flow: usize, store: &Store<D>, index: usize) {
        let Erased { joints, names, .. } = self.of;
        if self.of.is_series() {
            let slot = (store, index, TaskSpace::rank(self.of, self.task));
            let part = self.task.standing.part.into();
            let to = &mut *self.to;
            let stays = joints.takers(part, slot, |part, target, its| {
                to.task(flow, names.name(part, target), its);
            });
            if !stays {
                return;
            }
        }
        self.to.home(flow, store, index);
    }
}

impl<D: Datum> TaskSpace for Erased<'_, D> {
    type Task = AnyName;
    type Datum = D;

    fn describe(&self, about: &mut Description) {
        let mut names = Vec::new();
        for part in &self.parts {
            let mut own = Description::default();
            part.space.get().describe(&mut own);
            names.push(own.space_name().to_owned());
            about.append(&mut own);
        }
        about.name(names.join(", then "));
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = AnyName> + Send {
        self.listed(move |space| space.tasks(on))
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = AnyName> + Send {
        let roots = self.listed(move |space| space.roots(on));
        roots.filter(|&root| root.standing.part == 0 || is_root(self, root))
    }

    fn inputs(&self, task: AnyName, from: &mut impl Inputs<Self>) {
        let (to, of) = (from, self);
        let mut sources = InputsOf { to, of, task };
        self.space(task).inputs(task.raw, &mut sources);
    }

    fn successors(&self, task: AnyName, to: &mut impl Successors<Self>) {
        let mut targets = SuccessorsOf { to, of: self, task };
        self.space(task).successors(task.raw, &mut targets);
    }

    fn run(&self, task: AnyName, flows: &mut Flows<'_, D>) -> Result<(), TaskError> {
        self.space(task).run(task.raw, flows)
    }

    fn rank(&self, task: AnyName) -> Rank {
        self.space(task).rank(task.raw)
    }

    fn owner(&self, task: AnyName, flow: usize) -> Rank {
        self.space(task).owner(task.raw, flow)
    }

    fn priority(&self, task: AnyName) -> i64 {
        let part = self.part(task);
        let own = part.space.get().priority(task.raw);
        part.lead.saturating_add(own)
    }

    fn count(&self, on: Rank) -> u64 {
        let counts = self.parts.iter().map(|part| part.space.get().count(on));
        counts.fold(0, u64::saturating_add)
    }

    fn index(&self, task: AnyName) -> Option<usize> {
        match self.is_series() {
            true => None,
            false => self.space(task).index(task.raw),
        }
    }

    fn named(&self, packed: u64) -> AnyName {
        self.names.named(packed)
    }

    fn named_by(&self, words: &[u32]) -> Option<AnyName> {
        let (part, words) = self.names.addressed(words)?;
        let raw = self.parts.get(part)?.space.get().named_by(words)?;
        Some(self.names.name(part, raw))
    }

    fn explained(&self, error: Error) -> Error {
        match &self.parts[..] {
            [part] => part.space.get().explained(error),
            _ => error.told(|text| self.told(text)),
        }
    }

    fn spelling(&self) -> Spelling {
        Spelling(self.names.clone())
    }
}
