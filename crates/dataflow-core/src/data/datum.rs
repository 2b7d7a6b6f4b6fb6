//! The trait of everything that can travel along an edge.

/// A piece of data that flows from task to task: a tile, or an enum of the few kinds that flow.
///
/// `Clone` is called only when a version is updated while others still read it; the engine
/// counts these copies in [`Report::copies`](crate::Report::copies).
///
/// A type of size zero, like `()`, means that edges carry no data and only order tasks.
pub trait Datum: Clone + Send + Sync + 'static {
    /// Bytes of payload, for statistics and for messages.
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl Datum for () {}
