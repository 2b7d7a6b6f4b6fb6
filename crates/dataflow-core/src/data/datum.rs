//! The trait of everything that can travel along an edge.

/// A piece of data that flows from task to task: a tile, or an enum of the few kinds that flow.
///
/// `Clone` is called only when a version is updated while others still read it; the engine
/// counts these copies in [`Report::copies`](crate::Report::copies).
///
/// Numbers and vectors of plain values are data already.
///
/// A type of size zero, like `()`, means that edges carry no data and only order tasks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Datum`: it cannot flow from task to task",
    label = "no datum",
    note = "a datum is a type of your own: `#[derive(Clone)] struct Piece {{ … }}` and `impl Datum for Piece {{}}`; edges that carry nothing have the datum `()`"
)]
pub trait Datum: Clone + Send + Sync + 'static {
    /// Bytes of payload, for statistics and for messages.
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// The NUMA node on which the payload lies, as the executor numbers them; `None` if nobody
    /// knows. A hint: tasks go to where most of their input lies.
    ///
    /// Asked for every task that gets the datum on a machine of several NUMA nodes, now and then
    /// while its store is locked: so it should be remembered, not looked up.
    fn numa_node(&self) -> Option<usize> {
        None
    }
}
