//! A graph of these tests whose data are blank and whose bodies only let time pass and note when.

use super::world::mix;
use super::{Graph, MAX_FLOWS};
use dataflow_core::port::{Block, Head, Wire};
use dataflow_core::prelude::*;
use dataflow_mpi::transport::simulated::{World, spend};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// When each task began and ended.
pub type Spans = BTreeMap<u32, (Duration, Duration)>;

/// The graph on one rank.
pub struct Clocked {
    graph: Arc<Graph>,
    world: World,
    /// Whether data travel as bytes all the same.
    has_bytes: bool,
    spans: Arc<Mutex<Spans>>,
}

impl Clocked {
    pub fn new(graph: &Arc<Graph>, world: &World, spans: &Arc<Mutex<Spans>>) -> Self {
        Clocked {
            graph: graph.clone(),
            world: world.clone(),
            has_bytes: false,
            spans: spans.clone(),
        }
    }

    /// The same with bytes.
    pub fn with_bytes(self) -> Self {
        Clocked {
            has_bytes: true,
            ..self
        }
    }

    fn flows(&self, task: u32) -> usize {
        self.graph.tasks[task as usize].sizes.len()
    }

    /// The flow of a reader into which one of a source goes.
    fn place(&self, reader: u32, source: u32, flow: usize) -> usize {
        let inputs = &self.graph.tasks[reader as usize].inputs;
        let before = inputs.iter().position(|&input| input == source as usize);
        MAX_FLOWS * (1 + before.unwrap()) + flow
    }
}

/// So many bytes that nobody reads.
#[derive(Clone, Copy, Debug)]
pub struct Blank {
    length: usize,
    has_bytes: bool,
}

impl Datum for Blank {}

impl Wire for Blank {
    fn head(&self) -> Head {
        Head::from_slice(&[u8::from(self.has_bytes)])
    }
    fn size(&self) -> usize {
        self.length
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(vec![0; self.length])
    }
    fn is_blank(&self) -> bool {
        !self.has_bytes
    }
    fn unpack(head: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(Blank {
            length: body.length(),
            has_bytes: head == [1],
        })
    }
}

impl TaskSpace for Clocked {
    type Task = u32;
    type Datum = Blank;

    fn describe(&self, about: &mut Description) {
        about.name("clocked");
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
        for reader in self.graph.readers(task as usize) {
            for flow in 0..self.flows(task) {
                to.task(flow, reader as u32, self.place(reader as u32, task, flow));
            }
        }
    }

    /// Spends nothing at all, nothing once, or some time once or twice.
    fn run(&self, task: u32, flows: &mut Flows<'_, Blank>) -> Result<(), TaskError> {
        let begins = self.world.now();
        let nanos = |salt: u64| mix(u64::from(task) ^ salt) % 200_000;
        match nanos(1) % 4 {
            0 => {}
            1 => spend(Duration::ZERO),
            2 => spend(Duration::from_nanos(nanos(2))),
            _ => {
                spend(Duration::from_nanos(nanos(3)));
                spend(Duration::from_nanos(nanos(4)));
            }
        }
        let span = (begins, self.world.now());
        let before = self.spans.lock().unwrap().insert(task, span);
        assert!(before.is_none(), "task {task} ran twice");
        if self.graph.fails.is_some_and(|of| of.0 == task as usize) {
            return Err(TaskError::new("broken_pivot", "it failed").with_index(task.into()));
        }
        let sizes = &self.graph.tasks[task as usize].sizes;
        for (slot, size) in flows.iter().take(MAX_FLOWS).zip(sizes) {
            slot.put(Blank {
                length: size.unwrap_or(0),
                has_bytes: self.has_bytes,
            });
        }
        Ok(())
    }
}
