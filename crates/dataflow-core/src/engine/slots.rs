//! The data that have arrived for one task, by flow.

use crate::data::{Datum, Version};
use crate::foreign::drop_quietly;
use smallvec::SmallVec;

/// Flows whose data lie in places of their own; tasks with more are listed.
pub(super) const INLINE: usize = 4;

/// A place per flow, and at least [`INLINE`] once anything was put there; empty until its datum arrives.
/// Grows as far as the largest flow.
///
/// Slots stay in buffers of the worker (see [`Hand`](super::hand::Hand)) and are only touched by
/// spaces whose edges carry data: others pay nothing for them.
pub(crate) type Slots<D> = SmallVec<[Option<Version<D>>; INLINE]>;

/// As many places as slots have at least.
pub(crate) type InlineSlots<D> = [Option<Version<D>>; INLINE];

/// Puts a datum in its place.
#[inline]
pub(crate) fn set<D: Datum>(slots: &mut Slots<D>, flow: usize, datum: Option<Version<D>>) {
    if slots.len() <= flow {
        slots.resize_with(INLINE.max(flow + 1), || None);
    }
    slots[flow] = datum;
}

/// The same in slots that are [empty]: nothing lies there that would have to be dropped.
#[inline(always)]
pub(crate) fn put<D: Datum>(slots: &mut Slots<D>, flow: usize, mut datum: Option<Version<D>>) {
    match slots.get_mut(flow) {
        Some(slot) => std::mem::swap(slot, &mut datum),
        None => set(slots, flow, datum),
    }
}

/// Lets go of what slots still hold. Nearly always there is nothing: the task that had them has handed all on.
#[inline(always)]
pub(crate) fn empty<D: Datum>(slots: &mut Slots<D>) {
    if slots.len() != INLINE || slots.iter().any(Option::is_some) {
        make_empty(slots);
    }
}

/// Drops what slots still hold. It is foreign: one that panics keeps none of the others.
pub(crate) fn let_go<D: Datum>(slots: &mut [Option<Version<D>>]) {
    for slot in slots {
        drop_quietly(slot.take());
    }
}

#[cold]
fn make_empty<D: Datum>(slots: &mut Slots<D>) {
    slots.clear();
    slots.resize_with(INLINE, || None);
}

/// Lets slots and places change what they hold; slots of more places keep theirs. One move for all: what
/// was written piece by piece is slow to move as a whole only while it is new.
#[inline(always)]
pub(crate) fn exchange<D: Datum>(slots: &mut Slots<D>, places: &mut InlineSlots<D>) {
    if let Ok(slots) = <&mut InlineSlots<D>>::try_from(&mut slots[..]) {
        std::mem::swap(slots, places);
    }
}
