//! Laws of traces.
