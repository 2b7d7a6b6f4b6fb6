//! The determinant of A from R and its reflectors.
//!
//! # Law
//! I − τ·v·vᴴ is unitary if τ + τ̄ = |τ|²·‖v‖², so its determinant 1 − τ·‖v‖² is −τ/τ̄: −1 of real numbers;
//! and 1 if τ = 0. The τ stand on the diagonals of T. Those of a tile are multiplied in the order of its
//! columns, tiles panel by panel, so the bits depend on the factors only.

use super::reflectors::Reflectors;
use crate::determinant::{Determinant, diagonal_of};
use crate::error::LinalgError;
use crate::matrix::{Tile, TiledMatrix};
use crate::scalar::{Scalar, c64};
use dataflow_core::prelude::*;

/// The determinant of A, m = n, from R and its reflectors, all tiles on this rank.
///
/// # Errors
/// [`LinalgError::Overflow`] with the first number of R's diagonal that is not finite, unless one before it is
/// zero. If the matrix is not square, the reflectors are of another one or not there, or a tile is not at hand.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_linalg::{kernel::Backend, matrix::{Layout, TiledMatrix}, qr};
/// let a = TiledMatrix::from_fn(Layout::general(2, 2, 1)?, |i, j| [[0.0, 4.0], [2.0, 8.0]][i][j]);
/// let (q, _) = qr::factor(&a, qr::Options::of_order(1), Backend::Auto, &Inline)?;
/// let determinant = qr::determinant(&a, &q)?;
/// assert!((determinant.log_abs - 8f64.ln()).abs() < 1e-15);
/// assert_eq!(determinant.phase.re, -1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn determinant<T: Scalar>(
    r: &TiledMatrix<T>,
    q: &Reflectors<T>,
) -> Result<Determinant, LinalgError> {
    let shape = (r.rows(), r.cols());
    if shape.0 != shape.1 || r.layout() != q.layout() {
        let (rows, cols) = (q.layout().rows(), q.layout().cols());
        return Err(LinalgError::Shape(format!(
            "the determinant of a matrix{} of {} x {} with reflectors of {rows} x {cols} \
             (must be square, its reflectors of its layout)",
            r.label(),
            shape.0,
            shape.1
        )));
    }
    let of_r = Determinant::of_factor(&diagonal_of(r)?)?;
    let phases: Option<Vec<T>> = q.phases().map(|(_, phase)| phase).collect();
    let phases = phases.ok_or_else(|| {
        LinalgError::Shape("the reflectors are not there (the matrix was not factored)".into())
    })?;
    Ok(of_r.turned(phases))
}

impl<T: Scalar> Reflectors<T> {
    /// The determinants of the reflectors of each tile, one beside its rank: panel by panel from the top,
    /// those of a row that became a triangle before those by which it vanished. Those of other ranks, and all
    /// before the factorisation, are not there.
    pub fn phases(&self) -> impl Iterator<Item = (Rank, Option<T>)> {
        let rows = |k| (k..self.elimination.mt()).map(move |m| (m, k));
        let places = (0..self.elimination.panels()).flat_map(rows);
        places.flat_map(|(m, k)| {
            let rank = self.layout.rank_of(m as usize, k as usize);
            let of_store = |store: &Store<Tile<T>>| {
                let is_here = rank == self.layout.rank();
                let t = is_here.then(|| store.get(self.place(m, k))).flatten();
                (rank, t.map(|t| phase_of(&t)))
            };
            let reflects = self.elimination.is_triangle(k, m);
            let own = reflects.then(|| of_store(&self.t));
            own.into_iter().chain((m > k).then(|| of_store(&self.s)))
        })
    }
}

/// The product of the determinants of a tile's reflectors, whose triangles lie side by side.
fn phase_of<T: Scalar>(t: &Tile<T>) -> T {
    let of_one = |j: usize| {
        let tau = t.get(j % t.rows(), j);
        match c64::new(tau.re(), tau.im()) {
            tau if tau.norm_sqr() == 0.0 => c64::one(),
            tau => -(tau / tau.conj()),
        }
    };
    let product: c64 = (0..t.cols()).map(of_one).product();
    T::from_parts(product.re, product.im)
}
