//! Transposed copies of blocks.
//!
//! Some columns at a time from top to bottom: so each is one stream, which processors fetch ahead, and whole
//! cache lines are read or written beside. By squares, as they come from memory, it takes three to five
//! times as long.

use std::array;

use ::faer::{ColRef, MatMut, MatRef};

use super::larfg::whole;
use crate::scalar::Scalar;

/// How many columns are gone through at a time: a cache line of `f64` in each row.
const STREAMS: usize = 8;

/// `to` ← Xᵀ, column-major without gaps.
pub(super) fn transpose<T: Scalar>(x: MatRef<'_, T>, to: &mut [T]) {
    let (rows, cols) = (x.nrows(), x.ncols());
    let column = |j| x.col(j).try_as_col_major().map(ColRef::as_slice);
    for left in (0..cols).step_by(STREAMS) {
        let columns = array::from_fn(|j| (left + j < cols).then(|| column(left + j)).flatten());
        if let [
            Some(a),
            Some(b),
            Some(c),
            Some(d),
            Some(e),
            Some(f),
            Some(g),
            Some(h),
        ] = columns
        {
            // Of one length that the loop knows: nothing is looked at in it.
            let [a, b, c, d, e, f, g, h] = [a, b, c, d, e, f, g, h].map(|column| &column[..rows]);
            for i in 0..rows {
                if let Some(line) = to[i * cols + left..].first_chunk_mut() {
                    *line = [a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i]];
                }
            }
        } else {
            for j in left..cols.min(left + STREAMS) {
                (0..rows).for_each(|i| to[i * cols + j] = x[(i, j)]);
            }
        }
    }
}

/// `to` ← Xᵀ, where X is column-major without gaps.
pub(super) fn transpose_into<T: Scalar>(x: &[T], to: MatMut<'_, T>) {
    let (rows, cols) = (to.nrows(), to.ncols());
    let mut columns: Vec<_> = to.col_iter_mut().map(whole).collect();
    for (left, columns) in (0..).step_by(STREAMS).zip(columns.chunks_mut(STREAMS)) {
        if let [a, b, c, d, e, f, g, h] = columns {
            let [a, b, c, d] = [a, b, c, d].map(|column| &mut column[..rows]);
            let [e, f, g, h] = [e, f, g, h].map(|column| &mut column[..rows]);
            for i in 0..rows {
                if let Some(line) = x[i * cols + left..].first_chunk() {
                    [a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i]] = *line;
                }
            }
        } else {
            for (j, column) in (left..).zip(columns) {
                let column = column.iter_mut().enumerate();
                column.for_each(|(i, to)| *to = x[i * cols + j]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::faer::prelude::Reborrow;

    #[test]
    fn a_block_of_any_shape_comes_back_and_nothing_beside_it_changes() {
        for (rows, cols) in [
            (1, 1),
            (7, 8),
            (8, 7),
            (16, 9),
            (5, 24),
            (0, 3),
            (3, 0),
            (33, 17),
        ] {
            let stride = rows + 2;
            let given: Vec<f64> = (0..stride * cols).map(|i| i as f64).collect();
            let view = MatRef::from_column_major_slice_with_stride(&given, rows, cols, stride);
            let mut transposed = vec![f64::NAN; rows * cols];
            transpose(view, &mut transposed);
            for i in 0..rows {
                for j in 0..cols {
                    assert!(transposed[i * cols + j] == view[(i, j)], "{rows} x {cols}");
                }
            }
            let mut back = vec![-1.0; stride * cols];
            let into =
                MatMut::from_column_major_slice_with_stride_mut(&mut back, rows, cols, stride);
            transpose_into(&transposed, into);
            let found = MatRef::from_column_major_slice_with_stride(&back, rows, cols, stride);
            assert!(found == view.rb(), "{rows} x {cols}");
            let beside = back
                .chunks(stride.max(1))
                .flat_map(|column| &column[rows..]);
            assert!(beside.into_iter().all(|x| *x == -1.0), "{rows} x {cols}");
        }
    }
}
