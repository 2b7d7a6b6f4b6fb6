//! Bars: what a worker did, as wide as a picture can show it.
//!
//! # Law
//! What is as long as a pixel stands alone. Shorter things are gathered pixel by pixel; a pixel is of
//! the kind that took most of its time, and neighbours of one kind are one bar. A bar covers all that
//! it stands for, and overlaps no other. There are about two for each pixel at most.

use crate::view::View;
use dataflow_core::trace::{Activity, Cause, Doing, Fate, Slice, Span};

/// What is drawn as one rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub span: Span,
    pub kind: LegendKey,
    /// The slice on its rank, if the bar is one body.
    pub body: Option<usize>,
}

/// What has a colour of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LegendKey {
    /// Bodies of a class.
    Class(usize),
    /// Tasks that were skipped.
    Skipped,
    /// Idleness of a cause.
    Idle(Cause),
}

impl LegendKey {
    /// The kind of an activity; the runtime has none, it is the paper between.
    pub fn of(view: &View<'_>, slices: &[Slice], doing: Doing) -> Option<LegendKey> {
        match doing {
            Doing::Body(slice) if slices[slice].fate == Fate::Skipped => Some(LegendKey::Skipped),
            Doing::Body(slice) => Some(LegendKey::Class(view.class(&slices[slice]))),
            Doing::Idle(cause) => Some(LegendKey::Idle(cause)),
            Doing::Runtime => None,
        }
    }
}

/// The bars of a worker, by time, with pixels of so many nanoseconds.
pub(crate) fn bars(
    activities: &[Activity],
    pixel: u64,
    kind: impl Fn(Doing) -> Option<LegendKey>,
) -> Vec<Bar> {
    let pixel = pixel.max(1);
    let mut gathered = BarMerger {
        pixel,
        bars: Vec::new(),
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
            gathered.bars.push((Bar { span, kind, body }, false));
        } else {
            gathered.add(span, kind);
        }
    }
    gathered.close();
    gathered.bars.into_iter().map(|(bar, _)| bar).collect()
}

/// What is shorter than a pixel, and the bars before it.
struct BarMerger {
    pixel: u64,
    /// Bars, and whether they are of gathered things.
    bars: Vec<(Bar, bool)>,
    /// The pixel that is being gathered, from when to when there is something, and of which kinds.
    at: u64,
    span: Span,
    kinds: Vec<(LegendKey, u64)>,
}

impl BarMerger {
    fn add(&mut self, span: Span, kind: LegendKey) {
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
        match self.bars.last_mut() {
            Some((last, true)) if last.kind == kind && span.begin - last.span.end < pixel => {
                last.span.end = span.end;
            }
            _ => self.bars.push((Bar { span, kind, body }, true)),
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
        fn a_bar_covers_what_it_stands_for_and_overlaps_no_other(
            lengths in prop::collection::vec((0_u64..40, 0_u64..40), 0..200),
            pixel in 1_u64..100,
        ) {
            let all = activities(&lengths);
            let kind = |doing| match doing {
                Doing::Body(body) => Some(LegendKey::Class(body % 3)),
                _ => None,
            };
            let found = bars(&all, pixel, kind);
            prop_assert!(found.windows(2).all(|pair| pair[0].span.end <= pair[1].span.begin));
            for activity in &all {
                let covers = |bar: &&Bar| {
                    bar.span.begin <= activity.span.begin && activity.span.end <= bar.span.end
                };
                let by: Vec<&Bar> = found.iter().filter(covers).collect();
                prop_assert!(!by.is_empty(), "{activity:?} is covered by nothing");
                if activity.span.length() >= pixel {
                    prop_assert!(by.iter().any(|bar| bar.span == activity.span && bar.body.is_some()));
                }
            }
            let long = all.iter().filter(|one| one.span.length() >= pixel).count() as u64;
            let end = all.last().map_or(0, |last| last.span.end);
            prop_assert!(found.len() as u64 <= end / pixel + 1 + 2 * long);
        }
    }

    #[test]
    fn short_bodies_of_one_class_are_one_bar() {
        let all = activities(&[(0, 3); 1000]);
        let found = bars(&all, 100, |_| Some(LegendKey::Class(0)));
        let span = Span {
            begin: 0,
            end: 3000,
        };
        assert_eq!(
            found,
            [Bar {
                span,
                kind: LegendKey::Class(0),
                body: None
            }]
        );
    }
}
