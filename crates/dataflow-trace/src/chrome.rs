//! Chrome: the JSON of its tracer, which many tools read; for small runs.
//!
//! # Law
//! Times are microseconds with three digits: exact. Arrows hang on slices without length, since the
//! format lets them hang on nothing else.
//!
//! # Source
//! *Trace Event Format*, Google, 2016: events X, M, C, s, f.

use crate::message::{Arrow, all_arrows, by_rank, seen};
use crate::parameter::Parameters;
use crate::series::{self, Sample};
use crate::sink::Sink;
use crate::view::View;
use dataflow_core::trace::{Activity, At, Cause, Doing, Fate, Span};
use std::collections::BTreeSet;
use std::{io, iter};

/// Points of a counter at most.
const POINTS: usize = 20_000;

/// Threads beside the workers; workers come behind them.
const SENT: usize = 1;
const RECEIVED: usize = 2;
const WORKERS: usize = 3;

/// Writes what is seen of a trace.
pub(crate) fn write(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut sink = Sink::new(out);
    sink.text("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"name\":")
        .json(&view.trace.name);
    let mut taken = BTreeSet::from(["name".to_string()]);
    for (name, value) in &view.trace.parameters {
        let name = free(name, &mut taken);
        sink.text(",").json(&name).text(":").json(value);
    }
    sink.text("},\"traceEvents\":[");
    let mut file = File {
        view,
        sink,
        is_first: true,
    };
    let all = all_arrows(view);
    let arrows = seen(view, &all);
    for (rank, of) in view.ranks() {
        file.names(rank, of.workers.len())?;
    }
    for (rank, _) in view.ranks() {
        for (worker, activities) in view.nested(rank).into_iter().enumerate() {
            file.worker(rank, worker, &activities)?;
        }
    }
    for arrow in &arrows {
        file.arrow(arrow)?;
    }
    let came = by_rank(view, &all, |message| message.to);
    for (rank, _) in view.ranks() {
        let ready = series::ready(view, rank);
        let held = series::held(view, &came[rank]);
        file.counter(rank, "ready tasks", ready)?;
        file.counter(rank, "pending tasks", series::pending(view, rank))?;
        file.counter(rank, "received bytes held", held)?;
    }
    file.sink.text("\n]}\n");
    file.sink.finish()
}

/// A name, or what is free of `name.2`, `name.3` …: stages of a series may have parameters of one name.
fn free(name: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}.{number}"));
    let mut names = iter::once(name.to_string()).chain(numbered);
    let free = names.find(|name| taken.insert(name.clone()));
    free.unwrap_or_default()
}

/// What a task may be: a parameter of such a name is told by its place, too.
const FATES: [&str; 4] = ["stolen", "copied", "skipped", "failed"];

struct File<'a, 'b> {
    view: &'a View<'a>,
    sink: Sink<'b>,
    is_first: bool,
}

impl File<'_, '_> {
    /// The beginning of an event.
    fn event(&mut self, phase: &str, rank: usize, thread: usize) -> io::Result<()> {
        let comma = if self.is_first { "\n" } else { ",\n" };
        self.is_first = false;
        self.sink.end(comma)?;
        let rank = self.view.trace.ranks[rank].rank.0;
        self.sink
            .text("{\"ph\":\"")
            .text(phase)
            .text("\",\"pid\":")
            .number(rank);
        self.sink.text(",\"tid\":").count(thread);
        Ok(())
    }

    /// What a rank and its threads are called.
    fn names(&mut self, rank: usize, workers: usize) -> io::Result<()> {
        let number = self.view.trace.ranks[rank].rank.0;
        self.name(rank, 0, "process_name", &format!("rank {number}"))?;
        self.name(rank, SENT, "thread_name", "sent")?;
        self.name(rank, RECEIVED, "thread_name", "received")?;
        for worker in 0..workers {
            self.name(
                rank,
                WORKERS + worker,
                "thread_name",
                &format!("worker {worker}"),
            )?;
        }
        Ok(())
    }

    fn name(&mut self, rank: usize, thread: usize, what: &str, name: &str) -> io::Result<()> {
        self.event("M", rank, thread)?;
        self.sink
            .text(",\"name\":")
            .json(what)
            .text(",\"args\":{\"name\":")
            .json(name);
        self.sink.text("}}");
        Ok(())
    }

    /// What a worker did.
    fn worker(&mut self, rank: usize, worker: usize, did: &[Activity]) -> io::Result<()> {
        let mut parameters = Parameters::default();
        for activity in did {
            let span = activity.span;
            match activity.doing {
                Doing::Body(slice) => self.body(At { rank, slice }, worker, &mut parameters)?,
                Doing::Idle(cause) => self.idle(rank, worker, span, cause)?,
                Doing::Runtime => {}
            }
        }
        Ok(())
    }

    fn body(&mut self, at: At, worker: usize, parameters: &mut Parameters) -> io::Result<()> {
        let trace = self.view.trace;
        let slice = trace.slice(at);
        self.event("X", at.rank, WORKERS + worker)?;
        self.span(slice.span);
        let class = trace.class(slice);
        self.sink
            .text(",\"cat\":\"task\",\"name\":")
            .json(class)
            .text(",\"args\":{");
        parameters.read(&trace.shown(at), class);
        for (place, (name, value)) in parameters.list.iter().enumerate() {
            let name = &parameters.names[*name];
            match FATES.contains(&&name[..]) {
                true => self.sink.json(&format!("{name}.{place}")),
                false => self.sink.json(name),
            };
            self.sink.text(if value.negative { ":-" } else { ":" });
            self.sink.number(value.size).text(",");
        }
        for (is, what) in [
            (slice.stolen, "stolen"),
            (slice.copied, "copied"),
            (slice.from_afar, "from afar"),
            (slice.fate == Fate::Skipped, "skipped"),
            (slice.fate == Fate::Failed, "failed"),
        ] {
            if is {
                self.sink.text("\"").text(what).text("\":true,");
            }
        }
        let waited = slice.span.begin.saturating_sub(slice.ready);
        self.sink.text("\"waited (ns)\":").number(waited).text("}}");
        Ok(())
    }

    fn idle(&mut self, rank: usize, worker: usize, span: Span, cause: Cause) -> io::Result<()> {
        self.event("X", rank, WORKERS + worker)?;
        self.span(span);
        self.sink
            .text(",\"cat\":\"idle\",\"name\":")
            .json(cause.shown())
            .text("}");
        Ok(())
    }

    fn span(&mut self, span: Span) {
        self.sink.text(",\"ts\":").microseconds(span.begin);
        self.sink.text(",\"dur\":").microseconds(span.length());
    }

    /// A message: a slice without length at each end, and the arrow from one to the other.
    fn arrow(&mut self, arrow: &Arrow) -> io::Result<()> {
        let message = &arrow.message;
        let ends = [
            (
                message.from,
                SENT,
                message.span.begin,
                "send",
                "s\",\"cat\":\"message",
            ),
            (
                message.to,
                RECEIVED,
                message.span.end,
                "take in",
                "f\",\"bp\":\"e\",\"cat\":\"message",
            ),
        ];
        let shown = arrow.sender.map(|at| self.view.trace.shown(at));
        let shown = shown.unwrap_or_else(|| message.task.to_string());
        for (rank, thread, time, name, phase) in ends {
            self.event("X", rank, thread)?;
            self.span(Span {
                begin: time,
                end: time,
            });
            self.sink.text(",\"cat\":\"message\",\"name\":").json(name);
            self.sink.text(",\"args\":{\"task\":").json(&shown);
            self.sink
                .text(",\"bytes\":")
                .number(message.bytes)
                .text("}}");
            self.event(phase, rank, thread)?;
            self.sink
                .text(",\"name\":\"message\",\"id\":")
                .count(arrow.number + 1);
            self.sink.text(",\"ts\":").microseconds(time).text("}");
        }
        Ok(())
    }

    fn counter(&mut self, rank: usize, name: &str, samples: Vec<Sample>) -> io::Result<()> {
        for Sample { time, value } in series::thinned(samples, POINTS) {
            self.event("C", rank, 0)?;
            self.sink
                .text(",\"name\":")
                .json(name)
                .text(",\"ts\":")
                .microseconds(time);
            self.sink
                .text(",\"args\":{\"value\":")
                .number(value)
                .text("}}");
        }
        Ok(())
    }
}
