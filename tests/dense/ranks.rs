//! Matrices in tiles over ranks: the same answers, and what is wrong is told on all ranks.

use crate::spread;
use dataflow::core::port::{Alone, Context, Shuffled};
use dataflow::core::rank::Rank;
use dataflow::linalg::matrix::digest::digest;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::norm::{Norm, norm};
use dataflow::linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow::linalg::scalar::c64;
use dataflow::linalg::{LinalgError, cholesky, kernel::Backend, lu, refine};
use dataflow::{Monitor, Runtime, Tiled, launch};
use ndarray::Array2;
use std::sync::Mutex;

/// Only rank 1 has not filled its tiles.
#[test]
fn a_tile_that_was_never_filled_is_told_by_every_call_on_every_rank() {
    let told = |runtime: &Runtime| {
        let memory = runtime.memory();
        let grid = Distribution::BlockCyclic(Grid::new(2, 1).unwrap());
        let half_filled = |layout: Layout| {
            let layout = layout.distributed(grid, runtime.rank()).unwrap();
            let a = TiledMatrix::<f64>::vacant(layout, memory.clone());
            if runtime.rank() == Rank(0) {
                a.fill(&Random::new(1), runtime).unwrap();
            }
            a
        };
        let general = || half_filled(Layout::general(4, 4, 2).unwrap());
        let sides = Layout::general(4, 1, 2).unwrap();
        let sides = sides.distributed(grid, runtime.rank()).unwrap();
        let b = TiledMatrix::from_entries(sides, &Random::new(2));
        let (a, lower) = (general(), half_filled(Layout::lower(4, 2).unwrap()));
        let refused = [
            a.solve(&b, runtime).err(),
            lower.solve(&b, runtime).err(),
            a.inverse(runtime).err(),
            lower.inverse(runtime).err(),
            a.cholesky(runtime).err(),
            lower.cholesky(runtime).err(),
            a.lu(runtime).err(),
            a.qr(runtime).err(),
            a.least_squares(&b, runtime).err(),
            a.least_squares_minimum_norm(&b, None, runtime).err(),
            a.numerical_rank(None, runtime).err(),
            a.pseudo_inverse(None, runtime).err(),
            general().lu_factor(runtime).err(),
            general().qr_factor(runtime).err(),
            general().cholesky_factor(runtime).err(),
        ];
        let lines = refused.map(|refused| format!("{}\n", refused.unwrap()));
        let all = runtime.gather(lines.concat().into_bytes())?;
        Ok::<_, dataflow::Error>(all.concat())
    };
    let settings = Runtime::builder().threads(1).ranks(2);
    let texts = String::from_utf8(launch(settings, told).unwrap()).unwrap();
    assert_eq!(texts.lines().count(), 2 * 15, "{texts}");
    for text in texts.lines() {
        assert!(text.contains("tile (1, 0) is empty"), "{text}");
    }
}

#[test]
fn tiled_matrices_have_the_same_answers_over_ranks() {
    /// The sums over ranks of the digests of all answers.
    fn digests(ranks: usize) -> Vec<u64> {
        let answers = |runtime: &Runtime| {
            let (n, nb) = (30, 7);
            let general = |m, n| Layout::general(m, n, nb).unwrap();
            let definite = PositiveDefinite::new(n, 1);
            let a: TiledMatrix<f64> = spread(Layout::lower(n, nb).unwrap(), &definite, runtime);
            let b = spread(general(n, 9), &Random::new(3), runtime);
            let c = spread(general(n, n), &Random::new(2), runtime);
            let (q, r) = c.qr(runtime).unwrap();
            let answers = [
                a.cholesky(runtime).unwrap(),
                a.solve(&b, runtime).unwrap(),
                a.inverse(runtime).unwrap(),
                a.dot_tiled(&b, runtime).unwrap(),
                c.solve(&b, runtime).unwrap(),
                c.inverse(runtime).unwrap(),
                c.lu(runtime).unwrap().1,
                q,
                r,
                c.least_squares(&b, runtime).unwrap(),
            ];
            let all = answers.iter().map(|answer| {
                let own = digest(answer).unwrap();
                let all = runtime.gather(own.to_string().into_bytes()).unwrap();
                let number = |bytes: Vec<u8>| {
                    let digits = String::from_utf8(bytes).unwrap();
                    u64::from_str_radix(&digits, 16).unwrap()
                };
                all.into_iter().map(number).fold(0, u64::wrapping_add)
            });
            Ok::<_, dataflow::Error>(all.collect::<Vec<u64>>())
        };
        let settings = Runtime::builder().threads(1).ranks(ranks);
        launch(settings, answers).unwrap()
    }
    assert_eq!(digests(3), digests(1));
}

#[test]
fn a_matrix_that_nobody_distributed_is_refused_over_ranks_on_all_of_them() {
    let told = launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let (n, nb) = (6, 2);
        let definite = PositiveDefinite::new(n, 1);
        let a = TiledMatrix::<f64>::from_entries(Layout::lower(n, nb).unwrap(), &definite);
        let b = TiledMatrix::from_entries(Layout::general(n, 1, nb).unwrap(), &Random::new(3));
        let ended = [
            a.cholesky(runtime).err(),
            a.solve(&b, runtime).err(),
            norm(&a, Norm::One, runtime).err().map(LinalgError::Run),
        ];
        let told = ended.map(|error| error.unwrap().to_string());
        let all = runtime.gather(told.join("\n").into_bytes())?;
        Ok::<_, dataflow::Error>(all)
    });
    for of_rank in told.unwrap() {
        for error in String::from_utf8(of_rank).unwrap().lines() {
            let expected = "on rank 1 a matrix (6 x 6) is seen from rank 0: make its layout with";
            assert!(error.starts_with(expected), "{error}");
        }
    }
}

/// What a product makes beside such a matrix was made with tiles on rank 1, too, and refused there.
#[test]
fn a_rank_may_hold_a_mere_name_of_a_matrix_that_another_has() {
    launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let (n, nb) = (6, 2);
        let named = |entries: &dyn Entries<f64>| {
            let layout = Layout::general(n, n, nb).unwrap();
            match runtime.rank() {
                Rank(0) => TiledMatrix::from_fn(layout, |i, j| entries.entry(i, j)),
                _ => TiledMatrix::vacant(layout, runtime.memory()),
            }
        };
        let (random, definite) = (Random::new(3), PositiveDefinite::new(n, 1));
        let (a, b) = (named(&definite), named(&random));
        let c = a.dot_tiled(&b, runtime)?;
        if runtime.rank() == Rank(0) {
            let entry = |of: &dyn Entries<f64>, i, j| of.entry(i, j);
            let products = (0..n).map(|k| entry(&definite, 2, k) * entry(&random, k, 3));
            let sum: f64 = products.sum();
            assert!((c.get(2, 3).unwrap() - sum).abs() < 1e-12);
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })
    .unwrap();
}

/// What a call answers on each of two ranks, of which the second has another matrix.
fn told_on_both(call: impl Fn(&Runtime, usize) -> Result<(), LinalgError> + Sync) -> [String; 2] {
    let told = Mutex::new([const { String::new() }; 2]);
    let launched = launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let Rank(rank) = runtime.rank();
        let answer = call(runtime, rank as usize).map_err(|error| error.to_string());
        told.lock().unwrap()[rank as usize] = answer.err().unwrap_or_default();
        Ok::<_, LinalgError>(())
    });
    launched.unwrap();
    told.into_inner().unwrap()
}

#[test]
fn ranks_that_have_matrices_of_different_sizes_are_told_both_and_the_name() {
    type Call = fn(&TiledMatrix<f64>, &TiledMatrix<f64>, &Runtime) -> Result<(), LinalgError>;
    let calls: [(&str, Call); 6] = [
        ("cholesky", |a, _, on| {
            cholesky::factor(a, Backend::Auto, on).map(drop)
        }),
        ("solved", |a, b, on| a.solve(b, on).map(drop)),
        ("by L", |a, b, on| {
            cholesky::solve(a, b, Backend::Auto, on).map(drop)
        }),
        ("norm", |a, _, on| Ok(norm(a, Norm::One, on).map(drop)?)),
        ("qr", |_, b, on| b.qr(on).map(drop)),
        ("product", |_, b, on| b.dot_tiled(b, on).map(drop)),
    ];
    let sizes = [
        ([(6, 2), (7, 2)], "m is 6 on rank 0 and 7 on rank 1"),
        ([(6, 2), (6, 3)], "nb is 2 on rank 0 and 3 on rank 1"),
    ];
    for (name, call) in calls {
        for (sizes, expected) in sizes {
            let told = told_on_both(|runtime, rank| {
                let ((n, nb), grid) = (sizes[rank], Grid::new(1, 2)?);
                let spread = |layout: Layout| {
                    layout.distributed(Distribution::BlockCyclic(grid), runtime.rank())
                };
                let [a, b] = [Layout::lower(n, nb)?, Layout::general(n, n, nb)?].map(spread);
                let a = TiledMatrix::from_entries(a?, &PositiveDefinite::new(n, 1)).named("K");
                let b = TiledMatrix::from_entries(b?, &PositiveDefinite::new(n, 1)).named("K");
                call(&a, &b, runtime)
            });
            for told in told {
                let is_named = told.starts_with("ranks do not agree on") && told.contains("\"K\"");
                assert!(is_named && told.ends_with(expected), "{name}: {told}");
            }
        }
    }
}

/// A matrix that rank 0 has, and its mere name elsewhere.
fn named(shape: (usize, usize), entries: &impl Entries<f64>, on: &Runtime) -> TiledMatrix<f64> {
    let layout = Layout::general(shape.0, shape.1, 2).unwrap();
    match on.rank() {
        Rank(0) => TiledMatrix::from_entries(layout, entries),
        _ => TiledMatrix::vacant(layout, on.memory()),
    }
}

/// Whoever had but the name was not told, and the run stalled.
#[test]
fn what_is_found_of_a_matrix_that_one_rank_has_is_told_to_all() {
    fn told(ranks: usize) -> Vec<Vec<u8>> {
        let answers = |runtime: &Runtime| {
            let (definite, random) = (PositiveDefinite::new(6, 1), Random::new(3));
            let square = || named((6, 6), &definite, runtime);
            let tall = || named((7, 4), &random, runtime);
            let side = |rows| named((rows, 1), &random, runtime);
            let lu = square().lu_factor(runtime)?;
            let determinant = lu.determinant()?;
            let turned = square().qr_factor(runtime)?.determinant()?;
            let wide = named((4, 7), &random, runtime);
            wide.least_squares(&side(4), runtime)?;
            tall().qr(runtime)?;
            tall().pseudo_inverse(None, runtime)?;
            let x = tall().least_squares(&side(7), runtime)?;
            let mixed = refine::solve(&square(), &side(6), Backend::Auto, runtime)?;
            let numbers = [
                norm(&square(), Norm::Frobenius, runtime)?,
                determinant.log_abs,
                determinant.phase.re,
                turned.log_abs,
                turned.phase.re,
                lu.condition()?,
                tall().numerical_rank(None, runtime)? as f64,
                norm(&x, Norm::One, runtime)?,
                mixed.outcome.lapack_iter().into(),
            ];
            let bytes = numbers.map(f64::to_le_bytes).concat();
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(runtime.gather(bytes)?)
        };
        launch(Runtime::builder().threads(1).ranks(ranks), answers).unwrap()
    }
    let alone = told(1).remove(0);
    assert_eq!(told(2), [alone.clone(), alone]);
}

#[test]
fn a_determinant_an_inverse_and_a_condition_by_qr_have_the_same_bits_on_every_grid() {
    fn told(grid: Grid) -> Vec<u8> {
        let answers = |runtime: &Runtime| {
            let layout = Layout::general(7, 7, 2)?;
            let layout = layout.distributed(Distribution::BlockCyclic(grid), runtime.rank())?;
            let a = TiledMatrix::<c64>::from_entries(layout, &Random::new(5));
            let factor = a.qr_factor(runtime)?;
            let (determinant, inverse) = (factor.determinant()?, factor.inverse()?);
            let norm = norm(&inverse, Norm::Frobenius, runtime)?;
            let phase = determinant.phase;
            let condition = factor.condition()?;
            let numbers = [determinant.log_abs, phase.re, phase.im, norm, condition];
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                numbers.map(f64::to_le_bytes).concat(),
            )
        };
        let settings = Runtime::builder().threads(1).ranks(grid.n_ranks());
        launch(settings, answers).unwrap()
    }
    let alone = told(Grid::new(1, 1).unwrap());
    for (p, q) in [(2, 1), (1, 2), (2, 2)] {
        assert_eq!(told(Grid::new(p, q).unwrap()), alone, "{p} x {q}");
    }
}

#[test]
fn a_check_of_factors_that_one_rank_has_is_answered_there_alone() {
    launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let definite = PositiveDefinite::new(6, 1);
        let (a, layout) = (named((6, 6), &definite, runtime), Layout::lower(6, 2)?);
        let l = match runtime.rank() {
            Rank(0) => TiledMatrix::from_entries(layout, &definite),
            _ => TiledMatrix::<f64>::vacant(layout, runtime.memory()),
        };
        let pivots = lu::Pivots::new(&a);
        lu::factor(&a, &pivots, Backend::Auto, runtime)?;
        cholesky::factor(&l, Backend::Auto, runtime)?;
        let of_lu = lu::Check::new(&definite, &a, &pivots)?;
        let of_l = cholesky::Check::new(&definite, &l)?;
        for _ in 0..2 {
            of_lu.run(runtime)?;
            of_l.run(runtime)?;
            for residual in [of_lu.residual(), of_l.residual()] {
                assert_eq!(residual.is_some(), runtime.rank() == Rank(0));
                assert!(residual.is_none_or(|residual| residual < 3.0));
            }
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })
    .unwrap();
}

/// By whole columns on the rank with few workers, by tiles on the other: they disagreed on the graph.
#[test]
fn ranks_with_different_numbers_of_workers_run_the_same_lu() {
    /// The factors, a solution and the inverse, as rank 0 has them.
    fn answers(ranks: usize) -> [Array2<f64>; 3] {
        let answers = |runtime: &Runtime| {
            let workers = Shuffled::new(1).with_threads(1 + runtime.rank().0 as usize);
            let on = &Context::new(&workers).across(runtime.courier());
            let (random, auto) = (Random::new(3), Backend::Auto);
            let square = || named((6, 6), &random, runtime);
            let (factored, b) = (square(), named((6, 1), &random, runtime));
            lu::factor(&factored, &lu::Pivots::new(&factored), auto, on)?;
            let a = square();
            lu::factor_and_solve(&a, &lu::Pivots::new(&a), &b, auto, on)?;
            let (inverse, _) = lu::inverse(square(), auto, on)?;
            let answers = [factored, b, inverse].map(|tiles| tiles.to_ndarray());
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answers)
        };
        let settings = Runtime::builder().threads(1).ranks(ranks);
        launch(settings, answers).unwrap().map(Result::unwrap)
    }
    assert_eq!(answers(2), answers(1));
}

#[test]
fn a_condition_is_the_same_over_ranks_and_a_rank_computes_alone_if_it_says_so() {
    fn conditions(ranks: usize) -> [u64; 3] {
        let answers = |runtime: &Runtime| {
            let (n, nb, auto) = (30, 7, Backend::Auto);
            let triangle = Layout::lower(n, nb).unwrap();
            let whole = Layout::general(n, n, nb).unwrap();
            let definite = PositiveDefinite::new(n, 1);
            let l: TiledMatrix<f64> = spread(triangle, &definite, runtime);
            let of_l = norm(&l, Norm::One, runtime).unwrap();
            cholesky::factor(&l, auto, runtime).unwrap();
            let of_l = cholesky::condition(&l, of_l, auto, runtime).unwrap();
            let lu: TiledMatrix<f64> = spread(whole, &Random::new(2), runtime);
            let (of_lu, pivots) = (norm(&lu, Norm::One, runtime).unwrap(), lu::Pivots::new(&lu));
            lu::factor(&lu, &pivots, auto, runtime).unwrap();
            let of_lu = lu::condition(&lu, &pivots, of_lu, auto, runtime).unwrap();
            let mut own = 0.0;
            if runtime.rank() == Rank(0) {
                // The others know nothing of it.
                let on = Context::new(runtime).across(&Alone);
                let l = TiledMatrix::<f64>::from_entries(triangle, &definite);
                own = norm(&l, Norm::One, &on).unwrap();
                cholesky::factor(&l, auto, &on).unwrap();
                own = cholesky::condition(&l, own, auto, &on).unwrap();
            }
            let same = runtime.all_reduce([of_l, of_lu], |a, b| {
                assert_eq!(a, b);
                a
            })?;
            Ok::<_, dataflow::Error>([same[0], same[1], own].map(f64::to_bits))
        };
        let settings = Runtime::builder().threads(1).ranks(ranks);
        launch(settings, answers).unwrap()
    }
    let [of_l, of_lu, own] = conditions(1);
    assert_eq!(conditions(3), [of_l, of_lu, own]);
    assert_eq!(of_l, own);
}

#[test]
fn a_call_that_one_rank_alone_cancels_ends_as_cancelled_on_every_rank() {
    launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let (n, nb) = (6, 2);
        let made = || -> Result<TiledMatrix<f64>, LinalgError> {
            Ok(spread(Layout::general(n, n, nb)?, &Random::new(2), runtime))
        };
        let definite = PositiveDefinite::new(n, 1);
        let triangle: TiledMatrix<f64> = spread(Layout::lower(n, nb)?, &definite, runtime);
        let (square, b) = (made()?, made()?);
        let monitor = Monitor::new();
        let on = runtime.watched_by(&monitor);
        let (factor, turned) = (made()?.lu_factor(&on)?, made()?.qr_factor(&on)?);
        if runtime.rank() == Rank(1) {
            monitor.cancel();
        }
        let ended = [
            triangle.solve(&b, &on).map(drop),
            triangle.inverse(&on).map(drop),
            square.solve(&b, &on).map(drop),
            square.qr(&on).map(drop),
            square.dot_tiled(&b, &on).map(drop),
            square.least_squares_minimum_norm(&b, None, &on).map(drop),
            factor.condition().map(drop),
            turned.condition().map(drop),
        ];
        for (call, ended) in ended.into_iter().enumerate() {
            let refused = ended.expect_err("it is cancelled");
            assert_eq!(refused.name(), "cancelled", "call {call}: {refused}");
        }
        // The ranks are still in step.
        runtime.gather(Vec::new())?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })
    .unwrap();
}
