//! QR of eight types and all shapes, along a tree of its turn; tests 1 to 7.

use crate::dense::Dense;
use crate::tally::Tally;
use crate::types::{Noise, regular};
use crate::world::World;
use crate::{EXTENTS, RIGHT_HAND_SIDES, is_sane};
use dataflow::linalg::kernel::{Backend, Op, Side};
use dataflow::linalg::qr::{
    Apply, Factor, Options, Reduction, Reflectors, Tree, form, least_squares, triangle,
};
use dataflow::linalg::scalar::Scalar;

const THRESHOLD: f64 = 30.0;
/// Orders of tiles and of the blocks inside.
const BLOCKS: [(usize, usize); 5] = [(1, 1), (3, 1), (3, 3), (7, 3), (20, 5)];
const TREES: [Tree; 5] = [
    Tree::Flat,
    Tree::Binary,
    Tree::Greedy,
    Tree::Fibonacci,
    Tree::Hierarchical {
        p: 2,
        a: 2,
        low: Reduction::Greedy,
        high: Reduction::Binary,
    },
];

pub fn cases<T: Scalar>(world: &World, tally: &mut Tally) {
    let shapes = EXTENTS.into_iter().flat_map(|m| EXTENTS.map(|n| (m, n)));
    let mut trees = TREES.into_iter().cycle();
    for ((m, n), kind) in shapes.flat_map(|shape| (1..=8).map(move |kind| (shape, kind))) {
        let mut a = None;
        // Every type meets every tree: their number and that of the blocks have nothing in common.
        trees.next();
        for (nb, ib) in BLOCKS {
            let tree = trees.next().unwrap_or_default();
            if is_sane(m.max(n), nb) && tally.tries() {
                let a = a.get_or_insert_with(|| regular::<T>(kind, m, n));
                let what = format!("type {kind}, {m} x {n}, nb = {nb}, ib = {ib}, {tree}");
                case::<T>(world, tally, a, (nb, Options { tree, ib }), &what);
            }
        }
    }
}

fn case<T: Scalar>(
    world: &World,
    tally: &mut Tally,
    a: &Dense,
    (nb, options): (usize, Options),
    what: &str,
) {
    let (m, n) = (a.rows, a.cols);
    let on = world.runtime;
    let tiles = world.general::<T>(a, nb);
    let q = Reflectors::new(tiles.layout(), options);
    let factor = Factor::new(&tiles, &q, Backend::Auto).unwrap();
    factor.run(on).unwrap();
    let r = world.gather(&triangle(&tiles, on).unwrap());
    let formed = form(&tiles, &q, m, Backend::Auto, on).unwrap();
    let formed = world.gather(&formed);
    let of_m = |scale: f64| m as f64 * scale * T::EPSILON;
    if world.leads() {
        // 1: R − Qᴴ·A
        let whole = Dense::from_fn(m, n, |i, j| if i <= j { r.at(i, j) } else { 0.0.into() });
        let off = whole.minus(&formed.adjoint().times(a)).norm();
        tally.ratio("geqrf", (off, of_m(a.norm())), THRESHOLD, what);
        // 2: I − Qᴴ·Q
        let gram = formed.adjoint().times(&formed);
        let off = Dense::unit(m).minus(&gram).norm();
        tally.ratio("orgqr", (off, of_m(1.0)), THRESHOLD, what);
    }
    // 3 to 6: Q·C, Qᴴ·C, C·Q, C·Qᴴ
    for side in [Side::Left, Side::Right] {
        for op in [Op::NoTranspose, Op::ConjTranspose] {
            let (rows, cols) = match side {
                Side::Left => (m, n),
                Side::Right => (n, m),
            };
            let c = Noise::new(3).matrix::<T>(rows, cols);
            let applied = world.general::<T>(&c, nb);
            let apply = Apply::new(&tiles, &q, (side, op), &applied, Backend::Auto).unwrap();
            apply.run(on).unwrap();
            let applied = world.gather(&applied);
            if world.leads() {
                let of_op = match op {
                    Op::NoTranspose => formed.clone(),
                    Op::Transpose | Op::ConjTranspose => formed.adjoint(),
                };
                let expected = match side {
                    Side::Left => of_op.times(&c),
                    Side::Right => c.times(&of_op),
                };
                let off = applied.minus(&expected).norm();
                let what = format!("{what}, {side:?} {op:?}");
                tally.ratio("ormqr", (off, of_m(c.norm())), THRESHOLD, &what);
            }
        }
    }
    // 7, and for wide matrices the shortest solution: B − A·X of a B that has one
    if m > 0 && n > 0 {
        for n_rhs in RIGHT_HAND_SIDES {
            let b = a.times(&Noise::new(5).matrix::<T>(n, n_rhs)).rounded::<T>();
            let (left, right) = (world.general::<T>(a, nb), world.general::<T>(&b, nb));
            let solved = least_squares(&left, &right, options, Backend::Auto, on);
            let (x, _) = solved.unwrap_or_else(|fault| panic!("{what}: {fault}"));
            let x = world.gather(&x);
            if world.leads() {
                let off = b.minus(&a.times(&x)).norm() / a.norm();
                let scale = m.max(n) as f64 * x.norm() * T::EPSILON;
                tally.ratio("gels", (off, scale), THRESHOLD, what);
            }
        }
    }
}
