//! GE: LU of eleven types and all shapes, with each way to pivot; tests 1 to 4, and on one rank 8.
//!
//! Test 1 must stay below 2: LAPACK's 30 cannot tell partial pivoting from none. Incremental
//! pivoting has factors of another form: it is judged by INFO and by solutions of A·X = B.

use crate::definite::{estimation, solution};
use crate::dense::Dense;
use crate::tally::Tally;
use crate::types::{Noise, general};
use crate::world::World;
use crate::{EXTENTS, RIGHT_HAND_SIDES, TILE_ORDERS, is_sane};
use dataflow::linalg::kernel::{Backend, Op};
use dataflow::linalg::lu::{
    Exchanges, Factor, Incremental, Pivots, Replay, Solve, condition, expect_regular, invert,
};
use dataflow::linalg::matrix::TiledMatrix;
use dataflow::linalg::scalar::Scalar;
use std::num::NonZeroU32;

/// Groups of a tournament; one has partial pivoting's pivots.
const GROUPS: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// How pivots are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pivoting {
    Partial,
    Tournament,
    Incremental,
}
const PIVOTING: [Pivoting; 3] = [
    Pivoting::Partial,
    Pivoting::Tournament,
    Pivoting::Incremental,
];

pub fn cases<T: Scalar>(world: &World, tally: &mut Tally) {
    let shapes = EXTENTS.into_iter().flat_map(|m| EXTENTS.map(|n| (m, n)));
    let turns = PIVOTING
        .into_iter()
        .flat_map(|pivoting| TILE_ORDERS.map(|nb| (pivoting, nb)));
    for ((m, n), (pivoting, nb)) in
        shapes.flat_map(|shape| turns.clone().map(move |turn| (shape, turn)))
    {
        for kind in 1..=11 {
            if !is_sane(m.max(n), nb) || !tally.tries() {
                continue;
            }
            if let Some((a, info)) = general::<T>(kind, m, n) {
                let what = format!("type {kind}, {m} x {n}, nb = {nb}, {pivoting:?}");
                match pivoting {
                    Pivoting::Incremental => incremental::<T>(world, tally, (&a, info), nb, &what),
                    _ => case::<T>(world, tally, (&a, info), (pivoting, nb), &what),
                }
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

/// The factors of a matrix, their row swaps, and INFO as this rank was told.
fn factored<T: Scalar>(
    world: &World,
    a: &Dense,
    (pivoting, nb): (Pivoting, usize),
) -> (TiledMatrix<T>, Pivots<T>, u64) {
    let on = world.runtime;
    let factors = world.general::<T>(a, nb);
    let pivots = Pivots::new(&factors);
    let factor = Factor::new(&factors, &pivots, Backend::Auto).unwrap();
    let factor = match pivoting {
        Pivoting::Tournament => factor.by_tournament(GROUPS),
        _ => factor,
    };
    factor.run(on).unwrap();
    let info = info(world, &factors);
    (factors, pivots, info)
}

/// The first pivot that is zero, from 1; 0 if none is.
fn info<T: Scalar>(world: &World, factors: &TiledMatrix<T>) -> u64 {
    let found = expect_regular(factors, world.runtime);
    found
        .err()
        .map_or(0, |error| error.index().unwrap_or(u64::MAX))
}

fn case<T: Scalar>(
    world: &World,
    tally: &mut Tally,
    (a, expected): (&Dense, u64),
    turn: (Pivoting, usize),
    what: &str,
) {
    let (m, n, short) = (a.rows, a.cols, a.rows.min(a.cols));
    let (factors, pivots, found) = factored::<T>(world, a, turn);
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
        solves::<T>(world, tally, (a, &factors, &pivots), turn, what);
    }
}

/// Tests 2 to 4, of A, Aᵀ and Aᴴ.
fn solves<T: Scalar>(
    world: &World,
    tally: &mut Tally,
    (a, factors, pivots): (&Dense, &TiledMatrix<T>, &Pivots<T>),
    turn: (Pivoting, usize),
    what: &str,
) {
    let n = a.rows;
    let on = world.runtime;
    let solve = |op, b: &Dense| {
        let x = world.general::<T>(b, turn.1);
        let solve = Solve::new(factors, pivots, op, &x, Backend::Auto).unwrap();
        solve.run(on).unwrap();
        world.gather(&x)
    };
    // 2: I − A⁻¹·A
    let (used_up, swaps, _) = factored::<T>(world, a, turn);
    let inverted = invert(used_up, &swaps, Backend::Auto, on);
    let inverse = world.gather(&inverted.unwrap().0);
    if world.leads() {
        let off = Dense::unit(n).minus(&inverse.times(a)).norm();
        let scale = n as f64 * (a.norm() * inverse.norm()) * T::EPSILON;
        tally.ratio("getri", (off, scale), 30.0, what);
    }
    if world.is_alone() && n > 0 {
        let estimated = condition(factors, pivots, a.norm(), Backend::Auto, on).unwrap();
        let exact = a.norm() * inverse.norm();
        estimation(tally, "gecon", (estimated, exact), what);
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

/// INFO, and tests 3 and 4 of A.
fn incremental<T: Scalar>(
    world: &World,
    tally: &mut Tally,
    (a, expected): (&Dense, u64),
    nb: usize,
    what: &str,
) {
    let on = world.runtime;
    let factors = world.general::<T>(a, nb);
    let exchanges = Exchanges::new(&factors);
    let factor = Incremental::new(&factors, &exchanges, Backend::Auto).unwrap();
    factor.run(on).unwrap();
    let found = info(world, &factors);
    tally.info("getrf", found, expected, what);
    assert_eq!(found, expected, "{what}");
    if a.rows != a.cols || expected > 0 {
        return;
    }
    let solve = |b: &Dense| {
        let x = world.general::<T>(b, nb);
        let replay = Replay::new(&factors, &exchanges, &x, Backend::Auto).unwrap();
        replay.run(on).unwrap();
        world.gather(&x)
    };
    let condition = a.norm() * solve(&Dense::unit(a.rows)).norm();
    for n_rhs in RIGHT_HAND_SIDES {
        let exact = Noise::new(7).matrix::<T>(a.rows, n_rhs);
        let b = a.times(&exact).rounded::<T>();
        let x = solve(&b);
        if world.leads() {
            let rest = b.minus(&a.times(&x));
            let scales = (a.norm(), condition);
            solution::<T>(tally, "getrs", (&rest, &x, &exact), scales, what);
        }
    }
}
