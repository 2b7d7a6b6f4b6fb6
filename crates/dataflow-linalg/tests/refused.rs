//! Arguments that do not go together are refused by name, before anything is overwritten.

#[path = "../../dataflow-core/tests/specimen/ranks.rs"]
#[allow(dead_code, reason = "the core's tests use all of it")]
mod ranks;

use dataflow_core::port::{Context, Inline};
use dataflow_core::rank::Rank;
use dataflow_linalg::LinalgError;
use dataflow_linalg::error::TileError;
use dataflow_linalg::kernel::{Backend, Op, Side};
use dataflow_linalg::lu::{self, Exchanges, Pivots};
use dataflow_linalg::matrix::transfer::{Turn, transfer};
use dataflow_linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow_linalg::product::{Operand, TriangularOperand, gemm, trmm, trsm};
use dataflow_linalg::qr::{self, Adjoint, Arrange, Lines, Options, Reflectors};
use dataflow_linalg::{cholesky, product, refine};
use ranks::on_ranks;

const AUTO: Backend = Backend::Auto;

/// A matrix of full rank, times `scale`, in tiles of order 2.
fn general((m, n): (usize, usize), scale: f64) -> TiledMatrix<f64> {
    let entry = |i: usize, j: usize| scale * (1.0 + ((2 * i + 3 * j) % 5) as f64);
    TiledMatrix::from_fn(Layout::general(m, n, 2).unwrap(), entry)
}

/// Fails unless a call is refused for its shapes, and leaves the matrix as it was.
fn expect_refused<R>(
    call: &str,
    a: &TiledMatrix<f64>,
    run: impl FnOnce(&TiledMatrix<f64>) -> Result<R, LinalgError>,
) {
    let before = a.to_column_major().unwrap();
    let refused = run(a).err().unwrap_or_else(|| panic!("{call}: solved"));
    assert_eq!(refused.name(), "wrong_shape", "{call}: {refused}");
    assert_eq!(a.to_column_major().unwrap(), before, "{call}");
}

#[test]
fn one_matrix_for_two_arguments_is_refused_and_stays_as_it_was() {
    let of = Options::of_order(2);
    for shape in [(3, 3), (5, 3), (3, 5)] {
        let a = &general(shape, 1.0);
        expect_refused("least squares", a, |a| {
            qr::least_squares(a, a, of, AUTO, &Inline)
        });
        expect_refused("shortest", a, |a| {
            qr::least_squares_minimum_norm(a, a, None, of, AUTO, &Inline)
        });
        let rows: Vec<usize> = (0..shape.0).collect();
        expect_refused("arrange", a, |a| {
            Arrange::new(a, Lines::Rows, &rows, a).map(drop)
        });
    }
    for scale in [1.0, 1e100] {
        let a = &general((3, 3), scale);
        expect_refused("mixed", a, |a| refine::solve(a, a, AUTO, &Inline));
    }

    let (a, q) = (&general((3, 3), 1.0), &general((3, 3), 1.0));
    let (b, x) = (&general((3, 1), 1.0), &general((3, 3), 1.0));
    let reflectors = Reflectors::new(q.layout(), of);
    qr::Factor::new(q, &reflectors, AUTO)
        .unwrap()
        .run(&Inline)
        .unwrap();
    for way in [Op::NoTranspose, Op::ConjTranspose] {
        for side in [Side::Left, Side::Right] {
            expect_refused("apply", q, |q| {
                qr::apply(q, &reflectors, (side, way), q, AUTO, &Inline)
            });
        }
        let with = (q, &reflectors);
        expect_refused("solve, B = X", a, |a| {
            qr::solve(with, way, (a, a), AUTO, &Inline)
        });
        expect_refused("solve, A = B", q, |q| {
            qr::solve(with, way, (q, a), AUTO, &Inline)
        });
        expect_refused("solve, A = X", q, |q| {
            qr::solve(with, way, (a, q), AUTO, &Inline)
        });
    }
    expect_refused("adjoint", a, |a| Adjoint::new(a, a).map(drop));
    expect_refused("adjoint over", a, |a| Adjoint::over(a, a).map(drop));
    expect_refused("transfer", a, |a| transfer(a, Turn::Plain, a, &Inline));
    let plain = Operand::plain(a);
    expect_refused("gemm", a, |a| {
        gemm(1.0, plain, plain, 0.0, a, AUTO, &Inline)
    });
    let upper = TriangularOperand::upper(a);
    expect_refused("trsm", a, |a| {
        trsm(Side::Left, 1.0, upper, a, AUTO, &Inline)
    });
    expect_refused("trmm", a, |a| {
        trmm(Side::Left, 1.0, upper, a, AUTO, &Inline)
    });

    let lu = &general((3, 3), 1.0);
    let (pivots, exchanges) = (&Pivots::new(lu), &Exchanges::new(lu));
    expect_refused("gesv", lu, |lu| {
        lu::factor_and_solve(lu, pivots, lu, AUTO, &Inline)
    });
    lu::factor(lu, pivots, AUTO, &Inline).unwrap();
    let with = (lu, pivots);
    expect_refused("solve", lu, |lu| {
        lu::solve(lu, pivots, Op::NoTranspose, lu, AUTO, &Inline)
    });
    expect_refused("improve, A = X", a, |a| {
        lu::improve(a, with, (x, a), AUTO, &Inline)
    });
    expect_refused("improve, B = X", x, |x| {
        lu::improve(a, with, (x, x), AUTO, &Inline)
    });
    expect_refused("improve, LU = X", lu, |lu| {
        lu::improve(a, with, (x, lu), AUTO, &Inline)
    });
    let incremental = &general((3, 3), 1.0);
    lu::factor_incremental(incremental, exchanges, AUTO, &Inline).unwrap();
    expect_refused("incremental", incremental, |lu| {
        lu::solve_incremental(lu, exchanges, lu, AUTO, &Inline)
    });

    let definite = |i: usize, j: usize| if i == j { 4.0 } else { 1.0 };
    let layout = Layout::lower(3, 2).unwrap();
    let (d, l) = (
        TiledMatrix::from_fn(layout, definite),
        TiledMatrix::from_fn(layout, definite),
    );
    cholesky::factor(&l, AUTO, &Inline).unwrap();
    expect_refused("improve, B = X", b, |b| {
        cholesky::improve(&d, &l, (b, b), AUTO, &Inline)
    });

    // Of one that is only read nothing is lost.
    lu::error_bounds(a, with, (x, x), AUTO, &Inline).unwrap();
}

#[test]
fn factors_kept_by_a_mixed_solution_do_not_overwrite_the_matrix() {
    let a = &general((3, 3), 1.0);
    let b = &general((3, 1), 1.0);
    let solved = refine::solve(a, b, AUTO, &Inline).unwrap();
    expect_refused("solve again", a, |a| {
        solved.factors.solve(a, Op::NoTranspose, a, AUTO, &Inline)
    });
}

#[test]
fn right_hand_sides_of_which_a_triangle_is_stored_are_told_by_that_word() {
    let b = &TiledMatrix::from_fn(Layout::lower(3, 2).unwrap(), |_, _| 1.0);
    let a = &general((3, 3), 1.0);
    let (pivots, of) = (&Pivots::new(a), Options::of_order(2));
    let reflectors = Reflectors::new(a.layout(), of);
    let x = &general((3, 3), 1.0);
    for refused in [
        lu::Solve::new(a, pivots, Op::NoTranspose, b, AUTO).err(),
        qr::least_squares(a, b, of, AUTO, &Inline).err(),
        qr::least_squares_minimum_norm(a, b, None, of, AUTO, &Inline).err(),
        qr::solve((a, &reflectors), Op::NoTranspose, (b, x), AUTO, &Inline).err(),
    ] {
        let text = refused.unwrap().to_string();
        assert!(text.contains("Lower"), "{text}");
    }
}

/// Zero pivots were looked for first, and a condition told of whatever was called a norm.
#[test]
fn what_does_not_fit_is_refused_before_a_zero_pivot_is_looked_for() {
    // All entries 1: the second pivot is zero.
    let ones = |(m, n), nb| TiledMatrix::from_fn(Layout::general(m, n, nb).unwrap(), |_, _| 1.0);
    let factored = |shape| {
        let lu: TiledMatrix<f64> = ones(shape, 2);
        let pivots = Pivots::new(&lu);
        lu::Factor::new(&lu, &pivots, AUTO)
            .unwrap()
            .run(&Inline)
            .unwrap();
        (lu, pivots)
    };
    let (lu, pivots) = &factored((3, 3));
    let (wide, of_wide) = &factored((3, 4));
    let (none, of_none) = &factored((0, 3));
    let (a, b, x) = (&ones((3, 3), 2), &ones((3, 1), 2), &ones((3, 1), 2));
    let (long, cut) = (&ones((4, 1), 2), &ones((3, 1), 3));
    let condition = |lu, pivots, norm| lu::condition(lu, pivots, norm, AUTO, &Inline);
    let bounds = |with, b, x| lu::error_bounds(a, with, (b, x), AUTO, &Inline).map(drop);
    let improve = |with, b, x| lu::improve(a, with, (b, x), AUTO, &Inline).map(drop);
    for (call, ended, name) in [
        ("wide", condition(wide, of_wide, -1.0), "wrong_shape"),
        ("no rows", condition(none, of_none, 0.0), "wrong_shape"),
        ("others", condition(lu, of_wide, -1.0), "wrong_shape"),
        ("-1", condition(lu, pivots, -1.0), "wrong_argument"),
        ("NaN", condition(lu, pivots, f64::NAN), "wrong_argument"),
        ("singular", condition(lu, pivots, 3.0), "singular"),
    ] {
        assert_eq!(ended.unwrap_err().name(), name, "condition, {call}");
    }
    for (call, ended, name) in [
        ("long", bounds((lu, pivots), long, long), "wrong_shape"),
        ("cut", bounds((lu, pivots), cut, cut), "wrong_shape"),
        ("unlike", bounds((lu, pivots), b, a), "wrong_shape"),
        ("wide", bounds((wide, of_wide), b, x), "wrong_shape"),
        ("others", bounds((lu, of_wide), b, x), "wrong_shape"),
        ("singular", bounds((lu, pivots), b, x), "singular"),
        ("long, X", improve((lu, pivots), long, long), "wrong_shape"),
        ("A = X", improve((lu, pivots), b, a), "wrong_shape"),
        ("B = X", improve((lu, pivots), x, x), "wrong_shape"),
        ("others, X", improve((lu, of_wide), b, x), "wrong_shape"),
        ("singular, X", improve((lu, pivots), b, x), "singular"),
    ] {
        assert_eq!(ended.unwrap_err().name(), name, "bounds, {call}");
    }
    let l = |layout: Layout| TiledMatrix::from_fn(layout, |_, _| 1.0);
    for (l, norm, name) in [
        (l(Layout::general(0, 3, 2).unwrap()), 0.0, "wrong_shape"),
        (l(Layout::lower(2, 2).unwrap()), -1.0, "wrong_argument"),
    ] {
        let ended = cholesky::condition(&l, norm, AUTO, &Inline);
        assert_eq!(ended.unwrap_err().name(), name, "condition by Cholesky");
    }
}

/// They had one text, which named a number, or none, but not what would be allowed.
#[test]
fn an_order_that_does_not_fit_is_told_what_it_must_be() {
    let a = general((3, 2), 1.0).named("A");
    let laid_out = "matrix \"A\" of 3 x 2 (General, tiles of 2, on 1x1)";
    let lower = TiledMatrix::<f64>::zeros(Layout::lower(2, 2).unwrap());
    for (a, lines, order, expected) in [
        (&a, Lines::Rows, &[0, 2][..], format!("an order of 2 rows for a {laid_out} (must be of 3)")),
        (&a, Lines::Columns, &[1, 2], "entry 1 of an order of columns is 2 (must be below 2)".into()),
        (
            &lower,
            Lines::Rows,
            &[0, 1],
            "a matrix of 2 x 2 (Lower, tiles of 2, on 1x1) with its rows in another order is not one of 2 x 2 \
             (General, tiles of 2, on 1x1) (both must be General, and alike)"
                .into(),
        ),
    ] {
        let refused = qr::arrange(a, lines, order, &Inline).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
}

/// The index panicked.
#[test]
fn a_swap_with_a_row_that_is_not_there_is_told_by_both_rows() {
    for (row, other) in [(1, 3), (3, 1)] {
        let refused = lu::permutation(3, [(0, 2), (row, other)]).unwrap_err();
        let text = format!(
            "row {row} is swapped with row {other} of 3, counted from 0 (both must be below 3)"
        );
        assert_eq!(refused.to_string(), text);
    }
}

/// It was told of right-hand sides that nobody had given, and of its entries first.
#[test]
fn a_matrix_that_has_no_inverse_for_its_shape_is_told_so_before_it_is_looked_at() {
    let layout = Layout::general(3, 2, 2).unwrap();
    let made = || TiledMatrix::from_fn(layout, |_, _| f64::NAN).named("A");
    let (lu, expected) = (
        made(),
        "the inverse of a matrix \"A\" of 3 x 2 (must be square)",
    );
    let pivots = Pivots::new(&lu);
    for refused in [
        lu::inverse(made(), AUTO, &Inline),
        lu::invert(lu, &pivots, AUTO, &Inline),
    ] {
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}

#[test]
fn pivots_that_no_factorisation_has_filled_count_no_swaps() {
    let a = &general((3, 3), 1.0);
    let pivots = &Pivots::new(a);
    expect_refused("determinant", a, |a| lu::determinant(a, pivots));
    lu::factor(a, pivots, AUTO, &Inline).unwrap();
    lu::determinant(a, pivots).unwrap();
}

/// The rank without the tile was told that a task had panicked, and the other waited for it.
#[test]
fn right_hand_sides_without_a_tile_are_refused_by_its_name_on_all_ranks() {
    let (grid, of) = (Grid::new(2, 1).unwrap(), Options::of_order(2));
    for (m, n) in [(7, 4), (5, 5), (4, 7)] {
        let (told, _) = on_ranks(2, (3, 2), |courier| {
            let on = &Context::new(&Inline).across(courier);
            let part = |rows, cols| {
                let layout = Layout::general(rows, cols, 2).unwrap();
                let layout = layout.distributed(Distribution::BlockCyclic(grid), courier.rank());
                TiledMatrix::from_fn(layout.unwrap(), |i, j| ((2 * i + 3 * j) % 5) as f64)
            };
            let (a, b) = (part(m, n), part(m, 1));
            let factors = qr::pivoted(&a, None, of, AUTO, on).unwrap();
            let _taken = b.slot(1, 0).map(|slot| b.store().take(slot));
            factors.solve(&b, AUTO, on).unwrap_err().to_string()
        });
        for text in told {
            assert!(text.contains("tile (1, 0) is empty"), "{m} x {n}: {text}");
        }
    }
}

#[test]
fn a_triangle_without_a_tile_is_refused_by_its_name() {
    let a = &general((5, 4), 1.0);
    for (tile, is_read) in [((1, 0), false), ((2, 1), false), ((0, 1), true)] {
        let slot = a.slot(tile.0, tile.1).unwrap();
        let taken = a.store().take(slot).unwrap();
        let found = qr::triangle(a, &Inline).map(drop);
        let (i, j) = tile;
        let named = matches!(found, Err(LinalgError::Tile(TileError::Absent { i: row, j: col })) if (row, col) == (i, j));
        assert_eq!((found.is_err(), named), (is_read, is_read), "{tile:?}");
        a.store().put(slot, taken).unwrap();
    }
}

#[test]
fn a_matrix_that_is_given_twice_is_called_by_its_name() {
    let a = general((3, 3), 1.0).named("M");
    let refused = qr::least_squares(&a, &a, Options::of_order(2), AUTO, &Inline).unwrap_err();
    let expected = "A and B are one and the same matrix \"M\" (3 x 3)";
    assert!(refused.to_string().starts_with(expected), "{refused}");
}

#[test]
fn solving_with_a_matrix_that_was_not_factored_says_so() {
    let (a, b) = (general((3, 3), 1.0), general((3, 1), 1.0));
    let solved = lu::solve(&a, &Pivots::new(&a), Op::NoTranspose, &b, AUTO, &Inline);
    let refused = solved.unwrap_err().to_string();
    assert!(refused.contains("factor the matrix first"), "{refused}");
    let (pivots, x) = (Pivots::new(&a), general((3, 1), 1.0));
    let condition = lu::condition(&a, &pivots, 1.0, AUTO, &Inline).map(drop);
    let bounds = lu::error_bounds(&a, (&a, &pivots), (&b, &x), AUTO, &Inline).map(drop);
    let improved = lu::improve(
        &general((3, 3), 1.0),
        (&a, &pivots),
        (&b, &x),
        AUTO,
        &Inline,
    );
    for refused in [condition, bounds, improved.map(drop)] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("factor the matrix first"), "{refused}");
    }
}

#[test]
fn data_that_go_to_a_rank_that_is_not_there_are_refused_by_its_name() {
    let refused = general((3, 3), 1.0).named("A").collect(Rank(9), &Inline);
    let refused = refused.unwrap_err().to_string();
    let expected = "matrix \"A\" (3 x 3) cannot be collected on rank 9: the last is rank 0";
    assert!(refused.starts_with(expected), "{refused}");
}

#[test]
fn ranks_that_collect_on_one_that_is_not_there_or_on_different_ones_all_hear_of_it() {
    for to in [[9, 9], [0, 9]] {
        let (told, _) = on_ranks(2, (7, 7), |courier| {
            let rank = courier.rank();
            let rows = Distribution::BlockCyclic(Grid::new(2, 1).unwrap());
            let layout = Layout::general(4, 4, 2).unwrap();
            let layout = layout.distributed(rows, rank).unwrap();
            let a = TiledMatrix::<f64>::zeros(layout).named("A");
            let on = Context::new(&Inline).across(courier);
            let collected = a.collect(Rank(to[rank.0 as usize]), &on);
            collected.unwrap_err().to_string()
        });
        let expected = match to {
            [9, 9] => "matrix \"A\" (4 x 4) cannot be collected on rank 9: the last is rank 1",
            _ => "on rank 9",
        };
        assert!(told.iter().all(|text| text.contains(expected)), "{told:?}");
    }
}

#[test]
fn an_entry_that_panics_names_its_tile_and_says_why() {
    let a = general((5, 5), 1.0).named("A");
    let entry = |i: usize, j: usize| -> f64 {
        assert!((i, j) != (3, 2), "no such entry");
        1.0
    };
    let told = a.fill(&entry, &Inline).unwrap_err().to_string();
    let expected = "no such entry, as matrix \"A\" (5 x 5) was filled (task Fill { i: 1, j: 1 })";
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn factors_of_a_product_that_do_not_fit_are_both_named() {
    let refused = product::expect_product((3, 4), (5, 2))
        .unwrap_err()
        .to_string();
    let expected = "a product of 3 x 4 and 5 x 2: the left one has 4 columns and the right one 5 rows \
                    (must be as many)";
    assert_eq!(refused, expected);
}

#[test]
fn a_slice_of_the_wrong_length_is_told_how_long_it_must_be() {
    let layout = Layout::general(3, 2, 2).unwrap();
    let refused = TiledMatrix::from_column_major(layout, &[0.0; 5], 3).unwrap_err();
    let expected = "the slice is 3 x 1 (must be 3 x 2): it has 5 elements, and with ld = 3 at least 6 are \
                    needed";
    assert_eq!(refused.to_string(), expected);
}

/// Entries of a 3 x 3 matrix that is symmetric, and what is found in it.
type Spoiled = ([[f64; 3]; 3], &'static str);

#[test]
fn what_is_found_in_the_numbers_of_a_matrix_is_told_with_its_name() {
    let nan = f64::NAN;
    let lower: [Spoiled; 2] = [
        (
            [[1.0, 2.0, 0.0], [2.0, nan, 0.0], [0.0, 0.0, 1.0]],
            "matrix \"K\" is not finite: entry (1, 1)",
        ),
        (
            [[1.0, 2.0, 0.0], [2.0, 3.0, 0.0], [0.0, 0.0, 1.0]],
            "matrix \"K\" is not positive definite: pivot 2 is",
        ),
    ];
    for (entries, expected) in lower {
        let k = || {
            let layout = Layout::lower(3, 2).unwrap();
            TiledMatrix::from_fn(layout, |i, j| entries[i][j]).named("K")
        };
        let b = general((3, 1), 1.0).named("R");
        for told in [
            cholesky::factor(&k(), AUTO, &Inline),
            cholesky::inverse(&k(), AUTO, &Inline),
            cholesky::factor_and_solve(&k(), &b, AUTO, &Inline),
        ] {
            let told = told.unwrap_err().to_string();
            assert!(told.starts_with(expected), "{told}");
        }
    }
    let whole: [Spoiled; 3] = [
        (
            [[1.0, 2.0, 0.0], [2.0, nan, 0.0], [0.0, 0.0, 1.0]],
            "matrix \"K\" is not finite: entry (1, 1)",
        ),
        (
            [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]],
            "matrix \"K\" is singular: pivot 2",
        ),
        (
            [[1e308, 1e308, 0.0], [-1e308, 1e308, 0.0], [0.0, 0.0, 1.0]],
            "column 1 of the factor of matrix \"K\", counted from 0, is not finite",
        ),
    ];
    for (entries, expected) in whole {
        let k = || {
            let layout = Layout::general(3, 3, 2).unwrap();
            TiledMatrix::from_fn(layout, |i, j| entries[i][j]).named("K")
        };
        let (a, b) = (k(), general((3, 1), 1.0).named("R"));
        let pivots = Pivots::new(&a);
        for told in [
            lu::factor(&k(), &pivots, AUTO, &Inline),
            lu::factor_and_solve(&a, &pivots, &b, AUTO, &Inline),
            lu::inverse(k(), AUTO, &Inline).map(|(_, report)| report),
        ] {
            let told = told.unwrap_err().to_string();
            assert!(told.starts_with(expected), "{told}");
        }
    }
    let (a, b) = (general((3, 3), 1.0), general((3, 1), nan).named("R"));
    let solved = qr::least_squares(&a, &b, Options::of_order(2), AUTO, &Inline);
    let told = solved.unwrap_err().to_string();
    let expected = "right-hand sides \"R\" are not finite: entry (0, 0)";
    assert!(told.starts_with(expected), "{told}");
    // A square matrix, a tall and a wide one, of which the adjoint is factored.
    for (m, n) in [(3, 3), (4, 3), (3, 4)] {
        let layout = Layout::general(m, n, 2).unwrap();
        let a = TiledMatrix::from_fn(layout, |_, _| 1.0).named("K");
        let b = general((m, 1), 1.0);
        let solved = qr::least_squares(&a, &b, Options::of_order(2), AUTO, &Inline);
        let told = solved.unwrap_err().to_string();
        let expected = "matrix \"K\" is rank deficient: its rank is about 1 of 3 (must be full;";
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn matrices_that_do_not_fit_are_called_by_their_names() {
    let of = Options::of_order(2);
    let [k, r] =
        [((3, 3), "K"), ((4, 1), "R")].map(|(shape, name)| general(shape, 1.0).named(name));
    let lower = TiledMatrix::from_fn(Layout::lower(3, 2).unwrap(), |_, _| 1.0).named("K");
    let (pivots, q) = (Pivots::new(&k), Reflectors::new(k.layout(), of));
    let (one, plain) = (1.0, Operand::plain(&k));
    let triangle = TriangularOperand::lower(&lower);
    let left = (Side::Left, Op::NoTranspose);
    let mixed = |a| refine::solve(a, &r, AUTO, &Inline).map(|solved| solved.report);
    let both = [
        ("cholesky", cholesky::solve(&lower, &r, AUTO, &Inline)),
        (
            "lu",
            lu::solve(&k, &pivots, Op::NoTranspose, &r, AUTO, &Inline),
        ),
        (
            "qr",
            qr::least_squares(&k, &r, of, AUTO, &Inline).map(|(_, report)| report),
        ),
        ("apply", qr::apply(&k, &q, left, &r, AUTO, &Inline)),
        (
            "gemm",
            gemm(one, plain, Operand::plain(&r), one, &k, AUTO, &Inline),
        ),
        ("into", gemm(one, plain, plain, one, &r, AUTO, &Inline)),
        (
            "herk",
            product::herk(one, Operand::plain(&r), one, &lower, AUTO, &Inline),
        ),
        ("trmm", trmm(Side::Left, one, triangle, &r, AUTO, &Inline)),
        ("trsm", trsm(Side::Left, one, triangle, &r, AUTO, &Inline)),
        ("transfer", transfer(&k, Turn::Plain, &r, &Inline)),
        ("mixed", mixed(&k)),
        ("mixed, lower", mixed(&lower)),
    ];
    for (call, refused) in both {
        let told = refused.unwrap_err().to_string();
        assert!(
            told.contains(" \"K\"") && told.contains(" \"R\""),
            "{call}: {told}"
        );
    }
}

/// Both shapes were told, and not what is allowed: of a transpose that is not made, for instance, none is wrong.
#[test]
fn what_does_not_fit_is_told_what_would() {
    let of = Options::of_order(2);
    let (k, r) = (general((3, 3), 1.0), general((4, 1), 1.0));
    let (b, x) = (general((3, 1), 1.0), general((3, 1), 0.0));
    let lower = TiledMatrix::from_fn(Layout::lower(3, 2).unwrap(), |_, _| 1.0);
    let (pivots, q) = (Pivots::new(&k), Reflectors::new(k.layout(), of));
    let triangle = TriangularOperand::lower(&lower);
    let turned = (Side::Right, Op::Transpose);
    let solved = |op, b| qr::solve((&k, &q), op, (b, &x), AUTO, &Inline);
    let least = qr::least_squares(&k, &r, of, AUTO, &Inline).map(|(_, report)| report);
    let wide = dataflow_linalg::ndarray::Array2::<f64>::ones((2, 3));
    let tall = qr::tall_least_squares(wide.view(), wide.view(), AUTO, &Inline);
    for (refused, allowed) in [
        (
            tall.map(|(_, report)| report),
            "2 x 3 (which must have as many rows, and from 1 to as many columns)",
        ),
        (
            cholesky::solve(&lower, &r, AUTO, &Inline),
            "(which must be Lower, and B General, with as many rows,",
        ),
        (
            lu::solve(&k, &pivots, Op::NoTranspose, &r, AUTO, &Inline),
            "(which must be square, and B General, with as many rows,",
        ),
        (least, "(both must be General, with as many rows,"),
        (
            qr::apply(&k, &q, turned, &k, AUTO, &Inline),
            "(which must be General, with 3 columns,",
        ),
        (
            solved(Op::Transpose, &b),
            "by Transpose (must be NoTranspose or ConjTranspose;",
        ),
        (
            solved(Op::ConjTranspose, &r),
            "by ConjTranspose (must be B of 3 rows, A and X of no fewer;",
        ),
        (
            trsm(Side::Left, 1.0, triangle, &r, AUTO, &Inline),
            "(must be of order 4, and the matrix General,",
        ),
    ] {
        let told = refused.unwrap_err().to_string();
        assert!(told.contains(allowed), "{told}");
    }
}
