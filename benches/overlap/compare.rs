//! The same run on three networks: one that costs nothing, one that workers wait for, and one that
//! they do not.

use super::spaces::{Cholesky, N_RANKS, Stencil};
use super::world::{Outcome, on_ranks};
use dataflow::core::port::{Context, Courier, Heap, Memory, Wire};
use dataflow::core::rank::Rank;
use dataflow::core::run_across;
use dataflow::mpi::transport::simulated::{VirtualWorkers, Weather};
use dataflow::mpi::{Counters, Drive, Settings};
use dataflow::prelude::TaskSpace;
use serde_json::json;
use std::sync::Arc;

/// Workers of a rank.
pub const N_WORKERS: usize = 4;

/// Both problems, with messages moved by a thread of their own and by workers.
pub fn table(nt: usize, steps: u32) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for drive in [Drive::Dedicated, Drive::Workers] {
        let cholesky = move |rank| Cholesky::new(nt, rank);
        rows.push(Row::of(format!("Cholesky, nt = {nt}"), drive, cholesky)?);
        let stencil = move |_| Ok(Stencil { steps });
        rows.push(Row::of(format!("stencil, 64 × {steps}"), drive, stencil)?);
    }
    Ok(rows)
}

/// One line of the table; times in seconds.
pub struct Row {
    pub problem: String,
    pub drive: Drive,
    pub ideal: f64,
    pub blocking: f64,
    pub ours: f64,
    pub counters: Counters,
}

impl Row {
    fn of<S, M>(problem: String, drive: Drive, make: M) -> Outcome<Self>
    where
        S: TaskSpace<Datum: Wire>,
        M: Fn(Rank) -> Outcome<S> + Clone + Send + Sync + 'static,
    {
        let settings = Settings {
            drive,
            ..Settings::default()
        };
        let blocking = Settings {
            blocking: true,
            ..settings.clone()
        };
        let (ideal, _) = time(Weather::free(), &settings, make.clone())?;
        let (blocking, _) = time(Weather::default(), &blocking, make.clone())?;
        let (ours, counters) = time(Weather::default(), &settings, make)?;
        Ok(Row {
            problem,
            drive,
            ideal,
            blocking,
            ours,
            counters,
        })
    }

    /// The share of communication that is hidden behind work.
    pub fn hidden(&self) -> f64 {
        (self.blocking - self.ours) / (self.blocking - self.ideal)
    }

    /// Who moves messages.
    pub fn drive(&self) -> &'static str {
        match self.drive {
            Drive::Dedicated => "a thread",
            Drive::Workers => "workers",
        }
    }

    pub fn json(&self) -> serde_json::Value {
        json!({
            "problem": self.problem,
            "drive": self.drive(),
            "ideal_seconds": self.ideal,
            "seconds": self.ours,
            "blocking_seconds": self.blocking,
            "hidden_share": self.hidden(),
            "messages": self.counters.messages,
            "bytes": self.counters.bytes(),
            "activations": self.counters.activations,
            "packets": self.counters.packets,
        })
    }
}

/// Virtual seconds until the last rank has its run behind it, and what travelled.
fn time<S, M>(weather: Weather, settings: &Settings, make: M) -> Outcome<(f64, Counters)>
where
    S: TaskSpace<Datum: Wire>,
    M: Fn(Rank) -> Outcome<S> + Send + Sync + 'static,
{
    let heap = |_| -> Arc<dyn Memory> { Arc::new(Heap) };
    let ran = on_ranks(weather, N_RANKS, settings, heap, move |world, messenger| {
        let workers = VirtualWorkers::new(world, messenger.rank(), N_WORKERS);
        let space = make(messenger.rank())?;
        run_across(&space, &Context::new(&workers).across(messenger))?;
        Outcome::Ok((world.now(), messenger.totals()))
    })?;
    let ran = ran.into_iter().collect::<Outcome<Vec<_>>>()?;
    let last = ran.iter().map(|(at, _)| *at).max().unwrap_or_default();
    let counters = ran.first().map(|(_, counters)| *counters);
    Ok((last.as_secs_f64(), counters.unwrap_or_default()))
}
