//! The flows as a body gets them: one slot for each, lent to be read, changed or filled.

use super::{Flow, Mode};
use crate::data::{Datum, Version};
use std::fmt;

/// The flows of one task while its body runs.
///
/// Before the body runs, the task has become the sole holder of each datum that it updates; so a slot
/// lends `&D` any number of times, or `&mut D` once.
///
/// # Examples
/// Bodies of three flows, of which the first may be empty, and of any number of them:
/// ```
/// use dataflow_core::prelude::*;
///
/// fn add(flows: &mut Flows<'_, f64>) -> Result<(), TaskError> {
///     let [carried, number, sum] = flows.slots();
///     sum.put(carried.get().copied().unwrap_or(0.0) + *number.read());
///     Ok(())
/// }
///
/// fn halve_all(flows: &mut Flows<'_, f64>) -> Result<(), TaskError> {
///     flows.iter().for_each(|number| *number.update() /= 2.0);
///     Ok(())
/// }
/// ```
pub struct Flows<'a, D: Datum> {
    flows: &'a [Flow],
    versions: &'a mut [Option<Version<D>>],
}

impl<'a, D: Datum> Flows<'a, D> {
    pub(crate) fn new(flows: &'a [Flow], versions: &'a mut [Option<Version<D>>]) -> Self {
        Flows { flows, versions }
    }

    /// How many flows the task has.
    pub fn len(&self) -> usize {
        self.versions.len()
    }

    /// Whether the task has no flows.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// The first `n` flows, or all if there are fewer: for a space that adds flows to those of another
    /// space and hides them from its body.
    pub fn first(&mut self, n: usize) -> Flows<'_, D> {
        let n = n.min(self.versions.len());
        Flows {
            flows: &self.flows[..n],
            versions: &mut self.versions[..n],
        }
    }

    /// All flows of a task that has exactly `N`.
    ///
    /// # Panics
    /// If the class was described with another number of flows: a fault of the task space.
    #[track_caller]
    pub fn slots<const N: usize>(&mut self) -> [Slot<'_, D>; N] {
        let n = self.len();
        if n != N {
            panic!("the body asks for {N} flows, its class describes {n}");
        }
        let mut slots = self.iter();
        std::array::from_fn(|_| match slots.next() {
            Some(slot) => slot,
            None => unreachable!("there are {n} flows"),
        })
    }

    /// All flows in order, for tasks with a variable list of data: as many as the class describes, those
    /// that were not fed among them.
    pub fn iter(&mut self) -> impl Iterator<Item = Slot<'_, D>> {
        let flows = self.flows.iter();
        flows
            .zip(self.versions.iter_mut())
            .map(|(flow, version)| Slot { flow, version })
    }
}

impl<D: Datum> fmt::Debug for Flows<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.flows.iter().map(|flow| &flow.name);
        f.debug_list().entries(names).finish()
    }
}

/// One flow of a task.
///
/// # Examples
/// See [`Flows`](Flows#examples).
pub struct Slot<'a, D: Datum> {
    flow: &'a Flow,
    version: &'a mut Option<Version<D>>,
}

impl<D: Datum> fmt::Debug for Slot<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("flow", &self.flow.name)
            .field("mode", &self.flow.mode)
            .field("holds_datum", &self.version.is_some())
            .finish()
    }
}

impl<'a, D: Datum> Slot<'a, D> {
    /// The datum, for reading.
    ///
    /// # Panics
    /// If the flow is empty: it is new and not filled yet, or it only orders.
    #[track_caller]
    pub fn read(self) -> &'a D {
        match self.version {
            Some(version) => version,
            None => panic!("flow {} holds no datum to read", self.flow.name),
        }
    }

    /// The datum, if there is one: for flows that need not be fed.
    pub fn get(self) -> Option<&'a D> {
        self.version.as_deref()
    }

    /// The datum, for changing.
    ///
    /// # Panics
    /// If the flow is not described as updated: a fault of the task space.
    #[doc(alias = "get_mut")]
    #[track_caller]
    pub fn update(self) -> &'a mut D {
        if self.flow.mode != Mode::Update {
            panic!(
                "flow {} is described as {:?}, not as Update",
                self.flow.name, self.flow.mode
            );
        }
        match self.version.as_mut().and_then(Version::get_mut) {
            Some(datum) => datum,
            None => panic!("flow {} holds no datum to update", self.flow.name),
        }
    }

    /// Fills a new flow.
    ///
    /// # Panics
    /// If the flow is not described as new: a fault of the task space.
    #[track_caller]
    pub fn put(self, datum: D) {
        if self.flow.mode != Mode::New {
            panic!(
                "flow {} is described as {:?}, not as New",
                self.flow.name, self.flow.mode
            );
        }
        self.fill(|_| datum);
    }

    /// Whether it holds nothing.
    pub(crate) fn is_vacant(&self) -> bool {
        self.version.is_none()
    }

    /// Fills it, however it is described, by what it held: for a space that has no data of its own.
    pub(crate) fn fill(self, datum: impl FnOnce(Option<&D>) -> D) {
        *self.version = Some(Version::new(datum(self.version.as_deref())));
    }
}
