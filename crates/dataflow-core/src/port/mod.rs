//! The ports of the engine: below it who runs ready tasks, beside it who reaches other ranks,
//! under the data who gives memory.

mod courier;
mod executor;
mod inline;
mod memory;
#[cfg(feature = "rayon")]
mod rayon;
mod shuffled;

pub use courier::{
    Alone, Arrival, Cargo, Courier, Failure, Goods, Inbox, Line, Parcel, Posted, Pulse, Terms,
    Wire, WireName,
};
pub use executor::{Executor, Job, Lane, Word, Work};
pub use inline::Inline;
pub use memory::{Block, Heap, Memory};
#[cfg(feature = "rayon")]
pub use rayon::OnRayon;
pub use shuffled::Shuffled;
