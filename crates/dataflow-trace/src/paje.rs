//! Paje: a text of definitions and events, for ViTE and `pj_dump`.
//!
//! # Law
//! Lines come by time. A worker's state lasts until its next one: bodies, and what lies between.
//! A task with tasks of its own is several states. One that was skipped or failed has that as its value; its
//! class stands in its name.
//!
//! # Source
//! Kergommeaux, Stein, Martin, *Paje input data format*, 2000; read by `pj_dump` of pajeng 1.3.

use crate::colour::Colours;
use crate::message::{Arrow, arrows};
use crate::moment::{Happened, Moments};
use crate::sink::Sink;
use crate::text::plain;
use crate::view::View;
use dataflow_core::trace::{Activity, At, Cause, Doing, Fate, Span};
use std::collections::BTreeSet;
use std::io;

/// The events that are used, with their numbers and fields.
const HEADER: &str = "\
%EventDef PajeDefineContainerType 0
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineStateType 1
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineLinkType 2
% Alias string
% Type string
% StartContainerType string
% EndContainerType string
% Name string
%EndEventDef
%EventDef PajeDefineEntityValue 3
% Alias string
% Type string
% Name string
% Color color
%EndEventDef
%EventDef PajeCreateContainer 4
% Time date
% Alias string
% Type string
% Container string
% Name string
%EndEventDef
%EventDef PajeDestroyContainer 5
% Time date
% Type string
% Name string
%EndEventDef
%EventDef PajeSetState 6
% Time date
% Type string
% Container string
% Value string
%EndEventDef
%EventDef PajeSetState 7
% Time date
% Type string
% Container string
% Value string
% Task string
%EndEventDef
%EventDef PajeStartLink 8
% Time date
% Type string
% Container string
% StartContainer string
% Value string
% Key string
%EndEventDef
%EventDef PajeEndLink 9
% Time date
% Type string
% Container string
% EndContainer string
% Value string
% Key string
%EndEventDef
0 Run 0 \"run\"
0 Rank Run \"rank\"
0 Worker Rank \"worker\"
1 Doing Worker \"doing\"
2 Message Run Rank Rank \"message\"
";

/// Writes what is seen of a trace.
pub(crate) fn write(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut file = File {
        view,
        sink: Sink::new(out),
    };
    file.sink.text(HEADER);
    file.values();
    let arrows = arrows(view);
    let mut moments = Moments::of(view, &arrows).peekable();
    let Span { begin, end } = view.span();
    let mut now = moments.peek().map_or(begin, |first| first.time.min(begin));
    file.containers(now);
    let mut there: BTreeSet<(usize, usize)> = view.workers().collect();
    for moment in moments {
        now = moment.time;
        match moment.event {
            Happened::Begin(rank, worker, activity) => file.state(rank, worker, activity)?,
            Happened::End(..) => {}
            Happened::Last(rank, worker) => {
                there.remove(&(rank, worker));
                file.worker_ends(now, rank, worker);
            }
            Happened::Posted(arrow) => file.link("8 ", now, &arrows[arrow], true)?,
            Happened::Taken(arrow) => file.link("9 ", now, &arrows[arrow], false)?,
        }
    }
    let now = now.max(end);
    for (rank, worker) in there {
        file.worker_ends(now, rank, worker);
    }
    file.ends(now);
    file.sink.finish()
}

struct File<'a, 'b> {
    view: &'a View<'a>,
    sink: Sink<'b>,
}

impl File<'_, '_> {
    /// What a worker can do, with colours.
    fn values(&mut self) {
        for class in 0..=self.view.trace.classes.len() {
            let colour = Colours::of_class(class);
            let name = plain(self.view.class_name(class));
            self.sink
                .text("3 c")
                .count(class)
                .text(" Doing \"")
                .text(&name);
            self.value_colour(colour);
        }
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            self.sink
                .text("3 i")
                .count(index)
                .text(" Doing \"")
                .text(cause.shown());
            self.value_colour(Colours::of_cause(cause));
        }
        self.sink.text("3 r Doing \"runtime");
        self.value_colour(Colours::RUNTIME);
        self.sink.text("3 s Doing \"skipped");
        self.value_colour(Colours::SKIPPED);
        self.sink.text("3 f Doing \"failed");
        self.value_colour(Colours::FAILED);
        self.sink.text("3 m Message \"message");
        self.value_colour(Colours::MESSAGE);
    }

    fn value_colour(&mut self, colour: u32) {
        let [_, rgb @ ..] = colour.to_be_bytes();
        let [r, g, b] = rgb.map(|part| f64::from(part) / 255.0);
        self.sink.text(&format!("\" \"{r:.3} {g:.3} {b:.3}\"\n"));
    }

    /// The run, its ranks and their workers.
    fn containers(&mut self, begin: u64) {
        let view = self.view;
        self.sink.text("4 ").seconds(begin).text(" run Run 0 \"");
        self.sink.text(&plain(&view.trace.name)).text("\"\n");
        for (_, of) in view.ranks() {
            let number = of.rank.0;
            self.sink
                .text("4 ")
                .seconds(begin)
                .text(" r")
                .number(number);
            self.sink
                .text(" Rank run \"rank ")
                .number(number)
                .text("\"\n");
            for worker in 0..of.workers.len() {
                self.sink.text("4 ").seconds(begin).text(" ");
                self.alias(number, worker);
                self.sink.text(" Worker r").number(number);
                self.sink.text(" \"rank ").number(number);
                self.sink.text(" worker ").count(worker).text("\"\n");
            }
        }
    }

    /// The alias of a worker.
    fn alias(&mut self, rank: u32, worker: usize) {
        self.sink.text("r").number(rank).text("w").count(worker);
    }

    /// A worker begins something.
    fn state(&mut self, rank: usize, worker: usize, activity: Activity) -> io::Result<()> {
        let trace = self.view.trace;
        let line = if matches!(activity.doing, Doing::Body(_)) {
            "7 "
        } else {
            "6 "
        };
        self.sink
            .text(line)
            .seconds(activity.span.begin)
            .text(" Doing ");
        self.alias(trace.ranks[rank].rank.0, worker);
        match activity.doing {
            Doing::Runtime => self.sink.text(" r"),
            Doing::Idle(cause) => self.sink.text(" i").count(cause as usize),
            Doing::Body(slice) => {
                let at = At { rank, slice };
                let slice = trace.slice(at);
                match slice.fate {
                    Fate::Ran => self.sink.text(" c").count(self.view.class(slice)),
                    Fate::Skipped => self.sink.text(" s"),
                    Fate::Failed => self.sink.text(" f"),
                };
                let shown = plain(&trace.shown(at));
                self.sink.text(" \"").text(&shown).text("\"")
            }
        };
        self.sink.end("\n")
    }

    /// One end of a message, at its rank.
    fn link(&mut self, line: &str, time: u64, arrow: &Arrow, is_start: bool) -> io::Result<()> {
        let rank = if is_start {
            arrow.message.from
        } else {
            arrow.message.to
        };
        let rank = self.view.trace.ranks[rank].rank.0;
        self.sink
            .text(line)
            .seconds(time)
            .text(" Message run r")
            .number(rank);
        self.sink.text(" m k").count(arrow.number + 1);
        self.sink.end("\n")
    }

    /// A worker's last state ends.
    fn worker_ends(&mut self, time: u64, rank: usize, worker: usize) {
        self.sink.text("5 ").seconds(time).text(" Worker ");
        self.alias(self.view.trace.ranks[rank].rank.0, worker);
        self.sink.text("\n");
    }

    /// All ends.
    fn ends(&mut self, time: u64) {
        for (_, of) in self.view.ranks() {
            self.sink.text("5 ").seconds(time).text(" Rank r");
            self.sink.number(of.rank.0).text("\n");
        }
        self.sink.text("5 ").seconds(time).text(" Run run\n");
    }
}
