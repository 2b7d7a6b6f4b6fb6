//! The data that have arrived for one task, by flow.

use crate::data::{Datum, Version};
use smallvec::SmallVec;

/// Flows whose data lie in places of their own; tasks with more are listed.
pub(super) const INLINE: usize = 4;

/// One place per flow; empty until its datum arrives. Grows as far as the largest flow.
///
/// Slots stay in buffers of the worker (see [`Hand`](super::run::Hand)) and are only touched by
/// spaces whose edges carry data: others pay nothing for them.
pub(crate) type Slots<D> = SmallVec<[Option<Version<D>>; INLINE]>;

/// Puts a datum in its place.
#[inline]
pub(crate) fn set<D: Datum>(slots: &mut Slots<D>, flow: usize, datum: Option<Version<D>>) {
    match slots.get_mut(flow) {
        Some(slot) => *slot = datum,
        None => {
            while slots.len() < flow {
                slots.push(None);
            }
            slots.push(datum);
        }
    }
}
