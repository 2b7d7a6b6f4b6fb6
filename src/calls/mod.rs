//! Calls: linear algebra for programs that want an answer, not a graph; feature `linalg`.
//!
//! On arrays of ndarray ([`dense`]) and on tiled matrices ([`tiled`]), at once or with factors that
//! are kept ([`factored`]). [`site`] knows where a problem is worked on, and how it is cut.

mod copy;
mod dense;
mod factored;
mod site;
mod tiled;

pub use dense::Dense;
pub use factored::{
    CholeskyFactor, Lu, LuFactor, QrFactor, TiledCholeskyFactor, TiledLuFactor, TiledQrFactor,
};
pub use tiled::Tiled;
