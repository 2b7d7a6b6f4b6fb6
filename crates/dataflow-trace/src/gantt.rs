//! Gantt: what each worker did, a row each, grouped by rank.
//!
//! Bodies are as high as the row, in the colour of their class; idleness is a thin stroke in the
//! colour of its cause; the runtime is the paper between. The critical path is drawn over, and
//! messages are arrows while they are few.
//!
//! # Law
//! Every worker has a row (`id="r0w3"`: rank 0, worker 3). What is drawn is bounded by pixels, not by
//! tasks.

use crate::bar::{Bar, LegendKey, bars};
use crate::draw::{LEFT, PathData, Picture, RIGHT, Scale};
use crate::message::arrows;
use crate::text::{percent, time};
use crate::view::View;
use dataflow_core::trace::{Activity, At, Fate, Span};
use dataflow_core::words::counted;
use std::collections::BTreeMap;

/// Bodies that say what they are, at most.
const TITLES: usize = 5_000;
/// Arrows and marks of failures, at most.
const ARROWS: usize = 600;
const MARKS: usize = 500;
/// With so many rows, pixels become coarser.
const ROWS: usize = 100;

/// Where rows stand.
struct RowPositions {
    /// By rank of the trace, by worker: the middle.
    middles: Vec<Vec<f64>>,
    height: f64,
    top: f64,
    bottom: f64,
}

/// What is drawn, and into what.
struct Chart<'c, 'v> {
    view: &'c View<'v>,
    picture: &'c mut Picture,
    rows: RowPositions,
    scale: Scale,
    /// How many more bodies may say what they are.
    titles: usize,
}

/// Draws the chart from `top` downwards, its legend included; returns where the next thing may stand.
pub(crate) fn draw(view: &View<'_>, picture: &mut Picture, top: f64) -> f64 {
    let rows = RowPositions::of(view, top);
    let scale = Scale::of_time(view.span());
    rows.names(view, picture);
    picture.time_axis(&scale, rows.top, rows.bottom);
    let mut used: BTreeMap<LegendKey, u128> = BTreeMap::new();
    let mut chart = Chart {
        view,
        picture,
        rows,
        scale,
        // Runs beside one another are compared at a glance.
        titles: if view.mark.is_empty() { TITLES } else { 0 },
    };
    for (rank, _) in view.ranks() {
        for (worker, activities) in view.flat(rank).iter().enumerate() {
            let number = view.trace.ranks[rank].rank.0;
            let mark = view.mark;
            let group = format!("<g id=\"{mark}r{number}w{worker}\">\n");
            chart.picture.raw(&group);
            chart.row((rank, worker), activities);
            chart.picture.raw("</g>\n");
            count(view, rank, activities, &mut used);
        }
    }
    let failed = chart.failures();
    let has_path = chart.critical_path();
    let has_arrows = chart.messages();
    let entries = legend(view, &used, failed, has_path, has_arrows);
    let below = chart.rows.bottom + 38.0;
    chart.picture.legend(LEFT, below, &entries)
}

impl RowPositions {
    fn of(view: &View<'_>, top: f64) -> RowPositions {
        let (n_rows, n_ranks) = (view.workers().count(), view.ranks().count());
        let height = match n_rows {
            0..=8 => 24.0,
            9..=48 => 16.0,
            49..=128 => 10.0,
            129..=512 => 5.0,
            _ => 2.0,
        };
        let between = if n_ranks <= 64 { 6.0 } else { 1.0 };
        let mut middles = vec![Vec::new(); view.trace.ranks.len()];
        let mut y = top;
        for (rank, of) in view.ranks() {
            for _ in &of.workers {
                middles[rank].push(y + height / 2.0);
                y += height;
            }
            y += between;
        }
        RowPositions {
            middles,
            height,
            top,
            bottom: y,
        }
    }

    /// Ranks and workers to the left, a ground under each rank.
    fn names(&self, view: &View<'_>, picture: &mut Picture) {
        let mut free = f64::MIN;
        for (rank, of) in view.ranks() {
            let (Some(first), Some(last)) = (self.middles[rank].first(), self.middles[rank].last())
            else {
                continue;
            };
            let (top, bottom) = (first - self.height / 2.0, last + self.height / 2.0);
            picture.rect("q", [LEFT, top, RIGHT - LEFT, bottom - top], "");
            let middle = (top + bottom) / 2.0 + 4.0;
            if middle >= free {
                picture.text("t", 8.0, middle, &format!("rank {}", of.rank.0));
                free = middle + 14.0;
            }
            if self.height >= 10.0 && of.workers.len() > 1 {
                for (worker, y) in self.middles[rank].iter().enumerate() {
                    picture.text("s e", LEFT - 6.0, y + 4.0, &worker.to_string());
                }
            }
        }
    }
}

impl LegendKey {
    /// Its class in the style sheet.
    pub fn css(self) -> String {
        match self {
            LegendKey::Class(class) => format!("c{class}"),
            LegendKey::Skipped => "k".to_string(),
            LegendKey::Idle(cause) => format!("i{}", cause as usize),
        }
    }

    /// As people read it.
    pub fn shown(self, view: &View<'_>) -> String {
        match self {
            LegendKey::Class(class) => view.class_name(class).to_string(),
            LegendKey::Skipped => "skipped".to_string(),
            LegendKey::Idle(cause) => format!("idle: {}", cause.shown()),
        }
    }
}

/// Adds up what a worker's time went to.
fn count(
    view: &View<'_>,
    rank: usize,
    activities: &[Activity],
    used: &mut BTreeMap<LegendKey, u128>,
) {
    let slices = &view.trace.ranks[rank].slices;
    for activity in activities {
        if let Some(kind) = LegendKey::of(view, slices, activity.doing) {
            *used.entry(kind).or_default() += u128::from(view.within(activity.span));
        }
    }
}

impl Chart<'_, '_> {
    /// One worker's row.
    fn row(&mut self, (rank, worker): (usize, usize), activities: &[Activity]) {
        let (view, scale) = (self.view, self.scale);
        let slices = &view.trace.ranks[rank].slices;
        let coarse = 1 + view.workers().count() / ROWS;
        let pixel = view.span().length().saturating_mul(coarse as u64) / (RIGHT - LEFT) as u64;
        let middle = self.rows.middles[rank][worker];
        let mut paths: BTreeMap<LegendKey, PathData> = BTreeMap::new();
        for Bar { span, kind, body } in bars(activities, pixel, |doing| {
            LegendKey::of(view, slices, doing)
        }) {
            let (x, end) = (scale.of(span.begin), scale.of(span.end));
            let part = if matches!(kind, LegendKey::Idle(_)) {
                0.3
            } else {
                0.92
            };
            let (height, width) = (part * self.rows.height, (end - x).max(0.3));
            let y = middle - height / 2.0;
            match body {
                Some(slice) if self.titles > 0 => {
                    self.titles -= 1;
                    let shown = view.trace.shown(At { rank, slice });
                    let title =
                        format!("{shown}: {} from {}", time(span.length()), time(span.begin));
                    self.picture
                        .rect(&kind.css(), [x, y, width, height], &title);
                }
                _ => paths.entry(kind).or_default().rect(x, y, width, height),
            }
        }
        for (kind, path) in &paths {
            self.picture.path(&kind.css(), path);
        }
    }

    /// Marks of tasks that failed; returns whether there are any.
    fn failures(&mut self) -> bool {
        let (view, scale) = (self.view, self.scale);
        let slices = view.all_slices();
        let failed = slices
            .filter(|(_, slice)| slice.fate == Fate::Failed)
            .take(MARKS);
        let mut any = false;
        for (at, slice) in failed {
            let x = scale.of(slice.span.begin);
            let y = self.rows.middles[at.rank][usize::from(slice.worker)];
            let width = (scale.of(slice.span.end) - x).max(3.0);
            let title = format!("failed: {}", view.trace.shown(at));
            self.picture.rect(
                "f",
                [
                    x,
                    y - self.rows.height * 0.46,
                    width,
                    self.rows.height * 0.92,
                ],
                &title,
            );
            any = true;
        }
        any
    }

    /// The longest way through the graph; returns whether there is one.
    fn critical_path(&mut self) -> bool {
        let (view, scale) = (self.view, self.scale);
        let tasks = view.trace.limits().path_tasks;
        let mut line = PathData::default();
        let mut drawn: Option<(f64, f64)> = None;
        let mut in_pixel = 0;
        for at in tasks {
            let slice = view.trace.slice(at);
            let row = self.rows.middles[at.rank].get(usize::from(slice.worker));
            let Some(y) = row.copied().filter(|_| view.shows(slice.span)) else {
                continue;
            };
            for x in [scale.of(slice.span.begin), scale.of(slice.span.end)] {
                match drawn {
                    None => line.from(x, y),
                    Some((before, _)) if x - before >= 1.0 => {
                        line.to(x, y);
                        in_pixel = 0;
                    }
                    Some((_, row)) if row != y && in_pixel < 3 => {
                        line.to(x, y);
                        in_pixel += 1;
                    }
                    Some(_) => continue,
                }
                drawn = Some((x, y));
            }
        }
        self.picture.path("o", &line);
        self.picture.path("p", &line);
        !line.0.is_empty()
    }

    /// Arrows from the sending worker to the one that read first, if they are few.
    fn messages(&mut self) -> bool {
        let (view, scale) = (self.view, self.scale);
        if view.messages().take(ARROWS + 1).count() > ARROWS {
            return false;
        }
        let mut lines = PathData::default();
        for arrow in arrows(view) {
            let row = |rank: usize, at: Option<At>| {
                let worker = at.map_or(0, |at| usize::from(view.trace.slice(at).worker));
                self.rows.middles[rank].get(worker).copied()
            };
            let from = row(arrow.message.from, arrow.sender);
            let to = row(arrow.message.to, arrow.reader);
            let (Some(from), Some(to)) = (from, to) else {
                continue;
            };
            let (begin, end) = (
                scale.of(arrow.message.span.begin),
                scale.of(arrow.message.span.end),
            );
            lines.from(begin, from);
            lines.to(end, to);
            head(&mut lines, (begin, from), (end, to));
        }
        self.picture.path("w", &lines);
        !lines.0.is_empty()
    }
}

/// The head of an arrow.
fn head(lines: &mut PathData, from: (f64, f64), to: (f64, f64)) {
    let angle = (to.1 - from.1).atan2(to.0 - from.0);
    let barb = |turn: f64| {
        let angle = angle + turn;
        (to.0 - 5.0 * angle.cos(), to.1 - 5.0 * angle.sin())
    };
    let (left, right) = (barb(0.4), barb(-0.4));
    lines.from(left.0, left.1);
    lines.to(to.0, to.1);
    lines.to(right.0, right.1);
}

/// What the colours mean, with the share of the workers' time.
fn legend(
    view: &View<'_>,
    used: &BTreeMap<LegendKey, u128>,
    failed: bool,
    has_path: bool,
    has_arrows: bool,
) -> Vec<(String, String)> {
    // Beside a longer bar its own length counts.
    let Span { begin, end } = view.span();
    let own = end.min(view.trace.length()).saturating_sub(begin);
    let whole = u128::from(own) * view.workers().count() as u128;
    let kinds = used.iter().map(|(kind, sum)| {
        let shown = format!("{} {}", kind.shown(view), percent(*sum, whole));
        (kind.css(), shown)
    });
    let mut entries: Vec<_> = kinds.collect();
    let more = [
        (failed, "f", "failed".to_string()),
        (has_path, "p", "critical path".to_string()),
        (has_arrows, "w", counted(view.messages().count(), "message")),
    ];
    let more = more.into_iter().filter(|(is, ..)| *is);
    entries.extend(more.map(|(_, class, name)| (class.to_string(), name)));
    entries
}
