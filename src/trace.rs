//! Traces: what a run did when, why it was not faster, and files and pictures of it.
//!
//! # Examples
//! ```
//! use dataflow::core::space::Independent;
//! use dataflow::trace::{self, Format};
//! let runtime = dataflow::Runtime::builder().threads(2).trace(1 << 20).build()?;
//! runtime.run(&Independent::new("nothing", 100, |_| Ok(())))?;
//! let traces = runtime.traces()?;
//! print!("{}", traces[0].explanation());
//! let mut picture = Vec::new();
//! trace::write_to(&traces[0], Format::Svg, &mut picture)?;
//! assert!(picture.starts_with(b"<"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use dataflow_core::trace::*;
pub use dataflow_trace::*;
