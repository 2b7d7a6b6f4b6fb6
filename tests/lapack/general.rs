//! GE: LU with partial pivoting of eleven types and all shapes; tests 1 to 4.
//!
//! Test 1 must stay below 2: LAPACK's 30 cannot tell partial pivoting from none.

use crate::definite::solution;
use crate::dense::Dense;
use crate::tally::Tally;
use crate::types::{Noise, general};
use crate::world::World;
use crate::{EXTENTS, RIGHT_HAND_SIDES, TILE_ORDERS, is_sane};
use dataflow::linalg::kernel::{Backend, Op};
use dataflow::linalg::lu::{Factor, Pivots, Solve, expect_regular};
use dataflow::linalg::matrix::TiledMatrix;
use dataflow::linalg::scalar::Scalar;

pub fn cases<T: Scalar>(world: &World, tally: &mut Tally) {
    let shapes = EXTENTS.into_iter().flat_map(|m| EXTENTS.map(|n| (m, n)));
    for ((m, n), nb) in shapes.flat_map(|shape| TILE_ORDERS.map(|nb| (shape, nb))) {
        for kind in 1..=11 {
            if !is_sane(m.max(n), nb) || !tally.tries() {
                continue;
            }
            if let Some((a, info)) = general::<T>(kind, m, n) {
                let what = format!("type {kind}, {m} x {n}, nb = {nb}");
                case::<T>(world, tally, (&a, info), nb, &what);
            }
        }
    }
}

/// The row swaps of all ranks, in order.
fn all_swaps<T: Scalar>(world: &World, pivots: &Pivots<T>) -> Vec<(u64, u64)> {
    let own = pivots
        .rows()
        .flat_map(|(row, pivot)| [row as u64, pivot as u64]);
    let all = world
        .runtime
        .gather(own.flat_map(u64::to_le_bytes).collect());
    let all = all.unwrap().concat();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let swap = |bytes: &[u8]| (number(&bytes[..8]), number(&bytes[8..]));
    let mut swaps: Vec<_> = all.chunks_exact(16).map(swap).collect();
    swaps.sort_unstable();
    swaps
}

fn case<T: Scalar>(
    world: &World,
    tally: &mut Tally,
    (a, expected): (&Dense, u64),
    nb: usize,
    what: &str,
) {
    let (m, n, short) = (a.rows, a.cols, a.rows.min(a.cols));
    let (on, courier) = (world.runtime, world.runtime.courier());
    let factors = world.general::<T>(a, nb);
    let pivots = Pivots::new(&factors);
    let factor = Factor::new(&factors, &pivots, Backend::Auto).unwrap();
    factor.run_across(on, courier, &world.monitor).unwrap();
    let found = expect_regular(&factors, on, courier);
    let found = found
        .err()
        .map_or(0, |error| error.index().unwrap_or(u64::MAX));
    tally.info("getrf", found, expected, what);
    assert_eq!(found, expected, "{what}");
    let (of_lu, swaps) = (world.gather(&factors), all_swaps(world, &pivots));
    if world.leads() {
        // 1: P·A − L·U
        let l = Dense::from_fn(m, short, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => 0.0.into(),
            std::cmp::Ordering::Equal => 1.0.into(),
            std::cmp::Ordering::Greater => of_lu.at(i, j),
        });
        let u = Dense::from_fn(
            short,
            n,
            |i, j| if i <= j { of_lu.at(i, j) } else { 0.0.into() },
        );
        let mut order: Vec<usize> = (0..m).collect();
        swaps
            .iter()
            .for_each(|&(row, pivot)| order.swap(row as usize, pivot as usize));
        let swapped = Dense::from_fn(m, n, |i, j| a.at(order[i], j));
        let off = swapped.minus(&l.times(&u)).norm();
        let scale = n as f64 * a.norm() * T::EPSILON;
        tally.ratio("getrf", (off, scale), 2.0, what);
    }
    if m == n && expected == 0 {
        solves::<T>(world, tally, (a, &factors, &pivots), nb, what);
    }
}

/// Tests 2 to 4, of A, Aᵀ and Aᴴ.
fn solves<T: Scalar>(
    world: &World,
    tally: &mut Tally,
    (a, factors, pivots): (&Dense, &TiledMatrix<T>, &Pivots<T>),
    nb: usize,
    what: &str,
) {
    let n = a.rows;
    let solve = |op, b: &Dense| {
        let x = world.general::<T>(b, nb);
        let solve = Solve::new(factors, pivots, op, &x, Backend::Auto).unwrap();
        let run = solve.run_across(world.runtime, world.runtime.courier(), &world.monitor);
        run.unwrap();
        world.gather(&x)
    };
    // 2: I − A·A⁻¹, which is solved for column by column
    let inverse = solve(Op::NoTranspose, &Dense::unit(n));
    if world.leads() {
        let off = Dense::unit(n).minus(&a.times(&inverse)).norm();
        let scale = n as f64 * (a.norm() * inverse.norm()) * T::EPSILON;
        tally.ratio("getri", (off, scale), 30.0, what);
    }
    for op in [Op::NoTranspose, Op::Transpose, Op::ConjTranspose] {
        let (of_op, inverse) = match op {
            Op::NoTranspose => (a.clone(), inverse.clone()),
            Op::Transpose => (a.transposed(), inverse.transposed()),
            Op::ConjTranspose => (a.adjoint(), inverse.adjoint()),
        };
        let condition = of_op.norm() * inverse.norm();
        for n_rhs in RIGHT_HAND_SIDES {
            let exact = Noise::new(7).matrix::<T>(n, n_rhs);
            let b = of_op.times(&exact).rounded::<T>();
            let x = solve(op, &b);
            if world.leads() {
                let rest = b.minus(&of_op.times(&x));
                let what = format!("{what}, {op:?}");
                let scales = (of_op.norm(), condition);
                solution::<T>(tally, "getrs", (&rest, &x, &exact), scales, &what);
            }
        }
    }
}
