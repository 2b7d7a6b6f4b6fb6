//! Frames: calls that wait for the calls which they have forked into.
//!
//! # Law
//! A frame is joined by whoever brings the last of its values, and by nobody else.

use super::{Join, Recursive};
use crate::sync::{AtomicUsize, Ordering, SpinLock, lock};
use std::sync::Arc;

/// A call that has forked.
pub(super) struct Frame<P: Recursive> {
    above: Above<P>,
    /// Values that have not come.
    missing: AtomicUsize,
    waiting: SpinLock<Waiting<P>>,
}

struct Waiting<P: Recursive> {
    /// In the order of the calls; `None`: not come, or its call failed.
    values: Vec<Option<P::Value>>,
    join: Option<Join<P>>,
}

/// Where the value of a call goes: a place in the frame of the call that forked into it.
pub(super) struct Above<P: Recursive> {
    frame: Option<Arc<Frame<P>>>,
    place: usize,
}

impl<P: Recursive> Clone for Above<P> {
    fn clone(&self) -> Self {
        Above {
            frame: self.frame.clone(),
            place: self.place,
        }
    }
}

impl<P: Recursive> Frame<P> {
    /// `n` calls, at least one, are forked; answers where the first one's value goes.
    pub fn fork(above: Above<P>, n: usize, join: Join<P>) -> Above<P> {
        let frame = Frame {
            above,
            missing: AtomicUsize::new(n),
            waiting: SpinLock::new(Waiting {
                values: (0..n).map(|_| None).collect(),
                join: Some(join),
            }),
        };
        let (frame, place) = (Some(Arc::new(frame)), 0);
        Above { frame, place }
    }

    /// All values have come: they, and how they are joined.
    fn complete(&self) -> (Vec<Option<P::Value>>, Option<Join<P>>) {
        let mut waiting = lock(&self.waiting);
        (std::mem::take(&mut waiting.values), waiting.join.take())
    }
}

impl<P: Recursive> Above<P> {
    /// Above the outermost call is nothing.
    pub fn nothing() -> Self {
        let (frame, place) = (None, 0);
        Above { frame, place }
    }

    /// Another place of the same frame.
    pub fn at(&self, place: usize) -> Self {
        let frame = self.frame.clone();
        Above { frame, place }
    }

    /// Brings a value, and whatever it completes; `Some` is the outermost call's. A value of `None`
    /// is that of a call that failed.
    pub fn bring(mut self, mut value: Option<P::Value>) -> Option<Option<P::Value>> {
        while let Some(frame) = self.frame.take() {
            lock(&frame.waiting).values[self.place] = value;
            // Acquire and release: who brings the last sees what the others brought.
            if frame.missing.fetch_sub(1, Ordering::AcqRel) > 1 {
                return None;
            }
            let (values, join) = frame.complete();
            let values: Option<Vec<_>> = values.into_iter().collect();
            value = values.and_then(|values| Some(join?(values)));
            self = frame.above.clone();
        }
        Some(value)
    }

    /// The way to a call from the outermost: the place at each fork.
    pub fn way(&self) -> Vec<usize> {
        let mut way = Vec::new();
        let mut at = self;
        while let Some(frame) = &at.frame {
            way.push(at.place);
            at = &frame.above;
        }
        way.reverse();
        way
    }
}

impl<P: Recursive> Drop for Frame<P> {
    /// One after the other: a chain of frames may be longer than the stack.
    fn drop(&mut self) {
        let mut above = self.above.frame.take();
        while let Some(mut frame) = above.and_then(Arc::into_inner) {
            above = frame.above.frame.take();
        }
    }
}
