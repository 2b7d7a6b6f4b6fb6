//! Charts of a run beside its Gantt chart: each shows one thing, over all that is seen.
//!
//! # Law
//! The size of a chart is bounded, whatever the number of tasks, workers and ranks: what is too much
//! to be shown is grouped, and the group says so. Sums of times may need more than 64 bits.

use crate::bar::LegendKey;
use crate::draw::{LEFT, PathData, Picture, RIGHT, Scale};
use crate::message::{Arrow, by_rank};
use crate::series::{self, Sample};
use crate::text::{bytes, percent, time};
use crate::view::View;
use dataflow_core::trace::{Activity, Fate, Slice, Span};
use dataflow_core::words::counted;
use std::collections::BTreeMap;

/// Rows of a chart at most.
const ROWS: usize = 64;
/// Lines of a chart at most; more ranks are summed up.
const LINES: usize = 8;

/// Where each worker's time went: a bar a worker; the sum is 100 %.
pub(crate) fn shares(view: &View<'_>) -> Picture {
    let mut all: Vec<NamedSums> = Vec::new();
    for (rank, of) in view.ranks() {
        for (worker, activities) in view.flat(rank).iter().enumerate() {
            let sums = sums_of(view, &of.slices, activities);
            all.push((format!("{}.{worker}", of.rank.0), sums));
        }
    }
    let rows = grouped(all);
    let mut picture = Picture::default();
    let scale = Scale::new(0.0, 100.0, LEFT, RIGHT);
    let height = if rows.len() > 24 { 11.0 } else { 18.0 };
    let bottom = 8.0 + height * rows.len() as f64;
    picture.across(&scale, 8.0, bottom, 10.0, |value, _| {
        format!("{value:.0} %")
    });
    for (row, of) in rows.iter().enumerate() {
        let y = 8.0 + height * row as f64;
        bar(view, &mut picture, &scale, [y, height], of);
    }
    picture.legend(LEFT, bottom + 36.0, &legend(view, &rows));
    picture
}

/// Where one worker's time went.
fn sums_of(view: &View<'_>, slices: &[Slice], activities: &[Activity]) -> BTreeMap<Segment, u128> {
    let mut sums: BTreeMap<Segment, u128> = BTreeMap::new();
    for activity in activities {
        let segment = match (LegendKey::of(view, slices, activity.doing), activity.doing) {
            (Some(LegendKey::Idle(cause)), _) => Segment::Idle(LegendKey::Idle(cause)),
            (Some(body), _) => Segment::Body(body),
            (None, _) => Segment::Runtime,
        };
        *sums.entry(segment).or_default() += u128::from(view.within(activity.span));
    }
    sums
}

/// One bar with its name.
fn bar(
    view: &View<'_>,
    picture: &mut Picture,
    scale: &Scale,
    [y, height]: [f64; 2],
    (name, sums): &NamedSums,
) {
    picture.text("s e", LEFT - 6.0, y + height / 2.0 + 4.0, name);
    let whole: u128 = sums.values().sum();
    let mut before = 0;
    for (segment, sum) in sums {
        let of = |sum: u128| scale.at(100.0 * sum as f64 / whole.max(1) as f64);
        let (x, end) = (of(before), of(before + sum));
        let title = format!("{name}: {} {}", segment.shown(view), percent(*sum, whole));
        picture.rect(&segment.css(), [x, y + 1.0, end - x, height - 2.0], &title);
        before += sum;
    }
}

/// What the colours of bars mean, with the share of the time of all.
fn legend(view: &View<'_>, rows: &[NamedSums]) -> Vec<(String, String)> {
    let total = added(rows);
    let whole: u128 = total.values().sum();
    let there = total.iter().filter(|(_, sum)| **sum > 0);
    let entry = |(segment, sum): (&Segment, &u128)| {
        let shown = format!("{} {}", segment.shown(view), percent(*sum, whole));
        (segment.css(), shown)
    };
    there.map(entry).collect()
}

/// Parts of a worker's time, in the order of a bar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Body(LegendKey),
    Runtime,
    Idle(LegendKey),
}

impl Segment {
    fn css(self) -> String {
        match self {
            Segment::Body(kind) | Segment::Idle(kind) => kind.css(),
            Segment::Runtime => "r".to_string(),
        }
    }

    fn shown(self, view: &View<'_>) -> String {
        match self {
            Segment::Body(kind) | Segment::Idle(kind) => kind.shown(view),
            Segment::Runtime => "runtime".to_string(),
        }
    }
}

/// A name, and where its time went.
type NamedSums = (String, BTreeMap<Segment, u128>);

/// Where the time of all went.
fn added(all: &[NamedSums]) -> BTreeMap<Segment, u128> {
    let mut total = BTreeMap::new();
    for (segment, sum) in all.iter().flat_map(|(_, sums)| sums) {
        *total.entry(*segment).or_default() += sum;
    }
    total
}

/// Neighbours summed up until there are few rows.
fn grouped(all: Vec<NamedSums>) -> Vec<NamedSums> {
    let several = all.len().div_ceil(ROWS).max(1);
    if several == 1 {
        return all;
    }
    let group = |group: &[NamedSums]| {
        let name = match group {
            [(one, _)] => one.clone(),
            [(first, _), .., (last, _)] => format!("{first} to {last}"),
            [] => String::new(),
        };
        (name, added(group))
    };
    all.chunks(several).map(group).collect()
}

/// Iterations over time: for each, a bar from the first to the last task of each class, without those that were
/// skipped.
pub(crate) fn iterations(view: &View<'_>) -> Option<Picture> {
    let iteration = |at| view.trace.iteration(at);
    let ran = || {
        let all = view.all_slices();
        all.filter(|(_, slice)| slice.fate != Fate::Skipped)
    };
    let known = ran().filter_map(|(at, _)| iteration(at));
    let (least, most) = known.fold((u64::MAX, 0), |(least, most), k| {
        (least.min(k), most.max(k))
    });
    if least >= most {
        return None;
    }
    let rows = (most - least).saturating_add(1).min(120);
    let bin =
        |k: u64| (u128::from(k - least) * u128::from(rows) / (u128::from(most - least) + 1)) as u64;
    let mut bars: BTreeMap<(u64, usize), Span> = BTreeMap::new();
    for (at, slice) in ran() {
        if let Some(k) = iteration(at) {
            let bar = bars
                .entry((bin(k), view.class(slice)))
                .or_insert(slice.span);
            bar.begin = bar.begin.min(slice.span.begin);
            bar.end = bar.end.max(slice.span.end);
        }
    }
    Some(iterations_drawn(view, &bars, rows, [least, most]))
}

fn iterations_drawn(
    view: &View<'_>,
    bars: &BTreeMap<(u64, usize), Span>,
    rows: u64,
    [least, most]: [u64; 2],
) -> Picture {
    let mut classes: Vec<usize> = bars.keys().map(|(_, class)| *class).collect();
    classes.sort_unstable();
    classes.dedup();
    let height = (560.0 / rows as f64).clamp(4.0, 28.0);
    let of_class = height * 0.9 / classes.len() as f64;
    let bottom = 8.0 + height * rows as f64;
    let mut picture = Picture::default();
    let scale = Scale::of_time(view.span());
    picture.time_axis(&scale, 8.0, bottom);
    let down = Scale::new(least as f64, most as f64 + 1.0, 8.0, bottom);
    picture.along(&down, LEFT, RIGHT, |k| format!("{k:.0}"));
    let mut paths: BTreeMap<usize, PathData> = BTreeMap::new();
    for ((row, class), span) in bars {
        let place = classes
            .iter()
            .position(|one| one == class)
            .unwrap_or_default();
        let y = 8.0 + height * *row as f64 + of_class * place as f64;
        let (x, end) = (scale.of(span.begin), scale.of(span.end));
        let path = paths.entry(*class).or_default();
        path.rect(x, y, (end - x).max(0.5), of_class.max(0.6));
    }
    let kind = |class: &usize| LegendKey::Class(*class);
    for (class, path) in &paths {
        picture.path(&kind(class).css(), path);
    }
    let entries = classes
        .iter()
        .map(|class| (kind(class).css(), kind(class).shown(view)));
    picture.legend(LEFT, bottom + 36.0, &entries.collect::<Vec<_>>());
    picture
}

/// Ready tasks of each rank over time, and how many workers a rank has at most.
pub(crate) fn ready(view: &View<'_>) -> Option<Picture> {
    let of = view
        .ranks()
        .map(|(rank, _)| (rank, series::ready(view, rank)))
        .collect();
    let workers = match view.ranks().count() {
        0..=LINES => view.ranks().map(|(_, of)| of.workers.len()).max()?,
        _ => view.workers().count(),
    };
    over_time(
        view,
        of,
        Some((workers as u64, counted(workers, "worker"))),
        |n| format!("{n:.0}"),
    )
}

/// Tasks of each rank that have some of their inputs and wait for others, over time.
pub(crate) fn pending(view: &View<'_>) -> Option<Picture> {
    let of = view
        .ranks()
        .map(|(rank, _)| (rank, series::pending(view, rank)))
        .collect();
    over_time(view, of, None, |n| format!("{n:.0}"))
}

/// Bytes held of what each rank received, over time.
pub(crate) fn held(view: &View<'_>, all: &[Arrow]) -> Option<Picture> {
    let received = by_rank(view, all, |message| message.to);
    let of = view
        .ranks()
        .map(|(rank, _)| (rank, series::held(view, &received[rank])))
        .collect();
    over_time(view, of, None, |n| bytes(n as u64))
}

/// A line a rank, or one of the sum if there are many; a level beside them.
fn over_time(
    view: &View<'_>,
    of: Vec<(usize, Vec<Sample>)>,
    level: Option<(u64, String)>,
    shown: impl Fn(f64) -> String,
) -> Option<Picture> {
    if of.iter().all(|(_, samples)| samples.is_empty()) {
        return None;
    }
    let lines = named_lines(view, of);
    let samples = lines.iter().flat_map(|(_, samples)| samples);
    let values = samples.map(|sample| sample.value);
    let most = values.chain(level.iter().map(|(value, _)| *value)).max()?;
    let mut picture = Picture::default();
    let (top, bottom) = (12.0, 212.0);
    let scale = Scale::of_time(view.span());
    let up = Scale::new(0.0, 1.05 * most as f64, bottom, top);
    picture.time_axis(&scale, top, bottom);
    picture.along(&up, LEFT, RIGHT, shown);
    let mut entries = Vec::new();
    for (class, (name, samples)) in lines.into_iter().enumerate() {
        let line = stairs(samples, &scale, &up);
        picture.path(&format!("c{class} l"), &line);
        entries.push((format!("c{class}"), name));
    }
    if let Some((value, name)) = level {
        let y = up.at(value as f64);
        picture.line("d", [LEFT, y, RIGHT, y]);
        picture.text("s e", RIGHT - 4.0, y - 4.0, &name);
    }
    picture.legend(LEFT, bottom + 36.0, &entries);
    Some(picture)
}

/// A line a rank with its name, or one of the sum if there are many.
fn named_lines(view: &View<'_>, of: Vec<(usize, Vec<Sample>)>) -> Vec<(String, Vec<Sample>)> {
    let n = of.len();
    if n > LINES {
        let sum = series::sum(of.iter().map(|(_, samples)| samples));
        return vec![(format!("sum of {n} ranks"), sum)];
    }
    let name = |rank: usize| format!("rank {}", view.trace.ranks[rank].rank.0);
    let lines = of.into_iter();
    lines.map(|(rank, samples)| (name(rank), samples)).collect()
}

/// A line that keeps each value until the next, from 0 at the left.
fn stairs(samples: Vec<Sample>, along: &Scale, up: &Scale) -> PathData {
    let mut line = PathData::default();
    let mut y = up.at(0.0);
    line.from(LEFT, y);
    for Sample { time, value } in series::thinned(samples, 3_000) {
        let x = along.of(time);
        line.to(x, y);
        y = up.at(value as f64);
        line.to(x, y);
    }
    line.to(RIGHT, y);
    line
}

/// The tasks whose bodies ran, to whatever end: not those that were skipped. And how long each ran itself.
fn bodies<'v>(view: &'v View<'_>) -> impl Iterator<Item = (&'v Slice, u64)> {
    view.ranks().flat_map(move |(rank, of)| {
        let own = view.own_times(rank);
        let workers = 0..of.workers.len();
        let slices = workers.flat_map(move |worker| view.slices(rank, worker));
        let ran = slices.filter(|(_, slice)| slice.fate != Fate::Skipped);
        ran.map(move |(at, slice)| (slice, own[at.slice]))
    })
}

/// Of each class, how long bodies took, by where their data lay.
pub(crate) fn histograms(view: &View<'_>) -> Option<Picture> {
    let mut times: BTreeMap<usize, Vec<(u64, Locality)>> = BTreeMap::new();
    for (slice, time) in bodies(view) {
        let data = match (slice.from_afar, slice.stolen) {
            (true, _) => Locality::FromAfar,
            (false, true) => Locality::Stolen,
            (false, false) => Locality::Local,
        };
        times
            .entry(view.class(slice))
            .or_default()
            .push((time, data));
    }
    if times.is_empty() {
        return None;
    }
    let mut picture = Picture::default();
    let mut used = [false; 3];
    let columns = 3;
    for (place, (class, mut times)) in times.into_iter().take(60).enumerate() {
        let x = 40.0 + 390.0 * (place % columns) as f64;
        let y = 26.0 + 190.0 * (place / columns) as f64;
        times.sort_unstable();
        times
            .iter()
            .for_each(|(_, data)| used[*data as usize] = true);
        histogram(view, &mut picture, class, &times, [x, y]);
    }
    let entries = Locality::ALL
        .into_iter()
        .filter(|data| used[*data as usize]);
    let entries = entries.map(|data| (data.css().to_string(), data.shown().to_string()));
    let below = picture.height + 16.0;
    picture.legend(40.0, below, &entries.collect::<Vec<_>>());
    Some(picture)
}

/// Where the data of a body lay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Locality {
    Local,
    Stolen,
    FromAfar,
}

impl Locality {
    const ALL: [Locality; 3] = [Locality::Local, Locality::Stolen, Locality::FromAfar];

    fn css(self) -> &'static str {
        ["c0", "c1", "c3"][self as usize]
    }

    fn shown(self) -> &'static str {
        ["by its own worker", "stolen", "with data from another rank"][self as usize]
    }
}

/// One class: its bars, how many and how long its bodies are, and from when to when the bars go.
fn histogram(
    view: &View<'_>,
    picture: &mut Picture,
    class: usize,
    times: &[(u64, Locality)],
    [left, top]: [f64; 2],
) {
    let bins = Bins::of(times);
    let (width, bottom) = (340.0, top + 120.0);
    bins.draw(picture, left, bottom, width);
    let name = view.class_name(class);
    let (n, median) = (times.len(), time(quartile(times, 2)));
    picture.text(
        "t",
        left,
        top - 8.0,
        &format!("{name}: {n} × {median} (median)"),
    );
    picture.line("a", [left, bottom, left + width, bottom]);
    picture.text("s", left, bottom + 15.0, &time(bins.from));
    let beyond = times.len() - times.partition_point(|(time, _)| *time <= bins.to);
    let last = match beyond {
        0 => time(bins.to),
        n => {
            let most = time(quartile(times, 4));
            format!("{} ({n} more, up to {most})", time(bins.to))
        }
    };
    picture.text("s e", left + width, bottom + 15.0, &last);
}

/// Of times in order.
fn quartile(times: &[(u64, Locality)], part: usize) -> u64 {
    times[(times.len() - 1) * part / 4].0
}

/// How many bars a class has.
const BARS: usize = 40;

/// The bars of a class: how many bodies took so long, by where their data lay.
struct Bins {
    from: u64,
    /// What takes longer is in the last one.
    to: u64,
    counts: [[usize; 3]; BARS],
}

impl Bins {
    /// Times in order; what is far above the third quartile is in the last bar.
    fn of(times: &[(u64, Locality)]) -> Self {
        let [from, first, third, most] = [0, 1, 3, 4].map(|part| quartile(times, part));
        // Outliers, after StarVZ: beyond Q3 + 1.5 (Q3 − Q1); twice that is still drawn in its place.
        let fence = third.saturating_add((third - first).max(1).saturating_mul(3));
        let to = most.min(fence).max(from.saturating_add(1));
        let mut counts = [[0; 3]; BARS];
        for (time, data) in times {
            let part = (time.min(&to) - from) as f64 / (to - from) as f64;
            let bar = ((part * BARS as f64) as usize).min(BARS - 1);
            counts[bar][*data as usize] += 1;
        }
        Bins { from, to, counts }
    }

    /// Stands the bars on the line at `bottom`.
    fn draw(&self, picture: &mut Picture, left: f64, bottom: f64, width: f64) {
        let highest = self.counts.iter().map(|of| of.iter().sum::<usize>()).max();
        let up = Scale::new(0.0, highest.unwrap_or(1) as f64, 0.0, 110.0);
        for (index, of) in self.counts.iter().enumerate() {
            let mut y = bottom;
            for data in Locality::ALL {
                let height = up.at(of[data as usize] as f64);
                if height > 0.0 {
                    y -= height;
                    let x = left + width * index as f64 / BARS as f64;
                    picture.rect(data.css(), [x, y, width / BARS as f64 - 1.0, height], "");
                }
            }
        }
    }
}

/// Bodies of a class in numbers: count, sum, mean, longest.
pub(crate) fn numbers(view: &View<'_>) -> Vec<[String; 6]> {
    let mut sums: BTreeMap<usize, (u128, u128, u64, u128)> = BTreeMap::new();
    for (slice, length) in bodies(view) {
        let waited = slice.span.begin.saturating_sub(slice.ready);
        let (n, sum, most, waits) = sums.entry(view.class(slice)).or_default();
        *n += 1;
        *sum += u128::from(length);
        *most = length.max(*most);
        *waits += u128::from(waited);
    }
    let row = |(class, (n, sum, most, waits)): (&usize, &(u128, u128, u64, u128))| {
        let name = view.class_name(*class).to_string();
        [
            name,
            n.to_string(),
            time(*sum),
            time(sum / n),
            time(*most),
            time(waits / n),
        ]
    };
    sums.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::rank::Rank;
    use dataflow_core::trace::{RankTrace, Trace};

    /// A run of one class, whose tasks take a hundred nanoseconds or, if they were skipped, none.
    fn run_of(fates: &[Fate]) -> Trace {
        let slices = fates.iter().zip(0..).map(|(&fate, task)| {
            let begin = 100 * task;
            let length = if fate == Fate::Skipped { 0 } else { 100 };
            let end = begin + length;
            Slice {
                task,
                span: Span { begin, end },
                fate,
                ..Slice::default()
            }
        });
        let span = Span {
            begin: 0,
            end: 1000,
        };
        let rank = RankTrace::new(Rank(0), span, vec![slices.collect()]);
        Trace::new("run", ["Gemm"], vec![rank])
    }

    /// What nested tasks took counted twice, once as their parent's.
    #[test]
    fn what_nested_tasks_take_is_no_time_of_their_parents() {
        let slice = |class, begin, end| Slice {
            task: u64::from(class),
            class,
            span: Span { begin, end },
            ..Slice::default()
        };
        let slices = vec![slice(0, 0, 100), slice(1, 20, 80)];
        let span = Span { begin: 0, end: 100 };
        let rank = RankTrace::new(Rank(0), span, vec![slices]);
        let trace = Trace::new("nested", ["Outer", "Inner"], vec![rank]);
        let rows = numbers(&View::of(&trace));
        let sums: Vec<_> = rows.iter().map(|row| (&row[0][..], &row[2][..])).collect();
        assert_eq!(sums, [("Outer", "40 ns"), ("Inner", "60 ns")]);
        let times: Vec<_> = bodies(&View::of(&trace)).map(|(_, time)| time).collect();
        assert_eq!(times, [40, 60]);
    }

    /// Skipped tasks were the bulk of the bodies, which took no time on average.
    #[test]
    fn tasks_that_were_skipped_are_no_bodies() {
        let trace = run_of(&[Fate::Ran, Fate::Failed, Fate::Skipped, Fate::Skipped]);
        let rows = numbers(&View::of(&trace));
        let known: Vec<_> = rows.iter().map(|row| &row[..5]).collect();
        let (n, sum, mean) = ("2".to_string(), time(200_u64), time(100_u64));
        assert_eq!(known, [["Gemm".to_string(), n, sum, mean.clone(), mean]]);
        let trace = run_of(&[Fate::Skipped; 3]);
        assert!(histograms(&View::of(&trace)).is_none());
        // Each is an iteration; of one alone there is no picture.
        let picture = |fates| iterations(&View::of(&run_of(fates)));
        assert!(picture(&[Fate::Ran, Fate::Failed]).is_some());
        assert!(picture(&[Fate::Ran, Fate::Skipped, Fate::Skipped]).is_none());
    }
}
