//! The flows as a body gets them: one slot for each, lent to be read, changed or filled.

use super::{Flow, Mode};
use crate::data::{Datum, Version};
use crate::words::counted;
use std::fmt;

/// The flows of one task while its body runs.
///
/// Before the body runs, the task has become the sole holder of each datum that it updates; so a slot
/// lends `&D` any number of times, or `&mut D` once.
///
/// # Examples
/// Bodies of three flows, of which the first may be empty, of any number of them, and of any number
/// before the last:
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
///
/// fn sum(flows: &mut Flows<'_, f64>) -> Result<(), TaskError> {
///     let ([], numbers, [sum]) = flows.split();
///     sum.put(numbers.map(|number| *number.read()).sum());
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
    /// If the class was described with another number of flows, or edges [carry](super::TaskSpace::Datum) no
    /// data: a fault of the task space.
    #[track_caller]
    pub fn slots<const N: usize>(&mut self) -> [Slot<'_, D>; N] {
        if self.len() != N {
            self.lacking(format_args!("{}", counted(N, "flow")));
        }
        array(self.iter())
    }

    /// The first `N` flows, those between, and the last `M`: for tasks with a variable list of data among
    /// others.
    ///
    /// # Panics
    /// If the class was described with fewer flows than `N + M`, or edges [carry](super::TaskSpace::Datum) no
    /// data: a fault of the task space.
    #[track_caller]
    pub fn split<const N: usize, const M: usize>(
        &mut self,
    ) -> (
        [Slot<'_, D>; N],
        impl Iterator<Item = Slot<'_, D>>,
        [Slot<'_, D>; M],
    ) {
        let n = self.len();
        let Some(between) = n.checked_sub(N + M) else {
            self.lacking(format_args!("{} or more", counted(N + M, "flow")));
        };
        let flows = self.flows;
        let (first, rest) = self.versions.split_at_mut(N);
        let (middle, last) = rest.split_at_mut(between);
        (
            array(slots(flows, first)),
            slots(&flows[N..], middle),
            array(slots(&flows[N + between..], last)),
        )
    }

    /// There are not as many as a body asks for.
    #[cold]
    #[track_caller]
    fn lacking(&self, asked: fmt::Arguments<'_>) -> ! {
        match (self.len(), size_of::<D>()) {
            (0, 0) => panic!(
                "the body asks for {asked} and gets none: its data have no size, so edges only order tasks"
            ),
            (n, _) => panic!("the body asks for {asked}, its class describes {n}"),
        }
    }

    /// All flows in order, for tasks with a variable list of data: as many as the class describes, those
    /// that were not fed among them.
    pub fn iter(&mut self) -> impl Iterator<Item = Slot<'_, D>> {
        slots(self.flows, self.versions)
    }
}

/// A slot for each version, of the flows that it belongs to.
fn slots<'s, D: Datum>(
    flows: &'s [Flow],
    versions: &'s mut [Option<Version<D>>],
) -> impl Iterator<Item = Slot<'s, D>> {
    let both = flows.iter().zip(versions);
    both.map(|(flow, version)| Slot { flow, version })
}

/// As many slots as there are.
fn array<'s, D: Datum, const N: usize>(
    mut slots: impl Iterator<Item = Slot<'s, D>>,
) -> [Slot<'s, D>; N] {
    std::array::from_fn(|_| match slots.next() {
        Some(slot) => slot,
        None => unreachable!("there are {N} flows"),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn flows(n: usize) -> Vec<Flow> {
        let flow = |i| Flow {
            name: format!("F{i}"),
            mode: Mode::Read,
            kind: "",
        };
        (0..n).map(flow).collect()
    }

    #[test]
    fn flows_are_split_into_the_first_those_between_and_the_last() {
        let described = flows(6);
        let mut versions: Vec<_> = (0..6u64).map(|i| Some(Version::new(i))).collect();
        let mut flows = Flows::new(&described, &mut versions);
        let ([a, b], between, [last]) = flows.split();
        let named = |slot: Slot<'_, u64>| (slot.flow.name.clone(), *slot.read());
        let is = |i: u64| (format!("F{i}"), i);
        assert_eq!([named(a), named(b)], [is(0), is(1)]);
        assert!(between.map(named).eq((2..5).map(is)));
        assert_eq!(named(last), is(5));
        let ([], between, []) = flows.split();
        assert_eq!(between.count(), 6);
    }

    #[test]
    fn a_body_that_asks_for_more_flows_than_its_class_describes_panics_with_both_numbers() {
        let described = flows(2);
        let mut versions: Vec<Option<Version<u64>>> = vec![None; 2];
        let mut flows = Flows::new(&described, &mut versions);
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let ([_], _, [_, _]) = flows.split();
        }));
        let text = asked.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(
            *text,
            "the body asks for 3 flows or more, its class describes 2"
        );
    }

    /// Its class was said to describe none.
    #[test]
    fn a_body_that_asks_for_flows_of_data_without_size_is_told_that_edges_only_order() {
        let mut flows = Flows::<()>::new(&[], &mut []);
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let [_] = flows.slots();
        }));
        let text = asked.unwrap_err().downcast::<String>().unwrap();
        assert!(
            text.starts_with("the body asks for 1 flow and gets none: its data have no size"),
            "{text}"
        );
    }
}
