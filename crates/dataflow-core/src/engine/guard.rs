//! Guard: bodies, spaces and data are foreign code; whatever they do, the worker goes on.
//!
//! # Law
//! Nothing foreign is called, dropped or shown outside of a guard while a worker is inside a job. A
//! panic's payload and a datum may panic when they are dropped, too.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Whether this thread is running tasks.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread runs tasks.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Sets it for a while, and back whatever happens.
struct Inside {
    outer: bool,
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.outer);
    }
}

/// A visit of a worker to a job. The text of the panic that ended it, if one did.
pub(crate) fn guarded(visit: impl FnOnce()) -> Option<String> {
    let _inside = Inside {
        outer: INSIDE.replace(true),
    };
    let panic = catch_unwind(AssertUnwindSafe(visit)).err()?;
    Some(buried(panic))
}

/// The text of a panic, whose payload is gone then.
pub(crate) fn buried(panic: Box<dyn Any + Send>) -> String {
    let text = text(&*panic).to_owned();
    drop_quietly(panic);
    text
}

/// Drops a foreign value.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // It may panic in turn when it is dropped, and so on: it is left where it is.
        std::mem::forget(panic);
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no text)")
}
