//! The ports of the engine, traits that connect it to the world: [`Executor`] runs ready tasks,
//! [`Courier`] reaches other ranks, [`Memory`] gives memory to data.

#[cfg(feature = "serde")]
#[doc(hidden)]
pub mod by_serde;
mod context;
mod courier;
mod executor;
mod inline;
mod memory;
mod plain;
#[cfg(feature = "rayon")]
mod rayon;
mod shuffled;
mod told;

pub use crate::engine::{Best, Next, OfThread, Offer};
#[doc(hidden)]
pub use crate::foreign::caught;
pub use crate::foreign::drop_quietly;
pub use crate::wire::{Failure, Terms, WireName};
pub use context::Context;
pub use courier::{
    Alone, Arrival, Cargo, Courier, Goods, Head, Inbox, Line, Parcel, PostedFlow, Pulse, Ranks,
    Wire,
};
pub use executor::{Executor, Job, Lane, MANY_INSIDE, Stay, Work};
pub use inline::Inline;
pub use memory::{Block, Heap, Lengths, Memory};
#[cfg(feature = "rayon")]
pub use rayon::OnRayon;
pub use shuffled::Shuffled;
pub use told::{Hint, Ready, Wants, Word, most_bytes};
