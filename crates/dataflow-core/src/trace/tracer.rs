//! Tracer: memory for the notes of runs, and the traces made of them.

use super::clock::{ClockReading, TickScale};
use super::note::{COPIED, ChunkPool, FAILED, Note, NoteKind, Noted, SKIPPED, STOLEN, Track};
use super::{Came, Clock, Fate, FeedingTask, Posted, RankTrace, Slice, Span, TaskNumber, Trace};
use super::{WorkerTrace, links::Links};
use crate::foreign::caught;
use crate::rank::Rank;
use crate::space::Spelling;
use crate::stderr;
use crate::sync::{AtomicBool, AtomicU64, Ordering, held};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Records every run on the executor that has it. Cheap to clone: all clones are one.
///
/// # Examples
/// ```
/// use dataflow_core::port::{Context, Inline};
/// use dataflow_core::space::Independent;
/// use dataflow_core::trace::Tracer;
/// let tracer = Tracer::new(1 << 20);
/// let on = Context::new(&Inline).traced_by(&tracer);
/// dataflow_core::run(&Independent::new("nothing", 10, |_| Ok(())), &on)?;
/// let traces = tracer.take();
/// assert_eq!(traces[0].slices().count(), 10);
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Tracer {
    clock: Clock,
    room: Arc<ChunkPool>,
    traces: Arc<Mutex<Vec<Trace>>>,
    paused: Arc<AtomicBool>,
    hear: Option<OnTrace>,
}

/// Who gets traces as they are made.
type OnTrace = Arc<dyn Fn(Trace) + Send + Sync>;

impl Tracer {
    /// At most so many bytes of notes at a time: 32 for each task, for each visit of a worker, and for
    /// each of the six stamps of a message; and 32 for what made a task of a sequence or a call ready, and
    /// for the joins of a recursion. Room is made when a run begins, and kept.
    pub fn new(bytes: usize) -> Self {
        Self::with_clock(bytes, Clock::of_machine())
    }

    /// The same, by another clock. By one that is [given](Clock::given) room is made as it is needed, two
    /// kilobytes at a time.
    pub fn with_clock(bytes: usize, clock: Clock) -> Self {
        Tracer {
            room: Arc::new(ChunkPool::new(bytes, &clock)),
            clock,
            traces: Arc::default(),
            paused: Arc::default(),
            hear: None,
        }
    }

    /// The same; each trace is given to `hear` when its run has ended, instead of being kept. If that panics,
    /// the trace is lost, a line on stderr says so, and the run has its result.
    pub fn telling(self, hear: impl Fn(Trace) + Send + Sync + 'static) -> Self {
        let hear: Option<OnTrace> = Some(Arc::new(hear));
        Tracer { hear, ..self }
    }

    /// A tracer of its own with the same clock and as much room: for another rank.
    pub fn another(&self) -> Self {
        Tracer {
            clock: self.clock.clone(),
            room: Arc::new(ChunkPool::new(self.room.bytes(), &self.clock)),
            traces: Arc::default(),
            paused: Arc::new(AtomicBool::new(!self.is_on())),
            hear: self.hear.clone(),
        }
    }

    /// Whether runs that begin now are recorded.
    pub fn is_on(&self) -> bool {
        !self.paused.load(Ordering::Relaxed)
    }

    /// Runs that begin from now on are recorded, or not.
    pub fn set_on(&self, on: bool) {
        self.paused.store(!on, Ordering::Relaxed);
    }

    /// The traces of the runs that have ended since they were last taken, in their order: also of those
    /// that failed.
    pub fn take(&self) -> Vec<Trace> {
        let parts = std::mem::take(&mut *held(&self.traces));
        let alone = |part| Trace::of_ranks(vec![part]);
        parts.into_iter().map(alone).collect()
    }

    /// Keeps traces again that were taken, before those of runs that have ended since.
    pub fn put_back(&self, traces: Vec<Trace>) {
        held(&self.traces).splice(..0, traces);
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A track that nobody has.
    pub(super) fn track(&self) -> Track {
        Track::new(self.clock.clone(), self.room.clone())
    }

    /// A run begins, of this rank alone so far, that will have about so many tasks, if that is known.
    pub(crate) fn open(
        &self,
        rank: Rank,
        n_workers: usize,
        n_tasks: Option<u64>,
    ) -> Option<TracedRun> {
        if !self.is_on() {
            return None;
        }
        self.room.prepare(n_workers, n_tasks);
        Some(TracedRun {
            tracks: (0..n_workers).map(|_| Mutex::default()).collect(),
            begin: self.clock.moment(),
            tracer: self.clone(),
            n_scopes: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            undone: AtomicU64::new(0),
            rank,
            across: None,
        })
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer")
            .field("clock", &self.clock)
            .field("bytes", &self.room.bytes())
            .field("on", &self.is_on())
            .finish_non_exhaustive()
    }
}

/// A run that is recorded.
pub(crate) struct TracedRun {
    /// By worker, those that nobody writes.
    tracks: Box<[Mutex<Vec<Track>>]>,
    begin: ClockReading,
    tracer: Tracer,
    n_scopes: AtomicU64,
    /// Tasks that are not noted.
    left_out: AtomicU64,
    /// Tasks that were known and not done when it was over.
    undone: AtomicU64,
    rank: Rank,
    /// Which run of all ranks it is, if it is one.
    across: Option<u64>,
}

/// What a run says of itself when it is over.
pub(crate) struct Told {
    pub name: String,
    pub parameters: Vec<(String, String)>,
    pub classes: Vec<String>,
    pub text: Spelling,
    pub wide: BTreeMap<TaskNumber, String>,
}

/// A task that was inserted, when it was ready, and one more than the number of the last it waited for.
type WakeUp = (TaskNumber, u64, u64);

fn woken_of<'r>(notes: &'r [Note], scale: &'r TickScale) -> impl Iterator<Item = WakeUp> + 'r {
    let ready = notes.iter().filter(|note| note.kind == NoteKind::Ready);
    ready.map(|note| (note.task, scale.nanoseconds(note.begin), note.end))
}

/// Outputs of which task, for which rank if that matters, and when something became of them.
type Stamp = (TaskNumber, Rank, u64);

/// What becomes of messages by the hand of the threads that move them.
const STAMPED: [NoteKind; 3] = [NoteKind::Left, NoteKind::Heard, NoteKind::Asked];

fn stamps_of(notes: &[Note], scale: &TickScale, kind: NoteKind) -> impl Iterator<Item = Stamp> {
    let noted = notes.iter().filter(move |note| note.kind == kind);
    noted.map(|note| (note.task, Rank(note.other), scale.nanoseconds(note.begin)))
}

/// When it became of these outputs, among stamps in order.
fn stamp(stamps: &[Stamp], task: TaskNumber, rank: Rank) -> Option<u64> {
    let at = stamps.binary_search_by_key(&(task, rank), |stamp| (stamp.0, stamp.1));
    Some(stamps[at.ok()?].2)
}

impl Noted {
    /// Classes by the names that a worker met become those of all workers.
    fn name_classes(&mut self, classes: &mut Vec<String>) {
        if self.names.is_empty() {
            return;
        }
        let number = |name: &&str| {
            let known = classes.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                classes.push(name.to_string());
                classes.len() - 1
            }) as u16
        };
        let numbers: Vec<u16> = self.names.iter().map(number).collect();
        let bodies = self
            .notes
            .iter_mut()
            .filter(|note| note.kind == NoteKind::Body);
        bodies.for_each(|body| body.class = numbers[usize::from(body.class)]);
    }
}

/// Hears of the tasks that feed one.
pub(crate) type Feeds<'f> = &'f mut dyn FnMut(TaskNumber, Rank);

impl TracedRun {
    /// The same, which is that run of all ranks.
    pub fn across(self, number: u64) -> Self {
        let across = Some(number);
        TracedRun { across, ..self }
    }

    /// Whether something holds of a task that was noted.
    pub fn any(&self, is_it: impl Fn(TaskNumber) -> bool) -> bool {
        let mut tracks = self.tracks.iter();
        tracks.any(|tracks| held(tracks).iter().any(|track| track.any(&is_it)))
    }

    /// A worker enters, perhaps once more inside of one of its bodies.
    pub fn enter(&self, worker: usize) -> Option<Track> {
        let spare = held(self.tracks.get(worker)?).pop();
        let mut track = spare.unwrap_or_else(|| self.tracer.track());
        track.enters();
        Some(track)
    }

    /// The track of a worker that is inside, and has put it aside.
    pub fn take(&self, worker: usize) -> Option<Track> {
        held(self.tracks.get(worker)?).pop()
    }

    /// It gets its track back.
    pub fn give_back(&self, worker: usize, track: Track) {
        held(&self.tracks[worker]).push(track);
    }

    /// The number of a scope inside of this run: 1, 2, …
    pub fn next_scope(&self) -> u64 {
        1 + self.n_scopes.fetch_add(1, Ordering::Relaxed)
    }

    /// So many tasks of this run are not noted.
    pub fn leave_out(&self, tasks: u64) {
        self.left_out.fetch_add(tasks, Ordering::Relaxed);
    }

    /// It is over, or a scope inside of it, and so many of the tasks that are known are not done.
    pub fn leave_undone(&self, tasks: u64) {
        self.undone.fetch_add(tasks, Ordering::Relaxed);
    }

    /// Adds what was noted by the threads that move messages.
    pub fn add(&self, track: Track) {
        if let Some(tracks) = self.tracks.first() {
            held(tracks).push(track);
        }
    }

    /// It leaves.
    pub fn leave(&self, worker: usize, mut track: Track) {
        track.leaves();
        self.give_back(worker, track);
    }

    /// The run is over: what was noted becomes a trace. `inputs` tells the tasks that feed one.
    pub fn close(&self, told: Told, inputs: &mut dyn FnMut(TaskNumber, Feeds)) {
        let end = self.tracer.clock.moment();
        let scale = TickScale::new(self.begin, end);
        let mut of_rank = RankTrace {
            rank: self.rank,
            span: Span {
                begin: 0,
                end: scale.nanoseconds(end.ticks()),
            },
            wide: told.wide,
            missing: self.left_out.load(Ordering::Relaxed),
            undone: self.undone.load(Ordering::Relaxed),
            ..RankTrace::default()
        };
        let mut classes = told.classes;
        let woken = self.gather(&mut of_rank, &mut classes, &scale);
        of_rank.feed(&woken, &mut |task, hear| {
            inputs(task, &mut |source, rank| match self.across {
                Some(_) => hear(source, rank),
                // Wherever a space places a task, here it ran.
                None => hear(source, self.rank),
            });
        });
        let part = Trace {
            name: told.name,
            parameters: told.parameters,
            classes,
            ranks: vec![of_rank],
            epoch: self.begin.date(),
            clock_error: scale.error(),
            is_across: self.across.is_some(),
            number: self.across.unwrap_or_default(),
            text: Some(told.text),
            links: Links::default(),
        };
        match &self.tracer.hear {
            Some(hear) => tell(&**hear, Trace::of_ranks(vec![part])),
            None => held(&self.tracer.traces).push(part),
        }
    }

    /// Adds what all workers have noted, in order, and names the classes; returns who was woken when.
    fn gather(
        &self,
        of_rank: &mut RankTrace,
        classes: &mut Vec<String>,
        scale: &TickScale,
    ) -> Vec<WakeUp> {
        let mut woken = Vec::new();
        let mut stamps = STAMPED.map(|_| Vec::new());
        for (worker, tracks) in self.tracks.iter().enumerate() {
            let mut notes = Vec::new();
            for track in std::mem::take(&mut *held(tracks)) {
                let mut noted = track.into_records();
                noted.name_classes(classes);
                of_rank.missing += noted.missing;
                notes.append(&mut noted.notes);
            }
            of_rank.add(worker, &notes, scale);
            for (kind, stamps) in STAMPED.into_iter().zip(&mut stamps) {
                stamps.extend(stamps_of(&notes, scale, kind));
            }
            woken.extend(woken_of(&notes, scale));
        }
        woken.sort_unstable();
        stamps.iter_mut().for_each(|stamps| stamps.sort_unstable());
        of_rank.note_stamps(stamps);
        let (posted, came) = (&mut of_rank.posted, &mut of_rank.came);
        posted.sort_by_key(|posted| (posted.at, posted.task));
        came.sort_by_key(|came| (came.at, came.task));
        woken
    }
}

/// Tells of a trace, whatever that does: the run is over, and its result must not be lost.
fn tell(hear: &dyn Fn(Trace), trace: Trace) {
    let name = trace.name.clone();
    if caught(|| hear(trace)).is_err() {
        let text = "who was to hear of it has panicked (`Tracer::telling`)";
        stderr::say(format_args!(
            "dataflow: the trace of {name:?} is lost: {text}"
        ));
    }
}

impl RankTrace {
    /// Adds what a worker has noted.
    fn add(&mut self, worker: usize, notes: &[Note], scale: &TickScale) {
        let first = self.slices.len();
        let span = |note: &Note| Span {
            begin: scale.nanoseconds(note.begin),
            end: scale.nanoseconds(note.end),
        };
        let (mut visits, mut there) = (Vec::new(), None);
        for note in notes {
            let (task, at) = (note.task, scale.nanoseconds(note.begin));
            let (other, bytes) = (Rank(note.other), note.end);
            match note.kind {
                NoteKind::Body => self.slices.push(Slice {
                    span: span(note),
                    worker: worker as u16,
                    ..Slice::of(note)
                }),
                NoteKind::Visit => visits.push(span(note)),
                NoteKind::Ready | NoteKind::Left | NoteKind::Heard | NoteKind::Asked => {}
                NoteKind::There => there = Some((task, other, at)),
                NoteKind::Posted => self.posted.push(Posted {
                    task,
                    at,
                    to: other,
                    bytes,
                    left: None,
                }),
                NoteKind::Came => {
                    let noted = there.take().filter(|of| (of.0, of.1) == (task, other));
                    self.came.push(Came {
                        task,
                        at,
                        from: other,
                        bytes,
                        there: noted.map(|(.., there)| there),
                        ..Came::default()
                    });
                }
            }
        }
        // A task with tasks of its own goes before those that ran on its worker.
        let before = |slice: &Slice| (slice.span.begin, std::cmp::Reverse(slice.span.end));
        self.slices[first..].sort_by_key(before);
        visits.sort_unstable();
        self.workers.push(WorkerTrace {
            slices: first..self.slices.len(),
            visits,
        });
    }

    /// Says of what was posted when it had left, and of what came when it was heard of and asked for:
    /// that was noted by others.
    fn note_stamps(&mut self, [left, heard, asked]: [Vec<Stamp>; 3]) {
        for posted in &mut self.posted {
            posted.left = stamp(&left, posted.task, posted.to);
        }
        for came in &mut self.came {
            came.heard = stamp(&heard, came.task, Rank::default());
            came.asked = stamp(&asked, came.task, Rank::default());
        }
    }

    /// Asks for the tasks that feed each.
    fn feed(&mut self, woken: &[WakeUp], inputs: &mut dyn FnMut(TaskNumber, Feeds)) {
        self.inputs.push(0);
        let own = self.rank.0;
        for slice in &mut self.slices {
            let sources = &mut self.sources;
            if let Ok(at) = woken.binary_search_by_key(&slice.task, |woken| woken.0) {
                let (_, ready, source) = woken[at];
                slice.ready = ready;
                let task = source.checked_sub(1);
                sources.extend(task.map(|task| FeedingTask { task, rank: own }));
            }
            inputs(slice.task, &mut |task, Rank(rank)| {
                sources.push(FeedingTask { task, rank })
            });
            self.inputs.push(self.sources.len() as u32);
        }
    }
}

impl Slice {
    fn of(note: &Note) -> Self {
        let has = |flag: u8| note.flags & flag != 0;
        Slice {
            task: note.task,
            class: note.class,
            fate: match () {
                () if has(SKIPPED) => Fate::Skipped,
                () if has(FAILED) => Fate::Failed,
                () => Fate::Ran,
            },
            stolen: has(STOLEN),
            copied: has(COPIED),
            ..Slice::default()
        }
    }
}
