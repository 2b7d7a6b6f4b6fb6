//! The example `nas_ft`: its graph, its numbers, and that nothing but the problem shows in its bits.

#[path = "../edges/mod.rs"]
mod edges;
#[path = "../told/mod.rs"]
mod told;

use applications::nas_ft;
use applications::nas_ft::problem::{Extent, Problem, Random};
use applications::nas_ft::published::Class;
use applications::nas_ft::space::{Task, Transforms};
use common::variant::{Base, Ideal};
use dataflow::core::port::{Context, Executor, Heap, Inline, Shuffled};
use dataflow::core::run;
use dataflow::core::space::TaskName;
use dataflow::core::trace::Tracer;
use dataflow::linalg::scalar::c64;
use dataflow::prelude::*;
use edges::every_edge_counts;
use std::f64::consts::TAU;
use std::sync::Arc;
use told::tells;

tells!(nas_ft, transform);

fn transforms(extent: [usize; 3], steps: u32, blocks: [usize; 2], n_ranks: usize) -> Transforms {
    let problem = Problem::new(Extent(extent), steps);
    Transforms::new(problem, blocks, n_ranks, Arc::new(Heap), false)
}

#[test]
fn both_ends_of_every_edge_agree_in_every_variant() {
    for (blocks, n_ranks) in [
        ([1, 1], 1),
        ([3, 2], 1),
        ([2, 4], 2),
        ([3, 3], 3),
        ([1, 5], 4),
    ] {
        for steps in [1, 2, 5] {
            let space = transforms([5, 4, 3], steps, blocks, n_ranks);
            let ranks = n_ranks as u32;
            let proved = verify(&space, ranks)
                .and(verify(&Base::new(&space), ranks))
                .and(verify(&Ideal(&space), ranks));
            proved.unwrap_or_else(|fault| panic!("{blocks:?}, {steps} steps: {fault}"));
        }
    }
}

#[test]
fn each_end_of_an_edge_that_is_wrong_is_found() {
    every_edge_counts(&transforms([4, 4, 4], 3, [2, 3], 1), 1);
    every_edge_counts(&Base::new(&transforms([4, 4, 4], 3, [2, 2], 2)), 2);
}

/// The tasks of a run on one thread, in the order in which they ran.
fn order(space: &Transforms, on: &dyn Executor) -> Vec<Task> {
    let tracer = Tracer::new(1 << 16);
    run(space, &Context::new(on).traced_by(&tracer)).unwrap();
    let [trace] = &tracer.take()[..] else {
        panic!("one run");
    };
    let slices = trace.ranks[0].slices.iter();
    slices.map(|slice| Task::unpack(slice.task)).collect()
}

/// Steps hold memory: that none is far ahead is said by edges alone, which no number depends on.
#[test]
fn no_step_begins_before_the_checksum_of_the_second_before_it() {
    let mut ahead = 0;
    for seed in 0..20 {
        let mut summed = 0;
        for task in order(&transforms([4, 3, 4], 7, [2, 3], 1), &Shuffled::new(seed)) {
            match task {
                Task::Evolve { t, q } => {
                    assert!(
                        t <= summed + 2,
                        "seed {seed}: Evolve {t}, {q} after {summed}"
                    );
                    ahead += usize::from(t == summed + 2);
                }
                Task::Sum { t } => summed = summed.max(t),
                _ => {}
            }
        }
    }
    assert!(ahead > 0, "steps do not overlap");
}

/// With each `Evolve` before all `Back` less communication was hidden.
#[test]
fn earlier_steps_are_more_urgent_and_back_takes_turns_with_the_next_evolve() {
    let space = transforms([4, 3, 4], 7, [2, 3], 1);
    let urgency = |task| space.priority(task);
    for t in 1..7 {
        for (p, q) in (0..2).flat_map(|p| (0..3).map(move |q| (p, q))) {
            let back = urgency(Task::Back { t, p });
            assert_eq!(back, urgency(Task::Evolve { t: t + 1, q }));
            assert!(back > urgency(Task::Sum { t }));
            assert!(urgency(Task::Sum { t }) > urgency(Task::Back { t: t + 1, p }));
        }
    }
    let steps = order(&space, &Inline)
        .into_iter()
        .filter_map(|task| match task {
            Task::Back { t, .. } => Some(t),
            _ => None,
        });
    assert!(steps.is_sorted(), "a worker alone goes back step by step");
}

#[test]
fn the_random_numbers_are_those_of_the_benchmark() {
    let mut random = Random::after(0);
    let first = [(); 4].map(|()| random.step());
    let expected = [
        55909509111989,
        61155031930969,
        45573031421645,
        55279057169489,
    ];
    assert_eq!(first, expected);
    let mut random = Random::after(3);
    assert_eq!(random.step(), expected[3]);
    let problem = Problem::of_class(Class::S);
    let planes = (0..64).map(|z| {
        let mut plane = vec![c64::default(); 64 * 64];
        problem.fill(z, &mut plane);
        plane
    });
    let planes: Vec<_> = planes.collect();
    let sum: c64 = planes.iter().flatten().sum();
    let expected = c64::new(130910.3458041288, 130852.659011472);
    assert!((sum - expected).norm() < 1e-6, "{sum}"); // 262,144 terms
    let last = planes[63][64 * 64 - 1];
    assert!(
        (last - c64::new(0.1729437280659596, 0.2992670775297626)).norm() < 1e-15,
        "{last}"
    );
}

#[test]
fn the_checksums_of_classes_s_and_w_are_the_published_ones() {
    for arguments in [
        "--class S --threads 2",
        "--class W --blocks 5x3",
        "--class S --ranks 3 --threads 1",
    ] {
        let told = told(arguments);
        assert_eq!(told["verified"], true, "{told}");
        assert!(told["verification_error"].as_f64() < Some(1e-12), "{told}");
        assert!(told["mops"].as_f64() > Some(0.0), "{told}");
    }
}

#[test]
fn checksums_that_are_missing_are_wrong() {
    let problem = Problem::of_class(Class::S);
    let published = problem.published.unwrap().iter();
    let checksums: Vec<c64> = published.map(|&[re, im]| c64::new(re, im)).collect();
    assert_eq!(problem.error(&checksums), Some(0.0));
    for n in 0..checksums.len() {
        assert_eq!(problem.error(&checksums[..n]), Some(f64::INFINITY), "{n}");
    }
}

#[test]
#[ignore = "minutes, and 2 GB"]
fn the_checksums_of_classes_a_and_b_are_the_published_ones() {
    for class in ["A", "B"] {
        let told = told(&format!("--class {class}"));
        assert_eq!(told["verified"], true, "{told}");
        assert!(told["verification_error"].as_f64() < Some(1e-12), "{told}");
    }
}

/// v of a small box by its definition.
#[test]
fn any_length_is_transformed_as_the_definition_says() {
    let extent @ [nx, ny, nz] = [6, 5, 7];
    let space = transforms(extent, 2, [3, 2], 1);
    run(&space, &Shuffled::new(1)).unwrap();
    let mut u = vec![c64::default(); nx * ny * nz];
    for (z, plane) in u.chunks_exact_mut(nx * ny).enumerate() {
        space.problem.fill(z, plane);
    }
    let places: Vec<[usize; 3]> = (0..nx * ny * nz)
        .map(|at| [at % nx, at / nx % ny, at / nx / ny])
        .collect();
    let transformed = |values: &[c64], sign: f64| -> Vec<c64> {
        let at = |k: &[usize; 3]| -> c64 {
            let terms = places.iter().zip(values).map(|(x, value)| {
                let turns: f64 = (0..3)
                    .map(|axis| (x[axis] * k[axis]) as f64 / extent[axis] as f64)
                    .sum();
                value * c64::from_polar(1.0, sign * TAU * turns)
            });
            terms.sum()
        };
        places.iter().map(at).collect()
    };
    let mut frequencies = transformed(&u, -1.0);
    for (k, value) in places.iter().zip(&mut frequencies) {
        let square: f64 = (0..3)
            .map(|axis| {
                let (k, n) = (k[axis] as f64, extent[axis] as f64);
                let wave = if k < n / 2.0 { k } else { k - n };
                wave * wave
            })
            .sum();
        *value *= (-TAU * TAU * 1e-6 * square * 2.0).exp();
    }
    let v = transformed(&frequencies, 1.0);
    let computed: Vec<c64> = (0..3)
        .flat_map(|p| space.planes.get(p).unwrap().read().to_vec())
        .collect();
    let scale = (nx * ny * nz) as f64;
    let most = v
        .iter()
        .zip(&computed)
        .map(|(a, b)| (a - b).norm() / scale)
        .fold(0.0, f64::max);
    assert!(most < 1e-12, "{most}");
    // What is not faded comes back N times: Σ|u|² and Σ|v|² are of one size.
    let energy = |of: &[c64]| of.iter().map(c64::norm_sqr).sum::<f64>();
    let share = energy(&computed) / energy(&u) / scale / scale;
    assert!(share < 1.0 && share > 0.99, "{share}");
}

#[test]
fn blocks_threads_ranks_and_base_do_not_show_in_the_digest() {
    let common = "--size 20x12x18 --iterations 5";
    let expected = told(&format!("{common} --blocks 1x1 --threads 1"));
    assert!(
        expected["verified"].is_null() && !expected["digest"].is_null(),
        "{expected}"
    );
    for arguments in [
        "--blocks 18x20 --threads 3",
        "--blocks 5x7 --threads 2",
        "--ranks 2 --threads 1",
        "--ranks 3 --threads 1 --blocks 2x5",
        "--ranks 4 --threads 1 --blocks 7x4 --variant base",
        "--ranks 5 --threads 1 --blocks 18x9",
        "--ranks 6 --threads 1",
    ] {
        let told = told(&format!("{common} {arguments}"));
        assert_eq!(told["digest"], expected["digest"], "{arguments}: {told}");
        assert_eq!(told["copies"], 0, "{arguments}");
    }
}

#[test]
fn without_edges_between_ranks_the_checksums_are_wrong_and_nothing_travels() {
    let told = told("--class S --ranks 2 --threads 1 --variant ideal");
    assert!(told["verified"].is_null(), "{told}");
    assert!(told["verification_error"].as_f64() > Some(1e-3), "{told}");
    assert_eq!(told["messages"], 0);
}

/// The page for people gave checksums without the size that they are of.
#[test]
fn people_are_told_what_was_transformed() {
    for (flags, says) in [
        (
            "--class S",
            "class S: 64x64x64 points, 6 steps; blocks 16x16\n",
        ),
        (
            "--size 4x4x4 --iterations 1",
            "\n4x4x4 points, 1 step; blocks 4x4\n",
        ),
    ] {
        let words = ["nas_ft"].into_iter().chain(flags.split(' '));
        let answer = common::cli::answer(&nas_ft::EXAMPLE, words, nas_ft::transform);
        assert!(answer.stdout.contains(says), "{answer:?}");
    }
}

#[test]
fn bad_arguments_are_one_line_and_status_two() {
    must_be_refused(&[
        "--class D",
        "--class S --size 4x4x4",
        "--size 4x4",
        "--size 0x4x4",
        "--iterations 3",
        "--size 4x4x4 --iterations 0",
        "--size 4x4x4 --iterations 4294967297",
        "--blocks 65x1",
        "--n 64",
    ]);
}
