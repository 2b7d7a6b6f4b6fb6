//! Paraver: records (`.prv`), their labels (`.pcf`) and the names of rows (`.row`).
//!
//! A rank is a task and a node of Paraver's, a worker a thread and a processor.
//!
//! # Law
//! Records come by time; objects are those of the header, counted from 1. Types and values are below
//! 2³¹, since labels are read with so many bits: a larger parameter is left out. The day is always
//! the first of 1970, since a trace does not know its own. A task with tasks of its own is several.
//!
//! # Source
//! *Paraver Trace format description*, BSC, 2001, and the parser of paraver-kernel.

use crate::colour::Colours;
use crate::message::{Arrow, arrows};
use crate::moment::{Happened, Moments};
use crate::parameter::Parameters;
use crate::sink::Sink;
use crate::text::plain;
use crate::view::View;
use dataflow_core::trace::{Activity, At, Cause, Doing, Fate};
use std::io;

/// The ordinary build of Paraver counts objects with 16 bits.
const MOST: usize = 65_535;

/// Types of events.
const CLASS: u32 = 9_000_001;
const FATE: u32 = 9_000_002;
const PARAMETER: u32 = 9_000_003;
/// Parameters that have a type.
const PARAMETERS: usize = 8;

/// States; causes of idleness follow.
const BODY: usize = 1;
const RUNTIME: usize = 2;
const CAUSES: usize = 3;

/// Writes the records.
pub(crate) fn write(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let objects = Objects::of(view)?;
    let arrows = arrows(view);
    let mut file = File {
        view,
        objects,
        sink: Sink::new(out),
        parameters: Parameters::default(),
    };
    file.header(&arrows);
    for moment in Moments::of(view, &arrows) {
        match moment.event {
            Happened::Begin(rank, worker, activity) => file.begin(rank, worker, activity)?,
            Happened::End(rank, worker, activity) => file.end(rank, worker, activity)?,
            Happened::Posted(arrow) => file.message(&arrows[arrow])?,
            Happened::Taken(_) | Happened::Last(..) => {}
        }
    }
    file.sink.finish()
}

/// Which worker is which object.
struct Objects {
    /// By index of the rank in the trace: its task, its first processor, its threads.
    ranks: Vec<(usize, usize, usize)>,
}

impl Objects {
    fn of(view: &View<'_>) -> io::Result<Objects> {
        let mut ranks = vec![(0, 0, 0); view.trace.ranks.len()];
        let (mut tasks, mut processors) = (0, 0);
        for (rank, of) in view.ranks() {
            tasks += 1;
            let threads = of.workers.len().max(1);
            ranks[rank] = (tasks, processors + 1, threads);
            processors += threads;
        }
        let refused = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        match (tasks, processors) {
            (0, _) => refused("Paraver wants at least one rank, and none is seen".to_string()),
            (_, 0..=MOST) => Ok(Objects { ranks }),
            _ => refused(format!(
                "Paraver counts to {MOST} workers, and {processors} are seen"
            )),
        }
    }

    /// Ranks that are there: task, first processor, threads.
    fn seen(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        self.ranks.iter().copied().filter(|(task, ..)| *task > 0)
    }
}

struct File<'a, 'b> {
    view: &'a View<'a>,
    objects: Objects,
    sink: Sink<'b>,
    parameters: Parameters,
}

impl File<'_, '_> {
    /// When all ends, and which objects there are.
    fn header(&mut self, arrows: &[Arrow]) {
        let ends = self.view.all_slices().map(|(_, slice)| slice.span.end);
        let ends = ends.chain(arrows.iter().map(|arrow| arrow.message.span.end));
        let end = ends.max().unwrap_or(0).max(self.view.trace.length());
        let n = self.objects.seen().count();
        self.sink
            .text("#Paraver (01/01/1970 at 00:00):")
            .number(end)
            .text("_ns:");
        self.sink.count(n);
        let mut comma = "(";
        for (_, _, threads) in self.objects.seen() {
            self.sink.text(comma).count(threads);
            comma = ",";
        }
        self.sink.text("):1:").count(n);
        comma = "(";
        for (task, _, threads) in self.objects.seen() {
            self.sink.text(comma).count(threads).text(":").count(task);
            comma = ",";
        }
        self.sink.text(")\n");
    }

    /// A worker, as processor, application, task and thread.
    fn object(&mut self, rank: usize, worker: usize) {
        let (task, processor, _) = self.objects.ranks[rank];
        self.sink.count(processor + worker).text(":1:").count(task);
        self.sink.text(":").count(worker + 1).text(":");
    }

    fn begin(&mut self, rank: usize, worker: usize, activity: Activity) -> io::Result<()> {
        let state = match activity.doing {
            Doing::Body(_) => BODY,
            Doing::Runtime => RUNTIME,
            Doing::Idle(cause) => CAUSES + cause as usize,
        };
        if activity.span.length() > 0 {
            self.sink.text("1:");
            self.object(rank, worker);
            self.sink
                .number(activity.span.begin)
                .text(":")
                .number(activity.span.end);
            self.sink.text(":").count(state).end_line()?;
        }
        match activity.doing {
            Doing::Body(slice) => self.task(At { rank, slice }, worker, activity.span.begin),
            _ => Ok(()),
        }
    }

    /// A task begins: its class, its parameters, and its fate unless it ran.
    fn task(&mut self, at: At, worker: usize, time: u64) -> io::Result<()> {
        let trace = self.view.trace;
        let slice = trace.slice(at);
        self.sink.text("2:");
        self.object(at.rank, worker);
        self.sink.number(time);
        self.event(CLASS, self.view.class(slice) as u64 + 1);
        match slice.fate {
            Fate::Ran => {}
            Fate::Skipped => self.event(FATE, 1),
            Fate::Failed => self.event(FATE, 2),
        }
        let mut parameters = std::mem::take(&mut self.parameters);
        parameters.read(&trace.shown(at), trace.class(slice));
        for (kind, (_, value)) in (PARAMETER..).zip(parameters.list.iter().take(PARAMETERS)) {
            if !value.negative && value.size < 1 << 31 {
                self.event(kind, value.size);
            }
        }
        self.parameters = parameters;
        self.sink.end_line()
    }

    fn end(&mut self, rank: usize, worker: usize, activity: Activity) -> io::Result<()> {
        let Doing::Body(slice) = activity.doing else {
            return Ok(());
        };
        self.sink.text("2:");
        self.object(rank, worker);
        self.sink.number(activity.span.end);
        self.event(CLASS, 0);
        if self.view.trace.slice(At { rank, slice }).fate != Fate::Ran {
            self.event(FATE, 0);
        }
        self.sink.end_line()
    }

    fn event(&mut self, kind: u32, value: u64) {
        self.sink.text(":").number(kind).text(":").number(value);
    }

    /// A message, from the worker that ran the sender to the one that first read it.
    fn message(&mut self, arrow: &Arrow) -> io::Result<()> {
        let message = &arrow.message;
        let worker = |at: Option<At>| at.map_or(0, |at| self.view.trace.slice(at).worker.into());
        let (sender, reader) = (worker(arrow.sender), worker(arrow.reader));
        self.sink.text("3:");
        let ends = [
            (message.from, sender, message.span.begin, message.left),
            (message.to, reader, message.span.end, message.there),
        ];
        // The logical time is the program's, the physical one the transport's.
        for (rank, worker, time, physical) in ends {
            self.object(rank, worker);
            self.sink.number(time).text(":");
            self.sink.number(physical.unwrap_or(time)).text(":");
        }
        self.sink
            .number(message.bytes)
            .text(":")
            .count(arrow.number + 1)
            .end_line()
    }
}

impl Sink<'_> {
    fn end_line(&mut self) -> io::Result<()> {
        self.end("\n")
    }
}

/// Writes the labels of states, types and values.
pub(crate) fn labels(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut sink = Sink::new(out);
    sink.text("DEFAULT_OPTIONS\n\nLEVEL THREAD\nUNITS NANOSEC\nLOOK_BACK 100\nSPEED 1\n");
    sink.text("FLAG_ICONS ENABLED\nNUM_OF_STATE_COLORS 1000\nYMAX_SCALE 37\n\n");
    sink.text("DEFAULT_SEMANTIC\n\nTHREAD_FUNC State As Is\n\n");
    states(&mut sink);
    let event = |sink: &mut Sink<'_>, kind: u32, label: &str| {
        sink.text("\nEVENT_TYPE\n0 ")
            .number(kind)
            .text(" ")
            .text(label)
            .text("\n");
    };
    event(&mut sink, CLASS, "Task");
    sink.text("VALUES\n0 End\n");
    for class in 0..=view.trace.classes.len() {
        sink.count(class + 1)
            .text(" ")
            .text(&plain(view.class_name(class)))
            .text("\n");
    }
    event(
        &mut sink,
        FATE,
        "Fate of a task that did not run to its end",
    );
    sink.text("VALUES\n0 End\n1 skipped\n2 failed\n");
    for (place, kind) in (PARAMETER..).take(PARAMETERS).enumerate() {
        event(&mut sink, kind, &format!("Parameter {}", place + 1));
    }
    sink.finish()
}

fn states(sink: &mut Sink<'_>) {
    let named = [
        ("elsewhere", 0xffffff),
        ("body", Colours::of_class(0)),
        ("runtime", Colours::RUNTIME),
    ];
    let causes = Cause::ALL
        .into_iter()
        .map(|cause| (cause.shown(), Colours::of_cause(cause)));
    let states: Vec<_> = named.into_iter().chain(causes).collect();
    sink.text("STATES\n");
    for (state, (name, _)) in states.iter().enumerate() {
        sink.count(state).text(" ").text(name).text("\n");
    }
    sink.text("\nSTATES_COLOR\n");
    for (state, (_, colour)) in states.iter().enumerate() {
        let [_, r, g, b] = colour.to_be_bytes();
        sink.count(state).text(&format!(" {{{r},{g},{b}}}\n"));
    }
}

/// Writes the names of rows.
pub(crate) fn rows(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let objects = Objects::of(view)?;
    let (mut threads, mut ranks) = (Vec::new(), Vec::new());
    for ((rank, of), (.., n)) in view.ranks().zip(objects.seen()) {
        debug_assert!(objects.ranks[rank].0 > 0);
        let number = of.rank.0;
        ranks.push(format!("rank {number}"));
        threads.extend((0..n).map(|worker| format!("rank {number} worker {worker}")));
    }
    let mut sink = Sink::new(out);
    let levels = [
        ("CPU", &threads),
        ("NODE", &ranks),
        ("TASK", &ranks),
        ("THREAD", &threads),
    ];
    for (level, names) in levels {
        sink.text("LEVEL ")
            .text(level)
            .text(" SIZE ")
            .count(names.len())
            .text("\n");
        for name in names {
            sink.text(name).text("\n");
        }
        sink.text("\n");
    }
    sink.finish()
}
