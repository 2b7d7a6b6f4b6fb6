//! The description of a space: names for errors and traces, modes of flows for the engine.

use crate::wire::Terms;
use crate::words::counted;
use std::any::type_name;
use std::fmt;

/// Name, parameters, classes and flows of a space.
///
/// # Examples
/// ```
/// use dataflow_core::space::{Description, Mode};
///
/// let mut about = Description::default();
/// about.name("cholesky").parameter("tiles", 8);
/// about.class("Potrf").update("A_KK").of("tile");
/// about.class("Trsm").read("L_KK").of("tile").update("A_MK").of("tile");
///
/// assert_eq!(about.parameters()[0], ("tiles".to_string(), "8".to_string()));
/// let trsm = &about.classes()[1];
/// assert_eq!((trsm.name.as_str(), trsm.flows.len()), ("Trsm", 2));
/// assert_eq!((trsm.flows[0].mode, trsm.flows[1].kind), (Mode::Read, "tile"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Description {
    name: String,
    parameters: Vec<(String, String)>,
    classes: Vec<Class>,
    /// How many ranks the tasks were dealt out to, if the space says so.
    n_ranks: Option<u64>,
}

/// A class of tasks.
///
/// # Examples
/// See [`Description`](Description#examples).
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its flows, numbered from 0 in this order.
    pub flows: Vec<Flow>,
}

/// One flow of a class: a place for a datum that passes through a task.
///
/// # Examples
/// See [`Description`](Description#examples).
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name, as errors show it.
    pub name: String,
    /// What the task does with it.
    pub mode: Mode,
    /// What kind of datum it is; both ends of an edge must agree.
    pub kind: &'static str,
}

/// What a task does with a flow.
///
/// # Examples
/// See [`Description`](Description#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads a version, and may hand it on.
    Read,
    /// Reads a version if there is one; a task at a border of the space may have none.
    Optional,
    /// Changes a version: in place if the task is its sole holder, else a copy.
    Update,
    /// Makes a datum of its own.
    New,
    /// Carries nothing: it only orders tasks.
    Order,
}

impl Description {
    pub(crate) fn of<S: super::TaskSpace>(space: &S) -> Self {
        let mut about = Description::default();
        space.describe(&mut about);
        about
    }

    /// Names the space.
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = name.into();
        self
    }

    /// Adds a parameter of the space, by name and value.
    pub fn parameter(&mut self, name: impl Into<String>, value: impl fmt::Display) -> &mut Self {
        self.parameters.push((name.into(), value.to_string()));
        self
    }

    /// Says that tasks were dealt out to so many ranks: fewer cannot run the space, for nobody would
    /// run the tasks of those that are not there. Without it nothing is known of tasks on such ranks
    /// until an edge leads to one, and tasks without edges are left out. Nobody runs what was dealt out to 0
    /// ranks, whatever else is said.
    pub fn ranks(&mut self, n_ranks: u64) -> &mut Self {
        self.n_ranks = match self.n_ranks {
            Some(0) => Some(0),
            _ if n_ranks == 0 => Some(0),
            other => other.max(Some(n_ranks)),
        };
        self
    }

    /// Adds the next class and returns a builder for its flows.
    pub fn class(&mut self, name: impl Into<String>) -> ClassBuilder<'_> {
        self.classes.push(Class {
            name: name.into(),
            flows: Vec::new(),
        });
        let last = self.classes.len() - 1;
        ClassBuilder {
            class: &mut self.classes[last],
        }
    }

    /// Appends the parameters and classes of another space, on as many ranks as either needs.
    pub(super) fn append(&mut self, other: &mut Description) {
        self.n_ranks = self.n_ranks.max(other.n_ranks);
        self.parameters.append(&mut other.parameters);
        self.classes.append(&mut other.classes);
    }

    /// No flow must be fed any more; those of a space that carries nothing only order.
    pub(crate) fn soften(&mut self, carries: bool) {
        let flows = self.classes.iter_mut().flat_map(|class| &mut class.flows);
        flows.for_each(|flow| match flow.mode {
            _ if !carries => flow.mode = Mode::Order,
            Mode::Read | Mode::Update => flow.mode = Mode::Optional,
            Mode::Optional | Mode::New | Mode::Order => {}
        });
    }

    /// Classes have so many flows, of which those that are added carry nothing, and each the last one first.
    pub(crate) fn turn(&mut self, n: usize) {
        let none = || Flow {
            name: "-".into(),
            mode: Mode::Order,
            kind: "",
        };
        for class in &mut self.classes {
            class.flows.resize_with(n, none);
            class.flows.reverse();
        }
    }

    /// The space's name.
    pub fn space_name(&self) -> &str {
        &self.name
    }

    /// The space's parameters, by name and value.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    /// The classes, by index.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Whether tasks of a class make data.
    pub(crate) fn makes(&self, class: usize) -> bool {
        let class = self.classes.get(class);
        class.is_some_and(|class| class.flows.iter().any(|flow| flow.mode == Mode::New))
    }

    /// What to say where these ranks are fewer than the tasks were dealt out to, or these are none.
    pub(crate) fn lacks_ranks(&self, n_ranks: u32) -> Option<String> {
        if self.n_ranks == Some(0) {
            let name = &self.name;
            return Some(format!(
                "space {name:?} deals its tasks out to 0 ranks (1 or more are needed: `on i % p` where p is 0)"
            ));
        }
        let needed = self.n_ranks.filter(|&needed| needed > n_ranks.into())?;
        Some(format!(
            "space {:?} deals its tasks out to {needed} ranks, and there are {n_ranks}: those of the others would be left out",
            self.name
        ))
    }

    /// What all ranks of a run must agree on, whose data are of a type.
    pub(crate) fn terms<D>(&self) -> Terms {
        let space = ("space".to_string(), self.name.clone());
        let parameters = self.parameters.iter().cloned();
        let datum = format!("{} ({})", type_name::<D>(), counted(size_of::<D>(), "byte"));
        let settings = std::iter::once(space).chain(parameters);
        let settings = settings.chain([("datum".to_string(), datum)]).collect();
        Terms { settings }
    }

    /// The name of a flow, or its number if the class does not have it.
    pub(crate) fn flow_name(&self, class: usize, flow: usize) -> String {
        match self
            .classes
            .get(class)
            .and_then(|class| class.flows.get(flow))
        {
            Some(flow) => flow.name.clone(),
            None => format!("flow {flow}"),
        }
    }
}

/// Adds flows to a class, in order: the first is flow 0.
///
/// # Examples
/// See [`Description`](Description#examples).
#[derive(Debug)]
pub struct ClassBuilder<'d> {
    class: &'d mut Class,
}

impl ClassBuilder<'_> {
    /// A flow that is read.
    pub fn read(self, name: &str) -> Self {
        self.flow(name, Mode::Read, "")
    }

    /// A flow that is read if it is fed; tasks at a border of the space may lack it.
    pub fn optional(self, name: &str) -> Self {
        self.flow(name, Mode::Optional, "")
    }

    /// A flow that is changed.
    pub fn update(self, name: &str) -> Self {
        self.flow(name, Mode::Update, "")
    }

    /// A flow whose datum the task makes.
    pub fn new_flow(self, name: &str) -> Self {
        self.flow(name, Mode::New, "")
    }

    /// A flow without a datum, that only orders tasks.
    pub fn order(self, name: &str) -> Self {
        self.flow(name, Mode::Order, "order")
    }

    /// The kind of datum of the flow named last.
    pub fn of(self, kind: &'static str) -> Self {
        if let Some(flow) = self.class.flows.last_mut() {
            flow.kind = kind;
        }
        self
    }

    fn flow(self, name: &str, mode: Mode, kind: &'static str) -> Self {
        self.class.flows.push(Flow {
            name: name.into(),
            mode,
            kind,
        });
        self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn most_ranks_count_of_those_that_are_told_and_none_whenever_they_are_told() {
        let lacks = |told: &[u64], n_ranks| {
            let mut about = Description::default();
            for n in told {
                about.name("dealt").ranks(*n);
            }
            about.lacks_ranks(n_ranks)
        };
        assert_eq!((lacks(&[], 1), lacks(&[2, 3, 2], 3)), (None, None));
        let few = lacks(&[2, 3, 2], 2).unwrap();
        assert!(few.contains("to 3 ranks, and there are 2"), "{few}");
        for told in [&[0][..], &[0, 3], &[3, 0], &[3, 0, 3]] {
            let none = lacks(told, 3).unwrap();
            assert!(none.contains("to 0 ranks"), "{told:?}: {none}");
        }
    }
}
