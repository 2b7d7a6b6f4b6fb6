//! The factorisation against the kernel that does it on the whole matrix at once.

use super::*;
use crate::error::LinalgError;
use crate::flops;
use crate::kernel::{Backend, Op, getrf};
use crate::matrix::check::solve_backward_error;
use crate::matrix::generate::Random;
use crate::matrix::{Distribution, Entries, Format, Grid, Layout, Structure, Tile, TiledMatrix};
use crate::scalar::{Scalar, c32, c64};
use crate::weight::Weight;
use dataflow_core::port::{Heap, Inline, Memory, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::space::Erased;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Rows, columns and tile orders: square, tall, wide, ragged, more tiles than rows, empty.
const SHAPES: [(usize, usize, usize); 12] = [
    (0, 0, 1),
    (0, 3, 2),
    (3, 0, 2),
    (1, 1, 1),
    (5, 5, 8),
    (12, 12, 4),
    (23, 23, 5),
    (31, 9, 4),
    (30, 10, 4),
    (9, 31, 4),
    (10, 30, 4),
    (40, 37, 7),
];

/// A matrix of which `rank` has its part, without tiles.
fn vacant((m, n): (usize, usize), (p, q): (u32, u32)) -> TiledMatrix<f64> {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let layout = Layout::general(m, n, 1).unwrap();
    TiledMatrix::vacant(layout.distributed(grid, Rank(0)).unwrap(), Arc::new(Heap))
}

#[test]
fn the_space_is_proved_for_all_shapes_up_to_6_tiles_on_every_grid() {
    for (p, q) in [(1, 1), (2, 2), (2, 3), (3, 1), (4, 1)] {
        for (m, n) in (0..=6).flat_map(|m| (0..=6).map(move |n| (m, n))) {
            let a = vacant((m, n), (p, q));
            let pivots = Pivots::new(&a);
            let space = Factor::new(&a, &pivots, Backend::Auto).unwrap();
            verify(&space, p * q)
                .unwrap_or_else(|fault| panic!("{m} x {n} tiles on {p} x {q}: {fault}"));
        }
    }
}

const fn groups(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

#[test]
fn the_space_with_a_tournament_is_proved_for_any_number_of_groups_on_every_grid() {
    for ((p, q), n_groups) in [
        ((1, 1), 1),
        ((1, 1), 3),
        ((2, 2), 2),
        ((2, 3), 5),
        ((3, 1), 4),
        ((2, 2), u32::MAX),
    ] {
        for (m, n) in (0..=6).flat_map(|m| (0..=4).map(move |n| (m, n))) {
            let a = vacant((m, n), (p, q));
            let pivots = Pivots::new(&a);
            let space = Factor::new(&a, &pivots, Backend::Auto).unwrap();
            verify(&space.by_tournament(groups(n_groups)), p * q).unwrap_or_else(|fault| {
                panic!("{m} x {n} tiles on {p} x {q}, {n_groups} groups: {fault}")
            });
        }
    }
}

#[test]
fn a_tournament_of_one_group_takes_the_pivots_of_partial_pivoting_and_others_factor_as_well() {
    fn check<T: Scalar>() {
        let mut differs = false;
        for (m, n, nb) in SHAPES {
            let format = Format::SubTiled { order: 3 };
            let layout = Layout::general(m, n, nb).unwrap().with_format(format);
            let by = |choice: Option<u32>| {
                let a = TiledMatrix::<T>::from_entries(layout, &Random::new(3));
                let pivots = Pivots::new(&a);
                match choice {
                    None => factor(&a, &pivots, Backend::Auto, &Inline),
                    Some(n) => factor_by_tournament(&a, &pivots, groups(n), Backend::Auto, &Inline),
                }
                .unwrap();
                let right = residual(&Random::new(3), &a, &pivots).unwrap();
                let what = format!("{} {m} x {n}, tiles of {nb}, {choice:?}", T::PRECISION);
                assert!(right < 2.0, "{what}: {right}");
                pivots.rows().collect::<Vec<_>>()
            };
            assert_eq!(by(Some(1)), by(None), "{m} x {n}, tiles of {nb}");
            let rows = by(Some(3));
            // Of several groups none has seen all rows: now and then other rows win.
            differs |= rows != by(None);
            by(Some(2));
            assert_eq!(by(Some(50)), by(Some(u32::MAX)), "{m} x {n}, tiles of {nb}");
        }
        assert!(differs, "{}", T::PRECISION);
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

#[test]
fn ranks_with_other_numbers_of_groups_disagree_unless_all_are_more_than_there_are_tiles() {
    let a = vacant((9, 9), (1, 1));
    let pivots = Pivots::new(&a);
    let told = |n: u32| {
        let space = Factor::new(&a, &pivots, Backend::Auto).unwrap();
        let mut about = Description::default();
        space.by_tournament(groups(n)).describe(&mut about);
        about.parameters().to_vec()
    };
    assert_ne!(told(4), told(5));
    assert_eq!(told(9), told(u32::MAX));
}

/// Numbers of rows wrapped around, and the permutation was another.
#[test]
fn a_matrix_of_more_rows_than_have_numbers_is_refused_unless_there_is_nothing_to_do() {
    let of = |m: usize, n| {
        let layout = Layout::general(m, n, 1 << 20).unwrap();
        TiledMatrix::<f64>::vacant(layout, Arc::new(Heap))
    };
    let most = u32::MAX as usize;
    for (m, n, fits) in [(most, 1, true), (most + 1, 1, false), (most + 1, 0, true)] {
        let a = of(m, n);
        let pivots = Pivots::new(&a);
        let factor = Factor::new(&a, &pivots, Backend::Auto).map(drop);
        let columns = Columns::new(&a, &pivots, Backend::Auto).map(drop);
        let own = Pivots::of_rows(&a, &[0][..n]).map(drop);
        for made in [factor, columns, own] {
            assert_eq!(made.is_ok(), fits, "{m} x {n}");
            if let Err(error) = made {
                let text = error.to_string();
                assert!(text.contains("4294967296 rows are too many"), "{text}");
            }
        }
    }
}

/// Each row of tiles had a name in the description: a terabyte of names for nothing to do.
#[test]
fn many_rows_of_no_column_have_no_names() {
    let layout = Layout::general(1 << 38, 0, 1 << 7).unwrap();
    let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
    let pivots = Pivots::new(&a);
    let factor = Factor::new(&a, &pivots, Backend::Auto).unwrap();
    assert_eq!(factor.rows.most(), 0);
    assert_eq!(factor.run(&Inline).unwrap().tasks, 0);
    let columns = Columns::new(&a, &pivots, Backend::Auto).unwrap();
    assert_eq!(columns.run(&Inline).unwrap().tasks, 0);
    let by_groups = factor.by_tournament(groups(3)).run(&Inline);
    assert_eq!(by_groups.unwrap().tasks, 0);
}

#[test]
fn rows_that_have_won_without_a_match_weigh_one_set_in_the_last_one() {
    let layout = Layout::general(40, 40, 5).unwrap();
    let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
    let pivots = Pivots::new(&a);
    let flops = |n: u32, k: u32| {
        let space = Factor::new(&a, &pivots, Backend::Auto).unwrap();
        space.by_tournament(groups(n)).flops(Task::Panel { k })
    };
    let of_sets = |sets: usize| flops::getrf::<f64>(sets * 5, 5) as f64;
    assert_eq!([flops(1, 0), flops(1, 7)], [of_sets(1); 2]);
    // Of two groups the last panel has the rows of one.
    assert_eq!([flops(2, 0), flops(2, 7)], [of_sets(2), of_sets(1)]);
}

#[test]
fn what_is_not_finite_is_factored_to_a_residual_that_is_below_nothing() {
    let wrong = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for ((row, col), wrong) in (0..5)
        .flat_map(|i| (0..7).map(move |j| (i, j)))
        .flat_map(|at| wrong.map(|x| (at, x)))
    {
        let entry = |i: usize, j: usize| {
            if (i, j) == (row, col) {
                wrong
            } else {
                Random::new(1).entry(i, j)
            }
        };
        for n_groups in [0, 1, 2] {
            let a = TiledMatrix::from_fn(Layout::general(5, 7, 2).unwrap(), entry);
            let pivots = Pivots::new(&a);
            let mut space = Factor::new(&a, &pivots, Backend::Auto).unwrap();
            if let Some(n) = NonZeroU32::new(n_groups) {
                space = space.by_tournament(n);
            }
            // Without the search for such entries before it.
            space.run(&Inline).unwrap();
            assert!(pivots.rows().all(|(i, pivot)| i <= pivot && pivot < 5));
            let ratio = residual(&entry, &a, &pivots).unwrap();
            assert!(
                ratio.is_nan() || ratio >= 30.0,
                "({row}, {col}), {n_groups} groups: {ratio}"
            );
        }
    }
}

#[test]
fn the_space_without_pivoting_is_proved_on_every_grid() {
    for (p, q) in [(1, 1), (2, 2), (2, 3)] {
        for (m, n) in (0..=6).flat_map(|m| (0..=6).map(move |n| (m, n))) {
            let a = vacant((m, n), (p, q));
            let space = Unpivoted::new(&a, &Pivots::new(&a), Backend::Auto).unwrap();
            verify(&space, p * q)
                .unwrap_or_else(|fault| panic!("{m} x {n} tiles on {p} x {q}: {fault}"));
        }
    }
}

#[test]
fn without_pivoting_panels_come_first_and_the_steps_of_a_span_are_equally_urgent() {
    for shape in [(1, 1), (9, 9), (4, 12), (12, 4)] {
        let a = vacant(shape, (1, 1));
        let space = Unpivoted::new(&a, &Pivots::new(&a), Backend::Auto).unwrap();
        for task in space.tasks(Rank(0)) {
            let urgency = space.priority(task);
            let UnpivotedTask::Update { m, n, k } = task else {
                assert!(urgency > 0, "{task:?} of {shape:?} tiles");
                continue;
            };
            assert!(urgency < 0, "{task:?} of {shape:?} tiles");
            let first = UnpivotedTask::Update { m, n, k: k / 4 * 4 };
            assert_eq!(
                urgency,
                space.priority(first),
                "{task:?} of {shape:?} tiles"
            );
        }
    }
}

#[test]
fn without_pivoting_dominant_matrices_are_factored_and_solved() {
    fn check<T: Scalar>() {
        for (m, n, nb) in SHAPES {
            let dominant = |i: usize, j: usize| {
                let entry: T = Random::new(3).entry(i, j);
                if i == j {
                    entry + T::from_real(2.0 * m.max(n) as f64)
                } else {
                    entry
                }
            };
            let format = Format::SubTiled { order: 3 };
            let layout = Layout::general(m, n, nb).unwrap().with_format(format);
            let a = TiledMatrix::<T>::from_fn(layout, dominant);
            let pivots = Pivots::new(&a);
            let report = factor_unpivoted(&a, &pivots, Backend::Auto, &Inline).unwrap();
            assert_eq!(report.copies(), 0);
            assert!(pivots.rows().all(|(row, pivot)| row == pivot));
            let what = format!("{} {m} x {n}, tiles of {nb}", T::PRECISION);
            let right = residual(&dominant, &a, &pivots).unwrap();
            assert!(right < 2.0, "{what}: {right}");
            if m == n {
                let layout = Layout::general(n, 2, nb).unwrap();
                let x = TiledMatrix::from_entries(layout, &Random::new(9));
                solve(&a, &pivots, Op::NoTranspose, &x, Backend::Auto, &Inline).unwrap();
                let error =
                    solve_backward_error(&dominant, Structure::General, &x, &Random::new(9));
                assert!(error.unwrap() < 2.0, "{what}");
            }
        }
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

/// Factors the whole matrix as one tile.
fn at_once<T: Scalar>(m: usize, n: usize, entries: &impl Entries<T>) -> (Tile<T>, Vec<u32>) {
    let heap: Arc<dyn Memory> = Arc::new(Heap);
    let mut tile = Tile::from_fn(m, n, Format::ColumnMajor, &heap, |i, j| entries.entry(i, j));
    let mut pivots = vec![0; m.min(n)];
    getrf(Backend::Faer, &mut tile, &mut pivots);
    (tile, pivots)
}

#[test]
fn factors_and_pivots_are_those_of_the_whole_matrix_at_once() {
    fn check<T: Scalar>() {
        for (m, n, nb) in SHAPES {
            let (expected, swaps) = at_once::<T>(m, n, &Random::new(3));
            for format in [Format::ColumnMajor, Format::SubTiled { order: 3 }] {
                let layout = Layout::general(m, n, nb).unwrap().with_format(format);
                let a = TiledMatrix::<T>::from_entries(layout, &Random::new(3));
                let pivots = Pivots::new(&a);
                let what = format!("{} {m} x {n}, tiles of {nb}, {format:?}", T::PRECISION);
                let report = factor(&a, &pivots, Backend::Auto, &Inline).unwrap();
                assert!(m < n || report.copies() == 0, "{what}: {report:?}");
                let rows = swaps.iter().map(|&pivot| pivot as usize).enumerate();
                assert!(pivots.rows().eq(rows), "{what}");
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let (x, right) = (a.get(i, j).unwrap(), expected.get(i, j));
                    let error = (x - right).modulus() / right.modulus().max(1.0);
                    assert!(
                        error < 1e4 * T::EPSILON,
                        "{what}: ({i}, {j}) is {x:?}, not {right:?}"
                    );
                }
            }
        }
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

#[test]
fn any_schedule_gives_the_same_bits() {
    let layout = Layout::general(40, 37, 7).unwrap();
    let run = |on: &dyn dataflow_core::port::Executor| {
        let a = TiledMatrix::<c64>::from_entries(layout, &Random::new(8));
        let pivots = Pivots::new(&a);
        factor(&a, &pivots, Backend::Auto, on).unwrap();
        (a.to_column_major().unwrap(), pivots.digest())
    };
    let expected = run(&Inline);
    for seed in 0..20 {
        assert!(
            run(&Shuffled::new(seed).with_threads(2)) == expected,
            "seed {seed}"
        );
    }
}

#[test]
fn a_zero_pivot_is_named_and_the_factorisation_completes() {
    for (m, n, nb) in SHAPES {
        for zero in [0, m.min(n) / 2, m.min(n).saturating_sub(1)] {
            if m.min(n) == 0 {
                continue;
            }
            let entries = |i: usize, j: usize| match j {
                j if j == zero => 0.0,
                j => Random::new(5).entry(i, j),
            };
            let a = TiledMatrix::<f64>::from_fn(Layout::general(m, n, nb).unwrap(), entries);
            let pivots = Pivots::new(&a);
            let failed = factor(&a, &pivots, Backend::Auto, &Inline).unwrap_err();
            let info = ("singular", Some(zero as u64 + 1));
            assert_eq!((failed.name(), failed.index()), info);
            assert_eq!(pivots.rows().count(), m.min(n));
            for n_groups in [1, 2, 4] {
                let b = TiledMatrix::<f64>::from_fn(Layout::general(m, n, nb).unwrap(), entries);
                let swaps = Pivots::new(&b);
                let failed =
                    factor_by_tournament(&b, &swaps, groups(n_groups), Backend::Auto, &Inline);
                let failed = failed.unwrap_err();
                assert_eq!((failed.name(), failed.index()), info);
                assert!(residual(&entries, &b, &swaps).unwrap() < 2.0);
            }
            let (expected, _) = at_once(m, n, &entries);
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let error = (a.get(i, j).unwrap() - expected.get(i, j)).abs();
                assert!(error < 1e-11, "{m} x {n}, tiles of {nb}: ({i}, {j})");
            }
        }
    }
}

#[test]
fn what_is_no_general_finite_matrix_is_refused_by_name() {
    let lower = TiledMatrix::<f64>::zeros(Layout::lower(4, 2).unwrap());
    let pivots = Pivots::new(&lower);
    let refused = Factor::new(&lower, &pivots, Backend::Auto).err().unwrap();
    assert_eq!(refused.name(), "wrong_shape");
    let a = TiledMatrix::<f64>::zeros(Layout::general(4, 4, 2).unwrap());
    let refused = Factor::new(&a, &pivots, Backend::Auto).err().unwrap();
    assert_eq!(refused.name(), "wrong_shape");
    for (row, col) in (0..5).flat_map(|i| (0..7).map(move |j| (i, j))) {
        let a = TiledMatrix::from_fn(Layout::general(5, 7, 2).unwrap(), |i, j| {
            if (i, j) == (row, col) {
                f64::INFINITY
            } else {
                1.0
            }
        });
        let failed = factor(&a, &Pivots::new(&a), Backend::Auto, &Inline).unwrap_err();
        let LinalgError::NotFinite { row: r, col: c, .. } = failed else {
            panic!("{failed}")
        };
        assert_eq!((r, c), (row as u64, col as u64));
    }
}

#[test]
fn the_check_is_proved_for_all_shapes_up_to_7_tiles_on_every_grid() {
    for (p, q) in [(1, 1), (2, 2), (2, 3), (3, 1)] {
        for (m, n) in (0..=7).flat_map(|m| (0..=7).map(move |n| (m, n))) {
            let a = vacant((m, n), (p, q));
            let pivots = Pivots::new(&a);
            let space = Check::new(&a, &a, &pivots).unwrap();
            verify(&space, p * q)
                .unwrap_or_else(|fault| panic!("{m} x {n} tiles on {p} x {q}: {fault}"));
        }
    }
}

#[test]
fn the_residual_is_of_rounding_errors_and_one_wrong_entry_anywhere_shows() {
    fn check<T: Scalar>() {
        for (m, n, nb) in SHAPES {
            let layout = Layout::general(m, n, nb).unwrap();
            let format = Format::SubTiled { order: 3 };
            let mut a = TiledMatrix::<T>::from_entries(layout.with_format(format), &Random::new(3));
            let pivots = Pivots::new(&a);
            factor(&a, &pivots, Backend::Auto, &Inline).unwrap();
            let right = residual(&Random::new(3), &a, &pivots).unwrap();
            let what = format!("{} {m} x {n}, tiles of {nb}", T::PRECISION);
            assert!(right < 2.0, "{what}: {right}");
            assert!(
                residual(&Random::new(4), &a, &pivots).unwrap() > 1e3 || m * n == 0,
                "{what}"
            );
            for (row, col) in (0..m)
                .step_by(4)
                .flat_map(|i| (0..n).step_by(3).map(move |j| (i, j)))
            {
                let slot = a.slot(row / nb, col / nb).unwrap();
                let before = a.get(row, col).unwrap();
                let mut set = |x| {
                    a.store_mut()
                        .update(slot, |tile| tile.set(row % nb, col % nb, x))
                        .unwrap()
                };
                set(before + T::from_real(1e4 * T::EPSILON));
                let wrong = residual(&Random::new(3), &a, &pivots).unwrap();
                assert!(wrong > 10.0, "{what}: ({row}, {col}): {wrong}");
                a.store_mut()
                    .update(slot, |tile| tile.set(row % nb, col % nb, before))
                    .unwrap();
            }
        }
    }
    check::<f64>();
    check::<c32>();
}

const OPS: [Op; 3] = [Op::NoTranspose, Op::Transpose, Op::ConjTranspose];

#[test]
fn the_solution_is_proved_for_up_to_6_tiles_on_every_grid() {
    for (p, q) in [(1, 1), (2, 2), (2, 3), (3, 1)] {
        for (n, columns) in (0..=6).flat_map(|n| (0..=3).map(move |columns| (n, columns))) {
            let (a, b) = (vacant((n, n), (p, q)), vacant((n, columns), (p, q)));
            let pivots = Pivots::new(&a);
            for op in OPS {
                let solve = Solve::new(&a, &pivots, op, &b, Backend::Auto).unwrap();
                let space = Erased::series(solve.parts(), 0..p * q).unwrap();
                verify(&space, p * q).unwrap_or_else(|fault| {
                    panic!("{n} tiles, {columns}, {op:?} on {p} x {q}: {fault}")
                });
            }
            if columns == 0 {
                let unit = vacant((n, n), (p, q));
                let solve = Solve::of_unit(&a, &pivots, &unit, Backend::Auto).unwrap();
                let space = Erased::series(solve.parts(), 0..p * q).unwrap();
                verify(&space, p * q)
                    .unwrap_or_else(|fault| panic!("inverse of {n} tiles on {p} x {q}: {fault}"));
            }
        }
    }
}

#[test]
fn all_three_systems_are_solved_for_any_number_of_right_hand_sides() {
    fn check<T: Scalar>() {
        for (n, nb) in [(0, 1), (1, 1), (5, 8), (12, 4), (23, 5), (40, 7)] {
            let a =
                TiledMatrix::<T>::from_entries(Layout::general(n, n, nb).unwrap(), &Random::new(3));
            let pivots = Pivots::new(&a);
            factor(&a, &pivots, Backend::Auto, &Inline).unwrap();
            for (op, columns) in OPS
                .into_iter()
                .flat_map(|op| [0, 1, 2, 15].map(|c| (op, c)))
            {
                let layout = Layout::general(n, columns, nb).unwrap();
                let x = TiledMatrix::from_entries(layout, &Random::new(9));
                solve(&a, &pivots, op, &x, Backend::Auto, &Inline).unwrap();
                let of_op = |i: usize, j: usize| match op {
                    Op::NoTranspose => Random::new(3).entry(i, j),
                    Op::Transpose => Random::new(3).entry(j, i),
                    Op::ConjTranspose => Scalar::conj(Entries::<T>::entry(&Random::new(3), j, i)),
                };
                let error =
                    solve_backward_error::<T>(&of_op, Structure::General, &x, &Random::new(9));
                let error = error.unwrap();
                assert!(
                    error < 2.0,
                    "{} n = {n}, {op:?}, {columns}: {error}",
                    T::PRECISION
                );
            }
        }
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

#[test]
fn a_singular_system_and_one_that_does_not_fit_are_refused_by_name() {
    let singular = |i: usize, j: usize| if j == 3 { 0.0 } else { (i + j * j) as f64 };
    let a = TiledMatrix::<f64>::from_fn(Layout::general(6, 6, 2).unwrap(), singular);
    let pivots = Pivots::new(&a);
    let _ = factor(&a, &pivots, Backend::Auto, &Inline).unwrap_err();
    let b = |m, nb| TiledMatrix::<f64>::zeros(Layout::general(m, 1, nb).unwrap());
    let refused = |b| solve(&a, &pivots, Op::NoTranspose, &b, Backend::Auto, &Inline).unwrap_err();
    assert_eq!(refused(b(6, 2)).name(), "singular");
    assert_eq!(refused(b(5, 2)).name(), "wrong_shape");
    assert_eq!(refused(b(6, 3)).name(), "wrong_shape");
    let a = TiledMatrix::from_fn(Layout::general(6, 6, 2).unwrap(), singular);
    let refused = inverse(a, Backend::Auto, &Inline).err().unwrap();
    assert_eq!(refused.name(), "singular");
    let wide = TiledMatrix::<f64>::from_entries(Layout::general(4, 6, 2).unwrap(), &Random::new(1));
    let refused = inverse(wide, Backend::Auto, &Inline).err().unwrap();
    assert_eq!(refused.name(), "wrong_shape");
}

#[test]
fn incremental_pivoting_is_proved_for_all_shapes_up_to_5_tiles_on_every_grid() {
    for (p, q) in [(1, 1), (2, 2), (2, 3), (3, 1)] {
        for (m, n) in (0..=5).flat_map(|m| (0..=5).map(move |n| (m, n))) {
            let a = vacant((m, n), (p, q));
            let exchanges = Exchanges::new(&a);
            let space = Incremental::new(&a, &exchanges, Backend::Auto).unwrap();
            verify(&space, p * q)
                .unwrap_or_else(|fault| panic!("{m} x {n} tiles on {p} x {q}: {fault}"));
        }
        for (n, columns) in (0..=5).flat_map(|n| (0..=2).map(move |columns| (n, columns))) {
            let (a, b) = (vacant((n, n), (p, q)), vacant((n, columns), (p, q)));
            let exchanges = Exchanges::new(&a);
            let space = Replay::new(&a, &exchanges, &b, Backend::Auto).unwrap();
            verify(&space, p * q)
                .unwrap_or_else(|fault| panic!("{n} tiles, {columns} on {p} x {q}: {fault}"));
        }
    }
}

#[test]
fn with_incremental_pivoting_systems_are_solved_and_zero_pivots_named() {
    fn check<T: Scalar>() {
        for (n, nb) in [(0, 1), (1, 1), (5, 8), (12, 4), (23, 5), (40, 7), (90, 40)] {
            let layout = Layout::general(n, n, nb).unwrap();
            let layout = layout.with_format(Format::SubTiled { order: 3 });
            let a = TiledMatrix::<T>::from_entries(layout, &Random::new(3));
            let exchanges = Exchanges::new(&a);
            factor_incremental(&a, &exchanges, Backend::Auto, &Inline).unwrap();
            for columns in [0, 1, 15] {
                let layout = Layout::general(n, columns, nb).unwrap();
                let x = TiledMatrix::from_entries(layout, &Random::new(9));
                solve_incremental(&a, &exchanges, &x, Backend::Auto, &Inline).unwrap();
                let of_a = &Random::new(3);
                let error = solve_backward_error(of_a, Structure::General, &x, &Random::new(9));
                let (error, what) = (error.unwrap(), format!("{} n = {n}", T::PRECISION));
                assert!(error < 2.0, "{what}, tiles of {nb}, {columns}: {error}");
            }
            for zero in [0, n / 2, n.saturating_sub(1)]
                .into_iter()
                .filter(|_| n > 0)
            {
                let entries = |i: usize, j: usize| match j {
                    j if j == zero => T::zero(),
                    j => Random::new(5).entry(i, j),
                };
                let a = TiledMatrix::<T>::from_fn(*a.layout(), entries);
                let failed = factor_incremental(&a, &exchanges, Backend::Auto, &Inline);
                let failed = failed.unwrap_err();
                let info = ("singular", Some(zero as u64 + 1));
                assert_eq!((failed.name(), failed.index()), info);
                let x = TiledMatrix::zeros(Layout::general(n, 1, nb).unwrap());
                let refused = solve_incremental(&a, &exchanges, &x, Backend::Auto, &Inline);
                assert_eq!(refused.unwrap_err().name(), "singular");
            }
        }
    }
    check::<f32>();
    check::<f64>();
    check::<c32>();
    check::<c64>();
}

/// Only the columns to its left decide what becomes of a column.
#[test]
fn tall_and_wide_matrices_are_factored_with_incremental_pivoting_like_the_square_they_are_part_of()
{
    let nb = 4;
    let factored = |m: usize, n: usize| {
        let a =
            TiledMatrix::<f64>::from_entries(Layout::general(m, n, nb).unwrap(), &Random::new(8));
        let exchanges = Exchanges::new(&a);
        factor_incremental(&a, &exchanges, Backend::Auto, &Inline).unwrap();
        a
    };
    for (long, short) in [(22, 8), (19, 4), (23, 20)] {
        let (square, tall, wide) = (
            factored(long, long),
            factored(long, short),
            factored(short, long),
        );
        let all = (0..long).flat_map(|i| (0..short).map(move |j| (i, j)));
        for (i, j) in all {
            assert_eq!(
                tall.get(i, j).unwrap(),
                square.get(i, j).unwrap(),
                "({i}, {j})"
            );
        }
        // Beside a square of its own order a wide one has right-hand sides on the way down.
        let (left, n) = (factored(short, short), short);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            assert_eq!(
                wide.get(i, j).unwrap(),
                left.get(i, j).unwrap(),
                "({i}, {j})"
            );
        }
    }
}

#[test]
fn incremental_pivoting_has_the_same_bits_under_any_schedule() {
    let run = |on: &dyn dataflow_core::port::Executor| {
        let layout = Layout::general(40, 40, 7).unwrap();
        let a = TiledMatrix::<c64>::from_entries(layout, &Random::new(8));
        let exchanges = Exchanges::new(&a);
        factor_incremental(&a, &exchanges, Backend::Auto, on).unwrap();
        let b = TiledMatrix::from_entries(Layout::general(40, 9, 7).unwrap(), &Random::new(9));
        solve_incremental(&a, &exchanges, &b, Backend::Auto, on).unwrap();
        let digest = exchanges.digest();
        (
            a.to_column_major().unwrap(),
            digest,
            b.to_column_major().unwrap(),
        )
    };
    let expected = run(&Inline);
    for seed in 0..10 {
        let on = Shuffled::new(seed).with_threads(2);
        assert!(run(&on) == expected, "seed {seed}");
    }
}

#[test]
fn what_is_not_finite_is_named_before_an_inverse_or_incremental_pivoting_and_ends_without() {
    for (row, col) in (0..5).flat_map(|i| (0..5).map(move |j| (i, j))) {
        let layout = Layout::general(5, 5, 2).unwrap();
        let made = || {
            TiledMatrix::from_fn(layout, |i, j| match (i, j) == (row, col) {
                true => f64::NAN,
                false => Random::new(1).entry(i, j),
            })
        };
        let (a, exchanges) = (made(), Exchanges::new(&made()));
        let refused = [
            factor_incremental(&a, &exchanges, Backend::Auto, &Inline).unwrap_err(),
            inverse(made(), Backend::Auto, &Inline).err().unwrap(),
        ];
        for refused in refused {
            let LinalgError::NotFinite { row: r, col: c, .. } = refused else {
                panic!("{refused}")
            };
            assert_eq!((r, c), (row as u64, col as u64));
        }
        let space = Incremental::new(&a, &exchanges, Backend::Auto).unwrap();
        space.run(&Inline).unwrap();
        let nan = a.to_column_major().unwrap().into_iter().any(f64::is_nan);
        assert!(nan, "({row}, {col})");
    }
}

#[test]
fn a_check_says_what_the_factors_are_by_now() {
    let layout = Layout::general(13, 9, 4).unwrap();
    let lu = TiledMatrix::<f64>::from_entries(layout, &Random::new(3));
    let pivots = Pivots::new(&lu);
    factor(&lu, &pivots, Backend::Auto, &Inline).unwrap();
    let original = Random::new(3);
    let check = Check::new(&original, &lu, &pivots).unwrap();
    let judged = || {
        check.run(&Inline).unwrap();
        check.residual().unwrap()
    };
    let right = judged();
    assert!(right < 2.0, "{right}");
    let last = lu.n_slots() - 1;
    let tile = lu.store().get(last).unwrap();
    let mut spoiled = (*tile).clone();
    spoiled.set(0, 0, f64::NAN);
    lu.store().put(last, Version::new(spoiled)).unwrap();
    assert!(judged().is_nan());
    lu.store().put(last, tile).unwrap();
    assert_eq!(judged(), right);
    assert_eq!(judged(), right);
}

#[test]
fn a_singular_matrix_has_no_condition() {
    let diagonal = [1.0, 2.0, 0.0, 3.0];
    let entry = |i: usize, j: usize| if i == j { diagonal[i] } else { 0.0 };
    let a = TiledMatrix::<f64>::from_fn(Layout::general(4, 4, 2).unwrap(), entry);
    let pivots = Pivots::new(&a);
    let factor = Factor::new(&a, &pivots, Backend::Auto).unwrap();
    factor.run(&Inline).unwrap();
    let refused = condition(&a, &pivots, 3.0, Backend::Auto, &Inline).unwrap_err();
    assert!(
        matches!(refused, LinalgError::Singular { index: 3, .. }),
        "{refused}"
    );
}

#[test]
fn an_order_of_rows_that_no_memory_holds_is_an_error() {
    assert_eq!(permutation(4, [(0, 2), (1, 2)]).unwrap(), [2, 0, 1, 3]);
    let refused = permutation(1 << 60, [(0, 2)]).unwrap_err();
    let text = "an order of 1152921504606846976 rows does not fit in memory";
    assert!(refused.to_string().starts_with(text), "{refused}");
}

/// Nothing of them is stored, but their sums took 16 bytes for each row and each column.
#[test]
fn factors_without_entries_are_right_however_long_they_are() {
    for (m, n) in [(1 << 60, 0), (0, 1 << 60)] {
        let a = TiledMatrix::<f64>::zeros(Layout::general(m, n, 1 << 40).unwrap());
        let pivots = Pivots::new(&a);
        assert_eq!(residual(&Random::new(3), &a, &pivots).unwrap(), 0.0);
    }
}

/// A single column is updated in one pass, in tiles as in whole columns.
#[test]
fn by_whole_columns_the_bits_are_those_of_tiles_also_where_the_last_one_is_a_single_column() {
    for (n, nb) in [(25, 8), (24, 8), (97, 24), (12, 5), (193, 192), (289, 96)] {
        let layout = Layout::general(n, n, nb).unwrap();
        let [tiles, columns] = [false, true].map(|columns| in_tiles::<f64>(layout, columns));
        assert!(tiles == columns, "{n}, tiles of {nb}");
    }
}

/// The bits of L and U, and the rows that were swapped.
type Told = (Vec<[u64; 2]>, Vec<(usize, usize)>);

/// As a matrix is factored in some tiles, as a graph of tiles or of whole columns.
fn in_tiles<T: Scalar>(layout: Layout, by_columns: bool) -> Told {
    let backend = Backend::Auto;
    let a = TiledMatrix::<T>::from_entries(layout, &Random::new(4));
    let pivots = Pivots::new(&a);
    let on = Shuffled::new(layout.nb() as u64).with_threads(2);
    match by_columns {
        true => Columns::new(&a, &pivots, backend).unwrap().run(&on),
        false => {
            let factor = Factor::new(&a, &pivots, backend).unwrap();
            factor.by_tiles().run(&on)
        }
    }
    .unwrap();
    let elements = a.to_column_major().unwrap().into_iter();
    (elements.map(T::bits).collect(), pivots.rows().collect())
}

#[test]
fn tiles_in_pieces_have_the_bits_and_pivots_of_tiles_as_small_as_these() {
    fn check<T: Scalar>() {
        let square = [(97, 16), (113, 16), (120, 24), (64, 64), (145, 48)];
        let square = square.map(|(n, order)| ((n, n), order));
        let others = [
            ((97, 65), 16),
            ((65, 97), 16),
            ((40, 130), 24),
            ((130, 41), 20),
        ];
        for ((m, n), order) in square.into_iter().chain(others) {
            let in_tiles = |times: usize, format| {
                let layout = Layout::general(m, n, times * order).unwrap();
                in_tiles::<T>(layout.with_format(format), false)
            };
            let small = in_tiles(1, Format::ColumnMajor);
            for times in 1..=4 {
                for format in [Format::CutColumns { order }, Format::SubTiled { order }] {
                    assert!(
                        in_tiles(times, format) == small,
                        "{} {m} × {n}, {times} of {format:?}",
                        T::PRECISION
                    );
                }
            }
        }
    }
    check::<f64>();
    check::<f32>();
    check::<c64>();
    check::<c32>();
}

#[test]
fn whole_columns_in_pieces_have_the_bits_of_tiles_as_small_as_these() {
    fn check<T: Scalar>((m, n): (usize, usize)) {
        let order = T::SUB_TILE_ORDER;
        let layout = |times: usize| Layout::general(m, n, times * order).unwrap();
        let small = in_tiles::<T>(layout(1), false);
        for times in 1..=3 {
            for format in [Format::CutColumns { order }, Format::sub_tiled::<T>()] {
                let layout = layout(times).with_format(format);
                for by_columns in [false, true] {
                    assert!(
                        in_tiles::<T>(layout, by_columns) == small,
                        "{} {m} × {n}, {times} of {format:?}, columns {by_columns}",
                        T::PRECISION
                    );
                }
            }
        }
    }
    for shape in [(481, 481), (577, 385), (385, 577), (500, 450)] {
        check::<f64>(shape);
        check::<c32>(shape);
    }
}
