//! Fibers: bodies on stacks of their own, which give the thread back until they are resumed.
//!
//! # Law
//! A fiber stays on the thread that it began on. One that is dropped before its end stays where it is,
//! with all it holds: what it was in the midst of might wait for others while it unwinds.

#[cfg(target_os = "linux")]
mod slab;

use corosensei::{Coroutine, CoroutineResult, Yielder};
#[cfg(target_os = "linux")]
use slab::{SlabStack, many, one};
use std::cell::Cell;
#[cfg(not(target_os = "linux"))]
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// The memory of a stack.
#[cfg(target_os = "linux")]
type Ground = SlabStack;
#[cfg(not(target_os = "linux"))]
type Ground = corosensei::stack::DefaultStack;

thread_local! {
    /// By what the fiber that runs on this thread gives it back; null where none runs.
    static RUNNING: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// A body, and how far it is.
pub(super) struct Fiber {
    coroutine: Option<Coroutine<(), (), (), Ground>>,
    /// What `RUNNING` is while it runs.
    yielder: *const Yielder<(), ()>,
}

/// Memory for a fiber's stack, above pages that nothing may touch.
pub(super) struct Stack(Ground);

/// Stacks of so many bytes at least, of which those that are never touched cost address space only.
pub(super) struct Stacks {
    bytes: usize,
    free: Vec<Stack>,
    made: usize,
    /// How many are made at a time at most.
    at_once: usize,
}

impl Stacks {
    /// None yet.
    pub fn new(bytes: usize) -> Self {
        Stacks {
            bytes,
            free: Vec::new(),
            made: 0,
            at_once: 64,
        }
    }

    /// One that nobody uses.
    pub fn take(&mut self) -> Result<Stack, String> {
        if self.free.is_empty() {
            self.make()?;
        }
        let Some(stack) = self.free.pop() else {
            unreachable!("some were made");
        };
        Ok(stack)
    }

    /// It is used no more.
    pub fn give(&mut self, stack: Stack) {
        self.free.push(stack);
    }

    /// As many as there are, so that few worlds make more than twice what they need.
    fn make(&mut self) -> Result<(), String> {
        let n = self.made.clamp(1, self.at_once);
        let made = match n {
            1 => one(self.bytes).map(|stack| vec![stack]),
            _ => many(self.bytes, n),
        };
        match made {
            Ok(stacks) => self.free.extend(stacks.into_iter().map(Stack)),
            Err(_) if n > 1 => {
                self.at_once = 1; // perhaps there is room for one, or this system makes only single ones
                return self.make();
            }
            Err(error) => {
                let (bytes, made) = (self.bytes, self.made);
                let text = format!("there is no stack of {bytes} bytes for a fiber beside {made}");
                return Err(format!("{text} others: {error}"));
            }
        }
        self.made += n;
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
fn one(bytes: usize) -> io::Result<Ground> {
    Ground::new(bytes)
}

#[cfg(not(target_os = "linux"))]
fn many(_: usize, _: usize) -> io::Result<Vec<Ground>> {
    Err(io::ErrorKind::Unsupported.into())
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

    fn stack() -> Stack {
        Stacks::new(BYTES).take().unwrap()
    }

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
            let mut inner = Fiber::new(stack(), Box::new(inner));
            assert!(inner.resume().is_none());
            suspend();
            assert!(inner.resume().is_some());
            four();
        };
        let mut outer = Fiber::new(stack(), Box::new(outer));
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
        let mut fiber = Fiber::new(stack(), Box::new(body));
        assert!(fiber.resume().is_none());
        drop(fiber);
        assert_eq!(Rc::strong_count(&held), 2, "it is left as it was");
    }

    #[test]
    #[should_panic(expected = "only an actor with a stack")]
    fn outside_of_fibers_nothing_suspends() {
        suspend();
    }

    /// A fiber on the last of so many stacks says what it has worked out on all of it.
    fn on_the_last_of(n: usize, body: impl FnOnce() + 'static) {
        let mut stacks = Stacks::new(BYTES);
        let mut taken: Vec<Stack> = (0..n).map(|_| stacks.take().unwrap()).collect();
        let mut fiber = Fiber::new(taken.swap_remove(n / 2), Box::new(body));
        assert!(fiber.resume().is_some());
    }

    /// Uses so many KiB of stack.
    fn deep(kilobytes: usize) -> u64 {
        let mut room = std::hint::black_box([1_u8; 1 << 10]);
        if kilobytes > 0 {
            room[kilobytes % 8] += deep(kilobytes - 1) as u8;
        }
        room.iter().map(|&byte| u64::from(byte)).sum()
    }

    const ALONE: &str = "DATAFLOW_TEST_OVERFLOW";

    /// In a process of its own, which does not survive.
    #[test]
    fn whoever_needs_more_than_its_stack_is_stopped() {
        if std::env::var_os(ALONE).is_some() {
            on_the_last_of(100, || assert!(deep(16) > 0));
            println!("the stack suffices");
            on_the_last_of(100, || assert!(deep(BYTES >> 9) > 0));
            println!("it overflows");
            return;
        }
        let test =
            "transport::simulated::fiber::tests::whoever_needs_more_than_its_stack_is_stopped";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let again = again.args(["--exact", test, "--nocapture"]).env(ALONE, "1");
        let ended = again.output().unwrap();
        let told = String::from_utf8_lossy(&ended.stdout);
        assert!(
            told.contains("suffices") && !told.contains("overflows"),
            "{told}"
        );
        assert!(!ended.status.success());
    }

    /// Linux since 6.13; of a process, so others may make some meanwhile.
    #[cfg(target_os = "linux")]
    #[test]
    fn many_stacks_take_few_mappings() {
        if many(BYTES, 2).is_err() {
            return println!("skipped: this system cannot mark pages");
        }
        let mappings = || {
            std::fs::read_to_string("/proc/self/maps")
                .unwrap()
                .lines()
                .count()
        };
        let (before, mut stacks) = (mappings(), Stacks::new(BYTES));
        let taken: Vec<Stack> = (0..4_000).map(|_| stacks.take().unwrap()).collect();
        let made = mappings() - before;
        assert!(made < taken.len() / 4, "{made} mappings");
    }
}
