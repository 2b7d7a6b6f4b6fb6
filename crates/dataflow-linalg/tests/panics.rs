//! Faults of the programmer: the panic points at the line that asked for what cannot be.

use dataflow_core::port::{Heap, Memory};
use dataflow_linalg::kernel::{Backend, Op, gemm, geqrt, getrf, herk, potrf, trsm, trsm_left};
use dataflow_linalg::matrix::{Format, Tile};
use dataflow_linalg::qr::{Elimination, Tree};
use dataflow_linalg::whole::{invert_definite, invert_with_lu, solve_with_lu};
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex};

fn memory() -> Arc<dyn Memory> {
    Arc::new(Heap)
}

fn tile(rows: usize, cols: usize) -> Tile<f64> {
    let memory = memory();
    Tile::from_fn(rows, cols, Format::ColumnMajor, &memory, |i, j| {
        (i + j) as f64
    })
}

#[test]
fn panics_for_wrong_shapes_and_indices_point_at_the_caller() {
    static SEEN: Mutex<Vec<(String, u32)>> = Mutex::new(Vec::new());
    const AUTO: Backend = Backend::Auto;
    let wrong: [fn(); 19] = [
        || _ = tile(2, 2).get(2, 0),
        || tile(2, 2).set(0, 7, 1.0),
        || tile(3, 2).read_column_major(&[0.0; 5], 3),
        || _ = Tile::<f64>::new(usize::MAX / 2, 3, Format::ColumnMajor, &memory()),
        || gemm(AUTO, &tile(2, 3), &tile(2, 2), &mut tile(2, 2)),
        || herk(AUTO, &tile(2, 3), &mut tile(3, 3)),
        || trsm(AUTO, &tile(2, 2), &mut tile(2, 3)),
        || trsm_left(AUTO, &tile(2, 2), Op::Transpose, &mut tile(3, 3)),
        || _ = potrf(AUTO, &mut tile(2, 3)),
        || geqrt(AUTO, &mut tile(3, 2), &mut tile(3, 1), &mut tile(2, 2)),
        || _ = getrf(AUTO, &mut tile(3, 3), &mut [0; 2]),
        || _ = getrf(AUTO, &mut tile(1 << 32, 0), &mut []),
        || _ = invert_definite(100_000, &|_: usize, _: usize| 1.0),
        || {
            _ = solve_with_lu(
                (&tile(2, 3), &[0, 1]),
                Op::NoTranspose,
                1,
                &|_: usize, _: usize| 1.0,
            )
        },
        || {
            _ = solve_with_lu(
                (&tile(2, 2), &[0]),
                Op::NoTranspose,
                1,
                &|_: usize, _: usize| 1.0,
            )
        },
        || _ = invert_with_lu((&tile(2, 2), &[0])),
        || _ = invert_with_lu((&tile(2, 2), &[0, 2])),
        || _ = invert_with_lu((&tile(2, 2), &[1, 1])),
        || _ = Elimination::of_tree(Tree::Flat, 2, 3),
    ];
    let before = take_hook();
    set_hook(Box::new(|info| {
        let place = info.location().map(|at| (at.file().to_owned(), at.line()));
        SEEN.lock().unwrap().extend(place);
    }));
    let panicked = wrong.map(|wrong| catch_unwind(wrong).is_err());
    set_hook(before);
    assert_eq!(panicked, [true; 19]);
    let seen = SEEN.lock().unwrap().clone();
    assert!(
        seen.iter()
            .all(|(file, _)| file.ends_with("tests/panics.rs")),
        "{seen:?}"
    );
    assert!(
        seen.is_sorted_by(|(_, one), (_, next)| one < next),
        "{seen:?}"
    );
}
