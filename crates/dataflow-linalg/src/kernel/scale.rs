//! `scale`: a tile times a number.

use crate::matrix::tile::Tile;
use crate::scalar::Scalar;

/// `C ← β·C`. With β = 0 the tile becomes zero whatever it holds, NaN included; with β = 1 it is
/// not touched.
///
/// # Examples
/// ```
/// use dataflow_linalg::kernel::scale;
/// use dataflow_linalg::matrix::tile::Tile;
/// let mut c = Tile::from_rows([[1.0, f64::NAN]]);
/// scale(0.0, &mut c);
/// assert_eq!(c, Tile::from_rows([[0.0, 0.0]]));
/// ```
pub fn scale<T: Scalar>(beta: T, c: &mut Tile<T>) {
    let elements = c.as_mut_slice();
    if beta == T::zero() {
        bytemuck::fill_zeroes(elements);
    } else if beta != T::one() {
        elements.iter_mut().for_each(|element| *element *= beta);
    }
}
