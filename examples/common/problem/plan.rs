//! Whether a run fits into memory, asked before anything is made; and the whole answer of `--plan`.

use super::cli::{Failure, Flags, Outcome, Settings};
use super::report::tiles_of_peak;
use super::{Problem, is_checked};
use clap::Args;
use dataflow::Runtime;
use dataflow::core::rank::Rank;
use dataflow::linalg::LinalgError;
use dataflow::linalg::matrix::Layout;
use dataflow::linalg::needs::{self, Needs, available};
use dataflow::linalg::scalar::Scalar;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Bytes of memory for each of the ranks that share this machine: of what was free when it was
/// asked for first, before anything was made.
pub fn memory_of(runtime: &Runtime) -> u64 {
    static FREE: OnceLock<u64> = OnceLock::new();
    let free = *FREE.get_or_init(available);
    free / runtime.n_ranks_here() as u64
}

/// Bytes of a slot of a store, at least.
pub const SLOT: u128 = 40;

/// Refuses what this rank would hold outside of matrices, as far as it is known before it is made, if there is
/// no room for so many bytes; `asked` are the words that asked for it.
pub fn expect_room(asked: &str, bytes: u128, runtime: &Runtime) -> Result<(), Failure> {
    let needs = Needs {
        held: bytes,
        ..Needs::default()
    };
    let refused = |error| Failure::new("does_not_fit", format!("{asked}: {error}"));
    needs.expect_room(memory_of(runtime)).map_err(refused)
}

/// Bytes of a recorded task: what it says of itself and of three accesses, its body, and its waits.
pub const OF_A_TASK: u128 = 240;

/// The same for each of ranks that are not started; `None` where they would not be on this machine.
fn memory_of_planned(flags: &Flags, runtime: &Runtime) -> Option<u64> {
    let Some(n_ranks) = flags.n_unstarted() else {
        return Some(memory_of(runtime));
    };
    // This process is the only rank.
    let all = memory_of(runtime);
    flags.would_be_here(n_ranks).then(|| all / n_ranks as u64)
}

/// What a run on a matrix takes, then what its check takes if there is one, and beside both the matrix
/// of a file, which stays as it was.
pub fn then_checked<T: Scalar, Own: Args>(
    settings: &Settings<Own>,
    there: &Layout,
    run: Needs,
    check: impl FnOnce() -> Result<Needs, LinalgError>,
) -> Result<Needs, Failure> {
    let all = match is_checked(settings, there.rows().max(there.cols())) {
        true => run.then(check()?),
        false => run,
    };
    Ok(match settings.input {
        Some(_) => all.and(needs::matrix::<T>(there)),
        None => all,
    })
}

/// More tiles than these are not looked at one by one …
const MOST_TILES: u128 = 1 << 26;
/// … nor, of several ranks, more than these in all.
const MOST_LOOKS: u128 = 1 << 28;

impl<Own: Args> Problem<'_, Own> {
    /// Notes what each rank needs, if that is what was asked for: then nothing is to be computed, and it
    /// fails if not even what is held fits. Otherwise refuses a run for which this rank has no room.
    /// Counted are the matrices that an example works on, those that its check makes where it makes whole
    /// ones, and the one that a file leaves.
    pub fn is_plan_only<T: Scalar, const N: usize>(
        &mut self,
        layouts: [Layout; N],
        needs: impl Fn([Layout; N]) -> Result<Needs, Failure>,
    ) -> Result<bool, Failure> {
        let n_tiles = |layout: &Layout| layout.mt() as u128 * layout.nt() as u128;
        let n_tiles = layouts.iter().map(n_tiles).fold(0, u128::saturating_add);
        let n_ranks = self.settings.n_unstarted().unwrap_or(1) as u128;
        let is_told = n_tiles <= MOST_TILES && n_tiles * n_ranks <= MOST_LOOKS;
        let beside = beside(tiles_of_peak::<T>, self.settings, self.runtime);
        let of_rank = |rank: Rank| {
            let mut there = layouts;
            let mut matrices = Needs::default();
            for layout in &mut there {
                *layout = layout.distributed(*layout.distribution(), rank)?;
                matrices = matrices.and(needs::matrix::<T>(layout));
            }
            match is_told {
                true => needs(there).map(|of| of.and(beside)),
                false => Ok(matrices),
            }
        };
        is_plan_only(self.settings, self.runtime, self.outcome, is_told, &of_rank)
    }
}

/// Tells what every rank needs, or refuses what this one has no room for.
fn is_plan_only(
    flags: &Flags,
    runtime: &Runtime,
    outcome: &mut Outcome,
    is_told: bool,
    of_rank: &dyn Fn(Rank) -> Result<Needs, Failure>,
) -> Result<bool, Failure> {
    if flags.plan {
        let n_ranks = flags.n_unstarted().unwrap_or(runtime.n_ranks());
        let ranks = (0..n_ranks as u32).map(|rank| of_rank(Rank(rank)));
        let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
        let available = memory_of_planned(flags, runtime);
        tell(&ranks, available, is_told, outcome);
        let mut refused = ranks
            .iter()
            .filter_map(|of| Some(of.expect_room(available?)));
        return Ok(refused.try_for_each(|room| room).map(|()| true)?);
    }
    let available = memory_of(runtime);
    let refused = |error: needs::DoesNotFit| match &flags.input {
        Some(file) => Failure::new("does_not_fit", format!("{}: {error}", file.display())),
        None => error.into(),
    };
    let room = of_rank(runtime.rank())?.expect_room(available);
    room.map_err(refused).map(|()| false)
}

/// What every run takes beside its matrices. Only people are told the rate of gemm, which is measured
/// while all matrices are there.
fn beside(tiles_of_peak: fn(usize) -> u128, flags: &Flags, runtime: &Runtime) -> Needs {
    let workers = runtime.n_threads();
    let of_peak = match flags.json {
        true => 0,
        false => tiles_of_peak(workers),
    };
    Needs {
        workspace: of_peak + needs::process(workers),
        ..Needs::default()
    }
}

/// Tells what each rank needs of the bytes that it may have, if they are known, and whether that fits.
fn tell(ranks: &[Needs], available: Option<u64>, is_told: bool, outcome: &mut Outcome) {
    for (rank, of) in ranks.iter().enumerate() {
        let held = format!("rank {rank}: {} bytes held", of.held);
        outcome.say(match is_told {
            true => format!(
                "{held}, at most {} received, {} to work in: {}",
                of.received,
                of.workspace,
                of.at_most()
            ),
            false => format!("{held}, the rest is not told of so many tiles"),
        });
    }
    let verdict = available.map(|available| verdict(ranks, available, is_told));
    outcome.say(match available.zip(verdict) {
        Some((available, verdict)) => {
            format!("{available} bytes available to each rank: {verdict}")
        }
        None => "what there is for ranks on other machines is not known here".into(),
    });
    let ranks: Vec<Value> = ranks.iter().map(|of| numbers(of, is_told)).collect();
    let plan = json!({ "ranks": ranks, "available_bytes": available, "verdict": verdict });
    outcome.set("plan", plan);
}

/// Whether all of them have room in so many bytes each.
fn verdict(ranks: &[Needs], available: u64, is_told: bool) -> &'static str {
    let fits = |bytes: fn(&Needs) -> u128| ranks.iter().all(|of| bytes(of) <= available.into());
    match (fits(|of| of.held), is_told && fits(Needs::at_most)) {
        (false, _) => "cannot fit",
        (true, false) => "may not fit",
        (true, true) => "fits",
    }
}

/// What a rank needs, as an object; null what is not told.
fn numbers(of: &Needs, is_told: bool) -> Value {
    // Bytes beyond what JSON's readers count exactly fit no machine.
    let bytes = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    let told = |of: u128| is_told.then(|| bytes(of));
    json!({
        "held_bytes": bytes(of.held),
        "received_bytes": told(of.received),
        "workspace_bytes": told(of.workspace),
        "at_most_bytes": told(of.at_most()),
    })
}

impl From<needs::DoesNotFit> for Failure {
    fn from(error: needs::DoesNotFit) -> Self {
        Failure::new("does_not_fit", error.to_string())
    }
}
