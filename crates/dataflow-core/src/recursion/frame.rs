//! Frames: calls that wait for the calls which they have forked into.
//!
//! # Law
//! A frame is joined only by the worker that brings the last of its values: values come, are counted and
//! leave under one lock.

use super::{Join, Recursive};
use crate::foreign::drop_quietly;
use crate::sync::{SpinLock, lock};
use crate::trace::TaskNumber;
use std::sync::Arc;

/// A call that has forked.
pub(super) struct Frame<P: Recursive> {
    above: Above<P>,
    forked: Forked,
    waiting: SpinLock<FrameState<P>>,
}

/// Of a run that is recorded: the number of the call that has forked, and when, in ticks.
pub(super) type Forked = Option<(TaskNumber, u64)>;

struct FrameState<P: Recursive> {
    /// Values that have not come.
    missing: usize,
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
    pub fn fork(above: Above<P>, n: usize, join: Join<P>, forked: Forked) -> Above<P> {
        let frame = Frame {
            above,
            forked,
            waiting: SpinLock::new(FrameState {
                missing: n,
                values: (0..n).map(|_| None).collect(),
                join: Some(join),
            }),
        };
        let (frame, place) = (Some(Arc::new(frame)), 0);
        Above { frame, place }
    }

    /// A value comes. If it is the last: all of them, and how they are joined.
    fn take_in(&self, place: usize, value: Option<P::Value>) -> Option<ReadyJoin<P>> {
        let mut waiting = lock(&self.waiting);
        waiting.values[place] = value;
        waiting.missing -= 1;
        (waiting.missing == 0).then(|| (std::mem::take(&mut waiting.values), waiting.join.take()))
    }
}

type ReadyJoin<P> = (Vec<Option<<P as Recursive>::Value>>, Option<Join<P>>);

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
    /// is that of a call that failed. Becomes the place of each call that is joined, before it is, and
    /// tells `joins`: a join may panic.
    pub fn bring(
        &mut self,
        mut value: Option<P::Value>,
        mut joins: impl FnMut(),
    ) -> Option<Option<P::Value>> {
        while let Some(frame) = self.frame.take() {
            let (values, join) = frame.take_in(self.place, value)?;
            *self = frame.above.clone();
            value = all_of(values).zip(join).map(|(values, join)| {
                joins();
                join(values)
            });
        }
        Some(value)
    }

    /// Which call has forked into this one, and when; `None` of the outermost, and where nothing is recorded.
    pub fn forked(&self) -> Forked {
        self.frame.as_ref()?.forked
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

/// The values, if none of their calls has failed.
fn all_of<V>(values: Vec<Option<V>>) -> Option<Vec<V>> {
    if values.iter().all(Option::is_some) {
        return Some(values.into_iter().flatten().collect());
    }
    drop_each(values);
    None
}

/// Of two values that panic as one collection drops them the second would end the process.
fn drop_each<V>(values: Vec<V>) {
    values.into_iter().for_each(drop_quietly);
}

impl<P: Recursive> Drop for Frame<P> {
    /// One after the other: a chain of frames may be longer than the stack. Their values may panic.
    fn drop(&mut self) {
        let (values, join) = {
            let mut waiting = lock(&self.waiting);
            (std::mem::take(&mut waiting.values), waiting.join.take())
        };
        drop_each(values);
        drop_quietly(join);
        let mut above = self.above.frame.take();
        while let Some(mut frame) = above.and_then(Arc::into_inner) {
            above = frame.above.frame.take();
            drop_quietly(frame);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::error::TaskError;
    use crate::recursion::Call;

    struct PairOfCalls;

    impl Recursive for PairOfCalls {
        type Argument = ();
        type Value = u64;

        fn call(&self, (): ()) -> Result<Call<Self>, TaskError> {
            Ok(Call::Done(0))
        }
    }

    /// A join may count on as many values as it has forked calls.
    #[test]
    fn values_are_joined_in_the_order_of_their_calls_and_only_if_all_have_one() {
        let of = |brought: [(usize, Option<u64>); 2]| {
            let join = |values: Vec<u64>| 10 * values[0] + values[1];
            let first = Frame::<PairOfCalls>::fork(Above::nothing(), 2, Box::new(join), None);
            let mut joins = 0;
            let brought = brought.map(|(at, value)| first.at(at).bring(value, || joins += 1));
            assert_eq!(brought[0], None, "the other is missing");
            (brought[1], joins)
        };
        assert_eq!(of([(1, Some(2)), (0, Some(1))]), (Some(Some(12)), 1));
        for one in [(0, Some(1)), (0, None)] {
            assert_eq!(of([one, (1, None)]), (Some(None), 0));
            assert_eq!(of([(1, None), one]), (Some(None), 0));
        }
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p dataflow-core --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::error::TaskError;
    use crate::recursion::Call;
    use loom::thread;

    struct Sum;

    impl Recursive for Sum {
        type Argument = ();
        type Value = u64;

        fn call(&self, (): ()) -> Result<Call<Self>, TaskError> {
            Ok(Call::Done(0))
        }
    }

    /// A frame in a frame: the values of two calls complete the inner one, and with a third the outer.
    #[test]
    fn loom_whoever_brings_the_last_value_joins_and_has_them_all() {
        loom::model(|| {
            let sum = |values: Vec<u64>| values.iter().sum();
            let outer = Frame::<Sum>::fork(Above::nothing(), 2, Box::new(sum), None);
            let inner = Frame::fork(outer.clone(), 2, Box::new(sum), None);
            let bringing = [(outer.at(1), 1), (inner.at(0), 10)]
                .map(|(mut above, value)| thread::spawn(move || above.bring(Some(value), || ())));
            drop(outer);
            let mine = inner.at(1).bring(Some(100), || ());
            drop(inner);
            let others = bringing.map(|thread| thread.join().unwrap());
            let ends: Vec<_> = others.into_iter().chain([mine]).flatten().collect();
            assert_eq!(ends, [Some(111)]);
        });
    }
}
