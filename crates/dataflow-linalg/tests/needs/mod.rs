//! What was told to be needed, beside what was taken: tiles are counted by their memory, what other
//! ranks send by the post.

use crate::ranks::on_ranks;
use dataflow_core::port::{Block, Context, Courier, Executor, Heap, Inline, Memory, Shuffled};
use dataflow_core::rank::Rank;
use dataflow_linalg::cholesky::{self, Factor, Inverse};
use dataflow_linalg::kernel::{Backend, Op, Side, Triangle};
use dataflow_linalg::lu::{self, Exchanges, Pivots};
use dataflow_linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow_linalg::matrix::{Distribution, Entries, Grid, Layout, TiledMatrix};
use dataflow_linalg::needs::{self, Needs};
use dataflow_linalg::product::{Gemm, Herk, Operand, TriangularOperand, trmm, trsm};
use dataflow_linalg::qr::{self, Apply, Options, Reflectors, Tree};
use dataflow_linalg::refine;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Memory that counts what it has given out, and how much that was at most.
#[derive(Default)]
struct Counting {
    now: AtomicUsize,
    peak: AtomicUsize,
}

struct Counted(Box<dyn Block>, Arc<Counting>);

impl Block for Counted {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.now.fetch_sub(self.0.bytes().len(), Relaxed);
    }
}

struct Counter(Arc<Counting>);

impl Memory for Counter {
    fn allocate(&self, bytes: usize) -> Box<dyn Block> {
        let block = Heap.allocate(bytes);
        let now = self.0.now.fetch_add(block.bytes().len(), Relaxed) + block.bytes().len();
        self.0.peak.fetch_max(now, Relaxed);
        Box::new(Counted(block, self.0.clone()))
    }
}

/// A rank of a grid: its courier, and the memory of its tiles.
struct Seat<'a> {
    courier: &'a dyn Courier,
    grid: (u32, u32),
    memory: Arc<dyn Memory>,
}

impl<'a> Seat<'a> {
    /// The seat of a courier's rank; the memory of each is counted.
    fn new(courier: &'a dyn Courier, grid: (u32, u32), countings: &[Arc<Counting>]) -> Self {
        let Rank(rank) = courier.rank();
        let memory = Arc::new(Counter(countings[rank as usize].clone()));
        Seat {
            courier,
            grid,
            memory,
        }
    }

    fn matrix(&self, layout: Layout, entries: &impl Entries<f64>) -> TiledMatrix<f64> {
        let layout = seen(layout, self.grid, self.courier.rank());
        TiledMatrix::from_entries_in(layout, self.memory.clone(), entries)
    }

    fn random(&self, layout: Layout) -> TiledMatrix<f64> {
        self.matrix(layout, &Random::new(1))
    }

    /// The executor, and the way to the other ranks.
    fn across<'w>(&'w self, on: &'w dyn Executor) -> Context<'w> {
        Context::new(on).across(self.courier)
    }

    /// Tasks in the order of their priorities on one rank, on which that bounds what is there at once;
    /// in any order over ranks.
    fn by_priority<'w>(&'w self, any: &'w Shuffled) -> Context<'w> {
        self.across(match self.grid {
            (1, 1) => &Inline,
            _ => any,
        })
    }
}

fn seen(layout: Layout, (p, q): (u32, u32), rank: Rank) -> Layout {
    let grid = Distribution::BlockCyclic(Grid::new(p, q).unwrap());
    layout.distributed(grid, rank).unwrap()
}

/// Runs a routine over every grid and compares what each rank took with what it was told to need.
fn compare(what: &str, told: impl Fn((u32, u32), Rank) -> Needs, run: impl Fn(&Seat) + Sync) {
    compare_after(what, told, |_| (), |seat, ()| run(seat));
}

/// The same of a routine that starts from what another has left: that is held, but its peaks do not
/// count.
fn compare_after<S: Send>(
    what: &str,
    told: impl Fn((u32, u32), Rank) -> Needs,
    before: impl Fn(&Seat) -> S + Sync,
    run: impl Fn(&Seat, S) + Sync,
) {
    for grid in [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3)] {
        let n_ranks = grid.0 * grid.1;
        let countings: Vec<_> = (0..n_ranks).map(|_| Arc::<Counting>::default()).collect();
        let (states, earlier) = on_ranks(n_ranks, (3, 2), |courier| {
            before(&Seat::new(courier, grid, &countings))
        });
        let states: Vec<_> = states
            .into_iter()
            .map(|state| Mutex::new(Some(state)))
            .collect();
        let (peaks, crossed) = on_ranks(n_ranks, (3, 2), |courier| {
            let rank = courier.rank().0 as usize;
            let counting = &countings[rank];
            counting.peak.store(counting.now.load(Relaxed), Relaxed);
            let state = states[rank].lock().unwrap().take();
            run(&Seat::new(courier, grid, &countings), state.unwrap());
            counting.peak.load(Relaxed) as u128
        });
        for (rank, peak) in (0..).zip(peaks) {
            let needs = told(grid, Rank(rank));
            let [earlier, received] = [&earlier, &crossed].map(|of| of.held[rank as usize] as u128);
            let what = format!("{what} on {grid:?}, rank {rank}: {needs:?}, {peak} and {received}");
            assert!(peak <= needs.held + needs.workspace, "{what}");
            // Some of it lies in the place of tiles that were made here.
            let in_place = needs.held.saturating_sub(peak);
            assert!(received <= needs.received + in_place, "{what}");
            // An estimate that is far off would be of no use, and what is held must be there. How much
            // of what others send is there at once depends on the schedule.
            assert!(needs.at_most() <= 8 * (peak + received) + 60_000, "{what}");
            let there = peak + received + earlier;
            assert!(needs.held <= there + there / 5 + 4000, "{what}");
        }
    }
}

const BACKEND: Backend = Backend::Faer;

#[test]
fn no_rank_takes_more_memory_than_it_was_told_to_need() {
    let on = Shuffled::new(1);
    for (n, nb) in [(96, 16), (75, 10)] {
        let (definite, lower) = (PositiveDefinite::new(n, 3), Layout::lower(n, nb).unwrap());
        let told = |grid, rank| needs::cholesky::<f64>(&seen(lower, grid, rank), 1);
        compare("cholesky", told, |seat| {
            let a = seat.matrix(lower, &definite);
            let factor = Factor::new(&a, BACKEND).unwrap();
            factor.run(&seat.across(&on)).unwrap();
        });
        let told = |grid, rank| needs::inverse::<f64>(&seen(lower, grid, rank), 1);
        compare("inverse", told, |seat| {
            let a = seat.matrix(lower, &definite);
            let inverse = Inverse::new(&a, BACKEND).unwrap();
            inverse.run(&seat.by_priority(&on)).unwrap();
        });
    }
    for (m, n) in [(96, 96), (121, 60), (60, 121)] {
        let layout = Layout::general(m, n, 16).unwrap();
        let told = |grid, rank| needs::lu::<f64>(&seen(layout, grid, rank), 1);
        compare("lu", told, |seat| {
            let a = seat.matrix(layout, &Random::new(1));
            let pivots = Pivots::new(&a);
            let factor = lu::Factor::new(&a, &pivots, BACKEND).unwrap();
            factor.run(&seat.by_priority(&on)).unwrap();
        });
        compare("lu with a lookahead", told, |seat| {
            let a = seat.matrix(layout, &Random::new(1));
            let pivots = Pivots::new(&a);
            let factor = lu::Factor::new(&a, &pivots, BACKEND).unwrap();
            let factor = factor.with_lookahead(1);
            factor.run(&seat.by_priority(&on)).unwrap();
        });
        for tree in [Tree::Flat, Tree::Binary, Tree::Greedy] {
            let options = Options { tree, ib: 4 };
            let told = |grid, rank| needs::qr::<f64>(&seen(layout, grid, rank), options, 1);
            compare("qr", told, |seat| {
                let a = seat.matrix(layout, &Random::new(1));
                let q = Reflectors::new(a.layout(), options);
                let factor = qr::Factor::new(&a, &q, BACKEND).unwrap();
                factor.run(&seat.across(&on)).unwrap();
            });
        }
        let k = 70;
        let layouts = [(m, k), (k, n), (m, n)].map(|(m, n)| Layout::general(m, n, 16).unwrap());
        let told = |grid, rank| {
            let [a, b, c] = layouts.map(|layout| seen(layout, grid, rank));
            needs::gemm::<f64>([&a, &b, &c], 1)
        };
        compare("gemm", told, |seat| {
            let [a, b, c] = layouts.map(|layout| seat.matrix(layout, &Random::new(1)));
            let (a, b) = (Operand::plain(&a), Operand::plain(&b));
            let product = Gemm::new(1.0, a, b, 0.0, &c, BACKEND).unwrap();
            product.run(&seat.across(&on)).unwrap();
        });
    }
}

fn general(m: usize, n: usize) -> Layout {
    Layout::general(m, n, 16).unwrap()
}

#[test]
fn no_way_of_pivoting_takes_more_memory_than_it_was_told_to_need() {
    let on = Shuffled::new(1);
    for (m, n) in [(96, 96), (121, 60), (60, 121)] {
        let layout = general(m, n);
        for groups in [1, 2, 3].map(|groups| NonZeroU32::new(groups).unwrap()) {
            let told =
                |grid, rank| needs::lu_tournament::<f64>(&seen(layout, grid, rank), groups, 1);
            compare(&format!("{groups} groups"), told, |seat| {
                let a = seat.random(layout);
                let pivots = Pivots::new(&a);
                let factor = lu::Factor::new(&a, &pivots, BACKEND).unwrap();
                let factor = factor.by_tournament(groups);
                factor.run(&seat.by_priority(&on)).unwrap();
            });
        }
        let told = |grid, rank| needs::lu_unpivoted::<f64>(&seen(layout, grid, rank), 1);
        compare("unpivoted", told, |seat| {
            let a = seat.random(layout);
            let pivots = Pivots::new(&a);
            let factor = lu::Unpivoted::new(&a, &pivots, BACKEND).unwrap();
            factor.run(&seat.across(&on)).unwrap();
        });
        let told = |grid, rank| needs::lu_incremental::<f64>(&seen(layout, grid, rank), 1);
        let incremental = |seat: &Seat| {
            let a = seat.random(layout);
            let exchanges = Exchanges::new(&a);
            let factor = lu::Incremental::new(&a, &exchanges, BACKEND).unwrap();
            factor.run(&seat.across(&on)).unwrap();
            (a, exchanges)
        };
        compare("incremental", told, |seat| drop(incremental(seat)));
        if m != n {
            continue;
        }
        let sides = general(n, 40);
        let told = |grid, rank| {
            let [a, b] = [layout, sides].map(|layout| seen(layout, grid, rank));
            needs::lu_replay::<f64>([&a, &b], 1)
        };
        compare_after("replay", told, incremental, |seat, (a, exchanges)| {
            let b = seat.random(sides);
            let solve = lu::Replay::new(&a, &exchanges, &b, BACKEND).unwrap();
            solve.run(&seat.across(&on)).unwrap();
        });
    }
}

#[test]
fn no_solution_takes_more_memory_than_it_was_told_to_need() {
    let on = Shuffled::new(1);
    for (n, nb, nrhs) in [(96, 16, 40), (75, 10, 1), (32, 16, 120)] {
        let (definite, lower) = (PositiveDefinite::new(n, 3), Layout::lower(n, nb).unwrap());
        let [whole, sides] = [n, nrhs].map(|cols| Layout::general(n, cols, nb).unwrap());
        let told = |grid, rank| {
            let [l, b] = [lower, sides].map(|layout| seen(layout, grid, rank));
            needs::cholesky_solve::<f64>([&l, &b], 1)
        };
        compare("solve by Cholesky", told, |seat| {
            let (l, b) = (seat.matrix(lower, &definite), seat.random(sides));
            let solve = cholesky::substitution(&l, &b, BACKEND).unwrap();
            solve.run(&seat.across(&on)).unwrap();
        });
        let factored = |seat: &Seat| {
            let a = seat.random(whole);
            let pivots = Pivots::new(&a);
            let factor = lu::Factor::new(&a, &pivots, BACKEND).unwrap();
            factor.run(&seat.across(&on)).unwrap();
            (a, pivots)
        };
        for op in [Op::NoTranspose, Op::ConjTranspose] {
            let told = |grid, rank| {
                let [a, b] = [whole, sides].map(|layout| seen(layout, grid, rank));
                needs::lu_solve::<f64>([&a, &b], op, 1)
            };
            compare_after("solve by LU", told, factored, |seat, (a, pivots)| {
                let b = seat.random(sides);
                let solve = lu::Solve::new(&a, &pivots, op, &b, BACKEND).unwrap();
                solve.run(&seat.by_priority(&on)).unwrap();
            });
        }
    }
}

#[test]
fn no_product_with_a_triangle_or_square_takes_more_memory_than_it_was_told_to_need() {
    let on = Shuffled::new(1);
    let (n, other) = (96, 40);
    let (whole, lower) = (general(n, n), Layout::lower(n, 16).unwrap());
    for (side, solves) in [Side::Left, Side::Right]
        .into_iter()
        .flat_map(|side| [(side, true), (side, false)])
    {
        let sides = match side {
            Side::Left => general(n, other),
            Side::Right => general(other, n),
        };
        for (triangle, op) in [
            (Triangle::Lower, Op::NoTranspose),
            (Triangle::Lower, Op::Transpose),
            (Triangle::Upper, Op::NoTranspose),
        ] {
            let told = |grid, rank| {
                let [a, b] = [whole, sides].map(|layout| seen(layout, grid, rank));
                needs::triangular::<f64>((side, triangle, op), [&a, &b], 1)
            };
            compare(&format!("{side:?} {triangle:?} {op:?}"), told, |seat| {
                let (a, b) = (seat.random(whole), seat.random(sides));
                let of_a = match triangle {
                    Triangle::Lower => TriangularOperand::lower(&a).with(op),
                    Triangle::Upper => TriangularOperand::upper(&a).with(op),
                };
                let product = match solves {
                    true => trsm,
                    false => trmm,
                };
                product(side, 1.0, of_a, &b, BACKEND, &seat.across(&on)).unwrap();
            });
        }
        // A Hermitian factor is stored as its triangle.
        let (a, b) = match side {
            Side::Left => (lower, sides),
            Side::Right => (sides, lower),
        };
        let told = |grid, rank| {
            let [a, b, c] = [a, b, sides].map(|layout| seen(layout, grid, rank));
            needs::gemm::<f64>([&a, &b, &c], 1)
        };
        compare("a Hermitian product", told, |seat| {
            let [a, b, c] = [a, b, sides].map(|layout| seat.random(layout));
            let (a, b) = (Operand::plain(&a), Operand::plain(&b));
            let product = Gemm::new(1.0, a, b, 0.0, &c, BACKEND).unwrap();
            product.run(&seat.across(&on)).unwrap();
        });
    }
    for op in [Op::NoTranspose, Op::ConjTranspose] {
        let factor = match op {
            Op::NoTranspose => general(n, other),
            _ => general(other, n),
        };
        let told = |grid, rank| {
            let [a, c] = [factor, lower].map(|layout| seen(layout, grid, rank));
            needs::herk::<f64>(op, [&a, &c], 1)
        };
        compare("a square", told, |seat| {
            let (a, c) = (seat.random(factor), seat.random(lower));
            let a = match op {
                Op::NoTranspose => Operand::plain(&a),
                _ => Operand::adjoint(&a),
            };
            let square = Herk::new(1.0, a, 0.0, &c, BACKEND).unwrap();
            square.run(&seat.across(&on)).unwrap();
        });
    }
    // Mirror images of the tiles on the diagonals.
    let lower = Layout::lower(240, 16).unwrap();
    let told = |grid, rank| {
        let [a, c] = [lower, general(240, 240)].map(|layout| seen(layout, grid, rank));
        needs::gemm::<f64>([&a, &a, &c], 1)
    };
    compare("a product of two Hermitian matrices", told, |seat| {
        let [a, b, c] = [lower, lower, general(240, 240)].map(|layout| seat.random(layout));
        let (a, b) = (Operand::plain(&a), Operand::plain(&b));
        let product = Gemm::new(1.0, a, b, 0.0, &c, BACKEND).unwrap();
        product.run(&seat.by_priority(&on)).unwrap();
    });
}

#[test]
fn neither_q_nor_least_squares_take_more_memory_than_they_were_told_to_need() {
    let on = Shuffled::new(1);
    for ((m, n), tree) in [
        ((121, 60), Tree::Flat),
        ((96, 96), Tree::Greedy),
        ((60, 121), Tree::Flat),
    ] {
        let options = Options { tree, ib: 4 };
        let (layout, sides) = (general(m, n), general(m, 40));
        let factored = |seat: &Seat| {
            let a = seat.random(layout);
            let q = Reflectors::new(a.layout(), options);
            let factor = qr::Factor::new(&a, &q, BACKEND).unwrap();
            factor.run(&seat.across(&on)).unwrap();
            (a, q)
        };
        for (side, c) in [(Side::Left, sides), (Side::Right, general(40, m))] {
            let told = |grid, rank| {
                let [a, c] = [layout, c].map(|layout| seen(layout, grid, rank));
                needs::qr_apply::<f64>((&a, options), side, &c, 1)
            };
            compare_after("Q applied", told, factored, |seat, (a, q)| {
                let c = seat.random(c);
                let apply = Apply::new(&a, &q, (side, Op::ConjTranspose), &c, BACKEND).unwrap();
                apply.run(&seat.across(&on)).unwrap();
            });
        }
        let told =
            |grid, rank| needs::qr_check::<f64>(&seen(layout, grid, rank), options, 1).unwrap();
        compare_after("the check of Q and R", told, factored, |seat, (a, q)| {
            qr::check(&Random::new(1), &a, &q, &seat.across(&on)).unwrap();
        });
        let told = |grid, rank| {
            let [a, b] = [layout, sides].map(|layout| seen(layout, grid, rank));
            needs::least_squares::<f64>([&a, &b], options, 1).unwrap()
        };
        compare("least squares", told, |seat| {
            let (a, b) = (seat.random(layout), seat.random(sides));
            qr::least_squares(&a, &b, options, BACKEND, &seat.by_priority(&on)).unwrap();
        });
        let told = |grid, rank| {
            let [a, b] = [layout, sides].map(|layout| seen(layout, grid, rank));
            needs::least_squares_minimum_norm::<f64>([&a, &b], options, 1).unwrap()
        };
        // Of full rank, and of less.
        for rcond in [0.0, 0.3] {
            compare("the shortest solution", told, |seat| {
                let (a, b) = (seat.random(layout), seat.random(sides));
                let rcond = Some(rcond);
                qr::least_squares_minimum_norm(
                    &a,
                    &b,
                    rcond,
                    options,
                    BACKEND,
                    &seat.by_priority(&on),
                )
                .unwrap();
            });
        }
        let told = |grid, rank| {
            let [a, b] = [layout, sides].map(|layout| seen(layout, grid, rank));
            needs::solution_ratio::<f64>([&a, &b], 1).unwrap()
        };
        compare("the ratio of a solution", told, |seat| {
            let (a, b, x) = (
                seat.random(layout),
                seat.random(sides),
                seat.random(general(n, 40)),
            );
            qr::solution_ratio(&a, &b, &x, &seat.across(&on)).unwrap();
        });
    }
}

#[test]
fn what_is_many_graphs_takes_no_more_memory_than_it_was_told_to_need() {
    let on = Shuffled::new(1);
    let (n, nrhs) = (96, 40);
    let definite = PositiveDefinite::new(n, 3);
    let (whole, sides) = (general(n, n), general(n, nrhs));
    let told = |grid, rank| needs::lu_inverse::<f64>(&seen(whole, grid, rank), 1);
    compare("the inverse by LU", told, |seat| {
        lu::inverse(seat.random(whole), BACKEND, &seat.by_priority(&on)).unwrap();
    });
    for layout in [whole, Layout::lower(n, 16).unwrap()] {
        let told = |grid, rank| {
            let [a, b] = [layout, sides].map(|layout| seen(layout, grid, rank));
            needs::mixed::<f64>([&a, &b], 1)
        };
        compare("mixed precision", told, |seat| {
            let (a, b) = (seat.matrix(layout, &definite), seat.random(sides));
            let solved = refine::solve(&a, &b, BACKEND, &seat.by_priority(&on)).unwrap();
            assert!(solved.outcome.lapack_iter() >= 0, "{}", solved.outcome);
        });
        let told = |grid, rank| {
            let [a, b] = [layout, sides].map(|layout| seen(layout, grid, rank));
            needs::error_bounds::<f64>([&a, &b], 1)
        };
        compare("bounds of errors", told, |seat| {
            let a = seat.matrix(layout, &definite);
            let (b, x) = (seat.random(sides), seat.random(sides));
            let mut solve = |_: Op, _: &TiledMatrix<f64>| Ok(Default::default());
            refine::bounds(&a, (&b, &x), BACKEND, &seat.by_priority(&on), &mut solve).unwrap();
        });
    }
}

#[test]
fn what_is_held_is_told_exactly_and_what_has_no_room_is_refused_with_the_numbers() {
    for grid in [(1, 1), (2, 2)] {
        for layout in [Layout::lower(50, 8), Layout::general(37, 20, 6)] {
            let layout = seen(layout.unwrap(), grid, Rank(0));
            let tiles = TiledMatrix::<f64>::zeros(layout);
            let elements: usize = tiles
                .tiles()
                .map(|(i, j)| tiles.tile(i, j).unwrap().as_slice().len())
                .sum();
            let tile = size_of::<dataflow_linalg::matrix::Tile<f64>>();
            let expected = elements * 8 + layout.n_slots() * tile;
            let needs = needs::matrix::<f64>(&layout);
            assert_eq!(needs.held, expected as u128);
            assert_eq!(needs.expect_room(expected as u64), Ok(()));
            let refused = needs
                .expect_room(expected as u64 - 1)
                .unwrap_err()
                .to_string();
            assert!(refused.contains(&format!("{expected} bytes")), "{refused}");
        }
    }
}
