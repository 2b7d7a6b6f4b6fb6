//! What flows along edges, and where it lives before and after a run.

mod datum;
mod store;
mod version;

pub use datum::Datum;
pub use store::Store;
pub(crate) use store::{Put, RunNumber};
pub use version::Version;
