//! The example `jacobi3d`: its graph, its proofs, and that nothing but the problem shows in its bits.

#[path = "../edges/mod.rs"]
mod edges;
#[path = "../told/mod.rs"]
mod told;

use applications::jacobi3d;
use applications::jacobi3d::grid::{Counts, Grid, Side};
use applications::jacobi3d::problem::{Name, Problem};
use applications::jacobi3d::space::Jacobi;
use applications::jacobi3d::sweep::{Block, Part};
use common::variant::{Base, Ideal};
use dataflow::core::port::{self, Heap, Memory, Shuffled};
use dataflow::prelude::*;
use edges::every_edge_counts;
use std::sync::Arc;
use told::tells;

tells!(jacobi3d, solve);

fn jacobi(n: usize, blocks: [usize; 3], n_ranks: usize, sweeps: u32, depth: u32) -> Jacobi {
    let grid = Grid::new(n, Counts(blocks), n_ranks).unwrap();
    let problem = Problem::new(Name::Mode, n);
    Jacobi::new((grid, problem), sweeps, depth, Rank(0), Arc::new(Heap))
}

/// Memory on a NUMA node.
struct On(usize);

struct BlockOn(Box<dyn port::Block>, usize);

impl Memory for On {
    fn allocate(&self, bytes: usize) -> Box<dyn port::Block> {
        Box::new(BlockOn(Heap.allocate(bytes), self.0))
    }
}

impl port::Block for BlockOn {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
    fn numa_node(&self) -> Option<usize> {
        Some(self.1)
    }
}

/// Workers swept blocks of other nodes, for nobody said where they lie.
#[test]
fn a_block_says_on_which_numa_node_its_cells_lie() {
    let mut block = Block::vacant([2, 3, 4]);
    let node = |block: &Block| Part::Block(block.clone()).numa_node();
    assert_eq!(node(&block), None);
    block.fill(&On(3), |_, _, row| row.fill(1.0));
    assert_eq!(node(&block), Some(3));
}

#[test]
fn both_ends_of_every_edge_agree_in_every_variant() {
    for blocks in [[1, 1, 1], [3, 1, 1], [2, 2, 2], [1, 3, 2]] {
        for n_ranks in [1, 2, 3, 4] {
            let space = jacobi(5, blocks, n_ranks, 3, 2);
            let ranks = n_ranks as u32;
            let proved = verify(&space, ranks)
                .and(verify(&Base::new(&space), ranks))
                .and(verify(&Ideal(&space), ranks));
            proved.unwrap_or_else(|fault| panic!("{blocks:?} on {n_ranks} ranks: {fault}"));
        }
    }
}

#[test]
fn each_end_of_an_edge_that_is_wrong_is_found() {
    every_edge_counts(&jacobi(4, [2, 2, 1], 1, 2, 1), 1);
    let on_two = jacobi(4, [3, 1, 1], 2, 2, 1);
    every_edge_counts(&on_two, 2);
    every_edge_counts(&Base::new(&on_two), 2);
}

#[test]
fn a_block_has_its_neighbours_and_all_cells_have_a_block() {
    let grid = Grid::new(7, Counts([3, 2, 7]), 5).unwrap();
    let cells: usize = grid
        .places()
        .map(|at| grid.shape(at).iter().product::<usize>())
        .sum();
    assert_eq!(cells, 7 * 7 * 7);
    for place in grid.places() {
        for side in Side::all() {
            if let Some(other) = grid.neighbour(place, side) {
                assert_eq!(grid.neighbour(other, side.opposite()), Some(place));
            }
        }
    }
    let ranks: std::collections::BTreeSet<u32> = grid.places().map(|at| grid.rank(at)).collect();
    assert_eq!(ranks.len(), grid.ranks.product());
}

#[test]
fn the_result_is_exact_for_each_problem() {
    for problem in ["mode", "harmonic", "source"] {
        for blocks in ["1x1x1", "2x3x4", "17x1x1", "1x1x17"] {
            let told = told(&format!(
                "--n 17 --iterations 25 --blocks {blocks} --problem {problem}"
            ));
            assert_eq!(told["verified"], true, "{told}");
            assert!(told["verification_error"].as_f64() < Some(1e-13), "{told}");
        }
    }
}

/// 160 GB of faces were made to be counted.
#[test]
fn a_cube_that_has_no_room_is_counted() {
    let told = told("--simulate counts --ranks 1000 --n 100000 --iterations 1");
    assert!(told.get("error").is_none(), "{told}");
    assert_eq!(told["ranks"], 1000, "{told}");
}

/// In a cube of one or two cells along an axis a wave of two or three halves is 0 in every cell: whatever was
/// swept was as right as nothing.
#[test]
fn there_is_something_to_verify_in_the_smallest_cubes() {
    for n in [1, 2] {
        for (name, sweeps) in [(Name::Mode, 0), (Name::Source, 1)] {
            let problem = Problem::new(name, n);
            let ends = 0..n as isize;
            let cells = ends
                .clone()
                .flat_map(|i| ends.clone().map(move |j| [i, j, 0]));
            let all: Vec<f64> = cells.map(|cell| problem.exact(cell, sweeps)).collect();
            assert!(all.iter().all(|value| value.abs() > 0.1), "{n}: {all:?}");
        }
    }
    for line in [
        "--n 1 --iterations 3 --problem source",
        "--n 2 --iterations 3 --blocks 2x1x2 --problem source",
        "--n 2 --iterations 3 --blocks 2x1x2",
    ] {
        let told = told(line);
        assert_eq!(told["verified"], true, "{told}");
    }
}

/// When a mode was smaller than what rounding may make, zeros were as right as itself.
#[test]
fn where_the_solution_has_faded_nothing_is_verified() {
    for line in ["--n 1 --iterations 3", "--n 4", "--n 20 --iterations 600"] {
        let mode = told(line);
        assert!(mode.get("error").is_none(), "{mode}");
        assert!(mode["verified"].is_null(), "{mode}");
        for lasting in ["harmonic", "source"] {
            let told = told(&format!("{line} --problem {lasting}"));
            assert_eq!(told["verified"], true, "{told}");
        }
    }
    let page = answer("--n 4").stdout;
    assert!(page.contains("is left\nnot verified"), "{page}");
    assert_eq!(told("--n 4 --iterations 20")["verified"], true);
}

#[test]
fn the_size_of_a_solution_is_that_of_its_farthest_cell() {
    for (n, sweeps) in [(1, 0), (2, 3), (5, 1), (12, 40)] {
        for name in [Name::Mode, Name::Source, Name::Harmonic] {
            let problem = Problem::new(name, n);
            let ends = || 0..n as isize;
            let cells =
                ends().flat_map(|i| ends().flat_map(move |j| ends().map(move |k| [i, j, k])));
            let far = cells.map(|cell| problem.exact(cell, sweeps).abs());
            let (far, size) = (far.fold(0.0, f64::max), problem.size(sweeps));
            match name {
                Name::Harmonic => assert!((0.1..=far).contains(&size), "{n}: {size} of {far}"),
                _ => assert_eq!(size, far, "{name:?} {n}"),
            }
        }
    }
}

#[test]
fn six_operations_make_a_cell_and_eight_with_a_source() {
    for (problem, flops) in [("mode", 6), ("harmonic", 6), ("source", 8)] {
        let line = format!("--n 12 --iterations 5 --blocks 3x2x2 --problem {problem}");
        let expected = f64::from(flops) * 12f64.powi(3) * 5.0;
        let ran = told(&line);
        let [rate, seconds] = ["gflops", "seconds"].map(|key| ran[key].as_f64().unwrap());
        assert!(
            (rate * 1e9 * seconds / expected - 1.0).abs() < 1e-12,
            "{ran}"
        );
        let counted = told(&format!("{line} --simulate counts"));
        assert_eq!(
            counted["counts"]["flops_by_rank"]["max"], expected,
            "{counted}"
        );
    }
}

#[test]
fn the_mode_fades_as_the_formula_says() {
    // λ²⁵ for n = 64 and waves 1, 2, 3, computed elsewhere.
    let of = Problem::new(Name::Mode, 64);
    let at = [10, 20, 30];
    let faded = of.exact(at, 25) / of.exact(at, 0);
    assert!((faded - 0.872_447_438_219_796).abs() < 1e-14, "{faded}");
}

#[test]
fn blocks_threads_ranks_depth_and_base_do_not_show_in_the_digest() {
    let common = "--n 15 --iterations 7 --problem source";
    let expected = told(&format!("{common} --blocks 1x1x1 --threads 1"));
    for arguments in [
        "--blocks 15x1x1 --depth 3",
        "--blocks 2x3x5 --threads 3 --depth 2",
        "--blocks 4x4x4 --depth 1 --threads 2",
        "--blocks 4x2x3 --ranks 2 --threads 1",
        "--blocks 3x3x3 --ranks 3 --threads 1",
        "--blocks 4x4x4 --ranks 6 --threads 1 --depth 7",
        "--blocks 2x2x2 --ranks 4 --threads 2 --variant base",
        "--blocks 5x1x1 --ranks 5 --threads 1 --variant base",
        "--blocks 1x5x2 --ranks 5 --threads 1",
        "--blocks 3x5x1 --ranks 3 --threads 2 --depth 4",
        "--blocks 1x1x2 --ranks 3 --threads 1",
    ] {
        let told = told(&format!("{common} {arguments}"));
        assert_eq!(told["digest"], expected["digest"], "{arguments}: {told}");
        assert_eq!(told["verified"], true, "{arguments}");
        assert_eq!(told["copies"], 0, "{arguments}");
    }
}

#[test]
fn the_result_is_the_same_under_every_schedule() {
    let cells = |seed: u64| {
        let space = jacobi(8, [2, 2, 4], 1, 5, 2);
        let threads = 1 + seed as usize % 3;
        dataflow::core::run(&space, &Shuffled::new(seed).with_threads(threads)).unwrap();
        let parts = (0..16).map(|at| match &*space.blocks.get(at).unwrap() {
            jacobi3d::sweep::Part::Block(block) => block.with_cells(<[f64]>::to_vec).unwrap(),
            _ => panic!("a store of blocks holds something else"),
        });
        parts.collect::<Vec<_>>()
    };
    let expected = cells(0);
    assert!((1..20).all(|seed| cells(seed) == expected));
}

#[test]
fn without_edges_between_ranks_the_result_is_wrong_and_nothing_travels() {
    let told = told("--n 16 --blocks 4x1x1 --ranks 2 --threads 1 --variant ideal");
    assert_eq!(told["variant"], "ideal");
    assert!(told["verified"].is_null(), "{told}");
    assert!(told["verification_error"].as_f64() > Some(1e-4), "{told}");
    assert_eq!(told["messages"], 0);
}

#[test]
fn a_run_goes_on_with_what_the_last_left_until_nothing_changes() {
    for ranks in ["--ranks 1", "--ranks 3 --blocks 3x2x1"] {
        let told_of =
            |arguments: &str| told(&format!("--n 6 --problem source --threads 1 {arguments}"));
        let until = told_of(&format!("--iterations 9 --until 1e-9 {ranks}"));
        assert_eq!(until["verified"], true, "{until}");
        assert!(until["change"].as_f64() <= Some(1e-9), "{until}");
        let sweeps = until["iterations"].as_u64().unwrap();
        assert!(sweeps > 18 && sweeps % 9 == 0, "{until}");
        let at_once = told_of(&format!("--iterations {sweeps}"));
        assert_eq!(until["digest"], at_once["digest"]);
    }
}

#[test]
fn sweeps_that_do_not_get_there_are_a_failure() {
    let told = told("--n 20 --until 1e-12 --iterations 5 --limit 10");
    assert_eq!(told["error"]["kind"], "not_converged", "{told}");
    assert_eq!(told["iterations"], 10);
}

/// A limit of 14 was three looks, and so 15 sweeps.
#[test]
fn there_are_no_more_sweeps_than_the_limit() {
    for (limit, sweeps) in [(5, 5), (9, 5), (14, 10), (15, 15)] {
        let told = told(&format!(
            "--n 20 --until 1e-12 --iterations 5 --limit {limit}"
        ));
        assert_eq!(told["iterations"], sweeps, "{told}");
    }
}

#[test]
fn the_picture_has_three_slices() {
    let file = std::env::temp_dir().join(format!("dataflow-{}-jacobi3d.svg", std::process::id()));
    let picture = |ranks: usize| {
        let shown = answer(&format!(
            "--n 12 --blocks 2x2x2 --ranks {ranks} --threads 1 --pixels 5 --svg {}",
            file.display()
        ));
        assert_eq!(shown.status, 0, "{shown:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        text
    };
    let alone = picture(1);
    assert_eq!(alone.matches("<rect").count(), 3 * 5 * 5);
    assert_eq!(picture(4), alone);
    let nowhere = answer("--n 4 --svg /no/such/folder/slices.svg");
    assert_eq!(nowhere.status, 1, "{nowhere:?}");
}

/// Rank 0 left before the others had compared their cells with it: they told of a lost rank.
#[test]
#[cfg(target_os = "linux")]
fn a_picture_that_cannot_be_written_keeps_no_rank_from_the_check() {
    use applications::jacobi3d::Own;
    use common::cli::{Outcome, Settings};
    use dataflow::Runtime;
    use std::sync::Mutex;
    let ends = Mutex::new(Vec::new());
    let body = |settings: &Settings<Own>, runtime: &Runtime, outcome: &mut Outcome| {
        let end = jacobi3d::solve(settings, runtime, outcome);
        let message = end
            .as_ref()
            .err()
            .map(|failure| failure.message().to_string());
        ends.lock().unwrap().push((runtime.rank(), message));
        end
    };
    let line = "jacobi3d --n 8 --ranks 2 --threads 1 --json --svg /dev/full";
    let told = common::cli::answer(&jacobi3d::EXAMPLE, line.split(' '), body);
    let mut ends = ends.into_inner().unwrap();
    ends.sort();
    let [(Rank(0), Some(unwritten)), (Rank(1), None)] = &ends[..] else {
        panic!("{ends:?}");
    };
    assert!(unwritten.contains("/dev/full"), "{unwritten}");
    assert!(told.stdout.contains("\"verified\":true"), "{told:?}");
}

/// A cube of few cells was one block: all ranks but the first had nothing to do.
#[test]
fn every_rank_has_a_block_by_default_while_there_are_cells() {
    for (flags, blocks, grid) in [
        ("--n 20 --ranks 2", "2x1x1", "2x1x1"),
        ("--n 7 --ranks 3", "3x1x1", "3x1x1"),
        ("--n 7 --ranks 9", "7x1x1", "7x1x1"),
        ("--n 20 --ranks 1", "1x1x1", "1x1x1"),
    ] {
        let told = told(&format!("{flags} --threads 1"));
        assert_eq!(told["blocks"], blocks, "{flags}: {told}");
        assert_eq!(told["grid"], grid, "{flags}: {told}");
        assert_eq!(told["verified"], true, "{flags}: {told}");
    }
}

#[test]
fn bad_arguments_are_one_line_and_status_two() {
    must_be_refused(&[
        "--n 0",
        "--iterations 0",
        "--blocks 2x2",
        "--blocks 0x1x1",
        "--n 4 --blocks 5x1x1",
        "--until 0",
        "--until nan",
        "--limit 5",
        "--until 1e-3 --limit 0",
        "--until 1e-3 --limit 24",
        "--until 1e-3 --iterations 5 --limit 4 --simulate counts",
        "--variant best",
        "--nb 4",
    ]);
}
