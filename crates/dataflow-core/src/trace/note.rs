//! Note: what a worker notes while it runs, in room that was made before.

use super::clock::Clock;
use super::{Fate, Span, TaskNumber};
use crate::rank::Rank;
use crate::sync::{AtomicUsize, Ordering, held};
use std::mem::take;
use std::sync::{Arc, Mutex};

/// What happened, in 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Note {
    /// Ticks.
    pub begin: u64,
    /// Ticks; of a message its bytes.
    pub end: u64,
    pub task: TaskNumber,
    /// Of a message the other rank.
    pub other: u32,
    pub class: u16,
    pub kind: NoteKind,
    pub flags: u8,
}

impl Note {
    /// In ticks.
    fn visit(Span { begin, end }: Span) -> Self {
        Note {
            begin,
            end,
            kind: NoteKind::Visit,
            ..Note::default()
        }
    }
}

/// What a note is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum NoteKind {
    #[default]
    Body,
    Visit,
    Posted,
    /// What was posted has left.
    Left,
    /// This rank was told of outputs whose data it must ask for.
    Heard,
    /// It began to ask for them.
    Asked,
    /// What comes with the next note had all come.
    There,
    Came,
    /// A task became ready; `end` is one more than the number of the task that made it so.
    Ready,
}

pub(super) const STOLEN: u8 = 1;
pub(super) const COPIED: u8 = 2;
pub(super) const SKIPPED: u8 = 4;
pub(super) const FAILED: u8 = 8;

/// What a worker has noted in all.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub notes: Vec<Note>,
    pub missing: u64,
    pub names: Vec<&'static str>,
}

/// Notes in a chunk of room, at most: 64 KiB. Chunks are touched beforehand, which takes Miri its time.
const CHUNK: usize = if cfg!(miri) { 64 } else { 2048 };
/// The same in time that somebody else tells, in which a page that is touched costs none: 2 KiB. There may
/// be thousands of ranks with a few notes each.
const SMALL_CHUNK: usize = 64;
/// A room has so many chunks at least, unless they would be smaller than that: each worker takes one.
const FEWEST_CHUNKS: usize = 64;

/// Chunks of notes: those that nobody writes into, and how many more may be made.
#[derive(Debug)]
pub(crate) struct ChunkPool {
    spare: Mutex<Vec<Vec<Note>>>,
    /// Notes in a chunk.
    notes: usize,
    /// Whether chunks are made before they are needed.
    prepares: bool,
    most: usize,
    made: AtomicUsize,
}

impl ChunkPool {
    /// Of so many bytes, for notes by this clock.
    pub(super) fn new(bytes: usize, clock: &Clock) -> Self {
        let prepares = !clock.is_given();
        let notes = match prepares {
            true => (bytes / size_of::<Note>() / FEWEST_CHUNKS).clamp(SMALL_CHUNK, CHUNK),
            false => SMALL_CHUNK,
        };
        ChunkPool {
            spare: Mutex::default(),
            notes,
            prepares,
            most: bytes / (notes * size_of::<Note>()),
            made: Default::default(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.most * self.notes * size_of::<Note>()
    }

    /// How many chunks there are.
    pub(super) fn n_chunks(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Makes room for a run, and touches its pages, where that takes time.
    pub(super) fn prepare(&self, n_workers: usize, n_tasks: Option<u64>) {
        if !self.prepares {
            return;
        }
        /// Of a run of which nobody knows how long it will be: 4 MiB a worker to begin with.
        const UNKNOWN: usize = if cfg!(miri) { 1 } else { 64 };
        let tasks = match n_tasks {
            // Beside the tasks there are visits and messages.
            Some(n) => (n as usize).saturating_add(n as usize / 2) / self.notes + 2 * n_workers + 1,
            None => UNKNOWN * n_workers,
        };
        let mut spare = held(&self.spare);
        while spare.len() < tasks {
            let Some(chunk) = self.make() else { break };
            spare.push(chunk);
        }
    }

    fn make(&self) -> Option<Vec<Note>> {
        let more = |made: usize| (made < self.most).then_some(made + 1);
        let made = (self.made).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        made.ok()?;
        let mut chunk = vec![Note::default(); self.notes];
        // Written, not zeroed by the system: the pages are there.
        chunk.iter_mut().for_each(|note| note.other = u32::MAX);
        chunk.clear();
        Some(chunk)
    }

    pub(super) fn chunk(&self) -> Option<Vec<Note>> {
        let spare = held(&self.spare).pop();
        spare.or_else(|| self.make())
    }

    pub(super) fn give_back(&self, mut chunk: Vec<Note>) {
        chunk.clear();
        held(&self.spare).push(chunk);
    }
}

/// What one worker has noted of one run.
#[derive(Debug)]
pub(crate) struct Track {
    clock: Clock,
    room: Arc<ChunkPool>,
    chunk: Vec<Note>,
    pub(super) full: Vec<Vec<Note>>,
    pub(super) missing: u64,
    entered: u64,
    /// The longest visit that found no room: of one that the worker never left nothing else may tell.
    unnoted: Option<Span>,
    /// What is known of the task that comes next.
    flags: u8,
    /// Classes of tasks that are inserted, in the order in which they were met.
    pub(super) names: Vec<&'static str>,
}

impl Track {
    pub(super) fn new(clock: Clock, room: Arc<ChunkPool>) -> Self {
        let full = Vec::with_capacity(room.n_chunks());
        Track {
            clock,
            room,
            chunk: Vec::new(),
            full,
            missing: 0,
            entered: 0,
            unnoted: None,
            flags: 0,
            names: Vec::new(),
        }
    }

    /// Ticks.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Since when the worker has been inside.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    pub fn set_entered(&mut self, entered: u64) {
        self.entered = entered;
    }

    /// The worker has entered.
    pub fn enters(&mut self) {
        self.entered = self.now();
    }

    /// It leaves.
    pub fn leaves(&mut self) {
        let visit = Span {
            begin: self.entered,
            end: self.now(),
        };
        if self.has_room() {
            self.chunk.push(Note::visit(visit));
            return;
        }
        // One is kept without room.
        self.missing += u64::from(self.unnoted.is_some());
        let longest = self.unnoted.into_iter().chain([visit]);
        self.unnoted = longest.max_by_key(Span::length);
    }

    /// The task that comes next was taken from another's queue.
    pub fn stolen(&mut self) {
        self.flags |= STOLEN;
    }

    /// A datum was copied for the task that comes next.
    pub fn copied(&mut self) {
        self.flags |= COPIED;
    }

    /// The class of inserted tasks of a name.
    pub fn class(&mut self, name: &'static str) -> usize {
        let known = self
            .names
            .iter()
            .rposition(|known| std::ptr::eq(*known, name));
        known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }

    /// A task is ready, made so by the end of another or by being inserted.
    pub fn ready(&mut self, task: TaskNumber, source: Option<TaskNumber>) {
        self.ready_at(task, source, self.now());
    }

    /// A task was ready at a time, in ticks.
    pub fn ready_at(&mut self, task: TaskNumber, source: Option<TaskNumber>, at: u64) {
        self.note(Note {
            begin: at,
            end: source.map_or(0, |source| source + 1),
            task,
            kind: NoteKind::Ready,
            ..Note::default()
        });
    }

    /// A task ran, from `begin` to now.
    #[inline(always)]
    pub fn ran(&mut self, task: TaskNumber, class: usize, begin: u64, fate: Fate) {
        let end = self.now();
        self.note_body(task, class, Span { begin, end }, fate);
    }

    /// A task ran, in ticks.
    #[inline(always)]
    pub fn note_body(&mut self, task: TaskNumber, class: usize, span: Span, fate: Fate) {
        let fate = match fate {
            Fate::Ran => 0,
            Fate::Skipped => SKIPPED,
            Fate::Failed => FAILED,
        };
        self.note(Note {
            begin: span.begin,
            end: span.end,
            task,
            class: class as u16,
            kind: NoteKind::Body,
            flags: self.flags | fate,
            other: 0,
        });
        self.flags = 0;
    }

    /// Outputs left for a rank.
    pub fn posted(&mut self, task: TaskNumber, Rank(to): Rank, bytes: u64) {
        self.note_message(task, to, bytes, NoteKind::Posted);
    }

    /// Outputs that were posted have left.
    pub fn left(&mut self, task: TaskNumber, Rank(to): Rank) {
        self.note_message(task, to, 0, NoteKind::Left);
    }

    /// Outputs of a task of another rank were announced.
    pub fn heard(&mut self, task: TaskNumber) {
        self.note_message(task, 0, 0, NoteKind::Heard);
    }

    /// The first of them was asked for.
    pub fn asked(&mut self, task: TaskNumber) {
        self.note_message(task, 0, 0, NoteKind::Asked);
    }

    /// Outputs of a task of another rank were taken in; at `there` the last byte had come.
    pub fn came(&mut self, task: TaskNumber, Rank(from): Rank, bytes: u64, there: Option<u64>) {
        if let Some(begin) = there {
            self.note(Note {
                begin,
                task,
                other: from,
                kind: NoteKind::There,
                ..Note::default()
            });
        }
        self.note_message(task, from, bytes, NoteKind::Came);
    }

    fn note_message(&mut self, task: TaskNumber, other: u32, bytes: u64, kind: NoteKind) {
        self.note(Note {
            begin: self.now(),
            end: bytes,
            task,
            other,
            kind,
            ..Note::default()
        });
    }

    #[inline(always)]
    fn note(&mut self, note: Note) {
        if !self.has_room() {
            self.missing += 1;
            return;
        }
        self.chunk.push(note);
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        self.chunk.len() < self.chunk.capacity() || self.turn()
    }

    /// Takes a new chunk; says whether there was one.
    #[cold]
    fn turn(&mut self) -> bool {
        match self.room.chunk() {
            Some(chunk) => {
                let full = std::mem::replace(&mut self.chunk, chunk);
                if full.capacity() > 0 {
                    self.full.push(full);
                }
                true
            }
            None => false,
        }
    }

    /// Whether something holds of a task that was noted.
    pub(super) fn any(&self, is_it: impl Fn(TaskNumber) -> bool) -> bool {
        let notes = self.full.iter().chain([&self.chunk]).flatten();
        notes
            .into_iter()
            .any(|note| note.kind == NoteKind::Body && is_it(note.task))
    }

    /// All that was noted.
    pub(super) fn into_records(mut self) -> Noted {
        self.full.push(take(&mut self.chunk));
        let mut notes = self.full.concat();
        notes.extend(self.unnoted.map(Note::visit));
        Noted {
            notes,
            missing: self.missing,
            names: take(&mut self.names),
        }
    }
}

impl Drop for Track {
    /// The chunks go back to their room, also those of a run that did not begin or has no trace.
    fn drop(&mut self) {
        let chunks = self.full.drain(..).chain([take(&mut self.chunk)]);
        let of_room = chunks.filter(|chunk| chunk.capacity() > 0);
        of_room.for_each(|chunk| self.room.give_back(chunk));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Ten thousand simulated ranks of eight workers took eleven gigabytes before their first task.
    #[test]
    fn room_is_made_before_a_run_unless_its_time_is_given() {
        let pools = [Clock::of_machine(), Clock::given(|| 0)].map(|clock| {
            let pool = ChunkPool::new(1 << 22, &clock);
            assert_eq!(pool.bytes(), 1 << 22);
            pool.prepare(8, Some(1000));
            pool
        });
        assert!(pools[0].n_chunks() > 8);
        assert_eq!(pools[1].n_chunks(), 0);
        let chunk = pools[1].chunk().unwrap();
        assert!(chunk.capacity() * size_of::<Note>() <= 2048);
    }

    /// Of 64 KiB the first worker took all: of what the second did nothing was noted.
    #[test]
    fn little_room_is_enough_for_several_workers() {
        for (bytes, workers) in [(1 << 14, 4), (1 << 16, 16), (1 << 20, 64), (1_000_000, 64)] {
            let clock = Clock::of_machine();
            let pool = Arc::new(ChunkPool::new(bytes, &clock));
            let another = ChunkPool::new(pool.bytes(), &clock);
            assert_eq!((another.bytes(), another.notes), (pool.bytes(), pool.notes));
            let lost = bytes - pool.bytes();
            assert!(lost < pool.notes * size_of::<Note>(), "{lost} of {bytes}");
            let tracks: Vec<Track> = (0..workers)
                .map(|_| {
                    let mut track = Track::new(clock.clone(), pool.clone());
                    for _ in 0..2 {
                        track.enters();
                        track.leaves();
                    }
                    track
                })
                .collect();
            for track in tracks {
                let noted = track.into_records();
                assert_eq!((noted.notes.len(), noted.missing), (2, 0), "{bytes}");
            }
        }
    }

    /// A visit is noted last, so it was lost first: a worker without room was never there.
    #[test]
    fn of_visits_without_room_the_longest_is_kept() {
        let moments = [10, 20, 30, 70, 80, 110];
        let next = std::sync::atomic::AtomicUsize::new(0);
        let clock = Clock::given(move || moments[next.fetch_add(1, Ordering::Relaxed)]);
        let room = ChunkPool::new(0, &clock);
        let mut track = Track::new(clock, Arc::new(room));
        for _ in 0..3 {
            track.enters();
            track.leaves();
        }
        let noted = track.into_records();
        let visits = noted.notes.iter().map(|note| (note.begin, note.end));
        assert_eq!((visits.collect(), noted.missing), (vec![(30, 70)], 2));
    }
}
