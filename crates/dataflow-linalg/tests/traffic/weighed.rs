//! What spaces are said to send before there is a matrix, and what runs of them send: alone, and as series.

use super::NB;
use super::counted::{told, told_of_counts};
use super::qr::IB;
use crate::ranks::on_ranks;
use dataflow_core::port::{Context, Courier, Heap, Shuffled};
use dataflow_core::rank::Rank;
use dataflow_core::run_across;
use dataflow_core::space::Erased;
use dataflow_linalg::cholesky::{self, Inverse, substitution};
use dataflow_linalg::flops;
use dataflow_linalg::kernel::{Backend, Op, Side};
use dataflow_linalg::lu::{self, Exchanges, Incremental, Pivots, Replay, Solve, Unpivoted};
use dataflow_linalg::matrix::generate::Random;
use dataflow_linalg::matrix::transfer::{Transfer, Turn};
use dataflow_linalg::matrix::{Distribution, Entries, Grid, Layout, Regular, Tile, TiledMatrix};
use dataflow_linalg::product::{self, Gemm, Herk, Operand, Substitution, Torus, TriangularOperand};
use dataflow_linalg::qr::{
    self, Adjoint, Apply, Arrange, Choice, Compare, Leading, Lines, Options, Reflectors, Tree,
};
use dataflow_linalg::scalar::{Scalar, c32};
use dataflow_linalg::weight::Weight;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

type OnGrid = (u32, u32);

const GRIDS: [OnGrid; 4] = [(1, 3), (2, 1), (2, 2), (3, 2)];
const BACKEND: Backend = Backend::Faer;
const PLAIN: Op = Op::NoTranspose;
const ADJOINT: Op = Op::ConjTranspose;

/// How A, B and X are cut, and what is on A's diagonal beside random entries.
#[derive(Clone, Copy)]
struct Cut {
    a: Layout,
    b: Layout,
    x: Layout,
    raised: f64,
    tree: Tree,
    grid: OnGrid,
}

impl Cut {
    /// A of m × n, B of m × columns, X of n × columns.
    fn of((m, n): (usize, usize), columns: usize, grid: OnGrid) -> Self {
        let general = |rows, cols| Layout::general(rows, cols, NB).unwrap();
        Cut {
            a: general(m, n),
            b: general(m, columns),
            x: general(n, columns),
            raised: 60.0,
            tree: Tree::Flat,
            grid,
        }
    }

    /// A triangle of order n instead.
    fn lower(n: usize, columns: usize, grid: OnGrid) -> Self {
        let a = Layout::lower(n, NB).unwrap();
        Cut {
            a,
            ..Cut::of((n, n), columns, grid)
        }
    }

    /// A is random.
    fn random(self) -> Self {
        Cut {
            raised: 0.0,
            ..self
        }
    }

    /// Of everything each side is a quarter as long.
    fn quartered(self) -> Self {
        let quarter =
            |of: Layout| Layout::general(of.rows().div_ceil(4), of.cols().div_ceil(4), NB).unwrap();
        Cut {
            a: quarter(self.a),
            b: quarter(self.b),
            x: quarter(self.x),
            ..self
        }
    }

    fn n_ranks(&self) -> u32 {
        self.grid.0 * self.grid.1
    }

    fn here(&self, layout: Layout, rank: Rank) -> Layout {
        let grid = Distribution::BlockCyclic(Grid::new(self.grid.0, self.grid.1).unwrap());
        layout.distributed(grid, rank).unwrap()
    }
}

/// What spaces are made of.
struct Given<T: Scalar> {
    a: TiledMatrix<T>,
    b: TiledMatrix<T>,
    x: TiledMatrix<T>,
    pivots: Pivots<T>,
    exchanges: Exchanges<T>,
    q: Reflectors<T>,
    /// Room for Aᴴ.
    turned: TiledMatrix<T>,
}

impl<T: Scalar> Given<T> {
    /// A rank's part, with tiles or without.
    fn of(cut: &Cut, rank: Rank, is_there: bool) -> Self {
        let made = |layout, seed, raised: f64| {
            let layout = cut.here(layout, rank);
            let entry = |i: usize, j: usize| {
                let entry: T = Random::new(seed).entry(i, j);
                if i == j {
                    entry + T::from_real(raised)
                } else {
                    entry
                }
            };
            match is_there {
                true => TiledMatrix::from_fn(layout, entry),
                false => TiledMatrix::vacant(layout, Arc::new(Heap)),
            }
        };
        let options = Options {
            tree: cut.tree,
            ib: IB,
        };
        let a = made(cut.a, 3, cut.raised);
        let turned = Layout::general(a.cols(), a.rows(), NB).unwrap();
        let turned = TiledMatrix::vacant(cut.here(turned, rank), Arc::new(Heap));
        Given {
            pivots: Pivots::new(&a),
            exchanges: Exchanges::new(&a),
            q: Reflectors::new(a.layout(), options),
            turned,
            a,
            b: made(cut.b, 4, 0.0),
            x: made(cut.x, 5, 0.0),
        }
    }
}

/// Hears of spaces one after another.
type Hear<'h, T> = &'h mut dyn FnMut(Vec<Erased<'_, Tile<T>>>);
/// Makes spaces.
type Make<'m, T> = &'m (dyn Fn(&Given<T>, Hear<'_, T>) + Sync);

fn run<T: Scalar>(of: &Given<T>, make: Make<'_, T>, courier: &dyn Courier) {
    make(of, &mut |spaces| {
        let Rank(rank) = courier.rank();
        let series = Erased::series(spaces, rank..rank + 1).unwrap();
        let on = Shuffled::new(5);
        run_across(&series, &Context::new(&on).across(courier)).unwrap();
    });
}

/// What is told of spaces that are cut like that, by one of the ways to tell it.
macro_rules! told_by {
    ($told:ident, $cut:expr, $make:expr) => {{
        let (cut, mut counted): (Cut, _) = ($cut, None);
        $make(&Given::of(&cut, Rank(0), false), &mut |spaces| {
            let series = Erased::series(spaces, 0..cut.n_ranks()).unwrap();
            counted = Some($told(&series, cut.grid).0);
        });
        counted.unwrap()
    }};
}

/// Messages and bytes of runs after another one, one after the other.
fn sent<T: Scalar>(cut: Cut, first: Option<Make<'_, T>>, all: &[Make<'_, T>]) -> Vec<(u64, u64)> {
    let (parts, _) = on_ranks(cut.n_ranks(), (7, 2), |courier| {
        let of = Given::of(&cut, courier.rank(), true);
        if let Some(first) = first {
            run(&of, first, courier);
        }
        of
    });
    let sent = |make: &Make<'_, T>| {
        let (_, crossed) = on_ranks(cut.n_ranks(), (7, 2), |courier| {
            run(&parts[courier.rank().0 as usize], *make, courier);
        });
        (crossed.data, crossed.bytes)
    };
    all.iter().map(sent).collect()
}

/// Expects that what is told is sent.
fn exact<T: Scalar>(what: &str, cut: Cut, first: Option<Make<'_, T>>, make: Make<'_, T>) {
    let told = told_by!(told, cut, make);
    let sent = sent(cut, first, &[make]);
    assert_eq!(
        [told],
        sent[..],
        "{what} of {} on {:?}",
        T::PRECISION,
        cut.grid
    );
}

/// Expects as many messages, and as many bytes but for a share.
fn near(what: &str, cut: Cut, share: f64, first: Option<Make<'_, f64>>, make: Make<'_, f64>) {
    each_near(cut, share, first, &[(what, make)]);
}

/// The same of several after the same first run.
fn each_near(cut: Cut, share: f64, first: Option<Make<'_, f64>>, of: &[(&str, Make<'_, f64>)]) {
    let all: Vec<_> = of.iter().map(|(_, make)| *make).collect();
    for ((what, make), sent) in of.iter().zip(sent(cut, first, &all)) {
        // That the phantom sends what is told is seen of a matrix of which each side is a quarter.
        told_by!(told, cut.quartered(), make);
        let told = told_by!(told_of_counts, cut, make);
        let off = told.1 as f64 / sent.1.max(1) as f64 - 1.0;
        let what = format!(
            "{what} on {:?}: {told:?} told, {sent:?} sent, {off:+.3}",
            cut.grid
        );
        println!("{what}");
        assert_eq!(told.0, sent.0, "{what}");
        assert!(off.abs() < share, "{what}");
    }
}

/// L of A.
fn factored<T: Scalar>(of: &Given<T>, hear: Hear<'_, T>) {
    hear(vec![
        cholesky::Factor::new(&of.a, BACKEND).unwrap().erased(),
    ]);
}

fn definite<T: Scalar>() {
    for (grid, (n, columns)) in GRIDS
        .into_iter()
        .flat_map(|grid| [(23, 6), (16, 1), (3, 9)].map(|size| (grid, size)))
    {
        let cut = Cut::lower(n, columns, grid);
        exact::<T>("an inverse", cut, None, &|of, hear| {
            hear(vec![Inverse::new(&of.a, BACKEND).unwrap().erased()]);
        });
        exact::<T>("an inverse from L", cut, Some(&factored), &|of, hear| {
            hear(vec![Inverse::of_factor(&of.a, BACKEND).unwrap().erased()]);
        });
        exact::<T>("a solution with L", cut, Some(&factored), &|of, hear| {
            hear(vec![substitution(&of.a, &of.b, BACKEND).unwrap().erased()]);
        });
        exact::<T>("posv", cut, None, &|of, hear| {
            let factor = cholesky::Factor::new(&of.a, BACKEND).unwrap();
            factor.stages(&of.b, |all| hear(all)).unwrap();
        });
    }
}

#[test]
fn inverses_and_solutions_of_definite_matrices_send_what_was_told() {
    definite::<f64>();
    definite::<c32>();
}

/// What is told of a check of factors that a space has left, and what it sends.
macro_rules! checked {
    ($cut:expr, $factored:expr, |$of:ident| $check:expr) => {{
        let cut: Cut = $cut;
        let (parts, _) = on_ranks(cut.n_ranks(), (7, 2), |courier| {
            let of = Given::<f64>::of(&cut, courier.rank(), true);
            run(&of, $factored, courier);
            of
        });
        let (_, crossed) = on_ranks(cut.n_ranks(), (7, 2), |courier| {
            let $of = &parts[courier.rank().0 as usize];
            let on = Shuffled::new(5);
            $check.run(&Context::new(&on).across(courier)).unwrap();
        });
        let $of = &Given::<f64>::of(&cut, Rank(0), false);
        [told(&$check, cut.grid).0, (crossed.data, crossed.bytes)]
    }};
}

#[test]
fn checks_of_factors_send_what_was_told() {
    let original = Random::new(3);
    for grid in GRIDS {
        let cut = Cut::lower(23, 1, grid);
        let [told, sent] = checked!(cut, &factored, |of| {
            cholesky::Check::new(&original, &of.a).unwrap()
        });
        assert_eq!(told, sent, "Cholesky on {grid:?}");
        let cut = Cut::of((150, 90), 1, grid).random();
        let [told, sent] = checked!(cut, &swapped, |of| {
            lu::Check::new(&original, &of.a, &of.pivots).unwrap()
        });
        let off = told.1 as f64 / sent.1 as f64 - 1.0;
        println!("LU on {grid:?}: {told:?} told, {sent:?} sent, {off:+.3}");
        assert!(
            told.0 == sent.0 && off.abs() < 0.04,
            "LU on {grid:?}: {off}"
        );
    }
}

/// Triangles of A, as they enter.
fn triangles<T: Scalar>(a: &TiledMatrix<T>) -> [TriangularOperand<'_, T>; 4] {
    let [lower, upper] = [TriangularOperand::lower(a), TriangularOperand::upper(a)];
    [
        lower,
        upper,
        lower.with(ADJOINT).unit(),
        upper.with(ADJOINT),
    ]
}

#[test]
fn solves_and_products_with_triangles_send_what_was_told() {
    let one = |side, which: usize, alpha, (n, columns): (usize, usize), grid| {
        let shape = if side == Side::Left {
            (n, columns)
        } else {
            (columns, n)
        };
        let cut = Cut::of((n, n), 1, grid);
        let cut = Cut {
            b: Layout::general(shape.0, shape.1, NB).unwrap(),
            ..cut
        };
        let what = format!("{side:?} {which}, {alpha}, {n}, {columns}");
        exact::<f64>(&format!("trsm {what}"), cut, None, &|of, hear| {
            let a = triangles(&of.a)[which];
            hear(vec![
                Substitution::new(side, alpha, a, &of.b, BACKEND)
                    .unwrap()
                    .erased(),
            ]);
        });
        exact::<f64>(&format!("trmm {what}"), cut, None, &|of, hear| {
            let a = triangles(&of.a)[which];
            let product = product::Triangular::new(side, alpha, a, &of.b, BACKEND);
            hear(vec![product.unwrap().erased()]);
        });
    };
    for (which, grid) in (0..4).flat_map(|which| GRIDS.map(|grid| (which, grid))) {
        for (side, size) in [(Side::Left, (23, 6)), (Side::Right, (14, 9))] {
            one(side, which, 1.0, size, grid);
            one(side, which, 2.0, size, grid);
        }
    }
}

fn eliminated<T: Scalar>(of: &Given<T>, hear: Hear<'_, T>) {
    hear(vec![
        Incremental::new(&of.a, &of.exchanges, BACKEND)
            .unwrap()
            .erased(),
    ]);
}

fn by_pairs<T: Scalar>() {
    for (grid, (n, columns)) in GRIDS
        .into_iter()
        .flat_map(|grid| [(23, 6), (16, 1)].map(|size| (grid, size)))
    {
        let cut = Cut::of((n, n), columns, grid).random();
        exact::<T>("a replay", cut, Some(&eliminated), &|of, hear| {
            hear(vec![
                Replay::new(&of.a, &of.exchanges, &of.b, BACKEND)
                    .unwrap()
                    .erased(),
            ]);
        });
        exact::<T>("gesv by pairs", cut, None, &|of, hear| {
            let factor = Incremental::new(&of.a, &of.exchanges, BACKEND).unwrap();
            let (look, solve) = (
                Regular::new(&of.a),
                Replay::new(&of.a, &of.exchanges, &of.b, BACKEND),
            );
            hear(vec![
                factor.erased(),
                look.erased(),
                solve.unwrap().erased(),
            ]);
        });
    }
}

#[test]
fn solutions_with_incremental_pivoting_send_what_was_told() {
    by_pairs::<f64>();
    by_pairs::<c32>();
}

fn gesv(of: &Given<f64>, hear: Hear<'_, f64>) {
    let factor = lu::Factor::new(&of.a, &of.pivots, BACKEND).unwrap();
    factor.stages(&of.b, 1, |all| hear(all)).unwrap();
}

/// B is I.
fn getri(of: &Given<f64>, hear: Hear<'_, f64>) {
    let factor = lu::Factor::new(&of.a, &of.pivots, BACKEND).unwrap();
    factor.inverse_stages(&of.b, 1, |all| hear(all)).unwrap();
}

/// L, U and the swaps of A.
fn swapped(of: &Given<f64>, hear: Hear<'_, f64>) {
    let factor = lu::Factor::new(&of.a, &of.pivots, BACKEND).unwrap();
    hear(vec![factor.erased()]);
}

/// Only rows that move are not known.
#[test]
fn solutions_with_row_swaps_send_what_was_told_on_average() {
    let solve = |op| {
        move |of: &Given<f64>, hear: Hear<'_, f64>| {
            let solve = Solve::new(&of.a, &of.pivots, op, &of.b, BACKEND).unwrap();
            hear(solve.parts().into());
        }
    };
    let [plain, transposed, adjoint] = [PLAIN, Op::Transpose, ADJOINT].map(solve);
    for grid in GRIDS {
        let cut = Cut::of((160, 160), 40, grid).random();
        let of: [(&str, Make<'_, f64>); 3] = [
            ("solve", &plain),
            ("solve, transposed", &transposed),
            ("solve, adjoint", &adjoint),
        ];
        each_near(cut, 0.04, Some(&swapped), &of);
        near("gesv", cut, 0.04, None, &gesv);
    }
}

#[test]
fn inverses_with_row_swaps_send_what_was_told_on_average() {
    for grid in GRIDS {
        let cut = Cut::of((160, 160), 160, grid).random();
        near("getri", cut, 0.04, None, &getri);
    }
}

/// Rows are most of what travels.
#[test]
fn rows_that_change_places_send_what_was_told_on_average() {
    for grid in [(2, 1), (3, 1), (4, 1)] {
        let cut = Cut::of((320, 320), 60, grid).random();
        near("rows", cut, 0.1, Some(&swapped), &|of, hear| {
            hear(vec![lu::Reorder::new(&of.pivots, &of.b).erased()]);
        });
    }
}

#[test]
fn solutions_without_swaps_send_what_was_told() {
    for grid in GRIDS {
        let cut = Cut::of((23, 23), 6, grid);
        exact::<f64>("both triangles of LU", cut, None, &|of, hear| {
            let factor = Unpivoted::new(&of.a, &of.pivots, BACKEND).unwrap();
            let solve = Solve::new(&of.a, &of.pivots, PLAIN, &of.b, BACKEND).unwrap();
            let [_, both] = solve.parts();
            hear(vec![factor.erased(), both]);
        });
    }
}

fn reflected<T: Scalar>(of: &Given<T>, hear: Hear<'_, T>) {
    hear(vec![
        qr::Factor::new(&of.a, &of.q, BACKEND).unwrap().erased(),
    ]);
}

fn how() -> (Compare, f64) {
    (Compare::ByDirection, 1e-6)
}

fn orthogonal<T: Scalar>(tree: Tree, (m, n): (usize, usize), grid: OnGrid) {
    let cut = Cut {
        tree,
        ..Cut::of((m, n), 7, grid)
    };
    let what = |of: &str| format!("{of} of {m} x {n} by {tree}");
    for (side, op) in [
        (Side::Left, ADJOINT),
        (Side::Left, PLAIN),
        (Side::Right, ADJOINT),
        (Side::Right, PLAIN),
    ] {
        let shape = if side == Side::Left { (m, 7) } else { (7, m) };
        let cut = Cut {
            b: Layout::general(shape.0, shape.1, NB).unwrap(),
            ..cut
        };
        exact::<T>(&what("Q"), cut, Some(&reflected), &|of, hear| {
            let apply = Apply::new(&of.a, &of.q, (side, op), &of.b, BACKEND).unwrap();
            hear(vec![apply.erased()]);
        });
    }
    exact::<T>(&what("the rank"), cut, Some(&reflected), &|of, hear| {
        let found = OnceLock::new();
        hear(vec![Leading::new(&of.a, how(), &found).erased()]);
    });
    exact::<T>(&what("gels"), cut, None, &|of, hear| {
        let (sides, how) = ((&of.b, &of.x), (of.q.options(), BACKEND));
        qr::least_squares_stages(&of.a, sides, how, |all| hear(all)).unwrap();
    });
    if m < n {
        return;
    }
    exact::<T>(&what("R"), cut, Some(&reflected), &|of, hear| {
        hear(vec![
            qr::Solve::new(&of.a, PLAIN, &of.b, &of.x, BACKEND)
                .unwrap()
                .erased(),
        ]);
    });
    exact::<T>(&what("Rᴴ"), cut, Some(&reflected), &|of, hear| {
        hear(vec![
            qr::Solve::new(&of.a, ADJOINT, &of.x, &of.b, BACKEND)
                .unwrap()
                .erased(),
        ]);
    });
    exact::<T>(&what("the solution"), cut, None, &|of, hear| {
        let factor = qr::Factor::new(&of.a, &of.q, BACKEND).unwrap();
        factor.stages((&of.b, &of.x), |all| hear(all)).unwrap();
    });
}

#[test]
fn what_follows_qr_sends_what_was_told() {
    for (tree, shape) in [
        (Tree::Flat, (23, 14)),
        (Tree::Greedy, (30, 6)),
        (Tree::Binary, (14, 23)),
        (Tree::Greedy, (19, 19)),
    ] {
        for grid in GRIDS {
            orthogonal::<f64>(tree, shape, grid);
        }
        orthogonal::<c32>(tree, shape, (2, 2));
    }
}

#[test]
fn matrices_that_move_send_what_was_told() {
    for (grid, (m, n)) in GRIDS
        .into_iter()
        .zip([(23, 14), (9, 30), (16, 16), (21, 10)])
    {
        let cut = Cut::of((m, n), 7, grid);
        exact::<f64>("the adjoint", cut, None, &|of, hear| {
            hear(vec![Adjoint::new(&of.a, &of.turned).unwrap().erased()]);
        });
        for (lines, length) in [(Lines::Rows, m), (Lines::Columns, n)] {
            let order: Vec<usize> = (0..length).map(|line| (line * 7 + 3) % length).collect();
            let cut = Cut { x: cut.a, ..cut };
            exact::<f64>(&format!("{lines:?} in order"), cut, None, &|of, hear| {
                let room = TiledMatrix::vacant(*of.a.layout(), Arc::new(Heap));
                hear(vec![
                    Arrange::new(&of.a, lines, &order, &room).unwrap().erased(),
                ]);
            });
        }
        let cut = Cut {
            b: Layout::general(n, m, 3).unwrap(),
            ..cut
        };
        exact::<f64>("a transfer", cut, None, &|of, hear| {
            let space = Transfer::new(&of.a, Turn::Adjoint, &of.b).unwrap();
            let bytes = |task, flow| space.bytes(task, flow);
            hear(vec![
                Erased::new(&space).weighed(bytes, |task| space.flops(task)),
            ]);
        });
    }
}

#[test]
fn products_send_what_was_told() {
    for (grid, (m, k, n)) in
        GRIDS
            .into_iter()
            .zip([(14, 11, 17), (23, 6, 9), (16, 16, 16), (9, 30, 5)])
    {
        let general = |rows, cols| Layout::general(rows, cols, NB).unwrap();
        let cut = Cut {
            a: general(m, k),
            b: general(k, n),
            x: general(m, n),
            ..Cut::of((m, k), 1, grid)
        };
        exact::<f64>("a product", cut, None, &|of, hear| {
            let (a, b) = (Operand::plain(&of.a), Operand::plain(&of.b));
            hear(vec![
                Gemm::new(1.0, a, b, 0.5, &of.x, BACKEND).unwrap().erased(),
            ]);
        });
        exact::<f64>("a pipelined product", cut, None, &|of, hear| {
            let (a, b) = (Operand::plain(&of.a), Operand::plain(&of.b));
            hear(vec![
                Torus::new(1.0, a, b, 0.5, &of.x, BACKEND).unwrap().erased(),
            ]);
        });
        let turned = Cut {
            a: general(k, m),
            ..cut
        };
        exact::<f64>(
            "a pipelined product with an adjoint",
            turned,
            None,
            &|of, hear| {
                let (a, b) = (Operand::adjoint(&of.a), Operand::plain(&of.b));
                hear(vec![
                    Torus::new(1.0, a, b, 0.5, &of.x, BACKEND).unwrap().erased(),
                ]);
            },
        );
        let hermitian = Cut {
            a: Layout::lower(k, NB).unwrap(),
            x: general(k, n),
            ..cut
        };
        exact::<f64>(
            "a product with a Hermitian matrix",
            hermitian,
            None,
            &|of, hear| {
                let (a, b) = (Operand::plain(&of.a), Operand::plain(&of.b));
                hear(vec![
                    Gemm::new(1.0, a, b, 0.5, &of.x, BACKEND).unwrap().erased(),
                ]);
            },
        );
        let square = Cut {
            x: Layout::lower(m, NB).unwrap(),
            ..cut
        };
        exact::<c32>("a square", square, None, &|of, hear| {
            hear(vec![
                Herk::new(0.5, Operand::plain(&of.a), -1.0, &of.x, BACKEND)
                    .unwrap()
                    .erased(),
            ]);
        });
        let square = Cut {
            x: Layout::lower(k, NB).unwrap(),
            ..cut
        };
        exact::<f64>("a square of the adjoint", square, None, &|of, hear| {
            hear(vec![
                Herk::new(0.5, Operand::adjoint(&of.a), -1.0, &of.x, BACKEND)
                    .unwrap()
                    .erased(),
            ]);
        });
    }
}

/// Of which columns win nothing is known.
#[test]
fn a_choice_of_columns_sends_what_was_told_on_average() {
    for (grid, shape) in GRIDS
        .into_iter()
        .flat_map(|grid| [(80, 80), (40, 130)].map(|shape| (grid, shape)))
    {
        near(
            "a choice",
            Cut::of(shape, 1, grid).random(),
            0.05,
            None,
            &|of, hear| {
                let order = OnceLock::new();
                hear(vec![Choice::new(&of.a, &order, BACKEND).unwrap().erased()]);
            },
        );
    }
}

/// Operations of spaces over matrices that do not exist.
fn operations<T: Scalar>(cut: Cut, make: Make<'_, T>) -> f64 {
    let mut flops = None;
    make(&Given::of(&cut, Rank(0), false), &mut |spaces| {
        let series = Erased::series(spaces, 0..cut.n_ranks()).unwrap();
        flops = Some(told(&series, cut.grid).1);
    });
    flops.unwrap()
}

/// Cut into fifteen tiles and a short one.
fn fine(cut: Cut) -> Cut {
    let again = |layout: Layout| match layout.structure() {
        dataflow_linalg::matrix::Structure::Lower => Layout::lower(layout.rows(), 20).unwrap(),
        _ => Layout::general(layout.rows(), layout.cols(), 20).unwrap(),
    };
    Cut {
        a: again(cut.a),
        b: again(cut.b),
        x: again(cut.x),
        ..cut
    }
}

#[test]
fn operations_of_definite_matrices_are_lapacks_to_the_last() {
    let (n, columns, grid) = (310, 45, (2, 2));
    let cut = fine(Cut::lower(n, columns, grid));
    let inverse = operations::<f64>(cut, &|of, hear| {
        hear(vec![Inverse::new(&of.a, BACKEND).unwrap().erased()]);
    });
    assert_eq!(
        inverse,
        (flops::potrf::<f64>(n) + flops::potri::<f64>(n)) as f64
    );
    let inverse = operations::<f64>(cut, &|of, hear| {
        hear(vec![Inverse::of_factor(&of.a, BACKEND).unwrap().erased()]);
    });
    assert_eq!(inverse, flops::potri::<f64>(n) as f64);
    let solve = operations::<f64>(cut, &|of, hear| {
        let factor = cholesky::Factor::new(&of.a, BACKEND).unwrap();
        let solve = substitution(&of.a, &of.b, BACKEND).unwrap();
        hear(vec![factor.erased(), solve.erased()]);
    });
    assert_eq!(
        solve,
        (flops::potrf::<f64>(n) + flops::potrs::<f64>(n, columns)) as f64
    );
}

/// A triangle times, or divided into, a matrix of so many columns takes n² each.
#[test]
fn operations_with_triangles_are_half_of_those_with_squares() {
    let (n, columns) = (310, 45);
    for (side, which) in [Side::Left, Side::Right]
        .into_iter()
        .flat_map(|side| (0..4).map(move |which| (side, which)))
    {
        let shape = if side == Side::Left {
            (n, columns)
        } else {
            (columns, n)
        };
        let cut = Cut::of((n, n), 1, (2, 2));
        let cut = fine(Cut {
            b: Layout::general(shape.0, shape.1, NB).unwrap(),
            ..cut
        });
        let expected = (n * n * columns) as f64;
        let solve = operations::<f64>(cut, &|of, hear| {
            let a = triangles(&of.a)[which];
            hear(vec![
                Substitution::new(side, 1.0, a, &of.b, BACKEND)
                    .unwrap()
                    .erased(),
            ]);
        });
        assert_eq!(solve, expected, "trsm {side:?} {which}");
        let product = operations::<f64>(cut, &|of, hear| {
            let a = triangles(&of.a)[which];
            let product = product::Triangular::new(side, 1.0, a, &of.b, BACKEND);
            hear(vec![product.unwrap().erased()]);
        });
        assert_eq!(product, expected, "trmm {side:?} {which}");
    }
}

#[test]
fn operations_of_solutions_add_up_to_lapacks() {
    let near = |what: &str, counted: f64, whole: u64| {
        let ratio = counted / whole as f64;
        println!("{what}: {ratio:.4}");
        assert!((ratio - 1.0).abs() < 0.05, "{what}: {ratio}");
    };
    let (n, columns, grid) = (310, 45, (2, 2));
    let cut = fine(Cut::of((n, n), columns, grid));
    let factored = flops::getrf::<f64>(n, n);
    let solved = factored + flops::getrs::<f64>(n, columns);
    near("gesv", operations::<f64>(cut, &gesv), solved);
    let by_pairs = operations::<f64>(cut, &|of, hear| {
        let factor = Incremental::new(&of.a, &of.exchanges, BACKEND).unwrap();
        let solve = Replay::new(&of.a, &of.exchanges, &of.b, BACKEND).unwrap();
        hear(vec![factor.erased(), solve.erased()]);
    });
    near("gesv by pairs", by_pairs, solved);
    let square = fine(Cut::of((n, n), n, grid));
    let inverse = factored + flops::getri::<f64>(n);
    near("getri", operations::<f64>(square, &getri), inverse);
    for tree in [Tree::Flat, Tree::Greedy] {
        let m = 2 * n;
        let cut = Cut {
            tree,
            ..fine(Cut::of((m, n), columns, grid))
        };
        let turn = operations::<f64>(cut, &|of, hear| {
            let turn = Apply::new(&of.a, &of.q, (Side::Left, ADJOINT), &of.b, BACKEND);
            hear(vec![turn.unwrap().erased()]);
        });
        near(
            &format!("Q by {tree}"),
            turn,
            flops::unmqr::<f64>(m, columns, n),
        );
        let solve = operations::<f64>(cut, &|of, hear| {
            hear(vec![
                qr::Solve::new(&of.a, PLAIN, &of.b, &of.x, BACKEND)
                    .unwrap()
                    .erased(),
            ]);
        });
        assert_eq!(solve, (n * n * columns) as f64);
        let look = operations::<f64>(cut, &|of, hear| {
            let found = OnceLock::new();
            hear(vec![Leading::new(&of.a, how(), &found).erased()]);
        });
        near("the rank", look, 4 * (n * n) as u64);
    }
    let sums = |make| {
        operations::<f64>(
            fine(Cut {
                x: Layout::lower(n, NB).unwrap(),
                ..Cut::of((n, columns), 1, grid)
            }),
            make,
        )
    };
    let square = sums(&|of, hear| {
        hear(vec![
            Herk::new(1.0, Operand::plain(&of.a), 0.0, &of.x, BACKEND)
                .unwrap()
                .erased(),
        ]);
    });
    assert_eq!(square, (n * (n + 1) * columns) as f64);
    let cut = fine(Cut {
        x: Layout::general(n, columns, NB).unwrap(),
        ..Cut::of((n, n), columns, grid)
    });
    let product = operations::<f64>(cut, &|of, hear| {
        let (a, b) = (Operand::plain(&of.a), Operand::plain(&of.b));
        hear(vec![
            Torus::new(1.0, a, b, 0.5, &of.x, BACKEND).unwrap().erased(),
        ]);
    });
    assert_eq!(product, flops::gemm::<f64>(n, columns, n) as f64);
}

/// The last group was taken to have as many rows as the others, and the rows of a high diagonal tile that have
/// lost to be divided for nothing.
#[test]
fn a_match_with_a_group_of_few_rows_weighs_what_plays_and_a_high_tile_what_has_lost() {
    let operations = |(m, n): (usize, usize), task| {
        let layout = Layout::general(m, n, 5).unwrap();
        let a = TiledMatrix::<f64>::vacant(layout, Arc::new(Heap));
        let pivots = Pivots::new(&a);
        let space = lu::Factor::new(&a, &pivots, BACKEND).unwrap();
        space.by_tournament(NonZeroU32::new(4).unwrap()).flops(task)
    };
    let of_rows = |rows| flops::getrf::<f64>(rows, 5) as f64;
    let (square, merge) = ((17, 17), |v| lu::Task::Merge { v, k: 0 });
    assert_eq!(operations(square, merge(2)), of_rows(10));
    assert_eq!(
        operations(square, merge(3)),
        of_rows(7),
        "of five rows and of two"
    );
    // Of two groups, in the last match.
    assert_eq!(operations(square, lu::Task::Panel { k: 2 }), of_rows(7));
    let divided = |shape, m| operations(shape, lu::Task::Scatter { m, k: 0 });
    assert_eq!([divided((7, 3), 0), divided((7, 3), 1)], [2.0 * 9.0; 2]);
    assert_eq!(divided((3, 7), 0), 0.0);
}
