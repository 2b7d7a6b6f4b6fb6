//! Joints: where spaces over the same data meet, one after another.
//!
//! # Law
//! What one space brings home to a slot and a later one takes from there becomes an edge; nothing else
//! changes. Several may take it, the last of them to change it. Where an edge could not order two spaces
//! (the later changes a slot that the earlier only reads, say) they are refused.

use super::raw::{Ends, NameVtable, RawName, RawSpace, ShownName, told};
use crate::data::{Datum, Store};
use crate::error::{Error, Kind};
use crate::rank::Rank;
use crate::space::verify::{goes_on, most_listed};
use crate::space::{Description, Flow, Mode};
use std::collections::HashMap;
use std::ops::Range;

/// A slot of a store of a rank: the store by its address.
type SlotKey = (usize, usize, Rank);

fn slot<D: Datum>(store: &Store<D>, index: usize, rank: Rank) -> SlotKey {
    (std::ptr::from_ref(store).addr(), index, rank)
}

/// What some spaces, one after another, do with each slot; in their order. Who comes before or after one
/// is found by halving, however many there are.
#[derive(Default)]
pub(super) struct Joints {
    slots: HashMap<SlotKey, Vec<Touch>>,
}

/// What a space does with a slot.
struct Touch {
    space: usize,
    /// Tasks that take what lies there, and by which flow.
    takers: Vec<(RawName, usize)>,
    /// Who brings something there.
    bringer: Option<(RawName, usize)>,
    /// Whether what is taken is changed.
    is_changed: bool,
    /// Of those of the slot before it the last that changes what lies there.
    changed_before: Option<usize>,
}

impl Touch {
    /// Whether there is another datum in the slot afterwards, or a changed one.
    fn changes(&self) -> bool {
        self.is_changed || self.bringer.is_some()
    }
}

/// The lowest and the highest priority of a space's tasks; of none, 0.
#[derive(Clone, Copy, Default)]
pub(super) struct Urgency {
    pub lowest: i64,
    pub highest: i64,
}

/// A space as it is asked, its names, and what it says of itself.
pub(super) struct DescribedSpace<'a, D: Datum> {
    space: &'a dyn RawSpace<D>,
    names: &'static NameVtable,
    about: Description,
}

impl<'a, D: Datum> DescribedSpace<'a, D> {
    /// # Errors
    /// [`Kind::NotDescribed`] if it does not describe as many classes as the names of its tasks have; those of
    /// a recorded program have as many as it describes. [`Kind::NoSuchRank`] if it deals its tasks out to 0
    /// ranks: on none it could be asked for them.
    pub fn new(space: &'a dyn RawSpace<D>, names: &'static NameVtable) -> Result<Self, Error> {
        let mut about = Description::default();
        space.describe(&mut about);
        if let Some(text) = about.lacks_ranks(u32::MAX) {
            return Err(Error::no_such_rank(text));
        }
        match names.is_numbered || about.classes().len() == names.n_classes {
            true => Ok(DescribedSpace {
                space,
                names,
                about,
            }),
            false => Err(ill_described(&about, names.n_classes)),
        }
    }

    /// How many classes it describes.
    pub fn n_classes(&self) -> usize {
        self.about.classes().len()
    }
}

/// The tasks of a space in which a datum begins or ends: names, and flows.
pub(super) type Bringer = (usize, (RawName, usize));

impl Joints {
    /// Adds what the last of these spaces does on some ranks; those before it were added.
    ///
    /// # Errors
    /// [`Kind::Contradiction`] if no edge could order it after those before, or it lists far more tasks
    /// than it counts.
    pub fn add<D: Datum>(
        &mut self,
        spaces: &[DescribedSpace<'_, D>],
        ranks: Range<u32>,
    ) -> Result<Urgency, Error> {
        let number = spaces.len() - 1;
        let (touched, urgency) = touched((number, &spaces[number]), ranks)?;
        for (slot, (store, touch)) in touched {
            let before = self.slots.entry(slot).or_default();
            if !is_ordered(before, &touch) {
                return Err(out_of_order((&store, slot), before, &touch, spaces));
            }
            let changed_before = last_change(before);
            before.push(Touch {
                changed_before,
                ..touch
            });
        }
        Ok(urgency)
    }

    /// Who of the spaces before this one brings what it takes from a slot; nobody if it lay there.
    pub fn bringer<D: Datum>(
        &self,
        space: usize,
        (store, index, rank): (&Store<D>, usize, Rank),
    ) -> Option<Bringer> {
        let touches = self.slots.get(&slot(store, index, rank))?;
        let n_before = touches.partition_point(|touch| touch.space < space);
        // If this one kept what it took, nobody would take from there after it: that is refused.
        let last = &touches[last_change(&touches[..n_before])?];
        Some((last.space, last.bringer?))
    }

    /// Tells who of the spaces after this one takes what it brings to a slot, by space; answers
    /// whether it stays there.
    pub fn takers<D: Datum>(
        &self,
        space: usize,
        (store, index, rank): (&Store<D>, usize, Rank),
        mut hear: impl FnMut(usize, RawName, usize),
    ) -> bool {
        let touches = self.slots.get(&slot(store, index, rank));
        let touches = touches.map(Vec::as_slice).unwrap_or_default();
        let first = touches.partition_point(|touch| touch.space <= space);
        for touch in &touches[first..] {
            for &(task, flow) in &touch.takers {
                hear(touch.space, task, flow);
            }
            if touch.changes() {
                return false;
            }
        }
        true
    }
}

/// The last of a slot's touches that changes what lies there.
fn last_change(touches: &[Touch]) -> Option<usize> {
    let last = touches.last()?;
    match last.changes() {
        true => Some(touches.len() - 1),
        false => last.changed_before,
    }
}

/// Whether edges order what a space does with a slot after what those before do.
fn is_ordered(before: &[Touch], after: &Touch) -> bool {
    match last_change(before).map(|at| &before[at]) {
        // It takes what was brought.
        Some(last) => last.bringer.is_some() && !after.takers.is_empty(),
        // All of them read what lay there.
        None => before.is_empty() || !after.changes(),
    }
}

/// What a space does with slots, each with the name of its store.
type Touching = HashMap<SlotKey, (String, Touch)>;

fn touched<D: Datum>(
    (number, asked): (usize, &DescribedSpace<'_, D>),
    ranks: Range<u32>,
) -> Result<(Touching, Urgency), Error> {
    let DescribedSpace {
        space,
        names,
        about,
    } = asked;
    let mut touching = Touching::new();
    let mut urgency = Urgency::default();
    for rank in ranks.map(Rank) {
        let count = space.count(rank);
        let (mut tasks, mut n_listed) = (space.tasks(rank), 0);
        while let Some(task) = tasks.next_name() {
            n_listed += 1;
            if n_listed > most_listed(count) {
                let text = format!("{}: {}", about.space_name(), goes_on(rank, count));
                return Err(Error::new(Kind::Contradiction, None, text));
            }
            let class = about.classes().get((names.class)(task));
            let mut ends = OfTask {
                touching: &mut touching,
                space: number,
                flows: class.map_or(&[], |class| &class.flows),
                task,
                rank,
            };
            space.inputs(task, &mut TakenSlots(&mut ends));
            space.successors(task, &mut Brought(&mut ends));
            let own = space.priority(task);
            urgency.lowest = urgency.lowest.min(own);
            urgency.highest = urgency.highest.max(own);
        }
    }
    Ok((touching, urgency))
}

/// Whose ends are heard.
struct OfTask<'t> {
    touching: &'t mut Touching,
    space: usize,
    flows: &'t [Flow],
    task: RawName,
    rank: Rank,
}

impl OfTask<'_> {
    fn at<D: Datum>(&mut self, store: &Store<D>, index: usize) -> &mut Touch {
        let slot = slot(store, index, self.rank);
        let (_, touch) = self.touching.entry(slot).or_insert_with(|| {
            let touch = Touch {
                space: self.space,
                takers: Vec::new(),
                bringer: None,
                is_changed: false,
                changed_before: None,
            };
            (store.name().into(), touch)
        });
        touch
    }
}

/// Notes which slots a task takes from.
struct TakenSlots<'e, 't>(&'e mut OfTask<'t>);

impl<D: Datum> Ends<D> for TakenSlots<'_, '_> {
    fn task(&mut self, _: usize, _: RawName, _: usize) {}

    fn home(&mut self, flow: usize, store: &Store<D>, index: usize) {
        let updates = |flow: &Flow| flow.mode == Mode::Update;
        let (task, changes) = (self.0.task, self.0.flows.get(flow).is_some_and(updates));
        let touch = self.0.at(store, index);
        touch.takers.push((task, flow));
        touch.is_changed |= changes;
    }
}

/// Notes which slots a task fills.
struct Brought<'e, 't>(&'e mut OfTask<'t>);

impl<D: Datum> Ends<D> for Brought<'_, '_> {
    fn task(&mut self, _: usize, _: RawName, _: usize) {}

    fn home(&mut self, flow: usize, store: &Store<D>, index: usize) {
        let task = self.0.task;
        self.0.at(store, index).bringer = Some((task, flow));
    }
}

#[cold]
fn out_of_order<D: Datum>(
    (store, (_, index, rank)): (&str, SlotKey),
    before: &[Touch],
    after: &Touch,
    spaces: &[DescribedSpace<'_, D>],
) -> Error {
    let shown = |touch: &Touch| {
        let task = touch.bringer.or(touch.takers.first().copied());
        let DescribedSpace { space, names, .. } = &spaces[touch.space];
        task.map_or(String::new(), |(task, _)| {
            told(*space, &format!("{:?}", ShownName(task, names)))
        })
    };
    let (first, second) = (before.last().map_or(String::new(), shown), shown(after));
    let text = format!(
        "{first} and then {second} touch slot {index} of {store} on {rank}, and nothing orders them (what \
         an earlier space brings home a later one may take; all may read)",
    );
    Error::new(Kind::Contradiction, Some(second), text)
}

#[cold]
fn ill_described(about: &Description, n_classes: usize) -> Error {
    let text = format!(
        "{} describes {}, and names of its tasks have {n_classes}: it cannot be one of several \
         spaces",
        about.space_name(),
        match about.classes().len() {
            1 => "1 class".into(),
            n => format!("{n} classes"),
        },
    );
    Error::new(Kind::NotDescribed, None, text)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const N_SPACES: usize = 12;

    /// What each space does with one slot, if anything: how many take it, whether it is changed, whether
    /// something is brought there.
    type Touches = Vec<Option<(u64, bool, bool)>>;

    fn touches() -> impl Strategy<Value = Touches> {
        let touch = (0..3_u64, any::<bool>(), any::<bool>());
        prop::collection::vec(prop::option::of(touch), N_SPACES)
    }

    fn touch(space: usize, (takers, is_changed, brings): (u64, bool, bool)) -> Touch {
        let end = |task| (RawName::Packed(100 * space as u64 + task), task as usize);
        Touch {
            space,
            takers: (0..takers).map(end).collect(),
            bringer: brings.then(|| end(50)),
            is_changed: is_changed && takers > 0,
            changed_before: None,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 3 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// What is halved and kept answers what looking at each touch does.
        #[test]
        fn whoever_touches_a_slot_finds_who_did_before_and_who_will(touches in touches()) {
            let store = Store::new("slots", [0_u64]);
            let place = (&store, 0, Rank(0));
            let mut before: Vec<Touch> = Vec::new();
            for (space, did) in touches.into_iter().enumerate() {
                let Some(touch) = did.map(|did| touch(space, did)) else { continue };
                let last = before.iter().rfind(|before| before.changes());
                let is_allowed = match last {
                    Some(last) => last.bringer.is_some() && !touch.takers.is_empty(),
                    None => before.is_empty() || !touch.changes(),
                };
                prop_assert_eq!(is_ordered(&before, &touch), is_allowed);
                if is_allowed {
                    let changed_before = last_change(&before);
                    before.push(Touch { changed_before, ..touch });
                }
            }
            let slots = HashMap::from([(slot(&store, 0, Rank(0)), before)]);
            let joints = Joints { slots };
            let all = &joints.slots[&slot(&store, 0, Rank(0))];
            for taking in all.iter().filter(|touch| !touch.takers.is_empty()) {
                let mut earlier = all.iter().filter(|touch| touch.space < taking.space);
                let brought = earlier.rfind(|touch| touch.bringer.is_some());
                let found = joints.bringer(taking.space, place);
                prop_assert_eq!(found.map(|(part, _)| part), brought.map(|touch| touch.space));
            }
            for space in 0..=N_SPACES {
                let (mut taken, mut stays) = (Vec::new(), true);
                for touch in all.iter().filter(|touch| touch.space > space) {
                    taken.extend(touch.takers.iter().map(|taker| (touch.space, taker.1)));
                    if touch.changes() {
                        stays = false;
                        break;
                    }
                }
                let mut heard = Vec::new();
                let is_left = joints.takers(space, place, |part, _, flow| heard.push((part, flow)));
                prop_assert_eq!((heard, is_left), (taken, stays));
            }
        }
    }
}
