//! Communication between the ranks of a run: one protocol over any transport.
//!
//! A [`Messenger`] is the [`Courier`](dataflow_core::port::Courier) of one rank. Below it lies a
//! [`Transport`](transport::Transport): threads of one process ([`transport::local`]), processes over
//! sockets ([`transport::tcp`]) or under an MPI launcher (`transport::mpi`, feature `mpi`), or a
//! simulated network in virtual time ([`transport::simulated`]).
//!
//! # Examples
//! A chain of tasks that goes to and fro between two ranks, here threads. With the package
//! `dataflow-runtime` the whole of `main` is one call, `launch`, which also starts processes and
//! workers and understands MPI's launchers.
//! ```
//! use dataflow_core::prelude::*;
//! use dataflow_core::{port::{Context, Heap, Inline}, run_across};
//! use dataflow_mpi::{Machine, Messenger, Settings, transport::local};
//! use std::sync::Arc;
//!
//! struct Chain { length: u32, n_ranks: u32, last: Store<u64> }
//!
//! task_space! {
//!     enum Link;
//!     impl TaskSpace for Chain {
//!         type Datum = u64;
//!         let length = self.length;
//!         data Sum[i] where i < 1 in self.last at 0 on Rank(0);
//!         Begin {}: update Sum[0];
//!         for i in 0..length {
//!             Add { i }: update sum = Sum[0], on Rank(i % self.n_ranks) => *sum += u64::from(i);
//!         }
//!         End {}: update Sum[0];
//!     }
//! }
//!
//! let ranks = local::connect(2).into_iter().map(|transport| std::thread::spawn(move || {
//!     let courier = Messenger::new(Box::new(transport), Settings::default(), Machine::new(), Arc::new(Heap))?;
//!     let chain = Chain { length: 10, n_ranks: 2, last: Store::new("last", [0]) };
//!     run_across(&chain, &Context::new(&Inline).across(&courier))?;
//!     Ok::<u64, Error>(*chain.last.get(0).unwrap())
//! }));
//! let sums: Vec<u64> = ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap()).collect::<Result<_, _>>()?;
//! assert_eq!(sums, [45, 0]); // the slot is one of rank 0
//! # Ok::<(), Error>(())
//! ```
//!
//! # The walk of a parcel
//!
//! ```text
//!   Line::post ──► depot::post ──► outbox ══ packet ══► intake ──► depot::heed ──► Inbox::deliver
//!                      │ (large)                                       │ (large)          ▲
//!                      ▼                                               ▼                  │
//!               rendezvous::Unclaimed ◄═══════ GET ═══════ rendezvous::Wanted             │
//!                      ╚═══════════════════ DATA ══════════════► room ────────────────────┘
//! ```
//!
//! 1. A task has finished; the engine [posts](dataflow_core::port::Line::post) one parcel for the ranks
//!    that need its outputs: the task's name and its flows, but not its successors.
//! 2. If a datum is small, and there is credit for it, it goes along inline. Of any other datum only head
//!    and size are sent, and the datum itself waits at the sender, unclaimed.
//! 3. The activation joins the open packet to that rank, which is sent as soon as no other is under way.
//! 4. At the receiver, packets become a stream of messages again: in order, each once.
//! 5. A parcel whose data are there is delivered at once. For other data the receiver allocates room, the
//!    most urgent first, and requests them (GET); a datum comes straight into that room (DATA).
//! 6. Besides, credit is returned, *beats* show that a rank lives, and when every rank has closed its
//!    line one sum over a tree ends the run, with the same smallest failure on every rank.
//!
//! Modules of the protocol are state machines without clock or threads, joined in [`depot`]; only
//! `progress` touches a transport. What is written on the wire: [`wire`].

// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod agreement;
mod bell;
mod broadcast;
mod counters;
mod courier;
mod credit;
pub mod depot;
mod family;
mod host;
mod intake;
mod outbox;
mod peers;
mod progress;
mod rendezvous;
mod settings;
pub mod start;
mod sync;
mod termination;
mod terms;
pub mod transport;
mod waits;
mod watchdog;
pub mod wire;

/// MPI's own types, for [`MpiWorld::over`](transport::mpi::MpiWorld::over).
#[cfg(feature = "mpi")]
pub use ::mpi as rsmpi;
pub use bell::Bell;
pub use counters::Counters;
pub use courier::Messenger;
pub use host::{Host, Machine, Thread, Turn};
pub use settings::{Drive, Settings};

use dataflow_core::port::{Failure, WireName};
use dataflow_core::rank::Rank;

/// 2⁶⁴ ÷ the golden ratio: multiples of it by numbers that differ by one lie far apart (Knuth, volume 3,
/// section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A failure that is no body's.
pub(crate) fn failure(rank: Rank, kind: &str, message: impl Into<String>) -> Failure {
    Failure {
        of_body: false,
        index: u64::MAX,
        name: WireName::new(),
        rank,
        kind: kind.into(),
        task: String::new(),
        message: message.into(),
    }
}

/// The example of the README, compiled and run like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
