//! Between: what runs take beside their bodies, from traces of those with one worker on each rank.
//!
//! On one rank what lies between two bodies is the engine's. On two, workers look for messages as well, and
//! send and take them: what is more than the engine's, and than what small messages take, is for looking
//! and for bytes. A ball that flies to and fro stays in caches; tiles come from bodies that have filled these.

use super::line::Line;
use super::quantile::quantile;
use super::taken::{Graph, Taken};
use common::cli::Failure;
use common::cli::costs::Overhead;
use dataflow::Runtime;
use dataflow::core::space::Independent;
use dataflow::trace::{At, RankTrace, Slice, Trace};
use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// What was measured.
#[derive(Default)]
pub struct Between {
    /// What the engine takes from body to body, by the edges of the first.
    engine: Taken,
    /// What lies between bodies of two ranks, by runs.
    carrying: Vec<Carrying>,
}

/// All gaps of a run after which no body had to wait for its inputs.
#[derive(Clone, Copy, Default)]
struct Carrying {
    gaps: f64,
    edges: f64,
    messages: f64,
    /// At the end where each of them is sent or taken.
    bytes: f64,
    nanoseconds: f64,
}

impl Between {
    /// Adds what another pass has measured.
    pub fn extend(&mut self, more: Between) {
        self.engine.extend(more.engine);
        self.carrying.extend(more.carrying);
    }

    /// Adds a run whose ranks have one worker each.
    pub fn note(&mut self, trace: &Trace, graph: &Graph) {
        match &trace.ranks[..] {
            [_] => self.engine.push(gaps(trace, graph)),
            _ => self.carrying.push(Carrying::of(trace, graph)),
        }
    }

    /// What the engine takes for a task, and for an edge.
    pub fn engine(&self) -> Line {
        self.engine.line().0
    }

    /// What looking takes between two bodies, and a byte at each end, if messages without bytes take so long
    /// there.
    pub fn carrying(&self, engine: Overhead, end: f64) -> Line {
        let points = self.carrying.iter().map(|run| {
            let engine = run.gaps * engine.task_nanoseconds + run.edges * engine.edge_nanoseconds;
            let more = run.nanoseconds - engine - run.messages * end;
            (run.bytes / run.gaps.max(1.0), more / run.gaps.max(1.0))
        });
        Line::through(points)
    }
}

/// Bodies of an otherwise empty run, and how long each is busy.
const ALONE: (usize, Duration) = (31, Duration::from_micros(500));

/// Nanoseconds that a run on one rank takes before its first task and after its last: the median.
///
/// # Errors
/// What running answers.
pub fn around(runtime: &Runtime) -> Result<f64, Failure> {
    let (runs, busy) = ALONE;
    let alone = Independent::new("alone", 1, |_| {
        let began = Instant::now();
        while began.elapsed() < busy {
            spin_loop();
        }
        Ok(())
    });
    let more = |_| Ok(runtime.run(&alone)?.seconds - busy.as_secs_f64());
    let more: Vec<f64> = (0..runs).map(more).collect::<Result<_, Failure>>()?;
    Ok(quantile(more, 0.5).max(0.0) * 1e9)
}

impl Carrying {
    fn of(trace: &Trace, graph: &Graph) -> Self {
        let mut all = Carrying::default();
        for (rank, slice, next) in pairs(trace) {
            let (from, to) = (slice.1.span.end, next.span.begin);
            if next.ready > from {
                continue;
            }
            let within = |at: u64| (from..to).contains(&at);
            let came = rank.came.iter().filter(|came| within(came.at));
            let posted = rank.posted.iter().filter(|posted| within(posted.at));
            let bytes = came.map(|came| came.bytes);
            for bytes in bytes.chain(posted.map(|posted| posted.bytes)) {
                all.messages += 1.0;
                all.bytes += bytes as f64;
            }
            all.gaps += 1.0;
            all.edges += graph.edges(trace, slice.0) as f64;
            all.nanoseconds += to.saturating_sub(from) as f64;
        }
        all
    }
}

/// From the end of each body to the begin of the next, by the edges that leave the first.
fn gaps(trace: &Trace, graph: &Graph) -> Vec<(f64, f64)> {
    let gap = |(_, (at, slice), next): (&RankTrace, (At, &Slice), &Slice)| {
        let nanoseconds = next.span.begin.saturating_sub(slice.span.end);
        (graph.edges(trace, at) as f64, nanoseconds as f64)
    };
    pairs(trace).map(gap).collect()
}

/// Bodies, and those that follow them on the same rank, which has one worker.
fn pairs(trace: &Trace) -> impl Iterator<Item = (&RankTrace, (At, &Slice), &Slice)> {
    let followed = trace.slices().zip(trace.slices().skip(1));
    let on_one_rank = followed.filter(|((at, _), (next, _))| at.rank == next.rank);
    on_one_rank.map(|(body, (_, next))| (&trace.ranks[body.0.rank], body, next))
}
