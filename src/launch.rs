//! Launch: the same program on every rank. Until there are several, once, here.

use crate::runtime::{Runtime, RuntimeBuilder};
use dataflow_core::Error;

/// Makes the runtime and runs `program` with it, once for each rank of this process; returns what
/// the lowest rank returned.
///
/// # Errors
/// What the runtime's settings or the program answer.
///
/// # Examples
/// ```
/// use dataflow::{Runtime, core::space::Independent, launch};
/// let tasks = launch(Runtime::builder().threads(1), |runtime| {
///     Ok(runtime.run(&Independent::new("nothing", 10, |_| Ok(())))?.tasks)
/// })?;
/// assert_eq!(tasks, 10);
/// # Ok::<(), dataflow::Error>(())
/// ```
pub fn launch<R>(
    settings: RuntimeBuilder,
    program: impl Fn(&Runtime) -> Result<R, Error> + Sync,
) -> Result<R, Error> {
    program(&settings.build()?)
}
