//! Matrix Market files: reading and writing.
//!
//! # The rules
//! - The first line is the banner: five words, the first exactly `%%MatrixMarket`, the rest in any
//!   case: `matrix`, `coordinate` or `array`, a [`Field`], a [`Symmetry`]. A byte-order mark before
//!   it is skipped.
//! - Comments (`%`) and blank lines may stand anywhere after it; words are separated by any white
//!   space; lines end in LF or CRLF, the last one need not end.
//! - One entry per line. Indices count from 1. Coordinate `general`: entries at one position are
//!   summed. Other symmetries store either triangle, a position or its mirror only once;
//!   skew-symmetric has no diagonal; hermitian is complex with a real diagonal.
//! - Integers are integers; text that denotes a finite number must fit `f64` (what is too small
//!   becomes 0); `nan` and `inf` spelled out are values.
//! - Declared sizes are never trusted: entries are counted as they come, and a matrix that does not
//!   fit is refused before anything is allocated for it.
//! - Every refusal names file, line and reason.
//!
//! # Source
//! Boisvert, Pozo, Remington, *The Matrix Market exchange formats: initial design*, NISTIR 5935,
//! 1996; stricter where that leaves a choice.
//!
//! # Examples
//! ```
//! use dataflow_linalg::matrix::{Layout, market::{Reader, physical_memory}};
//! use std::sync::Arc;
//! let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 4\n2 1 -1.5\n";
//! let mut reader = Reader::new("small.mtx", text.as_bytes())?;
//! assert_eq!((reader.header().rows, reader.header().entries), (2, 2));
//! let layout = Layout::lower(2, 1)?;
//! let a = reader.read_tiled::<f64>(layout, Arc::new(dataflow_core::port::Heap), physical_memory())?;
//! assert_eq!(a.get(0, 1), Some(-1.5));
//!
//! let text = "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 4\n";
//! let refused = Reader::new("wrong.mtx", text.as_bytes())?.find_map(Result::err).unwrap();
//! assert_eq!(
//!     refused.to_string(),
//!     "wrong.mtx: line 3: row index 3 is outside the matrix (must be 1 to 2)"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod banner;
mod error;
mod header;
mod lines;
mod read;
mod write;

pub use banner::{Field, Storage, Symmetry};
pub use error::{ReadError, Reason, WriteError};
pub use header::Header;
pub use read::{Counts, Entry, Reader, physical_memory};
pub use write::write;
