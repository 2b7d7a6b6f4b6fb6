//! Matrices cut into tiles: how they are laid out, where their entries come from and go to, and
//! what can be measured on them.
//!
//! | question | room |
//! |---|---|
//! | how do the elements of one block lie? | [`tile`] |
//! | how does a block travel? | `wire` |
//! | which rank owns a tile, which slot holds it? | [`distribution`], [`layout`] |
//! | the matrix itself, and a task for each of its tiles | [`tiled`], [`EachTile`] |
//! | who makes the tiles? | `fill` |
//! | on which rank may a run take them? | `seen` |
//! | how does one matrix become another, cut anew or transposed? | [`transfer`] |
//! | how does a rank get all of it? | `collect` |
//! | where do entries come from? | [`entries`], [`generate`], [`market`], [`convert`] |
//! | how large is it, is it finite, is a result right? | [`norm`], `scan`, [`Regular`], [`check`], [`digest`] |

pub mod tile;

pub mod distribution;
pub mod layout;

mod wire;

mod each;
pub mod entries;
mod fill;
pub mod tiled;

pub mod convert;
pub mod generate;
pub mod market;

pub(crate) mod ample;
pub mod check;
mod collect;
pub mod digest;
pub mod norm;
mod regular;
pub(crate) mod rest;
mod scan;
pub(crate) mod seen;
pub mod transfer;
mod weighed;

pub(crate) use collect::Collect;
pub use distribution::{Distribution, Grid, GridError};
pub use each::EachTile;
pub(crate) use entries::column_major_of;
pub use entries::{AdjointEntries, ColumnMajor, Entries};
pub(crate) use fill::{Fill, FillTask};
pub(crate) use layout::column_by_column;
pub use layout::{Layout, LayoutError, Structure};
pub use regular::{Regular, RegularTask};
pub use tile::{Format, Part, Tile};
pub(crate) use tiled::LaidOut;
pub use tiled::TiledMatrix;
pub(crate) use tiled::{expect_numbered, expect_two};
