//! Data: what flows along edges, and the stores in which it lies before and after a run.

mod datum;
mod store;
mod version;

pub use datum::Datum;
pub use store::Store;
pub(crate) use store::{Put, RunNumber};
pub use version::Version;
