//! NAS FT: a partial differential equation by Fourier transforms in three dimensions.
//!
//! A plane is transformed along x and y where it lies, a sheet along z where it lies; between them
//! every plane sends a piece to every sheet, and in each time step every sheet one to every plane.
//! Steps overlap: a piece travels while other planes and sheets are transformed. Transforms along a
//! line are rustfft's.
//!
//! Cost: 5·N·log₂N flops and 16N bytes between planes and sheets a step; two arrays of N complex
//! numbers, and pieces of two steps at most.
//!
//! # Source
//! The benchmark: [`problem`]. The graph: Sorensen, Baden, *Hiding communication latency with
//! non-SPMD, graph-based execution*, ICCS 2009, §4.
//!
//! # Elsewhere
//! The graph: [`space`]. Checksums to compare with: [`published`]. The experiment: [`common::variant`].

pub mod problem;
pub mod published;
pub mod space;

use common::cli::counts::is_counts_only;
use common::cli::settings::Variant;
use common::cli::{self, Example, Failure, Outcome, Settings};
use common::problem::SLOT;
use dataflow::Runtime;
use dataflow::core::rank::Rank;
use dataflow::core::words::counted;
use dataflow::linalg::matrix::digest::Digest;
use dataflow::linalg::scalar::c64;
use problem::{Extent, Problem};
use published::Class;
use serde_json::json;
use space::Transforms;
use std::process::ExitCode;

pub const EXAMPLE: Example = Example {
    name: "nas_ft",
    about: "Solves a differential equation by Fourier transforms (NAS FT)",
    runs: true,
    honours: &["variant", "check", "simulate"],
};

/// The flags of this example.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Own {
    /// One of the published sizes
    #[arg(long, value_name = "CLASS", default_value = "S")]
    class: Class,
    /// Another size, of which no checksums are published
    #[arg(long, value_name = "NXxNYxNZ", conflicts_with = "class")]
    size: Option<Extent>,
    /// Time steps of another size
    #[arg(long, value_name = "STEPS", default_value = "6", requires = "size", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    iterations: u32,
    /// Blocks of planes and blocks of sheets [default: 16 of each and a multiple of the ranks]
    #[arg(long, value_name = "PxQ", value_parser = blocks)]
    blocks: Option<[usize; 2]>,
}

impl Own {
    fn problem(&self) -> Problem {
        match self.size {
            None => Problem::of_class(self.class),
            Some(extent) => Problem::new(extent, self.iterations),
        }
    }

    /// Blocks of planes and of sheets.
    fn blocks(&self, Extent([nx, _, nz]): Extent, n_ranks: usize) -> Result<[usize; 2], Failure> {
        let usual = 16usize.next_multiple_of(n_ranks);
        let Some([planes, sheets]) = self.blocks else {
            return Ok([usual.min(nz), usual.min(nx)]);
        };
        if planes > nz || sheets > nx {
            return Err(Failure::refused(format!(
                "--blocks {planes}x{sheets}: there are {nz} planes and {nx} sheets"
            )));
        }
        Ok([planes, sheets])
    }
}

/// Blocks of planes and of sheets.
fn blocks(text: &str) -> Result<[usize; 2], String> {
    let blocks = text.split_once('x').and_then(|(planes, sheets)| {
        let blocks = [planes.parse().ok()?, sheets.parse().ok()?];
        (!blocks.contains(&0)).then_some(blocks)
    });
    blocks.ok_or_else(|| "blocks are two positive numbers, like 16x16".into())
}

/// The program.
pub fn main() -> ExitCode {
    cli::run(&EXAMPLE, transform)
}

/// The whole example.
pub fn transform(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let own = &settings.own;
    if settings.check == Some(true) && own.size.is_some() {
        let text = "--check: checksums are published of a --class, not of a --size";
        return Err(Failure::refused(text));
    }
    let extent = own.problem().extent;
    let n_ranks = settings.n_unstarted().unwrap_or(runtime.n_ranks());
    let blocks = own.blocks(extent, n_ranks)?;
    outcome.precision = Some("c64".into());
    outcome.set(
        "class",
        own.size.is_none().then(|| format!("{:?}", own.class)),
    );
    outcome.set("size", extent.to_string());
    outcome.set("blocks", format!("{}x{}", blocks[0], blocks[1]));
    expect_room(settings, blocks, runtime)?;
    let space = |stale| Transforms::new(own.problem(), blocks, n_ranks, runtime.memory(), stale);
    if settings.simulate.is_some() {
        return is_counts_only(&space(false), settings, outcome).map(drop);
    }

    let mut last = None;
    outcome.measured = settings.median(|_| {
        drop(last.take()); // before the next takes as much memory
        let transforms = last.insert(space(settings.variant == Variant::Ideal));
        settings.measure_variant(runtime, transforms)
    })?;
    match last {
        Some(transforms) => tell(settings, runtime, outcome, &transforms),
        None => Ok(()),
    }
}

/// Arrays of N complex numbers that all ranks hold at once, at least: U, and the pieces of a step; with the
/// variant `ideal` those that are read in their place. What is not run has none.
fn n_arrays(settings: &Settings<Own>) -> u128 {
    match (settings.simulate, settings.variant) {
        (Some(_), _) => 0,
        (None, Variant::Ideal) => 3,
        (None, _) => 2,
    }
}

/// Refuses more blocks and arrays than there is room for.
fn expect_room(
    settings: &Settings<Own>,
    [planes, sheets]: [usize; 2],
    runtime: &Runtime,
) -> Result<(), Failure> {
    let problem = settings.own.problem();
    let slots = problem.steps as u128 + planes as u128 * (sheets as u128 + 2);
    let array: u128 = problem.extent.0.iter().map(|&n| n as u128).product();
    let bytes = n_arrays(settings) * array * size_of::<c64>() as u128;
    let own = bytes.div_ceil(runtime.n_ranks() as u128);
    let asked = match settings.own.size {
        None => format!("--class {:?}", settings.own.class),
        Some(extent) => format!("--size {extent}"),
    };
    common::problem::expect_room(&asked, slots * SLOT + own, runtime)
}

/// Everything about the result.
fn tell(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
    transforms: &Transforms,
) -> Result<(), Failure> {
    let problem = &transforms.problem;
    outcome.set("iterations", problem.steps);
    let class = match settings.own.size {
        None => format!("class {:?}: ", settings.own.class),
        Some(_) => String::new(),
    };
    let ([planes, sheets], extent) = (transforms.blocks, problem.extent);
    let steps = counted(problem.steps, "step");
    outcome.say(format!(
        "{class}{extent} points, {steps}; blocks {planes}x{sheets}"
    ));
    outcome.rate("mops", "Mop/s", problem.operations() * 1e-6);
    let own = digest(transforms, runtime.rank());
    outcome.digest = Some(Digest(runtime.all_reduce(own.0, u64::wrapping_add)?).to_string());
    // They have come to rank 0.
    let checksums: Vec<c64> = (0..transforms.checksums.len())
        .filter_map(|at| Some(transforms.checksums.get(at)?.read()[0]))
        .collect();
    let pairs: Vec<_> = checksums
        .iter()
        .map(|sum| json!([sum.re, sum.im]))
        .collect();
    outcome.set("checksums", pairs);
    for (t, sum) in (1..).zip(&checksums) {
        outcome.say(format!("{t:>3} {:.10} {:.10}", sum.re, sum.im));
    }
    let error = match settings.check.unwrap_or(true) && runtime.rank() == Rank(0) {
        true => problem.error(&checksums),
        false => None,
    };
    outcome.verify(settings.variant, error, 1e-12)
}

/// The digest of a rank's planes of v (row z·NY + y, column x) and checksums (column −1).
fn digest(transforms: &Transforms, on: Rank) -> Digest {
    let [nx, ny, _] = transforms.problem.extent.0;
    let blocks = 0..transforms.blocks[0] as u32;
    let planes = blocks.filter_map(|p| {
        let v = transforms.planes.get(p as usize)?;
        let first = transforms.zs(p).start * ny;
        let rows = v.read().chunks_exact(nx).zip(first as u64..);
        let of_row = |(row, at): (&[c64], u64)| -> Digest {
            let values = row.iter().zip(0..);
            values
                .map(|(&value, x)| Digest::of_entry(at, x, value))
                .sum()
        };
        Some(rows.map(of_row).sum::<Digest>())
    });
    let sums = (0..transforms.checksums.len() as u64).filter_map(|t| {
        let sum = transforms.checksums.get(t as usize)?;
        Some(Digest::of_entry(t, u64::MAX, sum.read()[0]))
    });
    let of_sums: Digest = match on {
        Rank(0) => sums.sum(),
        _ => Digest::default(),
    };
    planes.sum::<Digest>() + of_sums
}
