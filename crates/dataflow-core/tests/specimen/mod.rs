//! Small task spaces to try the engine on, and the lies that can be told about them.
//!
//! # Law
//! Every datum is a digest of its task and of the task's inputs in slot order: a lost, doubled or
//! swapped input shows in the outcome. [`Mutant`] changes exactly one answer of a space.
#![allow(dead_code, unused_imports, reason = "each test uses a part")]

pub mod cholesky;
pub mod curious;
pub mod forgetful;
pub mod mixed;
mod mutant;
pub mod ranks;
mod watchdog;
pub mod wavefront;

pub use cholesky::Cholesky;
pub use mixed::Mixed;
pub use mutant::{Mutant, Mutation, Twist, mutations, tried};
pub use watchdog::{within, within_limit};
pub use wavefront::Wavefront;

use dataflow_core::port::{Block, Head, Wire};
use dataflow_core::prelude::*;
use std::borrow::Cow;

/// A datum that is nothing but a digest.
#[derive(Clone, Debug, PartialEq)]
pub struct Number(pub u64);
impl Datum for Number {}
impl Wire for Number {
    fn head(&self) -> Head {
        Head::from_slice(b"number")
    }
    fn size(&self) -> usize {
        8
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.0.to_le_bytes().to_vec())
    }
    fn unpack(head: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        let bytes = body.bytes().try_into().map_err(|_| "not eight bytes")?;
        match head {
            b"number" => Ok(Number(u64::from_le_bytes(bytes))),
            _ => Err(format!("not a number: {head:?}")),
        }
    }
}

/// A space that can be made anew and looked at afterwards.
pub trait Specimen: TaskSpace {
    /// The same space with its data as they were at first.
    fn fresh(&self) -> Self;
    /// What the run left behind.
    fn outcome(&self) -> Vec<u64>;
    /// Slots that were full at first and are empty now.
    fn holes(&self) -> Vec<String>;
    /// Names of tasks that the space does not list.
    fn strangers(&self) -> Vec<Self::Task>;
}

/// Order matters; a missing part matters.
pub fn digest(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0x243f_6a88_85a3_08d3, |sum, part| {
        let mixed = (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).rotate_left(17).wrapping_add(part)
    })
}

/// The data of a store; an empty slot counts as 0.
pub fn contents(store: &Store<Number>) -> impl Iterator<Item = u64> {
    (0..store.len()).map(|index| store.get(index).map_or(0, |number| number.0))
}

/// The empty slots of a store, by name.
pub fn holes(store: &Store<Number>) -> impl Iterator<Item = String> {
    let empty = (0..store.len()).filter(|&index| store.get(index).is_none());
    empty.map(|index| format!("slot {index} of {}", store.name()))
}
