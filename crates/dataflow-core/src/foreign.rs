//! Foreign: bodies, spaces and data are foreign code; whatever they do, the caller goes on.
//!
//! # Law
//! A panic's payload and a datum may panic when they are dropped, too.

use std::any::Any;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What this answers, or what its panic says.
pub fn caught<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = text_of(&*panic).to_owned();
        drop_quietly(panic);
        text
    })
}

/// What a panic says.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no text)")
}

/// A foreign value as its `Debug` shows it, whatever that does.
pub(crate) fn shown(value: &impl fmt::Debug) -> String {
    beginning(value, usize::MAX)
}

/// The first bytes of that, some more than so many at most: no more is asked for.
pub(crate) fn beginning(value: &impl fmt::Debug, most: usize) -> String {
    let mut shown = Beginning {
        text: String::new(),
        most,
    };
    match caught(|| write!(shown, "{value:?}")) {
        Ok(Ok(())) => shown.text,
        Ok(Err(_)) if shown.text.len() >= most => shown.text,
        Ok(Err(_)) => "(its `Debug` fails)".into(),
        Err(_) => "(its `Debug` panics)".into(),
    }
}

/// Takes what is written until there is enough.
struct Beginning {
    text: String,
    most: usize,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for char in part.chars() {
            if self.text.len() >= self.most {
                return Err(fmt::Error);
            }
            self.text.push(char);
        }
        Ok(())
    }
}

/// Drops a foreign value, and lives on if that panics: what it had to say is lost.
///
/// Of a collection each value by itself: of two that panic as it drops them the second would end the process.
///
/// # Examples
/// ```
/// struct Bad;
/// impl Drop for Bad {
///     fn drop(&mut self) {
///         panic!("dropped");
///     }
/// }
/// vec![Bad, Bad].into_iter().for_each(dataflow_core::port::drop_quietly);
/// ```
pub fn drop_quietly<T>(value: T) {
    quietly(|| drop(value));
}

fn quietly(act: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(act)) {
        // It may panic in turn when it is dropped, and so on: it is left where it is.
        std::mem::forget(panic);
    }
}

/// Does something foreign with each of some values. The first panic goes on when it was done with all: with
/// those behind it quietly.
pub(crate) fn in_turn<T>(values: impl IntoIterator<Item = T>, act: impl FnMut(T)) {
    let values = values.into_iter();
    let mut turns = InTurn { values, act };
    for value in turns.values.by_ref() {
        (turns.act)(value);
    }
}

struct InTurn<I: Iterator, F: FnMut(I::Item)> {
    values: I,
    act: F,
}

impl<I: Iterator, F: FnMut(I::Item)> Drop for InTurn<I, F> {
    fn drop(&mut self) {
        let InTurn { values, act } = self;
        values.for_each(|value| quietly(|| act(value)));
    }
}

/// Something foreign that is done also if what comes before it panics: quietly then. What [`in_turn`] is
/// for values of one type, some of these are for those of several.
pub(crate) struct Later<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Later<F> {
    #[inline(always)]
    pub fn new(act: F) -> Self {
        Later(Some(act))
    }

    #[inline(always)]
    pub fn now(mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

impl<F: FnOnce()> Drop for Later<F> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            quietly(act);
        }
    }
}

/// Foreign values that are dropped [quietly](drop_quietly), each by itself.
pub(crate) struct Quiet<T>(pub Vec<T>);

impl<T> Drop for Quiet<T> {
    fn drop(&mut self) {
        self.0.drain(..).for_each(drop_quietly);
    }
}
