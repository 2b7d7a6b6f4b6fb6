//! What is computed from matrices that are spread over ranks is, bit for bit, that of one rank.

#[path = "../needs/mod.rs"]
mod needs;
#[path = "../../../dataflow-core/tests/specimen/ranks.rs"]
#[allow(dead_code, reason = "the core's tests use all of it")]
mod ranks;
mod scaled;
#[path = "../traffic/mod.rs"]
mod traffic;

use dataflow_core::port::{Context, Courier, Heap, Inline, Shuffled};
use dataflow_core::rank::Rank;
use dataflow_core::run_across;
use dataflow_core::space::counts::Counting;
use dataflow_linalg::LinalgError;
use dataflow_linalg::cholesky::{Check, Factor, Inverse, factor, residual, substitution};
use dataflow_linalg::kernel::{Backend, Op, Side};
use dataflow_linalg::lu::{self, Pivots};
use dataflow_linalg::matrix::digest::{Digest, digest};
use dataflow_linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow_linalg::matrix::norm::{Norm, norm};
use dataflow_linalg::matrix::transfer::{Turn, transfer};
use dataflow_linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow_linalg::product::{Gemm, Herk, Operand, Torus, TriangularOperand, trmm, trsm};
use dataflow_linalg::qr::{self, Options, Reduction, Reflectors, Tree};
use dataflow_linalg::scalar::{Scalar, c32, c64};
use dataflow_linalg::weight::Weight;
use ranks::{Crossed, on_ranks};
use std::num::NonZeroU32;
use std::sync::Arc;
use traffic::{Loops, Read, extent, lower, whole};

const N: usize = 50;
const NB: usize = 8;

fn alone<T: Scalar>() -> Digest {
    let a =
        TiledMatrix::<T>::from_entries(Layout::lower(N, NB).unwrap(), &PositiveDefinite::new(N, 3));
    factor(&a, Backend::Faer, &Inline).unwrap();
    digest(&a).unwrap()
}

/// The scaled residual of one rank.
fn residual_alone<T: Scalar>() -> f64 {
    let original = PositiveDefinite::new(N, 3);
    let a = TiledMatrix::<T>::from_entries(Layout::lower(N, NB).unwrap(), &original);
    factor(&a, Backend::Faer, &Inline).unwrap();
    residual(&original, &a).unwrap()
}

/// Factors and checks the matrix over a grid: what rank 0 knows of the residual.
fn residual_across<T: Scalar>(p: u32, q: u32, seed: u64) -> f64 {
    let original = PositiveDefinite::new(N, 3);
    let distribution = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let parts: Vec<_> = (0..p * q)
        .map(|rank| {
            let layout = Layout::lower(N, NB).unwrap();
            let layout = layout.distributed(distribution, Rank(rank)).unwrap();
            TiledMatrix::<T>::from_entries(layout, &original)
        })
        .collect();
    let part = |courier: &dyn Courier| &parts[courier.rank().0 as usize];
    on_ranks(p * q, (seed, 2), |courier| {
        let factor = Factor::new(part(courier), Backend::Faer).unwrap();
        factor.run(&Context::new(&Shuffled::new(seed)).across(courier))
    });
    let (residuals, _) = on_ranks(p * q, (seed, 2), |courier| {
        let check = Check::new(&original, part(courier)).unwrap();
        run_across(&check, &Context::new(&Shuffled::new(seed)).across(courier)).unwrap();
        check.residual()
    });
    assert!(residuals[1..].iter().all(Option::is_none));
    residuals[0].unwrap()
}

#[test]
fn every_grid_gives_the_residual_of_one_rank_to_the_bit() {
    for (p, q) in [(1, 2), (3, 1), (2, 2), (2, 3), (4, 5)] {
        let residual = residual_across::<f64>(p, q, 7);
        assert_eq!(residual, residual_alone::<f64>(), "{p} x {q}");
        assert!(residual > 0.0);
    }
    assert_eq!(residual_across::<c64>(2, 2, 1), residual_alone::<c64>());
}

/// Factors the matrix over a grid; the sum of the ranks' digests, and what crossed.
fn across<T: Scalar>(p: u32, q: u32, seed: u64) -> (Digest, Crossed) {
    let (parts, crossed) = on_ranks(p * q, (seed, 2), |courier| {
        let distribution = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
        let layout = Layout::lower(N, NB)
            .unwrap()
            .distributed(distribution, courier.rank())
            .unwrap();
        let a = TiledMatrix::<T>::from_entries(layout, &PositiveDefinite::new(N, 3));
        let factor = Factor::new(&a, Backend::Faer).unwrap();
        let on = Shuffled::new(seed).with_threads(2);
        let report = factor.run(&Context::new(&on).across(courier)).unwrap();
        assert_eq!(report.copies(), 0);
        digest(&a).unwrap()
    });
    (parts.into_iter().sum(), crossed)
}

#[test]
fn every_grid_gives_the_digest_of_one_rank_in_every_precision() {
    for (p, q) in [
        (1, 1),
        (1, 2),
        (2, 1),
        (3, 1),
        (2, 2),
        (2, 3),
        (3, 2),
        (4, 5),
        (1, 30),
    ] {
        assert_eq!(across::<f64>(p, q, 1).0, alone::<f64>(), "{p} x {q}");
    }
    assert_eq!(across::<f32>(2, 2, 1).0, alone::<f32>());
    assert_eq!(across::<c64>(2, 2, 1).0, alone::<c64>());
}

/// Decompositions that have a lookahead.
#[derive(Clone, Copy, Debug)]
enum Decomposition {
    Cholesky,
    Unpivoted,
    Pivoted,
    Tournament,
    Qr,
}

/// Factors a matrix over a grid in the order of priorities; the sum of the ranks' digests, and what crossed.
fn ahead(what: Decomposition, (p, q): (u32, u32), lookahead: Option<u32>) -> (Digest, Crossed) {
    let (parts, crossed) = on_ranks(p * q, (3, 2), |courier| {
        let layout = match what {
            Decomposition::Cholesky => Layout::lower(N, NB),
            _ => Layout::general(N, N, NB),
        };
        let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
        let layout = layout.unwrap().distributed(grid, courier.rank()).unwrap();
        let a = TiledMatrix::<f64>::from_entries(layout, &PositiveDefinite::new(N, 3));
        let on = Context::new(&Inline).across(courier);
        macro_rules! run {
            ($factor:expr) => {{
                let factor = $factor;
                match lookahead {
                    None => factor.run(&on).unwrap(),
                    Some(columns) => factor.with_lookahead(columns).run(&on).unwrap(),
                }
            }};
        }
        let backend = Backend::Faer;
        match what {
            Decomposition::Cholesky => run!(Factor::new(&a, backend).unwrap()),
            Decomposition::Qr => {
                let (tree, ib) = (Tree::Greedy, 4);
                let q = Reflectors::new(a.layout(), Options { tree, ib });
                run!(qr::Factor::new(&a, &q, backend).unwrap())
            }
            Decomposition::Unpivoted => {
                run!(lu::Unpivoted::new(&a, &Pivots::new(&a), backend).unwrap())
            }
            Decomposition::Pivoted => {
                let pivots = Pivots::new(&a);
                run!(lu::Factor::new(&a, &pivots, backend).unwrap())
            }
            Decomposition::Tournament => {
                let (pivots, groups) = (Pivots::new(&a), NonZeroU32::new(2).unwrap());
                let factor = lu::Factor::new(&a, &pivots, backend).unwrap();
                run!(factor.by_tournament(groups))
            }
        };
        digest(&a).unwrap()
    });
    (parts.into_iter().sum(), crossed)
}

#[test]
fn a_lookahead_changes_neither_bits_nor_what_crosses() {
    use Decomposition::{Cholesky, Pivoted, Qr, Tournament, Unpivoted};
    for what in [Cholesky, Unpivoted, Pivoted, Tournament, Qr] {
        for grid in [(1, 1), (2, 2), (2, 3)] {
            let (expected, crossed) = ahead(what, grid, None);
            for columns in [0, 2, 50] {
                let of = format!("{what:?} on {grid:?}, {columns} columns");
                let (digest, crossed_too) = ahead(what, grid, Some(columns));
                assert_eq!(digest, expected, "{of}");
                let sent = |crossed: &Crossed| (crossed.data, crossed.bytes);
                assert_eq!(sent(&crossed_too), sent(&crossed), "{of}");
            }
        }
    }
}

/// What LU with row swaps sends, counted before there is a matrix, and sent for a random one.
fn told_and_sent((m, n, nb): (usize, usize, usize), (p, q): (u32, u32)) {
    let of = format!("{m} x {n} on {p} x {q}");
    let layout = Layout::general(m, n, nb).unwrap();
    let (_, crossed) = on_ranks(p * q, (3, 2), |courier| {
        let a = part::<f64>(layout, (p, q), courier.rank(), &Random::new(5));
        let pivots = Pivots::new(&a);
        let factor = lu::Factor::new(&a, &pivots, Backend::Faer).unwrap();
        factor.run(&Context::new(&Inline).across(courier)).unwrap();
    });
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let layout = layout.distributed(grid, Rank(0)).unwrap();
    let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
    let pivots = Pivots::new(&a);
    let factor = lu::Factor::new(&a, &pivots, Backend::Faer).unwrap();
    let bytes = |task, flow| factor.bytes(task, flow);
    let counts = Counting::of(&factor, p * q).bytes(&bytes).count().unwrap();
    let told = counts.sent();
    assert_eq!(told.messages, crossed.data, "{of}");
    let off = told.bytes as f64 / crossed.bytes as f64 - 1.0;
    println!("{of}: {} bytes told, {off:+.4}", told.bytes);
    // Of one small matrix.
    assert!(off.abs() < 0.05, "{of}: {off:+.4}");
}

#[test]
fn what_row_swaps_send_is_told_before_there_is_a_matrix() {
    for grid in [(1, 2), (2, 1), (2, 2), (3, 2), (4, 1)] {
        for shape in [(200, 200, 16), (150, 90, 16), (90, 150, 16)] {
            told_and_sent(shape, grid);
        }
    }
}

#[test]
fn a_final_tile_is_sent_once_to_each_rank_that_needs_it() {
    // 7 × 7 tiles on 2 × 2 ranks, counted by hand for one column and by the formula for all.
    let nt = N.div_ceil(NB);
    let owner = |m: usize, n: usize| (m % 2) * 2 + n % 2;
    let mut crossings = 0;
    for n in 0..nt {
        for m in n..nt {
            let below = (m + 1..nt).map(|i| owner(i, if m == n { n } else { m }));
            let beside = (n + 1..=m).map(|j| owner(m, j));
            let ranks = below.chain(beside).filter(|&rank| rank != owner(m, n));
            crossings += ranks.collect::<std::collections::BTreeSet<_>>().len() as u64;
        }
    }
    assert_eq!(across::<f64>(2, 2, 4).1.data, crossings);
}

#[test]
fn a_matrix_that_is_not_positive_definite_is_the_same_error_on_every_rank() {
    let spoiled = |i: usize, j: usize| {
        if i == j {
            if i == 37 { -1.0 } else { 100.0 }
        } else {
            1.0
        }
    };
    for seed in 0..5 {
        let (results, _) = on_ranks(6, (seed, 1), |courier| {
            let distribution = Distribution::BlockCyclic(Grid::new(2, 3).unwrap());
            let layout = Layout::lower(N, NB)
                .unwrap()
                .distributed(distribution, courier.rank())
                .unwrap();
            let a = TiledMatrix::from_fn(layout, spoiled);
            let factor = Factor::new(&a, Backend::Faer).unwrap();
            factor.run(&Context::new(&Shuffled::new(seed)).across(courier))
        });
        for result in results {
            let error = result.unwrap_err();
            assert!(
                matches!(error, LinalgError::NotPositiveDefinite { .. }),
                "{error}"
            );
            assert_eq!(error.index(), Some(38));
        }
    }
}

/// Only the rank whose entry it was had an error, and the others waited for its part in the next run.
#[test]
fn an_entry_that_panics_in_a_check_of_qr_is_the_same_error_on_every_rank() {
    let grid = Distribution::BlockCyclic(Grid::new(2, 2).unwrap());
    let (errors, _) = on_ranks(4, (1, 2), |courier| {
        let layout = Layout::general(N, 29, NB).unwrap();
        let layout = layout.distributed(grid, courier.rank()).unwrap();
        let on = Context::new(&Inline).across(courier);
        let a = TiledMatrix::<f64>::from_entries(layout, &Random::new(3));
        let q = Reflectors::new(
            &layout,
            Options {
                tree: Tree::Greedy,
                ib: 3,
            },
        );
        qr::Factor::new(&a, &q, Backend::Faer)
            .unwrap()
            .run(&on)
            .unwrap();
        let original = |i: usize, j: usize| match (i, j) {
            (NB, 0) => panic!("out of ink"),
            _ => Random::new(3).entry(i, j),
        };
        let error = qr::check(&original, &a, &q, &on).unwrap_err();
        // All go on together.
        qr::check(&Random::new(3), &a, &q, &on).unwrap();
        error.to_string()
    });
    assert!(errors[0].contains("out of ink"), "{}", errors[0]);
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
}

/// This rank's part of a matrix over a grid.
fn part<T: Scalar>(
    layout: Layout,
    (p, q): (u32, u32),
    rank: Rank,
    entries: &impl Entries<T>,
) -> TiledMatrix<T> {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    TiledMatrix::from_entries(layout.distributed(grid, rank).unwrap(), entries)
}

const GRIDS: [(u32, u32); 8] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (1, 3),
    (2, 2),
    (2, 3),
    (3, 2),
    (4, 5),
];

/// Inverts the matrix over a grid: the sum of the digests, and what crossed.
fn inverted<T: Scalar>(grid: (u32, u32), seed: u64) -> (Digest, Crossed) {
    let original = PositiveDefinite::new(N, 3);
    let on = Shuffled::new(seed).with_threads(2);
    let (digests, crossed) = on_ranks(grid.0 * grid.1, (seed, 2), |courier| {
        let layout = Layout::lower(N, NB).unwrap();
        let a = part::<T>(layout, grid, courier.rank(), &original);
        let inverse = Inverse::new(&a, Backend::Faer).unwrap();
        let report = inverse.run(&Context::new(&on).across(courier)).unwrap();
        // L, the product with it, what it is solved with, and its inverse: each is read by others
        // before it is overwritten.
        let most = 4 * a.n_slots() as u64;
        assert!(
            report.copies() <= most,
            "{:?} for {} tiles",
            report.copies_by_class,
            a.n_slots()
        );
        digest(&a).unwrap()
    });
    (digests.into_iter().sum(), crossed)
}

#[test]
fn every_grid_gives_the_inverse_of_one_rank_to_the_bit() {
    let alone = inverted::<f64>((1, 1), 1).0;
    for (grid, seed) in GRIDS
        .into_iter()
        .flat_map(|grid| (0..3).map(move |seed| (grid, seed)))
    {
        assert_eq!(inverted::<f64>(grid, seed).0, alone, "{grid:?}");
    }
    for grid in [(2, 2), (1, 3)] {
        assert_eq!(inverted::<c64>(grid, 5).0, inverted::<c64>((1, 1), 1).0);
    }
}

type TileOf = (usize, usize);

/// The plain loops of the inversion: what each task reads, and what it overwrites.
fn inversion(nt: usize, mut task: impl FnMut(&[TileOf], TileOf)) {
    for k in 0..nt {
        task(&[], (k, k));
        (k + 1..nt).for_each(|m| task(&[(k, k)], (m, k)));
        for m in k + 1..nt {
            task(&[(m, k)], (m, m));
            (k + 1..m).for_each(|n| task(&[(m, k), (n, k)], (m, n)));
        }
    }
    for k in 0..nt {
        (k + 1..nt).for_each(|m| task(&[(k, k)], (m, k)));
        for m in k + 1..nt {
            (0..k).for_each(|n| task(&[(m, k), (k, n)], (m, n)));
        }
        (0..k).for_each(|n| task(&[(k, k)], (k, n)));
        task(&[], (k, k));
    }
    for k in 0..nt {
        for m in 0..k {
            task(&[(k, m)], (m, m));
            (0..m).for_each(|n| task(&[(k, m), (k, n)], (m, n)));
        }
        (0..k).for_each(|n| task(&[(k, k)], (k, n)));
        task(&[], (k, k));
    }
}

/// A tile of a matrix, by its letter; of a diagonal tile its triangle.
fn of_lower(letter: char, n: usize, (i, j): TileOf) -> Read {
    let (name, rows, cols) = ((letter, i, j), extent(n, NB, i), extent(n, NB, j));
    match i == j {
        true => lower(name, rows, cols),
        false => whole(name, rows, cols),
    }
}

/// A tile of a `rows` × `cols` matrix.
fn of_matrix(letter: char, (rows, cols): (usize, usize), (i, j): TileOf) -> Read {
    whole((letter, i, j), extent(rows, NB, i), extent(cols, NB, j))
}

#[test]
fn a_version_of_the_inversion_is_sent_once_to_each_rank_that_reads_it() {
    for grid in GRIDS {
        let mut loops = Loops::on(grid);
        inversion(N.div_ceil(NB), |reads, (i, j)| {
            let reads: Vec<_> = reads.iter().map(|tile| of_lower('A', N, *tile)).collect();
            loops.task(loops.rank(i, j), &reads, &[('A', i, j)]);
        });
        loops.expect::<f64>(&inverted::<f64>(grid, 4).1, &format!("{grid:?}"));
    }
}

/// Factors and solves over a grid: the sum of the digests, and what crossed.
fn solved<T: Scalar>(columns: usize, grid: (u32, u32), seed: u64) -> (Digest, Crossed) {
    let on = Shuffled::new(seed).with_threads(2);
    let (factors, _) = on_ranks(grid.0 * grid.1, (seed, 2), |courier| {
        let layout = Layout::lower(N, NB).unwrap();
        let a = part::<T>(layout, grid, courier.rank(), &PositiveDefinite::new(N, 3));
        let factor = Factor::new(&a, Backend::Faer).unwrap();
        factor.run(&Context::new(&on).across(courier)).unwrap();
        a
    });
    let (digests, crossed) = on_ranks(grid.0 * grid.1, (seed, 2), |courier| {
        let l = &factors[courier.rank().0 as usize];
        let sides = Layout::general(N, columns, NB).unwrap();
        let b = part::<T>(sides, grid, courier.rank(), &Random::new(8));
        let solve = substitution(l, &b, Backend::Faer).unwrap();
        let report = solve.run(&Context::new(&on).across(courier)).unwrap();
        assert_eq!(report.copies(), 0);
        digest(&b).unwrap()
    });
    (digests.into_iter().sum(), crossed)
}

#[test]
fn every_grid_gives_the_solution_of_one_rank_and_sends_each_tile_once_on_each_way() {
    for columns in [1, 20] {
        let alone = solved::<f64>(columns, (1, 1), 1).0;
        let (nt, jt) = (N.div_ceil(NB), columns.div_ceil(NB));
        for grid in GRIDS {
            let (digest, crossed) = solved::<f64>(columns, grid, 3);
            assert_eq!(digest, alone, "{columns} columns on {grid:?}");
            // L goes to each rank once for the way down and once for the way up, but for its diagonal.
            let mut loops = Loops::on(grid);
            let side = |m, j| of_matrix('B', (N, columns), (m, j));
            for j in 0..jt {
                let ways = [('D', (0..nt).collect()), ('U', (0..nt).rev().collect())];
                for (letter, order) in ways {
                    let order: Vec<usize> = order;
                    for (turn, &k) in order.iter().enumerate() {
                        let reads = [of_lower('L', N, (k, k)), side(k, j)];
                        loops.task(loops.rank(k, j), &reads, &[side(k, j).0]);
                        for &m in &order[turn + 1..] {
                            let factor = of_lower(letter, N, (m.max(k), m.min(k)));
                            let reads = [factor, side(k, j), side(m, j)];
                            loops.task(loops.rank(m, j), &reads, &[side(m, j).0]);
                        }
                    }
                }
            }
            loops.expect::<f64>(&crossed, &format!("{columns} columns on {grid:?}"));
        }
        assert_eq!(
            solved::<c64>(columns, (2, 3), 3).0,
            solved::<c64>(columns, (1, 1), 1).0
        );
    }
}

#[test]
fn an_inversion_that_fails_is_the_same_error_on_every_rank() {
    let spoiled = |i: usize, j: usize| match (i, j) {
        (37, 37) => -1.0,
        _ if i == j => 100.0,
        _ => 1.0,
    };
    let (results, _) = on_ranks(6, (3, 1), |courier| {
        let a = part::<f64>(
            Layout::lower(N, NB).unwrap(),
            (2, 3),
            courier.rank(),
            &spoiled,
        );
        let inverse = Inverse::new(&a, Backend::Faer).unwrap();
        inverse.run(&Context::new(&Shuffled::new(3)).across(courier))
    });
    for result in results {
        assert_eq!(result.unwrap_err().index(), Some(38));
    }
}

/// An operand of the product: its structure, and whether its adjoint enters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Enters {
    Plain,
    Adjoint,
    Hermitian,
}

/// The graph of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Summa,
    Torus,
}

/// Multiplies m × k by k × n over a grid: the sum of the digests, and what crossed.
fn multiplied(
    by: By,
    [m, n, k]: [usize; 3],
    (left, right): (Enters, Enters),
    grid: (u32, u32),
    seed: u64,
) -> (Digest, Crossed) {
    let layout = |rows, cols, enters| match enters {
        Enters::Plain => Layout::general(rows, cols, NB).unwrap(),
        Enters::Adjoint => Layout::general(cols, rows, NB).unwrap(),
        Enters::Hermitian => Layout::lower(rows, NB).unwrap(),
    };
    fn operand(matrix: &TiledMatrix<c64>, enters: Enters) -> Operand<'_, c64> {
        match enters {
            Enters::Adjoint => Operand::adjoint(matrix),
            _ => Operand::plain(matrix),
        }
    }
    let on = Shuffled::new(seed).with_threads(2);
    let (digests, crossed) = on_ranks(grid.0 * grid.1, (seed, 2), |courier| {
        let rank = courier.rank();
        let a = part::<c64>(layout(m, k, left), grid, rank, &Random::new(1));
        let b = part::<c64>(layout(k, n, right), grid, rank, &Random::new(2));
        let c = part::<c64>(layout(m, n, Enters::Plain), grid, rank, &Random::new(3));
        let (alpha, beta) = (c64::new(0.5, 1.0), c64::new(-1.0, 0.0));
        let (a, b) = (operand(&a, left), operand(&b, right));
        let report = match by {
            By::Summa => {
                let product = Gemm::new(alpha, a, b, beta, &c, Backend::Faer).unwrap();
                product.run(&Context::new(&on).across(courier))
            }
            By::Torus => {
                let product = Torus::new(alpha, a, b, beta, &c, Backend::Faer).unwrap();
                product.run(&Context::new(&on).across(courier))
            }
        };
        assert_eq!(report.unwrap().copies(), 0);
        digest(&c).unwrap()
    });
    (digests.into_iter().sum(), crossed)
}

#[test]
fn every_grid_gives_the_product_of_one_rank_and_sends_each_tile_once_to_each_rank() {
    use Enters::{Adjoint, Hermitian, Plain};
    let many = [
        ([50, 20, 70], (Plain, Plain)),
        ([20, 50, 100], (Adjoint, Plain)),
        ([33, 41, 8], (Plain, Adjoint)),
        ([60, 20, 60], (Hermitian, Plain)),
        ([10, 75, 75], (Plain, Hermitian)),
        ([5, 5, 90], (Plain, Plain)),
    ];
    for (shape, enters) in many {
        let alone = multiplied(By::Summa, shape, enters, (1, 1), 1).0;
        let [mt, nt, kt] = shape.map(|extent| extent.div_ceil(NB));
        for grid in GRIDS {
            let (digest, crossed) = multiplied(By::Summa, shape, enters, grid, 7);
            assert_eq!(digest, alone, "{shape:?} {enters:?} on {grid:?}");
            let stored = |letter, extents: (usize, usize), (i, j): TileOf, enters| match enters {
                Plain => of_matrix(letter, extents, (i, j)),
                Adjoint => of_matrix(letter, (extents.1, extents.0), (j, i)),
                Hermitian => of_matrix(letter, extents, (i.max(j), i.min(j))),
            };
            let mut loops = Loops::on(grid);
            for (m, n) in (0..mt).flat_map(|m| (0..nt).map(move |n| (m, n))) {
                for k in 0..kt {
                    let a = stored('A', (shape[0], shape[2]), (m, k), enters.0);
                    let b = stored('B', (shape[2], shape[1]), (k, n), enters.1);
                    loops.task(loops.rank(m, n), &[a, b], &[]);
                }
            }
            loops.expect::<c64>(&crossed, &format!("{shape:?} {enters:?} on {grid:?}"));
        }
    }
}

/// Of shapes that leave no rank without a part.
#[test]
fn the_torus_has_the_bits_of_the_product_and_sends_as_much() {
    let plain = (Enters::Plain, Enters::Plain);
    for shape in [[50, 50, 50], [40, 64, 100]] {
        let tiles = shape.map(|extent: usize| extent.div_ceil(NB) as u64);
        let elements = shape.map(|extent| extent as u64);
        let alone = multiplied(By::Summa, shape, plain, (1, 1), 1).0;
        for grid in GRIDS {
            let (digest, crossed) = multiplied(By::Torus, shape, plain, grid, 7);
            assert_eq!(digest, alone, "{shape:?} on {grid:?}");
            // A tile of A goes to all other ranks of its row, one of B to those of its column.
            let (p, q) = (u64::from(grid.0), u64::from(grid.1));
            let of = |[m, n, k]: [u64; 3]| m * k * (q - 1) + k * n * (p - 1);
            let expected = (of(tiles), of(elements) * size_of::<c64>() as u64);
            assert_eq!(
                (crossed.data, crossed.bytes),
                expected,
                "{shape:?} on {grid:?}"
            );
        }
    }
    // Ranks without a part of C hand on what they own, and no more.
    let alone = multiplied(By::Summa, [9, 9, 90], plain, (1, 1), 1).0;
    for grid in [(4, 5), (1, 7)] {
        assert_eq!(multiplied(By::Torus, [9, 9, 90], plain, grid, 3).0, alone);
    }
}

/// A product with a triangle: whether it is a solve, the side, the operation, whether it is lower.
type WithTriangle = (bool, Side, Op, bool);

/// Applies a triangle to a matrix with `other` columns, or rows, over a grid: the sum of the
/// digests, and what crossed.
fn applied(
    (solves, side, op, lower): WithTriangle,
    other: usize,
    grid: (u32, u32),
    seed: u64,
) -> (Digest, Crossed) {
    let entry = |i: usize, j: usize| match i == j {
        true => c64::new(3.0, 1.0),
        false => {
            let random: c64 = Random::new(1).entry(i, j);
            random / N as f64
        }
    };
    let on = Shuffled::new(seed).with_threads(2);
    let (digests, crossed) = on_ranks(grid.0 * grid.1, (seed, 2), |courier| {
        let rank = courier.rank();
        let a = part::<c64>(Layout::general(N, N, NB).unwrap(), grid, rank, &entry);
        let sides = match side {
            Side::Left => Layout::general(N, other, NB),
            Side::Right => Layout::general(other, N, NB),
        };
        let b = part::<c64>(sides.unwrap(), grid, rank, &Random::new(2));
        let triangle = match lower {
            true => TriangularOperand::lower(&a).with(op),
            false => TriangularOperand::upper(&a).with(op),
        };
        let alpha = c64::new(0.5, 1.0);
        let run = match solves {
            true => trsm,
            false => trmm,
        };
        let on = Context::new(&on).across(courier);
        let report = run(side, alpha, triangle, &b, Backend::Faer, &on).unwrap();
        let most = if solves { 0 } else { b.n_slots() as u64 };
        assert!(
            report.copies() <= most,
            "{:?} for {} tiles",
            report.copies_by_class,
            a.n_slots()
        );
        digest(&b).unwrap()
    });
    (digests.into_iter().sum(), crossed)
}

#[test]
fn every_grid_gives_the_triangular_product_of_one_rank_and_sends_each_tile_once_to_each_rank() {
    use {Op::*, Side::*};
    for (case, other) in [
        ((true, Left, NoTranspose, true), 20),
        ((true, Left, ConjTranspose, true), 1),
        ((true, Right, NoTranspose, true), 20),
        ((true, Right, Transpose, false), 9),
        ((false, Left, NoTranspose, true), 20),
        ((false, Left, NoTranspose, false), 1),
        ((false, Right, ConjTranspose, true), 20),
    ] {
        let (solves, side, op, lower) = case;
        let alone = applied(case, other, (1, 1), 1).0;
        let (nt, columns) = (N.div_ceil(NB), other.div_ceil(NB));
        // Rows in the order in which they can be solved.
        let forwards = (lower == (op == NoTranspose)) == (side == Left);
        let row = |turn: usize| if forwards { turn } else { nt - 1 - turn };
        for grid in GRIDS {
            // Of A's diagonal tiles the other half may hold anything; they travel as they are.
            let of_a = |m: usize, k: usize| match (side == Left) == (op == NoTranspose) {
                true => of_matrix('A', (N, N), (m, k)),
                false => of_matrix('A', (N, N), (k, m)),
            };
            let of_b = |m: usize, n: usize| match side {
                Left => of_matrix('B', (N, other), (m, n)),
                Right => of_matrix('B', (other, N), (n, m)),
            };
            let mut loops = Loops::on(grid);
            let mut task = |reads: &[Read], (name, ..): Read| {
                loops.task(loops.rank(name.1, name.2), reads, &[name]);
            };
            for n in 0..columns {
                // A product from the last turn on, so that rows are read as they were.
                for turn in 0..nt {
                    let m = row(if solves { turn } else { nt - 1 - turn });
                    let before = 0..(if solves { turn } else { nt - 1 - turn });
                    if !solves {
                        task(&[of_a(m, m)], of_b(m, n));
                    }
                    for k in before.map(row) {
                        task(&[of_a(m, k), of_b(k, n)], of_b(m, n));
                    }
                    if solves {
                        task(&[of_a(m, m)], of_b(m, n));
                    }
                }
            }
            let (digest, crossed) = applied(case, other, grid, 3);
            assert_eq!(digest, alone, "{case:?} on {grid:?}");
            loops.expect::<c64>(&crossed, &format!("{case:?} on {grid:?}"));
        }
    }
}

/// Squares a matrix over a grid: the sum of the digests, and what crossed.
fn squared(
    (n, k): (usize, usize),
    adjoint: bool,
    grid: (u32, u32),
    seed: u64,
) -> (Digest, Crossed) {
    let (rows, cols) = if adjoint { (k, n) } else { (n, k) };
    let on = Shuffled::new(seed).with_threads(2);
    let (digests, crossed) = on_ranks(grid.0 * grid.1, (seed, 2), |courier| {
        let rank = courier.rank();
        let a = part::<c64>(
            Layout::general(rows, cols, NB).unwrap(),
            grid,
            rank,
            &Random::new(1),
        );
        let c = part::<c64>(Layout::lower(n, NB).unwrap(), grid, rank, &Random::new(3));
        let operand = match adjoint {
            true => Operand::adjoint(&a),
            false => Operand::plain(&a),
        };
        let square = Herk::new(0.5, operand, -1.0, &c, Backend::Faer).unwrap();
        let report = square.run(&Context::new(&on).across(courier)).unwrap();
        assert_eq!(report.copies(), 0);
        digest(&c).unwrap()
    });
    (digests.into_iter().sum(), crossed)
}

#[test]
fn every_grid_gives_the_square_of_one_rank_and_sends_each_tile_once_to_each_rank() {
    for (shape, adjoint) in [((N, 70), false), ((33, 20), true), ((8, 90), false)] {
        let alone = squared(shape, adjoint, (1, 1), 1).0;
        let (nt, kt) = (shape.0.div_ceil(NB), shape.1.div_ceil(NB));
        for grid in GRIDS {
            let of_a = |i: usize, k: usize| match adjoint {
                true => of_matrix('A', (shape.1, shape.0), (k, i)),
                false => of_matrix('A', shape, (i, k)),
            };
            let mut loops = Loops::on(grid);
            for (m, n) in (0..nt).flat_map(|m| (0..=m).map(move |n| (m, n))) {
                (0..kt).for_each(|k| loops.task(loops.rank(m, n), &[of_a(m, k), of_a(n, k)], &[]));
            }
            let (digest, crossed) = squared(shape, adjoint, grid, 3);
            assert_eq!(digest, alone, "{shape:?} on {grid:?}");
            loops.expect::<c64>(&crossed, &format!("{shape:?} on {grid:?}"));
        }
    }
}

#[test]
fn every_rank_is_told_the_norms_of_one_rank_to_the_bit() {
    for layout in [
        Layout::general(50, 23, NB),
        Layout::lower(N, NB),
        Layout::general(3, 2, 8),
    ] {
        let layout = layout.unwrap();
        let whole = part::<c64>(layout, (1, 1), Rank(0), &Random::new(4));
        // The Frobenius norm takes two runs, more than this post delivers.
        for which in [Norm::One, Norm::Infinity, Norm::Max] {
            let expected = norm(&whole, which, &Inline).unwrap();
            for grid in GRIDS {
                let (norms, _) = on_ranks(grid.0 * grid.1, (5, 2), |courier| {
                    let a = part::<c64>(layout, grid, courier.rank(), &Random::new(4));
                    norm(&a, which, &Context::new(&Shuffled::new(2)).across(courier)).unwrap()
                });
                let told = norms.iter().all(|norm| *norm == expected);
                assert!(told, "{which:?} on {grid:?}");
            }
        }
    }
}

/// Factors a tall matrix over a grid, forms Q·C and C·Qᴴ: the digests of what all ranks hold.
fn qr_across<T: Scalar>((p, q): (u32, u32), tree: Tree, seed: u64) -> [Digest; 3] {
    let (m, n, other) = (N, 29, 13);
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let part = |rank: Rank, (rows, cols): (usize, usize)| {
        let layout = Layout::general(rows, cols, NB).unwrap();
        let layout = layout.distributed(grid, rank).unwrap();
        TiledMatrix::<T>::from_entries(layout, &Random::new(3))
    };
    let options = Options { tree, ib: 3 };
    let on = Shuffled::new(seed).with_threads(2);
    let (factored, _) = on_ranks(p * q, (seed, 2), |courier| {
        let a = part(courier.rank(), (m, n));
        let reflectors = Reflectors::new(a.layout(), options);
        let factor = qr::Factor::new(&a, &reflectors, Backend::Faer).unwrap();
        let report = factor.run(&Context::new(&on).across(courier)).unwrap();
        assert_eq!(report.copies(), 0);
        (a, reflectors)
    });
    let applied = |way: (Side, Op), shape| {
        let (parts, _) = on_ranks(p * q, (seed, 2), |courier| {
            let (a, reflectors) = &factored[courier.rank().0 as usize];
            let c = part(courier.rank(), shape);
            let apply = qr::Apply::new(a, reflectors, way, &c, Backend::Faer).unwrap();
            let report = apply.run(&Context::new(&on).across(courier)).unwrap();
            assert_eq!(report.copies(), 0);
            digest(&c).unwrap()
        });
        parts.into_iter().sum()
    };
    [
        factored.iter().map(|(a, _)| digest(a).unwrap()).sum(),
        applied((Side::Left, Op::NoTranspose), (m, other)),
        applied((Side::Right, Op::ConjTranspose), (other, m)),
    ]
}

#[test]
fn every_grid_gives_the_qr_of_one_rank_for_every_tree() {
    let (low, high) = (Reduction::Greedy, Reduction::Binary);
    let hierarchical = Tree::Hierarchical {
        p: 2,
        a: 2,
        low,
        high,
    };
    for tree in [
        Tree::Flat,
        Tree::Binary,
        Tree::Greedy,
        Tree::Fibonacci,
        hierarchical,
    ] {
        let alone = qr_across::<f64>((1, 1), tree, 1);
        for grid in [(1, 2), (3, 1), (2, 2), (2, 3), (4, 5)] {
            assert_eq!(qr_across::<f64>(grid, tree, 2), alone, "{tree} on {grid:?}");
        }
    }
    let alone = qr_across::<c64>((1, 1), hierarchical, 1);
    assert_eq!(qr_across::<c64>((2, 2), hierarchical, 2), alone);
    let alone = qr_across::<f32>((1, 1), Tree::Greedy, 1);
    assert_eq!(qr_across::<f32>((2, 2), Tree::Greedy, 2), alone);
}

/// The shortest least-squares solution and the pseudo-inverse of a matrix of rank 17 over a grid: their
/// digests, and the rank and the order of columns that each rank was told.
fn shortest_across<T: Scalar>(
    (m, n): (usize, usize),
    (p, q): (u32, u32),
    seed: u64,
) -> ([Digest; 2], Vec<(usize, Vec<usize>)>) {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    let part = |rank: Rank, (rows, cols): (usize, usize), entries: &dyn Entries<T>| {
        let layout = Layout::general(rows, cols, NB).unwrap();
        let layout = layout.distributed(grid, rank).unwrap();
        TiledMatrix::<T>::from_fn(layout, |i, j| entries.entry(i, j))
    };
    let (left, right) = (Random::new(3), Random::new(4));
    let entry = |i: usize, j: usize| {
        (0..17).fold(T::zero(), |sum, k| {
            let (x, y): (T, T) = (left.entry(i, k), right.entry(k, j));
            sum + x * y
        })
    };
    let on = Shuffled::new(seed).with_threads(2);
    let (found, _) = on_ranks(p * q, (seed, 2), |courier| {
        let a = part(courier.rank(), (m, n), &entry);
        let b = part(courier.rank(), (m, 5), &Random::new(5));
        let options = Options {
            tree: Tree::Greedy,
            ib: 3,
        };
        let on = Context::new(&on).across(courier);
        let factors = qr::pivoted(&a, None, options, Backend::Faer, &on).unwrap();
        let (x, _) = factors.solve(&b, Backend::Faer, &on).unwrap();
        let told = (factors.rank(), factors.order().to_vec());
        let a = part(courier.rank(), (m, n), &entry);
        let inverse = qr::pseudo_inverse(&a, None, options, Backend::Faer, &on);
        let (inverse, rank, _) = inverse.unwrap();
        assert_eq!((rank, inverse.rows(), inverse.cols()), (told.0, n, m));
        ([&x, &inverse].map(|x| digest(x).unwrap()), told)
    });
    let (digests, told): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let sum = |of: usize| digests.iter().map(|parts: &[Digest; 2]| parts[of]).sum();
    ([sum(0), sum(1)], told)
}

#[test]
fn every_grid_gives_the_rank_the_shortest_solution_and_the_pseudo_inverse_of_one_rank() {
    fn check<T: Scalar>(shape: (usize, usize), grids: &[(u32, u32)]) {
        let (alone, told) = shortest_across::<T>(shape, (1, 1), 1);
        assert_eq!(told[0].0, 17);
        for &grid in grids {
            let (digests, of_ranks) = shortest_across::<T>(shape, grid, 2);
            assert_eq!(digests, alone, "{shape:?} on {grid:?}");
            assert!(of_ranks.iter().all(|of_rank| *of_rank == told[0]));
        }
    }
    for shape in [(N, 29), (29, N), (29, 29)] {
        check::<f64>(shape, &[(2, 2), (1, 3), (3, 2)]);
    }
    check::<c32>((N, 29), &[(2, 2)]);
}

#[test]
fn a_matrix_moves_between_grids_and_each_tile_once_to_each_rank_it_overlaps() {
    let (rows, cols) = (45, 30);
    let whole = part::<c64>(
        Layout::general(rows, cols, 7).unwrap(),
        (1, 1),
        Rank(0),
        &Random::new(6),
    );
    for (from, to) in [((2, 3), (3, 2)), ((1, 6), (6, 1)), ((2, 3), (2, 3))] {
        let (digests, crossed) = on_ranks(6, (9, 2), |courier| {
            let layout = |nb| Layout::general(rows, cols, nb).unwrap();
            let source = part::<c64>(layout(7), from, courier.rank(), &Random::new(6));
            let target = part::<c64>(layout(11), to, courier.rank(), &|_: usize, _: usize| {
                c64::default()
            });
            transfer(
                &source,
                Turn::Plain,
                &target,
                &Context::new(&Shuffled::new(3)).across(courier),
            )
            .unwrap();
            digest(&target).unwrap()
        });
        assert_eq!(digests.into_iter().sum::<Digest>(), digest(&whole).unwrap());
        let rank = |(p, q): (u32, u32), i: usize, j: usize| i as u32 % p * q + j as u32 % q;
        let mut expected = std::collections::BTreeSet::new();
        for (i, j) in (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j))) {
            let (owner, reader) = (rank(from, i / 7, j / 7), rank(to, i / 11, j / 11));
            if owner != reader {
                expected.insert((i / 7, j / 7, reader));
            }
        }
        assert_eq!(crossed.data, expected.len() as u64, "{from:?} to {to:?}");
    }
}

#[test]
fn every_rank_of_every_grid_gets_the_whole_matrix_and_each_tile_is_sent_once() {
    for (p, q) in GRIDS {
        for (to, layout) in [
            (0, Layout::general(17, 11, 4).unwrap()),
            (p * q - 1, Layout::lower(15, 4).unwrap()),
            (p * q / 2, Layout::general(3, 0, 4).unwrap()),
        ] {
            let entries = Random::new(8);
            let expected = TiledMatrix::<c64>::from_entries(layout, &entries);
            let (ended, crossed) = on_ranks(p * q, (u64::from(p), 2), |courier| {
                let own = part::<c64>(layout, (p, q), courier.rank(), &entries);
                let on = Shuffled::new(5);
                let whole = own.collect(Rank(to), &Context::new(&on).across(courier));
                let whole = whole.unwrap()?;
                assert_eq!(*whole.layout(), layout);
                Some(digest(&whole).unwrap())
            });
            for (rank, whole) in (0..).zip(ended) {
                assert_eq!(whole, (rank == to).then(|| digest(&expected).unwrap()));
            }
            let elsewhere = expected.tiles().filter(|&(i, j)| {
                let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
                grid.rank_of(i, j) != Rank(to)
            });
            assert_eq!(crossed.data, elsewhere.count() as u64, "{p} x {q} to {to}");
        }
    }
}
