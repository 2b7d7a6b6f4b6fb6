//! View: the part of a trace that is written, some ranks and some time.
//!
//! # Law
//! Whatever overlaps the window is seen, and seen whole; the rest is not there.
//! Of each worker, bodies and what lies between them come in the order of time.
//!
//! # Elsewhere
//! What a worker did between bodies: [`Trace::activities_of`].

use dataflow_core::trace::{Activity, At, Doing, Message, RankTrace, Slice, Span, Trace};
use std::cmp::Reverse;
use std::error::Error;
use std::ops::Range;
use std::str::FromStr;
use std::{fmt, io};

/// Which time and which ranks are seen; [`Window::default`] is everything.
///
/// # Examples
/// ```
/// use dataflow_trace::Window;
/// let second_of_four_ranks = Window { from: 0, to: 1_000_000_000, ranks: 0..4 };
/// let everything = Window::default();
/// # assert!(everything.ranks.contains(&second_of_four_ranks.ranks.start));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// From when, nanoseconds since the first rank began.
    pub from: u64,
    /// Until when, exclusive.
    pub to: u64,
    /// Ranks by their number.
    pub ranks: Range<u32>,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            from: 0,
            to: u64::MAX,
            ranks: 0..u32::MAX,
        }
    }
}

/// As text: from and to in seconds, either may be missing, and behind an `@` the ranks.
///
/// # Examples
/// ```
/// use dataflow_trace::Window;
/// let window: Window = "0.5..2@0..4".parse()?;
/// assert_eq!(window, Window { from: 500_000_000, to: 2_000_000_000, ranks: 0..4 });
/// assert_eq!("..@3..".parse::<Window>()?.ranks, 3..u32::MAX);
/// assert!("2..1".parse::<Window>().is_err());
/// # Ok::<(), dataflow_trace::UnknownWindow>(())
/// ```
impl FromStr for Window {
    type Err = UnknownWindow;

    fn from_str(text: &str) -> Result<Self, UnknownWindow> {
        let wrong = || UnknownWindow(text.to_owned());
        let (time, ranks) = text.split_once('@').unwrap_or((text, ".."));
        let seconds = |text: &str| -> Option<u64> {
            let seconds: f64 = text.parse().ok()?;
            (seconds >= 0.0).then_some((seconds * 1e9).round() as u64)
        };
        let all = Window::default();
        let time = between(time, seconds, (all.from, all.to)).ok_or_else(wrong)?;
        let rank = |text: &str| text.parse().ok();
        let ranks = between(ranks, rank, (all.ranks.start, all.ranks.end)).ok_or_else(wrong)?;
        Ok(Window {
            from: time.start,
            to: time.end,
            ranks,
        })
    }
}

/// A text that is no [`Window`].
///
/// # Examples
/// ```
/// use dataflow_trace::Window;
/// let refused = "2..1".parse::<Window>().unwrap_err();
/// assert!(refused.to_string().starts_with("`2..1` is no window: FROM..TO in seconds"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWindow(String);

impl fmt::Display for UnknownWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "`{text}` is no window: FROM..TO in seconds, then perhaps @FIRST..END of ranks"
        )
    }
}

impl Error for UnknownWindow {}

/// `A..B`, of which a part that is missing has another value; nothing if it is no range.
fn between<N: PartialOrd>(
    text: &str,
    number: impl Fn(&str) -> Option<N>,
    (first, last): (N, N),
) -> Option<Range<N>> {
    let (start, end) = text.split_once("..")?;
    let or = |text: &str, otherwise| match text {
        "" => Some(otherwise),
        text => number(text),
    };
    let range = or(start, first)?..or(end, last)?;
    (range.start <= range.end).then_some(range)
}

/// A trace as seen through a [`Window`].
///
/// # Examples
/// Of two tasks, what was done from 25 ns on:
/// ```
/// use dataflow_core::rank::Rank;
/// use dataflow_core::trace::{RankTrace, Slice, Span, Trace};
/// use dataflow_trace::{Format, View, Window};
///
/// let slice = |begin, end| Slice { span: Span { begin, end }, ..Slice::default() };
/// let workers = vec![vec![slice(0, 20), slice(20, 40)]];
/// let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 40 }, workers);
/// let trace = Trace::new("by hand", ["Step"], vec![rank]);
///
/// let mut file = Vec::new();
/// let view = View::cut(&trace, Window { from: 25, ..Window::default() });
/// view.write_to(Format::Chrome, &mut file)?;
/// assert_eq!(String::from_utf8(file)?.matches(r#""cat":"task""#).count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub(crate) trace: &'a Trace,
    window: Window,
    /// Pictures of several traces go on to the same end,
    end: u64,
    /// and tell their rows apart.
    pub(crate) mark: &'a str,
}

impl<'a> View<'a> {
    /// The whole trace.
    pub fn of(trace: &'a Trace) -> View<'a> {
        View::cut(trace, Window::default())
    }

    /// What a window shows of a trace.
    pub fn cut(trace: &'a Trace, window: Window) -> View<'a> {
        let end = trace.length();
        View {
            trace,
            window,
            end,
            mark: "",
        }
    }

    /// Whether the window's time lies beyond the run, or ends where it begins: such a view is not written.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::rank::Rank;
    /// use dataflow_core::trace::{RankTrace, Span, Trace};
    /// use dataflow_trace::{Format, View};
    ///
    /// let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 2_000_000 }, vec![vec![]]);
    /// let trace = Trace::new("by hand", ["Step"], vec![rank]);
    /// let view = View::cut(&trace, "5..6".parse()?);
    /// assert!(view.is_beyond());
    /// let refused = view.write_to(Format::Chrome, &mut Vec::new()).unwrap_err();
    /// let text = "nothing of the run is in the window 5..6 s (the run lasted 0.002 s)";
    /// assert_eq!(refused.to_string(), text);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_beyond(&self) -> bool {
        self.window.from > self.end || self.window.to == 0
    }

    /// Refuses a view that [`is_beyond`](View::is_beyond) the run.
    pub(crate) fn expect_within(&self) -> io::Result<()> {
        if !self.is_beyond() {
            return Ok(());
        }
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let to = match self.window.to {
            u64::MAX => String::new(),
            to => seconds(to).to_string(),
        };
        let (from, length) = (seconds(self.window.from), seconds(self.end));
        let text = format!(
            "nothing of the run is in the window {from}..{to} s (the run lasted {length} s)"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// The whole trace of one run of several, and nothing from its end to that of the longest.
    pub(crate) fn beside(trace: &'a Trace, end: u64, mark: &'a str) -> View<'a> {
        View {
            end,
            mark,
            ..View::of(trace)
        }
    }

    /// From when to when, within the trace.
    pub(crate) fn span(&self) -> Span {
        let end = self.end.min(self.window.to);
        let begin = self.window.from.min(end);
        Span { begin, end }
    }

    /// The ranks that are seen, with their indices in the trace.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = (usize, &'a RankTrace)> + '_ {
        let ranks = self.trace.ranks.iter().enumerate();
        ranks.filter(|(rank, _)| self.shows_rank(*rank))
    }

    /// The workers that are seen: index of the rank, and of the worker there.
    pub(crate) fn workers(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let ranks = self.ranks();
        ranks.flat_map(|(rank, of)| (0..of.workers.len()).map(move |worker| (rank, worker)))
    }

    /// Whether a rank, by its index in the trace, is seen.
    pub(crate) fn shows_rank(&self, rank: usize) -> bool {
        let rank = self.trace.ranks[rank].rank;
        self.window.ranks.contains(&rank.0)
    }

    /// Whether something that lasted so long is seen.
    pub(crate) fn shows(&self, span: Span) -> bool {
        let Window { from, to, .. } = self.window;
        span.begin < to && (span.end > from || span.begin >= from)
    }

    /// What of a span lies in the window, nanoseconds.
    pub(crate) fn within(&self, span: Span) -> u64 {
        let own = self.span();
        let end = span.end.min(own.end);
        end.saturating_sub(span.begin.max(own.begin))
    }

    /// The slices of a worker that are seen, with their places.
    pub(crate) fn slices(
        &self,
        rank: usize,
        worker: usize,
    ) -> impl Iterator<Item = (At, &'a Slice)> + '_ {
        let of = &self.trace.ranks[rank];
        let range = of.workers[worker].slices.clone();
        let slices = range.map(move |slice| (At { rank, slice }, &of.slices[slice]));
        slices.filter(|(_, slice)| self.shows(slice.span))
    }

    /// All slices that are seen, rank by rank and worker by worker.
    pub(crate) fn all_slices(&self) -> impl Iterator<Item = (At, &'a Slice)> + '_ {
        self.workers()
            .flat_map(|(rank, worker)| self.slices(rank, worker))
    }

    /// What the workers of a rank did, by its beginning: whole bodies, one within the other where a
    /// task had tasks of its own, and what lies between them.
    pub(crate) fn nested(&self, rank: usize) -> Vec<Vec<Activity>> {
        let of = &self.trace.ranks[rank];
        let mut workers = self.trace.activities_of(rank);
        for (activities, worker) in workers.iter_mut().zip(&of.workers) {
            // Bodies begin in the order of their slices; where one goes on, its slice has been met.
            let mut new = worker.slices.start;
            activities.retain_mut(|activity| {
                if let Doing::Body(slice) = activity.doing {
                    if slice < new {
                        return false;
                    }
                    new = slice + 1;
                    activity.span = of.slices[slice].span;
                }
                self.shows(activity.span)
            });
            activities.sort_by_key(order);
        }
        workers
    }

    /// The same with one thing at a time: a body goes on where a body within it has ended.
    pub(crate) fn flat(&self, rank: usize) -> Vec<Vec<Activity>> {
        let slices = &self.trace.ranks[rank].slices;
        let mut workers = self.trace.activities_of(rank);
        for activities in &mut workers {
            activities.retain(|activity| {
                let is_remainder = match activity.doing {
                    Doing::Body(slice) => slices[slice].span.length() > activity.span.length(),
                    _ => true,
                };
                // Nothing is left of a body between two others that touch.
                let is_empty = is_remainder && activity.span.length() == 0;
                !is_empty && self.shows(activity.span)
            });
        }
        workers
    }

    /// How long the body of each slice of a rank ran itself, seen or not: without the tasks of its own.
    pub(crate) fn own_times(&self, rank: usize) -> Vec<u64> {
        let mut own = vec![0; self.trace.ranks[rank].slices.len()];
        for activity in self.trace.activities_of(rank).into_iter().flatten() {
            if let Doing::Body(slice) = activity.doing {
                own[slice] += activity.span.length();
            }
        }
        own
    }

    /// The index of a slice's class, one beyond the last if it is none of the trace's.
    pub(crate) fn class(&self, slice: &Slice) -> usize {
        usize::from(slice.class).min(self.trace.classes.len())
    }

    /// The name of a class by its index.
    pub(crate) fn class_name(&self, class: usize) -> &'a str {
        self.trace.classes.get(class).map_or("task", String::as_str)
    }

    /// Messages between ranks that are seen, with their numbers in the trace.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (usize, &'a Message)> + '_ {
        let messages = self.trace.messages().iter().enumerate();
        messages.filter(|(_, message)| self.shows_message(message))
    }

    /// Whether a message is seen: on its way, and between ranks that are.
    pub(crate) fn shows_message(&self, message: &Message) -> bool {
        self.shows_rank(message.from) && self.shows_rank(message.to) && self.shows(message.span)
    }
}

/// By beginning; what has no length comes before what begins then, the longer before the shorter.
fn order(activity: &Activity) -> (u64, bool, Reverse<u64>) {
    let span = activity.span;
    (span.begin, span.length() > 0, Reverse(span.end))
}
