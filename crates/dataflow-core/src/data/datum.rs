//! The trait of everything that can travel along an edge.

/// A piece of data that flows from task to task: a tile, or an enum of the few kinds that flow.
///
/// `Clone` is called only when a version is updated while others still read it; the engine
/// counts these copies in [`Report::copies`](crate::Report::copies).
///
/// Numbers and vectors of plain values implement it.
///
/// A type of size zero, like `()`, means that edges carry no data and only order tasks.
///
/// # Examples
/// ```
/// use dataflow_core::data::{Datum, Store};
///
/// #[derive(Clone)]
/// enum Piece { Row(Vec<f64>), Sum(f64) }
///
/// impl Datum for Piece {
///     fn bytes(&self) -> usize {
///         match self {
///             Piece::Row(row) => size_of_val(&row[..]),
///             Piece::Sum(sum) => size_of_val(sum),
///         }
///     }
/// }
///
/// let pieces = Store::new("pieces", [Piece::Row(vec![1.0; 4]), Piece::Sum(4.0)]);
/// assert_eq!(pieces.get(0).unwrap().bytes(), 32);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Datum`: it cannot flow from task to task",
    label = "no datum",
    note = "numbers and vectors of plain numbers are data; so is a type of your own: `#[derive(Clone)] struct Piece {{ … }}` and `impl Datum for Piece {{}}`; edges that carry nothing have the datum `()`"
)]
pub trait Datum: Clone + Send + Sync + 'static {
    /// Bytes of payload, for statistics and for messages.
    ///
    /// Sometimes it is called while the store is locked: do not use a [`Store`](crate::data::Store) in it.
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// The NUMA node on which the payload lies, as the executor numbers them; `None` if that is not
    /// known. A hint: tasks run where most of their input lies.
    ///
    /// On a machine of several NUMA nodes it is called for every task that gets the datum, sometimes
    /// while the store is locked. So return a remembered value; ask neither the system nor a store.
    fn numa_node(&self) -> Option<usize> {
        None
    }
}
