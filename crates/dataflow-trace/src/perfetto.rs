//! Perfetto: its protobuf, for the viewer in the browser.
//!
//! A rank is a process, a worker a thread; bodies and the causes of idleness are slices of a thread.
//! Messages are arrows between the tracks "sent" and "received" of ranks; ready tasks, pending ones and
//! the bytes held of what was received are counters.
//!
//! # Law
//! Each thread's packets are a sequence of their own, in the order of time; a sequence interns a name
//! where it first uses it. Each begin has its end, each arrow both ends.
//!
//! # Source
//! `perfetto_trace.proto` of Perfetto 0.59: the numbers of fields below.

use crate::message::{Arrow, all_arrows, by_rank, seen};
use crate::parameter::{Parameters, Value};
use crate::protobuf::Encoded;
use crate::series::{self, Sample};
use crate::view::View;
use dataflow_core::trace::{Activity, At, Cause, Doing, Fate, Message, Slice, Span};
use std::io;

/// `Trace.packet`.
const PACKET: u32 = 1;
/// `TracePacket`: what stands in a packet.
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const FLAGS: u32 = 13;
const DROPPED: u32 = 42;
const DEFAULTS: u32 = 59;
const TRACK: u32 = 60;
/// `TrackEvent.type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
/// The clock whose time the viewer shows.
const BOOT_TIME: u64 = 6;

/// Names of events that are no tasks: causes of idleness, then these; then come the classes'.
const NAMES: [&str; 7] = [
    "send",
    "take in",
    "run",
    "left",
    "heard",
    "asked for",
    "there",
];
const SEND: usize = Cause::ALL.len();
const TAKE_IN: usize = SEND + 1;
const RUN: usize = SEND + 2;
const LEFT: usize = SEND + 3;
const HEARD: usize = SEND + 4;
const ASKED: usize = SEND + 5;
const THERE: usize = SEND + 6;
const CLASSES: usize = SEND + NAMES.len();

/// Categories of events.
const CATEGORIES: [&str; 9] = [
    "task",
    "idle",
    "message",
    "stolen",
    "copied",
    "from afar",
    "skipped",
    "failed",
    "run",
];
const TASK: usize = 0;
const IDLE: usize = 1;
const MESSAGE: usize = 2;
const OF_RUN: usize = 8;

/// Names of annotations that are no parameters; the parameters' names follow them.
const LABELS: [&str; 10] = [
    "waited (ns)",
    "task",
    "bytes",
    "from rank",
    "to rank",
    "name",
    "parameters",
    "explanation",
    "clock error (ns)",
    "missing records",
];

/// Points of a counter at most.
const POINTS: usize = 20_000;

/// Writes what is seen of a trace.
pub(crate) fn write(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut file = File::new(view, out);
    file.run()?;
    for (rank, _) in view.ranks() {
        file.process(rank)?;
    }
    for (rank, _) in view.ranks() {
        for (worker, activities) in view.nested(rank).into_iter().enumerate() {
            file.thread(rank, worker, &activities)?;
        }
    }
    let all = all_arrows(view);
    let arrows = seen(view, &all);
    let came = by_rank(view, &all, |message| message.to);
    let sent = by_rank(view, &arrows, |message| message.from);
    let received = by_rank(view, &arrows, |message| message.to);
    for (rank, _) in view.ranks() {
        file.counters(rank, &came[rank])?;
        file.sent(rank, &sent[rank])?;
        file.received(rank, &received[rank])?;
    }
    file.finish()
}

/// A file that is being written, and an event, which stands behind the names that it is first to use.
struct File<'a, 'b> {
    view: &'a View<'a>,
    out: &'b mut dyn io::Write,
    bytes: Encoded,
    event: Encoded,
    parameters: Parameters,
}

/// A sequence of packets on one track, and what it has interned.
struct Sequence {
    id: u64,
    track: u64,
    names: Vec<bool>,
    categories: Vec<bool>,
    labels: Vec<bool>,
    interned: Encoded,
}

/// Tracks of a rank beside its workers; sequences have their numbers too.
const WORKERS: u64 = 8;
const READY: u64 = 1;
const HELD: u64 = 2;
const PENDING: u64 = 5;
const SENT: u64 = 3;
const RECEIVED: u64 = 4;
/// The track and the sequence of the whole run.
const WHOLE: u64 = 1;

impl<'a, 'b> File<'a, 'b> {
    fn new(view: &'a View<'a>, out: &'b mut dyn io::Write) -> Self {
        File {
            view,
            out,
            bytes: Encoded::default(),
            event: Encoded::default(),
            parameters: Parameters::default(),
        }
    }

    /// The uuid of a rank's track, zero being the rank itself.
    fn track(&self, rank: usize, number: u64) -> u64 {
        let rank = u64::from(self.view.trace.ranks[rank].rank.0) + 1;
        rank << 24 | number
    }

    /// What was run, as one slice over all.
    fn run(&mut self) -> io::Result<()> {
        let trace = self.view.trace;
        self.describe(WHOLE, None, |track| {
            track.text(2, "run");
        })?;
        let mut of_run = Sequence::new(WHOLE);
        self.open(&of_run, false)?;
        let parameters = trace.parameters.iter();
        let parameters: Vec<_> = parameters
            .map(|(name, of)| format!("{name} = {of}"))
            .collect();
        let missing = trace.ranks.iter().map(|rank| rank.missing).sum();
        self.begin(&mut of_run, BEGIN, RUN, &[OF_RUN]);
        self.label_text(&mut of_run, 5, &trace.name);
        self.label_text(&mut of_run, 6, &parameters.join(", "));
        self.label_text(&mut of_run, 7, &trace.explanation().to_string());
        self.label(&mut of_run, 8, 3, trace.clock_error);
        self.label(&mut of_run, 9, 3, missing);
        let Span { begin, end } = self.view.span();
        self.put(&mut of_run, begin)?;
        self.end(&mut of_run, end)
    }

    /// A rank: its process and its tracks.
    fn process(&mut self, rank: usize) -> io::Result<()> {
        let number = u64::from(self.view.trace.ranks[rank].rank.0);
        self.describe(self.track(rank, 0), None, |track| {
            track.within(3, |process| {
                process.number(1, number + 1);
                process.text(6, &format!("rank {number}"));
            });
            track.number(11, 3);
        })?;
        let process = Some(self.track(rank, 0));
        for (of, name, unit) in [
            (READY, "ready tasks", 2),
            (PENDING, "pending tasks", 2),
            (HELD, "received bytes held", 3),
        ] {
            self.describe(self.track(rank, of), process, |track| {
                track.text(2, name);
                track.within(8, |counter| {
                    counter.number(3, unit);
                });
                track.number(12, of);
            })?;
        }
        for (of, name) in [(SENT, "sent"), (RECEIVED, "received")] {
            self.describe(self.track(rank, of), process, |track| {
                track.text(2, name).number(12, of);
            })?;
        }
        Ok(())
    }

    /// A worker: its thread with all that it did.
    fn thread(&mut self, rank: usize, worker: usize, did: &[Activity]) -> io::Result<()> {
        let of = &self.view.trace.ranks[rank];
        let track = self.track(rank, WORKERS + worker as u64);
        let process = self.track(rank, 0);
        let number = u64::from(of.rank.0) + 1;
        self.describe(track, Some(process), |track| {
            track.within(4, |thread| {
                thread.number(1, number);
                thread.number(2, number << 16 | (worker as u64 + 1));
                thread.text(5, &format!("worker {worker}"));
            });
            track.number(12, WORKERS + worker as u64);
        })?;
        let mut sequence = Sequence::new(track);
        self.open(&sequence, of.missing > 0)?;
        // Ends of what has begun, the next one last.
        let mut open: Vec<u64> = Vec::new();
        for activity in did {
            self.end_until(&mut sequence, &mut open, activity.span.begin)?;
            match activity.doing {
                Doing::Body(slice) => self.body(&mut sequence, At { rank, slice })?,
                Doing::Idle(cause) => self.idle(&mut sequence, activity.span, cause)?,
                Doing::Runtime => continue,
            }
            let place = open.partition_point(|end| *end > activity.span.end);
            open.insert(place, activity.span.end);
        }
        self.end_until(&mut sequence, &mut open, u64::MAX)
    }

    /// Ends what has ended at a time.
    fn end_until(&mut self, of: &mut Sequence, open: &mut Vec<u64>, time: u64) -> io::Result<()> {
        while let Some(end) = open.pop_if(|end| *end <= time) {
            self.end(of, end)?;
        }
        Ok(())
    }

    /// A task's body.
    fn body(&mut self, of: &mut Sequence, at: At) -> io::Result<()> {
        let trace = self.view.trace;
        let slice = trace.slice(at);
        let (categories, n) = categories(slice);
        self.begin(
            of,
            BEGIN,
            CLASSES + usize::from(slice.class),
            &categories[..n],
        );
        let mut parameters = std::mem::take(&mut self.parameters);
        parameters.read(&trace.shown(at), trace.class(slice));
        for (name, Value { negative, size }) in &parameters.list {
            let value = if *negative {
                size.wrapping_neg()
            } else {
                *size
            };
            let field = if *negative { 4 } else { 3 };
            self.intern_parameter(of, &parameters, *name);
            self.label(of, LABELS.len() + name, field, value);
        }
        self.parameters = parameters;
        self.label(of, 0, 3, slice.span.begin.saturating_sub(slice.ready));
        self.put(of, slice.span.begin)
    }

    /// Time in which a worker had nothing to do.
    fn idle(&mut self, of: &mut Sequence, span: Span, cause: Cause) -> io::Result<()> {
        self.begin(of, BEGIN, cause as usize, &[IDLE]);
        self.put(of, span.begin)
    }

    /// What a rank posted, and when it had left.
    fn sent(&mut self, rank: usize, arrows: &[&Arrow]) -> io::Result<()> {
        self.messages(self.track(rank, SENT), arrows, |message| {
            [(Some(message.span.begin), SEND), (message.left, LEFT)]
        })
    }

    /// What it took in, and when it had heard of that and asked for it, and that had come.
    fn received(&mut self, rank: usize, arrows: &[&Arrow]) -> io::Result<()> {
        self.messages(self.track(rank, RECEIVED), arrows, |message| {
            [
                (message.heard, HEARD),
                (message.asked, ASKED),
                (message.there, THERE),
                (Some(message.span.end), TAKE_IN),
            ]
        })
    }

    /// Stamps of messages on a track, by time; the arrow goes through all of them.
    fn messages<const N: usize>(
        &mut self,
        track: u64,
        arrows: &[&Arrow],
        stamps: impl Fn(&Message) -> [(Option<u64>, usize); N],
    ) -> io::Result<()> {
        let mut events: Vec<(u64, usize, &Arrow)> = Vec::new();
        for arrow in arrows {
            let stamps = stamps(&arrow.message).into_iter();
            events.extend(stamps.filter_map(|(time, name)| Some((time?, name, *arrow))));
        }
        events.sort_by_key(|(time, ..)| *time);
        let mut sequence = Sequence::new(track);
        self.open(&sequence, false)?;
        for (time, name, arrow) in events {
            self.begin(&mut sequence, INSTANT, name, &[MESSAGE]);
            self.message(&mut sequence, arrow);
            let flow = if name == TAKE_IN { 48 } else { 47 };
            self.event.fixed(flow, arrow.number as u64 + 1);
            self.put(&mut sequence, time)?;
        }
        Ok(())
    }

    /// What is to be said of a message.
    fn message(&mut self, of: &mut Sequence, arrow: &Arrow) {
        let trace = self.view.trace;
        let number = |rank: usize| u64::from(trace.ranks[rank].rank.0);
        match arrow.sender {
            Some(at) => self.label_text(of, 1, &trace.shown(at)),
            None => self.label(of, 1, 3, arrow.message.task),
        }
        self.label(of, 2, 3, arrow.message.bytes);
        self.label(of, 3, 3, number(arrow.message.from));
        self.label(of, 4, 3, number(arrow.message.to));
    }

    /// Ready and pending tasks and bytes held of a rank.
    fn counters(&mut self, rank: usize, came: &[&Arrow]) -> io::Result<()> {
        for number in [READY, PENDING, HELD] {
            let samples = match number {
                READY => series::ready(self.view, rank),
                PENDING => series::pending(self.view, rank),
                _ => series::held(self.view, came),
            };
            let uuid = self.track(rank, number);
            let mut sequence = Sequence::new(uuid);
            self.open(&sequence, false)?;
            for Sample { time, value } in series::thinned(samples, POINTS) {
                self.event.clear().number(9, COUNTER).number(30, value);
                self.put(&mut sequence, time)?;
            }
        }
        Ok(())
    }

    /// A track; its own fields come from `say`.
    fn describe(
        &mut self,
        uuid: u64,
        parent: Option<u64>,
        say: impl FnOnce(&mut Encoded),
    ) -> io::Result<()> {
        self.bytes.within(PACKET, |packet| {
            packet.within(TRACK, |track| {
                track.number(1, uuid);
                if let Some(parent) = parent {
                    track.number(5, parent);
                }
                say(track);
            });
            packet.number(SEQUENCE, WHOLE + 1);
        });
        self.close()
    }

    /// The first packet of a sequence: its clock and its track, which its events need not name.
    fn open(&mut self, of: &Sequence, dropped: bool) -> io::Result<()> {
        self.bytes.within(PACKET, |packet| {
            packet.number(SEQUENCE, of.id).number(FLAGS, 1);
            packet.within(DEFAULTS, |defaults| {
                defaults.number(58, BOOT_TIME);
                defaults.within(11, |event| {
                    event.number(11, of.track);
                });
            });
            if dropped {
                packet.number(DROPPED, 1);
            }
        });
        self.close()
    }

    /// Begins an event.
    fn begin(&mut self, of: &mut Sequence, kind: u64, name: usize, categories: &[usize]) {
        let classes = &self.view.trace.classes;
        self.event
            .clear()
            .number(9, kind)
            .number(10, name as u64 + 1);
        of.intern(2, name, |name| match name {
            0..SEND => Cause::ALL[name].shown(),
            SEND..CLASSES => NAMES[name - SEND],
            _ => classes.get(name - CLASSES).map_or("task", String::as_str),
        });
        for category in categories {
            self.event.number(3, *category as u64 + 1);
            of.intern(1, *category, |category| CATEGORIES[category]);
        }
    }

    /// An annotation that is a number: `uint_value` is 3, `int_value` is 4.
    fn label(&mut self, of: &mut Sequence, label: usize, field: u32, value: u64) {
        self.intern_label(of, label);
        self.event.within(4, |annotation| {
            annotation.number(1, label as u64 + 1).number(field, value);
        });
    }

    /// An annotation that is a text.
    fn label_text(&mut self, of: &mut Sequence, label: usize, text: &str) {
        self.intern_label(of, label);
        self.event.within(4, |annotation| {
            annotation.number(1, label as u64 + 1).text(6, text);
        });
    }

    fn intern_label(&mut self, of: &mut Sequence, label: usize) {
        if let Some(name) = LABELS.get(label) {
            of.intern(3, label, |_| name);
        }
    }

    fn intern_parameter(&mut self, of: &mut Sequence, parameters: &Parameters, name: usize) {
        let label = LABELS.len() + name;
        of.intern(3, label, |_| &parameters.names[name]);
    }

    /// The end of the slice that began last.
    fn end(&mut self, of: &mut Sequence, time: u64) -> io::Result<()> {
        self.event.clear().number(9, END);
        self.put(of, time)
    }

    /// The event as a packet, with the names that it uses first.
    fn put(&mut self, of: &mut Sequence, time: u64) -> io::Result<()> {
        self.bytes.within(PACKET, |packet| {
            packet.number(TIMESTAMP, time).number(SEQUENCE, of.id);
            packet.number(FLAGS, 2);
            if !of.interned.bytes.is_empty() {
                packet.nested(INTERNED, &of.interned);
                of.interned.clear();
            }
            packet.nested(TRACK_EVENT, &self.event);
        });
        self.close()
    }

    /// A packet is full.
    fn close(&mut self) -> io::Result<()> {
        match self.bytes.bytes.len() < 1 << 16 {
            true => Ok(()),
            false => self.spill(),
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.out.write_all(&self.bytes.bytes)?;
        self.bytes.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.spill()?;
        self.out.flush()
    }
}

impl Sequence {
    /// Ids of sequences have 32 bits: 14 for the rank, 18 for the track.
    fn new(track: u64) -> Sequence {
        let (rank, number) = (track >> 24, track & 0x3_ffff);
        Sequence {
            id: (rank << 18 | number) & u64::from(u32::MAX),
            track,
            names: Vec::new(),
            categories: Vec::new(),
            labels: Vec::new(),
            interned: Encoded::default(),
        }
    }

    /// Interns a name where it is used first; fields of `InternedData`: 1 categories, 2 names, 3 labels.
    fn intern<'n>(&mut self, field: u32, index: usize, name: impl FnOnce(usize) -> &'n str) {
        let known = match field {
            1 => &mut self.categories,
            2 => &mut self.names,
            _ => &mut self.labels,
        };
        if known.len() <= index {
            known.resize(index + 1, false);
        }
        if !std::mem::replace(&mut known[index], true) {
            self.interned.within(field, |own| {
                own.number(1, index as u64 + 1).text(2, name(index));
            });
        }
    }
}

/// The categories of a task, and how many they are.
fn categories(slice: &Slice) -> ([usize; 6], usize) {
    let mut all = [TASK; 6];
    let mut n = 1;
    let more = [
        (slice.stolen, 3),
        (slice.copied, 4),
        (slice.from_afar, 5),
        (slice.fate == Fate::Skipped, 6),
        (slice.fate == Fate::Failed, 7),
    ];
    for (_, category) in more.into_iter().filter(|(is, _)| *is) {
        all[n] = category;
        n += 1;
    }
    (all, n)
}
