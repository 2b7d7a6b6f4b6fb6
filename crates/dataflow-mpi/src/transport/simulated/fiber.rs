//! Fibers: bodies on stacks of their own, which give the thread back until they are resumed.
//!
//! # Law
//! A fiber stays on the thread that it began on. One that is dropped before its end stays where it is,
//! with all it holds: what it was in the midst of might wait for others while it unwinds.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

thread_local! {
    /// By what the fiber that runs on this thread gives it back; null where none runs.
    static RUNNING: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// A body, and how far it is.
pub(super) struct Fiber {
    coroutine: Option<Coroutine<(), (), ()>>,
    /// What `RUNNING` is while it runs.
    yielder: *const Yielder<(), ()>,
}

/// Memory for a fiber's stack, with a page below that nothing may touch.
pub(super) struct Stack(DefaultStack);

impl Stack {
    /// So many bytes at least, of which those that are never touched cost address space only.
    pub fn new(bytes: usize) -> Result<Self, String> {
        let stack = DefaultStack::new(bytes);
        let refused = |error| format!("there is no stack of {bytes} bytes for a fiber: {error}");
        stack.map(Stack).map_err(refused)
    }
}

impl Fiber {
    /// Nothing of it has run yet.
    pub fn new(stack: Stack, body: Box<dyn FnOnce()>) -> Self {
        let live = move |yielder: &Yielder<(), ()>, ()| {
            RUNNING.set(yielder);
            // Bodies of a world have taken note of a panic themselves; its payload may panic in turn.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
                std::mem::forget(panic);
            }
        };
        Fiber {
            coroutine: Some(Coroutine::with_stack(stack.0, live)),
            yielder: ptr::null(),
        }
    }

    /// Lets it run until it [suspends](suspend) or ends; its stack, if it has ended.
    pub fn resume(&mut self) -> Option<Stack> {
        let coroutine = self.coroutine.as_mut()?;
        let outer = RUNNING.replace(self.yielder);
        let result = coroutine.resume(());
        self.yielder = RUNNING.replace(outer);
        match result {
            CoroutineResult::Yield(()) => None,
            CoroutineResult::Return(()) => Some(Stack(self.coroutine.take()?.into_stack())),
        }
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        std::mem::forget(self.coroutine.take());
    }
}

/// The fiber that runs gives its thread back, until it is resumed.
///
/// # Panics
/// Where none runs.
pub(super) fn suspend() {
    let running = RUNNING.get();
    assert!(
        !running.is_null(),
        "only an actor with a stack waits in the midst of what it does"
    );
    // SAFETY: - it is set when a fiber begins or is resumed and taken back when that fiber returns,
    //           suspends or ends, so the code that reads it runs inside of the fiber's closure
    //         - there the yielder is alive: the closure borrows it until it returns
    //         - coroutines are not `Send`, so the fiber is on the thread whose variable this is
    let yielder = unsafe { &*running };
    yielder.suspend(());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    const BYTES: usize = 256 << 10;

    #[test]
    fn fibers_go_on_where_they_were_also_those_that_run_inside_of_others() {
        let told = Rc::new(RefCell::new(Vec::new()));
        let note = |text: &'static str| {
            let told = told.clone();
            move || told.borrow_mut().push(text)
        };
        let (one, two, three, four) = (note("a1"), note("b1"), note("b2"), note("a2"));
        let inner = move || {
            two();
            suspend();
            three();
        };
        let outer = move || {
            one();
            let mut inner = Fiber::new(Stack::new(BYTES).unwrap(), Box::new(inner));
            assert!(inner.resume().is_none());
            suspend();
            assert!(inner.resume().is_some());
            four();
        };
        let mut outer = Fiber::new(Stack::new(BYTES).unwrap(), Box::new(outer));
        assert!(outer.resume().is_none());
        assert_eq!(*told.borrow(), ["a1", "b1"]);
        assert!(outer.resume().is_some());
        assert_eq!(*told.borrow(), ["a1", "b1", "b2", "a2"]);
    }

    #[test]
    fn a_fiber_that_is_dropped_in_its_midst_runs_nothing_more() {
        let held = Rc::new(());
        let body = {
            let held = held.clone();
            move || {
                suspend();
                drop(held);
            }
        };
        let mut fiber = Fiber::new(Stack::new(BYTES).unwrap(), Box::new(body));
        assert!(fiber.resume().is_none());
        drop(fiber);
        assert_eq!(Rc::strong_count(&held), 2, "it is left as it was");
    }

    #[test]
    #[should_panic(expected = "only an actor with a stack")]
    fn outside_of_fibers_nothing_suspends() {
        suspend();
    }
}
