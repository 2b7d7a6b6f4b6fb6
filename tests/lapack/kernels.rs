//! The kernels of tile QR alone: dchkqrt (geqrt, gemqrt) and dchkqrtp (tpqrt, tpmqrt).

use crate::EXTENTS;
use crate::dense::Dense;
use crate::tally::Tally;
use crate::types::Noise;
use dataflow::core::port::{Heap, Memory};
use dataflow::linalg::kernel::{Backend, Below, Op, Side, gemqrt, geqrt, tpmqrt, tpqrt};
use dataflow::linalg::matrix::{Format, Tile};
use dataflow::linalg::scalar::{Scalar, c64};
use std::sync::Arc;

const THRESHOLD: f64 = 30.0;
const INNER_BLOCKS: [usize; 3] = [1, 3, 20];
const WAYS: [(Side, Op); 4] = [
    (Side::Left, Op::NoTranspose),
    (Side::Left, Op::ConjTranspose),
    (Side::Right, Op::NoTranspose),
    (Side::Right, Op::ConjTranspose),
];

pub fn cases<T: Scalar>(tally: &mut Tally) {
    let shapes = EXTENTS.into_iter().flat_map(|m| EXTENTS.map(|n| (m, n)));
    for ((m, n), ib) in shapes.flat_map(|shape| INNER_BLOCKS.map(|ib| (shape, ib))) {
        let what = format!("{m} x {n}, ib = {ib}");
        if ib <= m.min(n) && tally.tries() {
            alone::<T>(tally, (m, n), ib, &what);
        }
        for below in [Below::Square, Below::Triangle] {
            if n > 0 && ib <= n && tally.tries() {
                stacked::<T>(tally, (m, n), ib, below, &format!("{what}, {below:?}"));
            }
        }
    }
}

fn tile<T: Scalar>(a: &Dense) -> Tile<T> {
    let heap: Arc<dyn Memory> = Arc::new(Heap);
    let format = Format::SubTiled { order: 8 };
    Tile::from_fn(a.rows, a.cols, format, &heap, |i, j| a.entry(i, j))
}

fn dense<T: Scalar>(tile: &Tile<T>) -> Dense {
    Dense::from_fn(tile.rows(), tile.cols(), |i, j| {
        let entry = tile.get(i, j);
        c64::new(entry.re(), entry.im())
    })
}

/// What four applications to C and Cᵀ must be.
fn expected(q: &Dense, c: &Dense, (side, op): (Side, Op)) -> Dense {
    let of_op = match op {
        Op::NoTranspose => q.clone(),
        Op::Transpose | Op::ConjTranspose => q.adjoint(),
    };
    match side {
        Side::Left => of_op.times(c),
        Side::Right => c.times(&of_op),
    }
}

/// Six ratios of geqrt and gemqrt.
fn alone<T: Scalar>(tally: &mut Tally, (m, n): (usize, usize), ib: usize, what: &str) {
    let k = m.min(n);
    let a = Noise::new(1).matrix::<T>(m, n);
    let (mut r, mut v) = (tile::<T>(&a), tile::<T>(&Dense::zeros(m, k)));
    let mut t = tile::<T>(&Dense::zeros(ib, k));
    geqrt(Backend::Auto, &mut r, &mut v, &mut t);
    let applied = |way, c: &Dense| {
        let mut tile = tile::<T>(c);
        gemqrt(Backend::Auto, way, &v, &t, &mut tile);
        dense(&tile)
    };
    let q = applied(WAYS[0], &Dense::unit(m));
    let of_m = |scale: f64| m as f64 * scale * T::EPSILON;
    let off = dense(&r).minus(&q.adjoint().times(&a)).norm();
    tally.ratio("geqrt", (off, of_m(a.norm())), THRESHOLD, what);
    let off = Dense::unit(m).minus(&q.adjoint().times(&q)).norm();
    tally.ratio("geqrt", (off, of_m(1.0)), THRESHOLD, what);
    let c = Noise::new(2).matrix::<T>(m, n);
    for way in WAYS {
        let c = if way.0 == Side::Left {
            c.clone()
        } else {
            c.transposed()
        };
        let off = applied(way, &c).minus(&expected(&q, &c, way)).norm();
        tally.ratio("geqrt", (off, of_m(c.norm())), THRESHOLD, what);
    }
}

/// Six ratios of tpqrt and tpmqrt: n rows of a triangle above m rows.
fn stacked<T: Scalar>(
    tally: &mut Tally,
    (m, n): (usize, usize),
    ib: usize,
    below: Below,
    what: &str,
) {
    let a = Noise::new(1).matrix::<T>(n + m, n);
    let a = a.only(|i, j| match i.checked_sub(n) {
        None => i <= j,
        Some(i) => below == Below::Square || i <= j,
    });
    let part = |a: &Dense, rows: std::ops::Range<usize>| {
        Dense::from_fn(rows.len(), a.cols, |i, j| a.at(rows.start + i, j))
    };
    let join = |top: &Dense, bottom: &Dense| {
        Dense::from_fn(top.rows + bottom.rows, top.cols, |i, j| {
            match i.checked_sub(top.rows) {
                None => top.at(i, j),
                Some(i) => bottom.at(i, j),
            }
        })
    };
    let (mut r, mut v) = (tile::<T>(&part(&a, 0..n)), tile::<T>(&part(&a, n..n + m)));
    let mut t = tile::<T>(&Dense::zeros(ib, n));
    tpqrt(Backend::Auto, below, &mut r, &mut v, &mut t);
    let applied = |way: (Side, Op), c: &Dense| {
        let turned = way.0 == Side::Right;
        let c = if turned { c.transposed() } else { c.clone() };
        let halves = [part(&c, 0..n), part(&c, n..n + m)];
        let turn = |half: &Dense| {
            if turned {
                half.transposed()
            } else {
                half.clone()
            }
        };
        let [mut first, mut second] = halves.map(|half| tile::<T>(&turn(&half)));
        tpmqrt(
            Backend::Auto,
            way,
            below,
            (&v, &t),
            (&mut first, &mut second),
        );
        turn(&join(&turn(&dense(&first)), &turn(&dense(&second))))
    };
    let q = applied(WAYS[0], &Dense::unit(n + m));
    let of_all = |scale: f64| (n + m) as f64 * scale * T::EPSILON;
    let whole = join(&dense(&r).only(|i, j| i <= j), &Dense::zeros(m, n));
    let off = whole.minus(&q.adjoint().times(&a)).norm();
    tally.ratio("tpqrt", (off, of_all(a.norm())), THRESHOLD, what);
    let off = Dense::unit(n + m).minus(&q.adjoint().times(&q)).norm();
    tally.ratio("tpqrt", (off, of_all(1.0)), THRESHOLD, what);
    let c = Noise::new(2).matrix::<T>(n + m, n);
    for way in WAYS {
        let c = if way.0 == Side::Left {
            c.clone()
        } else {
            c.transposed()
        };
        let off = applied(way, &c).minus(&expected(&q, &c, way)).norm();
        tally.ratio("tpqrt", (off, of_all(c.norm())), THRESHOLD, what);
    }
}
