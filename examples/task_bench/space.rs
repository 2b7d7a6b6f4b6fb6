//! The graph as a task space: payloads say where they come from, and every reader looks.

use super::kernel::Kernel;
use super::pattern::Graph;
use Task::Point;
use clap::ValueEnum;
use dataflow::core::port::{Block, Head, Wire};
use dataflow::prelude::*;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

// ── The space ────────────────────────────────────────────────────────────────────────────────────

/// A graph of Task Bench, its points spread over ranks in blocks.
pub struct TaskBench {
    graph: Graph,
    n_ranks: u32,
    bytes: usize,
    kernel: Kernel,
    errors: AtomicU64,
}

task_names! { pub enum Task { Point { step, point } } }

const OUT: usize = 0;

/// The flow of the input at a place.
#[inline(always)]
fn flow(place: u32) -> usize {
    1 + place as usize
}

impl TaskBench {
    /// A graph whose tasks make payloads of `bytes` bytes.
    pub fn new(graph: Graph, n_ranks: usize, bytes: usize, kernel: Kernel) -> Self {
        TaskBench {
            graph,
            n_ranks: n_ranks as u32,
            bytes,
            kernel,
            errors: AtomicU64::new(0),
        }
    }

    /// Inputs that this space's tasks have found wrong.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// The points of a rank.
    fn part(&self, on: Rank) -> Range<u32> {
        let (width, n_ranks) = (u64::from(self.graph.width), u64::from(self.n_ranks));
        let first = |rank: u64| (rank.min(n_ranks) * width).div_ceil(n_ranks) as u32;
        first(on.0.into())..first(u64::from(on.0) + 1)
    }

    /// The points of a rank that have a task in a step.
    fn active(&self, step: u32, on: Rank) -> Range<u32> {
        let (part, active) = (self.part(on), self.graph.active(step));
        part.start.max(active.start)..part.end.min(active.end)
    }
}

impl TaskSpace for TaskBench {
    type Task = Task;
    type Datum = Payload;

    fn describe(&self, about: &mut Description) {
        let Graph {
            pattern,
            width,
            steps,
            radix,
            period,
            fraction,
        } = self.graph;
        about
            .name("task_bench")
            .parameter("pattern", name_of(pattern))
            .parameter("width", width)
            .parameter("steps", steps)
            .parameter("radix", radix)
            .parameter("period", period)
            .parameter("fraction", fraction)
            .parameter("bytes", self.bytes)
            .parameter("kernel", name_of(self.kernel.kind))
            .parameter("iterations", self.kernel.iterations);
        let mut class = about.class("Point").new_flow("OUT");
        for place in 0..self.graph.n_places() {
            class = class.optional(&format!("IN {place}"));
        }
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let points = move |step| self.active(step, on);
        (0..self.graph.steps)
            .flat_map(move |step| points(step).map(move |point| Point { step, point }))
    }

    #[inline(always)]
    fn inputs(&self, Point { step, point }: Task, from: &mut impl Inputs<Self>) {
        for (place, source) in self.graph.inputs(step, point) {
            let source = Point {
                step: step - 1,
                point: source,
            };
            from.task(flow(place), source, OUT);
        }
    }

    #[inline(always)]
    fn successors(&self, Point { step, point }: Task, to: &mut impl Successors<Self>) {
        for (reader, place) in self.graph.readers(step, point) {
            let reader = Point {
                step: step + 1,
                point: reader,
            };
            to.task(OUT, reader, flow(place));
        }
    }

    fn run(
        &self,
        Point { step, point }: Task,
        flows: &mut Flows<'_, Payload>,
    ) -> Result<(), TaskError> {
        let mut slots = flows.iter();
        let out = slots.next();
        let mut wrong = None;
        for (place, slot) in (0..).zip(slots) {
            let expected = self.graph.input(step, point, place);
            let expected = expected.map(|source| (step - 1, source));
            if !self.is_right(slot.get(), expected) {
                self.errors.fetch_add(1, Ordering::Relaxed);
                wrong = Some((place, expected));
            }
        }
        if let Some((place, expected)) = wrong {
            let text = match expected {
                None => format!("there is an input at place {place}"),
                Some((step, point)) => {
                    let bytes = self.bytes;
                    format!(
                        "the input at place {place} is not {bytes} bytes of point {point} of step {step}"
                    )
                }
            };
            return Err(TaskError::new("wrong_payload", text));
        }
        self.kernel.run(step);
        if let Some(out) = out {
            out.put(Payload::of(step, point, self.bytes));
        }
        Ok(())
    }

    #[inline(always)]
    fn rank(&self, Point { point, .. }: Task) -> Rank {
        let (point, width) = (u64::from(point), u64::from(self.graph.width));
        Rank((point * u64::from(self.n_ranks) / width) as u32)
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let is_root =
            |&Point { step, point }: &Task| self.graph.inputs(step, point).next().is_none();
        let points = move |step| self.active(step, on);
        (0..self.graph.first_step_without_roots())
            .flat_map(move |step| points(step).map(move |point| Point { step, point }))
            .filter(is_root)
    }

    fn count(&self, on: Rank) -> u64 {
        let points = |step| self.active(step, on).len() as u64;
        (0..self.graph.steps).map(points).sum()
    }
}

impl TaskBench {
    fn is_right(&self, payload: Option<&Payload>, expected: Option<(u32, u32)>) -> bool {
        match (payload, expected) {
            (None, None) => true,
            (Some(payload), Some((step, point))) => payload.is_of(step, point, self.bytes),
            _ => false,
        }
    }
}

/// As on the command line.
pub fn name_of(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().into())
}

// ── The payload ──────────────────────────────────────────────────────────────────────────────────

/// A number of eight bytes for the step that made it, and one for the point.
const PAIR: usize = 16;

/// The step and the point that made it, over and over. A single pair lies in the datum itself: two cores that
/// drop what the other has allocated would wait for each other's memory, and that is not what is measured.
#[derive(Clone)]
pub enum Payload {
    Made(SmallVec<[u8; PAIR]>),
    /// By another rank.
    Arrived(Arc<dyn Block>),
}

impl Payload {
    fn of(step: u32, point: u32, bytes: usize) -> Self {
        let pair = pair(step, point);
        let mut all = SmallVec::from_elem(0, bytes);
        for piece in all.chunks_mut(PAIR) {
            piece.copy_from_slice(&pair[..piece.len()]);
        }
        Payload::Made(all)
    }

    fn is_of(&self, step: u32, point: u32, bytes: usize) -> bool {
        let (all, pair) = (self.as_bytes(), pair(step, point));
        all.len() == bytes && all.chunks(PAIR).all(|piece| *piece == pair[..piece.len()])
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Payload::Made(all) => all,
            Payload::Arrived(block) => block.bytes(),
        }
    }
}

fn pair(step: u32, point: u32) -> [u8; PAIR] {
    (u128::from(step) | u128::from(point) << 64).to_le_bytes()
}

impl Datum for Payload {
    fn bytes(&self) -> usize {
        self.as_bytes().len()
    }
}

impl Wire for Payload {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        self.as_bytes().len()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }

    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(match body.length() {
            ..=PAIR => Payload::Made(SmallVec::from_slice(body.bytes())),
            _ => Payload::Arrived(body.into()),
        })
    }
}
