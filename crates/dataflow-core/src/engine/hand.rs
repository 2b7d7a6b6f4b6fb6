//! Hand: what a worker has in hand while it is inside a run of a space.

use super::announce::Chunk;
use super::common::BytesRead;
use super::homes::HomeTally;
use super::mail::Delivered;
use super::post::LeavingEdges;
use super::{ReadyTask, Slots};
use crate::error::TaskError;
use crate::port::Hint;
use crate::space::TaskSpace;
use smallvec::SmallVec;

/// See the [module](self).
pub(super) struct Hand<S: TaskSpace> {
    /// The task that runs, for reports of panics; none where the space is asked for others meanwhile.
    pub task: Option<S::Task>,
    /// Whether its body has panicked.
    pub broke: bool,
    /// Roots that were pulled and not started yet, the next one last.
    pub roots: Chunk<S::Task>,
    /// Data of the task that runs. This and the next two change places, which moves no data: a
    /// processor waits before it moves at a time what was written in pieces a moment ago.
    pub slots: Box<Slots<S::Datum>>,
    /// Data of the best successor so far.
    pub best: Box<Slots<S::Datum>>,
    /// Where they lie, if the lane is told.
    pub best_hint: Hint,
    /// Data of the successor that is looked at.
    pub next: Box<Slots<S::Datum>>,
    /// Edges without data that leave the rank, of the task that runs.
    pub leaving: LeavingEdges,
    /// The task that was begun and not ended, if it comes in pieces, and how its body failed.
    pub begun: Option<Box<(ReadyTask<S>, Option<TaskError>)>>,
    /// Whether it has looked for mail since the last task.
    pub looked: bool,
    /// Room for mail; empty.
    pub mail: Vec<Delivered>,
    /// What tasks have read, if the lane wants to know.
    pub read: BytesRead,
    /// What tasks have taken from home and put there.
    pub homes: HomeTally,
    /// The [marks](super::stall::mark) of the tasks that ran, in debug builds.
    pub ran: u64,
}

impl<S: TaskSpace> Hand<S> {
    /// Nothing.
    pub fn new() -> Self {
        Hand {
            task: None,
            broke: false,
            roots: SmallVec::new(),
            slots: Box::default(),
            best: Box::default(),
            best_hint: Hint::None,
            next: Box::default(),
            leaving: LeavingEdges::new(),
            begun: None,
            looked: false,
            mail: Vec::new(),
            read: BytesRead::default(),
            homes: HomeTally::default(),
            ran: 0,
        }
    }
}
