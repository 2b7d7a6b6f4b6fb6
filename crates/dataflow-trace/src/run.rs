//! Runs: what a worker did, as wide as a picture can show it.
//!
//! # Law
//! What is as long as a pixel stands alone. Shorter things are gathered pixel by pixel; a pixel is of
//! the kind that took most of its time, and neighbours of one kind are one run. A run covers all that
//! it stands for, and overlaps no other. There are about two for each pixel at most.

use crate::view::View;
use dataflow_core::trace::{Activity, Cause, Doing, Fate, Slice, Span};

/// What is drawn as one rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub span: Span,
    pub kind: Kind,
    /// The slice on its rank, if the run is one body.
    pub body: Option<usize>,
}

/// What has a colour of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Bodies of a class.
    Class(usize),
    /// Tasks that were skipped.
    Skipped,
    /// Idleness of a cause.
    Idle(Cause),
}

impl Kind {
    /// The kind of an activity; the runtime has none, it is the paper between.
    pub fn of(view: &View<'_>, slices: &[Slice], doing: Doing) -> Option<Kind> {
        match doing {
            Doing::Body(slice) if slices[slice].fate == Fate::Skipped => Some(Kind::Skipped),
            Doing::Body(slice) => Some(Kind::Class(view.class(&slices[slice]))),
            Doing::Idle(cause) => Some(Kind::Idle(cause)),
            Doing::Runtime => None,
        }
    }
}

/// The runs of a worker, by time, with pixels of so many nanoseconds.
pub(crate) fn runs(
    activities: &[Activity],
    pixel: u64,
    kind: impl Fn(Doing) -> Option<Kind>,
) -> Vec<Run> {
    let pixel = pixel.max(1);
    let mut gathered = Gathered {
        pixel,
        runs: Vec::new(),
        at: 0,
        span: Span::default(),
        kinds: Vec::new(),
    };
    for activity in activities {
        let Some(kind) = kind(activity.doing) else {
            continue;
        };
        let body = match activity.doing {
            Doing::Body(slice) => Some(slice),
            _ => None,
        };
        let span = activity.span;
        if span.length() >= pixel {
            gathered.close();
            gathered.runs.push((Run { span, kind, body }, false));
        } else {
            gathered.add(span, kind);
        }
    }
    gathered.close();
    gathered.runs.into_iter().map(|(run, _)| run).collect()
}

/// What is shorter than a pixel, and the runs before it.
struct Gathered {
    pixel: u64,
    /// Runs, and whether they are of gathered things.
    runs: Vec<(Run, bool)>,
    /// The pixel that is being gathered, from when to when there is something, and of which kinds.
    at: u64,
    span: Span,
    kinds: Vec<(Kind, u64)>,
}

impl Gathered {
    fn add(&mut self, span: Span, kind: Kind) {
        if span.begin / self.pixel != self.at {
            self.close();
        }
        if self.kinds.is_empty() {
            (self.at, self.span) = (span.begin / self.pixel, span);
        }
        self.span.end = self.span.end.max(span.end);
        // What has no length still counts, if there is nothing else.
        let time = span.length() * 2 + 1;
        match self.kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum += time,
            None => self.kinds.push((kind, time)),
        }
    }

    fn close(&mut self) {
        let most = self.kinds.iter().rev().max_by_key(|(_, time)| *time);
        let Some((kind, _)) = most.copied() else {
            return;
        };
        self.kinds.clear();
        let span = self.span;
        let (pixel, body) = (self.pixel, None);
        match self.runs.last_mut() {
            Some((last, true)) if last.kind == kind && span.begin - last.span.end < pixel => {
                last.span.end = span.end;
            }
            _ => self.runs.push((Run { span, kind, body }, true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Activities from lengths of gaps and bodies, the body's number modulo three as its class.
    fn activities(lengths: &[(u64, u64)]) -> Vec<Activity> {
        let mut now = 0;
        let one = |(index, (gap, length)): (usize, &(u64, u64))| {
            let begin = now + gap;
            now = begin + length;
            Activity {
                span: Span { begin, end: now },
                doing: Doing::Body(index),
            }
        };
        lengths.iter().enumerate().map(one).collect()
    }

    proptest! {
        #[test]
        fn a_run_covers_what_it_stands_for_and_overlaps_no_other(
            lengths in prop::collection::vec((0_u64..40, 0_u64..40), 0..200),
            pixel in 1_u64..100,
        ) {
            let all = activities(&lengths);
            let kind = |doing| match doing {
                Doing::Body(body) => Some(Kind::Class(body % 3)),
                _ => None,
            };
            let found = runs(&all, pixel, kind);
            prop_assert!(found.windows(2).all(|pair| pair[0].span.end <= pair[1].span.begin));
            for activity in &all {
                let covers = |run: &&Run| {
                    run.span.begin <= activity.span.begin && activity.span.end <= run.span.end
                };
                let by: Vec<&Run> = found.iter().filter(covers).collect();
                prop_assert!(!by.is_empty(), "{activity:?} is covered by nothing");
                if activity.span.length() >= pixel {
                    prop_assert!(by.iter().any(|run| run.span == activity.span && run.body.is_some()));
                }
            }
            let long = all.iter().filter(|one| one.span.length() >= pixel).count() as u64;
            let end = all.last().map_or(0, |last| last.span.end);
            prop_assert!(found.len() as u64 <= end / pixel + 1 + 2 * long);
        }
    }

    #[test]
    fn short_bodies_of_one_class_are_one_run() {
        let all = activities(&[(0, 3); 1000]);
        let found = runs(&all, 100, |_| Some(Kind::Class(0)));
        let span = Span {
            begin: 0,
            end: 3000,
        };
        assert_eq!(
            found,
            [Run {
                span,
                kind: Kind::Class(0),
                body: None
            }]
        );
    }
}
