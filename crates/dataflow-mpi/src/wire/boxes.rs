//! Strided boxes: many points of an index space in few numbers.
//!
//! A set of updates goes to tasks whose parameters form rectangles with gaps: a block-cyclic owner
//! gets every P-th row of a column. One [`Span`] per dimension (first, width, stride, count)
//! describes them, unaligned heads included.
//!
//! # Source
//! Matheou and Evripidou, *FREDDO: an efficient framework for runtime execution of data-driven
//! objects* (2016), §3, sends ranges of contexts for the same reason, in six special forms.

use super::bytes::{Malformed, Reader, Write};
use smallvec::SmallVec;

/// `count` intervals of `width` indices; each begins `stride` after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first index.
    pub first: u32,
    /// Indices in each interval.
    pub width: u32,
    /// From the beginning of one interval to that of the next; 0 if there is one.
    pub stride: u32,
    /// How many intervals.
    pub count: u32,
}

impl Span {
    /// One index.
    pub fn one(index: u32) -> Self {
        Span {
            first: index,
            width: 1,
            stride: 0,
            count: 1,
        }
    }

    /// How many indices.
    pub fn len(&self) -> u64 {
        u64::from(self.width) * u64::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The indices, ascending.
    pub fn indices(self) -> impl Iterator<Item = u32> + Clone {
        (0..self.count).flat_map(move |i| {
            let first = self.first + i * self.stride;
            first..first + self.width
        })
    }

    /// Whether all indices are numbers, each once.
    fn check(&self) -> Result<(), Malformed> {
        let last = u64::from(self.first)
            + u64::from(self.stride) * u64::from(self.count.saturating_sub(1))
            + u64::from(self.width);
        let overlaps = self.count > 1 && self.stride < self.width;
        if last > u64::from(u32::MAX) || overlaps {
            return Err(Malformed(format!("a box has the impossible span {self:?}")));
        }
        Ok(())
    }
}

/// The product of a span per dimension.
pub type SpanBox = SmallVec<[Span; 3]>;

/// The spans of ascending indices, greedily: the longest rhythm first.
pub fn spans(indices: impl IntoIterator<Item = u32>) -> SmallVec<[Span; 4]> {
    let mut spans: SmallVec<[Span; 4]> = SmallVec::new();
    for interval in intervals(indices) {
        if let Some(last) = spans.last_mut()
            && last.width == interval.width
        {
            let stride = interval.first - last.first;
            if last.count == 1 {
                (last.stride, last.count) = (stride, 2);
                continue;
            }
            if stride == last.stride * last.count {
                last.count += 1;
                continue;
            }
        }
        spans.push(interval);
    }
    spans
}

fn intervals(indices: impl IntoIterator<Item = u32>) -> Vec<Span> {
    let mut intervals: Vec<Span> = Vec::new();
    for index in indices {
        match intervals.last_mut() {
            Some(last) if last.first + last.width == index => last.width += 1,
            _ => intervals.push(Span::one(index)),
        }
    }
    intervals
}

/// The points of a box, the last dimension fastest.
pub fn points(spans: &[Span]) -> Vec<SmallVec<[u32; 3]>> {
    let mut points = vec![SmallVec::new()];
    for span in spans {
        let longer = |point: SmallVec<[u32; 3]>| {
            span.indices().map(move |index| {
                let mut point = point.clone();
                point.push(index);
                point
            })
        };
        points = points.into_iter().flat_map(longer).collect();
    }
    points
}

pub(crate) fn write(bytes: &mut Vec<u8>, spans: &[Span]) {
    bytes.u8(spans.len() as u8);
    for span in spans {
        [span.first, span.width, span.stride, span.count]
            .iter()
            .for_each(|&number| bytes.u32(number));
    }
}

pub(crate) fn read(reader: &mut Reader<'_>) -> Result<SpanBox, Malformed> {
    let n = reader.u8("the dimensions of a box")?;
    (0..n)
        .map(|_| {
            let mut number = || reader.u32("a span of a box");
            let span = Span {
                first: number()?,
                width: number()?,
                stride: number()?,
                count: number()?,
            };
            span.check().map(|()| span)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_block_cyclic_share_is_one_span_and_an_unaligned_head_costs_one_more() {
        let span = |first, width, stride, count| Span {
            first,
            width,
            stride,
            count,
        };
        for (indices, expected) in [
            (vec![], vec![]),
            (vec![7], vec![span(7, 1, 0, 1)]),
            (
                (4..48).filter(|i| i % 16 / 4 == 1).collect(),
                vec![span(4, 4, 16, 3)],
            ),
            (
                (6..48).filter(|i| i % 16 / 4 == 1).collect(),
                vec![span(6, 2, 0, 1), span(20, 4, 16, 2)],
            ),
            (
                (1..40).filter(|i| i % 3 == 2).collect(),
                vec![span(2, 1, 3, 13)],
            ),
        ] {
            let found = spans(indices.iter().copied());
            assert_eq!(found[..], expected[..], "{indices:?}");
        }
    }

    #[test]
    fn the_points_of_a_box_are_the_product_of_its_spans() {
        let rows = Span {
            first: 1,
            width: 1,
            stride: 2,
            count: 2,
        };
        let cols = Span {
            first: 5,
            width: 2,
            stride: 0,
            count: 1,
        };
        let expected = [[1, 5], [1, 6], [3, 5], [3, 6]];
        assert!(
            points(&[rows, cols])
                .iter()
                .map(|point| &point[..])
                .eq(expected.iter().map(|point| &point[..]))
        );
    }

    proptest! {
        #[test]
        fn spans_hold_exactly_the_indices_they_were_made_of(indices: BTreeSet<u16>) {
            let indices: Vec<u32> = indices.into_iter().map(u32::from).collect();
            let found = spans(indices.iter().copied());
            let again: Vec<u32> = found.iter().flat_map(|span| span.indices()).collect();
            prop_assert_eq!(again, indices);
        }
    }
}
