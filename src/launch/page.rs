//! Page: the trace that the environment wants of a launch.

use crate::runtime::{Runtime, RuntimeBuilder, TRACE_ROOM, write_if_longest};
use dataflow_core::Error;
use dataflow_core::rank::Rank;
use dataflow_core::stderr;
use dataflow_core::trace::Tracer;
use std::path::{Path, PathBuf};

/// The page that the environment wants of a launch, if it does; then its settings get a trace.
pub(super) struct LaunchPage(Option<PathBuf>);

impl LaunchPage {
    pub fn wanted(settings: RuntimeBuilder) -> Result<(Self, RuntimeBuilder), Error> {
        let page = settings.page()?;
        let settings = match page {
            Some(_) => settings.trace(TRACE_ROOM),
            None => settings,
        };
        Ok((LaunchPage(page), settings))
    }

    /// The program, which leaves the page when it has ended.
    pub fn left_by<R, E>(
        self,
        program: impl Fn(&Runtime) -> Result<R, E> + Sync,
    ) -> impl Fn(&Runtime) -> Result<R, E> + Sync {
        move |runtime| {
            let answer = program(runtime);
            if let Some(path) = &self.0 {
                leave_page(runtime, path, answer.is_ok());
            }
            answer
        }
    }
}

/// Writes the longest trace, of all ranks or of rank 0 alone, unless one before was longer, or says that there
/// is none. The program's answer stands, whatever comes of it.
fn leave_page(runtime: &Runtime, path: &Path, of_all: bool) {
    let own = || runtime.tracer().map_or_else(Vec::new, Tracer::take);
    let traces = match of_all {
        true => runtime.traces().unwrap_or_else(|fault| {
            stderr::say(format_args!("dataflow: DATAFLOW_TRACE: {fault}"));
            own()
        }),
        false => own(),
    };
    if runtime.rank() != Rank(0) {
        return;
    }
    match traces.iter().max_by_key(|trace| trace.length()) {
        Some(trace) => write_if_longest(trace, path),
        None if of_all => {
            stderr::say("dataflow: DATAFLOW_TRACE: nothing was recorded, so there is no page");
        }
        // The program's failure is told first.
        None => {}
    }
}
