//! The same counts from the spaces themselves, before any run: what they send, and what their tasks cost;
//! and from runs of their phantoms.

use super::lu::{incremental_loops, lu_loops};
use super::qr::{IB, qr_loops};
use super::{Loops, NB};
use crate::ranks::on_ranks;
use dataflow_core::phantom::Phantom;
use dataflow_core::port::{Context, Heap, Shuffled};
use dataflow_core::rank::Rank;
use dataflow_core::run_across;
use dataflow_core::space::counts::Counting;
use dataflow_core::space::verify;
use dataflow_linalg::kernel::Backend;
use dataflow_linalg::lu::{Exchanges, Incremental, Pivots, Unpivoted};
use dataflow_linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow_linalg::product::{Gemm, Operand};
use dataflow_linalg::qr::{self, Options, Reflectors, Tree};
use dataflow_linalg::weight::Weight;
use dataflow_linalg::{cholesky, flops};
use std::sync::Arc;

const SHAPES: [(usize, usize); 5] = [(16, 16), (23, 14), (14, 23), (30, 6), (3, 3)];
const GRIDS: [(u32, u32); 5] = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3)];

/// A matrix whose tiles do not exist.
fn vacant(layout: Layout, (p, q): (u32, u32)) -> TiledMatrix<f64> {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    TiledMatrix::vacant(layout.distributed(grid, Rank(0)).unwrap(), Arc::new(Heap))
}

fn general((m, n): (usize, usize), grid: (u32, u32)) -> TiledMatrix<f64> {
    vacant(Layout::general(m, n, NB).unwrap(), grid)
}

/// Messages of a run of the phantom, and bytes in them.
fn sent_by_phantom<S: Weight>(space: &S, (p, q): (u32, u32)) -> (u64, u64) {
    let bytes = |task, flow| space.bytes(task, flow);
    let phantom = Phantom::of(space).bytes(&bytes);
    verify(&phantom, p * q).unwrap();
    let (_, crossed) = on_ranks(p * q, (7, 2), |courier| {
        let on = Shuffled::new(5);
        run_across(&phantom, &Context::new(&on).across(courier)).unwrap();
    });
    (crossed.data, crossed.bytes)
}

/// Messages and bytes in them, of counts and of the phantom's run alike; and flops.
pub(super) fn told<S: Weight>(space: &S, grid: (u32, u32)) -> ((u64, u64), f64) {
    let (sent, flops) = told_of_counts(space, grid);
    assert_eq!(sent_by_phantom(space, grid), sent, "{grid:?}");
    (sent, flops)
}

/// Of counts alone: of many tasks, for which a proof and a run of the phantom take long.
pub(super) fn told_of_counts<S: Weight>(space: &S, (p, q): (u32, u32)) -> ((u64, u64), f64) {
    let bytes = |task, flow| space.bytes(task, flow);
    let flops = |task| space.flops(task);
    let counting = Counting::of(space, p * q).bytes(&bytes).cost(&flops);
    let counts = counting.count().unwrap();
    let sent = (counts.sent().messages, counts.sent().bytes);
    (sent, counts.cost())
}

/// The same with elements.
fn counted<S: Weight>(space: &S, grid: (u32, u32)) -> ((u64, u64), f64) {
    let ((messages, bytes), flops) = told(space, grid);
    ((messages, bytes / 8), flops)
}

#[test]
fn counted_spaces_of_factorisations_send_what_their_loops_send() {
    let agrees = |(sent, _): ((u64, u64), f64), loops: Loops, what: &str| {
        assert_eq!(sent, loops.counted(), "{what}");
    };
    for (shape, grid) in SHAPES
        .into_iter()
        .flat_map(|shape| GRIDS.map(|grid| (shape, grid)))
    {
        let what = format!("{shape:?} on {grid:?}");
        let a = general(shape, grid);
        let lu = Unpivoted::new(&a, &Pivots::new(&a), Backend::Faer).unwrap();
        agrees(
            counted(&lu, grid),
            lu_loops(shape, grid),
            &format!("LU of {what}"),
        );
        let exchanges = Exchanges::new(&a);
        let lu = Incremental::new(&a, &exchanges, Backend::Faer).unwrap();
        agrees(
            counted(&lu, grid),
            incremental_loops(shape, grid),
            &format!("LU with incremental pivoting of {what}"),
        );
        for tree in [Tree::Flat, Tree::Binary, Tree::Greedy] {
            let q = Reflectors::new(a.layout(), Options { tree, ib: IB });
            let factor = qr::Factor::new(&a, &q, Backend::Faer).unwrap();
            let what = format!("QR by {tree} of {what}");
            agrees(counted(&factor, grid), qr_loops(shape, grid, tree), &what);
        }
    }
}

#[test]
fn counted_flops_add_up_to_lapacks() {
    let near = |counted: f64, whole: u64, what: &str| {
        let ratio = counted / whole as f64;
        assert!((ratio - 1.0).abs() < 0.01, "{what}: {ratio}");
    };
    let (n, nb) = (960, 64);
    let grid = (2, 2);
    let a = vacant(Layout::lower(n, nb).unwrap(), grid);
    let factor = cholesky::Factor::new(&a, Backend::Faer).unwrap();
    near(counted(&factor, grid).1, flops::potrf::<f64>(n), "Cholesky");
    let [a, b, c] = [(); 3].map(|()| vacant(Layout::general(n, n, nb).unwrap(), grid));
    let lu = Unpivoted::new(&a, &Pivots::new(&a), Backend::Faer).unwrap();
    near(counted(&lu, grid).1, flops::getrf::<f64>(n, n), "LU");
    let exchanges = Exchanges::new(&a);
    let lu = Incremental::new(&a, &exchanges, Backend::Faer).unwrap();
    let what = "LU with incremental pivoting";
    near(counted(&lu, grid).1, flops::getrf::<f64>(n, n), what);
    let product = Gemm::new(
        1.0,
        Operand::plain(&a),
        Operand::plain(&b),
        0.0,
        &c,
        Backend::Faer,
    );
    near(
        counted(&product.unwrap(), grid).1,
        flops::gemm::<f64>(n, n, n),
        "product",
    );
}

#[test]
fn a_counted_product_sends_each_tile_once_to_each_other_rank_of_its_line() {
    for (p, q) in GRIDS {
        let [a, b, c] = [(14, 11), (11, 17), (14, 17)].map(|shape| general(shape, (p, q)));
        let product = Gemm::new(
            1.0,
            Operand::plain(&a),
            Operand::plain(&b),
            0.0,
            &c,
            Backend::Faer,
        );
        // A has 4 × 3 tiles, B 3 × 5; every line of ranks has a tile of C.
        let (p, q) = (u64::from(p), u64::from(q));
        let messages = 12 * (q - 1) + 15 * (p - 1);
        let elements = 14 * 11 * (q - 1) + 11 * 17 * (p - 1);
        let (sent, _) = counted(&product.unwrap(), (p as u32, q as u32));
        assert_eq!(sent, (messages, elements), "{p} x {q}");
    }
}
