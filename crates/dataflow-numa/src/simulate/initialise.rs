//! Initialise: the tasks that touch the data first.

use super::machine::VirtualMachine;
use crate::sync::held;
use dataflow_core::error::TaskError;
use dataflow_core::phantom::{Land, Length};
use dataflow_core::rank::Rank;
use dataflow_core::space::{Description, Flows, Inputs, Successors, TaskSpace};
use std::sync::Mutex;
use std::time::Duration;

/// A task for each slot, which touches its datum first: that lies where the task runs.
pub(super) struct Initialise<'m> {
    machine: &'m VirtualMachine,
    /// What each takes.
    time: Duration,
    /// By slot.
    nodes: Mutex<Vec<Option<usize>>>,
}

impl<'m> Initialise<'m> {
    pub fn new(machine: &'m VirtualMachine, n_slots: usize, time: Duration) -> Self {
        Initialise {
            machine,
            time,
            nodes: Mutex::new(vec![None; n_slots]),
        }
    }

    /// The NUMA node of each datum.
    pub fn nodes(&self) -> Vec<Option<usize>> {
        held(&self.nodes).clone()
    }
}

impl TaskSpace for Initialise<'_> {
    type Task = u64;
    type Datum = Length;

    fn describe(&self, about: &mut Description) {
        about.name("data").class("Initialise").new_flow("DATUM");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..held(&self.nodes).len() as u64
    }

    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}

    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}

    fn run(&self, slot: u64, _: &mut Flows<'_, Length>) -> Result<(), TaskError> {
        held(&self.nodes)[slot as usize] = self.machine.here();
        self.machine.spend(0, self.time);
        Ok(())
    }
}
