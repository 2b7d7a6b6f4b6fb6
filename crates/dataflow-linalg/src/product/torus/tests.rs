//! The pipelined product against the other one, to the bit.

use super::*;
use crate::kernel::Op;
use crate::matrix::generate::Random;
use crate::matrix::{Entries, Layout};
use crate::product::cases::{GRIDS, OPS, cut, general, prove, stored, vacant};
use crate::product::gemm;
use crate::scalar::c32;
use dataflow_core::port::{Inline, Shuffled};
use proptest::prelude::*;

fn operand<T: Scalar>(matrix: &TiledMatrix<T>, op: Op) -> Operand<'_, T> {
    match op {
        Op::NoTranspose => Operand::plain(matrix),
        Op::Transpose => Operand::transposed(matrix),
        Op::ConjTranspose => Operand::adjoint(matrix),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn the_pipeline_has_the_bits_of_the_product(
        (m, n, k) in (0usize..17, 0usize..17, 0usize..17), nb in 1usize..8, sub_tiled: bool,
        ops in (0usize..3, 0usize..3), factors in (-2i32..3, -2i32..3), seed: u64,
    ) {
        let (cut, ops) = (cut(nb, sub_tiled), (OPS[ops.0], OPS[ops.1]));
        let given = |shape, op, seed| {
            let (rows, cols) = stored(shape, op);
            TiledMatrix::<c32>::from_entries(general(rows, cols, cut), &Random::new(seed))
        };
        let (a, b) = (given((m, k), ops.0, 1), given((k, n), ops.1, 2));
        let (a, b) = (operand(&a, ops.0), operand(&b, ops.1));
        let before = |i: usize, j: usize| -> c32 { Random::new(9).entry(i, j) };
        let [ours, expected] = [(); 2].map(|()| TiledMatrix::from_fn(general(m, n, cut), before));
        let (alpha, beta) = (c32::new(factors.0 as f32, 0.5), c32::new(factors.1 as f32, 0.0));
        let torus = Torus::new(alpha, a, b, beta, &ours, Backend::Auto).unwrap();
        let on = Shuffled::new(seed).with_threads(2);
        prop_assert_eq!(torus.run(&on).unwrap().copies(), 0);
        gemm(alpha, a, b, beta, &expected, Backend::Auto, &Inline).unwrap();
        prop_assert_eq!(ours.to_column_major().unwrap(), expected.to_column_major().unwrap());
    }
}

#[test]
fn the_space_is_proved_for_every_shape_on_every_grid() {
    for grid in GRIDS.into_iter().chain([(3, 3), (4, 5)]) {
        for (m, n, k) in [
            (0, 2, 2),
            (2, 3, 0),
            (1, 1, 3),
            (3, 2, 7),
            (5, 5, 5),
            (1, 7, 4),
        ] {
            let general = |m, n| vacant(Layout::general(m, n, 1).unwrap(), grid);
            let (a, b, c) = (general(m, k), general(k, n), general(m, n));
            let (a_turned, b_turned) = (general(k, m), general(n, k));
            for (a, b) in [
                (Operand::plain(&a), Operand::plain(&b)),
                (Operand::adjoint(&a_turned), Operand::transposed(&b_turned)),
            ] {
                for alpha in [0.0, 1.0] {
                    let space = Torus::new(alpha, a, b, 1.0, &c, Backend::Auto).unwrap();
                    prove(&space, grid, (m, n, k));
                }
            }
        }
    }
}

/// Of one step the tasks that hand tiles on come first, and of two steps the earlier one.
#[test]
fn old_tasks_come_first() {
    let square = || vacant(Layout::general(4, 4, 1).unwrap(), (2, 2));
    let (a, b, c) = (square(), square(), square());
    let (a, b) = (Operand::plain(&a), Operand::plain(&b));
    let space = Torus::new(1.0, a, b, 1.0, &c, Backend::Auto).unwrap();
    let of = |m, n, k| space.priority(Update { m, n, k });
    assert!(of(0, 3, 1) > of(2, 2, 1));
    assert!(of(2, 2, 1) > of(0, 0, 2));
}

#[test]
fn a_triangle_is_refused() {
    let lower = vacant(Layout::lower(4, 2).unwrap(), (1, 1));
    let [b, c] = [(); 2].map(|()| vacant(Layout::general(4, 4, 2).unwrap(), (1, 1)));
    let (a, b) = (Operand::plain(&lower), Operand::plain(&b));
    let refused = Torus::new(1.0, a, b, 1.0, &c, Backend::Auto).unwrap_err();
    assert_eq!(refused.name(), "wrong_shape");
}
