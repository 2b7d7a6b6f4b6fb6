//! PO: Cholesky of nine types, from either triangle; tests 1 to 4, and on one rank 8.

use crate::dense::Dense;
use crate::tally::Tally;
use crate::types::{Noise, definite};
use crate::world::World;
use crate::{EXTENTS, RIGHT_HAND_SIDES, TILE_ORDERS, is_sane};
use dataflow::linalg::LinalgError;
use dataflow::linalg::cholesky::{self, Factor, Inverse, substitution};
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{AdjointEntries, Layout, TiledMatrix};
use dataflow::linalg::scalar::Scalar;

const THRESHOLD: f64 = 30.0;

pub fn cases<T: Scalar>(world: &World, tally: &mut Tally) {
    for (n, kind) in EXTENTS
        .into_iter()
        .flat_map(|n| (1..=9).map(move |kind| (n, kind)))
    {
        let turns = [false, true]
            .into_iter()
            .flat_map(|upper| TILE_ORDERS.map(|nb| (upper, nb)));
        for (upper, nb) in turns.filter(|&(_, nb)| is_sane(n, nb)) {
            if tally.tries()
                && let Some(matrix) = definite::<T>(kind, n)
            {
                let triangle = if upper { 'U' } else { 'L' };
                let what = format!("type {kind}, n = {n}, nb = {nb}, {triangle}");
                case::<T>(world, tally, &matrix, (upper, nb), &what);
            }
        }
    }
}

/// The lower matrix made of either triangle; the other must not be read.
fn lower<T: Scalar>(world: &World, a: &Dense, upper: bool, nb: usize) -> TiledMatrix<T> {
    let triangle = |i: usize, j: usize| match if upper { i > j } else { i < j } {
        true => T::from_real(f64::NAN),
        false => a.entry(i, j),
    };
    let layout = Layout::lower(a.rows, nb).unwrap();
    match upper {
        true => world.spread(layout, &AdjointEntries(&triangle)),
        false => world.spread(layout, &triangle),
    }
}

/// INFO of a run, as this rank was told.
fn info<R>(run: Result<R, LinalgError>) -> u64 {
    run.err()
        .map_or(0, |error| error.index().unwrap_or(u64::MAX))
}

fn case<T: Scalar>(
    world: &World,
    tally: &mut Tally,
    (a, expected): &(Dense, u64),
    (upper, nb): (bool, usize),
    what: &str,
) {
    let (n, on) = (a.rows, world.runtime);
    let l = lower::<T>(world, a, upper, nb);
    let factor = Factor::new(&l, Backend::Auto).unwrap();
    factor.scan(on).unwrap();
    let factored = info(factor.run(on));
    tally.info("potrf", factored, *expected, what);
    let inverse = lower::<T>(world, a, upper, nb);
    let run = Inverse::new(&inverse, Backend::Auto).unwrap();
    let inverted = info(run.run(on));
    tally.info("potri", inverted, *expected, what);
    assert_eq!((factored, inverted), (*expected, *expected), "{what}");
    if *expected > 0 {
        return;
    }
    let (of_l, inverse) = (world.gather(&l), world.gather(&inverse));
    let inverse = Dense::from_fn(n, n, |i, j| match i >= j {
        true => inverse.at(i, j),
        false => inverse.at(j, i).conj(),
    });
    // The norms' product first: either alone may lie near the ends of the range.
    let condition = a.norm() * inverse.norm();
    if world.leads() {
        // 1: A − L·Lᴴ
        let off = a.minus(&of_l.times(&of_l.adjoint())).norm();
        let scale = n as f64 * a.norm() * T::EPSILON;
        tally.ratio("potrf", (off, scale), THRESHOLD, what);
        // 2: I − A·A⁻¹
        let off = Dense::unit(n).minus(&a.times(&inverse)).norm();
        let scale = n as f64 * condition * T::EPSILON;
        tally.ratio("potri", (off, scale), THRESHOLD, what);
    }
    if world.is_alone() && n > 0 {
        let estimated = cholesky::condition(&l, a.norm(), Backend::Auto, on).unwrap();
        estimation(tally, "pocon", (estimated, condition), what);
    }
    for n_rhs in RIGHT_HAND_SIDES {
        let exact = Noise::new(7).matrix::<T>(n, n_rhs);
        let b = a.times(&exact).rounded::<T>();
        let x = world.general::<T>(&b, nb);
        let solve = substitution(&l, &x, Backend::Auto).unwrap();
        solve.run(on).unwrap();
        let x = world.gather(&x);
        if world.leads() {
            let rest = b.minus(&a.times(&x));
            solution::<T>(
                tally,
                "potrs",
                (&rest, &x, &exact),
                (a.norm(), condition),
                what,
            );
        }
    }
}

/// Tests 3 and 4 of a solution, column by column: B − A·X, X − X₀.
pub fn solution<T: Scalar>(
    tally: &mut Tally,
    routine: &'static str,
    (rest, x, exact): (&Dense, &Dense, &Dense),
    (of_a, condition): (f64, f64),
    what: &str,
) {
    let error = x.minus(exact);
    for j in 0..x.cols {
        let ratio = (rest.column(j) / of_a, x.column(j) * T::EPSILON);
        let ratio = if rest.column(j) == 0.0 {
            (0.0, 1.0)
        } else {
            ratio
        };
        tally.ratio(routine, ratio, THRESHOLD, what);
        let scale = exact.largest_in(j) * condition * T::EPSILON;
        tally.ratio(routine, (error.largest_in(j), scale), THRESHOLD, what);
    }
}

/// Test 8: how far an estimate is from the condition itself; 1 if not at all.
pub fn estimation(
    tally: &mut Tally,
    routine: &'static str,
    (estimated, exact): (f64, f64),
    what: &str,
) {
    let (larger, smaller) = (estimated.max(exact), estimated.min(exact));
    let ratio = larger / smaller - (1.0 - smaller / larger);
    tally.ratio(routine, (ratio, 1.0), THRESHOLD, what);
}
