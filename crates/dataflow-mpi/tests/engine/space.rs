//! A graph of these tests as a task space, for the real engine.

use super::{Graph, MAX_FLOWS};
use dataflow_core::port::{Block, Head, Wire};
use dataflow_core::prelude::*;
use dataflow_mpi::transport::simulated::{World, spend};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A graph whose bodies check every byte that they get. A flow that carries nothing is one of no
/// bytes here.
pub struct Drawn {
    graph: Arc<Graph>,
    world: World,
    fault: Fault,
    worked: Mutex<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    Error,
    Panic,
}

impl Drawn {
    pub fn new(graph: &Arc<Graph>, world: &World) -> Self {
        Drawn {
            graph: graph.clone(),
            world: world.clone(),
            fault: Fault::Error,
            worked: Mutex::default(),
        }
    }

    /// What the body that fails does.
    pub fn failing_by(self, fault: Fault) -> Self {
        Drawn { fault, ..self }
    }

    /// When the last body ran on this rank.
    pub fn worked(&self) -> Duration {
        *self.worked.lock().unwrap()
    }

    fn flows(&self, task: u32) -> usize {
        self.graph.tasks[task as usize].sizes.len()
    }

    fn bytes(&self, task: u32, flow: usize) -> Vec<u8> {
        let size = self.graph.tasks[task as usize].sizes[flow];
        self.graph.payload(task as usize, flow, size.unwrap_or(0))
    }

    /// The flow of a reader into which one of a source goes.
    fn place(&self, reader: u32, source: u32, flow: usize) -> usize {
        let inputs = &self.graph.tasks[reader as usize].inputs;
        let before = inputs.iter().position(|&input| input == source as usize);
        MAX_FLOWS * (1 + before.unwrap()) + flow
    }
}

#[derive(Clone)]
pub struct Bytes(Vec<u8>);

impl Datum for Bytes {}

impl Wire for Bytes {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        self.0.len()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.0)
    }
    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(Bytes(body.bytes().to_vec()))
    }
}

impl TaskSpace for Drawn {
    type Task = u32;
    type Datum = Bytes;

    fn describe(&self, about: &mut Description) {
        let n_tasks = self.graph.tasks.len();
        about.name("drawn").parameter("tasks", n_tasks);
        let inputs = self.graph.tasks.iter().map(|task| task.inputs.len());
        let mut class = about.class("Task");
        for flow in 0..MAX_FLOWS {
            class = class.new_flow(&format!("OUT {flow}"));
        }
        for place in 0..MAX_FLOWS * inputs.max().unwrap_or(0) {
            class = class.optional(&format!("IN {place}"));
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
        (0..self.graph.tasks.len() as u32).filter(move |&task| self.rank(task) == on)
    }

    fn rank(&self, task: u32) -> Rank {
        self.graph.tasks[task as usize].owner
    }

    fn priority(&self, task: u32) -> i64 {
        self.graph.tasks[task as usize].priority
    }

    fn inputs(&self, task: u32, from: &mut impl Inputs<Self>) {
        for &source in &self.graph.tasks[task as usize].inputs {
            for flow in 0..self.flows(source as u32) {
                from.task(self.place(task, source as u32, flow), source as u32, flow);
            }
        }
    }

    fn successors(&self, task: u32, to: &mut impl Successors<Self>) {
        for &reader in &self.graph.successors[task as usize] {
            for flow in 0..self.flows(task) {
                to.task(flow, reader as u32, self.place(reader as u32, task, flow));
            }
        }
    }

    fn run(&self, task: u32, flows: &mut Flows<'_, Bytes>) -> Result<(), TaskError> {
        let about = &self.graph.tasks[task as usize];
        spend(Duration::from_secs_f64(about.seconds));
        if self
            .graph
            .fails
            .is_some_and(|(fails, _)| fails == task as usize)
        {
            assert!(self.fault != Fault::Panic, "the body of task {task} panics");
            return Err(TaskError::new("broken_pivot", "it failed").with_index(task.into()));
        }
        let mut slots = flows.iter();
        for (flow, slot) in slots.by_ref().take(MAX_FLOWS).enumerate() {
            if flow < self.flows(task) {
                slot.put(Bytes(self.bytes(task, flow)));
            }
        }
        let mut came = 0;
        for (place, slot) in slots.enumerate() {
            let Some(Bytes(bytes)) = slot.get() else {
                continue;
            };
            let source = about.inputs[place / MAX_FLOWS] as u32;
            if *bytes != self.bytes(source, place % MAX_FLOWS) {
                let text = format!(
                    "flow {} of task {source} has wrong bytes",
                    place % MAX_FLOWS
                );
                return Err(TaskError::new("wrong_bytes", text));
            }
            came += 1;
        }
        let expected = about.inputs.iter().map(|&source| self.flows(source as u32));
        assert_eq!(came, expected.sum::<usize>());
        *self.worked.lock().unwrap() = self.world.now();
        Ok(())
    }
}
