//! The guide: a page for each question. All programs on these pages are tested.
//!
//! | question | page |
//! |---|---|
//! | How do I get from nothing to a solved system? | [`first`] |
//! | Which form of graph do I take? | [`which`] |
//! | How do I write my first graph? | [`graph`] |
//! | How do I work through a stream of records? | [`stream`] |
//! | How do I write a graph that is never stored? | [`loops`] |
//! | How does my graph run on many machines? | [`ranks`] |
//! | How do I iterate until convergence? | [`converge`] |
//! | A·X = B: what is X? | [`solve`] |
//! | How far can X be trusted? Does half the precision suffice? | [`trust`] |
//! | What are the factors of A? | [`factor`] |
//! | How do I solve a least squares problem? | [`least_squares`] |
//! | What is A⁻¹? | [`inverse`] |
//! | What is A·B? | [`multiply`] |
//! | How do ranks talk over a network of my own? | [`transport`] |
//! | Why is it slow? | [`slow`] |
//! | What would it do on a machine that I do not have? | [`machines`] |
//! | Which call is LAPACK's or ScaLAPACK's …? | [`names`] |
//!
//! [docs/ranks.md](https://github.com/dataflow-rs/dataflow/blob/main/docs/ranks.md) in the repository says how
//! programs are started on several ranks.

#[doc = include_str!("../docs/guide/converge.md")]
pub mod converge {}
#[doc = include_str!("../docs/guide/factor.md")]
pub mod factor {}
#[doc = include_str!("../docs/guide/first.md")]
pub mod first {}
#[doc = include_str!("../docs/guide/graph.md")]
pub mod graph {}
#[doc = include_str!("../docs/guide/inverse.md")]
pub mod inverse {}
#[doc = include_str!("../docs/guide/least_squares.md")]
pub mod least_squares {}
#[doc = include_str!("../docs/guide/loops.md")]
pub mod loops {}
#[doc = include_str!("../docs/guide/machines.md")]
pub mod machines {}
#[doc = include_str!("../docs/guide/multiply.md")]
pub mod multiply {}
#[doc = include_str!("../docs/guide/names.md")]
pub mod names {}
#[doc = include_str!("../docs/guide/ranks.md")]
pub mod ranks {}
#[doc = include_str!("../docs/guide/slow.md")]
pub mod slow {}
#[doc = include_str!("../docs/guide/solve.md")]
pub mod solve {}
#[doc = include_str!("../docs/guide/stream.md")]
pub mod stream {}
#[doc = include_str!("../docs/guide/transport.md")]
pub mod transport {}
#[doc = include_str!("../docs/guide/trust.md")]
pub mod trust {}
#[doc = include_str!("../docs/guide/which.md")]
pub mod which {}
