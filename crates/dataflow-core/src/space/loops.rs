//! Loops in, formulas out: `task_space!`.

/// A task space from the loop nest of a textbook: both ends of every edge are derived at compile time,
/// exactly, and nothing is unrolled.
///
/// It makes the enum of the tasks' names, and implements [`TaskSpace`](crate::space::TaskSpace) for a
/// type of yours.
///
/// # Examples
/// The tile Cholesky factorisation, A = L·Lᵀ, here with tiles of one number:
/// ```
/// use dataflow_core::prelude::*;
///
/// struct Cholesky { tiles: Store<f64>, nt: u32 }
///
/// task_space! {
///     /// The tasks of tile Cholesky: indices of tiles, k the step.
///     pub enum Task;
///
///     impl TaskSpace for Cholesky {
///         type Datum = f64;
///         let nt = self.nt;
///         data A[m, n] where n <= m && m < nt in self.tiles at m * nt + n;
///
///         for k in 0..nt {
///             Potrf { k }: update tile = A[k, k] => {
///                 if *tile <= 0.0 {
///                     return Err(TaskError::new("not_positive", "a pivot is not positive").with_index(k.into()));
///                 }
///                 *tile = tile.sqrt();
///             }
///             for m in k + 1..nt {
///                 Trsm { m, k }: update tile = A[m, k], read l = A[k, k] => *tile /= *l;
///             }
///             for m in k + 1..nt {
///                 Herk { m, k }: update tile = A[m, m], read l = A[m, k] => *tile -= *l * *l;
///                 for n in k + 1..m {
///                     Gemm { m, n, k }:
///                         update tile = A[m, n], read left = A[m, k], read right = A[n, k],
///                         priority nt - k
///                         => *tile -= *left * *right;
///                 }
///             }
///         }
///     }
/// }
///
/// let entries = [[4.0, 0.0, 0.0], [2.0, 2.0, 0.0], [2.0, 3.0, 14.0]];
/// let space = Cholesky { tiles: Store::new("tiles", entries.as_flattened().iter().copied()), nt: 3 };
/// verify(&space, 1)?;
/// let report = dataflow_core::run(&space, &dataflow_core::port::Inline)?;
/// let l = |m: usize, n: usize| *space.tiles.get(m * 3 + n).unwrap();
/// assert_eq!((report.tasks, l(0, 0), l(1, 1), l(2, 1), l(2, 2)), (10, 2.0, 1.0, 2.0, 3.0));
/// assert!(Task::formulas().contains("<- Gemm { m, n, k: k - 1 }.tile otherwise"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Grammar
/// First the enum of the tasks' names with its documentation and visibility; then an `impl` with the
/// generics that the type has. In it, in any order:
///
/// - `type Datum = …;` the type of the data that flow between tasks.
/// - `let nt = self.nt;` a parameter: an expression of type `u32`, the same for all tasks, in which those
///   before it may stand. It is computed at each question to the space that needs it: let it be a field. A
///   size that you have as `usize` is made a `u32` once, where the space is built, `u32::try_from(n)?`; a
///   slot may be a `usize`: `at m as usize * self.ld + n as usize`.
/// - `data A[m, n] in STORE at SLOT on RANK of "kind";` a family of data. It comes from the slot of a
///   [`Store`](crate::data::Store) and goes back there; without `in … at …` tasks make its data, which
///   are dropped after their last reader. `on` says where tasks run that write it first: a rank, or
///   `on (m % p, n % q)` for a grid of p × q ranks, row by row, or `on m % p` for a row of ranks; with
///   these forms each rank lists and counts its own tasks without visiting the others'. `of` names the
///   kind of datum for [`verify`](crate::space::verify). With `where CONDITION` before all this, the
///   compiler refuses every access outside. The expressions may use `self`, parameters, and the
///   subscripts as `u32`. Slots and ranks are computed as they are written, and may be of wider types on
///   the way: `i * n_ranks` of `u32` wraps or panics where it is more than fits.
/// - `order H[i, j];` a family without data, which only orders tasks: they read and update its elements
///   and make them `new`; a task that reads an element which no task has written waits for none. A new
///   element leaves the task by the flow of the first such element that the task reads.
/// - `dense;` or `dense if CONDITION;` numbers the tasks ([`index`](crate::space::TaskSpace::index)),
///   statement by statement; the condition is on parameters and `self`. Tasks have a number only where no
///   `if` leaves out iterations of a loop, where no loop ends before it begins, whatever the parameters
///   (`0..n` and `1..=n` do not, `1..n` does where `n` is 0), and where the parameters are so small that its
///   computation needs no more than 63 bits (64 if its formula subtracts nothing).
/// - functions of the trait. `rank`, `owner`, `priority`, `tasks`, `roots`, `count` and `index` replace
///   the derived ones. `describe`, `inputs` and `successors` are completed: the classes and their flows,
///   and all derived edges, are added to what the function says (see below). What is derived calls methods
///   of traits in the prelude of the standard library, which so must be in scope; types and functions of
///   yours may be called as those there, and as those of the trait.
/// - loops, `for k in 0..nt { … }`, `..=`, and backwards `for k in (0..nt).rev() { … }`;
/// - conditions, `if m > k + 1 && n != k { … } else { … }`;
/// - statements, `NAME { PARAMETERS }: ACCESSES, on RANK, priority URGENCY => BODY`, of which all but name
///   and accesses may be missing; an expression as body ends with `;`, a block needs none. Of two tasks
///   the one with the higher urgency runs earlier.
///
/// Bounds, conditions and subscripts are affine: sums of loop variables and parameters, each times an
/// integer, and of an integer. The parameters of a task are the variables of the loops around it, in
/// any order; the one in which neighbours differ belongs last
/// ([`TaskName::pack`](crate::space::TaskName::pack)). Loop variables and subscripts are less than
/// 2³² - 1; a loop that ends beyond, say `0..100 * n`, panics. Several nests, one after the other, are one
/// graph without a barrier.
///
/// # Accesses
/// Each is a flow of the task, numbered and named in the order of the text, and the body uses the datum
/// by the name given here:
///
/// | access | the body gets | what it means |
/// |---|---|---|
/// | `read x = A[i]` | `&Datum` | the version written last before, or the one at home |
/// | `optional x = A[i]` | `Option<&Datum>` | of a family without a store, the version written last before, or `None` where no task wrote it |
/// | `update x = A[i]` | `&mut Datum` | changes it; later reads get the changed version |
/// | `new x = A[i]` | a [`Slot`](crate::space::Slot) to `put` it into | makes it |
/// | `give x = A[i]` | `&Datum` | takes it from home, or as it was written last, for all who read it later, and changes nothing |
///
/// `optional` reaches no further than its family: a subscript outside of its `where` is refused, as for
/// `read`, and is not `None`. In a family with a store each datum is there, and `optional` is `read`.
///
/// `order done` is a flow without a datum whose edges do not follow from the loops. Relations (below)
/// add them to those of the loops: `Solve { k }.done -> Give { k: k + 4 }.after;`. Edges for which there
/// is no formula (a grid, a table) are written in `inputs` and `successors`, both ends.
///
/// A task runs on the rank of the first datum that it writes (or gives: it stands for the datum from then
/// on), or `on` the rank that it names; an element of an `order` family counts where the family says `on`.
/// It reads and fills stores of that rank only; so over ranks a datum that tasks of other ranks read must first be
/// given by a task of its owner. A task that overwrites a version does not wait for the tasks that read
/// it: if they still hold it, the overwriting task gets a copy.
///
/// The body is a block or an expression of type `()`; `?` and `return Err(…)` fail the task with a
/// [`TaskError`](crate::error::TaskError). It can use `self` and the parameters of task and space.
///
/// # Relations
/// A graph that is no loop nest is written as relations: each statement has its own loops, and a line for
/// each family of edges gives their source and target; both ends are derived from it. Names in a line
/// that are no parameters are variables of the line. A line holds wherever both tasks are in the space,
/// and `for` and `if` narrow that. A flow that no line feeds comes from home; a flow that goes home needs a
/// line. Where a line is about data, lines say all edges: an element of an `order` family that none names is
/// refused. Lines that only order are added to what loops say, and name flows `order done`, no elements.
/// A statement of Cholesky and two lines:
/// ```text
/// Gemm { m, n, k } for k in 0..nt, m in k + 1..nt, n in k + 1..m:
///     update tile = A[m, n], read left, read right => *tile -= *left * *right;
///
/// Trsm { m: n, k }.tile -> Gemm { m, n, k }.right, for m in n + 1..nt;
/// Trsm { m, k }.tile -> home;
/// ```
///
/// # What is derived
/// All methods of the trait: inputs and successors, with ranges where a datum is broadcast; `roots` by
/// formula; `count`, where a rank has all tasks as a polynomial if there is one, and on a grid of ranks
/// as a sum of lengths of loops, but 2⁶⁴ − 1 on each if that is what all have by the polynomial, or
/// more; `rank`; and `index` if asked for. The formulas stand in the documentation
/// of the enum, and its functions `formulas()` and `relations()` return them.
#[macro_export]
macro_rules! task_space {
    ($($written:tt)*) => { $crate::macros::task_space! { $crate $($written)* } };
}
