//! Paper 003 (Thyme): how much of its communication a graph hides, as in its Fig. 1.
//!
//! Sixteen hosts of four workers play the variants `base`, `graph` and `ideal` of an application. The network
//! is no machine's: its rate is looked for until communication is as much of `base` as in the paper.
//! Communication is (base − ideal) ÷ base, hidden is (base − graph) ÷ (base − ideal).
//!
//! # Law
//! Hosts copy nothing to send or receive: only the network can keep a graph from hiding all.
//!
//! # Source
//! Sorensen, Baden, *Hiding communication latency with non-SPMD, graph-based execution*, ICCS 2009, §3.

#[path = "thyme/jacobi3d.rs"]
mod jacobi3d;
#[path = "thyme/matmul.rs"]
mod matmul;
#[path = "thyme/nas_ft.rs"]
mod nas_ft;
#[path = "thyme/shallow_water.rs"]
mod shallow_water;

use super::machine::Machine;
use super::sphere;
use super::world::Outcome;
use clap::ValueEnum;
use common::cli::settings::Variant;
use common::variant::{Base, Ideal, RoundTask, Rounds};
use dataflow::mpi::{Drive, Settings};
use dataflow::prelude::*;
use dataflow::simulate::{self, Stage};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub const RANKS: u32 = 16;
const WORKERS: usize = 4;

/// What the paper says of FT's communication: 35 to 43 % of `base`. The middle is looked for.
const SHARE: f64 = 0.39;
const FROM_THE_MIDDLE: f64 = 0.03;

/// An application at its size.
pub trait Application: Send + Sync {
    fn title(&self) -> String;

    /// Plays a rank's part.
    fn play(&self, part: &Part<'_>) -> Outcome<Duration>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Name {
    Jacobi3d,
    Matmul,
    NasFt,
    ShallowWater,
}

impl Name {
    /// At the paper's size, or smaller.
    pub fn application(self, quick: bool) -> Outcome<Arc<dyn Application>> {
        Ok(match self {
            Name::Jacobi3d => Arc::new(jacobi3d::Sweeps::new(quick)?),
            Name::Matmul => Arc::new(matmul::Product::new(quick)?),
            Name::NasFt => Arc::new(nas_ft::Exchange::new(quick)),
            Name::ShallowWater => Arc::new(shallow_water::Waves::new(quick)?),
        })
    }

    /// Which share of communication is hidden in Fig. 1, on its machines.
    pub fn published(self) -> &'static str {
        match self {
            Name::Jacobi3d => "43–78 %, 10–80 %",
            Name::Matmul => "61–93 %",
            Name::NasFt => "37–65 %",
            Name::ShallowWater => "",
        }
    }
}

/// A rank's part in a play.
pub struct Part<'p> {
    stage: &'p Stage,
    machine: &'p Machine,
    variant: Variant,
}

impl Part<'_> {
    /// Of a space whose data have so many bytes and whose tasks so many operations.
    fn of<S: Rounds>(
        &self,
        space: &S,
        bytes: &(dyn Fn(S::Task, usize) -> u64 + Sync),
        flops: &(dyn Fn(S::Task) -> f64 + Sync),
    ) -> Outcome<Duration> {
        let takes = self.machine.by_class(space);
        let time = |task: S::Task| Duration::from_secs_f64(takes[task.class()] * flops(task));
        match self.variant {
            Variant::Graph => self.stage.play(space, bytes, &time)?,
            Variant::Ideal => self.stage.play(&Ideal(space), bytes, &time)?,
            Variant::Base => {
                let bytes = |step, flow| match step {
                    RoundTask::Task(task) => bytes(task, flow),
                    RoundTask::Begin { .. } | RoundTask::End { .. } => 0,
                };
                let time = |step| match step {
                    RoundTask::Task(task) => time(task),
                    RoundTask::Begin { .. } | RoundTask::End { .. } => Duration::ZERO,
                };
                self.stage.play(&Base::new(space), &bytes, &time)?
            }
        };
        Ok(self.stage.now())
    }

    fn rank(&self) -> Rank {
        self.stage.rank()
    }
}

/// How it went on one network.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// 10⁹ bytes a second, in and out of a host.
    pub rate: f64,
    /// Seconds.
    pub base: f64,
    pub graph: f64,
    pub ideal: f64,
}

impl Row {
    pub fn communication(&self) -> f64 {
        (self.base - self.ideal) / self.base
    }

    pub fn hidden(&self) -> f64 {
        (self.base - self.graph) / (self.base - self.ideal)
    }

    /// As a row of a table, beside what is published.
    pub fn cells(&self, title: &str, published: &str) -> String {
        let [base, graph, ideal] = [self.base, self.graph, self.ideal].map(|seconds| 1e3 * seconds);
        format!(
            "| {title} | {:.2} | {base:.2} | {graph:.2} | {ideal:.2} | {:.1} % | {:.1} % | {published} |",
            self.rate,
            100.0 * self.communication(),
            100.0 * self.hidden(),
        )
    }

    pub fn json(&self, title: &str, published: &str) -> Value {
        json!({
            "application": title,
            "bytes_per_second": 1e9 * self.rate,
            "base_seconds": self.base,
            "graph_seconds": self.graph,
            "ideal_seconds": self.ideal,
            "communication": self.communication(),
            "hidden": self.hidden(),
            "published": published,
        })
    }
}

/// The variants of an application on the network on which communication is as much of `base` as it should.
pub fn row(application: &Arc<dyn Application>) -> Outcome<Row> {
    let machine = Machine::named("thyme")?;
    let seconds = |variant, rate| seconds(application, &machine.with_rate(rate), variant);
    let first = machine.rate();
    let ideal = seconds(Variant::Ideal, first)?;
    let share = |base: f64| (base - ideal) / base;
    // What `base` takes is nearly a line over 1 ÷ rate; a line through two points leads to a third.
    let wanted = ideal / (1.0 - SHARE);
    let mut last = (1.0 / first, seconds(Variant::Base, first)?);
    let mut next = 2.0 / first;
    for _ in 0..10 {
        let rate = 1.0 / next;
        let base = seconds(Variant::Base, rate)?;
        if (share(base) - SHARE).abs() <= FROM_THE_MIDDLE {
            let graph = seconds(Variant::Graph, rate)?;
            return Ok(Row {
                rate,
                base,
                graph,
                ideal,
            });
        }
        let slope = (base - last.1) / (next - last.0);
        last = (next, base);
        next = (next + (wanted - base) / slope).max(next / 8.0);
    }
    let text = format!("communication is {:.2} of base", share(last.1));
    Err(format!("{}: no network fits: {text}", application.title()).into())
}

/// What a variant takes.
fn seconds(
    application: &Arc<dyn Application>,
    machine: &Machine,
    variant: Variant,
) -> Outcome<f64> {
    let stage = simulate::Machine {
        ranks: RANKS as usize,
        threads: WORKERS,
        weather: machine.weather(RANKS as usize, 1),
        messages: Settings {
            // Nobody dies here.
            beat: Duration::from_secs(3600),
            silence: Duration::from_secs(36_000),
            drive: Drive::Dedicated,
            ..Settings::default()
        },
        ..simulate::Machine::default()
    };
    let (application, machine) = (application.clone(), machine.clone());
    let ends = stage.run(move |stage| {
        application.play(&Part {
            stage,
            machine: &machine,
            variant,
        })
    })?;
    let ends = ends.into_iter().collect::<Outcome<Vec<Duration>>>()?;
    Ok(ends.into_iter().max().unwrap_or_default().as_secs_f64())
}
